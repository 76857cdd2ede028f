//! Pages and marks of products that have no name of their own here: application firewalls, API
//! gateways, web servers and platform routers. They answered, so nobody else did; the answer stays
//! `unknown`.
//!
//! A page or a refusal that one of them signs is strong. A mark that is on relayed answers too is
//! medium: it keeps an answer without any other evidence from being called the application's.

use super::claim::{Claim, Rule, Sheet, Signature};
use super::facts::{Facts, starts_with_ci};
use super::{LimitType, LimitUnit, Responder, Tri, Weight};

const IMPERVA: &str = "EnableSecurity/wafw00f wafw00f/plugins/incapsula.py";
const SUCURI: &str = "EnableSecurity/wafw00f wafw00f/plugins/sucuri.py";
const APPGW: &str =
    "https://learn.microsoft.com/azure/web-application-firewall/ag/configure-custom-response-code";
const HEROKU: &str = "https://devcenter.heroku.com/articles/error-pages";

static UN_1: Rule = Rule::new("UN-1", IMPERVA);
static UN_2: Rule = Rule::new("UN-2", SUCURI);
static UN_3: Rule = Rule::new("UN-3", APPGW);
static UN_4: Rule = Rule::new("UN-4", HEROKU);
static UN_5: Rule =
    Rule::new("UN-5", "https://opensource.zalando.com/skipper/tutorials/ratelimit/");
static UN_6: Rule = Rule::new(
    "UN-6",
    "https://docs.pingidentity.com/pinggateway/2026/reference/ThrottlingFilter.html",
);
static UN_7: Rule = Rule::new(
    "UN-7",
    "https://documentation.gravitee.io/apim/configure-and-manage-the-platform/gravitee-gateway/header-ids",
);
static UN_8: Rule = Rule::new(
    "UN-8",
    "https://www.ibm.com/docs/en/api-connect/cloud/12.1.1_reserved_instance?topic=policies-rate-limit-info",
);
static UN_9: Rule = Rule::new(
    "UN-9",
    "https://apim.docs.wso2.com/en/4.6.0/api-developer-portal/rate-limiting/handle-rate-limiting-errors/",
);
static UN_10: Rule = Rule::new(
    "UN-10",
    "https://api-umbrella.readthedocs.io/en/latest/api-consumer/rate-limits.html",
);
static UN_11: Rule = Rule::new(
    "UN-11",
    "https://docs.netlify.com/manage/accounts-and-billing/billing/resume-paused-projects",
);
static UN_12: Rule = Rule::new("UN-12", "https://docs.datadome.co/reference/validate-request");
static UN_13: Rule = Rule::new("UN-13", "EnableSecurity/wafw00f wafw00f/plugins/f5bigipasm.py");
static UN_14: Rule = Rule::new("UN-14", "EnableSecurity/wafw00f wafw00f/plugins/litespeed.py");
static UN_15: Rule = Rule::new("UN-15", "EnableSecurity/wafw00f wafw00f/plugins/zscaler.py");
static UN_16: Rule = Rule::new("UN-16", "EnableSecurity/wafw00f wafw00f/plugins/fortiguard.py");
static UN_17: Rule = Rule::new(
    "UN-17",
    "https://www.alibabacloud.com/help/en/slb/application-load-balancer/support/alb-exception-status-code-description",
);
static UN_18: Rule = Rule::new("UN-18", "https://docs.cloudlinux.com/cloudlinuxos/limits/");

/// The signature.
pub(crate) static SIGNATURE: Signature = Signature {
    id: "unnamed-products",
    rules: &[
        &UN_1, &UN_2, &UN_3, &UN_4, &UN_5, &UN_6, &UN_7, &UN_8, &UN_9, &UN_10, &UN_11, &UN_12,
        &UN_13, &UN_14, &UN_15, &UN_16, &UN_17, &UN_18,
    ],
    look,
};

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    if facts.body.starts_with('<') && blocked_with_success(facts, sheet) {
        return;
    }
    if facts.status < 400 {
        return;
    }
    gateways(facts, sheet);
    edges(facts, sheet);
    if facts.body.starts_with('<') {
        pages(facts, sheet);
    }
}

/// A refusal that the product signs.
fn own(rule: &'static Rule, seen: impl Into<String>) -> Claim {
    Claim::at(rule, Responder::Unknown, Weight::Strong, seen).reached(Tri::No).signs_body()
}

/// A mark that stands on relayed answers as well.
fn passes_by(rule: &'static Rule, seen: impl Into<String>) -> Claim {
    Claim::at(rule, Responder::Unknown, Weight::Medium, seen).reached(Tri::Unknown)
}

fn security(claim: Claim) -> Claim {
    claim.limit(LimitType::Security, 0.85)
}

/// Whether the body is a block or challenge page of a firewall that may come with 200.
pub(crate) fn is_block_page(facts: &Facts<'_>) -> bool {
    facts.body.starts_with('<')
        && facts.body.len() < 8192
        && (facts.says("_incapsula_resource")
            || (facts.says("the requested url was rejected") && facts.says("support id")))
}

/// Firewalls that send their pages with 200 as well.
fn blocked_with_success(facts: &Facts<'_>, sheet: &mut Sheet) -> bool {
    if facts.says("incapsula incident id") || facts.says("_incapsula_resource") {
        let seen = "Imperva's page with an incident id or its script";
        sheet.add(security(own(&UN_1, seen)));
        return true;
    }
    if facts.says("the requested url was rejected") && facts.says("support id") {
        sheet.add(security(own(&UN_13, "the block page of F5 BIG-IP with a support id")));
        return true;
    }
    false
}

/// API gateways and ingress proxies.
fn gateways(facts: &Facts<'_>, sheet: &mut Sheet) {
    if facts.server_is("skipper") {
        // Skipper names itself where the backend did not say its name.
        let refuses = facts.status == 429 && facts.has("x-rate-limit");
        let seen = facts.quote("server");
        sheet.add(if refuses { rate(own(&UN_5, seen)) } else { passes_by(&UN_5, seen) });
    }
    if facts.has("retry-after-rule") || facts.has("retry-after-partition") {
        let seen = "retry-after-rule, -rate or -partition of the throttling filter";
        sheet.add(rate(own(&UN_6, seen)));
    }
    if let Some((name, _)) = facts.first_with_prefix("x-gravitee-") {
        let signs = facts.json_value("http_status_code").is_some();
        sheet.add(if signs { own(&UN_7, name) } else { passes_by(&UN_7, name) });
    }
    let count = facts.get("x-countlimit-remaining").or_else(|| facts.get("x-countlimit-limit"));
    let ibm =
        facts.json_value("httpCode").is_some() && facts.json_value("moreInformation").is_some();
    if ibm {
        let claim = own(&UN_8, "httpCode and moreInformation, the gateway's error object");
        // A count limit holds the number of calls; its name tells where it counts those in flight.
        let in_flight = count.is_some_and(|v| v.to_ascii_lowercase().contains("concurren"));
        sheet.add(if facts.status == 429 && in_flight {
            claim.limit(LimitType::Concurrency, 0.75).unit(LimitUnit::Concurrency)
        } else {
            claim
        });
    } else if count.is_some() {
        sheet.add(passes_by(&UN_8, "x-countlimit of the gateway"));
    }
    let code = facts.json_value("code").filter(|code| code.len() == 6);
    if code.is_some_and(|code| code.starts_with("90080")) || facts.says("wso2.org/apimanager/") {
        sheet.add(own(&UN_9, "a throttling code of the 9008xx family"));
    }
    if facts.has("x-api-umbrella-request-id") || facts.holds("via", "api-umbrella") {
        let refuses = facts.says("over_rate_limit") || facts.says("api_key_");
        let seen = "x-api-umbrella-request-id or via";
        sheet.add(if refuses { own(&UN_10, seen) } else { passes_by(&UN_10, seen) });
    }
}

fn rate(claim: Claim) -> Claim {
    claim.limit(LimitType::Rate, 0.9).unit(LimitUnit::Requests)
}

/// Edges and bot filters.
fn edges(facts: &Facts<'_>, sheet: &mut Sheet) {
    if facts.server_is("netlify") || facts.has("x-nf-request-id") {
        let seen = "server: Netlify or x-nf-request-id";
        let paused = facts.body.starts_with('<') && facts.says("usage limits");
        sheet.add(if paused {
            own(&UN_11, seen).limit(LimitType::Quota, 0.85)
        } else {
            passes_by(&UN_11, seen)
        });
    }
    if facts.has("x-datadome") || facts.has("x-dd-b") || facts.server_is("datadome") {
        let blocks = facts.has("x-dd-b")
            || facts.server_is("datadome")
            || facts.says("captcha-delivery.com")
            || facts.says("var dd=");
        let seen = "x-datadome, x-dd-b or server of DataDome";
        sheet.add(if blocks { security(own(&UN_12, seen)) } else { passes_by(&UN_12, seen) });
    }
    if facts.server_is("zscaler") || (facts.body.starts_with('<') && facts.says("by zscaler")) {
        sheet.add(security(own(&UN_15, "Zscaler's page or name")));
    }
    // Its own answers are pages.
    let page = !facts.is_json();
    if page && (facts.has("x-iinfo") || facts.get("x-cdn").is_some_and(is_imperva)) {
        sheet.add(passes_by(&UN_1, "x-iinfo or x-cdn of Imperva").group("imperva-mark"));
    }
}

fn is_imperva(name: &str) -> bool {
    starts_with_ci(name, "imperva") || starts_with_ci(name, "incapsula")
}

/// Pages that come with an error status.
fn pages(facts: &Facts<'_>, sheet: &mut Sheet) {
    if facts.says("sucuri website firewall") {
        sheet.add(security(own(&UN_2, "Sucuri's firewall page")));
    } else if facts.says("<center>microsoft-azure-application-gateway/") {
        let claim = own(&UN_3, "the page of Azure Application Gateway");
        // 403 on this page is its firewall in prevention mode.
        sheet.add(if facts.status == 403 { security(claim) } else { claim });
    } else if facts.says("herokucdn.com/error-pages/") {
        sheet.add(own(&UN_4, "the page of Heroku's router").reached(Tri::Unknown));
    } else if facts.says("fortiguard") || facts.says("fortinet") && facts.says("blocked") {
        sheet.add(security(own(&UN_16, "the block page of FortiGuard")));
    } else if facts.says("<hr><center>alb</center>") || facts.says("<hr><center>slb</center>") {
        sheet.add(own(&UN_17, "the page of Alibaba Cloud's load balancer"));
    } else if facts.says("proudly powered by litespeed web server") {
        sheet.add(own(&UN_14, "the page of LiteSpeed"));
    } else if facts.status == 508 && facts.says("resource limit is reached") {
        // Apache writes it too; its own signature names it there.
        if !facts.server_is("apache") {
            let claim = own(&UN_18, "the page of CloudLinux for a spent resource limit");
            sheet.add(claim.limit(LimitType::Concurrency, 0.7).unit(LimitUnit::Concurrency));
        }
    } else if facts.server_is("litespeed") {
        sheet.add(passes_by(&UN_14, facts.quote("server")));
    }
}
