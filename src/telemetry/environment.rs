//! What the standard variables of OpenTelemetry ask for:
//! <https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/> and
//! <https://opentelemetry.io/docs/specs/otel/protocol/exporter/>. Those that the SDK reads by itself
//! (sampling, batches, and everything about how traces and logs are sent) aren't here.

use super::TelemetryError;
use opentelemetry::KeyValue;
use opentelemetry_sdk::Resource;
use std::time::Duration;

/// What can be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signal {
    Traces,
    Metrics,
    Logs,
}

impl Signal {
    /// Its name in sentences and paths.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::Metrics => "metrics",
            Self::Logs => "logs",
        }
    }

    /// The variable `OTEL_EXPORTER_OTLP_<SIGNAL>_<name>`.
    fn own(self, name: &str) -> Option<String> {
        set(&format!("OTEL_EXPORTER_OTLP_{}_{name}", self.as_str().to_ascii_uppercase()))
    }

    /// Its own variable, else the one for all.
    fn or_general(self, name: &str) -> Option<String> {
        self.own(name).or_else(|| set(&format!("OTEL_EXPORTER_OTLP_{name}")))
    }

    /// Whether the environment asks for it to be sent.
    ///
    /// # Errors
    /// Where it asks for another protocol than HTTP with protobuf bodies.
    pub(super) fn is_asked_for(self) -> Result<bool, TelemetryError> {
        let is_disabled = is_word("OTEL_SDK_DISABLED", "true");
        let exporter = format!("OTEL_{}_EXPORTER", self.as_str().to_ascii_uppercase());
        if is_disabled || is_word(&exporter, "none") || self.or_general("ENDPOINT").is_none() {
            return Ok(false);
        }
        let own = format!("OTEL_EXPORTER_OTLP_{}_PROTOCOL", self.as_str().to_ascii_uppercase());
        for variable in [own.as_str(), "OTEL_EXPORTER_OTLP_PROTOCOL"] {
            if let Some(value) = set(variable) {
                if value != "http/protobuf" {
                    return Err(TelemetryError::Protocol { variable: variable.to_owned(), value });
                }
                break;
            }
        }
        Ok(true)
    }

    /// Where it is sent to: its own address as it is, or its path below the one for all.
    pub(super) fn endpoint(self) -> Option<String> {
        self.own("ENDPOINT").or_else(|| {
            let base = set("OTEL_EXPORTER_OTLP_ENDPOINT")?;
            Some(format!("{}/v1/{}", base.trim_end_matches('/'), self.as_str()))
        })
    }

    /// Header fields to send with it, the general ones first: `name=value` with commas between, values
    /// percent-encoded.
    pub(super) fn headers(self) -> Vec<(String, String)> {
        [set("OTEL_EXPORTER_OTLP_HEADERS"), self.own("HEADERS")]
            .into_iter()
            .flatten()
            .flat_map(|text| pairs(&text))
            .collect()
    }

    /// How long sending may take; 10 seconds where it isn't said.
    pub(super) fn timeout(self) -> Duration {
        milliseconds(self.or_general("TIMEOUT")).unwrap_or(Duration::from_secs(10))
    }

    /// Whether bodies are to be packed with gzip.
    pub(super) fn is_packed(self) -> bool {
        self.or_general("COMPRESSION").is_some_and(|word| word == "gzip")
    }
}

/// How often metrics are sent; every minute where it isn't said.
pub(super) fn metric_interval() -> Duration {
    milliseconds(set("OTEL_METRIC_EXPORT_INTERVAL")).unwrap_or(Duration::from_mins(1))
}

/// Whether sums since the last time are asked for, of which there are none here.
pub(super) fn asks_for_other_than_cumulative() -> bool {
    Signal::Metrics
        .own("TEMPORALITY_PREFERENCE")
        .is_some_and(|word| !word.eq_ignore_ascii_case("cumulative"))
}

/// Who sends: what the environment says, and where it doesn't, our name, version, and an id that
/// tells this process from its replicas and from itself before a restart.
pub(super) fn resource() -> Resource {
    let attributes = set("OTEL_RESOURCE_ATTRIBUTES").map(|text| pairs(&text)).unwrap_or_default();
    let is_named = |name: &str| attributes.iter().any(|(known, _)| known == name);
    let mut resource = Resource::builder()
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
    if set("OTEL_SERVICE_NAME").is_none() && !is_named("service.name") {
        resource = resource.with_service_name("retrylens");
    }
    if !is_named("service.instance.id") {
        let id = hex::encode(rand::random::<[u8; 16]>());
        resource = resource.with_attribute(KeyValue::new("service.instance.id", id));
    }
    resource.build()
}

/// By what this process's own spans are known: the service and the instance of `resource`.
pub(super) fn identity(resource: &Resource) -> Option<(String, String)> {
    let text = |name: &'static str| {
        resource.get(&opentelemetry::Key::from_static_str(name)).map(|value| value.to_string())
    };
    Some((text("service.name")?, text("service.instance.id")?))
}

/// A variable that is set to more than blanks.
fn set(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

fn is_word(name: &str, word: &str) -> bool {
    set(name).is_some_and(|value| value.trim().eq_ignore_ascii_case(word))
}

fn milliseconds(text: Option<String>) -> Option<Duration> {
    text?.trim().parse().ok().filter(|n| *n > 0).map(Duration::from_millis)
}

/// The pairs of `name=value,name=value`, as W3C Baggage writes them.
fn pairs(text: &str) -> Vec<(String, String)> {
    text.split(',')
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| {
            let value = percent_encoding::percent_decode_str(value.trim()).decode_utf8_lossy();
            (name.trim().to_owned(), value.into_owned())
        })
        .filter(|(name, _)| !name.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_fields_are_read_with_their_values_decoded() {
        let expected =
            [("api-key", "a=b, c"), ("x", "")].map(|(n, v)| (n.to_owned(), v.to_owned()));
        assert_eq!(pairs(" api-key = a=b%2C%20c ,x=,nothing,=none"), expected);
    }
}
