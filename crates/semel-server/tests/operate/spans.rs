//! Spans, as a collector gets them.

use semel::{Failure, NativeKey, Retry, Semel};
use serde_json::json;

use crate::place::Place;
use crate::watched::{WATCHED, hex, member, traceparent};

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Fails once, then gives a receipt.
async fn send(semel: &Semel, action: &str) -> String {
    let sent = semel
        .effect(action)
        .key("canary-key")
        .input(&json!({ "card": "canary-input" }))
        .contract(NativeKey::hours(24))
        .retry(Retry { delay_ms: 0, delay_ms_max: 0, ..Retry::default() })
        .call(|intent| async move {
            let _ = intent.downstream_key();
            match intent.attempt() {
                1 => Err(Failure::not_applied("canary-reason")),
                _ => Ok("canary-receipt".to_owned()),
            }
        });
    sent.await.expect("a receipt")
}

#[test]
fn req_v1_v5_attempts_are_spans_and_a_replay_points_to_the_one_that_happened() {
    WATCHED.run(async {
        let folder = tempfile::tempdir().expect("a folder");
        let store = format!("sqlite:{}", folder.path().join("semel.db").display());
        let semel = Semel::open(&store).await.expect("a store");
        send(&semel, "spans-charge").await;
        drop(semel);
        // Another process, as far as anybody can tell.
        let semel = Semel::open(&store).await.expect("a store");
        send(&semel, "spans-charge").await;
        let spans = WATCHED.spans("spans-charge").await;
        let seen = |name: &str| spans.iter().map(|span| member(span, name)).collect::<Vec<_>>();
        let texts = |all: [&str; 3]| all.map(|text| Some(text.to_owned())).to_vec();
        assert_eq!(seen("semel.effect.attempt"), texts(["1", "2", "2"]), "{spans:#?}");
        assert_eq!(seen("semel.effect.state"), texts(["planned", "done", "done"]));
        assert_eq!(seen("semel.effect.replayed"), texts(["false", "false", "true"]));
        assert_eq!(seen("semel.namespace"), texts(["default"; 3]));
        let hashes = seen("semel.effect.key_hash");
        assert!(hashes[0].is_some() && hashes.iter().all(|hash| *hash == hashes[0]));
        let status = spans.iter().map(|it| it.status.as_ref().map_or(0, |it| it.code));
        assert_eq!(status.collect::<Vec<_>>(), [2, 1, 0], "failed, then done, then nothing to do");
        // The replay points to the second attempt, and to nothing else.
        let [link] = &spans[2].links[..] else { panic!("one link: {:?}", spans[2]) };
        assert_eq!((&link.trace_id, &link.span_id), (&spans[1].trace_id, &spans[1].span_id));
        assert!(spans[0].links.is_empty() && spans[1].links.is_empty());
        assert!(!String::from_utf8_lossy(&WATCHED.sent()).contains("canary"), "a payload was sent");
    });
}

#[test]
fn req_v5_the_trace_is_kept_with_the_attempt_and_begins_at_the_caller() {
    WATCHED.run(async {
        let place = Place::new().await;
        let begun = place.begin("spans-http", "1", &[("traceparent", PARENT)]).await;
        let receipt = json!({ "receipt": "canary-receipt" });
        place.settle("spans-http", "1", &begun["fence"], receipt).await;
        let attempt = place.effect("spans-http", "1").await.attempts[0].clone();
        let kept = attempt.traceparent.expect("a trace");
        assert_eq!(&kept[..36], &PARENT[..36], "the caller's trace goes on");
        assert_ne!(kept, PARENT, "it is a span of its own");
        let again = place.begin("spans-http", "1", &[]).await;
        assert_eq!(again["outcome"], "replay");
        let spans = WATCHED.spans("spans-http").await;
        assert_eq!(traceparent(&spans[0]), kept);
        let replay = spans.last().expect("a replay");
        let [link] = &replay.links[..] else { panic!("one link: {replay:?}") };
        assert_eq!(format!("00-{}-{}-01", hex(&link.trace_id), hex(&link.span_id)), kept);
        // What is shown of the effect has it, too.
        let (_, shown) = place.get("/v1/effects?action=spans-http").await;
        assert!(shown.contains(&kept), "{shown}");
        let requests = WATCHED.spans("POST /v1/effects/begin").await;
        let ours = requests.iter().find(|span| hex(&span.trace_id) == PARENT[3..35]);
        let ours = ours.expect("the span of the request");
        assert_eq!(hex(&ours.parent_span_id), PARENT[36..52]);
        assert_eq!(member(ours, "http.response.status_code").as_deref(), Some("200"));
        assert!(!String::from_utf8_lossy(&WATCHED.sent()).contains("canary"), "a payload was sent");
    });
}

#[test]
fn a_collector_that_answers_nobody_stops_nothing() {
    WATCHED.run(async {
        let place = Place::new().await;
        WATCHED.send_away(true);
        for key in 0..20 {
            let begun = place.begin("spans-away", &key.to_string(), &[]).await;
            let receipt = json!({ "receipt": key });
            place.settle("spans-away", &key.to_string(), &begun["fence"], receipt).await;
        }
        assert_eq!(place.get("/healthz").await.0, 200);
        WATCHED.send_away(false);
        assert_eq!(WATCHED.spans("spans-away").await.len(), 40, "begun and settled");
    });
}
