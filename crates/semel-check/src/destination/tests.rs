//! Destinations of every kind, honest and not, over real sockets: each is told apart.

use semel_core::claim::{Claim, Judgement, Word, judge};
use serde_json::{Value, json};

use super::{Trouble, Wish, try_out};
use crate::double::{Double, Fault, Kind, Mode, Script};

const BODY: &str = r#"{"reference": "{reference}", "subject": "Help"}"#;

/// A double on which every `POST /tickets` has these traits.
fn posing(traits: &Value) -> Double {
    let mut route = json!({ "method": "POST", "path": "/tickets" });
    route.as_object_mut().unwrap().extend(traits.as_object().unwrap().clone());
    let script = json!({ "routes": [route] }).to_string();
    Double::start(Script::from_json(&script).unwrap()).unwrap()
}

/// Without a count: only answers are compared.
fn blind(double: &Double) -> Wish {
    Wish::post(format!("{}/tickets", double.url()), BODY)
}

fn counting(double: &Double) -> Wish {
    let count = format!("{}/__double__/counts", double.url());
    Wish { count: Some(count), counted: "/objects".into(), ..blind(double) }
}

async fn tried(wish: &Wish) -> Judgement {
    judge(&try_out(wish, |_| {}).await.expect("it can be asked"))
}

fn word(judgement: &Judgement, claim: Claim) -> Word {
    judgement.verdict(claim).expect("all are judged").word
}

/// The facts that broke a claim.
fn broken(judgement: &Judgement, claim: Claim) -> String {
    let evidence = &judgement.verdict(claim).expect("all are judged").evidence;
    let broken = evidence.iter().filter(|evidence| evidence.word == Word::Broken);
    broken.map(|evidence| format!("{}: {}", evidence.trial, evidence.fact)).collect()
}

fn said(judgement: &Judgement) -> String {
    let evidence = judgement.verdicts.iter().flat_map(|verdict| &verdict.evidence);
    evidence.map(|evidence| format!("{}\n", evidence.fact)).collect()
}

#[tokio::test]
async fn keys_are_seen_with_and_without_a_count() {
    let double = Double::start(Mode::Keys).unwrap();
    for wish in [blind(&double), counting(&double)] {
        let judgement = tried(&wish).await;
        assert_eq!(judgement.honours, Claim::NativeKey, "{judgement:?}");
        assert!(said(&judgement).contains("another body is refused (status 422)"));
        assert!(said(&judgement).contains("5 at once made one object, all got its answer"));
        assert!(said(&judgement).contains("without a key it creates"));
        assert!(judgement.not_shown.iter().any(|fact| fact.contains("how long")));
    }
    // Not one key of a trial was seen at another's.
    let book = double.book();
    assert_eq!(
        book.iter().filter(|entry| entry.key.is_none() && entry.method == "POST").count(),
        2
    );
}

#[tokio::test]
async fn a_destination_that_answers_409_while_it_works_honours_keys_too() {
    let double = posing(&json!({ "mode": "keys", "at_once": "conflict", "latency": "150ms" }));
    let judgement = tried(&counting(&double)).await;
    assert_eq!(judgement.honours, Claim::NativeKey, "{judgement:?}");
    assert!(said(&judgement).contains("the others got 409 while it was under way"));
}

#[tokio::test]
async fn a_search_is_a_probe_and_a_plain_destination_nothing() {
    let double = Double::start(Mode::Lookup).unwrap();
    let lookup = format!("{}/tickets?reference={{reference}}", double.url());
    let wish = Wish { lookup: Some(lookup), ..blind(&double) };
    let judgement = tried(&wish).await;
    assert_eq!(judgement.honours, Claim::Probe, "{judgement:?}");
    assert_eq!(word(&judgement, Claim::NativeKey), Word::Broken);
    // What was never created cannot be found: that says nothing of the search.
    double
        .arm(Fault { times: 100, ..Fault::next(Kind::ErrorBefore).route("POST /tickets") })
        .unwrap();
    let judgement = tried(&wish).await;
    assert_eq!(word(&judgement, Claim::Probe), Word::NotShown);
    assert_eq!(word(&judgement, Claim::NativeKey), Word::NotShown);

    let double = Double::start(Mode::Plain).unwrap();
    let judgement = tried(&blind(&double)).await;
    assert_eq!(judgement.honours, Claim::AtMostOnce, "{judgement:?}");
    let why = broken(&judgement, Claim::NativeKey);
    assert!(why.contains("the repeat made another: tickets-1, then tickets-2"), "{why}");
    assert_eq!(word(&judgement, Claim::Probe), Word::NotShown);
}

#[tokio::test]
async fn conditions_are_told_from_keys() {
    let double = Double::start(Mode::Conditional).unwrap();
    let wish = Wish {
        method: "PUT".into(),
        url: format!("{}/tickets/{{reference}}", double.url()),
        body: r#"{"subject": "Help"}"#.into(),
        conditional: true,
        ..counting(&double)
    };
    let judgement = tried(&wish).await;
    assert_eq!(judgement.honours, Claim::Conditional, "{judgement:?}");
    let why = broken(&judgement, Claim::NativeKey);
    assert!(why.contains("a fresh key made nothing new"), "{why}");
    assert!(said(&judgement).contains("refused: it exists (status 412)"));
}

#[tokio::test]
async fn a_liar_that_honours_keys_one_after_the_other_but_not_at_once() {
    let double = posing(&json!({ "mode": "keys", "at_once": "race", "latency": "150ms" }));
    for wish in [blind(&double), counting(&double)] {
        let judgement = tried(&wish).await;
        assert_eq!(judgement.honours, Claim::AtMostOnce);
        let why = broken(&judgement, Claim::NativeKey);
        assert!(why.contains("at_once: 5 at once made 5 objects"), "{why}");
        assert!(!why.contains("twice:"), "{why}");
    }
}

#[tokio::test]
async fn a_liar_that_honours_keys_for_equal_bodies_only() {
    let double = posing(&json!({ "mode": "keys", "other_body": "create" }));
    for wish in [blind(&double), counting(&double)] {
        let why = broken(&tried(&wish).await, Claim::NativeKey);
        assert!(why.starts_with("other_body: another body under the same key made"), "{why}");
    }
    // One that answers as the first time is no liar.
    let double = posing(&json!({ "mode": "keys", "other_body": "replay" }));
    let judgement = tried(&counting(&double)).await;
    assert_eq!(judgement.honours, Claim::NativeKey);
    assert!(said(&judgement).contains("another body gets the first answer"));
}

#[tokio::test]
async fn a_liar_that_keeps_an_error_under_its_key() {
    for kind in [Kind::ErrorBefore, Kind::ErrorAfter] {
        let double = posing(&json!({ "mode": "keys", "stores_errors": true }));
        double.arm(Fault::at(kind, 1).route("POST /tickets")).unwrap();
        let why = broken(&tried(&blind(&double)).await, Claim::NativeKey);
        assert!(why.contains("an error is kept under its key: status 500 twice"), "{why}");
    }
}

#[tokio::test]
async fn a_liar_that_forgets_keys_is_found_out_by_a_pause() {
    let double = posing(&json!({ "mode": "keys", "remembers": "2s" }));
    let wish = blind(&double);
    let paused = Wish { wait_ms: 2_100, ..wish.clone() };
    let why = broken(&tried(&paused).await, Claim::NativeKey);
    assert!(why.starts_with("later: after 2100ms the key is not known any more"), "{why}");

    let double = Double::start(Mode::Keys).unwrap();
    let judgement = tried(&Wish { wait_ms: 10, ..blind(&double) }).await;
    assert_eq!(judgement.honours, Claim::NativeKey);
    assert!(judgement.not_shown.iter().any(|fact| fact.contains("beyond 10ms")));
}

#[tokio::test]
async fn a_liar_that_answers_once_and_creates_twice_needs_a_count() {
    let double = posing(&json!({ "mode": "keys", "copies": 2 }));
    let judgement = tried(&blind(&double)).await;
    assert!(judgement.not_shown.iter().any(|fact| fact.contains("how many objects")));
    let why = broken(&tried(&counting(&double)).await, Claim::NativeKey);
    assert!(why.contains("twice: one answer, but 2 objects were made"), "{why}");
}

#[tokio::test]
async fn answers_that_name_nothing_show_nothing_until_somebody_counts() {
    let double = posing(&json!({ "mode": "plain", "answer": { "ok": true } }));
    let judgement = tried(&blind(&double)).await;
    assert_eq!(word(&judgement, Claim::NativeKey), Word::NotShown, "{judgement:?}");
    let why = broken(&tried(&counting(&double)).await, Claim::NativeKey);
    assert!(why.contains("twice: one answer, but 2 objects were made"), "{why}");
}

#[tokio::test]
async fn an_id_is_read_where_it_is_pointed_to() {
    let answer = json!({ "data": { "number": "{id}" }, "served_as": "{n}" });
    let double = posing(&json!({ "mode": "keys", "answer": answer }));
    let wish = Wish { id: Some("/data/number".into()), ..blind(&double) };
    assert_eq!(tried(&wish).await.honours, Claim::NativeKey);
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_before_anything_is_sent() {
    let double = Double::start(Mode::Keys).unwrap();
    let check = async |wish: Wish, want: &str| {
        let trouble = try_out(&wish, |_| {}).await.expect_err("it is refused");
        assert!(matches!(&trouble, Trouble::Usage(fact) if fact.contains(want)), "{trouble:?}");
    };
    let wish = || blind(&double);
    let lookup = |address: &str| Some(format!("{}{address}", double.url()));
    check(Wish { url: "tickets".into(), ..wish() }, "no address").await;
    check(Wish { url: "ftp://localhost/a".into(), ..wish() }, "http://").await;
    check(Wish { at_once: 1, ..wish() }, "at once").await;
    check(Wish { at_once: 51, ..wish() }, "at once").await;
    check(Wish { wait_ms: u64::MAX, ..wish() }, "a day").await;
    check(Wish { lookup: lookup("/a"), ..wish() }, "the lookup needs {reference}").await;
    let unnamed = Wish { body: "{}".into(), conditional: true, ..wish() };
    check(unnamed, "needs {reference}").await;
    assert_eq!(double.counts().requests, 0);
    check(Wish { count: lookup("/none"), ..wish() }, "is no list").await;
}

#[tokio::test]
async fn a_destination_that_is_not_there_is_no_broken_claim() {
    let url = Double::start(Mode::Keys).unwrap().url();
    let trouble = try_out(&Wish::post(format!("{url}/t"), BODY), |_| {}).await.unwrap_err();
    assert!(matches!(trouble, Trouble::Unreachable(_)), "{trouble:?}");
}

#[test]
fn only_this_machine_is_asked_without_a_yes() {
    let is_local = |url: &str| Wish::post(url, "{}").is_local();
    assert!(is_local("http://127.0.0.1:1/a") && is_local("http://localhost/{reference}"));
    assert!(is_local("http://[::1]:80/"));
    assert!(!is_local("https://api.example.com/v1") && !is_local("http://10.0.0.1/"));
    assert!(!is_local("http://localhost.example.com/") && !is_local("http://127.0.0.1.nip.io/"));
    let mut wish = Wish::post("http://127.0.0.1/a", "{}");
    wish.count = Some("https://api.example.com/count".into());
    assert!(!wish.is_local());
}
