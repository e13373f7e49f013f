//! Runs: starting them, steering them, and asking what became of them. The driver of one run is in
//! `drive`, the loop that takes runs in `dispatch`.

mod aside;
mod callbacks;
mod children;
mod dispatch;
mod drive;
mod entities;
mod gates;
mod held;
mod ink;
mod keep;
mod leave;
mod live;
mod look;
mod port;
mod releases;
mod start;
mod steer;
mod timers;
mod undo;

pub use callbacks::callback_signal;
pub use dispatch::Offer;
pub use port::{
    Body, Exhausted, Facts, OnDoubt, Pending, Port, StepFault, StepFn, StepTry, Undo, Work,
};
pub use steer::{Signal, Signalled};

pub(crate) use dispatch::Dispatch;
pub(crate) use drive::is_in_body;
pub(crate) use releases::Known;

use std::sync::Arc;

use semel_core::code::Code;
use semel_core::derive;
use semel_core::journal::{self, At, Ending, Event};
use semel_core::json::Json;
use semel_core::key::{Action, Key, Namespace};
use semel_core::limits;
use semel_core::run::{self, Refusal, Run, State, Take};
use semel_store::{Batch, Inked, RunPage, RunQuery, StoreError, Write};

use crate::call::Guard;
use crate::commit::Stopped;
use crate::{Engine, Error};
use drive::Taken;
use gates::Admitted;
use held::{Held, Left};
use ink::Ink;

/// The wish to start a run.
#[derive(Clone, Debug)]
pub struct Start {
    pub namespace: Namespace,
    pub workflow: Action,
    /// Without one a key is made.
    pub key: Option<Key>,
    pub input: Json,
    /// For how long its key answers after its end.
    pub window_ms: u64,
    /// When it is ended by itself, counted from now.
    pub deadline_ms: Option<u64>,
    /// The release to start on; without one, the live one. A draft starts in the draft twin.
    pub release: Option<String>,
    /// The run whose code starts it, and where: it is not started once another worker has that.
    pub parent: Option<(String, Guard)>,
}

/// A run that was started, now or before.
#[derive(Clone)]
pub struct Started {
    pub run: Run,
    /// It was there: this start changed nothing.
    pub attached: bool,
    held: Option<Arc<Held>>,
}

impl Engine {
    fn take_ask(&self) -> Take {
        Take {
            worker: self.inner.worker.clone(),
            session: self.store().session().map(str::to_owned),
            lease_ms: self.run_lease_ms(),
            epoch: self.store().ground().epoch,
        }
    }

    fn taken_event(&self, run: &Run, release: &str) -> Event {
        let worker = self.inner.worker.clone();
        Event::Taken { fence: run.fence, worker, release: release.to_owned(), hears: true }
    }

    /// Takes a run that is due: the lease and its entry in one commit. `None`: somebody else has
    /// it, or nothing is due.
    async fn take_run(
        &self,
        run: &Run,
        release: &str,
    ) -> Result<Option<(Taken, Vec<Inked>)>, Error> {
        let now = self.store().ground().now;
        let Ok(taken) = run::take(run, &self.take_ask(), &now) else {
            return Ok(None);
        };
        // Whoever only ends it asks no gate.
        let is_ending = run.cancel.is_some() || run.deadline.is_some_and(|at| at.is_reached(&now));
        let admitted = match self.admit(run).await? {
            Admitted::In(writes) => writes,
            _ if is_ending => Vec::new(),
            Admitted::Queued(gate, writes) => {
                self.put_into_queue(run, &gate, writes).await?;
                return Ok(None);
            }
            Admitted::Taken(..) => return Ok(None),
        };
        // From here on it stays with the code that takes it.
        let pinned = taken.release.clone().or_else(|| Some(release.to_owned()));
        let release_of = pinned.filter(|release| !release.is_empty());
        let taken = Run { release: release_of, ..taken };
        let mut entries = self.journal(run).await?;
        let inbox = self.store().inbox(run.number).await?;
        let last = entries.last().expect("a started run has an entry");
        let mut ink = Ink::after(self, &run.namespace, run.number, last);
        let now = self.store().ground().now;
        ink.append(At::from(&now), self.taken_event(&taken, release));
        let mut writes = ink.take_waiting().await?;
        writes.push(Write::run(&taken, &now));
        writes.extend(admitted);
        let batch = Batch { writes: writes.into() };
        match self.commit(batch.clone()).await {
            Ok(()) => {}
            Err(Stopped::Stale(_)) => return Ok(None),
            Err(Stopped::Error(error)) => return Err(error),
        }
        entries.extend(appended(&batch));
        let (fence, waits) = (taken.fence, run.waits.clone());
        Ok(Some((Taken { run: taken, fence, inbox, waits, ink }, entries)))
    }

    /// Somebody else has the slot: the run waits for its turn.
    async fn put_into_queue(
        &self,
        run: &Run,
        gate: &str,
        mut writes: Vec<Write>,
    ) -> Result<(), Error> {
        let queued = run::queue(run, gate)?;
        writes.push(Write::run(&queued, &self.store().ground().now));
        match self.commit(Batch { writes: writes.into() }).await {
            Ok(()) | Err(Stopped::Stale(_)) => Ok(()),
            Err(Stopped::Error(error)) => Err(error),
        }
    }

    /// The whole journal of a run, its chain checked.
    pub async fn journal(&self, run: &Run) -> Result<Vec<Inked>, Error> {
        let mut entries: Vec<Inked> = Vec::new();
        loop {
            let from = entries.len() as u64;
            let page = self.store().journal(run.number, from, limits::PAGE_ROWS_MAX).await?;
            let is_full = page.len() == limits::PAGE_ROWS_MAX;
            entries.extend(page);
            if !is_full {
                break;
            }
        }
        let start = journal::Link::of_run(&run.namespace, &run.id);
        let chain = entries.iter().map(|inked| (inked.seq, inked.link, inked.text.as_str()));
        let checked = journal::check_chain(start, chain);
        let checked = checked.and_then(|_| match entries.is_empty() {
            true => Err("it is empty".to_owned()),
            false => Ok(()),
        });
        checked
            .map_err(|what| StoreError::Corrupt(format!("journal of run {}: {what}", run.id)))?;
        Ok(entries)
    }

    /// One run.
    pub async fn run(&self, namespace: &Namespace, id: &str) -> Result<Run, Error> {
        let found = self.store().run(namespace.as_str(), id).await?;
        Ok(found.ok_or(Refusal::NotFound)?)
    }

    /// Runs, newest first.
    pub async fn runs(&self, query: &RunQuery) -> Result<RunPage, Error> {
        let Some((namespace, id)) = named(query) else {
            return Ok(self.store().list_runs(query).await?);
        };
        // A namespace, a workflow and a key name one run: nothing is searched.
        let run = self.store().run(&namespace, &id).await?;
        let is_asked = |run: &Run| {
            query.state.is_none_or(|state| run.state() == state)
                && query.after.is_none_or(|after| run.number < after)
        };
        let runs = run.into_iter().filter(is_asked).take(query.limit).collect();
        Ok(RunPage { runs, ..RunPage::default() })
    }

    /// Waits for the end of a run that was just started.
    pub async fn result_of(&self, started: &Started) -> Result<Json, Error> {
        if let Some(held) = &started.held
            && let Left::Ended(answer) = held.left().await
        {
            return answer;
        }
        self.result(&started.run.namespace, &started.run.id).await
    }

    /// Waits for the end of a run, wherever it is advanced, and returns what it came to.
    pub async fn result(&self, namespace: &str, id: &str) -> Result<Json, Error> {
        loop {
            if let Some(held) = self.inner.dispatch.held(id)
                && let Left::Ended(answer) = held.left().await
            {
                return answer;
            }
            let mut hints = self.store().hints();
            let run = self.store().run(namespace, id).await?.ok_or(Refusal::NotFound)?;
            if run.state().is_final() {
                return self.ending(&run).await;
            }
            if let Some(pause) = run.paused {
                let text = format!("the run is paused: {} ({})", pause.detail, pause.code);
                let error = Error::new(Code::RunPaused, text);
                return Err(match pause.raised {
                    Some(raised) => error.with_raised(*raised),
                    None => error,
                });
            }
            // Not at each hint: a busy store gives many.
            self.store().clock().sleep_ms(20).await;
            tokio::select! {
                _ = hints.changed() => {}
                () = self.store().clock().sleep_ms(limits::POLL_MS) => {}
            }
        }
    }

    /// What a run that has ended came to.
    pub async fn ending(&self, run: &Run) -> Result<Json, Error> {
        if run.state() == State::Expired {
            return Err(Refusal::Expired.into());
        }
        let last = self.store().last_entry(run.number).await?;
        let entry = last.and_then(|inked| journal::decode(&inked.text).ok());
        match entry.map(|entry| entry.event) {
            Some(Event::Finished { end: Ending::Done(value) }) => {
                self.read_value(&run.namespace, &value).await
            }
            Some(Event::Finished { end: Ending::Failed(fault) }) => Err(fault.into()),
            Some(Event::Finished { end: Ending::Cancelled(reason) }) => {
                Err(Error::new(Code::Cancelled, format!("the run was cancelled: {reason}")))
            }
            Some(_) | None => {
                let text = format!("run {} has ended, its journal has not", run.id);
                Err(StoreError::Corrupt(text).into())
            }
        }
    }
}

/// The one run that a query can mean.
fn named(query: &RunQuery) -> Option<(String, String)> {
    let namespace = Namespace::stored(query.namespace.as_ref()?).ok()?;
    let key = Key::parse(query.key.as_ref()?).ok()?;
    let id = derive::run_id(&namespace, query.workflow.as_ref()?, &key).to_string();
    Some((namespace.as_str().to_owned(), id))
}

/// The entries that a batch appends, as they are read back.
fn appended(batch: &Batch) -> Vec<Inked> {
    let entry = |write: &Write| match write {
        Write::Append(append) => {
            Some(Inked { seq: append.seq, link: append.link, text: append.text.clone() })
        }
        _ => None,
    };
    batch.writes.iter().filter_map(entry).collect()
}
