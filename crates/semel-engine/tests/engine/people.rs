//! What people decide, what arrives late, and who wins when two decide at once.

use futures_util::future::join_all;
use semel_core::code::Code;
use semel_core::effect::{Imported, Person, Report, Resolution, Settle, State};
use semel_core::record::{AlarmKind, By, Contract, Verdict};
use semel_core::time::Wall;
use semel_engine::Answer;

use crate::common::{
    File, NATIVE, PROBE_FIRST, Script, World, address, ask, call, check, json, single, unknown,
    world,
};

fn person(version: u64) -> Person {
    Person { actor: "ada".into(), reason: "I looked it up".into(), version }
}

/// An effect in doubt whose settle window is over; returns its fence.
async fn doubted(world: &World, key: &str) -> u64 {
    let Ok(Answer::Attempt(armed)) = world.engine.begin(ask(key, Contract::AtMostOnce), 0).await
    else {
        panic!("an attempt")
    };
    world.clock.advance_ms(180_000);
    world.engine.turn().await.unwrap();
    armed.permit.fence
}

async fn resolve(world: &World, key: &str, how: &Resolution) -> Result<State, Code> {
    let version = world.effect(key).await.version;
    let resolved = world.engine.resolve(&address(key), &person(version), how).await;
    let now = world.store.ground().now;
    resolved.map(|effect| effect.state(&now)).map_err(|error| error.code())
}

fn late(fence: u64, text: &str) -> Settle {
    Settle { fence, report: Report::Receipt(json(text)), retry_after_ms: None }
}

#[tokio::test]
async fn case_o12_a_person_ends_a_doubt_and_every_repeat_gets_that_end() {
    let script = Script::new([]);
    for (how, want) in [
        (Resolution::Done(json(r#"{"id":"seen"}"#)), Ok(r#"{"id":"seen"}"#)),
        (Resolution::Failed, Err(Code::EffectFailed)),
    ] {
        let world = world();
        doubted(&world, "k").await;
        resolve(&world, "k", &how).await.unwrap();
        let answer = world.engine.call(call("k", Contract::AtMostOnce), script.doer()).await;
        let answer = answer.as_ref().map(|json| json.text()).map_err(|error| error.code());
        assert_eq!(answer, want);
        assert_eq!(script.sends(), 0);
        let effect = world.effect("k").await;
        let decision = effect.decisions.last().unwrap();
        assert_eq!((decision.actor.as_str(), decision.reason.as_str()), ("ada", "I looked it up"));
        check(&effect, world.store.as_ref());
    }
}

#[tokio::test]
async fn a_persons_retry_grants_one_more_send_and_not_too_early() {
    let world = world();
    let script = Script::new([unknown()]);
    let ask = || single("k", Contract::AtMostOnce);
    assert!(world.engine.call(ask(), script.doer()).await.is_err());
    assert_eq!(resolve(&world, "k", &Resolution::Retry).await, Err(Code::TooEarly));
    world.clock.advance_ms(119_999);
    assert_eq!(resolve(&world, "k", &Resolution::Retry).await, Err(Code::TooEarly));
    world.clock.advance_ms(1);
    assert_eq!(resolve(&world, "k", &Resolution::Retry).await, Ok(State::Planned));
    assert!(world.engine.call(ask(), script.doer()).await.is_ok());
    assert_eq!(script.sends(), 2);
}

#[tokio::test]
async fn inv_i16_two_people_decide_at_once_and_one_wins() {
    for round in 0..50 {
        let world = world();
        doubted(&world, "k").await;
        let version = world.effect("k").await.version;
        let other = world.other();
        let decide = |engine: semel_engine::Engine, actor: String, how: Resolution| async move {
            let person = Person { actor, ..person(version) };
            tokio::task::yield_now().await;
            engine.resolve(&address("k"), &person, &how).await
        };
        let hows = [Resolution::Failed, Resolution::Done(json("1")), Resolution::Retry];
        let tasks = hows.iter().cycle().skip(round % 3).take(6).enumerate().map(|(n, how)| {
            let engine = if n % 2 == 0 { world.engine.clone() } else { other.clone() };
            tokio::spawn(decide(engine, format!("person-{n}"), how.clone()))
        });
        let answers = join_all(tasks.collect::<Vec<_>>()).await;
        let won = answers.iter().filter(|answer| answer.as_ref().unwrap().is_ok()).count();
        assert_eq!(won, 1);
        for answer in &answers {
            if let Err(error) = answer.as_ref().unwrap() {
                assert_eq!(error.code(), Code::VersionChanged);
            }
        }
        assert_eq!(world.effect("k").await.decisions.len(), 1);
    }
}

#[tokio::test]
async fn inv_i16_holds_on_a_real_file_between_two_handles() {
    let file = File::new();
    let (one, two) = (file.engine(), file.engine());
    for round in 0..20 {
        let key = format!("k{round}");
        assert!(one.begin(ask(&key, Contract::AtMostOnce), 0).await.is_ok());
        file.clock.advance_ms(180_000);
        one.turn().await.unwrap();
        let version = one.effect(&address(&key)).await.unwrap().version;
        let of = |actor: &str| Person { actor: actor.into(), ..person(version) };
        let (place, ada, bob) = (address(&key), of("ada"), of("bob"));
        let done = Resolution::Done(json("1"));
        let (first, second) = tokio::join!(
            one.resolve(&place, &ada, &Resolution::Failed),
            two.resolve(&place, &bob, &done),
        );
        let codes = [first.map_err(|e| e.code()).err(), second.map_err(|e| e.code()).err()];
        assert!(
            matches!(
                codes,
                [None, Some(Code::VersionChanged)] | [Some(Code::VersionChanged), None]
            ),
            "{codes:?}"
        );
    }
}

#[tokio::test]
async fn nobody_decides_over_a_live_attempt_or_a_settled_effect() {
    let world = world();
    assert!(world.engine.begin(ask("k", Contract::AtMostOnce), 0).await.is_ok());
    assert_eq!(resolve(&world, "k", &Resolution::Failed).await, Err(Code::InProgress));
    let void = world.engine.void(&address("k"), &person(1)).await.unwrap_err();
    assert_eq!(void.code(), Code::AlreadySent);
    let supersede = world.engine.supersede(&address("k"), &person(1)).await.unwrap_err();
    assert_eq!(supersede.code(), Code::NotSettled);
    let script = Script::new([]);
    assert!(world.engine.call(call("done", NATIVE), script.doer()).await.is_ok());
    assert_eq!(resolve(&world, "done", &Resolution::Failed).await, Err(Code::AlreadySettled));
    let nobody = Person { actor: " ".into(), ..person(2) };
    let error = world.engine.resolve(&address("k"), &nobody, &Resolution::Failed).await;
    assert_eq!(error.unwrap_err().code(), Code::InputInvalid);
    let missing = world.engine.resolve(&address("no"), &person(1), &Resolution::Failed).await;
    assert_eq!(missing.unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
async fn a_late_receipt_ends_a_doubt_and_disputes_a_persons_failed() {
    let world = world();
    let fence = doubted(&world, "k").await;
    let filed = world.engine.settle(&address("k"), &late(fence, "1")).await.unwrap();
    assert!(filed.kept_as_evidence);
    assert_eq!(filed.state, State::Done);
    assert_eq!(world.effect("k").await.attempts[0].end.as_ref().unwrap().by, By::Late);

    let fence = doubted(&world, "disputed").await;
    resolve(&world, "disputed", &Resolution::Failed).await.unwrap();
    let filed = world.engine.settle(&address("disputed"), &late(fence, "1")).await.unwrap();
    assert_eq!(filed.state, State::Failed, "a person's word stands");
    assert_eq!(filed.effect.alarms[0].kind, AlarmKind::Disputed);

    let fence = doubted(&world, "other").await;
    resolve(&world, "other", &Resolution::Done(json("1"))).await.unwrap();
    let filed = world.engine.settle(&address("other"), &late(fence, "2")).await.unwrap();
    assert_eq!(filed.effect.receipt(), Some(&json("1")), "the first stands for ever");
    assert_eq!(filed.effect.alarms[0].kind, AlarmKind::AppliedTwice);
    for key in ["k", "disputed", "other"] {
        check(&world.effect(key).await, world.store.as_ref());
    }
}

#[tokio::test]
async fn only_a_receipt_may_come_late() {
    let world = world();
    let fence = doubted(&world, "k").await;
    let version = world.effect("k").await.version;
    for report in [
        Report::NotApplied { reason: "no".into(), last: true },
        Report::Unknown { reason: "?".into(), key_not_used: false },
    ] {
        let ask = Settle { fence, report, retry_after_ms: None };
        let error = world.engine.settle(&address("k"), &ask).await.unwrap_err();
        assert_eq!(error.code(), Code::StaleFence);
    }
    let error = world.engine.settle(&address("k"), &late(fence + 9, "1")).await.unwrap_err();
    assert_eq!(error.code(), Code::StaleFence, "a fence that was never granted");
    assert_eq!(world.effect("k").await.version, version);
}

#[tokio::test]
async fn supersede_opens_a_generation_with_its_own_key_and_higher_fences() {
    let world = world();
    let script = Script::new([]);
    let ask = || call("k", Contract::AtMostOnce);
    let first = world.engine.call(ask(), script.doer()).await.unwrap();
    let old = world.effect("k").await;
    let new = world.engine.supersede(&address("k"), &person(old.version)).await.unwrap();
    assert_eq!((new.generation, world.state("k").await), (1, State::Planned));
    let second = world.engine.call(ask(), script.doer()).await.unwrap();
    assert_ne!(first, second);
    assert_eq!(world.engine.call(ask(), script.doer()).await.unwrap(), second);
    assert_eq!(script.sends(), 2);
    let new = world.effect("k").await;
    let key = |effect: &semel_core::record::Effect| effect.plan.clone().unwrap().downstream_key;
    assert_ne!(key(&old), key(&new));
    assert!(new.attempts[0].fence > old.attempts[0].fence);
    let old = world.engine.generation(&address("k"), 0).await.unwrap();
    assert_eq!(old.decisions.last().unwrap().verdict, Verdict::Supersede);
    assert_eq!(old.receipt(), Some(&first), "history stays");
    let stale = world.engine.supersede(&address("k"), &person(1)).await.unwrap_err();
    assert_eq!(stale.code(), Code::VersionChanged);
    // The first worker speaks once more: that is heard in its own generation.
    let fence = old.attempts[0].fence;
    let filed = world.engine.settle(&address("k"), &late(fence, r#"{"id":"late"}"#)).await.unwrap();
    assert_eq!((filed.effect.generation, filed.effect.alarms.len()), (0, 1));
    assert_eq!(world.effect("k").await, new);
}

#[tokio::test]
async fn case_o10_a_voided_effect_may_be_begun_again() {
    let world = world();
    let script = Script::looking([], [semel_engine::Looked::Unknown("down".into())]);
    assert!(world.engine.call(single("k", PROBE_FIRST), script.looker()).await.is_err());
    let version = world.effect("k").await.version;
    let void = world.engine.void(&address("k"), &person(version)).await.unwrap();
    assert_eq!(void.state(&world.store.ground().now), State::Void);
    let again = world.engine.void(&address("k"), &person(void.version)).await.unwrap_err();
    assert_eq!(again.code(), Code::AlreadySettled);
    assert!(world.engine.call(call("k", PROBE_FIRST), script.looker()).await.is_ok());
    assert_eq!((script.sends(), world.state("k").await), (1, State::Done));
}

#[tokio::test]
async fn imported_rows_answer_like_our_own_and_never_overwrite() {
    let world = world();
    let row = |key: &str, receipt: Option<&str>| Imported {
        address: address(key),
        workflow: None,
        created: Wall(1_600_000_000_000),
        receipt: receipt.map(json),
    };
    let import = async |row: &Imported| world.engine.import(row, "ada").await.unwrap();
    assert!(import(&row("done", Some("7"))).await.is_some());
    assert!(import(&row("started", None)).await.is_some());
    world.clock.advance_ms(1);
    assert!(import(&row("done", Some("8"))).await.is_none(), "the key is here already");
    let script = Script::new([]);
    let answer = world.engine.call(call("done", Contract::AtMostOnce), script.doer()).await;
    assert_eq!(answer.unwrap().text(), "7");
    let answer = world.engine.call(call("started", Contract::AtMostOnce), script.doer()).await;
    assert_eq!(answer.unwrap_err().code(), Code::InDoubt);
    assert_eq!(script.sends(), 0);
    for key in ["done", "started"] {
        check(&world.effect(key).await, world.store.as_ref());
    }
}
