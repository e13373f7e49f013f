//! Encrypted texts on Postgres: whose keys they need, on the way in.

use async_trait::async_trait;
use tokio_postgres::types::Type;

use super::load::get;
use super::rows::{read, sql_limit};
use super::run_rows::{JOURNAL, inked};
use super::wire::Param;
use super::{Postgres, Shared};
use crate::upkeep::RawJournal;
use crate::{Batch, Inked, StoreError};

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
