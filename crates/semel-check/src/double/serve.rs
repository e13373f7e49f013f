//! Requests over real sockets, and the faults that meet them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{Request as HttpRequest, State};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::watch;
use tokio::time::sleep;

use super::control;
use super::fault::{Kind, When};
use super::request::Request;
use super::world::{Answer, Arrived, World};

const BODY_BYTES_MAX: usize = 4 << 20;
/// A client that waits longer than this for a hanging answer is cut off.
const HANG_MAX: Duration = Duration::from_secs(30 * 60);

/// What all connections share.
#[derive(Clone)]
pub(super) struct Shared {
    world: Arc<Mutex<World>>,
    /// Grows by each change of the book.
    pub(super) changes: watch::Sender<u64>,
    /// Grows by each release.
    pub(super) releases: watch::Sender<u64>,
}

impl Shared {
    pub(super) fn new(world: World) -> Shared {
        Shared {
            world: Arc::new(Mutex::new(world)),
            changes: watch::Sender::new(0),
            releases: watch::Sender::new(0),
        }
    }

    pub(super) fn look<T>(&self, look: impl FnOnce(&World) -> T) -> T {
        look(&self.lock())
    }

    /// Changes the world and says so to all who wait for it.
    pub(super) fn change<T>(&self, act: impl FnOnce(&mut World) -> T) -> T {
        let done = act(&mut self.lock());
        self.changes.send_modify(|count| *count += 1);
        done
    }

    fn lock(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) async fn handle(State(shared): State<Shared>, request: HttpRequest) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, BODY_BYTES_MAX).await else {
        return respond(Answer::problem(413, "the body is over 4 MiB, or was not sent whole"));
    };
    if let Some(rest) = parts.uri.path().strip_prefix(control::PREFIX) {
        return control::handle(&shared, &parts, rest, &body).await;
    }
    let request = Request::read(&parts.method, &parts.uri, parts.headers, &body);
    let arrived = match shared.change(|world| world.arrive(request)) {
        Ok(arrived) => arrived,
        Err(answer) => return respond(answer),
    };
    let released = shared.releases.subscribe();
    // In a task of its own, because a connection that its client drops drops its handler: what has
    // arrived is carried out, whether or not anybody still waits for the answer.
    match tokio::spawn(carry_out(shared, arrived)).await {
        Ok(Reply::Answer(answer)) => respond(answer),
        Ok(Reply::Broken) => broken(),
        Ok(Reply::Hang(answer)) => {
            hang(released).await;
            answer.map_or_else(|| cut(), respond)
        }
        Ok(Reply::Cut) | Err(_) => cut(),
    }
}

/// What the client gets to see.
enum Reply {
    Answer(Answer),
    /// 200, and a body that ends in the middle.
    Broken,
    /// Nothing until it is released; then this, or the end of the connection.
    Hang(Option<Answer>),
    Cut,
}

async fn carry_out(shared: Shared, arrived: Arrived) -> Reply {
    let Some(fault) = arrived.fault.clone() else {
        return Reply::Answer(apply(&shared, &arrived).await);
    };
    let status = fault.status.unwrap_or(500);
    let wait = Duration::from_millis(fault.ms);
    match fault.fault {
        Kind::CutBefore => {
            nothing(&shared, &arrived, None);
            Reply::Cut
        }
        Kind::CutAfter => {
            unanswered(&shared, &arrived).await;
            Reply::Cut
        }
        Kind::ErrorBefore => error(&shared, &arrived, Answer::problem(status, "scripted"), false),
        Kind::ErrorAfter => error(&shared, &arrived, Answer::problem(status, "scripted"), true),
        Kind::TooManyAfter => {
            let answer = Answer::problem(429, "scripted").header("retry-after", "1");
            error(&shared, &arrived, answer, true)
        }
        Kind::Hang if fault.when == Some(When::Before) => {
            nothing(&shared, &arrived, None);
            Reply::Hang(None)
        }
        Kind::Hang => Reply::Hang(Some(unanswered(&shared, &arrived).await)),
        Kind::Delay if fault.when == Some(When::After) => {
            let answer = apply(&shared, &arrived).await;
            sleep(wait).await;
            Reply::Answer(answer)
        }
        Kind::Delay => {
            sleep(wait).await;
            Reply::Answer(apply(&shared, &arrived).await)
        }
        Kind::Late => {
            tokio::spawn(async move {
                sleep(wait).await;
                unanswered(&shared, &arrived).await;
            });
            Reply::Cut
        }
        Kind::Garbage => {
            unanswered(&shared, &arrived).await;
            shared.change(|world| world.answered(&arrived, Some(200)));
            Reply::Broken
        }
        Kind::Kill if fault.when == Some(When::Before) => {
            kill(fault.pid);
            Reply::Answer(apply(&shared, &arrived).await)
        }
        Kind::Kill => {
            let answer = unanswered(&shared, &arrived).await;
            kill(fault.pid);
            Reply::Answer(answer)
        }
    }
}

/// Applies, and takes the time that an answer takes.
async fn apply(shared: &Shared, arrived: &Arrived) -> Answer {
    apply_and_answer(shared, arrived, true).await
}

/// Applies a request whose answer its client will not see.
async fn unanswered(shared: &Shared, arrived: &Arrived) -> Answer {
    apply_and_answer(shared, arrived, false).await
}

async fn apply_and_answer(shared: &Shared, arrived: &Arrived, is_seen: bool) -> Answer {
    let answer = shared.change(|world| world.apply(arrived));
    if let Some(latency) = arrived.route.latency {
        sleep(Duration::from_millis(latency.ms)).await;
    }
    shared.change(|world| world.answered(arrived, is_seen.then_some(answer.status)));
    answer
}

fn nothing(shared: &Shared, arrived: &Arrived, status: Option<u16>) {
    shared.change(|world| {
        world.nothing(arrived);
        world.answered(arrived, status);
    });
}

fn error(shared: &Shared, arrived: &Arrived, answer: Answer, is_applied: bool) -> Reply {
    shared.change(|world| {
        if is_applied {
            world.apply(arrived);
        } else {
            world.nothing(arrived);
        }
        world.keep_error(arrived, &answer);
        world.answered(arrived, Some(answer.status));
    });
    Reply::Answer(answer)
}

async fn hang(mut released: watch::Receiver<u64>) {
    // Whichever comes first; a client that leaves drops this wait with its connection.
    let _ = tokio::time::timeout(HANG_MAX, released.changed()).await;
}

fn kill(pid: Option<i32>) {
    // A process that is gone already needs no signal.
    let _ = pid.and_then(Pid::from_raw).map(|pid| kill_process(pid, Signal::KILL));
}

/// Cuts the connection without an answer. Unwinding ends the connection's task, and so its socket,
/// before a byte is written; `resume_unwind` does so without the message of a panic.
fn cut() -> ! {
    std::panic::resume_unwind(Box::new("the connection is cut as armed"))
}

pub(super) fn respond(answer: Answer) -> Response {
    let mut response = Response::new(Body::from(answer.body.to_string()));
    *response.status_mut() =
        StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    for (name, value) in answer.headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
    response
}

fn broken() -> Response {
    let mut response = Response::new(Body::from("{\"id\": \"not the wh"));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert("content-type", json);
    response
}
