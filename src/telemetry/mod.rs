//! Our own log, traces and metrics.
//!
//! The log goes to the standard error stream, as text or as an object a line. Traces, metrics and the
//! log leave over OTLP (HTTP with protobuf bodies) only where `OTEL_EXPORTER_OTLP_ENDPOINT`, or the
//! variable for one of them, is set; without it nothing is built and nothing is sent. The other
//! standard variables (`OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_EXPORTER_OTLP_HEADERS`,
//! `OTEL_TRACES_SAMPLER`, `OTEL_BSP_*`, `OTEL_BLRP_*`, `OTEL_METRIC_EXPORT_INTERVAL`,
//! `OTEL_{TRACES,METRICS,LOGS}_EXPORTER=none`, `OTEL_SDK_DISABLED`) mean what their specification
//! says: <https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/>.
//!
//! Nothing feeds itself: only spans and log lines of our own code are sent, none of the HTTP client
//! that sends them, nor what [`export`] says about sending.

mod environment;
mod export;
mod metrics;

use crate::clock::Clock;
use crate::config::{Log, LogFormat};
use crate::domain::redact;
use crate::metrics::Metrics;
use metrics::MetricsExport;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_appender_tracing::layer::OpenTelemetryTracingBridge;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::logs::SdkLoggerProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::{EnvFilter, FilterExt as _, Targets};
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
    #[error("{variable} is {value:?}, but only http/protobuf is spoken here")]
    Protocol {
        /// The environment variable.
        variable: String,
        /// Its value.
        value: String,
    },
    /// The exporter can't be built from the environment.
    #[error("the OTLP exporter can't be built")]
    Exporter(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// The service and the instance under which this process sends its own spans.
static OURSELVES: OnceLock<(String, String)> = OnceLock::new();

/// Under which service and instance this process sends its own spans, where it sends any. Whoever
/// receives spans passes these over: pages that are looked at, and what is received, are no traffic to
/// watch, and would hide that nobody else sends anything.
pub fn ourselves() -> Option<(&'static str, &'static str)> {
    OURSELVES.get().map(|(service, instance)| (service.as_str(), instance.as_str()))
}

/// The running telemetry. Call [`Telemetry::flush`] last.
#[derive(Debug)]
#[must_use = "what is not flushed is lost"]
pub struct Telemetry {
    resource: Resource,
    traces: Option<SdkTracerProvider>,
    logs: Option<SdkLoggerProvider>,
    metrics: Option<MetricsExport>,
}

/// Starts the log and, where the environment asks for it, its export and that of traces. Must be
/// called within a Tokio runtime, once in the life of the process.
///
/// # Errors
/// Where the filter or the environment can't be understood.
pub fn start(log: &Log) -> Result<Telemetry, TelemetryError> {
    let filter = || EnvFilter::try_new(&log.filter).map_err(TelemetryError::Filter);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines = match log.format {
        LogFormat::Json => lines.json().flatten_event(true).with_filter(filter()?).boxed(),
        LogFormat::Text => {
            let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
            lines.with_ansi(is_terminal).with_filter(filter()?).boxed()
        }
    };
    let resource = environment::resource();
    let (traces, logs) = (export::traces(&resource)?, export::logs(&resource)?);
    if let Some(identity) = environment::identity(&resource).filter(|_| traces.is_some()) {
        OURSELVES.set(identity).ok();
    }
    let sent_lines = match &logs {
        Some(provider) => {
            let ours = Targets::new()
                .with_target("retrylens", LevelFilter::TRACE)
                .with_target("retrylens::telemetry::export", LevelFilter::OFF);
            let bridge = OpenTelemetryTracingBridge::new(provider);
            Some(bridge.with_filter(filter()?.and(ours)))
        }
        None => None,
    };
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
        .with(sent_lines)
        .try_init()
        .map_err(TelemetryError::Started)?;
    std::panic::set_hook(Box::new(log_panic));
    Ok(Telemetry { resource, traces, logs, metrics: None })
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

    /// Sends `metrics` now and then, where the environment asks for it. Must be called within a Tokio
    /// runtime.
    ///
    /// # Errors
    /// Where the environment can't be understood.
    pub fn export_metrics(
        &mut self,
        metrics: Metrics,
        clock: Arc<dyn Clock>,
    ) -> Result<(), TelemetryError> {
        self.metrics = MetricsExport::start(metrics, clock, &self.resource)?;
        Ok(())
    }

    /// Sends what is still held, within `limit`, and ends the export.
    pub async fn flush(self, limit: Duration) {
        let metrics = async {
            if let Some(metrics) = self.metrics {
                metrics.finish(limit).await;
            }
        };
        let (traces, logs) = (self.traces, self.logs);
        // The SDK waits on its own threads, so it must not hold up the runtime that sends.
        let traces = tokio::task::spawn_blocking(move || {
            traces.map_or(Ok(()), |traces| traces.shutdown_with_timeout(limit))
        });
        let logs = tokio::task::spawn_blocking(move || {
            logs.map_or(Ok(()), |logs| logs.shutdown_with_timeout(limit))
        });
        let ((), traces, logs) = tokio::join!(metrics, traces, logs);
        for (what, ended) in [("traces", traces), ("log lines", logs)] {
            if let Ok(Err(error)) = ended {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "some {what} could not be sent before the end"
                );
            }
        }
    }
}
