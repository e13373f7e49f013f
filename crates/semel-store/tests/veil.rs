//! Encrypted and redacted stores, on SQLite and on Postgres: they keep every law, what lies in them
//! tells nothing, and a key that is missing, wrong or dropped is named.

mod support;

use std::sync::Arc;

use semel_core::code::Code;
use semel_core::json::Json;
use semel_core::key::{Action, Address, Key, Namespace};
use semel_core::redact::Redactor;
use semel_core::{effect, effect::Decision};
use semel_lab::Database;
use semel_store::conformance::{self, card};
use semel_store::postgres::Postgres;
use semel_store::sqlite::Sqlite;
use semel_store::{
    Access, CardQuery, Clock, CommitError, Keyring, ManualClock, Query, RunQuery, StoreError,
    Upkeep, Veil, Write,
};
use support::sealed::{audits, fill};
use support::{Folder, WALL_MS, wait_until};

/// A place for one store, closed and opened again with other keys.
enum Home {
    File(Folder),
    Server(Database),
}

impl Home {
    fn both() -> [Home; 2] {
        [Home::File(Folder::new()), Home::Server(semel_lab::database())]
    }

    async fn open(&self, veil: &Veil) -> Result<Arc<dyn Upkeep>, StoreError> {
        let (access, clock) = (Access::ReadWrite, Clock::Real);
        match self {
            Home::File(folder) => {
                let store = Sqlite::open_veiled(&folder.store(), access, clock, veil.clone())?;
                Ok(Arc::new(store))
            }
            Home::Server(database) => {
                let url = format!("{}&migrate=true&connections=4", database.url());
                Ok(Arc::new(Postgres::open_veiled(&url, access, clock, veil.clone()).await?))
            }
        }
    }

    async fn filled(&self, veil: &Veil) {
        let store = self.open(veil).await.expect("a store");
        fill(store.as_ref()).await;
        let ground = store.ground();
        let write = [
            conformance::insert(&asked("default", "k", SECRET_INPUT, &ground), &ground),
            Write::Card(semel_store::Card { record: SECRET_INPUT.into(), ..card("gate", "g") }),
        ];
        assert_eq!(store.commit(semel_store::Batch { writes: write.into() }).await, Ok(()));
        self.close(store);
    }

    /// Nobody may touch a file from this process while it is open.
    fn close(&self, store: Arc<dyn Upkeep>) {
        drop(store);
        if let Home::File(folder) = self {
            let is_open =
                || support::open_files().iter().any(|file| file.starts_with(folder.path()));
            wait_until("the store is closed", || !is_open());
        }
    }

    fn sql(&self, text: &str) -> String {
        match self {
            Home::File(folder) => {
                let connection = rusqlite::Connection::open(folder.store()).expect("a database");
                let mut statement = connection.prepare(text).expect("SQL");
                let mut rows = statement.query([]).expect("SQL");
                let mut found = String::new();
                while let Some(row) = rows.next().expect("a row") {
                    let cell: rusqlite::types::Value = row.get(0).expect("a cell");
                    found.push_str(&format!("{cell:?}\n"));
                }
                found
            }
            Home::Server(database) => database.psql(text),
        }
    }

    /// Every text that may hold payload, and whatever else lies in the files.
    fn everything(&self) -> Vec<u8> {
        let mut all = Vec::new();
        for text in [
            "SELECT record FROM effects",
            "SELECT record FROM runs",
            "SELECT entry FROM journal",
            "SELECT payload FROM inbox",
            "SELECT text FROM blobs",
            "SELECT record FROM cards",
        ] {
            let found = self.sql(text);
            assert!(!found.trim().is_empty(), "{text}");
            all.extend(found.into_bytes());
        }
        if let Home::File(folder) = self {
            for file in std::fs::read_dir(folder.path()).expect("a folder").flatten() {
                if file.path().is_file() {
                    all.extend(std::fs::read(file.path()).expect("a file"));
                }
            }
        }
        all
    }
}

const SECRET_INPUT: &str = r#"{"patient":"canary-in-the-input"}"#;

/// An armed effect with an input.
fn asked(
    namespace: &str,
    key: &str,
    input: &str,
    ground: &effect::Ground,
) -> semel_core::record::Effect {
    let address = Address {
        namespace: Namespace::new(namespace).expect("a namespace"),
        action: Action::new("a").expect("an action"),
        key: Key::from_text(key).expect("a key"),
    };
    let mut ask = conformance::begin(&address, key);
    ask.input = Json::from_text(input.to_owned()).expect("JSON");
    match effect::begin(None, &ask, ground) {
        Ok(Decision::Arm(effect, _)) => *effect,
        other => panic!("a first begin arms: {other:?}"),
    }
}

fn ring(lines: &[&str]) -> Keyring {
    Keyring::parse(&lines.join("\n")).expect("a ring")
}

fn veil(lines: &[&str]) -> Veil {
    Veil::new(Some(ring(lines)), Redactor::default())
}

const A: &str = "a: AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const OTHER_A: &str = "a: /wECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const B: &str = "b: //8CAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const ACME: &str = "acme-1 acme: //8DAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

fn contains(all: &[u8], word: &str) -> bool {
    all.windows(word.len()).any(|window| window == word.as_bytes())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_33_an_encrypted_file_keeps_every_law() {
    let mut folders = Vec::new();
    conformance::run_all(|| {
        let folder = Folder::new();
        let clock = Clock::Manual(ManualClock::new(WALL_MS));
        let store = Sqlite::open_veiled(&folder.store(), Access::ReadWrite, clock, veil(&[A]));
        folders.push(folder);
        async move { Arc::new(store.expect("a store")) as conformance::Subject }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_33_an_encrypted_postgres_keeps_every_law() {
    let mut databases = Vec::new();
    conformance::run_all(|| {
        let database = semel_lab::database();
        let url = format!("{}&connections=4", database.url());
        let database = Arc::new(database);
        databases.push(database.clone());
        async move {
            Postgres::migrate(&url).await.expect("it is created");
            database.psql("UPDATE meta SET boot = 0");
            let clock = Clock::Manual(ManualClock::new(WALL_MS));
            let store = Postgres::open_veiled(&url, Access::ReadWrite, clock, veil(&[A])).await;
            Arc::new(store.expect("a store")) as conformance::Subject
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_33_nothing_that_was_said_lies_in_an_encrypted_store() {
    for home in Home::both() {
        home.filled(&veil(&[A])).await;
        let all = home.everything();
        for word in ["canary", "amount", "payload\"", "large\"", "\"one"] {
            assert!(!contains(&all, word), "{word}");
        }
        let store = home.open(&veil(&[A])).await.expect("the same keys");
        assert_eq!(audits(store.as_ref()).await, [""; 0]);
        let found = store.load(&support::address("k")).await.expect("a load").expect("it is there");
        assert_eq!(found.plan.expect("a plan").input.text(), SECRET_INPUT);
        assert_eq!(store.inbox(7).await.expect("an inbox")[0].payload, "\"payload\"");
        let texts = store.journal(7, 0, 9).await.expect("a journal");
        assert_eq!(texts.iter().map(|entry| &*entry.text).collect::<Vec<_>>(), ["one", "two"]);
        let card = store.card("default", "gate", "g").await.expect("a card").expect("it is there");
        assert_eq!(card.record, SECRET_INPUT);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_33_a_store_without_its_key_is_refused_by_the_name_of_the_key() {
    for home in Home::both() {
        home.filled(&veil(&[A])).await;
        let refused = home.open(&Veil::default()).await.err();
        assert_eq!(refused, Some(StoreError::KeyMissing("a".into())));
        // Both keys: the new one writes, the old one still reads.
        let store = home.open(&veil(&[B, A])).await.expect("rotated");
        support::put(store.as_ref(), "later", 9).await.expect("written");
        assert!(
            support::has(store.as_ref(), "k").await && support::has(store.as_ref(), "later").await
        );
        assert_eq!(audits(store.as_ref()).await, [""; 0]);
        home.close(store);
        let refused = home.open(&veil(&[A])).await.err();
        assert_eq!(refused, Some(StoreError::KeyMissing("b".into())));
        let store = home.open(&veil(&[A, B])).await.expect("in any order");
        home.close(store);
    }
}

/// Opens a store with keys that are not its own, and makes sure that nothing was written.
async fn mismatched(home: &Home, lines: &[&str]) {
    let before = home.sql(CARDS);
    let refused = home.open(&veil(lines)).await.err().expect("it is refused");
    assert_eq!(refused.code(), Code::EncryptionKeyMismatch, "{refused}");
    assert_eq!(home.sql(CARDS), before, "nothing is written");
}

const CARDS: &str = "SELECT namespace || kind || name || record FROM cards ORDER BY 1";
const FORGET: &str = "DELETE FROM cards WHERE kind = 'key'";
const KEPT: &str = "SELECT name FROM cards WHERE kind = 'key' ORDER BY name";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_33_another_key_is_refused_at_open_whether_or_not_it_has_the_same_id() {
    for home in Home::both() {
        home.filled(&veil(&[A])).await;
        for lines in [&[OTHER_A][..], &[B], &[B, OTHER_A]] {
            mismatched(&home, lines).await;
        }
        // The check value, and nothing that tells the key.
        let kept = home.sql("SELECT record FROM cards WHERE kind = 'key'");
        assert!(kept.contains("check") && !kept.contains("AAECAwQF"), "{kept}");
        let store = home.open(&veil(&[A])).await.expect("its own");
        assert!(support::has(store.as_ref(), "k").await);
        assert_eq!(audits(store.as_ref()).await, [""; 0]);
        home.close(store);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_33_a_store_from_before_check_values_opens_with_the_key_that_reads_it() {
    for home in Home::both() {
        home.filled(&veil(&[A])).await;
        home.sql(FORGET);
        for lines in [&[OTHER_A][..], &[B], &[B, OTHER_A]] {
            mismatched(&home, lines).await;
        }
        let store = home.open(&veil(&[B, A])).await.expect("its own");
        home.close(store);
        let kept = home.sql(KEPT);
        assert!(kept.contains('a') && kept.contains('b'), "{kept}");
        mismatched(&home, &[OTHER_A]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_33_rows_that_another_key_wrote_once_lock_nobody_out() {
    for (home, other) in Home::both().into_iter().zip(Home::both()) {
        other.filled(&veil(&[OTHER_A])).await;
        let foreign = other.sql("SELECT record || '|' || sum FROM effects WHERE key = 'k'");
        let foreign = foreign.trim().trim_start_matches("Text(\"").trim_end_matches("\")");
        let (record, sum) = foreign.split_once('|').expect("a record and its sum");
        home.filled(&veil(&[A])).await;
        let store = home.open(&veil(&[A])).await.expect("its own");
        for number in 0..12 {
            support::put(store.as_ref(), &format!("later{number}"), 9).await.expect("written");
        }
        home.close(store);
        // All but one in the middle.
        home.sql(&format!(
            "UPDATE effects SET record = '{record}', sum = {sum} \
             WHERE key <> 'later5'"
        ));
        home.sql("UPDATE runs SET record = '~1 a default AAAA'");
        home.sql("UPDATE journal SET entry = '~1 a default AAAA'");
        home.sql("UPDATE cards SET record = '~1 a default AAAA' WHERE kind <> 'key'");
        home.sql(FORGET);
        mismatched(&home, &[B]).await;
        let store = home.open(&veil(&[A])).await.expect("it opens one row");
        let page = store.list(&Query::everywhere(100)).await.expect("the others");
        assert_eq!(page.effects.len(), 1);
        assert!(page.unreadable.iter().all(|row| row.code == Code::StoreCorrupt));
        home.close(store);
        // Where nothing at all can be opened, nothing is written either.
        home.sql(&format!("UPDATE effects SET record = '~1 a default AAAA', sum = {sum}"));
        home.sql(FORGET);
        mismatched(&home, &[A]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_33_of_two_that_bring_two_keys_to_an_empty_store_one_is_refused() {
    for home in Home::both() {
        let (one, other) = (veil(&[A]), veil(&[B]));
        let (one, other) = tokio::join!(home.open(&one), home.open(&other));
        let codes = [&one, &other].map(|opened| opened.as_ref().err().map(StoreError::code));
        let refused: Vec<_> = codes.into_iter().flatten().collect();
        assert_eq!(refused, [Code::EncryptionKeyMismatch], "{codes:?}");
        one.into_iter().chain(other).for_each(|store| home.close(store));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_33_a_row_that_cannot_be_read_is_named_and_the_listing_goes_on() {
    for home in Home::both() {
        home.filled(&veil(&[A])).await;
        let store = home.open(&veil(&[A])).await.expect("a store");
        support::put(store.as_ref(), "later", 9).await.expect("written");
        let all = store.list(&Query::everywhere(100)).await.expect("a list");
        let runs = store.list_runs(&RunQuery::everywhere(100)).await.expect("a list");
        assert!(all.effects.len() > 1 && all.unreadable.is_empty() && !runs.runs.is_empty());
        home.close(store);
        home.sql("UPDATE effects SET record = record || 'A' WHERE key = 'k'");
        home.sql("UPDATE runs SET record = record || 'A'");
        home.sql("UPDATE cards SET record = record || 'A' WHERE name = 'g'");
        let store = home.open(&veil(&[A])).await.expect("a store");
        let (namespace, kind) = (Some("default".into()), "gate".into());
        let query = CardQuery { namespace, kind, after: None, limit: 1 };
        let page = store.cards(&query).await.expect("the others");
        assert_eq!(page.unreadable.iter().map(|row| &*row.name).collect::<Vec<_>>(), ["g"]);
        assert_eq!(page.next, Some(("default".into(), "g".into())));
        let page = store.list(&Query::everywhere(100)).await.expect("the others");
        assert_eq!(page.effects.len(), all.effects.len() - 1);
        let row = &page.unreadable[..];
        assert!(matches!(row, [row] if row.name == "a/k" && row.code == Code::StoreCorrupt));
        let page = store.list_runs(&RunQuery::everywhere(100)).await.expect("the others");
        assert_eq!((page.runs.len(), page.unreadable.len()), (0, runs.runs.len()));
        // A page of one goes on behind it.
        let mut query = Query::everywhere(1);
        let mut seen = 0;
        loop {
            let page = store.list(&query).await.expect("a page");
            seen += page.effects.len() + page.unreadable.len();
            query.after = page.next;
            if page.next.is_none() {
                break;
            }
        }
        assert_eq!(seen, all.effects.len());
        home.close(store);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_33_a_plain_store_is_encrypted_from_the_day_it_gets_a_key() {
    for home in Home::both() {
        home.filled(&Veil::default()).await;
        let store = home.open(&veil(&[A])).await.expect("a plain store");
        support::put(store.as_ref(), "later", 9).await.expect("written");
        let (old, new) = ("sealed", "later");
        assert!(support::has(store.as_ref(), old).await && support::has(store.as_ref(), new).await);
        // A run that began in clear goes on encrypted, in one chain.
        let last = store.last_entry(7).await.expect("a look").expect("an entry");
        let text = "\"three\"".to_owned();
        let (after, link) = (last.link, last.link.then(&text));
        let append = semel_store::Append { run: 7, seq: last.seq + 1, after, link, text };
        assert_eq!(store.commit(Write::Append(append).into()).await, Ok(()));
        assert_eq!(audits(store.as_ref()).await, [""; 0]);
        home.close(store);
        assert!(home.sql("SELECT entry FROM journal WHERE seq = 2").contains("~1 a default "));
        let refused = home.open(&Veil::default()).await.err();
        assert_eq!(refused, Some(StoreError::KeyMissing("a".into())));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_4_a_row_pasted_into_another_tenant_is_refused_alone() {
    for home in Home::both() {
        let veil = veil(&[A]);
        let store = home.open(&veil).await.expect("a store");
        let ground = store.ground();
        for (namespace, input) in [("acme", "\"of acme\""), ("zeta", "\"of zeta\"")] {
            let write = conformance::insert(&asked(namespace, "k", input, &ground), &ground);
            assert_eq!(store.commit(write.into()).await, Ok(()));
        }
        home.close(store);
        let (other, own) = ("namespace = 'acme'", "namespace = 'zeta'");
        home.sql(&format!(
            "UPDATE effects SET record = (SELECT record FROM effects WHERE {other}), \
             sum = (SELECT sum FROM effects WHERE {other}) WHERE {own}"
        ));
        let store = home.open(&veil).await.expect("a store");
        let load = async |name: &str| {
            let namespace = Namespace::new(name).expect("a namespace");
            let address = Address { namespace, ..support::address("k") };
            store.load(&address).await
        };
        let pasted = load("zeta").await;
        assert!(matches!(pasted, Err(StoreError::Corrupt(_))), "{pasted:?}");
        assert!(load("acme").await.expect("a load").is_some(), "the others are as they were");
        assert_eq!(store.audit(i64::MIN, 9).await.expect("an audit").problems.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_35_a_dropped_key_leaves_counts_seals_and_chains() {
    for home in Home::both() {
        // The namespace `default` has a key of its own here.
        let own = A.replace("a: ", "own default: ");
        home.filled(&veil(&[B, &own])).await;
        let dropped = veil(&[B, "own default: dropped"]);
        let store = home.open(&dropped).await.expect("it was dropped on purpose");
        let gone = StoreError::KeyDropped("own".into());
        assert_eq!(store.load(&support::address("k")).await.err(), Some(gone.clone()));
        assert_eq!(store.journal(7, 0, 9).await.err(), Some(gone));
        // Nobody else's work stands still.
        assert_eq!(store.due(None, 9).await.expect("a page").effects, []);
        assert_eq!(store.sweepable(9).await, Ok(vec![]));
        assert_eq!(store.due_runs("none", 9).await.expect("a page").runs, []);
        let ground = store.ground();
        let write = conformance::insert(&asked("acme", "k", "1", &ground), &ground);
        assert_eq!(store.commit(write.into()).await, Ok(()));
        // What can be judged without the key is judged, and is whole.
        assert_eq!(audits(store.as_ref()).await, [""; 0]);
        assert_eq!(store.audit(i64::MIN, 9).await.expect("an audit").dropped, 2);
        assert_eq!(store.audit_runs(i64::MIN, 9).await.expect("an audit").dropped, 1);
        assert_eq!(store.audit_cards(None, 9).await.expect("an audit").dropped.len(), 1);
        home.close(store);
        for (change, undo) in [
            (
                "UPDATE effects SET version = version + 1",
                "UPDATE effects SET version = version - 1",
            ),
            ("UPDATE runs SET fence = fence + 1", "UPDATE runs SET fence = fence - 1"),
            (
                "UPDATE journal SET entry = replace(entry, ' default ', ' zeta ') WHERE seq = 1",
                "UPDATE journal SET entry = replace(entry, ' zeta ', ' default ') WHERE seq = 1",
            ),
            (
                "UPDATE journal SET seq = 2 WHERE seq = 1",
                "UPDATE journal SET seq = 1 WHERE seq = 2",
            ),
        ] {
            home.sql(change);
            let store = home.open(&dropped).await.expect("a store");
            assert_ne!(audits(store.as_ref()).await, [""; 0], "{change}");
            home.close(store);
            home.sql(undo);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i23_a_declared_secret_does_not_reach_the_store() {
    let value = "s3cret/\"value\"";
    let redactor = Redactor::new([("API".to_owned(), value.to_owned())]).expect("a secret");
    for home in Home::both() {
        let veil = Veil::new(None, redactor.clone());
        let store = home.open(&veil).await.expect("a store");
        fill(store.as_ref()).await;
        let ground = store.ground();
        let input = serde_json_text(&format!("Bearer {value}"));
        let asked_for = asked("default", "k", &input, &ground);
        let write = conformance::insert(&asked_for, &ground);
        assert_eq!(store.commit(write.clone().into()).await, Ok(()));
        assert_eq!(store.commit(write.into()).await, Ok(()), "a repeat is recognised");
        let done = conformance::done(&asked_for, &input, &ground);
        assert_eq!(store.commit(conformance::update(&done, &ground).into()).await, Ok(()));
        let read = store.load(&support::address("k")).await.expect("a load").expect("there");
        assert_eq!(read.plan.expect("a plan").input.text(), "\"Bearer [redacted:API]\"");
        let run = store.list_runs(&RunQuery::everywhere(9)).await.expect("a page").runs.remove(0);
        let sent = Write::Deliver(conformance::delivery(&run, "c", &input));
        assert_eq!(store.commit(sent.into()).await, Ok(()));
        let one = Write::Card(semel_store::Card { record: input.clone(), ..card("gate", "g") });
        assert_eq!(store.commit(one.into()).await, Ok(()));
        // Where it cannot be taken out, nothing is written.
        let last = store.last_entry(7).await.expect("a look").expect("an entry");
        let link = last.link.then(&input);
        let text = input.clone();
        let entry = semel_store::Append { run: 7, seq: 2, after: last.link, link, text };
        let refused = [
            conformance::insert(&asked("default", &format!("x{value}"), "1", &ground), &ground),
            Write::Append(entry),
            Write::Card(card("gate", value)),
            Write::Deliver(conformance::delivery(&run, value, "1")),
        ];
        for write in refused {
            let answer = store.commit(write.clone().into()).await;
            let Err(CommitError::Failed(StoreError::SecretExposed(what))) = &answer else {
                panic!("{write:?}: {answer:?}");
            };
            let exposed = what.contains("API") && !what.contains(value);
            assert!(exposed, "{write:?}: {answer:?}");
        }
        assert_eq!(audits(store.as_ref()).await, [""; 0]);
        let kind = "gate".to_owned();
        let query = CardQuery { namespace: None, kind, after: None, limit: 9 };
        assert_eq!(store.cards(&query).await.expect("cards").cards.len(), 1);
        assert_eq!(store.list(&Query::everywhere(9)).await.expect("a page").effects.len(), 2);
        home.close(store);
        let all = home.everything();
        assert!(!contains(&all, "s3cret") && contains(&all, "[redacted:API]"));
    }
}

/// A text as JSON.
fn serde_json_text(text: &str) -> String {
    Json::of(&text).expect("JSON").text().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_with_a_key_of_its_own_is_not_read_with_the_others() {
    for home in Home::both() {
        let store = home.open(&veil(&[A, ACME])).await.expect("a store");
        let ground = store.ground();
        for namespace in ["acme", "zeta"] {
            let write = conformance::insert(&asked(namespace, "k", "1", &ground), &ground);
            assert_eq!(store.commit(write.into()).await, Ok(()));
        }
        home.close(store);
        let found = home.sql("SELECT substr(record, 1, 15) FROM effects ORDER BY row");
        assert!(found.contains("~1 acme-1 acme ") && found.contains("~1 a zeta "), "{found}");
    }
}

#[test]
fn sec_36_a_key_file_that_others_may_read_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let file = folder.path().join("keys");
    std::fs::write(&file, A).expect("written");
    for (mode, is_fine) in [(0o600, true), (0o400, true), (0o640, false), (0o604, false)] {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).expect("set");
        let read = Veil::read(Some(&file), None);
        let refused = read.err().map(|error| error.to_string());
        assert_eq!(refused.is_none(), is_fine, "{mode:o}: {refused:?}");
    }
    let missing = Veil::read(Some(&folder.path().join("none")), None).err();
    assert!(matches!(missing, Some(StoreError::KeyFileInvalid(_))), "{missing:?}");
    for declared in ["sk_live_12345678", "env:SEMEL_NO_SUCH_NAME", "file:/no/such/file"] {
        let refused = Veil::read(None, Some(declared)).err();
        let Some(StoreError::SecretInvalid(what)) = refused else { panic!("{declared}") };
        assert!(!what.contains("sk_live"), "a value that was given by mistake is not shown");
    }
}
