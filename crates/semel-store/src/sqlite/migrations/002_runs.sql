-- Runs. One row is one run; `record` says where it stands, as JSON, and every other column but
-- `version` is derived from it when it is written. `version` lives here alone: a delivery from
-- outside raises it without rewriting the record.
--
-- `wake_at` is the one time at which somebody must look at a run: it is ready, a timer is due or
-- its holder's lease has lapsed. So a worker takes all three with one query on one index.

CREATE TABLE runs (
    number     INTEGER PRIMARY KEY,         -- given by the starter, larger for later runs
    namespace  TEXT NOT NULL,
    id         TEXT NOT NULL,
    version    INTEGER NOT NULL,
    workflow   TEXT NOT NULL,
    key        TEXT NOT NULL,
    lane       TEXT NOT NULL,               -- workers ask by this
    state      TEXT NOT NULL,
    parked     INTEGER NOT NULL,            -- nobody holds it, a touch makes it due
    fence      INTEGER NOT NULL,
    created_at INTEGER NOT NULL,            -- wall clock, ms
    wake_at    INTEGER,                     -- steady clock of the boot in `meta`, ms
    waits_on   TEXT,
    sweep_at   INTEGER,                     -- wall clock, ms
    sum        INTEGER NOT NULL,            -- checksum of `record`
    record     TEXT NOT NULL,
    UNIQUE (namespace, id),
    -- Nothing is ever stuck without saying what it waits for.
    CHECK (wake_at IS NOT NULL OR waits_on IS NOT NULL
        OR state = 'done' OR state = 'failed' OR state = 'cancelled' OR state = 'expired')
) STRICT;

CREATE INDEX runs_wake ON runs (lane, wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX runs_open ON runs (state)
    WHERE state <> 'done' AND state <> 'failed' AND state <> 'cancelled' AND state <> 'expired';
CREATE INDEX runs_sweep ON runs (sweep_at) WHERE sweep_at IS NOT NULL;

-- What happened in a run, in order. Rows lie in the order in which they came, whatever their run:
-- the entries of many runs that go on at once fill the same few pages. Clustered by run, each
-- commit would dirty one page for each of them.
CREATE TABLE journal (
    run   INTEGER NOT NULL,
    seq   INTEGER NOT NULL,
    link  BLOB NOT NULL,                    -- ties the entry to all before it
    entry TEXT NOT NULL
) STRICT;

CREATE UNIQUE INDEX journal_place ON journal (run, seq);

-- What came from outside for a run. A consumed delivery stays: its identity is not new again.
CREATE TABLE inbox (
    run      INTEGER NOT NULL,
    number   INTEGER NOT NULL,              -- the order in which they came
    identity TEXT NOT NULL,
    name     TEXT NOT NULL,
    payload  TEXT NOT NULL,
    at       INTEGER NOT NULL,              -- wall clock, ms
    consumed INTEGER NOT NULL,
    UNIQUE (run, identity),
    UNIQUE (run, number)
) STRICT;

CREATE INDEX inbox_waiting ON inbox (run, number) WHERE consumed = 0;

-- Large values, by what they contain, and the runs that need them.
CREATE TABLE blobs (
    namespace TEXT NOT NULL,
    digest    TEXT NOT NULL,
    text      TEXT NOT NULL,
    PRIMARY KEY (namespace, digest)
) STRICT;

CREATE TABLE blob_uses (
    namespace TEXT NOT NULL,
    digest    TEXT NOT NULL,
    run       INTEGER NOT NULL,
    PRIMARY KEY (namespace, digest, run)
) STRICT, WITHOUT ROWID;

CREATE INDEX blob_uses_run ON blob_uses (run);
