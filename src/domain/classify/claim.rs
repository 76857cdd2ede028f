//! What signatures write down: claims about one product each, with the weight of their proof.

use super::facts::Facts;
use super::{Evidence, Layer, LimitType, LimitUnit, Responder, Says, Tri, Weight};

/// One signature: a product, or a family of refusals, and the rules that see it.
#[derive(Debug)]
pub(crate) struct Signature {
    /// Its name: the file, the folder of samples and the heading in `docs/signatures.md`.
    pub(crate) id: &'static str,
    /// Every rule it may report.
    pub(crate) rules: &'static [&'static Rule],
    /// Writes down what it sees.
    pub(crate) look: fn(&Facts<'_>, &mut Sheet),
}

/// One rule: what is documented where.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    /// Stable id such as `CF-2`.
    pub(crate) id: &'static str,
    /// The public page or source that documents it.
    pub(crate) source: &'static str,
}

impl Rule {
    /// A rule and where it is documented.
    pub(crate) const fn new(id: &'static str, source: &'static str) -> Self {
        Self { id, source }
    }

    /// Whether the rule looks at the response itself, not at what its client says beside it.
    pub(crate) fn is_observed(&self) -> bool {
        !matches!(self.id, "CL-1" | "CL-2" | "CF-9")
    }
}

/// What one rule saw.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    pub(crate) rule: &'static Rule,
    /// Claims of one group have one cause; only the heaviest of them counts.
    pub(crate) group: &'static str,
    pub(crate) about: Responder,
    pub(crate) says: Says,
    pub(crate) weight: Weight,
    pub(crate) observed: String,
    /// Whether the origin saw the request, where it does not follow from who answered.
    pub(crate) reached: Option<Tri>,
    /// The limit this claim tells of.
    pub(crate) limit: Option<LimitHint>,
    /// The owner of the API, where this claim tells.
    pub(crate) provider: Option<&'static str>,
    /// Extra upstream attempts that this claim tells of.
    pub(crate) retries: Option<u32>,
    /// Whether the body itself is signed by the product: then it is nobody else's.
    pub(crate) signs_body: bool,
}

/// A kind of limit with the chance that it is the right one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LimitHint {
    /// The kind.
    pub(crate) kind: LimitType,
    /// Chance that the kind is right, 0 to 1.
    pub(crate) chance: f64,
    /// What is counted.
    pub(crate) unit: LimitUnit,
}

impl Claim {
    fn new(
        rule: &'static Rule,
        about: Responder,
        says: Says,
        weight: Weight,
        observed: String,
    ) -> Self {
        Self {
            rule,
            group: rule.id,
            about,
            says,
            weight,
            observed,
            reached: None,
            limit: None,
            provider: None,
            retries: None,
            signs_body: false,
        }
    }

    /// `who` wrote the response.
    pub(crate) fn at(
        rule: &'static Rule,
        who: Responder,
        weight: Weight,
        observed: impl Into<String>,
    ) -> Self {
        Self::new(rule, who, Says::At, weight, observed.into())
    }

    /// `who` relayed the response; something behind it wrote it.
    pub(crate) fn behind(
        rule: &'static Rule,
        who: Responder,
        weight: Weight,
        observed: impl Into<String>,
    ) -> Self {
        Self::new(rule, who, Says::Behind, weight, observed.into())
    }

    /// `who` is on the path, nothing more.
    pub(crate) fn on_path(
        rule: &'static Rule,
        who: Responder,
        observed: impl Into<String>,
    ) -> Self {
        Self::new(rule, who, Says::OnPath, Weight::None, observed.into())
    }

    /// The response tells the kind of limit, and nothing about who wrote it.
    pub(crate) fn of_limit(
        rule: &'static Rule,
        kind: LimitType,
        chance: f64,
        observed: impl Into<String>,
    ) -> Self {
        Self::new(rule, Responder::Unknown, Says::Limit, Weight::None, observed.into())
            .limit(kind, chance)
    }

    /// Puts the claim into a group of claims with one cause.
    pub(crate) fn group(mut self, group: &'static str) -> Self {
        self.group = group;
        self
    }

    /// Adds the kind of limit, with the chance that it is right.
    pub(crate) fn limit(mut self, kind: LimitType, chance: f64) -> Self {
        let unit = self.limit.map_or(LimitUnit::Unknown, |l| l.unit);
        self.limit = Some(LimitHint { kind, chance, unit });
        self
    }

    /// Adds what the limit counts; call it after [`Self::limit`].
    pub(crate) fn unit(mut self, unit: LimitUnit) -> Self {
        if let Some(limit) = &mut self.limit {
            limit.unit = unit;
        }
        self
    }

    /// Says whether the origin saw the request, where it does not follow from who answered.
    pub(crate) fn reached(mut self, reached: Tri) -> Self {
        self.reached = Some(reached);
        self
    }

    /// Names the owner of the API.
    pub(crate) fn provider(mut self, provider: &'static str) -> Self {
        self.provider = Some(provider);
        self
    }

    /// Tells of extra upstream attempts.
    pub(crate) fn retries(mut self, retries: u32) -> Self {
        self.retries = Some(retries);
        self
    }

    /// Says that the body is the product's own, which silences what its mere form suggests.
    pub(crate) fn signs_body(mut self) -> Self {
        self.signs_body = true;
        self
    }

    /// Whether it says that a cache replayed the response.
    pub(crate) fn is_replay(&self) -> bool {
        self.says == Says::At && self.limit.is_some_and(|l| l.kind == LimitType::Cached)
    }

    /// As shown in a verdict.
    pub(crate) fn evidence(&self) -> Evidence {
        Evidence {
            rule: self.rule.id.to_owned(),
            observed: self.observed.clone(),
            about: self.about,
            says: self.says,
            weight: self.weight,
            source: self.rule.source.to_owned(),
        }
    }
}

/// All claims about one response.
#[derive(Debug, Default)]
pub(crate) struct Sheet {
    pub(crate) claims: Vec<Claim>,
    /// Contradictions that a signature noticed, in words.
    pub(crate) conflicts: Vec<String>,
    /// The header fields at hand are a part of what was sent: what is absent tells nothing.
    pub(crate) is_extract: bool,
    /// The layer that the client claims answered, where no product of that layer is seen.
    pub(crate) claimed: Option<Layer>,
    /// What shows that no limit refused the attempt, whatever the status says.
    pub(crate) not_a_limit: Option<Evidence>,
    /// Whether access logs were at hand: they know the upstream attempts better than the response.
    pub(crate) is_logged: bool,
    /// The extra upstream attempts that they tell of.
    pub(crate) logged_retries: Option<u32>,
}

impl Sheet {
    /// Writes a claim down.
    pub(crate) fn add(&mut self, claim: Claim) {
        self.claims.push(claim);
    }

    /// Where a product signs the body as its own, drops what the body's form alone suggests.
    pub(crate) fn heed_signed_body(&mut self) {
        const FORMS: [&str; 2] = ["body-form", "problem-type"];
        let signed = self.claims.iter().filter(|c| c.signs_body && c.says == Says::At);
        if let Some(signed) = signed.map(|c| c.weight).min() {
            // The enum runs from proof to none.
            self.claims.retain(|c| !FORMS.contains(&c.group) || c.weight <= signed);
        }
    }

    /// Whether anything that was seen, the client's own words aside, speaks about who answered.
    pub(crate) fn attributes(&self) -> bool {
        self.claims.iter().any(|c| c.says != Says::Limit && c.rule.is_observed())
    }

    /// Extra upstream attempts: by the logs where there are any, else as the response tells.
    pub(crate) fn hidden_retries(&self) -> Option<u32> {
        if self.is_logged {
            return self.logged_retries;
        }
        self.claims.iter().find_map(|c| c.retries)
    }

    /// Writes down a contradiction, in words.
    pub(crate) fn conflict(&mut self, text: impl Into<String>) {
        self.conflicts.push(text.into());
    }
}

impl Weight {
    /// By how much evidence of this weight multiplies the odds (gateways.md 3.3). They are
    /// judgement, calibrated against the labelled corpora.
    pub(crate) const fn ratio(self) -> f64 {
        match self {
            Self::Proof => 1000.0,
            Self::Strong => 30.0,
            Self::Medium => 6.0,
            Self::Weak => 2.0,
            Self::None => 1.0,
        }
    }

    /// Whether it can carry a `confident` verdict.
    pub(crate) const fn is_strong(self) -> bool {
        matches!(self, Self::Proof | Self::Strong)
    }

    /// One class lower: a mark where its product does not belong (gateways.md 3.7).
    #[must_use]
    pub(crate) const fn lowered(self) -> Self {
        match self {
            Self::Proof => Self::Strong,
            Self::Strong => Self::Medium,
            Self::Medium => Self::Weak,
            Self::Weak | Self::None => Self::None,
        }
    }
}
