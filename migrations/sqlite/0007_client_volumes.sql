-- What clients counted themselves by `http.client.request.duration`, beside the attempts and never
-- added to them.

-- How far streams of data points were read, so that a point that is sent again adds nothing.
-- `id`: a hash of all that its sender says of it, with its start. `read_to`, `read_before`: the ends
-- of its newest point and of the one before (milliseconds since 1970). `requests`: its count.
-- `forget_at`: when it may be removed (likewise).
CREATE TABLE metric_streams (
    id TEXT NOT NULL PRIMARY KEY,
    read_to INTEGER NOT NULL,
    read_before INTEGER,
    requests INTEGER NOT NULL,
    forget_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX metric_streams_old ON metric_streams (forget_at);

-- `answer`: a status code, or why there was none. `environment`: empty where none was told.
CREATE TABLE volume_series (
    id INTEGER PRIMARY KEY,
    service TEXT NOT NULL,
    upstream TEXT NOT NULL,
    environment TEXT NOT NULL,
    metric TEXT NOT NULL,
    answer TEXT NOT NULL,
    UNIQUE (service, upstream, environment, metric, answer)
) STRICT;

-- Requests per minute (milliseconds since 1970). A row with 0 says that there were none.
CREATE TABLE client_volumes (
    series INTEGER NOT NULL,
    minute INTEGER NOT NULL,
    requests INTEGER NOT NULL,
    PRIMARY KEY (series, minute)
) STRICT, WITHOUT ROWID;

-- Batches of points are read and added one after another: each moves this number on, and what was
-- worked out over another number is worked out anew.
CREATE TABLE volume_batches (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    done INTEGER NOT NULL
) STRICT;

INSERT INTO volume_batches (id, done) VALUES (1, 0);
