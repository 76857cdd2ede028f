-- Attempts, the dictionaries that keep them short, and the sums that pages read.
--
-- Times of events are milliseconds since 1970. An empty text stands for "not said".

CREATE TABLE settings (
    name TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Whose traffic to where: an attempt and every sum carry the number instead of four texts.
CREATE TABLE series (
    id INTEGER PRIMARY KEY,
    service TEXT NOT NULL,
    upstream TEXT NOT NULL,
    environment TEXT NOT NULL,
    route TEXT NOT NULL,
    UNIQUE (service, upstream, environment, route)
) STRICT;

CREATE INDEX series_by_upstream ON series (upstream);

-- What became of an attempt: every word that counts depend on.
CREATE TABLE classes (
    id INTEGER PRIMARY KEY,
    vantage TEXT NOT NULL,
    status INTEGER NOT NULL,
    error TEXT NOT NULL,
    outcome TEXT NOT NULL,
    retry_layer TEXT NOT NULL,
    returned_by TEXT NOT NULL,
    layer TEXT NOT NULL,
    certainty TEXT NOT NULL,
    limited INTEGER NOT NULL,
    limit_type TEXT NOT NULL,
    reached_origin TEXT NOT NULL,
    UNIQUE (vantage, status, error, outcome, retry_layer, returned_by, layer, certainty, limited,
            limit_type, reached_origin)
) STRICT;

-- Hashed keys (kind 0), addresses (1) and accounts (2), and names of instances (3).
CREATE TABLE words (
    id INTEGER PRIMARY KEY,
    kind INTEGER NOT NULL,
    word TEXT NOT NULL,
    UNIQUE (kind, word)
) STRICT;

-- Stretches of time, by `occurred_at`, without gaps, of about as many events each.
CREATE TABLE slices (
    id INTEGER PRIMARY KEY,
    from_at INTEGER NOT NULL UNIQUE,
    to_at INTEGER NOT NULL,
    events INTEGER NOT NULL
) STRICT;

INSERT INTO slices (from_at, to_at, events)
VALUES (-9223372036854775808, 9223372036854775807, 0);

-- One row per event, in the order of arrival, so that a late event costs no more than another.
-- Ids are packed and the detail is compressed (src/store/sqlite/ids.rs, src/store/detail.rs).
CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    occurred_at INTEGER NOT NULL,
    received_at INTEGER NOT NULL,
    series_id INTEGER NOT NULL,
    class_id INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    count INTEGER NOT NULL,
    duration_ms INTEGER,
    key_id INTEGER,
    address_id INTEGER,
    account_id INTEGER,
    instance_id INTEGER,
    wait_bucket INTEGER,
    event_id BLOB NOT NULL,
    operation_id BLOB,
    request_id BLOB,
    ray_id BLOB,
    trace_id BLOB,
    idempotency_key_hash BLOB,
    body_hash BLOB,
    detail BLOB NOT NULL
) STRICT;

-- Time ranges with all that counts need, so that the edges of a window are read from here alone.
CREATE INDEX events_by_time
    ON events (occurred_at, series_id, class_id, attempt, count, duration_ms,
               key_id, address_id, account_id, instance_id);
-- The attempts of a pair, whatever others do. It begins with the five minutes (rounded down), so that
-- a batch touches the pages of its own time alone and not one for each series.
CREATE INDEX events_by_series ON events (
    (occurred_at / 300000 - (occurred_at % 300000 < 0)), series_id, occurred_at, class_id, attempt
);
-- The order of receipt is the order of the rows, so that what else counts need is near.
CREATE INDEX events_by_receipt ON events (received_at);

-- Where an id is: the event, operation, request, ray and trace ids of all events.
CREATE TABLE ids (
    slice INTEGER NOT NULL,
    key INTEGER NOT NULL,
    id INTEGER NOT NULL,
    PRIMARY KEY (slice, key, id)
) STRICT, WITHOUT ROWID;

-- Which stretches of time there are sums of: `width` minutes from `start` on, in which events were
-- received in the stretch from `received` on. All times of sums are minutes since 1970. Questions
-- go through this list, so that they touch the rows of their own scope alone, by either clock.
CREATE TABLE spans (
    width INTEGER NOT NULL,
    start INTEGER NOT NULL,
    received INTEGER NOT NULL,
    PRIMARY KEY (width, start, received)
) STRICT, WITHOUT ROWID;

CREATE INDEX spans_by_receipt ON spans (width, received, start);

-- What an insert writes: sums of its stretch, in its transaction. Both clocks are in each key: an
-- attempt is in exactly one row, read by when it was sent or by when it was received.
--
-- Per minute, series (0 stands for all) and who saw it (0 the client, 1 a gateway, 2 the origin);
-- `last_ms` is when the newest was sent, in milliseconds after the start of the stretch.
CREATE TABLE minute_counts (
    slot INTEGER NOT NULL,
    received_slot INTEGER NOT NULL,
    series_id INTEGER NOT NULL,
    vantage INTEGER NOT NULL,
    minute INTEGER NOT NULL,
    received_minute INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    answered INTEGER NOT NULL,
    requests INTEGER NOT NULL,
    retries INTEGER NOT NULL,
    status_429 INTEGER NOT NULL,
    limited INTEGER NOT NULL,
    limited_retries INTEGER NOT NULL,
    succeeded INTEGER NOT NULL,
    server_errors INTEGER NOT NULL,
    errors INTEGER NOT NULL,
    retried_operations INTEGER NOT NULL,
    retry_successes INTEGER NOT NULL,
    gave_up INTEGER NOT NULL,
    last_ms INTEGER NOT NULL,
    PRIMARY KEY (slot, received_slot, series_id, vantage, minute, received_minute)
) STRICT, WITHOUT ROWID;

-- Per five minutes, series (0 stands for all) and class.
CREATE TABLE class_counts (
    start INTEGER NOT NULL,
    received INTEGER NOT NULL,
    series_id INTEGER NOT NULL,
    class_id INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    retries INTEGER NOT NULL,
    PRIMARY KEY (start, received, series_id, class_id)
) STRICT, WITHOUT ROWID;

-- Per five minutes, pair (the series without a route) and key, address, account or instance; client
-- attempts only. Series 0 stands for all pairs, once the five minutes are gathered.
CREATE TABLE actor_counts (
    start INTEGER NOT NULL,
    received INTEGER NOT NULL,
    series_id INTEGER NOT NULL,
    word_id INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    limited INTEGER NOT NULL,
    retries INTEGER NOT NULL,
    PRIMARY KEY (start, received, series_id, word_id)
) STRICT, WITHOUT ROWID;

-- Refusals of clients per five minutes, series (0 stands for all) and bucket of the promised wait
-- (src/domain/stats/waits.rs).
CREATE TABLE wait_counts (
    start INTEGER NOT NULL,
    received INTEGER NOT NULL,
    series_id INTEGER NOT NULL,
    bucket INTEGER NOT NULL,
    n INTEGER NOT NULL,
    PRIMARY KEY (start, received, series_id, bucket)
) STRICT, WITHOUT ROWID;

-- What is gathered from these when five minutes of receipt have ended (src/store/gather.rs): the
-- counts of `minute_counts` per five minutes, and everything per hour.
CREATE TABLE slot_counts (
    start INTEGER NOT NULL,
    received INTEGER NOT NULL,
    series_id INTEGER NOT NULL,
    vantage INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    answered INTEGER NOT NULL,
    requests INTEGER NOT NULL,
    retries INTEGER NOT NULL,
    status_429 INTEGER NOT NULL,
    limited INTEGER NOT NULL,
    limited_retries INTEGER NOT NULL,
    succeeded INTEGER NOT NULL,
    server_errors INTEGER NOT NULL,
    errors INTEGER NOT NULL,
    retried_operations INTEGER NOT NULL,
    retry_successes INTEGER NOT NULL,
    gave_up INTEGER NOT NULL,
    last_ms INTEGER NOT NULL,
    PRIMARY KEY (start, received, series_id, vantage)
) STRICT, WITHOUT ROWID;

CREATE TABLE hour_counts (
    start INTEGER NOT NULL,
    received INTEGER NOT NULL,
    series_id INTEGER NOT NULL,
    vantage INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    answered INTEGER NOT NULL,
    requests INTEGER NOT NULL,
    retries INTEGER NOT NULL,
    status_429 INTEGER NOT NULL,
    limited INTEGER NOT NULL,
    limited_retries INTEGER NOT NULL,
    succeeded INTEGER NOT NULL,
    server_errors INTEGER NOT NULL,
    errors INTEGER NOT NULL,
    retried_operations INTEGER NOT NULL,
    retry_successes INTEGER NOT NULL,
    gave_up INTEGER NOT NULL,
    last_ms INTEGER NOT NULL,
    PRIMARY KEY (start, received, series_id, vantage)
) STRICT, WITHOUT ROWID;

CREATE TABLE class_hours (
    start INTEGER NOT NULL,
    received INTEGER NOT NULL,
    series_id INTEGER NOT NULL,
    class_id INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    retries INTEGER NOT NULL,
    PRIMARY KEY (start, received, series_id, class_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE actor_hours (
    start INTEGER NOT NULL,
    received INTEGER NOT NULL,
    series_id INTEGER NOT NULL,
    word_id INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    limited INTEGER NOT NULL,
    retries INTEGER NOT NULL,
    PRIMARY KEY (start, received, series_id, word_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE wait_hours (
    start INTEGER NOT NULL,
    received INTEGER NOT NULL,
    series_id INTEGER NOT NULL,
    bucket INTEGER NOT NULL,
    n INTEGER NOT NULL,
    PRIMARY KEY (start, received, series_id, bucket)
) STRICT, WITHOUT ROWID;

-- What was wrong with what each service sent.
CREATE TABLE senders (
    service TEXT NOT NULL PRIMARY KEY,
    events INTEGER NOT NULL,
    redactions INTEGER NOT NULL,
    unknown_fields INTEGER NOT NULL,
    rejected INTEGER NOT NULL,
    id_conflicts INTEGER NOT NULL,
    as_other INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE marks (
    id INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    service TEXT,
    upstream TEXT,
    title TEXT NOT NULL
) STRICT;

CREATE INDEX marks_by_time ON marks (at);
