//! What pages ask: an address of the service, and the same question to DuckDB in SQL.
//!
//! A page that shows several answers stands beside several statements; the time of all of them
//! counts. The statements ask for what the page shows, over all rows of the window.

use crate::data::Ids;
use retrylens::domain::stored::{Scope, TimeBasis, View};
use retrylens::domain::time::{Millis, Window};
use std::fmt::Write as _;

/// Which goals a question has beside those of all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// At most as long as DuckDB.
    Page,
    /// A page of the eight steps: also below 150 ms.
    Triage,
    /// A look-up by id: at most a tenth of DuckDB's time.
    Id,
    /// Something of a view that pages are put together from, asked of the store itself.
    Part(Part, View),
}

/// What the store is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Totals,
    Buckets,
    Dimensions,
    Pairs,
    Services,
    Labels,
    NewestLimited,
    Facts,
}

/// A question.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) path: String,
    pub(crate) sql: Vec<String>,
}

/// Rows of a scope in a window, as a condition.
pub(crate) fn condition(scope: &Scope, window: Window) -> String {
    let Window { from, to } = window;
    let mut text = format!(
        "vantage = 'client' AND occurred_at >= make_timestamp_ms({}) \
         AND occurred_at < make_timestamp_ms({})",
        from.0, to.0
    );
    for (column, value) in [("service", &scope.service), ("upstream", &scope.upstream)] {
        if let Some(value) = value {
            write!(text, " AND {column} = '{value}'").unwrap();
        }
    }
    text
}

/// All counts that pages show.
const COUNTS: &str = "sum(count), sum(count) FILTER (status IS NOT NULL), \
    sum(count) FILTER (attempt = 1), sum(count) FILTER (attempt > 1), \
    sum(count) FILTER (status = 429), sum(count) FILTER (limited), \
    sum(count) FILTER (limited AND attempt > 1), \
    sum(count) FILTER (error IS NULL AND status < 400 AND NOT limited), \
    sum(count) FILTER (status >= 500 AND NOT limited), sum(count) FILTER (error IS NOT NULL), \
    sum(count) FILTER (attempt = 2), \
    sum(count) FILTER (attempt > 1 AND error IS NULL AND status < 400 AND NOT limited), \
    sum(count) FILTER (outcome IN ('exhausted', 'deadline-exceeded', 'dead-lettered'))";

fn totals(rows: &str) -> String {
    format!("SELECT {COUNTS} FROM events WHERE {rows}")
}

fn buckets(rows: &str, minutes: i64) -> String {
    format!(
        "SELECT time_bucket(INTERVAL '{minutes} minutes', occurred_at) AS bucket, {COUNTS} \
         FROM events WHERE {rows} GROUP BY bucket ORDER BY bucket"
    )
}

fn pairs(rows: &str) -> String {
    format!(
        "SELECT service, upstream, environment, max(occurred_at), {COUNTS} FROM events \
         WHERE {rows} GROUP BY ALL ORDER BY sum(count) FILTER (limited) DESC"
    )
}

fn services(rows: &str) -> String {
    format!(
        "SELECT service, max(occurred_at), {COUNTS} FROM events WHERE {rows} GROUP BY service \
         ORDER BY sum(count) FILTER (limited) DESC"
    )
}

/// Attempts, limited ones and retries by each of the eleven dimensions.
fn dimensions(rows: &str) -> Vec<String> {
    let sums = "sum(count), sum(count) FILTER (limited), sum(count) FILTER (attempt > 1)";
    [
        "service",
        "environment",
        "route",
        "retry_layer",
        "CASE WHEN certainty IN ('certain', 'confident') THEN returned_by END",
        "CASE WHEN limited THEN limit_type END",
        "coalesce(status::VARCHAR, error)",
        "key_hash",
        "client_address_hash",
        "account_hash",
        "instance",
    ]
    .into_iter()
    .map(|value| {
        format!(
            "SELECT {value} AS value, {sums} FROM events WHERE {rows} GROUP BY value \
             ORDER BY 3 DESC NULLS LAST LIMIT 1000"
        )
    })
    .collect()
}

/// What services use the most limited keys.
fn key_services(rows: &str) -> String {
    format!(
        "SELECT key_hash, service, sum(count), sum(count) FILTER (limited) FROM events \
         WHERE {rows} AND key_hash IN (SELECT key_hash FROM events WHERE {rows} AND limited \
         GROUP BY key_hash ORDER BY sum(count) DESC LIMIT 50) GROUP BY ALL"
    )
}

/// `Retry-After`: percentiles, the largest, and how many have none.
fn retry_after(rows: &str) -> String {
    format!(
        "SELECT quantile_disc(promised_ms, [0.5, 0.95]), max(promised_ms), \
         sum(count) FILTER (retry_after IS NULL), \
         sum(count) FILTER (retry_after IS NOT NULL AND promised_ms IS NULL) \
         FROM events WHERE {rows} AND limited"
    )
}

/// Waits of operations against what was promised, by retry layer.
fn waits(rows: &str) -> String {
    format!(
        "SELECT retry_layer, count(*), count(*) FILTER (wait < promised), \
         count(*) FILTER (wait < promised AND limited), \
         quantile_disc(wait, [0.5, 0.95]) FROM (SELECT retry_layer, limited, \
         epoch_ms(occurred_at) - lag(epoch_ms(occurred_at) + duration_ms) OVER op AS wait, \
         lag(promised_ms) OVER op AS promised FROM events WHERE {rows} \
         WINDOW op AS (PARTITION BY service, operation_id ORDER BY attempt)) \
         WHERE wait IS NOT NULL GROUP BY retry_layer"
    )
}

/// How many operations had how many attempts, and how long they took.
fn operations(rows: &str) -> String {
    format!(
        "SELECT attempts, count(*), avg(length) FROM (SELECT max(attempt) AS attempts, \
         max(epoch_ms(occurred_at) + duration_ms) - min(epoch_ms(occurred_at)) AS length \
         FROM events WHERE {rows} GROUP BY service, operation_id) GROUP BY attempts"
    )
}

/// At which seconds of the minute limited attempts come.
fn seconds(rows: &str) -> String {
    format!(
        "SELECT upstream, second(occurred_at) AS second, sum(count) FROM events \
         WHERE {rows} AND limited GROUP BY ALL"
    )
}

/// Idempotency keys with two bodies or in two operations.
fn repeated_writes(rows: &str) -> String {
    format!(
        "SELECT count(*) FROM (SELECT idempotency_key_hash FROM events WHERE {rows} \
         AND idempotency_key_hash IS NOT NULL GROUP BY service, upstream, idempotency_key_hash \
         HAVING min(body_hash) <> max(body_hash) OR min(operation_id) <> max(operation_id))"
    )
}

/// What was judged of limited attempts.
fn verdicts(rows: &str) -> String {
    format!(
        "SELECT returned_by, layer, certainty, limit_type, reached_origin, status, sum(count) \
         FROM events WHERE {rows} AND limited GROUP BY ALL"
    )
}

/// The newest attempts of a list, whole.
fn list(rows: &str, only: &str, limit: u32) -> String {
    format!(
        "SELECT * FROM events WHERE {rows} AND {only} \
         ORDER BY occurred_at DESC, event_id DESC LIMIT {limit}"
    )
}

/// Names that a picker offers.
fn labels(rows: &str) -> Vec<String> {
    ["service", "upstream", "environment"]
        .map(|name| format!("SELECT DISTINCT {name} FROM events WHERE {rows}"))
        .to_vec()
}

/// Width of buckets, in minutes, as the pages choose it.
fn bucket_minutes(window: Window) -> i64 {
    retrylens::store::bucket_width_ms(window) / 60_000
}

fn overview(window: Window) -> Vec<String> {
    let rows = condition(&Scope::default(), window);
    vec![
        totals(&rows),
        pairs(&rows),
        buckets(&rows, bucket_minutes(window)),
        "SELECT max(received_at) FROM events".to_owned(),
    ]
}

/// All that the eight steps tell: counts now and before, over time and by dimension, shared keys,
/// promises, waits, operations, bursts, writes, verdicts, and sample rows.
fn steps(scope: &Scope, window: Window) -> Vec<String> {
    let rows = condition(scope, window);
    let length = window.length();
    let before = Window { from: window.from.plus(Millis(-length.0)), to: window.from };
    let mut sql = vec![
        totals(&rows),
        totals(&condition(scope, before)),
        buckets(&rows, bucket_minutes(window)),
        key_services(&rows),
        retry_after(&rows),
        waits(&rows),
        operations(&rows),
        seconds(&rows),
        repeated_writes(&rows),
        verdicts(&rows),
        list(&rows, "limited", 100),
    ];
    sql.extend(dimensions(&rows));
    sql
}

/// Every question, for a busy and a quiet pair and the ids that are looked up.
pub(crate) fn all(
    pair: &Scope,
    quiet: &Scope,
    ids: &Ids,
    hour: Window,
    day: Window,
) -> Vec<Question> {
    let times =
        |window: Window| format!("from={}&to={}", window.from.to_rfc3339(), window.to.to_rfc3339());
    let service = pair.service.clone().unwrap();
    let upstream = pair.upstream.clone().unwrap();
    let of_service = Scope { service: Some(service.clone()), ..Scope::default() };
    let everything = Scope::default();
    let mut all = Vec::new();
    let mut add = |name: String, kind, path: String, sql| {
        all.push(Question { name, kind, path, sql });
    };
    for (span, asked) in [("1 h", hour), ("24 h", day)] {
        let times = times(asked);
        let window = asked.widened();
        let anything = condition(&everything, window);
        add(format!("overview, {span}"), Kind::Page, format!("/?{times}"), overview(window));
        add(
            format!("overview, {span}, JSON"),
            Kind::Page,
            format!("/api/v1/overview?{times}"),
            overview(window),
        );
        for (what, scope, address) in [
            ("everything", &everything, String::new()),
            ("one pair", pair, format!("service={service}&upstream={upstream}&")),
        ] {
            let mut page = steps(scope, window);
            page.extend(labels(&anything));
            add(
                format!("triage, {what}, {span}"),
                Kind::Triage,
                format!("/triage?{address}{times}"),
                page,
            );
            add(
                format!("triage, {what}, {span}, JSON"),
                Kind::Triage,
                format!("/api/v1/triage?{address}{times}"),
                steps(scope, window),
            );
        }
        add(
            format!("services, {span}"),
            Kind::Page,
            format!("/services?{times}"),
            vec![services(&anything)],
        );
        add(
            format!("report card, {span}"),
            Kind::Page,
            format!("/services/{service}?{times}"),
            steps(&of_service, window),
        );
        let rows = condition(&of_service, window);
        add(
            format!("newest limited of a service, {span}"),
            Kind::Page,
            format!("/events?service={service}&limited=true&{times}"),
            vec![list(&rows, "limited", 101)],
        );
        add(
            format!("newest retries, {span}, JSON"),
            Kind::Page,
            format!("/api/v1/events?retry=true&{times}"),
            vec![list(&anything, "attempt > 1", 101)],
        );
        add(
            format!("newest answered 503 of a pair, {span}"),
            Kind::Page,
            format!(
                "/events?service={service}&upstream={upstream}&dimension=status&value=503&{times}"
            ),
            vec![list(&condition(pair, window), "status = 503", 101)],
        );
    }
    let address = |scope: &Scope| {
        let name = |name: &Option<String>| name.clone().unwrap_or_default();
        format!("service={}&upstream={}", name(&scope.service), name(&scope.upstream))
    };
    let mut page = steps(quiet, day.widened());
    page.extend(labels(&condition(&everything, day.widened())));
    add(
        "triage, a quiet pair, 24 h".to_owned(),
        Kind::Triage,
        format!("/triage?{}&{}", address(quiet), times(day)),
        page,
    );
    add(
        "newest limited of a quiet pair, 24 h".to_owned(),
        Kind::Page,
        format!("/events?{}&limited=true&{}", address(quiet), times(day)),
        vec![list(&condition(quiet, day.widened()), "limited", 101)],
    );
    for (what, id) in [
        ("event", &ids.event),
        ("operation", &ids.operation),
        ("request", &ids.request),
        ("ray", &ids.ray),
        ("trace", &ids.trace),
    ] {
        let sql = format!(
            "SELECT * FROM events WHERE event_id = '{id}' OR operation_id = '{id}' \
             OR request_id = '{id}' OR ray_id = '{id}' OR trace_id = '{id}' \
             ORDER BY occurred_at LIMIT 501"
        );
        add(format!("look-up by {what} id"), Kind::Id, format!("/lookup?id={id}"), vec![sql]);
    }
    for (what, column, path, id) in [
        ("page of an event", "event_id", "/events/", &ids.event),
        ("event, JSON", "event_id", "/api/v1/events/", &ids.event),
        ("page of an operation", "operation_id", "/operations/", &ids.operation),
        ("operation, JSON", "operation_id", "/api/v1/operations/", &ids.operation),
    ] {
        let sql =
            format!("SELECT * FROM events WHERE {column} = '{id}' ORDER BY occurred_at, attempt");
        add(what.to_owned(), Kind::Id, format!("{path}{id}"), vec![sql]);
    }
    add(
        "what services sent".to_owned(),
        Kind::Page,
        "/send".to_owned(),
        vec!["SELECT service, count(*) FROM events GROUP BY service".to_owned()],
    );
    for (span, asked) in [("1 h", hour), ("24 h", day)] {
        let window = asked.widened();
        for (what, scope) in [("everything", &everything), ("one pair", pair)] {
            let rows = condition(scope, window);
            let view = View { scope: scope.clone(), window, time: TimeBasis::Event };
            let mut part = |name: &str, part, sql| {
                add(
                    format!("{name}, {what}, {span}"),
                    Kind::Part(part, view.clone()),
                    String::new(),
                    sql,
                );
            };
            part("totals", Part::Totals, vec![totals(&rows)]);
            part("buckets", Part::Buckets, vec![buckets(&rows, bucket_minutes(window))]);
            part("dimensions", Part::Dimensions, dimensions(&rows));
            part("newest limited", Part::NewestLimited, vec![list(&rows, "limited", 101)]);
            part("facts of the steps", Part::Facts, steps(scope, window));
            if scope == &everything {
                part("pairs", Part::Pairs, vec![pairs(&rows)]);
                part("services", Part::Services, vec![services(&rows)]);
                part("labels", Part::Labels, labels(&rows));
            }
        }
    }
    all
}
