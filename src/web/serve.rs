//! Takes connections and speaks HTTP/1.1 on them until told to stop.
//!
//! HTTP/1.1 alone on purpose: every sender and browser speaks it, and its time limits hold from a
//! connection's first byte on, which can't be said where the version has to be guessed first.
//! TLS and HTTP/2 are the work of a proxy in front.

use crate::config::Server;
use crate::shutdown::Shutdown;
use axum::Router;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// Largest head of a request in bytes, all header fields together.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// Most header fields in a request.
const MAX_HEADER_FIELDS: usize = 100;

/// Serves `router` until a stop is requested, then finishes the requests under way. Returns when
/// they are done, or at once when the stop is forced.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    server: &Server,
    shutdown: &Shutdown,
) {
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(server.header_timeout)
        .max_buf_size(MAX_HEAD_BYTES)
        .max_headers(MAX_HEADER_FIELDS);
    let places = Arc::new(Semaphore::new(server.max_connections));
    let graceful = GracefulShutdown::new();
    loop {
        let place = tokio::select! {
            () = shutdown.requested() => break,
            place = Arc::clone(&places).acquire_owned() => place,
        };
        let Ok(place) = place else { break };
        let stream = tokio::select! {
            () = shutdown.requested() => break,
            stream = accept(&listener) => stream,
        };
        let service = TowerToHyperService::new(router.clone());
        let connection = graceful.watch(http.serve_connection(TokioIo::new(stream), service));
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                // Peers that go away or send nonsense; nobody has to act.
                tracing::debug!(error = &error as &dyn std::error::Error, "a connection broke off");
            }
            drop(place);
        });
    }
    drop(listener);
    let open = graceful.count();
    tracing::info!(connections = open, "no longer listening; finishing {open} connections");
    tokio::select! {
        () = graceful.shutdown() => {}
        () = shutdown.forced() => tracing::warn!("connections were cut off"),
    }
}

/// The next connection. Where the system has no room for one, waits for some to close.
async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // Without it small answers wait for the peer's acknowledgement.
                stream.set_nodelay(true).ok();
                return stream;
            }
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "a connection could not be accepted"
                );
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}
