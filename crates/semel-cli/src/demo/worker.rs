//! The worker of the demo and the crash tests: ordinary user code on the Rust SDK. It creates
//! tickets in the CRM, under whichever contract it is told, until somebody kills it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use semel::{Contract, Effect, Failure, Intent, NativeKey, Probe, Retry, Semel, classify};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::commands::Place;
use crate::exit::Failed;
use crate::print::Printer;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Protection {
    Unprotected,
    NativeKey,
    Probe,
    Conditional,
    Transaction,
    AtMostOnce,
}

impl Protection {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Protection::Unprotected => "unprotected",
            Protection::NativeKey => "native_key",
            Protection::Probe => "probe",
            Protection::Conditional => "conditional",
            Protection::Transaction => "transaction",
            Protection::AtMostOnce => "at_most_once",
        }
    }
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// Where the CRM listens
    #[arg(long, overrides_with = "crm")]
    crm: String,
    #[arg(long)]
    protection: Protection,
    /// Which tickets to create
    #[arg(required = true)]
    references: Vec<String>,
    /// How many at a time
    #[arg(long, default_value_t = 1)]
    callers: usize,
    #[arg(long, default_value_t = 1_000)]
    settle_ms: u64,
    #[arg(long, default_value_t = 30_000)]
    lease_ms: u64,
    #[arg(long, default_value_t = 60_000)]
    deadline_ms: u64,
    /// Inside a transaction: how long to wait between the insert and the commit
    #[arg(long, default_value_t = 0)]
    pause_ms: u64,
    /// Pause for these tickets only
    #[arg(long)]
    pause_on: Vec<String>,
    /// How long a duplicate waits
    #[arg(long, default_value_t = 25_000)]
    hold_ms: u64,
    /// How many callers ask for each ticket
    #[arg(long, default_value_t = 1)]
    repeat: usize,
    /// Sends of one call, the first included
    #[arg(long, default_value_t = 10)]
    attempts: u32,
    /// The first delay between two sends
    #[arg(long, default_value_t = 50)]
    delay_ms: u64,
    /// One more member of the input
    #[arg(long)]
    note: Option<String>,
    /// Start when this file exists, so that several processes start at once
    #[arg(long)]
    gate: Option<PathBuf>,
    /// Before each send: say so, then wait so long
    #[arg(long, default_value_t = 0)]
    before_send_ms: u64,
    /// After each answer: say so, then block so long before it is returned
    #[arg(long, default_value_t = 0)]
    think_ms: u64,
}

/// A ticket, as the CRM answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Ticket {
    id: String,
    reference: String,
}

/// Creates all tickets and prints a line for each: its receipt, or why there is none.
pub(crate) async fn run(place: &Place, options: &Options, printer: &Printer) -> Result<(), Failed> {
    let client = reqwest::Client::builder().timeout(Duration::from_secs(20)).build();
    let client = client.map_err(|error| Failed::internal(error.to_string()))?;
    let semel = match options.protection {
        Protection::Unprotected => None,
        _ => Some(place.worker().await?),
    };
    let worker = Arc::new(Worker { client, semel, options: options.clone() });
    if let Some(gate) = &options.gate {
        wait_at(gate).await;
    }
    let turns = Arc::new(tokio::sync::Semaphore::new(options.callers.max(1)));
    let mut tasks = tokio::task::JoinSet::new();
    let repeats = options.references.iter().flat_map(|name| vec![name; options.repeat.max(1)]);
    for reference in repeats.cloned() {
        let (worker, turns) = (worker.clone(), turns.clone());
        tasks.spawn(async move {
            let _turn = turns.acquire_owned().await;
            let started = Instant::now();
            let outcome = worker.create(&reference).await;
            (reference, outcome, started.elapsed().as_millis())
        });
    }
    let mut last_error = None;
    while let Some(ended) = tasks.join_next().await {
        let ended = ended.map_err(|error| Failed::internal(error.to_string()))?;
        let (reference, outcome, ms) = ended;
        let line = match &outcome {
            Ok(ticket) => json!({ "reference": reference, "receipt": ticket, "ms": ms }),
            Err(error) => {
                json!({ "reference": reference, "error": error.code().as_str(), "ms": ms })
            }
        };
        printer.line(&line.to_string());
        last_error = outcome.err().or(last_error);
    }
    last_error.map_or(Ok(()), |error| Err(error.into()))
}

struct Worker {
    client: reqwest::Client,
    semel: Option<Semel>,
    options: Options,
}

impl Worker {
    async fn create(self: &Arc<Self>, reference: &str) -> Result<Ticket, semel::Error> {
        let Some(semel) = &self.semel else {
            // What most code does: send, and hope to get to write it down.
            let sent = self.post("plain", reference, None).await;
            return sent.map_err(|failure| {
                semel::Error::new(semel::Code::NotApplied, failure.reason().to_owned())
            });
        };
        if self.options.protection == Protection::Transaction {
            return self.insert(semel, reference).await;
        }
        let worker = self.clone();
        let name = reference.to_owned();
        let effect = self.declare(semel.effect("crm-ticket"), reference);
        effect.call(move |intent| send(worker.clone(), name.clone(), intent)).await
    }

    fn declare<'a>(self: &Arc<Self>, effect: Effect<'a>, reference: &str) -> Effect<'a> {
        let effect = effect
            .key([reference])
            .input(&self.input(reference))
            .workflow("demo")
            .retry(Retry {
                attempts_max: self.options.attempts,
                delay_ms: self.options.delay_ms,
                ..Retry::default()
            })
            .deadline(Duration::from_millis(self.options.deadline_ms))
            .hold(Duration::from_millis(self.options.hold_ms))
            .settle_window(Duration::from_millis(self.options.settle_ms))
            .lease(Duration::from_millis(self.options.lease_ms));
        match self.options.protection {
            Protection::NativeKey => effect.contract(NativeKey::hours(24)),
            Protection::Conditional => effect.contract(Contract::Conditional),
            Protection::Probe => {
                let (worker, name) = (self.clone(), reference.to_owned());
                let look = move |_| look(worker.clone(), name.clone());
                effect.contract(Probe::after_doubt()).look(look)
            }
            Protection::AtMostOnce | Protection::Unprotected | Protection::Transaction => effect,
        }
    }

    /// The effect is a row in the ledger's own database.
    async fn insert(&self, semel: &Semel, reference: &str) -> Result<Ticket, semel::Error> {
        let (name, worker) = (reference.to_owned(), std::process::id());
        let Options { pause_ms, pause_on, .. } = &self.options;
        let pauses = pause_on.is_empty() || pause_on.contains(&name);
        let pause = Duration::from_millis(if pauses { *pause_ms } else { 0 });
        let work = move |connection: &rusqlite::Connection| {
            connection.execute_batch(
                "CREATE TABLE IF NOT EXISTS tickets (reference TEXT NOT NULL, worker INTEGER)",
            )?;
            connection.execute("INSERT INTO tickets VALUES (?1, ?2)", (&name, worker))?;
            if !pause.is_zero() {
                // Tell whoever watches that the row is written and not committed.
                eprintln_flushed(&format!("inserted {name}"));
                std::thread::sleep(pause);
            }
            let id = format!("row-{}", connection.last_insert_rowid());
            Ok::<_, rusqlite::Error>(Ticket { id, reference: name })
        };
        let input = self.input(reference);
        semel.transaction("crm-row").key([reference]).input(&input).workflow("demo").run(work).await
    }

    fn input(&self, reference: &str) -> serde_json::Value {
        match &self.options.note {
            None => json!({ "reference": reference }),
            Some(note) => json!({ "reference": reference, "note": note }),
        }
    }

    async fn post(
        &self,
        offer: &str,
        reference: &str,
        key: Option<&str>,
    ) -> Result<Ticket, Failure> {
        let url = format!("{}/{offer}/tickets", self.options.crm);
        let mut request = self.client.post(url).json(&body(reference));
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        self.ticket(request).await
    }

    async fn ticket(&self, request: reqwest::RequestBuilder) -> Result<Ticket, Failure> {
        let request = request.header("x-worker", std::process::id());
        Ok(classify::send(request).await?.json().await?)
    }

    fn conditional_url(&self, reference: &str) -> String {
        format!("{}/conditional/tickets/{reference}", self.options.crm)
    }
}

/// One attempt, with the places where a test may stop or kill the process.
async fn send(worker: Arc<Worker>, reference: String, intent: Intent) -> Result<Ticket, Failure> {
    let Options { before_send_ms, think_ms, .. } = worker.options;
    if before_send_ms > 0 {
        eprintln_flushed(&format!("armed {reference}"));
        tokio::time::sleep(Duration::from_millis(before_send_ms)).await;
    }
    let answer = ask(&worker, &reference, &intent).await;
    if think_ms > 0 {
        eprintln_flushed(&format!("answered {reference}"));
        // It blocks: whatever the engine would do meanwhile, the answer is what comes next.
        std::thread::sleep(Duration::from_millis(think_ms));
    }
    answer
}

async fn ask(worker: &Worker, reference: &str, intent: &Intent) -> Result<Ticket, Failure> {
    match worker.options.protection {
        Protection::NativeKey => {
            worker.post("native", reference, Some(intent.downstream_key())).await
        }
        Protection::Probe => worker.post("lookup", reference, None).await,
        Protection::Conditional => {
            let put = worker.client.put(worker.conditional_url(reference));
            let put = put.header("if-none-match", "*").json(&body(reference));
            match worker.ticket(put).await {
                // It exists: by an earlier send of ours, or not at all ours. Read it back.
                Err(failure) if failure.reason().contains("412") => {
                    let get = worker.client.get(worker.conditional_url(reference));
                    worker.ticket(get).await.map_err(|_| Failure::refused(failure.reason()))
                }
                answer => answer,
            }
        }
        Protection::AtMostOnce | Protection::Unprotected | Protection::Transaction => {
            worker.post("plain", reference, None).await
        }
    }
}

async fn look(worker: Arc<Worker>, reference: String) -> Result<Vec<Ticket>, Failure> {
    let url = format!("{}/lookup/tickets?reference={reference}", worker.options.crm);
    let response = worker.client.get(url).header("x-worker", std::process::id()).send().await?;
    Ok(classify::response(response)?.json().await?)
}

async fn wait_at(gate: &Path) {
    while !gate.exists() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn body(reference: &str) -> serde_json::Value {
    json!({ "reference": reference, "subject": "The printer is on fire" })
}

fn eprintln_flushed(text: &str) {
    use std::io::Write;
    let mut stderr = std::io::stderr();
    // The watcher is a pipe; when it is gone there is nobody to tell.
    let _ = writeln!(stderr, "{text}").and_then(|()| stderr.flush());
}
