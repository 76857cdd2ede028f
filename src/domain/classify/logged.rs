//! What access logs and the origin's own record prove. A proof from a log beats what the response
//! shows: any header can be copied, and gateways replace `Server` on what they relay (DESIGN 14).

use super::claim::{Claim, Rule, Sheet};
use super::facts::Facts;
use super::walk::{self, Answer};
use super::{LimitType, Responder, Says, Tri, Weight};
use crate::domain::access_log::{self, Conclusion, Finding, OriginRecord, Step, Told};

static LG_OR_1: Rule = Rule::new("LG-OR-1", "docs/access-logs.md#the-origins-own-record");
static LG_OR_2: Rule = Rule::new("LG-OR-2", "docs/access-logs.md#the-origins-own-record");

/// The chance that a proof by log is right.
const PROVEN: f64 = 0.995;
/// The chance that a gateway which passed on an answer, and whose origin has not seen the request,
/// is itself to be named: it asked another service, or a hop behind it keeps no log.
const BETWEEN: f64 = 0.6;

/// What follows from logs.
pub(super) struct Proven {
    /// Who answered, where the logs settle it.
    pub(super) answer: Option<Answer>,
    /// Whether the origin saw the request, where the logs tell.
    pub(super) reached: Option<Tri>,
}

/// Writes down what the logs say and takes back what they refute; `None` without logs.
pub(super) fn weigh(
    facts: &Facts<'_>,
    outermost: Option<Responder>,
    sheet: &mut Sheet,
) -> Option<Proven> {
    let logs = &facts.response.logs;
    if logs.is_empty() {
        return None;
    }
    let trail = access_log::conclude(logs, facts.status);
    for misfit in &trail.misfits {
        sheet.conflict(misfit.clone());
    }
    if !trail.steps.is_empty() {
        sheet.is_logged = true;
        sheet.logged_retries = trail.retries;
    }
    let case = Case { facts, outermost, trail: &trail, origin: logs.origin.as_ref() };
    let answer = case.answer(sheet);
    Some(Proven { answer, reached: case.reached() })
}

struct Case<'a, 'r> {
    facts: &'a Facts<'r>,
    outermost: Option<Responder>,
    trail: &'a Conclusion,
    origin: Option<&'a OriginRecord>,
}

impl Case<'_, '_> {
    fn answer(&self, sheet: &mut Sheet) -> Option<Answer> {
        let last = self.trail.last();
        if let Some(Step { product, finding }) = last
            && finding.told == Told::Itself
            && !(finding.is_replaced && self.origin.is_some_and(OriginRecord::has_answered))
        {
            let is_proof = finding.weight == Weight::Proof;
            let answer = is_proof.then(|| {
                self.take_back(sheet, |claim| match claim.says {
                    Says::At => claim.about != *product,
                    Says::Behind => claim.about == *product,
                    _ => false,
                });
                self.write_down(sheet);
                self.proven(sheet, *product)
            });
            if answer.is_none() {
                self.write_down(sheet);
            }
            return answer;
        }
        // Every logged hop passed on what came from further in, if it was logged at all.
        let logged = |product| self.trail.steps.iter().any(|step| step.product == product);
        // A hop that replaced the origin's answer, by the record of both.
        let is_known = |f: &Finding| f.weight == Weight::Proof || f.is_replaced;
        let is_proof = self.trail.steps.iter().all(|step| is_known(&step.finding));
        if is_proof {
            self.take_back(sheet, |claim| claim.says == Says::At && logged(claim.about));
        }
        self.write_down(sheet);
        let origin = self.origin?;
        let delivered =
            last.and_then(|step| step.finding.upstream_status).unwrap_or(self.facts.status);
        let is_replaced = last.is_some_and(|step| step.finding.is_replaced);
        let is_its_answer = origin.answered(delivered) || (is_replaced && origin.has_answered());
        if is_its_answer && !is_proof {
            return self.likely_its_answer(sheet, delivered);
        }
        if is_its_answer {
            self.take_back(sheet, |claim| {
                claim.says == Says::At && claim.about != Responder::Origin
            });
            let seen = format!("the origin's own record: it answered {delivered}");
            sheet.add(Claim::at(&LG_OR_1, Responder::Origin, Weight::Proof, seen));
            return Some(self.proven(sheet, Responder::Origin));
        }
        if origin.saw && origin.statuses.is_empty() {
            let seen = "the origin's own record: it saw the request";
            sheet.add(Claim::at(&LG_OR_1, Responder::Origin, Weight::Strong, seen));
            return None;
        }
        // What the origin answered, if anything, is not what was delivered.
        self.take_back(sheet, |claim| claim.says == Says::At && claim.about == Responder::Origin);
        let answer = walk::walk(sheet, self.outermost, &self.facts.response.path);
        if answer.responder != Responder::Origin {
            return Some(answer);
        }
        let seen = if origin.saw {
            format!("the origin's own record: it did not answer {delivered}")
        } else {
            "the origin's own record: it has not seen the request".to_owned()
        };
        let about = last.map_or(Responder::Unknown, |step| step.product);
        sheet.add(Claim::at(&LG_OR_2, about, Weight::Medium, seen));
        let responder = if origin.saw { Responder::Unknown } else { about };
        let chance = if responder == Responder::Unknown { 0.0 } else { BETWEEN };
        Some(Answer { responder, chance, stopped_at: last.map(|step| step.product), ..answer })
    }

    /// The hop's line leaves open whether it passed the origin's answer on. What the response shows
    /// of the hop itself decides.
    fn likely_its_answer(&self, sheet: &mut Sheet, delivered: u16) -> Option<Answer> {
        let is_hops = |claim: &Claim| {
            claim.says == Says::At
                && claim.weight.is_strong()
                && self.trail.steps.iter().any(|step| step.product == claim.about)
        };
        if sheet.claims.iter().any(is_hops) {
            self.take_back(sheet, |c| c.says == Says::At && c.about == Responder::Origin);
        } else {
            let seen = format!("the origin's own record: it answered {delivered}");
            sheet.add(Claim::at(&LG_OR_1, Responder::Origin, Weight::Strong, seen));
        }
        None
    }

    /// The answer that the logs prove, with the path as they and the response show it.
    fn proven(&self, sheet: &Sheet, responder: Responder) -> Answer {
        let mut declared: Vec<Responder> = Vec::new();
        let logged = self.trail.steps.iter().map(|step| step.product);
        for hop in self.facts.response.path.iter().copied().chain(logged) {
            if !declared.contains(&hop) {
                declared.push(hop);
            }
        }
        let walked = walk::walk(sheet, self.outermost, &declared);
        let conflicts = sheet.conflicts.clone();
        Answer { responder, chance: PROVEN, stopped_at: None, hops: walked.hops, conflicts }
    }

    /// Adds what each line says.
    fn write_down(&self, sheet: &mut Sheet) {
        for Step { product, finding } in &self.trail.steps {
            if finding.is_no_limit {
                let seen = finding.observed.clone();
                let claim = Claim::of_limit(finding.rule, LimitType::Unknown, 0.0, seen);
                sheet.not_a_limit = Some(claim.evidence());
            }
            sheet.add(claim(*product, finding));
        }
        self.stored_by_apache(sheet);
    }

    /// Apache's log shows no proxy fields for an answer out of its cache; the response has `Age`.
    fn stored_by_apache(&self, sheet: &mut Sheet) {
        if let Some(Step { product: Responder::Apache, finding }) = self.trail.last()
            && finding.told == Told::Itself
            && finding.contacted == Tri::No
            && finding.limit.is_none()
            && self.facts.age().is_some()
        {
            let seen = format!("{}, {}", finding.observed, self.facts.quote("age"));
            let stored = Claim::at(finding.rule, Responder::Apache, Weight::Proof, seen);
            sheet.add(stored.limit(LimitType::Cached, 0.95));
        }
    }

    /// Takes back what the response seemed to show, and says so where it was strong.
    fn take_back(&self, sheet: &mut Sheet, is_refuted: impl Fn(&Claim) -> bool) {
        let taken: Vec<Claim> = sheet.claims.extract_if(.., |claim| is_refuted(claim)).collect();
        for claim in taken.iter().filter(|claim| claim.weight.is_strong()) {
            let says = match claim.says {
                Says::Behind => format!("something behind {} answered", claim.about),
                _ => format!("{} answered", claim.about),
            };
            let log = self.trail.last().map_or("the origin's record", |_| "the access log");
            sheet.conflict(format!(
                "the response looks as if {says} ({}: {}); {log} says otherwise, and stands",
                claim.rule.id, claim.observed
            ));
        }
    }

    /// The origin's own record knows best; else whether the innermost hop passed the request on.
    fn reached(&self) -> Option<Tri> {
        if let Some(origin) = self.origin {
            return Some(if origin.saw { Tri::Yes } else { Tri::No });
        }
        let finding = &self.trail.last()?.finding;
        (finding.told == Told::Itself && finding.weight == Weight::Proof)
            .then_some(finding.contacted)
    }
}

/// Whether a hop's own log says that it answered by itself and names no limit: then a word in its
/// answer is whatever its configuration writes.
pub(super) fn names_no_limit(sheet: &Sheet, responder: Responder) -> bool {
    let own = |c: &&Claim| c.group == GROUP && c.says == Says::At && c.about == responder;
    sheet.claims.iter().filter(own).any(|claim| claim.limit.is_none())
}

/// The group of what access logs say.
const GROUP: &str = "access-log";

/// What one line says, as a claim.
fn claim(product: Responder, finding: &Finding) -> Claim {
    let Finding { rule, weight, observed, .. } = finding;
    let claim = match finding.told {
        Told::Itself => Claim::at(rule, product, *weight, observed.clone()),
        Told::Upstream => Claim::behind(rule, product, *weight, observed.clone()),
    };
    let claim = claim.group(GROUP).reached(finding.contacted);
    match finding.limit {
        Some((kind, chance)) => claim.limit(kind, chance),
        None => claim,
    }
}

#[cfg(test)]
mod tests {
    use crate::domain::access_log::{LogFacts, OriginRecord, Trail};
    use crate::domain::classify::{Certainty, LimitType, Responder, Tri, Verdict, classify};
    use crate::domain::response::Response;
    use std::borrow::Cow;

    fn line(product: Responder, status: u16, fields: &[(&'static str, &str)]) -> LogFacts {
        let fields = fields.iter().map(|(n, v)| (Cow::Borrowed(*n), (*v).to_owned())).collect();
        LogFacts { product, status: Some(status), fields }
    }

    fn verdict(
        status: u16,
        headers: &[(&str, &str)],
        body: &str,
        hops: &[&[LogFacts]],
        origin: Option<OriginRecord>,
    ) -> Verdict {
        let hops = hops.iter().map(|lines| lines.to_vec()).collect();
        classify(&Response {
            status: Some(status),
            headers: headers.iter().copied().collect(),
            headers_complete: true,
            body: Some(body.to_owned()),
            body_complete: true,
            logs: Trail { hops, origin },
            ..Response::default()
        })
    }

    const NGINX_PAGE: &str = "<html>\r\n<head><title>429 Too Many Requests</title></head>\r\n<body>\r\n\
        <center><h1>429 Too Many Requests</h1></center>\r\n<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n";

    fn via_envoy(status: u16) -> LogFacts {
        let attempts = [
            ("code_details", "via_upstream"),
            ("response_flags", "URX"),
            ("upstream_attempts", "3"),
            ("upstream_bytes_received", "551"),
        ];
        line(Responder::Envoy, status, &attempts)
    }

    fn refused_by_nginx(status: u16) -> LogFacts {
        line(Responder::Nginx, status, &[("limit_req_status", "REJECTED"), ("upstream_addr", "")])
    }

    #[test]
    fn a_line_beats_what_the_response_looks_like_and_the_conflict_is_shown() {
        let saw = OriginRecord { saw: true, statuses: vec![Some(429)] };
        let headers = [("server", "nginx"), ("x-envoy-ratelimited", "true")];
        let verdict = verdict(429, &headers, NGINX_PAGE, &[&[via_envoy(429)]], Some(saw));
        assert_eq!(verdict.returned_by, Responder::Origin, "{verdict:#?}");
        assert_eq!(verdict.outcome, Certainty::Certain);
        assert_eq!(verdict.reached_origin, Tri::Yes);
        assert_eq!(verdict.hidden_retries, Some(2));
        assert!(verdict.conflicts.iter().any(|c| c.contains("NG-1")), "{verdict:#?}");
        assert!(verdict.evidence.iter().any(|e| e.rule == "LG-EN-3"), "{verdict:#?}");
    }

    #[test]
    fn behind_the_last_logged_hop_is_likely_the_origin_and_no_more() {
        let verdict = verdict(429, &[], "", &[&[via_envoy(429)]], None);
        assert_eq!(verdict.returned_by, Responder::Origin);
        assert_eq!(verdict.outcome, Certainty::Likely, "{verdict:#?}");
    }

    #[test]
    fn a_chain_is_followed_to_the_hop_that_answered_and_tries_are_counted_once() {
        let hops: [&[LogFacts]; 2] = [
            &[via_envoy(503)],
            &[refused_by_nginx(503), refused_by_nginx(503), refused_by_nginx(503)],
        ];
        let verdict = verdict(503, &[("server", "envoy")], "", &hops, None);
        assert_eq!(verdict.returned_by, Responder::Nginx, "{verdict:#?}");
        assert_eq!(verdict.outcome, Certainty::Certain);
        assert_eq!((verdict.limit_type, verdict.reached_origin), (LimitType::Rate, Tri::No));
        assert!(verdict.limited, "a refusal by a limit, though it says 503");
        assert_eq!(verdict.hidden_retries, Some(2));
        assert_eq!(verdict.hops, [Responder::Envoy, Responder::Nginx]);
    }

    #[test]
    fn retries_of_two_hops_multiply() {
        let hops: [&[LogFacts]; 2] =
            [&[via_envoy(429)], &[via_envoy(429), via_envoy(429), via_envoy(429)]];
        assert_eq!(verdict(429, &[], "", &hops, None).hidden_retries, Some(8));
    }

    #[test]
    fn the_line_of_another_request_is_not_believed() {
        let verdict = verdict(429, &[], "", &[&[refused_by_nginx(503)]], None);
        assert_ne!(verdict.returned_by, Responder::Nginx);
        assert!(verdict.conflicts.iter().any(|c| c.contains("another request")), "{verdict:#?}");
    }

    #[test]
    fn an_upstream_that_was_never_the_origin_leaves_the_gateway_as_likely() {
        let asked = [("upstream_status", "429"), ("upstream_addr", "192.0.2.1:80")];
        let never = OriginRecord { saw: false, statuses: Vec::new() };
        let lines = [line(Responder::Caddy, 429, &asked)];
        let verdict = verdict(429, &[("via", "1.1 Caddy")], "", &[&lines], Some(never));
        assert_eq!(verdict.returned_by, Responder::Caddy, "{verdict:#?}");
        assert_eq!((verdict.outcome, verdict.reached_origin), (Certainty::Likely, Tri::No));
    }

    #[test]
    fn a_limiter_that_could_not_be_asked_is_no_limit() {
        let down = [("response_flags", "RLSE"), ("code_details", "rate_limiter_error")];
        let verdict = verdict(429, &[], "", &[&[line(Responder::Envoy, 429, &down)]], None);
        assert_eq!(verdict.returned_by, Responder::Envoy);
        assert!(!verdict.limited, "{verdict:#?}");
    }

    #[test]
    fn an_answer_that_haproxy_denied_is_haproxys_until_the_origins_record_is_at_hand() {
        let fields = [("term_state", "PH"), ("server", "s1"), ("upstream_status", "503")];
        let denied = || line(Responder::Haproxy, 429, &fields);
        let alone = verdict(429, &[], "", &[&[denied()]], None);
        assert_eq!(alone.returned_by, Responder::Haproxy, "{alone:#?}");
        assert_eq!((alone.outcome, alone.reached_origin), (Certainty::Likely, Tri::Yes));
        let record = OriginRecord { saw: true, statuses: vec![Some(503)] };
        let known = verdict(429, &[], "", &[&[denied()]], Some(record));
        assert_eq!(known.returned_by, Responder::Origin, "{known:#?}");
        assert_eq!(known.reached_origin, Tri::Yes);
    }

    #[test]
    fn an_origin_that_answered_something_else_did_not_answer_this() {
        let saw = || Some(OriginRecord { saw: true, statuses: vec![Some(200)] });
        let verdict = verdict(504, &[], "", &[], saw());
        assert_eq!(verdict.returned_by, Responder::Unknown, "{verdict:#?}");
        assert_eq!(verdict.reached_origin, Tri::Yes);
    }
}
