//! The report as JUnit XML, which build servers read.

use std::fmt::Write;

use super::record::{Report, Verdict};
use super::report::seconds;

impl Report {
    /// One suite, one test per case.
    pub fn junit(&self) -> String {
        let (name, tests) = (escaped(&self.workflow), self.verdicts.len());
        let (failures, time) = (self.failures().count(), seconds(self.ms));
        let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        let _ = writeln!(
            xml,
            "<testsuite name=\"semel check {name}\" tests=\"{tests}\" failures=\"{failures}\" \
             time=\"{time}\">"
        );
        for verdict in &self.verdicts {
            xml.push_str(&test_case(&name, verdict));
        }
        xml.push_str("</testsuite>\n");
        xml
    }
}

fn test_case(class: &str, verdict: &Verdict) -> String {
    let (name, time) = (escaped(&verdict.name), seconds(verdict.ms));
    let open = format!("  <testcase classname=\"{class}\" name=\"{name}\" time=\"{time}\"");
    let text = escaped(&verdict.text());
    if verdict.is_ok {
        return format!("{open}>\n    <system-out>{text}</system-out>\n  </testcase>\n");
    }
    let message = escaped(&format!("{}: {}", verdict.outcome.as_str(), verdict.detail));
    format!("{open}>\n    <failure message=\"{message}\">{text}</failure>\n  </testcase>\n")
}

/// As text or as a quoted value. What XML cannot say at all becomes a mark.
fn escaped(text: &str) -> String {
    let mut xml = String::with_capacity(text.len());
    for sign in text.chars() {
        match sign {
            '&' => xml.push_str("&amp;"),
            '<' => xml.push_str("&lt;"),
            '>' => xml.push_str("&gt;"),
            '"' => xml.push_str("&quot;"),
            '\'' => xml.push_str("&apos;"),
            '\n' | '\t' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'.. => {
                xml.push(sign);
            }
            _ => xml.push('\u{fffd}'),
        }
    }
    xml
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn what_xml_gives_a_meaning_is_escaped_and_what_it_forbids_is_marked() {
        assert_eq!(escaped("a<b> & \"c\" 'd'"), "a&lt;b&gt; &amp; &quot;c&quot; &apos;d&apos;");
        assert_eq!(escaped("a\u{0}b\u{1b}[1m\u{ffff}"), "a\u{fffd}b\u{fffd}[1m\u{fffd}");
        assert_eq!(escaped("é\n\t猫🐈"), "é\n\t猫🐈");
    }
}
