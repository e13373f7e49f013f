//! What each contract allows after a doubt, and when.

use crate::{go_on, play, view};

#[test]
fn req_l11_a_cut_attempt_is_never_silently_repeated() {
    let cut = "begin -> send 1\n wait 30s\n state -> in_doubt\n ";
    play("at_most_once", &format!("{cut} begin -> ! in_doubt (person)"));
    play("probe", &format!("{cut} begin -> ! in_doubt (settle window) after 150s"));
    // Here the contract is the stated decision: the destination recognises the repeat.
    play("native_key", &format!("{cut} begin -> send 2"));
    play("conditional", &format!("{cut} begin -> send 2"));
    play("harmless", &format!("{cut} begin -> send 2"));
}

#[test]
fn case_x2_at_most_once_stays_in_doubt_until_a_person_decides() {
    let mut desk = play("at_most_once", "begin -> send 1\n died 1 -> in_doubt");
    for time in ["1s", "2m", "1d", "30d", "730d"] {
        go_on(&mut desk, &format!("wait {time}\n begin -> ! in_doubt (person)\n sweep -> kept"));
        assert_eq!(desk.effect().unwrap().due(&desk.now), None, "only a person can help");
    }
}

#[test]
fn case_x3_native_key_is_resent_at_once_under_the_same_key() {
    let mut desk = play("native_key", "begin -> send 1");
    let first = desk.permit.clone().unwrap();
    go_on(&mut desk, "died 1 -> in_doubt\n begin -> send 2");
    let second = desk.permit.clone().unwrap();
    assert_eq!(second.downstream_key, first.downstream_key);
    assert!(second.fence > first.fence);
}

#[test]
fn case_x4_a_look_that_finds_the_effect_makes_it_done() {
    let desk = play(
        "probe",
        r#"
        begin           -> send 1
        unknown 1       -> in_doubt
        wait 2m
        begin           -> look 2
        receipt 2 "t-1" -> done
        begin           -> replay "t-1"
        "#,
    );
    assert_eq!(view(&desk)["attempts"][1]["outcome"], "found");
    assert_eq!(view(&desk)["attempts"][1]["by"], "look");
}

#[test]
fn case_x5_a_look_that_proves_absence_lets_the_next_fence_send() {
    let desk = play(
        "probe",
        "
        begin         -> send 1
        unknown 1     -> in_doubt
        wait 2m
        begin         -> look 2
        not_applied 2 -> planned
        begin         -> send 3
        ",
    );
    let attempts = &desk.effect().unwrap().attempts;
    assert!(attempts[2].fence > attempts[0].fence);
    assert_eq!(view(&desk)["attempts"][0]["outcome"], "not_applied");
    assert_eq!(view(&desk)["attempts"][0]["by"], "look");
}

#[test]
fn the_settle_window_runs_from_the_workers_own_unknown() {
    play(
        "probe",
        "
        begin         -> send 1
        wait 10s
        unknown 1     -> in_doubt
        begin         -> ! in_doubt (settle window) after 2m
        wait 119999ms
        begin         -> ! in_doubt (settle window) after 1ms
        retry         -> ! too_early after 1ms
        wait 1ms
        begin         -> look 2
        ",
    );
}

#[test]
fn the_settle_window_runs_from_the_deadline_when_no_word_came() {
    play(
        "probe",
        "
        begin         -> send 1
        wait 30s
        begin         -> ! in_doubt (settle window) after 150s
        retry         -> ! too_early after 150s
        lapse         -> in_doubt
        retry         -> ! too_early after 150s
        wait 149999ms
        begin         -> ! in_doubt (settle window) after 1ms
        wait 1ms
        begin         -> look 2
        ",
    );
}

#[test]
fn the_settle_window_of_a_call_that_cannot_be_aborted_runs_from_its_last_lease() {
    play(
        "at_most_once",
        "
        begin           -> send 1
        wait 29s
        renew_endless 1
        wait 29s
        renew_endless 1 -> pending for 30s
        wait 30s
        retry           -> ! too_early after 2m
        lapse           -> in_doubt
        retry           -> ! too_early after 2m
        ",
    );
}

#[test]
fn the_settle_window_runs_from_the_proven_death() {
    play(
        "probe",
        "
        begin         -> send 1
        wait 5s
        died 1        -> in_doubt
        begin         -> ! in_doubt (settle window) after 2m
        wait 2m
        begin         -> look 2
        ",
    );
}

#[test]
fn the_settle_window_runs_anew_from_every_boot() {
    // The machine has been up for 5 s when the story goes on.
    play(
        "probe",
        "
        begin         -> send 1
        boot
        begin         -> ! in_doubt (settle window) after 115s
        retry         -> ! too_early after 115s
        wait 114s
        boot
        begin         -> ! in_doubt (settle window) after 115s
        wait 115s
        begin         -> look 2
        ",
    );
}

#[test]
fn two_probers_cannot_both_hold() {
    play(
        "probe",
        "
        begin         -> send 1
        unknown 1     -> in_doubt
        wait 2m
        begin         -> look 2
        begin         -> ! in_progress after 30s
        wait 30s
        begin         -> look 3
        not_applied 2 -> ! stale_fence
        state         -> pending
        not_applied 3 -> planned
        ",
    );
}

#[test]
fn a_look_that_could_not_tell_changes_nothing_and_may_be_repeated() {
    play(
        "probe",
        "
        begin         -> send 1
        unknown 1
        wait 2m
        begin         -> look 2
        unknown 2     -> in_doubt
        begin         -> look 3
        wait 30s
        state         -> in_doubt
        begin         -> look 4
        refused 4     -> planned
        refused 4     -> said before
        ",
    );
}

#[test]
fn absent_closes_only_sends_whose_settle_window_had_passed_when_the_look_began() {
    // "Exists" on a resend is read back at once, while the first send may still be under way.
    play(
        "conditional",
        "
        begin         -> send 1
        unknown 1     -> in_doubt
        begin         -> send 2
        not_applied 2 -> in_doubt
        wait 110s
        begin look    -> look 3
        wait 15s
        not_applied 3 -> in_doubt
        begin look    -> send 4
        not_applied 4 -> in_doubt
        begin look    -> look 5
        not_applied 5 -> planned
        ",
    );
}

#[test]
fn probe_first_looks_once_before_the_first_send() {
    play(
        "probe_first",
        "
        begin         -> look 1
        not_applied 1 -> planned
        begin         -> send 2
        not_applied 2 -> planned
        begin         -> send 3
        ",
    );
    play("probe_first", "begin -> look 1\n receipt 1 7 -> done\n begin -> replay 7");
    play("probe", "begin -> send 1");
}

#[test]
fn probe_first_looks_again_when_its_look_could_not_tell() {
    play(
        "probe_first",
        "
        begin         -> look 1
        unknown 1     -> planned
        begin         -> look 2
        wait 30s
        state         -> planned
        begin         -> look 3
        not_applied 3 -> planned
        begin         -> send 4
        ",
    );
}

#[test]
fn case_o5_conditional_exists_on_a_resend_stays_in_doubt_until_read_back() {
    let resend = "
        begin           -> send 1
        unknown 1       -> in_doubt
        begin           -> send 2
        refused 2       -> in_doubt
        ";
    play("conditional", &format!("{resend} begin -> send 3"));
    play("conditional", &format!("{resend} begin look -> look 3\n receipt 3 7 -> done"));
}

#[test]
fn inv_i19_native_key_sends_in_the_last_millisecond_before_the_horizon_and_not_at_it() {
    // 1 h of retention less 2 min of settle window.
    let first = "begin -> send 1\n unknown 1\n";
    let mut last = play("native_key", &format!("{first} wait 3479999ms\n begin -> send 2"));
    let permit = last.permit.clone().unwrap();
    assert_eq!(last.now.until(permit.valid_until), 1, "the permit ends at the horizon");
    go_on(&mut last, "unknown 2\n wait 1ms\n begin -> ! in_doubt (horizon)");
    go_on(&mut last, "wait 365d\n begin -> ! in_doubt (horizon)");
    assert_eq!(last.effect().unwrap().due(&last.now), None, "only a person can help");
    play("native_key", &format!("{first} wait 58m\n begin -> ! in_doubt (horizon)"));
}

#[test]
fn inv_i19_a_clock_that_is_behind_counts_as_past_the_horizon() {
    play(
        "native_key",
        "
        begin          -> send 1
        unknown 1      -> in_doubt
        clock behind
        begin          -> ! in_doubt (horizon)
        clock right
        begin          -> send 2
        ",
    );
}

#[test]
fn inv_i19_the_steady_clock_knows_the_horizon_when_the_wall_clock_was_set_back() {
    let story = "begin -> send 1\n unknown 1\n wait 57m\n wall back 50m\n clock right\n";
    play("native_key", &format!("{story} begin -> send 2"));
    play("native_key", &format!("{story} wait 1m\n begin -> ! in_doubt (horizon)"));
    let desk = play("native_key", &format!("{story} wait 59s\n begin -> send 2"));
    assert_eq!(desk.now.until(desk.permit.unwrap().valid_until), 1_000);
}

#[test]
fn inv_i19_a_resumed_permit_ends_at_the_same_horizon_whatever_the_wall_clock_says() {
    let mut desk = play("native_key", "begin\n unknown 1\n wait 57m\n wait 55s\n begin -> send 2");
    let valid_until = desk.permit.clone().unwrap().valid_until;
    assert_eq!(desk.now.until(valid_until), 5_000);
    go_on(&mut desk, "wait 1s\n wall back 1h\n begin id=last -> resumed send 2");
    assert_eq!(desk.permit.unwrap().valid_until, valid_until);
}

#[test]
fn inv_i19_each_send_is_judged_by_the_retention_it_was_sent_under() {
    let begun = "begin as=native_key:1h -> send 1\n unknown 1\n wait 57m\n";
    let desk = play("", &format!("{begun} wait 50s\n begin as=native_key:1d -> send 2"));
    let left_ms = desk.now.until(desk.permit.unwrap().valid_until);
    assert_eq!(left_ms, 10_000, "the first send's horizon ends the permit");
    play("", &format!("{begun} wait 1m\n begin as=native_key:1d -> ! in_doubt (horizon)"));
    // A retention that turns out to be shorter than was thought counts from now on.
    play("", &format!("{begun} begin as=native_key:30m -> ! in_doubt (horizon)"));
}

#[test]
fn first_sent_starts_anew_when_every_attempt_is_proven_not_applied() {
    let desk = play(
        "native_key",
        "
        begin         -> send 1
        not_applied 1 -> planned
        wait 50m
        begin         -> send 2
        unknown 2
        wait 50m
        begin         -> send 3
        ",
    );
    let effect = desk.effect().unwrap();
    assert_eq!(effect.first_sent, Some(effect.attempts[1].began));
    // A proof of the second attempt says nothing about the first.
    let desk = play(
        "native_key",
        "
        begin         -> send 1
        unknown 1
        begin         -> send 2
        not_applied 2 -> in_doubt
        wait 50m
        begin         -> send 3
        ",
    );
    let effect = desk.effect().unwrap();
    assert_eq!(effect.first_sent, Some(effect.attempts[0].began));
}

#[test]
fn waiting_before_the_first_send_does_not_count_against_the_horizon() {
    play(
        "native_key",
        "begin as=probe_first -> look 1\n not_applied 1\n wait 1d\n begin -> send 2",
    );
}

#[test]
fn key_not_used_is_not_resent_but_may_be_looked_up() {
    play(
        "native_key",
        "
        begin                  -> send 1
        unknown 1 key_not_used -> in_doubt
        begin                  -> ! in_doubt (key not used)
        begin look             -> ! in_doubt (settle window) after 2m
        wait 2m
        begin                  -> ! in_doubt (key not used)
        begin look             -> look 2
        not_applied 2          -> planned
        begin                  -> send 3
        ",
    );
    // Only a native key depends on it.
    play("conditional", "begin\n unknown 1 key_not_used\n begin -> send 2");
}

#[test]
fn a_doubt_is_judged_by_the_contract_it_was_sent_under() {
    for contract in ["at_most_once", "native_key", "conditional", "harmless", "probe"] {
        let mut desk = play(contract, "begin -> send 1\n unknown 1");
        for other in ["at_most_once", "native_key", "conditional", "harmless", "transaction"] {
            if other != contract {
                go_on(&mut desk, &format!("begin as={other} -> ! contract_changed"));
            }
        }
        go_on(&mut desk, "begin as=probe -> ! in_doubt (settle window) after 2m");
        go_on(&mut desk, "wait 2m\n begin as=probe -> look 2\n not_applied 2 -> planned");
    }
}

#[test]
fn between_attempts_the_contract_may_change() {
    play(
        "at_most_once",
        "
        begin             -> send 1
        not_applied 1     -> planned
        begin as=harmless -> send 2
        unknown 2         -> in_doubt
        begin             -> ! contract_changed
        begin as=harmless -> send 3
        ",
    );
}

#[test]
fn due_says_when_a_machine_can_help() {
    let due = |terms: &str, story: &str| {
        let desk = play(terms, story);
        desk.effect().unwrap().due(&desk.now).map(|due| desk.now.until(due))
    };
    assert_eq!(due("at_most_once", "begin"), Some(30_000));
    assert_eq!(due("at_most_once", "begin\n unknown 1"), None);
    assert_eq!(due("probe", "begin\n unknown 1"), Some(120_000));
    assert_eq!(due("native_key", "begin\n unknown 1"), Some(0));
    assert_eq!(due("native_key", "begin\n unknown 1 after=7s"), Some(7_000));
    assert_eq!(due("native_key", "begin\n unknown 1 key_not_used"), None);
    assert_eq!(due("native_key", "begin\n unknown 1\n wait 1h"), None);
    assert_eq!(due("native_key", "begin\n not_applied 1 after=7s"), Some(7_000));
    assert_eq!(due("native_key", "begin\n receipt 1 7"), None);
}
