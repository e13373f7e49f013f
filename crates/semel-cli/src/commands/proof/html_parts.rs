//! The parts of the page: a run, an effect, a drawing of its attempts over time.

use maud::{Markup, html};
use semel_core::proof::{
    AttemptStatement, EffectStatement, GenerationStatement, RepeatStatement, RunStatement,
};

use super::html::{banner, claims};

/// The drawing, in units of its own.
const WIDTH: i64 = 900;
const LEFT: i64 = 110;
const ROW: i64 = 26;

pub(super) fn run(run: &RunStatement) -> Markup {
    let chain = match &run.chain.broken {
        None => format!("{} entries, followed up to {}", run.chain.entries, run.chain.head),
        Some(what) => format!("broken after {} entries: {what}", run.chain.entries),
    };
    html! {
        h2 { "Run " code { (run.id) } }
        dl {
            dt { "Workflow" } dd { (run.workflow) }
            dt { "Start key" } dd { code { (run.key) } }
            dt { "State" } dd { (run.state) }
            dt { "Hash chain" } dd { (chain) }
            @for one in &run.repeats { dt { "Repeats" } dd { (repeats(one)) } }
            @for child in &run.children {
                dt { "Child" }
                dd { code { (child.id) } " " (child.workflow) "/" (child.key) ": " (child.state) }
            }
        }
        table {
            thead { tr { th { "Entry" } th { "When" } th { "What" } th { "Who" } } }
            tbody {
                @for entry in &run.entries {
                    tr {
                        td { (entry.seq) }
                        td { (entry.at) }
                        td {
                            (super::text::named(entry))
                            @if let Some(end) = entry.end { " " (end) }
                            @if entry.repeat { " (the receipt was there before)" }
                            @if let Some(fault) = &entry.fault { ": " (fault.code) }
                        }
                        td class="id" {
                            (entry.worker.as_deref().or(entry.actor.as_deref()).unwrap_or_default())
                            @if let Some(fence) = entry.fence { " fence " (fence) }
                        }
                    }
                }
            }
        }
    }
}

pub(super) fn effect(effect: &EffectStatement, has_own_verdict: bool) -> Markup {
    html! {
        h2 { "Effect " code { (effect.action) "/" (effect.key) } }
        @if has_own_verdict { (banner(&effect.verdict)) }
        dl {
            dt { "Id" } dd { code { (effect.id) } }
            @for part in &effect.key_parts {
                dt { "Key part" }
                dd {
                    code { (part.part) }
                    @if !part.equals.is_empty() { " = input " code { (part.equals.join(", ")) } }
                }
            }
            @if let Some(derived) = &effect.derived { dt { "Made by" } dd { code { (derived) } } }
            @if let Some(workflow) = &effect.workflow { dt { "Workflow" } dd { (workflow) } }
            @if let Some(run) = &effect.run { dt { "Run" } dd { code { (run) } } }
            @for one in &effect.repeats { dt { "Repeats" } dd { (repeats(one)) } }
            @for one in &effect.mentions {
                dt { "Journal" }
                dd { "entry " (one.seq) " of run " code { (one.run) } ": " (one.kind) }
            }
        }
        @for row in &effect.generations { (generation(row)) }
        @if has_own_verdict {
            (claims("Broken", &effect.verdict.broken))
            (claims("Proven", &effect.verdict.proven))
            (claims("Not proven", &effect.verdict.not_proven))
        }
    }
}

fn repeats(one: &RepeatStatement) -> Markup {
    html! { "at least " (one.at_least) " by " (one.door) ", " (one.first_at) " to " (one.last_at) }
}

fn generation(row: &GenerationStatement) -> Markup {
    html! {
        h3 { "Generation " (row.generation) ": " (row.state) ", version " (row.version) }
        (terms(row))
        @if !row.attempts.is_empty() {
            (drawing(&row.attempts))
            table {
                thead {
                    tr {
                        @for name in ["Attempt", "Fence", "Began", "Worker", "Outcome"] {
                            th { (name) }
                        }
                    }
                }
                tbody { @for attempt in &row.attempts { (attempt_row(attempt)) } }
            }
        }
        (people(row))
    }
}

fn terms(row: &GenerationStatement) -> Markup {
    html! {
        dl {
            dt { "Created" } dd { (row.created_at) }
            @if let Some(at) = &row.settled_at { dt { "Settled" } dd { (at) } }
            @if let Some(at) = &row.superseded_at { dt { "Superseded" } dd { (at) } }
            @if let Some(contract) = &row.contract {
                dt { "Contract" }
                dd { strong { (contract.name) } ": " (contract.promise) }
            }
            @if let Some(print) = &row.fingerprint {
                dt { "Fingerprint" }
                dd {
                    code { (print.digest) }
                    @if print.matches_input { " fits the input" } @else { " does not fit" }
                }
            }
            @if let Some(key) = &row.downstream_key {
                dt { "Key handed" }
                dd {
                    code { (key.key) }
                    @if key.derived { ", derived again" } @else { ", declared" }
                    "; handed to sends: " (key.sends)
                }
            }
            @if let (Some(receipt), Some(digest)) = (&row.receipt, &row.receipt_digest) {
                dt { "Receipt" } dd { code { (receipt.text()) } }
                dt { "Its digest" } dd { code { (digest) } }
            }
            @if let Some(failure) = &row.failure { dt { "Failure" } dd { (failure) } }
        }
    }
}

fn attempt_row(attempt: &AttemptStatement) -> Markup {
    let view = &attempt.view;
    html! {
        tr {
            td { (view.kind) " " (view.number) }
            td { (view.fence) }
            td { (view.began_at) }
            td class="id" { (view.worker) }
            td {
                (view.outcome)
                @if let Some(by) = view.by { " by " (by) }
                @if let Some(at) = &view.ended_at { " at " (at) }
                @if let Some(doubt) = &attempt.doubt { br; "doubt: " (doubt) }
            }
        }
    }
}

fn people(row: &GenerationStatement) -> Markup {
    html! {
        dl {
            @if let Some(approval) = &row.approval {
                dt { "Approval" }
                dd {
                    "asked at " (approval.asked_at) ", digest " code { (approval.digest) }
                    @if let Some(answer) = approval.answer {
                        ": " (answer) " by " (approval.answered_by.as_deref().unwrap_or_default())
                        " at " (approval.answered_at.as_deref().unwrap_or_default())
                    }
                }
            }
            @for one in &row.decisions {
                dt { "Decision" }
                dd { (one.verdict) " by " (one.actor) " at " (one.at) ": " (one.reason) }
            }
            @if let Some(undo) = &row.undo {
                dt { "Undo" }
                dd {
                    (undo.by) ": "
                    @match &undo.receipt {
                        Some(receipt) => code { (receipt.text()) },
                        None => "under way",
                    }
                }
            }
            @for alarm in &row.alarms {
                dt { "Alarm" }
                dd {
                    strong { (alarm.kind) } " at " (alarm.at) ": "
                    code { (alarm.receipt.text()) }
                }
            }
        }
    }
}

/// Attempts over time: a bar each, open to the right where nobody knows its end.
fn drawing(attempts: &[AttemptStatement]) -> Markup {
    let first = attempts.iter().map(|one| one.began_ms).min().unwrap_or(0);
    let ends = attempts.iter().map(|one| one.ended_ms.unwrap_or(one.began_ms));
    let last = ends.max().unwrap_or(first);
    let span = last.saturating_sub(first).max(1);
    let place = |ms: i64| {
        let share = i128::from(ms.saturating_sub(first)) * i128::from(WIDTH - LEFT - 20);
        LEFT + i64::try_from(share / i128::from(span)).unwrap_or(0)
    };
    let rows = i64::try_from(attempts.len()).unwrap_or(0);
    let bars = attempts.iter().zip(0..).map(|(one, row)| {
        let from = place(one.began_ms);
        let to = one.ended_ms.map_or(WIDTH - 20, place).max(from + 3);
        (one, row * ROW, from, to - from)
    });
    let view = format!("0 0 {WIDTH} {}", rows * ROW + 4);
    html! {
        svg viewBox=(view) role="img" aria-label="attempts over time" {
            @for (one, top, from, wide) in bars {
                text x="0" y=(top + 18) { (one.view.kind) " " (one.view.number) }
                rect x=(from) y=(top + 5) width=(wide) height=(ROW - 8) rx="3"
                    fill=(colour(one.view.outcome)) {
                    title { (one.view.outcome) }
                }
            }
        }
    }
}

fn colour(outcome: &str) -> &'static str {
    match outcome {
        "applied" | "found" => "#1d7f45",
        "not_applied" | "absent" => "#7a8794",
        "open" => "#2f6fb3",
        _ => "#b7791f",
    }
}
