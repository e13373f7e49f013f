//! `semel demo`: the idea in one command. A worker is killed after the CRM wrote the ticket and
//! before anybody recorded it; then it is started again. What did the customer get? At first one
//! effect under each contract, then a whole workflow.

mod process;
mod scenario;
pub(crate) mod triage;
pub(crate) mod worker;

use std::path::Path;

use semel_store::{Access, Clock, Opened, StoreError, Veil};
use serde::Serialize;

use crate::args;
use crate::commands::Place;
use crate::exit::Failed;
use crate::print::{Printer, Tone};
use process::Crm;
use scenario::Scene;
use worker::Protection;

/// What became of one scenario, as `--json` prints it.
#[derive(Clone, Debug, Serialize)]
struct Outcome {
    name: &'static str,
    /// How often it happened, read from the destination's own file.
    applied: usize,
    /// What the ledger said before any person acted.
    state: String,
    attempts: usize,
}

const SCENES: [Protection; 6] = [
    Protection::Unprotected,
    Protection::NativeKey,
    Protection::Probe,
    Protection::Conditional,
    Protection::Transaction,
    Protection::AtMostOnce,
];

/// Plays on the store of this address, or on temporary files.
pub(crate) async fn run(
    options: &args::Demo,
    store: Option<String>,
    printer: &Printer,
) -> Result<(), Failed> {
    let stage = Stage::new(store).await?;
    let temporary = tempfile::tempdir().map_err(anyhow::Error::from)?;
    let folder = match &options.keep {
        Some(folder) => {
            std::fs::create_dir_all(folder).map_err(anyhow::Error::from)?;
            let mut entries = std::fs::read_dir(folder).map_err(anyhow::Error::from)?;
            if entries.next().is_some() {
                // The tickets of an earlier demo would be counted again.
                return Err(Failed::new(format!("the folder {} is not empty", folder.display()))
                    .hint("name a new one"));
            }
            folder.clone()
        }
        None => temporary.path().to_owned(),
    };
    let crm = Crm::start(&folder).await?;
    let outcomes = play(&stage, &folder, &crm, printer).await?;
    let place = stage.place(&folder, "triage");
    let triage = triage::Scene { place, folder: &folder, crm: &crm, printer }.play().await?;
    if let Some(folder) = &options.keep {
        printer.talk(&format!("all files are in {}", folder.display()));
    }
    let wrong: Vec<_> = outcomes.iter().filter(|outcome| !is_right(outcome)).collect();
    if printer.wants_json() {
        printer.json(&serde_json::json!({ "scenarios": outcomes, "triage": triage }))?;
    } else {
        print_outcomes(&outcomes, printer);
        triage::print(&triage, printer);
    }
    if !triage.is_right() {
        return Err(Failed::new(format!("triage is not what it should be: {triage:?}")));
    }
    match wrong.first() {
        None => Ok(()),
        Some(outcome) => Err(Failed::new(format!(
            "{} applied {} times and is {}: that is not what it should be",
            outcome.name, outcome.applied, outcome.state
        ))),
    }
}

/// Where the ledgers of the demo are.
enum Stage {
    /// One file for each scene, gone with the demo.
    Files,
    /// On a store that was named, in a namespace that nobody had before.
    Named(Place),
}

impl Stage {
    async fn new(store: Option<String>) -> Result<Stage, Failed> {
        let Some(store) = store else { return Ok(Stage::Files) };
        let now = std::time::UNIX_EPOCH.elapsed().map_err(anyhow::Error::from)?;
        let namespace = format!("demo-{}-{}", now.as_millis(), std::process::id());
        let place = Place { store, namespace, veil: Veil::from_environment()? };
        // One that is not there is made; only one that other processes see, too, can be played on.
        if let Err(StoreError::Missing(_)) =
            Opened::open(&place.store, Access::ReadOnly, Clock::Real).await
        {
            Opened::migrate(&place.store).await?;
        }
        place.open(Access::ReadWrite).await?.upkeep()?;
        Ok(Stage::Named(place))
    }

    fn place(&self, folder: &Path, scene: &str) -> Place {
        match self {
            Stage::Files => Place {
                store: format!("sqlite:{}", folder.join(format!("{scene}.db")).display()),
                namespace: "default".to_owned(),
                veil: Veil::default(),
            },
            Stage::Named(place) => place.clone(),
        }
    }

    /// A `transaction` writes rows of its own. In somebody's database it makes no table.
    fn has(&self, protection: Protection) -> bool {
        match self {
            Stage::Files => true,
            Stage::Named(_) => protection != Protection::Transaction,
        }
    }
}

async fn play(
    stage: &Stage,
    folder: &Path,
    crm: &Crm,
    printer: &Printer,
) -> Result<Vec<Outcome>, Failed> {
    tell(printer, "A small CRM is running, as a process of its own. For each contract a worker");
    tell(printer, "creates one ticket there. The CRM writes it, and before the answer arrives the");
    tell(printer, "worker is killed (SIGKILL). Then the worker is started again.\n");
    let mut outcomes = Vec::new();
    if let Stage::Named(place) = stage {
        tell(printer, &format!("All of it is in the namespace {}.\n", place.namespace));
    }
    for protection in SCENES.into_iter().filter(|protection| stage.has(*protection)) {
        let place = stage.place(folder, protection.name());
        let scene = Scene { protection, place, folder, crm, printer };
        outcomes.push(scene.play().await?);
    }
    Ok(outcomes)
}

fn is_right(outcome: &Outcome) -> bool {
    match outcome.name {
        "unprotected" => outcome.applied == 2,
        "at_most_once" => outcome.applied == 1 && outcome.state == "in_doubt",
        _ => outcome.applied == 1 && outcome.state == "done",
    }
}

fn print_outcomes(outcomes: &[Outcome], printer: &Printer) {
    printer.line("\nWhat the customer got (read from the destination's own file):\n");
    let rows: Vec<_> = outcomes
        .iter()
        .map(|outcome| {
            let tickets = match outcome.applied {
                1 => printer.paint(Tone::Good, "1 ticket"),
                several => printer.paint(Tone::Bad, &format!("{several} tickets")),
            };
            let state = match outcome.state.as_str() {
                "in_doubt" => "in_doubt, then settled by a person".to_owned(),
                state => state.to_owned(),
            };
            vec![outcome.name.to_owned(), tickets, state, outcome.attempts.to_string()]
        })
        .collect();
    printer.table(&["CONTRACT", "GOT", "THE LEDGER SAID", "ATTEMPTS"], &rows);
}

/// The story is for people only.
fn tell(printer: &Printer, text: &str) {
    if !printer.wants_json() {
        printer.line(text);
    }
}
