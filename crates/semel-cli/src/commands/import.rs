//! `semel effects import`: taking over a home-made dedupe table. Done stays done; pending may have
//! happened, so it is in doubt.

use std::path::Path;

use anyhow::{Context, anyhow, bail};
use semel::{Action, Address, Json, Key, Namespace};
use semel_core::audit::{Deed, Verb};
use semel_core::effect::Imported;
use semel_core::time::Wall;
use semel_core::wire::rfc3339;
use serde_json::json;

use super::open::Place;
use crate::args;
use crate::exit::Failed;
use crate::print::Printer;

/// One line of the foreign table, as text.
struct Line {
    number: usize,
    workflow: String,
    key: String,
    status: String,
    created_at: String,
}

pub(crate) async fn run(
    place: &Place,
    options: &args::Import,
    printer: &Printer,
) -> Result<(), Failed> {
    let lines = read(&options.file, &options.table)?;
    let namespace = place.namespace_to_begin()?;
    let mut rows = Vec::new();
    let mut wrong = Vec::new();
    for line in &lines {
        match row(line, &namespace, options.action.as_deref()) {
            Ok(row) => rows.push(row),
            Err(error) => wrong.push(format!("line {}: {error:#}", line.number)),
        }
    }
    if !wrong.is_empty() {
        // All or nothing: a table that is half understood is not imported by half.
        wrong.iter().for_each(|line| printer.talk(line));
        let text = format!(
            "{} of {} lines cannot be read; nothing was imported",
            wrong.len(),
            lines.len()
        );
        return Err(
            Failed::new(text).hint("correct them in a copy of the table, then run it again")
        );
    }
    let (mut done, mut in_doubt, mut present) = (0, 0, 0);
    if options.dry_run {
        done = rows.iter().filter(|row| row.receipt.is_some()).count();
        in_doubt = rows.len() - done;
    } else {
        let semel = place.semel().await?;
        // One entry for the whole file, before the first row of it.
        let deed = Deed {
            actor: options.actor.clone(),
            verb: Verb::Import,
            subject: format!("{} effects", rows.len()),
            reason: "imported from another table".to_owned(),
            version: None,
            detail: options.file.file_name().map(|name| name.to_string_lossy().into_owned()),
        };
        semel.engine().note_deed(&namespace, &deed).await?;
        for row in &rows {
            match semel.engine().import(row, &options.actor).await? {
                None => present += 1,
                Some(_) if row.receipt.is_some() => done += 1,
                Some(_) => in_doubt += 1,
            }
        }
    }
    if printer.wants_json() {
        let dry_run = options.dry_run;
        return printer.json(&json!({
            "dry_run": dry_run, "done": done, "in_doubt": in_doubt, "already_present": present
        }));
    }
    let would = if options.dry_run { "would be " } else { "" };
    printer.line(&format!("{done} {would}imported as done, {in_doubt} as in doubt"));
    if present > 0 {
        printer.line(&format!("{present} were here already and are unchanged"));
    }
    Ok(())
}

fn row(line: &Line, namespace: &Namespace, action: Option<&str>) -> anyhow::Result<Imported> {
    let address = Address {
        namespace: namespace.clone(),
        action: Action::new(action.unwrap_or(&line.workflow))
            .map_err(|error| anyhow!("{error}"))?,
        key: Key::from_text(&line.key).map_err(|error| anyhow!("{error}"))?,
    };
    let created = time(&line.created_at)?;
    let receipt = match line.status.to_ascii_lowercase().as_str() {
        "done" => Some(Json::of(&json!({
            "imported": true, "status": line.status, "created_at": rfc3339(created)
        }))?),
        "pending" => None,
        _ => bail!("the status `{}` is neither done nor pending", line.status),
    };
    let workflow = Some(line.workflow.clone()).filter(|name| !name.is_empty());
    Ok(Imported { address, workflow, created, receipt })
}

/// RFC 3339, SQL's `2026-11-15 12:00:00` (taken as UTC), or seconds or milliseconds since 1970.
fn time(text: &str) -> anyhow::Result<Wall> {
    if let Ok(timestamp) = text.parse::<jiff::Timestamp>() {
        return Ok(Wall(timestamp.as_millisecond()));
    }
    if let Ok(number) = text.parse::<i64>() {
        // A number this large is not a second of any date that a table would hold.
        let is_ms = number.unsigned_abs() >= 100_000_000_000;
        let timestamp = match is_ms {
            true => jiff::Timestamp::from_millisecond(number),
            false => jiff::Timestamp::from_second(number),
        };
        let timestamp = timestamp.map_err(|_| anyhow!("`{text}` is no time of this calendar"))?;
        return Ok(Wall(timestamp.as_millisecond()));
    }
    let civil = text.parse::<jiff::civil::DateTime>();
    let civil = civil.map_err(|_| anyhow!("`{text}` is not a time"))?;
    let zoned = civil.to_zoned(jiff::tz::TimeZone::UTC).context("out of range")?;
    Ok(Wall(zoned.timestamp().as_millisecond()))
}

fn read(file: &Path, table: &str) -> anyhow::Result<Vec<Line>> {
    let mut head = [0; 16];
    let opened = std::fs::File::open(file).with_context(|| file.display().to_string())?;
    let is_sqlite = std::io::Read::read(&mut &opened, &mut head).is_ok()
        && head.starts_with(b"SQLite format 3");
    if is_sqlite { read_sqlite(file, table) } else { read_csv(file) }
}

fn read_csv(file: &Path) -> anyhow::Result<Vec<Line>> {
    let mut reader = csv::Reader::from_path(file)?;
    let headers = reader.headers()?.clone();
    let column = |name: &str| {
        let found = headers.iter().position(|header| header.trim() == name);
        found.with_context(|| format!("the file has no column `{name}`"))
    };
    let columns = [column("workflow")?, column("key")?, column("status")?, column("created_at")?];
    let mut lines = Vec::new();
    for record in reader.records() {
        let record = record?;
        let number = record.position().map_or(0, |position| position.line());
        let [workflow, key, status, created_at] =
            columns.map(|column| record.get(column).unwrap_or_default().to_owned());
        let number = usize::try_from(number)?;
        lines.push(Line { number, workflow, key, status, created_at });
    }
    Ok(lines)
}

fn read_sqlite(file: &Path, table: &str) -> anyhow::Result<Vec<Line>> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if table.is_empty() || !table.chars().all(is_name) {
        bail!("`{table}` is not the name of a table");
    }
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let connection = rusqlite::Connection::open_with_flags(file, flags)?;
    // An identifier cannot be bound; it was checked above and is quoted.
    let text = format!(
        "SELECT CAST(workflow AS TEXT), CAST(key AS TEXT), CAST(status AS TEXT), \
         CAST(created_at AS TEXT) FROM \"{table}\""
    );
    let mut statement = connection.prepare(&text)?;
    let read = |row: &rusqlite::Row<'_>| {
        let text = |column| row.get::<_, Option<String>>(column).map(Option::unwrap_or_default);
        Ok((text(0)?, text(1)?, text(2)?, text(3)?))
    };
    let mut lines = Vec::new();
    for (index, found) in statement.query_map([], read)?.enumerate() {
        let (workflow, key, status, created_at) = found?;
        lines.push(Line { number: index + 1, workflow, key, status, created_at });
    }
    Ok(lines)
}
