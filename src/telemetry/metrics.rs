//! Sends the numbers of `/metrics` over OTLP/HTTP, now and then and once at the end.
//!
//! They are written from the same snapshot as `/metrics`, and not recorded a second time through a
//! meter: so both always agree, a histogram takes an event that stands for a million at once, and
//! exemplars name the traces of those who reported. Sums are cumulative, so that what could not be
//! delivered is in what is sent next, and nothing has to be kept or sent again.

use super::TelemetryError;
use super::environment::{self, Signal};
use super::export::{Delivery, client, failed};
use crate::clock::Clock;
use crate::domain::time::UnixMillis;
use crate::metrics::names::{Family, Kind};
use crate::metrics::{Exemplar, Histogram, Label, Metrics, Reader, Snapshot};
use flate2::Compression;
use flate2::write::GzEncoder;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::exemplar::Value as ExemplarValue;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Exemplar as OtlpExemplar, Gauge, Histogram as OtlpHistogram,
    HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum,
};
use opentelemetry_proto::tonic::resource::v1::Resource as OtlpResource;
use opentelemetry_sdk::Resource;
use prost::Message;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The running export.
#[derive(Debug)]
pub(super) struct MetricsExport {
    end: CancellationToken,
    task: JoinHandle<()>,
}

impl MetricsExport {
    /// Begins to send; `None` where the environment doesn't ask for it.
    pub(super) fn start(
        metrics: Metrics,
        clock: Arc<dyn Clock>,
        resource: &Resource,
    ) -> Result<Option<Self>, TelemetryError> {
        if !Signal::Metrics.is_asked_for()? {
            return Ok(None);
        }
        let Some(endpoint) = Signal::Metrics.endpoint() else { return Ok(None) };
        if environment::asks_for_other_than_cumulative() {
            tracing::warn!(
                "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE is left aside: sums are \
                 cumulative"
            );
        }
        let mut headers = HeaderMap::new();
        for (name, value) in Signal::Metrics.headers() {
            let name = HeaderName::try_from(name).map_err(failed)?;
            headers.insert(name, HeaderValue::try_from(value).map_err(failed)?);
        }
        headers.insert("content-type", HeaderValue::from_static("application/x-protobuf"));
        let is_packed = Signal::Metrics.is_packed();
        if is_packed {
            headers.insert("content-encoding", HeaderValue::from_static("gzip"));
        }
        let sender = Sender {
            client: client(Signal::Metrics.timeout())?,
            endpoint: reqwest::Url::parse(&endpoint).map_err(failed)?,
            headers,
            is_packed,
            resource: of_resource(resource),
            started: clock.now(),
            delivery: Delivery::new(Signal::Metrics),
            metrics,
            clock,
        };
        let end = CancellationToken::new();
        let task = tokio::spawn(sender.run(environment::metric_interval(), end.clone()));
        Ok(Some(Self { end, task }))
    }

    /// Sends a last time and ends; not longer than `limit`.
    pub(super) async fn finish(self, limit: Duration) {
        self.end.cancel();
        if tokio::time::timeout(limit, self.task).await.is_err() {
            tracing::warn!("the last metrics could not be sent before the end");
        }
    }
}

struct Sender {
    client: reqwest::Client,
    endpoint: reqwest::Url,
    headers: HeaderMap,
    is_packed: bool,
    resource: OtlpResource,
    /// Since when everything is counted.
    started: UnixMillis,
    delivery: Delivery,
    metrics: Metrics,
    clock: Arc<dyn Clock>,
}

impl Sender {
    async fn run(self, interval: Duration, end: CancellationToken) {
        loop {
            let is_last = tokio::select! {
                () = tokio::time::sleep(interval) => false,
                () = end.cancelled() => true,
            };
            self.delivery.note(self.send().await.err());
            if is_last {
                return;
            }
        }
    }

    /// Sends all numbers; the error says why they did not arrive.
    async fn send(&self) -> Result<(), String> {
        let snapshot = self.metrics.snapshot(self.clock.now());
        let request = request(&snapshot, self.started, self.resource.clone());
        let mut body = request.encode_to_vec();
        if self.is_packed {
            let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
            packed.write_all(&body).map_err(|error| error.to_string())?;
            body = packed.finish().map_err(|error| error.to_string())?;
        }
        let request = self.client.post(self.endpoint.clone()).headers(self.headers.clone());
        let response = request.body(body).send().await.map_err(|error| {
            // The address may hold a secret.
            let error = error.without_url();
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            cause.map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
        })?;
        if response.status().is_success() {
            Ok(())
        } else {
            Err(format!("the collector answered {}", response.status()))
        }
    }
}

/// All numbers as a collector takes them.
fn request(
    snapshot: &Snapshot,
    started: UnixMillis,
    resource: OtlpResource,
) -> ExportMetricsServiceRequest {
    let mut writer = Writer {
        started: nanoseconds(started),
        now: nanoseconds(snapshot.at()),
        metrics: Vec::new(),
    };
    snapshot.read(&mut writer);
    writer.metrics.retain(|metric| match &metric.data {
        Some(Data::Sum(sum)) => !sum.data_points.is_empty(),
        Some(Data::Gauge(gauge)) => !gauge.data_points.is_empty(),
        Some(Data::Histogram(histogram)) => !histogram.data_points.is_empty(),
        _ => false,
    });
    let scope = InstrumentationScope {
        name: "retrylens".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    };
    let scope_metrics = vec![ScopeMetrics {
        scope: Some(scope),
        metrics: writer.metrics,
        ..ScopeMetrics::default()
    }];
    let of_resource =
        ResourceMetrics { resource: Some(resource), scope_metrics, ..ResourceMetrics::default() };
    ExportMetricsServiceRequest { resource_metrics: vec![of_resource] }
}

/// Writes metrics, each when its family begins; points go to the last one.
struct Writer {
    started: u64,
    now: u64,
    metrics: Vec<Metric>,
}

impl Reader for Writer {
    fn family(&mut self, family: &'static Family) {
        let data = match family.kind {
            Kind::Counter => Data::Sum(Sum {
                data_points: Vec::new(),
                aggregation_temporality: AggregationTemporality::Cumulative.into(),
                is_monotonic: true,
            }),
            Kind::Gauge | Kind::Info => Data::Gauge(Gauge::default()),
            Kind::Histogram => Data::Histogram(OtlpHistogram {
                data_points: Vec::new(),
                aggregation_temporality: AggregationTemporality::Cumulative.into(),
            }),
        };
        // Facts about the build are in the resource: a metric without data, which is left out.
        self.metrics.push(Metric {
            name: family.instrument.unwrap_or_default().to_owned(),
            description: family.help.to_owned(),
            unit: family.unit.to_owned(),
            data: family.instrument.map(|_| data),
            ..Metric::default()
        });
    }

    fn counter(&mut self, labels: &[Label<'_>], value: u64, exemplar: Option<&Exemplar>) {
        let point = NumberDataPoint {
            attributes: attributes(labels),
            start_time_unix_nano: self.started,
            time_unix_nano: self.now,
            exemplars: exemplar.map(of_exemplar).into_iter().collect(),
            value: Some(Value::AsInt(i64::try_from(value).unwrap_or(i64::MAX))),
            ..NumberDataPoint::default()
        };
        if let Some(Data::Sum(sum)) = self.data() {
            sum.data_points.push(point);
        }
    }

    fn gauge(&mut self, labels: &[Label<'_>], value: f64) {
        let point = NumberDataPoint {
            attributes: attributes(labels),
            time_unix_nano: self.now,
            value: Some(Value::AsDouble(value)),
            ..NumberDataPoint::default()
        };
        if let Some(Data::Gauge(gauge)) = self.data() {
            gauge.data_points.push(point);
        }
    }

    fn histogram(&mut self, labels: &[Label<'_>], histogram: &Histogram) {
        let buckets = histogram.buckets();
        let point = HistogramDataPoint {
            attributes: attributes(labels),
            start_time_unix_nano: self.started,
            time_unix_nano: self.now,
            count: histogram.count(),
            sum: Some(thousandths(histogram.sum())),
            bucket_counts: buckets.iter().map(|bucket| bucket.count).collect(),
            explicit_bounds: histogram.bounds().iter().copied().map(thousandths).collect(),
            exemplars: buckets
                .iter()
                .filter_map(|bucket| bucket.exemplar.as_ref().map(of_exemplar))
                .collect(),
            ..HistogramDataPoint::default()
        };
        if let Some(Data::Histogram(histogram)) = self.data() {
            histogram.data_points.push(point);
        }
    }
}

impl Writer {
    fn data(&mut self) -> Option<&mut Data> {
        self.metrics.last_mut()?.data.as_mut()
    }
}

fn of_exemplar(exemplar: &Exemplar) -> OtlpExemplar {
    OtlpExemplar {
        time_unix_nano: nanoseconds(exemplar.at),
        trace_id: exemplar.ids.trace.bytes().to_vec(),
        span_id: exemplar.ids.span.map(|span| span.bytes().to_vec()).unwrap_or_default(),
        value: Some(ExemplarValue::AsDouble(thousandths(exemplar.value))),
        ..OtlpExemplar::default()
    }
}

fn of_resource(resource: &Resource) -> OtlpResource {
    let attributes =
        resource.iter().map(|(name, value)| attribute(name.as_str(), &value.as_str())).collect();
    OtlpResource { attributes, ..OtlpResource::default() }
}

fn attributes(labels: &[Label<'_>]) -> Vec<KeyValue> {
    labels.iter().map(|(name, value)| attribute(name, value)).collect()
}

fn attribute(name: &str, value: &str) -> KeyValue {
    let value = AnyValue { value: Some(any_value::Value::StringValue(value.to_owned())) };
    KeyValue { key: name.to_owned(), value: Some(value), ..KeyValue::default() }
}

#[expect(clippy::cast_precision_loss, reason = "sums stay far below 2^53 thousandths")]
fn thousandths(value: u64) -> f64 {
    value as f64 / 1_000.0
}

fn nanoseconds(at: UnixMillis) -> u64 {
    u64::try_from(at.0).unwrap_or_default().saturating_mul(1_000_000)
}
