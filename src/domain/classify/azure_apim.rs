//! Azure API Management: the limit policies write fixed messages; a quota is a 403.

use super::claim::{Claim, Rule, Sheet, Signature};
use super::facts::Facts;
use super::{LimitType, LimitUnit, Responder, Weight};

const APIM_RATE: &str = "https://learn.microsoft.com/azure/api-management/rate-limit-policy";
const APIM_QUOTA: &str = "https://learn.microsoft.com/azure/api-management/quota-policy";

static AZ_0: Rule = Rule::new("AZ-0", APIM_RATE);
static AZ_1: Rule = Rule::new("AZ-1", APIM_RATE);
static AZ_2: Rule = Rule::new("AZ-2", APIM_QUOTA);
static AZ_3: Rule = Rule::new("AZ-3", APIM_RATE);

/// The signature.
pub(crate) static SIGNATURE: Signature =
    Signature { id: "azure-apim", rules: &[&AZ_0, &AZ_1, &AZ_2, &AZ_3], look };

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    const WHO: Responder = Responder::AzureApim;
    if facts.host_in("azure-api.net") {
        sheet.add(Claim::on_path(&AZ_0, WHO, format!("host: {}", facts.host())));
    }
    if !matches!(facts.status, 403 | 429) {
        return;
    }
    let message = facts.json_value("message");
    let code = facts.json_value("statusCode");
    let tells_status = code.and_then(|c| c.parse::<u16>().ok()) == Some(facts.status);
    if let Some(message) = message
        && tells_status
    {
        let starts = |text: &str| message.starts_with(text);
        if starts("Rate limit is exceeded. Try again in ")
            || starts("Token limit is exceeded. Try again in ")
        {
            let tokens = starts("Token limit");
            let seen = "the message of the rate-limit policy";
            let claim = rate(Claim::at(&AZ_1, WHO, Weight::Strong, seen).signs_body());
            sheet.add(if tokens { claim.unit(LimitUnit::Tokens) } else { claim });
            let seconds = message.split(' ').filter_map(|w| w.parse::<u64>().ok()).next_back();
            let promised = facts.get("retry-after").and_then(|v| v.parse::<u64>().ok());
            if seconds.is_some() && seconds == promised {
                let seen = "the message and retry-after name the same seconds";
                sheet.add(Claim::at(&AZ_3, WHO, Weight::Medium, seen).group("apim-wait"));
            }
        } else if starts("Out of call volume quota") || starts("Out of bandwidth quota") {
            let bytes = starts("Out of bandwidth");
            let unit = if bytes { LimitUnit::Bytes } else { LimitUnit::Requests };
            let seen = "the message of the quota policy";
            sheet.add(
                Claim::at(&AZ_2, WHO, Weight::Strong, seen)
                    .signs_body()
                    .limit(LimitType::Quota, 0.97)
                    .unit(unit),
            );
            if facts.has("retry-after") {
                let seen = "retry-after beside the quota policy's message";
                sheet.add(Claim::at(&AZ_3, WHO, Weight::Medium, seen).group("apim-wait"));
            }
        }
    }
}

fn rate(claim: Claim) -> Claim {
    claim.limit(LimitType::Rate, 0.95).unit(LimitUnit::Requests)
}
