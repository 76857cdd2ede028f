//! `/events`: the attempts behind a number, newest first, paged by key.

use super::address::{self, Address, AddressError, ViewParams, filled};
use super::attempt::AttemptOut;
use super::model::{Shell, ViewOut, scope_title};
use super::{framed, kept, render_with, services, words};
use crate::domain::checklist::{answers, report_card, source_phrase};
use crate::domain::event::Vantage;
#[cfg(test)]
use crate::domain::stored::StoredEvent;
use crate::domain::stored::{Cursor, Dimension, RowFilter, RowPage, View};
use crate::domain::time::UnixMillis;
use crate::web::api::Problems;
use crate::web::extract::Query;
use crate::web::parameters::Hint;
use crate::web::{AppState, Failure};
use askama::Template;
use axum::extract::State;
use axum::response::Html;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use utoipa::{IntoParams, ToSchema};

/// How many rows a page shows unless asked otherwise.
pub const PAGE_ROWS: u32 = 100;
/// How many rows a page shows at most.
pub const MAX_PAGE_ROWS: u32 = 1_000;

/// Which of a view's attempts are listed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub struct RowParams {
    /// `true` for limited attempts only, `false` for others only.
    pub limited: Option<String>,
    /// `true` for retries only, `false` for first attempts only.
    pub retry: Option<String>,
    /// `true` for attempts that ended well only (no error, a status below 400, not limited),
    /// `false` for others only.
    pub succeeded: Option<String>,
    /// Dimension of which only one value is listed; goes with `value`.
    pub dimension: Option<String>,
    /// The value; an empty one stands for attempts that did not carry any.
    pub value: Option<String>,
    /// Id of a finding: only the attempts behind it.
    pub finding: Option<String>,
    /// Rows in a page, at most 1,000.
    #[param(example = "100")]
    pub limit: Option<String>,
    /// Where the page begins: `next` of the page before.
    pub after: Option<String>,
}

impl RowParams {
    /// The filter that these parameters name within `view`.
    pub fn filter(&self, view: View) -> Result<RowFilter, AddressError> {
        let flag = |name, value: &Option<String>| match filled(value.as_deref()) {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(_) => Err(AddressError::new(name, "true or false")),
        };
        let dimension: Option<Dimension> = filled(self.dimension.as_deref())
            .map(|word| {
                word.parse().map_err(|e: crate::domain::spelling::UnknownWord| {
                    AddressError::new("dimension", format!("one of {}", e.expected))
                })
            })
            .transpose()?;
        let value = dimension.map(|d| (d, self.value.clone().unwrap_or_default()));
        Ok(RowFilter {
            view,
            limited: flag("limited", &self.limited)?,
            retry: flag("retry", &self.retry)?,
            succeeded: flag("succeeded", &self.succeeded)?,
            value,
        })
    }

    /// How many rows a page shows.
    pub fn page_rows(&self) -> Result<u32, AddressError> {
        page_rows(self.limit.as_deref(), PAGE_ROWS)
    }

    /// Where the page begins.
    pub fn cursor(&self) -> Result<Option<Cursor>, AddressError> {
        filled(self.after.as_deref())
            .map(|text| {
                let mut parts = text.splitn(3, '.');
                let mut moment = || parts.next()?.parse().ok().map(UnixMillis);
                let cursor = moment().zip(moment());
                cursor
                    .zip(parts.next())
                    .map(|((at, occurred_at), event_id)| Cursor {
                        at,
                        occurred_at,
                        event_id: event_id.to_owned(),
                    })
                    .ok_or_else(|| AddressError::new("after", "the next of another page"))
            })
            .transpose()
    }
}

/// How many rows the parameter `limit` asks for: `usual` where it is absent.
pub(super) fn page_rows(limit: Option<&str>, usual: u32) -> Result<u32, AddressError> {
    filled(limit).map_or(Ok(usual), |text| {
        text.parse()
            .ok()
            .filter(|n| (1..=MAX_PAGE_ROWS).contains(n))
            .ok_or_else(|| AddressError::new("limit", "a number from 1 to 1000"))
    })
}

/// A cursor as addresses carry it.
pub fn cursor_text(cursor: &Cursor) -> String {
    format!("{}.{}.{}", cursor.at.0, cursor.occurred_at.0, cursor.event_id)
}

/// A page of attempts.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Rows {
    /// The view.
    pub view: ViewOut,
    /// What the list is of, in words.
    pub title: String,
    /// Who saw the attempts; `client` unless no client reported on the scope.
    pub source: Vantage,
    /// For the rows of a finding: how many attempts or operations are behind it in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<i64>,
    /// For the rows of a finding: how many rows its pages list in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listed: Option<i64>,
    /// The attempts, newest first.
    pub items: Vec<AttemptOut>,
    /// Address of the next page; null at the end.
    pub next: Option<String>,
}

/// The rest of a list's address: which finding, how many rows.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rest<'a> {
    /// Id of a finding.
    pub finding: Option<&'a str>,
    /// Rows in a page, where not the default.
    pub limit: Option<u32>,
    /// Where the page begins.
    pub after: Option<&'a Cursor>,
}

/// Address of a list at `path`.
pub fn list_address(path: &'static str, filter: &RowFilter, rest: Rest<'_>) -> String {
    let flag = |value: Option<bool>| value.map(|yes| if yes { "true" } else { "false" });
    let mut address = Address::new(path)
        .view(&filter.view)
        .with_some("limited", flag(filter.limited))
        .with_some("retry", flag(filter.retry))
        .with_some("succeeded", flag(filter.succeeded));
    if let Some((dimension, value)) = &filter.value {
        address = address.with("dimension", dimension.as_str()).with("value", value);
    }
    let limit = rest.limit.filter(|n| *n != PAGE_ROWS).map(|n| n.to_string());
    let after = rest.after.map(cursor_text);
    address
        .with_some("finding", rest.finding)
        .with_some("limit", limit.as_deref())
        .with_some("after", after.as_deref())
        .finish()
}

/// What a filter selects, in words: `limited retries, status 429`.
pub fn filter_title(filter: &RowFilter) -> String {
    let mut title = match (filter.limited, filter.retry) {
        (None, None) => "Attempts",
        (Some(true), None) => "Limited attempts",
        (Some(false), None) => "Attempts that no limit refused",
        (None, Some(true)) => "Retries",
        (None, Some(false)) => "First attempts",
        (Some(true), Some(true)) => "Limited retries",
        (Some(true), Some(false)) => "Limited first attempts",
        (Some(false), Some(true)) => "Retries that no limit refused",
        (Some(false), Some(false)) => "First attempts that no limit refused",
    }
    .to_owned();
    match filter.succeeded {
        None => {}
        Some(true) => title.push_str(" that ended well"),
        Some(false) => title.push_str(" that did not end well"),
    }
    if let Some((dimension, value)) = &filter.value {
        let (word, value) = match value.as_str() {
            "" => (" without ", String::new()),
            value => (" with ", format!(" {value}")),
        };
        write!(title, "{word}{dimension}{value}").ok();
    }
    title
}

impl Rows {
    /// A page of `filter`'s rows.
    pub fn of_filter(path: &'static str, filter: &RowFilter, limit: u32, page: &RowPage) -> Self {
        let next = page.next.as_ref().map(|cursor| {
            let rest = Rest { limit: Some(limit), after: Some(cursor), ..Rest::default() };
            list_address(path, filter, rest)
        });
        Self {
            view: (&filter.view).into(),
            title: filter_title(filter),
            source: page.source,
            total: None,
            listed: None,
            items: page.items.iter().map(Into::into).collect(),
            next,
        }
    }

    /// A page of the rows of a finding: `listed` of them are on all pages, and they stand for
    /// `total` attempts or operations.
    pub fn of_finding(
        view: &View,
        text: &str,
        (listed, total): (usize, i64),
        page: &RowPage,
        next: Option<String>,
    ) -> Self {
        Self {
            view: view.into(),
            title: text.to_owned(),
            source: page.source,
            total: Some(total),
            listed: Some(i64::try_from(listed).unwrap_or(i64::MAX)),
            items: page.items.iter().map(Into::into).collect(),
            next,
        }
    }
}

/// A choice of the filter form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// What the address says.
    pub value: &'static str,
    /// What the form says.
    pub word: &'static str,
    /// Whether it is in force.
    pub is_chosen: bool,
}

fn choices(current: Option<bool>, words: [&'static str; 3]) -> Vec<Choice> {
    [("", None), ("true", Some(true)), ("false", Some(false))]
        .into_iter()
        .zip(words)
        .map(|((value, state), word)| Choice { value, word, is_chosen: state == current })
        .collect()
}

/// The page.
#[derive(Debug, Clone, Template)]
#[template(path = "pages/rows.html")]
pub struct RowsPage {
    shell: Shell,
    model: Rows,
    scope: String,
    is_finding: bool,
    note: String,
    triage: String,
    limited: Vec<Choice>,
    retry: Vec<Choice>,
    succeeded: Vec<Choice>,
    dimension: Option<(Dimension, String)>,
}

framed!(RowsPage);

impl RowsPage {
    /// The page of a filter or a finding.
    pub fn new(model: Rows, filter: &RowFilter, finding: Option<&str>) -> Self {
        let shown = i64::try_from(model.items.len()).unwrap_or(i64::MAX);
        let note = match (model.listed, model.total) {
            (Some(listed), Some(total)) => {
                let mut note = if shown < listed {
                    format!("{} of {} on this page", words::count(shown), words::count(listed))
                } else {
                    words::counted(shown, "row", "rows")
                };
                note.push_str(", newest first.");
                if total != listed {
                    write!(
                        note,
                        " {} stand for {} attempts or operations.",
                        words::counted(listed, "row", "rows"),
                        words::count(total)
                    )
                    .ok();
                }
                note
            }
            _ if model.next.is_some() => {
                format!("{} on this page, newest first; more follow.", words::count(shown))
            }
            _ => format!("{}, newest first.", words::counted(shown, "row", "rows")),
        };
        let note = match source_phrase(model.source) {
            Some(phrase) => format!("{note} These are {phrase}."),
            None => note,
        };
        let rest = Rest { finding, ..Rest::default() };
        Self {
            shell: Shell::new("Attempts", "events").with_twin(list_address(
                "/api/v1/events",
                filter,
                rest,
            )),
            scope: scope_title(&filter.view.scope),
            is_finding: finding.is_some(),
            note,
            triage: Address::new("/triage").view(&filter.view).finish(),
            limited: choices(filter.limited, ["all", "limited only", "others only"]),
            retry: choices(filter.retry, ["all", "retries only", "first attempts only"]),
            succeeded: choices(filter.succeeded, ["all", "ended well only", "others only"]),
            dimension: filter.value.clone(),
            model,
        }
    }

    /// Pages to look at.
    #[cfg(test)]
    pub(crate) fn samples() -> Vec<(&'static str, Self)> {
        use super::samples;
        let filter = |service: &str| RowFilter {
            view: samples::view(Some(service), None),
            limited: Some(true),
            retry: None,
            succeeded: None,
            value: Some((Dimension::Key, service.to_owned())),
        };
        let page = |filter: &RowFilter, items: &[StoredEvent], more: bool| {
            let next = Cursor {
                at: UnixMillis(0),
                occurred_at: UnixMillis(0),
                event_id: filter.view.scope.service.clone().unwrap_or_default(),
            };
            let page = RowPage {
                items: items.to_vec(),
                source: Vantage::Client,
                next: more.then_some(next),
            };
            let rows = Rows::of_filter("/events", filter, 50, &page);
            Self::new(rows, filter, None)
        };
        let hostile: Vec<StoredEvent> =
            samples::hostile().iter().map(|text| samples::filled_with(text)).collect();
        let many: Vec<StoredEvent> = (0..1_000)
            .map(|i| samples::attempt(&format!("e{i}"), "op", 1 + i % 9, i64::from(i) * 3_000))
            .collect();
        let text = samples::hostile().concat();
        let seen = RowPage { items: hostile.clone(), source: Vantage::Gateway, next: None };
        let next = Some("/events?after=x".to_owned());
        let view = samples::view(None, None);
        let finding = Rows::of_finding(&view, &text, (9_000, 12_000), &seen, next);
        vec![
            ("empty", page(&filter("checkout"), &[], false)),
            ("usual", page(&filter("checkout"), &samples::operation(), true)),
            ("extreme", page(&filter("checkout"), &many, true)),
            ("hostile", page(&filter(&samples::hostile()[1]), &hostile, true)),
            ("finding", Self::new(finding, &filter("x"), Some("early-retries"))),
        ]
    }
}

/// What a list's address asks for, and what the store holds of it.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    /// The filter in force.
    pub(crate) filter: RowFilter,
    /// The finding in force.
    pub(crate) finding: Option<String>,
    /// The rows.
    pub(crate) rows: Rows,
}

impl Found {
    /// Asks the store for one page of rows; `path` is where the next page is.
    pub(crate) async fn fetch(
        state: &AppState,
        path: &'static str,
        view: &ViewParams,
        params: &RowParams,
    ) -> Result<Self, Failure> {
        let now = state.clock.now();
        let filter = params.filter(view.view(address::last_hour(now))?)?;
        if let Some(id) = filled(params.finding.as_deref()) {
            return Self::behind(state, path, filter, id, params).await;
        }
        let (cursor, limit) = (params.cursor()?, params.page_rows()?);
        let page = state.store.rows(&filter, cursor.as_ref(), limit).await?;
        let mut rows = Rows::of_filter(path, &filter, limit, &page);
        rows.view.kept_note = kept::counted(state, &filter.view).await?.1;
        Ok(Self { filter, finding: None, rows })
    }

    /// A page of the rows behind a finding or a grade: it is answered anew, and its rows are
    /// fetched by key.
    async fn behind(
        state: &AppState,
        path: &'static str,
        filter: RowFilter,
        id: &str,
        params: &RowParams,
    ) -> Result<Self, Failure> {
        let (after, limit) = (params.cursor()?, params.page_rows()?);
        let facts = state.store.facts(&filter.view, state.clock.now()).await?;
        let found = if id.starts_with("mistake-") || id.starts_with("habit-") {
            let card = report_card(&facts);
            services::find_grade(&card, id)
                .map(|g| (format!("{}: {}", g.title, g.evidence), g.rows_total, g.rows.clone()))
        } else {
            let all = answers(&facts).into_iter().flat_map(|answer| answer.findings);
            all.into_iter()
                .find(|finding| finding.id == id)
                .map(|finding| (finding.text, finding.rows_total, finding.rows))
        };
        let (text, total, refs) =
            found.ok_or_else(|| Failure::not_found("finding of this view"))?;
        let mut refs: Vec<(UnixMillis, String)> =
            refs.into_iter().map(|(event_id, at)| (at, event_id)).collect();
        refs.sort_unstable_by(|a, b| b.cmp(a));
        refs.dedup();
        let listed = refs.len();
        let rest = after.map_or(0, |cursor| {
            let last = (cursor.occurred_at, cursor.event_id);
            refs.partition_point(|one| *one >= last)
        });
        let limit_rows = usize::try_from(limit).unwrap_or(usize::MAX);
        let wanted: Vec<(String, UnixMillis)> = refs
            .into_iter()
            .skip(rest)
            .take(limit_rows)
            .map(|(at, event_id)| (event_id, at))
            .collect();
        let next = wanted.last().filter(|_| rest + wanted.len() < listed).map(|(event_id, at)| {
            let cursor = Cursor { at: *at, occurred_at: *at, event_id: event_id.clone() };
            let rest = Rest { finding: Some(id), limit: Some(limit), after: Some(&cursor) };
            list_address(path, &filter, rest)
        });
        let mut items = state.store.rows_by_refs(&wanted).await?;
        items.reverse();
        let page = RowPage { items, source: facts.source, next: None };
        let rows = Rows::of_finding(&filter.view, &text, (listed, total), &page, next);
        Ok(Self { filter, finding: Some(id.to_owned()), rows })
    }
}

/// `GET /events`
#[utoipa::path(get, path = "/events", tag = "pages", params(ViewParams, RowParams),
    responses((status = 200, description = "A list of attempts", body = String, content_type = "text/html"), Problems))]
pub(crate) async fn show(
    State(state): State<AppState>,
    Query(view): Query<ViewParams>,
    Query(params): Query<RowParams>,
    hint: Hint,
) -> Result<Html<String>, Failure> {
    let found = Found::fetch(&state, "/events", &view, &params).await?;
    render_with(RowsPage::new(found.rows, &found.filter, found.finding.as_deref()), hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::pages::samples;

    #[test]
    fn a_cursor_survives_the_address_whatever_the_id_is() {
        for id in ["a", "a.b.c", "", "\u{202e}&?=#"] {
            let cursor =
                Cursor { at: UnixMillis(-5), occurred_at: UnixMillis(7), event_id: id.into() };
            let params = RowParams { after: Some(cursor_text(&cursor)), ..RowParams::default() };
            assert_eq!(params.cursor().unwrap(), Some(cursor), "{id:?}");
        }
        let odd = RowParams { after: Some("1.x".into()), ..RowParams::default() };
        assert_eq!(odd.cursor().unwrap_err().name, "after");
    }

    #[test]
    fn parameters_that_cannot_be_used_are_named() {
        let view = samples::view(None, None);
        let with = |limited: &str, dimension: &str, limit: &str| RowParams {
            limited: Some(limited.into()),
            dimension: Some(dimension.into()),
            limit: Some(limit.into()),
            ..RowParams::default()
        };
        assert_eq!(with("maybe", "", "").filter(view.clone()).unwrap_err().name, "limited");
        assert_eq!(with("", "speed", "").filter(view.clone()).unwrap_err().name, "dimension");
        assert_eq!(with("", "", "0").page_rows().unwrap_err().name, "limit");
        let filter = with("", "key", "").filter(view).unwrap();
        assert_eq!(filter.value, Some((Dimension::Key, String::new())));
        assert_eq!(filter_title(&filter), "Attempts without key");
    }
}
