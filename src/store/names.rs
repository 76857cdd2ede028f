//! What the numbers in events and sums stand for. Classes and series are few, and their numbers are
//! never given again, so that they are kept in memory: rows carry numbers instead of fifteen texts.

use super::reader::{Arg, Reader, marks};
use super::rows::{Class, SeriesKey};
use super::{StoreError, sql};
use crate::domain::event::Vantage;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, RwLock};

/// How many series are kept in memory; hostile senders make more.
const MAX_SERIES: usize = 50_000;
/// Numbers asked for in one statement.
const AT_ONCE: usize = 512;

type Classes = Arc<HashMap<i64, Class>>;
type Series = Arc<HashMap<i64, Arc<SeriesKey>>>;

/// Names read so far.
#[derive(Debug, Default)]
pub(super) struct Names {
    classes: RwLock<Classes>,
    series: RwLock<Series>,
}

fn known<T: Clone + Default>(lock: &RwLock<T>) -> T {
    lock.read().map(|known| T::clone(&known)).unwrap_or_default()
}

impl Reader {
    /// All classes; read anew where one of `ids` isn't known yet.
    pub(super) async fn classes(
        &mut self,
        ids: impl IntoIterator<Item = i64>,
    ) -> Result<Classes, StoreError> {
        let known = known(&self.names.classes);
        if ids.into_iter().all(|id| known.contains_key(&id)) {
            return Ok(known);
        }
        let mut read = HashMap::new();
        for row in self.all(sql::CLASSES, &[]).await? {
            read.insert(row.int(0)?, Class::read(&row, 1)?);
        }
        let read = Arc::new(read);
        if let Ok(mut known) = self.names.classes.write() {
            *known = Arc::clone(&read);
        }
        Ok(read)
    }

    /// Whether an event of another vantage than the client's was ever stored.
    pub(super) async fn has_observations(&mut self) -> Result<bool, StoreError> {
        let Some(newest) = self.newest_class else {
            return Ok(self.first(sql::HAS_OBSERVATIONS, &[]).await?.is_some());
        };
        let classes = self.classes([newest]).await?;
        Ok(classes.values().any(|class| class.vantage != Vantage::Client))
    }

    /// The series with these numbers, and perhaps others.
    pub(super) async fn series(
        &mut self,
        ids: impl IntoIterator<Item = i64>,
    ) -> Result<Series, StoreError> {
        let known = known(&self.names.series);
        let missing: BTreeSet<i64> = ids.into_iter().filter(|id| !known.contains_key(id)).collect();
        if missing.is_empty() {
            return Ok(known);
        }
        let mut read = HashMap::clone(&known);
        for (id, [service, upstream, environment, route]) in
            self.named(sql::NAMES_OF_SERIES, &missing).await?
        {
            let key = SeriesKey { service, upstream, environment, route };
            read.insert(id, Arc::new(key));
        }
        let read = Arc::new(read);
        if let Ok(mut known) = self.names.series.write() {
            // What is too much is forgotten, and read again by who needs it.
            *known = if read.len() > MAX_SERIES { Series::default() } else { Arc::clone(&read) };
        }
        Ok(read)
    }

    /// The words with these numbers, and others that this look has read. There can be any number of
    /// them, so that none are kept for the next one.
    pub(super) async fn words(
        &mut self,
        mut ids: BTreeSet<i64>,
    ) -> Result<Arc<HashMap<i64, String>>, StoreError> {
        ids.retain(|id| !self.words.contains_key(id));
        if !ids.is_empty() {
            let named = self.named(sql::WORDS, &ids).await?;
            let words = Arc::make_mut(&mut self.words);
            words.extend(named.into_iter().map(|(id, [word])| (id, word)));
        }
        Ok(Arc::clone(&self.words))
    }

    /// A number and `N` texts of each of `ids`, by a statement with their list (`{ids}`).
    async fn named<const N: usize>(
        &mut self,
        text: &str,
        ids: &BTreeSet<i64>,
    ) -> Result<Vec<(i64, [String; N])>, StoreError> {
        let ids: Vec<i64> = ids.iter().copied().collect();
        let mut named = Vec::with_capacity(ids.len());
        for part in ids.chunks(AT_ONCE) {
            // Lists of a few lengths alone, so that statements are prepared once.
            let padding = part.last().copied().into_iter().cycle();
            let length = part.len().next_power_of_two();
            let mut args = Vec::new();
            let list =
                marks(&mut args, part.iter().copied().chain(padding).take(length).map(Arg::Int));
            for row in self.all(text.replace("{ids}", &list), &args).await? {
                let mut texts = [const { String::new() }; N];
                for (n, text) in texts.iter_mut().enumerate() {
                    *text = row.text(n + 1)?.into_owned();
                }
                named.push((row.int(0)?, texts));
            }
        }
        Ok(named)
    }
}
