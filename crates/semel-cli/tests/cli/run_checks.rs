//! `semel verify` and `semel doctor` on runs that are well and runs that are not.

use std::time::Duration;

use semel::{Context, Contract, Error, Failure, NativeKey, Retry};
use serde_json::{Value, json};

use crate::checks::{finding, tamper};
use crate::common::{Ended, World};
use crate::runs::work;

/// Waits for a person: its effect is in doubt.
async fn doubtful(ctx: Context, (): ()) -> Result<Value, Error> {
    let effect = ctx.effect("mail").key(["7"]).contract(Contract::AtMostOnce).retry(Retry::NONE);
    effect.call(|_| async { Err(Failure::unknown("no answer")) }).await
}

/// A run in each state that can last.
pub(crate) fn with_runs() -> World {
    let world = World::new();
    world.sdk(async |semel| {
        work(&semel);
        semel.worker().workflow("doubtful", doubtful).start().expect("it");
        world.start("add", "e-1", "[1, 2]");
        world.start("gate", "e-1", "null");
        world.start("stuck", "e-1", "null");
        world.start("doubtful", "e-1", "null");
        world.start("idle", "e-1", "null");
        for (name, state) in [("add", "done"), ("gate", "waiting"), ("stuck", "paused")] {
            world.reaches(&format!("{name}/e-1"), state);
        }
        let run = world.reaches("doubtful/e-1", "waiting");
        assert_eq!(run["waits_on"], "effect mail/7");
    });
    world
}

#[test]
fn verify_counts_every_run_in_one_state_and_finds_nothing_in_good_ones() {
    let world = with_runs();
    let verified = world.semel(&["verify", "--json"]).expect(0).json();
    let states = json!({ "done": 1, "paused": 1, "ready": 1, "waiting": 2 });
    assert_eq!((&verified["runs"], &verified["run_states"]), (&json!(5), &states));
    assert_eq!((&verified["effects"], &verified["violations"]), (&json!(1), &json!([])));
    let text = world.semel(&["verify"]).expect(0).stdout;
    assert!(text.contains("5 runs: 1 done, 1 paused, 1 ready, 2 waiting\n"), "{text}");
    // Woken, and not taken yet: nobody works here.
    world.semel(&["signals", "send", "gate/e-1", "approve"]).expect(0);
    let version = world.semel(&["effects", "show", "mail/7", "--json"]).expect(0).json();
    let version = version["version"].to_string();
    let said = ["--failed", "--version", &version, "--reason", "x"];
    world.semel(&[&["effects", "resolve", "mail/7"], &said[..]].concat()).expect(0);
    world.semel(&["verify"]).expect(0);
}

#[test]
fn show_of_a_run_that_waits_for_a_doubt_names_the_effect_and_its_attempts() {
    let world = with_runs();
    let text = world.semel(&["runs", "show", "doubtful/e-1"]).expect(0).stdout;
    for part in [
        "\n  waits on   effect mail/7\n",
        "  mail#0  effect mail/7\n",
        "at_most_once, in_doubt in the ledger\n",
        "attempt 1 send unknown under fence 1 by ",
        ": no answer\n",
        "\nIt waits on effect mail/7 (mail#0)\n  semel effects show 'mail/7'\n",
    ] {
        assert_eq!(text.matches(part).count(), 1, "{part:?}: {text}");
    }
}

#[test]
fn show_of_an_effect_says_that_its_code_never_read_the_key() {
    let world = World::new();
    world.sdk(async |semel| {
        let effect = semel.effect("mail").key("9").contract(NativeKey::hours(24));
        let effect = effect.retry(Retry::NONE);
        let sent = effect.call(|_| async { Err::<String, _>(Failure::unknown("no answer")) }).await;
        sent.expect_err("nobody knows");
        let text = world.semel(&["effects", "show", "mail/9"]).expect(0).stdout;
        assert!(text.contains("its code never read the downstream key"), "{text}");
    });
}

/// Whatever moves on between two reads is no finding.
#[test]
fn verify_beside_busy_workers_finds_nothing() {
    async fn busy(ctx: Context, number: u32) -> Result<u32, Error> {
        let effect = ctx.effect("busy").key([number.to_string()]).contract(Contract::Harmless);
        let sent: u32 = effect.call(move |_| async move { Ok::<_, Failure>(number) }).await?;
        let more: u32 = ctx.wait_for_signal("more").await?;
        ctx.sleep(Duration::from_millis(5)).await?;
        ctx.step("add", move || async move { Ok(sent + more) }).await
    }
    let world = World::new();
    world.sdk(async |semel| {
        semel.worker().workflow("busy", busy).start().expect("it");
        let runs = semel.clone();
        let work = tokio::spawn(async move {
            for number in 0..300_u32 {
                let run = runs.start("busy").key(number.to_string()).input(&number);
                let run = run.run().await.expect("it starts");
                run.signal("more", "m", &1).await.expect("it is delivered");
                if number % 3 == 0 {
                    run.result::<u32>().await.expect("it ends");
                }
            }
        });
        let mut looks = 0;
        while !work.is_finished() || looks < 3 {
            let verified = world.semel(&["verify", "--json"]).expect(0).json();
            assert_eq!(verified["violations"], json!([]));
            looks += 1;
        }
        work.await.expect("all were started");
    });
}

fn found(verified: &Ended, invariant: &str) -> bool {
    let verified = verified.json();
    let mut found = verified["violations"].as_array().expect("a list").iter();
    found.any(|one| one["invariant"] == invariant)
}

#[test]
fn verify_finds_what_was_changed_behind_a_run() {
    let check = |statement: &str, invariant: &str| {
        let world = with_runs();
        world.semel(&["signals", "send", "gate/e-1", "approve"]).expect(0);
        tamper(&world, statement);
        let verified = world.semel(&["verify", "--json"]).expect(1);
        assert!(found(&verified, invariant), "{statement}: {verified:?}");
    };
    check("UPDATE journal SET entry = replace(entry, '[1, 2]', '[1, 3]')", "I11");
    let last = "(SELECT max(seq) FROM journal AS j WHERE j.run = journal.run)";
    check(&format!("DELETE FROM journal WHERE entry LIKE '%finished%' AND seq = {last}"), "I11");
    check("DELETE FROM journal WHERE seq = 1", "I11");
    check("UPDATE runs SET state = 'done' WHERE workflow = 'gate'", "I11");
    check("DELETE FROM runs WHERE workflow = 'add'", "I11");
    // The signal is in the inbox, and nothing will look.
    check("UPDATE runs SET wake_at = NULL WHERE workflow = 'gate'", "I14");
    check("DELETE FROM effects WHERE action = 'mail'", "I14");
}

#[test]
fn inv_i11_a_run_whose_journal_was_edited_is_not_shown_as_verified() {
    let world = with_runs();
    tamper(&world, "UPDATE journal SET entry = replace(entry, '[1, 2]', '[1, 3]')");
    for more in [&[][..], &["--json"], &["--follow"]] {
        let ended = world.semel(&[&["runs", "show", "add/e-1"], more].concat()).expect(1);
        assert!(ended.stderr.contains("store_corrupt"), "{ended:?}");
        assert_eq!(ended.stdout, "", "nothing is told that cannot be trusted");
    }
}

#[test]
fn doctor_counts_open_runs_and_names_those_that_stand_still() {
    let world = with_runs();
    let doctor = world.semel(&["doctor", "--json"]).expect(1).json();
    let runs = finding(&doctor, "runs");
    assert_eq!(
        (&runs["ok"], &runs["says"]),
        (&json!(false), &json!("1 ready, 2 waiting, 1 paused"))
    );
    assert_eq!(runs["fix"], "semel runs ls --state paused");
    world.semel(&["runs", "fail", "stuck/e-1", "--reason", "x"]).expect(0);
    let doctor = world.semel(&["doctor", "--json"]).expect(1).json();
    assert_eq!(finding(&doctor, "runs")["ok"], true, "{doctor}");
}
