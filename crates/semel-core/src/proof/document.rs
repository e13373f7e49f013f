//! The document: evidence and statement in one file that can be checked far from its store.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::evidence::Evidence;
use super::state;
use super::statement::Statement;
use crate::fingerprint::{Fingerprint, Rule};
use crate::journal::Link;

/// The version of this shape.
const FORMAT: u32 = 1;

/// A proof as it is written to a file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    semel_proof: u32,
    /// Kept as the text it is: what is signed is read from the file, never written anew.
    proof: Box<RawValue>,
    /// SHA-256 over the canonical form of `proof`.
    digest: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<Signature>,
}

/// Whose proof it is: a signature over the digest, by a key that is not in the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signature {
    pub algorithm: String,
    /// In hex.
    pub public_key: String,
    /// In hex.
    pub signature: String,
}

/// What is inside.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    statement: Box<RawValue>,
    evidence: Evidence,
}

/// The same, to be written.
#[derive(Serialize)]
struct Written<'a> {
    statement: &'a Statement,
    evidence: &'a Evidence,
}

/// One thing that was looked at, and whether it holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    pub what: &'static str,
    pub holds: bool,
    pub detail: String,
}

/// The text is no proof at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable(pub String);

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "not a proof: {}", self.0)
    }
}

impl std::error::Error for Unreadable {}

impl Document {
    /// The document of a statement and the evidence that it was built from.
    pub fn new(statement: &Statement, evidence: &Evidence) -> Document {
        let text = serde_json::to_string(&Written { statement, evidence });
        let text = text.expect("a proof is plain data");
        let digest = digest(&text);
        let proof = RawValue::from_string(text).expect("it was just written");
        Document { semel_proof: FORMAT, proof, digest, signature: None }
    }

    /// Reads a document. What it says is not believed before [`Document::check`].
    pub fn read(text: &str) -> Result<Document, Unreadable> {
        let document: Document =
            serde_json::from_str(text).map_err(|error| Unreadable(error.to_string()))?;
        if document.semel_proof != FORMAT {
            let found = document.semel_proof;
            return Err(Unreadable(format!("it has format {found}, known is {FORMAT}")));
        }
        Ok(document)
    }

    /// The text of the file.
    pub fn text(&self) -> String {
        serde_json::to_string_pretty(self).expect("a proof is plain data")
    }

    /// What a signature signs: never the bare digest, which could be that of anything, and never
    /// the one that stands in the file, which could be that of something else.
    pub fn signed_text(&self) -> String {
        format!("semel proof {FORMAT}\n{}", digest(self.proof.get()))
    }

    /// Looks at everything that needs no key, and returns the statement as it must be, where the
    /// evidence can be read.
    pub fn check(&self) -> (Vec<Check>, Option<Statement>) {
        let check = |what, holds, detail: String| Check { what, holds, detail };
        let is_same = digest(self.proof.get()) == self.digest;
        let told = if is_same { self.digest.clone() } else { "the proof was changed".to_owned() };
        let mut checks = vec![check("digest", is_same, told)];
        if !is_same {
            // Whatever else it says is not what somebody once proved.
            return (checks, None);
        }
        let content: Content = match serde_json::from_str(self.proof.get()) {
            Ok(content) => content,
            Err(error) => {
                checks.push(check("shape", false, error.to_string()));
                return (checks, None);
            }
        };
        let statement = match state(&content.evidence) {
            Ok(statement) => statement,
            Err(error) => {
                checks.push(check("evidence", false, error));
                return (checks, None);
            }
        };
        checks.extend(recomputed(&statement));
        let again = serde_json::to_string(&statement).expect("a statement is plain data");
        // What has no canonical form, such as half a surrogate, is compared as it was written.
        let carried = content.statement.get();
        let follows = again == carried || digest(&again) == digest(carried);
        let told = match follows {
            true => "built again from the evidence, it is the same",
            false => "the evidence says something else",
        };
        checks.push(check("statement", follows, told.to_owned()));
        (checks, Some(statement))
    }
}

/// What was derived again from the evidence, one line each.
fn recomputed(statement: &Statement) -> Vec<Check> {
    let mut checks = Vec::new();
    if let Some(run) = &statement.run {
        checks.push(Check { what: "run id", holds: run.id_derives, detail: run.id.clone() });
        let chain = &run.chain;
        let fine = || format!("{} entries up to {}", chain.entries, chain.head);
        let detail = chain.broken.clone().unwrap_or_else(fine);
        checks.push(Check { what: "journal", holds: chain.verified, detail });
    }
    for effect in &statement.effects {
        for row in &effect.generations {
            if let Some(print) = &row.fingerprint {
                let (holds, detail) = (print.matches_input, print.digest.clone());
                checks.push(Check { what: "fingerprint", holds, detail });
            }
            if let Some(key) = &row.downstream_key {
                let how = if key.derived { "derived" } else { "declared" };
                let detail = format!("{} ({how})", key.key);
                // One that was declared cannot be derived; the invariants judge what looks derived.
                checks.push(Check { what: "downstream key", holds: true, detail });
            }
        }
    }
    let broken = &statement.verdict.broken;
    let detail = match broken.first() {
        None => "all hold".to_owned(),
        Some(first) => format!("{} ({})", first.says, first.evidence),
    };
    checks.push(Check { what: "invariants", holds: broken.is_empty(), detail });
    checks
}

/// By what it says, not by how it is laid out: a proof may be formatted anew.
fn digest(text: &str) -> String {
    Link(Fingerprint::of(text.as_bytes(), &Rule::All).digest).to_string()
}
