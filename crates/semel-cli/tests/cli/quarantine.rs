//! `semel quarantine`: what a restored store may have lost, and the word that ends it.

use std::time::Duration;

use semel::{Code, Failure, Retry, Semel};
use serde_json::{Value, json};

use crate::common::{Ended, World, until};
use crate::{assert_plain, call, receipt};

const SECOND: Duration = Duration::from_secs(1);

fn show(world: &World, code: i32) -> Value {
    world.semel(&["quarantine", "show", "--json"]).expect(code).json()
}

impl World {
    /// Lets the mark remember commits that the file does not have.
    fn go_back(&self) {
        let mark = self.dir.path().join("semel.db-semel/mark");
        let text = std::fs::read_to_string(&mark).expect("a mark");
        let (store, _) = text.split_once(' ').expect("the name of the store");
        std::fs::write(&mark, format!("{store:32} {:20} {:20}\n", 0, 999)).expect("a mark");
    }
}

fn close(world: &World, how: &[&str]) -> Ended {
    let args = ["quarantine", "close", "--reason", "all of it was found", "--json"];
    world.semel(&[&args, how].concat())
}

/// Begins an effect that the quarantine puts in doubt.
fn begin_in_doubt(world: &World, key: &str) {
    let error = world.put(key, Ok(receipt(key))).expect_err("created in doubt, not sent");
    assert_eq!(error.code(), Code::InDoubt);
}

#[test]
fn a_store_that_never_went_back_has_no_quarantine() {
    let world = World::with_all_states();
    let shown = show(&world, 0);
    let none = json!({ "count": 0, "items": [] });
    let want = json!({
        "open": false, "epoch": 0, "returns": [], "lost": [], "in_doubt": none
    });
    assert_eq!(shown, want, "a doubt of its own is not the quarantine's");
    let text = world.semel(&["quarantine", "show"]).expect(0);
    assert!(text.stdout.starts_with("no quarantine"), "{text:?}");
    let refused = close(&world, &[]).expect(4);
    assert!(refused.stderr.contains("no_quarantine"), "{refused:?}");
}

#[test]
fn show_names_the_evidence_and_each_doubt_with_what_to_do() {
    let world = World::restored();
    // Before anybody has recorded it, whoever looks sees it.
    let shown = show(&world, 5);
    assert_eq!((&shown["open"], &shown["in_doubt"]["count"]), (&json!(true), &json!(0)));
    begin_in_doubt(&world, "second");
    let shown = show(&world, 5);
    assert_eq!((&shown["open"], &shown["epoch"]), (&json!(true), &json!(1)));
    let found = &shown["returns"][0];
    let evidence = found["evidence"].as_str().expect("a text");
    assert!(evidence.starts_with("the mark remembers commit "), "{evidence}");
    assert!(found["opened_at"].as_str() >= found["recovered_at"].as_str(), "{found}");
    assert_eq!(found["closed"], Value::Null);
    let doubt = &shown["in_doubt"]["items"][0];
    assert_eq!((&doubt["key"], &doubt["contract"]), (&json!("second"), &json!("at_most_once")));
    let next = format!(
        "semel effects resolve crm-ticket/second --version {} --done|--failed|--retry --reason …",
        doubt["version"]
    );
    assert_eq!(doubt["next"], next);
    let text = world.semel(&["quarantine", "show"]).expect(5);
    assert_plain(&text.stdout);
    for part in ["epoch 1 is open", evidence, "1 effect in doubt by it", &*next] {
        assert!(text.stdout.contains(part), "{part}: {text:?}");
    }
    assert!(text.stderr.contains("semel quarantine close --epoch 1"), "{text:?}");
}

#[test]
fn show_lists_doubts_of_all_namespaces_and_counts_beyond_its_limit() {
    let world = World::restored();
    world.sdk(async |semel| {
        for name in ["default", "tenant"] {
            let semel = semel.namespace(name).expect("a name");
            let says = Ok(receipt("it's"));
            let done = call(&semel, "it's", Duration::ZERO, says).await;
            assert_eq!(done.expect_err("in doubt").code(), Code::InDoubt);
        }
    });
    let shown = show(&world, 5);
    assert_eq!(shown["in_doubt"]["count"], 2);
    let next = shown["in_doubt"]["items"][0]["next"].as_str().expect("a text");
    assert!(next.contains(r" 'crm-ticket/it'\''s' --namespace tenant "), "{next}");
    let less = world.semel(&["quarantine", "show", "--limit", "1", "--json"]).expect(5).json();
    assert_eq!(less["in_doubt"]["items"].as_array().map(Vec::len), Some(1));
    assert_eq!(less["in_doubt"]["count"], 2);
}

#[test]
fn a_doubt_that_was_settled_is_no_longer_the_quarantines() {
    let world = World::restored();
    begin_in_doubt(&world, "second");
    world.decide("resolve", "second", &["--done", "--receipt", "{}"]).expect(0);
    assert_eq!(show(&world, 5)["in_doubt"]["count"], 0);
}

#[test]
fn a_doubt_of_a_workers_own_is_not_the_quarantines() {
    let world = World::new();
    world.put_in_doubt("own");
    world.go_back();
    begin_in_doubt(&world, "second");
    let shown = show(&world, 5);
    assert_eq!(shown["in_doubt"]["count"], 1, "{shown}");
    assert_eq!(shown["in_doubt"]["items"][0]["key"], "second");
}

/// A person said that it had not happened; then it was sent, and that went wrong.
#[test]
fn a_doubt_about_a_later_send_is_not_the_quarantines() {
    let world = World::restored();
    let send = || {
        world.sdk(async |semel: Semel| {
            let effect = semel.effect("crm-ticket").key(["second"]).retry(Retry::NONE);
            let effect = effect.lease(SECOND).deadline(SECOND).settle_window(Duration::ZERO);
            let says = || Err::<Value, _>(Failure::unknown("no answer"));
            let sent = effect.call(move |_| std::future::ready(says())).await;
            assert_eq!(sent.expect_err("nobody knows").code(), Code::InDoubt);
        });
    };
    send();
    assert_eq!(show(&world, 5)["in_doubt"]["count"], 1);
    until("its deadline is over", || {
        (world.decide("resolve", "second", &["--retry"]).code == Some(0)).then_some(())
    });
    send();
    assert_eq!(world.state("second"), "in_doubt");
    assert_eq!(world.show("second")["attempts"].as_array().map(Vec::len), Some(2));
    assert_eq!(show(&world, 5)["in_doubt"]["count"], 0);
}

#[test]
fn inv_i27_close_ends_it_and_leaves_doubts_in_doubt() {
    let world = World::restored();
    begin_in_doubt(&world, "second");
    let refused = close(&world, &["--epoch", "2"]).expect(4);
    assert!(refused.stderr.contains("no_quarantine"), "{refused:?}");
    let unnamed = close(&world, &["--actor", " "]).expect(2);
    assert!(unnamed.stderr.contains("input_invalid"), "{unnamed:?}");
    assert_eq!(show(&world, 5)["open"], true, "a refusal changes nothing");

    let closed = close(&world, &["--epoch", "1"]).expect(0).json();
    assert_eq!((&closed["epoch"], &closed["in_doubt"]), (&json!(1), &json!(1)));
    assert_eq!(
        (&closed["actor"], &closed["reason"]),
        (&json!("ada"), &json!("all of it was found"))
    );
    let shown = show(&world, 0);
    assert_eq!(shown["open"], false);
    let by = &shown["returns"][0]["closed"];
    assert_eq!((&by["actor"], &by["reason"]), (&json!("ada"), &json!("all of it was found")));
    assert_eq!(shown["in_doubt"]["count"], 1, "what it put in doubt stays listed");
    let text = world.semel(&["quarantine", "show"]).expect(0);
    assert!(text.stdout.contains("by ada: all of it was found"), "{text:?}");

    let again = close(&world, &[]).expect(4);
    assert!(again.stderr.contains("ada closed the last one"), "{again:?}");
    begin_in_doubt(&world, "second");
    world.put_done("third");
    let doctor = world.semel(&["doctor", "--json"]).json();
    let findings = doctor["findings"].as_array().expect("findings");
    let quarantine = findings.iter().find(|one| one["what"] == "quarantine");
    assert_eq!(quarantine.map(|one| &one["ok"]), Some(&json!(true)));
}

/// A process that is up all the while is told: it needs no restart.
#[test]
fn inv_i27_a_live_worker_goes_on_once_it_is_closed() {
    let world = World::restored();
    world.sdk(async |semel: Semel| {
        let before = call(&semel, "before", Duration::ZERO, Ok(receipt("before"))).await;
        assert_eq!(before.expect_err("in doubt").code(), Code::InDoubt);
        let closed = close(&world, &[]).expect(0).json();
        assert_eq!(closed["in_doubt"], 1);
        let is_told = || semel.engine().store().ground().quarantine.is_none().then_some(());
        until("the worker is told", is_told);
        let after = call(&semel, "after", Duration::ZERO, Ok(receipt("after"))).await;
        assert_eq!(after, Ok(receipt("after")));
    });
}

/// A contract that settles itself says so.
#[test]
fn show_tells_which_doubts_the_next_call_settles() {
    let world = World::restored();
    world.sdk(async |semel: Semel| {
        let effect = semel.effect("mail").key(["second"]).retry(Retry::NONE);
        let effect = effect.contract(semel::Contract::Probe { first: false });
        let look = |_| std::future::ready(Ok::<Vec<Value>, Failure>(vec![]));
        let sent = effect.look(look).call(|_| std::future::ready(Ok(json!("M-1")))).await;
        assert_eq!(sent.expect_err("in doubt").code(), Code::InDoubt);
    });
    let shown = show(&world, 5);
    let doubt = &shown["in_doubt"]["items"][0];
    assert_eq!(doubt["contract"], "probe");
    let next = doubt["next"].as_str().expect("a text");
    assert!(next.starts_with("the next call looks it up; or semel effects resolve mail/second"));
}

/// What it decided before is not written; it decides again, on what it has learned.
#[test]
fn inv_i27_one_that_opens_under_a_live_worker_stops_its_next_send() {
    let world = World::new();
    world.sdk(async |semel: Semel| {
        let before = call(&semel, "before", Duration::ZERO, Ok(receipt("before"))).await;
        assert_eq!(before, Ok(receipt("before")));
        world.go_back();
        world.semel(&["migrate"]).expect(0);
        let after = call(&semel, "after", Duration::ZERO, Ok(receipt("after"))).await;
        assert_eq!(after.expect_err("in doubt").code(), Code::InDoubt);
    });
    let after = world.show("after");
    assert_eq!(after["attempts"].as_array().map(Vec::len), Some(1), "{after}");
    assert_eq!(after["attempts"][0]["kind"], "assumed", "nothing was sent: {after}");
    assert_eq!(
        show(&world, 5)["returns"][0]["evidence"].as_str().map(|text| &text[..30]),
        Some("the mark remembers commit 999,")
    );
}
