//! Whose a run is, by its number: what a worker says of a run names no namespace.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use semel_store::{Store, StoreError};

/// Runs whose namespace is remembered: some megabytes. A number keeps its namespace for as long as
/// its run or its tombstone is there, which is years.
const KNOWN_MAX: usize = 50_000;

#[derive(Default)]
pub(crate) struct Owners {
    known: Mutex<HashMap<i64, String>>,
}

impl Owners {
    fn known(&self) -> MutexGuard<'_, HashMap<i64, String>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The namespace of a run; `None` when there is no such run.
    pub(super) async fn of(
        &self,
        store: &dyn Store,
        run: i64,
    ) -> Result<Option<String>, StoreError> {
        if let Some(known) = self.known().get(&run) {
            return Ok(Some(known.clone()));
        }
        let found = store.namespace_of(run).await?;
        if let Some(namespace) = &found {
            self.learn(run, namespace);
        }
        Ok(found)
    }

    /// Notes what a row says that was read or written.
    pub(super) fn learn(&self, run: i64, namespace: &str) {
        let mut known = self.known();
        if known.contains_key(&run) {
            return;
        }
        if known.len() >= KNOWN_MAX {
            // Whoever is at work is asked for again, and the others are forgotten.
            known.clear();
        }
        known.insert(run, namespace.to_owned());
    }

    /// Forgets a run that is gone.
    pub(super) fn forget(&self, run: i64) {
        self.known().remove(&run);
    }
}
