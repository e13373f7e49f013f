//! The worker process: one workflow with a step, an effect of each contract, a timer and a wait.
//! The contract `transaction` is missing: on Postgres nobody can run one yet.

use std::io::Read;
use std::time::Duration;

use semel::{
    Code, Context, Contract, Effect, Error, Failure, Intent, NativeKey, Probe, Retry, Semel,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::wire::{Request, ask};

pub(crate) const STORE: &str = "SEMEL_CHAOS_STORE";
pub(crate) const CRM: &str = "SEMEL_CHAOS_CRM";
pub(crate) const WORKFLOW: &str = "order";

/// No lock proves a process on another machine dead: its runs wait for so long.
pub(crate) const LEASE: Duration = Duration::from_millis(1_500);
pub(crate) const DEADLINE: Duration = Duration::from_millis(2_500);
/// The settle window: long enough for the CRM of a busy machine to do what has arrived.
pub(crate) const SETTLE: Duration = Duration::from_millis(1_500);

/// Some timers are waited for in memory, the others outlast a parked run.
pub(crate) fn nap(number: u32) -> Duration {
    Duration::from_millis(if number.is_multiple_of(3) { 1_400 } else { 150 })
}

/// What the CRM answers, as a receipt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ticket {
    pub(crate) id: String,
    pub(crate) reference: String,
}

/// What a run comes to. `None`: a person said that it shall not be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) doubled: u32,
    pub(crate) word: String,
    pub(crate) native: Ticket,
    pub(crate) probe: Ticket,
    pub(crate) conditional: Ticket,
    pub(crate) plain: Option<Ticket>,
}

/// Offers the workflow until it is killed, or whoever started it is gone.
pub(crate) async fn work(url: &str) {
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let logging = tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false);
    logging.with_max_level(tracing_subscriber::filter::LevelFilter::WARN).init();
    let semel = loop {
        // It may have been started while the server was down.
        if let Ok(semel) = Semel::open(url).await {
            break semel;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    let working = semel.worker().lease(LEASE).workflow(WORKFLOW, order).start();
    let working = working.expect("the names are valid");
    std::future::pending::<()>().await;
    drop(working);
}

async fn order(ctx: Context, number: u32) -> Result<Order, Error> {
    let doubled = ctx
        .step("double", move || async move {
            tokio::time::sleep(Duration::from_millis(10)).await;
            Ok::<_, Failure>(number * 2)
        })
        .await?;
    let native = declared(&ctx, "native", number).call(send_native).await?;
    ctx.sleep(nap(number)).await?;
    let probe = declared(&ctx, "probe", number).call(send_lookup).await?;
    let word = ctx.wait_for_signal("go").await?;
    let plain = match declared(&ctx, "plain", number).call(send_plain).await {
        Ok(ticket) => Some(ticket),
        Err(error) if error.code() == Code::EffectFailed => None,
        Err(error) => return Err(error),
    };
    let conditional = declared(&ctx, "conditional", number).call(send_conditional).await?;
    Ok(Order { doubled, word, native, probe, conditional, plain })
}

fn declared<'a>(ctx: &'a Context, action: &str, number: u32) -> Effect<'a> {
    declare(ctx.effect(action), action, number)
}

/// The terms of an action, wherever it is called.
pub(crate) fn declare<'a>(effect: Effect<'a>, action: &str, number: u32) -> Effect<'a> {
    let retry = Retry { delay_ms: 50, delay_ms_max: 500, ..Retry::default() };
    let effect = effect
        .key([number.to_string()])
        .input(&json!({ "reference": reference(action, number) }))
        .lease(LEASE)
        .deadline(DEADLINE)
        .settle_window(SETTLE)
        .retry(retry);
    match action {
        "native" => effect.contract(NativeKey::hours(24)),
        "probe" => effect.contract(Probe::after_doubt()).look(look),
        "conditional" => effect.contract(Contract::Conditional),
        _ => effect,
    }
}

pub(crate) fn reference(action: &str, number: u32) -> String {
    format!("{action}-{number}")
}

fn reference_of(intent: &Intent) -> Result<String, Failure> {
    let input: Value = intent.input_as()?;
    Ok(input["reference"].as_str().unwrap_or_default().to_owned())
}

async fn send_native(intent: Intent) -> Result<Ticket, Failure> {
    let header = format!("idempotency-key: {}\r\n", intent.downstream_key());
    post("native", &intent, header).await
}

async fn send_lookup(intent: Intent) -> Result<Ticket, Failure> {
    post("lookup", &intent, String::new()).await
}

async fn send_plain(intent: Intent) -> Result<Ticket, Failure> {
    post("plain", &intent, String::new()).await
}

async fn post(offer: &str, intent: &Intent, header: String) -> Result<Ticket, Failure> {
    let body = json!({ "reference": reference_of(intent)?, "subject": "an order" });
    let request = Request { method: "POST", path: format!("/{offer}/tickets"), header, body };
    ticket(ask(&host(), &request).await?)
}

async fn send_conditional(intent: Intent) -> Result<Ticket, Failure> {
    let path = format!("/conditional/tickets/{}", reference_of(&intent)?);
    let body = json!({ "subject": "an order" });
    let header = "if-none-match: *\r\n".to_owned();
    let put = Request { method: "PUT", path: path.clone(), header, body };
    let (status, body) = ask(&host(), &put).await?;
    if status != 412 {
        return ticket((status, body));
    }
    // It exists, by an earlier send of ours: read it back.
    let get = Request { method: "GET", path, header: String::new(), body: Value::Null };
    ticket(ask(&host(), &get).await?)
}

async fn look(intent: Intent) -> Result<Vec<Ticket>, Failure> {
    let path = format!("/lookup/tickets?reference={}", reference_of(&intent)?);
    let get = Request { method: "GET", path, header: String::new(), body: Value::Null };
    let (status, body) = ask(&host(), &get).await?;
    match status {
        200 => Ok(serde_json::from_value(body)?),
        status => Err(Failure::unknown(status)),
    }
}

fn ticket((status, body): (u16, Value)) -> Result<Ticket, Failure> {
    match status {
        200 | 201 => Ok(serde_json::from_value(body)?),
        status => Err(Failure::unknown(status)),
    }
}

fn host() -> String {
    std::env::var(CRM).expect("a worker is told where the CRM is")
}
