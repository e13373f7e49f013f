//! The address of a store on Postgres: what libpq knows, and a few words of our own.
//!
//! `postgres://user:password@host:5432/database?schema=semel&sslmode=verify-full`

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{SslMode, TargetSessionAttrs};

use crate::StoreError;

/// The schema that a store lives in, unless the address names another.
const SCHEMA: &str = "semel";

/// Connections that one process opens at most, unless the address names another number.
const CONNECTIONS: usize = 8;

/// How long the other side's system may say nothing at all.
const SILENCE: Duration = Duration::from_secs(20);

/// A parsed address.
#[derive(Clone)]
pub(super) struct PgAddress {
    pub(super) config: Config,
    pub(super) schema: String,
    pub(super) tls: Tls,
    /// Statements are not prepared by name: a pooler in transaction mode would lose them.
    pub(super) unnamed: bool,
    /// Migrations may run when the store is opened.
    pub(super) migrates: bool,
    pub(super) connections: usize,
    /// As people may see it.
    pub(super) shown: String,
}

/// How the connection is protected. A certificate that is asked for is always checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Tls {
    Off,
    /// Checked against this file, or the certificates of the system.
    Checked {
        roots: Option<PathBuf>,
    },
}

impl PgAddress {
    pub(super) fn parse(url: &str) -> Result<PgAddress, StoreError> {
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let mut theirs = Vec::new();
        let mut schema = SCHEMA.to_owned();
        let (mut unnamed, mut migrates, mut connections) = (false, false, CONNECTIONS);
        let (mut sslmode, mut roots) = (None, None);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match name {
                "schema" => schema = schema_name(value)?,
                "pgbouncer" => unnamed = yes_or_no(name, value)?,
                "migrate" => migrates = yes_or_no(name, value)?,
                "connections" => connections = count(value)?,
                "sslmode" => sslmode = Some(value),
                "sslrootcert" => roots = Some(PathBuf::from(unescape(value))),
                _ => theirs.push(pair),
            }
        }
        let text = match theirs.is_empty() {
            true => base.to_owned(),
            false => format!("{base}?{}", theirs.join("&")),
        };
        // Its error may quote the address, and that the password.
        let parsed = Config::from_str(&text);
        let mut config = parsed.map_err(|_| invalid("it is not an address of Postgres"))?;
        let tls = protect(&mut config, sslmode, roots)?;
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        if config.get_application_name().is_none() {
            config.application_name("semel");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(Duration::from_secs(5));
        }
        notice_silence(&mut config);
        let shown = shown(base, &schema);
        Ok(PgAddress { config, schema, tls, unnamed, migrates, connections, shown })
    }
}

fn invalid(why: &str) -> StoreError {
    StoreError::UrlInvalid(format!("the address of the store cannot be used: {why}"))
}

/// A plain identifier: it becomes part of statements.
fn schema_name(value: &str) -> Result<String, StoreError> {
    let fits = (1..=40).contains(&value.len())
        && value.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        && !value.starts_with(|first: char| first.is_ascii_digit())
        && !value.starts_with("pg_");
    let why = "schema is up to 40 of a-z, 0-9 and _, and begins with a letter";
    if fits { Ok(value.to_owned()) } else { Err(invalid(why)) }
}

fn yes_or_no(name: &str, value: &str) -> Result<bool, StoreError> {
    match value {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(invalid(&format!("{name} is true or false"))),
    }
}

fn count(value: &str) -> Result<usize, StoreError> {
    let number = value.parse().ok().filter(|number| (3..=200).contains(number));
    number.ok_or_else(|| invalid("connections is a number from 3 to 200"))
}

/// `prefer` is not offered: it gives the promise of protection without the protection.
fn protect(
    config: &mut Config,
    sslmode: Option<&str>,
    roots: Option<PathBuf>,
) -> Result<Tls, StoreError> {
    match sslmode {
        None if roots.is_none() && is_local(config) => {
            config.ssl_mode(SslMode::Disable);
            Ok(Tls::Off)
        }
        Some("disable") => {
            config.ssl_mode(SslMode::Disable);
            Ok(Tls::Off)
        }
        None | Some("require" | "verify-full") => {
            config.ssl_mode(SslMode::Require);
            Ok(Tls::Checked { roots })
        }
        Some(_) => Err(invalid("sslmode is disable, require or verify-full")),
    }
}

/// Whether nobody can listen on the way. Where the address gives a host's number, that counts.
fn is_local(config: &Config) -> bool {
    use tokio_postgres::config::Host;
    let is_here = |host: &Host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => matches!(name.as_str(), "localhost" | "127.0.0.1" | "::1"),
    };
    config.get_hosts().iter().all(is_here)
        && config.get_hostaddrs().iter().all(std::net::IpAddr::is_loopback)
}

/// A machine that vanished closes no connection: without this the system would wait for a quarter
/// of an hour before it says so, and for hours on a connection that only listens.
fn notice_silence(config: &mut Config) {
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(SILENCE);
    }
    let untouched = Config::new();
    if config.get_keepalives_idle() == untouched.get_keepalives_idle() {
        config.keepalives_idle(SILENCE);
    }
    if config.get_keepalives_interval().is_none() {
        config.keepalives_interval(SILENCE / 4);
    }
    if config.get_keepalives_retries().is_none() {
        config.keepalives_retries(4);
    }
}

/// Without the password.
fn shown(base: &str, schema: &str) -> String {
    let (scheme, rest) = base.split_once("://").unwrap_or(("postgres", base));
    let rest = match rest.rsplit_once('@') {
        Some((user, host)) => format!("{}@{host}", user.split(':').next().unwrap_or_default()),
        None => rest.to_owned(),
    };
    match schema {
        SCHEMA => format!("{scheme}://{rest}"),
        _ => format!("{scheme}://{rest}?schema={schema}"),
    }
}

fn unescape(value: &str) -> String {
    value.replace("%2F", "/").replace("%2f", "/").replace("%20", " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> PgAddress {
        PgAddress::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"))
    }

    #[test]
    fn words_of_our_own_are_taken_out_and_the_rest_is_libpqs() {
        let address = parse("postgres://u:p@db.example/x?schema=mine&pgbouncer=true&keepalives=1");
        assert_eq!((address.schema.as_str(), address.unnamed), ("mine", true));
        assert_eq!(address.shown, "postgres://u@db.example/x?schema=mine");
        assert_eq!(address.config.get_dbname(), Some("x"));
        assert!(parse("postgres://localhost/x?migrate=true").migrates);
    }

    #[test]
    fn a_certificate_is_checked_unless_the_server_is_here_or_the_address_says_no() {
        assert_eq!(parse("postgres://localhost/x").tls, Tls::Off);
        assert_eq!(parse("postgres://db.example/x").tls, Tls::Checked { roots: None });
        assert_eq!(parse("postgres://db.example/x?sslmode=disable").tls, Tls::Off);
        for there in ["localhost/x?hostaddr=192.0.2.1", "/x?hostaddr=192.0.2.1"] {
            let address = parse(&format!("postgres://{there}"));
            assert_eq!(address.tls, Tls::Checked { roots: None }, "{there}");
        }
        let roots = Some(PathBuf::from("/etc/ca.pem"));
        let address = parse("postgres://localhost/x?sslrootcert=/etc/ca.pem");
        assert_eq!(address.tls, Tls::Checked { roots });
    }

    #[test]
    fn a_machine_that_vanished_is_noticed_unless_the_address_says_otherwise() {
        let silent = parse("postgres://localhost/x").config;
        assert_eq!(silent.get_tcp_user_timeout(), Some(&SILENCE));
        assert_eq!(silent.get_keepalives_idle(), SILENCE);
        let patient = parse("postgres://localhost/x?keepalives_idle=99&tcp_user_timeout=77").config;
        assert_eq!(patient.get_tcp_user_timeout(), Some(&Duration::from_secs(77)));
        assert_eq!(patient.get_keepalives_idle(), Duration::from_secs(99));
    }

    #[test]
    fn what_cannot_be_used_is_refused_without_showing_the_password() {
        for url in [
            "postgres://u:secret@h/x?schema=Mine",
            "postgres://u:secret@h/x?schema=a%22b",
            "postgres://u:secret@h/x?schema=",
            "postgres://u:secret@h/x?schema=pg_catalog",
            "postgres://u:secret@h/x?sslmode=prefer",
            "postgres://u:secret@h/x?connections=0",
            "postgres://u:secret@h/x?migrate=maybe",
            "postgres://u:secret@h:notaport/x",
        ] {
            let refused = PgAddress::parse(url).err().expect(url);
            assert!(matches!(refused, StoreError::UrlInvalid(_)), "{url}: {refused:?}");
            assert!(!refused.to_string().contains("secret"), "{url}: {refused}");
        }
    }
}
