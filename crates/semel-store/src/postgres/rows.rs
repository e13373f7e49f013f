//! Effects as rows, reading: the statements, all of them with bound parameters only.

use std::sync::LazyLock;

use semel_core::effect::State;
use semel_core::key::Address;
use semel_core::limits;
use semel_core::record::Effect;
use semel_core::time::{Steady, Wall};
use tokio_postgres::Row as SqlRow;
use tokio_postgres::types::Type;

use super::connect::{Door, in_time};
use super::load::{get, unsigned};
use super::wire::{Line, Param};
use super::{Shared, store_error};
use crate::readable::readable;
use crate::{DueCursor, DuePage, Page, Query, StoreError, Unreadable, read_record};

const NEWEST: &str = "SELECT row, generation, version, record, sum, namespace FROM semel.effects \
     WHERE namespace = $1 AND action = $2 AND key = $3 ORDER BY generation DESC LIMIT 1";

const GENERATION: &str = "\
     SELECT row, generation, version, record, sum, namespace FROM semel.effects \
     WHERE namespace = $1 AND action = $2 AND key = $3 AND generation = $4";

/// Runs one read.
pub(super) async fn read(
    door: &Door,
    text: &'static str,
    params: &[Param<'_>],
) -> Result<Vec<SqlRow>, StoreError> {
    let session = door.enter().await?;
    let (error, is_broken) = match in_time(session.query(text, params)).await {
        Ok(Ok(rows)) => return Ok(rows),
        Ok(Err(error)) => (store_error(&error), error.as_db_error().is_none()),
        Err(late) => (late, true),
    };
    if is_broken {
        session.discard();
    }
    Err(error)
}

pub(super) fn effect(shared: &Shared, row: &impl Line) -> Result<Effect, StoreError> {
    let (record, namespace): (&str, &str) = (get(row, 3)?, get(row, 5)?);
    let effect = read_record(&shared.veil, namespace, record, get(row, 4)?)?;
    // A guard compares the columns; were they not those of the record, it would guard nothing.
    if i64::from(effect.generation) != get::<i64>(row, 1)? || effect.version != unsigned(row, 2)? {
        return Err(StoreError::Corrupt("a row's columns differ from its record".into()));
    }
    Ok(effect)
}

pub(super) async fn newest(door: &Door, address: &Address) -> Result<Option<Effect>, StoreError> {
    let Address { namespace, action, key } = address;
    let (namespace, action, key) = (namespace.as_str(), action.as_str(), key.as_str());
    let params: [Param<'_>; 3] =
        [(&namespace, Type::TEXT), (&action, Type::TEXT), (&key, Type::TEXT)];
    read(door, NEWEST, &params).await?.first().map(|row| effect(&door.shared, row)).transpose()
}

pub(super) async fn generation(
    door: &Door,
    address: &Address,
    generation: u32,
) -> Result<Option<Effect>, StoreError> {
    let Address { namespace, action, key } = address;
    let (namespace, action, key) = (namespace.as_str(), action.as_str(), key.as_str());
    let generation = i64::from(generation);
    let params: [Param<'_>; 4] = [
        (&namespace, Type::TEXT),
        (&action, Type::TEXT),
        (&key, Type::TEXT),
        (&generation, Type::INT8),
    ];
    read(door, GENERATION, &params).await?.first().map(|row| effect(&door.shared, row)).transpose()
}

pub(super) async fn list(door: &Door, query: &Query) -> Result<Page, StoreError> {
    let _turn = door.list_turn().await?;
    let namespace = query.namespace.as_ref().map(|namespace| namespace.as_str());
    let action = query.action.as_ref().map(|action| action.as_str());
    let key = query.key.as_ref().map(|key| key.as_str());
    let state = query.state.map(|state| state.as_str());
    let after = query.after.unwrap_or(i64::MAX);
    let limit = sql_limit(query.limit).saturating_add(1);
    let most = sql_limit(limits::LIST_ROWS_MAX);
    let params: [Param<'_>; 10] = [
        (&namespace, Type::TEXT),
        (&action, Type::TEXT),
        (&key, Type::TEXT),
        (&state, Type::TEXT),
        (&after, Type::INT8),
        (&limit, Type::INT8),
        (&query.alarmed, Type::BOOL),
        (&query.held, Type::BOOL),
        (&query.unsettled, Type::BOOL),
        (&most, Type::INT8),
    ];
    let found = read(door, list_text(door, query).await?, &params).await?;
    let mut page = Page::default();
    // A row without a place only says how far the search went.
    let placed = found.iter().filter(|row| matches!(get::<Option<i64>>(*row, 0), Ok(Some(_))));
    let placed: Vec<&SqlRow> = placed.collect();
    for row in placed.iter().take(query.limit) {
        let (action, key): (&str, &str) = (get(*row, 7)?, get(*row, 8)?);
        let read = effect(&door.shared, *row);
        match Unreadable::set_aside(read, get(*row, 5)?, || format!("{action}/{key}"))? {
            Ok(effect) => page.effects.push(effect),
            Err(unreadable) => page.unreadable.push(unreadable),
        }
    }
    page.next = match placed.len() > query.limit {
        true => {
            let last = query.limit.checked_sub(1).and_then(|last| placed.get(last));
            last.map(|row| get(*row, 0)).transpose()?
        }
        false => found.first().map(|row| get::<Option<i64>>(row, 6)).transpose()?.flatten(),
    };
    Ok(page)
}

/// What is asked for decides which index serves: left to itself Postgres might walk a whole table
/// backwards to find the few rows that are pending.
async fn list_text(door: &Door, query: &Query) -> Result<&'static str, StoreError> {
    let is_named = query.namespace.is_some() && query.action.is_some() && query.key.is_some();
    let texts = &*TEXTS;
    Ok(match query.state {
        _ if is_named && !query.unsettled => NAMED,
        _ if query.unsettled => match are_many(door).await? {
            true => &texts.all,
            false => UNSETTLED,
        },
        _ if query.held => &texts.held,
        _ if query.alarmed => &texts.alarmed,
        Some(State::InDoubt | State::Failed | State::Planned | State::Void) => &texts.attention,
        Some(State::Pending) => match are_many(door).await? {
            true => &texts.all,
            false => PENDING,
        },
        Some(State::Done | State::Expired) | None => &texts.all,
    })
}

const MANY: &str = "SELECT (SELECT count(*) FROM (SELECT 1 FROM semel.effects \
     WHERE due_at IS NOT NULL LIMIT $1) AS due) + (SELECT count(*) FROM (SELECT 1 \
     FROM semel.effects WHERE state = 'in_doubt' AND state NOT IN ('pending', 'done', 'expired') \
     LIMIT $1) AS doubts) >= $1";

/// What is in doubt or due is sorted for each page: where there is much of it, it is not.
async fn are_many(door: &Door) -> Result<bool, StoreError> {
    let most = sql_limit(limits::LIST_ROWS_MAX);
    let found = read(door, MANY, &[(&most, Type::INT8)]).await?;
    found.first().map_or(Ok(false), |row| get(row, 0))
}

/// Texts of lists that go along an index in the order of its rows, and pass over a bounded number.
struct Texts {
    all: String,
    held: String,
    alarmed: String,
    attention: String,
}

static TEXTS: LazyLock<Texts> = LazyLock::new(|| Texts {
    all: walk("true"),
    held: walk("held"),
    alarmed: walk("alarmed"),
    attention: walk("state = $4 AND state NOT IN ('pending', 'done', 'expired')"),
});

/// The seventh column says where the search goes on, should it have been cut.
fn walk(which: &str) -> String {
    format!(
        "WITH seen AS MATERIALIZED (SELECT row, namespace, action, key, state, alarmed, held \
         FROM semel.effects WHERE {which} AND row < $5 ORDER BY row DESC LIMIT $10), \
         found AS MATERIALIZED (SELECT row FROM seen \
         WHERE ($1::text IS NULL OR namespace = $1) AND ($2::text IS NULL OR action = $2) \
         AND ($3::text IS NULL OR key = $3) AND ($4::text IS NULL OR state = $4) \
         AND (alarmed OR NOT $7) AND (held OR NOT $8) \
         AND (state IN ('pending', 'in_doubt') OR NOT $9) ORDER BY row DESC LIMIT $6) \
         SELECT e.row, e.generation, e.version, e.record, e.sum, e.namespace, \
         CASE WHEN cut.count = $10 THEN cut.floor END, e.action, e.key \
         FROM (SELECT count(*) AS count, min(row) AS floor FROM seen) AS cut \
         LEFT JOIN found ON true LEFT JOIN semel.effects AS e ON e.row = found.row \
         ORDER BY e.row DESC NULLS LAST"
    )
}

const NAMED: &str = "WITH few AS MATERIALIZED (SELECT * FROM semel.effects \
     WHERE namespace = $1 AND action = $2 AND key = $3) \
     SELECT row, generation, version, record, sum, namespace, NULL::bigint, action, key FROM few \
     WHERE ($4::text IS NULL OR state = $4) AND row < $5 AND (alarmed OR NOT $7) \
     AND (held OR NOT $8) \
     ORDER BY row DESC LIMIT $6";

/// Rows that are in doubt, or were pending when they were written: few, whatever the history.
const UNSETTLED: &str = "WITH few AS MATERIALIZED (SELECT * FROM semel.effects \
     WHERE state = 'in_doubt' AND state NOT IN ('pending', 'done', 'expired') \
     UNION ALL SELECT * FROM semel.effects WHERE due_at IS NOT NULL AND state = 'pending') \
     SELECT row, generation, version, record, sum, namespace, NULL::bigint, action, key FROM few \
     WHERE ($1::text IS NULL OR namespace = $1) AND ($2::text IS NULL OR action = $2) \
     AND ($3::text IS NULL OR key = $3) AND ($4::text IS NULL OR state = $4) AND row < $5 \
     AND (alarmed OR NOT $7) AND (held OR NOT $8) \
     ORDER BY row DESC LIMIT $6";

const PENDING: &str = "WITH few AS MATERIALIZED (SELECT * FROM semel.effects \
     WHERE due_at IS NOT NULL AND state = 'pending') \
     SELECT row, generation, version, record, sum, namespace, NULL::bigint, action, key FROM few \
     WHERE state = $4 AND ($1::text IS NULL OR namespace = $1) \
     AND ($2::text IS NULL OR action = $2) AND ($3::text IS NULL OR key = $3) AND row < $5 \
     AND (alarmed OR NOT $7) AND (held OR NOT $8) \
     ORDER BY row DESC LIMIT $6";

const DUE: &str = "\
     SELECT row, generation, version, record, sum, namespace, due_at FROM semel.effects \
     WHERE due_at IS NOT NULL AND (due_at, row) > ($1, $2) ORDER BY due_at, row LIMIT $3";

pub(super) async fn due(
    door: &Door,
    now: Steady,
    after: Option<DueCursor>,
    limit: usize,
) -> Result<DuePage, StoreError> {
    let after = after.unwrap_or(DueCursor { due_ms: i64::MIN, row: i64::MIN });
    let sql_limit = sql_limit(limit).saturating_add(1);
    let params: [Param<'_>; 3] =
        [(&after.due_ms, Type::INT8), (&after.row, Type::INT8), (&sql_limit, Type::INT8)];
    let mut page = DuePage { effects: Vec::new(), next_due: None, seen_to: None };
    let mut last = after;
    for (seen, row) in read(door, DUE, &params).await?.iter().enumerate() {
        let cursor = DueCursor { due_ms: get(row, 6)?, row: get(row, 0)? };
        if seen == limit || cursor.due_ms > now.ms {
            page.next_due = Some(Steady { ms: cursor.due_ms, ..now });
            page.seen_to = (cursor.due_ms <= now.ms).then_some(last);
            break;
        }
        last = cursor;
        let effect = readable("effect", get(row, 5)?, effect(&door.shared, row))?;
        page.effects.extend(effect.map(|effect| (cursor, effect)));
    }
    Ok(page)
}

/// How many rows are asked for so as to find some that can be read: first as many, and where that
/// was not enough, once more with those that are passed over.
pub(super) fn widening(limit: usize) -> [usize; 2] {
    [limit, limit.saturating_add(limits::UNREADABLE_ROWS_MAX)]
}

const SWEEPABLE: &str = "\
     SELECT row, generation, version, record, sum, namespace FROM semel.effects \
     WHERE sweep_at IS NOT NULL AND sweep_at <= $1 ORDER BY sweep_at, row LIMIT $2";

pub(super) async fn sweepable(
    door: &Door,
    now: Wall,
    limit: usize,
) -> Result<Vec<Effect>, StoreError> {
    let mut effects = Vec::new();
    for asked in widening(limit) {
        let sql_limit = sql_limit(asked);
        let params: [Param<'_>; 2] = [(&now.0, Type::INT8), (&sql_limit, Type::INT8)];
        let found = read(door, SWEEPABLE, &params).await?;
        effects.clear();
        for row in &found {
            effects.extend(readable("effect", get(row, 5)?, effect(&door.shared, row))?);
        }
        if effects.len() >= limit || found.len() < asked {
            break;
        }
    }
    effects.truncate(limit);
    Ok(effects)
}

pub(super) fn sql_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX - 1)
}
