//! What is left of a body when its request is answered.

use super::{AppState, Code, Failure};
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::http::header;
use axum::middleware::Next;
use axum::response::Response;
use futures_util::StreamExt as _;
use hyper::body::{Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::oneshot;

/// How long the rest of a body may take to pass.
const LONGEST: Duration = Duration::from_secs(10);
/// How much of it may pass, in times of the largest body that is taken.
const MOST: usize = 4;

/// Lets the rest of a body that was refused pass, without keeping any of it, before the answer goes
/// out. A sender that is still sending sees the answer then; a connection that is closed in its midst
/// would be reset, and the answer lost (RFC 9112 section 9.6).
pub(super) async fn let_pass(
    State(state): State<AppState>,
    request: Request,
    next: Next,
) -> Response {
    let (parts, body) = request.into_parts();
    let waits_for_leave = parts.headers.contains_key(header::EXPECT);
    let (give_back, mut given_back) = oneshot::channel();
    let lent = Lent { body, is_begun: false, give_back: Some(give_back) };
    let response = next.run(Request::from_parts(parts, Body::new(lent))).await;
    let failure = response.extensions().get::<Failure>();
    // Who was too slow would be so again.
    let may_be_sending = failure.is_some_and(|failure| failure.code != Code::RequestTimeout);
    if may_be_sending
        && let Ok((body, is_begun)) = given_back.try_recv()
        // Nothing comes without leave, and asking for the body gives it (RFC 9110 section 10.1.1).
        && (is_begun || !waits_for_leave)
    {
        let most = state.config.ingest.max_body_bytes.saturating_mul(MOST);
        let limit = state.config.server.body_timeout.min(LONGEST);
        if tokio::time::timeout(limit, pass(body, most)).await.is_err() {
            tracing::debug!("a body that was refused took too long to pass");
        }
    }
    response
}

async fn pass(body: Body, most: usize) {
    let mut chunks = body.into_data_stream();
    let mut left = most;
    while let Some(Ok(chunk)) = chunks.next().await {
        left = left.saturating_sub(chunk.len());
        if left == 0 {
            return;
        }
    }
}

/// A body that comes back when it is dropped, with whether any of it was asked for.
struct Lent {
    body: Body,
    is_begun: bool,
    give_back: Option<oneshot::Sender<(Body, bool)>>,
}

impl HttpBody for Lent {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.is_begun = true;
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let body = std::mem::take(&mut self.body);
        if let Some(give_back) = self.give_back.take() {
            // Nobody waits for it where the whole request was given up.
            give_back.send((body, self.is_begun)).ok();
        }
    }
}
