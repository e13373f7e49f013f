//! One ticket per request, however often this program runs. The README's tutorial walks through it.
//!
//! ```sh
//! cargo run -p semel --example ticket                       # creates the ticket of request-42
//! cargo run -p semel --example ticket                       # the same receipt, sends nothing
//! cargo run -p semel --example ticket -- request-43 --hang  # sends, then waits to be killed
//! ```
//!
//! The ledger is `semel.db` and the pretended CRM is `tickets.txt`, both in the current folder.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "an example talks to its reader")]

use std::fs::{self, File};
use std::io::Write;
use std::process::ExitCode;

use semel::{Failure, Intent, Semel};
use serde::{Deserialize, Serialize};

/// What the CRM answers. Every repeat gets this back, typed.
#[derive(Debug, Serialize, Deserialize)]
struct Ticket {
    id: String,
    request: String,
}

#[tokio::main]
async fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let hang = words.iter().any(|word| word == "--hang");
    let request = words.into_iter().find(|word| word != "--hang");
    match create_ticket(request.unwrap_or("request-42".to_owned()), hang).await {
        Ok(ticket) => {
            println!("receipt: {ticket:?}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("no receipt: {error}");
            eprintln!("hint: {}", error.code().hint());
            ExitCode::FAILURE
        }
    }
}

async fn create_ticket(request: String, hang: bool) -> Result<Ticket, semel::Error> {
    let semel = Semel::open("sqlite:semel.db").await?;
    semel
        .effect("crm-ticket")
        // The key names the intent: what the business calls it, and nothing else.
        .key([request.as_str()])
        .input(&request)
        // No contract is declared, so it is `at_most_once`: this CRM offers nothing better.
        .call(move |intent| send(intent, hang))
        .await
}

/// The effect. It runs only under a permit, after the attempt is durable in the ledger.
async fn send(intent: Intent, hang: bool) -> Result<Ticket, Failure> {
    // What the ledger holds is sent, in every attempt the same, whatever this caller brought.
    let request: String = intent.input_as()?;
    println!("sending {request} to the CRM");
    // Any error that `?` meets here counts as unknown, unless it proves that nothing was sent.
    let ticket = Ticket { id: format!("T-{}", tickets() + 1), request };
    let mut crm = File::options().append(true).create(true).open("tickets.txt")?;
    writeln!(crm, "{} {}", ticket.id, ticket.request)?;
    if hang {
        println!("the CRM has the ticket, nobody has the answer: kill -9 {}", std::process::id());
        std::future::pending::<()>().await;
    }
    Ok(ticket)
}

fn tickets() -> usize {
    fs::read_to_string("tickets.txt").unwrap_or_default().lines().count()
}
