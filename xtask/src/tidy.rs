//! The house rules that neither compiler nor clippy checks. Each is a function over the sources.

mod python;
mod ways_in;

use std::collections::BTreeSet;

use crate::tree::Source;

const FILE_LINES_WISHED: usize = 400;
const FILE_LINES_MAX: usize = 800;
const LINE_COLUMNS_MAX: usize = 100;

/// Ends a line that must be long, such as a golden vector.
const LONG_LINE_MARK: &str = "// tidy: long";

/// Core's stored and sent shapes. Everything else stays free to change.
/// What is at rest or in flight, and the two values that are part of both.
const SERDE_FILES: &[&str] = &[
    "declare.rs",
    "lint.rs",
    "spec.rs",
    "suspects.rs",
    "suspects/report.rs",
    "journal.rs",
    "access.rs",
    "approval_link.rs",
    "wire.rs",
    "wire_answer.rs",
    "wire_ask.rs",
    "wire_ask/gate.rs",
    "wire_ask/people.rs",
    "wire_ask/runs.rs",
    "wire_release.rs",
    "wire_run.rs",
    "wire_schedule.rs",
    "wire_trigger.rs",
    "record.rs",
    "run/record.rs",
    "schedule.rs",
    "recipes.rs",
    "entity.rs",
    "gate.rs",
    "hook/deliveries.rs",
    "hook/trigger.rs",
    "release.rs",
    "repeats.rs",
    "proof/document.rs",
    "proof/evidence.rs",
    "proof/statement.rs",
    "json.rs",
    "time.rs",
    "check/record.rs",
    "audit.rs",
    "verify/head.rs",
];

/// Written in halves, so that this file keeps its own rules.
const HOMES: [&str; 4] = [
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
    concat!("/Us", "ers/"),
    concat!("\\Us", "ers\\"),
];
const ALLOWS: [&str; 2] = [concat!("#[", "allow("), concat!("#![", "allow(")];

#[derive(Default)]
pub(crate) struct Findings {
    pub(crate) warnings: Vec<String>,
    pub(crate) problems: Vec<String>,
}

pub(crate) fn check(sources: &[Source]) -> Findings {
    let mut findings = Findings::default();
    check_file_length(sources, &mut findings);
    findings.problems.extend(python::check(sources));
    findings.problems.extend(ways_in::check(sources));
    findings.warnings.extend(ways_in::open(sources));
    let checks = [
        check_columns,
        check_serde,
        check_dependencies,
        check_error_pages,
        check_allow,
        check_home_paths,
        check_once,
    ];
    findings.problems.extend(checks.iter().flat_map(|check| check(sources)));
    findings
}

fn check_file_length(sources: &[Source], findings: &mut Findings) {
    for source in sources.iter().filter(|source| is_rust(source) || python::is_python(source)) {
        let path = &source.path;
        let count = source.text.lines().count();
        if count > FILE_LINES_MAX {
            findings.problems.push(format!("{path}: {count} lines, over {FILE_LINES_MAX}"));
        } else if count > FILE_LINES_WISHED {
            findings.warnings.push(format!("{path}: {count} lines, over {FILE_LINES_WISHED}"));
        }
    }
}

fn check_columns(sources: &[Source]) -> Vec<String> {
    on_lines(sources, is_rust, |line| {
        let count = line.chars().count();
        let bad = count > LINE_COLUMNS_MAX && !line.ends_with(LONG_LINE_MARK);
        bad.then(|| format!("{count} columns, over {LINE_COLUMNS_MAX}"))
    })
}

fn check_serde(sources: &[Source]) -> Vec<String> {
    let mut problems = Vec::new();
    for source in sources {
        let Some(file) = source.path.strip_prefix("crates/semel-core/src/") else { continue };
        if SERDE_FILES.contains(&file) || !is_rust(source) {
            continue;
        }
        // A derive may span lines, so it is read up to its bracket.
        let derives = source.text.split("derive(").skip(1);
        let lists = derives.map(|rest| rest.split(')').next().unwrap_or_default());
        if lists.flat_map(words).any(|word| matches!(word, "Serialize" | "Deserialize")) {
            let homes = SERDE_FILES.join(", ");
            problems.push(format!("{}: derives serde; in core only {homes} may", source.path));
        }
    }
    problems
}

fn check_dependencies(sources: &[Source]) -> Vec<String> {
    let page = find(sources, "ARCHITECTURE.md").unwrap_or_default();
    let named: BTreeSet<&str> = words(page).collect();
    let manifest = find(sources, "Cargo.toml").unwrap_or_default();
    let missing = outside_dependencies(manifest).into_iter().filter(|name| !named.contains(name));
    missing.map(|name| format!("ARCHITECTURE.md: does not name the dependency `{name}`")).collect()
}

/// The names under `[workspace.dependencies]` that are not our own crates.
fn outside_dependencies(manifest: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut inside = false;
    for line in manifest.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            inside = section.starts_with("workspace.dependencies]");
            let own_table = section.strip_prefix("workspace.dependencies.");
            names.extend(own_table.and_then(|rest| rest.strip_suffix(']')));
        } else if inside && !line.starts_with('#') && !line.contains("path = ") {
            // `name = …` or `name.workspace = …`.
            let name = line.split_once('=').map(|(name, _)| name.trim().trim_matches('"'));
            names.extend(name.map(|name| name.split('.').next().unwrap_or_default()));
        }
    }
    names
}

fn check_error_pages(sources: &[Source]) -> Vec<String> {
    let code_file = "crates/semel-core/src/code.rs";
    let codes = codes(find(sources, code_file).unwrap_or_default());
    let pages: BTreeSet<&str> = sources.iter().filter_map(error_page).collect();
    let mut problems = Vec::new();
    if codes.is_empty() {
        // Were this silent, a renamed file would switch the check off.
        problems.push(format!("{code_file}: no refusal codes found"));
    }
    let unexplained = codes.difference(&pages);
    problems.extend(unexplained.map(|code| format!("docs/errors/{code}.md: missing")));
    let orphans = pages.difference(&codes);
    problems.extend(orphans.map(|page| format!("docs/errors/{page}.md: no such refusal code")));
    problems
}

/// The refusal codes: every `=> "snake_case"` before the file's tests.
fn codes(text: &str) -> BTreeSet<&str> {
    let rules = text.split("#[cfg(test)]").next().unwrap_or_default();
    let strings = rules.split("=> \"").skip(1).filter_map(|rest| rest.split('"').next());
    let snake = |code: &&str| {
        !code.is_empty() && code.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_'))
    };
    strings.filter(snake).collect()
}

fn error_page(source: &Source) -> Option<&str> {
    let name = source.path.strip_prefix("docs/errors/")?.strip_suffix(".md")?;
    (name != "README").then_some(name)
}

fn check_allow(sources: &[Source]) -> Vec<String> {
    on_lines(sources, is_rust, |line| {
        let code = line.split("//").next().unwrap_or_default();
        // A module that several test binaries share is used in part by each: nothing to expect.
        let is_shared = code.starts_with("#![") && code.contains("dead_code, reason");
        let bad = !is_shared && ALLOWS.iter().any(|allow| code.contains(allow));
        bad.then(|| "use #[expect(…, reason = \"…\")], which tells when it is over".to_owned())
    })
}

fn check_home_paths(sources: &[Source]) -> Vec<String> {
    let all = |_: &Source| true;
    on_lines(sources, all, |line| {
        let bad = HOMES.iter().any(|home| {
            line.match_indices(home).any(|(at, _)| {
                // In `example.org/home/` the word is part of a longer path, not the machine's.
                let before = line[..at].chars().next_back();
                home.starts_with('\\') || !before.is_some_and(|c| is_word(c) || c == '.')
            })
        });
        bad.then(|| "an absolute path of one machine".to_owned())
    })
}

fn check_once(sources: &[Source]) -> Vec<String> {
    let is_page = |source: &Source| source.path.ends_with(".md");
    on_lines(sources, is_page, |line| {
        let line = line.to_lowercase().replace('-', " ");
        let bad = line.contains("exactly once") && !line.contains("transaction");
        bad.then(|| "\"exactly once\" without its class, `transaction`".to_owned())
    })
}

/// Applies a rule to every line of the chosen sources; findings carry the place.
fn on_lines(
    sources: &[Source],
    chosen: impl Fn(&Source) -> bool,
    rule: impl Fn(&str) -> Option<String>,
) -> Vec<String> {
    let mut problems = Vec::new();
    for source in sources.iter().filter(|source| chosen(source)) {
        for (number, line) in source.text.lines().enumerate() {
            let problem = rule(line);
            problems.extend(problem.map(|text| format!("{}:{}: {text}", source.path, number + 1)));
        }
    }
    problems
}

fn is_rust(source: &Source) -> bool {
    let path = &source.path;
    let ours = ["crates/", "examples/", "xtask/"];
    path.ends_with(".rs") && ours.iter().any(|folder| path.starts_with(folder))
}

fn find<'a>(sources: &'a [Source], path: &str) -> Option<&'a str> {
    sources.iter().find(|source| source.path == path).map(|source| source.text.as_str())
}

/// Words in the sense of crate names: `tracing-subscriber` is one word and does not name `tracing`.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|sign: char| !is_word(sign)).filter(|word| !word.is_empty())
}

fn is_word(sign: char) -> bool {
    sign.is_alphanumeric() || sign == '_' || sign == '-'
}

#[cfg(test)]
mod tests {
    use super::*;

    type Rule = fn(&[Source]) -> Vec<String>;

    fn source(path: &str, text: &str) -> Source {
        Source { path: path.to_owned(), text: text.to_owned() }
    }

    fn check(rule: Rule, files: &[(&str, &str)], want: &[&str]) {
        let sources: Vec<Source> = files.iter().map(|(path, text)| source(path, text)).collect();
        assert_eq!(rule(&sources), want, "for {files:?}");
    }

    #[test]
    fn long_files_are_warned_of_then_refused() {
        let length = |path: &str, count: usize| {
            let mut findings = Findings::default();
            check_file_length(&[source(path, &"x\n".repeat(count))], &mut findings);
            (findings.warnings, findings.problems)
        };
        assert_eq!(length("crates/a/src/b.rs", 400), (vec![], vec![]));
        let warned = vec!["crates/a/src/b.rs: 401 lines, over 400".to_owned()];
        assert_eq!(length("crates/a/src/b.rs", 401), (warned, vec![]));
        let refused = vec!["xtask/src/b.rs: 801 lines, over 800".to_owned()];
        assert_eq!(length("xtask/src/b.rs", 801), (vec![], refused));
        let refused = vec!["crates/a/python/b.py: 801 lines, over 800".to_owned()];
        assert_eq!(length("crates/a/python/b.py", 801), (vec![], refused));
        assert_eq!(length("docs/a.md", 801), (vec![], vec![]));
    }

    #[test]
    fn long_lines_are_refused_unless_marked() {
        // Columns, not bytes.
        let line = "é".repeat(100);
        check(check_columns, &[("crates/a/src/b.rs", &line)], &[]);
        let long = format!("\n{line}é");
        check(
            check_columns,
            &[("crates/a/src/b.rs", &long)],
            &["crates/a/src/b.rs:2: 101 columns, over 100"],
        );
        check(check_columns, &[("docs/a.md", &long)], &[]);
        let marked = format!("{line}{LONG_LINE_MARK}");
        check(check_columns, &[("crates/a/src/b.rs", &marked)], &[]);
    }

    #[test]
    fn core_derives_serde_only_at_its_edges() {
        let derive = "#[derive(\n    Debug,\n    serde::Serialize,\n)]\nstruct A;";
        let homes = SERDE_FILES.join(", ");
        let want = format!("crates/semel-core/src/key.rs: derives serde; in core only {homes} may");
        check(check_serde, &[("crates/semel-core/src/key.rs", derive)], &[&want]);
        check(check_serde, &[("crates/semel-core/src/wire.rs", derive)], &[]);
        check(check_serde, &[("crates/semel-cli/src/key.rs", derive)], &[]);
        let plain = "use serde::Serialize;\n#[derive(Debug)]\nstruct A;\nfn f<T: Serialize>() {}";
        check(check_serde, &[("crates/semel-core/src/key.rs", plain)], &[]);
    }

    #[test]
    fn every_dependency_is_named_in_the_architecture() {
        let manifest = "[workspace.dependencies]\n# tools\nours = { path = \"crates/ours\" }\n\
                        anyhow = \"1\"\ntracing = { version = \"0.1\" }\n\n\
                        [workspace.dependencies.uuid]\nversion = \"1\"\n[profile.dev]\ndebug = 1\n";
        check(
            check_dependencies,
            &[("Cargo.toml", manifest), ("ARCHITECTURE.md", "`anyhow`, tracing-subscriber.")],
            &[
                "ARCHITECTURE.md: does not name the dependency `tracing`",
                "ARCHITECTURE.md: does not name the dependency `uuid`",
            ],
        );
        let all = ("ARCHITECTURE.md", "`anyhow`, (tracing), uuid.");
        check(check_dependencies, &[("Cargo.toml", manifest), all], &[]);
    }

    #[test]
    fn every_refusal_code_has_a_page_and_every_page_a_code() {
        let code = "match self {\n    A => \"input_changed\",\n    B => \"Try again.\",\n\
                    }\n#[cfg(test)]\nmod tests { match x { 1 => \"not_a_code\" } }";
        let file = ("crates/semel-core/src/code.rs", code);
        let page = ("docs/errors/input_changed.md", "");
        check(check_error_pages, &[file, page, ("docs/errors/README.md", "")], &[]);
        check(
            check_error_pages,
            &[file, ("docs/errors/gone.md", "")],
            &["docs/errors/input_changed.md: missing", "docs/errors/gone.md: no such refusal code"],
        );
        check(check_error_pages, &[], &["crates/semel-core/src/code.rs: no refusal codes found"]);
    }

    #[test]
    fn lints_are_expected_not_allowed() {
        let want = "use #[expect(…, reason = \"…\")], which tells when it is over";
        for allow in ALLOWS {
            let text = format!("    {allow}dead_code)]");
            let found = format!("crates/a/src/b.rs:1: {want}");
            check(check_allow, &[("crates/a/src/b.rs", &text)], &[&found]);
            let comment = format!("// {allow}dead_code)]");
            check(check_allow, &[("crates/a/src/b.rs", &comment)], &[]);
        }
        check(check_allow, &[("crates/a/src/b.rs", "#[expect(dead_code, reason = \"\")]")], &[]);
    }

    #[test]
    fn no_machine_shows_in_paths() {
        for home in HOMES {
            let text = format!("see \"{home}me/notes\"");
            let want = "docs/a.txt:1: an absolute path of one machine";
            check(check_home_paths, &[("docs/a.txt", &text)], &[want]);
        }
        let url = format!("https://example.org{}page, ./target{}x", HOMES[0], HOMES[1]);
        check(check_home_paths, &[("docs/a.txt", &url)], &[]);
    }

    #[test]
    fn exactly_once_is_said_only_of_transactions() {
        let want = "README.md:1: \"exactly once\" without its class, `transaction`";
        check(check_once, &[("README.md", "Exactly-once delivery")], &[want]);
        check(check_once, &[("README.md", "`transaction`: exactly once")], &[]);
        check(check_once, &[("crates/a/src/b.rs", "exactly once")], &[]);
    }

    #[test]
    fn check_runs_every_rule() {
        let bad = format!("{}{}\n", "x".repeat(101), ALLOWS[0]);
        let sources = [
            source("Cargo.toml", "[workspace.dependencies]\nanyhow = \"1\""),
            source("README.md", &format!("exactly once, see {}me", HOMES[0])),
            source("crates/semel-core/src/key.rs", &bad.repeat(801)),
            source("crates/semel-core/src/run.rs", "#[derive(Serialize)]"),
            source("crates/semel-py/requirements/test.txt", "pytest>=9"),
        ];
        let problems = super::check(&sources).problems;
        for part in [
            "over 800", "over 100", "serde", "anyhow", "refusal", "expect", "machine", "once",
            "pin", "ways-in",
        ] {
            assert!(problems.iter().any(|problem| problem.contains(part)), "no {part}");
        }
    }
}
