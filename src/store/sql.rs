//! Every statement, with what it is for. Texts are the same on both databases: `$1` stands for a
//! value, and a few marks are filled from this file's own words:
//!
//! - `{scope}`, `{sums}`: conditions on the series of events and of sums ([`scope`]).
//! - `{vantage}`: who saw the attempts that are counted ([`seen_by`]).
//! - `{at}`, `{start}`: the columns of the clock that the question goes by ([`clock`]).
//! - `{parts}`: the rows of sums that stand for a window (`sums`).
//! - `{rank}`, `{kinds}`: other constants of this file.

use super::reader::Arg;
use crate::domain::event::Vantage;
use crate::domain::stored::{Scope, TimeBasis};

/// Columns of an event as `rows::stored_event` reads them. Numbers of series, classes and words are
/// looked up behind it (`names`).
pub(super) const EVENTS: &str = "\
SELECT e.event_id, e.occurred_at, e.received_at, e.attempt, e.count, e.duration_ms, \
e.series_id, e.class_id, e.key_id, e.address_id, e.account_id, e.instance_id, e.operation_id, \
e.request_id, e.ray_id, e.trace_id, e.idempotency_key_hash, e.body_hash, e.detail FROM events e ";

/// What goes before the first statement of a look at SQLite: it begins a transaction, and its one row
/// is the number of the newest class.
pub(super) const BEGINNING: &str = "BEGIN; SELECT MAX(id) FROM classes; ";

/// The words of an event's actors, behind the columns of [`EVENTS`]: where events are few, they come
/// in the same question.
pub(super) const WITH_ACTORS: &str = "\
, (SELECT word FROM words WHERE id = e.key_id), (SELECT word FROM words WHERE id = e.address_id), \
(SELECT word FROM words WHERE id = e.account_id), \
(SELECT word FROM words WHERE id = e.instance_id) FROM events e ";

/// Names of the series `{ids}`.
pub(super) const NAMES_OF_SERIES: &str =
    "SELECT id, service, upstream, environment, route FROM series WHERE id IN ({ids})";

/// The words `{ids}`.
pub(super) const WORDS: &str = "SELECT id, word FROM words WHERE id IN ({ids})";

/// In what order events with one id are given, and how many (`{limit}`).
pub(super) const BY_ID: &str = " ORDER BY e.occurred_at, e.attempt, e.event_id LIMIT {limit}";

/// The condition, on SQLite, that an event has an id whose number is `{keys}` and is in a
/// slice of a stretch of time (`{from}` to `{to}`), or in one whose ids are on their way to another.
pub(super) const IN_SLICES: &str = "e.id IN (SELECT x.id FROM (\
SELECT id FROM slices WHERE from_at < {to} AND to_at > {from} \
UNION ALL SELECT slice FROM draining WHERE target > 0) v CROSS JOIN ids x \
WHERE x.slice = v.id AND x.key {keys})";

/// Counts of the ends of a window (`$1` to `$2`, `$3` to `$4`, in milliseconds) from the events' own
/// index, by class and rank; `{series}` is the column of the series, or 0 for all of them.
pub(super) const EDGES: &str = "\
SELECT class_id, rank, CAST(SUM(count) AS BIGINT), MAX(occurred_at), series_id FROM (\
SELECT {series} AS series_id, class_id, {rank} AS rank, count, occurred_at FROM events \
WHERE {at} >= $1 AND {at} < $2 AND {scope} UNION ALL \
SELECT {series} AS series_id, class_id, {rank} AS rank, count, occurred_at FROM events \
WHERE {at} >= $3 AND {at} < $4 AND {scope}) edges GROUP BY series_id, class_id, rank";

/// What ranks tell apart: first attempts, second ones, later ones.
pub(super) const RANK: &str =
    "CAST(CASE WHEN attempt > 2 THEN 3 WHEN attempt = 2 THEN 2 ELSE 1 END AS BIGINT)";

/// Counts of a stretch (`$1` to `$2`) in buckets of `$3` milliseconds, by class and rank, from the
/// events' index: the edges of a window. The double remainder rounds moments before 1970 downwards
/// as well.
pub(super) const EVENT_BUCKETS: &str = "\
SELECT class_id, {rank}, CAST(SUM(count) AS BIGINT), {at} - (({at} % $3) + $3) % $3 FROM events \
WHERE {at} >= $1 AND {at} < $2 AND {scope} GROUP BY 1, 2, 4";

/// Attempts of the ends of a window (`$1` to `$2`) by series and actor, a row for each event and
/// kind of actor.
pub(super) const ACTOR_EDGE: &str = "\
SELECT e.series_id, CASE k.kind WHEN 0 THEN e.key_id WHEN 1 THEN e.address_id \
WHEN 2 THEN e.account_id ELSE e.instance_id END AS word_id, e.count AS attempts, \
e.count * c.limited AS limited, CASE WHEN e.attempt > 1 THEN e.count ELSE 0 END AS retries \
FROM events e CROSS JOIN classes c CROSS JOIN {kinds} k \
WHERE c.id = e.class_id AND c.vantage = '{vantage}' AND e.{at} >= {from} AND e.{at} < {to} \
AND {scope}";

/// The kinds of actors: key, address, account, instance.
pub(super) const ALL_KINDS: &str = "(SELECT 0 AS kind UNION ALL SELECT 1 UNION ALL SELECT 2 \
UNION ALL SELECT 3)";
/// Keys alone.
pub(super) const ONLY_KEYS: &str = "(SELECT 0 AS kind)";

/// The `$1` values of each kind of actor with the most limited attempts.
pub(super) const TOP_ACTORS: &str = "\
SELECT r.kind, r.word, r.attempts, r.limited, r.retries, r.word_id FROM (\
SELECT w.kind, w.word, g.*, ROW_NUMBER() OVER (PARTITION BY w.kind \
ORDER BY g.limited DESC, g.attempts DESC, g.word_id) AS place FROM (\
SELECT word_id, CAST(SUM(attempts) AS BIGINT) AS attempts, \
CAST(SUM(limited) AS BIGINT) AS limited, CAST(SUM(retries) AS BIGINT) AS retries \
FROM ({parts}) cells WHERE word_id IS NOT NULL GROUP BY word_id) g \
JOIN words w ON w.id = g.word_id) r WHERE r.place <= $1 ORDER BY r.kind, r.place";

/// Use of the keys `{words}` by each service.
pub(super) const KEY_SERVICES: &str = "\
SELECT w.word, s.service, CAST(SUM(u.attempts) AS BIGINT), CAST(SUM(u.limited) AS BIGINT) \
FROM ({parts}) u JOIN series s ON s.id = u.series_id JOIN words w ON w.id = u.word_id \
WHERE u.word_id IN ({words}) GROUP BY w.word, s.service \
ORDER BY 4 DESC, 3 DESC, 1, 2 LIMIT $1";

/// Whether an event of a vantage (`$3`) is counted in a stretch of five minutes (`$1` to `$2`, in
/// minutes).
pub(super) const HAS_VANTAGE: &str = "\
SELECT 1 FROM spans p CROSS JOIN class_counts c WHERE p.width = 5 AND p.{start} >= $1 \
AND p.{start} < $2 AND c.start = p.start AND c.received = p.received AND {sums} \
AND c.class_id IN (SELECT id FROM classes WHERE vantage = $3) LIMIT 1";

/// Whether an event of another vantage than the client's was ever stored.
pub(super) const HAS_OBSERVATIONS: &str =
    "SELECT id FROM classes WHERE vantage <> 'client' LIMIT 1";

/// The condition on attempts of a window (`$1` to `$2`), of the classes `{classes}` and with rows as
/// `{rows}`.
pub(super) const IN_WINDOW: &str =
    "e.{at} >= $1 AND e.{at} < $2 AND {scope} AND {rows} AND e.class_id IN ({classes})";
/// The classes of a vantage that fulfil a condition.
pub(super) const SUCH_CLASSES: &str =
    "SELECT id FROM classes WHERE vantage = '{vantage}' AND {such}";
/// The newest first, at most `$3`.
pub(super) const NEWEST: &str =
    " ORDER BY e.{at} DESC, e.occurred_at DESC, e.event_id DESC LIMIT $3";
/// How many there are, counted up to `$3`; the condition follows.
pub(super) const ROWS_UP_TO: &str = "SELECT COUNT(*) FROM (SELECT 1 FROM events e WHERE ";

/// The five minutes that an event of SQLite is in, counted since 1970: its index by series begins
/// with them.
pub(super) const FIVE_MINUTES: &str = "(e.occurred_at / 300000 - (e.occurred_at % 300000 < 0))";

/// On SQLite: the newest stretches of five minutes that together hold `$3` of what `{here}` counts, or
/// all there are, newest first: when each begins, in minutes since 1970, and how many are in it. They
/// begin at `{from}` or later, before `{to}`.
pub(super) const STRETCHES: &str = "\
WITH RECURSIVE walk (start, here, newer, next) AS (\
SELECT {to}, 0, 0, (SELECT MAX(start) FROM spans WHERE width = 5 AND start < {to} AND start >= {from}) \
UNION ALL SELECT next, ({here}), newer + here, \
(SELECT MAX(p.start) FROM spans p WHERE p.width = 5 AND p.start < walk.next AND p.start >= {from}) \
FROM walk WHERE newer + here < $3 AND next IS NOT NULL) \
SELECT start, here FROM walk WHERE here > 0 ORDER BY start DESC";
/// In [`STRETCHES`]: attempts (rows) of one (`{place}`), by the index, up to `$3`.
pub(super) const ROWS_HERE: &str = "\
SELECT COUNT(*) FROM (SELECT 1 FROM events e INDEXED BY events_by_series \
WHERE {five} = walk.next / 5 AND {place} LIMIT $3)";
/// In [`STRETCHES`]: attempts of one as sums count them (`{counted}`), with the weight of each: at least
/// as many as there are rows. The plus sign keeps the planner from asking for each class there is:
/// those of a series in five minutes are few.
pub(super) const COUNTED_HERE: &str = "\
SELECT COALESCE(SUM({counted}), 0) FROM spans p CROSS JOIN class_counts c \
WHERE p.width = 5 AND p.start = walk.next AND c.start = p.start AND c.received = p.received \
AND c.series_id IN ({series}) AND +c.class_id IN ({classes})";

/// Attempts of the operations `{operations}` in a window, at most `$3`, but the limited ones since
/// `{reached}`, which are known. The plus signs keep the planner from the index by time: it is the
/// operations that are few.
pub(super) const OF_OPERATIONS: &str = "\
WHERE {operations} AND +e.{at} >= $1 AND +e.{at} < $2 AND {scope} \
AND e.class_id IN (SELECT id FROM classes WHERE vantage = '{vantage}') \
AND (e.class_id IN (SELECT id FROM classes WHERE {served}) OR +e.{at} < {reached}) LIMIT $3";

/// Classes of limited attempts.
pub(super) const LIMITED: &str = "limited = 1";
/// Classes of attempts that are not limited.
pub(super) const SERVED: &str = "limited = 0";
/// Classes of attempts that ended well: the same as `Counts::succeeded`.
pub(super) const SUCCEEDED: &str =
    "(limited = 0 AND error = '' AND status >= 100 AND status < 400)";
/// Classes of attempts that did not end well.
pub(super) const UNSUCCESSFUL: &str =
    "(limited = 1 OR error <> '' OR status < 100 OR status >= 400)";
/// Classes of attempts that failed without being limited.
pub(super) const FAILED: &str = "(limited = 0 AND (error <> '' OR status >= 400))";
/// Retries.
pub(super) const ONLY_RETRIES: &str = "e.attempt > 1";
/// First attempts.
pub(super) const ONLY_FIRST: &str = "e.attempt <= 1";

/// Durations of attempts in a window with how many attempts took as long.
pub(super) const DURATIONS: &str = "\
SELECT e.duration_ms, CAST(SUM(e.count) AS BIGINT) FROM events e \
WHERE e.{at} >= $1 AND e.{at} < $2 AND e.duration_ms IS NOT NULL AND {scope} \
AND e.class_id IN (SELECT id FROM classes WHERE vantage = '{vantage}') \
GROUP BY e.duration_ms ORDER BY e.duration_ms";

/// Retries answered 409: the first attempt may have been carried out.
pub(super) const CONFLICTS_AFTER_RETRY: &str = "\
SELECT CAST(COALESCE(SUM(e.count), 0) AS BIGINT) FROM events e \
WHERE e.{at} >= $1 AND e.{at} < $2 AND e.attempt > 1 AND {scope} \
AND e.class_id IN (SELECT id FROM classes WHERE vantage = '{vantage}' AND status = 409)";

/// Idempotency keys that came with two bodies.
pub(super) const KEYS_WITH_TWO_BODIES: &str = "\
SELECT COUNT(*) FROM (SELECT e.idempotency_key_hash FROM events e \
WHERE e.{at} >= $1 AND e.{at} < $2 AND e.idempotency_key_hash IS NOT NULL \
AND e.body_hash IS NOT NULL AND {scope} \
AND e.class_id IN (SELECT id FROM classes WHERE vantage = '{vantage}') \
GROUP BY e.idempotency_key_hash HAVING MIN(e.body_hash) <> MAX(e.body_hash)) twice";

/// When the newest event was received; where none is kept any more, the hour.
pub(super) const LAST_RECEIVED: &str = "\
SELECT COALESCE((SELECT MAX(received_at) FROM events), \
(SELECT MAX(received) FROM spans WHERE width = 60) * 60000)";

/// Number of the newest row.
pub(super) const NEWEST_ROW: &str = "SELECT MAX(id) FROM events";

/// All classes.
pub(super) const CLASSES: &str = "\
SELECT id, vantage, status, error, outcome, retry_layer, returned_by, layer, certainty, limited, \
limit_type, reached_origin FROM classes";

/// Marked changes that concern a service (`$1`) and an upstream (`$2`), oldest first; a missing
/// one stands for all.
pub(super) const MARKS: &str = "\
SELECT id, at, service, upstream, title FROM marks \
WHERE (service IS NULL OR CAST($1 AS TEXT) IS NULL OR service = $1) \
AND (upstream IS NULL OR CAST($2 AS TEXT) IS NULL OR upstream = $2) ORDER BY at DESC, id DESC \
LIMIT 1000";

/// Keeps a marked change.
pub(super) const ADD_MARK: &str =
    "INSERT INTO marks (at, service, upstream, title) VALUES ($1, $2, $3, $4) RETURNING id";

/// What was wrong with what each service sent, worst first.
pub(super) const SENDERS: &str = "\
SELECT service, events, redactions, unknown_fields, rejected, id_conflicts, as_other FROM senders \
ORDER BY redactions + unknown_fields + rejected + id_conflicts + as_other DESC, service \
LIMIT 1000";

/// The same for one service.
pub(super) const SENDER: &str = "\
SELECT service, events, redactions, unknown_fields, rejected, id_conflicts, as_other FROM senders \
WHERE service = $1";

/// Keeps a setting that isn't there yet.
pub(super) const ADD_SETTING: &str =
    "INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING";

/// A setting.
pub(super) const SETTING: &str = "SELECT value FROM settings WHERE name = $1";

/// The names of all series.
pub(super) const SERIES_NAMES: &str = "SELECT service, upstream, environment, route FROM series";

/// Whether the database answers and its schema is there.
pub(super) const READY: &str = "SELECT COUNT(*) FROM schema_changes";

/// Adds to what is counted of a sender.
pub(super) const ADD_SENDER: &str = "\
INSERT INTO senders (service, events, redactions, unknown_fields, rejected, id_conflicts, \
as_other) VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (service) DO UPDATE SET \
events = senders.events + excluded.events, \
redactions = senders.redactions + excluded.redactions, \
unknown_fields = senders.unknown_fields + excluded.unknown_fields, \
rejected = senders.rejected + excluded.rejected, \
id_conflicts = senders.id_conflicts + excluded.id_conflicts, \
as_other = senders.as_other + excluded.as_other";

/// Columns of an event in the order in which both databases bind them.
pub(super) const EVENT_INSERT: [&str; 20] = [
    "event_id",
    "occurred_at",
    "received_at",
    "series_id",
    "class_id",
    "attempt",
    "count",
    "duration_ms",
    "key_id",
    "address_id",
    "account_id",
    "instance_id",
    "wait_bucket",
    "operation_id",
    "request_id",
    "ray_id",
    "trace_id",
    "idempotency_key_hash",
    "body_hash",
    "detail",
];

/// Columns of a class in the order in which both databases bind them.
pub(super) const CLASS_INSERT: [&str; 11] = [
    "vantage",
    "error",
    "outcome",
    "retry_layer",
    "returned_by",
    "layer",
    "certainty",
    "limit_type",
    "reached_origin",
    "status",
    "limited",
];

/// Fills the marks of the clock: the columns that a question by `time` reads.
pub(super) fn clock(sql: &str, time: TimeBasis) -> String {
    let (at, start) = match time {
        TimeBasis::Event => ("occurred_at", "start"),
        TimeBasis::Received => ("received_at", "received"),
    };
    sql.replace("{at}", at).replace("{start}", start).replace("{rank}", RANK)
}

/// Fills `{vantage}`: whose view of the attempts is counted.
pub(super) fn seen_by(sql: &str, source: Vantage) -> String {
    sql.replace("{vantage}", source.as_str())
}

/// Fills `{scope}`, for events, and `{sums}`, for sums `c`, with the series that a scope names, and
/// puts its values behind `args`. Without a scope `unscoped` is the condition on sums.
pub(super) fn scope(sql: &str, scope: &Scope, unscoped: &str, args: &mut Vec<Arg>) -> String {
    let Some(condition) = of_series(scope, args) else {
        return sql.replace("{scope}", "1 = 1").replace("{sums}", unscoped);
    };
    let series = format!("series_id IN (SELECT id FROM series WHERE {condition})");
    sql.replace("{scope}", &series).replace("{sums}", &format!("c.{series}"))
}

/// The condition that a row of `series` is in a scope; `None` where all are. Values go behind
/// `args`.
pub(super) fn of_series(scope: &Scope, args: &mut Vec<Arg>) -> Option<String> {
    let parts = [
        ("service", &scope.service),
        ("upstream", &scope.upstream),
        ("environment", &scope.environment),
        ("route", &scope.route),
    ];
    let mut conditions = Vec::new();
    for (column, value) in parts {
        if let Some(value) = value {
            args.push(Arg::Text(value.clone()));
            conditions.push(format!("{column} = ${}", args.len()));
        }
    }
    (!conditions.is_empty()).then(|| conditions.join(" AND "))
}

/// Without a scope: the rows of sums for all series.
pub(super) const ALL_SERIES: &str = "c.series_id = 0";
/// Without a scope: the rows of sums of each series.
pub(super) const EACH_SERIES: &str = "c.series_id > 0";
