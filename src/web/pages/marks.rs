//! `POST /marks`: the form that marks a change, and what it leads back to.

use super::address::{self, Address, AddressError, ViewParams, filled};
use crate::domain::redact;
use crate::domain::stored::NewMark;
use crate::domain::time::UnixMillis;
use crate::web::api::Problems;
use crate::web::extract::Form;
use crate::web::{AppState, Failure};
use axum::extract::State;
use axum::response::Redirect;
use serde::Deserialize;
use utoipa::ToSchema;

/// Longest title of a mark, in characters.
const MAX_TITLE: usize = 200;

/// A change to mark, as a form or a program sends it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MarkRequest {
    /// When the change took effect, RFC 3339; now where absent.
    #[schema(format = DateTime)]
    pub at: Option<String>,
    /// Service it concerns; all where absent.
    pub service: Option<String>,
    /// Upstream it concerns; all where absent.
    pub upstream: Option<String>,
    /// What was changed, at most 200 characters.
    pub title: Option<String>,
}

impl MarkRequest {
    /// The mark to store. What looks secret in its texts is replaced, as in events.
    pub fn mark(&self, now: UnixMillis) -> Result<NewMark, AddressError> {
        let title = filled(self.title.as_deref())
            .ok_or_else(|| AddressError::new("title", "expected what was changed, in words"))?;
        if title.chars().nth(MAX_TITLE).is_some() {
            return Err(AddressError::new("title", "expected at most 200 characters"));
        }
        let own =
            |text: &Option<String>| filled(text.as_deref()).map(|text| redact::text(text).text);
        let at = filled(self.at.as_deref());
        Ok(NewMark {
            at: at.map_or(Ok(now), |text| address::moment("at", text))?,
            service: own(&self.service),
            upstream: own(&self.upstream).map(|host| host.to_ascii_lowercase()),
            title: redact::text(title).text,
        })
    }
}

/// The rest of the form: the view to lead back to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(default)]
pub(crate) struct MarkForm {
    at: Option<String>,
    title: Option<String>,
    service: Option<String>,
    upstream: Option<String>,
    environment: Option<String>,
    route: Option<String>,
    from: Option<String>,
    to: Option<String>,
    time: Option<String>,
}

/// `POST /marks`
#[utoipa::path(post, path = "/marks", tag = "pages",
    request_body(content = MarkForm, content_type = "application/x-www-form-urlencoded"),
    responses((status = 303, description = "Marked; leads back to the triage"), Problems))]
pub(crate) async fn create(
    State(state): State<AppState>,
    Form(form): Form<MarkForm>,
) -> Result<Redirect, Failure> {
    let now = state.clock.now();
    let request = MarkRequest {
        at: form.at,
        title: form.title,
        service: form.service.clone(),
        upstream: form.upstream.clone(),
    };
    let back = ViewParams {
        service: form.service,
        upstream: form.upstream,
        environment: form.environment,
        route: form.route,
        from: form.from,
        to: form.to,
        time: form.time,
    };
    let view = back.view(address::last_hour(now))?;
    state.store.add_mark(request.mark(now)?).await?;
    let address = Address::new("/triage").view(&view).finish();
    Ok(Redirect::to(&format!("{address}#marks")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_needs_a_title_and_a_time_that_can_be_read() {
        let request = |title: &str, at: &str| MarkRequest {
            title: Some(title.into()),
            at: Some(at.into()),
            upstream: Some("API.example.com".into()),
            ..MarkRequest::default()
        };
        let now = UnixMillis(5);
        let mark = request("SDK retries off", "").mark(now).unwrap();
        assert_eq!((mark.at, mark.upstream.as_deref()), (now, Some("api.example.com")));
        assert_eq!(request(" ", "").mark(now).unwrap_err().name, "title");
        assert_eq!(request(&"x".repeat(201), "").mark(now).unwrap_err().name, "title");
        assert_eq!(request("x", "yesterday").mark(now).unwrap_err().name, "at");
    }
}
