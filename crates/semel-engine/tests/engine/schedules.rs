//! Schedules: due ticks become runs, each of them once, whoever dies or changes what meanwhile.

use std::collections::BTreeMap;

use semel_core::code::Code;
use semel_core::json::Json;
use semel_core::key::{Action, Namespace};
use semel_core::limits;
use semel_core::schedule::{CatchUp, Content, tick_key};
use semel_core::time::Wall;
use semel_engine::{Engine, Scheduled, Start};
use semel_store::RunQuery;

use crate::common::{Fault, File, Flaky, HOUR, World, world};

/// Where the clock of a world stands: 2023-11-14T22:13:20Z.
pub(crate) const BEGIN: i64 = 1_700_000_000_000;
const MINUTE: u64 = 60_000;

pub(crate) fn content(cron: &str, catch_up: CatchUp) -> Content {
    Content {
        workflow: "report".to_owned(),
        input: Json::null(),
        cron: cron.to_owned(),
        zone: "UTC".to_owned(),
        catch_up,
        window_ms: limits::WINDOW_MS,
    }
}

pub(crate) async fn put(engine: &Engine, name: &str, content: Content) -> (Scheduled, bool) {
    engine.put_schedule(&Namespace::default(), name, content).await.expect("a schedule")
}

pub(crate) async fn card(engine: &Engine, name: &str) -> Scheduled {
    engine.schedule(&Namespace::default(), name).await.expect("it is there")
}

/// All runs, by workflow and key, and how many there are of each.
pub(crate) async fn runs(engine: &Engine) -> BTreeMap<String, u32> {
    let mut found = BTreeMap::new();
    let mut query = RunQuery::everywhere(limits::PAGE_ROWS_MAX);
    loop {
        let page = engine.runs(&query).await.expect("runs");
        for run in page.runs {
            *found.entry(format!("{}/{}", run.workflow, run.key)).or_default() += 1;
        }
        if page.next.is_none() {
            return found;
        }
        query.after = page.next;
    }
}

/// One run of `report` for each of these times on the first evening.
fn ticks(name: &str, times: &[&str]) -> BTreeMap<String, u32> {
    let key = |time: &&str| (format!("report/{name},2023-11-14T{time}:00Z"), 1);
    times.iter().map(key).collect()
}

#[tokio::test]
async fn a_due_tick_becomes_a_run_and_the_card_says_so() {
    let World { clock, engine, .. } = world();
    let (put, is_new) = put(&engine, "often", content("*/5 * * * *", CatchUp::All)).await;
    assert!(is_new && put.version == 1);
    engine.turn().await.expect("a turn");
    assert!(runs(&engine).await.is_empty());
    clock.advance_ms(2 * MINUTE);
    engine.turn().await.expect("a turn");
    engine.turn().await.expect("a turn");
    assert_eq!(runs(&engine).await, ticks("often", &["22:15"]));
    let schedule = card(&engine, "often").await.schedule;
    assert_eq!((schedule.fired, schedule.skipped, schedule.firing.len()), (1, 0, 0));
    assert_eq!(schedule.last, Some(Wall(BEGIN + 100_000)));
}

#[tokio::test]
async fn the_job_takes_due_ticks_by_itself() {
    let world = world();
    put(&world.engine, "often", content("*/5 * * * *", CatchUp::Skip)).await;
    world.engine.start();
    world.pass_ms(7 * MINUTE).await;
    assert_eq!(runs(&world.engine).await, ticks("often", &["22:15", "22:20"]));
}

#[tokio::test]
async fn bug_camunda_9680_after_downtime_the_policy_says_what_fires() {
    for (catch_up, want, skipped) in [
        (CatchUp::Skip, &[] as &[&str], 3),
        (CatchUp::Once, &["22:45"], 2),
        (CatchUp::All, &["22:15", "22:30", "22:45"], 0),
    ] {
        let World { clock, engine, .. } = world();
        put(&engine, "q", content("*/15 * * * *", catch_up)).await;
        clock.advance_ms(40 * MINUTE);
        engine.turn().await.expect("a turn");
        assert_eq!(runs(&engine).await, ticks("q", want), "{catch_up:?}");
        assert_eq!(card(&engine, "q").await.schedule.skipped, skipped, "{catch_up:?}");
    }
}

#[tokio::test]
async fn a_clock_that_steps_repeats_no_tick_and_loses_none() {
    let World { clock, engine, .. } = world();
    put(&engine, "q", content("*/15 * * * *", CatchUp::All)).await;
    clock.advance_ms(2 * MINUTE);
    engine.turn().await.expect("a turn");
    clock.step_wall_ms(-i64::try_from(HOUR).unwrap());
    engine.turn().await.expect("a turn");
    clock.reboot("boot-2");
    clock.advance_ms(30 * MINUTE);
    engine.turn().await.expect("a turn");
    assert_eq!(runs(&engine).await, ticks("q", &["22:15"]));
    clock.advance_ms(45 * MINUTE);
    engine.turn().await.expect("a turn");
    assert_eq!(runs(&engine).await, ticks("q", &["22:15", "22:30"]));
}

#[tokio::test]
async fn the_same_put_changes_nothing_and_another_one_fires_nothing_twice() {
    let World { clock, engine, .. } = world();
    put(&engine, "q", content("*/15 * * * *", CatchUp::All)).await;
    clock.advance_ms(2 * MINUTE);
    engine.turn().await.expect("a turn");
    let before = card(&engine, "q").await;
    assert_eq!(put(&engine, "q", before.schedule.content.clone()).await, (before.clone(), false));
    let (changed, is_changed) = put(&engine, "q", content("* * * * *", CatchUp::All)).await;
    assert_eq!((changed.version, is_changed), (before.version + 1, true));
    assert_eq!(changed.schedule.last, before.schedule.last);
    engine.turn().await.expect("a turn");
    assert_eq!(runs(&engine).await, ticks("q", &["22:15"]));
    clock.advance_ms(MINUTE);
    engine.turn().await.expect("a turn");
    assert_eq!(runs(&engine).await, ticks("q", &["22:15", "22:16"]));
}

/// Were the change first, the tick could run in both workflows.
#[tokio::test]
async fn a_tick_that_is_being_started_belongs_to_the_content_it_fired_under() {
    // Died before the claim, behind it, and behind the start.
    for commits_before_death in 0..3 {
        let World { clock, store, engine } = world();
        put(&engine, "q", content("*/15 * * * *", CatchUp::All)).await;
        clock.advance_ms(2 * MINUTE);
        let flaky = Flaky::new(store);
        flaky.plan(dying_after(commits_before_death));
        let dying = Engine::new(flaky, "worker-2").expect("an engine");
        dying.turn_schedules().await.expect("what fails is told");
        let other = Content { workflow: "other".into(), ..content("*/15 * * * *", CatchUp::All) };
        put(&engine, "q", other).await;
        engine.turn().await.expect("a turn");
        assert_eq!(runs(&engine).await, ticks("q", &["22:15"]), "{commits_before_death}");
        clock.advance_ms(15 * MINUTE);
        engine.turn().await.expect("a turn");
        let mut want = ticks("q", &["22:15"]);
        want.insert("other/q,2023-11-14T22:30:00Z".to_owned(), 1);
        assert_eq!(runs(&engine).await, want, "{commits_before_death}");
    }
}

/// All goes well for so many commits, and then nothing is written any more.
pub(crate) fn dying_after(commits: usize) -> Vec<Fault> {
    let well = std::iter::repeat_n(Fault::None, commits);
    well.chain(std::iter::repeat_n(Fault::Unavailable, 1_000)).collect()
}

#[tokio::test]
async fn a_refused_start_is_on_the_card_and_blocks_nobody() {
    let World { clock, engine, .. } = world();
    put(&engine, "bad", content("*/15 * * * *", CatchUp::All)).await;
    put(&engine, "good", content("*/15 * * * *", CatchUp::All)).await;
    // Somebody used the key of a tick to come, with another input.
    let tick = Wall(BEGIN + 100_000);
    let ask = Start {
        namespace: Namespace::default(),
        workflow: Action::new("report").unwrap(),
        key: Some(tick_key("bad", tick).unwrap()),
        input: Json::of("by hand").unwrap(),
        window_ms: limits::WINDOW_MS,
        deadline_ms: None,
        release: None,
        parent: None,
    };
    engine.start_run(ask).await.expect("a run");
    clock.advance_ms(2 * MINUTE);
    engine.turn().await.expect("a turn");
    let schedule = card(&engine, "bad").await.schedule;
    let trouble = schedule.trouble.expect("it is told");
    assert_eq!((trouble.tick, trouble.code.as_str()), (tick, "input_changed"));
    assert_eq!(trouble.detail, "a run with this key was started with another input");
    assert!(card(&engine, "good").await.schedule.trouble.is_none());
    clock.advance_ms(15 * MINUTE);
    engine.turn().await.expect("a turn");
    let mut want = ticks("bad", &["22:15", "22:30"]);
    want.extend(ticks("good", &["22:15", "22:30"]));
    assert_eq!(runs(&engine).await, want);
}

/// A store that is full for a while delays a tick; it is not lost, and not refused.
#[tokio::test]
async fn a_store_that_fails_delays_a_tick_and_loses_none() {
    for fault in Fault::ALL {
        for commits_before in 0..3 {
            let World { clock, store, engine } = world();
            put(&engine, "q", content("*/15 * * * *", CatchUp::All)).await;
            clock.advance_ms(2 * MINUTE);
            let flaky = Flaky::new(store);
            let well = std::iter::repeat_n(Fault::None, commits_before);
            flaky.plan(well.chain([fault]));
            let shaken = Engine::new(flaky, "worker-2").expect("an engine");
            let turn = async {
                shaken.turn_schedules().await.expect("what fails is told");
                shaken.turn_schedules().await.expect("what fails is told");
            };
            crate::common::drive(&clock, 10, turn).await;
            let what = format!("{fault:?} after {commits_before}");
            assert_eq!(runs(&engine).await, ticks("q", &["22:15"]), "{what}");
            let schedule = card(&engine, "q").await.schedule;
            assert_eq!((schedule.fired, schedule.trouble), (1, None), "{what}");
        }
    }
}

#[tokio::test]
async fn a_paused_schedule_fires_nothing_until_it_is_resumed() {
    let (World { clock, engine, .. }, space) = (world(), Namespace::default());
    put(&engine, "q", content("*/15 * * * *", CatchUp::All)).await;
    clock.advance_ms(2 * MINUTE);
    // What is due goes before the pause.
    let paused = engine.pause_schedule(&space, "q", "ada", "audit").await.expect("paused");
    assert_eq!(paused.schedule.paused.expect("paused").actor, "ada");
    clock.advance_ms(30 * MINUTE);
    engine.turn().await.expect("a turn");
    clock.advance_ms(15 * MINUTE);
    engine.resume_schedule(&space, "q").await.expect("resumed");
    engine.turn().await.expect("a turn");
    assert_eq!(runs(&engine).await, ticks("q", &["22:15"]));
    assert_eq!(card(&engine, "q").await.schedule.skipped, 3);
    clock.advance_ms(15 * MINUTE);
    engine.turn().await.expect("a turn");
    assert_eq!(runs(&engine).await, ticks("q", &["22:15", "23:15"]));
    let refused = engine.resume_schedule(&space, "q").await.expect_err("it is not paused");
    assert_eq!(refused.code(), Code::NotPaused);
}

#[tokio::test]
async fn a_removed_schedule_is_gone_and_its_name_is_forgotten_some_day() {
    let (World { clock, engine, store }, space) = (world(), Namespace::default());
    put(&engine, "q", content("*/15 * * * *", CatchUp::All)).await;
    put(&engine, "r", content("@yearly", CatchUp::Skip)).await;
    engine.remove_schedule(&space, "q").await.expect("removed");
    clock.advance_ms(HOUR);
    engine.turn().await.expect("a turn");
    assert!(runs(&engine).await.is_empty());
    for refused in [
        engine.schedule(&space, "q").await.map(|_| ()),
        engine.remove_schedule(&space, "q").await,
        engine.remove_schedule(&space, "never").await,
    ] {
        assert_eq!(refused.expect_err("it is gone").code(), Code::NotFound);
    }
    let page = engine.schedules(&space, None, 1).await.expect("a page");
    assert_eq!(page.schedules.iter().map(|one| &one.name).collect::<Vec<_>>(), ["r"]);
    assert!(store.card("default", "schedule", "q").await.expect("a look").is_some());
    clock.advance_ms(limits::TOMBSTONE_MS);
    engine.turn().await.expect("a turn");
    assert!(store.card("default", "schedule", "q").await.expect("a look").is_none());
}

#[tokio::test]
async fn schedules_are_listed_by_name_page_by_page_within_their_namespace() {
    let (World { engine, .. }, space) = (world(), Namespace::default());
    for name in ["c", "a", "b"] {
        put(&engine, name, content("@daily", CatchUp::Skip)).await;
    }
    let elsewhere = Namespace::new("elsewhere").unwrap();
    let daily = content("@daily", CatchUp::Skip);
    engine.put_schedule(&elsewhere, "d", daily).await.expect("a schedule");
    let mut names = Vec::new();
    let mut after = None;
    loop {
        let page = engine.schedules(&space, after, 2).await.expect("a page");
        names.extend(page.schedules.into_iter().map(|one| one.name));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(names, ["a", "b", "c"]);
    let not_here = engine.schedule(&space, "d").await.expect_err("another namespace");
    assert_eq!(not_here.code(), Code::NotFound);
}

#[tokio::test]
async fn a_bad_pattern_is_refused_before_anything_is_written() {
    let (World { engine, .. }, space) = (world(), Namespace::default());
    let bad = content("0 0 30 2 *", CatchUp::Skip);
    let refused = engine.put_schedule(&space, "q", bad).await.expect_err("it never comes");
    assert_eq!(refused.code(), Code::ScheduleInvalid);
    assert!(engine.schedules(&space, None, 10).await.expect("a page").schedules.is_empty());
}

/// Two processes on one file look at the same instant, again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bug_dapr_8548_two_processes_start_one_run_per_tick() {
    let file = File::new();
    let engines = [file.engine(), file.engine()];
    put(&engines[0], "often", content("* * * * *", CatchUp::All)).await;
    for _ in 0..40 {
        file.clock.advance_ms(90_000);
        let turn = |engine: &Engine| {
            let engine = engine.clone();
            tokio::spawn(async move { engine.turn_schedules().await })
        };
        for turned in engines.each_ref().map(turn) {
            turned.await.expect("no panic").expect("a turn");
        }
    }
    // Whatever the loser of the last race left.
    engines[0].turn_schedules().await.expect("a turn");
    let found = runs(&engines[0]).await;
    assert_eq!((found.len(), found.values().max()), (60, Some(&1)));
    let schedule = card(&engines[1], "often").await.schedule;
    assert_eq!((schedule.fired, schedule.skipped), (60, 0));
}
