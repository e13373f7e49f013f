//! Polling the code of a workflow until it rests.

use std::cell::Cell;
use std::future::poll_fn;
use std::task::{Context, Poll};

use semel_core::code::Code;
use semel_core::journal::At;
use semel_core::json::Json;
use semel_core::limits;

use super::{Driver, Halt, foreign, later, panics, pause};
use crate::runs::port::{GivenUp, Work};
use crate::runs::undo::Undoable;
use crate::{Error, lock};

/// How the code was left by a poll.
enum Polled {
    /// It ended, or waits for answers only.
    Rests,
    /// It woke itself meanwhile.
    Again,
    /// It runs in another thread.
    Away,
}

impl Driver {
    pub(super) async fn begin_body(&mut self, input: Json) -> Result<(), Halt> {
        let unknown =
            || Error::new(Code::WorkflowUnknown, "no worker here has the code of the run");
        let make = self.make.clone().ok_or_else(unknown)?;
        let port = self.port.clone();
        // Making the future runs user code, too.
        match in_body(|| panics::catch(|| make(port, input))) {
            Ok(body) => self.body = Some(body),
            Err(panic) => self.stop_code(pause(None, Code::Panicked, panic)),
        }
        self.poll_body().await
    }

    /// Polls the code until it waits for answers only.
    pub(super) async fn poll_body(&mut self) -> Result<(), Halt> {
        for _ in 0..limits::POLLS_MAX {
            match self.poll_once()? {
                Polled::Rests => return Ok(()),
                Polled::Again => {}
                Polled::Away => self.wait_for_code().await?,
            }
        }
        let text = format!("the body did not come to rest after {} polls", limits::POLLS_MAX);
        self.stop_code(pause(None, Code::ForeignAwait, text));
        Ok(())
    }

    /// The code cannot go on. A journal may still say how the run went on without it.
    fn stop_code(&mut self, why: Halt) {
        self.body = None;
        self.stopped = Some(why);
        self.stopped_with = Some(self.heard_last);
    }

    /// Halts the run for what stopped its code, unless the run is ended without the code.
    pub(super) fn check_stopped(&mut self) -> Result<(), Halt> {
        match self.stopped.take() {
            Some(why) if !self.is_ending() && self.undoing.is_none() => Err(why),
            _ => Ok(()),
        }
    }

    fn poll_once(&mut self) -> Result<Polled, Halt> {
        let Some(body) = self.body.as_mut() else { return Ok(Polled::Rests) };
        self.alarm.take();
        let mut context = Context::from_waker(&self.waker);
        let ready = match in_body(|| panics::catch(|| body.as_mut().poll(&mut context))) {
            Ok(ready) => ready,
            Err(panic) => {
                self.stop_code(pause(None, Code::Panicked, panic));
                return Ok(Polled::Rests);
            }
        };
        let mut desk = lock(&self.desk);
        let seen_at = desk.now.expect("a body runs after its run was started");
        // Nobody can have asked before: it counts from now, however long the code took to ask.
        let asked_at = match self.asks_first {
            true => later(seen_at, At::from(&self.engine.store().ground().now)),
            false => seen_at,
        };
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
        match given_up {
            Some(GivenUp::Gone(error)) => return Err(Halt::Failed(error)),
            Some(GivenUp::Pause(id, error)) => {
                self.stop_code(Halt::Pause { id, fault: (&error).into() });
                return Ok(Polled::Rests);
            }
            None => {}
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
            self.stop_code(foreign());
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
