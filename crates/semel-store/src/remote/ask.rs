//! Asking the server: one question, its answer, and what a refusal means to whoever asked.

use std::time::Duration;

use semel_core::code::Code;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::address::ServerAddress;
use super::client::{Client, Lost, Said};
use super::ground::ServerGround;
use super::protocol::{ErrorShape, Found, Read};
use crate::{Clock, StoreError, Unreadable};

/// How long an answer may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// For how long a server that has no room is asked again, in all.
const ROOM_WAIT_MAX: Duration = Duration::from_secs(20);
/// How long it is waited at once: a server that asks for more may have room before.
const ROOM_PAUSE_MAX: Duration = Duration::from_secs(5);

pub(super) struct Asking {
    pub(super) client: Client,
    pub(super) ground: ServerGround,
}

/// What came of a request.
pub(super) enum Heard {
    Said(Vec<u8>),
    /// The server says no, and did nothing.
    Refused(StoreError),
    /// It may have done what it was asked for.
    Perhaps(String),
    /// Nothing has left.
    NeverSent(String),
}

impl Asking {
    pub(super) fn new(address: ServerAddress, clock: &Clock) -> Result<Asking, StoreError> {
        let ground = ServerGround::new(clock);
        Ok(Asking { client: Client::new(address)?, ground })
    }

    pub(super) fn shown(&self) -> String {
        self.client.address.shown()
    }

    /// Asks for something that changes nothing.
    pub(super) async fn read<T: DeserializeOwned>(&self, read: &Read<'_>) -> Result<T, StoreError> {
        Ok(self.read_page(read).await?.0)
    }

    /// The same of a list, with the rows of it that cannot be read.
    pub(super) async fn read_page<T: DeserializeOwned>(
        &self,
        read: &Read<'_>,
    ) -> Result<(T, Vec<Unreadable>), StoreError> {
        let body = serde_json::to_string(read).expect("a question is plain data");
        let asked_ms = self.ground.local_ms();
        let answer: Found<T> = self.fetch("/v1/worker/read", Some(body)).await?;
        self.ground.learn(&answer.ground, asked_ms);
        Ok((answer.found, answer.unreadable.into_iter().map(Unreadable::from).collect()))
    }

    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, StoreError> {
        self.fetch(path, None).await
    }

    async fn fetch<T: DeserializeOwned>(
        &self,
        path: &str,
        body: Option<String>,
    ) -> Result<T, StoreError> {
        let mut heard = self.request(path, body.clone()).await;
        if let Heard::Perhaps(_) = heard {
            // A kept connection may have been closed under the question: it is asked once more.
            heard = self.request(path, body).await;
        }
        match heard {
            Heard::Said(body) => self.read_answer(&body),
            Heard::Refused(error) => Err(error),
            Heard::Perhaps(text) | Heard::NeverSent(text) => Err(StoreError::Unavailable(text)),
        }
    }

    pub(super) fn read_answer<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T, StoreError> {
        serde_json::from_slice(body).map_err(|error| {
            // The position, not the text: an answer holds what people entrusted to us.
            let (line, column) = (error.line(), error.column());
            let shown = self.shown();
            StoreError::Corrupt(format!("the answer of {shown} makes no sense at {line}:{column}"))
        })
    }

    /// One request. A server without room is asked again for a while, since it did nothing.
    pub(super) async fn request(&self, path: &str, body: Option<String>) -> Heard {
        let mut waited = Duration::ZERO;
        loop {
            let said = match self.client.send(path, body.clone(), PATIENCE).await {
                Ok(said) => said,
                Err(Lost::NeverSent(text)) => return Heard::NeverSent(text),
                Err(Lost::Perhaps(text)) => {
                    return Heard::Perhaps(format!("{}: {text}", self.shown()));
                }
            };
            let heard = self.hear(said.status, &said);
            let is_full = matches!(said.status, 429 | 503);
            let Some(pause) = said.retry_after.filter(|_| is_full) else { return heard };
            let pause = pause.clamp(Duration::from_millis(50), ROOM_PAUSE_MAX);
            if waited + pause > ROOM_WAIT_MAX {
                return heard;
            }
            tokio::time::sleep(pause).await;
            waited += pause;
        }
    }

    fn hear(&self, status: u16, said: &Said) -> Heard {
        if status == 200 {
            return Heard::Said(said.body.clone());
        }
        let problem: Option<ProblemShape> = serde_json::from_slice(&said.body).ok();
        if let Some(ProblemShape { code, detail, title }) = problem {
            let detail = detail.or(title).unwrap_or_default();
            return Heard::Refused(ErrorShape { code, detail }.into());
        }
        // Not our server's word: a proxy's, or another program's.
        let shown = self.shown();
        match status {
            401 => Heard::Refused(StoreError::Refused(
                Code::Unauthenticated,
                format!("{shown} does not know this token"),
            )),
            403 => Heard::Refused(StoreError::Refused(
                Code::Forbidden,
                format!("{shown} does not allow this"),
            )),
            429 => Heard::Refused(StoreError::Busy(format!("{shown} has no room"))),
            500.. => Heard::Perhaps(format!("{shown} answers {status}")),
            _ => Heard::Refused(StoreError::Missing(format!(
                "{shown}: it answers {status}, as no Semel server does"
            ))),
        }
    }
}

/// What matters of a problem document.
#[derive(Deserialize)]
struct ProblemShape {
    code: String,
    detail: Option<String>,
    title: Option<String>,
}
