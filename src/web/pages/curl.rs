//! The curl twin of one event.

use crate::domain::event::Event;

/// The command that sends the same request again, without secrets.
pub fn twin(_event: &Event) -> String {
    String::new()
}
