//! Traefik names itself in no header: `x-retry-in` and two bodies tell its limiters.

use super::claim::{Claim, Rule, Sheet, Signature};
use super::facts::Facts;
use super::{LimitType, LimitUnit, Responder, Tri, Weight};

const LIMITER: &str = "traefik/traefik pkg/middlewares/ratelimiter/rate_limiter.go";
const BALANCER: &str = "traefik/traefik pkg/server/service/loadbalancer";
const CONNLIMIT: &str = "vulcand/oxy connlimit/connlimit.go";

static TR_1: Rule = Rule::new("TR-1", LIMITER);
static TR_2: Rule = Rule::new("TR-2", CONNLIMIT);
static TR_3: Rule = Rule::new("TR-3", LIMITER);
static TR_4: Rule = Rule::new("TR-4", BALANCER);

/// The signature.
pub(crate) static SIGNATURE: Signature =
    Signature { id: "traefik", rules: &[&TR_1, &TR_2, &TR_3, &TR_4], look };

const WHO: Responder = Responder::Traefik;

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    if facts.status < 400 {
        return;
    }
    if let Some(wait) = facts.get("x-retry-in") {
        sheet.add(
            Claim::at(&TR_1, WHO, Weight::Strong, facts.quote("x-retry-in"))
                .reached(Tri::No)
                .limit(LimitType::Rate, 0.97)
                .unit(LimitUnit::Requests),
        );
        let rounded = go_seconds(wait).map(f64::ceil);
        let promised = facts.get("retry-after").and_then(|v| v.parse::<f64>().ok());
        if rounded.is_some() && rounded == promised {
            let seen = "retry-after is x-retry-in rounded up, as the limiter writes it";
            sheet.add(Claim::at(&TR_3, WHO, Weight::Medium, seen).group("traefik-wait"));
        }
    }
    if facts.body == "No bursty traffic allowed" {
        let seen = "body: No bursty traffic allowed";
        sheet.add(
            Claim::at(&TR_1, WHO, Weight::Strong, seen)
                .group("traefik-body")
                .signs_body()
                .limit(LimitType::Rate, 0.97)
                .unit(LimitUnit::Requests),
        );
    } else if facts.body == "no available server" && facts.status == 503 {
        let seen = "body: no available server";
        sheet.add(
            Claim::at(&TR_4, WHO, Weight::Medium, seen)
                .group("traefik-body")
                .signs_body()
                .reached(Tri::No),
        );
    } else if facts.body.starts_with("max connections reached") && facts.body.len() < 60 {
        let seen = "body: max connections reached";
        sheet.add(
            Claim::at(&TR_2, WHO, Weight::Strong, seen)
                .group("traefik-body")
                .signs_body()
                .limit(LimitType::Concurrency, 0.97),
        );
    }
}

/// A Go duration such as `1m2.5s` or `565.087221ms`, in seconds.
fn go_seconds(text: &str) -> Option<f64> {
    let mut rest = text.trim();
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let value: f64 = rest.get(..digits)?.parse().ok()?;
        let unit_and_rest = rest.get(digits..)?;
        let end = unit_and_rest
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(unit_and_rest.len());
        let factor = match unit_and_rest.get(..end)? {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" | "μs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        seconds += value * factor;
        rest = unit_and_rest.get(end..)?;
    }
    Some(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_durations_are_read() {
        assert_eq!(go_seconds("1m2.5s"), Some(62.5));
        assert_eq!(go_seconds("250ms"), Some(0.25));
        assert_eq!(go_seconds("12"), None);
        assert_eq!(go_seconds("1x"), None);
    }
}
