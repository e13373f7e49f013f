//! The header `Idempotency-Key`: bare, as every client sends it, or quoted, as the draft has it.
//! Both name the same intent.

use crate::key::{Key, KeyInvalid};

/// The key that the lines of the header name. No line is no key; more than one, or a list, is not
/// joined: nobody could say which of them was meant.
pub fn read(lines: &[&[u8]]) -> Result<Option<Key>, KeyInvalid> {
    text(lines)?.map(|text| Key::from_text(&text)).transpose()
}

/// The same as the text that it is.
pub fn text(lines: &[&[u8]]) -> Result<Option<String>, KeyInvalid> {
    let invalid = |why| Err(KeyInvalid { why });
    let line = match lines {
        [] => return Ok(None),
        [line] => line,
        _ => return invalid("the header Idempotency-Key was sent more than once"),
    };
    let printable = |byte: &u8| (b' '..=b'~').contains(byte);
    let Some(text) = std::str::from_utf8(line).ok().filter(|_| line.iter().all(printable)) else {
        return invalid("the header Idempotency-Key has a byte that is not printable ASCII");
    };
    let text = text.trim_matches(' ');
    let text = match text.strip_prefix('"') {
        Some(rest) => quoted(rest)?,
        None if text.contains(',') => return invalid("the header Idempotency-Key is a list"),
        None if text.contains('"') => {
            return invalid("the header Idempotency-Key has a stray quote");
        }
        None => text.to_owned(),
    };
    Ok(Some(text))
}

/// What stands between the quotes of a structured string.
fn quoted(rest: &str) -> Result<String, KeyInvalid> {
    let invalid = |why| Err(KeyInvalid { why });
    let mut text = String::new();
    let mut characters = rest.chars();
    loop {
        match characters.next() {
            None => return invalid("the header Idempotency-Key has no closing quote"),
            Some('"') => break,
            Some('\\') => match characters.next() {
                Some(escaped @ ('"' | '\\')) => text.push(escaped),
                _ => return invalid("the header Idempotency-Key has an unknown escape"),
            },
            Some(plain) => text.push(plain),
        }
    }
    match characters.next() {
        None => Ok(text),
        Some(_) => invalid("the header Idempotency-Key has something behind its closing quote"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(lines: &[&str], want: Option<&str>) {
        let lines: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
        let read =
            read(&lines).ok().map(|key| key.map_or(String::new(), |key| key.as_str().into()));
        assert_eq!(read.as_deref(), want, "{lines:?}");
    }

    #[test]
    fn case_k2_bare_and_quoted_are_one_key() {
        check(&["abc"], Some("abc"));
        check(&["\"abc\""], Some("abc"));
        check(&[" abc "], Some("abc"));
        check(&["\"a\\\"b\\\\c\""], Some("a\"b\\c"));
        check(&["\"a,b\""], Some("a%2Cb"));
        check(&[], Some(""));
    }

    #[test]
    fn case_k3_a_key_that_looks_like_a_number_is_text() {
        check(&["0815"], Some("0815"));
        check(
            &["9e107d9d-372b-4b6c-8d1f-2f76c66d35ca"],
            Some("9e107d9d-372b-4b6c-8d1f-2f76c66d35ca"),
        );
    }

    #[test]
    fn case_k4_k6_k7_what_is_no_key_is_refused() {
        let wrong: [&[&str]; 13] = [
            &["\"unterminated"],
            &["\"bad\\escape\""],
            &["tab\tinside"],
            &["line\nbreak"],
            &["größe"],
            &["a", "b"],
            &["a", "a"],
            &["a, b"],
            &["\"a\", \"b\""],
            &["\"a\";p=1"],
            &[""],
            &["   "],
            &["\"\""],
        ];
        for lines in wrong {
            check(lines, None);
        }
        check(&[&"x".repeat(255)], Some(&"x".repeat(255)));
        check(&[&"x".repeat(256)], None);
    }

    #[test]
    fn case_k9_keys_are_case_sensitive() {
        check(&["Order-1"], Some("Order-1"));
        check(&["order-1"], Some("order-1"));
    }
}
