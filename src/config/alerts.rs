//! `[alerts]`: thresholds for all, and those of one service or upstream.

use super::ConfigError;
use super::layers::Settings;
use crate::domain::alerts::threshold::Kind;
use crate::domain::alerts::{AlertSettings, Decimal, Override, Threshold, Thresholds};
use std::collections::BTreeMap;
use toml::{Table, Value};

/// The setting that holds a list of tables.
pub(super) const OVERRIDES: &str = "alert_overrides";

/// Longest name of a service or upstream, in characters.
const LONGEST_NAME: usize = 253;

/// Reads the section.
pub(super) fn read(settings: &Settings) -> Result<AlertSettings, ConfigError> {
    let base = Thresholds::build(|threshold| {
        let name = threshold.as_str();
        let value = settings.value(name).ok_or("a value".to_owned());
        value.and_then(|v| number(threshold, v)).map_err(|expected| settings.bad(name, &expected))
    })?;
    let tables = settings.value(OVERRIDES).and_then(Value::as_array);
    let mut overrides: Vec<Override> = Vec::new();
    for (index, item) in tables.into_iter().flatten().enumerate() {
        let bad = |problem: &str| settings.bad(&format!("{OVERRIDES}[{index}]"), problem);
        let table = item.as_table().ok_or_else(|| bad("a table"))?;
        let own = one(table).map_err(|problem| match problem {
            Problem::Field(field, expected) => {
                settings.bad(&format!("{OVERRIDES}[{index}].{field}"), &expected)
            }
            Problem::Whole(expected) => bad(&expected),
        })?;
        let is_same =
            |other: &Override| other.service == own.service && other.upstream == own.upstream;
        if overrides.iter().any(is_same) {
            return Err(bad("one table for each service and upstream; this is the second"));
        }
        overrides.push(own);
    }
    Ok(AlertSettings::new(base, overrides))
}

enum Problem {
    Field(String, String),
    Whole(String),
}

fn one(table: &Table) -> Result<Override, Problem> {
    let mut own = Override { service: None, upstream: None, changes: BTreeMap::new() };
    for (field, value) in table {
        let problem = |expected: String| Problem::Field(field.chars().take(64).collect(), expected);
        let name = || {
            let name = value.as_str().map(str::trim).filter(|name| {
                !name.is_empty()
                    && name.chars().count() <= LONGEST_NAME
                    && !name.chars().any(char::is_control)
            });
            name.ok_or_else(|| problem("a name".to_owned()))
        };
        match field.as_str() {
            "service" => own.service = Some(name()?.to_owned()),
            "upstream" => own.upstream = Some(name()?.to_ascii_lowercase()),
            _ => {
                let of_a_pair = Threshold::ALL.iter().filter(|t| t.is_of_a_pair());
                let known = of_a_pair.clone().find(|t| t.as_str() == field);
                let threshold = *known.ok_or_else(|| {
                    let names: Vec<_> = of_a_pair.map(|t| t.as_str()).collect();
                    problem(format!("service, upstream or one of: {}", names.join(", ")))
                })?;
                let value = number(threshold, value).map_err(problem)?;
                own.changes.insert(threshold, value);
            }
        }
    }
    if own.service.is_none() && own.upstream.is_none() {
        return Err(Problem::Whole("a service, an upstream or both".to_owned()));
    }
    Ok(own)
}

/// A threshold's value. Counts and seconds are numbers in TOML, shares and factors are texts.
fn number(threshold: Threshold, value: &Value) -> Result<Decimal, String> {
    match (threshold.kind(), value) {
        (Kind::Count | Kind::Seconds | Kind::Bucket, Value::Integer(n)) => {
            threshold.read(&n.to_string())
        }
        (Kind::Share | Kind::Factor, Value::String(text)) => threshold.read(text),
        // What would be right is told by a text that never is.
        _ => threshold.read(""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Sources};

    fn with(name: &str, value: &str) -> Result<AlertSettings, String> {
        let flags = vec![(name.to_owned(), value.to_owned())];
        let loaded = Config::load(&Sources { flags, ..Sources::default() });
        loaded.map(|config| config.alerts).map_err(|error| error.to_string())
    }

    #[test]
    fn the_most_specific_override_applies_alone() {
        let settings = with(
            OVERRIDES,
            r#"[{upstream = "API.example.com", alert_min_requests = 7, alert_min_retries = 7},
                {service = "checkout", alert_min_requests = 8},
                {service = "checkout", upstream = "api.example.com", alert_retry_share_5m = "12.5%"}]"#,
        )
        .unwrap();
        let whole = Decimal::whole;
        for (service, upstream, requests, share) in [
            ("a", "b.example.com", 50, "20%"),
            ("a", "api.example.com", 7, "20%"),
            ("checkout", "b.example.com", 8, "20%"),
            ("checkout", "api.example.com", 50, "12.5%"),
        ] {
            let own = settings.of(service, upstream);
            assert_eq!(own.get(Threshold::MinRequests), whole(requests), "{service} {upstream}");
            let short = own.get(Threshold::RetryShareShort);
            assert_eq!(Threshold::RetryShareShort.shown(short), share, "{service} {upstream}");
        }
    }

    #[test]
    fn a_mistake_names_the_field_and_what_would_be_right() {
        let many = r#"[{service="a"},{service="a"}]"#;
        for (name, value, expected) in [
            ("alert_growth_factor", "0.5", "alert_growth_factor (flag): expected a number from"),
            ("alert_growth_factor", "200%", "alert_growth_factor (flag): expected a number from"),
            (
                "alert_limit_budget",
                "0%",
                "alert_limit_budget (flag): expected a share from \"0.01%\"",
            ),
            ("alert_limit_budget", "101%", "expected a share from \"0.01%\" to \"99.9999%\""),
            (
                "alert_min_requests",
                "0",
                "alert_min_requests (flag): expected a whole number from 1",
            ),
            ("alert_wait_s", "7", "alert_wait_s (flag): expected one of [1, 5, 10"),
            ("alert_stalled_s", "1", "alert_stalled_s (flag): expected whole seconds from 60"),
            (
                OVERRIDES,
                "[{}]",
                "alert_overrides[0] (flag): expected a service, an upstream or both",
            ),
            (OVERRIDES, many, "alert_overrides[1] (flag): expected one table for each"),
            (OVERRIDES, "[{service=1}]", "alert_overrides[0].service (flag): expected a name"),
            (OVERRIDES, "[{service=\"a\",x=1}]", "alert_overrides[0].x (flag): expected service,"),
            (
                OVERRIDES,
                "[{service=\"a\",alert_stalled_s=60}]",
                "alert_overrides[0].alert_stalled_s (flag): expected service,",
            ),
            (
                OVERRIDES,
                "[{service=\"a\",alert_min_early=\"5\"}]",
                "alert_overrides[0].alert_min_early (flag): expected a whole number",
            ),
            (OVERRIDES, "service=a", "alert_overrides (flag): expected a list of tables"),
        ] {
            let error = with(name, value).unwrap_err();
            assert!(error.contains(expected), "{name}={value}: {error}");
        }
    }

    #[test]
    fn percentages_are_exact() {
        for (text, millionths) in [("14.4%", 144_000), ("0.0001%", 1), ("2", 2_000_000)] {
            assert_eq!(Decimal::parse(text).unwrap().millionths(), millionths);
        }
        for text in ["", "%", ".5", "5.", "-1", "1e3", "0.00001%", "1.2.3", "99999999999999"] {
            assert_eq!(Decimal::parse(text), None, "{text}");
        }
        assert_eq!(Decimal::parse("14.4%").unwrap().to_string(), "0.144");
        assert_eq!(Decimal::parse("0.5%").unwrap().percent(), "0.5%");
    }
}
