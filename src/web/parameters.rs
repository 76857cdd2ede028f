//! Parameters after `?` that an address doesn't know, or that are named twice: a typo in a filter
//! must not show something else than was asked for. Programs are refused (400, with the names that
//! are known); people get the page with a hint above it. What each address knows stands in the API
//! document, which is gathered from the handlers.

use super::api::document::document;
use super::error::{Code, Failure};
use axum::extract::{FromRequestParts, MatchedPath, Request};
use axum::http::Method;
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::LazyLock;
use url::form_urlencoded;
use utoipa::openapi::RefOr;
use utoipa::openapi::path::ParameterIn;

/// Where lines of logs are sent: the one kind of sending with parameters of its own.
const LOGS: &str = "/v1/access-logs/";

/// Names by address, of requests that read or send lines of logs.
static KNOWN: LazyLock<BTreeMap<&'static str, BTreeSet<&'static str>>> = LazyLock::new(|| {
    let known = document().paths.paths.iter().map(|(path, item)| {
        let sending = item.post.iter().filter(|_| path.starts_with(LOGS));
        let all = item.get.iter().chain(sending);
        let parameters = all.flat_map(|operation| operation.parameters.iter().flatten());
        let names = parameters.filter_map(|one| match one {
            RefOr::T(one) if one.parameter_in == ParameterIn::Query => Some(one.name.as_str()),
            _ => None,
        });
        (path.as_str(), names.collect())
    });
    known.collect()
});

/// What is wrong with the parameters of a request.
struct Faults {
    unknown: Vec<String>,
    twice: Vec<String>,
    known: &'static BTreeSet<&'static str>,
}

impl Faults {
    /// Of a request that reads or sends lines of logs, at an address that the document describes.
    fn of(method: &Method, path: Option<&MatchedPath>, query: Option<&str>) -> Option<Self> {
        let path = path?.as_str();
        let is_checked = match *method {
            Method::GET | Method::HEAD => true,
            Method::POST => path.starts_with(LOGS),
            _ => false,
        };
        let known = KNOWN.get(path).filter(|_| is_checked)?;
        let mut seen = BTreeSet::new();
        let (mut unknown, mut twice) = (Vec::new(), Vec::new());
        for (name, _) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            let list = if !known.contains(&*name) {
                &mut unknown
            } else if seen.contains(&name) {
                &mut twice
            } else {
                seen.insert(name);
                continue;
            };
            let shown: String = name.chars().take(64).collect();
            if !list.contains(&shown) && list.len() < 10 {
                list.push(shown);
            }
        }
        (!unknown.is_empty() || !twice.is_empty()).then_some(Self { unknown, twice, known })
    }

    fn known(&self) -> String {
        if self.known.is_empty() {
            return "this address takes none".to_owned();
        }
        let known: Vec<&str> = self.known.iter().copied().collect();
        format!("this address takes {}", known.join(", "))
    }

    fn text(&self) -> String {
        match (self.unknown.as_slice(), self.twice.as_slice()) {
            ([], twice) => format!("{}: name it once", twice.join(", ")),
            ([one], _) => format!("{one}: there is no such parameter here; {}", self.known()),
            (all, _) => {
                format!("{}: there are no such parameters here; {}", all.join(", "), self.known())
            }
        }
    }
}

/// Refuses requests of programs whose parameters can't all be used. Pages are served, and their
/// handlers ask for a [`Hint`].
pub(super) async fn refuse_unknown(request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>();
    let is_for_programs = path.is_some_and(|path| {
        let path = path.as_str();
        path.starts_with("/api/")
            || path.starts_with(LOGS)
            || [".json", ".md"].iter().any(|end| path.ends_with(end))
    });
    let faults = Faults::of(request.method(), path, request.uri().query());
    match faults {
        Some(faults) if is_for_programs || !faults.twice.is_empty() => {
            let name = faults.unknown.first().or(faults.twice.first());
            Failure::new(Code::InvalidParameter, format!("{}.", faults.text()))
                .with("parameter", json!(name))
                .with("known", json!(faults.known))
                .into_response()
        }
        _ => next.run(request).await,
    }
}

/// What a page says of parameters in its address that it doesn't know.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Hint(pub(crate) Option<String>);

impl<S: Sync> FromRequestParts<S> for Hint {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let path = parts.extensions.get::<MatchedPath>();
        let faults = Faults::of(&parts.method, path, parts.uri.query());
        Ok(Self(
            faults.map(|faults| {
                format!("Not everything in the address was used. {}.", faults.text())
            }),
        ))
    }
}
