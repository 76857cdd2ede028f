//! The texts that go with an alert: markers in braces, filled in by whoever writes them down.

use super::evaluate::Ratio;
use super::rule::{Rule, Shown};
use super::threshold::{Decimal, Threshold, Thresholds};

/// A piece of a rule's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece {
    /// As it stands.
    Text(&'static str),
    /// The calling service.
    Service,
    /// The upstream host.
    Upstream,
    /// The value that made the alert fire.
    Value,
    /// A threshold, in the form of `wording`.
    Threshold(Threshold, Wording),
}

/// How a threshold is worded in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wording {
    /// `20%`, `50`, `10 s`.
    Plain,
    /// `twice`, `3 times`.
    Times,
    /// `10 minutes`.
    Minutes,
}

/// Cuts a text at its markers. A marker that names nothing stays text, which a test refuses.
pub fn pieces(text: &'static str) -> Vec<Piece> {
    let mut found = Vec::new();
    for (number, part) in text.split('{').enumerate() {
        let marked = if number == 0 { None } else { part.split_once('}') };
        let Some((marker, rest)) = marked else {
            found.push(Piece::Text(part));
            continue;
        };
        found.push(match marker {
            "service" => Piece::Service,
            "upstream" => Piece::Upstream,
            "value" => Piece::Value,
            "growth" => Piece::Threshold(Threshold::GrowthFactor, Wording::Times),
            "stalled" => Piece::Threshold(Threshold::StalledSeconds, Wording::Minutes),
            name => match name.parse() {
                Ok(threshold) => Piece::Threshold(threshold, Wording::Plain),
                Err(_) => Piece::Text(marker),
            },
        });
        found.push(Piece::Text(rest));
    }
    found.retain(|piece| *piece != Piece::Text(""));
    found
}

/// A threshold as a text words it.
pub fn worded(threshold: Threshold, wording: Wording, value: Decimal) -> String {
    match wording {
        Wording::Plain => threshold.shown(value),
        Wording::Times if value == Decimal::whole(2) => "twice".to_owned(),
        Wording::Times => format!("{value} times"),
        Wording::Minutes => {
            let seconds = value.millionths() / Decimal::ONE;
            match seconds % 60 {
                0 => format!("{} minutes", seconds / 60),
                _ => format!("{seconds} seconds"),
            }
        }
    }
}

/// A rule's text for one alert of the built-in evaluator.
pub fn filled_in(
    rule: &Rule,
    text: &'static str,
    (service, upstream): (&str, &str),
    value: Option<Ratio>,
    thresholds: &Thresholds,
) -> String {
    let fill = |piece: Piece| match piece {
        Piece::Text(text) => text.to_owned(),
        Piece::Service => service.to_owned(),
        Piece::Upstream => upstream.to_owned(),
        Piece::Value => value.map_or_else(|| "?".to_owned(), |value| shown(rule.shown, value)),
        Piece::Threshold(threshold, how) => worded(threshold, how, thresholds.get(threshold)),
    };
    pieces(text).into_iter().map(fill).collect()
}

/// A value in four digits, as Prometheus' `humanizePercentage` and `humanize` write it.
fn shown(how: Shown, Ratio { part, whole }: Ratio) -> String {
    let value = crate::domain::stats::real(part) / crate::domain::stats::real(whole.max(1));
    match how {
        Shown::Percentage => format!("{}%", four_digits(value * 100.0)),
        Shown::Number => four_digits(value),
        Shown::Duration => match part / 60 {
            0 => format!("{part}s"),
            minutes if minutes < 60 => format!("{minutes}m {}s", part % 60),
            minutes => format!("{}h {}m {}s", minutes / 60, minutes % 60, part % 60),
        },
    }
}

fn four_digits(value: f64) -> String {
    let decimals = match value {
        v if v >= 1000.0 => 0,
        v if v >= 100.0 => 1,
        v if v >= 10.0 => 2,
        _ => 3,
    };
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}
