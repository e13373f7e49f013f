//! The rows that a group of batches touches, read into the model. Rows that may be written are
//! locked, in the order of their names, so that two groups never wait for each other in a circle.

use semel_core::effect::State;
use semel_core::journal::Link;
use semel_core::key::{Action, Address, Key, Namespace};
use semel_core::run;
use semel_core::time::{Steady, Wall};
use tokio_postgres::Row as SqlRow;
use tokio_postgres::types::Type;

use super::connect::Session;
use super::wanted::{End, Wanted};
use super::wire::Line;
use crate::model::Rows;
use crate::{Card, Delivery, Row, RunRow, StoreError};

pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

const EFFECTS: &str = "SELECT e.row, e.namespace, e.action, e.key, e.generation, e.version, \
     e.state, e.workflow, e.created_at, e.due_at, e.sweep_at, e.alarmed, e.sum, e.record, \
     e.held \
     FROM unnest($1::text[], $2::text[], $3::text[]) AS w(namespace, action, key) \
     JOIN semel.effects AS e USING (namespace, action, key) \
     ORDER BY e.namespace, e.action, e.key, e.generation FOR UPDATE OF e";

const RUNS: &str = "WITH w AS (SELECT unnest($1::bigint[]) AS number UNION \
     SELECT r.number FROM unnest($2::text[], $3::text[]) AS n(namespace, id) \
     JOIN semel.runs AS r USING (namespace, id)) \
     SELECT r.number, r.namespace, r.id, r.version, r.workflow, r.key, r.lane, r.state, r.parked, \
     r.fence, r.created_at, r.wake_at, r.waits_on, r.sweep_at, r.sum, r.record, r.queue \
     FROM w JOIN semel.runs AS r USING (number) ORDER BY r.number FOR UPDATE OF r";

const HELD: &str = "SELECT r.number, r.namespace, r.id, r.version, r.workflow, r.key, r.lane, \
     r.state, r.parked, r.fence, r.created_at, r.wake_at, r.waits_on, r.sweep_at, r.sum, r.record, \
     r.queue \
     FROM unnest($1::bigint[]) AS w(number) JOIN semel.runs AS r USING (number)";

const ENTRIES: &str = "SELECT j.run, j.seq, j.link \
     FROM unnest($1::bigint[], $2::bigint[]) AS w(run, seq) \
     JOIN semel.journal AS j USING (run, seq)";

const DELIVERIES: &str = "SELECT i.run, i.number, i.identity, i.name, i.payload, i.at, i.consumed, \
     i.seal FROM unnest($1::bigint[], $2::text[]) AS w(run, identity) \
     JOIN semel.inbox AS i USING (run, identity) ORDER BY i.run, i.number FOR UPDATE OF i";

/// Under the lock of their runs: nobody delivers in between.
const LAST_DELIVERIES: &str = "SELECT i.run, i.number, i.identity, i.name, i.payload, i.at, \
     i.consumed, i.seal FROM unnest($1::bigint[]) AS w(run) CROSS JOIN LATERAL \
     (SELECT * FROM semel.inbox WHERE run = w.run ORDER BY number DESC LIMIT 1) AS i";

const USES: &str = "SELECT u.namespace, u.digest, u.run \
     FROM unnest($1::text[], $2::text[], $3::bigint[]) AS w(namespace, digest, run) \
     JOIN semel.blob_uses AS u USING (namespace, digest, run)";

const CARDS: &str = "SELECT c.namespace, c.kind, c.name, c.version, c.due_at, c.record \
     FROM unnest($1::text[], $2::text[], $3::text[]) AS w(namespace, kind, name) \
     JOIN semel.cards AS c USING (namespace, kind, name) \
     ORDER BY c.namespace, c.kind, c.name FOR UPDATE OF c";

const TEXTS: [Type; 3] = [Type::TEXT_ARRAY, Type::TEXT_ARRAY, Type::TEXT_ARRAY];

/// All statements above and their types, to be prepared before they go out together.
pub(super) const STATEMENTS: [(&str, &[Type]); 8] = [
    (EFFECTS, &TEXTS),
    (RUNS, &[Type::INT8_ARRAY, Type::TEXT_ARRAY, Type::TEXT_ARRAY]),
    (HELD, &[Type::INT8_ARRAY]),
    (ENTRIES, &[Type::INT8_ARRAY, Type::INT8_ARRAY]),
    (DELIVERIES, &[Type::INT8_ARRAY, Type::TEXT_ARRAY]),
    (LAST_DELIVERIES, &[Type::INT8_ARRAY]),
    (USES, &[Type::TEXT_ARRAY, Type::TEXT_ARRAY, Type::INT8_ARRAY]),
    (CARDS, &TEXTS),
];

/// The answers to what was asked, still as Postgres gave them.
#[derive(Default)]
pub(super) struct Found {
    effects: Vec<SqlRow>,
    runs: Vec<SqlRow>,
    held: Vec<SqlRow>,
    entries: Vec<SqlRow>,
    deliveries: Vec<SqlRow>,
    last_deliveries: Vec<SqlRow>,
    uses: Vec<SqlRow>,
    cards: Vec<SqlRow>,
}

/// Asks for everything at once; what nobody wants is not asked.
pub(super) async fn ask(
    session: &Session,
    wanted: &Wanted<'_>,
) -> Result<Found, tokio_postgres::Error> {
    let effects = async {
        if wanted.effects.is_empty() {
            return Ok(Vec::new());
        }
        let namespaces: Vec<&str> = wanted.effects.iter().map(|a| a.namespace.as_str()).collect();
        let actions: Vec<&str> = wanted.effects.iter().map(|a| a.action.as_str()).collect();
        let keys: Vec<&str> = wanted.effects.iter().map(|a| a.key.as_str()).collect();
        let [a, b, c] = TEXTS;
        session.query(EFFECTS, &[(&namespaces, a), (&actions, b), (&keys, c)]).await
    };
    let runs = async {
        if wanted.runs.is_empty() && wanted.names.is_empty() {
            return Ok(Vec::new());
        }
        let numbers: Vec<i64> = wanted.runs.iter().copied().collect();
        let (namespaces, ids): (Vec<&str>, Vec<&str>) = wanted.names.iter().copied().unzip();
        let [a, b, _] = TEXTS;
        let params = &[(&numbers as _, Type::INT8_ARRAY), (&namespaces as _, a), (&ids as _, b)];
        session.query(RUNS, params).await
    };
    let held = async {
        let numbers: Vec<i64> = wanted.held.difference(&wanted.runs).copied().collect();
        match numbers.is_empty() {
            true => Ok(Vec::new()),
            false => session.query(HELD, &[(&numbers, Type::INT8_ARRAY)]).await,
        }
    };
    let entries = async {
        let (runs, seqs): (Vec<i64>, Vec<i64>) = wanted.entries.iter().copied().unzip();
        let params = &[(&runs as _, Type::INT8_ARRAY), (&seqs as _, Type::INT8_ARRAY)];
        match runs.is_empty() {
            true => Ok(Vec::new()),
            false => session.query(ENTRIES, params).await,
        }
    };
    let deliveries = async {
        let (runs, identities): (Vec<i64>, Vec<&str>) = wanted.deliveries.iter().copied().unzip();
        let params = &[(&runs as _, Type::INT8_ARRAY), (&identities as _, Type::TEXT_ARRAY)];
        match runs.is_empty() {
            true => Ok(Vec::new()),
            false => session.query(DELIVERIES, params).await,
        }
    };
    let last_deliveries = async {
        let runs: Vec<i64> = wanted.inboxes.iter().copied().collect();
        match runs.is_empty() {
            true => Ok(Vec::new()),
            false => session.query(LAST_DELIVERIES, &[(&runs, Type::INT8_ARRAY)]).await,
        }
    };
    let uses = async {
        if wanted.uses.is_empty() {
            return Ok(Vec::new());
        }
        let namespaces: Vec<&str> = wanted.uses.iter().map(|used| used.0).collect();
        let digests: Vec<&str> = wanted.uses.iter().map(|used| used.1).collect();
        let runs: Vec<i64> = wanted.uses.iter().map(|used| used.2).collect();
        let [a, b, _] = TEXTS;
        let params = &[(&namespaces as _, a), (&digests as _, b), (&runs as _, Type::INT8_ARRAY)];
        session.query(USES, params).await
    };
    let cards = ask_cards(session, wanted);
    // Sent in this order by every group, so that locks are taken in one order.
    let (effects, runs, held, entries, deliveries, last_deliveries, uses, cards) =
        tokio::try_join!(effects, runs, held, entries, deliveries, last_deliveries, uses, cards)?;
    Ok(Found { effects, runs, held, entries, deliveries, last_deliveries, uses, cards })
}

async fn ask_cards(
    session: &Session,
    wanted: &Wanted<'_>,
) -> Result<Vec<SqlRow>, tokio_postgres::Error> {
    if wanted.cards.is_empty() {
        return Ok(Vec::new());
    }
    let namespaces: Vec<&str> = wanted.cards.iter().map(|card| card.0).collect();
    let kinds: Vec<&str> = wanted.cards.iter().map(|card| card.1).collect();
    let names: Vec<&str> = wanted.cards.iter().map(|card| card.2).collect();
    let [a, b, c] = TEXTS;
    session.query(CARDS, &[(&namespaces, a), (&kinds, b), (&names, c)]).await
}

impl Found {
    /// Everything, as the model knows it.
    pub(super) fn rows(&self, boot: u64, known: &[(i64, End)]) -> Result<Rows, StoreError> {
        let mut rows = Rows::tracking();
        // Rows that are new get numbers below all that are there.
        rows.last_row = i64::MIN;
        for found in &self.effects {
            let row = effect(found, boot)?;
            rows.effects.load((row.address.clone(), row.generation), (get(found, 0)?, row));
        }
        for found in self.runs.iter().chain(&self.held) {
            let row = run(found, boot)?;
            rows.runs.names.load((row.namespace.clone(), row.id.clone()), row.number);
            rows.runs.runs.load(row.number, row);
        }
        for (run, end) in known {
            rows.runs.journal.load((*run, end.seq), (end.link, String::new()));
        }
        for found in &self.entries {
            let (run, seq) = (get(found, 0)?, unsigned(found, 1)?);
            // Its text is never asked for: an entry does not change.
            rows.runs.journal.load((run, seq), (Link(link(found, 2)?), String::new()));
        }
        for found in self.deliveries.iter().chain(&self.last_deliveries) {
            let delivery = delivery(found)?;
            rows.runs.inbox.load((delivery.run, delivery.number), delivery);
        }
        for found in &self.uses {
            rows.runs.uses.load((get(found, 2)?, (get(found, 0)?, get(found, 1)?)), ());
        }
        for found in &self.cards {
            let card = card(found)?;
            rows.cards.load(card.key(), card);
        }
        Ok(rows)
    }
}

pub(super) fn get<'a, T>(row: &'a impl Line, column: usize) -> Result<T, StoreError>
where
    T: tokio_postgres::types::FromSql<'a>,
{
    let unreadable = |error| StoreError::Corrupt(format!("a column cannot be read: {error}"));
    row.cell(column).map_err(unreadable)
}

pub(super) fn unsigned(row: &impl Line, column: usize) -> Result<u64, StoreError> {
    let negative = |_| StoreError::Corrupt("a number is below zero".into());
    u64::try_from(get::<i64>(row, column)?).map_err(negative)
}

pub(super) fn link(row: &SqlRow, column: usize) -> Result<[u8; 32], StoreError> {
    let bytes: &[u8] = get(row, column)?;
    bytes.try_into().map_err(|_| StoreError::Corrupt("a link has not 32 bytes".into()))
}

fn effect(row: &SqlRow, boot: u64) -> Result<Row, StoreError> {
    let corrupt = |what: &str| StoreError::Corrupt(format!("an effect's {what} is none of ours"));
    let generation = u32::try_from(get::<i64>(row, 4)?);
    Ok(Row {
        address: Address {
            namespace: Namespace::stored(get(row, 1)?).map_err(|_| corrupt("namespace"))?,
            action: Action::new(get(row, 2)?).map_err(|_| corrupt("action"))?,
            key: Key::parse(get(row, 3)?).map_err(|_| corrupt("key"))?,
        },
        generation: generation.map_err(|_| corrupt("generation"))?,
        version: unsigned(row, 5)?,
        state: State::parse(get(row, 6)?).ok_or_else(|| corrupt("state"))?,
        workflow: get(row, 7)?,
        created: Wall(get(row, 8)?),
        due: get::<Option<i64>>(row, 9)?.map(|ms| Steady { boot, ms }),
        sweep_at: get::<Option<i64>>(row, 10)?.map(Wall),
        alarmed: get(row, 11)?,
        sum: get(row, 12)?,
        record: get(row, 13)?,
        held: get(row, 14)?,
    })
}

pub(super) fn run(row: &SqlRow, boot: u64) -> Result<RunRow, StoreError> {
    let corrupt = || StoreError::Corrupt("a run's state is none of ours".into());
    Ok(RunRow {
        number: get(row, 0)?,
        namespace: get(row, 1)?,
        id: get(row, 2)?,
        version: unsigned(row, 3)?,
        workflow: get(row, 4)?,
        key: get(row, 5)?,
        lane: get(row, 6)?,
        state: run::State::parse(get(row, 7)?).ok_or_else(corrupt)?,
        parked: get(row, 8)?,
        fence: unsigned(row, 9)?,
        created: Wall(get(row, 10)?),
        wake_at: get::<Option<i64>>(row, 11)?.map(|ms| Steady { boot, ms }),
        waits_on: get(row, 12)?,
        sweep_at: get::<Option<i64>>(row, 13)?.map(Wall),
        sum: get(row, 14)?,
        record: get(row, 15)?,
        queue: get(row, 16)?,
    })
}

/// A card as it lies in its columns, not yet compared with its checksum.
pub(super) fn card(row: &SqlRow) -> Result<Card, StoreError> {
    Ok(Card {
        namespace: get(row, 0)?,
        kind: get(row, 1)?,
        name: get(row, 2)?,
        version: unsigned(row, 3)?,
        due: get::<Option<i64>>(row, 4)?.map(Wall),
        record: get(row, 5)?,
    })
}

pub(super) fn delivery(row: &SqlRow) -> Result<Delivery, StoreError> {
    let delivery = Delivery {
        run: get(row, 0)?,
        number: get(row, 1)?,
        identity: get(row, 2)?,
        name: get(row, 3)?,
        payload: get(row, 4)?,
        at: Wall(get(row, 5)?),
        consumed: get(row, 6)?,
    };
    delivery.checked(get(row, 7)?)
}
