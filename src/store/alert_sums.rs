//! The sums that rules are evaluated over: every pair's, by time of receipt, each minute read once.

use super::counts::{added_up, counts, measures, vantage, vantage_number};
use super::reader::{Arg, Reader, Row, marks};
use super::sums::{self, Question, Tiers};
use super::transact::Statement;
use super::{Store, StoreError, sql};
use crate::domain::alerts::notice::Subject;
use crate::domain::alerts::{Cuts, Noted, Pieces, Span};
use crate::domain::event::Vantage;
use crate::domain::stored::TimeBasis;
use crate::domain::time::{MINUTE_MS, UnixMillis, Window};
use std::collections::{BTreeMap, BTreeSet};

/// Rows that one statement adds.
const AT_ONCE: usize = 200;

/// The columns of `alert_minutes`: the key, then what is noted.
const NOTED: [&str; 12] = [
    "first_try",
    "after_retry",
    "unsuccessful",
    "early",
    "duplicates",
    "ended",
    "within_1s",
    "within_5s",
    "within_10s",
    "within_30s",
    "within_60s",
    "within_120s",
];

/// How long what is noted stays, in minutes: as far as rules look back, and as far back as missed
/// minutes are evaluated afterwards, with room to spare.
const NOTED_FOR: i64 = 180;

/// The sums of one pair as one vantage saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairOfSums {
    /// Which pair.
    pub subject: Subject,
    /// Whose observations these are.
    pub vantage: Vantage,
    /// It is remembered that a first attempt was served.
    pub was_served: bool,
    /// The sums.
    pub pieces: Pieces,
}

impl Store {
    /// The sums of every pair and vantage with a row in the pieces of `cuts` before `minute`
    /// (since 1970), by time of receipt. Missing minutes count as zero.
    ///
    /// Where fewer days are kept than `cuts` reach back, the rest counts as zero.
    #[tracing::instrument(name = "db.alerts.sums", level = "debug", skip_all)]
    pub async fn alert_sums(
        &self,
        minute: i64,
        cuts: &Cuts,
    ) -> Result<Vec<PairOfSums>, StoreError> {
        let mut reader = self.reader().await?;
        let mut pairs: BTreeMap<(Subject, Vantage), Pieces> = BTreeMap::new();
        for row in attempts(&mut reader, minute, cuts).await? {
            let key = (subject(&row, 1)?, vantage(&row, 4)?);
            let pieces = pairs.entry(key).or_insert_with(|| Pieces::none(cuts));
            let at = usize::try_from(row.int(0)?).unwrap_or(usize::MAX);
            if let Some(sum) = pieces.counts.get_mut(at) {
                sum.add(&counts(&row, 5)?);
            }
        }
        let from = minute - i64::from(cuts.reach());
        for row in reader.all(READ_NOTED, &[from.into(), minute.into()]).await? {
            let key = (subject(&row, 1)?, vantage(&row, 4)?);
            let ago = u32::try_from(minute - row.int(0)?).unwrap_or(u32::MAX);
            let holds = |piece: Span| piece.lag < ago && ago <= piece.reach();
            // Without attempts there are no sums, so that nothing is noted of such a pair.
            let (Some(pieces), Some(at)) = (pairs.get_mut(&key), cuts.pieces().position(holds))
            else {
                continue;
            };
            if let Some(sum) = pieces.noted.get_mut(at) {
                sum.add(&noted(&row, 5)?);
            }
        }
        let served = served(&mut reader).await?;
        let pairs = pairs.into_iter().map(|(key, pieces)| {
            let was_served = served.contains(&key);
            let (subject, vantage) = key;
            PairOfSums { subject, vantage, was_served, pieces }
        });
        Ok(pairs.collect())
    }

    /// The pairs that evaluations remember a served first attempt of.
    pub async fn served(&self) -> Result<BTreeSet<(Subject, Vantage)>, StoreError> {
        served(&mut self.reader().await?).await
    }

    /// Remembers pairs of which a served first attempt was seen.
    pub async fn add_served(&self, pairs: &[(Subject, Vantage)]) -> Result<(), StoreError> {
        let mut statements = Vec::new();
        for pairs in pairs.chunks(AT_ONCE) {
            let mut args = Vec::new();
            let rows: Vec<String> = pairs
                .iter()
                .map(|(subject, vantage)| format!("({})", marks(&mut args, key(subject, *vantage))))
                .collect();
            let text = format!(
                "INSERT INTO alert_pairs (service, upstream, environment, vantage) VALUES {} \
                 ON CONFLICT DO NOTHING",
                rows.join(", ")
            );
            statements.push(Statement::new(text, args));
        }
        if !statements.is_empty() {
            self.transact(statements).await?;
        }
        Ok(())
    }

    /// Adds what was noted of pairs in minutes of receipt (since 1970).
    pub async fn add_noted(
        &self,
        rows: &[(i64, Subject, Vantage, Noted)],
    ) -> Result<(), StoreError> {
        let mut rows: Vec<_> = rows.iter().collect();
        // In the order of the key: two replicas that add the same rows wait for each other.
        rows.sort_by_key(|(minute, subject, vantage, _)| (*minute, subject, *vantage));
        let set: Vec<String> =
            NOTED.iter().map(|c| format!("{c} = alert_minutes.{c} + excluded.{c}")).collect();
        let mut statements = Vec::new();
        for rows in rows.chunks(AT_ONCE) {
            let mut args = Vec::new();
            let values: Vec<String> = rows
                .iter()
                .map(|(minute, subject, vantage, noted)| {
                    let numbers = numbers(noted).map(Arg::Int);
                    let row = std::iter::once(Arg::Int(*minute))
                        .chain(key(subject, *vantage))
                        .chain(numbers);
                    format!("({})", marks(&mut args, row))
                })
                .collect();
            let text = format!(
                "INSERT INTO alert_minutes (minute, service, upstream, environment, vantage, {}) \
                 VALUES {} ON CONFLICT (minute, service, upstream, environment, vantage) \
                 DO UPDATE SET {}",
                NOTED.join(", "),
                values.join(", "),
                set.join(", ")
            );
            statements.push(Statement::new(text, args));
        }
        if !statements.is_empty() {
            self.transact(statements).await?;
        }
        Ok(())
    }

    /// When the newest event before `minute` (since 1970) was received; where none is kept any
    /// more, the hour.
    pub async fn last_event_before(&self, minute: i64) -> Result<Option<UnixMillis>, StoreError> {
        let at = minute.saturating_mul(MINUTE_MS);
        let mut reader = self.reader().await?;
        let row = reader.first(LAST_BEFORE, &[at.into(), minute.into()]).await?;
        Ok(row.map(|row| row.int_or_none(0)).transpose()?.flatten().map(UnixMillis))
    }
}

/// See [`READ_SERVED`].
async fn served(reader: &mut Reader) -> Result<BTreeSet<(Subject, Vantage)>, StoreError> {
    let rows = reader.all(READ_SERVED, &[]).await?;
    rows.iter().map(|row| Ok((subject(row, 0)?, vantage(row, 3)?))).collect()
}

/// What is noted of minutes `$1` to `$2`.
const READ_NOTED: &str = "\
SELECT minute, service, upstream, environment, vantage, first_try, after_retry, unsuccessful, \
early, duplicates, ended, within_1s, within_5s, within_10s, within_30s, within_60s, within_120s \
FROM alert_minutes WHERE minute >= $1 AND minute < $2";

/// All pairs of which a served first attempt was seen.
const READ_SERVED: &str = "SELECT service, upstream, environment, vantage FROM alert_pairs";

/// When the newest event before `$1` (in milliseconds; `$2` the same in minutes) was received. Of the
/// hour that `$2` lies in nothing is known but what is among the events: others of it may be later.
const LAST_BEFORE: &str = "\
SELECT COALESCE((SELECT MAX(received_at) FROM events WHERE received_at < $1), \
(SELECT MAX(received) FROM spans WHERE width = 60 AND received + 60 <= $2) * 60000)";

/// Removes what was noted before the minute `$1`.
const FORGET_NOTED: &str = "DELETE FROM alert_minutes WHERE minute < $1";
/// Removes pairs whose names nothing uses any more.
const FORGET_PAIRS: &str = "\
DELETE FROM alert_pairs WHERE NOT EXISTS (SELECT 1 FROM series s \
WHERE s.service = alert_pairs.service AND s.upstream = alert_pairs.upstream \
AND s.environment = alert_pairs.environment)";

/// What removes sums that no evaluation from `minute` on reads.
pub(super) fn forget(minute: i64) -> [Statement; 2] {
    [
        Statement::new(FORGET_NOTED, vec![Arg::Int(minute.saturating_sub(NOTED_FOR))]),
        Statement::new(FORGET_PAIRS, Vec::new()),
    ]
}

/// Sums of attempts by piece, pair and vantage: one statement over the rows that stand for each
/// piece.
async fn attempts(reader: &mut Reader, minute: i64, cuts: &Cuts) -> Result<Vec<Row>, StoreError> {
    let kept = reader.kept().await?;
    let (mut args, mut parts) = (Vec::new(), Vec::new());
    for (at, piece) in cuts.pieces().enumerate() {
        let ago =
            |minutes: u32| UnixMillis((minute - i64::from(minutes)).saturating_mul(MINUTE_MS));
        let window = Window { from: ago(piece.reach()), to: ago(piece.lag) };
        let tiers = Tiers::new(window, sums::COUNTS.widths());
        let columns = format!(
            "CAST({at} AS BIGINT) AS piece, c.series_id AS series_id, c.vantage AS vantage, {}",
            measures("c.")
        );
        let question = Question {
            kind: sums::COUNTS,
            columns: &columns,
            gathered: sql::EACH_SERIES,
            fine: sql::EACH_SERIES,
        };
        parts.extend(question.parts(&tiers, TimeBasis::Received, &kept, &mut args));
    }
    let Some(parts) = sums::together(&parts, TimeBasis::Received) else { return Ok(Vec::new()) };
    let text = format!(
        "SELECT piece, s.service, s.upstream, s.environment, vantage, {} FROM ({parts}) parts \
         JOIN series s ON s.id = parts.series_id GROUP BY 1, 2, 3, 4, 5",
        added_up()
    );
    reader.all(text, &args).await
}

/// Service, upstream and environment from column `at` on.
pub(super) fn subject(row: &Row, at: usize) -> Result<Subject, StoreError> {
    Ok(Subject {
        service: row.text(at)?.into_owned(),
        upstream: row.text(at + 1)?.into_owned(),
        environment: row.text(at + 2)?.into_owned(),
    })
}

/// The values of a pair in the order of its columns.
fn key(subject: &Subject, vantage: Vantage) -> [Arg; 4] {
    let Subject { service, upstream, environment } = subject;
    [
        service.as_str().into(),
        upstream.as_str().into(),
        environment.as_str().into(),
        vantage_number(vantage).into(),
    ]
}

/// [`NOTED`] of a row from column `at` on.
fn noted(row: &Row, at: usize) -> Result<Noted, StoreError> {
    let n = |i: usize| row.int(at + i);
    Ok(Noted {
        first_try: n(0)?,
        after_retry: n(1)?,
        unsuccessful: n(2)?,
        early: n(3)?,
        duplicates: n(4)?,
        ended: n(5)?,
        within: [n(6)?, n(7)?, n(8)?, n(9)?, n(10)?, n(11)?],
    })
}

/// The same as values.
fn numbers(noted: &Noted) -> [i64; NOTED.len()] {
    let Noted { first_try, after_retry, unsuccessful, early, duplicates, ended, within } = *noted;
    let [w1, w5, w10, w30, w60, w120] = within;
    [first_try, after_retry, unsuccessful, early, duplicates, ended, w1, w5, w10, w30, w60, w120]
}
