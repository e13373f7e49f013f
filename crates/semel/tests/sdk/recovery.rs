//! What was cut is decided, never silently done again.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use semel::{Code, Failure, Intent, NativeKey, Probe, Retry};
use semel_core::effect::{Person, Resolution, State};
use semel_core::record::Kind;

use crate::common::{Ledger, Outside, QUICK, code};

async fn never(_: Intent) -> Result<String, Failure> {
    panic!("nothing may be sent")
}

#[tokio::test]
async fn req_l3_the_row_is_durable_before_the_first_byte_leaves() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    let path = ledger.path();
    let seen = Arc::new(Mutex::new(None));
    let (told, asked) = (seen.clone(), semel.clone());
    let call = semel.effect("ticket").key("42").call(move |intent| {
        let (told, path, asked) = (told.clone(), path.clone(), asked.clone());
        async move {
            use semel_store::Access;
            use semel_store::Store;
            use semel_store::sqlite::Sqlite;
            // Not through the process that holds it: through the file.
            let reader = Sqlite::open(&path, Access::ReadOnly, semel_store::Clock::Real)?;
            let row = reader.load(intent.address()).await?;
            let now = asked.engine().store().ground().now;
            *told.lock().unwrap() = row.map(|row| (row.state(&now), row.last_fence()));
            Ok::<_, Failure>(intent.fence())
        }
    });
    let fence = call.await.unwrap();
    assert_eq!(*seen.lock().unwrap(), Some((State::Pending, fence)));
}

#[tokio::test]
async fn req_l11_a_retry_that_finds_pending_or_doubt_needs_a_decision() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    let outside = Outside::default();
    let (gate, opened) = tokio::sync::oneshot::channel::<()>();
    let (gate, opened) = (Mutex::new(Some(gate)), Arc::new(tokio::sync::Mutex::new(opened)));
    let (first, counted) = (semel.clone(), outside.clone());
    let running = tokio::spawn(async move {
        let effect = first.effect("ticket").key("42").retry(Retry::NONE);
        let call = effect.call(move |_| {
            let (opened, made) = (opened.clone(), counted.make());
            async move {
                let _ = (&mut *opened.lock().await).await;
                Err::<String, _>(Failure::unknown(made))
            }
        });
        call.await
    });
    while outside.made() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let again = || semel.effect("ticket").key("42").hold(Duration::ZERO).call(never);
    assert_eq!(code(again().await), Code::InProgress);
    drop(gate.lock().unwrap().take());
    assert_eq!(code(running.await.unwrap()), Code::InDoubt);
    assert_eq!(code(again().await), Code::InDoubt);
    assert_eq!(outside.made(), 1, "a silent second execution");
    // A named person decides; then every repeat has an answer.
    let effect = semel.find("ticket", "42").await.unwrap().unwrap();
    let person = Person { actor: "ada".into(), reason: "found it".into(), version: effect.version };
    let done = Resolution::Done(semel::Json::of("T-1").unwrap());
    semel.engine().resolve(&effect.address, &person, &done).await.unwrap();
    assert_eq!(again().await.unwrap(), "T-1");
}

#[tokio::test]
async fn req_l16_the_destination_is_asked_for_our_reference_before_anything_is_created() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    let found: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
    let create = |key: &str| {
        let (search, create) = (found.clone(), found.clone());
        semel
            .effect("contact")
            .key(key)
            .contract(Probe::first())
            .look(move |intent| {
                let all = search.lock().unwrap().clone();
                let reference = intent.downstream_key().to_owned();
                let hits = all.into_iter().filter(move |(of, _)| *of == reference);
                let ids: Vec<String> = hits.map(|(_, id)| id).collect();
                async move { Ok(ids) }
            })
            .call(move |intent| {
                let mut all = create.lock().unwrap();
                let id = format!("C-{}", all.len() + 1);
                // The reference is written in the same call that creates.
                all.push((intent.downstream_key().to_owned(), id.clone()));
                async move { Ok::<_, Failure>(id) }
            })
    };
    assert_eq!(create("ada").await.unwrap(), "C-1");
    let kinds = async |key: &str| {
        let effect = semel.find("contact", key).await.unwrap().unwrap();
        effect.attempts.iter().map(|attempt| attempt.kind).collect::<Vec<_>>()
    };
    assert_eq!(kinds("ada").await, [Kind::Look, Kind::Send]);
    // Somebody created it before, under the reference that this intent will have.
    let address = semel::Address {
        key: semel::Key::from_text("bob").unwrap(),
        ..semel.find("contact", "ada").await.unwrap().unwrap().address
    };
    let reference = semel_core::derive::downstream_key(&address, 0, None);
    found.lock().unwrap().push((reference, "C-9".into()));
    assert_eq!(create("bob").await.unwrap(), "C-9");
    assert_eq!(kinds("bob").await, [Kind::Look]);
    assert_eq!(found.lock().unwrap().len(), 2, "nothing was created twice");
}

/// The destination made the object, and the answer was lost.
#[tokio::test]
async fn req_r2_a_retry_after_a_lost_response_returns_the_original_object() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    let objects: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
    let provider = objects.clone();
    let effect = semel.effect("charge").key("order-7").contract(NativeKey::hours(24)).retry(QUICK);
    let call = effect.call(move |intent| {
        let key = intent.downstream_key().to_owned();
        let mut objects = provider.lock().unwrap();
        let known = objects.iter().find(|(of, _)| *of == key).map(|(_, id)| id.clone());
        let answer = known.map_or_else(
            || {
                let id = format!("ch-{}", objects.len() + 1);
                objects.push((key, id));
                Err(Failure::unknown("the connection was reset"))
            },
            Ok,
        );
        async move { answer }
    });
    assert_eq!(call.await.unwrap(), "ch-1");
    assert_eq!(objects.lock().unwrap().len(), 1);
    let effect = semel.find("charge", "order-7").await.unwrap().unwrap();
    assert_eq!(effect.attempts.len(), 2, "the failed attempt is on record, too");
}

/// The settle window passes in real time here, so it is a short one.
#[tokio::test]
async fn a_probe_waits_looks_and_returns_what_it_finds() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    let outside = Outside::default();
    let (made, looked) = (outside.clone(), outside.clone());
    let effect = semel.effect("ticket").key("42").contract(Probe::after_doubt()).retry(QUICK);
    let call = effect
        .settle_window(Duration::from_millis(30))
        .look(move |_| {
            let ids: Vec<String> = (1..=looked.made()).map(|n| format!("T-{n}")).collect();
            async move { Ok(ids) }
        })
        .call(move |_| {
            let id = made.make();
            async move { Err::<String, _>(Failure::unknown(id)) }
        });
    assert_eq!(call.await.unwrap(), "T-1");
    assert_eq!(outside.made(), 1);
}
