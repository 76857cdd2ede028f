//! Addresses of our pages for those who read them elsewhere: whole, with absolute times.

use crate::domain::alerts::Rule;
use crate::domain::stored::{TimeBasis, View};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Characters that a query value keeps as they are.
const QUERY: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b':');

/// The triage of a view: the same address as the page's own permalink. `base` ends without a slash.
pub fn triage(base: &str, view: &View) -> String {
    let View { scope, window, time } = view;
    let [from, to] = [window.from, window.to].map(|at| Some(at.to_rfc3339()));
    let time = (*time != TimeBasis::Event).then(|| time.as_str().to_owned());
    let parameters = [
        ("service", scope.service.clone()),
        ("upstream", scope.upstream.clone()),
        ("environment", scope.environment.clone()),
        ("route", scope.route.clone()),
        ("from", from),
        ("to", to),
        ("time", time),
    ];
    let query: Vec<String> = parameters
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .map(|(name, value)| format!("{name}={}", utf8_percent_encode(&value, QUERY)))
        .collect();
    format!("{base}/triage?{}", query.join("&"))
}

/// An alert by its number.
pub fn alert(base: &str, id: i64) -> String {
    format!("{base}/alerts/{id}")
}

/// What to do when a rule fires.
pub fn runbook(base: &str, rule: &Rule) -> String {
    format!("{base}/docs/alerts#{}", rule.slug)
}
