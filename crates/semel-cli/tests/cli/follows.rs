//! `semel runs show --follow`: what happens, as it happens, and how it ends.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::common::{World, semel, until};
use crate::runs::work;

fn follower(world: &World, args: &[&str]) -> Child {
    let url = format!("sqlite:{}", world.store().display());
    let mut command = semel();
    command.args(["--store", &url, "runs", "show", "--follow"]).args(args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs")
}

#[test]
fn follow_prints_entries_as_they_come_and_ends_with_the_run() {
    let world = World::new();
    world.sdk(async |semel| {
        work(&semel);
        world.start("gate", "e-1", "null");
        world.reaches("gate/e-1", "waiting");
        let mut child = follower(&world, &["gate/e-1"]);
        let mut lines = BufReader::new(child.stdout.take().expect("stdout")).lines();
        let mut seen = Vec::new();
        let mut read_to = |kind: &str| {
            for line in lines.by_ref() {
                seen.push(line.expect("text"));
                if seen.last().is_some_and(|line| line.contains(kind)) {
                    return;
                }
            }
            panic!("no {kind}: {seen:?}");
        };
        // It has told what there was before anything more happens.
        read_to("taken");
        world.semel(&["signals", "send", "gate/e-1", "approve", "--payload", "7"]).expect(0);
        read_to("received");
        read_to("finished");
        read_to("result");
        assert!(child.wait().expect("it ends").success());
        let starts: Vec<_> = seen.iter().filter(|line| line.contains("  started ")).collect();
        assert_eq!(starts.len(), 1, "each entry once: {seen:?}");
        assert!(seen.last().is_some_and(|line| line.ends_with(" 7")), "{seen:?}");
    });
}

#[test]
fn follow_ends_with_zero_one_or_four_like_the_run() {
    let world = World::new();
    world.sdk(async |semel| {
        work(&semel);
        let follow = |name: &str| world.semel(&["runs", "show", name, "--follow"]);
        world.start("add", "e-1", "[1, 2]");
        follow("add/e-1").expect(0);
        world.start("stuck", "e-1", "null");
        let paused = follow("stuck/e-1").expect(4);
        assert!(paused.stdout.contains("semel runs retry "), "{paused:?}");
        assert!(paused.stderr.contains("the printer is on fire (run_paused)"), "{paused:?}");
        world.semel(&["runs", "fail", "stuck/e-1", "--reason", "x"]).expect(0);
        let failed = follow("stuck/e-1").expect(1);
        assert!(failed.stderr.contains("(retries_exhausted)"), "{failed:?}");
        assert!(failed.stderr.contains("hint: see `semel runs show`"), "{failed:?}");
        world.start("gate", "e-1", "null");
        world.semel(&["runs", "cancel", "gate/e-1", "--reason", "x"]).expect(0);
        let cancelled = follow("gate/e-1").expect(1);
        assert!(cancelled.stderr.contains("(cancelled)"), "{cancelled:?}");
    });
}

#[test]
fn follow_json_is_one_entry_a_line() {
    let world = World::new();
    world.sdk(async |_| {});
    world.start("gate", "e-1", "null");
    let child = follower(&world, &["gate/e-1", "--json"]);
    world.sdk(async |semel| {
        work(&semel);
        world.reaches("gate/e-1", "waiting");
        world.semel(&["signals", "send", "gate/e-1", "approve"]).expect(0);
        world.reaches("gate/e-1", "done");
    });
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).expect("text");
    let entries: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("an entry")).collect();
    let places: Vec<_> = entries.iter().map(|entry| entry["seq"].as_u64()).collect();
    let want: Vec<_> = (0..entries.len() as u64).map(Some).collect();
    assert_eq!(places, want, "each entry once, in order");
    assert_eq!(entries.last().map(|entry| &entry["kind"]), Some(&Value::from("finished")));
}

#[test]
fn a_follower_disturbs_nobody_and_may_go_away() {
    let world = World::new();
    world.sdk(async |semel| {
        work(&semel);
        world.start("gate", "e-1", "null");
        world.reaches("gate/e-1", "waiting");
        let mut child = follower(&world, &["gate/e-1"]);
        child.kill().expect("it is gone");
        child.wait().expect("it is gone");
        world.semel(&["signals", "send", "gate/e-1", "approve"]).expect(0);
        until("it ends", || (world.run("gate/e-1")["state"] == "done").then_some(()));
    });
}
