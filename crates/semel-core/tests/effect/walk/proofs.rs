//! Proofs on the walk: whatever a proof says is held against what really left and what really
//! exists at the destination.

use semel_core::proof::{self, Evidence, Fact, Headline, RULES, Sentence, Standing, Subject};

use super::*;

#[test]
fn every_sentence_of_a_proof_holds_at_the_destination() {
    let mut said: BTreeMap<String, usize> = BTreeMap::new();
    let contracts = [
        Contract::NativeKey { retention_ms: RETENTION_MS },
        Contract::Probe { first: false },
        Contract::AtMostOnce,
        Contract::Conditional,
        Contract::Harmless,
    ];
    for seed in 1..=SEEDS {
        for contract in contracts {
            for honesty in [Honesty::Truthful, Honesty::Careless] {
                let careless = honesty == Honesty::Careless;
                if careless && contract != Contract::AtMostOnce {
                    continue;
                }
                let walk = Walk { asks: seed % 3 == 0, ..Walk::new(seed, contract, honesty) };
                count(&mut said, walk_one(walk));
            }
        }
        let contract = Contract::NativeKey { retention_ms: RETENTION_MS };
        let mut walk = Walk::new(seed, contract, Honesty::Truthful);
        walk.world.drops_key = true;
        count(&mut said, walk_one(walk));
    }
    // An oracle that was never asked has judged nothing.
    for words in [
        "SentOnce",
        "OneOfSends",
        "UnderOneKey",
        "UnderOneCondition",
        "KeyUnread",
        "PerhapsMore",
        "NotAndWillNot",
        "ToldNotAndWillNot",
        "ToldNothing",
        "Cancelled",
        "Held",
        "HeldAgain",
        "NothingSoFar",
        "Forgotten",
        "Told",
        "Twice",
        "Receipt",
        "Found",
        "CountsAsDone",
        "NotApplied",
        "NothingSent",
        "NotSentAgain",
        "Generations",
        "Approved",
        "Denied",
    ] {
        assert!(said.contains_key(words), "no proof said {words}: {said:?}");
    }
}

fn count(said: &mut BTreeMap<String, usize>, walk: Walk) {
    for (name, count) in walk.said {
        *said.entry(name).or_default() += count;
    }
}

/// The name of a variant.
fn name(sentence: &Sentence) -> String {
    let text = match sentence {
        Sentence::Headline(headline) => format!("{headline:?}"),
        Sentence::Fact(fact) => format!("{fact:?}"),
        Sentence::Open(_) | Sentence::Of(..) | Sentence::Broken(_) => return String::new(),
    };
    text.split([' ', '{', '(']).next().unwrap_or_default().to_owned()
}

impl Walk {
    pub(super) fn check_proof(&mut self) {
        let Some(newest) = self.world.rows.last().cloned() else { return };
        let names = address();
        let evidence = Evidence {
            rules: RULES,
            subject: Subject::Effect {
                namespace: names.namespace.as_str().into(),
                action: names.action.as_str().into(),
                key: names.key.as_str().into(),
            },
            standing: Standing::of(&self.ground()),
            effects: self.world.rows.iter().map(record::encode).collect(),
            runs: Vec::new(),
            repeats: Vec::new(),
            unreadable: vec![],
        };
        let statement = proof::state(&evidence).unwrap_or_else(|why| panic!("{}: {why}", self.at));
        let verdict = statement.verdict;
        assert_eq!(verdict.broken, [], "{}", self.at);
        let facts = verdict.proven.into_iter().map(|one| one.says);
        for sentence in [verdict.says].into_iter().chain(facts) {
            *self.said.entry(name(&sentence)).or_default() += 1;
            let truth = self.truth(&sentence, &newest);
            assert_eq!(truth, Ok(()), "{}: {sentence}\n{newest:#?}", self.at);
        }
    }

    /// Holds a sentence against the world. A store that once went back may lack what really left,
    /// which an operator who closes the quarantine takes upon himself.
    fn truth(&mut self, sentence: &Sentence, effect: &Effect) -> Result<(), String> {
        let is_restored = self.world.epoch > 0 && self.world.quarantine.is_none();
        let Some(plan) = effect.plan.as_ref().filter(|_| !is_restored) else { return Ok(()) };
        let key = &plan.downstream_key;
        let (requests, objects) = (self.world.requests_under(key), self.world.objects(key).len());
        let holds = match sentence {
            Sentence::Headline(headline) => match headline {
                Headline::SentOnce => requests == 1 && objects == 1,
                Headline::OneOfSends { .. } => objects == 1 || self.blind_retries > 0,
                Headline::UnderOneKey { .. } => objects == 1 || self.world.drops_key,
                Headline::UnderOneCondition { .. } => objects == 1,
                Headline::KeyUnread { .. } => self.world.drops_key && objects >= 1,
                Headline::PerhapsMore => objects >= 1,
                Headline::NotAndWillNot | Headline::NothingSoFar | Headline::HeldAgain => {
                    objects == 0
                }
                Headline::Cancelled | Headline::Held => requests == 0,
                Headline::Told => objects >= 1,
                Headline::Twice => objects >= 2,
                Headline::Disputed => objects >= 1,
                Headline::ExactlyOnce | Headline::Undone | Headline::BeingUndone => false,
                Headline::ToldNotAndWillNot
                | Headline::ToldNothing
                | Headline::Forgotten
                | Headline::Expired
                | Headline::InProgress
                | Headline::InDoubt => true,
                Headline::Broken | Headline::Run { .. } => false,
            },
            Sentence::Fact(fact) => self.is_fact(fact, effect, key, requests, objects),
            Sentence::Open(_) | Sentence::Of(..) | Sentence::Broken(_) => false,
        };
        if holds { Ok(()) } else { Err(format!("{requests} requests, {objects} objects")) }
    }

    fn is_fact(
        &mut self,
        fact: &Fact,
        effect: &Effect,
        key: &str,
        requests: usize,
        objects: usize,
    ) -> bool {
        let workers = self.world.workers.iter().filter(|one| one.generation == effect.generation);
        match fact {
            Fact::KeyHanded { sends, key: said } => {
                let handed = workers.filter(|one| one.permit.kind == Kind::Send);
                said == key && (handed.count() == *sends || self.world.epoch > 0)
            }
            Fact::Receipt { attempt } => {
                let id = effect.attempts.iter().find(|one| one.number == *attempt).map(|a| &a.id);
                let mut own = workers.filter(|one| Some(&one.id) == id);
                own.any(|one| matches!(one.answer, Some(Answer::Object(_) | Answer::Found(_))))
            }
            Fact::Found { .. } | Fact::CountsAsDone { .. } => objects >= 1,
            Fact::NotApplied { attempt } => {
                let mut attempts = effect.attempts.iter();
                attempts.any(|one| one.number == *attempt && one.end.is_some())
            }
            Fact::NothingSent => requests == 0,
            Fact::NotSentAgain => {
                let last = *self.last_words.entry(key.to_owned()).or_insert(requests);
                last == requests
            }
            Fact::Approved { .. } => self.yes.contains_key(&effect.generation),
            Fact::Denied { .. } | Fact::Returned { .. } | Fact::NoAnswer => requests == 0,
            Fact::Generations { count } => self.world.rows.len() == *count,
            Fact::OneIntent { .. }
            | Fact::OneInput
            | Fact::Contract { .. }
            | Fact::Decided { .. } => true,
            Fact::UndoneBy { .. }
            | Fact::UndoBegun { .. }
            | Fact::Repeats { .. }
            | Fact::Named { .. }
            | Fact::OneRun { .. }
            | Fact::JournalWhole
            | Fact::Workers { .. }
            | Fact::RunRepeats { .. } => false,
        }
    }
}
