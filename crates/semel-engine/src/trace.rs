//! Spans: each attempt, each taking of a run and each step is one. They carry names and numbers,
//! never a payload. An attempt keeps the name of its span, so that a replay, however much later and
//! wherever, can point to the span in which the effect really happened.

use std::sync::OnceLock;

use semel_core::derive;
use semel_core::effect::State;
use semel_core::key::Address;
use semel_core::record::Effect;
use semel_core::run::Run;
use tracing::Span;
use tracing::field::Empty;

/// Whoever sends spans elsewhere, and knows what they are called there.
pub trait Traces: Send + Sync {
    /// The name of a span for others, as W3C writes a `traceparent`.
    fn name(&self, span: &Span) -> Option<String>;

    /// Says that a span has to do with another one, which may be long gone.
    fn link(&self, span: &Span, traceparent: &str);
}

static TRACES: OnceLock<Box<dyn Traces>> = OnceLock::new();

/// Names the sender of this process' spans. `false`: there is one already.
pub fn send_traces_by(traces: Box<dyn Traces>) -> bool {
    TRACES.set(traces).is_ok()
}

/// One go at an effect: an attempt, a look, or a replay.
pub(crate) fn attempt(address: &Address) -> Span {
    let span = tracing::info_span!(
        "attempt",
        otel.name = address.action.as_str(),
        otel.kind = "client",
        otel.status_code = Empty,
        semel.namespace = address.namespace.as_str(),
        semel.effect.key_hash = Empty,
        semel.effect.state = Empty,
        semel.effect.attempt = Empty,
        semel.effect.replayed = Empty,
    );
    if !span.is_disabled() {
        // The id of the effect is a hash of its key, and whoever has it finds the effect.
        let hash = derive::effect_id(address, 0);
        span.record("semel.effect.key_hash", tracing::field::display(hash));
    }
    span
}

/// One taking of a run, until it is left.
pub(crate) fn take(run: &Run, fence: u64) -> Span {
    tracing::info_span!(
        "run",
        otel.name = run.workflow.as_str(),
        semel.namespace = run.namespace.as_str(),
        semel.run.id = run.id.as_str(),
        semel.run.fence = fence,
    )
}

/// One try of a step.
pub(crate) fn step(id: &str, attempt: u32) -> Span {
    tracing::info_span!(
        "step",
        otel.name = id,
        otel.status_code = Empty,
        semel.step.id = id,
        semel.step.attempt = attempt,
    )
}

/// Writes the name of the span that we are in into the attempt that is being armed.
pub(crate) fn note(effect: &mut Effect) {
    let Some(attempt) = effect.attempts.last_mut() else { return };
    attempt.traceparent = TRACES.get().and_then(|traces| traces.name(&Span::current()));
}

/// The attempt is durable. Not said before: a guess that was refused made none.
pub(crate) fn armed(attempt: u32) {
    let span = Span::current();
    span.record("semel.effect.attempt", attempt);
    // Said once: a member that is recorded twice is sent twice.
    span.record("semel.effect.replayed", false);
}

/// What this go found was there: the span points to where it happened.
pub(crate) fn replayed(effect: &Effect, state: State) {
    let span = Span::current();
    if span.is_disabled() {
        return;
    }
    span.record("semel.effect.replayed", true);
    span.record("semel.effect.state", state.as_str());
    let applied = effect.applied().or(effect.attempts.last());
    if let Some(attempt) = applied {
        span.record("semel.effect.attempt", attempt.number);
    }
    let origin = applied.and_then(|attempt| attempt.traceparent.as_deref());
    if let (Some(traces), Some(origin)) = (TRACES.get(), origin) {
        traces.link(&span, origin);
    }
}

/// What became of an attempt.
pub(crate) fn filed(state: State) {
    let span = Span::current();
    span.record("semel.effect.state", state.as_str());
    match state {
        State::Done => span.record("otel.status_code", "OK"),
        State::Failed | State::InDoubt | State::Planned => span.record("otel.status_code", "ERROR"),
        State::Pending | State::Void | State::Expired => &span,
    };
}

/// A step that failed.
pub(crate) fn failed() {
    Span::current().record("otel.status_code", "ERROR");
}
