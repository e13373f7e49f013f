//! `semel releases`, and what releases mean to `semel runs`.

use std::time::Duration;

use semel::{Context, Error, Semel};
use semel_core::release::Releases;
use semel_core::time::Wall;
use serde_json::{Value, json};

use crate::assert_plain;
use crate::common::World;

async fn waits(ctx: Context, (): ()) -> Result<Value, Error> {
    ctx.wait_for_signal("go").await
}

/// Offers the workflow `w` as this release, and lets everybody know.
async fn offer(semel: &Semel, release: &str) {
    semel.worker().release(release).workflow("w", waits).start().expect("it is offered");
    semel.engine().turn().await.expect("it is announced");
}

async fn offer_draft(semel: &Semel, release: &str) {
    let worker = semel.worker().release(release).draft();
    worker.workflow("w", waits).start().expect("it is offered");
    semel.engine().turn().await.expect("it is announced");
}

/// What a person decides, as JSON.
fn decide(world: &World, args: &[&str]) -> Value {
    world.semel(&[args, &["--reason", "as agreed", "--json"]].concat()).expect(0).json()
}

fn marks(shown: &Value) -> Vec<(&str, bool, bool, bool, u64)> {
    let each = shown["releases"].as_array().expect("a list").iter();
    let mut marks: Vec<_> = each
        .map(|one| {
            let is = |name: &str| one[name].as_bool().expect("a mark");
            let name = one["name"].as_str().expect("a name");
            let open = one["open_runs"].as_u64().expect("a count");
            (name, is("live"), is("draft"), is("offered"), open)
        })
        .collect();
    marks.sort_unstable();
    marks
}

#[test]
fn releases_show_what_is_live_what_is_a_draft_and_which_runs_are_open_on_each() {
    let world = World::new();
    world.sdk(async |semel| {
        offer(&semel, "r1").await;
        world.start("w", "1", "null");
        world.start("w", "2", "null");
        world.reaches("w/2", "waiting");
        offer_draft(&semel, "r2").await;
        let args = ["runs", "start", "w", "--key", "1", "--release", "r2", "--json"];
        let draft = world.semel(&args).expect(0).json();
        assert_eq!(
            (&draft["namespace"], &draft["release"]),
            (&json!("default~draft"), &json!("r2"))
        );
        let id = draft["id"].as_str().expect("an id");
        world.semel(&["runs", "show", id]).expect(3);
        let shown = world.semel(&["runs", "show", "w/1", "--namespace", "default~draft", "--json"]);
        assert_eq!(shown.expect(0).json()["id"], id, "an operator can look into the twin");
        let shown = world.semel(&["releases", "show", "w", "--json"]).expect(0).json();
        assert_eq!((&shown["live"], &shown["counted_all"]), (&json!("r1"), &json!(true)));
        assert_eq!(marks(&shown), [("r1", true, false, true, 2), ("r2", false, true, true, 1)]);
        let first = &shown["promotions"][0];
        assert_eq!((&first["to"], &first["actor"]), (&json!("r1"), &json!("semel")));
    });
    let text = world.semel(&["releases", "ls"]).expect(0).stdout;
    assert_plain(&text);
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!(lines[0][..5], ["WORKFLOW", "RELEASE", "STATE", "OFFERED", "OPEN RUNS"]);
    assert_eq!(lines[1][..5], ["w", "r2", "draft", "now", "1"]);
    assert_eq!(lines[2][..5], ["w", "r1", "live", "now", "2"]);
    let twin = ["runs", "start", "w", "--namespace", "default~draft"];
    let refused = world.semel(&twin).expect(2);
    assert!(refused.stderr.contains("name_invalid"), "only a draft leads there: {refused:?}");
    world.semel(&["verify"]).expect(0);
}

#[test]
fn req_s3_promote_and_rollback_say_who_and_why_and_runs_under_way_stay() {
    let world = World::new();
    world.sdk(async |semel| {
        offer(&semel, "r1").await;
        world.start("w", "1", "null");
        world.reaches("w/1", "waiting");
        offer_draft(&semel, "r2").await;
        let promoted = decide(&world, &["releases", "promote", "w", "r2"]);
        assert_eq!(promoted["live"], "r2");
        assert_eq!(marks(&promoted), [("r1", false, false, true, 1), ("r2", true, false, true, 0)]);
        let newest = &promoted["promotions"][0];
        assert_eq!(
            (&newest["from"], &newest["to"], &newest["actor"], &newest["reason"]),
            (&json!("r1"), &json!("r2"), &json!("ada"), &json!("as agreed"))
        );
        world.start("w", "2", "null");
        world.reaches("w/2", "waiting");
        assert_eq!(world.run("w/1")["release"], "r1", "a run stays with its code");
        assert_eq!(world.run("w/2")["release"], "r2");
        let rolled_back = decide(&world, &["releases", "rollback", "w"]);
        assert_eq!(rolled_back["live"], "r1");
        let text = world.semel(&["releases", "show", "w"]).expect(0).stdout;
        assert_plain(&text);
        assert!(text.starts_with("w: new runs start on r1\n"), "{text}");
        assert!(text.contains("  to r1 from r2 by ada: as agreed\n"), "{text}");
    });
}

#[test]
fn a_release_that_nobody_knows_is_refused_with_three() {
    let world = World::new();
    world.sdk(async |semel| offer(&semel, "r1").await);
    let unknown = |args: &[&str]| {
        let refused = world.semel(&[args, &["--json"]].concat()).expect(3);
        let error: Value = serde_json::from_str(&refused.stderr).expect("one document");
        assert_eq!(error["error"]["code"], "release_unknown", "{args:?}");
    };
    unknown(&["releases", "promote", "w", "r9", "--reason", "x"]);
    unknown(&["releases", "rollback", "w", "--reason", "x"]);
    unknown(&["releases", "show", "nothing"]);
    unknown(&["releases", "promote", "nothing", "r1", "--reason", "x"]);
    unknown(&["runs", "start", "w", "--release", "r9"]);
    world.start("w", "1", "null");
    unknown(&["runs", "move", "w/1", "--to", "r9", "--reason", "x"]);
    world.semel(&["releases", "promote", "w", "r1"]).expect(2);
}

#[test]
fn a_run_is_moved_by_hand_and_its_journal_says_by_whom() {
    let world = World::new();
    world.sdk(async |semel| {
        offer(&semel, "r1").await;
        world.start("w", "1", "null");
        world.reaches("w/1", "waiting");
        offer(&semel, "r2").await;
        let moved = decide(&world, &["runs", "move", "w/1", "--to", "r2"]);
        assert_eq!(moved["release"], "r2");
        let text = world.semel(&["runs", "ls", "--workflow", "w"]).expect(0).stdout;
        assert_eq!(text.lines().nth(1).and_then(|line| line.split('\t').nth(4)), Some("r2"));
        world.semel(&["signals", "send", "w/1", "go"]).expect(0);
        world.reaches("w/1", "done");
        let text = world.semel(&["runs", "show", "w/1"]).expect(0).stdout;
        assert!(text.contains("from release r1 to r2 by ada: as agreed\n"), "{text}");
        let late = ["runs", "move", "w/1", "--to", "r1", "--reason", "x"];
        assert!(world.semel(&late).expect(4).stderr.contains("run_finished"));
    });
}

/// Makes it look as if nobody had offered a release for long.
async fn forget(semel: &Semel, release: &str) {
    let store = semel.engine().store();
    let card = store.card("default", "workflow", "w").await.expect("it").expect("a card");
    let mut releases: Releases = serde_json::from_str(&card.record).expect("releases");
    let known = releases.known.iter_mut().find(|known| known.name == release).expect("it");
    known.seen = Wall(known.seen.0 - 61_000);
    let record = serde_json::to_string(&releases).expect("JSON");
    let next = semel_store::Card { version: card.version + 1, record, ..card };
    store.commit(semel_store::Write::Card(next).into()).await.expect("it is written");
    // What was read of releases is believed for a second.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
}

#[test]
fn a_run_that_waits_for_its_release_says_so_and_what_to_do() {
    let world = World::new();
    let id = world.sdk(async |semel| {
        let worker = semel.worker().release("r1").pin_strictly();
        worker.workflow("w", waits).start().expect("it is offered");
        semel.engine().turn().await.expect("it is announced");
        let id = world.start("w", "1", "null");
        world.reaches("w/1", "waiting");
        id
    });
    world.sdk(async |semel| {
        offer(&semel, "r2").await;
        world.semel(&["signals", "send", "w/1", "go"]).expect(0);
        forget(&semel, "r1").await;
        semel.engine().move_abandoned().await.expect("it looks");
    });
    let run = world.run("w/1");
    assert_eq!((&run["strict"], &run["release"]), (&json!(true), &json!("r1")));
    let why = "nobody offers it, and the run is pinned (live: r2)";
    assert_eq!(run["stranded"], why);
    assert_eq!(run["waits_on"], format!("release r1: {why}"));
    let text = world.semel(&["runs", "show", "w/1"]).expect(0).stdout;
    for part in [
        "  release    r1 (pinned strictly)\n".to_owned(),
        format!("\nIt waits for its release r1: {why}. One of:\n"),
        "  start a worker that offers r1 of w\n".to_owned(),
        format!("  semel runs move {id} --to RELEASE --reason '…'\n"),
    ] {
        assert!(text.contains(&part), "{part:?}: {text}");
    }
    let shown = world.semel(&["releases", "show", "w"]).expect(0);
    assert!(shown.stderr.contains("nobody offers r1: its runs move"), "{shown:?}");
    assert!(shown.stdout.contains("r1\tstrict\tgone\t1\t"), "{shown:?}");
    world.semel(&["verify"]).expect(0);
}
