use super::*;
use crate::code::Code;
use crate::journal::{At, Value};

pub(super) fn at(ms: i64) -> Moment {
    Moment { wall: Wall(ms), steady: Steady { boot: 1, ms }, wall_is_behind: false }
}

fn ask(input: &str) -> Start {
    Start {
        namespace: Namespace::default(),
        workflow: Action::new("triage").unwrap(),
        key: Key::from_text("event-7").unwrap(),
        input: Json::from_text(input).unwrap(),
        number: 1,
        window_ms: 1_000,
        deadline_ms: None,
        release: None,
        strict: false,
        passes: Vec::new(),
        parent: None,
    }
}

pub(super) fn worker(name: &str) -> Take {
    Take { worker: name.into(), session: Some(name.into()), lease_ms: 100, epoch: 0 }
}

pub(super) fn new() -> Run {
    start(&ask("{}"), &at(0))
}

pub(super) fn running() -> Run {
    take(&new(), &worker("a"), &at(0)).unwrap()
}

fn wait(due: Option<i64>) -> Wait {
    let due = due.map(|ms| At::from(&at(ms)));
    Wait { id: "s#0".into(), on: On::Signal("approve".into()), due, note: None }
}

fn stop() -> Pause {
    let (code, detail) = ("diverged".into(), "no".into());
    Pause { id: Some("s#0".into()), code, detail, raised: None, at: Wall(0) }
}

/// One run in each state, with its state, `wake_at` and `waits_on`.
fn every_state() -> Vec<(Run, State, Option<i64>, Option<&'static str>)> {
    let parked = park(&running(), 1, vec![wait(None)]).unwrap();
    let timed = park(&running(), 1, vec![wait(None), wait(Some(70))]).unwrap();
    let paused = pause(&running(), 1, stop()).unwrap();
    let end = |how| finish(&running(), 1, how, &at(5)).unwrap();
    let cancelled = |run: &Run| cancel(run, "ann", "no", &at(5)).unwrap().unwrap();
    let Sweep::Tombstone(tombstone) = sweep(&end(How::Done), &at(2_000)) else { panic!("kept") };
    vec![
        (new(), State::Ready, Some(50), None),
        (running(), State::Running, Some(100), None),
        (parked.clone(), State::Waiting, None, Some("signal approve")),
        (timed, State::Waiting, Some(70), Some("signal approve and 1 more")),
        (paused.clone(), State::Paused, None, Some("operator: diverged")),
        (cancelled(&new()), State::Cancelling, Some(50), None),
        (cancelled(&running()), State::Cancelling, Some(100), None),
        (cancelled(&parked), State::Cancelling, Some(50), None),
        (cancelled(&paused), State::Cancelling, Some(50), None),
        (end(How::Done), State::Done, None, None),
        (end(How::Failed), State::Failed, None, None),
        (end(How::Cancelled), State::Cancelled, None, None),
        (*tombstone, State::Expired, None, None),
    ]
}

#[test]
fn inv_i14_every_unfinished_run_has_a_wake_time_or_names_what_it_waits_for() {
    for (run, state, wake_at, waits_on) in every_state() {
        assert_eq!(run.state(), state);
        assert_eq!(run.wake_at(&at(50)).map(|at| at.ms), wake_at, "{state}");
        assert_eq!(run.waits_on().as_deref(), waits_on, "{state}");
        let is_awaited = run.wake_at(&at(50)).is_some() || run.waits_on().is_some();
        assert_eq!(is_awaited, !state.is_final(), "{state}");
        let read = decode(&encode(&run), run.version);
        assert_eq!(read, Ok(run));
    }
}

#[test]
fn req_t1_the_same_event_is_the_same_run() {
    assert_eq!(start(&ask("{}"), &at(0)).id, start(&ask("{}"), &at(99)).id);
    assert_eq!(attach(&new(), &ask("{ }")), Ok(()));
    assert_eq!(attach(&new(), &ask("[]")), Err(Refusal::InputChanged));
    let other = Start { key: Key::from_text("event-8").unwrap(), ..ask("{}") };
    assert_ne!(start(&other, &at(0)).id, new().id);
}

#[test]
fn inv_i15_a_live_lease_keeps_all_others_out_and_each_take_has_a_higher_fence() {
    let first = running();
    assert!(matches!(take(&first, &worker("b"), &at(99)), Err(Refusal::Held { .. })));
    let second = take(&first, &worker("b"), &at(100)).unwrap();
    assert_eq!((first.fence, second.fence), (1, 2));
    for refused in [
        renew(&second, 1, 100, &at(101)),
        park(&second, 1, Vec::new()),
        pause(&second, 1, stop()),
        finish(&second, 1, How::Done, &at(101)),
    ] {
        assert_eq!(refused, Err(Refusal::StaleFence));
    }
    let renewed = renew(&second, 2, 100, &at(150)).unwrap();
    assert!(matches!(take(&renewed, &worker("c"), &at(249)), Err(Refusal::Held { .. })));
    let restored = Take { epoch: 1, ..worker("c") };
    assert_eq!(take(&renewed, &restored, &at(250)).unwrap().fence, (1 << 32) + 1);
}

#[test]
fn a_dead_process_loses_its_lease_and_no_other() {
    assert_eq!(freed(&running(), "b"), None);
    let free = freed(&running(), "a").unwrap();
    assert_eq!(free.state(), State::Ready);
    assert_eq!(freed(&free, "a"), None);
}

#[test]
fn bug_inngest_2531_cancel_works_in_every_state_and_the_first_asker_stands() {
    for (run, state, ..) in every_state() {
        let asked = cancel(&run, "bob", "late", &at(9));
        match state {
            State::Cancelling => assert_eq!(asked, Ok(None)),
            state if state.is_final() => assert_eq!(asked, Err(Refusal::Finished(state))),
            _ => {
                let asked = asked.unwrap().unwrap();
                assert_eq!(asked.state(), State::Cancelling);
                assert_eq!(asked.lane(), "/default", "no code is needed to end a run");
            }
        }
    }
}

#[test]
fn a_paused_run_waits_for_an_operator_who_may_retry_skip_or_fail() {
    let paused = pause(&running(), 1, stop()).unwrap();
    assert_eq!(take(&paused, &worker("b"), &at(9_999)), Err(Refusal::NotDue));
    assert_eq!(retry(&paused, "ann", "mended").unwrap().run.state(), State::Ready);
    let value = || Value::Json(Json::null());
    let skipped = skip(&paused, "s#0", value(), "ann", "known").unwrap();
    assert_eq!(skipped.run.state(), State::Ready);
    let other = skip(&paused, "other#0", value(), "ann", "known");
    assert!(matches!(other, Err(Refusal::NotPausedOn { .. })));
    let failed = fail(&paused, "ann", "give up", &at(5)).unwrap();
    assert_eq!((failed.run.state(), failed.events.len()), (State::Failed, 2));
    assert!(matches!(retry(&running(), "ann", ""), Err(Refusal::NotPaused(State::Running))));
    assert!(matches!(retry(&failed.run, "ann", ""), Err(Refusal::Finished(State::Failed))));
}

#[test]
fn inv_i28_a_start_key_is_kept_for_its_window_then_answers_expired() {
    let done = finish(&running(), 1, How::Done, &at(5)).unwrap();
    assert_eq!(attach(&done, &ask("{}")), Ok(()));
    assert_eq!(sweep(&done, &at(1_004)), Sweep::Keep);
    let Sweep::Tombstone(tombstone) = sweep(&done, &at(1_005)) else { panic!("kept") };
    assert_eq!(attach(&tombstone, &ask("{}")), Err(Refusal::Expired));
    let end = i64::try_from(limits::TOMBSTONE_MS).unwrap() + 1_005;
    assert_eq!(sweep(&tombstone, &at(end - 1)), Sweep::Keep);
    assert_eq!(sweep(&tombstone, &at(end)), Sweep::Remove);
    assert_eq!(sweep(&running(), &at(end)), Sweep::Keep, "an unfinished run is never swept");
    let behind = Moment { wall_is_behind: true, ..at(1_005) };
    assert_eq!(sweep(&done, &behind), Sweep::Keep);
}

#[test]
fn a_deadline_wakes_a_run_that_waits_for_longer() {
    let ask = Start { deadline_ms: Some(60), ..ask("{}") };
    let run = take(&start(&ask, &at(0)), &worker("a"), &at(0)).unwrap();
    let parked = park(&run, 1, vec![wait(None)]).unwrap();
    assert_eq!(parked.wake_at(&at(50)).map(|at| at.ms), Some(60));
}

#[test]
fn a_delivery_is_new_once_repeated_for_ever_and_the_first_content_stands() {
    let done = finish(&running(), 1, How::Done, &at(5)).unwrap();
    let (sent, other) = (("go", "1"), ("go", "2"));
    for run in [&new(), &running(), &done] {
        assert_eq!(deliver(run, sent, Some(sent), 0), Ok(Delivery::Repeat));
        assert_eq!(deliver(run, sent, Some(other), 0), Err(Refusal::DeliveryChanged));
    }
    assert_eq!(deliver(&running(), sent, None, limits::INBOX_MAX - 1), Ok(Delivery::New));
    let full = deliver(&running(), sent, None, limits::INBOX_MAX);
    assert_eq!(full.map_err(|refusal| refusal.code()), Err(Code::TooMany));
    assert_eq!(deliver(&done, sent, None, 0), Err(Refusal::Finished(State::Done)));
}

/// Every state, reached as its first example, times every wish.
fn drawn() -> String {
    use std::fmt::Write;
    let mut page = String::from(
        "# The states of a run\n\nDrawn by `crates/semel-core/src/run/tests.rs`; `UPDATE_DOCS=1` \
         rewrites it. A state is derived from\nthe run's record, never set. Whoever holds a run \
         acts under its fence; a stale one is refused.\n",
    );
    let mut seen = Vec::new();
    for (run, state, ..) in every_state() {
        if seen.contains(&state) {
            continue;
        }
        seen.push(state);
        writeln!(page, "\n## {state}\n\n| wish | becomes |\n|---|---|").unwrap();
        for (wish, answer) in wishes(&run) {
            let answer = match answer {
                Ok(next) => next.state().to_string(),
                Err(refusal) => format!("refused: `{}`", refusal.code()),
            };
            writeln!(page, "| {wish} | {answer} |").unwrap();
        }
    }
    page
}

fn wishes(run: &Run) -> Vec<(&'static str, Result<Run, Refusal>)> {
    let fence = run.fence;
    let steered = |steered: Result<Steered, Refusal>| steered.map(|steered| steered.run);
    vec![
        ("take, before the lease ends", take(run, &worker("b"), &at(50))),
        ("take, after it", take(run, &worker("b"), &at(500))),
        ("renew", renew(run, fence, 100, &at(50))),
        ("park, waiting for a signal", park(run, fence, vec![wait(None)])),
        ("let go", park(run, fence, Vec::new())),
        ("pause", pause(run, fence, stop())),
        ("finish", finish(run, fence, How::Done, &at(50))),
        ("the holder is dead", freed(run, "a").ok_or(Refusal::NotDue)),
        ("cancel", cancel(run, "ann", "no", &at(50)).map(|asked| asked.unwrap_or(run.clone()))),
        ("operator: retry", steered(retry(run, "ann", "mended"))),
        ("operator: skip", steered(skip(run, "s#0", Value::Json(Json::null()), "ann", "known"))),
        ("operator: fail", steered(fail(run, "ann", "give up", &at(50)))),
    ]
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the page lies in a file; the rules touch none")]
fn the_machine_is_drawn() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/machines/run.md");
    let page = drawn();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &page).unwrap();
    }
    let stored = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(stored, page, "run the tests of semel-core with UPDATE_DOCS=1");
}

/// Rows from before waits had notes and pauses exceptions have no such members, and get none.
#[test]
fn a_note_and_an_exception_are_members_that_may_be_missing() {
    for bare in [park(&running(), 1, vec![wait(None)]), pause(&running(), 1, stop())] {
        let bare = bare.unwrap();
        let text = encode(&bare);
        assert!(!text.contains("note") && !text.contains("raised"), "{text}");
        assert_eq!(decode(&text, bare.version), Ok(bare));
    }
    let note = Json::from_text("{\"ask\":  \"ann\"}").ok();
    let noted = park(&running(), 1, vec![Wait { note, ..wait(None) }]).unwrap();
    let text = encode(&noted);
    assert!(text.contains(r#""on":{"signal":"approve"},"note":{"ask":  "ann"}"#), "{text}");
    assert_eq!(decode(&text, noted.version), Ok(noted));
}

#[test]
fn inv_i14_a_write_by_others_never_undoes_the_touch_of_a_parked_run() {
    let now = at(10);
    let parked = park(&running(), 1, vec![wait(None)]).unwrap();
    assert_eq!(parked.wake_at(&now), None, "nothing but a delivery wakes it");
    let watched = watch(&parked, "other").unwrap().unwrap();
    let moved = move_to(&parked, "r2", &now).unwrap();
    let stranded = strand(&parked, "nobody offers it").unwrap();
    for written in [watched, moved, stranded] {
        assert_eq!(written.wake_at(&now), Some(now.steady), "a delivery may have come meanwhile");
        assert!(!take(&written, &worker("b"), &now).unwrap().nudged);
    }
}
