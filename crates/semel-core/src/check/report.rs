//! All verdicts on one workflow, for people.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::plan::name_points;
use super::record::{Baseline, Case, Fault, LineState, Outcome, Place, Report, Verdict};

/// What came of each fault at one place.
type Cells = BTreeMap<Fault, String>;

impl Outcome {
    pub const ALL: [Outcome; 9] = [
        Outcome::Once,
        Outcome::InDoubt,
        Outcome::Twice,
        Outcome::Lost,
        Outcome::Stuck,
        Outcome::Diverged,
        Outcome::KeyChanged,
        Outcome::PaidTwice,
        Outcome::Error,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Once => "once",
            Outcome::InDoubt => "in_doubt",
            Outcome::Twice => "twice",
            Outcome::Lost => "lost",
            Outcome::Stuck => "stuck",
            Outcome::Diverged => "diverged",
            Outcome::KeyChanged => "key_changed",
            Outcome::PaidTwice => "paid_twice",
            Outcome::Error => "error",
        }
    }
}

impl Report {
    pub fn new(workflow: &str, baseline: &Baseline, verdicts: Vec<Verdict>) -> Report {
        let ms = verdicts.iter().map(|verdict| verdict.ms).sum();
        let sends = baseline.requests.iter().map(|request| request.route.clone()).collect();
        let (workflow, points) = (workflow.to_owned(), name_points(&baseline.points));
        let (ends, detail) = (baseline.state.clone(), baseline.detail.clone());
        Report { workflow, points, sends, ends, detail, verdicts, left_out: 0, ms }
    }

    /// Something was tried, and the promise held every time.
    pub fn is_ok(&self) -> bool {
        !self.verdicts.is_empty() && self.failures().next().is_none()
    }

    pub fn failures(&self) -> impl Iterator<Item = &Verdict> {
        self.verdicts.iter().filter(|verdict| !verdict.is_ok)
    }

    /// How many cases came to this.
    pub fn count(&self, outcome: Outcome) -> usize {
        self.verdicts.iter().filter(|verdict| verdict.outcome == outcome).count()
    }

    /// How many deaths were played.
    pub fn kills(&self) -> usize {
        let deaths = |verdict: &Verdict| match verdict.case.fault {
            Fault::Kill | Fault::NewRelease => 1 + usize::from(verdict.case.then.is_some()),
            _ => 0,
        };
        self.verdicts.iter().map(deaths).sum()
    }

    /// One line: how much was tried, and what came of it.
    pub fn summary(&self) -> String {
        let (workflow, points, sends) = (&self.workflow, self.points.len(), self.sends.len());
        let counts: Vec<String> = Outcome::ALL
            .into_iter()
            .map(|outcome| (self.count(outcome), outcome.as_str()))
            .filter(|(count, _)| *count > 0)
            .map(|(count, outcome)| format!("{count} {outcome}"))
            .collect();
        let counts =
            if counts.is_empty() { "nothing was tried".to_owned() } else { counts.join(", ") };
        let left_out = match self.left_out {
            0 => String::new(),
            count => format!(" {count} cases left out by the budget."),
        };
        let ends = match (self.ends.as_str(), self.detail.as_str()) {
            ("" | "done", _) => String::new(),
            (ends, "") => format!(" Undisturbed it ends as {ends}."),
            (ends, detail) => format!(" Undisturbed it ends as {ends}: {detail}."),
        };
        let failed = match self.failures().count() {
            0 if self.is_ok() => "ok".to_owned(),
            count => format!("FAILED in {count}"),
        };
        let (cases, kills) = (self.verdicts.len(), self.kills());
        let seconds = seconds(self.ms);
        format!(
            "{workflow}: {failed}. {points} points, {sends} sends; {cases} cases with {kills} \
             kills in {seconds} s: {counts}.{left_out}{ends}"
        )
    }

    /// Places by faults, then each failure with its five lines, then the summary.
    pub fn text(&self) -> String {
        let mut text = self.table();
        for verdict in self.failures() {
            let _ = write!(text, "\n{}", verdict.text());
        }
        let _ = write!(text, "\n{}\n", self.summary());
        text
    }

    /// Places by faults, in the order of the run. `!` marks what must not be.
    pub fn table(&self) -> String {
        let mut rows: BTreeMap<(usize, usize, String), Cells> = BTreeMap::new();
        for verdict in &self.verdicts {
            let cells = rows.entry(self.place_in_run(&verdict.case)).or_default();
            let (fault, cell) = (verdict.case.fault, verdict.cell());
            let worse = |known: &mut String| *known = worse_of(known, &cell);
            cells.entry(fault).and_modify(worse).or_insert_with(|| cell.clone());
        }
        let rows: Vec<(String, Cells)> =
            rows.into_iter().map(|((_, _, place), cells)| (place, cells)).collect();
        blocks(&rows)
    }

    /// The report as JSON.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a report is plain data")
    }

    /// Points first, then requests, then what came from outside; each in its order.
    fn place_in_run(&self, case: &Case) -> (usize, usize, String) {
        match &case.place {
            Place::Point(point) => {
                let at = self.points.iter().position(|known| known == point);
                (0, at.unwrap_or(usize::MAX), point.clone())
            }
            Place::Send { number, route } => (
                1,
                usize::try_from(*number).unwrap_or(usize::MAX),
                format!("send {number}: {route}"),
            ),
            Place::Wait(name) => (2, 0, name.clone()),
            Place::Run => (3, 0, "the run".to_owned()),
        }
    }
}

impl Verdict {
    /// The case with its five lines and the command that plays it again.
    pub fn text(&self) -> String {
        let mut text = format!("{}: {} ({})\n", self.name, self.outcome.as_str(), self.detail);
        for line in &self.lines {
            let mark = match line.state {
                LineState::Yes => "yes",
                LineState::No => "NO",
                LineState::Silent => "-",
            };
            let _ = writeln!(text, "  {:<10}  {mark:<3}  {}", line.what, line.text);
        }
        if let Some(command) = &self.reproduce {
            let _ = writeln!(text, "  again: {command}");
        }
        text
    }

    fn cell(&self) -> String {
        format!("{}{}", if self.is_ok { "" } else { "!" }, self.outcome.as_str())
    }
}

/// Of two deaths at one place the worse is shown.
fn worse_of(known: &str, new: &str) -> String {
    let rank = |cell: &str| (cell.starts_with('!'), cell != "once");
    if rank(new) > rank(known) { new.to_owned() } else { known.to_owned() }
}

/// One block for all rows that were tried with the same faults.
fn blocks(rows: &[(String, Cells)]) -> String {
    let mut text = String::new();
    let kinds: [&[Fault]; 3] = [
        &[Fault::Kill, Fault::PauseBeyondLease, Fault::NewRelease],
        &[
            Fault::CutBefore,
            Fault::CutAfter,
            Fault::Timeout,
            Fault::ErrorBefore,
            Fault::ErrorAfter,
            Fault::RefuseAfter,
        ],
        &[
            Fault::RepeatTrigger,
            Fault::Duplicates,
            Fault::RepeatApproval,
            Fault::RepeatSignal,
            Fault::RepeatCallback,
        ],
    ];
    for faults in kinds {
        let tried = |fault: &&Fault| rows.iter().any(|(_, cells)| cells.contains_key(*fault));
        let faults: Vec<Fault> = faults.iter().filter(tried).copied().collect();
        let rows: Vec<_> = rows
            .iter()
            .filter(|(_, cells)| faults.iter().any(|fault| cells.contains_key(fault)))
            .collect();
        if !rows.is_empty() {
            text.push_str(&block(&faults, &rows));
        }
    }
    text
}

fn block(faults: &[Fault], rows: &[&(String, Cells)]) -> String {
    let width = rows.iter().map(|(place, _)| place.chars().count()).max().unwrap_or(0);
    let mut text = format!("{:width$}", "");
    for fault in faults {
        let _ = write!(text, "  {:<12}", fault.as_str());
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    for (place, cells) in rows {
        let mut row = format!("{place:width$}");
        for fault in faults {
            let cell = cells.get(fault).map_or("", String::as_str);
            let _ = write!(row, "  {cell:<columns$}", columns = fault.as_str().len().max(12));
        }
        text.push_str(row.trim_end());
        text.push('\n');
    }
    text.push('\n');
    text
}

pub(super) fn seconds(ms: u64) -> String {
    format!("{}.{:03}", ms / 1_000, ms % 1_000)
}

#[cfg(test)]
mod tests;
