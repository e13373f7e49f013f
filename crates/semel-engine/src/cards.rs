//! Cards: small records that runs share. A rule decides on the record; the card carries it to the
//! store and back, guarded by its version.

use semel_core::audit::Deed;
use semel_core::code::Code;
use semel_core::limits;
use semel_core::time::Wall;
use semel_store::{Card, CardPage, StoreError, Unreadable, Write};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::commit::Stopped;
use crate::{Engine, Error};

/// A card, read. One that is not there yet is at version zero and says nothing.
#[derive(Clone, Debug)]
pub(crate) struct Kept<T> {
    pub(crate) namespace: String,
    pub(crate) kind: &'static str,
    pub(crate) name: String,
    pub(crate) version: u64,
    pub(crate) content: T,
}

impl<T: Serialize> Kept<T> {
    /// The write that puts a new content in the place of the one that was read.
    pub(crate) fn write(&self, content: &T, due: Option<Wall>) -> Write {
        Write::Card(Card {
            namespace: self.namespace.clone(),
            kind: self.kind.to_owned(),
            name: self.name.clone(),
            version: self.version + 1,
            due,
            record: serde_json::to_string(content).expect("a card is plain data"),
        })
    }
}

impl Engine {
    /// Reads a card of a kind.
    pub(crate) async fn kept<T: DeserializeOwned + Default>(
        &self,
        namespace: &str,
        kind: &'static str,
        name: &str,
    ) -> Result<Kept<T>, Error> {
        let card = self.store().card(namespace, kind, name).await?;
        let (version, content) = match &card {
            Some(card) => (card.version, read_card(card)?),
            None => (0, T::default()),
        };
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        Ok(Kept { namespace, kind, name, version, content })
    }

    /// Changes a card by a rule, again whenever somebody else was quicker. `None` of the rule:
    /// there is nothing to change. Returns the content as it stands then.
    pub(crate) async fn change_card<T: DeserializeOwned + Serialize + Default>(
        &self,
        (namespace, kind, name): (&str, &'static str, &str),
        rule: impl Fn(&T) -> Result<Option<T>, Error>,
    ) -> Result<T, Error> {
        self.change_card_as((namespace, kind, name), None, rule).await
    }

    /// The same by a person, whose word goes into the audit chain.
    pub(crate) async fn change_card_as<T: DeserializeOwned + Serialize + Default>(
        &self,
        (namespace, kind, name): (&str, &'static str, &str),
        deed: Option<&Deed>,
        rule: impl Fn(&T) -> Result<Option<T>, Error>,
    ) -> Result<T, Error> {
        for _ in 0..limits::COMMIT_TRIES_MAX {
            let kept = self.kept::<T>(namespace, kind, name).await?;
            let Some(next) = rule(&kept.content)? else { return Ok(kept.content) };
            let write = kept.write(&next, None);
            let committed = match deed {
                Some(deed) => {
                    let deed = Deed { version: Some(kept.version), ..deed.clone() };
                    let at = self.store().ground().now.wall;
                    self.commit_audited(vec![write], namespace, &deed, at).await
                }
                None => self.commit(write.into()).await,
            };
            match committed {
                Ok(()) => return Ok(next),
                Err(Stopped::Stale(_)) => {}
                Err(Stopped::Error(error)) => return Err(error),
            }
        }
        Err(Error::new(Code::StoreBusy, format!("the {kind} {name} kept changing")))
    }
}

/// What a list found, and which of its rows cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed<T> {
    pub found: Vec<T>,
    pub unreadable: Vec<Unreadable>,
}

impl<T> Listed<T> {
    pub(crate) fn new() -> Listed<T> {
        Listed { found: Vec::new(), unreadable: Vec::new() }
    }

    /// Adds the cards of a page. One that cannot be read is named, and fails no list.
    pub(crate) fn add(
        &mut self,
        page: &CardPage,
        read: impl Fn(&Card) -> Result<T, Error>,
    ) -> Result<(), Error> {
        self.unreadable.extend(page.unreadable.iter().cloned());
        for card in &page.cards {
            match read(card) {
                Ok(one) => self.found.push(one),
                Err(error) if is_of_the_row(error.code()) => self.unreadable.push(Unreadable {
                    namespace: card.namespace.clone(),
                    name: card.name.clone(),
                    code: error.code(),
                    why: error.detail().to_owned(),
                }),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Whether an error is one row's: it is damaged, or its key is not here.
pub(crate) fn is_of_the_row(code: Code) -> bool {
    matches!(code, Code::StoreCorrupt | Code::EncryptionKeyMissing)
}

/// Reads what a card says.
pub(crate) fn read_card<T: DeserializeOwned>(card: &Card) -> Result<T, Error> {
    serde_json::from_str(&card.record).map_err(|error| {
        let text = format!("the {} {} cannot be read: {error}", card.kind, card.name);
        StoreError::Corrupt(text).into()
    })
}
