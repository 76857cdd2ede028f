//! What one line proves, and the table of products that can read theirs.

use super::{
    LogFacts, apache, aws, caddy, cloudflare, cloudfront, envoy, haproxy, kong, nginx, squid,
    traefik, trafficserver, varnish, workerd,
};
use crate::domain::classify::{LimitType, Responder, Rule, Tri, Weight};

/// Who answered, by a hop's own account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    /// The hop itself.
    Itself,
    /// Whatever it passed the request to.
    Upstream,
}

/// What one line proves.
#[derive(Debug, Clone)]
pub(crate) struct Finding {
    pub(crate) rule: &'static Rule,
    pub(crate) told: Told,
    /// How much the line can prove of it; a proof unless the product's own log is known to leave
    /// it open.
    pub(crate) weight: Weight,
    /// Whether the hop passed the request on at all.
    pub(crate) contacted: Tri,
    /// The limit that refused, with the chance that its kind is right.
    pub(crate) limit: Option<(LimitType, f64)>,
    /// Nobody was over a limit, whatever the status says.
    pub(crate) is_no_limit: bool,
    /// What the upstream answered last, where the line says.
    pub(crate) upstream_status: Option<u16>,
    /// The hop replaced what the upstream answered: the status that it sent is another one.
    pub(crate) is_replaced: bool,
    /// How often the upstream was asked; `None` where the line does not say.
    pub(crate) tries: Option<u32>,
    /// The fields behind it.
    pub(crate) observed: String,
}

impl Finding {
    fn new(rule: &'static Rule, told: Told, contacted: Tri, observed: String) -> Self {
        Self {
            rule,
            told,
            weight: Weight::Proof,
            contacted,
            limit: None,
            is_no_limit: false,
            upstream_status: None,
            is_replaced: false,
            tries: None,
            observed,
        }
    }

    /// The hop answered by itself; `contacted` says whether it asked anybody before.
    pub(super) fn itself(rule: &'static Rule, contacted: Tri, observed: String) -> Self {
        Self::new(rule, Told::Itself, contacted, observed)
    }

    /// The hop refused before it asked anybody.
    pub(super) fn refused(
        rule: &'static Rule,
        kind: LimitType,
        chance: f64,
        observed: String,
    ) -> Self {
        Self { limit: Some((kind, chance)), ..Self::itself(rule, Tri::No, observed).tries(0) }
    }

    /// A limiter's refusal, on a line that also shows contact with an upstream: a page for the
    /// refusal may have been fetched from any of them, so that the line leaves it open whether the
    /// origin was reached.
    pub(super) fn beside(self, is_asked: bool) -> Self {
        Self { contacted: if is_asked { Tri::Unknown } else { self.contacted }, ..self }
    }

    /// The hop answered from its cache.
    pub(super) fn cached(rule: &'static Rule, observed: String) -> Self {
        Self::refused(rule, LimitType::Cached, 0.99, observed)
    }

    /// The hop passed on what its upstream answered.
    pub(super) fn upstream(rule: &'static Rule, observed: String) -> Self {
        Self::new(rule, Told::Upstream, Tri::Yes, observed)
    }

    /// Adds the limit, where there was one.
    pub(super) fn limit(self, limit: Option<(LimitType, f64)>) -> Self {
        Self { limit: limit.or(self.limit), ..self }
    }

    /// Says how often the upstream was asked.
    pub(super) fn tries(self, tries: impl Into<Option<u32>>) -> Self {
        Self { tries: tries.into(), ..self }
    }

    /// Says what the upstream answered.
    pub(super) fn status(self, status: Option<u16>) -> Self {
        Self { upstream_status: status, ..self }
    }

    /// Says that the hop replaced the upstream's answer.
    pub(super) fn replaced(self) -> Self {
        Self { is_replaced: true, ..self }
    }

    /// Says how much the line proves.
    pub(super) fn weight(self, weight: Weight) -> Self {
        Self { weight, ..self }
    }
}

/// What a line proves; `None` where its format leaves open who answered.
pub(crate) fn read(line: &LogFacts) -> Option<Finding> {
    // Without a status nothing was answered: the client went away.
    if line.status.is_none_or(|status| status < 100) && line.product != Responder::Nginx {
        return None;
    }
    if is_abort(line) {
        return None;
    }
    match line.product {
        Responder::Nginx => nginx::read(line),
        Responder::Haproxy => haproxy::read(line),
        Responder::Envoy => envoy::read(line),
        Responder::Apache => apache::read(line),
        Responder::Caddy => caddy::read(line),
        Responder::Varnish => varnish::read(line),
        Responder::Trafficserver => trafficserver::read(line),
        Responder::Squid => squid::read(line),
        Responder::Workerd => workerd::read(line),
        Responder::Traefik => traefik::read(line),
        Responder::Kong => kong::read(line),
        Responder::Cloudflare => cloudflare::read(line),
        Responder::Cloudfront => cloudfront::read(line),
        Responder::AwsApiGateway => aws::read_api_gateway(line),
        Responder::AwsAlb => aws::read_balancer(line),
        _ => None,
    }
}

/// Whether the client was refused with another status than `upstream` gave: the answer was made here.
pub(super) fn is_refused_otherwise(line: &LogFacts, upstream: Option<u16>) -> bool {
    upstream.is_some() && upstream != line.status && line.status.is_some_and(|code| code >= 400)
}

/// Whether a status only says that the client went away: nobody returned it. 499 is what nginx,
/// Traefik and Cloudflare write down, 460 the load balancer of Amazon.
fn is_abort(line: &LogFacts) -> bool {
    let (status, upstream) = match line.product {
        Responder::AwsAlb => (460, "target_status_code"),
        _ => (499, "upstream_status"),
    };
    // With that code from upstream it was an answer.
    line.status == Some(status) && line.code(upstream) != Some(status)
}

/// The kind of limit that a rule's name in the configuration suggests, such as `src_conn_cur` or
/// `modsec_ip_reqs`. A name is given by people: it names a limit, and rarely a wrong kind.
pub(super) fn by_name(name: &str) -> (LimitType, f64) {
    let name = name.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
    if has(&["modsec", "waf", "evasive", "security", "crs_", "abuse"]) {
        (LimitType::Security, 0.9)
    } else if has(&["quota", "daily", "per_day", "month"]) {
        (LimitType::Quota, 0.9)
    } else if has(&["rate", "throttle", "rps", "reqs"]) {
        (LimitType::Rate, 0.95)
    } else if has(&["conn", "concurr", "inflight", "in_flight", "maxreq"]) {
        (LimitType::Concurrency, 0.95)
    } else {
        (LimitType::Rate, 0.75)
    }
}
