//! What the ledger says, read beside the workers.

use std::path::Path;
use std::sync::Arc;

use semel::Address;
use semel_core::effect::State;
use semel_core::journal::{self, Event};
use semel_core::record::Effect;
use semel_engine::Engine;
use semel_store::Access;
use semel_store::sqlite::Sqlite;
use semel_store::{Clock, RunQuery, Store, StoreError};
use tokio::runtime::Runtime;

pub(crate) struct Ledger {
    runtime: Runtime,
    store: Arc<Sqlite>,
}

impl Ledger {
    pub(crate) fn open(path: &Path) -> Ledger {
        Ledger::find(path).expect("the store is there")
    }

    /// `None` while it is not there, or not ready yet: a file that is being made has no mark.
    pub(crate) fn find(path: &Path) -> Option<Ledger> {
        let store = match Sqlite::open(path, Access::ReadOnly, Clock::Real) {
            Ok(store) => Arc::new(store),
            Err(StoreError::Missing(_) | StoreError::Foreign(_)) => return None,
            Err(error) => panic!("{error}"),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        Some(Ledger { runtime: runtime.expect("a runtime"), store })
    }

    pub(crate) fn effect(&self, address: &Address) -> Option<Effect> {
        self.runtime.block_on(self.store.load(address)).expect("the store answers")
    }

    pub(crate) fn state(&self, address: &Address) -> Option<State> {
        self.effect(address).map(|effect| effect.state(&self.store.ground().now))
    }

    /// The entries of the only run there is, its chain checked: what they tell beside who took it,
    /// and how often it was taken, each time under a higher fence.
    pub(crate) fn only_run(&self) -> (Vec<&'static str>, usize) {
        let engine = Engine::new(self.store.clone(), "test").expect("an engine");
        let runs = self.runtime.block_on(engine.runs(&RunQuery::everywhere(10)));
        let runs = runs.expect("the store answers").runs;
        assert_eq!(runs.len(), 1, "one event is one run: {runs:?}");
        let entries = self.runtime.block_on(engine.journal(&runs[0])).expect("one clean chain");
        let (mut told, mut fences) = (Vec::new(), Vec::new());
        for inked in entries {
            match journal::decode(&inked.text).expect("an entry").event {
                Event::Taken { fence, .. } => fences.push(fence),
                event => told.push(event.name()),
            }
        }
        assert!(fences.is_sorted_by(|a, b| a < b), "fences grow: {fences:?}");
        (told, fences.len())
    }
}
