//! `semel runs ls`, `show` and `start`, beside a worker in this process.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

use semel::{Context, Error, Failure, NativeKey, Retry, Semel};
use serde_json::{Value, json};

use crate::assert_plain;
use crate::common::{Ended, World, semel};

/// Tries again at once.
const AT_ONCE: Retry = Retry { attempts_max: 3, total_ms: 60_000, delay_ms: 1, delay_ms_max: 1 };

/// Workflows of every kind that the commands meet.
pub(crate) fn work(semel: &Semel) {
    let worker = semel.worker().release("r1");
    let worker = worker.workflow("add", add).workflow("ticket", ticket).workflow("gate", gate);
    worker
        .workflow("flaky", flaky)
        .workflow("stuck", stuck)
        .workflow("large", large)
        .start()
        .expect("they are offered");
}

async fn add(ctx: Context, (a, b): (u32, u32)) -> Result<u32, Error> {
    let twice = ctx.step("twice", move || async move { Ok(a * 2) }).await?;
    ctx.step("more", move || async move { Ok(twice + b) }).await
}

async fn ticket(ctx: Context, id: String) -> Result<String, Error> {
    let effect = ctx.effect("crm-ticket").key([id]).contract(NativeKey::hours(24));
    effect
        .call(|intent| {
            let _ = intent.downstream_key();
            async { Ok::<_, Failure>("T-1".to_owned()) }
        })
        .await
}

async fn gate(ctx: Context, (): ()) -> Result<Value, Error> {
    ctx.wait_for_signal("approve").await
}

async fn flaky(ctx: Context, (): ()) -> Result<u32, Error> {
    let tries = std::sync::atomic::AtomicU32::new(0);
    let step = ctx.step("flaky", move || {
        let attempt = tries.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1;
        async move { if attempt < 3 { Err(Failure::unknown("no luck")) } else { Ok(attempt) } }
    });
    step.retry(AT_ONCE).await
}

/// Stands still on its step; whoever gives it a value gets it back.
async fn stuck(ctx: Context, (): ()) -> Result<Value, Error> {
    ctx.step("notify", || async { Err(Failure::unknown("the printer is on fire")) })
        .retry(Retry::NONE)
        .await
}

async fn large(ctx: Context, kib: usize) -> Result<usize, Error> {
    let text: String = ctx.step("write", move || async move { Ok("x".repeat(kib * 1024)) }).await?;
    Ok(text.len())
}

impl World {
    /// Starts a run by hand and returns its id.
    pub(crate) fn start(&self, workflow: &str, key: &str, input: &str) -> String {
        let args = ["runs", "start", workflow, "--key", key, "--input", input, "--json"];
        let started = self.semel(&args).expect(0).json();
        started["id"].as_str().expect("an id").to_owned()
    }

    /// Where a run stands.
    pub(crate) fn run(&self, name: &str) -> Value {
        self.semel(&["runs", "show", name, "--json"]).expect(0).json()
    }

    /// Waits until a run stands so.
    pub(crate) fn reaches(&self, name: &str, state: &str) -> Value {
        let started = Instant::now();
        loop {
            let run = self.run(name);
            if run["state"] == state {
                return run;
            }
            let is_late = started.elapsed() > Duration::from_secs(40);
            assert!(!is_late && run.get("ended_at").is_none(), "not {state}: {run}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A store with a worker that has no runs yet.
fn with_store() -> World {
    let world = World::new();
    world.sdk(async |_| {});
    world
}

pub(crate) fn kinds(run: &Value) -> Vec<&str> {
    let entries = run["entries"].as_array().expect("entries").iter();
    entries.map(|entry| entry["kind"].as_str().expect("a kind")).collect()
}

#[test]
fn req_t1_a_start_makes_a_run_once_and_every_other_attaches() {
    let world = with_store();
    let args = ["runs", "start", "add", "--key", "e-1", "--input", "[20, 2]"];
    let first = world.semel(&args).expect(0);
    assert!(first.stdout.ends_with("\tready\tstarted\n"), "{first:?}");
    let again = world.semel(&[&args[..], &["--json"]].concat()).expect(0).json();
    assert_eq!((&again["attached"], &again["state"]), (&json!(true), &json!("ready")));
    assert_eq!(first.stdout.split('\t').next(), again["id"].as_str());
    assert_eq!((&again["workflow"], &again["key"]), (&json!("add"), &json!("e-1")));
    let other = world.semel(&["runs", "start", "add", "--key", "e-1", "--json"]).expect(4);
    let error: Value = serde_json::from_str(&other.stderr).expect("one document");
    assert_eq!(error["error"]["code"], "input_changed");
    assert!(error["error"]["hint"].as_str().is_some_and(|hint| hint.contains("another run")));
    // Without a key each start is a run of its own.
    let id = || world.semel(&["runs", "start", "add", "--json"]).expect(0).json()["id"].clone();
    assert_ne!(id(), id());
}

#[test]
fn start_waits_for_the_result_and_reads_its_input_from_a_file_or_stdin() {
    let world = with_store();
    let file = world.dir.path().join("input.json");
    std::fs::write(&file, "[20, 2]\n").expect("a file");
    world.sdk(async |semel| {
        work(&semel);
        let file = file.to_str().expect("a path");
        let waited = world.semel(&["runs", "start", "add", "--input-file", file, "--wait"]);
        assert_eq!(waited.expect(0).stdout, "42\n", "the result alone is data");
        let args = ["runs", "start", "add", "--input", "[1,1]", "--wait", "--json"];
        let waited = world.semel(&args).expect(0).json();
        assert_eq!((&waited["state"], &waited["result"]), (&json!("done"), &json!(3)));
        let url = format!("sqlite:{}", world.store().display());
        let mut command = self::semel();
        command.args(["--store", &url, "runs", "start", "add", "--input-file", "-", "--wait"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("it");
        child.stdin.take().expect("stdin").write_all(b"[2, 3]").expect("it reads");
        assert_eq!(child.wait_with_output().expect("it ends").stdout, b"7\n");
        let paused = world.semel(&["runs", "start", "stuck", "--wait"]).expect(4);
        assert!(paused.stderr.contains("run_paused"), "{paused:?}");
        let unfit = world.semel(&["runs", "start", "add", "--input", "{}", "--wait"]).expect(1);
        assert!(unfit.stderr.contains("input_invalid"), "its own code: {unfit:?}");
    });
    let missing = world.semel(&["runs", "start", "add", "--input-file", "no/such"]).expect(1);
    assert!(missing.stderr.contains("no/such"), "{missing:?}");
}

#[test]
fn a_deadline_ends_a_run_that_nobody_would_end() {
    let world = with_store();
    world.sdk(async |semel| {
        work(&semel);
        let args = ["runs", "start", "gate", "--deadline", "100ms", "--wait"];
        let ended = world.semel(&args).expect(1);
        assert!(ended.stderr.contains("deadline_passed"), "{ended:?}");
    });
}

fn listed(world: &World, args: &[&str]) -> BTreeSet<String> {
    let page = world.semel(&[&["runs", "ls", "--json"], args].concat()).expect(0).json();
    let items = page["items"].as_array().expect("items").iter();
    items.map(|run| run["key"].as_str().expect("a key").to_owned()).collect()
}

#[test]
fn ls_lists_newest_first_filters_and_goes_page_by_page() {
    let world = with_store();
    for number in 0..5 {
        world.start("later", &format!("k{number}"), "null");
        // The order of two starts in one millisecond is not told.
        std::thread::sleep(Duration::from_millis(2));
    }
    world.start("other", "k9", "null");
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let mut args = vec!["runs", "ls", "--json", "--workflow", "later", "--limit", "2"];
        args.extend(after.as_deref().map(|after| ["--after", after]).into_iter().flatten());
        let page = world.semel(&args).expect(0).json();
        let items = page["items"].as_array().expect("items").iter();
        seen.extend(items.map(|run| run["key"].as_str().expect("a key").to_owned()));
        match &page["next"] {
            Value::Null => break,
            next => after = Some(next.to_string()),
        }
    }
    assert_eq!(seen, ["k4", "k3", "k2", "k1", "k0"]);
    let keys = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(listed(&world, &["--workflow", "other"]), keys(&["k9"]));
    assert_eq!(listed(&world, &["--key", "k3", "--state", "ready"]), keys(&["k3"]));
    assert_eq!(listed(&world, &["--state", "done"]), keys(&[]));
    assert_eq!(listed(&world, &["--namespace", "another"]), keys(&[]));
    let text = world.semel(&["runs", "ls", "--workflow", "other"]).expect(0);
    assert_plain(&text.stdout);
    let lines: Vec<Vec<&str>> =
        text.stdout.lines().map(|line| line.split('\t').collect()).collect();
    let headings = ["ID", "WORKFLOW", "KEY", "STATE", "RELEASE", "WAITS ON", "PARENT", "CREATED"];
    assert_eq!(lines[0], headings);
    assert_eq!(lines[1][1..7], ["other", "k9", "ready", "", "", ""]);
    let more = world.semel(&["runs", "ls", "--limit", "2"]).expect(0);
    assert!(more.stderr.contains("more: add --after"), "{more:?}");
}

#[test]
fn show_json_has_every_entry_with_its_value_and_the_effects_of_the_run() {
    let world = with_store();
    world.sdk(async |semel| {
        work(&semel);
        let id = world.start("ticket", "e-1", "\"42\"");
        let run = world.reaches("ticket/e-1", "done");
        assert_eq!(run["id"], id.as_str());
        assert_eq!(kinds(&run), ["started", "taken", "planned", "effect", "finished"]);
        assert_eq!(run["chain_verified"], true);
        assert!(run["head"].as_str().is_some_and(|head| head.len() == 64), "{run}");
        assert!(run["ended_at"].is_string() && run["replays_until"].is_string(), "{run}");
        let entries = run["entries"].as_array().expect("entries");
        for (seq, entry) in entries.iter().enumerate() {
            assert_eq!(entry["seq"], seq);
            assert!(entry["at"].as_str().is_some_and(|at| at.ends_with('Z')), "{entry}");
        }
        assert_eq!(
            (&entries[0]["workflow"], &entries[0]["value"]),
            (&json!("ticket"), &json!("42"))
        );
        assert_eq!((&entries[1]["fence"], &entries[1]["release"]), (&json!(1), &json!("r1")));
        assert_eq!(entries[2]["what"], "effect crm-ticket/42");
        assert_eq!(
            (&entries[3]["id"], &entries[3]["value"]),
            (&json!("crm-ticket#0"), &json!("T-1"))
        );
        assert_eq!((&entries[4]["end"], &entries[4]["value"]), (&json!("done"), &json!("T-1")));
        let effect = &run["effects"][0];
        assert_eq!((&effect["state"], &effect["run"]), (&json!("done"), &json!(id)));
        let text = world.semel(&["runs", "show", &id]).expect(0).stdout;
        assert_plain(&text);
        assert!(text.starts_with(&format!("ticket/e-1 is done\n  id         {id}\n")), "{text}");
        for part in [
            "5 entries, hash chain verified",
            "crm-ticket#0  effect crm-ticket/42: \"T-1\"\n",
            "native_key, done in the ledger\n",
            "attempt 1 send applied under fence 1 by ",
            "finished     done: \"T-1\"\n",
            "\n  result     \"T-1\"\n",
        ] {
            assert_eq!(text.matches(part).count(), 1, "{part:?}: {text}");
        }
    });
}

#[test]
fn show_tells_a_repeat_that_the_ledger_caught() {
    let world = with_store();
    world.sdk(async |semel| {
        work(&semel);
        world.start("ticket", "e-1", "\"42\"");
        world.reaches("ticket/e-1", "done");
        world.start("ticket", "e-2", "\"42\"");
        let run = world.reaches("ticket/e-2", "done");
        assert_eq!(run["entries"][3]["repeat"], true, "{run}");
        let text = world.semel(&["runs", "show", "ticket/e-2"]).expect(0).stdout;
        assert!(text.contains("crm-ticket/42, answered from the record: \"T-1\"\n"), "{text}");
    });
}

#[test]
fn req_v1_show_tells_failed_attempts_and_the_one_that_worked() {
    let world = with_store();
    world.sdk(async |semel| {
        work(&semel);
        world.start("flaky", "e-1", "null");
        let run = world.reaches("flaky/e-1", "done");
        let failed = ["started", "taken", "step_failed", "step_failed", "step", "finished"];
        assert_eq!(kinds(&run), failed);
        assert_eq!(run["entries"][2]["fault"]["detail"], "no luck");
        assert_eq!(
            (&run["entries"][3]["attempt"], &run["entries"][4]["attempts"]),
            (&json!(2), &json!(3))
        );
        assert!(run["entries"][2]["retry_at"].is_string(), "{run}");
        let text = world.semel(&["runs", "show", "flaky/e-1"]).expect(0).stdout;
        assert!(text.contains("flaky#0  attempt 1, again at "), "{text}");
        assert!(text.contains(": no luck (step_failed)\n"), "{text}");
        assert!(text.contains("flaky#0  3 attempts: 3\n"), "{text}");
        let proof = world.semel(&["proof", "flaky/e-1"]).expect(0).stdout;
        assert!(proof.contains(" step flaky#0\n"), "{proof}");
        assert!(!proof.contains("step step"), "{proof}");
    });
}

#[test]
fn show_says_until_when_a_run_sleeps() {
    async fn nap(ctx: Context, (): ()) -> Result<(), Error> {
        ctx.sleep(Duration::from_secs(3_600)).await
    }
    let world = with_store();
    world.sdk(async |semel| {
        semel.worker().workflow("nap", nap).start().expect("it");
        world.start("nap", "e-1", "null");
        let run = world.reaches("nap/e-1", "waiting");
        assert_eq!(
            (&run["waits_on"], &run["waits"][0]["id"]),
            (&json!("timer"), &json!("sleep#0"))
        );
        let until = run["waits"][0]["until"].as_str().expect("a time");
        assert!(until > run["created_at"].as_str().expect("a time"), "{run}");
        let text = world.semel(&["runs", "show", "nap/e-1"]).expect(0).stdout;
        assert!(text.contains("\nIt waits on timer until 2"), "{text}");
    });
}

#[test]
fn show_returns_large_values_whole_and_does_not_flood_the_screen() {
    let world = with_store();
    world.sdk(async |semel| {
        work(&semel);
        world.start("large", "e-1", "300");
        let run = world.reaches("large/e-1", "done");
        let written = run["entries"][2]["value"].as_str().expect("a text");
        assert_eq!(written.len(), 300 * 1024);
        let text = world.semel(&["runs", "show", "large/e-1"]).expect(0).stdout;
        assert!(text.contains("write#0  1 attempt: a value of 301 KiB\n"), "{text}");
        world.start("gate", "e-2", "null");
        let payload = format!("\"{}\"", "y".repeat(2_000));
        world.semel(&["signals", "send", "gate/e-2", "approve", "--payload", &payload]).expect(0);
        world.reaches("gate/e-2", "done");
        let text = world.semel(&["runs", "show", "gate/e-2"]).expect(0).stdout;
        assert!(text.contains("yyy…\n"), "{text}");
    });
}

fn not_found(ended: Ended) {
    let ended = ended.expect(3);
    assert_eq!(ended.stdout, "", "data only when there is some");
    assert!(ended.stderr.contains("there is no such run (not_found)"), "{ended:?}");
    assert!(ended.stderr.contains("hint: check the id and the namespace with `semel runs ls`"));
}

#[test]
fn a_run_of_another_namespace_is_not_found_like_one_that_is_not_there() {
    let world = with_store();
    let id = world.start("gate", "e-1", "null");
    let person = ["--reason", "x"];
    for name in [id.as_str(), "gate/e-1"] {
        not_found(world.semel(&["runs", "show", name, "--namespace", "another"]));
        not_found(world.semel(&["runs", "show", name, "--follow", "--namespace", "another"]));
        for verb in ["cancel", "retry", "fail"] {
            let args = ["runs", verb, name, "--namespace", "another"];
            not_found(world.semel(&[&args[..], &person].concat()));
        }
        let skip = ["runs", "skip", name, "s#0", "--value", "1", "--namespace", "another"];
        not_found(world.semel(&[&skip[..], &person].concat()));
        not_found(world.semel(&["signals", "send", name, "go", "--namespace", "another"]));
    }
    let twin = ["runs", "start", "gate", "--key", "e-1", "--namespace", "another", "--json"];
    let twin = world.semel(&twin).expect(0).json();
    let shown = world.semel(&["runs", "show", "gate/e-1", "--namespace", "another", "--json"]);
    assert_eq!(shown.expect(0).json()["id"], twin["id"]);
    assert_ne!(twin["id"], json!(id), "the same key in two namespaces is two runs");
    not_found(world.semel(&["runs", "show", "gate/e-2"]));
    not_found(world.semel(&["runs", "show", &id[..8]]));
    let ended = world.semel(&["runs", "show", "gate/e-2", "--json"]).expect(3);
    let error: Value = serde_json::from_str(&ended.stderr).expect("one document");
    assert_eq!(error["error"]["code"], "not_found");
}
