//! Where events come from: counts per source, added every few seconds.

use super::reader::{Arg, Row, marks};
use super::transact::Statement;
use super::{Store, StoreError};
use crate::domain::event::Vantage;
use crate::domain::sources::{Input, LOOKED_BACK, Share, Source, SourceKey, TRAITS, Trait};
use crate::domain::time::{DAY_MS, MINUTE_MS, UnixMillis};
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::str::FromStr;

/// What was counted of a source since the last time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceSums {
    /// Events.
    pub events: i64,
    /// When the first of them happened.
    pub first_at: UnixMillis,
    /// When the newest happened.
    pub last_at: UnixMillis,
    /// When the newest was received.
    pub received_at: UnixMillis,
    /// The language of its instrumentation, where one is said.
    pub language: Option<String>,
    /// Events by minute (since 1970).
    pub minutes: BTreeMap<i64, i64>,
    /// What they carry, by day of receipt (since 1970), in the order of [`Trait::ALL`].
    pub traits: BTreeMap<i64, [Share; TRAITS]>,
}

/// Where a page of sources begins: behind this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceCursor {
    /// When its newest event was received.
    pub received_at: UnixMillis,
    /// Its number.
    pub id: i64,
}

/// Some sources, those that sent last first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SourcePage {
    /// The sources.
    pub items: Vec<Source>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<SourceCursor>,
    /// By whom the upstreams of these sources are seen, in any source.
    pub seen: BTreeMap<String, BTreeSet<Vantage>>,
}

/// Rows that one statement adds.
const AT_ONCE: usize = 500;
/// Minutes are kept so long, in minutes.
const MINUTES_KEPT: i64 = 2 * 1440;
/// Days are kept so long, in days.
const DAYS_KEPT: i64 = 14;
/// Most services whose last event is told.
const LISTED: i64 = 1_000;

const ADD: &str = "\
INSERT INTO sources (id, service, upstream, vantage, input, name, language, first_at, last_at, \
received_at, events) VALUES {rows} ON CONFLICT (id) DO UPDATE SET \
events = sources.events + excluded.events, \
language = CASE WHEN excluded.language = '' THEN sources.language ELSE excluded.language END, \
first_at = CASE WHEN excluded.first_at < sources.first_at THEN excluded.first_at \
ELSE sources.first_at END, \
last_at = CASE WHEN excluded.last_at > sources.last_at THEN excluded.last_at \
ELSE sources.last_at END, \
received_at = CASE WHEN excluded.received_at > sources.received_at THEN excluded.received_at \
ELSE sources.received_at END";
const ADD_MINUTES: &str = "\
INSERT INTO source_minutes (minute, source_id, events) VALUES {rows} \
ON CONFLICT (minute, source_id) DO UPDATE SET events = source_minutes.events + excluded.events";
const ADD_TRAITS: &str = "\
INSERT INTO source_traits (day, source_id, trait, had, of_all) VALUES {rows} \
ON CONFLICT (day, source_id, trait) DO UPDATE SET had = source_traits.had + excluded.had, \
of_all = source_traits.of_all + excluded.of_all";
const FORGET_MINUTES: &str = "DELETE FROM source_minutes WHERE minute < $1";
const FORGET_TRAITS: &str = "DELETE FROM source_traits WHERE day < $1";
const READ: &str = "\
SELECT id, service, upstream, vantage, input, name, language, first_at, last_at, received_at, events \
FROM sources {after} ORDER BY received_at DESC, id LIMIT $1";
const AFTER: &str = "WHERE received_at < $2 OR (received_at = $2 AND id > $3)";
const SEEN: &str = "SELECT DISTINCT upstream, vantage FROM sources WHERE upstream IN ({list})";
/// Services, those that sent last first.
const LAST_RECEIVED: &str = "\
SELECT service, MAX(received_at) FROM sources GROUP BY service ORDER BY 2 DESC, 1 LIMIT $1";
const READ_MINUTES: &str = "\
SELECT source_id, minute, events FROM source_minutes WHERE minute >= $1 AND source_id IN ({list})";
const READ_TRAITS: &str = "\
SELECT source_id, trait, CAST(SUM(had) AS BIGINT), CAST(SUM(of_all) AS BIGINT) FROM source_traits \
WHERE day >= $1 AND source_id IN ({list}) GROUP BY source_id, trait";

/// The number of a source: a hash, so that all replicas have the same.
fn number(key: &SourceKey) -> i64 {
    let mut digest = Sha256::new();
    for part in
        [key.service.as_str(), &key.upstream, key.vantage.as_str(), key.input.as_str(), &key.name]
    {
        digest.update(part);
        digest.update([0]);
    }
    let bytes = digest.finalize();
    let mut first = [0; 8];
    first.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
    i64::from_be_bytes(first)
}

/// Statements that add rows of `width` values each.
fn adding(text: &'static str, rows: &[Vec<Arg>]) -> Vec<Statement> {
    rows.chunks(AT_ONCE)
        .map(|rows| {
            let mut args = Vec::new();
            let values: Vec<String> =
                rows.iter().map(|row| format!("({})", marks(&mut args, row.clone()))).collect();
            Statement::new(text.replace("{rows}", &values.join(", ")), args)
        })
        .collect()
}

impl Store {
    /// Adds what was counted of sources, and forgets what is long ago.
    #[tracing::instrument(name = "db.sources.add", level = "debug", skip_all)]
    pub async fn add_sources(
        &self,
        counted: &[(SourceKey, SourceSums)],
        now: UnixMillis,
    ) -> Result<(), StoreError> {
        if counted.is_empty() {
            return Ok(());
        }
        let mut numbered: Vec<(i64, &SourceKey, &SourceSums)> =
            counted.iter().map(|(key, sums)| (number(key), key, sums)).collect();
        // In one order: two replicas that add to the same rows wait for each other.
        numbered.sort_by_key(|(id, ..)| *id);
        let oldest = now.0.div_euclid(MINUTE_MS) - MINUTES_KEPT;
        let oldest_day = now.0.div_euclid(DAY_MS) - DAYS_KEPT;
        let (mut sources, mut minutes, mut traits) = (Vec::new(), Vec::new(), Vec::new());
        for (id, key, sums) in numbered {
            sources.push(vec![
                id.into(),
                key.service.as_str().into(),
                key.upstream.as_str().into(),
                key.vantage.as_str().into(),
                key.input.as_str().into(),
                key.name.as_str().into(),
                sums.language.as_deref().unwrap_or_default().into(),
                sums.first_at.0.into(),
                sums.last_at.0.into(),
                sums.received_at.0.into(),
                sums.events.into(),
            ]);
            for (minute, events) in sums.minutes.range(oldest..) {
                minutes.push(vec![(*minute).into(), id.into(), (*events).into()]);
            }
            let shares = sums.traits.iter().flat_map(|(day, shares)| {
                Trait::ALL.iter().zip(shares).map(move |(kind, share)| (day, kind, share))
            });
            for (day, kind, share) in shares.filter(|(.., share)| share.of > 0) {
                traits.push(vec![
                    (*day).into(),
                    id.into(),
                    kind.as_str().into(),
                    share.had.into(),
                    share.of.into(),
                ]);
            }
        }
        let mut statements = adding(ADD, &sources);
        statements.extend(adding(ADD_MINUTES, &minutes));
        statements.extend(adding(ADD_TRAITS, &traits));
        statements.push(Statement::new(FORGET_MINUTES, vec![oldest.into()]));
        statements.push(Statement::new(FORGET_TRAITS, vec![oldest_day.into()]));
        self.transact(statements).await?;
        Ok(())
    }

    /// When the newest event of each service was received, those that sent last first, at most
    /// 1,000. A kill loses the last seconds of it.
    pub async fn last_received(&self) -> Result<Vec<(String, UnixMillis)>, StoreError> {
        let rows = self.reader().await?.all(LAST_RECEIVED, &[LISTED.into()]).await?;
        rows.iter().map(|row| Ok((row.text(0)?.into_owned(), UnixMillis(row.int(1)?)))).collect()
    }

    /// A page of at most `limit` sources, those that sent last first, with their minutes of the last
    /// three hours and what their events of the last two days carry.
    #[tracing::instrument(name = "db.sources.list", level = "debug", skip_all)]
    pub async fn sources(
        &self,
        after: Option<SourceCursor>,
        limit: u32,
        now: UnixMillis,
    ) -> Result<SourcePage, StoreError> {
        let mut reader = self.reader().await?;
        // One more tells whether there is more.
        let mut args = vec![Arg::Int(i64::from(limit).saturating_add(1))];
        args.extend(after.iter().flat_map(|at| [at.received_at.0, at.id].map(Arg::Int)));
        let text = READ.replace("{after}", if after.is_some() { AFTER } else { "" });
        let mut rows = reader.all(text, &args).await?;
        let most = usize::try_from(limit).unwrap_or(usize::MAX);
        let is_cut = rows.len() > most;
        rows.truncate(most);
        let cursor = |row: &Row| -> Result<SourceCursor, StoreError> {
            Ok(SourceCursor { received_at: UnixMillis(row.int(9)?), id: row.int(0)? })
        };
        let mut page = SourcePage {
            next: rows.last().filter(|_| is_cut).map(cursor).transpose()?,
            ..SourcePage::default()
        };
        if rows.is_empty() {
            return Ok(page);
        }
        let ids = rows.iter().map(|row| row.int(0)).collect::<Result<Vec<_>, _>>()?;
        let of_these = |text: &str, from: i64| {
            let mut args = vec![Arg::Int(from)];
            let list = marks(&mut args, ids.iter().copied().map(Arg::Int));
            (text.replace("{list}", &list), args)
        };
        let mut minutes: HashMap<i64, BTreeMap<i64, i64>> = HashMap::new();
        let (text, args) = of_these(READ_MINUTES, now.0.div_euclid(MINUTE_MS) - LOOKED_BACK);
        for row in reader.all(text, &args).await? {
            minutes.entry(row.int(0)?).or_default().insert(row.int(1)?, row.int(2)?);
        }
        let mut traits: HashMap<i64, BTreeMap<Trait, Share>> = HashMap::new();
        let (text, args) = of_these(READ_TRAITS, now.0.div_euclid(DAY_MS) - 1);
        for row in reader.all(text, &args).await? {
            // One that only a newer program knows is left out.
            if let Ok(kind) = Trait::from_str(&row.text(1)?) {
                let share = Share { had: row.int(2)?, of: row.int(3)? };
                traits.entry(row.int(0)?).or_default().insert(kind, share);
            }
        }
        for row in &rows {
            let id = row.int(0)?;
            let (Ok(vantage), Ok(input)) =
                (Vantage::from_str(&row.text(3)?), Input::from_str(&row.text(4)?))
            else {
                continue;
            };
            page.items.push(Source {
                key: SourceKey {
                    service: row.text(1)?.into_owned(),
                    upstream: row.text(2)?.into_owned(),
                    vantage,
                    input,
                    name: row.text(5)?.into_owned(),
                },
                language: row.text(6)?.into_owned(),
                first_at: UnixMillis(row.int(7)?),
                last_at: UnixMillis(row.int(8)?),
                received_at: UnixMillis(row.int(9)?),
                events: row.int(10)?,
                minutes: minutes.remove(&id).unwrap_or_default(),
                traits: traits.remove(&id).unwrap_or_default(),
            });
        }
        let upstreams: BTreeSet<&str> =
            page.items.iter().map(|source| source.key.upstream.as_str()).collect();
        let mut args = Vec::new();
        let list = marks(&mut args, upstreams.into_iter().map(Arg::from));
        if !args.is_empty() {
            for row in reader.all(SEEN.replace("{list}", &list), &args).await? {
                if let Ok(vantage) = Vantage::from_str(&row.text(1)?) {
                    page.seen.entry(row.text(0)?.into_owned()).or_default().insert(vantage);
                }
            }
        }
        Ok(page)
    }
}
