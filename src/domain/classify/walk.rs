//! From claims to an answer: the path is walked from the client's side inwards, and at each hop
//! two opposite claims are weighed, "it wrote the response" and "something behind it did"
//! (gateways.md 3.2, 3.5 and 3.7).

use super::claim::{Claim, Sheet};
use super::{Certainty, Responder, Says, Weight};

/// Where both claims start: the missing mass is "not known", so one hint never decides.
const PRIOR_ODDS: f64 = 0.2;
/// Odds that the application answered where no hop is seen at all and something speaks for it.
const MARKED_ORIGIN_ODDS: f64 = 3.0;
/// The same where nothing speaks for anyone: of labelled answers of that sort 14 of 21 were the
/// origin's where that can be settled, 14 of 29 counting those where it can not.
const BARE_ORIGIN_ODDS: f64 = 1.25;
/// From here on a claim is accepted.
const ACCEPTED: f64 = 0.5;
/// No `likely` verdict is surer than this.
const LIKELY_CAP: f64 = 0.79;
/// The least chance of a `confident` verdict.
const CONFIDENT: f64 = 0.90;
/// No verdict is surer than this: any header can be copied.
const MOST: f64 = 0.999;
/// The least chance of a `certain` verdict.
const CERTAIN: f64 = 0.99;

/// Who answered, and how sure that is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    /// The component, `unknown` where nothing was accepted.
    pub(crate) responder: Responder,
    /// Calibrated chance that it is right; for `unknown` the best chance of anything else.
    pub(crate) chance: f64,
    /// Where the walk stopped without an answer.
    pub(crate) stopped_at: Option<Responder>,
    /// Hops on the path, from the client's side inwards.
    pub(crate) hops: Vec<Responder>,
    /// Contradictions, in words.
    pub(crate) conflicts: Vec<String>,
}

/// The word for a chance.
pub(crate) fn certainty(responder: Responder, chance: f64) -> Certainty {
    match chance {
        _ if responder == Responder::Unknown => Certainty::Unknown,
        c if c >= CERTAIN => Certainty::Certain,
        c if c >= CONFIDENT => Certainty::Confident,
        c if c >= ACCEPTED => Certainty::Likely,
        _ => Certainty::Unknown,
    }
}

/// Odds as a chance.
fn chance(odds: f64) -> f64 {
    odds / (1.0 + odds)
}

/// Keeps a chance inside the bands: `certain` needs a proof, `confident` a proof or something
/// strong, a contradiction allows no more than `likely`, and nothing lies between 0.79 and 0.90.
fn settle(chance: f64, best: Weight, conflict: bool) -> f64 {
    let mut settled = chance;
    if best != Weight::Proof {
        settled = settled.min(0.989);
    }
    if conflict || !best.is_strong() || settled < CONFIDENT {
        settled = settled.min(LIKELY_CAP);
    }
    ((settled * 1000.0).round() / 1000.0).min(MOST)
}

/// The combined weight of claims: the heaviest of each group, multiplied.
#[derive(Debug, Clone, Copy)]
struct Mass {
    ratio: f64,
    best: Weight,
}

fn mass<'a>(claims: impl Iterator<Item = &'a Claim>) -> Mass {
    let mut heaviest: Vec<(&str, Weight)> = Vec::new();
    for claim in claims {
        match heaviest.iter_mut().find(|(group, _)| *group == claim.group) {
            Some((_, weight)) => *weight = heavier(*weight, claim.weight),
            None => heaviest.push((claim.group, claim.weight)),
        }
    }
    // Sorted, so that the product does not depend on the order of the claims.
    heaviest.sort_unstable_by_key(|(_, weight)| *weight);
    Mass {
        ratio: heaviest.iter().map(|(_, weight)| weight.ratio()).product(),
        best: heaviest.first().map_or(Weight::None, |(_, weight)| *weight),
    }
}

/// The combined weight of claims as a ratio of odds.
pub(crate) fn ratio<'a>(claims: impl Iterator<Item = &'a Claim>) -> f64 {
    mass(claims).ratio
}

/// The chance of a claim that starts where every claim starts, given what speaks for and against.
pub(crate) fn from_even(pro: f64, contra: f64) -> f64 {
    chance(PRIOR_ODDS * pro / contra)
}

fn heavier(a: Weight, b: Weight) -> Weight {
    // The enum runs from proof to none.
    a.min(b)
}

/// Where a product usually stands; lower is nearer to the client.
const fn usual_place(responder: Responder) -> u8 {
    match responder {
        Responder::Client => 0,
        Responder::Cloudflare => 10,
        Responder::Akamai => 11,
        Responder::Fastly => 12,
        Responder::AzureFrontDoor => 13,
        Responder::Cloudfront => 14,
        Responder::Vercel => 15,
        Responder::HostingerCdn => 16,
        Responder::F5DistributedCloud => 17,
        Responder::Gcp => 18,
        Responder::AwsWaf => 20,
        Responder::AwsAlb => 21,
        Responder::AwsApiGateway => 22,
        Responder::AzureApim => 23,
        Responder::Apigee => 24,
        Responder::Haproxy => 30,
        Responder::Nginx => 31,
        Responder::Apache => 32,
        Responder::Traefik => 33,
        Responder::Caddy => 34,
        Responder::Varnish => 35,
        Responder::Trafficserver => 36,
        Responder::Squid => 37,
        Responder::Kong => 40,
        Responder::Apisix => 41,
        Responder::Tyk => 42,
        Responder::Krakend => 43,
        Responder::SpringCloudGateway => 44,
        Responder::Apiman => 45,
        Responder::Envoy => 50,
        Responder::AwsLambda => 55,
        Responder::Workerd => 56,
        Responder::Origin | Responder::Unknown => 99,
    }
}

/// The hops from the client's side inwards: a cache that replays stands outside of what it
/// stored; a product that made the response itself stands inside of everything that only relayed
/// it; the rest by where products usually stand. `outer` names the product that replaces `Server`
/// on whatever it relays, `declared` is the path as the sender knows it.
fn order(sheet: &Sheet, outer: Option<Responder>, declared: &[Responder]) -> Vec<Responder> {
    let mut hops: Vec<Responder> = Vec::new();
    let seen = sheet.claims.iter().filter(|c| c.says != Says::Limit).map(|c| c.about);
    for hop in seen.chain(declared.iter().copied()) {
        if !matches!(hop, Responder::Origin | Responder::Unknown) && !hops.contains(&hop) {
            hops.push(hop);
        }
    }
    let place = |hop: Responder| {
        let of_hop = || sheet.claims.iter().filter(move |c| c.about == hop);
        let replays = of_hop().any(Claim::is_replay);
        let made_it = of_hop().any(|c| c.says == Says::At && c.weight.is_strong());
        let usual = usual_place(hop);
        let near = if outer == Some(hop) { usual.min(25) } else { usual };
        let by_path = declared.iter().position(|d| *d == hop);
        (by_path.is_none(), by_path, !replays, made_it, near)
    };
    hops.sort_by_key(|hop| place(*hop));
    hops
}

/// Walks the path.
pub(crate) fn walk(sheet: &Sheet, outer: Option<Responder>, declared: &[Responder]) -> Answer {
    let hops = order(sheet, outer, declared);
    let markers =
        || sheet.claims.iter().filter(|c| c.about == Responder::Origin && c.says == Says::At);
    let mut conflicts = sheet.conflicts.clone();
    let mut chain = 1.0_f64;
    let mut chain_best = Weight::Proof;
    let mut chain_conflict = false;
    for (index, &hop) in hops.iter().enumerate() {
        let deeper = hops.get(index + 1..).unwrap_or_default();
        let about = |says| sheet.claims.iter().filter(move |c| c.about == hop && c.says == says);
        let replays = about(Says::At).any(Claim::is_replay);
        let at = mass(about(Says::At));
        // What stands behind a cache that replays says who made the stored response.
        let behind = mass(about(Says::Behind).chain(sheet.claims.iter().filter(|c| {
            !replays
                && (deeper.contains(&c.about) && matches!(c.says, Says::At | Says::Behind)
                    || c.about == Responder::Origin && c.says == Says::At)
        })));
        let p_at = chance(PRIOR_ODDS * at.ratio / behind.ratio);
        let p_behind = chance(PRIOR_ODDS * behind.ratio / at.ratio);
        let contradicted = at.best.is_strong() && behind.best.is_strong();
        if contradicted {
            conflicts.push(format!(
                "strong evidence both that {hop} wrote the response and that something behind it did"
            ));
        }
        if p_at >= ACCEPTED {
            let best = at.best.max(chain_best);
            let settled = settle(p_at.min(chain), best, contradicted || chain_conflict);
            return Answer { responder: hop, chance: settled, stopped_at: None, hops, conflicts };
        }
        if p_behind < ACCEPTED {
            let best = p_at.max(p_behind);
            let chance = (best * 1000.0).round() / 1000.0;
            let responder = Responder::Unknown;
            return Answer { responder, chance, stopped_at: Some(hop), hops, conflicts };
        }
        chain = chain.min(p_behind);
        chain_best = chain_best.max(behind.best);
        chain_conflict |= contradicted;
    }
    let marked = mass(markers());
    let unnamed = |c: &&Claim| c.about == Responder::Unknown && c.says == Says::At;
    if mass(sheet.claims.iter().filter(unnamed)).ratio > marked.ratio {
        // A product without a name of its own here answered.
        let responder = Responder::Unknown;
        let stopped_at = hops.last().copied();
        return Answer { responder, chance: 0.0, stopped_at, hops, conflicts };
    }
    let whole_path_known = !declared.is_empty();
    let (raw, best) = if marked.best.is_strong() {
        (chance(PRIOR_ODDS * marked.ratio).min(chain), marked.best.max(chain_best))
    } else if whole_path_known {
        (chain, chain_best)
    } else if hops.is_empty() {
        let is_marked = markers().any(|c| c.rule.is_observed());
        let odds = match (is_marked, sheet.is_extract) {
            (true, _) => MARKED_ORIGIN_ODDS,
            (false, false) => BARE_ORIGIN_ODDS,
            (false, true) => PRIOR_ODDS,
        };
        let elsewhere = if sheet.claimed.is_some() { Weight::Weak } else { Weight::None };
        (chance(odds * marked.ratio / elsewhere.ratio()), Weight::Medium)
    } else {
        (chain, Weight::Medium)
    };
    let settled = settle(raw, best, chain_conflict || !conflicts.is_empty());
    if settled < ACCEPTED {
        let responder = Responder::Unknown;
        return Answer {
            responder,
            chance: settled,
            stopped_at: hops.last().copied(),
            hops,
            conflicts,
        };
    }
    Answer { responder: Responder::Origin, chance: settled, stopped_at: None, hops, conflicts }
}

#[cfg(test)]
mod tests {
    use super::super::claim::Rule;
    use super::*;

    static R: Rule = Rule::new("T-1", "https://example.com/");

    fn answer(claims: Vec<Claim>) -> (Responder, f64) {
        let sheet = Sheet { claims, ..Sheet::default() };
        let answer = walk(&sheet, None, &[]);
        (answer.responder, answer.chance)
    }

    #[test]
    fn the_table_of_net_evidence_holds_in_its_bands() {
        use Weight::{Medium, None as Presence, Proof, Strong, Weak};
        let at = |weights: &[Weight]| {
            const GROUPS: [&str; 3] = ["a", "b", "c"];
            let claims = weights
                .iter()
                .zip(GROUPS)
                .map(|(w, group)| Claim::at(&R, Responder::Envoy, *w, "seen").group(group));
            answer(claims.collect())
        };
        let table: &[(&[Weight], Responder, f64)] = &[
            (&[Proof], Responder::Envoy, 0.995),
            (&[Strong, Strong], Responder::Envoy, 0.989),
            (&[Strong, Medium], Responder::Envoy, 0.973),
            (&[Strong, Weak], Responder::Envoy, 0.923),
            (&[Strong], Responder::Envoy, 0.79),
            (&[Medium, Medium], Responder::Envoy, 0.79),
            (&[Medium, Medium, Weak], Responder::Envoy, 0.79),
            (&[Medium, Weak], Responder::Envoy, 0.706),
            (&[Medium], Responder::Envoy, 0.545),
            (&[Weak, Weak], Responder::Unknown, 0.444),
            (&[Presence], Responder::Unknown, 0.167),
        ];
        for (weights, responder, chance) in table {
            assert_eq!(at(weights), (*responder, *chance), "{weights:?}");
        }
    }

    #[test]
    fn claims_of_one_group_count_once() {
        let claim = || Claim::at(&R, Responder::Envoy, Weight::Strong, "seen").group("page");
        assert_eq!(answer(vec![claim(), claim()]), (Responder::Envoy, 0.79));
    }

    #[test]
    fn strong_against_strong_is_unknown_and_says_so() {
        let sheet = Sheet {
            claims: vec![
                Claim::at(&R, Responder::Kong, Weight::Strong, "seen"),
                Claim::behind(&R, Responder::Kong, Weight::Strong, "seen"),
            ],
            ..Sheet::default()
        };
        let answer = walk(&sheet, None, &[]);
        assert_eq!((answer.responder, answer.chance), (Responder::Unknown, 0.167));
        assert_eq!(answer.stopped_at, Some(Responder::Kong));
        assert_eq!(answer.conflicts.len(), 1);
    }

    #[test]
    fn a_generator_behind_a_relay_answered() {
        let (responder, chance) = answer(vec![
            Claim::on_path(&R, Responder::Cloudfront, "via"),
            Claim::at(&R, Responder::AwsApiGateway, Weight::Proof, "error type"),
        ]);
        assert_eq!(responder, Responder::AwsApiGateway);
        assert!(chance > 0.99, "{chance}");
    }

    #[test]
    fn a_replaying_cache_answers_before_the_one_whose_page_it_stored() {
        let (responder, _) = answer(vec![
            Claim::at(&R, Responder::Varnish, Weight::Proof, "two ids")
                .limit(super::super::LimitType::Cached, 0.99),
            Claim::at(&R, Responder::Envoy, Weight::Strong, "body").group("body"),
        ]);
        assert_eq!(responder, Responder::Varnish);
    }

    #[test]
    fn behind_every_hop_is_the_origin_and_no_more_than_likely() {
        let relayed = || Claim::behind(&R, Responder::Envoy, Weight::Proof, "log");
        assert_eq!(answer(vec![relayed()]), (Responder::Origin, 0.79));
        let sheet = Sheet { claims: vec![relayed()], ..Sheet::default() };
        let declared = walk(&sheet, None, &[Responder::Envoy]);
        assert_eq!((declared.responder, declared.chance), (Responder::Origin, 0.995));
    }

    #[test]
    fn a_declared_hop_without_evidence_stops_the_walk() {
        let sheet = Sheet::default();
        let answer = walk(&sheet, None, &[Responder::Nginx]);
        assert_eq!(answer.responder, Responder::Unknown);
        assert_eq!(answer.stopped_at, Some(Responder::Nginx));
    }
}
