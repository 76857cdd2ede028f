//! What programs ask and send: a file per resource.

pub mod events;
pub mod health;
pub mod schema;
