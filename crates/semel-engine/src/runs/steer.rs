//! What reaches a run from outside: signals, a cancel, an operator's decision. Each may be repeated
//! safely.

use semel_core::audit::{Deed, Verb};
use semel_core::code::Code;
use semel_core::effect::Person;
use semel_core::journal::{self, At, Event};
use semel_core::json::Json;
use semel_core::key::{Action, Address, Key, Namespace};
use semel_core::limits;
use semel_core::proof::effect_named;
use semel_core::repeats::{Door, Subject};
use semel_core::run::course::check_delivery_name;
use semel_core::run::{self, Refusal, Run, Steered};
use semel_core::time::Moment;
use semel_store::{Batch, Delivery, Write};

use super::ink::Ink;
use crate::commit::Stopped;
use crate::{Engine, Error, audit};

/// Whether an effect refuses another budget because it needs none.
fn is_not_lacking(code: Code) -> bool {
    matches!(
        code,
        Code::NotExhausted | Code::AlreadySettled | Code::InProgress | Code::VersionChanged
    )
}

/// A signal for a run.
#[derive(Clone, Debug)]
pub struct Signal {
    pub namespace: Namespace,
    pub run: String,
    pub name: String,
    /// Names the delivery: the same identity again is the same delivery. Without one, each is new.
    pub identity: Option<String>,
    pub payload: Json,
}

/// What became of a signal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signalled {
    pub identity: String,
    /// It had been delivered before; this one changed nothing.
    pub repeated: bool,
}

impl Engine {
    /// Puts a signal into a run's inbox and wakes the run. It is kept until a wait consumes it.
    pub async fn signal(&self, signal: Signal) -> Result<Signalled, Error> {
        self.signal_by(signal, Door::Signal).await
    }

    /// Like [`Engine::signal`]: one that was delivered before is a repeat by this door.
    pub(crate) async fn signal_by(&self, signal: Signal, door: Door) -> Result<Signalled, Error> {
        let run = Subject::Run(signal.namespace.as_str().to_owned(), signal.run.clone());
        let signalled = self.deliver(signal).await?;
        if signalled.repeated {
            self.note_repeat(run, door);
        }
        Ok(signalled)
    }

    async fn deliver(&self, signal: Signal) -> Result<Signalled, Error> {
        check_delivery_name(&signal.name)?;
        let identity = match signal.identity {
            Some(identity) => identity,
            None => self.inner.chance.attempt_id(),
        };
        check_delivery_name(&identity)?;
        for _ in 0..limits::COMMIT_TRIES_MAX {
            let run = self.run(&signal.namespace, &signal.run).await?;
            let before = self.store().delivery(run.number, &identity).await?;
            let mut ink = Ink::start(self, &run.namespace, &run.id, run.number);
            let payload = ink.value(signal.payload.clone());
            let payload = Json::of(&payload)?.text().to_owned();
            let waiting = self.store().inbox(run.number).await?.len();
            let first = before.as_ref().map(|one| (one.name.as_str(), one.payload.as_str()));
            match run::deliver(&run, (&signal.name, &payload), first, waiting)? {
                run::Delivery::New => {}
                run::Delivery::Repeat => return Ok(Signalled { identity, repeated: true }),
            }
            let delivery = Delivery {
                run: run.number,
                number: 0,
                identity: identity.clone(),
                name: signal.name.clone(),
                payload,
                at: self.store().ground().now.wall,
                consumed: false,
            };
            let mut writes = ink.take_waiting().await?;
            writes.push(Write::Deliver(delivery));
            match self.commit(Batch { writes: writes.into() }).await {
                Ok(()) => {
                    self.touched(&run.id);
                    return Ok(Signalled { identity, repeated: false });
                }
                Err(Stopped::Stale(_)) => {}
                Err(Stopped::Error(error)) => return Err(error),
            }
        }
        Err(Error::new(Code::StoreBusy, "the run kept changing"))
    }

    /// Asks for the end of a run, in whatever state it is. Repeated, the first asker stands.
    pub async fn cancel_run(
        &self,
        namespace: &Namespace,
        id: &str,
        actor: &str,
        reason: &str,
    ) -> Result<Run, Error> {
        let rule = |run: &Run, now: &Moment| run::cancel(run, actor, reason, now);
        let deed = audit::on_run(id, actor, reason, Verb::CancelRun);
        self.ask_for_end(namespace, id, Some(&deed), rule).await
    }

    /// The same for a child whose parent ends: nobody's decision but the parent's.
    pub(crate) async fn cancel_child(
        &self,
        namespace: &Namespace,
        id: &str,
        reason: &str,
    ) -> Result<Run, Error> {
        let rule = |run: &Run, now: &Moment| run::cancel(run, "semel", reason, now);
        self.ask_for_end(namespace, id, None, rule).await
    }

    /// Writes the wish for an end, and carries it out where nobody holds the run.
    async fn ask_for_end(
        &self,
        namespace: &Namespace,
        id: &str,
        deed: Option<&Deed>,
        rule: impl Fn(&Run, &Moment) -> Result<Option<Run>, Refusal>,
    ) -> Result<Run, Error> {
        for _ in 0..limits::COMMIT_TRIES_MAX {
            let run = self.run(namespace, id).await?;
            let now = self.store().ground().now;
            let Some(asked) = rule(&run, &now)? else { return Ok(run) };
            let write = Write::run(&asked, &now);
            let committed = match deed {
                Some(deed) => {
                    let deed = Deed { version: Some(run.version), ..deed.clone() };
                    let namespace = namespace.as_str();
                    self.commit_audited(vec![write], namespace, &deed, now.wall).await
                }
                None => self.commit(write.into()).await,
            };
            match committed {
                Ok(()) => {
                    self.touched(id);
                    if asked.lease.is_none() {
                        self.carry_out_cancel(&asked).await;
                    }
                    return self.run(namespace, id).await;
                }
                Err(Stopped::Stale(_)) => {}
                Err(Stopped::Error(error)) => return Err(error),
            }
        }
        Err(Error::new(Code::StoreBusy, "the run kept changing"))
    }

    /// Lets a paused run try again what it could not do.
    pub async fn retry_run(
        &self,
        namespace: &Namespace,
        id: &str,
        actor: &str,
        reason: &str,
    ) -> Result<Run, Error> {
        let deed = audit::on_run(id, actor, reason, Verb::RetryRun);
        let run = self.run(namespace, id).await?;
        run::retry(&run, actor, reason)?;
        self.grant_for_retry(&run, actor, reason).await?;
        self.steer(namespace, id, deed, |run, _| run::retry(run, actor, reason)).await
    }

    /// A person's retry of a run that is paused on an effect without budget grants another one. It
    /// is granted first: should the second write fail, nothing is sent while the run is paused.
    async fn grant_for_retry(&self, run: &Run, actor: &str, reason: &str) -> Result<(), Error> {
        let Some(step) = run.paused.as_ref().and_then(|pause| pause.id.as_deref()) else {
            return Ok(());
        };
        let entries = self.journal(run).await?;
        let decoded = entries.iter().filter_map(|inked| journal::decode(&inked.text).ok());
        let name = decoded.map(|entry| entry.event).find_map(|event| match &event {
            Event::Planned { id, .. } if id == step => effect_named(&event).map(str::to_owned),
            _ => None,
        });
        let Some((action, key)) = name.as_ref().and_then(|name| name.split_once('/')) else {
            return Ok(());
        };
        let namespace = Namespace::stored(&run.namespace)?;
        let address = Address { namespace, action: Action::new(action)?, key: Key::parse(key)? };
        let Some(effect) = self.store().load(&address).await? else { return Ok(()) };
        let reason = format!("run {} is retried: {reason}", run.id);
        let person = Person { actor: actor.to_owned(), reason, version: effect.version };
        // The identity of this decision is that of the run's: this one is only its consequence.
        let engine = Engine { identity: None, ..self.clone() };
        match engine.grant(&address, &person).await {
            Ok(_) => Ok(()),
            // It is not the budget that the run lacks, or somebody else has granted one.
            Err(error) if is_not_lacking(error.code()) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Gives the step on which a run is paused its value.
    pub async fn skip_step(
        &self,
        namespace: &Namespace,
        id: &str,
        step: &str,
        value: &Json,
        actor: &str,
        reason: &str,
    ) -> Result<Run, Error> {
        let deed = audit::on_run(id, actor, reason, Verb::SkipStep);
        let deed = Deed { detail: Some(step.to_owned()), ..deed };
        self.steer(namespace, id, deed, |run, ink| {
            run::skip(run, step, ink.value(value.clone()), actor, reason)
        })
        .await
    }

    /// Ends a paused run as failed.
    pub async fn fail_run(
        &self,
        namespace: &Namespace,
        id: &str,
        actor: &str,
        reason: &str,
    ) -> Result<Run, Error> {
        let run = self.run(namespace, id).await?;
        let deed = audit::on_run(id, actor, reason, Verb::FailRun);
        if !self.ends_in_order(&run).await? {
            let now = self.store().ground().now;
            let rule = |run: &Run, _: &mut Ink| run::fail(run, actor, reason, &now);
            return self.steer(namespace, id, deed, rule).await;
        }
        let rule = |run: &Run, now: &Moment| run::fail_in_order(run, actor, reason, now);
        self.ask_for_end(namespace, id, Some(&deed), rule).await
    }

    /// Whether the end of a run is more than a word: it has children, entities or slots, or effects
    /// to take back.
    async fn ends_in_order(&self, run: &Run) -> Result<bool, Error> {
        if !run.watchers.is_empty() || !run.passes.is_empty() || run.expired.is_some() {
            return Ok(run.expired.is_none());
        }
        let entries = self.journal(run).await?;
        let decoded = entries.iter().filter_map(|inked| journal::decode(&inked.text).ok());
        Ok(decoded.map(|entry| entry.event).any(|event| match event {
            Event::Planned { undo, what, .. } => undo || !what.starts_with("effect "),
            _ => false,
        }))
    }

    /// A person's decision: its row and its entries in one commit.
    async fn steer(
        &self,
        namespace: &Namespace,
        id: &str,
        deed: Deed,
        rule: impl Fn(&Run, &mut Ink) -> Result<Steered, Refusal>,
    ) -> Result<Run, Error> {
        for _ in 0..limits::COMMIT_TRIES_MAX {
            let run = self.run(namespace, id).await?;
            let last = self.store().last_entry(run.number).await?;
            let Some(last) = last else { return Err(Refusal::Expired.into()) };
            let mut ink = Ink::after(self, &run.namespace, run.number, &last);
            let steered = rule(&run, &mut ink)?;
            let now = self.store().ground().now;
            for event in steered.events {
                ink.append(At::from(&now), event);
            }
            let mut writes = ink.take_waiting().await?;
            writes.push(Write::run(&steered.run, &now));
            let deed = Deed { version: Some(run.version), ..deed.clone() };
            match self.commit_audited(writes, namespace.as_str(), &deed, now.wall).await {
                Ok(()) => {
                    self.inner.dispatch.wake();
                    return Ok(steered.run);
                }
                Err(Stopped::Stale(_)) => {}
                Err(Stopped::Error(error)) => return Err(error),
            }
        }
        Err(Error::new(Code::StoreBusy, "the run kept changing"))
    }

    /// Tells whoever advances the run in this process.
    pub(crate) fn touched(&self, id: &str) {
        match self.inner.dispatch.held(id) {
            Some(held) => held.touch(),
            None => self.inner.dispatch.wake(),
        }
    }
}
