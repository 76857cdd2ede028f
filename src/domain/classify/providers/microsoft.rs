//! Microsoft: Azure Resource Manager, data services, Graph and Dynamics.

use super::{Api, Code, concurrency, json_code, overload, quota, rate, xml_code};
use crate::domain::classify::claim::{Claim, Rule, Sheet, Signature};
use crate::domain::classify::facts::Facts;
use crate::domain::classify::{LimitType, LimitUnit, Responder, Weight};

static MS_1: Rule = Rule::new(
    "MS-1",
    "https://learn.microsoft.com/azure/azure-resource-manager/management/request-limits-and-throttling",
);
static MS_2: Rule = Rule::new("MS-2", "https://learn.microsoft.com/graph/throttling");
static MS_3: Rule = Rule::new(
    "MS-3",
    "https://learn.microsoft.com/rest/api/cosmos-db/http-status-codes-for-cosmosdb",
);
static MS_4: Rule =
    Rule::new("MS-4", "https://learn.microsoft.com/power-apps/developer/data-platform/api-limits");
static MS_5: Rule = Rule::new(
    "MS-5",
    "https://learn.microsoft.com/rest/api/storageservices/common-rest-api-error-codes",
);

pub(crate) static SIGNATURE: Signature =
    Signature { id: "microsoft", rules: &[&MS_1, &MS_2, &MS_3, &MS_4, &MS_5], look };

const APIS: &[Api] = &[
    Api {
        name: "microsoft",
        domains: &["graph.microsoft.com", "sharepoint.com", "api.office.com"],
    },
    Api {
        name: "azure",
        domains: &[
            "management.azure.com",
            "documents.azure.com",
            "openai.azure.com",
            "cognitiveservices.azure.com",
            "core.windows.net",
            "vault.azure.net",
            "search.windows.net",
            "servicebus.windows.net",
            "dev.azure.com",
        ],
    },
    Api { name: "dynamics", domains: &["dynamics.com"] },
];

const CODES: &[Code] = &[
    quota("QuotaExceeded"),
    concurrency("ErrorExceededConnectionCount"),
    concurrency("-2147015898"),
    concurrency("0x80072326"),
    overload("ServerBusy"),
    overload("ServerTimeout"),
    overload("ServiceUnavailable"),
    rate("activityLimitReached"),
    rate("TooManyRequests"),
    rate("ApplicationThrottled"),
    rate("SubscriptionRequestsThrottled"),
    rate("TenantRequestsThrottled"),
    rate("RateLimitReached"),
    rate("RequestThrottled"),
    rate("ErrorServerBusy"),
    rate("throttledRequest"),
    rate("Throttled"),
    rate("-2147015902"),
    rate("-2147015903"),
    rate("0x80072322"),
    rate("0x80072321"),
];

/// Headers that only Microsoft's services write, with the rule and what is known by them.
const MARKS: &[(&str, &Rule, &str)] = &[
    ("x-ms-ratelimit-", &MS_1, "azure"),
    ("x-ms-routing-request-id", &MS_1, "azure"),
    ("x-ms-ags-diagnostic", &MS_2, "microsoft-graph"),
    ("x-ms-throttle-", &MS_2, "microsoft-graph"),
    ("x-ms-resource-unit", &MS_2, "microsoft-graph"),
    ("x-ms-substatus", &MS_3, "azure-cosmos-db"),
    ("x-ms-request-charge", &MS_3, "azure-cosmos-db"),
    ("x-ms-time-remaining-xrm-requests", &MS_4, "dynamics"),
    ("x-ms-burst-remaining-xrm-requests", &MS_4, "dynamics"),
    ("x-ms-service-request-id", &MS_4, "dynamics"),
];

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    let owner = APIS.iter().find(|api| api.owns(facts));
    let is_owned = owner.is_some();
    let refuses = matches!(facts.status, 429 | 503);
    for (prefix, rule, provider) in MARKS {
        let Some((name, value)) = facts.first_with_prefix(prefix) else { continue };
        let shown: String = value.chars().take(60).collect();
        let weight = if is_owned { Weight::Proof } else { Weight::Strong };
        let mut claim = Claim::at(rule, Responder::Origin, weight, format!("{name}: {shown}"))
            .group("microsoft-mark")
            .provider(provider);
        if facts.status == 429 {
            let unit =
                if *provider == "azure-cosmos-db" { LimitUnit::Cost } else { LimitUnit::Unknown };
            let chance = if value == "3200" { 0.97 } else { 0.8 };
            claim = claim.limit(LimitType::Rate, chance).unit(unit);
        }
        sheet.add(claim);
        break;
    }
    if !is_owned && !facts.has("x-ms-request-id") || facts.status < 400 {
        return;
    }
    let code = json_code(facts, CODES).or_else(|| xml_code(facts, CODES));
    if let Some(code) = code {
        // A busy server answers 503 or 500; with another status the word stands for less.
        let is_sure = code.kind != LimitType::Overload || facts.status == 503;
        let weight = if is_owned { Weight::Strong } else { Weight::Medium };
        let mut claim = Claim::at(
            &MS_5,
            Responder::Origin,
            weight,
            format!("the documented code {}", code.word),
        )
        .group("microsoft-code")
        .provider(owner.map_or("microsoft", |api| api.name));
        // Outlook tells its limit on requests in flight by the sentence alone.
        if code.word == "ServerBusy" && facts.says("over the account limit") {
            // Storage tells an account's limit from its own overload by the message alone.
            claim = claim.limit(LimitType::Rate, 0.95).unit(LimitUnit::Unknown);
        } else if facts.says("mailboxconcurrency limit") {
            claim = claim.limit(LimitType::Concurrency, 0.9).unit(LimitUnit::Concurrency);
        } else if is_sure {
            claim = claim.limit(code.kind, 0.9).unit(code.unit);
        }
        sheet.add(claim);
    } else if is_owned
        && refuses
        && (facts.has("x-ms-request-id") || facts.has("x-ms-retry-after-ms"))
    {
        let mut claim = Claim::at(
            &MS_5,
            Responder::Origin,
            Weight::Strong,
            "a request id of Azure's services on its own host",
        )
        .group("microsoft-code")
        .provider(owner.map_or("microsoft", |api| api.name));
        if facts.status == 429 {
            claim = claim.limit(LimitType::Rate, 0.75);
        }
        sheet.add(claim);
    }
}
