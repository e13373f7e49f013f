//! A relay between a worker and a destination, so that the worker can die between any two words on
//! the wire and its code needs no place to do so.

use std::sync::Arc;

use anyhow::Context;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use semel_check::rehearsal::Points;

/// Larger than any answer of the demo's servers: each arrives in one piece.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Starts a relay to `destination` and returns its own address.
pub(super) async fn start(
    name: &'static str,
    destination: String,
    points: Arc<Points>,
) -> anyhow::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await.context("a port for the relay")?;
    let address = listener.local_addr()?.to_string();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (destination, points) = (destination.clone(), points.clone());
            tokio::spawn(async move {
                // Nothing has left the process yet.
                points.pass(&[format!("before the call of {name}")]);
                let _ = pass_on(name, client, &destination, &points).await;
            });
        }
    });
    Ok(address)
}

async fn pass_on(
    name: &str,
    client: TcpStream,
    destination: &str,
    points: &Points,
) -> anyhow::Result<()> {
    let server = TcpStream::connect(destination).await?;
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let asks = async move {
        tokio::io::copy(&mut from_client, &mut to_server).await?;
        to_server.shutdown().await
    };
    let answers = async move {
        let mut buffer = vec![0; ANSWER_BYTES_MAX];
        for number in 1.. {
            let count = from_server.read(&mut buffer).await?;
            if count == 0 {
                break;
            }
            // The destination has answered; the code does not know it yet.
            points.pass(&[format!("after answer {number} of {name}")]);
            to_client.write_all(&buffer[..count]).await?;
        }
        to_client.shutdown().await
    };
    tokio::try_join!(asks, answers)?;
    Ok(())
}
