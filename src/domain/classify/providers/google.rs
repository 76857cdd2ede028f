//! Google APIs: a status word, a reason per error, and quota details that name the window.

use super::{Api, Code, concurrency, json_code, overload, quota, rate};
use crate::domain::classify::claim::{Claim, Rule, Sheet, Signature};
use crate::domain::classify::facts::{Facts, contains_ci};
use crate::domain::classify::{LimitType, LimitUnit, Responder, Weight};

static GG_1: Rule = Rule::new("GG-1", "https://cloud.google.com/apis/design/errors");
static GG_2: Rule =
    Rule::new("GG-2", "https://developers.google.com/drive/api/guides/handle-errors");
static GG_3: Rule = Rule::new(
    "GG-3",
    "https://developers.google.com/maps/documentation/geocoding/requests-geocoding",
);
static GG_4: Rule = Rule::new("GG-4", "https://support.google.com/websearch/answer/86640");

pub(crate) static SIGNATURE: Signature =
    Signature { id: "google-apis", rules: &[&GG_1, &GG_2, &GG_3, &GG_4], look };

const API: Api = Api { name: "google", domains: &["googleapis.com"] };
const SITES: Api = Api { name: "google-search", domains: &["google.com"] };

/// Reasons that are specific, before the status word that stands for all of them.
const REASONS: &[Code] = &[
    quota("quotaExceeded"),
    quota("dailyLimitExceeded"),
    quota("dailyLimitExceededUnreg"),
    quota("variableTermLimitExceeded"),
    quota("uploadLimitExceeded"),
    quota("sharingRateLimitExceeded"),
    concurrency("concurrentLimitExceeded"),
    overload("backendError"),
    overload("MODEL_CAPACITY_EXHAUSTED"),
    rate("userRateLimitExceeded"),
    rate("userRateLimitExceededUnreg"),
    rate("rateLimitExceeded"),
    rate("rateLimitExceededUnreg"),
    rate("servingLimitExceeded"),
    rate("jobRateLimitExceeded"),
    rate("RATE_LIMIT_EXCEEDED"),
];

/// The `status` of Google's older web services, sent with 200.
const MAPS: &[Code] = &[quota("OVER_DAILY_LIMIT"), rate("OVER_QUERY_LIMIT")];

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    if SITES.domains.iter().any(|domain| facts.host_in(domain)) || SITES.is_stated(facts) {
        unusual_traffic(facts, sheet);
    }
    let is_owned = API.owns(facts);
    if is_owned
        && facts.is_json()
        && let Some(code) = MAPS.iter().find(|code| facts.json_value("status") == Some(code.word))
    {
        sheet.add(
            Claim::at(&GG_3, Responder::Origin, Weight::Strong, format!("status {}", code.word))
                .limit(code.kind, 0.9)
                .unit(LimitUnit::Requests)
                .provider("google"),
        );
    }
    if facts.status < 400 || !facts.is_json() {
        return;
    }
    // `RESOURCE_EXHAUSTED` with a `google.rpc` detail is this API's form wherever it is met.
    let has_details = facts.says("type.googleapis.com/google.rpc.");
    let is_exhausted = facts.json().any(|f| f.key == "status" && f.value == "RESOURCE_EXHAUSTED");
    let has_domain = facts.json().any(|f| {
        f.key == "domain" && matches!(f.value, "usageLimits" | "global" | "googleapis.com")
    });
    let is_form = is_owned || has_details || has_domain && facts.says("\"reason\"");
    if !is_form {
        return;
    }
    let weight = if is_owned { Weight::Strong } else { Weight::Medium };
    let named =
        |claim: Claim| if is_owned || has_details { claim.provider("google") } else { claim };
    let reason = json_code(facts, REASONS)
        .filter(|code| !matches!(code.word, "backendError") || facts.status == 503);
    if is_exhausted || reason.is_some() {
        let seen = match reason {
            Some(code) => format!("reason {}", code.word),
            None => "status RESOURCE_EXHAUSTED".to_owned(),
        };
        let (kind, chance) = kind(facts, reason);
        sheet.add(
            named(Claim::at(
                if reason.is_some() { &GG_2 } else { &GG_1 },
                Responder::Origin,
                weight,
                seen,
            ))
            .limit(kind, chance)
            .unit(unit(facts)),
        );
    } else if is_owned {
        sheet.add(named(Claim::at(
            &GG_1,
            Responder::Origin,
            Weight::Medium,
            "an error in Google's form",
        )));
    }
}

/// The kind of limit: the window of the quota decides where the details name it.
fn kind(facts: &Facts<'_>, reason: Option<&Code>) -> (LimitType, f64) {
    let names_window = |words: [&str; 3]| {
        facts.json().any(|f| {
            matches!(f.key, "quota_limit" | "quotaId" | "quota_unit" | "quota_metric" | "subject")
                && words.iter().any(|word| contains_ci(f.value, word))
        })
    };
    if names_window(["perday", "per_day", "/d/"]) {
        return (LimitType::Quota, 0.95);
    }
    if names_window(["perminute", "per_minute", "/min/"]) {
        return (LimitType::Rate, 0.95);
    }
    if facts.says("concurrent requests") {
        return (LimitType::Concurrency, 0.8);
    }
    reason.map_or((LimitType::Rate, 0.75), |code| (code.kind, 0.9))
}

fn unit(facts: &Facts<'_>) -> LimitUnit {
    let is_tokens = facts.json().any(|f| {
        matches!(f.key, "quotaMetric" | "quota_metric" | "quotaId") && contains_ci(f.value, "token")
    });
    if is_tokens { LimitUnit::Tokens } else { LimitUnit::Requests }
}

/// The page with a captcha that Google's sites send to an address with a bad reputation.
fn unusual_traffic(facts: &Facts<'_>, sheet: &mut Sheet) {
    let is_page = facts.path().starts_with("/sorry") || facts.says("unusual traffic");
    if facts.status == 429 && is_page {
        sheet.add(
            Claim::at(&GG_4, Responder::Origin, Weight::Strong, "the page about unusual traffic")
                .limit(LimitType::Security, 0.95)
                .reached(crate::domain::classify::Tri::No)
                .provider("google"),
        );
    }
}
