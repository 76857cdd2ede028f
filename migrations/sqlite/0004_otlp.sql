-- Spans that were sent over OTLP, until their operation is settled and a while longer, so that late
-- ones still find it. A span is acknowledged once it is here; what it becomes is an ordinary event.
--
-- `hood`: what is looked at together: service, host and method of a client's span, empty for a
-- server's; NULL for spans that only others refer to. `start_us`: microseconds since 1970.
-- `due_at`: when its operation may be settled (milliseconds since 1970); NULL: nothing is to be done.
-- `operation_id`: the operation it was put into. `span`: JSON, without anything secret.
CREATE TABLE otlp_spans (
    trace_id TEXT NOT NULL,
    span_id TEXT NOT NULL,
    hood TEXT,
    received_at INTEGER NOT NULL,
    start_us INTEGER NOT NULL,
    due_at INTEGER,
    operation_id TEXT,
    span TEXT NOT NULL,
    PRIMARY KEY (trace_id, span_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX otlp_spans_due ON otlp_spans (due_at, hood) WHERE due_at IS NOT NULL;
CREATE INDEX otlp_spans_open ON otlp_spans (hood, start_us) WHERE due_at IS NOT NULL;
CREATE INDEX otlp_spans_done ON otlp_spans (hood, start_us) WHERE due_at IS NULL AND hood IS NOT NULL;
CREATE INDEX otlp_spans_old ON otlp_spans (received_at) WHERE due_at IS NULL;

-- Waits that clients' logs tell of, by the trace they were logged in: how long a client said it was
-- going to wait, and when (microseconds since 1970).
CREATE TABLE otlp_waits (
    trace_id TEXT NOT NULL,
    at_us INTEGER NOT NULL,
    delay_ms INTEGER NOT NULL,
    received_at INTEGER NOT NULL,
    PRIMARY KEY (trace_id, at_us, delay_ms)
) STRICT, WITHOUT ROWID;

CREATE INDEX otlp_waits_old ON otlp_waits (received_at);
