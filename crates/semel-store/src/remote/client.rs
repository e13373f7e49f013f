//! One request and its answer, over connections that are kept. What matters of a failure is whether
//! the request may have arrived.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::body::{Body, Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use semel_core::limits;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::address::ServerAddress;
use super::hint::hinted;
use crate::StoreError;

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(5);
/// Requests of one process on their way at once, beside the one that waits for news.
const REQUESTS_MAX: usize = 32;
/// Connections that are kept for the next request.
const IDLE_MAX: usize = REQUESTS_MAX + 1;
/// An answer: a page of the largest rows that are likely. Beyond it the server is not believed.
const ANSWER_BYTES_MAX: usize = 4 * limits::WORKER_BODY_BYTES_MAX;

pub(super) struct Client {
    pub(super) address: ServerAddress,
    tls: Option<Arc<ClientConfig>>,
    idle: Mutex<Vec<SendRequest<String>>>,
    slots: Semaphore,
}

/// What the server said.
pub(super) struct Said {
    pub(super) status: u16,
    pub(super) retry_after: Option<Duration>,
    pub(super) body: Vec<u8>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Lost {
    /// Nothing has left that could be acted on.
    NeverSent(String),
    /// It may have arrived.
    Perhaps(String),
}

impl Client {
    pub(super) fn new(address: ServerAddress) -> Result<Client, StoreError> {
        let tls = address.is_tls.then(trusting_the_system).transpose()?;
        let slots = Semaphore::new(REQUESTS_MAX);
        Ok(Client { address, tls, idle: Mutex::default(), slots })
    }

    /// Sends a request when it is its turn. One without a body is a GET.
    pub(super) async fn send(
        &self,
        path: &str,
        body: Option<String>,
        patience: Duration,
    ) -> Result<Said, Lost> {
        let slot = timeout(patience, self.slots.acquire()).await;
        let Ok(Ok(_slot)) = slot else {
            return Err(Lost::NeverSent("too many requests are on their way".into()));
        };
        self.send_beside(path, body, patience).await
    }

    /// The same without waiting for a turn: for a question that the server holds open.
    pub(super) async fn send_beside(
        &self,
        path: &str,
        body: Option<String>,
        patience: Duration,
    ) -> Result<Said, Lost> {
        let request = self.request(path, body)?;
        let mut sender = match self.kept().await {
            Some(sender) => sender,
            None => self.connect().await?,
        };
        let answered = timeout(patience, answer(&mut sender, request)).await;
        let said = match answered {
            Ok(said) => said?,
            Err(_) => return Err(Lost::Perhaps("no answer in time".into())),
        };
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_MAX {
            idle.push(sender);
        }
        Ok(said)
    }

    /// A connection that is still open, the one that was used last.
    async fn kept(&self) -> Option<SendRequest<String>> {
        loop {
            let mut sender = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
            if sender.ready().await.is_ok() {
                return Some(sender);
            }
        }
    }

    fn request(&self, path: &str, body: Option<String>) -> Result<Request<String>, Lost> {
        let method = if body.is_some() { "POST" } else { "GET" };
        let body = body.unwrap_or_default();
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.address.path))
            .header("host", self.address.host_header())
            .header("content-type", "application/json")
            .header("content-length", body.len())
            .header("user-agent", concat!("semel/", env!("CARGO_PKG_VERSION")));
        if let Some(token) = &self.address.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        request.body(body).map_err(|error| Lost::NeverSent(error.to_string()))
    }

    async fn connect(&self) -> Result<SendRequest<String>, Lost> {
        let never = |text: String| Lost::NeverSent(format!("{}: {text}", self.address.shown()));
        let late = |_| never("no connection in time".into());
        let connect = TcpStream::connect((self.address.host.as_str(), self.address.port));
        let stream = timeout(CONNECT, connect).await.map_err(late)?;
        let stream = stream.map_err(|error| never(error.to_string()))?;
        // A request is written at once; waiting for more of it would only cost time.
        let _ = stream.set_nodelay(true);
        let Some(tls) = &self.tls else {
            return handshake(stream).await.map_err(|error| never(error.to_string()));
        };
        let name = ServerName::try_from(self.address.host.clone());
        let name = name.map_err(|error| never(error.to_string()))?;
        let greet = TlsConnector::from(tls.clone()).connect(name, stream);
        let stream = timeout(CONNECT, greet).await.map_err(late)?;
        let stream = stream.map_err(|error| never(hinted(&error.to_string())))?;
        handshake(stream).await.map_err(|error| never(error.to_string()))
    }
}

async fn handshake<S>(stream: S) -> Result<SendRequest<String>, hyper::Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // Ends when the connection is closed, by the server or because nobody keeps it.
    tokio::spawn(connection);
    Ok(sender)
}

async fn answer(sender: &mut SendRequest<String>, request: Request<String>) -> Result<Said, Lost> {
    let perhaps = |error: hyper::Error| Lost::Perhaps(error.to_string());
    let response = sender.try_send_request(request).await.map_err(|mut error| {
        // The connection closed before it took the request.
        match error.take_message() {
            Some(_) => Lost::NeverSent(hinted(&error.into_error().to_string())),
            None => Lost::Perhaps(hinted(&error.into_error().to_string())),
        }
    })?;
    let status = response.status().as_u16();
    let retry_after = retry_after(&response);
    let body = collect(response.into_body()).await.map_err(perhaps)?;
    let body = body.ok_or_else(|| Lost::Perhaps("the answer is too large".into()))?;
    Ok(Said { status, retry_after, body })
}

/// In seconds, or in our own milliseconds where the server is that exact.
fn retry_after(response: &Response<Incoming>) -> Option<Duration> {
    let header = |name: &str| response.headers().get(name)?.to_str().ok()?.trim().parse().ok();
    let ms = header("retry-after-ms").map(Duration::from_millis);
    ms.or_else(|| header("retry-after").map(Duration::from_secs))
}

/// The whole body; `None` for one that is larger than any answer.
async fn collect(mut body: Incoming) -> Result<Option<Vec<u8>>, hyper::Error> {
    let mut whole = Vec::new();
    while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let data: Bytes = frame?.into_data().unwrap_or_default();
        if whole.len() + data.len() > ANSWER_BYTES_MAX {
            return Ok(None);
        }
        whole.extend_from_slice(&data);
    }
    Ok(Some(whole))
}

fn trusting_the_system() -> Result<Arc<ClientConfig>, StoreError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| StoreError::Unavailable(format!("TLS: {error}")))?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}
