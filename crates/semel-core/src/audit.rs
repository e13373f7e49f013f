//! The audit chain: what people decided, one entry each, in the order of their namespace. An
//! entry's hash covers the hash of the one before it, so none can be changed, taken out or moved
//! without breaking all that follow.
//!
//! An entry is a card of its own, written in the commit that carries the decision out. Its number
//! is the guard: of two who append at once, one finds the number taken and decides again. Entries
//! are never changed and never removed.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::json::Json;
use crate::seal::Seal;
use crate::time::Wall;

/// The kind of the cards that entries are.
pub const CARD: &str = "audit";

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Entry {
    /// One for the first entry of a namespace, and one more for each that follows.
    pub seq: u64,
    /// The hash of the entry before; the first one has that of its namespace.
    pub previous: String,
    pub at: Wall,
    pub actor: String,
    pub verb: Verb,
    /// What was decided upon: `effect action/key g0`, `run …`, `schedule …`.
    pub subject: String,
    pub reason: String,
    /// The version that was decided upon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// What it says beyond: the digest of an approved payload, the release, the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// What was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Verb {
    ResolveDone,
    ResolveFailed,
    ResolveRetry,
    Grant,
    Supersede,
    Void,
    Import,
    Approve,
    Deny,
    Return,
    CancelRun,
    RetryRun,
    SkipStep,
    FailRun,
    MoveRun,
    PutSchedule,
    PauseSchedule,
    ResumeSchedule,
    RemoveSchedule,
    PutTrigger,
    RemoveTrigger,
    Promote,
    CloseQuarantine,
    CreateToken,
    RevokeToken,
    CreateApprovalLink,
}

impl Verb {
    pub fn as_str(self) -> &'static str {
        match self {
            Verb::ResolveDone => "resolve_done",
            Verb::ResolveFailed => "resolve_failed",
            Verb::ResolveRetry => "resolve_retry",
            Verb::Grant => "grant",
            Verb::Supersede => "supersede",
            Verb::Void => "void",
            Verb::Import => "import",
            Verb::Approve => "approve",
            Verb::Deny => "deny",
            Verb::Return => "return",
            Verb::CancelRun => "cancel_run",
            Verb::RetryRun => "retry_run",
            Verb::SkipStep => "skip_step",
            Verb::FailRun => "fail_run",
            Verb::MoveRun => "move_run",
            Verb::PutSchedule => "put_schedule",
            Verb::PauseSchedule => "pause_schedule",
            Verb::ResumeSchedule => "resume_schedule",
            Verb::RemoveSchedule => "remove_schedule",
            Verb::PutTrigger => "put_trigger",
            Verb::RemoveTrigger => "remove_trigger",
            Verb::Promote => "promote",
            Verb::CloseQuarantine => "close_quarantine",
            Verb::CreateToken => "create_token",
            Verb::RevokeToken => "revoke_token",
            Verb::CreateApprovalLink => "create_approval_link",
        }
    }
}

/// A decision that is to be written down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deed {
    pub actor: String,
    pub verb: Verb,
    pub subject: String,
    pub reason: String,
    pub version: Option<u64>,
    pub detail: Option<String>,
}

/// The end of a chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    pub seq: u64,
    pub hash: String,
}

impl End {
    /// Where the chain of a namespace begins: two namespaces have no entry in common.
    pub fn of_namespace(namespace: &str) -> End {
        let mut hash = Sha256::new();
        hash.update(b"semel audit 1\0");
        hash.update(namespace);
        End { seq: 0, hash: Seal(hash.finalize().into()).to_string() }
    }
}

/// The entry that follows an end, as it is written.
pub fn append(end: &End, deed: &Deed, at: Wall) -> (Entry, String) {
    let Deed { actor, verb, subject, reason, version, detail } = deed.clone();
    let (seq, previous) = (end.seq + 1, end.hash.clone());
    let entry = Entry { seq, previous, at, actor, verb, subject, reason, version, detail };
    let text = Json::of(&entry).expect("an entry is plain data").text().to_owned();
    (entry, text)
}

/// Reads an entry that must follow an end. Returns where the chain ends with it.
pub fn follow(end: &End, text: &str) -> Result<(Entry, End), String> {
    let (entry, next) = read(text)?;
    if entry.seq != end.seq + 1 {
        return Err(format!("entry {} follows entry {}", entry.seq, end.seq));
    }
    if entry.previous != end.hash {
        return Err(format!("entry {} does not follow the one before it", entry.seq));
    }
    Ok((entry, next))
}

/// Reads one entry, and where a chain ends with it.
pub fn read(text: &str) -> Result<(Entry, End), String> {
    let entry: Entry = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let hash = Seal(Sha256::digest(text.as_bytes()).into()).to_string();
    let end = End { seq: entry.seq, hash };
    Ok((entry, end))
}

/// The name of an entry's card. Names fall as entries come, so that the newest is found first.
pub fn card_name(seq: u64) -> String {
    format!("{:020}", u64::MAX - seq)
}

/// The entry whose card has this name.
pub fn seq_of(name: &str) -> Option<u64> {
    let is_ours = name.len() == 20 && name.bytes().all(|byte| byte.is_ascii_digit());
    let number = is_ours.then(|| name.parse::<u64>().ok()).flatten();
    number.map(|number| u64::MAX - number)
}

/// How an effect is named in an entry.
pub fn effect_subject(address: &crate::key::Address, generation: u32) -> String {
    format!("effect {address} g{generation}")
}

/// How a run is named in an entry.
pub fn run_subject(id: &str) -> String {
    format!("run {id}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deed(reason: &str) -> Deed {
        Deed {
            actor: "ann".into(),
            verb: Verb::Approve,
            subject: "effect mail/7 g0".into(),
            reason: reason.into(),
            version: Some(2),
            detail: None,
        }
    }

    fn chain(count: u64) -> Vec<String> {
        let mut end = End::of_namespace("default");
        let mut texts = Vec::new();
        for number in 0..count {
            let (_, text) = append(&end, &deed(&format!("because {number}")), Wall(5));
            end = follow(&end, &text).expect("it follows").1;
            texts.push(text);
        }
        texts
    }

    fn walk(namespace: &str, texts: &[String]) -> Result<End, String> {
        let begin = End::of_namespace(namespace);
        texts.iter().try_fold(begin, |end, text| follow(&end, text).map(|(_, end)| end))
    }

    #[test]
    fn inv_i22_an_entry_that_was_changed_taken_out_or_moved_breaks_the_chain() {
        let whole = chain(4);
        let end = walk("default", &whole).expect("whole");
        assert_eq!(end.seq, 4);
        assert!(walk("other", &whole).is_err(), "another namespace's chain");
        for place in 0..4 {
            let mut changed = whole.clone();
            changed[place] = changed[place].replace("because", "so what");
            let found = walk("default", &changed);
            // A changed last entry is only seen against a head.
            assert!(found.as_ref().is_err() || (place == 3 && found != Ok(end.clone())), "{place}");
            let mut shorter = whole.clone();
            shorter.remove(place);
            assert!(place == 3 || walk("default", &shorter).is_err(), "{place} is missing");
            let mut moved = whole.clone();
            moved.swap(place, (place + 1) % 4);
            assert!(walk("default", &moved).is_err(), "{place} was moved");
        }
    }

    #[test]
    fn the_newest_entry_has_the_first_name() {
        assert_eq!(card_name(1), "18446744073709551614");
        assert!(card_name(2) < card_name(1) && card_name(u64::MAX) < card_name(2));
        assert_eq!(seq_of(&card_name(77)), Some(77));
        for name in ["", "x", "7", "99999999999999999999", "+0000000000000000007"] {
            assert_eq!(seq_of(name), None, "{name}");
        }
    }

    #[test]
    fn a_verb_is_stored_as_it_is_shown() {
        for verb in [Verb::ResolveDone, Verb::CloseQuarantine, Verb::PutTrigger] {
            assert_eq!(Json::of(&verb).expect("JSON").text(), format!("\"{}\"", verb.as_str()));
        }
    }
}
