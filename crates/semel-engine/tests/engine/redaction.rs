//! Declared secrets, on the ways in that belong to the engine: none of them is kept, whoever told
//! it, and what rules compare is what is kept.

use std::path::Path;
use std::sync::{Arc, Mutex};

use semel_core::code::Code;
use semel_core::effect::approve::Ask;
use semel_core::effect::{Person, Resolution, State};
use semel_core::json::Json;
use semel_core::record::{Answer, Contract};
use semel_core::redact::Redactor;
use semel_core::retry::Retry;
use semel_engine::{Call, Engine, Handler, Sent};
use semel_store::sqlite::Sqlite;
use semel_store::{Access, Clock, Veil};

use crate::common::{
    File, NATIVE, Script, address, call, declared, json, not_applied, sender, settle_down, single,
    unknown,
};

const SECRET: &str = "sk_live/\"zq8\"";
const SHOWN: &str = "[redacted:API]";

fn engine(file: &File) -> Engine {
    let redactor = Redactor::new([("API".to_owned(), SECRET.to_owned())]).expect("a secret");
    let (path, clock) = (file.folder.path().join("semel.db"), Clock::Manual(file.clock.clone()));
    let veil = Veil::new(None, redactor);
    let store = Sqlite::open_veiled(&path, Access::ReadWrite, clock, veil).expect("a store");
    Engine::on_sqlite(Arc::new(store), "worker-1").expect("an engine")
}

fn telling(text: &str) -> Json {
    Json::of(&format!("{text} {SECRET}")).expect("JSON")
}

fn person(version: u64) -> Person {
    Person { actor: "ann".into(), reason: format!("it says {SECRET}"), version }
}

/// No file of the store has the secret, however it is quoted; its name stands in its place.
fn check_files(folder: &Path) {
    let mut all = String::new();
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        if entry.path().is_file() {
            let bytes = std::fs::read(entry.path()).expect("a file");
            all += &String::from_utf8_lossy(&bytes);
        }
    }
    assert!(!all.contains("sk_live") && !all.contains("zq8"), "the secret is kept");
    assert!(all.contains(SHOWN), "nothing was told");
}

#[tokio::test]
async fn inv_i23_what_a_handler_gets_and_tells_holds_no_secret() {
    let file = File::new();
    let engine = engine(&file);
    let ask = |key: &str| Call { input: telling("Bearer"), ..single(key, NATIVE) };
    for (key, sent) in [("receipt", unknown()), ("reason", not_applied())] {
        engine.call(ask(key), Script::new([sent]).doer()).await.expect_err("not done");
    }
    let got = Arc::new(Mutex::new(Vec::new()));
    let seen = got.clone();
    let doer = sender(move |intent| {
        let _key = intent.downstream_key();
        seen.lock().unwrap().push(intent.input().text().to_owned());
        let told = match intent.address().key.as_str() {
            "receipt" => Sent::Receipt(telling("sent with")),
            _ => Sent::Refused(format!("401 for {SECRET}")),
        };
        async move { told }
    });
    let handler = Handler::new(doer, declared(NATIVE), Retry::default());
    engine.handle(address("k").namespace, address("k").action, handler);
    for _ in 0..10 {
        engine.turn().await.unwrap();
        settle_down().await;
        file.clock.advance_ms(1_000);
    }
    assert_eq!(*got.lock().unwrap(), [r#""Bearer [redacted:API]""#; 2]);
    let done = engine.effect(&address("receipt")).await.unwrap();
    assert_eq!(done.receipt().unwrap().text(), r#""sent with [redacted:API]""#);
    let failed = engine.effect(&address("reason")).await.unwrap();
    assert_eq!(failed.state(&engine.store().ground().now), State::Failed);
    check_files(file.folder.path());
}

/// A person's note, the payload that was asked about, and what the caller of a no is told.
#[tokio::test]
async fn inv_i23_a_question_and_its_answer_hold_no_secret() {
    let file = File::new();
    let engine = engine(&file);
    for (key, answer) in [("yes", Answer::Approved), ("no", Answer::Denied)] {
        let script = Script::new([]);
        let ask = Call {
            input: telling("Bearer"),
            approval: Some(Ask { note: Some(format!("uses {SECRET}")), ..Ask::default() }),
            ..call(key, NATIVE)
        };
        engine.call(ask.clone(), script.doer()).await.expect_err("held");
        let effect = engine.effect(&address(key)).await.unwrap();
        let digest = effect.approval.as_ref().unwrap().digest.clone();
        let person = person(effect.version);
        let judged = engine.judge(&effect.address, &person, answer, &digest).await.unwrap();
        assert_eq!(judged.judgement.note, format!("it says {SHOWN}"), "{key}");
        let asked_again = engine.call(ask, script.doer()).await;
        match answer {
            Answer::Approved => assert!(asked_again.is_ok(), "the same payload: {asked_again:?}"),
            _ => {
                let refused = asked_again.unwrap_err();
                assert_eq!(refused.code(), Code::ApprovalDenied);
                assert!(refused.detail().contains(SHOWN), "{refused}");
            }
        }
    }
    let entries = engine.audit_entries(&address("k").namespace, None, 9).await.unwrap().entries;
    assert!(entries.iter().all(|entry| entry.reason == format!("it says {SHOWN}")), "{entries:?}");
    check_files(file.folder.path());
}

/// A receipt that a person gives is what every caller gets, before it was read back and after.
#[tokio::test]
async fn inv_i23_a_receipt_that_a_person_gives_is_told_as_it_is_kept() {
    let file = File::new();
    let engine = engine(&file);
    let ask = || Call { input: json("1"), ..single("k", Contract::AtMostOnce) };
    let cut = Script::new([unknown()]);
    engine.call(ask(), cut.doer()).await.expect_err("in doubt");
    let version = engine.effect(&address("k")).await.unwrap().version;
    let done = Resolution::Done(telling("M-7"));
    let resolved = engine.resolve(&address("k"), &person(version), &done).await.unwrap();
    let kept = r#""M-7 [redacted:API]""#;
    assert_eq!(resolved.receipt().unwrap().text(), kept);
    assert_eq!(engine.call(ask(), cut.doer()).await.unwrap().text(), kept);
    check_files(file.folder.path());
}
