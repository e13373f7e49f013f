//! What an observer hears of an effect: its declaration when it is called, and what its code did
//! with the key when it has been sent.

use std::sync::Arc;

use semel_core::declare::{ApprovalShape, Declaration, Kind, Language, RateShape, Times};
use semel_core::fingerprint::Rule;
use semel_engine::{Intent, OnDoubt, Sent};

use super::{Effect, SendFn};
use crate::observe::{Called, Observer, place, type_word};

impl Effect<'_> {
    /// Tells the observer, if there is one, of this call, and later of its sends.
    pub(super) fn watch(&self, receipt: &str, send: SendFn) -> SendFn {
        let Some(observer) = self.semel.observer() else { return send };
        self.tell(observer, self, Kind::Effect, receipt);
        watched(observer.clone(), self.action.clone(), send)
    }

    /// The same for what takes this effect back: it is called in the run of this one.
    pub(super) fn watch_undo(&self, undo: &Effect<'_>, receipt: &str, send: SendFn) -> SendFn {
        let Some(observer) = self.semel.observer() else { return send };
        undo.tell(observer, self, Kind::Effect, receipt);
        watched(observer.clone(), undo.action.clone(), send)
    }

    pub(crate) fn watch_transaction(&self, receipt: &str) {
        if let Some(observer) = self.semel.observer() {
            self.tell(observer, self, Kind::Transaction, receipt);
        }
    }

    /// `within` is the effect whose run this is called in.
    fn tell(&self, observer: &Observer, within: &Effect<'_>, kind: Kind, receipt: &str) {
        let (Ok(key), Ok(input)) = (&self.key, &self.input) else { return };
        let place = within.place.as_ref();
        observer.note_effect(
            &Called {
                facts: place.map(|place| place.port.facts()),
                id: place.map_or("", |place| &place.id),
                key,
                input,
                receipt: type_word(receipt),
            },
            self.declaration(kind),
        );
    }

    fn declaration(&self, kind: Kind) -> Declaration {
        let (file, line) = place(self.at);
        let declared = &self.declared;
        let ask = self.approval.as_ref();
        let undo = self.undo.as_ref().and_then(|undo| undo.as_ref().ok());
        Declaration {
            language: Language::Rust,
            kind,
            name: self.action.clone(),
            action: Some(self.action.clone()),
            file: Some(file),
            line: Some(line),
            intent: self.intent.clone(),
            allowed: self.allowed.clone(),
            fingerprint: match &self.rule {
                Rule::All => None,
                Rule::Members(members) => Some(members.clone()),
            },
            contract: declared.contract,
            times: Times {
                lease_ms: declared.lease_ms,
                deadline_ms: declared.deadline_ms,
                settle_ms: declared.settle_ms,
                window_ms: declared.window_ms,
                attempts: Some(self.retry.attempts_max),
                retry_total_ms: Some(self.retry.total_ms),
            },
            downstream_key: self.downstream_key.clone(),
            approval: ask.map(|ask| ApprovalShape {
                expires_ms: ask.expires_ms,
                four_eyes: ask.four_eyes,
                only: ask.only,
            }),
            undo: undo.map(|undo| undo.call.address.action.as_str().to_owned()),
            rate: self
                .declared
                .rate
                .map(|rate| RateShape { count: rate.count, per_ms: rate.per_ms }),
            goes_on_in_doubt: self
                .place
                .as_ref()
                .is_some_and(|place| place.on_doubt == OnDoubt::Continue),
            ..Declaration::default()
        }
    }
}

/// The code of an effect that also tells what it did with the key, and what it returned.
fn watched(observer: Observer, action: String, send: SendFn) -> SendFn {
    let (observer, action) = (Arc::new(observer), Arc::new(action));
    Box::new(move |intent: Intent| {
        let (observer, action, seen) = (observer.clone(), action.clone(), intent.clone());
        let sent = send(intent);
        Box::pin(async move {
            let sent = sent.await;
            if let Sent::Receipt(receipt) = &sent {
                observer.note_sent(&action, seen.has_used_key(), receipt);
            }
            sent
        })
    })
}
