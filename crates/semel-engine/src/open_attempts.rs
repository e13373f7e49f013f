//! The attempts that tasks of this process carry out, whoever waits for them: a process that closes
//! waits until they have ended, as the end of its event loop would cut them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use semel_core::key::Address;
use semel_core::time::Steady;
use tokio::sync::Notify;

use crate::{Engine, lock};

#[derive(Default)]
pub(crate) struct Attempts {
    open: Mutex<Open>,
    ended: Notify,
}

#[derive(Default)]
struct Open {
    next: u64,
    by_number: HashMap<u64, (Address, Steady)>,
}

/// An attempt in progress. Dropped, it has ended.
pub(crate) struct Underway {
    attempts: Arc<Attempts>,
    number: u64,
}

impl Attempts {
    pub(crate) fn begin(self: &Arc<Attempts>, address: Address, deadline: Steady) -> Underway {
        let mut open = lock(&self.open);
        let number = open.next;
        open.next += 1;
        open.by_number.insert(number, (address, deadline));
        Underway { attempts: self.clone(), number }
    }

    fn is_empty(&self) -> bool {
        lock(&self.open).by_number.is_empty()
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        lock(&self.attempts.open).by_number.remove(&self.number);
        self.attempts.ended.notify_waiters();
    }
}

impl Engine {
    /// The attempts that this process carries out right now: of which effect, and the milliseconds
    /// until their deadline.
    pub fn open_attempts(&self) -> Vec<(Address, u64)> {
        let now = self.store().ground().now;
        let open = lock(&self.inner.attempts.open);
        let each = open.by_number.values();
        each.map(|(address, deadline)| (address.clone(), now.until(*deadline))).collect()
    }

    /// Waits until no attempt is in progress in this process.
    pub(crate) async fn attempts_ended(&self) {
        loop {
            let ended = self.inner.attempts.ended.notified();
            if self.inner.attempts.is_empty() {
                return;
            }
            ended.await;
        }
    }
}
