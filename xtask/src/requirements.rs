//! The requirements page against the test reports: row, tests, result.
//!
//! A test says by its name what it shows: `req_k1_…` a row of docs/requirements.md, `case_k1_…` a
//! conformance case, `inv_i5_…` an invariant, `bug_dbos_716_…` a bug that a peer had.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};

use crate::junit::{Outcome, Test};

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Row {
    id: String,
    since: Since,
}

#[derive(Debug, PartialEq, Eq)]
enum Since {
    /// Promised now, by the part of this name.
    Part(String),
    /// Not yet built.
    Later,
}

pub(crate) struct Verdict {
    /// Every row with its tests, as Markdown that reads well in a terminal.
    pub(crate) page: String,
    pub(crate) problems: Vec<String>,
}

/// The rows of the page's tables. A table line that is no row is an error, so that a slip of the
/// pen cannot make a requirement disappear.
pub(crate) fn parse(page: &str) -> Result<Vec<Row>> {
    let mut rows: Vec<Row> = Vec::new();
    for line in page.lines().filter(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.trim().trim_matches('|').split('|').map(str::trim).collect();
        let [id, what, since] = cells[..] else { bail!("not three cells: {line}") };
        if id == "id" || id.chars().all(|sign| sign == '-') {
            continue;
        }
        row_id(id).filter(|upper| upper == id).with_context(|| format!("not an id: {line}"))?;
        if what.is_empty() || since.is_empty() {
            bail!("an empty cell: {line}");
        }
        if rows.iter().any(|row| row.id == id) {
            bail!("{id} stands twice");
        }
        let since = match since {
            "later" => Since::Later,
            part => Since::Part(part.to_owned()),
        };
        rows.push(Row { id: id.to_owned(), since });
    }
    if rows.is_empty() {
        bail!("no rows");
    }
    Ok(rows)
}

/// Holds the tests against the rows.
pub(crate) fn judge(rows: &[Row], tests: &[Test]) -> Verdict {
    let mut problems = Vec::new();
    let mut by_row: BTreeMap<String, Vec<&Test>> = BTreeMap::new();
    for test in tests {
        let named = test.function().strip_prefix("req_").map(first_id);
        match named {
            Some(Some(id)) if rows.iter().any(|row| row.id == id) => {
                by_row.entry(id).or_default().push(test);
            }
            Some(Some(id)) => problems.push(format!("{id} is not on the page: {}", title(test))),
            Some(None) => problems.push(format!("names no row: {}", title(test))),
            None => {}
        }
        if test.outcome == Outcome::Failed {
            problems.push(format!("failed: {}", title(test)));
        }
    }

    let mut lines = vec![["row", "since", "test", "result"].map(str::to_owned)];
    for row in rows {
        let own = by_row.remove(&row.id).unwrap_or_default();
        problems.extend(row_problem(row, &own));
        lines.extend(row_lines(row, &own));
    }
    let mut page = format!("# Requirements and their tests\n\n{}", table(&lines));
    for kind in ["case", "inv", "bug"] {
        page.push_str(&named_tests(kind, tests));
    }
    page.push('\n');
    Verdict { page, problems }
}

fn row_problem(row: &Row, tests: &[&Test]) -> Option<String> {
    let passed = tests.iter().any(|test| test.outcome == Outcome::Passed);
    match &row.since {
        Since::Later if !tests.is_empty() => {
            Some(format!("{} is marked `later` but has a test: mark what it came with", row.id))
        }
        Since::Part(part) if !passed => {
            Some(format!("{} is promised by `{part}` but no test of it passed", row.id))
        }
        Since::Later | Since::Part(_) => None,
    }
}

fn row_lines(row: &Row, tests: &[&Test]) -> Vec<[String; 4]> {
    let (since, without_test) = match &row.since {
        Since::Later => ("later", "later"),
        Since::Part(part) => (part.as_str(), "MISSING"),
    };
    let line =
        |test: String, result: &str| [row.id.clone(), since.to_owned(), test, result.to_owned()];
    if tests.is_empty() {
        return vec![line("-".to_owned(), without_test)];
    }
    // A test with parameters is one line, however many cases it has.
    let mut groups: Vec<(String, Vec<Outcome>)> = Vec::new();
    for test in tests {
        let name = test.name.split('[').next().unwrap_or_default();
        let title = format!("{} {name}", test.class);
        match groups.iter_mut().find(|(known, _)| *known == title) {
            Some((_, outcomes)) => outcomes.push(test.outcome),
            None => groups.push((title, vec![test.outcome])),
        }
    }
    let lines = groups.into_iter().map(|(title, outcomes)| match outcomes.len() {
        1 => line(title, &words(&outcomes)),
        count => line(format!("{title} ({count} cases)"), &words(&outcomes)),
    });
    lines.collect()
}

/// The tests of one kind: how many, then a line per id.
fn named_tests(kind: &str, tests: &[Test]) -> String {
    let mut by_id: BTreeMap<String, Vec<Outcome>> = BTreeMap::new();
    for test in tests {
        if let Some(id) = other_id(kind, test.function()) {
            by_id.entry(id).or_default().push(test.outcome);
        }
    }
    let count: usize = by_id.values().map(Vec::len).sum();
    let heading = format!("\n{kind}: {count} tests for {} ids\n", by_id.len());
    if by_id.is_empty() {
        return heading;
    }
    let mut lines = vec![[kind, "tests", "result"].map(str::to_owned)];
    lines.extend(
        by_id.into_iter().map(|(id, outcomes)| [id, outcomes.len().to_string(), words(&outcomes)]),
    );
    format!("{heading}\n{}", table(&lines))
}

/// `case_k1_…` is K1, `inv_i5_…` is I5, `bug_dbos_716_…` is `dbos_716`.
fn other_id(kind: &str, function: &str) -> Option<String> {
    let rest = function.strip_prefix(kind)?.strip_prefix('_')?;
    match kind {
        "bug" => {
            let words: Vec<&str> = rest.split('_').collect();
            let number = |word: &&str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
            // A peer without issue numbers is named by its first word.
            let last = words.iter().position(number).unwrap_or(0);
            Some(words[..=last].join("_"))
        }
        "inv" => first_id(rest).filter(|id| id.starts_with('I')),
        _ => Some(rest.split('_').next().unwrap_or_default().to_uppercase()),
    }
}

/// The id that opens `k1_same_key`, as the page writes it: K1.
fn first_id(rest: &str) -> Option<String> {
    row_id(rest.split_once('_')?.0)
}

/// One letter, then digits, in capitals.
fn row_id(text: &str) -> Option<String> {
    let digits = text.strip_prefix(|sign: char| sign.is_ascii_alphabetic())?;
    let good = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    good.then(|| text.to_ascii_uppercase())
}

/// As nextest prints it: the binary, then the test.
fn title(test: &Test) -> String {
    format!("{} {}", test.class, test.name)
}

/// The outcomes of several tests, each once.
fn words(outcomes: &[Outcome]) -> String {
    let words: BTreeSet<&str> = outcomes.iter().map(|outcome| word(*outcome)).collect();
    words.into_iter().collect::<Vec<_>>().join(", ")
}

fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Passed => "passed",
        Outcome::Failed => "FAILED",
        Outcome::Skipped => "skipped",
    }
}

/// A Markdown table with aligned columns; the first line is its head.
fn table<const N: usize>(lines: &[[String; N]]) -> String {
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
    let widths: [usize; N] = std::array::from_fn(|column| width(column).unwrap_or(0).max(3));
    let mut text = String::new();
    for (number, line) in lines.iter().enumerate() {
        for (cell, width) in line.iter().zip(widths) {
            text.push_str(&format!("| {cell:width$} "));
        }
        text.push_str("|\n");
        if number == 0 {
            let rules = widths.map(|width| format!("|{}", "-".repeat(width + 2)));
            text.push_str(&format!("{}|\n", rules.concat()));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
# Requirements

| id | what | since |
|----|------|-------|
| K1 | one intent, one key | ledger |
| L11 | pending needs a decision | ledger |

| id | what | since |
| --- | --- | --- |
| M1 | model answers are kept | later |
";

    fn tests(lines: &[&str]) -> Vec<Test> {
        let test = |line: &&str| {
            let (outcome, name) = match line.split_once(' ') {
                Some(("FAILED", name)) => (Outcome::Failed, name),
                Some(("skipped", name)) => (Outcome::Skipped, name),
                _ => (Outcome::Passed, *line),
            };
            Test { class: "core".to_owned(), name: name.to_owned(), outcome }
        };
        lines.iter().map(test).collect()
    }

    fn check(lines: &[&str], want: &[&str]) {
        let verdict = judge(&parse(PAGE).unwrap(), &tests(lines));
        assert_eq!(verdict.problems, want, "for {lines:?}\n{}", verdict.page);
    }

    #[test]
    fn every_promised_row_needs_a_passing_test() {
        check(&["key::tests::req_k1_same", "req_l11_asks", "other"], &[]);
        check(&["req_k1_same"], &["L11 is promised by `ledger` but no test of it passed"]);
        check(
            &["req_k1_same", "skipped req_l11_asks"],
            &["L11 is promised by `ledger` but no test of it passed"],
        );
        // K11 is not K1, and the name must go on after the id.
        check(
            &["req_k1_same", "req_l1_asks", "req_l11"],
            &[
                "L1 is not on the page: core req_l1_asks",
                "names no row: core req_l11",
                "L11 is promised by `ledger` but no test of it passed",
            ],
        );
    }

    #[test]
    fn a_failing_test_fails_its_row_even_beside_a_passing_one() {
        check(
            &["req_k1_same", "FAILED req_k1_other", "req_l11_asks"],
            &["failed: core req_k1_other"],
        );
        check(&["req_k1_same", "req_l11_asks", "FAILED plain"], &["failed: core plain"]);
    }

    #[test]
    fn a_later_row_with_a_test_asks_for_its_mark() {
        check(
            &["req_k1_same", "req_l11_asks", "req_m1_kept"],
            &["M1 is marked `later` but has a test: mark what it came with"],
        );
    }

    #[test]
    fn page_shows_row_test_and_result() {
        let names = ["req_k1_same", "FAILED case_k1_none", "case_k1_two", "bug_dbos_716_x_2"];
        let verdict = judge(&parse(PAGE).unwrap(), &tests(&names));
        assert_eq!(
            verdict.page,
            "\
# Requirements and their tests

| row | since  | test             | result  |
|-----|--------|------------------|---------|
| K1  | ledger | core req_k1_same | passed  |
| L11 | ledger | -                | MISSING |
| M1  | later  | -                | later   |

case: 2 tests for 1 ids

| case | tests | result         |
|------|-------|----------------|
| K1   | 2     | FAILED, passed |

inv: 0 tests for 0 ids

bug: 1 tests for 1 ids

| bug      | tests | result |
|----------|-------|--------|
| dbos_716 | 1     | passed |

"
        );
    }

    #[test]
    fn a_test_with_parameters_is_one_line() {
        let names = ["test_req_k1_same[a|b]", "FAILED test_req_k1_same[[c]]", "req_k1_same"];
        let page = judge(&parse(PAGE).unwrap(), &tests(&names)).page;
        let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| K1 ")).collect();
        assert_eq!(
            rows,
            [
                "| K1  | ledger | core test_req_k1_same (2 cases) | FAILED, passed |",
                "| K1  | ledger | core req_k1_same                | passed         |",
            ]
        );
    }

    #[test]
    fn ids_are_read_from_names() {
        let check = |kind: &str, function: &str, want: Option<&str>| {
            assert_eq!(other_id(kind, function).as_deref(), want, "for {function}");
        };
        check("inv", "inv_i5_one_receipt", Some("I5"));
        check("inv", "inv_five", None);
        check("bug", "bug_dbos_716_lost", Some("dbos_716"));
        check("bug", "bug_big_peer_12_lost", Some("big_peer_12"));
        check("bug", "bug_powertools_lost", Some("powertools"));
        check("case", "case_k10_get", Some("K10"));
        check("case", "casework", None);
    }

    #[test]
    fn a_page_with_a_slip_is_refused() {
        let check = |line: &str, want: &str| {
            let error = parse(&format!("{PAGE}{line}\n")).unwrap_err();
            assert_eq!(error.to_string(), want);
        };
        check("| K1 | again | ledger |", "K1 stands twice");
        check("| K2 | no part | |", "an empty cell: | K2 | no part | |");
        check("| K2 | two cells |", "not three cells: | K2 | two cells |");
        check("| k2 | small | ledger |", "not an id: | k2 | small | ledger |");
        assert!(parse("# Requirements\n").is_err());
    }
}
