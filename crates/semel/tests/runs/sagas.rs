//! Sagas: what a run did is taken back when it fails or is cancelled.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use semel::{Code, Context, Error, Failure, NativeKey, Retry, RunHandle, RunState, Semel};
use semel_core::effect::{Person, Resolution, State};
use semel_core::json::Json;
use semel_core::key::{Action, Address, Key, Namespace};

use crate::common::{Place, entries, reaches};

/// The world outside: what was done there, in order.
#[derive(Clone, Default)]
struct World(Arc<Mutex<Vec<String>>>);

impl World {
    fn happens(&self, what: &str) {
        self.0.lock().unwrap().push(what.to_owned());
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

fn address(action: &str, key: &str) -> Address {
    let (action, key) = (Action::new(action).unwrap(), Key::from_text(key).unwrap());
    Address { namespace: Namespace::default(), action, key }
}

const QUICK: Retry = Retry { attempts_max: 2, total_ms: 60_000, delay_ms: 1, delay_ms_max: 1 };

/// Does `action`, which `undo` takes back. What the undo answers is up to the test.
async fn act(
    ctx: &Context,
    world: &World,
    action: &'static str,
    answer: fn(&World) -> Result<String, Failure>,
) -> Result<String, Error> {
    let undo = ctx.undo(&format!("un{action}")).key(["7"]).contract(NativeKey::hours(24));
    let (done, undone) = (world.clone(), world.clone());
    ctx.effect(action)
        .key(["7"])
        .contract(NativeKey::hours(24))
        .compensate_with(undo.retry(QUICK), move |intent, receipt: String| {
            let _key = intent.downstream_key();
            undone.happens(&format!("undo {receipt}"));
            let answer = answer(&undone);
            async move { answer }
        })
        .call(move |intent| {
            let _key = intent.downstream_key();
            done.happens(action);
            async move { Ok::<_, Failure>(format!("{action}-1")) }
        })
        .await
}

fn fine(_: &World) -> Result<String, Failure> {
    Ok("undone".to_owned())
}

fn refused(_: &World) -> Result<String, Failure> {
    Err(Failure::refused("too late to take it back"))
}

fn cut(_: &World) -> Result<String, Failure> {
    Err(Failure::unknown("cut"))
}

/// Two effects, then a failure; the undo of the first answers as the test wants.
async fn order(
    ctx: Context,
    world: World,
    first: fn(&World) -> Result<String, Failure>,
) -> Result<(), Error> {
    act(&ctx, &world, "reserve", first).await?;
    act(&ctx, &world, "charge", fine).await?;
    Err(Error::new(Code::RunFailed, "nothing left to ship"))
}

async fn start(
    semel: &Semel,
    world: &World,
    first: fn(&World) -> Result<String, Failure>,
) -> RunHandle {
    let world = world.clone();
    let code = move |ctx: Context, ()| order(ctx, world.clone(), first);
    semel.worker().workflow("order", code).start().unwrap();
    semel.start("order").key("7").input(&()).run().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn req_o3_when_a_later_step_fails_the_earlier_effects_are_taken_back() {
    let (place, world) = (Place::new(), World::default());
    let semel = place.open().await;
    let run = start(&semel, &world, fine).await;
    let error = run.result::<()>().await.unwrap_err();
    assert_eq!(error.code(), Code::RunFailed);
    assert_eq!(world.all(), ["reserve", "charge", "undo charge-1", "undo reserve-1"]);
    let kinds = entries(&semel, &run).await;
    let tail = ["undoing", "planned", "effect", "planned", "effect", "finished"];
    assert_eq!(&kinds[kinds.len() - 6..], tail);
}

#[tokio::test(flavor = "multi_thread")]
async fn req_o4_only_what_was_done_is_taken_back_under_keys_of_its_own() {
    let (place, world) = (Place::new(), World::default());
    let semel = place.open().await;
    let outside = world.clone();
    let code = move |ctx: Context, ()| {
        let world = outside.clone();
        async move {
            act(&ctx, &world, "reserve", fine).await?;
            let charge = ctx.effect("charge").key(["7"]);
            let undo = ctx.undo("uncharge").key(["7"]);
            let undone = world.clone();
            charge
                .compensate_with(undo, move |_, receipt: String| {
                    undone.happens(&format!("undo {receipt}"));
                    async { Ok::<_, Failure>(()) }
                })
                .call(|_| async { Err::<String, _>(Failure::refused("no money")) })
                .await
        }
    };
    semel.worker().workflow("order", code).start().unwrap();
    let run = semel.start("order").key("7").input(&()).run().await.unwrap();
    assert_eq!(run.result::<String>().await.unwrap_err().code(), Code::EffectFailed);
    assert_eq!(world.all(), ["reserve", "undo reserve-1"]);
    let undo = semel.engine().effect(&address("unreserve", "7")).await.unwrap();
    let original = semel.engine().effect(&address("reserve", "7")).await.unwrap();
    assert_ne!(undo.plan.unwrap().downstream_key, original.plan.unwrap().downstream_key);
    assert_eq!(undo.undoes.unwrap().action, "reserve");
}

#[tokio::test(flavor = "multi_thread")]
async fn req_o8_a_panic_after_a_charge_refunds_nothing_until_an_operator_ends_the_run() {
    for verb in ["fail", "cancel"] {
        let (place, world) = (Place::new(), World::default());
        let semel = place.open().await;
        let outside = world.clone();
        let code = move |ctx: Context, ()| {
            let world = outside.clone();
            async move {
                let charge = act(&ctx, &world, "charge", fine).await?;
                assert!(charge.is_empty(), "a slip");
                Ok(charge)
            }
        };
        semel.worker().workflow("order", code).start().unwrap();
        let run = semel.start("order").key("7").input(&()).run().await.unwrap();
        reaches(&run, RunState::Paused).await;
        assert_eq!(world.all(), ["charge"]);
        let namespace = Namespace::default();
        let engine = semel.engine();
        match verb {
            "fail" => engine.fail_run(&namespace, run.id(), "ann", "sold out").await.unwrap(),
            _ => engine.cancel_run(&namespace, run.id(), "ann", "sold out").await.unwrap(),
        };
        let code = run.result::<String>().await.unwrap_err().code();
        assert_eq!(code, if verb == "fail" { Code::Panicked } else { Code::Cancelled });
        assert_eq!(world.all(), ["charge", "undo charge-1"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undone_effect_answers_undone_with_both_receipts() {
    let (place, world) = (Place::new(), World::default());
    let semel = place.open().await;
    let run = start(&semel, &world, fine).await;
    run.result::<()>().await.unwrap_err();
    let again = semel.effect("charge").key(["7"]).contract(NativeKey::hours(24));
    let error = again.call(|_| async { Ok::<_, Failure>("never".to_owned()) }).await.unwrap_err();
    assert_eq!(error.code(), Code::Undone);
    let (receipt, undo) = error.undone_receipts().unwrap();
    assert_eq!((receipt.text(), undo.text()), ("\"charge-1\"", "\"undone\""));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_undo_pauses_and_an_operator_may_see_to_it_by_hand() {
    let (place, world) = (Place::new(), World::default());
    let semel = place.open().await;
    let run = start(&semel, &world, refused).await;
    reaches(&run, RunState::Paused).await;
    let paused = run.status().await.unwrap().paused.unwrap();
    assert_eq!(paused.id.as_deref(), Some("undo reserve#0"));
    assert_eq!(paused.code, "effect_failed");

    run.retry("ann", "once more").await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    reaches(&run, RunState::Paused).await;
    assert_eq!(world.all().len(), 4, "a refusal is final: nothing was sent again");

    run.skip("undo reserve#0", "by phone", "ann", "called them").await.unwrap();
    assert_eq!(run.result::<()>().await.unwrap_err().code(), Code::RunFailed);
    let original = semel.engine().effect(&address("reserve", "7")).await.unwrap();
    assert_eq!(original.undo.unwrap().receipt.unwrap().text(), "\"by phone\"");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compensation_cut_in_the_middle_is_in_doubt_and_not_repeated() {
    let (place, world) = (Place::new(), World::default());
    let semel = place.open().await;
    let outside = world.clone();
    let code = move |ctx: Context, ()| {
        let world = outside.clone();
        async move {
            let (done, undone) = (world.clone(), world.clone());
            ctx.effect("mail")
                .key(["7"])
                .compensate_with(ctx.undo("apology").key(["7"]), move |_, (): ()| {
                    undone.happens("apology");
                    let answer = cut(&undone);
                    async move { answer }
                })
                .call(move |_| {
                    done.happens("mail");
                    async { Ok::<_, Failure>(()) }
                })
                .await?;
            Err::<(), _>(Error::new(Code::RunFailed, "wrong address"))
        }
    };
    semel.worker().workflow("order", code).start().unwrap();
    let run = semel.start("order").key("7").input(&()).run().await.unwrap();
    reaches(&run, RunState::Waiting).await;
    assert_eq!(run.status().await.unwrap().waits_on().as_deref(), Some("effect apology/7"));
    assert_eq!(world.all(), ["mail", "apology"]);
    // Whoever asks for the mail meanwhile is told neither that it stands nor that it is undone.
    let ask = semel.effect("mail").key(["7"]).hold(Duration::ZERO);
    let error = ask.call(|_| async { Ok::<_, Failure>(()) }).await.unwrap_err();
    assert_eq!(error.code(), Code::InProgress);

    let apology = address("apology", "7");
    let version = semel.engine().effect(&apology).await.unwrap().version;
    let person = Person { actor: "ann".into(), reason: "it is in the log".into(), version };
    let done = Resolution::Done(Json::from_text("\"seen\"").unwrap());
    semel.engine().resolve(&apology, &person, &done).await.unwrap();
    assert_eq!(run.result::<()>().await.unwrap_err().code(), Code::RunFailed);
    assert_eq!(world.all(), ["mail", "apology"], "nothing was sent again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_run_takes_back_what_it_did_after_a_restart_too() {
    let (place, world) = (Place::new(), World::default());
    let code = |world: World| {
        move |ctx: Context, ()| {
            let world = world.clone();
            async move {
                act(&ctx, &world, "reserve", fine).await?;
                ctx.wait_for_signal::<()>("ship").await
            }
        }
    };
    let semel = place.open().await;
    semel.worker().workflow("order", code(world.clone())).start().unwrap();
    let run = semel.start("order").key("7").input(&()).run().await.unwrap();
    reaches(&run, RunState::Waiting).await;
    let id = run.id().to_owned();
    drop((run, semel));

    // A process without the code may ask for the cancel; one that has it carries it out.
    let semel = place.open().await;
    let run = semel.run(&id);
    run.cancel("ann", "changed their mind").await.unwrap();
    assert_eq!(run.state().await.unwrap(), RunState::Cancelling);
    assert_eq!(world.all(), ["reserve"]);
    semel.worker().workflow("order", code(world.clone())).start().unwrap();
    assert_eq!(run.result::<()>().await.unwrap_err().code(), Code::Cancelled);
    assert_eq!(world.all(), ["reserve", "undo reserve-1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_who_fails_a_paused_run_has_it_take_back_what_it_did() {
    let (place, world) = (Place::new(), World::default());
    let semel = place.open().await;
    let outside = world.clone();
    let code = move |ctx: Context, ()| {
        let world = outside.clone();
        async move {
            act(&ctx, &world, "reserve", fine).await?;
            let stuck = ctx.step("ship", || async { Err::<(), _>(Failure::not_applied("closed")) });
            stuck.retry(QUICK).await
        }
    };
    semel.worker().workflow("order", code).start().unwrap();
    let run = semel.start("order").key("7").input(&()).run().await.unwrap();
    reaches(&run, RunState::Paused).await;
    assert_eq!(world.all(), ["reserve"], "nothing is taken back before somebody decides");
    run.fail("ann", "they are closed for good").await.unwrap();
    assert_eq!(run.result::<()>().await.unwrap_err().code(), Code::RetriesExhausted);
    assert_eq!(run.state().await.unwrap(), RunState::Failed);
    assert_eq!(world.all(), ["reserve", "undo reserve-1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_run_that_did_it_takes_it_back() {
    let (place, world) = (Place::new(), World::default());
    let semel = place.open().await;
    let first = world.clone();
    let good = move |ctx: Context, ()| {
        let world = first.clone();
        async move { act(&ctx, &world, "reserve", fine).await }
    };
    let second = world.clone();
    let bad = move |ctx: Context, ()| {
        let world = second.clone();
        async move {
            act(&ctx, &world, "reserve", fine).await?;
            Err::<(), _>(Error::new(Code::RunFailed, "no"))
        }
    };
    semel.worker().workflow("good", good).workflow("bad", bad).start().unwrap();
    let one = semel.start("good").key("1").input(&()).run().await.unwrap();
    assert_eq!(one.result::<String>().await.unwrap(), "reserve-1");
    let two = semel.start("bad").key("2").input(&()).run().await.unwrap();
    two.result::<()>().await.unwrap_err();
    assert_eq!(world.all(), ["reserve"], "it was not this run's to take back");
    let now = semel.engine().store().ground().now;
    let effect = semel.engine().effect(&address("reserve", "7")).await.unwrap();
    assert_eq!((effect.state(&now), effect.undo), (State::Done, None));
}

/// A truthful word with a wrong receipt: the run stands still, and nothing is taken back.
#[tokio::test(flavor = "multi_thread")]
async fn req_o8_a_receipt_that_a_person_got_wrong_pauses_the_run_and_takes_nothing_back() {
    #[derive(serde::Serialize, serde::Deserialize)]
    struct Sent {
        id: String,
    }
    let (place, world) = (Place::new(), World::default());
    let semel = place.open().await;
    let outside = world.clone();
    let code = move |ctx: Context, ()| {
        let world = outside.clone();
        async move {
            act(&ctx, &world, "charge", fine).await?;
            let mail = ctx.effect("mail").key(["7"]);
            let sent = mail.call(|_| async { Err::<Sent, _>(Failure::unknown("cut")) }).await;
            // A mistake is not a failure of the business, whatever the code makes of it.
            Ok(sent.map_or_else(|error| error.code().to_string(), |sent| sent.id))
        }
    };
    semel.worker().workflow("order", code).start().unwrap();
    let run = semel.start("order").key("7").input(&()).run().await.unwrap();
    reaches(&run, RunState::Waiting).await;
    resolve_mail(&semel, "null").await.expect("nothing says what fits");
    reaches(&run, RunState::Paused).await;
    let pause = run.status().await.unwrap().paused.unwrap();
    assert_eq!((pause.code.as_str(), pause.id.as_deref()), ("receipt_mismatch", Some("mail#0")));
    assert_eq!(world.all(), ["charge"], "nothing is taken back");
    run.skip("mail#0", &Sent { id: "m-7".into() }, "ann", "looked it up").await.unwrap();
    assert_eq!(run.result::<String>().await.unwrap(), "m-7");
    assert_eq!(world.all(), ["charge"]);
}

fn shape() -> serde_json::Value {
    serde_json::json!({ "type": "object", "properties": { "id": { "type": "string" } },
                        "required": ["id"] })
}

async fn resolve_mail(semel: &Semel, receipt: &str) -> Result<(), Error> {
    let address = address("mail", "7");
    let version = semel.engine().effect(&address).await.unwrap().version;
    let person = Person { actor: "ann".into(), reason: "seen".into(), version };
    let done = Resolution::Done(Json::from_text(receipt).unwrap());
    semel.engine().resolve(&address, &person, &done).await.map(|_| ())
}

/// With its shape on record, the wrong receipt is not even taken.
#[tokio::test(flavor = "multi_thread")]
async fn req_o8_a_receipt_that_does_not_fit_the_shape_of_an_effect_in_rust_is_refused() {
    let (place, world) = (Place::new(), World::default());
    let semel = place.open().await;
    let outside = world.clone();
    let code = move |ctx: Context, ()| {
        let world = outside.clone();
        async move {
            act(&ctx, &world, "charge", fine).await?;
            let mail = ctx.effect("mail").key(["7"]).receipt_shape(&shape());
            let cut = Failure::unknown("cut");
            mail.call(move |_| std::future::ready(Err::<serde_json::Value, _>(cut.clone()))).await
        }
    };
    semel.worker().workflow("order", code).start().unwrap();
    let run = semel.start("order").key("7").input(&()).run().await.unwrap();
    reaches(&run, RunState::Waiting).await;
    for wrong in ["null", "{}", r#"{"id": 7}"#] {
        let refused = resolve_mail(&semel, wrong).await.unwrap_err();
        assert_eq!(refused.code(), Code::ReceiptInvalid, "{wrong}");
        assert!(refused.detail().contains("what fits"), "{refused}");
    }
    let effect = semel.engine().effect(&address("mail", "7")).await.unwrap();
    assert!(effect.decisions.is_empty() && effect.receipt().is_none(), "{effect:?}");
    assert_eq!(run.state().await.unwrap(), RunState::Waiting);
    resolve_mail(&semel, r#"{"id": "m-7"}"#).await.unwrap();
    assert_eq!(run.result::<serde_json::Value>().await.unwrap()["id"], "m-7");
    assert_eq!(world.all(), ["charge"], "nothing was taken back");
    let big = serde_json::json!({ "enum": ["x".repeat(9_000)] });
    for unusable in [serde_json::json!([1]), serde_json::json!("object"), big] {
        let effect = semel.effect("other").key("1").receipt_shape(&unusable);
        let refused = effect.call(|_| async { Ok::<_, Failure>(1) }).await.unwrap_err();
        assert_eq!(refused.code(), Code::TermsInvalid, "{refused}");
    }
}
