-- Every time the store was found to have gone back in time. The newest one that nobody has closed
-- is the quarantine; `meta` no longer knows of it.

CREATE TABLE returns (
    epoch        INTEGER PRIMARY KEY,       -- the epoch that began with it
    opened_at    INTEGER NOT NULL,          -- wall clock, ms
    recovered_at INTEGER NOT NULL,          -- wall clock, ms: from here on the store has forgotten
    evidence     TEXT NOT NULL,
    closed_at    INTEGER,                   -- wall clock, ms
    closed_by    TEXT,
    close_reason TEXT,
    CHECK ((closed_at IS NULL) = (closed_by IS NULL)
        AND (closed_at IS NULL) = (close_reason IS NULL))
) STRICT;

INSERT INTO returns (epoch, opened_at, recovered_at, evidence)
    SELECT epoch, quarantine_opened, quarantine_recovered, 'found by an older Semel'
    FROM meta WHERE quarantine_opened IS NOT NULL AND quarantine_recovered IS NOT NULL;

ALTER TABLE meta DROP COLUMN quarantine_opened;
ALTER TABLE meta DROP COLUMN quarantine_recovered;
