//! The API and the pages: all routes are here, all layers in `layers.rs`.
//!
//! A handler extracts, fetches, calls a pure function and renders; what goes wrong is a
//! [`Failure`], which becomes problem+json for programs and a page for people.

pub mod api;
pub mod assets;
mod doors;
pub mod error;
mod error_page;
pub mod extract;
mod layers;
mod login;
pub mod pages;
pub(crate) mod serve;
mod state;

pub use error::{Code, Failure};
pub use state::AppState;

use axum::Router;
use axum::extract::Request;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};

/// Every address of the service, with all layers around them.
pub fn router(state: &AppState) -> Router {
    let router = open()
        .merge(sending().route_layer(from_fn_with_state(state.clone(), doors::sending)))
        .merge(reading().layer(from_fn_with_state(state.clone(), doors::reading)))
        .fallback(nothing_here)
        .method_not_allowed_fallback(not_with_this_method)
        .with_state(state.clone());
    layers::apply(router, state)
}

/// For everybody: whether the service works, and the way in.
fn open() -> Router<AppState> {
    Router::new()
        .route("/healthz", get(api::health::alive))
        .route("/readyz", get(api::health::ready))
        .route("/assets/retrylens.css", get(assets::style))
        .route("/assets/icon.svg", get(assets::icon))
        .route("/favicon.ico", get(assets::icon))
        .route("/login", get(login::show).post(login::enter))
        .route("/logout", post(login::leave))
}

/// For senders.
fn sending() -> Router<AppState> {
    Router::new().route("/v1/events", post(api::events::create))
}

/// For readers: people and programs.
fn reading() -> Router<AppState> {
    Router::new()
}

async fn nothing_here() -> Failure {
    Failure::new(Code::NotFound, "Check the address, or begin at the overview: /")
}

async fn not_with_this_method(request: Request) -> Failure {
    let detail = format!(
        "{} isn't taken here.",
        request.method().as_str().chars().take(16).collect::<String>()
    );
    Failure::new(Code::MethodNotAllowed, detail)
}
