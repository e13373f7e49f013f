//! How much is let in. What is over the limit is told to come later, before anything is read or
//! written for it, so that nothing acknowledged is ever lost to an overload.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use semel_core::code::Code;
use semel_core::key::Namespace;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::problem::Problem;
use crate::settings::Limits;

/// Counts of what is under way.
pub(crate) struct Admission {
    limits: Limits,
    requests: Arc<Semaphore>,
    bodies: Arc<Semaphore>,
    shares: Arc<Mutex<HashMap<Namespace, usize>>>,
    buckets: Mutex<HashMap<Namespace, Bucket>>,
}

/// New keys that a namespace may still bring.
struct Bucket {
    left: f64,
    seen: Instant,
}

/// A place among the requests in flight; given back when it is dropped.
pub(crate) struct Place {
    _request: OwnedSemaphorePermit,
    share: Option<Share>,
}

struct Share {
    namespace: Namespace,
    shares: Arc<Mutex<HashMap<Namespace, usize>>>,
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut shares = lock(&self.shares);
        if let Some(count) = shares.get_mut(&self.namespace) {
            *count -= 1;
            if *count == 0 {
                shares.remove(&self.namespace);
            }
        }
    }
}

impl Admission {
    pub(crate) fn new(limits: Limits) -> Admission {
        Admission {
            limits,
            requests: Arc::new(Semaphore::new(limits.requests_in_flight)),
            bodies: Arc::new(Semaphore::new(limits.bodies_bytes)),
            shares: Arc::default(),
            buckets: Mutex::default(),
        }
    }

    /// A place for one request.
    pub(crate) fn enter(&self) -> Result<Place, Problem> {
        match self.requests.clone().try_acquire_owned() {
            Ok(request) => Ok(Place { _request: request, share: None }),
            Err(_) => Err(overloaded("too many requests are under way")),
        }
    }

    /// The same place, counted to a namespace: one that fills its share leaves the others theirs.
    pub(crate) fn share(&self, place: &mut Place, namespace: &Namespace) -> Result<(), Problem> {
        let mut shares = lock(&self.shares);
        let count = shares.entry(namespace.clone()).or_default();
        if *count >= self.limits.requests_per_namespace {
            let text = "the namespace has too many requests under way";
            return Err(Problem::new(Code::QuotaExceeded, text).retry_after(1_000));
        }
        *count += 1;
        drop(shares);
        place.share = Some(Share { namespace: namespace.clone(), shares: self.shares.clone() });
        Ok(())
    }

    /// Room for so many more bytes of bodies.
    pub(crate) fn room(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Problem> {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let room = self.bodies.clone().try_acquire_many_owned(bytes);
        room.map_err(|_| overloaded("too many bytes are under way"))
    }

    /// Whether a namespace may bring one more new key now. Asked only for keys that are new.
    pub(crate) fn new_key(&self, namespace: &Namespace) -> Result<(), Problem> {
        let Some(rate) = self.limits.new_keys_per_second else { return Ok(()) };
        let rate = f64::from(rate);
        let mut buckets = lock(&self.buckets);
        let full = || Bucket { left: rate, seen: Instant::now() };
        let bucket = buckets.entry(namespace.live()).or_insert_with(full);
        bucket.left = (bucket.left + bucket.seen.elapsed().as_secs_f64() * rate).min(rate);
        bucket.seen = Instant::now();
        if bucket.left >= 1.0 {
            bucket.left -= 1.0;
            return Ok(());
        }
        let text = "the namespace brings too many new keys";
        Err(Problem::new(Code::QuotaExceeded, text).retry_after(1_000))
    }

    /// Whether new keys are counted at all.
    pub(crate) fn counts_new_keys(&self) -> bool {
        self.limits.new_keys_per_second.is_some()
    }

    /// Requests under way.
    pub(crate) fn in_flight(&self) -> usize {
        self.limits.requests_in_flight - self.requests.available_permits()
    }
}

fn overloaded(text: &str) -> Problem {
    Problem::new(Code::Overloaded, text).retry_after(1_000)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
