//! A stand-in for any HTTP service: a real server on this machine that honours keys, offers a
//! search, reads conditions or does nothing of that, misbehaves as it is told, and keeps a book of
//! all that arrived. `docs/double.md` shows its script and its controls.
//!
//! ```
//! use semel_check::double::{Double, Fault, Kind, Mode};
//!
//! let double = Double::start(Mode::Keys)?;
//! double.arm(Fault::at(Kind::CutAfter, 1))?; // the first answer is lost
//! // … let a workflow send to `double.url()` …
//! assert_eq!(double.counts().applied, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod act;
mod book;
mod control;
mod fault;
mod request;
mod script;
mod serve;
mod template;
#[cfg(test)]
mod tests;
mod world;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::thread::JoinHandle;

use axum::Router;
use axum::serve::ListenerExt;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

pub use book::{Applied, Counts, Entry, RouteCounts};
pub use fault::{Fault, Kind, When};
pub use script::{AtOnce, Mode, OtherBody, Route, Script, ScriptInvalid, Span, Texts};

use serve::Shared;
use world::World;

/// A running double, on a thread of its own: any kind of program can use it, and no clock or
/// runtime of a test reaches it. It ends when it is dropped.
pub struct Double {
    address: SocketAddr,
    shared: Shared,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The fault could never fire, or would do harm; the text says why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultInvalid(pub String);

impl std::fmt::Display for FaultInvalid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for FaultInvalid {}

impl Double {
    /// On a free port of this machine.
    pub fn start(script: impl Into<Script>) -> io::Result<Double> {
        Double::listen(script, SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
    }

    /// On this address, which must be one that only this machine reaches: whoever reaches a double
    /// may reset it and let it kill.
    pub fn listen(script: impl Into<Script>, address: SocketAddr) -> io::Result<Double> {
        let invalid = |fact: String| io::Error::new(io::ErrorKind::InvalidInput, fact);
        if !address.ip().is_loopback() {
            return Err(invalid(format!("{address} can be reached from outside this machine")));
        }
        let script = script.into();
        script.check().map_err(|error| invalid(error.to_string()))?;
        // Bound here and without a runtime, since the caller may be inside one of its own.
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let shared = Shared::new(World::new(script));
        let router = Router::new().fallback(serve::handle).with_state(shared.clone());
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("semel-double".into()).spawn(move || {
            runtime.block_on(async {
                let Ok(listener) = TcpListener::from_std(listener) else { return };
                // Else a small answer would wait for the acknowledgement of the one before.
                let listener = listener.tap_io(|stream| {
                    let _ = stream.set_nodelay(true);
                });
                tokio::select! {
                    _ = axum::serve(listener, router).into_future() => {}
                    _ = stopped => {}
                }
            });
            // Dropping the runtime closes every connection and forgets what would land late.
        })?;
        Ok(Double { address, shared, stop: Some(stop), thread: Some(thread) })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://127.0.0.1:40123`
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Everything that arrived since the last reset, in its order.
    pub fn book(&self) -> Vec<Entry> {
        self.shared.look(|world| world.entries.clone())
    }

    pub fn counts(&self) -> Counts {
        self.shared.look(World::counts)
    }

    pub fn arm(&self, fault: Fault) -> Result<(), FaultInvalid> {
        self.shared.change(|world| world.arm(vec![fault])).map_err(FaultInvalid)
    }

    /// As if it had just been started: no book, no objects, no faults. What hangs is let go, and
    /// what was to land late does not.
    pub fn reset(&self) {
        control::reset(&self.shared);
    }

    /// Lets go what hangs.
    pub fn release(&self) {
        control::release(&self.shared);
    }

    /// Waits until the book is as wished.
    pub async fn until(&self, wish: impl Fn(&[Entry]) -> bool) {
        let mut changes = self.shared.changes.subscribe();
        let is_so = |_: &u64| self.shared.look(|world| wish(&world.entries));
        // The sender is ours, so waiting ends only by the wish.
        let _ = changes.wait_for(is_so).await;
    }
}

impl Drop for Double {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
