//! People are told, by real sockets on this machine: once for each occasion, and never twice.

#![cfg(feature = "notify")]

mod servers;

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use semel::{Approval, Code, Contract, Failure, Notifier, Semel};
use semel_core::contract::Declared;
use semel_core::effect::State;
use semel_core::notice;
use semel_core::record::Effect;
use semel_engine::Told;
use semel_store::Query;
use serde_json::{Value, json};
use sha2::Sha256;
use tempfile::TempDir;

use servers::{Hook, MailServer};

async fn open(folder: &TempDir) -> Semel {
    let url = format!("sqlite:{}/semel.db", folder.path().display());
    Semel::open(&url).await.expect("the store opens")
}

async fn ask(semel: &Semel, key: &str) {
    let effect = semel.effect("pay").key([key]).input(&json!({ "eur": 7 }));
    let effect = effect.approval(Approval::required().requester("ada").note("rent"));
    let told = effect.call(|_| async { Ok::<_, Failure>(1) }).await;
    assert_eq!(told.expect_err("held").code(), Code::Held);
}

async fn notices(semel: &Semel) -> Vec<Effect> {
    let query = Query { action: Some(notice::action()), ..Query::everywhere(100) };
    semel.engine().list(&query).await.expect("a list").effects
}

/// The notice, once it has come to this.
async fn reaches(semel: &Semel, state: State) -> Effect {
    for _ in 0..2_000 {
        let now = semel.engine().store().ground().now;
        if let Some(one) = notices(semel).await.into_iter().find(|one| one.state(&now) == state) {
            return one;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("no notice is {state}: {:?}", notices(semel).await);
}

/// As a process does that has just come up: looks, plans, attends to what is due.
async fn look_again(all: &[Semel]) {
    let declared = Declared { contract: Some(Contract::AtMostOnce), ..Declared::default() };
    for semel in all {
        let (engine, mut told) = (semel.engine(), Told::default());
        let planned = engine.notify(semel.namespace_of(), declared, &mut told).await.unwrap();
        assert_eq!(planned, 0, "everything was seen to");
        engine.turn().await.unwrap();
    }
}

fn signed(secret: &[u8], id: &str, at: &str, body: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("a key");
    mac.update(format!("{id}.{at}.{body}").as_bytes());
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

#[tokio::test(flavor = "multi_thread")]
async fn req_a6_a_webhook_is_told_once_by_three_processes_and_can_check_who_says_it() {
    let (folder, hook) = (TempDir::new().unwrap(), Hook::start(200).await);
    let all = [open(&folder).await, open(&folder).await, open(&folder).await];
    ask(&all[0], "rent-11").await;
    for semel in &all {
        let notifier = Notifier::parse(&hook.url("/in?token=hush")).unwrap();
        semel.notify(notifier.secret("whsec_c2VjcmV0").unwrap()).unwrap();
    }
    let sent = reaches(&all[0], State::Done).await;
    ask(&all[1], "rent-11").await;
    look_again(&all).await;
    let requests = hook.requests();
    assert_eq!((requests.len(), notices(&all[0]).await.len()), (1, 1));
    let (head, body) = &requests[0];
    assert!(head.starts_with("POST /in?token=hush HTTP/1.1"), "{head}");
    let header = |name: &str| {
        let line = head.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
        line.unwrap_or_else(|| panic!("no {name} in {head}")).to_owned()
    };
    let (id, at) = (header("webhook-id"), header("webhook-timestamp"));
    assert_eq!(id, sent.plan.as_ref().unwrap().downstream_key);
    assert_eq!(header("webhook-signature"), signed(b"secret", &id, &at, body));
    let told: Value = serde_json::from_str(body).expect("JSON");
    let asked = all[0].approvals().find("pay", ["rent-11"]).await.unwrap();
    assert_eq!((&told["kind"], &told["input"]), (&json!("approval"), &json!({ "eur": 7 })));
    assert_eq!((&told["digest"], &told["note"]), (&json!(asked.digest()), &json!("rent")));
    assert_eq!(told["command"], "semel approvals show 'pay/rent-11'");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_that_is_not_there_yet_is_tried_again_and_one_that_breaks_is_not() {
    let folder = TempDir::new().unwrap();
    let semel = open(&folder).await;
    ask(&semel, "k").await;
    let port = servers::free_port().await;
    semel.notify(Notifier::parse(&format!("http://127.0.0.1:{port}/")).unwrap()).unwrap();
    let refused = async {
        loop {
            let first = notices(&semel).await.into_iter().find(|one| !one.attempts.is_empty());
            if let Some(attempt) = first.and_then(|one| one.attempts[0].end.clone()) {
                return attempt;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let end = tokio::time::timeout(Duration::from_secs(20), refused).await.expect("an attempt");
    assert!(format!("{end:?}").contains("NotApplied"), "{end:?}");
    // Now somebody listens, and hangs up after it has read.
    let hook = Hook::on(port, 0).await;
    let doubted = reaches(&semel, State::InDoubt).await;
    assert_eq!(hook.requests().len(), 1);
    look_again(std::slice::from_ref(&semel)).await;
    assert_eq!(hook.requests().len(), 1, "a lost answer is not sent again");
    assert_eq!(doubted.attempts.last().unwrap().end, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mail_is_sent_once_with_the_key_as_its_id() {
    let (folder, server) = (TempDir::new().unwrap(), MailServer::start().await);
    let semel = open(&folder).await;
    ask(&semel, "k").await;
    let address = format!(
        "smtp://semel:hush@127.0.0.1:{}/?from=semel@a.example&to=ann@a.example,bob@a.example",
        server.port
    );
    semel.notify(Notifier::parse(&address).unwrap()).unwrap();
    let sent = reaches(&semel, State::Done).await;
    let mails = server.mails();
    assert_eq!(mails.len(), 1);
    let key = &sent.plan.as_ref().unwrap().downstream_key;
    for part in [
        "AUTH PLAIN",
        "RCPT TO:<ann@a.example>",
        "RCPT TO:<bob@a.example>",
        &format!("Message-ID: <{key}@semel.invalid>"),
        "Subject: [semel] please decide: pay/k",
        "semel approvals show 'pay/k'",
    ] {
        assert!(mails[0].contains(part), "{part} is missing in:\n{}", mails[0]);
    }
}
