//! Hints: LISTEN and NOTIFY. Everything is right without them, a second later at most.
//!
//! A notification is never part of a group: Postgres lets only one transaction with one commit at
//! a time. It goes out behind the commit, for many groups at once, and is not waited for on disk.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::poll_fn;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::types::Type;
use tokio_postgres::{AsyncMessage, NoTls, Socket};

use super::address::{PgAddress, Tls};
use super::connect::{Door, in_time, tls};
use super::{meta, store_error};
use crate::StoreError;

/// At most so often one process notifies the others.
const RING_EVERY: Duration = Duration::from_millis(20);
/// How long to wait before another try to listen.
const AGAIN: Duration = Duration::from_secs(1);
/// How often the time of the latest commits is written down.
const HIGH_EVERY_MS: i64 = 5_000;

pub(super) struct Hints {
    changes: Arc<watch::Sender<u64>>,
    bell: Arc<Notify>,
    tasks: Vec<JoinHandle<()>>,
}

impl Hints {
    pub(super) fn start(address: &PgAddress, door: Door) -> Hints {
        let (changes, _) = watch::channel(0);
        let changes = Arc::new(changes);
        let bell = Arc::new(Notify::new());
        let mut tasks = vec![tokio::spawn(ring(door, bell.clone(), changes.clone()))];
        // A pooler in transaction mode gives nobody a connection to listen on.
        if !address.unnamed {
            tasks.push(tokio::spawn(listen(address.clone(), changes.clone())));
        }
        Hints { changes, bell, tasks }
    }

    /// Rung when something was committed that others may wait for.
    pub(super) fn bell(&self) -> Arc<Notify> {
        self.bell.clone()
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    pub(super) fn stop(&self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

const NOTIFY: &str = "SELECT pg_notify($1, '')";

/// Tells the other processes. Whatever fails here is found by their polls.
async fn ring(door: Door, bell: Arc<Notify>, changes: Arc<watch::Sender<u64>>) {
    let mut high_ms = 0;
    loop {
        bell.notified().await;
        changes.send_modify(|count| *count += 1);
        let wall_ms = door.shared.ground().now.wall.0;
        let is_high = wall_ms - high_ms >= HIGH_EVERY_MS;
        match notify(&door, is_high.then_some(wall_ms)).await {
            Ok(()) if is_high => high_ms = wall_ms,
            Ok(()) => {}
            Err(error) => tracing::debug!(%error, "other workers were not notified"),
        }
        tokio::time::sleep(RING_EVERY).await;
    }
}

async fn notify(door: &Door, high_ms: Option<i64>) -> Result<(), StoreError> {
    let session = door.enter().await?;
    let channel = channel(&door.shared.schema);
    session.hold();
    let sent = async {
        let client = session.client();
        client.batch_execute("BEGIN; SET LOCAL synchronous_commit = off").await?;
        session.query(NOTIFY, &[(&channel, Type::TEXT)]).await?;
        if let Some(high_ms) = high_ms {
            let known = session.meta();
            let tables = known.tables();
            session.query(meta::HIGH, &[(&high_ms, Type::INT8), (&tables, Type::TEXT)]).await?;
        }
        client.batch_execute("COMMIT").await
    };
    let sent: Result<(), tokio_postgres::Error> = in_time(sent).await?;
    sent.map_err(|error| store_error(&error))?;
    session.release();
    Ok(())
}

fn channel(schema: &str) -> String {
    format!("semel_{schema}")
}

/// Listens for as long as the store is open, on a connection of its own.
async fn listen(address: PgAddress, changes: Arc<watch::Sender<u64>>) {
    loop {
        let ended = match &address.tls {
            Tls::Off => hear(&address, NoTls, &changes).await,
            Tls::Checked { roots } => match tls(roots.as_deref()) {
                Ok(tls) => hear(&address, tls, &changes).await,
                Err(error) => Err(error),
            },
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "nothing is heard from other workers for a while");
        }
        tokio::time::sleep(AGAIN).await;
    }
}

async fn hear<T>(
    address: &PgAddress,
    tls: T,
    changes: &watch::Sender<u64>,
) -> Result<(), StoreError>
where
    T: MakeTlsConnect<Socket>,
    T::Stream: Send,
    T::TlsConnect: TlsConnect<Socket, Stream = T::Stream> + Send,
    <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
{
    let failed = |error: tokio_postgres::Error| store_error(&error);
    let (client, mut connection) = address.config.connect(tls).await.map_err(failed)?;
    let text = format!("LISTEN {}", channel(&address.schema));
    let mut asking = std::pin::pin!(client.batch_execute(&text));
    let mut is_asked = false;
    // The connection is driven by whoever polls it: the answer to LISTEN, then notifications.
    poll_fn(|context| {
        if !is_asked && asking.as_mut().poll(context).is_ready() {
            is_asked = true;
        }
        while let std::task::Poll::Ready(message) = connection.poll_message(context) {
            match message {
                Some(Ok(AsyncMessage::Notification(_))) => {
                    changes.send_modify(|count| *count += 1);
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return std::task::Poll::Ready(Err(failed(error))),
                None => return std::task::Poll::Ready(Ok(())),
            }
        }
        if !is_asked && asking.as_mut().poll(context).is_ready() {
            is_asked = true;
        }
        std::task::Poll::Pending
    })
    .await
}
