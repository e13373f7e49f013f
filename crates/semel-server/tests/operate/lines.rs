//! Lines, as operators read them, at the most talkative level.

use serde_json::{Value, json};

use crate::place::Place;
use crate::watched::WATCHED;

#[test]
fn case_s9_no_body_receipt_or_secret_is_in_any_line() {
    WATCHED.run(async {
        let place = Place::new().await;
        let secret = [("authorization", "Bearer semel_default.canary.canary-token")];
        let begun = place.begin("lines-charge", "1", &[]).await;
        let receipt = json!({ "receipt": { "id": "canary-receipt" } });
        place.settle("lines-charge", "1", &begun["fence"], receipt).await;
        let replay = place.begin("lines-charge", "1", &[]).await;
        assert_eq!(replay["receipt"]["id"], "canary-receipt", "{replay}");
        // Refusals quote nothing either.
        let changed = json!({
            "action": "lines-charge", "key": "1", "input": "canary-other",
            "contract": "at_most_once",
        });
        assert_eq!(place.ask("/v1/effects/begin", &changed, &[]).await.0, 422);
        assert_eq!(place.ask("/v1/effects/begin", &json!("canary-shape"), &[]).await.0, 400);
        assert_eq!(place.ask("/v1/effects/begin", &changed, &secret).await.0, 401);
        let cut = place.begin("lines-charge", "2", &[]).await;
        let unknown = json!({ "unknown": true, "reason": "timeout" });
        place.settle("lines-charge", "2", &cut["fence"], unknown).await;
        let start = json!({ "input": { "card": "canary-run" } });
        place.ask("/v1/workflows/lines/runs", &start, &[]).await;
        let (_, metrics) = place.get("/metrics").await;
        let lines = WATCHED.lines();
        assert!(lines.contains("answered"), "lines are written at all");
        assert!(!lines.contains("canary"), "{lines}");
        assert!(!metrics.contains("canary"), "{metrics}");
    });
}

#[test]
fn every_line_of_a_request_carries_its_id() {
    WATCHED.run(async {
        let place = Place::new().await;
        let id = [("x-request-id", "lines-request-7")];
        place.begin("lines-id", "1", &id).await;
        let lines = WATCHED.lines();
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let ours: Vec<Value> =
            lines.filter(|line| line.to_string().contains("lines-request-7")).collect();
        let answered = ours.iter().find(|line| line["message"] == "answered").expect("a line");
        assert_eq!(answered["spans"][0]["request"], "lines-request-7", "{answered}");
        assert_eq!(answered["status"], 200, "{answered}");
        assert_eq!(answered["path"], "/v1/effects/begin", "{answered}");
    });
}
