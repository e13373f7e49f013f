-- Cards: small guarded records that runs share, such as a schedule or a gate. The store knows their
-- name, their version and when they are due; what `record` says belongs to the rules. `sum` is over
-- the whole card: its record need not repeat the other columns.

CREATE TABLE semel.cards (
    namespace text COLLATE "C" NOT NULL,
    kind      text COLLATE "C" NOT NULL,
    name      text COLLATE "C" NOT NULL,
    version   bigint NOT NULL,
    due_at    bigint,                       -- wall clock, ms
    sum       bigint NOT NULL,              -- checksum of all other columns
    record    text NOT NULL,
    PRIMARY KEY (namespace, kind, name)
) WITH (fillfactor = 80);

-- The names behind the time: where many are due at once, a page of them is read without a sort.
CREATE INDEX cards_due ON semel.cards (kind, due_at, namespace, name) WHERE due_at IS NOT NULL;
-- All of one kind, in every namespace.
CREATE INDEX cards_kind ON semel.cards (kind, namespace, name);

-- A gate is one row that changes with each run that passes: dead versions are removed early, and at
-- the speed at which they come.
ALTER TABLE semel.cards SET (
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.1,
    autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.05);

-- The queue in which a run stands while nobody holds it, and the effects that wait for a person's
-- approval. Neither was known before, so the rows that are there have none, and no table is
-- rewritten.
ALTER TABLE semel.runs ADD COLUMN queue text COLLATE "C";
CREATE INDEX runs_queue ON semel.runs (queue, number) WHERE queue IS NOT NULL;

ALTER TABLE semel.effects ADD COLUMN held boolean NOT NULL DEFAULT false;
CREATE INDEX effects_held ON semel.effects (row) WHERE held;
