//! From the fields of a response to what they state.

use super::entry::{self, Captured, Entry, PERIODS};
use super::measure::{self, Arrival, Measured};
use super::{
    Basis, FAMILIES, FieldKind, FieldUnit, LimitField, owners, provider_of, replay, structured,
};
use crate::domain::response::HeaderFields;
use crate::domain::time::{Millis, UnixMillis};
use std::sync::LazyLock;

/// Parts of names, one of which every entry of the dictionary has; most fields have none of them.
const NAME_PARTS: [&str; 8] =
    ["rate", "retry", "limit", "mitigated", "concurrent", "waf-action", "overloaded", "charge"];

/// Beginnings of names that are about limits even where the dictionary does not have them.
const LIMIT_PREFIXES: [&str; 3] = ["x-ratelimit", "x-rate-limit", "ratelimit"];

/// How many rate-limit fields of one response are read.
pub(super) const MOST_FIELDS: usize = 128;

/// Reads every rate-limit field of a response except `retry-after`, which
/// [`crate::domain::retry_after::read`] reads.
///
/// `host` is the request's host, a path may follow it (`gitlab.com/api/v4`); `observed_at` is the
/// base for moments only where the response has no valid `Date`.
pub fn read(
    headers: &HeaderFields,
    host: Option<&str>,
    observed_at: Option<UnixMillis>,
) -> Vec<LimitField> {
    let age = replay::age(headers).unwrap_or_default();
    let arrival = Arrival {
        // A replay keeps the `Date` of the stored response; `Age` says how long ago that was.
        base: replay::server_date(headers, observed_at).map(|date| date.plus(age)).or(observed_at),
        age,
    };
    let provider =
        host.and_then(|host| match host.find('/').and_then(|at| host.split_at_checked(at)) {
            Some((host, path)) => provider_of(host, Some(path)),
            None => provider_of(host, None),
        });
    let reader = Reader { headers, provider, arrival };

    let mut fields: Vec<LimitField> = Vec::new();
    let mut lists_done: Vec<&str> = Vec::new();
    for (name, value) in headers.iter() {
        if fields.len() >= MOST_FIELDS {
            break;
        }
        if matches!(name, "ratelimit" | "ratelimit-policy") {
            if !lists_done.contains(&name) {
                lists_done.push(name);
                fields.extend(reader.list(name));
            }
        } else if name != "retry-after" {
            fields.extend(reader.field(name, value));
        }
    }
    join_policies(&mut fields);
    fields
}

/// The waits and windows that other fields of the same response state, for a second opinion on
/// `retry-after`.
pub(crate) fn waits_beside_retry_after(
    headers: &HeaderFields,
    observed_at: Option<UnixMillis>,
) -> Vec<Millis> {
    read(headers, None, observed_at)
        .into_iter()
        .flat_map(|field| [field.reset_in, field.window])
        .flatten()
        .collect()
}

/// What is known while the fields of one response are read.
struct Reader<'a> {
    headers: &'a HeaderFields,
    provider: Option<&'static str>,
    arrival: Arrival,
}

/// An entry that matches a field's name.
#[derive(Clone, Copy)]
struct Candidate<'a> {
    entry: &'static Entry,
    captured: Captured<'a>,
}

impl Reader<'_> {
    /// A field that is a list over all its lines.
    fn list(&self, name: &str) -> Vec<LimitField> {
        let text = self.headers.all(name).collect::<Vec<_>>().join(", ");
        let mut fields = if name == "ratelimit" {
            structured::rate_limit(&text, self.arrival)
        } else {
            structured::policies(&text)
        };
        for field in &mut fields {
            self.add_standing(field);
        }
        fields
    }

    /// What the drafts say about fields in a replayed response and beside `retry-after`.
    fn add_standing(&self, field: &mut LimitField) {
        if replay::is_replay(self.headers) {
            field.value = None;
            field.reset_in = None;
            field.note = Some("ignored: a cache replayed the response".to_owned());
        } else if field.kind == FieldKind::Reset && self.headers.has("retry-after") {
            field.note.get_or_insert_with(|| "retry-after decides where both are sent".to_owned());
        }
    }

    /// One line of one field.
    fn field(&self, name: &str, value: &str) -> Vec<LimitField> {
        let candidates = candidates(name);
        let Some(first) = candidates.first() else { return self.unlisted(name, value) };
        let chosen = self.choose(&candidates, value);
        if matches!(name, "ratelimit-limit" | "x-ratelimit-limit") && value.contains([',', ';']) {
            let owner = chosen.map(|(candidate, _)| candidate.entry.owner);
            let basis = chosen.map_or(Basis::None, |(_, basis)| basis);
            if let Some(mut fields) = structured::limit_with_policies(name, value, owner, basis) {
                if owner == Some("ietf") {
                    for field in &mut fields {
                        self.add_standing(field);
                    }
                }
                return fields;
            }
        }
        let Some((candidate, basis)) = chosen else {
            return vec![self.by_shape(name, value, first.entry.kind)];
        };
        let entry = candidate.entry;
        if let Some(pair) = used_of_size(entry, name, value, basis) {
            return pair;
        }
        let mut field = LimitField {
            owner: Some(entry.owner),
            basis,
            unit: entry.unit,
            window: candidate.captured.period.and_then(period_length),
            policy: candidate.captured.name.or(candidate.captured.period).map(str::to_owned),
            ..LimitField::new(name, value, entry.kind)
        };
        match entry.kind {
            FieldKind::Reset | FieldKind::Wait => self.add_time(&mut field, entry.unit),
            FieldKind::Limit | FieldKind::Remaining | FieldKind::Used | FieldKind::Policy => {
                add_amount(&mut field);
            }
            FieldKind::Reason | FieldKind::Scope | FieldKind::Retryable => {}
        }
        if entry.owner == "ietf" {
            self.add_standing(&mut field);
        }
        vec![field]
    }

    /// Whose field it is: the host's, else the owner whose companions are there, else the only
    /// owner of the name or the standard. Those found without the host must be able to read the
    /// value.
    fn choose<'a>(
        &self,
        candidates: &[Candidate<'a>],
        value: &str,
    ) -> Option<(Candidate<'a>, Basis)> {
        if let Some(provider) = self.provider
            && let Some(owned) = candidates.iter().find(|c| c.entry.owner == provider)
        {
            return Some((*owned, Basis::Host));
        }
        let readable: Vec<Candidate<'a>> =
            candidates.iter().copied().filter(|c| self.can_read(c.entry, value)).collect();
        let signed = readable
            .iter()
            .find(|c| owners::signature_holds(c.entry.owner, self.headers) == Some(true));
        if let Some(signed) = signed {
            return Some((*signed, Basis::Companions));
        }
        let only = match candidates {
            [only] => Some(only),
            several => several.iter().find(|c| c.entry.owner == "ietf"),
        }?;
        let assumed = owners::signature_holds(only.entry.owner, self.headers).is_none()
            && self.can_read(only.entry, value);
        assumed.then_some((*only, Basis::Name))
    }

    fn can_read(&self, entry: &Entry, value: &str) -> bool {
        match entry.kind {
            FieldKind::Reset | FieldKind::Wait => {
                measure::time(entry.unit, value, self.arrival).is_some()
            }
            _ => true,
        }
    }

    fn add_time(&self, field: &mut LimitField, unit: FieldUnit) {
        if let Some(measured) = measure::time(unit, &field.raw, self.arrival) {
            set_time(field, measured);
        } else {
            field.unit = FieldUnit::Unknown;
            field.note =
                Some(format!("documented as {unit}, which this value is not; unit unknown"));
        }
    }

    /// A field of the dictionary whose owner is not known.
    fn by_shape(&self, name: &str, value: &str, kind: FieldKind) -> LimitField {
        let mut field = LimitField::new(name, value, kind);
        match kind {
            FieldKind::Reset | FieldKind::Wait => {
                let (unit, note) = measure::shape(value);
                if let Some(measured) = measure::time(unit, value, self.arrival) {
                    field.unit = unit;
                    field.basis = Basis::Shape;
                    set_time(&mut field, measured);
                }
                field.note = Some(match field.note.take() {
                    Some(more) => format!("{note}; {more}"),
                    None => note.to_owned(),
                });
            }
            FieldKind::Limit | FieldKind::Remaining | FieldKind::Used | FieldKind::Policy => {
                add_amount(&mut field);
            }
            FieldKind::Reason | FieldKind::Scope | FieldKind::Retryable => {}
        }
        field
    }

    /// A field that the dictionary does not have, where its name says that it is about limits. What
    /// the name says of its kind is believed, its unit is not guessed except from the value itself.
    fn unlisted(&self, name: &str, value: &str) -> Vec<LimitField> {
        if !LIMIT_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
            return Vec::new();
        }
        let words: Vec<&str> = name.split('-').skip(1).collect();
        let says = |word: &str| words.iter().any(|w| w.eq_ignore_ascii_case(word));
        let kind = if says("reset") {
            FieldKind::Reset
        } else if says("remaining") {
            FieldKind::Remaining
        } else if says("used") || says("observed") {
            FieldKind::Used
        } else if name.ends_with("-limit") || name.contains("ratelimit-limit") {
            FieldKind::Limit
        } else {
            FieldKind::Scope
        };
        vec![self.by_shape(name, value, kind)]
    }
}

/// Every entry of the dictionary with what its name begins with, up to a bracket, and whether that
/// is all of it.
static ENTRIES: LazyLock<Vec<(&str, bool, &Entry)>> = LazyLock::new(|| {
    let entries = FAMILIES.iter().flat_map(|family| family.entries);
    entries
        .map(|entry| match entry.name.split_once('<') {
            Some((start, _)) => (start, false, entry),
            None => (entry.name, true, entry),
        })
        .collect()
});

/// The entries that match a field's name; of patterns only those with the most literal text.
fn candidates(name: &str) -> Vec<Candidate<'_>> {
    if !NAME_PARTS.iter().any(|part| name.contains(part)) {
        return Vec::new();
    }
    let mut found: Vec<(usize, Candidate<'_>)> = ENTRIES
        .iter()
        .filter(|(start, is_whole, _)| {
            name.starts_with(start) && (!is_whole || name.len() == start.len())
        })
        .filter_map(|(_, _, entry)| {
            let captured = entry::matches(entry.name, name)?;
            // A period in the name says more than the same text taken for a name.
            let weight = entry::literal_length(entry.name) + captured.period.map_or(0, str::len);
            Some((weight, Candidate { entry, captured }))
        })
        .collect();
    let best = found.iter().map(|(weight, _)| *weight).max().unwrap_or_default();
    found.retain(|(weight, _)| *weight == best);
    found.into_iter().map(|(_, candidate)| candidate).collect()
}

fn period_length(period: &str) -> Option<Millis> {
    PERIODS.iter().find(|(name, _)| *name == period)?.1.map(Millis)
}

fn set_time(field: &mut LimitField, measured: Measured) {
    field.value = Some(measured.value);
    field.reset_in = measured.wait;
    if measured.is_past {
        field.note = Some("already past when the response arrived".to_owned());
    } else if measured.wait.is_none() {
        field.note = Some("no Date to measure it against".to_owned());
    }
}

fn add_amount(field: &mut LimitField) {
    field.value = measure::amount(&field.raw);
    if field.value.is_none() {
        field.unit = FieldUnit::Unknown;
        field.note = Some("not a number".to_owned());
    }
}

/// Shopify's `40/40`: what is used, and the size of the bucket.
fn used_of_size(
    entry: &'static Entry,
    name: &str,
    value: &str,
    basis: Basis,
) -> Option<Vec<LimitField>> {
    if entry.kind != FieldKind::Used {
        return None;
    }
    let (used, size) = value.split_once('/')?;
    let part = |kind: FieldKind, text: &str| {
        Some(LimitField {
            owner: Some(entry.owner),
            basis,
            unit: entry.unit,
            value: Some(measure::amount(text)?),
            ..LimitField::new(name, value, kind)
        })
    };
    Some(vec![part(FieldKind::Used, used)?, part(FieldKind::Limit, size)?])
}

/// Gives the members of `RateLimit` the window and unit of the policy with the same name.
fn join_policies(fields: &mut [LimitField]) {
    let policies: Vec<(String, FieldUnit, Option<Millis>)> = fields
        .iter()
        .filter(|field| field.header == "ratelimit-policy")
        .filter_map(|field| Some((field.policy.clone()?, field.unit, field.window)))
        .collect();
    for field in fields.iter_mut().filter(|field| field.header == "ratelimit") {
        let Some(name) = &field.policy else { continue };
        let Some((_, unit, window)) = policies.iter().find(|(policy, ..)| policy == name) else {
            continue;
        };
        field.window = *window;
        if field.kind == FieldKind::Remaining {
            field.unit = *unit;
        }
    }
}
