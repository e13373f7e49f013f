//! One file per command.

mod approvals;
mod audit;
mod backup;
pub(crate) mod bench;
mod config;
pub(crate) mod destination;
mod dev;
mod doctor;
pub(crate) mod double;
mod effects;
mod grant;
mod import;
mod keys;
mod migrate;
mod open;
mod outbox;
mod proof;
mod python;
mod quarantine;
mod releases;
mod runs;
mod schedules;
mod serve;
mod signals;
mod spec;
mod suspects;
mod tokens;
mod triggers;
pub(crate) mod verify;

pub(crate) use effects::print_effect;
pub(crate) use open::Place;

use clap::CommandFactory;
use semel_store::Veil;

use crate::args::{self, Args, Bench, Check, Command, Effects, Outbox, Quarantine};
use crate::config::Config;
use crate::exit::Failed;
use crate::print::Printer;
use crate::{crm, demo, mail, model};

pub(crate) async fn run(
    args: Args,
    config: &Config,
    veil: Veil,
    printer: &Printer,
) -> Result<(), Failed> {
    let named = python::Named::on(&args, config);
    let place = Place { store: args.store, namespace: args.namespace, veil };
    match args.command {
        Command::Demo(options) => {
            let named = args.store_is_named.then_some(place.store);
            demo::run(&options, named, printer).await
        }
        Command::Worker { line } => Err(python::become_python(&["worker"], named, line)),
        Command::Check(Check::Workflow(line)) => {
            Err(python::become_python(&["check"], named, line))
        }
        Command::Check(Check::Destination(options)) => destination::run(&options, printer).await,
        Command::Spec(options) => spec::write_down(&options, named, printer),
        Command::Lint(options) => spec::judge(options, named, printer),
        Command::Bench(Bench::Python { line }) => {
            Err(python::become_python(&["bench", "python"], named, line))
        }
        Command::Serve(_) => serve::run(config, place.veil, printer).await,
        Command::Dev(options) => dev::run(&options, config, place.veil, printer).await,
        Command::Tokens(command) => tokens::run(&place, command, printer).await,
        Command::Runs(command) => runs::run(&place, command, printer).await,
        Command::Schedules(command) => schedules::run(&place, command, printer).await,
        Command::Triggers(command) => triggers::run(&place, command, printer).await,
        Command::Signals(command) => signals::run(&place, command, printer).await,
        Command::Releases(command) => releases::run(&place, command, printer).await,
        Command::Effects(command) => run_effects(&place, command, printer).await,
        Command::Approvals(command) => {
            approvals::run(&place, command, config.set.public_url.as_deref(), printer).await
        }
        Command::Quarantine(command) => run_quarantine(&place, command, printer).await,
        Command::Outbox(Outbox::Ls(options)) => outbox::ls(&place, &options, printer).await,
        Command::Outbox(Outbox::Drop { id }) => outbox::drop_refused(&place, id, printer).await,
        Command::Verify(options) => verify::run(&place, &options, printer).await,
        Command::Audit(command) => audit::run(&place, command, printer).await,
        Command::Proof(options) => proof::run(&place, options, printer).await,
        Command::Backup(options) => backup::run(&place, &options, printer).await,
        Command::Keys(command) => keys::run(command, printer),
        Command::Doctor => doctor::run(&place, printer).await,
        Command::Double(options) => double::run(&options, printer).await,
        Command::Migrate => migrate::run(&place, printer).await,
        Command::Bench(bench) => {
            let named = args.store_is_named.then_some(place.store.as_str());
            run_bench(bench, named, printer).await
        }
        Command::BenchPostgres(options) => {
            bench::postgres::worker(&place.store, options, printer).await
        }
        Command::BenchWorker { seconds, callers, prefix } => {
            bench::worker(&place, seconds, callers, &prefix, printer).await
        }
        Command::Config(args::Config::Show(options)) => config::show(config, &options, printer),
        Command::Config(args::Config::Schema) => config::schema(printer),
        Command::Completions { shell } => {
            // Not straight to stdout: the generator panics when its reader has gone away.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Args::command(), "semel", &mut script);
            printer.line(String::from_utf8_lossy(&script).trim_end());
            Ok(())
        }
        Command::DemoCrm { dir } => Ok(crm::serve(dir).await?),
        Command::DemoModel { dir } => Ok(model::serve(dir).await?),
        Command::DemoMail { dir } => Ok(mail::serve(dir).await?),
        Command::DemoTriageWorker(options) => {
            demo::triage::worker::run(&place, &options, printer).await
        }
        Command::DemoWorker(options) => demo::worker::run(&place, &options, printer).await,
    }
}

/// On the store that the line names, or on a file that is thrown away.
async fn run_bench(bench: Bench, named: Option<&str>, printer: &Printer) -> Result<(), Failed> {
    let postgres = named.filter(|store| store.starts_with("postgres"));
    match (bench, postgres) {
        (Bench::Python { .. }, _) => unreachable!("Python measures itself"),
        (Bench::Http, _) => bench::http(printer).await,
        (Bench::Fairness, _) => bench::fairness(printer, named).await,
        (Bench::Ledger, None) => bench::ledger(printer).await,
        (Bench::Runs { steps, finished }, None) => bench::runs(printer, steps, finished).await,
        (Bench::Ledger, Some(store)) => {
            bench::postgres::measure_all(printer, store, bench::postgres::Kind::Ledger, 0).await
        }
        (Bench::Runs { steps, .. }, Some(store)) => {
            bench::postgres::measure_all(printer, store, bench::postgres::Kind::Runs, steps).await
        }
    }
}

async fn run_quarantine(
    place: &Place,
    command: Quarantine,
    printer: &Printer,
) -> Result<(), Failed> {
    match command {
        Quarantine::Show(options) => quarantine::show(place, &options, printer).await,
        Quarantine::Close(options) => quarantine::close(place, &options, printer).await,
    }
}

async fn run_effects(place: &Place, command: Effects, printer: &Printer) -> Result<(), Failed> {
    match command {
        Effects::Ls(options) => effects::ls(place, &options, printer).await,
        Effects::Show(options) => effects::show(place, &options, printer).await,
        Effects::Resolve(options) => effects::resolve(place, &options, printer).await,
        Effects::Grant(options) => grant::run(place, &options, printer).await,
        Effects::Supersede(options) => effects::supersede(place, &options, printer).await,
        Effects::Void(options) => effects::void(place, &options, printer).await,
        Effects::Import(options) => import::run(place, &options, printer).await,
        Effects::Suspects(options) => suspects::run(place, &options, printer).await,
    }
}
