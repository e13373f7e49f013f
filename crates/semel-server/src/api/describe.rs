//! The description of the API, for machines and for people.

use std::sync::LazyLock;

use axum::http::{StatusCode, header};
use bytes::Bytes;
use maud::{DOCTYPE, html};
use serde_json::Value;

use crate::openapi::{self, Object, Operation};
use crate::problem::Problem;
use crate::route::{Access, Call, Reply, Route};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get(
            "/openapi.json",
            Access::Open,
            Operation::new("openapi", "This description").returns::<Object>(),
            machine,
        ),
        Route::get(
            "/docs",
            Access::Open,
            Operation::new("docs", "The same, to read").kind("text/html"),
            page,
        ),
    ]
}

/// Made once: anybody may ask for it, as often as they like.
async fn machine(_: Call) -> Result<Reply, Problem> {
    static TEXT: LazyLock<Bytes> = LazyLock::new(|| openapi::document().to_string().into());
    Ok(Reply::bytes(StatusCode::OK, "application/json", TEXT.clone()))
}

async fn page(_: Call) -> Result<Reply, Problem> {
    static TEXT: LazyLock<Bytes> = LazyLock::new(|| readable(&openapi::document()).into());
    let reply = Reply::bytes(StatusCode::OK, "text/html; charset=utf-8", TEXT.clone());
    let policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'";
    Ok(reply.header(header::CONTENT_SECURITY_POLICY, policy))
}

fn readable(document: &Value) -> String {
    let rows: Vec<(String, String, Value)> = operations(document);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Semel API" }
                style { (maud::PreEscaped(STYLE)) }
            }
            body {
                h1 { "Semel API " small { (text(&document["info"]["version"])) } }
                p { (text(&document["info"]["description"])) " The same for machines: "
                    a href="/openapi.json" { "/openapi.json" } "." }
                @for (method, path, operation) in &rows {
                    section {
                        h2 { code { (method.to_uppercase()) " " (path) } }
                        p { (text(&operation["summary"])) }
                        @if let Some(permission) = operation["x-permission"].as_str() {
                            p.quiet { "needs the permission " code { (permission) } }
                        }
                        @for parameter in operation["parameters"].as_array().into_iter().flatten() {
                            p.quiet { code { (text(&parameter["name"])) } " in the "
                                (text(&parameter["in"])) " " (text(&parameter["description"])) }
                        }
                        @let content = &operation["requestBody"]["content"];
                        @let body = &content["application/json"]["schema"];
                        @if !body.is_null() {
                            details { summary { "body" } pre { (shape(body, document)) } }
                        }
                        @for (status, answer) in answers(operation) {
                            details {
                                summary { "answer " (status) ": " (text(&answer["description"])) }
                                pre { (shape(&answer["content"]["application/json"]["schema"],
                                    document)) }
                            }
                        }
                    }
                }
            }
        }
    };
    page.into_string()
}

/// What an operation answers with JSON, by status.
fn answers(operation: &Value) -> Vec<(&String, &Value)> {
    let answers = operation["responses"].as_object().into_iter().flatten();
    let is_json = |answer: &Value| !answer["content"]["application/json"]["schema"].is_null();
    answers.filter(|(_, answer)| is_json(answer)).collect()
}

fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let paths = document["paths"].as_object().into_iter().flatten();
    paths
        .flat_map(|(path, item)| {
            let methods = item.as_object().into_iter().flatten();
            methods.map(move |(method, one)| (method.clone(), path.clone(), one.clone()))
        })
        .collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The schema of a body, its reference followed once.
fn shape(schema: &Value, document: &Value) -> String {
    let name = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next());
    let schema = name.map_or(schema, |name| &document["components"]["schemas"][name]);
    serde_json::to_string_pretty(schema).unwrap_or_default()
}

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;\
padding:0 1rem;color:#1a1a1a}h2{font-size:1rem;margin:1.5rem 0 0}p{margin:.2rem 0}\
.quiet{color:#666;font-size:.9rem}pre{background:#f5f5f5;padding:1rem;overflow:auto}";
