//! What operators need: probes, counts, traces and lines of talk.

mod collector;
pub(crate) mod health;
mod logs;
pub(crate) mod metrics;
pub(crate) mod traces;

pub use logs::{LogFormat, Otlp, Telemetry, Watching};
pub use metrics::{METRICS, Metric};

use semel_core::access::Permission;

use crate::app::App;
use crate::openapi::{Object, Operation};
use crate::route::{Access, Route};

const METRICS_PATH: &str = "/metrics";

pub(crate) fn routes() -> Vec<Route> {
    let answers = &[(200, "all is well"), (503, "it is not: `checks` says what")];
    vec![
        Route::get(
            "/healthz",
            Access::Open,
            Operation::new("health", "Whether the engine works; fails when a loop hangs")
                .answers(answers)
                .returns::<Object>()
                .probe(),
            health::alive,
        ),
        Route::get(
            "/readyz",
            Access::Open,
            Operation::new("readiness", "Whether the store answers and requests are taken")
                .answers(answers)
                .returns::<Object>()
                .probe(),
            health::ready,
        ),
        // A permission that every role has: whoever is known may watch.
        Route::get(
            METRICS_PATH,
            Access::Needs(Permission::Follow),
            Operation::new("metrics", "Counts for Prometheus").kind(metrics::KIND).probe(),
            metrics::show,
        ),
    ]
}

/// Who may use a route here: the settings may open the metrics to scrapers without a token.
pub(crate) fn access(app: &App, route: &Route) -> Access {
    let is_opened = route.path == METRICS_PATH && !app.settings.metrics_token_required;
    if is_opened { Access::Open } else { route.access }
}
