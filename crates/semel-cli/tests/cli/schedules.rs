//! `semel schedules`: what is printed where, and how it ends.

use serde_json::{Value, json};

use crate::assert_plain;
use crate::common::World;

/// Puts the schedule of these tests. Some of its words may be said differently.
fn put<'a>(name: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut line = vec!["schedules", "put", name, "--workflow", "report", "--cron", "0 3 * * *"];
    line.extend(["--zone", "europe/rome"]);
    line.extend(more);
    line
}

/// A world with a store: a decision does not create one.
fn world() -> World {
    let world = World::new();
    world.semel(&["migrate"]).expect(0);
    world
}

#[test]
fn a_schedule_is_put_once_and_shown_in_both_clocks() {
    let world = world();
    let first = world.semel(&put("nightly", &["--input", "{\"branch\": 7}", "--json"])).expect(0);
    let first = first.json();
    assert_eq!((&first["changed"], &first["version"]), (&json!(true), &json!(1)));
    let again = world.semel(&put("nightly", &["--input", "{\"branch\": 7}", "--json"])).expect(0);
    assert_eq!((&again.json()["changed"], &again.json()["version"]), (&json!(false), &json!(1)));
    let shown = world.semel(&["schedules", "show", "nightly", "--json"]).expect(0).json();
    let fixed = |name: &str| shown[name].clone();
    assert_eq!(fixed("zone"), "Europe/Rome");
    assert_eq!(fixed("state"), "active");
    assert_eq!(fixed("catch_up"), "skip");
    assert_eq!(fixed("input"), json!({ "branch": 7 }));
    assert_eq!(fixed("replay_window"), "30d");
    assert_eq!(
        (fixed("fired"), fixed("skipped"), fixed("last")),
        (json!(0), json!(0), Value::Null)
    );
    let ticks = shown["next"].as_array().expect("ticks");
    assert_eq!(ticks.len(), 5);
    for tick in ticks {
        let (utc, local) = (tick["utc"].as_str().unwrap(), tick["local"].as_str().unwrap());
        // Rome is one hour ahead, or two.
        assert!(local.contains("T03:00:00+0"), "{local}");
        let hour = if local.ends_with("+01:00") { "T02:00:00Z" } else { "T01:00:00Z" };
        assert!(utc.ends_with(hour), "{utc} {local}");
    }
}

#[test]
fn people_read_when_it_comes_here_and_there() {
    let world = world();
    let put = world.semel(&put("nightly", &["--catch-up", "once"])).expect(0);
    assert_eq!(put.stderr, "put\n");
    assert_plain(&put.stdout);
    let lines: Vec<&str> = put.stdout.lines().collect();
    assert_eq!(lines[0], "nightly is active");
    assert_eq!(lines[1], "  workflow     report");
    assert_eq!(lines[2], "  cron         0 3 * * * in Europe/Rome");
    assert_eq!(lines[3], "  catch up     once");
    assert_eq!(lines[6], "  last tick    none yet");
    assert_eq!(lines[7], "  ticks        0 fired, 0 skipped");
    assert!(lines[8].starts_with("  next         20") && lines[8].contains("Z  20"));
    assert_eq!(lines.len(), 11);
    let list = world.semel(&["schedules", "ls"]).expect(0).stdout;
    assert_plain(&list);
    let rows: Vec<Vec<&str>> = list.lines().map(|line| line.split('\t').collect()).collect();
    let headings = ["NAME", "WORKFLOW", "CRON", "ZONE", "CATCH UP", "STATE", "NEXT", "THERE"];
    assert_eq!(rows[0][..8], headings);
    assert_eq!(rows[1][..6], ["nightly", "report", "0 3 * * *", "Europe/Rome", "once", "active"]);
    let next = lines[8].trim_start().trim_start_matches("next").trim();
    assert_eq!(format!("{}  {}", rows[1][6], rows[1][7]), next);
}

#[test]
fn a_schedule_is_paused_with_a_reason_resumed_and_removed() {
    let world = world();
    world.semel(&put("nightly", &[])).expect(0);
    world.semel(&["schedules", "pause", "nightly"]).expect(2);
    let pause = ["schedules", "pause", "nightly", "--reason", "audit", "--json"];
    let paused = world.semel(&pause).expect(0).json();
    assert_eq!((&paused["state"], &paused["version"]), (&json!("paused"), &json!(2)));
    assert_eq!(
        (&paused["paused"]["actor"], &paused["paused"]["reason"]),
        (&json!("ada"), &json!("audit"))
    );
    // The first who paused it stands.
    let again = ["schedules", "pause", "nightly", "--reason", "me too", "--json"];
    assert_eq!(world.semel(&again).expect(0).json(), paused);
    let text = world.semel(&["schedules", "show", "nightly"]).expect(0).stdout;
    assert!(text.starts_with("nightly is paused\n") && text.contains(" by ada: audit\n"), "{text}");
    let resumed = world.semel(&["schedules", "resume", "nightly", "--json"]).expect(0).json();
    assert_eq!((&resumed["state"], &resumed["paused"]), (&json!("active"), &Value::Null));
    let refused = world.semel(&["schedules", "resume", "nightly"]).expect(4);
    assert!(refused.stderr.starts_with("error: the schedule is not paused (not_paused)"));
    let removed = world.semel(&["schedules", "remove", "nightly", "--json"]).expect(0);
    assert_eq!(removed.json(), json!({ "removed": "nightly" }));
    let list = world.semel(&["schedules", "ls", "--json"]).expect(0);
    assert_eq!(list.json(), json!({ "items": [], "next": null }));
}

#[test]
fn a_bad_schedule_is_told_what_is_wrong_and_leaves_nothing() {
    let world = world();
    let told = |line: &[&str], code: i32, want: &str| {
        let ended = world.semel(line).expect(code);
        assert!(ended.stderr.starts_with(want), "{}", ended.stderr);
    };
    let base = ["schedules", "put", "q", "--workflow", "report", "--cron"];
    let with = |more: &[&'static str]| [&base[..], more].concat();
    let hour = "error: hour `25`: number out of bounds; values are 0 to 23 (schedule_invalid)";
    told(&with(&["0 25 * * *"]), 2, hour);
    let seconds = "error: the pattern has 6 fields: seconds and years are not taken; ";
    told(&with(&["0 0 3 * * *"]), 2, seconds);
    let zone = "error: there is no time zone `Rome` (schedule_invalid)";
    told(&with(&["@daily", "--zone", "Rome"]), 2, zone);
    let catch_up = "error: `some` is no way to catch up; there are skip, once, all";
    told(&with(&["@daily", "--catch-up", "some"]), 2, catch_up);
    told(&with(&["@daily", "--input", "{"]), 2, "error: not a usable JSON value");
    told(&with(&["@daily", "--replay-window", "soon"]), 2, "error: a duration is");
    for verb in ["show", "resume", "remove"] {
        told(&["schedules", verb, "q"], 3, "error: there is no such schedule (not_found)");
    }
    let list = world.semel(&["schedules", "ls"]).expect(0);
    assert_eq!(list.stderr, "no schedules; `semel schedules put` makes one\n");
}

#[test]
fn long_lists_of_schedules_come_page_by_page() {
    let world = world();
    for name in ["b", "a", "c"] {
        world.semel(&put(name, &[])).expect(0);
    }
    let names = |page: &Value| -> Vec<String> {
        let items = page["items"].as_array().expect("items");
        items.iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
    };
    let page = world.semel(&["schedules", "ls", "--limit", "2", "--json"]).expect(0).json();
    assert_eq!((names(&page), &page["next"]), (vec!["a".to_owned(), "b".to_owned()], &json!("b")));
    let next = ["schedules", "ls", "--limit", "2", "--after", "b", "--json"];
    let page = world.semel(&next).expect(0).json();
    assert_eq!((names(&page), &page["next"]), (vec!["c".to_owned()], &Value::Null));
    let elsewhere = world.semel(&["schedules", "ls", "--namespace", "other", "--json"]).expect(0);
    assert_eq!(elsewhere.json()["items"], json!([]));
}
