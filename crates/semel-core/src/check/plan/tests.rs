use std::collections::BTreeSet;

use super::super::testing::{CRM, baseline};
use super::*;

fn all() -> Plan {
    plan(&baseline(), Budget::default())
}

fn names(cases: &[Case]) -> Vec<String> {
    cases.iter().map(Case::name).collect()
}

#[test]
fn every_point_is_killed_paused_and_restarted_and_every_send_meets_every_fault() {
    let names: BTreeSet<String> = names(&all().cases).into_iter().collect();
    assert_eq!(all().left_out, 0);
    for point in name_points(&baseline().points) {
        for fault in ["kill", "pause_beyond_lease", "new_release"] {
            assert!(names.contains(&format!("{fault} {point}")), "{fault} {point}");
        }
    }
    for fault in
        ["cut_before", "cut_after", "timeout", "error_before", "error_after", "refuse_after"]
    {
        assert!(names.contains(&format!("{fault} send 2: {CRM}")), "{fault}");
    }
    let refused_first = names.iter().any(|name| name.starts_with("refuse_after send 1"));
    assert!(!refused_first, "nothing went through before the first send");
    for name in ["repeat_trigger", "duplicates", "repeat_approval mail/42", "repeat_signal word"] {
        assert!(names.contains(name), "{name}");
    }
    assert!(names.contains("repeat_callback agent"));
    assert_eq!(names.len(), 18 * 3 + 2 * 5 + 1 + 5, "no case comes twice, and none is unasked for");
}

#[test]
fn a_small_budget_meets_every_kind_of_fault_and_says_what_it_left_out() {
    let few = plan(&baseline(), Budget { cases_max: Some(14), pairs: false });
    assert_eq!((few.cases.len(), few.left_out), (14, all().cases.len() - 14));
    let faults: BTreeSet<Fault> = few.cases.iter().map(|case| case.fault).collect();
    assert_eq!(faults.len(), 14, "{few:?}");
    assert_eq!(few.cases[0].name(), "kill before crm-ticket done");
    let none = plan(&baseline(), Budget { cases_max: Some(0), pairs: false });
    assert_eq!((none.cases.len(), none.left_out), (0, all().cases.len()));
}

#[test]
fn deaths_between_answer_and_record_come_first_and_the_others_jump_over_the_run() {
    let cases = all().cases;
    let kills: Vec<Case> = cases.into_iter().filter(|case| case.fault == Fault::Kill).collect();
    let names = names(&kills);
    let telling: BTreeSet<&str> = names[..3].iter().map(String::as_str).collect();
    let want =
        ["kill before crm-ticket done", "kill before mail done", "kill before step classify"];
    assert_eq!(telling, BTreeSet::from(want));
    assert_eq!(spread(7), [3, 1, 5, 0, 2, 4, 6]);
    assert_eq!(spread(0), Vec::<usize>::new());
}

#[test]
fn two_deaths_are_played_only_when_asked_for_and_after_all_else() {
    let all = all().cases.len();
    let pairs = plan(&baseline(), Budget { cases_max: None, pairs: true });
    assert_eq!(pairs.cases.len(), all + 18 * 19 / 2);
    assert!(pairs.cases[..all].iter().all(|case| case.then.is_none()));
    assert!(pairs.cases[all..].iter().all(|case| case.then.is_some()));
    assert!(pairs.cases[all].name().contains(", then "));
}

#[test]
fn a_point_that_comes_again_has_a_number_and_one_without_a_name_is_left_alone() {
    let points = [vec!["a".to_owned(), "b".into()], vec![], vec!["b".into(), "a".into()]];
    assert_eq!(name_points(&points), ["a", "b (2)"]);
    assert_eq!(name_points(&[vec!["a".to_owned()], vec!["a".into()]]), ["a", "a (2)"]);
}

#[test]
fn a_case_is_found_by_its_name() {
    for case in plan(&baseline(), Budget { cases_max: None, pairs: true }).cases {
        assert_eq!(find(&baseline(), &case.name()), Some(case));
    }
    assert_eq!(find(&baseline(), "kill nowhere"), None);
}

#[test]
fn a_case_survives_the_way_through_json() {
    for case in all().cases {
        let text = serde_json::to_string(&case).expect("plain data");
        assert_eq!(serde_json::from_str::<Case>(&text).expect("a case"), case, "{text}");
    }
}
