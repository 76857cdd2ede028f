//! A quick hash for keys that nobody outside can choose: places in our own lists, and numbers that
//! were hashed with a secret already.

use std::hash::{BuildHasherDefault, Hasher};

/// Builds [`Mixed`].
pub(super) type Quick = BuildHasherDefault<Mixed>;

/// Mixes whole numbers by multiplying with 2^64 over the golden ratio (Knuth, The Art of Computer
/// Programming, volume 3, section 6.4).
#[derive(Debug, Default)]
pub(super) struct Mixed(u64);

impl Hasher for Mixed {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, n: u32) {
        self.write_u64(u64::from(n));
    }

    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(26) ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }

    fn finish(&self) -> u64 {
        // The table takes the lowest bits; the product is best in its highest.
        self.0.rotate_left(32)
    }
}
