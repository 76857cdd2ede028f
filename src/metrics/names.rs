//! Every family of `/metrics`: its name, what kind it is, its unit and what it says.
//!
//! Names follow <https://prometheus.io/docs/practices/naming/>. Beside each stands the name of the
//! OpenTelemetry instrument with its UCUM unit, from which the rules of
//! <https://opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics/> make the
//! same name again.

/// How a family counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows while the process runs.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts of values up to bounds.
    Histogram,
    /// Facts in labels, with the value 1.
    Info,
}

/// A family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Family {
    /// Name without the ending of its kind (`_total`, `_info`), with its unit.
    pub name: &'static str,
    /// How it counts.
    pub kind: Kind,
    /// What it says, in a sentence.
    pub help: &'static str,
    /// Name of the OpenTelemetry instrument; none where the resource says it.
    pub instrument: Option<&'static str>,
    /// Unit of the instrument in UCUM.
    pub unit: &'static str,
}

impl Family {
    /// The unit in which `name` ends, as OpenMetrics wants it named; none for plain counts.
    pub fn unit_in_name(&self) -> Option<&'static str> {
        ["seconds", "ratio"]
            .into_iter()
            .find(|unit| self.name.strip_suffix(unit).is_some_and(|rest| rest.ends_with('_')))
    }

    /// The name under which Prometheus knows a counter, a gauge or the facts.
    pub fn sample_name(&self) -> String {
        let ending = match self.kind {
            Kind::Counter => "_total",
            Kind::Info => "_info",
            Kind::Gauge | Kind::Histogram => "",
        };
        format!("{}{ending}", self.name)
    }
}

macro_rules! families {
    ($( $konst:ident: $kind:ident $name:literal, $instrument:expr, $unit:literal, $help:literal; )+) => {
        $(
            #[doc = $help]
            pub const $konst: Family = Family {
                name: $name,
                kind: Kind::$kind,
                help: $help,
                instrument: $instrument,
                unit: $unit,
            };
        )+

        /// Every family, in the order in which they are shown.
        pub const ALL: &[Family] = &[ $( $konst, )+ ];
    };
}

families! {
    REQUESTS: Counter "retrylens_requests", Some("retrylens.requests"), "{request}",
        "First attempts of logical requests.";
    RETRIES: Counter "retrylens_retries", Some("retrylens.retries"), "{attempt}",
        "Attempts after the first one, by the layer that sent them.";
    ATTEMPTS: Counter "retrylens_attempts", Some("retrylens.attempts"), "{attempt}",
        "Attempts by outcome; 4xx without 429.";
    RATE_LIMITED: Counter "retrylens_rate_limited", Some("retrylens.rate_limited"), "{attempt}",
        "Attempts answered 429, by the part of the path that answered.";
    LIMITED: Counter "retrylens_limited", Some("retrylens.limited"), "{attempt}",
        "Attempts that a limit refused, whatever the status.";
    LIMIT_KINDS: Counter "retrylens_limit_kinds", Some("retrylens.limit_kinds"), "{attempt}",
        "Attempts answered 429, by the kind of limit.";
    RETRY_AFTER_HEADERS: Counter "retrylens_retry_after_headers",
        Some("retrylens.retry_after_headers"), "{response}",
        "Refusals by the form of their Retry-After.";
    REQUESTS_FINISHED: Counter "retrylens_requests_finished",
        Some("retrylens.requests_finished"), "{request}",
        "Logical requests that ended, by how. At least: a failure whose sender says no outcome may be the end or not.";
    EARLY_RETRIES: Counter "retrylens_early_retries", Some("retrylens.early_retries"), "{attempt}",
        "Retries sent before the promised wait had passed. At least: the answer before must be among the recent ones.";
    DUPLICATE_WRITES: Counter "retrylens_duplicate_writes", Some("retrylens.duplicate_writes"),
        "{request}",
        "Writes that may have been done twice. At least: the attempt before must be among the recent ones.";
    RETRY_AFTER: Histogram "retrylens_retry_after_seconds", Some("retrylens.retry_after"), "s",
        "Waits that refusals promised in Retry-After.";
    RETRY_DELAY: Histogram "retrylens_retry_delay_seconds", Some("retrylens.retry_delay"), "s",
        "Waits that clients chose before a retry, as they report them.";
    ATTEMPTS_PER_REQUEST: Histogram "retrylens_attempts_per_request",
        Some("retrylens.attempts_per_request"), "{attempt}",
        "Attempts of the logical requests that ended.";
    REQUEST_DURATION: Histogram "retrylens_request_duration_seconds",
        Some("retrylens.request_duration"), "s",
        "Time from the first attempt of a logical request to its end, waits between attempts included.";
    KEY_CONCENTRATION: Gauge "retrylens_key_concentration_ratio",
        Some("retrylens.key_concentration"), "1",
        "Share of the busiest key in the attempts answered 429 in the last five minutes.";
    LAST_EVENT: Gauge "retrylens_last_event_timestamp_seconds",
        Some("retrylens.last_event_timestamp"), "s",
        "Unix time of the newest event received.";
    INGEST_EVENTS: Counter "retrylens_ingest_events", Some("retrylens.ingest_events"), "{event}",
        "Events that were sent, by what became of them; late ones are older than the events that are kept.";
    INGEST_LAG: Histogram "retrylens_ingest_lag_seconds", Some("retrylens.ingest_lag"), "s",
        "Time from the answer to an attempt until its event was stored.";
    STORE_ERRORS: Counter "retrylens_store_errors", Some("retrylens.store_errors"), "{error}",
        "Operations that the database failed.";
    ALERT_EVALUATIONS: Counter "retrylens_alert_evaluations", Some("retrylens.alert_evaluations"),
        "{evaluation}",
        "Evaluations of the built-in alerts, by result.";
    NOTIFICATIONS: Counter "retrylens_notifications", Some("retrylens.notifications"),
        "{notification}",
        "Tries to deliver a notification, by receiver and result.";
    RECEIVER_GONE: Gauge "retrylens_receiver_gone", Some("retrylens.receiver_gone"), "{receiver}",
        "1 where a receiver answered 410 Gone or asked to wait for more than an hour, else 0.";
    LABEL_OVERFLOW: Counter "retrylens_label_overflow", Some("retrylens.label_overflow"), "{event}",
        "Events counted under the value other, as there were too many values of a label.";
    BUILD: Info "retrylens_build", None, "1",
        "Which build of retrylens this is.";
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What OpenTelemetry's rules make of an instrument's name.
    fn translated(family: &Family) -> Option<String> {
        let name = family.instrument?.replace('.', "_");
        let unit = match family.unit {
            "s" => "_seconds",
            "1" if family.kind == Kind::Gauge => "_ratio",
            _ => "",
        };
        let ending = if family.kind == Kind::Counter { "_total" } else { "" };
        Some(format!("{name}{unit}{ending}"))
    }

    #[test]
    fn the_page_for_operators_has_every_family() {
        let page = include_str!("../../docs/metrics.md");
        for family in ALL {
            assert!(page.contains(&format!("| `{}` |", family.sample_name())), "{}", family.name);
        }
        let rows = page.lines().filter(|line| line.starts_with("| `retrylens_")).count();
        assert_eq!(rows, ALL.len());
    }

    #[test]
    fn instruments_translate_into_the_names_of_the_families() {
        for family in ALL {
            if let Some(name) = translated(family) {
                assert_eq!(name, family.sample_name());
            }
        }
    }
}
