-- Attempts of an outgoing notification, each counted as it begins. The column attempts counts goes,
-- each of which is several attempts under one lease.
ALTER TABLE alert_outbox ADD COLUMN tries BIGINT NOT NULL DEFAULT 0;
