//! A wire that tests may cut, slow down or close, in front of any server on this machine.

use std::collections::BTreeSet;
use std::net;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

use crate::cluster::{POLL, done, url};
use crate::messages::{Conversation, Fate, Messages, contains};

const CHUNK_BYTES: usize = 16 * 1024;

pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    /// Taken when dropped, which a test may do on a thread that must not block.
    runtime: Option<Runtime>,
}

struct Shared {
    target: AtomicU16,
    is_refusing: AtomicBool,
    delay_ms: AtomicU64,
    cuts: AtomicU64,
    trap: Mutex<Option<Trap>>,
    open: Mutex<BTreeSet<u64>>,
    /// Counts the calls to cut everything.
    cut_all: watch::Sender<u64>,
}

/// Waits for a request that runs the marker.
struct Trap {
    marker: Vec<u8>,
    place: Place,
}

#[derive(Clone, Copy)]
enum Place {
    BeforeRequest,
    BeforeAnswer,
}

/// Why a connection ended.
enum End {
    Closed,
    Cut,
}

impl Proxy {
    /// A free port of 127.0.0.1 that leads to the given one.
    #[must_use]
    pub fn start(port: u16) -> Proxy {
        done("starting a proxy", try_start(port))
    }

    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where a client connects when a cluster or a bouncer is behind.
    #[must_use]
    pub fn url(&self) -> String {
        url(self.port)
    }

    /// Back to a plain wire: nothing refused, delayed or waited for.
    pub fn pass(&self) {
        self.shared.is_refusing.store(false, Ordering::SeqCst);
        self.delay(0);
        *lock(&self.shared.trap) = None;
    }

    /// New connections lead to another port; those that are open stay.
    pub fn lead_to(&self, port: u16) {
        self.shared.target.store(port, Ordering::SeqCst);
    }

    /// New connections are reset at once; those that are open stay.
    pub fn refuse(&self) {
        self.shared.is_refusing.store(true, Ordering::SeqCst);
    }

    /// Resets all open connections, and returns when they are gone.
    pub fn cut_all(&self) {
        let doomed = lock(&self.shared.open).clone();
        self.shared.cut_all.send_modify(|count| *count += 1);
        while !lock(&self.shared.open).is_disjoint(&doomed) {
            sleep(POLL);
        }
    }

    /// The next request that runs a text with the marker in it arrives and is done, but its
    /// answer is swallowed and the connection reset. Holds for one request: a repetition passes.
    ///
    /// The text is that of a simple query, or of the statement and the values that an `Execute`
    /// runs; to prepare a statement is not yet to run it.
    pub fn cut_before_answer(&self, marker: &[u8]) {
        self.set_trap(marker, Place::BeforeAnswer);
    }

    /// The twin that a client cannot tell apart: the request does not arrive.
    pub fn cut_before_request(&self, marker: &[u8]) {
        self.set_trap(marker, Place::BeforeRequest);
    }

    /// Holds up whatever arrives by this long, in both directions.
    pub fn delay(&self, ms: u64) {
        self.shared.delay_ms.store(ms, Ordering::SeqCst);
    }

    /// How many connections were reset so far.
    #[must_use]
    pub fn cuts(&self) -> u64 {
        self.shared.cuts.load(Ordering::SeqCst)
    }

    fn set_trap(&self, marker: &[u8], place: Place) {
        *lock(&self.shared.trap) = Some(Trap { marker: marker.to_vec(), place });
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn try_start(target: u16) -> Result<Proxy> {
    let listener = net::TcpListener::bind(("127.0.0.1", 0)).context("taking a port")?;
    listener.set_nonblocking(true)?;
    let port = listener.local_addr()?.port();
    let shared = Arc::new(Shared {
        target: AtomicU16::new(target),
        is_refusing: AtomicBool::new(false),
        delay_ms: AtomicU64::new(0),
        cuts: AtomicU64::new(0),
        trap: Mutex::new(None),
        open: Mutex::new(BTreeSet::new()),
        cut_all: watch::channel(0).0,
    });
    // A thread of its own: a test that blocks its own threads does not block the wire.
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.spawn(accept(listener, Arc::clone(&shared)));
    Ok(Proxy { port, shared, runtime: Some(runtime) })
}

async fn accept(listener: net::TcpListener, shared: Arc<Shared>) {
    let listener = TcpListener::from_std(listener).expect("the runtime has a network driver");
    for number in 0.. {
        let Ok((client, _)) = listener.accept().await else { continue };
        if shared.is_refusing.load(Ordering::SeqCst) {
            shared.reset(client);
            continue;
        }
        // Both before the next connection, so that a call to cut all misses nobody.
        lock(&shared.open).insert(number);
        let cut = shared.cut_all.subscribe();
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            connect(client, cut, &shared).await;
            lock(&shared.open).remove(&number);
        });
    }
}

async fn connect(mut client: TcpStream, mut cut: watch::Receiver<u64>, shared: &Shared) {
    let target = shared.target.load(Ordering::SeqCst);
    let Ok(mut server) = TcpStream::connect(("127.0.0.1", target)).await else {
        return shared.reset(client);
    };
    // Best effort: without it the wire is slower, no more.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let conversation = Mutex::new(Conversation::default());
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let end = tokio::select! {
        end = requests(from_client, to_server, &conversation, shared) => end,
        end = answers(from_server, to_client, &conversation, shared) => end,
        _ = cut.changed() => Some(End::Cut),
    };
    match end {
        Some(End::Cut) => {
            let _ = server.set_zero_linger();
            shared.reset(client);
        }
        Some(End::Closed) | None => {}
    }
}

/// Carries what the client says. `None` when a side is gone.
async fn requests(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    conversation: &Mutex<Conversation>,
    shared: &Shared,
) -> Option<End> {
    let mut messages = Messages::default();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let count = from.read(&mut chunk).await.ok()?;
        if count == 0 {
            // It may still listen: the server ends the connection when it has said all.
            to.shutdown().await.ok()?;
            return std::future::pending().await;
        }
        shared.hold_up().await;
        messages.push(&chunk[..count]);
        loop {
            let form = lock(conversation).request_form();
            let Some(message) = messages.next(form) else { break };
            match shared.spring(&mut lock(conversation), &message) {
                Some(Place::BeforeRequest) => return Some(End::Cut),
                // The answers' side was told, and cuts when the server has answered.
                Some(Place::BeforeAnswer) | None => {}
            }
            to.write_all(&message).await.ok()?;
        }
    }
}

/// Carries what the server says. `None` when a side is gone.
async fn answers(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    conversation: &Mutex<Conversation>,
    shared: &Shared,
) -> Option<End> {
    let mut messages = Messages::default();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let count = from.read(&mut chunk).await.ok()?;
        if count == 0 {
            return Some(End::Closed);
        }
        shared.hold_up().await;
        messages.push(&chunk[..count]);
        loop {
            let form = lock(conversation).answer_form();
            let Some(message) = messages.next(form) else { break };
            let fate = lock(conversation).answer(&message, form);
            match fate {
                Fate::Deliver => to.write_all(&message).await.ok()?,
                Fate::Swallow => {}
                Fate::Cut => return Some(End::Cut),
            }
        }
    }
}

impl Shared {
    /// Notes a request; if it is the one waited for, takes the trap away and tells the place.
    fn spring(&self, conversation: &mut Conversation, message: &[u8]) -> Option<Place> {
        let run = conversation.request(message)?;
        let mut trap = lock(&self.trap);
        let sprung = trap.take_if(|trap| contains(&run, &trap.marker))?;
        match sprung.place {
            Place::BeforeRequest => {}
            Place::BeforeAnswer => conversation.withhold_answer(message),
        }
        Some(sprung.place)
    }

    async fn hold_up(&self) {
        let ms = self.delay_ms.load(Ordering::SeqCst);
        if ms > 0 {
            tokio::time::sleep(Duration::from_millis(ms)).await;
        }
    }

    fn reset(&self, client: TcpStream) {
        self.cuts.fetch_add(1, Ordering::SeqCst);
        // Closing with nothing to linger for sends a reset.
        let _ = client.set_zero_linger();
        drop(client);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Cluster;
    use crate::installation;

    /// Plays a script of pgbench, the one client at hand that prepares and pipelines.
    fn play(proxy: &Proxy, mode: &str, script: &str) -> bool {
        let path = std::env::temp_dir().join(format!("semel-lab-script-{}-{mode}", proxy.port()));
        std::fs::write(&path, script).unwrap();
        let pgbench = installation::folder().unwrap().join("pgbench");
        let mut command = std::process::Command::new(pgbench);
        command.args(["-n", "-t", "1", "-M", mode, "-f"]).arg(&path).arg(proxy.url());
        let output = command.output().unwrap();
        std::fs::remove_file(&path).unwrap();
        output.status.success()
    }

    #[test]
    fn clients_that_prepare_or_pipeline_lose_the_answer_and_not_the_commit() {
        let cluster = Cluster::start();
        cluster.psql("CREATE TABLE t (n int)");
        let proxy = Proxy::start(cluster.port());
        let insert = "BEGIN;\nINSERT INTO t VALUES (1);\nCOMMIT;\n";
        let pipeline = format!("\\startpipeline\n{insert}\\endpipeline\n");
        let mut rows = 0;
        for (mode, script) in [("extended", insert), ("prepared", insert), ("extended", &pipeline)]
        {
            proxy.cut_before_request(b"COMMIT");
            assert!(!play(&proxy, mode, script), "no answer came");
            assert_eq!(cluster.psql("SELECT count(*) FROM t"), rows.to_string(), "{mode}");

            proxy.cut_before_answer(b"COMMIT");
            assert!(!play(&proxy, mode, script), "no answer came");
            rows += 1;
            assert_eq!(cluster.psql("SELECT count(*) FROM t"), rows.to_string(), "{mode}");

            assert!(play(&proxy, mode, script), "the wire is whole again");
            rows += 1;
            assert_eq!(cluster.psql("SELECT count(*) FROM t"), rows.to_string(), "{mode}");
        }
        assert_eq!(proxy.cuts(), 6);
    }
}
