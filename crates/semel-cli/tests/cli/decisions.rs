//! `semel effects resolve`, `grant`, `supersede` and `void`: what a person decides.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use semel::{Context, Failure, Retry};
use serde_json::{Value, json};

use crate::common::{World, until};
use crate::receipt;

#[test]
fn resolve_done_gives_its_receipt_to_every_repeat() {
    let world = World::with_all_states();
    let told = json!({ "id": "T-7" });
    let ended = world.decide("resolve", "hm", &["--done", "--receipt", &told.to_string()]);
    let effect = ended.expect(0).json();
    assert_eq!((&effect["state"], &effect["receipt"]), (&json!("done"), &told));
    let decision = &effect["decisions"][0];
    assert_eq!((&decision["verdict"], &decision["actor"]), (&json!("done"), &json!("ada")));
    assert_eq!(decision["reason"], "as agreed");
    let again = world.put("hm", Ok(json!("must not be called")));
    assert_eq!(again, Ok(told), "case_o12: a replay, with the person's receipt");
}

#[test]
fn resolve_failed_is_final() {
    let world = World::with_all_states();
    let effect = world.decide("resolve", "hm", &["--failed", "--actor", "eve"]).expect(0).json();
    assert_eq!((&effect["state"], &effect["failure"]), (&json!("failed"), &json!("as agreed")));
    assert_eq!(effect["decisions"][0]["actor"], "eve");
    assert_eq!(
        world.put("hm", Ok(json!(1))).expect_err("failed").code(),
        semel::Code::EffectFailed
    );
    let again = world.decide("resolve", "hm", &["--done"]).expect(4);
    assert!(again.stderr.contains("already_settled"), "{again:?}");
}

#[test]
fn resolve_retry_waits_for_the_settle_window_and_allows_one_send() {
    let world = World::new();
    let unknown = Err(Failure::unknown("no answer"));
    let window = Duration::from_millis(1_500);
    world.put_with("hm", window, unknown).expect_err("nobody knows");
    let before = world.show("hm");
    let early = world.decide("resolve", "hm", &["--retry"]).expect(4);
    assert!(early.stderr.contains("too_early"), "{early:?}");
    assert_eq!(world.show("hm"), before, "nothing has changed");
    until("the window passes", || {
        (world.decide("resolve", "hm", &["--retry"]).code == Some(0)).then_some(())
    });
    assert_eq!(world.state("hm"), "planned");
    world.put_done("hm");
    assert_eq!(world.show("hm")["attempts"].as_array().map(Vec::len), Some(2));
}

#[test]
fn a_decision_upon_another_version_changes_nothing() {
    let world = World::with_all_states();
    for (verb, key, how) in
        [("resolve", "hm", &["--failed"][..]), ("supersede", "ok", &[]), ("void", "later", &[])]
    {
        let before = world.show(key);
        let name = format!("crm-ticket/{key}");
        let args = ["effects", verb, &name, "--version", "99", "--reason", "as agreed"];
        let ended = world.semel(&[&args[..], how].concat()).expect(4);
        assert!(ended.stderr.contains("version_changed"), "{ended:?}");
        assert_eq!(world.show(key), before);
    }
}

#[test]
fn decisions_that_do_not_fit_the_state_are_refused() {
    let world = World::with_all_states();
    let check = |verb: &str, key: &str, how: &[&str], code: &str| {
        let before = world.show(key);
        let ended = world.decide(verb, key, how).expect(4);
        assert!(ended.stderr.contains(code), "{verb} {key}: {ended:?}");
        assert_eq!(world.show(key), before, "{verb} {key} changed something");
    };
    check("resolve", "ok", &["--failed"], "already_settled");
    check("resolve", "no", &["--retry"], "already_settled");
    check("supersede", "hm", &[], "not_settled");
    check("supersede", "later", &[], "not_settled");
    check("void", "hm", &[], "already_sent");
    check("void", "later", &[], "already_sent");
    check("void", "ok", &[], "already_settled");
}

#[test]
fn a_pending_effect_is_not_decided_upon() {
    let world = World::new();
    world.crm.script("busy", &["hold"]);
    let mut worker = world.worker("at_most_once", &["busy"]);
    until("the CRM holds the request", || world.crm.did("held", "busy").pop());
    assert_eq!(world.state("busy"), "pending");
    let ended = world.decide("resolve", "busy", &["--failed"]).expect(75);
    assert!(ended.stderr.contains("in_progress"), "{ended:?}");
    world.decide("supersede", "busy", &[]).expect(4);
    world.decide("void", "busy", &[]).expect(4);
    worker.kill();
}

#[test]
fn case_o10_a_void_effect_may_be_begun_again() {
    let world = World::new();
    world.put_done("o10");
    world.decide("supersede", "o10", &[]).expect(0);
    let effect = world.decide("void", "o10", &[]).expect(0).json();
    assert_eq!((&effect["state"], &effect["generation"]), (&json!("void"), &json!(1)));
    let second = json!({ "id": "T-2" });
    assert_eq!(world.put("o10", Ok(second.clone())), Ok(second));
}

/// The only way to do an intent again: once, under a new key for the provider.
#[test]
fn undo_and_redo_sends_once_more_under_a_new_key_and_keeps_the_old_receipt() {
    let world = World::new();
    let work = || {
        let mut worker = world.worker("native_key", &["redo"]);
        assert_eq!(worker.end(), Some(0));
        let line = worker.lines().remove(0);
        assert_eq!((line.reference.as_str(), &line.error), ("redo", &None));
        assert!(line.ms < 20_000);
        line.receipt.expect("a receipt")
    };
    let first = work();
    let opened = world.decide("supersede", "redo", &[]).expect(0).json();
    assert_eq!((&opened["state"], &opened["generation"]), (&json!("planned"), &json!(1)));
    let second = work();
    assert_eq!(work(), second, "once more, not twice");
    assert_ne!(first, second);
    let tickets = world.crm.applied("redo");
    let ids: Vec<&str> = tickets.iter().map(|ticket| ticket.id.as_str()).collect();
    assert_eq!(ids, [first["id"].as_str().expect("id"), second["id"].as_str().expect("id")]);
    let sent: Vec<_> = world.crm.did("arrived", "redo").into_iter().map(|one| one.key).collect();
    let generation = |number: &str| {
        let args = ["effects", "show", "crm-ticket/redo", "--generation", number, "--json"];
        world.semel(&args).expect(0).json()
    };
    let (old, new) = (generation("0"), generation("1"));
    assert_eq!((&old["receipt"], &new["receipt"]), (&first, &second), "the old one is readable");
    let keys = [&old, &new].map(|one| one["downstream_key"].as_str().map(str::to_owned));
    assert_eq!(sent, keys);
    assert_ne!(keys[0], keys[1]);
    let fences = [&old, &new].map(|one| one["attempts"][0]["fence"].as_u64());
    assert!(fences[0] < fences[1], "{fences:?}");
    assert_eq!(old["decisions"][0]["verdict"], "supersede");
    world.semel(&["verify"]).expect(0);
}

#[test]
fn supersede_reopens_what_failed() {
    let world = World::with_all_states();
    world.decide("supersede", "no", &[]).expect(0);
    assert_eq!(world.put("no", Ok(receipt("no"))), Ok(receipt("no")));
}

#[test]
fn a_decision_needs_somebody_and_a_reason() {
    let world = World::with_all_states();
    let version = world.show("hm")["version"].to_string();
    let base = ["effects", "resolve", "crm-ticket/hm", "--version", &version];
    for how in [
        &["--reason", "x"][..],                                 // no decision
        &["--reason", "x", "--done", "--failed"],               // two
        &["--failed"],                                          // no reason
        &["--failed", "--reason", "  "],                        // an empty one
        &["--failed", "--reason", "x", "--actor", ""],          // nobody
        &["--failed", "--reason", "x", "--receipt", "{}"],      // a receipt of what failed
        &["--retry", "--reason", "x", "--receipt", "{}"],       // or is to be sent
        &["--done", "--reason", "x", "--receipt", "{not json"], // no JSON
    ] {
        let ended = world.semel(&[&base[..], how].concat());
        assert_eq!(ended.code, Some(2), "{how:?}: {ended:?}");
    }
    assert_eq!(world.state("hm"), "in_doubt");
    assert_eq!(world.show("hm")["decisions"], Value::Null);
}

/// No worker runs, so nobody has recorded that the attempt is in doubt. The operator still sees it,
/// and need not wait for the lease of a process that is proven dead.
#[test]
fn a_dead_workers_doubt_is_listed_and_settled_before_anybody_recorded_it() {
    let world = World::new();
    world.crm.script("cut", &["hold"]);
    let mut worker = world.worker("at_most_once", &["cut"]);
    until("the CRM holds", || (!world.crm.did("held", "cut").is_empty()).then_some(()));
    let pending = ["effects", "ls", "--state", "pending", "--json"];
    let in_doubt = ["effects", "ls", "--state", "in_doubt", "--json"];
    let count = |args: &[&str]| {
        let page = world.semel(args).expect(0).json();
        page["items"].as_array().map(Vec::len)
    };
    assert_eq!((count(&pending), count(&in_doubt)), (Some(1), Some(0)));
    worker.kill();
    assert_eq!((count(&pending), count(&in_doubt)), (Some(0), Some(1)));
    let doctor = world.semel(&["doctor"]).expect(1);
    assert!(doctor.stdout.contains("1 in doubt"), "{doctor:?}");
    let shown = world.show("cut");
    assert_eq!(shown["state"], "in_doubt");
    let version = shown["version"].to_string();
    let resolve = ["effects", "resolve", "crm-ticket/cut", "--failed", "--reason", "not there"];
    let person = ["--actor", "ada", "--version", &version, "--json"];
    let settled = world.semel(&[&resolve[..], &person[..]].concat()).expect(0).json();
    assert_eq!(settled["state"], "failed");
    assert_eq!(settled["attempts"][0]["reason"], "not there");
    world.semel(&["verify"]).expect(0);
}

/// An effect whose retry budget is used up.
fn exhaust(world: &World, key: &str) {
    let retry = Retry { attempts_max: 2, total_ms: 60_000, delay_ms: 1, delay_ms_max: 1 };
    world.sdk(async |semel| {
        let effect = semel.effect("crm-ticket").key(key).retry(retry);
        let sent = effect.call(|_| async { Err::<u32, _>(Failure::not_applied("down")) });
        sent.await.expect_err("it is used up");
    });
}

#[test]
fn req_r10_grant_opens_another_budget_for_one_effect_and_for_a_set() {
    let world = World::new();
    for key in ["a-1", "a-2", "b-1"] {
        exhaust(&world, key);
    }
    world.put_done("fine");
    let why = ["--reason", "the relay is back", "--actor", "ada", "--json"];
    let grant = |more: &[&str]| world.semel(&[&["effects", "grant"], more, &why[..]].concat());
    let listed = world.semel(&["effects", "ls", "--exhausted", "--json"]).expect(0).json();
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(3));
    let shown = world.semel(&["effects", "show", "crm-ticket/a-1"]).expect(0);
    assert!(shown.stdout.contains("semel effects grant 'crm-ticket/a-1'"), "{shown:?}");
    let one = grant(&["crm-ticket/a-1"]).expect(0).json();
    assert_eq!(one["decisions"][0]["verdict"], "grant");
    let again = grant(&["crm-ticket/a-1"]).expect(4);
    assert!(again.stderr.contains("not_exhausted"), "{again:?}");
    let counted = grant(&["--action", "crm-ticket", "--dry-run"]).expect(0).json();
    assert_eq!((&counted["exhausted"], &counted["granted"]), (&json!(2), &json!(0)));
    grant(&["--action", "crm-ticket"]).expect(2);
    grant(&[]).expect(2);
    let set = grant(&["--action", "crm-ticket", "--key-prefix", "a-", "--yes"]).expect(0).json();
    assert_eq!((&set["exhausted"], &set["granted"]), (&json!(1), &json!(1)));
    let rest = grant(&["--state", "planned", "--dry-run"]).expect(0).json();
    assert_eq!(rest["effects"], json!(["crm-ticket/b-1"]));
}

/// A charge, then a mail that nobody knows of: a wrong receipt is refused, and nothing is undone.
#[test]
fn req_o8_resolve_refuses_a_receipt_that_does_not_fit_and_the_run_keeps_its_charge() {
    let world = World::new();
    let refunds = Arc::new(AtomicU32::new(0));
    world.sdk(async |semel| {
        let count = refunds.clone();
        let code = move |ctx: Context, (): ()| {
            let count = count.clone();
            async move {
                let charge = ctx.effect("charge").key(["7"]);
                let undo = ctx.undo("refund").key(["7"]);
                let charge = charge.compensate_with(undo, move |_, _: String| {
                    count.fetch_add(1, Ordering::SeqCst);
                    async { Ok::<_, Failure>("back") }
                });
                charge.call(|_| async { Ok::<_, Failure>("ch_1".to_owned()) }).await?;
                let shape = json!({ "type": "object", "required": ["id"] });
                let mail = ctx.effect("mail").key(["7"]).receipt_shape(&shape);
                mail.call(|_| async { Err::<Value, _>(Failure::unknown("cut")) }).await
            }
        };
        drop(semel.worker().workflow("mails", code).start().expect("offered"));
        let run = semel.start("mails").key("7").input(&()).run().await.expect("a run");
        world.reaches(run.id(), "waiting");
        let show = || world.semel(&["effects", "show", "mail/7", "--json"]).expect(0).json();
        let before = show();
        let version = before["version"].to_string();
        let resolve = ["effects", "resolve", "mail/7", "--done", "--version", &version];
        let resolve = [&resolve[..], &["--reason", "seen", "--json"]].concat();
        for wrong in [&[][..], &["--receipt", "null"], &["--receipt", "\"m-7\""]] {
            let refused = world.semel(&[&resolve[..], wrong].concat()).expect(4);
            let error: Value = serde_json::from_str(&refused.stderr).expect("one document");
            assert_eq!(error["error"]["code"], "receipt_invalid", "{refused:?}");
            assert!(refused.stderr.contains("what fits"), "{refused:?}");
            assert_eq!(show(), before, "nothing was recorded");
        }
        world.reaches(run.id(), "waiting");
        let right = ["--receipt", "{\"id\": \"m-7\"}"];
        world.semel(&[&resolve[..], &right].concat()).expect(0);
        assert_eq!(run.result::<Value>().await.expect("done"), json!({ "id": "m-7" }));
    });
    assert_eq!(refunds.load(Ordering::SeqCst), 0);
}
