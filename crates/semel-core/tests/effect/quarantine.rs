//! After a restore: what the store forgot may have been sent, so nothing is sent without evidence.

use semel_core::effect::{
    EPOCH_SHIFT, Ground, Imported, Person, Resolution, State, import, missed, resolve, supersede,
};
use semel_core::json::Json;
use semel_core::key::{Action, Address, Key, Namespace};
use semel_core::time::{Moment, Steady, Wall};

use crate::{go_on, play};

/// A key that the restored store does not know, and one that it knows as planned.
const UNSENT: [&str; 2] = ["", "begin as=probe_first -> look 1\n not_applied 1 -> planned\n"];

#[test]
fn inv_i27_at_most_once_is_in_doubt_from_the_start_and_a_person_ends_it() {
    for before in UNSENT {
        let mut desk = play("at_most_once", &format!("{before} quarantine 1m"));
        go_on(
            &mut desk,
            "
            begin       -> written in_doubt
            begin       -> ! in_doubt (person)
            begin id=last -> ! in_doubt (person)
            retry       -> ! too_early after 3m
            wait 3m
            retry       -> planned
            begin
            not_applied last -> planned
            begin
            not_applied last -> planned
            ",
        );
    }
}

#[test]
fn inv_i27_probe_waits_for_what_may_be_under_way_then_looks_then_sends() {
    for before in UNSENT {
        let mut desk = play("probe", &format!("{before} quarantine 1m"));
        go_on(
            &mut desk,
            "
            begin            -> written in_doubt
            begin            -> ! in_doubt (settle window) after 3m
            wait 3m
            begin
            unknown last     -> in_doubt
            begin
            not_applied last -> planned
            begin
            not_applied last -> planned
            begin
            receipt last 7   -> done
            ",
        );
        let kinds: Vec<_> = desk.effect().unwrap().attempts.iter().map(|one| one.kind).collect();
        let tail = format!("{:?}", &kinds[kinds.len() - 5..]);
        assert_eq!(tail, "[Assumed, Look, Look, Send, Send]");
    }
}

#[test]
fn inv_i27_probe_that_finds_the_lost_effect_is_done() {
    play(
        "probe_first",
        "
        quarantine 1m
        begin       -> written in_doubt
        wait 3m
        begin       -> look 2
        receipt 2 7 -> done
        ",
    );
}

#[test]
fn inv_i27_native_key_counts_from_the_recovery_point() {
    for before in UNSENT {
        let mut desk = play("native_key", &format!("{before} quarantine 50m\n begin"));
        let effect = desk.effect().unwrap();
        assert_eq!(effect.first_sent.unwrap().0, desk.now.wall.0 - 50 * 60_000);
        // A proof of our own send says nothing about the lost one, so the count goes on.
        go_on(&mut desk, "not_applied last -> in_doubt\n begin\n not_applied last");
        go_on(&mut desk, "wait 479999ms\n begin\n unknown last\n wait 1ms");
        go_on(&mut desk, "begin -> ! in_doubt (horizon)");
        go_on(&mut desk, "wait 2m\n retry -> planned\n begin");
        let effect = desk.effect().unwrap();
        assert_eq!(effect.first_sent, Some(desk.now.wall), "a person vouched for the rest");
    }
}

#[test]
fn inv_i27_native_key_past_the_recovery_points_horizon_is_in_doubt_and_stays_so() {
    for before in UNSENT {
        let mut desk = play("native_key", &format!("{before} quarantine 58m"));
        go_on(
            &mut desk,
            "
            begin -> written in_doubt
            begin -> ! in_doubt (horizon)
            wait 3m
            retry -> planned
            begin
            state -> pending
            ",
        );
    }
    let behind = "quarantine 1m\n clock behind\n begin -> written in_doubt";
    play("native_key", &format!("{behind}\n begin -> ! in_doubt (horizon)"));
}

#[test]
fn inv_i27_conditional_and_harmless_send_but_a_refusal_is_no_proof_for_the_lost_send() {
    for contract in ["conditional", "harmless"] {
        play(contract, "quarantine 1m\n begin -> send 2\n refused 2 -> in_doubt");
        play(contract, "quarantine 1m\n begin -> send 2\n receipt 2 7 -> done");
    }
    play("conditional", "quarantine 1m\n begin\n refused 2\n begin look -> look 3");
}

#[test]
fn inv_i27_a_remembered_doubt_waits_for_what_was_lost_after_it() {
    play(
        "probe",
        "
        begin         -> send 1
        unknown 1     -> in_doubt
        wait 2m
        quarantine 1m
        begin         -> written in_doubt
        begin         -> ! in_doubt (settle window) after 3m
        wait 3m
        begin         -> look 3
        not_applied 3 -> planned
        begin         -> send 4
        ",
    );
}

#[test]
fn a_transaction_went_back_together_with_its_rows() {
    play("transaction", "quarantine 1m\n transact 7 -> done");
}

#[test]
fn a_quarantine_leaves_settled_keys_alone_and_ends_when_it_is_closed() {
    play("at_most_once", "begin\n receipt 1 7\n quarantine 1m\n begin -> replay 7");
    play("at_most_once", "begin\n refused 1\n quarantine 1m\n begin -> failed: refused");
    play("at_most_once", "quarantine 1m\n quarantine\n begin -> send 1");
    let void = "begin as=probe_first\n not_applied 1\n void\n quarantine 1m\n";
    let doubt = "begin -> written in_doubt\n wait 3m\n retry -> planned";
    play("at_most_once", &format!("{void} {doubt}"));
}

#[test]
fn a_second_restore_is_doubted_anew() {
    play(
        "at_most_once",
        "
        quarantine 1m
        begin         -> written in_doubt
        wait 3m
        retry         -> planned
        begin         -> send 2
        not_applied 2 -> planned
        begin         -> send 3
        not_applied 3 -> planned
        quarantine 1m
        begin         -> written in_doubt
        ",
    );
}

#[test]
fn another_input_or_contract_is_refused_in_a_quarantine_too() {
    let known = "begin\n not_applied 1\n quarantine 1m\n";
    play("at_most_once", &format!("{known} begin input={{\"n\":2}} -> ! input_changed"));
    let doubted = "begin\n unknown 1\n quarantine 1m\n";
    play("at_most_once", &format!("{doubted} begin as=harmless -> ! contract_changed"));
}

/// What a process remembers and the store has forgotten may have been sent.
#[test]
fn inv_i27_what_only_a_process_remembers_is_in_doubt() {
    let now = Moment {
        wall: Wall(1_000_000),
        steady: Steady { boot: 2, ms: 5_000 },
        wall_is_behind: false,
    };
    let ground = Ground { now, epoch: 3, quarantine: None };
    let address = Address {
        namespace: Namespace::default(),
        action: Action::new("mail").unwrap(),
        key: Key::from_text("42").unwrap(),
    };
    let person = Person { actor: "ada".into(), reason: "it was sent".into(), version: 0 };
    let absent = missed(None, &address, &person, &ground).unwrap().expect("it is written");
    assert_eq!((absent.state(&now), absent.version), (State::InDoubt, 1));
    assert!(absent.last_fence() > 3 << EPOCH_SHIFT, "above all fences that were lost");
    assert_eq!(absent.decisions.len(), 1, "who said so is on record");
    assert_eq!(missed(Some(&absent), &address, &person, &ground), Ok(None), "once is enough");

    let receipt = Some(Json::of(&7).unwrap());
    let row = Imported { address: address.clone(), workflow: None, created: Wall(1), receipt };
    let done = import(&row, &person, &now).unwrap();
    assert_eq!(missed(Some(&done), &address, &person, &ground), Ok(None), "it has its receipt");
    let (_, planned) = supersede(&done, &Person { version: 1, ..person.clone() }, &now).unwrap();
    assert_eq!(planned.state(&now), State::Planned);
    let doubted = missed(Some(&planned), &address, &person, &ground).unwrap();
    assert_eq!(doubted.map(|effect| effect.state(&now)), Some(State::InDoubt));
    let later = Ground { epoch: 2, ..ground };
    let retried = resolve(
        &absent,
        &Person { version: 1, ..person.clone() },
        &Resolution::Retry,
        &Moment { steady: Steady { boot: 2, ms: 500_000 }, ..now },
    );
    let retried = retried.expect("the settle window has passed");
    assert_eq!(missed(Some(&retried), &address, &person, &later), Ok(None), "a person has spoken");
}
