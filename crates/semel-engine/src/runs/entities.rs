//! Entities: one run at a time acts on a thing. Entering and leaving are commits of their own,
//! before the journal says so; repeated by a worker that took over, they change nothing.

use std::collections::BTreeMap;

use futures_util::FutureExt;
use semel_core::code::Code;
use semel_core::entity::{self, CARD, Entered, Entity, Place};
use semel_core::journal::{At, Event, Fault, Outcome};
use semel_core::limits;
use semel_core::run::{On, Run, Wait};
use semel_core::time::Moment;
use semel_store::{Batch, Write};

use super::drive::{Driver, Halt, Happened};
use super::port::Work;
use super::timers::Purpose;
use crate::call::{Guard, is_passing};
use crate::commit::Stopped;
use crate::{Engine, Error};

/// The entities of one run.
#[derive(Default)]
pub(crate) struct Entities {
    /// Asked for and not let go, as far as the journal knows: by command, the name.
    open: BTreeMap<String, String>,
    /// Those that others hold.
    waiting: BTreeMap<String, String>,
    /// The version of the run's row at the last look at them.
    seen: u64,
}

impl Entities {
    pub(crate) fn planned(&mut self, id: &str, what: &str) {
        let name = what.strip_prefix("entity ").unwrap_or(what);
        self.open.insert(id.to_owned(), name.to_owned());
    }

    /// `what` names the command that had entered.
    pub(crate) fn left(&mut self, what: &str) {
        let entered = what.strip_prefix("leave ").unwrap_or(what);
        self.open.remove(entered);
    }

    pub(crate) fn waits(&self) -> impl Iterator<Item = Wait> {
        self.waiting.iter().map(|(id, name)| Wait {
            id: id.clone(),
            on: On::Entity(name.clone()),
            due: None,
            note: None,
        })
    }
}

impl Driver {
    fn place(&self, id: &str) -> Place {
        Place { run: self.run.id.clone(), id: id.to_owned() }
    }

    pub(crate) fn start_enter(&mut self, id: String) {
        let Work::Enter { name } = &self.works[&id] else { unreachable!("it enters") };
        let (name, place) = (name.clone(), self.place(&id));
        let guard = self.guard();
        let (engine, namespace) = (self.engine.clone(), self.run.namespace.clone());
        let errand = async move {
            let result = engine.enter(&namespace, &name, &place, &guard).await;
            Happened::Entered { id, result }
        };
        self.errands.push(errand.boxed());
    }

    pub(crate) fn start_leave(&mut self, id: String) {
        let Work::Leave { entered, name } = &self.works[&id] else { unreachable!("it leaves") };
        let (name, place) = (name.clone(), self.place(entered));
        let (engine, namespace) = (self.engine.clone(), self.run.namespace.clone());
        let errand = async move {
            let result = engine.leave_entity(&namespace, &name, &place).await;
            Happened::LeftEntity { id, result }
        };
        self.errands.push(errand.boxed());
    }

    pub(crate) async fn entered(
        &mut self,
        id: String,
        result: Result<Entered, Error>,
    ) -> Result<(), Halt> {
        match result {
            Err(error) if error.code() == Code::RunTaken => Err(Halt::Lost),
            _ if self.is_ending() || self.outcome.is_some() => Ok(()),
            Ok(Entered::Granted(fence)) => self.granted(id, fence).await,
            Ok(Entered::Queued) => {
                let name = self.entities.open.get(&id).cloned().unwrap_or_default();
                self.entities.waiting.insert(id, name);
                Ok(())
            }
            Ok(Entered::Full) => {
                let text = format!("over {} runs wait for the entity", limits::WAITERS_MAX);
                let result = Outcome::Fault(Fault::new(Code::TooMany, text));
                let what = self.issued(&id).what;
                self.happen(Event::Step { id, what, attempts: 1, result }).await.map(|_| ())
            }
            Err(error) => self.try_errand_again(&id, error),
        }
    }

    async fn granted(&mut self, id: String, fence: u64) -> Result<(), Halt> {
        self.entities.waiting.remove(&id);
        let what = self.issued(&id).what;
        self.happen(Event::Entered { id, what, fence }).await.map(|_| ())
    }

    pub(crate) async fn left_entity(
        &mut self,
        id: String,
        result: Result<(), Error>,
    ) -> Result<(), Halt> {
        match result {
            _ if self.is_ending() || self.outcome.is_some() => Ok(()),
            Ok(()) => {
                let what = self.issued(&id).what;
                self.happen(Event::Left { id, what }).await.map(|_| ())
            }
            Err(error) => self.try_errand_again(&id, error),
        }
    }

    fn try_errand_again(&mut self, id: &str, error: Error) -> Result<(), Halt> {
        if !is_passing(error.code()) {
            return Err(error.into());
        }
        let soon = At::from(&self.engine.store().ground().now).plus(limits::POLL_MS);
        self.timers.set(id, soon, Purpose::Retry);
        Ok(())
    }

    /// Looks whether its turn has come, whenever the row has changed: whoever leaves does that.
    pub(crate) async fn look_at_entities(&mut self) -> Result<(), Halt> {
        if self.entities.waiting.is_empty() || self.entities.seen == self.run.version {
            return Ok(());
        }
        self.entities.seen = self.run.version;
        for (id, name) in self.entities.waiting.clone() {
            let (engine, namespace) = (self.engine.clone(), self.run.namespace.clone());
            let read = || engine.kept::<Entity>(&namespace, CARD, &name);
            let entity = engine.read_firmly(read).await?.content;
            let holder = entity.holder.as_ref().map(|holder| &holder.place);
            if holder == Some(&self.place(&id)) {
                self.granted(id, entity.fence).await?;
            }
        }
        Ok(())
    }

    /// What the end of the run writes to let its entities go, and the runs that may act then.
    pub(crate) async fn let_entities_go(
        &mut self,
        now: &Moment,
    ) -> Result<(Vec<Write>, Vec<String>), Halt> {
        let (mut writes, mut woken) = (Vec::new(), Vec::new());
        // Two commands may have asked for one entity: its card is written once.
        let mut changed: BTreeMap<String, (crate::cards::Kept<Entity>, Entity)> = BTreeMap::new();
        for (id, name) in self.entities.open.clone() {
            let place = self.place(&id);
            if !changed.contains_key(&name) {
                let (engine, namespace) = (self.engine.clone(), self.run.namespace.clone());
                let read = || engine.kept::<Entity>(&namespace, CARD, &name);
                let kept = engine.read_firmly(read).await?;
                let content = kept.content.clone();
                changed.insert(name.clone(), (kept, content));
            }
            let (_, entity) = changed.get_mut(&name).expect("it was read");
            if let Some((next, run)) = entity::leave(entity, &place, now.wall) {
                *entity = next;
                woken.extend(run);
            }
        }
        for (kept, entity) in changed.values() {
            if kept.content != *entity {
                writes.push(kept.write(entity, None));
            }
        }
        let own = self.run.id.clone();
        woken.retain(|run| *run != own);
        writes.extend(woken.iter().map(|run| touch(&self.run, run, now)));
        Ok((writes, woken))
    }
}

/// Wakes another run of the same namespace.
pub(crate) fn touch(run: &Run, id: &str, now: &Moment) -> Write {
    Write::Touch { namespace: run.namespace.clone(), id: id.to_owned(), at: now.steady }
}

impl Engine {
    /// Asks for an entity on behalf of a run, for as long as the run is held.
    async fn enter(
        &self,
        namespace: &str,
        name: &str,
        place: &Place,
        guard: &Guard,
    ) -> Result<Entered, Error> {
        let mut before = None;
        for _ in 0..limits::COMMIT_TRIES_MAX {
            let kept = self.kept::<Entity>(namespace, CARD, name).await?;
            if before == Some(kept.version) {
                // The entity is as it was, so it was the run's guard that failed.
                return Err(Error::new(Code::RunTaken, "the run has another worker"));
            }
            let now = self.store().ground().now.wall;
            let (entered, next) = entity::enter(&kept.content, place, now);
            let Some(next) = next else { return Ok(entered) };
            let writes = vec![guard.write(), kept.write(&next, None)];
            match self.commit(Batch { writes: writes.into() }).await {
                Ok(()) => return Ok(entered),
                Err(Stopped::Stale(_)) => before = Some(kept.version),
                Err(Stopped::Error(error)) => return Err(error),
            }
        }
        Err(Error::new(Code::StoreBusy, "the entity kept changing"))
    }

    /// Lets an entity go; whoever is next is woken in the same commit.
    async fn leave_entity(&self, namespace: &str, name: &str, place: &Place) -> Result<(), Error> {
        for _ in 0..limits::COMMIT_TRIES_MAX {
            let kept = self.kept::<Entity>(namespace, CARD, name).await?;
            let now = self.store().ground().now;
            let Some((next, woken)) = entity::leave(&kept.content, place, now.wall) else {
                return Ok(());
            };
            let mut writes = vec![kept.write(&next, None)];
            writes.extend(woken.iter().map(|id| Write::Touch {
                namespace: namespace.to_owned(),
                id: id.clone(),
                at: now.steady,
            }));
            match self.commit(Batch { writes: writes.into() }).await {
                Ok(()) => {
                    woken.iter().for_each(|id| self.touched(id));
                    return Ok(());
                }
                Err(Stopped::Stale(_)) => {}
                Err(Stopped::Error(error)) => return Err(error),
            }
        }
        Err(Error::new(Code::StoreBusy, "the entity kept changing"))
    }
}
