//! JUnit reports, as nextest and pytest write them: the test cases and how each ended.
//!
//! Not an XML parser. It knows tags, quoted attributes, the five entities, comments and CDATA;
//! whatever else it meets between a test case's tags it passes over.

use anyhow::{Context, Result, bail};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    Failed,
    Skipped,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Test {
    /// nextest: the binary, `semel-store::sqlite`. pytest: the module, `tests.test_ledger`.
    pub(crate) class: String,
    pub(crate) name: String,
    pub(crate) outcome: Outcome,
}

impl Test {
    /// The function's own name: no modules, no parameters, no `test_` that pytest asks for.
    pub(crate) fn function(&self) -> &str {
        let name = self.name.split('[').next().unwrap_or_default();
        let last = name.rsplit("::").next().unwrap_or_default();
        last.strip_prefix("test_").unwrap_or(last)
    }
}

/// All test cases of a report, in its order.
pub(crate) fn scan(report: &str) -> Result<Vec<Test>> {
    let mut tests = Vec::new();
    let mut open: Option<Test> = None;
    let mut suites = false;
    let mut rest = report;
    while let Some(start) = rest.find('<') {
        let (tag, after) = cut_tag(&rest[start..])?;
        rest = after;
        let body = tag.trim_end_matches('/');
        match body.split_whitespace().next().unwrap_or_default() {
            "testsuites" | "testsuite" => suites = true,
            "testcase" => {
                let test = Test {
                    class: attribute(body, "classname").unwrap_or_default(),
                    name: attribute(body, "name").context("a <testcase> without a name")?,
                    outcome: Outcome::Passed,
                };
                if open.is_some() {
                    bail!("<testcase> inside <testcase>: `{}`", test.name);
                }
                if tag.ends_with('/') { tests.push(test) } else { open = Some(test) }
            }
            "failure" | "error" => mark(&mut open, Outcome::Failed),
            "skipped" => mark(&mut open, Outcome::Skipped),
            _ if tag == "/testcase" => tests.extend(open.take()),
            _ => {}
        }
    }
    if let Some(test) = open {
        bail!("the report ends inside the test `{}`", test.name);
    }
    if !suites {
        bail!("not a JUnit report: no <testsuite>");
    }
    Ok(tests)
}

/// `12 passed, 0 failed`.
pub(crate) fn tally(tests: &[Test]) -> String {
    let count = |outcome| tests.iter().filter(|test| test.outcome == outcome).count();
    format!("{} passed, {} failed", count(Outcome::Passed), count(Outcome::Failed))
}

/// Cuts one tag off the text, which starts with `<`: what is between the brackets, and the rest.
/// A comment or a CDATA section counts as one tag without a name.
fn cut_tag(text: &str) -> Result<(&str, &str)> {
    for (start, end) in [("<!--", "-->"), ("<![CDATA[", "]]>")] {
        if text.starts_with(start) {
            let length = text.find(end).with_context(|| format!("`{start}` is never closed"))?;
            return Ok(("", &text[length + end.len()..]));
        }
    }
    let mut quote = None;
    for (at, sign) in text.char_indices() {
        match (quote, sign) {
            (None, '"' | '\'') => quote = Some(sign),
            (None, '>') => return Ok((&text[1..at], &text[at + 1..])),
            (Some(open), _) if open == sign => quote = None,
            (None | Some(_), _) => {}
        }
    }
    bail!("a tag is never closed: {}", text.lines().next().unwrap_or_default())
}

/// The value of one attribute. The name must stand alone: `classname` does not answer for `name`.
fn attribute(tag: &str, wanted: &str) -> Option<String> {
    let mut rest = tag.split_once(char::is_whitespace)?.1;
    loop {
        let (name, after) = rest.split_once('=')?;
        let after = after.trim_start();
        let quote = after.chars().next().filter(|sign| matches!(sign, '"' | '\''))?;
        let (value, after) = after[1..].split_once(quote)?;
        if name.trim() == wanted {
            return Some(unescape(value));
        }
        rest = after;
    }
}

fn unescape(text: &str) -> String {
    let plain = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
    // The ampersand last, so that `&amp;lt;` stays the text `&lt;`.
    plain.replace("&apos;", "'").replace("&amp;", "&")
}

fn mark(open: &mut Option<Test>, outcome: Outcome) {
    if let Some(test) = open {
        // A test that failed and was then skipped has failed.
        if test.outcome != Outcome::Failed {
            test.outcome = outcome;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &str, want: &str) {
        let report = format!("<?xml version=\"1.0\"?>\n<testsuite>{body}</testsuite>");
        let got = match scan(&report) {
            Ok(tests) => {
                let lines = tests.iter().map(|test| {
                    format!("{} {} {:?}", test.class, test.name, test.outcome).to_lowercase()
                });
                lines.collect::<Vec<_>>().join("; ")
            }
            Err(error) => format!("{error}"),
        };
        assert_eq!(got, want, "for {body}");
    }

    #[test]
    fn outcome_is_read_from_the_children() {
        check(
            r#"<testcase name="a::b" classname="core" time="0.1"></testcase>"#,
            "core a::b passed",
        );
        check(r#"<testcase classname="core" name="b"/>"#, "core b passed");
        check(
            r#"<testcase name="b" classname="c"><failure type="test failure">x</failure></testcase>
               <testcase name="d" classname="c"><error message="y"/></testcase>
               <testcase name="e" classname="c"><skipped message="z"/></testcase>
               <testcase name="f" classname="c"><system-out>&lt;error&gt;</system-out></testcase>"#,
            "c b failed; c d failed; c e skipped; c f passed",
        );
        check(r#"<testcase name="b" classname="c"><failure/><skipped/></testcase>"#, "c b failed");
    }

    #[test]
    fn text_that_looks_like_tags_is_not_taken_for_tags() {
        check(
            r#"<testcase name="b" classname="c"><!-- <failure> --><system-err>
               <![CDATA[<error/>]]></system-err></testcase>"#,
            "c b passed",
        );
        check(
            r#"<testcase name="a[<x> &amp;lt; &quot;]" classname='c'/>"#,
            "c a[<x> &lt; \"] passed",
        );
        check(r#"<testcase name="a" note="name='b'" classname="c>d"/>"#, "c>d a passed");
    }

    #[test]
    fn a_broken_report_is_refused() {
        check(r#"<testcase classname="c"/>"#, "a <testcase> without a name");
        check(r#"<testcase name="a">"#, "the report ends inside the test `a`");
        check(r#"<testcase name="a"><testcase name="b"/>"#, "<testcase> inside <testcase>: `b`");
        check("<testcase name=\"a", "a tag is never closed: <testcase name=\"a</testsuite>");
        assert!(scan("").is_err());
        assert!(scan("502 Bad Gateway").is_err());
    }

    #[test]
    fn function_is_the_last_segment() {
        let check = |name: &str, want: &str| {
            let test =
                Test { class: String::new(), name: name.to_owned(), outcome: Outcome::Passed };
            assert_eq!(test.function(), want);
        };
        check("key::tests::req_k1_same", "req_k1_same");
        check("req_k1_same", "req_k1_same");
        check("test_req_k1_same[a::b]", "req_k1_same");
    }

    #[test]
    fn skipped_tests_are_neither_passed_nor_failed() {
        let test = |outcome| Test { class: String::new(), name: String::new(), outcome };
        let tests = [Outcome::Passed, Outcome::Passed, Outcome::Failed, Outcome::Skipped].map(test);
        assert_eq!(tally(&tests), "2 passed, 1 failed");
    }
}
