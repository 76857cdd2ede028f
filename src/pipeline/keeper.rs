//! The tasks that keep the store within its limits of age and size, and its pages fast.
//!
//! Each step is short, and after each one the store is left alone for as long as the step took, so
//! that no more than half of the writer's time goes into it however much is to be done, and far
//! less while much is written: a step then waits its turn behind each batch.

use crate::clock::Clock;
use crate::metrics::{Metrics, Operation};
use crate::store::{Keep, Store, StoreError, Tidied};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How often it is looked whether there is something to do.
const INTERVAL: Duration = Duration::from_mins(1);
/// How soon after the start.
const FIRST: Duration = Duration::from_secs(5);
/// While batches are stored, gathering rests so many times as long as its step took, so that fewer
/// than one batch in a hundred waits for one: what isn't gathered is only slower to read.
const SELDOM: u32 = 100;

/// Gathers and tidies until `end` is cancelled; a step that was begun is finished.
pub async fn run(
    store: Store,
    clock: Arc<dyn Clock>,
    metrics: Metrics,
    keep: Keep,
    end: CancellationToken,
) {
    let keeper = Keeper { store, clock, metrics, keep };
    let gather = async {
        let mut rest = FIRST;
        while is_due(rest, &end).await {
            rest = keeper.rest_after(Operation::Gather, keeper.gather().await);
        }
    };
    let tidy = async {
        let mut rest = FIRST;
        while is_due(rest, &end).await {
            rest = keeper.rest_after(Operation::Tidy, keeper.tidy().await);
        }
    };
    tokio::join!(gather, tidy);
}

/// Rests; whether there is to be another step then.
async fn is_due(rest: Duration, end: &CancellationToken) -> bool {
    tokio::select! {
        () = tokio::time::sleep(rest) => true,
        () = end.cancelled() => false,
    }
}

struct Keeper {
    store: Store,
    clock: Arc<dyn Clock>,
    metrics: Metrics,
    keep: Keep,
}

impl Keeper {
    /// A step of gathering, and how long to rest after it.
    async fn gather(&self) -> Result<Duration, StoreError> {
        let before = self.store.batches();
        let begun = Instant::now();
        if !self.store.gather(self.clock.now()).await? {
            return Ok(INTERVAL);
        }
        let rest = begun.elapsed();
        tokio::time::sleep(rest).await;
        Ok(if self.store.batches() == before { Duration::ZERO } else { rest * SELDOM })
    }

    /// A step of removal, and how long to rest after it.
    async fn tidy(&self) -> Result<Duration, StoreError> {
        let begun = Instant::now();
        Ok(match self.store.tidy(self.keep, self.clock.now()).await? {
            Tidied::More => begun.elapsed(),
            Tidied::Done => INTERVAL,
        })
    }

    fn rest_after(&self, operation: Operation, step: Result<Duration, StoreError>) -> Duration {
        step.unwrap_or_else(|error| {
            self.metrics.store_failed(operation);
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "the store could not be kept in order; trying again");
            INTERVAL
        })
    }
}
