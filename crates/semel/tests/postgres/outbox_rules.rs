//! Rules that an intent of the outbox keeps like any other: its permit, and declared secrets.

use std::sync::Arc;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use semel::{Failure, Intent, Json, NativeKey, Semel};
use semel_core::contract::Declared;
use semel_core::effect::{Abort, State};
use semel_core::key::{Action, Namespace};
use semel_core::record::Contract;
use semel_core::redact::Redactor;
use semel_core::retry::Retry;
use semel_engine::{Doer, Engine, Executor, Handler, Sent};
use semel_store::postgres::Postgres;
use semel_store::{Access, Clock, ManualClock, Veil};
use tokio::sync::oneshot;

use crate::kit::{Ledger, state};

const SECRET: &str = "sk_live/zq8-secret";

async fn until<T>(what: &str, mut came: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(came) = came() {
            return came;
        }
        assert!(Instant::now() < end, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn is_done(semel: &Semel) {
    let end = Instant::now() + Duration::from_secs(10);
    while state(semel, "mail", "k").await != Some(State::Done) {
        assert!(Instant::now() < end, "it was not sent: {:?}", semel.find("mail", "k").await);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The thread that sends comes too late: nothing is begun, and the intent is sent later, once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_intent_of_the_outbox_is_not_begun_after_its_permit() {
    let ledger = Ledger::new().await;
    let clock = ManualClock::new(1_800_000_000_000);
    let time = Clock::Manual(clock.clone());
    let store = Postgres::open(&ledger.database.url(), Access::ReadWrite, time).await;
    let engine = Engine::on_postgres(Arc::new(store.expect("a store")), "worker");
    let semel = Semel::on(engine.expect("an engine"));
    let waiting = Arc::new(Mutex::new(Vec::<(Intent, oneshot::Sender<Sent>)>::new()));
    let queue = waiting.clone();
    let send = move |intent: Intent| {
        let (reply, replied) = oneshot::channel();
        queue.lock().unwrap().push((intent, reply));
        replied.map(|sent| sent.unwrap_or(Sent::Unknown("lost".into()))).boxed()
    };
    let ready = || async { Ok(Box::new(()) as semel_engine::Slot) }.boxed();
    let executor = Executor::Away(Arc::new(ready));
    let doer = Doer { send: Box::new(send), look: None, abort: Abort::Impossible, executor };
    let declared = Declared { contract: Some(Contract::AtMostOnce), ..Declared::default() };
    let handler = Handler::new(Arc::new(doer), declared, Retry::default());
    let (namespace, action) = (Namespace::default(), Action::new("mail").expect("a name"));
    semel.engine().handle(namespace, action, handler);
    ledger.database.psql("SELECT intend('mail', 'k', '1')");
    semel.engine().turn().await.unwrap();
    let came = || waiting.lock().unwrap().pop();
    let (late, _reply) = until("a send is armed", came).await;
    clock.advance_ms(28_000);
    assert!(!late.clearance().begin(), "begun after its permit");
    drop(late.clearance().take_slot());
    let mut turns = 0;
    let (intent, reply) = loop {
        if let Some(came) = came() {
            break came;
        }
        turns += 1;
        assert!(turns < 1_000, "it is not sent again");
        clock.advance_ms(1_000);
        semel.engine().turn().await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert!(intent.clearance().begin());
    let receipt = Json::from_text("\"sent\"").expect("JSON");
    reply.send(Sent::Receipt(receipt)).expect("it is waited for");
    is_done(&semel).await;
    let effect = semel.find("mail", "k").await.unwrap().unwrap();
    let first = effect.attempts[0].not_applied_reason().expect("nothing was sent");
    assert!(first.contains("permit_lapsed") && effect.attempts.len() == 2, "{effect:?}");
}

/// It is planned with what is kept, so whoever asks for the same by another way in finds it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i23_an_intent_of_the_outbox_is_planned_and_sent_without_its_secret() {
    let ledger = Ledger::new().await;
    let redactor = Redactor::new([("API".to_owned(), SECRET.to_owned())]).expect("a secret");
    let veil = Veil::new(None, redactor);
    let url = ledger.database.url();
    let store = Postgres::open_veiled(&url, Access::ReadWrite, Clock::Real, veil).await;
    let engine = Engine::on_postgres(Arc::new(store.expect("a store")), "worker");
    let semel = Semel::on(engine.expect("an engine"));
    let sent = Arc::new(Mutex::new(Vec::new()));
    let seen = sent.clone();
    let send = move |intent: Intent| {
        let _key = intent.downstream_key();
        seen.lock().unwrap().push(intent.input().text().to_owned());
        async { Ok::<_, Failure>(format!("sent with {SECRET}")) }
    };
    semel.handler("mail").contract(NativeKey::hours(24)).register(send).unwrap();
    let intend = format!(r#"SELECT intend('mail', 'k', '{{"header": "{SECRET}"}}')"#);
    ledger.database.psql(&intend);
    semel.engine().turn().await.unwrap();
    is_done(&semel).await;
    assert_eq!(*sent.lock().unwrap(), [r#"{"header": "[redacted:API]"}"#]);
    let again = semel.effect("mail").key("k").contract(NativeKey::hours(24));
    let again = again.input(&serde_json::json!({ "header": SECRET }));
    let replay: String = again
        .call(|_| async { Err(Failure::refused("a direct call found it and sends nothing")) })
        .await
        .expect("the same intent");
    assert_eq!(replay, "sent with [redacted:API]");
    ledger.database.psql(&intend);
    semel.engine().turn().await.unwrap();
    assert_eq!(ledger.lines("SELECT count(*) FROM outbox"), ["0"], "the same intent goes");
    let kept = ["SELECT record FROM effects", "SELECT record FROM cards"];
    let kept: String = kept.iter().map(|text| ledger.database.psql(text)).collect();
    assert!(!kept.contains("zq8") && kept.contains("[redacted:API]"), "{kept}");
}
