//! The way to a collector: one POST over a connection of its own, in a task of the server's
//! runtime. Spans are sent by a thread that has none.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::http::{HeaderValue, Request, Response, Uri, header};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use opentelemetry_http::{HttpClient, HttpError};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio_rustls::TlsConnector;

/// What a collector answers is short; more is not read.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

#[derive(Clone)]
pub(super) struct Collector {
    runtime: Handle,
    patience: Duration,
    tls: TlsConnector,
}

impl std::fmt::Debug for Collector {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Collector")
    }
}

impl Collector {
    pub(super) fn new(patience: Duration) -> Result<Collector, String> {
        let runtime = Handle::try_current().map_err(|error| error.to_string())?;
        let mut roots = rustls::RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Collector { runtime, patience, tls: TlsConnector::from(Arc::new(config)) })
    }

    async fn post(self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let uri = request.uri().clone();
        let host = uri.host().ok_or("the address of the collector has no host")?.to_owned();
        let is_tls = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let name = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let stream = TcpStream::connect((name.as_str(), port)).await?;
        if !is_tls {
            return speak(stream, request, &uri).await;
        }
        let stream = self.tls.connect(ServerName::try_from(name)?, stream).await?;
        speak(stream, request, &uri).await
    }
}

async fn speak(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    request: Request<Bytes>,
    uri: &Uri,
) -> Result<Response<Bytes>, HttpError> {
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let mut request = request.map(Full::new);
    let authority = uri.authority().map(|authority| authority.as_str()).unwrap_or_default();
    request.headers_mut().insert(header::HOST, HeaderValue::from_str(authority)?);
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    *request.uri_mut() = path.parse()?;
    let (head, body) = sender.send_request(request).await?.into_parts();
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await?.to_bytes();
    connection.abort();
    Ok(Response::from_parts(head, body))
}

#[async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let own = self.clone();
        // Spawned where there is a reactor; the thread that asks only waits for the word.
        let posting = async move { tokio::time::timeout(own.patience, own.post(request)).await };
        self.runtime.spawn(posting).await??
    }
}
