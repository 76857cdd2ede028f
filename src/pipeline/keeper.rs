//! The task that keeps the store within its limits of age and size.
//!
//! Each step is short, and after each one the store is left alone for as long as the step took, so
//! that no more than half of the writer's time goes into it however much is to be removed, and far
//! less while much is written: a step then waits its turn behind each batch.

use crate::clock::Clock;
use crate::metrics::{Metrics, Operation};
use crate::store::{Keep, Store, Tidied};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How often it is looked whether there is something to do.
const INTERVAL: Duration = Duration::from_mins(1);
/// How soon after the start.
const FIRST: Duration = Duration::from_secs(5);

/// Tidies until `end` is cancelled; a step that was begun is finished.
pub async fn run(
    store: Store,
    clock: Arc<dyn Clock>,
    metrics: Metrics,
    keep: Keep,
    end: CancellationToken,
) {
    let mut rest = FIRST;
    loop {
        tokio::select! {
            () = tokio::time::sleep(rest) => {}
            () = end.cancelled() => return,
        }
        let begun = Instant::now();
        rest = match store.tidy(keep, clock.now()).await {
            Ok(Tidied::More) => begun.elapsed(),
            Ok(Tidied::Done) => INTERVAL,
            Err(error) => {
                metrics.store_failed(Operation::Tidy);
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "what is old could not be removed; trying again");
                INTERVAL
            }
        };
    }
}
