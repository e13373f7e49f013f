//! The worker process, and how tests start, stop and kill it.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use semel::{Context, Error, Failure, RunState, Semel};
use semel_core::journal::{Entry, decode};
use semel_store::RunQuery;

pub(crate) const STORE: &str = "SEMEL_TEST_STORE";

/// How long the timer of a `nap` runs: long enough to be parked and killed, and not all at once.
pub(crate) fn nap_ms(number: u32) -> u64 {
    20_000 + u64::from(number % 6_000)
}

/// Offers the workflows for ever: only a signal ends this process.
pub(crate) async fn work(url: &str) {
    let semel = Semel::open(url).await.expect("the store opens");
    let working = semel
        .worker()
        .workflow("nap", nap)
        .workflow("wait", wait)
        .workflow("steps", steps)
        .start()
        .expect("the names are valid");
    std::future::pending::<()>().await;
    drop(working);
}

async fn nap(ctx: Context, number: u32) -> Result<u32, Error> {
    ctx.sleep(Duration::from_millis(nap_ms(number))).await?;
    Ok(number)
}

async fn wait(ctx: Context, _: u32) -> Result<u32, Error> {
    ctx.wait_for_signal("go").await
}

/// Many short steps, each of which says which process ran it.
async fn steps(ctx: Context, count: u32) -> Result<u32, Error> {
    for _ in 0..count {
        let step = ctx.step("slow", || async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            Ok::<_, Failure>(std::process::id())
        });
        step.await?;
    }
    Ok(count)
}

/// A worker process. Killed when it is dropped.
pub(crate) struct Worker(Child);

impl Worker {
    pub(crate) fn start(url: &str) -> Worker {
        let program = std::env::current_exe().expect("this program");
        let mut command = Command::new(program);
        command.args(["--ignored", "--exact", "a_worker", "--nocapture"]);
        command.env(STORE, url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Worker(command.spawn().expect("a worker starts"))
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Sends a signal by its name, such as `STOP`.
    pub(crate) fn send(&self, signal: &str) {
        let mut kill = Command::new("kill");
        kill.args([&format!("-{signal}"), &self.id().to_string()]);
        assert!(kill.status().expect("kill runs").success(), "kill -{signal}");
    }

    /// SIGKILL: nothing of the process runs any more.
    pub(crate) fn kill(mut self) {
        self.0.kill().expect("it can be killed");
        self.0.wait().expect("it has ended");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// How many runs of a workflow are in a state.
pub(crate) async fn count(semel: &Semel, workflow: &str, state: RunState) -> usize {
    let mut query = RunQuery::everywhere(1_000);
    query.workflow = Some(workflow.to_owned());
    query.state = Some(state);
    let mut found = 0;
    loop {
        let page = semel.engine().runs(&query).await.expect("a page");
        found += page.runs.len();
        query.after = page.next;
        if page.next.is_none() {
            return found;
        }
    }
}

pub(crate) async fn until(what: &str, patience: Duration, mut is_so: impl AsyncFnMut() -> bool) {
    let began = std::time::Instant::now();
    while !is_so().await {
        assert!(began.elapsed() < patience, "not within {patience:?}: {what}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// The entries of a run, its chain checked.
pub(crate) async fn journal(semel: &Semel, run: &semel::Run) -> Vec<Entry> {
    let journal = semel.engine().journal(run).await.expect("one clean chain");
    journal.iter().map(|inked| decode(&inked.text).expect("an entry")).collect()
}
