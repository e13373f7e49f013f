//! Starting runs: on which release, through which gates, once per key.

use semel_core::code::Code;
use semel_core::gate::{Mode, Policy, PolicyInvalid};
use semel_core::journal::{At, Event};
use semel_core::json::Json;
use semel_core::key::{Key, Namespace};
use semel_core::limits;
use semel_core::repeats::{Door, Subject};
use semel_core::run::{self, Run};
use semel_store::{Batch, Write};

use super::drive::Taken;
use super::gates::Admitted;
use super::ink::Ink;
use super::{Start, Started, appended, dispatch, gates};
use crate::commit::Stopped;
use crate::{Engine, Error};

/// Where and on which release a run starts.
struct Pinned {
    namespace: Namespace,
    release: Option<String>,
    strict: bool,
    policy: Policy,
}

impl Engine {
    /// Starts a run, or attaches to the one that this key started before. Where this process offers
    /// the workflow it also takes it, in the same commit.
    pub async fn start_run(&self, ask: Start) -> Result<Started, Error> {
        self.start_run_by(ask, Door::Start).await
    }

    /// Like [`Engine::start_run`]: where it attaches, that is a repeat by this door.
    pub(crate) async fn start_run_by(&self, ask: Start, door: Door) -> Result<Started, Error> {
        let started = self.start_or_attach(ask).await?;
        if started.attached {
            let Run { namespace, id, .. } = &started.run;
            self.note_repeat(Subject::Run(namespace.clone(), id.clone()), door);
        }
        Ok(started)
    }

    async fn start_or_attach(&self, ask: Start) -> Result<Started, Error> {
        let key = match &ask.key {
            Some(key) => key.clone(),
            None => Key::from_text(&self.inner.chance.attempt_id())?,
        };
        let Pinned { namespace, release, strict, policy } = self.pin(&ask).await?;
        let ask = Start { namespace, ..ask };
        let invalid = |refused: PolicyInvalid| Error::new(Code::InputInvalid, refused.0);
        let passes = policy.passes(ask.workflow.as_str(), &ask.input).map_err(invalid)?;
        let mut start = run::Start {
            namespace: ask.namespace,
            workflow: ask.workflow,
            key,
            input: ask.input,
            number: 0,
            window_ms: ask.window_ms,
            deadline_ms: ask.deadline_ms,
            release,
            strict,
            passes,
            parent: ask.parent.as_ref().map(|(id, _)| id.clone()),
        };
        let guard = ask.parent.as_ref().map(|(_, guard)| guard.write());
        for _ in 0..limits::COMMIT_TRIES_MAX {
            let now = self.store().ground().now;
            start.number = (now.wall.0 << 20) | i64::from(self.jitter() >> 12);
            let run = run::start(&start, &now);
            let id = run.id.clone();
            // Nobody goes through a gate twice, so it is not asked for a run that is there.
            if !start.passes.is_empty()
                && let Some(started) = self.attach(&start, &id).await?
            {
                return Ok(started);
            }
            match self.insert_run(run, start.input.clone(), guard.clone()).await {
                Ok(started) => return Ok(started),
                Err(Stopped::Stale(_)) => {}
                Err(Stopped::Error(error)) => return Err(error),
            }
            // The key is taken, or the number: then another one is drawn.
            if let Some(started) = self.attach(&start, &id).await? {
                return Ok(started);
            }
            if guard.is_some() && start.passes.is_empty() {
                // The key is free and there is no gate, so it was the parent that was taken.
                return Err(Error::new(Code::RunTaken, "the parent has another worker"));
            }
        }
        Err(Error::new(Code::StoreBusy, "no number was free for the run"))
    }

    async fn attach(&self, start: &run::Start, id: &str) -> Result<Option<Started>, Error> {
        let Some(run) = self.store().run(start.namespace.as_str(), id).await? else {
            return Ok(None);
        };
        run::attach(&run, start)?;
        let held = self.inner.dispatch.held(&run.id);
        Ok(Some(Started { run, attached: true, held }))
    }

    async fn insert_run(
        &self,
        run: Run,
        input: Json,
        guard: Option<Write>,
    ) -> Result<Started, Stopped> {
        let now = self.store().ground().now;
        let at = At::from(&now);
        let mut ink = Ink::start(self, &run.namespace, &run.id, run.number);
        let input = ink.value(input);
        ink.append(at, Event::Started { workflow: run.workflow.clone(), input });
        let (run, admitted) = match self.admit(&run).await? {
            Admitted::In(writes) => (run, writes),
            Admitted::Queued(gate, writes) => {
                let queued = run::queue(&run, &gate).map_err(Error::from)?;
                (Run { version: run.version, ..queued }, writes)
            }
            Admitted::Taken(Mode::Coalesce, other) => {
                let run = self.store().run(&run.namespace, &other).await.map_err(Error::from)?;
                // It ended meanwhile: the gate is asked again.
                let run = run.ok_or(Stopped::Stale(None))?;
                let held = self.inner.dispatch.held(&run.id);
                return Ok(Started { run, attached: true, held });
            }
            Admitted::Taken(_, other) => return Err(gates::rejected(&other).into()),
        };
        let guard: Vec<Write> = guard.into_iter().chain(admitted).collect();
        let is_queued = run.queue().is_some();
        let slot = if is_queued { None } else { self.slot(&run) };
        let Some(slot) = slot else {
            let mut writes: Vec<Write> = guard.into_iter().collect();
            writes.push(Write::run(&run, &now));
            writes.extend(ink.take_waiting().await?);
            self.commit(Batch { writes: writes.into() }).await?;
            self.inner.dispatch.wake();
            return Ok(Started { run, attached: false, held: None });
        };
        let taken = run::take(&run, &self.take_ask(), &now).expect("a new run is free");
        let run = Run { version: run.version, ..taken };
        ink.append(at, self.taken_event(&run, slot.release()));
        let mut writes: Vec<Write> = guard.into_iter().collect();
        writes.push(Write::run(&run, &now));
        writes.extend(ink.take_waiting().await?);
        let batch = Batch { writes: writes.into() };
        self.commit(batch.clone()).await?;
        let held = slot.held.clone();
        let fence = run.fence;
        let taken = Taken { run: run.clone(), fence, inbox: Vec::new(), waits: Vec::new(), ink };
        dispatch::spawn_driver(self, slot, taken, appended(&batch));
        Ok(Started { run, attached: false, held: Some(held) })
    }

    /// Where and on which release a run starts.
    async fn pin(&self, ask: &Start) -> Result<Pinned, Error> {
        let (place, workflow) = (ask.namespace.as_str(), ask.workflow.as_str());
        let mut known = self.releases_of(place, workflow).await?;
        if ask.release.as_ref().is_some_and(|name| known.find(name).is_none()) {
            // Somebody may have offered it a moment ago.
            known = self.releases_now(place, workflow).await?;
        }
        let namespace = ask.namespace.clone();
        let Some(name) = &ask.release else {
            let live = known.live.as_ref().filter(|_| !namespace.is_draft());
            let found = live.and_then(|live| known.find(live));
            let release = match found {
                Some(release) => Some(release.name.clone()),
                None => self.offered_here(&namespace, ask.workflow.as_str()),
            };
            let (strict, policy) = match found {
                Some(release) => (release.strict, known.policy.clone()),
                None => self.declared_here(&namespace, ask.workflow.as_str()),
            };
            return Ok(Pinned { namespace, release, strict, policy });
        };
        let found = known.find(name).ok_or_else(|| {
            let text = format!("{} has no release {name}", ask.workflow.as_str());
            Error::new(Code::ReleaseUnknown, text)
        })?;
        let namespace = if found.draft { namespace.draft() } else { namespace };
        let (release, strict) = (Some(name.clone()), found.strict);
        Ok(Pinned { namespace, release, strict, policy: found.policy.clone() })
    }
}
