//! Steps: plain work whose value is recorded once.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;

use semel_core::json::Json;
use semel_core::retry::Retry;
use semel_core::retry::Trouble;
use semel_core::run::course::check_step_name;
use semel_engine::{Executor, Exhausted, Port, StepFault, StepFn, Work};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Context, read_on};
use crate::observe::StepNote;
use crate::{Error, Failure};

/// A step being declared. Awaiting it runs it, or returns what it came to before.
#[must_use = "a step does nothing until it is awaited"]
pub struct Step<T> {
    port: Port,
    id: String,
    name: String,
    request: Option<Result<String, Error>>,
    run: StepFn,
    retry: Retry,
    exhausted: Exhausted,
    note: Option<StepNote>,
    value: std::marker::PhantomData<fn() -> T>,
}

impl<T> Step<T> {
    #[track_caller]
    pub(super) fn new(
        ctx: &Context,
        name: &str,
        request: Option<Result<String, Error>>,
        run: StepFn,
    ) -> Step<T> {
        // Given here, not when it is awaited: so the order of the code decides, not that of polls.
        let id = ctx.port.next_id(name);
        let note = ctx
            .semel
            .observer()
            .map(|observer| StepNote::new(observer, ctx.port.facts(), name, request.is_some()));
        Step {
            port: ctx.port.clone(),
            id,
            name: name.to_owned(),
            request,
            run,
            retry: Retry::default(),
            exhausted: Exhausted::Pause,
            note,
            value: std::marker::PhantomData,
        }
    }

    /// An id of its own, instead of its name and how many of that name came before.
    pub fn id(mut self, id: &str) -> Self {
        id.clone_into(&mut self.id);
        self.name = id.to_owned();
        self
    }

    /// How often and how long to try again.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// When the retries are used up, the code gets the error; otherwise the run pauses and an
    /// operator decides.
    pub fn or_fail(mut self) -> Self {
        self.exhausted = Exhausted::Fail;
        self
    }
}

impl<T: DeserializeOwned + Send + 'static> IntoFuture for Step<T> {
    type Output = Result<T, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            check_step_name(&self.name)?;
            let work = Work::Step {
                run: self.run,
                executor: Executor::Task,
                retry: self.retry,
                exhausted: self.exhausted,
            };
            let command = match self.request {
                None => self.port.command(self.id, "step".to_owned(), work),
                Some(request) => self.port.model(self.id, request?, work),
            };
            let id = command.id().to_owned();
            let value = command.await?.expect("a step has a value");
            if let Some(note) = self.note {
                note.came_to(&self.retry, &value);
            }
            read_on(&self.port, id, &value)
        })
    }
}

pub(super) fn step_fn<T, F, Fut>(run: F) -> StepFn
where
    T: Serialize + Send,
    F: Fn() -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<T, Failure>> + Send + 'static,
{
    Arc::new(move |_attempt| {
        let ran = run();
        Box::pin(async move {
            let value = ran.await.map_err(|failure| StepFault {
                trouble: if failure.is_final() { Trouble::Final } else { Trouble::Passing },
                detail: failure.reason().to_owned(),
                raised: None,
            })?;
            let unfit = |error: semel_core::json::JsonInvalid| StepFault {
                detail: format!("the value cannot be stored: {error}"),
                trouble: Trouble::Final,
                raised: None,
            };
            Json::given(&value).map_err(unfit)
        })
    })
}
