//! Children: runs that a run starts and waits for. They are started under keys of their own, so a
//! worker that died in between finds them; the end of a child wakes its parent in the same commit.

use std::collections::BTreeMap;

use futures_util::FutureExt;
use semel_core::code::Code;
use semel_core::derive;
use semel_core::journal::{At, Event, Fault, Outcome};
use semel_core::key::{Key, Namespace};
use semel_core::limits;
use semel_core::repeats::Door;
use semel_core::run::{self, On, Run, Wait};
use semel_store::Write;

use super::drive::{Driver, Halt, Happened};
use super::port::Work;
use super::timers::Purpose;
use crate::call::is_passing;
use crate::commit::Stopped;
use crate::{Engine, Error};

/// The children of one run.
#[derive(Default)]
pub(crate) struct Children {
    /// Planned and not ended, as far as the journal knows: `child WORKFLOW/KEY`.
    open: BTreeMap<String, String>,
    /// Those that were started and have not ended, with the id of their run.
    waiting: BTreeMap<String, String>,
    /// The version of the run's row at the last look at them.
    seen: u64,
}

impl Children {
    pub(crate) fn planned(&mut self, id: &str, what: &str) {
        self.open.insert(id.to_owned(), what.to_owned());
    }

    pub(crate) fn ended(&mut self, id: &str) {
        self.open.remove(id);
        self.waiting.remove(id);
    }

    pub(crate) fn waits(&self) -> impl Iterator<Item = Wait> {
        self.waiting.iter().map(|(id, run)| Wait {
            id: id.clone(),
            on: On::Child(run.clone()),
            due: None,
            note: None,
        })
    }
}

impl Driver {
    pub(crate) fn start_child(&mut self, id: String) {
        let Work::Child(start) = &self.works[&id] else { unreachable!("it is a child") };
        let mut start = start.as_ref().clone();
        start.parent = Some((self.run.id.clone(), self.guard()));
        let now = self.engine.store().ground().now;
        // It has no longer than its parent.
        let left_ms = self.run.deadline.map(|at| at.remaining_ms(&now).max(1));
        start.deadline_ms = start.deadline_ms.into_iter().chain(left_ms).min();
        let (engine, parent) = (self.engine.clone(), self.run.id.clone());
        // One that was coalesced with another run has no run of its own to be found by its key.
        let waited = self.waits_before.iter().find_map(|wait| match &wait.on {
            On::Child(run) if wait.id == id => Some(run.clone()),
            _ => None,
        });
        let errand = async move {
            let result = match waited {
                Some(run) => engine.watch_child(&start.namespace, &run, &parent).await,
                None => engine.start_child(start, &parent).await,
            };
            Happened::Child { id, result: Box::new(result) }
        };
        self.errands.push(errand.boxed());
    }

    pub(crate) async fn child_started(
        &mut self,
        id: String,
        result: Result<Run, Error>,
    ) -> Result<(), Halt> {
        match result {
            _ if self.is_ending() => Ok(()),
            Ok(run) if run.state().is_final() => self.end_child(id, &run).await,
            Ok(run) => {
                self.children.waiting.insert(id, run.id);
                Ok(())
            }
            Err(error) if error.code() == Code::RunTaken => Err(Halt::Lost),
            Err(error) if is_passing(error.code()) => {
                let soon = At::from(&self.engine.store().ground().now).plus(limits::POLL_MS);
                self.timers.set(&id, soon, Purpose::Retry);
                Ok(())
            }
            Err(error) => {
                let what = self.issued(&id).what;
                let result = Outcome::Fault((&error).into());
                self.happen(Event::Child { id, what, run: String::new(), result }).await.map(|_| ())
            }
        }
    }

    /// Looks which children have ended, whenever the row has changed: the end of a child does that.
    pub(crate) async fn look_at_children(&mut self) -> Result<(), Halt> {
        if self.children.waiting.is_empty() || self.children.seen == self.run.version {
            return Ok(());
        }
        self.children.seen = self.run.version;
        for (id, child) in self.children.waiting.clone() {
            let found = self.child(&child).await?;
            if let Some(run) = found.filter(|run| run.state().is_final()) {
                self.end_child(id, &run).await?;
            }
        }
        Ok(())
    }

    async fn child(&mut self, id: &str) -> Result<Option<Run>, Halt> {
        let (engine, namespace) = (self.engine.clone(), self.run.namespace.clone());
        Ok(engine.read_firmly(|| engine.store().run(&namespace, id)).await?)
    }

    async fn end_child(&mut self, id: String, run: &Run) -> Result<(), Halt> {
        let engine = self.engine.clone();
        let result = match engine.read_firmly(|| engine.ending(run)).await {
            Ok(value) => Outcome::Value(self.ink.value(value)),
            Err(error) => {
                let text = format!("run {}/{}: {error}", run.workflow, run.key);
                let raised = error.raised().cloned().map(Box::new);
                Outcome::Fault(Fault::new(Code::ChildFailed, text).with(raised))
            }
        };
        let what = self.issued(&id).what;
        self.happen(Event::Child { id, what, run: run.id.clone(), result }).await.map(|_| ())
    }

    /// The children of this run that have not ended; on request each is cancelled. `None`: one is
    /// only being started.
    pub(crate) async fn unended_children(
        &mut self,
        cancel: bool,
    ) -> Result<Option<Vec<Wait>>, Halt> {
        if !self.errands.is_empty() {
            return Ok(None);
        }
        let mut waits = Vec::new();
        for (id, what) in self.children.open.clone() {
            let child = child_id(&self.run, &what);
            let Some(child) = self.child(&child).await? else { continue };
            // Somebody else's run, to which this one was only attached, goes on without it.
            let is_own = child.parent.as_deref() == Some(self.run.id.as_str());
            if child.state().is_final() || !is_own {
                continue;
            }
            if cancel {
                let namespace = Namespace::stored(&child.namespace).unwrap_or_default();
                let reason = "the run that started it ends";
                let asked = self.engine.cancel_child(&namespace, &child.id, reason).await;
                match asked {
                    Ok(child) if child.state().is_final() => continue,
                    Ok(_) => {}
                    Err(error) if error.code() == Code::RunFinished => continue,
                    Err(error) => return Err(error.into()),
                }
            }
            waits.push(Wait { id, on: On::Child(child.id), due: None, note: None });
        }
        if !waits.is_empty() && !self.ink.is_durable() {
            self.ink.flush().await?;
        }
        Ok(Some(waits))
    }
}

/// The id of the run that a command asked for, as the journal names it.
fn child_id(run: &Run, what: &str) -> String {
    let named = what.strip_prefix("child ").and_then(|name| name.split_once('/'));
    let (workflow, key) = named.expect("a planned child is named by workflow and key");
    let namespace = Namespace::stored(&run.namespace).expect("a stored name is valid");
    let key = Key::parse(key).expect("a planned key is valid");
    derive::run_id(&namespace, workflow, &key).to_string()
}

impl Engine {
    /// Starts a child or finds it, and has its parent woken at its end.
    async fn start_child(&self, start: super::Start, parent: &str) -> Result<Run, Error> {
        let run = self.start_run_by(start, Door::Run).await?.run;
        self.watched(run, parent).await
    }

    /// A child that is there already.
    async fn watch_child(
        &self,
        namespace: &Namespace,
        id: &str,
        parent: &str,
    ) -> Result<Run, Error> {
        let run = self.run(namespace, id).await?;
        self.watched(run, parent).await
    }

    async fn watched(&self, mut run: Run, parent: &str) -> Result<Run, Error> {
        let namespace = Namespace::stored(&run.namespace)?;
        for _ in 0..limits::COMMIT_TRIES_MAX {
            if run.state().is_final() {
                return Ok(run);
            }
            let Some(watched) = run::watch(&run, parent)? else { return Ok(run) };
            let now = self.store().ground().now;
            match self.commit(Write::run(&watched, &now).into()).await {
                Ok(()) => return Ok(watched),
                Err(Stopped::Stale(_)) => run = self.run(&namespace, &run.id).await?,
                Err(Stopped::Error(error)) => return Err(error),
            }
        }
        Err(Error::new(Code::StoreBusy, "the child kept changing"))
    }
}
