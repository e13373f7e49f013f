//! What parts of keys look like that were not made of business identifiers: times, random ids,
//! counts of attempts. A look is a suspicion: an order may have a random id of its own, so whoever
//! asks also looks whether the text is somewhere in the input.

/// What a part of a key reads like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Look {
    /// A point in time: `2026-11-16T14:00:00Z`, or seconds, milliseconds and the like since 1970.
    Time,
    /// A random id: a UUID of version 4, or as many random digits without dashes.
    Random,
    /// A count of attempts: `attempt-2`, `retry 3`, `try#1`.
    Attempt,
}

impl Look {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Look::Time => "time",
            Look::Random => "randomness",
            Look::Attempt => "attempt",
        }
    }
}

/// Seconds since 1970 of the years around now, 2020 to 2036: telephone numbers and accounts have as
/// many digits, so nothing wider counts.
const SECONDS: std::ops::Range<u64> = 1_577_836_800..2_082_758_400;
/// What clocks count in: seconds, and the thousandth, millionth and billionth part of one.
const UNITS: [u64; 4] = [1, 1_000, 1_000_000, 1_000_000_000];
const WORDS_OF_ATTEMPTS: [&str; 4] = ["attempt", "retry", "try", "tries"];

/// What a part of a key looks like, if it looks like anything of the kind. A piece of it counts,
/// too: `42-1763301600123` has a time in it.
pub fn look_of(part: &str) -> Option<Look> {
    if is_random(part) || pieces_between(part, 36).any(is_random) {
        return Some(Look::Random);
    }
    if has_date_and_time(part) || numbers(part).any(is_time) {
        return Some(Look::Time);
    }
    counts_attempts(part).then_some(Look::Attempt)
}

/// The numbers in a text that stand for themselves: not those in the middle of a word, and none that
/// has a fraction, as a time in seconds may have.
fn numbers(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit()))
}

fn is_time(digits: &str) -> bool {
    let Ok(number) = digits.parse::<u64>() else { return false };
    UNITS.iter().any(|unit| SECONDS.contains(&(number / unit)))
}

/// `2026-11-16T14:00:00`, `2026-11-16 14:00`, `20261116T140000`: a date alone may be the business'
/// own, such as the day that a report is about.
fn has_date_and_time(text: &str) -> bool {
    let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    let shapes = ["0000-00-00T00:00", "0000-00-00 00:00", "00000000T000000", "0000-00-00_00-00"];
    shapes.iter().any(|wanted| shape.contains(wanted))
}

/// Every stretch of so many bytes that stands apart from letters and digits beside it.
fn pieces_between(text: &str, bytes: usize) -> impl Iterator<Item = &str> {
    let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    (0..=text.len().saturating_sub(bytes)).filter_map(move |start| {
        let piece = text.get(start..start + bytes)?;
        let (before, after) = (text.get(..start)?, text.get(start + bytes..)?);
        let apart = !is_word(before.chars().last()) && !is_word(after.chars().next());
        apart.then_some(piece)
    })
}

/// A UUID of version 4, or the 32 digits of one.
fn is_random(text: &str) -> bool {
    let digits: Vec<u8> = match text.len() {
        36 if [8, 13, 18, 23].iter().all(|at| text.as_bytes()[*at] == b'-') => {
            text.bytes().filter(|byte| *byte != b'-').collect()
        }
        32 => text.bytes().collect(),
        _ => return false,
    };
    let has_marks = digits.len() == 32 && digits[12] == b'4' && b"89abAB".contains(&digits[16]);
    has_marks && digits.iter().all(u8::is_ascii_hexdigit)
}

fn counts_attempts(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    WORDS_OF_ATTEMPTS.iter().any(|word| {
        text.match_indices(word).any(|(at, _)| {
            let starts = text[..at].chars().last().is_none_or(|c| !c.is_alphanumeric());
            let rest = text[at + word.len()..].trim_start_matches([' ', '-', '_', ':', '#', '=']);
            let count: String = rest.chars().take_while(char::is_ascii_digit).collect();
            let rest = &rest[count.len()..];
            let ends = rest.chars().next().is_none_or(|c| !c.is_alphanumeric());
            starts && ends && (1..=3).contains(&count.len())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, want: Option<Look>) {
        assert_eq!(look_of(text), want, "{text}");
    }

    #[test]
    fn times_are_seen() {
        for text in [
            "1763301600",
            "1763301600123",
            "1763301600123456",
            "1763301600123456789",
            "order-42-1763301600123",
            "1763301600.123",
            "2026-11-16T14:00:00Z",
            "r-2026-11-16T14:00:00.123+01:00",
            "2026-11-16 14:00:00",
            "20261116T140000Z",
        ] {
            check(text, Some(Look::Time));
        }
    }

    #[test]
    fn random_ids_are_seen() {
        for text in [
            "0b7a3c1e-59c2-4d0f-9a55-2f6c1f0a9b11",
            "0B7A3C1E-59C2-4D0F-9A55-2F6C1F0A9B11",
            "0b7a3c1e59c24d0f9a552f6c1f0a9b11",
            "ticket:0b7a3c1e-59c2-4d0f-9a55-2f6c1f0a9b11",
        ] {
            check(text, Some(Look::Random));
        }
    }

    #[test]
    fn counts_of_attempts_are_seen() {
        for text in ["attempt-2", "42:attempt:1", "retry 3", "order-7-try#1", "Attempt=12"] {
            check(text, Some(Look::Attempt));
        }
    }

    #[test]
    fn business_identifiers_are_left_alone() {
        for text in [
            "42",
            "order-42",
            "v1",
            "INV-2026-0042",
            "2026-11-16",
            "+49 30 5557264",
            "4915112345678",    // a telephone number: no year of ours
            "9007199254740993", // a database's id
            "country-3",        // no `try`
            "retry-policy",
            "attempt",
            "entry-4",
            "pi_3MtwBwLkdIwHu7ix28a3tqPa",
            "6ba7b810-9dad-11d1-80b4-00c04fd430c8", // version 1: of a time, but not random
            "9e107d9d372bb6826bd81d3542a419d6",     // a digest, not marked as version 4
            "ada@customer.example",
            "",
        ] {
            check(text, None);
        }
    }
}
