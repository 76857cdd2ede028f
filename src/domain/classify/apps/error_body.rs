//! The form of an error body where no product signs it: what applications write, and what default
//! pages of gateways and proxies do not look like. Never more than medium.

use crate::domain::classify::claim::{Claim, Rule, Sheet, Signature};
use crate::domain::classify::facts::Facts;
use crate::domain::classify::{Responder, Weight};
use crate::domain::headers::provider_of;

const SERVER_ERRORS: &str = "https://www.rfc-editor.org/rfc/rfc9110#section-15.5";
static IA_6: Rule = Rule::new("IA-6", SERVER_ERRORS);
static IA_7: Rule = Rule::new("IA-7", SERVER_ERRORS);
static IA_8: Rule = Rule::new("IA-8", SERVER_ERRORS);
static IA_9: Rule = Rule::new("IA-9", SERVER_ERRORS);
static IA_10: Rule =
    Rule::new("IA-10", "https://developers.cloudflare.com/fundamentals/reference/http-headers/");

pub(crate) static SIGNATURE: Signature =
    Signature { id: "error-bodies", rules: &[&IA_6, &IA_7, &IA_8, &IA_9, &IA_10], look };

/// Sets of top-level keys that gateways use in refusals of their own.
const GATEWAY_FORMS: &[&[&str]] = &[
    &["message"],
    &["Message"],
    &["error"],
    &["error_msg"],
    &["statusCode", "message"],
    &["fault"],
    &["message", "request_id"],
    &["Reason", "Type", "message"],
    &["Type", "message", "Reason"],
];

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    if facts.status < 400 {
        return;
    }
    own_limit_fields(facts, sheet);
    if facts.body.is_empty() {
        return;
    }
    if facts.body.starts_with(['{', '[']) {
        json(facts, sheet);
    } else if facts.body.starts_with("<?xml")
        || (facts.body.starts_with('<') && facts.media.ends_with("xml"))
    {
        sheet.add(
            Claim::at(
                &IA_8,
                Responder::Origin,
                Weight::Medium,
                "an XML document in the API's own form",
            )
            .group("body-form"),
        );
    } else if facts.media_is("text/plain") && facts.body.len() > 24 {
        sheet.add(
            Claim::at(
                &IA_9,
                Responder::Origin,
                Weight::Weak,
                "a sentence of its own in plain text",
            )
            .group("body-form"),
        );
    }
}

/// A limiter's fields on a response that an edge handed out: no edge writes them on a refusal of
/// its own, so something behind it did. Gateways that do write them have marks of their own.
fn own_limit_fields(facts: &Facts<'_>, sheet: &mut Sheet) {
    const EDGES: [&str; 5] =
        ["cf-ray", "x-amz-cf-id", "x-served-by", "x-akamai-request-id", "x-azure-ref"];
    const GATEWAYS: [&str; 8] = [
        "x-kong-",
        "x-envoy-",
        "x-amz-apigw-id",
        "apigw-requestid",
        "x-amzn-errortype",
        "x-apisix-",
        "x-tyk-",
        "x-krakend",
    ];
    let is_edge = EDGES.iter().any(|name| facts.has(name)) || facts.server_is("cloudflare");
    let field = ["x-ratelimit-", "x-rate-limit-", "ratelimit"]
        .into_iter()
        .find_map(|prefix| facts.first_with_prefix(prefix));
    if let Some((name, value)) = field
        && is_edge
        && !GATEWAYS.iter().any(|prefix| facts.first_with_prefix(prefix).is_some())
    {
        let shown: String = value.chars().take(60).collect();
        sheet.add(
            Claim::at(
                &IA_10,
                Responder::Origin,
                Weight::Medium,
                format!("{name}: {shown}, which no edge writes"),
            )
            .group("limit-fields"),
        );
    }
}

fn json(facts: &Facts<'_>, sheet: &mut Sheet) {
    let keys = top_keys(facts);
    let is_gateway_form = GATEWAY_FORMS
        .iter()
        .any(|form| keys.len() == form.len() && form.iter().all(|key| keys.contains(key)));
    // Lua code in OpenResty answers in any form, so there the form tells nothing. Where the owner
    // of the API is known, a gateway that nothing else shows is the owner's own.
    let owner_is_known = facts.response.provider.is_some()
        || provider_of(facts.host(), Some(facts.path())).is_some();
    let is_open = (is_gateway_form && !owner_is_known) || facts.server_is("openresty");
    let (rule, weight, seen) = if is_open {
        (&IA_6, Weight::Weak, "a JSON body that applications and gateways write alike")
    } else {
        (&IA_7, Weight::Medium, "a JSON body in the API's own form")
    };
    sheet.add(Claim::at(rule, Responder::Origin, weight, seen).group("body-form"));
}

/// Keys of the outermost object, each once, at most eight.
fn top_keys<'a>(facts: &Facts<'a>) -> Vec<&'a str> {
    let mut keys: Vec<&str> = Vec::new();
    let mut depth = 0_u32;
    let mut rest = facts.body;
    while let Some(at) = rest.find(['{', '}', '[', ']', '"']) {
        let Some((_, tail)) = rest.split_at_checked(at) else { break };
        let mut letters = tail.chars();
        let mark = letters.next();
        rest = letters.as_str();
        match mark {
            Some('{' | '[') => depth = depth.saturating_add(1),
            Some('}' | ']') => depth = depth.saturating_sub(1),
            _ => {
                let Some((text, after)) = string(rest) else { break };
                rest = after;
                let is_key = rest.trim_start().starts_with(':');
                if is_key && depth == 1 && !keys.contains(&text) {
                    keys.push(text);
                }
            }
        }
        if keys.len() >= 8 {
            break;
        }
    }
    keys
}

/// A JSON string from behind its opening quote, and what follows the closing one.
fn string(text: &str) -> Option<(&str, &str)> {
    let mut escaped = false;
    let end = text.char_indices().find_map(|(at, letter)| {
        let closes = letter == '"' && !escaped;
        escaped = letter == '\\' && !escaped;
        closes.then_some(at)
    })?;
    let (inside, rest) = text.split_at_checked(end)?;
    Some((inside, rest.strip_prefix('"')?))
}
