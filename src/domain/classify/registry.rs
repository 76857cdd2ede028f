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

/// A signature as its documentation and its samples know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignatureInfo {
    /// Its name: folder of samples, heading in `docs/signatures.md`.
    pub id: &'static str,
    /// Ids and source pages of its rules.
    pub rules: Vec<(&'static str, &'static str)>,
}

/// Every signature with its rules.
pub fn signatures() -> Vec<SignatureInfo> {
    let info = |signature: &'static Signature| SignatureInfo {
        id: signature.id,
        rules: signature.rules.iter().map(|rule| (rule.id, rule.source)).collect(),
    };
    all().map(info).collect()
}
