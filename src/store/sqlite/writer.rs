//! The one connection that writes: a batch in one transaction.

use super::expiry::{self, Expiry};
use super::ids;
use super::known::Known;
use super::slices::{self, Slices};
use crate::domain::stored::{History, Inserted, SenderCounts};
use crate::domain::time::UnixMillis;
use crate::store::batch::{self, Dictionary, Ids, Missing, Name};
use crate::store::rows::{Class, Draft};
use crate::store::sums::Sums;
use crate::store::transact::Statement;
use crate::store::{StoreError, sql};
use rusqlite::types::Value;
use rusqlite::{OptionalExtension as _, Transaction, TransactionBehavior, params};
use std::path::Path;
use std::time::Duration;

/// Statements that are kept prepared; there are about thirty.
const STATEMENTS: usize = 64;

/// The connection, and what it knows of the database.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) connection: rusqlite::Connection,
    dictionary: Dictionary,
    pub(super) slices: Slices,
    pub(super) known: Known,
    /// Since when anything is kept.
    pub(super) kept: History,
    /// How far the removal of what is old has come.
    pub(super) expiry: Expiry,
    /// Changes when another process wrote to the file (`data_version` on sqlite.org/pragma.html).
    pub(super) version: i64,
    events: String,
}

impl Writer {
    /// Opens a file that holds the schema.
    pub(super) fn open(file: &Path, busy_limit: Duration) -> Result<Self, StoreError> {
        Self::open_with(file, busy_limit, slices::FULL)
    }

    /// As [`Self::open`], with slices of `full` events.
    fn open_with(file: &Path, busy_limit: Duration, full: i64) -> Result<Self, StoreError> {
        let connection = rusqlite::Connection::open_with_flags(
            file,
            rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE | rusqlite::OpenFlags::SQLITE_OPEN_NO_MUTEX,
        )?;
        connection.busy_timeout(busy_limit)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        connection.execute_batch(
            "PRAGMA synchronous = FULL; PRAGMA temp_store = MEMORY; PRAGMA foreign_keys = OFF; \
             PRAGMA cache_size = -32768; PRAGMA wal_autocheckpoint = 4000; \
             PRAGMA journal_size_limit = 67108864;",
        )?;
        let slices = Slices::read(&connection, full)?;
        let kept = expiry::read(&connection)?;
        let version = data_version(&connection)?;
        Ok(Self {
            connection,
            dictionary: Dictionary::default(),
            slices,
            known: Known::default(),
            kept,
            expiry: Expiry::default(),
            version,
            events: format!(
                "INSERT INTO events (id, {}) VALUES (?, {})",
                sql::EVENT_INSERT.join(", "),
                marks(sql::EVENT_INSERT.len())
            ),
        })
    }

    /// Stores what is new in `drafts`, with its sums, in one transaction.
    pub(super) fn insert(
        &mut self,
        drafts: &[Draft],
        received_at: UnixMillis,
    ) -> Result<Vec<Inserted>, StoreError> {
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let version = data_version(&transaction)?;
        if version != self.version {
            self.slices = Slices::read(&transaction, self.slices.full())?;
            self.kept = expiry::read(&transaction)?;
            self.known.clear();
            self.version = version;
        }
        let identities: Vec<Identity<'_>> = drafts.iter().map(Identity::of).collect();
        let stored = stored_identities(&transaction, &self.slices, &mut self.known, &identities)?;
        let results = batch::sift(drafts, &stored, self.kept.events.since);
        let (new, identities): (Vec<(&Draft, Inserted)>, Vec<Identity<'_>>) = drafts
            .iter()
            .zip(results.iter().copied())
            .zip(identities)
            .filter(|((_, result), _)| result.is_new())
            .unzip();
        if new.is_empty() {
            return Ok(results);
        }
        let known = new.iter().map(|(draft, _)| self.dictionary.known(draft, received_at));
        let (ids, found): (Vec<Ids>, Missing) = if let Some(ids) = known.collect() {
            (ids, Missing::default())
        } else {
            let drafts = || new.iter().map(|(draft, _)| *draft);
            let mut found = self.dictionary.missing(drafts(), received_at);
            name_all(&transaction, &mut found)?;
            let ids = drafts().map(|one| self.dictionary.ids(one, &found).ok_or_else(unnamed));
            (ids.collect::<Result<_, _>>()?, found)
        };
        let sums = batch::add_up(
            new.iter().zip(&ids).map(|((draft, result), ids)| (*draft, *ids, *result)),
            received_at,
            self.kept.gathered,
        );
        let rows = identities.iter().zip(&ids).map(|(identity, ids)| (identity, *ids));
        add_events(&transaction, &self.events, &self.slices, &mut self.known, rows, received_at)?;
        let mut slices = self.slices.clone();
        slices.grow(&transaction, new.iter().map(|(draft, _)| draft.occurred_at).collect())?;
        for (table, numbers) in sums.tables() {
            add_rows(&transaction, table, numbers)?;
        }
        for (service, counts) in &sums.senders {
            add_sender(&transaction, service, counts)?;
        }
        transaction.commit()?;
        self.slices = slices;
        self.dictionary.learn(found);
        self.expiry.wrote();
        Ok(results)
    }

    /// Adds to what is counted of senders.
    pub(super) fn add_senders(
        &mut self,
        senders: &[(String, SenderCounts)],
    ) -> Result<(), StoreError> {
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for (service, counts) in senders {
            add_sender(&transaction, service, counts)?;
        }
        Ok(transaction.commit()?)
    }

    /// Runs statements in one transaction; the numbers in the first column of what each gives.
    /// `None`, with nothing done, where one that must give a row gives none.
    pub(super) fn transact(
        &mut self,
        statements: &[Statement],
    ) -> Result<Option<Vec<Vec<i64>>>, StoreError> {
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut given = Vec::with_capacity(statements.len());
        for Statement { text, args, is_guard } in statements {
            // Here `$2` would be a name, numbered as it is met; `?2` is the second value.
            let mut statement = transaction.prepare_cached(&text.replace('$', "?"))?;
            let values = rusqlite::params_from_iter(args.iter().map(super::value));
            let mut rows = statement.query(values)?;
            let mut numbers = Vec::new();
            while let Some(row) = rows.next()? {
                numbers.push(row.get(0)?);
            }
            if *is_guard && numbers.is_empty() {
                return Ok(None);
            }
            given.push(numbers);
        }
        transaction.commit()?;
        Ok(Some(given))
    }

    /// Runs one statement that writes; its first column of the first row, where there is one.
    pub(super) fn write(
        &mut self,
        text: &str,
        values: Vec<Value>,
    ) -> Result<Option<i64>, StoreError> {
        let mut statement = self.connection.prepare_cached(text)?;
        let mut rows = statement.query(rusqlite::params_from_iter(values))?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let first = row.get(0)?;
        // A statement that gives rows has done its work when the last was read.
        while rows.next()?.is_some() {}
        Ok(Some(first))
    }
}

pub(super) fn data_version(connection: &rusqlite::Connection) -> Result<i64, StoreError> {
    Ok(connection.prepare_cached("PRAGMA data_version")?.query_one([], |row| row.get(0))?)
}

fn unnamed() -> StoreError {
    StoreError::Corrupt {
        table: "series, classes or words",
        column: "id",
        reason: "a name that was just added can't be found".to_owned(),
    }
}

fn marks(columns: usize) -> String {
    vec!["?"; columns].join(", ")
}

/// An event and its id as it is kept.
struct Identity<'a> {
    draft: &'a Draft,
    packed: Vec<u8>,
    key: i64,
}

impl<'a> Identity<'a> {
    fn of(draft: &'a Draft) -> Self {
        Self { draft, packed: ids::pack(&draft.event_id), key: ids::key(&draft.event_id) }
    }
}

/// Identities in the database whose event id occurs in the batch, in the slice of the event's time
/// and those next to it.
fn stored_identities<'a>(
    transaction: &Transaction<'_>,
    slices: &Slices,
    known: &mut Known,
    identities: &[Identity<'a>],
) -> Result<Vec<(&'a str, i64)>, StoreError> {
    let mut wanted: Vec<(i64, i64, usize)> = Vec::new();
    for (at, identity) in identities.iter().enumerate() {
        for slice in slices.near(identity.draft.occurred_at) {
            known.prepare(transaction, slice)?;
            for id in slices.draining_to(slice.id).chain([slice.id]) {
                if known.may_hold(id, identity.key) {
                    wanted.push((id, identity.key, at));
                }
            }
        }
    }
    // In the order of the index, so that each page is visited once.
    wanted.sort_unstable();
    let mut find = transaction.prepare_cached(
        "SELECT e.occurred_at FROM ids x CROSS JOIN events e \
         WHERE x.slice = ?1 AND x.key = ?2 AND e.id = x.id AND e.event_id = ?3",
    )?;
    let mut stored = Vec::new();
    for (slice, key, at) in wanted {
        let Some(Identity { draft, packed, .. }) = identities.get(at) else { continue };
        let mut rows = find.query(params![slice, key, packed])?;
        while let Some(row) = rows.next()? {
            stored.push((draft.event_id.as_str(), row.get(0)?));
        }
    }
    Ok(stored)
}

/// Gives every missing series, class and word its number, adding those that are new.
fn name_all(transaction: &Transaction<'_>, missing: &mut Missing) -> Result<(), StoreError> {
    if missing.is_empty() {
        return Ok(());
    }
    let number = |find: &str, add: &str, names: &[Value], day: Option<i64>| {
        let known = transaction
            .prepare_cached(find)?
            .query_one(rusqlite::params_from_iter(names), |row| row.get(0))
            .optional()?;
        if let Some(id) = known {
            return Ok::<_, StoreError>((id, true));
        }
        let values = names.iter().cloned().chain(day.map(Value::Integer));
        let values = rusqlite::params_from_iter(values);
        let id: i64 = transaction.prepare_cached(add)?.query_one(values, |row| row.get(0))?;
        Ok((id, false))
    };
    // A name that was there already is used on a later day now.
    let note = |text: &str, name: Name| {
        Ok::<_, StoreError>(
            transaction.prepare_cached(text)?.execute(params![name.id, name.used_on])?,
        )
    };
    for (key, series) in &mut missing.series {
        let names = [&key.service, &key.upstream, &key.environment, &key.route]
            .map(|name| Value::Text(name.clone()));
        let (id, was_known) = number(
            "SELECT id FROM series WHERE service = ? AND upstream = ? AND environment = ? \
             AND route = ?",
            "INSERT INTO series (service, upstream, environment, route, used_on) \
             VALUES (?, ?, ?, ?, ?) RETURNING id",
            &names,
            Some(series.used_on),
        )?;
        series.id = id;
        if was_known {
            note(
                "UPDATE series SET used_on = ?2 WHERE id = ?1 AND COALESCE(used_on, ?2 - 1) < ?2",
                *series,
            )?;
        }
    }
    for ((kind, word), name) in &mut missing.words {
        let kind = i64::try_from(*kind).unwrap_or(i64::MAX);
        let (id, was_known) = number(
            "SELECT id FROM words WHERE kind = ? AND word = ?",
            "INSERT INTO words (kind, word, used_on) VALUES (?, ?, ?) RETURNING id",
            &[Value::Integer(kind), Value::Text(word.to_string())],
            Some(name.used_on),
        )?;
        name.id = id;
        if was_known {
            note(
                "UPDATE words SET used_on = ?2 WHERE id = ?1 AND COALESCE(used_on, ?2 - 1) < ?2",
                *name,
            )?;
        }
    }
    let columns = sql::CLASS_INSERT;
    let conditions: Vec<String> = columns.iter().map(|column| format!("{column} = ?")).collect();
    let find = format!("SELECT id FROM classes WHERE {}", conditions.join(" AND "));
    let add = format!(
        "INSERT INTO classes ({}) VALUES ({}) RETURNING id",
        columns.join(", "),
        marks(columns.len())
    );
    for (class, id) in &mut missing.classes {
        *id = number(&find, &add, &class_values(class), None)?.0;
    }
    Ok(())
}

/// A class in the order of `sql::CLASS_INSERT`.
fn class_values(class: &Class) -> Vec<Value> {
    let mut values: Vec<Value> =
        class.texts().iter().map(|word| Value::Text((*word).to_owned())).collect();
    values.push(Value::Integer(class.status_code()));
    values.push(Value::Integer(i64::from(class.limited)));
    values
}

fn add_events<'a>(
    transaction: &Transaction<'_>,
    text: &str,
    slices: &Slices,
    known: &mut Known,
    rows: impl ExactSizeIterator<Item = (&'a Identity<'a>, Ids)>,
    received_at: UnixMillis,
) -> Result<(), StoreError> {
    let newest: i64 = transaction
        .prepare_cached("SELECT COALESCE(MAX(id), 0) FROM events")?
        .query_one([], |row| row.get(0))?;
    let mut entries = Vec::with_capacity(rows.len() * 5);
    let mut insert = transaction.prepare_cached(text)?;
    for (id, (identity, names)) in (newest + 1..).zip(rows) {
        let draft = identity.draft;
        let [key, address, account, instance] = names.actors;
        let packed = |id: &Option<String>| id.as_deref().map(ids::pack);
        insert.execute(params![
            id,
            identity.packed,
            draft.occurred_at,
            received_at.0,
            names.series.id,
            names.class,
            draft.attempt,
            draft.count,
            draft.duration_ms,
            key,
            address,
            account,
            instance,
            draft.wait_bucket,
            packed(&draft.operation_id),
            packed(&draft.request_id),
            packed(&draft.ray_id),
            packed(&draft.trace_id),
            packed(&draft.idempotency_key_hash),
            packed(&draft.body_hash),
            draft.detail,
        ])?;
        let slice = slices.id(slices.at(draft.occurred_at));
        let texts = [&draft.operation_id, &draft.request_id, &draft.ray_id, &draft.trace_id];
        entries.push((slice, identity.key, id));
        known.add(slice, identity.key);
        entries.extend(texts.into_iter().flatten().map(|text| (slice, ids::key(text), id)));
    }
    entries.sort_unstable();
    entries.dedup();
    slices::add(transaction, entries.into_iter())
}

/// Adds rows, whose numbers lie end to end, to a table of sums.
fn add_rows(transaction: &Transaction<'_>, table: Sums, numbers: &[i64]) -> Result<(), StoreError> {
    let columns = table.columns.len();
    let text = format!("{}VALUES ({}){}", table.head(), marks(columns), table.tail());
    let mut add = transaction.prepare_cached(&text)?;
    for row in numbers.chunks_exact(columns) {
        for (at, number) in row.iter().enumerate() {
            add.raw_bind_parameter(at + 1, number)?;
        }
        add.raw_execute()?;
    }
    Ok(())
}

fn add_sender(
    transaction: &Transaction<'_>,
    service: &str,
    counts: &SenderCounts,
) -> Result<(), StoreError> {
    transaction.prepare_cached(sql::ADD_SENDER)?.execute(params![
        service,
        counts.events,
        counts.redactions,
        counts.unknown_fields,
        counts.rejected,
        counts.id_conflicts,
        counts.as_other,
    ])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::event::Event;
    use crate::domain::stored::{Scope, TimeBasis, View};
    use crate::domain::time::{HOUR_MS, Millis, Window};
    use crate::pipeline::judge;
    use crate::store::{Keep, Store, Tidied};

    const START: i64 = 1_794_382_200_000;
    const FULL: i64 = 200;

    fn draft(id: &str, at: i64) -> Draft {
        let text = format!(
            r#"{{"event_id":"{id}","operation_id":"op-{id}","attempt":1,"occurred_at":{at},
            "vantage":"client","service":"s","host":"u","status":200,"headers":[],"count":1,
            "request_id":"{id}-request","trace_id":"trace-of-{id}","ray_id":"{id}",
            "redactions":0}}"#
        );
        Draft::new(judge(serde_json::from_str::<Event>(&text).unwrap()))
    }

    struct Place {
        store: Store,
        writer: Writer,
        _folder: tempfile::TempDir,
    }

    impl Place {
        async fn new() -> Self {
            Self::with_slices_of(FULL).await
        }

        async fn with_slices_of(full: i64) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("slices.db");
            let store = Store::open(&format!("sqlite://{}", file.display())).await.unwrap();
            let writer = Writer::open_with(&file, Duration::from_secs(5), full).unwrap();
            Self { store, writer, _folder: folder }
        }

        fn insert(&mut self, drafts: &[Draft]) -> Vec<Inserted> {
            self.writer.insert(drafts, UnixMillis(START)).unwrap()
        }

        /// Events by slice, counted anew, and whether the catalogue says the same and each event is
        /// found by each of its ids in the slice of its time.
        fn check(&self) -> Vec<i64> {
            let slices: Vec<(i64, i64, i64, i64)> = self
                .writer
                .connection
                .prepare("SELECT id, from_at, to_at, events FROM slices ORDER BY from_at")
                .unwrap()
                .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
                .unwrap()
                .collect::<Result<_, _>>()
                .unwrap();
            assert_eq!((slices[0].1, slices[slices.len() - 1].2), (i64::MIN, i64::MAX));
            assert!(slices.windows(2).all(|two| two[0].2 == two[1].1), "{slices:?}");
            let one = |text: &str, slice: &(i64, i64, i64, i64)| -> i64 {
                self.writer
                    .connection
                    .query_one(text, params![slice.0, slice.1, slice.2], |row| row.get(0))
                    .unwrap()
            };
            for slice in &slices {
                let events = one(
                    "SELECT COUNT(*) FROM events WHERE occurred_at >= ?2 AND occurred_at < ?3 AND ?1 > 0",
                    slice,
                );
                assert_eq!(events, slice.3, "{slices:?}");
                let found = one(
                    "SELECT COUNT(*) FROM ids x JOIN events e ON e.id = x.id WHERE x.slice = ?1 \
                     AND e.occurred_at >= ?2 AND e.occurred_at < ?3",
                    slice,
                );
                // The ray id is the event id, so that they share an entry.
                assert_eq!(found, events * 4, "{slices:?}");
            }
            let entries: i64 = self
                .writer
                .connection
                .query_one("SELECT COUNT(*) FROM ids", [], |row| row.get(0))
                .unwrap();
            assert_eq!(entries, 4 * slices.iter().map(|slice| slice.3).sum::<i64>());
            slices.iter().map(|slice| slice.3).collect()
        }
    }

    #[tokio::test]
    async fn slices_end_when_they_are_full_and_ids_are_found_in_each() {
        let mut place = Place::new().await;
        for batch in 0..20 {
            let drafts: Vec<Draft> = (0..50)
                .map(|n| {
                    let at = batch * 50 + n;
                    // Nearly in the order of time, and one clock that is an hour ahead.
                    let shift = if n == 49 { 3_600_000 } else { at % 7 * 3 };
                    draft(&format!("e{at}"), START + at * 10 + shift)
                })
                .collect();
            assert!(place.insert(&drafts).iter().all(|result| *result == Inserted::Stored));
            place.check();
        }
        let sizes = place.check();
        assert!(sizes.len() >= 5 && sizes.iter().all(|n| *n < FULL + 50), "{sizes:?}");
        for n in [0, 49, 500, 999] {
            for id in [format!("e{n}"), format!("op-e{n}"), format!("trace-of-e{n}")] {
                let found = place.store.lookup(&id).await.unwrap().events;
                assert_eq!(found.len(), 1, "{id}");
            }
        }
        assert!(place.store.recount().await.unwrap().agrees());
    }

    #[tokio::test]
    async fn slices_become_larger_where_many_events_are_stored() {
        let mut place = Place::with_slices_of(20).await;
        let all = place.fill(3_600, 10);
        let sizes = place.check();
        assert!(sizes[..30].iter().all(|n| (15..30).contains(n)), "{sizes:?}");
        let [.., before_last, _last] = sizes.as_slice() else { panic!("{sizes:?}") };
        assert!((75..90).contains(before_last) && sizes.len() < 90, "{sizes:?}");

        // Another process reads the same catalogue and goes on.
        place.reopen();
        let again = place.insert(&all);
        assert!(again.iter().all(|result| *result == Inserted::Duplicate));
        assert_eq!(place.check(), sizes);
    }

    #[tokio::test]
    async fn a_repeat_is_known_and_a_conflict_told_after_its_slice_was_divided() {
        let mut place = Place::new().await;
        let all: Vec<Draft> = (0..700).map(|n| draft(&format!("e{n}"), START + n * 10)).collect();
        for part in all.chunks(70) {
            place.insert(part);
        }
        let again = place.insert(&all);
        assert!(again.iter().all(|result| *result == Inserted::Duplicate));
        let conflict = place.insert(&[draft("e690", START + 6_905), draft("e1", START + 11)]);
        assert_eq!(conflict, [Inserted::IdConflict, Inserted::IdConflict]);
        let late = place.insert(&[draft("late", START - 86_400_000), draft("e5", START + 50)]);
        assert_eq!(late, [Inserted::Stored, Inserted::Duplicate]);
        place.check();
        let window = Window { from: UnixMillis(0), to: UnixMillis(i64::MAX) };
        let view = View { scope: Scope::default(), window, time: TimeBasis::Event };
        assert_eq!(place.store.totals(&view).await.unwrap().attempts, 703);
    }

    #[tokio::test]
    async fn a_slice_that_can_not_be_divided_goes_on() {
        let mut place = Place::new().await;
        // All at one moment: no cut leaves nine tenths in place.
        for batch in 0..10 {
            let drafts: Vec<Draft> =
                (0..50).map(|n| draft(&format!("e{batch}-{n}"), START)).collect();
            place.insert(&drafts);
        }
        assert_eq!(place.check(), [500]);
        let later: Vec<Draft> =
            (0..50).map(|n| draft(&format!("later{n}"), START + 1_000 + n)).collect();
        place.insert(&later);
        assert_eq!(place.check(), [545, 5]);
    }

    impl Place {
        /// Stores so many events, one every `every` milliseconds, ten a batch.
        fn fill(&mut self, events: i64, every: i64) -> Vec<Draft> {
            let all: Vec<Draft> =
                (0..events).map(|n| draft(&format!("e{n}"), START + n * every)).collect();
            all.chunks(10).for_each(|part| drop(self.insert(part)));
            all
        }

        /// Begins anew, as a process does after a kill.
        fn reopen(&mut self) {
            let file = self.writer.connection.path().unwrap().to_owned();
            self.writer = Writer::open_with(file.as_ref(), Duration::from_secs(5), 20).unwrap();
        }

        fn number(&self, text: &str) -> i64 {
            self.writer.connection.query_one(text, [], |row| row.get(0)).unwrap()
        }

        async fn is_well(&self) {
            let found = self.store.verify().await.unwrap();
            assert!(found.is_well(), "{found:?}");
        }
    }

    #[tokio::test]
    async fn old_slices_become_one_and_every_id_is_found_in_between() {
        let mut place = Place::with_slices_of(20).await;
        let all = place.fill(3_600, 10);
        let before = place.check().len();
        let mut steps = 0;
        while place.writer.merge_for(Duration::ZERO).unwrap() {
            if steps % 7 == 0 {
                place.is_well().await;
                for n in [3, 499 + steps, 3_599] {
                    let found = place.store.lookup(&format!("trace-of-e{n}")).await.unwrap();
                    assert_eq!(found.events.len(), 1, "{n} after {steps} steps");
                }
                let late = [draft(&format!("late{steps}"), START + steps * 20 + 5)];
                assert_eq!(place.insert(&late), [Inserted::Stored]);
                assert_eq!(place.insert(&late), [Inserted::Duplicate]);
            }
            if steps % 5 == 0 {
                let n = usize::try_from(steps * 11 % 3_600).unwrap();
                assert_eq!(place.insert(&all[n..=n]), [Inserted::Duplicate], "e{n}");
                let conflict = [draft(&format!("e{n}"), all[n].occurred_at + 1)];
                assert_eq!(place.insert(&conflict), [Inserted::IdConflict], "e{n}");
                place.reopen();
            }
            steps += 1;
        }
        place.is_well().await;
        let sizes = place.check();
        assert!(before > 60 && sizes.len() < 30 && steps > 20, "{before} {sizes:?} {steps}");
        assert_eq!(place.number("SELECT COUNT(*) FROM draining"), 0);
        assert!(place.insert(&all).iter().all(|result| *result == Inserted::Duplicate));
    }

    #[tokio::test]
    async fn ids_of_merged_slices_leave_with_their_last_event() {
        for merged in [5, usize::MAX] {
            let mut place = Place::with_slices_of(20).await;
            place.fill(3_600, 2_000);
            let mut steps = 0;
            while steps < merged && place.writer.merge_for(Duration::ZERO).unwrap() {
                steps += 1;
            }
            let keep = Keep { events: Millis(HOUR_MS), sums: Millis(HOUR_MS), max_bytes: None };
            let tidied = |place: &mut Place, now: i64| {
                while place.writer.tidy(&keep, UnixMillis(now)).unwrap() == Tidied::More {}
                ["events", "ids", "draining"]
                    .map(|table| place.number(&format!("SELECT COUNT(*) FROM {table}")))
            };
            // Two hours of events, of which the first goes.
            let [events, ids, _] = tidied(&mut place, START + 2 * HOUR_MS);
            assert!((1_800..3_600).contains(&events) && ids >= 4 * events, "{events} {ids}");
            assert_eq!(ids > 4 * events, merged > 5, "some stay until their slice is empty");
            place.is_well().await;
            assert_eq!(tidied(&mut place, START + 5 * HOUR_MS), [0, 0, 0]);
            place.is_well().await;
            // Numbers of events begin anew, and slices go on.
            let again: Vec<Draft> = (0..500)
                .map(|n| draft(&format!("again{n}"), START + 5 * HOUR_MS + n * 10))
                .collect();
            again.chunks(10).for_each(|part| drop(place.insert(part)));
            while place.writer.merge_for(Duration::ZERO).unwrap() {}
            place.is_well().await;
        }
    }

    #[tokio::test]
    async fn an_id_that_thousands_of_events_share_is_merged_with_the_others() {
        let mut place = Place::with_slices_of(20).await;
        for n in 0..3_600 {
            let mut one = draft(&format!("e{n}"), START + n * 10);
            one.trace_id = Some("one-trace".to_owned());
            place.insert(&[one]);
        }
        while place.writer.merge_for(Duration::ZERO).unwrap() {}
        place.is_well().await;
        assert_eq!(place.number("SELECT COUNT(*) FROM ids"), 4 * 3_600);
    }
}
