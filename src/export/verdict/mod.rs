//! One verdict for the reader outside: JSON ([`Answer`]) and text ([`text`]).

pub mod advice;
pub mod limit_field;
pub mod text;

use crate::domain::classify::{Responder, Verdict};
use crate::domain::response::Response;
use limit_field::LimitFieldView;
use serde::Serialize;
use serde_json::Value;

/// A verdict with what it is about; the JSON of `retrylens classify` and of
/// `POST /api/v1/classify`.
#[derive(Debug, Serialize)]
pub struct Answer<'a> {
    /// The `id` that was sent, else null.
    pub id: Value,
    /// Position in a HAR file, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<usize>,
    /// Address without query string, where a HAR file gives it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<&'a str>,
    /// Status code.
    pub status: Option<u16>,
    /// The verdict's own fields.
    #[serde(flatten)]
    pub verdict: &'a Verdict,
    /// What the rate-limit fields say; `Retry-After` is in the verdict.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limit_fields: Vec<LimitFieldView>,
    /// What was guessed or cut while reading.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub problems: &'a [String],
}

impl<'a> Answer<'a> {
    /// The answer for one response.
    pub fn new(id: Value, response: &Response, verdict: &'a Verdict) -> Self {
        Self {
            id,
            index: None,
            url: None,
            status: response.status,
            verdict,
            limit_fields: limit_field::views(response),
            problems: &[],
        }
    }
}

/// The name of a responder as its maker writes it.
pub const fn product(responder: Responder) -> &'static str {
    match responder {
        Responder::Cloudflare => "Cloudflare",
        Responder::Akamai => "Akamai",
        Responder::Fastly => "Fastly",
        Responder::Cloudfront => "Amazon CloudFront",
        Responder::Vercel => "Vercel",
        Responder::AzureFrontDoor => "Azure Front Door",
        Responder::HostingerCdn => "Hostinger's CDN",
        Responder::F5DistributedCloud => "F5 Distributed Cloud",
        Responder::Workerd => "workerd",
        Responder::AwsWaf => "AWS WAF",
        Responder::AwsApiGateway => "Amazon API Gateway",
        Responder::AwsLambda => "AWS Lambda",
        Responder::Kong => "Kong Gateway",
        Responder::Apigee => "Apigee",
        Responder::AzureApim => "Azure API Management",
        Responder::Apisix => "Apache APISIX",
        Responder::Tyk => "Tyk",
        Responder::Krakend => "KrakenD",
        Responder::SpringCloudGateway => "Spring Cloud Gateway",
        Responder::Gcp => "Google Cloud's front end",
        Responder::Apiman => "Apiman",
        Responder::Nginx => "nginx",
        Responder::Envoy => "Envoy",
        Responder::Haproxy => "HAProxy",
        Responder::Traefik => "Traefik",
        Responder::Apache => "Apache httpd",
        Responder::Caddy => "Caddy",
        Responder::Varnish => "Varnish",
        Responder::Trafficserver => "Apache Traffic Server",
        Responder::Squid => "Squid",
        Responder::AwsAlb => "AWS Application Load Balancer",
        Responder::Origin => "the origin",
        Responder::Client => "the caller itself",
        Responder::Unknown => "an unknown component",
    }
}
