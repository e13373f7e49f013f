//! All that can be set. Whoever starts a server fills this in, from wherever.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use semel_core::hook::Content;
use semel_store::Veil;

/// How a server runs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The address of the store.
    pub store: String,
    pub listen: SocketAddr,
    pub tls: Option<Tls>,
    /// Names under which the server is reached, beside those of the loopback.
    pub hosts: Vec<String>,
    /// How links in messages begin, such as `https://semel.example.com`.
    pub public_url: Option<String>,
    /// Whether `/metrics` asks for a token wherever other requests do.
    pub metrics_token_required: bool,
    pub limits: Limits,
    /// The keys and the secrets of the store.
    pub veil: Veil,
    /// Webhooks that are declared in the server's file, by name. They are put when it starts.
    pub triggers: BTreeMap<String, Content>,
}

/// Certificate and key, as PEM files.
#[derive(Clone, Debug)]
pub struct Tls {
    pub cert: PathBuf,
    pub key: PathBuf,
}

/// What a server takes at most. Every number has its reason.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// One body, as sent and as unpacked: so no value in it is larger than a value may be.
    pub body_bytes: usize,
    /// All bodies that are in memory at once.
    pub bodies_bytes: usize,
    /// Head of a request.
    pub header_bytes: usize,
    /// Sockets at once: each costs some kilobytes while it idles.
    pub connections: usize,
    /// Requests at once, those that wait included.
    pub requests_in_flight: usize,
    /// Requests of one namespace at once: its share, so that the others keep theirs.
    pub requests_per_namespace: usize,
    /// New keys of one namespace in a second; `None`: as many as the store takes.
    pub new_keys_per_second: Option<u32>,
    /// How long a duplicate is held at most.
    pub hold_ms: u64,
    /// How long the head of a request, and then its body, may take to arrive.
    pub read_ms: u64,
    /// How long open requests get when the server stops.
    pub drain_ms: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            body_bytes: semel_core::limits::VALUE_BYTES_MAX,
            bodies_bytes: 128 * 1024 * 1024,
            header_bytes: 16 * 1024,
            connections: 8_192,
            requests_in_flight: 4_096,
            requests_per_namespace: 2_048,
            new_keys_per_second: None,
            hold_ms: semel_core::limits::HOLD_MS,
            read_ms: 10_000,
            drain_ms: 30_000,
        }
    }
}

impl Settings {
    /// On a store, on the loopback, with the defaults of everything else.
    pub fn new(store: impl Into<String>, listen: SocketAddr) -> Settings {
        Settings {
            store: store.into(),
            listen,
            tls: None,
            hosts: Vec::new(),
            public_url: None,
            metrics_token_required: true,
            limits: Limits::default(),
            veil: Veil::default(),
            triggers: BTreeMap::new(),
        }
    }
}
