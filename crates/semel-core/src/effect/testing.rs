//! Stories for tests: a desk with one key, a clock and a script of wishes, one per line. After
//! every wish the invariants are checked, so each story tests far more than it says.

use crate::contract::Declared;
use crate::effect::{
    Abort, Begin, Decision, Ground, Imported, Intended, Landed, Permit, Person, Quarantine,
    Refusal, Report, Resolution, Rows, Settle, State, Sweep, Why, approve,
};
use crate::fingerprint::Rule;
use crate::json::Json;
use crate::key::{Action, Address, Key, Namespace};
use crate::record::{self, Answer, Contract, Effect, Kind};
use crate::retry::Retry;
use crate::time::{Moment, Steady, Wall, format_duration_ms, parse_duration_ms};
use crate::{effect, verify};

/// One key, all its generations, and the world around it.
#[derive(Clone)]
pub(crate) struct Desk {
    pub(crate) rows: Vec<Effect>,
    pub(crate) now: Moment,
    pub(crate) permit: Option<Permit>,
    quarantine: Option<Quarantine>,
    epoch: u64,
    declared: Declared,
    calls: u32,
}

impl Desk {
    /// A desk under a contract, such as `native_key:1h`, and further terms, such as `attempts=2`.
    pub(crate) fn new(terms: &str) -> Desk {
        let steady = Steady { boot: 1, ms: 1_000_000 };
        let mut declared = Declared::default();
        for word in terms.split_whitespace() {
            match word.split_once('=') {
                None => declared.contract = Some(contract(word)),
                Some(("lease", ms)) => declared.lease_ms = Some(duration(ms)),
                Some(("deadline", ms)) => declared.deadline_ms = Some(duration(ms)),
                Some(("settle", ms)) => declared.settle_ms = Some(duration(ms)),
                Some(("window", ms)) => declared.window_ms = Some(duration(ms)),
                Some(("attempts", count)) => declared.attempts_max = Some(number(count)),
                Some(("retries", text)) => declared.retry = retries(text),
                Some(_) => panic!("unknown term: {word}"),
            }
        }
        Desk {
            rows: Vec::new(),
            now: Moment { wall: Wall(1_700_000_000_000), steady, wall_is_behind: false },
            permit: None,
            quarantine: None,
            epoch: 0,
            declared,
            calls: 0,
        }
    }

    /// The newest generation.
    pub(crate) fn effect(&self) -> Option<&Effect> {
        self.rows.last()
    }

    /// The state, or `absent`.
    pub(crate) fn state(&self) -> &'static str {
        self.effect().map_or("absent", |effect| effect.state(&self.now).as_str())
    }

    /// Plays one line and tells what came of it.
    pub(crate) fn run(&mut self, line: &str) -> String {
        let words: Vec<&str> = line.split_whitespace().collect();
        let before = self.rows.clone();
        let answer = match self.play(&words) {
            Ok(answer) => answer,
            Err(refusal) => {
                assert_eq!(self.rows, before, "a refusal changed something: {line}");
                refused(&refusal)
            }
        };
        if words[0] != "restore" && words[0] != "remove" {
            self.check(&before, line);
        }
        answer
    }

    fn play(&mut self, words: &[&str]) -> Result<String, Refusal> {
        match words {
            ["state"] => Ok(self.state().to_owned()),
            ["begin", options @ ..] => self.begin(options),
            ["intend", options @ ..] => self.intend(options),
            ["transact", receipt] => self.transact(receipt, &[]),
            ["transact_as", receipt] => self.transact(receipt, &["as=transaction"]),
            ["missed"] => self.missed(),
            ["wait" | "wall" | "boot" | "clock" | "quarantine" | "restore", ..] => {
                Ok(self.pass(words))
            }
            [
                "receipt" | "receipts" | "not_applied" | "refused" | "unknown" | "faulty"
                | "faulty_unknown",
                target,
                more @ ..,
            ] => self.settle(words[0], target, more),
            ["renew" | "renew_endless", target] => self.renew(words[0], target),
            ["lapse"] => Ok(self.keep_some(effect::lapse(self.newest(), &self.now))),
            ["died", target] => {
                let (generation, fence) = self.fence(target);
                let held = self.rows[generation].attempts.iter().find(|held| held.fence == fence);
                let session = held.and_then(|held| held.session.clone()).unwrap_or_default();
                Ok(self.keep_some(effect::died(self.newest(), &session, &self.now)))
            }
            ["done" | "failed" | "retry" | "grant" | "supersede" | "void", options @ ..] => {
                self.decide(words[0], options)
            }
            ["approve" | "deny" | "return", options @ ..] => self.judge(words[0], options),
            ["import", receipt] => self.import(receipt),
            ["sweep"] => Ok(self.sweep()),
            other => panic!("unknown wish: {other:?}"),
        }
    }

    fn newest(&self) -> &Effect {
        self.effect().expect("there is a row")
    }

    fn ground(&self) -> Ground {
        Ground { now: self.now, epoch: self.epoch, quarantine: self.quarantine }
    }

    /// Time and disasters.
    fn pass(&mut self, words: &[&str]) -> String {
        match words {
            ["wait", time] => {
                let ms = duration(time);
                self.now.steady = self.now.steady.plus(ms);
                self.now.wall = self.now.wall.plus(ms);
            }
            ["wall", "back", time] => {
                self.now.wall.0 -= i64::try_from(duration(time)).expect("short");
                self.now.wall_is_behind = true;
            }
            ["wall", "ahead", time] => self.now.wall = self.now.wall.plus(duration(time)),
            ["clock", "behind"] => self.now.wall_is_behind = true,
            ["clock", "right"] => self.now.wall_is_behind = false,
            ["boot"] => self.now.steady = Steady { boot: self.now.steady.boot + 1, ms: 5_000 },
            ["quarantine", "of", "tables"] => {
                let quarantine = self.quarantine.as_mut().expect("it is open");
                quarantine.rows = Rows::MayHaveStayed;
            }
            ["quarantine", lost] => {
                let lost_ms = i64::try_from(duration(lost)).expect("short");
                let recovered = Wall(self.now.wall.0 - lost_ms);
                self.quarantine =
                    Some(Quarantine { opened: self.now.wall, recovered, rows: Rows::WentBack });
                self.epoch += 1;
            }
            ["quarantine"] => self.quarantine = None,
            ["restore", count] => self.rows.truncate(number(count) as usize),
            other => panic!("unknown: {other:?}"),
        }
        self.state().to_owned()
    }

    fn ask(&mut self, options: &[&str]) -> Begin {
        self.calls += 1;
        let mut ask = Begin {
            address: address(),
            input: json(r#"{"n":1}"#),
            rule: Rule::All,
            declared: self.declared,
            downstream_key: None,
            attempt_id: format!("a{}", self.calls),
            worker: format!("w{}", self.calls),
            session: Some(format!("s{}", self.calls)),
            can_look: false,
            workflow: Some("triage".into()),
            run: None,
            approval: None,
            undoes: None,
            derived: None,
            shape: None,
        };
        for option in options {
            match option.split_once('=') {
                None if *option == "look" => ask.can_look = true,
                None if *option == "ask" => ask.approval = Some(approve::Ask::default()),
                None if *option == "only" => question(&mut ask).only = true,
                Some(("four_eyes", name)) => {
                    question(&mut ask).four_eyes = true;
                    question(&mut ask).requester = Some(name.replace('_', " "));
                }
                Some(("expires", time)) => {
                    question(&mut ask).expires_ms = Some(duration(time));
                }
                Some(("input", text)) => ask.input = json(text),
                Some(("counts", names)) => ask.rule = Rule::members(names.split(',')),
                Some(("key", key)) => ask.downstream_key = Some(key.into()),
                Some(("retries", text)) => ask.declared.retry = retries(text),
                Some(("as", name)) => ask.declared.contract = Some(contract(name)),
                Some(("id", "last")) => {
                    let last = self.effect().and_then(|effect| effect.attempts.last());
                    ask.attempt_id = last.map_or_else(|| "a0".into(), |last| last.id.clone());
                }
                Some(("id", id)) => ask.attempt_id = id.into(),
                None | Some(_) => panic!("unknown option: {option}"),
            }
        }
        ask
    }

    fn begin(&mut self, options: &[&str]) -> Result<String, Refusal> {
        let ask = self.ask(options);
        let decision = effect::begin(self.effect(), &ask, &self.ground())?;
        Ok(self.take(decision))
    }

    fn intend(&mut self, options: &[&str]) -> Result<String, Refusal> {
        let ask = self.ask(options);
        match effect::intend(self.effect(), &ask, &self.ground())? {
            Intended::Planned(effect) => Ok(self.keep(*effect)),
            Intended::Same => Ok("same".into()),
        }
    }

    fn transact(&mut self, receipt: &str, options: &[&str]) -> Result<String, Refusal> {
        let ask = self.ask(options);
        match effect::transact(self.effect(), &ask, &self.ground())? {
            Ok(transaction) => {
                let done = transaction.done(json(receipt), &self.now);
                Ok(self.keep(done))
            }
            Err(decision) => Ok(self.take(decision)),
        }
    }

    fn take(&mut self, decision: Decision) -> String {
        match decision {
            Decision::Arm(effect, permit) => {
                self.keep(*effect);
                let text = permitted(&permit);
                self.permit = Some(permit);
                text
            }
            Decision::Resume(permit) => {
                let text = permitted(&permit);
                self.permit = Some(permit);
                text
            }
            Decision::Doubt(effect) => format!("written {}", self.keep(*effect)),
            Decision::Hold(effect) => {
                self.keep(*effect);
                "asked".into()
            }
            Decision::Undone(receipt, undo) => {
                format!("undone {} {}", receipt.text(), undo.text())
            }
            Decision::Replay(receipt) => format!("replay {}", receipt.text()),
            Decision::Failed(reason) => format!("failed: {reason}"),
        }
    }

    fn settle(&mut self, word: &str, target: &str, more: &[&str]) -> Result<String, Refusal> {
        let (generation, fence) = self.fence(target);
        let reason = word.to_owned();
        let report = match word {
            "receipt" => Report::Receipt(json(more[0])),
            "receipts" => {
                Report::Receipts(json(more[0]), more[1..].iter().map(|text| json(text)).collect())
            }
            "not_applied" => Report::NotApplied { reason, last: false },
            "refused" => Report::NotApplied { reason, last: true },
            "faulty" => Report::Faulty { reason, landed: Landed::No },
            "faulty_unknown" => {
                Report::Faulty { reason, landed: Landed::Unknown { key_not_used: false } }
            }
            _ => Report::Unknown { reason, key_not_used: more.contains(&"key_not_used") },
        };
        let after = more.iter().find_map(|word| word.strip_prefix("after="));
        let ask = Settle { fence, report, retry_after_ms: after.map(duration) };
        let settled = effect::settle(&self.rows[generation], &ask, &self.now)?;
        let evidence = if settled.kept_as_evidence { ", evidence" } else { "" };
        let Some(next) = settled.effect else { return Ok(format!("said before{evidence}")) };
        let old = self.rows[generation].alarms.len();
        let alarms: Vec<_> = next.alarms[old..].iter().map(|alarm| alarm.kind).collect();
        let alarms: String = alarms.iter().map(|kind| format!(", alarm {kind:?}")).collect();
        let state = next.state(&self.now);
        self.rows[generation] = next;
        Ok(format!("{state}{evidence}{alarms}"))
    }

    fn renew(&mut self, word: &str, target: &str) -> Result<String, Refusal> {
        let (generation, fence) = self.fence(target);
        let abort = if word == "renew" { Abort::Possible } else { Abort::Impossible };
        let next = effect::renew(&self.rows[generation], fence, abort, &self.now)?;
        let lease = next.holder(&self.now).map(|holder| self.now.until(holder.lease_until));
        self.rows[generation] = next;
        Ok(format!("{} for {}", self.state(), format_duration_ms(lease.unwrap_or(0))))
    }

    fn decide(&mut self, word: &str, options: &[&str]) -> Result<String, Refusal> {
        let newest = self.newest();
        let version = match options.contains(&"old_version") {
            true => newest.version - 1,
            false => newest.version,
        };
        let text = |missing: &str, text: &str| {
            if options.contains(&missing) { String::new() } else { text.to_owned() }
        };
        let actor = text("nobody", "ada");
        let person = Person { actor, reason: text("silent", "seen at the provider"), version };
        let receipt = options.iter().find(|word| word.starts_with('"')).copied();
        let resolution = match word {
            "supersede" => {
                let (old, new) = effect::supersede(newest, &person, &self.now)?;
                self.keep(old);
                self.rows.push(new);
                return Ok(self.state().to_owned());
            }
            "void" => {
                let next = effect::void(newest, &person, &self.now)?;
                return Ok(self.keep(next));
            }
            "grant" => {
                let next = effect::grant(newest, &person, &self.now)?;
                return Ok(self.keep(next));
            }
            "done" => Resolution::Done(json(receipt.unwrap_or(r#""person""#))),
            "failed" => Resolution::Failed,
            _ => Resolution::Retry,
        };
        let next = effect::resolve(newest, &person, &resolution, &self.now)?;
        Ok(self.keep(next))
    }

    /// A person's answer. The digest is that of what stands, or of what stood before.
    fn judge(&mut self, word: &str, options: &[&str]) -> Result<String, Refusal> {
        let newest = self.newest();
        let answer = match word {
            "approve" => Answer::Approved,
            "deny" => Answer::Denied,
            _ => Answer::Returned,
        };
        let by = options.iter().find_map(|option| option.strip_prefix("by="));
        let actor = by.unwrap_or("eve").replace('_', " ").replace("nobody", "");
        let is_silent = options.contains(&"silent");
        let reason = if is_silent { String::new() } else { "as agreed".into() };
        let person = Person { actor, reason, version: newest.version };
        let shown = newest.approval.as_ref().map(|asked| asked.digest.clone());
        let digest = match options.contains(&"old_digest") {
            true => String::new(),
            false => shown.unwrap_or_default(),
        };
        let judged = approve::judge(newest, &person, answer, &digest, &self.now)?;
        if let Some(effect) = judged.effect {
            self.keep(effect);
        }
        let state = self.state();
        match judged.is_new {
            true => Ok(state.to_owned()),
            false => Ok(format!("{state}, was {}", judged.judgement.answer.as_str())),
        }
    }

    fn import(&mut self, receipt: &str) -> Result<String, Refusal> {
        let receipt = (receipt != "pending").then(|| json(receipt));
        let created = Wall(self.now.wall.0 - 86_400_000);
        let row = Imported { address: address(), workflow: None, created, receipt };
        let person = Person { actor: "ada".into(), reason: "moved".into(), version: 0 };
        let effect = effect::import(&row, &person, &self.now)?;
        self.rows.push(effect);
        Ok(self.state().to_owned())
    }

    /// A process remembers an attempt that the store has forgotten.
    fn missed(&mut self) -> Result<String, Refusal> {
        let person = Person { actor: "semel".into(), reason: "remembered".into(), version: 0 };
        let next = effect::missed(self.effect(), &address(), &person, &self.ground())?;
        Ok(self.keep_some(next))
    }

    fn sweep(&mut self) -> String {
        match effect::sweep(self.newest(), &self.now) {
            Sweep::Keep => "kept".into(),
            Sweep::Tombstone(effect) => self.keep(*effect),
            Sweep::Remove => {
                self.rows.clear();
                "removed".into()
            }
        }
    }

    fn keep(&mut self, effect: Effect) -> String {
        match self.rows.last_mut() {
            Some(row) => *row = effect,
            None => self.rows.push(effect),
        }
        self.state().to_owned()
    }

    fn keep_some(&mut self, effect: Option<Effect>) -> String {
        effect.map_or_else(|| "nothing".into(), |effect| self.keep(effect))
    }

    /// `2` or `last` of the newest generation, `g0.1` of an older one, or a fence nobody got.
    fn fence(&self, target: &str) -> (usize, u64) {
        let (generation, attempt) = match target.strip_prefix('g') {
            Some(rest) => rest.split_once('.').expect("g0.1"),
            None => ("", target),
        };
        let newest = self.rows.len().checked_sub(1).expect("there is a row");
        let generation = generation.parse().unwrap_or(newest);
        let attempts = &self.rows[generation].attempts;
        let found = match attempt {
            "first" => attempts.first(),
            "last" => attempts.last(),
            "nobody" => None,
            count => attempts.get(number(count) as usize - 1),
        };
        (generation, found.map_or(u64::MAX, |attempt| attempt.fence))
    }

    /// What must hold after every wish, whatever it was.
    fn check(&self, before: &[Effect], line: &str) {
        for effect in &self.rows {
            assert_eq!(verify::check(effect, &self.now), [], "{line}");
            let stored = record::decode(&record::encode(effect));
            assert_eq!(stored.as_ref(), Ok(effect), "{line}");
        }
        for (old, new) in before.iter().zip(&self.rows) {
            if new.state(&self.now) == State::Expired {
                continue;
            }
            let change = u64::from(old != new);
            assert_eq!(new.version, old.version + change, "one version per write: {line}");
            assert!(new.last_fence() >= old.last_fence(), "fences fell: {line}");
            // An answer stands for as long as the question is the same.
            if let (Some(asked), Some(kept)) = (&old.approval, &new.approval)
                && (asked.asked, asked.after, &asked.digest)
                    == (kept.asked, kept.after, &kept.digest)
                && new.voided.is_none()
                && old.voided.is_none()
                && asked.judgement.is_some()
            {
                assert_eq!(kept.judgement, asked.judgement, "decided twice: {line}");
            }
            if let Some(receipt) = old.receipt() {
                assert_eq!(new.receipt(), Some(receipt), "the first receipt changed: {line}");
            }
        }
    }
}

fn question(ask: &mut Begin) -> &mut approve::Ask {
    ask.approval.get_or_insert_default()
}

fn permitted(permit: &Permit) -> String {
    let kind = match permit.kind {
        Kind::Send => "send",
        Kind::Look => "look",
        Kind::Assumed => unreachable!("nobody may perform an assumed attempt"),
    };
    let resumed = if permit.resumed { "resumed " } else { "" };
    format!("{resumed}{kind} {}", permit.attempt)
}

fn refused(refusal: &Refusal) -> String {
    let why = match refusal {
        Refusal::InDoubt { why: Why::NeedsPerson, .. } => " (person)",
        Refusal::InDoubt { why: Why::SettleWindow, .. } => " (settle window)",
        Refusal::InDoubt { why: Why::HorizonPassed, .. } => " (horizon)",
        Refusal::InDoubt { why: Why::KeyNotUsed, .. } => " (key not used)",
        Refusal::InDoubt { why: Why::Exhausted, .. } => " (exhausted)",
        _ => "",
    };
    let after = refusal.retry_after_ms().map(|ms| format!(" after {}", format_duration_ms(ms)));
    format!("! {}{why}{}", refusal.code(), after.unwrap_or_default())
}

fn contract(name: &str) -> Contract {
    match name.split_once(':').unwrap_or((name, "1h")) {
        ("transaction", _) => Contract::Transaction,
        ("native_key", time) => Contract::NativeKey { retention_ms: duration(time) },
        ("conditional", _) => Contract::Conditional,
        ("probe", _) => Contract::Probe { first: false },
        ("probe_first", _) => Contract::Probe { first: true },
        ("at_most_once", _) => Contract::AtMostOnce,
        ("harmless", _) => Contract::Harmless,
        (other, _) => panic!("unknown contract: {other}"),
    }
}

fn address() -> Address {
    Address {
        namespace: Namespace::default(),
        action: Action::new("crm-ticket").expect("a name"),
        key: Key::from_text("42").expect("a key"),
    }
}

fn json(text: &str) -> Json {
    Json::from_text(text).expect("the story has valid JSON")
}

/// Attempts, first delay, longest delay and total time, such as `3:100ms:300ms:5s`; or `none`.
fn retries(text: &str) -> Option<Retry> {
    let parts: Vec<&str> = text.split(':').collect();
    let [attempts, first, longest, total] = parts[..] else { return None };
    Some(Retry {
        attempts_max: number(attempts),
        total_ms: duration(total),
        delay_ms: duration(first),
        delay_ms_max: duration(longest),
    })
}

fn duration(text: &str) -> u64 {
    parse_duration_ms(text).expect("the story has valid times")
}

fn number(text: &str) -> u32 {
    text.parse().expect("the story has valid numbers")
}
