-- What receivers of notifications said about being sent to at all: it counts for every process.
--
-- `address`: the beginning of a hash of where it is sent to, since another address of the same name
-- said nothing. `held_until`: it asked, by Retry-After, for nothing before. `gone_at`: when it
-- answered 410 Gone, 0 where it didn't. Times are milliseconds since 1970.
CREATE TABLE alert_receivers (
    name TEXT COLLATE "C" NOT NULL,
    address TEXT COLLATE "C" NOT NULL,
    held_until BIGINT NOT NULL,
    gone_at BIGINT NOT NULL,
    PRIMARY KEY (name, address)
);
