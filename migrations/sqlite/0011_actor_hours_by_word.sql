-- Which services use a key is asked of few keys among all: by this index it isn't a walk through the
-- rows of all pairs and keys.
CREATE INDEX actor_hours_by_word ON actor_hours (word_id, start);
