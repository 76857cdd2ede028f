-- Alerts: how each one stands, what became of it, and who is to be told.
--
-- Times are milliseconds since 1970, minutes are counted from there too. An empty text stands for
-- "not said", in silences for "any".

-- The last minute that was evaluated, in the one row. Whoever moves it on has that minute.
CREATE TABLE alert_clock (
    id INTEGER NOT NULL PRIMARY KEY,
    minute INTEGER NOT NULL
) STRICT;

INSERT INTO alert_clock (id, minute) VALUES (1, -9223372036854775808);

-- Pairs of which a served first attempt was ever seen, by who saw it (0 the client, 1 a gateway,
-- 2 the origin). The others have no denominator, and nothing is said of them.
CREATE TABLE alert_pairs (
    service TEXT NOT NULL,
    upstream TEXT NOT NULL,
    environment TEXT NOT NULL,
    vantage INTEGER NOT NULL,
    PRIMARY KEY (service, upstream, environment, vantage)
) STRICT, WITHOUT ROWID;

-- Per minute of receipt, what the sums of attempts don't tell: how requests ended, and what only
-- several attempts together show. Kept for some hours.
CREATE TABLE alert_minutes (
    minute INTEGER NOT NULL,
    service TEXT NOT NULL,
    upstream TEXT NOT NULL,
    environment TEXT NOT NULL,
    vantage INTEGER NOT NULL,
    first_try INTEGER NOT NULL,
    after_retry INTEGER NOT NULL,
    unsuccessful INTEGER NOT NULL,
    early INTEGER NOT NULL,
    duplicates INTEGER NOT NULL,
    ended INTEGER NOT NULL,
    within_1s INTEGER NOT NULL,
    within_5s INTEGER NOT NULL,
    within_10s INTEGER NOT NULL,
    within_30s INTEGER NOT NULL,
    within_60s INTEGER NOT NULL,
    within_120s INTEGER NOT NULL,
    PRIMARY KEY (minute, service, upstream, environment, vantage)
) STRICT, WITHOUT ROWID;

-- An alert: a rule and what it is about. `state` is the state machine's, `status` its word and
-- `since` when that began; `changes` counts the changes of state. `made` are the values that made
-- it pending or firing, `latest` those of the last evaluation.
CREATE TABLE alerts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    rule TEXT NOT NULL,
    service TEXT NOT NULL,
    upstream TEXT NOT NULL,
    environment TEXT NOT NULL,
    state TEXT NOT NULL,
    status TEXT NOT NULL,
    since INTEGER NOT NULL,
    changes INTEGER NOT NULL,
    fired_at INTEGER NOT NULL,
    evaluated_at INTEGER NOT NULL,
    made TEXT NOT NULL,
    latest TEXT NOT NULL,
    UNIQUE (rule, service, upstream, environment)
) STRICT;

CREATE INDEX alerts_by_status ON alerts (status, since);

-- Every change of state, with the values of that evaluation.
CREATE TABLE alert_history (
    alert_id INTEGER NOT NULL,
    number INTEGER NOT NULL,
    at INTEGER NOT NULL,
    change TEXT NOT NULL,
    state TEXT NOT NULL,
    finding TEXT NOT NULL,
    PRIMARY KEY (alert_id, number)
) STRICT, WITHOUT ROWID;

CREATE INDEX alert_history_by_time ON alert_history (at);

-- Alerts of which nobody is to be told for a time.
CREATE TABLE alert_silences (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    rule TEXT NOT NULL,
    service TEXT NOT NULL,
    upstream TEXT NOT NULL,
    environment TEXT NOT NULL,
    from_at INTEGER NOT NULL,
    until_at INTEGER NOT NULL,
    who TEXT NOT NULL,
    why TEXT NOT NULL,
    made_at INTEGER NOT NULL
) STRICT;

CREATE INDEX alert_silences_by_end ON alert_silences (until_at);

-- Somebody looks after an alert: that firing of it which began at `fired_at`.
CREATE TABLE alert_acknowledgements (
    alert_id INTEGER NOT NULL,
    fired_at INTEGER NOT NULL,
    who TEXT NOT NULL,
    why TEXT NOT NULL,
    at INTEGER NOT NULL,
    until_at INTEGER NOT NULL,
    PRIMARY KEY (alert_id, fired_at)
) STRICT, WITHOUT ROWID;

-- What is to be told: a row for each alert, change and receiver, written with the change itself.
-- `key` stays the same however often it is sent. `leased_until`: somebody is sending it.
-- `outcome` is empty until it is `delivered`, `dropped` or `superseded`.
CREATE TABLE alert_outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    alert_id INTEGER NOT NULL,
    number INTEGER NOT NULL,
    receiver TEXT NOT NULL,
    change TEXT NOT NULL,
    key TEXT NOT NULL,
    notice TEXT NOT NULL,
    made_at INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    next_at INTEGER NOT NULL,
    leased_until INTEGER NOT NULL,
    last_error TEXT NOT NULL,
    outcome TEXT NOT NULL,
    ended_at INTEGER NOT NULL,
    UNIQUE (key, receiver)
) STRICT;

CREATE INDEX alert_outbox_waiting ON alert_outbox (outcome, next_at);

CREATE INDEX alert_outbox_by_alert ON alert_outbox (alert_id, number);
