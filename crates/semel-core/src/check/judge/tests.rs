use super::super::record::LineState;
use super::super::testing::{
    CRM, MODEL, as_before, at, at_send, attempt, baseline, effect, request,
};
use super::*;

const COMMAND: &str = "semel check app.py:triage --only {case}";

/// Plants something into what was seen, and wants this outcome.
fn check(case: &Case, plant: impl FnOnce(&mut Observation), want: &str) -> Verdict {
    let baseline = baseline();
    let mut seen = as_before(&baseline);
    plant(&mut seen);
    let verdict = judge(&baseline, case, &seen, COMMAND);
    let ok = if verdict.is_ok { "ok" } else { "bad" };
    let found = format!("{ok} {}: {}", verdict.outcome.as_str(), verdict.detail);
    assert!(found.starts_with(want), "{found}\ninstead of {want}");
    assert_eq!(verdict.lines.len(), 5);
    assert_eq!(verdict.reproduce.is_none(), verdict.is_ok);
    verdict
}

fn kill() -> Case {
    at(Fault::Kill, "before started")
}

fn line(verdict: &Verdict, what: &str) -> (LineState, String) {
    let line = verdict.lines.iter().find(|line| line.what == what).expect("a line");
    (line.state, line.text.clone())
}

#[test]
fn what_is_as_before_happened_once() {
    let verdict = check(&kill(), |_| {}, "ok once: as if nothing had happened");
    assert_eq!(line(&verdict, "fault"), (LineState::Yes, "kill before started".into()));
    assert_eq!(line(&verdict, "same key"), (LineState::Yes, "1 key over 1 request".into()));
    let objects = "POST /tickets: 1 of 1, mail: 1 of 1";
    assert_eq!(line(&verdict, "one object"), (LineState::Yes, objects.into()));
    assert_eq!(line(&verdict, "trace").0, LineState::Silent);
    assert_eq!(line(&verdict, "replay").0, LineState::Yes);
}

#[test]
fn one_more_object_is_twice_whatever_the_ledger_says() {
    let more = |seen: &mut Observation| {
        seen.objects.insert(CRM.into(), 2);
    };
    let verdict = check(&kill(), more, "bad twice: POST /tickets has 2 instead of 1");
    assert_eq!(line(&verdict, "one object").0, LineState::No);
    let again = "semel check app.py:triage --only 'kill before started'";
    assert_eq!(verdict.reproduce.as_deref(), Some(again));
    // At a place that nobody knew before, too, and beside a doubt.
    let elsewhere = |seen: &mut Observation| {
        seen.objects.insert("elsewhere".into(), 1);
    };
    check(&kill(), elsewhere, "bad twice: elsewhere has 1");
    let doubt = |seen: &mut Observation| {
        seen.objects.insert(CRM.into(), 2);
        seen.effects[1].state = "in_doubt".into();
    };
    check(&kill(), doubt, "bad twice: POST /tickets has 2");
    check(&kill(), |seen| seen.effects[0].applied_twice = true, "bad twice: crm-ticket/42");
}

#[test]
fn a_replay_that_reaches_outside_is_twice() {
    let verdict = check(&kill(), |seen| seen.replay_requests = Some(1), "bad twice: a replay");
    assert_eq!(line(&verdict, "replay").0, LineState::No);
}

#[test]
fn one_object_less_is_lost_once_the_run_is_over() {
    let less = |seen: &mut Observation| {
        seen.objects.remove(CRM);
    };
    check(&kill(), less, "bad lost: POST /tickets has 0 instead of 1");
}

#[test]
fn a_doubt_is_right_where_the_contract_settles_nothing_and_wrong_elsewhere() {
    let doubt = |at: usize| {
        move |seen: &mut Observation| {
            seen.effects[at].state = "in_doubt".into();
            seen.effects[at].attempts = vec![attempt("unknown")];
            seen.state = "waiting".into();
            seen.objects.remove("mail");
            seen.replay_requests = None;
        }
    };
    let kill = at(Fault::Kill, "before mail done");
    let verdict = check(&kill, doubt(1), "ok in_doubt: mail/42 waits for a person (at_most_once)");
    assert_eq!(line(&verdict, "one object").0, LineState::Yes);
    assert_eq!(line(&verdict, "trace"), (LineState::Yes, "mail: unknown".into()));
    assert_eq!(line(&verdict, "replay").0, LineState::Silent);
    check(&kill, doubt(0), "bad in_doubt: crm-ticket/42 is in doubt, and native_key settles that");
    let unused = |seen: &mut Observation| {
        doubt(0)(seen);
        seen.effects[0].key_not_used = true;
    };
    check(&kill, unused, "ok in_doubt: crm-ticket/42 waits for a person (its key was not used)");
}

#[test]
fn a_workflow_may_answer_a_doubt_by_another_effect() {
    let handled = |seen: &mut Observation| {
        seen.effects[1].state = "in_doubt".into();
        seen.effects[1].attempts = vec![attempt("unknown")];
        seen.effects.push(effect("page-someone", "native_key"));
        seen.objects.insert("pager".into(), 1);
        seen.objects.remove("mail");
        seen.result = Some(r#"{"paged":true}"#.into());
    };
    let kill = at(Fault::Kill, "before mail done");
    let verdict = check(&kill, handled, "ok in_doubt: mail/42 waits for a person");
    assert_eq!(line(&verdict, "one object").0, LineState::Yes);
}

#[test]
fn harmless_sends_may_be_repeated_as_often_as_the_ledger_shows() {
    let mut baseline = baseline();
    baseline.effects[0].contract = "harmless".into();
    let mut seen = as_before(&baseline);
    seen.objects.insert(CRM.into(), 2);
    let found = |seen: &Observation| {
        let verdict = judge(&baseline, &kill(), seen, COMMAND);
        (verdict.is_ok, verdict.detail.clone(), line(&verdict, "one object").0)
    };
    let twice = (false, "POST /tickets has 2 instead of 1".to_owned(), LineState::No);
    assert_eq!(found(&seen), twice, "the ledger shows one send");
    seen.effects[0].attempts.insert(0, attempt("unknown"));
    seen.effects[0].applied_twice = true;
    assert_eq!(found(&seen), (true, "harmless: 1 more".to_owned(), LineState::Yes));
    seen.objects.insert("mail".into(), 2);
    let mail = (false, "mail has 2 instead of 1".to_owned(), LineState::No);
    assert_eq!(found(&seen), mail, "one more is allowed, not two");
}

#[test]
fn a_run_that_does_not_end_is_stuck() {
    let waits = |seen: &mut Observation| {
        seen.state = "waiting".into();
        seen.waits_on = Some("signal word".into());
    };
    check(&kill(), waits, "bad stuck: waiting, waits on signal word");
    let paused = |seen: &mut Observation| {
        seen.state = "paused".into();
        seen.code = Some("retries_exhausted".into());
        seen.detail = "no luck".into();
    };
    check(&kill(), paused, "bad stuck: paused: no luck (retries_exhausted)");
}

#[test]
fn another_end_or_another_answer_has_diverged() {
    check(&kill(), |seen| seen.state = "failed".into(), "bad diverged: ended failed instead of");
    check(&kill(), |seen| seen.other_answers = 3, "bad diverged: 3 repeats were told otherwise");
    let diverged = |seen: &mut Observation| {
        seen.state = "paused".into();
        seen.code = Some("diverged".into());
        seen.detail = "the code asks for b".into();
    };
    check(&kill(), diverged, "bad diverged: the code asks for b");
}

#[test]
fn another_result_has_diverged_where_nothing_was_asked_for_again() {
    let other = |seen: &mut Observation| seen.result = Some(r#"{"by":2}"#.into());
    check(&kill(), other, r#"bad diverged: came to {"by":2} instead of {}"#);
    // The answer of a model, or the receipt of a second attempt, may be worded otherwise.
    let asked = |seen: &mut Observation| {
        other(seen);
        seen.model_calls.insert(MODEL.into(), 2);
    };
    check(&at(Fault::Kill, "before step classify"), asked, "ok once");
    let found = |seen: &mut Observation| {
        other(seen);
        seen.effects[0].attempts.insert(0, attempt("unknown"));
        seen.effects[0].receipt = Some(r#"{"found":1}"#.into());
    };
    check(&kill(), found, "ok once");
    // A run that goes on in doubt says so, even where a late receipt settles it afterwards.
    let doubted = |contract: &'static str| {
        move |seen: &mut Observation| {
            other(seen);
            seen.effects[0].contract = contract.into();
            seen.effects[0].attempts[0].was_doubted = true;
        }
    };
    check(&kill(), doubted("at_most_once"), "ok once");
    check(&kill(), doubted("native_key"), "bad diverged");
    // Whoever gives no result of the undisturbed run says that it is never the same.
    let mut baseline = baseline();
    baseline.result = None;
    let mut seen = as_before(&baseline);
    other(&mut seen);
    assert!(judge(&baseline, &kill(), &seen, COMMAND).is_ok);
}

#[test]
fn a_second_key_is_found_at_the_destination_in_the_ledger_and_by_the_engine() {
    let other = |seen: &mut Observation| seen.requests.push(request(CRM, Some("key-2"), 9));
    let verdict = check(&kill(), other, "bad key_changed: POST /tickets saw 2 keys instead of 1");
    assert_eq!(line(&verdict, "same key").0, LineState::No);
    let row = |seen: &mut Observation| {
        seen.effects.push(EffectSeen { key: "43".into(), ..effect("mail", "at_most_once") });
    };
    check(&kill(), row, "bad key_changed: mail has 2 keys in the ledger instead of 1");
    let stopped = |seen: &mut Observation| seen.code = Some("unstable_key".into());
    check(&kill(), stopped, "bad key_changed");
    // The same key again is a retry.
    let same = |seen: &mut Observation| seen.requests.push(request(CRM, Some("key-1"), 9));
    let verdict = check(&kill(), same, "ok once");
    assert_eq!(line(&verdict, "same key").1, "1 key over 2 requests");
}

#[test]
fn a_model_is_paid_again_only_between_its_answer_and_the_record() {
    let again = |seen: &mut Observation| {
        seen.model_calls.insert(MODEL.into(), 2);
    };
    let paid = "bad paid_twice: POST /classify was asked 1 times more";
    let lost = "ok once: POST /classify was asked again";
    check(&at(Fault::Kill, "before started"), again, paid);
    check(&at(Fault::Kill, "before step classify"), again, lost);
    check(&at(Fault::PauseBeyondLease, "before step classify"), again, lost);
    check(&at(Fault::PauseBeyondLease, "after started"), again, lost);
    check(&at(Fault::Kill, "after started"), again, paid);
    check(&at(Fault::PauseBeyondLease, "before started"), again, paid);
    check(&at(Fault::Kill, "after step classify"), again, paid);
    check(&at_send(Fault::CutAfter, 1, MODEL), again, lost);
    check(&at_send(Fault::CutAfter, 2, CRM), again, paid);
    let whole = Case { fault: Fault::Duplicates, place: Place::Run, then: None };
    check(&whole, again, paid);
    let replayed = |seen: &mut Observation| seen.replay_model_calls = 2;
    let verdict = check(&whole, replayed, "bad paid_twice: a replay asked models 2 times");
    assert_eq!(line(&verdict, "replay").0, LineState::No);
}

#[test]
fn models_that_are_asked_at_once_may_be_asked_again_until_the_last_answer_is_on_record() {
    let mut baseline = baseline();
    baseline.requests[0].after_points = None;
    let more = ["before step judge", "after step judge"].map(|name| vec![name.to_owned()]);
    baseline.points.splice(4..4, more);
    let mut seen = as_before(&baseline);
    seen.model_calls.insert(MODEL.into(), 2);
    let is_ok = |point: &str| judge(&baseline, &at(Fault::Kill, point), &seen, COMMAND).is_ok;
    assert!(is_ok("before step classify") && is_ok("after step classify"));
    assert!(is_ok("before step judge"));
    assert!(!is_ok("after started"), "nobody has asked yet");
    assert!(!is_ok("after step judge"), "every answer is on record");
}

#[test]
fn a_fault_that_never_happened_and_a_case_that_broke_prove_nothing() {
    let verdict = check(&kill(), |seen| seen.is_met = false, "bad error: its place was never");
    assert_eq!(line(&verdict, "fault").0, LineState::No);
    check(&kill(), |seen| seen.error = Some("no port".into()), "bad error: no port");
}

#[test]
fn the_ledger_must_show_the_attempt_that_a_death_cut() {
    let cut = at(Fault::Kill, "before crm-ticket done");
    check(&cut, |_| {}, "bad error: the attempt of crm-ticket that was cut is not in the ledger");
    let retried = |seen: &mut Observation| seen.effects[0].attempts.insert(0, attempt("unknown"));
    let verdict = check(&cut, retried, "ok once");
    assert_eq!(line(&verdict, "trace").1, "crm-ticket: unknown, then applied");
    // What a client repeats by itself is worth a line and no failure.
    let hidden = check(&at_send(Fault::CutAfter, 2, CRM), |_| {}, "ok once");
    assert_eq!(line(&hidden, "trace").0, LineState::No);
}

#[test]
fn a_name_is_one_word_for_a_shell() {
    assert_eq!(quoted("kill it's"), r"'kill it'\''s'");
}
