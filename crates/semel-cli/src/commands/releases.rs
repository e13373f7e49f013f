//! `semel releases`: which versions of a workflow's code there are, and which one is live.

use semel_core::release::Releases as Known;
use semel_core::wire_release::{ReleaseView, ReleasesView, releases_view};
use semel_engine::Engine;

use super::effects;
use super::open::Place;
use crate::args::{self, Releases};
use crate::exit::Failed;
use crate::print::{Printer, Tone, plain};

pub(crate) async fn run(place: &Place, command: Releases, printer: &Printer) -> Result<(), Failed> {
    match command {
        Releases::Ls => ls(place, printer).await,
        Releases::Show(options) => show(place, &options, printer).await,
        Releases::Promote(options) => promote(place, &options, printer).await,
        Releases::Rollback(options) => roll_back(place, &options, printer).await,
    }
}

async fn ls(place: &Place, printer: &Printer) -> Result<(), Failed> {
    let engine = place.engine_to_look().await?;
    let mut views = Vec::new();
    let listed = engine.releases(&place.namespace()?).await?;
    for (workflow, known) in &listed.found {
        views.push(view(place, &engine, workflow, known).await?);
    }
    if printer.wants_json() {
        return printer.json(&effects::listed(&views, None::<String>, &listed.unreadable));
    }
    let mut rows = Vec::new();
    for view in &views {
        let of_workflow = view
            .releases
            .iter()
            .map(|release| [vec![plain(&view.workflow)], row(view, release, printer)].concat());
        rows.extend(of_workflow);
    }
    let headings = ["WORKFLOW", "RELEASE", "STATE", "OFFERED", "OPEN RUNS", "FIRST", "LAST"];
    printer.table(&headings, &rows);
    effects::tell_unreadable(&listed.unreadable, printer);
    if views.is_empty() && listed.unreadable.is_empty() {
        printer.talk("no releases; a worker that starts makes one known");
    }
    Ok(())
}

async fn show(place: &Place, options: &args::ReleaseShow, printer: &Printer) -> Result<(), Failed> {
    let engine = place.engine_to_look().await?;
    let known = engine.releases_known(&place.namespace()?, &options.workflow).await?;
    print(&view(place, &engine, &options.workflow, &known).await?, printer)
}

async fn promote(
    place: &Place,
    options: &args::ReleasePromote,
    printer: &Printer,
) -> Result<(), Failed> {
    let args::Operator { actor, reason } = &options.operator;
    let (namespace, workflow) = (place.namespace()?, &options.workflow);
    let engine = place.engine_to_decide().await?;
    engine.releases_known(&namespace, workflow).await?;
    let promoted = engine.promote(&namespace, workflow, &options.release, (actor, reason)).await;
    print(&view(place, &engine, workflow, &promoted?).await?, printer)
}

async fn roll_back(
    place: &Place,
    options: &args::ReleaseDecision,
    printer: &Printer,
) -> Result<(), Failed> {
    let args::Operator { actor, reason } = &options.operator;
    let (namespace, workflow) = (place.namespace()?, &options.workflow);
    let engine = place.engine_to_decide().await?;
    engine.releases_known(&namespace, workflow).await?;
    let rolled_back = engine.roll_back(&namespace, workflow, (actor, reason)).await;
    print(&view(place, &engine, workflow, &rolled_back?).await?, printer)
}

async fn view(
    place: &Place,
    engine: &Engine,
    workflow: &str,
    known: &Known,
) -> Result<ReleasesView, Failed> {
    let open = engine.open_runs(&place.namespace()?, workflow).await?;
    Ok(releases_view(workflow, known, &open, engine.store().ground().now.wall))
}

fn print(view: &ReleasesView, printer: &Printer) -> Result<(), Failed> {
    if printer.wants_json() {
        return printer.json(view);
    }
    let name = printer.paint(Tone::Strong, &plain(&view.workflow));
    printer.line(&match &view.live {
        Some(live) => format!("{name}: new runs start on {}", plain(live)),
        None => format!("{name}: no release is live; new runs start on what a worker offers"),
    });
    let rows: Vec<_> = view.releases.iter().map(|one| row(view, one, printer)).collect();
    let headings = ["RELEASE", "STATE", "OFFERED", "OPEN RUNS", "FIRST", "LAST"];
    printer.table(&headings, &rows);
    if view.unpinned_runs > 0 {
        printer.talk(&format!("{} open runs are of no release yet", view.unpinned_runs));
    }
    printer.line("");
    for one in &view.promotions {
        let from = one.from.as_ref().map_or(String::new(), |from| format!(" from {from}"));
        let said = format!("{}  to {}{from} by {}: {}", one.at, one.to, one.actor, one.reason);
        printer.line(&plain(&said));
    }
    print_gone(view, printer);
    Ok(())
}

/// Runs that wait for code nobody offers: what to do about them.
fn print_gone(view: &ReleasesView, printer: &Printer) {
    let is_gone = |one: &&ReleaseView| !one.offered && one.open_runs > 0;
    for gone in view.releases.iter().filter(is_gone) {
        let (name, workflow) = (plain(&gone.name), plain(&view.workflow));
        printer.talk(&format!(
            "nobody offers {name}: its runs move to the live release where their journals fit, or \
             wait for a worker; see `semel runs ls --workflow {workflow}`"
        ));
    }
}

fn row(view: &ReleasesView, release: &ReleaseView, printer: &Printer) -> Vec<String> {
    let marks = [("live", release.live), ("draft", release.draft), ("strict", release.strict)];
    let marks: Vec<_> = marks.iter().filter(|(_, is)| *is).map(|(mark, _)| *mark).collect();
    let tone = if release.live { Tone::Good } else { Tone::Quiet };
    let (offered, offered_tone) = match (release.offered, release.open_runs) {
        (true, _) => ("now", Tone::Good),
        (false, 0) => ("gone", Tone::Quiet),
        (false, _) => ("gone", Tone::Doubt),
    };
    let at_least = if view.counted_all { "" } else { " or more" };
    vec![
        plain(&release.name),
        printer.paint(tone, &marks.join(" ")),
        printer.paint(offered_tone, offered),
        format!("{}{at_least}", release.open_runs),
        release.first_seen.clone(),
        release.last_seen.clone(),
    ]
}
