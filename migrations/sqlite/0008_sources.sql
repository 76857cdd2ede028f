-- Where events come from, and what they carry: so that a page can say what is missing for which step
-- without looking at the events. Counted in memory as events are stored, and added every few seconds.
--
-- `id`: a hash of service, upstream, vantage, input and name. Times are milliseconds since 1970.
CREATE TABLE sources (
    id INTEGER NOT NULL PRIMARY KEY,
    service TEXT NOT NULL,
    upstream TEXT NOT NULL,
    vantage TEXT NOT NULL,
    input TEXT NOT NULL,
    name TEXT NOT NULL,
    language TEXT NOT NULL,
    first_at INTEGER NOT NULL,
    last_at INTEGER NOT NULL,
    received_at INTEGER NOT NULL,
    events INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Events by the minute (since 1970) in which they happened, of the last two days.
CREATE TABLE source_minutes (
    minute INTEGER NOT NULL,
    source_id INTEGER NOT NULL,
    events INTEGER NOT NULL,
    PRIMARY KEY (minute, source_id)
) STRICT, WITHOUT ROWID;

-- How many events carry something, of those that should, by day of receipt (since 1970).
CREATE TABLE source_traits (
    day INTEGER NOT NULL,
    source_id INTEGER NOT NULL,
    trait TEXT NOT NULL,
    had INTEGER NOT NULL,
    of_all INTEGER NOT NULL,
    PRIMARY KEY (day, source_id, trait)
) STRICT, WITHOUT ROWID;
