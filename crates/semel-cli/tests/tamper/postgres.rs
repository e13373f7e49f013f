//! Tamperings with a store on a real Postgres, by `psql`.

use std::collections::BTreeMap;
use std::path::Path;

use semel::Semel;
use semel_cli::{export_head, problems};
use semel_lab::{Database, psql};
use semel_store::postgres::Postgres;
use semel_store::{Access, Clock, Upkeep};

use crate::chance::Chance;
use crate::rich;

/// Each table, its columns that are under a seal, a checksum or a chain, and what names a row.
const TABLES: [(&str, &str, &str); 10] = [
    (
        "effects",
        "namespace action key generation version state workflow created_at due_at sweep_at \
         alarmed held sum record seal",
        "namespace, action, key, generation",
    ),
    (
        "runs",
        "number namespace id version workflow key lane state parked fence created_at wake_at \
         waits_on queue sweep_at sum record seal",
        "number",
    ),
    ("journal", "run seq link entry", "run, seq"),
    ("inbox", "run number identity name payload at consumed seal", "run, number"),
    ("blobs", "namespace digest text", "namespace, digest"),
    ("blob_uses", "namespace digest run", "namespace, digest, run"),
    ("cards", "namespace kind name version due_at sum record", "namespace, kind, name"),
    (
        "returns",
        "epoch opened_at recovered_at evidence closed_at closed_by close_reason seal",
        "epoch",
    ),
    ("meta", "format store_id epoch server boot boot_since wall_high seal", "id"),
    (
        "outbox",
        "namespace action key input workflow created_at refused_code refused_text seal",
        "id",
    ),
];

/// What goes by itself when an intent was delivered: its deletion is no finding.
const GOES: &str = "outbox";

/// The type of each column that is no text.
fn kind(column: &str) -> &'static str {
    match column {
        "generation" | "version" | "created_at" | "due_at" | "sweep_at" | "sum" | "number"
        | "fence" | "wake_at" | "seq" | "run" | "at" | "epoch" | "opened_at" | "recovered_at"
        | "closed_at" | "format" | "boot" | "boot_since" | "wall_high" => "bigint",
        "alarmed" | "held" | "parked" | "consumed" => "boolean",
        "seal" | "link" => "bytea",
        _ => "text",
    }
}

fn flip(column: &str, chance: &mut Chance) -> String {
    let place = chance.below(10_000);
    match kind(column) {
        "bigint" => {
            let bit = chance.below(62);
            format!("coalesce({column}, 0) # (1::bigint << {bit})")
        }
        "boolean" => format!("NOT {column}"),
        "bytea" => {
            format!("set_byte({column}, {place} % 32, get_byte({column}, {place} % 32) # 1)")
        }
        _ => format!(
            "CASE WHEN coalesce({column}, '') = '' THEN 'x' ELSE overlay({column} PLACING \
             chr(ascii(substr({column}, 1 + {place} % length({column}), 1)) # 1) \
             FROM 1 + {place} % length({column}) FOR 1) END"
        ),
    }
}

struct World {
    database: Database,
    /// A schema with the rows as they were earlier, and one with those of now.
    earlier: String,
    now: String,
}

impl World {
    /// Runs statements in one transaction; `None` where one of them fails.
    fn sql(&self, text: &str) -> Option<String> {
        let path = format!("SET search_path TO {}", self.database.schema());
        psql(self.database.admin_url(), &[&path, &format!("BEGIN; {text}; COMMIT")]).ok()
    }

    fn copy(&self, to: &str) {
        let schema = self.database.schema();
        self.database.psql(&format!("CREATE SCHEMA {to}"));
        for (table, _, _) in TABLES {
            self.database.psql(&format!("CREATE TABLE {to}.{table} AS TABLE {schema}.{table}"));
        }
    }

    /// The statement that makes a table what it was before the tampering.
    fn restore(&self, table: &str) -> String {
        let from = &self.now;
        format!(
            "DELETE FROM {table}; INSERT INTO {table} OVERRIDING SYSTEM VALUE \
             SELECT * FROM {from}.{table}"
        )
    }

    fn count(&self, table: &str) -> usize {
        self.database.psql(&format!("SELECT count(*) FROM {table}")).parse().expect("a number")
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for schema in [&self.earlier, &self.now] {
            let text = format!("DROP SCHEMA IF EXISTS {schema} CASCADE");
            let _ = psql(self.database.admin_url(), &[&text]);
        }
    }
}

async fn build() -> World {
    let database = semel_lab::database();
    let url = database.url();
    Postgres::migrate(&url).await.expect("a store");
    let semel = Semel::open(&url).await.expect("a store");
    rich::fill(&semel).await;
    drop(semel);
    let schema = database.schema().to_owned();
    let world = World { earlier: format!("{schema}_e"), now: format!("{schema}_n"), database };
    world.copy(&world.earlier);
    // It is found on another server: it went back.
    world.database.psql("UPDATE meta SET server = 'elsewhere'");
    let semel = Semel::open(&url).await.expect("a store");
    rich::later(&semel).await;
    drop(semel);
    let store = Postgres::open(&url, Access::ReadWrite, Clock::Real).await.expect("a store");
    store.close_quarantine(1, "ann", "looked at").await.expect("closed");
    drop(store);
    world.database.psql("SELECT intend('mail', 'x', '{\"a\":1}'), intend('mail', 'y', '[2]')");
    // The hints of a moment ago fade.
    world.database.psql("UPDATE runs SET shown_to = NULL, shown_until = NULL");
    world.copy(&world.now);
    world
}

/// A row by chance, by where it lies.
fn row(table: &str, chance: &mut Chance, count: usize) -> String {
    let place = chance.below(count);
    format!("(SELECT ctid FROM {table} ORDER BY ctid OFFSET {place} LIMIT 1)")
}

/// The statements of one tampering, with the table that it changes.
fn tamper(world: &World, kind: &str, chance: &mut Chance) -> Option<(&'static str, String)> {
    let (table, columns, key) = *chance.of(&TABLES);
    let columns: Vec<&str> = columns.split_whitespace().collect();
    let count = world.count(table);
    if count == 0 {
        return None;
    }
    let column = *chance.of(&columns);
    let text = match kind {
        "flip" => {
            let value = flip(column, chance);
            let row = row(table, chance, count);
            format!("UPDATE {table} SET {column} = {value} WHERE ctid = {row}")
        }
        "swap" => {
            let (one, other) = (row(table, chance, count), row(table, chance, count));
            // One statement: a constraint that is kept only at its end would hold it up.
            format!(
                "CREATE TEMP TABLE pair ON COMMIT DROP AS SELECT a.ctid AS one, b.ctid AS other, \
                 a.{column} AS of_one, b.{column} AS of_other FROM {table} AS a, {table} AS b \
                 WHERE a.ctid = {one} AND b.ctid = {other} \
                 AND a.{column} IS DISTINCT FROM b.{column}; \
                 UPDATE {table} SET {column} = CASE WHEN {table}.ctid = pair.one THEN of_other \
                 ELSE of_one END FROM pair WHERE {table}.ctid IN (pair.one, pair.other)"
            )
        }
        "delete" if table != GOES => {
            format!("DELETE FROM {table} WHERE ctid = {}", row(table, chance, count))
        }
        "put back" => {
            let earlier = &world.earlier;
            let set: Vec<String> =
                columns.iter().map(|name| format!("{name} = was.{name}")).collect();
            format!(
                "UPDATE {table} SET {} FROM (SELECT e.* FROM {earlier}.{table} AS e \
                 JOIN {table} AS n USING ({key}) WHERE e::text <> n::text \
                 ORDER BY e::text OFFSET {} LIMIT 1) AS was WHERE ({}) = ({})",
                set.join(", "),
                chance.below(3),
                named(table, key),
                named("was", key)
            )
        }
        _ => return None,
    };
    Some((table, text))
}

fn named(table: &str, key: &str) -> String {
    key.split(", ").map(|part| format!("{table}.{part}")).collect::<Vec<_>>().join(", ")
}

const KINDS: [&str; 5] = ["flip", "flip", "swap", "delete", "put back"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i22_a_hundred_and_fifty_tamperings_with_a_database_are_all_found() {
    let world = build().await;
    let folder = tempfile::tempdir().expect("a folder");
    let head = folder.path().join("head.jsonl");
    let store = Postgres::open(&world.database.url(), Access::ReadOnly, Clock::Real).await;
    let store = store.expect("a store");
    assert_eq!(problems(&store, None).await, Ok(vec![]), "untouched it is whole");
    export_head(&store, &head).await.expect("a head");
    assert_eq!(problems(&store, Some(&head)).await, Ok(vec![]), "it fits its own head");
    let mut chance = Chance::new();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut number = 0;
    while number < 150 {
        let kind = *chance.of(&KINDS);
        let Some((table, text)) = tamper(&world, kind, &mut chance) else { continue };
        let changed = format!(
            "SELECT count(*) FROM (SELECT t::text FROM {table} AS t EXCEPT ALL \
             SELECT n::text FROM {now}.{table} AS n) AS d \
             UNION ALL SELECT count(*) FROM (SELECT n::text FROM {now}.{table} AS n EXCEPT ALL \
             SELECT t::text FROM {table} AS t) AS d",
            now = world.now
        );
        let Some(said) = world.sql(&format!("{text}; {changed}")) else { continue };
        if said.lines().all(|line| line == "0") {
            continue;
        }
        let against = ["delete", "put back"].contains(&kind).then_some(head.as_path());
        assert!(is_found(&store, against).await, "number {number} was not found: {text}");
        *counts.entry(kind).or_default() += 1;
        number += 1;
        world.sql(&world.restore(table)).expect("it can be put right");
    }
    eprintln!("all found: {counts:?}");
    assert_eq!(problems(&store, Some(&head)).await, Ok(vec![]), "whole again");
    // Putting back is seldom drawn where it changes anything.
    assert!(KINDS.iter().all(|kind| counts.contains_key(kind)), "{counts:?}");
}

/// A store that cannot be read was found to be damaged.
async fn is_found(store: &Postgres, against: Option<&Path>) -> bool {
    problems(store, against).await.map_or(true, |found| !found.is_empty())
}
