//! The second part of the demo: a whole workflow. Its event comes twice, its worker is killed three
//! times, and in the end everything happened once.

mod relay;
pub(crate) mod worker;

use std::path::Path;
use std::process::{ExitStatus, Stdio};

use anyhow::{Context, ensure};
use semel_check::rehearsal;
use semel_core::journal::{self, Event};
use semel_store::RunQuery;
use serde::Serialize;
use tokio::process::Command;

use super::process::{Crm, Server, kill, semel_on};
use super::tell;
use crate::commands::Place;
use crate::exit::Failed;
use crate::print::{Printer, Tone};
use crate::{crm, mail, model};

const REQUEST: &str = "request-42";
const WORKERS: usize = 4;

/// What became of the event, as `--json` prints it: counted in the files of the destinations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Outcome {
    triggers: usize,
    kills: usize,
    runs: usize,
    /// How often a worker took the run up.
    takes: usize,
    model_calls: usize,
    tickets: usize,
    mails: usize,
    state: String,
}

impl Outcome {
    pub(super) fn is_right(&self) -> bool {
        let Outcome { runs, model_calls, tickets, mails, state, .. } = self;
        (*runs, *model_calls, *tickets, *mails, state.as_str()) == (1, 1, 1, 1, "done")
    }
}

pub(super) struct Scene<'a> {
    pub(super) place: Place,
    pub(super) folder: &'a Path,
    pub(super) crm: &'a Crm,
    pub(super) printer: &'a Printer,
}

impl Scene<'_> {
    pub(super) async fn play(&self) -> Result<Outcome, Failed> {
        let model = Server::start(self.folder, "demo-model", "model.addr").await?;
        let mail = Server::start(self.folder, "demo-mail", "mail.addr").await?;
        self.tell(&self.printer.paint(Tone::Strong, "triage, a workflow"));
        self.tell("  A model classifies a request, the CRM gets a ticket, the sender a mail. Each");
        self.tell("  worker that is started triggers the same event twice.");
        let worker = |die_at: Option<&str>| self.worker(&model.address, &mail.address, die_at);

        self.crm.script(REQUEST, &["hold"]).await?;
        let mut first = worker(None)?.spawn().context("starting the worker")?;
        self.crm.wait_until_held(REQUEST).await?;
        kill(&mut first).await?;
        self.tell("  the CRM wrote the ticket; the worker was killed before the answer");

        let second = worker(Some("before ack-mail pending"))?.status().await;
        was_killed(second.context("the second worker")?)?;
        self.tell("  started again; killed between the ticket and the mail");

        let third = worker(Some("before finished"))?.status().await;
        was_killed(third.context("the third worker")?)?;
        self.tell("  started again; killed after the mail, before the run was recorded as done");

        let last = worker(None)?.status().await.context("the last worker")?;
        if !last.success() {
            return Err(Failed::new(format!("the last worker ended with {last}")));
        }
        self.tell("  started again; the run is done");
        self.count().await
    }

    fn tell(&self, text: &str) {
        tell(self.printer, text);
    }

    fn worker(&self, model: &str, mail: &str, die_at: Option<&str>) -> anyhow::Result<Command> {
        let mut command = semel_on(&self.place)?;
        command.args(["demo-triage-worker", REQUEST]);
        command.args(["--model", model, "--crm", &self.crm.url, "--mail", mail]);
        if self.place.file().is_none() {
            // No lock proves a process dead: its lease must end first.
            command.args(["--lease-ms", "1000"]);
        }
        command.env_remove(rehearsal::DIE_AT).stdout(Stdio::null()).stderr(Stdio::null());
        if let Some(point) = die_at {
            command.env(rehearsal::DIE_AT, point);
        }
        Ok(command)
    }

    /// Destinations are counted in their own files, the run in its journal.
    async fn count(&self) -> Result<Outcome, Failed> {
        let engine = self.place.engine_to_look().await?;
        let namespace = Some(self.place.namespace.clone());
        let query = RunQuery { namespace, ..RunQuery::everywhere(10) };
        let runs = engine.runs(&query).await?.runs;
        let run = runs.first().context("the run")?;
        let entries = engine.journal(run).await?;
        let events = entries.iter().filter_map(|inked| journal::decode(&inked.text).ok());
        let takes = events.filter(|entry| matches!(entry.event, Event::Taken { .. })).count();
        let outcome = Outcome {
            triggers: WORKERS * worker::TRIGGERS,
            kills: WORKERS - 1,
            runs: runs.len(),
            takes,
            model_calls: model::calls(self.folder)?.len(),
            tickets: crm::applied(self.folder, REQUEST)?,
            mails: mail::mails(self.folder)?.len(),
            state: run.state().to_string(),
        };
        let line = format!(
            "  run {}: {}, {} entries, taken {takes} times",
            run.id,
            run.state(),
            entries.len()
        );
        self.tell(&line);
        Ok(outcome)
    }
}

fn was_killed(status: ExitStatus) -> anyhow::Result<()> {
    use std::os::unix::process::ExitStatusExt;
    ensure!(status.signal() == Some(9), "a worker that was to be killed ended with {status}");
    Ok(())
}

pub(super) fn print(outcome: &Outcome, printer: &Printer) {
    let Outcome { triggers, kills, runs, takes, model_calls, tickets, mails, state } = outcome;
    printer.line("\nWhat became of the event (read from the destinations' own files):\n");
    let counted = |count: &usize| match count {
        1 => printer.paint(Tone::Good, "1"),
        other => printer.paint(Tone::Bad, &other.to_string()),
    };
    let row = vec![
        format!("{triggers} times"),
        format!("{kills} times"),
        counted(runs),
        format!("{takes} times"),
        counted(model_calls),
        counted(tickets),
        counted(mails),
        state.clone(),
    ];
    let headings =
        ["TRIGGERED", "KILLED", "RUNS", "TAKEN", "MODEL CALLS", "TICKETS", "MAILS", "THE RUN IS"];
    printer.table(&headings, &[row]);
}
