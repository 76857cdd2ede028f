-- Where events come from, and what they carry: so that a page can say what is missing for which step
-- without looking at the events. Counted in memory as events are stored, and added every few seconds.
--
-- `id`: a hash of service, upstream, vantage, input and name. Times are milliseconds since 1970.
CREATE TABLE sources (
    id BIGINT NOT NULL PRIMARY KEY,
    service TEXT COLLATE "C" NOT NULL,
    upstream TEXT COLLATE "C" NOT NULL,
    vantage TEXT COLLATE "C" NOT NULL,
    input TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    language TEXT COLLATE "C" NOT NULL,
    first_at BIGINT NOT NULL,
    last_at BIGINT NOT NULL,
    received_at BIGINT NOT NULL,
    events BIGINT NOT NULL
);

-- Events by the minute (since 1970) in which they happened, of the last two days.
CREATE TABLE source_minutes (
    minute BIGINT NOT NULL,
    source_id BIGINT NOT NULL,
    events BIGINT NOT NULL,
    PRIMARY KEY (minute, source_id)
);

-- How many events carry something, of those that should, by day of receipt (since 1970).
CREATE TABLE source_traits (
    day BIGINT NOT NULL,
    source_id BIGINT NOT NULL,
    trait TEXT COLLATE "C" NOT NULL,
    had BIGINT NOT NULL,
    of_all BIGINT NOT NULL,
    PRIMARY KEY (day, source_id, trait)
);
