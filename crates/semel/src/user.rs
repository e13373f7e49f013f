//! Waiting for what a person says.

use std::future::IntoFuture;
use std::pin::Pin;
use std::time::{Duration, SystemTime};

use semel_core::json::Json;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::context::read_on;
use crate::{Code, Context, Error};

/// A wait for a person's answer. It comes as a signal of this name; `semel runs show` shows what is
/// asked.
#[must_use = "a wait does nothing until it is awaited"]
pub struct UserWait<'a, T> {
    context: &'a Context,
    name: String,
    prompt: String,
    choices: Vec<String>,
    timeout: Option<Duration>,
    value: std::marker::PhantomData<fn() -> T>,
}

impl<'a, T> UserWait<'a, T> {
    pub(crate) fn new(context: &'a Context, name: &str, prompt: &str) -> UserWait<'a, T> {
        UserWait {
            context,
            name: name.to_owned(),
            prompt: prompt.to_owned(),
            choices: Vec::new(),
            timeout: None,
            value: std::marker::PhantomData,
        }
    }

    /// What may be said. Anything else is passed over, and the wait goes on.
    pub fn choices<S: Into<String>>(mut self, choices: impl IntoIterator<Item = S>) -> Self {
        self.choices = choices.into_iter().map(Into::into).collect();
        self
    }

    /// For how long; then the code gets an error with the code `timed_out`.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    fn note(&self) -> Result<Json, Error> {
        let mut note = json!({ "prompt": self.prompt });
        if !self.choices.is_empty() {
            note["choices"] = json!(self.choices);
        }
        Ok(Json::given(&note)?)
    }

    fn is_choice(&self, payload: &Json) -> bool {
        let said = serde_json::from_str::<String>(payload.text());
        self.choices.is_empty() || said.is_ok_and(|said| self.choices.contains(&said))
    }

    /// What is left by the clock of the run, which is the same in every replay.
    fn left(&self, since: SystemTime) -> Option<Duration> {
        let gone = self.context.now().duration_since(since).unwrap_or_default();
        self.timeout.map(|timeout| timeout.saturating_sub(gone))
    }

    async fn answer(self) -> Result<T, Error>
    where
        T: DeserializeOwned,
    {
        let note = self.note()?;
        let since = self.context.now();
        loop {
            let wait = self.context.wait_noted(&self.name, self.left(since), note.clone())?;
            let id = wait.id().to_owned();
            let Some(payload) = wait.await? else {
                let text = format!("nobody answered `{}` in time", self.name);
                return Err(Error::new(Code::TimedOut, text));
            };
            if self.is_choice(&payload) {
                return read_on(self.context.port(), id, &payload);
            }
        }
    }
}

impl<'a, T: DeserializeOwned + 'static> IntoFuture for UserWait<'a, T> {
    type Output = Result<T, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.answer())
    }
}
