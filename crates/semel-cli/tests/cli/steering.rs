//! What an operator decides about runs, and signals by hand.

use semel::{Context, Error};
use serde_json::{Value, json};

use crate::assert_plain;
use crate::common::{World, run};
use crate::runs::{kinds, work};

/// Cancels, retries or fails a run, for a reason.
fn decide<'a>(verb: &'a str, name: &'a str) -> Vec<&'a str> {
    vec!["runs", verb, name, "--reason", "as agreed", "--json"]
}

/// The words of `show`, without what differs from run to run.
fn told(text: &str, id: &str) -> Vec<String> {
    let filtered = |line: &str| {
        let mut words: Vec<String> =
            line.replace(id, "ID").split_whitespace().map(str::to_owned).collect();
        for word in &mut words {
            let is_time = word.ends_with('Z') && word.contains('T') && word.contains(':');
            let is_since = word.starts_with('+') && word.len() > 1;
            if is_time {
                *word = "TIME".to_owned();
            } else if is_since {
                *word = "SINCE".to_owned();
            }
        }
        words.join(" ")
    };
    text.lines().map(filtered).collect()
}

#[test]
fn a_paused_run_says_why_and_what_to_do_next() {
    let world = World::new();
    world.sdk(async |semel| {
        work(&semel);
        let id = world.semel(&["runs", "start", "stuck", "--key", "e-1", "--json"]).expect(0);
        let id = id.json()["id"].as_str().expect("an id").to_owned();
        world.reaches(&id, "paused");
        let text = world.semel(&["runs", "show", &id]).expect(0).stdout;
        assert_plain(&text);
        let mut told = told(&text, &id);
        // Which process took it, and where the chain ends.
        let (taken, journal) = (told.remove(10), told.remove(7));
        assert!(taken.starts_with("1 SINCE taken by ") && taken.ends_with("fence 1, release r1"));
        assert!(journal.starts_with("journal 4 entries, hash chain verified up to "), "{journal}");
        let want = [
            "stuck/e-1 is paused",
            "id ID",
            "workflow stuck",
            "key e-1",
            "release r1",
            "waits on operator: retries_exhausted",
            "created TIME",
            "",
            "0 SINCE started input null",
            "2 SINCE step_failed notify#0 attempt 1: the printer is on fire (step_failed)",
            "3 SINCE paused notify#0: failed 1 times, at last: the printer is on fire \
             (retries_exhausted)",
            "",
            "It is paused on notify#0 (retries_exhausted): correct the cause, then `semel runs \
             retry` or `skip`. One of:",
            "semel runs retry ID --reason '…'",
            "semel runs skip ID 'notify#0' --value '{…}' --reason '…'",
            "semel runs fail ID --reason '…'",
            "semel runs cancel ID --reason '…'",
        ];
        assert_eq!(told, want);
        let run = world.run(&id);
        assert_eq!(run["paused"]["code"], "retries_exhausted");
        assert!(run["paused"]["hint"].is_string() && run["paused"]["at"].is_string(), "{run}");
    });
}

#[test]
fn a_paused_run_is_retried_skipped_or_failed_and_the_journal_says_by_whom() {
    let world = World::new();
    world.sdk(async |semel| {
        work(&semel);
        let id = world.start("stuck", "e-1", "null");
        world.reaches(&id, "paused");
        let retried = world.semel(&decide("retry", &id)).expect(0).json();
        assert_eq!(retried["state"], "ready");
        let again = std::iter::repeat_with(|| world.reaches(&id, "paused"));
        let run = again
            .take(400)
            .find(|run| kinds(run).iter().filter(|kind| **kind == "paused").count() == 2);
        let run = run.expect("it pauses again");
        let resumed = run["entries"].as_array().expect("it").iter();
        let resumed = resumed.clone().find(|entry| entry["kind"] == "resumed").expect("a decision");
        assert_eq!((&resumed["actor"], &resumed["reason"]), (&json!("ada"), &json!("as agreed")));
        let skip = ["--value", "{\"id\": 9007199254740993}", "--reason", "known", "--actor", "bob"];
        let wrong =
            world.semel(&[&["runs", "skip", &id, "notify#1"], &skip[..]].concat()).expect(4);
        assert!(wrong.stderr.contains("paused on `notify#0`"), "{wrong:?}");
        let skipped = world.semel(&[&["runs", "skip", &id, "notify#0"], &skip[..]].concat());
        assert!(skipped.expect(0).stdout.starts_with("stuck/e-1 is ready\n"));
        world.reaches(&id, "done");
        let text = world.semel(&["runs", "show", &id]).expect(0).stdout;
        let value = "notify#0  by bob: known; its value is {\"id\": 9007199254740993}\n";
        assert!(text.contains(value), "{text}");
        let other = world.start("stuck", "e-2", "null");
        world.reaches(&other, "paused");
        let failed = world.semel(&decide("fail", &other)).expect(0).json();
        assert_eq!(failed["state"], "failed");
        let run = world.run(&other);
        let last = run["entries"].as_array().expect("it").last().expect("an end").clone();
        assert_eq!(
            (&last["end"], &last["fault"]["code"]),
            (&json!("failed"), &json!("retries_exhausted"))
        );
    });
}

#[test]
fn decisions_that_do_not_fit_are_refused_with_four() {
    let world = World::new();
    world.sdk(async |semel| {
        work(&semel);
        world.start("gate", "e-1", "null");
        world.reaches("gate/e-1", "waiting");
        for verb in ["retry", "fail"] {
            let refused = world.semel(&decide(verb, "gate/e-1")).expect(4);
            let error: Value = serde_json::from_str(&refused.stderr).expect("one document");
            assert_eq!(error["error"]["code"], "not_paused", "{verb}");
        }
        world.start("add", "e-1", "[1, 2]");
        world.reaches("add/e-1", "done");
        for verb in ["cancel", "retry", "fail"] {
            let refused = world.semel(&decide(verb, "add/e-1")).expect(4);
            assert!(refused.stderr.contains("run_finished"), "{verb}: {refused:?}");
        }
        let late = world.semel(&["signals", "send", "add/e-1", "approve"]).expect(4);
        assert!(late.stderr.contains("run_finished"), "{late:?}");
    });
}

#[test]
fn bug_inngest_2531_cancel_ends_a_run_that_nobody_works_on() {
    let world = World::new();
    world.sdk(async |_| {});
    let id = world.start("nobody", "e-1", "null");
    let cancelled = world.semel(&decide("cancel", &id)).expect(0).json();
    assert_eq!(cancelled["state"], "cancelled");
    assert_eq!(cancelled["cancel"]["actor"], "ada");
    assert_eq!(kinds(&world.run(&id)).last(), Some(&"finished"));
    let again = world.semel(&decide("cancel", &id)).expect(0).json();
    assert_eq!(again["cancel"], cancelled["cancel"], "the first asker stands");
    world.sdk(async |semel| {
        work(&semel);
        for (workflow, state) in [("gate", "waiting"), ("stuck", "paused")] {
            let id = world.start(workflow, "e-1", "null");
            world.reaches(&id, state);
            world.semel(&decide("cancel", &id)).expect(0);
            let run = world.reaches(&id, "cancelled");
            let entry = run["entries"].as_array().expect("it").last().expect("an end").clone();
            assert_eq!(
                (&entry["end"], &entry["reason"]),
                (&json!("cancelled"), &json!("as agreed"))
            );
        }
    });
}

#[test]
fn a_signal_is_delivered_once_also_when_it_comes_early() {
    let world = World::new();
    world.sdk(async |_| {});
    world.start("gate", "e-1", "null");
    let send = |payload: &str| {
        let args = ["signals", "send", "gate/e-1", "approve", "--id", "d-1", "--payload", payload];
        world.semel(&args)
    };
    assert_eq!(send("{\"yes\":true}").expect(0).stdout, "approve delivered as d-1\n");
    let again = send("{\"yes\":true}").expect(0).stdout;
    assert_eq!(again, "approve repeated: it had been delivered as d-1\n");
    let other = send("{\"yes\":false}").expect(4);
    assert!(other.stderr.contains("the first stands (input_changed)"), "{other:?}");
    world.sdk(async |semel| {
        work(&semel);
        let run = world.reaches("gate/e-1", "done");
        let received = &run["entries"][2];
        assert_eq!((&received["kind"], &received["delivery"]), (&json!("received"), &json!("d-1")));
        assert_eq!(received["value"], json!({ "yes": true }));
        world.start("gate", "e-2", "null");
        world.reaches("gate/e-2", "waiting");
        let text = world.semel(&["runs", "show", "gate/e-2"]).expect(0).stdout;
        assert!(text.contains("\nIt waits on signal approve (signal approve#0)\n"), "{text}");
        assert!(text.contains("  semel signals send ") && text.contains("'approve'"), "{text}");
        let args = ["signals", "send", "gate/e-2", "approve", "--json"];
        let sent = world.semel(&args).expect(0).json();
        assert_eq!((&sent["name"], &sent["repeated"]), (&json!("approve"), &json!(false)));
        assert!(sent["identity"].is_string() && sent["run"].is_string(), "{sent}");
        world.reaches("gate/e-2", "done");
    });
}

#[test]
fn inv_i12_show_prints_both_sides_of_a_divergence() {
    async fn before(ctx: Context, (): ()) -> Result<(), Error> {
        ctx.step("classify", || async { Ok(1) }).await?;
        ctx.wait_for_signal("go").await
    }
    async fn after(ctx: Context, (): ()) -> Result<(), Error> {
        ctx.step("summarise", || async { Ok(1) }).await?;
        ctx.wait_for_signal("go").await
    }
    let world = World::new();
    world.sdk(async |semel| {
        semel.worker().workflow("moved", before).start().expect("it");
        world.start("moved", "e-1", "null");
        world.reaches("moved/e-1", "waiting");
    });
    world.semel(&["signals", "send", "moved/e-1", "go"]).expect(0);
    world.sdk(async |semel| {
        semel.worker().workflow("moved", after).start().expect("it");
        let run = world.reaches("moved/e-1", "paused");
        let text = world.semel(&["runs", "show", "moved/e-1"]).expect(0).stdout;
        assert_plain(&text);
        let told = told(&text, run["id"].as_str().expect("an id"));
        let place = told.iter().position(|line| line.contains("SINCE paused")).expect("a pause");
        assert!(told[place].ends_with("says (diverged)"), "{text}");
        assert_eq!(
            told[place + 1..place + 3],
            ["- journal: classify#0 (step)", "+ code: summarise#0 (step)",]
        );
        assert!(text.contains("deploy code that fits the journal"), "{text}");
    });
}

/// In most containers no name is set.
#[test]
fn who_decides_is_the_user_id_where_no_name_is_set() {
    let world = World::new();
    world.sdk(async |semel| {
        work(&semel);
        world.semel(&["runs", "start", "stuck", "--key", "e-1"]).expect(0);
        world.reaches("stuck/e-1", "paused");
        let mut command = world.command();
        command.args(["runs", "fail", "stuck/e-1", "--reason", "as agreed"]).env_remove("USER");
        run(&mut command).expect(0);
        let shown = world.semel(&["audit", "ls", "--json"]).expect(0).stdout;
        assert!(shown.contains("\"uid-"), "{shown}");
    });
}
