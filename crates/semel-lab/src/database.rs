//! A schema of one's own on a shared server: for ordinary tests.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::cluster::{Cluster, done, psql};
use crate::template::random_name;

/// Names a server that is there already; without it each test process starts one.
pub const SERVER_VARIABLE: &str = "SEMEL_TEST_POSTGRES";

/// Ends with the process: nobody drops a static, but its guardian hears of it.
static SERVER: OnceLock<Server> = OnceLock::new();
static COUNT: AtomicU64 = AtomicU64::new(0);

enum Server {
    Given(String),
    Own(Cluster),
}

/// A place for one test. Its schema is named, not created; it is dropped with this value.
pub struct Database {
    admin_url: String,
    schema: String,
}

/// A schema name that no other caller has, on the server this process shares.
#[must_use]
pub fn database() -> Database {
    let server = SERVER.get_or_init(|| match std::env::var(SERVER_VARIABLE) {
        Ok(url) if !url.is_empty() => Server::Given(url),
        Ok(_) | Err(_) => Server::Own(Cluster::start()),
    });
    let admin_url = match server {
        Server::Given(url) => url.clone(),
        Server::Own(cluster) => cluster.url(),
    };
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let random = done("naming a schema", random_name());
    let schema = format!("t_{}_{count}_{random}", std::process::id());
    Database { admin_url, schema }
}

impl Database {
    /// The server's URL with the schema, as the store takes it.
    #[must_use]
    pub fn url(&self) -> String {
        with_schema(&self.admin_url, &self.schema)
    }

    /// The server's URL alone.
    #[must_use]
    pub fn admin_url(&self) -> &str {
        &self.admin_url
    }

    #[must_use]
    pub fn schema(&self) -> &str {
        &self.schema
    }

    /// What `psql` prints for the statements, run with this schema as the search path.
    pub fn psql(&self, sql: &str) -> String {
        let path = format!("SET search_path TO {}", self.schema);
        done("psql", psql(&self.admin_url, &[&path, sql]))
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // Best effort: a server that the test broke is thrown away with all that is in it. And not
        // for ever: a transaction that is still open may belong to the very thread that waits here.
        let sql = format!("DROP SCHEMA IF EXISTS {} CASCADE", self.schema);
        let _ = psql(&self.admin_url, &["SET lock_timeout TO '5s'", &sql]);
    }
}

fn with_schema(url: &str, schema: &str) -> String {
    let sign = if url.contains('?') { '&' } else { '?' };
    format!("{url}{sign}schema={schema}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_joins_the_parameters() {
        let check = |url: &str, want: &str| assert_eq!(with_schema(url, "t_1"), want);
        check("postgres://h/d", "postgres://h/d?schema=t_1");
        check("postgres://h/d?sslmode=disable", "postgres://h/d?sslmode=disable&schema=t_1");
    }
}
