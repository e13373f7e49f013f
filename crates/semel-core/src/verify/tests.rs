use super::*;
use crate::code::Code;
use crate::entity::{Entity, Holder, Place};
use crate::gate::{Gate, Mode, Pass};
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
    Event::Taken { fence: 1, worker: "a".into(), release: "1".into(), hears: false }
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
    (run::pause(&running(), 1, pause).unwrap(), Event::Paused { id: None, fault, anew: None })
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

#[test]
fn inv_i14_a_child_wakes_whoever_watches_it_and_one_that_has_ended_wakes_nobody() {
    let run = parked(On::Child("c".into()), None);
    let sees = |child: Option<&Run>| {
        let found = check_wait(&run, &run.waits[0], &Waker::Child(child));
        found.map(|found| found.what)
    };
    let watched = Run { watchers: vec![run.id.clone()], ..running() };
    assert_eq!(sees(Some(&watched)), None);
    let silent = sees(Some(&running()));
    assert_eq!(silent.as_deref(), Some("it waits on run c, which will not wake it"));
    assert_eq!(sees(None).as_deref(), Some("it waits on run c, which is not there"));
    let over = Run { watchers: vec![run.id.clone()], ..ended(How::Done) };
    let late = sees(Some(&over));
    assert_eq!(late.as_deref(), Some("it waits on run c, which has ended and did not wake it"));
}

#[test]
fn inv_i14_an_entity_has_whoever_waits_for_it_in_its_queue() {
    let run = parked(On::Entity("ticket:42".into()), None);
    let place = |run: &str| Place { run: run.into(), id: "w#0".into() };
    let entity = |holder: Option<&str>, queue: &[&str]| Entity {
        fence: 1,
        holder: holder.map(|run| Holder { place: place(run), since: Wall(1) }),
        queue: queue.iter().map(|run| place(run)).collect(),
    };
    let sees = |entity: Option<Entity>| {
        check_wait(&run, &run.waits[0], &Waker::Entity(entity.as_ref())).map(|found| found.what)
    };
    let id = run.id.as_str();
    assert_eq!(sees(Some(entity(Some("a"), &[id]))), None);
    for (entity, why) in [
        (Some(entity(Some("a"), &["b"])), "whose queue does not have it"),
        (Some(entity(None, &[id])), "which nobody holds"),
        (Some(entity(Some(id), &[])), "which it was given, but that did not wake it"),
        (None, "which is not there"),
    ] {
        assert_eq!(sees(entity), Some(format!("it waits on entity ticket:42, {why}")));
    }
}

#[test]
fn inv_i14_whoever_waits_for_a_slot_stands_before_a_full_gate() {
    let pass = Pass { gate: "w".into(), limit: 2, mode: Mode::Queue };
    let run = Run { passes: vec![pass], ..parked(On::Slot("w".into()), None) };
    let sees = |inside: &[&str]| {
        let gate =
            Gate { inside: inside.iter().map(|id| (*id).to_owned()).collect(), ..Gate::default() };
        check_wait(&run, &run.waits[0], &Waker::Gate(Some(&gate))).map(|found| found.what)
    };
    assert_eq!(sees(&["a", "b"]), None);
    let room = Some("it waits on slot w, which has room, and nobody will let it in".to_owned());
    assert_eq!(sees(&["a"]), room);
    assert_eq!(check_wait(&run, &run.waits[0], &Waker::Gate(None)).map(|it| it.what), room);
    let given = "it waits on slot w, which it was given, but that did not wake it";
    assert_eq!(sees(&["a", &run.id]).as_deref(), Some(given));
    let stranger = Run { passes: Vec::new(), ..run.clone() };
    let gate = Gate { inside: vec!["a".into()], ..Gate::default() };
    assert!(check_wait(&stranger, &run.waits[0], &Waker::Gate(Some(&gate))).is_some());
}

#[test]
fn inv_i14_neither_gate_nor_entity_has_a_run_that_has_ended() {
    let (open, over) = (running(), ended(How::Failed));
    let find = |id: &str| match id {
        "open" => Some(&open),
        "over" => Some(&over),
        _ => None,
    };
    let told = |found: Vec<Violation>| found.into_iter().map(|one| one.what).collect::<Vec<_>>();
    let gate =
        Gate { inside: vec!["open".into(), "over".into(), "gone".into()], ..Gate::default() };
    assert_eq!(
        told(check_gate(&gate, find)),
        [
            "a slot is held by run over, which has ended: failed",
            "a slot is held by run gone, which is not there",
        ]
    );
    let place = |run: &str| Place { run: run.into(), id: "e#0".into() };
    let mut entity = Entity {
        fence: 1,
        holder: Some(Holder { place: place("over"), since: Wall(1) }),
        queue: vec![place("open"), place("gone")],
    };
    assert_eq!(
        told(check_entity(&entity, find)),
        [
            "it is held by run over, which has ended: failed",
            "its queue has run gone, which is not there",
        ]
    );
    entity = Entity { fence: 1, holder: None, queue: vec![place("open")] };
    assert_eq!(told(check_entity(&entity, find)), Vec::<String>::new());
}
