//! `semel effects ls` and `show`.

use semel::Failure;
use serde_json::{Value, json};

use crate::common::{Ended, World};
use crate::{assert_plain, receipt};

fn keys(listed: &Ended) -> Vec<String> {
    let listed = listed.json();
    let items = listed["items"].as_array().expect("items").iter();
    items.map(|item| item["key"].as_str().expect("a key").to_owned()).collect()
}

#[test]
fn ls_lists_newest_first_and_page_by_page() {
    let world = World::new();
    for number in 0..5 {
        world.put_done(&format!("k{number}"));
    }
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let mut args = vec!["effects", "ls", "--json", "--limit", "2"];
        args.extend(after.as_deref().map(|after| ["--after", after]).into_iter().flatten());
        let page = world.semel(&args).expect(0);
        seen.extend(keys(&page));
        match &page.json()["next"] {
            Value::Null => break,
            next => after = Some(next.to_string()),
        }
    }
    assert_eq!(seen, ["k4", "k3", "k2", "k1", "k0"]);
    let talk = world.semel(&["effects", "ls", "--limit", "2"]).expect(0);
    assert!(talk.stderr.contains("more: add --after"), "{talk:?}");
}

#[test]
fn ls_filters_by_state_action_key_and_namespace() {
    let world = World::with_all_states();
    let ls = |args: &[&str]| {
        let mut keys = keys(&world.semel(&[&["effects", "ls", "--json"], args].concat()).expect(0));
        keys.sort_unstable();
        keys
    };
    assert_eq!(ls(&[]), ["hm", "later", "no", "ok"]);
    assert_eq!(ls(&["--state", "in_doubt"]), ["hm"]);
    assert_eq!(ls(&["--state", "done"]), ["ok"]);
    assert_eq!(ls(&["--state", "failed"]), ["no"]);
    assert_eq!(ls(&["--state", "planned"]), ["later"]);
    for nothing in ["pending", "void", "expired"] {
        assert!(ls(&["--state", nothing]).is_empty(), "{nothing}");
    }
    assert_eq!(ls(&["--action", "crm-ticket", "--key", "no"]), ["no"]);
    assert_eq!(ls(&["--key", "ok", "--state", "done"]), ["ok"]);
    assert!(ls(&["--action", "mail"]).is_empty());
    assert!(ls(&["--namespace", "another"]).is_empty());
    assert!(ls(&["--alarmed"]).is_empty());
    assert!(ls(&["--overdue"]).is_empty());
    assert!(ls(&["--unattended"]).is_empty(), "due for less than ten seconds");
    let wrong = world.semel(&["effects", "ls", "--state", "lost"]).expect(2);
    assert!(wrong.stderr.contains("in_doubt"), "it says which there are: {wrong:?}");
}

#[test]
fn ls_in_a_pipe_is_tab_separated_and_plain() {
    let world = World::with_all_states();
    let listed = world.semel(&["effects", "ls"]).expect(0);
    assert_plain(&listed.stdout);
    let lines: Vec<Vec<&str>> =
        listed.stdout.lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!(lines.len(), 5);
    assert_eq!(lines[0], ["ACTION/KEY", "STATE", "ATTEMPTS", "CONTRACT", "CREATED", "NOTE"]);
    assert_eq!(lines[4][..4], ["crm-ticket/ok", "done", "1", "at_most_once"]);
    let empty = World::new();
    empty.put_done("x");
    let none = empty.semel(&["effects", "ls", "--state", "void"]).expect(0);
    assert_eq!(none.stdout.lines().count(), 1, "only the headings: {none:?}");
}

#[test]
fn show_json_has_the_members_of_the_design() {
    let world = World::with_all_states();
    let effect = world.show("ok");
    assert_eq!(effect["action"], "crm-ticket");
    assert_eq!((&effect["key"], &effect["namespace"]), (&json!("ok"), &json!("default")));
    assert_eq!((&effect["generation"], &effect["state"]), (&json!(0), &json!("done")));
    assert_eq!(effect["version"], 2, "one commit to arm, one to settle");
    assert_eq!(effect["receipt"], receipt("ok"));
    assert_eq!(effect["workflow"], "demo");
    assert!(effect["id"].as_str().is_some_and(|id| id.ends_with("Y3JtLXRpY2tldABvaw")), "{effect}");
    assert!(effect["contract"]["promise"].as_str().expect("it").starts_with("at most once"));
    let attempt = &effect["attempts"][0];
    assert_eq!((&attempt["kind"], &attempt["outcome"]), (&json!("send"), &json!("applied")));
    assert!(attempt["fence"].is_u64() && attempt["began_at"].is_string(), "{attempt}");
    let failed = world.show("no");
    assert_eq!(
        (&failed["state"], &failed["failure"]),
        (&json!("failed"), &json!("HTTP status 422"))
    );
    assert_eq!(failed.get("receipt"), None);
    assert_eq!(world.show("hm")["attempts"][0]["outcome"], "unknown");
    assert_eq!(world.show("later")["attempts"][0]["reason"], "nobody listens");
}

#[test]
fn show_in_a_pipe_is_plain_and_says_what_to_do_about_a_doubt() {
    let world = World::with_all_states();
    for key in ["ok", "no", "hm", "later"] {
        let shown = world.semel(&["effects", "show", &format!("crm-ticket/{key}")]).expect(0);
        assert_plain(&shown.stdout);
        let state = world.state(key);
        assert!(shown.stdout.starts_with(&format!("crm-ticket/{key} is {state}\n")), "{shown:?}");
        let asks = shown.stdout.contains("semel effects resolve 'crm-ticket/hm' --retry");
        assert_eq!(asks, key == "hm", "{shown:?}");
    }
}

#[test]
fn show_hides_control_characters_of_foreign_text() {
    let world = World::new();
    let reason = "\u{1b}[31mred\u{7}";
    world.put("odd", Err(Failure::refused(reason))).expect_err("refused");
    assert_plain(&world.semel(&["effects", "show", "crm-ticket/odd"]).expect(0).stdout);
    assert_plain(&world.semel(&["effects", "ls"]).expect(0).stdout);
}

#[test]
fn show_of_what_is_not_there_ends_with_three() {
    let world = World::with_all_states();
    for args in [
        &["effects", "show", "crm-ticket/nothing"][..],
        &["effects", "show", "mail/ok"],
        &["effects", "show", "crm-ticket/ok", "--generation", "1"],
        &["effects", "show", "crm-ticket/ok", "--namespace", "another"],
    ] {
        let ended = world.semel(args).expect(3);
        assert_eq!(ended.stdout, "", "data only when there is some");
        assert!(ended.stderr.contains("not_found") && ended.stderr.contains("hint:"), "{ended:?}");
    }
}
