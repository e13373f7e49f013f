//! What an operator asks of a store on Postgres.

use std::collections::BTreeSet;

use async_trait::async_trait;
use semel_core::key::{Action, Address, Key, Namespace};
use semel_core::time::{Moment, Wall};
use tokio_postgres::Row as SqlRow;
use tokio_postgres::types::Type;

use super::load::{get, signed, unsigned};
use super::rows::{self, read, sql_limit};
use super::wire::Param;
use super::{FORMAT, Postgres, cards, run_rows, seals, tally};
use crate::upkeep::{EffectColumns, RunColumns, blob_problem, chain_problem};
use crate::{
    Audit, Belonging, Beside, CardAudit, Closed, CommitError, Identity, Lost, LostRow, PartAudit,
    Return, RunAudit, Store, StoreError, Tally, Upkeep,
};

/// How many large values are read at once.
const BLOBS: usize = 8;

const AUDIT: &str = "SELECT row, generation, version, record, sum, namespace, action, key, state, \
     sweep_at, alarmed, held, workflow, created_at, due_at, seal FROM semel.effects \
     WHERE row > $1 ORDER BY row LIMIT $2";

const AUDIT_RUNS: &str = "SELECT number, version, fence, record, sum, namespace, id, workflow, \
     key, lane, state, parked, created_at, wake_at, waits_on, sweep_at, queue, seal \
     FROM semel.runs WHERE number > $1 ORDER BY number LIMIT $2";

const BLOBS_OF: &str = "SELECT used.digest, blobs.text FROM semel.blob_uses AS used \
     LEFT JOIN semel.blobs AS blobs USING (namespace, digest) \
     WHERE used.run = $1 AND used.namespace = $2 AND used.digest > $3 \
     ORDER BY used.digest LIMIT $4";

const RETURNS: &str = "SELECT epoch, opened_at, recovered_at, evidence, closed_at, closed_by, \
     close_reason FROM semel.returns ORDER BY epoch DESC";

/// The first who closed it stands.
const CLOSE: &str = "UPDATE semel.returns SET closed_at = $2, closed_by = $3, close_reason = $4, \
     seal = semel.seal('return', epoch::text, opened_at::text, recovered_at::text, evidence, \
     $2::bigint::text, $3::text, $4::text) \
     WHERE epoch <= $1 AND closed_at IS NULL \
     AND $1 = (SELECT max(epoch) FROM semel.returns)";

const LOST: &str = "SELECT cursor, epoch, namespace, action, name, generation, version, state, \
     written_at, worker FROM semel.lost WHERE cursor > $1 ORDER BY cursor LIMIT $2";

#[async_trait]
impl Upkeep for Postgres {
    fn place(&self) -> String {
        self.shown.clone()
    }

    fn format(&self) -> i64 {
        FORMAT
    }

    async fn tally(&self, most: u32) -> Result<Tally, StoreError> {
        tally::tally(&self.door, most).await
    }

    /// Nothing: Postgres checks its pages itself where it was set up with checksums.
    async fn check_pages(&self) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }

    async fn audit(&self, after: i64, limit: usize) -> Result<Audit, StoreError> {
        let now = self.ground().now;
        let limit = sql_limit(limit);
        let params: [Param<'_>; 2] = [(&after, Type::INT8), (&limit, Type::INT8)];
        let mut audit = Audit::default();
        for row in &read(&self.door, AUDIT, &params).await? {
            let found = rows::effect(self.shared(), row);
            audit.take(get(row, 0)?, effect_columns(row), found, &now)?;
        }
        Ok(audit)
    }

    async fn audit_runs(&self, after: i64, limit: usize) -> Result<RunAudit, StoreError> {
        let now = self.ground().now;
        let limit = sql_limit(limit);
        let params: [Param<'_>; 2] = [(&after, Type::INT8), (&limit, Type::INT8)];
        let mut audit = RunAudit::default();
        for row in &read(&self.door, AUDIT_RUNS, &params).await? {
            self.audit_run(row, &now, &mut audit).await?;
        }
        Ok(audit)
    }

    async fn audit_strays(
        &self,
        belonging: Belonging,
        after: i64,
        limit: usize,
    ) -> Result<PartAudit<i64>, StoreError> {
        seals::strays(&self.door, belonging, after, limit).await
    }

    async fn audit_blobs(
        &self,
        after: (String, String),
        limit: usize,
    ) -> Result<PartAudit<(String, String)>, StoreError> {
        seals::blobs(&self.door, &after, limit).await
    }

    async fn audit_own(&self) -> Result<PartAudit<i64>, StoreError> {
        seals::own_rows(&self.door).await
    }

    async fn audit_outbox(&self, after: i64, limit: usize) -> Result<PartAudit<i64>, StoreError> {
        seals::outbox(&self.door, after, limit).await
    }

    async fn identity(&self) -> Result<Identity, StoreError> {
        let text = "SELECT store_id, epoch, wall_high FROM semel.meta";
        let rows = read(&self.door, text, &[]).await?;
        let row = rows.first().ok_or_else(|| StoreError::Corrupt("meta is empty".into()))?;
        let (epoch, wall_high) = (unsigned(row, 1)?, Wall(get(row, 2)?));
        Ok(Identity { store: get(row, 0)?, epoch, commits: None, wall_high })
    }

    async fn audit_cards(
        &self,
        after: Option<(String, String, String)>,
        limit: usize,
    ) -> Result<CardAudit, StoreError> {
        cards::audit(&self.door, after.as_ref(), limit).await
    }

    async fn returns(&self) -> Result<Vec<Return>, StoreError> {
        read(&self.door, RETURNS, &[]).await?.iter().map(returned).collect()
    }

    async fn close_quarantine(
        &self,
        epoch: u64,
        actor: &str,
        reason: &str,
    ) -> Result<(), CommitError> {
        self.writer()?;
        let (epoch, at) = (signed(epoch), self.ground().now.wall.0);
        let params: [Param<'_>; 4] =
            [(&epoch, Type::INT8), (&at, Type::INT8), (&actor, Type::TEXT), (&reason, Type::TEXT)];
        // Repeating it changes nothing, so a lost answer needs no more than that.
        read(&self.door, CLOSE, &params).await?;
        let newest = self.returns().await?.into_iter().next();
        match newest {
            Some(newest) if signed(newest.epoch) == epoch && newest.closed.is_some() => Ok(()),
            Some(_) | None => Err(CommitError::Stale(Vec::new())),
        }
    }

    async fn lost(&self, after: i64, limit: usize) -> Result<Vec<Lost>, StoreError> {
        let limit = sql_limit(limit);
        let params: [Param<'_>; 2] = [(&after, Type::INT8), (&limit, Type::INT8)];
        read(&self.door, LOST, &params).await?.iter().map(lost).collect()
    }
}

impl Postgres {
    async fn audit_run(
        &self,
        row: &SqlRow,
        now: &Moment,
        audit: &mut RunAudit,
    ) -> Result<(), StoreError> {
        let (number, namespace, id): (i64, &str, &str) = (get(row, 0)?, get(row, 5)?, get(row, 6)?);
        audit.take(number, run_columns(row), run_rows::run(self.shared(), row), now)?;
        let broken = chain_problem(self, &self.shared().veil, (number, namespace, id)).await?;
        let (values, changed) = self.blob_problem(number, namespace).await?;
        let (deliveries, missing) = seals::inbox_problem(&self.door, number).await?;
        audit.beside.insert(number, Beside { deliveries, values });
        let problem = broken.or(changed).or(missing);
        audit.problems.extend(problem.map(|problem| format!("run {number} ({id}): {problem}")));
        Ok(())
    }

    /// The large values that a run needs, and what is wrong with them.
    async fn blob_problem(
        &self,
        number: i64,
        namespace: &str,
    ) -> Result<(BTreeSet<String>, Option<String>), StoreError> {
        let (mut after, mut all) = (String::new(), BTreeSet::new());
        let limit = sql_limit(BLOBS);
        loop {
            let params: [Param<'_>; 4] = [
                (&number, Type::INT8),
                (&namespace, Type::TEXT),
                (&after, Type::TEXT),
                (&limit, Type::INT8),
            ];
            let found = read(&self.door, BLOBS_OF, &params).await?;
            let found: Vec<(String, Option<String>)> = found
                .iter()
                .map(|row| Ok((get(row, 0)?, get(row, 1)?)))
                .collect::<Result<_, StoreError>>()?;
            all.extend(found.iter().map(|(digest, _)| digest.clone()));
            if let Some(problem) = blob_problem(&self.shared().veil, namespace, &found)? {
                return Ok((all, Some(problem)));
            }
            match found.into_iter().nth(BLOBS - 1) {
                Some((digest, _)) => after = digest,
                None => return Ok((all, None)),
            }
        }
    }
}

fn effect_columns(row: &SqlRow) -> Result<EffectColumns, StoreError> {
    Ok(EffectColumns {
        namespace: get(row, 5)?,
        action: get(row, 6)?,
        key: get(row, 7)?,
        generation: u32::try_from(get::<i64>(row, 1)?).unwrap_or(u32::MAX),
        version: unsigned(row, 2)?,
        state: get(row, 8)?,
        sweep_at: get(row, 9)?,
        alarmed: get(row, 10)?,
        held: get(row, 11)?,
        workflow: get(row, 12)?,
        created_at: get(row, 13)?,
        due_at: get(row, 14)?,
        seal: Some(get(row, 15)?),
        sum: get(row, 4)?,
    })
}

fn run_columns(row: &SqlRow) -> Result<RunColumns, StoreError> {
    Ok(RunColumns {
        namespace: get(row, 5)?,
        id: get(row, 6)?,
        workflow: get(row, 7)?,
        key: get(row, 8)?,
        lane: get(row, 9)?,
        state: get(row, 10)?,
        parked: get(row, 11)?,
        created_at: get(row, 12)?,
        version: unsigned(row, 1)?,
        fence: unsigned(row, 2)?,
        wake_at: get(row, 13)?,
        waits_on: get(row, 14)?,
        sweep_at: get(row, 15)?,
        queue: get(row, 16)?,
        seal: Some(get(row, 17)?),
        sum: get(row, 4)?,
    })
}

fn returned(row: &SqlRow) -> Result<Return, StoreError> {
    let closed_at: Option<i64> = get(row, 4)?;
    let closed = closed_at.map(|at| -> Result<Closed, StoreError> {
        let actor = get::<Option<String>>(row, 5)?.unwrap_or_default();
        let reason = get::<Option<String>>(row, 6)?.unwrap_or_default();
        Ok(Closed { at: Wall(at), actor, reason })
    });
    Ok(Return {
        epoch: unsigned(row, 0)?,
        opened: Wall(get(row, 1)?),
        recovered: Wall(get(row, 2)?),
        evidence: get(row, 3)?,
        closed: closed.transpose()?,
    })
}

fn lost(row: &SqlRow) -> Result<Lost, StoreError> {
    let corrupt = |what: &str| StoreError::Corrupt(format!("a lost row's {what} is none of ours"));
    let (namespace, name): (&str, &str) = (get(row, 2)?, get(row, 4)?);
    let what = match get::<Option<&str>>(row, 3)? {
        Some(action) => LostRow::Effect {
            address: Address {
                namespace: Namespace::stored(namespace).map_err(|_| corrupt("namespace"))?,
                action: Action::new(action).map_err(|_| corrupt("action"))?,
                key: Key::parse(name).map_err(|_| corrupt("key"))?,
            },
            generation: u32::try_from(get::<Option<i64>>(row, 5)?.unwrap_or_default())
                .map_err(|_| corrupt("generation"))?,
        },
        None => LostRow::Run { namespace: namespace.to_owned(), id: name.to_owned() },
    };
    Ok(Lost {
        cursor: get(row, 0)?,
        epoch: unsigned(row, 1)?,
        what,
        version: unsigned(row, 6)?,
        state: get(row, 7)?,
        written: Wall(get(row, 8)?),
        worker: get(row, 9)?,
    })
}
