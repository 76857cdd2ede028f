//! How people come in: a form for a read token, and the session that it begins.

use super::doors::{SESSION_COOKIE, is_one_of};
use super::error::Failure;
use super::extract::{Form, Query};
use super::pages::model::Shell;
use super::state::AppState;
use crate::config::secret::TokenHash;
use askama::Template;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use serde::Deserialize;

/// Where to go after the login.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Onward {
    next: Option<String>,
}

/// The form's fields. The token's own type keeps it out of logs.
#[derive(Deserialize)]
pub(super) struct Entry {
    token: String,
    next: Option<String>,
}

/// `GET /login`
#[utoipa::path(get, path = "/login", tag = "pages",
    responses((status = 200, description = "A form for a read token", body = String, content_type = "text/html")))]
pub(super) async fn show(
    State(state): State<AppState>,
    Query(onward): Query<Onward>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let known = &state.config.access.read_tokens;
    if known.is_empty() {
        return Ok(Redirect::to("/").into_response());
    }
    let is_in = state.sessions.admits(&headers, known, state.clock.now());
    page(&own_path(onward.next.as_deref()), if is_in { Visit::LoggedIn } else { Visit::First })
}

/// `POST /login`
#[utoipa::path(post, path = "/login", tag = "pages",
    request_body(content = String, content_type = "application/x-www-form-urlencoded", description = "The fields `token` and `next`"),
    responses((status = 303, description = "Logged in; leads on"), (status = 401, description = "Not one of the read tokens", body = String, content_type = "text/html")))]
pub(super) async fn enter(
    State(state): State<AppState>,
    Form(entry): Form<Entry>,
) -> Result<Response, Failure> {
    let next = own_path(entry.next.as_deref());
    let token = TokenHash::of(entry.token.trim());
    if !is_one_of(&token, &state.config.access.read_tokens) {
        let mut response = page(&next, Visit::Wrong)?;
        *response.status_mut() = StatusCode::UNAUTHORIZED;
        let challenge = HeaderValue::from_static("Bearer realm=\"retrylens\"");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        return Ok(response);
    }
    let value = state.sessions.begin(&token, state.clock.now());
    Ok(with_cookie(&state, &next, &value, state.sessions.length().as_secs()))
}

/// `POST /logout`
#[utoipa::path(post, path = "/logout", tag = "pages",
    responses((status = 303, description = "Logged out; leads to the login")))]
pub(super) async fn leave(State(state): State<AppState>) -> Response {
    with_cookie(&state, "/login", "", 0)
}

/// Leads on to `next` and sets the session's cookie. `Lax`, so that a link in an alert opens
/// without a new login; writes are guarded by their origin.
fn with_cookie(state: &AppState, next: &str, value: &str, seconds: u64) -> Response {
    let is_https = state.config.server.public_url.as_ref().is_some_and(|url| url.is_https);
    let secure = if is_https { "; Secure" } else { "" };
    let cookie = format!(
        "{SESSION_COOKIE}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}"
    );
    let mut response = Redirect::to(next).into_response();
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// A path on this site, or the overview: browsers take `//host` and `/\host` for another site.
fn own_path(next: Option<&str>) -> String {
    let is_own = |path: &&str| {
        path.starts_with('/')
            && !path.starts_with("//")
            && !path.chars().any(|c| c == '\\' || c.is_control() || c.is_whitespace())
            && !path.starts_with("/login")
            && path.is_ascii()
    };
    next.filter(is_own).unwrap_or("/").to_owned()
}

#[derive(Template)]
#[template(path = "pages/login.html")]
struct LoginPage {
    shell: Shell,
    next: String,
    visit: Visit,
}

/// Why the page is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Visit {
    First,
    Wrong,
    LoggedIn,
}

fn page(next: &str, visit: Visit) -> Result<Response, Failure> {
    let page = LoginPage { shell: Shell::new("Log in", ""), next: next.to_owned(), visit };
    let html = page.render().map_err(|error| Failure::internal(&error))?;
    Ok(([(header::CACHE_CONTROL, "no-store")], Html(html)).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_onward_stays_on_this_site() {
        for (next, expected) in [
            (Some("/triage?service=a&to=b"), "/triage?service=a&to=b"),
            (Some("//evil.example"), "/"),
            (Some("/\\evil.example"), "/"),
            (Some("https://evil.example"), "/"),
            (Some("/\t/evil.example"), "/"),
            (Some("javascript:alert(1)"), "/"),
            (Some("/login"), "/"),
            (Some(""), "/"),
            (None, "/"),
        ] {
            assert_eq!(own_path(next), expected, "{next:?}");
        }
    }
}
