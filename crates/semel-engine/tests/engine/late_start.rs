//! Code that runs in a thread or an event loop of somebody else: armed when that is ready, begun
//! before its permit ends, or not at all.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use semel_core::code::Code;
use semel_core::effect::approve::Ask;
use semel_core::effect::{Abort, Person, State};
use semel_core::record::{Answer, Contract, Kind};
use semel_core::retry::Retry;
use semel_engine::{Call, Doer, Executor, Handler, Intent, Looked, Sent, Slot};
use tokio::sync::{Semaphore, oneshot};

use crate::common::{
    NATIVE, PROBE_FIRST, World, address, call, check, declared, idle, receipt, single, world,
};

/// Somebody else's threads, which come to their work when the test says so.
struct Elsewhere {
    threads: Arc<Semaphore>,
    sends: Mutex<VecDeque<(Intent, oneshot::Sender<Sent>)>>,
    looks: Mutex<VecDeque<(Intent, oneshot::Sender<Looked>)>>,
    sent: AtomicU32,
    looked: AtomicU32,
}

impl Elsewhere {
    fn new(threads: usize) -> Arc<Elsewhere> {
        Arc::new(Elsewhere {
            threads: Arc::new(Semaphore::new(threads)),
            sends: Mutex::default(),
            looks: Mutex::default(),
            sent: AtomicU32::new(0),
            looked: AtomicU32::new(0),
        })
    }

    fn doer(self: &Arc<Elsewhere>, abort: Abort) -> Arc<Doer> {
        let (sends, looks, threads) = (self.clone(), self.clone(), self.threads.clone());
        let send = move |intent: Intent| {
            let (reply, replied) = oneshot::channel();
            sends.sends.lock().unwrap().push_back((intent, reply));
            replied.map(|sent| sent.unwrap_or(Sent::Unknown("lost".into()))).boxed()
        };
        let look = move |intent: Intent| {
            let (reply, replied) = oneshot::channel();
            looks.looks.lock().unwrap().push_back((intent, reply));
            replied.map(|found| found.unwrap_or(Looked::Unknown("lost".into()))).boxed()
        };
        let ready = move || {
            let threads = threads.clone();
            async move { Ok(Box::new(threads.acquire_owned().await.unwrap()) as Slot) }.boxed()
        };
        Arc::new(Doer {
            send: Box::new(send),
            look: Some(Box::new(look)),
            abort,
            executor: Executor::Away(Arc::new(ready)),
        })
    }

    /// A thread comes to the next send. False: it must not begin.
    fn come_to_send(&self) -> bool {
        let (intent, reply) = self.sends.lock().unwrap().pop_front().expect("a send waits");
        assert!(!intent.downstream_key().is_empty());
        let begins = intent.clearance().begin();
        assert!(!intent.clearance().begin(), "begun twice");
        if begins {
            let number = self.sent.fetch_add(1, Ordering::SeqCst) + 1;
            let _ = reply.send(receipt(number));
        }
        drop(intent.clearance().take_slot());
        begins
    }

    fn come_to_look(&self, found: Looked) -> bool {
        let (intent, reply) = self.looks.lock().unwrap().pop_front().expect("a look waits");
        let begins = intent.clearance().begin();
        if begins {
            self.looked.fetch_add(1, Ordering::SeqCst);
            let _ = reply.send(found);
        }
        begins
    }

    fn waiting(&self) -> usize {
        self.sends.lock().unwrap().len()
    }

    fn sent(&self) -> u32 {
        self.sent.load(Ordering::SeqCst)
    }
}

fn reasons(effect: &semel_core::record::Effect) -> Vec<Option<&str>> {
    effect.attempts.iter().map(|attempt| attempt.not_applied_reason()).collect()
}

async fn start(world: &World, there: &Arc<Elsewhere>, key: &str, abort: Abort) -> Started {
    let (engine, doer, ask) = (world.engine.clone(), there.doer(abort), call(key, NATIVE));
    let caller = tokio::spawn(async move { engine.call(ask, doer).await });
    idle().await;
    caller
}

type Started = tokio::task::JoinHandle<Result<semel_core::json::Json, semel_engine::Error>>;

/// The queue is long, the permit ends, the thread comes to it: nothing is sent. Then it is, once.
#[tokio::test]
async fn a_send_that_waited_past_its_permit_is_not_begun() {
    for abort in [Abort::Possible, Abort::Impossible] {
        let (world, there) = (world(), Elsewhere::new(1));
        let caller = start(&world, &there, "k", abort).await;
        // All at once: the engine has no time to take it back before the thread asks.
        world.clock.advance_ms(28_000);
        assert!(!there.come_to_send(), "{abort:?}: begun after its permit");
        idle().await;
        let effect = world.effect("k").await;
        assert_eq!(effect.state(&world.store.ground().now), State::Planned, "{abort:?}");
        assert!(reasons(&effect)[0].unwrap().contains("permit_lapsed"), "{effect:?}");
        world.pass_ms(3_000).await;
        assert!(there.come_to_send(), "{abort:?}");
        assert!(caller.await.unwrap().is_ok());
        assert_eq!((there.sent(), world.effect("k").await.attempts.len()), (1, 2));
        check(&world.effect("k").await, world.store.as_ref());
    }
}

#[tokio::test]
async fn a_send_begins_up_to_the_last_millisecond_of_its_permit() {
    let (world, there) = (world(), Elsewhere::new(1));
    let caller = start(&world, &there, "k", Abort::Impossible).await;
    world.clock.advance_ms(27_999);
    assert!(there.come_to_send());
    assert!(caller.await.unwrap().is_ok());
}

/// Nobody comes to it: the engine does not wait for that, and whoever comes later is refused.
#[tokio::test]
async fn an_attempt_that_nobody_began_is_taken_back_when_its_permit_ends() {
    for abort in [Abort::Possible, Abort::Impossible] {
        let (world, there) = (world(), Elsewhere::new(2));
        let caller = start(&world, &there, "k", abort).await;
        world.pass_ms(28_000).await;
        let effect = world.effect("k").await;
        assert!(reasons(&effect)[0].unwrap().contains("permit_lapsed"), "{abort:?}");
        world.pass_ms(3_000).await;
        assert_eq!(there.waiting(), 2, "{abort:?}: armed once more");
        assert!(!there.come_to_send(), "{abort:?}: the first was taken back");
        assert!(there.come_to_send(), "{abort:?}");
        assert!(caller.await.unwrap().is_ok());
        assert_eq!(there.sent(), 1);
    }
}

/// 64 busy threads: the attempt is not armed, so no time of it passes.
#[tokio::test]
async fn nothing_is_armed_before_a_thread_is_ready() {
    let (world, there) = (world(), Elsewhere::new(0));
    let caller = start(&world, &there, "k", Abort::Impossible).await;
    world.pass_ms(600_000).await;
    let found = world.engine.effect(&address("k")).await;
    assert_eq!(found.unwrap_err().code(), Code::NotFound, "armed, and nobody is there");
    there.threads.add_permits(1);
    idle().await;
    assert!(there.come_to_send());
    assert!(caller.await.unwrap().is_ok());
    assert_eq!((there.sent(), world.effect("k").await.attempts.len()), (1, 1));
}

/// What a repeat is told needs no thread, and whoever waits for another's receipt holds none.
#[tokio::test]
async fn whoever_sends_nothing_holds_no_thread() {
    let (world, there) = (world(), Elsewhere::new(2));
    let first = start(&world, &there, "k", Abort::Possible).await;
    let second = start(&world, &there, "k", Abort::Possible).await;
    assert_eq!((there.threads.available_permits(), there.waiting()), (1, 1));
    let other = start(&world, &there, "other", Abort::Possible).await;
    assert_eq!((there.threads.available_permits(), there.waiting()), (0, 2));
    let repeat = start(&world, &there, "k", Abort::Possible).await;
    assert!(there.come_to_send());
    for caller in [first, second, repeat] {
        assert!(caller.await.unwrap().is_ok());
    }
    assert!(there.come_to_send());
    assert!(other.await.unwrap().is_ok());
    idle().await;
    assert_eq!((there.threads.available_permits(), there.sent()), (2, 2));
}

/// A caller that leaves while it waits for a thread leaves nothing behind.
#[tokio::test]
async fn a_caller_that_leaves_before_a_thread_is_ready_arms_nothing() {
    let (world, there) = (world(), Elsewhere::new(0));
    let caller = start(&world, &there, "k", Abort::Possible).await;
    caller.abort();
    idle().await;
    there.threads.add_permits(1);
    idle().await;
    assert_eq!(world.engine.effect(&address("k")).await.unwrap_err().code(), Code::NotFound);
    assert_eq!((there.threads.available_permits(), world.engine.keys_in_flight()), (1, 0));
}

#[tokio::test]
async fn a_look_that_waited_past_its_permit_is_not_begun() {
    let (world, there) = (world(), Elsewhere::new(2));
    let (engine, doer) = (world.engine.clone(), there.doer(Abort::Possible));
    let caller = tokio::spawn(async move { engine.call(call("k", PROBE_FIRST), doer).await });
    idle().await;
    world.clock.advance_ms(28_000);
    assert!(!there.come_to_look(Looked::Absent), "asked after its permit");
    world.pass_ms(3_000).await;
    let effect = world.effect("k").await;
    let kinds: Vec<_> = effect.attempts.iter().map(|attempt| attempt.kind).collect();
    assert_eq!(kinds, [Kind::Look, Kind::Look], "what was not asked is not absent");
    assert!(there.come_to_look(Looked::Absent));
    idle().await;
    assert!(there.come_to_send());
    assert!(caller.await.unwrap().is_ok());
    assert_eq!((there.looked.load(Ordering::SeqCst), there.sent()), (1, 1));
}

/// The same for a handler: it goes the way of any caller.
#[tokio::test]
async fn a_handler_does_not_begin_a_send_after_its_permit() {
    let (world, there) = (world(), Elsewhere::new(1));
    let script = crate::common::Script::new([crate::common::not_applied()]);
    assert!(world.engine.call(single("k", NATIVE), script.doer()).await.is_err());
    let handler = Handler::new(there.doer(Abort::Impossible), declared(NATIVE), Retry::default());
    world.engine.handle(address("k").namespace, address("k").action, handler);
    world.engine.turn().await.unwrap();
    idle().await;
    world.clock.advance_ms(28_000);
    assert!(!there.come_to_send(), "begun after its permit");
    world.pass_ms(3_000).await;
    assert!(there.come_to_send());
    idle().await;
    assert_eq!((there.sent(), world.state("k").await), (1, State::Done));
}

/// What a person approved is sent by the caller or by a handler: a yes is not a longer permit.
#[tokio::test]
async fn an_approved_send_is_not_begun_after_its_permit() {
    for by in ["caller", "handler"] {
        let (world, there) = (world(), Elsewhere::new(1));
        let asking = Call { approval: Some(Ask::default()), ..call("k", NATIVE) };
        let doer = there.doer(Abort::Impossible);
        let held = world.engine.call(asking.clone(), doer.clone()).await.unwrap_err();
        assert_eq!((held.code(), there.waiting()), (Code::Held, 0), "{by}");
        let effect = world.effect("k").await;
        let digest = effect.approval.as_ref().unwrap().digest.clone();
        let ann = Person { actor: "ann".into(), reason: "read".into(), version: effect.version };
        world.engine.judge(&effect.address, &ann, Answer::Approved, &digest).await.unwrap();
        match by {
            "caller" => {
                let engine = world.engine.clone();
                drop(tokio::spawn(async move { engine.call(asking, doer).await }));
            }
            _ => {
                let handler = Handler::new(doer, declared(NATIVE), Retry::default());
                world.engine.handle(address("k").namespace, address("k").action, handler);
                world.engine.turn().await.unwrap();
            }
        }
        idle().await;
        world.clock.advance_ms(28_000);
        assert!(!there.come_to_send(), "{by}: begun after its permit");
        world.pass_ms(3_000).await;
        assert!(reasons(&world.effect("k").await)[0].unwrap().contains("permit_lapsed"), "{by}");
        assert!(there.come_to_send(), "{by}");
        idle().await;
        assert_eq!((there.sent(), world.state("k").await), (1, State::Done), "{by}");
    }
}

/// A process that closes its event loop: what was not begun did not happen.
#[tokio::test]
async fn what_is_lost_before_it_began_was_not_sent() {
    let (world, there) = (world(), Elsewhere::new(2));
    let (engine, doer) = (world.engine.clone(), there.doer(Abort::Possible));
    let ask = single("k", Contract::AtMostOnce);
    let caller = tokio::spawn(async move { engine.call(ask, doer).await });
    idle().await;
    there.sends.lock().unwrap().clear();
    let error = caller.await.unwrap().unwrap_err();
    assert_eq!(error.code(), Code::NotApplied, "{error}");
    assert_eq!(world.state("k").await, State::Planned);
}
