//! The description of the API is the list of what is tried: a route that nobody thought of here
//! fails.

use semel_core::access::Role;
use serde_json::{Value, json};

use crate::door::{Door, on_both, send};

/// One method of one path, as the description has it.
pub(crate) struct Operation {
    pub(crate) id: String,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) permission: Option<String>,
}

pub(crate) fn operations() -> Vec<Operation> {
    let document = semel_server::openapi_document();
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            found.push(Operation {
                id: operation["operationId"].as_str().unwrap().to_owned(),
                method: method.to_uppercase(),
                path: path.clone(),
                permission: operation["x-permission"].as_str().map(str::to_owned),
            });
        }
    }
    found
}

#[test]
fn the_description_that_is_checked_in_is_the_one_that_is_served() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
    let text = format!("{:#}\n", semel_server::openapi_document());
    if std::env::var_os("SEMEL_WRITE_OPENAPI").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert!(kept == text, "docs/openapi.json is old: run with SEMEL_WRITE_OPENAPI=1");
}

/// Answers in JSON whose shape is said elsewhere: between our own programs, and to senders.
const SHAPELESS: &[&str] = &[
    "worker_hello",
    "worker_read",
    "worker_commit",
    "worker_hints",
    "receive_webhook",
    "receive_webhook_in",
];

#[test]
fn every_answer_in_json_has_a_schema() {
    let document = semel_server::openapi_document();
    let mut count = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for operation in item.as_object().unwrap().values() {
            let id = operation["operationId"].as_str().unwrap();
            for (status, answer) in operation["responses"].as_object().unwrap() {
                let json = &answer["content"]["application/json"];
                if json.is_null() || SHAPELESS.contains(&id) {
                    continue;
                }
                assert!(!json["schema"].is_null(), "{path} {status}: `{id}` returns what?");
                count += 1;
            }
        }
    }
    assert!(count >= 40, "{count}");
}

/// A body with which the route gets as far as looking for what its path names.
fn body(id: &str) -> Option<Value> {
    let why = json!({ "reason": "sweep" });
    Some(match id {
        "resolve_effect" => json!({ "decision": "failed", "reason": "sweep", "version": 1 }),
        "grant_effect" | "supersede_effect" | "void_effect" => {
            json!({ "reason": "sweep", "version": 1 })
        }
        "gate_done" => json!({ "receipt": 1 }),
        "gate_failed" => json!({ "applied": "no" }),
        "cancel_run" | "retry_run" | "fail_run" | "pause_schedule" => why,
        "skip_step" => json!({ "step": "a", "value": 1, "reason": "sweep" }),
        "move_run" => json!({ "release": "r", "reason": "sweep" }),
        "signal_run" => json!(1),
        "decide_approval" => json!({ "decision": "deny", "digest": "x", "note": "sweep" }),
        "create_approval_link" => json!({ "approver": "ada", "expires_in": "1h" }),
        "promote_release" => json!({ "release": "r", "reason": "sweep" }),
        "revoke_token" | "resume_schedule" | "remove_schedule" | "remove_trigger" => Value::Null,
        _ => return None,
    })
}

/// Everything that a namespace can have, made in it.
struct Things {
    effect: String,
    gate: String,
    run: String,
    schedule: String,
    trigger: String,
    token: String,
}

async fn things(door: &Door) -> Things {
    let effect = door.done("swept", json!(1), json!("theirs")).await;
    let gate = door.post("/v1/gate", &json!({ "action": "mail", "key": "g" })).await.is(200).json();
    let run = door.keyed("/v1/workflows/swept/runs", "r", &json!({})).await.is(201).json();
    let schedule = json!({ "workflow": "swept", "cron": "0 8 * * *" });
    send(door.request("PUT", "/v1/schedules/swept").json(&schedule)).await.is(201);
    let trigger = json!({ "workflow": "swept", "scheme": "stripe", "secret": "env:SWEPT" });
    send(door.request("PUT", "/v1/triggers/swept").json(&trigger)).await.is(201);
    let token = json!({ "label": "x", "role": "viewer" });
    let token = door.post("/v1/tokens", &token).await.is(201).json();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    Things {
        effect,
        gate: text(&gate["id"]),
        run: text(&run["id"]),
        schedule: "swept".to_owned(),
        trigger: "swept".to_owned(),
        token: text(&token["id"]),
    }
}

impl Things {
    /// What a parameter of a path stands for; `None` where it is no id of a namespace.
    fn name(&self, path: &str, parameter: &str) -> Option<&str> {
        match parameter {
            "{id}" if path.starts_with("/v1/effects") => Some(&self.effect),
            "{id}" if path.starts_with("/v1/approvals") => Some(&self.effect),
            "{id}" if path.starts_with("/v1/gate") => Some(&self.gate),
            "{id}" if path.starts_with("/v1/runs") => Some(&self.run),
            "{id}" if path.starts_with("/v1/tokens") => Some(&self.token),
            "{name}" if path.starts_with("/v1/schedules") => Some(&self.schedule),
            "{name}" if path.starts_with("/v1/triggers") => Some(&self.trigger),
            _ => None,
        }
    }
}

/// Routes whose path names nothing of a namespace, or something that anybody may make.
const ELSEWHERE: &[&str] = &[
    "start_run",
    "put_schedule",
    "answer_callback",
    "put_trigger",
    // Named by workflows, of which each namespace has its own: see their tests.
    "show_releases",
    "promote_release",
    // Pages and links, whose token is the credential: see their tests.
    "show_approval_page",
    "decide_approval_page",
    "receive_webhook",
    "receive_webhook_in",
    "show_error",
];

#[tokio::test]
async fn sec_1_the_ids_of_another_namespace_are_the_same_404_as_ids_that_never_were() {
    on_both(async |door| {
        let theirs = things(&door.to("acme", Role::Admin).await).await;
        let bolt = door.to("bolt", Role::Admin).await;
        let never = Things {
            effect: "AAAAAAAAAAAAAAAAeA".to_owned(),
            gate: "AAAAAAAAAAAAAAAAeA.1".to_owned(),
            run: "00000000-0000-8000-8000-000000000000".to_owned(),
            schedule: "never".to_owned(),
            trigger: "never".to_owned(),
            token: "000000000000".to_owned(),
        };
        let mut swept = 0;
        for operation in operations() {
            let is_page = operation.path.starts_with("/console");
            let is_elsewhere = ELSEWHERE.contains(&operation.id.as_str());
            if !operation.path.contains('{') || is_page || is_elsewhere {
                continue;
            }
            let path_of = |own: &str| operation.path.starts_with(own);
            let ask = async |things: &Things| {
                let mut path = operation.path.replace("{name}", "go");
                if ["/v1/schedules", "/v1/triggers"].iter().any(|own| path_of(own)) {
                    path = operation.path.clone();
                }
                for parameter in ["{id}", "{name}"] {
                    if path.contains(parameter) {
                        let name = things.name(&operation.path, parameter);
                        let name =
                            name.unwrap_or_else(|| panic!("{} is not swept", operation.path));
                        path = path.replace(parameter, name);
                    }
                }
                let request = bolt.request(&operation.method, &path);
                match body(&operation.id) {
                    Some(body) => send(request.json(&body)).await,
                    None if operation.method == "GET" => send(request).await,
                    None => panic!("{} has no body to be swept with", operation.id),
                }
            };
            let (other, none) = (ask(&theirs).await, ask(&never).await);
            assert_eq!(other.status, 404, "{}: {}", operation.id, other.text);
            assert_eq!(other.comparable(), none.comparable(), "{}", operation.id);
            swept += 1;
        }
        assert!(swept >= 20, "{swept}");
        let admin = door.to("acme", Role::Admin).await;
        let effect = admin.get(&format!("/v1/effects/{}", theirs.effect)).await.is(200).json();
        assert_eq!(effect["state"], "done", "untouched");
        admin.get("/v1/schedules/swept").await.is(200);
        admin.get("/v1/triggers/swept").await.is(200);
    })
    .await;
}
