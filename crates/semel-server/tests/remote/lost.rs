//! Answers to commits are lost, connections break, servers restart: nothing happens twice and
//! nothing acknowledged is lost.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use semel::{Context, Contract, Failure, Semel};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::common::Count;
use crate::served::Served;

/// A wire that loses the answer of every so manieth commit: it arrives and is done.
struct Wire {
    url: String,
    lost: Arc<AtomicU32>,
}

impl Wire {
    async fn before(served: &Served, every: u32) -> Wire {
        let to: SocketAddr = served.url.trim_start_matches("http://").parse().expect("an address");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let (seen, lost) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let counted = lost.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(to).await.expect("the server listens");
                tokio::spawn(carry(client, server, (seen.clone(), counted.clone()), every));
            }
        });
        Wire { url, lost }
    }
}

async fn carry(
    mut client: TcpStream,
    mut server: TcpStream,
    (seen, lost): (Arc<AtomicU32>, Arc<AtomicU32>),
    every: u32,
) {
    let (mut up, mut down) = (vec![0; 65_536], vec![0; 65_536]);
    let mut is_doomed = false;
    loop {
        tokio::select! {
            read = client.read(&mut up) => {
                let Ok(count @ 1..) = read else { return };
                let is_commit = up[..count].starts_with(b"POST /v1/worker/commit");
                if is_commit && seen.fetch_add(1, Ordering::SeqCst) % every == every - 1 {
                    is_doomed = true;
                }
                if server.write_all(&up[..count]).await.is_err() { return }
            }
            read = server.read(&mut down) => {
                let Ok(count @ 1..) = read else { return };
                if is_doomed {
                    lost.fetch_add(1, Ordering::SeqCst);
                    return;
                }
                if client.write_all(&down[..count]).await.is_err() { return }
            }
        }
    }
}

/// Sends a mail between two steps, under the contract that forgives nothing.
fn mailing(sent: &Count) -> impl Fn(Context, u32) -> MailingRun + Clone + Send + Sync + 'static {
    let sent = sent.clone();
    move |ctx: Context, number: u32| -> MailingRun {
        let sent = sent.clone();
        Box::pin(async move {
            let first = ctx.step("first", move || async move { Ok(number + 1) }).await?;
            let mail = ctx.effect("mail").key([number.to_string()]).contract(Contract::AtMostOnce);
            mail.call(move |_| {
                sent.up();
                async move { Ok::<_, Failure>("sent".to_owned()) }
            })
            .await
            .map(|_: String| ())?;
            ctx.step("last", move || async move { Ok(first + 1) }).await
        })
    }
}

type MailingRun = std::pin::Pin<Box<dyn Future<Output = Result<u32, semel::Error>> + Send>>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i9_a_lost_answer_to_a_commit_is_repeated_and_nothing_happens_twice() {
    let folder = tempfile::tempdir().expect("a folder");
    let served = Served::start(&format!("sqlite:{}/semel.db", folder.path().display())).await;
    let wire = Wire::before(&served, 3).await;
    let semel = Semel::open(&wire.url).await.expect("the server answers");
    let sent = Count::default();
    semel.worker().workflow("mailing", mailing(&sent)).start().unwrap();
    let runs = (0..12_u32).map(|number| {
        let semel = semel.clone();
        async move {
            let start = semel.start("mailing").key(number.to_string()).input(&number);
            let run = start.run().await.expect("it starts");
            run.result::<u32>().await
        }
    });
    let results = futures_util::future::join_all(runs).await;
    let wanted: Vec<u32> = (0..12).map(|number| number + 2).collect();
    let results: Vec<u32> = results.into_iter().map(|result| result.expect("done")).collect();
    assert_eq!(results, wanted);
    assert_eq!(sent.get(), 12, "each mail once");
    assert!(wire.lost.load(Ordering::SeqCst) > 5, "answers were lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_rides_out_a_server_that_is_away_and_goes_on_at_the_next() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite:{}/semel.db", folder.path().display());
    let first = Served::start(&url).await;
    let address: SocketAddr = first.url.trim_start_matches("http://").parse().expect("an address");
    let semel = Semel::open(&first.url).await.expect("the server answers");
    let (gone, may_go) = (Arc::new(tokio::sync::Notify::new()), Count::default());
    let (wait, stepped) = (gone.clone(), may_go.clone());
    let flow = move |ctx: Context, (): ()| {
        let (wait, stepped) = (wait.clone(), stepped.clone());
        async move {
            ctx.step("while it is away", move || {
                let (wait, stepped) = (wait.clone(), stepped.clone());
                async move {
                    stepped.up();
                    wait.notified().await;
                    Ok(())
                }
            })
            .await?;
            ctx.step("after", || async { Ok(7) }).await
        }
    };
    semel.worker().workflow("flow", flow).start().unwrap();
    let run = semel.start("flow").key("k").input(&()).run().await.expect("it starts");
    while may_go.get() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    first.stop().await;
    gone.notify_one();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let _second = Served::at(&url, address).await;
    assert_eq!(run.result::<u32>().await.expect("done"), 7);
    assert_eq!(may_go.get(), 1, "the step was not done again");
}
