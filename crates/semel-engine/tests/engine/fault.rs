//! The store fails at every point of begin and settle: still one send, and the right end.

use std::sync::Arc;

use semel_core::code::Code;
use semel_core::effect::State;
use semel_core::json::Json;
use semel_core::record::Contract;
use semel_engine::{Doer, Engine, Sent};
use semel_store::memory::Memory;

use crate::common::{
    Fault, File, Flaky, NATIVE, PROBE, PROBE_FIRST, Script, World, address, call, check, drive,
    idle, receipt, single, unknown, world_on,
};

fn flaky() -> (World, Arc<Flaky>) {
    let mut flaky = None;
    let world = world_on(|clock| flaky.insert(Flaky::new(Arc::new(Memory::new(clock)))).clone());
    (world, flaky.expect("was made"))
}

/// One story: under this contract the sends answer so, and in the end there were that many.
struct Story {
    name: &'static str,
    contract: Contract,
    answers: Vec<Sent>,
    sends: u32,
    looks: u32,
}

fn stories() -> Vec<Story> {
    let plain = |name, contract| Story { name, contract, answers: vec![], sends: 1, looks: 0 };
    let cut = |name, contract, looks| {
        let answers = vec![unknown(), receipt(2)];
        Story { name, contract, answers, sends: 2, looks }
    };
    vec![
        plain("native", NATIVE),
        plain("conditional", Contract::Conditional),
        plain("harmless", Contract::Harmless),
        plain("at most once", Contract::AtMostOnce),
        plain("probe", PROBE),
        Story { looks: 1, ..plain("probe first", PROBE_FIRST) },
        cut("native, cut", NATIVE, 0),
        cut("conditional, cut", Contract::Conditional, 0),
        cut("harmless, cut", Contract::Harmless, 0),
        cut("probe, cut", PROBE, 1),
    ]
}

fn doer(script: &Arc<Script>, contract: Contract) -> Arc<Doer> {
    match contract {
        Contract::Probe { .. } => script.looker(),
        _ => script.doer(),
    }
}

/// Calls until the store has let it through, as a worker would.
async fn call_until_done(world: &World, story: &Story, script: &Arc<Script>) -> (Json, u32) {
    for errors in 0..10 {
        let ask = call("k", story.contract);
        let doer = doer(script, story.contract);
        match drive(&world.clock, 2_000, world.engine.call(ask, doer)).await {
            Ok(receipt) => return (receipt, errors),
            Err(error) => {
                let passing = [Code::StoreUnavailable, Code::StoreFull];
                assert!(passing.contains(&error.code()), "{}: {error}", story.name);
            }
        }
    }
    panic!("{}: never done", story.name)
}

async fn play(story: &Story, faults: &[Fault]) -> u32 {
    let (world, flaky) = flaky();
    flaky.plan(faults.iter().copied());
    let script = Script::new(story.answers.clone());
    let (receipt, errors) = call_until_done(&world, story, &script).await;
    let told = format!("{} with {faults:?}", story.name);
    assert_eq!((script.sends(), script.looks()), (story.sends, story.looks), "{told}");
    let effect = world.effect("k").await;
    assert_eq!(world.state("k").await, State::Done, "{told}");
    assert_eq!(effect.receipt(), Some(&receipt), "{told}");
    assert!(effect.alarms.is_empty(), "{told}");
    check(&effect, world.store.as_ref());
    // What was acknowledged stays so, and nothing is sent again.
    let (again, _) = call_until_done(&world, story, &script).await;
    assert_eq!((again, script.sends()), (receipt, story.sends), "{told}");
    errors
}

/// How many commits of a story may go wrong: more than any story has.
const POINTS: usize = 9;

#[tokio::test]
async fn inv_i9_one_fault_at_every_commit_changes_nothing() {
    for story in stories() {
        for fault in Fault::ALL {
            for point in 0..POINTS {
                let mut faults = vec![Fault::None; point];
                faults.push(fault);
                play(&story, &faults).await;
            }
        }
    }
}

#[tokio::test]
async fn inv_i9_two_faults_at_every_pair_of_commits_change_nothing() {
    for story in stories() {
        for (first, second) in Fault::ALL.iter().flat_map(|a| Fault::ALL.map(|b| (*a, b))) {
            for point in 0..4 {
                for gap in 0..3 {
                    let mut faults = vec![Fault::None; point];
                    faults.push(first);
                    faults.extend(vec![Fault::None; gap]);
                    faults.push(second);
                    play(&story, &faults).await;
                }
            }
        }
    }
}

/// The store applied it and the answer was lost: that is success, and no caller hears of it.
#[tokio::test]
async fn bug_inngest_2385_a_lost_commit_answer_is_success() {
    for story in stories() {
        for lost in [Fault::AnswerLost, Fault::RequestLost] {
            assert_eq!(play(&story, &[lost; POINTS]).await, 0, "{}", story.name);
            let errors = play(&story, &[lost, lost, Fault::AnswerLost, lost]).await;
            assert_eq!(errors, 0, "{}", story.name);
        }
    }
}

#[tokio::test]
async fn bug_inngest_2385_on_a_real_file() {
    let file = File::new();
    let flaky = Flaky::new(file.open());
    let engine = Engine::new(flaky.clone(), "worker-1").unwrap();
    let script = Script::new([]);
    flaky.plan([Fault::AnswerLost, Fault::RequestLost, Fault::None, Fault::AnswerLost]);
    let ask = || call("k", Contract::AtMostOnce);
    let first = tokio::spawn({
        let (engine, doer) = (engine.clone(), script.doer());
        async move { engine.call(ask(), doer).await }
    });
    while !first.is_finished() {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        file.clock.advance_ms(10);
    }
    let first = first.await.unwrap().unwrap();
    assert_eq!(engine.call(ask(), script.doer()).await.unwrap(), first);
    assert_eq!(script.sends(), 1);
    assert_eq!(engine.effect(&address("k")).await.unwrap().attempts.len(), 1);
}

/// The answer is there, the store is not: it is filed when the store is back.
#[tokio::test]
async fn a_receipt_is_kept_while_the_store_is_away() {
    for fault in [Fault::Unavailable, Fault::Full] {
        let (world, flaky) = flaky();
        let script = Script::new([]);
        flaky.plan([Fault::None]);
        flaky.plan([fault; 10]);
        let ask = call("k", Contract::AtMostOnce);
        let answer = world.drive(world.engine.call(ask, script.doer())).await;
        assert!(answer.is_ok(), "{answer:?}");
        assert_eq!((script.sends(), world.state("k").await), (1, State::Done));
    }
}

/// Gone for good: the caller is not told that it went well, and the doubt is on record later.
#[tokio::test]
async fn case_o9_what_could_not_be_recorded_is_not_acknowledged() {
    let (world, flaky) = flaky();
    let script = Script::new([]);
    flaky.plan([Fault::None]);
    flaky.plan([Fault::Unavailable; 40]);
    let ask = || single("k", Contract::AtMostOnce);
    let error = drive(&world.clock, 500, world.engine.call(ask(), script.doer())).await;
    assert_eq!(error.unwrap_err().code(), Code::StoreUnavailable);
    assert_eq!(world.state("k").await, State::Pending);
    // The receipt is evidence: it is kept, and filed when the store is back, whatever the lease.
    world.pass_ms(120_000).await;
    assert_eq!(world.state("k").await, State::Done);
    assert!(world.engine.call(ask(), script.doer()).await.is_ok());
    assert_eq!(script.sends(), 1);
}

#[tokio::test]
async fn a_store_that_cannot_be_read_sends_nothing() {
    let (world, flaky) = flaky();
    let script = Script::gated([]);
    let (engine, doer) = (world.engine.clone(), script.doer());
    let first = tokio::spawn(async move { engine.call(call("k", NATIVE), doer).await });
    script.entered().await;
    // Somebody waits, so the second caller has to ask the store.
    let (engine, doer) = (world.engine.clone(), script.doer());
    let waiter = tokio::spawn(async move { engine.call(call("k", NATIVE), doer).await });
    idle().await;
    flaky.set_blind(true);
    let error = world.engine.call(call("k", NATIVE), script.doer()).await.unwrap_err();
    assert_eq!(error.code(), Code::StoreUnavailable);
    flaky.set_blind(false);
    script.release();
    assert!(first.await.unwrap().is_ok() && waiter.await.unwrap().is_ok());
    assert_eq!(script.sends(), 1);
}

/// A store that never says whether it committed is not believed either way.
#[tokio::test]
async fn a_commit_that_stays_unknown_is_never_sent_under() {
    let (world, flaky) = flaky();
    let script = Script::new([]);
    flaky.plan([Fault::RequestLost; 24]);
    let ask = || single("k", Contract::AtMostOnce);
    let error = world.drive(world.engine.call(ask(), script.doer())).await.unwrap_err();
    assert_eq!((error.code(), script.sends()), (Code::StoreUnavailable, 0));
    assert!(world.store.load(&address("k")).await.unwrap().is_none());
    assert!(world.drive(world.engine.call(ask(), script.doer())).await.is_ok());
    assert_eq!(script.sends(), 1);
}

/// Nothing was sent under a permit whose answer was lost: that is a proof, and no doubt.
#[tokio::test]
async fn a_permit_that_nobody_heard_of_is_taken_back_when_the_store_is_there_again() {
    let (world, flaky) = flaky();
    let script = Script::new([]);
    flaky.plan([Fault::AnswerLost]);
    // Away for about six seconds: well within the lease.
    flaky.plan([Fault::Unavailable; 26]);
    let ask = || single("k", Contract::AtMostOnce);
    let error = world.drive(world.engine.call(ask(), script.doer())).await.unwrap_err();
    assert_eq!((error.code(), script.sends()), (Code::StoreUnavailable, 0));
    assert_eq!(world.state("k").await, State::Pending, "it is there, and nobody was told");
    world.pass_ms(5_000).await;
    assert_eq!(world.state("k").await, State::Planned);
    assert!(world.drive(world.engine.call(ask(), script.doer())).await.is_ok());
    assert_eq!(script.sends(), 1);
}
