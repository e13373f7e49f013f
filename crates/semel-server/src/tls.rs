//! TLS: the certificate that is shown, and callers who do not speak it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use semel_core::code::Code;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::app::OpenError;
use crate::problem::Problem;
use crate::settings::Tls;

/// How a certificate is made that clients accept.
const MAKE: &str = "openssl req -x509 -newkey rsa:2048 -nodes -days 365 -subj /CN=HOST \
     -addext subjectAltName=DNS:HOST -addext basicConstraints=critical,CA:FALSE \
     -keyout tls.key -out tls.crt";

/// Reads certificate and key, and warns of a certificate that clients will refuse.
pub(crate) fn acceptor(tls: &Tls) -> Result<TlsAcceptor, OpenError> {
    let refused = |what: &Path, why: &dyn std::fmt::Display| {
        OpenError::Refused(format!("{}: {why}", what.display()))
    };
    let chain = CertificateDer::pem_file_iter(&tls.cert)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| refused(&tls.cert, &error))?;
    if chain.first().is_some_and(|shown| is_authority(shown)) {
        let file = tls.cert.display();
        tracing::warn!(
            %file,
            make = MAKE,
            "the certificate is one of an authority (CA:TRUE), as `openssl req -x509` makes it by \
             default: clients refuse it (CaUsedAsEndEntity). Make one with CA:FALSE"
        );
    }
    let key = PrivateKeyDer::from_pem_file(&tls.key).map_err(|error| refused(&tls.key, &error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|error| refused(&tls.cert, &error))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// The connection of a caller who speaks TLS. One who speaks plain HTTP is told what to do.
pub(crate) async fn accept(
    tls: &TlsAcceptor,
    mut stream: TcpStream,
    patience: Duration,
) -> Option<TlsStream<TcpStream>> {
    let greeted = async move {
        let mut first = [0];
        stream.peek(&mut first).await.ok()?;
        // A method of HTTP begins with a letter, and a handshake does not.
        if first[0].is_ascii_alphabetic() {
            answer_plainly(&mut stream).await;
            return None;
        }
        tls.accept(stream).await.ok()
    };
    tokio::time::timeout(patience, greeted).await.ok()?
}

async fn answer_plainly(stream: &mut TcpStream) {
    // What was asked is read first: closing a socket with unread bytes would cut the answer.
    let mut asked = [0; 8_192];
    let _ = stream.read(&mut asked).await;
    let text = "this port speaks HTTPS: write https:// in the address";
    let reply = Problem::new(Code::RequestInvalid, text).reply("-");
    let body = String::from_utf8_lossy(&reply.body);
    let head = format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: application/problem+json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
    let _ = stream.shutdown().await;
}

/// Whether a certificate says `CA:TRUE`: the extension 2.5.29.19, perhaps marked as critical, and
/// in it a sequence that begins with `TRUE`.
fn is_authority(certificate: &[u8]) -> bool {
    const CONSTRAINTS: [u8; 5] = [0x06, 0x03, 0x55, 0x1d, 0x13];
    let Some(at) = certificate.windows(5).position(|bytes| bytes == CONSTRAINTS) else {
        return false;
    };
    let rest = &certificate[at + CONSTRAINTS.len()..];
    let rest = rest.strip_prefix(&[0x01, 0x01, 0xff]).unwrap_or(rest);
    matches!(rest, [0x04, _, 0x30, _, 0x01, 0x01, 0xff, ..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_certificate_of_openssl_is_known_as_an_authoritys() {
        let folder = tempfile::tempdir().expect("a folder");
        let made = |name: &str, more: &[&str]| {
            let (key, cert) = (folder.path().join("key"), folder.path().join(name));
            let mut openssl = std::process::Command::new("openssl");
            openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]);
            openssl.args(["-nodes", "-subj", "/CN=localhost", "-keyout"]).arg(key);
            let made = openssl.arg("-out").arg(&cert).args(more).output().expect("openssl");
            assert!(made.status.success(), "{made:?}");
            is_authority(&CertificateDer::from_pem_file(cert).expect("a certificate"))
        };
        assert!(made("default", &[]));
        assert!(!made("own", &["-addext", "basicConstraints=critical,CA:FALSE"]));
    }
}
