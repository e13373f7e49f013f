//! What is refused, and in which words. Croner is lenient: some typing errors it reads as something
//! else, and a schedule that is not what its author wrote is worse than none.

use croner::errors::CronError;

use super::{CronInvalid, read};
use crate::limits;

/// One of the five fields.
struct Field {
    name: &'static str,
    least: u16,
    most: u16,
    /// Words that stand for values.
    names: &'static [&'static str],
    /// Words that are more than a value.
    words: &'static [&'static str],
    /// What may end a value.
    ending: Option<char>,
}

const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

const FIELDS: [Field; 5] = [
    Field { name: "minute", least: 0, most: 59, names: &[], words: &[], ending: None },
    Field { name: "hour", least: 0, most: 23, names: &[], words: &[], ending: None },
    Field {
        name: "day of month",
        least: 1,
        most: 31,
        names: &[],
        words: &["L", "LW"],
        ending: Some('W'),
    },
    Field { name: "month", least: 1, most: 12, names: &MONTHS, words: &[], ending: None },
    Field {
        name: "day of week",
        least: 0,
        most: 7,
        names: &WEEKDAYS,
        words: &["L"],
        ending: Some('L'),
    },
];

const NICKNAMES: [&str; 7] =
    ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

/// Refuses what croner would not read as it is written; returns what croner is to read.
pub(super) fn misread(text: &str) -> Result<String, CronInvalid> {
    if text.len() > limits::CRON_BYTES_MAX {
        return Err(invalid(format!(
            "the pattern has {} bytes, the most is {}",
            text.len(),
            limits::CRON_BYTES_MAX
        )));
    }
    let text = text.trim();
    if text.starts_with('@') {
        return nickname(text);
    }
    let fields: Vec<&str> = text.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Err(not_five(fields.len()));
    }
    let upper = text.to_ascii_uppercase();
    for (field, text) in FIELDS.iter().zip(upper.split_whitespace()) {
        field.check(text)?;
    }
    Ok(upper)
}

/// Says which field croner did not take: it is the one that is not taken alone either.
pub(super) fn blame(text: &str, error: &CronError) -> CronInvalid {
    for (index, (field, part)) in FIELDS.iter().zip(text.split_whitespace()).enumerate() {
        let mut alone = ["*"; FIELDS.len()];
        alone[index] = part;
        if let Err(error) = read(&alone.join(" ")) {
            return field.wrong(part, &format!("{}; {}", reason(&error), field.values()));
        }
    }
    invalid(format!("`{}`: {}", shown(text), reason(error)))
}

pub(super) fn never_comes(text: &str) -> CronInvalid {
    invalid(format!("`{}` never comes: there is no such day", shown(text.trim())))
}

/// A user's text inside a message: short, and without signs that move a cursor.
pub(super) fn shown(text: &str) -> String {
    let plain = text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c });
    plain.take(limits::NAME_BYTES_MAX).collect()
}

fn nickname(text: &str) -> Result<String, CronInvalid> {
    match NICKNAMES.iter().find(|name| name.eq_ignore_ascii_case(text)) {
        // The one that croner does not know.
        Some(&"@midnight") => Ok("@daily".to_owned()),
        Some(name) => Ok((*name).to_owned()),
        None => Err(invalid(format!("`{}` is none of {}", shown(text), NICKNAMES.join(", ")))),
    }
}

fn not_five(count: usize) -> CronInvalid {
    let why = match count {
        0 => "the pattern is empty".to_owned(),
        6 | 7 => format!("the pattern has {count} fields: seconds and years are not taken"),
        _ => format!("the pattern has {count} fields"),
    };
    invalid(format!("{why}; write minute, hour, day of month, month, day of week"))
}

/// Croner's words, as the middle of a sentence.
fn reason(error: &CronError) -> String {
    let (CronError::ComponentError(words)
    | CronError::InvalidPattern(words)
    | CronError::IllegalCharacters(words)) = error
    else {
        return error.to_string();
    };
    let mut letters = words.trim_end_matches('.').chars();
    letters.next().map_or(String::new(), |first| first.to_ascii_lowercase().to_string())
        + letters.as_str()
}

fn invalid(why: String) -> CronInvalid {
    CronInvalid { why }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

impl Field {
    fn check(&self, text: &str) -> Result<(), CronInvalid> {
        // Before a day of the week it asks for both kinds of day; elsewhere croner refuses it.
        let list = text.strip_prefix('+').unwrap_or(text);
        for part in list.split(',') {
            self.check_part(part)?;
        }
        // Croner would forget the one for the other.
        let has = |word| list.split(',').any(|part| part == word);
        if has("L") && has("LW") {
            return Err(self.wrong(text, "`L` and `LW` do not go together"));
        }
        Ok(())
    }

    fn check_part(&self, part: &str) -> Result<(), CronInvalid> {
        if part.is_empty() {
            return Err(self.wrong(part, "a value is missing"));
        }
        // Names have their field: croner takes MON for 1 wherever it stands.
        let mut tokens = part.split(|c: char| c.is_ascii_punctuation());
        if !tokens.all(|token| token.is_empty() || self.takes(token)) {
            return Err(self.wrong(part, &self.values()));
        }
        if let Some((_, step)) = part.split_once('/')
            && is_number(step)
            && !step.parse().is_ok_and(|step| (1..=self.most).contains(&step))
        {
            return Err(self.wrong(part, "the step is out of range"));
        }
        if self.ending == Some('L') && part == "L" {
            return Err(self.wrong(part, "say which day, such as 5L"));
        }
        // Croner knows the last Sunday as 0 alone.
        if self.ending == Some('L')
            && part.ends_with('L')
            && (part.contains('7') || part.contains("-SUN"))
        {
            return Err(self.wrong(part, "the last Sunday is 0L"));
        }
        Ok(())
    }

    fn takes(&self, token: &str) -> bool {
        let is_value = |text: &str| is_number(text) || self.names.contains(&text);
        let before_ending = self.ending.and_then(|ending| token.strip_suffix(ending));
        is_value(token) || self.words.contains(&token) || before_ending.is_some_and(is_value)
    }

    fn values(&self) -> String {
        let names = match (self.names.first(), self.names.last()) {
            (Some(first), Some(last)) => format!(" or {first} to {last}"),
            _ => String::new(),
        };
        format!("values are {} to {}{names}", self.least, self.most)
    }

    fn wrong(&self, part: &str, why: &str) -> CronInvalid {
        invalid(format!("{} `{}`: {why}", self.name, shown(part)))
    }
}
