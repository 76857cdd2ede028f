//! The hop ladder of an attempt: who saw it, who answered, how long each took, and which hop sent it
//! again. Joined by ids; see `domain::joins`.

use super::model::Stamp;
use super::{address, words};
use crate::domain::classify::Responder;
use crate::domain::event::{RetryLayer, Vantage};
use crate::domain::joins::{Got, Hop, Ladder, Links, Sight};
use crate::domain::response::Response;
use crate::domain::stored::StoredEvent;
use crate::export::markdown;
use crate::store::{Look, StoreError};
use serde::Serialize;
use std::fmt::Write as _;
use utoipa::ToSchema;

/// Attempts of an operation for which it is looked whether a missing record means anything.
const COVERED: usize = 10;
/// Records that may be of another attempt and are listed.
const MAX_CANDIDATES: usize = 20;

/// A record with the address of its page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct RecordOut {
    /// Its event's id.
    pub event_id: String,
    /// The address of its page.
    pub page: String,
}

impl From<&&StoredEvent> for RecordOut {
    fn from(stored: &&StoredEvent) -> Self {
        let event_id = stored.event.event_id.clone();
        Self { page: address::event(&event_id), event_id }
    }
}

/// What a hop's own log said of the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct LoggedOut {
    /// Where it is stored.
    pub record: RecordOut,
    /// When the request came in.
    pub at: Stamp,
    /// The status that it gave; null where it gave none.
    pub status: Option<u16>,
    /// The fields that verdicts rest on, under the names of `docs/access-logs.md`.
    pub fields: Vec<LoggedField>,
}

/// A field of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct LoggedField {
    /// Its name.
    pub name: String,
    /// Its value; empty where the field was logged and held nothing.
    pub value: String,
}

impl LoggedField {
    /// The value, in words.
    pub fn shown(&self) -> &str {
        if self.value.is_empty() { "\u{2013}" } else { &self.value }
    }
}

impl LoggedOut {
    fn of(stored: &StoredEvent) -> Option<Self> {
        let facts = stored.event.log.as_deref()?;
        let fields = facts.fields.iter().map(|(name, value)| LoggedField {
            name: name.clone().into_owned(),
            value: value.clone(),
        });
        Some(Self {
            record: (&stored).into(),
            at: Stamp(stored.event.occurred_at),
            status: facts.status,
            fields: fields.collect(),
        })
    }

    /// The status, in words.
    pub fn status_words(&self) -> String {
        self.status.map_or_else(|| "\u{2013}".to_owned(), |status| status.to_string())
    }
}

/// One hop of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct HopOut {
    /// From where it saw the request.
    pub vantage: Vantage,
    /// The client's service, a gateway's own name or its product, or `origin`.
    pub name: String,
    /// Its product.
    pub product: Responder,
    /// Whether it saw the request. `hole`: its record isn't known to be complete there; `no-source`:
    /// nothing of such a hop arrives.
    pub sight: Sight,
    /// Why that is said, where there is no record.
    pub why: Option<String>,
    /// Its records of this attempt.
    pub records: Vec<RecordOut>,
    /// What its own log said in them; requests that were served at the first try are stored without.
    pub logged: Vec<LoggedOut>,
    /// The status that it gave to the hop before it.
    pub gave: Option<u16>,
    /// What it got from the hop behind it, as it was logged: `429`, or `502, 429` for two tries.
    pub got: Option<String>,
    /// Its log says that it asked nobody.
    pub asked_nobody: bool,
    /// It wrote the answer.
    pub answered: bool,
    /// How long it had the request.
    pub took_ms: Option<i64>,
    /// How many times it sent the request again by itself.
    pub resent: Option<u32>,
    /// `gateway` where it did.
    pub retry_layer: Option<RetryLayer>,
}

impl HopOut {
    fn of(hop: &Hop<'_>) -> Self {
        let resent = hop.resent.filter(|_| hop.vantage == Vantage::Gateway);
        Self {
            vantage: hop.vantage,
            name: hop.name.clone(),
            product: hop.product,
            sight: hop.sight,
            why: hop.why.clone(),
            records: hop.records.iter().map(Into::into).collect(),
            logged: hop.records.iter().filter_map(|record| LoggedOut::of(record)).collect(),
            gave: hop.gave,
            got: match &hop.got {
                Got::Statuses(statuses) => Some(statuses.clone()),
                Got::AskedNobody | Got::Untold => None,
            },
            asked_nobody: hop.got == Got::AskedNobody,
            answered: hop.answered,
            took_ms: hop.took_ms,
            resent,
            retry_layer: resent.filter(|times| *times > 0).map(|_| RetryLayer::Gateway),
        }
    }

    /// What it is, beside its name.
    pub fn kind(&self) -> String {
        match (self.vantage, self.product) {
            (Vantage::Gateway, Responder::Unknown) => "gateway".to_owned(),
            (Vantage::Gateway, product) if product.as_str() != self.name => {
                format!("gateway, {product}")
            }
            (vantage, _) => vantage.to_string(),
        }
    }

    /// The kind of badge for whether it saw the request.
    pub fn badge(&self) -> &'static str {
        match self.sight {
            Sight::Seen => "clear",
            Sight::NotSeen => "plain",
            Sight::Hole => "needs-data",
            Sight::NoSource => "not-seen",
        }
    }

    /// The words of that badge.
    pub fn sight_words(&self) -> &'static str {
        match self.sight {
            Sight::Seen => "seen",
            Sight::NotSeen => "not seen",
            Sight::Hole => "no record: a hole",
            Sight::NoSource => "no record: sends nothing",
        }
    }

    /// What it got, in words.
    pub fn got_words(&self) -> String {
        match (&self.got, self.asked_nobody) {
            (Some(got), _) => got.clone(),
            (None, true) => "asked nobody".to_owned(),
            (None, false) => "\u{2013}".to_owned(),
        }
    }

    /// What it gave, in words.
    pub fn gave_words(&self) -> String {
        self.gave.map_or_else(|| "\u{2013}".to_owned(), |status| status.to_string())
    }

    /// How long it took, in words.
    pub fn took(&self) -> String {
        words::length_or_dash(self.took_ms)
    }

    /// How often it sent the request again, in words.
    pub fn resent_words(&self) -> String {
        match self.resent {
            None => "\u{2013}".to_owned(),
            Some(0) => "no".to_owned(),
            Some(1) => "once".to_owned(),
            Some(times) => format!("{times} times"),
        }
    }

    /// `nginx: 429, answered`, for a table of attempts.
    pub fn short(&self) -> String {
        let mut text = format!("{}: ", self.name);
        match (self.sight, self.gave) {
            (Sight::Seen, Some(status)) => write!(text, "{status}").ok(),
            _ => write!(text, "{}", self.sight_words()).ok(),
        };
        if self.answered {
            text.push_str(", answered");
        }
        if self.resent.is_some_and(|times| times > 0) {
            write!(text, ", sent again {}", self.resent_words()).ok();
        }
        text
    }
}

/// All hops of one attempt, joined by request, ray and trace ids.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct LadderOut {
    /// From the outermost inwards: the client, gateways, the origin.
    pub hops: Vec<HopOut>,
    /// What is to know beside the hops.
    pub notes: Vec<String>,
    /// Records that share an id with it and may be of another attempt or another time; never
    /// evidence.
    pub candidates: Vec<RecordOut>,
    /// Requests to the last upstream for this one attempt, where a gateway's log tells.
    pub upstream_requests: Option<u32>,
}

impl LadderOut {
    /// Words a ladder.
    pub fn of(ladder: &Ladder<'_>) -> Self {
        Self {
            hops: ladder.hops.iter().map(HopOut::of).collect(),
            notes: ladder.notes.clone(),
            candidates: ladder.open.iter().take(MAX_CANDIDATES).map(Into::into).collect(),
            upstream_requests: ladder.upstream_requests,
        }
    }

    /// Whether there is more to show than that nobody else sends anything.
    pub fn tells(&self) -> bool {
        !self.candidates.is_empty()
            || self
                .hops
                .iter()
                .any(|hop| hop.vantage != Vantage::Client && hop.sight != Sight::NoSource)
    }

    /// What the hops' own logs say, each with its hop's name.
    pub fn logged<'a>(&'a self) -> Vec<(&'a str, &'a LoggedOut)> {
        let of = |hop: &'a HopOut| hop.logged.iter().map(|logged| (hop.name.as_str(), logged));
        self.hops.iter().flat_map(of).collect()
    }

    /// The hops but the client, in short: for a table of attempts.
    pub fn short(&self) -> Vec<String> {
        let told = self
            .hops
            .iter()
            .filter(|hop| hop.vantage != Vantage::Client && hop.sight != Sight::NoSource);
        told.map(HopOut::short).collect()
    }

    /// The ladder as Markdown: a table, then notes.
    pub fn markdown(&self) -> String {
        let columns = ["hop", "saw it", "got", "gave", "answered", "took", "sent again"];
        let rows: Vec<Vec<String>> = self
            .hops
            .iter()
            .map(|hop| {
                vec![
                    format!("{} ({})", hop.name, hop.kind()),
                    hop.sight_words().to_owned(),
                    hop.got_words(),
                    hop.gave_words(),
                    if hop.answered { "yes" } else { "" }.to_owned(),
                    hop.took(),
                    hop.resent_words(),
                ]
            })
            .collect();
        let mut out = markdown::table(&columns.map(ToOwned::to_owned), &rows);
        out.push('\n');
        for hop in &self.hops {
            if let Some(why) = &hop.why {
                writeln!(out, "- {}", markdown::sentence(&format!("{}: {why}", hop.name))).ok();
            }
        }
        for note in &self.notes {
            writeln!(out, "- {}", markdown::sentence(note)).ok();
        }
        for (hop, logged) in self.logged() {
            let fields =
                logged.fields.iter().map(|field| format!("{}={}", field.name, field.shown()));
            let fields: Vec<String> = fields.collect();
            let said =
                format!("{hop} logged status={} {}", logged.status_words(), fields.join(" "));
            writeln!(out, "- {}", markdown::code(&said)).ok();
        }
        out
    }
}

/// An attempt with what others saw of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Story {
    /// Its hops.
    pub ladder: LadderOut,
    /// Its response with what the records say of it; `None` where none says anything.
    pub response: Option<Response>,
    /// Its records.
    pub records: Vec<StoredEvent>,
}

/// The stories of `events`, one each: what has an id in common with them, put together.
pub async fn stories(look: &mut Look, events: &[StoredEvent]) -> Result<Vec<Story>, StoreError> {
    stories_with(look, events, &[]).await
}

/// As [`stories`], where records are known already: those of an operation, by its id.
pub async fn stories_with(
    look: &mut Look,
    events: &[StoredEvent],
    known: &[StoredEvent],
) -> Result<Vec<Story>, StoreError> {
    let is_known = |one: &StoredEvent| {
        known.iter().any(|record| {
            record.event.event_id == one.event.event_id
                && record.event.occurred_at == one.event.occurred_at
        })
    };
    let mut linked = look.linked(events).await?;
    linked.retain(|one| !is_known(one));
    linked.extend_from_slice(known);
    let all = || events.iter().chain(&linked);
    let links = Links::new(
        all().filter(|one| one.event.vantage == Vantage::Client),
        all().filter(|one| one.event.vantage != Vantage::Client),
    );
    let mut stories = Vec::with_capacity(events.len());
    for (place, stored) in events.iter().enumerate() {
        // What a gateway saw is shown as part of the attempt that it is of.
        let is_of = |attempt: &&StoredEvent| {
            attempt.event.vantage == Vantage::Client
                && links.find(attempt).records.iter().any(|record| {
                    record.event.event_id == stored.event.event_id
                        && record.event.occurred_at == stored.event.occurred_at
                })
        };
        let base = match stored.event.vantage {
            Vantage::Client => stored,
            _ => all().find(is_of).unwrap_or(stored),
        };
        let joined = links.find(base);
        let coverage = if place < COVERED { Some(look.coverage(base).await?) } else { None };
        let ladder = Ladder::new(base, &joined, coverage.as_ref());
        stories.push(Story {
            ladder: LadderOut::of(&ladder),
            response: ladder.response,
            records: joined.records.iter().map(|record| (*record).clone()).collect(),
        });
    }
    Ok(stories)
}
