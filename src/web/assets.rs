//! The style sheet and the icon, compiled into the binary; no other origin is ever asked.

use axum::http::header;
use axum::response::IntoResponse;
use sha2::{Digest, Sha256};
use std::sync::LazyLock;

/// The style sheet.
pub const STYLE: &str = include_str!("../../templates/assets/retrylens.css");
/// The icon.
pub const ICON: &str = include_str!("../../templates/assets/icon.svg");

/// Address of the style sheet with a version taken from its content, so that it may be cached for
/// good and a new release is still seen at once.
pub fn style_address() -> &'static str {
    static ADDRESS: LazyLock<String> = LazyLock::new(|| {
        let digest = hex::encode(Sha256::digest(STYLE.as_bytes()));
        let version: String = digest.chars().take(12).collect();
        format!("/assets/retrylens.css?v={version}")
    });
    &ADDRESS
}

/// `GET /assets/retrylens.css`
#[utoipa::path(get, path = "/assets/retrylens.css", tag = "pages",
    responses((status = 200, description = "The style sheet", body = String, content_type = "text/css")))]
pub async fn style() -> impl IntoResponse {
    (
        [
            (header::CONTENT_TYPE, "text/css; charset=utf-8"),
            (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
        ],
        STYLE,
    )
}

/// `GET /assets/icon.svg`
#[utoipa::path(get, path = "/assets/icon.svg", tag = "pages",
    responses((status = 200, description = "The icon", body = String, content_type = "image/svg+xml")))]
pub async fn icon() -> impl IntoResponse {
    (
        [(header::CONTENT_TYPE, "image/svg+xml"), (header::CACHE_CONTROL, "public, max-age=86400")],
        ICON,
    )
}

/// `GET /favicon.ico`: browsers ask for it by themselves.
#[utoipa::path(get, path = "/favicon.ico", tag = "pages",
    responses((status = 200, description = "The icon", body = String, content_type = "image/svg+xml")))]
pub async fn favicon() -> impl IntoResponse {
    icon().await
}
