//! What only the tests with killed and stopped workers do to them.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::common::{Ended, Ticket, Worker, World, until};

impl World {
    /// All effects of one action, as the ledger shows them.
    pub(crate) fn effects(&self, action: &str) -> Vec<Value> {
        let listed =
            self.semel(&["effects", "ls", "--action", action, "--limit", "1000", "--json"]);
        let listed = listed.expect(0).json();
        assert_eq!(listed["next"], Value::Null, "more effects than a page");
        listed["items"].as_array().expect("items").clone()
    }

    pub(crate) fn doubts(&self) -> Vec<Value> {
        let mut effects = self.effects("crm-ticket");
        effects.retain(|effect| effect["state"] == "in_doubt");
        effects
    }

    /// What a person says at the terminal.
    pub(crate) fn resolve(&self, reference: &str, version: &str, decision: &[&str]) -> Ended {
        let name = format!("crm-ticket/{reference}");
        let mut args = vec!["effects", "resolve", &name, "--version", version, "--json"];
        args.extend(["--reason", "looked at the CRM"]);
        args.extend(decision);
        self.semel(&args)
    }

    /// The same, upon the version that stands now.
    pub(crate) fn resolve_now(&self, reference: &str, decision: &[&str]) -> Ended {
        let version = self.show(reference)["version"].to_string();
        self.resolve(reference, &version, decision)
    }

    /// Runs a worker to its end. Returns its exit code and what it printed of its only ticket.
    pub(crate) fn work(&self, protection: &str, args: &[&str]) -> (Option<i32>, Value) {
        let mut worker = self.worker(protection, args);
        let code = worker.end();
        let lines = worker.lines();
        let [line] = &lines[..] else { panic!("one line each: {lines:?}") };
        (code, line.receipt.clone().or_else(|| line.error.clone().map(Value::from)).expect("one"))
    }

    /// Starts a worker and kills it when the CRM holds its request.
    pub(crate) fn kill_at_held(&self, protection: &str, args: &[&str]) {
        let mut worker = self.worker(protection, args);
        let pid = worker.pid.to_string();
        let is_its = |kind: &str, event: &crate::common::Event| {
            event.kind == kind && event.worker.as_ref() == Some(&pid)
        };
        until("the CRM holds the request", || {
            self.crm.events().iter().any(|event| is_its("held", event)).then_some(())
        });
        worker.kill();
    }

    pub(crate) fn wait_for_state(&self, reference: &str, state: &str) -> Value {
        until(&format!("{reference} is {state}"), || {
            let effect = self.show(reference);
            (effect["state"] == state).then_some(effect)
        })
    }

    /// Zero violations, by `semel verify` itself.
    pub(crate) fn verify(&self) -> Value {
        let verified = self.semel(&["verify", "--json"]).expect(0).json();
        assert_eq!(verified["violations"], json!([]));
        verified
    }
}

impl Ticket {
    /// The receipt that a worker would have got.
    pub(crate) fn receipt(&self) -> String {
        json!({ "id": self.id, "reference": self.reference }).to_string()
    }
}

impl Worker {
    /// Whether it said this line to whoever watches.
    pub(crate) fn says(&self, text: &str) -> bool {
        fs::read_to_string(&self.err).expect("its words").lines().any(|line| line == text)
    }

    pub(crate) fn wait_until_it_says(&self, text: &str) {
        until(text, || self.says(text).then_some(()));
    }

    /// Stops it where it is: it neither runs nor dies.
    pub(crate) fn stop(&self) {
        self.signal(Signal::STOP);
        until("the worker stops", || {
            let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).expect("alive");
            let state = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next());
            (state == Some("T")).then_some(())
        });
    }

    pub(crate) fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw).expect("a process id");
        kill_process(pid, signal).expect("a signal");
    }
}
