//! AWS service APIs: throttling comes as 400, 429, 503 or 509 with a code in a header, JSON or XML.

use super::{Api, Code, concurrency, json_code, overload, quota, rate, xml_code};
use crate::domain::classify::claim::{Claim, Rule, Sheet, Signature};
use crate::domain::classify::facts::Facts;
use crate::domain::classify::{LimitType, LimitUnit, Responder, Weight};

const RETRY: &str = "https://docs.aws.amazon.com/sdkref/latest/guide/feature-retry-behavior.html";
static AS_1: Rule = Rule::new("AS-1", RETRY);
static AS_2: Rule = Rule::new("AS-2", RETRY);
static AS_3: Rule =
    Rule::new("AS-3", "https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html");
static AS_4: Rule =
    Rule::new("AS-4", "https://developer-docs.amazon.com/sp-api/docs/usage-plans-and-rate-limits");
static AS_5: Rule =
    Rule::new("AS-5", "https://developer.amazon.com/docs/smarthome/send-events.html");

pub(crate) static SIGNATURE: Signature =
    Signature { id: "aws-services", rules: &[&AS_1, &AS_2, &AS_3, &AS_4, &AS_5], look };

const API: Api = Api { name: "aws", domains: &["amazonaws.com", "amazonaws.com.cn", "api.aws"] };
const SELLING: Api = Api { name: "amazon-sp-api", domains: &[] };
const ALEXA: Api = Api { name: "amazon-alexa", domains: &["amazonalexa.com"] };

/// The code of Alexa's event gateway.
const ALEXA_CODE: &str = "THROTTLING_EXCEPTION";

/// The throttling codes that the SDKs know, then those of single services.
const CODES: &[Code] = &[
    concurrency("PriorRequestNotComplete"),
    concurrency("TransactionInProgressException"),
    quota("ServiceQuotaExceededException"),
    overload("ServiceUnavailableException"),
    overload("ModelNotReadyException"),
    rate("Throttling"),
    rate("ThrottlingException"),
    rate("ThrottledException"),
    rate("RequestThrottledException"),
    rate("RequestThrottled"),
    rate("TooManyRequestsException"),
    rate("ProvisionedThroughputExceededException"),
    rate("RequestLimitExceeded"),
    rate("BandwidthLimitExceeded"),
    rate("SlowDown"),
    rate("EC2ThrottledException"),
    rate("LimitExceededException"),
    rate(ALEXA_CODE),
];

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    if selling_partner(facts, sheet) || facts.status < 400 {
        return;
    }
    // A function URL is the front of somebody's function; its own signature reads it.
    if facts.host().contains(".lambda-url.") {
        return;
    }
    let is_service = is_service_host(facts);
    let error_type =
        facts.get("x-amzn-errortype").map(|value| value.split(':').next().unwrap_or(value));
    let has_id = facts.has("x-amzn-requestid") || facts.has("x-amz-request-id");
    // API Gateway writes the same header; its own id or its host tells the two apart.
    if !is_service && (!has_id || facts.has("x-amz-apigw-id") || facts.has("apigw-requestid")) {
        return;
    }
    let by_header = error_type
        .and_then(|value| CODES.iter().find(|code| code.word.eq_ignore_ascii_case(value)));
    let found = by_header.or_else(|| json_code(facts, CODES)).or_else(|| xml_code(facts, CODES));
    let weight = if is_service { Weight::Strong } else { Weight::Medium };
    if let Some(code) = found {
        let rule = match code.word {
            "SlowDown" => &AS_3,
            ALEXA_CODE => &AS_5,
            _ => &AS_1,
        };
        let mut claim = Claim::at(
            rule,
            Responder::Origin,
            weight,
            format!("the documented code {}", code.word),
        )
        .group("aws-code");
        claim = match (code.word, facts.status) {
            // Outside API Gateway this is a cap on stored things as often as one on calls.
            ("LimitExceededException", 429) => claim.limit(LimitType::Rate, 0.7),
            ("LimitExceededException", _) => claim,
            // A throttled function answers with it as well, for a limit on calls at once.
            ("TooManyRequestsException", _) if !is_service => claim.limit(code.kind, 0.75),
            ("ServiceUnavailableException", _) => claim.limit(code.kind, 0.7),
            ("ProvisionedThroughputExceededException", _) => {
                claim.limit(code.kind, 0.95).unit(LimitUnit::Cost)
            }
            ("BandwidthLimitExceeded", _) => claim.limit(code.kind, 0.9).unit(LimitUnit::Bytes),
            _ => claim.limit(code.kind, 0.95).unit(code.unit),
        };
        sheet.add(if is_service { claim.provider("aws") } else { claim });
    }
    if is_service && has_id {
        sheet.add(
            Claim::at(
                &AS_2,
                Responder::Origin,
                Weight::Medium,
                "a service's request id on its own host",
            )
            .provider("aws"),
        );
    }
}

/// Whether the host is a service's, not a customer's API, load balancer or site on one.
fn is_service_host(facts: &Facts<'_>) -> bool {
    let is_customer = facts.host().contains(".execute-api.")
        || facts.host().contains(".elb.")
        || facts.host().contains(".lambda-url.")
        || facts.host().contains(".s3-website");
    let is_lambda = facts.host().starts_with("lambda.");
    (API.owns(facts) || ALEXA.owns(facts)) && !is_customer && !is_lambda
}

/// Amazon's Selling Partner API: `QuotaExceeded` means the rate there.
fn selling_partner(facts: &Facts<'_>, sheet: &mut Sheet) -> bool {
    let is_host = facts.host().starts_with("sellingpartnerapi-") || SELLING.is_stated(facts);
    if !is_host {
        return false;
    }
    let says_quota = facts.json().any(|field| field.value == "QuotaExceeded");
    if facts.status == 429 || says_quota {
        let weight = if says_quota || facts.has("x-amzn-ratelimit-limit") {
            Weight::Strong
        } else {
            Weight::Medium
        };
        sheet.add(
            Claim::at(
                &AS_4,
                Responder::Origin,
                weight,
                "the usage plan of this API, in requests a second",
            )
            .limit(LimitType::Rate, 0.97)
            .unit(LimitUnit::Requests)
            .provider("amazon-sp-api"),
        );
    }
    true
}
