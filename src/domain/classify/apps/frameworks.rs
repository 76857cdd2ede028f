//! What application servers and frameworks write on every answer of theirs. No proxy writes it
//! on a refusal of its own, so it says that the application process answered.

use crate::domain::classify::claim::{Claim, Rule, Sheet, Signature};
use crate::domain::classify::facts::{Facts, starts_with_ci};
use crate::domain::classify::{Responder, Weight};

const SERVER: &str = "https://www.rfc-editor.org/rfc/rfc9110#section-10.2.4";
static FW_1: Rule = Rule::new("FW-1", SERVER);
static FW_2: Rule = Rule::new("FW-2", "https://owasp.org/www-project-secure-headers/#x-powered-by");
static FW_3: Rule = Rule::new("FW-3", "https://www.rfc-editor.org/rfc/rfc6265#section-4.1");
static FW_4: Rule = Rule::new("FW-4", "https://www.rfc-editor.org/rfc/rfc9110#section-8.8.3");

pub(crate) static SIGNATURE: Signature =
    Signature { id: "frameworks", rules: &[&FW_1, &FW_2, &FW_3, &FW_4], look };

/// Beginnings of `Server` of servers that run applications and proxy nothing by default.
const SERVERS: &[&str] = &[
    "gunicorn",
    "uvicorn",
    "hypercorn",
    "daphne",
    "werkzeug",
    "waitress",
    "tornadoserver",
    "wsgiserver",
    "cheroot",
    "python/",
    "puma",
    "webrick",
    "thin",
    "passenger",
    "unicorn",
    "jetty",
    "apache-coyote",
    "apache tomcat",
    "restlet",
    "grizzly",
    "akka-http",
    "pekko-http",
    "mochiweb",
    "actix",
    "rocket",
    "warp",
    "granian",
    "swoole",
    "frankenphp",
    "roadrunner",
    "next.js",
    "bun",
    "zope",
    "glassfish",
    "payara",
    "weblogic",
];

/// Values of `X-Powered-By` that name a framework; application servers that gateways are built on
/// (Undertow, WildFly, servlet versions) are left out.
const POWERED_BY: &[&str] = &[
    "next.js",
    "nuxt",
    "strapi",
    "sails",
    "koa",
    "hono",
    "feathers",
    "adonis",
    "fastify",
    "phusion passenger",
    "mod_rails",
    "play framework",
    "servicestack",
    "django",
    "flask",
    "laravel",
    "craft cms",
    "drupal",
];

/// Cookies of sessions that applications hand out.
const SESSIONS: &[&str] = &[
    "connect.sid=",
    "phpsessid=",
    "jsessionid=",
    "asp.net_sessionid=",
    "csrftoken=",
    "sessionid=",
    "_session=",
    "ci_session=",
    "rack.session=",
    "flask_session=",
];

/// Whether `server` begins with this product token as a whole: `bun` is not `BunnyCDN`.
fn is_product(server: &str, name: &str) -> bool {
    starts_with_ci(server, name)
        && server.get(name.len()..).is_some_and(|rest| {
            name.ends_with('/') || !rest.starts_with(|c: char| c.is_ascii_alphanumeric())
        })
}

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    if facts.status < 400 && facts.status != 200 {
        return;
    }
    if SERVERS.iter().any(|name| is_product(facts.server, name)) {
        sheet.add(
            Claim::at(&FW_1, Responder::Origin, Weight::Strong, facts.quote("server"))
                .group("framework"),
        );
    }
    if let Some(value) = facts.get("x-powered-by")
        && POWERED_BY.iter().any(|name| starts_with_ci(value, name))
    {
        sheet.add(
            Claim::at(&FW_2, Responder::Origin, Weight::Strong, facts.quote("x-powered-by"))
                .group("framework"),
        );
    }
    if SESSIONS.iter().any(|name| facts.holds("set-cookie", name)) {
        sheet.add(
            Claim::at(
                &FW_3,
                Responder::Origin,
                Weight::Medium,
                "sets the session cookie of an application",
            )
            .group("session"),
        );
    }
    // `W/"2a-…"`: a weak tag computed from a body made on the spot; error pages of proxies have none.
    if facts.status >= 400
        && facts.get("etag").is_some_and(|tag| tag.starts_with("W/\"") && tag.contains('-'))
    {
        sheet.add(
            Claim::at(
                &FW_4,
                Responder::Origin,
                Weight::Medium,
                "a weak entity tag on an error body",
            )
            .group("etag"),
        );
    }
}
