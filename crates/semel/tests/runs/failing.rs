//! Steps and effects that fail: retries with caps, pauses, and what operators decide.

use std::time::Duration;

use semel::{Code, Context, Error, Failure, NativeKey, RunState};

use crate::common::{AT_ONCE, Count, Place, entries, reaches};

async fn always_fails(ctx: Context, (): ()) -> Result<u32, Error> {
    let step = ctx.step("flaky", || async { Err::<u32, _>(Failure::unknown("no luck")) });
    let value = step.retry(AT_ONCE).await?;
    Ok(value + 1)
}

#[tokio::test(flavor = "multi_thread")]
async fn req_r3_used_up_retries_pause_the_run_and_an_operator_may_retry_or_skip() {
    let place = Place::new();
    let semel = place.open().await;
    semel.worker().workflow("w", always_fails).start().unwrap();
    let run = semel.start("w").key("k").input(&()).run().await.unwrap();
    reaches(&run, RunState::Paused).await;
    let pause = run.status().await.unwrap().paused.unwrap();
    assert_eq!((pause.code.as_str(), pause.id.as_deref()), ("retries_exhausted", Some("flaky#0")));
    assert_eq!(pause.detail, "failed 3 times, at last: no luck");
    let failed = ["started", "taken", "step_failed", "step_failed", "step_failed", "paused"];
    assert_eq!(entries(&semel, &run).await, failed);

    run.retry("ann", "try once more").await.unwrap();
    reaches(&run, RunState::Paused).await;
    let names = entries(&semel, &run).await;
    assert_eq!(names.iter().filter(|name| **name == "step_failed").count(), 6);

    let other = run.skip("other#0", &1, "ann", "known").await.unwrap_err();
    assert_eq!(other.code(), Code::NotPaused);
    run.skip("flaky#0", &41, "ann", "known from the log").await.unwrap();
    assert_eq!(run.result::<u32>().await.unwrap(), 42);
    let again = run.skip("flaky#0", &0, "ann", "again").await.unwrap_err();
    assert_eq!(again.code(), Code::RunFinished);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_may_ask_for_the_error_instead() {
    let place = Place::new();
    let semel = place.open().await;
    let handled = |ctx: Context, ()| async move {
        let step = ctx.step("flaky", || async { Err::<u32, _>(Failure::unknown("no luck")) });
        match step.retry(AT_ONCE).or_fail().await {
            Err(error) if error.code() == Code::RetriesExhausted => Ok("handled".to_owned()),
            other => Ok(format!("{other:?}")),
        }
    };
    semel.worker().workflow("w", handled).start().unwrap();
    let run = semel.start("w").key("k").input(&()).run().await.unwrap();
    assert_eq!(run.result::<String>().await.unwrap(), "handled");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_not_retried_and_fails_the_run_unless_it_is_handled() {
    let (place, ran) = (Place::new(), Count::default());
    let semel = place.open().await;
    let count = ran.clone();
    let refused = move |ctx: Context, ()| {
        let count = count.clone();
        async move {
            let step = ctx.step("refused", move || {
                count.up();
                async move { Err::<u32, _>(Failure::refused("no such customer")) }
            });
            step.retry(AT_ONCE).await
        }
    };
    semel.worker().workflow("w", refused).start().unwrap();
    let run = semel.start("w").key("k").input(&()).run().await.unwrap();
    let error = run.result::<u32>().await.unwrap_err();
    assert_eq!((error.code(), error.detail()), (Code::StepFailed, "no such customer"));
    assert_eq!(run.state().await.unwrap(), RunState::Failed);
    assert_eq!(ran.get(), 1);
    let again = semel.start("w").key("k").input(&()).run().await.unwrap();
    assert_eq!(again.result::<u32>().await.unwrap_err(), error, "the same answer again");
}

#[tokio::test(flavor = "multi_thread")]
async fn req_a5_an_operator_who_resumes_by_hand_keeps_the_key() {
    let (place, sent) = (Place::new(), Count::default());
    let semel = place.open().await;
    let count = sent.clone();
    let send = move |ctx: Context, ()| {
        let count = count.clone();
        async move {
            let effect = ctx.effect("mail").key(["k"]).retry(AT_ONCE);
            let sent = effect.call(move |intent| {
                let number = count.up();
                async move {
                    if number <= 3 {
                        return Err(Failure::not_applied("refused connection"));
                    }
                    Ok(intent.downstream_key().to_owned())
                }
            });
            sent.await
        }
    };
    semel.worker().workflow("w", send).start().unwrap();
    let run = semel.start("w").key("k").input(&()).run().await.unwrap();
    reaches(&run, RunState::Paused).await;
    assert_eq!(run.status().await.unwrap().paused.unwrap().code, "retries_exhausted");
    run.retry("ann", "the server is back").await.unwrap();
    let key = run.result::<String>().await.unwrap();
    let row = semel.find("mail", "k").await.unwrap().unwrap();
    assert_eq!(row.plan.unwrap().downstream_key, key);
    assert_eq!((row.attempts.len(), sent.get()), (4, 4));
}

#[tokio::test(flavor = "multi_thread")]
async fn req_r9_a_failure_between_two_effects_repeats_only_the_second() {
    let (place, tickets, mails) = (Place::new(), Count::default(), Count::default());
    let semel = place.open().await;
    let (ticket, mail) = (tickets.clone(), mails.clone());
    let both = move |ctx: Context, ()| {
        let (ticket, mail) = (ticket.clone(), mail.clone());
        async move {
            let made = ctx.effect("ticket").key(["k"]).call(move |_| {
                let number = ticket.up();
                async move { Ok::<_, Failure>(number) }
            });
            made.await?;
            let sent =
                ctx.effect("mail").key(["k"]).retry(AT_ONCE).call(move |_| {
                    let number = mail.up();
                    async move {
                        if number <= 3 { Err(Failure::not_applied("down")) } else { Ok(number) }
                    }
                });
            sent.await
        }
    };
    semel.worker().workflow("w", both).start().unwrap();
    let run = semel.start("w").key("k").input(&()).run().await.unwrap();
    reaches(&run, RunState::Paused).await;
    run.retry("ann", "up again").await.unwrap();
    run.result::<u32>().await.unwrap();
    assert_eq!((tickets.get(), mails.get()), (1, 4));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_of_another_shape_fails_the_run_with_a_clear_error() {
    let place = Place::new();
    let semel = place.open().await;
    let typed = |_ctx: Context, number: u32| async move { Ok(number) };
    semel.worker().workflow("w", typed).start().unwrap();
    let run = semel.start("w").key("k").input("seven").run().await.unwrap();
    assert_eq!(run.result::<u32>().await.unwrap_err().code(), Code::InputInvalid);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_doubt_that_could_be_resent_pauses_when_the_retries_are_used_up() {
    let (place, sent) = (Place::new(), Count::default());
    let semel = place.open().await;
    let count = sent.clone();
    let send = move |ctx: Context, ()| {
        let count = count.clone();
        async move {
            let effect = ctx.effect("ticket").key(["k"]).contract(NativeKey::hours(24));
            let sent = effect.retry(AT_ONCE).call(move |intent| {
                let (key, number) = (intent.downstream_key().to_owned(), count.up());
                async move { if number <= 3 { Err(Failure::unknown("cut")) } else { Ok(key) } }
            });
            sent.await
        }
    };
    semel.worker().workflow("w", send).start().unwrap();
    let run = semel.start("w").key("k").input(&()).run().await.unwrap();
    reaches(&run, RunState::Paused).await;
    let pause = run.status().await.unwrap().paused.unwrap();
    assert_eq!(pause.code, "retries_exhausted");
    assert_eq!(pause.detail, "no answer after 3 sends: cut");
    run.retry("ann", "the network is back").await.unwrap();
    let key = run.result::<String>().await.unwrap();
    let row = semel.find("ticket", "k").await.unwrap().unwrap();
    assert_eq!((row.plan.unwrap().downstream_key, sent.get()), (key, 4));
}

#[tokio::test(flavor = "multi_thread")]
async fn req_o8_a_receipt_that_does_not_fit_pauses_and_a_given_value_continues() {
    let place = Place::new();
    let semel = place.open().await;
    let mail = semel.effect("mail").key(["7"]);
    mail.call(|_| async { Ok::<_, Failure>(serde_json::Value::Null) }).await.unwrap();
    let code = |ctx: Context, ()| async move {
        let mail = ctx.effect("mail").key(["7"]);
        let sent: Result<u32, _> = mail.call(|_| async { Ok::<_, Failure>(1_u32) }).await;
        // Whatever the code does about it, the run pauses.
        Ok(sent.unwrap_or(99))
    };
    semel.worker().workflow("w", code).start().unwrap();
    let run = semel.start("w").key("k").input(&()).run().await.unwrap();
    reaches(&run, RunState::Paused).await;
    let pause = run.status().await.unwrap().paused.unwrap();
    assert_eq!((pause.code.as_str(), pause.id.as_deref()), ("receipt_mismatch", Some("mail#0")));
    run.retry("ann", "nothing has changed").await.unwrap();
    reaches(&run, RunState::Paused).await;
    run.skip("mail#0", &5_u32, "ann", "looked it up").await.unwrap();
    assert_eq!(run.result::<u32>().await.unwrap(), 5);
}

/// Run, handler and direct call together: three sends, and three more for each grant.
#[tokio::test(flavor = "multi_thread")]
async fn req_r10_a_paused_run_has_nothing_sent_by_handlers_or_callers_until_it_is_retried() {
    let (place, sent) = (Place::new(), Count::default());
    let semel = place.open().await;
    let refuse = |count: &Count| {
        let count = count.clone();
        move |_: semel::Intent| {
            count.up();
            async move { Err::<u32, _>(Failure::not_applied("refused connection")) }
        }
    };
    let (count, send) = (sent.clone(), refuse);
    let flow = move |ctx: Context, ()| {
        let send = send(&count);
        async move {
            ctx.effect("mail")
                .key(["k"])
                .contract(NativeKey::hours(1))
                .retry(AT_ONCE)
                .call(send)
                .await
        }
    };
    let handler = semel.handler("mail").contract(NativeKey::hours(1));
    handler.register(refuse(&sent)).unwrap();
    semel.worker().workflow("w", flow).start().unwrap();
    let run = semel.start("w").key("k").input(&()).run().await.unwrap();
    reaches(&run, RunState::Paused).await;
    let nobody_sends = async || {
        for _ in 0..3 {
            semel.engine().turn().await.unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let direct = semel.effect("mail").key(["k"]).contract(NativeKey::hours(1));
        let error = direct.call(refuse(&sent)).await.unwrap_err();
        assert_eq!(error.code(), Code::RetriesExhausted, "{error}");
    };
    nobody_sends().await;
    assert_eq!(sent.get(), 3);
    run.retry("ann", "the server is back").await.unwrap();
    for _ in 0..1_000 {
        if sent.get() == 6 && run.state().await.unwrap() == RunState::Paused {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    nobody_sends().await;
    assert_eq!(sent.get(), 6);
    assert_eq!(run.status().await.unwrap().paused.unwrap().code, "retries_exhausted");
    let row = semel.find("mail", "k").await.unwrap().unwrap();
    let granted = row.decisions.last().expect("a decision");
    assert_eq!((granted.verdict.as_str(), granted.actor.as_str()), ("grant", "ann"));
    assert!(granted.reason.contains("the server is back"), "{}", granted.reason);
}

/// A budget that is not used up does not make a paused run's effect anybody else's to send.
#[tokio::test(flavor = "multi_thread")]
async fn req_r10_a_handler_sends_nothing_while_the_run_is_paused() {
    let (place, sent) = (Place::new(), Count::default());
    let semel = place.open().await;
    let count = sent.clone();
    let flow = move |ctx: Context, ()| {
        let count = count.clone();
        async move {
            let effect = ctx.effect("mail").key(["k"]).contract(NativeKey::hours(1));
            let send = move |_| {
                count.up();
                async move { Err::<u32, _>(Failure::not_applied("refused connection")) }
            };
            effect.retry(semel::Retry::NONE).call(send).await
        }
    };
    semel.worker().workflow("w", flow).start().unwrap();
    let run = semel.start("w").key("k").input(&()).run().await.unwrap();
    reaches(&run, RunState::Paused).await;
    let count = sent.clone();
    let handler = semel.handler("mail").contract(NativeKey::hours(1));
    let send = move |_| {
        count.up();
        async move { Ok::<_, Failure>(1) }
    };
    handler.register(send).unwrap();
    for _ in 0..3 {
        semel.engine().turn().await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(sent.get(), 1);
    run.cancel("ann", "not any more").await.unwrap();
    assert_eq!(run.result::<u32>().await.unwrap_err().code(), Code::Cancelled);
    for _ in 0..3 {
        semel.engine().turn().await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(sent.get(), 1);
}
