//! The scripted model, over real HTTP.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{calls, serve};

async fn start(dir: &TempDir) -> String {
    tokio::spawn(serve(dir.path().to_owned()));
    loop {
        match std::fs::read_to_string(dir.path().join("model.addr")) {
            Ok(url) => return url,
            Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    }
}

async fn ask(url: &str, script: &str) -> reqwest::Result<Value> {
    let url = format!("{url}/classify{script}");
    let question = json!({ "model": "m", "subject": "Help", "text": "It burns" });
    reqwest::Client::new().post(url).json(&question).send().await?.json().await
}

#[tokio::test]
async fn every_call_gets_the_same_answer_and_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let url = start(&dir).await;
    let answer = json!({ "category": "hardware", "urgent": true });
    assert_eq!(
        (ask(&url, "").await.unwrap(), ask(&url, "").await.unwrap()),
        (answer.clone(), answer)
    );
    assert_eq!(calls(dir.path()).unwrap().len(), 2);
}

#[tokio::test]
async fn a_call_that_is_cut_or_late_is_counted_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let url = start(&dir).await;
    let cut = ask(&url, "?cut=true").await.unwrap_err();
    assert!(!cut.is_connect() && cut.status().is_none(), "{cut:?}");
    assert_eq!(calls(dir.path()).unwrap().len(), 1);
    let started = Instant::now();
    ask(&url, "?late_ms=150").await.unwrap();
    assert!(started.elapsed() >= Duration::from_millis(150));
    assert_eq!(calls(dir.path()).unwrap().len(), 2);
}
