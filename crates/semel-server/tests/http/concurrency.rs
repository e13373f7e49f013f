//! Many callers of one key.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use semel_server::Limits;
use serde_json::json;

use crate::door::{Door, file, on_both, on_both_with};

fn quick() -> Limits {
    Limits { hold_ms: 400, ..Limits::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn case_c1_a_hundred_equal_requests_are_one_effect_and_ninety_nine_replays() {
    on_both(async |door| {
        let ask = || door.begin(json!({ "action": "mail", "key": "c1", "input": { "a": 1 } }));
        let work = async |answer: crate::door::Answer| {
            let begun = answer.is(200);
            let body = begun.json();
            if body["outcome"] == "attempt" {
                tokio::time::sleep(Duration::from_millis(50)).await;
                door.settle("c1", &body["fence"], json!({ "receipt": { "id": "M-1" } }))
                    .await
                    .is(200);
                return None;
            }
            assert_eq!(body["receipt"], json!({ "id": "M-1" }), "{body}");
            Some(begun.header("idempotent-replayed") == Some("true"))
        };
        let answers = join_all((0..100).map(|_| async { work(ask().await).await })).await;
        assert_eq!(answers.iter().filter(|answer| answer.is_none()).count(), 1);
        assert_eq!(answers.iter().filter(|answer| **answer == Some(true)).count(), 99);
        assert_eq!(door.count().await, 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_c2_two_servers_on_one_store_let_one_claim_win() {
    let folder = tempfile::tempdir().unwrap();
    let database = semel_lab::database();
    for store in [file(&folder), database.url()] {
        let doors = [Door::on(&store, quick()).await, Door::on(&store, quick()).await];
        for round in 0..10 {
            let body = json!({ "action": "mail", "key": format!("c2-{round}"), "input": 1 });
            let asked = doors.iter().cycle().take(8).map(|door| door.begin(body.clone()));
            let answers = join_all(asked).await;
            let won = |answer: &&crate::door::Answer| answer.json()["outcome"] == "attempt";
            assert_eq!(answers.iter().filter(won).count(), 1, "{answers:?}");
        }
    }
}

#[tokio::test]
async fn case_c4_a_duplicate_is_held_and_then_told_when_to_come_again() {
    on_both_with(quick(), async |door| {
        let body = json!({ "action": "mail", "key": "c4", "input": 1 });
        door.begin(body.clone()).await.is(200);
        let asked = Instant::now();
        let told = door.begin(body.clone()).await.refused(409, "in_progress");
        assert!(asked.elapsed() >= Duration::from_millis(380), "{:?}", asked.elapsed());
        assert_eq!(told.header("x-should-retry"), Some("true"));
        assert_eq!(told.header("stripe-should-retry"), Some("true"));
        let seconds: u64 = told.header("retry-after").unwrap().parse().unwrap();
        let ms: u64 = told.header("retry-after-ms").unwrap().parse().unwrap();
        assert!((1..=30).contains(&seconds) && (1..=30_000).contains(&ms));
    })
    .await;
}

#[tokio::test]
async fn case_c5_c6_callers_that_hang_up_leave_nothing_behind() {
    on_both(async |door| {
        let body = json!({ "action": "mail", "key": "c6", "input": 1 });
        let begun = door.begin(body.clone()).await.is(200).json();
        let request = || door.request("POST", "/v1/effects/begin").json(&body);
        let gone = (0..20).map(|_| request().timeout(Duration::from_millis(150)).send());
        assert!(join_all(gone).await.iter().all(Result::is_err), "nobody waited for an answer");
        let engine = door.app.engine();
        let patience = Instant::now();
        while engine.keys_in_flight() > 0 {
            assert!(patience.elapsed() < Duration::from_secs(10), "waiters were left behind");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        door.settle("c6", &begun["fence"], json!({ "receipt": 7 })).await.is(200);
        assert_eq!(door.begin(body.clone()).await.is(200).json()["receipt"], 7);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_c7_c9_a_thousand_waiters_are_woken_and_disturb_nobody() {
    on_both(async |door| {
        let body = json!({ "action": "mail", "key": "c7", "input": 1 });
        let begun = door.begin(body.clone()).await.is(200).json();
        let waiting = join_all((0..1_000).map(|_| door.begin(body.clone())));
        let meanwhile = async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            let asked = Instant::now();
            for number in 0..20 {
                door.done(&format!("other-{number}"), json!(1), json!(1)).await;
            }
            let took = asked.elapsed();
            door.settle("c7", &begun["fence"], json!({ "receipt": "woken" })).await.is(200);
            took
        };
        let (answers, took) = tokio::join!(waiting, meanwhile);
        assert!(answers.iter().all(|answer| answer.json()["receipt"] == "woken"));
        assert!(took < Duration::from_secs(10), "others waited {took:?}");
    })
    .await;
}
