//! The page that people get instead of problem+json: what happened, and ways onward.

use super::error::{Code, Failure};
use super::pages::model::Shell;
use askama::Template;
use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage {
    shell: Shell,
    heading: &'static str,
    status: String,
    detail: String,
    onward: Vec<(&'static str, &'static str)>,
}

impl ErrorPage {
    fn of(failure: &Failure) -> Self {
        let heading = failure.code.title();
        Self {
            shell: Shell::new(heading, ""),
            heading,
            status: failure.code.status().to_string(),
            detail: failure.detail.clone(),
            onward: onward(failure.code),
        }
    }
}

/// Where a visitor can go from here.
fn onward(code: Code) -> Vec<(&'static str, &'static str)> {
    match code {
        Code::TokenRequired => vec![("/login", "Log in")],
        // Nothing here answers under this host name, so no link of ours would work.
        Code::UnknownHost => Vec::new(),
        _ => vec![
            ("/", "Overview of limited dependencies"),
            ("/services", "Services that call others"),
            ("/lookup", "Look up a request, trace, operation or event"),
            ("/classify", "Classify one response"),
            ("/send", "How to send data"),
        ],
    }
}

/// Puts a page in the place of the problem+json in `response`, which carries `failure`. Status and
/// header fields stay, but for those that speak of the body.
pub(super) fn replace(failure: &Failure, mut response: Response) -> Response {
    match ErrorPage::of(failure).render() {
        Ok(page) => {
            let headers = response.headers_mut();
            headers.remove(header::CONTENT_LENGTH);
            let html = HeaderValue::from_static("text/html; charset=utf-8");
            headers.insert(header::CONTENT_TYPE, html);
            *response.body_mut() = Body::from(page);
            response
        }
        Err(error) => {
            tracing::error!(error = &error as &dyn std::error::Error, "an error page broke");
            response
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_has_a_page_that_shows_hostile_text_as_text() {
        for code in Code::ALL {
            let failure = Failure::new(*code, "<script>alert(1)</script>\u{202e}");
            let page = ErrorPage::of(&failure).render().unwrap();
            assert!(page.contains(&code.status().as_u16().to_string()));
            assert!(!page.contains("<script>"), "{page}");
        }
    }
}
