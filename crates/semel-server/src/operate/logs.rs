//! Lines on stderr, as text or JSON, and spans to a collector: one subscriber for the process.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing_subscriber::filter::{LevelFilter, Targets, filter_fn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry};

use super::traces;

/// How lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    /// One JSON object a line.
    Json,
}

/// Where traces go.
#[derive(Clone)]
pub struct Otlp {
    /// The collector, such as `http://127.0.0.1:4318`; `/v1/traces` is added.
    pub endpoint: String,
    pub headers: BTreeMap<String, String>,
    /// How long spans are gathered before they are sent.
    pub delay: Duration,
}

/// What is shown of the process, and to whom.
pub struct Telemetry {
    pub format: LogFormat,
    /// Which lines are written, such as `info` or `warn,semel_engine=debug`.
    pub filter: String,
    pub otlp: Option<Otlp>,
}

/// Ends the sending of traces.
pub struct Watching {
    provider: Option<SdkTracerProvider>,
}

/// How long the last spans may take when the process ends.
const FLUSH: Duration = Duration::from_secs(3);

impl Telemetry {
    /// Starts writing lines to stderr and, where there is a collector, sending traces. A program
    /// that has a subscriber of its own keeps it. Needs a runtime of tokio for traces.
    pub fn start(self) -> Result<Watching, String> {
        self.start_to(io::stderr)
    }

    /// The same with another place for lines.
    pub fn start_to<W>(self, lines: W) -> Result<Watching, String>
    where
        W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
    {
        let filter = EnvFilter::try_new(&self.filter)
            .map_err(|error| format!("`{}` is no filter of lines: {error}", self.filter))?;
        let layer = tracing_subscriber::fmt::layer().with_writer(lines).with_target(false);
        let lines: Box<dyn Layer<Registry> + Send + Sync> = match self.format {
            LogFormat::Text => layer.with_filter(filter).boxed(),
            LogFormat::Json => {
                let json = layer.json().flatten_event(true).with_current_span(false);
                json.with_filter(filter).boxed()
            }
        };
        let provider = self.otlp.as_ref().map(traces::provider).transpose()?;
        let spans = provider.as_ref().map(|provider| {
            semel_engine::send_traces_by(Box::new(traces::Sender));
            // Ours alone, and no events: those may quote what somebody else said.
            let ours = Targets::new().with_target("semel", LevelFilter::INFO);
            tracing_opentelemetry::layer()
                .with_tracer(traces::tracer(provider))
                .with_location(false)
                .with_threads(false)
                .with_target(false)
                .with_filter(filter_fn(|it| it.is_span()))
                .with_filter(ours)
        });
        let _ = tracing_subscriber::registry().with(lines).with(spans).try_init();
        Ok(Watching { provider })
    }
}

impl Watching {
    /// Sends what is left, but not for ever.
    pub async fn end(self) {
        let Some(provider) = self.provider else { return };
        let ending = tokio::task::spawn_blocking(move || drop(provider.shutdown()));
        let _ = tokio::time::timeout(FLUSH, ending).await;
    }

    /// Sends what there is by now.
    pub async fn flush(&self) {
        let Some(provider) = self.provider.clone() else { return };
        let _ = tokio::task::spawn_blocking(move || drop(provider.force_flush())).await;
    }
}
