//! The engine's job for runs: freeing those of dead processes, and retention.

use std::collections::HashSet;

use futures_util::future::join_all;
use semel_core::effect;
use semel_core::limits;
use semel_core::record::Effect;
use semel_core::run::{self, Run, State, Sweep};
use semel_store::{RunQuery, RunRow, Write};

use crate::{Engine, Error};

impl Engine {
    /// Ends the leases of processes that are proven dead, so that their runs go on at once.
    pub(crate) async fn free_dead_runs(&self, dead: &HashSet<String>) -> Result<(), Error> {
        for state in [State::Running, State::Cancelling] {
            let mut query = RunQuery::everywhere(limits::SWEEP_ROWS_MAX);
            query.state = Some(state);
            loop {
                let page = self.store().list_runs(&query).await?;
                join_all(page.runs.iter().map(|run| self.free_dead(run, dead))).await;
                query.after = page.next;
                if page.next.is_none() {
                    break;
                }
            }
        }
        self.inner.dispatch.wake();
        Ok(())
    }

    async fn free_dead(&self, run: &Run, dead: &HashSet<String>) {
        let session = run.lease.as_ref().and_then(|lease| lease.session.as_ref());
        let Some(session) = session.filter(|session| dead.contains(*session)) else { return };
        let Some(freed) = run::freed(run, session) else { return };
        let now = self.store().ground().now;
        // Whoever changed the row meanwhile has the last word.
        if self.commit(Write::run(&freed, &now).into()).await.is_ok() {
            tracing::warn!(run = %run.id, "a worker died: its run goes on elsewhere");
        }
    }

    /// Drops what is left of runs past their retention. Returns how many rows were changed.
    pub(crate) async fn sweep_runs(&self) -> Result<usize, Error> {
        let mut swept = 0;
        loop {
            let due = self.store().sweepable_runs(limits::SWEEP_ROWS_MAX).await?;
            let mut changed = 0;
            for run in &due {
                let now = self.store().ground().now;
                let row = match run::sweep(run, &now) {
                    Sweep::Keep => continue,
                    Sweep::Tombstone(tombstone) => Some(RunRow::new(&tombstone, &now)),
                    Sweep::Remove => None,
                };
                let Run { namespace, id, number, version, .. } = run.clone();
                let dropped = Write::DropRun { namespace, id, number, version, row };
                changed += usize::from(self.commit(dropped.into()).await.is_ok());
            }
            swept += changed;
            if changed == 0 || due.len() < limits::SWEEP_ROWS_MAX {
                return Ok(swept);
            }
        }
    }

    /// An effect of a run is kept for as long after the run's end as after its own.
    pub(crate) async fn kept_for_run(&self, effect: &Effect) -> Option<Effect> {
        let id = effect.run.as_ref()?;
        let run = self.store().run(effect.address.namespace.as_str(), id).await.ok()??;
        let now = self.store().ground().now;
        effect::keep_for_run(effect, run.ended.map(|ended| ended.at), &now)
    }
}
