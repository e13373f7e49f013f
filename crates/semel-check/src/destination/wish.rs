//! What shall be tried, checked before anything is sent.

use std::fmt;
use std::net::IpAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use url::Url;

/// Stands in the address, the body or a header for a reference that is new for each trial.
pub(super) const REFERENCE: &str = "{reference}";
/// More at once is a load test.
const AT_ONCE_MAX: usize = 50;
const WAIT_MS_MAX: u64 = 24 * 60 * 60 * 1000;

/// One request and the ways to repeat it.
#[derive(Clone, Debug)]
pub struct Wish {
    pub method: String,
    pub url: String,
    pub body: String,
    /// Another body under the same key; without it, the same with another reference.
    pub other_body: Option<String>,
    pub headers: Vec<(String, String)>,
    pub key_header: String,
    /// Where an answer names its object, as a JSON pointer; without it `/id`, or all of it.
    pub id: Option<String>,
    /// An address that finds what was created under `{reference}`.
    pub lookup: Option<String>,
    /// Where its answer has the list or the number, as a JSON pointer.
    pub found: String,
    /// An address that says how many objects there are.
    pub count: Option<String>,
    /// Where its answer has the list or the number, as a JSON pointer.
    pub counted: String,
    /// Whether creation is conditional on absence: `If-None-Match: *`, or a unique reference.
    pub conditional: bool,
    pub at_once: usize,
    /// A pause, and the same request once more.
    pub wait_ms: u64,
}

/// Why nothing can be said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The wish makes no sense.
    Usage(String),
    /// The destination could not be asked.
    Unreachable(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Usage(fact) => f.write_str(fact),
            Trouble::Unreachable(fact) => write!(f, "the destination cannot be asked: {fact}"),
        }
    }
}

impl std::error::Error for Trouble {}

impl Wish {
    /// A `POST` of this body, with nothing else asked for.
    pub fn post(url: impl Into<String>, body: impl Into<String>) -> Wish {
        Wish {
            method: "POST".into(),
            url: url.into(),
            body: body.into(),
            other_body: None,
            headers: Vec::new(),
            key_header: "Idempotency-Key".into(),
            id: None,
            lookup: None,
            found: String::new(),
            count: None,
            counted: String::new(),
            conditional: false,
            at_once: 5,
            wait_ms: 0,
        }
    }

    /// Refuses what would be sent in vain.
    pub fn check(&self) -> Result<(), Trouble> {
        let usage = |fact: &str| Err(Trouble::Usage(fact.into()));
        for address in [Some(&self.url), self.lookup.as_ref(), self.count.as_ref()] {
            address.map(|address| parse_url(address)).transpose()?;
        }
        if !(2..=AT_ONCE_MAX).contains(&self.at_once) {
            return Err(Trouble::Usage(format!("at once are 2 to {AT_ONCE_MAX}")));
        }
        if self.wait_ms > WAIT_MS_MAX {
            return usage("a pause is at most a day");
        }
        if self.lookup.as_ref().is_some_and(|address| !address.contains(REFERENCE)) {
            return usage("the lookup needs {reference} where the reference goes");
        }
        if (self.lookup.is_some() || self.conditional) && !self.has_reference() {
            return usage("the address or the body needs {reference} where the reference goes");
        }
        if self.lookup.is_some() && self.count.is_some() {
            return usage("either a lookup or a count");
        }
        Ok(())
    }

    /// Whether only this machine is asked; anything else may be somebody's real service.
    pub fn is_local(&self) -> bool {
        let addresses = [Some(&self.url), self.lookup.as_ref(), self.count.as_ref()];
        addresses
            .into_iter()
            .flatten()
            .all(|address| parse_url(address).is_ok_and(|url| is_here(&url)))
    }

    pub(super) fn has_reference(&self) -> bool {
        self.url.contains(REFERENCE) || self.body.contains(REFERENCE)
    }
}

/// Reads an address, with whatever stands for the reference.
pub(super) fn parse_url(address: &str) -> Result<Url, Trouble> {
    let invalid = |fact: String| Trouble::Usage(format!("`{address}` is no address: {fact}"));
    let url = Url::parse(&address.replace(REFERENCE, "reference"));
    let url = url.map_err(|error| invalid(error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(invalid("it begins with http:// or https://".into()));
    }
    Ok(url)
}

fn is_here(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Names that nobody has used before: of keys and references.
pub(super) struct Names {
    prefix: String,
    next: std::sync::atomic::AtomicU32,
}

impl Names {
    pub(super) fn new() -> Names {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let prefix = format!("semel-{:x}-{:x}", now.as_nanos(), std::process::id());
        Names { prefix, next: 1.into() }
    }

    pub(super) fn draw(&self) -> String {
        let n = self.next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        format!("{}-{n}", self.prefix)
    }
}
