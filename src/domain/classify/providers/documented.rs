//! Providers whose limits are one documented code or one documented field: a line each.

use super::{Api, Code, bare_code, concurrency, overload, quota, rate, security};
use crate::domain::classify::claim::{Claim, Rule, Sheet, Signature};
use crate::domain::classify::facts::Facts;
use crate::domain::classify::{LimitType, Responder, Weight};

macro_rules! providers {
    ($($rule:ident $id:literal $name:literal [$($domain:literal),*] $source:literal
        marks [$($mark:literal),*] codes [$($code:expr),*];)+) => {
        $(static $rule: Rule = Rule::new($id, $source);)+

        pub(crate) static SIGNATURE: Signature =
            Signature { id: "documented-codes", rules: &[$(&$rule),+], look };

        const PROVIDERS: &[Provider] = &[$(Provider {
            api: Api { name: $name, domains: &[$($domain),*] },
            rule: &$rule,
            marks: &[$($mark),*],
            codes: &[$($code),*],
        }),+];
    };
}

/// A provider with what its documentation says of refusals.
struct Provider {
    api: Api,
    rule: &'static Rule,
    /// Beginnings of header names that only this provider writes.
    marks: &'static [&'static str],
    codes: &'static [Code],
}

providers! {
    HUBSPOT "DO-1" "hubspot" ["hubapi.com", "api.hubspot.com"]
        "https://developers.hubspot.com/docs/guides/apps/api-usage/usage-details"
        marks ["x-hubspot-"]
        codes [quota("DAILY"), rate("SECONDLY"),
               rate("TEN_SECONDLY_ROLLING"), rate("RATE_LIMITS"), rate("RATE_LIMIT")];
    OKTA "DO-2" "okta" ["okta.com", "oktapreview.com"]
        "https://developer.okta.com/docs/reference/rate-limits/"
        marks ["x-okta-request-id"]
        codes [rate("E0000047")];
    XERO "DO-3" "xero" ["api.xero.com"]
        "https://developer.xero.com/documentation/guides/oauth2/limits/"
        marks ["xero-correlation-id"]
        codes [];
    NOTION "DO-4" "notion" ["api.notion.com"]
        "https://developers.notion.com/reference/request-limits"
        marks ["x-notion-request-id"]
        codes [rate("rate_limited"), overload("service_unavailable")];
    AIRTABLE "DO-5" "airtable" ["api.airtable.com"]
        "https://airtable.com/developers/web/api/rate-limits"
        marks []
        codes [quota("PUBLIC_API_BILLING_LIMIT_EXCEEDED"), rate("RATE_LIMIT_REACHED")];
    TELEGRAM "DO-6" "telegram" ["api.telegram.org"]
        "https://core.telegram.org/bots/api#responseparameters"
        marks []
        codes [rate("429")];
    DROPBOX "DO-7" "dropbox" ["api.dropboxapi.com", "content.dropboxapi.com"]
        "https://developers.dropbox.com/error-handling-guide"
        marks ["x-dropbox-request-id"]
        codes [concurrency("too_many_write_operations"), rate("too_many_requests")];
    SPOTIFY "DO-8" "spotify" ["api.spotify.com"]
        "https://developer.spotify.com/documentation/web-api/concepts/rate-limits"
        marks []
        codes [rate("429")];
    PAYPAL "DO-9" "paypal" ["api-m.paypal.com", "api.paypal.com", "api-m.sandbox.paypal.com"]
        "https://developer.paypal.com/api/rest/responses/"
        marks ["paypal-debug-id"]
        codes [rate("RATE_LIMIT_REACHED")];
    PLAID "DO-10" "plaid" ["plaid.com"]
        "https://plaid.com/docs/errors/rate-limit-exceeded/"
        marks []
        codes [rate("RATE_LIMIT_EXCEEDED")];
    SQUARE "DO-11" "square" ["connect.squareup.com"]
        "https://developer.squareup.com/docs/build-basics/general-considerations/handling-errors"
        marks ["squareup--"]
        codes [rate("RATE_LIMITED")];
    BINANCE "DO-12" "binance" ["binance.com", "binance.us", "binance.vision"]
        "https://developers.binance.com/docs/binance-spot-api-docs/rest-api/limits"
        marks ["x-mbx-used-weight", "x-mbx-order-count", "x-sapi-used-"]
        codes [rate("-1003"), rate("-1015"), overload("-1008")];
    ZENDESK "DO-13" "zendesk" ["zendesk.com"]
        "https://developer.zendesk.com/api-reference/introduction/rate-limits/"
        marks ["x-zendesk-"]
        codes [rate("APIRateLimitExceeded")];
    CONTENTFUL "DO-14" "contentful" ["contentful.com"]
        "https://www.contentful.com/developers/docs/references/content-delivery-api/#/introduction/api-rate-limits"
        marks ["x-contentful-"]
        codes [rate("RateLimitExceeded")];
    LINEAR "DO-15" "linear" ["api.linear.app"]
        "https://linear.app/developers/rate-limiting"
        marks ["x-complexity", "x-ratelimit-complexity-"]
        codes [rate("RATELIMITED")];
    TWITCH "DO-16" "twitch" ["api.twitch.tv", "id.twitch.tv"]
        "https://dev.twitch.tv/docs/api/guide/#twitch-rate-limits"
        marks ["twitch-trace-id"]
        codes [];
    DATADOG "DO-17" "datadog" ["datadoghq.com", "datadoghq.eu"]
        "https://docs.datadoghq.com/api/latest/rate-limits/"
        marks ["x-ratelimit-period", "x-ratelimit-name"]
        codes [];
    INTUIT "DO-18" "intuit" ["quickbooks.api.intuit.com", "sandbox-quickbooks.api.intuit.com"]
        "https://developer.intuit.com/app/developer/qbo/docs/learn/rest-api-features#limits-and-throttles"
        marks ["intuit_tid"]
        codes [rate("003001"), rate("ThrottleExceeded")];
    AUTH0 "DO-19" "auth0" ["auth0.com"]
        "https://auth0.com/docs/troubleshoot/customer-support/operational-policies/rate-limit-policy"
        marks ["x-auth0-requestid"]
        codes [security("too_many_attempts"),
               rate("too_many_requests"), rate("global_limit")];
    DOCKER "DO-20" "docker-hub" ["registry-1.docker.io", "hub.docker.com", "auth.docker.io"]
        "https://docs.docker.com/docker-hub/usage/"
        marks ["docker-ratelimit-source"]
        codes [rate("TOOMANYREQUESTS")];
    LINKEDIN "DO-21" "linkedin" ["api.linkedin.com"]
        "https://learn.microsoft.com/linkedin/shared/api-guide/concepts/rate-limits"
        marks ["x-li-uuid"]
        codes [quota("TOO_MANY_REQUESTS")];
    BOX "DO-22" "box" ["api.box.com", "upload.box.com"]
        "https://developer.box.com/guides/api-calls/permissions-and-errors/rate-limits/"
        marks ["box-request-id"]
        codes [rate("rate_limit_exceeded")];
    ADYEN "DO-23" "adyen" ["adyen.com"]
        "https://docs.adyen.com/development-resources/error-codes/"
        marks ["pspreference"]
        codes [];
    COINBASE "DO-24" "coinbase" ["coinbase.com", "exchange.coinbase.com"]
        "https://docs.cdp.coinbase.com/coinbase-app/api-architecture/rate-limiting"
        marks []
        codes [rate("rate_limit_exceeded")];
    WIKIMEDIA "DO-25" "wikimedia" ["wikipedia.org", "wikimedia.org", "wikidata.org"]
        "https://www.mediawiki.org/wiki/API:Etiquette"
        marks ["mediawiki-api-error"]
        codes [overload("maxlag"), rate("ratelimited"), rate("actionthrottledtext")];
    ZOOM "DO-26" "zoom" ["api.zoom.us"]
        "https://developers.zoom.us/docs/api/rate-limits/"
        marks ["x-zm-trackingid"]
        codes [];
    MONDAY "DO-27" "monday" ["api.monday.com"]
        "https://developer.monday.com/api-reference/docs/rate-limits"
        marks []
        codes [quota("DAILY_LIMIT_EXCEEDED"), concurrency("maxConcurrencyExceeded"),
               rate("ComplexityException"), rate("COMPLEXITY_BUDGET_EXHAUSTED"),
               rate("FIELD_MINUTE_RATE_LIMIT_EXCEEDED")];
    VK "DO-29" "vk" ["api.vk.com", "api.vk.ru"]
        "https://dev.vk.com/en/reference/errors"
        marks []
        codes [quota("29"), rate("6"), rate("9")];
    KRAKEN "DO-30" "kraken" ["api.kraken.com", "futures.kraken.com"]
        "https://docs.kraken.com/api/docs/guides/spot-ratelimits"
        marks []
        codes [rate("EAPI:Rate limit exceeded"), rate("EOrder:Rate limit exceeded"),
               security("EGeneral:Temporary lockout"), overload("EService:Busy")];
    OPENSTREETMAP "DO-28" "openstreetmap" ["nominatim.openstreetmap.org", "api.openstreetmap.org"]
        "https://operations.osmfoundation.org/policies/nominatim/"
        marks []
        codes [];
}

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    if facts.status < 200 {
        return;
    }
    for provider in PROVIDERS {
        let is_owned = provider.api.owns(facts);
        let mark = provider.marks.iter().find_map(|prefix| facts.first_with_prefix(prefix));
        if !is_owned && mark.is_none() {
            continue;
        }
        let name = provider.api.name;
        // Elsewhere the fields may be those of a service that copies them.
        let named = |claim: Claim| {
            if is_owned || facts.host().is_empty() { claim.provider(name) } else { claim }
        };
        if let Some((field, value)) = mark {
            let weight = provider.api.weigh(facts, Weight::Strong);
            let shown: String = value.chars().take(60).collect();
            sheet.add(named(
                Claim::at(provider.rule, Responder::Origin, weight, format!("{field}: {shown}"))
                    .group("provider-mark"),
            ));
        }
        if let Some(code) = code(facts, provider) {
            let weight = if is_owned { Weight::Strong } else { Weight::Medium };
            sheet.add(named(
                Claim::at(
                    provider.rule,
                    Responder::Origin,
                    weight,
                    format!("the documented code {}", code.word),
                )
                .group("provider-code")
                .limit(code.kind, 0.95)
                .unit(code.unit),
            ));
        }
        special(facts, provider, sheet);
    }
}

fn code<'p>(facts: &Facts<'_>, provider: &'p Provider) -> Option<&'p Code> {
    if facts.status < 400 && !facts.says("\"errors\"") && !facts.says("\"error\"") {
        return None;
    }
    provider.codes.iter().find(|code| {
        facts.json().any(|field| {
            let is_number = code.word.bytes().all(|b| b.is_ascii_digit() || b == b'-');
            let fits =
                !is_number || matches!(field.key, "code" | "error_code" | "status" | "errorCode");
            let is_code = |value: &str| value.eq_ignore_ascii_case(code.word);
            fits && (is_code(field.value) || is_code(bare_code(field.value)))
        })
    })
}

/// Fields whose value names the limit.
fn special(facts: &Facts<'_>, provider: &Provider, sheet: &mut Sheet) {
    let kind = match provider.api.name {
        "xero" if facts.status == 429 => facts.get("x-rate-limit-problem").and_then(|problem| {
            // `minute` or `Minute limit`, `day` or `daily`: the value was met in several forms.
            match problem.to_ascii_lowercase().split(' ').next() {
                Some("minute" | "appminute") => Some(LimitType::Rate),
                Some("day" | "daily") => Some(LimitType::Quota),
                Some("concurrent") => Some(LimitType::Concurrency),
                _ => None,
            }
        }),
        "zoom" if facts.status == 429 => {
            facts.get("x-ratelimit-type").map(|kind| match kind.to_ascii_lowercase().as_str() {
                "daily" | "daily-limit" => LimitType::Quota,
                _ => LimitType::Rate,
            })
        }
        // Too many 429s in a row lead to a ban of the address with 418.
        "binance" if facts.status == 418 => Some(LimitType::Security),
        "datadog" | "twitch" | "okta" | "zendesk" | "openstreetmap" if facts.status == 429 => {
            Some(LimitType::Rate)
        }
        _ => None,
    };
    if let Some(kind) = kind {
        sheet.add(
            Claim::at(
                provider.rule,
                Responder::Origin,
                Weight::Medium,
                format!("its documented form of a {kind} limit"),
            )
            .group("provider-kind")
            .limit(kind, 0.9)
            .provider(provider.api.name),
        );
    }
}
