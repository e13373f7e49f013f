-- Seals: each row has a SHA-256 over all its values, so that one that was changed, or put into
-- another row, is found. Journals are chained, large values are named by their digest and cards
-- have a checksum over all of them: those need none. Every row that is there is written once.

-- The values of a row as text behind their lengths in bytes, `-` for none, hashed. Called by the
-- statements that write, never by a trigger: a trigger would seal what somebody else has changed.
CREATE FUNCTION semel.seal(VARIADIC parts text[]) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT sha256(convert_to(string_agg(
        CASE WHEN part IS NULL THEN '-' ELSE octet_length(part) || ':' || part END, ','
        ORDER BY place), 'UTF8'))
    FROM unnest(parts) WITH ORDINALITY AS p(part, place)
$$;

ALTER TABLE semel.effects ADD COLUMN seal bytea;
ALTER TABLE semel.runs ADD COLUMN seal bytea;
ALTER TABLE semel.inbox ADD COLUMN seal bytea;
ALTER TABLE semel.returns ADD COLUMN seal bytea;
ALTER TABLE semel.lost ADD COLUMN seal bytea;
ALTER TABLE semel.outbox ADD COLUMN seal bytea;
ALTER TABLE semel.meta ADD COLUMN seal bytea;

UPDATE semel.effects SET seal = semel.seal('effect', namespace, action, key, generation::text,
    version::text, state, workflow, created_at::text, due_at::text, sweep_at::text,
    alarmed::int::text, held::int::text, sum::text);
UPDATE semel.runs SET seal = semel.seal('run', number::text, namespace, id, version::text,
    workflow, key, lane, state, parked::int::text, fence::text, created_at::text, wake_at::text,
    waits_on, queue, sweep_at::text, sum::text);
UPDATE semel.inbox SET seal = semel.seal('delivery', run::text, number::text, identity, name,
    payload, at::text, consumed::int::text);
UPDATE semel.returns SET seal = semel.seal('return', epoch::text, opened_at::text,
    recovered_at::text, evidence, closed_at::text, closed_by, close_reason);
UPDATE semel.lost SET seal = semel.seal('lost', epoch::text, namespace, action, name,
    generation::text, version::text, state, written_at::text, worker);
UPDATE semel.outbox SET seal = semel.seal('intent', namespace, action, key, input, workflow,
    created_at::text, refused_code, refused_text);

ALTER TABLE semel.effects ALTER COLUMN seal SET NOT NULL;
ALTER TABLE semel.runs ALTER COLUMN seal SET NOT NULL;
ALTER TABLE semel.inbox ALTER COLUMN seal SET NOT NULL;

-- As before, and sealed.
-- Writes an intent in the caller's own transaction: the effect of `action` for `key`, with `input`.
-- It is checked here as far as SQL can, so that a mistake is the caller's error and not a row that
-- nobody delivers. The right to execute it is all that the caller's role needs; it stays.
CREATE OR REPLACE FUNCTION semel.intend(
    action text, key text, input json, namespace text DEFAULT 'default'
) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    control constant text := '[' || chr(1) || '-' || chr(31) || chr(127) || '-' || chr(159) || ']';
    visible constant text := '[^ ' || chr(160) || chr(5760) || chr(8192) || '-' || chr(8202)
        || chr(8232) || chr(8233) || chr(8239) || chr(8287) || chr(12288) || ']';
    encoded text := replace(replace(intend.key, '%', '%25'), ',', '%2C');
    written text := coalesce(intend.input::text, 'null');
    wrong text;
    number bigint;
    made bigint := (extract(epoch FROM clock_timestamp()) * 1000)::bigint;
BEGIN
    wrong := CASE
        WHEN intend.namespace IS NULL OR intend.namespace !~ '^[A-Za-z0-9._-]{1,100}$' THEN
            'name_invalid: namespace must be 1 to 100 ASCII letters, digits, `.`, `_` or `-`'
        WHEN coalesce(intend.action, '') = '' THEN 'name_invalid: action is empty'
        WHEN octet_length(intend.action) > 100 THEN
            'name_invalid: action is longer than 100 bytes'
        WHEN intend.action ~ control THEN 'name_invalid: action has a control character'
        WHEN intend.action ~ '/' THEN 'name_invalid: action has a `/`'
        WHEN intend.action ~ ('[' || substr(visible, 3)) THEN
            'name_invalid: action has whitespace'
        WHEN coalesce(encoded, '') = '' THEN 'key_invalid: key is empty'
        WHEN octet_length(encoded) > 255 THEN
            'key_invalid: key is longer than 255 bytes when encoded'
        WHEN encoded ~ control THEN 'key_invalid: key has a control character'
        WHEN encoded !~ visible THEN 'key_invalid: key is blank'
        WHEN octet_length(written) > 1048576 THEN
            'input_invalid: input is longer than 1048576 bytes'
    END;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'semel: ' || wrong,
            HINT = 'Nothing was written. The page of this code says what to do.';
    END IF;
    INSERT INTO semel.outbox (namespace, action, key, input, created_at, seal)
        VALUES (intend.namespace, intend.action, encoded, written, made, semel.seal('intent',
            intend.namespace, intend.action, encoded, written, NULL, made::text, NULL, NULL))
        RETURNING id INTO number;
    RETURN number;
END
$$;
