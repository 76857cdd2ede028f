//! Go: tollbooth, ulule/limiter, Echo and what `http.Error` leaves behind.

use super::has_limit_fields;
use crate::domain::classify::claim::{Claim, Rule, Sheet, Signature};
use crate::domain::classify::facts::Facts;
use crate::domain::classify::{LimitType, LimitUnit, Responder, Weight};

static GO_1: Rule =
    Rule::new("GO-1", "https://github.com/didip/tollbooth/blob/master/tollbooth.go");
static GO_2: Rule = Rule::new("GO-2", "https://github.com/ulule/limiter#limiter-middleware");
static GO_3: Rule = Rule::new("GO-3", "https://echo.labstack.com/docs/middleware/rate-limiter");
static GO_4: Rule = Rule::new("GO-4", "https://pkg.go.dev/net/http#Error");

pub(crate) static SIGNATURE: Signature =
    Signature { id: "go-limiters", rules: &[&GO_1, &GO_2, &GO_3, &GO_4], look };

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    if facts.status != 429 {
        return;
    }
    let rate =
        |claim: Claim, chance| claim.limit(LimitType::Rate, chance).unit(LimitUnit::Requests);
    let has_duration = facts.has("x-rate-limit-duration") && facts.has("x-rate-limit-limit");
    let is_text = facts.body.starts_with("You have reached maximum request limit");
    if has_duration || is_text {
        sheet.add(rate(
            Claim::at(
                &GO_1,
                Responder::Origin,
                Weight::Strong,
                "tollbooth's fields or its default text",
            )
            .group("body-form"),
            0.9,
        ));
    }
    if facts.body == "Limit exceeded" && has_limit_fields(facts) {
        sheet.add(rate(
            Claim::at(
                &GO_2,
                Responder::Origin,
                Weight::Strong,
                "limiter's default text with its fields",
            )
            .group("body-form"),
            0.9,
        ));
    }
    let is_echo = facts.json().all(|f| f.key == "message")
        && facts.json_value("message") == Some("rate limit exceeded");
    if is_echo {
        sheet.add(rate(
            Claim::at(
                &GO_3,
                Responder::Origin,
                Weight::Medium,
                "the default error of Echo's limiter",
            )
            .group("body-form"),
            0.8,
        ));
    }
    if facts.is("x-content-type-options", "nosniff")
        && facts.get("content-type").is_some_and(|value| value == "text/plain; charset=utf-8")
    {
        sheet.add(
            Claim::at(
                &GO_4,
                Responder::Origin,
                Weight::Weak,
                "plain text with nosniff, as Go's http.Error writes",
            )
            .group("body-form"),
        );
    }
}
