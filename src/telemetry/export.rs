//! Sends over OTLP/HTTP as protobuf, on the program's own runtime.
//!
//! Whether it works is told in the log alone, and what this file logs is not sent: it would be the
//! reason for sending again.

use super::TelemetryError;
use super::environment::Signal;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{LogExporter, Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::logs::SdkLoggerProvider;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Builds the export of traces; `None` where the environment doesn't ask for one.
pub(super) fn traces(resource: &Resource) -> Result<Option<SdkTracerProvider>, TelemetryError> {
    if !Signal::Traces.is_asked_for()? {
        return Ok(None);
    }
    let exporter = SpanExporter::builder()
        .with_http()
        .with_protocol(Protocol::HttpBinary)
        .with_http_client(OnRuntime::new(Signal::Traces)?)
        .build()
        .map_err(failed)?;
    opentelemetry::global::set_text_map_propagator(TraceContextPropagator::new());
    let provider = SdkTracerProvider::builder().with_resource(resource.clone());
    Ok(Some(provider.with_batch_exporter(exporter).build()))
}

/// Builds the export of the log; `None` where the environment doesn't ask for one.
pub(super) fn logs(resource: &Resource) -> Result<Option<SdkLoggerProvider>, TelemetryError> {
    if !Signal::Logs.is_asked_for()? {
        return Ok(None);
    }
    let exporter = LogExporter::builder()
        .with_http()
        .with_protocol(Protocol::HttpBinary)
        .with_http_client(OnRuntime::new(Signal::Logs)?)
        .build()
        .map_err(failed)?;
    let provider = SdkLoggerProvider::builder().with_resource(resource.clone());
    Ok(Some(provider.with_batch_exporter(exporter).build()))
}

pub(super) fn failed(error: impl std::error::Error + Send + Sync + 'static) -> TelemetryError {
    TelemetryError::Exporter(Box::new(error))
}

/// The client that sends, with its own limits of time.
pub(super) fn client(timeout: Duration) -> Result<reqwest::Client, TelemetryError> {
    // Fails only where a provider is installed already, which is as good.
    drop(rustls::crypto::ring::default_provider().install_default());
    reqwest::Client::builder()
        .connect_timeout(Duration::from_secs(5))
        .timeout(timeout)
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("retrylens/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(failed)
}

/// Whether what is sent arrives, told when that changes.
#[derive(Debug)]
pub(super) struct Delivery {
    signal: Signal,
    is_failing: AtomicBool,
}

impl Delivery {
    pub(super) fn new(signal: Signal) -> Self {
        Self { signal, is_failing: AtomicBool::new(false) }
    }

    /// Says once that delivery fails, and once that it works again.
    pub(super) fn note(&self, problem: Option<String>) {
        let was_failing = self.is_failing.swap(problem.is_some(), Ordering::Relaxed);
        let signal = self.signal.as_str();
        match problem {
            Some(problem) if !was_failing => {
                tracing::warn!(problem, "{signal} can't be delivered: {problem}");
            }
            None if was_failing => tracing::info!("{signal} are delivered again"),
            _ => {}
        }
    }
}

/// An HTTP client whose work runs on the program's own runtime: the SDK exports from a thread of
/// its own, where no runtime is.
#[derive(Debug)]
struct OnRuntime {
    client: reqwest::Client,
    runtime: tokio::runtime::Handle,
    delivery: Delivery,
}

impl OnRuntime {
    fn new(signal: Signal) -> Result<Self, TelemetryError> {
        Ok(Self {
            client: client(signal.timeout())?,
            runtime: tokio::runtime::Handle::try_current().map_err(failed)?,
            delivery: Delivery::new(signal),
        })
    }
}

#[async_trait::async_trait]
impl HttpClient for OnRuntime {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        let sending = self.runtime.spawn(async move { client.send_bytes(request).await });
        let result = sending.await.map_err(HttpError::from).and_then(|sent| sent);
        self.delivery.note(match &result {
            Ok(response) if response.status().is_success() => None,
            Ok(response) => Some(format!("the collector answered {}", response.status())),
            Err(error) => Some(error.to_string()),
        });
        result
    }
}
