//! Releases: a run stays with its code, drafts touch nothing live, and nobody is stranded unseen.

use std::time::Duration;

use semel::{Code, Context, Error, Failure, Mode, NativeKey, RunHandle, RunState, Semel};
use semel_core::key::Namespace;
use semel_core::time::Wall;

use crate::common::{Count, Place, reaches};

/// A body that waits, then says which code it is.
fn code(
    name: &'static str,
) -> impl Fn(Context, ()) -> std::pin::Pin<Box<dyn Future<Output = Result<String, Error>> + Send>>
+ Send
+ Sync
+ 'static {
    move |ctx: Context, ()| {
        Box::pin(async move {
            ctx.wait_for_signal::<()>("go").await?;
            Ok(name.to_owned())
        })
    }
}

async fn works(semel: &Semel, release: &'static str) {
    semel.worker().release(release).workflow("w", code(release)).start().unwrap();
    semel.engine().turn().await.unwrap();
}

async fn start(semel: &Semel, key: &str) -> RunHandle {
    let run = semel.start("w").key(key).input(&()).run().await.unwrap();
    reaches(&run, RunState::Waiting).await;
    run
}

async fn go(run: &RunHandle) {
    run.signal("go", "go", &()).await.unwrap();
}

async fn release_of(run: &RunHandle) -> Option<String> {
    run.status().await.unwrap().release
}

#[tokio::test(flavor = "multi_thread")]
async fn req_s3_running_runs_keep_their_release_and_new_ones_start_on_the_live_one() {
    let place = Place::new();
    let semel = place.open().await;
    works(&semel, "r1").await;
    let first = start(&semel, "1").await;
    works(&semel, "r2").await;
    let second = start(&semel, "2").await;
    assert_eq!(release_of(&first).await.as_deref(), Some("r1"));
    assert_eq!(release_of(&second).await.as_deref(), Some("r2"));
    go(&first).await;
    go(&second).await;
    assert_eq!(first.result::<String>().await.unwrap(), "r1");
    assert_eq!(second.result::<String>().await.unwrap(), "r2");

    // Rolled back, new runs start on the old one; those of the new one end on theirs.
    let third = start(&semel, "3").await;
    let (who, namespace) = (("ann", "slow"), Namespace::default());
    let releases = semel.engine().roll_back(&namespace, "w", who).await.unwrap();
    assert_eq!(releases.live.as_deref(), Some("r1"));
    let fourth = start(&semel, "4").await;
    go(&third).await;
    go(&fourth).await;
    assert_eq!(third.result::<String>().await.unwrap(), "r2");
    assert_eq!(fourth.result::<String>().await.unwrap(), "r1");
    works(&semel, "r2").await;
    assert_eq!(release_of(&start(&semel, "5").await).await.as_deref(), Some("r1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draft_run_with_the_same_keys_touches_nothing_live() {
    let (place, sent) = (Place::new(), Count::default());
    let semel = place.open().await;
    let code = |count: Count| {
        move |ctx: Context, ()| {
            let count = count.clone();
            async move {
                let effect = ctx.effect("mail").key(["7"]).contract(NativeKey::hours(1));
                effect
                    .call(move |intent| {
                        let key = intent.downstream_key().to_owned();
                        count.up();
                        async move { Ok::<_, Failure>(key) }
                    })
                    .await
            }
        }
    };
    semel.worker().release("r1").workflow("w", code(sent.clone())).start().unwrap();
    semel.engine().turn().await.unwrap();
    semel.worker().release("r2").draft().workflow("w", code(sent.clone())).start().unwrap();
    semel.engine().turn().await.unwrap();
    let live = semel.start("w").key("7").input(&()).run().await.unwrap();
    let live_key = live.result::<String>().await.unwrap();
    let draft = semel.start("w").key("7").release("r2").input(&()).run().await.unwrap();
    assert_ne!(draft.id(), live.id());
    assert_ne!(draft.result::<String>().await.unwrap(), live_key);
    assert_eq!(draft.status().await.unwrap().namespace, "default~draft");
    assert_eq!(sent.get(), 2, "both really send");
    let unknown = semel.start("w").key("8").release("r9").input(&()).run().await.err().unwrap();
    assert_eq!(unknown.code(), Code::ReleaseUnknown);

    // Promoted, the very same worker takes live runs, too.
    let who = ("ann", "it works");
    semel.engine().promote(&Namespace::default(), "w", "r2", who).await.unwrap();
    let run = semel.start("w").key("9").input(&()).run().await.unwrap();
    assert_eq!(run.result::<String>().await.unwrap(), live_key, "the live effect is a repeat");
    assert_eq!(run.status().await.unwrap().namespace, "default");
    assert_eq!((release_of(&run).await.as_deref(), sent.get()), (Some("r2"), 2));
}

/// Makes it look as if nobody had offered a release for long.
async fn forget(semel: &Semel, release: &str) {
    let store = semel.engine().store();
    let card = store.card("default", "workflow", "w").await.unwrap().unwrap();
    let mut releases: semel_core::release::Releases = serde_json::from_str(&card.record).unwrap();
    let known = releases.known.iter_mut().find(|known| known.name == release).unwrap();
    known.seen = Wall(known.seen.0 - 61_000);
    let record = serde_json::to_string(&releases).unwrap();
    let next = semel_store::Card { version: card.version + 1, record, ..card };
    store.commit(semel_store::Write::Card(next).into()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1_100)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_release_nobody_offers_moves_if_its_journal_fits() {
    let place = Place::new();
    let semel = place.open().await;
    works(&semel, "r1").await;
    let run = start(&semel, "1").await;
    let id = run.id().to_owned();
    drop((run, semel));

    let semel = place.open().await;
    works(&semel, "r2").await;
    let run = semel.run(&id);
    go(&run).await;
    semel.engine().move_abandoned().await.unwrap();
    assert_eq!(release_of(&run).await.as_deref(), Some("r1"), "somebody offered it just now");
    forget(&semel, "r1").await;
    semel.engine().move_abandoned().await.unwrap();
    assert_eq!(run.result::<String>().await.unwrap(), "r2");
    assert_eq!(release_of(&run).await.as_deref(), Some("r2"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_cannot_move_waits_and_says_why_until_somebody_moves_it() {
    let place = Place::new();
    let semel = place.open().await;
    let stepping = |ctx: Context, ()| async move {
        ctx.step("one", || async { Ok(1) }).await?;
        ctx.wait_for_signal::<()>("go").await?;
        Ok::<_, Error>("r1".to_owned())
    };
    semel.worker().release("r1").workflow("w", stepping).start().unwrap();
    semel.engine().turn().await.unwrap();
    let id = start(&semel, "1").await.id().to_owned();
    drop(semel);

    let semel = place.open().await;
    works(&semel, "r2").await;
    let run = semel.run(&id);
    go(&run).await;
    forget(&semel, "r1").await;
    semel.engine().move_abandoned().await.unwrap();
    let waits_on = run.status().await.unwrap().waits_on().unwrap();
    assert!(waits_on.starts_with("release r1: nobody offers it, and it cannot move"), "{waits_on}");
    // By a person's word it moves all the same, pauses with the difference, and moves back.
    let (namespace, who) = (Namespace::default(), ("ann", "try"));
    semel.engine().move_run(&namespace, &id, "r2", who).await.unwrap();
    reaches(&run, RunState::Paused).await;
    semel.engine().move_run(&namespace, &id, "r1", who).await.unwrap();
    run.retry("ann", "back").await.unwrap();
    semel.worker().release("r1").workflow("w", stepping).start().unwrap();
    assert_eq!(run.result::<String>().await.unwrap(), "r1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_strictly_pinned_run_always_waits_for_its_release() {
    let place = Place::new();
    let semel = place.open().await;
    let worker = semel.worker().release("r1").pin_strictly();
    worker.workflow("w", code("r1")).one_per("{}", Mode::Queue).start().err().unwrap();
    semel.worker().release("r1").pin_strictly().workflow("w", code("r1")).start().unwrap();
    semel.engine().turn().await.unwrap();
    let id = start(&semel, "1").await.id().to_owned();
    drop(semel);

    let semel = place.open().await;
    works(&semel, "r2").await;
    let run = semel.run(&id);
    go(&run).await;
    forget(&semel, "r1").await;
    semel.engine().move_abandoned().await.unwrap();
    let waits_on = run.status().await.unwrap().waits_on().unwrap();
    assert!(waits_on.contains("the run is pinned"), "{waits_on}");
    semel.worker().release("r1").workflow("w", code("r1")).start().unwrap();
    assert_eq!(run.result::<String>().await.unwrap(), "r1");
}

#[tokio::test(flavor = "multi_thread")]
async fn req_a1_approved_after_fifty_restarts_and_two_promotions_it_is_sent_once() {
    let place = Place::new();
    let sent = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let code = |sent: std::sync::Arc<std::sync::Mutex<Vec<String>>>| {
        move |ctx: Context, ()| {
            let sent = sent.clone();
            async move {
                let effect = ctx.effect("refund").key(["42"]).contract(NativeKey::hours(24));
                effect
                    .approval(semel::Approval::required())
                    .call(move |intent| {
                        sent.lock().unwrap().push(intent.downstream_key().to_owned());
                        async { Ok::<_, Failure>("re_1".to_owned()) }
                    })
                    .await
            }
        }
    };
    let semel = place.open().await;
    semel.worker().release("r1").workflow("w", code(sent.clone())).start().unwrap();
    semel.engine().turn().await.unwrap();
    let run = start(&semel, "1").await;
    let id = run.id().to_owned();
    let held = semel.find("refund", ["42"]).await.unwrap().unwrap();
    let first_key = held.plan.unwrap().downstream_key;
    drop((run, semel));
    for restart in 0..50 {
        let semel = place.open().await;
        let release = ["r1", "r2", "r3"][restart / 17];
        semel.worker().release(release).workflow("w", code(sent.clone())).start().unwrap();
        semel.engine().turn().await.unwrap();
    }
    let semel = place.open().await;
    semel.worker().release("r3").workflow("w", code(sent.clone())).start().unwrap();
    semel.engine().turn().await.unwrap();
    let live = &semel.engine().releases(&Namespace::default()).await.unwrap().found[0].1;
    assert_eq!((live.live.as_deref(), live.promotions.len()), (Some("r3"), 3));
    forget(&semel, "r1").await;
    let asked = semel.approvals().find("refund", ["42"]).await.unwrap();
    assert!(asked.approve("ann", "fine").await.unwrap().is_new);
    semel.engine().move_abandoned().await.unwrap();
    let run = semel.run(&id);
    assert_eq!(run.result::<String>().await.unwrap(), "re_1");
    assert_eq!(release_of(&run).await.as_deref(), Some("r3"));
    assert_eq!(*sent.lock().unwrap(), [first_key], "once, and the same key");
}
