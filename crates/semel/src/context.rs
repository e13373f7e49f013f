//! What the code of a workflow works with. Everything it does outside goes through here, is
//! recorded, and is answered from the record when the run is replayed.

mod callback;
mod child;
mod entity;
mod step;

pub use callback::Callback;
pub use child::Child;
pub use entity::Entity;
pub use step::Step;

use std::future::Future;
use std::time::{Duration, SystemTime};

use futures_util::future::{join_all, select_all};
use futures_util::stream::{self, StreamExt};
use semel_core::journal::CALLBACK;
use semel_core::json::Json;
use semel_core::limits;
use semel_core::run::course::{check_delivery_name, check_step_name};
use semel_core::time::format_duration_ms;
use semel_engine::{Pending, Port, Work};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Code, Effect, Error, Failure, Question, Semel, Start, UserWait, millis};
use step::step_fn;

/// A run, as its own code sees it. Cheap to clone.
///
/// The code may wait for what this offers and for nothing else: sockets, timers, threads and spawns
/// belong into steps. What it does must follow from its input and from what steps returned.
#[derive(Clone)]
pub struct Context {
    port: Port,
    semel: Semel,
}

impl Context {
    pub(crate) fn new(port: Port, semel: Semel) -> Context {
        Context { port, semel }
    }

    /// Plain work whose value is recorded once. It may run again before that: what must happen once
    /// outside is an [`Context::effect`].
    #[track_caller]
    pub fn step<T, F, Fut>(&self, name: &str, run: F) -> Step<T>
    where
        T: Serialize + DeserializeOwned + Send,
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        Step::new(self, name, None, step_fn(run))
    }

    /// A call of a model: a step whose answer is shared by all calls of this run with the same
    /// request (model, parameters, tools, messages).
    #[track_caller]
    pub fn model<T, R, F, Fut>(&self, name: &str, request: &R, run: F) -> Step<T>
    where
        T: Serialize + DeserializeOwned + Send,
        R: Serialize + ?Sized,
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        let request = Json::of(request).map(|json| request_digest(&json)).map_err(Error::from);
        Step::new(self, name, Some(request), step_fn(run))
    }

    /// Declares one effect of this run: the same row of the ledger as when it is called alone.
    #[track_caller]
    pub fn effect(&self, action: &str) -> Effect<'_> {
        Effect::in_run(&self.semel, action, self.port.clone())
    }

    /// Declares what takes an effect back, for [`Effect::compensate_with`].
    #[track_caller]
    pub fn undo(&self, action: &str) -> Effect<'_> {
        Effect::new(&self.semel, action)
    }

    /// Declares a run of a workflow that this run starts and waits for. Without a key of its own it
    /// is named by this run and its place in it, so it is the same child after a restart. It ends
    /// before this run does: with the cancel, the failure or the deadline of this run it is ended.
    pub fn child(&self, workflow: &str) -> Child<'_> {
        let id = self.port.next_id(workflow);
        if let Some(observer) = self.semel.observer() {
            observer.note_child(&self.port.facts().workflow, workflow);
        }
        Child { port: self.port.clone(), id, start: Start::new(&self.semel, workflow) }
    }

    /// Waits until this run alone may act on an entity, such as `ticket:42`, and holds it until it
    /// leaves or ends, over restarts too. The key of an effect says whether it was done before;
    /// this says who may act.
    pub async fn entity(&self, name: &str) -> Result<Entity, Error> {
        check_delivery_name(name)?;
        let id = self.port.next_id(&format!("entity {name}"));
        let (name, what) = (name.to_owned(), format!("entity {name}"));
        let work = Work::Enter { name: name.clone() };
        let fence = self.port.command(id.clone(), what, work).await?;
        let fence = read(&fence.expect("a grant has a fence"))?;
        Ok(Entity { port: self.port.clone(), id, name, fence })
    }

    /// A token by which somebody outside answers once, such as an agent that reports back: give it
    /// away by an effect, then wait for the answer.
    pub async fn callback(&self, name: &str) -> Result<Callback, Error> {
        check_step_name(name)?;
        let id = self.port.next_id(name);
        let token = self.port.command(id.clone(), CALLBACK.to_owned(), Work::Callback).await?;
        let token = read(&token.expect("a callback has a token"))?;
        Ok(Callback { port: self.port.clone(), id, token })
    }

    /// Waits, for as long as it takes: the run is parked meanwhile.
    pub async fn sleep(&self, duration: Duration) -> Result<(), Error> {
        let id = self.port.next_id("sleep");
        let ms = bounded(duration)?;
        let what = format!("sleep {}", format_duration_ms(ms));
        self.port.command(id, what, Work::Sleep { ms }).await.map(|_| ())
    }

    /// Waits for a signal of this name. One that came early is there at once; each is taken once.
    pub async fn wait_for_signal<T: DeserializeOwned>(&self, name: &str) -> Result<T, Error> {
        let payload = typed(&self.port, self.wait(name, None)).await?;
        Ok(payload.expect("only a timeout gives nothing"))
    }

    /// Waits for a signal up to a time; `None` when none came.
    pub async fn wait_for_signal_within<T: DeserializeOwned>(
        &self,
        name: &str,
        timeout: Duration,
    ) -> Result<Option<T>, Error> {
        typed(&self.port, self.wait(name, Some(bounded(timeout)?))).await
    }

    /// Asks a person for their word, with nothing to send. Who, when and what they said comes back;
    /// a no is an error with its code.
    #[track_caller]
    pub fn approve<T: Serialize + ?Sized>(&self, name: &str, payload: &T) -> Question<'_> {
        Question::new(self.effect(name).input(payload))
    }

    /// Waits for what a person says: it is sent as a signal of this name.
    pub fn wait_for_user<T>(&self, name: &str, prompt: &str) -> UserWait<'_, T> {
        UserWait::new(self, name, prompt)
    }

    pub(crate) fn port(&self) -> &Port {
        &self.port
    }

    fn wait(&self, name: &str, timeout_ms: Option<u64>) -> Pending {
        self.wait_saying(name, timeout_ms, None)
    }

    pub(crate) fn wait_noted(
        &self,
        name: &str,
        timeout: Option<Duration>,
        note: Json,
    ) -> Result<Pending, Error> {
        Ok(self.wait_saying(name, timeout.map(bounded).transpose()?, Some(note)))
    }

    fn wait_saying(&self, name: &str, timeout_ms: Option<u64>, note: Option<Json>) -> Pending {
        let id = self.port.next_id(&format!("signal {name}"));
        let name = name.to_owned();
        let what = format!("signal {name}");
        self.port.command(id, what, Work::Wait { name, timeout_ms, note })
    }

    /// Waits for all, at once. The results are in the order of the futures.
    pub async fn gather<F: Future>(&self, futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
        join_all(futures).await
    }

    /// Does the same for every item, at most so many at once. The results are in the order of the
    /// items.
    pub async fn map<I, F, Fut>(&self, items: I, bound: usize, each: F) -> Vec<Fut::Output>
    where
        I: IntoIterator,
        F: FnMut(I::Item) -> Fut,
        Fut: Future,
    {
        stream::iter(items.into_iter().map(each)).buffered(bound.max(1)).collect().await
    }

    /// Waits for the first to finish: its place and its result. Which one it was is recorded. The
    /// others go on unseen: an effect under way is settled before the run ends.
    pub async fn race<F>(&self, futures: impl IntoIterator<Item = F>) -> (usize, F::Output)
    where
        F: Future + Unpin,
    {
        let (output, place, _) = select_all(futures).await;
        (place, output)
    }

    /// The time of the last thing the run learnt: the same in every replay.
    pub fn now(&self) -> SystemTime {
        let ms = u64::try_from(self.port.now().0).unwrap_or(0);
        SystemTime::UNIX_EPOCH + Duration::from_millis(ms)
    }

    /// A number from zero up to one, the same in every replay.
    pub fn random(&self) -> f64 {
        let bits =
            u64::from_be_bytes(self.port.chance().as_bytes()[8..].try_into().expect("eight"));
        // The two highest bits say that it is a UUID; of the others 53 fit into a float.
        ((bits << 2) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A UUID, the same in every replay.
    pub fn uuid(&self) -> uuid::Uuid {
        self.port.chance()
    }

    /// The id of the run.
    pub fn run_id(&self) -> &str {
        &self.port.facts().run_id
    }

    /// The key under which the run was started.
    pub fn key(&self) -> &str {
        &self.port.facts().key
    }

    /// Whether what the code does now was done before: log nothing twice.
    pub fn is_replaying(&self) -> bool {
        self.port.is_replaying()
    }
}

/// The answer of a command as the code wants it. One that does not fit pauses the run, whatever the
/// code does about the error: it says nothing of what the run came to.
pub(crate) async fn typed<T: DeserializeOwned>(
    port: &Port,
    command: Pending,
) -> Result<Option<T>, Error> {
    let id = command.id().to_owned();
    let Some(value) = command.await? else { return Ok(None) };
    read_on(port, id, &value).map(Some)
}

pub(crate) fn read_on<T: DeserializeOwned>(
    port: &Port,
    id: String,
    value: &Json,
) -> Result<T, Error> {
    read(value).inspect_err(|error: &Error| {
        let told = Error::new(error.code(), format!("{id}: {}", error.detail()));
        port.pause(Some(id), told);
    })
}

fn read<T: DeserializeOwned>(value: &Json) -> Result<T, Error> {
    let unfit =
        |error| Error::new(Code::ReceiptMismatch, format!("the value has another shape: {error}"));
    serde_json::from_str(value.text()).map_err(unfit)
}

/// The same request gives the same digest, whatever the order of its members.
fn request_digest(request: &Json) -> String {
    semel_core::run::input_digest(request)
}

fn bounded(duration: Duration) -> Result<u64, Error> {
    let ms = millis(duration);
    if ms > limits::DURATION_MS_MAX {
        return Err(Error::new(Code::DurationInvalid, "longer than a hundred years"));
    }
    Ok(ms)
}
