//! The command line, as people and scripts meet it: what is printed where, and how it ends.

mod approvals;
mod audits;
mod backups;
mod canaries;
mod checks;
#[path = "../common/mod.rs"]
mod common;
mod config;
mod decisions;
mod destination;
mod dev;
mod double;
mod family;
mod follows;
mod import;
mod lists;
mod migrate;
mod on_postgres;
mod over_http;
mod proofs;
mod python;
mod quarantine;
mod refusals;
mod releases;
mod run_checks;
mod runs;
mod schedules;
mod shared_checks;
mod shows;
mod spec;
mod stages;
mod steering;
mod suspects;
mod told;
mod triggers;

use std::fs;
use std::future::Future;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use semel::{Error, Failure, Retry, Semel};
use serde_json::{Value, json};

use common::{Ended, World, run, semel, until};

/// The receipt of `put`.
fn receipt(key: &str) -> Value {
    json!({ "id": format!("T-{key}"), "reference": key })
}

impl World {
    /// Runs the SDK on this store, in this process. The threads of a store end after its last
    /// handle; these tests touch its files, so they wait for that.
    fn sdk<T, F: Future<Output = T>>(&self, act: impl FnOnce(Semel) -> F) -> T {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let url = format!("sqlite:{}", self.store().display());
        let done = runtime.block_on(async { act(Semel::open(&url).await.expect("it")).await });
        drop(runtime);
        until("the store is closed", || (!is_open_here(&self.store())).then_some(()));
        done
    }

    /// Calls one effect whose function says this. `Ok` is a receipt.
    fn put(&self, key: &str, says: Result<Value, Failure>) -> Result<Value, Error> {
        self.put_with(key, Duration::from_millis(1), says)
    }

    fn put_with(
        &self,
        key: &str,
        settle: Duration,
        says: Result<Value, Failure>,
    ) -> Result<Value, Error> {
        self.sdk(async |semel| call(&semel, key, settle, says).await)
    }

    fn put_done(&self, key: &str) {
        assert_eq!(self.put(key, Ok(receipt(key))), Ok(receipt(key)));
    }

    fn put_in_doubt(&self, key: &str) {
        self.put(key, Err(Failure::unknown("no answer"))).expect_err("nobody knows");
    }

    fn put_failed(&self, key: &str) {
        self.put(key, Err(Failure::refused("HTTP status 422"))).expect_err("refused");
    }

    fn put_planned(&self, key: &str) {
        self.put(key, Err(Failure::not_applied("nobody listens"))).expect_err("not applied");
    }

    /// One of each.
    fn with_all_states() -> World {
        let world = World::new();
        world.put_done("ok");
        world.put_failed("no");
        world.put_in_doubt("hm");
        world.put_planned("later");
        world
    }

    /// What a person decides, upon the version that stands now.
    fn decide(&self, verb: &str, key: &str, how: &[&str]) -> Ended {
        let version = self.show(key)["version"].to_string();
        let name = format!("crm-ticket/{key}");
        let args = ["effects", verb, &name, "--version", &version, "--reason", "as agreed"];
        self.semel(&[&args[..], how, &["--json"]].concat())
    }

    /// Brings all that is in SQLite's log into the file: whoever closed it last may have been one
    /// that only reads.
    fn empty_log(&self) {
        let connection = rusqlite::Connection::open(self.store()).expect("the file");
        let emptied = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0));
        assert_eq!(emptied, Ok(0), "nobody else has it open");
    }

    /// A store that knows `first`; an older copy of the file was put back, so that it has
    /// forgotten `second`.
    fn restored() -> World {
        let world = World::new();
        world.put_done("first");
        world.empty_log();
        let copy = world.dir.path().join("copy.db");
        fs::copy(world.store(), &copy).expect("a backup");
        world.put_done("second");
        fs::copy(&copy, world.store()).expect("restored");
        for side in ["semel.db-wal", "semel.db-shm"] {
            let _ = fs::remove_file(world.dir.path().join(side));
        }
        world
    }

    fn state(&self, key: &str) -> String {
        self.show(key)["state"].as_str().expect("a state").to_owned()
    }
}

async fn call(
    semel: &Semel,
    key: &str,
    settle: Duration,
    says: Result<Value, Failure>,
) -> Result<Value, Error> {
    let effect = semel.effect("crm-ticket").key([key]).input(&json!({ "reference": key }));
    let effect = effect.workflow("demo").retry(Retry::NONE).settle_window(settle);
    effect.call(move |_| std::future::ready(says.clone())).await
}

/// Whether this process has a file open whose path starts like this one.
fn is_open_here(path: &Path) -> bool {
    let start = path.to_str().expect("a path");
    let open = fs::read_dir("/proc/self/fd").expect("our files").flatten();
    let mut targets = open.filter_map(|entry| fs::read_link(entry.path()).ok());
    targets.any(|target| target.to_str().is_some_and(|target| target.starts_with(start)))
}

/// A command without a store of its own, in a folder of its own.
fn semel_in(dir: &Path, args: &[&str]) -> Ended {
    let mut command: Command = semel();
    run(command.current_dir(dir).args(args))
}

/// Nothing that only a terminal can show.
fn assert_plain(text: &str) {
    let is_drawn = |c: char| c == '\u{1b}' || ('\u{2500}'..='\u{259f}').contains(&c);
    assert!(!text.contains(is_drawn), "drawn or coloured: {text:?}");
}
