//! Who may send: leases, fences, duplicates, other inputs, lost answers, caps.

use semel_core::record;
use semel_core::time::Steady;

use crate::{go_on, play};

#[test]
fn req_l3_the_open_attempt_is_in_the_row_before_the_permit_is_used() {
    let desk = play("at_most_once", "begin -> send 1");
    let stored = record::decode(&record::encode(desk.effect().unwrap())).unwrap();
    let permit = desk.permit.unwrap();
    assert_eq!(stored.attempts[0].fence, permit.fence);
    assert!(stored.attempts[0].is_live(&desk.now));
    assert_eq!(stored.plan.unwrap().input, permit.input);
}

#[test]
fn req_l9_pending_before_the_call_and_done_after_its_success() {
    play(
        "at_most_once",
        r#"
        state           -> absent
        begin           -> send 1
        state           -> pending
        receipt 1 "t-1" -> done
        "#,
    );
}

#[test]
fn req_l10_a_repeat_that_meets_done_sends_nothing_and_gets_the_receipt() {
    for contract in ["at_most_once", "native_key", "conditional", "probe_first", "harmless"] {
        let mut desk = play(contract, "begin");
        go_on(&mut desk, r#"receipt last {"id":"t-1"}"#);
        go_on(&mut desk, r#"begin -> replay {"id":"t-1"}"#);
        go_on(&mut desk, r#"begin look -> replay {"id":"t-1"}"#);
    }
}

#[test]
fn req_c2_without_the_lease_nothing_is_sent_and_the_answer_says_when_to_ask_again() {
    play(
        "at_most_once",
        "
        begin    -> send 1
        begin    -> ! in_progress after 30s
        wait 29s
        begin    -> ! in_progress after 1s
        ",
    );
}

#[test]
fn req_c3_a_dead_holders_lease_ends_another_goes_on_and_late_writes_bounce() {
    play(
        "native_key",
        "
        begin         -> send 1
        wait 30s
        state         -> in_doubt
        begin         -> send 2
        renew 1       -> ! stale_fence
        not_applied 1 -> ! stale_fence
        refused 1     -> ! stale_fence
        unknown 1     -> ! stale_fence
        state         -> pending
        ",
    );
}

#[test]
fn inv_i4_one_live_attempt_and_fences_that_grow_over_attempts_and_epochs() {
    let mut desk = play("harmless", "begin -> send 1");
    for _ in 0..5 {
        go_on(&mut desk, "begin -> ! in_progress after 30s");
        go_on(&mut desk, "wait 30s");
        go_on(&mut desk, "begin");
    }
    go_on(&mut desk, "quarantine 1s\n wait 30s\n begin");
    let fences: Vec<u64> = desk.effect().unwrap().attempts.iter().map(|one| one.fence).collect();
    assert!(fences.is_sorted_by(|one, next| one < next), "{fences:?}");
    assert_eq!(fences.last().unwrap() >> 32, 1, "the epoch is the high part");
}

#[test]
fn inv_i2_another_input_changes_nothing_in_every_state() {
    let other = r#"begin input={"n":2} -> ! input_changed"#;
    for story in [
        "begin",
        "begin\n not_applied 1",
        "begin\n refused 1",
        "begin\n receipt 1 \"t-1\"",
        "begin\n unknown 1",
        "begin\n unknown 1\n failed",
    ] {
        let mut desk = play("at_most_once", story);
        go_on(&mut desk, other);
        go_on(&mut desk, r#"begin input={"n":2} id=last -> ! input_changed"#);
    }
    let mut void = play("probe_first", "begin -> look 1\n not_applied 1\n void -> void");
    go_on(&mut void, other);
}

#[test]
fn req_k1_retry_restart_and_redelivery_meet_the_same_row_and_the_same_downstream_key() {
    let mut desk = play("native_key", "begin -> send 1");
    let first = desk.permit.clone().unwrap().downstream_key;
    for story in ["wait 30s", "unknown last", "boot", "died last"] {
        go_on(&mut desk, story);
        if story == "unknown last" || story == "died last" {
            go_on(&mut desk, "state -> in_doubt");
        }
        go_on(&mut desk, "begin");
        assert_eq!(desk.permit.clone().unwrap().downstream_key, first, "after {story}");
        assert_eq!(desk.rows.len(), 1);
    }
}

#[test]
fn req_k5_the_key_and_its_attempts_outlast_a_restart_of_everything() {
    let mut desk = play("native_key", "begin key=crm-42 -> send 1\n unknown 1");
    let stored = record::encode(desk.effect().unwrap());
    desk.rows = vec![record::decode(&stored).unwrap()];
    go_on(&mut desk, "boot\n begin key=another -> send 2");
    assert_eq!(desk.permit.unwrap().downstream_key, "crm-42");
}

#[test]
fn inv_i18_a_resend_carries_the_first_words_under_the_first_key() {
    let mut desk = play("native_key", r#"begin input={"id":1,"text":"hello"} counts=id -> send 1"#);
    let first = desk.permit.clone().unwrap();
    go_on(&mut desk, "unknown 1");
    go_on(&mut desk, r#"begin input={"id":2,"text":"hello"} -> ! input_changed"#);
    go_on(&mut desk, r#"begin input={"id":1,"text":"goodbye"} key=other -> send 2"#);
    let second = desk.permit.clone().unwrap();
    assert_eq!(second.downstream_key, first.downstream_key);
    assert_eq!(second.input.text(), r#"{"id":1,"text":"hello"}"#);
}

#[test]
fn a_lost_answer_is_resumed_by_its_own_id_while_nothing_can_have_been_sent() {
    let mut desk = play("at_most_once", "begin -> send 1");
    let first = desk.permit.clone().unwrap();
    go_on(&mut desk, "wait 10s\n begin id=last -> resumed send 1");
    let resumed = desk.permit.clone().unwrap();
    assert!(resumed.resumed && !first.resumed);
    assert_eq!((resumed.fence, resumed.valid_until), (first.fence, first.valid_until));
    go_on(&mut desk, "wait 1ms\n begin id=last -> ! attempt_spent");
}

#[test]
fn an_id_is_spent_by_renewal_by_settling_and_by_the_end_of_its_permit() {
    let spent = "begin id=last -> ! attempt_spent";
    play("at_most_once", &format!("begin\n renew 1\n {spent}"));
    play("at_most_once", &format!("begin\n not_applied 1\n {spent}"));
    play("at_most_once", &format!("begin\n unknown 1\n {spent}"));
    play("at_most_once", &format!("begin\n died 1\n {spent}"));
    play("at_most_once", &format!("begin\n boot\n {spent}"));
    play("at_most_once", "begin\n receipt 1 7\n begin id=last -> replay 7");
    play("at_most_once", "begin\n refused 1\n begin id=last -> failed: refused");
    // The margin is a quarter of a short lease: 3 s of 4 s.
    let living = "begin\n wait 2999ms\n begin id=last -> resumed send 1";
    play("at_most_once lease=4s", living);
    play("at_most_once lease=4s", &format!("begin\n wait 3s\n {spent}"));
    play("native_key", "begin\n wait 30s\n begin -> send 2\n begin id=a1 -> ! attempt_spent");
}

#[test]
fn the_permit_ends_a_margin_before_the_lease_and_never_after_the_deadline() {
    let left = |terms: &str| {
        let desk = play(terms, "begin");
        let permit = desk.permit.clone().unwrap();
        let holder = desk.effect().unwrap().holder(&desk.now).unwrap();
        assert_eq!(permit.lease_until, holder.lease_until);
        desk.now.until(permit.valid_until)
    };
    assert_eq!(left("at_most_once"), 28_000);
    assert_eq!(left("at_most_once lease=4s"), 3_000);
    assert_eq!(left("at_most_once lease=30s deadline=5s"), 3_750);
    assert_eq!(left("at_most_once lease=30s deadline=2s"), 1_500);
}

#[test]
fn case_x9_a_worker_that_slept_through_its_lease_gets_no_further_effect() {
    let mut desk = play("at_most_once", "begin -> send 1");
    let permit = desk.permit.clone().unwrap();
    go_on(&mut desk, "wait 30s");
    assert!(desk.now.reached(permit.valid_until));
    go_on(
        &mut desk,
        "
        renew 1       -> ! stale_fence
        begin id=last -> ! attempt_spent
        begin         -> ! in_doubt (person)
        ",
    );
}

#[test]
fn case_x10_a_renewed_lease_is_not_taken_over_until_the_hard_deadline() {
    let mut desk = play("native_key lease=1s deadline=10s", "begin -> send 1");
    for _ in 0..18 {
        go_on(&mut desk, "wait 500ms\n renew 1 -> pending for 1s");
        go_on(&mut desk, "begin -> ! in_progress after 1s");
    }
}

#[test]
fn renewal_stops_at_the_deadline_unless_the_call_cannot_be_aborted() {
    play(
        "native_key",
        "
        begin           -> send 1
        wait 29s
        renew 1         -> pending for 30s
        wait 29s
        renew 1         -> pending for 2s
        wait 2s
        state           -> in_doubt
        renew 1         -> ! stale_fence
        ",
    );
    let desk = play(
        "native_key",
        "
        begin           -> send 1
        wait 29s
        renew_endless 1 -> pending for 30s
        wait 29s
        renew_endless 1 -> pending for 30s
        wait 10s
        renew 1         -> ! deadline_passed
        renew_endless 1 -> pending for 30s
        begin           -> ! in_progress after 30s
        ",
    );
    assert!(desk.effect().unwrap().attempts[0].is_overdue(&desk.now));
}

#[test]
fn case_x11_the_steady_clock_alone_judges_leases() {
    play(
        "native_key",
        "
        begin           -> send 1
        wall ahead 1h
        begin           -> ! in_progress after 30s
        wall back 2h
        begin           -> ! in_progress after 30s
        renew 1         -> pending for 30s
        ",
    );
}

#[test]
fn after_a_reboot_all_leases_are_over() {
    let mut desk = play("at_most_once", "begin -> send 1\n boot\n state -> in_doubt");
    desk.now.steady = Steady { ms: 0, ..desk.now.steady };
    go_on(&mut desk, "state -> in_doubt\n renew 1 -> ! stale_fence");
}

#[test]
fn the_retry_time_of_the_row_holds_for_everybody() {
    play(
        "native_key",
        "
        begin                 -> send 1
        not_applied 1 after=5s -> planned
        begin                 -> ! in_progress after 5s
        wait 4999ms
        begin                 -> ! in_progress after 1ms
        wait 1ms
        begin                 -> send 2
        unknown 2 after=5s    -> in_doubt
        begin                 -> ! in_progress after 5s
        boot
        begin                 -> send 3
        ",
    );
}

#[test]
fn sends_are_capped_and_a_persons_retry_grants_them_anew() {
    play(
        "harmless attempts=2",
        "
        begin     -> send 1
        unknown 1 -> in_doubt
        begin     -> send 2
        unknown 2 -> in_doubt
        begin     -> ! in_doubt (exhausted)
        wait 2m
        retry     -> planned
        begin     -> send 3
        not_applied 3
        begin     -> send 4
        not_applied 4
        begin     -> ! retries_exhausted
        retry     -> planned
        begin     -> send 5
        ",
    );
}

#[test]
fn looks_do_not_use_up_the_sends() {
    play(
        "probe_first attempts=1",
        "
        begin         -> look 1
        not_applied 1 -> planned
        begin         -> send 2
        unknown 2     -> in_doubt
        wait 2m
        begin         -> look 3
        not_applied 3 -> planned
        begin         -> ! retries_exhausted
        retry         -> planned
        begin         -> send 4
        ",
    );
}

#[test]
fn a_full_row_still_takes_the_word_of_a_person() {
    let mut desk = play("harmless", "begin");
    for _ in 0..98 {
        go_on(&mut desk, "not_applied last\n begin");
    }
    go_on(&mut desk, "not_applied last -> planned\n begin -> ! attempts_exhausted");
    go_on(&mut desk, "retry -> ! attempts_exhausted");
    go_on(&mut desk, "quarantine 1s\n begin -> ! attempts_exhausted");
    go_on(&mut desk, r#"done "t-1" -> done"#);
    assert_eq!(desk.effect().unwrap().attempts.len(), 100);
}

#[test]
fn terms_that_cannot_be_kept_are_refused_before_anything_is_written() {
    let desk = play("native_key:1m settle=2m", "begin -> ! retry_beyond_retention");
    assert!(desk.rows.is_empty());
    play("at_most_once lease=1ms", "begin -> ! terms_invalid");
    play("at_most_once attempts=0", "begin -> ! terms_invalid");
    let long = "k".repeat(256);
    play("at_most_once", &format!("begin key={long} -> ! terms_invalid"));
    play("at_most_once", &format!("begin key={} -> send 1", &long[1..]));
}

#[test]
fn a_transaction_is_done_in_the_commit_that_opens_it() {
    play(
        "transaction",
        r#"
        transact "row-7" -> done
        transact "row-8" -> replay "row-7"
        begin            -> replay "row-7"
        "#,
    );
    // Should somebody open one without closing it, a person decides; nothing falls over.
    play("transaction", "begin -> send 1\n wait 30s\n begin -> ! in_doubt (person)");
}
