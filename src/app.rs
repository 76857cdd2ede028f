//! Builds everything from a configuration and a listener, then runs until told to stop.

use crate::clock::Clock;
use crate::config::Config;
use crate::domain::alerts::notice::Subject;
use crate::domain::stored::TimeBasis;
use crate::domain::time::{DAY_MS, Millis, UnixMillis, Window};
use crate::metrics::{Metrics, Operation};
use crate::notify::Notifier;
use crate::notify::client::ClientError;
use crate::pipeline::alerts::{self, Evaluator};
use crate::pipeline::settler::Settler;
use crate::pipeline::{Intake, IntakeSettings, keeper};
use crate::shutdown::Shutdown;
use crate::store::{Store, StoreError};
use crate::web::{self, AppState};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Why the program can't start, or had to end.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// The address to listen on names nothing.
    #[error("cannot find the address {listen}; check the setting listen (--listen)")]
    Resolve {
        /// The setting.
        listen: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The address can't be listened on.
    #[error("cannot listen on {address}: {}", how_to_listen(.source.kind()))]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// The address can be reached from other machines, but the doors are open.
    #[error(
        "refusing to listen on {address}: other machines can reach it, and {missing} not set, so \
         anybody could {could}. Set RETRYLENS_INGEST_TOKENS and RETRYLENS_READ_TOKENS (or \
         ingest_tokens and read_tokens below [access] in the settings file) to tokens of 16 \
         characters or more, or listen on a loopback address such as 127.0.0.1:4290"
    )]
    OpenDoors {
        /// The address.
        address: SocketAddr,
        /// Which settings are missing, with their verb.
        missing: &'static str,
        /// What anybody could do.
        could: &'static str,
    },
    /// The store can't be used.
    #[error("cannot use the store {url}; check the setting database_url (--database-url)")]
    Store {
        /// Its address without a password.
        url: String,
        /// What the store said.
        source: StoreError,
    },
    /// Nothing can be sent to others.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A background task ended by itself.
    #[error("the task {0} ended unexpectedly; what was acknowledged is stored")]
    Crashed(String),
    /// The stop took too long.
    #[error("the stop was forced before everything was finished; what was acknowledged is stored")]
    Forced,
}

fn how_to_listen(kind: std::io::ErrorKind) -> &'static str {
    match kind {
        std::io::ErrorKind::AddrInUse => {
            "another program listens there already, most likely another retrylens or its demo; \
             stop it, or choose another port with the setting listen (--listen 127.0.0.1:PORT, \
             RETRYLENS_LISTEN)"
        }
        std::io::ErrorKind::PermissionDenied => {
            "choose a port from 1024 on with the setting listen (--listen, RETRYLENS_LISTEN)"
        }
        _ => "check the setting listen (--listen, RETRYLENS_LISTEN)",
    }
}

/// Opens the listener that the settings name, if the doors are fit for it.
///
/// # Errors
/// Where the address can't be found or used, or is reachable from other machines without tokens.
pub async fn bind(config: &Config) -> Result<TcpListener, AppError> {
    let mut failed = None;
    for address in check_listen(config).await? {
        match TcpListener::bind(address).await {
            Ok(listener) => return Ok(listener),
            Err(source) => failed = Some(AppError::Bind { address, source }),
        }
    }
    Err(failed.unwrap_or_else(|| nothing_found(config)))
}

/// Opens the listener for OTLP over gRPC, where one is wanted. That its port is taken is no reason
/// to stop: HTTP does the same.
///
/// # Errors
/// Where the address can be reached from other machines without tokens.
async fn bind_grpc(config: &Config) -> Result<Option<TcpListener>, AppError> {
    let Some(listen) = &config.server.otlp_grpc_listen else { return Ok(None) };
    match TcpListener::bind(listen).await {
        Ok(listener) => {
            if let Ok(address) = listener.local_addr() {
                check_doors(config, address)?;
                tracing::info!(server.address = %address, "OTLP over gRPC is taken on {address}");
            }
            Ok(Some(listener))
        }
        Err(error) => {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(
                error,
                "OTLP over gRPC is not taken: {listen} can't be listened on, most likely because a \
                 collector does; OTLP over HTTP is. Set otlp_grpc_listen to another address, or to \
                 nothing"
            );
            Ok(None)
        }
    }
}

/// The addresses that the setting names, if there are any and the doors are fit for all of them.
///
/// # Errors
/// Where they aren't.
pub async fn check_listen(config: &Config) -> Result<Vec<SocketAddr>, AppError> {
    let listen = &config.server.listen;
    let found: Vec<SocketAddr> = match tokio::net::lookup_host(listen).await {
        Ok(found) => found.collect(),
        Err(source) => return Err(AppError::Resolve { listen: listen.clone(), source }),
    };
    if found.is_empty() {
        return Err(nothing_found(config));
    }
    found.iter().try_for_each(|address| check_doors(config, *address))?;
    Ok(found)
}

fn nothing_found(config: &Config) -> AppError {
    let source = std::io::Error::from(std::io::ErrorKind::NotFound);
    AppError::Resolve { listen: config.server.listen.clone(), source }
}

/// Whether the doors are fit for an address: loopback needs no tokens, any other needs both kinds.
fn check_doors(config: &Config, address: SocketAddr) -> Result<(), AppError> {
    let is_loopback = address.ip().to_canonical().is_loopback();
    let access = &config.access;
    let (missing, could) = match (access.ingest_tokens.is_empty(), access.read_tokens.is_empty()) {
        _ if is_loopback => return Ok(()),
        (false, false) => return Ok(()),
        (true, true) => ("ingest_tokens and read_tokens are", "send events and read everything"),
        (true, false) => ("ingest_tokens is", "send events"),
        (false, true) => ("read_tokens is", "read everything"),
    };
    Err(AppError::OpenDoors { address, missing, could })
}

/// Files that are open beside connections: the database's, the log, the listener, with room to
/// spare.
const OTHER_FILES: u64 = 256;

/// Raises the number of files that may be open, so that every connection the settings allow has
/// one and the database keeps its own. Says so where the system doesn't allow enough.
fn raise_file_limit(config: &Config) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let needed = (config.server.max_connections as u64).saturating_add(OTHER_FILES);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= needed) {
        return;
    }
    let raised = maximum.map_or(needed, |maximum| maximum.min(needed));
    let result = setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum });
    if result.is_err() || raised < needed {
        tracing::warn!(
            "max_connections needs {needed} open files and the system allows {raised}; lower it or \
             raise the limit"
        );
    }
}

/// How far back it is looked for pairs and services that `/metrics` shows from the start, and for how
/// long.
const KNOWN_FOR: Millis = Millis(DAY_MS);
const LEARNING_LIMIT: Duration = Duration::from_secs(5);

/// Tells the metrics what the database holds of the last day: which pairs, with those that
/// evaluations remember, so that after a restart a pair is known although at present only failures
/// are reported of it, and when each service's newest event came, so that a silence goes on being
/// seen. Without it they are known as soon as a first attempt is served, or an event comes.
async fn learn_the_past(store: &Store, metrics: &Metrics, now: UnixMillis) {
    let since = now.plus(Millis(-KNOWN_FOR.0));
    let day = Window { from: since, to: now.plus(Millis(1)) };
    let asked = async {
        Ok::<_, StoreError>((
            store.pairs(day, TimeBasis::Received).await?,
            store.served().await?,
            store.last_received().await?,
        ))
    };
    let (pairs, served, services) = match tokio::time::timeout(LEARNING_LIMIT, asked).await {
        Ok(Ok(known)) => known,
        Ok(Err(error)) => {
            metrics.store_failed(Operation::Read);
            let error = &error as &dyn std::error::Error;
            return tracing::warn!(
                error,
                "the metrics begin without what is known of the last day"
            );
        }
        Err(_) => {
            return tracing::warn!(
                "the metrics begin without what is known of the last day: the store took too long"
            );
        }
    };
    for pair in pairs {
        let environment = pair.environment.as_deref().unwrap_or_default();
        let is_served = pair.counts.succeeded > pair.counts.retry_successes;
        metrics.learn([&pair.service, &pair.upstream, environment], pair.source, is_served);
    }
    // What an evaluation counts as served is shown, or the two forms of a rule would differ.
    for (Subject { service, upstream, environment }, vantage) in &served {
        metrics.learn([service, upstream, environment], *vantage, true);
    }
    // The one that sent last in any case, however long ago that is: all silence is counted from it.
    for (place, (service, at)) in services.iter().enumerate() {
        if place == 0 || *at >= since {
            metrics.learn_last(service, *at);
        }
    }
}

/// The built program: everything is open and ready, nothing runs yet.
#[derive(Debug)]
pub struct App {
    listener: TcpListener,
    grpc: Option<TcpListener>,
    address: SocketAddr,
    state: AppState,
    notifier: Notifier,
}

impl App {
    /// Opens the store, applying what its schema lacks, and puts everything together.
    ///
    /// # Errors
    /// Where the doors aren't fit for the listener's address, or the store can't be used.
    pub async fn build(
        config: Arc<Config>,
        clock: Arc<dyn Clock>,
        listener: TcpListener,
    ) -> Result<Self, AppError> {
        let address = listener
            .local_addr()
            .map_err(|source| AppError::Resolve { listen: config.server.listen.clone(), source })?;
        check_doors(&config, address)?;
        let grpc = bind_grpc(&config).await?;
        raise_file_limit(&config);
        let at = |source| AppError::Store { url: config.store.shown(), source };
        let store = Store::open(config.store.database_url.expose()).await.map_err(at)?;
        let key = store.hash_key().await.map_err(at)?;
        let left = store.free_leases().await.map_err(at)?;
        if left > 0 {
            tracing::info!(
                "{left} notifications were being sent when the process before this ended"
            );
        }
        let sizes = IntakeSettings {
            queue_events: config.ingest.queue_events,
            commit_events: config.ingest.commit_events,
            max_wait: config.ingest.max_wait,
            max_series: config.ingest.max_series,
            caps: config.metrics.caps,
        };
        let intake = Intake::start(store.clone(), Arc::clone(&clock), sizes);
        store.learn_series(intake.series()).await.map_err(at)?;
        learn_the_past(&store, intake.metrics(), clock.now()).await;
        let notifier = Notifier::new(
            store.clone(),
            intake.metrics().clone(),
            Arc::clone(&clock),
            config.notify.clone(),
            config.server.base(),
        )?;
        let state = AppState::new(store, intake, clock, Arc::clone(&config), &key);
        Ok(Self { listener, grpc, address, state, notifier })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What its handlers see.
    pub fn state(&self) -> &AppState {
        &self.state
    }

    /// Runs until a stop is requested, then: stop listening, finish requests, write what was
    /// accepted, close the store.
    ///
    /// # Errors
    /// Where a background task ended by itself, or the stop was forced or took too long.
    pub async fn run(self, shutdown: Shutdown) -> Result<(), AppError> {
        let Self { listener, grpc, state, notifier, .. } = self;
        let config = Arc::clone(&state.config);
        let (store, intake) = (state.store.clone(), state.intake.clone());
        let writer = {
            let intake = intake.clone();
            shutdown.watch("writer", async move { intake.ended().await })
        };
        // Aborted at the end, when it was written a last time.
        let senders = {
            let (senders, store) = (state.senders.clone(), store.clone());
            let metrics = state.metrics.clone();
            tokio::spawn(async move { senders.write_regularly(&store, &metrics).await })
        };
        let sources = {
            let (tally, store) = (intake.sources().clone(), store.clone());
            let (clock, metrics) = (Arc::clone(&state.clock), state.metrics.clone());
            tokio::spawn(async move { tally.write_regularly(&store, &*clock, &metrics).await })
        };
        let keeping = CancellationToken::new();
        let keeper = {
            let (store, clock, end) = (store.clone(), Arc::clone(&state.clock), keeping.clone());
            let metrics = state.metrics.clone();
            shutdown.watch("keeper", keeper::run(store, clock, metrics, config.store.keep, end))
        };
        let evaluator = {
            let (clock, end) = (Arc::clone(&state.clock), keeping.clone());
            let evaluator = Evaluator::new(
                store.clone(),
                state.metrics.clone(),
                config.alerts.clone(),
                config.server.base(),
                config.notify.receivers.iter().map(|one| one.addressee.clone()).collect(),
            );
            shutdown.watch("alerts", evaluator.run(clock, end))
        };
        let settling = CancellationToken::new();
        let settler = {
            let (clock, end) = (Arc::clone(&state.clock), settling.clone());
            let settler = Settler::new(store.clone(), intake.clone());
            shutdown.watch("settler", settler.run(clock, end))
        };
        let notifying = shutdown.watch("notify", notifier.run(keeping.clone()));
        // Aborted at the end, when it was kept a last time.
        let noting = {
            let (store, metrics) = (store.clone(), state.metrics.clone());
            tokio::spawn(async move { alerts::note_regularly(&store, &metrics).await })
        };
        let tally = state.senders.clone();
        let metrics = state.metrics.clone();
        let router = web::router(&state);
        let work = Box::pin(async {
            let calls = async {
                if let Some(listener) = grpc {
                    web::grpc::serve(listener, state.clone(), &shutdown).await;
                }
            };
            tokio::join!(web::serve::serve(listener, router, &config.server, &shutdown), calls);
            settling.cancel();
            finished("the settling of operations", settler).await;
            intake.stop().await;
            finished("the writer", writer).await;
            keeping.cancel();
            tokio::join!(
                finished("the keeper", keeper),
                finished("the evaluation of alerts", evaluator),
                finished("the sending of notifications", notifying),
            );
            for task in [noting, senders, sources] {
                task.abort();
            }
            let (now, sources) = (state.clock.now(), intake.sources());
            tokio::join!(
                finished("what alerts need beside the sums", alerts::keep_noted(&store, &metrics)),
                finished("the last counts of senders", tally.write(&store)),
                finished("the last counts of sources", sources.write(&store, now)),
            );
            finished("the closing of the store", store.close()).await;
        });
        let limit = async {
            shutdown.requested().await;
            tokio::select! {
                () = tokio::time::sleep(config.server.stop_timeout) => {
                    tracing::warn!("the stop takes longer than stop_timeout_ms; forcing it");
                    shutdown.force();
                }
                () = shutdown.forced() => {}
            }
        };
        let was_forced = tokio::select! {
            () = work => false,
            () = limit => true,
        };
        match shutdown.crashed() {
            Some(task) => Err(AppError::Crashed(task)),
            None if was_forced => Err(AppError::Forced),
            None => Ok(()),
        }
    }
}

/// How long a stop waits for each thing that may be left undone: a process that is killed leaves them
/// so too. A database that doesn't answer any more must not keep it from ending.
const PATIENCE: Duration = Duration::from_secs(5);

/// Waits until `work` is done; says so where it isn't.
async fn finished<T, E>(what: &'static str, work: impl Future<Output = Result<T, E>>)
where
    E: std::error::Error + 'static,
{
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "stopping: {what} failed");
        }
        Err(_) => tracing::warn!("stopping: {what} takes too long, and is left as it is"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Sources;

    fn config(pairs: &[(&str, &str)]) -> Config {
        let flags = pairs.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        Config::load(&Sources { flags, ..Sources::default() }).unwrap()
    }

    #[test]
    fn only_loopback_may_be_open() {
        let open = config(&[]);
        let sending = config(&[("ingest_tokens", "sending-token-0123456789")]);
        let both = config(&[
            ("ingest_tokens", "sending-token-0123456789"),
            ("read_tokens", "reading-token-0123456789"),
        ]);
        for loopback in ["127.0.0.1:1", "127.8.8.8:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert!(check_doors(&open, loopback.parse().unwrap()).is_ok(), "{loopback}");
        }
        for reachable in ["0.0.0.0:1", "192.0.2.1:1", "[::]:1", "[::ffff:192.0.2.1]:1"] {
            let address = reachable.parse().unwrap();
            assert!(check_doors(&open, address).is_err(), "{reachable}");
            assert!(check_doors(&sending, address).is_err(), "{reachable}");
            assert!(check_doors(&both, address).is_ok(), "{reachable}");
        }
        let told = check_doors(&sending, "0.0.0.0:1".parse().unwrap()).unwrap_err().to_string();
        assert!(told.contains("read_tokens is not set, so anybody could read"), "{told}");
    }

    #[tokio::test]
    async fn a_busy_port_is_named_with_the_setting_that_changes_it() {
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = taken.local_addr().unwrap().to_string();
        let error = bind(&config(&[("listen", &address)])).await.unwrap_err();
        // As the command line prints it, with what the system said.
        let error = format!("{:#}", anyhow::Error::new(error));
        assert!(error.contains(&address) && error.contains("--listen"), "{error}");
        assert!(error.contains("most likely another retrylens or its demo"), "{error}");
        assert_eq!(error.matches("os error").count(), 1, "{error}");
    }
}
