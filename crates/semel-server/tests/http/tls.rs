//! TLS: spoken where it is set, and nothing else is.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use semel::{Code, Failure, Semel};
use semel_core::access::Role;
use semel_server::{Limits, Server, Settings, Tls};
use semel_store::Query;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::door::{Door, file};
use crate::wire::{body, connect, read, status, unfinished, write};

const SERVER: &str = "SEMEL_TEST_TLS_SERVER";
const TOKEN: &str = "SEMEL_TEST_TLS_TOKEN";
const WANTED: &str = "SEMEL_TEST_TLS_WANTED";

/// A certificate of our own for this machine, and its key.
fn certify(folder: &Path, name: &str) -> Tls {
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).unwrap();
    let files =
        Tls { cert: folder.join(format!("{name}.crt")), key: folder.join(format!("{name}.key")) };
    std::fs::write(&files.cert, cert.pem()).unwrap();
    std::fs::write(&files.key, signing_key.serialize_pem()).unwrap();
    files
}

fn settings(folder: &TempDir, tls: Tls) -> Settings {
    let limits = Limits { read_ms: 1_000, ..Limits::default() };
    let listen = "127.0.0.1:0".parse().unwrap();
    Settings { tls: Some(tls), limits, ..Settings::new(file(folder), listen) }
}

/// A connection by somebody who trusts one certificate.
async fn speak(door: &Door, trusted: &Path) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(trusted).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, connect(door).await).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_a_certificate_speaks_tls_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let tls = certify(folder.path(), "server");
    let door = Door::of(settings(&folder, tls.clone())).await;
    let ask = format!("{}Connection: close\r\n\r\n", unfinished("/v1/effects"));
    let mut private = speak(&door, &tls.cert).await.unwrap();
    write(&mut private, &ask).await;
    let said = read(&mut private).await;
    assert_eq!((status(&said), body(&said)["items"].as_array().unwrap().len()), (200, 0));
    let stranger = certify(folder.path(), "stranger");
    let unknown = speak(&door, &stranger.cert).await.unwrap_err().to_string();
    assert!(unknown.contains("certificate"), "{unknown}");
    let mut plain = connect(&door).await;
    write(&mut plain, &ask).await;
    let said = read(&mut plain).await;
    assert!(!said.contains("items"), "in the clear: {said:?}");
    assert_eq!(status(&said), 400, "{said:?}");
    assert!(body(&said)["detail"].as_str().unwrap().contains("speaks HTTPS"), "{said:?}");
    // Whoever says nothing at all does not keep the connection.
    assert_eq!(read(&mut connect(&door).await).await, "");
}

#[tokio::test]
async fn a_certificate_that_is_not_one_or_is_anothers_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (certify(folder.path(), "one"), certify(folder.path(), "other"));
    let text = folder.path().join("text");
    std::fs::write(&text, "no certificate").unwrap();
    let pairs: [(&PathBuf, &PathBuf); 5] = [
        (&one.cert, &other.key),
        (&one.cert, &text),
        (&text, &one.key),
        (&one.key, &one.cert),
        (&one.cert, &folder.path().join("nowhere")),
    ];
    for (cert, key) in pairs {
        let tls = Tls { cert: cert.clone(), key: key.clone() };
        let refused = Server::bind(settings(&folder, tls)).await.err();
        let refused = refused.unwrap_or_else(|| panic!("{cert:?} {key:?}")).to_string();
        let names = [cert, key].map(|path| refused.contains(&path.display().to_string()));
        assert!(names.contains(&true), "it says which file: {refused}");
        assert!(!refused.contains("PRIVATE"), "{refused}");
    }
}

/// Not a test: what the next one starts, as a process that trusts what its environment says.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "started by the other test as a process of its own"]
async fn a_caller() {
    let Ok(url) = std::env::var(SERVER) else { return };
    let (token, wanted) = (std::env::var(TOKEN).unwrap(), std::env::var(WANTED).unwrap());
    let sent = async {
        let semel = Semel::open_with_token(&url, &token).await?;
        let mail = semel.effect("mail").key(["tls"]);
        mail.call(|_| async { Ok::<_, Failure>("M-1".to_owned()) }).await
    };
    let said = match sent.await {
        Ok(receipt) => receipt,
        Err(error) => format!("{}: {}", error.code(), error.detail()),
    };
    assert!(said.contains(&wanted), "{said}");
}

/// What becomes of a worker that trusts this certificate.
async fn calls(door: &Door, trusted: &Path, token: &str, wanted: &str) {
    calls_at(&door.url, trusted, token, wanted).await;
}

async fn calls_at(url: &str, trusted: &Path, token: &str, wanted: &str) {
    let mut caller = Command::new(std::env::current_exe().unwrap());
    caller.args(["--ignored", "--exact", "tls::a_caller", "--nocapture"]);
    caller.env(SERVER, url).env(TOKEN, token).env(WANTED, wanted);
    caller.env("SSL_CERT_FILE", trusted).env_remove("SSL_CERT_DIR").stdin(Stdio::null());
    let ended = tokio::task::spawn_blocking(move || caller.output().unwrap()).await.unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    let complained = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success() && said.contains("1 passed"), "{wanted}: {said} {complained}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_without_a_store_of_its_own_trusts_what_its_system_trusts() {
    let folder = tempfile::tempdir().unwrap();
    let tls = certify(folder.path(), "server");
    let door = Door::of(settings(&folder, tls.clone())).await;
    let token = door.token("default", Role::Worker).await;
    calls(&door, &tls.cert, &token, "M-1").await;
    let stranger = certify(folder.path(), "stranger");
    calls(&door, &stranger.cert, &token, Code::StoreUnavailable.as_str()).await;
    let wrong = format!("{token}0");
    calls(&door, &tls.cert, &wrong, Code::Unauthenticated.as_str()).await;
    let sent = door.app.engine().list(&Query::everywhere(10)).await.unwrap();
    assert_eq!(sent.effects.len(), 1, "through this server, once");
}

/// A certificate as `openssl` makes it by default: one of an authority.
fn by_default(folder: &Path) -> Tls {
    let files = Tls { cert: folder.join("default.crt"), key: folder.join("default.key") };
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]);
    openssl.args(["-nodes", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]);
    let made = openssl.arg("-keyout").arg(&files.key).arg("-out").arg(&files.cert).output();
    let made = made.unwrap();
    assert!(made.status.success(), "{made:?}");
    files
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_whose_connection_fails_is_told_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let tls = by_default(folder.path());
    let door = Door::of(settings(&folder, tls.clone())).await;
    let (_, port) = door.url.rsplit_once(':').unwrap();
    let [https, http] = ["https", "http"].map(|scheme| format!("{scheme}://localhost:{port}"));
    calls_at(&https, &tls.cert, "t", "basicConstraints=critical,CA:FALSE").await;
    calls_at(&http, &tls.cert, "t", "this port speaks HTTPS").await;
    let other = tempfile::tempdir().unwrap();
    let stranger = certify(other.path(), "stranger");
    let honest = Door::of(settings(&other, certify(other.path(), "server"))).await;
    calls(&honest, &stranger.cert, "t", "SSL_CERT_FILE").await;
    let third = tempfile::tempdir().unwrap();
    let listen = "127.0.0.1:0".parse().unwrap();
    let plain = Door::of(Settings::new(file(&third), listen)).await;
    let (_, port) = plain.url.rsplit_once(':').unwrap();
    calls_at(&format!("https://localhost:{port}"), &tls.cert, "t", "write http://").await;
}
