//! The routes, one file for each noun.

mod approvals;
mod audit;
mod callbacks;
mod capabilities;
mod describe;
mod effects;
mod gate;
mod releases;
mod runs;
mod schedules;
mod steer;
mod tokens;

use crate::route::Route;

/// Every route there is.
pub(crate) fn routes() -> Vec<Route> {
    [
        effects::routes(),
        gate::routes(),
        runs::routes(),
        steer::routes(),
        approvals::routes(),
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
    ]
    .concat()
}
