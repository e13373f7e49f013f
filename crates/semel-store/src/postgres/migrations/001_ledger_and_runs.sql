-- Everything that a store keeps, in a schema of its own. The tables are those of SQLite: `record`
-- is the whole truth about a row, and every other column is derived from it when it is written.
--
-- Partial indexes keep the two writes of an effect cheap: a pending row is in `effects_due`, a done
-- one in `effects_sweep`, and only what needs a person is in `effects_attention`.

CREATE SEQUENCE semel.effect_rows;

CREATE TABLE semel.effects (
    row        bigint PRIMARY KEY,          -- in the order in which they came
    namespace  text COLLATE "C" NOT NULL,
    action     text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    generation bigint NOT NULL,
    version    bigint NOT NULL,
    state      text COLLATE "C" NOT NULL,
    workflow   text,
    created_at bigint NOT NULL,             -- wall clock, ms
    due_at     bigint,                      -- ms since `boot_since` in `meta`
    sweep_at   bigint,                      -- wall clock, ms
    alarmed    boolean NOT NULL,
    sum        bigint NOT NULL,             -- checksum of `record`
    record     text NOT NULL,
    UNIQUE (namespace, action, key, generation)
);

CREATE INDEX effects_due ON semel.effects (due_at, row) WHERE due_at IS NOT NULL;
CREATE INDEX effects_sweep ON semel.effects (sweep_at, row) WHERE sweep_at IS NOT NULL;
CREATE INDEX effects_attention ON semel.effects (state, row)
    WHERE state NOT IN ('pending', 'done', 'expired');
CREATE INDEX effects_alarmed ON semel.effects (row) WHERE alarmed;

-- `version` lives in its column alone: a delivery from outside raises it without rewriting the
-- record. `wake_at` is the one time at which somebody must look at a run: it is ready, a timer is
-- due or its holder's lease has lapsed.
CREATE TABLE semel.runs (
    number     bigint PRIMARY KEY,          -- given by the starter, larger for later runs
    namespace  text COLLATE "C" NOT NULL,
    id         text COLLATE "C" NOT NULL,
    version    bigint NOT NULL,
    workflow   text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    lane       text COLLATE "C" NOT NULL,   -- workers ask by this
    state      text COLLATE "C" NOT NULL,
    parked     boolean NOT NULL,            -- nobody holds it, a touch makes it due
    fence      bigint NOT NULL,
    created_at bigint NOT NULL,             -- wall clock, ms
    wake_at    bigint,                      -- ms since `boot_since` in `meta`
    waits_on   text,
    sweep_at   bigint,                      -- wall clock, ms
    sum        bigint NOT NULL,             -- checksum of `record`
    record     text NOT NULL,
    shown_to   text,                        -- the process that is about to take it, a hint
    shown_until bigint,                     -- on the clock of `wake_at`
    UNIQUE (namespace, id),
    -- Nothing is ever stuck without saying what it waits for.
    CHECK (wake_at IS NOT NULL OR waits_on IS NOT NULL
        OR state IN ('done', 'failed', 'cancelled', 'expired'))
) WITH (fillfactor = 80);

CREATE INDEX runs_wake ON semel.runs (lane, wake_at, number) WHERE wake_at IS NOT NULL;
CREATE INDEX runs_open ON semel.runs (state, number)
    WHERE state NOT IN ('done', 'failed', 'cancelled', 'expired');
CREATE INDEX runs_sweep ON semel.runs (sweep_at, number) WHERE sweep_at IS NOT NULL;

CREATE TABLE semel.journal (
    run   bigint NOT NULL,
    seq   bigint NOT NULL,
    link  bytea NOT NULL,                   -- ties the entry to all before it
    entry text NOT NULL,
    PRIMARY KEY (run, seq)
);

-- A consumed delivery stays: its identity is not new again.
CREATE TABLE semel.inbox (
    run      bigint NOT NULL,
    number   bigint NOT NULL,               -- the order in which they came
    identity text COLLATE "C" NOT NULL,
    name     text COLLATE "C" NOT NULL,
    payload  text NOT NULL,
    at       bigint NOT NULL,               -- wall clock, ms
    consumed boolean NOT NULL,
    PRIMARY KEY (run, number),
    UNIQUE (run, identity)
);

CREATE INDEX inbox_waiting ON semel.inbox (run, number) WHERE NOT consumed;

CREATE TABLE semel.blobs (
    namespace text COLLATE "C" NOT NULL,
    digest    text COLLATE "C" NOT NULL,
    text      text NOT NULL,
    PRIMARY KEY (namespace, digest)
);

CREATE TABLE semel.blob_uses (
    namespace text COLLATE "C" NOT NULL,
    digest    text COLLATE "C" NOT NULL,
    run       bigint NOT NULL,
    PRIMARY KEY (namespace, digest, run)
);

CREATE INDEX blob_uses_run ON semel.blob_uses (run);

-- Every time the store was found to have gone back. The newest that is not closed is the
-- quarantine in force.
CREATE TABLE semel.returns (
    epoch        bigint PRIMARY KEY,
    opened_at    bigint NOT NULL,           -- wall clock, ms
    recovered_at bigint NOT NULL,           -- the newest time the store still knew of
    evidence     text NOT NULL,
    closed_at    bigint,
    closed_by    text,
    close_reason text
);

-- What processes remember to have written and the store has forgotten.
CREATE TABLE semel.lost (
    cursor     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    epoch      bigint NOT NULL,
    namespace  text NOT NULL,
    action     text,                        -- of an effect; a run has none
    name       text NOT NULL,               -- the key of an effect, the id of a run
    generation bigint,
    version    bigint NOT NULL,
    state      text NOT NULL,
    written_at bigint NOT NULL,             -- wall clock, ms
    worker     text NOT NULL
);

-- What the store knows of itself: one row.
CREATE TABLE semel.meta (
    id         smallint PRIMARY KEY CHECK (id = 1),
    format     bigint NOT NULL,
    store_id   text NOT NULL,               -- random, to tell two stores apart
    epoch      bigint NOT NULL,             -- grows when the store is found to have gone back
    server     text NOT NULL,               -- which server, on which timeline, with which tables
    boot       bigint NOT NULL,             -- grows with `server`, as records name it
    boot_since bigint NOT NULL,             -- where `due_at` and `wake_at` count from, wall ms
    wall_high  bigint NOT NULL              -- a late wall time of some commit
);

-- Rows of these change often and are read by their indexes: dead ones are removed early, and at
-- the speed at which they come.
ALTER TABLE semel.effects SET (
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.1,
    autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.05);
ALTER TABLE semel.runs SET (
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.1,
    autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.05);
ALTER TABLE semel.journal SET (
    autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
