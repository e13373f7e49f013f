//! The way from the engine to a thread of Python: a queue and a bell that an event loop can watch.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use semel::{Code, Error, Json, RunHandle, Semel};
use semel_engine::Slot;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::AbortHandle;

use crate::app::App;
use crate::convert::Exception;
use crate::error;
use crate::handle::Handle;
use crate::job::{Reply, RunsIn, SendIntent, StepTurn};
use crate::port::{RunPort, Turn};
use crate::process::runtime;
use crate::transaction::Transaction;
use crate::within::{Asking, Within};

/// A function of Python. It is only ever called by a thread of Python.
pub(crate) type Function = Arc<Py<PyAny>>;

/// How lately an event loop must have read its mailbox to count as ready without being asked.
const FRESH: Duration = Duration::from_millis(50);

/// What the engine has for a thread of Python.
pub(crate) enum Message {
    /// The code of a run begins.
    Begin {
        body: u64,
        workflow: String,
        input: Json,
        port: Box<RunPort>,
    },
    /// It goes on with these answers.
    Advance {
        body: u64,
        answers: Vec<(u32, Answer)>,
    },
    /// It is not asked any more.
    Drop {
        body: u64,
    },
    Step {
        job: u64,
        function: Function,
        turn: StepTurn,
    },
    Send {
        job: u64,
        function: Function,
        intent: SendIntent,
    },
    Look {
        job: u64,
        function: Function,
        intent: SendIntent,
    },
    Transact {
        job: u64,
        function: Function,
        transaction: Transaction,
    },
    /// A statement for the connection that the caller has handed in.
    Ask(Asking),
    /// The turn of the caller's function on that connection.
    Work(Within),
    /// Nobody waits for the job any more, and it has to end.
    Abort {
        job: u64,
    },
    /// Somebody waits for this mailbox to be read.
    Ping(oneshot::Sender<()>),
    /// The answer to something that Python asked for.
    Told {
        token: u64,
        told: Result<Told, Error>,
    },
}

/// The answer to a command of a run.
pub(crate) type Answer = Result<Option<Json>, Error>;

/// What an operation comes to.
pub(crate) enum Told {
    Nothing,
    Text(String),
    Opened(Semel),
    Run(Box<RunHandle>),
}

/// The shared end of a mailbox.
pub(crate) struct Mailbox {
    state: Mutex<State>,
    bell: OwnedFd,
    job_next: AtomicU64,
    /// The threads for sync work of an event loop. Without any it is done by whoever reads this.
    threads: Option<Arc<Semaphore>>,
}

#[derive(Default)]
struct State {
    queue: Vec<Message>,
    jobs: HashMap<u64, oneshot::Sender<Reply>>,
    /// Whoever waits for the code of a run that Python is at work on.
    turns: HashMap<u64, oneshot::Sender<Turn>>,
    /// What Python has said since it was last passed on.
    said: Vec<Said>,
    /// When the thread that reads this was last seen.
    seen: Option<Instant>,
    is_closed: bool,
}

/// An answer of Python's, and who waits for it.
enum Said {
    Turn(oneshot::Sender<Turn>, Turn),
    Reply(oneshot::Sender<Reply>, Reply),
}

impl Mailbox {
    /// Leaves a message. One for a thread that is gone is dropped.
    pub(crate) fn push(&self, message: Message) {
        let mut state = self.lock();
        if state.is_closed {
            return;
        }
        let was_empty = state.queue.is_empty();
        state.queue.push(message);
        drop(state);
        if was_empty {
            // It can only fail when it rings already.
            let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
        }
    }

    /// Waits until the thread that reads this gets to what is left here, and, for sync work of an
    /// event loop, until one of its threads is free: that is reserved by what is returned.
    pub(crate) async fn ready(&self, runs_in: RunsIn) -> Result<Slot, Error> {
        // Whoever blocks on a call of its own does nothing but read this.
        let Some(threads) = &self.threads else { return Ok(Box::new(())) };
        let thread = match runs_in {
            RunsIn::Loop => None,
            RunsIn::Thread => {
                Some(threads.clone().acquire_owned().await.map_err(|_| loop_closed())?)
            }
        };
        let (ping, read) = oneshot::channel();
        {
            let state = self.lock();
            if state.is_closed {
                return Err(loop_closed());
            }
            if state.seen.is_some_and(|seen| seen.elapsed() < FRESH) {
                return Ok(Box::new(thread));
            }
        }
        self.push(Message::Ping(ping));
        read.await.map_err(|_| loop_closed())?;
        Ok(Box::new(thread))
    }

    /// Hands the code of a run over, and says where it will be heard of again. A mailbox that is
    /// closed, now or meanwhile, hangs up.
    pub(crate) fn begin_turn(&self, body: u64, message: Message) -> oneshot::Receiver<Turn> {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.lock();
        if !state.is_closed {
            state.turns.insert(body, sender);
            drop(state);
            self.push(message);
        }
        receiver
    }

    /// Python has done what it could for the code of a run. Passed on by [`Mailbox::flush`].
    pub(crate) fn end_turn(&self, body: u64, turn: Turn) {
        let mut state = self.lock();
        if let Some(sender) = state.turns.remove(&body) {
            state.said.push(Said::Turn(sender, turn));
        }
    }

    /// What a job came to. Passed on by [`Mailbox::flush`].
    fn end_job(&self, job: u64, reply: Reply) {
        let mut state = self.lock();
        if let Some(sender) = state.jobs.remove(&job) {
            state.said.push(Said::Reply(sender, reply));
        }
    }

    /// Passes on what Python has said: all at once, as each would wake a thread of the engine.
    fn flush(&self) {
        let said = std::mem::take(&mut self.lock().said);
        for said in said {
            // An error means that nobody waits any more.
            let _ = match said {
                Said::Turn(sender, turn) => sender.send(turn).map_err(drop),
                Said::Reply(sender, reply) => sender.send(reply).map_err(drop),
            };
        }
    }

    /// The engine does not ask this code any more.
    pub(crate) fn drop_body(&self, body: u64) {
        let turn = self.lock().turns.remove(&body);
        drop(turn);
        self.push(Message::Drop { body });
    }

    /// A number for a job, and where its reply will be. `None`: nobody is there to do it.
    pub(crate) fn job(&self) -> Option<(u64, oneshot::Receiver<Reply>)> {
        let mut state = self.lock();
        if state.is_closed {
            return None;
        }
        let id = self.job_next.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        state.jobs.insert(id, sender);
        Some((id, receiver))
    }

    /// Nobody waits for the job any more. One that was not begun is taken back.
    pub(crate) fn abort(&self, job: u64) {
        let mut state = self.lock();
        if state.jobs.remove(&job).is_none() {
            return;
        }
        let waiting = state.queue.len();
        state.queue.retain(|message| message.job() != Some(job));
        let was_begun = state.queue.len() == waiting;
        drop(state);
        if was_begun {
            self.push(Message::Abort { job });
        }
    }

    /// The thread that reads this is at it.
    fn see(&self) {
        self.lock().seen = Some(Instant::now());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Message {
    fn job(&self) -> Option<u64> {
        match self {
            Message::Step { job, .. }
            | Message::Send { job, .. }
            | Message::Look { job, .. }
            | Message::Transact { job, .. } => Some(*job),
            Message::Begin { .. }
            | Message::Advance { .. }
            | Message::Drop { .. }
            | Message::Ask(_)
            | Message::Work(_)
            | Message::Abort { .. }
            | Message::Ping(_)
            | Message::Told { .. } => None,
        }
    }

    fn into_python(self, py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
        match self {
            Message::Begin { body, workflow, input, port } => {
                ("begin", body, workflow, input.text(), Py::new(py, *port)?).into_pyobject(py)
            }
            Message::Advance { body, answers } => {
                let list = PyList::empty(py);
                for (waiter, answer) in answers {
                    list.append(answered(py, waiter, answer)?)?;
                }
                ("advance", body, list).into_pyobject(py)
            }
            Message::Drop { body } => ("drop", body).into_pyobject(py),
            Message::Step { job, function, turn } => {
                ("step", job, function.bind(py), Py::new(py, turn)?).into_pyobject(py)
            }
            Message::Send { job, function, intent } => {
                ("send", job, function.bind(py), Py::new(py, intent)?).into_pyobject(py)
            }
            Message::Look { job, function, intent } => {
                ("look", job, function.bind(py), Py::new(py, intent)?).into_pyobject(py)
            }
            Message::Transact { job, function, transaction } => {
                ("transact", job, function.bind(py), Py::new(py, transaction)?).into_pyobject(py)
            }
            Message::Ask(asking) => ("ask", Py::new(py, asking)?).into_pyobject(py),
            Message::Work(within) => ("work", Py::new(py, within)?).into_pyobject(py),
            Message::Abort { job } => ("abort", job).into_pyobject(py),
            Message::Ping(_) => unreachable!("it is answered when the mailbox is read"),
            Message::Told { token, told: Ok(told) } => {
                let value = told.into_python(py)?;
                ("told", token, value, py.None()).into_pyobject(py)
            }
            Message::Told { token, told: Err(error) } => {
                ("told", token, py.None(), error::parts(py, &error)?).into_pyobject(py)
            }
        }
    }
}

fn loop_closed() -> Error {
    Error::new(Code::StoreUnavailable, "the event loop was closed before the call")
}

fn answered(py: Python<'_>, waiter: u32, answer: Answer) -> PyResult<Bound<'_, PyTuple>> {
    match answer {
        Ok(Some(json)) => (waiter, json.text(), py.None()).into_pyobject(py),
        Ok(None) => (waiter, py.None(), py.None()).into_pyobject(py),
        Err(error) => (waiter, py.None(), error::parts(py, &error)?).into_pyobject(py),
    }
}

impl Told {
    fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self {
            Told::Nothing => Ok(py.None()),
            Told::Text(text) => Ok(text.into_pyobject(py)?.into_any().unbind()),
            Told::Opened(semel) => Ok(Py::new(py, App::new(semel))?.into_any()),
            Told::Run(run) => Ok(Py::new(py, Handle::new(*run))?.into_any()),
        }
    }
}

/// A mailbox, as the thread of Python that reads it has it.
#[pyclass(frozen)]
pub(crate) struct Inbox {
    mailbox: Arc<Mailbox>,
    process: u32,
}

impl Inbox {
    pub(crate) fn mailbox(&self) -> Arc<Mailbox> {
        self.mailbox.clone()
    }

    /// Lets the engine do something, and leaves the answer here.
    pub(crate) fn ask<F>(&self, token: u64, work: F) -> PyResult<Asked>
    where
        F: Future<Output = Result<Told, Error>> + Send + 'static,
    {
        let mailbox = self.mailbox();
        mailbox.see();
        let task = runtime()?.spawn(async move {
            let told = work.await;
            mailbox.push(Message::Told { token, told });
        });
        Ok(Asked { task: task.abort_handle() })
    }
}

#[pymethods]
impl Inbox {
    /// With `threads` it is that of an event loop, which has so many of them for sync work.
    #[new]
    #[pyo3(signature = (threads=None))]
    fn new(threads: Option<usize>) -> PyResult<Inbox> {
        runtime()?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(std::io::Error::from)?;
        let state = Mutex::default();
        let threads = threads.map(|count| Arc::new(Semaphore::new(count)));
        let mailbox = Arc::new(Mailbox { state, bell, job_next: AtomicU64::new(1), threads });
        Ok(Inbox { mailbox, process: std::process::id() })
    }

    /// What an event loop watches: readable while something waits here.
    fn fileno(&self) -> i32 {
        self.mailbox.bell.as_raw_fd()
    }

    /// Takes everything that waits here.
    fn drain<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        // The bell first: what comes in after the queue was taken rings it again.
        let _ = rustix::io::read(&self.mailbox.bell, &mut [0_u8; 8][..]);
        let messages = {
            let mut state = self.mailbox.lock();
            state.seen = Some(Instant::now());
            std::mem::take(&mut state.queue)
        };
        let list = PyList::empty(py);
        for message in messages {
            match message {
                // Nobody waits for it any more, if it fails.
                Message::Ping(read) => drop(read.send(())),
                message => list.append(message.into_python(py)?)?,
            }
        }
        Ok(list)
    }

    /// Waits until something is here, or the time is over. Other threads of Python go on.
    fn wait(&self, py: Python<'_>, timeout_ms: u64) {
        let mailbox = &self.mailbox;
        py.detach(|| {
            let mut fds = [PollFd::new(&mailbox.bell, PollFlags::IN)];
            let timeout = Timespec::try_from(Duration::from_millis(timeout_ms)).ok();
            // A signal ends it early: Python looks at that.
            let _ = poll(&mut fds, timeout.as_ref());
        });
    }

    /// Passes on what was said since the last time: replies, and how bodies were left.
    fn flush(&self) {
        self.mailbox.flush();
    }

    /// What a job came to, as JSON.
    fn reply(&self, job: u64, text: String) {
        self.mailbox.end_job(job, Reply::Value(text));
    }

    /// What a look found.
    fn found(&self, job: u64, hits: Vec<String>) {
        self.mailbox.end_job(job, Reply::Found(hits));
    }

    /// Why a job came to nothing: `not_applied`, `refused` or `unknown`, and what was raised: its
    /// type, what rebuilds it, and the trace for the operator.
    fn fail(&self, job: u64, proof: &str, detail: String, raised: Option<Exception>) {
        self.mailbox.end_job(job, Reply::failed(proof, detail, raised));
    }

    /// No thread reads this any more. What was not begun did not happen; of what was, nobody knows.
    fn close(&self) {
        self.mailbox.flush();
        let mut state = self.mailbox.lock();
        state.is_closed = true;
        let queue = std::mem::take(&mut state.queue);
        for job in queue.iter().filter_map(Message::job) {
            if let Some(sender) = state.jobs.remove(&job) {
                let _ = sender.send(Reply::never_begun());
            }
        }
        let jobs = std::mem::take(&mut state.jobs);
        let turns = std::mem::take(&mut state.turns);
        drop(state);
        if let Some(threads) = &self.mailbox.threads {
            threads.close();
        }
        drop((queue, jobs, turns));
    }

    /// How many jobs were begun and have no answer yet.
    fn jobs_open(&self) -> usize {
        self.mailbox.lock().jobs.len()
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        // In a forked child its lock may be held by a thread that is not there.
        if self.process == std::process::id() {
            self.close();
        }
    }
}

/// Something that was asked for. Cancelled, nobody is told; what it began goes on.
#[pyclass(frozen)]
pub(crate) struct Asked {
    task: AbortHandle,
}

#[pymethods]
impl Asked {
    fn cancel(&self) {
        self.task.abort();
    }
}
