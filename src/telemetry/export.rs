//! Sends traces over OTLP/HTTP as protobuf.

use super::TelemetryError;
use opentelemetry::KeyValue;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Builds the export from the environment; `None` where it doesn't ask for one.
pub(super) fn provider() -> Result<Option<SdkTracerProvider>, TelemetryError> {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    let is_disabled = set("OTEL_SDK_DISABLED").is_some_and(|v| v.eq_ignore_ascii_case("true"));
    let is_asked_for = set("OTEL_EXPORTER_OTLP_ENDPOINT").is_some()
        || set("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").is_some();
    let is_none = set("OTEL_TRACES_EXPORTER").is_some_and(|v| v.eq_ignore_ascii_case("none"));
    if is_disabled || is_none || !is_asked_for {
        return Ok(None);
    }
    for variable in ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"] {
        if let Some(value) = set(variable).filter(|value| value != "http/protobuf") {
            return Err(TelemetryError::Protocol { variable, value });
        }
    }
    let exporter = SpanExporter::builder()
        .with_http()
        .with_protocol(Protocol::HttpBinary)
        .with_http_client(OnRuntime::new()?)
        .build()
        .map_err(|error| TelemetryError::Exporter(Box::new(error)))?;
    let mut resource = Resource::builder()
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
    if set("OTEL_SERVICE_NAME").is_none() && !names_service(set("OTEL_RESOURCE_ATTRIBUTES")) {
        resource = resource.with_service_name("retrylens");
    }
    opentelemetry::global::set_text_map_propagator(TraceContextPropagator::new());
    Ok(Some(
        SdkTracerProvider::builder()
            .with_resource(resource.build())
            .with_batch_exporter(exporter)
            .build(),
    ))
}

fn names_service(attributes: Option<String>) -> bool {
    attributes.is_some_and(|text| {
        text.split(',').any(|pair| pair.trim_start().starts_with("service.name="))
    })
}

/// An HTTP client whose work runs on the program's own runtime: the SDK exports from a thread of
/// its own, where no runtime is.
#[derive(Debug)]
struct OnRuntime {
    client: reqwest::Client,
    runtime: tokio::runtime::Handle,
    is_failing: AtomicBool,
}

impl OnRuntime {
    fn new() -> Result<Self, TelemetryError> {
        // Fails only where a provider is installed already, which is as good.
        drop(rustls::crypto::ring::default_provider().install_default());
        let client = reqwest::Client::builder()
            .connect_timeout(Duration::from_secs(5))
            .timeout(Duration::from_secs(10))
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("retrylens/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| TelemetryError::Exporter(Box::new(error)))?;
        let runtime = tokio::runtime::Handle::try_current()
            .map_err(|error| TelemetryError::Exporter(Box::new(error)))?;
        Ok(Self { client, runtime, is_failing: AtomicBool::new(false) })
    }

    /// Says once that delivery fails, and once that it works again.
    fn note(&self, result: &Result<Response<Bytes>, HttpError>) {
        let problem = match result {
            Ok(response) if response.status().is_success() => None,
            Ok(response) => Some(format!("the collector answered {}", response.status())),
            Err(error) => Some(error.to_string()),
        };
        let was_failing = self.is_failing.swap(problem.is_some(), Ordering::Relaxed);
        match problem {
            Some(problem) if !was_failing => {
                tracing::warn!(problem, "traces can't be delivered: {problem}");
            }
            None if was_failing => tracing::info!("traces are delivered again"),
            _ => {}
        }
    }
}

#[async_trait::async_trait]
impl HttpClient for OnRuntime {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        let sending = self.runtime.spawn(async move { client.send_bytes(request).await });
        let result = sending.await.map_err(HttpError::from).and_then(|sent| sent);
        self.note(&result);
        result
    }
}
