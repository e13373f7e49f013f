//! `semel approvals`: what waits for a person, what they see, and what they decide.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use semel::{Approval, Code, Error, Failure, NativeKey};
use serde_json::{Value, json};

use crate::assert_plain;
use crate::common::{Ended, World, run, semel, until};

impl World {
    /// Calls an effect that a person has to approve.
    fn ask(&self, key: &str, input: &Value, approval: Approval) -> Result<Value, Error> {
        self.sdk(async |semel| {
            let effect = semel.effect("mail").key([key]).input(input).contract(NativeKey::hours(1));
            let effect = effect.workflow("letters").approval(approval);
            effect.call(|_| async { Ok::<_, Failure>(json!("sent")) }).await
        })
    }

    fn held(key: &str) -> World {
        let world = World::new();
        let approval = Approval::within(Duration::from_secs(86_400)).note("please read");
        let letter = json!({ "to": "ann", "text": "Dear\u{1b}[2J\u{202e}Ann" });
        let told = world.ask(key, &letter, approval.requester("bob"));
        assert_eq!(told.expect_err("held").code(), Code::Held);
        world
    }

    fn judge(&self, verb: &str, key: &str, more: &[&str]) -> Ended {
        let name = format!("mail/{key}");
        self.semel(&[&["approvals", verb, &name, "--json"], more].concat())
    }
}

#[test]
fn show_prints_all_that_a_person_has_to_know() {
    let world = World::held("k");
    let shown = world.semel(&["approvals", "show", "mail/k", "--json"]).expect(0).json();
    assert_eq!(shown["input"]["to"], "ann");
    assert_eq!(shown["contract"]["name"], "native_key");
    let asked = &shown["approval"];
    assert_eq!((&asked["held"], &asked["requester"]), (&json!(true), &json!("bob")));
    let digest = asked["digest"].as_str().expect("a digest");

    let text = world.semel(&["approvals", "show", "mail/k"]).expect(0).stdout;
    assert_plain(&text);
    assert!(!text.contains('\u{202e}'), "the payload reads as it is");
    let promise = shown["contract"]["promise"].as_str().expect("a promise");
    let expires = asked["expires_at"].as_str().expect("an end");
    let wanted =
        [r#""to":"ann""#, "native_key", promise, digest, "bob", expires, "please read", "letters"];
    for part in wanted {
        assert!(text.contains(part), "{part} is missing in:\n{text}");
    }
    for verb in ["approve", "deny", "return"] {
        assert!(text.contains(&format!("semel approvals {verb} 'mail/k' --digest {digest}")));
    }
    let line = world.semel(&["effects", "show", "mail/k"]).expect(0).stdout;
    assert!(line.contains("waits for a person"), "{line}");
}

#[test]
fn ls_lists_what_nobody_has_decided() {
    let world = World::held("one");
    for key in ["two", "three"] {
        world.ask(key, &json!({}), Approval::required()).expect_err("held");
    }
    world.put_planned("not-asked");
    world.judge("deny", "two", &["--note", "no"]).expect(0);
    let keys = |ended: Ended| -> Vec<String> {
        let items = ended.expect(0).json()["items"].clone();
        let key = |item: &Value| item["key"].as_str().expect("a key").to_owned();
        items.as_array().expect("a list").iter().map(key).collect()
    };
    assert_eq!(keys(world.semel(&["approvals", "ls", "--json"])), ["three", "one"]);
    let first = world.semel(&["approvals", "ls", "--json", "--limit", "1"]);
    let next = first.json()["next"].to_string();
    assert_eq!(keys(first), ["three"]);
    let rest = world.semel(&["approvals", "ls", "--json", "--limit", "9", "--after", &next]);
    assert_eq!(keys(rest), ["one"]);
    let other = world.semel(&["approvals", "ls", "--action", "fax"]).expect(0);
    assert!(other.stderr.contains("nothing waits"), "{other:?}");
    let table = world.semel(&["approvals", "ls"]).expect(0).stdout;
    assert!(table.contains("mail/one\tnative_key") && table.contains("please read"), "{table}");
}

#[test]
fn the_first_answer_stands_and_a_different_one_is_refused() {
    let world = World::held("k");
    let first = world.judge("approve", "k", &["--note", "fine"]).expect(0).json();
    let said = &first["decision"];
    assert_eq!((&said["answer"], &said["by"]), (&json!("approved"), &json!("ada")));
    assert_eq!((&said["note"], &said["is_new"]), (&json!("fine"), &json!(true)));
    assert_eq!(first["input"]["to"], "ann", "what was decided on is printed");
    let same = world.judge("approve", "k", &["--actor", "eve"]).expect(0).json();
    assert_eq!(
        (&same["decision"]["by"], &same["decision"]["is_new"]),
        (&json!("ada"), &json!(false))
    );
    let other = world.judge("deny", "k", &["--note", "no"]).expect(4);
    assert_eq!(other.json()["decision"]["answer"], "approved");
    assert!(other.stderr.contains("already_settled"), "{other:?}");
    let letter = json!({ "to": "ann", "text": "Dear\u{1b}[2J\u{202e}Ann" });
    assert_eq!(world.ask("k", &letter, Approval::required()), Ok(json!("sent")));
    assert_eq!(world.judge("return", "k", &["--note", "no"]).expect(4).json()["state"], "done");
}

#[test]
fn a_no_needs_a_reason_and_says_it_to_the_caller() {
    for (verb, code) in [("deny", Code::ApprovalDenied), ("return", Code::ApprovalReturned)] {
        let world = World::held("k");
        let silent = world.judge(verb, "k", &[]).expect(2);
        assert!(silent.stderr.contains("a decision needs an actor and a reason"), "{silent:?}");
        world.judge(verb, "k", &["--note", "too long"]).expect(0);
        let letter = json!({ "to": "ann", "text": "Dear\u{1b}[2J\u{202e}Ann" });
        let told = world.ask("k", &letter, Approval::required()).expect_err("no");
        assert_eq!(told.code(), code);
        assert!(told.detail().ends_with("by ada: too long"), "{told}");
        let late = world.judge("approve", "k", &[]).expect(4);
        assert!(late.stderr.contains(code.as_str()), "{late:?}");
    }
}

#[test]
fn what_was_not_looked_at_is_not_decided() {
    let world = World::held("k");
    let refused = world.judge("approve", "k", &["--digest", "0000"]).expect(4);
    assert!(refused.stderr.contains("version_changed"), "{refused:?}");
    let eyes = Approval::required().four_eyes("Ada");
    world.ask("four", &json!({}), eyes).expect_err("held");
    let own = world.judge("approve", "four", &[]).expect(4);
    assert!(own.stderr.contains("four_eyes"), "{own:?}");
    world.judge("approve", "four", &["--actor", "bob"]).expect(0);
    let missing = world.judge("approve", "nothing", &[]).expect(3);
    assert!(missing.stderr.contains("not_found"), "{missing:?}");
    world.put_done("ok");
    let done = world.semel(&["approvals", "approve", "crm-ticket/ok"]).expect(4);
    assert!(done.stderr.contains("not_held"), "{done:?}");
    world.semel(&["approvals", "show", "crm-ticket/ok"]).expect(4);
    let usage = run(semel().args(["approvals", "approve", "no-key"]));
    assert_eq!(usage.code, Some(2), "{usage:?}");
    // Nothing that was refused was decided.
    assert_eq!(world.semel(&["approvals", "ls", "--json"]).json()["items"][0]["key"], "k");
    world.semel(&["verify"]).expect(0);
}

#[test]
fn two_processes_that_decide_at_once_agree() {
    for _ in 0..5 {
        let world = World::held("k");
        let store = format!("sqlite:{}", world.store().display());
        let decide = |verb: &str| {
            let mut command = semel();
            command.args([
                "--store",
                &store,
                "approvals",
                verb,
                "mail/k",
                "--note",
                "me",
                "--json",
            ]);
            command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
            command.spawn().expect("a process")
        };
        let both = [decide("approve"), decide("deny")];
        let ended = both.map(|child| child.wait_with_output().expect("it ends"));
        let mut codes = ended.each_ref().map(|output| output.status.code());
        codes.sort_unstable();
        assert_eq!(codes, [Some(0), Some(4)], "{ended:?}");
        let told = ended.map(|output| {
            let document: Value = serde_json::from_slice(&output.stdout).expect("a document");
            document["decision"]["answer"].clone()
        });
        assert_eq!(told[0], told[1]);
    }
}

/// One request, answered with 200.
fn take_request(listener: &TcpListener) -> String {
    listener.set_nonblocking(true).expect("a socket");
    let mut stream = until("somebody is told", || listener.accept().ok()).0;
    stream.set_nonblocking(false).expect("a socket");
    let mut told = String::new();
    while !told.contains("\"namespace\"") {
        let mut bytes = [0; 8_192];
        let count = stream.read(&mut bytes).expect("a request");
        told.push_str(std::str::from_utf8(&bytes[..count]).expect("text"));
    }
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").expect("an answer");
    told
}

#[test]
fn req_a6_a_worker_tells_whom_the_environment_names() {
    let world = World::held("k");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}/hook", listener.local_addr().expect("an address"));
    let (store, gate) =
        (format!("sqlite:{}", world.store().display()), world.dir.path().join("gate"));
    let mut worker = semel();
    worker.args(["--store", &store, "demo-worker", "--protection", "native_key"]);
    worker.args(["--crm", &world.crm.url, "t-1", "--gate"]).arg(&gate);
    worker.env("SEMEL_NOTIFY", address).env("SEMEL_NOTIFY_SECRET", "whsec_c2VjcmV0");
    let mut worker = worker.stdout(std::process::Stdio::null()).spawn().expect("a worker");
    let told = take_request(&listener);
    for part in ["POST /hook", "webhook-signature: v1,", "semel approvals show 'mail/k'"] {
        assert!(told.contains(part), "{part} is missing in {told}");
    }
    let done = ["effects", "ls", "--action", "semel.notify", "--state", "done", "--json"];
    until("it is on record", || {
        let items = world.semel(&done).expect(0).json()["items"].clone();
        (items.as_array().map(Vec::len) == Some(1)).then_some(())
    });
    std::fs::write(&gate, "").expect("a file");
    assert!(worker.wait().expect("it ends").success());
}

#[test]
fn an_address_that_cannot_be_told_is_refused_and_not_shown() {
    let world = World::held("k");
    let store = format!("sqlite:{}", world.store().display());
    let args = ["--store", &store, "demo-worker", "--protection", "native_key", "--crm"];
    let mut worker = semel();
    worker.args(args).args([&world.crm.url, "t-1"]).env("SEMEL_NOTIFY", "smtp://ann:hush@mail/");
    let refused = run(&mut worker).expect(2);
    assert!(refused.stderr.contains("no address to notify"), "{refused:?}");
    assert!(!format!("{refused:?}").contains("hush"), "{refused:?}");
}

#[test]
fn a_link_is_printed_once_for_somebody_else_than_the_requester() {
    let world = World::new();
    let eyes = Approval::required().four_eyes("ada");
    world.ask("k", &json!({}), eyes).expect_err("held");
    let link = |more: &[&str]| world.semel(&[&["approvals", "link", "mail/k"], more].concat());
    let made = link(&["--approver", "bob", "--actor", "ops", "--json"]).expect(0).json();
    let url = made["url"].as_str().expect("an address");
    let secret = url.strip_prefix("/approve/default.").expect("a path");
    assert_eq!(secret.len(), 64, "{url}");
    assert_eq!(made["approver"], "bob");
    let text = link(&["--approver", "bob", "--actor", "ops", "--expires-in", "1h"]).expect(0);
    assert!(text.stdout.starts_with("/approve/default."), "{text:?}");
    assert!(text.stderr.contains("public_url"), "{text:?}");
    // Four eyes: neither for the requester, nor by them (the user here is ada).
    assert!(link(&["--approver", "Ada", "--actor", "ops"]).expect(4).stderr.contains("four_eyes"));
    assert!(link(&["--approver", "bob"]).expect(4).stderr.contains("four_eyes"));
    let wrong = link(&["--approver", "bob", "--actor", "ops", "--expires-in", "soon"]).expect(2);
    assert!(wrong.stderr.contains("duration_invalid"), "{wrong:?}");
    link(&["--approver", "bob", "--actor", "ops", "--expires-in", "91d"]).expect(2);
    world.judge("approve", "k", &["--actor", "bob"]).expect(0);
    let late = link(&["--approver", "bob", "--actor", "ops"]).expect(4);
    assert!(late.stderr.contains("not_held"), "{late:?}");
    let chain = world.semel(&["audit", "ls", "--json"]).expect(0).stdout;
    assert!(chain.contains("create_approval_link") && !chain.contains(secret), "{chain}");
}
