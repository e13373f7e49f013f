//! People are told of each occasion once, however many processes see it.

use std::sync::Arc;

use semel_core::code::Code;
use semel_core::contract::Declared;
use semel_core::effect::approve::Ask;
use semel_core::effect::{Person, State};
use semel_core::key::Namespace;
use semel_core::notice;
use semel_core::record::{Answer, Contract, Effect};
use semel_core::retry::Retry;
use semel_engine::{Call, Engine, Handler, Told};
use semel_store::Query;

use crate::common::{
    File, NATIVE, Script, address, call, idle, not_applied, settle_down, unknown, world,
};

const TERMS: Declared = Declared {
    contract: Some(Contract::AtMostOnce),
    lease_ms: None,
    deadline_ms: None,
    settle_ms: None,
    window_ms: None,
    attempts_max: None,
    retry: None,
    rate: None,
};

async fn look(engine: &Engine) -> usize {
    let mut told = Told::default();
    engine.notify(&Namespace::default(), TERMS, &mut told).await.expect("a look")
}

async fn notices(engine: &Engine) -> Vec<Effect> {
    let query = Query { action: Some(notice::action()), ..Query::everywhere(100) };
    engine.list(&query).await.expect("a list").effects
}

async fn ask(engine: &Engine, key: &str) {
    let call = Call { approval: Some(Ask::default()), ..call(key, NATIVE) };
    let told = engine.call(call, Script::new([]).doer()).await.expect_err("held");
    assert_eq!(told.code(), Code::Held);
}

fn handle(engine: &Engine, script: &Arc<Script>) {
    let handler = Handler::new(script.doer(), TERMS, Retry::default());
    engine.handle(Namespace::default(), notice::action(), handler);
}

#[tokio::test(flavor = "multi_thread")]
async fn req_a6_the_question_is_put_once_by_any_number_of_processes() {
    let file = File::new();
    let engines: Vec<Engine> = (0..4).map(|_| file.engine()).collect();
    ask(&engines[0], "k").await;
    let looks = engines.iter().map(|engine| {
        let engine = engine.clone();
        tokio::spawn(async move { look(&engine).await + look(&engine).await })
    });
    for looked in looks.collect::<Vec<_>>() {
        looked.await.expect("no panic");
    }
    let (script, now) = (Script::new([]), engines[0].store().ground().now);
    for engine in &engines {
        handle(engine, &script);
    }
    let turns = engines.iter().map(|engine| {
        let engine = engine.clone();
        tokio::spawn(async move { engine.turn().await })
    });
    for turned in turns.collect::<Vec<_>>() {
        turned.await.expect("no panic").expect("a turn");
    }
    while notices(&engines[0]).await[0].state(&now) != State::Done {
        settle_down().await;
    }
    assert_eq!((script.sends(), notices(&engines[0]).await.len()), (1, 1));
}

#[tokio::test]
async fn req_a6_a_notice_is_sent_once_and_a_refused_connection_is_tried_again() {
    let (world, script) = (world(), Script::new([not_applied(), not_applied()]));
    handle(&world.engine, &script);
    ask(&world.engine, "k").await;
    for _ in 0..8 {
        look(&world.engine).await;
        world.engine.turn().await.unwrap();
        world.pass_ms(60_000).await;
    }
    assert_eq!(script.sends(), 3, "twice not applied, then told");
    let sent = &notices(&world.engine).await[0];
    assert_eq!(sent.state(&world.store.ground().now), State::Done);
    let input = sent.plan.as_ref().unwrap().input.text();
    assert!(input.contains(r#""kind":"approval""#) && input.contains(r#""key":"k""#), "{input}");
}

#[tokio::test]
async fn of_a_notice_in_doubt_nobody_is_told_and_it_is_not_sent_again() {
    let (world, script) = (world(), Script::new([unknown()]));
    handle(&world.engine, &script);
    ask(&world.engine, "k").await;
    for _ in 0..8 {
        look(&world.engine).await;
        world.engine.turn().await.unwrap();
        idle().await;
        world.pass_ms(60_000).await;
    }
    let all = notices(&world.engine).await;
    assert_eq!((all.len(), script.sends()), (1, 1));
    assert_eq!(all[0].state(&world.store.ground().now), State::InDoubt);
}

#[tokio::test]
async fn people_are_told_of_doubts_that_need_them_and_not_of_what_was_decided() {
    let world = world();
    let script = Script::new([unknown()]);
    let once = Call { retry: Retry::NONE, ..call("doubt", Contract::AtMostOnce) };
    world.engine.call(once, script.doer()).await.expect_err("nobody knows");
    ask(&world.engine, "decided").await;
    let effect = world.effect("decided").await;
    let digest = effect.approval.as_ref().unwrap().digest.clone();
    let person = Person { actor: "ann".into(), reason: "no".into(), version: 0 };
    let answer = Answer::Denied;
    world.engine.judge(&address("decided"), &person, answer, &digest).await.unwrap();
    assert_eq!(look(&world.engine).await, 1);
    let told = notices(&world.engine).await;
    assert_eq!(told[0].address.key.as_str(), "in_doubt,charge,doubt,0,1");
}
