//! Code registered for an action: it attends to due effects that no caller waits for.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use semel_core::effect::Abort;
use semel_core::key::Action;
use semel_core::record::Contract;
use semel_core::retry::Retry;
use semel_engine::{Doer, Error, Executor, Intent, Planning};
use serde::Serialize;

use crate::effect::{Effect, send_fn};
use crate::{Approval, Failure, Semel};

/// A handler being declared. Nothing happens before [`Handler::register`].
#[must_use = "a handler does nothing until it is registered"]
pub struct Handler<'a> {
    semel: &'a Semel,
    action: String,
    effect: Effect<'a>,
}

impl<'a> Handler<'a> {
    pub(crate) fn new(semel: &'a Semel, action: &str) -> Handler<'a> {
        Handler { semel, action: action.to_owned(), effect: Effect::new(semel, action) }
    }

    /// The contract under which the effects of this action are called.
    pub fn contract(mut self, contract: Contract) -> Self {
        self.effect = self.effect.contract(contract);
        self
    }

    /// How often and how long to try again.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.effect = self.effect.retry(retry);
        self
    }

    /// Limits this action to `count` sends in any window of `per`, across all processes. Effects
    /// over the limit are left until their turn.
    pub fn rate(mut self, count: u32, per: Duration) -> Self {
        self.effect = self.effect.rate(count, per);
        self
    }

    /// A person decides before the first send, also for intents from an outbox.
    pub fn approval(mut self, approval: Approval) -> Self {
        self.effect = self.effect.approval(approval);
        self
    }

    /// The members of the input that make the intent, for intents from an outbox. Default: all.
    pub fn fingerprint<S: Into<String>>(mut self, members: impl IntoIterator<Item = S>) -> Self {
        self.effect = self.effect.fingerprint(members);
        self
    }

    /// What the receipt looks like, as JSON Schema, for intents from an outbox: see
    /// [`Effect::receipt_shape`].
    pub fn receipt_shape<T: Serialize + ?Sized>(mut self, schema: &T) -> Self {
        self.effect = self.effect.receipt_shape(schema);
        self
    }

    /// How to find out whether it happened.
    pub fn look<T, F, Fut>(mut self, look: F) -> Self
    where
        T: Serialize,
        F: Fn(Intent) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Vec<T>, Failure>> + Send + 'static,
    {
        self.effect = self.effect.look(look);
        self
    }

    /// Registers the code. It gets the intent with the stored input.
    pub fn register<T, F, Fut>(self, send: F) -> Result<(), Error>
    where
        T: Serialize,
        F: Fn(Intent) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        let action = Action::new(&self.action)?;
        let doer = Doer {
            send: send_fn(send),
            look: self.effect.look,
            abort: Abort::Possible,
            executor: Executor::Task,
        };
        let handler = semel_engine::Handler {
            doer: Arc::new(doer),
            declared: self.effect.declared,
            retry: self.effect.retry,
            planning: Planning {
                rule: self.effect.rule,
                approval: self.effect.approval,
                shape: self.effect.shape.transpose()?,
                only_by_call: None,
            },
        };
        self.semel.engine.handle(self.semel.namespace.clone(), action, handler);
        Ok(())
    }
}
