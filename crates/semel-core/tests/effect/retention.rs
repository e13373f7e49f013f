//! How long answers last.

use semel_core::effect::{Sweep, sweep};
use semel_core::limits;

use crate::{go_on, play, view};

#[test]
fn case_e1_after_the_window_the_key_answers_expired_and_nothing_is_sent() {
    for settled in ["receipt 1 7", "refused 1", "unknown 1\n failed"] {
        let mut desk = play("at_most_once window=7d", &format!("begin\n {settled}"));
        go_on(
            &mut desk,
            r#"
            wait 604799999ms
            sweep               -> kept
            wait 1ms
            sweep               -> expired
            begin               -> ! expired
            begin input={"n":2} -> ! expired
            receipt 1 7         -> ! expired
            retry               -> ! expired
            void                -> ! expired
            "#,
        );
    }
}

#[test]
fn req_e1_the_replay_window_can_be_set_and_is_thirty_days_by_default() {
    play(
        "at_most_once",
        "begin\n receipt 1 7\n wait 29d\n sweep -> kept\n wait 1d\n sweep -> expired",
    );
    play("at_most_once window=1h", "begin\n receipt 1 7\n wait 1h\n sweep -> expired");
    let looked = "begin\n not_applied 1\n void -> void\n wait 1h\n sweep -> expired";
    play("probe_first window=1h", looked);
}

#[test]
fn req_e2_a_window_shorter_than_the_effects_own_deadline_and_settle_window_is_refused() {
    play("at_most_once window=3m deadline=1m settle=2m", "begin -> send 1");
    play("at_most_once window=179s deadline=1m settle=2m", "begin -> ! retry_beyond_retention");
}

#[test]
fn req_e3_every_effect_says_how_long_it_remembers() {
    let desk = play("at_most_once window=7d", "begin\n receipt 1 7");
    assert_eq!(view(&desk)["replay_window"], "7d");
    assert_eq!(view(&desk)["replays_until"], "2023-11-21T22:13:20Z");
}

#[test]
fn inv_i28_a_tombstone_answers_until_its_own_end_and_fences_still_grow() {
    let mut desk = play("at_most_once", "begin\n receipt 1 7\n wait 30d\n sweep -> expired");
    let fence = desk.permit.clone().unwrap().fence;
    go_on(&mut desk, "wait 729d\n sweep -> kept\n begin -> ! expired");
    let mut again = desk.clone();
    go_on(&mut again, "supersede -> planned\n begin -> send 1");
    assert!(again.permit.unwrap().fence > fence);
    go_on(&mut desk, "wait 1d\n sweep -> removed\n state -> absent");
    assert_eq!(limits::TOMBSTONE_MS, 730 * 86_400_000);
}

#[test]
fn an_old_generation_is_buried_by_itself_but_removed_only_with_the_newest() {
    let story = "begin\n receipt 1 7\n supersede\n begin\n unknown 1\n wait 30d";
    let mut desk = play("at_most_once", story);
    let Sweep::Tombstone(buried) = sweep(&desk.rows[0], &desk.now) else { panic!("kept") };
    desk.rows[0] = *buried;
    go_on(&mut desk, "wait 36500d\n state -> in_doubt\n sweep -> kept");
    assert_eq!(sweep(&desk.rows[0], &desk.now), Sweep::Keep);
}

#[test]
fn a_tombstone_is_small() {
    let mut desk = play("native_key", "begin");
    for _ in 0..20 {
        go_on(&mut desk, "unknown last\n begin");
    }
    go_on(&mut desk, "receipt last 7\n wait 30d\n sweep -> expired");
    let effect = desk.effect().unwrap();
    assert_eq!((effect.attempts.len(), &effect.plan), (0, &None));
    assert!(semel_core::record::encode(effect).len() < 250);
}

#[test]
fn case_e7_planned_pending_and_in_doubt_are_never_swept() {
    for story in ["begin\n unknown 1", "begin\n wait 30s", "begin\n not_applied 1"] {
        let mut desk = play("at_most_once window=1h", story);
        for time in ["1h", "30d", "730d", "36500d"] {
            go_on(&mut desk, &format!("wait {time}\n sweep -> kept"));
        }
    }
    play("at_most_once window=1h", "begin\n wall ahead 36500d\n sweep -> kept");
}

#[test]
fn nothing_is_swept_by_a_clock_that_is_behind() {
    let done = "begin\n receipt 1 7\n wait 365d\n clock behind\n sweep -> kept\n";
    play("at_most_once", &format!("{done} clock right\n sweep -> expired"));
    let buried = "begin\n receipt 1 7\n wait 30d\n sweep -> expired\n wait 900d\n clock behind\n";
    play("at_most_once", &format!("{buried} sweep -> kept\n begin -> ! expired"));
}
