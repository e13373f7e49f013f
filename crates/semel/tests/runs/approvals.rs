//! Runs that ask people: held, parked, woken by the answer, and never further than it allows.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use semel::{
    Answer, Approval, Approved, Code, Context, Error, NativeKey, RunHandle, RunState, Semel,
};
use semel_core::verify;
use serde_json::json;

use crate::common::{Count, Place, entries, reaches};

/// What reached the provider: the downstream keys.
type Sent = Arc<Mutex<Vec<String>>>;

async fn publish(ctx: &Context, sent: &Sent, page: &str, asks: bool) -> Result<String, Error> {
    let sent = sent.clone();
    let mut effect = ctx
        .effect("publish")
        .key([page])
        .input(&json!({ "page": page }))
        .contract(NativeKey::hours(24));
    if asks {
        effect = effect.approval(Approval::required().note("please read it"));
    }
    effect
        .call(move |intent| {
            let sent = sent.clone();
            async move {
                let key = intent.downstream_key().to_owned();
                sent.lock().unwrap().push(key);
                Ok("published".to_owned())
            }
        })
        .await
}

fn offer(semel: &Semel, name: &str, sent: &Sent, asks: bool) -> semel::Working {
    let sent = sent.clone();
    let flow = move |ctx: Context, page: String| {
        let sent = sent.clone();
        async move { publish(&ctx, &sent, &page, asks).await }
    };
    semel.worker().workflow(name, flow).start().unwrap()
}

async fn start(semel: &Semel, workflow: &str, page: &str) -> RunHandle {
    let run = semel.start(workflow).key(page).input(page).run().await.unwrap();
    reaches(&run, RunState::Waiting).await;
    run
}

async fn approve(semel: &Semel, page: &str) -> semel::Decided {
    let asked = semel.approvals().find("publish", [page]).await.unwrap();
    asked.approve("ann", "read").await.unwrap()
}

async fn verified(semel: &Semel, page: &str) {
    let now = semel.engine().store().ground().now;
    let effect = semel.find("publish", [page]).await.unwrap().unwrap();
    assert_eq!(verify::check(&effect, &now), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn req_a8_a_run_is_parked_until_a_person_says_yes_and_begins_right_before_it_sends() {
    let (place, sent) = (Place::new(), Sent::default());
    let semel = place.open().await;
    offer(&semel, "w", &sent, true);
    let run = start(&semel, "w", "home").await;
    assert_eq!(run.status().await.unwrap().waits_on().as_deref(), Some("effect publish/home"));
    let asked = semel.approvals().list(10).await.unwrap();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].effect().waiters, [run.id()]);
    assert_eq!(asked[0].effect().plan.as_ref().unwrap().input.text(), r#"{"page":"home"}"#);
    assert_eq!(asked[0].effect().attempts.len(), 0, "nothing was begun before the wait");

    // From another process, as the command does it.
    let other = place.open().await;
    assert!(approve(&other, "home").await.is_new);
    assert_eq!(run.result::<String>().await.unwrap(), "published");
    assert_eq!(sent.lock().unwrap().len(), 1);
    let again = approve(&other, "home").await;
    assert_eq!((again.is_new, again.judgement.answer), (false, Answer::Approved));
    assert_eq!(sent.lock().unwrap().len(), 1, "req_a2: a second click adds nothing");
    assert_eq!(
        entries(&semel, &run).await,
        ["started", "taken", "planned", "taken", "effect", "finished"]
    );
    verified(&semel, "home").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bug_vercel_1203_an_approval_after_fifty_restarts_sends_once_under_the_first_key() {
    let (place, sent) = (Place::new(), Sent::default());
    let mut key = None;
    for restart in 0..50 {
        let semel = place.open().await;
        let working = offer(&semel, "w", &sent, true);
        let run = start(&semel, "w", "home").await;
        let effect = semel.find("publish", ["home"]).await.unwrap().unwrap();
        let now = effect.plan.as_ref().unwrap().downstream_key.clone();
        assert_eq!(*key.get_or_insert(now.clone()), now, "restart {restart}");
        if restart % 5 == 0 {
            // Woken for nothing, it goes back to sleep.
            run.signal("poke", &restart.to_string(), &restart).await.unwrap();
        }
        working.stop(Duration::from_secs(5)).await;
    }
    let semel = place.open().await;
    approve(&semel, "home").await;
    assert_eq!(sent.lock().unwrap().len(), 0, "no worker is here");
    offer(&semel, "w", &sent, true);
    let run = semel.start("w").key("home").input("home").run().await.unwrap();
    assert_eq!(run.result::<String>().await.unwrap(), "published");
    assert_eq!(*sent.lock().unwrap(), [key.unwrap()]);
    verified(&semel, "home").await;
}

/// What waited for an approval may be sent by somebody else: the run's first answer is no repeat.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_answer_after_an_approval_is_not_counted_as_a_repeat() {
    let (place, sent) = (Place::new(), Sent::default());
    let semel = place.open().await;
    let working = offer(&semel, "w", &sent, true);
    let run = start(&semel, "w", "home").await;
    working.stop(Duration::from_secs(5)).await;
    approve(&semel, "home").await;
    let direct = semel
        .effect("publish")
        .key(["home"])
        .input(&json!({ "page": "home" }))
        .contract(NativeKey::hours(24));
    let answer: String =
        direct.call(|_| async { Ok::<_, semel::Failure>("published".to_owned()) }).await.unwrap();
    assert_eq!(answer, "published");
    offer(&semel, "w", &sent, true);
    assert_eq!(run.result::<String>().await.unwrap(), "published");
    assert_eq!(sent.lock().unwrap().len(), 0, "the other one sent it");
    let proof = run.proof().await.unwrap().json();
    let proof: serde_json::Value = serde_json::from_str(&proof).unwrap();
    let effect = &proof["proof"]["statement"]["effects"][0];
    let repeats = effect["mentions"].as_array().unwrap().iter().filter(|one| one["repeat"] == true);
    assert_eq!((repeats.count(), &effect["repeats"]), (0, &json!([])), "{effect:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn req_a2_repeated_and_opposite_answers_get_the_first_one() {
    let (place, sent) = (Place::new(), Sent::default());
    let semel = place.open().await;
    offer(&semel, "w", &sent, true);
    let run = start(&semel, "w", "home").await;
    let asked = semel.approvals().find("publish", ["home"]).await.unwrap();
    let first = asked.deny("ann", "not yet").await.unwrap();
    assert!(first.is_new);
    for answer in [asked.approve("bob", "").await, asked.send_back("bob", "typo").await] {
        let later = answer.unwrap();
        assert_eq!((later.is_new, &later.judgement), (false, &first.judgement));
    }
    let error = run.result::<String>().await.unwrap_err();
    assert_eq!((error.code(), error.detail()), (Code::ApprovalDenied, "denied by ann: not yet"));
    assert_eq!(sent.lock().unwrap().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn req_a3_a_second_workflow_that_does_not_ask_is_held_as_well() {
    let (place, sent) = (Place::new(), Sent::default());
    let semel = place.open().await;
    offer(&semel, "asks", &sent, true);
    offer(&semel, "does-not", &sent, false);
    let first = start(&semel, "asks", "home").await;
    let second = start(&semel, "does-not", "home").await;
    let direct = semel.effect("publish").key(["home"]).input(&json!({ "page": "home" }));
    let direct = direct.contract(NativeKey::hours(24)).call(|_| async { Ok("no".to_owned()) });
    assert_eq!(direct.await.unwrap_err().code(), Code::Held);
    approve(&semel, "home").await;
    assert_eq!(first.result::<String>().await.unwrap(), "published");
    assert_eq!(second.result::<String>().await.unwrap(), "published");
    assert_eq!(sent.lock().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn inv_i16_a_run_is_told_that_nobody_answered_in_time() {
    let place = Place::new();
    let semel = place.open().await;
    let flow = |ctx: Context, (): ()| async move {
        let ask = Approval::within(Duration::from_millis(1_500));
        let effect = ctx.effect("publish").key(["home"]).approval(ask);
        let sent = effect.call(|_| async { Ok("sent".to_owned()) }).await;
        Ok(sent.map_err(|error| error.code().as_str().to_owned()))
    };
    semel.worker().workflow("w", flow).start().unwrap();
    let run = semel.start("w").key("k").input(&()).run().await.unwrap();
    let told = run.result::<Result<String, String>>().await.unwrap();
    assert_eq!(told, Err("approval_expired".to_owned()));
    let late = semel.approvals().find("publish", ["home"]).await.unwrap();
    let late = late.approve("ann", "").await.unwrap();
    assert_eq!((late.is_new, late.judgement.answer), (false, Answer::Expired));
}

/// A loop and a sub-flow, each with effects before its question.
async fn campaign(ctx: Context, counts: [Count; 3]) -> Result<u32, Error> {
    let [drafts, asks, mails] = counts;
    let mut done = 0;
    for number in 0..3 {
        let name = format!("letter-{number}");
        let drafts = drafts.clone();
        let draft = move || {
            let drafts = drafts.clone();
            async move { Ok(drafts.up()) }
        };
        ctx.step("draft", draft).await?;
        done += one_letter(&ctx, &name, &asks, &mails).await?;
    }
    Ok(done)
}

async fn one_letter(ctx: &Context, name: &str, asks: &Count, mails: &Count) -> Result<u32, Error> {
    let count = |count: &Count| {
        let count = count.clone();
        move |_| {
            let count = count.clone();
            async move { Ok(count.up()) }
        }
    };
    ctx.effect("reserve").key([name]).call(count(asks)).await?;
    let mail = ctx.effect("publish").key([name]).approval(Approval::required());
    mail.call(count(mails)).await?;
    Ok(1)
}

#[tokio::test(flavor = "multi_thread")]
async fn bug_langgraph_6792_going_on_after_an_approval_runs_nothing_earlier_again() {
    let place = Place::new();
    let counts: [Count; 3] = Default::default();
    for number in 0..3_u32 {
        // A new process for every answer.
        let semel = place.open().await;
        let flow_counts = counts.clone();
        let flow = move |ctx: Context, (): ()| campaign(ctx, flow_counts.clone());
        let working = semel.worker().workflow("campaign", flow).start().unwrap();
        let run = semel.start("campaign").key("k").input(&()).run().await.unwrap();
        let name = format!("letter-{number}");
        let asked = loop {
            match semel.approvals().find("publish", [&name]).await {
                Ok(asked) => break asked,
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        };
        reaches(&run, RunState::Waiting).await;
        let [drafts, reserved, mails] = &counts;
        assert_eq!((drafts.get(), reserved.get(), mails.get()), (number + 1, number + 1, number));
        asked.approve("ann", "").await.unwrap();
        if number == 2 {
            assert_eq!(run.result::<u32>().await.unwrap(), 3);
            assert_eq!((drafts.get(), reserved.get(), mails.get()), (3, 3, 3));
        }
        working.stop(Duration::from_secs(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn req_t5_an_edited_payload_is_a_new_version_and_the_same_one_the_same_intent() {
    let (place, mails) = (Place::new(), Count::default());
    let semel = place.open().await;
    let send = |version: &'static str, text: &'static str| {
        let mails = mails.clone();
        let effect = semel.effect("letter").key(["offer-7", version]).input(text);
        effect.approval(Approval::required()).call(move |_| {
            let mails = mails.clone();
            async move { Ok(mails.up()) }
        })
    };
    assert_eq!(send("1", "Dear Sir").await.unwrap_err().code(), Code::Held);
    // Changed under the same version: refused, and what the person sees stays.
    assert_eq!(send("1", "Dear Madam").await.unwrap_err().code(), Code::InputChanged);
    let asked = semel.approvals().find("letter", ["offer-7", "1"]).await.unwrap();
    asked.send_back("ann", "she is a lady").await.unwrap();
    assert_eq!(send("1", "Dear Sir").await.unwrap_err().code(), Code::ApprovalReturned);
    // Resubmitted as it was, it is the same intent; edited, it is another, and asked about.
    assert_eq!(send("2", "Dear Madam").await.unwrap_err().code(), Code::Held);
    let edited = semel.approvals().find("letter", ["offer-7", "2"]).await.unwrap();
    assert_ne!(edited.digest(), asked.digest());
    edited.approve("ann", "").await.unwrap();
    assert_eq!(send("2", "Dear Madam").await.unwrap(), 1);
    assert_eq!(send("2", "Dear Madam").await.unwrap(), 1);
    assert_eq!(mails.get(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn inv_i17_an_answer_to_what_was_shown_before_is_refused() {
    let (place, sent) = (Place::new(), Count::default());
    let semel = place.open().await;
    let call = |contract| {
        let sent = sent.clone();
        let effect = semel.effect("publish").key(["home"]).approval(Approval::required());
        effect.contract(contract).call(move |intent| {
            let sent = sent.clone();
            async move {
                intent.downstream_key();
                Ok(sent.up())
            }
        })
    };
    let once = semel::Contract::AtMostOnce;
    assert_eq!(call(once).await.unwrap_err().code(), Code::Held);
    let shown = semel.approvals().find("publish", ["home"]).await.unwrap();
    // A release with another promise: what was shown is not what would be sent.
    assert_eq!(call(NativeKey::hours(1)).await.unwrap_err().code(), Code::Held);
    assert_eq!(shown.approve("ann", "").await.unwrap_err().code(), Code::VersionChanged);
    let shown = semel.approvals().find("publish", ["home"]).await.unwrap();
    shown.approve("ann", "").await.unwrap();
    assert_eq!(call(once).await.unwrap_err().code(), Code::Held, "the old release asks anew");
    assert_eq!(sent.get(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn four_eyes_hold_from_outside_too() {
    let place = Place::new();
    let semel = place.open().await;
    let ask = Approval::required().four_eyes("Ada");
    let effect = semel.effect("publish").key(["home"]).approval(ask);
    effect.call(|_| async { Ok(1) }).await.unwrap_err();
    let asked = semel.approvals().find("publish", ["home"]).await.unwrap();
    assert_eq!(asked.approve(" ada ", "").await.unwrap_err().code(), Code::FourEyes);
    assert_eq!(asked.approve("", "").await.unwrap_err().code(), Code::InputInvalid);
    assert!(asked.approve("bob", "").await.unwrap().is_new);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_alone_gives_back_who_said_yes() {
    let place = Place::new();
    let semel = place.open().await;
    let flow = |ctx: Context, (): ()| async move {
        let first = ctx.approve("budget", &json!({ "eur": 100 })).await?;
        let second = ctx.approve("budget", &json!({ "eur": 200 })).await;
        let shared = ctx.approve("quarter", &json!({})).key(["2026-Q4"]).await?;
        let denied = second.map_err(|error| error.code().as_str().to_owned());
        Ok((first, denied, shared))
    };
    semel.worker().workflow("w", flow).start().unwrap();
    let run = semel.start("w").key("k").input(&()).run().await.unwrap();
    let next = async |action: &str, key: Vec<String>| loop {
        if let Ok(asked) = semel.approvals().find(action, key.clone()).await {
            return asked;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    let id = |ordinal: u32| vec![run.id().to_owned(), format!("budget#{ordinal}")];
    let asked = next("budget", id(0)).await;
    assert_eq!(asked.effect().plan.as_ref().unwrap().input.text(), r#"{"eur":100}"#);
    asked.approve("ann", "fine").await.unwrap();
    next("budget", id(1)).await.deny("ann", "too much").await.unwrap();
    next("quarter", vec!["2026-Q4".to_owned()]).await.approve("bob", "").await.unwrap();
    let (first, denied, shared) =
        run.result::<(Approved, Result<Approved, String>, Approved)>().await.unwrap();
    assert_eq!((first.by.as_str(), first.note.as_str()), ("ann", "fine"));
    assert!(first.at.starts_with("20") && first.at.ends_with('Z'), "{first:?}");
    assert_eq!(denied, Err("approval_denied".to_owned()));
    assert_eq!(shared.by, "bob");
    let effect = semel.find("quarter", ["2026-Q4"]).await.unwrap().unwrap();
    let now = semel.engine().store().ground().now;
    assert_eq!(verify::check(&effect, &now), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_is_shown_what_to_say_and_may_only_say_that() {
    let place = Place::new();
    let semel = place.open().await;
    let flow = |ctx: Context, (): ()| async move {
        let choose = ctx.wait_for_user::<String>("colour", "Which colour?");
        let colour = choose.choices(["red", "blue"]).await?;
        let hurry = ctx.wait_for_user::<u32>("number", "How many?");
        let number = hurry.timeout(Duration::from_millis(100)).await;
        Ok((colour, number.map_err(|error| error.code().as_str().to_owned())))
    };
    semel.worker().workflow("w", flow).start().unwrap();
    let run = semel.start("w").key("k").input(&()).run().await.unwrap();
    reaches(&run, RunState::Waiting).await;
    let note = run.status().await.unwrap().waits[0].note.clone().unwrap();
    assert_eq!(note.text(), r#"{"choices":["red","blue"],"prompt":"Which colour?"}"#);
    run.signal("colour", "s1", "green").await.unwrap();
    run.signal("colour", "s2", "blue").await.unwrap();
    let told = run.result::<(String, Result<u32, String>)>().await.unwrap();
    assert_eq!(told, ("blue".to_owned(), Err("timed_out".to_owned())));
}
