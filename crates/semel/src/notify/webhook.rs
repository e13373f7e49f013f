//! A POST of JSON with the headers of Standard Webhooks.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use hyper::Request;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use semel_engine::{Error, Intent};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use url::Url;

use super::{PATIENCE, invalid};
use crate::{Failure, classify};

#[derive(Clone)]
pub(super) struct Webhook {
    host: String,
    port: u16,
    /// The part after the host: it often is the secret itself.
    path: String,
    tls: Option<Arc<ClientConfig>>,
    secret: Option<Vec<u8>>,
}

impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let is_signed = self.secret.is_some();
        write!(f, "Webhook({}:{}, signed: {is_signed})", self.host, self.port)
    }
}

impl Webhook {
    pub(super) fn parse(url: &Url) -> Result<Webhook, Error> {
        let host = url.host_str().filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| invalid("it names no host"))?;
        let path = match url.query() {
            None => url.path().to_owned(),
            Some(query) => format!("{}?{query}", url.path()),
        };
        Ok(Webhook {
            host: host.trim_matches(['[', ']']).to_owned(),
            port: url.port_or_known_default().unwrap_or(443),
            path,
            tls: (url.scheme() == "https").then(tls).transpose()?,
            secret: None,
        })
    }

    pub(super) fn set_secret(&mut self, secret: &str) -> Result<(), Error> {
        let bytes = match secret.strip_prefix("whsec_") {
            Some(text) => STANDARD.decode(text).map_err(|_| invalid("the secret is no base64"))?,
            None => secret.as_bytes().to_vec(),
        };
        if bytes.is_empty() {
            return Err(invalid("the secret is empty"));
        }
        self.secret = Some(bytes);
        Ok(())
    }

    pub(super) async fn send(&self, intent: &Intent) -> Result<Value, Failure> {
        let request = self.request(intent)?;
        let late = |_| Failure::not_applied("no connection in time");
        let connect = TcpStream::connect((self.host.as_str(), self.port));
        // Before the request itself nothing has left that could be acted on.
        let stream = timeout(PATIENCE, connect).await.map_err(late)?;
        let stream = stream.map_err(Failure::not_applied)?;
        let Some(tls) = &self.tls else { return post(stream, request).await };
        let name = ServerName::try_from(self.host.clone()).map_err(Failure::not_applied)?;
        let greet = TlsConnector::from(tls.clone()).connect(name, stream);
        let stream = timeout(PATIENCE, greet).await.map_err(late)?;
        post(stream.map_err(Failure::not_applied)?, request).await
    }

    fn request(&self, intent: &Intent) -> Result<Request<String>, Failure> {
        let (id, body) = (intent.downstream_key(), intent.input().text());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at = now.as_secs().to_string();
        let host =
            if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let mut request = Request::post(&self.path)
            .header("host", format!("{host}:{}", self.port))
            .header("content-type", "application/json")
            .header("content-length", body.len())
            .header("user-agent", concat!("semel/", env!("CARGO_PKG_VERSION")))
            .header("webhook-id", id)
            .header("webhook-timestamp", &at);
        if let Some(secret) = &self.secret {
            request = request.header("webhook-signature", signature(secret, id, &at, body));
        }
        request.body(body.to_owned()).map_err(Failure::not_applied)
    }
}

/// Over id, time and body, as Standard Webhooks say.
fn signature(secret: &[u8], id: &str, at: &str, body: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("any length is a key");
    mac.update(format!("{id}.{at}.{body}").as_bytes());
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

async fn post<S>(stream: S, request: Request<String>) -> Result<Value, Failure>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(Failure::not_applied)?;
    let connection = tokio::spawn(connection);
    let answered = timeout(PATIENCE, sender.send_request(request)).await;
    connection.abort();
    // From here on it may have landed, unless the answer says otherwise.
    let response = answered.map_err(|_| Failure::unknown("no answer in time"))?;
    let status = response.map_err(Failure::unknown)?.status().as_u16();
    // The connection is ours, and this was its one request.
    match classify::of_status(status) {
        None => Ok(json!({ "status": status })),
        Some(failure) => Err(failure),
    }
}

/// Trusts whom the system trusts.
fn tls() -> Result<Arc<ClientConfig>, Error> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| invalid(&error.to_string()))?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_that_of_the_standard() {
        // The example of its specification.
        let secret = STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let (id, at) = ("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330");
        let signed = signature(&secret, id, at, r#"{"test": 2432232314}"#);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }
}
