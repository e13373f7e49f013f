//! What must be true after the load, whatever was killed when. The destination's own file says how
//! often something happened; the ledger is only ever compared with it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::common::{Line, Ticket};
use crate::load::Load;

/// Everything that is not as promised, named by its invariant.
pub(crate) fn violations(load: &Load) -> Vec<String> {
    let mut oracle = Oracle { load, found: Vec::new() };
    let action = if load.contract == "transaction" { "crm-row" } else { "crm-ticket" };
    let effects = load.world.effects(action);
    let applied = oracle.applied();
    oracle.check_rows(&effects);
    for effect in &effects {
        let reference = text(effect, "key");
        let tickets = applied.get(reference).map_or(&[][..], Vec::as_slice);
        oracle.check_counts(effect, tickets);
        oracle.check_receipts(effect, tickets);
        oracle.check_doubts(effect);
    }
    oracle.check_nothing_else_applied(&effects, &applied);
    if load.contract != "transaction" {
        oracle.check_sends(&effects);
    }
    let verified = load.world.semel(&["verify", "--json"]).json();
    for violation in verified["violations"].as_array().expect("a list") {
        oracle.find("verify", &violation.to_string());
    }
    oracle.check_other_input();
    oracle.found
}

/// A transaction that was killed between insert and commit left no row of its own. One that did had
/// committed before the kill: it proves nothing.
pub(crate) fn forget_unproven(load: &mut Load) {
    if load.contract == "transaction" {
        let committed: BTreeSet<_> =
            rows(load).into_iter().map(|(ticket, pid)| (pid, ticket.reference)).collect();
        for (pid, references) in &mut load.killed {
            references.retain(|reference| !committed.contains(&(*pid, reference.clone())));
        }
    }
}

/// The user's table, with the process that inserted each row. Nobody has the store open now.
fn rows(load: &Load) -> Vec<(Ticket, u32)> {
    let connection = rusqlite::Connection::open(load.world.store()).expect("the store");
    let text = "SELECT 'row-' || rowid, reference, worker FROM tickets";
    let mut statement = connection.prepare(text).expect("the user's table");
    let row = |row: &rusqlite::Row<'_>| {
        Ok((Ticket { id: row.get(0)?, reference: row.get(1)? }, row.get(2)?))
    };
    statement.query_map([], row).expect("rows").map(|row| row.expect("a row")).collect()
}

struct Oracle<'a> {
    load: &'a Load,
    found: Vec<String>,
}

impl Oracle<'_> {
    fn find(&mut self, invariant: &str, what: &str) {
        self.found.push(format!("{invariant}: {what}"));
    }

    fn demand(&mut self, holds: bool, invariant: &str, effect: &Value, what: &str) {
        if !holds {
            self.found.push(format!("{invariant}: {what}: {effect}"));
        }
    }

    /// What really happened: the CRM's tickets, or the rows of the user's own table.
    fn applied(&self) -> BTreeMap<String, Vec<Ticket>> {
        let mut applied: BTreeMap<String, Vec<Ticket>> = BTreeMap::new();
        if self.load.contract == "transaction" {
            for (ticket, _) in rows(self.load) {
                applied.entry(ticket.reference.clone()).or_default().push(ticket);
            }
            return applied;
        }
        for reference in &self.load.references {
            let tickets = self.load.world.crm.applied(reference);
            if !tickets.is_empty() {
                applied.insert(reference.clone(), tickets);
            }
        }
        applied
    }

    /// I1: one row per key. Nothing that was asked for is lost, and nothing is left unfinished.
    fn check_rows(&mut self, effects: &[Value]) {
        let keys: BTreeSet<&str> = effects.iter().map(|effect| text(effect, "key")).collect();
        let asked: BTreeSet<&str> = self.load.references.iter().map(String::as_str).collect();
        if keys.len() != effects.len() {
            self.find("I1", "a key has two rows");
        }
        if keys != asked {
            self.find("I9", "the ledger does not know exactly what was asked for");
        }
        for effect in effects {
            let state = text(effect, "state");
            self.demand(matches!(state, "done" | "failed"), "end", effect, "it is not finished");
        }
    }

    /// I7, I8. A person's retry was true and after D, so even then it happened at most once.
    fn check_counts(&mut self, effect: &Value, tickets: &[Ticket]) {
        self.demand(tickets.len() <= 1, "I7", effect, "it happened twice");
        let retries = self.load.retries.get(text(effect, "key")).copied().unwrap_or_default();
        let decided = array(effect, "decisions").filter(|one| one["verdict"] == "retry").count();
        self.demand(decided == retries, "I5", effect, "a person's retry is not on record");
        match text(effect, "state") {
            "done" => self.demand(!tickets.is_empty(), "I8", effect, "done, but not applied"),
            _ => self.demand(tickets.is_empty(), "I8", effect, "failed, but applied"),
        }
        self.demand(effect.get("alarms").is_none(), "I6", effect, "it is alarmed");
    }

    /// I8: the receipt is that of the destination. I9, I10: it is what every caller ever got.
    fn check_receipts(&mut self, effect: &Value, tickets: &[Ticket]) {
        let receipt = &effect["receipt"];
        let real = tickets.first().map(|one| json!({ "id": one.id, "reference": one.reference }));
        let real = real.unwrap_or(Value::Null);
        self.demand(*receipt == real, "I8", effect, "the receipt is not the destination's");
        for line in &self.load.lines {
            if line.reference == text(effect, "key")
                && let Some(got) = &line.receipt
            {
                self.demand(got == receipt, "I10", effect, &format!("a caller got {got}"));
            }
        }
    }

    /// Every doubt is explained by a kill between begin and settle.
    fn check_doubts(&mut self, effect: &Value) {
        let doubted: Vec<_> =
            array(effect, "attempts").filter(|one| one.get("doubted_at").is_some()).collect();
        for attempt in &doubted {
            let is_killed = self.load.killed.contains_key(&pid_of(attempt));
            self.demand(is_killed, "doubt", effect, "a doubt without a kill");
        }
        let is_its = |line: &&Line| line.reference == text(effect, "key");
        let mut seen = self.load.lines.iter().filter(is_its);
        let in_doubt = seen.any(|line| line.error.as_deref() == Some("in_doubt"));
        self.demand(!in_doubt || !doubted.is_empty(), "doubt", effect, "in doubt for no reason");
    }

    fn check_nothing_else_applied(
        &mut self,
        effects: &[Value],
        applied: &BTreeMap<String, Vec<Ticket>>,
    ) {
        let known: BTreeSet<&str> = effects.iter().map(|effect| text(effect, "key")).collect();
        for reference in applied.keys().filter(|reference| !known.contains(reference.as_str())) {
            self.find("I3", &format!("{reference} was applied and has no row"));
        }
    }

    /// I3: each request that reached the CRM has an attempt of its process in the ledger. I18: all
    /// requests of a ticket carried the one key that the ledger derived for it.
    fn check_sends(&mut self, effects: &[Value]) {
        let mut arrived: BTreeMap<(String, u32), usize> = BTreeMap::new();
        let mut keys: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for event in self.load.world.crm.events().iter().filter(|event| event.kind == "arrived") {
            let pid = event.worker.as_ref().and_then(|pid| pid.parse().ok()).expect("a process");
            *arrived.entry((event.reference.clone(), pid)).or_default() += 1;
            keys.entry(event.reference.clone()).or_default().extend(event.key.clone());
        }
        let by_key: BTreeMap<&str, &Value> =
            effects.iter().map(|effect| (text(effect, "key"), effect)).collect();
        for ((reference, pid), count) in arrived {
            let Some(effect) = by_key.get(reference.as_str()) else { continue };
            let is_its = |one: &&Value| one["kind"] == "send" && pid_of(one) == pid;
            let sends = array(effect, "attempts").filter(is_its).count();
            self.demand(count <= sends, "I3", effect, "a request without an attempt");
        }
        for (reference, keys) in keys.iter().filter(|_| self.load.contract == "native_key") {
            let Some(effect) = by_key.get(reference.as_str()) else { continue };
            let derived = BTreeSet::from([text(effect, "downstream_key").to_owned()]);
            self.demand(*keys == derived, "I18", effect, &format!("the CRM saw {keys:?}"));
        }
    }

    /// I2: another input under the same keys is refused, and nothing is sent.
    fn check_other_input(&mut self) {
        let Load { world, references, contract, .. } = self.load;
        let mut args = vec!["--note", "another wish", "--callers", "16"];
        args.extend(references.iter().map(String::as_str));
        let mut worker = world.worker(contract, &args);
        worker.end();
        let is_refused = |line: &Line| line.error.as_deref() == Some("input_changed");
        let refused = worker.lines().into_iter().filter(is_refused).count();
        let pid = worker.pid.to_string();
        let sent = world.crm.events().into_iter().filter(|one| one.worker.as_ref() == Some(&pid));
        let (sent, asked) = (sent.count(), references.len());
        if refused != asked || sent > 0 {
            self.find("I2", &format!("{refused} of {asked} other inputs refused, {sent} sent"));
        }
    }
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_else(|| panic!("no {name} in {value}"))
}

fn array<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value.get(name).and_then(Value::as_array).into_iter().flatten()
}

/// The process of an attempt: its worker is `host:pid`.
fn pid_of(attempt: &Value) -> u32 {
    let worker = text(attempt, "worker");
    worker.rsplit(':').next().and_then(|pid| pid.parse().ok()).unwrap_or_default()
}
