//! Who asks. Tokens are looked up by the card that they name; what was seen is believed for half a
//! second, so that a revoked token ends within one on all servers.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, HeaderName, Method, header};
use semel_core::access::{CARD, Presented, Role, Token};
use semel_core::code::Code;
use semel_core::key::Namespace;
use semel_store::CardQuery;

use crate::app::App;
use crate::problem::Problem;
use crate::route::{Access, Who};

/// For how long a look into the store is believed.
pub(crate) const BELIEVED: Duration = Duration::from_millis(500);
/// Tokens that are remembered at once.
const REMEMBERED_MAX: usize = 10_000;

/// What was seen of tokens lately.
#[derive(Default)]
pub(crate) struct Known {
    tokens: Mutex<HashMap<String, (Instant, Option<Who>)>>,
    any: Mutex<Option<(Instant, bool)>>,
}

impl App {
    /// Who the request comes from, and whether that may use the route. The answer to a wrong token
    /// is the same whatever is wrong with it, and is given before anything is looked up for it.
    pub(crate) async fn authorise(
        &self,
        access: Access,
        headers: &HeaderMap,
    ) -> Result<Who, Problem> {
        let Access::Needs(permission) = access else { return Ok(nobody()) };
        let who = match bearer(headers)? {
            Some(token) => self.holder(token).await?,
            None if self.has_tokens().await? => None,
            None => Some(App::developer()),
        };
        let unknown = || Problem::new(Code::Unauthenticated, "a token is needed");
        let who = who.ok_or_else(unknown)?;
        if who.role.may(permission) {
            return Ok(who);
        }
        let (role, needed) = (who.role.as_str(), permission.as_str());
        let text = format!("the role {role} lacks the permission `{needed}`");
        Err(Problem::new(Code::Forbidden, text))
    }

    /// Whoever develops on this machine, while nobody has made a token.
    pub(crate) fn developer() -> Who {
        let (namespace, actor) = (Namespace::default(), "local".to_owned());
        Who { namespace, role: Role::Admin, actor, expires: None }
    }

    /// Whose token it is.
    pub(crate) async fn holder(&self, token: &str) -> Result<Option<Who>, Problem> {
        // Nothing is remembered of what cannot be one.
        if Presented::read(token).is_none() {
            return Ok(None);
        }
        let lock = || self.known.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((seen, who)) = lock().get(token)
            && seen.elapsed() < BELIEVED
        {
            return Ok(who.clone());
        }
        let who = self.look_up(token).await?;
        let mut tokens = lock();
        if tokens.len() >= REMEMBERED_MAX {
            tokens.clear();
        }
        tokens.insert(token.to_owned(), (Instant::now(), who.clone()));
        Ok(who)
    }

    async fn look_up(&self, token: &str) -> Result<Option<Who>, Problem> {
        let Some(presented) = Presented::read(token) else { return Ok(None) };
        let store = self.engine.store();
        let card = store.card(presented.namespace.as_str(), CARD, &presented.id).await?;
        let stored = card.and_then(|card| serde_json::from_str::<Token>(&card.record).ok());
        let now = store.ground().now.wall;
        let stored = stored.filter(|stored| presented.is(stored, now));
        Ok(stored.map(|stored| Who {
            namespace: presented.namespace,
            role: stored.role,
            actor: stored.label,
            expires: stored.expires,
        }))
    }

    /// Whether anybody has made a token: from then on every request needs one.
    pub(crate) async fn has_tokens(&self) -> Result<bool, Problem> {
        let lock = || self.known.any.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((seen, any)) = *lock()
            && (any || seen.elapsed() < BELIEVED)
        {
            return Ok(any);
        }
        let query = CardQuery { namespace: None, kind: CARD.to_owned(), after: None, limit: 1 };
        // One that cannot be read is one all the same.
        let any = self.engine.store().cards(&query).await?.next.is_some();
        *lock() = Some((Instant::now(), any));
        Ok(any)
    }

    /// Whether the request was meant for us, and not sent by a page of another site: on a server
    /// without tokens anything in a browser could otherwise reach it.
    pub(crate) fn check_origin(&self, method: &Method, headers: &HeaderMap) -> Result<(), Problem> {
        let refused = |what: &str| Problem::new(Code::HostRefused, format!("{what} is not ours"));
        let text =
            |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("\u{fffd}"));
        let host = text(header::HOST).map(without_port);
        let is_local = self.settings.listen.ip().is_loopback();
        let ours = &self.settings.hosts;
        let public = self.settings.public_url.as_deref().map(authority).map(without_port);
        let named = ours.iter().map(String::as_str).chain(public);
        let is_named = |host: &str| named.clone().any(|name| name.eq_ignore_ascii_case(host));
        let is_known = |host: &str| is_named(host) || is_local && is_loopback(host);
        if (is_local || !ours.is_empty()) && !host.is_some_and(is_known) {
            return Err(refused("the host"));
        }
        let changes = !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
        // A page that sends no referrer cannot name its origin; then the browser itself says
        // whether the page is one of ours.
        let site = text(HeaderName::from_static("sec-fetch-site"));
        let is_own = |origin: &&str| *origin == "null" && site == Some("same-origin");
        if let Some(origin) = text(header::ORIGIN).filter(|one| changes && !is_own(one)) {
            let from = origin.split_once("://").map(|(_, rest)| without_port(rest));
            if !from.is_some_and(|from| is_known(from) || Some(from) == host) {
                return Err(refused("the origin"));
            }
        }
        Ok(())
    }
}

/// The token of a request. A header that is there and cannot be read is a wrong token, not none.
fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let unknown = || Problem::new(Code::Unauthenticated, "a token is needed");
    let mut lines = headers.get_all(header::AUTHORIZATION).iter();
    let Some(line) = lines.next() else {
        // No-code tools can often set a header, but not this one.
        return match headers.get("x-semel-token").map(|value| value.to_str()) {
            None => Ok(None),
            Some(Ok(token)) => Ok(Some(token)),
            Some(Err(_)) => Err(unknown()),
        };
    };
    if lines.next().is_some() {
        return Err(unknown());
    }
    let text = line.to_str().map_err(|_| unknown())?;
    let (scheme, token) = text.split_once(' ').ok_or_else(unknown)?;
    match scheme.eq_ignore_ascii_case("bearer") {
        true => Ok(Some(token.trim())),
        false => Err(unknown()),
    }
}

/// Host and port of an address.
pub(crate) fn authority(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split('/').next().unwrap_or_default()
}

fn without_port(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or(host, |(name, _)| name),
        None => host.split_once(':').map_or(host, |(name, _)| name),
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.parse::<std::net::IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|ip| ip.is_loopback())
}

/// The one who asks on an open route: a viewer of nothing.
fn nobody() -> Who {
    let (namespace, actor) = (Namespace::default(), "anybody".to_owned());
    Who { namespace, role: Role::Viewer, actor, expires: None }
}
