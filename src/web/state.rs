//! What handlers can ask for.

use super::doors::{KnownHosts, Sessions};
use super::extract::BodyBudget;
use crate::clock::Clock;
use crate::config::Config;
use crate::domain::key_hash::KeyHasher;
use crate::metrics::Metrics;
use crate::pipeline::{Intake, SenderTally};
use crate::store::Store;
use axum::extract::FromRef;
use std::sync::Arc;

/// The parts of the program that requests need. Cheap to clone; handlers ask for the part they
/// use (`State<Store>`), or for all of it.
#[derive(Debug, Clone, FromRef)]
pub struct AppState {
    /// Where everything is kept.
    pub store: Store,
    /// Where accepted events go.
    pub intake: Intake,
    /// What was counted.
    pub metrics: Metrics,
    /// What senders get wrong.
    pub senders: SenderTally,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// The settings in force.
    pub config: Arc<Config>,
    /// Hashes what must not be stored raw.
    pub hasher: KeyHasher,
    pub(crate) hosts: Arc<KnownHosts>,
    pub(crate) sessions: Sessions,
    pub(crate) bodies: BodyBudget,
}

impl AppState {
    /// Puts the parts together. `store_key` is the key that replicas share; sessions are signed
    /// with one derived from it.
    pub fn new(
        store: Store,
        intake: Intake,
        clock: Arc<dyn Clock>,
        config: Arc<Config>,
        store_key: &[u8],
    ) -> Self {
        let hash_key = config.ingest.hash_key.as_ref();
        let hasher = KeyHasher::new(hash_key.map_or(store_key, |key| key.expose().as_bytes()));
        Self {
            store,
            metrics: intake.metrics().clone(),
            intake,
            senders: SenderTally::default(),
            clock,
            hasher,
            hosts: Arc::new(KnownHosts::new(&config.server)),
            sessions: Sessions::new(store_key, config.access.session),
            bodies: BodyBudget::new(&config.ingest),
            config,
        }
    }
}
