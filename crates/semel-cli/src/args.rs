//! The command line.

mod backup;
mod config;
mod grant;
mod proof;
mod releases;
mod runs;
mod schedules;
mod server;
mod spec;
mod triggers;

pub(crate) use backup::{Backup, BackupCommand, Keys};
pub(crate) use config::{Config, ConfigShow};
pub(crate) use grant::Grant;
pub(crate) use proof::{Proof, ProofCommand, ProofVerify};
pub(crate) use releases::{ReleaseDecision, ReleasePromote, ReleaseShow, Releases};
pub(crate) use runs::{
    RunDecision, RunLs, RunMove, RunShow, RunSkip, RunStart, Runs, SignalCallback, SignalSend,
    Signals,
};
pub(crate) use schedules::{ScheduleLs, SchedulePause, SchedulePut, ScheduleShow, Schedules};
pub(crate) use server::{Dev, Serve, TokenCreate, Tokens};
pub(crate) use spec::{Lint, Spec, Suspects};
pub(crate) use triggers::{
    TriggerDeliveries, TriggerLs, TriggerPut, TriggerRemove, TriggerTest, Triggers,
};

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand};

/// Every external effect once per business intent, and a ledger that proves it.
#[derive(Debug, Parser)]
#[command(name = "semel", version, max_term_width = 100)]
pub(crate) struct Args {
    /// The store: sqlite:path/to/file.db
    #[arg(long, global = true, env = "SEMEL_STORE", default_value = "sqlite:semel.db")]
    pub(crate) store: String,

    /// Whether this very line names the store: the demo never plays on one that the environment
    /// happens to name.
    #[arg(skip)]
    pub(crate) store_is_named: bool,

    /// Whether this very line names the namespace.
    #[arg(skip)]
    pub(crate) namespace_is_named: bool,

    /// The namespace to work in
    #[arg(long, global = true, env = "SEMEL_NAMESPACE", default_value = "default")]
    pub(crate) namespace: String,

    /// The file with settings; without it semel.toml in this folder, if there is one
    // The variable SEMEL_CONFIG is read with the other settings.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// The file with the keys that payload is encrypted with (SEMEL_KEY_FILE)
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,

    /// Print one JSON document instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// See the idea: a worker is killed after the CRM wrote the ticket and before the record. With
    /// --store it plays on that store, in a namespace of its own
    Demo(Demo),
    /// Work the runs of an application in Python
    ///
    /// Runs `python3 -m semel worker` in the place of this process; SEMEL_PYTHON names another
    /// interpreter.
    Worker {
        /// The application, such as app.py, and flags of the worker; `app.py --help` lists them
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        #[arg(value_name = "FILE")]
        line: Vec<OsString>,
    },
    /// Crash a workflow at every point, and count at its destinations: `check app.py:workflow`
    ///
    /// Runs `python3 -m semel check` in the place of this process; `check app.py --help` lists its
    /// flags, and SEMEL_PYTHON names another interpreter.
    #[command(subcommand, subcommand_value_name = "FILE:WORKFLOW")]
    Check(Check),
    /// Serve the HTTP API: for other languages, webhooks, reviewers and remote workers
    Serve(Serve),
    /// Develop: the server, its console, and a worker that starts again when a file changes
    Dev(Dev),
    /// Say who may ask the server what
    #[command(subcommand)]
    Tokens(Tokens),
    /// Start runs, follow them, and decide about those that stand still
    #[command(subcommand)]
    Runs(Runs),
    /// Send a run what it waits for
    #[command(subcommand)]
    Signals(Signals),
    /// See which versions of a workflow's code there are, and which one new runs start on
    #[command(subcommand)]
    Releases(Releases),
    /// Start runs by the clock: one run per tick, for ever
    #[command(subcommand)]
    Schedules(Schedules),
    /// Start runs by webhooks: one run per delivery, however often it is sent
    #[command(subcommand)]
    Triggers(Triggers),
    /// Look at effects and settle doubts
    #[command(subcommand)]
    Effects(Effects),
    /// See what waits for a person, and decide
    #[command(subcommand)]
    Approvals(Approvals),
    /// See what a store that went back in time may have lost, and end its quarantine
    #[command(subcommand)]
    Quarantine(Quarantine),
    /// Look at intents that are not effects yet (Postgres)
    #[command(subcommand)]
    Outbox(Outbox),
    /// Prove what became of an effect or a run: what is proven, on what evidence, and what is not
    Proof(Proof),
    /// Check every invariant on a live store, read-only
    Verify(Verify),
    /// See what people decided: the audit chain of a namespace
    #[command(subcommand)]
    Audit(Audit),
    /// Copy a store into one file while others write it; put it back with `backup restore`
    Backup(Backup),
    /// Make and change the file with the keys that payload is encrypted with
    #[command(subcommand)]
    Keys(Keys),
    /// Check the store, the clock and the disk, with a way out for each finding
    Doctor,
    /// Bring the store to the newest format, as opening it to write does; says from which to which
    Migrate,
    /// Write down what an application declares: seven fields and a checklist for each effect
    Spec(Spec),
    /// Find what is not safe to repeat, in the source of an application or in what it declares
    ///
    /// Of files in Python `python3 -m semel lint` reads the source, in the place of this process
    /// (SEMEL_PYTHON names another interpreter); of one in Rust its registry.json is judged.
    /// docs/lint.md explains each code.
    Lint(Lint),
    /// Measure the ledger beside the raw limit of this disk
    #[command(subcommand)]
    Bench(Bench),
    /// Stand in for an HTTP service: counts what arrives, and misbehaves as it is told
    ///
    /// Prints its address, and serves until its input is closed, it is told to end, or half an
    /// hour has passed. docs/double.md shows scripts, faults and the book.
    Double(crate::commands::double::Options),
    /// See what is set and by whom
    #[command(subcommand)]
    Config(Config),
    /// Print completions for a shell
    Completions { shell: clap_complete::Shell },
    /// The CRM of the demo and the tests
    #[command(hide = true)]
    DemoCrm { dir: PathBuf },
    /// The model of the demo and the tests
    #[command(hide = true)]
    DemoModel { dir: PathBuf },
    /// The mail server of the demo and the tests
    #[command(hide = true)]
    DemoMail { dir: PathBuf },
    /// The worker of the example workflow
    #[command(hide = true)]
    DemoTriageWorker(crate::demo::triage::worker::Options),
    /// The worker of the demo and the tests
    #[command(hide = true)]
    DemoWorker(crate::demo::worker::Options),
    /// One process of a benchmark with several
    #[command(hide = true)]
    BenchWorker { seconds: u64, callers: usize, prefix: String },
    /// One process of a benchmark on Postgres
    #[command(hide = true)]
    BenchPostgres(crate::commands::bench::postgres::WorkerOptions),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Check {
    /// Repeat a sandbox request, and say which contract its destination really honours
    Destination(Box<crate::commands::destination::Options>),
    /// The file and the workflow, and flags of the check
    #[command(external_subcommand)]
    Workflow(Vec<OsString>),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Demo {
    /// Leave all files in this folder for inspection
    #[arg(long, value_name = "DIR")]
    pub(crate) keep: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Operator {
    /// Why, for the record
    #[arg(long)]
    pub(crate) reason: String,
    /// Who decides
    #[arg(long, env = "USER", default_value_t = own_name())]
    pub(crate) actor: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Effects {
    /// List effects, newest first
    Ls(Ls),
    /// Show one effect with all its attempts
    Show(Show),
    /// Settle a doubt by your word: it happened, it did not, or send it again
    Resolve(Resolve),
    /// Grant another retry budget to an effect that has used its own up: same downstream key
    Grant(Grant),
    /// Do an intent again: opens the next generation under a new downstream key
    Supersede(Decision),
    /// Cancel an effect before anything was sent
    Void(Decision),
    /// Take over a home-made dedupe table (CSV or SQLite: workflow, key, status, created_at)
    Import(Import),
    /// Find wishes that came back under a new key: the same input, or keys of time and chance
    Suspects(Suspects),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Ls {
    /// planned, pending, done, failed, in_doubt, void or expired
    #[arg(long)]
    pub(crate) state: Option<String>,
    #[arg(long)]
    pub(crate) action: Option<String>,
    /// The key, as `ls` and `show` print it
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// Only effects with an alarm: applied twice, or disputed
    #[arg(long)]
    pub(crate) alarmed: bool,
    /// Only due effects that nobody attends to
    #[arg(long, conflicts_with_all = ["state", "action", "key", "alarmed", "overdue"])]
    pub(crate) unattended: bool,
    /// Only effects whose retry budget is used up
    #[arg(long, conflicts_with_all = ["overdue", "unattended"])]
    pub(crate) exhausted: bool,
    /// Only attempts that run beyond their deadline
    #[arg(long, conflicts_with_all = ["state", "alarmed"])]
    pub(crate) overdue: bool,
    #[arg(long, default_value_t = 50)]
    pub(crate) limit: usize,
    /// Go on after this cursor, from `next` of the page before
    #[arg(long)]
    pub(crate) after: Option<i64>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Show {
    /// ACTION/KEY
    pub(crate) effect: String,
    /// An older generation
    #[arg(long)]
    pub(crate) generation: Option<u32>,
}

#[derive(Debug, ClapArgs)]
#[group(id = "decision", required = true, multiple = false)]
pub(crate) struct Resolve {
    /// ACTION/KEY
    pub(crate) effect: String,
    /// It happened
    #[arg(long, group = "decision")]
    pub(crate) done: bool,
    /// It did not happen and shall not
    #[arg(long, group = "decision")]
    pub(crate) failed: bool,
    /// It did not happen; it may be sent again
    #[arg(long, group = "decision")]
    pub(crate) retry: bool,
    /// With --done: the receipt that repeats will get, as JSON
    // `requires = "done"` alone is waived by clap beside an option that excludes --done.
    #[arg(long, requires = "done", conflicts_with_all = ["failed", "retry"], value_name = "JSON")]
    pub(crate) receipt: Option<String>,
    #[command(flatten)]
    pub(crate) person: Person,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Decision {
    /// ACTION/KEY
    pub(crate) effect: String,
    #[command(flatten)]
    pub(crate) person: Person,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Person {
    /// Why, for the record
    #[arg(long)]
    pub(crate) reason: String,
    /// The version you looked at, from `show`
    #[arg(long)]
    pub(crate) version: u64,
    /// Who decides
    #[arg(long, env = "USER", default_value_t = own_name())]
    pub(crate) actor: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Approvals {
    /// List what waits for a decision, newest first
    Ls(ApprovalLs),
    /// Show what exactly would be sent where, and what is asked
    Show {
        /// ACTION/KEY
        effect: String,
    },
    /// Let it be sent, exactly as it is shown
    Approve(Judgement),
    /// Never send it
    Deny(Judgement),
    /// Not like this: its author may change it, under a new version of the key
    Return(Judgement),
    /// Make a link by which somebody without a token decides, and print it, once
    Link(ApprovalLink),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ApprovalLink {
    /// ACTION/KEY
    pub(crate) effect: String,
    /// For whom it is: the actor of what is decided with it
    #[arg(long, value_name = "NAME")]
    pub(crate) approver: String,
    /// After how long it ends, such as 12h
    #[arg(long, value_name = "DURATION", default_value = "3d")]
    pub(crate) expires_in: String,
    /// Who makes it
    #[arg(long, env = "USER", default_value_t = own_name())]
    pub(crate) actor: String,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ApprovalLs {
    #[arg(long)]
    pub(crate) action: Option<String>,
    #[arg(long, default_value_t = 50)]
    pub(crate) limit: usize,
    /// Go on after this cursor, from `next` of the page before
    #[arg(long)]
    pub(crate) after: Option<i64>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Judgement {
    /// ACTION/KEY
    pub(crate) effect: String,
    /// Why, for the record and the author; deny and return need one
    #[arg(long, default_value = "")]
    pub(crate) note: String,
    /// What you looked at, from `show`; without it you decide on what this command prints
    #[arg(long)]
    pub(crate) digest: Option<String>,
    /// Who decides
    #[arg(long, env = "USER", default_value_t = own_name())]
    pub(crate) actor: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Quarantine {
    /// Show whether one is open, why, and what it put in doubt; ends with 5 while one is open
    Show(QuarantineShow),
    /// End the quarantine: from then on, keys that are unknown are new
    Close(QuarantineClose),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Verify {
    /// Write the heads of all rows to this file, to be kept elsewhere, when all is well
    #[arg(long, value_name = "FILE")]
    pub(crate) export: Option<PathBuf>,
    /// Hold the store against heads that were exported earlier: finds what was deleted or put back
    #[arg(long, value_name = "FILE")]
    pub(crate) against: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Audit {
    /// List decisions, the newest first
    Ls(AuditLs),
    /// Check that the chains of all namespaces are whole
    Verify,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct AuditLs {
    #[arg(long, default_value_t = 100)]
    pub(crate) limit: usize,
    /// Continue after this number, with older ones
    #[arg(long, value_name = "SEQ")]
    pub(crate) after: Option<u64>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Outbox {
    /// List intents that wait for a handler, and those that cannot be delivered
    Ls(OutboxLs),
    /// Take out an intent that cannot be delivered
    Drop { id: i64 },
}

#[derive(Debug, ClapArgs)]
pub(crate) struct OutboxLs {
    #[arg(long, default_value_t = 100)]
    pub(crate) limit: usize,
    /// Continue after this id
    #[arg(long)]
    pub(crate) after: Option<i64>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct QuarantineShow {
    /// How many lost rows, and how many effects in doubt, are listed
    #[arg(long, default_value_t = 50)]
    pub(crate) limit: usize,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct QuarantineClose {
    /// The epoch you looked at, from `show`; another one is not closed
    #[arg(long)]
    pub(crate) epoch: Option<u64>,
    #[command(flatten)]
    pub(crate) operator: Operator,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Import {
    /// A .csv file, or a SQLite database
    pub(crate) file: PathBuf,
    /// The table, when the file is a database
    #[arg(long, default_value = "dedupe")]
    pub(crate) table: String,
    /// The action of all rows; without it each row's workflow names its action
    #[arg(long)]
    pub(crate) action: Option<String>,
    /// Say what would be done, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Who imports
    #[arg(long, env = "USER", default_value_t = own_name())]
    pub(crate) actor: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Effects a second, two durable commits each, at 1, 32 and 256 callers
    Ledger,
    /// Steps a second, one durable row each, at 1, 32 and 256 runs at once
    Runs {
        /// Steps of one run
        #[arg(long, default_value_t = 10)]
        steps: u32,
        /// Finished runs that are in the store before
        #[arg(long, default_value_t = 0)]
        finished: u32,
    },
    /// Begin and settle, and starts, a second over the loopback; and what an overload is told
    Http,
    /// What the runs of quiet namespaces feel of one with a hundred times their load
    Fairness,
    /// Steps and effects a second from Python; runs `python3 -m semel bench python`
    Python {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "FLAGS")]
        line: Vec<OsString>,
    },
}

/// Who runs the command, where no name is set, as in most containers.
fn own_name() -> String {
    format!("uid-{}", rustix::process::getuid().as_raw())
}
