//! Puts the answers together: evidence for and against, limit, waits and what to collect next.

use super::claim::{Claim, Sheet};
use super::facts::Facts;
use super::walk::{self, Answer};
use super::{
    Certainty, Evidence, LimitType, LimitUnit, Responder, Says, Tri, Verdict, collect, limits,
    registry,
};
use crate::domain::response::Response;
use crate::domain::retry_after::{self, Reading};
use crate::domain::stored::VerdictSummary;
use crate::domain::time::Millis;

/// Chance that the application answered where a response is an ordinary success and no cache
/// speaks up.
const SERVED_CHANCE: f64 = 0.7;

/// Says who wrote `response`, which kind of limit it was, and why.
pub fn classify(response: &Response) -> Verdict {
    let facts = Facts::of(response);
    if response.status.is_none() {
        return plain(&facts, Responder::Unknown, 0.0, Tri::Unknown);
    }
    if is_plain_success(&facts) {
        return plain(&facts, Responder::Origin, SERVED_CHANCE, Tri::Yes);
    }
    let reading = retry_after::read(&response.headers, response.observed_at);
    let mut sheet = Sheet::default();
    for signature in registry::all() {
        (signature.look)(&facts, &mut sheet);
    }
    sheet.heed_signed_body();
    limits::long_wait(&facts, &reading, &mut sheet);
    claimed_layer(&facts, &mut sheet);
    let answer = walk::walk(&sheet, outermost(&facts), &response.path);
    compose(&facts, &sheet, &reading, answer)
}

/// The part of a verdict that is stored beside an attempt.
pub fn summary(response: &Response, verdict: &Verdict) -> VerdictSummary {
    let reading = retry_after::read(&response.headers, response.observed_at);
    VerdictSummary {
        returned_by: verdict.returned_by,
        layer: verdict.layer,
        outcome: verdict.outcome,
        confidence: verdict.confidence,
        limited: verdict.limited,
        limit_type: verdict.limit_type,
        reached_origin: verdict.reached_origin,
        promised_ms: reading.remaining.map(|wait| wait.0),
        promised_by_date: reading.by_date,
        clock_skew_ms: reading.clock_skew.map(|skew| skew.0),
    }
}

/// An answer that was served, with nothing in it that a cache or a limiter writes: by far the most
/// common response, so it is settled first.
fn is_plain_success(facts: &Facts<'_>) -> bool {
    const TELLING: [&str; 7] =
        ["grpc-status", "age", "x-cache", "cf-cache-status", "x-varnish", "x-vercel-cache", "via"];
    (100..400).contains(&facts.status)
        && facts.response.error_code.is_none()
        && facts.response.path.is_empty()
        && !TELLING.iter().any(|name| facts.has(name))
        && !facts.has("x-envoy-attempt-count")
        && !facts.has("x-amzn-waf-action")
        // `"error"`, `"errors"`, `"error_message"`: some APIs refuse with 200.
        && !facts.says("\"error")
}

/// A verdict without evidence.
fn plain(facts: &Facts<'_>, responder: Responder, chance: f64, reached: Tri) -> Verdict {
    let response = facts.response;
    let reading = retry_after::read(&response.headers, response.observed_at);
    let answer = Answer {
        responder,
        chance,
        stopped_at: None,
        hops: facts.response.path.clone(),
        conflicts: Vec::new(),
    };
    let mut verdict = compose(facts, &Sheet::default(), &reading, answer);
    verdict.reached_origin = reached;
    verdict.collect_next = None;
    verdict
}

/// The product that replaces `Server` on whatever it relays, where `Server` names one: it stands
/// outside of every other hop that runs next to it.
fn outermost(facts: &Facts<'_>) -> Option<Responder> {
    const REPLACERS: [(&str, Responder); 7] = [
        ("cloudflare", Responder::Cloudflare),
        ("nginx", Responder::Nginx),
        ("openresty", Responder::Nginx),
        ("tengine", Responder::Nginx),
        ("envoy", Responder::Envoy),
        ("istio-envoy", Responder::Envoy),
        ("ats", Responder::Trafficserver),
    ];
    REPLACERS.iter().find(|(name, _)| facts.server_is(name)).map(|(_, who)| *who)
}

/// The layer that the client's own instrumentation claims weighs as a hint for every product of
/// that layer which is on the path, and never brings one into play.
fn claimed_layer(facts: &Facts<'_>, sheet: &mut Sheet) {
    use super::claim::Rule;
    static CL_1: Rule = Rule { id: "CL-1", source: "docs/signatures.md#client-claim" };
    let Some(layer) = facts.response.claimed_layer else { return };
    let mut products: Vec<Responder> = sheet
        .claims
        .iter()
        .filter(|c| c.says != Says::Limit && c.about.layer() == layer)
        .map(|c| c.about)
        .collect();
    if layer == super::Layer::Origin {
        products.push(Responder::Origin);
    }
    products.sort_unstable();
    products.dedup();
    for product in products {
        let seen = format!("the client says that the {layer} answered");
        sheet.add(Claim::at(&CL_1, product, super::Weight::Weak, seen));
    }
}

/// Whether the origin saw the request: it follows from who answered, unless a claim says
/// otherwise; where nobody is named, the claims are weighed against each other.
fn reached_origin(sheet: &Sheet, answer: &Answer) -> Tri {
    match answer.responder {
        Responder::Origin => Tri::Yes,
        Responder::Unknown => {
            let about = |says: Says| sheet.claims.iter().filter(move |c| c.says == says);
            let yes = about(Says::Behind)
                .chain(about(Says::At).filter(|c| c.about == Responder::Origin))
                .chain(about(Says::At).filter(|c| c.reached == Some(Tri::Yes)));
            let no = about(Says::At)
                .filter(|c| c.about != Responder::Origin && c.reached != Some(Tri::Yes));
            let (yes, no) = (walk::ratio(yes), walk::ratio(no));
            match (walk::from_even(yes, no), walk::from_even(no, yes)) {
                (chance, _) if chance >= 0.5 => Tri::Yes,
                (_, chance) if chance >= 0.5 => Tri::No,
                _ => Tri::Unknown,
            }
        }
        winner => {
            let told = sheet
                .claims
                .iter()
                .filter(|c| c.about == winner && c.says == Says::At)
                .filter_map(|c| c.reached.map(|reached| (c.weight, reached)))
                .min_by_key(|(weight, _)| *weight);
            told.map_or(Tri::No, |(_, reached)| reached)
        }
    }
}

fn compose(facts: &Facts<'_>, sheet: &Sheet, reading: &Reading, answer: Answer) -> Verdict {
    let limit = limits::decide(facts.status, sheet, &answer);
    let outcome = walk::certainty(answer.responder, answer.chance);
    let reached = reached_origin(sheet, &answer);
    let (evidence, against) = sides(sheet, &answer);
    let open = matches!(outcome, Certainty::Unknown | Certainty::Likely);
    let ask_about = answer.stopped_at.or_else(|| {
        if answer.responder == Responder::Origin {
            answer.hops.last().copied()
        } else if answer.responder == Responder::Unknown {
            None
        } else {
            Some(answer.responder)
        }
    });
    Verdict {
        returned_by: answer.responder,
        layer: answer.responder.layer(),
        confidence: answer.chance,
        outcome,
        limited: limit.refused,
        limit_type: limit.kind,
        limit_type_confidence: limit.chance,
        limit_unit: if limit.refused { limit.unit } else { LimitUnit::Unknown },
        reached_origin: reached,
        provider: provider(facts, sheet),
        cached_of: limit.cached_of.filter(|kind| *kind != LimitType::Unknown),
        retry_after_seconds: reading.strict_delay.map(Millis::as_secs_f64),
        retry_after_remaining_seconds: reading.remaining.map(Millis::as_secs_f64),
        retry_after_lenient_seconds: reading.lenient_delay.map(Millis::as_secs_f64),
        retry_after_flags: reading.flags.iter().map(|flag| flag.as_str().to_owned()).collect(),
        evidence,
        against,
        conflicts: answer.conflicts,
        hops: answer.hops,
        collect_next: open.then(|| collect::next(ask_about)),
        hidden_retries: sheet.claims.iter().find_map(|c| c.retries),
    }
}

/// Evidence for the answer and against it, strongest first; ties go by rule, so that the order of
/// header fields changes nothing.
fn sides(sheet: &Sheet, answer: &Answer) -> (Vec<Evidence>, Vec<Evidence>) {
    let place = |who: Responder| answer.hops.iter().position(|hop| *hop == who);
    let winner = answer.responder;
    let speaks_for = |claim: &Claim| match claim.says {
        Says::OnPath | Says::Limit => true,
        Says::At => claim.about == winner,
        Says::Behind => match winner {
            Responder::Origin => true,
            Responder::Unknown => false,
            _ => place(claim.about) < place(winner),
        },
    };
    let mut claims: Vec<&Claim> = sheet.claims.iter().collect();
    claims.sort_by(|a, b| {
        (a.weight, a.rule.id, &a.observed).cmp(&(b.weight, b.rule.id, &b.observed))
    });
    claims.dedup_by(|a, b| a.rule == b.rule && a.observed == b.observed && a.about == b.about);
    let (pro, contra): (Vec<&Claim>, Vec<&Claim>) =
        claims.into_iter().partition(|claim| winner == Responder::Unknown || speaks_for(claim));
    let shown = |claims: Vec<&Claim>| claims.into_iter().map(Claim::evidence).collect();
    (shown(pro), shown(contra))
}

/// The owner of the API: as a claim tells, else as the sender says.
fn provider(facts: &Facts<'_>, sheet: &Sheet) -> Option<String> {
    let claimed = sheet.claims.iter().filter(|c| c.provider.is_some()).min_by_key(|c| c.weight);
    claimed
        .and_then(|c| c.provider.map(ToOwned::to_owned))
        .or_else(|| facts.response.provider.clone())
}
