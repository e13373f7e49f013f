//! Requests over connections of our own: each request has one, so that no pool sends again on its
//! own, and an answer can be cut by closing before it is read.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::client::conn::http1;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use url::Url;

use super::Trouble;

/// How long a connection or an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);
const BODY_BYTES_MAX: usize = 4 << 20;

/// What is sent.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) method: String,
    pub(super) url: Url,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: String,
}

/// What came back.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

pub(super) struct Client {
    tls: Arc<ClientConfig>,
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

impl Client {
    /// Trusts whom the system trusts.
    pub(super) fn new() -> Result<Client, Trouble> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Trouble::Unreachable(error.to_string()))?;
        let config = config.with_root_certificates(roots).with_no_client_auth();
        Ok(Client { tls: Arc::new(config) })
    }

    /// Sends and reads the answer. None: the connection ended without one.
    pub(super) async fn send(&self, message: &Message) -> Result<Option<Reply>, Trouble> {
        let request = message.request()?;
        let stream = self.connect(&message.url).await?;
        let handshake = http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.map_err(unreachable)?;
        let connection = tokio::spawn(connection);
        let answered = timeout(PATIENCE, async {
            let response = sender.send_request(request).await.ok()?;
            read(response).await
        });
        let answered = answered.await.ok().flatten();
        connection.abort();
        Ok(answered)
    }

    /// Sends all of it, and closes before a byte of the answer is read.
    pub(super) async fn send_and_leave(&self, message: &Message) -> Result<(), Trouble> {
        let mut stream = self.connect(&message.url).await?;
        let sent = async {
            stream.write_all(message.wire().as_bytes()).await?;
            stream.flush().await
        };
        timeout(PATIENCE, sent).await.map_err(unreachable)?.map_err(unreachable)
    }

    async fn connect(&self, url: &Url) -> Result<Box<dyn Stream>, Trouble> {
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let port = url.port_or_known_default().unwrap_or(443);
        let connect = TcpStream::connect((host.as_str(), port));
        let stream = timeout(PATIENCE, connect).await.map_err(unreachable)?.map_err(unreachable)?;
        let _ = stream.set_nodelay(true);
        if url.scheme() != "https" {
            return Ok(Box::new(stream));
        }
        let name = ServerName::try_from(host).map_err(unreachable)?;
        let greet = TlsConnector::from(self.tls.clone()).connect(name, stream);
        let stream = timeout(PATIENCE, greet).await.map_err(unreachable)?.map_err(unreachable)?;
        Ok(Box::new(stream))
    }
}

impl Message {
    fn request(&self) -> Result<Request<String>, Trouble> {
        let mut request = Request::builder().method(self.method.as_str()).uri(self.target());
        for (name, value) in self.all_headers() {
            request = request.header(name, value);
        }
        request.body(self.body.clone()).map_err(|error| Trouble::Usage(error.to_string()))
    }

    /// The same as bytes, for a request whose answer nobody waits for.
    fn wire(&self) -> String {
        let mut text = format!("{} {} HTTP/1.1\r\n", self.method, self.target());
        for (name, value) in self.all_headers() {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("\r\n");
        text.push_str(&self.body);
        text
    }

    fn target(&self) -> String {
        match self.url.query() {
            None => self.url.path().to_owned(),
            Some(query) => format!("{}?{query}", self.url.path()),
        }
    }

    fn all_headers(&self) -> Vec<(String, String)> {
        let host = self.url.host_str().unwrap_or_default();
        let host = match self.url.port() {
            None => host.to_owned(),
            Some(port) => format!("{host}:{port}"),
        };
        let mut all = vec![
            ("host".to_owned(), host),
            ("user-agent".to_owned(), concat!("semel/", env!("CARGO_PKG_VERSION")).to_owned()),
            ("content-length".to_owned(), self.body.len().to_string()),
        ];
        all.extend(self.headers.iter().cloned());
        all
    }
}

async fn read(response: Response<Incoming>) -> Option<Reply> {
    let status = response.status().as_u16();
    let mut body = Vec::new();
    let mut incoming = std::pin::pin!(response.into_body());
    while let Some(frame) = std::future::poll_fn(|cx| incoming.as_mut().poll_frame(cx)).await {
        // An answer that breaks off in the middle is none.
        if let Ok(data) = frame.ok()?.into_data() {
            body.extend_from_slice(&data);
        }
        if body.len() > BODY_BYTES_MAX {
            return None;
        }
    }
    Some(Reply { status, body })
}

fn unreachable(error: impl std::fmt::Display) -> Trouble {
    Trouble::Unreachable(error.to_string())
}
