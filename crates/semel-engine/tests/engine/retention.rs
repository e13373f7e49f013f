//! Retention: done, then a tombstone, then nothing; what is open is never swept.

use std::sync::Arc;

use futures_util::future::join_all;
use semel_core::code::Code;
use semel_core::contract::Declared;
use semel_core::effect::{Person, State};
use semel_core::limits;
use semel_core::record::Contract;
use semel_engine::{Answer, Call, Engine};
use semel_store::memory::Memory;
use semel_store::{Clock, ManualClock, Store};

use crate::common::{
    DAY, File, NATIVE, Script, World, address, ask, call, check, declared, single, unknown, world,
};

const WINDOW: u64 = 30 * DAY;

async fn done(world: &World, key: &str, script: &Arc<Script>) {
    assert!(world.engine.call(call(key, NATIVE), script.doer()).await.is_ok());
}

fn person(version: u64) -> Person {
    Person { actor: "ada".into(), reason: "again".into(), version }
}

#[tokio::test]
async fn case_e1_after_its_window_a_key_answers_expired_and_sends_nothing() {
    let world = world();
    let script = Script::new([]);
    done(&world, "k", &script).await;
    world.clock.advance_ms(WINDOW - 1);
    assert_eq!(world.engine.sweep().await.unwrap(), 0);
    done(&world, "k", &script).await;
    world.clock.advance_ms(1);
    assert_eq!(world.engine.sweep().await.unwrap(), 1);
    assert_eq!(world.state("k").await, State::Expired);
    let error = world.engine.call(call("k", NATIVE), script.doer()).await.unwrap_err();
    assert_eq!((error.code(), script.sends()), (Code::Expired, 1));
    // Nothing of the payload is left in the tombstone.
    let effect = world.effect("k").await;
    assert!(effect.plan.is_none() && effect.attempts.is_empty());
    check(&effect, world.store.as_ref());
    // Much later it is gone for good.
    world.clock.advance_ms(limits::TOMBSTONE_MS - 1);
    assert_eq!(world.engine.sweep().await.unwrap(), 0);
    world.clock.advance_ms(1);
    assert_eq!(world.engine.sweep().await.unwrap(), 1);
    assert!(world.store.load(&address("k")).await.unwrap().is_none());
}

#[tokio::test]
async fn req_e1_rows_expire_after_the_window_that_was_declared() {
    let world = world();
    let script = Script::new([]);
    let declared = Declared { window_ms: Some(7 * DAY), ..declared(Contract::AtMostOnce) };
    let ask = Call { declared, ..call("k", Contract::AtMostOnce) };
    assert!(world.engine.call(ask.clone(), script.doer()).await.is_ok());
    world.clock.advance_ms(7 * DAY - 1);
    world.engine.sweep().await.unwrap();
    assert!(world.engine.call(ask.clone(), script.doer()).await.is_ok(), "too soon");
    world.clock.advance_ms(1);
    world.engine.sweep().await.unwrap();
    let error = world.engine.call(ask, script.doer()).await.unwrap_err();
    assert_eq!((error.code(), script.sends()), (Code::Expired, 1));
}

#[tokio::test]
async fn case_e7_what_is_open_or_in_doubt_never_expires() {
    let world = world();
    let script = Script::new([unknown(), crate::common::not_applied()]);
    let ask_doubt = single("doubt", Contract::AtMostOnce);
    assert!(world.engine.call(ask_doubt, script.doer()).await.is_err());
    assert!(world.engine.call(single("planned", NATIVE), script.doer()).await.is_err());
    world.clock.advance_ms(20 * 365 * DAY);
    assert!(matches!(world.engine.begin(ask("pending", NATIVE), 0).await, Ok(Answer::Attempt(_))));
    assert_eq!(world.engine.sweep().await.unwrap(), 0);
    assert_eq!(world.state("doubt").await, State::InDoubt);
    assert_eq!(world.state("planned").await, State::Planned);
    assert_eq!(world.state("pending").await, State::Pending);
}

#[tokio::test]
async fn a_sweep_goes_through_many_batches() {
    let world = world();
    let script = Script::new([]);
    let rows = 3 * limits::SWEEP_ROWS_MAX + 7;
    for number in 0..rows {
        done(&world, &format!("k{number}"), &script).await;
    }
    world.clock.advance_ms(WINDOW);
    assert_eq!(world.engine.sweep().await.unwrap(), rows);
    assert_eq!(world.engine.sweep().await.unwrap(), 0);
}

/// Duplicates meet the sweeper at every moment: replay or expired, never a second send.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_e4_ten_thousand_duplicates_race_the_sweeper() {
    let clock = ManualClock::new(1_700_000_000_000);
    let store: Arc<dyn Store> = Arc::new(Memory::new(Clock::Manual(clock.clone())));
    let engine = Engine::new(store.clone(), "worker-1").unwrap();
    let sweeper = Engine::new(store, "sweeper").unwrap();
    let script = Script::new([]);
    for number in 0..1_000 {
        let ask = call(&format!("k{number}"), NATIVE);
        assert!(engine.call(ask, script.doer()).await.is_ok());
    }
    clock.advance_ms(WINDOW);
    let mut tasks = Vec::new();
    for number in 0..1_000 {
        for _ in 0..10 {
            let (engine, doer) = (engine.clone(), script.doer());
            let ask = call(&format!("k{number}"), NATIVE);
            tasks.push(tokio::spawn(async move { engine.call(ask, doer).await }));
        }
        if number % 100 == 50 {
            let sweeper = sweeper.clone();
            tokio::spawn(async move { sweeper.sweep().await });
        }
    }
    let mut expired = 0;
    for answer in join_all(tasks).await {
        match answer.unwrap() {
            Ok(_) => {}
            Err(error) if error.code() == Code::Expired => expired += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(script.sends(), 1_000, "a duplicate was executed");
    assert!(expired > 0, "the sweeper never came between");
    assert_eq!(engine.keys_in_flight(), 0);
}

#[tokio::test]
async fn old_generations_go_with_the_newest() {
    let world = world();
    let script = Script::new([]);
    done(&world, "k", &script).await;
    let version = world.effect("k").await.version;
    world.engine.supersede(&address("k"), &person(version)).await.unwrap();
    done(&world, "k", &script).await;
    world.clock.advance_ms(WINDOW);
    assert_eq!(world.engine.sweep().await.unwrap(), 2, "both are tombstones");
    // The newest is done once more: the old tombstone may not take it along.
    let version = world.effect("k").await.version;
    let new = world.engine.supersede(&address("k"), &person(version)).await.unwrap();
    assert_eq!(new.generation, 2);
    done(&world, "k", &script).await;
    world.clock.advance_ms(limits::TOMBSTONE_MS);
    world.engine.sweep().await.unwrap();
    assert_eq!(world.state("k").await, State::Expired, "the newest is a tombstone now");
    assert!(world.engine.generation(&address("k"), 0).await.is_ok());
    world.clock.advance_ms(limits::TOMBSTONE_MS);
    world.engine.sweep().await.unwrap();
    for generation in 0..3 {
        let gone = world.engine.generation(&address("k"), generation).await.unwrap_err();
        assert_eq!(gone.code(), Code::NotFound, "{generation}");
    }
}

#[tokio::test]
async fn an_expired_key_can_be_superseded_and_its_fences_still_rise() {
    let world = world();
    let script = Script::new([]);
    done(&world, "k", &script).await;
    let fence = world.effect("k").await.last_fence();
    world.clock.advance_ms(WINDOW);
    world.engine.sweep().await.unwrap();
    let version = world.effect("k").await.version;
    world.engine.supersede(&address("k"), &person(version)).await.unwrap();
    done(&world, "k", &script).await;
    assert!(world.effect("k").await.attempts[0].fence > fence);
    assert_eq!(script.sends(), 2);
}

/// A wall clock that went back proves nothing about ages.
#[tokio::test]
async fn nothing_is_swept_by_a_clock_that_is_behind() {
    let file = File::new();
    let engine = file.engine();
    let script = Script::new([]);
    assert!(engine.call(call("old", NATIVE), script.doer()).await.is_ok());
    file.clock.advance_ms(2 * WINDOW);
    assert!(engine.call(call("new", NATIVE), script.doer()).await.is_ok());
    file.clock.step_wall_ms(-i64::try_from(DAY).unwrap());
    assert_eq!(engine.sweep().await.unwrap(), 0);
    file.clock.step_wall_ms(i64::try_from(DAY).unwrap());
    assert_eq!(engine.sweep().await.unwrap(), 1);
}
