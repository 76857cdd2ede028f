//! Takes connections and speaks HTTP/1.1 on them until told to stop.
//!
//! HTTP/1.1 alone on purpose: every sender and browser speaks it, and its time limits hold from a
//! connection's first byte on, which can't be said where the version has to be guessed first.
//! TLS and HTTP/2 are the work of a proxy in front.

use super::extract::Peer;
use crate::config::Server;
use crate::shutdown::Shutdown;
use axum::Router;
use axum::http::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulConnection, GracefulShutdown};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::Sleep;
use tower::util::MapRequest;

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
    let graceful = accept_all(listener, server, shutdown, |stream, peer| {
        let service = MapRequest::new(router.clone(), move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(Peer::new(peer));
            request
        });
        http.serve_connection(stream, TowerToHyperService::new(service))
    })
    .await;
    let open = graceful.count();
    tracing::info!(connections = open, "no longer listening; finishing {open} connections");
    tokio::select! {
        () = graceful.shutdown() => {}
        () = shutdown.forced() => tracing::warn!("connections were cut off"),
    }
}

/// Takes connections until a stop is requested, at most as many at once as is set, and lets `speak`
/// serve each. What is returned knows those that are still open.
pub(super) async fn accept_all<C>(
    listener: TcpListener,
    server: &Server,
    shutdown: &Shutdown,
    speak: impl Fn(TokioIo<Impatient>, SocketAddr) -> C,
) -> GracefulShutdown
where
    C: GracefulConnection<Error: std::error::Error + 'static> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(server.max_connections));
    let graceful = GracefulShutdown::new();
    loop {
        let place = tokio::select! {
            () = shutdown.requested() => break,
            place = Arc::clone(&places).acquire_owned() => place,
        };
        let Ok(place) = place else { break };
        let (stream, peer) = tokio::select! {
            () = shutdown.requested() => break,
            accepted = accept(&listener) => accepted,
        };
        let stream = TokioIo::new(Impatient::new(stream, server.request_timeout));
        let connection = graceful.watch(speak(stream, peer));
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                // Peers that go away or send nonsense; nobody has to act.
                tracing::debug!(error = &error as &dyn std::error::Error, "a connection broke off");
            }
            drop(place);
        });
    }
    graceful
}

/// A connection whose peer has to take what we write: one that reads nothing for `limit` is let
/// go, so that it can't hold a place forever.
pub(super) struct Impatient {
    stream: TcpStream,
    limit: Duration,
    /// Runs while a write waits for the peer.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Impatient {
    fn new(stream: TcpStream, limit: Duration) -> Self {
        Self { stream, limit, stalled: None }
    }

    fn judge<T>(
        &mut self,
        cx: &mut Context<'_>,
        write: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if write.is_ready() {
            self.stalled = None;
            return write;
        }
        let limit = self.limit;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        match stalled.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Impatient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Impatient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.judge(cx, write)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.judge(cx, write)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flush = Pin::new(&mut self.stream).poll_flush(cx);
        self.judge(cx, flush)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shutdown = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.judge(cx, shutdown)
    }
}

/// The next connection and whose it is. Where the system has no room for one, waits for some to
/// close.
async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                // Without it small answers wait for the peer's acknowledgement.
                stream.set_nodelay(true).ok();
                return (stream, peer);
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
