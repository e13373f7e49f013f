//! The canonical text of a JSON value: equal values give equal text, however they were written.
//!
//! Member order and strings follow RFC 8785 (JCS). Numbers do not: JCS sends them through a double,
//! where 9007199254740992 and 9007199254740993 become one, and two amounts may never look alike.
//! Here they are exact decimals, only laid out the way JCS would.
//!
//! `None` means that the text has no single reading (not JSON, a member named twice, a lone
//! surrogate) or is beyond our limits. The caller then compares the raw bytes: too strict a judge
//! refuses a retry, too lenient a one sends back another intent's receipt.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::mem;
use std::ops::Range;

use crate::limits;

/// The canonical text of a JSON value.
pub fn canonical(json: &[u8]) -> Option<String> {
    document(json, &Keep::All)
}

/// The canonical text of an object with only the named top-level members, or of the whole value
/// when it is not an object. An absent member differs from one that is `null`.
///
/// What is not named does not count at all, so an oddity inside it (a model's text that was cut
/// within an emoji) does not matter either, as long as the whole is JSON of bounded depth.
pub fn members<S: AsRef<str>>(json: &[u8], names: &[S]) -> Option<String> {
    document(json, &Keep::Named(names.iter().map(AsRef::as_ref).collect()))
}

/// Which members of an object count.
enum Keep<'a> {
    All,
    Named(BTreeSet<&'a str>),
}

/// Reads once from left to right and writes the canonical text as it goes.
struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    out: String,
    /// Falls when the value has no single reading. Reading goes on, because the oddity may lie in a
    /// member that does not count.
    regular: bool,
}

/// A member that was written to `out`, with its name as it reads after unescaping.
struct Member {
    name: String,
    written: Range<usize>,
}

fn document(json: &[u8], keep: &Keep<'_>) -> Option<String> {
    let text = str::from_utf8(json).ok()?;
    let mut reader = Reader { text, at: 0, depth: 0, out: String::new(), regular: true };
    reader.value(keep)?;
    reader.skip_space();
    (reader.at == text.len() && reader.regular).then_some(reader.out)
}

impl<'a> Reader<'a> {
    fn value(&mut self, keep: &Keep<'_>) -> Option<()> {
        self.skip_space();
        match self.peek()? {
            b'{' => self.object(keep),
            b'[' => self.array(),
            b'"' => {
                let string = self.string()?;
                write_string(&string, &mut self.out);
                Some(())
            }
            b'-' | b'0'..=b'9' => self.number(),
            _ => self.word(),
        }
    }

    fn object(&mut self, keep: &Keep<'_>) -> Option<()> {
        self.open()?;
        self.out.push('{');
        let start = self.out.len();
        let mut members = Vec::new();
        if !self.token(b'}') {
            loop {
                self.member(keep, &mut members)?;
                if self.token(b'}') {
                    break;
                }
                self.expect(b',')?;
            }
        }
        self.order(start, members);
        self.out.push('}');
        self.depth -= 1;
        Some(())
    }

    fn member(&mut self, keep: &Keep<'_>, members: &mut Vec<Member>) -> Option<()> {
        let before = self.out.len();
        let regular_before = mem::replace(&mut self.regular, true);
        self.skip_space();
        let name = self.string()?;
        // An irregular name was repaired while reading; the repair must not make it a listed one.
        let counts = match keep {
            Keep::All => true,
            Keep::Named(names) => self.regular && names.contains(name.as_str()),
        };
        if !members.is_empty() {
            self.out.push(',');
        }
        let start = self.out.len();
        write_string(&name, &mut self.out);
        self.expect(b':')?;
        self.out.push(':');
        self.value(&Keep::All)?;
        if counts {
            self.regular &= regular_before;
            members.push(Member { name, written: start..self.out.len() });
        } else {
            self.regular = regular_before;
            self.out.truncate(before);
        }
        Some(())
    }

    /// Puts the members written since `start` in order.
    fn order(&mut self, start: usize, mut members: Vec<Member>) {
        // UTF-16 is not the order of bytes: U+1F600 is a surrogate pair and sorts before U+FB33.
        let compare = |a: &Member, b: &Member| a.name.encode_utf16().cmp(b.name.encode_utf16());
        if members.is_sorted_by(|a, b| compare(a, b).is_lt()) {
            return;
        }
        members.sort_by(compare);
        if members.windows(2).any(|pair| pair[0].name == pair[1].name) {
            self.regular = false;
        }
        let unordered = self.out.split_off(start);
        for (index, member) in members.iter().enumerate() {
            if index > 0 {
                self.out.push(',');
            }
            let written = member.written.start - start..member.written.end - start;
            self.out.push_str(&unordered[written]);
        }
    }

    fn array(&mut self) -> Option<()> {
        self.open()?;
        self.out.push('[');
        if !self.token(b']') {
            loop {
                self.value(&Keep::All)?;
                if self.token(b']') {
                    break;
                }
                self.expect(b',')?;
                self.out.push(',');
            }
        }
        self.out.push(']');
        self.depth -= 1;
        Some(())
    }

    /// The text of a string after unescaping. A lone surrogate becomes U+FFFD and is noted.
    fn string(&mut self) -> Option<String> {
        let text = self.text;
        if !self.eat(b'"') {
            return None;
        }
        let mut string = String::new();
        loop {
            let plain = text[self.at..].find(|c: char| c == '"' || c == '\\' || c < ' ')?;
            string.push_str(&text[self.at..self.at + plain]);
            self.at += plain;
            if self.eat(b'"') {
                return Some(string);
            }
            if !self.eat(b'\\') {
                return None; // a control character that was not escaped
            }
            string.push(self.escape()?);
        }
    }

    fn escape(&mut self) -> Option<char> {
        let letter = self.peek()?;
        self.at += 1;
        match letter {
            b'"' | b'\\' | b'/' => Some(char::from(letter)),
            b'b' => Some('\u{8}'),
            b't' => Some('\t'),
            b'n' => Some('\n'),
            b'f' => Some('\u{c}'),
            b'r' => Some('\r'),
            b'u' => self.unicode_escape(),
            _ => None,
        }
    }

    fn unicode_escape(&mut self) -> Option<char> {
        let first = self.code_unit()?;
        let mut second = None;
        if is_high_surrogate(first) && self.text[self.at..].starts_with("\\u") {
            self.at += 2;
            // When it does not complete the pair it is lost, with a text that is odd anyway.
            second = Some(self.code_unit()?);
        }
        let decoded = char::decode_utf16([first].into_iter().chain(second)).next()?;
        self.regular &= decoded.is_ok();
        Some(decoded.unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn code_unit(&mut self) -> Option<u16> {
        let hex = self.text.get(self.at..self.at + 4)?;
        // `from_str_radix` alone would take a sign.
        if !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        self.at += 4;
        u16::from_str_radix(hex, 16).ok()
    }

    fn number(&mut self) -> Option<()> {
        let negative = self.eat(b'-');
        let whole = self.digits()?;
        if whole.len() > 1 && whole.starts_with('0') {
            return None;
        }
        let fraction = if self.eat(b'.') { self.digits()? } else { "" };
        let exponent = if self.eat(b'e') || self.eat(b'E') { self.exponent()? } else { "0" };
        if write_number(negative, whole, fraction, exponent, &mut self.out).is_none() {
            self.regular = false;
        }
        Some(())
    }

    fn exponent(&mut self) -> Option<&'a str> {
        let start = self.at;
        if !self.eat(b'+') {
            self.eat(b'-');
        }
        self.digits()?;
        Some(&self.text[start..self.at])
    }

    /// One digit or more.
    fn digits(&mut self) -> Option<&'a str> {
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        self.at += end;
        (end > 0).then_some(&rest[..end])
    }

    fn word(&mut self) -> Option<()> {
        let rest = &self.text[self.at..];
        let word = ["true", "false", "null"].into_iter().find(|word| rest.starts_with(word))?;
        self.at += word.len();
        self.out.push_str(word);
        Some(())
    }

    /// Enters an array or object. The limit also bounds the stack that reading takes.
    fn open(&mut self) -> Option<()> {
        self.at += 1;
        self.depth += 1;
        (self.depth <= limits::JSON_DEPTH_MAX).then_some(())
    }

    fn token(&mut self, byte: u8) -> bool {
        self.skip_space();
        self.eat(byte)
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        self.token(byte).then_some(())
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }
}

fn is_high_surrogate(unit: u16) -> bool {
    (0xD800..0xDC00).contains(&unit)
}

fn write_string(string: &str, out: &mut String) {
    out.push('"');
    for c in string.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            control if control < ' ' => push(out, format_args!("\\u{:04x}", u32::from(control))),
            plain => out.push(plain),
        }
    }
    out.push('"');
}

/// Writes an exact decimal. `None`, with nothing written, when its exponent is beyond an `i64`.
fn write_number(
    negative: bool,
    whole: &str,
    fraction: &str,
    exponent: &str,
    out: &mut String,
) -> Option<()> {
    let exponent: i64 = exponent.parse().ok()?;
    let digits = [whole, fraction].concat();
    let significant = digits.trim_start_matches('0');
    if significant.is_empty() {
        out.push('0'); // without its sign: -0 and 0 are one number
        return Some(());
    }
    let leading = digits.len() - significant.len();
    // The power of ten of the first digit that is not zero.
    let shift = i64::try_from(whole.len()).ok()? - i64::try_from(leading).ok()? - 1;
    let power = exponent.checked_add(shift)?;
    if negative {
        out.push('-');
    }
    lay_out(significant.trim_end_matches('0'), power, out);
    Some(())
}

/// The layout of ES6 `Number.toString`, which is what JCS prescribes, for any number of digits.
fn lay_out(digits: &str, power: i64, out: &mut String) {
    match power {
        0..=20 => {
            let whole = digits.len().min(power.unsigned_abs() as usize + 1);
            out.push_str(&digits[..whole]);
            out.extend((whole..=power.unsigned_abs() as usize).map(|_| '0'));
            if whole < digits.len() {
                push(out, format_args!(".{}", &digits[whole..]));
            }
        }
        -6..=-1 => {
            out.push_str("0.");
            out.extend((1..power.unsigned_abs()).map(|_| '0'));
            out.push_str(digits);
        }
        _ => {
            out.push_str(&digits[..1]);
            if digits.len() > 1 {
                push(out, format_args!(".{}", &digits[1..]));
            }
            push(out, format_args!("e{power:+}"));
        }
    }
}

fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("writing to a String does not fail");
}

#[cfg(test)]
mod tests;
