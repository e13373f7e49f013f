//! A process dies at every point: before and after each commit, inside each step, before and after
//! each send lands. Whoever comes next finishes the run, and nothing happened twice.

use std::ops::RangeInclusive;

use semel_core::code::Code;
use semel_core::effect::{Person, Resolution};
use semel_core::key::Address;
use semel_core::record::Answer;
use semel_core::run::{On, Run, State};
use semel_store::Store;

use super::flows;
use super::kit::{Flow, address};
use super::world::{World, play};

/// One story: the first life dies at the first point, the second at the second, and so on.
/// Returns at how many points each life could have died.
fn story(flow: Flow, deaths: &[u32], applied: RangeInclusive<usize>) -> Vec<u32> {
    story_to(flow, deaths, applied, Plot { end: State::Done, cancels: false })
}

/// How a story goes.
#[derive(Clone, Copy)]
struct Plot {
    end: State,
    /// Somebody cancels the run as soon as it waits for a word.
    cancels: bool,
}

fn story_to(flow: Flow, deaths: &[u32], applied: RangeInclusive<usize>, plot: Plot) -> Vec<u32> {
    play(async {
        let world = World::new();
        let mut points = Vec::new();
        for number in 0..=deaths.len() {
            let process = world.live("worker", flow, deaths.get(number).copied());
            process.start_run();
            let ended = loop {
                world.idle().await;
                world.check_wakes().await;
                let state = world.state().await;
                if state.is_some_and(State::is_final) {
                    break true;
                }
                if process.life.is_dead() {
                    break false;
                }
                if plot.cancels {
                    cancel_waiting(&world).await;
                } else {
                    help(&world).await;
                }
                world.clock.advance_ms(1_000);
                if world.clock_s() > 2_000 {
                    let (names, row) = (world.names().await, world.row().await);
                    panic!("{deaths:?} never ends: {names:?} {row:#?}");
                }
            };
            points.push(process.life.points());
            if ended {
                break;
            }
        }
        world.check(plot.end).await;
        assert!(applied.contains(&world.there.applied().0), "{deaths:?}");
        points
    })
}

/// A person retries a run that paused because deaths have used up a retry budget.
pub(crate) async fn retry_exhausted(world: &World, run: &Run) {
    if run.paused.as_ref().is_some_and(|pause| pause.code == Code::RetriesExhausted.as_str()) {
        let namespace = semel_core::key::Namespace::default();
        let retried = world.outside.retry_run(&namespace, &run.id, "ann", "once more").await;
        retried.expect("a paused run can be retried");
    }
}

/// The world answers what only it can: a signal that is waited for without end, a doubt that no
/// contract settles, and a retry budget that deaths have used up.
pub(crate) async fn help(world: &World) {
    let Some(run) = world.row().await else { return };
    retry_exhausted(world, &run).await;
    let waits = run.waits;
    for wait in waits.iter().filter(|wait| wait.due.is_none()) {
        match &wait.on {
            On::Signal(name) => {
                world.signal(name, &wait.id).await.expect("it is delivered");
            }
            // Refused after an attempt of which nobody knows: that is no proof for the first.
            On::Effect { key, .. } if is_held(world, key).await => answer(world, key).await,
            On::Effect { key, .. } => settle(world, &address(key)).await,
            On::Timer | On::Retry => panic!("a timer without a time"),
            // Whoever has it lets it go by itself.
            On::Slot(_) | On::Child(_) | On::Entity(_) => {}
        }
    }
}

async fn is_held(world: &World, key: &str) -> bool {
    let effect = world.outside.effect(&address(key)).await.expect("it is there");
    effect.is_held(&world.disk.ground().now)
}

/// A person answers what they are shown: no to `no`, and yes to all else.
async fn answer(world: &World, key: &str) {
    let effect = world.outside.effect(&address(key)).await.expect("it is there");
    let digest = effect.approval.as_ref().expect("a question").digest.clone();
    let person = Person { actor: "ann".into(), reason: "I read it".into(), version: 0 };
    let answer = if key == "no" { Answer::Denied } else { Answer::Approved };
    let decided = world.outside.judge(&address(key), &person, answer, &digest).await;
    assert!(decided.expect("an answer").is_new, "{key} was answered twice");
}

/// A person looks, and says what is there.
pub(crate) async fn settle(world: &World, address: &Address) {
    let effect = world.outside.effect(address).await.expect("it is there");
    let (actor, reason) = ("ann".to_owned(), "I looked".to_owned());
    let person = Person { actor, reason, version: effect.version };
    let plan = effect.plan.as_ref().expect("it was planned");
    let resolution = match world.there.receipt(&plan.downstream_key) {
        Some(receipt) => Resolution::Done(receipt),
        None => Resolution::Failed,
    };
    if let Err(error) = world.outside.resolve(address, &person, &resolution).await {
        let is_early = matches!(error.code(), Code::TooEarly | Code::InProgress);
        assert!(is_early, "{error:?} {effect:#?}");
    }
}

async fn cancel_waiting(world: &World) {
    let waits = world.row().await.map(|run| run.waits).unwrap_or_default();
    if waits.iter().any(|wait| matches!(wait.on, On::Signal(_))) {
        let namespace = semel_core::key::Namespace::default();
        let id = super::world::run_id();
        let cancelled = world.outside.cancel_run(&namespace, &id, "ann", "changed my mind").await;
        cancelled.expect("a run that waits can be cancelled");
    }
}

/// Flows of so many points have thousands of pairs: a third of them is played, another third of the
/// second deaths for each first one. `SEMEL_EVERY_POINT` plays all of them.
const MANY_POINTS: u32 = 50;

/// Every single point, and every pair. Returns how many of each were played.
fn every_point(flow: Flow, applied: RangeInclusive<usize>, pairs: bool, plot: Plot) -> (u32, u32) {
    let clean = story_to(flow, &[], applied.clone(), plot)[0];
    let mut pair_count = 0;
    for first in 1..=clean {
        let lives = story_to(flow, &[first], applied.clone(), plot);
        let second_life = lives.get(1).copied().unwrap_or(0);
        if !pairs {
            continue;
        }
        let is_whole = clean < MANY_POINTS || std::env::var_os("SEMEL_EVERY_POINT").is_some();
        let (start, stride) = if is_whole { (1, 1) } else { (1 + first % 3, 3) };
        for second in (start..=second_life).step_by(stride) {
            story_to(flow, &[first, second], applied.clone(), plot);
            pair_count += 1;
        }
    }
    (clean, pair_count)
}

/// `want`: how many points there are, and at least how many pairs; those depend a little on the
/// order in which sleepers of one moment wake.
fn check(flow: Flow, applied: RangeInclusive<usize>, pairs: bool, want: (u32, u32)) {
    check_to(flow, applied, pairs, want, Plot { end: State::Done, cancels: false });
}

#[expect(clippy::print_stderr, reason = "how much was played is the result")]
fn check_to(flow: Flow, applied: RangeInclusive<usize>, pairs: bool, want: (u32, u32), plot: Plot) {
    let (points, pair_count) = every_point(flow, applied, pairs, plot);
    eprintln!("{points} points and {pair_count} pairs of points");
    assert_eq!(points, want.0, "other points than before: look why, then write them down here");
    assert!(pair_count >= want.1, "only {pair_count} pairs");
}

#[test]
fn req_r9_three_steps_survive_two_deaths_at_every_two_points() {
    check(flows::three_steps, 0..=0, true, (14, 150));
}

#[test]
fn req_r9_a_model_effects_a_sleep_and_a_wait_survive_two_deaths_at_every_two_points() {
    check(flows::of_all_kinds, 2..=2, true, (37, 860));
}

#[test]
fn req_r9_many_commands_at_once_survive_a_death_at_every_point() {
    check(flows::wide, 3..=3, false, (64, 0));
}

#[test]
fn req_r9_a_race_against_a_slow_effect_survives_two_deaths_at_every_two_points() {
    // Planned and not begun when the timer won, an effect is not begun any more.
    check(flows::slow_race, 0..=1, true, (22, 430));
}

#[test]
fn req_r9_a_step_that_fails_twice_survives_two_deaths_at_every_two_points() {
    check(flows::stubborn_step, 0..=0, true, (18, 230));
}

#[test]
fn req_r9_a_refused_effect_survives_two_deaths_at_every_two_points() {
    check(flows::refused_effect, 1..=1, true, (19, 375));
}

#[test]
fn req_a3_questions_to_people_survive_a_death_at_every_point() {
    // Before the questions, and after the one yes.
    check(flows::asks, 2..=2, false, (66, 0));
}

#[test]
fn slow_questions_to_people_survive_two_deaths_at_every_two_points() {
    check(flows::asks, 2..=2, true, (66, 790));
}

#[test]
fn req_r9_a_wait_in_vain_survives_two_deaths_at_every_two_points() {
    check(flows::wait_in_vain, 0..=0, true, (12, 98));
}

#[test]
fn bug_dbos_ts_1206_each_signal_is_consumed_once_and_seen_alike_whatever_dies() {
    check(flows::two_words, 0..=0, true, (22, 300));
}

#[test]
fn req_o4_a_saga_survives_a_death_at_every_point() {
    // Both effects, and both undos, each once.
    let plot = Plot { end: State::Failed, cancels: false };
    check_to(flows::saga, 4..=4, false, (50, 0), plot);
}

#[test]
fn slow_a_saga_survives_two_deaths_at_every_two_points() {
    let plot = Plot { end: State::Failed, cancels: false };
    check_to(flows::saga, 4..=4, true, (50, 490), plot);
}

#[test]
fn a_cancelled_saga_survives_two_deaths_at_every_two_points() {
    let plot = Plot { end: State::Cancelled, cancels: true };
    check_to(flows::undoable_wait, 2..=2, true, (32, 650), plot);
}

#[test]
fn children_survive_a_death_at_every_point() {
    check(flows::parent, 2..=2, false, (60, 0));
}

#[test]
fn req_c5_entities_survive_two_deaths_at_every_two_points() {
    check(flows::entities, 0..=0, true, (24, 350));
}

#[test]
fn req_a7_a_callback_survives_two_deaths_at_every_two_points() {
    check(flows::agent, 1..=1, true, (22, 320));
}

#[test]
fn inv_i25_a_death_inside_the_recovery_of_many_commands_changes_nothing() {
    let mut played = 0;
    for first in [20, 40] {
        for second in 1..=story(flows::wide, &[first], 3..=3)[1] {
            story(flows::wide, &[first, second], 3..=3);
            played += 1;
        }
    }
    assert!(played > 60, "only {played}");
}
