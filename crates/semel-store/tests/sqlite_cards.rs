//! Cards, queues and held effects in a file: the migration that brings them, damage, and several
//! processes that want one card.

mod support;

use std::path::Path;

use semel_core::effect::approve::Ask;
use semel_core::effect::{self, Decision};
use semel_core::run::Run;
use semel_core::time::Wall;
use semel_store::conformance::{self, card, new_run, next, queued, taken};
use semel_store::sqlite::Sqlite;
use semel_store::{
    Access, Batch, Card, CardQuery, Cards, Clock, CommitError, Query, Runs, Store, StoreError,
    Upkeep, Write,
};
use support::child::{Player, role, say};
use support::{Folder, address, block_on, has, old_store};

fn sql(folder: &Folder, text: &str) {
    let connection = rusqlite::Connection::open(folder.store()).expect("a database");
    connection.execute_batch(text).expect("SQL");
}

fn write(store: &Sqlite, writes: Vec<Write>) -> Result<(), CommitError> {
    block_on(store.commit(Batch { writes: writes.into() }))
}

/// An effect that waits for a person, and one that does not; a run in a queue, and one that is
/// ready; a card that is due, one that is not, and one that never is.
fn fill(store: &Sqlite) {
    let ground = store.ground();
    let mut ask = conformance::begin(&address("asked"), "1");
    ask.approval = Some(Ask::default());
    let Ok(Decision::Hold(held)) = effect::begin(None, &ask, &ground) else { panic!("it waits") };
    let plain = conformance::armed(&address("plain"), "1", &ground);
    let waits = queued(&taken(&new_run("waits", 1, &ground), &ground), "mail");
    let ready = new_run("ready", 2, &ground);
    let waits = Run { version: 1, ..waits };
    let due = |ms| Some(Wall(ms));
    let writes = vec![
        conformance::insert(&held, &ground),
        conformance::insert(&plain, &ground),
        Write::run(&waits, &ground.now),
        Write::run(&ready, &ground.now),
        Write::Card(Card { due: due(5), ..card("schedule", "due") }),
        Write::Card(Card { due: due(i64::MAX), ..card("schedule", "later") }),
        Write::Card(Card { record: "{\"flip\":\"me\"}".into(), ..card("gate", "never") }),
    ];
    assert_eq!(write(store, writes), Ok(()));
}

/// The keys of held effects, the next run of the queue, and the names of all schedules and of those
/// that are due.
type Seen = (Vec<String>, Option<i64>, Vec<String>, Vec<String>);

fn seen(store: &Sqlite) -> Seen {
    let held = Query { held: true, ..Query::everywhere(9) };
    let held = block_on(store.list(&held)).expect("a list").effects;
    let run = block_on(store.next_queued("default/mail")).expect("a run");
    let kind = "schedule".to_owned();
    let all = CardQuery { namespace: None, kind, after: None, limit: 9 };
    let all = block_on(store.cards(&all)).expect("cards").cards;
    let due = block_on(store.due_cards("schedule", 9)).expect("due cards");
    let names = |cards: Vec<Card>| cards.into_iter().map(|card| card.name).collect();
    let keys = held.into_iter().map(|effect| effect.address.key.as_str().to_owned()).collect();
    (keys, run.map(|run| run.number), names(all), names(due))
}

fn everything() -> Seen {
    let due = vec!["due".to_owned()];
    (vec!["asked".into()], Some(1), vec!["due".into(), "later".into()], due)
}

/// What an audit says, with the number of cards that it looked at, in small pages.
fn audit(store: &Sqlite) -> (Vec<String>, usize) {
    let mut problems = block_on(store.audit(0, 100)).expect("an audit").problems;
    problems.extend(block_on(store.audit_runs(0, 100)).expect("an audit").problems);
    let (mut after, mut count) = (None, 0);
    loop {
        let page = block_on(store.audit_cards(after, 1)).expect("an audit");
        count += page.cards.len();
        problems.extend(page.problems);
        if page.next.is_none() {
            return (problems, count);
        }
        after = page.next;
    }
}

#[test]
fn a_store_of_every_older_format_is_migrated_and_takes_cards() {
    for format in [1, 2, 3, 4] {
        let folder = old_store(format);
        let store = folder.open();
        assert!(block_on(has(&store, "k")));
        assert_eq!(seen(&store), Seen::default());
        fill(&store);
        assert_eq!(seen(&store), everything());
        assert_eq!(audit(&store), (vec![], 3));
        folder.close_and_fold(store);
        assert_eq!(seen(&folder.open()), everything(), "format {format}");
    }
}

/// Takes the migrations of cards and seals back, as the Semel before left a file.
const BACK: &str = "ALTER TABLE effects DROP COLUMN seal; ALTER TABLE runs DROP COLUMN seal; \
     ALTER TABLE inbox DROP COLUMN seal; ALTER TABLE returns DROP COLUMN seal; \
     ALTER TABLE meta DROP COLUMN seal; DROP TABLE cards; \
     DROP INDEX runs_queue; ALTER TABLE runs DROP COLUMN queue; \
     DROP INDEX effects_held; ALTER TABLE effects DROP COLUMN held; PRAGMA user_version = 3";

#[test]
fn a_store_of_the_format_before_can_be_looked_at_and_stays_as_it_is() {
    let folder = Folder::new();
    let store = folder.open();
    let ground = store.ground();
    let run = new_run("r", 1, &ground);
    assert_eq!(write(&store, vec![Write::run(&run, &ground.now)]), Ok(()));
    block_on(support::put(&store, "k", 10)).expect("an effect");
    folder.close_and_fold(store);
    sql(&folder, BACK);
    let reader = folder.open_to_read();
    assert_eq!((reader.format(), seen(&reader)), (3, Seen::default()));
    assert_eq!(block_on(reader.card("default", "gate", "never")), Ok(None));
    assert_eq!(audit(&reader), (vec![], 0));
    assert!(block_on(has(&reader, "k")));
    assert_eq!(block_on(reader.run("default", &run.id)), Ok(Some(run)));
    folder.close(reader);
    // Once somebody migrates it, whoever looks sees what came since.
    let reader = folder.open_to_read();
    assert_eq!(reader.format(), 3, "looking changed nothing");
    let store = folder.open();
    assert_eq!(audit(&reader), (vec![], 0));
    let other = new_run("other", 7, &store.ground());
    assert_eq!(write(&store, vec![Write::run(&other, &ground.now)]), Ok(()));
    let card = Card { due: Some(Wall(1)), ..card("schedule", "new") };
    assert_eq!(write(&store, vec![Write::Card(card)]), Ok(()));
    assert_eq!(seen(&reader), (vec![], None, vec!["new".into()], vec!["new".into()]));
    assert_eq!(audit(&reader), (vec![], 1));
}

#[test]
fn a_file_with_a_table_of_the_users_by_that_name_is_left_as_it_is() {
    let folder = old_store(3);
    sql(&folder, "CREATE TABLE cards (holder TEXT); INSERT INTO cards VALUES ('ann')");
    let refused = folder.try_open(Access::ReadWrite, Clock::Real).err().expect("it is refused");
    assert!(refused.to_string().contains("table cards already exists"), "{refused}");
    let reader = folder.open_to_read();
    assert_eq!((reader.format(), seen(&reader)), (3, Seen::default()));
    assert!(block_on(has(&reader, "k")));
    folder.close(reader);
    // Once it has another name the file is brought forward.
    sql(&folder, "ALTER TABLE cards RENAME TO payment_cards");
    fill(&folder.open());
}

#[test]
fn a_flipped_byte_in_a_card_is_found_not_believed() {
    // The second makes the text invalid as text.
    for mask in [0x01, 0x80] {
        let folder = Folder::new();
        let store = folder.open();
        fill(&store);
        folder.close_and_fold(store);
        let mut bytes = std::fs::read(folder.store()).expect("a file");
        let marker = b"{\"flip\":\"me\"}";
        let places = bytes.windows(marker.len()).enumerate().filter(|(_, part)| part == marker);
        let places: Vec<usize> = places.map(|(place, _)| place).collect();
        let [place] = places[..] else { panic!("the record was not found once") };
        bytes[place + 3] ^= mask;
        std::fs::write(folder.store(), bytes).expect("a damaged file");
        let store = folder.open();
        let found = block_on(store.card("default", "gate", "never"));
        assert!(matches!(found, Err(StoreError::Corrupt(_))), "{found:?}");
        let query = CardQuery { namespace: None, kind: "gate".into(), after: None, limit: 9 };
        let found = block_on(store.cards(&query)).expect("the others");
        let names: Vec<_> = found.unreadable.iter().map(|row| &*row.name).collect();
        assert_eq!(names, ["never"], "{found:?}");
        let (problems, count) = audit(&store);
        assert_eq!((problems.len(), count), (1, 2), "the audit goes on: {problems:?}");
        assert!(problems[0].starts_with("card default/gate/never: "), "{problems:?}");
        // It is not taken for free, and the others are not held up by it.
        let anew = write(&store, vec![Write::Card(card("gate", "never"))]);
        assert_eq!(anew, Err(CommitError::Stale(Vec::new())));
        assert_eq!(seen(&store), everything());
    }
}

#[test]
fn columns_that_were_changed_are_found() {
    let cases = [
        ("UPDATE cards SET version = 2 WHERE name = 'due'", "card default/schedule/due: "),
        ("UPDATE cards SET due_at = 6 WHERE name = 'due'", "card default/schedule/due: "),
        ("UPDATE cards SET due_at = NULL WHERE name = 'due'", "card default/schedule/due: "),
        ("UPDATE cards SET due_at = 1 WHERE name = 'never'", "card default/gate/never: "),
        ("UPDATE cards SET name = 'x' WHERE name = 'due'", "card default/schedule/x: "),
        ("UPDATE cards SET kind = 'x' WHERE name = 'due'", "card default/x/due: "),
        ("UPDATE cards SET namespace = 'x' WHERE name = 'due'", "card x/schedule/due: "),
        ("UPDATE cards SET sum = sum + 1 WHERE name = 'due'", "card default/schedule/due: "),
        ("UPDATE cards SET record = '[]' WHERE name = 'due'", "card default/schedule/due: "),
        ("UPDATE runs SET queue = NULL WHERE number = 1", "run 1 "),
        ("UPDATE runs SET queue = 'default/sms' WHERE number = 1", "run 1 "),
        ("UPDATE runs SET queue = 'default/mail' WHERE number = 2", "run 2 "),
        ("UPDATE effects SET held = 0 WHERE key = 'asked'", "row 1 "),
        ("UPDATE effects SET held = 1 WHERE key = 'plain'", "row 2 "),
    ];
    let folder = Folder::new();
    let store = folder.open();
    fill(&store);
    assert_eq!(audit(&store), (vec![], 3));
    folder.close_and_fold(store);
    for (change, found) in cases {
        let copy = Folder::new();
        std::fs::copy(folder.store(), copy.store()).expect("a copy");
        sql(&copy, change);
        let store = copy.try_open(Access::ReadOnly, Clock::Real).expect("the store opens");
        let (problems, _) = audit(&store);
        assert_eq!(problems.len(), 1, "{change}: {problems:?}");
        assert!(problems[0].starts_with(found), "{change}: {problems:?}");
    }
}

/// How often each process passes the gate.
const PASSES: usize = 150;

#[test]
fn inv_i1_processes_that_count_on_one_card_lose_no_count() {
    if let Some((_, store)) = role() {
        return count(&store);
    }
    const TEST: &str = "inv_i1_processes_that_count_on_one_card_lose_no_count";
    let folder = Folder::new();
    let mut players = ["p0", "p1", "p2"].map(|name| Player::start(TEST, name, &folder.store()));
    let said = players.each_mut().map(Player::hear_all);
    for player in &mut players {
        assert!(player.wait().success());
    }
    let mut versions: Vec<u64> = said.iter().flatten().map(|line| number(line)).collect();
    versions.sort_unstable();
    let wanted: Vec<u64> = (1..=3 * PASSES as u64).collect();
    assert_eq!(versions, wanted, "each version is won by one, and none is left out");
    let store = folder.open_to_read();
    let last = block_on(store.card("default", "gate", "mail")).expect("a card").expect("a card");
    assert_eq!(last.version, 3 * PASSES as u64);
}

fn number(text: &str) -> u64 {
    text.parse().expect("a number")
}

/// Raises the card, on whatever it finds, and says which versions it won.
fn count(store: &Path) {
    let store = Sqlite::open(store, Access::ReadWrite, Clock::Real).expect("the store opens");
    let mut passes = 0;
    while passes < PASSES {
        let found = block_on(store.card("default", "gate", "mail")).expect("a card");
        let before = found.unwrap_or(Card { version: 0, ..card("gate", "mail") });
        let record = format!("passed by {} as number {passes}", std::process::id());
        let after = next(&before, &record, None);
        match write(&store, vec![Write::Card(after.clone())]) {
            Ok(()) => {
                passes += 1;
                say(&after.version.to_string());
            }
            Err(CommitError::Stale(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
}
