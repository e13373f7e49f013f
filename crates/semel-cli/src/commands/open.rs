//! Opening the store that the command line names.

use std::path::PathBuf;
use std::sync::Arc;

use semel::{Action, Address, Key, Namespace, Notifier, Semel};
use semel_core::code::Code;
use semel_core::derive;
use semel_engine::Engine;
use semel_store::{Access, Clock, Opened, Store, Upkeep, Veil};

use crate::exit::Failed;

/// Where a command works.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) store: String,
    pub(crate) namespace: String,
    /// The keys and the secrets of the settings.
    pub(crate) veil: Veil,
}

impl Place {
    /// The namespace to look and to decide in, which may be a draft twin.
    pub(crate) fn namespace(&self) -> Result<Namespace, Failed> {
        Namespace::stored(&self.namespace).map_err(|error| Failed::from(semel::Error::from(error)))
    }

    /// The namespace to put something new in. Only a draft release leads into a draft twin.
    pub(crate) fn namespace_to_begin(&self) -> Result<Namespace, Failed> {
        Namespace::new(&self.namespace).map_err(|error| Failed::from(semel::Error::from(error)))
    }

    /// The file of the store, where it is one.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        Opened::file_of(&self.store).ok()
    }

    pub(crate) async fn open(&self, access: Access) -> Result<Opened, Failed> {
        Ok(Opened::open_veiled(&self.store, access, Clock::Real, self.veil.clone()).await?)
    }

    /// Opens an existing store to look at it.
    pub(crate) async fn look(&self) -> Result<Arc<dyn Upkeep>, Failed> {
        Ok(self.open(Access::ReadOnly).await?.upkeep()?)
    }

    /// Opens an existing store to write. A decision never creates one.
    pub(crate) async fn open_existing(&self) -> Result<Opened, Failed> {
        // A server that answers has its store.
        if !self.is_server() {
            self.look().await?;
        }
        self.open(Access::ReadWrite).await
    }

    /// An engine that can only read.
    pub(crate) async fn engine_to_look(&self) -> Result<Engine, Failed> {
        let opened = self.open(Access::ReadOnly).await?;
        let store: Arc<dyn Store> = match opened.namespace() {
            Some(_) => opened.store(),
            None => opened.upkeep()?,
        };
        Ok(Engine::new(store, "semel")?)
    }

    /// Whether a server keeps the store.
    pub(crate) fn is_server(&self) -> bool {
        self.store.starts_with("http://") || self.store.starts_with("https://")
    }

    /// Refuses the address of a server for what is its own, and is not passed on.
    pub(crate) fn needs_the_store(&self, what: &str) -> Result<(), Failed> {
        if !self.is_server() {
            return Ok(());
        }
        let text = format!(
            "{what} beside the server, with the address of the store that it serves, or by its API"
        );
        Err(Failed::coded(Code::StoreUrlInvalid, text))
    }

    /// An engine on an existing store, without the job: a command decides, it does not work.
    pub(crate) async fn engine_to_decide(&self) -> Result<Engine, Failed> {
        Ok(Engine::on(&self.open_existing().await?, "semel")?)
    }

    /// Everything, to work.
    pub(crate) async fn semel(&self) -> Result<Semel, Failed> {
        let semel = Semel::open_veiled(&self.store, self.veil.clone()).await?;
        Ok(semel.namespace(&self.namespace)?)
    }

    /// Everything, for a worker: it also tells people, where the environment says how.
    pub(crate) async fn worker(&self) -> Result<Semel, Failed> {
        let semel = self.semel().await?;
        if let Some(notifier) = notifier()? {
            semel.notify(notifier)?;
        }
        Ok(semel)
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

/// Whom the environment says to tell. The address may hold a password, and is never shown.
fn notifier() -> Result<Option<Notifier>, Failed> {
    let said = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
    let Some(address) = said("SEMEL_NOTIFY") else { return Ok(None) };
    let notifier = Notifier::parse(&address)?;
    Ok(Some(match said("SEMEL_NOTIFY_SECRET") {
        None => notifier,
        Some(secret) => notifier.secret(&secret)?,
    }))
}
