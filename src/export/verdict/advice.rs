//! What to do after one verdict, and what to leave alone. From the verdict alone: whose traffic
//! it was and how often it happens is the checklist's business.

use crate::domain::classify::{Layer, LimitType, Responder, Tri, Verdict};
use crate::domain::response::Response;

/// What to do next and what not to touch, a sentence each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Advice {
    /// Steps, most useful first.
    pub next: Vec<String>,
    /// What would not help or would do harm.
    pub leave: Vec<String>,
}

/// Advice for one verdict.
pub fn advice(response: &Response, verdict: &Verdict) -> Advice {
    let mut advice = Advice::default();
    if verdict.limited {
        by_type(response, verdict, &mut advice);
        by_place(verdict, &mut advice);
        writes(response, verdict, &mut advice);
    } else {
        advice.next.push(
            "Nothing in this response says that a limit refused the request: treat it as an \
             ordinary answer of its status."
                .to_owned(),
        );
    }
    if let Some(collect) = &verdict.collect_next {
        // In the middle of a sentence a request begins with a small letter.
        let request = collect.sentences();
        let mut letters = request.chars();
        let first = letters.next().map(|letter| letter.to_ascii_lowercase());
        let request: String = first.into_iter().chain(letters).collect();
        advice.next.push(format!("To settle who answered, {request}"));
        if let Some(command) = &collect.command {
            advice.next.push(format!("Copy: {command}"));
        }
    }
    advice
}

fn by_type(response: &Response, verdict: &Verdict, advice: &mut Advice) {
    let wait = verdict.retry_after_remaining_seconds.or(verdict.retry_after_seconds);
    let next = match verdict.limit_type {
        LimitType::Rate => match wait {
            Some(seconds) => format!(
                "Wait at least {} s, then add jitter; lower the rate of first attempts to what \
                 the limit allows.",
                number(seconds)
            ),
            // What was not captured may have been sent.
            None => format!(
                "No valid Retry-After was {}: back off exponentially with full jitter, cap \
                 attempts and total time, and lower the rate of first attempts.",
                if response.headers_complete || response.headers.has("retry-after") {
                    "sent"
                } else {
                    "captured"
                }
            ),
        },
        LimitType::Quota => {
            "Stop retrying: the allowance is spent until it is renewed. Wait for the renewal, cut \
             the use or change the plan."
                .to_owned()
        }
        LimitType::Concurrency => {
            "Lower the number of requests in flight at once; spacing them out in time alone does \
             not help."
                .to_owned()
        }
        LimitType::Security => {
            "Stop retrying: a firewall or bot rule refused this client. Find the rule with the id \
             in the response and have it changed, or change what the client sends."
                .to_owned()
        }
        LimitType::Cached => {
            "Purge the stored refusal and stop storing it: a 429 must not be cached (RFC 6585 \
             section 4)."
                .to_owned()
        }
        LimitType::Overload => {
            "The server sheds load; it is not this caller's allowance. Back off with jitter, keep \
             a retry budget and a circuit breaker."
                .to_owned()
        }
        LimitType::Unknown => {
            "The kind of limit is not known: keep to Retry-After where there is one, else back off \
             exponentially with jitter, and do not raise the number of attempts."
                .to_owned()
        }
    };
    advice.next.push(next);
    match verdict.limit_type {
        LimitType::Quota | LimitType::Security => {
            advice.leave.push("Retry settings: no retry passes this limit.".to_owned());
        }
        LimitType::Concurrency => advice
            .leave
            .push("The request rate as such, before the number in flight is known.".to_owned()),
        LimitType::Cached => advice
            .leave
            .push("The limiter behind the cache: it may not refuse any more.".to_owned()),
        _ => {}
    }
}

fn by_place(verdict: &Verdict, advice: &mut Advice) {
    if let Some(place) = place(verdict.returned_by) {
        advice.next.push(format!("Where the limit is set: {place}."));
    }
    match verdict.layer {
        Layer::Edge | Layer::Gateway | Layer::Proxy if verdict.reached_origin == Tri::No => {
            advice.leave.push(
                "The application's own limiter and handlers: the request did not get there."
                    .to_owned(),
            );
            advice.leave.push(format!(
                "The number of retries: more of them meet the same limit in {}.",
                super::product(verdict.returned_by)
            ));
        }
        Layer::Origin if !verdict.hops.is_empty() => {
            let hops: Vec<&str> = verdict.hops.iter().map(|hop| super::product(*hop)).collect();
            advice.leave.push(format!(
                "The limits of {}: on the path, but not what refused.",
                hops.join(" and ")
            ));
        }
        Layer::Unknown => advice.leave.push(
            "Any limiter, before it is known which one refused: a change in the wrong layer hides \
             the cause."
                .to_owned(),
        ),
        _ => {}
    }
}

fn writes(response: &Response, verdict: &Verdict, advice: &mut Advice) {
    let is_write =
        matches!(response.request.method.as_deref(), Some("POST" | "PUT" | "PATCH" | "DELETE"));
    let behind_origin =
        verdict.reached_origin == Tri::Yes && !matches!(verdict.layer, Layer::Origin);
    if is_write && behind_origin {
        advice.next.push(
            "The origin had the request before it was refused: check whether the write happened \
             before sending it again, or send it with an idempotency key."
                .to_owned(),
        );
    }
}

/// Where a product's limits are configured.
const fn place(responder: Responder) -> Option<&'static str> {
    Some(match responder {
        Responder::Cloudflare => {
            "Cloudflare dashboard, Security: rate limiting rules, WAF custom rules, bot settings"
        }
        Responder::Akamai => "Akamai Control Center: rate policies and WAF of the configuration",
        Responder::Fastly => "the Fastly service: edge rate limiting and VCL `error` statements",
        Responder::Cloudfront => "the web ACL, functions and account quotas of the distribution",
        Responder::Vercel => "the Vercel project: Firewall rules and Attack Challenge Mode",
        Responder::AzureFrontDoor => "the WAF policy of the Front Door profile",
        Responder::AwsWaf => "the AWS WAF web ACL: rate-based and managed rules",
        Responder::AwsApiGateway => {
            "API Gateway: usage plan of the key, stage or route throttling, account throttling"
        }
        Responder::AwsLambda => "Lambda: reserved concurrency of the function, account concurrency",
        Responder::Kong => "Kong: the rate-limiting plugins of route, service, consumer or global",
        Responder::Apigee => "Apigee: SpikeArrest and Quota policies of the API proxy",
        Responder::AzureApim => "API Management: `rate-limit` and `quota` policies in every scope",
        Responder::Apisix => "APISIX: `limit-req`, `limit-count`, `limit-conn` of the route",
        Responder::Tyk => "Tyk: rate and quota of the key's policy or of the API definition",
        Responder::Krakend => "KrakenD: `qos/ratelimit/router` and `qos/ratelimit/proxy`",
        Responder::SpringCloudGateway => "the `RequestRateLimiter` filter of the gateway's route",
        Responder::Gcp => "Cloud Armor policy, Cloud Run instance limits, or API quotas",
        Responder::Nginx => "nginx: `limit_req`, `limit_conn` and their `_status` directives",
        Responder::Envoy => {
            "Envoy: local rate limit filter, rate limit service, circuit breakers of the cluster"
        }
        Responder::Haproxy => "HAProxy: `http-request deny`/`tarpit` rules and stick tables",
        Responder::Traefik => "Traefik: `rateLimit` and `inFlightReq` middlewares of the router",
        Responder::Apache => "Apache: mod_qos, mod_evasive, mod_security, mod_ratelimit",
        Responder::Varnish => "the VCL: `synth` in vsthrottle or custom rules",
        Responder::AwsAlb => "the load balancer's listener rules and the web ACL attached to it",
        _ => return None,
    })
}

/// A number of seconds without needless decimals.
pub(super) fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
