//! Python: Django REST framework, Flask-Limiter and Werkzeug, SlowAPI, uvicorn.

use super::kind_of_window;
use crate::domain::classify::claim::{Claim, Rule, Sheet, Signature};
use crate::domain::classify::facts::Facts;
use crate::domain::classify::{LimitType, LimitUnit, Responder, Weight};

static PY_1: Rule =
    Rule::new("PY-1", "https://www.django-rest-framework.org/api-guide/throttling/");
static PY_2: Rule =
    Rule::new("PY-2", "https://github.com/pallets/werkzeug/blob/main/src/werkzeug/exceptions.py");
static PY_3: Rule =
    Rule::new("PY-3", "https://github.com/laurentS/slowapi/blob/master/slowapi/extension.py");
static PY_4: Rule = Rule::new("PY-4", "https://www.uvicorn.org/settings/#resource-limits");
static PY_5: Rule = Rule::new("PY-5", "https://fastapi.tiangolo.com/tutorial/handling-errors/");

pub(crate) static SIGNATURE: Signature =
    Signature { id: "python-apps", rules: &[&PY_1, &PY_2, &PY_3, &PY_4, &PY_5], look };

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    if facts.status == 503 && facts.server_is("uvicorn") && facts.body == "Service Unavailable" {
        sheet.add(
            Claim::at(
                &PY_4,
                Responder::Origin,
                Weight::Strong,
                "uvicorn's answer above limit_concurrency",
            )
            .group("framework")
            .limit(LimitType::Concurrency, 0.9)
            .unit(LimitUnit::Concurrency),
        );
    }
    if facts.status != 429 {
        return;
    }
    let detail = facts.json_value("detail");
    if detail.is_some_and(|text| text.starts_with("Request was throttled")) {
        sheet.add(
            Claim::at(
                &PY_1,
                Responder::Origin,
                Weight::Strong,
                "the detail text of the framework's throttling",
            )
            .group("body-form")
            .limit(LimitType::Rate, 0.9)
            .unit(LimitUnit::Requests),
        );
    } else if detail.is_some() && facts.json().all(|field| field.depth > 1 || field.key == "detail")
    {
        sheet.add(
            Claim::at(
                &PY_5,
                Responder::Origin,
                Weight::Medium,
                "an object that holds nothing but detail",
            )
            .group("body-form"),
        );
    }
    let is_page =
        facts.says("<title>429 too many requests</title>\n<h1>too many requests</h1>\n<p>");
    if is_page {
        let policy = facts.lower().rsplit_once("<p>").map_or("", |(_, rest)| rest);
        // Flask-Limiter puts the limit itself into the paragraph: "20 per 1 minute".
        let is_limit = policy.starts_with(|c: char| c.is_ascii_digit()) && policy.contains(" per ");
        let claim = Claim::at(&PY_2, Responder::Origin, Weight::Strong, "Werkzeug's page for 429")
            .group("body-form");
        sheet.add(if is_limit {
            claim.limit(kind_of_window(policy), 0.85).unit(LimitUnit::Requests)
        } else {
            claim.limit(LimitType::Rate, 0.65)
        });
    }
    let slow =
        facts.json_value("error").and_then(|text| text.strip_prefix("Rate limit exceeded: "));
    if let Some(policy) = slow.filter(|policy| policy.contains(" per ")) {
        sheet.add(
            Claim::at(
                &PY_3,
                Responder::Origin,
                Weight::Strong,
                format!("SlowAPI names the limit {policy:?}"),
            )
            .group("body-form")
            .limit(kind_of_window(policy), 0.9)
            .unit(LimitUnit::Requests),
        );
    }
}
