//! Step 4: whose traffic. Share and lift of refusals over each dimension, the dimension that
//! separates refused from served attempts, who shares the key, and who spent the window.

use super::operations::{Analysis, Rows, tally};
use super::words::{
    count, factor, list, many, name, percent, share, share_with_interval, short_hash, verb,
};
use super::{Answer, AnswerState, Finding, NextAction, SHARE_FLOOR, Step, Table};
use crate::domain::stats::ratio::{self, Interval, Ratio};
use crate::domain::stored::{Dimension, DimensionCounts, StoredEvent};
use std::collections::BTreeSet;

/// The dimensions that can be a cause, most telling first: where two separate alike, the first is
/// named first. Responder, limit type, status and retry layer are consequences of a refusal.
const CAUSES: [Dimension; 7] = [
    Dimension::Key,
    Dimension::Address,
    Dimension::Account,
    Dimension::Route,
    Dimension::Service,
    Dimension::Instance,
    Dimension::Environment,
];
/// Share of the uncertainty that a dimension must remove before it is said to separate.
const SEPARATES_FROM: f64 = 0.1;
/// Two dimensions within this of each other separate alike.
const ALIKE: f64 = 0.02;
/// The lower end of the lift's interval from which a value stands out.
const LIFT_FROM: f64 = 2.0;
/// The share of attempts in refused minutes from which retries are said to spend the window.
const RETRIES_SPEND_FROM: f64 = 0.25;

/// Answers step 4.
pub(super) fn answer(a: &Analysis<'_>) -> Answer {
    let totals = &a.facts.totals;
    if totals.attempts == 0 {
        return Answer::nothing_stored(Step::Scope);
    }
    if totals.limited == 0 {
        return Answer::nothing_limited(Step::Scope, a);
    }
    let looked: Vec<Looked<'_>> =
        CAUSES.into_iter().map(|dimension| Looked::new(a, dimension)).collect();
    let mut answer = if totals.limited < SHARE_FLOOR {
        Answer::new(
            Step::Scope,
            AnswerState::NeedsData,
            format!(
                "{} {} too few to say whose traffic it is; {} are needed.",
                many(totals.limited, "refusal"),
                verb(totals.limited, "is", "are"),
                SHARE_FLOOR
            ),
        )
    } else if totals.limited == totals.attempts {
        let mut answer = Answer::new(
            Step::Scope,
            AnswerState::NeedsData,
            "Only refusals were reported, so nothing can be compared with served traffic."
                .to_owned(),
        );
        answer.next.push(NextAction::text(
            "Report served attempts too; one event may stand for many with `count`.",
        ));
        answer
    } else {
        separated(a, &looked)
    };
    let best = best(&looked);
    for looked in &looked {
        if let Some(finding) = looked.concentration(a, looked.separation >= best - ALIKE) {
            answer.findings.push(finding);
        }
    }
    shared_key(a, &mut answer);
    spent(a, &mut answer);
    missing(&looked, &mut answer);
    answer.tables.extend(looked.iter().filter_map(|l| l.table(totals.limited)));
    answer.tables.extend(Looked::new(a, Dimension::RetryLayer).table(totals.limited));
    answer
}

/// One dimension, looked at.
struct Looked<'a> {
    dimension: Dimension,
    /// Its values, the empty one and `other` among them, most limited first.
    values: Vec<&'a DimensionCounts>,
    whole: Ratio,
    separation: f64,
}

impl<'a> Looked<'a> {
    fn new(a: &Analysis<'a>, dimension: Dimension) -> Self {
        let mut values: Vec<&DimensionCounts> =
            a.facts.dimensions.iter().filter(|d| d.dimension == dimension).collect();
        values.sort_by(|x, y| {
            y.limited
                .cmp(&x.limited)
                .then_with(|| y.attempts.cmp(&x.attempts))
                .then_with(|| x.value.cmp(&y.value))
        });
        let groups: Vec<Ratio> = values.iter().map(|v| Ratio::new(v.limited, v.attempts)).collect();
        let sum = |of: fn(&DimensionCounts) -> i64| {
            values.iter().fold(0_i64, |sum, v| sum.saturating_add(of(v)))
        };
        let whole = Ratio::new(sum(|v| v.limited), sum(|v| v.attempts));
        Self { dimension, values, whole, separation: ratio::separation(&groups) }
    }

    /// Attempts without a value.
    fn unnamed(&self) -> i64 {
        self.values.iter().filter(|v| v.value.is_empty()).map(|v| v.attempts).sum()
    }

    /// Whether most attempts carry a value.
    fn is_known(&self) -> bool {
        self.whole.total > 0 && self.unnamed() * 2 <= self.whole.total
    }

    fn named(&self) -> impl Iterator<Item = &'a DimensionCounts> + '_ {
        self.values.iter().copied().filter(|v| !v.value.is_empty() && v.value != "other")
    }

    /// The value with most refusals.
    fn top(&self) -> Option<&'a DimensionCounts> {
        self.named().next()
    }

    fn lift(&self, value: &DimensionCounts) -> Option<(f64, Interval)> {
        let inside = Ratio::new(value.limited, value.attempts);
        ratio::lift(inside, inside.rest_of(self.whole))
    }

    /// Whether its busiest value stands out beyond chance.
    fn stands_out(&self) -> Option<(&'a DimensionCounts, f64, Interval)> {
        let top = self.top().filter(|_| self.is_known() && self.whole.hits >= SHARE_FLOOR)?;
        let (lift, interval) = self.lift(top)?;
        (interval.low >= LIFT_FROM && top.limited * 2 >= self.whole.hits)
            .then_some((top, lift, interval))
    }

    /// The finding that its busiest value stands out; action is asked for only where the dimension
    /// is among those that separate best.
    fn concentration(&self, a: &Analysis<'_>, is_best: bool) -> Option<Finding> {
        let (top, lift, interval) = self.stands_out()?;
        let limited = Ratio::new(top.limited, self.whole.hits);
        let rows: Rows = a
            .limited_attempts()
            .filter(|s| value_of(s, self.dimension).is_some_and(|v| v == top.value))
            .collect();
        let compared = if top.limited == self.whole.hits {
            "no other is refused".to_owned()
        } else {
            format!("it is refused {} times as often as the rest", factor(lift))
        };
        let text = format!(
            "{} {} carries {} of the refusals and {} of the attempts: {compared}.",
            noun(self.dimension),
            shown(self.dimension, &top.value),
            share(top.limited, self.whole.hits),
            share(top.attempts, self.whole.total),
        );
        let finding = if is_best {
            Finding::new(id(self.dimension), text)
        } else {
            Finding::note(id(self.dimension), text)
        };
        let mut finding = finding
            .number("Share of refusals", share_with_interval(limited))
            .number("Share of attempts", share(top.attempts, self.whole.total))
            .number(
                "Lift (95 %)",
                format!("{} ({} to {})", factor(lift), factor(interval.low), factor(interval.high)),
            )
            .rows(rows);
        finding.rows_total = top.limited;
        Some(finding)
    }

    fn table(&self, limited: i64) -> Option<Table> {
        if self.values.iter().all(|v| v.value.is_empty()) {
            return None;
        }
        let rows = self
            .values
            .iter()
            .take(10)
            .map(|v| {
                let ratio = Ratio::new(v.limited, v.attempts);
                vec![
                    if v.value.is_empty() {
                        "(not sent)".to_owned()
                    } else {
                        shown(self.dimension, &v.value)
                    },
                    count(v.attempts),
                    count(v.limited),
                    share_with_interval(ratio),
                    share(v.limited, limited),
                    self.lift(v).map_or_else(
                        || "no data".to_owned(),
                        |(lift, i)| {
                            format!("{} ({} to {})", factor(lift), factor(i.low), factor(i.high))
                        },
                    ),
                    count(v.retries),
                ]
            })
            .collect();
        Some(Table::new(
            &format!("Refusals by {}", self.dimension),
            &[
                self.dimension.as_str(),
                "attempts",
                "limited",
                "limited ratio",
                "share of refusals",
                "lift (95 %)",
                "retries",
            ],
            rows,
        ))
    }
}

/// The id of the finding that a value stands out.
const fn id(dimension: Dimension) -> &'static str {
    match dimension {
        Dimension::Key => "scope-key",
        Dimension::Address => "scope-address",
        Dimension::Account => "scope-account",
        Dimension::Route => "scope-route",
        Dimension::Service => "scope-service",
        Dimension::Instance => "scope-instance",
        _ => "scope-environment",
    }
}

/// The dimension at the start of a sentence.
const fn noun(dimension: Dimension) -> &'static str {
    match dimension {
        Dimension::Key => "Key",
        Dimension::Address => "Address",
        Dimension::Account => "Account",
        Dimension::Route => "Route",
        Dimension::Service => "Service",
        Dimension::Instance => "Instance",
        _ => "Environment",
    }
}

/// A value as a person can read it.
fn shown(dimension: Dimension, value: &str) -> String {
    match dimension {
        Dimension::Key | Dimension::Address | Dimension::Account => short_hash(value),
        _ => name(value),
    }
}

/// The value that an attempt has in a dimension.
fn value_of(s: &StoredEvent, dimension: Dimension) -> Option<&str> {
    let e = &s.event;
    match dimension {
        Dimension::Service => Some(&e.service),
        Dimension::Instance => e.instance.as_deref(),
        Dimension::Environment => e.environment.as_deref(),
        Dimension::Route => e.route.as_deref(),
        Dimension::Key => e.key_hash.as_deref(),
        Dimension::Address => e.client_address_hash.as_deref(),
        Dimension::Account => e.account_hash.as_deref(),
        _ => None,
    }
}

/// How well the best dimension separates, of those in which a value stands out.
fn best(looked: &[Looked<'_>]) -> f64 {
    looked
        .iter()
        .filter(|l| l.is_known() && l.stands_out().is_some())
        .map(|l| l.separation)
        .fold(0.0, f64::max)
}

/// The answer where refused and served attempts can be compared.
fn separated(a: &Analysis<'_>, looked: &[Looked<'_>]) -> Answer {
    let totals = &a.facts.totals;
    let best = best(looked);
    let alike: Vec<&Looked<'_>> = looked
        .iter()
        .filter(|l| l.is_known() && l.stands_out().is_some() && l.separation >= best - ALIKE)
        .collect();
    let limited_ratio = share(totals.limited, totals.attempts);
    if best >= SEPARATES_FROM
        && let Some((first, top)) = alike.first().and_then(|l| Some((*l, l.top()?)))
    {
        let mut answer = Answer::new(
            Step::Scope,
            AnswerState::Finding,
            format!(
                "One {} is refused{}: {} has {} of the {}.",
                first.dimension,
                if top.limited == first.whole.hits { "" } else { " most" },
                shown(first.dimension, &top.value),
                share(top.limited, first.whole.hits),
                many(first.whole.hits, "refusal")
            ),
        );
        let names: Vec<String> = alike.iter().map(|l| l.dimension.to_string()).collect();
        let text = if names.len() > 1 {
            format!(
                "{} separate refused from served attempts equally well ({} of what is to know): \
                 here they go together, so the numbers alone can't say which one the limit goes by.",
                list(&names),
                percent(best)
            )
        } else {
            format!(
                "Of all dimensions the {} tells refused from served attempts best ({} of what is \
                 to know).",
                first.dimension,
                percent(best)
            )
        };
        let mut finding = Finding::note("scope-separates", text);
        for l in looked.iter().filter(|l| l.is_known()) {
            finding = finding.number(l.dimension.as_str(), percent(l.separation));
        }
        answer.findings.push(finding);
        return answer;
    }
    let several: Vec<&Looked<'_>> =
        looked.iter().filter(|l| l.is_known() && l.named().count() > 1).collect();
    if several.is_empty() {
        let mut answer = Answer::new(
            Step::Scope,
            AnswerState::NeedsData,
            format!(
                "{limited_ratio} of the attempts are refused, and every dimension has one value \
                 here: there is nothing to compare.",
            ),
        );
        answer.next.push(NextAction::text(
            "Widen the scope (leave out route or service) or send `key_hash`, \
             `client_address_hash`, `account_hash`, `instance` and `route`.",
        ));
        return answer;
    }
    let names: Vec<String> = several.iter().map(|l| l.dimension.to_string()).collect();
    let mut answer = Answer::new(
        Step::Scope,
        AnswerState::Finding,
        format!("It hits all alike: {limited_ratio} of the attempts, whatever the {}.", or(&names)),
    );
    let single: Vec<String> = looked
        .iter()
        .filter(|l| l.is_known() && l.named().count() == 1)
        .filter(|l| l.dimension != Dimension::Environment)
        .map(|l| l.dimension.to_string())
        .collect();
    let text = if single.is_empty() {
        format!(
            "No {} stands out: a limit on the whole, or overload, fits better than a limit on one \
             caller.",
            or(&names)
        )
    } else {
        format!(
            "No {} stands out. There is one {} in this scope, so a limit on that looks the same as \
             one on all: widen the scope to compare.",
            or(&names),
            list(&single)
        )
    };
    let mut finding = Finding::new("scope-everyone", text);
    for l in &several {
        finding = finding.number(l.dimension.as_str(), percent(l.separation));
    }
    answer.findings.push(finding.rows(a.limited_attempts().collect()));
    answer
}

fn or(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// How many services and instances use the key that is refused most.
fn shared_key(a: &Analysis<'_>, answer: &mut Answer) {
    let by_key = tally(a.facts.key_services.iter().map(|k| (k.key.as_str(), k.limited)));
    for (key, limited) in by_key.iter().filter(|(_, limited)| *limited > 0).take(3) {
        let services = tally(
            a.facts
                .key_services
                .iter()
                .filter(|k| k.key == *key)
                .map(|k| (k.service.as_str(), k.attempts)),
        );
        let instances: BTreeSet<(&str, &str)> = a
            .attempts
            .iter()
            .filter(|s| s.event.key_hash.as_deref() == Some(key))
            .filter_map(|s| Some((s.event.service.as_str(), s.event.instance.as_deref()?)))
            .collect();
        if services.len() < 2 {
            continue;
        }
        let attempts: i64 = services.iter().map(|(_, n)| *n).sum();
        let named: Vec<String> = services
            .iter()
            .take(3)
            .map(|(service, n)| format!("{} ({})", name(service), share(*n, attempts)))
            .collect();
        let rows: Rows =
            a.limited_attempts().filter(|s| s.event.key_hash.as_deref() == Some(key)).collect();
        answer.findings.push(
            Finding::new(
                "key-shared",
                format!(
                    "{} services share the key {}: {}. They spend one allowance together.",
                    services.len(),
                    short_hash(key),
                    list(&named)
                ),
            )
            .number("Services", services.len().to_string())
            .number("Instances seen in this scope", instances.len().to_string())
            .number("Refusals with this key", count(*limited))
            .rows(rows),
        );
    }
}

/// Who spent the window: first attempts or retries, in the minutes that have refusals.
fn spent(a: &Analysis<'_>, answer: &mut Answer) {
    let hot: Vec<_> = a.facts.buckets.iter().filter(|b| b.counts.limited > 0).collect();
    let requests: i64 = hot.iter().map(|b| b.counts.requests).sum();
    let retries: i64 = hot.iter().map(|b| b.counts.retries).sum();
    let attempts = requests + retries;
    let ratio = Ratio::new(retries, attempts);
    let Some(part) = ratio.share().filter(|_| attempts >= SHARE_FLOOR) else { return };
    let finding = if part >= RETRIES_SPEND_FROM {
        Finding::new(
            "retries-spend-window",
            format!(
                "Retries are {} of the {} sent while refusals came: they spend the allowance that \
                 first attempts need.",
                percent(part),
                many(attempts, "attempt")
            ),
        )
        .rows(a.attempts.iter().copied().filter(|s| s.event.attempt > 1).collect())
    } else {
        Finding::note(
            "first-attempts-spend-window",
            format!(
                "First attempts are {} of the {} sent while refusals came: the work itself exceeds \
                 the limit, and tuning retries alone won't help.",
                percent(1.0 - part),
                many(attempts, "attempt")
            ),
        )
        .rows(a.limited_attempts().filter(|s| s.event.attempt == 1).collect())
    };
    answer.findings.push(
        finding
            .number("First attempts", count(requests))
            .number("Retries", count(retries))
            .number("Share of retries", share_with_interval(ratio)),
    );
}

/// Which fields would make the answer better.
fn missing(looked: &[Looked<'_>], answer: &mut Answer) {
    let fields: Vec<String> = looked
        .iter()
        .filter(|l| !l.is_known())
        .filter_map(|l| match l.dimension {
            Dimension::Key => Some("`key_hash`"),
            Dimension::Address => Some("`client_address_hash`"),
            Dimension::Account => Some("`account_hash`"),
            Dimension::Route => Some("`route`"),
            Dimension::Instance => Some("`instance`"),
            _ => None,
        })
        .map(ToOwned::to_owned)
        .collect();
    if !fields.is_empty() {
        answer.next.push(NextAction::text(format!(
            "Send {} with each attempt to tell by {} too.",
            list(&fields),
            if fields.len() == 1 { "it" } else { "them" }
        )));
    }
}
