//! Waits on Postgres.

use crate::kit::Ledger;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i13_on_postgres_a_wait_counts_from_when_the_code_asks_for_it() {
    let ledger = Ledger::new().await;
    crate::asked::a_wait_counts_from_when_the_code_asks(&ledger.open().await).await;
}
