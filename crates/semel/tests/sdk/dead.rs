//! A process that dies lets go at once: a lock on its session proves it dead.

use std::time::Duration;

use semel::{Code, Contract, Failure, Intent, NativeKey, Semel};
use semel_core::effect::{Begin, Report, Settle, State};
use semel_core::fingerprint::Rule;
use semel_engine::Answer;

use crate::common::{Ledger, Outside, QUICK, code, state};

/// Arms an attempt as a call does, does the deed, and never says so: the process is cut there.
async fn do_and_die(semel: Semel, contract: Contract, deed: impl FnOnce()) -> u64 {
    let address = semel.find("ticket", "42").await.unwrap().map(|effect| effect.address);
    let address = address.unwrap_or_else(|| semel::Address {
        namespace: semel::Namespace::default(),
        action: semel::Action::new("ticket").unwrap(),
        key: semel::Key::from_text("42").unwrap(),
    });
    let declared = semel_core::contract::Declared {
        contract: Some(contract),
        settle_ms: Some(1),
        ..Default::default()
    };
    let ask = Begin {
        address,
        input: semel::Json::null(),
        rule: Rule::All,
        declared,
        downstream_key: None,
        attempt_id: String::new(),
        worker: String::new(),
        session: None,
        can_look: false,
        workflow: None,
        run: None,
        approval: None,
        undoes: None,
        derived: None,
        shape: None,
    };
    let Ok(Answer::Attempt(armed)) = semel.engine().begin(ask, 0).await else {
        panic!("an attempt")
    };
    deed();
    armed.permit.fence
}

async fn never(_: Intent) -> Result<String, Failure> {
    panic!("nothing may be sent")
}

#[tokio::test]
async fn req_l12_a_crash_between_the_action_and_the_record_is_a_doubt_not_a_duplicate() {
    let ledger = Ledger::new();
    let outside = Outside::default();
    do_and_die(ledger.open().await, Contract::AtMostOnce, || drop(outside.make())).await;
    let semel = ledger.open().await;
    for _ in 0..3 {
        let again = semel.effect("ticket").key("42").hold(Duration::from_secs(5)).call(never);
        assert_eq!(code(again.await), Code::InDoubt);
    }
    assert_eq!(outside.made(), 1);
    assert_eq!(state(&semel, "ticket", "42").await, State::InDoubt);
}

#[tokio::test]
async fn req_c3_when_the_holder_dies_another_goes_on_and_the_dead_ones_word_is_fenced_off() {
    let ledger = Ledger::new();
    let fence = do_and_die(ledger.open().await, NativeKey::hours(24), || ()).await;
    let semel = ledger.open().await;
    let effect = semel.effect("ticket").key("42").contract(NativeKey::hours(24)).retry(QUICK);
    let receipt = effect
        .call(|intent| async move {
            intent.downstream_key();
            Ok::<_, Failure>(intent.fence())
        })
        .await
        .unwrap();
    assert!(receipt > fence);
    let address = semel.find("ticket", "42").await.unwrap().unwrap().address;
    for report in [
        Report::NotApplied { reason: "late".into(), last: true },
        Report::Unknown { reason: "late".into(), key_not_used: false },
    ] {
        let late = Settle { fence, report, retry_after_ms: None };
        let refused = semel.engine().settle(&address, &late).await;
        assert_eq!(code(refused), Code::StaleFence);
    }
    assert_eq!(state(&semel, "ticket", "42").await, State::Done);
}
