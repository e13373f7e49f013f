//! A store that went back in time: what it forgot may have been sent.

use std::sync::Arc;

use semel_core::code::Code;
use semel_core::effect::{Person, Quarantine, Resolution, Rows, State};
use semel_core::record::{Contract, Kind};
use semel_core::time::Wall;
use semel_engine::{Call, Looked};
use semel_store::memory::Memory;

use crate::common::{
    DAY, NATIVE, PROBE, PROBE_FIRST, Script, World, address, call, check, drive, json, single,
    world_on,
};

const NOW: i64 = 1_700_000_000_000;

/// Quarantined a second ago; the store remembers up to `ago_ms` before.
fn quarantined(ago_ms: u64) -> World {
    let recovered = Wall(NOW - i64::try_from(ago_ms).unwrap());
    let quarantine = Quarantine { opened: Wall(NOW - 1_000), recovered, rows: Rows::WentBack };
    world_on(|clock| Arc::new(Memory::quarantined(clock, quarantine)))
}

async fn kinds(world: &World) -> Vec<Kind> {
    check(&world.effect("k").await, world.store.as_ref());
    world.effect("k").await.attempts.iter().map(|attempt| attempt.kind).collect()
}

#[tokio::test]
async fn inv_i27_a_native_key_is_resent_and_counts_from_the_recovery_point() {
    let world = quarantined(5_000);
    let script = Script::new([]);
    assert!(world.engine.call(call("k", NATIVE), script.doer()).await.is_ok());
    assert_eq!(kinds(&world).await, [Kind::Assumed, Kind::Send]);
    assert_eq!(world.effect("k").await.first_sent, Some(Wall(NOW - 5_000)));
    // A repeat is an ordinary replay.
    assert!(world.engine.call(call("k", NATIVE), script.doer()).await.is_ok());
    assert_eq!(script.sends(), 1);
}

#[tokio::test]
async fn inv_i27_a_native_key_is_not_resent_beyond_its_horizon() {
    let world = quarantined(DAY);
    let script = Script::new([]);
    let error = world.engine.call(call("k", NATIVE), script.doer()).await.unwrap_err();
    assert_eq!((error.code(), script.sends()), (Code::InDoubt, 0));
    assert_eq!(world.state("k").await, State::InDoubt);
}

#[tokio::test]
async fn inv_i27_a_probe_looks_before_it_sends() {
    for contract in [PROBE, PROBE_FIRST] {
        let world = quarantined(5_000);
        let found = Looked::Found(json(r#"{"id":"forgotten"}"#), Vec::new());
        let script = Script::looking([], [found]);
        let ask = call("k", contract);
        let answer = drive(&world.clock, 500, world.engine.call(ask, script.looker())).await;
        assert_eq!(answer.unwrap().text(), r#"{"id":"forgotten"}"#);
        assert_eq!((script.looks(), script.sends()), (1, 0));
        assert_eq!(kinds(&world).await, [Kind::Assumed, Kind::Look]);
    }
}

#[tokio::test]
async fn inv_i27_a_probe_that_finds_nothing_sends() {
    let world = quarantined(5_000);
    let script = Script::looking([], [Looked::Absent]);
    let ask = call("k", PROBE);
    assert!(drive(&world.clock, 500, world.engine.call(ask, script.looker())).await.is_ok());
    assert_eq!(kinds(&world).await, [Kind::Assumed, Kind::Look, Kind::Send]);
    assert_eq!(script.sends(), 1);
}

#[tokio::test]
async fn inv_i27_at_most_once_begins_in_doubt_until_a_person_decides() {
    let world = quarantined(5_000);
    let script = Script::new([]);
    let ask = || Call { hold_ms: 0, ..single("k", Contract::AtMostOnce) };
    for _ in 0..2 {
        let error = world.engine.call(ask(), script.doer()).await.unwrap_err();
        assert_eq!((error.code(), script.sends()), (Code::InDoubt, 0));
    }
    assert_eq!(kinds(&world).await, [Kind::Assumed]);
    let decide = async || {
        let version = world.effect("k").await.version;
        let person = Person { actor: "ada".into(), reason: "never sent".into(), version };
        world.engine.resolve(&address("k"), &person, &Resolution::Retry).await
    };
    // Its worker may still be alive and send until its deadline, and that may land for D.
    world.clock.advance_ms(179_999);
    assert_eq!(decide().await.unwrap_err().code(), Code::TooEarly);
    world.clock.advance_ms(1);
    decide().await.unwrap();
    assert!(world.engine.call(ask(), script.doer()).await.is_ok());
    assert_eq!(script.sends(), 1);
}

#[tokio::test]
async fn inv_i27_what_does_no_harm_twice_is_simply_sent() {
    for contract in [Contract::Conditional, Contract::Harmless] {
        let world = quarantined(5_000);
        let script = Script::new([]);
        assert!(world.engine.call(call("k", contract), script.doer()).await.is_ok());
        assert_eq!((script.sends(), world.state("k").await), (1, State::Done));
    }
}
