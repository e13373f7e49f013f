//! Views: how a run and its journal are shown. API, CLI and console render exactly these.

use serde::Serialize;

use crate::code::Code;
use crate::journal::{At, Ending, Entry, Event, Fault, Link, Raised};
use crate::json::Json;
use crate::run::{Cancel, Lease, Pause, Run, Wait};
use crate::time::Moment;
use crate::wire::{EffectView, rfc3339};

/// One run, as everybody sees it. Its history is there where it was asked for.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunView {
    pub id: String,
    pub namespace: String,
    pub workflow: String,
    pub key: String,
    pub state: &'static str,
    /// The release of the code that it stays with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    /// It never moves to another release by itself.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub strict: bool,
    /// Why it waits for its release, where nobody offers that and it cannot move.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stranded: Option<String>,
    /// The run that started it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    pub version: u64,
    pub created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_on: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<WaitView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<HeldView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<PauseView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancel: Option<CancelView>,
    /// When it is ended by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// Until when its key answers with this run; later it answers "expired".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replays_until: Option<String>,
    #[serde(flatten)]
    pub history: Option<HistoryView>,
}

/// One thing a run waits for.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WaitView {
    /// The command that waits.
    pub id: String,
    pub on: String,
    /// The runs that are before it, where somebody has looked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub behind: Vec<String>,
    /// When it goes on by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// What the code says of it to whoever decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<Json>,
}

/// Who may advance a run.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HeldView {
    pub worker: String,
    pub fence: u64,
    pub until: String,
}

/// Why a run stands still, and what to do next.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PauseView {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    pub code: String,
    pub detail: String,
    pub at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<&'static str>,
    /// The exception behind it, with its trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raised: Option<Box<Raised>>,
}

/// Who asked for the end of a run.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CancelView {
    pub actor: String,
    pub reason: String,
    pub at: String,
}

/// What happened in a run, its chain checked.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HistoryView {
    /// The link of the last entry: it stands for all of them.
    pub head: String,
    pub chain_verified: bool,
    pub entries: Vec<EntryView>,
    /// The effects that the run planned, as the ledger has them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<EffectView>,
    /// The runs that the run asked for, as they stand.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<ChildView>,
}

/// A run that another one asked for.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChildView {
    /// The command that asked.
    pub command: String,
    pub id: String,
    pub workflow: String,
    pub key: String,
    /// `missing`: it was asked for, and is not there.
    pub state: &'static str,
}

/// One entry of a journal.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EntryView {
    pub seq: u64,
    pub at: String,
    pub kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// What the command asks for, such as `step` or `sleep 1s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub what: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fence: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    /// The run that a child is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// What is taken back, in this order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<String>,
    /// How many attempts a step took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// Which attempt failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<String>,
    /// The identity of a signal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<FaultView>,
    /// The ledger had the receipt before: nothing was sent.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub repeat: bool,
    /// `done`, `failed` or `cancelled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<&'static str>,
    /// The input, the value of a step, a receipt, a payload, or the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Json>,
}

/// An error, as a journal keeps it.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FaultView {
    pub code: String,
    pub detail: String,
    /// The exception behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raised: Option<Box<Raised>>,
}

/// What a run that has ended came to.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ResultView {
    pub id: String,
    pub state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<FaultView>,
}

/// Shows a run as it is at a moment, without its history.
pub fn run_view(run: &Run, now: &Moment) -> RunView {
    let is_open = run.ended.is_none();
    RunView {
        id: run.id.clone(),
        namespace: run.namespace.clone(),
        workflow: run.workflow.clone(),
        key: run.key.clone(),
        state: run.state().as_str(),
        release: run.release.clone(),
        strict: run.strict,
        stranded: run.stranded.clone().filter(|_| is_open),
        parent: run.parent.clone(),
        version: run.version,
        created_at: rfc3339(run.created),
        waits_on: run.waits_on(),
        waits: run.waits.iter().map(|wait| wait_view(wait, now)).collect(),
        held: run.lease.as_ref().filter(|_| is_open).map(|lease| held_view(lease, now)),
        paused: run.paused.as_ref().map(pause_view),
        cancel: run.cancel.as_ref().map(cancel_view),
        deadline: run.deadline.filter(|_| is_open).map(|at| time_of(at, now)),
        ended_at: run.ended.as_ref().map(|ended| rfc3339(ended.at)),
        replays_until: run.sweep_at().filter(|_| run.expired.is_none()).map(rfc3339),
        history: None,
    }
}

/// Shows the history of a run whose chain was checked and ends in `head`.
pub fn history_view(
    head: Link,
    entries: Vec<EntryView>,
    effects: Vec<EffectView>,
    children: Vec<ChildView>,
) -> HistoryView {
    HistoryView { head: head.to_string(), chain_verified: true, entries, effects, children }
}

/// The child that a planned command asks for, by workflow and key.
pub fn child_asked(what: &str) -> Option<(&str, &str)> {
    what.strip_prefix("child ")?.split_once('/')
}

/// Shows one entry, with the value that it keeps or refers to.
pub fn entry_view(seq: u64, entry: &Entry, value: Option<Json>) -> EntryView {
    let event = &entry.event;
    let view = EntryView {
        seq,
        at: rfc3339(entry.at.0),
        kind: event.name(),
        id: event.id().map(str::to_owned),
        fault: event.fault().map(fault_view),
        value,
        ..EntryView::default()
    };
    match event.clone() {
        Event::Started { workflow, .. } => EntryView { workflow: Some(workflow), ..view },
        Event::Taken { fence, worker, release, .. } => {
            EntryView { fence: Some(fence), worker: Some(worker), release: Some(release), ..view }
        }
        Event::Step { what, attempts, .. } => {
            EntryView { what: Some(what), attempts: Some(attempts), ..view }
        }
        Event::StepFailed { what, attempt, retry_at, .. } => EntryView {
            what: Some(what),
            attempt: Some(attempt),
            retry_at: retry_at.map(|at| rfc3339(at.0)),
            ..view
        },
        Event::Effect { what, repeat, .. } => EntryView { what: Some(what), repeat, ..view },
        Event::Planned { what, .. }
        | Event::Fired { what, .. }
        | Event::TimedOut { what, .. }
        | Event::Left { what, .. } => EntryView { what: Some(what), ..view },
        Event::Child { what, run, .. } => EntryView { what: Some(what), run: Some(run), ..view },
        Event::Entered { what, fence, .. } => {
            EntryView { what: Some(what), fence: Some(fence), ..view }
        }
        Event::Undoing { ids, .. } => EntryView { ids, ..view },
        Event::Moved { to, actor, reason, .. } => {
            EntryView { release: Some(to), actor: Some(actor), reason: Some(reason), ..view }
        }
        Event::Received { what, delivery, .. } => {
            EntryView { what: Some(what), delivery: Some(delivery), ..view }
        }
        Event::Cancelling { actor, reason }
        | Event::Resumed { actor, reason }
        | Event::Skipped { actor, reason, .. } => {
            EntryView { actor: Some(actor), reason: Some(reason), ..view }
        }
        Event::Paused { .. } => view,
        Event::Finished { end } => finished(&end, view),
    }
}

fn finished(end: &Ending, view: EntryView) -> EntryView {
    match end {
        Ending::Done(_) => EntryView { end: Some("done"), ..view },
        Ending::Failed(_) => EntryView { end: Some("failed"), ..view },
        Ending::Cancelled(reason) => {
            EntryView { end: Some("cancelled"), reason: Some(reason.clone()), ..view }
        }
    }
}

fn fault_view(fault: &Fault) -> FaultView {
    let Fault { code, detail, raised, .. } = fault.clone();
    FaultView { code, detail, raised }
}

fn wait_view(wait: &Wait, now: &Moment) -> WaitView {
    let until = wait.due.map(|due| time_of(due, now));
    let (id, on, note) = (wait.id.clone(), wait.on.to_string(), wait.note.clone());
    WaitView { id, on, behind: Vec::new(), until, note }
}

fn held_view(lease: &Lease, now: &Moment) -> HeldView {
    let until = rfc3339(now.wall.plus(now.until(lease.until)));
    HeldView { worker: lease.worker.clone(), fence: lease.fence, until }
}

fn pause_view(pause: &Pause) -> PauseView {
    PauseView {
        id: pause.id.clone(),
        code: pause.code.clone(),
        detail: pause.detail.clone(),
        at: rfc3339(pause.at),
        hint: Code::parse(&pause.code).map(pause_hint),
        raised: pause.raised.clone(),
    }
}

fn pause_hint(code: Code) -> &'static str {
    // The general hint is about an effect, which was not applied; of a step nobody knows that.
    if code == Code::RetriesExhausted { Code::StepFailed.hint() } else { code.hint() }
}

fn cancel_view(cancel: &Cancel) -> CancelView {
    let (actor, reason) = (cancel.actor.clone(), cancel.reason.clone());
    CancelView { actor, reason, at: rfc3339(cancel.at) }
}

/// When it comes on the wall clock of now: it counts on the steady one, which nobody reads.
fn time_of(at: At, now: &Moment) -> String {
    match at.remaining_ms(now) {
        0 => rfc3339(at.0),
        ms => rfc3339(now.wall.plus(ms)),
    }
}
