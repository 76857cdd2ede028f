//! Signatures of limiters inside applications and of application servers: a file per family, a
//! line in [`ALL`].

use super::claim::Signature;

/// Every signature of an application's own limiter.
pub(super) static ALL: &[&Signature] = &[];
