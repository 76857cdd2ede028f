//! `/send`: how to send data, with settings to copy.

use super::model::Shell;
use super::{origin, render, words};
use crate::domain::stored::Sender;
use crate::domain::time::{Millis, UnixMillis};
use crate::web::api::Problems;
use crate::web::api::schema::NativeEvent;
use crate::web::{AppState, Failure};
use askama::Template;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Html;
use serde::Serialize;
use utoipa::{PartialSchema, ToSchema};

/// The command that sends a first event to `origin` (`http://127.0.0.1:4290`), with an id to look
/// up afterwards. Times and ids are examples; nothing in it is secret.
pub fn first_event_command(origin: &str, now: UnixMillis) -> String {
    format!(
        "curl -sS {origin}/v1/events -H 'content-type: application/json' -d '{{\n  \
         \"event_id\": \"first-event\", \"occurred_at\": \"{}\",\n  \
         \"service\": \"checkout\", \"host\": \"api.example.com\", \"method\": \"GET\",\n  \
         \"route\": \"/v1/orders/{{id}}\", \"status\": 429, \"retry_after\": \"30\",\n  \
         \"request_id\": \"req-1\", \"content_type\": \"text/plain\",\n  \
         \"headers\": {{\"server\": \"cloudflare\", \"cf-ray\": \"8f2a01b2c3d4e5f6-GRU\"}},\n  \
         \"body_sample\": \"error code: 1015\"\n}}'",
        now.to_rfc3339()
    )
}

/// A field of the native event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct FieldOut {
    /// Its name.
    pub name: &'static str,
    /// What it holds, from the API's own description.
    pub meaning: String,
    /// Whether an event is refused without it.
    pub required: bool,
    /// The accepted words, where only some are.
    pub words: Vec<String>,
    /// Which answers need it.
    pub group: &'static str,
}

/// The fields in the order in which a sender adds them, by what they make answerable.
const GROUPS: [(&str, &[&str]); 6] = [
    ("always", &["occurred_at", "service", "host", "url", "status", "error"]),
    (
        "who returned it",
        &[
            "headers",
            "retry_after",
            "content_type",
            "error_code",
            "body_sample",
            "request_id",
            "ray_id",
            "trace_id",
            "span_id",
            "vantage",
            "layer",
            "method",
            "route",
        ],
    ),
    (
        "how the client retries",
        &[
            "operation_id",
            "attempt",
            "retry_layer",
            "duration_ms",
            "computed_delay_ms",
            "delay_source",
            "outcome",
            "attempts_max",
            "timeout_ms",
            "deadline_ms",
            "priority",
        ],
    ),
    (
        "whose traffic",
        &["environment", "instance", "key_hash", "key_kind", "account_hash", "client_address_hash"],
    ),
    ("duplicate writes", &["idempotency_key_hash", "body_hash"]),
    ("true totals, once each", &["event_id", "count"]),
];

/// Every field, described as in the OpenAPI document.
pub fn fields() -> Vec<FieldOut> {
    let schema = serde_json::to_value(NativeEvent::schema()).unwrap_or_default();
    let described = |name: &str| {
        let field = &schema["properties"][name];
        let nested = field["oneOf"].as_array().into_iter().flatten();
        let mut texts = std::iter::once(field).chain(nested);
        texts.find_map(|part| part["description"].as_str()).unwrap_or_default().to_owned()
    };
    let words = |name: &str| -> Vec<String> {
        use crate::domain::classify::Layer;
        use crate::domain::event::{AttemptError, Outcome, RetryLayer, Vantage};
        let of = |words: &[&'static str]| words.iter().map(|&w| w.to_owned()).collect();
        match name {
            "vantage" => of(&Vantage::ALL.iter().map(|w| w.as_str()).collect::<Vec<_>>()),
            "error" => of(&AttemptError::ALL.iter().map(|w| w.as_str()).collect::<Vec<_>>()),
            "retry_layer" => of(&RetryLayer::ALL.iter().map(|w| w.as_str()).collect::<Vec<_>>()),
            "outcome" => of(&Outcome::ALL.iter().map(|w| w.as_str()).collect::<Vec<_>>()),
            "layer" => of(&Layer::ALL.iter().map(|w| w.as_str()).collect::<Vec<_>>()),
            _ => Vec::new(),
        }
    };
    GROUPS
        .into_iter()
        .flat_map(|(group, names)| names.iter().map(move |name| (group, *name)))
        .map(|(group, name)| FieldOut {
            name,
            meaning: described(name),
            required: matches!(name, "occurred_at" | "service"),
            words: words(name),
            group,
        })
        .collect()
}

/// What one service sent, and what was wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct SenderOut {
    /// The service; empty for items that were refused before it could be read.
    pub service: String,
    /// Events stored.
    pub events: i64,
    /// Values replaced because they looked secret.
    pub redactions: i64,
    /// Fields that no event has.
    pub unknown_fields: i64,
    /// Items refused.
    pub rejected: i64,
    /// Events whose id was already stored with another time.
    pub id_conflicts: i64,
    /// Events whose route, upstream, environment or service is `other` in sums and lists, since
    /// there are too many.
    pub as_other: i64,
}

impl From<&Sender> for SenderOut {
    fn from(sender: &Sender) -> Self {
        let c = &sender.counts;
        Self {
            service: sender.service.clone(),
            events: c.events,
            redactions: c.redactions,
            unknown_fields: c.unknown_fields,
            rejected: c.rejected,
            id_conflicts: c.id_conflicts,
            as_other: c.as_other,
        }
    }
}

impl SenderOut {
    /// The numbers in the order of the table's columns, grouped.
    pub fn numbers(&self) -> [String; 6] {
        [
            self.events,
            self.redactions,
            self.unknown_fields,
            self.rejected,
            self.id_conflicts,
            self.as_other,
        ]
        .map(words::count)
    }

    /// The service, or words for items without one.
    pub fn name(&self) -> &str {
        if self.service.is_empty() { "(no service could be read)" } else { &self.service }
    }
}

/// How to send data, and what became of what was sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Send {
    /// Where events are posted.
    pub endpoint: String,
    /// A command that sends a first event.
    pub first_event: String,
    /// The fields of an event.
    pub fields: Vec<FieldOut>,
    /// What each service sent.
    pub senders: Vec<SenderOut>,
    /// Whether senders need a token.
    pub needs_token: bool,
}

/// A piece of text to copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snippet {
    /// Its heading.
    pub title: &'static str,
    /// When to use it.
    pub about: &'static str,
    /// The text.
    pub text: String,
}

/// How long the first attempt of the example took, in milliseconds.
const FIRST_TOOK_MS: i64 = 84;
/// How long its client then waits: the 30 seconds it was told, and some jitter.
const WAIT_MS: i64 = 30_412;

fn snippets(
    origin: &str,
    needs_token: bool,
    reads_with_token: bool,
    now: UnixMillis,
) -> Vec<Snippet> {
    let at = now.to_rfc3339();
    // The second attempt begins when the first was answered and its wait is over.
    let [first, second] =
        [now, now.plus(Millis(FIRST_TOOK_MS + WAIT_MS))].map(UnixMillis::to_rfc3339);
    let token =
        if needs_token { " \\\n  -H \"authorization: Bearer $RETRYLENS_TOKEN\"" } else { "" };
    let curl = format!("curl -sS {origin}/v1/events{token}");
    vec![
        Snippet {
            title: "Many at once",
            about: "NDJSON, an event a line; gzip and zstd are taken. A body that is cut off in \
                    mid-line costs only that line.",
            text: format!(
                "gzip -c events.ndjson | {curl} \\\n  -H 'content-type: application/x-ndjson' \
                 -H 'content-encoding: gzip' --data-binary @-"
            ),
        },
        Snippet {
            title: "Every attempt of an operation",
            about: "Give the attempts of one intent the same operation_id and number them from 1. \
                    The wait chosen after an attempt goes into computed_delay_ms.",
            text: format!(
                "{curl} -H 'content-type: application/x-ndjson' --data-binary @- <<'END'\n\
                 {{\"event_id\":\"a1\",\"operation_id\":\"op-1\",\"attempt\":1,\"occurred_at\":\"{first}\",\"duration_ms\":{FIRST_TOOK_MS},\"service\":\"checkout\",\"host\":\"api.example.com\",\"method\":\"POST\",\"route\":\"/v1/orders\",\"status\":429,\"retry_after\":\"30\",\"computed_delay_ms\":{WAIT_MS},\"delay_source\":\"retry-after\",\"retry_layer\":\"sdk\",\"outcome\":\"retrying\"}}\n\
                 {{\"event_id\":\"a2\",\"operation_id\":\"op-1\",\"attempt\":2,\"occurred_at\":\"{second}\",\"duration_ms\":90,\"service\":\"checkout\",\"host\":\"api.example.com\",\"method\":\"POST\",\"route\":\"/v1/orders\",\"status\":201,\"retry_layer\":\"sdk\",\"outcome\":\"succeeded\"}}\n\
                 END"
            ),
        },
        Snippet {
            title: "Successes in bulk",
            about: "Ratios need the attempts that were served, too. Send them once a minute as one \
                    event with a count.",
            text: format!(
                "{curl} -H 'content-type: application/json' -d '{{\"event_id\": \
                 \"checkout-pod-7-minute-1\", \"occurred_at\": \"{at}\", \"service\": \"checkout\", \
                 \"instance\": \"pod-7\", \"host\": \"api.example.com\", \"route\": \
                 \"/v1/orders/{{id}}\", \"status\": 200, \"count\": 1180}}'"
            ),
        },
        Snippet {
            title: "What a gateway or the origin saw",
            about: "The proof that a request did or did not get through. Joined only by a shared \
                    request, ray or trace id, never by time.",
            text: format!(
                "{curl} -H 'content-type: application/json' -d '{{\"occurred_at\": \"{at}\", \
                 \"vantage\": \"origin\", \"service\": \"checkout\", \"host\": \"api.example.com\", \
                 \"status\": 201, \"request_id\": \"req-1\"}}'"
            ),
        },
        Snippet {
            title: "OpenTelemetry, without code",
            about: "Spans of HTTP clients become attempts, those of servers what the origin saw. \
                    Metrics say how many requests there were where spans are sampled, logs which \
                    waits clients chose. Any exporter or collector will do, as protobuf or JSON, \
                    and over gRPC. An operation is shown some seconds after its last attempt.",
            text: format!(
                "export OTEL_EXPORTER_OTLP_ENDPOINT={origin}\n\
                 export OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf{}",
                if needs_token {
                    "\nexport OTEL_EXPORTER_OTLP_HEADERS=\\\n\
                     \"authorization=Bearer%20$RETRYLENS_TOKEN\""
                } else {
                    ""
                }
            ),
        },
        Snippet {
            title: "Who returned it: capture headers",
            about: "OpenTelemetry leaves response headers out unless told otherwise. Without them \
                    retrylens knows status, attempts and waits, but not who answered.",
            text: capture_settings(),
        },
        Snippet {
            title: "Let Prometheus read what was counted",
            about: "A part of prometheus.yml. Where read tokens are set, one of them goes into the \
                    file that credentials_file names; exemplars with trace ids are kept with \
                    --enable-feature=exemplar-storage. Each replica is a target of its own.",
            text: scrape_config(origin, reads_with_token),
        },
    ]
}

/// How header fields are captured, per language.
fn capture_settings() -> String {
    use crate::domain::spans::words::{REQUEST_HEADERS, RESPONSE_HEADERS};
    format!(
        "RESPONSE={RESPONSE_HEADERS}\nREQUEST={REQUEST_HEADERS}\n\n\
         # Python\n\
         export OTEL_INSTRUMENTATION_HTTP_CAPTURE_HEADERS_CLIENT_RESPONSE=$RESPONSE\n\
         export OTEL_INSTRUMENTATION_HTTP_CAPTURE_HEADERS_CLIENT_REQUEST=$REQUEST\n\n\
         # Java\n\
         export OTEL_INSTRUMENTATION_HTTP_CLIENT_CAPTURE_RESPONSE_HEADERS=$RESPONSE\n\
         export OTEL_INSTRUMENTATION_HTTP_CLIENT_CAPTURE_REQUEST_HEADERS=$REQUEST\n\n\
         # .NET\n\
         export OTEL_DOTNET_AUTO_TRACES_HTTP_INSTRUMENTATION_CAPTURE_RESPONSE_HEADERS=$RESPONSE\n\
         export OTEL_DOTNET_AUTO_TRACES_HTTP_INSTRUMENTATION_CAPTURE_REQUEST_HEADERS=$REQUEST\n\n\
         // Node, in code; lists of names\n\
         new HttpInstrumentation({{headersToSpanAttributes: {{client: {{requestHeaders, \
         responseHeaders}}}}}})\n\
         new UndiciInstrumentation({{headersToSpanAttributes: {{requestHeaders, \
         responseHeaders}}}})"
    )
}

/// What Prometheus needs to know to read `/metrics` of `origin`.
fn scrape_config(origin: &str, needs_token: bool) -> String {
    let (scheme, target) = origin.split_once("://").unwrap_or(("http", origin));
    let token = if needs_token {
        "    authorization:\n      credentials_file: /etc/prometheus/retrylens-token\n"
    } else {
        ""
    };
    format!(
        "scrape_configs:\n  - job_name: retrylens\n    scrape_interval: 15s\n    \
         scheme: {scheme}\n{token}    static_configs:\n      - targets: ['{target}']\n"
    )
}

/// `GET /send`
#[utoipa::path(get, path = "/send", tag = "pages",
    responses((status = 200, description = "How to send data", body = String, content_type = "text/html"), Problems))]
pub(crate) async fn show(
    State(state): State<AppState>,
    headers: HeaderMap,
) -> Result<Html<String>, Failure> {
    let senders = state.store.senders().await?;
    let origin = origin(&state.config, &headers);
    let needs_token = !state.config.access.ingest_tokens.is_empty();
    let reads_with_token = !state.config.access.read_tokens.is_empty();
    let page = SendPage::new(&origin, needs_token, reads_with_token, &senders, state.clock.now());
    render(&page)
}

/// The page.
#[derive(Debug, Clone, Template)]
#[template(path = "pages/send.html")]
pub struct SendPage {
    shell: Shell,
    model: Send,
    snippets: Vec<Snippet>,
}

impl Send {
    /// How to send data to `origin`.
    pub fn build(origin: &str, needs_token: bool, senders: &[Sender], now: UnixMillis) -> Self {
        Self {
            endpoint: format!("{origin}/v1/events"),
            first_event: first_event_command(origin, now),
            fields: fields(),
            senders: senders.iter().map(Into::into).collect(),
            needs_token,
        }
    }
}

impl SendPage {
    /// The page.
    pub fn new(
        origin: &str,
        needs_token: bool,
        reads_with_token: bool,
        senders: &[Sender],
        now: UnixMillis,
    ) -> Self {
        Self {
            shell: Shell::new("Send data", "send").with_twin("/api/v1/send".to_owned()),
            model: Send::build(origin, needs_token, senders, now),
            snippets: snippets(origin, needs_token, reads_with_token, now),
        }
    }

    /// Pages to look at.
    #[cfg(test)]
    pub(crate) fn samples() -> Vec<(&'static str, Self)> {
        use super::samples;
        use crate::domain::stored::SenderCounts;
        let sender = |service: &str, n: i64| Sender {
            service: service.to_owned(),
            counts: SenderCounts {
                events: n,
                redactions: n / 100,
                unknown_fields: n / 10,
                rejected: 2,
                id_conflicts: 0,
                as_other: 0,
            },
        };
        let page = |senders: &[Sender]| {
            Self::new("http://127.0.0.1:4290", true, true, senders, samples::NOW)
        };
        let hostile: Vec<Sender> = samples::hostile().iter().map(|t| sender(t, 1 << 40)).collect();
        vec![
            ("empty", page(&[])),
            ("usual", page(&[sender("checkout", 12_400), sender("", 0)])),
            ("hostile", page(&hostile)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_of_the_api_is_listed_once_with_its_meaning() {
        let fields = fields();
        let mut listed: Vec<&str> = fields.iter().map(|f| f.name).collect();
        listed.sort_unstable();
        let schema = serde_json::to_value(NativeEvent::schema()).unwrap();
        let mut known: Vec<&str> =
            schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
        known.sort_unstable();
        assert_eq!(listed, known);
        let wordless: Vec<_> = fields.iter().filter(|f| f.meaning.is_empty()).collect();
        assert!(wordless.is_empty(), "{wordless:?}");
    }

    #[test]
    fn the_second_attempt_of_the_example_waits_for_what_the_first_was_told() {
        let all = snippets("http://127.0.0.1:4290", false, false, UnixMillis(1_794_380_940_000));
        let text = &all.iter().find(|s| s.text.contains("\"attempt\":2")).unwrap().text;
        let events: Vec<serde_json::Value> =
            text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let moment = |at: usize| {
            UnixMillis::parse_rfc3339(events[at]["occurred_at"].as_str().unwrap()).unwrap()
        };
        let told_ms = events[0]["retry_after"].as_str().unwrap().parse::<i64>().unwrap() * 1_000;
        let waited = moment(1).since(moment(0)).0 - events[0]["duration_ms"].as_i64().unwrap();
        assert!(waited >= told_ms, "{text}");
        assert_eq!(events[0]["computed_delay_ms"], waited);
    }

    #[test]
    fn the_first_event_is_json_that_a_shell_passes_on() {
        let command = first_event_command("http://127.0.0.1:4290", UnixMillis(0));
        let body = command.split('\'').nth(3).unwrap();
        let event: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(event["occurred_at"], "1970-01-01T00:00:00.000Z");
        assert_eq!(event["status"], 429);
    }
}
