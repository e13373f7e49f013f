//! The driver of one run, live and in replay: deliver one entry, poll the code until it is idle,
//! deliver the next. In replay the entries come from the journal; live they come from the world and
//! are written down before the code sees anything further.

mod body;
mod halt;
mod panics;

pub(crate) use body::is_in_body;
pub(crate) use halt::{Halt, foreign, pause};

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use semel_core::entity::Entered;
use semel_core::journal::{self, At, Ending, Entry, Event, Value};
use semel_core::json::Json;
use semel_core::key::Namespace;
use semel_core::run::course::{Answer, Delivered};
use semel_core::run::{self, Run, Wait};
use semel_core::time::Steady;
use semel_store::{Delivery, Inked};

use super::children::Children;
use super::entities::Entities;
use super::held::{Alarm, Held};
use super::ink::{Ink, Place};
use super::port::{Body, Desk, Facts, Port, StepFault, Work};
use super::timers::{Purpose, Timers};
use super::undo::{Undoable, Undoing};
use crate::call::Guard;
use crate::{Engine, Error, lock};
use halt::diverged;

/// A run that was taken, with everything needed to go on.
pub(crate) struct Taken {
    pub(crate) run: Run,
    pub(crate) fence: u64,
    pub(crate) inbox: Vec<Delivery>,
    /// What it waited for before it was taken.
    pub(crate) waits: Vec<Wait>,
    pub(crate) ink: Ink,
}

/// Something that the driver waited for.
pub(crate) enum Happened {
    Stepped {
        id: String,
        result: Result<Json, StepFault>,
    },
    /// The lease was over before the code of a step began.
    Late {
        id: String,
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
        result: Box<Result<Run, Error>>,
    },
    Durable,
    /// A timer may be due.
    Due,
    /// The row or the inbox may have changed.
    Touched,
    /// The body was woken by something that is not ours.
    Foreign,
}

pub(crate) struct Driver {
    pub(crate) engine: Engine,
    pub(crate) run: Run,
    pub(crate) fence: u64,
    pub(crate) held: Arc<Held>,
    /// Until when the code of a step may begin: for as long as the lease is known to go on.
    pub(crate) begins_until: Arc<Mutex<Steady>>,
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
    /// No process before this one can have asked for what the code asks for now.
    pub(crate) asks_first: bool,
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
    /// Why the code goes no further, though it has not returned.
    stopped: Option<Halt>,
    /// The place of the entry that was delivered last.
    pub(crate) last: Option<Place>,
    /// The entry that the code heard last.
    heard_last: u64,
    /// The entry with which the code stopped.
    stopped_with: Option<u64>,
    /// The last pause of the journal, and what the code was to hear anew after it.
    paused_last: Option<(u64, Option<u64>)>,
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
        let begins_until = Arc::new(Mutex::new(begins_until(engine, &run)));
        Driver {
            engine: engine.clone(),
            run,
            fence,
            held,
            begins_until,
            ink,
            body: None,
            make,
            port,
            desk,
            waker: alarm.clone().into(),
            alarm,
            works: HashMap::new(),
            asked: HashMap::new(),
            asks_first: false,
            unstarted: VecDeque::new(),
            steps: FuturesUnordered::new(),
            effects: FuturesUnordered::new(),
            timers: Timers::new(engine.store().clock().clone(), engine.run_lease_ms()),
            signals: Vec::new(),
            inbox,
            waits_before: waits,
            outcome: None,
            stopped: None,
            last: None,
            heard_last: 0,
            stopped_with: None,
            paused_last: None,
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

    /// The run as it is in the store, and with it how long the lease goes on.
    pub(crate) fn know(&mut self, run: Run) {
        *lock(&self.begins_until) = begins_until(&self.engine, &run);
        self.run = run;
    }

    /// Leads the code to where the journal ends. Nothing outside is touched.
    pub(crate) async fn replay(&mut self, entries: Vec<Inked>) -> Result<(), Halt> {
        lock(&self.desk).is_replaying = true;
        if let Some(deadline) = self.run.deadline {
            self.timers.set("", deadline, Purpose::Deadline);
        }
        let mut entries: Vec<(Place, Entry)> =
            entries.iter().map(|inked| self.decode(inked)).collect::<Result<_, _>>()?;
        let corrected = run::correct(entries.iter_mut().map(|(_, entry)| &mut entry.event));
        lock(&self.desk).course.corrected = corrected;
        self.asks_code = self.must_ask_code(&entries)?;
        let count = entries.len();
        let heard = heard(&entries);
        for (index, ((place, entry), heard)) in entries.into_iter().zip(heard).enumerate() {
            if index + 1 == count {
                lock(&self.desk).is_replaying = false;
            }
            self.asks_first = heard.with + 1 == count;
            self.deliver(place, heard.at, entry.event).await?;
        }
        self.asks_first = true;
        self.check_stopped()
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
        self.check_stopped()?;
        Ok(place)
    }

    /// Delivers one entry and polls the code until it is idle.
    async fn deliver(&mut self, place: Place, at: At, event: Event) -> Result<(), Halt> {
        self.last = Some(place);
        self.note(place.seq, &event);
        if !self.asks_code {
            return Ok(());
        }
        match &event {
            Event::Cancelling { .. } => self.drop_code(),
            // Recorded when every error of the code was a failure.
            Event::Finished { end: Ending::Failed(_) | Ending::Cancelled(_) } => {
                self.stopped = None;
            }
            Event::Undoing { ids, fault } => {
                return self.begin_undoing(ids.clone(), fault.clone()).await;
            }
            Event::Effect { id, result, .. } => self.note_applied(id, result),
            _ => {}
        }
        if let Event::Started { input, .. } = &event {
            let input = read_value(&self.engine, &self.run.namespace, input).await?;
            lock(&self.desk).now = Some(at);
            self.heard_last = place.seq;
            return self.begin_body(input).await;
        }
        let delivered = {
            let mut desk = lock(&self.desk);
            desk.now = Some(desk.now.map_or(at, |before| later(before, at)));
            desk.course.deliver(place.seq, at, &event)
        };
        // Code that stopped early has not asked for what follows: that is why, not how, it differs.
        let differs = |divergence| {
            self.stopped_with = None;
            self.stopped.take().unwrap_or_else(|| diverged(&divergence))
        };
        match delivered.map_err(differs)? {
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
                self.heard_last = place.seq;
                self.poll_body().await
            }
        }
    }

    /// Remembers what must be settled before the run may end.
    fn note(&mut self, seq: u64, event: &Event) {
        match event {
            Event::Paused { anew, .. } => self.paused_last = Some((seq, *anew)),
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
            | Event::Resumed { .. }
            | Event::Finished { .. } => {}
        }
    }

    /// The entry that the code hears anew when it goes on, because it stopped there and no code
    /// before it can have asked for a wait with it.
    pub(crate) fn hears_anew(&self) -> Option<u64> {
        let with = self.stopped_with.filter(|_| self.waits_before.is_empty())?;
        let is_first = self.paused_last.is_none_or(|(seq, anew)| seq < with || anew == Some(with));
        is_first.then_some(with)
    }

    /// Whether it is on its way to its end, by a cancel or its deadline.
    pub(crate) fn is_ending(&self) -> bool {
        self.run.cancel.is_some() || self.is_cancelling || self.is_overdue
    }

    /// What is begun for this run is begun only while it is ours.
    pub(crate) fn guard(&self) -> Guard {
        let place = self.last.expect("a plan was delivered");
        Guard { run: self.run.number, fence: self.fence, seq: place.seq, link: place.link }
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

/// Of a run that nobody holds, such as one that is only replayed, no code begins.
fn begins_until(engine: &Engine, run: &Run) -> Steady {
    match &run.lease {
        Some(lease) => run::may_begin_until(lease, engine.run_lease_ms()),
        None => engine.store().ground().now.steady,
    }
}

async fn read_value(engine: &Engine, namespace: &str, value: &Value) -> Result<Json, Error> {
    engine.read_firmly(|| engine.read_value(namespace, value)).await
}

/// When the code learns of an entry, and with which entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Heard {
    at: At,
    with: usize,
}

/// What was written while no worker had the run, its start and the values that an operator gave,
/// reaches the code with the next take. So does the entry with which the code stopped.
fn heard(entries: &[(Place, Entry)]) -> Vec<Heard> {
    let mut next = None;
    let mut anew = HashMap::new();
    let mut all: Vec<Heard> = Vec::with_capacity(entries.len());
    for (with, (place, entry)) in entries.iter().enumerate().rev() {
        let own = Heard { at: entry.at, with };
        let waits = match &entry.event {
            Event::Taken { hears, .. } => {
                next = hears.then_some(own);
                None
            }
            Event::Paused { anew: Some(seq), .. } => {
                // Of several pauses the last one counts.
                next.map(|take| anew.entry(*seq).or_insert(take));
                None
            }
            Event::Started { .. } | Event::Skipped { .. } => next,
            _ => None,
        };
        all.push(anew.get(&place.seq).copied().or(waits).unwrap_or(own));
    }
    all.reverse();
    all
}

pub(crate) fn later(before: At, at: At) -> At {
    if at.0 < before.0 { At(before.0, at.1) } else { at }
}

#[cfg(test)]
mod tests {
    use super::*;
    use semel_core::journal::Link;

    /// A journal as it lies in a store, each entry a second after the one before.
    fn journal(events: &[&str]) -> Vec<(Place, Entry)> {
        let entry = |(seq, event): (u64, &&str)| {
            let ms = seq * 1_000;
            let at = format!("[{ms},{{\"boot\":1,\"ms\":{ms}}}]");
            let text = format!("{{\"v\":1,\"at\":{at},\"event\":{event}}}");
            let entry = journal::decode(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
            (Place { seq, link: Link([0; 32]) }, entry)
        };
        (0..).zip(events).map(entry).collect()
    }

    fn heard_s(events: &[&str]) -> Vec<i64> {
        heard(&journal(events)).iter().map(|one| one.at.0.0 / 1_000).collect()
    }

    const STARTED: &str = r#"{"started":{"workflow":"w","input":{"json":null}}}"#;
    const OLD: &str = r#"{"taken":{"fence":1,"worker":"a","release":"1"}}"#;
    const NEW: &str = r#"{"taken":{"fence":1,"worker":"a","release":"1","hears":true}}"#;
    const STEP: &str =
        r#"{"step":{"id":"a#0","what":"step","attempts":1,"result":{"value":{"json":1}}}}"#;
    const SKIPPED: &str =
        r#"{"skipped":{"id":"a#0","actor":"ann","reason":"no","value":{"json":1}}}"#;

    #[test]
    fn the_start_of_a_run_is_heard_with_its_first_take() {
        assert_eq!(heard_s(&[STARTED, NEW, STEP, NEW]), [1, 1, 2, 3]);
        assert_eq!(heard_s(&[STARTED, NEW, SKIPPED, NEW]), [1, 1, 3, 3]);
    }

    const RAISED: &str = r#"{"paused":{"id":null,"fault":{"code":"body_raised","detail":"x"}}}"#;

    fn raised_with(seq: u64) -> String {
        RAISED.replace("\"id\":null", &format!("\"id\":null,\"anew\":{seq}"))
    }

    #[test]
    fn the_entry_with_which_the_code_stopped_is_heard_with_the_take_after_the_last_pause() {
        let step = raised_with(2);
        assert_eq!(heard_s(&[STARTED, NEW, STEP, &step, NEW]), [1, 1, 4, 3, 4]);
        assert_eq!(heard_s(&[STARTED, NEW, STEP, &step, NEW, &step, NEW])[2], 6);
        assert_eq!(heard_s(&[STARTED, NEW, STEP, &step])[2], 2, "nobody has it");
        let start = raised_with(0);
        assert_eq!(heard_s(&[STARTED, NEW, &start, NEW, STEP]), [3, 1, 2, 3, 4]);
    }

    #[test]
    fn a_pause_of_before_moves_no_time() {
        assert_eq!(heard_s(&[STARTED, NEW, STEP, RAISED, NEW]), [1, 1, 2, 3, 4]);
        let step = raised_with(2);
        assert_eq!(heard_s(&[STARTED, OLD, STEP, &step, OLD])[2], 2);
    }

    #[test]
    fn a_journal_of_before_is_heard_as_it_was() {
        assert_eq!(heard_s(&[STARTED, OLD, STEP, OLD]), [0, 1, 2, 3]);
        // Taken over by a worker that knows better: what the code has seen stays.
        assert_eq!(heard_s(&[STARTED, OLD, NEW]), [0, 1, 2]);
        assert_eq!(heard_s(&[STARTED]), [0]);
    }
}
