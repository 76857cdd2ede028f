//! The whole view is in the address: scope, window and time basis read from it and written to it.

use crate::domain::stored::{Dimension, RowFilter, Scope, TimeBasis, View};
use crate::domain::time::{DAY_MS, HOUR_MS, Millis, UnixMillis, Window};
use crate::web::{Code, Failure};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;

/// Characters that a query value keeps as they are.
const QUERY: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b':');
/// Characters that a path segment keeps as they are.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// The longest window that a page answers for.
pub const MAX_WINDOW_MS: i64 = 31 * DAY_MS;

/// Scope, window and time basis as an address names them (DESIGN 14). An empty value, as forms
/// send it, is the same as an absent one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub struct ViewParams {
    /// The calling service.
    pub service: Option<String>,
    /// The upstream host, in lower case, without the default port.
    pub upstream: Option<String>,
    /// Deployment environment.
    pub environment: Option<String>,
    /// Route template.
    pub route: Option<String>,
    /// First moment of the window, RFC 3339. A window of an hour or more is widened to whole five
    /// minutes; the answer says to which.
    #[param(example = "2026-11-11T07:00:00Z")]
    pub from: Option<String>,
    /// First moment after the window, RFC 3339.
    #[param(example = "2026-11-11T08:00:00Z")]
    pub to: Option<String>,
    /// `event` (when it happened, the default) or `received` (when it was stored).
    pub time: Option<String>,
}

/// A parameter that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {message}")]
pub struct AddressError {
    /// Which parameter.
    pub name: &'static str,
    /// What is expected instead.
    pub message: String,
}

impl AddressError {
    /// An error of parameter `name`.
    pub fn new(name: &'static str, message: impl Into<String>) -> Self {
        Self { name, message: message.into() }
    }
}

impl From<AddressError> for Failure {
    fn from(error: AddressError) -> Self {
        Self::new(Code::InvalidParameter, format!("{error}."))
            .with("parameter", serde_json::json!(error.name))
    }
}

/// `value` without the empty string that a form sends for an untouched field.
pub fn filled(value: Option<&str>) -> Option<&str> {
    value.map(str::trim).filter(|v| !v.is_empty())
}

/// Reads a moment: RFC 3339, or the same without an offset, taken as UTC.
pub fn moment(name: &'static str, text: &str) -> Result<UnixMillis, AddressError> {
    let text = text.trim().replace(' ', "T");
    UnixMillis::parse_rfc3339(&text)
        .or_else(|| UnixMillis::parse_rfc3339(&format!("{text}Z")))
        .or_else(|| UnixMillis::parse_rfc3339(&format!("{text}:00Z")))
        .ok_or_else(|| {
            AddressError::new(name, "expected an RFC 3339 time such as 2026-11-11T07:00:00Z")
        })
}

impl ViewParams {
    /// Whether the address names a window.
    pub fn has_times(&self) -> bool {
        filled(self.from.as_deref()).is_some() || filled(self.to.as_deref()).is_some()
    }

    /// The scope alone.
    pub fn scope(&self) -> Scope {
        let own = |value: &Option<String>| filled(value.as_deref()).map(ToOwned::to_owned);
        Scope {
            service: own(&self.service),
            upstream: own(&self.upstream).map(|host| host.to_ascii_lowercase()),
            environment: own(&self.environment),
            route: own(&self.route),
        }
    }

    /// The time basis alone.
    pub fn time(&self) -> Result<TimeBasis, AddressError> {
        filled(self.time.as_deref()).map_or(Ok(TimeBasis::Event), |word| {
            word.parse().map_err(|e: crate::domain::spelling::UnknownWord| {
                AddressError::new("time", e.to_string())
            })
        })
    }

    /// The view, with `default_window` where the address names no times. One end alone makes a
    /// window of the default's length. A window of an hour or more is widened
    /// ([`Window::widened`]).
    pub fn view(&self, default_window: Window) -> Result<View, AddressError> {
        let read = |name, value: &Option<String>| {
            filled(value.as_deref()).map(|text| moment(name, text)).transpose()
        };
        let span = default_window.length();
        let window = match (read("from", &self.from)?, read("to", &self.to)?) {
            (None, None) => default_window,
            (Some(from), Some(to)) => Window { from, to },
            (Some(from), None) => Window { from, to: from.plus(span) },
            (None, Some(to)) => Window { from: to.plus(Millis(-span.0)), to },
        };
        if window.from >= window.to {
            return Err(AddressError::new("to", "must be later than from"));
        }
        if window.length().0 > MAX_WINDOW_MS {
            return Err(AddressError::new("to", "a window is at most 31 days long"));
        }
        Ok(View { scope: self.scope(), window: window.widened(), time: self.time()? })
    }
}

/// The hour before `now`, up to the end of the running minute, so that a page reloaded within a
/// minute has the same address.
pub fn last_hour(now: UnixMillis) -> Window {
    let to = UnixMillis(now.0.saturating_add(59_999)).floor_to(60_000);
    Window { from: to.plus(Millis(-HOUR_MS)), to }
}

/// Builds an own address: a path and its query. Everything is encoded here and nowhere else.
#[derive(Debug, Clone)]
pub struct Address {
    text: String,
    has_query: bool,
}

impl Address {
    /// Starts from one of our own paths.
    pub fn new(path: &'static str) -> Self {
        Self { text: path.to_owned(), has_query: false }
    }

    /// Appends `/segment`, encoded.
    #[must_use]
    pub fn segment(mut self, segment: &str) -> Self {
        self.text.push('/');
        self.text.extend(utf8_percent_encode(segment, SEGMENT));
        self
    }

    /// Appends `name=value`, encoded.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.text.push(if self.has_query { '&' } else { '?' });
        self.has_query = true;
        self.text.push_str(name);
        self.text.push('=');
        self.text.extend(utf8_percent_encode(value, QUERY));
        self
    }

    /// Appends `name=value` where there is a value.
    #[must_use]
    pub fn with_some(self, name: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// Appends the parts of a scope that are set.
    #[must_use]
    pub fn scope(self, scope: &Scope) -> Self {
        self.with_some("service", scope.service.as_deref())
            .with_some("upstream", scope.upstream.as_deref())
            .with_some("environment", scope.environment.as_deref())
            .with_some("route", scope.route.as_deref())
    }

    /// Appends a whole view with absolute times; the time basis where it is not the default.
    #[must_use]
    pub fn view(self, view: &View) -> Self {
        let time = (view.time != TimeBasis::Event).then(|| view.time.as_str());
        self.scope(&view.scope)
            .with("from", &view.window.from.to_rfc3339())
            .with("to", &view.window.to.to_rfc3339())
            .with_some("time", time)
    }

    /// The finished address.
    pub fn finish(self) -> String {
        self.text
    }
}

/// The address of the list of attempts behind a number.
pub fn rows(filter: &RowFilter) -> String {
    let flag = |value: Option<bool>| value.map(|yes| if yes { "true" } else { "false" });
    let mut address = Address::new("/events")
        .view(&filter.view)
        .with_some("limited", flag(filter.limited))
        .with_some("retry", flag(filter.retry))
        .with_some("succeeded", flag(filter.succeeded));
    if let Some((dimension, value)) = &filter.value {
        address = address.with("dimension", dimension.as_str()).with("value", value);
    }
    address.finish()
}

/// Rows of a view, optionally only limited ones or retries, optionally of one value.
pub fn rows_of(
    view: &View,
    limited: Option<bool>,
    retry: Option<bool>,
    value: Option<(Dimension, &str)>,
) -> String {
    rows(&RowFilter {
        view: view.clone(),
        limited,
        retry,
        succeeded: None,
        value: value.map(|(dimension, value)| (dimension, value.to_owned())),
    })
}

/// Attempts of a view that ended well, optionally only retries.
pub fn successes_of(view: &View, retry: Option<bool>) -> String {
    let view = view.clone();
    rows(&RowFilter { view, limited: None, retry, succeeded: Some(true), value: None })
}

/// The page of one event. Browsers resolve the segments `.` and `..` even where they are encoded,
/// so these two ids go through the look-up.
pub fn event(event_id: &str) -> String {
    own_page("/events", event_id)
}

/// The page of one operation.
pub fn operation(operation_id: &str) -> String {
    own_page("/operations", operation_id)
}

/// The report card of one service.
pub fn service(name: &str) -> String {
    if matches!(name, "." | "..") {
        return Address::new("/services").with("name", name).finish();
    }
    Address::new("/services").segment(name).finish()
}

fn own_page(path: &'static str, id: &str) -> String {
    if matches!(id, "." | "..") {
        return Address::new("/lookup").with("id", id).finish();
    }
    Address::new(path).segment(id).finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hour() -> Window {
        Window { from: UnixMillis(0), to: UnixMillis(HOUR_MS) }
    }

    fn params(from: &str, to: &str) -> ViewParams {
        ViewParams { from: Some(from.into()), to: Some(to.into()), ..ViewParams::default() }
    }

    #[test]
    fn a_view_reads_back_as_itself() {
        let view = View {
            scope: Scope {
                service: Some("che ck&out".into()),
                upstream: Some("api.example.com".into()),
                environment: None,
                route: Some("/v1/{id}?".into()),
            },
            window: Window { from: UnixMillis(60_000), to: UnixMillis(120_001) },
            time: TimeBasis::Received,
        };
        let address = Address::new("/triage").view(&view).finish();
        let told = crate::export::links::triage("https://lens.example.com", &view);
        assert_eq!(told, format!("https://lens.example.com{address}"), "elsewhere it is the same");
        let (_, query) = address.split_once('?').unwrap();
        let read: ViewParams =
            axum::extract::Query::try_from_uri(&format!("/x?{query}").parse().unwrap()).unwrap().0;
        assert_eq!(read.view(hour()).unwrap(), view);
    }

    #[test]
    fn times_may_be_left_out_one_by_one() {
        let none = params("", "").view(hour()).unwrap();
        assert_eq!(none.window, hour());
        let from = params("1970-01-01T02:00:00Z", "").view(hour()).unwrap();
        assert_eq!(from.window.to, UnixMillis(3 * HOUR_MS));
        let to = params("", "1970-01-01 03:00").view(hour()).unwrap();
        assert_eq!(to.window.from, UnixMillis(2 * HOUR_MS));
    }

    #[test]
    fn windows_that_make_no_sense_name_the_parameter() {
        for (from, to, name) in [
            ("x", "", "from"),
            ("", "12", "to"),
            ("1970-01-02T00:00:00Z", "1970-01-01T00:00:00Z", "to"),
            ("1970-01-01T00:00:00Z", "1971-01-01T00:00:00Z", "to"),
        ] {
            assert_eq!(params(from, to).view(hour()).unwrap_err().name, name, "{from} {to}");
        }
        let odd = ViewParams { time: Some("later".into()), ..ViewParams::default() };
        assert_eq!(odd.view(hour()).unwrap_err().name, "time");
    }

    #[test]
    fn hostile_ids_stay_inside_their_segment() {
        assert_eq!(event("a/b?c#d\"<>"), "/events/a%2Fb%3Fc%23d%22%3C%3E");
        assert_eq!(event(".."), "/lookup?id=..");
        assert_eq!(operation("javascript:alert(1)"), "/operations/javascript%3Aalert%281%29");
    }
}
