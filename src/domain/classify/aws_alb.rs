//! AWS Application Load Balancer and AWS WAF: the load balancer has no limiter of its own; a 429
//! with its name is a fixed response or a rule's custom response.

use super::claim::{Claim, Rule, Sheet, Signature};
use super::facts::Facts;
use super::{LimitType, Responder, Tri, Weight};

const ALB: &str = "https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-troubleshooting.html";
const WAF: &str =
    "https://docs.aws.amazon.com/waf/latest/developerguide/waf-captcha-and-challenge-actions.html";

static AL_1: Rule = Rule::new("AL-1", ALB);
static AL_2: Rule = Rule::new("AL-2", ALB);
static AW_0: Rule = Rule::new("AW-0", ALB);
static AW_1: Rule = Rule::new("AW-1", WAF);

/// The signature.
pub(crate) static SIGNATURE: Signature =
    Signature { id: "aws-alb-waf", rules: &[&AL_1, &AL_2, &AW_0, &AW_1], look };

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    if facts.has("x-amzn-waf-action") {
        // The product that the rule set is attached to answered, where it can be told.
        let who = if facts.server_is("awselb/") {
            Responder::AwsAlb
        } else if facts.has("x-amz-apigw-id") {
            Responder::AwsApiGateway
        } else if facts.has("x-amz-cf-id")
            || facts.server_is("cloudfront")
            || facts.get("x-cache").is_some_and(|cache| cache.ends_with("from cloudfront"))
            || facts.holds("via", "(cloudfront)")
        {
            Responder::Cloudfront
        } else {
            Responder::AwsWaf
        };
        let seen = facts.quote("x-amzn-waf-action");
        sheet.add(
            Claim::at(&AW_1, who, Weight::Proof, seen)
                .reached(Tri::No)
                .limit(LimitType::Security, 0.98),
        );
    }
    if facts.server_is("awselb/") {
        let seen = facts.quote("server");
        sheet.add(
            Claim::at(&AL_1, Responder::AwsAlb, Weight::Strong, seen)
                .group("alb-page")
                .reached(if matches!(facts.status, 502 | 504 | 460) { Tri::Yes } else { Tri::No }),
        );
        if is_plain_page(facts) {
            let seen = "the load balancer's page: a centred status and no signature";
            sheet.add(Claim::at(&AL_2, Responder::AwsAlb, Weight::Weak, seen));
        }
    } else if facts.has("x-amzn-trace-id") && !facts.has("x-amz-apigw-id") {
        sheet.add(Claim::on_path(&AW_0, Responder::AwsAlb, "x-amzn-trace-id"));
    }
}

/// The page of the load balancer and of WAF: nginx's frame without a signature.
fn is_plain_page(facts: &Facts<'_>) -> bool {
    facts.body.len() < 300
        && facts.says("<center><h1>")
        && !facts.says("<hr>")
        && facts.body.ends_with("</html>")
}
