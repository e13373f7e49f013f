//! The points that one life passes, and the one at which it dies or stands still.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use semel_store::Batch;
use tokio::sync::{Notify, watch};

use crate::rehearsal::{Around, names};

/// What becomes of a life at a point.
#[derive(Clone, Debug)]
pub(super) struct Fate {
    pub(super) point: String,
    pub(super) how: How,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    Die,
    /// Nothing of it reaches the store until it is let go, as by SIGSTOP. Its thread goes on, since
    /// other lives may share connections of a client that it made.
    Stop,
}

/// A point that was passed, and how many requests had been made by then.
#[derive(Clone, Debug)]
pub(super) struct Point {
    pub(super) names: Vec<String>,
    pub(super) requests: usize,
}

/// How many requests all destinations have seen.
pub(super) type CountRequests = Arc<dyn Fn() -> usize + Send + Sync>;

pub(super) struct Gate {
    fate: Option<Fate>,
    count_requests: CountRequests,
    passed: Mutex<Passed>,
    is_dead: AtomicBool,
    /// Commits whose points are not all passed: what they wrote may be seen before their end.
    inside: AtomicUsize,
    dying: Notify,
    stands: watch::Sender<bool>,
}

#[derive(Default)]
struct Passed {
    times: HashMap<String, u32>,
    points: Vec<Point>,
}

impl Gate {
    pub(super) fn new(fate: Option<Fate>, count_requests: CountRequests) -> Arc<Gate> {
        Arc::new(Gate {
            fate,
            count_requests,
            passed: Mutex::default(),
            is_dead: AtomicBool::new(false),
            inside: AtomicUsize::new(0),
            dying: Notify::new(),
            stands: watch::Sender::new(false),
        })
    }

    pub(super) fn is_dead(&self) -> bool {
        self.is_dead.load(Ordering::SeqCst)
    }

    pub(super) fn is_inside(&self) -> bool {
        self.inside.load(Ordering::SeqCst) > 0
    }

    pub(super) fn stands(&self) -> bool {
        *self.stands.borrow()
    }

    pub(super) fn go_on(&self) {
        self.stands.send_replace(false);
    }

    /// Returns when the life is over.
    pub(super) async fn death(&self) {
        self.dying.notified().await;
    }

    pub(super) fn points(&self) -> Vec<Point> {
        lock(&self.passed).points.clone()
    }

    async fn pass(&self, side: &str, batch: &Batch) {
        self.alive().await;
        let names = names(side, batch);
        if is_by_the_clock(&names) {
            return;
        }
        match self.fate_at(names) {
            None => {}
            Some(How::Die) => {
                self.is_dead.store(true, Ordering::SeqCst);
                self.dying.notify_one();
                std::future::pending::<()>().await;
            }
            Some(How::Stop) => {
                self.stands.send_replace(true);
                self.alive().await;
            }
        }
    }

    /// Counts a point, and says what happens there.
    fn fate_at(&self, names: Vec<String>) -> Option<How> {
        let mut passed = lock(&self.passed);
        let mut met = None;
        for name in &names {
            let times = passed.times.entry(name.clone()).or_default();
            *times += 1;
            let numbered = if *times == 1 { name.clone() } else { format!("{name} ({times})") };
            met = met.or(self.fate.as_ref().filter(|fate| fate.point == numbered));
        }
        passed.points.push(Point { names, requests: (self.count_requests)() });
        met.map(|fate| fate.how)
    }

    async fn alive(&self) {
        if self.is_dead() {
            return std::future::pending().await;
        }
        // The sender is ours, so waiting ends only when it is let go.
        let _ = self.stands.subscribe().wait_for(|stands| !stands).await;
    }
}

#[async_trait]
impl Around for Gate {
    async fn before(&self, batch: &Batch) {
        self.inside.fetch_add(1, Ordering::SeqCst);
        self.pass("before", batch).await;
    }

    async fn after(&self, batch: &Batch) {
        self.pass("after", batch).await;
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }

    async fn reading(&self) {
        self.alive().await;
    }
}

/// What has no name in the story of a run, and the renewal of its lease, which comes when it comes.
fn is_by_the_clock(names: &[String]) -> bool {
    names.iter().all(|name| name.ends_with(" run running"))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
