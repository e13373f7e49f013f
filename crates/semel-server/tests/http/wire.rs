//! Requests written by hand, where it matters what is sent when, and over which connection.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::door::Door;

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(20);

/// The host and port of a server.
pub(crate) fn address(door: &Door) -> String {
    door.url.split_once("://").unwrap().1.to_owned()
}

pub(crate) async fn connect(door: &Door) -> TcpStream {
    TcpStream::connect(address(door)).await.unwrap()
}

/// A request that asks for something, without its last line: the server waits for more.
pub(crate) fn unfinished(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n")
}

pub(crate) async fn write(socket: &mut (impl AsyncWrite + Unpin), text: &str) {
    socket.write_all(text.as_bytes()).await.unwrap();
    socket.flush().await.unwrap();
}

/// What is said until the connection ends.
pub(crate) async fn read(socket: &mut (impl AsyncRead + Unpin)) -> String {
    let mut said = Vec::new();
    // One that is reset has ended, too.
    let reading = tokio::time::timeout(LONG, socket.read_to_end(&mut said)).await;
    let _ = reading.expect("the connection ends");
    String::from_utf8_lossy(&said).into_owned()
}

/// The status of an answer.
pub(crate) fn status(said: &str) -> u16 {
    said.split(' ').nth(1).unwrap_or_default().parse().unwrap_or_else(|_| panic!("{said:?}"))
}

pub(crate) fn body(said: &str) -> Value {
    let body = said.split_once("\r\n\r\n").map(|(_, body)| body).unwrap_or_default();
    serde_json::from_str(body).unwrap_or_else(|_| panic!("{said:?}"))
}
