//! The rules of the effect machine, through the public API: one story per law, and a random walk.

use semel_core::{contract, effect, fingerprint, json, key, record, retry, time, verify};

#[path = "../../src/effect/testing.rs"]
mod testing;

mod approvals;
mod begin;
mod contracts;
mod people;
mod quarantine;
mod receipts;
mod retention;
mod walk;
mod world;

/// Plays a story under some terms: `wish -> answer`, a line each. A wish without an answer must
/// not be refused.
fn play(terms: &str, story: &str) -> testing::Desk {
    let mut desk = testing::Desk::new(terms);
    go_on(&mut desk, story);
    desk
}

/// Plays more of a story.
fn go_on(desk: &mut testing::Desk, story: &str) {
    for line in story.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (wish, want) = line.split_once("->").unwrap_or((line, ""));
        let got = desk.run(wish.trim());
        match want.trim() {
            "" => assert!(!got.starts_with('!'), "`{line}` got `{got}` in:\n{story}"),
            want => assert_eq!(got, want, "`{line}` in:\n{story}"),
        }
    }
}

/// What everybody is shown of the newest generation.
fn view(desk: &testing::Desk) -> serde_json::Value {
    let view = semel_core::wire::effect_view(desk.effect().expect("there is a row"), &desk.now);
    serde_json::to_value(view).expect("a view is plain data")
}
