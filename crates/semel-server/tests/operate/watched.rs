//! The one subscriber of this process: lines go to a buffer, spans to a collector that keeps them.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use semel_server::operate::{LogFormat, Otlp, Telemetry, Watching};
use tokio::runtime::Runtime;
use tokio::sync::watch;

pub(crate) struct Watched {
    pub(crate) runtime: Runtime,
    watching: Watching,
    lines: Arc<Mutex<Vec<u8>>>,
    collected: Arc<Collected>,
}

struct Collected {
    spans: Mutex<Vec<Span>>,
    bytes: Mutex<Vec<u8>>,
    /// While it is away it answers nobody.
    is_away: watch::Sender<bool>,
}

pub(crate) static WATCHED: LazyLock<Watched> = LazyLock::new(|| {
    let runtime = Runtime::new().expect("a runtime");
    let lines = Lines::default();
    let collected = Arc::new(Collected {
        spans: Mutex::default(),
        bytes: Mutex::default(),
        is_away: watch::Sender::new(false),
    });
    let endpoint = runtime.block_on(collect(collected.clone()));
    let _inside = runtime.enter();
    let headers = BTreeMap::from([("authorization".to_owned(), "Bearer collector".to_owned())]);
    let delay = Duration::from_millis(50);
    let telemetry = Telemetry {
        format: LogFormat::Json,
        filter: "semel=trace".to_owned(),
        otlp: Some(Otlp { endpoint, headers, delay }),
    };
    let kept = lines.0.clone();
    let watching = telemetry.start_to(move || lines.clone()).expect("a subscriber");
    drop(_inside);
    Watched { runtime, watching, lines: kept, collected }
});

async fn collect(collected: Arc<Collected>) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a socket");
    let address = listener.local_addr().expect("an address");
    let router = Router::new().route("/v1/traces", post(take)).with_state(collected);
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

async fn take(State(collected): State<Arc<Collected>>, headers: HeaderMap, body: Bytes) {
    assert_eq!(headers["authorization"], "Bearer collector");
    assert_eq!(headers["content-type"], "application/x-protobuf");
    let mut away = collected.is_away.subscribe();
    away.wait_for(|is_away| !is_away).await.expect("a sender");
    let sent = ExportTraceServiceRequest::decode(body.clone()).expect("protobuf");
    let scopes = sent.resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
    let spans = scopes.flat_map(|scope| scope.spans);
    collected.spans.lock().expect("no panic").extend(spans);
    collected.bytes.lock().expect("no panic").extend(&body);
}

impl Watched {
    pub(crate) fn run<F: Future>(&self, work: F) -> F::Output {
        self.runtime.block_on(work)
    }

    /// The spans of this name so far, the oldest first.
    pub(crate) async fn spans(&self, name: &str) -> Vec<Span> {
        self.watching.flush().await;
        let spans = self.collected.spans.lock().expect("no panic");
        let mut named: Vec<Span> = spans.iter().filter(|it| it.name == name).cloned().collect();
        named.sort_by_key(|span| span.start_time_unix_nano);
        named
    }

    /// Everything that was sent, as bytes.
    pub(crate) fn sent(&self) -> Vec<u8> {
        self.collected.bytes.lock().expect("no panic").clone()
    }

    pub(crate) fn lines(&self) -> String {
        String::from_utf8(self.lines.lock().expect("no panic").clone()).expect("text")
    }

    pub(crate) fn send_away(&self, is_away: bool) {
        self.collected.is_away.send_replace(is_away);
    }
}

/// A member of a span, as text.
pub(crate) fn member(span: &Span, name: &str) -> Option<String> {
    let found = span.attributes.iter().find(|attribute| attribute.key == name)?;
    Some(match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => text.clone(),
        Value::BoolValue(flag) => flag.to_string(),
        Value::IntValue(number) => number.to_string(),
        other => format!("{other:?}"),
    })
}

/// The name of a span for others.
pub(crate) fn traceparent(span: &Span) -> String {
    format!("00-{}-{}-01", hex(&span.trace_id), hex(&span.span_id))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
