//! `semel audit` and heads: who decided what, and that nothing of it can be made undone.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use futures_util::future::join_all;
use semel::{Action, Address, Key};
use semel_core::effect::Person;
use serde_json::json;

use crate::checks::tamper;
use crate::common::World;

/// Two decisions, by two people.
fn decided() -> World {
    let world = World::with_all_states();
    world.decide("resolve", "hm", &["--failed", "--actor", "eve"]).expect(0);
    world.decide("supersede", "ok", &[]).expect(0);
    world
}

#[test]
fn inv_i22_each_decision_is_an_entry_that_follows_the_one_before() {
    let world = World::with_all_states();
    assert_eq!(world.semel(&["audit", "ls", "--json"]).expect(0).json()["items"], json!([]));
    // What was refused was not decided.
    world.decide("void", "hm", &[]).expect(4);
    world.decide("resolve", "hm", &["--failed", "--actor", "eve"]).expect(0);
    world.decide("supersede", "ok", &[]).expect(0);
    let listed = world.semel(&["audit", "ls", "--json"]).expect(0).json();
    let items = listed["items"].as_array().expect("a list");
    let verbs: Vec<_> = items.iter().map(|item| (&item["seq"], &item["verb"])).collect();
    assert_eq!(verbs, [(&json!(2), &json!("supersede")), (&json!(1), &json!("resolve_failed"))]);
    let first = &items[1];
    assert_eq!((&first["actor"], &first["reason"]), (&json!("eve"), &json!("as agreed")));
    assert_eq!(first["subject"], "effect crm-ticket/hm g0");
    assert!(first["version"].is_u64(), "{first}");
    let page = world.semel(&["audit", "ls", "--limit", "1", "--json"]).expect(0).json();
    assert_eq!(page["next"], json!(2));
    let rest = world.semel(&["audit", "ls", "--after", "2", "--json"]).expect(0).json();
    assert_eq!((&rest["items"][0]["seq"], &rest["next"]), (&json!(1), &json!(null)));
    let text = world.semel(&["audit", "ls"]).expect(0).stdout;
    assert!(text.contains("eve") && text.contains("resolve_failed"), "{text}");
    let checked = world.semel(&["audit", "verify"]).expect(0).stdout;
    assert_eq!(checked, "2 audit entries\nevery chain is whole\n");
    assert!(world.semel(&["verify"]).expect(0).stdout.contains("2 audit entries\n"));
}

#[test]
fn inv_i22_of_many_who_decide_at_once_each_has_an_entry_of_its_own() {
    let world = World::new();
    let keys: Vec<String> = (0..12).map(|key| format!("k{key}")).collect();
    world.sdk(async |semel| {
        let engine = semel.engine();
        let address = |key: &String| Address {
            namespace: semel.namespace_of().clone(),
            action: Action::new("crm-ticket").expect("an action"),
            key: Key::from_text(key).expect("a key"),
        };
        for key in &keys {
            crate::call(&semel, key, std::time::Duration::from_millis(1), Ok(json!(1)))
                .await
                .expect("done");
        }
        let decide = async |key: &String| {
            let version = engine.effect(&address(key)).await.expect("it").version;
            let person = Person { actor: "ann".into(), reason: key.clone(), version };
            engine.supersede(&address(key), &person).await.expect("superseded")
        };
        join_all(keys.iter().map(decide)).await;
        let page = engine.audit_entries(semel.namespace_of(), None, 100).await.expect("entries");
        let seqs: Vec<u64> = page.entries.iter().rev().map(|entry| entry.seq).collect();
        assert_eq!(seqs, (1..=12).collect::<Vec<u64>>());
        let mut reasons: Vec<_> = page.entries.iter().map(|entry| entry.reason.clone()).collect();
        reasons.sort_unstable();
        let mut wanted = keys.clone();
        wanted.sort_unstable();
        assert_eq!(reasons, wanted);
    });
    world.semel(&["verify"]).expect(0);
}

#[test]
fn inv_i22_an_entry_that_is_gone_is_missed() {
    let last = "DELETE FROM cards WHERE name = (SELECT min(name) FROM cards WHERE kind = 'audit')";
    let first = "DELETE FROM cards WHERE name = (SELECT max(name) FROM cards WHERE kind = 'audit')";
    for (statement, what) in [(last, "has no audit entry"), (first, "the first entry")] {
        let world = decided();
        tamper(&world, statement);
        let found = world.semel(&["verify"]).expect(1).stdout;
        assert!(found.contains("I22") && found.contains(what), "{found}");
    }
}

#[test]
fn inv_i22_what_is_deleted_or_put_back_is_found_against_a_head() {
    let world = decided();
    let head = world.dir.path().join("head.jsonl");
    let head = head.to_str().expect("a path");
    let told = world.semel(&["verify", "--export", head]).expect(0);
    assert!(told.stderr.contains("heads written"), "{told:?}");
    let mode = fs::metadata(head).expect("the head").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(!fs::read_to_string(head).expect("text").contains("T-ok"), "no receipt is in it");
    let same = world.semel(&["verify", "--against", head, "--json"]).expect(0).json();
    assert!(same["head_lines"].as_u64().is_some_and(|lines| lines > 5), "{same}");
    // What goes on afterwards is no finding.
    world.put_done("new");
    world.decide("resolve", "later", &["--failed"]).expect(0);
    world.semel(&["verify", "--against", head]).expect(0);

    tamper(&world, "DELETE FROM effects WHERE key = 'no'");
    world.semel(&["verify"]).expect(0);
    let found = world.semel(&["verify", "--against", head]).expect(1).stdout;
    assert!(found.contains("crm-ticket/no g0") && found.contains("it was deleted"), "{found}");
}

#[test]
fn a_damaged_head_and_one_of_another_store_are_refused() {
    let world = decided();
    let head = world.dir.path().join("head.jsonl");
    world.semel(&["verify", "--export", head.to_str().expect("a path")]).expect(0);
    let whole = fs::read_to_string(&head).expect("a head");
    let cut: Vec<&str> = whole.lines().take(3).collect();
    for text in [cut.join("\n"), whole.replacen("\"version\":", "\"version\":1", 1), String::new()]
    {
        let bad = world.dir.path().join("bad.jsonl");
        fs::write(&bad, text).expect("a file");
        let refused = world.semel(&["verify", "--against", bad.to_str().expect("a path")]);
        let refused = refused.expect(1);
        assert!(refused.stderr.contains("cannot be used"), "{refused:?}");
    }
    let other = World::with_all_states();
    let refused = other.semel(&["verify", "--against", head.to_str().expect("a path")]).expect(1);
    assert!(refused.stderr.contains("the head is of store"), "{refused:?}");
}

#[test]
fn no_head_is_written_of_a_store_that_is_not_whole() {
    let world = decided();
    tamper(&world, "UPDATE effects SET version = version + 1 WHERE key = 'no'");
    let head = world.dir.path().join("head.jsonl");
    world.semel(&["verify", "--export", head.to_str().expect("a path")]).expect(1);
    assert!(!head.exists());
}
