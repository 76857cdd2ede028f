-- Attempts, the dictionaries that keep them short, and the sums that pages read.
--
-- Times of events are milliseconds since 1970. An empty text stands for "not said".

CREATE TABLE settings (
    name TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    value TEXT COLLATE "C" NOT NULL
);

-- Whose traffic to where: an attempt and every sum carry the number instead of four texts.
CREATE TABLE series (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    service TEXT COLLATE "C" NOT NULL,
    upstream TEXT COLLATE "C" NOT NULL,
    environment TEXT COLLATE "C" NOT NULL,
    route TEXT COLLATE "C" NOT NULL,
    UNIQUE (service, upstream, environment, route)
);

CREATE INDEX series_by_upstream ON series (upstream);

-- What became of an attempt: every word that counts depend on.
CREATE TABLE classes (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    vantage TEXT COLLATE "C" NOT NULL,
    status BIGINT NOT NULL,
    error TEXT COLLATE "C" NOT NULL,
    outcome TEXT COLLATE "C" NOT NULL,
    retry_layer TEXT COLLATE "C" NOT NULL,
    returned_by TEXT COLLATE "C" NOT NULL,
    layer TEXT COLLATE "C" NOT NULL,
    certainty TEXT COLLATE "C" NOT NULL,
    limited BIGINT NOT NULL,
    limit_type TEXT COLLATE "C" NOT NULL,
    reached_origin TEXT COLLATE "C" NOT NULL,
    UNIQUE (vantage, status, error, outcome, retry_layer, returned_by, layer, certainty, limited,
            limit_type, reached_origin)
);

-- Hashed keys (kind 0), addresses (1) and accounts (2), and names of instances (3).
CREATE TABLE words (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind BIGINT NOT NULL,
    word TEXT COLLATE "C" NOT NULL,
    UNIQUE (kind, word)
);

-- One row per event, divided by day of `occurred_at` (UTC): a partition `events_20261111` for each
-- day, made by the program ahead of time and dropped whole. Days far from now have none and are
-- kept in `events_other`. The primary key is the identity; it holds the column that divides the
-- table here (`occurred_at`) and the one that would distribute it (`event_id`), and finds the same
-- id at another time.
CREATE TABLE events (
    occurred_at BIGINT NOT NULL,
    received_at BIGINT NOT NULL,
    series_id BIGINT NOT NULL,
    class_id BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    count BIGINT NOT NULL,
    duration_ms BIGINT,
    key_id BIGINT,
    address_id BIGINT,
    account_id BIGINT,
    instance_id BIGINT,
    wait_bucket BIGINT,
    event_id TEXT COLLATE "C" NOT NULL,
    operation_id TEXT COLLATE "C",
    request_id TEXT COLLATE "C",
    ray_id TEXT COLLATE "C",
    trace_id TEXT COLLATE "C",
    idempotency_key_hash TEXT COLLATE "C",
    body_hash TEXT COLLATE "C",
    detail BYTEA NOT NULL,
    PRIMARY KEY (event_id, occurred_at)
) PARTITION BY RANGE (occurred_at);

CREATE TABLE events_other PARTITION OF events DEFAULT;

CREATE INDEX events_by_time ON events (occurred_at);
CREATE INDEX events_by_series ON events (series_id, occurred_at);
CREATE INDEX events_by_receipt ON events (received_at);
CREATE INDEX events_by_operation ON events (operation_id) WHERE operation_id IS NOT NULL;
CREATE INDEX events_by_request ON events (request_id) WHERE request_id IS NOT NULL;
CREATE INDEX events_by_ray ON events (ray_id) WHERE ray_id IS NOT NULL;
CREATE INDEX events_by_trace ON events (trace_id) WHERE trace_id IS NOT NULL;

-- Which stretches of time there are sums of: `width` minutes from `start` on, in which events were
-- received in the stretch from `received` on. All times of sums are minutes since 1970. Questions
-- go through this list, so that they touch the rows of their own scope alone, by either clock.
CREATE TABLE spans (
    width BIGINT NOT NULL,
    start BIGINT NOT NULL,
    received BIGINT NOT NULL,
    PRIMARY KEY (width, start, received)
);

CREATE INDEX spans_by_receipt ON spans (width, received, start);

-- Tables of sums fill half of a page at first: a row that is added to again and again finds room in
-- its own page, so that no index has to be changed (0.6 of the cost of an addition).

-- What an insert writes: sums of its stretch, in its transaction. Both clocks are in each key: an
-- attempt is in exactly one row, read by when it was sent or by when it was received.
--
-- Per minute, series (0 stands for all) and who saw it (0 the client, 1 a gateway, 2 the origin);
-- `last_ms` is when the newest was sent, in milliseconds after the start of the stretch.
CREATE TABLE minute_counts (
    slot BIGINT NOT NULL,
    received_slot BIGINT NOT NULL,
    series_id BIGINT NOT NULL,
    vantage BIGINT NOT NULL,
    minute BIGINT NOT NULL,
    received_minute BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    answered BIGINT NOT NULL,
    requests BIGINT NOT NULL,
    retries BIGINT NOT NULL,
    status_429 BIGINT NOT NULL,
    limited BIGINT NOT NULL,
    limited_retries BIGINT NOT NULL,
    succeeded BIGINT NOT NULL,
    server_errors BIGINT NOT NULL,
    errors BIGINT NOT NULL,
    retried_operations BIGINT NOT NULL,
    retry_successes BIGINT NOT NULL,
    gave_up BIGINT NOT NULL,
    last_ms BIGINT NOT NULL,
    PRIMARY KEY (slot, received_slot, series_id, vantage, minute, received_minute)
) WITH (fillfactor = 50);

-- Per five minutes, series (0 stands for all) and class.
CREATE TABLE class_counts (
    start BIGINT NOT NULL,
    received BIGINT NOT NULL,
    series_id BIGINT NOT NULL,
    class_id BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    retries BIGINT NOT NULL,
    PRIMARY KEY (start, received, series_id, class_id)
) WITH (fillfactor = 50);

-- Per five minutes, pair (the series without a route) and key, address, account or instance; client
-- attempts only. Series 0 stands for all pairs, once the five minutes are gathered.
CREATE TABLE actor_counts (
    start BIGINT NOT NULL,
    received BIGINT NOT NULL,
    series_id BIGINT NOT NULL,
    word_id BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    limited BIGINT NOT NULL,
    retries BIGINT NOT NULL,
    PRIMARY KEY (start, received, series_id, word_id)
) WITH (fillfactor = 50);

-- Refusals of clients per five minutes, series (0 stands for all) and bucket of the promised wait
-- (src/domain/stats/waits.rs).
CREATE TABLE wait_counts (
    start BIGINT NOT NULL,
    received BIGINT NOT NULL,
    series_id BIGINT NOT NULL,
    bucket BIGINT NOT NULL,
    n BIGINT NOT NULL,
    PRIMARY KEY (start, received, series_id, bucket)
) WITH (fillfactor = 50);

-- What is gathered from these when five minutes of receipt have ended (src/store/gather.rs): the
-- counts of `minute_counts` per five minutes, and everything per hour.
CREATE TABLE slot_counts (
    start BIGINT NOT NULL,
    received BIGINT NOT NULL,
    series_id BIGINT NOT NULL,
    vantage BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    answered BIGINT NOT NULL,
    requests BIGINT NOT NULL,
    retries BIGINT NOT NULL,
    status_429 BIGINT NOT NULL,
    limited BIGINT NOT NULL,
    limited_retries BIGINT NOT NULL,
    succeeded BIGINT NOT NULL,
    server_errors BIGINT NOT NULL,
    errors BIGINT NOT NULL,
    retried_operations BIGINT NOT NULL,
    retry_successes BIGINT NOT NULL,
    gave_up BIGINT NOT NULL,
    last_ms BIGINT NOT NULL,
    PRIMARY KEY (start, received, series_id, vantage)
) WITH (fillfactor = 50);

CREATE TABLE hour_counts (
    start BIGINT NOT NULL,
    received BIGINT NOT NULL,
    series_id BIGINT NOT NULL,
    vantage BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    answered BIGINT NOT NULL,
    requests BIGINT NOT NULL,
    retries BIGINT NOT NULL,
    status_429 BIGINT NOT NULL,
    limited BIGINT NOT NULL,
    limited_retries BIGINT NOT NULL,
    succeeded BIGINT NOT NULL,
    server_errors BIGINT NOT NULL,
    errors BIGINT NOT NULL,
    retried_operations BIGINT NOT NULL,
    retry_successes BIGINT NOT NULL,
    gave_up BIGINT NOT NULL,
    last_ms BIGINT NOT NULL,
    PRIMARY KEY (start, received, series_id, vantage)
) WITH (fillfactor = 50);

CREATE TABLE class_hours (
    start BIGINT NOT NULL,
    received BIGINT NOT NULL,
    series_id BIGINT NOT NULL,
    class_id BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    retries BIGINT NOT NULL,
    PRIMARY KEY (start, received, series_id, class_id)
) WITH (fillfactor = 50);

CREATE TABLE actor_hours (
    start BIGINT NOT NULL,
    received BIGINT NOT NULL,
    series_id BIGINT NOT NULL,
    word_id BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    limited BIGINT NOT NULL,
    retries BIGINT NOT NULL,
    PRIMARY KEY (start, received, series_id, word_id)
) WITH (fillfactor = 50);

CREATE TABLE wait_hours (
    start BIGINT NOT NULL,
    received BIGINT NOT NULL,
    series_id BIGINT NOT NULL,
    bucket BIGINT NOT NULL,
    n BIGINT NOT NULL,
    PRIMARY KEY (start, received, series_id, bucket)
) WITH (fillfactor = 50);

-- What was wrong with what each service sent.
CREATE TABLE senders (
    service TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    events BIGINT NOT NULL,
    redactions BIGINT NOT NULL,
    unknown_fields BIGINT NOT NULL,
    rejected BIGINT NOT NULL,
    id_conflicts BIGINT NOT NULL,
    as_other BIGINT NOT NULL
);

CREATE TABLE marks (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at BIGINT NOT NULL,
    service TEXT COLLATE "C",
    upstream TEXT COLLATE "C",
    title TEXT COLLATE "C" NOT NULL
);

CREATE INDEX marks_by_time ON marks (at);
