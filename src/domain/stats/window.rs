//! Where the window of a limit ends, and what began it: the clock or the first request.
//!
//! A refusal that says how long to wait names the end of the window: answer time plus wait. Where
//! several refusals with different waits name the same end, the window is fixed. The longest of
//! them, the first request of the key and the clock then tell what began it.

use super::quantile::Sorted;
use super::{len, whole};

/// A refusal that promised a wait; both in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Refusal {
    /// When the answer came.
    pub answered_at: i64,
    /// The wait it promised.
    pub wait_ms: i64,
}

/// What began a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// The first request of the key after the window before.
    FirstRequest {
        /// When that request was sent.
        at: i64,
        /// Length of the window.
        length_ms: i64,
    },
    /// The clock: it ends at the turn of a minute, an hour or a day.
    Clock,
    /// Neither can be shown; it does not end at the turn of a minute.
    Elsewhere,
}

/// The end of one window, named by several refusals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FixedWindow {
    /// When it ends, to the nearest second, by the clock that stamped the refusals.
    pub ends_at: i64,
    /// What began it.
    pub begin: Begin,
    /// How many refusals name this end.
    pub refusals: i64,
}

/// Waits are cut to whole seconds and answers travel: two ends this close may be one.
const TOLERANCE_MS: i64 = 1_500;
/// Lengths that people set for windows, in seconds.
const LENGTHS_S: [i64; 22] = [
    1, 2, 5, 10, 15, 20, 30, 60, 120, 180, 300, 600, 900, 1_200, 1_800, 3_600, 7_200, 10_800,
    21_600, 43_200, 86_400, 172_800,
];

/// Finds fixed windows of one key.
///
/// `sends` are the moments of all its attempts, refused or not; `skew_ms` is the server's clock
/// less the one that stamped them, used only to see whether an end lies on the server's clock.
/// Nothing is found unless most refusals with a wait agree on ends: a constant wait names another
/// end each time.
pub fn find(sends: &[i64], refusals: &[Refusal], skew_ms: i64) -> Vec<FixedWindow> {
    let mut sends = sends.to_vec();
    sends.sort_unstable();
    let mut ends: Vec<(i64, Refusal)> = refusals
        .iter()
        .filter(|refusal| refusal.wait_ms > 0)
        .map(|refusal| (refusal.answered_at.saturating_add(refusal.wait_ms), *refusal))
        .collect();
    ends.sort_unstable();
    let groups = group(&ends);
    let agreeing: usize = groups.iter().map(|(_, members)| members.len()).sum();
    if groups.is_empty() || agreeing * 10 < ends.len() * 7 {
        return Vec::new();
    }
    let mut found = Vec::with_capacity(groups.len());
    let mut last_end: Option<i64> = None;
    for (ends_at, members) in groups {
        let begin = begin(&sends, last_end, ends_at, &members, skew_ms);
        // Waits are rounded up to whole seconds: the turn of the minute is the end itself.
        let exact = match begin {
            Begin::Clock => to_minute(ends_at, skew_ms),
            Begin::FirstRequest { .. } | Begin::Elsewhere => ends_at,
        };
        found.push(FixedWindow { ends_at: exact, begin, refusals: len(members.len()) });
        last_end = Some(ends_at);
    }
    found
}

/// Groups of refusals that name one end: close together, answered apart, with waits that differ.
fn group(ends: &[(i64, Refusal)]) -> Vec<(i64, Vec<Refusal>)> {
    let mut groups = Vec::new();
    let mut rest = ends;
    while let Some(((first, _), _)) = rest.split_first() {
        let size =
            rest.iter().take_while(|(end, _)| end.saturating_sub(*first) <= TOLERANCE_MS).count();
        let (members, later) = rest.split_at(size);
        rest = later;
        let span = |values: &mut dyn Iterator<Item = i64>| {
            values
                .fold(None, |range: Option<(i64, i64)>, v| {
                    Some(range.map_or((v, v), |(low, high)| (low.min(v), high.max(v))))
                })
                .map_or(0, |(low, high)| high.saturating_sub(low))
        };
        let answered = span(&mut members.iter().map(|(_, r)| r.answered_at));
        let waits = span(&mut members.iter().map(|(_, r)| r.wait_ms));
        if answered >= TOLERANCE_MS && waits >= 1_000 {
            let middle = Sorted::new(members.iter().map(|(end, _)| (*end, 1))).median();
            let end = to_second(middle.unwrap_or(*first));
            groups.push((end, members.iter().map(|(_, refusal)| *refusal).collect()));
        }
    }
    groups
}

/// The nearest whole second.
fn to_second(at: i64) -> i64 {
    let rest = at.rem_euclid(1_000);
    let up = whole(super::real(rest) / 1_000.0) * 1_000;
    at.saturating_sub(rest).saturating_add(up)
}

/// The nearest turn of a minute by the server's clock, as the other clock shows it.
fn to_minute(at: i64, skew_ms: i64) -> i64 {
    let by_server = at.saturating_add(skew_ms);
    let off = by_server.rem_euclid(60_000);
    let turn = if off < 30_000 { off.saturating_neg() } else { 60_000 - off };
    at.saturating_add(turn)
}

/// What began the window that ends at `end`.
fn begin(
    sends: &[i64],
    last_end: Option<i64>,
    end: i64,
    members: &[Refusal],
    skew_ms: i64,
) -> Begin {
    let by_server = end.saturating_add(skew_ms);
    let is_on = |length: i64| {
        let off = by_server.rem_euclid(length);
        off.min(length - off) <= TOLERANCE_MS
    };
    // The earliest refusal lies in the window, so the window is at least as long as its wait.
    let longest = members.iter().map(|refusal| refusal.wait_ms).max().unwrap_or_default();
    let from = last_end.map_or(i64::MIN, |last| last.saturating_sub(TOLERANCE_MS));
    let first = sends.iter().copied().find(|at| *at >= from);
    if let Some(at) = first {
        let length = LENGTHS_S.iter().map(|seconds| seconds * 1_000).find(|length| {
            end.saturating_sub(at).saturating_sub(*length).saturating_abs() <= TOLERANCE_MS
        });
        // After a window that ended a moment ago, any busy key has a request: that shows nothing.
        let after_a_pause = last_end.is_none_or(|last| at.saturating_sub(last) > TOLERANCE_MS);
        if let Some(length_ms) = length.filter(|length| {
            *length >= 5_000 && length.saturating_add(TOLERANCE_MS) >= longest && after_a_pause
        }) && !is_on(length_ms)
        {
            return Begin::FirstRequest { at, length_ms };
        }
    }
    if is_on(60_000) { Begin::Clock } else { Begin::Elsewhere }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 10:00:00 on some day.
    const TEN: i64 = 36_000_000 + 86_400_000 * 20_000;

    fn refusals(list: &[(i64, i64)]) -> Vec<Refusal> {
        list.iter()
            .map(|(at_s, wait_s)| Refusal {
                answered_at: TEN + at_s * 1_000,
                wait_ms: wait_s * 1_000,
            })
            .collect()
    }

    #[test]
    fn a_window_that_began_at_the_first_request_is_told_from_one_on_the_clock() {
        // first call 10:00:15; refused 10:01:03 for 12 s and 10:01:10 for 5 s
        let sends = [15, 63, 70].map(|s| TEN + s * 1_000);
        let found = find(&sends, &refusals(&[(63, 12), (70, 5)]), 0);
        let begin = Begin::FirstRequest { at: TEN + 15_000, length_ms: 60_000 };
        assert_eq!(found, [FixedWindow { ends_at: TEN + 75_000, begin, refusals: 2 }]);

        let sends = [15, 48, 55].map(|s| TEN + s * 1_000);
        let found = find(&sends, &refusals(&[(48, 13), (55, 6)]), 0);
        assert_eq!((found[0].begin, found[0].ends_at), (Begin::Clock, TEN + 60_000));
    }

    #[test]
    fn a_constant_wait_names_no_window() {
        let list: Vec<(i64, i64)> = (0..50).map(|i| (i * 3, 30)).collect();
        let sends: Vec<i64> = list.iter().map(|(at, _)| TEN + at * 1_000).collect();
        assert_eq!(find(&sends, &refusals(&list), 0), []);
        assert_eq!(find(&[], &[], 0), []);
    }

    #[test]
    fn the_servers_clock_decides_what_is_aligned() {
        // Ends at 10:00:58 here; the server is two seconds and a half ahead.
        let sends = [3, 40, 50].map(|s| TEN + s * 1_000);
        let list = refusals(&[(40, 18), (50, 8)]);
        assert_eq!(find(&sends, &list, 2_500)[0].begin, Begin::Clock);
        assert_eq!(find(&sends, &list, -9_000)[0].begin, Begin::Elsewhere);
    }

    #[test]
    fn a_busy_key_after_a_window_shows_no_first_request() {
        let sends: Vec<i64> = (0..140).map(|s| TEN + 15_000 + s * 1_000).collect();
        let list = refusals(&[(63, 12), (70, 5), (120, 15), (130, 5)]);
        let found = find(&sends, &list, 0);
        assert_eq!(found.len(), 2);
        assert!(matches!(found[0].begin, Begin::FirstRequest { .. }));
        assert_eq!(found[1].begin, Begin::Elsewhere);
    }

    #[test]
    fn moments_at_the_ends_of_the_range_do_no_harm() {
        let edge = [
            Refusal { answered_at: i64::MAX, wait_ms: i64::MAX },
            Refusal { answered_at: i64::MIN, wait_ms: 1 },
            Refusal { answered_at: 0, wait_ms: i64::MAX },
        ];
        assert_eq!(find(&[i64::MIN, i64::MAX], &edge, i64::MAX), []);
    }
}
