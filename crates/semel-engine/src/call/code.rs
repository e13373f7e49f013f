//! The user's code for an effect: what it is given, and what it says of itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::BoxFuture;
use semel_core::code::Code;
use semel_core::effect::{Abort, Permit};
use semel_core::json::Json;
use semel_core::key::Address;

use crate::Error;
use crate::clearance::{Clearance, Executor};
use crate::effects::Armed;

/// The user's code for one action.
pub struct Doer {
    pub send: Box<dyn Fn(Intent) -> BoxFuture<'static, Sent> + Send + Sync>,
    pub look: Option<Box<dyn Fn(Intent) -> BoxFuture<'static, Looked> + Send + Sync>>,
    pub abort: Abort,
    pub executor: Executor,
}

/// What a send says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sent {
    Receipt(Json),
    /// Proof that nothing happened; it may be tried again.
    NotApplied(String),
    /// Proof that nothing happened, and nothing will.
    Refused(String),
    Unknown(String),
    /// A programming error: the same code is not tried again by itself.
    Faulty(String, Reached),
}

/// Whether anything of an attempt can have reached its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    Nothing,
    Perhaps,
}

/// What a look found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Looked {
    Found(Json, Vec<Json>),
    Absent,
    Unknown(String),
    /// A programming error: the same code is not asked again by itself.
    Faulty(String),
}

/// What user code gets to see: the intent it carries out, and the key to pass on.
#[derive(Clone, Debug)]
pub struct Intent {
    permit: Arc<Permit>,
    address: Arc<Address>,
    pub(super) key_used: Arc<AtomicBool>,
    clearance: Clearance,
}

impl Intent {
    pub(super) fn new(armed: &Armed, clearance: Clearance) -> Intent {
        Intent {
            permit: Arc::new(armed.permit.clone()),
            address: Arc::new(armed.effect.address.clone()),
            key_used: Arc::new(AtomicBool::new(false)),
            clearance,
        }
    }

    /// The right to begin, which an executor that is not the engine's own task asks for.
    pub fn clearance(&self) -> &Clearance {
        &self.clearance
    }

    /// The key for the provider, the same in every attempt. Reading it counts as passing it on.
    pub fn downstream_key(&self) -> &str {
        self.key_used.store(true, Ordering::Relaxed);
        &self.permit.downstream_key
    }

    /// Whether this text is the key for the provider. If so it counts as passed on: a caller that
    /// asks is about to send it.
    pub fn is_downstream_key(&self, text: &str) -> bool {
        let is_same = self.permit.downstream_key == text;
        if is_same {
            self.key_used.store(true, Ordering::Relaxed);
        }
        is_same
    }

    /// Whether the code has read the key for the provider in this attempt.
    pub fn has_used_key(&self) -> bool {
        self.key_used.load(Ordering::Relaxed)
    }

    /// The input to send: the first one of this intent, whatever this caller brought.
    pub fn input(&self) -> &Json {
        &self.permit.input
    }

    /// The input as a type.
    pub fn input_as<T: serde::de::DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_str(self.input().text())
            .map_err(|error| Error::new(Code::InputInvalid, format!("the stored input: {error}")))
    }

    /// Which effect this is.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Which attempt this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.permit.attempt
    }

    /// The fence of this attempt.
    pub fn fence(&self) -> u64 {
        self.permit.fence
    }
}
