-- Old slices become one (src/store/sqlite/merge.rs), so that a look-up asks few however much is
-- stored.
--
-- `level`: 0 for a slice that events are written to as they come, one more for what four of a level
-- became. Ids of events that were removed stay with such a slice until all of them were.
ALTER TABLE slices ADD COLUMN level INTEGER NOT NULL DEFAULT 0;

-- Slices whose time belongs to another one already, while their ids still go there a few at a time.
-- `target` is 0 where nothing is stored of their time any more and the ids are removed.
CREATE TABLE draining (
    slice INTEGER NOT NULL PRIMARY KEY,
    target INTEGER NOT NULL
) STRICT;
