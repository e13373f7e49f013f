//! Which ticks fire, and what changes to a schedule do.

use semel_core::code::Code;
use semel_core::limits;
use semel_core::schedule::{
    CatchUp, Change, Content, Decided, Refusal, Schedule, Start, decide, decode, due_of, encode,
    is_forgotten, pause, put, remove, resume, started, tick_key,
};
use semel_core::time::{Moment, Wall};

use crate::{at, changed, schedule, wall};

/// Hourly since midnight, decided on up to so far.
fn hourly(catch_up: CatchUp, last: &str) -> Schedule {
    let schedule = schedule("0 * * * *", "UTC", catch_up, wall("2026-11-16T00:00:00Z"));
    Schedule { last: Some(wall(last)), ..schedule }
}

/// The runs of a decision have been started.
fn carried_out(decided: &Decided) -> Schedule {
    let start = |tick: &Wall| Start { tick: *tick, refused: None };
    started(&decided.next, &decided.next.firing.iter().map(start).collect::<Vec<_>>())
}

fn check(catch_up: CatchUp, now: &str, fire: &[&str], skipped: u64) {
    let before = hourly(catch_up, "2026-11-16T03:00:00Z");
    let decided = decide(&before, &at(wall(now))).unwrap();
    let want: Vec<Wall> = fire.iter().map(|tick| wall(tick)).collect();
    assert_eq!((decided.fire.as_slice(), decided.skipped), (want.as_slice(), skipped), "{now}");
    let after = carried_out(&decided);
    assert_eq!((after.fired, after.skipped), (want.len() as u64, skipped));
    // Once decided, it stays so.
    let again = decide(&after, &at(wall(now))).unwrap();
    assert_eq!((again.fire, again.skipped, again.next), (vec![], 0, after));
}

#[test]
fn a_tick_fires_when_it_comes() {
    for catch_up in CatchUp::ALL {
        check(catch_up, "2026-11-16T03:59:59.999Z", &[], 0);
        check(catch_up, "2026-11-16T04:00:00Z", &["2026-11-16T04:00:00Z"], 0);
    }
}

#[test]
fn bug_camunda_9680_what_becomes_of_missed_ticks_is_said_and_not_guessed() {
    let now = "2026-11-16T07:30:00Z";
    check(CatchUp::Skip, now, &[], 4);
    check(CatchUp::Once, now, &["2026-11-16T07:00:00Z"], 3);
    let all = ["04", "05", "06", "07"].map(|hour| format!("2026-11-16T{hour}:00:00Z"));
    check(CatchUp::All, now, &all.each_ref().map(String::as_str), 0);
}

#[test]
fn a_tick_that_is_not_to_be_caught_up_may_be_late_by_a_minute() {
    check(CatchUp::Skip, "2026-11-16T04:01:00Z", &["2026-11-16T04:00:00Z"], 0);
    check(CatchUp::Skip, "2026-11-16T04:01:00.001Z", &[], 1);
    check(CatchUp::Skip, "2026-11-16T05:00:30Z", &["2026-11-16T05:00:00Z"], 1);
}

#[test]
fn many_missed_ticks_come_a_hundred_at_a_time() {
    let created = wall("2026-11-01T00:00:00Z");
    let now = at(wall("2026-11-01T04:10:30Z"));
    let mut schedule = schedule("* * * * *", "UTC", CatchUp::All, created);
    let mut sizes = Vec::new();
    loop {
        let decided = decide(&schedule, &now).unwrap();
        let Some(first) = decided.fire.first() else { break };
        // Until its runs are started, it is due for that.
        assert_eq!(decided.due, Some(*first));
        sizes.push(decided.fire.len());
        schedule = carried_out(&decided);
    }
    assert_eq!(sizes, [100, 100, 50]);
    assert_eq!((schedule.fired, schedule.skipped), (250, 0));
}

#[test]
fn years_of_missed_ticks_are_passed_over_in_bounded_decisions() {
    let created = wall("2024-11-01T00:00:00Z");
    let now = at(wall("2026-11-01T00:00:30Z"));
    for (catch_up, fired) in [(CatchUp::Skip, 1), (CatchUp::Once, 1)] {
        let mut schedule = schedule("* * * * *", "UTC", catch_up, created);
        let mut decisions = 0;
        while due_of(&schedule).unwrap().is_some_and(|due| due <= now.wall) {
            let before = schedule.skipped;
            schedule = carried_out(&decide(&schedule, &now).unwrap());
            assert!(schedule.skipped - before <= limits::TICKS_SEEN_MAX as u64);
            decisions += 1;
        }
        assert_eq!(schedule.last, Some(wall("2026-11-01T00:00:00Z")));
        assert_eq!((schedule.fired, schedule.skipped), (fired, 730 * 24 * 60 - fired));
        assert_eq!(decisions, (730 * 24 * 60_usize).div_ceil(limits::TICKS_SEEN_MAX));
    }
}

#[test]
fn a_clock_that_is_behind_fires_nothing() {
    let before = hourly(CatchUp::All, "2026-11-16T03:00:00Z");
    let now = Moment { wall_is_behind: true, ..at(wall("2026-11-16T07:30:00Z")) };
    let decided = decide(&before, &now).unwrap();
    assert_eq!((decided.fire, decided.skipped, decided.next), (vec![], 0, before));
    assert_eq!(decided.due, Some(wall("2026-11-16T04:00:00Z")));
}

#[test]
fn a_clock_that_was_put_back_repeats_no_tick() {
    let before = hourly(CatchUp::All, "2026-11-16T09:00:00Z");
    for now in ["2026-11-16T04:00:00Z", "2026-11-16T09:00:00Z", "2026-11-16T09:59:59Z"] {
        let decided = decide(&before, &at(wall(now))).unwrap();
        assert_eq!((decided.fire, decided.skipped), (vec![], 0));
        assert_eq!(decided.due, Some(wall("2026-11-16T10:00:00Z")));
    }
}

/// Nothing else is decided before the runs are started, so a crash in between loses none.
#[test]
fn what_fires_stays_on_the_card_until_it_is_started() {
    let before = hourly(CatchUp::All, "2026-11-16T03:00:00Z");
    let claimed = decide(&before, &at(wall("2026-11-16T04:00:00Z"))).unwrap().next;
    let ticks = vec![wall("2026-11-16T04:00:00Z")];
    assert_eq!((&claimed.firing, claimed.fired), (&ticks, 0));
    let later = decide(&claimed, &at(wall("2026-11-16T06:30:00Z"))).unwrap();
    assert_eq!((&later.next, later.fire, later.due), (&claimed, vec![], Some(ticks[0])));
    let started = started(&claimed, &[Start { tick: ticks[0], refused: None }]);
    let next = decide(&started, &at(wall("2026-11-16T06:30:00Z"))).unwrap();
    assert_eq!(next.fire, [wall("2026-11-16T05:00:00Z"), wall("2026-11-16T06:00:00Z")]);
}

#[test]
fn a_refused_start_is_told_and_the_schedule_goes_on() {
    let before = hourly(CatchUp::All, "2026-11-16T03:00:00Z");
    let claimed = decide(&before, &at(wall("2026-11-16T06:00:00Z"))).unwrap().next;
    let refusals = [Code::InputChanged, Code::Expired, Code::ConcurrencyRejected];
    let refused = |(tick, code): (&Wall, Code)| Start {
        tick: *tick,
        refused: Some((code, "because".to_owned())),
    };
    let starts: Vec<Start> = claimed.firing.iter().zip(refusals).map(refused).collect();
    let after = started(&claimed, &starts);
    // Of the first two there is a run; of the third there is none.
    assert_eq!((after.fired, after.skipped, after.firing.len()), (2, 1, 0));
    let trouble = after.trouble.expect("it is told");
    assert_eq!(trouble.tick, wall("2026-11-16T06:00:00Z"));
    assert_eq!(
        (trouble.code.as_str(), trouble.detail.as_str()),
        ("concurrency_rejected", "because")
    );
}

#[test]
fn the_same_content_changes_nothing_and_another_begins_now() {
    let before = hourly(CatchUp::All, "2026-11-16T03:00:00Z");
    let now = at(wall("2026-11-16T03:30:00Z"));
    assert_eq!(put(Some(&before), &before.content, &now), Change::Nothing);
    let often = Content { cron: "*/5 * * * *".to_owned(), ..before.content.clone() };
    let changed = changed(put(Some(&before), &often, &now));
    assert_eq!((changed.last, changed.created), (before.last, before.created));
    // Six ticks of the new pattern lie between the last tick and the change: none is made up for.
    let decided = decide(&changed, &at(wall("2026-11-16T03:35:00Z"))).unwrap();
    assert_eq!((decided.fire, decided.skipped), (vec![wall("2026-11-16T03:35:00Z")], 0));
}

/// What is due is due under the content that it became due under.
#[test]
fn no_change_goes_before_what_is_due() {
    let before = hourly(CatchUp::All, "2026-11-16T03:00:00Z");
    let now = at(wall("2026-11-16T04:00:00Z"));
    let other = Content { workflow: "other".to_owned(), ..before.content.clone() };
    let claimed = decide(&before, &now).unwrap().next;
    for due in [&before, &claimed] {
        assert_eq!(put(Some(due), &other, &now), Change::SettleFirst);
        assert_eq!(put(Some(due), &due.content, &now), Change::Nothing);
        assert_eq!(pause(due, "ada", "audit", &now), Ok(Change::SettleFirst));
        assert_eq!(remove(due, &now), Ok(Change::SettleFirst));
    }
    // A clock that is behind decides nothing, and so holds nobody up.
    let behind = Moment { wall_is_behind: true, ..now };
    assert!(matches!(put(Some(&before), &other, &behind), Change::To(_)));
    assert_eq!(put(Some(&claimed), &other, &behind), Change::SettleFirst);
    // Neither does a zone that is not known any more.
    let lost = Content { zone: "Europe/Atlantis".to_owned(), ..before.content.clone() };
    let lost = Schedule { content: lost, ..before };
    assert!(matches!(put(Some(&lost), &other, &now), Change::To(_)));
}

#[test]
fn a_change_while_the_clock_is_back_repeats_no_tick() {
    let before = hourly(CatchUp::All, "2026-11-16T09:00:00Z");
    let other =
        Content { input: semel_core::json::Json::of("x").unwrap(), ..before.content.clone() };
    let changed = changed(put(Some(&before), &other, &at(wall("2026-11-16T04:30:00Z"))));
    let decided = decide(&changed, &at(wall("2026-11-16T09:59:00Z"))).unwrap();
    assert_eq!((decided.fire, decided.skipped), (vec![], 0));
}

#[test]
fn a_paused_schedule_passes_its_ticks_over_and_does_not_catch_them_up() {
    let before = hourly(CatchUp::All, "2026-11-16T03:00:00Z");
    let half_past_three = at(wall("2026-11-16T03:30:00Z"));
    let paused = changed(pause(&before, "ada", "audit", &half_past_three).unwrap());
    assert_eq!(pause(&paused, "bob", "me too", &half_past_three), Ok(Change::Nothing));
    let decided = decide(&paused, &at(wall("2026-11-16T05:10:00Z"))).unwrap();
    assert_eq!((decided.fire.len(), decided.skipped), (0, 2));
    // Two more have come: they are passed over before it goes on.
    let now = at(wall("2026-11-16T07:30:00Z"));
    assert_eq!(resume(&decided.next, &now), Ok(Change::SettleFirst));
    let decided = decide(&decided.next, &now).unwrap();
    assert_eq!((decided.fire.len(), decided.skipped), (0, 2));
    let resumed = changed(resume(&decided.next, &now).unwrap());
    assert_eq!(resume(&resumed, &half_past_three), Err(Refusal::NotPaused));
    let decided = decide(&resumed, &at(wall("2026-11-16T08:00:00Z"))).unwrap();
    assert_eq!(decided.fire, [wall("2026-11-16T08:00:00Z")]);
    for (actor, reason) in [("", "audit"), ("ada", " ")] {
        let refused = pause(&before, actor, reason, &half_past_three);
        assert_eq!(refused, Err(Refusal::ReasonMissing));
    }
}

#[test]
fn a_removed_schedule_fires_nothing_and_its_name_remembers_the_last_tick() {
    let before = hourly(CatchUp::All, "2026-11-16T09:00:00Z");
    let gone = changed(remove(&before, &at(wall("2026-11-16T09:30:00Z"))).unwrap());
    let later = at(wall("2026-11-16T12:00:00Z"));
    let decided = decide(&gone, &later).unwrap();
    assert_eq!((decided.fire.len(), decided.skipped, &decided.next), (0, 0, &gone));
    assert_eq!(remove(&gone, &later), Err(Refusal::NotFound));
    assert_eq!(resume(&gone, &later), Err(Refusal::NotFound));
    assert_eq!(pause(&gone, "ada", "audit", &later), Err(Refusal::NotFound));
    // Put anew while the clock is back: what ran has run.
    let back = changed(put(Some(&gone), &before.content, &at(wall("2026-11-16T04:30:00Z"))));
    assert_eq!((back.fired, back.removed, back.last), (0, None, before.last));
    let decided = decide(&back, &at(wall("2026-11-16T10:00:00Z"))).unwrap();
    assert_eq!(decided.fire, [wall("2026-11-16T10:00:00Z")]);
    // The name itself is forgotten some day.
    let end = Wall(wall("2026-11-16T09:30:00Z").0).plus(limits::TOMBSTONE_MS);
    assert_eq!(due_of(&gone), Ok(Some(end)));
    assert!(!is_forgotten(&gone, &at(Wall(end.0 - 1))));
    assert!(is_forgotten(&gone, &at(end)));
    assert!(!is_forgotten(&back, &at(end)));
}

#[test]
fn a_tick_names_its_run() {
    let key = tick_key("nightly", wall("2026-11-16T03:00:00Z")).unwrap();
    assert_eq!(key.as_str(), "nightly,2026-11-16T03:00:00Z");
}

#[test]
fn a_card_reads_back_what_was_written() {
    let mut schedule = hourly(CatchUp::Once, "2026-11-16T03:00:00Z");
    schedule.content.input = semel_core::json::Json::from_text(r#"{"b": 1.0,"a":2}"#).unwrap();
    let now = at(wall("2026-11-16T03:30:00Z"));
    let schedule = changed(pause(&schedule, "ada", "audit", &now).unwrap());
    let firing = vec![wall("2026-11-16T04:00:00Z")];
    let schedule = Schedule { firing, ..schedule };
    assert_eq!(decode(&encode(&schedule)), Ok(schedule));
    assert!(decode("{}").is_err());
}
