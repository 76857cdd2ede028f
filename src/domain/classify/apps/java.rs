//! Java: Spring Boot's error object, Bucket4j, Resilience4j, and the pages of servlet containers.

use crate::domain::classify::claim::{Claim, Rule, Sheet, Signature};
use crate::domain::classify::facts::Facts;
use crate::domain::classify::{LimitType, LimitUnit, Responder, Weight};

static JV_1: Rule = Rule::new(
    "JV-1",
    "https://docs.spring.io/spring-boot/reference/web/servlet.html#web.servlet.spring-mvc.error-handling",
);
static JV_2: Rule =
    Rule::new("JV-2", "https://github.com/MarcGiffing/bucket4j-spring-boot-starter");
static JV_3: Rule = Rule::new("JV-3", "https://resilience4j.readme.io/docs/ratelimiter");
static JV_4: Rule = Rule::new("JV-4", "https://resilience4j.readme.io/docs/bulkhead");
static JV_5: Rule = Rule::new(
    "JV-5",
    "https://tomcat.apache.org/tomcat-10.1-doc/config/valve.html#Error_Report_Valve",
);

pub(crate) static SIGNATURE: Signature =
    Signature { id: "java-apps", rules: &[&JV_1, &JV_2, &JV_3, &JV_4, &JV_5], look };

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    if facts.status < 400 {
        return;
    }
    let has = |key| facts.json_value(key).is_some();
    if has("timestamp") && has("status") && has("error") && has("path") {
        // With a request id it is WebFlux, on which gateways are built as well.
        let weight = if has("requestId") { Weight::Medium } else { Weight::Strong };
        sheet.add(
            Claim::at(&JV_1, Responder::Origin, weight, "Spring Boot's error object")
                .group("body-form"),
        );
    }
    let bucket = ["x-rate-limit-retry-after-seconds", "x-rate-limit-retry-after-milliseconds"]
        .into_iter()
        .find(|name| facts.has(name));
    if let Some(name) = bucket
        && facts.status == 429
    {
        sheet.add(
            Claim::at(&JV_2, Responder::Origin, Weight::Strong, facts.quote(name))
                .limit(LimitType::Rate, 0.9)
                .unit(LimitUnit::Requests),
        );
    }
    if facts.says("requestnotpermitted") || facts.says("does not permit further calls") {
        let is_bulkhead = facts.says("bulkhead");
        let is_breaker = facts.says("circuitbreaker");
        let (rule, kind) = match (is_bulkhead, is_breaker) {
            (true, _) => (&JV_4, LimitType::Concurrency),
            (_, true) => (&JV_3, LimitType::Overload),
            _ => (&JV_3, LimitType::Rate),
        };
        sheet.add(
            Claim::at(
                rule,
                Responder::Origin,
                Weight::Strong,
                "the text of Resilience4j's refusal",
            )
            .group("body-form")
            .limit(kind, 0.9),
        );
    }
    let is_container = facts.says("<h1>http status ")
        || facts.says("powered by jetty")
        || facts.says("apache tomcat/");
    if is_container && facts.body.starts_with('<') {
        sheet.add(
            Claim::at(
                &JV_5,
                Responder::Origin,
                Weight::Strong,
                "the error page of a servlet container",
            )
            .group("framework"),
        );
    }
}
