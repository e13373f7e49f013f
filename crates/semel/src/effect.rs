//! Declaring and calling one effect.

mod blocking;
mod observed;
mod shape;

use std::future::Future;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use semel_core::contract::Declared;
use semel_core::declare::Allowed;
use semel_core::effect::Abort;
use semel_core::effect::approve::Ask;
use semel_core::fingerprint::Rule;
use semel_core::gate::Rate;
use semel_core::json::Json;
use semel_core::key::{IntoKey, Key};
use semel_core::limits;
use semel_core::record::Contract;
use semel_core::retry::Retry;
use semel_core::run::course::check_step_name;
use semel_engine::{Call, Doer, Error, Executor, Intent, Looked, OnDoubt, Port, Sent, Undo, Work};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::context::typed;
use crate::{Approval, Code, Failure, Semel, evidence, millis};

type LookFn = Box<dyn Fn(Intent) -> futures::BoxFuture<Looked> + Send + Sync>;

mod futures {
    use std::pin::Pin;

    pub(super) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
}

/// An effect being declared. Nothing happens before [`Effect::call`].
#[must_use = "an effect does nothing until it is called and awaited"]
pub struct Effect<'a> {
    semel: &'a Semel,
    action: String,
    pub(crate) key: Result<Key, Error>,
    pub(crate) input: Result<Json, Error>,
    pub(crate) rule: Rule,
    pub(crate) declared: Declared,
    downstream_key: Option<String>,
    pub(crate) retry: Retry,
    hold_ms: u64,
    pub(crate) workflow: Option<String>,
    pub(crate) look: Option<LookFn>,
    pub(crate) approval: Option<Ask>,
    undo: Option<Result<Undo, Error>>,
    pub(crate) shape: Option<Result<Json, Error>>,
    place: Option<Place>,
    intent: Option<String>,
    allowed: Vec<Allowed>,
    at: &'static Location<'static>,
}

/// Where in a run the effect is called.
struct Place {
    port: Port,
    id: String,
    /// The id is the author's own.
    is_named: bool,
    on_doubt: OnDoubt,
}

impl<'a> Effect<'a> {
    #[track_caller]
    pub(crate) fn new(semel: &'a Semel, action: &str) -> Effect<'a> {
        Effect {
            semel,
            action: action.to_owned(),
            key: Err(Error::new(Code::KeyInvalid, "the effect has no key")),
            input: Ok(Json::null()),
            rule: Rule::All,
            declared: Declared::default(),
            downstream_key: None,
            retry: Retry::default(),
            hold_ms: limits::HOLD_MS,
            workflow: None,
            look: None,
            approval: None,
            undo: None,
            shape: None,
            place: None,
            intent: None,
            allowed: Vec::new(),
            at: Location::caller(),
        }
    }

    #[track_caller]
    pub(crate) fn in_run(semel: &'a Semel, action: &str, port: Port) -> Effect<'a> {
        let id = port.next_id(action);
        let place = Some(Place { port, id, is_named: false, on_doubt: OnDoubt::Wait });
        Effect { place, ..Effect::new(semel, action) }
    }

    /// In a run: what becomes of it when the effect is in doubt. Otherwise it waits for evidence or
    /// a person; `OnDoubt::Continue` hands the code an error with the code `in_doubt`.
    pub fn on_doubt(mut self, on_doubt: OnDoubt) -> Self {
        if let Some(place) = &mut self.place {
            place.on_doubt = on_doubt;
        }
        self
    }

    /// In a run: an id of its own for this step, instead of the action and how many came before.
    pub fn id(mut self, id: &str) -> Self {
        if let Some(place) = &mut self.place {
            id.clone_into(&mut place.id);
            place.is_named = true;
        }
        self
    }

    /// What the business wants by it, in a sentence: for `semel spec` and whoever reviews it.
    pub fn intent(mut self, intent: impl Into<String>) -> Self {
        self.intent = Some(intent.into());
        self
    }

    /// Allows a finding of `semel lint`, such as `SML020`, and says why.
    pub fn allow(mut self, code: &str, reason: &str) -> Self {
        self.allowed.push(Allowed { code: code.to_owned(), reason: reason.to_owned() });
        self
    }

    /// The stable name of this intent: business identifiers, never time, chance, worker, attempt or
    /// a model's output.
    pub fn key(mut self, key: impl IntoKey) -> Self {
        self.key = key.into_key().map_err(Error::from);
        self
    }

    /// What is asked for. The same key with another input is refused.
    pub fn input<T: Serialize + ?Sized>(mut self, input: &T) -> Self {
        self.input = Json::given(input).map_err(Error::from);
        self
    }

    /// Which members of the input count. Leave out what a model words anew each time.
    pub fn fingerprint<S: Into<String>>(mut self, members: impl IntoIterator<Item = S>) -> Self {
        self.rule = Rule::members(members.into_iter().map(Into::into));
        self
    }

    /// What the destination offers. Without one: at most once, and a doubt waits for a person.
    pub fn contract(mut self, contract: Contract) -> Self {
        self.declared.contract = Some(contract);
        self
    }

    /// How long a worker may go without a sign of life (30 s).
    pub fn lease(mut self, lease: Duration) -> Self {
        self.declared.lease_ms = Some(millis(lease));
        self
    }

    /// When one attempt is aborted at the latest (60 s).
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.declared.deadline_ms = Some(millis(deadline));
        self
    }

    /// How long a request may still take effect after its attempt ended (2 min).
    pub fn settle_window(mut self, window: Duration) -> Self {
        self.declared.settle_ms = Some(millis(window));
        self
    }

    /// For how long a repeat gets the receipt (30 days).
    pub fn replay_window(mut self, window: Duration) -> Self {
        self.declared.window_ms = Some(millis(window));
        self
    }

    /// How often and how long to try again.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// Limits this action to `count` sends in any window of `per`, across all processes, whoever
    /// sends. Looks and replays are free. Callers over the limit wait; runs are parked.
    pub fn rate(mut self, count: u32, per: Duration) -> Self {
        self.declared.rate = Some(Rate { count, per_ms: millis(per) });
        self
    }

    /// How long a duplicate waits for the first to finish (25 s).
    pub fn hold(mut self, hold: Duration) -> Self {
        self.hold_ms = millis(hold);
        self
    }

    /// The key to pass to the provider, instead of the derived one.
    pub fn downstream_key(mut self, key: impl Into<String>) -> Self {
        self.downstream_key = Some(key.into());
        self
    }

    /// The workflow that asks, for the record.
    pub fn workflow(mut self, name: impl Into<String>) -> Self {
        self.workflow = Some(name.into());
        self
    }

    /// In a run: what takes this effect back, should the run fail or be cancelled. The undo is an
    /// effect of its own, declared by [`crate::Context::undo`]: its own key, contract and doubt.
    /// Its code gets the receipt of what it takes back. Undos run in reverse order, once nothing of
    /// the run is under way or in doubt, and only for what this very run has done.
    pub fn compensate_with<R, T, F, Fut>(mut self, undo: Effect<'_>, send: F) -> Self
    where
        R: DeserializeOwned + Send + 'static,
        T: Serialize,
        F: Fn(Intent, R) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        let send = Arc::new(send);
        let send: SendFn = Box::new(move |intent| {
            let send = send.clone();
            Box::pin(async move {
                match intent.input_as::<Taken<R>>() {
                    Ok(Taken { receipt: given }) => {
                        let sent = evidence::attempt(send(intent, given)).await;
                        sent.map_or_else(Failure::into_sent, |value| receipt(&value))
                    }
                    Err(error) => Sent::Refused(error.detail().to_owned()),
                }
            })
        });
        let send = self.watch_undo(&undo, std::any::type_name::<T>(), send);
        let doer = Arc::new(Doer {
            send,
            look: undo.look,
            abort: Abort::Possible,
            executor: Executor::Task,
        });
        let address = undo.key.and_then(|key| undo.semel.address(&undo.action, key));
        self.undo = Some(address.and_then(|address| {
            let call = Call {
                address,
                input: undo.input?,
                rule: undo.rule,
                declared: undo.declared,
                downstream_key: undo.downstream_key,
                retry: undo.retry,
                hold_ms: undo.hold_ms,
                workflow: None,
                run: None,
                approval: undo.approval,
                undoes: None,
                derived: None,
                shape: undo.shape.transpose()?,
                guard: None,
            };
            Ok(Undo { call: Box::new(call), doer, receipt_as: "receipt".to_owned() })
        }));
        self
    }

    /// A person decides on exactly this before it is sent. Outside a run the call is refused with
    /// `held` until then; a run waits. A no is an error with its code.
    pub fn approval(mut self, approval: Approval) -> Self {
        self.approval = Some(approval.ask);
        self
    }

    /// The run and the step that this is.
    pub(crate) fn place_name(&self) -> (String, String) {
        let place = self.place.as_ref().expect("only a run asks");
        (place.port.facts().run_id.clone(), place.id.clone())
    }

    /// How to find out whether it happened: returns every object found under our reference.
    pub fn look<T, F, Fut>(mut self, look: F) -> Self
    where
        T: Serialize,
        F: Fn(Intent) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Vec<T>, Failure>> + Send + 'static,
    {
        self.look = Some(look_fn(look));
        self
    }

    /// Performs the effect, or returns the first receipt. Dropping the future detaches from the
    /// attempt and never cuts it.
    pub async fn call<T, F, Fut>(mut self, send: F) -> Result<T, Error>
    where
        T: Serialize + DeserializeOwned,
        F: Fn(Intent) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        let send = self.watch(std::any::type_name::<T>(), send_fn(send));
        let look = self.look.take();
        self.perform(Doer { send, look, abort: Abort::Possible, executor: Executor::Task }).await
    }

    /// Like [`Effect::call`], for code that blocks its thread. It cannot be aborted: beyond its
    /// deadline it stays open and is listed as overdue.
    pub async fn call_blocking<T, F>(mut self, send: F) -> Result<T, Error>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        F: Fn(Intent) -> Result<T, Failure> + Send + Sync + 'static,
    {
        let send = self.watch(std::any::type_name::<T>(), blocking::send_fn(send));
        let look = self.look.take().map(blocking::look_fn);
        let doer = Doer { send, look, abort: Abort::Impossible, executor: blocking::threads() };
        self.perform(doer).await
    }

    async fn perform<T: DeserializeOwned>(self, doer: Doer) -> Result<T, Error> {
        let engine = self.semel.engine.clone();
        let doer = Arc::new(doer);
        let mut call = Call {
            address: self.semel.address(&self.action, self.key?)?,
            input: self.input?,
            rule: self.rule,
            declared: self.declared,
            downstream_key: self.downstream_key,
            retry: self.retry,
            hold_ms: self.hold_ms,
            workflow: self.workflow,
            run: None,
            approval: self.approval,
            undoes: None,
            derived: None,
            shape: self.shape.transpose()?,
            guard: None,
        };
        let Some(Place { port, id, is_named, on_doubt }) = self.place else {
            return read_receipt(&engine.call(call, doer).await?);
        };
        if is_named {
            check_step_name(&id)?;
        }
        drop(engine);
        call.workflow = Some(port.facts().workflow.clone());
        call.run = Some(port.facts().run_id.clone());
        let what = format!("effect {}", call.address);
        let undo = self.undo.transpose()?;
        let work = Work::Effect { call: Box::new(call), doer, on_doubt, undo };
        let receipt = typed(&port, port.command(id, what, work)).await?;
        Ok(receipt.expect("an effect has a receipt"))
    }
}

/// What the code of an undo is sent with.
#[derive(serde::Deserialize)]
struct Taken<R> {
    receipt: R,
}

pub(crate) type SendFn = Box<dyn Fn(Intent) -> futures::BoxFuture<Sent> + Send + Sync>;

pub(crate) fn send_fn<T, F, Fut>(send: F) -> SendFn
where
    T: Serialize,
    F: Fn(Intent) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<T, Failure>> + Send + 'static,
{
    Box::new(move |intent| {
        let sent = send(intent);
        let sent = evidence::attempt(sent);
        Box::pin(async move { sent.await.map_or_else(Failure::into_sent, |value| receipt(&value)) })
    })
}

pub(crate) fn look_fn<T, F, Fut>(look: F) -> LookFn
where
    T: Serialize,
    F: Fn(Intent) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Vec<T>, Failure>> + Send + 'static,
{
    Box::new(move |intent| {
        let looked = look(intent);
        Box::pin(async move {
            match looked.await {
                Ok(hits) => found(&hits),
                Err(failure) => Looked::Unknown(failure.reason),
            }
        })
    })
}

fn found<T: Serialize>(hits: &[T]) -> Looked {
    let hits: Result<Vec<Json>, _> = hits.iter().map(Json::of).collect();
    match hits {
        Ok(mut hits) if !hits.is_empty() => {
            let first = hits.remove(0);
            Looked::Found(first, hits)
        }
        Ok(_) => Looked::Absent,
        Err(error) => Looked::Unknown(error.to_string()),
    }
}

/// A value that cannot be stored is no proof that nothing happened.
fn receipt<T: Serialize>(value: &T) -> Sent {
    match Json::given(value) {
        Ok(receipt) => Sent::Receipt(receipt),
        Err(error) => Sent::Unknown(format!("the receipt cannot be stored: {error}")),
    }
}

pub(crate) fn read_receipt<T: DeserializeOwned>(receipt: &Json) -> Result<T, Error> {
    let unfit = |error| {
        Error::new(Code::ReceiptMismatch, format!("the stored receipt has another shape: {error}"))
    };
    serde_json::from_str(receipt.text()).map_err(unfit)
}
