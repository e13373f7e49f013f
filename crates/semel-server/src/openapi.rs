//! The description of the API, OpenAPI 3.1, made from the routes themselves.

use axum::http::Method;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::route::{Access, Route};

/// Writes the schema of a type.
type Shape = fn(&mut SchemaGenerator) -> schemars::Schema;

/// What is said of a route beside its path.
#[derive(Clone)]
pub(crate) struct Operation {
    pub(crate) id: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) query: &'static [Parameter],
    /// The key in the header makes it safe to repeat.
    pub(crate) takes_key: bool,
    pub(crate) takes_json: bool,
    /// No body is `null`, or an object of which every member is left out.
    pub(crate) is_body_optional: bool,
    /// The body is handed over as it came, packed or not: its bytes are signed.
    pub(crate) is_raw: bool,
    /// Answered however busy the server is.
    pub(crate) is_probe: bool,
    /// Its bodies may be larger than those of other routes.
    pub(crate) body_bytes: Option<usize>,
    /// For people: no part of the API.
    pub(crate) is_page: bool,
    pub(crate) request: Option<Shape>,
    pub(crate) response: Option<Shape>,
    /// Statuses of success, with what they mean.
    pub(crate) answers: &'static [(u16, &'static str)],
    pub(crate) answer_kind: &'static str,
}

/// A parameter of the query.
#[derive(Clone, Copy)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) schema: fn() -> Value,
}

impl Operation {
    pub(crate) const fn new(id: &'static str, summary: &'static str) -> Operation {
        Operation {
            id,
            summary,
            query: &[],
            takes_key: false,
            takes_json: false,
            is_body_optional: false,
            is_raw: false,
            is_probe: false,
            body_bytes: None,
            is_page: false,
            request: None,
            response: None,
            answers: &[(200, "done")],
            answer_kind: "application/json",
        }
    }

    pub(crate) const fn query(self, query: &'static [Parameter]) -> Operation {
        Operation { query, ..self }
    }

    /// Takes a body of this shape.
    pub(crate) fn takes<T: JsonSchema>(self) -> Operation {
        Operation { takes_json: true, request: Some(SchemaGenerator::subschema_for::<T>), ..self }
    }

    /// Answers with a body of this shape, whatever the status of success.
    pub(crate) fn returns<T: JsonSchema>(self) -> Operation {
        Operation { response: Some(SchemaGenerator::subschema_for::<T>), ..self }
    }

    /// Takes any JSON.
    pub(crate) const fn takes_any_json(self) -> Operation {
        Operation { takes_json: true, ..self }
    }

    /// Takes any JSON, or nothing.
    pub(crate) const fn takes_payload(self) -> Operation {
        Operation { takes_json: true, is_body_optional: true, ..self }
    }

    /// Its body may be left out.
    pub(crate) const fn optional(self) -> Operation {
        Operation { is_body_optional: true, ..self }
    }

    pub(crate) const fn raw(self) -> Operation {
        Operation { is_raw: true, ..self }
    }

    pub(crate) const fn keyed(self) -> Operation {
        Operation { takes_key: true, ..self }
    }

    pub(crate) const fn answers(self, answers: &'static [(u16, &'static str)]) -> Operation {
        Operation { answers, ..self }
    }

    pub(crate) const fn kind(self, answer_kind: &'static str) -> Operation {
        Operation { answer_kind, ..self }
    }

    pub(crate) const fn large(self, body_bytes: usize) -> Operation {
        Operation { body_bytes: Some(body_bytes), ..self }
    }

    pub(crate) const fn page(self) -> Operation {
        Operation { is_page: true, answer_kind: "text/html", ..self }
    }

    pub(crate) const fn probe(self) -> Operation {
        Operation { is_probe: true, ..self }
    }
}

/// An object of which nothing more is said here: it has a document of its own.
pub(crate) struct Object;

impl JsonSchema for Object {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Object".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "object" })
    }
}

/// `limit` and `after` of every list.
pub(crate) const PAGE: [Parameter; 2] = [
    Parameter { name: "limit", what: "rows of a page", schema: limit },
    Parameter { name: "after", what: "the `next` of the page before", schema: text },
];

pub(crate) fn text() -> Value {
    json!({ "type": "string" })
}

pub(crate) fn limit() -> Value {
    json!({ "type": "integer", "minimum": 1, "maximum": semel_core::limits::PAGE_ROWS_MAX })
}

pub(crate) fn flag() -> Value {
    json!({ "type": "string", "enum": ["true", "false"] })
}

/// The whole description.
pub fn document() -> Value {
    let routes = crate::api::routes();
    check(&routes);
    let mut schemas = Schemas::new();
    let mut paths: Map<String, Value> = Map::new();
    for route in routes.iter().filter(|route| !route.operation.is_page) {
        let item = paths.entry(route.path).or_insert_with(|| json!({}));
        let method = route.method.as_str().to_ascii_lowercase();
        item[method] = operation(route, &mut schemas);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Semel",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Every external effect happens once per business intent, every repeat \
                            gets the first receipt, and the ledger proves it.",
            "license": { "name": "Apache-2.0 OR MIT", "identifier": "Apache-2.0 OR MIT" },
        },
        "servers": [{ "url": "/" }],
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            "schemas": schemas.all(),
        },
    })
}

/// The schemas of bodies. What may be left out differs by direction, so each has its own.
struct Schemas {
    asked: SchemaGenerator,
    answered: SchemaGenerator,
}

impl Schemas {
    fn new() -> Schemas {
        let settings = SchemaSettings::draft2020_12()
            .with(|settings| settings.definitions_path = "/components/schemas".into());
        Schemas {
            asked: settings.clone().into_generator(),
            answered: settings.for_serialize().into_generator(),
        }
    }

    fn all(mut self) -> Map<String, Value> {
        let mut all = self.asked.take_definitions(true);
        for (name, schema) in self.answered.take_definitions(true) {
            let other = all.insert(name.clone(), schema.clone());
            assert!(other.is_none_or(|other| other == schema), "{name} means two things");
        }
        all.insert("Problem".to_owned(), problem());
        all
    }
}

fn operation(route: &Route, schemas: &mut Schemas) -> Value {
    let operation = &route.operation;
    let mut described = json!({
        "operationId": operation.id,
        "summary": operation.summary,
        "tags": [tag(route.path)],
        "parameters": parameters(route),
        "responses": responses(operation, &mut schemas.answered),
    });
    match route.access {
        Access::Open => described["security"] = json!([]),
        Access::Needs(permission) => described["x-permission"] = json!(permission.as_str()),
    }
    if operation.takes_json {
        let schema = operation.request.map(|shape| json!(shape(&mut schemas.asked)));
        described["requestBody"] = json!({
            "required": !operation.is_body_optional,
            "content": { "application/json": { "schema": schema.unwrap_or(json!({})) } },
        });
    }
    described
}

fn tag(path: &str) -> &str {
    let mut parts = path.trim_start_matches('/').split('/');
    match parts.next() {
        Some("v1") => parts.next().unwrap_or("v1"),
        Some(first) => first,
        None => "other",
    }
}

fn parameters(route: &Route) -> Vec<Value> {
    let mut found: Vec<Value> = names(route.path)
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": text() }))
        .collect();
    found.extend(route.operation.query.iter().map(|one| {
        let schema = (one.schema)();
        json!({ "name": one.name, "in": "query", "description": one.what, "schema": schema })
    }));
    if route.operation.takes_key {
        found.push(json!({
            "name": "Idempotency-Key", "in": "header",
            "description": "names the request: the same key again changes nothing, and is answered \
                            as a repeat (`Idempotent-Replayed: true`)",
            "schema": { "type": "string", "minLength": 1, "maxLength": 255 },
        }));
    }
    found
}

fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

fn responses(operation: &Operation, generator: &mut SchemaGenerator) -> Value {
    let mut found = Map::new();
    for (status, what) in operation.answers {
        let shape = operation.response.map(|shape| json!({ "schema": shape(generator) }));
        let content = json!({ operation.answer_kind: shape.unwrap_or_else(|| json!({})) });
        let described = match status {
            204 => json!({ "description": what }),
            _ => json!({ "description": what, "content": content }),
        };
        found.insert(status.to_string(), described);
    }
    let problem = json!({ "$ref": "#/components/schemas/Problem" });
    found.insert(
        "default".to_owned(),
        json!({
            "description": "why not, with a stable code",
            "content": { "application/problem+json": { "schema": problem } },
        }),
    );
    Value::Object(found)
}

fn problem() -> Value {
    json!({
        "type": "object",
        "required": ["type", "title", "status", "code", "detail", "hint", "request_id"],
        "properties": {
            "type": { "type": "string" },
            "title": { "type": "string" },
            "status": { "type": "integer" },
            "code": { "type": "string" },
            "detail": { "type": "string" },
            "hint": { "type": "string" },
            "request_id": { "type": "string" },
        },
    })
}

/// Ids are unique, and a route that changes something by a body says so.
pub(crate) fn check(routes: &[Route]) {
    let mut ids: Vec<_> = routes.iter().map(|route| route.operation.id).collect();
    ids.sort_unstable();
    let count = ids.len();
    ids.dedup();
    assert_eq!(ids.len(), count, "two routes have one operation id");
    for route in routes {
        let reads = route.method == Method::GET;
        assert!(!(reads && route.operation.takes_json), "{} reads a body", route.path);
    }
}
