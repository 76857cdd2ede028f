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
pub(crate) mod grpc;
mod layers;
mod leftover;
mod login;
pub mod pages;
mod parameters;
pub(crate) mod serve;
mod state;

pub use error::{Code, Failure};
pub use state::AppState;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::middleware::{from_fn, from_fn_with_state};
use utoipa::OpenApi as _;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouterExt};
use utoipa_axum::routes;

/// Every address of the service, with all layers around them. Each handler names its own address,
/// and the API document is gathered from the same lists.
pub fn router(state: &AppState) -> Router {
    let [open, sending, reading] =
        [open(), sending(), reading()].map(|part| part.split_for_parts().0);
    let router = open
        .merge(
            sending
                .route_layer(from_fn(parameters::refuse_unknown))
                .route_layer(from_fn_with_state(state.clone(), doors::sending))
                .route_layer(from_fn_with_state(state.clone(), leftover::let_pass)),
        )
        .merge(
            reading
                .route_layer(from_fn(parameters::refuse_unknown))
                .route_layer(from_fn_with_state(state.clone(), doors::reading)),
        )
        .fallback(nothing_here)
        .method_not_allowed_fallback(not_with_this_method)
        .with_state(state.clone());
    layers::apply(router, state)
}

/// The API document of every address.
pub(crate) fn describe() -> utoipa::openapi::OpenApi {
    let document = OpenApiRouter::with_openapi(api::document::Head::openapi())
        .merge(open())
        .merge(sending())
        .merge(reading())
        .into_openapi();
    api::document::with_own_ids(document)
}

/// For everybody: whether the service works, and the way in.
fn open() -> OpenApiRouter<AppState> {
    OpenApiRouter::default()
        .routes(routes!(api::health::alive))
        .routes(routes!(api::health::ready))
        .routes(routes!(assets::style))
        .routes(routes!(assets::icon))
        .routes(routes!(assets::favicon))
        .routes(routes!(login::show, login::enter))
        .routes(routes!(login::leave))
        .routes(routes!(pages::docs::alerts))
}

/// For senders.
fn sending() -> OpenApiRouter<AppState> {
    OpenApiRouter::default()
        .routes(routes!(api::events::create))
        .routes(routes!(api::otlp::traces))
        .routes(routes!(api::otlp::logs))
        .routes(routes!(api::otlp::metrics))
        .routes(routes!(api::access_logs::create))
}

/// For readers: people and programs.
fn reading() -> OpenApiRouter<AppState> {
    OpenApiRouter::default()
        .routes(routes!(pages::overview::show))
        .routes(routes!(pages::triage::show))
        .routes(routes!(pages::triage::json))
        .routes(routes!(pages::triage::document))
        .routes(routes!(pages::rows::show))
        .routes(routes!(pages::event::show))
        .routes(routes!(pages::event::document))
        .routes(routes!(pages::operation::show))
        .routes(routes!(pages::operation::document))
        .routes(routes!(pages::lookup::show))
        .routes(routes!(pages::services::list))
        .routes(routes!(pages::services::show))
        // Bodies are capped by our own reader.
        .routes(
            routes!(pages::classify::form, pages::classify::judge)
                .layer(DefaultBodyLimit::disable()),
        )
        .routes(routes!(pages::marks::create))
        .routes(routes!(pages::alerts::show))
        .routes(routes!(pages::alerts::one::show))
        .routes(routes!(pages::alerts::forms::acknowledge_alert))
        .routes(routes!(pages::alerts::forms::withdraw_acknowledgement))
        .routes(routes!(pages::alerts::forms::create))
        .routes(routes!(pages::alerts::forms::end_silence))
        .routes(routes!(pages::send::show))
        .routes(routes!(pages::sources::show))
        .routes(routes!(api::twins::overview))
        .routes(routes!(api::twins::triage))
        .routes(routes!(api::twins::events))
        .routes(routes!(api::twins::event))
        .routes(routes!(api::twins::operation))
        .routes(routes!(api::twins::lookup))
        .routes(routes!(api::twins::services))
        .routes(routes!(api::twins::service))
        .routes(routes!(api::twins::send))
        .routes(routes!(api::twins::sources))
        .routes(routes!(api::marks::list, api::marks::create))
        .routes(routes!(api::alerts::list))
        .routes(routes!(api::alerts::show))
        .routes(routes!(api::alerts::acknowledge, api::alerts::withdraw))
        .routes(routes!(api::alerts::silences, api::alerts::silence))
        .routes(routes!(api::alerts::end_silence))
        .routes(routes!(api::classify::create))
        .routes(routes!(api::metrics::show))
        .routes(routes!(api::export::rules))
        .routes(routes!(api::export::dashboard))
        .routes(routes!(api::document::show))
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
