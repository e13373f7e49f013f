//! Backups under load, on SQLite and on Postgres: what was committed before is in them, what comes
//! back is whole and in quarantine, and nothing is ever put over something else.

mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use semel_core::code::Code;
use semel_core::effect::{self, Decision};
use semel_core::record::Contract;
use semel_core::redact::Redactor;
use semel_lab::Database;
use semel_store::backup::{self, Manifest, Progress};
use semel_store::{
    Access, Clock, Keyring, Opened, Query, RunQuery, Store, StoreError, Upkeep, Veil, conformance,
};
use support::sealed::{audits, fill};
use support::{Folder, address, has, keys, put};

/// An address of a store, and another one where nothing is.
struct Home {
    folder: Folder,
    databases: Option<[Database; 2]>,
}

impl Home {
    fn both() -> [Home; 2] {
        let databases = [semel_lab::database(), semel_lab::database()];
        [
            Home { folder: Folder::new(), databases: None },
            Home { folder: Folder::new(), databases: Some(databases) },
        ]
    }

    fn url(&self, place: usize) -> String {
        match &self.databases {
            Some(databases) => format!("{}&migrate=true", databases[place].url()),
            None => format!("sqlite:{}", self.folder.path().join(format!("{place}.db")).display()),
        }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("one.semel")
    }

    async fn open(&self, place: usize) -> Opened {
        open(&self.url(place), &Veil::default()).await.expect("a store")
    }

    async fn restore(&self, veil: &Veil) -> Result<(Opened, Manifest), StoreError> {
        let (url, clock) = (self.url(1), Clock::Real);
        Opened::restore(&self.file(), &url, clock, veil.clone(), silent()).await
    }
}

async fn open(url: &str, veil: &Veil) -> Result<Opened, StoreError> {
    Opened::open_veiled(url, Access::ReadWrite, Clock::Real, veil.clone()).await
}

fn silent() -> Progress {
    Arc::new(|_, _| {})
}

fn upkeep(opened: &Opened) -> Arc<dyn Upkeep> {
    opened.upkeep().expect("a store that outlives its process")
}

fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).expect("a file").permissions().mode() & 0o777
}

/// Writes keys until it is told to stop; says how many were acknowledged.
async fn write_on(
    store: Arc<dyn Store>,
    writer: usize,
    count: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
) {
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        put(store.as_ref(), &format!("{writer}-{number}"), 200).await.expect("written");
        count.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i27_a_backup_taken_under_load_comes_back_whole_and_in_quarantine() {
    for home in Home::both() {
        let opened = home.open(0).await;
        let store = opened.store();
        fill(store.as_ref()).await;
        for number in 0..300 {
            put(store.as_ref(), &format!("before-{number}"), 2_000).await.expect("written");
        }
        let (count, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let writers: Vec<_> = (0..4)
            .map(|n| tokio::spawn(write_on(store.clone(), n, count.clone(), stop.clone())))
            .collect();
        let told = Arc::new(AtomicUsize::new(0));
        let tell = told.clone();
        let progress: Progress = Arc::new(move |_, _| {
            tell.fetch_add(1, Ordering::Relaxed);
        });
        while count.load(Ordering::Relaxed) < 20 {
            tokio::task::yield_now().await;
        }
        let manifest = opened.backup(&home.file(), progress).await.expect("a backup");
        stop.store(true, Ordering::Relaxed);
        for writer in writers {
            writer.await.expect("it wrote");
        }
        assert!(told.load(Ordering::Relaxed) > 0, "somebody watches");
        assert_eq!(backup::verify(&home.file()).await, Ok(manifest.clone()));
        assert_eq!(mode(&home.file()), 0o600);
        // What was sent after the backup: the ledger that comes back does not know of it.
        put(store.as_ref(), "after", 9).await.expect("written");
        let (restored, found) = home.restore(&Veil::default()).await.expect("restored");
        assert_eq!(found, manifest);
        let restored = upkeep(&restored);
        assert_eq!(audits(restored.as_ref()).await, [""; 0]);
        assert_eq!(restored.check_pages().await, Ok(vec![]));
        let kept = keys(restored.as_ref()).await;
        let rows = manifest.rows.iter().find(|(table, _)| table == "effects").expect("counted").1;
        assert_eq!(kept.len() as u64, rows);
        assert!((0..300).all(|n| kept.contains(&format!("before-{n}"))) && kept.len() > 320);
        assert!(!has(restored.as_ref(), "after").await);
        let runs = restored.list_runs(&RunQuery::everywhere(9)).await.expect("a page").runs;
        assert_eq!((runs.len(), restored.inbox(7).await.expect("an inbox").len()), (1, 1));
        // In quarantine, recorded, in a new epoch.
        let returns = restored.returns().await.expect("returns");
        assert!(returns.len() == 1 && returns[0].closed.is_none(), "{returns:?}");
        assert_eq!(restored.identity().await.expect("an identity").epoch, manifest.epoch + 1);
        let ground = restored.ground();
        assert!(ground.quarantine.is_some());
        let mut ask = conformance::begin(&address("after"), "again");
        ask.declared.contract = Some(Contract::AtMostOnce);
        match effect::begin(None, &ask, &ground) {
            Ok(Decision::Doubt(_)) => {}
            other => panic!("it may have been sent: {other:?}"),
        }
        // And it goes on: rows are numbered behind those that were there.
        put(restored.as_ref(), "new", 9).await.expect("written");
        let newest = restored.list(&Query::everywhere(1)).await.expect("a page").effects;
        assert_eq!(newest[0].address, address("new"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restore_takes_no_place_that_is_taken_and_no_file_that_is_cut() {
    for home in Home::both() {
        let opened = home.open(0).await;
        fill(opened.store().as_ref()).await;
        opened.backup(&home.file(), silent()).await.expect("a backup");
        let again = opened.backup(&home.file(), silent()).await;
        assert!(matches!(again, Err(StoreError::NotEmpty(_))), "{again:?}");
        let over =
            Opened::restore(&home.file(), &home.url(0), Clock::Real, Veil::default(), silent())
                .await;
        assert!(matches!(over.err(), Some(StoreError::NotEmpty(_))));
        let whole = std::fs::read(home.file()).expect("its bytes");
        std::fs::write(home.file(), &whole[..whole.len() - 40]).expect("cut");
        let cut = home.restore(&Veil::default()).await.err();
        assert!(matches!(cut, Some(StoreError::BackupInvalid(_))), "{cut:?}");
        std::fs::write(home.file(), &whole).expect("mended");
        if home.databases.is_none() {
            // A log that was left behind would be played into the new file.
            let rest = home.folder.path().join("1.db-wal");
            std::fs::write(&rest, "old").expect("written");
            let refused = home.restore(&Veil::default()).await.err();
            assert!(matches!(refused, Some(StoreError::NotEmpty(_))), "{refused:?}");
            std::fs::remove_file(rest).expect("removed");
            let other = "postgres://localhost/x";
            let other =
                Opened::restore(&home.file(), other, Clock::Real, Veil::default(), silent()).await;
            assert!(matches!(other.err(), Some(StoreError::BackupInvalid(_))));
        }
        let (restored, _) = home.restore(&Veil::default()).await.expect("restored at last");
        assert_eq!(audits(upkeep(&restored).as_ref()).await, [""; 0]);
        let left = std::fs::read_dir(home.folder.path()).expect("a folder").flatten();
        let left: Vec<_> = left.map(|file| file.file_name()).collect();
        let ends = |end: &str| left.iter().any(|name| name.to_string_lossy().ends_with(end));
        assert!(!ends(".part") && !ends(".pages") && !ends(".restoring"), "{left:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_33_an_encrypted_store_is_backed_up_as_it_is() {
    const KEY: &str = "a: AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    let ring = || Some(Keyring::parse(KEY).expect("a ring"));
    let veil = Veil::new(ring(), Redactor::default());
    for home in Home::both() {
        let opened = open(&home.url(0), &veil).await.expect("a store");
        fill(opened.store().as_ref()).await;
        opened.backup(&home.file(), silent()).await.expect("a backup");
        let bytes = std::fs::read(home.file()).expect("its bytes");
        for word in ["amount", "\"payload\"", "billing\",\""] {
            let has = bytes.windows(word.len()).any(|window| window == word.as_bytes());
            assert!(!has, "{word}");
        }
        let without = home.restore(&Veil::default()).await.err();
        assert_eq!(without, Some(StoreError::KeyMissing("a".into())));
        // The check value is in it: another key of the same id does not open it.
        let other = Keyring::parse(&KEY.replace("AAEC", "/wEC")).expect("a ring");
        let other = open(&home.url(1), &Veil::new(Some(other), Redactor::default())).await.err();
        assert_eq!(other.map(|error| error.code()), Some(Code::EncryptionKeyMismatch));
        // It is there, and opens for whoever has the key.
        let restored = open(&home.url(1), &veil).await.expect("with the key");
        assert_eq!(audits(upkeep(&restored).as_ref()).await, [""; 0]);
        assert!(restored.store().ground().quarantine.is_some());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_36_every_file_of_a_store_is_for_its_owner_only() {
    let [home, _] = Home::both();
    let opened = home.open(0).await;
    fill(opened.store().as_ref()).await;
    opened.backup(&home.file(), silent()).await.expect("a backup");
    let (restored, _) = home.restore(&Veil::default()).await.expect("restored");
    put(restored.store().as_ref(), "k", 9).await.expect("written");
    let mut folders = vec![home.folder.path().to_owned()];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            let wanted = if path.is_dir() { 0o700 } else { 0o600 };
            assert_eq!(mode(&path), wanted, "{}", path.display());
            seen += 1;
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
    assert!(seen >= 12, "two stores with their logs and locks, and a backup: {seen}");
}
