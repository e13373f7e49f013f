//! Declared secrets over HTTP: whatever a request says, no store keeps one and no answer shows one.

use std::net::SocketAddr;

use semel::{Context, Error, Semel};
use semel_core::redact::Redactor;
use semel_server::Settings;
use semel_store::Veil;
use serde_json::{Value, json};

use crate::door::{Answer, Door, file};

const SECRET: &str = "sk_live/\"zq8\"";
const SHOWN: &str = "[redacted:API]";

fn telling(text: &str) -> String {
    format!("{text} {SECRET}")
}

fn shown(text: &str) -> Value {
    json!(format!("{text} {SHOWN}"))
}

/// An answer in which nothing of the secret stands.
fn clean(answer: &Answer) -> Value {
    assert!(!answer.text.contains("sk_live") && !answer.text.contains("zq8"), "{}", answer.text);
    answer.json()
}

/// Plays a story on both stores of a server that knows the secret, then reads all they keep.
async fn kept_clean(story: impl AsyncFn(Door)) {
    let open = async |store: String| {
        let redactor = Redactor::new([("API".to_owned(), SECRET.to_owned())]).expect("a secret");
        let listen: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let veil = Veil::new(None, redactor);
        Door::of(Settings { veil, ..Settings::new(store, listen) }).await
    };
    let folder = tempfile::tempdir().unwrap();
    story(open(file(&folder)).await).await;
    let mut all = String::new();
    for entry in std::fs::read_dir(folder.path()).unwrap().flatten() {
        if entry.path().is_file() {
            all += &String::from_utf8_lossy(&std::fs::read(entry.path()).unwrap());
        }
    }
    let database = semel_lab::database();
    story(open(database.url()).await).await;
    for text in [
        "SELECT record FROM effects",
        "SELECT record FROM runs",
        "SELECT entry FROM journal",
        "SELECT payload FROM inbox",
        "SELECT record FROM cards",
    ] {
        all += &database.psql(text);
    }
    assert!(!all.contains("sk_live") && !all.contains("zq8"), "the secret is kept");
    assert!(all.contains(SHOWN), "nothing was told");
}

#[tokio::test(flavor = "multi_thread")]
async fn inv_i23_nothing_that_is_told_over_http_is_kept_with_a_secret() {
    kept_clean(async |door| {
        let ask = |key: &str| json!({ "action": "mail", "key": key, "input": telling("Bearer") });
        let begun = clean(&door.begin(ask("done")).await.is(200));
        assert_eq!(begun["input"], shown("Bearer"));
        let receipt = json!({ "receipt": { "id": telling("M-1") } });
        door.settle("done", &begun["fence"], receipt).await.is(200);
        let replay = clean(&door.begin(ask("done")).await.is(200));
        assert_eq!(replay["receipt"]["id"], shown("M-1"));
        let begun = clean(&door.begin(ask("doubt")).await.is(200));
        let unknown = json!({ "unknown": true, "reason": telling("cut") });
        door.settle("doubt", &begun["fence"], unknown).await.is(200);
        let path = format!("/v1/effects/{}", begun["id"].as_str().unwrap());
        let seen = clean(&door.get(&path).await.is(200));
        let word = json!({ "decision": "done", "receipt": telling("M-2"),
                           "reason": telling("seen at"), "version": seen["version"] });
        let resolved = clean(&door.post(&format!("{path}/resolve"), &word).await.is(200));
        assert_eq!(resolved["receipt"], shown("M-2"));
        assert_eq!(resolved["decisions"][0]["reason"], shown("seen at"));
        assert_eq!(clean(&door.begin(ask("doubt")).await.is(200))["receipt"], shown("M-2"));
        let audit = clean(&door.get("/v1/audit").await.is(200));
        assert_eq!(audit["items"][0]["reason"], shown("seen at"));
        // Where it cannot be taken out, nothing is begun.
        let exposed = door.begin(ask(&telling("key"))).await;
        assert!(exposed.status >= 400, "{exposed:?}");
        assert_eq!(clean(&exposed)["code"], "secret_exposed");
        a_run(&door).await;
    })
    .await;
}

/// The input of a run, a signal to it, and what it makes of both.
async fn a_run(door: &Door) {
    let semel = Semel::on(door.app.engine().clone());
    let worker = semel.worker().workflow("tell", |ctx: Context, input: Value| async move {
        let came: Value = ctx.wait_for_signal("go").await?;
        Ok::<_, Error>(json!([input, came]))
    });
    drop(worker.start().unwrap());
    let run = door.start("tell", "r-1", json!(telling("input"))).await;
    let signal = json!(telling("signal"));
    door.keyed(&format!("{run}/signals/go"), "s-1", &signal).await.is(200);
    let result = clean(&door.get(&format!("{run}/result?wait=20s")).await.is(200));
    assert_eq!(result["result"], json!([shown("input"), shown("signal")]));
    clean(&door.get(&format!("{run}/journal")).await.is(200));
}

#[tokio::test(flavor = "multi_thread")]
async fn inv_i23_nothing_that_is_told_at_the_gate_is_kept_with_a_secret() {
    kept_clean(async |door| {
        let ask = async |key: &str| {
            let body = json!({ "action": "mail", "key": key, "input": telling("Bearer") });
            clean(&door.post("/v1/gate", &body).await.is(200))
        };
        let go = ask("done").await;
        let path = format!("/v1/gate/{}/done", go["id"].as_str().unwrap());
        let done = clean(&door.post(&path, &json!({ "receipt": telling("M-1") })).await.is(200));
        assert_eq!((&done["decision"], &done["receipt"]), (&json!("done"), &shown("M-1")));
        assert_eq!(ask("done").await["receipt"], shown("M-1"), "the same input, the same receipt");
        let go = ask("failed").await;
        let path = format!("/v1/gate/{}/failed", go["id"].as_str().unwrap());
        let word = json!({ "applied": "unknown", "reason": telling("cut at") });
        assert_eq!(clean(&door.post(&path, &word).await.is(200))["decision"], "in_doubt");
        assert_eq!(ask("failed").await["decision"], "in_doubt");
        let found = clean(&door.get("/v1/effects?action=mail&key=failed").await.is(200));
        let told = found["items"][0]["attempts"].to_string();
        assert!(told.contains(SHOWN), "{found}");
    })
    .await;
}
