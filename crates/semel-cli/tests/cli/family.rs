//! What `semel runs show` tells of children, undos, slots and entities; and callbacks by hand.

use std::io::Write;
use std::process::Stdio;

use semel::{Code, Context, Error, Failure, Mode, NativeKey, Semel};
use serde_json::{Value, json};

use crate::assert_plain;
use crate::common::{World, semel};

async fn waits(ctx: Context, _: Value) -> Result<Value, Error> {
    ctx.wait_for_signal("go").await
}

async fn parent(ctx: Context, (): ()) -> Result<Value, Error> {
    ctx.child("waits").key(["c"]).input(&json!(null)).result().await
}

async fn holder(ctx: Context, (): ()) -> Result<Value, Error> {
    ctx.entity("ticket:42").await?;
    ctx.wait_for_signal("go").await
}

/// Runs that wait for other runs: `parent/p` for `waits/c`, `holder/2` for `holder/1`, `held/2` for
/// `held/1`.
pub(crate) fn with_waiters(semel: &Semel, world: &World) {
    let worker = semel.worker().workflow("waits", waits).workflow("parent", parent);
    let worker = worker.workflow("holder", holder).workflow("held", waits);
    worker.one_per("{customer}", Mode::Queue).start().expect("they are offered");
    for (workflow, key, input) in [
        ("parent", "p", "null"),
        ("holder", "1", "null"),
        ("holder", "2", "null"),
        ("held", "1", "{\"customer\": \"acme\"}"),
        ("held", "2", "{\"customer\": \"acme\"}"),
    ] {
        world.start(workflow, key, input);
        world.reaches(&format!("{workflow}/{key}"), "waiting");
    }
}

#[test]
fn show_names_the_runs_that_a_run_waits_for() {
    let world = World::new();
    world.sdk(async |semel| with_waiters(&semel, &world));
    for (name, on, before) in [
        ("parent/p", None, "waits/c"),
        ("holder/2", Some("entity ticket:42"), "holder/1"),
        ("held/2", Some("slot held/acme"), "held/1"),
    ] {
        let before = world.run(before)["id"].as_str().expect("an id").to_owned();
        let run = world.run(name);
        assert_eq!(run["waits"][0]["behind"], json!([before]), "{run}");
        let on = on.map_or(format!("run {before}"), str::to_owned);
        assert_eq!(run["waits_on"], on);
        let text = world.semel(&["runs", "show", name]).expect(0).stdout;
        assert_plain(&text);
        assert!(text.contains(&format!("\nIt waits on {on} (")), "{text}");
        assert!(text.contains(&format!("\n  semel runs show {before}\n")), "{text}");
    }
    let (run, child) = (world.run("parent/p"), world.run("waits/c"));
    assert_eq!(child["parent"], run["id"]);
    let told = json!([{
        "command": "waits#0", "id": child["id"], "workflow": "waits", "key": "c",
        "state": "waiting",
    }]);
    assert_eq!(run["children"], told);
    let text = world.semel(&["runs", "show", "parent/p"]).expect(0).stdout;
    let line = format!("  child      waits/c is waiting (waits#0): {}\n", child["id"]);
    assert!(text.contains(&line.replace('"', "")), "{text}");
    let text = world.semel(&["runs", "ls", "--workflow", "waits"]).expect(0).stdout;
    let parent = text.lines().nth(1).and_then(|line| line.split('\t').nth(6));
    assert_eq!(parent, run["id"].as_str());
}

/// Charges, then fails: the charge is taken back.
async fn order(ctx: Context, (): ()) -> Result<(), Error> {
    let undo = ctx.undo("refund").key(["7"]).contract(NativeKey::hours(24));
    let charge = ctx.effect("charge").key(["7"]).contract(NativeKey::hours(24));
    let charge = charge.compensate_with(undo, |intent, charged: String| {
        let _key = intent.downstream_key();
        async move { Ok::<_, Failure>(format!("refund of {charged}")) }
    });
    let charged = charge.call(|intent| {
        let _key = intent.downstream_key();
        async { Ok::<_, Failure>("ch_1".to_owned()) }
    });
    charged.await?;
    Err(Error::new(Code::RunFailed, "nothing left to ship"))
}

#[test]
fn req_o3_show_tells_what_was_taken_back_and_by_what() {
    let world = World::new();
    world.sdk(async |semel| {
        semel.worker().workflow("order", order).start().expect("it");
        world.semel(&["runs", "start", "order", "--key", "7", "--wait"]).expect(1);
    });
    let run = world.run("order/7");
    let undoing = run["entries"].as_array().expect("it").iter();
    let undoing = undoing.clone().find(|entry| entry["kind"] == "undoing").expect("an entry");
    assert_eq!(undoing["ids"], json!(["charge#0"]));
    let text = world.semel(&["runs", "show", "order/7"]).expect(0).stdout;
    for part in [
        "undoing      taking back charge#0: nothing left to ship (run_failed)\n",
        "native_key, done in the ledger, taken back by refund/7\n",
        "  undo charge#0  effect refund/7: \"refund of ch_1\"\n",
        "native_key, done in the ledger, takes back charge/7\n",
    ] {
        assert_eq!(text.matches(part).count(), 1, "{part:?}: {text}");
    }
    let effect = world.semel(&["effects", "show", "charge/7"]).expect(0).stdout;
    assert!(effect.contains("taken back      by refund/7: \"refund of ch_1\"\n"), "{effect}");
    let effect = world.semel(&["effects", "show", "refund/7", "--json"]).expect(0).json();
    assert_eq!(effect["undoes"], "charge/7");
    let listed = world.semel(&["effects", "ls", "--action", "charge"]).expect(0).stdout;
    assert!(listed.trim_end().ends_with("\tundone"), "{listed}");
}

#[test]
fn req_a7_a_callback_is_answered_once_by_its_token() {
    async fn agent(ctx: Context, (): ()) -> Result<Value, Error> {
        let callback = ctx.callback("research").await?;
        let token = callback.token().to_owned();
        let told = ctx.step("tell", move || {
            let token = token.clone();
            async move { Ok::<_, Failure>(token) }
        });
        told.await?;
        callback.answer().await
    }
    let world = World::new();
    let token = world.sdk(async |semel| {
        semel.worker().workflow("agent", agent).start().expect("it");
        world.start("agent", "7", "null");
        let run = world.reaches("agent/7", "waiting");
        let entries = run["entries"].as_array().expect("it").iter();
        let told = entries.clone().find(|entry| entry["id"] == "tell#0").expect("a step");
        told["value"].as_str().expect("a token").to_owned()
    });
    let text = world.semel(&["runs", "show", "agent/7"]).expect(0).stdout;
    assert!(text.contains("\n  semel signals callback TOKEN --payload '{…}'\n"), "{text}");
    let answer = |token: &str, payload: &str| {
        world.semel(&["signals", "callback", token, "--payload", payload])
    };
    let unknown = answer("default.0000", "1").expect(3);
    assert!(unknown.stderr.contains("there is no such callback (not_found)"), "{unknown:?}");
    assert_eq!(answer(&token, "\"found\"").expect(0).stdout, "answered\n");
    let again = world.semel(&["signals", "callback", &token, "--payload", "\"found\"", "--json"]);
    let again = again.expect(0);
    assert_eq!(again.json()["repeated"], true);
    assert!(!again.stdout.contains(&token), "a token is as good as a password: {again:?}");
    let other = answer(&token, "\"else\"").expect(4);
    assert!(other.stderr.contains("the first stands (input_changed)"), "{other:?}");
    let url = format!("sqlite:{}", world.store().display());
    let mut command = semel();
    command.args(["--store", &url, "signals", "callback", "-", "--payload", "\"found\""]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("it");
    child.stdin.take().expect("stdin").write_all(token.as_bytes()).expect("it reads");
    let said = child.wait_with_output().expect("it ends").stdout;
    assert_eq!(said, b"repeated: the same answer had come before\n");
    world.sdk(async |semel| {
        semel.worker().workflow("agent", agent).start().expect("it");
        world.reaches("agent/7", "done");
    });
    let text = world.semel(&["runs", "show", "agent/7"]).expect(0).stdout;
    assert!(text.ends_with("  result     \"found\"\n"), "{text}");
}
