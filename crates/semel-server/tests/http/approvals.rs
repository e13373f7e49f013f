//! Approvals over the API: one exact payload, decided once, sent once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use semel::{Approval, Code, Context, Error, Failure, NativeKey, Semel};
use semel_core::access::Role;
use serde_json::{Value, json};

use crate::door::{Answer, Door, on_both};

pub(crate) fn page() -> Value {
    json!({ "page": "home", "words": "Salve" })
}

/// What a caller over HTTP says to do the same as the runs below.
pub(crate) fn wish(input: &Value) -> Value {
    json!({ "action": "publish", "key": "home", "input": input,
            "contract": { "native_key": { "retention": "24h" } } })
}

/// A worker whose runs publish a page when a person has read it, and how often that was sent.
fn publish(door: &Door) -> Arc<AtomicU32> {
    let sent = Arc::<AtomicU32>::default();
    let semel = Semel::on(door.app.engine().clone());
    let count = sent.clone();
    let code = move |ctx: Context, input: Value| {
        let count = count.clone();
        async move {
            let effect = ctx.effect("publish").key(["home"]).input(&input);
            let effect = effect.contract(NativeKey::hours(24)).approval(Approval::required());
            let published = effect.call(move |intent| {
                let _key = intent.downstream_key();
                count.fetch_add(1, Ordering::SeqCst);
                async { Ok::<_, Failure>("published".to_owned()) }
            });
            published.await
        }
    };
    drop(semel.worker().workflow("publish", code).start().unwrap());
    sent
}

/// What is asked: the path to the question, and its digest.
pub(crate) async fn asked(door: &Door) -> (String, String) {
    let listed = door.get("/v1/approvals?action=publish").await.is(200).json();
    let [one] = &listed["items"].as_array().unwrap()[..] else { panic!("{listed}") };
    assert_eq!((&one["input"], &one["approval"]["held"]), (&page(), &json!(true)), "{one}");
    let path = format!("/v1/approvals/{}", one["id"].as_str().unwrap());
    let shown = door.get(&path).await.is(200).json();
    assert_eq!((&shown["input"], &shown["approval"]), (&page(), &one["approval"]));
    (path, one["approval"]["digest"].as_str().unwrap().to_owned())
}

pub(crate) fn word(decision: &str, digest: &str) -> Value {
    json!({ "decision": decision, "digest": digest, "note": "read" })
}

/// The answer that stands, and whether it was given now.
fn judged(answer: &Answer) -> (Value, Value, bool) {
    let body = answer.json();
    let is_new = answer.header("idempotent-replayed").is_none();
    assert_eq!(body["is_new"], is_new, "{body}");
    (body["answer"].clone(), body["by"].clone(), is_new)
}

#[tokio::test(flavor = "multi_thread")]
async fn case_w9_an_approval_given_twice_lets_the_run_send_once() {
    on_both(async |door| {
        let sent = publish(&door);
        let run = door.start("publish", "home", page()).await;
        door.reaches(&run, "waiting").await;
        door.begin(wish(&page())).await.refused(409, "held");
        let other = json!({ "page": "home", "words": "Vale" });
        door.begin(wish(&other)).await.refused(422, "input_changed");
        let (path, digest) = asked(&door).await;
        let twist = digest.chars().rev().collect::<String>();
        for wrong in ["", twist.as_str()] {
            let wrong = word("approve", wrong);
            door.post(&path, &wrong).await.refused(409, "version_changed");
        }
        assert_eq!((sent.load(Ordering::SeqCst), door.decided("approve").await), (0, 0));
        let first = door.post(&path, &word("approve", &digest)).await.is(200);
        assert_eq!(judged(&first), (json!("approved"), json!("local"), true));
        let again = door.post(&path, &word("approve", &digest)).await.is(200);
        assert_eq!(judged(&again), (json!("approved"), json!("local"), false));
        assert_eq!(again.json()["at"], first.json()["at"]);
        assert_eq!(door.result(&run).await["result"], "published");
        // After the run went on, too: a click adds nothing, whatever it says.
        for decision in ["approve", "deny", "return"] {
            let late = door.post(&path, &word(decision, &digest)).await.is(200);
            assert_eq!(judged(&late), (json!("approved"), json!("local"), false));
        }
        assert_eq!(sent.load(Ordering::SeqCst), 1);
        assert_eq!((door.decided("approve").await, door.decided("deny").await), (1, 0));
        let replay = door.begin(wish(&page())).await.is(200).json();
        assert_eq!(
            (&replay["outcome"], &replay["receipt"]),
            (&json!("replay"), &json!("published"))
        );
        let none = door.get("/v1/approvals").await.is(200).json();
        assert_eq!(none["items"], json!([]));
        let shown = door.get(&path).await.is(200).json();
        assert_eq!(shown["approval"]["answered_by"], "local", "{shown}");
    })
    .await;
}

/// Asks for the page outside any run: held, until somebody decides.
pub(crate) async fn hold(door: &Door) {
    let semel = Semel::on(door.app.engine().clone());
    let effect = semel.effect("publish").key(["home"]).input(&page());
    let effect = effect.contract(NativeKey::hours(24)).approval(Approval::required());
    let held: Result<(), Error> = effect.call(|_| async { panic!("it is held") }).await;
    assert_eq!(held.unwrap_err().code(), Code::Held);
}

#[tokio::test(flavor = "multi_thread")]
async fn case_w9_of_two_approvers_the_first_decides_and_the_other_is_told() {
    on_both(async |door| {
        hold(&door).await;
        let ann = door.to("default", Role::Approver).await;
        let bob = door.to("default", Role::Admin).await;
        let worker = door.to("default", Role::Worker).await;
        let (path, digest) = asked(&ann).await;
        worker.begin(wish(&page())).await.refused(409, "held");
        worker.post(&path, &word("approve", &digest)).await.refused(403, "forbidden");
        let first = ann.post(&path, &word("approve", &digest)).await.is(200);
        assert_eq!(judged(&first), (json!("approved"), json!("approver"), true));
        for decision in ["deny", "return", "approve"] {
            let late = bob.post(&path, &word(decision, &digest)).await.is(200);
            assert_eq!(judged(&late), (json!("approved"), json!("approver"), false));
        }
        let begun = worker.begin(wish(&page())).await.is(200).json();
        assert_eq!((&begun["outcome"], &begun["input"]), (&json!("attempt"), &page()));
        let settle = json!({ "action": "publish", "key": "home", "fence": begun["fence"],
                             "result": { "receipt": "published" } });
        worker.post("/v1/effects/settle", &settle).await.is(200);
        assert_eq!(worker.begin(wish(&page())).await.is(200).json()["outcome"], "replay");
        bob.post(&path, &word("deny", &digest)).await.is(200);
        assert_eq!(bob.decided("approve").await + bob.decided("deny").await, 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_w9_approve_against_deny_at_the_same_moment_is_one_answer_for_both() {
    on_both(async |door| {
        hold(&door).await;
        let (path, digest) = asked(&door).await;
        let words = ["approve", "deny"].map(|decision| word(decision, &digest));
        let clicks = words.iter().cycle().take(8).map(|word| door.post(&path, word));
        let answers = futures_util::future::join_all(clicks).await;
        let judged: Vec<_> = answers.into_iter().map(|answer| judged(&answer.is(200))).collect();
        assert_eq!(judged.iter().filter(|(_, _, is_new)| *is_new).count(), 1, "{judged:?}");
        assert!(judged.iter().all(|(answer, ..)| *answer == judged[0].0), "{judged:?}");
        let begun = door.begin(wish(&page())).await;
        match judged[0].0.as_str() {
            Some("approved") => assert_eq!(begun.is(200).json()["outcome"], "attempt"),
            _ => drop(begun.refused(409, "approval_denied")),
        }
    })
    .await;
}
