//! A worker over HTTP that lost its lease: its word changes nothing.

use std::sync::Arc;
use std::time::Duration;

use semel_core::code::Code;
use semel_core::effect::{Abort, Begin, Report, Settle};
use semel_core::json::Json;
use semel_core::key::Namespace;
use semel_core::wire_ask::BeginAsk;
use semel_engine::{Answer, Armed, Engine};
use serde_json::json;

use crate::served::Served;

fn ask(lease: &str) -> Begin {
    let body = json!({ "action": "mail", "key": "k", "contract": "harmless",
                       "lease": lease, "deadline": lease });
    let ask: BeginAsk = serde_json::from_value(body).expect("a request");
    ask.begin(&Namespace::default(), "").expect("a wish")
}

async fn armed(engine: &Engine, lease: &str) -> Armed {
    for _ in 0..500 {
        match engine.begin(ask(lease), 0).await {
            Ok(Answer::Attempt(armed)) => return *armed,
            Ok(other) => panic!("{other:?}"),
            Err(error) => assert_eq!(error.code(), Code::InProgress, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("its lease does not end");
}

fn says(fence: u64, report: Report) -> Settle {
    Settle { fence, report, retry_after_ms: None }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i5_a_remote_worker_under_a_stale_fence_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let served = Served::quiet(&format!("sqlite:{}/semel.db", folder.path().display())).await;
    let mut engines = Vec::new();
    for name in ["stale", "next"] {
        let token = served.token("default", semel_core::access::Role::Worker).await;
        let remote = Arc::new(served.remote(&token).await);
        engines.push(Engine::new(remote, name).expect("an engine"));
    }
    let (stale, next) = (&engines[0], &engines[1]);
    let old = armed(stale, "100ms").await;
    let new = armed(next, "30s").await;
    let (address, fence) = (ask("30s").address, old.permit.fence);
    let before = next.effect(&address).await.expect("it is there");
    for report in [
        Report::NotApplied { reason: "refused".into(), last: false },
        Report::NotApplied { reason: "never".into(), last: true },
    ] {
        let error = stale.settle(&address, &says(fence, report)).await.expect_err("stale");
        assert_eq!(error.code(), Code::StaleFence, "{error}");
    }
    let error = stale.renew(&address, fence, Abort::Possible).await.expect_err("stale");
    assert_eq!(error.code(), Code::StaleFence, "{error}");
    assert_eq!(next.effect(&address).await.expect("it is there"), before);
    let receipt = || Report::Receipt(Json::of("new").expect("JSON"));
    next.settle(&address, &says(new.permit.fence, receipt())).await.expect("it holds the lease");
    let done = next.effect(&address).await.expect("it is there");
    assert_eq!(done.receipt().expect("done").text(), "\"new\"");
}
