//! Step 2: reproduce it outside the application. Writes the `curl` twin of one refused attempt,
//! without secrets, with probe limits.

use super::operations::{Analysis, promised_ms, tally, weight};
use super::words::{many, name, span};
use super::{Answer, AnswerState, Finding, NextAction, Step, Table};
use crate::domain::classify::{Layer, LimitType};
use crate::domain::stats::quantile::Sorted;
use crate::domain::stored::StoredEvent;

/// How many probes are ever advised.
const PROBES: u32 = 3;
/// Beyond this promised wait a second probe is not advised, in milliseconds.
const LONG_WAIT_MS: i64 = 900_000;
/// The pause between probes where no wait was promised, in seconds.
const PAUSE_S: i64 = 60;

/// Answers step 2.
pub(super) fn answer(a: &Analysis<'_>) -> Answer {
    if a.facts.totals.attempts == 0 {
        return Answer::nothing_stored(Step::Reproduce);
    }
    let Some(chosen) = representative(a) else {
        return Answer::nothing_limited(Step::Reproduce, a);
    };
    if chosen.verdict.layer == Layer::Client {
        let mut answer = Answer::new(
            Step::Reproduce,
            AnswerState::Clear,
            "The refusal was made inside the caller: no request left it, so curl can't meet it.",
        );
        answer.next.push(NextAction::text(
            "Look at the caller's own limiter or circuit breaker, and at what opened it.",
        ));
        return answer;
    }
    let twin = Twin::of(chosen);
    let missing: Vec<&str> =
        [("`method`", chosen.event.method.is_none()), ("`route`", chosen.event.route.is_none())]
            .into_iter()
            .filter_map(|(field, is_missing)| is_missing.then_some(field))
            .collect();
    let (state, headline) = if missing.is_empty() {
        (
            AnswerState::Finding,
            format!(
                "Repeat {} {} with curl: the twin of a refused attempt is ready.",
                twin.method,
                name(chosen.event.route.as_deref().unwrap_or("/"))
            ),
        )
    } else {
        (
            AnswerState::NeedsData,
            format!("The twin is incomplete: send {} with each attempt.", missing.join(" and ")),
        )
    };
    let mut answer = Answer::new(Step::Reproduce, state, headline);
    let mut finding = Finding::note(
        "curl-twin",
        format!(
            "The twin repeats attempt {} of {}: {} {}, answered {}.",
            chosen.event.attempt,
            name(&chosen.event.service),
            twin.method,
            name(&chosen.event.host),
            status(chosen)
        ),
    )
    .rows(std::iter::once(chosen).collect());
    for (label, value) in &twin.warnings {
        finding = finding.number(label, value.clone());
    }
    answer.findings.push(finding);
    answer.next = next(a, chosen, &twin);
    answer.tables.push(Table::new(
        "What the twin leaves to you",
        &["part", "why it matters"],
        twin.warnings.iter().map(|(label, value)| vec![label.clone(), value.clone()]).collect(),
    ));
    answer
}

fn status(s: &StoredEvent) -> String {
    s.event.status.map_or_else(
        || s.event.error.map_or_else(|| "nothing".to_owned(), |e| e.to_string()),
        |status| status.to_string(),
    )
}

/// The newest refused attempt of the most frequent combination of responder, limit type and route.
fn representative<'a>(a: &Analysis<'a>) -> Option<&'a StoredEvent> {
    let key = |s: &'a StoredEvent| {
        (
            s.verdict.returned_by,
            s.verdict.limit_type,
            s.event.host.as_str(),
            s.event.route.as_deref(),
            s.event.method.as_deref(),
        )
    };
    let counted = tally(a.limited_attempts().map(|s| (key(s), weight(s))));
    let most = counted.first()?.0;
    a.limited_attempts().filter(|s| key(s) == most).last()
}

/// The `curl` twin of one attempt, without secrets.
pub fn curl_twin(attempt: &StoredEvent) -> CurlTwin {
    let twin = Twin::of(attempt);
    CurlTwin { command: twin.command, warnings: twin.warnings }
}

/// A command that sends the same request again, and what it leaves to the person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CurlTwin {
    /// The command, quoted for a POSIX shell.
    pub command: String,
    /// Parts that are missing or need care, and why they matter.
    pub warnings: Vec<(String, String)>,
}

/// The twin, its parts already quoted for a POSIX shell.
struct Twin {
    method: String,
    command: String,
    warnings: Vec<(String, String)>,
}

impl Twin {
    fn of(s: &StoredEvent) -> Self {
        let event = &s.event;
        let method = method(event.method.as_deref());
        let mut warnings = Vec::new();
        let (url, variables) = url(&event.host, event.route.as_deref());
        let mut parts = vec!["curl -sS -i -g --max-time 30".to_owned()];
        if event.method.is_none() {
            warnings
                .push(("Method".to_owned(), "The event names none; GET is assumed.".to_owned()));
        }
        if method == "HEAD" {
            parts.push("-I".to_owned());
        } else if method != "GET" {
            parts.push(format!("-X {method}"));
        }
        parts.push(url);
        if event.key_hash.is_some() {
            parts.push("-H \"Authorization: $AUTHORIZATION\"".to_owned());
            warnings.push((
                "Authorization".to_owned(),
                "The attempt used a key. Without it, or with another key, this tests another \
                 request: another limit may answer. Set AUTHORIZATION to the whole value; use the \
                 header that the API documents."
                    .to_owned(),
            ));
        } else {
            warnings.push((
                "Authorization".to_owned(),
                "No `key_hash` was sent. If the application sends a key, add it here: leaving it \
                 out tests another request."
                    .to_owned(),
            ));
        }
        if event.idempotency_key_hash.is_some() {
            parts.push("-H \"Idempotency-Key: $IDEMPOTENCY_KEY\"".to_owned());
            warnings.push((
                "Idempotency-Key".to_owned(),
                "The attempt carried one. The same key may replay a stored answer; a new key, or \
                 none, is another request and may do the work again."
                    .to_owned(),
            ));
        }
        if matches!(method.as_str(), "POST" | "PUT" | "PATCH") {
            parts.push("-H 'Content-Type: application/json'".to_owned());
            parts.push("--data-binary @request-body.json".to_owned());
            warnings.push((
                "Body".to_owned(),
                "This writes. Put a body into request-body.json that does no harm when it is \
                 accepted, or use a test account."
                    .to_owned(),
            ));
        }
        warnings.push((
            "User-Agent".to_owned(),
            "Rules of firewalls and bots look at it: add -A with the application's own value for \
             an exact twin."
                .to_owned(),
        ));
        warnings.push((
            "Address".to_owned(),
            "Run it from the application's network: limits by address see the egress address."
                .to_owned(),
        ));
        if !variables.is_empty() {
            warnings.push((
                "Route".to_owned(),
                format!("The route is a template: set {} first.", variables.join(", ")),
            ));
        }
        Self { method, command: parts.join(" \\\n  "), warnings }
    }
}

/// The commands to copy.
fn next(a: &Analysis<'_>, chosen: &StoredEvent, twin: &Twin) -> Vec<NextAction> {
    let promised = Sorted::new(
        a.limited_attempts()
            .filter(|s| s.event.host == chosen.event.host)
            .filter_map(|s| Some((promised_ms(s)?, weight(s)))),
    );
    let wait = promised.quantile(0.95);
    let kind = chosen.verdict.limit_type;
    let mut next = vec![NextAction::command(
        "Send one probe and read who answers.",
        format!("{} \\\n  | retrylens classify", twin.command),
    )];
    if kind == LimitType::Security {
        next.push(NextAction::text(
            "Send no more than that one: a firewall may lengthen a ban with each request.",
        ));
        return next;
    }
    if kind == LimitType::Quota || wait.is_some_and(|ms| ms > LONG_WAIT_MS) {
        next.push(NextAction::text(format!(
            "Send no more than that one: {}.",
            wait.map_or_else(
                || "the allowance is spent, and another probe only confirms it".to_owned(),
                |ms| format!("the promised wait is {}", span(ms))
            )
        )));
        return next;
    }
    // A tenth more than was promised, and a second for the cut of dates.
    let pause = wait.map_or(PAUSE_S, |ms| ms.max(0).saturating_add(ms / 10) / 1_000 + 2);
    next.push(NextAction::command(
        format!(
            "To see whether the limit opens again, send at most {}, {} s apart ({}).",
            many(i64::from(PROBES), "probe"),
            pause,
            wait.map_or_else(
                || "no wait was promised".to_owned(),
                |ms| format!("wider than the promised {}", span(ms))
            )
        ),
        format!(
            "for probe in 1 2 3; do\n  {} \\\n  | retrylens classify\n  [ \"$probe\" = {PROBES} ] || sleep {pause}\ndone",
            twin.command
        ),
    ));
    next
}

/// A method of letters alone; anything else becomes GET.
fn method(text: Option<&str>) -> String {
    match text {
        Some(word)
            if (1..=16).contains(&word.len()) && word.bytes().all(|b| b.is_ascii_uppercase()) =>
        {
            word.to_owned()
        }
        _ => "GET".to_owned(),
    }
}

/// The URL, quoted, and the variables that stand for the parts of a route template. Everything
/// that is not plain in a URL is percent-encoded, so neither shell nor terminal can be tricked.
fn url(host: &str, route: Option<&str>) -> (String, Vec<String>) {
    let mut literal = format!("https://{}", encode(host, ":[]"));
    let mut out = String::new();
    let mut variables = Vec::new();
    let route = route.unwrap_or("/").split(['?', '#']).next().unwrap_or("/");
    if !route.starts_with('/') {
        literal.push('/');
    }
    for (i, segment) in route.split('/').enumerate() {
        if i > 0 {
            literal.push('/');
        }
        if let Some(variable) = variable(segment) {
            out.push_str(&quote(&literal));
            out.push_str("\"$");
            out.push_str(&variable);
            out.push('"');
            literal.clear();
            if !variables.contains(&variable) {
                variables.push(variable);
            }
        } else {
            literal.push_str(&encode(segment, ":@!$&()*+,;=%"));
        }
    }
    if !literal.is_empty() {
        out.push_str(&quote(&literal));
    }
    (out, variables)
}

/// The shell variable for a segment of a route template: `{id}`, `:id`, `<id>` become `ROUTE_ID`.
fn variable(segment: &str) -> Option<String> {
    let inner = segment
        .strip_prefix('{')
        .and_then(|s| s.strip_suffix('}'))
        .or_else(|| segment.strip_prefix('<').and_then(|s| s.strip_suffix('>')))
        .or_else(|| segment.strip_prefix(':'))?;
    let word: String = inner
        .chars()
        .take(40)
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' })
        .collect();
    (!word.is_empty()).then(|| format!("ROUTE_{word}"))
}

/// Percent-encodes all but unreserved characters (RFC 3986 section 2.3) and those in `keep`.
fn encode(text: &str, keep: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars().take(2_048) {
        if c.is_ascii_alphanumeric() || "-._~".contains(c) || keep.contains(c) {
            out.push(c);
        } else {
            let mut bytes = [0_u8; 4];
            for byte in c.encode_utf8(&mut bytes).bytes() {
                out.push('%');
                out.push_str(&hex::encode_upper([byte]));
            }
        }
    }
    out
}

/// Text as one word of a POSIX shell.
pub(super) fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod unit {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_route_template_becomes_variables_and_the_rest_is_quoted() {
        let table: [(&str, Option<&str>, &str); 6] = [
            (
                "api.example.com",
                Some("/v1/orders/{id}"),
                "'https://api.example.com/v1/orders/'\"$ROUTE_ID\"",
            ),
            (
                "api.example.com",
                Some("/v1/:org/x"),
                "'https://api.example.com/v1/'\"$ROUTE_ORG\"'/x'",
            ),
            ("api.example.com:8443", None, "'https://api.example.com:8443/'"),
            ("api.example.com", Some("/a?token=x"), "'https://api.example.com/a'"),
            ("h", Some("/'; rm -rf ~ #"), "'https://h/%27;%20rm%20-rf%20~%20'"),
            ("h$(id)\n", Some("v1"), "'https://h%24%28id%29%0A/v1'"),
        ];
        for (host, route, want) in table {
            assert_eq!(url(host, route).0, want);
        }
    }

    proptest! {
        /// What a shell would make of the quoted text is one word without anything to expand.
        #[test]
        fn no_text_leaves_its_quotes(host in ".{0,40}", route in ".{0,60}") {
            let (word, variables) = url(&host, Some(&route));
            let mut quoted = word.clone();
            for variable in &variables {
                prop_assert!(variable.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'));
                quoted = quoted.replace(&format!("\"${variable}\""), "");
            }
            // Only '…' parts without a quote inside are left.
            prop_assert_eq!(quoted.matches('\'').count() % 2, 0);
            let outside: String = quoted.split('\'').step_by(2).collect();
            prop_assert_eq!(outside, "");
            prop_assert!(quoted.chars().all(|c| c.is_ascii_graphic()));
        }
    }
}
