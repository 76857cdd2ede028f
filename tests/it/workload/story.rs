//! What happens in ten minutes of the day: operations, their attempts, and storms.

use super::dice::Dice;
use super::fleet::{FLEET, Front, Policy, Series};

/// Traffic by hour of the day, in parts of the busiest.
const HOURS: [u64; 24] = [
    34, 27, 22, 20, 20, 24, 33, 48, 68, 86, 96, 99, 97, 98, 100, 99, 95, 88, 80, 74, 67, 58, 48, 40,
];
/// Stories in a day, and their length.
const STORIES: u64 = 144;
const LENGTH_MS: u32 = 600_000;
/// Senders deliver what they saw within this time.
const DELIVERY_MS: u32 = 3_000;
/// The longest wait that a client takes on itself; a longer one is left to a later run.
const LONGEST_WAIT_MS: u32 = 60_000;
/// Chances: that an upstream has a storm in a story, and that it hits a service there, in percent;
/// that an attempt is limited outside of storms, in thousandths.
const STORM_PERCENT: u32 = 24;
const HIT_PERCENT: u32 = 70;
const CALM_PERMILLE: u32 = 22;

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Served,
    Limited(Promise),
    /// A status that says no.
    Status(u16),
    /// No usable answer, in the word for it.
    Error(&'static str),
}

/// `Retry-After` of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Promise {
    None,
    Seconds(u32),
    /// The same as a date.
    Date(u32),
    /// Not what RFC 9110 allows.
    Invalid(&'static str),
}

/// One attempt of an operation.
#[derive(Debug)]
pub(super) struct Attempt {
    /// Its operation's place in [`Story::operations`].
    pub(super) operation: u32,
    /// From 1.
    pub(super) number: u32,
    /// When it was sent and when its event arrived, in milliseconds of the day.
    pub(super) sent_ms: u32,
    arrives_ms: u32,
    pub(super) duration_ms: u32,
    pub(super) ending: Ending,
    /// The wait chosen after it, where another attempt follows or was planned.
    pub(super) wait: Option<Wait>,
    pub(super) outcome: &'static str,
}

impl Attempt {
    /// When the answer came, in milliseconds of the day.
    pub(super) fn answered_ms(&self) -> u32 {
        self.sent_ms + self.duration_ms
    }
}

/// A wait before the next attempt, and whether it was taken from what the answer said.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wait {
    pub(super) ms: u32,
    pub(super) is_promised: bool,
}

/// One operation.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) series: usize,
    /// When it began, in milliseconds of the day.
    pub(super) begun_ms: u32,
    /// For whatever else is drawn for it.
    pub(super) dice: Dice,
}

/// Ten minutes of the day.
#[derive(Debug)]
pub(super) struct Story {
    /// Number of its first event, of how many in the day.
    first: u64,
    total: u64,
    pub(super) operations: Vec<Operation>,
    /// In order of arrival.
    attempts: Vec<Attempt>,
}

impl Story {
    /// The story that event `n` of `total` is in.
    pub(super) fn around(n: u64, total: u64) -> Self {
        let mut which = 0;
        while first_of(which + 1, total) <= n {
            which += 1;
        }
        Self::tell(which, total)
    }

    pub(super) fn holds(&self, n: u64, total: u64) -> bool {
        let end = self.first + self.attempts.len() as u64;
        self.total == total && (self.first..end).contains(&n)
    }

    pub(super) fn attempt(&self, n: u64) -> &Attempt {
        &self.attempts[usize::try_from(n - self.first).unwrap()]
    }

    fn tell(which: u64, total: u64) -> Self {
        let first = first_of(which, total);
        let size = usize::try_from(first_of(which + 1, total) - first).unwrap();
        let mut story =
            Self { first, total, operations: Vec::new(), attempts: Vec::with_capacity(size) };
        while story.attempts.len() < size {
            story.add_operation(which, size);
        }
        story.attempts.sort_unstable_by_key(|a| (a.arrives_ms, a.operation, a.number));
        story
    }

    /// Follows one operation until it ends, or the story does.
    fn add_operation(&mut self, which: u64, size: usize) {
        let number = u32::try_from(self.operations.len()).unwrap();
        let mut dice = Dice::new(which + 100, number.into());
        let place = FLEET.draw(&mut dice);
        let series = &FLEET.series[place];
        let policy = &FLEET.services[series.service].policy;
        let begin_ms = u32::try_from(which).unwrap() * LENGTH_MS;
        let end_ms = begin_ms + LENGTH_MS;
        let begun_ms = begin_ms + dice.below(LENGTH_MS);
        let storm = Storm::at(which, series);
        let mut sent_ms = begun_ms;
        for attempt in 1.. {
            let permille = storm.as_ref().map_or(CALM_PERMILLE, |s| s.permille(sent_ms - begin_ms));
            let ending = ending(&mut dice, permille, series);
            let duration_ms = duration(&mut dice, ending, policy);
            let wait = wait(&mut dice, ending, attempt, policy);
            let next_ms = sent_ms + duration_ms + wait.ms + dice.below(4);
            let has_room = next_ms < end_ms && self.attempts.len() + 1 < size;
            let outcome = match ending {
                Ending::Served => "succeeded",
                Ending::Status(400..500) => "not-retryable",
                Ending::Error(_) if series.is_write => "not-retryable",
                _ if attempt == policy.attempts_max => "exhausted",
                _ if wait.ms > LONGEST_WAIT_MS => "rescheduled",
                _ if !has_room => "deadline-exceeded",
                _ => "retrying",
            };
            let is_planned = matches!(outcome, "retrying" | "rescheduled" | "deadline-exceeded");
            self.attempts.push(Attempt {
                operation: number,
                number: attempt,
                sent_ms,
                arrives_ms: sent_ms + duration_ms + dice.below(DELIVERY_MS),
                duration_ms,
                ending,
                wait: is_planned.then_some(wait),
                outcome,
            });
            if outcome != "retrying" {
                break;
            }
            sent_ms = next_ms;
        }
        self.operations.push(Operation { series: place, begun_ms, dice });
    }
}

/// Number of the first event of a story: the day's events follow the day's traffic.
fn first_of(which: u64, total: u64) -> u64 {
    const PER_HOUR: u64 = STORIES / 24;
    let hour = usize::try_from(which / PER_HOUR).unwrap();
    let before: u64 = HOURS.iter().take(hour).sum();
    let now = HOURS.get(hour).copied().unwrap_or(0);
    let day: u64 = HOURS.iter().sum();
    total * (before * PER_HOUR + now * (which % PER_HOUR)) / (day * PER_HOUR)
}

/// Some minutes in which an upstream refuses most of what some services send.
struct Storm {
    /// In milliseconds of the story.
    begin_ms: u32,
    end_ms: u32,
}

impl Storm {
    /// The storm that hits a series in a story, if there is one.
    fn at(which: u64, series: &Series) -> Option<Self> {
        let mut dice = Dice::new(which + 10_000, series.upstream as u64);
        if !dice.percent(STORM_PERCENT) {
            return None;
        }
        // It ends early enough for its retries to be seen.
        let begin_ms = dice.below(180_000);
        let end_ms = begin_ms + dice.between(180_000, 340_000);
        let is_hit = Dice::new(dice.next(), series.service as u64).percent(HIT_PERCENT);
        is_hit.then_some(Self { begin_ms, end_ms })
    }

    /// How many of a thousand attempts are limited: more and more until the storm ends.
    fn permille(&self, at_ms: u32) -> u32 {
        if (self.begin_ms..self.end_ms).contains(&at_ms) {
            400 + 500 * (at_ms - self.begin_ms) / (self.end_ms - self.begin_ms)
        } else {
            CALM_PERMILLE
        }
    }
}

fn ending(dice: &mut Dice, limited_permille: u32, series: &Series) -> Ending {
    if dice.below(1_000) < limited_permille {
        return Ending::Limited(promise(dice, FLEET.upstreams[series.upstream].front));
    }
    match dice.below(1_000) {
        0..3 => Ending::Status(503),
        3..6 => Ending::Status(500),
        6..8 => Ending::Status(502),
        8..10 => Ending::Status(504),
        10..14 => Ending::Error("timeout"),
        14..17 => Ending::Error("connection-reset"),
        17..24 => Ending::Status(404),
        24..27 => Ending::Status(409),
        27..29 => Ending::Status(400),
        _ => Ending::Served,
    }
}

/// What a refusal of this make says about waiting.
fn promise(dice: &mut Dice, front: Front) -> Promise {
    let seconds = match dice.below(10) {
        0..5 => dice.between(1, 10),
        5..9 => dice.between(5, 60),
        _ => dice.one_of(&[120, 300, 900]),
    };
    let says = match front {
        Front::ApiGateway | Front::Nginx | Front::HaProxy | Front::EnvoyLocal => 0,
        Front::Fastly => 60,
        Front::EnvoyGlobal | Front::CloudflareOrigin => 80,
        _ => 100,
    };
    if !dice.percent(says) {
        return Promise::None;
    }
    match (front, dice.below(100)) {
        (Front::Origin | Front::CloudflareOrigin, 0..12) => Promise::Date(seconds),
        (Front::Origin | Front::CloudflareOrigin, 12..20) => {
            Promise::Invalid(dice.one_of(&["soon", "-1", "1.5", "30s", "1m"]))
        }
        _ => Promise::Seconds(seconds),
    }
}

fn duration(dice: &mut Dice, ending: Ending, policy: &Policy) -> u32 {
    match ending {
        Ending::Limited(_) => dice.between(2, 45),
        Ending::Error("timeout") => policy.timeout_ms + dice.below(5),
        Ending::Error(_) => dice.between(1, 900),
        Ending::Status(504) => dice.between(900, 1_000),
        _ if dice.percent(8) => dice.between(200, 950),
        _ => dice.between(12, 160),
    }
}

/// The wait that would come before the next attempt, by the service's policy.
fn wait(dice: &mut Dice, ending: Ending, attempt: u32, policy: &Policy) -> Wait {
    if let Ending::Limited(Promise::Seconds(seconds) | Promise::Date(seconds)) = ending
        && policy.honours_promise
    {
        let spread = if policy.has_jitter { dice.below(seconds * 150 + 500) } else { 0 };
        return Wait { ms: seconds * 1_000 + spread, is_promised: true };
    }
    let ceiling = (policy.base_ms << attempt.min(6)).min(LONGEST_WAIT_MS / 2);
    let ms = if policy.has_jitter { dice.between(ceiling / 4, ceiling) } else { ceiling };
    Wait { ms, is_promised: false }
}
