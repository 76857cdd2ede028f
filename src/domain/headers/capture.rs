//! The header fields that may be captured and stored; everything else is dropped at the door.

use std::borrow::Cow;

/// Names that may be stored, in order.
const NAMES: &[&str] = &[
    "age",
    "apigw-requestid",
    "cache-control",
    "cache-status",
    "client-request-id",
    "connection",
    "content-encoding",
    "content-language",
    "content-length",
    "content-type",
    "date",
    "duration",
    "expires",
    "fly-request-id",
    "grpc-message",
    "grpc-status",
    "keep-alive",
    "mime-version",
    "proxy-status",
    "request-id",
    "server",
    "server-timing",
    "traceresponse",
    "transfer-encoding",
    "vary",
    "via",
    "x-cache",
    "x-cache-hits",
    "x-cache-lookup",
    "x-cache-status",
    "x-cdn",
    "x-correlation-id",
    "x-datadog-trace-id",
    "x-generator",
    "x-iinfo",
    "x-local-rate-limit",
    "x-ms-client-request-id",
    "x-nf-request-id",
    "x-powered-by",
    "x-proxy-cache",
    "x-ratelimited",
    "x-reference-error",
    "x-request-id",
    "x-runtime",
    "x-served-by",
    "x-should-retry",
    "x-timer",
    "x-trace-id",
    "x-varnish",
];

/// Beginnings of names that may be stored, in order; none begins with another.
const PREFIXES: &[&str] = &[
    "akamai-",
    "anthropic-ratelimit-",
    "cf-",
    "fastly-",
    "ratelimit",
    "retry-after",
    "stripe-",
    "twilio-",
    "x-ai-ratelimit",
    "x-akamai-",
    "x-amz",
    "x-apisix-",
    "x-azure-",
    "x-discord-",
    "x-edge-",
    "x-envoy-",
    "x-fastly-",
    "x-github-",
    "x-goog-",
    "x-hcdn-",
    "x-kong-",
    "x-krakend",
    "x-ms-",
    "x-policy-failure-",
    "x-rate-limit",
    "x-ratelimit",
    "x-retry-",
    "x-shopify-",
    "x-squid-",
    "x-tyk-",
    "x-vercel-",
    "x-volterra-",
];

/// Words that keep a name out even where a prefix would let it in: they stand for credentials, for
/// persons or for where the caller sits.
const FORBIDDEN_WORDS: &[&str] = &[
    "address",
    "authenticated",
    "authorization",
    "challenge",
    "city",
    "client",
    "clientip",
    "connecting",
    "cookie",
    "country",
    "credential",
    "email",
    "forwarded",
    "identity",
    "ip",
    "ipcity",
    "ipcountry",
    "ipv4",
    "ipv6",
    "jwt",
    "key",
    "latitude",
    "longitude",
    "oidc",
    "password",
    "postal",
    "principal",
    "secret",
    "security",
    "session",
    "signature",
    "socketip",
    "token",
    "user",
    "visitor",
];

/// Words in the name of a rate-limit field that say whose limit it is: alone, its value is a key, an
/// address or an account.
const IDENTITY_WORDS: &[&str] = &[
    "account",
    "address",
    "apikey",
    "caller",
    "client",
    "consumer",
    "email",
    "id",
    "identifier",
    "identity",
    "ip",
    "key",
    "org",
    "organization",
    "principal",
    "session",
    "subject",
    "tenant",
    "token",
    "user",
    "username",
];

/// Words in the name of a rate-limit field that say what its value measures or states, so that the
/// others name a bucket: `x-ratelimit-limit-user`.
const MEASURE_WORDS: &[&str] = &[
    "after",
    "bucket",
    "burst",
    "capacity",
    "cost",
    "limit",
    "max",
    "policy",
    "quota",
    "rate",
    "remaining",
    "reset",
    "scope",
    "usage",
    "used",
    "window",
];

/// Whether the header field `name` (in any case) may be captured and stored. What it never lets
/// in: cookies, authorization, tokens, and fields that tell who or where the caller is.
pub fn is_allowed(name: &str) -> bool {
    let mut name = Cow::Borrowed(name.trim());
    if name.bytes().any(|b| b.is_ascii_uppercase()) {
        name.to_mut().make_ascii_lowercase();
    }
    let name: &str = &name;
    if NAMES.binary_search(&name).is_ok() {
        return true;
    }
    // What a name begins with stands right before it, if anywhere.
    let before = PREFIXES.get(..PREFIXES.partition_point(|prefix| *prefix <= name));
    before.and_then(|all| all.last()).is_some_and(|prefix| name.starts_with(prefix))
        && match after_limits(name) {
            Some(rest) => !has_word(rest, IDENTITY_WORDS) || has_word(rest, MEASURE_WORDS),
            None => !has_word(name, FORBIDDEN_WORDS),
        }
}

fn has_word(name: &str, words: &[&str]) -> bool {
    name.split(['-', '_']).any(|word| words.contains(&word))
}

/// What follows in the name of a rate-limit field, where words such as `user` and `token` may name
/// a bucket; the wait of `retry-after-…` is its measure.
fn after_limits(name: &str) -> Option<&str> {
    if name.starts_with("retry-after") {
        return Some(name);
    }
    ["ratelimit", "rate-limit"].iter().find_map(|word| Some(name.split_once(word)?.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_in_order() {
        assert!(NAMES.is_sorted_by(|a, b| a < b));
        assert!(PREFIXES.is_sorted_by(|a, b| a < b && !b.starts_with(a)));
    }

    #[test]
    fn what_the_verdict_needs_is_let_in() {
        for name in [
            "date",
            "age",
            "via",
            "server",
            "Retry-After",
            "retry-after-short",
            "x-retry-in",
            "ratelimit",
            "ratelimit-policy",
            "x-ratelimit-remaining-tokens",
            "x-rate-limit-reset",
            "cf-ray",
            "cf-mitigated",
            "cf-cache-status",
            "x-amzn-errortype",
            "x-amz-cf-id",
            "x-amzn-requestid",
            "x-amzn-waf-action",
            "apigw-requestid",
            "x-envoy-ratelimited",
            "x-kong-response-latency",
            "x-azure-ref",
            "x-generator",
            "x-krakend-completed",
            "x-vercel-id",
            "x-vercel-mitigated",
            "fly-request-id",
            "x-nf-request-id",
            "x-github-request-id",
            "twilio-concurrent-requests",
            "stripe-rate-limited-reason",
            "stripe-should-retry",
            "x-should-retry",
            "anthropic-ratelimit-tokens-reset",
            "x-shopify-shop-api-call-limit",
            "x-ms-retry-after-ms",
            "grpc-status",
            "fastly-ratelimit-reset",
            "x-ratelimit-scope",
            "x-ratelimit-bucket",
            "x-ratelimit-resource",
            "x-ratelimit-limit-user",
            "x-ratelimit-user-remaining",
            "x-ratelimit-limit-tokens",
            "x-rate-limit-ip-reset",
            "x-ms-ratelimit-remaining-subscription-reads",
            "retry-after-user",
            "server-timing",
            "x-served-by",
        ] {
            assert!(is_allowed(name), "{name}");
        }
    }

    #[test]
    fn what_is_secret_or_personal_is_kept_out() {
        for name in [
            "set-cookie",
            "Set-Cookie",
            "cookie",
            "authorization",
            "proxy-authorization",
            "www-authenticate",
            "x-api-key",
            "x-auth-token",
            "cf-connecting-ip",
            "cf-access-jwt-assertion",
            "cf-access-client-secret",
            "cf-ipcountry",
            "x-amz-security-token",
            "x-amz-cf-signature",
            "x-ms-client-principal-name",
            "x-vercel-challenge-token",
            "x-vercel-ip-city",
            "x-vercel-forwarded-for",
            "x-goog-authenticated-user-email",
            "x-forwarded-for",
            "location",
            "referer",
            "x-amzn-oidc-accesstoken-cookie",
            "x-amzn-oidc-identity",
            "x-azure-clientip",
            "cf-pseudo-ipv4",
            "x-envoy-external-address",
            "x-ratelimit-key",
            "X-RateLimit-Key",
            "x-ratelimit-identifier",
            "x-ratelimit-client",
            "x-ratelimit-client-id",
            "x-rate-limit-user",
            "x-rate-limit-ip",
            "ratelimit-subject",
            "anthropic-ratelimit-organization",
            "true-client-ip",
            "forwarded",
            "",
        ] {
            assert!(!is_allowed(name), "{name}");
        }
    }
}
