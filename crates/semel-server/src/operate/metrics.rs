//! `/metrics`. What the engine and the store count is taken up by a recorder; what is a state, not
//! a count, is looked up when somebody asks, in bounded reads, at most once a second.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use metrics::{counter, gauge, histogram};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use semel_core::code::Code;
use semel_store::Tally;
use tokio::sync::Mutex;

use crate::app::App;
use crate::problem::Problem;
use crate::route::{Call, Reply, Route};

pub(crate) const KIND: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A count for whoever watches.
pub struct Metric {
    pub name: &'static str,
    pub kind: Kind,
    pub labels: &'static [&'static str],
    pub meaning: &'static str,
    /// When somebody should be called, as PromQL; empty: nobody for this alone.
    pub alert: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
}

const fn metric(
    name: &'static str,
    kind: Kind,
    labels: &'static [&'static str],
    meaning: &'static str,
    alert: &'static str,
) -> Metric {
    Metric { name, kind, labels, meaning, alert }
}

/// Every one there is. Labels are words of ours: never a key, a namespace or a name.
#[rustfmt::skip]
pub const METRICS: &[Metric] = &[
    metric("semel_effects_total", Kind::Counter, &["kind", "outcome"],
        "Effects that came to something in this process, by contract and outcome",
        r#"rate(semel_effects_total{outcome="in_doubt"}[5m]) > 0.1"#),
    metric("semel_effects_in_doubt", Kind::Gauge, &[],
        "Effects of which nobody knows whether they happened; counted up to 10000",
        r#"semel_effects_in_doubt > 0"#),
    metric("semel_oldest_in_doubt_seconds", Kind::Gauge, &[],
        "How long ago the oldest of them was planned; 0 when there is none",
        r#"semel_oldest_in_doubt_seconds > 3600"#),
    metric("semel_duplicates_suppressed_total", Kind::Counter, &["door"],
        "Repeats that were answered with what was there, by where they came from",
        r#"rate(semel_duplicates_suppressed_total[5m]) > 1"#),
    metric("semel_effect_duration_seconds", Kind::Histogram, &["kind"],
        "How long attempts took, from permit to record",
        r#"histogram_quantile(0.99, rate(semel_effect_duration_seconds_bucket[5m])) > 30"#),
    metric("semel_model_calls_total", Kind::Counter, &[],
        "Requests to models that were made",
        r#"rate(semel_model_calls_total[5m]) > 3 * rate(semel_model_calls_total[1d])"#),
    metric("semel_model_replays_total", Kind::Counter, &[],
        "Requests to models that were answered from the journal, and not paid again",
        r#""#),
    metric("semel_set_aside_total", Kind::Counter, &["what"],
        "Runs and schedules that could not be taken up and are tried again later",
        r#"increase(semel_set_aside_total[10m]) > 0"#),
    metric("semel_unreadable_rows_total", Kind::Counter, &["what"],
        "Rows that cannot be read, each time that a look for work passes one over",
        r#"increase(semel_unreadable_rows_total[10m]) > 0"#),
    metric("semel_store_commit_seconds", Kind::Histogram, &["store"],
        "From the hand-over of a batch until it is durable",
        r#"histogram_quantile(0.99, rate(semel_store_commit_seconds_bucket[5m])) > 0.5"#),
    metric("semel_effects_alarmed", Kind::Gauge, &[],
        "Effects with an alarm: applied twice, or disputed; counted up to 10000",
        r#"semel_effects_alarmed > 0"#),
    metric("semel_approvals_held", Kind::Gauge, &[],
        "Effects that wait for a person; counted up to 10000",
        r#"semel_approvals_held > 100"#),
    metric("semel_runs", Kind::Gauge, &["state"],
        "Runs that have not ended, by state; each counted up to 10000",
        r#"semel_runs{state="paused"} > 0"#),
    metric("semel_runs_held", Kind::Gauge, &[],
        "Runs that this process advances right now",
        r#"semel_runs_held > 900"#),
    metric("semel_keys_in_flight", Kind::Gauge, &[],
        "Keys that somebody in this process begins or waits for",
        r#"semel_keys_in_flight > 3000"#),
    metric("semel_loop_turns_total", Kind::Counter, &["loop"],
        "Turns of the engine's own loops",
        r#"rate(semel_loop_turns_total[1m]) == 0"#),
    metric("semel_loop_silent_seconds", Kind::Gauge, &["loop"],
        "How long ago each of them last got on",
        r#"semel_loop_silent_seconds > 8"#),
    metric("semel_store_up", Kind::Gauge, &[],
        "1 when the store answered this scrape, else 0",
        r#"semel_store_up == 0"#),
    metric("semel_quarantine_open", Kind::Gauge, &[],
        "1 while the store is in quarantine, having gone back in time",
        r#"semel_quarantine_open == 1"#),
    metric("semel_http_requests_total", Kind::Counter, &["method", "route", "status"],
        "Requests that were answered",
        r#"rate(semel_http_requests_total{status=~"5.."}[5m]) > 0.1"#),
    metric("semel_http_request_seconds", Kind::Histogram, &["route"],
        "How long answering took, time in the hold included",
        r#""#),
    metric("semel_http_requests_in_flight", Kind::Gauge, &[],
        "Requests under way",
        r#"semel_http_requests_in_flight > 3500"#),
    metric("semel_build_info", Kind::Gauge, &["version", "store", "format"],
        "1; which version serves which kind of store",
        r#""#),
];

/// Counts stop here: nobody acts differently on more, and a scrape stays cheap.
const COUNTED_MAX: u32 = 10_000;
/// What was looked up is believed for as long.
const BELIEVED: Duration = Duration::from_secs(1);
/// How long the store has to answer a scrape.
const ANSWER: Duration = Duration::from_secs(2);
/// Samples are folded at least so often, scraped or not.
const UPKEEP: Duration = Duration::from_secs(5);
/// From a commit to a slow model.
const BUCKETS: [f64; 15] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0, 120.0];

static RECORDER: OnceLock<Option<PrometheusHandle>> = OnceLock::new();

/// What was looked up last.
#[derive(Default)]
pub(crate) struct Looked(Mutex<Option<(Instant, Option<Tally>)>>);

/// Takes up counts from now on. A program with a recorder of its own keeps that.
pub(crate) fn record() -> Option<&'static PrometheusHandle> {
    RECORDER.get_or_init(install).as_ref()
}

fn install() -> Option<PrometheusHandle> {
    let builder = PrometheusBuilder::new();
    let builder = builder.set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &BUCKETS);
    let recorder = builder.expect("there are buckets").build_recorder();
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder).ok()?;
    METRICS.iter().for_each(describe);
    let kept = handle.clone();
    let keep = move || {
        loop {
            std::thread::sleep(UPKEEP);
            kept.run_upkeep();
        }
    };
    // Without the thread every scrape does it.
    let _ = std::thread::Builder::new().name("semel-metrics".into()).spawn(keep);
    Some(handle)
}

fn describe(metric: &Metric) {
    match metric.kind {
        Kind::Counter => metrics::describe_counter!(metric.name, metric.meaning),
        Kind::Gauge => metrics::describe_gauge!(metric.name, metric.meaning),
        Kind::Histogram => metrics::describe_histogram!(metric.name, metric.meaning),
    }
}

/// Counts an answer. The route is its pattern, so that no id and no token becomes a label.
pub(crate) fn answered(route: &Route, status: StatusCode, took: Duration) {
    let method = match route.method.as_str() {
        "GET" => "get",
        "PUT" => "put",
        "DELETE" => "delete",
        _ => "post",
    };
    let status = status.as_u16().to_string();
    counter!(
        "semel_http_requests_total",
        "method" => method, "route" => route.path, "status" => status
    )
    .increment(1);
    histogram!("semel_http_request_seconds", "route" => route.path).record(took.as_secs_f64());
}

/// All counts, as text.
pub(crate) async fn show(call: Call) -> Result<Reply, Problem> {
    let Some(recorder) = record() else {
        let text = "the program has a recorder of its own: its metrics are where that shows them";
        return Err(Problem::new(Code::NotConfigured, text));
    };
    let app = &call.app;
    set_own(app);
    set_tally(app, app.tally().await.as_ref());
    Ok(Reply::bytes(StatusCode::OK, KIND, recorder.render()))
}

impl App {
    /// How much there is to look after, a second old at most. `None`: the store does not answer.
    async fn tally(&self) -> Option<Tally> {
        let mut looked = self.looked.0.lock().await;
        if let Some((at, tally)) = &*looked
            && at.elapsed() < BELIEVED
        {
            return tally.clone();
        }
        let upkeep = self.opened.upkeep().ok()?;
        let tally = tokio::time::timeout(ANSWER, upkeep.tally(COUNTED_MAX)).await;
        let tally = match tally {
            Ok(Ok(tally)) => Some(tally),
            Ok(Err(error)) => {
                tracing::warn!(%error, "the store did not tell how much there is to look after");
                None
            }
            Err(_) => None,
        };
        *looked = Some((Instant::now(), tally.clone()));
        tally
    }
}

/// What this process knows of itself.
fn set_own(app: &App) {
    gauge!("semel_runs_held").set(number(app.engine.runs_held()));
    gauge!("semel_keys_in_flight").set(number(app.engine.keys_in_flight()));
    gauge!("semel_http_requests_in_flight").set(number(app.admission.in_flight()));
    for pulse in app.engine.pulses() {
        let silent = pulse.silent_ms.map_or(f64::NAN, |ms| Duration::from_millis(ms).as_secs_f64());
        gauge!("semel_loop_silent_seconds", "loop" => pulse.of.as_str()).set(silent);
    }
    let is_open = app.engine.store().ground().quarantine.is_some();
    gauge!("semel_quarantine_open").set(f64::from(u8::from(is_open)));
    let store = super::health::kind(&app.opened);
    let format = app.opened.upkeep().map_or(0, |upkeep| upkeep.format()).to_string();
    let version = env!("CARGO_PKG_VERSION");
    gauge!("semel_build_info", "version" => version, "store" => store, "format" => format).set(1);
}

/// What the store knows. While it does not answer nothing is known: an old number would lie.
fn set_tally(app: &App, tally: Option<&Tally>) {
    gauge!("semel_store_up").set(f64::from(u8::from(tally.is_some())));
    let known = |read: fn(&Tally) -> u32| tally.map_or(f64::NAN, |tally| f64::from(read(tally)));
    gauge!("semel_effects_in_doubt").set(known(|tally| tally.in_doubt));
    gauge!("semel_effects_alarmed").set(known(|tally| tally.alarmed));
    gauge!("semel_approvals_held").set(known(|tally| tally.held));
    let now = app.engine.store().ground().now.wall;
    let age = |tally: &Tally| {
        let ms = tally
            .oldest_in_doubt
            .map_or(0, |at| u64::try_from(now.0.saturating_sub(at.0)).unwrap_or(0));
        Duration::from_millis(ms).as_secs_f64()
    };
    gauge!("semel_oldest_in_doubt_seconds").set(tally.map_or(f64::NAN, age));
    for (state, count) in tally.iter().flat_map(|tally| &tally.runs) {
        gauge!("semel_runs", "state" => state.clone()).set(*count);
    }
}

fn number(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// The table of docs/operate.md.
#[cfg(test)]
fn markdown() -> String {
    let mut lines = vec![
        "| name | labels | what | call somebody when |".to_owned(),
        "|---|---|---|---|".to_owned(),
    ];
    let cell = |text: &str| match text {
        "" => "-".to_owned(),
        text => format!("`{}`", text.replace('|', "\\|")),
    };
    lines.extend(METRICS.iter().map(|metric| {
        let (name, labels) = (metric.name, metric.labels.join(", "));
        format!("| `{name}` | {labels} | {} | {} |", metric.meaning, cell(metric.alert))
    }));
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `SEMEL_BLESS=1` writes it anew.
    #[test]
    fn the_page_for_operators_has_the_table_of_metrics() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operate.md");
        let page = std::fs::read_to_string(path).expect("the page");
        let (before, rest) = page.split_once("<!-- metrics -->\n").expect("a mark before it");
        let (_, after) = rest.split_once("<!-- end of metrics -->").expect("a mark behind it");
        let table = markdown();
        let wanted = format!("{before}<!-- metrics -->\n{table}<!-- end of metrics -->{after}");
        if std::env::var_os("SEMEL_BLESS").is_some() {
            std::fs::write(path, &wanted).expect("written");
        }
        assert_eq!(std::fs::read_to_string(path).expect("the page"), wanted);
    }

    #[test]
    fn names_are_those_that_the_engine_and_the_store_count_under() {
        use semel_engine::measure;
        for name in [
            measure::EFFECTS,
            measure::EFFECT_SECONDS,
            measure::DUPLICATES,
            measure::MODEL_CALLS,
            measure::MODEL_REPLAYS,
            measure::LOOP_TURNS,
            measure::SET_ASIDE,
            semel_store::measure::UNREADABLE,
            semel_store::measure::COMMIT_SECONDS,
        ] {
            assert!(METRICS.iter().any(|metric| metric.name == name), "{name}");
        }
    }
}
