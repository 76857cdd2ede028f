//! What is stored under the ids that a pasted response or an exchange of a HAR file carries: records
//! of gateways and the origin prove who answered it as they do for an attempt that was sent here.

use super::Read;
use crate::domain::classify::{Certainty, summarize};
use crate::domain::event::Vantage;
use crate::domain::headers::REQUEST_IDS;
use crate::domain::http_date;
use crate::domain::joins::{self, Ladder, Links};
use crate::domain::response::Response;
use crate::domain::stored::StoredEvent;
use crate::ingest::native;
use crate::pipeline::judge;
use crate::web::pages::ladder::{LadderOut, RecordOut};
use crate::web::{AppState, Failure};
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;

/// Exchanges of a HAR file that are looked up.
const MOST: usize = 50;
/// Records that are listed of each.
const LISTED: usize = 20;

/// Fields in which an edge names it.
const EDGE_IDS: [&str; 2] = ["cf-ray", "x-amz-cf-id"];

/// What is stored under the ids of a response.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Known {
    /// Whether a gateway's own log or the origin's record proves who answered.
    pub is_proven: bool,
    /// What that means, in words.
    pub words: String,
    /// Its hops, as far as records tell.
    pub ladder: LadderOut,
    /// What carries one of its ids.
    pub records: Vec<RecordOut>,
}

/// Looks up what was read, and lets records speak where they are of that very response.
///
/// # Errors
/// Where the store can't be read.
pub async fn find(state: &AppState, read: &mut Read) -> Result<(), Failure> {
    for judged in read.judged.iter_mut().take(MOST) {
        let response = &mut judged.case.response;
        let Some((mut attempt, has_time)) = as_attempt(state, response) else { continue };
        let linked = state.store.look().await?.linked(std::slice::from_ref(&attempt)).await?;
        if linked.is_empty() {
            continue;
        }
        if !has_time && let Some(first) = linked.first() {
            // Without a time of its own it is taken to be where its id is.
            attempt.event.occurred_at = first.event.occurred_at;
        }
        let own = joins::ids(&attempt);
        let carriers: Vec<&StoredEvent> =
            linked.iter().filter(|one| joins::ids(one).iter().any(|id| own.contains(id))).collect();
        let senders = carriers.iter().filter(|one| one.event.vantage == Vantage::Client);
        // An id that several attempts carry names none of them.
        let is_one = senders.count() <= 1;
        let links = Links::new([&attempt], linked.iter().filter(|_| is_one));
        let joined = links.find(&attempt);
        let ladder = Ladder::new(&attempt, &joined, None);
        let mut is_proven = false;
        if let Some(judged) = &ladder.response
            && response.logs.is_empty()
        {
            let mut with_logs = response.clone();
            with_logs.logs = judged.logs.clone();
            is_proven = summarize(&with_logs).outcome == Certainty::Certain;
            *response = with_logs;
        }
        let words = if is_proven {
            "A record with the same id proves who answered; the verdict above rests on it."
        } else if is_one {
            "Something with the same id is stored; it doesn't settle who answered."
        } else {
            "Several attempts carry this id, so that nothing stored can be told to be of this one."
        };
        let mut told = LadderOut::of(&ladder);
        // The response itself isn't stored.
        told.hops.retain(|hop| hop.vantage != Vantage::Client);
        let mut records = carriers;
        records.extend(&joined.records);
        records.sort_by_key(|one| (one.event.occurred_at, one.event.event_id.as_str()));
        records.dedup_by_key(|one| (one.event.occurred_at, one.event.event_id.as_str()));
        if records.is_empty() {
            continue;
        }
        judged.known = Some(Known {
            is_proven,
            words: words.to_owned(),
            ladder: told,
            records: records.iter().take(LISTED).map(Into::into).collect(),
        });
    }
    Ok(())
}

/// The response as an attempt of a client with the ids it carries, and whether its time is known;
/// `None` where it carries no id.
fn as_attempt(state: &AppState, response: &Response) -> Option<(StoredEvent, bool)> {
    let find = |names: &[&str]| {
        let fields = [&response.headers, &response.request.headers];
        fields.into_iter().find_map(|fields| names.iter().find_map(|name| fields.get(name)))
    };
    let request_id = find(&REQUEST_IDS);
    let ray_id = response.ray_id.as_deref().or_else(|| find(&EDGE_IDS));
    let trace = find(&["traceparent"]).and_then(|text| {
        let mut parts = text.trim().split('-').skip(1);
        Some((parts.next()?, parts.next()?))
    });
    if request_id.is_none() && ray_id.is_none() && trace.is_none() {
        return None;
    }
    let date = response.headers.get("date").and_then(|text| http_date::parse(text, None));
    let told = response.observed_at.or(date.map(|(at, _)| at));
    let at = told.unwrap_or_else(|| state.clock.now());
    let event = json!({
        "event_id": "pasted", "occurred_at": at.0, "service": "pasted",
        "host": response.request.host.as_deref().unwrap_or("pasted"),
        "status": response.status.unwrap_or(599),
        "request_id": request_id, "ray_id": ray_id,
        "trace_id": trace.map(|(trace, _)| trace), "span_id": trace.map(|(_, span)| span),
    });
    let (event, _) = native::admit(&event, &state.hasher).ok()?;
    let new = judge(event);
    let attempt = StoredEvent { event: new.event, verdict: new.verdict, received_at: at };
    Some((attempt, told.is_some()))
}
