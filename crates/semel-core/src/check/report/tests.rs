use super::super::judge;
use super::super::testing::{CRM, as_before, at, at_send, baseline};
use super::*;

fn report() -> Report {
    let baseline = baseline();
    let good = as_before(&baseline);
    let mut twice = as_before(&baseline);
    twice.objects.insert(CRM.into(), 2);
    let command = "semel check app.py:triage --only {case}";
    let whole = Case { fault: Fault::Duplicates, place: Place::Run, then: None };
    let verdicts = vec![
        judge(&baseline, &at(Fault::Kill, "after finished"), &good, command),
        judge(&baseline, &at(Fault::Kill, "before started"), &good, command),
        judge(&baseline, &at_send(Fault::CutAfter, 2, CRM), &twice, command),
        judge(&baseline, &whole, &good, command),
    ];
    Report { left_out: 5, ..Report::new("triage", &baseline, verdicts) }
}

#[test]
fn the_table_has_the_order_of_the_run_and_marks_what_must_not_be() {
    let want = "                kill
before started  once
after finished  once

                       cut_after
send 2: POST /tickets  !twice

         duplicates
the run  once

";
    assert_eq!(report().table(), want);
}

#[test]
fn the_summary_counts_what_was_tried_and_what_came_of_it() {
    let want = "triage: FAILED in 1. 18 points, 2 sends; 4 cases with 2 kills in 0.028 s: \
                3 once, 1 twice. 5 cases left out by the budget.";
    assert_eq!(report().summary(), want);
    let text = report().text();
    assert!(text.contains("cut_after send 2: POST /tickets: twice (POST /tickets has 2"), "{text}");
    assert!(text.contains("  one object  NO   POST /tickets: 2 of 1, mail: 1 of 1\n"), "{text}");
    assert!(text.contains("--only 'cut_after send 2: POST /tickets'\n"), "{text}");
}

#[test]
fn nothing_tried_is_nothing_shown() {
    let refused = Report { ends: "failed".into(), detail: "no stock".into(), ..report() };
    assert!(refused.summary().ends_with("budget. Undisturbed it ends as failed: no stock."));
    let nothing = Report { verdicts: Vec::new(), ..report() };
    assert!(!nothing.is_ok());
    assert!(nothing.summary().contains("nothing was tried"));
    let good = Report { verdicts: report().verdicts[..2].to_vec(), ..report() };
    assert!(good.is_ok() && !report().is_ok());
}

#[test]
fn a_build_server_reads_one_test_per_case_and_why_it_failed() {
    let xml = report().junit();
    assert!(xml.starts_with("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite "), "{xml}");
    assert!(xml.contains("tests=\"4\" failures=\"1\" time=\"0.028\""), "{xml}");
    assert_eq!(xml.matches("<testcase ").count(), 4);
    let failure = "<failure message=\"twice: POST /tickets has 2 instead of 1\">";
    assert!(xml.contains(failure), "{xml}");
    assert!(xml.contains("--only &apos;cut_after send 2"), "{xml}");
}

#[test]
fn the_json_of_a_report_is_read_back_as_it_was() {
    let report = report();
    let read: Report = serde_json::from_str(&report.json()).expect("a report");
    assert_eq!(read, report);
}
