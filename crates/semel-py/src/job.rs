//! A piece of work that a thread of Python does for the engine.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pyo3::prelude::*;
use semel::{Intent, Json};
use semel_core::effect::Abort;
use semel_core::journal::Raised;
use semel_core::retry::Trouble;
use semel_engine::{Clearance, Doer, Executor, Looked, Reached, Sent, StepFault, StepFn, StepTry};
use tokio::sync::oneshot;

use crate::convert::{self, Exception};
use crate::mailbox::{Function, Mailbox, Message};

/// What Python says of a job.
pub(crate) enum Reply {
    Value(String),
    Found(Vec<String>),
    Failed { proof: Proof, detail: String, raised: Option<Box<Raised>> },
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proof {
    NotApplied,
    Refused,
    Unknown,
    /// A programming error, before anything went out.
    FaultyUnsent,
    /// A programming error; something may have gone out.
    Faulty,
}

impl Reply {
    pub(crate) fn failed(proof: &str, detail: String, raised: Option<Exception>) -> Reply {
        let proof = match proof {
            "not_applied" => Proof::NotApplied,
            "refused" => Proof::Refused,
            "faulty_unsent" => Proof::FaultyUnsent,
            "faulty" => Proof::Faulty,
            _ => Proof::Unknown,
        };
        let raised = raised.map(|exception| Box::new(convert::raised(exception)));
        Reply::Failed { proof, detail, raised }
    }

    pub(crate) fn never_begun() -> Reply {
        Reply::failed("not_applied", "the event loop was closed before the call".into(), None)
    }

    /// The thread is gone, and took with it what became of the job.
    fn lost() -> Reply {
        Reply::failed("unknown", "the event loop was closed during the call".into(), None)
    }
}

/// Waits for the reply to one job. Dropped before, the job is aborted.
struct Job {
    mailbox: Arc<Mailbox>,
    id: u64,
    reply: oneshot::Receiver<Reply>,
}

impl Job {
    fn begin(mailbox: &Arc<Mailbox>, message: impl FnOnce(u64) -> Message) -> Option<Job> {
        let (id, reply) = mailbox.job()?;
        mailbox.push(message(id));
        Some(Job { mailbox: mailbox.clone(), id, reply })
    }

    async fn ended(job: Option<Job>) -> Reply {
        match job {
            None => Reply::never_begun(),
            Some(job) => job.await,
        }
    }
}

impl Future for Job {
    type Output = Reply;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Reply> {
        Pin::new(&mut self.reply).poll(context).map(|reply| reply.unwrap_or_else(|_| Reply::lost()))
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.mailbox.abort(self.id);
    }
}

/// What runs a function of Python for an event loop.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunsIn {
    /// The event loop itself.
    Loop,
    /// One of its threads.
    Thread,
}

impl RunsIn {
    /// As the work says of itself.
    pub(crate) fn of(work: &Bound<'_, PyAny>) -> PyResult<RunsIn> {
        let is_async: bool = work.getattr("is_async")?.extract()?;
        Ok(if is_async { RunsIn::Loop } else { RunsIn::Thread })
    }
}

/// What an effect needs ready: a thread, if it or its look is sync.
pub(crate) fn runs_in(
    send: &Bound<'_, PyAny>,
    look: Option<&Bound<'_, PyAny>>,
) -> PyResult<RunsIn> {
    let look = look.map_or(Ok(RunsIn::Loop), RunsIn::of)?;
    Ok(if look == RunsIn::Thread { look } else { RunsIn::of(send)? })
}

/// Where functions of Python run: the thread that reads the mailbox, or one of its threads.
pub(crate) fn executor(mailbox: Arc<Mailbox>, runs_in: RunsIn) -> Executor {
    Executor::Away(Arc::new(move || {
        let mailbox = mailbox.clone();
        Box::pin(async move { mailbox.ready(runs_in).await })
    }))
}

/// A function of Python as the code of a step.
pub(crate) fn step_fn(mailbox: Arc<Mailbox>, function: Function) -> StepFn {
    Arc::new(move |turn| {
        let (function, turn) = (function.clone(), StepTurn { turn });
        let job = Job::begin(&mailbox, |job| Message::Step { job, function, turn });
        Box::pin(async move {
            match Job::ended(job).await {
                Reply::Value(text) => Json::from_text(text).map_err(|invalid| {
                    fault(format!("the value cannot be stored: {invalid}"), Trouble::Final, None)
                }),
                Reply::Failed { proof, detail, raised } => {
                    let trouble = match proof {
                        Proof::Refused => Trouble::Final,
                        Proof::Faulty | Proof::FaultyUnsent => Trouble::Programming,
                        Proof::NotApplied | Proof::Unknown => Trouble::Passing,
                    };
                    Err(fault(detail, trouble, raised))
                }
                Reply::Found(_) => Err(fault("a step does not look".into(), Trouble::Final, None)),
            }
        })
    })
}

fn fault(detail: String, trouble: Trouble, raised: Option<Box<Raised>>) -> StepFault {
    StepFault { detail, trouble, raised }
}

/// Functions of Python as the code of an effect.
pub(crate) fn doer(
    mailbox: Arc<Mailbox>,
    send: Function,
    look: Option<Function>,
    runs_in: RunsIn,
    abort: Abort,
) -> Arc<Doer> {
    let executor = executor(mailbox.clone(), runs_in);
    let looker = mailbox.clone();
    let send = Box::new(move |intent: Intent| {
        let (function, intent) = (send.clone(), SendIntent { intent });
        let job = Job::begin(&mailbox, |job| Message::Send { job, function, intent });
        Box::pin(async move { sent(Job::ended(job).await) })
            as Pin<Box<dyn Future<Output = _> + Send>>
    });
    let look = look.map(|look| {
        let look = move |intent: Intent| {
            let (function, intent) = (look.clone(), SendIntent { intent });
            let job = Job::begin(&looker, |job| Message::Look { job, function, intent });
            Box::pin(async move { looked(Job::ended(job).await) })
                as Pin<Box<dyn Future<Output = _> + Send>>
        };
        Box::new(look) as Box<dyn Fn(Intent) -> _ + Send + Sync>
    });
    Arc::new(Doer { send, look, abort, executor })
}

fn sent(reply: Reply) -> Sent {
    match reply {
        // A value that cannot be stored is no proof that nothing happened.
        Reply::Value(text) => Json::from_text(text).map_or_else(
            |invalid| Sent::Unknown(format!("the receipt cannot be stored: {invalid}")),
            Sent::Receipt,
        ),
        Reply::Failed { proof: Proof::NotApplied, detail, .. } => Sent::NotApplied(detail),
        Reply::Failed { proof: Proof::Refused, detail, .. } => Sent::Refused(detail),
        Reply::Failed { proof: Proof::Unknown, detail, .. } => Sent::Unknown(detail),
        Reply::Failed { proof: Proof::FaultyUnsent, detail, .. } => {
            Sent::Faulty(detail, Reached::Nothing)
        }
        Reply::Failed { proof: Proof::Faulty, detail, .. } => {
            Sent::Faulty(detail, Reached::Perhaps)
        }
        Reply::Found(_) => Sent::Unknown("a send does not look".into()),
    }
}

fn looked(reply: Reply) -> Looked {
    match reply {
        Reply::Found(hits) => {
            let hits: Result<Vec<Json>, _> = hits.into_iter().map(Json::from_text).collect();
            match hits {
                Ok(mut hits) if !hits.is_empty() => {
                    let first = hits.remove(0);
                    Looked::Found(first, hits)
                }
                Ok(_) => Looked::Absent,
                Err(invalid) => Looked::Unknown(invalid.to_string()),
            }
        }
        Reply::Failed { proof: Proof::Faulty | Proof::FaultyUnsent, detail, .. } => {
            Looked::Faulty(detail)
        }
        Reply::Failed { detail, .. } => Looked::Unknown(detail),
        Reply::Value(_) => Looked::Unknown("a look has hits".into()),
    }
}

/// One attempt of a step, for a function of Python.
#[pyclass(frozen)]
pub(crate) struct StepTurn {
    turn: StepTry,
}

#[pymethods]
impl StepTurn {
    #[getter]
    fn attempt(&self) -> u32 {
        self.turn.attempt
    }

    /// Whether the function may begin: asked last before it is called, by the thread that calls it.
    fn begin(&self) -> bool {
        self.turn.clearance.begin()
    }

    /// Whether what it gave to await may begin, in another thread.
    fn is_in_time(&self) -> bool {
        self.turn.clearance.is_in_time()
    }

    /// The thread is free again.
    fn release(&self) {
        release(&self.turn.clearance);
    }
}

fn release(clearance: &Clearance) {
    drop(clearance.take_slot());
}

/// The intent that a function of Python carries out.
#[pyclass(frozen)]
pub(crate) struct SendIntent {
    intent: Intent,
}

#[pymethods]
impl SendIntent {
    /// Reading it counts as passing it on.
    #[getter]
    fn downstream_key(&self) -> &str {
        self.intent.downstream_key()
    }

    /// Whether this text is that key; then it counts as passed on.
    fn is_downstream_key(&self, text: &str) -> bool {
        self.intent.is_downstream_key(text)
    }

    #[getter]
    fn input(&self) -> &str {
        self.intent.input().text()
    }

    #[getter]
    fn namespace(&self) -> &str {
        self.intent.address().namespace.as_str()
    }

    #[getter]
    fn action(&self) -> &str {
        self.intent.address().action.as_str()
    }

    #[getter]
    fn key(&self) -> &str {
        self.intent.address().key.as_str()
    }

    #[getter]
    fn attempt(&self) -> u32 {
        self.intent.attempt()
    }

    #[getter]
    fn fence(&self) -> u64 {
        self.intent.fence()
    }

    /// Whether the function may begin: asked last before it is called, by the thread that calls it.
    fn begin(&self) -> bool {
        self.intent.clearance().begin()
    }

    /// Whether what it gave to await may begin, in another thread.
    fn is_in_time(&self) -> bool {
        self.intent.clearance().is_in_time()
    }

    /// The thread is free again.
    fn release(&self) {
        release(self.intent.clearance());
    }
}
