//! The text formats of Prometheus: OpenMetrics 1.0
//! (<https://github.com/prometheus/OpenMetrics/blob/v1.0.0/specification/OpenMetrics.md>) and the
//! older text format 0.0.4
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format>), which has no
//! exemplars.

use super::exemplar::Exemplar;
use super::histogram::Histogram;
use super::names::{Family, Kind};
use super::reader::{Label, Reader, Snapshot};
use crate::domain::spelling::spelled_enum;
use std::fmt::Write as _;

spelled_enum! {
    /// How numbers are written.
    pub enum Exposition {
        /// OpenMetrics 1.0, with exemplars.
        OpenMetrics => "open-metrics",
        /// The text format 0.0.4, without.
        Text => "text",
    }
}

impl Exposition {
    /// Its media type.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// What is written for whoever sends this `Accept`: OpenMetrics where it is named and not wanted
    /// less than plain text, else the older format, which everybody reads.
    pub fn accepted(accept: &str) -> Self {
        let quality = |media_type: &str| {
            accept
                .split(',')
                .filter_map(|range| {
                    let mut parts = range.split(';').map(str::trim);
                    let is_it = parts.next()?.eq_ignore_ascii_case(media_type);
                    let mut quality = 1.0;
                    let mut is_known = true;
                    for part in parts {
                        let (name, value) = part.split_once('=').unwrap_or((part, ""));
                        match name.trim().to_ascii_lowercase().as_str() {
                            "q" => quality = value.trim().parse::<f64>().unwrap_or_default(),
                            "version" if media_type == OPEN_METRICS => {
                                is_known =
                                    matches!(value.trim().trim_matches('"'), "1.0.0" | "0.0.1");
                            }
                            _ => {}
                        }
                    }
                    (is_it && is_known).then_some(quality)
                })
                .fold(0.0, f64::max)
        };
        let open = quality(OPEN_METRICS);
        if open > 0.0 && open >= quality("text/plain") { Self::OpenMetrics } else { Self::Text }
    }

    /// Writes all numbers.
    pub fn write(self, numbers: &Snapshot) -> String {
        let mut writer =
            Writer { format: self, text: String::with_capacity(64 * 1024), family: None };
        numbers.read(&mut writer);
        if self == Self::OpenMetrics {
            writer.text.push_str("# EOF\n");
        }
        writer.text
    }
}

const OPEN_METRICS: &str = "application/openmetrics-text";

struct Writer {
    format: Exposition,
    text: String,
    /// The present one, until its head is written: a family without series is not shown.
    family: Option<(&'static Family, bool)>,
}

impl Writer {
    /// The present family, with its head written.
    fn begun(&mut self) -> Option<&'static Family> {
        let (family, is_begun) = self.family?;
        if is_begun {
            return Some(family);
        }
        self.family = Some((family, true));
        let (name, kind) = match (self.format, family.kind) {
            (Exposition::OpenMetrics, Kind::Info) => (family.name.to_owned(), "info"),
            (Exposition::OpenMetrics, Kind::Counter) => (family.name.to_owned(), "counter"),
            (Exposition::Text, Kind::Counter) => (family.sample_name(), "counter"),
            (_, Kind::Gauge) | (Exposition::Text, Kind::Info) => (family.sample_name(), "gauge"),
            (_, Kind::Histogram) => (family.name.to_owned(), "histogram"),
        };
        self.put(&["# HELP ", &name, " ", family.help, "\n# TYPE ", &name, " ", kind, "\n"]);
        if let Some(unit) = family.unit_in_name().filter(|_| self.format == Exposition::OpenMetrics)
        {
            self.put(&["# UNIT ", &name, " ", unit, "\n"]);
        }
        Some(family)
    }

    fn put(&mut self, parts: &[&str]) {
        for part in parts {
            self.text.push_str(part);
        }
    }

    /// Writes `{a="b",c="d"} `, with one more label where there is one.
    fn labels(&mut self, labels: &[Label<'_>], more: Option<Label<'_>>) {
        let mut separator = "{";
        for (name, value) in labels.iter().copied().chain(more) {
            self.put(&[separator, name, "=\""]);
            self.escaped(value);
            self.text.push('"');
            separator = ",";
        }
        self.text.push_str(if separator == "{" { " " } else { "} " });
    }

    /// Control characters can't be written in every reader's way, so that they become U+FFFD.
    fn escaped(&mut self, value: &str) {
        if !value.bytes().any(|byte| matches!(byte, b'\\' | b'"' | ..b' ' | 0x7f)) {
            return self.text.push_str(value);
        }
        for c in value.chars() {
            match c {
                '\\' => self.text.push_str("\\\\"),
                '"' => self.text.push_str("\\\""),
                '\n' => self.text.push_str("\\n"),
                c if c.is_control() => self.text.push('\u{fffd}'),
                c => self.text.push(c),
            }
        }
    }

    fn number(&mut self, number: impl std::fmt::Display) {
        // Writing to a text can't fail.
        write!(self.text, "{number}").ok();
    }

    /// Ends a line, with an exemplar where there is one and the format has them.
    fn end(&mut self, exemplar: Option<&Exemplar>) {
        if let Some(exemplar) = exemplar.filter(|_| self.format == Exposition::OpenMetrics) {
            let mut separator = " # {";
            for (name, value) in exemplar.ids.labels() {
                self.put(&[separator, name, "=\"", &value, "\""]);
                separator = ",";
            }
            self.text.push_str("} ");
            self.number(Thousandths(exemplar.value));
            self.text.push(' ');
            self.number(Thousandths(u64::try_from(exemplar.at.0).unwrap_or_default()));
        }
        self.text.push('\n');
    }
}

/// A number of thousandths, written in whole ones.
struct Thousandths(u64);

impl std::fmt::Display for Thousandths {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (whole, part) = (self.0 / 1_000, self.0 % 1_000);
        match part {
            0 => write!(f, "{whole}"),
            part if part % 100 == 0 => write!(f, "{whole}.{}", part / 100),
            part if part % 10 == 0 => write!(f, "{whole}.{:02}", part / 10),
            part => write!(f, "{whole}.{part:03}"),
        }
    }
}

impl Reader for Writer {
    fn family(&mut self, family: &'static Family) {
        self.family = Some((family, false));
    }

    fn counter(&mut self, labels: &[Label<'_>], value: u64, exemplar: Option<&Exemplar>) {
        let Some(family) = self.begun() else { return };
        self.put(&[family.name, "_total"]);
        self.labels(labels, None);
        self.number(value);
        self.end(exemplar);
    }

    fn gauge(&mut self, labels: &[Label<'_>], value: f64) {
        let Some(family) = self.begun() else { return };
        self.put(&[family.name, if family.kind == Kind::Info { "_info" } else { "" }]);
        self.labels(labels, None);
        self.number(value);
        self.end(None);
    }

    fn histogram(&mut self, labels: &[Label<'_>], histogram: &Histogram) {
        let Some(family) = self.begun() else { return };
        let mut below = 0_u64;
        let bounds = histogram.bounds().iter().copied().map(Some).chain(std::iter::once(None));
        for (bound, bucket) in bounds.zip(histogram.buckets()) {
            below = below.saturating_add(bucket.count);
            let bound = match bound {
                None => "+Inf".to_owned(),
                // OpenMetrics wants these as floats in their canonical form.
                Some(bound) if self.format == Exposition::OpenMetrics && bound % 1_000 == 0 => {
                    format!("{}.0", bound / 1_000)
                }
                Some(bound) => Thousandths(bound).to_string(),
            };
            self.put(&[family.name, "_bucket"]);
            self.labels(labels, Some(("le", &bound)));
            self.number(below);
            self.end(bucket.exemplar.as_ref());
        }
        self.put(&[family.name, "_sum"]);
        self.labels(labels, None);
        self.number(Thousandths(histogram.sum()));
        self.put(&["\n", family.name, "_count"]);
        self.labels(labels, None);
        self.number(below);
        self.end(None);
    }
}
