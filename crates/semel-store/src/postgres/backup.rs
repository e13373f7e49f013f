//! A backup of a schema: all its tables in one snapshot, by COPY, while others write; and the way
//! back, into a schema where no store is.

use std::path::Path;
use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{SinkExt, TryStreamExt};
use semel_core::time::Wall;
use tokio_postgres::CopyInSink;
use tokio_postgres::types::Type;

use super::address::PgAddress;
use super::connect::{Door, Session};
use super::load::{get, unsigned};
use super::{Postgres, migrate, shared, store_error};
use crate::backup::{Event, Kind, Manifest, Progress, Reader, Writer};
use crate::{Clock, StoreError, Veil};

/// Every table, in an order in which they may be filled.
const TABLES: [&str; 11] = [
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

/// One moment for all tables. A long copy is not cut by the limits of short statements.
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; \
     SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0";

const META: &str = "SELECT store_id, epoch, format, \
     (extract(epoch FROM clock_timestamp()) * 1000)::bigint FROM semel.meta";

/// In the order of the table; what the database computes by itself is left out.
const COLUMNS: &str = "SELECT a.attname::text FROM pg_attribute AS a \
     WHERE a.attrelid = to_regclass('semel.' || $1) AND a.attnum > 0 AND NOT a.attisdropped \
     AND a.attgenerated = '' ORDER BY a.attnum";

const COUNTERS: &str = "SELECT s.relname::text, pg_sequence_last_value(s.oid) FROM pg_class AS s \
     WHERE s.relkind = 'S' AND s.relnamespace = to_regnamespace('semel') ORDER BY s.relname";

const SET_COUNTER: &str = "SELECT setval(to_regclass('semel.' || $1), $2)";

impl Postgres {
    /// Copies the store into a new file.
    pub(crate) async fn write_backup(
        &self,
        file: &Path,
        progress: &Progress,
    ) -> Result<Manifest, StoreError> {
        let mut writer = Writer::create(file)?;
        let session = self.door.enter().await?;
        session.hold();
        let manifest = copy_out(&session, &mut writer, progress).await;
        // It has only read: the connection is not worth an error.
        let ended = session.client().batch_execute("ROLLBACK").await;
        match (&manifest, ended) {
            (Ok(_), Ok(())) => session.release(),
            (Ok(_) | Err(_), _) => session.discard(),
        }
        writer.finish(manifest?)
    }

    /// Puts a backup that was found whole where no store is. The server is another than the one it
    /// was written by, or the table is: whoever opens it finds that it went back.
    pub(crate) async fn restore(
        file: &Path,
        url: &str,
        manifest: &Manifest,
        progress: &Progress,
    ) -> Result<(), StoreError> {
        let address = PgAddress::parse(url)?;
        let shared = Arc::new(shared(&address, Clock::Real, Veil::default())?);
        let door = Door::build(&address, shared)?;
        let session = door.knock().await?;
        let filled = fill(&session, file, manifest, &address.shown, progress).await;
        if filled.is_err() {
            // Whatever was written is undone with the connection.
            session.discard();
            return filled;
        }
        migrate::migrate(&session).await.map(|_| ())
    }
}

async fn copy_out(
    session: &Session,
    writer: &mut Writer,
    progress: &Progress,
) -> Result<Manifest, StoreError> {
    let failed = |error: tokio_postgres::Error| store_error(&error);
    session.client().batch_execute(BEGIN).await.map_err(failed)?;
    let rows = session.query(META, &[]).await.map_err(failed)?;
    let row = rows.first().ok_or_else(|| StoreError::Corrupt("meta is empty".into()))?;
    let mut manifest = Manifest {
        kind: Kind::Postgres,
        store: get(row, 0)?,
        epoch: unsigned(row, 1)?,
        format: get(row, 2)?,
        created: Wall(get(row, 3)?),
        rows: Vec::new(),
        parts: Vec::new(),
        counters: Vec::new(),
    };
    let mut done = 0;
    for table in TABLES {
        let columns = session.query(COLUMNS, &[(&table, Type::TEXT)]).await.map_err(failed)?;
        let columns: Vec<String> =
            columns.iter().map(|row| get(row, 0)).collect::<Result<_, _>>()?;
        let text = copy_text(session, table, &columns, "TO STDOUT");
        writer.begin(table, columns)?;
        let mut copied = pin!(session.client().copy_out(&text).await.map_err(failed)?);
        let mut count = 0;
        while let Some(block) = copied.try_next().await.map_err(failed)? {
            // A line break inside a value is written as two signs.
            count += block.iter().filter(|byte| **byte == b'\n').count() as u64;
            done += block.len() as u64;
            writer.add(&block)?;
            progress(done, 0);
        }
        writer.end_part()?;
        manifest.rows.push((table.to_owned(), count));
    }
    for row in &session.query(COUNTERS, &[]).await.map_err(failed)? {
        if let Some(value) = get(row, 1)? {
            manifest.counters.push((get(row, 0)?, value));
        }
    }
    Ok(manifest)
}

/// Names of ours, or such as a manifest may hold: nothing in them needs a quote.
fn copy_text(session: &Session, table: &str, columns: &[String], way: &str) -> String {
    let schema = &session.shared().schema;
    let quoted: Vec<String> = columns.iter().map(|column| format!("\"{column}\"")).collect();
    format!("COPY {schema}.{table} ({}) {way}", quoted.join(", "))
}

/// Creates the tables in the format of the backup and fills them, all or nothing.
async fn fill(
    session: &Session,
    file: &Path,
    manifest: &Manifest,
    shown: &str,
    progress: &Progress,
) -> Result<(), StoreError> {
    let failed = |error: tokio_postgres::Error| store_error(&error);
    migrate::create_empty(session, manifest.format, shown).await?;
    session.client().batch_execute("SET LOCAL statement_timeout = 0").await.map_err(failed)?;
    let all = manifest.parts.iter().map(|part| part.bytes).sum();
    let (mut reader, mut done) = (Reader::open(file)?, 0);
    let mut into: Option<std::pin::Pin<Box<CopyInSink<Bytes>>>> = None;
    let mut tables = manifest.rows.iter();
    loop {
        match reader.next()? {
            Event::Part(table) => into = Some(begin(session, manifest, &table).await?),
            Event::Block(block) => {
                done += block.len() as u64;
                let sink = into.as_mut().expect("a block is of a part");
                sink.send(block.into()).await.map_err(failed)?;
                progress(done, all);
            }
            Event::PartEnd => {
                let mut sink = into.take().expect("what ends was begun");
                let count = sink.as_mut().finish().await.map_err(failed)?;
                if tables.next().is_none_or(|(_, wanted)| *wanted != count) {
                    return Err(StoreError::BackupInvalid(
                        "it holds other rows than its manifest says".into(),
                    ));
                }
            }
            Event::End(found) if found == *manifest => break,
            Event::End(_) => {
                let text = format!("{}: it was changed meanwhile", file.display());
                return Err(StoreError::BackupInvalid(text));
            }
        }
    }
    for (counter, value) in &manifest.counters {
        let params = [(counter as _, Type::TEXT), (value as _, Type::INT8)];
        session.query(SET_COUNTER, &params).await.map_err(failed)?;
    }
    session.client().batch_execute("COMMIT").await.map_err(failed)
}

async fn begin(
    session: &Session,
    manifest: &Manifest,
    table: &str,
) -> Result<std::pin::Pin<Box<CopyInSink<Bytes>>>, StoreError> {
    let part = manifest.parts.iter().find(|part| part.name == table);
    let Some(part) = part.filter(|_| TABLES.contains(&table)) else {
        return Err(StoreError::BackupInvalid(format!("it has a table `{table}`")));
    };
    let text = copy_text(session, table, &part.columns, "FROM STDIN");
    let sink = session.client().copy_in(&text).await;
    Ok(Box::pin(sink.map_err(|error| store_error(&error))?))
}
