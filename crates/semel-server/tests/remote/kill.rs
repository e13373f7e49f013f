//! Workers without a store of their own, killed in the middle: their leases end by time, others go
//! on, and nothing is done under a second key. A worker is this very program, asked to run the
//! ignored test `a_worker`.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use semel::{Context, Error, Failure, NativeKey, Semel};

use crate::served::Served;

const SERVER: &str = "SEMEL_TEST_SERVER";
const OUTSIDE: &str = "SEMEL_TEST_OUTSIDE";
const RUNS: u32 = 8;

/// Not a test: what the other test starts as a process of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "started by the other test as a process of its own"]
async fn a_worker() {
    let (Ok(url), Ok(outside)) = (std::env::var(SERVER), std::env::var(OUTSIDE)) else { return };
    let semel = Semel::open(&url).await.expect("the server answers");
    semel.engine().set_run_lease_ms(1_000).expect("a lease");
    let outside = PathBuf::from(outside);
    let flow = move |ctx: Context, number: u32| mail(ctx, number, outside.clone());
    let working = semel.worker().workflow("mail", flow).start().expect("a worker");
    std::future::pending::<()>().await;
    drop(working);
}

/// Three mails with steps between them; the destination knows a mail by its key.
async fn mail(ctx: Context, number: u32, outside: PathBuf) -> Result<u32, Error> {
    for part in 0..3_u32 {
        let step = ctx.step("think", || async {
            tokio::time::sleep(Duration::from_millis(40)).await;
            Ok::<_, Failure>(1)
        });
        step.await?;
        let outside = outside.clone();
        let effect = ctx.effect("mail").key([number.to_string(), part.to_string()]);
        let effect = effect.contract(NativeKey::hours(1)).lease(Duration::from_secs(1));
        let sent = effect.call(move |intent| {
            let mail = outside.join(intent.downstream_key());
            async move {
                std::fs::write(mail, "mail").map_err(Failure::unknown)?;
                // Killed here, nobody knows that it was sent.
                tokio::time::sleep(Duration::from_millis(40)).await;
                Ok::<_, Failure>(1)
            }
        });
        sent.await?;
    }
    Ok(number)
}

struct Worker(Child);

impl Worker {
    fn start(url: &str, outside: &Path) -> Worker {
        let program = std::env::current_exe().expect("this program");
        let mut command = Command::new(program);
        command.args(["--ignored", "--exact", "kill::a_worker", "--nocapture"]);
        command.env(SERVER, url).env(OUTSIDE, outside);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Worker(command.spawn().expect("a worker starts"))
    }
}

/// SIGKILL: nothing of the process runs any more.
impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i1_workers_that_are_killed_leave_nothing_undone_and_nothing_doubled() {
    let folder = tempfile::tempdir().expect("a folder");
    let outside = folder.path().join("outside");
    std::fs::create_dir(&outside).expect("a folder");
    let served = Served::start(&format!("sqlite:{}/semel.db", folder.path().display())).await;
    let semel = Semel::open(&served.url).await.expect("the server answers");
    let mails = || std::fs::read_dir(&outside).expect("a folder").count();
    let mut worker = Worker::start(&served.url, &outside);
    // A release is known when a worker has offered it.
    let began = Instant::now();
    while semel.start("mail").key("0").input(&0_u32).run().await.is_err() {
        assert!(began.elapsed() < Duration::from_secs(20), "no worker came");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for number in 1..RUNS {
        let start = semel.start("mail").key(number.to_string()).input(&number);
        start.run().await.expect("it starts");
    }
    let mut deaths = 0;
    for stage in [2, 9, 16] {
        while mails() < stage {
            assert!(began.elapsed() < Duration::from_secs(40), "{} mails", mails());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        drop(worker);
        deaths += 1;
        worker = Worker::start(&served.url, &outside);
    }
    for number in 0..RUNS {
        let start = semel.start("mail").key(number.to_string()).input(&number);
        let run = start.run().await.expect("it is there");
        assert_eq!(run.result::<u32>().await.expect("done"), number);
    }
    assert_eq!((mails(), deaths), (3 * RUNS as usize, 3), "each mail has one key");
    let effects = semel.engine().list(&semel_store::Query::everywhere(100)).await.expect("a page");
    let resent = effects.effects.iter().filter(|effect| effect.attempts.len() > 1).count();
    assert!(resent > 0, "the kills hit nobody in the middle");
}
