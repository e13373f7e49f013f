-- The ledger. One row is one generation of one effect; `record` is the whole truth about it, as
-- JSON, and every other column is derived from it when it is written, to find the row by.
--
-- A row is inserted when an attempt is armed and updated when it is settled. The indexes are
-- partial, so that those two writes touch as little as they can: a pending row is in
-- `effects_due`, a done one in `effects_sweep`, and only what needs a person is in
-- `effects_attention`.

CREATE TABLE effects (
    row        INTEGER PRIMARY KEY,
    namespace  TEXT NOT NULL,
    action     TEXT NOT NULL,
    key        TEXT NOT NULL,
    generation INTEGER NOT NULL,
    version    INTEGER NOT NULL,
    state      TEXT NOT NULL,
    workflow   TEXT,
    created_at INTEGER NOT NULL,            -- wall clock, ms
    due_at     INTEGER,                     -- steady clock of the boot in `meta`, ms
    sweep_at   INTEGER,                     -- wall clock, ms
    alarmed    INTEGER NOT NULL,
    sum        INTEGER NOT NULL,            -- checksum of `record`
    record     TEXT NOT NULL,
    UNIQUE (namespace, action, key, generation)
) STRICT;

CREATE INDEX effects_due ON effects (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX effects_sweep ON effects (sweep_at) WHERE sweep_at IS NOT NULL;
-- Not `IN (...)`: SQLite would build and drop a set for it with every write.
CREATE INDEX effects_attention ON effects (state)
    WHERE state <> 'pending' AND state <> 'done' AND state <> 'expired';
CREATE INDEX effects_alarmed ON effects (row) WHERE alarmed = 1;

-- What the store knows of itself: one row.
CREATE TABLE meta (
    id        INTEGER PRIMARY KEY CHECK (id = 1),
    store_id  TEXT NOT NULL,                -- random, to tell two stores apart
    epoch     INTEGER NOT NULL,             -- grows when the store is found to have gone back
    commits   INTEGER NOT NULL,             -- grows with each commit
    wall_high INTEGER NOT NULL,             -- the latest wall time of a commit
    boot_id   TEXT NOT NULL,                -- the boot that `due_at` counts from
    boot      INTEGER NOT NULL,             -- its number, as records name it
    quarantine_opened    INTEGER,           -- wall clock, ms
    quarantine_recovered INTEGER
) STRICT;
