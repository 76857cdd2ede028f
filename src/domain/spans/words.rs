//! What is told to people of operations that were derived from spans.

use super::operations::{Confidence, Marks, Visibility};

/// What is to be said of an operation whose attempts carry these marks, most important first.
pub fn notes(marks: &[&Marks]) -> Vec<String> {
    let Some(first) = marks.first() else { return Vec::new() };
    let mut notes = Vec::new();
    match first.visibility {
        Visibility::NotVisible => notes.push(not_visible(first)),
        Visibility::AtLeast => notes.push(match first.at_least {
            Some(n) => format!(
                "At least {n} attempts were made: some of them have no span here, because they \
                 were sampled out or not sent."
            ),
            None => {
                "At least these attempts were made: each is a trace of its own, which a sampler \
                     keeps or drops by itself, so that others may be missing, the last one too."
                    .to_owned()
            }
        }),
        Visibility::All => {}
    }
    let is_ambiguous = marks.iter().any(|marks| marks.ambiguous);
    let [by, limit] = match first.confidence {
        Confidence::Explicit if is_ambiguous => ["by the client's own word", ""],
        Confidence::Explicit => {
            ["by what the client itself says: an id that all attempts carry, or its own count", ""]
        }
        Confidence::SdkSpan => ["below one call of an SDK", ""],
        Confidence::Parent => ["by their parent, path and order", "; no id says so"],
        Confidence::Time => {
            ["by path and time alone", ", since they have no parent in common: likely, not proven"]
        }
    };
    notes.push(if is_ambiguous {
        format!(
            "Put together from spans {by}, which fits another operation too that ran at the same \
             time with the same parent and path: which retry belongs to which of them can't be \
             told; totals are right."
        )
    } else {
        format!("Put together from spans {by}{limit}.")
    });
    if marks.iter().any(|marks| marks.late) {
        notes.push("Some spans arrived after the operation had been settled.".to_owned());
    }
    if marks.iter().any(|marks| marks.redirected) {
        notes.push("Requests that follow a redirect have the number of the one before: they are no retries.".to_owned());
    }
    if marks.iter().all(|marks| !marks.has_headers) {
        notes.push(format!(
            "Who returned the answers can't be told: response headers are not captured. {}",
            capture_switch(first.language.as_deref())
        ));
    }
    notes
}

fn not_visible(marks: &Marks) -> String {
    let count = match marks.at_least {
        Some(n) => format!("There were at least {n}"),
        None => "There may have been more than is shown".to_owned(),
    };
    format!(
        "Attempts not visible: the instrumentation {} covers a call and all its retries with one \
         span. {count}. To see each, retry in the application instead of in the client library's \
         adapter, or switch off the outer instrumentation where an inner one sees each request \
         (for boto3: OTEL_PYTHON_DISABLED_INSTRUMENTATIONS=botocore with urllib3 instrumented).",
        if marks.scope.is_empty() { "in use" } else { &marks.scope }
    )
}

/// Response header fields worth capturing, as the switches take them.
pub const RESPONSE_HEADERS: &str = "retry-after,retry-after-ms,date,server,via,content-type,cf-ray,\
x-request-id,request-id,x-amzn-requestid,x-amz-request-id,x-amzn-errortype,x-amz-apigw-id,\
x-amz-cf-id,x-envoy-ratelimited,x-kong-request-id,x-github-request-id,ratelimit,ratelimit-policy,\
ratelimit-limit,ratelimit-remaining,ratelimit-reset,x-ratelimit-limit,x-ratelimit-remaining,\
x-ratelimit-reset,x-cache,x-should-retry";

/// Request header fields worth capturing. Never `authorization`, `cookie` or `x-api-key`.
pub const REQUEST_HEADERS: &str =
    "idempotency-key,amz-sdk-request,amz-sdk-invocation-id,x-stainless-retry-count";

/// How response headers are captured in a language (`telemetry.sdk.language`).
pub fn capture_switch(language: Option<&str>) -> &'static str {
    match language {
        Some("python") => {
            "Set OTEL_INSTRUMENTATION_HTTP_CAPTURE_HEADERS_CLIENT_RESPONSE to the list on /send."
        }
        Some("java") => {
            "Set OTEL_INSTRUMENTATION_HTTP_CLIENT_CAPTURE_RESPONSE_HEADERS to the list on /send."
        }
        Some("dotnet") => {
            "Set OTEL_DOTNET_AUTO_TRACES_HTTP_INSTRUMENTATION_CAPTURE_RESPONSE_HEADERS to the list \
             on /send."
        }
        Some("nodejs") => {
            "In Node it takes code: headersToSpanAttributes in the settings of \
             instrumentation-http and instrumentation-undici; /send has the lines."
        }
        Some("go") => "otelhttp has no switch for it: send native events, or gateway logs.",
        Some("rust") => "In Rust it takes code: a span backend of your own that records them.",
        _ => "The switch depends on the language; /send has those that are known.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::spans::hints::NumberSource;

    #[test]
    fn what_can_not_be_seen_is_said_first_and_never_called_no_retries() {
        let marks = Marks {
            confidence: Confidence::Time,
            ambiguous: false,
            visibility: Visibility::NotVisible,
            at_least: Some(3),
            number_source: NumberSource::Place,
            redirected: false,
            late: false,
            has_headers: false,
            language: Some("python".to_owned()),
            scope: "opentelemetry.instrumentation.requests".to_owned(),
        };
        let notes = notes(&[&marks]);
        assert!(notes[0].starts_with("Attempts not visible"), "{}", notes[0]);
        assert!(notes[0].contains("at least 3"), "{}", notes[0]);
        assert!(notes[2].contains("CAPTURE_HEADERS_CLIENT_RESPONSE"), "{}", notes[2]);
        assert_eq!(super::notes(&[]), Vec::<String>::new());
        for confidence in Confidence::ALL {
            let certain = Marks { confidence: *confidence, ..marks.clone() };
            let doubted = Marks { ambiguous: true, ..certain.clone() };
            let of = |marks: &Marks| -> Vec<String> {
                let all = super::notes(&[marks]);
                all.into_iter().filter(|note| !note.contains("not visible")).collect()
            };
            // How sure it is stands in one sentence, whatever it rests on.
            assert_eq!(of(&certain).len(), of(&doubted).len(), "{confidence}");
            assert!(!of(&certain)[0].contains("can't be told"), "{confidence}");
            assert!(of(&doubted)[0].contains("can't be told; totals are right"), "{confidence}");
        }
    }
}
