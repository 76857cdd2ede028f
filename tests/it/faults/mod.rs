//! What happens when something breaks: the process, the disk, the database, the network, the file,
//! the clock. `docs/faults.md` says it for operators and names the tests here.
//!
//! The short forms are part of `make test`. The long ones (`make torture`) differ in numbers only.
//! Every random choice comes from a seed that is printed; `RETRYLENS_TEST_SEED` sets it.

#![expect(clippy::print_stderr, reason = "seeds and figures are printed, not asserted")]

mod away;
mod clock;
mod damage;
mod disk;
mod kill;
mod ledger;
mod network;

use rand::SeedableRng as _;
use rand::rngs::StdRng;

/// The dice of a test, and their seed in the log.
fn dice(test: &str) -> StdRng {
    let set = std::env::var("RETRYLENS_TEST_SEED").ok().and_then(|text| text.parse().ok());
    let seed = set.unwrap_or_else(rand::random::<u32>);
    eprintln!("{test}: RETRYLENS_TEST_SEED={seed}");
    StdRng::seed_from_u64(u64::from(seed))
}
