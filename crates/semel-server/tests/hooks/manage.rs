//! Triggers over the API and from the server's file.

use std::collections::BTreeMap;

use semel_core::hook;
use semel_server::{OpenError, Server, Settings};
use serde_json::json;

use crate::kit::{Stage, now, on_both, standard};

#[tokio::test(flavor = "multi_thread")]
async fn a_trigger_is_put_shown_listed_removed_and_refused_by_name() {
    on_both(|stage| async move {
        let declared = json!({ "scheme": "standard", "redelivers_for": "7d" });
        stage.put_new("orders", declared.clone()).await;
        assert_eq!(stage.put("orders", declared).await.status, 200, "it says the same");
        let shown = stage.get("/v1/triggers/orders").await.body;
        assert_eq!((&shown["path"], &shown["version"]), (&json!("/hooks/orders"), &json!(1)));
        assert_eq!(shown["declared"]["secret"], json!(stage.file("secret")));
        let listed = stage.get("/v1/triggers").await.body;
        assert_eq!((&listed["items"][0], &listed["next"]), (&shown, &json!(null)));
        let beyond = json!({ "scheme": "standard", "redelivers_for": "31d" });
        stage.put("orders", beyond).await.refused(400, "retry_beyond_retention");
        stage.put("orders", json!({ "scheme": "md5" })).await.refused(400, "trigger_invalid");
        stage.put("a~b", json!({ "scheme": "stripe" })).await.refused(400, "trigger_invalid");
        let elsewhere = json!({ "scheme": "stripe", "namespace": "other" });
        stage.put("orders", elsewhere).await.refused(400, "trigger_invalid");
        stage.deliver("orders", "msg_1", "{}").await.run(202);
        assert_eq!(stage.verdicts("orders").await.len(), 1);
        assert_eq!(stage.delete("/v1/triggers/orders").await.status, 204);
        stage.delete("/v1/triggers/orders").await.refused(404, "not_found");
        stage.get("/v1/triggers/orders/deliveries").await.refused(404, "not_found");
        stage.deliver("orders", "msg_2", "{}").await.refused(401, "signature_invalid");
        assert_eq!(stage.runs().await, 1, "its runs stay");
        // A new one of the name begins with an empty list, and knows its deliveries again.
        stage.put_new("orders", json!({ "scheme": "standard" })).await;
        assert_eq!(stage.verdicts("orders").await.len(), 0);
        stage.deliver("orders", "msg_1", "{}").await.run(200);
        let audit = stage.get("/v1/audit").await.body;
        let entries = audit["items"].as_array().expect("entries").clone();
        let verbs: Vec<_> = entries.iter().map(|entry| entry["verb"].clone()).collect();
        assert_eq!(verbs, ["put_trigger", "remove_trigger", "put_trigger"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn triggers_of_the_servers_file_are_there_when_it_starts() {
    let dir = tempfile::tempdir().expect("a folder");
    let secret = dir.path().join("secret");
    std::fs::write(&secret, crate::kit::SECRET).expect("a file");
    let declared = |rest: &str| {
        let secret = format!("file:{}", secret.display());
        let text = format!(r#"{{"workflow":"w","scheme":"standard","secret":"{secret}"{rest}}}"#);
        hook::parse(&text).expect("a content")
    };
    let triggers = BTreeMap::from([
        ("orders".to_owned(), declared("")),
        ("shop".to_owned(), declared(r#","namespace":"acme""#)),
    ]);
    let stage = Stage::on_sqlite(triggers).await;
    stage.deliver("orders", "msg_1", "{}").await.run(202);
    // By its name alone, or with its namespace; there it does not meet the one before.
    let id = stage.deliver("shop", "msg_1", "{}").await.run(202);
    let headers = standard("msg_1", now(), "{}");
    assert_eq!(stage.post("/hooks/acme/shop", &headers, "{}").await.run(200), id);
    assert_eq!(stage.runs().await, 1, "the other one is in its own namespace");
    stage.get("/v1/triggers/shop").await.refused(404, "not_found");
    let store = format!("sqlite:{}", dir.path().join("semel.db").display());
    let settings = Settings {
        triggers: BTreeMap::from([("bad".to_owned(), declared(r#","redelivers_for":"90d""#))]),
        ..Settings::new(&store, "127.0.0.1:0".parse().expect("an address"))
    };
    let refused = Server::bind(settings).await.err().expect("it does not start");
    let OpenError::Engine(error) = refused else { panic!("{refused}") };
    assert_eq!(error.code().as_str(), "retry_beyond_retention");
    assert!(error.detail().starts_with("[triggers.bad]"), "{error}");
}
