//! The rules of a run: who may advance it, what it waits for, how it ends. State, wish and time in;
//! decision out.
//!
//! The journal says what happened inside a run; the rules here only decide on the run as a whole.

mod admission;
mod aside;
mod correct;
pub mod course;
mod record;
mod refusal;
mod release;
mod state;
mod steer;
pub mod thrown;

pub use admission::{admit, queue};
pub use aside::set_aside;
pub use correct::correct;
pub use record::{Cancel, Ended, How, Lease, On, Pause, Run, SetAside, Wait, decode, encode};
pub use refusal::Refusal;
pub use release::{
    CODELESS_LANES, codeless_lane, is_codeless, lane, move_to, needs_code, release_lane, strand,
};
pub use state::State;
pub use steer::{Delivery, Steered, cancel, deliver, fail, fail_in_order, fault_of, retry, skip};

use crate::derive;
use crate::effect::EPOCH_SHIFT;
use crate::fingerprint::{Fingerprint, Rule};
use crate::gate::Pass;
use crate::json::Json;
use crate::key::{Action, Key, Namespace};
use crate::limits;
use crate::time::{Moment, Steady, Wall};

/// The wish to start a run.
#[derive(Clone, Debug)]
pub struct Start {
    pub namespace: Namespace,
    pub workflow: Action,
    pub key: Key,
    pub input: Json,
    /// Names the journal; drawn by the caller, larger for later starts.
    pub number: i64,
    pub window_ms: u64,
    pub deadline_ms: Option<u64>,
    /// The release that it stays with, and whether it never leaves that by itself.
    pub release: Option<String>,
    pub strict: bool,
    pub passes: Vec<Pass>,
    /// The run whose code starts it.
    pub parent: Option<String>,
}

/// The wish to advance a run.
#[derive(Clone, Debug)]
pub struct Take {
    pub worker: String,
    pub session: Option<String>,
    pub lease_ms: u64,
    pub epoch: u64,
}

/// A new run, ready to be taken.
pub fn start(ask: &Start, now: &Moment) -> Run {
    let (namespace, workflow, key) =
        (ask.namespace.as_str(), ask.workflow.as_str(), ask.key.as_str());
    Run {
        id: derive::run_id(&ask.namespace, workflow, &ask.key).to_string(),
        namespace: namespace.to_owned(),
        number: ask.number,
        version: 1,
        workflow: workflow.to_owned(),
        key: key.to_owned(),
        created: now.wall,
        input: input_digest(&ask.input),
        window_ms: ask.window_ms,
        release: ask.release.clone(),
        strict: ask.strict,
        passes: ask.passes.clone(),
        parent: ask.parent.clone(),
        watchers: ask.parent.iter().cloned().collect(),
        needs_code: false,
        stranded: None,
        fence: 0,
        lease: None,
        waits: Vec::new(),
        nudged: false,
        set_aside: None,
        paused: None,
        cancel: None,
        deadline: ask.deadline_ms.map(|ms| crate::journal::At::from(now).plus(ms)),
        ended: None,
        expired: None,
    }
}

/// Whether a start with this input means the run that is there.
pub fn attach(run: &Run, ask: &Start) -> Result<(), Refusal> {
    if run.expired.is_some() {
        return Err(Refusal::Expired);
    }
    if run.input != input_digest(&ask.input) {
        return Err(Refusal::InputChanged);
    }
    Ok(())
}

/// Gives a run to a worker: it is new, its wait is over, or its holder's lease has lapsed.
pub fn take(run: &Run, ask: &Take, now: &Moment) -> Result<Run, Refusal> {
    open(run)?;
    if run.paused.is_some() {
        return Err(Refusal::NotDue);
    }
    if let Some(lease) = &run.lease
        && !now.reached(lease.until)
    {
        return Err(Refusal::Held { until: lease.until });
    }
    let fence = run.fence.max(ask.epoch << EPOCH_SHIFT) + 1;
    let lease = Lease {
        fence,
        worker: ask.worker.clone(),
        session: ask.session.clone(),
        until: now.steady.plus(ask.lease_ms),
    };
    let lease = Some(lease);
    Ok(Run { fence, lease, waits: Vec::new(), nudged: false, stranded: None, ..next(run) })
}

/// Until when the holder may begin the code of a step: a little before its lease ends, as a permit
/// does. Later another worker may have the run.
pub fn may_begin_until(lease: &Lease, lease_ms: u64) -> Steady {
    let margin = i64::try_from(limits::MARGIN_MS.min(lease_ms / 4)).expect("a margin is short");
    Steady { ms: lease.until.ms - margin, ..lease.until }
}

/// The lease goes on.
pub fn renew(run: &Run, fence: u64, lease_ms: u64, now: &Moment) -> Result<Run, Refusal> {
    let mut lease = held(run, fence)?.clone();
    lease.until = now.steady.plus(lease_ms);
    Ok(Run { lease: Some(lease), set_aside: None, ..next(run) })
}

/// Nothing can go on before one of these comes: the worker lets the run go. With nothing to wait
/// for, the run is ready for any worker.
pub fn park(run: &Run, fence: u64, waits: Vec<Wait>) -> Result<Run, Refusal> {
    held(run, fence)?;
    Ok(Run { lease: None, waits, set_aside: None, ..next(run) })
}

/// Notes that another run waits for the end of this one. `None`: it is noted already.
pub fn watch(run: &Run, watcher: &str) -> Result<Option<Run>, Refusal> {
    open(run)?;
    if run.watchers.iter().any(|one| one == watcher) {
        return Ok(None);
    }
    if run.watchers.len() >= limits::WAITERS_MAX {
        return Err(Refusal::WatchersFull);
    }
    let mut watched = next(run);
    watched.watchers.push(watcher.to_owned());
    watched.nudged = run.is_parked();
    Ok(Some(watched))
}

/// The run stands still until an operator decides.
pub fn pause(run: &Run, fence: u64, pause: Pause) -> Result<Run, Refusal> {
    held(run, fence)?;
    let (waits, paused) = (Vec::new(), Some(pause));
    Ok(Run { lease: None, waits, set_aside: None, paused, ..next(run) })
}

/// The run has ended.
pub fn finish(run: &Run, fence: u64, how: How, now: &Moment) -> Result<Run, Refusal> {
    held(run, fence)?;
    let ended = Some(Ended { how, at: now.wall });
    Ok(Run { lease: None, waits: Vec::new(), set_aside: None, ended, ..next(run) })
}

/// The holder's process is proven dead: its lease is over. `None` when it does not hold the run.
pub fn freed(run: &Run, session: &str) -> Option<Run> {
    let holds = run.lease.as_ref().and_then(|lease| lease.session.as_deref()) == Some(session);
    (holds && run.ended.is_none()).then(|| Run { lease: None, ..next(run) })
}

/// What retention asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sweep {
    Keep,
    /// Write this small row and drop the journal: from now on the key answers "expired".
    Tombstone(Box<Run>),
    Remove,
}

/// Decides what retention means for a run now. Nothing is judged by a clock that is behind.
pub fn sweep(run: &Run, now: &Moment) -> Sweep {
    let is_due = run.sweep_at().is_some_and(|at| now.wall >= at);
    if !is_due || now.wall_is_behind {
        return Sweep::Keep;
    }
    match run.expired {
        Some(_) => Sweep::Remove,
        None => Sweep::Tombstone(Box::new(Run { expired: Some(now.wall), ..next(run) })),
    }
}

impl Run {
    /// Where the run stands.
    pub fn state(&self) -> State {
        match (&self.ended, &self.paused, &self.lease) {
            _ if self.expired.is_some() => State::Expired,
            (Some(ended), ..) => match ended.how {
                How::Done => State::Done,
                How::Failed => State::Failed,
                How::Cancelled => State::Cancelled,
            },
            // Also while it is being ended: what it cannot take back waits for an operator.
            (None, Some(_), _) => State::Paused,
            _ if self.cancel.is_some() => State::Cancelling,
            (None, None, Some(_)) => State::Running,
            (None, None, None) if self.waits.is_empty() => State::Ready,
            (None, None, None) => State::Waiting,
        }
    }

    /// Whether nobody holds it and a delivery should wake it.
    pub fn is_parked(&self) -> bool {
        self.ended.is_none() && self.paused.is_none() && self.lease.is_none()
    }

    /// When somebody must look at it, at the latest. `None`: only a delivery or a person wakes it.
    pub fn wake_at(&self, now: &Moment) -> Option<Steady> {
        if self.ended.is_some() || self.paused.is_some() {
            return None;
        }
        if let Some(lease) = &self.lease {
            return Some(lease.until);
        }
        if let Some(aside) = &self.set_aside {
            return Some(aside.until.on_steady(now));
        }
        if self.waits.is_empty() || self.nudged {
            return Some(now.steady);
        }
        let dues = self.waits.iter().filter_map(|wait| wait.due).chain(self.deadline);
        dues.map(|due| due.on_steady(now)).reduce(Steady::earlier)
    }

    /// What it waits for, in a word or two.
    pub fn waits_on(&self) -> Option<String> {
        if self.ended.is_some() {
            return None;
        }
        if let Some(pause) = &self.paused {
            return Some(format!("operator: {}", pause.code));
        }
        if self.lease.is_some() {
            return None;
        }
        if let Some(why) = &self.stranded {
            let release = self.release.as_deref().unwrap_or("?");
            return Some(format!("release {release}: {why}"));
        }
        if let Some(aside) = &self.set_aside {
            return Some(format!("another try: {}", aside.why));
        }
        let first = self.waits.first()?;
        let more = self.waits.len() - 1;
        let rest = if more == 0 { String::new() } else { format!(" and {more} more") };
        Some(format!("{}{rest}", first.on))
    }

    /// When retention looks at it next.
    pub fn sweep_at(&self) -> Option<Wall> {
        if let Some(expired) = self.expired {
            return Some(expired.plus(limits::TOMBSTONE_MS));
        }
        self.ended.as_ref().map(|ended| ended.at.plus(self.window_ms))
    }
}

impl std::fmt::Display for On {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            On::Timer => f.write_str("timer"),
            On::Retry => f.write_str("retry"),
            On::Signal(name) => write!(f, "signal {name}"),
            On::Slot(gate) => write!(f, "slot {gate}"),
            On::Child(id) => write!(f, "run {id}"),
            On::Entity(name) => write!(f, "entity {name}"),
            On::Effect { action, key } => write!(f, "effect {action}/{key}"),
        }
    }
}

/// What tells two inputs of one key apart.
pub fn input_digest(input: &Json) -> String {
    let print = Fingerprint::of(input.text().as_bytes(), &Rule::All);
    crate::journal::Link(print.digest).to_string()
}

fn next(run: &Run) -> Run {
    Run { version: run.version + 1, ..run.clone() }
}

fn open(run: &Run) -> Result<(), Refusal> {
    let state = run.state();
    if state.is_final() { Err(Refusal::Finished(state)) } else { Ok(()) }
}

fn held(run: &Run, fence: u64) -> Result<&Lease, Refusal> {
    open(run).map_err(|_| Refusal::StaleFence)?;
    run.lease.as_ref().filter(|lease| lease.fence == fence).ok_or(Refusal::StaleFence)
}

#[cfg(test)]
mod tests;
