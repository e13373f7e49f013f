//! Proofs: from records to a statement that says what is proven, on what evidence, and what is not.
//!
//! Pure, so that a proof can be checked without the store that it came from: whoever has the
//! evidence builds the statement again and compares.

mod document;
mod effect;
mod evidence;
mod key;
mod run;
mod sentence;
mod statement;
mod verdict;

pub use document::{Check, Document, Signature, Unreadable};
pub use evidence::{Card, EntryEvidence, Evidence, Lost, RULES, RunEvidence, Standing, Subject};
pub use sentence::{Fact, Headline, Open, Sentence};
pub use statement::{
    AttemptStatement, ChainStatement, ChildStatement, Claim, ContractStatement, DownstreamKey,
    EffectStatement, FingerprintStatement, GenerationStatement, KeyPart, Mention,
    QuarantineStatement, RepeatStatement, RunStatement, Statement, Take, Verdict,
};

use std::collections::BTreeMap;

use crate::journal::{self, Entry, Event, Link};
use crate::key::Address;
use crate::record::{self, Effect};
use crate::repeats::Repeats;
use crate::time::Moment;
use crate::wire::rfc3339;

/// What a statement comes to: one word for programs, from the best to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Finding {
    /// A receipt proves that it happened, and the contract says how often.
    Done,
    /// Nothing was done, and that is proven.
    NotDone,
    /// It was done and taken back.
    Undone,
    /// A person or an import says that it happened.
    Told,
    /// It was settled so long ago that only its name is kept.
    Expired,
    /// It is under way.
    InProgress,
    InDoubt,
    /// A person says that it failed, and a receipt says that it did not.
    Disputed,
    /// Two different receipts: it happened twice.
    Twice,
    /// The records break their own rules.
    Broken,
}

impl Finding {
    /// All findings, from the best to the worst.
    pub const ALL: [Finding; 10] = [
        Finding::Done,
        Finding::NotDone,
        Finding::Undone,
        Finding::Told,
        Finding::Expired,
        Finding::InProgress,
        Finding::InDoubt,
        Finding::Disputed,
        Finding::Twice,
        Finding::Broken,
    ];

    /// The finding's name, as it is written everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            Finding::Done => "done",
            Finding::NotDone => "not_done",
            Finding::Undone => "undone",
            Finding::Told => "told",
            Finding::Expired => "expired",
            Finding::InProgress => "in_progress",
            Finding::InDoubt => "in_doubt",
            Finding::Disputed => "disputed",
            Finding::Twice => "twice",
            Finding::Broken => "broken",
        }
    }

    /// Reads a finding's name.
    pub fn parse(text: &str) -> Option<Finding> {
        Finding::ALL.into_iter().find(|finding| finding.as_str() == text)
    }
}

/// What was read from the records: all that the parts of a statement are made of.
struct Read<'a> {
    evidence: &'a Evidence,
    now: Moment,
    /// All generations of each effect, the oldest first.
    effects: BTreeMap<Address, Vec<Effect>>,
    runs: Vec<ReadRun>,
    repeats: BTreeMap<&'a str, Repeats>,
}

/// A run with its journal, and how far its chain holds.
struct ReadRun {
    run: crate::run::Run,
    entries: Vec<(u64, Entry)>,
    chain: ChainStatement,
}

/// Builds the statement that follows from the evidence. An error: it cannot be read.
pub fn state(evidence: &Evidence) -> Result<Statement, String> {
    if evidence.rules != RULES {
        return Err(format!("made by version {} of the rules; this is {RULES}", evidence.rules));
    }
    let read = read(evidence)?;
    let standing = &evidence.standing;
    let quarantine = standing.quarantine.map(|(opened, recovered)| QuarantineStatement {
        opened_at: rfc3339(opened),
        recovered_at: rfc3339(recovered),
    });
    let (about, name, namespace) = match &evidence.subject {
        Subject::Effect { namespace, action, key } => {
            ("effect", format!("{action}/{key}"), namespace.clone())
        }
        Subject::Run { namespace, id } => ("run", id.clone(), namespace.clone()),
    };
    let effects: Vec<_> = read.effects.values().map(|rows| effect::state(rows, &read)).collect();
    let run = match &evidence.subject {
        Subject::Effect { .. } => None,
        Subject::Run { id, .. } => Some(run::state(find(&read, id)?, &read)),
    };
    let mut verdict = match &run {
        Some(run) => verdict::of_run(run, &effects, find(&read, &run.id)?, &read.now),
        None => {
            let asked = effects.iter().find(|one| format!("{}/{}", one.action, one.key) == name);
            asked.ok_or("the evidence is without what was asked for")?.verdict.clone()
        }
    };
    verdict.not_proven.extend(verdict::of_the_store(quarantine.as_ref()));
    // What cannot be read may say anything: nothing is proven without it.
    for Lost { name, why } in &evidence.unreadable {
        verdict.finding = Finding::Broken.as_str();
        let says = Sentence::Broken(format!("{name} cannot be read"));
        verdict.broken.push(verdict::claim(says, why));
        if run.is_none() {
            verdict.says = Headline::Broken.into();
        }
    }
    let (rules, at, epoch) = (RULES, rfc3339(standing.wall), standing.epoch);
    Ok(Statement { rules, about, name, namespace, at, epoch, quarantine, verdict, run, effects })
}

fn find<'a>(read: &'a Read<'_>, id: &str) -> Result<&'a ReadRun, String> {
    let found = read.runs.iter().find(|one| one.run.id == id);
    found.ok_or_else(|| "the evidence is without the run that was asked for".to_owned())
}

fn read(evidence: &Evidence) -> Result<Read<'_>, String> {
    let mut effects: BTreeMap<Address, Vec<Effect>> = BTreeMap::new();
    for text in &evidence.effects {
        let effect = record::decode(text).map_err(|error| format!("an effect: {error}"))?;
        effects.entry(effect.address.clone()).or_default().push(effect);
    }
    for rows in effects.values_mut() {
        rows.sort_by_key(|effect| effect.generation);
        let is_whole = rows.iter().zip(0..).all(|(effect, place)| effect.generation == place);
        if !is_whole {
            return Err("a generation of an effect is missing, or there twice".into());
        }
    }
    let mut repeats = BTreeMap::new();
    for card in &evidence.repeats {
        let count = serde_json::from_str(&card.record);
        repeats.insert(card.name.as_str(), count.map_err(|error| format!("a card: {error}"))?);
    }
    let runs = evidence.runs.iter().map(read_run).collect::<Result<_, _>>()?;
    Ok(Read { evidence, now: evidence.standing.now(), effects, runs, repeats })
}

fn read_run(evidence: &RunEvidence) -> Result<ReadRun, String> {
    let run = crate::run::decode(&evidence.record, evidence.version)
        .map_err(|error| format!("a run: {error}"))?;
    let mut head = Link::of_run(&run.namespace, &run.id);
    let mut entries = Vec::new();
    let mut broken = None;
    // Read up to where it breaks: what lies behind follows from nothing.
    for (place, one) in (0..).zip(&evidence.entries) {
        let link = head.then(&one.text);
        if one.seq != place || one.link != link.to_string() {
            broken = Some(format!("entry {place} does not follow from the one before"));
            break;
        }
        match journal::decode(&one.text) {
            Ok(entry) => entries.push((place, entry)),
            Err(error) => {
                broken = Some(format!("entry {place} cannot be read: {error}"));
                break;
            }
        }
        head = link;
    }
    let (count, verified) = (entries.len() as u64, broken.is_none());
    let chain = ChainStatement { entries: count, verified, head: head.to_string(), broken };
    Ok(ReadRun { run, entries, chain })
}

/// The effect that an entry speaks of, as ACTION/KEY.
pub fn effect_named(event: &Event) -> Option<&str> {
    match event {
        Event::Planned { what, .. } | Event::Effect { what, .. } => what.strip_prefix("effect "),
        _ => None,
    }
}

fn repeat_statements(repeats: Option<&Repeats>) -> Vec<RepeatStatement> {
    let doors = repeats.map(|repeats| repeats.doors.as_slice()).unwrap_or_default();
    let statement = |count: &crate::repeats::Count| RepeatStatement {
        door: count.door.as_str(),
        at_least: count.count,
        first_at: rfc3339(count.first),
        last_at: rfc3339(count.last),
    };
    doors.iter().map(statement).collect()
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
