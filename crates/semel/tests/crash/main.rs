//! Real processes on one file: killed, stopped and continued. A worker is this very program, asked
//! to run the ignored test `a_worker`.

mod timers;
mod worker;
mod zombie;

/// Not a test: what the other tests start as a process of its own.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "started by the other tests as a process of its own"]
async fn a_worker() {
    if let Ok(url) = std::env::var(worker::STORE) {
        worker::work(&url).await;
    }
}
