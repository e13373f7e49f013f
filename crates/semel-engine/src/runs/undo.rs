//! Sagas: a run that fails or is cancelled takes back what it did, the last first. Each undo is an
//! effect like any other, with its own contract and its own doubt; one that cannot be done pauses
//! the run.

use std::collections::{BTreeSet, VecDeque};

use semel_core::code::Code;
use semel_core::effect::{self, State};
use semel_core::journal::{Fault, Outcome};
use semel_core::json::Json;
use semel_core::key::{Address, Namespace};
use semel_core::limits;
use semel_core::record::{Effect, Named};
use semel_core::run::course::Course;
use semel_core::time::Moment;
use semel_store::Write;

use super::drive::{Driver, Halt, pause};
use super::held::Left;
use super::leave::{address, load_effect};
use super::port::{OnDoubt, Undo, Work};
use crate::commit::Stopped;
use crate::{Engine, Error, lock};

/// An effect whose code says how to take it back.
pub(crate) struct Undoable {
    /// The effect, as the journal names it.
    what: String,
    undo: Undo,
}

/// What is being taken back.
pub(crate) struct Undoing {
    /// Ids of effects that are not taken back yet, in the order in which they will be.
    left: VecDeque<String>,
    /// The undo that is open, and the effect that it takes back.
    open: Option<(String, String)>,
    /// Why the open one cannot even be tried: an operator sees to it.
    stuck: Option<(Code, String)>,
    /// Why the run has failed; `None`: it is cancelled, or over its deadline.
    pub(crate) fault: Option<Fault>,
}

impl Undoable {
    pub(crate) fn new(what: String, undo: Undo) -> Undoable {
        Undoable { what, undo }
    }
}

impl Driver {
    /// Remembers the order in which effects were done.
    pub(crate) fn note_applied(&mut self, id: &str, result: &Outcome) {
        let is_done = matches!(result, Outcome::Value(_));
        if is_done && self.undoables.contains_key(id) {
            self.applied.push(id.to_owned());
        }
    }

    /// What this run has to take back, the last first: what its own attempts have done, whether or
    /// not its code has heard of it.
    pub(crate) async fn find_undoable(&mut self) -> Result<Vec<String>, Halt> {
        let unheard = self.open_effects.keys().filter(|id| self.undoables.contains_key(*id));
        let candidates: Vec<String> = self.applied.iter().chain(unheard).cloned().collect();
        let (mut ids, mut seen) = (Vec::new(), BTreeSet::new());
        for id in candidates {
            // Two commands may have asked for one effect: it is taken back once.
            if !seen.insert(self.undoables[&id].what.clone()) {
                continue;
            }
            let effect = self.undoable_effect(&id).await?;
            let now = self.engine.store().ground().now;
            let is_ours = effect.as_ref().and_then(Effect::owner) == Some(self.run.id.as_str());
            let is_done = effect.as_ref().map(|effect| effect.state(&now)) == Some(State::Done);
            if is_ours && is_done {
                ids.push(id);
            }
        }
        ids.reverse();
        Ok(ids)
    }

    async fn undoable_effect(&mut self, id: &str) -> Result<Option<Effect>, Halt> {
        let Some(undoable) = self.undoables.get(id) else { return Ok(None) };
        let (engine, address) = (self.engine.clone(), address(&self.run, &undoable.what));
        load_effect(&engine, &address).await
    }

    /// From here on the code is not asked any more.
    pub(crate) async fn begin_undoing(
        &mut self,
        ids: Vec<String>,
        fault: Option<Fault>,
    ) -> Result<(), Halt> {
        self.drop_code();
        self.open_effects.clear();
        // Nothing that the code asked for is answered any more: what is open leaves its place.
        lock(&self.desk).course = Course::default();
        self.undoing = Some(Undoing { left: ids.into(), open: None, stuck: None, fault });
        self.next_undo().await
    }

    /// Opens the next undo, as if the code had asked for it.
    async fn next_undo(&mut self) -> Result<(), Halt> {
        let undoing = self.undoing.as_mut().expect("it is undoing");
        (undoing.open, undoing.stuck) = (None, None);
        let Some(id) = undoing.left.pop_front() else { return Ok(()) };
        let Some(effect) = self.undoable_effect(&id).await? else {
            let text = format!("the code no longer says how to take `{id}` back");
            return self.stick(id, Code::Diverged, text);
        };
        let Undo { mut call, doer, receipt_as } = self.undoables[&id].undo.clone();
        let Some(receipt) = effect.receipt().cloned() else {
            return self.stick(id, Code::Expired, "its receipt is gone".to_owned());
        };
        call.input = call.input.with(&receipt_as, &receipt).map_err(Error::from)?;
        call.undoes = Some(effect.named());
        call.workflow = Some(self.run.workflow.clone());
        call.run = Some(self.run.id.clone());
        let (undo, what) = (undo_id(&id), format!("effect {}", call.address));
        let on_doubt = OnDoubt::Wait;
        let work = Work::Effect { call, doer, on_doubt, undo: None };
        lock(&self.desk).course.issue(&undo, &what).map_err(Error::from)?;
        self.works.insert(undo.clone(), work);
        self.unstarted.push_back(undo.clone());
        self.undoing.as_mut().expect("it is undoing").open = Some((undo, id));
        Ok(())
    }

    /// Opens an undo that cannot be tried: it waits for an operator, who may answer in its place.
    fn stick(&mut self, id: String, code: Code, text: String) -> Result<(), Halt> {
        let undo = undo_id(&id);
        lock(&self.desk).course.issue(&undo, "undo").map_err(Error::from)?;
        let undoing = self.undoing.as_mut().expect("it is undoing");
        (undoing.open, undoing.stuck) = (Some((undo, id)), Some((code, text)));
        Ok(())
    }

    /// An undo was answered: by its receipt, or by an operator who has seen to it.
    pub(crate) async fn undone(&mut self, id: &str, by_hand: Option<&Json>) -> Result<(), Halt> {
        let open = self.undoing.as_ref().and_then(|undoing| undoing.open.clone());
        let Some((_, original)) = open.filter(|(undo, _)| undo == id) else { return Ok(()) };
        if let Some(receipt) = by_hand
            && let Some(effect) = self.undoable_effect(&original).await?
        {
            let by = self.undoables[&original].undo.call.address.clone();
            let engine = self.engine.clone();
            engine.note_undone(&by, &effect.named(), receipt).await?;
        }
        self.next_undo().await
    }

    pub(crate) fn is_undo(&self, id: &str) -> bool {
        let open = self.undoing.as_ref().and_then(|undoing| undoing.open.as_ref());
        open.is_some_and(|(undo, _)| undo == id)
    }

    /// One turn of taking back. When all of it is, the run ends as it would have.
    pub(crate) async fn go_on_undoing(&mut self) -> Result<Option<Left>, Halt> {
        let undoing = self.undoing.as_ref().expect("it is undoing");
        let Some((open, _)) = &undoing.open else {
            return self.end_undone().await.map(Some);
        };
        if let Some((code, text)) = &undoing.stuck {
            return Err(pause(Some(open.clone()), *code, text.clone()));
        }
        if self.held.is_draining() {
            let rests = self.effects.is_empty();
            return if rests { self.release().await.map(Some) } else { Ok(None) };
        }
        self.start_commands().await?;
        if self.is_idle() && !self.lingers() { self.park().await } else { Ok(None) }
    }

    async fn end_undone(&mut self) -> Result<Left, Halt> {
        let fault = self.undoing.as_ref().and_then(|undoing| undoing.fault.clone());
        match fault {
            Some(fault) => self.end_failed(fault.into()).await,
            None => self.end_cancelled().await,
        }
    }
}

/// The id of the command that takes another one back.
fn undo_id(id: &str) -> String {
    format!("undo {id}")
}

impl Engine {
    /// From now on the effect that is taken back is no plain replay.
    pub(crate) async fn note_undoing(&self, by: &Address, undoes: &Named) -> Result<(), Error> {
        let by = named(by);
        self.note_on(undoes, &by.0, |effect, now| effect::undoing(effect, &by.1, now)).await
    }

    /// The effect that was taken back answers with both receipts.
    pub(crate) async fn note_undone(
        &self,
        by: &Address,
        undoes: &Named,
        receipt: &Json,
    ) -> Result<(), Error> {
        let by = named(by);
        self.note_on(undoes, &by.0, |effect, _| Ok(effect::undone(effect, &by.1, receipt))).await
    }

    async fn note_on(
        &self,
        undoes: &Named,
        namespace: &Namespace,
        rule: impl Fn(&Effect, &Moment) -> Result<Option<Effect>, effect::Refusal>,
    ) -> Result<(), Error> {
        let address = Address {
            namespace: namespace.clone(),
            action: semel_core::key::Action::new(&undoes.action)?,
            key: semel_core::key::Key::parse(&undoes.key)?,
        };
        for _ in 0..limits::COMMIT_TRIES_MAX {
            let read = || self.store().load_generation(&address, undoes.generation);
            let stored = self.read_firmly(read).await?.ok_or(effect::Refusal::NotFound)?;
            let now = self.store().ground().now;
            let Some(noted) = rule(&stored, &now)? else { return Ok(()) };
            match self.commit_firmly(Write::effect(&noted, &now).into()).await {
                Ok(()) => {
                    self.inner.flights.publish(&noted);
                    return Ok(());
                }
                Err(Stopped::Stale(_)) => {}
                Err(Stopped::Error(error)) => return Err(error),
            }
        }
        Err(Error::new(Code::StoreBusy, "the effect kept changing"))
    }
}

fn named(by: &Address) -> (Namespace, Named) {
    let (action, key) = (by.action.as_str().to_owned(), by.key.as_str().to_owned());
    // The undo is pointed to by its name; which of its generations it was, its row knows.
    (by.namespace.clone(), Named { action, key, generation: 0 })
}
