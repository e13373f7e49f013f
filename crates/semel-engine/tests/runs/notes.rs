//! Notes of waits: they lie in the row for operators, and change nothing else.

use futures_util::FutureExt;
use semel_core::code::Code;
use semel_core::json::Json;
use semel_core::limits;
use semel_core::run::State;
use semel_engine::{Port, Work};

use super::flows::Done;
use super::kit::{Flow, Kit, json};
use super::world::{World, play};

/// Waits for a word and a second one, with a note or none.
fn noted(port: Port, kit: Kit, note: Option<&str>) -> Done {
    let wait = move |port: &Port, note: Option<Json>| {
        let work = Work::Wait { name: "word".into(), timeout_ms: None, note };
        port.command(port.next_id("signal word"), "signal word".to_owned(), work)
    };
    let note = note.map(json);
    async move {
        let first = wait(&port, note.clone()).await?.expect("no timeout");
        kit.step(&port, "between", first.text()).await?;
        let second = wait(&port, note).await?.expect("no timeout");
        kit.step(&port, "last", second.text()).await
    }
    .boxed()
}

fn for_ann(port: Port, kit: Kit) -> Done {
    noted(port, kit, Some(r#"{"ask":  "ann"}"#))
}

fn for_bob(port: Port, kit: Kit) -> Done {
    noted(port, kit, Some(r#"{"ask":  "bob"}"#))
}

fn for_nobody(port: Port, kit: Kit) -> Done {
    noted(port, kit, None)
}

fn large(bytes: usize) -> Json {
    Json::of(&"x".repeat(bytes - 2)).expect("JSON")
}

/// One byte too many is refused, and the code goes on with as many as may be.
fn too_large(port: Port, kit: Kit) -> Done {
    async move {
        let wait = |note| {
            let work =
                Work::Wait { name: "word".into(), timeout_ms: Some(1_000), note: Some(note) };
            port.command(port.next_id("signal word"), "signal word".to_owned(), work)
        };
        let refused = wait(large(limits::NOTE_BYTES_MAX + 1)).await.expect_err("it is too large");
        assert_eq!(refused.code(), Code::InputInvalid);
        assert_eq!(wait(large(limits::NOTE_BYTES_MAX)).await, Ok(None), "nobody came");
        kit.step(&port, "last", "").await
    }
    .boxed()
}

async fn note(world: &World) -> Option<String> {
    let run = world.reach(State::Waiting).await;
    run.waits[0].note.as_ref().map(|note| note.text().to_owned())
}

#[test]
fn a_note_lies_in_the_row_and_code_that_says_something_else_takes_over() {
    for (next, want) in [(for_bob as Flow, Some(r#"{"ask":  "bob"}"#)), (for_nobody, None)] {
        play(async {
            let world = World::new();
            let first = world.live("first", for_ann, None);
            first.start_run();
            assert_eq!(note(&world).await.as_deref(), Some(r#"{"ask":  "ann"}"#));
            first.engine.drain(1_000).await;
            let _second = world.live("second", next, None);
            world.signal("word", "d-1").await.expect("it is delivered");
            world.pass_ms(2_000).await;
            assert_eq!(note(&world).await.as_deref(), want);
            world.signal("word", "d-2").await.expect("it is delivered");
            world.end().await;
            world.check(State::Done).await;
        });
    }
}

#[test]
fn a_note_over_the_limit_is_refused() {
    play(async {
        let world = World::new();
        let process = world.live("worker", too_large, None);
        process.start_run();
        world.end().await;
        world.check(State::Done).await;
    });
}
