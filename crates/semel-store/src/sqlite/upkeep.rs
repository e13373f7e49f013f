//! What an operator asks of a file.

use async_trait::async_trait;
use rusqlite::Connection;
use semel_core::time::Wall;

use super::run_audit::{self, BLOBS, Page};
use super::standing::{self, Closing};
use super::{Sqlite, cards, rows};
use crate::upkeep::{blob_problem, chain_problem};
use crate::{Audit, CardAudit, Closed, CommitError, Lost, Return, RunAudit, StoreError, Upkeep};

#[async_trait]
impl Upkeep for Sqlite {
    fn place(&self) -> String {
        self.path.display().to_string()
    }

    fn format(&self) -> i64 {
        self.format
    }

    async fn check_pages(&self) -> Result<Vec<String>, StoreError> {
        self.reader.run(rows::quick_check).await
    }

    async fn audit(&self, after: i64, limit: usize) -> Result<Audit, StoreError> {
        let now = self.shared.now();
        self.reader.run(move |connection| rows::audit(connection, &now, after, limit)).await
    }

    async fn audit_runs(&self, after: i64, limit: usize) -> Result<RunAudit, StoreError> {
        let now = self.shared.now();
        let read = move |connection: &Connection| run_audit::page(connection, &now, after, limit);
        let Page { mut audit, names } = self.read_runs(read).await?;
        for (number, namespace, id) in names {
            let problem = match chain_problem(self, number, &namespace, &id).await? {
                Some(problem) => Some(problem),
                None => self.blob_problem(number, &namespace).await?,
            };
            let named = problem.map(|problem| format!("run {number} ({id}): {problem}"));
            audit.problems.extend(named);
        }
        Ok(audit)
    }

    async fn audit_journals(&self, after: i64, limit: usize) -> Result<RunAudit, StoreError> {
        self.read_runs(move |connection| run_audit::strays(connection, after, limit)).await
    }

    async fn audit_cards(
        &self,
        after: Option<(String, String, String)>,
        limit: usize,
    ) -> Result<CardAudit, StoreError> {
        let read = move |connection: &Connection| cards::audit(connection, after.as_ref(), limit);
        self.read_since(cards::CARDS_FORMAT, read).await
    }

    async fn returns(&self) -> Result<Vec<Return>, StoreError> {
        let read = |connection: &Connection| Ok(standing::returns(connection)?);
        let mut returns = self.reader.run(read).await?;
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

    /// Nothing: a file's processes die with its machine, and none remembers what it wrote.
    async fn lost(&self, _after: i64, _limit: usize) -> Result<Vec<Lost>, StoreError> {
        Ok(Vec::new())
    }
}

impl Sqlite {
    async fn blob_problem(
        &self,
        number: i64,
        namespace: &str,
    ) -> Result<Option<String>, StoreError> {
        let mut after = String::new();
        loop {
            let (namespace, from) = (namespace.to_owned(), after.clone());
            let read = move |connection: &Connection| {
                run_audit::blobs(connection, number, &namespace, &from)
            };
            let found = self.read_runs(read).await?;
            if let Some(problem) = blob_problem(&found) {
                return Ok(Some(problem));
            }
            match found.into_iter().nth(BLOBS - 1) {
                Some((digest, _)) => after = digest,
                None => return Ok(None),
            }
        }
    }
}
