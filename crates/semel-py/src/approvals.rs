//! What waits for people, and what they decide, for Python.

use pyo3::prelude::*;
use semel::{Action, Address, Answer, Code, Error, Json, Key, Namespace, Semel};
use semel_core::effect::Person;
use semel_core::wire::{effect_view, rfc3339};
use serde_json::json;

use crate::error::raise;
use crate::mailbox::Told;

/// What nobody has decided yet, newest first, as JSON: each effect, and what would be sent.
pub(crate) async fn list(semel: Semel, most: usize) -> Result<Told, Error> {
    let found = semel.approvals().list(most).await?;
    let now = semel.engine().store().ground().now;
    let asked = found.iter().map(|asked| {
        let input = asked.effect().plan.as_ref().map(|plan| &plan.input);
        (effect_view(asked.effect(), &now), input)
    });
    Ok(Told::Text(Json::of(&asked.collect::<Vec<_>>())?.text().to_owned()))
}

/// A person's answer to one question, which they saw with this digest.
pub(crate) struct Verdict {
    address: Address,
    digest: String,
    answer: Answer,
    person: Person,
}

impl Verdict {
    pub(crate) fn new(
        namespace: &Namespace,
        (action, key, digest): (&str, &str, String),
        answer: &str,
        (actor, reason): (String, String),
    ) -> PyResult<Verdict> {
        let action = Action::new(action).map_err(|invalid| raise(&invalid.into()))?;
        let key = Key::parse(key).map_err(|invalid| raise(&invalid.into()))?;
        let answer = match answer {
            "approved" => Answer::Approved,
            "denied" => Answer::Denied,
            "returned" => Answer::Returned,
            _ => {
                let text = "an answer is `approved`, `denied` or `returned`";
                return Err(raise(&Error::new(Code::InputInvalid, text)));
            }
        };
        let address = Address { namespace: namespace.clone(), action, key };
        // What was seen is named by the digest, not by a version of the row.
        let person = Person { actor, reason, version: 0 };
        Ok(Verdict { address, digest, answer, person })
    }

    /// Tells the answer that stands, as JSON.
    pub(crate) async fn give(self, semel: Semel) -> Result<Told, Error> {
        let Verdict { address, digest, answer, person } = self;
        let decided = semel.engine().judge(&address, &person, answer, &digest).await?;
        let given = decided.judgement;
        let told = json!({
            "answer": given.answer.as_str(),
            "by": given.actor,
            "note": given.note,
            "at": rfc3339(given.at),
            "is_new": decided.is_new,
        });
        Ok(Told::Text(told.to_string()))
    }
}
