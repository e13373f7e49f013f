//! Parking a run: it waits, and nobody holds it.

use semel_core::effect::{self, State};
use semel_core::journal::At;
use semel_core::run::{self, On, Wait};
use semel_store::{Batch, Write};

use super::{address, load_effect};
use crate::commit::Stopped;
use crate::runs::drive::{Driver, Halt};
use crate::runs::held::Left;
use crate::runs::port::Work;
use crate::runs::timers::Purpose;

impl Driver {
    /// Nothing can go on before something comes. Compare and set: whatever came since the row was
    /// read makes this fail, and is looked at first.
    pub(crate) async fn park(&mut self) -> Result<Option<Left>, Halt> {
        let mut waits: Vec<Wait> = Vec::new();
        for (id, name) in &self.signals {
            let due = self.timers.find(id).map(|timer| timer.due);
            let note = match &self.works[id] {
                Work::Wait { note, .. } => note.clone(),
                Work::Step { .. }
                | Work::Effect { .. }
                | Work::Child(_)
                | Work::Enter { .. }
                | Work::Leave { .. }
                | Work::Callback
                | Work::Sleep { .. } => None,
            };
            waits.push(Wait { id: id.clone(), on: On::Signal(name.clone()), due, note });
        }
        waits.extend(self.children.waits());
        waits.extend(self.entities.waits());
        let mut writes = Vec::new();
        for timer in self.timers.all() {
            let (id, due) = (timer.id.clone(), Some(timer.due));
            match timer.purpose {
                Purpose::Sleep => waits.push(Wait { id, on: On::Timer, due, note: None }),
                Purpose::Retry => waits.push(Wait { id, on: On::Retry, due, note: None }),
                Purpose::Again | Purpose::Someday => {
                    let is_sure = timer.purpose == Purpose::Someday;
                    let Some((wait, write)) = self.wait_for_effect(id, due, is_sure).await? else {
                        // It was settled meanwhile.
                        self.timers.remove(&timer.id);
                        self.unstarted.push_back(timer.id);
                        return Ok(None);
                    };
                    waits.push(wait);
                    add_note(&mut writes, write);
                }
                Purpose::Timeout | Purpose::Deadline => {}
            }
        }
        self.commit_park(waits, writes).await
    }

    pub(crate) async fn commit_park(
        &mut self,
        waits: Vec<Wait>,
        mut writes: Vec<Write>,
    ) -> Result<Option<Left>, Halt> {
        self.ink.flush().await?;
        let now = self.engine.store().ground().now;
        let mut parked = run::park(&self.run, self.fence, waits).map_err(|_| Halt::Lost)?;
        if self.undoing.is_some() {
            // Whoever goes on taking back needs the code; the deadline has nothing left to end, and
            // passed it would make the run due for ever.
            (parked.needs_code, parked.deadline) = (true, None);
        }
        writes.push(Write::run(&parked, &now));
        match self.engine.commit_firmly(Batch { writes: writes.into() }).await {
            Ok(()) => Ok(Some(Left::Away)),
            Err(Stopped::Stale(_)) => {
                self.reload_firmly().await?;
                Ok(None)
            }
            Err(Stopped::Error(error)) => Err(error.into()),
        }
    }

    /// Notes this run in the row of an effect that somebody else settles. `None`: nobody has to.
    pub(super) async fn wait_for_effect(
        &mut self,
        id: String,
        due: Option<At>,
        is_sure: bool,
    ) -> Result<Option<(Wait, Option<Write>)>, Halt> {
        let address = address(&self.run, &self.open_effects[&id]);
        let Some(effect) = load_effect(&self.engine, &address).await? else { return Ok(None) };
        let now = self.engine.store().ground().now;
        match effect.state(&now) {
            State::Pending | State::InDoubt => {}
            State::Planned if effect.retry_at.is_some_and(|at| !now.reached(at)) => {}
            State::Planned if effect.is_held(&now) => {}
            State::Planned | State::Done | State::Failed | State::Void | State::Expired => {
                return Ok(None);
            }
        }
        let waiting = effect::wait(&effect, &self.run.id);
        // Whoever settles it wakes the run: then there is nothing to look at by time.
        let due = if waiting.is_some() && is_sure { None } else { due };
        let (action, key) = (address.action.as_str().to_owned(), address.key.as_str().to_owned());
        let wait = Wait { id, on: On::Effect { action, key }, due, note: None };
        Ok(Some((wait, waiting.map(|effect| Write::effect(&effect, &now)))))
    }
}

/// Two commands may wait for one effect: the run is noted in its row once.
pub(super) fn add_note(writes: &mut Vec<Write>, note: Option<Write>) {
    let Some(note) = note else { return };
    if !writes.iter().any(|write| write.address() == note.address()) {
        writes.push(note);
    }
}
