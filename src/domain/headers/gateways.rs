//! Names of gateways, proxies and limiters inside applications.

use super::entry::{Entry, Family};
use super::{FieldKind as Kind, FieldUnit as Unit};

const KONG: &str = "developer.konghq.com/plugins/rate-limiting";
const KONG_2: &str = "developer.konghq.com/plugins/response-ratelimiting";
const KONG_3: &str = "developer.konghq.com/plugins/ai-rate-limiting-advanced";
const SPRING_CLOUD_GATEWAY: &str = "spring-cloud/spring-cloud-gateway RedisRateLimiter.java";
const NESTJS_THROTTLER: &str = "nestjs/throttler src/throttler.guard.ts";
const TOWER_GOVERNOR: &str = "benwis/tower-governor src/errors.rs";
const ENVOY: &str = "envoyproxy.io, HTTP rate limit filter";
const ENVOY_2: &str = "envoyproxy.io, router filter";
const ENVOY_3: &str = "envoyproxy.io, local rate limit filter";
const CLOUDFLARE: &str = "developers.cloudflare.com/cloudflare-challenges";
const VERCEL: &str = "vercel.com/docs/headers/response-headers";
const AWS_WAF: &str = "docs.aws.amazon.com/waf";

pub(super) const FAMILY: Family = Family {
    title: "Gateways, proxies and limiter libraries",
    note: "A gateway also relays such fields from what stands behind it.",
    entries: &[
        Entry {
            name: "x-ratelimit-limit-<period>",
            owner: "kong",
            kind: Kind::Limit,
            unit: Unit::Requests,
            meaning: "Requests allowed in each clock or calendar window of this length.",
            source: KONG,
        },
        Entry {
            name: "x-ratelimit-remaining-<period>",
            owner: "kong",
            kind: Kind::Remaining,
            unit: Unit::Requests,
            meaning: "Requests left in the current window of this length.",
            source: KONG,
        },
        Entry {
            name: "x-ratelimit-limit-<quota>-<period>",
            owner: "kong",
            kind: Kind::Limit,
            unit: Unit::Unknown,
            meaning: "Allowance of the named quota in the window.",
            source: KONG_2,
        },
        Entry {
            name: "x-ratelimit-remaining-<quota>-<period>",
            owner: "kong",
            kind: Kind::Remaining,
            unit: Unit::Unknown,
            meaning: "What is left of the named quota in the window.",
            source: KONG_2,
        },
        Entry {
            name: "x-ai-ratelimit-reset",
            owner: "kong",
            kind: Kind::Reset,
            unit: Unit::Seconds,
            meaning: "Time to the reset of the fullest of the token limits.",
            source: KONG_3,
        },
        Entry {
            name: "x-ai-ratelimit-reset-<period>-<provider>",
            owner: "kong",
            kind: Kind::Reset,
            unit: Unit::Seconds,
            meaning: "Time to the reset of the token limit of this window and model provider.",
            source: KONG_3,
        },
        Entry {
            name: "x-ai-ratelimit-limit-<period>-<provider>",
            owner: "kong",
            kind: Kind::Limit,
            unit: Unit::Tokens,
            meaning: "Tokens allowed in the window.",
            source: KONG_3,
        },
        Entry {
            name: "x-ai-ratelimit-remaining-<period>-<provider>",
            owner: "kong",
            kind: Kind::Remaining,
            unit: Unit::Tokens,
            meaning: "Tokens left in the window.",
            source: KONG_3,
        },
        Entry {
            name: "x-ratelimit-burst-capacity",
            owner: "spring-cloud-gateway",
            kind: Kind::Limit,
            unit: Unit::Requests,
            meaning: "Size of the token bucket.",
            source: SPRING_CLOUD_GATEWAY,
        },
        Entry {
            name: "x-ratelimit-replenish-rate",
            owner: "spring-cloud-gateway",
            kind: Kind::Limit,
            unit: Unit::PerSecond,
            meaning: "How fast the bucket refills.",
            source: SPRING_CLOUD_GATEWAY,
        },
        Entry {
            name: "x-ratelimit-requested-tokens",
            owner: "spring-cloud-gateway",
            kind: Kind::Used,
            unit: Unit::Requests,
            meaning: "What one request takes from the bucket.",
            source: SPRING_CLOUD_GATEWAY,
        },
        Entry {
            name: "x-ratelimit-remaining",
            owner: "spring-cloud-gateway",
            kind: Kind::Remaining,
            unit: Unit::Requests,
            meaning: "What is left in the bucket.",
            source: SPRING_CLOUD_GATEWAY,
        },
        Entry {
            name: "x-ratelimit-limit-<throttler>",
            owner: "nestjs-throttler",
            kind: Kind::Limit,
            unit: Unit::Requests,
            meaning: "Allowance of the named throttler.",
            source: NESTJS_THROTTLER,
        },
        Entry {
            name: "x-ratelimit-remaining-<throttler>",
            owner: "nestjs-throttler",
            kind: Kind::Remaining,
            unit: Unit::Requests,
            meaning: "What is left of the named throttler.",
            source: NESTJS_THROTTLER,
        },
        Entry {
            name: "x-ratelimit-reset-<throttler>",
            owner: "nestjs-throttler",
            kind: Kind::Reset,
            unit: Unit::Seconds,
            meaning: "Time to the reset of the named throttler.",
            source: NESTJS_THROTTLER,
        },
        Entry {
            name: "x-ratelimit-whitelisted",
            owner: "tower-governor",
            kind: Kind::Reason,
            unit: Unit::Text,
            meaning: "true where the route is exempt.",
            source: TOWER_GOVERNOR,
        },
        Entry {
            name: "x-envoy-ratelimited",
            owner: "envoy",
            kind: Kind::Reason,
            unit: Unit::Text,
            meaning: "Present where a rate limit service refused.",
            source: ENVOY,
        },
        Entry {
            name: "x-envoy-overloaded",
            owner: "envoy",
            kind: Kind::Reason,
            unit: Unit::Text,
            meaning: "Present where a circuit breaker or overload protection refused.",
            source: ENVOY_2,
        },
        Entry {
            name: "x-local-rate-limit",
            owner: "envoy",
            kind: Kind::Reason,
            unit: Unit::Text,
            meaning: "A name that operators commonly let the local limiter add.",
            source: ENVOY_3,
        },
        Entry {
            name: "cf-mitigated",
            owner: "cloudflare",
            kind: Kind::Reason,
            unit: Unit::Text,
            meaning: "challenge where a challenge was served.",
            source: CLOUDFLARE,
        },
        Entry {
            name: "x-vercel-mitigated",
            owner: "vercel",
            kind: Kind::Reason,
            unit: Unit::Text,
            meaning: "challenge or deny where the firewall answered.",
            source: VERCEL,
        },
        Entry {
            name: "x-amzn-waf-action",
            owner: "aws-waf",
            kind: Kind::Reason,
            unit: Unit::Text,
            meaning: "challenge or captcha where a rule asked for it.",
            source: AWS_WAF,
        },
    ],
};
