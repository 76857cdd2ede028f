//! From accepted events to stored rows.
//!
//! - [`alerts`]: evaluates the rules once a minute.
//! - [`judge`]: the verdict that is kept beside an event.
//! - [`Intake`]: a bounded queue in front of one writer, which commits whatever waits as one
//!   transaction and answers after the commit.
//! - [`fair`]: who may take how much of the queue, so that nobody starves the rest.
//! - [`keeper`]: removes what is older than is kept, a little at a time.
//! - [`settler`]: makes events of spans, once their operation is known.
//! - [`SenderTally`]: what senders get wrong, written now and then; [`SourceTally`]: what sources
//!   send and lack.
//!
//! The sums that pages read are made inside that transaction, by the store.

pub mod alerts;
pub mod fair;
mod intake;
pub mod keeper;
mod senders;
pub mod settler;
mod sources;
mod writer;

pub use intake::{Batch, Intake, IntakeError, IntakeSettings};
pub use senders::SenderTally;
pub use sources::SourceTally;

use crate::domain::classify;
use crate::domain::event::Event;
use crate::domain::stored::NewEvent;

/// Puts the verdict beside an event.
pub fn judge(mut event: Event) -> NewEvent {
    let verdict = event.with_response(classify::summarize);
    NewEvent { event, verdict }
}
