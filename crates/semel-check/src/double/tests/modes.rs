use serde_json::json;

use super::{Stage, answer};
use crate::double::{Mode, Script};

#[tokio::test]
async fn keys_give_the_first_answer_again_and_refuse_another_body() {
    let stage = Stage::new(Mode::Keys);
    let first = answer(stage.keyed("a")).await;
    assert_eq!(first, (201, json!({ "id": "tickets-1", "subject": "Help" })));
    let again = stage.keyed("a").send().await.unwrap();
    assert_eq!(again.headers()["idempotent-replayed"], "true");
    assert_eq!(super::read(again).await, first);
    let other = stage.post("/tickets", &json!({ "subject": "Other" }));
    assert_eq!(answer(other.header("Idempotency-Key", "a")).await.0, 422);
    assert_eq!(answer(stage.keyed("b")).await.1["id"], "tickets-2");
    // Without a key there is nothing to go by.
    assert_eq!(answer(stage.post("/tickets", &json!({}))).await.1["id"], "tickets-3");
    let counts = stage.double.counts();
    assert_eq!((counts.requests, counts.applied, counts.objects), (5, 3, 3));
    assert_eq!((counts.replayed, counts.refused), (1, 1));
}

#[tokio::test]
async fn keys_of_two_routes_do_not_meet_and_layout_is_no_other_body() {
    let stage = Stage::new(Mode::Keys);
    let send = |path: &str, body: &'static str| {
        stage.post(path, &json!({})).header("Idempotency-Key", "k").body(body)
    };
    assert_eq!(answer(send("/tickets", r#"{"a":1,"b":2}"#)).await.1["id"], "tickets-1");
    assert_eq!(answer(send("/tickets", r#"{ "b": 2, "a": 1 }"#)).await.1["id"], "tickets-1");
    assert_eq!(answer(send("/mails", r#"{"a":1,"b":2}"#)).await.1["id"], "mails-1");
}

#[tokio::test]
async fn lookup_creates_always_and_finds_by_any_member() {
    let stage = Stage::new(Mode::Lookup);
    for reference in ["r-1", "r-2", "r-1"] {
        answer(stage.post("/tickets", &json!({ "reference": reference, "n": 7 }))).await;
    }
    let (status, found) = stage.get("/tickets?reference=r-1").await;
    assert_eq!((status, found.as_array().unwrap().len()), (200, 2));
    assert_eq!(found[0]["id"], "tickets-1");
    let count = async |query: &str| stage.get(query).await.1.as_array().unwrap().len();
    assert_eq!(count("/tickets").await, 3);
    assert_eq!(count("/tickets?n=7&reference=r-2").await, 1);
    assert_eq!(count("/tickets?id=tickets-3").await, 1);
    assert_eq!(count("/tickets?reference=none").await, 0);
    assert_eq!(count("/tickets?unknown=").await, 0);
    assert_eq!(count("/never").await, 0);
    assert_eq!(stage.get("/tickets/tickets-2").await.1["reference"], "r-2");
    assert_eq!(stage.get("/tickets/none").await.0, 404);
    assert_eq!(stage.double.counts().looks, 9);
}

#[tokio::test]
async fn conditional_creates_once_and_changes_one_version() {
    let stage = Stage::new(Mode::Conditional);
    let put = |subject: &str| stage.send("PUT", "/tickets/r-1", &json!({ "subject": subject }));
    assert_eq!(stage.get("/tickets/r-1").await.0, 404);
    let first = answer(put("a").header("If-None-Match", "*")).await;
    assert_eq!(first, (201, json!({ "id": "r-1", "subject": "a", "version": 1 })));
    assert_eq!(answer(put("a").header("If-None-Match", "*")).await.0, 412);
    assert_eq!(answer(put("b").header("If-Match", "\"1\"")).await.1["version"], 2);
    assert_eq!(answer(put("c").header("If-Match", "\"1\"")).await.0, 412);
    assert_eq!(answer(put("d")).await.1["version"], 3);
    let read = stage.client.get(format!("{}/tickets/r-1", stage.double.url())).send();
    assert_eq!(read.await.unwrap().headers()["etag"], "\"3\"");
    let counts = stage.double.counts();
    assert_eq!((counts.objects, counts.applied, counts.refused), (1, 3, 2));
    assert_eq!(counts.routes["PUT /tickets/{id}"].applied, 3);
}

#[tokio::test]
async fn plain_applies_every_write_and_cannot_be_searched() {
    let stage = Stage::new(Mode::Plain);
    assert_eq!(answer(stage.keyed("a")).await.1["id"], "tickets-1");
    assert_eq!(answer(stage.keyed("a")).await.1["id"], "tickets-2");
    assert_eq!(stage.get("/tickets?subject=Help").await.0, 404);
    let patch = stage.send("PATCH", "/tickets/tickets-1", &json!({ "state": "open" }));
    let patched = json!({ "id": "tickets-1", "subject": "Help", "state": "open" });
    assert_eq!(answer(patch).await, (200, patched));
    assert_eq!(answer(stage.send("DELETE", "/tickets/tickets-1", &json!({}))).await.0, 200);
    assert_eq!(answer(stage.send("DELETE", "/tickets/tickets-1", &json!({}))).await.0, 404);
    let want = [
        "POST /tickets created tickets-1 -",
        "POST /tickets created tickets-2 -",
        "GET /tickets looked - -",
        "PATCH /tickets/{id} changed tickets-1 -",
        "DELETE /tickets/{id} removed tickets-1 -",
        "DELETE /tickets/{id} refused - -",
    ];
    assert_eq!(stage.story(), want);
    assert_eq!(stage.double.counts().objects, 1);
}

#[tokio::test]
async fn a_model_is_counted_and_makes_no_objects() {
    let stage = Stage::new(Mode::Model);
    for _ in 0..2 {
        assert_eq!(
            answer(stage.post("/ask", &json!({}))).await,
            (200, json!({ "text": "the answer" }))
        );
    }
    let counts = stage.double.counts();
    assert_eq!((counts.model_calls, counts.applied, counts.objects), (2, 0, 0));
}

#[tokio::test]
async fn forms_have_members_too() {
    let stage = Stage::new(Mode::Keys);
    let url = format!("{}/v1/charges", stage.double.url());
    let sent = stage.client.post(url).header("content-type", "application/x-www-form-urlencoded");
    let answer = answer(sent.body("amount=500&metadata%5Border%5D=o+1")).await;
    let want = json!({ "id": "charges-1", "amount": "500", "metadata[order]": "o 1" });
    assert_eq!(answer, (201, want));
}

#[test]
fn a_double_is_never_open_to_others() {
    let script = Script::from(Mode::Plain);
    let error = crate::double::Double::listen(script, "0.0.0.0:0".parse().unwrap()).err().unwrap();
    assert!(error.to_string().contains("outside this machine"), "{error}");
}
