//! Hosts whose documentation owns the header fields that they send.
//!
//! A host that serves its owner's customers behind a gateway or a CDN (`*.azure-api.net`,
//! `*.execute-api.*.amazonaws.com`, `*.cloudfront.net`, …) is nobody's API here: what it answers
//! may come from the customer's own application. A custom domain hides all of this, so that no
//! match proves nothing.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

/// One host pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostRule {
    /// Labels in lower case; `*` at the front stands for one or more labels, `*` inside for any
    /// part of one label.
    pub host: &'static str,
    /// What the path must begin with; empty where the whole host counts.
    pub path: &'static str,
    /// The provider; `None` where the host belongs to customers.
    pub provider: Option<&'static str>,
}

const fn api(host: &'static str, provider: &'static str) -> HostRule {
    HostRule { host, path: "", provider: Some(provider) }
}

const fn under(host: &'static str, path: &'static str, provider: &'static str) -> HostRule {
    HostRule { host, path, provider: Some(provider) }
}

const fn customers(host: &'static str) -> HostRule {
    HostRule { host, path: "", provider: None }
}

/// The known hosts. The longest pattern that matches decides.
pub const HOSTS: &[HostRule] = &[
    api("api.github.com", "github"),
    api("uploads.github.com", "github"),
    api("*.ghe.com", "github"),
    under("gitlab.com", "/api/", "gitlab"),
    api("api.bitbucket.org", "bitbucket"),
    api("api.openai.com", "openai"),
    api("*.openai.azure.com", "azure-openai"),
    api("api.anthropic.com", "anthropic"),
    api("api.mistral.ai", "mistral"),
    api("api.groq.com", "groq"),
    api("api.cohere.com", "cohere"),
    api("generativelanguage.googleapis.com", "google-apis"),
    api("api.stripe.com", "stripe"),
    api("files.stripe.com", "stripe"),
    under("slack.com", "/api/", "slack"),
    api("hooks.slack.com", "slack"),
    under("discord.com", "/api/", "discord"),
    under("*.discord.com", "/api/", "discord"),
    under("discordapp.com", "/api/", "discord"),
    under("*.myshopify.com", "/admin/", "shopify"),
    under("*.myshopify.com", "/api/", "shopify"),
    api("*.twilio.com", "twilio"),
    api("api.sendgrid.com", "sendgrid"),
    api("api.x.com", "x"),
    api("api.twitter.com", "x"),
    api("oauth.reddit.com", "reddit"),
    api("api.cloudflare.com", "cloudflare-api"),
    api("api.fastly.com", "fastly-api"),
    api("api.netlify.com", "netlify"),
    api("api.vercel.com", "vercel-api"),
    api("api.heroku.com", "heroku"),
    api("*.akamaiapis.net", "akamai-api"),
    api("*.purge.akamaiapis.net", "akamai-api"),
    api("api.digitalocean.com", "digitalocean"),
    api("api.linode.com", "linode"),
    api("api.hetzner.cloud", "hetzner"),
    api("sellingpartnerapi-*.amazon.com", "amazon-sp-api"),
    api("api.amazonalexa.com", "amazon-alexa"),
    api("*.amazonaws.com", "aws"),
    api("*.amazonaws.com.cn", "aws"),
    api("*.api.aws", "aws"),
    customers("*.execute-api.*.amazonaws.com"),
    customers("*.lambda-url.*.on.aws"),
    customers("*.elb.amazonaws.com"),
    customers("*.elb.*.amazonaws.com"),
    customers("*.compute.amazonaws.com"),
    customers("*.compute-1.amazonaws.com"),
    api("*.googleapis.com", "google-apis"),
    api("graph.microsoft.com", "microsoft-graph"),
    api("graph.microsoft.us", "microsoft-graph"),
    api("management.azure.com", "azure-resource-manager"),
    api("management.usgovcloudapi.net", "azure-resource-manager"),
    api("api.partnercenter.microsoft.com", "microsoft-partner-center"),
    api("dev.azure.com", "azure-devops"),
    api("*.documents.azure.com", "azure-cosmos-db"),
    api("*.my.salesforce.com", "salesforce"),
    under("*.atlassian.net", "/rest/", "atlassian"),
    api("api.atlassian.com", "atlassian"),
    api("api.hubapi.com", "hubspot"),
    under("*.zendesk.com", "/api/", "zendesk"),
    api("api.notion.com", "notion"),
    api("api.airtable.com", "airtable"),
    api("api.linear.app", "linear"),
    api("api.spotify.com", "spotify"),
    api("graph.facebook.com", "meta"),
    api("api.telegram.org", "telegram"),
    api("api.pagerduty.com", "pagerduty"),
    api("api.datadoghq.com", "datadog"),
    api("api.datadoghq.eu", "datadog"),
    under("*.okta.com", "/api/", "okta"),
    under("*.auth0.com", "/api/", "auth0"),
    api("*.letsencrypt.org", "lets-encrypt"),
    under("*.wikipedia.org", "/w/", "wikimedia"),
    under("*.wikimedia.org", "/w/", "wikimedia"),
    api("upload.wikimedia.org", "wikimedia"),
    under("www.wikidata.org", "/w/", "wikimedia"),
    under("musicbrainz.org", "/ws/", "musicbrainz"),
    api("export.arxiv.org", "arxiv"),
    api("api.openalex.org", "openalex"),
    api("api.crossref.org", "crossref"),
    under("www.nuget.org", "/api/", "nuget"),
    api("api.nuget.org", "nuget"),
    customers("*.azure-api.net"),
    customers("*.azurefd.net"),
    customers("*.cloudfront.net"),
    customers("*.fastly.net"),
    customers("*.vercel.app"),
    customers("*.netlify.app"),
    customers("*.herokuapp.com"),
    customers("*.fly.dev"),
    customers("*.run.app"),
    customers("*.workers.dev"),
];

/// Who owns the API behind a host, where its documentation says what its header fields mean.
///
/// `host` may be in any case and carry a port; `path` decides where only a part of a host is an
/// API, and without a path the host alone is believed.
pub fn provider_of(host: &str, path: Option<&str>) -> Option<&'static str> {
    let host = host.trim().trim_end_matches('.');
    let host = if host.bytes().any(|b| b.is_ascii_uppercase()) {
        Cow::Owned(host.to_ascii_lowercase())
    } else {
        Cow::Borrowed(host)
    };
    let host = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => &host,
    };
    BY_DOMAIN
        .get(domain(host))?
        .iter()
        .filter(|rule| host_matches(rule.host, host))
        .filter(|rule| path.is_none_or(|path| path.starts_with(rule.path)))
        .max_by_key(|rule| rule.host.len() + rule.path.len())
        .and_then(|rule| rule.provider)
}

/// The known hosts by their [`domain`], which every pattern spells out: most hosts of a fleet are
/// nobody's here, and one look-up says so.
static BY_DOMAIN: LazyLock<HashMap<&str, Vec<&HostRule>>> = LazyLock::new(|| {
    let mut rules: HashMap<&str, Vec<&HostRule>> = HashMap::new();
    for rule in HOSTS {
        rules.entry(domain(rule.host)).or_default().push(rule);
    }
    rules
});

/// The last two labels of a host.
fn domain(host: &str) -> &str {
    host.rmatch_indices('.')
        .nth(1)
        .and_then(|(dot, _)| host.split_at_checked(dot + 1))
        .map_or(host, |(_, domain)| domain)
}

fn host_matches(pattern: &str, host: &str) -> bool {
    match pattern.strip_prefix("*.") {
        Some(rest) => suffixes(host).any(|suffix| labels_match(rest, suffix)),
        None => labels_match(pattern, host),
    }
}

/// The parts of a host after each of its dots.
fn suffixes(host: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(host.split_once('.'), |(_, rest)| rest.split_once('.'))
        .map(|(_, rest)| rest)
}

/// Whether each label of the host matches its label of the pattern.
fn labels_match(pattern: &str, host: &str) -> bool {
    let mut labels = host.split('.');
    let all = pattern.split('.').all(|wanted| {
        labels.next().is_some_and(|label| match wanted.split_once('*') {
            Some((start, end)) => {
                label.len() > start.len() + end.len()
                    && label.starts_with(start)
                    && label.ends_with(end)
            }
            None => label == wanted,
        })
    });
    all && labels.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_longest_pattern_decides() {
        for (host, path, expected) in [
            ("api.github.com", None, Some("github")),
            ("API.GitHub.com:443", None, Some("github")),
            ("api.github.com.", None, Some("github")),
            ("github.com", None, None),
            ("api.github.com.example.org", None, None),
            ("evil-api.github.com", None, None),
            ("octo.ghe.com", None, Some("github")),
            ("ghe.com", None, None),
            ("slack.com", Some("/api/chat.postMessage"), Some("slack")),
            ("slack.com", Some("/help"), None),
            ("slack.com", None, Some("slack")),
            ("hooks.slack.com", Some("/services/x"), Some("slack")),
            ("canary.discord.com", Some("/api/v9/channels"), Some("discord")),
            ("discord.com", Some("/channels/1"), None),
            ("shop.myshopify.com", Some("/admin/api/2026-01/orders.json"), Some("shopify")),
            ("shop.myshopify.com", Some("/products/1"), None),
            ("verify.twilio.com", None, Some("twilio")),
            ("gitlab.com", Some("/api/v4/projects"), Some("gitlab")),
            ("sellingpartnerapi-eu.amazon.com", None, Some("amazon-sp-api")),
            ("sellingpartnerapi-.amazon.com", None, None),
            ("dynamodb.eu-west-1.amazonaws.com", None, Some("aws")),
            ("sqs.cn-north-1.amazonaws.com.cn", None, Some("aws")),
            ("abc123.execute-api.eu-west-1.amazonaws.com", None, None),
            ("internal.eu-west-1.elb.amazonaws.com", None, None),
            ("pubsub.googleapis.com", None, Some("google-apis")),
            ("contoso.azure-api.net", None, None),
            ("d111111abcdef8.cloudfront.net", None, None),
            ("api.example.com", None, None),
            ("", None, None),
            ("...", None, None),
        ] {
            assert_eq!(provider_of(host, path), expected, "{host} {path:?}");
        }
    }

    #[test]
    fn every_pattern_is_listed_once() {
        for (index, rule) in HOSTS.iter().enumerate() {
            assert!(
                !HOSTS
                    .iter()
                    .skip(index + 1)
                    .any(|other| (other.host, other.path) == (rule.host, rule.path)),
                "{} {}",
                rule.host,
                rule.path
            );
            assert_eq!(rule.host, rule.host.to_ascii_lowercase());
            let domain = domain(rule.host);
            assert!(!domain.contains('*') && domain.contains('.'), "{}", rule.host);
        }
    }

    proptest! {
        #[test]
        fn any_host_and_path_is_survived(host in any::<String>(), path in any::<Option<String>>()) {
            let _ = provider_of(&host, path.as_deref());
        }
    }
}
