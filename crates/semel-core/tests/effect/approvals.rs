//! Approvals: a person decides on one exact payload before it is sent.

use semel_core::effect::State;
use semel_core::record::Answer;

use crate::{go_on, play, view};

#[test]
fn req_a3_nothing_is_sent_before_a_person_said_yes_whatever_is_retried() {
    let desk = play(
        "native_key",
        r#"
        begin ask   -> asked
        begin ask   -> ! held
        begin       -> ! held
        lapse       -> nothing
        wait 300d
        boot
        begin       -> ! held
        approve     -> planned
        begin       -> send 1
        receipt 1 7 -> done
        begin ask   -> replay 7
        begin       -> replay 7
        "#,
    );
    assert_eq!(desk.effect().unwrap().attempts.len(), 1);
}

#[test]
fn req_a3_a_denial_is_the_answer_for_every_caller() {
    for (word, code) in [("deny", "approval_denied"), ("return", "approval_returned")] {
        play(
            "native_key",
            &format!(
                "
                begin ask     -> asked
                {word} silent -> ! input_invalid
                {word}        -> failed
                begin ask     -> ! {code}
                begin         -> ! {code}
                begin look    -> ! {code}
                begin as=harmless -> ! {code}
                intend        -> same
                retry         -> ! already_settled
                void          -> ! already_settled
                "
            ),
        );
    }
}

#[test]
fn req_a1_after_any_delay_the_approved_effect_has_its_first_key() {
    let mut desk = play("native_key", "begin ask -> asked");
    let key = desk.effect().unwrap().plan.as_ref().unwrap().downstream_key.clone();
    go_on(&mut desk, "wait 400d\n boot\n approve -> planned\n begin -> send 1");
    assert_eq!(desk.permit.unwrap().downstream_key, key);
}

#[test]
fn req_a2_inv_i16_the_first_answer_stands_and_is_told_to_whoever_comes_later() {
    let answers = [
        ("approve", "planned", "approved"),
        ("deny", "failed", "denied"),
        ("return", "failed", "returned"),
    ];
    for (word, state, name) in answers {
        let mut desk = play("at_most_once", &format!("begin ask\n {word} by=ann -> {state}"));
        let first = desk.effect().unwrap().clone();
        for later in ["approve", "deny", "return"] {
            go_on(&mut desk, &format!("{later} by=bob -> {state}, was {name}"));
            go_on(&mut desk, &format!("{later} by=bob old_digest -> {state}, was {name}"));
        }
        assert_eq!(desk.effect(), Some(&first), "nothing was written");
        let given = first.approval.as_ref().unwrap().judgement.as_ref().unwrap();
        assert_eq!((given.actor.as_str(), given.note.as_str()), ("ann", "as agreed"));
    }
    play("at_most_once", "begin ask\n approve\n begin -> send 1\n deny -> pending, was approved");
}

#[test]
fn inv_i16_silence_is_an_answer_and_is_given_once() {
    let desk = play(
        "native_key",
        "
        begin expires=1h    -> asked
        wait 3599999ms
        begin               -> ! held after 1ms
        wait 1ms
        state               -> failed
        approve             -> failed, was expired
        begin               -> ! approval_expired
        approve             -> failed, was expired
        lapse               -> nothing
        ",
    );
    let effect = desk.effect().unwrap();
    assert_eq!(effect.version, 2, "asked, and not answered");
    assert_eq!(effect.settled, Some(desk.now.wall));
}

#[test]
fn inv_i16_silence_that_was_told_stands_when_the_clock_goes_back() {
    for teller in ["begin -> asked", "approve -> failed, was expired", "lapse -> failed"] {
        // After a reboot only the wall clock is left to tell.
        let story = format!("begin expires=1h\n boot\n wall ahead 2h\n {teller}");
        let mut desk = play("native_key", &story);
        go_on(&mut desk, "wall back 2h\n begin -> ! approval_expired");
        go_on(&mut desk, "approve -> failed, was expired");
    }
}

#[test]
fn a_question_expires_by_the_steady_clock_and_after_a_reboot_by_the_wall() {
    play(
        "native_key",
        "
        begin expires=1h -> asked
        wall ahead 5h
        begin            -> ! held after 1h
        wall back 9h
        wait 1h
        state            -> failed
        ",
    );
    play(
        "native_key",
        "
        begin expires=1h -> asked
        wait 10m
        boot
        begin            -> ! held after 50m
        wait 50m
        lapse            -> failed
        ",
    );
    // The job reads the wall clock once; what that does later is no matter.
    play(
        "native_key",
        "
        begin expires=1h -> asked
        boot
        clock behind
        lapse            -> nothing
        clock right
        lapse            -> planned
        lapse            -> nothing
        wall ahead 5h
        begin            -> ! held after 1h
        wall back 9h
        wait 1h
        begin            -> asked
        begin            -> ! approval_expired
        ",
    );
}

#[test]
fn inv_i17_the_answer_is_about_what_the_person_saw() {
    let mut desk = play("native_key", "begin ask\n approve old_digest -> ! version_changed");
    let shown = desk.effect().unwrap().approval.clone().unwrap().digest;
    // The same call under another promise is another question.
    go_on(&mut desk, "begin as=harmless -> asked");
    assert_ne!(desk.effect().unwrap().approval.as_ref().unwrap().digest, shown);
    go_on(&mut desk, "approve -> planned\n begin -> asked\n begin -> ! held");
    go_on(&mut desk, "approve\n begin -> send 1");
    assert_eq!(desk.effect().unwrap().approval.as_ref().unwrap().digest, shown);
}

#[test]
fn inv_i17_the_input_that_was_approved_is_the_one_that_is_sent() {
    let mut desk = play("native_key", r#"begin ask counts=n input={"n":1,"text":"a"}"#);
    go_on(&mut desk, r#"begin input={"n":2,"text":"a"} -> ! input_changed"#);
    go_on(&mut desk, "approve");
    // The words differ, and the author says that they do not count: the approved ones are sent.
    go_on(&mut desk, r#"begin counts=n input={"n":1,"text":"b"} -> send 1"#);
    assert_eq!(desk.permit.unwrap().input.text(), r#"{"n":1,"text":"a"}"#);
}

#[test]
fn a_retry_of_what_was_approved_needs_no_second_yes() {
    play(
        "native_key",
        "
        begin ask     -> asked
        approve       -> planned
        begin         -> send 1
        not_applied 1 -> planned
        begin ask     -> send 2
        unknown 2     -> in_doubt
        begin ask     -> send 3
        receipt 3 7   -> done
        ",
    );
}

#[test]
fn what_was_sent_without_a_question_is_not_sent_again_by_who_asks() {
    play("native_key", "begin\n not_applied 1\n begin ask -> asked\n begin -> ! held");
    play("native_key", "begin\n unknown 1\n begin ask -> ! in_doubt (person)\n begin -> send 2");
}

#[test]
fn a_question_about_what_may_have_happened_waits_until_that_is_known() {
    let doubted = "begin ask\n quarantine 5m\n missed -> in_doubt";
    play("native_key", &format!("{doubted}\n begin -> ! in_doubt (person)"));
    play("harmless", &format!("{doubted}\n begin -> ! in_doubt (person)"));
    play("native_key", &format!("{doubted}\n approve -> ! not_held"));
    play("native_key", &format!("{doubted}\n wait 5m\n retry -> planned\n begin -> ! held"));
    play("native_key", &format!("{doubted}\n done \"7\" -> done\n approve -> ! not_held"));
    let late = "begin expires=1h\n quarantine 5m\n missed\n wait 2h";
    play("native_key", &format!("{late}\n state -> in_doubt\n retry -> failed"));
}

#[test]
fn in_a_quarantine_what_was_forgotten_comes_before_the_question() {
    // Asked before or not: it may have been approved and sent, and the store does not know.
    for asked in ["", "begin ask\n"] {
        let story = format!(
            "{asked} quarantine 5m\n begin ask -> written in_doubt\n approve -> ! not_held"
        );
        for contract in ["native_key", "at_most_once", "harmless"] {
            let mut desk = play(contract, &story);
            go_on(&mut desk, "begin ask -> ! in_doubt (person)\n wait 5m\n retry -> planned");
            go_on(&mut desk, "begin -> ! held\n approve\n begin -> send 2");
        }
    }
    play("probe", "quarantine 5m\n begin ask -> written in_doubt\n wait 5m\n begin -> look 2");
    // The yes is on record: the contract decides about the rest.
    let approved = "begin ask\n approve\n quarantine 5m\n begin";
    play("native_key", &format!("{approved} -> send 2"));
    play("at_most_once", &format!("{approved} -> written in_doubt"));
}

#[test]
fn four_eyes_are_two_people_however_the_name_is_spelt() {
    let mut desk = play("native_key", "begin four_eyes=Ada_Byron -> asked");
    for name in ["Ada_Byron", "ada_byron", "_ADA__BYRON_", "ada\u{200b}byron", "adabyron", "ÁDA"] {
        let want = if name == "ÁDA" { "planned" } else { "! four_eyes" };
        for word in ["deny", "return", "approve"] {
            if want == "! four_eyes" || word == "approve" {
                go_on(&mut desk, &format!("{word} by={name} -> {want}"));
            }
        }
    }
    for nobody in ["four_eyes=", "four_eyes=_", "four_eyes=\u{200b}"] {
        play("native_key", &format!("begin {nobody} -> ! terms_invalid"));
    }
    play("native_key", "begin ask\n approve by=nobody -> ! input_invalid");
    // Asked anew by somebody who wants less, it needs no less.
    play(
        "native_key",
        "
        begin four_eyes=ada   -> asked
        begin ask as=harmless -> asked
        approve by=ada        -> ! four_eyes
        approve by=bob        -> planned
        ",
    );
}

#[test]
fn cancelled_or_done_again_a_person_is_asked_again() {
    for answer in ["", "approve\n"] {
        play(
            "native_key",
            &format!(
                "
                begin expires=1h -> asked
                {answer} void    -> void
                approve          -> ! not_held
                wait 2h
                state            -> void
                begin            -> asked
                begin            -> ! held after 1h
                approve          -> planned
                begin            -> send 1
                "
            ),
        );
    }
    play(
        "native_key",
        "begin ask\n deny\n supersede -> planned\n approve -> ! not_held\n begin -> asked",
    );
    play("native_key", "begin ask\n approve\n begin\n receipt 1 7\n supersede\n begin -> asked");
    play("native_key", "begin ask\n void\n intend -> planned\n begin -> ! held");
    play("native_key", "begin ask\n deny\n supersede\n intend -> planned\n begin -> ! held");
    play(
        "native_key",
        "begin ask\n deny\n wait 30d\n sweep -> expired\n supersede\n begin -> asked",
    );
}

#[test]
fn an_intent_with_a_question_is_held_before_anybody_can_send_it() {
    let mut desk = play("native_key", "intend ask -> planned");
    assert_eq!(desk.effect().unwrap().due(&desk.now), None, "nobody attends to it");
    go_on(&mut desk, "begin -> ! held\n approve");
    assert_eq!(desk.effect().unwrap().due(&desk.now), Some(desk.now.steady));
    go_on(&mut desk, "begin -> send 1");
}

#[test]
fn a_transaction_is_held_like_anything_else() {
    play("transaction", "begin ask\n transact 7 -> ! held\n approve\n transact 7 -> done");
    play("transaction", "begin expires=1h\n wait 1h\n transact 7 -> ! approval_expired");
    play("native_key", "begin ask\n approve\n transact_as 7 -> ! held");
}

#[test]
fn a_mere_question_has_its_answer_for_a_receipt() {
    let mut desk =
        play("at_most_once", "begin only -> asked\n begin only -> ! held\n approve -> done");
    let receipt = desk.effect().unwrap().receipt().unwrap().text().to_owned();
    assert_eq!(receipt, r#"{"at":"2023-11-14T22:13:20Z","by":"eve","note":"as agreed"}"#);
    go_on(&mut desk, &format!("begin -> replay {receipt}\n deny -> done, was approved"));
    play("at_most_once", "begin only\n deny\n begin only -> ! approval_denied");
    // What is sent is no mere question, and the other way round.
    play("native_key", "begin ask\n begin only -> ! input_changed");
    play("native_key", "begin only\n begin ask -> ! input_changed");
    play("native_key", "begin\n not_applied 1\n begin only -> ! input_changed");
}

#[test]
fn what_nobody_asked_has_no_answer() {
    play("native_key", "begin\n approve -> ! not_held\n deny -> ! not_held");
    play("native_key", "begin\n receipt 1 7\n approve -> ! not_held");
    play(
        "native_key",
        "begin ask\n failed -> failed\n approve -> ! not_held\n \
         begin -> failed: seen at the provider",
    );
    play("native_key", "begin ask\n done \"7\" -> done\n approve -> ! not_held");
    play("native_key", "begin expires=0s -> ! terms_invalid");
}

#[test]
fn everybody_is_shown_the_question_and_its_answer() {
    let mut desk = play("native_key", "begin expires=1h four_eyes=ada");
    let shown = view(&desk)["approval"].clone();
    assert_eq!(shown["held"], true);
    assert_eq!((&shown["requester"], &shown["four_eyes"]), (&"ada".into(), &true.into()));
    assert_eq!(shown["expires_at"], "2023-11-14T23:13:20Z");
    let effect = desk.effect().unwrap();
    assert_eq!(shown["digest"], effect.approval.as_ref().unwrap().digest);
    assert_eq!(effect.due(&desk.now).unwrap().ms, desk.now.steady.ms + 3_600_000);
    go_on(&mut desk, "wait 1h");
    let view = view(&desk);
    assert_eq!(
        (&view["state"], &view["failure"]),
        (&"failed".into(), &"nobody decided in time".into())
    );
    assert_eq!(view["approval"]["answer"], "expired");
    let effect = desk.effect().unwrap();
    assert_eq!(effect.judgement(&desk.now).unwrap().answer, Answer::Expired);
    assert_eq!(effect.state(&desk.now), State::Failed);
}
