//! The fields of the IETF drafts that hold structured values (RFC 9651), and the policies that
//! older drafts append to a limit. A malformed value is ignored as a whole.

use super::measure::Arrival;
use super::{Basis, FieldKind as Kind, FieldUnit as Unit, LimitField};
use crate::domain::time::Millis;
use sfv::{BareItem, Dictionary, Item, List, ListEntry, Parameters, Parser};

/// How many members of one field are read.
const MOST_MEMBERS: usize = 32;

const MALFORMED: &str = "malformed: the field is ignored as a whole";

/// `RateLimit`: the dictionary of draft 07, or the list of drafts 08 and later.
pub(super) fn rate_limit(text: &str, arrival: Arrival) -> Vec<LimitField> {
    let fields = if says_draft_07(text) {
        rate_limit_07(text, arrival)
    } else {
        rate_limit_08(text, arrival)
    };
    fields.unwrap_or_else(|| vec![malformed("ratelimit", text, Kind::Remaining)])
}

/// `RateLimit-Policy` of every draft.
pub(super) fn policies(text: &str) -> Vec<LimitField> {
    policy_list("ratelimit-policy", text, None)
        .unwrap_or_else(|| vec![malformed("ratelimit-policy", text, Kind::Policy)])
}

/// A limit followed by its policies, as drafts 01 to 03 and Envoy write it: `100, 100;w=60`.
/// `None` where the value is no such list.
pub(super) fn limit_with_policies(
    header: &str,
    text: &str,
    owner: Option<&'static str>,
    basis: Basis,
) -> Option<Vec<LimitField>> {
    let list: List = Parser::new(text).parse().ok()?;
    let mut members = list.into_iter().take(MOST_MEMBERS);
    let Some(ListEntry::Item(first)) = members.next() else { return None };
    let limit = whole(&first.bare_item)?;
    let blank = LimitField::new(header, text, Kind::Limit);
    let mut fields = vec![LimitField {
        owner,
        basis,
        unit: Unit::Requests,
        value: Some(number(limit)),
        window: window(&first.params)?,
        ..blank.clone()
    }];
    for member in members {
        let ListEntry::Item(item) = member else { return None };
        fields.push(LimitField {
            kind: Kind::Policy,
            owner,
            basis,
            unit: Unit::Requests,
            value: Some(number(whole(&item.bare_item)?)),
            window: window(&item.params)?,
            policy: text_parameter(&item.params, "name"),
            ..blank.clone()
        });
    }
    Some(fields)
}

fn says_draft_07(text: &str) -> bool {
    !text.contains(";r=") && !text.contains("; r=") && text.contains("limit=")
}

fn rate_limit_07(text: &str, arrival: Arrival) -> Option<Vec<LimitField>> {
    let members: Dictionary = Parser::new(text).parse().ok()?;
    let member = |name: &str| -> Option<Option<i64>> {
        match members.get(name) {
            None => Some(None),
            Some(ListEntry::Item(item)) => whole(&item.bare_item).map(Some),
            Some(ListEntry::InnerList(_)) => None,
        }
    };
    let blank = ietf("ratelimit", text, Kind::Limit);
    let mut fields = Vec::new();
    if let Some(limit) = member("limit")? {
        fields.push(LimitField { value: Some(number(limit)), ..blank.clone() });
    }
    if let Some(remaining) = member("remaining")? {
        fields.push(LimitField {
            kind: Kind::Remaining,
            value: Some(number(remaining)),
            ..blank.clone()
        });
    }
    if let Some(reset) = member("reset")? {
        fields.push(reset_field(&blank, reset, None, arrival));
    }
    (!fields.is_empty()).then_some(fields)
}

fn rate_limit_08(text: &str, arrival: Arrival) -> Option<Vec<LimitField>> {
    let list: List = Parser::new(text).parse().ok()?;
    let mut fields = Vec::new();
    for entry in list.into_iter().take(MOST_MEMBERS) {
        let item = plain_item(entry)?;
        let (policy, note) = name_of(&item.bare_item)?;
        let remaining = whole(item.params.get("r")?)?;
        let reset = match item.params.get("t") {
            Some(seconds) => Some(whole(seconds)?),
            None => None,
        };
        let blank = LimitField {
            policy: Some(policy),
            note: note.map(str::to_owned),
            ..ietf("ratelimit", text, Kind::Remaining)
        };
        if let Some(seconds) = reset {
            let policy = blank.policy.clone();
            fields.push(LimitField { value: Some(number(remaining)), ..blank.clone() });
            fields.push(reset_field(&blank, seconds, policy, arrival));
        } else {
            fields.push(LimitField { value: Some(number(remaining)), ..blank });
        }
    }
    (!fields.is_empty()).then_some(fields)
}

fn policy_list(header: &str, text: &str, note: Option<&str>) -> Option<Vec<LimitField>> {
    let list: List = Parser::new(text).parse().ok()?;
    let mut fields = Vec::new();
    for entry in list.into_iter().take(MOST_MEMBERS) {
        let item = plain_item(entry)?;
        let blank =
            LimitField { note: note.map(str::to_owned), ..ietf(header, text, Kind::Policy) };
        let window = window(&item.params)?;
        // Drafts 04 to 07 put the quota where the later ones have the name.
        if let Some(quota) = whole(&item.bare_item) {
            fields.push(LimitField { value: Some(number(quota)), window, ..blank });
            continue;
        }
        let (policy, note) = name_of(&item.bare_item)?;
        let quota = whole(item.params.get("q")?)?;
        let unit = match text_parameter(&item.params, "qu").as_deref() {
            None | Some("requests") => Unit::Requests,
            Some("content-bytes") => Unit::Bytes,
            Some("concurrent-requests") => Unit::Concurrency,
            Some(_) => Unit::Unknown,
        };
        fields.push(LimitField {
            unit,
            value: Some(number(quota)),
            window,
            policy: Some(policy),
            note: note.map(str::to_owned).or(blank.note),
            ..ietf(header, text, Kind::Policy)
        });
    }
    (!fields.is_empty()).then_some(fields)
}

fn ietf(header: &str, text: &str, kind: Kind) -> LimitField {
    LimitField {
        owner: Some("ietf"),
        basis: Basis::Name,
        unit: Unit::Requests,
        ..LimitField::new(header, text, kind)
    }
}

fn malformed(header: &str, text: &str, kind: Kind) -> LimitField {
    LimitField {
        owner: Some("ietf"),
        basis: Basis::Name,
        note: Some(MALFORMED.to_owned()),
        ..LimitField::new(header, text, kind)
    }
}

fn reset_field(
    blank: &LimitField,
    seconds: i64,
    policy: Option<String>,
    arrival: Arrival,
) -> LimitField {
    let left = Millis::from_secs(seconds).0.saturating_sub(arrival.age.0).max(0);
    LimitField {
        kind: Kind::Reset,
        unit: Unit::Seconds,
        value: Some(number(seconds)),
        reset_in: Some(Millis(left)),
        policy,
        ..blank.clone()
    }
}

fn plain_item(entry: ListEntry) -> Option<Item> {
    match entry {
        ListEntry::Item(item) => Some(item),
        ListEntry::InnerList(_) => None,
    }
}

/// The name of a policy. The drafts want a quoted string; bare tokens occur in their own examples.
fn name_of(item: &BareItem) -> Option<(String, Option<&'static str>)> {
    match item {
        BareItem::String(name) => Some((name.as_str().to_owned(), None)),
        BareItem::Token(name) => {
            Some((name.as_str().to_owned(), Some("the policy name is not quoted")))
        }
        _ => None,
    }
}

/// A whole number that is not negative.
fn whole(item: &BareItem) -> Option<i64> {
    match item {
        BareItem::Integer(value) => Some(i64::from(*value)).filter(|value| *value >= 0),
        _ => None,
    }
}

/// The window `w`: the inner `None` where there is none, the outer one where it is malformed.
#[expect(clippy::option_option, reason = "absent and malformed lead to different readings")]
fn window(parameters: &Parameters) -> Option<Option<Millis>> {
    match parameters.get("w") {
        None => Some(None),
        Some(seconds) => whole(seconds).map(|seconds| Some(Millis::from_secs(seconds))),
    }
}

fn text_parameter(parameters: &Parameters, name: &str) -> Option<String> {
    match parameters.get(name)? {
        BareItem::String(text) => Some(text.as_str().to_owned()),
        BareItem::Token(text) => Some(text.as_str().to_owned()),
        _ => None,
    }
}

#[expect(clippy::cast_precision_loss, reason = "structured integers have at most 15 digits")]
fn number(value: i64) -> f64 {
    value as f64
}
