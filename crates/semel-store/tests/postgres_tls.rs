//! TLS: a certificate that is asked for is always checked, its host name too.

mod support;

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use semel_lab::Cluster;
use semel_store::{Store, StoreError};
use support::server::{effect, eventually, open, try_open};

/// An authority, and the certificate by which others know it.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Authority { issuer: Issuer::new(params, key), pem }
    }

    /// Gives a server a certificate for a name, and has it speak TLS.
    fn equip(&self, cluster: &Cluster, name: &str) {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new([name.to_owned()]).expect("a name");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        let data = cluster.folder().join("data");
        give(&data, "server.crt", &certificate.pem());
        give(&data, "server.key", &key.serialize_pem());
        cluster.psql("ALTER SYSTEM SET ssl = on");
        cluster.psql("SELECT pg_reload_conf()");
    }

    fn file(&self, folder: &Path) -> PathBuf {
        let path = folder.join("authority.pem");
        std::fs::write(&path, &self.pem).expect("a file");
        path
    }
}

/// A file that belongs to whom the folder belongs, and is nobody else's to read.
fn give(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("a file");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("its mode");
    let owner = std::fs::metadata(folder).expect("a folder");
    chown(&path, Some(owner.uid()), Some(owner.gid())).expect("its owner");
}

/// A server that speaks TLS under the name `localhost`, with a store in it.
async fn equipped(authority: &Authority) -> Cluster {
    let cluster = Cluster::start();
    drop(open(&cluster.url()).await);
    authority.equip(&cluster, "localhost");
    eventually("it speaks TLS", || async { cluster.psql("SHOW ssl") == "on" }).await;
    cluster
}

fn url(cluster: &Cluster, host: &str, parameters: &str) -> String {
    format!("postgres://semel@{host}:{}/semel?{parameters}", cluster.port())
}

async fn refused(url: &str) -> StoreError {
    try_open(url).await.err().unwrap_or_else(|| panic!("it must not open: {url}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_the_right_certificate_is_spoken_to_in_private() {
    let (authority, folder) = (Authority::new(), tempfile::tempdir().expect("a folder"));
    let cluster = equipped(&authority).await;
    let roots = authority.file(folder.path());
    for mode in ["sslmode=verify-full&", "sslmode=require&", ""] {
        let url = url(&cluster, "localhost", &format!("{mode}sslrootcert={}", roots.display()));
        let (writer, reader) = (try_open(&url).await, try_open(&url).await);
        let (writer, reader) = (writer.expect("a store"), reader.expect("a store"));
        let listening = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'";
        eventually("both listen", || async { cluster.psql(listening) == "2" }).await;
        let mut hints = reader.hints();
        let plain = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
             WHERE application_name = 'semel' AND NOT ssl";
        assert_eq!(writer.commit(effect(&format!("k{mode}"), &writer.ground())).await, Ok(()));
        assert_eq!(cluster.psql(plain), "0", "every connection, the listening one too");
        let heard = tokio::time::timeout(Duration::from_secs(10), hints.changed()).await;
        assert!(heard.is_ok(), "hints arrive over TLS");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_authority_another_name_and_no_tls_at_all_are_refused() {
    let (authority, folder) = (Authority::new(), tempfile::tempdir().expect("a folder"));
    let cluster = equipped(&authority).await;
    let right = authority.file(folder.path());
    let stranger = folder.path().join("stranger.pem");
    std::fs::write(&stranger, Authority::new().pem).expect("a file");
    let with = |mode: &str, roots: &Path| format!("sslmode={mode}&sslrootcert={}", roots.display());
    for mode in ["require", "verify-full"] {
        let another = refused(&url(&cluster, "localhost", &with(mode, &stranger))).await;
        assert!(matches!(another, StoreError::Unavailable(_)), "{mode}: {another:?}");
        let name = refused(&url(&cluster, "127.0.0.1", &with(mode, &right))).await;
        assert!(matches!(name, StoreError::Unavailable(_)), "{mode}: {name:?}");
        // Checked against what the system trusts, which does not know our authority.
        refused(&url(&cluster, "localhost", &format!("sslmode={mode}"))).await;
    }
    let nothing = folder.path().join("nothing.pem");
    std::fs::write(&nothing, "").expect("a file");
    let empty = refused(&url(&cluster, "localhost", &with("require", &nothing))).await;
    assert!(matches!(empty, StoreError::UrlInvalid(_)), "{empty:?}");

    let plain = Cluster::start();
    let never = refused(&url(&plain, "localhost", &with("require", &right))).await;
    assert!(matches!(never, StoreError::Unavailable(_)), "never in the clear instead: {never:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_can_be_switched_off_by_name_where_the_server_allows_it() {
    let authority = Authority::new();
    let cluster = equipped(&authority).await;
    let store = try_open(&url(&cluster, "localhost", "sslmode=disable")).await.expect("a store");
    assert_eq!(store.commit(effect("k", &store.ground())).await, Ok(()));
    let private = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
         WHERE application_name = 'semel' AND ssl";
    assert_eq!(cluster.psql(private), "0");
    give(&cluster.folder().join("data"), "pg_hba.conf", "hostssl all all 127.0.0.1/32 trust\n");
    drop(store);
    cluster.stop_fast();
    cluster.start_again();
    refused(&url(&cluster, "127.0.0.1", "sslmode=disable")).await;
}
