//! How many requests clients counted themselves, by their metric `http.client.request.duration`
//! (OpenTelemetry, "HTTP metrics"), where nothing is sampled out and every request is in it.
//!
//! These numbers stand beside those of attempts and are never added to them. Only counts are looked
//! at: how long requests took is in the spans.

use super::checklist::words::count;
use super::spelling::spelled_enum;
use super::time::{MINUTE_MS, Millis, UnixMillis, Window};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The longest stretch of time that a count is spread over. What was counted in a longer one can't
/// be told by the minute and is left out, as are its minutes: it happens where a client was counting
/// long before its first export reached us, and where none did for longer than this.
pub const MAX_STRETCH: Millis = Millis(15 * MINUTE_MS);

spelled_enum! {
    /// Which metric counted. An instrumentation may send both, so that they are never added up.
    pub enum Metric {
        /// `http.client.request.duration` of the stable conventions.
        Stable => "http.client.request.duration",
        /// `http.client.duration`, its name before.
        Old => "http.client.duration",
    }
}

/// Whether counts go on from point to point (`AggregationTemporality` of opentelemetry-proto).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Temporality {
    /// Each point counts from its own start.
    Delta,
    /// Each point counts from the start of its stream.
    Cumulative,
}

/// What a count is of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Series {
    /// Which metric.
    pub metric: Metric,
    /// The calling service.
    pub service: String,
    /// Deployment environment; empty where none is told.
    pub environment: String,
    /// The upstream: host in lower case, without a default port.
    pub upstream: String,
    /// The status code, or the word of an `AttemptError` where there was no answer.
    pub answer: String,
}

/// What a stream of points is known by: everything that its sender says of it, hashed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub String);

/// One data point of a histogram.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Point {
    /// Its stream since its start; for [`Temporality::Delta`] it alone.
    pub stream: StreamId,
    /// All streams of its sender with the same start.
    pub sender: StreamId,
    /// What it counts.
    pub series: Series,
    /// How its count goes on.
    pub temporality: Temporality,
    /// Since when it counts; `None` where that isn't told.
    pub from: Option<UnixMillis>,
    /// Until when.
    pub to: UnixMillis,
    /// How many requests.
    pub count: i64,
}

/// How far a stream, or a sender's streams, were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Read {
    /// The end of the newest point.
    pub to: UnixMillis,
    /// The end of the one before it.
    pub before: Option<UnixMillis>,
    /// Its count; 0 for a sender.
    pub count: i64,
}

/// What points add: requests by series and minute. A minute with 0 was looked at and had none.
pub type Added = BTreeMap<(Series, UnixMillis), i64>;

/// Adds `points`, in any order, to what is known of their streams, and tells what is new in them.
/// Points that were read before add nothing, and neither do older ones of a stream that goes on.
pub fn advance(known: &mut BTreeMap<StreamId, Read>, points: &[Point]) -> Added {
    let mut order: Vec<&Point> = points.iter().collect();
    order.sort_by(|a, b| (a.to, &a.stream).cmp(&(b.to, &b.stream)));
    let mut added = Added::new();
    for point in order {
        let heard = match point.temporality {
            Temporality::Delta => None,
            Temporality::Cumulative => hear(known, point),
        };
        let stream = known.get(&point.stream).copied();
        let Some((from, count)) = news(point, stream, heard) else { continue };
        let before = stream.map(|read| read.to);
        let read = Read { to: point.to, before, count: point.count };
        known.insert(point.stream.clone(), read);
        let Some(from) = from.filter(|from| point.to.since(*from).0 <= MAX_STRETCH.0) else {
            continue;
        };
        for (minute, share) in spread(from, point.to, count) {
            let sum = added.entry((point.series.clone(), minute)).or_default();
            *sum = sum.saturating_add(share);
        }
    }
    added
}

/// Notes that the sender of `point` was heard of; when it last was before that.
fn hear(known: &mut BTreeMap<StreamId, Read>, point: &Point) -> Option<UnixMillis> {
    let new = Read { to: point.to, before: None, count: 0 };
    let sender = known.entry(point.sender.clone()).or_insert(new);
    if sender.to < point.to {
        *sender = Read { before: Some(sender.to), ..new };
    }
    sender.before.filter(|_| sender.to == point.to)
}

/// Since when `point` says something new, as far as that is known, and how many requests it adds;
/// `None` where it says nothing new.
fn news(
    point: &Point,
    stream: Option<Read>,
    heard: Option<UnixMillis>,
) -> Option<(Option<UnixMillis>, i64)> {
    match (stream, point.temporality) {
        (Some(_), Temporality::Delta) => None,
        (None, Temporality::Delta) => Some((point.from.or(Some(point.to)), point.count)),
        (Some(read), Temporality::Cumulative) if point.to <= read.to => None,
        (Some(read), Temporality::Cumulative) => {
            // A lower count means that it began anew without saying so.
            let is_reset = point.count < read.count;
            let count = if is_reset { point.count } else { point.count - read.count };
            Some((Some(read.to), count))
        }
        // A stream that wasn't there when the sender was heard last has counted since then.
        (None, Temporality::Cumulative) => Some((point.from.max(heard), point.count)),
    }
}

/// A count spread evenly over the minutes of a stretch, in whole numbers that add up to it. Each
/// minute is named by its beginning.
fn spread(from: UnixMillis, to: UnixMillis, count: i64) -> Vec<(UnixMillis, i64)> {
    let length = to.since(from).0;
    if length <= 0 {
        return vec![(to.floor_to(MINUTE_MS), count)];
    }
    let (mut shares, mut minute, mut given) = (Vec::new(), from.floor_to(MINUTE_MS), 0_i64);
    while minute < to {
        let next = minute.plus(Millis(MINUTE_MS));
        let past = next.min(to).since(from).0;
        let until = i128::from(count) * i128::from(past) / i128::from(length);
        let until = i64::try_from(until).unwrap_or(i64::MAX);
        shares.push((minute, until.saturating_sub(given)));
        given = until;
        minute = next;
    }
    shares
}

/// What a pair's own metric counted in a window, by minutes of its points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Volume {
    /// Requests on the wire, as far as its instrumentation sees them.
    pub requests: i64,
    /// How many of them were answered 429.
    pub status_429: i64,
    /// How many got no answer.
    pub unanswered: i64,
    /// Minutes of the window that points were there for.
    pub minutes: i64,
}

impl Volume {
    /// Adds another pair's. Both are looked at over the same window.
    pub fn add(&mut self, other: &Self) {
        self.requests = self.requests.saturating_add(other.requests);
        self.status_429 = self.status_429.saturating_add(other.status_429);
        self.unanswered = self.unanswered.saturating_add(other.unanswered);
        self.minutes = self.minutes.max(other.minutes);
    }

    /// Counts requests with an answer.
    pub fn count(&mut self, answer: &str, requests: i64) {
        self.requests = self.requests.saturating_add(requests);
        if answer == "429" {
            self.status_429 = self.status_429.saturating_add(requests);
        } else if !answer.starts_with(|c: char| c.is_ascii_digit()) {
            self.unanswered = self.unanswered.saturating_add(requests);
        }
    }

    /// What it says beside our own count, of which `attempts` were counted in the same window.
    pub fn sentence(&self, window: Window, attempts: i64) -> String {
        let of = minutes_of(window);
        let mut text = format!("The client's own metric counted {} in this window", self.words());
        if self.minutes < of {
            write!(text, " ({} of its {of} minutes are covered)", count(self.minutes)).ok();
        }
        let ours = match attempts {
            1 => "1 attempt is".to_owned(),
            n => format!("{} attempts are", count(n)),
        };
        let judged = match self.requests.cmp(&attempts) {
            _ if self.minutes < of => "over other minutes, so the two can't be compared exactly",
            Ordering::Equal => "the two agree",
            Ordering::Greater => {
                "attempts are missing here (sampled out, hidden within one span, or on their way), \
                 and the metric is the denominator to trust"
            }
            Ordering::Less => {
                "the metric lacks some (its points come once a minute, and not every client sends \
                 it)"
            }
        };
        write!(text, ". Beside it, {ours} counted here: {judged}. They are never added up.").ok();
        text
    }

    /// What it says of the minutes around one operation.
    pub fn around(&self, window: Window) -> String {
        format!(
            "The client's own metric counted {} to this upstream in the minutes from {} to {}, this \
             operation's among others. Where one span covers a loop of retries the metric may count \
             that loop once, too.",
            self.words(),
            window.from.to_rfc3339(),
            window.to.to_rfc3339(),
        )
    }

    /// `39 requests, 16 of them answered 429`.
    fn words(&self) -> String {
        let requests = match self.requests {
            1 => "1 request".to_owned(),
            n => format!("{} requests", count(n)),
        };
        let unanswered = match self.unanswered {
            0 => String::new(),
            n => format!(" and {} without an answer", count(n)),
        };
        format!("{requests}, {} of them answered 429{unanswered},", count(self.status_429))
    }
}

/// Whole minutes that a window touches.
pub fn minutes_of(window: Window) -> i64 {
    let from = window.from.floor_to(MINUTE_MS);
    let up = window.to.0.saturating_add(MINUTE_MS - 1);
    UnixMillis(up).floor_to(MINUTE_MS).since(from).0 / MINUTE_MS
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const START: i64 = 1_794_398_400_000;

    fn at(seconds: i64) -> UnixMillis {
        UnixMillis(START + seconds * 1_000)
    }

    fn series(answer: &str) -> Series {
        Series {
            metric: Metric::Stable,
            service: "shop".to_owned(),
            environment: String::new(),
            upstream: "api.example.com".to_owned(),
            answer: answer.to_owned(),
        }
    }

    /// A point of the stream `answer`, in seconds.
    fn point(answer: &str, temporality: Temporality, from: i64, to: i64, count: i64) -> Point {
        let own = match temporality {
            Temporality::Delta => format!("{answer} {from} {to}"),
            Temporality::Cumulative => format!("{answer} {from}"),
        };
        Point {
            stream: StreamId(own),
            sender: StreamId(format!("sender {from}")),
            series: series(answer),
            temporality,
            from: Some(at(from)),
            to: at(to),
            count,
        }
    }

    fn sum(added: &Added, answer: &str) -> i64 {
        added.iter().filter(|((s, _), _)| s.answer == answer).map(|(_, n)| n).sum()
    }

    /// All that points add, one body each.
    fn total(bodies: &[Vec<Point>], answer: &str) -> i64 {
        let mut known = BTreeMap::new();
        bodies.iter().map(|points| sum(&advance(&mut known, points), answer)).sum()
    }

    use Temporality::{Cumulative, Delta};

    #[test]
    fn a_cumulative_count_adds_what_is_new_however_often_it_is_sent() {
        let (first, second) =
            (point("429", Cumulative, 0, 60, 10), point("429", Cumulative, 0, 120, 25));
        let table: [(&[&[&Point]], i64); 4] = [
            (&[&[&first], &[&second]], 25),
            (&[&[&first], &[&first], &[&second], &[&first], &[&second]], 25),
            (&[&[&second], &[&first]], 25),
            (&[&[&second, &first, &second]], 25),
        ];
        for (bodies, expected) in table {
            let bodies: Vec<Vec<Point>> =
                bodies.iter().map(|b| b.iter().map(|p| (*p).clone()).collect()).collect();
            assert_eq!(total(&bodies, "429"), expected, "{bodies:?}");
        }
    }

    #[test]
    fn a_client_that_starts_anew_counts_from_zero() {
        let restarted = [
            vec![point("200", Cumulative, 0, 60, 100)],
            vec![point("200", Cumulative, 70, 120, 7)],
            vec![point("200", Cumulative, 70, 180, 9)],
        ];
        assert_eq!(total(&restarted, "200"), 109);
        // The same without a new start time.
        let silent =
            [vec![point("200", Cumulative, 0, 60, 100)], vec![point("200", Cumulative, 0, 120, 7)]];
        assert_eq!(total(&silent, "200"), 107);
    }

    #[test]
    fn two_instances_under_one_name_are_told_apart_by_their_start() {
        let bodies: Vec<Vec<Point>> = (1..=5)
            .flat_map(|n| {
                [
                    vec![point("200", Cumulative, 0, n * 60, n * 10)],
                    vec![point("200", Cumulative, 3, n * 60, n)],
                ]
            })
            .collect();
        assert_eq!(total(&bodies, "200"), 55);
    }

    #[test]
    fn delta_points_count_once_each() {
        let bodies = [
            vec![point("429", Delta, 0, 60, 4), point("429", Delta, 60, 120, 5)],
            vec![point("429", Delta, 60, 120, 5)],
            vec![point("429", Delta, 120, 180, 0)],
        ];
        assert_eq!(total(&bodies, "429"), 9);
    }

    #[test]
    fn what_was_counted_long_before_is_left_out_and_what_is_new_since_then_is_not() {
        let day = 86_400;
        let mut known = BTreeMap::new();
        let first = advance(&mut known, &[point("200", Cumulative, 0, day, 1_000_000)]);
        assert!(first.is_empty(), "{first:?}");
        // A minute later there are more, and the first 429 of this sender's life.
        let second = [
            point("200", Cumulative, 0, day + 60, 1_000_030),
            point("429", Cumulative, 0, day + 60, 2),
        ];
        let added = advance(&mut known, &second);
        assert_eq!((sum(&added, "200"), sum(&added, "429")), (30, 2));
        // The rest of that export, in a request of its own.
        let added = advance(&mut known, &[point("503", Cumulative, 0, day + 60, 1)]);
        assert_eq!(sum(&added, "503"), 1);
        // Nothing for an hour: when it was can't be told.
        let added = advance(&mut known, &[point("200", Cumulative, 0, day + 3_660, 1_000_090)]);
        assert!(added.is_empty(), "{added:?}");
        let added = advance(&mut known, &[point("200", Cumulative, 0, day + 3_720, 1_000_091)]);
        assert_eq!(sum(&added, "200"), 1);
    }

    #[test]
    fn a_count_is_spread_over_its_minutes() {
        let table: [(i64, i64, i64, &[i64]); 5] = [
            (0, 60, 10, &[10]),
            (30, 90, 11, &[5, 6]),
            (0, 180, 10, &[3, 3, 4]),
            (10, 10, 5, &[5]),
            (0, 120, 0, &[0, 0]),
        ];
        for (from, to, count, expected) in table {
            let shares = spread(at(from), at(to), count);
            let numbers: Vec<i64> = shares.iter().map(|(_, n)| *n).collect();
            assert_eq!(numbers, expected, "{from} to {to}");
            assert_eq!(shares[0].0, at(from).floor_to(MINUTE_MS));
        }
    }

    #[test]
    fn the_sentence_says_what_is_covered_and_never_adds_up() {
        let hour = Window { from: at(0), to: at(3_600) };
        let volume = Volume { requests: 1_204, status_429: 16, unanswered: 2, minutes: 15 };
        let text = volume.sentence(hour, 39);
        for part in [
            "counted 1,204 requests, 16 of them answered 429 and 2 without an answer, in this window",
            "15 of its 60 minutes are covered",
            "39 attempts are counted here",
            "never added up",
        ] {
            assert!(text.contains(part), "{text} lacks {part}");
        }
        let whole = Volume { minutes: 60, ..volume };
        assert!(whole.sentence(hour, 39).contains("the denominator to trust"));
        assert!(whole.sentence(hour, 1_204).contains("the two agree"));
        assert!(whole.sentence(hour, 2_000).contains("the metric lacks some"));
    }

    proptest! {
        #[test]
        fn in_any_order_and_with_repeats_the_sum_is_the_newest_count(
            counts in proptest::collection::vec(0_i64..1_000, 1..20),
            order in proptest::collection::vec(0_usize..20, 0..60),
        ) {
            let mut total_count = 0;
            let points: Vec<Point> = (1..).zip(&counts).map(|(n, count)| {
                total_count += count;
                point("200", Cumulative, 0, n * 30, total_count)
            }).collect();
            let mut bodies: Vec<Vec<Point>> = order.iter()
                .map(|n| vec![points[n % points.len()].clone()])
                .collect();
            bodies.extend(points.iter().cloned().map(|point| vec![point]));
            prop_assert_eq!(total(&bodies, "200"), total_count);
        }

        #[test]
        fn shares_add_up_to_the_whole(from in 0_i64..2_000, length in 0_i64..900, count in 0_i64..1_000_000) {
            let shares = spread(at(from), at(from + length), count);
            prop_assert_eq!(shares.iter().map(|(_, n)| n).sum::<i64>(), count);
            prop_assert!(shares.iter().all(|(_, n)| *n >= 0));
        }
    }
}
