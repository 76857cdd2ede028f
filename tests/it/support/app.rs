//! The whole router in memory, over a SQLite file of its own and a clock that stands still.

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use futures_util::StreamExt;
use retrylens::clock::{Clock, ManualClock};
use retrylens::config::{Config, Sources};
use retrylens::domain::time::UnixMillis;
use retrylens::pipeline::{Intake, IntakeSettings};
use retrylens::store::Store;
use retrylens::web::{self, AppState};
use serde_json::Value;
use std::sync::Arc;
use tower::ServiceExt;

/// The moment at which a test's clock stands until it is moved.
pub(crate) const NOON: &str = "2026-11-11T12:00:00Z";

/// The program without a network. Dropping it removes its data.
pub(crate) struct TestApp {
    pub(crate) router: Router,
    pub(crate) state: AppState,
    pub(crate) clock: Arc<ManualClock>,
    _folder: tempfile::TempDir,
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text)
            .unwrap_or_else(|error| panic!("{error} in {} {}", self.status, self.text))
    }

    /// A header field's value, or an empty text.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

impl TestApp {
    /// With the default settings.
    pub(crate) async fn start() -> Self {
        Self::with(&[]).await
    }

    /// With some settings changed, given by name.
    pub(crate) async fn with(settings: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", folder.path().join("test.db").display());
        let mut flags: Vec<(String, String)> = vec![("database_url".to_owned(), url.clone())];
        flags.extend(settings.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())));
        let config = Config::load(&Sources { flags, ..Sources::default() }).unwrap();
        let clock = Arc::new(ManualClock::at(UnixMillis::parse_rfc3339(NOON).unwrap()));
        let store = Store::open(&url).await.unwrap();
        let key = store.hash_key().await.unwrap();
        let handed: Arc<dyn Clock> = Arc::clone(&clock) as Arc<dyn Clock>;
        let sizes = IntakeSettings {
            queue_events: config.ingest.queue_events,
            commit_events: config.ingest.commit_events,
            max_wait: config.ingest.max_wait,
            max_series: config.ingest.max_series,
            caps: config.metrics.caps,
        };
        let intake = Intake::start(store.clone(), Arc::clone(&handed), sizes);
        let state = AppState::new(store, intake, handed, Arc::new(config), &key);
        let router = web::router(&state);
        Self { router, state, clock, _folder: folder }
    }

    /// Sends a request as it is; `Host: localhost` is added where none is named.
    pub(crate) async fn send(&self, mut request: Request<Body>) -> Answer {
        let headers = request.headers_mut();
        headers.entry("host").or_insert("localhost".parse().unwrap());
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let mut bytes = Vec::new();
        let mut chunks = body.into_data_stream();
        while let Some(chunk) = chunks.next().await {
            bytes.extend_from_slice(&chunk.unwrap());
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Answer { status: parts.status, headers: parts.headers, text }
    }

    /// `GET` as a program.
    pub(crate) async fn get(&self, address: &str) -> Answer {
        self.send(Request::get(address).body(Body::empty()).unwrap()).await
    }

    /// `GET` as a person with a browser.
    pub(crate) async fn visit(&self, address: &str) -> Answer {
        let request = Request::get(address).header("accept", "text/html,*/*;q=0.8");
        self.send(request.body(Body::empty()).unwrap()).await
    }

    /// `POST` of JSON.
    pub(crate) async fn post(&self, address: &str, body: &Value) -> Answer {
        self.post_text(address, "application/json", body.to_string()).await
    }

    /// `POST` of anything.
    pub(crate) async fn post_text(
        &self,
        address: &str,
        media_type: &str,
        body: impl Into<Body>,
    ) -> Answer {
        let request = Request::post(address).header("content-type", media_type);
        self.send(request.body(body.into()).unwrap()).await
    }

    /// `POST` of a form, as a person sends it.
    pub(crate) async fn submit(&self, address: &str, form: &str) -> Answer {
        let request = Request::post(address)
            .header("content-type", "application/x-www-form-urlencoded")
            .header("accept", "text/html")
            .header("origin", "http://localhost");
        self.send(request.body(Body::from(form.to_owned())).unwrap()).await
    }

    /// Stores events and fails where one is not stored anew.
    pub(crate) async fn store(&self, events: &[Value]) {
        let answer = self.post("/v1/events", &Value::Array(events.to_vec())).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
        assert_eq!(answer.json()["stored"], events.len(), "{}", answer.text);
    }
}
