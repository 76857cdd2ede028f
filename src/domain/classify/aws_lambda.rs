//! AWS Lambda's own front: the invoke API and function URLs. Behind API Gateway a throttled function
//! is a 500, behind a load balancer a 502.

use super::claim::{Claim, Rule, Sheet, Signature};
use super::facts::Facts;
use super::{LimitType, LimitUnit, Responder, Weight};

const LAMBDA: &str = "https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html";
const URLS: &str = "https://docs.aws.amazon.com/lambda/latest/dg/urls-configuration.html";

static LA_1: Rule = Rule::new("LA-1", LAMBDA);
static LA_2: Rule = Rule::new("LA-2", URLS);

/// The signature.
pub(crate) static SIGNATURE: Signature =
    Signature { id: "aws-lambda", rules: &[&LA_1, &LA_2], look };

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    const WHO: Responder = Responder::AwsLambda;
    if facts.status < 400 {
        return;
    }
    let url = facts.host().contains(".lambda-url.") && facts.host_in("on.aws");
    let invoke = facts.host().starts_with("lambda.") && facts.host_in("amazonaws.com");
    let reason = facts.json_value("Reason");
    if let Some((word, kind, unit)) =
        reason.and_then(|reason| REASONS.iter().find(|(word, ..)| *word == reason))
    {
        let seen = format!("Reason: {word}");
        sheet.add(
            Claim::at(&LA_1, WHO, Weight::Strong, seen).signs_body().limit(*kind, 0.97).unit(*unit),
        );
        if facts.is("x-amzn-errortype", "TooManyRequestsException") || invoke {
            let seen = "x-amzn-errortype: TooManyRequestsException, or the invoke API's host";
            sheet.add(Claim::at(&LA_1, WHO, Weight::Medium, seen).group("lambda-type"));
        }
    }
    if url {
        sheet.add(Claim::on_path(&LA_2, WHO, format!("host: {}", facts.host())));
        let message = facts.json_value("Message").or_else(|| facts.json_value("message"));
        // A function can't write the error type: its header fields of that name are renamed.
        let typed = facts.is("x-amzn-errortype", "TooManyRequestsException");
        let says_so = message.is_some_and(|m| m.starts_with("Rate Exceeded"));
        if facts.status == 429 && reason.is_none() && (says_so || typed) {
            let seen = "the function URL's own refusal: Rate Exceeded";
            let weight = if typed { Weight::Strong } else { Weight::Medium };
            sheet.add(
                Claim::at(&LA_2, WHO, weight, seen)
                    .group("lambda-url")
                    .signs_body()
                    .limit(LimitType::Concurrency, 0.6),
            );
        } else if facts.is_json() && !facts.body.is_empty() && reason.is_none() {
            let seen = "the body is not the function URL's own message";
            sheet.add(Claim::behind(&LA_2, WHO, Weight::Medium, seen).group("lambda-url"));
        }
    }
}

/// The values of `Reason` in a throttled invocation (service model `lambda/2015-03-31`).
const REASONS: [(&str, LimitType, LimitUnit); 6] = [
    ("ConcurrentInvocationLimitExceeded", LimitType::Concurrency, LimitUnit::Concurrency),
    (
        "ReservedFunctionConcurrentInvocationLimitExceeded",
        LimitType::Concurrency,
        LimitUnit::Concurrency,
    ),
    ("ConcurrentSnapshotCreateLimitExceeded", LimitType::Concurrency, LimitUnit::Concurrency),
    ("FunctionInvocationRateLimitExceeded", LimitType::Rate, LimitUnit::Requests),
    ("ReservedFunctionInvocationRateLimitExceeded", LimitType::Rate, LimitUnit::Requests),
    ("CallerRateLimitExceeded", LimitType::Rate, LimitUnit::Requests),
];
