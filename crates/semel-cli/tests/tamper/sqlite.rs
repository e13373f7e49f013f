//! A thousand tamperings with a real file, by a second connection.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, params_from_iter};
use semel::Semel;
use semel_cli::{export_head, problems};
use semel_store::sqlite::Sqlite;
use semel_store::{Access, Clock, Upkeep};

use crate::chance::Chance;
use crate::rich;

/// Each table, and how a row of it is told from the others: for putting older copies back.
const TABLES: [(&str, &str); 9] = [
    ("effects", "namespace, action, key, generation"),
    ("runs", "number"),
    ("journal", "run, seq"),
    ("inbox", "run, number"),
    ("blobs", "namespace, digest"),
    ("blob_uses", "namespace, digest, run"),
    ("cards", "namespace, kind, name"),
    ("returns", "epoch"),
    ("meta", "id"),
];

/// The number that SQLite gives to a row: it orders lists, and nothing more.
const ORDERS: [(&str, &str); 1] = [("effects", "row")];

struct World {
    folder: tempfile::TempDir,
    /// As it was before its second half, and as it is now.
    earlier: PathBuf,
    now: PathBuf,
    head: PathBuf,
}

fn wait_until_closed(path: &Path) {
    let start = path.to_str().expect("a path").to_owned();
    let is_open = || {
        let open = std::fs::read_dir("/proc/self/fd").expect("our files").flatten();
        let mut targets = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        targets.any(|target| target.to_str().is_some_and(|target| target.starts_with(&start)))
    };
    let began = Instant::now();
    while is_open() {
        assert!(began.elapsed() < Duration::from_secs(30), "it stays open");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn fold(path: &Path) {
    wait_until_closed(path);
    let connection = Connection::open(path).expect("a connection");
    let folded = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0));
    assert_eq!(folded, Ok(0), "nobody else has it open");
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime")
}

/// Lets the file go back in time once, so that it has a quarantine to tell of.
fn go_back(path: &Path) {
    let connection = Connection::open(path).expect("a connection");
    let store: String =
        connection.query_row("SELECT store_id FROM meta", [], |row| row.get(0)).expect("its name");
    let mark = PathBuf::from(format!("{}-semel", path.display())).join("mark");
    std::fs::write(mark, format!("{store:32} {:20} {:20}\n", 0, 1_000_000)).expect("a mark");
}

fn build() -> World {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("semel.db");
    let url = format!("sqlite:{}", path.display());
    runtime().block_on(async { rich::fill(&Semel::open(&url).await.expect("a store")).await });
    fold(&path);
    go_back(&path);
    drop(Sqlite::open(&path, Access::ReadWrite, Clock::Real).expect("it went back"));
    fold(&path);
    let earlier = folder.path().join("earlier.db");
    std::fs::copy(&path, &earlier).expect("a copy");
    runtime().block_on(async {
        let semel = Semel::open(&url).await.expect("a store");
        rich::later(&semel).await;
    });
    wait_until_closed(&path);
    let store = Sqlite::open(&path, Access::ReadWrite, Clock::Real).expect("a store");
    runtime().block_on(store.close_quarantine(1, "ann", "looked at")).expect("closed");
    drop(store);
    fold(&path);
    let now = folder.path().join("now.db");
    std::fs::copy(&path, &now).expect("a copy");
    let head = folder.path().join("head.jsonl");
    let store = Sqlite::open(&now, Access::ReadOnly, Clock::Real).expect("a store");
    let runtime = runtime();
    let whole = runtime.block_on(problems(&store, None)).expect("it can be read");
    assert_eq!(whole, [""; 0], "untouched it is whole");
    runtime.block_on(export_head(&store, &head)).expect("a head");
    let against = runtime.block_on(problems(&store, Some(&head))).expect("it can be read");
    assert_eq!(against, [""; 0], "it fits its own head");
    drop(store);
    wait_until_closed(&now);
    World { folder, earlier, now, head }
}

fn columns(connection: &Connection, table: &str) -> Vec<String> {
    let mut statement = connection.prepare(&format!("PRAGMA table_info({table})")).expect("SQL");
    let names = statement.query_map([], |row| row.get(1)).expect("columns");
    names.collect::<Result<_, _>>().expect("names")
}

fn rows(connection: &Connection, table: &str) -> Vec<Vec<Value>> {
    let count = columns(connection, table).len();
    let mut statement = connection.prepare(&format!("SELECT * FROM {table}")).expect("SQL");
    let read = |row: &rusqlite::Row<'_>| (0..count).map(|at| row.get(at)).collect();
    let rows = statement.query_map([], read).expect("rows");
    rows.collect::<Result<_, _>>().expect("rows")
}

/// Sets a column of one row, found by all values that it has.
fn set(
    connection: &Connection,
    (table, column): (&str, &str),
    row: &[Value],
    value: &Value,
) -> Option<()> {
    let names = columns(connection, table);
    let same: Vec<String> = names.iter().map(|name| format!("{name} IS ?")).collect();
    // Bytes that are no text stay in a column of text.
    let cast = if matches!(value, Value::Blob(_)) && is_text(row, &names, column) {
        "CAST(? AS TEXT)"
    } else {
        "?"
    };
    let text = format!("UPDATE {table} SET {column} = {cast} WHERE {}", same.join(" AND "));
    let values = std::iter::once(value).chain(row);
    connection.execute(&text, params_from_iter(values)).ok().filter(|count| *count == 1).map(|_| ())
}

fn is_text(row: &[Value], names: &[String], column: &str) -> bool {
    let at = names.iter().position(|name| name == column).expect("a column");
    matches!(row[at], Value::Text(_) | Value::Null)
}

fn flipped(value: &Value, chance: &mut Chance) -> Value {
    match value {
        Value::Null => Value::Integer(i64::try_from(chance.below(1_000)).expect("small")),
        Value::Integer(number) => Value::Integer(number ^ (1 << chance.below(63))),
        Value::Real(number) => Value::Real(-number),
        Value::Text(text) if text.is_empty() => Value::Text("x".into()),
        Value::Text(text) => {
            let mut bytes = text.clone().into_bytes();
            let at = chance.below(bytes.len());
            bytes[at] ^= 1 << chance.below(8);
            String::from_utf8(bytes)
                .map_or_else(|error| Value::Blob(error.into_bytes()), Value::Text)
        }
        Value::Blob(bytes) if bytes.is_empty() => Value::Blob(vec![1]),
        Value::Blob(bytes) => {
            let mut bytes = bytes.clone();
            let at = chance.below(bytes.len());
            bytes[at] ^= 1 << chance.below(8);
            Value::Blob(bytes)
        }
    }
}

/// What was done, in words; `None`: this cannot be done, or would change nothing.
type Done = Option<String>;

fn pick(connection: &Connection, chance: &mut Chance) -> Option<(&'static str, Vec<Vec<Value>>)> {
    let (table, _) = *chance.of(&TABLES);
    let rows = rows(connection, table);
    (!rows.is_empty()).then_some((table, rows))
}

fn pick_column(
    connection: &Connection,
    table: &str,
    chance: &mut Chance,
) -> Option<(usize, String)> {
    let names = columns(connection, table);
    let at = chance.below(names.len());
    let is_order = ORDERS.contains(&(table, names[at].as_str()));
    (!is_order).then(|| (at, names[at].clone()))
}

fn flip(connection: &Connection, chance: &mut Chance) -> Done {
    let (table, rows) = pick(connection, chance)?;
    let (at, column) = pick_column(connection, table, chance)?;
    let row = chance.of(&rows);
    let value = flipped(&row[at], chance);
    set(connection, (table, &column), row, &value)?;
    Some(format!("flip {table}.{column} of {:.200}", format!("{row:?}")))
}

/// Swaps the values that two rows have in a column.
fn swap(connection: &Connection, chance: &mut Chance) -> Done {
    let (table, rows) = pick(connection, chance)?;
    let (at, column) = pick_column(connection, table, chance)?;
    swap_columns(connection, table, &rows, &[(at, column)], chance)
}

/// Swaps whole records, with their checksums.
fn swap_records(connection: &Connection, chance: &mut Chance) -> Done {
    let table = *chance.of(&["effects", "runs", "cards"]);
    let names = columns(connection, table);
    let of = |name: &str| (names.iter().position(|one| one == name).expect("it"), name.to_owned());
    let mut swapped = vec![of("record"), of("sum")];
    if table != "cards" && chance.below(2) == 0 {
        swapped.push(of("seal"));
    }
    swap_columns(connection, table, &rows(connection, table), &swapped, chance)
}

fn swap_columns(
    connection: &Connection,
    table: &str,
    rows: &[Vec<Value>],
    swapped: &[(usize, String)],
    chance: &mut Chance,
) -> Done {
    let (one, other) = (chance.of(rows), chance.of(rows));
    if swapped.iter().all(|(at, _)| one[*at] == other[*at]) {
        return None;
    }
    let (mut first, mut second) = (one.clone(), other.clone());
    for (at, column) in swapped {
        // In between, out of the way of what must be unique.
        let aside = match &one[*at] {
            Value::Text(_) | Value::Null => Value::Text("aside".into()),
            Value::Blob(_) => Value::Blob(vec![0]),
            Value::Integer(_) | Value::Real(_) => Value::Integer(i64::MAX - 7),
        };
        set(connection, (table, column), &first, &aside)?;
        first[*at] = aside;
        set(connection, (table, column), &second, &one[*at])?;
        second[*at] = one[*at].clone();
        set(connection, (table, column), &first, &other[*at])?;
        first[*at] = other[*at].clone();
    }
    let names: Vec<&str> = swapped.iter().map(|(_, name)| name.as_str()).collect();
    let shown = (format!("{one:?}"), format!("{other:?}"));
    Some(format!("swap {table}.{names:?} of {:.120} and {:.120}", shown.0, shown.1))
}

fn remove(connection: &Connection, table: &str, row: &[Value]) -> Option<()> {
    let same: Vec<String> =
        columns(connection, table).iter().map(|name| format!("{name} IS ?")).collect();
    let text = format!("DELETE FROM {table} WHERE {}", same.join(" AND "));
    let removed = connection.execute(&text, params_from_iter(row)).ok()?;
    (removed == 1).then_some(())
}

fn delete(connection: &Connection, chance: &mut Chance) -> Done {
    let (table, rows) = pick(connection, chance)?;
    let row = chance.of(&rows);
    remove(connection, table, row)?;
    Some(format!("delete from {table} {:.200}", format!("{row:?}")))
}

/// Cuts the last entries off a journal, or off the audit chain.
fn truncate(connection: &Connection, chance: &mut Chance) -> Done {
    let count = 1 + chance.below(3);
    let text = if chance.below(2) == 0 {
        let run: i64 = connection
            .query_row("SELECT number FROM runs ORDER BY random() LIMIT 1", [], |row| row.get(0))
            .ok()?;
        format!(
            "DELETE FROM journal WHERE run = {run} AND seq > \
             (SELECT max(seq) FROM journal WHERE run = {run}) - {count}"
        )
    } else {
        format!(
            "DELETE FROM cards WHERE kind = 'audit' AND name IN \
             (SELECT name FROM cards WHERE kind = 'audit' ORDER BY name LIMIT {count})"
        )
    };
    let removed = connection.execute(&text, []).ok()?;
    (removed > 0).then_some(text)
}

/// Puts a row back as it was earlier.
fn put_back(connection: &Connection, earlier: &Path, chance: &mut Chance) -> Done {
    let (table, key) = *chance.of(&TABLES);
    let old = rows(&Connection::open(earlier).expect("the earlier one"), table);
    let names = columns(connection, table);
    let keys: Vec<usize> = key
        .split(", ")
        .map(|part| names.iter().position(|name| name == part).expect("a column"))
        .collect();
    let pairs: Vec<(Vec<Value>, Vec<Value>)> = rows(connection, table)
        .into_iter()
        .filter_map(|row| {
            let same = |was: &&Vec<Value>| keys.iter().all(|at| was[*at] == row[*at]);
            let was = old.iter().find(same).filter(|was| **was != row)?;
            Some((row, was.clone()))
        })
        .collect();
    if pairs.is_empty() {
        return None;
    }
    let (row, was) = chance.of(&pairs);
    remove(connection, table, row)?;
    let places = vec!["?"; was.len()].join(", ");
    connection
        .execute(&format!("INSERT INTO {table} VALUES ({places})"), params_from_iter(was))
        .ok()?;
    Some(format!("put {table} {:.200} back", format!("{was:?}")))
}

const KINDS: [&str; 7] = ["flip", "flip", "swap", "swap records", "delete", "truncate", "put back"];

#[test]
fn inv_i22_a_thousand_tamperings_with_a_file_are_all_found() {
    let world = build();
    let mut chance = Chance::new();
    let runtime = runtime();
    let untouched = contents(&Connection::open(&world.now).expect("a connection"));
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut number = 0;
    while number < 1_000 {
        let path = world.folder.path().join(format!("t{number}.db"));
        std::fs::copy(&world.now, &path).expect("a copy");
        let connection = Connection::open(&path).expect("a connection");
        connection.execute_batch("BEGIN").expect("SQL");
        let kind = *chance.of(&KINDS);
        let done = match kind {
            "flip" => flip(&connection, &mut chance),
            "swap" => swap(&connection, &mut chance),
            "swap records" => swap_records(&connection, &mut chance),
            "delete" => delete(&connection, &mut chance),
            "truncate" => truncate(&connection, &mut chance),
            _ => put_back(&connection, &world.earlier, &mut chance),
        };
        let committed = connection.execute_batch("COMMIT");
        let done = done.filter(|_| kind != "swap" || contents(&connection) != untouched);
        drop(connection);
        if let (Some(done), Ok(())) = (done, committed) {
            let against = ["delete", "truncate", "put back"].contains(&kind);
            let against = against.then_some(world.head.as_path());
            assert!(is_found(&runtime, &path, against), "number {number} was not found: {done}");
            *counts.entry(kind).or_default() += 1;
            number += 1;
        }
        for suffix in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{suffix}", path.display()));
        }
    }
    eprintln!("all found: {counts:?}");
    assert!(KINDS.iter().all(|kind| counts.get(kind).is_some_and(|count| *count > 20)));
}

/// All rows of all tables, in an order of their own: two uses of a run whose digests were swapped
/// are the same two uses.
fn contents(connection: &Connection) -> Vec<Vec<u64>> {
    let of = |(table, _): &(&str, &str)| {
        let count = columns(connection, table).len();
        let mut statement = connection.prepare(&format!("SELECT * FROM {table}")).expect("SQL");
        // Not as text: what was flipped may be none.
        let rows = statement.query_map([], |row| {
            let mut hasher = DefaultHasher::new();
            for at in 0..count {
                match row.get_ref(at)? {
                    ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.hash(&mut hasher),
                    other => format!("{other:?}").hash(&mut hasher),
                }
            }
            Ok(hasher.finish())
        });
        let mut all: Vec<u64> = rows.expect("rows").map(|row| row.expect("a row")).collect();
        all.sort_unstable();
        all
    };
    TABLES.iter().map(of).collect()
}

/// A store that cannot even be opened was found to be damaged.
fn is_found(runtime: &tokio::runtime::Runtime, path: &Path, against: Option<&Path>) -> bool {
    match Sqlite::open(path, Access::ReadOnly, Clock::Real) {
        Err(_) => true,
        Ok(store) => {
            runtime.block_on(problems(&store, against)).map_or(true, |found| !found.is_empty())
        }
    }
}
