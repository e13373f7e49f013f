//! Callbacks: whoever holds the token answers, once; whoever holds a part of it is nobody.

use semel::{Context, Error, Failure, Semel};
use semel_core::access::Role;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::door::{Door, on_both};

/// A worker of a namespace whose runs give a token to somebody outside and wait for the answer.
fn ask_outside(door: &Door, namespace: &str) -> UnboundedReceiver<String> {
    let (tell, told) = unbounded_channel();
    let semel = Semel::on(door.app.engine().clone()).namespace(namespace).unwrap();
    let code = move |ctx: Context, number: u32| {
        let tell = tell.clone();
        async move {
            let callback = ctx.callback("research").await?;
            let token = callback.token().to_owned();
            let send = ctx.effect("agent").key([number.to_string()]).call(move |_| {
                tell.send(token.clone()).unwrap();
                async { Ok::<_, Failure>(()) }
            });
            send.await?;
            let report: Value = callback.answer().await?;
            Ok::<_, Error>(report)
        }
    };
    drop(semel.worker().workflow("agent", code).start().unwrap());
    told
}

#[tokio::test(flavor = "multi_thread")]
async fn case_w9_a_callback_that_comes_twice_answers_once_and_another_answer_is_told() {
    on_both(async |door| {
        let mut told = ask_outside(&door, "default");
        let run = door.start("agent", "w9", json!(9)).await;
        let token = told.recv().await.unwrap();
        let path = format!("/v1/callbacks/{token}");
        let report = json!({ "found": [1, 2] });
        let first = door.post(&path, &report).await.is(200);
        assert_eq!(first.json()["repeated"], false);
        assert_eq!(first.header("idempotent-replayed"), None);
        let check_later_ones = async || {
            let again = door.post(&path, &report).await.is(200);
            assert_eq!(again.json()["repeated"], true);
            assert_eq!(again.header("idempotent-replayed"), Some("true"));
            let other = json!({ "found": [3] });
            let other = door.post(&path, &other).await.refused(422, "input_changed");
            assert!(!other.text.contains("found"), "it is not told the first: {}", other.text);
        };
        check_later_ones().await;
        assert_eq!(door.result(&run).await["result"], report);
        check_later_ones().await;
        assert_eq!(door.entries(&run, "received").await, 1);
        assert!(told.try_recv().is_err(), "nobody was asked twice");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_w9_answers_at_the_same_moment_are_one_answer() {
    on_both(async |door| {
        let mut told = ask_outside(&door, "default");
        let run = door.start("agent", "w9", json!(9)).await;
        let path = format!("/v1/callbacks/{}", told.recv().await.unwrap());
        let bodies: Vec<_> = (0..8).map(|number| json!(number)).collect();
        let answers = bodies.iter().map(|body| door.post(&path, body));
        let answers = futures_util::future::join_all(answers).await;
        let won: Vec<_> = (0..8).filter(|place| answers[*place].status == 200).collect();
        assert_eq!(won.len(), 1, "{answers:?}");
        for answer in answers.into_iter().filter(|answer| answer.status != 200) {
            answer.refused(422, "input_changed");
        }
        assert_eq!(door.result(&run).await["result"], json!(won[0]));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sec_3_a_token_with_any_part_swapped_is_the_same_404() {
    on_both(async |door| {
        let (mut ours, mut theirs) = (ask_outside(&door, "default"), ask_outside(&door, "acme"));
        let run = door.start("agent", "one", json!(1)).await;
        let token = ours.recv().await.unwrap();
        door.start("agent", "two", json!(2)).await;
        let twin = ours.recv().await.unwrap();
        let semel = Semel::on(door.app.engine().clone()).namespace("acme").unwrap();
        semel.start("agent").key("one").input(&1).run().await.unwrap();
        let stranger = theirs.recv().await.unwrap();
        let never = door.post("/v1/callbacks/default.0", &json!(1)).await.refused(404, "not_found");
        for wrong in swapped(&token, &twin, &stranger) {
            let answer = door.post(&format!("/v1/callbacks/{wrong}"), &json!("mine")).await;
            assert_eq!(answer.comparable(), never.comparable(), "{wrong} for {token}");
        }
        // The name of what it waits for is no secret, so it opens nothing by itself.
        let signal = format!("{run}/signals/callback%20research%230");
        door.keyed(&signal, "s", &json!("mine")).await.refused(400, "request_invalid");
        assert_eq!(door.get(&run).await.is(200).json()["state"], "waiting", "nobody has answered");
        for (token, answer) in [(&token, "1"), (&twin, "2"), (&stranger, "3")] {
            door.post(&format!("/v1/callbacks/{token}"), &json!(answer)).await.is(200);
        }
        assert_eq!(door.result(&run).await["result"], "1");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sec_38_who_could_not_signal_a_run_is_not_shown_the_token_of_its_callback() {
    on_both(async |door| {
        let mut told = ask_outside(&door, "default");
        let run = door.start("agent", "s38", json!(9)).await;
        let token = told.recv().await.unwrap();
        let number = json!({ "run": { "namespace": "default", "id": run.rsplit('/').next() } });
        for role in [Role::Viewer, Role::Approver] {
            let door = door.to("default", role).await;
            let journal = door.get(&format!("{run}/journal")).await.is(200);
            assert!(!journal.text.contains(&token), "{role:?}: {}", journal.text);
            let shown = door.get(&run).await.is(200);
            assert!(!shown.text.contains(&token), "{role:?}");
            door.get(&format!("{run}/proof")).await.refused(403, "forbidden");
            let found = door.post("/v1/worker/read", &number).await.is(200).json();
            let number = found["found"][1]["number"].as_i64().expect("the run's number");
            let journal = json!({ "journal": { "run": number, "from": 0, "limit": 9 } });
            door.post("/v1/worker/read", &journal).await.refused(403, "forbidden");
        }
        let operator = door.to("default", Role::Operator).await;
        let journal = operator.get(&format!("{run}/journal")).await.is(200);
        assert!(journal.text.contains(&token), "whoever may signal may see it");
        operator.get(&format!("{run}/proof")).await.is(200);
    })
    .await;
}

/// A token in which something is another's, is missing, is too much, or is spelt another way.
fn swapped(token: &str, twin: &str, stranger: &str) -> Vec<String> {
    let parts = |token: &str| {
        let (namespace, secret) = token.rsplit_once('.').unwrap();
        (namespace.to_owned(), secret.to_owned())
    };
    let ((namespace, secret), (other, foreign)) = (parts(token), parts(stranger));
    let half = secret.len() / 2;
    let mixed = format!("{}{}", &secret[..half], &parts(twin).1[half..]);
    let mut wrong = vec![
        format!("{other}.{secret}"),
        format!("{namespace}.{foreign}"),
        format!("{namespace}~draft.{secret}"),
        format!("{namespace}.{mixed}"),
        format!("{namespace}.{}", &secret[1..]),
        format!("{namespace}.{secret}0"),
        format!("{namespace}.{}", secret.to_uppercase()),
        format!("{namespace}.{other}.{secret}"),
        format!("{namespace}."),
        format!(".{secret}"),
        secret.clone(),
        namespace,
    ];
    for (place, letter) in token.char_indices().filter(|(_, letter)| *letter != '.') {
        let next = if letter == '0' { "1" } else { "0" };
        wrong.push(format!("{}{next}{}", &token[..place], &token[place + 1..]));
    }
    wrong
}
