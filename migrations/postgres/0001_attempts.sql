-- Attempts, the dictionaries that keep them short, and the sums that pages read.
--
-- Times are milliseconds since 1970. An empty text stands for "not said". `minute` and `slot` are
-- the first moment of a minute and of five minutes.

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

-- Hashed keys, addresses and accounts, and names of instances.
CREATE TABLE words (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    word TEXT COLLATE "C" NOT NULL UNIQUE
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
CREATE INDEX events_by_receipt ON events (received_at);
CREATE INDEX events_by_operation ON events (operation_id) WHERE operation_id IS NOT NULL;
CREATE INDEX events_by_request ON events (request_id) WHERE request_id IS NOT NULL;
CREATE INDEX events_by_ray ON events (ray_id) WHERE ray_id IS NOT NULL;
CREATE INDEX events_by_trace ON events (trace_id) WHERE trace_id IS NOT NULL;

-- Sums of client attempts per minute and series. Both clocks are in the key: an attempt is in exactly one row, read by
-- the minute it was sent in or by the minute it was received in.
CREATE TABLE minute_counts (
    minute BIGINT NOT NULL,
    received_minute BIGINT NOT NULL,
    series_id BIGINT NOT NULL,
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
    PRIMARY KEY (minute, received_minute, series_id)
);

CREATE INDEX minute_counts_by_receipt ON minute_counts (received_minute);

-- Sums per five minutes, series, class and rank (1, 2, or 3 for every later attempt), and when the
-- newest of them was sent.
CREATE TABLE class_counts (
    slot BIGINT NOT NULL,
    received_slot BIGINT NOT NULL,
    series_id BIGINT NOT NULL,
    class_id BIGINT NOT NULL,
    rank BIGINT NOT NULL,
    n BIGINT NOT NULL,
    last_at BIGINT NOT NULL,
    PRIMARY KEY (slot, received_slot, series_id, class_id, rank)
);

CREATE INDEX class_counts_by_receipt ON class_counts (received_slot);

-- Sums per five minutes, series and key (kind 0), address (1), account (2) or instance (3); client
-- attempts only.
CREATE TABLE actor_counts (
    slot BIGINT NOT NULL,
    received_slot BIGINT NOT NULL,
    series_id BIGINT NOT NULL,
    kind BIGINT NOT NULL,
    word_id BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    limited BIGINT NOT NULL,
    retries BIGINT NOT NULL,
    PRIMARY KEY (slot, received_slot, series_id, kind, word_id)
);

CREATE INDEX actor_counts_by_receipt ON actor_counts (received_slot);

-- What was wrong with what each service sent.
CREATE TABLE senders (
    service TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    events BIGINT NOT NULL,
    redactions BIGINT NOT NULL,
    unknown_fields BIGINT NOT NULL,
    rejected BIGINT NOT NULL,
    id_conflicts BIGINT NOT NULL
);

CREATE TABLE marks (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at BIGINT NOT NULL,
    service TEXT COLLATE "C",
    upstream TEXT COLLATE "C",
    title TEXT COLLATE "C" NOT NULL
);

CREATE INDEX marks_by_time ON marks (at);
