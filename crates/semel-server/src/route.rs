//! What a route is. It names who may use it: one that does not cannot be written down.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use semel_core::access::{Permission, Role};
use semel_core::code::Code;
use semel_core::key::{Key, Namespace};
use semel_core::time::Wall;
use semel_store::Unreadable;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::app::App;
use crate::openapi::Operation;
use crate::problem::{Problem, key_of};

/// Who may use a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Anybody: it says nothing of a namespace, or the request carries a credential of its own.
    Open,
    Needs(Permission),
}

pub(crate) type Handler =
    Arc<dyn Fn(Call) -> BoxFuture<'static, Result<Reply, Problem>> + Send + Sync>;

/// One method of one path.
#[derive(Clone)]
pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    pub(crate) access: Access,
    pub(crate) operation: Operation,
    pub(crate) handler: Handler,
}

impl Route {
    pub(crate) fn new<F, A>(
        method: Method,
        path: &'static str,
        access: Access,
        operation: Operation,
        handler: F,
    ) -> Route
    where
        F: Fn(Call) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Reply, Problem>> + Send + 'static,
    {
        let handler: Handler = Arc::new(move |call| Box::pin(handler(call)));
        Route { method, path, access, operation, handler }
    }

    pub(crate) fn get<F, A>(
        path: &'static str,
        access: Access,
        operation: Operation,
        handler: F,
    ) -> Route
    where
        F: Fn(Call) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Reply, Problem>> + Send + 'static,
    {
        Route::new(Method::GET, path, access, operation, handler)
    }

    pub(crate) fn post<F, A>(
        path: &'static str,
        access: Access,
        operation: Operation,
        handler: F,
    ) -> Route
    where
        F: Fn(Call) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Reply, Problem>> + Send + 'static,
    {
        Route::new(Method::POST, path, access, operation, handler)
    }
}

/// Who asks, by the credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Who {
    pub(crate) namespace: Namespace,
    pub(crate) role: Role,
    /// The label of the token: the actor of what is decided with it.
    pub(crate) actor: String,
    /// When the token ends.
    pub(crate) expires: Option<Wall>,
}

impl Who {
    /// Whether it may see tokens of callbacks: whoever may signal a run anyway.
    pub(crate) fn sees_tokens(&self) -> bool {
        self.role.may(Permission::Start)
    }
}

/// A request that was admitted.
pub(crate) struct Call {
    pub(crate) app: Arc<App>,
    pub(crate) who: Who,
    pub(crate) path: BTreeMap<String, String>,
    pub(crate) query: BTreeMap<String, String>,
    pub(crate) headers: HeaderMap,
    /// Unpacked, within the limit.
    pub(crate) body: Bytes,
    pub(crate) request_id: String,
}

impl Call {
    /// A parameter of the path.
    pub(crate) fn param(&self, name: &str) -> &str {
        self.path.get(name).map_or("", String::as_str)
    }

    /// The body as a request.
    pub(crate) fn ask<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        let invalid = |error: serde_json::Error| {
            Problem::new(Code::RequestInvalid, format!("the body cannot be read: {error}"))
        };
        let text = std::str::from_utf8(&self.body)
            .map_err(|_| Problem::new(Code::RequestInvalid, "the body is not UTF-8"))?;
        // Whoever says nothing leaves out what may be left out.
        let text = if text.is_empty() { "{}" } else { text };
        // A list of an object's members is read as the object by the library: nobody means that.
        if text.trim_start().starts_with('[') {
            return Err(Problem::new(Code::RequestInvalid, "the body is a list, not an object"));
        }
        serde_json::from_str(text).map_err(invalid)
    }

    /// The key in the header.
    pub(crate) fn idempotency_key(&self) -> Result<Option<Key>, Problem> {
        key_of(&self.headers)
    }

    /// How many rows a list gives at most.
    pub(crate) fn limit(&self) -> Result<usize, Problem> {
        let Some(text) = self.query.get("limit") else { return Ok(50) };
        let most = semel_core::limits::PAGE_ROWS_MAX;
        match text.parse::<usize>() {
            Ok(limit) if (1..=most).contains(&limit) => Ok(limit),
            _ => Err(bad_query("limit", &format!("a number from 1 to {most}"))),
        }
    }

    /// The cursor of a list.
    pub(crate) fn after<T: std::str::FromStr>(&self) -> Result<Option<T>, Problem> {
        let after = self.query.get("after").map(|text| text.parse());
        after.transpose().map_err(|_| bad_query("after", "the `next` of a page"))
    }

    /// The keys that the one in the query may mean, in the order in which they are looked for: a
    /// key as views show it, then the text as it is. No key is any.
    pub(crate) fn keys(&self) -> Result<Vec<Option<Key>>, Problem> {
        let Some(text) = self.query.get("key") else { return Ok(vec![None]) };
        let plain = Key::from_text(text);
        let shown = Key::parse(text).ok().filter(|shown| plain.as_ref() != Ok(shown));
        match (shown, plain) {
            (None, plain) => Ok(vec![Some(plain?)]),
            (shown, plain) => Ok(vec![shown, plain.ok()]),
        }
    }

    /// The namespace, or its draft twin where that is asked for.
    pub(crate) fn namespace(&self) -> Result<Namespace, Problem> {
        match self.query.get("draft").map(String::as_str) {
            None | Some("false") => Ok(self.who.namespace.clone()),
            Some("true") => Ok(self.who.namespace.draft()),
            Some(_) => Err(bad_query("draft", "`true` or `false`")),
        }
    }
}

pub(crate) fn bad_query(name: &str, want: &str) -> Problem {
    Problem::new(Code::RequestInvalid, format!("`{name}` in the query is not {want}"))
}

/// A page of a list. Never a `Value`: what callers stored is returned as they wrote it, and a value
/// that is parsed and printed again is not.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PageOf{T}")]
pub(crate) struct Page<T> {
    pub(crate) items: Vec<T>,
    pub(crate) next: Option<String>,
    /// Rows of this page that are there and cannot be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unreadable: Vec<UnreadableView>,
}

/// A row that is damaged, or whose key is not here.
#[derive(Serialize, JsonSchema)]
pub(crate) struct UnreadableView {
    /// `action/key` of an effect, the id of a run, else its name.
    name: String,
    code: &'static str,
    detail: String,
}

impl<T> Page<T> {
    pub(crate) fn of(items: Vec<T>, next: Option<String>) -> Page<T> {
        Page { items, next, unreadable: Vec::new() }
    }

    /// The same with rows that cannot be read.
    pub(crate) fn and(mut self, unreadable: Vec<Unreadable>) -> Page<T> {
        self.unreadable.extend(unreadable.into_iter().map(UnreadableView::from));
        self
    }
}

impl From<Unreadable> for UnreadableView {
    fn from(Unreadable { name, code, why, .. }: Unreadable) -> UnreadableView {
        UnreadableView { name, code: code.as_str(), detail: why }
    }
}

/// Bytes of a page, beyond which it ends early: rows may be large, and anybody may ask for many.
const PAGE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Rows that are read for a page at once.
const READ_ROWS_MAX: usize = 50;

/// The rows of a page, as they are shown.
pub(crate) struct Rows {
    items: Vec<Box<RawValue>>,
    unreadable: Vec<Unreadable>,
    bytes: usize,
    limit: usize,
}

impl Rows {
    pub(crate) fn up_to(limit: usize) -> Rows {
        Rows { items: Vec::new(), unreadable: Vec::new(), bytes: 0, limit }
    }

    pub(crate) fn push<T: Serialize + ?Sized>(&mut self, row: &T) {
        let text = serde_json::value::to_raw_value(row).expect("a view is plain data");
        self.bytes += text.get().len();
        self.items.push(text);
    }

    /// Sets rows aside that cannot be read.
    pub(crate) fn set_aside(&mut self, unreadable: Vec<Unreadable>) {
        self.unreadable.extend(unreadable);
    }

    /// How many more to read; none when the page is full.
    pub(crate) fn more(&self) -> usize {
        let left =
            self.limit.saturating_sub(self.items.len() + self.unreadable.len()).min(READ_ROWS_MAX);
        if self.bytes < PAGE_BYTES_MAX { left } else { 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty() && self.unreadable.is_empty()
    }

    pub(crate) fn page(self, next: Option<String>) -> Page<Box<RawValue>> {
        Page::of(self.items, next).and(self.unreadable)
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Reply {
    pub(crate) fn json<T: Serialize + ?Sized>(status: StatusCode, body: &T) -> Reply {
        let text = serde_json::to_vec(body).expect("a view is plain data");
        Reply::bytes(status, "application/json", text)
    }

    pub(crate) fn ok<T: Serialize + ?Sized>(body: &T) -> Reply {
        Reply::json(StatusCode::OK, body)
    }

    pub(crate) fn bytes(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Reply {
        let reply = Reply { status, headers: HeaderMap::new(), body: body.into() };
        reply.header(header::CONTENT_TYPE, kind)
    }

    /// The same with a header.
    pub(crate) fn header(mut self, name: impl IntoName, value: &'static str) -> Reply {
        self.headers.insert(name.into_name(), HeaderValue::from_static(value));
        self
    }

    /// Marked as the answer that somebody got before.
    pub(crate) fn replayed(self, is_replayed: bool) -> Reply {
        match is_replayed {
            true => self.header("idempotent-replayed", "true"),
            false => self,
        }
    }
}

/// A header's name, known to the library or written out.
pub(crate) trait IntoName {
    fn into_name(self) -> HeaderName;
}

impl IntoName for HeaderName {
    fn into_name(self) -> HeaderName {
        self
    }
}

impl IntoName for &'static str {
    fn into_name(self) -> HeaderName {
        HeaderName::from_static(self)
    }
}
