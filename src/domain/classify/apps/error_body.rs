//! The form of an error body where no product signs it: what applications write, and what default
//! pages of gateways and proxies do not look like. Never more than medium.

use crate::domain::classify::claim::{Claim, Rule, Sheet, Signature};
use crate::domain::classify::facts::Facts;
use crate::domain::classify::{Responder, Weight};

const SERVER_ERRORS: &str = "https://www.rfc-editor.org/rfc/rfc9110#section-15.5";
static IA_6: Rule = Rule::new("IA-6", SERVER_ERRORS);
static IA_7: Rule = Rule::new("IA-7", SERVER_ERRORS);
static IA_8: Rule = Rule::new("IA-8", SERVER_ERRORS);
static IA_9: Rule = Rule::new("IA-9", SERVER_ERRORS);

pub(crate) static SIGNATURE: Signature =
    Signature { id: "error-bodies", rules: &[&IA_6, &IA_7, &IA_8, &IA_9], look };

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
    if facts.status < 400 || facts.body.is_empty() {
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

fn json(facts: &Facts<'_>, sheet: &mut Sheet) {
    let keys = top_keys(facts);
    let is_gateway_form = GATEWAY_FORMS
        .iter()
        .any(|form| keys.len() == form.len() && form.iter().all(|key| keys.contains(key)));
    // Lua code in OpenResty answers in any form, so there the form tells nothing.
    let (rule, weight, seen) = if is_gateway_form || facts.server_is("openresty") {
        (&IA_6, Weight::Weak, "a JSON body that applications and gateways write alike")
    } else {
        (&IA_7, Weight::Medium, "a JSON body in a form that no known gateway writes by default")
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
