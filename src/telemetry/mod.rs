//! Our own log and traces.
//!
//! The log goes to the standard error stream, as text or as an object a line. Traces leave over
//! OTLP (HTTP with protobuf bodies) only where `OTEL_EXPORTER_OTLP_ENDPOINT`, or the variable for
//! traces alone, is set; without it nothing is built and nothing is sent. The other standard
//! variables (`OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_EXPORTER_OTLP_HEADERS`,
//! `OTEL_TRACES_SAMPLER`, `OTEL_BSP_*`, `OTEL_SDK_DISABLED`) mean what their specification says:
//! <https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/>.
//!
//! Metrics and logs over OTLP aren't here yet.

mod export;

use crate::config::{Log, LogFormat};
use crate::domain::redact;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::trace::SdkTracerProvider;
use std::time::Duration;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::{EnvFilter, Targets};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

/// Why the program's own log or traces can't be started.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// Another part of the process has set up logging already.
    #[error("the log is set up already")]
    Started(#[source] TryInitError),
    /// The log filter can't be read.
    #[error("log_filter can't be read")]
    Filter(#[source] tracing_subscriber::filter::ParseError),
    /// A protocol that this program doesn't speak.
    #[error("{variable} is {value:?}, but traces are sent as http/protobuf only")]
    Protocol {
        /// The environment variable.
        variable: &'static str,
        /// Its value.
        value: String,
    },
    /// The exporter can't be built from the environment.
    #[error("the OTLP exporter can't be built")]
    Exporter(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// The running telemetry. Call [`Telemetry::flush`] last.
#[derive(Debug)]
#[must_use = "what is not flushed is lost"]
pub struct Telemetry {
    traces: Option<SdkTracerProvider>,
}

/// Starts the log and, where the environment asks for it, the export of traces. Must be called
/// within a Tokio runtime, once in the life of the process.
///
/// # Errors
/// Where the filter or the environment can't be understood.
pub fn start(log: &Log) -> Result<Telemetry, TelemetryError> {
    let filter = EnvFilter::try_new(&log.filter).map_err(TelemetryError::Filter)?;
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines = match log.format {
        LogFormat::Json => lines.json().flatten_event(true).with_filter(filter).boxed(),
        LogFormat::Text => {
            let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
            lines.with_ansi(is_terminal).with_filter(filter).boxed()
        }
    };
    let traces = export::provider()?;
    let spans = traces.as_ref().map(|provider| {
        // Only our own spans: those of the exporter's HTTP client would beget new ones. The store's
        // are finer than the log shows them by default.
        let ours = Targets::new()
            .with_target("retrylens", LevelFilter::INFO)
            .with_target("retrylens::store", LevelFilter::DEBUG);
        let tracer = provider.tracer("retrylens");
        // Code locations and thread ids say nothing to whoever reads these traces.
        let layer = tracing_opentelemetry::layer().with_tracer(tracer);
        layer.with_location(false).with_threads(false).with_target(false).with_filter(ours)
    });
    tracing_subscriber::registry()
        .with(lines)
        .with(spans)
        .try_init()
        .map_err(TelemetryError::Started)?;
    std::panic::set_hook(Box::new(log_panic));
    Ok(Telemetry { traces })
}

/// Writes a panic to the log, in its format. What it says may quote what a sender sent, so it is
/// cleaned like everything else from outside.
fn log_panic(panic: &std::panic::PanicHookInfo<'_>) {
    let said = redact::text(panic.payload_as_str().unwrap_or("no text")).text;
    let location = panic.location().map(ToString::to_string).unwrap_or_default();
    tracing::error!(code.location = location, "a defect: panicked at {location}: {said}");
}

impl Telemetry {
    /// Whether traces are sent somewhere.
    pub fn exports_traces(&self) -> bool {
        self.traces.is_some()
    }

    /// Sends what is still held, within `limit`, and ends the export.
    pub async fn flush(self, limit: Duration) {
        let Some(provider) = self.traces else { return };
        // The SDK waits on its own thread, so it must not hold up the runtime that sends.
        let ended =
            tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(limit)).await;
        if let Ok(Err(error)) = ended {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "some traces could not be sent before the end"
            );
        }
    }
}
