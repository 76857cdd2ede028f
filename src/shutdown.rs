//! How the program stops: softly on the first signal, by force on the second or when the time
//! limit is over. A background task that ends by itself stops the program, and it exits failing.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use tokio_util::sync::CancellationToken;

/// A request to stop that every part of the program can see and make. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    soft: CancellationToken,
    hard: CancellationToken,
    crashed: Arc<Mutex<Option<String>>>,
}

impl Shutdown {
    /// A program that is to run on.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks to stop: finish what was begun, take nothing new.
    pub fn request(&self) {
        self.soft.cancel();
    }

    /// Asks to stop at once.
    pub fn force(&self) {
        self.soft.cancel();
        self.hard.cancel();
    }

    /// Waits until somebody asks to stop.
    pub async fn requested(&self) {
        self.soft.cancelled().await;
    }

    /// Waits until somebody asks to stop at once.
    pub async fn forced(&self) {
        self.hard.cancelled().await;
    }

    /// Whether somebody asked to stop.
    pub fn is_requested(&self) -> bool {
        self.soft.is_cancelled()
    }

    /// Name of the first task that ended though nobody had asked to stop.
    pub fn crashed(&self) -> Option<String> {
        self.crashed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Runs `task` in the background until it ends. A task that panics, or ends while the program
    /// is to run on, stops the program, which then exits failing.
    pub fn watch<F>(&self, name: &'static str, task: F) -> tokio::task::JoinHandle<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (shutdown, task) = (self.clone(), tokio::spawn(task));
        tokio::spawn(async move {
            let ended = task.await;
            if ended.is_ok() && shutdown.is_requested() {
                return;
            }
            tracing::error!(task.name = name, "the task {name} ended unexpectedly; stopping");
            let mut crashed = shutdown.crashed.lock().unwrap_or_else(PoisonError::into_inner);
            crashed.get_or_insert_with(|| name.to_owned());
            drop(crashed);
            shutdown.request();
        })
    }

    /// Turns SIGTERM and SIGINT into requests to stop: the first softly, the second by force. Does
    /// away with SIGXFSZ, so that a limit on the size of files is an error of the write that meets
    /// it, like a full disk, and not the end of the program.
    ///
    /// # Errors
    /// Where the system lets no handler be set.
    pub fn on_signals(&self) -> std::io::Result<()> {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        // The handler stays for as long as the program runs; nobody has to listen.
        drop(signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?);
        let shutdown = self.clone();
        tokio::spawn(async move {
            loop {
                let name = tokio::select! {
                    _ = terminate.recv() => "SIGTERM",
                    _ = interrupt.recv() => "SIGINT",
                };
                if shutdown.is_requested() {
                    tracing::warn!(signal.name = name, "{name} again: stopping at once");
                    shutdown.force();
                } else {
                    tracing::info!(signal.name = name, "{name}: finishing what was begun");
                    shutdown.request();
                }
            }
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_panics_stops_the_program() {
        let shutdown = Shutdown::new();
        shutdown.watch("writer", async { panic!("broken on purpose") }).await.unwrap();
        shutdown.requested().await;
        assert_eq!(shutdown.crashed().as_deref(), Some("writer"));
    }

    #[tokio::test]
    async fn a_task_that_ends_early_stops_the_program() {
        let shutdown = Shutdown::new();
        shutdown.watch("rollup", async {}).await.unwrap();
        assert!(shutdown.is_requested());
        assert_eq!(shutdown.crashed().as_deref(), Some("rollup"));
    }

    #[tokio::test]
    async fn a_task_that_ends_when_asked_is_no_crash() {
        let shutdown = Shutdown::new();
        let waiting = shutdown.clone();
        let task = shutdown.watch("writer", async move { waiting.requested().await });
        shutdown.request();
        task.await.unwrap();
        assert_eq!(shutdown.crashed(), None);
    }
}
