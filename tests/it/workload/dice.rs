//! Numbers that look random and are the same on every run.

/// Vigna's splitmix64: small, fast, with a known sequence.
#[derive(Debug, Clone)]
pub(super) struct Dice(u64);

impl Dice {
    /// Dice of their own for each pair of numbers.
    pub(super) fn new(what: u64, which: u64) -> Self {
        Self(mix(what.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ mix(which)))
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// From 0 to `n`, not included.
    pub(super) fn below(&mut self, n: u32) -> u32 {
        u32::try_from(((self.next() >> 32) * u64::from(n)) >> 32).unwrap()
    }

    /// From `low` to `high`, both included.
    pub(super) fn between(&mut self, low: u32, high: u32) -> u32 {
        low + self.below(high - low + 1)
    }

    /// True in `percent` of all throws.
    pub(super) fn percent(&mut self, percent: u32) -> bool {
        self.below(100) < percent
    }

    /// One of several.
    pub(super) fn one_of<T: Copy>(&mut self, several: &[T]) -> T {
        several[self.below(u32::try_from(several.len()).unwrap()) as usize]
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
