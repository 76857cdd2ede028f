//! PHP: Laravel's throttle, WordPress, and PHP itself.

use super::has_limit_fields;
use crate::domain::classify::claim::{Claim, Rule, Sheet, Signature};
use crate::domain::classify::facts::{Facts, starts_with_ci};
use crate::domain::classify::{LimitType, LimitUnit, Responder, Weight};

static PH_1: Rule = Rule::new("PH-1", "https://laravel.com/docs/routing#rate-limiting");
static PH_2: Rule = Rule::new("PH-2", "https://www.php.net/manual/en/ini.core.php#ini.expose-php");
static PH_3: Rule = Rule::new(
    "PH-3",
    "https://developer.wordpress.org/rest-api/extending-the-rest-api/adding-custom-endpoints/",
);
static PH_4: Rule = Rule::new("PH-4", "https://symfony.com/doc/current/rate_limiter.html");

pub(crate) static SIGNATURE: Signature =
    Signature { id: "php-apps", rules: &[&PH_1, &PH_2, &PH_3, &PH_4], look };

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    if facts.get("x-powered-by").is_some_and(|value| starts_with_ci(value, "php")) {
        sheet.add(
            Claim::at(&PH_2, Responder::Origin, Weight::Strong, facts.quote("x-powered-by"))
                .group("framework"),
        );
    }
    if facts.status < 400 {
        return;
    }
    let is_laravel_text = facts.json_value("message") == Some("Too Many Attempts.");
    // Its other cookie, `XSRF-TOKEN`, is set by frameworks of other languages too.
    let has_session = facts.holds("set-cookie", "laravel_session=");
    if facts.status == 429 && (is_laravel_text || has_session) {
        let weight = if is_laravel_text && has_limit_fields(facts) || has_session {
            Weight::Strong
        } else {
            Weight::Medium
        };
        sheet.add(
            Claim::at(
                &PH_1,
                Responder::Origin,
                weight,
                "Laravel's throttle: its text, fields or session",
            )
            .limit(LimitType::Rate, 0.85)
            .unit(LimitUnit::Requests),
        );
    }
    let has = |key| facts.json_value(key).is_some();
    let is_word_press = facts
        .json()
        .any(|f| f.key == "status" && f.depth == 2 && f.value.parse() == Ok(facts.status));
    if has("code") && has("message") && is_word_press && facts.says("\"data\"") {
        sheet.add(Claim::at(
            &PH_3,
            Responder::Origin,
            Weight::Medium,
            "the error object of WordPress's REST API",
        ));
    }
    if facts.has("x-ratelimit-retry-after") && facts.status == 429 {
        sheet.add(
            Claim::at(
                &PH_4,
                Responder::Origin,
                Weight::Medium,
                facts.quote("x-ratelimit-retry-after"),
            )
            .limit(LimitType::Rate, 0.85)
            .unit(LimitUnit::Requests),
        );
    }
}
