//! ASP.NET and its limiters. The built-in one answers 503 with an empty body, which nothing tells
//! apart from an outage; it is not called a limit.

use super::kind_of_window;
use crate::domain::classify::claim::{Claim, Rule, Sheet, Signature};
use crate::domain::classify::facts::Facts;
use crate::domain::classify::{LimitType, LimitUnit, Responder, Weight};

static NET_1: Rule = Rule::new(
    "NET-1",
    "https://github.com/stefanprodan/AspNetCoreRateLimit/wiki/Quota-exceeded-response",
);
static NET_2: Rule =
    Rule::new("NET-2", "https://learn.microsoft.com/aspnet/core/fundamentals/servers/kestrel");

pub(crate) static SIGNATURE: Signature = Signature { id: "aspnet", rules: &[&NET_1, &NET_2], look };

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    let mark = ["x-aspnet-version", "x-aspnetmvc-version"].into_iter().find(|name| facts.has(name));
    let (seen, weight) = if facts.is("x-powered-by", "asp.net") {
        (Some("x-powered-by"), Weight::Strong)
    } else if mark.is_some() {
        (mark, Weight::Strong)
    } else {
        // Gateways are built on Kestrel as well (YARP, Ocelot).
        (Some("server").filter(|_| facts.server_is("kestrel")), Weight::Medium)
    };
    if let Some(name) = seen {
        let seen = facts.quote(name);
        sheet.add(Claim::at(&NET_2, Responder::Origin, weight, seen).group("framework"));
    }
    if facts.status == 429 && facts.says("api calls quota exceeded! maximum admitted") {
        let (_, policy) = facts.lower().split_once("maximum admitted").unwrap_or_default();
        // Its periods are 1s, 15m, 12h, 7d.
        let is_days = policy
            .split_once(" per ")
            .and_then(|(_, period)| period.split(['.', ' ']).next())
            .and_then(|period| period.strip_suffix('d'))
            .is_some_and(|count| count.bytes().all(|b| b.is_ascii_digit()));
        let kind = if is_days { LimitType::Quota } else { kind_of_window(policy) };
        sheet.add(
            Claim::at(
                &NET_1,
                Responder::Origin,
                // The same text is the default of Ocelot, a gateway.
                Weight::Medium,
                "AspNetCoreRateLimit's default text",
            )
            .group("body-form")
            .limit(kind, 0.9)
            .unit(LimitUnit::Requests),
        );
    }
}
