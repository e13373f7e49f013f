//! What user code says of itself, as `semel runs show` tells it.

use std::sync::Arc;

use semel::{Error, Json, Raised, Retry};
use semel_core::retry::Trouble;
use semel_engine::{Body, Engine, Executor, Exhausted, Offer, Port, StepFault, Work};
use semel_store::{Access, Clock, Opened};
use serde_json::json;

use crate::common::World;

const TRACE: &str = "Traceback (most recent call last):\n  File \"shop.py\", line 7, in order\n\
                     shop.errors.NoStock: \u{1b}[31mno stock";

/// Offers a workflow below the SDK, where other languages stand, and acts beside it.
fn beside(world: &World, body: Body, act: impl FnOnce()) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let url = format!("sqlite:{}", world.store().display());
    runtime.block_on(async {
        let opened = Opened::open(&url, Access::ReadWrite, Clock::Real).await.expect("a store");
        let engine = Engine::on(&opened, "worker").expect("an engine");
        engine.start();
        engine.offer("default", "shop", Offer::new(body, "r1"));
        tokio::task::block_in_place(act);
    });
}

async fn order(port: Port) -> Result<Json, Error> {
    let run = |_| {
        let args = Some(Json::of(&["no stock"]).expect("JSON"));
        let raised = Raised { kind: "shop.errors:NoStock".into(), args, trace: TRACE.into() };
        let raised = Some(Box::new(raised));
        let fault = StepFault { detail: "no stock".into(), trouble: Trouble::Passing, raised };
        Box::pin(async { Err(fault) }) as _
    };
    let work = Work::Step {
        run: Arc::new(run),
        executor: Executor::Task,
        retry: Retry::NONE,
        exhausted: Exhausted::Fail,
    };
    let value = port.command(port.next_id("order"), "step".into(), work).await?;
    Ok(value.expect("a step has a value"))
}

#[test]
fn the_trace_of_an_exception_is_told_once_below_the_attempt_that_raised_it() {
    let world = World::new();
    beside(&world, Arc::new(|port, _| Box::pin(order(port))), || {
        let id = world.start("shop", "e-1", "null");
        let mut run = world.run(&id);
        while run.get("ended_at").is_none() {
            run = world.run(&id);
        }
        assert_eq!(run["state"], "failed");
        let want = json!({"kind": "shop.errors:NoStock", "args": ["no stock"], "trace": TRACE});
        let entries = run["entries"].as_array().expect("entries");
        for (seq, kind) in [(2, "step_failed"), (3, "step"), (4, "finished")] {
            let entry = &entries[seq];
            assert_eq!((&entry["kind"], &entry["fault"]["raised"]), (&json!(kind), &want));
        }
        let text = world.semel(&["runs", "show", &id]).expect(0).stdout;
        let told: Vec<&str> =
            text.lines().skip_while(|line| !line.contains("step_failed")).collect();
        let indent = " ".repeat(31);
        assert_eq!(told[1], format!("{indent}Traceback (most recent call last):"));
        assert_eq!(told[2], format!("{indent}  File \"shop.py\", line 7, in order"));
        assert_eq!(told[3], format!("{indent}shop.errors.NoStock: \u{fffd}[31mno stock"));
        assert_eq!(text.matches("Traceback").count(), 1, "{text}");
        assert!(told[5].contains("finished") && told[5].ends_with("(retries_exhausted)"), "{text}");
    });
}

async fn ask(port: Port) -> Result<Json, Error> {
    let note = Some(Json::of(&json!({"ask": "ann", "sum": 40})).expect("JSON"));
    let work = Work::Wait { name: "approve".into(), timeout_ms: None, note };
    let word = port.command(port.next_id("signal approve"), "signal approve".into(), work).await?;
    Ok(word.expect("no timeout"))
}

#[test]
fn a_wait_tells_what_the_code_says_of_it() {
    let world = World::new();
    beside(&world, Arc::new(|port, _| Box::pin(ask(port))), || {
        let id = world.start("shop", "e-1", "null");
        let run = world.reaches(&id, "waiting");
        assert_eq!(run["waits"][0]["note"], json!({"ask": "ann", "sum": 40}));
        let text = world.semel(&["runs", "show", &id]).expect(0).stdout;
        let waits = "It waits on signal approve (signal approve#0)";
        let note = r#"{"ask":"ann","sum":40}"#;
        let want = format!("{waits}\n  {note}\n  semel signals send {id} 'approve'");
        assert!(text.contains(&want), "{text}");
    });
}
