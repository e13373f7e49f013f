//! The double as a process: it says where it is, and ends with whoever started it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::{run, semel};

/// A double whose input is ours.
struct Running {
    child: Child,
    line: String,
}

impl Running {
    fn start(args: &[&str]) -> Running {
        let mut command: Command = semel();
        let command = command.arg("double").args(args);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the command");
        let mut line = String::new();
        let out = child.stdout.take().expect("its output");
        BufReader::new(out).read_line(&mut line).expect("its first line");
        Running { child, line: line.trim().to_owned() }
    }

    fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(async {
            let request = reqwest::Client::new().post(format!("{}{path}", self.line)).json(body);
            let answer = request.send().await.expect("an answer");
            (answer.status().as_u16(), answer.json().await.expect("JSON"))
        })
    }

    fn ended(mut self) -> Option<i32> {
        drop(self.child.stdin.take());
        self.child.wait().expect("it ends").code()
    }
}

#[test]
fn a_double_says_its_address_first_and_ends_with_its_input() {
    let double = Running::start(&["keys"]);
    assert_eq!(double.post("/tickets", &json!({ "a": 1 })).1, json!({ "id": "tickets-1", "a": 1 }));
    assert_eq!(double.ended(), Some(0));

    let double = Running::start(&["plain", "--json"]);
    let said: Value = serde_json::from_str(&double.line).expect("JSON");
    assert!(said["url"].as_str().expect("an address").starts_with("http://127.0.0.1:"));
    assert_eq!(said["pid"], double.child.id());
    let pid = Pid::from_raw(double.child.id().cast_signed()).expect("a process");
    kill_process(pid, Signal::TERM).expect("it lives");
    let mut child = double.child;
    // Its input is still open: it was the signal.
    let input = child.stdin.take();
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    drop(input);
}

#[test]
fn a_double_plays_a_script_and_refuses_one_with_a_slip() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("crm.json");
    let file = path.to_str().expect("text");
    let script = json!({ "routes": [{ "method": "POST", "path": "/v1/t", "id": "T-{n}" }] });
    std::fs::write(&path, script.to_string()).expect("a script");
    let double = Running::start(&["--script", file]);
    assert_eq!(double.post("/v1/t", &json!({})).1["id"], "T-1");
    assert_eq!(double.ended(), Some(0));

    std::fs::write(&path, r#"{"routs": []}"#).expect("a script");
    let refused = run(semel().args(["double", "--script", file])).expect(2);
    assert!(refused.stderr.contains("routs"), "{}", refused.stderr);
    let refused = run(semel().args(["double", "magic"])).expect(2);
    assert!(refused.stderr.contains("keys, lookup, conditional"), "{}", refused.stderr);
    let refused = run(semel().args(["double", "--listen", "0.0.0.0:0"])).expect(1);
    assert!(refused.stderr.contains("outside this machine"), "{}", refused.stderr);
}
