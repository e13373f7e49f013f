//! Declared secrets are taken out of what will be kept before a rule sees it: what was compared,
//! chained or approved with a secret in it would never fit what the store gives back without it.

use std::borrow::Cow;

use semel_core::effect::{Begin, Person, Report, Resolution, Settle};
use semel_core::journal::{self, Entry};
use semel_core::json::Json;
use semel_core::redact::Redactor;

use crate::Engine;

impl Engine {
    /// The secrets to look for, where some are declared.
    fn redactor(&self) -> Option<&Redactor> {
        self.store().redactor().filter(|redactor| !redactor.is_empty())
    }

    /// A value as it is kept.
    pub(crate) fn redacted(&self, json: Json) -> Json {
        let Some(redactor) = self.redactor() else { return json };
        match redactor.json(json.text()) {
            Cow::Borrowed(_) => json,
            // Only strings were changed, so it is still JSON.
            Cow::Owned(text) => Json::stored(text).unwrap_or(json),
        }
    }

    /// What is asked for, as it is kept: the payload that is compared and approved, and the note
    /// to the person who approves it.
    pub(crate) fn redact_begin(&self, ask: &mut Begin) {
        ask.input = self.redacted(std::mem::replace(&mut ask.input, Json::null()));
        let note = ask.approval.as_mut().and_then(|approval| approval.note.as_mut());
        if let (Some(redactor), Some(note)) = (self.redactor(), note) {
            *note = redactor.text(note).into_owned();
        }
    }

    /// A person's word, as it is kept.
    pub(crate) fn redacted_person<'a>(&self, person: &'a Person) -> Cow<'a, Person> {
        let Some(redactor) = self.redactor() else { return Cow::Borrowed(person) };
        match redactor.text(&person.reason) {
            Cow::Borrowed(_) => Cow::Borrowed(person),
            Cow::Owned(reason) => Cow::Owned(Person { reason, ..person.clone() }),
        }
    }

    /// A person's finding, as it is kept.
    pub(crate) fn redacted_finding(&self, resolution: &Resolution) -> Resolution {
        match resolution.clone() {
            Resolution::Done(receipt) => Resolution::Done(self.redacted(receipt)),
            other => other,
        }
    }

    /// What is said of an attempt, as it is kept.
    pub(crate) fn redacted_report<'a>(&self, ask: &'a Settle) -> Cow<'a, Settle> {
        let Some(redactor) = self.redactor() else { return Cow::Borrowed(ask) };
        let text = |reason: &str| redactor.text(reason).into_owned();
        let report = match ask.report.clone() {
            Report::Receipt(receipt) => Report::Receipt(self.redacted(receipt)),
            Report::Receipts(first, others) => {
                let others = others.into_iter().map(|other| self.redacted(other));
                Report::Receipts(self.redacted(first), others.collect())
            }
            Report::NotApplied { reason, last } => {
                Report::NotApplied { reason: text(&reason), last }
            }
            Report::Unknown { reason, key_not_used } => {
                Report::Unknown { reason: text(&reason), key_not_used }
            }
            Report::Faulty { reason, landed } => Report::Faulty { reason: text(&reason), landed },
        };
        Cow::Owned(Settle { report, ..ask.clone() })
    }

    /// An entry as it is kept, and its text. One that could not be read back is left as it is: the
    /// store refuses it.
    pub(crate) fn redacted_entry(&self, entry: Entry) -> (Entry, String) {
        let text = journal::encode(&entry);
        let Some(redactor) = self.redactor() else { return (entry, text) };
        match redactor.json(&text) {
            Cow::Borrowed(_) => (entry, text),
            Cow::Owned(redacted) => match journal::decode(&redacted) {
                Ok(read) => (read, redacted),
                Err(_) => (entry, text),
            },
        }
    }
}
