//! A proof for people at a terminal.

use semel_core::proof::{
    AttemptStatement, Claim, EffectStatement, Finding, GenerationStatement, RepeatStatement,
    RunStatement, Statement, Verdict,
};
use semel_core::wire_run::EntryView;

use crate::print::{Printer, Tone, plain};

/// The whole proof, line by line.
pub(super) fn lines(statement: &Statement, printer: &Printer) -> Vec<String> {
    let mut page = Page { printer, lines: Vec::new() };
    let Statement { about, name, namespace, at, .. } = statement;
    page.line(0, &format!("proof of the {about} {name} in {namespace}, as of {at}"));
    if let Some(span) = &statement.quarantine {
        let text = format!("quarantine since {}: epoch {}", span.opened_at, statement.epoch);
        page.painted(0, Tone::Doubt, &text);
    }
    page.empty();
    page.says(&statement.verdict);
    if let Some(run) = &statement.run {
        page.empty();
        page.run(run);
    }
    for effect in &statement.effects {
        page.empty();
        page.effect(effect, statement.run.is_some());
    }
    page.verdict(&statement.verdict);
    page.lines
}

/// The colour of a finding.
pub(super) fn tone(finding: &str) -> Tone {
    match Finding::parse(finding) {
        Some(Finding::Done | Finding::Told) => Tone::Good,
        Some(Finding::NotDone | Finding::Undone | Finding::Expired) => Tone::Quiet,
        Some(Finding::InProgress | Finding::InDoubt) => Tone::Doubt,
        Some(Finding::Disputed | Finding::Twice | Finding::Broken) | None => Tone::Bad,
    }
}

struct Page<'a> {
    printer: &'a Printer,
    lines: Vec<String>,
}

impl Page<'_> {
    fn line(&mut self, depth: usize, text: &str) {
        self.lines.push(format!("{}{}", "  ".repeat(depth), plain(text)));
    }

    fn painted(&mut self, depth: usize, tone: Tone, text: &str) {
        let text = self.printer.paint(tone, &plain(text));
        self.lines.push(format!("{}{text}", "  ".repeat(depth)));
    }

    fn empty(&mut self) {
        self.lines.push(String::new());
    }

    fn field(&mut self, depth: usize, name: &str, text: &str) {
        self.line(depth, &format!("{name:<12} {text}"));
    }

    fn says(&mut self, verdict: &Verdict) {
        self.painted(0, tone(verdict.finding), &format!("{}: {}", verdict.finding, verdict.says));
    }

    fn verdict(&mut self, verdict: &Verdict) {
        self.claims("broken", Tone::Bad, &verdict.broken);
        self.claims("proven", Tone::Good, &verdict.proven);
        self.claims("not proven", Tone::Doubt, &verdict.not_proven);
    }

    fn claims(&mut self, title: &str, tone: Tone, claims: &[Claim]) {
        if claims.is_empty() {
            return;
        }
        self.empty();
        self.painted(0, tone, title);
        for Claim { says, evidence } in claims {
            self.line(1, &format!("- {says}"));
            self.line(3, evidence);
        }
    }

    fn effect(&mut self, effect: &EffectStatement, has_own_verdict: bool) {
        let name = format!("effect {}/{}", effect.action, effect.key);
        self.painted(0, Tone::Strong, &name);
        if has_own_verdict {
            let verdict = &effect.verdict;
            self.painted(
                1,
                tone(verdict.finding),
                &format!("{}: {}", verdict.finding, verdict.says),
            );
        }
        self.field(1, "id", &effect.id);
        for part in &effect.key_parts {
            let equals = match part.equals.is_empty() {
                true => String::new(),
                false => format!(" = input {}", part.equals.join(", ")),
            };
            self.field(1, "key part", &format!("{}{equals}", part.part));
        }
        if let Some(derived) = &effect.derived {
            self.field(1, "made by", derived);
        }
        if let Some(workflow) = &effect.workflow {
            self.field(1, "workflow", workflow);
        }
        if let Some(run) = &effect.run {
            self.field(1, "run", run);
        }
        effect.generations.iter().for_each(|generation| self.generation(generation));
        self.repeats(1, &effect.repeats);
        for mention in &effect.mentions {
            let repeat = if mention.repeat { ", the receipt was there before" } else { "" };
            let text = format!(
                "entry {} of run {}: {} {}{repeat}",
                mention.seq, mention.run, mention.kind, mention.command
            );
            self.field(1, "journal", &text);
        }
        if has_own_verdict {
            for Claim { says, evidence } in &effect.verdict.proven {
                self.line(1, &format!("- {says}"));
                self.line(4, evidence);
            }
        }
    }

    fn repeats(&mut self, depth: usize, repeats: &[RepeatStatement]) {
        for one in repeats {
            let RepeatStatement { door, at_least, first_at, last_at } = one;
            let text = format!("at least {at_least} by {door}, first {first_at}, last {last_at}");
            self.field(depth, "repeats", &text);
        }
    }

    fn generation(&mut self, row: &GenerationStatement) {
        self.line(
            1,
            &format!("generation {}: {}, version {}", row.generation, row.state, row.version),
        );
        self.field(2, "created", &row.created_at);
        let times = [
            ("settled", &row.settled_at),
            ("superseded", &row.superseded_at),
            ("expired", &row.expired_at),
            ("failure", &row.failure),
            ("undoes", &row.undoes),
        ];
        for (name, time) in times {
            if let Some(time) = time {
                self.field(2, name, time);
            }
        }
        self.terms(row);
        row.attempts.iter().for_each(|attempt| self.attempt(attempt));
        if let (Some(receipt), Some(digest)) = (&row.receipt, &row.receipt_digest) {
            self.field(2, "receipt", receipt.text());
            self.field(2, "its digest", digest);
        }
        self.people(row);
    }

    fn terms(&mut self, row: &GenerationStatement) {
        if let Some(contract) = &row.contract {
            self.field(2, "contract", &format!("{}: {}", contract.name, contract.promise));
            let retention = contract.retention.as_ref().map(|time| format!("retention {time}, "));
            let times = format!(
                "{}settle window {}, lease {}, deadline {}, replay window {}",
                retention.unwrap_or_default(),
                contract.settle_window,
                contract.lease,
                contract.deadline,
                contract.replay_window
            );
            self.field(2, "", &times);
        }
        if let Some(print) = &row.fingerprint {
            let members = match &print.members {
                None => "all members count".to_owned(),
                Some(names) => format!("these members count: {}", names.join(", ")),
            };
            let fits = if print.matches_input { "fits the input" } else { "DOES NOT FIT" };
            let text = format!("{} (form {}, {members}; {fits})", print.digest, print.form);
            self.field(2, "fingerprint", &text);
        }
        if let Some(key) = &row.downstream_key {
            let how = if key.derived { "derived again" } else { "declared" };
            let text = format!("{} ({how}; handed to sends: {})", key.key, key.sends);
            self.field(2, "key handed", &text);
        }
    }

    fn attempt(&mut self, attempt: &AttemptStatement) {
        let view = &attempt.view;
        let mut text = format!(
            "{} {}, fence {}, {} by {}, lease {} ms, deadline {} ms",
            view.kind,
            view.number,
            view.fence,
            view.began_at,
            view.worker,
            attempt.lease_ms,
            attempt.deadline_ms
        );
        if let Some(run) = &attempt.run {
            text.push_str(&format!(", run {run}"));
        }
        self.field(2, "attempt", &text);
        if let (Some(at), Some(doubt)) = (&view.doubted_at, &attempt.doubt) {
            let unused = if view.key_not_used { "; its key was never read" } else { "" };
            self.field(3, "doubt", &format!("{at}: {doubt}{unused}"));
        }
        let mut end = view.outcome.to_owned();
        if let (Some(at), Some(by)) = (&view.ended_at, view.by) {
            end.push_str(&format!(" at {at} by {by}"));
        }
        // A doubt told its reason above.
        let is_refuted = view.ended_at.is_some() && attempt.receipt_digest.is_none();
        if let Some(reason) = view.reason.as_ref().filter(|_| is_refuted) {
            end.push_str(&format!(": {reason}"));
        }
        self.field(3, "outcome", &end);
    }

    fn people(&mut self, row: &GenerationStatement) {
        if let Some(approval) = &row.approval {
            let asked = format!("asked at {}, digest {}", approval.asked_at, approval.digest);
            self.field(2, "approval", &asked);
            if let (Some(answer), Some(by)) = (approval.answer, &approval.answered_by) {
                let at = approval.answered_at.as_deref().unwrap_or_default();
                let note = approval.answer_note.as_deref().unwrap_or_default();
                self.field(2, "", &format!("{answer} at {at} by {by}: {note}"));
            }
        }
        for decision in &row.decisions {
            let text = format!(
                "{} at {} by {} upon version {}: {}",
                decision.verdict, decision.at, decision.actor, decision.version, decision.reason
            );
            self.field(2, "decision", &text);
        }
        if let Some(undo) = &row.undo {
            let receipt = undo.receipt.as_ref().map_or("under way", |receipt| receipt.text());
            self.field(2, "undo", &format!("{}: {receipt}", undo.by));
        }
        for alarm in &row.alarms {
            let text = format!("{} at {}: {}", alarm.kind, alarm.at, alarm.receipt.text());
            self.painted(2, Tone::Bad, &format!("{:<12} {text}", "ALARM"));
        }
    }

    fn run(&mut self, run: &RunStatement) {
        self.painted(0, Tone::Strong, &format!("run {}", run.id));
        self.field(1, "workflow", &run.workflow);
        let derives =
            if run.id_derives { "the id follows from it" } else { "THE ID DOES NOT FOLLOW" };
        self.field(1, "start key", &format!("{} ({derives})", run.key));
        self.field(1, "state", run.state);
        self.field(1, "created", &run.created_at);
        let more = [("ended", &run.ended_at), ("release", &run.release), ("parent", &run.parent)];
        for (name, text) in more {
            if let Some(text) = text {
                self.field(1, name, text);
            }
        }
        let chain = &run.chain;
        let told = match &chain.broken {
            None => format!("{} entries, hash chain followed up to {}", chain.entries, chain.head),
            Some(what) => format!("BROKEN after {} entries: {what}", chain.entries),
        };
        self.field(1, "journal", &told);
        run.entries.iter().for_each(|entry| self.entry(entry));
        for child in &run.children {
            let text = format!("{} {}/{}: {}", child.id, child.workflow, child.key, child.state);
            self.field(1, "child", &text);
        }
        self.repeats(1, &run.repeats);
    }

    fn entry(&mut self, entry: &EntryView) {
        let mut text = format!("{:>4} {} {}", entry.seq, entry.at, named(entry));
        let fence = entry.fence.map(|fence| format!("fence {fence}"));
        let more = [&entry.worker, &fence, &entry.run, &entry.delivery, &entry.actor];
        for word in more.into_iter().flatten() {
            text.push_str(&format!(" {word}"));
        }
        if let Some(end) = entry.end {
            text.push_str(&format!(" {end}"));
        }
        if entry.repeat {
            text.push_str(" (the receipt was there before)");
        }
        if let Some(fault) = &entry.fault {
            text.push_str(&format!(": {}", fault.code));
        }
        self.line(2, &text);
    }
}

/// The kind of an entry, its command, and what that asks for where the kind does not say it.
pub(super) fn named(entry: &EntryView) -> String {
    // An effect is named as one by what it is about.
    let kind = if entry.kind == "effect" { "settled" } else { entry.kind };
    let what = entry.what.as_deref().filter(|what| *what != entry.kind);
    let words = [Some(kind), entry.id.as_deref(), what];
    words.into_iter().flatten().collect::<Vec<_>>().join(" ")
}
