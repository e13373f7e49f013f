//! One attempt, from its permit to its end: what cuts it, and what never does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use futures_util::future::BoxFuture;
use semel_core::code::Code;
use semel_core::contract::Declared;
use semel_core::effect::{Abort, State};
use semel_core::record::{Contract, Effect};
use semel_core::retry::Retry;
use semel_engine::{Call, Doer, Engine, Executor, Handler, Looked, Sent};

use crate::common::{
    Fault, File, Flaky, NATIVE, PROBE, Script, World, address, ask, call, check, declared, drive,
    idle, not_applied, receipt, sender, settle_down, single, unknown, world, world_on,
};

fn flaky() -> (World, Arc<Flaky>) {
    let mut flaky = None;
    let world = world_on(|clock| {
        let below = Arc::new(semel_store::memory::Memory::new(clock));
        flaky.insert(Flaky::new(below)).clone()
    });
    (world, flaky.expect("was made"))
}

fn doubt_reason(effect: &Effect) -> &str {
    &effect.attempts.last().expect("an attempt").doubt.as_ref().expect("a doubt").reason
}

#[tokio::test]
async fn case_c5_a_caller_that_leaves_does_not_cut_the_attempt() {
    let file = File::new();
    let engine = file.engine();
    let script = Script::gated([]);
    let (caller, doer) = (engine.clone(), script.doer());
    let first =
        tokio::spawn(async move { caller.call(call("k", Contract::AtMostOnce), doer).await });
    script.entered().await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    script.release();
    settle_down().await;
    let effect = engine.effect(&address("k")).await.unwrap();
    assert_eq!(effect.state(&engine.store().ground().now), State::Done);
    let again = engine.call(call("k", Contract::AtMostOnce), script.doer()).await.unwrap();
    assert_eq!(again.text(), r#"{"id":"ch-1"}"#);
    assert_eq!(script.sends(), 1);
}

/// The permit was granted to somebody who never heard of it: nothing was sent, and it is known.
#[tokio::test]
async fn a_caller_that_leaves_while_its_attempt_is_armed_leaves_no_doubt() {
    for stuck in [Fault::AnswerStuck, Fault::RequestStuck] {
        let (world, flaky) = flaky();
        flaky.plan([stuck]);
        let script = Script::new([]);
        let (engine, doer) = (world.engine.clone(), script.doer());
        let caller =
            tokio::spawn(async move { engine.call(call("k", Contract::AtMostOnce), doer).await });
        idle().await;
        caller.abort();
        idle().await;
        assert_eq!(world.state("k").await, State::Planned, "{stuck:?}");
        check(&world.effect("k").await, world.store.as_ref());
        let answer = world.engine.call(call("k", Contract::AtMostOnce), script.doer()).await;
        assert!(answer.is_ok(), "{stuck:?}: {answer:?}");
        assert_eq!(script.sends(), 1);
        assert_eq!(world.engine.keys_in_flight(), 0);
    }
}

/// What nobody looked for is not absent.
#[tokio::test]
async fn a_caller_that_leaves_while_its_look_is_armed_has_found_nothing_out() {
    let (world, flaky) = flaky();
    let script = Script::new([unknown()]);
    assert!(world.engine.call(single("k", PROBE), script.looker()).await.is_err());
    world.pass_ms(120_000).await;
    // The first commit guesses that there is no row, and is told.
    flaky.plan([Fault::None, Fault::AnswerStuck]);
    let (engine, doer) = (world.engine.clone(), script.looker());
    let caller = tokio::spawn(async move { engine.call(call("k", PROBE), doer).await });
    idle().await;
    caller.abort();
    idle().await;
    assert_eq!((world.state("k").await, script.looks()), (State::InDoubt, 0));
    let effect = world.effect("k").await;
    assert_eq!(effect.attempts.len(), 2);
    assert!(effect.holder(&world.store.ground().now).is_none(), "the look is closed");
}

/// It may come back with its attempt id and resume.
#[tokio::test]
async fn a_caller_with_an_attempt_id_finds_its_attempt_again() {
    let (world, flaky) = flaky();
    flaky.plan([Fault::AnswerStuck]);
    let mut own = ask("k", Contract::AtMostOnce);
    own.attempt_id = "mine".into();
    let (engine, lost) = (world.engine.clone(), own.clone());
    let caller = tokio::spawn(async move { engine.begin(lost, 0).await });
    idle().await;
    caller.abort();
    idle().await;
    assert_eq!(world.state("k").await, State::Pending);
    world.clock.advance_ms(1);
    let Ok(semel_engine::Answer::Attempt(armed)) = world.engine.begin(own, 0).await else {
        panic!("not resumed")
    };
    assert!(armed.permit.resumed);
    assert_eq!(world.effect("k").await.attempts.len(), 1);
}

#[tokio::test]
async fn a_panicking_function_is_unknown() {
    let in_future = sender(|_| async { panic!("as planned") });
    // Before there is a future, too: the closure's own body is user code.
    let before: Arc<Doer> = Arc::new(Doer {
        send: Box::new(|_| panic!("as planned")),
        look: None,
        abort: Abort::Possible,
        executor: Executor::Task,
    });
    for (key, doer) in [("future", in_future), ("closure", before)] {
        let world = world();
        let error = world.engine.call(call(key, Contract::AtMostOnce), doer).await.unwrap_err();
        assert_eq!(error.code(), Code::InDoubt, "{key}: {error}");
        assert_eq!(world.state(key).await, State::InDoubt);
        assert_eq!(doubt_reason(&world.effect(key).await), "the function panicked");
    }
}

#[tokio::test]
async fn a_panicking_look_finds_nothing_out() {
    let world = world();
    let doer = Arc::new(Doer {
        send: Box::new(|_| unreachable!("nothing is sent")),
        look: Some(Box::new(|_| -> BoxFuture<'static, Looked> { panic!("as planned") })),
        abort: Abort::Possible,
        executor: Executor::Task,
    });
    let ask = single("k", Contract::Probe { first: true });
    assert!(world.engine.call(ask, doer).await.is_err());
    assert_eq!(world.state("k").await, State::Planned);
    assert_eq!(world.effect("k").await.attempts.len(), 1);
}

/// Says when it is dropped.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn the_deadline_aborts_the_call_and_files_the_doubt() {
    for reads_key in [true, false] {
        let world = world();
        let dropped = Arc::new(AtomicBool::new(false));
        let flag = dropped.clone();
        let doer = sender(move |intent| {
            let guard = Dropped(flag.clone());
            if reads_key {
                intent.downstream_key();
            }
            async move {
                let _guard = guard;
                std::future::pending::<Sent>().await
            }
        });
        let began = world.store.ground().now.steady.ms;
        let error = world.drive(world.engine.call(single("k", NATIVE), doer)).await.unwrap_err();
        let took = world.store.ground().now.steady.ms - began;
        assert_eq!(error.code(), Code::InDoubt);
        assert!(dropped.load(Ordering::SeqCst), "the call goes on");
        assert!((58_000..60_000).contains(&took), "aborted after {took} ms");
        let effect = world.effect("k").await;
        assert!(doubt_reason(&effect).contains("deadline"), "{}", doubt_reason(&effect));
        let doubt = effect.attempts[0].doubt.as_ref().unwrap();
        assert_eq!(doubt.key_not_used, !reads_key);
        check(&effect, world.store.as_ref());
    }
}

#[tokio::test]
async fn a_native_key_that_was_never_read_is_not_sent_again() {
    let world = world();
    let sends = Arc::new(AtomicU32::new(0));
    let counted = sends.clone();
    let doer = sender(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { unknown() }
    });
    let error = world.drive(world.engine.call(call("k", NATIVE), doer.clone())).await.unwrap_err();
    assert_eq!(error.code(), Code::InDoubt);
    assert!(error.detail().contains("key_not_used"), "{error}");
    assert!(world.drive(world.engine.call(call("k", NATIVE), doer)).await.is_err());
    assert_eq!(sends.load(Ordering::SeqCst), 1);
}

/// A process that was stopped for long must not send what it had not sent yet.
#[tokio::test]
async fn nothing_is_sent_after_the_deadline_by_one_who_slept() {
    let world = world();
    let script = Script::gated([]);
    let landed = Arc::new(AtomicBool::new(false));
    let (flag, slow) = (landed.clone(), script.doer());
    let doer = sender(move |intent| {
        let (flag, before) = (flag.clone(), (slow.send)(intent));
        async move {
            let answer = before.await;
            flag.store(true, Ordering::SeqCst);
            answer
        }
    });
    let engine = world.engine.clone();
    let caller =
        tokio::spawn(async move { engine.call(single("k", Contract::AtMostOnce), doer).await });
    script.entered().await;
    // It wakes long after its deadline, with everything ready at once.
    script.release();
    world.clock.advance_ms(600_000);
    let error = world.drive(caller).await.unwrap().unwrap_err();
    assert_eq!(error.code(), Code::InDoubt);
    assert!(!landed.load(Ordering::SeqCst), "sent after its deadline");
}

#[tokio::test]
async fn a_call_that_cannot_be_aborted_stays_open_and_is_overdue() {
    let world = world();
    let script = Script::gated([]);
    let send = Arc::into_inner(script.doer()).unwrap().send;
    let doer =
        Arc::new(Doer { send, look: None, abort: Abort::Impossible, executor: Executor::Task });
    let engine = world.engine.clone();
    let caller =
        tokio::spawn(async move { engine.call(call("k", Contract::AtMostOnce), doer).await });
    script.entered().await;
    world.pass_ms(55_000).await;
    let now = world.store.ground().now;
    assert!(!world.effect("k").await.attempts[0].is_overdue(&now));
    world.pass_ms(300_000).await;
    world.engine.turn().await.unwrap();
    let (effect, now) = (world.effect("k").await, world.store.ground().now);
    assert_eq!(effect.state(&now), State::Pending, "it lives, whatever the clock says");
    assert!(effect.attempts[0].is_overdue(&now) && effect.attempts[0].renewed);
    script.release();
    assert!(caller.await.unwrap().is_ok());
    assert_eq!(world.state("k").await, State::Done);
}

#[tokio::test]
async fn case_x10_a_renewed_lease_is_not_taken_over_in_twenty_leases() {
    let world = world();
    let other = world.other();
    let script = Script::gated([]);
    let declared = Declared { lease_ms: Some(1_000), ..declared(NATIVE) };
    let ask = Call { declared, ..call("k", NATIVE) };
    let (engine, doer, first) = (world.engine.clone(), script.doer(), ask.clone());
    let caller = tokio::spawn(async move { engine.call(first, doer).await });
    script.entered().await;
    for _ in 0..200 {
        world.clock.advance_ms(100);
        idle().await;
        world.engine.turn().await.unwrap();
        let at_once = Call { hold_ms: 0, ..ask.clone() };
        let error = other.call(at_once, script.doer()).await.unwrap_err();
        assert_eq!(error.code(), Code::InProgress);
    }
    script.release();
    assert!(caller.await.unwrap().is_ok());
    assert_eq!(script.sends(), 1);
    assert_eq!(world.effect("k").await.attempts.len(), 1);
}

/// The store does not take renewals; somebody else takes over. The first is aborted, says nothing
/// wrong, and its caller gets what the other made.
#[tokio::test]
async fn a_lost_lease_aborts_the_call_and_its_caller_gets_the_others_receipt() {
    let (world, flaky) = flaky();
    let other = Engine::new(world.store.clone(), "worker-2").unwrap();
    let (slow, quick) = (Script::gated([]), Script::gated([receipt(2)]));
    let (engine, doer) = (world.engine.clone(), slow.doer());
    let first = tokio::spawn(async move { engine.call(call("k", NATIVE), doer).await });
    slow.entered().await;
    // The renewals fail until the lease is over, long before the deadline.
    flaky.plan([Fault::Unavailable; 2]);
    world.pass_ms(30_001).await;
    let doer = quick.doer();
    let second = tokio::spawn(async move { other.call(call("k", NATIVE), doer).await });
    quick.entered().await;
    world.pass_ms(5_000).await;
    assert_eq!(world.effect("k").await.attempts.len(), 2);
    // It is aborted: its answer is of no use any more.
    slow.release();
    idle().await;
    assert!(!first.is_finished(), "it waits for the other");
    quick.release();
    assert_eq!(second.await.unwrap().unwrap().text(), r#"{"id":"ch-2"}"#);
    assert_eq!(world.drive(first).await.unwrap().unwrap().text(), r#"{"id":"ch-2"}"#);
    assert_eq!((slow.sends(), quick.sends()), (1, 1));
    check(&world.effect("k").await, world.store.as_ref());
    assert!(world.effect("k").await.alarms.is_empty());
}

/// Its proof comes after somebody took over, so it changes nothing; the caller attaches.
/// A handler that lost its lease meanwhile: what it proves of its own attempt changes nothing.
#[tokio::test]
async fn inv_i5_a_handlers_proof_under_a_stale_fence_changes_nothing() {
    let (world, flaky) = flaky();
    let other = Engine::new(world.store.clone(), "worker-2").unwrap();
    let planned = Script::new([not_applied()]);
    world.engine.call(single("k", NATIVE), planned.doer()).await.unwrap_err();
    let (slow, quick) =
        (Script::gated([Sent::Refused("never".into())]), Script::gated([receipt(2)]));
    let handler = Handler::new(slow.doer(), declared(NATIVE), Retry::default());
    world.engine.handle(address("k").namespace, address("k").action, handler);
    world.engine.turn().await.unwrap();
    slow.entered().await;
    flaky.plan([Fault::RequestStuck]);
    world.pass_ms(30_001).await;
    let doer = quick.doer();
    let second = tokio::spawn(async move { other.call(call("k", NATIVE), doer).await });
    quick.entered().await;
    let before = world.effect("k").await;
    slow.release();
    world.pass_ms(1_000).await;
    let old = before.attempts.len() - 1;
    assert_eq!(world.effect("k").await.attempts[..old], before.attempts[..old], "a stale word");
    assert_eq!(world.state("k").await, State::Pending, "the stale word settled it");
    quick.release();
    assert!(second.await.unwrap().is_ok());
    world.pass_ms(5_000).await;
    let effect = world.effect("k").await;
    assert_eq!(effect.receipt().unwrap().text(), r#"{"id":"ch-2"}"#);
    assert_eq!((slow.sends(), quick.sends()), (1, 1));
    check(&effect, world.store.as_ref());
}

#[tokio::test]
async fn a_proof_under_a_stale_fence_is_not_told_as_the_outcome() {
    let (world, flaky) = flaky();
    let other = Engine::new(world.store.clone(), "worker-2").unwrap();
    let (slow, quick) = (Script::gated([not_applied()]), Script::gated([receipt(2)]));
    let (engine, doer) = (world.engine.clone(), slow.doer());
    let first = tokio::spawn(async move { engine.call(call("k", NATIVE), doer).await });
    slow.entered().await;
    // A renewal that hangs: the worker does not hear that its lease is over.
    flaky.plan([Fault::RequestStuck]);
    world.pass_ms(30_001).await;
    let doer = quick.doer();
    let second = tokio::spawn(async move { other.call(call("k", NATIVE), doer).await });
    quick.entered().await;
    slow.release();
    idle().await;
    assert!(!first.is_finished(), "answered while the other is at it");
    quick.release();
    assert!(second.await.unwrap().is_ok());
    assert_eq!(world.drive(first).await.unwrap().unwrap().text(), r#"{"id":"ch-2"}"#);
}

#[tokio::test]
async fn a_permit_that_lapsed_before_the_send_sends_nothing() {
    let (world, flaky) = flaky();
    // The permit ends two seconds before the lease of thirty.
    flaky.plan([Fault::Late(28_000)]);
    let script = Script::new([]);
    let ask = single("k", Contract::AtMostOnce);
    let error = world.drive(world.engine.call(ask, script.doer())).await.unwrap_err();
    assert_eq!(error.code(), Code::NotApplied);
    assert!(error.detail().contains("permit_lapsed"), "{error}");
    assert_eq!(script.sends(), 0);
    assert_eq!(world.state("k").await, State::Planned);
    // A millisecond earlier it is good.
    flaky.plan([Fault::Late(27_999)]);
    let ask = single("other", Contract::AtMostOnce);
    assert!(world.drive(world.engine.call(ask, script.doer())).await.is_ok());
    assert_eq!(script.sends(), 1);
}

#[tokio::test]
async fn a_lease_that_lapsed_before_the_send_sends_nothing_either() {
    let (world, flaky) = flaky();
    flaky.plan([Fault::Late(31_000)]);
    let script = Script::new([]);
    let ask = single("k", Contract::AtMostOnce);
    let error = world.drive(world.engine.call(ask, script.doer())).await.unwrap_err();
    assert_eq!(error.code(), Code::InDoubt);
    assert_eq!(script.sends(), 0);
}

/// The answer arrives while a renewal hangs in the store: the call is not held up by it.
#[tokio::test]
async fn a_store_that_hangs_does_not_hang_the_call() {
    let (world, flaky) = flaky();
    let script = Script::gated([]);
    let (engine, doer) = (world.engine.clone(), script.doer());
    let caller = tokio::spawn(async move { engine.call(call("k", NATIVE), doer).await });
    script.entered().await;
    flaky.plan([Fault::AnswerStuck]);
    world.pass_ms(11_000).await;
    assert_eq!(flaky.commits(), 2, "the renewal is in the store");
    script.release();
    assert!(world.drive(caller).await.unwrap().is_ok());
    assert_eq!(world.state("k").await, State::Done);
}

/// It cannot hold up the deadline either.
#[tokio::test]
async fn a_store_that_hangs_does_not_move_the_deadline() {
    let (world, flaky) = flaky();
    let doer = sender(|_| std::future::pending::<Sent>());
    let began = world.store.ground().now.steady.ms;
    flaky.plan([Fault::None, Fault::RequestStuck]);
    let ask = Call { retry: Retry::NONE, ..call("k", Contract::AtMostOnce) };
    let error = drive(&world.clock, 100, world.engine.call(ask, doer)).await.unwrap_err();
    assert_eq!(error.code(), Code::InDoubt);
    assert!(world.store.ground().now.steady.ms - began <= 60_000);
}
