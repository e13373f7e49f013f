//! One life of a worker: a thread and a runtime of its own on the store that all lives share. When
//! it dies, everything in it is dropped where it stands, sockets included.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use semel::{Error, Semel};
use semel_core::json::Json;
use semel_engine::{Engine, Start};
use semel_store::memory::Memory;
use tokio::sync::{mpsc, oneshot};

use super::gate::Gate;
use crate::rehearsal::Watched;

/// Offers the workflows under test, as this release.
pub(super) type Offering = Arc<dyn Fn(&Semel, &str) -> Result<(), Error> + Send + Sync>;

/// What a life begins with.
pub(super) struct Birth {
    pub(super) name: String,
    pub(super) release: &'static str,
    pub(super) offering: Offering,
    pub(super) store: Arc<Memory>,
    pub(super) gate: Arc<Gate>,
    /// The trigger, delivered so many times at once.
    pub(super) start: Start,
    pub(super) starts: u32,
}

/// What starts were told: the result as text, or the code of the refusal.
pub(super) type Told = Arc<Mutex<Vec<Result<String, String>>>>;

enum Order {
    Replay(oneshot::Sender<Result<(), Error>>),
    /// The trigger comes once more.
    Start,
    End,
}

pub(super) struct Life {
    pub(super) name: String,
    pub(super) gate: Arc<Gate>,
    pub(super) told: Told,
    orders: mpsc::UnboundedSender<Order>,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl Life {
    pub(super) fn begin(birth: Birth) -> Result<Life, Error> {
        let (orders, received) = mpsc::unbounded_channel();
        let (name, gate, told) = (birth.name.clone(), birth.gate.clone(), Told::default());
        let hears = told.clone();
        let thread = std::thread::Builder::new()
            .name(format!("semel-check {name}"))
            .spawn(move || live(&birth, &hears, received))
            .map_err(internal)?;
        Ok(Life { name, gate, told, orders, thread: Some(thread) })
    }

    /// Replays the run with the code of this life.
    pub(super) async fn replay(&self) -> Result<(), Error> {
        let (reply, answer) = oneshot::channel();
        let _ = self.orders.send(Order::Replay(reply));
        answer.await.map_err(|_| internal("the life ended before its replay"))?
    }

    pub(super) fn start_again(&self) {
        let _ = self.orders.send(Order::Start);
    }

    pub(super) fn told(&self) -> Vec<Result<String, String>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Why it could not go on, if it ended by itself.
    pub(super) fn trouble(&mut self) -> Option<Error> {
        if self.gate.is_dead() || !self.thread.as_ref().is_some_and(JoinHandle::is_finished) {
            return None;
        }
        self.thread.take()?.join().map_err(|_| internal("it panicked")).flatten().err()
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        let _ = self.orders.send(Order::End);
        self.gate.go_on();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn live(
    birth: &Birth,
    told: &Told,
    mut orders: mpsc::UnboundedReceiver<Order>,
) -> Result<(), Error> {
    // Looks at its death after each step of each task: nobody acts long after it.
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().event_interval(1).build().map_err(internal)?;
    let gate = birth.gate.clone();
    let lived = runtime.block_on(async {
        tokio::select! {
            biased;
            () = gate.death() => Ok(()),
            lived = work(birth, told, &mut orders) => lived,
        }
    });
    runtime.shutdown_background();
    lived
}

async fn work(
    birth: &Birth,
    told: &Told,
    orders: &mut mpsc::UnboundedReceiver<Order>,
) -> Result<(), Error> {
    let store = Arc::new(Watched { store: birth.store.clone(), points: birth.gate.clone() });
    let engine = Engine::new(store, birth.name.clone())?;
    (birth.offering)(&Semel::on(engine.clone()), birth.release)?;
    engine.start();
    for _ in 0..birth.starts {
        tokio::spawn(start(engine.clone(), birth.start.clone(), told.clone()));
    }
    while let Some(order) = orders.recv().await {
        match order {
            Order::Replay(reply) => {
                let _ = reply.send(replay(&engine, &birth.start).await);
            }
            Order::Start => {
                tokio::spawn(start(engine.clone(), birth.start.clone(), told.clone()));
            }
            Order::End => break,
        }
    }
    Ok(())
}

async fn start(engine: Engine, ask: Start, told: Told) {
    let said = match engine.start_run(ask).await {
        Ok(started) => engine.result_of(&started).await,
        Err(error) => Err(error),
    };
    let said = said.map(|value: Json| value.text().to_owned());
    let said = said.map_err(|error| error.code().as_str().to_owned());
    told.lock().unwrap_or_else(PoisonError::into_inner).push(said);
}

async fn replay(engine: &Engine, start: &Start) -> Result<(), Error> {
    let key = start.key.as_ref().ok_or_else(|| internal("a trial has a key"))?;
    let id = semel_core::derive::run_id(&start.namespace, start.workflow.as_str(), key).to_string();
    engine.replay_run(&start.namespace, &id).await
}

pub(super) fn internal(what: impl std::fmt::Display) -> Error {
    Error::new(semel::Code::Internal, what.to_string())
}
