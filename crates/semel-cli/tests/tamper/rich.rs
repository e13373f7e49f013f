//! A store with everything in it: effects in all states, decisions, approvals, runs in all states,
//! large values, deliveries, schedules, callbacks, gates and entities.

use std::time::Duration;

use semel::{Approval, Context, Error, Failure, Retry, RunHandle, RunState, Semel};
use semel_core::effect::{Person, Resolution};
use semel_core::key::{Action, Address, Key};
use serde_json::json;

/// One try.
const ONCE: Retry = Retry::NONE;

fn address(semel: &Semel, key: &str) -> Address {
    Address {
        namespace: semel.namespace_of().clone(),
        action: Action::new("mail").expect("an action"),
        key: Key::from_text(key).expect("a key"),
    }
}

async fn call(semel: &Semel, key: &str, says: Result<serde_json::Value, Failure>) {
    let effect = semel.effect("mail").key(key).input(&json!({ "to": key })).workflow("post");
    let effect = effect.settle_window(Duration::from_millis(1)).retry(ONCE);
    let effect = effect.hold(Duration::from_millis(1));
    // What is in doubt or refused is an error, and meant to be.
    let _ = effect.call(move |_| std::future::ready(says.clone())).await;
}

async fn person(semel: &Semel, key: &str) -> Person {
    let version = semel.engine().effect(&address(semel, key)).await.expect("an effect").version;
    Person { actor: "ann".into(), reason: format!("about {key}"), version }
}

/// The first half of the effects; what `later` does to them comes after.
async fn effects(semel: &Semel) {
    for key in ["done-1", "done-2", "redo"] {
        call(semel, key, Ok(json!({ "id": format!("T-{key}") }))).await;
    }
    call(semel, "no", Err(Failure::refused("HTTP status 422"))).await;
    for key in ["hm-1", "hm-2", "hm-3"] {
        call(semel, key, Err(Failure::unknown("no answer"))).await;
    }
    call(semel, "later", Err(Failure::not_applied("nobody listens"))).await;
    for key in ["ask-1", "ask-2", "ask-3"] {
        let effect = semel.effect("mail").key(key).input(&json!({ "to": key }));
        let effect = effect.approval(Approval::required()).hold(Duration::from_millis(1));
        let held = effect.call(|_| async { Ok::<_, Failure>(json!("never")) }).await;
        held.expect_err("it is held");
    }
}

/// What people decide.
async fn decisions(semel: &Semel) {
    let engine = semel.engine();
    let done = Resolution::Done(semel::Json::of(&json!({ "id": "T-9" })).expect("JSON"));
    let by = person(semel, "hm-1").await;
    engine.resolve(&address(semel, "hm-1"), &by, &done).await.expect("resolved");
    let by = person(semel, "hm-2").await;
    engine.resolve(&address(semel, "hm-2"), &by, &Resolution::Failed).await.expect("resolved");
    let by = person(semel, "redo").await;
    engine.supersede(&address(semel, "redo"), &by).await.expect("superseded");
    let asked = semel.approvals().find("mail", "ask-1").await.expect("it is asked");
    asked.approve("bob", "fine").await.expect("approved");
    let asked = semel.approvals().find("mail", "ask-2").await.expect("it is asked");
    asked.deny("bob", "not now").await.expect("denied");
}

async fn steps(ctx: Context, word: String) -> Result<String, Error> {
    let large = move || {
        // One that is large is enough, and each look at it takes its time.
        let size = if word == "a" { 300 * 1024 } else { 10 };
        let text = format!("{word}{}", "x".repeat(size));
        async move { Ok::<_, Failure>(text) }
    };
    let big: String = ctx.step("big", large).await?;
    let sent = ctx.effect("letter").key(ctx.key()).input(&ctx.key().to_owned());
    let _: String = sent.call(|_| async { Ok::<_, Failure>("posted".to_owned()) }).await?;
    let go: String = ctx.wait_for_signal("go").await?;
    Ok(format!("{} {go}", big.len()))
}

async fn sleeps(ctx: Context, (): ()) -> Result<(), Error> {
    let _held = ctx.entity("account").await?;
    ctx.sleep(Duration::from_secs(3_600)).await
}

async fn fails(ctx: Context, (): ()) -> Result<u32, Error> {
    ctx.step("flaky", || async { Err::<u32, _>(Failure::unknown("no luck")) }).retry(ONCE).await
}

async fn calls(ctx: Context, (): ()) -> Result<u32, Error> {
    ctx.callback("answer").await?.answer().await
}

async fn reaches(run: &RunHandle, state: RunState) {
    for _ in 0..2_000 {
        if run.state().await.expect("a state") == state {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it stays {:?}, not {state:?}", run.state().await);
}

async fn start(semel: &Semel, workflow: &str, key: &str) -> RunHandle {
    let started = semel.start(workflow).key(key);
    let started = match workflow {
        "steps" => started.input(&key.to_owned()),
        _ => started.input(&()),
    };
    started.run().await.expect("a run")
}

/// All of it, in the store of this address. Returns what is to be done to it later.
pub(crate) async fn fill(semel: &Semel) {
    effects(semel).await;
    let worker = semel.worker().workflow("steps", steps).workflow("sleeps", sleeps).limit(1);
    let worker = worker.workflow("fails", fails).workflow("calls", calls);
    let working = worker.start().expect("a worker");
    for key in ["a", "b", "c"] {
        let run = start(semel, "steps", key).await;
        reaches(&run, RunState::Waiting).await;
    }
    let sleeping = start(semel, "sleeps", "s-1").await;
    reaches(&sleeping, RunState::Waiting).await;
    let queued = start(semel, "sleeps", "s-2").await;
    reaches(&queued, RunState::Waiting).await;
    for key in ["f-1", "f-2", "f-3"] {
        reaches(&start(semel, "fails", key).await, RunState::Paused).await;
    }
    reaches(&start(semel, "calls", "c-1").await, RunState::Waiting).await;
    for name in ["daily", "weekly"] {
        let schedule = semel.schedule(name).workflow("steps").cron("0 6 1 1 *").input("tick");
        schedule.put().await.expect("a schedule");
    }
    working.stop(Duration::from_secs(5)).await;
}

/// What happens after a copy was put aside: everything that can move, moves.
pub(crate) async fn later(semel: &Semel) {
    decisions(semel).await;
    let worker = semel.worker().workflow("steps", steps).workflow("fails", fails);
    let working = worker.start().expect("a worker");
    for (key, large) in [("a", 1), ("b", 300 * 1024)] {
        let run = start(semel, "steps", key).await;
        run.signal("go", &format!("{key}-1"), &"y".repeat(large)).await.expect("a signal");
        run.result::<String>().await.expect("it ends");
    }
    let third = start(semel, "steps", "c").await;
    third.signal("other", "c-1", "kept").await.expect("a signal");
    third.signal("other", "c-2", "kept as well").await.expect("a signal");
    start(semel, "fails", "f-1").await.fail("ann", "enough").await.expect("it ends");
    let skipped = start(semel, "fails", "f-2").await;
    skipped.skip("flaky#0", &7, "ann", "known").await.expect("skipped");
    skipped.result::<u32>().await.expect("it ends");
    semel.schedule("daily").pause("ann", "holidays").await.expect("paused");
    start(semel, "sleeps", "s-2").await.cancel("ann", "no more").await.expect("cancelled");
    working.stop(Duration::from_secs(5)).await;
}
