//! HTTP for one request. All of it happens while the attempt is polled, which looks at its deadline
//! before: a client with a task of its own would send for a process that was stopped meanwhile.

use semel::Failure;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(crate) struct Request<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: String,
    /// One more header, whole.
    pub(crate) header: String,
    pub(crate) body: Value,
}

/// The status and the body. Whatever is not a whole answer is unknown.
pub(crate) async fn ask(host: &str, request: &Request<'_>) -> Result<(u16, Value), Failure> {
    let body = match &request.body {
        Value::Null => String::new(),
        body => body.to_string(),
    };
    let text = format!(
        "{} {} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nx-worker: {}\r\n{}\r\n{body}",
        request.method,
        request.path,
        body.len(),
        std::process::id(),
        request.header,
    );
    let mut stream = TcpStream::connect(host).await.map_err(Failure::not_applied)?;
    stream.write_all(text.as_bytes()).await.map_err(Failure::unknown)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.map_err(Failure::unknown)?;
    let cut = || Failure::unknown("the answer was cut");
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(cut)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(cut)?;
    let body = serde_json::from_str(body).map_err(|_| cut())?;
    Ok((status, body))
}
