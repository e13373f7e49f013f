//! The worker process: offers an example, plays its story to the end, and says what came of it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use refund_approval::{Bank, Refund, Wish, refund, submit};
use saga_order::{Order, Receipt, order};
use semel::{Error, Semel};
use semel_check::rehearsal::{DIE_AT, Pointed, Points};
use semel_engine::Engine;
use semel_store::{Access, Clock, Opened};
use serde::Serialize;
use serde_json::{Value, json};

const EXAMPLE: &str = "SEMEL_TEST_EXAMPLE";
const FOLDER: &str = "SEMEL_TEST_FOLDER";
const SHOP: &str = "SEMEL_TEST_SHOP";
const LEASE: Duration = Duration::from_secs(20);
const SETTLE_WINDOW: Duration = Duration::from_millis(300);
pub(crate) const ORDER: &str = "order-1";

pub(crate) fn store_url(folder: &Path) -> String {
    format!("sqlite:{}", folder.join("semel.db").display())
}

/// What the process does. Outside of a test's process nothing.
pub(crate) async fn work() {
    let Ok(folder) = std::env::var(FOLDER).map(PathBuf::from) else { return };
    let setting = |name: &str| std::env::var(name).expect("a setting");
    let semel = open(&store_url(&folder)).await;
    let outcome = match &*setting(EXAMPLE) {
        "saga_order" => place_order(&semel, setting(SHOP)).await,
        "refund_approval" => ask_for_refund(&semel, setting(SHOP)).await,
        other => panic!("no example {other}"),
    };
    std::fs::write(folder.join("outcome"), outcome.to_string()).expect("the outcome is told");
}

async fn open(url: &str) -> Semel {
    let Some(points) = Points::from_environment() else {
        return Semel::open(url).await.expect("the store opens");
    };
    let opened = Opened::open(url, Access::ReadWrite, Clock::Real).await.expect("the store opens");
    let store = Arc::new(Pointed { store: opened.store(), points: Arc::new(points) });
    let engine = Engine::new(store, format!("worker:{}", std::process::id())).expect("a name");
    engine.start();
    Semel::on(engine)
}

/// The order is placed twice.
async fn place_order(semel: &Semel, url: String) -> Value {
    let settings = saga_order::Settings { url, settle_window: SETTLE_WINDOW, lease: LEASE };
    let shop = saga_order::Shop::new(settings).expect("a client");
    let code = move |ctx, wish| order(ctx, wish, shop.clone());
    let _working = semel.worker().lease(LEASE).workflow("order", code).start().expect("a worker");
    let wish = Order { order_id: ORDER.into(), cents: 4200, to: "Atlantis".into() };
    let mut ends = Vec::new();
    for _ in 0..2 {
        let run = semel.start("order").key([ORDER]).input(&wish).run().await.expect("a run");
        ends.push(end(run.result::<Receipt>().await));
    }
    json!(ends)
}

/// Asked for twice, edited after it was returned, and asked for twice again.
async fn ask_for_refund(semel: &Semel, url: String) -> Value {
    let settings = refund_approval::Settings { url, settle_window: SETTLE_WINDOW, lease: LEASE };
    let bank = Bank::new(settings).expect("a client");
    let code = move |ctx, wish| refund(ctx, wish, bank.clone());
    let _working = semel.worker().lease(LEASE).workflow("refund", code).start().expect("a worker");
    let mut ends = Vec::new();
    for (version, cents) in [(1, 4200), (1, 4200), (2, 2100), (2, 2100)] {
        let wish = Wish { order_id: ORDER.into(), version, cents, agent: "bot".into() };
        let run = submit(semel, &wish).await.expect("a run");
        ends.push(end(run.result::<Refund>().await));
    }
    json!(ends)
}

fn end<T: Serialize>(result: Result<T, Error>) -> Value {
    match result {
        Ok(value) => json!(value),
        Err(error) => json!(error.code().as_str()),
    }
}

/// A process that does not outlive this value.
pub(crate) struct Worker {
    child: Child,
    words: PathBuf,
}

impl Worker {
    pub(crate) fn start(example: &str, folder: &Path, shop: &str, die_at: Option<&str>) -> Worker {
        let words = folder.join("words");
        let stderr = std::fs::File::create(&words).expect("a file");
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--ignored", "--exact", "a_worker", "--nocapture"]);
        command.env(EXAMPLE, example).env(FOLDER, folder).env(SHOP, shop);
        command.env(DIE_AT, die_at.unwrap_or_default());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
        Worker { child: command.spawn().expect("a worker"), words }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended: by itself, or killed.
    pub(crate) fn ended(&mut self) -> Option<End> {
        let status = self.child.try_wait().expect("a worker")?;
        match status.code() {
            Some(0) => Some(End::Done),
            Some(code) => panic!("exit {code}: {}", self.words()),
            None => Some(End::Killed),
        }
    }

    pub(crate) fn words(&self) -> String {
        std::fs::read_to_string(&self.words).expect("its words")
    }

    /// The points that it passed, each batch by its first name.
    pub(crate) fn points(&self) -> Vec<String> {
        let words = self.words();
        let batches = words.lines().filter_map(|line| line.strip_prefix("point: "));
        let first = |names: &str| names.split(" | ").next().unwrap_or_default().to_owned();
        batches.map(first).filter(|name| !name.is_empty()).collect()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    Killed,
}
