//! `--store http://…`: the commands on the store of a server.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::Duration;

use semel::{Approval, Code, Context, Error, Failure, NativeKey, Semel};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::{Ended, run, semel, until};

/// `semel serve` on a store of its own.
struct Server {
    process: Child,
    url: String,
    dir: TempDir,
}

impl Server {
    fn start() -> Server {
        let dir = tempfile::tempdir().expect("a folder");
        let mut command = semel();
        command.args(["--store", &store(&dir), "serve", "--listen", "127.0.0.1:0"]);
        let command = command.current_dir(dir.path()).stdout(Stdio::piped());
        let mut process = command.stderr(Stdio::null()).spawn().expect("it starts");
        let mut line = String::new();
        let stdout = process.stdout.take().expect("its stdout");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let url = line.trim().strip_prefix("listening on ").expect("its address").to_owned();
        Server { process, url, dir }
    }

    /// A command on the store of the server.
    fn semel(&self, args: &[&str]) -> Ended {
        run(semel().args(["--store", &self.url]).args(args))
    }

    fn json(&self, args: &[&str]) -> Value {
        self.semel(&[args, &["--json"]].concat()).expect(0).json()
    }

    /// Makes a token, beside the server.
    fn token(&self, role: &str) -> String {
        let args = ["--store", &store(&self.dir), "tokens", "create", "--role", role, "--json"];
        let made = run(semel().args(args)).expect(0).json();
        made["token"].as_str().expect("a token").to_owned()
    }

    fn semel_as(&self, token: &str, args: &[&str]) -> Ended {
        run(semel().env("SEMEL_TOKEN", token).args(["--store", &self.url]).args(args))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn store(dir: &TempDir) -> String {
    format!("sqlite:{}/semel.db", dir.path().display())
}

/// Waits for a word, then writes a letter that a person must approve.
async fn letter(ctx: Context, (): ()) -> Result<String, Error> {
    let to: String = ctx.wait_for_signal("go").await?;
    let mail = ctx.effect("mail").key([to.clone()]).input(&to).contract(NativeKey::hours(1));
    let mail = mail.approval(Approval::within(Duration::from_secs(600)));
    mail.call(move |_| std::future::ready(Ok::<_, Failure>("sent".to_owned()))).await
}

/// Runs a worker over HTTP beside what a test does.
fn beside_a_worker(url: &str, act: impl FnOnce()) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let semel = Semel::open(url).await.expect("the server answers");
        let working = semel.worker().workflow("letter", letter).start().expect("a worker");
        semel.engine().turn().await.expect("it is announced");
        tokio::task::block_in_place(act);
        drop(working);
    });
}

#[test]
fn what_people_do_with_runs_and_effects_works_on_the_store_of_a_server() {
    let server = Server::start();
    beside_a_worker(&server.url, || {
        let start = ["runs", "start", "letter", "--key", "1", "--input", "null"];
        let id = server.json(&start)["id"].as_str().expect("an id").to_owned();
        assert_eq!(server.json(&["runs", "ls"])["items"][0]["id"], json!(id));
        server.semel(&["signals", "send", "letter/1", "go", "--payload", "\"ann\""]).expect(0);
        until("the letter is held", || {
            let held = server.json(&["approvals", "ls"]);
            (held["items"].as_array().expect("a list").len() == 1).then_some(())
        });
        let digest = server.json(&["approvals", "show", "mail/ann"])["approval"]["digest"].clone();
        let digest = digest.as_str().expect("a digest");
        let approve = ["approvals", "approve", "mail/ann", "--digest", digest];
        server.json(&approve);
        until("it is sent", || {
            (server.json(&["runs", "show", "letter/1"])["state"] == "done").then_some(())
        });
        assert_eq!(server.json(&["effects", "ls"])["items"][0]["state"], "done");
        assert_eq!(server.json(&["effects", "show", "mail/ann"])["receipt"], "sent");
        let proven = server.json(&["proof", "mail/ann"]);
        assert!(proven.to_string().contains("mail"), "{proven}");
        server.json(&["runs", "start", "letter", "--key", "2", "--input", "null"]);
        server.json(&["runs", "cancel", "letter/2", "--reason", "not any more"]);
        until("it is cancelled", || {
            (server.json(&["runs", "show", "letter/2"])["state"] == "cancelled").then_some(())
        });
        let live = server.json(&["releases", "ls"]);
        assert_eq!(live["items"][0]["workflow"], "letter");
        let verbs: Vec<Value> = server.json(&["audit", "ls"])["items"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|entry| entry["verb"].clone())
            .collect();
        assert_eq!(verbs, ["cancel_run", "approve"], "what people decided, the newest first");
    });
    let put = [
        "schedules",
        "put",
        "nightly",
        "--workflow",
        "letter",
        "--cron",
        "0 3 * * *",
        "--zone",
        "UTC",
    ];
    server.json(&put);
    assert_eq!(server.json(&["schedules", "ls"])["items"][0]["name"], "nightly");
    server.json(&["schedules", "remove", "nightly"]);
}

#[test]
fn sec_36_46_a_server_leaves_no_core_and_takes_as_many_sockets_as_it_may() {
    let server = Server::start();
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.process.id()));
    let limits = limits.expect("its limits");
    let of = |name: &str| {
        let line = limits.lines().find(|line| line.starts_with(name)).expect("a limit");
        let words: Vec<_> = line[name.len()..].split_whitespace().map(str::to_owned).collect();
        (words[0].clone(), words[1].clone())
    };
    assert_eq!(of("Max core file size"), ("0".to_owned(), "0".to_owned()));
    let (soft, hard) = of("Max open files");
    assert_eq!(soft, hard);
}

#[test]
fn what_needs_the_store_itself_says_so_and_a_token_is_asked_for() {
    let server = Server::start();
    let needy = [
        &["verify"][..],
        &["migrate"],
        &["tokens", "ls"],
        &["triggers", "ls"],
        &["quarantine", "show"],
    ];
    for command in needy {
        let ended = server.semel(command).expect(2);
        assert!(ended.stderr.contains("beside the server"), "{command:?}: {}", ended.stderr);
    }
    let (viewer, worker) = (server.token("viewer"), server.token("worker"));
    let code = |ended: &Ended| {
        let said: Value = serde_json::from_str(&ended.stderr).expect("JSON");
        said["error"]["code"].clone()
    };
    // That there was no token yet is believed for a moment.
    let nobody = until("a token is needed", || {
        let ended = server.semel(&["runs", "ls", "--json"]);
        (ended.code != Some(0)).then_some(ended)
    });
    assert_eq!(code(&nobody.expect(4)), Code::Unauthenticated.as_str());
    server.semel_as(&viewer, &["runs", "ls"]).expect(0);
    let put = ["schedules", "put", "s", "--workflow", "w", "--cron", "0 3 * * *", "--zone", "UTC"];
    let refused = server.semel_as(&viewer, &[&put[..], &["--json"]].concat()).expect(4);
    assert_eq!(code(&refused), Code::Forbidden.as_str());
    // A worker's token in the address: nothing of it is ever shown.
    let url = server.url.replace("http://", &format!("http://{worker}@"));
    let ended = run(semel().args(["--store", &url, "verify"])).expect(2);
    let secret = worker.rsplit('.').next().expect("a secret");
    assert!(!ended.stderr.contains(secret) && !ended.stdout.contains(secret), "{ended:?}");
    run(semel().args(["--store", &url, "runs", "ls"])).expect(0);
}
