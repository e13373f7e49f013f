//! Reading a cron pattern, field by field.

use super::{Cron, CronInvalid};
use crate::limits;

/// One of the five fields.
struct Field {
    name: &'static str,
    least: u32,
    most: u32,
    /// Names of its values, the first one for `least`.
    names: &'static [&'static str],
}

const MINUTE: Field = Field { name: "minute", least: 0, most: 59, names: &[] };
const HOUR: Field = Field { name: "hour", least: 0, most: 23, names: &[] };
const DAY: Field = Field { name: "day of month", least: 1, most: 31, names: &[] };
const MONTH: Field = Field {
    name: "month",
    least: 1,
    most: 12,
    names: &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"],
};
/// Sunday is 0 and 7.
const WEEKDAY: Field = Field {
    name: "day of week",
    least: 0,
    most: 7,
    names: &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"],
};

const NAMED: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// The longest month of each, for days that never come.
const MONTH_DAYS: [u32; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

pub(super) fn pattern(text: &str) -> Result<Cron, CronInvalid> {
    if text.len() > limits::CRON_BYTES_MAX {
        return Err(invalid(format!(
            "the pattern has {} bytes, the most is {}",
            text.len(),
            limits::CRON_BYTES_MAX
        )));
    }
    let text = text.trim();
    let written_out = if text.starts_with('@') { named(text)? } else { text };
    let fields: Vec<&str> = written_out.split_whitespace().collect();
    let &[minute, hour, day, month, weekday] = fields.as_slice() else {
        let count = fields.len();
        let why = match count {
            0 => "the pattern is empty".to_owned(),
            6 | 7 => format!("the pattern has {count} fields: seconds and years are not taken"),
            _ => format!("the pattern has {count} fields"),
        };
        return Err(invalid(format!(
            "{why}; write minute, hour, day of month, month, day of week"
        )));
    };
    let weekdays = set(&WEEKDAY, weekday)?;
    let cron = Cron {
        minutes: set(&MINUTE, minute)?,
        hours: set(&HOUR, hour)?,
        days: set(&DAY, day)?,
        months: set(&MONTH, month)?,
        weekdays: (weekdays | weekdays >> 7) & 0x7f,
        either_day: day != "*" && weekday != "*",
    };
    match comes(&cron) {
        true => Ok(cron),
        false => Err(invalid(format!("`{}` never comes: no such month has that day", shown(text)))),
    }
}

fn named(text: &str) -> Result<&'static str, CronInvalid> {
    let found = NAMED.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    found.map(|(_, pattern)| *pattern).ok_or_else(|| {
        let names: Vec<&str> = NAMED.iter().map(|(name, _)| *name).collect();
        invalid(format!("`{}` is none of {}", shown(text), names.join(", ")))
    })
}

fn set(field: &Field, text: &str) -> Result<u64, CronInvalid> {
    text.split(',').try_fold(0, |set, part| Ok(set | part_set(field, part)?))
}

/// `*`, `*/2`, `5`, `MON`, `1-5` or `1-30/2`.
fn part_set(field: &Field, part: &str) -> Result<u64, CronInvalid> {
    let (range, step) = match part.split_once('/') {
        Some((range, step)) => (range, Some(step)),
        None => (part, None),
    };
    let (first, last) = if range == "*" {
        // Sunday is there once.
        (field.least, field.most.min(field.least + field.count() - 1))
    } else if let Some((first, last)) = range.split_once('-') {
        (value(field, first, part)?, value(field, last, part)?)
    } else if step.is_none() {
        let only = value(field, range, part)?;
        (only, only)
    } else {
        return Err(wrong(field, part, "a step follows `*` or a range, such as 0-59/15"));
    };
    if first > last {
        return Err(wrong(field, part, "a range goes from the smaller to the larger"));
    }
    let step = match step {
        None => 1,
        Some(step) => match digits(step) {
            Some(step) if (1..=field.most).contains(&step) => step as usize,
            Some(_) | None => return Err(wrong(field, part, "the step is out of range")),
        },
    };
    Ok((first..=last).step_by(step).fold(0, |set, bit| set | 1 << bit))
}

fn value(field: &Field, text: &str, part: &str) -> Result<u32, CronInvalid> {
    let by_name = || {
        let index = field.names.iter().position(|name| name.eq_ignore_ascii_case(text))?;
        Some(field.least + u32::try_from(index).ok()?)
    };
    let found = digits(text).or_else(by_name);
    found.filter(|value| (field.least..=field.most).contains(value)).ok_or_else(|| {
        let names = match (field.names.first(), field.names.last()) {
            (Some(first), Some(last)) => format!(" or {first} to {last}"),
            _ => String::new(),
        };
        wrong(field, part, &format!("values are {} to {}{names}", field.least, field.most))
    })
}

/// At most two digits and nothing else: `+5` and `007` are typing errors.
fn digits(text: &str) -> Option<u32> {
    let is_plain = (1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_plain { text.parse().ok() } else { None }
}

/// Whether any month of the pattern has one of its days. With a day of the week there always is.
fn comes(cron: &Cron) -> bool {
    let first_day = cron.days.trailing_zeros();
    let has_day = |month: u32| cron.months >> month & 1 == 1 && first_day <= longest(month);
    cron.either_day || (1..=12).any(has_day)
}

fn longest(month: u32) -> u32 {
    MONTH_DAYS[month as usize - 1]
}

/// A user's text inside a message: short, and without signs that move a cursor.
pub(super) fn shown(text: &str) -> String {
    let plain = text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c });
    plain.take(limits::NAME_BYTES_MAX).collect()
}

fn wrong(field: &Field, part: &str, why: &str) -> CronInvalid {
    invalid(format!("{} `{}`: {why}", field.name, shown(part)))
}

fn invalid(why: String) -> CronInvalid {
    CronInvalid { why }
}

impl Field {
    /// How many values there are: 7 is another word for 0.
    fn count(&self) -> u32 {
        if self.most == 7 { 7 } else { self.most - self.least + 1 }
    }
}
