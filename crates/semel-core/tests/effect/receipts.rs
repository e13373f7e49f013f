//! Receipts are evidence: the first stands for ever, late ones count, different ones alarm.

use semel_core::record::{AlarmKind, By};

use crate::{go_on, play, view};

#[test]
fn req_l4_the_whole_first_outcome_is_kept_byte_for_byte() {
    let receipt = r#"{"b":9007199254740993,"a":1.0}"#;
    let mut desk = play("at_most_once", &format!("begin\n receipt 1 {receipt} -> done"));
    go_on(&mut desk, &format!("begin -> replay {receipt}"));
    let attempt = &desk.effect().unwrap().attempts[0];
    assert_eq!(attempt.end.as_ref().unwrap().by, By::Worker);
    for outcome in ["null", "false", "true", "0", "\"\"", "[]"] {
        let story = format!("begin\n receipt 1 {outcome} -> done\n begin -> replay {outcome}");
        play("at_most_once", &story);
    }
}

#[test]
fn req_l5_a_repeat_gets_the_first_outcome_unaltered_even_after_a_second_one() {
    play(
        "native_key",
        r#"
        begin           -> send 1
        wait 30s
        begin           -> send 2
        receipt 2 "t-2" -> done
        begin           -> replay "t-2"
        receipt 1 "t-1" -> done, evidence, alarm AppliedTwice
        begin           -> replay "t-2"
        "#,
    );
}

#[test]
fn req_l22_the_first_safe_completion_is_the_outcome_for_good() {
    // In the same millisecond, and when the wall clock has been set back.
    for jump in ["wait 0ms", "wall back 1h", "wait 1d"] {
        let mut desk = play("native_key", "begin\n wait 30s\n begin -> send 2");
        go_on(&mut desk, "receipt 2 2 -> done");
        go_on(&mut desk, jump);
        go_on(&mut desk, "receipt 1 1 -> done, evidence, alarm AppliedTwice");
        go_on(&mut desk, "begin -> replay 2");
        assert_eq!(desk.effect().unwrap().applied().unwrap().number, 2);
    }
}

#[test]
fn req_l6_a_repeat_can_tell_finished_failed_and_half_way_apart() {
    play("at_most_once", "begin\n receipt 1 7\n begin -> replay 7");
    play("at_most_once", "begin\n refused 1\n begin -> failed: refused");
    play("at_most_once", "begin\n begin -> ! in_progress after 30s");
    play("at_most_once", "begin\n unknown 1\n begin -> ! in_doubt (person)");
}

#[test]
fn case_o3_a_final_refusal_is_answered_again_and_only_supersede_tries_anew() {
    play(
        "at_most_once",
        "
        begin     -> send 1
        refused 1 -> failed
        begin     -> failed: refused
        retry     -> ! already_settled
        supersede -> planned
        begin     -> send 1
        ",
    );
}

#[test]
fn case_o4_a_proof_that_nothing_was_sent_lets_the_same_intent_try_again() {
    for contract in ["at_most_once", "native_key", "conditional", "probe", "harmless"] {
        play(contract, "begin -> send 1\n not_applied 1 -> planned\n begin -> send 2");
    }
}

#[test]
fn inv_i8_a_proof_closes_only_its_own_attempt() {
    for contract in ["native_key", "conditional", "harmless"] {
        for proof in ["not_applied", "refused"] {
            let mut desk = play(contract, "begin\n unknown 1\n begin -> send 2");
            go_on(&mut desk, &format!("{proof} 2 -> in_doubt"));
            go_on(&mut desk, "void -> ! already_sent");
        }
    }
}

#[test]
fn inv_i5_a_stale_failure_does_not_touch_another_workers_receipt() {
    play(
        "native_key",
        "
        begin         -> send 1
        wait 30s
        begin         -> send 2
        receipt 2 7   -> done
        not_applied 1 -> ! stale_fence
        refused 1     -> ! stale_fence
        unknown 1     -> ! stale_fence
        renew 1       -> ! stale_fence
        begin         -> replay 7
        ",
    );
}

#[test]
fn inv_i5_a_lapsed_lease_makes_the_fence_stale_even_when_nobody_took_over() {
    for word in ["not_applied", "refused", "unknown"] {
        play("native_key", &format!("begin\n wait 30s\n {word} 1 -> ! stale_fence"));
        play("native_key", &format!("begin\n boot\n {word} 1 -> ! stale_fence"));
    }
}

#[test]
fn inv_i5_a_fence_nobody_got_changes_nothing() {
    for word in ["receipt nobody 7", "not_applied nobody", "unknown nobody", "renew nobody"] {
        play("native_key", &format!("begin\n {word} -> ! stale_fence"));
    }
}

#[test]
fn inv_i5_a_late_receipt_closes_its_own_attempt_and_the_effect_is_done() {
    let late = "receipt 1 7 -> done, evidence\n begin -> replay 7";
    play("at_most_once", &format!("begin\n wait 30s\n {late}"));
    play("at_most_once", &format!("begin\n unknown 1\n {late}"));
    play("at_most_once", &format!("begin\n boot\n wait 1d\n {late}"));
    play("at_most_once", &format!("begin\n unknown 1\n wait 2m\n retry -> planned\n {late}"));
    play("native_key", &format!("begin\n wait 30s\n begin -> send 2\n {late}"));
    play("native_key", &format!("begin\n wait 30s\n begin\n not_applied 2\n {late}"));
}

#[test]
fn an_attempt_that_was_overtaken_by_evidence_may_still_say_how_it_ended() {
    let overtaken = "begin\n wait 30s\n begin -> send 2\n receipt 1 7 -> done, evidence\n";
    play("native_key", &format!("{overtaken} not_applied 2 -> done\n begin -> replay 7"));
    play("native_key", &format!("{overtaken} unknown 2 -> done\n begin -> replay 7"));
    play("native_key", &format!("{overtaken} receipt 2 7 -> done\n begin -> replay 7"));
    play("native_key", &format!("{overtaken} receipt 2 8 -> done, alarm AppliedTwice"));
}

#[test]
fn inv_i6_after_a_persons_failed_a_receipt_is_kept_disputed_and_alarmed() {
    let desk = play(
        "at_most_once",
        "
        begin       -> send 1
        unknown 1   -> in_doubt
        failed      -> failed
        receipt 1 7 -> failed, evidence, alarm Disputed
        receipt 1 7 -> said before, evidence
        begin       -> failed: seen at the provider
        ",
    );
    let effect = desk.effect().unwrap();
    assert!(effect.is_disputed());
    assert_eq!(effect.alarms[0].receipt.text(), "7");
    assert_eq!(view(&desk)["disputed"], true);
}

#[test]
fn inv_i6_a_receipt_after_a_final_proof_is_disputed_and_alarmed_too() {
    play(
        "probe",
        "
        begin         -> send 1
        unknown 1
        wait 2m
        begin         -> look 2
        not_applied 2 -> planned
        begin         -> send 3
        refused 3     -> failed
        receipt 1 7   -> done, evidence, alarm Disputed
        begin         -> replay 7
        ",
    );
}

#[test]
fn inv_i6_after_a_persons_done_another_receipt_raises_applied_twice() {
    let desk = play("at_most_once", "begin -> send 1\n unknown 1\n done \"hand\" -> done");
    let mut same = desk.clone();
    go_on(&mut same, r#"receipt 1 "hand" -> said before, evidence"#);
    let mut other = desk;
    go_on(&mut other, r#"receipt 1 "t-1" -> done, evidence, alarm AppliedTwice"#);
    go_on(&mut other, r#"receipt 1 "t-1" -> said before, evidence"#);
    go_on(&mut other, r#"begin -> replay "hand""#);
    assert_eq!(other.effect().unwrap().alarms[0].kind, AlarmKind::AppliedTwice);
}

#[test]
fn a_look_with_more_than_one_hit_alarms_once_for_each() {
    let mut desk = play("probe", "begin\n unknown 1\n wait 2m\n begin -> look 2");
    let alarms = ", alarm AppliedTwice, alarm AppliedTwice";
    go_on(&mut desk, &format!("receipts 2 1 2 3 -> done{alarms}"));
    go_on(&mut desk, "receipts 2 1 2 3 -> said before, evidence");
    go_on(&mut desk, "begin -> replay 1");
    assert_eq!(desk.effect().unwrap().alarms.len(), 2);
}

#[test]
fn settling_again_with_the_same_word_changes_nothing() {
    for (word, state) in [
        ("receipt 1 7", "done"),
        ("not_applied 1", "planned"),
        ("refused 1", "failed"),
        ("unknown 1", "in_doubt"),
    ] {
        let mut desk = play("at_most_once", &format!("begin\n {word} -> {state}"));
        for time in ["wait 0ms", "wait 1d", "boot"] {
            go_on(&mut desk, &format!("{time}\n {word} -> said before"));
        }
    }
    play("at_most_once", "begin\n wait 30s\n receipt 1 7\n receipt 1 7 -> said before, evidence");
}

#[test]
fn another_word_on_a_settled_attempt_is_stale() {
    play("at_most_once", "begin\n not_applied 1\n refused 1 -> ! stale_fence");
    play("at_most_once", "begin\n not_applied 1\n unknown 1 -> ! stale_fence");
    play("at_most_once", "begin\n unknown 1\n not_applied 1 -> ! stale_fence");
    play("at_most_once", "begin\n receipt 1 7\n not_applied 1 -> ! stale_fence");
    play("at_most_once", "begin\n receipt 1 7\n receipt 1 8 -> done, evidence, alarm AppliedTwice");
}

#[test]
fn only_attempts_of_the_dead_session_are_doubted() {
    play(
        "native_key",
        "
        begin       -> send 1
        wait 30s
        begin       -> send 2
        died 1      -> nothing
        state       -> pending
        died 2      -> in_doubt
        died 2      -> nothing
        ",
    );
    play("native_key", "begin\n receipt 1 7\n died 1 -> nothing");
    play(
        "native_key",
        "begin\n lapse -> nothing\n wait 30s\n lapse -> in_doubt\n lapse -> nothing",
    );
}
