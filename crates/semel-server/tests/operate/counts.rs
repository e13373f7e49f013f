//! `/metrics`, on both databases.

use semel_core::access::Role;
use semel_server::operate::METRICS;
use serde_json::json;

use crate::place::Place;

fn value(text: &str, name: &str) -> f64 {
    let line = text.lines().find(|line| line.starts_with(&format!("{name} ")));
    let line = line.unwrap_or_else(|| panic!("{name} is not in\n{text}"));
    line.rsplit(' ').next().expect("a value").parse().expect("a number")
}

/// One effect in doubt, one done, one run that waits for a worker.
async fn act(place: &Place) {
    let cut = place.begin("counts-charge", "canary-1", &[]).await;
    let unknown = json!({ "unknown": true, "reason": "timeout" });
    place.settle("counts-charge", "canary-1", &cut["fence"], unknown).await;
    let begun = place.begin("counts-charge", "canary-2", &[]).await;
    place.settle("counts-charge", "canary-2", &begun["fence"], json!({ "receipt": 1 })).await;
    place.begin("counts-charge", "canary-2", &[]).await;
    let start = json!({ "input": 1 });
    let (status, started) = place.ask("/v1/workflows/counts/runs", &start, &[]).await;
    assert_eq!(status, 201, "{started}");
}

async fn check(place: &Place, store: &str) {
    act(place).await;
    let (status, text) = place.get("/metrics").await;
    assert_eq!(status, 200, "{text}");
    for (name, want) in [
        ("semel_effects_in_doubt", 1.0),
        ("semel_approvals_held", 0.0),
        ("semel_effects_alarmed", 0.0),
        ("semel_store_up", 1.0),
        ("semel_runs{state=\"ready\"}", 1.0),
        ("semel_runs{state=\"paused\"}", 0.0),
        ("semel_keys_in_flight", 0.0),
        ("semel_quarantine_open", 0.0),
    ] {
        assert!((value(&text, name) - want).abs() < 0.5, "{name}\n{text}");
    }
    assert!(value(&text, "semel_oldest_in_doubt_seconds") >= 0.0);
    assert!(value(&text, &format!("semel_store_commit_seconds_count{{store=\"{store}\"}}")) > 0.0);
    let done = "semel_effects_total{kind=\"at_most_once\",outcome=\"done\"}";
    assert!(value(&text, done) >= 1.0);
    let begins =
        "semel_http_requests_total{method=\"post\",route=\"/v1/effects/begin\",status=\"200\"}";
    assert!(value(&text, begins) >= 3.0, "{text}");
    assert!(!text.contains("canary"), "case S9: no key is a label\n{text}");
    // All that is shown is written down, with its meaning.
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    for name in types.filter_map(|line| line.split(' ').next()) {
        assert!(METRICS.iter().any(|metric| metric.name == name), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn case_s9_what_there_is_to_look_after_is_counted_on_sqlite() {
    check(&Place::new().await, "sqlite").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_there_is_to_look_after_is_counted_on_postgres() {
    let database = semel_lab::database();
    let store = format!("{}&migrate=true", database.url());
    check(&Place::on(&store, |settings| settings).await, "postgres").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_ask_for_a_token_of_any_role_and_probes_for_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = format!("sqlite:{}", folder.path().join("semel.db").display());
    let place = Place::on(&store, |settings| settings).await;
    let mut tokens = Vec::new();
    for role in Role::ALL {
        let body = json!({ "label": role.as_str(), "role": role.as_str() });
        let headers: Vec<(&str, String)> = tokens.first().cloned().into_iter().collect();
        let headers: Vec<(&str, &str)> = headers.iter().map(|(n, v)| (*n, v.as_str())).collect();
        let (status, made) = place.ask("/v1/tokens", &body, &headers).await;
        assert!(status < 300, "{made}");
        let token = made["token"].as_str().expect("a token");
        tokens.push(("authorization", format!("Bearer {token}")));
    }
    // That there was none yet is believed for half a second.
    while place.get("/metrics").await.0 != 401 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(place.get("/healthz").await.0, 200);
    assert_eq!(place.get("/readyz").await.0, 200);
    for (name, token) in &tokens {
        let asked = place.client.get(format!("{}/metrics", place.url)).header(*name, token);
        assert_eq!(asked.send().await.expect("an answer").status().as_u16(), 200, "{token}");
    }
    drop(place);
    let open = Place::on(&store, |mut settings| {
        settings.metrics_token_required = false;
        settings
    });
    assert_eq!(open.await.get("/metrics").await.0, 200, "opened by the settings");
}
