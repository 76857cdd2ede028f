//! Where events come from, and what each source lacks for which of the eight steps.

use super::checklist::Step;
use super::classify::Certainty;
use super::event::{Event, MOST_AHEAD, Outcome, Vantage};
use super::joins::hop_name;
use super::spans::words::capture_switch;
use super::spelling::spelled_enum;
use super::stored::{StoredEvent, VerdictSummary};
use super::time::{MINUTE_MS, UnixMillis};
use std::collections::BTreeMap;

spelled_enum! {
    /// By which way events came in.
    pub enum Input {
        /// `POST /v1/events`.
        Native => "native",
        /// OTLP spans, over HTTP or gRPC.
        Otlp => "otlp",
        /// `POST /v1/access-logs/{format}`, or the import.
        AccessLog => "access-log",
    }
}

spelled_enum! {
    /// What events carry or lack.
    pub enum Trait {
        /// Refused and failed ones: response header fields that tell who answered.
        Headers => "headers",
        /// Limited ones: `Retry-After`.
        RetryAfter => "retry-after",
        /// Refused and failed ones: a request, ray or trace id.
        Ids => "ids",
        /// Refused ones: a gateway's line that proves who answered.
        Proof => "proof",
        /// Method and route.
        Request => "request",
        /// Limited ones: an error code or the start of the body.
        Body => "body",
        /// A hashed key.
        Key => "key",
        /// A hashed address of the caller.
        Address => "address",
        /// The calling process.
        Instance => "instance",
        /// How long it took.
        Duration => "duration",
        /// Limited ones: the server's `Date`.
        Date => "date",
        /// The operation's id.
        Operation => "operation",
        /// Failed ones that are retried: the wait that was chosen.
        Delay => "delay",
        /// Retries: the layer that sent them.
        RetryLayer => "retry-layer",
        /// How the retry logic went on.
        Outcome => "outcome",
        /// POST and PATCH: a hashed idempotency key.
        IdempotencyKey => "idempotency-key",
        /// Served ones are reported too.
        Served => "served",
    }
}

/// How many traits there are.
pub const TRAITS: usize = Trait::ALL.len();

/// What is to be counted of one event of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sighting {
    /// The way it came in.
    pub input: Input,
    /// Who saw it.
    pub vantage: Vantage,
    /// A gateway's name or product; empty for clients and origins.
    pub name: String,
    /// When it happened.
    pub at: UnixMillis,
    /// The language of an instrumentation.
    pub language: Option<String>,
    /// A bit for each trait that its kind of event should have.
    of: u32,
    /// A bit for each of those that it has.
    had: u32,
}

impl Sighting {
    /// What an event carries and what it lacks.
    pub fn of(event: &Event, verdict: &VerdictSummary, input: Input) -> Self {
        let is_bad = verdict.limited || !event.is_success();
        let is_client = event.vantage == Vantage::Client;
        let has_field = |name: &str| event.headers.iter().any(|(own, _)| own == name);
        let is_write = matches!(event.method.as_deref(), Some("POST" | "PATCH"));
        let goes_on = is_bad && matches!(event.outcome, Some(Outcome::Retrying) | None);
        let has_id =
            event.request_id.is_some() || event.ray_id.is_some() || event.trace_id.is_some();
        let mut sighting = Self {
            input,
            vantage: event.vantage,
            name: String::new(),
            at: event.occurred_at,
            language: event.derived.as_ref().and_then(|marks| marks.language.clone()),
            of: 0,
            had: 0,
        };
        let mut note = |kind: Trait, applies: bool, has: bool| {
            let bit = 1 << kind as u32;
            if applies {
                sighting.of |= bit;
            }
            if applies && has {
                sighting.had |= bit;
            }
        };
        note(Trait::Ids, true, has_id);
        note(Trait::Request, true, event.method.is_some() && event.route.is_some());
        note(Trait::Duration, true, event.duration_ms.is_some());
        note(Trait::Served, true, !is_bad);
        if event.vantage == Vantage::Gateway {
            let is_proof = event.log.is_some() && verdict.outcome != Certainty::Unknown;
            note(Trait::Proof, is_bad, is_proof);
        }
        if is_client {
            let answered = is_bad && event.status.is_some();
            note(Trait::Headers, answered, !event.headers.is_empty());
            let has_body = event.error_code.is_some() || event.body_sample.is_some();
            note(Trait::Body, verdict.limited, has_body);
            let has_wait = event.retry_after.is_some() || has_field("retry-after");
            note(Trait::RetryAfter, verdict.limited, has_wait);
            note(Trait::Date, verdict.limited, has_field("date"));
            note(Trait::Key, true, event.key_hash.is_some());
            note(Trait::Address, true, event.client_address_hash.is_some());
            note(Trait::Instance, true, event.instance.is_some());
            note(Trait::Operation, true, event.operation_id.is_some());
            note(Trait::Delay, goes_on, event.computed_delay_ms.is_some());
            note(Trait::RetryLayer, event.attempt > 1, event.retry_layer.is_some());
            note(Trait::Outcome, is_bad, event.outcome.is_some());
            note(Trait::IdempotencyKey, is_write, event.idempotency_key_hash.is_some());
        }
        if event.vantage == Vantage::Gateway {
            let stored =
                StoredEvent { event: event.clone(), verdict: *verdict, received_at: UnixMillis(0) };
            sighting.name = hop_name(&stored);
        }
        sighting
    }

    /// The traits that apply, and whether each is there.
    pub fn traits(&self) -> impl Iterator<Item = (Trait, bool)> {
        let (of, had) = (self.of, self.had);
        let all = Trait::ALL.iter().copied();
        all.filter(move |kind| of & (1 << *kind as u32) != 0)
            .map(move |kind| (kind, had & (1 << kind as u32) != 0))
    }
}

/// What makes a source one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceKey {
    /// The calling service, as the events say.
    pub service: String,
    /// The upstream host.
    pub upstream: String,
    /// Who saw it.
    pub vantage: Vantage,
    /// The way in.
    pub input: Input,
    /// A gateway's name or product.
    pub name: String,
}

/// How many events carry a trait, of those that should.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Share {
    /// Those that have it.
    pub had: i64,
    /// Those that should.
    pub of: i64,
}

/// A source as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Which one.
    pub key: SourceKey,
    /// When its first event happened.
    pub first_at: UnixMillis,
    /// When its newest event happened.
    pub last_at: UnixMillis,
    /// When the newest was received.
    pub received_at: UnixMillis,
    /// Events stored.
    pub events: i64,
    /// The language of its instrumentation; empty where not said.
    pub language: String,
    /// Events by the minute in which they happened (since 1970), of the last hours.
    pub minutes: BTreeMap<i64, i64>,
    /// What its events of the last two days carry.
    pub traits: BTreeMap<Trait, Share>,
}

/// A stretch of minutes without an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// The first minute without one.
    pub from: UnixMillis,
    /// The minute after the last.
    pub to: UnixMillis,
}

/// Minutes that gaps are looked for in.
pub const LOOKED_BACK: i64 = 180;
/// A source that has events in so many minutes of a hundred normally sends.
const STEADY: i64 = 80;
/// So many minutes have to have events before anything is a gap.
const ENOUGH: usize = 10;
/// A minute is over for a source this long after it, since senders collect what they send.
const LATE: i64 = 2;

impl Source {
    /// Events a minute over the last quarter of an hour.
    pub fn per_minute(&self, now: UnixMillis) -> f64 {
        let minute = now.0.div_euclid(MINUTE_MS);
        let n: i64 = self.minutes.range(minute - 15..minute).map(|(_, n)| n).sum();
        #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
        let rate = n as f64 / 15.0;
        rate
    }

    /// Whether its newest event lies so far ahead that its clock has to be fast, or its times are in
    /// another unit or zone.
    pub fn is_ahead(&self, now: UnixMillis) -> bool {
        self.last_at.since(now) > MOST_AHEAD
    }

    /// Whether it has events in most minutes, so that one without any is a gap.
    pub fn is_steady(&self) -> bool {
        let (Some(first), Some(last)) =
            (self.minutes.keys().next(), self.minutes.keys().next_back())
        else {
            return false;
        };
        let length = last - first + 1;
        let held = i64::try_from(self.minutes.len()).unwrap_or(i64::MAX);
        self.minutes.len() >= ENOUGH && held * 100 >= length * STEADY
    }

    /// The stretches without events of a source that normally sends, oldest first; the last one goes
    /// up to now where it fell silent.
    pub fn gaps(&self, now: UnixMillis) -> Vec<Gap> {
        if !self.is_steady() {
            return Vec::new();
        }
        let end = now.0.div_euclid(MINUTE_MS) - LATE;
        let mut gaps = Vec::new();
        let mut before: Option<i64> = None;
        for minute in self.minutes.keys().copied().chain([end]) {
            if let Some(before) = before
                && minute > before + 1
            {
                let at = |minute: i64| UnixMillis(minute.saturating_mul(MINUTE_MS));
                gaps.push(Gap { from: at(before + 1), to: at(minute) });
            }
            before = Some(minute);
        }
        gaps
    }

    fn share(&self, kind: Trait) -> Share {
        self.traits.get(&kind).copied().unwrap_or_default()
    }
}

spelled_enum! {
    /// Whether a step has what it needs from a source.
    pub enum Fit {
        /// All of it.
        Full => "full",
        /// Some events lack something, or it lacks something that makes the answer better.
        Part => "part",
        /// It can't be answered from this source.
        Lacking => "lacking",
        /// Nothing that would tell has arrived yet: no refusal, no retry.
        Open => "open",
        /// The step doesn't ask this kind of source.
        NotAsked => "not-asked",
    }
}

/// What a step gets from a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepFit {
    /// The step.
    pub step: Step,
    /// Whether it has what it needs.
    pub fit: Fit,
    /// What it lacks.
    pub lacks: Vec<Lack>,
}

/// Something that a source lacks for a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lack {
    /// What.
    pub kind: Trait,
    /// How many have it.
    pub share: Share,
    /// What is missing, in words.
    pub what: &'static str,
    /// What would supply it, in words.
    pub how: String,
    /// A setting to copy, where there is one.
    pub setting: Option<String>,
}

/// What each step asks of a client's events, the necessary first.
const ASKED_OF_CLIENTS: [(Step, &[Trait]); 8] = [
    (Step::Source, &[Trait::Headers, Trait::Ids]),
    (Step::Reproduce, &[Trait::Request]),
    (Step::Limit, &[Trait::Headers, Trait::Body]),
    (Step::Scope, &[Trait::Key, Trait::Address, Trait::Instance]),
    (Step::Time, &[Trait::RetryAfter, Trait::Duration, Trait::Date]),
    (
        Step::Behaviour,
        &[Trait::Operation, Trait::Delay, Trait::RetryLayer, Trait::Outcome, Trait::IdempotencyKey],
    ),
    (Step::Fix, &[Trait::Headers, Trait::Operation]),
    (Step::Verify, &[Trait::Served, Trait::Duration]),
];

/// What each step asks of a gateway's records.
const ASKED_OF_GATEWAYS: [(Step, &[Trait]); 4] = [
    (Step::Source, &[Trait::Proof, Trait::Ids, Trait::Served]),
    (Step::Limit, &[Trait::Proof]),
    (Step::Behaviour, &[Trait::Proof, Trait::Ids]),
    (Step::Fix, &[Trait::Proof]),
];

/// What each step asks of the origin's records.
const ASKED_OF_ORIGINS: [(Step, &[Trait]); 1] = [(Step::Source, &[Trait::Ids, Trait::Served])];

/// What each of the eight steps gets from a source. A trait counts as there from 95 of a hundred.
pub fn fits(source: &Source) -> Vec<StepFit> {
    let asked: &[(Step, &[Trait])] = match source.key.vantage {
        Vantage::Client => &ASKED_OF_CLIENTS,
        Vantage::Gateway => &ASKED_OF_GATEWAYS,
        Vantage::Origin => &ASKED_OF_ORIGINS,
    };
    Step::ALL
        .iter()
        .map(|step| {
            let Some((_, kinds)) = asked.iter().find(|(of, _)| of == step) else {
                return StepFit { step: *step, fit: Fit::NotAsked, lacks: Vec::new() };
            };
            let shares: Vec<(Trait, Share)> =
                kinds.iter().map(|kind| (*kind, source.share(*kind))).collect();
            let is_there = |share: &Share| match share.of {
                0 => true,
                of => share.had * 100 >= of * 95,
            };
            // Served ones only have to be there at all.
            let is_lacking = |(kind, share): &(Trait, Share)| match kind {
                Trait::Served => share.of > 0 && share.had == 0,
                _ => !is_there(share),
            };
            let lacks: Vec<Lack> = shares
                .iter()
                .filter(|one| is_lacking(one))
                .map(|(kind, share)| lack(source, *kind, *share))
                .collect();
            let first = shares.first().map(|(_, share)| *share).unwrap_or_default();
            let fit = if lacks.is_empty() {
                if shares.iter().all(|(_, share)| share.of == 0) { Fit::Open } else { Fit::Full }
            } else if first.of > 0 && first.had == 0 {
                Fit::Lacking
            } else {
                Fit::Part
            };
            StepFit { step: *step, fit, lacks }
        })
        .collect()
}

fn lack(source: &Source, kind: Trait, share: Share) -> Lack {
    let is_otlp = source.key.input == Input::Otlp;
    let is_log = source.key.input == Input::AccessLog;
    let language = Some(source.language.as_str()).filter(|language| !language.is_empty());
    let (what, native, field): (&'static str, &'static str, &'static str) = match kind {
        Trait::Headers => (
            "response headers of refused and failed attempts",
            "Send the response's header fields",
            "\"headers\": {\"server\": \"…\", \"via\": \"…\", \"date\": \"…\", \"retry-after\": \"…\"}",
        ),
        Trait::RetryAfter => (
            "Retry-After of refusals (or the server sends none)",
            "Send it exactly as received; where the server sends none, that is a finding of its own",
            "\"retry_after\": \"30\"",
        ),
        Trait::Ids => (
            "a request, ray or trace id",
            "Send the id that the response or your spans carry",
            "\"request_id\": \"…\", \"ray_id\": \"…\", \"trace_id\": \"…\"",
        ),
        Trait::Proof => {
            ("log fields that prove who answered", "Log the recommended fields", "\"log\"")
        }
        Trait::Request => (
            "method and route",
            "Send the method and the route's template",
            "\"method\": \"POST\", \"route\": \"/v1/orders/{id}\"",
        ),
        Trait::Body => (
            "the error code or the start of the body of refusals",
            "Send the machine-readable code, or up to 2 KiB of the body",
            "\"error_code\": \"quota_exceeded\", \"body_sample\": \"…\"",
        ),
        Trait::Key => (
            "a hash of the API key",
            "Send a keyed hash of the key, never the key",
            "\"key_hash\": \"hmac-sha256:…\", \"key_kind\": \"api-key\"",
        ),
        Trait::Address => (
            "a hash of the address that the server sees",
            "Send a keyed hash of the egress address",
            "\"client_address_hash\": \"hmac-sha256:…\"",
        ),
        Trait::Instance => {
            ("the calling process", "Send the pod's or host's name", "\"instance\": \"pod-7\"")
        }
        Trait::Duration => (
            "how long attempts took",
            "Send the time from sending to the answer",
            "\"duration_ms\": 84",
        ),
        Trait::Date => (
            "the server's Date on refusals",
            "Keep the header field date",
            "\"headers\": {\"date\": \"Wed, 11 Nov 2026 07:29:00 GMT\"}",
        ),
        Trait::Operation => (
            "an id of the operation",
            "Send one id with all attempts of an intent, and number them",
            "\"operation_id\": \"op-7f1c\", \"attempt\": 2",
        ),
        Trait::Delay => (
            "the wait that was chosen before a retry",
            "Send it with the attempt before the wait",
            "\"computed_delay_ms\": 30412, \"delay_source\": \"retry-after\"",
        ),
        Trait::RetryLayer => {
            ("the layer that sent a retry", "Say who sends retries", "\"retry_layer\": \"sdk\"")
        }
        Trait::Outcome => (
            "how the retry logic went on",
            "Send it with each attempt, the last one above all",
            "\"outcome\": \"exhausted\"",
        ),
        Trait::IdempotencyKey => (
            "a hash of the idempotency key of writes",
            "Send a hash of the key that goes with POST and PATCH",
            "\"idempotency_key_hash\": \"hmac-sha256:…\"",
        ),
        Trait::Served => (
            "attempts that were served",
            "Report served attempts too, in bulk if need be",
            "\"status\": 200, \"count\": 1204",
        ),
    };
    let (how, setting) = if is_log {
        of_logs(&source.key.name, kind)
    } else if is_otlp {
        of_otlp(kind, language)
    } else {
        (format!("{native}."), Some(field.to_owned()))
    };
    Lack { kind, share, what, how, setting }
}

/// What makes a gateway's log useful.
fn of_logs(name: &str, kind: Trait) -> (String, Option<String>) {
    let setting = match (name, kind) {
        ("nginx", Trait::Ids) => Some(
            "\"request_id\":\"$http_x_request_id\",\"gw_request_id\":\"$request_id\",\"traceparent\":\"$http_traceparent\"",
        ),
        ("nginx", _) => Some(
            "\"upstream_status\":\"$upstream_status\",\"upstream_addr\":\"$upstream_addr\",\"upstream_connect_s\":\"$upstream_connect_time\",\"upstream_header_s\":\"$upstream_header_time\",\"limit_req_status\":\"$limit_req_status\",\"limit_conn_status\":\"$limit_conn_status\"",
        ),
        ("haproxy", Trait::Ids) => Some(
            "http-request set-var(txn.rid) req.hdr(X-Request-Id)\nhttp-request set-var(txn.tp) req.hdr(traceparent)",
        ),
        ("haproxy", _) => Some("http-response set-var(txn.us) status"),
        ("envoy", Trait::Ids) => {
            Some("request_id: \"%REQ(X-REQUEST-ID)%\"\ntraceparent: \"%REQ(TRACEPARENT)%\"")
        }
        ("envoy", _) => Some(
            "code_details: \"%RESPONSE_CODE_DETAILS%\"\nresponse_flags: \"%RESPONSE_FLAGS%\"\nupstream_attempts: \"%UPSTREAM_REQUEST_ATTEMPT_COUNT%\"\nupstream_bytes_received: \"%UPSTREAM_WIRE_BYTES_RECEIVED%\"",
        ),
        _ => None,
    };
    let how = match kind {
        Trait::Served => {
            "Ship the whole log, not errors alone: without served requests nobody can \
                          say that a missing one was never seen."
                .to_owned()
        }
        _ => "Log the recommended format: docs/access-logs.md has it whole for each product."
            .to_owned(),
    };
    (how, setting.filter(|_| kind != Trait::Served).map(ToOwned::to_owned))
}

/// What makes an instrumentation's spans useful.
fn of_otlp(kind: Trait, language: Option<&str>) -> (String, Option<String>) {
    let headers = super::spans::words::RESPONSE_HEADERS;
    let variable = match language {
        Some("python") => Some("OTEL_INSTRUMENTATION_HTTP_CAPTURE_HEADERS_CLIENT_RESPONSE"),
        Some("java") => Some("OTEL_INSTRUMENTATION_HTTP_CLIENT_CAPTURE_RESPONSE_HEADERS"),
        Some("dotnet") => {
            Some("OTEL_DOTNET_AUTO_TRACES_HTTP_INSTRUMENTATION_CAPTURE_RESPONSE_HEADERS")
        }
        _ => None,
    };
    match kind {
        Trait::Headers | Trait::RetryAfter | Trait::Date | Trait::Ids => (
            capture_switch(language).to_owned(),
            variable.map(|name| format!("export {name}={headers}")),
        ),
        Trait::Instance => (
            "Name the process in the resource.".to_owned(),
            Some("export OTEL_RESOURCE_ATTRIBUTES=service.instance.id=$HOSTNAME".to_owned()),
        ),
        Trait::IdempotencyKey => (
            "Capture the request header idempotency-key; it is hashed on arrival.".to_owned(),
            (language == Some("python")).then(|| {
                format!(
                    "export OTEL_INSTRUMENTATION_HTTP_CAPTURE_HEADERS_CLIENT_REQUEST={}",
                    super::spans::words::REQUEST_HEADERS
                )
            }),
        ),
        Trait::Delay => (
            "Spans carry no chosen wait: send the SDK's own log over OTLP too (docs/otlp.md names \
             those that are read), or native events."
                .to_owned(),
            None,
        ),
        _ => (
            "Standard spans don't carry it: docs/otlp.md says what is read; native events can add \
             it."
            .to_owned(),
            None,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::checklist::samples::{at, refused, served};
    use crate::domain::classify::{LimitType, Responder};

    fn source(vantage: Vantage, input: Input, sightings: &[Sighting]) -> Source {
        let mut traits: BTreeMap<Trait, Share> = BTreeMap::new();
        for (kind, has) in sightings.iter().flat_map(Sighting::traits) {
            let share = traits.entry(kind).or_default();
            share.of += 1;
            share.had += i64::from(has);
        }
        let key = SourceKey {
            service: "checkout".to_owned(),
            upstream: "api.example.com".to_owned(),
            vantage,
            input,
            name: String::new(),
        };
        Source {
            key,
            first_at: at(0),
            last_at: at(0),
            received_at: at(0),
            events: 1,
            language: "python".to_owned(),
            minutes: BTreeMap::new(),
            traits,
        }
    }

    fn fit(source: &Source, step: Step) -> StepFit {
        fits(source).into_iter().find(|fit| fit.step == step).unwrap()
    }

    #[test]
    fn what_a_step_lacks_is_named_with_the_setting_of_the_language() {
        let mut bare = refused("r", at(0), Responder::Nginx, LimitType::Rate, None);
        bare.event.headers.clear();
        bare.event.request_id = None;
        let sighting = Sighting::of(&bare.event, &bare.verdict, Input::Otlp);
        let source = source(Vantage::Client, Input::Otlp, &[sighting]);
        let who = fit(&source, Step::Source);
        assert_eq!(who.fit, Fit::Lacking);
        let setting = who.lacks[0].setting.as_deref().unwrap();
        assert!(setting.starts_with("export OTEL_INSTRUMENTATION_HTTP_CAPTURE"), "{setting}");
        assert!(setting.contains("retry-after"), "{setting}");
        assert_eq!(fit(&source, Step::Reproduce).fit, Fit::Full);
    }

    #[test]
    fn what_has_not_happened_yet_is_open_and_not_lacking() {
        let fine = served("s", at(0));
        let sighting = Sighting::of(&fine.event, &fine.verdict, Input::Native);
        let source = source(Vantage::Client, Input::Native, &[sighting]);
        let limit = fit(&source, Step::Limit);
        assert_eq!((limit.fit, limit.lacks.len()), (Fit::Open, 0));
    }

    #[test]
    fn a_gap_is_a_stretch_without_events_of_a_source_that_normally_sends() {
        let mut steady = source(Vantage::Gateway, Input::AccessLog, &[]);
        steady.minutes = (0..30).filter(|m| !(10..13).contains(m)).map(|m| (m, 5)).collect();
        let now = UnixMillis(32 * MINUTE_MS);
        let gap = |from: i64, to: i64| Gap {
            from: UnixMillis(from * MINUTE_MS),
            to: UnixMillis(to * MINUTE_MS),
        };
        assert_eq!(steady.gaps(now), [gap(10, 13)]);
        assert_eq!(steady.gaps(UnixMillis(42 * MINUTE_MS)), [gap(10, 13), gap(30, 40)]);
        // One that sends now and then has none.
        steady.minutes = (0..30).step_by(4).map(|m| (m, 5)).collect();
        assert!(steady.gaps(now).is_empty());
    }
}
