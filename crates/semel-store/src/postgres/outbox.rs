//! The outbox: intents that a user's own transaction wrote become planned effects.
//!
//! One commit plans the effects of a batch and takes its rows out, so an intent is never lost and
//! never becomes two effects. A lost answer needs no care: whoever comes next finds all of the
//! batch or nothing of it.

use std::collections::BTreeSet;

use semel_core::code::Code;
use semel_core::effect::Ground;
use semel_core::key::{Action, Address, Key, Namespace};
use semel_core::record::Effect;
use semel_core::time::Wall;
use tokio_postgres::Row as SqlRow;
use tokio_postgres::types::Type;

use super::connect::{Session, in_time};
use super::flush::{self, Flush};
use super::group::{Stop, committed, stop};
use super::load::{self, get};
use super::wanted::Wanted;
use super::wire::Param;
use super::writer::HASTY;
use super::{Postgres, meta, rows, store_error};
use crate::model::{Applied, Rows};
use crate::{Row, StoreError, Unreadable, Veil, Write, read_record};

/// Rows of one batch. Each may hold a large input, and all of them are in memory at once.
const ROWS_MAX: i64 = 100;
/// How often a batch is tried anew when somebody was quicker with one of its keys.
const RACES_MAX: usize = 20;

/// A row of the outbox, as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxRow {
    pub id: i64,
    pub namespace: String,
    pub action: String,
    /// In its encoded form.
    pub key: String,
    pub input: String,
    pub workflow: Option<String>,
    pub created: Wall,
    /// Why it cannot be delivered; `None` while it waits.
    pub refused: Option<Refused>,
}

/// Why an intent stays in the outbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub code: String,
    pub text: String,
}

/// What is to become of an intent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Write this planned effect.
    Plan(Box<Effect>),
    /// The ledger knows it.
    Same,
    Refuse(Code, String),
}

/// Decides about one intent on the newest generation of its effect.
pub type Judge<'a> =
    &'a (dyn Fn(&OutboxRow, &Address, Option<&Effect>, &Ground) -> Verdict + Send + Sync);

/// What one batch came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forwarded {
    /// The effects that are planned since.
    pub planned: Vec<Effect>,
    /// The effects of rows that the ledger knew already.
    pub same: Vec<Address>,
    pub refused: usize,
    /// There may be more.
    pub is_full: bool,
}

/// A row that was taken, and what it names.
type Taken = (OutboxRow, Result<Address, (Code, String)>);

const LIST: &str = "SELECT id, namespace, action, key, input, workflow, created_at, refused_code, \
     refused_text FROM semel.outbox WHERE id > $1 ORDER BY id LIMIT $2";

const DROP: &str =
    "DELETE FROM semel.outbox WHERE id = $1 AND refused_code IS NOT NULL RETURNING id";

const WAITS: &str = "SELECT 1 FROM unnest($1::text[], $2::text[]) AS h(namespace, action) \
     CROSS JOIN LATERAL (SELECT 1 FROM semel.outbox AS o WHERE o.namespace = h.namespace \
     AND o.action = h.action AND o.refused_code IS NULL LIMIT 1) AS o LIMIT 1";

/// Rows that another process has in hand are its own.
const TAKE: &str = "SELECT o.* FROM unnest($1::text[], $2::text[]) AS h(namespace, action) \
     CROSS JOIN LATERAL (SELECT q.id, q.namespace, q.action, q.key, q.input, q.workflow, \
     q.created_at, q.refused_code, q.refused_text FROM semel.outbox AS q \
     WHERE q.namespace = h.namespace AND q.action = h.action AND q.refused_code IS NULL \
     ORDER BY q.id LIMIT $3 FOR UPDATE SKIP LOCKED) AS o LIMIT $3";

const TAKE_ONE: &str = "SELECT id, namespace, action, key, input, workflow, created_at, \
     refused_code, refused_text FROM semel.outbox WHERE id = $1 AND refused_code IS NULL \
     FOR UPDATE SKIP LOCKED";

const GONE: &str = "DELETE FROM semel.outbox WHERE id = ANY($1::bigint[])";

const REFUSE: &str = "UPDATE semel.outbox AS o SET refused_code = w.code, refused_text = w.text, \
     seal = semel.seal('intent', o.namespace, o.action, o.key, o.input, o.workflow, \
     o.created_at::text, w.code, w.text) \
     FROM unnest($1::bigint[], $2::text[], $3::text[]) AS w(id, code, text) WHERE o.id = w.id";

/// Which rows a batch takes.
#[derive(Clone, Copy)]
enum Which<'a> {
    Of(&'a [&'a str], &'a [&'a str]),
    One(i64),
}

impl Postgres {
    /// What is in the outbox, the oldest first, after an id.
    pub async fn outbox(
        &self,
        after: Option<i64>,
        limit: usize,
    ) -> Result<Vec<OutboxRow>, StoreError> {
        let (after, limit) = (after.unwrap_or(0), rows::sql_limit(limit));
        let params: [Param<'_>; 2] = [(&after, Type::INT8), (&limit, Type::INT8)];
        rows::read(&self.door, LIST, &params).await?.iter().map(outbox_row).collect()
    }

    /// Takes out a row that was refused. `false`: there is none.
    pub async fn drop_refused(&self, id: i64) -> Result<bool, StoreError> {
        self.writer()?;
        Ok(!rows::read(&self.door, DROP, &[(&id, Type::INT8)]).await?.is_empty())
    }

    /// Makes planned effects of a batch of intents of these actions.
    pub async fn forward(
        &self,
        actions: &[(Namespace, Action)],
        judge: Judge<'_>,
    ) -> Result<Forwarded, StoreError> {
        self.writer()?;
        let namespaces: Vec<&str> = actions.iter().map(|(name, _)| name.as_str()).collect();
        let names: Vec<&str> = actions.iter().map(|(_, name)| name.as_str()).collect();
        let params: [Param<'_>; 2] = [(&namespaces, Type::TEXT_ARRAY), (&names, Type::TEXT_ARRAY)];
        if actions.is_empty() || rows::read(&self.door, WAITS, &params).await?.is_empty() {
            return Ok(Forwarded::default());
        }
        let mut met = Vec::new();
        match self.forward_batch(Which::Of(&namespaces, &names), judge, &mut met).await {
            Err(Stop::Blocked(_)) => self.forward_singly(&met, judge).await,
            Err(stopped) => Err(error(stopped)),
            Ok(forwarded) => Ok(forwarded),
        }
    }

    /// Somebody holds a key of the batch: only the intent that meets it waits.
    async fn forward_singly(&self, ids: &[i64], judge: Judge<'_>) -> Result<Forwarded, StoreError> {
        let mut all = Forwarded::default();
        for id in ids {
            match self.forward_batch(Which::One(*id), judge, &mut Vec::new()).await {
                Ok(one) => {
                    all.planned.extend(one.planned);
                    all.same.extend(one.same);
                    all.refused += one.refused;
                }
                Err(Stop::Blocked(error)) => {
                    tracing::debug!(intent = id, %error, "an intent waits for its key");
                }
                Err(stopped) => return Err(error(stopped)),
            }
        }
        Ok(all)
    }

    async fn forward_batch(
        &self,
        which: Which<'_>,
        judge: Judge<'_>,
        met: &mut Vec<i64>,
    ) -> Result<Forwarded, Stop> {
        for _ in 0..RACES_MAX {
            let session = self.door.enter().await.map_err(Stop::Failed)?;
            session.hold();
            let tried = in_time(try_batch(&session, which, judge, met)).await;
            let tried = tried.unwrap_or(Err(Stop::Unknown));
            if !matches!(tried, Err(Stop::Unknown | Stop::Failed(_))) {
                session.release();
            }
            match tried {
                Ok(forwarded) => {
                    self.told(&session, &forwarded.planned);
                    return Ok(forwarded);
                }
                Err(Stop::Raced) => {}
                Err(Stop::Replaced) => session.look_anew().await.map_err(Stop::Failed)?,
                Err(stop @ Stop::Blocked(_)) => return Err(stop),
                Err(stop @ (Stop::Unknown | Stop::Failed(_))) => return Err(stop),
            }
        }
        Err(Stop::Raced)
    }

    /// Remembers what was written, and rings for those who wait elsewhere.
    fn told(&self, session: &Session, planned: &[Effect]) {
        let shared = session.shared();
        let ground = shared.ground();
        let writes: Vec<Write> =
            planned.iter().map(|effect| Write::effect(effect, &ground.now)).collect();
        if !writes.is_empty() {
            shared.memory.note(ground.epoch, &writes, ground.now.wall);
            self.hints.bell().notify_one();
        }
    }
}

fn error(stop: Stop) -> StoreError {
    match stop {
        Stop::Raced => StoreError::Busy("other processes kept writing the same keys".into()),
        Stop::Replaced => StoreError::Busy("the tables kept being replaced".into()),
        Stop::Blocked(error) | Stop::Failed(error) => error,
        Stop::Unknown => StoreError::Unavailable("the answer to a commit was lost".into()),
    }
}

/// One transaction: take, look, judge, write.
async fn try_batch(
    session: &Session,
    which: Which<'_>,
    judge: Judge<'_>,
    met: &mut Vec<i64>,
) -> Result<Forwarded, Stop> {
    let failed = |error: tokio_postgres::Error| Stop::Failed(store_error(&error));
    let Hand { taken, ground, boot, tables } = take(session, which).await?;
    if taken.is_empty() {
        session.client().batch_execute("ROLLBACK").await.map_err(failed)?;
        return Ok(Forwarded::default());
    }
    *met = taken.iter().map(|(row, _)| row.id).collect();
    let addresses = taken.iter().filter_map(|(_, address)| address.as_ref().ok());
    let found = match load::ask(session, &Wanted::effects(addresses)).await {
        Ok(found) => found,
        Err(error) => {
            let stop = stop(&error);
            session.client().batch_execute("ROLLBACK").await.map_err(failed)?;
            return Err(stop);
        }
    };
    let mut rows = found.rows(boot, &[]).map_err(Stop::Failed)?;
    let sorted = sort(&mut rows, &taken, judge, &ground, &session.shared().veil);
    let sorted = sorted.map_err(Stop::Failed)?;
    let mut flush = Flush::of(&rows, &BTreeSet::new(), boot);
    flush.add(GONE, [flush::int8(sorted.gone)]);
    if !sorted.refused.is_empty() {
        flush.add(
            REFUSE,
            [
                flush::int8(sorted.refused.iter().map(|(id, ..)| *id)),
                flush::text(sorted.refused.iter().map(|(_, code, _)| code.as_str())),
                flush::text(sorted.refused.iter().map(|(.., text)| text.as_str())),
            ],
        );
    }
    flush.prepare(session).await.map_err(failed)?;
    committed(session, ground.epoch, flush.send(session, &tables).await)?;
    let refused = sorted.refused.len();
    let is_full = i64::try_from(taken.len()).is_ok_and(|count| count >= ROWS_MAX);
    Ok(Forwarded { planned: sorted.planned, same: sorted.same, refused, is_full })
}

/// The rows that were taken, and what was read with them.
struct Hand {
    taken: Vec<Taken>,
    ground: Ground,
    boot: u64,
    tables: String,
}

/// Begins the transaction and takes rows.
async fn take(session: &Session, which: Which<'_>) -> Result<Hand, Stop> {
    let shared = session.shared();
    let failed = |error: tokio_postgres::Error| Stop::Failed(store_error(&error));
    let asked_ms = shared.time.local_ms();
    session.client().batch_execute(HASTY).await.map_err(failed)?;
    let head = session.query(meta::HEAD, &[]).await.map_err(failed)?;
    let head = head.first().ok_or_else(|| Stop::Failed(StoreError::Corrupt("no meta".into())))?;
    let (meta, reading) = meta::read_head(head).map_err(Stop::Failed)?;
    if shared.is_elsewhere(&reading) {
        let another = "the server is not the one that was looked at";
        return Err(Stop::Failed(StoreError::Unavailable(another.into())));
    }
    let (boot, epoch, quarantine) = (meta.boot, meta.epoch, meta.quarantine);
    let tables = reading.tables.clone();
    if !shared.follow(meta, &reading, asked_ms) {
        session.client().batch_execute("ROLLBACK").await.map_err(failed)?;
        return Err(Stop::Replaced);
    }
    let rows = match which {
        Which::Of(namespaces, actions) => {
            let params: [Param<'_>; 3] = [
                (&namespaces, Type::TEXT_ARRAY),
                (&actions, Type::TEXT_ARRAY),
                (&ROWS_MAX, Type::INT8),
            ];
            session.query(TAKE, &params).await
        }
        Which::One(id) => session.query(TAKE_ONE, &[(&id, Type::INT8)]).await,
    };
    let rows = rows.map_err(failed)?;
    let taken = rows.iter().map(|row| {
        let row = outbox_row(row)?;
        let address = row.address();
        Ok((row, address))
    });
    let taken = taken.collect::<Result<_, StoreError>>().map_err(Stop::Failed)?;
    Ok(Hand { taken, ground: Ground { epoch, quarantine, ..shared.ground() }, boot, tables })
}

/// What becomes of the rows of a batch.
#[derive(Default)]
struct Sorted {
    planned: Vec<Effect>,
    same: Vec<Address>,
    gone: Vec<i64>,
    refused: Vec<(i64, String, String)>,
}

/// Judges the rows in order, each on what those before it left.
fn sort(
    rows: &mut Rows,
    taken: &[Taken],
    judge: Judge<'_>,
    ground: &Ground,
    veil: &Veil,
) -> Result<Sorted, StoreError> {
    let mut sorted = Sorted::default();
    for (row, address) in taken {
        let verdict = match address {
            Ok(address) => {
                let namespace = address.namespace.as_str();
                let read = |row: &Row| read_record(veil, namespace, &row.record, row.sum);
                let stored = rows.newest(address).map(read).transpose();
                match Unreadable::set_aside(stored, namespace, || address.to_string())? {
                    Ok(stored) => judge(row, address, stored.as_ref(), ground),
                    // Nothing is sent on a guess, and the others do not wait for it.
                    Err(Unreadable { code, why, .. }) => {
                        Verdict::Refuse(code, format!("the effect cannot be read: {why}"))
                    }
                }
            }
            Err((code, text)) => Verdict::Refuse(*code, text.clone()),
        };
        match verdict {
            Verdict::Plan(effect) => {
                let covered = match veil.cover_row(Row::new(&effect, &ground.now)) {
                    Ok(covered) => covered,
                    // Of this one alone: the others must not wait for it.
                    Err(error @ StoreError::SecretExposed(_)) => {
                        sorted.refused.push((row.id, error.code().to_string(), error.to_string()));
                        continue;
                    }
                    Err(error) => return Err(error),
                };
                let is_first = covered.version == 1;
                let write = if is_first { Write::Insert(covered) } else { Write::Update(covered) };
                if !matches!(rows.apply(&[write], ground), Applied::Written) {
                    let text = "an effect was planned that does not follow the stored one";
                    return Err(StoreError::Corrupt(text.into()));
                }
                sorted.planned.push(*effect);
                sorted.gone.push(row.id);
            }
            Verdict::Same => {
                sorted.same.extend(address.iter().cloned());
                sorted.gone.push(row.id);
            }
            Verdict::Refuse(code, text) => {
                sorted.refused.push((row.id, code.as_str().to_owned(), text));
            }
        }
    }
    Ok(sorted)
}

impl OutboxRow {
    /// The effect it names. The table may hold what `semel.intend` would have refused.
    fn address(&self) -> Result<Address, (Code, String)> {
        let name = |error: semel_core::key::NameInvalid| (Code::NameInvalid, error.to_string());
        Ok(Address {
            namespace: Namespace::new(&self.namespace).map_err(name)?,
            action: Action::new(&self.action).map_err(name)?,
            key: Key::parse(&self.key).map_err(|error| (Code::KeyInvalid, error.to_string()))?,
        })
    }
}

fn outbox_row(row: &SqlRow) -> Result<OutboxRow, StoreError> {
    let refused = get::<Option<String>>(row, 7)?;
    let text = get::<Option<String>>(row, 8)?.unwrap_or_default();
    Ok(OutboxRow {
        id: get(row, 0)?,
        namespace: get(row, 1)?,
        action: get(row, 2)?,
        key: get(row, 3)?,
        input: get(row, 4)?,
        workflow: get(row, 5)?,
        created: Wall(get(row, 6)?),
        refused: refused.map(|code| Refused { code, text }),
    })
}
