//! What processes remember to have written, compared with what the server knows.

use tokio_postgres::types::Type;

use super::connect::Session;
use super::store_error;
use super::wire::Param;
use crate::StoreError;

/// A row is there when it is at this version as it was written, or at a later one.
const REPORT: &str = "INSERT INTO semel.lost \
     (epoch, namespace, action, name, generation, version, state, written_at, worker, seal) \
     SELECT $1, w.namespace, w.action, w.name, w.generation, w.version, w.state, w.written_at, $2, \
     semel.seal('lost', $1::bigint::text, w.namespace, w.action, w.name, w.generation::text, \
     w.version::text, w.state, w.written_at::text, $2::text) \
     FROM unnest($3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::bigint[], \
     $9::text[], $10::bigint[]) \
     AS w(namespace, action, name, generation, version, sum, state, written_at) \
     WHERE NOT EXISTS (SELECT 1 FROM semel.effects AS e WHERE e.namespace = w.namespace \
     AND e.action = w.action AND e.key = w.name AND e.generation = w.generation \
     AND (e.version > w.version OR (e.version = w.version AND e.sum = w.sum))) \
     AND NOT EXISTS (SELECT 1 FROM semel.runs AS r WHERE w.action IS NULL \
     AND r.namespace = w.namespace AND r.id = w.name \
     AND (r.version > w.version OR (r.version = w.version AND r.sum = w.sum)))";

/// Lists what this process wrote before the epoch that the server is in now, and what is gone.
pub(super) async fn report(session: &Session) -> Result<(), StoreError> {
    let shared = session.shared();
    let epoch = session.meta().epoch;
    let mut taken = shared.memory.take_before(epoch);
    let rows = &taken.rows;
    if rows.is_empty() {
        return Ok(());
    }
    let epoch = i64::try_from(epoch).unwrap_or(i64::MAX);
    let namespaces: Vec<&str> = rows.iter().map(|row| row.namespace.as_str()).collect();
    let actions: Vec<Option<&str>> = rows.iter().map(|row| row.action.as_deref()).collect();
    let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    let generations: Vec<Option<i64>> = rows.iter().map(|row| row.generation).collect();
    let versions: Vec<i64> = rows.iter().map(|row| row.version).collect();
    let sums: Vec<i64> = rows.iter().map(|row| row.sum).collect();
    let states: Vec<Option<&str>> = rows.iter().map(|row| row.state).collect();
    let times: Vec<i64> = rows.iter().map(|row| row.at.0).collect();
    let params: [Param<'_>; 10] = [
        (&epoch, Type::INT8),
        (&shared.worker, Type::TEXT),
        (&namespaces, Type::TEXT_ARRAY),
        (&actions, Type::TEXT_ARRAY),
        (&names, Type::TEXT_ARRAY),
        (&generations, Type::INT8_ARRAY),
        (&versions, Type::INT8_ARRAY),
        (&sums, Type::INT8_ARRAY),
        (&states, Type::TEXT_ARRAY),
        (&times, Type::INT8_ARRAY),
    ];
    session.query(REPORT, &params).await.map_err(|error| store_error(&error))?;
    taken.rows.clear();
    Ok(())
}
