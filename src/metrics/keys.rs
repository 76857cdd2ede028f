//! How much of the refusals falls on one key, without naming it.

/// Minutes that are looked back over, the present one among them.
const MINUTES: i64 = 5;
/// Keys that are told apart in a minute; refusals of further ones count only in the sum.
const MAX_KEYS: usize = 64;

/// Refusals of the last minutes by key.
#[derive(Debug, Clone, Default)]
pub(super) struct KeyShares {
    minutes: Vec<Minute>,
}

#[derive(Debug, Clone)]
struct Minute {
    /// Since 1970.
    at: i64,
    all: u64,
    keys: Vec<(u64, u64)>,
}

impl KeyShares {
    /// Adds `n` refusals of a key, or of none that is known.
    pub(super) fn add(&mut self, minute: i64, key: Option<u64>, n: u64) {
        if self.minutes.last().is_none_or(|last| last.at != minute) {
            self.minutes.retain(|old| is_recent(old.at, minute));
            self.minutes.push(Minute { at: minute, all: 0, keys: Vec::new() });
        }
        let Some(last) = self.minutes.last_mut() else { return };
        last.all = last.all.saturating_add(n);
        let Some(key) = key else { return };
        if let Some((_, count)) = last.keys.iter_mut().find(|(known, _)| *known == key) {
            *count = count.saturating_add(n);
        } else if last.keys.len() < MAX_KEYS {
            last.keys.push((key, n));
        }
    }

    /// The share of the busiest key in the refusals of the five minutes up to `minute`; `None` where
    /// there were none, or none with a key that is known. With more than 64 keys in a minute it is at least this much.
    pub(super) fn busiest(&self, minute: i64) -> Option<f64> {
        let recent = || self.minutes.iter().filter(|old| is_recent(old.at, minute));
        let all: u64 = recent().map(|minute| minute.all).fold(0, u64::saturating_add);
        let mut keys: Vec<(u64, u64)> =
            recent().flat_map(|minute| minute.keys.iter().copied()).collect();
        keys.sort_unstable();
        let sums = keys.chunk_by(|a, b| a.0 == b.0);
        let busiest =
            sums.map(|same| same.iter().fold(0_u64, |sum, (_, n)| sum.saturating_add(*n))).max();
        #[expect(clippy::cast_precision_loss, reason = "a share")]
        busiest.map(|busiest| busiest as f64 / all.max(1) as f64)
    }
}

fn is_recent(old: i64, minute: i64) -> bool {
    old <= minute && old > minute - MINUTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_key_of_five_minutes_is_measured_against_all_refusals() {
        let mut shares = KeyShares::default();
        assert_eq!(shares.busiest(10), None);
        shares.add(10, Some(1), 6);
        shares.add(10, Some(2), 1);
        shares.add(11, Some(1), 2);
        shares.add(11, None, 1);
        assert_eq!(shares.busiest(11), Some(0.8));
        assert_eq!(shares.busiest(15), Some(2.0 / 3.0), "minute 10 is over");
        assert_eq!(shares.busiest(16), None);
        shares.add(17, None, 5);
        assert_eq!(shares.busiest(17), None, "whose they are is not known");
        for key in 0..1_000 {
            shares.add(30, Some(key), 1);
        }
        assert_eq!(shares.busiest(30), Some(0.001));
        assert_eq!(shares.minutes.len(), 1);
    }
}
