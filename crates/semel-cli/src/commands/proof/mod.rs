//! `semel proof`: what is proven about an effect or a run, for people, for browsers, for auditors.

mod check;
mod html;
mod html_parts;
mod sign;
#[cfg(test)]
mod tests;
mod text;

use std::path::Path;

use semel::Code;
use semel_core::derive;
use semel_core::proof::{self, Document, Evidence, Finding, Statement};
use semel_engine::Engine;

use super::open::Place;
use crate::args::{Proof, ProofCommand};
use crate::exit::Failed;
use crate::print::Printer;

pub(crate) async fn run(place: &Place, options: Proof, printer: &Printer) -> Result<(), Failed> {
    match (&options.command, &options.subject) {
        (Some(ProofCommand::Verify(options)), None) => check::verify(options, printer),
        (Some(ProofCommand::Keygen { file }), None) => sign::keygen(file, printer),
        (None, Some(subject)) => prove(place, subject, &options, printer).await,
        (Some(_), Some(_)) | (None, None) => {
            Err(Failed::usage("say what is to be proven, or `verify`, or `keygen`"))
        }
    }
}

async fn prove(
    place: &Place,
    subject: &str,
    options: &Proof,
    printer: &Printer,
) -> Result<(), Failed> {
    // A key that cannot be used is found before anything is read.
    let key = options.key.as_deref().map(sign::read_private).transpose()?;
    let engine = place.engine_to_look().await?;
    let evidence = gather(place, &engine, subject).await?;
    let statement = stated(&evidence)?;
    let mut document = Document::new(&statement, &evidence);
    if let Some(key) = &key {
        document.signature = Some(sign::sign(key, &document));
    }
    if let Some(file) = &options.output {
        write(file, &document.text())?;
        printer.talk(&format!("written: {}", file.display()));
    }
    if let Some(file) = &options.html {
        write(file, &html::page(&statement, &document))?;
        printer.talk(&format!("written: {}", file.display()));
    }
    if printer.wants_json() {
        printer.line(&document.text());
    } else {
        text::lines(&statement, printer).iter().for_each(|line| printer.line(line));
    }
    ending(&statement)
}

fn stated(evidence: &Evidence) -> Result<Statement, Failed> {
    proof::state(evidence).map_err(|what| {
        let error = semel::Error::new(Code::StoreCorrupt, format!("no proof: {what}"));
        Failed::from(error)
    })
}

/// What scripts learn: only what is settled is a success.
fn ending(statement: &Statement) -> Result<(), Failed> {
    let verdict = &statement.verdict;
    let says = format!("{}: {}", statement.name, verdict.says);
    match Finding::parse(verdict.finding).unwrap_or(Finding::Broken) {
        Finding::Done
        | Finding::NotDone
        | Finding::Undone
        | Finding::Told
        | Finding::Expired
        | Finding::InProgress => Ok(()),
        Finding::InDoubt | Finding::Disputed => {
            Err(Failed::from(semel::Error::new(Code::InDoubt, says)))
        }
        Finding::Twice => {
            Err(Failed::new(says).hint("see both receipts in the proof, and undo one"))
        }
        Finding::Broken => {
            let first = verdict.broken.first();
            let what =
                first.map_or(String::new(), |one| format!(": {} ({})", one.says, one.evidence));
            let error = semel::Error::new(Code::StoreCorrupt, format!("{says}{what}"));
            Err(Failed::from(error).hint("`semel verify` checks the whole store"))
        }
    }
}

/// Finds what is meant: an effect or a run by its name, or either by its id.
async fn gather(place: &Place, engine: &Engine, subject: &str) -> Result<Evidence, Failed> {
    let namespace = place.namespace()?;
    if subject.contains('/') {
        let address = place.address(subject)?;
        return match engine.evidence_of_effect(&address).await {
            Err(error) if error.code() == Code::NotFound => {
                let id = place.run_id(subject)?;
                let run = engine.evidence_of_run(&namespace, &id).await;
                run.map_err(|error| about(error, subject))
            }
            other => Ok(other?),
        };
    }
    match engine.evidence_of_run(&namespace, subject).await {
        Err(error) if error.code() == Code::NotFound => {
            let Some((address, _)) = derive::read_ref(&namespace, subject) else {
                return Err(about(error, subject));
            };
            let evidence = engine.evidence_of_effect(&address).await;
            evidence.map_err(|error| about(error, subject))
        }
        other => Ok(other?),
    }
}

fn about(error: semel::Error, subject: &str) -> Failed {
    if error.code() != Code::NotFound {
        return error.into();
    }
    let text = format!("there is no effect and no run {subject}");
    let hint = "check it and the namespace with `semel effects ls` and `semel runs ls`";
    Failed::from(semel::Error::new(Code::NotFound, text)).hint(hint)
}

fn write(file: &Path, text: &str) -> Result<(), Failed> {
    let text = if text.ends_with('\n') { text.to_owned() } else { format!("{text}\n") };
    std::fs::write(file, text)
        .map_err(|error| Failed::new(format!("{} cannot be written: {error}", file.display())))
}
