//! What a command shows. Data goes to stdout, talk to stderr; colour and drawn tables only when a
//! person is looking.

use std::io::{IsTerminal, Write};

use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;

use crate::exit::Failed;

pub(crate) struct Printer {
    json: bool,
    is_terminal: bool,
    colour: bool,
}

/// The colours of meaning, where there are any.
#[derive(Clone, Copy)]
pub(crate) enum Tone {
    Good,
    Bad,
    Doubt,
    Quiet,
    Strong,
}

const COLUMNS_MIN: u16 = 40;
const COLUMNS_DEFAULT: u16 = 100;

impl Printer {
    pub(crate) fn new(json: bool) -> Printer {
        let is_terminal = std::io::stdout().is_terminal();
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Printer { json, is_terminal, colour: is_terminal && !no_colour && !json }
    }

    pub(crate) fn wants_json(&self) -> bool {
        self.json
    }

    pub(crate) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// One JSON document.
    pub(crate) fn json(&self, value: &impl Serialize) -> Result<(), Failed> {
        let text = serde_json::to_string_pretty(value)
            .map_err(|error| Failed::internal(error.to_string()))?;
        self.line(&text);
        Ok(())
    }

    /// One line of data.
    pub(crate) fn line(&self, text: &str) {
        // A reader that has gone away, such as `head`, needs no more lines.
        let _ = writeln!(std::io::stdout(), "{text}");
    }

    /// One line of talk.
    pub(crate) fn talk(&self, text: &str) {
        let _ = writeln!(std::io::stderr(), "{text}");
    }

    /// Rows under headings: drawn for people, tab-separated for pipes.
    pub(crate) fn table(&self, headings: &[&str], rows: &[Vec<String>]) {
        if !self.is_terminal {
            self.line(&headings.join("\t"));
            rows.iter().for_each(|row| self.line(&row.join("\t")));
            return;
        }
        let mut table = Table::new();
        table.load_style(presets::UTF8_HORIZONTAL_ONLY);
        table.set_content_arrangement(ContentArrangement::Dynamic);
        // Some terminals do not say how wide they are; a table of one letter a line helps nobody.
        if table.width().is_none_or(|columns| columns < COLUMNS_MIN) {
            table.set_width(COLUMNS_DEFAULT);
        }
        table.set_header(headings);
        for row in rows {
            table.add_row(row);
        }
        self.line(&table.to_string());
    }

    /// Paints a word, where colour is wanted.
    pub(crate) fn paint(&self, tone: Tone, text: &str) -> String {
        if !self.colour {
            return text.to_owned();
        }
        let code = match tone {
            Tone::Good => "32",
            Tone::Bad => "31",
            Tone::Doubt => "33",
            Tone::Quiet => "2",
            Tone::Strong => "1",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }

    /// Fact, code, way out.
    pub(crate) fn error(&self, failed: &Failed) {
        if self.json {
            let code = failed.code.map(semel::Code::as_str);
            let error = serde_json::json!({
                "error": { "code": code, "message": failed.message, "hint": failed.hint }
            });
            return self.talk(&error.to_string());
        }
        let code = failed.code.map(|code| format!(" ({code})")).unwrap_or_default();
        self.talk(&format!("error: {}{code}", failed.message));
        if let Some(hint) = &failed.hint {
            self.talk(&format!("\nhint: {hint}"));
        }
    }
}

/// Text from outside, safe to show: control characters could move the cursor or change colours, and
/// marks of direction let a payload read otherwise than it is.
pub(crate) fn plain(text: &str) -> String {
    let is_turned = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let shown = |c: char| if c.is_control() || is_turned(c) { '\u{fffd}' } else { c };
    text.chars().map(shown).collect()
}
