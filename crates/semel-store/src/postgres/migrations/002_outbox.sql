-- The outbox: intents that a user's own transaction has written, until a worker has made planned
-- effects of them. A row goes in the commit that plans its effect; one that cannot be planned stays
-- and says why.

CREATE TABLE semel.outbox (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace    text COLLATE "C" NOT NULL,
    action       text COLLATE "C" NOT NULL,
    key          text COLLATE "C" NOT NULL,     -- encoded
    input        text NOT NULL,                 -- JSON, as it was given
    workflow     text,
    created_at   bigint NOT NULL                -- wall clock, ms
        DEFAULT (extract(epoch FROM clock_timestamp()) * 1000)::bigint,
    refused_code text,
    refused_text text
);

CREATE INDEX outbox_waiting ON semel.outbox (namespace, action, id) WHERE refused_code IS NULL;

-- Rows live for a second: dead ones are removed at the speed at which they come.
ALTER TABLE semel.outbox SET (
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- Writes an intent in the caller's own transaction: the effect of `action` for `key`, with `input`.
-- It is checked here as far as SQL can, so that a mistake is the caller's error and not a row that
-- nobody delivers. The right to execute it is all that the caller's role needs.
CREATE FUNCTION semel.intend(
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
    INSERT INTO semel.outbox (namespace, action, key, input)
        VALUES (intend.namespace, intend.action, encoded, written) RETURNING id INTO number;
    RETURN number;
END
$$;

REVOKE ALL ON FUNCTION semel.intend(text, text, json, text) FROM PUBLIC;
