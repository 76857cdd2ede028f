//! Puts the answers together: evidence for and against, limit, waits and what to collect next.

use super::claim::{Claim, Rule, Sheet};
use super::facts::Facts;
use super::limits::Limit;
use super::walk::{self, Answer};
use super::{
    Certainty, CollectNext, Evidence, Layer, LimitType, LimitUnit, Responder, Says, Tri, Verdict,
    Weight, collect, limits, logged, registry, unnamed,
};
use crate::domain::response::Response;
use crate::domain::retry_after::{self, Reading};
use crate::domain::stored::VerdictSummary;
use crate::domain::time::Millis;

/// Says who wrote `response`, which kind of limit it was, and why.
pub fn classify(response: &Response) -> Verdict {
    let facts = Facts::of(response);
    decide(&facts).verdict(&facts)
}

/// The part of a verdict that is stored beside an attempt, without putting the why into words.
pub fn summarize(response: &Response) -> VerdictSummary {
    decide(&Facts::of(response)).summary()
}

/// Everything that is decided about a response, before any of it is put into words.
struct Decision {
    sheet: Sheet,
    reading: Reading,
    answer: Answer,
    limit: Limit,
    reached: Tri,
    /// Nothing that could be collected would tell more.
    is_settled: bool,
}

fn decide(facts: &Facts<'_>) -> Decision {
    let response = facts.response;
    let reading = retry_after::read(&response.headers, response.observed_at);
    let by_caller = response.claimed_layer == Some(Layer::Client);
    match response.status {
        None if by_caller => Decision::settled(facts, reading, refused_by_the_caller(), CALLER),
        None if response.logs.is_empty() => {
            Decision::settled(facts, reading, Sheet::default(), NOBODY)
        }
        Some(_) if is_plain_success(facts) => {
            Decision::settled(facts, reading, Sheet::default(), SERVED)
        }
        _ => weigh(facts, reading),
    }
}

/// Lets every signature look, and weighs what they claim.
fn weigh(facts: &Facts<'_>, reading: Reading) -> Decision {
    let response = facts.response;
    let mut sheet = Sheet { is_extract: !response.headers_complete, ..Sheet::default() };
    for signature in registry::all() {
        (signature.look)(facts, &mut sheet);
    }
    sheet.heed_signed_body();
    limits::long_wait(facts, &reading, &mut sheet);
    claimed_layer(facts, &mut sheet);
    let outermost = outermost(facts);
    let proven = logged::weigh(facts, outermost, &mut sheet);
    let by_log = proven.as_ref().and_then(|proven| proven.answer.clone());
    let answer = by_log.unwrap_or_else(|| walk::walk(&sheet, outermost, &response.path));
    let limit = limits::decide(facts.status, &sheet, &answer);
    let reached =
        proven.and_then(|proven| proven.reached).unwrap_or_else(|| reached_origin(&sheet, &answer));
    Decision { sheet, reading, answer, limit, reached, is_settled: false }
}

/// An answer that takes no weighing: who, with which chance, and whether the origin was reached.
type Settled = (Responder, f64, Tri);

/// The caller's own breaker or limiter held the request back, as only the caller can say, and it
/// is right about it; it is no server's limit.
const CALLER: Settled = (Responder::Client, 0.98, Tri::No);
/// There was no response.
const NOBODY: Settled = (Responder::Unknown, 0.0, Tri::Unknown);
/// The chance that the application answered where a response is an ordinary success and no cache
/// speaks up.
const SERVED: Settled = (Responder::Origin, 0.7, Tri::Yes);

/// An answer that was served, with nothing in it that a cache or a limiter writes: by far the most
/// common response, so it is settled first.
fn is_plain_success(facts: &Facts<'_>) -> bool {
    const TELLING: [&str; 7] =
        ["grpc-status", "age", "x-cache", "cf-cache-status", "x-varnish", "x-vercel-cache", "via"];
    (100..400).contains(&facts.status)
        && facts.response.error_code.is_none()
        && facts.response.path.is_empty()
        && facts.response.logs.is_empty()
        && !TELLING.iter().any(|name| facts.has(name))
        && !facts.has("x-envoy-attempt-count")
        && !facts.has("x-amzn-waf-action")
        && !(facts.body.len() < 1000
            && facts.body.starts_with('{')
            && (facts.says("rate limit") || facts.says("too many requests")))
        // `"error"`, `"errors"`, `"error_message"`: some APIs refuse with 200.
        && !facts.says("\"error")
        && !unnamed::is_block_page(facts)
}

/// What speaks for the caller's own breaker where nothing was sent.
fn refused_by_the_caller() -> Sheet {
    let seen = "the caller's own breaker or limiter";
    let claim = Claim::at(&CL_2, Responder::Client, Weight::Strong, seen);
    Sheet { claims: vec![claim], ..Sheet::default() }
}

static CL_1: Rule = Rule::new("CL-1", "docs/signatures.md#client-claim");
static CL_2: Rule = Rule::new("CL-2", "docs/signatures.md#client-claim");

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
/// that layer which is on the path, and never brings one into play: where none is seen, it speaks
/// only against an application that nothing else speaks for.
fn claimed_layer(facts: &Facts<'_>, sheet: &mut Sheet) {
    let Some(layer) = facts.response.claimed_layer else { return };
    let mut products: Vec<Responder> = sheet
        .claims
        .iter()
        .filter(|c| c.says != Says::Limit && c.about.layer() == layer)
        .map(|c| c.about)
        .collect();
    if layer == Layer::Origin {
        products.push(Responder::Origin);
    }
    products.sort_unstable();
    products.dedup();
    if products.is_empty() && layer != Layer::Unknown {
        sheet.claimed = Some(layer);
    }
    for product in products {
        sheet.add(Claim::at(&CL_1, product, Weight::Weak, client_says(layer)));
    }
}

fn client_says(layer: Layer) -> String {
    match layer {
        Layer::Client => "the client says that it held the request back itself".to_owned(),
        _ => format!("the client says that the {layer} answered"),
    }
}

/// Shows a claimed layer of which no product is seen, and says where the verdict contradicts it.
fn show_claim(facts: &Facts<'_>, sheet: &Sheet, verdict: &mut Verdict) {
    let Some(layer) = facts.response.claimed_layer.filter(|layer| *layer != Layer::Unknown) else {
        return;
    };
    let agrees = matches!(verdict.layer, Layer::Unknown) || verdict.layer == layer;
    if sheet.claimed.is_some() {
        let claim = Claim::at(&CL_1, Responder::Unknown, Weight::Weak, client_says(layer));
        if agrees { &mut verdict.evidence } else { &mut verdict.against }.push(claim.evidence());
    }
    if !agrees {
        verdict.conflicts.push(format!(
            "{}, what was seen names the layer {}",
            client_says(layer),
            verdict.layer
        ));
    }
}

/// Whether the origin saw the request: it follows from who answered, unless a claim says
/// otherwise; where nobody is named, the claims are weighed against each other.
fn reached_origin(sheet: &Sheet, answer: &Answer) -> Tri {
    match answer.responder {
        // A provider's own front may refuse before the service that was asked.
        Responder::Origin => {
            let is_front = sheet.claims.iter().any(|c| {
                c.about == Responder::Origin && c.says == Says::At && c.reached == Some(Tri::No)
            });
            if is_front { Tri::No } else { Tri::Yes }
        }
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

impl Decision {
    fn settled(facts: &Facts<'_>, reading: Reading, sheet: Sheet, settled: Settled) -> Self {
        let (responder, chance, reached) = settled;
        let answer = Answer {
            responder,
            chance,
            stopped_at: None,
            hops: facts.response.path.clone(),
            conflicts: Vec::new(),
        };
        let limit = limits::decide(facts.status, &sheet, &answer);
        Self { sheet, reading, answer, limit, reached, is_settled: true }
    }

    fn outcome(&self) -> Certainty {
        walk::certainty(self.answer.responder, self.answer.chance)
    }

    fn summary(&self) -> VerdictSummary {
        let Self { reading, answer, limit, .. } = self;
        VerdictSummary {
            returned_by: answer.responder,
            layer: answer.responder.layer(),
            outcome: self.outcome(),
            confidence: answer.chance,
            limited: limit.refused,
            limit_type: limit.kind,
            reached_origin: self.reached,
            promised_ms: reading.remaining.map(|wait| wait.0),
            promised_by_date: reading.by_date,
            clock_skew_ms: reading.clock_skew.map(|skew| skew.0),
        }
    }

    /// The whole verdict, with its evidence in words.
    fn verdict(self, facts: &Facts<'_>) -> Verdict {
        let outcome = self.outcome();
        let open = matches!(outcome, Certainty::Unknown | Certainty::Likely) && !self.is_settled;
        let next = open.then(|| self.next());
        let Self { sheet, reading, answer, limit, reached, .. } = self;
        let (mut evidence, against) = sides(&sheet, &answer);
        evidence.extend(sheet.not_a_limit.clone());
        let mut verdict = Verdict {
            returned_by: answer.responder,
            layer: answer.responder.layer(),
            confidence: answer.chance,
            outcome,
            limited: limit.refused,
            limit_type: limit.kind,
            limit_type_confidence: limit.chance,
            limit_unit: if limit.refused { limit.unit } else { LimitUnit::Unknown },
            reached_origin: reached,
            provider: provider(facts, &sheet),
            cached_of: limit.cached_of.filter(|kind| *kind != LimitType::Unknown),
            retry_after_seconds: reading.strict_delay.map(Millis::as_secs_f64),
            retry_after_remaining_seconds: reading.remaining.map(Millis::as_secs_f64),
            retry_after_lenient_seconds: reading.lenient_delay.map(Millis::as_secs_f64),
            retry_after_flags: reading.flags.iter().map(|flag| flag.as_str().to_owned()).collect(),
            evidence,
            against,
            conflicts: answer.conflicts,
            hops: answer.hops,
            collect_next: next,
            hidden_retries: sheet.hidden_retries(),
        };
        show_claim(facts, &sheet, &mut verdict);
        verdict
    }

    /// What to collect where the verdict is open.
    fn next(&self) -> CollectNext {
        if self.sheet.is_extract && !self.sheet.attributes() {
            return collect::head();
        }
        let answer = &self.answer;
        collect::next(answer.stopped_at.or(match answer.responder {
            Responder::Origin => answer.hops.last().copied(),
            Responder::Unknown => None,
            responder => Some(responder),
        }))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::response::HeaderFields;
    use proptest::prelude::*;

    fn response(status: u16, fields: &[(&str, &str)], body: &str) -> Response {
        Response {
            status: Some(status),
            headers: fields.iter().copied().collect(),
            headers_complete: true,
            body: Some(body.to_owned()),
            body_complete: true,
            ..Response::default()
        }
    }

    #[test]
    fn an_open_breaker_of_the_caller_is_no_servers_limit() {
        let open =
            Response { claimed_layer: Some(Layer::Client), status: None, ..Response::default() };
        let verdict = classify(&open);
        assert_eq!(verdict.returned_by, Responder::Client);
        assert_eq!((verdict.layer, verdict.reached_origin), (Layer::Client, Tri::No));
        assert!(!verdict.limited);
    }

    type Vector<'a> = (u16, &'a [(&'a str, &'a str)], &'a str, Responder, LimitType, Tri);

    #[test]
    fn worked_vectors_of_the_reference_hold() {
        let cf = ("server", "cloudflare");
        let ray = ("cf-ray", "8aa0b1c2d3e4f567-FRA");
        let json = ("content-type", "application/json");
        let own = r#"{"error":{"kind":"busy"},"trace":"0a1b"}"#;
        let table: &[Vector<'_>] = &[
            (
                429,
                &[cf, ray, ("cf-cache-status", "DYNAMIC"), ("server-timing", "cfOrigin;dur=149")],
                own,
                Responder::Origin,
                LimitType::Rate,
                Tri::Yes,
            ),
            (
                429,
                &[cf, ray, ("retry-after", "30")],
                "error code: 1015",
                Responder::Cloudflare,
                LimitType::Rate,
                Tri::No,
            ),
            (
                429,
                &[cf, ("cf-mitigated", "challenge")],
                "<html>",
                Responder::Cloudflare,
                LimitType::Security,
                Tri::No,
            ),
            (
                429,
                &[cf, ray, ("cf-cache-status", "HIT"), ("age", "21909"), ("retry-after", "60")],
                own,
                Responder::Cloudflare,
                LimitType::Cached,
                Tri::No,
            ),
            (
                429,
                &[
                    json,
                    ("x-amzn-requestid", "0f0e0d0c"),
                    ("x-amz-apigw-id", "Abc="),
                    ("x-amzn-errortype", "LimitExceededException"),
                ],
                r#"{"message":"Limit Exceeded"}"#,
                Responder::AwsApiGateway,
                LimitType::Quota,
                Tri::No,
            ),
            (
                429,
                &[json, ("x-amzn-requestid", "0f0e0d0c"), ("x-amz-apigw-id", "Abc=")],
                own,
                Responder::Origin,
                LimitType::Rate,
                Tri::Yes,
            ),
            (
                429,
                &[("server", "envoy"), ("x-envoy-upstream-service-time", "1")],
                "local_rate_limited",
                Responder::Envoy,
                LimitType::Rate,
                Tri::No,
            ),
            (
                503,
                &[cf, ray, ("cf-cache-status", "DYNAMIC"), ("content-type", "text/html")],
                "<html>\n<head><title>503 Service Temporarily Unavailable</title></head>\n<body>\n\
                 <center><h1>503</h1></center>\n<hr><center>nginx/1.22.1</center>\n</body></html>",
                Responder::Nginx,
                LimitType::Unknown,
                Tri::No,
            ),
        ];
        for (status, fields, body, who, limit, reached) in table {
            let verdict = classify(&response(*status, fields, body));
            assert_eq!(verdict.returned_by, *who, "{fields:?} {verdict:?}");
            assert_eq!(verdict.limit_type, *limit, "{fields:?}");
            assert_eq!(verdict.reached_origin, *reached, "{fields:?}");
        }
    }

    #[test]
    fn the_flag_of_envoys_limiter_proves_no_more_than_the_answer_looks_like_envoys_own() {
        let flag = ("x-envoy-ratelimited", "true");
        let json = ("content-type", "application/json");
        let own: [&[(&str, &str)]; 2] =
            [&[flag], &[flag, ("server", "envoy"), ("content-length", "0")]];
        for fields in own {
            let verdict = classify(&response(429, fields, ""));
            assert_eq!(verdict.returned_by, Responder::Envoy, "{fields:?}");
            assert_eq!(verdict.outcome, Certainty::Certain, "{fields:?}");
            assert_eq!(verdict.reached_origin, Tri::No, "{fields:?}");
        }
        // An origin sends it too.
        let doubtful: [&[(&str, &str)]; 5] = [
            &[flag, ("server", "nginx"), json],
            &[flag, ("server", "envoy"), json],
            &[flag, ("server", "envoy"), ("content-type", "text/plain"), ("content-length", "18")],
            &[flag, ("server", "nginx"), ("content-type", "text/plain"), ("content-length", "18")],
            &[flag, ("x-envoy-upstream-service-time", "3"), json],
        ];
        for fields in doubtful {
            let verdict = classify(&response(429, fields, ""));
            assert!(verdict.confidence < 0.8, "{fields:?} {verdict:#?}");
            assert_ne!(verdict.reached_origin, Tri::No, "{fields:?} {verdict:#?}");
        }
    }

    #[test]
    fn two_servers_in_a_chain_are_not_the_two_ids_of_a_hit_of_varnish() {
        let judged = |ids: &str| {
            classify(&response(
                429,
                &[("x-varnish", ids), ("via", "1.1 varnish"), ("age", "0")],
                "",
            ))
        };
        for hit in ["5 2", "7, 5 2", "5 2, 7"] {
            assert_eq!(judged(hit).limit_type, LimitType::Cached, "{hit}");
        }
        for chain in ["2, 2", "2,2", "2", "2, 5, 7"] {
            assert_ne!(judged(chain).limit_type, LimitType::Cached, "{chain}");
            assert_ne!(judged(chain).returned_by, Responder::Varnish, "{chain}");
        }
    }

    #[test]
    fn a_wait_is_what_was_left_when_a_stored_refusal_arrived() {
        let verdict = classify(&response(
            429,
            &[
                ("cf-cache-status", "HIT"),
                ("server", "cloudflare"),
                ("age", "90"),
                ("retry-after", "60"),
            ],
            "",
        ));
        assert_eq!(verdict.retry_after_seconds, Some(60.0));
        assert_eq!(verdict.retry_after_remaining_seconds, Some(0.0));
    }

    #[test]
    fn presence_on_the_path_is_no_proof() {
        for field in [
            ("server", "cloudflare"),
            ("server", "nginx"),
            ("server", "envoy"),
            ("x-cache", "Error from cloudfront"),
            ("x-amzn-requestid", "0f0e0d0c"),
            ("x-azure-ref", "0abc"),
            ("x-vercel-id", "fra1::0abc"),
            ("via", "1.1 google"),
        ] {
            let mut part = response(429, &[field, ("date", "Wed, 11 Nov 2026 07:29:00 GMT")], "");
            part.headers_complete = false;
            let verdict = classify(&part);
            assert!(verdict.confidence < 0.8, "{field:?}: {verdict:?}");
        }
    }

    #[test]
    fn a_response_without_status_is_judged_unknown() {
        let verdict = classify(&Response::default());
        assert_eq!(verdict.returned_by, Responder::Unknown);
        assert!(!verdict.limited);
    }

    #[test]
    fn a_clients_claim_adds_to_what_is_seen_and_brings_nobody_into_play() {
        let mut claimed = response(429, &[("server", "Caddy")], "{\"a\":1,\"b\":2}");
        claimed.claimed_layer = Some(Layer::Edge);
        let verdict = classify(&claimed);
        assert_eq!(verdict.hops, [Responder::Caddy], "{verdict:?}");
        assert!(verdict.evidence.iter().any(|e| e.rule == "CL-1"), "{verdict:?}");
        claimed.claimed_layer = Some(Layer::Proxy);
        let verdict = classify(&claimed);
        let all = verdict.evidence.iter().chain(&verdict.against);
        assert!(all.map(|e| e.rule.as_str()).any(|rule| rule == "CL-1"), "{verdict:?}");
    }

    /// A 429 as a client's event hands it over: some of its fields, no body.
    fn event(fields: &[(&str, &str)], claimed: Option<Layer>, ray_id: Option<&str>) -> Response {
        Response {
            status: Some(429),
            headers: fields.iter().copied().collect(),
            claimed_layer: claimed,
            ray_id: ray_id.map(ToOwned::to_owned),
            ..Response::default()
        }
    }

    #[test]
    fn an_event_without_captured_headers_is_not_called_the_origins() {
        let waits = [("retry-after", "30"), ("date", "Wed, 11 Nov 2026 07:29:00 GMT")];
        for fields in [&[][..], &waits] {
            for claimed in [None, Some(Layer::Edge), Some(Layer::Client), Some(Layer::Origin)] {
                let verdict = classify(&event(fields, claimed, None));
                assert_eq!(verdict.returned_by, Responder::Unknown, "{claimed:?} {verdict:?}");
                assert!(verdict.confidence < 0.5, "{claimed:?} {verdict:?}");
                assert_eq!(verdict.reached_origin, Tri::Unknown, "{claimed:?} {verdict:?}");
                assert_eq!(verdict.limit_type, LimitType::Rate);
                assert!(verdict.limit_type_confidence <= 0.6, "{verdict:?}");
                let listed = verdict.evidence.iter().filter(|e| e.rule == "CL-1").count();
                assert_eq!(listed, usize::from(claimed.is_some()), "{verdict:?}");
                let next = verdict.collect_next.unwrap();
                assert!(next.datum.contains("response headers (server, date, via, cf-ray"));
                assert!(next.datum.contains("first 2 KiB of the body"));
            }
        }
    }

    #[test]
    fn a_ray_id_alone_puts_cloudflare_on_the_path_and_names_nobody() {
        for claimed in [None, Some(Layer::Edge), Some(Layer::Origin)] {
            let verdict = classify(&event(&[], claimed, Some("8aa0b1c2d3e4f567-FRA")));
            assert_eq!(verdict.hops, [Responder::Cloudflare], "{verdict:?}");
            assert_eq!(verdict.returned_by, Responder::Unknown, "{verdict:?}");
            assert_eq!(verdict.reached_origin, Tri::Unknown, "{verdict:?}");
            let next = verdict.collect_next.unwrap();
            assert!(next.datum.contains("response headers"), "{next:?}");
        }
        for other in ["8aa0b1c2d3e4f567", "not-a-ray", "8aa0b1c2d3e4f56\u{e9}-FRA"] {
            assert!(classify(&event(&[], None, Some(other))).hops.is_empty(), "{other}");
        }
    }

    #[test]
    fn a_claim_that_what_was_seen_contradicts_is_listed_against_it() {
        let mut page = response(429, &[("server", "cloudflare")], "error code: 1015");
        page.claimed_layer = Some(Layer::Client);
        let verdict = classify(&page);
        assert_eq!(verdict.returned_by, Responder::Cloudflare);
        assert!(verdict.against.iter().any(|e| e.rule == "CL-1"), "{verdict:?}");
        assert!(verdict.conflicts.iter().any(|c| c.contains("edge")), "{verdict:?}");
    }

    #[test]
    fn a_bare_but_whole_head_stays_likely_the_origins_unless_the_client_says_otherwise() {
        let mut whole = response(429, &[("date", "Wed, 11 Nov 2026 07:29:00 GMT")], "");
        assert_eq!(classify(&whole).confidence.to_string(), "0.556");
        assert_eq!(classify(&whole).returned_by, Responder::Origin);
        whole.claimed_layer = Some(Layer::Edge);
        assert_eq!(classify(&whole).returned_by, Responder::Unknown);
        whole.claimed_layer = Some(Layer::Origin);
        assert_eq!(classify(&whole).confidence.to_string(), "0.714");
    }

    #[test]
    fn a_wait_that_may_be_milliseconds_or_a_moment_is_no_quota() {
        let kind = |wait: &str| {
            let date = ("date", "Wed, 11 Nov 2026 07:29:00 GMT");
            classify(&event(&[("retry-after", wait), date], None, None)).limit_type
        };
        // Milliseconds, more than a day, seconds and milliseconds since 1970.
        for wait in ["30000", "2592000", "1794400000", "1794400000000"] {
            assert_eq!(kind(wait), LimitType::Rate, "{wait}");
        }
        for wait in ["7200", "36000", "40123"] {
            assert_eq!(kind(wait), LimitType::Quota, "{wait}");
        }
    }

    const NAMES: [&str; 34] = [
        "server",
        "via",
        "date",
        "age",
        "x-cache",
        "x-served-by",
        "content-type",
        "content-length",
        "cache-control",
        "retry-after",
        "x-ratelimit-limit",
        "x-ratelimit-remaining",
        "x-ratelimit-reset",
        "ratelimit",
        "ratelimit-policy",
        "cf-ray",
        "cf-cache-status",
        "cf-mitigated",
        "server-timing",
        "x-amz-apigw-id",
        "x-amzn-errortype",
        "x-amzn-requestid",
        "x-envoy-ratelimited",
        "x-envoy-upstream-service-time",
        "x-kong-response-latency",
        "x-kong-upstream-latency",
        "x-varnish",
        "x-azure-ref",
        "x-retry-in",
        "x-squid-error",
        "x-ratelimit-burst-capacity",
        "x-powered-by",
        "grpc-message",
        "stripe-rate-limited-reason",
    ];
    const VALUES: [&str; 30] = [
        "",
        "0",
        "1",
        "60",
        "cloudflare",
        "nginx/1.24.0",
        "envoy",
        "Varnish",
        "Caddy",
        "Apache/2.4.62",
        "awselb/2.0",
        "application/json",
        "text/html",
        "text/plain",
        "text/html; charset=iso-8859-1",
        "HIT",
        "MISS",
        "DYNAMIC",
        "challenge",
        "true",
        "TooManyRequestsException",
        "1.1 varnish (Varnish/7.1)",
        "1.1 google",
        "1 2",
        "no-cache",
        "http/1.1 a (ApacheTrafficServer/9.2.9 [uSc s f p eN:t c  p s ])",
        "é\u{202e}日本",
        "cfOrigin;dur=12",
        "565.087221ms",
        "global-rate",
    ];
    const BODIES: [&str; 14] = [
        "",
        "local_rate_limited",
        "error code: 1015",
        "{\"message\":\"Too Many Requests\"}",
        "{\"error\":\"rate_limited\"",
        "[1,2,{\"code\":\"quota_exceeded\"}]",
        "Too Many Requests",
        "<hr><center>nginx</center> and a tail that makes it long enough to be looked at here",
        "upstream connect error or disconnect/reset before headers. reset reason: overflow",
        "{\"fault\":{\"detail\":{\"errorcode\":\"policies.ratelimit.QuotaViolation\"}}}",
        "{ \"statusCode\": 429, \"message\": \"Rate limit is exceeded. Try again in 9 seconds.\" }",
        "<h3>Guru Meditation:</h3><p>XID: 7</p>",
        "\u{0}\u{fffd}{\"",
        "<address>é Server at x Port 1</address>",
    ];

    fn any_response() -> impl Strategy<Value = Response> {
        let field = (prop::sample::select(&NAMES[..]), prop::sample::select(&VALUES[..]));
        let status = prop::option::of(prop::sample::select(
            &[100_u16, 200, 302, 400, 403, 404, 420, 429, 500, 502, 503, 504, 509, 520, 529, 999][..],
        ));
        (
            status,
            prop::collection::vec(field, 0..9),
            prop::sample::select(&BODIES[..]),
            any::<bool>(),
            any::<bool>(),
        )
            .prop_map(|(status, fields, body, headers_complete, body_complete)| {
                let mut headers = HeaderFields::new();
                for (name, value) in fields {
                    if !headers.has(name) {
                        headers.push(name, value);
                    }
                }
                Response {
                    status,
                    headers,
                    headers_complete,
                    body: (!body.is_empty()).then(|| body.to_owned()),
                    body_complete,
                    ..Response::default()
                }
            })
    }

    /// The summary as it follows from the whole verdict.
    fn of_verdict(response: &Response) -> VerdictSummary {
        let verdict = classify(response);
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

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn a_verdict_keeps_its_promises(response in any_response()) {
            let verdict = classify(&response);
            let confidence = verdict.confidence;
            prop_assert!((0.0..=1.0).contains(&confidence));
            prop_assert!(!(0.79 < confidence && confidence < 0.90), "{confidence}");
            prop_assert_eq!(verdict.layer, verdict.returned_by.layer());
            let strongest = verdict.evidence.iter().map(|e| e.weight).min();
            match verdict.outcome {
                Certainty::Certain => prop_assert_eq!(strongest, Some(Weight::Proof)),
                Certainty::Confident => {
                    prop_assert!(matches!(strongest, Some(Weight::Proof | Weight::Strong)));
                }
                Certainty::Likely => prop_assert!((0.5..=0.79).contains(&confidence)),
                Certainty::Unknown => {
                    prop_assert_eq!(verdict.returned_by, Responder::Unknown);
                    prop_assert!(confidence < 0.5);
                }
            }
            prop_assert!((0.0..=1.0).contains(&verdict.limit_type_confidence));
            prop_assert!(response.status != Some(429) || verdict.limited);
            prop_assert!(verdict.limited || verdict.limit_type == LimitType::Unknown);
        }

        #[test]
        fn a_summary_says_what_the_verdict_says(response in any_response()) {
            prop_assert_eq!(summarize(&response), of_verdict(&response));
        }

        #[test]
        fn the_order_of_header_fields_changes_nothing(response in any_response()) {
            let mut turned = response.clone();
            let mut fields: Vec<(String, String)> =
                response.headers.iter().map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
            fields.reverse();
            turned.headers = fields.into_iter().collect();
            prop_assert_eq!(classify(&turned), classify(&response));
        }

        #[test]
        fn no_text_makes_it_panic(name in "[a-z-]{1,20}", value in "\\PC{0,60}", body in "\\PC{0,200}") {
            let text = response(429, &[(&name, &value), ("server", &value)], &body);
            prop_assert!(classify(&text).limited);
        }
    }
}
