//! Signatures of APIs whose owner documents its own limits: a file per owner, a line in [`ALL`].

use super::claim::Signature;

/// Every signature of a provider.
pub(super) static ALL: &[&Signature] = &[];
