//! A vendor's claim: what was seen of a destination in, the contract that it really honours out.
//!
//! Trials repeat one request in several ways. What an answer names (its *object*) and, where
//! somebody can count, how many objects there are, is all that a trial knows. What no trial has
//! shown is said, not assumed.

mod conditional;
mod native_key;
mod probe;
#[cfg(test)]
mod tests;

use crate::record::Contract;
use crate::time::format_duration_ms;

/// One answer to one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// None: the connection ended without one.
    pub status: Option<u16>,
    /// What the answer names: an id, or a digest of all of it.
    pub object: Option<String>,
}

/// One way of repeating.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    pub kind: Kind,
    /// In the order they were sent; of those at once, in any order.
    pub answers: Vec<Answer>,
    /// How many objects it made. None: nobody can count them.
    pub objects: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One request twice, under one key.
    Twice,
    /// Another body under the key of `Twice`.
    OtherBody,
    /// One request many times at once, under one key.
    AtOnce,
    /// After a request whose answer nobody read: the same twice, under its key.
    Cut,
    /// The request of `Twice` under another key.
    FreshKey,
    /// The request of `Twice` without a key.
    NoKey,
    /// The request of `Twice` once more, after a pause.
    Later,
    /// A creation that is conditional on absence, twice.
    CreateTwice,
    /// The same, many times at once.
    CreateAtOnce,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Twice => "twice",
            Kind::OtherBody => "other_body",
            Kind::AtOnce => "at_once",
            Kind::Cut => "cut",
            Kind::FreshKey => "fresh_key",
            Kind::NoKey => "no_key",
            Kind::Later => "later",
            Kind::CreateTwice => "create_twice",
            Kind::CreateAtOnce => "create_at_once",
        }
    }
}

/// What a search for a reference found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search {
    /// Before anything was created under it.
    pub before: u64,
    /// After one creation.
    pub after: u64,
    /// How long it took to be found.
    pub visible_ms: u64,
}

/// All that was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub trials: Vec<Trial>,
    pub search: Option<Search>,
    /// The pause before `Later`.
    pub paused_ms: u64,
}

/// The contracts that a destination can be asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    NativeKey,
    Conditional,
    Probe,
    AtMostOnce,
}

impl Claim {
    /// The best first.
    pub const ALL: [Claim; 4] =
        [Claim::NativeKey, Claim::Conditional, Claim::Probe, Claim::AtMostOnce];

    pub fn name(self) -> &'static str {
        match self {
            Claim::NativeKey => "native_key",
            Claim::Conditional => "conditional",
            Claim::Probe => "probe",
            Claim::AtMostOnce => "at_most_once",
        }
    }

    /// The promise that Semel can make on it, word for word.
    pub fn promise(self) -> &'static str {
        let contract = match self {
            Claim::NativeKey => Contract::NativeKey { retention_ms: 0 },
            Claim::Conditional => Contract::Conditional,
            Claim::Probe => Contract::Probe { first: false },
            Claim::AtMostOnce => Contract::AtMostOnce,
        };
        contract.promise()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    Holds,
    Broken,
    NotShown,
}

impl Word {
    pub fn name(self) -> &'static str {
        match self {
            Word::Holds => "holds",
            Word::Broken => "broken",
            Word::NotShown => "not_shown",
        }
    }
}

/// One observation and what it means for a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// Which trial, or `search`.
    pub trial: &'static str,
    pub word: Word,
    pub fact: String,
    /// Whether the claim stands or falls with it.
    pub is_needed: bool,
}

/// What is to be said of one claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub claim: Claim,
    pub word: Word,
    pub evidence: Vec<Evidence>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// The best contract that was shown to hold.
    pub honours: Claim,
    /// One for each claim, the best first.
    pub verdicts: Vec<Verdict>,
    /// What is left open, as sentences.
    pub not_shown: Vec<String>,
}

impl Judgement {
    pub fn verdict(&self, claim: Claim) -> Option<&Verdict> {
        self.verdicts.iter().find(|verdict| verdict.claim == claim)
    }
}

/// Judges every claim by what was seen.
pub fn judge(seen: &Seen) -> Judgement {
    let verdicts: Vec<Verdict> = Claim::ALL
        .into_iter()
        .map(|claim| {
            let evidence = match claim {
                Claim::NativeKey => native_key::evidence(seen),
                Claim::Conditional => conditional::evidence(seen),
                Claim::Probe => probe::evidence(seen),
                Claim::AtMostOnce => vec![Evidence::holds(
                    "none",
                    "nothing is asked of the destination: a cut attempt waits for a person",
                )],
            };
            Verdict { claim, word: word(&evidence), evidence }
        })
        .collect();
    let holds = verdicts.iter().find(|verdict| verdict.word == Word::Holds);
    let honours = holds.map_or(Claim::AtMostOnce, |verdict| verdict.claim);
    let not_shown = not_shown(seen, &verdicts);
    Judgement { honours, verdicts, not_shown }
}

/// One broken piece breaks the whole; a needed one that is missing leaves it open.
fn word(evidence: &[Evidence]) -> Word {
    if evidence.iter().any(|evidence| evidence.word == Word::Broken) {
        return Word::Broken;
    }
    let is_open = |evidence: &Evidence| evidence.is_needed && evidence.word != Word::Holds;
    if evidence.iter().any(is_open) { Word::NotShown } else { Word::Holds }
}

fn not_shown(seen: &Seen, verdicts: &[Verdict]) -> Vec<String> {
    let open = verdicts.iter().flat_map(|verdict| &verdict.evidence);
    let open = open.filter(|evidence| evidence.word == Word::NotShown);
    let mut facts: Vec<String> = Vec::new();
    for fact in open.map(|evidence| &evidence.fact) {
        if !facts.contains(fact) {
            facts.push(fact.clone());
        }
    }
    let keys = verdicts.iter().find(|verdict| verdict.claim == Claim::NativeKey);
    if keys.is_some_and(|verdict| verdict.word == Word::Holds) {
        facts.push(match seen.paused_ms {
            0 => "how long it remembers a key (--wait tries a pause)".into(),
            ms => format!("whether it remembers a key beyond {}", format_duration_ms(ms)),
        });
    }
    if seen.trials.iter().all(|trial| trial.objects.is_none()) {
        let fact = "how many objects there are: only answers were compared (--count or --lookup)";
        facts.push(fact.into());
    }
    facts
}

impl Seen {
    fn trial(&self, kind: Kind) -> Option<&Trial> {
        self.trials.iter().find(|trial| trial.kind == kind)
    }
}

impl Trial {
    fn successes(&self) -> impl Iterator<Item = &Answer> {
        self.answers.iter().filter(|answer| answer.is_success())
    }

    /// The objects that successful answers name, each once.
    fn named(&self) -> Vec<&str> {
        let mut named = Vec::new();
        for object in self.successes().filter_map(|answer| answer.object.as_deref()) {
            if !named.contains(&object) {
                named.push(object);
            }
        }
        named
    }

    /// The statuses of those that did not succeed, each once.
    fn refusals(&self) -> Vec<u16> {
        let failed = self.answers.iter().filter(|answer| !answer.is_success());
        let mut statuses: Vec<u16> = failed.filter_map(|answer| answer.status).collect();
        statuses.sort_unstable();
        statuses.dedup();
        statuses
    }

    fn made_several(&self) -> bool {
        self.objects.is_some_and(|count| count > 1)
    }
}

impl Answer {
    fn is_success(&self) -> bool {
        self.status.is_some_and(|status| (200..300).contains(&status))
    }

    fn is_refusal(&self) -> bool {
        self.status.is_some_and(|status| (400..500).contains(&status))
    }

    /// `status 409`, or that there was none.
    fn told(&self) -> String {
        self.status.map_or_else(|| "no answer".into(), |status| format!("status {status}"))
    }
}

impl Evidence {
    fn holds(trial: &'static str, fact: impl Into<String>) -> Evidence {
        Evidence { trial, word: Word::Holds, fact: fact.into(), is_needed: true }
    }

    fn broken(trial: &'static str, fact: impl Into<String>) -> Evidence {
        Evidence { word: Word::Broken, ..Evidence::holds(trial, fact) }
    }

    fn open(trial: &'static str, fact: impl Into<String>) -> Evidence {
        Evidence { word: Word::NotShown, ..Evidence::holds(trial, fact) }
    }

    /// Good to know, but the claim can stand without it.
    fn aside(self) -> Evidence {
        Evidence { is_needed: false, ..self }
    }
}

/// `409`, `409 and 425`.
fn list(statuses: &[u16]) -> String {
    statuses.iter().map(u16::to_string).collect::<Vec<_>>().join(" and ")
}
