//! Spans by OTLP. They carry names and numbers, never a body, a receipt or a secret, and events are
//! not sent at all: what is said in lines stays in the log.

use std::collections::HashMap;
use std::time::Duration;

use axum::http::HeaderMap;
use opentelemetry::trace::{
    SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState, TracerProvider,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SdkTracer, SdkTracerProvider,
};
use semel_engine::Traces;
use tracing::Span;
use tracing::field::Empty;
use tracing_opentelemetry::OpenTelemetrySpanExt;

use super::collector::Collector;
use super::logs::Otlp;
use crate::route::Route;

/// Spans that wait to be sent. Beyond it they are dropped: a collector that is away slows nobody.
const QUEUE_MAX: usize = 4_096;
/// How long the collector has to answer.
const ANSWER: Duration = Duration::from_secs(5);

/// Starts sending. Nothing is asked of the collector before there is a span.
pub(super) fn provider(otlp: &Otlp) -> Result<SdkTracerProvider, String> {
    let endpoint = format!("{}/v1/traces", otlp.endpoint.trim_end_matches('/'));
    let headers: HashMap<String, String> = otlp.headers.clone().into_iter().collect();
    let exporter = opentelemetry_otlp::SpanExporter::builder()
        .with_http()
        .with_http_client(Collector::new(ANSWER)?)
        .with_endpoint(endpoint)
        .with_headers(headers)
        .with_timeout(ANSWER)
        .build()
        .map_err(|error| format!("traces cannot be sent: {error}"))?;
    let config = BatchConfigBuilder::default()
        .with_max_queue_size(QUEUE_MAX)
        .with_scheduled_delay(otlp.delay)
        .build();
    let processor = BatchSpanProcessor::builder(exporter).with_batch_config(config).build();
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let resource =
        Resource::builder_empty().with_service_name("semel").with_attribute(version).build();
    Ok(SdkTracerProvider::builder().with_span_processor(processor).with_resource(resource).build())
}

pub(super) fn tracer(provider: &SdkTracerProvider) -> SdkTracer {
    provider.tracer("semel")
}

/// What the engine asks of whoever sends spans.
pub(super) struct Sender;

impl Traces for Sender {
    fn name(&self, span: &Span) -> Option<String> {
        let context = span.context();
        let named = context.span().span_context().clone();
        let flags = named.trace_flags().to_u8();
        let text = || format!("00-{}-{}-{flags:02x}", named.trace_id(), named.span_id());
        named.is_valid().then(text)
    }

    fn link(&self, span: &Span, traceparent: &str) {
        if let Some(origin) = read(traceparent) {
            span.add_link(origin);
        }
    }
}

/// Reads a `traceparent`. What is not well formed is as good as none.
fn read(traceparent: &str) -> Option<SpanContext> {
    let parts: Vec<&str> = traceparent.split('-').collect();
    let [version, trace, span, flags] = parts[..] else { return None };
    let is_hex = |text: &str, len: usize| {
        text.len() == len && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    if version != "00" || !is_hex(trace, 32) || !is_hex(span, 16) || !is_hex(flags, 2) {
        return None;
    }
    let flags = TraceFlags::new(u8::from_str_radix(flags, 16).ok()?) & TraceFlags::SAMPLED;
    let trace = TraceId::from_hex(trace).ok()?;
    let span = SpanId::from_hex(span).ok()?;
    let read = SpanContext::new(trace, span, flags, true, TraceState::default());
    read.is_valid().then_some(read)
}

/// The span of a request, below that of whoever asks. Never filtered out: every line of the request
/// carries its id.
pub(crate) fn request(route: &Route, id: &str, headers: &HeaderMap) -> Span {
    let span = tracing::error_span!(
        "request",
        request = id,
        otel.name = %format_args!("{} {}", route.method, route.path),
        otel.kind = "server",
        otel.status_code = Empty,
        http.request.method = route.method.as_str(),
        http.route = route.path,
        http.response.status_code = Empty,
    );
    let mut given = headers.get_all("traceparent").iter();
    // Two of them name nobody.
    if let (Some(parent), None) = (given.next(), given.next())
        && let Some(parent) = parent.to_str().ok().and_then(read)
    {
        // An error means that nobody sends spans.
        let _ = span.set_parent(Context::new().with_remote_span_context(parent));
    }
    span
}

/// The span of a delivery that was believed, by the id under which its sender knows it.
pub(crate) fn delivery(trigger: &str, message: &str) -> Span {
    tracing::info_span!(
        "delivery",
        otel.name = %format_args!("receive {trigger}"),
        otel.kind = "consumer",
        messaging.system = "webhook",
        messaging.operation.name = "receive",
        messaging.destination.name = trigger,
        messaging.message.id = message,
    )
}

/// What was answered.
pub(crate) fn answered(span: &Span, status: u16) {
    span.record("http.response.status_code", status);
    if status >= 500 {
        span.record("otel.status_code", "ERROR");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_well_formed_traceparent_is_one() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let parent = read(good).expect("a parent");
        assert_eq!(parent.trace_id().to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(parent.span_id().to_string(), "b7ad6b7169203331");
        for bad in [
            "",
            "00",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
        ] {
            assert!(read(bad).is_none(), "{bad}");
        }
    }
}
