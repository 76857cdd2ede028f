//! Amazon API Gateway, REST and HTTP APIs.
//!
//! Request ids are on every answer, also on those of a Lambda function that answers 429 by itself.
//! A REST API writes `x-amzn-errortype` only on its own refusals, and moves header fields of what
//! it relays to `x-amzn-remapped-*`.

use super::claim::{Claim, Rule, Sheet, Signature};
use super::facts::Facts;
use super::{LimitType, LimitUnit, Responder, Tri, Weight};

const RESPONSES: &str = "https://docs.aws.amazon.com/apigateway/latest/developerguide/supported-gateway-response-types.html";
const REMAPPED: &str =
    "https://docs.aws.amazon.com/apigateway/latest/developerguide/api-gateway-known-issues.html";
const THROTTLE: &str = "https://docs.aws.amazon.com/apigateway/latest/developerguide/api-gateway-request-throttling.html";
const HTTP_API: &str =
    "https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-throttling.html";

static AG_0: Rule = Rule::new("AG-0", RESPONSES);
static AG_1: Rule = Rule::new("AG-1", RESPONSES);
static AG_2: Rule = Rule::new("AG-2", REMAPPED);
static AG_3: Rule = Rule::new("AG-3", HTTP_API);
static AG_4: Rule = Rule::new("AG-4", RESPONSES);
static AG_5: Rule = Rule::new("AG-5", THROTTLE);
static AG_6: Rule = Rule::new("AG-6", HTTP_API);

/// The signature.
pub(crate) static SIGNATURE: Signature = Signature {
    id: "aws-api-gateway",
    rules: &[&AG_0, &AG_1, &AG_2, &AG_3, &AG_4, &AG_5, &AG_6],
    look,
};

const WHO: Responder = Responder::AwsApiGateway;
/// Body of a throttled request.
const THROTTLED: &str = "Too Many Requests";
/// Body of a request beyond the usage plan's quota.
const OVER_QUOTA: &str = "Limit Exceeded";

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    let rest = facts.has("x-amz-apigw-id");
    let http = facts.has("apigw-requestid");
    let error = facts.get("x-amzn-errortype").map(plain_type);
    let remapped = facts.first_with_prefix("x-amzn-remapped-");
    let message = sole_message(facts);
    let host = facts.host().contains(".execute-api.") && facts.host_in("amazonaws.com");
    if !rest && !http && error.is_none() && remapped.is_none() && !host {
        if matches!(facts.status, 429 | 403) && message == Some(OVER_QUOTA) {
            let seen = "the body is only {\"message\":\"Limit Exceeded\"}";
            sheet.add(quota(
                Claim::at(&AG_5, WHO, Weight::Medium, seen).signs_body().group("apigw-body"),
            ));
        }
        return;
    }
    if rest || http || host {
        let id = if rest { "x-amz-apigw-id" } else { "apigw-requestid" };
        let seen = if rest || http { facts.quote(id) } else { format!("host: {}", facts.host()) };
        sheet.add(Claim::on_path(&AG_0, WHO, seen));
    }
    if let Some((name, value)) = remapped {
        let seen = format!("{name}: {value}");
        sheet.add(Claim::behind(&AG_2, WHO, Weight::Strong, seen));
        return;
    }
    if let Some(error) = error {
        refusal(facts, sheet, error, rest, message);
        return;
    }
    let own = message == Some(THROTTLED) || message == Some(OVER_QUOTA);
    if own && (http || rest || host) {
        let seen = "the body is only the gateway's own message";
        let claim = Claim::at(&AG_3, WHO, Weight::Medium, seen).signs_body().group("apigw-body");
        sheet.add(if message == Some(OVER_QUOTA) { quota(claim) } else { rate(claim) });
    } else if facts.response.headers_complete && rest {
        let seen = "x-amz-apigw-id without x-amzn-errortype: the integration's own answer";
        sheet.add(Claim::behind(&AG_4, WHO, Weight::Medium, seen));
    } else if http && facts.status == 503 && message == Some("Service Unavailable") {
        // Sent where the integration fails or has no room, so it may have been asked.
        let seen = "503 with the gateway's own message: the integration gave no answer";
        sheet.add(
            Claim::at(&AG_6, WHO, Weight::Medium, seen)
                .group("apigw-body")
                .signs_body()
                .reached(Tri::Unknown),
        );
    } else if http && !facts.body.is_empty() && !is_gateway_message(message) {
        let seen = "the body is not the gateway's own message";
        sheet.add(Claim::behind(&AG_6, WHO, Weight::Medium, seen).group("apigw-body"));
    }
}

/// An error type and what it proves: with the gateway's extended id its own refusal; without it
/// an AWS service may have written it, or an application that imitates one.
fn refusal(facts: &Facts<'_>, sheet: &mut Sheet, error: &str, rest: bool, message: Option<&str>) {
    let seen = facts.quote("x-amzn-errortype");
    let kind = match error {
        "TooManyRequestsException" => Some(LimitType::Rate),
        "LimitExceededException" => Some(LimitType::Quota),
        _ => None,
    };
    if rest {
        let claim = Claim::at(&AG_1, WHO, Weight::Proof, seen)
            .signs_body()
            .reached(if is_integration(error) { Tri::Unknown } else { Tri::No });
        sheet.add(match kind {
            Some(LimitType::Rate) => rate(claim),
            Some(_) => quota(claim),
            None => claim,
        });
        return;
    }
    let fits = matches!(
        (error, message),
        ("TooManyRequestsException", Some(THROTTLED))
            | ("LimitExceededException", Some(OVER_QUOTA))
    );
    // A REST API sends its extended id with the request id: one without the other is not its.
    let foreign = facts.has("x-amzn-requestid") && facts.response.headers_complete;
    if fits && !foreign {
        let claim = Claim::at(&AG_1, WHO, Weight::Strong, seen).signs_body().group("apigw-body");
        sheet.add(if kind == Some(LimitType::Quota) { quota(claim) } else { rate(claim) });
    }
}

fn rate(claim: Claim) -> Claim {
    claim.limit(LimitType::Rate, 0.95).unit(LimitUnit::Requests)
}

fn quota(claim: Claim) -> Claim {
    claim.limit(LimitType::Quota, 0.95).unit(LimitUnit::Requests)
}

/// An error type without the namespace that some protocols add.
fn plain_type(value: &str) -> &str {
    let value = value.split(':').next().unwrap_or(value);
    value.rsplit('#').next().unwrap_or(value).trim()
}

/// Errors that tell of a failed integration: it may have been called.
fn is_integration(error: &str) -> bool {
    matches!(error, "InternalServerErrorException" | "EndpointRequestTimedOutException")
}

/// The message of a JSON body that holds nothing else.
fn sole_message<'a>(facts: &Facts<'a>) -> Option<&'a str> {
    let mut fields = facts.json();
    let first = fields.next().filter(|f| f.key == "message" && f.depth == 1 && f.is_text)?;
    fields.next().is_none().then_some(first.value)
}

/// Messages that the gateway writes by itself.
fn is_gateway_message(message: Option<&str>) -> bool {
    message.is_some_and(|message| {
        [
            THROTTLED,
            OVER_QUOTA,
            "Forbidden",
            "Unauthorized",
            "Not Found",
            "Internal Server Error",
            "Internal server error",
            "Service Unavailable",
            "Missing Authentication Token",
            "Endpoint request timed out",
        ]
        .contains(&message)
    })
}
