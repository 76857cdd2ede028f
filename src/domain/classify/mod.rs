//! Who wrote this response, and which kind of limit was it? A pure function over one response.
//!
//! - [`claim`]: what a signature writes down; [`facts`], [`body`]: what it looks at.
//! - a file per signature; [`providers`] and [`apps`] hold those of API owners and of limiters
//!   inside applications; [`registry`] lists them all.
//! - [`logged`]: what access logs and the origin's own record prove, which beats what is seen.
//! - [`walk`]: from claims to who answered; [`limits`]: to the kind of limit; [`collect`]: what to
//!   collect next.
//!
//! Rules come from documented facts and measured behaviour (`docs/signatures.md`), never from one
//! answer that was seen.

mod akamai;
mod apache;
mod apigee;
mod apiman;
mod apisix;
mod apps;
mod aws_alb;
mod aws_api_gateway;
mod aws_lambda;
mod azure_apim;
mod azure_front_door;
mod body;
mod caddy;
mod claim;
mod cloudflare;
mod cloudfront;
mod collect;
mod envoy;
mod f5_distributed_cloud;
mod facts;
mod fastly;
mod gcp;
mod haproxy;
mod hostinger_cdn;
mod kong;
mod krakend;
mod limits;
mod logged;
mod nginx;
mod providers;
mod registry;
mod spring_cloud_gateway;
mod squid;
mod stored;
mod traefik;
mod trafficserver;
mod tyk;
mod unnamed;
mod varnish;
mod vercel;
mod verdict;
mod walk;
mod workerd;

pub(crate) use claim::Rule;
pub use registry::{SignatureInfo, signatures};
pub use verdict::{classify, summarize};

use super::spelling::spelled_enum;
use serde::{Deserialize, Serialize};

spelled_enum! {
    /// The component that wrote a response.
    pub enum Responder {
        /// Cloudflare's edge.
        Cloudflare => "cloudflare",
        /// Akamai's edge.
        Akamai => "akamai",
        /// Fastly's edge.
        Fastly => "fastly",
        /// Amazon CloudFront.
        Cloudfront => "cloudfront",
        /// Vercel's edge and firewall.
        Vercel => "vercel",
        /// Azure Front Door.
        AzureFrontDoor => "azure-front-door",
        /// Hostinger's CDN.
        HostingerCdn => "hostinger-cdn",
        /// F5 Distributed Cloud.
        F5DistributedCloud => "f5-distributed-cloud",
        /// Cloudflare's Workers runtime, run by its owner.
        Workerd => "workerd",
        /// AWS WAF where the product it is attached to is not known.
        AwsWaf => "aws-waf",
        /// Amazon API Gateway, REST and HTTP APIs.
        AwsApiGateway => "aws-api-gateway",
        /// AWS Lambda's own front (invoke API, function URLs).
        AwsLambda => "aws-lambda",
        /// Kong Gateway.
        Kong => "kong",
        /// Apigee.
        Apigee => "apigee",
        /// Azure API Management.
        AzureApim => "azure-apim",
        /// Apache APISIX.
        Apisix => "apisix",
        /// Tyk.
        Tyk => "tyk",
        /// KrakenD.
        Krakend => "krakend",
        /// Spring Cloud Gateway.
        SpringCloudGateway => "spring-cloud-gateway",
        /// Google Cloud's load balancer, Cloud Armor, API Gateway and Endpoints.
        Gcp => "gcp",
        /// Apiman.
        Apiman => "apiman",
        /// nginx and what is built on it (OpenResty, ingress-nginx, Tengine).
        Nginx => "nginx",
        /// Envoy and what is built on it (Istio).
        Envoy => "envoy",
        /// HAProxy.
        Haproxy => "haproxy",
        /// Traefik.
        Traefik => "traefik",
        /// Apache httpd.
        Apache => "apache",
        /// Caddy.
        Caddy => "caddy",
        /// Varnish Cache.
        Varnish => "varnish",
        /// Apache Traffic Server.
        Trafficserver => "trafficserver",
        /// Squid.
        Squid => "squid",
        /// AWS Application Load Balancer.
        AwsAlb => "aws-alb",
        /// The application behind every known hop, or the provider of the API.
        Origin => "origin",
        /// A limiter or breaker inside the caller itself.
        Client => "client",
        /// Not known.
        Unknown => "unknown",
    }
}

impl Responder {
    /// The layer this product belongs to; goes by product, not by position on the path.
    pub const fn layer(self) -> Layer {
        match self {
            Self::Cloudflare
            | Self::Akamai
            | Self::Fastly
            | Self::Cloudfront
            | Self::Vercel
            | Self::AzureFrontDoor
            | Self::HostingerCdn
            | Self::F5DistributedCloud
            | Self::Workerd
            | Self::AwsWaf => Layer::Edge,
            Self::AwsApiGateway
            | Self::AwsLambda
            | Self::Kong
            | Self::Apigee
            | Self::AzureApim
            | Self::Apisix
            | Self::Tyk
            | Self::Krakend
            | Self::SpringCloudGateway
            | Self::Gcp
            | Self::Apiman => Layer::Gateway,
            Self::Nginx
            | Self::Envoy
            | Self::Haproxy
            | Self::Traefik
            | Self::Apache
            | Self::Caddy
            | Self::Varnish
            | Self::Trafficserver
            | Self::Squid
            | Self::AwsAlb => Layer::Proxy,
            Self::Origin => Layer::Origin,
            Self::Client => Layer::Client,
            Self::Unknown => Layer::Unknown,
        }
    }
}

spelled_enum! {
    /// Where in the path a responder stands, by product.
    pub enum Layer {
        /// A CDN or another edge.
        Edge => "edge",
        /// An API gateway.
        Gateway => "gateway",
        /// A reverse proxy or load balancer.
        Proxy => "proxy",
        /// The application or the provider.
        Origin => "origin",
        /// The caller itself.
        Client => "client",
        /// Not known.
        Unknown => "unknown",
    }
}

spelled_enum! {
    /// What kind of limit refused the attempt.
    pub enum LimitType {
        /// Too many in a short window.
        Rate => "rate",
        /// A day's, a month's or a plan's allowance is spent.
        Quota => "quota",
        /// Too many at once.
        Concurrency => "concurrency",
        /// A firewall or bot rule, a ban or a challenge.
        Security => "security",
        /// An old refusal replayed by a cache.
        Cached => "cached",
        /// The server sheds load; not this caller's limit.
        Overload => "overload",
        /// Not known.
        Unknown => "unknown",
    }
}

spelled_enum! {
    /// What a limit counts.
    pub enum LimitUnit {
        /// Requests.
        Requests => "requests",
        /// Requests in flight.
        Concurrency => "concurrency",
        /// Model tokens.
        Tokens => "tokens",
        /// Cost points.
        Cost => "cost",
        /// Bytes.
        Bytes => "bytes",
        /// Not known.
        Unknown => "unknown",
    }
}

spelled_enum! {
    /// Yes, no, or not known.
    pub enum Tri {
        /// Yes.
        Yes => "yes",
        /// No.
        No => "no",
        /// Not known.
        Unknown => "unknown",
    }
}

spelled_enum! {
    /// The word for a confidence (DESIGN 14).
    pub enum Certainty {
        /// From 0.99.
        Certain => "certain",
        /// From 0.90 to 0.99.
        Confident => "confident",
        /// From 0.50 to 0.79.
        Likely => "likely",
        /// Below 0.50: the responder is `unknown`.
        Unknown => "unknown",
    }
}

spelled_enum! {
    /// How much one piece of evidence can prove.
    pub enum Weight {
        /// Beats any number of hints: a header or body that only this product writes in its own
        /// refusal, or a joined log record.
        Proof => "proof",
        /// Decides together with anything else.
        Strong => "strong",
        /// Counts, never decides alone.
        Medium => "medium",
        /// A hint.
        Weak => "weak",
        /// Shows presence on the path and nothing more.
        None => "none",
    }
}

/// One observed fact and what it speaks for or against.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// Id of the rule that saw it, such as `CF-2`; `docs/signatures.md` explains each.
    pub rule: String,
    /// What was seen, in words, with the value (shortened).
    pub observed: String,
    /// The product or hop it speaks about.
    pub about: Responder,
    /// What it says of that product: `at` (it wrote the response), `behind` (something further in
    /// did), `on-path` (it relayed or could have), `limit` (says what kind of limit).
    pub says: Says,
    /// How much it can prove.
    pub weight: Weight,
    /// Public page or source that documents it.
    pub source: String,
}

spelled_enum! {
    /// What a piece of evidence says of the product it is about.
    pub enum Says {
        /// It wrote the response.
        At => "at",
        /// Something behind it wrote the response.
        Behind => "behind",
        /// It is on the path, nothing more.
        OnPath => "on-path",
        /// Which kind of limit it is.
        Limit => "limit",
    }
}

/// The one datum to collect next when a verdict is open or weak.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectNext {
    /// What to collect: a request in a sentence, such as "Send the access log line …".
    pub datum: String,
    /// How its values read, in a sentence.
    pub reads_as: String,
    /// A command or setting to copy, where there is one.
    pub command: Option<String>,
}

impl CollectNext {
    /// The datum and how its values read, as text to go on.
    pub fn sentences(&self) -> String {
        format!("{} {}", self.datum, self.reads_as)
    }
}

/// Who returned a response, why we think so, and what it means for waiting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The component that wrote the response.
    pub returned_by: Responder,
    /// Its layer.
    pub layer: Layer,
    /// Calibrated chance that `returned_by` is right, 0 to 1.
    pub confidence: f64,
    /// The word for `confidence`.
    pub outcome: Certainty,
    /// Whether the response is a refusal by a limit, whatever its status.
    pub limited: bool,
    /// What kind of limit.
    pub limit_type: LimitType,
    /// Chance that `limit_type` is right, 0 to 1.
    pub limit_type_confidence: f64,
    /// What the limit counts.
    pub limit_unit: LimitUnit,
    /// Whether the origin saw the request.
    pub reached_origin: Tri,
    /// The owner of the API where it is known (`github`, `stripe`, …).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub provider: Option<String>,
    /// For a replayed refusal: the kind of the stored one, where its body tells.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cached_of: Option<LimitType>,
    /// Strict RFC 9110 value in seconds: digits, or date minus `Date`; floor 0.
    pub retry_after_seconds: Option<f64>,
    /// The strict value less `Age`: what was left to wait when the response arrived.
    pub retry_after_remaining_seconds: Option<f64>,
    /// What the sender most likely meant, where the strict reading fails or misleads.
    pub retry_after_lenient_seconds: Option<f64>,
    /// Flags of the lenient reading (`float`, `ms_suspect`, …).
    pub retry_after_flags: Vec<String>,
    /// Evidence for the verdict, strongest first.
    pub evidence: Vec<Evidence>,
    /// Evidence that speaks against it.
    pub against: Vec<Evidence>,
    /// Contradictions, in words.
    pub conflicts: Vec<String>,
    /// Hops seen on the path, from the client's side inwards.
    pub hops: Vec<Responder>,
    /// What to collect next where the verdict is open or weak.
    pub collect_next: Option<CollectNext>,
    /// Extra upstream attempts made by a hop, where a log tells.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub hidden_retries: Option<u32>,
}
