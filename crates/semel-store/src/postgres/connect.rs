//! Connections: a pool of them, each looked at before anybody uses it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deadpool_postgres::{
    Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, NoTls, Row};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::address::{PgAddress, Tls};
use super::meta::{self, Meta};
use super::wire::Param;
use super::{Shared, store_error};
use crate::StoreError;

/// How long somebody waits for a connection before the store counts as busy.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long an answer may take: longer than the server lets a statement run.
const ANSWER: Duration = Duration::from_secs(40);

/// Hands out connections.
#[derive(Clone)]
pub(super) struct Door {
    pool: Pool,
    /// Lists have some of the connections, so that whoever begins or settles finds one.
    lists: Arc<Semaphore>,
    pub(super) shared: Arc<Shared>,
}

/// A connection that has been looked at.
pub(super) struct Session {
    /// Taken when it goes back to the pool, or is closed.
    client: Option<Object>,
    shared: Arc<Shared>,
    /// In the middle of something: whoever was about to end it may be gone.
    is_held: AtomicBool,
}

impl Door {
    pub(super) fn build(address: &PgAddress, shared: Arc<Shared>) -> Result<Door, StoreError> {
        let settings = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let config = address.config.clone();
        let manager = match &address.tls {
            Tls::Off => Manager::from_config(config, NoTls, settings),
            Tls::Checked { roots } => {
                Manager::from_config(config, tls(roots.as_deref())?, settings)
            }
        };
        let pool = Pool::builder(manager)
            .max_size(address.connections)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(PATIENCE))
            .create_timeout(Some(2 * PATIENCE))
            .build()
            .map_err(|error| StoreError::Unavailable(error.to_string()))?;
        let lists = Arc::new(Semaphore::new((address.connections / 3).max(1)));
        Ok(Door { pool, lists, shared })
    }

    /// A connection to use. A new one is first asked which server it leads to: a server that went
    /// back in time must not be written to before that is on record.
    pub(super) async fn enter(&self) -> Result<Session, StoreError> {
        let session = self.knock().await?;
        if session.is_new() {
            session.look_anew().await?;
        }
        Ok(session)
    }

    /// Looks again: the tables are not those that were looked at.
    pub(super) async fn look_anew(&self) -> Result<(), StoreError> {
        self.knock().await?.look_anew().await
    }

    /// The turn of a list, until it is dropped.
    pub(super) async fn list_turn(&self) -> Result<OwnedSemaphorePermit, StoreError> {
        let busy = |_| StoreError::Busy("too many lists are read at once".into());
        let turn = tokio::time::timeout(PATIENCE, self.lists.clone().acquire_owned()).await;
        turn.map_err(busy)?.map_err(|_| StoreError::Unavailable("the store is closed".into()))
    }

    /// A connection about which nothing is known.
    pub(super) async fn knock(&self) -> Result<Session, StoreError> {
        let client = self.pool.get().await.map_err(pool_error)?;
        let is_held = AtomicBool::new(false);
        Ok(Session { client: Some(client), shared: self.shared.clone(), is_held })
    }
}

/// Waits for an answer of the server, but not for ever: one whose machine is gone never answers.
pub(super) async fn in_time<T>(answer: impl Future<Output = T>) -> Result<T, StoreError> {
    let late = |_| StoreError::Unavailable("the server did not answer in time".into());
    tokio::time::timeout(ANSWER, answer).await.map_err(late)
}

impl Session {
    fn object(&self) -> &Object {
        self.client.as_ref().expect("it is there until it is dropped")
    }

    pub(super) fn client(&self) -> &Client {
        self.object()
    }

    fn is_new(&self) -> bool {
        Object::metrics(self.object()).recycle_count == 0
    }

    /// Asks which server this is, and records it when it went back in time.
    pub(super) async fn look_anew(&self) -> Result<(), StoreError> {
        self.hold();
        in_time(meta::greet(self)).await??;
        self.release();
        Ok(())
    }

    /// From here until `release` the connection is closed rather than given to somebody else:
    /// a caller that goes away must not leave a transaction open, or a server not looked at.
    pub(super) fn hold(&self) {
        self.is_held.store(true, Ordering::Relaxed);
    }

    pub(super) fn release(&self) {
        self.is_held.store(false, Ordering::Relaxed);
    }

    pub(super) fn into_client(mut self) -> Object {
        self.client.take().expect("it is there until it is dropped")
    }

    pub(super) fn client_mut(&mut self) -> &mut Client {
        self.client.as_mut().expect("it is there until it is dropped")
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(super) fn meta(&self) -> Meta {
        self.shared.meta()
    }

    /// Runs a statement. Several that are polled together go out together.
    pub(super) async fn query(
        &self,
        text: &'static str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let text = self.shared.text(text);
        if self.shared.unnamed {
            return self.client().query_typed(&text, params).await;
        }
        let types: Vec<Type> = params.iter().map(|(_, kind)| kind.clone()).collect();
        let statement = self.object().prepare_typed_cached(&text, &types).await?;
        let values: Vec<&(dyn ToSql + Sync)> = params.iter().map(|(value, _)| *value).collect();
        self.client().query(&statement, &values).await
    }

    /// Prepares statements, so that later ones go out in the order in which they are asked.
    pub(super) async fn prepare(
        &self,
        texts: &[(&'static str, &[Type])],
    ) -> Result<(), tokio_postgres::Error> {
        if self.shared.unnamed {
            return Ok(());
        }
        for (text, types) in texts {
            self.object().prepare_typed_cached(&self.shared.text(text), types).await?;
        }
        Ok(())
    }

    /// Closes the connection; the server undoes what it had not committed.
    pub(super) fn discard(self) {
        self.hold();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.is_held.load(Ordering::Relaxed) {
            self.client.take().map(Object::take);
        }
    }
}

fn pool_error(error: PoolError) -> StoreError {
    match error {
        PoolError::Backend(error) => store_error(&error),
        PoolError::Timeout(_) => StoreError::Busy("no connection was free in time".into()),
        PoolError::Closed => StoreError::Unavailable("the store is closed".into()),
        PoolError::NoRuntimeSpecified | PoolError::PostCreateHook(_) => {
            StoreError::Unavailable(error.to_string())
        }
    }
}

/// Certificates are always checked, against a file or those of the system.
pub(super) fn tls(roots: Option<&std::path::Path>) -> Result<MakeRustlsConnect, StoreError> {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    let unusable = |what: String| StoreError::UrlInvalid(format!("sslrootcert: {what}"));
    let mut store = rustls::RootCertStore::empty();
    match roots {
        Some(path) => {
            let found = CertificateDer::pem_file_iter(path);
            for certificate in found.map_err(|error| unusable(error.to_string()))? {
                let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
                store.add(certificate).map_err(|error| unusable(error.to_string()))?;
            }
        }
        None => {
            // Whatever of them cannot be read is not trusted.
            store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    if store.is_empty() {
        return Err(unusable("there is no certificate to check the server's against".into()));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(error.to_string()))?
        .with_root_certificates(store)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}
