//! `semel runs show`: the account of one run, once or as it happens.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use semel::{Code, Json};
use semel_core::journal::{self, Entry, Event, Link};
use semel_core::limits;
use semel_core::run::{Run, State};
use semel_core::wire::{EffectView, effect_view};
use semel_core::wire_run::{
    ChildView, EntryView, RunView, child_asked, entry_view, history_view, run_view,
};
use semel_engine::Engine;
use semel_store::{Inked, StoreError};

use super::super::open::Place;
use super::lines::{self, Told};
use crate::args;
use crate::exit::Failed;
use crate::print::Printer;

/// How often a follower looks for more.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

pub(super) async fn show(
    place: &Place,
    options: &args::RunShow,
    printer: &Printer,
) -> Result<(), Failed> {
    let id = place.run_id(&options.run)?;
    let engine = place.engine_to_look().await?;
    let run = engine.run(&place.namespace()?, &id).await.map_err(Failed::about_run)?;
    let mut reader = Reader::of(&run);
    // The row was read first: an end that it tells is in the journal by now.
    let entries = match run.state() {
        State::Expired => Vec::new(),
        State::Ready
        | State::Running
        | State::Waiting
        | State::Paused
        | State::Cancelling
        | State::Done
        | State::Failed
        | State::Cancelled => reader.take(engine.journal(&run).await?)?,
    };
    let teller = Teller { place, engine: &engine, printer };
    if options.follow {
        return teller.follow(run, reader, entries).await;
    }
    if printer.wants_json() {
        return printer.json(&teller.whole(&run, &reader, &entries).await?);
    }
    let view = teller.view(&run).await?;
    teller.print(&view, &reader, &entries).await?;
    for child in teller.children(&run, &entries).await? {
        lines::print_child(&child, printer);
    }
    teller.print_close(&run, &view).await
}

/// Reads a journal from where it stopped, and checks that it goes on from there.
struct Reader {
    run: Run,
    next: u64,
    head: Link,
    began: Option<journal::At>,
}

impl Reader {
    fn of(run: &Run) -> Reader {
        let head = Link::of_run(&run.namespace, &run.id);
        Reader { run: run.clone(), next: 0, head, began: None }
    }

    async fn more(&mut self, engine: &Engine) -> Result<Vec<Told>, Failed> {
        let mut told = Vec::new();
        loop {
            let (number, limit) = (self.run.number, limits::PAGE_ROWS_MAX);
            let page = engine.store().journal(number, self.next, limit).await?;
            let is_full = page.len() == limit;
            told.extend(self.take(page)?);
            if !is_full {
                return Ok(told);
            }
        }
    }

    fn take(&mut self, page: Vec<Inked>) -> Result<Vec<Told>, Failed> {
        let mut told = Vec::new();
        for inked in page {
            let link = self.head.then(&inked.text);
            if inked.seq != self.next || inked.link != link {
                return Err(self.corrupt(&format!("entry {} does not follow", self.next)));
            }
            let entry = journal::decode(&inked.text).map_err(|error| self.corrupt(&error))?;
            (self.next, self.head) = (self.next + 1, link);
            let began = *self.began.get_or_insert(entry.at);
            told.push(Told { seq: inked.seq, began, entry });
        }
        Ok(told)
    }

    fn corrupt(&self, what: &str) -> Failed {
        let text = format!("journal of run {}: {what}", self.run.id);
        Failed::from(StoreError::Corrupt(text))
    }
}

struct Teller<'a> {
    place: &'a Place,
    engine: &'a Engine,
    printer: &'a Printer,
}

impl Teller<'_> {
    /// The run as it stands, with whoever is before it.
    async fn view(&self, run: &Run) -> Result<RunView, Failed> {
        let mut view = run_view(run, &self.engine.store().ground().now);
        for (wait, shown) in run.waits.iter().zip(&mut view.waits) {
            shown.behind = self.engine.runs_before(run, wait).await?;
        }
        Ok(view)
    }

    /// The runs that this one asked for, each once, as they stand now.
    async fn children(&self, run: &Run, all: &[Told]) -> Result<Vec<ChildView>, Failed> {
        let mut children = Vec::new();
        for told in all {
            let Event::Planned { id: command, what, .. } = &told.entry.event else { continue };
            let Some((workflow, key)) = child_asked(what) else { continue };
            let id = self.place.run_id(&format!("{workflow}/{key}"))?;
            let child = self.engine.store().run(&run.namespace, &id).await?;
            children.push(ChildView {
                command: command.clone(),
                id,
                workflow: workflow.to_owned(),
                key: key.to_owned(),
                state: child.map_or("missing", |child| child.state().as_str()),
            });
        }
        Ok(children)
    }

    async fn follow(
        &self,
        mut run: Run,
        mut reader: Reader,
        mut entries: Vec<Told>,
    ) -> Result<(), Failed> {
        if !self.printer.wants_json() {
            let view = self.view(&run).await?;
            lines::print_head(&view, self.printer);
            self.printer.line("");
        }
        loop {
            if self.printer.wants_json() {
                for told in &entries {
                    let line = serde_json::to_string(&self.entry(&run, told).await?);
                    let line = line.map_err(|error| Failed::internal(error.to_string()))?;
                    self.printer.line(&line);
                }
            } else {
                self.print_entries(&entries).await?;
            }
            if is_still(&run) {
                break;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
            let namespace = self.place.namespace()?;
            run = self.engine.run(&namespace, &run.id).await.map_err(Failed::about_run)?;
            entries = reader.more(self.engine).await?;
        }
        if !self.printer.wants_json() {
            let view = self.view(&run).await?;
            self.print_close(&run, &view).await?;
        }
        self.ending(&run).await
    }

    /// What a follower's exit code says: the run is done, came to nothing, or stands still.
    async fn ending(&self, run: &Run) -> Result<(), Failed> {
        if let Some(pause) = &run.paused {
            let first = pause.detail.lines().next().unwrap_or_default();
            let text = format!("the run is paused: {first}");
            return Err(Failed::about_run(semel::Error::new(Code::RunPaused, text)));
        }
        match self.engine.ending(run).await {
            Ok(_) => Ok(()),
            Err(error) if run.state() == State::Expired => Err(Failed::about_run(error)),
            Err(error) => Err(Failed::run_ended(error)),
        }
    }

    /// Everything in one document, with all values.
    async fn whole(&self, run: &Run, reader: &Reader, all: &[Told]) -> Result<RunView, Failed> {
        let view = self.view(run).await?;
        if all.is_empty() {
            return Ok(view);
        }
        let mut entries = Vec::new();
        for told in all {
            entries.push(self.entry(run, told).await?);
        }
        let mut planned = BTreeSet::new();
        for told in all {
            if let Event::Planned { what, .. } = &told.entry.event {
                planned.extend(lines::effect_name(what));
            }
        }
        let mut effects = Vec::new();
        for name in planned {
            effects.extend(self.effect(name).await?);
        }
        let children = self.children(run, all).await?;
        let history = history_view(reader.head, entries, effects, children);
        Ok(RunView { history: Some(history), ..view })
    }

    async fn entry(&self, run: &Run, told: &Told) -> Result<EntryView, Failed> {
        let value = self.value(run, &told.entry).await?;
        Ok(entry_view(told.seq, &told.entry, value))
    }

    async fn value(&self, run: &Run, entry: &Entry) -> Result<Option<Json>, Failed> {
        let Some(value) = entry.event.value() else { return Ok(None) };
        Ok(Some(self.engine.read_value(&run.namespace, value).await?))
    }

    /// What the ledger says of an effect now.
    async fn effect(&self, name: &str) -> Result<Option<EffectView>, Failed> {
        let found = self.engine.store().load(&self.place.address(name)?).await?;
        let now = self.engine.store().ground().now;
        Ok(found.map(|effect| effect_view(&self.engine.judged(effect, &now), &now)))
    }

    async fn print(&self, view: &RunView, reader: &Reader, all: &[Told]) -> Result<(), Failed> {
        lines::print_head(view, self.printer);
        let says = match all.len() {
            0 => "dropped: the run is past its retention".to_owned(),
            count => format!("{count} entries, hash chain verified up to {}", short(reader.head)),
        };
        lines::field("journal", &says, self.printer);
        self.printer.line("");
        self.print_entries(all).await
    }

    /// One line an entry; beside each effect what the ledger knows of it, once.
    async fn print_entries(&self, entries: &[Told]) -> Result<(), Failed> {
        let settled: HashSet<&str> = entries.iter().filter_map(settled_id).collect();
        let mut told_before = None;
        for told in entries {
            lines::print_entry(told, self.printer);
            let raised = told.entry.event.fault().and_then(|fault| fault.raised.as_ref());
            // An exception that goes on to end its step, or the run, is told where it came from.
            if let Some(raised) = raised.filter(|_| raised != told_before) {
                lines::print_trace(raised, self.printer);
                told_before = Some(raised);
            }
            let (Event::Planned { id, what, .. } | Event::Effect { id, what, .. }) =
                &told.entry.event
            else {
                continue;
            };
            let is_told_later = settled.contains(id.as_str()) && settled_id(told).is_none();
            if let Some(name) = lines::effect_name(what).filter(|_| !is_told_later) {
                lines::print_account(self.effect(name).await?.as_ref(), self.printer);
            }
        }
        Ok(())
    }

    /// What it waits for, why it stands still, or what it came to.
    async fn print_close(&self, run: &Run, view: &RunView) -> Result<(), Failed> {
        lines::print_waits(view, self.printer);
        lines::print_stranded(view, self.printer);
        lines::print_pause(view, self.printer);
        if run.state() == State::Done {
            let result = self.engine.ending(run).await?;
            self.printer.line("");
            lines::field("result", result.text(), self.printer);
        }
        Ok(())
    }
}

fn settled_id(told: &Told) -> Option<&str> {
    let Event::Effect { id, .. } = &told.entry.event else { return None };
    Some(id)
}

/// Whether nothing more will happen by itself.
fn is_still(run: &Run) -> bool {
    match run.state() {
        State::Done | State::Failed | State::Cancelled | State::Expired | State::Paused => true,
        State::Ready | State::Running | State::Waiting | State::Cancelling => false,
    }
}

/// Enough of a link to compare two accounts by eye.
fn short(head: Link) -> String {
    head.to_string().chars().take(16).collect()
}
