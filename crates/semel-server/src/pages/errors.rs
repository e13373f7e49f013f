//! What each code means: the pages of `docs/errors`, from the files themselves.

use axum::http::{Method, StatusCode};
use maud::{Markup, html};
use semel_core::code::Code;

use super::layout::whole;
use super::page;
use crate::openapi::Operation;
use crate::problem::Problem;
use crate::route::{Call, Reply, Route};

// `PAGES`: code and text of each page, listed when this crate is built.
include!(concat!(env!("OUT_DIR"), "/error_pages.rs"));

pub(super) fn routes() -> Vec<Route> {
    let operation = Operation::new("error_page", "What a code means");
    vec![page(Method::GET, "/errors/{code}", operation, show)]
}

async fn show(call: Call) -> Result<Reply, Problem> {
    let code = call.param("code");
    let found = PAGES.iter().find(|(name, _)| *name == code);
    // A code that was taken out is no page, even while its file is there.
    let (name, text) = found.filter(|_| Code::parse(code).is_some()).ok_or_else(unknown)?;
    Ok(whole(StatusCode::OK, name, &html! {}, &rendered(text)))
}

fn unknown() -> Problem {
    Problem::new(Code::NotFound, "there is no such code")
}

/// The Markdown that these pages use: headings, paragraphs, lists, code, tables, links.
fn rendered(text: &str) -> Markup {
    let mut blocks: Vec<Markup> = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(title) = line.strip_prefix("# ") {
            blocks.push(html! { h1 { code { (title) } } });
        } else if let Some(title) = line.strip_prefix("## ") {
            blocks.push(html! { h2 { (inline(title)) } });
        } else if line.starts_with("```") {
            let code: Vec<&str> =
                lines.by_ref().take_while(|line| !line.starts_with("```")).collect();
            blocks.push(html! { pre { (code.join("\n")) } });
        } else if is_item(line) {
            let mut items = vec![line];
            while let Some(more) = lines.next_if(|line| is_item(line)) {
                items.push(more);
            }
            blocks.push(html! { ul { @for item in items { li { (inline(&item[2..])) } } } });
        } else if line.starts_with('|') {
            let mut rows = vec![line];
            while let Some(more) = lines.next_if(|line| line.starts_with('|')) {
                rows.push(more);
            }
            blocks.push(table(&rows));
        } else if !line.trim().is_empty() {
            let mut words = vec![line];
            let goes_on = |line: &&str| !line.trim().is_empty() && !starts_block(line);
            while let Some(more) = lines.next_if(goes_on) {
                words.push(more);
            }
            blocks.push(html! { p { (inline(&words.join(" "))) } });
        }
    }
    html! { @for block in blocks { (block) } }
}

fn is_item(line: &str) -> bool {
    line.starts_with("- ") || line.starts_with("* ")
}

fn starts_block(line: &str) -> bool {
    is_item(line) || ["# ", "## ", "```", "|"].iter().any(|mark| line.starts_with(mark))
}

fn table(rows: &[&str]) -> Markup {
    let is_rule = |row: &&&str| row.chars().all(|c| matches!(c, '|' | '-' | ':' | ' '));
    let cells = |row: &str| -> Vec<String> {
        row.trim().trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let rows: Vec<_> = rows.iter().filter(|row| !is_rule(row)).map(|row| cells(row)).collect();
    html! {
        table { @for (number, row) in rows.iter().enumerate() {
            tr { @for cell in row {
                @if number == 0 { th { (inline(cell)) } } @else { td { (inline(cell)) } }
            } }
        } }
    }
}

/// Code, strong words and links within a line. Links to other pages of ours are followed where
/// they are served; of the others only the words are left.
fn inline(text: &str) -> Markup {
    if let Some((before, rest)) = text.split_once('`')
        && let Some((code, after)) = rest.split_once('`')
    {
        return html! { (spoken(before)) code { (code) } (inline(after)) };
    }
    spoken(text)
}

fn spoken(text: &str) -> Markup {
    let link = text.split_once('[').and_then(|(before, rest)| {
        let (words, rest) = rest.split_once("](")?;
        let (target, after) = rest.split_once(')')?;
        Some((before, words, target, after))
    });
    let Some((before, words, target, after)) = link else { return html! { (text) } };
    let code = target.strip_suffix(".md").filter(|name| Code::parse(name).is_some());
    html! {
        (before)
        @match code {
            Some(code) => a href={ "/errors/" (code) } { (words) },
            None if target.starts_with("https://") => a href=(target) rel="noreferrer" { (words) },
            None => (words),
        }
        (spoken(after))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_page_and_all_of_it_is_shown() {
        for code in Code::ALL {
            let page = PAGES.iter().find(|(name, _)| *name == code.as_str());
            let (name, text) = page.unwrap_or_else(|| panic!("{code} has no page"));
            let shown = rendered(text).into_string();
            assert!(shown.contains(&format!("<h1><code>{name}</code></h1>")), "{name}: {shown}");
            assert!(shown.contains("<h2>What to do</h2>"), "{name}");
            for left_over in ["```", "](", "<p>|", "<p>- ", "<p>#"] {
                assert!(!shown.contains(left_over), "{name} shows {left_over}: {shown}");
            }
        }
    }

    #[test]
    fn what_a_page_says_cannot_become_markup() {
        let shown = rendered("a <b> `<i>`\n\n```\n<script>\n```\n\n[x](not_found.md) [y](../a.md)");
        let shown = shown.into_string();
        assert!(!shown.contains("<b>") && !shown.contains("<i>") && !shown.contains("<script>"));
        assert!(shown.contains("<a href=\"/errors/not_found\">x</a> y"), "{}", shown);
    }
}
