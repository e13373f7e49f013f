//! `semel spec` and `semel lint`: what an application declares, written down and judged. Of one in
//! Rust the registry is read; of one in Python its package does the same.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use semel_core::declare::Registry;
use semel_core::lint::{Finding, Level, lint};
use semel_core::spec::{diff, markdown, spec};
use serde_json::json;

use super::python::{self, Named};
use crate::args;
use crate::exit::Failed;
use crate::print::{Printer, Tone, plain};

pub(crate) fn write_down(
    options: &args::Spec,
    named: Named,
    printer: &Printer,
) -> Result<(), Failed> {
    if !is_registry(&options.file) {
        return Err(python::become_python(&["spec"], named, line(options)));
    }
    let spec = spec(&read(&options.file)?);
    let text = if printer.wants_json() {
        let text = serde_json::to_string_pretty(&spec);
        text.map_err(|error| Failed::internal(error.to_string()))? + "\n"
    } else {
        markdown(&spec)
    };
    if let Some(committed) = &options.check {
        return check(committed, &text, printer);
    }
    match &options.output {
        None => printer.line(text.trim_end()),
        Some(path) => fs::write(path, text).map_err(|error| unusable(path, &error))?,
    }
    Ok(())
}

fn check(committed: &Path, text: &str, printer: &Printer) -> Result<(), Failed> {
    let old = fs::read_to_string(committed).map_err(|error| unusable(committed, &error))?;
    let Some(differs) = diff(&old, text) else { return Ok(()) };
    printer.line(differs.trim_end());
    let name = committed.display();
    let message = format!("{name} is not what the code declares");
    Err(Failed::refused(message).hint(format!("look at it, then write it with --output {name}")))
}

/// The line for Python, whose options are the same.
fn line(options: &args::Spec) -> Vec<OsString> {
    let mut line = vec![options.file.clone().into_os_string()];
    for (option, value) in [("--output", &options.output), ("--check", &options.check)] {
        if let Some(value) = value {
            line.extend([option.into(), value.clone().into_os_string()]);
        }
    }
    line
}

pub(crate) fn judge(options: args::Lint, named: Named, printer: &Printer) -> Result<(), Failed> {
    let Some(file) = options.line.iter().find(|word| is_registry(Path::new(word))) else {
        return Err(python::become_python(&["lint"], named, options.line));
    };
    let is_flag = |word: &&OsString| *word == "--json";
    if let Some(word) = options.line.iter().find(|word| *word != file && !is_flag(word)) {
        let word = word.display();
        return Err(Failed::usage(format!("`{word}`: a registry is judged alone, with --json")));
    }
    let wants_json = printer.wants_json() || options.line.iter().any(|word| is_flag(&word));
    let found = lint(&read(Path::new(file))?);
    if wants_json {
        printer.json(&json!({ "findings": found }))?;
    } else {
        found.iter().for_each(|one| show(one, printer));
    }
    let bad = found.iter().filter(|one| one.level != Level::Info).count();
    match bad {
        0 => Ok(()),
        1 => Err(Failed::new("1 finding")),
        bad => Err(Failed::new(format!("{bad} findings"))),
    }
}

fn show(one: &Finding, printer: &Printer) {
    let (level, tone) = match one.level {
        Level::Error => ("error", Tone::Bad),
        Level::Warning => ("warning", Tone::Doubt),
        Level::Info => ("info", Tone::Quiet),
    };
    let place = match (&one.file, one.line) {
        (Some(file), Some(line)) => format!("{file}:{line}: "),
        (Some(file), None) => format!("{file}: "),
        (None, _) => String::new(),
    };
    let level = printer.paint(tone, &format!("{level} {} {}", one.code, one.name));
    let action = &one.action;
    printer.line(&format!(
        "{}{level}: {}",
        plain(&place),
        plain(&format!("`{action}`: {}", one.reason))
    ));
    printer.line(&format!("  better: {}", plain(&one.better)));
}

fn is_registry(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "json")
}

fn read(file: &Path) -> Result<Registry, Failed> {
    let text = fs::read_to_string(file).map_err(|error| unusable(file, &error))?;
    Registry::parse(&text).map_err(|invalid| {
        let message = format!("{}: {invalid}", file.display());
        Failed::usage(message)
            .hint("an application writes it by `semel.observe()`; see docs/spec.md")
    })
}

fn unusable(path: &Path, error: &std::io::Error) -> Failed {
    let message = format!("{}: {error}", path.display());
    match error.kind() {
        std::io::ErrorKind::NotFound => Failed::not_found(message),
        _ => Failed::new(message),
    }
}
