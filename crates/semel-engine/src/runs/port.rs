//! Where the code of a workflow and its driver meet. The code issues commands and waits for their
//! answers; it can wait for nothing else.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use futures_util::future::BoxFuture;
use semel_core::code::Code;
use semel_core::derive;
use semel_core::journal::{At, Raised};
use semel_core::json::Json;
use semel_core::key::Namespace;
use semel_core::limits;
use semel_core::retry::{Retry, Trouble};
use semel_core::run::course::{Course, Ordinals};
use semel_core::time::Wall;
use uuid::Uuid;

use super::Start;
use crate::clearance::{Clearance, Executor};
use crate::{Call, Doer, Error, lock, measure};

/// The code of a workflow: its input in, its result out. Called once per replay.
pub type Body = Arc<dyn Fn(Port, Json) -> BoxFuture<'static, Result<Json, Error>> + Send + Sync>;

/// The code of a step.
pub type StepFn = Arc<dyn Fn(StepTry) -> BoxFuture<'static, Result<Json, StepFault>> + Send + Sync>;

/// One attempt of a step.
#[derive(Clone, Debug)]
pub struct StepTry {
    /// Which attempt it is, from 1.
    pub attempt: u32,
    /// The right to begin, which an executor that is not the engine's own task asks for.
    pub clearance: Clearance,
}

/// Why an attempt of a step has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepFault {
    pub detail: String,
    /// Whether another attempt would help.
    pub trouble: Trouble,
    /// The exception behind it.
    pub raised: Option<Box<Raised>>,
}

/// What a command wants done.
pub enum Work {
    Step {
        run: StepFn,
        executor: Executor,
        retry: Retry,
        exhausted: Exhausted,
    },
    Effect {
        call: Box<Call>,
        doer: Arc<Doer>,
        on_doubt: OnDoubt,
        /// What takes it back, should the run fail or be cancelled.
        undo: Option<Undo>,
    },
    /// A run of its own, which this one waits for.
    Child(Box<Start>),
    /// The right to act on an entity; nobody else has it meanwhile.
    Enter {
        name: String,
    },
    /// Lets go what the command of this id entered.
    Leave {
        entered: String,
        name: String,
    },
    /// A name by which somebody outside can answer, once.
    Callback,
    Sleep {
        ms: u64,
    },
    /// The note is for operators: it is no part of what the command is.
    Wait {
        name: String,
        timeout_ms: Option<u64>,
        note: Option<Json>,
    },
}

impl Work {
    /// Whether it is on record before it is begun: it reaches what outlives its worker.
    pub(crate) fn is_planned(&self) -> bool {
        match self {
            Work::Effect { .. } | Work::Child(_) | Work::Enter { .. } => true,
            Work::Step { .. }
            | Work::Leave { .. }
            | Work::Callback
            | Work::Sleep { .. }
            | Work::Wait { .. } => false,
        }
    }
}

/// The effect that takes another one back. Its input gets the other's receipt as one more member.
#[derive(Clone)]
pub struct Undo {
    pub call: Box<Call>,
    pub doer: Arc<Doer>,
    pub receipt_as: String,
}

/// What becomes of a run when a step has used up its retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exhausted {
    /// An operator decides.
    Pause,
    /// The code gets the error.
    Fail,
}

/// What becomes of a run when one of its effects is in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDoubt {
    /// It waits for evidence or a person.
    Wait,
    /// The code gets the doubt as an error, and goes on.
    Continue,
}

/// The answer to a command; a timer's is `None`.
pub(crate) type Answered = Result<Option<Json>, Error>;

/// The code's end of a run. Cheap to clone.
#[derive(Clone)]
pub struct Port {
    desk: Arc<Mutex<Desk>>,
    facts: Arc<Facts>,
}

/// What the code may know of its run.
#[derive(Debug)]
pub struct Facts {
    pub namespace: Namespace,
    pub workflow: String,
    pub run_id: String,
    pub key: String,
}

/// What the code and the driver share. Only ever locked for a moment.
#[derive(Default)]
pub(crate) struct Desk {
    pub(crate) course: Course,
    ordinals: Ordinals,
    slots: HashMap<String, Slot>,
    /// Issued since the driver last looked, in order.
    pub(crate) issued: Vec<(String, Work)>,
    /// The time of the entry that was delivered last.
    pub(crate) now: Option<At>,
    pub(crate) is_replaying: bool,
    /// The code runs in a thread that is not the driver's: its silence is no rest.
    pub(crate) is_away: bool,
    /// Why the code does not go on, neither now nor in this process.
    pub(crate) given_up: Option<GivenUp>,
    draws: u32,
    /// Which command asks the model for which request.
    asks: HashMap<String, String>,
    models: HashMap<String, Model>,
}

/// Why the code does not go on.
pub(crate) enum GivenUp {
    /// Its process or event loop is gone.
    Gone(Error),
    /// An operator or corrected code decides how the run goes on.
    Pause(Option<String>, Error),
}

#[derive(Default)]
struct Slot {
    answer: Option<Answered>,
    waker: Option<Waker>,
}

/// One request to a model, and all in this run who wait for its answer.
#[derive(Default)]
struct Model {
    answer: Option<Answered>,
    wakers: Vec<Waker>,
}

impl Port {
    pub(crate) fn new(facts: Facts) -> (Port, Arc<Mutex<Desk>>) {
        let desk = Arc::new(Mutex::new(Desk::default()));
        (Port { desk: desk.clone(), facts: Arc::new(facts) }, desk)
    }

    /// What the code may know of its run.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The identity of the next command of this name.
    pub fn next_id(&self, name: &str) -> String {
        lock(&self.desk).ordinals.next(name)
    }

    /// A command. It is issued when it is first polled; dropping it does not undo it.
    pub fn command(&self, id: String, what: String, work: Work) -> Pending {
        Pending { desk: self.desk.clone(), id, wish: Some((what, work)), request: None }
    }

    /// A command whose answer is shared by all commands of this run with the same request.
    pub fn model(&self, id: String, request: String, work: Work) -> Pending {
        let what = format!("model {}", &request[..request.len().min(16)]);
        let request = Some(request);
        Pending { desk: self.desk.clone(), id, wish: Some((what, work)), request }
    }

    /// The time as the run sees it: that of the last thing it learnt, at first that of its first
    /// take. The same in every replay.
    pub fn now(&self) -> Wall {
        lock(&self.desk).now.map_or(Wall(0), |at| at.0)
    }

    /// Whether what the code does now was done before.
    pub fn is_replaying(&self) -> bool {
        lock(&self.desk).is_replaying
    }

    /// Says whether the code runs elsewhere, such as in a thread of another language. Until it is
    /// back and has woken its future, the driver waits for it.
    pub fn set_away(&self, is_away: bool) {
        lock(&self.desk).is_away = is_away;
    }

    /// The code is gone, not at fault: another worker takes the run.
    pub fn release(&self, error: Error) {
        lock(&self.desk).given_up = Some(GivenUp::Gone(error));
    }

    /// The code cannot go on: the run pauses, on this command where there is one.
    pub fn pause(&self, id: Option<String>, error: Error) {
        lock(&self.desk).given_up.get_or_insert(GivenUp::Pause(id, error));
    }

    /// A number nobody could foresee before the run began, and the same in every replay.
    pub fn chance(&self) -> Uuid {
        let mut desk = lock(&self.desk);
        let drawn_before = desk.draws;
        desk.draws += 1;
        drop(desk);
        derive::chance(&self.facts.run_id, drawn_before)
    }
}

impl Desk {
    /// Gives a command its answer. One that nobody waits for any more is kept by nobody.
    pub(crate) fn answer(&mut self, id: &str, answer: Answered) {
        if let Some(request) = self.asks.remove(id) {
            if self.is_replaying && answer.is_ok() {
                measure::model_replayed();
            }
            let model = self.models.remove(&request).unwrap_or_default();
            model.wakers.into_iter().for_each(Waker::wake);
            // An error is not kept: who asks again may get an answer.
            if answer.is_ok() {
                let kept = Model { answer: Some(answer.clone()), wakers: Vec::new() };
                self.models.insert(request, kept);
            }
        }
        if let Some(slot) = self.slots.get_mut(id) {
            slot.answer = Some(answer);
            if let Some(waker) = slot.waker.take() {
                waker.wake();
            }
        }
    }

    /// Whether this command asks a model.
    pub(crate) fn is_model(&self, id: &str) -> bool {
        self.asks.contains_key(id)
    }

    pub(crate) fn issue(&mut self, id: &str, what: &str, work: Work) -> Result<(), Error> {
        check_note(&work)?;
        self.course.issue(id, what)?;
        self.slots.insert(id.to_owned(), Slot::default());
        self.issued.push((id.to_owned(), work));
        Ok(())
    }
}

fn check_note(work: &Work) -> Result<(), Error> {
    let Work::Wait { note: Some(note), .. } = work else { return Ok(()) };
    let (bytes, most) = (note.text().len(), limits::NOTE_BYTES_MAX);
    if bytes > most {
        let text = format!("the note of a wait has {bytes} bytes, the most is {most}");
        return Err(Error::new(Code::InputInvalid, text));
    }
    Ok(())
}

/// A command that was asked for, as a future of its answer.
pub struct Pending {
    desk: Arc<Mutex<Desk>>,
    id: String,
    wish: Option<(String, Work)>,
    request: Option<String>,
}

impl Pending {
    /// The identity of the command.
    pub fn id(&self) -> &str {
        &self.id
    }
}

impl Future for Pending {
    type Output = Result<Option<Json>, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answered> {
        let this = &mut *self;
        let mut desk = lock(&this.desk);
        let desk = &mut *desk;
        if let Some((what, work)) = this.wish.take() {
            let is_asked = this.request.as_ref().is_some_and(|ask| desk.models.contains_key(ask));
            if is_asked {
                measure::model_replayed();
            } else {
                if let Err(error) = desk.issue(&this.id, &what, work) {
                    return Poll::Ready(Err(error));
                }
                if let Some(request) = &this.request {
                    desk.models.insert(request.clone(), Model::default());
                    desk.asks.insert(this.id.clone(), request.clone());
                }
            }
        }
        if let Some(slot) = desk.slots.get_mut(&this.id) {
            let Some(answer) = slot.answer.take() else {
                slot.waker = Some(context.waker().clone());
                return Poll::Pending;
            };
            desk.slots.remove(&this.id);
            return Poll::Ready(answer);
        }
        let request = this.request.as_ref().expect("a command that was issued has a slot");
        match desk.models.get_mut(request) {
            Some(Model { answer: Some(answer), .. }) => Poll::Ready(answer.clone()),
            Some(model) => {
                model.wakers.push(context.waker().clone());
                Poll::Pending
            }
            None => {
                let text = "the model call that this one waited for failed";
                Poll::Ready(Err(Error::new(Code::StepFailed, text)))
            }
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        lock(&self.desk).slots.remove(&self.id);
    }
}
