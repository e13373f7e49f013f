-- One row that nobody ever changes. Whatever puts rows back, be it into new tables or into these,
-- writes it anew, and Postgres keeps with each row which transaction did: its `xmin` tells these
-- rows from a copy of them. `VACUUM FULL`, a restart and a standby keep it. Never rewrite it.
CREATE TABLE semel.identity (
    id smallint PRIMARY KEY CHECK (id = 1)
);

INSERT INTO semel.identity (id) VALUES (1);

-- What was known of the server, the timeline and the first table stays as it was found.
UPDATE semel.meta SET server = split_part(server, '/', 1) || '/' || split_part(server, '/', 2)
    || '/' || split_part(split_part(server, '/', 3), '.', 1)
    || '.' || 'semel.runs'::regclass::oid || '.' || 'semel.journal'::regclass::oid
    || '.' || 'semel.inbox'::regclass::oid || '.' || 'semel.cards'::regclass::oid
    || '.' || 'semel.meta'::regclass::oid
    || '/' || (SELECT xmin FROM semel.identity);
