//! Step 7: fix the right layer. Advice is a list of [`ADVICE`]: each names the findings that call
//! for it, what to change and where, what to expect and to fear. Then what not to touch, and the
//! planner's numbers where a limit is documented.

use super::operations::{Analysis, tally, weight};
use super::planner::{PlannerInput, plan};
use super::words::{count, list, many, share};
use super::{Answer, AnswerState, Finding, NextAction, Step, Table};
use crate::domain::classify::{Certainty, Layer, LimitType, Responder, Tri};

/// One change that may be advised.
struct Advice {
    /// Id of the finding that carries it.
    id: &'static str,
    /// Findings of steps 1 to 6 that call for it.
    causes: &'static [&'static str],
    /// What to do, as an instruction.
    what: &'static str,
    /// Where it is set; the callers concerned are added.
    place: &'static str,
    /// The setting to copy.
    setting: &'static str,
    /// What it should bring.
    effect: &'static str,
    /// What it may cost.
    risk: &'static str,
}

/// Every change that is ever advised, the first to do first.
const ADVICE: [Advice; 20] = [
    Advice {
        id: "fix-one-retry-layer",
        causes: &["double-layer-retry", "hidden-gateway-retries"],
        what: "Let one layer retry and switch the others off.",
        place: "the inner layer's client settings",
        setting: "# one of these, for the SDK in use\n\
                  client = OpenAI(max_retries=0)                 # openai-python, anthropic-python\n\
                  export AWS_MAX_ATTEMPTS=1                      # AWS SDKs\n\
                  stripe.max_network_retries = 0                 # stripe-python\n\
                  HTTPAdapter(max_retries=0)                     # requests, urllib3\n\
                  got(url, {retry: {limit: 0}})                  # got",
        effect: "attempts per operation fall to those of one layer",
        risk: "calls that only the switched-off layer retried lose their retries",
    },
    Advice {
        id: "fix-idempotency",
        causes: &[
            "write-without-idempotency-key",
            "idempotency-key-changes",
            "idempotency-key-two-bodies",
            "idempotency-key-two-operations",
        ],
        what: "Make one idempotency key per operation, before the first attempt, and keep it.",
        place: "where the operation starts, outside the retry loop",
        setting: "key = uuid4()                       # once, with the operation\n\
                  for attempt in attempts:\n    send(body, headers={\"Idempotency-Key\": key})",
        effect: "repeated writes are done once, where the server supports the key",
        risk: "a server without support ignores it; then reconcile instead of repeating",
    },
    Advice {
        id: "fix-reconcile",
        causes: &["conflict-after-retry", "refused-after-processing"],
        what: "Ask for the state before repeating a write whose fate is open.",
        place: "the application, around the write",
        setting: "GET the resource by your own reference; repeat the write only when it is absent",
        effect: "no duplicate writes",
        risk: "one more read per open write",
    },
    Advice {
        id: "fix-wait-unit",
        causes: &[
            "wait-unit-suspect",
            "retry-after-epoch",
            "retry-after-misread",
            "retry-after-doubtful",
        ],
        what: "Convert Retry-After once, at the edge of the code, into a type with a unit.",
        place: "the retry policy's reading of headers",
        setting: "delay_ms = 1000 * int(retry_after)   # delay-seconds, RFC 9110 section 10.2.3",
        effect: "waits match what was promised",
        risk: "none known",
    },
    Advice {
        id: "fix-honour-retry-after",
        causes: &["early-retries", "zero-delay", "delay-clipped"],
        what: "Make Retry-After the floor of every wait; if it exceeds the cap or the deadline, stop \
               or reschedule, never shorten it.",
        place: "the retry policy",
        setting: "floor = retry_after or 0\n\
                  if floor > cap or floor > deadline - now: reschedule(floor)\n\
                  delay = floor + random(0, max(base, floor / 4))",
        effect: "retries stop meeting a closed window",
        risk: "callers wait as long as the server asks; deadlines must allow it",
    },
    Advice {
        id: "fix-jitter",
        causes: &["fixed-delay", "no-jitter", "exact-retry-after", "retry-waves", "zero-delay"],
        what: "Use full jitter without Retry-After, and jitter on top of it with it.",
        place: "the retry policy",
        setting: "delay = random(0, min(cap, base * 2 ** attempt))       # no Retry-After\n\
                  delay = retry_after + random(0, max(base, retry_after / 4))",
        effect: "callers come back one by one instead of together",
        risk: "single waits vary more",
    },
    Advice {
        id: "fix-retry-budget",
        causes: &[
            "retry-budget",
            "amplification",
            "retries-outgrow-requests",
            "retries-spend-window",
            "exhausted",
        ],
        what: "Cap retries at a tenth of requests per caller, and attempts at three.",
        place: "the retry policy, shared by all calls of the process",
        setting: "retry_budget: {ratio: 0.10, min_per_second: 1}\nattempts_max: 3\ndeadline: 30s",
        effect: "a limit can't turn into a storm; first attempts get the allowance",
        risk: "some operations fail that a fourth attempt would have saved",
    },
    Advice {
        id: "fix-stop-permanent",
        causes: &["retry-of-permanent"],
        what: "Don't retry 400, 401, 403, 404, 409 and 422 unless a limit hides behind them.",
        place: "the retry policy's list of statuses",
        setting: "retry_on: [429, 502, 503, 504, connection-reset, timeout]",
        effect: "failures surface at once and spend no allowance",
        risk: "an API that answers a limit with 403 needs its own rule",
    },
    Advice {
        id: "fix-stop-on-cancel",
        causes: &["sent-after-cancelled", "beyond-own-limit"],
        what: "End retries with the caller's cancellation, at the maximum and at the deadline.",
        place: "the retry loop",
        setting: "while attempt < attempts_max and now < deadline and not cancelled: …",
        effect: "no work for callers that are gone",
        risk: "none known",
    },
    Advice {
        id: "fix-spread-requests",
        causes: &[
            "limit-rate",
            "first-attempts-spend-window",
            "window-from-first-request",
            "window-on-clock",
            "window-not-on-clock",
        ],
        what: "Space first attempts below the limit before they are sent.",
        place: "a token bucket in front of the client, shared by all callers with the key",
        setting: "rate: 0.75 × the documented limit\nburst: 1 to 5",
        effect: "refusals end, since the limit is no longer reached",
        risk: "work takes longer; the planner says how long",
    },
    Advice {
        id: "fix-lower-concurrency",
        causes: &["limit-concurrency"],
        what: "Limit the requests in flight before sending.",
        place: "a semaphore in front of the client, shared by all callers with the key",
        setting: "semaphore(limit × 0.75)",
        effect: "refusals end; throughput stays, since the server worked on no more anyway",
        risk: "callers queue; give the queue a deadline",
    },
    Advice {
        id: "fix-quota",
        causes: &["limit-quota", "retry-after-quota"],
        what: "Stop sending until the quota is renewed; then use less or change the plan.",
        place: "a breaker in front of the client, opened until the reset",
        setting: "on quota refusal: open breaker until reset; queue or reject new work",
        effect: "no requests that can't succeed",
        risk: "work waits until the renewal",
    },
    Advice {
        id: "fix-security-rule",
        causes: &["limit-security"],
        what: "Have the firewall rule changed, or change what the client sends to meet it.",
        place: "the firewall of the component named in step 1",
        setting: "find the rule by the ray or request id of a refusal; except the caller's address \
                  or token from it",
        effect: "refusals end for this caller",
        risk: "an exception opens the door for whoever copies what it matches",
    },
    Advice {
        id: "fix-uncache-refusal",
        causes: &["limit-cached"],
        what: "Purge the stored refusal and stop caching 429.",
        place: "the cache named in step 1, and the origin's answer",
        setting: "Cache-Control: no-store              # on every 429 (RFC 6585 section 4)\n\
                  proxy_cache_valid 200 301 302 10m;   # nginx: not `any`",
        effect: "refusals end when the limit opens",
        risk: "none known",
    },
    Advice {
        id: "fix-back-off-overload",
        causes: &["limit-overload"],
        what: "Back off with a retry budget and a breaker; tell the server's owner.",
        place: "the client; capacity on the server",
        setting: "retry_budget: {ratio: 0.10}\nbreaker: {open_after: 50 % failures of 20, half_open: 10s}",
        effect: "the server gets room to recover",
        risk: "some work fails at once while the breaker is open",
    },
    Advice {
        id: "fix-separate-keys",
        causes: &["key-shared"],
        what: "Give each service its own key, or put one gate in front of the shared one.",
        place: "the provider's key management; the services named in step 4",
        setting: "one key per service and environment",
        effect: "one service can't spend another's allowance",
        risk: "some providers count by account, not by key: ask first",
    },
    Advice {
        id: "fix-clock-start",
        causes: &["boundary-burst"],
        what: "Spread jobs that start by the clock.",
        place: "timers and cron tables of the callers",
        setting: "RandomizedDelaySec=60                # systemd timer\n\
                  sleep $((RANDOM % 60)); job          # cron",
        effect: "the burst at the turn becomes an even flow",
        risk: "jobs start up to a minute later",
    },
    Advice {
        id: "fix-clock-skew",
        causes: &["clock-skew"],
        what: "Put the clocks in step, and measure dates against the answer's `Date`.",
        place: "the hosts named in step 5",
        setting: "chronyc makestep",
        effect: "waits given as dates are as long as they were meant",
        risk: "a step of the clock disturbs timers that go by it",
    },
    Advice {
        id: "fix-server-retry-after",
        causes: &[
            "retry-after-missing",
            "retry-after-invalid",
            "retry-after-epoch",
            "reset-disagrees",
            "promise-broken",
        ],
        what: "If the limiter is yours, send Retry-After as whole seconds until it really opens.",
        place: "the component named in step 1",
        setting: "Retry-After: 30",
        effect: "every client can wait just long enough",
        risk: "clients without jitter come back together",
    },
    Advice {
        id: "fix-limit-status",
        causes: &["limit-with-other-status"],
        what: "If the limiter is yours, answer 429; if not, teach the client its status.",
        place: "the component named in step 1",
        setting: "limit_req_status 429;   limit_conn_status 429;   # nginx, 503 by default",
        effect: "clients and alerts see a limit as a limit",
        risk: "clients that retried the old status must know 429",
    },
];

/// Advice that ends the refusals themselves, by kind of limit.
const MEETS_THE_LIMIT: [&str; 6] = [
    "fix-spread-requests",
    "fix-lower-concurrency",
    "fix-quota",
    "fix-security-rule",
    "fix-uncache-refusal",
    "fix-back-off-overload",
];

/// Fewer attempts may well be advised; more never help where a hop refuses.
const ADD_NONE: &str = "Don't add attempts in the application";

/// Answers step 7 from the answers of steps 1 to 6.
pub(super) fn answer(a: &Analysis<'_>, earlier: &[Answer]) -> Answer {
    if a.facts.totals.attempts == 0 {
        return Answer::nothing_stored(Step::Fix);
    }
    let found: Vec<&Finding> = earlier.iter().flat_map(|answer| &answer.findings).collect();
    let mut advised: Vec<(Finding, &Advice)> = Vec::new();
    for advice in &ADVICE {
        let causes: Vec<&&Finding> = found
            .iter()
            .filter(|f| advice.causes.contains(&f.id.as_str()))
            .filter(|f| f.actionable || f.id == "first-attempts-spend-window")
            .collect();
        if !causes.is_empty() && applies(a, advice, &causes) {
            advised.push((make(advice, &causes), advice));
        }
    }
    if !found.iter().any(|f| f.id == "retries-spend-window") {
        // First attempts alone meet the limit: what keeps them below it helps most.
        advised.sort_by_key(|(finding, _)| !MEETS_THE_LIMIT.contains(&finding.id.as_str()));
    }
    let leave = leave(a, &found);
    let mut answer = match advised.first() {
        Some((first, _)) => Answer::new(
            Step::Fix,
            AnswerState::Finding,
            format!(
                "{} {}",
                first.text,
                match advised.len() - 1 {
                    0 => "Nothing else needs a change.".to_owned(),
                    more =>
                        format!("{} below.", many(super::super::stats::len(more), "more change")),
                }
            ),
        ),
        None if a.totals.limited == 0 => {
            Answer::new(Step::Fix, AnswerState::Clear, "Nothing was found that needs a change.")
        }
        None => {
            let mut answer = Answer::new(
                Step::Fix,
                AnswerState::NeedsData,
                "What to change can't be told before steps 1 and 3 are answered.",
            );
            answer.next.push(NextAction::text("Send what steps 1 and 3 ask for."));
            answer
        }
    };
    for (finding, advice) in &advised {
        answer.next.push(NextAction::command(finding.text.clone(), advice.setting));
    }
    answer.tables.push(Table::new(
        "What to change",
        &["change", "where", "expected effect", "risk", "because of"],
        advised
            .iter()
            .map(|(finding, advice)| {
                let number = |label: &str| {
                    finding
                        .numbers
                        .iter()
                        .find(|(l, _)| l == label)
                        .map_or_else(String::new, |(_, value)| value.clone())
                };
                vec![
                    advice.what.to_owned(),
                    number("Where"),
                    advice.effect.to_owned(),
                    advice.risk.to_owned(),
                    number("Because of"),
                ]
            })
            .collect(),
    ));
    answer.tables.push(Table::new(
        "What not to touch",
        &["leave alone", "because"],
        leave
            .iter()
            .map(|(_, what, why)| {
                let cell =
                    if *what == ADD_NONE { "adding attempts in the application" } else { what };
                vec![cell.to_owned(), why.clone()]
            })
            .collect(),
    ));
    answer.findings.extend(advised.into_iter().map(|(finding, _)| finding));
    answer.findings.extend(leave.into_iter().map(|(id, what, why)| {
        let text = if what == ADD_NONE {
            format!("{what}. {why}")
        } else {
            format!("Leave alone: {what}. {why}")
        };
        Finding::note(id, text)
    }));
    planned(a, &mut answer);
    answer
}

/// Whether advice fits beyond its causes.
fn applies(a: &Analysis<'_>, advice: &Advice, causes: &[&&Finding]) -> bool {
    match advice.id {
        // A few that gave up need no budget.
        "fix-retry-budget" => causes.iter().any(|f| f.id != "exhausted"),
        // First attempts spend every window that is refused; it is a rate or unknown limit that
        // spacing helps.
        "fix-spread-requests" => {
            causes.iter().any(|f| f.id != "first-attempts-spend-window")
                || a.limited_attempts().any(|s| s.verdict.limit_type == LimitType::Rate)
        }
        // A broken promise is the limiter's word; it is one more reason, not a reason alone.
        "fix-server-retry-after" => {
            causes.iter().any(|f| f.id != "promise-broken") || causes.len() > 1
        }
        _ => true,
    }
}

fn make(advice: &Advice, causes: &[&&Finding]) -> Finding {
    let callers = causes
        .iter()
        .find_map(|f| f.numbers.iter().find(|(label, _)| label == "Where"))
        .map_or_else(String::new, |(_, value)| format!(": {value}"));
    let because: Vec<String> = causes.iter().map(|f| f.id.clone()).collect();
    let mut finding = Finding::new(advice.id, advice.what)
        .number("Where", format!("{}{callers}", advice.place))
        .number("Setting", advice.setting)
        .number("Expected effect", advice.effect)
        .number("Risk", advice.risk)
        .number("Because of", because.join(", "))
        .number("Reason", causes[0].text.clone());
    finding.rows.clone_from(&causes[0].rows);
    finding.rows_total = causes[0].rows_total;
    finding
}

/// What not to touch, as id, what and why.
fn leave(a: &Analysis<'_>, found: &[&Finding]) -> Vec<(&'static str, &'static str, String)> {
    let mut leave = Vec::new();
    if a.limited == 0 {
        return leave;
    }
    let sure = |outcome: Certainty| outcome != Certainty::Unknown;
    let layers = tally(
        a.limited_attempts()
            .filter(|s| sure(s.verdict.outcome))
            .map(|s| (s.verdict.layer, weight(s))),
    );
    let in_layer = |layer: Layer| layers.iter().find(|(l, _)| *l == layer).map_or(0, |(_, n)| *n);
    let named = |layer: Layer| {
        let products = tally(
            a.limited_attempts()
                .filter(|s| s.verdict.layer == layer && sure(s.verdict.outcome))
                .map(|s| (s.verdict.returned_by, weight(s))),
        );
        let names: Vec<String> = products.iter().take(3).map(|(r, _)| r.to_string()).collect();
        list(&names)
    };
    let hops: Vec<Layer> = [Layer::Edge, Layer::Gateway, Layer::Proxy]
        .into_iter()
        .filter(|layer| in_layer(*layer) * 20 >= a.limited)
        .collect();
    if !hops.is_empty() {
        let names: Vec<String> = hops.iter().map(|layer| named(*layer)).collect();
        leave.push((
            "leave-attempts",
            ADD_NONE,
            format!(
                "A refusal by {} is not fixed by more application retries: each one is counted by \
                 the same rule.",
                if hops.contains(&Layer::Edge) {
                    format!("a CDN ({})", list(&names))
                } else {
                    list(&names)
                }
            ),
        ));
        let unreached: i64 = a
            .limited_attempts()
            .filter(|s| hops.contains(&s.verdict.layer) && s.verdict.reached_origin == Tri::No)
            .map(weight)
            .sum();
        if unreached > 0 {
            leave.push((
                "leave-origin",
                "the origin's own limit and its size",
                format!(
                    "{} of {} never reached it: more servers or a higher limit there change nothing \
                     for those.",
                    count(unreached),
                    a.refusals()
                ),
            ));
        }
    }
    let origin = in_layer(Layer::Origin);
    if origin * 20 >= a.limited {
        leave.push((
            "leave-edge",
            "the rules of CDN and gateway, for what the origin refused",
            format!(
                "{} of {} ({}) were refused by the origin and only relayed by what stands in front.",
                count(origin),
                a.refusals(),
                share(origin, a.limited)
            ),
        ));
    }
    let has = |id: &str| found.iter().any(|f| f.id == id && f.actionable);
    if has("retries-spend-window") || has("retry-budget") {
        leave.push((
            "leave-plan",
            "the plan or the limit itself",
            "Retries spend a large part of the allowance: bring them down before buying more."
                .to_owned(),
        ));
    }
    if has("limit-quota") || has("limit-security") {
        leave.push((
            "leave-backoff",
            "the backoff's length",
            "Waiting seconds or minutes longer does not renew a quota and does not lift a rule."
                .to_owned(),
        ));
    }
    let unknown: i64 = a
        .limited_attempts()
        .filter(|s| s.verdict.returned_by == Responder::Unknown || !sure(s.verdict.outcome))
        .map(weight)
        .sum();
    if unknown * 2 > a.limited {
        leave.push((
            "leave-hops",
            "CDN, gateway and proxy settings",
            "Most refusals can't be traced to a component yet: settle step 1 first.".to_owned(),
        ));
    }
    leave
}

/// The planner's numbers, where an answer documents its limit.
fn planned(a: &Analysis<'_>, answer: &mut Answer) {
    if a.limited == 0 {
        return;
    }
    let Some(plan) = PlannerInput::from_facts(a.facts).and_then(|input| plan(&input).ok()) else {
        answer.next.push(NextAction::text(
            "Plan the budget: give the planner the documented limit and window, what to aim at, the \
             work and the time of an answer. For 120 a minute allowed, 90 aimed at, 600 to do and \
             2 s an answer it says 667 ms apart, 400 s in all, 3 in flight.",
        ));
        return;
    };
    let mut finding = Finding::note("budget-plan", plan.sentences.join(" "));
    finding = finding.number("Aims at", plan.aim());
    answer.findings.push(finding);
    answer.tables.push(Table::new(
        "Budget plan from the documented limit",
        &["step"],
        plan.sentences.iter().map(|sentence| vec![sentence.clone()]).collect(),
    ));
}

#[cfg(test)]
mod unit {
    use super::ADVICE;
    use crate::domain::checklist::catalogue;

    #[test]
    fn every_cause_is_a_finding_that_exists() {
        for advice in &ADVICE {
            for cause in advice.causes {
                assert!(catalogue::find(cause).is_some(), "{}: {cause}", advice.id);
            }
        }
    }
}
