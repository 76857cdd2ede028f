//! Names that one provider of an API has for itself.

use super::entry::{Entry, Family};
use super::{FieldKind as Kind, FieldUnit as Unit};

const OPENAI: &str = "platform.openai.com/docs/guides/rate-limits";
const ANTHROPIC: &str = "docs.anthropic.com/en/api/rate-limits";
const STRIPE: &str = "docs.stripe.com/rate-limits";
const SHOPIFY: &str = "shopify.dev/docs/api/admin-rest/usage/rate-limits";
const TWILIO: &str = "twilio.com/docs/usage/rest-api-best-practices";
const AMAZON_SP_API: &str = "developer-docs.amazon.com/sp-api/docs/usage-plans-and-rate-limits";
const FASTLY_API: &str = "fastly.com/documentation/reference/api";
const AKAMAI_API: &str = "techdocs.akamai.com/cloudlets/v2/reference/rate-limits";
const AKAMAI_API_2: &str = "techdocs.akamai.com/purge-cache/reference/rate-limiting";
const AZURE_OPENAI: &str = "learn.microsoft.com/azure/ai-foundry/openai/quotas-limits";
const AZURE_RESOURCE_MANAGER: &str =
    "learn.microsoft.com/azure/azure-resource-manager/management/request-limits-and-throttling";
const AZURE_COSMOS_DB: &str =
    "learn.microsoft.com/rest/api/cosmos-db/common-cosmosdb-rest-response-headers";

pub(super) const FAMILY: Family = Family {
    title: "Providers",
    note: "These names say by themselves whose they are.",
    entries: &[
        Entry {
            name: "x-ratelimit-limit-requests",
            owner: "openai",
            kind: Kind::Limit,
            unit: Unit::Requests,
            meaning: "Requests allowed; OpenAI and servers compatible with it.",
            source: OPENAI,
        },
        Entry {
            name: "x-ratelimit-remaining-requests",
            owner: "openai",
            kind: Kind::Remaining,
            unit: Unit::Requests,
            meaning: "Requests left; may be above 0 while the tokens are spent.",
            source: OPENAI,
        },
        Entry {
            name: "x-ratelimit-reset-requests",
            owner: "openai",
            kind: Kind::Reset,
            unit: Unit::Duration,
            meaning: "Time until the request allowance is full.",
            source: OPENAI,
        },
        Entry {
            name: "x-ratelimit-limit-tokens",
            owner: "openai",
            kind: Kind::Limit,
            unit: Unit::Tokens,
            meaning: "Model tokens allowed.",
            source: OPENAI,
        },
        Entry {
            name: "x-ratelimit-remaining-tokens",
            owner: "openai",
            kind: Kind::Remaining,
            unit: Unit::Tokens,
            meaning: "Model tokens left.",
            source: OPENAI,
        },
        Entry {
            name: "x-ratelimit-reset-tokens",
            owner: "openai",
            kind: Kind::Reset,
            unit: Unit::Duration,
            meaning: "Time until the token allowance is full.",
            source: OPENAI,
        },
        Entry {
            name: "anthropic-ratelimit-requests-limit",
            owner: "anthropic",
            kind: Kind::Limit,
            unit: Unit::Requests,
            meaning: "Requests allowed.",
            source: ANTHROPIC,
        },
        Entry {
            name: "anthropic-ratelimit-requests-remaining",
            owner: "anthropic",
            kind: Kind::Remaining,
            unit: Unit::Requests,
            meaning: "Requests left.",
            source: ANTHROPIC,
        },
        Entry {
            name: "anthropic-ratelimit-<bucket>-limit",
            owner: "anthropic",
            kind: Kind::Limit,
            unit: Unit::Tokens,
            meaning: "Tokens of this kind allowed.",
            source: ANTHROPIC,
        },
        Entry {
            name: "anthropic-ratelimit-<bucket>-remaining",
            owner: "anthropic",
            kind: Kind::Remaining,
            unit: Unit::Tokens,
            meaning: "Tokens of this kind left, rounded to thousands.",
            source: ANTHROPIC,
        },
        Entry {
            name: "anthropic-ratelimit-<bucket>-reset",
            owner: "anthropic",
            kind: Kind::Reset,
            unit: Unit::Date,
            meaning: "When this allowance is full, as RFC 3339 writes it.",
            source: ANTHROPIC,
        },
        Entry {
            name: "stripe-rate-limited-reason",
            owner: "stripe",
            kind: Kind::Reason,
            unit: Unit::Text,
            meaning: "Which limit refused: global or endpoint rate, global or endpoint concurrency, or one resource.",
            source: STRIPE,
        },
        Entry {
            name: "x-shopify-shop-api-call-limit",
            owner: "shopify",
            kind: Kind::Used,
            unit: Unit::Requests,
            meaning: "Calls in the leaky bucket and its size, as used/size.",
            source: SHOPIFY,
        },
        Entry {
            name: "twilio-concurrent-requests",
            owner: "twilio",
            kind: Kind::Used,
            unit: Unit::Concurrency,
            meaning: "Requests of the account in flight.",
            source: TWILIO,
        },
        Entry {
            name: "x-amzn-ratelimit-limit",
            owner: "amazon-sp-api",
            kind: Kind::Limit,
            unit: Unit::PerSecond,
            meaning: "Requests a second that the plan allows; a rate, no count.",
            source: AMAZON_SP_API,
        },
        Entry {
            name: "fastly-ratelimit-remaining",
            owner: "fastly-api",
            kind: Kind::Remaining,
            unit: Unit::Requests,
            meaning: "Changes left in the hour.",
            source: FASTLY_API,
        },
        Entry {
            name: "fastly-ratelimit-reset",
            owner: "fastly-api",
            kind: Kind::Reset,
            unit: Unit::EpochSeconds,
            meaning: "When the hour ends.",
            source: FASTLY_API,
        },
        Entry {
            name: "x-ratelimit-next",
            owner: "akamai-api",
            kind: Kind::Reset,
            unit: Unit::Date,
            meaning: "When the next request is allowed.",
            source: AKAMAI_API,
        },
        Entry {
            name: "x-ratelimit-limit-per-second",
            owner: "akamai-api",
            kind: Kind::Limit,
            unit: Unit::PerSecond,
            meaning: "How fast the bucket refills, with decimals.",
            source: AKAMAI_API_2,
        },
        Entry {
            name: "x-ms-ratelimit-remaining-tokens",
            owner: "azure-openai",
            kind: Kind::Remaining,
            unit: Unit::Tokens,
            meaning: "Model tokens left.",
            source: AZURE_OPENAI,
        },
        Entry {
            name: "x-ms-ratelimit-remaining-<scope>",
            owner: "azure-resource-manager",
            kind: Kind::Remaining,
            unit: Unit::Requests,
            meaning: "Requests left for this scope and kind of operation.",
            source: AZURE_RESOURCE_MANAGER,
        },
        Entry {
            name: "x-ms-request-charge",
            owner: "azure-cosmos-db",
            kind: Kind::Used,
            unit: Unit::Unknown,
            meaning: "Request units that this operation cost.",
            source: AZURE_COSMOS_DB,
        },
    ],
};
