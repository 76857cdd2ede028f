//! GitLab, hosted and self-managed: its own fields beside the drafts' names, and a plain text
//! body.

use super::Api;
use crate::domain::classify::claim::{Claim, Rule, Sheet, Signature};
use crate::domain::classify::facts::Facts;
use crate::domain::classify::{LimitType, LimitUnit, Responder, Weight};

const DOCS: &str = "https://docs.gitlab.com/administration/settings/user_and_ip_rate_limits/";
static GL_1: Rule = Rule::new("GL-1", DOCS);
static GL_2: Rule = Rule::new("GL-2", DOCS);
static GL_3: Rule =
    Rule::new("GL-3", "https://docs.gitlab.com/user/gitlab_com/#rate-limits-on-gitlabcom");

pub(crate) static SIGNATURE: Signature =
    Signature { id: "gitlab", rules: &[&GL_1, &GL_2, &GL_3], look };

const API: Api = Api { name: "gitlab", domains: &["gitlab.com"] };

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    if facts.has("ratelimit-observed")
        || facts.get("ratelimit-name").is_some_and(|n| n.starts_with("throttle_"))
    {
        // Self-managed hosts carry any name, so the field itself is the mark.
        let mut claim =
            Claim::at(&GL_1, Responder::Origin, Weight::Proof, "GitLab's own limit fields are set")
                .provider("gitlab");
        if facts.status == 429 {
            claim = claim.limit(LimitType::Rate, 0.95).unit(LimitUnit::Requests);
        }
        sheet.add(claim);
    }
    let has_meta = facts.has("x-gitlab-meta");
    if has_meta || facts.has("gitlab-sv") {
        // The second is the load balancer's, which names the server that it asked.
        let weight = if has_meta { Weight::Strong } else { Weight::Medium };
        sheet.add(
            Claim::at(&GL_3, Responder::Origin, weight, "a header of GitLab's application is set")
                .provider("gitlab"),
        );
    }
    let is_plain = facts.media_is("text/plain") || facts.media.is_empty();
    if API.owns(facts)
        && facts.status == 429
        && is_plain
        && !facts.body.is_empty()
        && !facts.body.starts_with(['<', '{'])
    {
        sheet.add(
            Claim::at(
                &GL_2,
                Responder::Origin,
                Weight::Strong,
                "a refusal in plain text, as the application sends it",
            )
            .limit(LimitType::Rate, 0.9)
            .unit(LimitUnit::Requests)
            .provider("gitlab"),
        );
    }
}
