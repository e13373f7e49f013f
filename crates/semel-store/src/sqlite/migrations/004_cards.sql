-- Cards: small guarded records that runs share, such as a schedule or a gate. The store knows their
-- name, their version and when they are due; what `record` says belongs to the rules. `sum` is over
-- the whole card: its record need not repeat the other columns.

CREATE TABLE cards (
    namespace TEXT NOT NULL,
    kind      TEXT NOT NULL,
    name      TEXT NOT NULL,
    version   INTEGER NOT NULL,
    due_at    INTEGER,                      -- wall clock, ms
    sum       INTEGER NOT NULL,             -- checksum of all other columns
    record    TEXT NOT NULL,
    PRIMARY KEY (namespace, kind, name)
) STRICT;

-- The names behind the time: where many are due at once, a page of them is read without a sort.
CREATE INDEX cards_due ON cards (kind, due_at, namespace, name) WHERE due_at IS NOT NULL;
-- All of one kind, in every namespace.
CREATE INDEX cards_kind ON cards (kind, namespace, name);

-- The queue in which a run stands while nobody holds it, and the effects that wait for a person's
-- approval. Neither was known before, so the rows that are there have none.
ALTER TABLE runs ADD COLUMN queue TEXT;
CREATE INDEX runs_queue ON runs (queue, number) WHERE queue IS NOT NULL;

ALTER TABLE effects ADD COLUMN held INTEGER NOT NULL DEFAULT 0;
CREATE INDEX effects_held ON effects (row) WHERE held = 1;
