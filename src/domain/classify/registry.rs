//! Every signature, in the order in which they look. To add one: a file, its `mod` line in the
//! folder's `mod.rs`, and a line here (or in `providers::ALL`, `apps::ALL`).

use super::claim::Signature;
use super::{
    akamai, apache, apigee, apiman, apisix, apps, aws_alb, aws_api_gateway, aws_lambda, azure_apim,
    azure_front_door, caddy, cloudflare, cloudfront, envoy, f5_distributed_cloud, fastly, gcp,
    haproxy, hostinger_cdn, kong, krakend, limits, nginx, providers, spring_cloud_gateway, squid,
    stored, traefik, trafficserver, tyk, unnamed, varnish, vercel, workerd,
};

/// Signatures of infrastructure, and what the response tells of the limit.
static INFRASTRUCTURE: &[&Signature] = &[
    &cloudflare::SIGNATURE,
    &fastly::SIGNATURE,
    &akamai::SIGNATURE,
    &azure_front_door::SIGNATURE,
    &vercel::SIGNATURE,
    &hostinger_cdn::SIGNATURE,
    &f5_distributed_cloud::SIGNATURE,
    &cloudfront::SIGNATURE,
    &aws_alb::SIGNATURE,
    &aws_lambda::SIGNATURE,
    &aws_api_gateway::SIGNATURE,
    &gcp::SIGNATURE,
    &azure_apim::SIGNATURE,
    &apigee::SIGNATURE,
    &tyk::SIGNATURE,
    &krakend::SIGNATURE,
    &apisix::SIGNATURE,
    &spring_cloud_gateway::SIGNATURE,
    &apiman::SIGNATURE,
    &kong::SIGNATURE,
    &envoy::SIGNATURE,
    &nginx::SIGNATURE,
    &haproxy::SIGNATURE,
    &traefik::SIGNATURE,
    &apache::SIGNATURE,
    &varnish::SIGNATURE,
    &squid::SIGNATURE,
    &trafficserver::SIGNATURE,
    &caddy::SIGNATURE,
    &workerd::SIGNATURE,
    &stored::SIGNATURE,
    &unnamed::SIGNATURE,
    &limits::SIGNATURE,
];

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
