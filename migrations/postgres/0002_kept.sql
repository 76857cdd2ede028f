-- Since when there is anything: what is older was removed, by its age or for the disk budget.
--
-- `events`: rows, and the sums finer than an hour; `sums`: those of hours; `gathered`: what
-- was received before its `since` is gathered into coarser sums, and what was received in the five
-- minutes from there on where it happened before `received_since`. Moments before `since`
-- (by the time of events, a whole hour) have none, and all that was received from `received_since`
-- on is there. `budget_since` is the last `since` that the disk budget set. How many rows went, and
-- how many of them for the budget.
CREATE TABLE kept (
    what TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    since BIGINT NOT NULL,
    received_since BIGINT NOT NULL,
    budget_since BIGINT NOT NULL,
    removed BIGINT NOT NULL,
    removed_for_budget BIGINT NOT NULL
);

INSERT INTO kept (what, since, received_since, budget_since, removed, removed_for_budget)
VALUES ('events', -9223372036854775808, -9223372036854775808, -9223372036854775808, 0, 0),
       ('gathered', -9223372036854775808, -9223372036854775808, -9223372036854775808, 0, 0),
       ('sums', -9223372036854775808, -9223372036854775808, -9223372036854775808, 0, 0);

-- The last day (since 1970) on which a name was used, by either clock; a name last used before all
-- that is kept is removed. NULL: not known, so that it stays.
ALTER TABLE series ADD COLUMN used_on BIGINT;
ALTER TABLE words ADD COLUMN used_on BIGINT;
