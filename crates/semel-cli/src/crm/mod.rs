//! A small CRM: the outside world of demo and crash tests. A real HTTP server, meant to run in a
//! process of its own, that keeps its tickets in a file and misbehaves on request.
//!
//! The path's first part chooses how a repeat is treated; all share one set of tickets:
//! `plain` always creates, `native` creates once per `Idempotency-Key`, `lookup` always creates
//! and can be searched, `conditional` creates only if the reference is absent.

mod book;
pub(crate) mod lines;
#[cfg(test)]
mod tests;

use std::fs;
use std::future::IntoFuture;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;
use axum::extract::{Path as UrlPath, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use book::{Answer, Book, Rule, Then, Wish, Write};

/// A server that a crashed test left behind ends by itself.
pub(crate) const LIFE_MAX: Duration = Duration::from_secs(30 * 60);
/// A held request is cut after this time, should its client wait that long.
const HOLD_MAX: Duration = Duration::from_secs(60);
/// The longest long-poll for events.
const POLL_MAX: Duration = Duration::from_secs(60);

/// One line of `tickets.jsonl`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ticket {
    pub id: String,
    pub reference: String,
    pub subject: String,
    /// The idempotency key that `native` honoured; the other behaviours ignore the header.
    pub key: Option<String>,
    pub worker: Option<String>,
    /// 1 for the first ticket, without gaps.
    pub seq: u64,
}

/// One line of `events.jsonl`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Event {
    /// 1 for the first event, without gaps, also over restarts.
    pub n: u64,
    pub kind: Kind,
    pub reference: String,
    /// The idempotency key as sent, honoured or not.
    pub key: Option<String>,
    /// The request header `x-worker`.
    pub worker: Option<String>,
    /// The ticket that was written, replayed, in the way or found.
    pub ticket: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    Arrived,
    Written,
    Replayed,
    Refused,
    Held,
    Looked,
}

/// Serves until the process is killed or [`LIFE_MAX`] has passed. The address is in `dir/crm.addr`
/// once requests are taken.
pub(crate) async fn serve(dir: PathBuf) -> anyhow::Result<()> {
    fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let book = Book::open(&dir)?;
    let crm = Crm { last_event: book.last_event(), book: Arc::new(Mutex::new(book)) };
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    lines::publish(&dir.join("crm.addr"), &format!("http://{}", listener.local_addr()?))?;
    match timeout(LIFE_MAX, axum::serve(listener, router(crm)).into_future()).await {
        Ok(ended) => ended.context("the CRM's server ended"),
        Err(_life_over) => Ok(()),
    }
}

/// All tickets, straight from the file: for oracles, which must not trust the server. A line that
/// is still being written is not a ticket yet. No file is an error: a count of nothing at the
/// wrong place would pass for a proof.
pub(crate) fn tickets(dir: &Path) -> anyhow::Result<Vec<Ticket>> {
    let path = dir.join(book::TICKETS);
    let text = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    book::parse_tickets(&text).with_context(|| format!("cannot trust {}", path.display()))
}

/// How many tickets have this reference.
pub(crate) fn applied(dir: &Path, reference: &str) -> anyhow::Result<usize> {
    Ok(tickets(dir)?.iter().filter(|ticket| ticket.reference == reference).count())
}

#[derive(Clone)]
struct Crm {
    book: Arc<Mutex<Book>>,
    last_event: watch::Receiver<u64>,
}

impl Crm {
    /// Runs `act` alone on the book, off the async threads because it waits for the disk, and to
    /// its end even when the caller is dropped.
    async fn with_book<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Book) -> anyhow::Result<T> + Send + 'static,
    ) -> anyhow::Result<T> {
        let book = Arc::clone(&self.book);
        tokio::task::spawn_blocking(move || {
            act(&mut book.lock().expect("no holder of the book panics"))
        })
        .await?
    }
}

fn router(crm: Crm) -> Router {
    Router::new()
        .route("/plain/tickets", post(create_always))
        .route("/native/tickets", post(create_once_per_key))
        .route("/lookup/tickets", post(create_always).get(look))
        .route("/conditional/tickets/{reference}", put(create_if_absent).get(read_back))
        .route("/control/script", post(push_script))
        .route("/control/default", post(set_default))
        .route("/control/events", get(poll_events))
        .route("/control/health", get(StatusCode::OK))
        .fallback(none_of_these)
        .method_not_allowed_fallback(none_of_these)
        .with_state(crm)
}

#[derive(Deserialize)]
struct NewTicket {
    reference: String,
    subject: String,
}

async fn create_always(
    State(crm): State<Crm>,
    headers: HeaderMap,
    Json(new): Json<NewTicket>,
) -> Result<Response, Failure> {
    create(crm, Rule::Always, &headers, new).await
}

async fn create_once_per_key(
    State(crm): State<Crm>,
    headers: HeaderMap,
    Json(new): Json<NewTicket>,
) -> Result<Response, Failure> {
    create(crm, Rule::OncePerKey, &headers, new).await
}

#[derive(Deserialize)]
struct PutTicket {
    subject: String,
}

async fn create_if_absent(
    State(crm): State<Crm>,
    UrlPath(reference): UrlPath<String>,
    headers: HeaderMap,
    Json(PutTicket { subject }): Json<PutTicket>,
) -> Result<Response, Failure> {
    if headers.get(header::IF_NONE_MATCH).is_none_or(|value| value != "*") {
        let fact = "send `If-None-Match: *`";
        return Ok(problem(StatusCode::PRECONDITION_REQUIRED, fact));
    }
    create(crm, Rule::IfAbsent, &headers, NewTicket { reference, subject }).await
}

#[derive(Deserialize)]
struct Look {
    reference: String,
}

async fn look(
    State(crm): State<Crm>,
    headers: HeaderMap,
    Query(Look { reference }): Query<Look>,
) -> Result<Json<Vec<Ticket>>, Failure> {
    let worker = worker(&headers);
    Ok(Json(crm.with_book(move |book| book.look(&reference, worker)).await?))
}

async fn read_back(
    State(crm): State<Crm>,
    headers: HeaderMap,
    UrlPath(reference): UrlPath<String>,
) -> Result<Response, Failure> {
    let worker = worker(&headers);
    let found = crm.with_book(move |book| book.look(&reference, worker)).await?;
    Ok(match found.first() {
        Some(ticket) => Json(ticket).into_response(),
        None => problem(StatusCode::NOT_FOUND, "no such ticket"),
    })
}

#[derive(Deserialize)]
struct Script {
    reference: String,
    answers: Vec<Answer>,
}

async fn push_script(
    State(crm): State<Crm>,
    Json(script): Json<Script>,
) -> Result<StatusCode, Failure> {
    crm.with_book(move |book| {
        book.push_script(script.reference, script.answers);
        Ok(StatusCode::NO_CONTENT)
    })
    .await
    .map_err(Failure)
}

#[derive(Deserialize)]
struct Every {
    every: Option<u64>,
    answer: Option<Answer>,
}

async fn set_default(
    State(crm): State<Crm>,
    Json(Every { every, answer }): Json<Every>,
) -> Result<StatusCode, Failure> {
    crm.with_book(move |book| {
        book.set_default(every.unwrap_or(0), answer.unwrap_or(Answer::Ok));
        Ok(StatusCode::NO_CONTENT)
    })
    .await
    .map_err(Failure)
}

#[derive(Deserialize)]
struct Poll {
    #[serde(default)]
    after: u64,
    #[serde(default)]
    wait_ms: u64,
}

async fn poll_events(
    State(mut crm): State<Crm>,
    Query(Poll { after, wait_ms }): Query<Poll>,
) -> Result<Json<Vec<Event>>, Failure> {
    let wait = Duration::from_millis(wait_ms).min(POLL_MAX);
    // Nothing in time is an answer too: the empty list.
    let _ = timeout(wait, crm.last_event.wait_for(|last| *last > after)).await;
    Ok(Json(crm.with_book(move |book| Ok(book.events_after(after))).await?))
}

async fn none_of_these() -> Response {
    problem(StatusCode::NOT_FOUND, "none of these")
}

/// What the client gets to see of a create request.
enum Reply {
    Answer(StatusCode, Value),
    Silence,
    Cut,
}

async fn create(
    crm: Crm,
    rule: Rule,
    headers: &HeaderMap,
    NewTicket { reference, subject }: NewTicket,
) -> Result<Response, Failure> {
    let key = match headers.get("idempotency-key").map(|value| value.to_str()).transpose() {
        Ok(key) => key.map(String::from),
        Err(_) => return Ok(problem(StatusCode::BAD_REQUEST, "the Idempotency-Key is not ASCII")),
    };
    let wish = Arc::new(Wish { rule, reference, subject, key, worker: worker(headers) });
    // In a task of its own, because a dropped connection drops its handler: what has arrived is
    // carried out, whether or not anybody still waits for the answer.
    match tokio::spawn(carry_out(crm, wish)).await.map_err(anyhow::Error::from)?? {
        Reply::Answer(status, body) => Ok((status, Json(body)).into_response()),
        Reply::Silence => {
            sleep(HOLD_MAX).await;
            cut()
        }
        Reply::Cut => cut(),
    }
}

async fn carry_out(crm: Crm, wish: Arc<Wish>) -> anyhow::Result<Reply> {
    let arrived = Arc::clone(&wish);
    Ok(match crm.with_book(move |book| book.arrive(&arrived)).await? {
        Answer::Ok => write(&crm, wish, Then::Answer).await?,
        Answer::Hold => {
            write(&crm, wish, Then::Hold).await?;
            Reply::Silence
        }
        Answer::HoldBefore => {
            crm.with_book(move |book| book.record(Kind::Held, &wish, None)).await?;
            Reply::Silence
        }
        Answer::Status(status) => {
            crm.with_book(move |book| book.record(Kind::Refused, &wish, None)).await?;
            scripted(status)
        }
        Answer::WriteStatus(status) => {
            write(&crm, wish, Then::Answer).await?;
            scripted(status)
        }
        Answer::Reset => {
            write(&crm, wish, Then::Answer).await?;
            Reply::Cut
        }
        Answer::Delay(wait) => {
            sleep(wait).await;
            write(&crm, wish, Then::Answer).await?
        }
        Answer::Slow(wait) => {
            let reply = write(&crm, wish, Then::Answer).await?;
            sleep(wait).await;
            reply
        }
    })
}

/// Writes, and says how the CRM answers when nothing else is scripted.
async fn write(crm: &Crm, wish: Arc<Wish>, then: Then) -> anyhow::Result<Reply> {
    let write = crm.with_book(move |book| book.write(&wish, then)).await?;
    Ok(match write {
        Write::Created(ticket) => Reply::Answer(StatusCode::CREATED, json!(ticket)),
        Write::Replayed(ticket) => Reply::Answer(StatusCode::OK, json!(ticket)),
        Write::Exists => {
            Reply::Answer(StatusCode::PRECONDITION_FAILED, json!({ "error": "reference exists" }))
        }
    })
}

/// Says nothing about whether a ticket was written: the client must not learn it from here.
fn scripted(status: StatusCode) -> Reply {
    Reply::Answer(status, json!({ "error": format!("scripted {}", status.as_u16()) }))
}

/// Cuts the connection without an answer. Unwinding ends the connection's task, and so its socket,
/// before a byte is written; `resume_unwind` does so without the message of a panic.
fn cut() -> ! {
    std::panic::resume_unwind(Box::new("the connection is cut as scripted"))
}

fn worker(headers: &HeaderMap) -> Option<String> {
    headers.get("x-worker").map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

fn problem(status: StatusCode, fact: &str) -> Response {
    (status, Json(json!({ "error": fact }))).into_response()
}

/// The CRM itself failed (its disk, for one): 500, like any provider.
struct Failure(anyhow::Error);

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self(error)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        problem(StatusCode::INTERNAL_SERVER_ERROR, &format!("{:#}", self.0))
    }
}
