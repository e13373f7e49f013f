//! How what others wrote is shown: exactly, and so that nothing in it can hide.

use maud::{Markup, html};

/// A text with everything made visible that could hide, reorder or imitate something.
pub(super) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => shown.push(c),
            c if is_hidden(c) => shown.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
            c => shown.push(c),
        }
    }
    shown
}

/// Controls, what has no width, what turns the direction of writing, and tags.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// JSON with line breaks and indents between its tokens. The tokens themselves stay as they are:
/// numbers that no float can hold, the order of members, members of the same name.
pub(super) fn pretty(json: &str) -> String {
    let mut shown = String::with_capacity(json.len() * 2);
    let mut depth = 0_usize;
    let mut rest = json.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' => {
                shown.push(c);
                let mut is_escaped = false;
                for c in rest.by_ref() {
                    shown.push(c);
                    if c == '"' && !is_escaped {
                        break;
                    }
                    is_escaped = c == '\\' && !is_escaped;
                }
            }
            '{' | '[' => {
                shown.push(c);
                while rest.next_if(char::is_ascii_whitespace).is_some() {}
                if let Some(end) = rest.next_if(|next| matches!(next, '}' | ']')) {
                    shown.push(end);
                } else {
                    depth += 1;
                    new_line(&mut shown, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut shown, depth);
                shown.push(c);
            }
            ',' => {
                shown.push(c);
                new_line(&mut shown, depth);
            }
            ':' => shown.push_str(": "),
            c if c.is_ascii_whitespace() => {}
            c => shown.push(c),
        }
    }
    shown
}

fn new_line(shown: &mut String, depth: usize) {
    shown.push('\n');
    // Deep nesting must not fill the page with blanks.
    (0..depth.min(40)).for_each(|_| shown.push_str("  "));
}

/// One line of a list of facts.
pub(super) fn fact(name: &str, value: &str) -> Markup {
    html! { dt { (name) } dd { (visible(value)) } }
}

/// The same where there is something to tell.
pub(super) fn fact_if(name: &str, value: Option<&String>) -> Markup {
    html! { @if let Some(value) = value { (fact(name, value)) } }
}

/// A word about a state, coloured by it.
pub(super) fn badge(state: &str) -> Markup {
    html! { span class={ "badge " (state) } { (state.replace('_', " ")) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sec_42_a_payload_is_laid_out_without_changing_a_token() {
        let text = r#"{"n":9007199254740993,"n":1.0,"s":"a, \"b\": {","e":{},"l":[1, 2]}"#;
        let want = "{\n  \"n\": 9007199254740993,\n  \"n\": 1.0,\n  \"s\": \"a, \\\"b\\\": {\",\n  \
                    \"e\": {},\n  \"l\": [\n    1,\n    2\n  ]\n}";
        assert_eq!(pretty(text), want);
        assert_eq!(pretty("\"a\\\\\""), "\"a\\\\\"");
        assert_eq!(pretty("null"), "null");
    }

    #[test]
    fn sec_42_nothing_in_a_payload_can_hide_or_turn_round() {
        assert_eq!(
            visible("pay \u{202e}01\u{202c}\u{0} a\nb"),
            "pay \\u{202e}01\\u{202c}\\u{0} a\nb"
        );
        assert_eq!(visible("a\u{200b}b\u{e0041}"), "a\\u{200b}b\\u{e0041}");
        assert_eq!(visible("ärger 日本 🙂"), "ärger 日本 🙂");
    }
}
