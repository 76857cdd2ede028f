//! The load of tests and benchmarks: what the clients of a fleet see in one day, as native events.
//!
//! 200 services call 60 upstreams over 800 series (service, upstream, route), from 16 pods each.
//! The upstreams stand behind gateways of several makes, each with its own headers. An operation
//! is followed through its attempts, with waits and outcomes that fit its service's retry policy.
//! About 12 % of the attempts are limited, most of them in storms that hit some services at one
//! upstream for some minutes. Events come in the order in which they arrive, which is nearly the
//! order in which they happened.
//!
//! Event `n` of `total` is the same on every run and every machine, so that a batch can be sent
//! again. All but times, ids and hashes are made-up words and documentation addresses.
//!
//! - `fleet`: who calls whom, and how each retries.
//! - `story`: what happens in ten minutes of the day.
//! - `answers`: what each make of gateway puts into its answers.
//! - `line`: an attempt as a line of NDJSON.
//! - `dice`: numbers that look random.
//!
//! `tests/it/load.rs` holds all of this.

mod answers;
mod dice;
mod fleet;
mod line;
mod story;

use std::cell::RefCell;
use story::Story;

/// 2026-11-11T00:00:00Z, when the day begins.
pub(crate) const START_MS: i64 = 1_794_355_200_000;

/// Milliseconds of the day.
const DAY_MS: u32 = 86_400_000;

/// More than an event takes on average.
const USUAL_BYTES: u64 = 960;

thread_local! {
    /// The ten minutes that this thread wrote from last: the next event is mostly in them too.
    static LAST: RefCell<Option<Story>> = const { RefCell::new(None) };
}

/// Writes event `n` of `total`, which are spread over one day, as one line of NDJSON.
///
/// Quick where one thread asks for neighbours one after another (well below a microsecond);
/// otherwise ten minutes are told anew, which takes some 100 ns for each event in them.
pub(crate) fn write_event(out: &mut String, n: u64, total: u64) {
    LAST.with_borrow_mut(|last| {
        if !last.as_ref().is_some_and(|story| story.holds(n, total)) {
            *last = Some(Story::around(n, total));
        }
        if let Some(story) = last {
            line::write(out, story, n);
        }
    });
}

/// Events `from` to `to` (not included) of `total` as NDJSON.
pub(crate) fn batch(from: u64, to: u64, total: u64) -> String {
    let mut out = String::with_capacity(usize::try_from((to - from) * USUAL_BYTES).unwrap());
    for n in from..to {
        write_event(&mut out, n, total);
    }
    out
}
