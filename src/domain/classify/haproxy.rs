//! HAProxy: its own answers have neither `Server` nor `Date`, and relayed ones get nothing added.

use super::claim::{Claim, Rule, Sheet, Signature};
use super::facts::Facts;
use super::{LimitType, Responder, Tri, Weight};

const PAGES: &str = "haproxy/haproxy src/http.c (http_err_msgs)";
const CONFIG: &str = "https://docs.haproxy.org/2.6/configuration.html#4.2-http-request%20deny";

static HA_1: Rule = Rule::new("HA-1", CONFIG);
static HA_2: Rule = Rule::new("HA-2", PAGES);
static HA_3: Rule = Rule::new("HA-3", PAGES);

/// The signature.
pub(crate) static SIGNATURE: Signature =
    Signature { id: "haproxy", rules: &[&HA_1, &HA_2, &HA_3], look };

const WHO: Responder = Responder::Haproxy;

/// The sentences of its built-in pages, in lower case, with what they tell of the origin.
const SENTENCES: [(&str, u16, Tri); 6] = [
    ("you have sent too many requests in a given amount of time.", 429, Tri::No),
    ("no server is available to handle this request.", 503, Tri::No),
    ("the server returned an invalid or incomplete response.", 502, Tri::Yes),
    ("the server didn't respond in time.", 504, Tri::Yes),
    ("request forbidden by administrative rules.", 403, Tri::No),
    ("an internal server error occurred.", 500, Tri::No),
];

/// The length of the built-in 429 page with CRLF-free line ends, as `Content-Length` says it.
const LENGTH_429: usize = 117;

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    if facts.status < 400 {
        return;
    }
    let bare_head = facts.response.headers_complete
        && facts.not_sent("server")
        && facts.not_sent("date")
        && facts.not_sent("via")
        && facts.is("cache-control", "no-cache")
        && facts.is("content-type", "text/html");
    let sentence = (facts.body.len() < 400)
        .then(|| {
            SENTENCES.iter().find(|(text, status, _)| {
                *status == facts.status && facts.says("<html><body><h1>") && facts.says(text)
            })
        })
        .flatten();
    let reached = sentence.map_or_else(
        || if matches!(facts.status, 502 | 504) { Tri::Yes } else { Tri::No },
        |(.., reached)| *reached,
    );
    if bare_head {
        let seen = "no server, no date, cache-control: no-cache, text/html";
        sheet.add(
            Claim::at(&HA_1, WHO, Weight::Strong, seen).group("haproxy-head").reached(reached),
        );
    }
    if let Some((text, ..)) = sentence {
        // Under its own head the page only confirms; alone it is what names the product.
        let weight = if bare_head { Weight::Medium } else { Weight::Strong };
        let seen = format!("HAProxy's page: {text}");
        let claim =
            Claim::at(&HA_2, WHO, weight, seen).group("haproxy-page").signs_body().reached(reached);
        sheet.add(if facts.status == 429 { claim.limit(LimitType::Rate, 0.6) } else { claim });
    } else if bare_head
        && facts.status == 429
        && facts.body.is_empty()
        && facts.content_length() == Some(LENGTH_429)
    {
        let seen = "content-length: 117, that of HAProxy's 429 page";
        sheet.add(Claim::at(&HA_3, WHO, Weight::Medium, seen).group("haproxy-page"));
    } else if bare_head && !facts.body.is_empty() && !facts.says("<html><body><h1>") {
        let seen = "the body is not one of HAProxy's pages";
        sheet.add(Claim::behind(&HA_2, WHO, Weight::Weak, seen).group("haproxy-page"));
    }
}
