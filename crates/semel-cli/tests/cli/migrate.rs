//! `semel migrate`: from which format to which.

use serde_json::json;

use crate::common::World;
use crate::semel_in;

/// Takes the newest migrations back, as an older Semel left the file.
fn to_format_2(world: &World) {
    let connection = rusqlite::Connection::open(world.store()).expect("the file");
    let back = "ALTER TABLE effects DROP COLUMN seal; ALTER TABLE runs DROP COLUMN seal; \
         ALTER TABLE inbox DROP COLUMN seal; ALTER TABLE meta DROP COLUMN seal; \
         DROP TABLE cards; DROP INDEX runs_queue; ALTER TABLE runs DROP COLUMN queue; \
         DROP INDEX effects_held; ALTER TABLE effects DROP COLUMN held; \
         DROP TABLE returns; ALTER TABLE meta ADD COLUMN quarantine_opened INTEGER; \
         ALTER TABLE meta ADD COLUMN quarantine_recovered INTEGER; PRAGMA user_version = 2";
    connection.execute_batch(back).expect("the older format");
}

#[test]
fn migrate_says_from_which_format_to_which() {
    let world = World::new();
    world.put_done("ok");
    let migrated = world.semel(&["migrate", "--json"]).expect(0).json();
    assert_eq!((&migrated["from"], &migrated["to"]), (&json!(5), &json!(5)));
    to_format_2(&world);
    let doctor = world.semel(&["doctor", "--json"]).expect(0).stdout;
    assert!(doctor.contains("(format 2)"), "looking changes nothing: {doctor}");
    let migrated = world.semel(&["migrate", "--json"]).expect(0).json();
    assert_eq!((&migrated["from"], &migrated["to"]), (&json!(2), &json!(5)));
    assert_eq!(world.state("ok"), "done");
    to_format_2(&world);
    let text = world.semel(&["migrate"]).expect(0);
    assert!(text.stdout.ends_with("was brought from format 2 to format 5\n"), "{text:?}");
}

#[test]
fn migrate_makes_a_store_where_there_is_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let made = semel_in(folder.path(), &["migrate", "--json"]).expect(0).json();
    assert_eq!((&made["from"], &made["to"]), (&json!(null), &json!(5)));
    semel_in(folder.path(), &["verify"]).expect(0);
}
