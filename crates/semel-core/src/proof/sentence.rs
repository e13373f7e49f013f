//! Every sentence that a proof can print. Each names the fact that it needs, and a test over random
//! histories finds none printed without it.

use std::fmt;

use serde::{Serialize, Serializer};

use super::verdict::counted;

/// One sentence of a proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sentence {
    /// What the whole comes to.
    Headline(Headline),
    /// A fact that is on record.
    Fact(Fact),
    /// What nobody can conclude from the records.
    Open(Open),
    /// The same about one effect of a run.
    Of(String, Box<Sentence>),
    /// A rule that the records break, as the check that found it says.
    Broken(String),
}

/// What a proof comes to, in one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Headline {
    /// Needs: rows and receipt are one commit of one database.
    ExactlyOnce,
    /// Needs: a receipt, one send, and nothing that is only assumed.
    SentOnce,
    /// Needs: a receipt, and an end `not_applied` for every other attempt that may have sent.
    OneOfSends { sends: usize },
    /// Needs: a receipt, and that every send was begun under the one downstream key.
    UnderOneKey { sends: usize },
    /// Needs: a receipt, several sends, and a doubt whose code never read the downstream key.
    KeyUnread { sends: usize },
    /// Needs: a receipt, and sends under the contract `conditional`.
    UnderOneCondition { sends: usize },
    /// Needs: a receipt.
    PerhapsMore,
    /// Needs: the state `failed`, without a receipt and without an attempt that is unknown.
    NotAndWillNot,
    /// Needs: the same, where a person or an import ended an attempt.
    ToldNotAndWillNot,
    /// Needs: the state `void`, which has no send on record.
    Cancelled,
    /// Needs: an approval that is not answered, and no attempt on record.
    Held,
    /// Needs: an approval that is not answered, and no attempt that may have been applied.
    HeldAgain,
    /// Needs: the state `planned`.
    NothingSoFar,
    /// Needs: the state `planned`, and an attempt that a person or an import ended.
    ToldNothing,
    /// Needs: a quarantine that is open, and no attempt since the store went back.
    Forgotten,
    /// Needs: the receipt of the effect that undoes it.
    Undone,
    /// Needs: an undo that was begun.
    BeingUndone,
    /// Needs: a receipt that a person or an import gave.
    Told,
    /// Needs: a tombstone.
    Expired,
    /// Needs: an attempt that holds its lease.
    InProgress,
    /// Needs: an attempt whose outcome is unknown.
    InDoubt,
    /// Needs: a person's `failed`, and a receipt.
    Disputed,
    /// Needs: two different receipts.
    Twice,
    /// Needs: a rule that the records break.
    Broken,
    /// Needs: the state of a run, and the findings of its effects.
    Run { state: &'static str, counts: Vec<String> },
}

/// A fact on record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// Needs: the row.
    OneIntent {
        action: String,
        key: String,
        namespace: String,
    },
    /// Needs: a fingerprint that fits the stored input, computed again.
    OneInput,
    /// Needs: attempts that were begun with the key that the row has.
    KeyHanded {
        sends: usize,
        key: String,
    },
    /// Needs: an end `applied` of this attempt, by its own code.
    Receipt {
        attempt: u32,
    },
    /// Needs: an end `applied` of this attempt, by a look.
    Found {
        attempt: u32,
    },
    /// Needs: an end `applied` of this attempt, by a person or an import.
    CountsAsDone {
        attempt: u32,
    },
    /// Needs: an end `not_applied` of this attempt.
    NotApplied {
        attempt: u32,
    },
    /// Needs: no attempt on record, and no tombstone.
    NothingSent,
    /// Needs: the state `failed`, and no attempt that is unknown.
    NotSentAgain,
    /// Needs: the contract on record.
    Contract {
        name: &'static str,
        promise: &'static str,
    },
    /// Needs: the answer to an approval.
    Approved {
        actor: String,
    },
    Denied {
        actor: String,
    },
    Returned {
        actor: String,
    },
    NoAnswer,
    /// Needs: a decision on record.
    Decided {
        actor: String,
        verdict: &'static str,
    },
    /// Needs: the receipt of the effect that undoes it.
    UndoneBy {
        by: String,
    },
    /// Needs: an undo on record.
    UndoBegun {
        by: String,
    },
    /// Needs: more than one generation, each under a downstream key of its own.
    Generations {
        count: usize,
    },
    /// Needs: counts of repeats. Each is a lower bound.
    Repeats {
        total: u64,
    },
    /// Needs: an entry of this run's journal that names the effect, and a chain that holds.
    Named {
        run: String,
    },
    /// Needs: a run's id that follows from its key.
    OneRun {
        workflow: String,
        key: String,
    },
    /// Needs: a chain of hashes that holds from the first entry to the last.
    JournalWhole,
    /// Needs: takes with fences that grow.
    Workers {
        count: usize,
    },
    /// Needs: counts of repeats of a run.
    RunRepeats {
        total: u64,
    },
}

/// What is not proven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Open {
    /// An attempt whose outcome is unknown.
    Changed {
        attempt: u32,
    },
    /// The records of a tombstone are gone.
    WhatItCameTo,
    PersonIsRight,
    ImportIsRight,
    DestinationDidIt,
    /// The code gets the key; what it puts on the wire is not seen.
    KeyPassedOn,
    /// The code of this attempt never read the key.
    KeyReadBy {
        attempt: u32,
    },
    KeysHonoured {
        retention: String,
    },
    ConditionHonoured,
    NoLateSend {
        settle: String,
    },
    OnlyOnce,
    /// Counts of repeats are lower bounds.
    AllRepeats,
    RunJournal {
        run: String,
    },
    Rewritten,
    Forgotten,
    RunHistory,
    Child {
        run: String,
    },
}

impl fmt::Display for Sentence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sentence::Headline(headline) => headline.fmt(f),
            Sentence::Fact(fact) => fact.fmt(f),
            Sentence::Open(open) => open.fmt(f),
            Sentence::Of(name, sentence) => write!(f, "{name}: {sentence}"),
            Sentence::Broken(what) => f.write_str(what),
        }
    }
}

impl fmt::Display for Headline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Headline::ExactlyOnce => "it happened exactly once",
            Headline::SentOnce => "it was sent once, and its receipt is on record",
            Headline::OneOfSends { sends } => {
                return write!(
                    f,
                    "it was sent {sends} times: one send has a receipt, the others are on record \
                     as not applied"
                );
            }
            Headline::UnderOneKey { sends } => {
                return write!(
                    f,
                    "it was begun {sends} times under one downstream key: it counts once if the \
                     destination got that key and honours it"
                );
            }
            Headline::KeyUnread { sends } => {
                return write!(
                    f,
                    "it was begun {sends} times, and its code did not read the downstream key each \
                     time: it may have happened more than once"
                );
            }
            Headline::UnderOneCondition { sends } => {
                return write!(
                    f,
                    "it was begun {sends} times: it counts once if the destination refuses a \
                     second write"
                );
            }
            Headline::PerhapsMore => "it happened, perhaps more than once",
            Headline::NotAndWillNot => "it did not happen, and will not be sent again",
            Headline::ToldNotAndWillNot => {
                "a person recorded that it did not happen; it will not be sent again"
            }
            Headline::Cancelled => "it was cancelled before anything was sent",
            Headline::Held => "nothing was sent: it waits for an approval",
            Headline::HeldAgain => "it waits for an approval: nothing was done so far",
            Headline::NothingSoFar => "nothing was done so far",
            Headline::ToldNothing => "a person recorded that nothing was done so far",
            Headline::Forgotten => {
                "it is in doubt: the store went back in time and may have forgotten an attempt"
            }
            Headline::Undone => "it happened, and was undone",
            Headline::BeingUndone => "it happened, and is being undone",
            Headline::Told => "a person or an import recorded that it happened",
            Headline::Expired => "it was settled, and its records are past their retention",
            Headline::InProgress => "an attempt is in progress: its outcome is not known yet",
            Headline::InDoubt => "it is in doubt: an attempt began, and its outcome is unknown",
            Headline::Disputed => "it is disputed: a person recorded failed, a receipt says done",
            Headline::Twice => "it happened twice: there are two different receipts",
            Headline::Broken => "these records break the rules: they prove nothing",
            Headline::Run { state, counts } if counts.is_empty() => {
                return write!(f, "the run is {state}; it has no effects");
            }
            Headline::Run { state, counts } => {
                return write!(f, "the run is {state}; of its effects {}", counts.join(", "));
            }
        };
        f.write_str(text)
    }
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fact::OneIntent { action, key, namespace } => {
                write!(f, "this is one intent: {action}/{key} in the namespace {namespace}")
            }
            Fact::OneInput => {
                f.write_str("one input is on record; the same key with another one is refused")
            }
            Fact::KeyHanded { sends: 0, key } => {
                write!(f, "every send would be handed the downstream key {key}")
            }
            Fact::KeyHanded { sends: 1, key } => {
                write!(f, "the one send was handed the downstream key {key}")
            }
            Fact::KeyHanded { sends, key } => {
                write!(f, "all {sends} sends were handed the same downstream key {key}")
            }
            Fact::Receipt { attempt } => {
                write!(f, "attempt {attempt} returned a receipt, which every repeat gets")
            }
            Fact::Found { attempt } => {
                write!(f, "a look found what attempt {attempt} did; its receipt is kept")
            }
            Fact::CountsAsDone { attempt } => {
                write!(f, "attempt {attempt} counts as done, and its receipt is kept")
            }
            Fact::NotApplied { attempt } => write!(f, "attempt {attempt} ended as not applied"),
            Fact::NothingSent => f.write_str("nothing was sent"),
            Fact::NotSentAgain => f.write_str("it will not be sent again under this key"),
            Fact::Contract { name, promise } => write!(f, "its contract is {name}: {promise}"),
            Fact::Approved { actor } => {
                write!(f, "{actor} approved the contract and the input that are on record")
            }
            Fact::Denied { actor } => write!(f, "{actor} denied it"),
            Fact::Returned { actor } => write!(f, "{actor} returned it to its author"),
            Fact::NoAnswer => f.write_str("nobody answered in time, which counts as denied"),
            Fact::Decided { actor, verdict } => write!(f, "{actor} decided: {verdict}"),
            Fact::UndoneBy { by } => write!(f, "{by} undid it"),
            Fact::UndoBegun { by } => write!(f, "{by} was begun to undo it"),
            Fact::Generations { count } => {
                write!(f, "it has {count} generations, each with a downstream key of its own")
            }
            Fact::Repeats { total } => write!(
                f,
                "at least {total} {} answered from the record, without another send",
                if *total == 1 { "repeat was" } else { "repeats were" }
            ),
            Fact::Named { run } => write!(f, "the journal of run {run} names it"),
            Fact::OneRun { workflow, key } => {
                write!(f, "this is one run: {workflow} started by the key {key}")
            }
            Fact::JournalWhole => {
                f.write_str("its journal is whole: each entry follows from the one before")
            }
            Fact::Workers { count } => {
                write!(f, "it was taken {count} times, each time under a higher fence")
            }
            Fact::RunRepeats { total } => {
                let total = usize::try_from(*total).unwrap_or(usize::MAX);
                write!(f, "at least {} met the run that was there", counted(total, "repeat"))
            }
        }
    }
}

impl fmt::Display for Open {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Open::Changed { attempt } => write!(f, "whether attempt {attempt} changed anything"),
            Open::WhatItCameTo => f.write_str("what it came to"),
            Open::PersonIsRight => f.write_str("that the person's decision is right"),
            Open::ImportIsRight => f.write_str("that the imported row is right"),
            Open::DestinationDidIt => f.write_str("that the destination did what its answer says"),
            Open::KeyPassedOn => f.write_str("that the sends carried the downstream key"),
            Open::KeyReadBy { attempt } => {
                write!(f, "that attempt {attempt} passed the downstream key on")
            }
            Open::KeysHonoured { retention } => {
                write!(f, "that the destination honours keys for {retention}")
            }
            Open::ConditionHonoured => {
                f.write_str("that the destination refuses a second write under the same condition")
            }
            Open::NoLateSend { settle } => {
                write!(f, "that no stopped process sends later than {settle} after its end")
            }
            Open::OnlyOnce => f.write_str("that it happened only once"),
            Open::AllRepeats => f.write_str("how many repeats there were in all"),
            Open::RunJournal { run } => write!(f, "what run {run} made of it"),
            Open::Rewritten => {
                f.write_str("that nobody rewrote the store as a whole before this proof was made")
            }
            Open::Forgotten => {
                f.write_str("what the store has forgotten since it went back in time")
            }
            Open::RunHistory => f.write_str("what happened in the run"),
            Open::Child { run } => write!(f, "what the child {run} did"),
        }
    }
}

impl From<Headline> for Sentence {
    fn from(headline: Headline) -> Sentence {
        Sentence::Headline(headline)
    }
}

impl From<Fact> for Sentence {
    fn from(fact: Fact) -> Sentence {
        Sentence::Fact(fact)
    }
}

impl From<Open> for Sentence {
    fn from(open: Open) -> Sentence {
        Sentence::Open(open)
    }
}

/// It is written as its text.
impl Serialize for Sentence {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
