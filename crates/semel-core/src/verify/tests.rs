use super::*;
use crate::code::Code;
use crate::journal::{At, Fault, Value};
use crate::json::Json;
use crate::key::{Action, Address, Key, Namespace};
use crate::run::{self, Pause, Start, Take};
use crate::time::{Steady, Wall};

fn now() -> Moment {
    Moment { wall: Wall(5), steady: Steady { boot: 1, ms: 5 }, wall_is_behind: false }
}

fn running() -> Run {
    let start = Start {
        namespace: Namespace::default(),
        workflow: Action::new("triage").unwrap(),
        key: Key::from_text("e-1").unwrap(),
        input: Json::null(),
        number: 1,
        window_ms: 1_000,
        deadline_ms: None,
        release: None,
        strict: false,
        passes: Vec::new(),
        parent: None,
    };
    let take = Take { worker: "a".into(), session: None, lease_ms: 100, epoch: 0 };
    run::take(&run::start(&start, &now()), &take, &now()).unwrap()
}

fn taken() -> Event {
    Event::Taken { fence: 1, worker: "a".into(), release: "1".into() }
}

fn finished() -> Event {
    Event::Finished { end: Ending::Done(Value::Json(Json::null())) }
}

fn ended(how: How) -> Run {
    run::finish(&running(), 1, how, &now()).unwrap()
}

fn paused() -> (Run, Event) {
    let fault = Fault::new(Code::Diverged, "no");
    let (code, detail) = (fault.code.clone(), fault.detail.clone());
    let pause = Pause { id: None, code, detail, raised: None, at: Wall(5) };
    (run::pause(&running(), 1, pause).unwrap(), Event::Paused { id: None, fault })
}

fn parked(on: On, due: Option<At>) -> Run {
    run::park(&running(), 1, vec![Wait { id: "w#0".into(), on, due, note: None }]).unwrap()
}

fn check_one(run: &Run, last: Option<&Event>, want: &[&str]) {
    let found = check_run(run, last, &now());
    let found: Vec<_> = found.iter().map(|one| one.invariant).collect();
    assert_eq!(found, want, "{run:?} {last:?}");
}

#[test]
fn inv_i11_a_journal_ends_in_finished_exactly_when_its_run_has_ended() {
    check_one(&running(), Some(&taken()), &[]);
    check_one(&ended(How::Done), Some(&finished()), &[]);
    check_one(&running(), Some(&finished()), &["I11"]);
    check_one(&ended(How::Done), Some(&taken()), &["I11"]);
    check_one(&ended(How::Failed), Some(&finished()), &["I11"]);
    check_one(&ended(How::Done), None, &["I11", "I11"]);
    let expired = Run { expired: Some(Wall(9)), ..ended(How::Done) };
    check_one(&expired, None, &[]);
    check_one(&expired, Some(&finished()), &["I11"]);
    let (run, event) = paused();
    check_one(&run, Some(&event), &[]);
    check_one(&run, Some(&taken()), &["I11"]);
}

#[test]
fn inv_i13_a_wait_for_a_time_has_one() {
    let due = Some(At::from(&now()).plus(9));
    for on in [On::Timer, On::Retry] {
        check_one(&parked(on.clone(), due), Some(&taken()), &[]);
        check_one(&parked(on, None), Some(&taken()), &["I13"]);
    }
    check_one(&parked(On::Signal("go".into()), None), Some(&taken()), &[]);
}

#[test]
fn inv_i15_a_run_is_held_under_its_highest_fence() {
    check_one(&Run { fence: 2, ..running() }, Some(&taken()), &["I15"]);
}

#[test]
fn inv_i14_what_a_run_waits_for_exists_and_will_wake_it() {
    let (action, key) = (Action::new("mail").unwrap(), Key::from_text("7").unwrap());
    let on = On::Effect { action: "mail".into(), key: "7".into() };
    let address = Address { namespace: Namespace::default(), action, key };
    let silent = Effect::new(&address, &now());
    let run = parked(on, None);
    let noted = Effect { waiters: vec![run.id.clone()], ..silent.clone() };
    let sees = |run: &Run, waker| check_wait(run, &run.waits[0], &waker).is_some();
    assert!(!sees(&run, Waker::Effect(Some(&noted))));
    assert!(sees(&run, Waker::Effect(Some(&silent))));
    assert!(sees(&run, Waker::Effect(None)));
    let timed = parked(run.waits[0].on.clone(), Some(At::from(&now())));
    assert!(!sees(&timed, Waker::Effect(Some(&silent))), "it looks for itself");
    let waiting = parked(On::Signal("go".into()), None);
    assert!(!sees(&waiting, Waker::Signals(0)));
    assert!(sees(&waiting, Waker::Signals(1)));
}
