//! The routes, one file for each noun.

mod approvals;
mod audit;
mod callbacks;
mod capabilities;
mod describe;
mod effects;
mod gate;
mod links;
mod releases;
mod runs;
mod schedules;
mod steer;
mod tokens;

use crate::route::Route;

pub(crate) use effects::{check_newest, find as find_effect};
pub(crate) use runs::{find as find_run, viewed as run_viewed};

/// Every route there is.
pub(crate) fn routes() -> Vec<Route> {
    [
        effects::routes(),
        gate::routes(),
        runs::routes(),
        steer::routes(),
        approvals::routes(),
        links::routes(),
        callbacks::routes(),
        releases::routes(),
        schedules::routes(),
        tokens::routes(),
        audit::routes(),
        capabilities::routes(),
        describe::routes(),
        crate::worker::routes(),
        crate::hooks::routes(),
        crate::operate::routes(),
        crate::pages::routes(),
    ]
    .concat()
}
