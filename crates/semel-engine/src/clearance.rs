//! The last question before user code runs: may it still begin?
//!
//! The engine decides, then a message travels, a queue is long, a process is stopped. So the right
//! to begin is asked for by the code that calls the user's function, in the thread or task that is
//! about to run it. It is given once, and never after its time.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use semel_core::time::Steady;

use crate::{Engine, Error, WeakEngine, lock};

/// Something that stands ready to run user code. It is reserved until it is dropped.
pub type Slot = Box<dyn Any + Send>;

type Ready = dyn Fn() -> BoxFuture<'static, Result<Slot, Error>> + Send + Sync;

/// Where user code runs.
#[derive(Clone, Default)]
pub enum Executor {
    /// In the engine's own task, at the poll that calls it: the engine asks for the clearance.
    #[default]
    Task,
    /// In a thread or an event loop of somebody else. It says when one is ready, and asks for the
    /// [`Clearance`] itself, last before the user's code.
    Away(Arc<Ready>),
}

impl Executor {
    /// Waits until something is ready to run user code.
    pub(crate) async fn ready(&self) -> Result<Slot, Error> {
        match self {
            Executor::Task => Ok(Box::new(())),
            Executor::Away(ready) => ready().await,
        }
    }

    /// The same without waiting; `None` when nothing is ready now.
    pub(crate) fn ready_now(&self) -> Option<Result<Slot, Error>> {
        self.ready().now_or_never()
    }

    pub(crate) fn is_away(&self) -> bool {
        matches!(self, Executor::Away(_))
    }
}

/// The right to begin one piece of user code, once. Cheap to clone.
#[derive(Clone)]
pub struct Clearance {
    shared: Arc<Shared>,
}

struct Shared {
    engine: WeakEngine,
    until: Until,
    stage: Mutex<Stage>,
    slot: Mutex<Option<Slot>>,
}

/// When the right ends.
pub(crate) enum Until {
    /// With the permit of an attempt.
    Permit(Steady),
    /// With the lease of a run, which its driver renews.
    Lease(Arc<Mutex<Steady>>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Waiting,
    Begun,
    /// It was asked for too late.
    Late,
    /// Nobody waits for the code any more.
    Withdrawn,
}

impl Clearance {
    pub(crate) fn new(engine: &Engine, until: Until, slot: Slot) -> Clearance {
        let (stage, slot) = (Mutex::new(Stage::Waiting), Mutex::new(Some(slot)));
        let shared = Shared { engine: engine.downgrade(), until, stage, slot };
        Clearance { shared: Arc::new(shared) }
    }

    /// Whether the user's code may begin: asked last before it, by the thread or task that runs it.
    /// Only one caller ever hears yes.
    pub fn begin(&self) -> bool {
        let mut stage = lock(&self.shared.stage);
        if *stage == Stage::Waiting {
            *stage = if self.is_in_time() { Stage::Begun } else { Stage::Late };
            return *stage == Stage::Begun;
        }
        false
    }

    /// Whether code that has begun may still begin to send, after it waited somewhere else.
    pub fn is_in_time(&self) -> bool {
        let Some(engine) = self.shared.engine.upgrade() else { return false };
        let until = match &self.shared.until {
            Until::Permit(until) => *until,
            Until::Lease(until) => *lock(until),
        };
        !engine.store().ground().now.reached(until)
    }

    /// The thread or task that stood ready, to hand it the code or to give it back.
    pub fn take_slot(&self) -> Option<Slot> {
        lock(&self.shared.slot).take()
    }

    /// The code does not begin any more, unless it has. True: it never did, and never will.
    pub(crate) fn withdraw(&self) -> bool {
        let mut stage = lock(&self.shared.stage);
        if *stage == Stage::Waiting {
            *stage = Stage::Withdrawn;
        }
        *stage != Stage::Begun
    }

    /// It was asked for after its time.
    pub(crate) fn was_late(&self) -> bool {
        *lock(&self.shared.stage) == Stage::Late
    }

    pub(crate) fn is_waiting(&self) -> bool {
        *lock(&self.shared.stage) == Stage::Waiting
    }
}

impl fmt::Debug for Clearance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clearance").field(&*lock(&self.shared.stage)).finish()
    }
}
