//! Writing a journal. Entries are queued in order and go out one batch at a time; whatever comes
//! while a batch is on its way waits for the next one.

use std::task::{Context, Poll, ready};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use semel_core::journal::{self, At, Entry, Event, Link, Value};
use semel_core::json::Json;
use semel_core::limits;
use semel_store::{Append, Batch, Inked, Write};

use crate::commit::Stopped;
use crate::{Engine, Error};

/// The end of a journal, and what is on its way there.
pub(crate) struct Ink {
    engine: Engine,
    namespace: String,
    run: i64,
    next_seq: u64,
    link: Link,
    waiting: Vec<Write>,
    flight: Option<BoxFuture<'static, Result<(), Stopped>>>,
}

/// A place in a journal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) seq: u64,
    pub(crate) link: Link,
}

impl Ink {
    /// At the start of an empty journal.
    pub(crate) fn start(engine: &Engine, namespace: &str, id: &str, run: i64) -> Ink {
        Ink {
            engine: engine.clone(),
            namespace: namespace.to_owned(),
            run,
            next_seq: 0,
            link: Link::of_run(namespace, id),
            waiting: Vec::new(),
            flight: None,
        }
    }

    /// After an entry that is there.
    pub(crate) fn after(engine: &Engine, namespace: &str, run: i64, last: &Inked) -> Ink {
        Ink {
            engine: engine.clone(),
            namespace: namespace.to_owned(),
            run,
            next_seq: last.seq + 1,
            link: last.link,
            waiting: Vec::new(),
            flight: None,
        }
    }

    /// Queues an entry. It is not durable yet.
    pub(crate) fn append(&mut self, at: At, event: Event) -> (Place, Event) {
        let entry = Entry { format: journal::FORMAT, at, event };
        let (entry, text) = self.engine.redacted_entry(entry);
        let (seq, after) = (self.next_seq, self.link);
        self.link = after.then(&text);
        self.next_seq += 1;
        let link = self.link;
        self.waiting.push(Write::Append(Append { run: self.run, seq, after, link, text }));
        (Place { seq, link }, entry.event)
    }

    /// Queues a write that belongs to the entry before it.
    pub(crate) fn also(&mut self, write: Write) {
        self.waiting.push(write);
    }

    /// A value as an entry keeps it; a large one goes into a blob in the same batch.
    pub(crate) fn value(&mut self, json: Json) -> Value {
        let json = self.engine.redacted(json);
        let text = json.text();
        if text.len() <= limits::INLINE_BYTES_MAX {
            return Value::Json(json);
        }
        let digest = journal::blob_digest(text);
        let value = Value::Blob { digest: digest.clone(), bytes: text.len() as u64 };
        let (namespace, run) = (self.namespace.clone(), self.run);
        self.waiting.push(Write::Blob { namespace, digest, text: text.to_owned(), run });
        value
    }

    /// Whether everything that was queued is in the store.
    pub(crate) fn is_durable(&self) -> bool {
        self.waiting.is_empty() && self.flight.is_none()
    }

    /// Whether the journal is as long as it may become.
    pub(crate) fn is_full(&self) -> bool {
        self.next_seq >= limits::JOURNAL_ENTRIES_MAX
    }

    /// Sends what waits, and says when everything is durable. Pending, too, when nothing waits.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Stopped>> {
        loop {
            if let Some(flight) = &mut self.flight {
                let landed = ready!(flight.poll_unpin(context));
                self.flight = None;
                if landed.is_err() || self.waiting.is_empty() {
                    return Poll::Ready(landed);
                }
            }
            if self.waiting.is_empty() {
                return Poll::Pending;
            }
            let writes = std::mem::take(&mut self.waiting);
            let engine = self.engine.clone();
            let batch = Batch { writes: writes.into() };
            self.flight = Some(async move { engine.commit_firmly(batch).await }.boxed());
        }
    }

    /// Waits until everything is durable.
    pub(crate) async fn flush(&mut self) -> Result<(), Stopped> {
        if self.is_durable() {
            return Ok(());
        }
        std::future::poll_fn(|context| self.poll(context)).await
    }

    /// Takes what waits, to be committed together with the end of the run.
    pub(crate) async fn take_waiting(&mut self) -> Result<Vec<Write>, Stopped> {
        if let Some(flight) = self.flight.take() {
            flight.await?;
        }
        Ok(std::mem::take(&mut self.waiting))
    }
}

impl Engine {
    /// The value that an entry keeps, or refers to.
    pub async fn read_value(&self, namespace: &str, value: &Value) -> Result<Json, Error> {
        match value {
            Value::Json(json) => Ok(json.clone()),
            Value::Blob { digest, .. } => {
                let text = self.store().blob(namespace, digest).await?;
                let missing = || {
                    let text = format!("the large value {digest} is missing");
                    Error::from(semel_store::StoreError::Corrupt(text))
                };
                let text = text.filter(|text| journal::blob_digest(text) == *digest);
                Ok(Json::stored(text.ok_or_else(missing)?)?)
            }
        }
    }
}
