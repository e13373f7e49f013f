//! What named people decide: resolve, supersede, void, import.

use semel_core::record::{By, Verdict};

use crate::{go_on, play};

#[test]
fn case_o12_a_persons_done_is_replayed_with_actor_and_reason_on_record() {
    let desk = play(
        "at_most_once",
        r#"
        begin           -> send 1
        unknown 1       -> in_doubt
        done "t-1"      -> done
        begin           -> replay "t-1"
        "#,
    );
    let effect = desk.effect().unwrap();
    let decision = &effect.decisions[0];
    assert_eq!((decision.actor.as_str(), decision.verdict), ("ada", Verdict::Done));
    assert_eq!(decision.reason, "seen at the provider");
    assert_eq!(decision.version, 2, "the version that was decided upon");
    assert_eq!(effect.attempts[0].end.as_ref().unwrap().by, By::Person);
}

#[test]
fn a_decision_names_its_version_actor_and_reason() {
    for decision in ["done", "failed", "retry"] {
        let mut desk = play("at_most_once", "begin\n unknown 1\n wait 2m");
        go_on(&mut desk, &format!("{decision} old_version -> ! version_changed"));
        go_on(&mut desk, &format!("{decision} nobody -> ! input_invalid"));
        go_on(&mut desk, &format!("{decision} silent -> ! input_invalid"));
        go_on(&mut desk, decision);
    }
    let mut done = play("at_most_once", "begin\n receipt 1 7");
    go_on(&mut done, "supersede old_version -> ! version_changed");
    go_on(&mut done, "supersede nobody -> ! input_invalid\n supersede -> planned");
    let mut planned = play("probe_first", "begin\n not_applied 1");
    go_on(&mut planned, "void old_version -> ! version_changed");
    go_on(&mut planned, "void silent -> ! input_invalid\n void -> void");
}

#[test]
fn a_persons_retry_waits_for_the_settle_window_of_every_unknown_send() {
    play(
        "harmless",
        "
        begin     -> send 1
        unknown 1
        wait 90s
        begin     -> send 2
        unknown 2
        wait 30s
        retry     -> ! too_early after 90s
        wait 89999ms
        retry     -> ! too_early after 1ms
        wait 1ms
        retry     -> planned
        ",
    );
}

#[test]
fn a_person_may_say_done_or_failed_at_any_time() {
    for decision in ["done", "failed"] {
        play("at_most_once", &format!("begin\n wait 30s\n {decision} -> {decision}"));
        play("at_most_once", &format!("begin\n not_applied 1\n {decision} -> {decision}"));
        play("at_most_once", &format!("begin\n {decision} -> ! in_progress after 30s"));
    }
}

#[test]
fn a_persons_retry_outweighs_an_earlier_final_refusal() {
    // The resend was refused for good, which says nothing about the first send; a person did.
    play(
        "native_key",
        "
        begin     -> send 1
        unknown 1 -> in_doubt
        begin     -> send 2
        refused 2 -> in_doubt
        wait 2m
        retry     -> planned
        begin     -> send 3
        refused 3 -> failed
        ",
    );
}

#[test]
fn a_settled_effect_has_nothing_to_decide() {
    for settled in ["receipt 1 7", "refused 1", "unknown 1\n failed"] {
        let mut desk = play("at_most_once", &format!("begin\n {settled}"));
        for decision in ["done", "failed", "retry", "void"] {
            go_on(&mut desk, &format!("{decision} -> ! already_settled"));
        }
    }
}

#[test]
fn supersede_gives_a_new_downstream_key_and_fences_that_go_on() {
    let mut desk = play("native_key", "begin\n receipt 1 7 -> done");
    let first = desk.permit.clone().unwrap();
    go_on(
        &mut desk,
        "
        supersede -> planned
        begin     -> send 1
        ",
    );
    let second = desk.permit.clone().unwrap();
    assert_ne!(second.downstream_key, first.downstream_key);
    assert!(second.fence > first.fence);
    assert_eq!(desk.rows[0].receipt().unwrap().text(), "7", "the old receipt is readable");
    assert_eq!(desk.rows[1].generation, 1);
}

#[test]
fn supersede_may_bring_another_input_and_a_declared_key_says_the_generation() {
    let mut desk = play("native_key", "begin key=crm-42\n receipt 1 7\n supersede");
    go_on(&mut desk, r#"begin key=crm-42 input={"n":2} -> send 1"#);
    let permit = desk.permit.unwrap();
    assert_eq!(permit.downstream_key, "crm-42:g1");
    assert_eq!(permit.input.text(), r#"{"n":2}"#);
}

#[test]
fn supersede_needs_an_end() {
    for story in ["begin", "begin\n unknown 1", "begin\n not_applied 1"] {
        let mut desk = play("at_most_once", story);
        go_on(&mut desk, "supersede -> ! not_settled");
    }
    let mut void = play("probe_first", "begin\n not_applied 1\n void");
    go_on(&mut void, "supersede -> ! not_settled");
}

#[test]
fn an_old_generations_late_receipt_closes_its_attempt_there() {
    let desk = play(
        "native_key",
        "
        begin          -> send 1
        wait 30s
        begin          -> send 2
        receipt 2 7    -> done
        supersede      -> planned
        begin          -> send 1
        receipt g0.1 8 -> done, evidence, alarm AppliedTwice
        state          -> pending
        receipt 1 9    -> done
        begin          -> replay 9
        ",
    );
    assert_eq!(desk.rows[0].receipt().unwrap().text(), "7");
    assert_eq!(desk.rows[1].alarms, []);
}

#[test]
fn case_o10_void_only_before_any_send_and_it_may_be_begun_again() {
    play(
        "probe_first",
        "
        begin         -> look 1
        void          -> ! already_sent
        not_applied 1 -> planned
        void          -> void
        void          -> ! already_settled
        retry         -> ! already_settled
        begin         -> send 2
        void          -> ! already_sent
        not_applied 2 -> planned
        void          -> ! already_sent
        ",
    );
    play("native_key", "begin\n receipt 1 7\n supersede\n void -> void\n begin -> send 1");
    play("native_key", "begin\n unknown 1\n void -> ! already_sent");
}

#[test]
fn an_imported_receipt_is_replayed() {
    let desk = play(
        "at_most_once",
        r#"
        import "t-1" -> done
        begin        -> replay "t-1"
        retry        -> ! already_settled
        "#,
    );
    let attempt = &desk.effect().unwrap().attempts[0];
    assert_eq!(attempt.end.as_ref().unwrap().by, By::Import);
}

#[test]
fn an_imported_row_that_was_only_started_is_in_doubt() {
    play(
        "at_most_once",
        "
        import pending -> in_doubt
        begin          -> ! in_doubt (person)
        begin as=native_key -> ! contract_changed
        retry          -> ! too_early after 2m
        begin as=probe -> ! in_doubt (settle window) after 2m
        wait 2m
        retry          -> planned
        begin          -> send 2
        ",
    );
    play("probe", "import pending\n wait 2m\n begin -> look 2\n not_applied 2\n begin -> send 3");
}

#[test]
fn decisions_are_bounded() {
    let mut desk = play("at_most_once", "begin\n not_applied 1");
    for _ in 0..100 {
        go_on(&mut desk, "retry -> planned");
    }
    go_on(&mut desk, "retry -> ! attempts_exhausted");
}
