-- Seals: each row has a SHA-256 over all its values, so that one that was changed, or put into
-- another row, is found. Journals are chained, large values are named by their digest and cards
-- have a checksum over all of them: those need none.
--
-- `semel_seal` is a function of Semel, known to the connection that migrates: the values as text
-- behind their lengths, hashed. Rows that are there are sealed as they are found.

ALTER TABLE effects ADD COLUMN seal BLOB NOT NULL DEFAULT x'';
ALTER TABLE runs ADD COLUMN seal BLOB NOT NULL DEFAULT x'';
ALTER TABLE inbox ADD COLUMN seal BLOB NOT NULL DEFAULT x'';
ALTER TABLE returns ADD COLUMN seal BLOB NOT NULL DEFAULT x'';
ALTER TABLE meta ADD COLUMN seal BLOB NOT NULL DEFAULT x'';

UPDATE effects SET seal = semel_seal('effect', namespace, action, key, generation, version, state,
    workflow, created_at, due_at, sweep_at, alarmed, held, sum);
UPDATE runs SET seal = semel_seal('run', number, namespace, id, version, workflow, key, lane,
    state, parked, fence, created_at, wake_at, waits_on, queue, sweep_at, sum);
UPDATE inbox SET seal = semel_seal('delivery', run, number, identity, name, payload, at, consumed);
UPDATE returns SET seal = semel_seal('return', epoch, opened_at, recovered_at, evidence,
    closed_at, closed_by, close_reason);
UPDATE meta SET seal = semel_seal('meta', store_id, epoch, commits, wall_high, boot_id, boot);
