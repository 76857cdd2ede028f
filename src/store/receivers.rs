//! What receivers of notifications said about being sent to at all: for every process and over a
//! restart.

use super::reader::Row;
use super::transact::Statement;
use super::{Store, StoreError};
use crate::domain::alerts::ReceiverKey;
use crate::domain::time::{HOUR_MS, Millis, UnixMillis};

/// What a receiver said about being sent to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReceiverHold {
    /// It asked for nothing before this moment; in the past where nothing is asked for.
    pub until: UnixMillis,
    /// When it said that it is gone for good, if it did.
    pub gone_at: Option<UnixMillis>,
}

impl ReceiverHold {
    /// Whether anything may be sent to it at `now`.
    pub fn is_open(self, now: UnixMillis) -> bool {
        self.gone_at.is_none() && self.until <= now
    }

    /// Whether whoever it tells must be told in another way at `now`: it is gone, or asked to wait for
    /// more than another hour.
    pub fn is_lost(self, now: UnixMillis) -> bool {
        self.gone_at.is_some() || self.until > now.plus(Millis(HOUR_MS))
    }
}

const HOLD_BACK: &str = "\
INSERT INTO alert_receivers (name, address, held_until, gone_at) VALUES ($1, $2, $3, 0) \
ON CONFLICT (name, address) DO UPDATE SET held_until = excluded.held_until \
WHERE alert_receivers.held_until < excluded.held_until";

const NOTE_GONE: &str = "\
INSERT INTO alert_receivers (name, address, held_until, gone_at) VALUES ($1, $2, 0, $3) \
ON CONFLICT (name, address) DO UPDATE SET gone_at = excluded.gone_at \
WHERE alert_receivers.gone_at = 0";

const FORGET_GONE: &str = "UPDATE alert_receivers SET gone_at = 0 WHERE name = $1 AND gone_at > 0";

const HOLD: &str =
    "SELECT held_until, gone_at FROM alert_receivers WHERE name = $1 AND address = $2";

const HOLDS: &str = "\
SELECT held_until, gone_at, name, address FROM alert_receivers \
WHERE held_until > $1 OR gone_at > 0 ORDER BY name, address";

/// A receiver works: what waits for it is due, except what is being sent.
const BRING_FORWARD: &str = "\
UPDATE alert_outbox SET next_at = $1 WHERE receiver = $2 AND outcome = '' AND next_at > $1 \
AND leased_until <= $1";

/// What was said long ago.
pub(super) const FORGET_HOLDS: &str =
    "DELETE FROM alert_receivers WHERE held_until < $1 AND gone_at < $1";

/// What waits for `receiver` is due at `now`.
pub(super) fn forward(receiver: &str, now: UnixMillis) -> Statement {
    Statement::new(BRING_FORWARD, vec![now.0.into(), receiver.into()])
}

impl Store {
    /// What a receiver said about being sent to.
    pub async fn hold(&self, of: &ReceiverKey) -> Result<ReceiverHold, StoreError> {
        let args = [of.name.as_str().into(), of.address.as_str().into()];
        let row = self.reader().await?.first(HOLD, &args).await?;
        row.as_ref().map_or(Ok(ReceiverHold::default()), hold)
    }

    /// Receivers that nothing is sent to at `now`, with why.
    pub async fn holds(
        &self,
        now: UnixMillis,
    ) -> Result<Vec<(ReceiverKey, ReceiverHold)>, StoreError> {
        let rows = self.reader().await?.all(HOLDS, &[now.0.into()]).await?;
        rows.iter()
            .map(|row| {
                let (name, address) = (row.text(2)?.into_owned(), row.text(3)?.into_owned());
                Ok((ReceiverKey { name, address }, hold(row)?))
            })
            .collect()
    }

    /// Nothing is sent to a receiver before `until`, since it asked for that.
    pub async fn hold_back(&self, of: &ReceiverKey, until: UnixMillis) -> Result<(), StoreError> {
        self.say(HOLD_BACK, of, until).await
    }

    /// Nothing is sent to a receiver any more, since it said at `at` that it is gone.
    pub async fn note_gone(&self, of: &ReceiverKey, at: UnixMillis) -> Result<(), StoreError> {
        self.say(NOTE_GONE, of, at).await
    }

    /// A receiver that was gone is tried again.
    pub async fn forget_gone(&self, name: &str) -> Result<(), StoreError> {
        self.transact(vec![Statement::new(FORGET_GONE, vec![name.into()])]).await.map(drop)
    }

    /// Makes due what waits for a receiver, since it works again. What it asked to wait for is
    /// waited all the same ([`Self::hold_back`]).
    pub async fn bring_forward(&self, receiver: &str, now: UnixMillis) -> Result<(), StoreError> {
        self.transact(vec![forward(receiver, now)]).await.map(drop)
    }

    async fn say(
        &self,
        text: &'static str,
        of: &ReceiverKey,
        at: UnixMillis,
    ) -> Result<(), StoreError> {
        let args = vec![of.name.as_str().into(), of.address.as_str().into(), at.0.into()];
        self.transact(vec![Statement::new(text, args)]).await.map(drop)
    }
}

/// The first two columns.
fn hold(row: &Row) -> Result<ReceiverHold, StoreError> {
    let gone_at = Some(UnixMillis(row.int(1)?)).filter(|at| at.0 > 0);
    Ok(ReceiverHold { until: UnixMillis(row.int(0)?), gone_at })
}
