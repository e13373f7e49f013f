//! What an operator asks of a file.

use std::collections::BTreeSet;

use async_trait::async_trait;
use rusqlite::Connection;
use semel_core::time::Wall;

use super::run_audit::{self, BLOBS, Page};
use super::runs::RUNS_FORMAT;
use super::standing::{self, Closing};
use super::{Sqlite, cards, lost, rows, seals, tally};
use crate::upkeep::{blob_problem, chain_problem};
use crate::{
    Audit, Belonging, Beside, CardAudit, Closed, CommitError, Identity, Lost, PartAudit, Return,
    RunAudit, StoreError, Tally, Upkeep,
};

/// How many deliveries are read at once.
const DELIVERIES: usize = 64;

#[async_trait]
impl Upkeep for Sqlite {
    fn place(&self) -> String {
        self.path.display().to_string()
    }

    fn format(&self) -> i64 {
        self.format
    }

    async fn tally(&self, most: u32) -> Result<Tally, StoreError> {
        self.readers.lists.run(move |connection| tally::tally(connection, most)).await
    }

    async fn check_pages(&self) -> Result<Vec<String>, StoreError> {
        self.readers.lists.run(rows::quick_check).await
    }

    async fn audit(&self, after: i64, limit: usize) -> Result<Audit, StoreError> {
        let (now, veil) = (self.shared.now(), self.veil());
        let read =
            move |connection: &Connection| rows::audit(connection, &veil, &now, after, limit);
        self.readers.lists.run(read).await
    }

    async fn audit_runs(&self, after: i64, limit: usize) -> Result<RunAudit, StoreError> {
        let (now, veil) = (self.shared.now(), self.veil());
        let read =
            move |connection: &Connection| run_audit::page(connection, &veil, &now, after, limit);
        let Page { mut audit, names } = self.list_since(RUNS_FORMAT, read).await?;
        for (number, namespace, id) in names {
            let name = (number, &*namespace, &*id);
            let broken = chain_problem(self, &self.shared.veil, name).await?;
            let (values, changed) = self.blob_problem(number, &namespace).await?;
            let (deliveries, missing) = self.inbox_problem(number).await?;
            audit.beside.insert(number, Beside { deliveries, values });
            let problem = broken.or(changed).or(missing);
            let named = problem.map(|problem| format!("run {number} ({id}): {problem}"));
            audit.problems.extend(named);
        }
        Ok(audit)
    }

    async fn audit_strays(
        &self,
        belonging: Belonging,
        after: i64,
        limit: usize,
    ) -> Result<PartAudit<i64>, StoreError> {
        let read =
            move |connection: &Connection| seals::strays(connection, belonging, after, limit);
        self.list_since(RUNS_FORMAT, read).await
    }

    async fn audit_blobs(
        &self,
        after: (String, String),
        limit: usize,
    ) -> Result<PartAudit<(String, String)>, StoreError> {
        let veil = self.veil();
        self.list_since(RUNS_FORMAT, move |connection| {
            seals::blobs(connection, &veil, &after, limit)
        })
        .await
    }

    async fn audit_own(&self) -> Result<PartAudit<i64>, StoreError> {
        self.readers.lists.run(seals::own_rows).await
    }

    /// Nothing: intents are handed over by a transaction of the ledger itself.
    async fn audit_outbox(&self, _: i64, _: usize) -> Result<PartAudit<i64>, StoreError> {
        Ok(PartAudit::default())
    }

    async fn identity(&self) -> Result<Identity, StoreError> {
        let standing =
            self.readers.points.run(|connection| Ok(standing::any_standing(connection)?)).await?;
        Ok(Identity {
            store: self.shared.store_id.clone(),
            epoch: standing.epoch,
            commits: Some(standing.commits),
            wall_high: Wall(standing.wall_high),
        })
    }

    async fn audit_cards(
        &self,
        after: Option<(String, String, String)>,
        limit: usize,
    ) -> Result<CardAudit, StoreError> {
        let veil = self.veil();
        let read =
            move |connection: &Connection| cards::audit(connection, &veil, after.as_ref(), limit);
        self.list_since(cards::CARDS_FORMAT, read).await
    }

    async fn returns(&self) -> Result<Vec<Return>, StoreError> {
        let read = |connection: &Connection| Ok(standing::returns(connection)?);
        let mut returns = self.readers.points.run(read).await?;
        let recorded = returns.first().map_or(0, |newest| newest.epoch);
        let foreseen = self.foreseen.clone().filter(|foreseen| foreseen.epoch > recorded);
        returns.splice(0..0, foreseen);
        Ok(returns)
    }

    async fn close_quarantine(
        &self,
        epoch: u64,
        actor: &str,
        reason: &str,
    ) -> Result<(), CommitError> {
        let at = Wall(self.shared.clock.read().wall_ms);
        let closed = Closed { at, actor: actor.to_owned(), reason: reason.to_owned() };
        match self.writer()?.close_quarantine(epoch, closed).await? {
            Closing::Done | Closing::Already => Ok(()),
            Closing::Stale => Err(CommitError::Stale(Vec::new())),
        }
    }

    async fn lost(&self, after: i64, limit: usize) -> Result<Vec<Lost>, StoreError> {
        lost::read(&super::side_folder(&self.path), after, limit)
    }
}

impl Sqlite {
    /// How many deliveries a run has, and what is wrong with them.
    async fn inbox_problem(&self, number: i64) -> Result<(u64, Option<String>), StoreError> {
        let mut after = 0;
        loop {
            let read = move |connection: &Connection| {
                seals::inbox_problem(connection, number, after, DELIVERIES)
            };
            match self.list_since(RUNS_FORMAT, read).await? {
                (_, Some(problem)) => return Ok((after.unsigned_abs(), Some(problem))),
                (Some(last), None) => after = last,
                (None, None) => return Ok((after.unsigned_abs(), None)),
            }
        }
    }

    /// The large values that a run needs, and what is wrong with them.
    async fn blob_problem(
        &self,
        number: i64,
        namespace: &str,
    ) -> Result<(BTreeSet<String>, Option<String>), StoreError> {
        let (mut after, mut all) = (String::new(), BTreeSet::new());
        loop {
            let (owned, from) = (namespace.to_owned(), after.clone());
            let read =
                move |connection: &Connection| run_audit::blobs(connection, number, &owned, &from);
            let found = self.list_since(RUNS_FORMAT, read).await?;
            all.extend(found.iter().map(|(digest, _)| digest.clone()));
            if let Some(problem) = blob_problem(&self.shared.veil, namespace, &found)? {
                return Ok((all, Some(problem)));
            }
            match found.into_iter().nth(BLOBS - 1) {
                Some((digest, _)) => after = digest,
                None => return Ok((all, None)),
            }
        }
    }
}
