//! What whoever watches an engine sees of it: whether its loops turn, and what it counts.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use metrics_exporter_prometheus::PrometheusBuilder;
use semel_core::effect::{Person, Resolution};
use semel_core::json::Json;
use semel_core::key::{Action, Namespace};
use semel_core::record::Contract;
use semel_core::retry::Retry;
use semel_engine::{Engine, Error, Executor, Exhausted, Loop, Offer, Port, Sent, Start, Work};
use semel_store::Clock;
use semel_store::memory::Memory;

use crate::common::{
    Flaky, NATIVE, Script, World, address, call, idle, json, not_applied, single, unknown, world,
    world_on,
};

/// Which loops turn, by name.
fn turning(engine: &Engine) -> Vec<&'static str> {
    let pulses = engine.pulses().into_iter().filter(|pulse| pulse.is_turning());
    pulses.map(|pulse| pulse.of.as_str()).collect()
}

fn wedgeable() -> (World, Arc<Flaky>) {
    let mut flaky = None;
    let world = world_on(|clock: Clock| {
        flaky.insert(Flaky::new(Arc::new(Memory::new(clock)))).clone() as Arc<_>
    });
    (world, flaky.expect("a store"))
}

#[tokio::test]
async fn loops_turn_for_as_long_as_they_are_answered() {
    let (world, flaky) = wedgeable();
    assert_eq!(turning(&world.engine), [""; 0], "nobody has started them");
    world.engine.start();
    idle().await;
    assert_eq!(turning(&world.engine), ["job", "dispatch"]);
    world.pass_ms(600_000).await;
    assert_eq!(turning(&world.engine), ["job", "dispatch"]);
    // A store that says no is met again at the next turn: that is a turn, too.
    flaky.set_blind(true);
    world.pass_ms(60_000).await;
    assert_eq!(turning(&world.engine), ["job", "dispatch"]);
}

#[tokio::test]
async fn bug_dapr_10337_a_loop_that_hangs_is_seen_within_ten_seconds() {
    for (wedged, others) in [(Loop::Job, ["dispatch"]), (Loop::Dispatch, ["job"])] {
        let (world, flaky) = wedgeable();
        world.engine.start();
        world.pass_ms(5_000).await;
        flaky.wedge(wedged);
        world.pass_ms(5_000).await;
        assert_eq!(turning(&world.engine).len(), 2, "{wedged:?} may still be busy");
        world.pass_ms(5_000).await;
        assert_eq!(turning(&world.engine), others, "{wedged:?} hangs");
    }
}

/// Runs it where what is counted ends up in the returned text.
fn watched<F: Future<Output = ()>>(work: impl FnOnce() -> F) -> String {
    let recorder = PrometheusBuilder::new().build_recorder();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    metrics::with_local_recorder(&recorder, || runtime.block_on(work()));
    recorder.handle().render()
}

fn expect(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(text.lines().any(|found| found == *line), "{line} is not in\n{text}");
    }
}

#[test]
fn inv_i20_what_became_of_effects_is_counted_by_contract_and_outcome() {
    let text = watched(|| async {
        let world = world();
        let engine = &world.engine;
        // Done at the second send; then a repeat.
        let script = Script::new([not_applied()]);
        world.drive(engine.call(call("canary-a", NATIVE), script.doer())).await.expect("done");
        engine.call(call("canary-a", NATIVE), script.doer()).await.expect("a repeat");
        let refused = Script::new([Sent::Refused("no".into())]);
        let failed = engine.call(single("canary-b", Contract::AtMostOnce), refused.doer()).await;
        failed.expect_err("refused");
        // In doubt, until a person says that it was done.
        let cut = Script::new([unknown()]);
        let doubted = engine.call(single("canary-c", Contract::AtMostOnce), cut.doer()).await;
        doubted.expect_err("in doubt");
        let effect = world.effect("canary-c").await;
        let (actor, reason) = ("ada".to_owned(), "seen".to_owned());
        let person = Person { actor, reason, version: effect.version };
        let done = Resolution::Done(json("\"canary-d\""));
        engine.resolve(&address("canary-c"), &person, &done).await.expect("resolved");
        // A worker that dies: the job finds the lapse.
        let begun = crate::common::ask("canary-e", Contract::Harmless);
        engine.begin(begun, 0).await.expect("a permit");
        world.pass_ms(30_000).await;
        engine.turn().await.expect("a turn");
    });
    expect(
        &text,
        &[
            "semel_effects_total{kind=\"native_key\",outcome=\"not_applied\"} 1",
            "semel_effects_total{kind=\"native_key\",outcome=\"done\"} 1",
            "semel_effects_total{kind=\"at_most_once\",outcome=\"failed\"} 1",
            "semel_effects_total{kind=\"at_most_once\",outcome=\"in_doubt\"} 1",
            "semel_effects_total{kind=\"at_most_once\",outcome=\"done\"} 1",
            "semel_effects_total{kind=\"harmless\",outcome=\"in_doubt\"} 1",
            "semel_duplicates_suppressed_total{door=\"call\"} 1",
            "semel_effect_duration_seconds_count{kind=\"native_key\"} 2",
        ],
    );
    assert!(!text.contains("canary"), "case S9: no key, no payload\n{text}");
}

/// Asks the same twice, then something else.
fn asking(port: Port, _: Json) -> BoxFuture<'static, Result<Json, Error>> {
    async move {
        for request in ["what?", "what?", "who?"] {
            let run = Arc::new(|_| async { Ok(json("\"canary\"")) }.boxed());
            let (retry, exhausted) = (Retry::NONE, Exhausted::Fail);
            let work = Work::Step { run, executor: Executor::Task, retry, exhausted };
            port.model(port.next_id("model"), request.to_owned(), work).await?;
        }
        Ok(json("1"))
    }
    .boxed()
}

#[test]
fn models_that_are_asked_are_told_from_answers_that_were_there() {
    let text = watched(|| async {
        let world = world();
        let namespace = Namespace::default();
        let offer = Offer::new(Arc::new(asking), "one");
        world.engine.offer(namespace.as_str(), "ask", offer);
        let start = Start {
            namespace,
            workflow: Action::new("ask").expect("a name"),
            key: None,
            input: json("1"),
            window_ms: 1_000_000,
            deadline_ms: None,
            release: None,
            parent: None,
        };
        world.engine.start_run(start).await.expect("a run");
        world.pass_ms(1_000).await;
    });
    expect(&text, &["semel_model_calls_total 2", "semel_model_replays_total 1"]);
    assert!(!text.contains("canary"), "{text}");
}
