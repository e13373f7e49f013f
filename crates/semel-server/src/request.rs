//! From bytes on a socket to an admitted call, and back. Order matters: origin, room, credential,
//! share, body. Nothing is looked up for a request that may not ask.

use std::collections::BTreeMap;
use std::io::Read;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{RawPathParams, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use http_body_util::BodyExt;
use semel_core::access::Permission;
use semel_core::code::Code;
use tokio::sync::OwnedSemaphorePermit;
use tracing::Instrument;

use crate::admit::Lane;
use crate::app::App;
use crate::auth::BELIEVED;
use crate::operate::{self, metrics, traces};
use crate::problem::Problem;
use crate::route::{Access, Call, Reply, Route, bad_query};

/// What is still read of a body that was refused: a client that is not done sending would see a
/// broken connection, and not the answer.
const REFUSED_BYTES_MAX: usize = 8 * 1024 * 1024;
const REFUSED_TIME: Duration = Duration::from_secs(2);

/// Answers one request of a route.
pub(crate) async fn answer(
    app: Arc<App>,
    route: Arc<Route>,
    path: RawPathParams,
    request: Request,
) -> Response {
    let id = request_id(request.headers());
    // Nothing is called by a name that cannot be printed, and not every store could look for it.
    let plain = |value: &str| if value.contains(char::is_control) { "" } else { value }.to_owned();
    let path = path.iter().map(|(name, value)| (name.to_owned(), plain(value))).collect();
    let span = traces::request(&route, &id, request.headers());
    let began = Instant::now();
    let answering = async {
        let replied = handle(&app, &route, path, request, &id).await;
        let reply = replied.unwrap_or_else(|problem| problem.reply(&id));
        tracing::debug!(
            method = %route.method, path = route.path,
            status = reply.status.as_u16(), "answered"
        );
        reply
    };
    let reply = answering.instrument(span.clone()).await;
    traces::answered(&span, reply.status.as_u16());
    metrics::answered(&route, reply.status, began.elapsed());
    respond(reply, &id)
}

async fn handle(
    app: &Arc<App>,
    route: &Route,
    path: BTreeMap<String, String>,
    request: Request,
    id: &str,
) -> Result<Reply, Problem> {
    let (parts, mut body) = request.into_parts();
    let replied = admitted(app, route, path, (parts, &mut body), id).await;
    if replied.is_err() {
        let _ = tokio::time::timeout(REFUSED_TIME, pass_over(body)).await;
    }
    replied
}

/// Reads what a client still sends, and keeps nothing of it.
async fn pass_over(mut body: Body) {
    let mut read = 0;
    while let Some(Ok(frame)) = body.frame().await
        && read < REFUSED_BYTES_MAX
    {
        read += frame.data_ref().map_or(0, Bytes::len);
    }
}

async fn admitted(
    app: &Arc<App>,
    route: &Route,
    path: BTreeMap<String, String>,
    (parts, body): (Parts, &mut Body),
    id: &str,
) -> Result<Reply, Problem> {
    check_head(app, &parts)?;
    let access = operate::access(app, route);
    // Whoever probes calls us by an address that nobody has configured, and learns nothing.
    if access != Access::Open || !route.operation.is_probe {
        app.check_origin(&parts.method, &parts.headers)?;
    }
    if route.operation.is_probe {
        let query = BTreeMap::new();
        let who = app.authorise(access, &parts.headers).await?;
        let (app, headers, request_id) = (app.clone(), parts.headers, id.to_owned());
        let call = Call { app, who, path, query, headers, body: Bytes::new(), request_id };
        return (route.handler)(call).await;
    }
    if app.is_draining() {
        let text = "the server is shutting down";
        return Err(Problem::new(Code::Overloaded, text).retry_after(1_000));
    }
    let lane = Lane::of(route.access);
    let mut place = app.admission.enter(lane)?;
    let who = app.authorise(route.access, &parts.headers).await?;
    if lane == Lane::Known {
        app.admission.share(&mut place, &who.namespace)?;
    }
    let query = query(parts.uri.query().unwrap_or_default(), route)?;
    let (body, _room) = read_body(app, route, &parts.headers, body).await?;
    let (app, headers, request_id) = (app.clone(), parts.headers, id.to_owned());
    let (again, asked) = ((app.clone(), headers.clone()), Instant::now());
    let call = Call { app, who, path, query, headers, body, request_id };
    // Whoever hangs up leaves its place in the queue; what was committed for it stays.
    let replied = match AssertUnwindSafe((route.handler)(call)).catch_unwind().await {
        Ok(replied) => replied?,
        Err(_) => return Err(Problem::new(Code::Internal, "the handler panicked")),
    };
    // Who only looks, and has waited, may have lost the right to meanwhile.
    if only_looks(route.access) && asked.elapsed() > BELIEVED {
        again.0.authorise(route.access, &again.1).await?;
    }
    Ok(replied)
}

fn only_looks(access: Access) -> bool {
    matches!(access, Access::Needs(Permission::Follow | Permission::Read))
}

/// The library refuses heads that do not fit into its buffer, which may have grown with a body.
fn check_head(app: &App, parts: &Parts) -> Result<(), Problem> {
    let lines = parts.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4);
    let bytes = parts.uri.path_and_query().map_or(0, |path| path.as_str().len());
    if bytes + lines.sum::<usize>() > app.settings.limits.header_bytes {
        let text = "the head of the request is larger than this server takes";
        return Err(Problem::new(Code::HeadTooLarge, text));
    }
    Ok(())
}

/// The query, of which each name is known and stands once.
fn query(text: &str, route: &Route) -> Result<BTreeMap<String, String>, Problem> {
    let mut query = BTreeMap::new();
    let pairs: Vec<(String, String)> = serde_urlencoded(text)?;
    for (name, value) in pairs {
        let is_known = route.operation.query.iter().any(|one| one.name == name);
        let is_strict = route.access != Access::Open;
        if !is_known && is_strict {
            return Err(bad_query(&printable(&name), "known here"));
        }
        if value.contains(char::is_control) {
            return Err(bad_query(&printable(&name), "printable"));
        }
        if query.insert(name.clone(), value).is_some() && is_strict {
            return Err(bad_query(&printable(&name), "there once"));
        }
    }
    Ok(query)
}

fn printable(name: &str) -> String {
    name.chars().take(40).filter(|c| !c.is_control()).collect()
}

fn serde_urlencoded(text: &str) -> Result<Vec<(String, String)>, Problem> {
    let uri = format!("/?{text}").parse::<axum::http::Uri>();
    let invalid = || Problem::new(Code::RequestInvalid, "the query cannot be read");
    let uri = uri.map_err(|_| invalid())?;
    let read = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(&uri);
    Ok(read.map_err(|_| invalid())?.0)
}

/// The whole body, unpacked, within the limits of size and time.
async fn read_body(
    app: &App,
    route: &Route,
    headers: &HeaderMap,
    body: &mut Body,
) -> Result<(Bytes, Option<OwnedSemaphorePermit>), Problem> {
    if route.method == Method::GET || route.method == Method::HEAD {
        return Ok((Bytes::new(), None));
    }
    let limits = app.settings.limits;
    let said = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    let said = said.and_then(|text| text.parse::<usize>().ok()).unwrap_or(0);
    let most = route.operation.body_bytes.unwrap_or(limits.body_bytes);
    if said > most {
        return Err(too_large());
    }
    let lane = Lane::of(route.access);
    let reading = collect(app, body, most, lane);
    let (packed, mut room) =
        match tokio::time::timeout(Duration::from_millis(limits.read_ms), reading).await {
            Ok(read) => read?,
            Err(_) => {
                return Err(Problem::new(Code::RequestInvalid, "the body did not arrive in time"));
            }
        };
    // Some bytes are signed as they came: whoever reads them unpacks them.
    if route.operation.is_raw {
        return Ok((packed, Some(room)));
    }
    let body = unpack(headers, packed, most)?;
    app.admission.room(lane, &mut room, body.len())?;
    if route.operation.takes_json {
        check_kind(headers, &body)?;
    }
    Ok((body, Some(room)))
}

/// Reads chunk by chunk, so that a body without a length is cut off at the limit, too.
async fn collect(
    app: &App,
    body: &mut Body,
    most: usize,
    lane: Lane,
) -> Result<(Bytes, OwnedSemaphorePermit), Problem> {
    let mut read = BytesMut::new();
    // Taken as bytes arrive: what is only announced keeps nobody out.
    let mut room = app.admission.no_room(lane);
    while let Some(frame) = body.frame().await {
        let cut = || Problem::new(Code::RequestInvalid, "the body was cut");
        let Ok(data) = frame.map_err(|_| cut())?.into_data() else { continue };
        if read.len() + data.len() > most {
            return Err(too_large());
        }
        read.extend_from_slice(&data);
        app.admission.room(lane, &mut room, read.len())?;
    }
    Ok((read.freeze(), room))
}

/// What counts is the content, however it was packed.
pub(crate) fn unpack(headers: &HeaderMap, packed: Bytes, most: usize) -> Result<Bytes, Problem> {
    let mut kinds = headers.get_all(header::CONTENT_ENCODING).iter().map(HeaderValue::as_bytes);
    let is = |kind: &[u8], name: &str| kind.eq_ignore_ascii_case(name.as_bytes());
    match (kinds.next(), kinds.next()) {
        (None, _) => Ok(packed),
        (Some(kind), None) if is(kind, "identity") => Ok(packed),
        (Some(kind), None) if is(kind, "gzip") || is(kind, "x-gzip") => {
            let mut body = Vec::new();
            let mut reader = flate2::read::MultiGzDecoder::new(&packed[..]).take(most as u64 + 1);
            let invalid = |_| Problem::new(Code::RequestInvalid, "the body is not gzip");
            reader.read_to_end(&mut body).map_err(invalid)?;
            if body.len() > most { Err(too_large()) } else { Ok(body.into()) }
        }
        _ => Err(Problem::new(Code::MediaUnsupported, "the content encoding is unknown")),
    }
}

/// A form of a web page can send text, but not JSON: another site's page could otherwise post one.
fn check_kind(headers: &HeaderMap, body: &Bytes) -> Result<(), Problem> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = kind.and_then(|text| text.split(';').next()).map(str::trim);
    let is_json = |kind: &str| {
        kind.eq_ignore_ascii_case("application/json")
            || kind.to_ascii_lowercase().ends_with("+json")
    };
    match kind {
        Some(kind) if is_json(kind) => Ok(()),
        None if body.is_empty() => Ok(()),
        _ => Err(Problem::new(Code::MediaUnsupported, "the content type is not JSON")),
    }
}

fn too_large() -> Problem {
    Problem::new(Code::BodyTooLarge, "the body is larger than this server takes")
}

/// What a request that meets no route gets.
pub(crate) fn stray(app: &App, request: &Request, problem: &Problem) -> Response {
    let id = request_id(request.headers());
    let problem = match app.check_origin(request.method(), request.headers()) {
        Ok(()) => problem.reply(&id),
        Err(refused) => refused.reply(&id),
    };
    respond(problem, &id)
}

/// The caller's own id, where it is fit to be logged; else a new one.
fn request_id(headers: &HeaderMap) -> String {
    let given = headers.get("x-request-id").and_then(|value| value.to_str().ok());
    let fits = |id: &&str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        (1..=64).contains(&id.len()) && id.chars().all(plain)
    };
    given.filter(fits).map_or_else(new_id, str::to_owned)
}

fn new_id() -> String {
    let mut bytes = [0; 12];
    // Without chance it is still an answer; the id is for people.
    let _ = getrandom::fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn respond(reply: Reply, id: &str) -> Response {
    let mut response = Response::new(Body::from(reply.body));
    *response.status_mut() = reply.status;
    let headers = response.headers_mut();
    headers.extend(reply.headers);
    let id = HeaderValue::from_str(id).unwrap_or(HeaderValue::from_static("unknown"));
    headers.insert(HeaderName::from_static("x-request-id"), id);
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("x-frame-options", "DENY"),
    ] {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    if !headers.contains_key(header::CONTENT_SECURITY_POLICY) {
        let policy = "default-src 'none'; frame-ancestors 'none'";
        headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    }
    if reply.status == StatusCode::NO_CONTENT {
        headers.remove(header::CONTENT_TYPE);
    }
    response
}
