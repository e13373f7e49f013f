//! A run that this process advances: how others in the process reach its driver, and hear its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake};

use futures_util::task::AtomicWaker;
use semel_core::json::Json;
use tokio::sync::watch;

use crate::Error;

/// What became of a run that was held here.
#[derive(Clone, Debug)]
pub(crate) enum Left {
    /// It ended.
    Ended(Result<Json, Error>),
    /// It was parked, paused, released or lost: the store knows.
    Away,
}

/// The driver's doorbell.
pub(crate) struct Held {
    touched: AtomicBool,
    draining: AtomicBool,
    driver: AtomicWaker,
    left: watch::Sender<Option<Left>>,
}

impl Held {
    pub(crate) fn new() -> Arc<Held> {
        let (touched, draining) = (AtomicBool::new(false), AtomicBool::new(false));
        let left = watch::Sender::new(None);
        Arc::new(Held { touched, draining, driver: AtomicWaker::new(), left })
    }

    /// Something was delivered: look at the row and the inbox.
    pub(crate) fn touch(&self) {
        self.touched.store(true, Ordering::Release);
        self.driver.wake();
    }

    /// Start nothing more; let the run go when what is under way has ended.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Release);
        self.driver.wake();
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// Whether it was touched since last asked; if not, the driver is woken when it is.
    pub(crate) fn take_touch(&self, context: &Context<'_>) -> bool {
        self.driver.register(context.waker());
        self.touched.swap(false, Ordering::AcqRel)
    }

    /// Whether it was touched and the driver has not seen it.
    pub(crate) fn was_touched(&self) -> bool {
        self.touched.load(Ordering::Acquire)
    }

    /// The driver has ended.
    pub(crate) fn leave(&self, left: Left) {
        self.left.send_replace(Some(left));
    }

    /// The driver's task is gone: unless it said otherwise, the store knows.
    pub(crate) fn leave_unsaid(&self) {
        self.left.send_if_modified(|left| {
            let is_unsaid = left.is_none();
            left.get_or_insert(Left::Away);
            is_unsaid
        });
    }

    /// Waits for the driver to end.
    pub(crate) async fn left(&self) -> Left {
        let mut left = self.left.subscribe();
        match left.wait_for(Option::is_some).await {
            Ok(left) => left.clone().unwrap_or(Left::Away),
            Err(_) => Left::Away,
        }
    }
}

/// The waker of a body. Whatever wakes it while it is not being polled is nothing of ours.
#[derive(Default)]
pub(crate) struct Alarm {
    woken: AtomicBool,
    driver: AtomicWaker,
}

impl Alarm {
    /// Whether the body was woken since last asked.
    pub(crate) fn take(&self) -> bool {
        self.woken.swap(false, Ordering::AcqRel)
    }

    /// Lets the driver hear of it.
    pub(crate) fn register(&self, context: &Context<'_>) {
        self.driver.register(context.waker());
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.driver.wake();
    }
}
