//! From one JSON object to an [`Event`], field by field.
//!
//! What makes an event wrong (a missing field, a wrong type, a number out of range, an unknown
//! word) rejects it. What is only too long is cut and counted: losing the tail of a text costs less
//! than losing the attempt.

use super::fields::{self, Key, describe, is_null};
use super::repeats::{self, Rules};
use super::{DecodeOptions, Decoded, RawKeys, Reject, upstream};
use crate::domain::classify;
use crate::domain::event::{Event, Vantage};
use crate::domain::key_hash::looks_hashed;
use crate::domain::time::{DAY_MS, UnixMillis};
use crate::domain::{headers, redact};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::str::FromStr;

/// The most that is kept of a body, in bytes (DESIGN 14).
const MAX_BODY_SAMPLE: usize = 2048;
/// The most header fields that are kept of one event, and of one field's value in bytes.
const MAX_HEADERS: usize = 64;
const MAX_HEADER_VALUE: usize = 1024;
const MAX_HEADER_NAME: usize = 64;
/// Text beyond this is cut before anything looks at it, in bytes; more than any field keeps.
const MAX_LOOKED_AT: usize = 32 * 1024;
/// The longest duration, time limit or wait that is taken: a year and a day, in milliseconds.
const MAX_MS: i64 = 366 * DAY_MS;
/// The most attempts that one event may stand for.
const MAX_COUNT: i64 = 100_000_000;
/// The highest number of an attempt.
const MAX_ATTEMPT: i64 = 1_000_000;
/// 2000-01-01 and 2100-01-01: no client was there before, and days are tables.
const FIRST_MOMENT: UnixMillis = UnixMillis(946_684_800_000);
const LAST_MOMENT: UnixMillis = UnixMillis(4_102_444_800_000);

/// Defines the fields of an item once: their names, and a slot for what was sent in each.
macro_rules! fields {
    ($($name:ident),+ $(,)?) => {
        /// The names of every field of a native event.
        pub const FIELDS: &[&str] = &[$(stringify!($name)),+];

        #[expect(non_camel_case_types, reason = "each is spelled as in JSON")]
        #[derive(Debug, Clone, Copy)]
        enum Field {
            $($name),+
        }

        impl Field {
            const ALL: &[Self] = &[$(Self::$name),+];
        }

        /// What was sent, not looked into yet.
        #[derive(Default)]
        struct Slots<'a> {
            $($name: Option<&'a RawValue>,)+
            unknown: u64,
            twice: Option<&'static str>,
        }

        impl<'a> Slots<'a> {
            fn slot(&mut self, field: Field) -> &mut Option<&'a RawValue> {
                match field {
                    $(Field::$name => &mut self.$name,)+
                }
            }
        }
    };
}

fields! {
    event_id, operation_id, attempt, occurred_at, duration_ms, vantage, service, environment,
    instance, retry_layer, priority, method, host, url, route, status, error, retry_after,
    computed_delay_ms, delay_source, request_id, ray_id, layer, key_hash, key_kind,
    idempotency_key_hash, body_hash, client_address_hash, account_hash, outcome, attempts_max,
    timeout_ms, deadline_ms, headers, content_type, error_code, body_sample, trace_id, span_id,
    count,
}

/// Where in [`FIELDS`] each is, at [`place_of`] its name or the next free place; beyond the list where
/// there is none.
static PLACES: [u8; 256] = {
    assert!(FIELDS.len() < 128, "a place is a byte, and half of them are free");
    let mut places = [u8::MAX; 256];
    let mut at = 0;
    while at < FIELDS.len() {
        let mut place = place_of(FIELDS[at].as_bytes());
        while places[place as usize] != u8::MAX {
            place = place.wrapping_add(1);
        }
        #[expect(clippy::cast_possible_truncation, reason = "asserted above")]
        {
            places[place as usize] = at as u8;
        }
        at += 1;
    }
    places
};

/// A number that most names of fields have for themselves.
#[expect(clippy::cast_possible_truncation, reason = "any number will do")]
const fn place_of(name: &[u8]) -> u8 {
    let [first, .., last] = name else { return 0 };
    let middle = name[name.len() / 2];
    (name.len() as u8)
        .wrapping_add(first.wrapping_mul(4))
        .wrapping_add(last.wrapping_mul(6))
        .wrapping_add(middle)
}

impl Field {
    /// The field with a name.
    fn named(name: &[u8]) -> Option<(Self, &'static str)> {
        let mut place = place_of(name);
        loop {
            let at = usize::from(*PLACES.get(usize::from(place))?);
            let (field, known) = (*Self::ALL.get(at)?, *FIELDS.get(at)?);
            if known.as_bytes() == name {
                return Some((field, known));
            }
            place = place.wrapping_add(1);
        }
    }
}

/// A key of an item: the field that it names, if any.
struct Named(Option<(Field, &'static str)>);

impl<'de> Deserialize<'de> for Named {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = Named;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Named, E> {
                Ok(Named(Field::named(bytes)))
            }
        }

        // As bytes, a lone surrogate in a key is no error.
        deserializer.deserialize_bytes(Text)
    }
}

impl<'de> Deserialize<'de> for Slots<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Slots<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut slots = Slots::default();
                while let Some(Named(key)) = map.next_key()? {
                    let Some((field, name)) = key else {
                        map.next_value::<IgnoredAny>()?;
                        slots.unknown += 1;
                        continue;
                    };
                    let value = map.next_value::<&'de RawValue>()?;
                    if slots.slot(field).replace(value).is_some() {
                        slots.twice.get_or_insert(name);
                    }
                }
                Ok(slots)
            }
        }

        deserializer.deserialize_map(Object)
    }
}

/// Header fields as an object, by name; of a name given twice the last value counts.
struct HeaderObject<'a>(Vec<(Key<'a>, &'a RawValue)>);

impl<'de> Deserialize<'de> for HeaderObject<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = HeaderObject<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields: Vec<(Key<'de>, &'de RawValue)> = Vec::with_capacity(16);
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                fields.reverse();
                fields.sort_by(|(a, _), (b, _)| a.as_str().cmp(b.as_str()));
                fields.dedup_by(|(a, _), (b, _)| a.as_str() == b.as_str());
                Ok(HeaderObject(fields))
            }
        }

        deserializer.deserialize_map(Object)
    }
}

/// What is wrong with an item.
struct Fault {
    field: &'static str,
    error: String,
}

fn fault<T>(field: &'static str, error: impl Into<String>) -> Result<T, Fault> {
    Err(Fault { field, error: error.into() })
}

/// Reads the JSON text of one item, which is valid JSON, into `decoded`.
pub(super) fn decode(index: usize, json: &str, options: &DecodeOptions<'_>, decoded: &mut Decoded) {
    if let Ok(slots) = serde_json::from_str(json) {
        return take(index, &slots, options, decoded);
    }
    let got = serde_json::from_str::<&RawValue>(json).map_or("no JSON", describe);
    let error = format!("expected an event as a JSON object, got {got}");
    decoded.rejects.push(Reject { index, event_id: None, field: None, error });
}

/// Reads one line, of which nothing is known, into `decoded`; `Err` says why it is not valid JSON.
pub(super) fn decode_line(
    index: usize,
    line: &str,
    options: &DecodeOptions<'_>,
    decoded: &mut Decoded,
) -> Result<(), serde_json::Error> {
    // Reading the fields checks everything but for control characters in keys.
    if !line.bytes().fold(false, |found, b| found | b.is_ascii_control())
        && let Ok(slots) = serde_json::from_str(line)
    {
        take(index, &slots, options, decoded);
    } else {
        serde_json::from_str::<&RawValue>(line)?;
        decode(index, line, options, decoded);
    }
    Ok(())
}

fn take(index: usize, slots: &Slots<'_>, options: &DecodeOptions<'_>, decoded: &mut Decoded) {
    decoded.unknown_fields += slots.unknown;
    let mut reader = Reader { options, redactions: 0, shortened: 0, dropped_headers: 0 };
    match event(slots, &mut reader) {
        Ok(event) => {
            decoded.dropped_headers += reader.dropped_headers;
            decoded.shortened += reader.shortened;
            decoded.redactions += u64::from(event.redactions);
            decoded.events.push((index, event));
        }
        Err(Fault { field, error }) => {
            let event_id = reader.id("event_id", slots.event_id).ok().flatten();
            let error = redact::text(&error).text;
            let field = Some(field.to_owned());
            decoded.rejects.push(Reject { index, event_id, field, error });
        }
    }
}

fn event(slots: &Slots<'_>, reader: &mut Reader<'_>) -> Result<Event, Fault> {
    if let Some(name) = slots.twice {
        return fault(name, "given more than once");
    }
    let Some(service) = reader.name("service", slots.service)? else {
        return fault(
            "service",
            "missing: expected the name of the calling service, such as \"checkout\"",
        );
    };
    let (host, route) = reader.upstream(slots)?;
    let occurred_at = reader.moment("occurred_at", slots.occurred_at)?;
    let status = status(slots.status)?;
    let error = reader.word("error", slots.error)?;
    if status.is_none() && error.is_none() {
        return fault("status", "missing: expected a status code, or an error word in `error`");
    }
    let headers = reader.headers(slots.headers)?;
    let header = |name: &str| headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
    let retry_after = reader.text("retry_after", slots.retry_after, 256)?;
    let retry_after = retry_after.or_else(|| header("retry-after").map(str::to_owned));
    // The ids that an answer itself carries are what a gateway's or an origin's log knows it by.
    let request_id = match reader.id("request_id", slots.request_id)? {
        Some(id) => Some(id),
        None => reader.header_id(headers::REQUEST_IDS.iter().find_map(|name| header(name))),
    };
    let ray_id = match reader.id("ray_id", slots.ray_id)? {
        Some(id) => Some(id),
        None => reader.header_id(header("cf-ray")),
    };
    let mut event = Event {
        event_id: reader.id("event_id", slots.event_id)?.unwrap_or_default(),
        operation_id: reader.id("operation_id", slots.operation_id)?,
        attempt: number("attempt", slots.attempt, 1..=MAX_ATTEMPT)?.unwrap_or(1),
        occurred_at,
        duration_ms: millis("duration_ms", slots.duration_ms)?,
        vantage: reader.word("vantage", slots.vantage)?.unwrap_or(Vantage::Client),
        service,
        environment: reader.name("environment", slots.environment)?,
        instance: reader.name("instance", slots.instance)?,
        retry_layer: reader.word("retry_layer", slots.retry_layer)?,
        priority: reader.text("priority", slots.priority, 64)?,
        method: reader.method(slots.method)?,
        host,
        route,
        status,
        error,
        retry_after,
        computed_delay_ms: millis("computed_delay_ms", slots.computed_delay_ms)?,
        delay_source: reader.text("delay_source", slots.delay_source, 64)?,
        request_id,
        ray_id,
        layer: reader.word("layer", slots.layer)?,
        key_hash: reader.hash("key_hash", slots.key_hash)?,
        key_kind: reader.text("key_kind", slots.key_kind, 64)?,
        idempotency_key_hash: reader.hash("idempotency_key_hash", slots.idempotency_key_hash)?,
        body_hash: reader.hash("body_hash", slots.body_hash)?,
        client_address_hash: reader.hash("client_address_hash", slots.client_address_hash)?,
        account_hash: reader.hash("account_hash", slots.account_hash)?,
        outcome: reader.word("outcome", slots.outcome)?,
        attempts_max: number("attempts_max", slots.attempts_max, 1..=MAX_ATTEMPT)?,
        timeout_ms: millis("timeout_ms", slots.timeout_ms)?,
        deadline_ms: millis("deadline_ms", slots.deadline_ms)?,
        headers,
        content_type: reader.text("content_type", slots.content_type, 128)?,
        error_code: reader.text("error_code", slots.error_code, 128)?,
        body_sample: reader.body("body_sample", slots.body_sample)?,
        trace_id: reader.id("trace_id", slots.trace_id)?,
        span_id: reader.id("span_id", slots.span_id)?,
        count: number("count", slots.count, 1..=MAX_COUNT)?.unwrap_or(1),
        redactions: 0,
        derived: None,
        log: None,
    };
    // A body is kept for limited or failed attempts only; a limit may come with status 200.
    if event.body_sample.is_some()
        && event.is_success()
        && !event.with_response(classify::summarize).limited
    {
        event.body_sample = None;
    }
    event.redactions = reader.redactions;
    if event.event_id.is_empty() {
        event.event_id = derived_id(&event);
    }
    Ok(event)
}

/// A whole number within `range`.
fn number<T: TryFrom<i64>>(
    field: &'static str,
    raw: Option<&RawValue>,
    range: std::ops::RangeInclusive<i64>,
) -> Result<Option<T>, Fault> {
    let Some(raw) = raw.filter(|raw| !is_null(raw)) else { return Ok(None) };
    let wrong = |got: &dyn fmt::Display| {
        fault(
            field,
            format!("expected a whole number from {} to {}, got {got}", range.start(), range.end()),
        )
    };
    match fields::integer_of(raw) {
        Ok(number) if range.contains(&number) => {
            T::try_from(number).map(Some).or_else(|_| wrong(&number))
        }
        Ok(number) => wrong(&number),
        Err(got) => wrong(&got),
    }
}

/// A length of time; fractions are rounded.
fn millis(field: &'static str, raw: Option<&RawValue>) -> Result<Option<i64>, Fault> {
    let Some(raw) = raw.filter(|raw| !is_null(raw)) else { return Ok(None) };
    let expected = "expected milliseconds from 0 to a year";
    match fields::rounded_of(raw) {
        Ok(number) if (0..=MAX_MS).contains(&number) => Ok(Some(number)),
        Ok(number) => fault(field, format!("{expected}, got {number}")),
        Err(got) => fault(field, format!("{expected}, got {got}")),
    }
}

/// 100 to 599, and 999, which some sites answer robots with.
fn status(raw: Option<&RawValue>) -> Result<Option<u16>, Fault> {
    let Some(raw) = raw.filter(|raw| !is_null(raw)) else { return Ok(None) };
    let wrong = |got: &dyn fmt::Display| {
        fault("status", format!("expected a status code as a number from 100 to 599, got {got}"))
    };
    match fields::integer_of(raw) {
        Ok(number) => match u16::try_from(number) {
            Ok(status @ (100..=599 | 999)) => Ok(Some(status)),
            _ => wrong(&number),
        },
        Err(got) => wrong(&got),
    }
}

/// Whether a text is RFC 3339 but for a year that no clock here reaches.
fn is_rfc3339_of_another_year(text: &str) -> bool {
    let Some((year, rest)) = text.split_at_checked(4) else { return false };
    year.bytes().all(|b| b.is_ascii_digit())
        && UnixMillis::parse_rfc3339(&format!("2000{rest}")).is_some()
}

/// Whether an address without a scheme is rather a secret. An e-mail address is a user at a host, and
/// what opens a host goes with the user.
fn is_bare_secret(text: &str) -> bool {
    let (address, _) = upstream::without_query(text);
    !address.contains("://")
        && redact::kind_of(address).is_some_and(|kind| !matches!(kind, "email" | "url-credentials"))
}

/// The id of an event that came without one: the SHA-256 of its canonical JSON, in hexadecimal.
/// Canonical is: after redaction, keys sorted, no white space, nothing that is absent or empty.
pub(super) fn derived_id(event: &Event) -> String {
    let mut headers: Vec<&(String, String)> = event.headers.iter().collect();
    headers.sort_by(|a, b| a.0.cmp(&b.0));
    let mut json = Canonical(b"{".to_vec());
    macro_rules! put {
        ($($field:ident),+) => { $(json.put(stringify!($field), &event.$field);)+ };
    }
    put!(account_hash, attempt, attempts_max, body_hash, body_sample, client_address_hash);
    put!(computed_delay_ms, content_type, count, deadline_ms, delay_source, duration_ms);
    put!(environment, error, error_code);
    json.put("headers", &headers);
    put!(host, idempotency_key_hash, instance, key_hash, key_kind, layer, method, occurred_at);
    put!(operation_id, outcome, priority, ray_id, request_id, retry_after, retry_layer, route);
    put!(service, span_id, status, timeout_ms, trace_id, vantage);
    json.0.push(b'}');
    hex::encode(Sha256::digest(&json.0))
}

/// A JSON object in the making.
struct Canonical(Vec<u8>);

impl Canonical {
    /// Adds a field, unless it is null or an empty list.
    fn put<T: serde::Serialize>(&mut self, name: &str, value: &T) {
        let before = self.0.len();
        if before > 1 {
            self.0.push(b',');
        }
        self.0.extend([b"\"", name.as_bytes(), b"\":"].concat());
        let start = self.0.len();
        let is_written = serde_json::to_writer(&mut self.0, value).is_ok();
        let written = self.0.get(start..).unwrap_or_default();
        if !is_written || matches!(written, b"null" | b"[]") {
            self.0.truncate(before);
        }
    }
}

/// Reads fields and counts what it had to change.
struct Reader<'o> {
    options: &'o DecodeOptions<'o>,
    redactions: u32,
    shortened: u64,
    dropped_headers: u64,
}

impl Reader<'_> {
    /// A text as it was sent, cleaned but neither redacted nor cut to its cap; `None` where absent,
    /// null or blank.
    fn raw_text<'r>(
        &mut self,
        field: &'static str,
        raw: Option<&'r RawValue>,
        clean: fn(&str) -> Cow<'_, str>,
    ) -> Result<Option<Cow<'r, str>>, Fault> {
        let Some(raw) = raw.filter(|raw| !is_null(raw)) else { return Ok(None) };
        let text = match fields::text_of(raw) {
            Ok(Cow::Borrowed(text)) => clean(text),
            Ok(Cow::Owned(text)) => Cow::Owned(clean(&text).into_owned()),
            Err(got) => return fault(field, format!("expected a text, got {got}")),
        };
        if text.len() > MAX_LOOKED_AT {
            // The last word may be half a secret, which no rule would know.
            let head = text.get(..text.floor_char_boundary(MAX_LOOKED_AT)).unwrap_or_default();
            let is_word = |c: char| !c.is_whitespace() && !matches!(c, ',' | ';' | '"' | '&' | '<');
            let whole = head.trim_end_matches(is_word);
            self.shortened += 1;
            // One endless word is cut by itself; only its head is ever kept.
            let kept = if whole.is_empty() { head } else { whole };
            return Ok(Some(Cow::Owned(format!("{kept}…"))));
        }
        Ok((!text.trim().is_empty()).then_some(text))
    }

    /// Free text: redacted, then cut to `cap` bytes.
    fn text(
        &mut self,
        field: &'static str,
        raw: Option<&RawValue>,
        cap: usize,
    ) -> Result<Option<String>, Fault> {
        self.as_one(|own| {
            let text = own.stored(Rules::Text, field, raw)?;
            Ok(text.map(|text| own.shorten(text, cap)))
        })
    }

    fn redacted(&mut self, text: &str) -> String {
        let redacted = redact::text(text);
        self.redactions = self.redactions.saturating_add(redacted.count);
        redacted.text
    }

    /// Makes what is kept of one text, which counts once however often it is cut: a long one is cut
    /// before anything looks at it, and then to its cap.
    fn as_one<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.shortened;
        let made = make(self);
        self.count_once(before);
        made
    }

    /// Counts what was cut since `before` as one.
    fn count_once(&mut self, before: u64) {
        self.shortened = self.shortened.min(before.saturating_add(1));
    }

    fn shorten(&mut self, text: String, cap: usize) -> String {
        let (text, is_cut) = fields::shorten(text, cap);
        self.shortened += u64::from(is_cut);
        text
    }

    /// What is stored of a value of JSON: what it was before, where it comes again and nothing had to
    /// be changed in it.
    fn stored(
        &mut self,
        rules: Rules,
        field: &'static str,
        raw: Option<&RawValue>,
    ) -> Result<Option<String>, Fault> {
        let Some(raw) = raw else { return Ok(None) };
        let new = match repeats::known(rules, raw.get()) {
            Ok(stored) => return Ok(Some(stored)),
            Err(new) => new,
        };
        let changes = self.changes();
        let clean = if rules == Rules::Body { fields::clean_body } else { fields::clean };
        let Some(text) = self.raw_text(field, Some(raw), clean)? else { return Ok(None) };
        let stored = if rules == Rules::Id { self.stored_id(&text) } else { self.redacted(&text) };
        if changes == self.changes() {
            new.note(rules, raw.get(), &stored);
        }
        Ok(Some(stored))
    }

    /// What is counted of changes to texts so far.
    fn changes(&self) -> (u32, u64) {
        (self.redactions, self.shortened)
    }

    /// A text by which things are told apart: redacted as a whole, and cut so that different ones
    /// stay different.
    fn id(&mut self, field: &'static str, raw: Option<&RawValue>) -> Result<Option<String>, Fault> {
        self.as_one(|own| {
            let text = own.raw_text(field, raw, fields::clean)?;
            Ok(text.map(|text| own.stored_id(&text)))
        })
    }

    /// An id that many events share.
    fn name(
        &mut self,
        field: &'static str,
        raw: Option<&RawValue>,
    ) -> Result<Option<String>, Fault> {
        self.as_one(|own| own.stored(Rules::Id, field, raw))
    }

    fn stored_id(&mut self, text: &str) -> String {
        let redacted = redact::id(text, self.options.hasher);
        self.redactions = self.redactions.saturating_add(redacted.count);
        let (id, is_cut) = fields::shorten_id(redacted.text);
        self.shortened += u64::from(is_cut);
        id
    }

    /// An id out of a header value, which is redacted already; a value with a marker is no id.
    fn header_id(&mut self, value: Option<&str>) -> Option<String> {
        let value = value.filter(|value| !value.is_empty() && !value.contains("[redacted:"))?;
        Some(self.stored_id(value))
    }

    fn body(
        &mut self,
        field: &'static str,
        raw: Option<&RawValue>,
    ) -> Result<Option<String>, Fault> {
        self.as_one(|own| {
            let text = own.stored(Rules::Body, field, raw)?;
            Ok(text.map(|text| own.shorten(text, MAX_BODY_SAMPLE)))
        })
    }

    /// A hash; a raw value is hashed or refused, by setting.
    fn hash(
        &mut self,
        field: &'static str,
        raw: Option<&RawValue>,
    ) -> Result<Option<String>, Fault> {
        let Some(text) = self.raw_text(field, raw, fields::clean)? else { return Ok(None) };
        if looks_hashed(&text) {
            return Ok(Some(text.to_ascii_lowercase()));
        }
        match self.options.raw_keys {
            RawKeys::Refuse => fault(
                field,
                "expected a hash such as \"hmac-sha256:…\" with hexadecimal digits; raw values are \
                 refused by this server's settings",
            ),
            RawKeys::Hash => {
                self.redactions = self.redactions.saturating_add(1);
                Ok(Some(self.options.hasher.hash(&text)))
            }
        }
    }

    /// One word of a fixed list. Case and underscores are forgiven, the one spelling is stored.
    fn word<T: FromStr<Err: fmt::Display>>(
        &mut self,
        field: &'static str,
        raw: Option<&RawValue>,
    ) -> Result<Option<T>, Fault> {
        let Some(text) = self.raw_text(field, raw, fields::clean)? else { return Ok(None) };
        let is_spelled_so = |b: u8| b.is_ascii_lowercase() || b == b'-';
        let word = if text.bytes().all(is_spelled_so) {
            text.parse()
        } else {
            text.to_ascii_lowercase().replace('_', "-").parse()
        };
        match word {
            Ok(word) => Ok(Some(word)),
            Err(_) if redact::kind_of(&text).is_some() => {
                fault(field, "expected one of the words of this field, got a secret")
            }
            Err(error) => fault(field, error.to_string()),
        }
    }

    fn method(&mut self, raw: Option<&RawValue>) -> Result<Option<String>, Fault> {
        let Some(text) = self.raw_text("method", raw, fields::clean)? else { return Ok(None) };
        if text.len() <= 20 && text.bytes().all(|b| b.is_ascii_alphabetic() || b == b'-') {
            return Ok(Some(text.to_ascii_uppercase()));
        }
        fault("method", "expected an HTTP method such as \"POST\"")
    }

    /// RFC 3339 text, or a whole number of milliseconds since 1970.
    fn moment(&mut self, field: &'static str, raw: Option<&RawValue>) -> Result<UnixMillis, Fault> {
        const EXPECTED: &str = "expected a time as RFC 3339 (\"2026-11-11T07:29:00.120Z\") or as \
                                milliseconds since 1970";
        let Some(raw) = raw.filter(|raw| !is_null(raw)) else {
            return fault(field, format!("missing: {EXPECTED}"));
        };
        let out_of_range = |got: &dyn fmt::Display| {
            fault(field, format!("expected a time between the years 2000 and 2100, got {got}"))
        };
        let (at, got) = if raw.get().starts_with('"') {
            let text = self.raw_text(field, Some(raw), fields::clean)?.unwrap_or_default();
            match UnixMillis::parse_rfc3339(&text) {
                Some(at) => (at, text),
                None if is_rfc3339_of_another_year(&text) => return out_of_range(&text),
                None => return fault(field, format!("{EXPECTED}, got another text")),
            }
        } else {
            match fields::rounded_of(raw) {
                Ok(number) => (UnixMillis(number), Cow::Borrowed(raw.get())),
                Err(got) => return fault(field, format!("{EXPECTED}, got {got}")),
            }
        };
        if FIRST_MOMENT <= at && at < LAST_MOMENT {
            return Ok(at);
        }
        let seconds = UnixMillis(at.0.saturating_mul(1000));
        if FIRST_MOMENT <= seconds && seconds < LAST_MOMENT && raw.get().len() < 20 {
            return out_of_range(&format!("{got}, which looks like seconds: send milliseconds"));
        }
        out_of_range(&got)
    }

    /// Host and route; `host` and `route` win over what `url` says.
    fn upstream(&mut self, slots: &Slots<'_>) -> Result<(String, Option<String>), Fault> {
        const EXPECTED: &str = "expected a host name such as \"api.example.com\"";
        let before = self.changes();
        let url = self.raw_text("url", slots.url, fields::clean)?;
        let host = self.raw_text("host", slots.host, fields::clean)?;
        let mut new = None;
        if let (None, Some(host)) = (&url, &host) {
            match repeats::known(Rules::Host, host) {
                Ok(host) => return Ok((host, self.given_route(slots)?)),
                Err(unknown) => new = Some(unknown),
            }
        }
        let root = url.as_ref().map(|_| "/".to_owned());
        let sent = [("url", url), ("host", host)];
        let mut parts = Vec::with_capacity(2);
        for (field, text) in &sent {
            let Some(text) = text else { continue };
            match upstream::parse(text) {
                // A token with a slash in it is not to be told apart into host and path.
                _ if is_bare_secret(text) => parts.push(upstream::Upstream::whole(text)),
                Some(address) => parts.push(address),
                None => return fault(field, format!("{EXPECTED}, got another text")),
            }
        }
        // With both, the host is the last one and the path that of the first one with a path.
        let Some(last) = parts.last() else {
            return fault("host", format!("missing: {EXPECTED}, or a `url`"));
        };
        for part in &parts {
            self.redactions = self.redactions.saturating_add(u32::from(part.had_user));
            self.count_secrets(part.query);
        }
        let host = self.host(last.host);
        let path = parts.iter().find_map(|part| part.path);
        if let (Some(new), [_, (_, Some(text))], None) = (new, &sent, path)
            && before == self.changes()
        {
            new.note(Rules::Host, text, &host);
        }
        let route = match (self.given_route(slots)?, path) {
            (None, None) => root,
            (None, Some(path)) => {
                let route = self.route(path);
                self.count_once(before.1);
                route
            }
            (given, _) => given,
        };
        Ok((host, route))
    }

    /// The route by its own field.
    fn given_route(&mut self, slots: &Slots<'_>) -> Result<Option<String>, Fault> {
        self.as_one(|own| {
            let route = own.raw_text("route", slots.route, fields::clean)?;
            Ok(route.and_then(|route| own.route(&route)))
        })
    }

    fn host(&mut self, host: &str) -> String {
        // Before the case goes: some tokens are known by it.
        let stored = self.stored_id(host);
        if stored == host { host.to_lowercase() } else { stored }
    }

    /// A path or template without its query string.
    fn route(&mut self, text: &str) -> Option<String> {
        // Some clients put the whole address here.
        let is_address = text.contains(':') && text.contains("://");
        let address = if is_address { upstream::parse(text) } else { None };
        let (path, query) = match &address {
            Some(address) => (address.path.unwrap_or("/"), address.query),
            None => upstream::without_query(text),
        };
        self.count_secrets(query);
        if path.is_empty() {
            return None;
        }
        let stored = repeats::known(Rules::Route, path).unwrap_or_else(|new| {
            let redacted = redact::route(path);
            self.redactions = self.redactions.saturating_add(redacted.count);
            if redacted.count == 0 {
                new.note(Rules::Route, path, &redacted.text);
            }
            redacted.text
        });
        Some(self.shorten(stored, 512))
    }

    /// What is dropped with a query string counts where it was secret.
    fn count_secrets(&mut self, dropped: Option<&str>) {
        if let Some(dropped) = dropped {
            let count = redact::text(&format!("?{dropped}")).count;
            self.redactions = self.redactions.saturating_add(count);
        }
    }

    /// `{"name": "value"}`, `{"name": ["a", "b"]}`, `[["name", "value"]]` or
    /// `[{"name": "…", "value": "…"}]`.
    fn headers(&mut self, raw: Option<&RawValue>) -> Result<Vec<(String, String)>, Fault> {
        const FIELD: &str = "headers";
        const EXPECTED: &str = "expected an object of header fields, or a list of [name, value]";
        let Some(raw) = raw.filter(|raw| !is_null(raw)) else { return Ok(Vec::new()) };
        let mut kept = Vec::new();
        if let Ok(HeaderObject(fields)) = serde_json::from_str(raw.get()) {
            kept.reserve(fields.len().min(MAX_HEADERS));
            for (name, value) in fields {
                if value.get().starts_with('[')
                    && let Ok(values) = serde_json::from_str::<Vec<&RawValue>>(value.get())
                {
                    for value in values {
                        self.header(name.as_str(), value, &mut kept)?;
                    }
                } else {
                    self.header(name.as_str(), value, &mut kept)?;
                }
            }
            return Ok(kept);
        }
        let Ok(list) = serde_json::from_str::<Vec<&RawValue>>(raw.get()) else {
            return fault(FIELD, format!("{EXPECTED}, got {}", describe(raw)));
        };
        for entry in list {
            let pair = serde_json::from_str::<(String, &RawValue)>(entry.get()).ok();
            let pair = pair.or_else(|| {
                let mut named: BTreeMap<String, &RawValue> =
                    serde_json::from_str(entry.get()).ok()?;
                let name = fields::text_of(named.remove("name")?).ok()?.into_owned();
                Some((name, named.remove("value")?))
            });
            let Some((name, value)) = pair else {
                return fault(FIELD, format!("{EXPECTED}, got {} in the list", describe(entry)));
            };
            self.header(&name, value, &mut kept)?;
        }
        Ok(kept)
    }

    fn header(
        &mut self,
        name: &str,
        value: &RawValue,
        kept: &mut Vec<(String, String)>,
    ) -> Result<(), Fault> {
        let name = name.trim();
        if kept.len() >= MAX_HEADERS || name.len() > MAX_HEADER_NAME || !is_taken(name) {
            self.dropped_headers += 1;
            return Ok(());
        }
        // An id is joined by, also where it looks secret.
        let is_id = headers::REQUEST_IDS.iter().any(|known| name.eq_ignore_ascii_case(known))
            || name.eq_ignore_ascii_case("cf-ray");
        let text = if is_id {
            self.id("headers", Some(value))
        } else {
            self.text("headers", Some(value), MAX_HEADER_VALUE)
        };
        let text = match text {
            Ok(text) => text.unwrap_or_default(),
            Err(Fault { field, error }) => return fault(field, format!("{error} as a value")),
        };
        kept.push((name.to_ascii_lowercase(), text));
        Ok(())
    }
}

/// Header names that [`is_taken`] remembers; clients send few different ones.
const NAMES_KNOWN: usize = 512;

thread_local! {
    static NAMES: RefCell<HashMap<Box<str>, bool, foldhash::fast::RandomState>> = RefCell::default();
}

/// Whether the header field `name` is stored.
fn is_taken(name: &str) -> bool {
    NAMES.with_borrow_mut(|known| {
        if let Some(is_taken) = known.get(name) {
            return *is_taken;
        }
        let is_taken = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
            && headers::is_allowed(name)
            && redact::kind_of(name).is_none();
        if known.len() < NAMES_KNOWN {
            known.insert(name.into(), is_taken);
        }
        is_taken
    })
}
