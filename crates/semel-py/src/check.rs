//! What `semel check` needs of the engine: what a store holds, and time that is pushed.

use std::io::Write;
use std::sync::{Arc, Once, OnceLock};

use pyo3::prelude::*;
use semel::{Error, Json, Semel};
use semel_check::rehearsal::Points;
use semel_core::journal;
use semel_core::limits;
use semel_core::run::Run;
use semel_core::time::{Moment, Steady};
use semel_core::wire::{EffectView, effect_view};
use semel_core::wire_run::{EntryView, RunView, entry_view, run_view};
use semel_engine::Engine;
use semel_store::{Query, RunQuery};
use serde::Serialize;

use crate::mailbox::Told;

/// The rehearsal of this process; it opens one store.
static REHEARSAL: OnceLock<Arc<Points>> = OnceLock::new();

/// This process is a rehearsal from now on.
pub(crate) fn rehearse(points: &Arc<Points>) {
    let _ = REHEARSAL.set(points.clone());
}

/// Says once, on stderr, that this process is a rehearsal.
pub(crate) fn warn_of_rehearsal(points: &Points) {
    static SAID: Once = Once::new();
    // One write: whoever is killed meanwhile leaves a whole line or none.
    SAID.call_once(|| drop(std::io::stderr().write_all(points.warning().as_bytes())));
}

/// Pushes the clock of a rehearsal ahead; tells whether there is one.
#[pyfunction]
pub(crate) fn rehearsal_push_ms(ms: u64) -> bool {
    REHEARSAL.get().inspect(|points| points.push_ms(ms)).is_some()
}

/// A whole store, as far as one page of each goes: that of a check holds one story.
#[derive(Serialize)]
struct Seen {
    runs: Vec<SeenRun>,
    effects: Vec<SeenEffect>,
}

#[derive(Serialize)]
struct SeenRun {
    #[serde(flatten)]
    view: RunView,
    /// When it goes on by itself.
    due_in_ms: Option<u64>,
    entries: Vec<EntryView>,
}

#[derive(Serialize)]
struct SeenEffect {
    #[serde(flatten)]
    view: EffectView,
    due_in_ms: Option<u64>,
}

/// Tells all runs with their journals, and all effects, as JSON.
pub(crate) async fn look(semel: Semel) -> Result<Told, Error> {
    let engine = semel.engine();
    let now = engine.store().ground().now;
    let limit = limits::PAGE_ROWS_MAX;
    let mut seen = Seen { runs: Vec::new(), effects: Vec::new() };
    for run in engine.store().list_runs(&RunQuery::everywhere(limit)).await?.runs {
        seen.runs.push(seen_run(engine, run, &now).await?);
    }
    for effect in engine.store().list(&Query::everywhere(limit)).await?.effects {
        let effect = engine.judged(effect, &now);
        let due_in_ms = in_ms(effect.due(&now), &now);
        seen.effects.push(SeenEffect { view: effect_view(&effect, &now), due_in_ms });
    }
    Ok(Told::Text(Json::of(&seen)?.text().to_owned()))
}

async fn seen_run(engine: &Engine, run: Run, now: &Moment) -> Result<SeenRun, Error> {
    let mut entries = Vec::new();
    for inked in engine.journal(&run).await? {
        // What cannot be read is what `semel verify` is about.
        let Ok(entry) = journal::decode(&inked.text) else { continue };
        let value = match entry.event.value() {
            Some(value) => Some(engine.read_value(&run.namespace, value).await?),
            None => None,
        };
        entries.push(entry_view(inked.seq, &entry, value));
    }
    let due_in_ms = in_ms(run.wake_at(now), now);
    Ok(SeenRun { view: run_view(&run, now), due_in_ms, entries })
}

fn in_ms(due: Option<Steady>, now: &Moment) -> Option<u64> {
    due.map(|due| now.until(due))
}
