//! The house rules for the Python side that ruff does not check: what it may depend on, and how.

use std::collections::BTreeSet;

use super::{find, is_word, words};
use crate::tree::Source;

/// `<name>.in` has what is wanted, `<name>.txt` what is installed.
const FOLDER: &str = "crates/semel-py/requirements/";

pub(super) fn check(sources: &[Source]) -> Vec<String> {
    [check_named, check_pinned].iter().flat_map(|check| check(sources)).collect()
}

pub(super) fn is_python(source: &Source) -> bool {
    source.path.ends_with(".py") || source.path.ends_with(".pyi")
}

/// Every package that is asked for has its reason in ARCHITECTURE.md.
fn check_named(sources: &[Source]) -> Vec<String> {
    let page = find(sources, "ARCHITECTURE.md").unwrap_or_default();
    let named: BTreeSet<&str> = words(page).collect();
    let wanted: BTreeSet<&str> =
        files(sources, ".in").flat_map(|(_, source)| packages(&source.text)).collect();
    let missing = wanted.difference(&named);
    missing.map(|name| format!("ARCHITECTURE.md: does not name the dependency `{name}`")).collect()
}

/// A lock file has exact versions and nothing else: no ranges, no addresses. It has all that its
/// list asks for.
fn check_pinned(sources: &[Source]) -> Vec<String> {
    let mut problems = Vec::new();
    for (_, lock) in files(sources, ".txt") {
        let loose = lines(&lock.text).filter(|line| !is_pin(line));
        problems.extend(loose.map(|line| format!("{}: not a pin: `{line}`", lock.path)));
    }
    for (stem, list) in files(sources, ".in") {
        let path = format!("{FOLDER}{stem}.txt");
        let pinned: BTreeSet<&str> = packages(find(sources, &path).unwrap_or_default()).collect();
        let missing = packages(&list.text).filter(|name| !pinned.contains(name));
        problems.extend(
            missing.map(|name| format!("{path}: does not pin `{name}`; run `scripts/lock`")),
        );
    }
    problems
}

fn files<'a>(
    sources: &'a [Source],
    ending: &'a str,
) -> impl Iterator<Item = (&'a str, &'a Source)> {
    sources.iter().filter_map(move |source| {
        let stem = source.path.strip_prefix(FOLDER)?.strip_suffix(ending)?;
        Some((stem, source))
    })
}

/// The names without extras and versions; `-r other.in` names none.
fn packages(text: &str) -> impl Iterator<Item = &str> {
    let names = lines(text).filter(|line| !line.starts_with('-'));
    names.map(|line| line.split(|sign| !is_word(sign)).next().unwrap_or_default())
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

fn is_pin(line: &str) -> bool {
    let is_version = |sign: char| sign.is_ascii_alphanumeric() || ".+!".contains(sign);
    line.split_once("==").is_some_and(|(name, version)| {
        !name.is_empty()
            && name.chars().all(|sign| is_word(sign) || sign == '.')
            && !version.is_empty()
            && version.chars().all(is_version)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(files: &[(&str, &str)], want: &[&str]) {
        let sources = files.iter().map(|(path, text)| Source {
            path: path.replace("@/", FOLDER),
            text: (*text).to_owned(),
        });
        assert_eq!(super::check(&sources.collect::<Vec<_>>()), want, "for {files:?}");
    }

    #[test]
    fn every_python_package_is_named_in_the_architecture() {
        let list = ("@/test.in", "# tools\n-r examples.in\npyright[nodejs]\npytest>=9\n");
        let lock = ("@/test.txt", "pyright==1\npytest==9.1\n");
        let page = ("ARCHITECTURE.md", "pyright, (pytest-asyncio)");
        check(&[list, lock, page], &["ARCHITECTURE.md: does not name the dependency `pytest`"]);
        check(&[list, lock, ("ARCHITECTURE.md", "`pyright`, pytest")], &[]);
    }

    #[test]
    fn a_lock_file_has_exact_versions_of_all_that_is_asked_for() {
        let page = ("ARCHITECTURE.md", "a-b c");
        let list = ("@/build.in", "a-b\nc[x]\n");
        check(
            &[page, list, ("@/build.txt", "# made\na-b==1.0.post1\nc==2!1+local\nd.e==3\n")],
            &[],
        );
        for loose in ["c>=1", "c", "c==1.*", "c==", "-e .", "--index-url https://a/b", "c @ file:x"]
        {
            let text = format!("a-b==1\nc==1\n{loose}\n");
            let want = format!("crates/semel-py/requirements/build.txt: not a pin: `{loose}`");
            check(&[page, list, ("@/build.txt", &text)], &[&want]);
        }
        let want = "crates/semel-py/requirements/build.txt: does not pin `c`; run `scripts/lock`";
        check(&[page, list, ("@/build.txt", "a-b==1\n")], &[want]);
    }
}
