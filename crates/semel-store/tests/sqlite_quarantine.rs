//! A quarantine in a file: what is recorded of it, who closes it, and that every live process
//! knows.

mod support;

use std::sync::Arc;

use semel_core::effect::{Quarantine, Rows};
use semel_core::time::Wall;
use semel_store::sqlite::{FORMAT, Sqlite};
use semel_store::{
    Access, Batch, Clock, Closed, CommitError, ManualClock, Return, Store, StoreError, Upkeep,
    Write,
};
use support::{Folder, WALL_MS, address, beside, block_on, has, old_store, put, wait_until};

/// A folder whose file went back behind its mark, on a clock that the test moves.
struct World {
    folder: Folder,
    manual: Arc<ManualClock>,
}

impl World {
    fn new() -> World {
        World { folder: Folder::new(), manual: ManualClock::new(WALL_MS) }
    }

    fn clock(&self) -> Clock {
        Clock::Manual(self.manual.clone())
    }

    fn open(&self) -> Sqlite {
        self.folder.open_on(self.clock())
    }

    fn look(&self) -> Sqlite {
        self.folder.try_open(Access::ReadOnly, self.clock()).expect("the store opens")
    }

    /// Lets the mark remember commits that the file does not have. Nobody has to close for that.
    fn go_back(&self) {
        let path = beside(&self.folder.store(), "-semel/mark");
        let text = std::fs::read_to_string(&path).expect("a mark");
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [store, epoch, commits] = fields[..] else { panic!("no mark: {text}") };
        let commits = commits.parse::<i64>().expect("a number") + 100;
        std::fs::write(path, format!("{store:32} {epoch:>20} {commits:20}\n")).expect("a mark");
    }

    /// A closed file with the key `kept`, behind its mark.
    fn restored() -> World {
        let world = World::new();
        let store = world.open();
        block_on(put(&store, "kept", 10)).expect("a new key");
        world.folder.close(store);
        world.go_back();
        world.manual.advance_ms(1_000);
        world
    }
}

fn returns(store: &Sqlite) -> Vec<Return> {
    block_on(store.returns()).expect("returns")
}

fn close(store: &Sqlite, epoch: u64, actor: &str) -> Result<(), CommitError> {
    block_on(store.close_quarantine(epoch, actor, "all of it was found"))
}

fn commit(store: &Sqlite, writes: Vec<Write>) -> Result<(), CommitError> {
    block_on(store.commit(Batch { writes: writes.into() }))
}

#[test]
fn inv_i27_a_return_is_recorded_with_its_evidence() {
    let world = World::restored();
    let want = vec![Return {
        epoch: 1,
        opened: Wall(WALL_MS + 1_000),
        recovered: Wall(WALL_MS),
        evidence: "the mark remembers commit 102, the file has 2".into(),
        closed: None,
    }];
    let reader = world.look();
    assert_eq!(returns(&reader), want, "whoever only looks foresees it");
    let store = world.open();
    assert_eq!(returns(&store), want);
    assert_eq!(returns(&reader), want, "and sees it once when it is recorded");
    assert_eq!(block_on(store.lost(0, 10)), Ok(vec![]));
    assert_eq!(returns(&World::new().open()), []);
}

#[test]
fn a_file_that_was_exchanged_is_named_so() {
    let world = World::restored();
    std::fs::remove_file(world.folder.store()).expect("the file is deleted");
    let found = returns(&world.open());
    assert!(found[0].evidence.starts_with("the mark is of another file"), "{found:?}");
}

#[test]
fn inv_i27_a_quarantine_that_is_closed_stays_closed() {
    let world = World::restored();
    let store = world.open();
    world.manual.advance_ms(1_000);
    assert_eq!(close(&store, 1, "ada"), Ok(()));
    assert_eq!((store.ground().quarantine, store.ground().epoch), (None, 1));
    let closed = Closed {
        at: Wall(WALL_MS + 2_000),
        actor: "ada".into(),
        reason: "all of it was found".into(),
    };
    assert_eq!(returns(&store)[0].closed, Some(closed.clone()));
    world.manual.advance_ms(1_000);
    assert_eq!(close(&store, 1, "bob"), Ok(()), "a repeat is done, too");
    assert_eq!(returns(&store)[0].closed, Some(closed.clone()), "and the first one stands");
    world.folder.close(store);
    let store = world.open();
    assert_eq!((store.ground().quarantine, store.ground().epoch), (None, 1));
    assert_eq!(returns(&store)[0].closed, Some(closed));
}

#[test]
fn only_the_newest_return_is_closed() {
    let world = World::restored();
    let store = world.open();
    for epoch in [0, 2] {
        assert_eq!(close(&store, epoch, "ada"), Err(CommitError::Stale(vec![])), "{epoch}");
    }
    assert!(store.ground().quarantine.is_some());
    let none = World::new();
    assert_eq!(close(&none.open(), 0, "ada"), Err(CommitError::Stale(vec![])));
    let refused = close(&world.look(), 1, "ada");
    assert!(matches!(refused, Err(CommitError::Failed(StoreError::Unavailable(_)))), "{refused:?}");
    assert!(store.ground().quarantine.is_some());
}

#[test]
fn inv_i27_a_second_return_keeps_the_earlier_point_and_is_closed_with_the_first() {
    let world = World::restored();
    let store = world.open();
    block_on(put(&store, "between", 10)).expect("a new key");
    world.folder.close(store);
    world.go_back();
    world.manual.advance_ms(5_000);
    let store = world.open();
    assert_eq!(store.ground().epoch, 2);
    let opened = Quarantine {
        opened: Wall(WALL_MS + 6_000),
        recovered: Wall(WALL_MS),
        rows: Rows::WentBack,
    };
    assert_eq!(store.ground().quarantine, Some(opened), "what was lost first is lost still");
    assert_eq!(close(&store, 1, "ada"), Err(CommitError::Stale(vec![])), "it is not the newest");
    assert_eq!(close(&store, 2, "ada"), Ok(()));
    let found = returns(&store);
    assert_eq!(found.iter().map(|one| one.epoch).collect::<Vec<_>>(), [2, 1]);
    assert!(found.iter().all(|one| one.closed == found[0].closed), "{found:?}");
    // After a closed one, a new one has a point of its own.
    block_on(put(&store, "later", 10)).expect("a new key");
    world.folder.close(store);
    world.go_back();
    let store = world.open();
    let recovered = store.ground().quarantine.map(|quarantine| quarantine.recovered);
    assert_eq!((store.ground().epoch, recovered), (3, Some(Wall(WALL_MS + 6_000))));
}

/// A batch that writes nothing: only its guard counts.
fn in_epoch(epoch: u64) -> Vec<Write> {
    vec![Write::InEpoch(epoch)]
}

#[test]
fn inv_i27_what_one_process_closes_the_others_know_with_their_next_commit_or_read() {
    let world = World::restored();
    let (one, other, third) = (world.open(), world.open(), world.open());
    assert!(other.ground().quarantine.is_some());
    assert_eq!(close(&one, 1, "ada"), Ok(()));
    assert_eq!(one.ground().quarantine, None);
    assert!(other.ground().quarantine.is_some(), "nothing told it yet");
    assert_eq!(commit(&other, in_epoch(1)), Ok(()));
    assert_eq!(other.ground().quarantine, None);
    assert!(block_on(has(&third, "kept")));
    assert_eq!(third.ground().quarantine, None);
}

#[test]
fn inv_i27_an_epoch_that_begins_under_a_live_process_stops_its_writes() {
    let world = World::new();
    let old = world.open();
    block_on(put(&old, "before", 10)).expect("a new key");
    world.go_back();
    let new = world.open();
    assert_eq!((old.ground().epoch, new.ground().epoch), (0, 1));
    // Decided on the old ground, judged by what the file says.
    let (kept, lost) = (Folder::new(), "k");
    let decided = kept.open();
    block_on(put(&decided, lost, 10)).expect("a new key");
    let effect = block_on(decided.load(&address(lost))).expect("a load").expect("an effect");
    let write = Write::effect(&effect, &old.ground().now);
    let armed = commit(&old, vec![Write::InEpoch(0), write.clone()]);
    assert_eq!(armed, Err(CommitError::Stale(vec![None])));
    assert!(!block_on(has(&old, lost)));
    // The refusal brought the truth, upon which it is decided again.
    assert_eq!(old.ground().epoch, 1);
    assert_eq!(old.ground().quarantine, new.ground().quarantine);
    assert!(old.ground().quarantine.is_some());
    assert_eq!(commit(&old, vec![Write::InEpoch(1), write]), Ok(()));
    // Its mark is of the new epoch, too, so that a later return begins a later one.
    let mark = std::fs::read_to_string(beside(&world.folder.store(), "-semel/mark"));
    assert_eq!(mark.expect("a mark").split_whitespace().nth(1), Some("1"));
}

#[test]
fn inv_i27_whoever_only_looks_knows_with_the_next_read() {
    let world = World::restored();
    let reader = world.look();
    assert_eq!((reader.ground().epoch, reader.ground().quarantine.is_some()), (1, true));
    assert!(block_on(has(&reader, "kept")));
    assert!(reader.ground().quarantine.is_some(), "foreseen until somebody records it");
    let store = world.open();
    assert_eq!(close(&store, 1, "ada"), Ok(()));
    assert!(block_on(has(&reader, "kept")));
    assert_eq!((reader.ground().epoch, reader.ground().quarantine), (1, None));
}

#[test]
fn inv_i27_whoever_listens_for_hints_knows_without_a_read() {
    let world = World::restored();
    let (one, idle) = (world.open(), world.open());
    let _hints = idle.hints();
    assert_eq!(close(&one, 1, "ada"), Ok(()));
    wait_until("it is told", || idle.ground().quarantine.is_none());
}

#[test]
fn an_open_quarantine_of_an_older_format_moves_with_the_migration() {
    let folder = old_store(2);
    let connection = rusqlite::Connection::open(folder.store()).expect("a database");
    let set = "UPDATE meta SET epoch = 7, quarantine_opened = 30, quarantine_recovered = 20";
    assert_eq!(connection.execute(set, []), Ok(1));
    drop(connection);
    let want = Return {
        epoch: 7,
        opened: Wall(30),
        recovered: Wall(20),
        evidence: "found by an older Semel".into(),
        closed: None,
    };
    let quarantine =
        Some(Quarantine { opened: Wall(30), recovered: Wall(20), rows: Rows::WentBack });
    let reader = folder.open_to_read();
    assert_eq!((returns(&reader), reader.ground().quarantine), (vec![want.clone()], quarantine));
    let store = folder.open();
    assert_eq!((returns(&store), store.ground().quarantine), (vec![want.clone()], quarantine));
    assert_eq!(returns(&reader), [want], "a reader from before sees the new table");
    assert_eq!(close(&store, 7, "ada"), Ok(()));
    assert_eq!(returns(&reader)[0].closed.as_ref().map(|closed| &*closed.actor), Some("ada"));
    assert_eq!(reader.ground().quarantine, None);
    assert!(block_on(has(&store, "k")));
}

#[test]
fn a_file_without_a_quarantine_gets_none_from_the_migration() {
    for format in [1, 2, 3] {
        let folder = old_store(format);
        let reader = folder.open_to_read();
        assert_eq!((returns(&reader), reader.ground().quarantine), (vec![], None));
        assert_eq!(reader.format(), i64::try_from(format).expect("a small number"));
        let store = folder.open();
        assert_eq!((returns(&store), store.ground().quarantine), (vec![], None));
        assert_eq!((store.format(), store.ground().epoch), (FORMAT, 0));
    }
}
