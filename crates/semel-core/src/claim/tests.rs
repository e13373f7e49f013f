use super::*;

fn ok(object: &str) -> Answer {
    Answer { status: Some(201), object: Some(object.into()) }
}

fn status(status: u16) -> Answer {
    Answer { status: Some(status), object: Some("an error".into()) }
}

fn trial(kind: Kind, answers: Vec<Answer>, objects: Option<u64>) -> Trial {
    Trial { kind, answers, objects }
}

/// A destination that honours keys, as answers show it; nobody counts.
fn honest() -> Seen {
    let trials = vec![
        trial(Kind::Twice, vec![ok("1"), ok("1")], None),
        trial(Kind::OtherBody, vec![status(422)], None),
        trial(Kind::AtOnce, vec![ok("2"), ok("2"), ok("2")], None),
        trial(Kind::Cut, vec![ok("3"), ok("3")], None),
        trial(Kind::FreshKey, vec![ok("4")], None),
        trial(Kind::NoKey, vec![ok("5")], None),
    ];
    Seen { trials, ..Seen::default() }
}

/// The honest one with one trial as given.
fn but(kind: Kind, answers: Vec<Answer>, objects: Option<u64>) -> Seen {
    let mut seen = honest();
    seen.trials.retain(|trial| trial.kind != kind);
    seen.trials.push(trial(kind, answers, objects));
    seen
}

/// The word for a claim, and the facts that broke it or left it open.
fn told(seen: &Seen, claim: Claim) -> String {
    let judgement = judge(seen);
    let verdict = judgement.verdict(claim).expect("all are judged");
    let decisive = verdict.evidence.iter().filter(|evidence| {
        evidence.word == verdict.word && evidence.word != Word::Holds && evidence.is_needed
    });
    let facts: Vec<&str> = decisive.map(|evidence| evidence.fact.as_str()).collect();
    format!("{}: {}", verdict.word.name(), facts.join("; "))
}

fn check(seen: &Seen, claim: Claim, want: &str) {
    let told = told(seen, claim);
    assert!(told.starts_with(want), "{told}, not {want}");
}

#[test]
fn keys_hold_when_every_trial_says_so() {
    let judgement = judge(&honest());
    assert_eq!(judgement.honours, Claim::NativeKey);
    check(&honest(), Claim::NativeKey, "holds");
    let open = judgement.not_shown.join("\n");
    assert!(open.contains("how long it remembers"), "{open}");
    assert!(open.contains("how many objects"), "{open}");
    for (kind, answers) in [
        (Kind::OtherBody, vec![ok("1")]),
        (Kind::AtOnce, vec![status(409), ok("2"), status(409)]),
        (Kind::Cut, vec![status(409), ok("3")]),
        (Kind::NoKey, vec![status(400)]),
    ] {
        check(&but(kind, answers, None), Claim::NativeKey, "holds");
    }
    check(&but(Kind::Twice, vec![ok("1"), ok("1")], Some(1)), Claim::NativeKey, "holds");
    check(&but(Kind::FreshKey, vec![ok("1")], Some(1)), Claim::NativeKey, "holds");
}

#[test]
fn one_broken_trial_breaks_the_claim() {
    let check = |kind, answers, objects, want: &str| {
        let seen = but(kind, answers, objects);
        check(&seen, Claim::NativeKey, &format!("broken: {want}"));
        assert_eq!(judge(&seen).honours, Claim::AtMostOnce);
    };
    check(Kind::Twice, vec![ok("1"), ok("9")], None, "the repeat made another: 1, then 9");
    check(Kind::Twice, vec![ok("1"), ok("1")], Some(2), "one answer, but 2 objects");
    check(Kind::Twice, vec![ok("1"), status(409)], None, "the repeat gets status 409");
    check(Kind::Twice, vec![status(500), status(500)], None, "an error is kept under its key");
    check(Kind::Twice, vec![status(500), ok("1")], Some(2), "one answer, but 2 objects");
    check(Kind::AtOnce, vec![ok("2"), ok("8")], None, "2 at once made 2 objects");
    check(Kind::AtOnce, vec![ok("2"), ok("2")], Some(2), "2 at once made 2 objects");
    check(Kind::Cut, vec![ok("3"), ok("3")], Some(2), "after a cut answer the repeats left 2");
    check(Kind::Cut, vec![ok("3"), ok("7")], None, "after a cut answer two repeats made two");
    check(Kind::Cut, vec![status(409), status(409)], None, "after a cut answer the repeat gets");
    check(Kind::OtherBody, vec![ok("6")], None, "another body under the same key made another");
    check(Kind::OtherBody, vec![ok("1")], Some(1), "another body under the same key made another");
    check(Kind::FreshKey, vec![ok("1")], Some(0), "a fresh key made nothing new");
}

#[test]
fn equal_answers_alone_show_nothing() {
    let constant = but(Kind::FreshKey, vec![ok("1")], None);
    check(&constant, Claim::NativeKey, "not_shown: keys: a fresh key gets the same answer");
    let failing = but(Kind::FreshKey, vec![status(500)], None);
    check(&failing, Claim::NativeKey, "not_shown: keys: a fresh key gets status 500");
    let mut down = but(Kind::Twice, vec![status(500), status(500)], None);
    down.trials.retain(|trial| trial.kind != Kind::FreshKey);
    down.trials.push(trial(Kind::FreshKey, vec![status(500)], None));
    check(&down, Claim::NativeKey, "not_shown: keys: the request itself gets status 500");
    down.trials.retain(|trial| trial.kind != Kind::Cut);
    down.trials.push(trial(Kind::Cut, vec![status(500), status(500)], None));
    check(&down, Claim::NativeKey, "not_shown: keys: the request itself gets status 500");
    check(&Seen::default(), Claim::NativeKey, "not_shown");
    for kind in [Kind::Twice, Kind::AtOnce, Kind::Cut, Kind::FreshKey] {
        let mut less = honest();
        less.trials.retain(|trial| trial.kind != kind);
        check(&less, Claim::NativeKey, "not_shown");
    }
    let moved = but(Kind::Twice, vec![ok("1"), ok("1")], Some(0));
    check(&moved, Claim::NativeKey, "not_shown: keys: the count did not move");
}

#[test]
fn a_pause_shows_how_long_a_key_is_remembered() {
    let paused =
        |answer, objects| Seen { paused_ms: 2_000, ..but(Kind::Later, vec![answer], objects) };
    check(&paused(ok("1"), Some(0)), Claim::NativeKey, "holds");
    let open = judge(&paused(ok("1"), None)).not_shown.join("\n");
    assert!(open.contains("beyond 2s"), "{open}");
    let forgot = "broken: after 2s the key is not known any more";
    check(&paused(ok("9"), None), Claim::NativeKey, forgot);
    check(&paused(ok("1"), Some(1)), Claim::NativeKey, forgot);
    check(&paused(status(410), None), Claim::NativeKey, forgot);
}

#[test]
fn conditions_hold_when_a_repeat_changes_nothing() {
    let check = |answers: [Answer; 2], objects, want: &str| {
        let trials = vec![trial(Kind::CreateTwice, answers.into(), objects)];
        check(&Seen { trials, ..Seen::default() }, Claim::Conditional, want);
    };
    check([ok("1"), status(412)], None, "holds");
    check([ok("1"), status(409)], Some(1), "holds");
    check([ok("1"), ok("1")], Some(1), "holds");
    check([ok("1"), ok("1")], None, "not_shown");
    check([ok("1"), status(500)], None, "not_shown");
    check([status(400), status(400)], None, "not_shown");
    check([ok("1"), ok("2")], None, "broken");
    check([ok("1"), ok("1")], Some(2), "broken");
    check([ok("1"), status(412)], Some(2), "broken");
}

#[test]
fn conditions_are_broken_by_a_race() {
    let at_once = |answers, objects| Seen {
        trials: vec![
            trial(Kind::CreateTwice, vec![ok("1"), status(412)], None),
            trial(Kind::CreateAtOnce, answers, objects),
        ],
        ..Seen::default()
    };
    check(&at_once(vec![ok("2"), status(412)], Some(1)), Claim::Conditional, "holds");
    check(&at_once(vec![ok("2"), ok("3")], None), Claim::Conditional, "broken: 2 at once");
    check(&at_once(vec![ok("2"), status(412)], Some(2)), Claim::Conditional, "broken: 2 at once");
    check(&at_once(vec![status(500); 2], None), Claim::Conditional, "not_shown");
}

#[test]
fn a_search_must_find_what_is_there_and_nothing_else() {
    let check = |before, after, visible_ms, want: &str| {
        let search = Some(Search { before, after, visible_ms });
        check(&Seen { search, ..Seen::default() }, Claim::Probe, want);
    };
    check(0, 1, 0, "holds");
    check(0, 1, 700, "holds");
    check(0, 0, 0, "broken: what was created is not found");
    check(1, 2, 0, "broken: it finds 1 where nothing was created");
    check(0, 2, 0, "broken: one creation, and 2 are found");
}

#[test]
fn the_best_contract_that_holds_is_named() {
    let mut seen = but(Kind::Twice, vec![ok("1"), ok("9")], None);
    assert_eq!(judge(&seen).honours, Claim::AtMostOnce);
    seen.search = Some(Search { before: 0, after: 1, visible_ms: 0 });
    assert_eq!(judge(&seen).honours, Claim::Probe);
    seen.trials.push(trial(Kind::CreateTwice, vec![ok("1"), status(412)], None));
    assert_eq!(judge(&seen).honours, Claim::Conditional);
    let mut all = honest();
    all.search = seen.search;
    assert_eq!(judge(&all).honours, Claim::NativeKey);
}
