//! nginx and what is built on it: OpenResty, Tengine, ingress-nginx, Angie, freenginx.
//!
//! nginx replaces `Server` on everything it relays, so `Server` shows presence alone. Its own
//! pages end in its name; `limit_req` and `limit_conn` answer 503 unless told otherwise, on the
//! same page as a dead upstream, and no header tells which of them refused.

use super::claim::{Claim, Rule, Sheet, Signature};
use super::facts::Facts;
use super::{LimitType, Responder, Tri, Weight};

const LIMIT_REQ: &str = "https://nginx.org/en/docs/http/ngx_http_limit_req_module.html";
const CACHE_STATUS: &str =
    "https://nginx.org/en/docs/http/ngx_http_upstream_module.html#var_upstream_cache_status";
const SPECIAL_PAGES: &str = "nginx/nginx src/http/ngx_http_special_response.c";
const HEADER_FILTER: &str = "nginx/nginx src/http/ngx_http_header_filter_module.c";

static NG_0: Rule = Rule::new("NG-0", HEADER_FILTER);
static NG_1: Rule = Rule::new("NG-1", SPECIAL_PAGES);
static NG_2: Rule = Rule::new("NG-2", SPECIAL_PAGES);
static NG_3: Rule = Rule::new("NG-3", SPECIAL_PAGES);
static NG_4: Rule = Rule::new("NG-4", SPECIAL_PAGES);
static NG_5: Rule = Rule::new("NG-5", LIMIT_REQ);
static NG_6: Rule = Rule::new("NG-6", CACHE_STATUS);

/// The signature.
pub(crate) static SIGNATURE: Signature =
    Signature { id: "nginx", rules: &[&NG_0, &NG_1, &NG_2, &NG_3, &NG_4, &NG_5, &NG_6], look };

/// Names that the family signs its pages and `Server` with.
const FAMILY: [&str; 5] = ["nginx", "openresty", "tengine", "angie", "freenginx"];

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    let named = FAMILY.iter().any(|name| facts.server_is(name));
    let page = signed_page(facts);
    if named {
        sheet.add(Claim::on_path(&NG_0, Responder::Nginx, facts.quote("server")));
    }
    if page {
        let seen = "the page ends in nginx's own signature".to_owned();
        // 504: an upstream was asked; 502: it may have been.
        let reached = match facts.status {
            504 => Tri::Yes,
            502 => Tri::Unknown,
            _ => Tri::No,
        };
        sheet.add(
            Claim::at(&NG_1, Responder::Nginx, Weight::Strong, seen)
                .group("nginx-page")
                .signs_body()
                .reached(reached),
        );
        return;
    }
    if !named {
        return;
    }
    if let Some(status) = facts.get("x-cache-status") {
        let one_of = |words: &[&str]| words.iter().any(|word| status.eq_ignore_ascii_case(word));
        let seen = facts.quote("x-cache-status");
        if one_of(&["HIT", "STALE", "UPDATING"]) {
            let claim = Claim::at(&NG_6, Responder::Nginx, Weight::Strong, seen);
            sheet.add(claim.group("nginx-cache").limit(LimitType::Cached, 0.9));
            return;
        }
        if one_of(&["MISS", "BYPASS", "EXPIRED", "REVALIDATED"]) {
            let claim = Claim::behind(&NG_6, Responder::Nginx, Weight::Medium, seen);
            sheet.add(claim.group("nginx-cache"));
        }
    }
    if facts.body.is_empty() {
        unseen_page(facts, sheet);
    } else if !facts.server_is("openresty") {
        // Lua code inside OpenResty answers with bodies of any kind, stock nginx with its pages.
        let seen = "the body is not one of nginx's pages".to_owned();
        sheet.add(Claim::behind(&NG_4, Responder::Nginx, Weight::Medium, seen).group("nginx-body"));
    }
    // A stock nginx writes neither a limit nor a wait.
    let limiter = ["x-ratelimit", "ratelimit", "x-rate-limit"];
    if let Some((name, value)) = limiter.iter().find_map(|p| facts.first_with_prefix(p)) {
        let seen = format!("{name}: {value}");
        sheet
            .add(Claim::behind(&NG_5, Responder::Nginx, Weight::Medium, seen).group("nginx-limit"));
    }
}

/// Whether the body is one of nginx's pages: the last line before the end names the product.
/// Gateways built on OpenResty keep that line on pages of their own.
fn signed_page(facts: &Facts<'_>) -> bool {
    facts.body.len() > 60
        && !facts.server_is("apisix")
        && !facts.server_is("kong/")
        && !facts.says("https://apisix.apache.org/")
        && FAMILY.iter().any(|name| {
            facts.lower().rsplit_once("<center>").is_some_and(|(before, last)| {
                last.starts_with(name) && before.trim_end().ends_with("<hr>")
            })
        })
}

/// The body was not captured: its length and the reason phrase may still be nginx's.
fn unseen_page(facts: &Facts<'_>, sheet: &mut Sheet) {
    if facts.media_is("text/html")
        && facts.content_length().is_some_and(|length| page_lengths(facts).contains(&length))
    {
        let seen = format!("{}, the length of nginx's own page", facts.quote("content-length"));
        sheet.add(
            Claim::at(&NG_2, Responder::Nginx, Weight::Medium, seen)
                .group("nginx-length")
                .reached(Tri::No),
        );
    }
    if facts.status == 503
        && facts.response.reason.as_deref() == Some("Service Temporarily Unavailable")
    {
        let seen = "503 Service Temporarily Unavailable, nginx's reason phrase".to_owned();
        sheet.add(Claim::at(&NG_3, Responder::Nginx, Weight::Medium, seen).group("nginx-reason"));
    }
}

/// The lengths of nginx's page for this status: with and without the background colour that
/// versions before 1.17.2 set.
fn page_lengths(facts: &Facts<'_>) -> [usize; 2] {
    let title = match facts.status {
        403 => "403 Forbidden",
        429 => "429 Too Many Requests",
        500 => "500 Internal Server Error",
        502 => "502 Bad Gateway",
        503 => "503 Service Temporarily Unavailable",
        504 => "504 Gateway Time-out",
        _ => return [usize::MAX; 2],
    };
    let frame = "<html>\r\n<head><title></title></head>\r\n<body>\r\n<center><h1></h1></center>\r\n\
                 <hr><center></center>\r\n</body>\r\n</html>\r\n";
    // The signature leaves out what a distribution adds in brackets.
    let name = facts.server.split(" (").next().unwrap_or_default();
    let plain = frame.len() + 2 * title.len() + name.len();
    [plain, plain + " bgcolor=\"white\"".len()]
}
