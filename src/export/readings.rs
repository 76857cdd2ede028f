//! The comparisons of an alert's rule with their numbers: the same in the API, on pages and in what
//! a webhook is sent.

use crate::domain::alerts::evaluate::{Finding, Met, Reading};
use serde::Serialize;
use utoipa::ToSchema;

/// One side of a comparison at one evaluation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Compared {
    /// The part.
    pub part: i64,
    /// The whole; 1 for a plain number.
    pub whole: i64,
    /// What it was compared with, with the sign: `> 20%`.
    pub limit: String,
    /// Whether it held; null where a measure was not counted.
    pub met: Option<bool>,
}

impl Compared {
    fn of(reading: &Reading) -> Self {
        Self {
            part: reading.value.part,
            whole: reading.value.whole,
            limit: reading.limit.clone(),
            met: match reading.met {
                Met::Yes => Some(true),
                Met::No => Some(false),
                Met::Unknown => None,
            },
        }
    }
}

/// A comparison of a rule: with the values that made the alert, and with the latest ones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ReadingOut {
    /// What is compared: `retries / requests`.
    pub what: String,
    /// Minutes before the evaluation that it is summed over; 0 for a moment.
    pub minutes: u32,
    /// Whether it only asks for enough traffic to judge by: it is no bad sign that it holds.
    pub is_floor: bool,
    /// With the values that made the alert pending or firing; null where they are not at hand.
    pub made: Option<Compared>,
    /// With the values of the last evaluation; null where nothing was received any more.
    pub latest: Option<Compared>,
}

impl ReadingOut {
    /// The comparisons of what made an alert beside those of the last evaluation; those of the last
    /// alone where nothing is known of what made it.
    pub fn all(made: &Finding, latest: &Finding) -> Vec<Self> {
        // In the order of the rule; a version in between may have changed that.
        let is_same = |a: &Reading, b: &Reading| a.what == b.what && a.minutes == b.minutes;
        let find = |place: usize, one: &Reading| {
            let there = latest.readings.get(place).filter(|other| is_same(one, other));
            there.or_else(|| latest.readings.iter().find(|other| is_same(one, other)))
        };
        if made.readings.is_empty() {
            return Self::latest(&latest.readings);
        }
        let both = |(place, one): (usize, &Reading)| Self {
            what: one.what.clone(),
            minutes: one.minutes,
            is_floor: is_floor(one, &made.readings),
            made: Some(Compared::of(one)),
            latest: find(place, one).map(Compared::of),
        };
        made.readings.iter().enumerate().map(both).collect()
    }

    /// Comparisons of the last evaluation alone.
    pub fn latest(readings: &[Reading]) -> Vec<Self> {
        Self::one_sided(readings, |one| (None, Some(one)))
    }

    /// Comparisons of the evaluation that made an alert, which is the last one too.
    pub fn made(readings: &[Reading]) -> Vec<Self> {
        Self::one_sided(readings, |one| (Some(one.clone()), Some(one)))
    }

    fn one_sided(
        readings: &[Reading],
        sides: impl Fn(Compared) -> (Option<Compared>, Option<Compared>),
    ) -> Vec<Self> {
        let one = |one: &Reading| {
            let (made, latest) = sides(Compared::of(one));
            let (what, minutes) = (one.what.clone(), one.minutes);
            Self { what, minutes, is_floor: is_floor(one, readings), made, latest }
        };
        readings.iter().map(one).collect()
    }
}

/// A plain number that must be reached, beside comparisons that decide.
fn is_floor(reading: &Reading, all: &[Reading]) -> bool {
    let asks_for_enough = |one: &Reading| one.limit.starts_with(">=") && !one.what.contains('/');
    asks_for_enough(reading) && !all.iter().all(asks_for_enough)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::alerts::evaluate::Ratio;

    fn reading(what: &str, limit: &str) -> Reading {
        let value = Ratio { part: 60, whole: 1 };
        Reading { what: what.to_owned(), minutes: 5, value, limit: limit.to_owned(), met: Met::Yes }
    }

    #[test]
    fn enough_traffic_is_a_floor_and_no_sign_of_trouble() {
        let spike = [
            reading("attempts", ">= 50"),
            reading("status-429", ">= 20"),
            reading("status-429 / attempts", "> 20%"),
        ];
        let floors: Vec<bool> = ReadingOut::latest(&spike).iter().map(|one| one.is_floor).collect();
        assert_eq!(floors, [true, true, false]);
        let alone = ReadingOut::made(&[reading("duplicate-writes", ">= 1")]);
        assert!(!alone[0].is_floor, "where it decides alone it is the sign");
        let growth = [reading("retries / requests", ">= 20 above the larger of 3 / 600 and 1%")];
        assert!(!ReadingOut::latest(&growth)[0].is_floor);
    }
}
