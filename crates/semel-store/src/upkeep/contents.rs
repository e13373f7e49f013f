//! What lies beside a run: whether its journal is one chain, and its large values what their names
//! say, with the key and without it.

use async_trait::async_trait;
use semel_core::journal::{Link, blob_digest, check_chain};

use crate::veil::{Place, Veil, follows};
use crate::{Inked, StoreError};

/// How many entries of a journal are read at once.
const ENTRIES: usize = 256;

/// Entries as they lie in a store.
#[async_trait]
pub(crate) trait RawJournal: Sync {
    async fn raw_journal(
        &self,
        run: i64,
        from: u64,
        limit: usize,
    ) -> Result<Vec<Inked>, StoreError>;
}

/// Walks the journal of a run from its first entry, as it lies in the store; says where the chain
/// breaks.
pub(crate) async fn chain_problem(
    store: &impl RawJournal,
    veil: &Veil,
    (number, namespace, id): (i64, &str, &str),
) -> Result<Option<String>, StoreError> {
    let mut link = Link::of_run(namespace, id);
    let mut from = 0;
    loop {
        let entries = match store.raw_journal(number, from, ENTRIES).await {
            Err(StoreError::Corrupt(what)) => return Ok(Some(what)),
            entries => entries?,
        };
        let opened: Result<Vec<Inked>, StoreError> =
            entries.iter().map(|entry| entry.clone().revealed(veil, number)).collect();
        let checked = match opened {
            // The chain counts from where this page begins.
            Ok(opened) => {
                let page = opened.iter().map(|one| (one.seq - from, one.link, &*one.text));
                check_chain(link, page)
            }
            Err(StoreError::KeyDropped(_)) => check_sealed(link, from, &entries),
            Err(StoreError::Corrupt(what)) => Err(what),
            Err(error) => return Err(error),
        };
        match checked {
            Ok(last) => link = last,
            Err(problem) if from == 0 => return Ok(Some(problem)),
            Err(problem) => return Ok(Some(format!("from entry {from} on, {problem}"))),
        }
        if entries.len() < ENTRIES {
            return Ok(None);
        }
        from += entries.len() as u64;
    }
}

/// The same for entries whose key was dropped: each tells which one it follows.
fn check_sealed(mut link: Link, from: u64, entries: &[Inked]) -> Result<Link, String> {
    for (wanted, entry) in (from..).zip(entries) {
        if entry.seq != wanted {
            return Err(format!("entry {wanted} is missing"));
        }
        let holds = match follows(&entry.text, &link, &entry.link) {
            Some(holds) => holds,
            None => link.then(&entry.text) == entry.link,
        };
        if !holds {
            return Err(format!("entry {wanted} does not follow the one before it"));
        }
        link = entry.link;
    }
    Ok(link)
}

/// What is wrong with the large values that a run needs, each by its digest and as it was found.
pub(crate) fn blob_problem(
    veil: &Veil,
    namespace: &str,
    found: &[(String, Option<String>)],
) -> Result<Option<String>, StoreError> {
    for (digest, text) in found {
        let Some(text) = text else { return Ok(Some(format!("its value {digest} is missing"))) };
        if !is_whole_blob(veil, &(namespace.to_owned(), digest.clone()), text)? {
            return Ok(Some(format!("its value {digest} was changed")));
        }
    }
    Ok(None)
}

/// Whether a large value is what its name says. One whose key was dropped cannot be judged.
pub(crate) fn is_whole_blob(
    veil: &Veil,
    (namespace, digest): &(String, String),
    text: &str,
) -> Result<bool, StoreError> {
    match veil.reveal(Some(namespace), Place::Blob(digest), text) {
        Ok(text) => Ok(blob_digest(&text) == *digest),
        Err(StoreError::KeyDropped(_)) => Ok(true),
        Err(StoreError::Corrupt(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// What is wrong with one large value.
pub(crate) fn blob_state(
    (namespace, digest): &(String, String),
    is_whole: bool,
    is_used: bool,
) -> Option<String> {
    match (is_whole, is_used) {
        (true, true) => None,
        (false, _) => Some(format!("the value {digest} in {namespace} was changed")),
        (true, false) => Some(format!("the value {digest} in {namespace} is needed by no run")),
    }
}
