//! Heads: what a store held at some time, in a few numbers and digests for each row, to be kept
//! somewhere else. A store that is held against an older head of its own shows what was deleted,
//! cut off or put back, also by somebody who can write every seal anew.
//!
//! A head is lines of JSON: what it is of, a line for each row, and an end that counts the lines
//! before it and covers them with a digest.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::audit;
use crate::limits;
use crate::record::Effect;
use crate::repeats;
use crate::run::Run;
use crate::schedule;
use crate::seal::{Seal, digest};
use crate::time::Wall;

/// The version of this shape.
pub const FORMAT: u32 = 1;

/// One line of a head.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    Store(StoreLine),
    Effect(EffectLine),
    Run(RunLine),
    Card(CardLine),
    /// The end of a namespace's audit chain.
    Audit {
        namespace: String,
        end: audit::End,
    },
    /// The store was found to have gone back.
    Return {
        epoch: u64,
        closed: bool,
    },
    End(EndLine),
}

/// Of which store it is, and how far that had come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreLine {
    pub format: u32,
    pub store: String,
    pub epoch: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commits: Option<i64>,
    pub wall_high: Wall,
    pub at: Wall,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectLine {
    pub namespace: String,
    pub action: String,
    pub key: String,
    pub generation: u32,
    pub version: u64,
    /// The digest of the record as it lay in its row.
    pub record: String,
    /// The digest of the receipt that stood.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<String>,
    /// Before this it is no tombstone, and before that it is not removed.
    pub kept_until: Wall,
    pub gone_after: Wall,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunLine {
    pub namespace: String,
    pub id: String,
    pub version: u64,
    pub record: String,
    /// The last entry of its journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<LastEntry>,
    /// How many deliveries had come, and how many large values it needed.
    pub deliveries: u64,
    pub values: u64,
    pub kept_until: Wall,
    pub gone_after: Wall,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastEntry {
    pub seq: u64,
    pub link: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardLine {
    pub namespace: String,
    pub kind: String,
    pub name: String,
    pub version: u64,
    pub record: String,
    pub gone_after: Wall,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndLine {
    pub lines: u64,
    /// SHA-256 over all bytes before this line.
    pub digest: String,
}

impl EffectLine {
    /// What a head says of an effect, `at` the time of the head.
    pub fn of(effect: &Effect, record: String, at: Wall) -> EffectLine {
        let window_ms = effect.plan.as_ref().map_or(limits::WINDOW_MS, |plan| plan.terms.window_ms);
        // What is not settled may be so a moment later.
        let kept_until = match (effect.expired, effect.sweep_at()) {
            (Some(expired), _) => expired,
            (None, Some(at)) => at,
            (None, None) => at.plus(window_ms),
        };
        // An old generation goes with the newest of its key, which began when it was superseded.
        let ends = effect.superseded.unwrap_or(kept_until).min(kept_until);
        EffectLine {
            namespace: effect.address.namespace.as_str().to_owned(),
            action: effect.address.action.as_str().to_owned(),
            key: effect.address.key.as_str().to_owned(),
            generation: effect.generation,
            version: effect.version,
            record,
            receipt: effect.receipt().map(|receipt| digest(receipt.text())),
            kept_until,
            gone_after: ends.plus(limits::TOMBSTONE_MS),
        }
    }

    /// What does not fit with the row as it is now.
    pub fn problem(&self, found: Option<(&Effect, &str)>, now: Wall) -> Option<String> {
        let Some((effect, record)) = found else {
            return (now < self.gone_after).then(|| "it was deleted".to_owned());
        };
        let moved = went_back((self.version, &self.record), (effect.version, record));
        if moved.is_some() {
            return moved;
        }
        let receipt = effect.receipt().map(|receipt| digest(receipt.text()));
        let is_tombstone = effect.expired.is_some() && now >= self.kept_until;
        match &self.receipt {
            Some(_) if is_tombstone => None,
            Some(first) if receipt.as_ref() != Some(first) => {
                Some("its receipt is not the one that stood".to_owned())
            }
            Some(_) | None => None,
        }
    }
}

/// What is there of a run.
#[derive(Clone, Copy, Debug)]
pub struct FoundRun<'a> {
    pub run: &'a Run,
    pub record: &'a str,
    /// The link of the entry that the head names, where there is such an entry.
    pub link: Option<&'a str>,
    pub deliveries: u64,
    pub values: u64,
}

impl RunLine {
    /// What a head says of a run, `at` the time of the head.
    pub fn of(found: &FoundRun<'_>, last: Option<LastEntry>, at: Wall) -> RunLine {
        let FoundRun { run, record, link: _, deliveries, values } = *found;
        let kept_until = match (run.expired, run.sweep_at()) {
            (Some(expired), _) => expired,
            (None, Some(at)) => at,
            (None, None) => at.plus(run.window_ms),
        };
        RunLine {
            namespace: run.namespace.clone(),
            id: run.id.clone(),
            version: run.version,
            record: record.to_owned(),
            last,
            deliveries,
            values,
            kept_until,
            gone_after: kept_until.plus(limits::TOMBSTONE_MS),
        }
    }

    /// What does not fit with the run as it is now.
    pub fn problem(&self, found: Option<&FoundRun<'_>>, now: Wall) -> Option<String> {
        let Some(found) = found else {
            return (now < self.gone_after).then(|| "it was deleted".to_owned());
        };
        let moved = went_back((self.version, &self.record), (found.run.version, found.record));
        if moved.is_some() {
            return moved;
        }
        if found.run.expired.is_some() && now >= self.kept_until {
            return None;
        }
        if let Some(last) = &self.last
            && found.link != Some(last.link.as_str())
        {
            let what = if found.link.is_some() { "differs at" } else { "ends before" };
            return Some(format!("its journal {what} entry {}", last.seq));
        }
        if found.deliveries < self.deliveries {
            return Some(format!("{} deliveries have become fewer", self.deliveries));
        }
        let fewer = found.values < self.values;
        fewer.then(|| format!("the {} large values that it needs have become fewer", self.values))
    }
}

impl CardLine {
    /// What a head says of a card, `at` the time of the head.
    pub fn of(
        (namespace, kind, name): (&str, &str, &str),
        (version, due, record): (u64, Option<Wall>, &str),
        at: Wall,
    ) -> CardLine {
        // A callback, or a count, is removed when it is of no more use, asked when it is due; a
        // schedule leaves its name long after it was removed. Everything else stays.
        let gone_after = match kind {
            "callback" | repeats::CARD => due.unwrap_or(at),
            schedule::CARD => at.plus(limits::TOMBSTONE_MS).min(removed_at(record)),
            _ => Wall(i64::MAX),
        };
        CardLine {
            namespace: namespace.to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
            version,
            record: digest(record),
            gone_after,
        }
    }

    /// What does not fit with the card as it is now.
    pub fn problem(&self, found: Option<(u64, &str)>, now: Wall) -> Option<String> {
        let Some((version, record)) = found else {
            return (now < self.gone_after).then(|| "it was deleted".to_owned());
        };
        went_back((self.version, &self.record), (version, &digest(record)))
    }
}

/// When the name of a removed schedule may be forgotten.
fn removed_at(record: &str) -> Wall {
    let removed = schedule::decode(record).ok().and_then(|schedule| schedule.removed);
    removed.map_or(Wall(i64::MAX), |removed| removed.plus(limits::TOMBSTONE_MS))
}

fn went_back(
    (version, record): (u64, &str),
    (found_version, found_record): (u64, &str),
) -> Option<String> {
    if found_version < version {
        return Some(format!("it went back from version {version} to {found_version}"));
    }
    let is_changed = found_version == version && found_record != record;
    is_changed.then(|| format!("its version {version} was changed afterwards"))
}

/// Puts lines together into a head.
#[derive(Default)]
pub struct Writer {
    hash: Sha256,
    lines: u64,
}

impl Writer {
    /// The text of one line, its end included.
    pub fn line(&mut self, line: &Line) -> String {
        let mut text = serde_json::to_string(line).expect("a line is plain data");
        text.push('\n');
        self.hash.update(&text);
        self.lines += 1;
        text
    }

    /// The last line.
    pub fn end(mut self) -> String {
        let digest = Seal(self.hash.clone().finalize().into()).to_string();
        let end = Line::End(EndLine { lines: self.lines, digest });
        self.line(&end)
    }
}

/// Reads a head line by line; it says whether it is whole once all of it was read.
#[derive(Default)]
pub struct Reader {
    hash: Sha256,
    lines: u64,
    end: Option<EndLine>,
}

impl Reader {
    /// Takes the next line, without its end.
    pub fn line(&mut self, text: &str) -> Result<Line, String> {
        let number = self.lines + 1;
        if self.end.is_some() {
            return Err(format!("line {number} lies behind its end"));
        }
        let line: Line = serde_json::from_str(text)
            .map_err(|error| format!("line {number} cannot be read: {error}"))?;
        match (&line, self.lines) {
            (Line::Store(store), 0) if store.format == FORMAT => {}
            (Line::Store(store), 0) => {
                let mut text = String::new();
                let _ = write!(text, "it has format {}, this Semel knows {FORMAT}", store.format);
                return Err(text);
            }
            (_, 0) => return Err("its first line does not say of which store it is".to_owned()),
            (Line::End(end), _) => {
                let digest = Seal(self.hash.clone().finalize().into()).to_string();
                if (end.lines, &end.digest) != (self.lines, &digest) {
                    return Err("its end does not match its lines".to_owned());
                }
                self.end = Some(end.clone());
            }
            _ => {}
        }
        self.hash.update(text);
        self.hash.update(b"\n");
        self.lines += 1;
        Ok(line)
    }

    /// Whether all of it was there.
    pub fn finish(self) -> Result<(), String> {
        match self.end {
            Some(_) => Ok(()),
            None => Err("its end is missing".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests;
