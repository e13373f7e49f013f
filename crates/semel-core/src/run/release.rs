//! Which code a run goes on with, and which workers may take it.

use super::{Refusal, Run, held, next, open};
use crate::time::Moment;

/// Nobody may go on without the code of its release.
pub fn needs_code(run: &Run, fence: u64) -> Result<Run, Refusal> {
    held(run, fence)?;
    Ok(Run { lease: None, waits: Vec::new(), needs_code: true, ..next(run) })
}

/// The run goes on with another release. Nobody may be at it.
pub fn move_to(run: &Run, release: &str, now: &Moment) -> Result<Run, Refusal> {
    open(run)?;
    if let Some(lease) = &run.lease
        && !now.reached(lease.until)
    {
        return Err(Refusal::Held { until: lease.until });
    }
    let (release, nudged) = (Some(release.to_owned()), run.is_parked());
    Ok(Run { release, lease: None, stranded: None, nudged, ..next(run) })
}

/// Nobody has offered its release for long, and it cannot move: it waits, and says why. `None`: it
/// says so already.
pub fn strand(run: &Run, why: &str) -> Option<Run> {
    (run.ended.is_none() && run.stranded.as_deref() != Some(why)).then(|| Run {
        stranded: Some(why.to_owned()),
        nudged: run.is_parked(),
        ..next(run)
    })
}

impl Run {
    /// Workers ask for runs by this. One that is only to be cancelled needs no code: any worker may
    /// take it, and each namespace has a lane of its own for those.
    pub fn lane(&self) -> String {
        if self.cancel.is_some() && !self.needs_code {
            return codeless_lane(&self.namespace);
        }
        release_lane(&self.namespace, &self.workflow, self.release.as_deref())
    }
}

/// What the runs of one release are asked for by.
pub fn release_lane(namespace: &str, workflow: &str, release: Option<&str>) -> String {
    match release {
        Some(release) => lane(namespace, &format!("{workflow}@{release}")),
        None => lane(namespace, workflow),
    }
}

/// What the runs of one workflow in one namespace are asked for by, as long as they have no
/// release.
pub fn lane(namespace: &str, workflow: &str) -> String {
    format!("{namespace}/{workflow}")
}

/// All lanes of runs that need no code lie between these two, in the order of their namespaces:
/// no namespace is empty, so no other lane begins like them.
pub const CODELESS_LANES: (&str, &str) = ("/", "0");

/// What the runs of one namespace that need no code are asked for by.
pub fn codeless_lane(namespace: &str) -> String {
    format!("/{namespace}")
}

/// Whether the runs of a lane need no code. All namespaces once shared the lane without a name.
pub fn is_codeless(lane: &str) -> bool {
    lane.is_empty() || lane.starts_with('/')
}
