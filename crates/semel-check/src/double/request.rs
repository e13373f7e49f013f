//! A request as the double sees it: whole, and read before anything is decided.

use axum::body::Bytes;
use axum::http::{HeaderMap, Method, Uri};
use semel_core::canonical::canonical;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) query: Vec<(String, String)>,
    pub(super) headers: HeaderMap,
    /// What the body says, of JSON and of forms; otherwise empty.
    pub(super) members: Map<String, Value>,
    /// Of the body: equal for equal JSON, however it is laid out.
    pub(super) digest: String,
}

impl Request {
    pub(super) fn read(method: &Method, uri: &Uri, headers: HeaderMap, body: &Bytes) -> Request {
        let query = uri.query().unwrap_or_default();
        Request {
            method: method.as_str().to_owned(),
            path: uri.path().to_owned(),
            query: pairs(query.as_bytes()),
            members: members(&headers, body),
            headers,
            digest: digest(body),
        }
    }

    pub(super) fn header(&self, name: &str) -> Option<String> {
        let value = self.headers.get(name)?;
        Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
    }

    pub(super) fn is_look(&self) -> bool {
        !matches!(self.method.as_str(), "POST" | "PUT" | "PATCH" | "DELETE")
    }
}

/// Names and values of a query or a form.
fn pairs(text: &[u8]) -> Vec<(String, String)> {
    url::form_urlencoded::parse(text).into_owned().collect()
}

fn members(headers: &HeaderMap, body: &Bytes) -> Map<String, Value> {
    let kind = headers.get("content-type").map(axum::http::HeaderValue::as_bytes);
    if kind.is_some_and(|kind| kind.starts_with(b"application/x-www-form-urlencoded")) {
        return pairs(body).into_iter().map(|(name, value)| (name, value.into())).collect();
    }
    match serde_json::from_slice(body) {
        Ok(Value::Object(members)) => members,
        Ok(_) | Err(_) => Map::new(),
    }
}

fn digest(body: &[u8]) -> String {
    let bytes = canonical(body).map_or_else(|| body.to_vec(), String::into_bytes);
    let hash = Sha256::digest(&bytes);
    let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}
