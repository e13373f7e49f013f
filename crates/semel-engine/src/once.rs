//! Decisions that have an identity of their own: repeated, they change nothing. The identity is a
//! card, written in the commit that carries the decision out: there is no moment between the two.

use semel_core::code::Code;
use semel_core::key::Namespace;
use semel_core::limits;
use semel_core::time::Wall;
use semel_store::{Card, Write};

use crate::commit::Stopped;
use crate::{Engine, Error};

/// The kind of card that an identity is.
const KIND: &str = "once";

/// Names one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub namespace: Namespace,
    /// A digest of what is decided and the caller's key.
    pub name: String,
    /// A digest of the request: the same identity with another one is refused.
    pub request: String,
}

impl Engine {
    /// The same engine, whose next decision is the one that this names.
    pub fn once(&self, identity: Identity) -> Engine {
        Engine { identity: Some(identity.into()), ..self.clone() }
    }

    /// The same engine, whose changes of schedules are this person's.
    pub fn acting_for(&self, actor: &str) -> Engine {
        Engine { actor: Some(actor.into()), ..self.clone() }
    }

    /// Whether this very request has decided before.
    pub async fn decided_before(&self, identity: &Identity) -> Result<bool, Error> {
        let Identity { namespace, name, request } = identity;
        match self.store().card(namespace.as_str(), KIND, name).await? {
            None => Ok(false),
            Some(card) if card.record == *request => Ok(true),
            Some(_) => Err(Error::new(Code::InputChanged, "the key was used with another request")),
        }
    }

    /// Writes down a request that found nothing to do: later there might be, and it was answered.
    /// One that did something has written itself down with it.
    pub async fn remember(&self, identity: &Identity) -> Result<(), Error> {
        if self.decided_before(identity).await? {
            return Ok(());
        }
        let now = self.store().ground().now.wall;
        let Some(write) = self.once(identity.clone()).identified(now) else { return Ok(()) };
        match self.commit(write.into()).await {
            // Its twin was quicker.
            Ok(()) | Err(Stopped::Stale(_)) => Ok(()),
            Err(Stopped::Error(error)) => Err(error),
        }
    }

    /// The write that goes with the decision.
    pub(crate) fn identified(&self, at: Wall) -> Option<Write> {
        let identity = self.identity.as_ref()?;
        Some(Write::Card(Card {
            namespace: identity.namespace.as_str().to_owned(),
            kind: KIND.to_owned(),
            name: identity.name.clone(),
            version: 1,
            due: Some(at.plus(limits::TOMBSTONE_MS)),
            record: identity.request.clone(),
        }))
    }

    /// Forgets identities, as late as tombstones: a redelivery after that is nobody's any more.
    pub(crate) async fn sweep_identities(&self) -> Result<usize, Error> {
        let mut swept = 0;
        for card in self.store().due_cards(KIND, limits::SWEEP_ROWS_MAX).await? {
            swept += usize::from(self.commit(drop_card(card).into()).await.is_ok());
        }
        Ok(swept)
    }
}

/// Removes a card as it was read.
pub(crate) fn drop_card(card: Card) -> Write {
    let Card { namespace, kind, name, version, .. } = card;
    Write::DropCard { namespace, kind, name, version }
}
