//! Schedules through the SDK, on a clock that is moved by hand.

use std::sync::Arc;

use semel::{CatchUp, Code, Context, Error, NativeKey, RunState, Semel};
use semel_engine::Engine;
use semel_store::memory::Memory;
use semel_store::{Clock, ManualClock, RunQuery, Store};

use crate::common::{Count, reaches};

/// 2026-03-28T23:00:00Z: midnight in Rome, in the night in which the clock is put forward.
const MIDNIGHT: i64 = 1_774_738_800_000;

fn semel_on(store: Arc<dyn Store>, worker: &str) -> Semel {
    Semel::on(Engine::new(store, worker).expect("an engine"))
}

/// Sends one mail for each branch: its key comes from the input, and not from the run.
fn offer(semel: &Semel, mails: &Count) {
    let mails = mails.clone();
    let report = move |ctx: Context, branch: String| {
        let mails = mails.clone();
        async move {
            let send = move |_: semel::Intent| {
                let mails = mails.clone();
                async move { Ok::<_, semel::Failure>(format!("M-{}", mails.up())) }
            };
            let effect = ctx.effect("mail").key([branch.as_str()]).input(&branch);
            effect.contract(NativeKey::hours(24)).call(send).await
        }
    };
    semel.worker().workflow("report", report).start().expect("a worker");
}

#[tokio::test]
async fn req_r7_a_scheduler_that_repeats_leaves_one_effect() -> Result<(), Error> {
    let clock = ManualClock::new(MIDNIGHT);
    let store: Arc<dyn Store> = Arc::new(Memory::new(Clock::Manual(clock.clone())));
    let (first, second) = (semel_on(store.clone(), "one"), semel_on(store.clone(), "two"));
    let mails = Count::default();
    offer(&first, &mails);
    let nightly = || {
        let nightly = first.schedule("nightly").workflow("report").cron("30 2 * * *");
        nightly.zone("Europe/Rome").catch_up(CatchUp::Once).input("rome").put()
    };
    nightly().await?;
    // At 02:30 there is no such time; it comes at 03:00, and two processes see it at once.
    clock.advance_ms(2 * 3_600_000);
    let turns = [first.engine().turn_schedules(), second.engine().turn_schedules()];
    for turned in futures_util::future::join_all(turns).await {
        turned?;
    }
    // It is put again by a restarted process, the clock goes back, and a person helps out.
    nightly().await?;
    clock.step_wall_ms(-3_600_000);
    second.engine().turn_schedules().await?;
    clock.step_wall_ms(3_600_000);
    first.engine().turn_schedules().await?;
    let key = ["nightly", "2026-03-29T01:00:00Z"];
    let by_hand = second.start("report").key(key).input("rome").run().await?;
    assert!(by_hand.is_attached());
    reaches(&by_hand, RunState::Done).await;
    assert_eq!(by_hand.result::<String>().await?, "M-1");
    let page = first.engine().runs(&RunQuery::everywhere(10)).await?;
    assert_eq!((page.runs.len(), mails.get()), (1, 1));
    let status = first.schedule("nightly").status().await?;
    assert_eq!((status.schedule.fired, status.schedule.skipped), (1, 0));
    Ok(())
}

#[tokio::test]
async fn a_schedule_is_put_paused_resumed_and_removed() -> Result<(), Error> {
    let semel = Semel::open("memory:").await?;
    let nightly = semel.schedule("nightly");
    assert_eq!(nightly.status().await.unwrap_err().code(), Code::NotFound);
    let put = semel.schedule("nightly").workflow("report").cron("@daily").put().await?;
    assert_eq!((put.version, put.schedule.content.catch_up), (1, CatchUp::Skip));
    assert_eq!(nightly.pause("ada", "audit").await?.schedule.paused.unwrap().reason, "audit");
    assert_eq!(nightly.resume().await?.schedule.paused, None);
    nightly.remove().await?;
    assert_eq!(nightly.status().await.unwrap_err().code(), Code::NotFound);
    for (workflow, cron) in [("report", ""), ("", "@daily"), ("report", "0 0 0 * * *")] {
        let refused = semel.schedule("bad").workflow(workflow).cron(cron).put().await;
        assert_eq!(refused.unwrap_err().code(), Code::ScheduleInvalid, "{workflow:?} {cron:?}");
    }
    let elsewhere = semel.namespace("elsewhere")?;
    let missing = elsewhere.schedule("nightly").remove().await;
    assert_eq!(missing.unwrap_err().code(), Code::NotFound);
    Ok(())
}
