//! Declared secrets are taken out of what will be kept before a rule sees it: what was compared,
//! chained or approved with a secret in it would never fit what the store gives back without it.

use std::borrow::Cow;

use semel_core::effect::{Report, Settle};
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
