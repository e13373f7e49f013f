//! Semel: every external effect happens once per business intent, every repeat gets the first
//! receipt, and the ledger proves it.
//!
//! ```
//! use semel::{NativeKey, Semel};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), semel::Error> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let url = format!("sqlite:{}/semel.db", folder.path().display());
//! let semel = Semel::open(&url).await?; // "sqlite:semel.db"
//!
//! let create = || {
//!     semel
//!         .effect("crm-ticket")
//!         .key(["request-42"])
//!         .input(&"printer on fire")
//!         .contract(NativeKey::hours(24))
//!         .call(|intent| async move {
//!             // Call the provider here, with this key in its Idempotency-Key header.
//!             let _key = intent.downstream_key();
//!             Ok::<_, semel::Failure>("T-1".to_owned())
//!         })
//! };
//! let first: String = create().await?;
//! let again: String = create().await?; // not sent again: the first receipt
//! assert_eq!(first, again);
//! # Ok(())
//! # }
//! ```
//!
//! Workflows are ordinary async functions whose steps are recorded, so that a run goes on after a
//! crash where it was:
//!
//! ```
//! use semel::{Context, Error, Semel};
//!
//! async fn greet(ctx: Context, name: String) -> Result<String, Error> {
//!     let greeting = ctx.step("choose", || async { Ok("Salve".to_owned()) }).await?;
//!     Ok(format!("{greeting}, {name}!"))
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), semel::Error> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let url = format!("sqlite:{}/semel.db", folder.path().display());
//! let semel = Semel::open(&url).await?;
//! semel.worker().workflow("greet", greet).start()?;
//! let run = semel.start("greet").key(["event-7"]).input("Ada").run().await?;
//! assert_eq!(run.result::<String>().await?, "Salve, Ada!");
//! # Ok(())
//! # }
//! ```

#![warn(missing_docs)]

mod approval;
pub mod classify;
mod context;
mod effect;
mod evidence;
mod failure;
mod handler;
#[cfg(feature = "notify")]
mod notify;
mod observe;
mod open;
mod proof;
mod run;
mod schedule;
mod transaction;
mod user;
mod worker;

pub use approval::{Approval, Approvals, Approved, Asked, Decided, Question};
pub use context::{Callback, Child, Context, Entity, Step};
pub use effect::Effect;
pub use failure::{Failure, NotApplied, Refused};
pub use handler::Handler;
#[cfg(feature = "notify")]
pub use notify::Notifier;
pub use observe::Observer;
pub use open::Semel;
pub use proof::Proof;
pub use run::{RunHandle, Start};
pub use schedule::Schedule;
pub use transaction::Transaction;
pub use user::UserWait;
pub use worker::{Worker, Working};

pub use semel_core::code::Code;
pub use semel_core::declare::Registry;
pub use semel_core::gate::Mode;
pub use semel_core::journal::Raised;
pub use semel_core::json::Json;
pub use semel_core::key::{Action, Address, IntoKey, Key, Namespace};
pub use semel_core::proof::{Finding, Statement};
pub use semel_core::recipes as keys;
pub use semel_core::record::{Answer, Contract, Judgement};
pub use semel_core::retry::Retry;
pub use semel_core::run::{Run, State as RunState};
pub use semel_core::schedule::CatchUp;
pub use semel_engine::{Error, Intent, OnDoubt, Scheduled, Signalled};

/// SQLite as [`Transaction`] hands it to user code: no second SQLite may open the store's file.
pub use rusqlite;

/// Postgres as [`Transaction`] hands it to user code.
pub use tokio_postgres;

use std::time::Duration;

/// The contract of a destination that honours an idempotency key for a time.
#[derive(Clone, Copy, Debug)]
pub struct NativeKey;

impl NativeKey {
    /// The destination remembers keys for `retention`.
    pub fn retention(retention: Duration) -> Contract {
        Contract::NativeKey { retention_ms: millis(retention) }
    }

    /// The destination remembers keys for so many hours.
    pub fn hours(hours: u64) -> Contract {
        NativeKey::retention(Duration::from_secs(hours.saturating_mul(3_600)))
    }

    /// The destination remembers keys for so many minutes.
    pub fn minutes(minutes: u64) -> Contract {
        NativeKey::retention(Duration::from_secs(minutes.saturating_mul(60)))
    }
}

/// The contract of a destination that can be asked for our reference. Needs a look.
#[derive(Clone, Copy, Debug)]
pub struct Probe;

impl Probe {
    /// Looks after a doubt only.
    pub fn after_doubt() -> Contract {
        Contract::Probe { first: false }
    }

    /// Looks before the first send, too.
    pub fn first() -> Contract {
        Contract::Probe { first: true }
    }
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The examples of the pages, compiled.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../docs/sagas.md")]
    struct Sagas;
    #[doc = include_str!("../../../docs/concurrency.md")]
    struct Concurrency;
    #[doc = include_str!("../../../docs/releases.md")]
    struct Releases;
    #[doc = include_str!("../../../docs/spec.md")]
    struct Spec;
}

/// Builders that nobody awaits do nothing, and the compiler says so.
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// async fn forgets(ctx: semel::Context) {
///     ctx.step("a", || async { Ok::<_, semel::Failure>(1) });
/// }
/// ```
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// async fn forgets(ctx: semel::Context) {
///     ctx.effect("a").key("k");
/// }
/// ```
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// async fn forgets(semel: semel::Semel) {
///     semel.start("w").key("k");
/// }
/// ```
///
/// ```
/// #![deny(unused_must_use)]
/// async fn remembers(ctx: semel::Context, semel: semel::Semel) -> Result<(), semel::Error> {
///     let _: i32 = ctx.step("a", || async { Ok::<_, semel::Failure>(1) }).await?;
///     let _ = ctx.effect("a").key("k");
///     semel.start("w").key("k").run().await?;
///     Ok(())
/// }
/// ```
#[cfg(doctest)]
struct Unawaited;
