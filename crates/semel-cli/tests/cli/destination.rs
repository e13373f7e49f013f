//! `semel check destination`: what a vendor claims, and what its destination does.

use semel::{Approval, Context, Error, Failure, Intent, NativeKey, classify};
use semel_check::double::{Applied, Double, Fault, Kind, Mode, Script};
use serde_json::{Value, json};

use crate::common::{Ended, World, run, semel};

const BODY: &str = r#"{"reference": "{reference}", "subject": "Help"}"#;

fn check(double: &Double, more: &[&str]) -> Ended {
    let url = format!("{}/tickets", double.url());
    run(semel().args(["check", "destination", &url, "--body", BODY]).args(more))
}

/// The verdict on one contract.
fn verdict(said: &Value, contract: &str) -> String {
    let verdicts = said["verdicts"].as_array().expect("a list");
    let found = verdicts.iter().find(|verdict| verdict["contract"] == contract);
    found.expect("all are judged")["verdict"].as_str().expect("a word").to_owned()
}

#[test]
fn a_claim_that_holds_ends_with_zero_and_one_that_does_not_with_one() {
    let honest = Double::start(Mode::Keys).expect("a double");
    let said = check(&honest, &["--claims", "native_key", "--json"]).expect(0);
    assert!(said.stderr.contains("real requests"), "{said:?}");
    let said = said.json();
    assert_eq!(said["honours"], "native_key");
    assert_eq!(said["claim"], json!({ "contract": "native_key", "verdict": "holds" }));
    assert_eq!(said["trials"].as_array().expect("a list").len(), 6);

    let plain = Double::start(Mode::Plain).expect("a double");
    let said = check(&plain, &["--claims", "native_key"]).expect(1);
    assert!(said.stdout.contains("the repeat made another: tickets-1, then tickets-2"), "{said:?}");
    assert!(said.stdout.contains("honours at_most_once"), "{said:?}");
    assert!(said.stderr.contains("the claim native_key is broken"), "{said:?}");
    let said = check(&plain, &["--json"]).expect(0).json();
    assert_eq!(
        (verdict(&said, "native_key"), said["claim"].clone()),
        ("broken".into(), json!(null))
    );
    check(&plain, &["--claims", "at_most_once"]).expect(0);
    // What nobody tried was not shown, and that is no holding either.
    let said = check(&plain, &["--claims", "probe"]).expect(1);
    assert!(said.stderr.contains("the claim probe was not shown"), "{said:?}");
}

#[test]
fn nothing_is_sent_abroad_without_a_yes_and_slips_are_usage() {
    let line = |args: &[&str]| run(semel().args(["check", "destination"]).args(args));
    let said = line(&["https://sandbox.example.com/v1/charges"]).expect(2);
    assert!(said.stderr.contains("nothing was sent"), "{said:?}");
    assert!(said.stderr.contains("--sandbox-yes"), "{said:?}");
    line(&["http://127.0.0.1:1/a", "--claims", "magic"]).expect(2);
    line(&["http://127.0.0.1:1/a", "--body", "no such file"]).expect(2);
    line(&["http://127.0.0.1:1/a", "--header", "no colon"]).expect(2);
    line(&["http://127.0.0.1:1/a", "--wait", "soon"]).expect(2);
    // Nobody is there: that is no broken claim.
    line(&["http://127.0.0.1:1/a", "--claims", "native_key"]).expect(75);
}

#[test]
fn headers_pointers_and_lookups_reach_the_destination() {
    let script = json!({ "routes": [
        { "method": "POST", "path": "/tickets", "mode": "lookup", "key_header": "X-Key",
          "answer": { "data": { "number": "{id}" } } },
        { "method": "GET", "path": "/search", "of": "/tickets",
          "answer": { "hits": { "total": "{count}" } } },
    ] });
    let script = Script::from_json(&script.to_string()).expect("a script");
    let double = Double::start(script).expect("a double");
    let lookup = format!("{}/search?reference={{reference}}", double.url());
    let more = ["--lookup", &lookup, "--found", "/hits/total", "--id", "/data/number"];
    let more = [&more[..], &["--key-header", "X-Key", "--claims", "probe", "--json"]].concat();
    let said = check(&double, &more).expect(0).json();
    assert_eq!((&said["honours"], &said["search"]["after"]), (&json!("probe"), &json!(1)));
    assert!(
        double.book().iter().any(|entry| entry.key.is_some()),
        "the key was where it was asked"
    );
}

/// Sends one letter, once somebody has approved it; its vendor says that it honours keys.
async fn letter(ctx: Context, url: String) -> Result<Value, Error> {
    ctx.effect("letter")
        .key(["l-1"])
        .input(&json!({ "subject": "Help" }))
        .approval(Approval::required())
        .contract(NativeKey::hours(24))
        .call(move |intent| send(url.clone(), intent))
        .await
}

async fn send(url: String, intent: Intent) -> Result<Value, Failure> {
    // One connection each: a pool would send again on its own when an answer is cut.
    let client = reqwest::Client::builder().pool_max_idle_per_host(0).build()?;
    let request = client.post(format!("{url}/tickets")).json(&json!({ "subject": "Help" }));
    let request = request.header("Idempotency-Key", intent.downstream_key());
    Ok(classify::send(request).await?.json().await?)
}

/// A run that waits for a person while no process works it, and then loses an answer. Gives what
/// the ledger says at the end, and the key it had on record before the pause.
fn run_that_pauses(world: &World, double: &Double) -> (Value, String) {
    let show = || world.semel(&["effects", "show", "letter/l-1", "--json"]).expect(0).json();
    let input = json!(double.url()).to_string();
    world.sdk(async |semel| {
        semel.worker().workflow("letter", letter).start().expect("it is offered");
        world.start("letter", "l-1", &input);
        world.reaches("letter/l-1", "waiting");
    });
    assert_eq!(double.counts().requests, 0, "nothing goes before the yes");
    let key = show()["downstream_key"].as_str().expect("it is on record").to_owned();
    world.semel(&["approvals", "approve", "letter/l-1"]).expect(0);
    double.arm(Fault::at(Kind::CutAfter, 1)).expect("a fault");
    world.sdk(async |semel| {
        semel.worker().workflow("letter", letter).start().expect("it is offered");
        world.reaches("letter/l-1", "done");
    });
    (show(), key)
}

#[test]
fn req_s6_identity_is_stored_kept_through_pauses_and_a_duplicate_shows() {
    let honest = Double::start(Mode::Keys).expect("a double");
    let world = World::new();
    let (effect, key) = run_that_pauses(&world, &honest);
    let book = honest.book();
    let seen: Vec<_> = book.iter().map(|entry| (entry.key.as_deref(), entry.applied)).collect();
    let want = [(Some(key.as_str()), Applied::Created), (Some(&key), Applied::Replayed)];
    assert_eq!(seen, want, "one identity before the pause, at the send and at the repeat");
    assert_eq!(effect["receipt"]["id"], "tickets-1", "the repeat got the first receipt");
    assert_eq!(effect["attempts"].as_array().expect("a list").len(), 2, "both are on record");
    check(&honest, &["--claims", "native_key"]).expect(0);

    // The same claim from a vendor that does not keep it.
    let liar = Double::start(Mode::Plain).expect("a double");
    let world = World::new();
    let (effect, key) = run_that_pauses(&world, &liar);
    let keys: Vec<_> = liar.book().into_iter().map(|entry| entry.key).collect();
    assert_eq!(keys, [Some(key.clone()), Some(key)], "the identity was kept here, too");
    assert_eq!(liar.counts().applied, 2, "and yet there are two");
    // What the logs show of it: two attempts under one key, and a receipt that is not the first.
    assert_eq!(effect["attempts"].as_array().expect("a list").len(), 2);
    assert_eq!(effect["receipt"]["id"], "tickets-2");
    let said = check(&liar, &["--claims", "native_key"]).expect(1);
    assert!(said.stdout.contains("BROKEN: the repeat made another"), "{said:?}");
}
