//! The code of a run, which a thread of Python runs. To the engine it is a future like any other,
//! but while Python is at work it is *away*, and the driver waits for it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use semel::{Code, Error, Json};
use semel_engine::{Body, Pending, Port};
use tokio::sync::oneshot;

use crate::mailbox::{Answer, Mailbox, Message};
use crate::port::{RunPort, Turn};

static BODY_NEXT: AtomicU64 = AtomicU64::new(1);

/// The code of a workflow, run by the thread that reads the mailbox.
pub(crate) fn body(mailbox: Arc<Mailbox>, workflow: String) -> Body {
    Arc::new(move |port, input| {
        Box::pin(Guest::new(mailbox.clone(), workflow.clone(), port, input))
    })
}

struct Guest {
    mailbox: Arc<Mailbox>,
    body: u64,
    engine: Port,
    port: RunPort,
    /// Who in Python waits for which command.
    waiting: Vec<(u32, Pending)>,
    state: State,
}

enum State {
    New {
        workflow: String,
        input: Json,
    },
    /// Python is at work.
    Away(oneshot::Receiver<Turn>),
    /// It waits for answers only.
    Resting,
    Over,
}

impl Guest {
    fn new(mailbox: Arc<Mailbox>, workflow: String, port: Port, input: Json) -> Guest {
        let body = BODY_NEXT.fetch_add(1, Ordering::Relaxed);
        Guest {
            body,
            engine: port.clone(),
            port: RunPort::new(body, port, mailbox.clone()),
            mailbox,
            waiting: Vec::new(),
            state: State::New { workflow, input },
        }
    }

    /// Hands the code over to Python.
    fn turn(&mut self, message: Message) {
        self.engine.set_away(true);
        self.state = State::Away(self.mailbox.begin_turn(self.body, message));
    }

    /// The answers that have come since Python last looked.
    fn answers(&mut self, context: &mut Context<'_>) -> Vec<(u32, Answer)> {
        self.waiting.extend(self.port.take_commands());
        let mut answers = Vec::new();
        self.waiting.retain_mut(|(waiter, pending)| match Pin::new(pending).poll(context) {
            Poll::Ready(answer) => {
                answers.push((*waiter, answer));
                false
            }
            Poll::Pending => true,
        });
        answers
    }

    fn release(&mut self, error: Error) -> Poll<Result<Json, Error>> {
        self.state = State::Over;
        self.engine.release(error);
        Poll::Pending
    }

    fn pause(&mut self, id: Option<String>, error: Error) -> Poll<Result<Json, Error>> {
        self.state = State::Over;
        self.engine.pause(id, error);
        Poll::Pending
    }
}

impl Future for Guest {
    type Output = Result<Json, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        loop {
            match std::mem::replace(&mut this.state, State::Over) {
                State::New { workflow, input } => {
                    let (body, port) = (this.body, Box::new(this.port.clone()));
                    this.turn(Message::Begin { body, workflow, input, port });
                }
                State::Away(mut turn) => {
                    let Poll::Ready(ended) = Pin::new(&mut turn).poll(context) else {
                        this.state = State::Away(turn);
                        return Poll::Pending;
                    };
                    this.engine.set_away(false);
                    match ended {
                        Ok(Turn::Rests) => this.state = State::Resting,
                        Ok(Turn::Ends(outcome)) => return Poll::Ready(outcome),
                        Ok(Turn::Pauses(id, error)) => return this.pause(id, error),
                        Ok(Turn::Gone(error)) => return this.release(error),
                        Err(_) => {
                            let text = "the event loop that ran the workflow was closed";
                            return this.release(Error::new(Code::StoreUnavailable, text));
                        }
                    }
                }
                State::Resting => {
                    let answers = this.answers(context);
                    if answers.is_empty() {
                        this.state = State::Resting;
                        return Poll::Pending;
                    }
                    let body = this.body;
                    this.turn(Message::Advance { body, answers });
                }
                State::Over => return Poll::Pending,
            }
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.port.end();
        self.mailbox.drop_body(self.body);
    }
}
