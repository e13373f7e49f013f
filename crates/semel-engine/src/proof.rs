//! Gathering the evidence of a proof: everything that the store has on an effect or a run, word for
//! word. What follows from it is a rule.

use std::collections::BTreeSet;

use semel_core::code::Code;
use semel_core::journal;
use semel_core::key::{Action, Address, Key, Namespace};
use semel_core::limits;
use semel_core::proof::{
    Card, EntryEvidence, Evidence, Lost, RULES, RunEvidence, Standing, Subject, effect_named,
};
use semel_core::record::{self, Effect};
use semel_core::repeats::{self, CARD};
use semel_core::run::{self, Refusal, Run};
use semel_core::wire_run::child_asked;
use semel_store::StoreError;

use crate::cards::is_of_the_row;
use crate::{Engine, Error};

/// Runs whose journals are read for the proof of one effect, at most: those that tried it first.
const RUNS_MAX: usize = 16;

impl Engine {
    /// The evidence on an effect: all its generations, the count of its repeats, and the journals
    /// of the runs that planned or tried it.
    pub async fn evidence_of_effect(&self, address: &Address) -> Result<Evidence, Error> {
        let Address { namespace, action, key } = address;
        let mut evidence = self.evidence(Subject::Effect {
            namespace: namespace.as_str().to_owned(),
            action: action.as_str().to_owned(),
            key: key.as_str().to_owned(),
        });
        let rows = self.generations(address).await?;
        for id in runs_of(&rows) {
            let run = self.store().run(namespace.as_str(), &id).await;
            if let Some(Some(run)) = or_lost(run, || format!("run {id}"), &mut evidence)? {
                self.add_run(&run, &mut evidence).await?;
            }
        }
        self.add_effect(&rows, &mut evidence).await?;
        Ok(evidence)
    }

    /// The evidence on a run: its journal, its effects, and the runs that it asked for.
    pub async fn evidence_of_run(
        &self,
        namespace: &Namespace,
        id: &str,
    ) -> Result<Evidence, Error> {
        let run = self.run(namespace, id).await?;
        let subject = Subject::Run { namespace: run.namespace.clone(), id: run.id.clone() };
        let mut evidence = self.evidence(subject);
        self.add_run(&run, &mut evidence).await?;
        let (effects, children) = asked_for(&evidence.runs[0].entries);
        for (action, key) in effects {
            let (namespace, action) = (namespace.clone(), Action::new(&action)?);
            let address = Address { namespace, action, key: Key::parse(&key)? };
            let name = || format!("effect {address}");
            let newest = self.store().load(&address).await;
            // A plan that was never begun has no row.
            if let Some(Some(_)) = or_lost(newest, name, &mut evidence)? {
                let rows = self.generations(&address).await;
                if let Some(rows) = or_lost(rows, name, &mut evidence)? {
                    self.add_effect(&rows, &mut evidence).await?;
                }
            }
        }
        for (workflow, key) in children {
            let key = Key::parse(&key)?;
            let id = semel_core::derive::run_id(namespace, &workflow, &key).to_string();
            let child = self.store().run(namespace.as_str(), &id).await;
            if let Some(Some(child)) = or_lost(child, || format!("run {id}"), &mut evidence)? {
                let (record, version) = (run::encode(&child), child.version);
                evidence.runs.push(RunEvidence { record, version, entries: Vec::new() });
            }
        }
        self.add_repeats_of(&run.namespace, &run.id, &mut evidence).await?;
        Ok(evidence)
    }

    fn evidence(&self, subject: Subject) -> Evidence {
        let standing = Standing::of(&self.store().ground());
        let (effects, runs, repeats, unreadable) = (vec![], vec![], vec![], vec![]);
        Evidence { rules: RULES, subject, standing, effects, runs, repeats, unreadable }
    }

    /// All generations, the oldest first.
    async fn generations(&self, address: &Address) -> Result<Vec<Effect>, Error> {
        let newest = self.effect(address).await?;
        let mut rows = Vec::new();
        for generation in 0..newest.generation {
            rows.push(self.generation(address, generation).await?);
        }
        rows.push(newest);
        match rows.iter().find(|effect| effect.address != *address) {
            None => Ok(rows),
            Some(other) => {
                let text = format!("the row of {address} has the record of {}", other.address);
                Err(StoreError::Corrupt(text).into())
            }
        }
    }

    async fn add_effect(&self, rows: &[Effect], evidence: &mut Evidence) -> Result<(), Error> {
        for effect in rows {
            evidence.effects.push(record::encode(effect));
            let sessions = effect.attempts.iter().filter_map(|attempt| attempt.session.as_ref());
            for session in sessions {
                let dead = &mut evidence.standing.dead;
                if !dead.contains(session) && self.store().is_dead(session) {
                    dead.push(session.clone());
                }
            }
        }
        let Some(address) = rows.first().map(|effect| &effect.address) else { return Ok(()) };
        let name = repeats::card_of(address).to_string();
        self.add_repeats_of(address.namespace.as_str(), &name, evidence).await
    }

    /// The journal as it lies there. Whether it holds together is for the rule to say.
    async fn add_run(&self, run: &Run, evidence: &mut Evidence) -> Result<(), Error> {
        let namespace = Namespace::stored(&run.namespace)?;
        let mut run = run.clone();
        // A run that ends or pauses changes its row and its journal in one commit: read between
        // the same row twice, the journal is of that row.
        for _ in 0..limits::COMMIT_TRIES_MAX {
            let (entries, lost) = self.entries(&run).await?;
            let again = match self.run(&namespace, &run.id).await {
                Err(error) if error.code() == Refusal::NotFound.code() => run.clone(),
                other => other?,
            };
            if again.version == run.version {
                let (record, version) = (run::encode(&run), run.version);
                evidence.runs.push(RunEvidence { record, version, entries });
                evidence.unreadable.extend(lost);
                return Ok(());
            }
            run = again;
        }
        Err(Error::new(Code::StoreBusy, "the run kept changing"))
    }

    /// The entries up to the first that cannot be read, and that one.
    async fn entries(&self, run: &Run) -> Result<(Vec<EntryEvidence>, Option<Lost>), Error> {
        let mut entries: Vec<EntryEvidence> = Vec::new();
        let mut limit = limits::PAGE_ROWS_MAX;
        loop {
            let from = entries.last().map_or(0, |entry| entry.seq + 1);
            let page = match self.store().journal(run.number, from, limit).await {
                Ok(page) => page,
                // Which of them it is.
                Err(error) if is_of_the_row(error.code()) && limit > 1 => {
                    limit = 1;
                    continue;
                }
                Err(error) if is_of_the_row(error.code()) => {
                    let name = format!("entry {from} of run {}", run.id);
                    return Ok((entries, Some(Lost { name, why: error.to_string() })));
                }
                Err(error) => return Err(error.into()),
            };
            let is_full = page.len() == limit;
            entries.extend(page.into_iter().map(|inked| EntryEvidence {
                seq: inked.seq,
                link: inked.link.to_string(),
                text: inked.text,
            }));
            if !is_full {
                return Ok((entries, None));
            }
        }
    }

    async fn add_repeats_of(
        &self,
        namespace: &str,
        name: &str,
        evidence: &mut Evidence,
    ) -> Result<(), Error> {
        let card = self.store().card(namespace, CARD, name).await;
        if let Some(Some(card)) = or_lost(card, || format!("the repeats {name}"), evidence)? {
            evidence.repeats.push(Card { name: card.name, record: card.record });
        }
        Ok(())
    }
}

/// What was read. `None`: it is there and cannot be read, which the evidence says.
fn or_lost<T, E: Into<Error>>(
    read: Result<T, E>,
    name: impl FnOnce() -> String,
    evidence: &mut Evidence,
) -> Result<Option<T>, Error> {
    match read.map_err(E::into) {
        Ok(found) => Ok(Some(found)),
        Err(error) if is_of_the_row(error.code()) => {
            evidence.unreadable.push(Lost { name: name(), why: error.detail().to_owned() });
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The runs that planned or tried an effect, each once.
fn runs_of(rows: &[Effect]) -> Vec<String> {
    let mut found = Vec::new();
    for effect in rows {
        let tried = effect.attempts.iter().filter_map(|attempt| attempt.run.as_ref());
        for id in effect.run.iter().chain(tried) {
            if !found.contains(id) && found.len() < RUNS_MAX {
                found.push(id.clone());
            }
        }
    }
    found
}

type Names = BTreeSet<(String, String)>;

/// The effects and the children that a journal names.
fn asked_for(entries: &[EntryEvidence]) -> (Names, Names) {
    let (mut effects, mut children) = (Names::new(), Names::new());
    for entry in entries {
        let Ok(entry) = journal::decode(&entry.text) else { break };
        if let Some((action, key)) = effect_named(&entry.event).and_then(|it| it.split_once('/')) {
            effects.insert((action.to_owned(), key.to_owned()));
        }
        if let journal::Event::Planned { what, .. } = &entry.event
            && let Some((workflow, key)) = child_asked(what)
        {
            children.insert((workflow.to_owned(), key.to_owned()));
        }
    }
    (effects, children)
}
