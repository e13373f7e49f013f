//! Proofs: what became of an effect or a run, on what evidence, and what is not proven.

use semel_core::code::Code;
use semel_core::key::IntoKey;
use semel_core::proof::{self, Document, Evidence, Finding, Statement};

use crate::{Error, RunHandle, Semel};

/// What is proven. `semel proof verify` checks its text without the store.
#[derive(Clone, Debug)]
pub struct Proof {
    /// What the evidence says.
    pub statement: Statement,
    document: Document,
}

impl Proof {
    fn of(evidence: &Evidence) -> Result<Proof, Error> {
        let statement = proof::state(evidence).map_err(|what| {
            Error::new(Code::StoreCorrupt, format!("the records cannot be read: {what}"))
        })?;
        let document = Document::new(&statement, evidence);
        Ok(Proof { statement, document })
    }

    /// What it comes to, in one word.
    pub fn finding(&self) -> Finding {
        Finding::parse(self.statement.verdict.finding).unwrap_or(Finding::Broken)
    }

    /// Statement and evidence as one JSON document, unsigned.
    pub fn json(&self) -> String {
        self.document.text()
    }
}

impl Semel {
    /// Proves what became of an effect. What is broken is told by the proof; an effect that nobody
    /// has asked for is `not_found`.
    pub async fn proof(&self, action: &str, key: impl IntoKey) -> Result<Proof, Error> {
        let address = self.address(action, key)?;
        self.engine.write_repeats().await;
        Proof::of(&self.engine.evidence_of_effect(&address).await?)
    }
}

impl RunHandle {
    /// Proves what became of the run and of all its effects.
    pub async fn proof(&self) -> Result<Proof, Error> {
        self.engine().write_repeats().await;
        Proof::of(&self.engine().evidence_of_run(self.namespace(), self.id()).await?)
    }
}
