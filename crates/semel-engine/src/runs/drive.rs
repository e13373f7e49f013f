//! The driver of one run, live and in replay: deliver one entry, poll the code until it is idle,
//! deliver the next. In replay the entries come from the journal; live they come from the world and
//! are written down before the code sees anything further.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use semel_core::code::Code;
use semel_core::entity::Entered;
use semel_core::journal::{self, At, Entry, Event, Fault, Value};
use semel_core::json::Json;
use semel_core::key::Namespace;
use semel_core::limits;
use semel_core::run::course::{Answer, Delivered, Divergence};
use semel_core::run::{Run, Wait};
use semel_store::{Delivery, Inked};

use super::children::Children;
use super::entities::Entities;
use super::held::{Alarm, Held};
use super::ink::{Ink, Place};
use super::port::{Body, Desk, Facts, Port, StepFault, Work};
use super::timers::{Purpose, Timers};
use super::undo::{Undoable, Undoing};
use crate::commit::Stopped;
use crate::{Engine, Error, lock};

/// A run that was taken, with everything needed to go on.
pub(crate) struct Taken {
    pub(crate) run: Run,
    pub(crate) fence: u64,
    pub(crate) inbox: Vec<Delivery>,
    /// What it waited for before it was taken.
    pub(crate) waits: Vec<Wait>,
    pub(crate) ink: Ink,
}

/// Why a driver stops before the run has ended.
pub(crate) enum Halt {
    /// Another worker has the run: nothing of ours may be written any more.
    Lost,
    /// It cannot even be ended without its code.
    NeedsCode,
    /// The store does not work: the lease will lapse, and somebody takes the run again.
    Failed(Error),
    /// The run cannot go on without an operator.
    Pause { id: Option<String>, fault: Fault },
}

impl From<Stopped> for Halt {
    fn from(stopped: Stopped) -> Halt {
        match stopped {
            Stopped::Stale(_) => Halt::Lost,
            Stopped::Error(error) => Halt::Failed(error),
        }
    }
}

impl From<Error> for Halt {
    fn from(error: Error) -> Halt {
        Halt::Failed(error)
    }
}

/// Something that the driver waited for.
pub(crate) enum Happened {
    Stepped {
        id: String,
        result: Result<Json, StepFault>,
    },
    /// With whether the receipt was there before.
    Settled {
        id: String,
        result: Result<(Json, bool), Error>,
    },
    /// An entity was asked for.
    Entered {
        id: String,
        result: Result<Entered, Error>,
    },
    LeftEntity {
        id: String,
        result: Result<(), Error>,
    },
    /// A child was started, or was there.
    Child {
        id: String,
        result: Result<Run, Error>,
    },
    Durable,
    /// A timer may be due.
    Due,
    /// The row or the inbox may have changed.
    Touched,
    /// The body was woken by something that is not ours.
    Foreign,
}

/// How the code was left by a poll.
enum Polled {
    /// It ended, or waits for answers only.
    Rests,
    /// It woke itself meanwhile.
    Again,
    /// It runs in another thread.
    Away,
}

pub(crate) struct Driver {
    pub(crate) engine: Engine,
    pub(crate) run: Run,
    pub(crate) fence: u64,
    pub(crate) held: Arc<Held>,
    pub(crate) ink: Ink,
    body: Option<BoxFuture<'static, Result<Json, Error>>>,
    /// The code. A run that is only to be cancelled needs none.
    make: Option<Body>,
    port: Port,
    pub(crate) desk: Arc<Mutex<Desk>>,
    alarm: Arc<Alarm>,
    pub(crate) waker: Waker,
    /// What the open commands want done.
    pub(crate) works: HashMap<String, Work>,
    /// When the code asked for each open timer and wait, as the journal has it: they count from
    /// there, whoever has the run by now.
    pub(crate) asked: HashMap<String, At>,
    /// Commands that were issued and not started.
    pub(crate) unstarted: VecDeque<String>,
    pub(crate) steps: FuturesUnordered<BoxFuture<'static, Happened>>,
    pub(crate) effects: FuturesUnordered<BoxFuture<'static, Happened>>,
    pub(crate) timers: Timers,
    /// Open waits for signals, in the order in which they were issued: id and name.
    pub(crate) signals: Vec<(String, String)>,
    pub(crate) inbox: Vec<Delivery>,
    pub(crate) waits_before: Vec<Wait>,
    /// What the body returned.
    pub(crate) outcome: Option<Result<Json, Error>>,
    /// The place of the entry that was delivered last.
    pub(crate) last: Option<Place>,
    /// Effects that were planned and have no result in the journal, with what they are.
    pub(crate) open_effects: BTreeMap<String, String>,
    /// The journal says that it is being cancelled.
    pub(crate) is_cancelling: bool,
    /// Its deadline has passed.
    pub(crate) is_overdue: bool,
    /// The code is asked what to do; of a run that is only to be ended it need not be.
    pub(crate) asks_code: bool,
    /// Commands whose code says how to take them back.
    pub(crate) undoables: HashMap<String, Undoable>,
    /// Those of them that were done, in that order.
    pub(crate) applied: Vec<String>,
    pub(crate) undoing: Option<Undoing>,
    /// Short errands to the store: starting children, entering and leaving entities. Nothing ends
    /// before they have come back.
    pub(crate) errands: FuturesUnordered<BoxFuture<'static, Happened>>,
    pub(crate) children: Children,
    pub(crate) entities: Entities,
}

impl Driver {
    pub(crate) fn new(
        engine: &Engine,
        make: Option<Body>,
        held: Arc<Held>,
        taken: Taken,
    ) -> Driver {
        let Taken { run, fence, inbox, waits, ink } = taken;
        let namespace = Namespace::stored(&run.namespace).unwrap_or_default();
        let facts = Facts {
            namespace,
            workflow: run.workflow.clone(),
            run_id: run.id.clone(),
            key: run.key.clone(),
        };
        let (port, desk) = Port::new(facts);
        let alarm = Arc::new(Alarm::default());
        Driver {
            engine: engine.clone(),
            run,
            fence,
            held,
            ink,
            body: None,
            make,
            port,
            desk,
            waker: alarm.clone().into(),
            alarm,
            works: HashMap::new(),
            asked: HashMap::new(),
            unstarted: VecDeque::new(),
            steps: FuturesUnordered::new(),
            effects: FuturesUnordered::new(),
            timers: Timers::new(engine.store().clock().clone(), engine.run_lease_ms()),
            signals: Vec::new(),
            inbox,
            waits_before: waits,
            outcome: None,
            last: None,
            open_effects: BTreeMap::new(),
            is_cancelling: false,
            is_overdue: false,
            asks_code: true,
            undoables: HashMap::new(),
            applied: Vec::new(),
            undoing: None,
            errands: FuturesUnordered::new(),
            children: Children::default(),
            entities: Entities::default(),
        }
    }

    /// Leads the code to where the journal ends. Nothing outside is touched.
    pub(crate) async fn replay(&mut self, entries: Vec<Inked>) -> Result<(), Halt> {
        lock(&self.desk).is_replaying = true;
        if let Some(deadline) = self.run.deadline {
            self.timers.set("", deadline, Purpose::Deadline);
        }
        let entries: Vec<(Place, Entry)> =
            entries.iter().map(|inked| self.decode(inked)).collect::<Result<_, _>>()?;
        self.asks_code = self.must_ask_code(&entries)?;
        let count = entries.len();
        for (index, (place, entry)) in entries.into_iter().enumerate() {
            if index + 1 == count {
                lock(&self.desk).is_replaying = false;
            }
            self.deliver(place, entry.at, entry.event).await?;
        }
        Ok(())
    }

    fn decode(&self, inked: &Inked) -> Result<(Place, Entry), Error> {
        let entry = journal::decode(&inked.text).map_err(|error| {
            let text = format!("entry {} of run {}: {error}", inked.seq, self.run.id);
            Error::from(semel_store::StoreError::Corrupt(text))
        })?;
        Ok((Place { seq: inked.seq, link: inked.link }, entry))
    }

    /// A run that is only to be ended needs no code, unless that says how to take effects back.
    fn must_ask_code(&self, entries: &[(Place, Entry)]) -> Result<bool, Halt> {
        let ends = |event: &Event| matches!(event, Event::Cancelling { .. });
        let is_ending =
            self.run.cancel.is_some() || entries.iter().any(|(_, entry)| ends(&entry.event));
        if !is_ending {
            return Ok(true);
        }
        let undoes = |event: &Event| matches!(event, Event::Planned { undo: true, .. });
        let is_needed = entries.iter().any(|(_, entry)| undoes(&entry.event));
        if is_needed && self.make.is_none() { Err(Halt::NeedsCode) } else { Ok(is_needed) }
    }

    /// Writes an entry down and lets the code see it.
    pub(crate) async fn happen(&mut self, event: Event) -> Result<Place, Halt> {
        let at = At::from(&self.engine.store().ground().now);
        let (place, event) = self.ink.append(at, event);
        self.deliver(place, at, event).await?;
        Ok(place)
    }

    /// Delivers one entry and polls the code until it is idle.
    async fn deliver(&mut self, place: Place, at: At, event: Event) -> Result<(), Halt> {
        self.last = Some(place);
        self.note(&event);
        if !self.asks_code {
            return Ok(());
        }
        match &event {
            Event::Cancelling { .. } => self.drop_code(),
            Event::Undoing { ids, fault } => {
                return self.begin_undoing(ids.clone(), fault.clone()).await;
            }
            Event::Effect { id, result, .. } => self.note_applied(id, result),
            _ => {}
        }
        if let Event::Started { input, .. } = &event {
            let input = read_value(&self.engine, &self.run.namespace, input).await?;
            lock(&self.desk).now = Some(at);
            return self.begin_body(input).await;
        }
        let delivered = {
            let mut desk = lock(&self.desk);
            desk.now = Some(desk.now.map_or(at, |before| later(before, at)));
            desk.course.deliver(place.seq, at, &event)
        };
        match delivered.map_err(|divergence| diverged(&divergence))? {
            Delivered::Noted => Ok(()),
            Delivered::Answer { id, answer } => {
                self.close(&id);
                let answer = match answer {
                    Answer::Value(value) => {
                        // A large one is read back from the store, so it must have got there.
                        if matches!(value, Value::Blob { .. }) {
                            self.ink.flush().await?;
                        }
                        Ok(Some(read_value(&self.engine, &self.run.namespace, &value).await?))
                    }
                    Answer::Fault(fault) => Err(fault.into()),
                    Answer::Nothing => Ok(None),
                };
                if self.is_undo(&id) {
                    let by_hand = matches!(event, Event::Skipped { .. });
                    let receipt = answer.ok().flatten().filter(|_| by_hand);
                    return self.undone(&id, receipt.as_ref()).await;
                }
                lock(&self.desk).answer(&id, answer);
                self.poll_body().await
            }
        }
    }

    /// Remembers what must be settled before the run may end.
    fn note(&mut self, event: &Event) {
        match event {
            Event::Planned { id, what, .. } if what.starts_with("child ") => {
                self.children.planned(id, what);
            }
            Event::Planned { id, what, .. } if what.starts_with("entity ") => {
                self.entities.planned(id, what);
            }
            Event::Left { what, .. } => self.entities.left(what),
            Event::Planned { id, what, .. } => {
                self.open_effects.insert(id.clone(), what.clone());
            }
            Event::Effect { id, .. } => {
                self.open_effects.remove(id);
            }
            Event::Child { id, .. } => self.children.ended(id),
            Event::Skipped { id, .. } => {
                self.open_effects.remove(id);
                self.children.ended(id);
            }
            Event::Cancelling { .. } => self.is_cancelling = true,
            Event::Started { .. }
            | Event::Taken { .. }
            | Event::Step { .. }
            | Event::StepFailed { .. }
            | Event::Fired { .. }
            | Event::Received { .. }
            | Event::TimedOut { .. }
            | Event::Entered { .. }
            | Event::Undoing { .. }
            | Event::Moved { .. }
            | Event::Paused { .. }
            | Event::Resumed { .. }
            | Event::Finished { .. } => {}
        }
    }

    /// The code is not asked any more. Attempts under way are detached, and settle by themselves.
    pub(crate) fn drop_code(&mut self) {
        self.body = None;
        self.outcome = None;
        self.steps.clear();
        self.effects.clear();
        self.unstarted.clear();
        self.signals.clear();
        self.timers.clear();
    }

    /// Nothing of an answered command is waited for any more.
    fn close(&mut self, id: &str) {
        self.works.remove(id);
        self.asked.remove(id);
        self.timers.remove(id);
        self.signals.retain(|(open, _)| open != id);
        self.unstarted.retain(|open| open != id);
    }

    async fn begin_body(&mut self, input: Json) -> Result<(), Halt> {
        let unknown =
            || Error::new(Code::WorkflowUnknown, "no worker here has the code of the run");
        let make = self.make.clone().ok_or_else(unknown)?;
        let port = self.port.clone();
        // Making the future runs user code, too.
        let made = in_body(|| catch_unwind(AssertUnwindSafe(|| make(port, input))));
        self.body = Some(made.map_err(|_| panicked())?);
        self.poll_body().await
    }

    /// Polls the code until it waits for answers only.
    async fn poll_body(&mut self) -> Result<(), Halt> {
        for _ in 0..limits::POLLS_MAX {
            match self.poll_once()? {
                Polled::Rests => return Ok(()),
                Polled::Again => {}
                Polled::Away => self.wait_for_code().await?,
            }
        }
        let text = format!("the body did not come to rest after {} polls", limits::POLLS_MAX);
        Err(pause(None, Code::ForeignAwait, text))
    }

    fn poll_once(&mut self) -> Result<Polled, Halt> {
        let Some(body) = self.body.as_mut() else { return Ok(Polled::Rests) };
        self.alarm.take();
        let mut context = Context::from_waker(&self.waker);
        let polled =
            in_body(|| catch_unwind(AssertUnwindSafe(|| body.as_mut().poll(&mut context))));
        let ready = polled.map_err(|_| panicked())?;
        let mut desk = lock(&self.desk);
        let asked_at = desk.now.expect("a body runs after its run was started");
        let issued: Vec<(String, Work)> = desk.issued.drain(..).collect();
        for (id, work) in issued {
            self.unstarted.push_back(id.clone());
            if matches!(work, Work::Sleep { .. } | Work::Wait { .. }) {
                self.asked.insert(id.clone(), asked_at);
            }
            if let Work::Effect { undo: Some(undo), .. } = &work {
                let what = desk.course.open(&id).map_or_else(String::new, |open| open.what.clone());
                self.undoables.insert(id.clone(), Undoable::new(what, undo.clone()));
            }
            self.works.insert(id, work);
        }
        let given_up = desk.given_up.take();
        let (is_away, open_count) = (desk.is_away, desk.course.open_count());
        // What the body still waits for looks at the desk when it is dropped.
        drop(desk);
        if let Some(error) = given_up {
            return Err(halt(&error));
        }
        if let Poll::Ready(outcome) = ready {
            self.body = None;
            self.outcome = Some(outcome);
            return Ok(Polled::Rests);
        }
        if is_away {
            return Ok(Polled::Away);
        }
        if self.alarm.take() {
            return Ok(Polled::Again);
        }
        if open_count == 0 {
            return Err(foreign());
        }
        Ok(Polled::Rests)
    }

    /// Waits for code that runs elsewhere. What was written down meanwhile is on its way.
    async fn wait_for_code(&mut self) -> Result<(), Halt> {
        poll_fn(|context| {
            if let Poll::Ready(Err(stopped)) = self.ink.poll(context) {
                return Poll::Ready(Err(Halt::from(stopped)));
            }
            self.alarm.register(context);
            if self.alarm.take() { Poll::Ready(Ok(())) } else { Poll::Pending }
        })
        .await
    }

    /// Waits for the next thing to happen.
    pub(crate) async fn next(&mut self) -> Result<Happened, Halt> {
        let this = self;
        poll_fn(move |context| {
            if let Poll::Ready(written) = this.ink.poll(context) {
                return Poll::Ready(written.map(|()| Happened::Durable).map_err(Halt::from));
            }
            for tasks in [&mut this.effects, &mut this.steps, &mut this.errands] {
                if !tasks.is_empty()
                    && let Poll::Ready(Some(happened)) = tasks.poll_next_unpin(context)
                {
                    return Poll::Ready(Ok(happened));
                }
            }
            this.alarm.register(context);
            if this.body.is_some() && this.alarm.take() {
                return Poll::Ready(Ok(Happened::Foreign));
            }
            if this.held.take_touch(context) || this.timers.poll_tick(context).is_ready() {
                return Poll::Ready(Ok(Happened::Touched));
            }
            if this.timers.is_empty() {
                return Poll::Pending;
            }
            let now = this.engine.store().ground().now;
            this.timers.poll_due(context, &now).map(|()| Ok(Happened::Due))
        })
        .await
    }
}

async fn read_value(engine: &Engine, namespace: &str, value: &Value) -> Result<Json, Error> {
    engine.read_firmly(|| engine.read_value(namespace, value)).await
}

/// Marks this thread as polling the code of a workflow, where nothing outside may be reached.
fn in_body<T>(poll: impl FnOnce() -> T) -> T {
    IN_BODY.with(|flag| {
        flag.set(true);
        let polled = poll();
        flag.set(false);
        polled
    })
}

/// Whether the code of a workflow is being polled by the caller's thread.
pub(crate) fn is_in_body() -> bool {
    IN_BODY.with(Cell::get)
}

thread_local! {
    static IN_BODY: Cell<bool> = const { Cell::new(false) };
}

fn later(before: At, at: At) -> At {
    if at.0 < before.0 { At(before.0, at.1) } else { at }
}

pub(crate) fn pause(id: Option<String>, code: Code, detail: impl Into<String>) -> Halt {
    Halt::Pause { id, fault: Fault::new(code, detail) }
}

/// Code that runs elsewhere gave up: for a reason of its own the run waits for an operator; when
/// it is only gone, another worker goes on.
fn halt(error: &Error) -> Halt {
    match error.code() {
        Code::StoreUnavailable => Halt::Failed(error.clone()),
        code => pause(None, code, error.detail()),
    }
}

pub(crate) fn foreign() -> Halt {
    let text = "the body waits for something that is no command of the run";
    pause(None, Code::ForeignAwait, text)
}

fn panicked() -> Halt {
    pause(None, Code::Panicked, "the body of the workflow panicked")
}

fn diverged(divergence: &Divergence) -> Halt {
    let id = Some(divergence.id.clone());
    pause(id, divergence.code_kind, divergence.to_string())
}
