//! `GET /api/openapi.json`: the document that describes every address. It is gathered from the
//! handlers themselves, so that it cannot forget one.

use axum::Json;
use std::sync::LazyLock;
use utoipa::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};

/// What stands at the top of the document.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "retrylens",
        description = "Who returned this 429, and what do we do now? Times are RFC 3339 in UTC, \
                       lengths of time are in milliseconds where the name ends in `_ms`, lists are \
                       `{items, next}`, errors are application/problem+json.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    tags(
        (name = "overview", description = "Limited dependencies"),
        (name = "triage", description = "The eight steps"),
        (name = "events", description = "Attempts: sent, listed, looked up"),
        (name = "otlp", description = "OpenTelemetry: spans become attempts, metrics say how many requests there were"),
        (name = "classify", description = "One response in hand"),
        (name = "services", description = "Report cards"),
        (name = "marks", description = "Changes, to compare before and after"),
        (name = "alerts", description = "Alerts, silences, and what was told of them"),
        (name = "export", description = "Alert rules and dashboards for other tools"),
        (name = "health", description = "For orchestrators"),
        (name = "pages", description = "For people"),
    ),
    components(schemas(super::Problem)),
    modifiers(&Tokens),
)]
pub(crate) struct Head;

struct Tokens;

impl utoipa::Modify for Tokens {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let scheme = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some(
                "Needed where tokens are set: one kind for sending events, another for the rest.",
            ))
            .build();
        document
            .components
            .get_or_insert_with(Default::default)
            .add_security_scheme("token", SecurityScheme::Http(scheme));
    }
}

/// Gives every operation an id of its own, made of its method and address: handlers in different
/// modules share short names.
pub(crate) fn with_own_ids(mut document: utoipa::openapi::OpenApi) -> utoipa::openapi::OpenApi {
    for (path, item) in &mut document.paths.paths {
        let words: String = path
            .chars()
            .filter(|c| !matches!(c, '{' | '}'))
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
            .collect();
        let methods =
            [("get", &mut item.get), ("post", &mut item.post), ("delete", &mut item.delete)];
        for (method, operation) in methods {
            if let Some(operation) = operation {
                operation.operation_id = Some(format!("{method}{}", words.trim_end_matches('_')));
            }
        }
    }
    document
}

/// The whole document.
pub fn document() -> &'static utoipa::openapi::OpenApi {
    static DOCUMENT: LazyLock<utoipa::openapi::OpenApi> = LazyLock::new(crate::web::describe);
    &DOCUMENT
}

/// `GET /api/openapi.json`
#[utoipa::path(get, path = "/api/openapi.json", tag = "pages",
    responses((status = 200, description = "This document", body = Object)))]
pub(crate) async fn show() -> Json<&'static utoipa::openapi::OpenApi> {
    Json(document())
}
