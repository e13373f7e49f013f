//! What the model has changed, written with one statement for each table and kind of change.

use std::collections::BTreeSet;

use futures_util::future::{BoxFuture, FutureExt, join_all};
use semel_core::seal::Seal;
use semel_core::time::Steady;
use tokio_postgres::types::{ToSql, Type};

use super::connect::Session;
use super::load::signed;
use super::meta;
use super::wire::Param;
use crate::model::Rows;
use crate::{Delivery, Row, RunRow};

/// The statements of one group, ready to go out in their order.
#[derive(Default)]
pub(super) struct Flush<'a> {
    statements: Vec<(&'static str, Vec<(Column<'a>, Type)>)>,
    /// On whose clock times are written.
    boot: u64,
}

pub(super) type Column<'a> = Box<dyn ToSql + Sync + Send + 'a>;

/// Numbered in the order in which they came, written in the order of their names: two processes
/// that insert the same names then wait for each other in one direction only.
const INSERT_EFFECTS: &str = "WITH w AS MATERIALIZED (SELECT nextval('semel.effect_rows') AS row, \
     u.* FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::text[], \
     $7::text[], $8::bigint[], $9::bigint[], $10::bigint[], $11::boolean[], $12::boolean[], \
     $13::bigint[], $14::text[], $15::bytea[]) AS u(namespace, action, key, generation, version, \
     state, workflow, created_at, due_at, sweep_at, alarmed, held, sum, record, seal)) \
     INSERT INTO semel.effects (row, namespace, action, key, generation, version, state, \
     workflow, created_at, due_at, sweep_at, alarmed, held, sum, record, seal) \
     SELECT row, namespace, action, key, generation, version, state, workflow, created_at, \
     due_at, sweep_at, alarmed, held, sum, record, seal FROM w \
     ORDER BY namespace COLLATE \"C\", action COLLATE \"C\", key COLLATE \"C\", generation";

const UPDATE_EFFECTS: &str = "UPDATE semel.effects AS e SET version = w.version, \
     state = w.state, due_at = w.due_at, sweep_at = w.sweep_at, alarmed = w.alarmed, \
     held = w.held, sum = w.sum, record = w.record, seal = w.seal FROM unnest($1::bigint[], \
     $2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::boolean[], $7::boolean[], \
     $8::bigint[], $9::text[], $10::bytea[]) \
     AS w(row, version, state, due_at, sweep_at, alarmed, held, sum, record, seal) \
     WHERE e.row = w.row";

const DELETE_EFFECTS: &str = "DELETE FROM semel.effects AS e \
     USING unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) \
     AS w(namespace, action, key, generation) WHERE e.namespace = w.namespace \
     AND e.action = w.action AND e.key = w.key AND e.generation = w.generation";

const INSERT_RUNS: &str = "INSERT INTO semel.runs (number, namespace, id, version, workflow, key, \
     lane, state, parked, fence, created_at, wake_at, waits_on, queue, sweep_at, sum, record, \
     seal) SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::text[], \
     $6::text[], $7::text[], $8::text[], $9::boolean[], $10::bigint[], $11::bigint[], \
     $12::bigint[], $13::text[], $14::text[], $15::bigint[], $16::bigint[], $17::text[], \
     $18::bytea[])";

const UPDATE_RUNS: &str = "UPDATE semel.runs AS r SET version = w.version, lane = w.lane, \
     state = w.state, parked = w.parked, fence = w.fence, wake_at = w.wake_at, \
     waits_on = w.waits_on, queue = w.queue, sweep_at = w.sweep_at, sum = w.sum, \
     record = w.record, seal = w.seal, \
     shown_to = NULL, shown_until = NULL \
     FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::boolean[], $6::bigint[], \
     $7::bigint[], $8::text[], $9::text[], $10::bigint[], $11::bigint[], $12::text[], \
     $13::bytea[]) \
     AS w(number, version, lane, state, parked, fence, wake_at, waits_on, queue, sweep_at, sum, \
     record, seal) \
     WHERE r.number = w.number";

const DELETE_RUNS: &str = "DELETE FROM semel.runs WHERE number = ANY($1::bigint[])";

/// What belongs to runs that are dropped. The blobs are locked first: whoever is about to use one
/// has done so before they are counted, or finds it gone.
const DROP: [&str; 5] = [
    "SELECT 1 FROM semel.blobs WHERE (namespace, digest) IN (SELECT namespace, digest \
     FROM semel.blob_uses WHERE run = ANY($1::bigint[])) ORDER BY namespace, digest FOR UPDATE",
    "DELETE FROM semel.journal WHERE run = ANY($1::bigint[])",
    "DELETE FROM semel.inbox WHERE run = ANY($1::bigint[])",
    "DELETE FROM semel.blobs AS b WHERE (b.namespace, b.digest) IN (SELECT namespace, digest \
     FROM semel.blob_uses WHERE run = ANY($1::bigint[])) AND NOT EXISTS (SELECT 1 \
     FROM semel.blob_uses AS other WHERE other.run <> ALL($1::bigint[]) \
     AND other.namespace = b.namespace AND other.digest = b.digest)",
    "DELETE FROM semel.blob_uses WHERE run = ANY($1::bigint[])",
];

const INSERT_ENTRIES: &str = "INSERT INTO semel.journal (run, seq, link, entry) \
     SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bytea[], $4::text[])";

const INSERT_DELIVERIES: &str = "INSERT INTO semel.inbox \
     (run, number, identity, name, payload, at, consumed, seal) SELECT * FROM \
     unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[], \
     $7::boolean[], $8::bytea[])";

const UPDATE_DELIVERIES: &str = "UPDATE semel.inbox AS i SET consumed = w.consumed, \
     seal = w.seal FROM unnest($1::bigint[], $2::bigint[], $3::boolean[], $4::bytea[]) \
     AS w(run, number, consumed, seal) \
     WHERE i.run = w.run AND i.number = w.number";

/// Written even where it is there: that holds it against somebody who is about to drop it.
const INSERT_BLOBS: &str = "INSERT INTO semel.blobs (namespace, digest, text) \
     SELECT * FROM unnest($1::text[], $2::text[], $3::text[]) \
     ON CONFLICT (namespace, digest) DO UPDATE SET digest = excluded.digest";

const INSERT_USES: &str = "INSERT INTO semel.blob_uses (namespace, digest, run) \
     SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[]) ON CONFLICT DO NOTHING";

impl<'a> Flush<'a> {
    /// The difference between what was loaded and what the model holds now.
    pub(super) fn of(rows: &'a Rows, dropped: &BTreeSet<i64>, boot: u64) -> Flush<'a> {
        let mut flush = Flush { boot, ..Flush::default() };
        flush.effects(rows);
        flush.runs(rows);
        if !dropped.is_empty() {
            let numbers: Vec<i64> = dropped.iter().copied().collect();
            for text in DROP {
                flush.add(text, [int8(numbers.clone())]);
            }
        }
        flush.belongings(rows, dropped);
        flush.cards(rows);
        flush
    }

    pub(super) fn is_empty(&self) -> bool {
        self.statements.is_empty()
    }

    /// Prepares what will go out, so that it goes out in order.
    pub(super) async fn prepare(&self, session: &Session) -> Result<(), tokio_postgres::Error> {
        for (text, columns) in &self.statements {
            let types: Vec<Type> = columns.iter().map(|(_, kind)| kind.clone()).collect();
            session.prepare(&[(*text, &types)]).await?;
        }
        session.prepare(&[(meta::GUARD, &[Type::TEXT])]).await
    }

    /// Sends everything and the COMMIT behind it, without waiting in between. Nothing is committed
    /// to other tables than these.
    pub(super) async fn send(&self, session: &Session, tables: &str) -> Sent {
        let guard: [Param<'_>; 1] = [(&tables, Type::TEXT)];
        let each = self.statements.iter().map(|(text, columns)| -> BoxFuture<'_, _> {
            async move {
                let params: Vec<_> = columns
                    .iter()
                    .map(|(value, kind)| (value.as_ref() as &(dyn ToSql + Sync), kind.clone()))
                    .collect();
                session.query(text, &params).await.map(|_| ())
            }
            .boxed()
        });
        let (written, guarded, committed) = tokio::join!(
            join_all(each),
            session.query(meta::GUARD, &guard),
            session.client().batch_execute("COMMIT")
        );
        let guarded = guarded.map(|rows| rows.first()?.try_get(0).ok());
        Sent { written: written.into_iter().collect(), guarded, committed }
    }

    pub(super) fn add<const N: usize>(
        &mut self,
        text: &'static str,
        columns: [(Column<'a>, Type); N],
    ) {
        self.statements.push((text, columns.into()));
    }

    fn effects(&mut self, rows: &'a Rows) {
        let (mut new, mut changed, mut gone) = (Vec::new(), Vec::new(), Vec::new());
        for (key, had_been, now) in rows.effects.changes() {
            match (had_been, now) {
                (false, Some((place, row))) => new.push((*place, row)),
                (true, Some((place, row))) => changed.push((*place, row)),
                (true, None) => gone.push(key),
                (false, None) => {}
            }
        }
        if !gone.is_empty() {
            self.add(
                DELETE_EFFECTS,
                [
                    text(gone.iter().map(|(address, _)| address.namespace.as_str())),
                    text(gone.iter().map(|(address, _)| address.action.as_str())),
                    text(gone.iter().map(|(address, _)| address.key.as_str())),
                    int8(gone.iter().map(|(_, generation)| i64::from(*generation))),
                ],
            );
        }
        if !changed.is_empty() {
            // A row that was removed and written anew is another row.
            let (again, same): (Vec<_>, Vec<_>) =
                changed.into_iter().partition(|(place, _)| *place < 0);
            if !again.is_empty() {
                self.add(
                    DELETE_EFFECTS,
                    [
                        text(again.iter().map(|(_, row)| row.address.namespace.as_str())),
                        text(again.iter().map(|(_, row)| row.address.action.as_str())),
                        text(again.iter().map(|(_, row)| row.address.key.as_str())),
                        int8(again.iter().map(|(_, row)| i64::from(row.generation))),
                    ],
                );
                new.extend(again);
            }
            self.update_effects(&same);
        }
        new.sort_by_key(|(place, _)| *place);
        self.insert_effects(&new);
    }

    fn update_effects(&mut self, changed: &[(i64, &'a Row)]) {
        if changed.is_empty() {
            return;
        }
        let rows = || changed.iter().map(|(_, row)| *row);
        let boot = self.boot;
        self.add(
            UPDATE_EFFECTS,
            [
                int8(changed.iter().map(|(place, _)| *place)),
                int8(rows().map(|row| signed(row.version))),
                text(rows().map(|row| row.state.as_str())),
                maybe_int8(rows().map(|row| point(row.due, boot))),
                maybe_int8(rows().map(|row| row.sweep_at.map(|at| at.0))),
                bools(rows().map(|row| row.alarmed)),
                bools(rows().map(|row| row.held)),
                int8(rows().map(|row| row.sum)),
                text(rows().map(|row| row.record.as_str())),
                seals(rows().map(|row| row.seal(point(row.due, boot)))),
            ],
        );
    }

    fn insert_effects(&mut self, new: &[(i64, &'a Row)]) {
        if new.is_empty() {
            return;
        }
        let rows = || new.iter().map(|(_, row)| *row);
        let boot = self.boot;
        self.add(
            INSERT_EFFECTS,
            [
                text(rows().map(|row| row.address.namespace.as_str())),
                text(rows().map(|row| row.address.action.as_str())),
                text(rows().map(|row| row.address.key.as_str())),
                int8(rows().map(|row| i64::from(row.generation))),
                int8(rows().map(|row| signed(row.version))),
                text(rows().map(|row| row.state.as_str())),
                maybe_text(rows().map(|row| row.workflow.as_deref())),
                int8(rows().map(|row| row.created.0)),
                maybe_int8(rows().map(|row| point(row.due, boot))),
                maybe_int8(rows().map(|row| row.sweep_at.map(|at| at.0))),
                bools(rows().map(|row| row.alarmed)),
                bools(rows().map(|row| row.held)),
                int8(rows().map(|row| row.sum)),
                text(rows().map(|row| row.record.as_str())),
                seals(rows().map(|row| row.seal(point(row.due, boot)))),
            ],
        );
    }

    fn runs(&mut self, rows: &'a Rows) {
        let (mut new, mut changed, mut gone) = (Vec::new(), Vec::new(), Vec::new());
        for (number, had_been, now) in rows.runs.runs.changes() {
            match (had_been, now) {
                (false, Some(row)) => new.push(row),
                (true, Some(row)) => changed.push(row),
                (true, None) => gone.push(*number),
                (false, None) => {}
            }
        }
        if !gone.is_empty() {
            self.add(DELETE_RUNS, [int8(gone)]);
        }
        if !changed.is_empty() {
            let rows = || changed.iter().copied();
            let boot = self.boot;
            self.add(
                UPDATE_RUNS,
                [
                    int8(rows().map(|row| row.number)),
                    int8(rows().map(|row| signed(row.version))),
                    text(rows().map(|row| row.lane.as_str())),
                    text(rows().map(|row| row.state.as_str())),
                    bools(rows().map(|row| row.parked)),
                    int8(rows().map(|row| signed(row.fence))),
                    maybe_int8(rows().map(|row| point(row.wake_at, boot))),
                    maybe_text(rows().map(|row| row.waits_on.as_deref())),
                    maybe_text(rows().map(|row| row.queue.as_deref())),
                    maybe_int8(rows().map(|row| row.sweep_at.map(|at| at.0))),
                    int8(rows().map(|row| row.sum)),
                    text(rows().map(|row| row.record.as_str())),
                    seals(rows().map(|row| row.seal(point(row.wake_at, boot)))),
                ],
            );
        }
        self.insert_runs(&new);
    }

    fn insert_runs(&mut self, new: &[&'a RunRow]) {
        if new.is_empty() {
            return;
        }
        let rows = || new.iter().copied();
        let boot = self.boot;
        self.add(
            INSERT_RUNS,
            [
                int8(rows().map(|row| row.number)),
                text(rows().map(|row| row.namespace.as_str())),
                text(rows().map(|row| row.id.as_str())),
                int8(rows().map(|row| signed(row.version))),
                text(rows().map(|row| row.workflow.as_str())),
                text(rows().map(|row| row.key.as_str())),
                text(rows().map(|row| row.lane.as_str())),
                text(rows().map(|row| row.state.as_str())),
                bools(rows().map(|row| row.parked)),
                int8(rows().map(|row| signed(row.fence))),
                int8(rows().map(|row| row.created.0)),
                maybe_int8(rows().map(|row| point(row.wake_at, boot))),
                maybe_text(rows().map(|row| row.waits_on.as_deref())),
                maybe_text(rows().map(|row| row.queue.as_deref())),
                maybe_int8(rows().map(|row| row.sweep_at.map(|at| at.0))),
                int8(rows().map(|row| row.sum)),
                text(rows().map(|row| row.record.as_str())),
                seals(rows().map(|row| row.seal(point(row.wake_at, boot)))),
            ],
        );
    }

    /// Journals, inboxes and large values.
    fn belongings(&mut self, rows: &'a Rows, dropped: &BTreeSet<i64>) {
        let new = rows.runs.journal.changes();
        let new = new.filter(|((run, _), had_been, _)| !had_been || dropped.contains(run));
        let new: Vec<_> = new.filter_map(|(place, _, now)| Some((place, now?))).collect();
        if !new.is_empty() {
            self.add(
                INSERT_ENTRIES,
                [
                    int8(new.iter().map(|((run, _), _)| *run)),
                    int8(new.iter().map(|((_, seq), _)| signed(*seq))),
                    bytes(new.iter().map(|(_, (link, _))| link.0.as_slice())),
                    text(new.iter().map(|(_, (_, entry))| entry.as_str())),
                ],
            );
        }
        self.inbox(rows, dropped);
        let kept: Vec<_> =
            rows.runs.blobs.changes().filter_map(|(name, _, now)| Some((name, now?))).collect();
        if !kept.is_empty() {
            self.add(
                INSERT_BLOBS,
                [
                    text(kept.iter().map(|((namespace, _), _)| namespace.as_str())),
                    text(kept.iter().map(|((_, digest), _)| digest.as_str())),
                    text(kept.iter().map(|(_, value)| value.as_str())),
                ],
            );
        }
        let used: Vec<_> =
            rows.runs.uses.changes().filter_map(|(using, _, now)| now.map(|()| using)).collect();
        if !used.is_empty() {
            self.add(
                INSERT_USES,
                [
                    text(used.iter().map(|(_, (namespace, _))| namespace.as_str())),
                    text(used.iter().map(|(_, (_, digest))| digest.as_str())),
                    int8(used.iter().map(|(run, _)| *run)),
                ],
            );
        }
    }

    fn inbox(&mut self, rows: &'a Rows, dropped: &BTreeSet<i64>) {
        let (mut new, mut changed): (Vec<&Delivery>, Vec<&Delivery>) = (Vec::new(), Vec::new());
        for ((run, _), had_been, now) in rows.runs.inbox.changes() {
            match (had_been && !dropped.contains(run), now) {
                (false, Some(delivery)) => new.push(delivery),
                (true, Some(delivery)) => changed.push(delivery),
                (_, None) => {}
            }
        }
        if !new.is_empty() {
            self.add(
                INSERT_DELIVERIES,
                [
                    int8(new.iter().map(|one| one.run)),
                    int8(new.iter().map(|one| one.number)),
                    text(new.iter().map(|one| one.identity.as_str())),
                    text(new.iter().map(|one| one.name.as_str())),
                    text(new.iter().map(|one| one.payload.as_str())),
                    int8(new.iter().map(|one| one.at.0)),
                    bools(new.iter().map(|one| one.consumed)),
                    seals(new.iter().map(|one| one.seal())),
                ],
            );
        }
        if !changed.is_empty() {
            self.add(
                UPDATE_DELIVERIES,
                [
                    int8(changed.iter().map(|one| one.run)),
                    int8(changed.iter().map(|one| one.number)),
                    bools(changed.iter().map(|one| one.consumed)),
                    seals(changed.iter().map(|one| one.seal())),
                ],
            );
        }
    }
}

/// How the writes and the COMMIT behind them were answered.
pub(super) struct Sent {
    pub(super) written: Result<Vec<()>, tokio_postgres::Error>,
    /// Where the server's log stood before the COMMIT: once that is answered, so far at the least
    /// it is on disk.
    pub(super) guarded: Result<Option<i64>, tokio_postgres::Error>,
    pub(super) committed: Result<(), tokio_postgres::Error>,
}

/// A batch may be repeated through an outage, and meet a server with another clock: what was to
/// happen by the old one is due, or it would wait for as long as that one had run.
fn point(at: Option<Steady>, boot: u64) -> Option<i64> {
    at.map(|at| if at.boot == boot { at.ms } else { 0 })
}

pub(super) fn int8<'a>(values: impl IntoIterator<Item = i64>) -> (Column<'a>, Type) {
    (Box::new(values.into_iter().collect::<Vec<_>>()), Type::INT8_ARRAY)
}

pub(super) fn maybe_int8<'a>(values: impl Iterator<Item = Option<i64>>) -> (Column<'a>, Type) {
    (Box::new(values.collect::<Vec<_>>()), Type::INT8_ARRAY)
}

pub(super) fn text<'a>(values: impl Iterator<Item = &'a str>) -> (Column<'a>, Type) {
    (Box::new(values.collect::<Vec<_>>()), Type::TEXT_ARRAY)
}

fn maybe_text<'a>(values: impl Iterator<Item = Option<&'a str>>) -> (Column<'a>, Type) {
    (Box::new(values.collect::<Vec<_>>()), Type::TEXT_ARRAY)
}

fn bools<'a>(values: impl Iterator<Item = bool>) -> (Column<'a>, Type) {
    (Box::new(values.collect::<Vec<_>>()), Type::BOOL_ARRAY)
}

fn seals<'a>(values: impl Iterator<Item = Seal>) -> (Column<'a>, Type) {
    (Box::new(values.map(|seal| seal.0.to_vec()).collect::<Vec<_>>()), Type::BYTEA_ARRAY)
}

fn bytes<'a>(values: impl Iterator<Item = &'a [u8]>) -> (Column<'a>, Type) {
    (Box::new(values.collect::<Vec<_>>()), Type::BYTEA_ARRAY)
}
