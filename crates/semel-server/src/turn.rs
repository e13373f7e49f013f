//! A decision that carries an `Idempotency-Key`: the same request again gets the first answer, and
//! changes nothing. The key is written in the commit that carries the decision out.

use semel_core::fingerprint::{Fingerprint, Rule};
use semel_core::journal::blob_digest;
use semel_engine::{Engine, Error, Identity};

use crate::problem::Problem;
use crate::route::Call;

/// One decision, about to be taken.
pub(crate) struct Turn {
    engine: Engine,
    identity: Option<Identity>,
    /// It was taken before, by the same request.
    pub(crate) is_repeat: bool,
}

impl Turn {
    /// Looks whether this request decided before. The same key with another body is refused.
    pub(crate) async fn of(call: &Call, verb: &str) -> Result<Turn, Problem> {
        let engine = call.app.engine.clone();
        let Some(key) = call.idempotency_key()? else {
            return Ok(Turn { engine, identity: None, is_repeat: false });
        };
        let subject: Vec<_> = call.path.values().map(String::as_str).collect();
        let name = format!("{verb} {} {}", subject.join("/"), key.as_str());
        let request = Fingerprint::of(&call.body, &Rule::All).digest;
        let identity = Identity {
            namespace: call.who.namespace.clone(),
            name: blob_digest(&name),
            request: request.iter().map(|byte| format!("{byte:02x}")).collect(),
        };
        let is_repeat = engine.decided_before(&identity).await?;
        Ok(Turn { engine, identity: Some(identity), is_repeat })
    }

    /// The engine to decide with; none where it was decided before.
    pub(crate) fn engine(&self) -> Option<Engine> {
        if self.is_repeat {
            return None;
        }
        Some(match &self.identity {
            Some(identity) => self.engine.once(identity.clone()),
            None => self.engine.clone(),
        })
    }

    /// Takes what came of it. A twin of this request that was quicker makes it a repeat.
    pub(crate) async fn took<T>(&mut self, decided: Result<T, Error>) -> Result<(), Problem> {
        match (decided, &self.identity) {
            (Ok(_), None) => Ok(()),
            (Ok(_), Some(identity)) => Ok(self.engine.remember(identity).await?),
            (Err(error), None) => Err(error.into()),
            (Err(error), Some(identity)) => {
                self.is_repeat = self.engine.decided_before(identity).await?;
                if self.is_repeat { Ok(()) } else { Err(error.into()) }
            }
        }
    }
}
