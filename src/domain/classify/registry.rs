//! Every signature, in the order in which they look. To add one: a file, its `mod` line in the
//! folder's `mod.rs`, and a line here (or in `providers::ALL`, `apps::ALL`).

use super::claim::Signature;
use super::{apps, cloudflare, envoy, limits, nginx, providers};

/// Signatures of infrastructure, and what the response tells of the limit.
static INFRASTRUCTURE: &[&Signature] =
    &[&cloudflare::SIGNATURE, &envoy::SIGNATURE, &nginx::SIGNATURE, &limits::SIGNATURE];

/// Every signature.
pub(crate) fn all() -> impl Iterator<Item = &'static Signature> {
    INFRASTRUCTURE.iter().chain(providers::ALL).chain(apps::ALL).copied()
}
