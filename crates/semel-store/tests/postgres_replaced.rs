//! The tables are exchanged, or their rows put back, under a live process whose connections stay:
//! a dump is loaded, a new store is made, a copy is renamed into place. The very next transaction
//! knows, writes nothing and opens the quarantine; what the process wrote since is listed.

mod support;

use std::process::Command;

use semel_core::effect::State;
use semel_lab::Cluster;
use semel_store::conformance::{appends, armed, done, insert, update};
use semel_store::postgres::{Postgres, Verdict};
use semel_store::{Access, Clock, CommitError, ManualClock, Store, Upkeep, Write};
use support::server::{batch, effect, numbered, open, try_open};
use support::{address, has};

/// Every table of a store, in an order in which they may be filled.
const TABLES: [&str; 12] = [
    "identity",
    "meta",
    "returns",
    "lost",
    "effects",
    "runs",
    "journal",
    "inbox",
    "blobs",
    "blob_uses",
    "cards",
    "outbox",
];

/// A server, a live store on it, and the effect `gone` that the store sent after the backup.
struct World {
    cluster: Cluster,
    store: Postgres,
}

impl World {
    async fn new() -> World {
        let cluster = Cluster::start();
        let store = open(&cluster.url()).await;
        assert_eq!(store.commit(effect("kept", &store.ground())).await, Ok(()));
        World { cluster, store }
    }

    /// Arms, sends and settles an effect that the backup does not have.
    async fn send(&self) {
        let ground = self.store.ground();
        let sent = armed(&address("gone"), "1", &ground);
        assert_eq!(self.store.commit(insert(&sent, &ground).into()).await, Ok(()));
        let sent = done(&sent, "1", &ground);
        assert_eq!(self.store.commit(update(&sent, &ground).into()).await, Ok(()));
    }

    fn dump(&self) -> String {
        let mut dump = Command::new("pg_dump");
        let dump = dump.args(["-d", &self.cluster.url(), "-n", "semel"]).output();
        let dump = dump.expect("pg_dump");
        assert!(dump.status.success(), "{}", String::from_utf8_lossy(&dump.stderr));
        String::from_utf8(dump.stdout).expect("text")
    }

    /// Loads a script in one transaction.
    fn load(&self, script: &str) {
        let path = self.cluster.folder().join("script.sql");
        std::fs::write(&path, script).expect("a file");
        let mut psql = Command::new("psql");
        psql.args(["-qX1", "-v", "ON_ERROR_STOP=1", "-d", &self.cluster.url(), "-f"]);
        let loaded = psql.arg(&path).output().expect("psql");
        assert!(loaded.status.success(), "{}", String::from_utf8_lossy(&loaded.stderr));
    }

    /// The same process asks for the key that it has sent, on what it knew before.
    async fn assert_not_sent_again(&self) {
        let old = self.store.ground();
        let again = insert(&armed(&address("gone"), "2", &old), &old);
        let again = self.store.commit(batch(vec![Write::InEpoch(old.epoch), again])).await;
        assert_eq!(again, Err(CommitError::Stale(vec![None])), "it is to be decided anew");
        let new = self.store.ground();
        assert_eq!(new.epoch, old.epoch + 1);
        assert!(new.quarantine.is_some());
        assert!(new.now.steady.boot > old.now.steady.boot, "leases of before are over");
        assert!(!has(&self.store, "gone").await, "nothing was written");
        assert_eq!(self.lost().await, ["gone 2 done"]);
        assert_eq!(self.cluster.psql("SELECT count(*) FROM semel.returns"), "1");
        // It goes on in the new epoch, once for all time.
        assert_eq!(self.store.commit(effect("next", &new)).await, Ok(()));
        assert_eq!(try_open(&self.cluster.url()).await.expect("again").ground().epoch, new.epoch);
    }

    async fn lost(&self) -> Vec<String> {
        let lost = self.store.lost(0, 10).await.expect("a list");
        let text = |one: &semel_store::Lost| match &one.what {
            semel_store::LostRow::Effect { address, .. } => {
                format!("{} {} {}", address.key.as_str(), one.version, one.state)
            }
            semel_store::LostRow::Run { id, .. } => format!("{id} {} {}", one.version, one.state),
        };
        lost.iter().map(text).collect()
    }

    /// A copy of the rows as they are now, in another schema.
    fn copy_rows(&self) {
        let copies = TABLES.map(|name| format!("CREATE TABLE copy.{name} AS TABLE semel.{name};"));
        self.load(&format!("CREATE SCHEMA copy; {}", copies.concat()));
    }

    fn put_rows_back(&self, clear: &str) {
        let clear = TABLES.map(|name| clear.replace("TABLE", &format!("semel.{name}")));
        let fill = TABLES.map(|name| {
            format!("INSERT INTO semel.{name} OVERRIDING SYSTEM VALUE TABLE copy.{name};")
        });
        self.load(&(clear.concat() + &fill.concat()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i27_a_dump_that_is_loaded_under_a_live_store_opens_the_quarantine() {
    let world = World::new().await;
    let dump = world.dump();
    world.send().await;
    world.load(&format!("DROP SCHEMA semel CASCADE;\n{dump}"));
    world.assert_not_sent_again().await;
    let evidence = world.cluster.psql("SELECT evidence FROM semel.returns");
    assert!(evidence.contains("tables"), "{evidence}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i27_a_new_store_under_a_live_one_opens_the_quarantine() {
    let world = World::new().await;
    world.send().await;
    world.cluster.psql("DROP SCHEMA semel CASCADE");
    assert_eq!(Postgres::migrate(&world.cluster.url()).await, Ok(0));
    let old = world.store.ground();
    let again = insert(&armed(&address("gone"), "2", &old), &old);
    let again = world.store.commit(batch(vec![Write::InEpoch(old.epoch), again])).await;
    assert_eq!(again, Err(CommitError::Stale(vec![None])));
    assert!(world.store.ground().quarantine.is_some());
    let mut lost = world.lost().await;
    lost.sort();
    assert_eq!(lost, ["gone 2 done", "kept 1 pending"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i27_rows_that_are_put_back_into_the_same_tables_open_the_quarantine() {
    for clear in ["TRUNCATE TABLE;", "DELETE FROM TABLE;"] {
        let world = World::new().await;
        world.copy_rows();
        world.send().await;
        world.put_rows_back(clear);
        world.assert_not_sent_again().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i27_a_copy_that_is_renamed_into_place_opens_the_quarantine() {
    let world = World::new().await;
    let dump = world.dump().replace("semel.", "copy.").replace("SCHEMA semel", "SCHEMA copy");
    world.load(&dump);
    world.send().await;
    world.load("ALTER SCHEMA semel RENAME TO before; ALTER SCHEMA copy RENAME TO semel;");
    world.assert_not_sent_again().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i27_another_store_with_a_later_epoch_is_no_successor() {
    let world = World::new().await;
    let url = format!("{}?schema=copy", world.cluster.url());
    drop(open(&url).await);
    for _ in 0..2 {
        world.cluster.psql("UPDATE copy.meta SET server = 'elsewhere'");
        let other = try_open(&url).await.expect("it opens");
        let epoch = other.ground().epoch;
        assert_eq!(other.close_quarantine(epoch, "ada", "a test").await, Ok(()));
    }
    world.send().await;
    world.load("ALTER SCHEMA semel RENAME TO before; ALTER SCHEMA copy RENAME TO semel;");
    let ground = world.store.ground();
    assert_eq!(world.store.commit(effect("next", &ground)).await, Ok(()));
    assert_eq!(world.store.ground().epoch, 3);
    assert!(world.store.ground().quarantine.is_some());
    assert_eq!(world.lost().await.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i27_each_of_the_tables_counts() {
    for table in ["effects", "runs", "journal", "cards"] {
        let world = World::new().await;
        let ground = world.store.ground();
        world.load(&format!(
            "ALTER TABLE semel.{table} RENAME TO before; \
             CREATE TABLE semel.{table} (LIKE semel.before INCLUDING ALL);"
        ));
        assert_eq!(world.store.commit(effect("next", &ground)).await, Ok(()), "{table}");
        assert_eq!(world.store.ground().epoch, 1, "{table}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i27_entries_that_go_out_without_a_look_are_not_written_to_other_tables() {
    let world = World::new().await;
    let ground = world.store.ground();
    let run = numbered(1, &ground);
    let mut entries = appends(&run, &["{}", "{}"]).into_iter().map(Write::Append);
    let first = entries.next().expect("an entry");
    let started = batch(vec![Write::run(&run, &ground.now), first]);
    assert_eq!(world.store.commit(started).await, Ok(()));
    let dump = world.dump();
    world.load(&format!("DROP SCHEMA semel CASCADE;\n{dump}"));
    let next = entries.next().expect("an entry");
    assert_eq!(world.store.commit(next.into()).await, Ok(()), "it follows what is there");
    assert_eq!(world.store.ground().epoch, 1, "and the return was found before it");
    assert_eq!(world.lost().await, [""; 0], "nothing was lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i27_several_live_stores_open_one_quarantine_and_each_lists_its_own() {
    let world = World::new().await;
    let other = open(&world.cluster.url()).await;
    assert_eq!(other.commit(effect("before", &other.ground())).await, Ok(()));
    let dump = world.dump();
    world.send().await;
    assert_eq!(other.commit(effect("others", &other.ground())).await, Ok(()));
    world.load(&format!("DROP SCHEMA semel CASCADE;\n{dump}"));
    assert_eq!(world.store.commit(effect("next", &world.store.ground())).await, Ok(()));
    assert_eq!(world.lost().await, ["gone 2 done"]);
    // Its connections are as old, and the epoch is on record by now.
    assert_eq!(other.commit(effect("last", &other.ground())).await, Ok(()));
    assert_eq!((other.ground().epoch, world.store.ground().epoch), (1, 1));
    assert_eq!(world.lost().await, ["gone 2 done", "others 1 pending"]);
    assert_eq!(world.cluster.psql("SELECT count(*) FROM semel.returns"), "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i27_intents_of_the_outbox_are_not_planned_in_other_tables() {
    let world = World::new().await;
    let dump = world.dump();
    world.send().await;
    world.load(&format!("DROP SCHEMA semel CASCADE;\n{dump}"));
    world.cluster.psql("SELECT semel.intend('mail', 'k', '{}')");
    let name = address("k");
    let action = semel_core::key::Action::new("mail").expect("a name");
    let seen = std::sync::Mutex::new(Vec::new());
    let judge = |_: &_, _: &_, _: Option<&_>, ground: &semel_core::effect::Ground| {
        seen.lock().expect("no panic").push(ground.quarantine.is_some());
        Verdict::Same
    };
    let forwarded = world.store.forward(&[(name.namespace, action)], &judge).await;
    assert_eq!(forwarded.expect("forwarded").same.len(), 1);
    assert_eq!(*seen.lock().expect("no panic"), [true], "judged under the quarantine only");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i27_an_idle_store_that_asks_for_the_time_finds_it() {
    let world = World::new().await;
    let manual = ManualClock::new(support::WALL_MS);
    let clock = Clock::Manual(manual.clone());
    let store = Postgres::open(&world.cluster.url(), Access::ReadWrite, clock).await;
    let store = store.expect("a store");
    let dump = world.dump();
    world.load(&format!("DROP SCHEMA semel CASCADE;\n{dump}"));
    manual.advance_ms(60_000);
    store.due(None, 1).await.expect("what is due");
    assert!(store.ground().quarantine.is_some());
    assert_eq!(store.commit(effect("next", &store.ground())).await, Ok(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i27_a_group_that_waits_while_the_schema_is_exchanged_is_known_or_listed() {
    let world = World::new().await;
    let ground = world.store.ground();
    let slow = armed(&address("slow"), "1", &ground);
    assert_eq!(world.store.commit(insert(&slow, &ground).into()).await, Ok(()));
    let dump = world.dump().replace("semel.", "copy.").replace("SCHEMA semel", "SCHEMA copy");
    world.load(&dump);
    let settled = update(&done(&slow, "1", &ground), &ground);
    let holder = world.store.connection().await.expect("a connection");
    holder.batch_execute("BEGIN; SELECT 1 FROM semel.effects FOR UPDATE").await.expect("locked");
    let (answer, ()) = tokio::join!(world.store.commit(settled.into()), async {
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
        support::server::eventually("it waits", || async { world.cluster.psql(waits) != "0" })
            .await;
        world.load("ALTER SCHEMA semel RENAME TO before; ALTER SCHEMA copy RENAME TO semel;");
        holder.batch_execute("COMMIT").await.expect("let go");
    });
    assert_eq!(world.store.commit(effect("next", &ground)).await, Ok(()));
    assert_eq!(world.store.ground().epoch, 1);
    let stored = world.store.load(&address("slow")).await.expect("a load").expect("an effect");
    let is_there = stored.state(&world.store.ground().now) == State::Done;
    let is_listed = world.lost().await == ["slow 2 done"];
    assert!(answer.is_err() || is_there || is_listed, "{answer:?}");
    assert!(!(is_there && answer.is_err()), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_rewrites_tables_and_keeps_their_rows_opens_nothing() {
    let world = World::new().await;
    for (round, upkeep) in [
        "VACUUM FULL",
        "VACUUM FREEZE",
        "ANALYZE",
        "REINDEX SCHEMA semel",
        "CLUSTER semel.effects USING effects_pkey",
        "ALTER TABLE semel.effects SET (fillfactor = 70)",
    ]
    .into_iter()
    .enumerate()
    {
        world.cluster.psql(upkeep);
        let next = effect(&format!("k{round}"), &world.store.ground());
        assert_eq!(world.store.commit(next).await, Ok(()), "{upkeep}");
        drop(try_open(&world.cluster.url()).await.expect("it opens"));
    }
    assert_eq!(world.store.ground().epoch, 0);
}
