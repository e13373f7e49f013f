//! Runs that cannot be taken up: they are left alone for a while, longer each time, and told.

use semel_core::run::{self, Run};
use semel_store::Write;

use crate::commit::Stopped;
use crate::{Engine, Error, measure};

impl Engine {
    /// Leaves a run alone for a while, and says so. `fence` is the one that this process has of it,
    /// or zero. `false`: that could not be written, so the run is as due as before.
    pub(super) async fn set_aside(&self, run: &Run, fence: u64, error: &Error) -> bool {
        let now = self.store().ground().now;
        let Ok(aside) = run::set_aside(run, fence, &error.to_string(), &now) else { return false };
        measure::set_aside("run");
        let pause_ms = aside.wake_at(&now).map_or(0, |at| now.until(at));
        let committed = self.commit(Write::run(&aside, &now).into()).await;
        if let Some(left_out) = self.may_tell("run", &run.namespace) {
            let (run, namespace) = (&run.id, &run.namespace);
            tracing::error!(
                %run, %namespace, %error, pause_ms, left_out,
                "the run cannot be taken up; it is set aside and tried again later"
            );
        }
        // Whoever changed it meanwhile has the last word.
        matches!(committed, Ok(()) | Err(Stopped::Stale(_)))
    }
}
