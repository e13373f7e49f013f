//! Opening the store that the command line names.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use semel::{Action, Address, Key, Namespace, Semel};
use semel_core::derive;
use semel_engine::Engine;
use semel_store::Access;
use semel_store::Clock;
use semel_store::sqlite::Sqlite;

use crate::exit::Failed;

/// Where a command works.
pub(crate) struct Place {
    pub(crate) store: String,
    pub(crate) namespace: String,
}

impl Place {
    pub(crate) fn namespace(&self) -> Result<Namespace, Failed> {
        Namespace::new(&self.namespace).map_err(|error| Failed::from(semel::Error::from(error)))
    }

    /// The file of the store.
    pub(crate) fn path(&self) -> Result<PathBuf, Failed> {
        let path = self.store.strip_prefix("sqlite:").filter(|path| !path.is_empty());
        let path = path.ok_or_else(|| {
            let text = format!("`{}` is not the address of a store", self.store);
            Failed::from(semel::Error::new(semel::Code::StoreUrlInvalid, text))
        })?;
        Ok(Path::new(path.strip_prefix("//").unwrap_or(path)).to_owned())
    }

    /// Opens an existing store to look at it.
    pub(crate) fn look(&self) -> Result<Arc<Sqlite>, Failed> {
        Ok(Arc::new(Sqlite::open(&self.path()?, Access::ReadOnly, Clock::Real)?))
    }

    /// An engine that can only read.
    pub(crate) fn engine_to_look(&self) -> Result<Engine, Failed> {
        Ok(Engine::new(self.look()?, "semel")?)
    }

    /// An engine on an existing store, without the job: a command decides, it does not work.
    pub(crate) fn engine_to_decide(&self) -> Result<Engine, Failed> {
        // A decision never creates a store.
        self.look()?;
        let store = Sqlite::open(&self.path()?, Access::ReadWrite, Clock::Real)?;
        Ok(Engine::on_sqlite(Arc::new(store), "semel")?)
    }

    /// Everything, to work.
    pub(crate) async fn semel(&self) -> Result<Semel, Failed> {
        Ok(Semel::open(&self.store).await?.namespace(&self.namespace)?)
    }

    /// Reads the id of a run, or WORKFLOW/KEY, the way `runs ls` and `runs show` print it.
    pub(crate) fn run_id(&self, text: &str) -> Result<String, Failed> {
        let Some((workflow, key)) = text.split_once('/') else { return Ok(text.to_owned()) };
        let invalid = |error: semel::Error| Failed::from(error);
        let workflow = Action::new(workflow).map_err(|error| invalid(error.into()))?;
        let key = Key::parse(key).map_err(|error| invalid(error.into()))?;
        Ok(derive::run_id(&self.namespace()?, workflow.as_str(), &key).to_string())
    }

    /// Reads ACTION/KEY, the way `ls` and `show` print it.
    pub(crate) fn address(&self, text: &str) -> Result<Address, Failed> {
        let usage = || Failed::usage(format!("`{text}` is not ACTION/KEY"));
        let (action, key) = text.split_once('/').ok_or_else(usage)?;
        let invalid = |error: semel::Error| Failed::from(error);
        Ok(Address {
            namespace: self.namespace()?,
            action: Action::new(action).map_err(|error| invalid(error.into()))?,
            key: Key::parse(key).map_err(|error| invalid(error.into()))?,
        })
    }
}
