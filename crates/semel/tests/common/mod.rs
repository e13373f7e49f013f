//! What the tests of the SDK share: a ledger in a real file, and a count of what happened outside.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use semel::{Code, Error, Failure, Retry, Semel};
use semel_core::effect::State;
use semel_core::wire::{EffectView, effect_view};

pub(crate) use crate::ledger::Ledger;

pub(crate) async fn state(semel: &Semel, action: &str, key: &str) -> State {
    let effect = semel.find(action, key).await.expect("read").expect("it exists");
    effect.state(&semel.engine().store().ground().now)
}

pub(crate) async fn view(semel: &Semel, action: &str, key: &str) -> EffectView {
    let effect = semel.find(action, key).await.expect("read").expect("it exists");
    effect_view(&effect, &semel.engine().store().ground().now)
}

/// Tries again quickly.
pub(crate) const QUICK: Retry =
    Retry { attempts_max: 4, total_ms: 60_000, delay_ms: 1, delay_ms_max: 2 };

/// A third party without any memory: whoever calls it gets one more thing.
#[derive(Clone, Default)]
pub(crate) struct Outside {
    made: Arc<AtomicU32>,
}

impl Outside {
    pub(crate) fn made(&self) -> u32 {
        self.made.load(Ordering::SeqCst)
    }

    /// Makes one more and returns its id.
    pub(crate) fn make(&self) -> String {
        format!("T-{}", self.made.fetch_add(1, Ordering::SeqCst) + 1)
    }

    /// Calls it under a key as plainly as one can.
    pub(crate) async fn call(&self, semel: &Semel, key: &str) -> Result<String, Error> {
        let outside = self.clone();
        let make = move |_| {
            let made = outside.make();
            async move { Ok::<_, Failure>(made) }
        };
        semel.effect("ticket").key(key).call(make).await
    }
}

pub(crate) fn code<T: std::fmt::Debug>(answer: Result<T, Error>) -> Code {
    answer.expect_err("refused").code()
}
