//! Apache httpd with its modules (`mod_qos` answers 500 by default, `mod_evasive` 403).
//!
//! A relayed answer keeps the origin's `Server`; where none was sent Apache fills in its own, so
//! its name alone proves nothing. Its own documents end in an `<address>` line.

use super::claim::{Claim, Rule, Sheet, Signature};
use super::facts::Facts;
use super::{LimitType, LimitUnit, Responder, Tri, Weight};

const DOCUMENTS: &str = "https://httpd.apache.org/docs/2.4/custom-error.html";
const SIGNATURE_LINE: &str = "https://httpd.apache.org/docs/2.4/mod/core.html#serversignature";
const CACHE: &str = "https://httpd.apache.org/docs/2.4/mod/mod_cache.html";

static AP_0: Rule = Rule::new("AP-0", SIGNATURE_LINE);
static AP_1: Rule = Rule::new("AP-1", SIGNATURE_LINE);
static AP_2: Rule = Rule::new("AP-2", DOCUMENTS);
static AP_3: Rule = Rule::new("AP-3", DOCUMENTS);
static AP_4: Rule = Rule::new("AP-4", CACHE);
static AP_5: Rule =
    Rule::new("AP-5", "https://docs.cpanel.net/whm/account-functions/limit-bandwidth-usage/");
static AP_6: Rule = Rule::new("AP-6", "https://docs.cloudlinux.com/cloudlinuxos/limits/");

/// The signature.
pub(crate) static SIGNATURE: Signature =
    Signature { id: "apache", rules: &[&AP_0, &AP_1, &AP_2, &AP_3, &AP_4, &AP_5, &AP_6], look };

const WHO: Responder = Responder::Apache;

/// Sentences of its built-in documents, in lower case (line ends as spaces).
const SENTENCES: [&str; 5] = [
    "the user has sent too many requests\nin a given amount of time.",
    "you don't have permission to access this resource",
    "the server is temporarily unable to service your\nrequest due to maintenance downtime or capacity\nproblems.",
    "the proxy server received an invalid\nresponse from an upstream server.",
    "the server encountered an internal error or\nmisconfiguration",
];

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    let named = facts.server_is("apache");
    if facts.status < 400 {
        return;
    }
    if named {
        sheet.add(Claim::on_path(&AP_0, WHO, facts.quote("server")));
    }
    let latin = facts.get("content-type").is_some_and(|v| {
        v.to_ascii_lowercase().replace(' ', "").starts_with("text/html;charset=iso-8859-1")
    });
    let html = facts.body.starts_with('<');
    let address = html && has_address(facts);
    let document = html
        && facts.body.len() < 2000
        && SENTENCES.iter().any(|sentence| {
            facts.says(sentence) || facts.lower().replace("\r\n", "\n").contains(sentence)
        });
    let reached = reached(facts);
    if named && html && hosting_limits(facts, sheet) {
        return;
    }
    if address || (document && latin) {
        let seen =
            if address { "Apache's document with its address line" } else { "Apache's document" };
        sheet.add(
            Claim::at(&AP_1, WHO, Weight::Strong, seen)
                .group("apache-page")
                .signs_body()
                .reached(reached),
        );
    } else if named && latin {
        // The character set of its own error documents, also of custom ones.
        let seen = "content-type: text/html; charset=iso-8859-1, that of error documents";
        sheet
            .add(Claim::at(&AP_2, WHO, Weight::Medium, seen).group("apache-page").reached(reached));
    } else if named && facts.age().is_some_and(|age| age > 0) && !other_cache(facts) {
        let seen = format!("{} under Apache's name, with no other cache", facts.quote("age"));
        sheet.add(Claim::at(&AP_4, WHO, Weight::Medium, seen).limit(LimitType::Cached, 0.7));
    } else if named && (!facts.body.is_empty() || !facts.media.is_empty()) {
        let seen = "the body is not one of Apache's error documents";
        sheet.add(Claim::behind(&AP_3, WHO, Weight::Medium, seen).group("apache-page"));
    }
}

/// Whether another cache that may have stored the answer is on the path.
fn other_cache(facts: &Facts<'_>) -> bool {
    ["via", "x-varnish", "x-served-by", "x-amz-cf-id", "cf-cache-status", "x-azure-ref"]
        .iter()
        .any(|name| facts.has(name))
        || facts.holds("x-cache", "from cloudfront")
}

/// Pages of two modules that hosting companies add: cPanel's for a site's traffic of the month, and
/// `CloudLinux`'s for its processes at once.
fn hosting_limits(facts: &Facts<'_>, sheet: &mut Sheet) -> bool {
    let page = |rule: &'static Rule, seen: &'static str| {
        Claim::at(rule, WHO, Weight::Strong, seen)
            .group("apache-page")
            .signs_body()
            .reached(Tri::No)
    };
    if facts.status == 509 && facts.says("bandwidth limit exceeded") {
        let claim = page(&AP_5, "the page for a spent monthly bandwidth");
        sheet.add(claim.limit(LimitType::Quota, 0.95).unit(LimitUnit::Bytes));
    } else if facts.status == 508 && facts.says("resource limit is reached") {
        let claim = page(&AP_6, "the page for a spent resource limit of the account");
        sheet.add(claim.limit(LimitType::Concurrency, 0.7).unit(LimitUnit::Concurrency));
    } else {
        return false;
    }
    true
}

/// `<address>… Server at … Port …</address>`, whatever the server calls itself.
fn has_address(facts: &Facts<'_>) -> bool {
    facts.lower().split_once("<address>").is_some_and(|(_, rest)| {
        rest.split_once("</address>")
            .is_some_and(|(line, _)| line.contains(" server at ") && line.contains(" port "))
    })
}

/// What its proxy documents tell of the origin.
fn reached(facts: &Facts<'_>) -> Tri {
    match facts.status {
        502 if facts.says("error reading from remote server") => Tri::Yes,
        502 if facts.says("error during") || facts.says("dns lookup failure") => Tri::No,
        502 | 504 => Tri::Unknown,
        _ => Tri::No,
    }
}
