//! What stands beside a field and gives its owner away, where the host does not.

use crate::domain::response::HeaderFields;

/// The companions that give an owner away.
#[derive(Clone, Copy)]
pub struct Signature {
    /// The owner, as the entries of the dictionary spell it.
    pub owner: &'static str,
    /// What must be there, in words.
    pub needs: &'static str,
    /// Whether it is there.
    pub(super) holds: fn(&HeaderFields) -> bool,
}

/// The owners that can be told by companions. An owner listed here is never assumed without its
/// companions or its host.
pub const SIGNATURES: &[Signature] = &[
    Signature {
        owner: "github",
        needs: "`x-github-request-id`, or both `x-ratelimit-resource` and `x-ratelimit-used`",
        holds: |h| {
            h.has("x-github-request-id")
                || (h.has("x-ratelimit-resource") && h.has("x-ratelimit-used"))
        },
    },
    Signature {
        owner: "discord",
        needs: "`x-ratelimit-bucket`, `x-ratelimit-reset-after` or `x-ratelimit-scope`",
        holds: |h| {
            h.has("x-ratelimit-bucket")
                || h.has("x-ratelimit-reset-after")
                || h.has("x-ratelimit-scope")
        },
    },
    Signature {
        owner: "gitlab",
        needs: "`ratelimit-observed` or `ratelimit-resettime`",
        holds: |h| h.has("ratelimit-observed") || h.has("ratelimit-resettime"),
    },
    Signature {
        owner: "envoy",
        needs: "`x-envoy-ratelimited` or `x-envoy-overloaded`, or a policy (`;w=`) inside \
                `x-ratelimit-limit`",
        holds: |h| {
            h.has("x-envoy-ratelimited")
                || h.has("x-envoy-overloaded")
                || h.has("x-local-rate-limit")
                || h.all("x-ratelimit-limit").any(|value| value.contains(";w="))
        },
    },
    Signature {
        owner: "spring-cloud-gateway",
        needs: "`x-ratelimit-burst-capacity`",
        holds: |h| h.has("x-ratelimit-burst-capacity"),
    },
    Signature {
        owner: "nestjs-throttler",
        needs: "`retry-after-<throttler>`",
        holds: |h| {
            h.iter().any(|(name, _)| {
                name.strip_prefix("retry-after-")
                    .is_some_and(|rest| !rest.is_empty() && rest != "ms")
            })
        },
    },
    Signature {
        owner: "express-rate-limit",
        needs: "`x-powered-by: Express`, and a value that can be seconds since 1970",
        holds: |h| h.get("x-powered-by").is_some_and(|value| value.eq_ignore_ascii_case("express")),
    },
];

/// Whether the companions of `owner` are there; `None` for an owner without a signature.
pub(super) fn signature_holds(owner: &str, headers: &HeaderFields) -> Option<bool> {
    SIGNATURES
        .iter()
        .find(|signature| signature.owner == owner)
        .map(|signature| (signature.holds)(headers))
}
