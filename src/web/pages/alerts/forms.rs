//! Silences and acknowledgements: who, why and until when; asked for by a form or by a program.

use super::Wanted;
use super::known_rule;
use super::model::{There, page};
use crate::domain::alerts::notice::Subject;
use crate::domain::redact;
use crate::domain::time::{DAY_MS, MINUTE_MS, Millis, UnixMillis, Window};
use crate::store::{Acknowledgement, KnownAlert, NewSilence, Silence};
use crate::web::api::Problems;
use crate::web::extract::{Form, Path, object};
use crate::web::pages::address::{self, AddressError, filled};
use crate::web::pages::model::Stamp;
use crate::web::{AppState, Code, Failure};
use axum::extract::State;
use axum::response::Redirect;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Longest name of a person or a program, reason, and name of a service or host, in characters.
const MAX_WHO: usize = 100;
const MAX_WHY: usize = 500;
const MAX_NAME: usize = 255;
/// How far ahead the end of a silence or an acknowledgement may lie.
const MAX_AHEAD: Millis = Millis(31 * DAY_MS);

/// Alerts of which nobody is to be told for a time. At least one of `alert`, `service`, `upstream`
/// and `environment` is needed; what is left out stands for any.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SilenceRequest {
    /// The alert's name.
    #[schema(example = "Retrylens429Spike")]
    pub alert: Option<String>,
    /// The calling service.
    pub service: Option<String>,
    /// The upstream host.
    pub upstream: Option<String>,
    /// The environment.
    pub environment: Option<String>,
    /// Who wants it, at most 100 characters.
    #[schema(nullable = false, required = true)]
    pub who: Option<String>,
    /// Why, at most 500 characters.
    #[schema(nullable = false, required = true)]
    pub why: Option<String>,
    /// From when on, RFC 3339; now where absent or past.
    #[schema(format = DateTime)]
    pub from: Option<String>,
    /// Until when, RFC 3339, at most 31 days ahead. This or `for_minutes`; it wins.
    #[schema(format = DateTime)]
    pub until: Option<String>,
    /// For how many minutes from now, or from `from`.
    #[schema(value_type = Option<i64>)]
    pub for_minutes: Option<Value>,
}

impl SilenceRequest {
    /// The silence to keep.
    ///
    /// # Errors
    /// Names the field that can't be used, and what is expected.
    pub fn silence(&self, now: UnixMillis) -> Result<NewSilence, AddressError> {
        let alert = filled(self.alert.as_deref());
        let rule = alert.map(|name| known_rule("alert", name)).transpose()?;
        let subject = Subject {
            service: name("service", self.service.as_deref())?,
            upstream: name("upstream", self.upstream.as_deref())?.to_ascii_lowercase(),
            environment: name("environment", self.environment.as_deref())?,
        };
        if rule.is_none() && subject == Subject::default() {
            return Err(AddressError::new(
                "service",
                "expected an alert, a service, an upstream or an environment; a silence of \
                 everything would hide the next incident",
            ));
        }
        let from =
            filled(self.from.as_deref()).map_or(Ok(now), |text| address::moment("from", text))?;
        // What was told in the past was told.
        let from = from.max(now);
        let until = until(self.until.as_deref(), self.for_minutes.as_ref(), from, now)?;
        if until <= from {
            return Err(AddressError::new("until", "expected a time after from"));
        }
        Ok(NewSilence {
            rule: rule.map(|rule| rule.name.to_owned()).unwrap_or_default(),
            subject,
            from,
            until,
            who: told("who", self.who.as_deref(), MAX_WHO, "who wants it")?,
            why: told("why", self.why.as_deref(), MAX_WHY, "why, in words")?,
        })
    }
}

/// Somebody looks after a firing alert.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AcknowledgeRequest {
    /// Who, at most 100 characters.
    #[schema(nullable = false, required = true)]
    pub who: Option<String>,
    /// Why, or what is being done, at most 500 characters.
    #[schema(nullable = false, required = true)]
    pub why: Option<String>,
    /// Until when it counts, RFC 3339, at most 31 days ahead; it ends with the alert anyway. This or
    /// `for_minutes`; it wins.
    #[schema(format = DateTime)]
    pub until: Option<String>,
    /// For how many minutes from now.
    #[schema(value_type = Option<i64>)]
    pub for_minutes: Option<Value>,
}

impl AcknowledgeRequest {
    /// The acknowledgement to keep.
    ///
    /// # Errors
    /// Names the field that can't be used, and what is expected.
    pub fn acknowledgement(&self, now: UnixMillis) -> Result<Acknowledgement, AddressError> {
        Ok(Acknowledgement {
            who: told("who", self.who.as_deref(), MAX_WHO, "who looks after it")?,
            why: told("why", self.why.as_deref(), MAX_WHY, "why, or what is being done")?,
            at: now,
            until: until(self.until.as_deref(), self.for_minutes.as_ref(), now, now)?,
        })
    }
}

/// A text that has to be there. What looks secret in it is replaced, as in events.
fn told(
    field: &'static str,
    text: Option<&str>,
    most: usize,
    expected: &str,
) -> Result<String, AddressError> {
    let text =
        filled(text).ok_or_else(|| AddressError::new(field, format!("expected {expected}")))?;
    within(field, text, most)?;
    Ok(without_controls(&redact::text(text).text))
}

/// A name, or nothing for any.
fn name(field: &'static str, text: Option<&str>) -> Result<String, AddressError> {
    let text = filled(text).unwrap_or_default();
    within(field, text, MAX_NAME)?;
    Ok(without_controls(&redact::text(text).text))
}

/// Control characters become U+FFFD, as in events, so that names fit and no database has to change
/// what it is given.
fn without_controls(text: &str) -> String {
    text.replace(char::is_control, "\u{fffd}")
}

fn within(field: &'static str, text: &str, most: usize) -> Result<(), AddressError> {
    if text.chars().nth(most).is_some() {
        return Err(AddressError::new(field, format!("expected at most {most} characters")));
    }
    Ok(())
}

/// The end: a time, else so many minutes after `from`; later than now, and not too far ahead.
fn until(
    time: Option<&str>,
    minutes: Option<&Value>,
    from: UnixMillis,
    now: UnixMillis,
) -> Result<UnixMillis, AddressError> {
    let minutes = minutes.filter(|value| !value.is_null() && value.as_str() != Some(""));
    let (field, until) = match (filled(time), minutes) {
        (Some(text), _) => ("until", address::moment("until", text)?),
        (None, Some(value)) => {
            let number = value.as_i64().or_else(|| value.as_str()?.trim().parse().ok());
            let number = number.filter(|n| (1..=MAX_AHEAD.0 / MINUTE_MS).contains(n));
            let number = number.ok_or_else(|| {
                AddressError::new("for_minutes", "expected a whole number from 1 to 44640")
            })?;
            ("for_minutes", from.plus(Millis(number * MINUTE_MS)))
        }
        (None, None) => {
            let expected = "expected until when, such as 2026-11-11T12:00:00Z, or for_minutes";
            return Err(AddressError::new("until", expected));
        }
    };
    if until <= now {
        return Err(AddressError::new(field, "expected a time that is still to come"));
    }
    if until.since(now) > MAX_AHEAD {
        return Err(AddressError::new(field, "expected an end at most 31 days ahead"));
    }
    Ok(until)
}

/// Keeps a silence.
pub(crate) async fn silence(
    state: &AppState,
    request: &SilenceRequest,
) -> Result<Silence, Failure> {
    let now = state.clock.now();
    let kept = state.store.add_silence(&request.silence(now)?, now).await?;
    let NewSilence { rule, subject, until, who, .. } = &kept.of;
    let Subject { service, upstream, environment } = subject;
    let until = until.to_rfc3339();
    tracing::info!(
        id = kept.id,
        alert = rule,
        service,
        upstream,
        environment,
        until,
        who,
        "alerts are silenced"
    );
    Ok(kept)
}

/// What silences may cover.
pub(crate) async fn there(state: &AppState) -> Result<There, Failure> {
    let to = state.clock.now().plus(Millis(MINUTE_MS));
    let window = Window { from: to.plus(Millis(-MAX_AHEAD.0)), to };
    let (_, known) = state.store.known_alerts().await?;
    let is_on = |alert: &KnownAlert| matches!(alert.state.as_str(), "firing" | "pending");
    let on = known.into_iter().filter(is_on).map(|alert| (alert.rule, alert.subject));
    Ok(There { names: state.store.labels(window).await?, alerts: on.collect() })
}

/// Ends a silence.
pub(crate) async fn end(state: &AppState, id: i64) -> Result<(), Failure> {
    if !state.store.end_silence(id, state.clock.now()).await? {
        let detail = "There is no silence with this number that isn't over.";
        return Err(Failure::new(Code::NotFound, detail));
    }
    tracing::info!(id, "a silence was ended");
    Ok(())
}

/// Acknowledges an alert.
pub(crate) async fn acknowledge(
    state: &AppState,
    id: i64,
    request: &AcknowledgeRequest,
) -> Result<(), Failure> {
    let now = state.clock.now();
    // The address comes first: where there is no alert, no field could be put right.
    let alert = state.store.alert(id, now).await?.ok_or_else(|| Failure::not_found("alert"))?;
    let by = request.acknowledgement(now)?;
    if state.store.acknowledge(id, &by).await? {
        tracing::info!(id, who = by.who, until = by.until.to_rfc3339(), "an alert is acknowledged");
        return Ok(());
    }
    let detail = format!(
        "Only an alert that fires can be acknowledged; this one is {}.",
        alert.known.state.as_str()
    );
    Err(Failure::new(Code::Conflict, detail))
}

/// Withdraws the acknowledgement of an alert.
pub(crate) async fn withdraw(state: &AppState, id: i64) -> Result<(), Failure> {
    if !state.store.withdraw_acknowledgement(id).await? {
        return Err(Failure::new(Code::NotFound, "Nobody acknowledged this alert's firing."));
    }
    tracing::info!(id, "an acknowledgement was withdrawn");
    Ok(())
}

/// A form's fields, without the number of the alert's page that it leads back to.
fn fields(form: BTreeMap<String, String>) -> (Value, String) {
    let mut form = form;
    let back = form.remove("back").and_then(|id| id.parse().ok());
    let fields = form.into_iter().map(|(name, text)| (name, Value::String(text))).collect();
    (Value::Object(fields), back.map_or_else(|| "/alerts".to_owned(), page))
}

/// `POST /silences`
#[utoipa::path(post, path = "/silences", tag = "pages",
    request_body(content = SilenceRequest, content_type = "application/x-www-form-urlencoded", description = "The fields of a silence, and `back`: the number of the alert to lead back to"),
    responses((status = 303, description = "Silenced; leads back"), Problems))]
pub(crate) async fn create(
    State(state): State<AppState>,
    Form(form): Form<BTreeMap<String, String>>,
) -> Result<Redirect, Failure> {
    let (fields, back) = fields(form);
    silence(&state, &object(fields, "a silence")?).await?;
    Ok(Redirect::to(&format!("{back}#silences")))
}

/// `POST /silences/{id}/end`
#[utoipa::path(post, path = "/silences/{id}/end", tag = "pages",
    params(("id" = i64, Path, description = "Number of the silence")),
    request_body(content = Object, content_type = "application/x-www-form-urlencoded", description = "`back`: the number of the alert to lead back to"),
    responses((status = 303, description = "Ended; leads back"), Problems))]
pub(crate) async fn end_silence(
    State(state): State<AppState>,
    Path(id): Path<i64>,
    Form(form): Form<BTreeMap<String, String>>,
) -> Result<Redirect, Failure> {
    end(&state, id).await?;
    Ok(Redirect::to(&format!("{}#silences", fields(form).1)))
}

/// `POST /alerts/{id}/acknowledge`
#[utoipa::path(post, path = "/alerts/{id}/acknowledge", tag = "pages",
    params(("id" = i64, Path, description = "Number of the alert")),
    request_body(content = AcknowledgeRequest, content_type = "application/x-www-form-urlencoded"),
    responses((status = 303, description = "Acknowledged; leads back to the alert"), Problems))]
pub(crate) async fn acknowledge_alert(
    State(state): State<AppState>,
    Path(id): Path<i64>,
    Form(form): Form<BTreeMap<String, String>>,
) -> Result<Redirect, Failure> {
    let request = object(fields(form).0, "an acknowledgement")?;
    acknowledge(&state, id, &request).await?;
    Ok(Redirect::to(&page(id)))
}

/// `POST /alerts/{id}/withdraw`
#[utoipa::path(post, path = "/alerts/{id}/withdraw", tag = "pages",
    params(("id" = i64, Path, description = "Number of the alert")),
    responses((status = 303, description = "The acknowledgement is withdrawn; leads back to the alert"), Problems))]
pub(crate) async fn withdraw_acknowledgement(
    State(state): State<AppState>,
    Path(id): Path<i64>,
) -> Result<Redirect, Failure> {
    withdraw(&state, id).await?;
    Ok(Redirect::to(&page(id)))
}

/// What the form for a silence holds at first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SilenceForm {
    /// The alert's name.
    pub alert: String,
    /// The calling service.
    pub service: String,
    /// The upstream host.
    pub upstream: String,
    /// The environment.
    pub environment: String,
    /// An example of an end.
    pub example: String,
}

impl SilenceForm {
    /// A form for the alerts that are looked at.
    pub(super) fn of(wanted: &Wanted, now: UnixMillis) -> Self {
        let own = |text: &Option<String>| text.clone().unwrap_or_default();
        let hour = now.floor_to(60 * MINUTE_MS).plus(Millis(120 * MINUTE_MS));
        Self {
            alert: own(&wanted.alert),
            service: own(&wanted.service),
            upstream: own(&wanted.upstream),
            environment: own(&wanted.environment),
            example: Stamp(hour).input(),
        }
    }

    /// Whether an alert is the chosen one.
    pub fn is_of(&self, name: &str) -> bool {
        self.alert == name
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const NOW: UnixMillis = UnixMillis(1_794_384_000_000);

    fn silence(fields: &Value) -> Result<NewSilence, String> {
        let mut all =
            json!({"service": "checkout", "who": "sam", "why": "deploy", "for_minutes": 30});
        for (name, value) in fields.as_object().unwrap() {
            all[name] = value.clone();
        }
        let request: SilenceRequest = serde_json::from_value(all).map_err(|e| e.to_string())?;
        request.silence(NOW).map_err(|error| error.to_string())
    }

    #[test]
    fn a_silence_does_not_begin_in_the_past() {
        let kept = silence(&json!({"from": "2020-01-01T00:00:00Z"})).unwrap();
        assert_eq!((kept.from, kept.until), (NOW, NOW.plus(Millis(30 * MINUTE_MS))));
    }

    #[test]
    fn a_silence_says_of_what_by_whom_why_and_until_when() {
        let kept =
            silence(&json!({"upstream": "API.example.com", "alert": "Retrylens429Spike"})).unwrap();
        assert_eq!(kept.until, NOW.plus(Millis(30 * MINUTE_MS)));
        assert_eq!((kept.from, kept.rule.as_str()), (NOW, "Retrylens429Spike"));
        assert_eq!(kept.subject.upstream, "api.example.com");
        let odd = silence(&json!({"service": "a\u{0}b", "who": "s\u{7}am"})).unwrap();
        assert_eq!((&*odd.subject.service, &*odd.who), ("a\u{fffd}b", "s\u{fffd}am"), "as events");
        let later = silence(&json!({"from": "2026-11-11T09:00:00Z", "for_minutes": "45"})).unwrap();
        assert_eq!(later.until.to_rfc3339(), "2026-11-11T09:45:00.000Z");
        let end = silence(&json!({"until": "2026-11-11T10:00:00Z"})).unwrap();
        assert_eq!(end.until.to_rfc3339(), "2026-11-11T10:00:00.000Z", "until wins");
        let leak = silence(
            &json!({"why": "token Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJlc2lnbmF0dXJl"}),
        );
        assert!(!leak.unwrap().why.contains("eyJhbGci"), "secrets are replaced");
    }

    #[test]
    fn what_can_t_be_used_names_its_field() {
        for (fields, start) in [
            (json!({"who": " "}), "who: expected who wants it"),
            (json!({"who": "x".repeat(101)}), "who: expected at most 100"),
            (json!({"why": null}), "why: expected why"),
            (json!({"why": "x".repeat(501)}), "why: expected at most 500"),
            (json!({"service": ""}), "service: expected an alert, a service"),
            (json!({"service": "x".repeat(256)}), "service: expected at most 255"),
            (json!({"alert": "Nothing"}), "alert: expected the name of an alert"),
            // Nobody is told of it by this server, so that a silence here would change nothing.
            (json!({"alert": "RetrylensAbsent"}), "alert: expected the name of an alert that is"),
            (json!({"for_minutes": null}), "until: expected until when"),
            (json!({"for_minutes": 0}), "for_minutes: expected a whole number"),
            (json!({"for_minutes": 1.5}), "for_minutes: expected a whole number"),
            (json!({"for_minutes": "soon"}), "for_minutes: expected a whole number"),
            (json!({"for_minutes": 44_641}), "for_minutes: expected a whole number"),
            (json!({"until": "tomorrow"}), "until: expected an RFC 3339 time"),
            (json!({"until": "2026-11-11T07:59:00Z"}), "until: expected a time that is still"),
            (json!({"until": "2027-11-11T07:59:00Z"}), "until: expected an end at most 31 days"),
            (
                json!({"from": "2026-11-12T00:00:00Z", "until": "2026-11-11T10:00:00Z"}),
                "until: expected a time after from",
            ),
            (json!({"from": "x"}), "from: expected an RFC 3339 time"),
            (json!({"servce": "x"}), "unknown field `servce`"),
        ] {
            let error = silence(&fields).unwrap_err();
            assert!(error.starts_with(start), "{fields}: {error}");
        }
    }
}
