//! A person decides before anything is sent: asked once, answered once, by whoever comes first.

use std::sync::Arc;

use semel_core::code::Code;
use semel_core::effect::approve::Ask;
use semel_core::effect::{Person, Report, Settle, State};
use semel_core::record::{Answer, Contract, Effect};
use semel_core::retry::Retry;
use semel_engine::{Answer as SemelAnswer, Call, Decided, Engine, Handler};
use semel_store::Query;

use crate::common::{
    Fault, File, Flaky, HOUR, NATIVE, PROBE, Script, World, address, ask, call, check, declared,
    drive, idle, not_applied, settle_down, unknown, world, world_on,
};

fn asking(key: &str) -> Call {
    Call { approval: Some(Ask::default()), ..call(key, NATIVE) }
}

fn expiring(key: &str) -> Call {
    let ask = Ask { expires_ms: Some(HOUR), ..Ask::default() };
    Call { approval: Some(ask), ..call(key, NATIVE) }
}

fn person(actor: &str) -> Person {
    Person { actor: actor.into(), reason: "as agreed".into(), version: 0 }
}

fn digest(effect: &Effect) -> String {
    effect.approval.as_ref().expect("a question").digest.clone()
}

async fn judge(engine: &Engine, key: &str, actor: &str, answer: Answer) -> Result<Decided, Code> {
    let effect = engine.effect(&address(key)).await.expect("the effect exists");
    let judged = engine.judge(&address(key), &person(actor), answer, &digest(&effect)).await;
    judged.map_err(|error| error.code())
}

async fn held(world: &World, script: &Arc<Script>) {
    let error = world.engine.call(asking("k"), script.doer()).await.expect_err("held");
    assert_eq!(error.code(), Code::Held);
}

#[tokio::test]
async fn req_a3_a_direct_call_is_told_at_once_that_it_is_held() {
    let (world, script) = (world(), Script::new([]));
    let before = world.store.ground().now;
    held(&world, &script).await;
    // Neither does anybody else send it, asking or not.
    let other = world.other().call(call("k", NATIVE), script.doer()).await.expect_err("held");
    assert_eq!((other.code(), other.retry_after_ms()), (Code::Held, None));
    assert_eq!(world.store.ground().now, before, "nobody waited");
    assert_eq!((script.sends(), world.effect("k").await.version), (0, 1));

    let judged = judge(&world.engine, "k", "ann", Answer::Approved).await.unwrap();
    assert!(judged.is_new);
    world.engine.call(asking("k"), script.doer()).await.unwrap();
    world.engine.call(call("k", NATIVE), script.doer()).await.unwrap();
    assert_eq!(script.sends(), 1);
    check(&world.effect("k").await, world.store.as_ref());
}

#[tokio::test]
async fn a_no_is_told_by_its_code_and_nothing_is_sent() {
    for (answer, code) in
        [(Answer::Denied, Code::ApprovalDenied), (Answer::Returned, Code::ApprovalReturned)]
    {
        let (world, script) = (world(), Script::new([]));
        held(&world, &script).await;
        judge(&world.engine, "k", "ann", answer).await.unwrap();
        for call in [asking("k"), call("k", NATIVE), call("k", Contract::AtMostOnce)] {
            let error = world.engine.call(call, script.doer()).await.expect_err("no");
            assert_eq!(error.code(), code);
            assert!(error.detail().contains("by ann: as agreed"), "{error}");
        }
        assert_eq!(script.sends(), 0);
    }
}

#[tokio::test]
async fn the_job_writes_silence_down_and_lists_nobody_as_waiting() {
    let (world, script) = (world(), Script::new([]));
    let error = world.engine.call(expiring("k"), script.doer()).await.expect_err("held");
    assert_eq!(error.retry_after_ms(), Some(HOUR));
    let waiting = async || world.engine.held(&Query::everywhere(10)).await.unwrap().effects.len();
    assert_eq!(waiting().await, 1);
    world.pass_ms(HOUR).await;
    assert_eq!(waiting().await, 0);
    let version = world.effect("k").await.version;
    world.engine.turn().await.unwrap();
    let effect = world.effect("k").await;
    assert_eq!(effect.version, version + 1, "written down");
    let late = judge(&world.engine, "k", "ann", Answer::Approved).await.unwrap();
    assert_eq!((late.is_new, late.judgement.answer), (false, Answer::Expired));
    let error = world.engine.call(asking("k"), script.doer()).await.expect_err("too late");
    assert_eq!((error.code(), script.sends()), (Code::ApprovalExpired, 0));
}

#[tokio::test]
async fn a_handler_sends_what_was_approved_and_nothing_before() {
    let (world, script) = (world(), Script::new([not_applied()]));
    let handler = Handler::new(script.doer(), declared(NATIVE), Retry::default());
    world.engine.handle(address("k").namespace, address("k").action, handler);
    let idle_script = Script::new([]);
    world.engine.call(expiring("k"), idle_script.doer()).await.expect_err("held");
    for _ in 0..5 {
        world.pass_ms(60_000).await;
        world.engine.turn().await.unwrap();
        idle().await;
    }
    assert_eq!(script.sends(), 0);
    assert!(world.engine.unattended(10).await.unwrap().is_empty());
    judge(&world.engine, "k", "ann", Answer::Approved).await.unwrap();
    for _ in 0..4 {
        world.engine.turn().await.unwrap();
        world.pass_ms(60_000).await;
    }
    assert_eq!((script.sends(), idle_script.sends()), (2, 0), "not applied, then applied");
    assert_eq!(world.state("k").await, State::Done);
}

#[tokio::test]
async fn a_handler_whose_effect_needs_approval_asks_for_what_others_planned() {
    let (world, script) = (world(), Script::new([]));
    // Somebody whose declaration asks nobody, such as a caller over HTTP, began it.
    let begun = world.engine.begin(ask("k", NATIVE), 0).await;
    let Ok(SemelAnswer::Attempt(armed)) = begun else { panic!("{begun:?}") };
    let report = Report::NotApplied { reason: "refused".into(), last: false };
    let settle = Settle { fence: armed.permit.fence, report, retry_after_ms: Some(1) };
    world.engine.settle(&address("k"), &settle).await.expect("settled");
    let mut handler = Handler::new(script.doer(), declared(NATIVE), Retry::default());
    handler.planning.approval = Some(Ask::default());
    world.engine.handle(address("k").namespace, address("k").action, handler);
    for _ in 0..3 {
        world.pass_ms(60_000).await;
        world.engine.turn().await.unwrap();
        idle().await;
    }
    assert_eq!(script.sends(), 0, "a person has not decided");
    assert!(world.engine.effect(&address("k")).await.unwrap().approval.is_some());
}

/// A yes says that it may be sent, not how often: a doubt is settled by the contract alone.
#[tokio::test]
async fn an_approved_send_that_ends_in_doubt_is_settled_as_its_contract_says() {
    for (contract, sends, looks, state) in [
        (Contract::AtMostOnce, 1, 0, State::InDoubt),
        (NATIVE, 2, 0, State::Done),
        (PROBE, 2, 1, State::Done),
    ] {
        for by in ["caller", "handler"] {
            let (world, script) = (world(), Script::new([unknown()]));
            let asking = || Call { approval: Some(Ask::default()), ..call("k", contract) };
            let doer = || if contract == PROBE { script.looker() } else { script.doer() };
            world.engine.call(asking(), doer()).await.expect_err("held");
            judge(&world.engine, "k", "ann", Answer::Approved).await.unwrap();
            if by == "handler" {
                let handler = Handler::new(doer(), declared(contract), Retry::default());
                world.engine.handle(address("k").namespace, address("k").action, handler);
                for _ in 0..10 {
                    world.engine.turn().await.unwrap();
                    world.pass_ms(60_000).await;
                }
            } else {
                for _ in 0..3 {
                    let calling = world.engine.call(asking(), doer());
                    let _ = drive(&world.clock, 1_000, calling).await;
                }
            }
            let seen = (script.sends(), script.looks(), world.state("k").await);
            assert_eq!(seen, (sends, looks, state), "{contract:?} by {by}");
            let effect = world.effect("k").await;
            let given = effect.approval.as_ref().and_then(|asked| asked.judgement.as_ref());
            assert_eq!(given.map(|given| given.answer), Some(Answer::Approved), "{contract:?}");
            check(&effect, world.store.as_ref());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn inv_i16_approve_against_deny_at_once_on_one_file_has_one_outcome() {
    for round in 0..25 {
        let file = File::new();
        let (one, two) = (file.engine(), file.engine());
        let script = Script::new([]);
        one.call(asking("k"), script.doer()).await.expect_err("held");
        let shown = digest(&one.effect(&address("k")).await.unwrap());
        let answers = [Answer::Approved, Answer::Denied, Answer::Approved, Answer::Returned];
        let tasks: Vec<_> = answers
            .into_iter()
            .enumerate()
            .map(|(index, answer)| {
                let engine = if index % 2 == round % 2 { one.clone() } else { two.clone() };
                let (shown, actor) = (shown.clone(), person(&format!("p{index}")));
                tokio::spawn(async move {
                    engine.judge(&address("k"), &actor, answer, &shown).await.expect("an answer")
                })
            })
            .collect();
        let mut told = Vec::new();
        for task in tasks {
            told.push(task.await.expect("no panic"));
        }
        let new: Vec<_> = told.iter().filter(|judged| judged.is_new).collect();
        assert_eq!(new.len(), 1, "round {round}: decided once");
        assert!(told.iter().all(|judged| judged.judgement == new[0].judgement), "round {round}");
        let sent = two.call(asking("k"), script.doer()).await;
        let is_yes = new[0].judgement.answer == Answer::Approved;
        assert_eq!((sent.is_ok(), script.sends()), (is_yes, u32::from(is_yes)), "round {round}");
        check(&one.effect(&address("k")).await.unwrap(), one.store());
    }
}

/// A store that blips at each statement of a decision: the person may repeat it, and it counts
/// once, as what it was.
#[tokio::test]
async fn bug_trigger_dev_4889_a_decision_is_not_lost_or_doubled_by_a_blip_of_the_store() {
    for fault in Fault::ALL {
        for answer in [Answer::Approved, Answer::Denied] {
            let mut flaky = None;
            let world = world_on(|clock| {
                let below = Arc::new(semel_store::memory::Memory::new(clock));
                let store = Flaky::new(below);
                flaky = Some(store.clone());
                store
            });
            let (flaky, script) = (flaky.unwrap(), Script::new([]));
            held(&world, &script).await;
            let shown = digest(&world.effect("k").await);
            let decide =
                async || world.engine.judge(&address("k"), &person("ann"), answer, &shown).await;
            // The look fails.
            flaky.set_blind(true);
            assert_eq!(decide().await.expect_err("blind").code(), Code::StoreUnavailable);
            flaky.set_blind(false);
            // The write fails, or its answer is lost.
            flaky.plan([fault]);
            let first = world.drive(decide()).await;
            let again = world.drive(decide()).await.expect("the store is back");
            assert_eq!(again.judgement.answer, answer, "{fault:?}");
            assert_ne!(first.is_ok_and(|judged| judged.is_new), again.is_new, "{fault:?}");
            let sent = world.drive(world.engine.call(asking("k"), script.doer())).await;
            let is_yes = answer == Answer::Approved;
            assert_eq!((sent.is_ok(), script.sends()), (is_yes, u32::from(is_yes)), "{fault:?}");
            assert_eq!(world.effect("k").await.version, if is_yes { 4 } else { 2 }, "{fault:?}");
        }
    }
}

#[tokio::test]
async fn a_reboot_does_not_leave_a_question_due_for_ever() {
    let file = File::new();
    let engine = file.engine();
    engine.call(expiring("k"), Script::new([]).doer()).await.expect_err("held");
    drop(engine);
    settle_down().await;
    file.clock.reboot("another");
    let engine = file.engine();
    file.clock.advance_ms(20_000);
    engine.turn().await.unwrap();
    assert!(engine.unattended(10).await.unwrap().is_empty());
    assert!(engine.store().due(None, 10).await.unwrap().effects.is_empty());
    drive(&file.clock, 60_000, async {
        while engine.effect(&address("k")).await.unwrap().settled.is_none() {
            engine.turn().await.unwrap();
            tokio::task::yield_now().await;
        }
    })
    .await;
    let effect = engine.effect(&address("k")).await.unwrap();
    let given = effect.approval.as_ref().unwrap().judgement.as_ref().unwrap();
    assert_eq!(given.answer, Answer::Expired);
}

/// The audit chain has one end, and every decision of a namespace is appended to it.
#[tokio::test(flavor = "multi_thread")]
async fn inv_i22_a_hundred_decisions_at_once_are_a_hundred_entries_of_one_chain() {
    let file = File::new();
    let engines = [file.engine(), file.engine()];
    let keys: Vec<String> = (0..100).map(|number| format!("k{number}")).collect();
    for key in &keys {
        engines[0].call(asking(key), Script::new([]).doer()).await.expect_err("held");
    }
    let decisions = keys.iter().enumerate().map(|(number, key)| {
        let (engine, key) = (engines[number % 2].clone(), key.clone());
        tokio::spawn(async move { judge(&engine, &key, "ann", Answer::Approved).await })
    });
    for decision in decisions.collect::<Vec<_>>() {
        assert!(decision.await.unwrap().expect("decided").is_new);
    }
    let page = engines[0].audit_entries(&address("k0").namespace, None, 200).await.unwrap();
    let numbers: Vec<u64> = page.entries.iter().rev().map(|entry| entry.seq).collect();
    assert_eq!(numbers, (1..=100).collect::<Vec<_>>());
}
