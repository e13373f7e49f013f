//! The load: runs are started, signalled and waited for by a client that has no code for them.
//! Everything it asks is asked again until it is told, as any client would.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use semel::{Code, Error, RunHandle, Semel};
use semel_core::effect::Imported;
use semel_store::RunQuery;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::doubts::{self, Decided};
use crate::stage::Stage;
use crate::worker::{Order, WORKFLOW};

/// Runs on their way at once.
const OPEN: usize = 20;
/// How long everything may take to end when the faults are over.
const PATIENCE: Duration = Duration::from_secs(90);

pub(crate) struct Load {
    runtime: Runtime,
    shared: Arc<Shared>,
    task: tokio::task::JoinHandle<(BTreeMap<u32, Order>, Vec<String>)>,
    person: tokio::task::JoinHandle<Decided>,
    started: Instant,
}

pub(crate) struct Shared {
    pub(crate) semel: Semel,
    /// Where the CRM keeps its tickets.
    pub(crate) crm: PathBuf,
    /// Nothing new is started.
    is_closing: AtomicBool,
    pub(crate) is_over: AtomicBool,
    next: AtomicU32,
    store: Store,
}

/// What clients have to expect of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    Remembers,
    /// A promoted standby may never have heard of what was answered.
    MayForget,
}

/// What came of it.
pub(crate) struct Figures {
    pub(crate) semel: Semel,
    pub(crate) runtime: Runtime,
    pub(crate) orders: BTreeMap<u32, Order>,
    pub(crate) started: u32,
    pub(crate) decided: Decided,
    /// Runs that did not end, or ended in another way.
    pub(crate) failed: Vec<String>,
    seconds: f64,
    /// From the end of the faults to the end of the last run.
    tail_seconds: f64,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures { orders, started, decided, seconds, tail_seconds, .. } = self;
        write!(
            f,
            "{} of {started} runs done, {} effects, doubts settled by a person: {decided}, \
             {seconds:.1} s, the last run {tail_seconds:.1} s after the last fault",
            orders.len(),
            4 * started,
        )
    }
}

impl Load {
    pub(crate) fn start(stage: &Stage) -> Load {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).enable_all().build().expect("a runtime");
        let semel = runtime.block_on(Semel::open(&stage.cluster.url())).expect("the store opens");
        Load::on(runtime, semel, stage, Store::Remembers)
    }

    /// By a client that reaches the store in its own way.
    pub(crate) fn on(runtime: Runtime, semel: Semel, stage: &Stage, store: Store) -> Load {
        let shared = Arc::new(Shared {
            semel,
            crm: stage.crm.dir.clone(),
            is_closing: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            next: AtomicU32::new(0),
            store,
        });
        let task = runtime.spawn(run_all(shared.clone()));
        let person = runtime.spawn(doubts::settle_all(shared.clone()));
        Load { runtime, shared, task, person, started: Instant::now() }
    }

    /// Takes over a row by a person's word. `false`: the ledger has it.
    pub(crate) fn import(&self, row: &Imported) -> bool {
        let imported = self.runtime.block_on(self.shared.semel.engine().import(row, "ada"));
        imported.expect("it is taken over").is_some()
    }

    /// Lets everything come to its end.
    pub(crate) fn finish(self) -> Figures {
        let Load { runtime, shared, task, person, started } = self;
        let ending = Instant::now();
        shared.is_closing.store(true, Ordering::SeqCst);
        let (orders, failed) = runtime.block_on(task).expect("the load does not panic");
        shared.is_over.store(true, Ordering::SeqCst);
        let decided = runtime.block_on(person).expect("the person does not panic");
        let semel = shared.semel.clone();
        Figures {
            semel,
            runtime,
            orders,
            started: shared.next.load(Ordering::SeqCst),
            decided,
            failed,
            seconds: started.elapsed().as_secs_f64(),
            tail_seconds: ending.elapsed().as_secs_f64(),
        }
    }
}

async fn run_all(shared: Arc<Shared>) -> (BTreeMap<u32, Order>, Vec<String>) {
    let mut open = JoinSet::new();
    let (mut orders, mut failed) = (BTreeMap::new(), Vec::new());
    let mut numbers: BTreeMap<tokio::task::Id, u32> = BTreeMap::new();
    let mut closed: Option<Instant> = None;
    loop {
        let is_closing = shared.is_closing.load(Ordering::SeqCst);
        while !is_closing && open.len() < OPEN {
            let number = shared.next.fetch_add(1, Ordering::SeqCst);
            let task = open.spawn(run_one(shared.clone(), number));
            numbers.insert(task.id(), number);
        }
        if is_closing {
            let since = *closed.get_or_insert_with(Instant::now);
            if open.is_empty() || since.elapsed() > PATIENCE {
                break;
            }
        }
        let next = tokio::time::timeout(Duration::from_millis(200), open.join_next_with_id());
        match next.await {
            Ok(Some(Ok((id, order)))) => {
                orders.insert(numbers.remove(&id).expect("a known task"), order);
            }
            Ok(Some(Err(error))) => {
                let number = numbers.remove(&error.id()).expect("a known task");
                failed.push(format!("run {number}: {error}"));
            }
            Ok(None) | Err(_) => {}
        }
    }
    if shared.store == Store::MayForget {
        end_forgotten(&shared).await;
    }
    for number in numbers.into_values() {
        let id = shared.semel.start(WORKFLOW).key(key(number)).input(&number).run().await;
        let row = match id {
            Ok(run) => run.status().await,
            Err(error) => Err(error),
        };
        failed.push(format!("run {number} does not end: {row:?}"));
    }
    (orders, failed)
}

pub(crate) fn key(number: u32) -> String {
    format!("order-{number}")
}

pub(crate) fn word(number: u32) -> String {
    format!("word-{number}")
}

/// Starts a run twice, signals it twice, and waits for what it comes to.
async fn run_one(shared: Arc<Shared>, number: u32) -> Order {
    if shared.store == Store::MayForget {
        return run_until_told(&shared, number).await;
    }
    let run = firmly("start", || start(shared.clone(), number)).await;
    let again = firmly("start again", || start(shared.clone(), number)).await;
    assert_eq!(run.id(), again.id(), "one key, one run");
    tokio::time::sleep(Duration::from_millis(u64::from(number) * 37 % 900)).await;
    for _ in 0..2 {
        firmly("signal", || signal(run.clone(), number)).await;
    }
    firmly("result", || result(run.clone())).await
}

/// Asks for everything anew, under the same names, until it is told what the run came to.
async fn run_until_told(shared: &Arc<Shared>, number: u32) -> Order {
    loop {
        let asked = async {
            let run = start(shared.clone(), number).await?;
            signal(run.clone(), number).await?;
            result(run).await
        };
        match tokio::time::timeout(Duration::from_secs(2), asked).await {
            Ok(Ok(order)) => return order,
            Ok(Err(error)) if error.code() == Code::NotFound || is_passing(error.code()) => {}
            // It has ended, and its signal was taken.
            Ok(Err(error)) if error.code() == Code::RunFinished => {
                if let Ok(run) = start(shared.clone(), number).await
                    && let Ok(order) = result(run).await
                {
                    return order;
                }
            }
            Ok(Err(error)) => panic!("run {number}: {error}"),
            Err(_) => {}
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Runs whose clients were told long ago, and which the store takes for unfinished.
async fn end_forgotten(shared: &Shared) {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        let listed = shared.semel.engine().runs(&RunQuery::everywhere(1_000)).await;
        let Ok(listed) = listed else { continue };
        assert_eq!(listed.next, None, "more runs than a page");
        let mut open = listed.runs.into_iter().filter(|run| !run.state().is_final()).peekable();
        if open.peek().is_none() {
            return;
        }
        for run in open {
            let number = run.key.trim_start_matches("order-").parse().expect("a number");
            // It is asked again in a moment.
            let _ = signal(shared.semel.run(&run.id), number).await;
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

async fn start(shared: Arc<Shared>, number: u32) -> Result<RunHandle, Error> {
    shared.semel.start(WORKFLOW).key(key(number)).input(&number).run().await
}

async fn signal(run: RunHandle, number: u32) -> Result<(), Error> {
    run.signal("go", &format!("go-{number}"), &word(number)).await.map(|_| ())
}

async fn result(run: RunHandle) -> Result<Order, Error> {
    run.result().await
}

/// Asks until it is told: a store that is away says so.
async fn firmly<T, F: Future<Output = Result<T, Error>>>(what: &str, act: impl Fn() -> F) -> T {
    loop {
        match act().await {
            Ok(told) => return told,
            Err(error) if is_passing(error.code()) => {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            Err(error) => panic!("{what}: {error}"),
        }
    }
}

pub(crate) fn is_passing(code: Code) -> bool {
    matches!(code, Code::StoreBusy | Code::StoreUnavailable)
}
