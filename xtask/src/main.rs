//! The project's chores. `cargo xtask` lists them; the Makefile calls them.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command's answer is its output")]

mod junit;
mod postgres;
mod requirements;
mod tidy;
mod tree;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

const USAGE: &str = "\
Usage: cargo xtask <chore>

  tidy                                check the house rules that no compiler checks
  requirements [--report <junit>]...  row, tests, result; fails on gaps
  postgres -- <command>...            run a command with a throw-away Postgres beside it
";

/// What the test profile `ci` writes.
const REPORT_DEFAULT: &str = "target/nextest/ci/junit.xml";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Runs one chore. Code 1 means it found something to mend.
fn run(args: &[String]) -> Result<ExitCode> {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["tidy"] => check_tidy(&root()?).map(code),
        ["requirements", rest @ ..] => check_requirements(&root()?, rest).map(code),
        ["postgres", "--", command @ ..] => postgres::run(command),
        [] | ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            Ok(ExitCode::SUCCESS)
        }
        [other, ..] => bail!("no such chore: `{other}`\n\n{USAGE}"),
    }
}

fn code(is_fine: bool) -> ExitCode {
    if is_fine { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

fn check_tidy(root: &Path) -> Result<bool> {
    let sources = tree::load(root)?;
    let findings = tidy::check(&sources);
    for warning in &findings.warnings {
        eprintln!("warning: {warning}");
    }
    for problem in &findings.problems {
        eprintln!("error: {problem}");
    }
    println!("tidy: {} files, {} problems", sources.len(), findings.problems.len());
    Ok(findings.problems.is_empty())
}

fn check_requirements(root: &Path, args: &[&str]) -> Result<bool> {
    let page = read(&root.join("docs/requirements.md"))?;
    let mut tests = Vec::new();
    for report in reports(args)? {
        let text = read(&root.join(&report)).context("run `make test` to write the report")?;
        tests.extend(junit::scan(&text).with_context(|| format!("reading {report}"))?);
    }
    let rows = requirements::parse(&page).context("reading docs/requirements.md")?;
    let verdict = requirements::judge(&rows, &tests);

    let target = root.join("target");
    std::fs::create_dir_all(&target)?;
    std::fs::write(target.join("requirements.md"), &verdict.page)?;
    print!("{}", verdict.page);
    for problem in &verdict.problems {
        eprintln!("error: {problem}");
    }
    // Last and alone on its line: whoever reads only the end of `make test` reads this.
    println!("{}", junit::tally(&tests));
    Ok(verdict.problems.is_empty())
}

fn reports(args: &[&str]) -> Result<Vec<String>> {
    let mut reports = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match (*arg, arg.strip_prefix("--report=")) {
            (_, Some(path)) => reports.push(path.to_owned()),
            ("--report", None) => {
                let path = args.next().context("`--report` needs a path")?;
                reports.push((*path).to_owned());
            }
            (other, None) => bail!("unknown argument `{other}`\n\n{USAGE}"),
        }
    }
    if reports.is_empty() {
        reports.push(REPORT_DEFAULT.to_owned());
    }
    Ok(reports)
}

/// The workspace's folder. Cargo names this crate's folder at run time, so a moved checkout works.
fn root() -> Result<PathBuf> {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").context("run this as `cargo xtask`")?;
    let root = Path::new(&here).parent().context("xtask has no parent folder")?;
    Ok(root.to_owned())
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_reports_are_taken_and_one_is_assumed() {
        assert_eq!(reports(&[]).unwrap(), [REPORT_DEFAULT]);
        assert_eq!(reports(&["--report", "a.xml", "--report=b.xml"]).unwrap(), ["a.xml", "b.xml"]);
        assert!(reports(&["--report"]).is_err());
        assert!(reports(&["a.xml"]).is_err());
    }
}
