//! What all requests share: the engine, the settings, who is known, what is in flight.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use semel_engine::{Engine, Error};
use semel_store::{Access, Clock, Opened, StoreError};

use crate::admit::Admission;
use crate::auth::Known;
use crate::operate::metrics::Looked;
use crate::pages::Sessions;
use crate::settings::Settings;
use crate::worker::Owners;

/// One server's state.
pub struct App {
    pub(crate) engine: Engine,
    pub(crate) opened: Opened,
    pub(crate) settings: Settings,
    pub(crate) known: Known,
    pub(crate) admission: Admission,
    pub(crate) owners: Owners,
    pub(crate) looked: Looked,
    pub(crate) sessions: Sessions,
    draining: AtomicBool,
}

/// Why a server does not start.
#[derive(Debug)]
pub enum OpenError {
    Engine(Error),
    /// The settings would open it to the world, or cannot be carried out; the text says what to do.
    Refused(String),
    Io(std::io::Error),
}

impl std::fmt::Display for OpenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            OpenError::Engine(error) => write!(f, "{error}"),
            OpenError::Refused(text) => f.write_str(text),
            OpenError::Io(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for OpenError {}

impl From<Error> for OpenError {
    fn from(error: Error) -> OpenError {
        OpenError::Engine(error)
    }
}

impl From<StoreError> for OpenError {
    fn from(error: StoreError) -> OpenError {
        OpenError::Engine(error.into())
    }
}

impl From<std::io::Error> for OpenError {
    fn from(error: std::io::Error) -> OpenError {
        OpenError::Io(error)
    }
}

impl App {
    /// Opens the store and starts the engine's job: the server sweeps, fires schedules and moves
    /// doubts for whoever has no process of their own.
    pub async fn open(settings: Settings) -> Result<Arc<App>, OpenError> {
        if settings.store.starts_with("http") {
            let text = "a server needs the store itself, not the address of another server";
            return Err(OpenError::Refused(text.to_owned()));
        }
        let veil = settings.veil.clone();
        let opened =
            Opened::open_veiled(&settings.store, Access::ReadWrite, Clock::Real, veil).await?;
        let engine = Engine::on(&opened, worker_name())?;
        engine.start();
        App::on(engine, opened, settings)
    }

    /// On a store and an engine that were opened elsewhere.
    pub fn on(engine: Engine, opened: Opened, settings: Settings) -> Result<Arc<App>, OpenError> {
        let admission = Admission::new(settings.limits);
        let (known, looked) = (Known::default(), Looked::default());
        let (owners, draining) = (Owners::default(), AtomicBool::new(false));
        let sessions = Sessions::default();
        // From here on: what is counted before somebody takes it up is lost.
        crate::operate::metrics::record();
        Ok(Arc::new(App {
            engine,
            opened,
            settings,
            known,
            admission,
            owners,
            looked,
            sessions,
            draining,
        }))
    }

    /// The engine, for whoever embeds the server.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }
}

/// The process, as attempts name it that were begun over HTTP.
fn worker_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}:{}", host.trim(), std::process::id())
}
