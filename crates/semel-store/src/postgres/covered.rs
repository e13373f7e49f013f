//! Encrypted texts on Postgres: whose keys they need, on the way in and when a store is opened.

use async_trait::async_trait;
use tokio_postgres::types::Type;

use super::connect::Door;
use super::load::get;
use super::rows::{read, sql_limit};
use super::run_rows::{JOURNAL, inked};
use super::wire::Param;
use super::{Postgres, Shared};
use crate::upkeep::RawJournal;
use crate::{Batch, Inked, StoreError};

/// The beginning of a text of each table that may be encrypted. The newest, where that is known:
/// older ones may be of a time before the keys.
const NEWEST_TEXTS: &str = "\
     (SELECT left(record, 200) FROM semel.effects ORDER BY row DESC LIMIT 1) \
     UNION ALL (SELECT left(record, 200) FROM semel.runs ORDER BY number DESC LIMIT 1) \
     UNION ALL (SELECT left(entry, 200) FROM semel.journal ORDER BY run DESC, seq DESC LIMIT 1) \
     UNION ALL (SELECT left(record, 200) FROM semel.cards LIMIT 1)";

/// Refuses a store whose keys are not here.
pub(super) async fn check(door: &Door) -> Result<(), StoreError> {
    let newest = read(door, NEWEST_TEXTS, &[]).await?;
    let newest: Result<Vec<String>, _> = newest.iter().map(|row| get(row, 0)).collect();
    door.shared.veil.check(&newest?)
}

/// Whose runs they are.
const NAMESPACES: &str =
    "SELECT number, namespace FROM semel.runs WHERE number = ANY($1::bigint[])";

#[async_trait]
impl RawJournal for Postgres {
    async fn raw_journal(
        &self,
        run: i64,
        from: u64,
        limit: usize,
    ) -> Result<Vec<Inked>, StoreError> {
        // A place beyond Postgres' numbers is beyond every journal.
        let Ok(from) = i64::try_from(from) else { return Ok(Vec::new()) };
        let limit = sql_limit(limit);
        let params: [Param<'_>; 3] =
            [(&run, Type::INT8), (&from, Type::INT8), (&limit, Type::INT8)];
        read(&self.door, JOURNAL, &params).await?.iter().map(inked).collect()
    }
}

impl Postgres {
    pub(super) fn shared(&self) -> &Shared {
        &self.door.shared
    }

    /// Covers a batch: the runs that it speaks of are looked up where nobody knows whose they are.
    pub(super) async fn cover(&self, batch: Batch) -> Result<Batch, StoreError> {
        let veil = &self.shared().veil;
        let unknown = veil.unknown_runs(&batch);
        if !unknown.is_empty() {
            for row in &read(&self.door, NAMESPACES, &[(&unknown, Type::INT8_ARRAY)]).await? {
                veil.learn(get(row, 0)?, get(row, 1)?);
            }
        }
        veil.cover(batch)
    }
}
