//! Opening Semel on a store.

use semel_core::code::Code;
use semel_core::key::{Address, IntoKey, Namespace};
use semel_core::record;
use semel_engine::{Engine, Error, WeakEngine};
use semel_store::{Access, Clock, Opened, Veil};

use crate::observe::Watch;
use crate::{
    Approvals, Effect, Handler, Observer, RunHandle, Schedule, Start, Transaction, Worker,
};

/// A ledger, opened. Cheap to clone; the last clone closes it.
#[derive(Clone)]
pub struct Semel {
    pub(crate) engine: Engine,
    pub(crate) namespace: Namespace,
    watch: Watch,
}

impl Semel {
    /// Opens the ledger at `sqlite:path/to/file.db`, creating it when it is not there, at
    /// `postgres://…`, or the one that a server keeps at `http://…`; `memory:` is one for tests,
    /// gone with the process. The token for a server is in `SEMEL_TOKEN`. Payload is encrypted with
    /// the keys of the file that `SEMEL_KEY_FILE` names, and secrets that `SEMEL_SECRETS` declares
    /// do not reach the store.
    pub async fn open(url: &str) -> Result<Semel, Error> {
        Semel::start_on(&Opened::open(url, Access::ReadWrite, Clock::Real).await?)
    }

    /// The same, with keys and secrets that the program brings itself.
    pub async fn open_veiled(url: &str, veil: Veil) -> Result<Semel, Error> {
        Semel::start_on(&Opened::open_veiled(url, Access::ReadWrite, Clock::Real, veil).await?)
    }

    /// Opens the ledger of the server at `http://…` or `https://…` with a token. The token's
    /// namespace is the one it works in.
    pub async fn open_with_token(url: &str, token: &str) -> Result<Semel, Error> {
        Semel::start_on(&Opened::open_as(url, Some(token), Access::ReadWrite, Clock::Real).await?)
    }

    fn start_on(opened: &Opened) -> Result<Semel, Error> {
        let engine = Engine::on(opened, worker_name())?;
        engine.start();
        let semel = Semel::on(engine);
        opened.namespace().map_or(Ok(semel.clone()), |name| semel.namespace(name))
    }

    /// On an engine that was built and started elsewhere, for tools and tests: one on a store of
    /// their own, for instance.
    pub fn on(engine: Engine) -> Semel {
        Semel { engine, namespace: Namespace::default(), watch: Watch::default() }
    }

    /// The same ledger, in another namespace.
    pub fn namespace(&self, name: &str) -> Result<Semel, Error> {
        Ok(Semel { namespace: Namespace::new(name)?, ..self.clone() })
    }

    /// The same ledger, in the draft twin of the namespace: its effects and runs are others.
    pub fn draft(&self) -> Semel {
        Semel { namespace: self.namespace.draft(), ..self.clone() }
    }

    /// The namespace it works in.
    pub fn namespace_of(&self) -> &Namespace {
        &self.namespace
    }

    /// From now on notes what effects, steps and workflows declare as they are called, on this
    /// handle and all that were cloned from it or from the same one: for `semel spec` and
    /// `semel lint`. Without this call nothing is noted.
    pub fn observe(&self) -> Observer {
        self.watch.begin()
    }

    pub(crate) fn observer(&self) -> Option<&Observer> {
        self.watch.observer()
    }

    /// Declares one effect: the kind of thing that must happen once per key.
    #[track_caller]
    pub fn effect(&self, action: &str) -> Effect<'_> {
        Effect::new(self, action)
    }

    /// Declares a run of a workflow.
    pub fn start(&self, workflow: &str) -> Start<'_> {
        Start::new(self, workflow)
    }

    /// A run by its id.
    pub fn run(&self, id: &str) -> RunHandle {
        RunHandle::new(self, id)
    }

    /// Answers a callback by its token. The first answer stands; the same one again changes
    /// nothing, another one is told so.
    pub async fn call_back<T: serde::Serialize + ?Sized>(
        &self,
        token: &str,
        payload: &T,
    ) -> Result<semel_engine::Signalled, Error> {
        self.engine.call_back(token, semel_core::json::Json::given(payload)?).await
    }

    /// A schedule by its name: to put it, look at it, stop it or remove it.
    pub fn schedule(&self, name: &str) -> Schedule<'_> {
        Schedule::new(self, name)
    }

    /// Registers workflows that this process works on.
    pub fn worker(&self) -> Worker<'_> {
        Worker::new(self)
    }

    /// Declares an effect that is rows in the ledger's own database.
    #[track_caller]
    pub fn transaction(&self, action: &str) -> Transaction<'_> {
        Transaction::new(self, action)
    }

    /// Registers the code that attends to due effects of an action in this process.
    pub fn handler(&self, action: &str) -> Handler<'_> {
        Handler::new(self, action)
    }

    /// What waits for people's decisions, to see it and to decide.
    pub fn approvals(&self) -> Approvals<'_> {
        Approvals::new(self)
    }

    /// What the ledger knows of an effect; `None` when it was never begun.
    pub async fn find(
        &self,
        action: &str,
        key: impl IntoKey,
    ) -> Result<Option<record::Effect>, Error> {
        match self.engine.effect(&self.address(action, key)?).await {
            Ok(effect) => Ok(Some(effect)),
            Err(error) if error.code() == Code::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The engine below, for tools.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(crate) fn downgrade(&self) -> WeakSemel {
        let (namespace, watch) = (self.namespace.clone(), self.watch.clone());
        WeakSemel { engine: self.engine.downgrade(), namespace, watch }
    }

    pub(crate) fn address(&self, action: &str, key: impl IntoKey) -> Result<Address, Error> {
        Ok(Address {
            namespace: self.namespace.clone(),
            action: semel_core::key::Action::new(action)?,
            key: key.into_key()?,
        })
    }
}

/// A handle that does not keep the store open.
pub(crate) struct WeakSemel {
    engine: WeakEngine,
    namespace: Namespace,
    watch: Watch,
}

impl WeakSemel {
    pub(crate) fn upgrade(&self) -> Option<Semel> {
        let (namespace, watch) = (self.namespace.clone(), self.watch.clone());
        self.engine.upgrade().map(|engine| Semel { engine, namespace, watch })
    }
}

/// The process, as attempts name it.
fn worker_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}:{}", host.trim(), std::process::id())
}
