//! The page that holds every rule against every way in: each row names a test that exists.

use std::collections::BTreeSet;

use super::{find, python};
use crate::tree::Source;

const PAGE: &str = "docs/internals/ways-in.md";
/// Begins a row for a way in that cannot break the rule; the reason follows.
const NOT_APPLICABLE: &str = "not applicable: ";
/// Begins a row whose test is still missing: told as a warning.
const OPEN: &str = "open: ";
/// The ways in that every rule lists, in this order.
const WAYS: [&str; 10] = [
    "direct call",
    "run",
    "handler",
    "outbox",
    "approval",
    "HTTP",
    "gate",
    "console",
    "CLI",
    "remote worker",
];

/// The cells that still want a test.
pub(super) fn open(sources: &[Source]) -> Vec<String> {
    let lines = find(sources, PAGE).unwrap_or_default().lines();
    let open = lines.filter_map(row).filter(|(_, cell)| cell.starts_with(OPEN));
    open.map(|(way, cell)| format!("{PAGE}: {way}: {cell}")).collect()
}

pub(super) fn check(sources: &[Source]) -> Vec<String> {
    let Some(page) = find(sources, PAGE) else { return vec![format!("{PAGE}: missing")] };
    let functions: BTreeSet<&str> = sources.iter().flat_map(functions).collect();
    let mut problems = Vec::new();
    for section in page.split("\n## ").skip(1) {
        let rule = section.lines().next().unwrap_or_default();
        let rows: Vec<(&str, &str)> = section.lines().filter_map(row).collect();
        let ways: Vec<&str> = rows.iter().map(|(way, _)| *way).collect();
        if ways != WAYS {
            problems.push(format!("{PAGE}: {rule}: wants one row for each of {WAYS:?}"));
        }
        let is_test = |cell: &str| !cell.starts_with(NOT_APPLICABLE) && !cell.starts_with(OPEN);
        for (way, cell) in rows.into_iter().filter(|(_, cell)| is_test(cell)) {
            let named: Vec<&str> = cell.split('`').skip(1).step_by(2).collect();
            if named.is_empty() {
                problems.push(format!("{PAGE}: {rule}, {way}: names no test"));
            }
            let unknown = named.into_iter().filter(|name| !functions.contains(name));
            problems.extend(
                unknown.map(|name| format!("{PAGE}: {rule}, {way}: no test is called `{name}`")),
            );
        }
    }
    problems
}

/// The two cells of a table's row; neither its head nor the line below that.
fn row(line: &str) -> Option<(&str, &str)> {
    let (way, cell) = line.strip_prefix('|')?.strip_suffix('|')?.split_once('|')?;
    let (way, cell) = (way.trim(), cell.trim());
    (way != "way in" && !way.starts_with('-')).then_some((way, cell))
}

/// The names of all functions that a source defines.
fn functions(source: &Source) -> impl Iterator<Item = &str> {
    let keyword = match (source.path.ends_with(".rs"), python::is_python(source)) {
        (true, _) => Some("fn "),
        (_, true) => Some("def "),
        (false, false) => None,
    };
    source.text.lines().filter_map(move |line| {
        let (before, rest) = line.split_once(keyword?)?;
        let is_defined = before.split_whitespace().all(|word| matches!(word, "async" | "pub"));
        is_defined.then(|| rest.split('(').next().unwrap_or_default())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(cell: &str) -> Vec<String> {
        let rows = WAYS.map(|way| format!("| {way} | {cell} |\n")).join("");
        let page = format!("# Ways in\n\n## Rate\n\n| way in | test |\n|---|---|\n{rows}");
        let source = |path: &str, text: &str| Source { path: path.into(), text: text.into() };
        check(&[
            source(PAGE, &page),
            source("crates/a/tests/b.rs", "async fn the_rate_holds() {}\n// fn gone() {}"),
            source("crates/a/tests/c.py", "def test_the_rate_holds(app):\n    pass"),
        ])
    }

    #[test]
    fn a_cell_names_a_test_that_exists_or_says_why_there_is_none() {
        assert_eq!(problems("`the_rate_holds`, `test_the_rate_holds`"), Vec::<String>::new());
        assert_eq!(problems("not applicable: nothing is sent"), Vec::<String>::new());
        assert_eq!(problems("open: to be written"), Vec::<String>::new());
        for (cell, text) in [("", "names no test"), ("`gone`", "no test is called `gone`")] {
            let found = problems(cell);
            assert_eq!(found.len(), WAYS.len(), "{found:?}");
            assert!(found[0].contains("Rate, direct call") && found[0].contains(text), "{found:?}");
        }
    }

    #[test]
    fn a_rule_without_one_of_the_ways_in_is_refused() {
        let page = "# Ways in\n\n## Rate\n\n| way in | test |\n|---|---|\n| run | `a` |\n";
        let page = Source { path: PAGE.into(), text: page.into() };
        let code = Source { path: "crates/a/tests/b.rs".into(), text: "fn a() {}".into() };
        let found = check(&[page, code]);
        assert!(found.len() == 1 && found[0].contains("one row for each"), "{found:?}");
        assert_eq!(check(&[]), [format!("{PAGE}: missing")]);
    }
}
