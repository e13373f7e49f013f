//! How much is let in. What is over the limit is told to come later, before anything is read or
//! written for it, so that nothing acknowledged is ever lost to an overload.

use std::collections::HashMap;
use std::future::Future;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use semel_core::code::Code;
use semel_core::key::Namespace;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::problem::Problem;
use crate::route::Access;
use crate::settings::Limits;

/// Counts of what is under way.
pub(crate) struct Admission {
    limits: Limits,
    known: Gate,
    open: Gate,
    shares: Arc<Mutex<HashMap<Namespace, usize>>>,
    buckets: Mutex<HashMap<Namespace, Bucket>>,
    /// New keys that are being begun: whoever brings one of them, too, brings no other.
    brought: Arc<Mutex<HashMap<String, usize>>>,
}

/// Who asks: somebody with a credential, or anybody. What anybody can fill up is apart, so that it
/// never keeps out those who are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    Known,
    Open,
}

impl Lane {
    pub(crate) fn of(access: Access) -> Lane {
        match access {
            Access::Open => Lane::Open,
            Access::Needs(_) => Lane::Known,
        }
    }
}

/// The share of what everybody can have at once that is set aside for requests without a token.
const OPEN_SHARE: usize = 4;

struct Gate {
    requests: Arc<Semaphore>,
    bodies: Arc<Semaphore>,
}

impl Gate {
    fn new(requests: usize, bytes: usize) -> Gate {
        let of = |places| Arc::new(Semaphore::new(places));
        Gate { requests: of(requests), bodies: of(bytes) }
    }
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

/// A new key on its way into the store.
pub(crate) struct Brought {
    name: String,
    brought: Arc<Mutex<HashMap<String, usize>>>,
}

impl Drop for Brought {
    fn drop(&mut self) {
        leave(&mut lock(&self.brought), &self.name);
    }
}

/// One less of something that is counted; what nobody has is forgotten.
fn leave<K: Hash + Eq>(counts: &mut HashMap<K, usize>, name: &K) {
    if let Some(count) = counts.get_mut(name) {
        *count -= 1;
        if *count == 0 {
            counts.remove(name);
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        leave(&mut lock(&self.shares), &self.namespace);
    }
}

impl Admission {
    pub(crate) fn new(limits: Limits) -> Admission {
        Admission {
            limits,
            known: Gate::new(limits.requests_in_flight, limits.bodies_bytes),
            open: Gate::new(open_requests(&limits), limits.bodies_bytes / OPEN_SHARE),
            shares: Arc::default(),
            buckets: Mutex::default(),
            brought: Arc::default(),
        }
    }

    /// A place for one request.
    pub(crate) fn enter(&self, lane: Lane) -> Result<Place, Problem> {
        match self.gate(lane).requests.clone().try_acquire_owned() {
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

    fn gate(&self, lane: Lane) -> &Gate {
        match lane {
            Lane::Known => &self.known,
            Lane::Open => &self.open,
        }
    }

    /// Room for a body of which nothing has come yet.
    pub(crate) fn no_room(&self, lane: Lane) -> OwnedSemaphorePermit {
        let room = self.gate(lane).bodies.clone().try_acquire_many_owned(0);
        room.expect("nothing always fits")
    }

    /// The same room, for a body that has so many bytes by now.
    pub(crate) fn room(
        &self,
        lane: Lane,
        room: &mut OwnedSemaphorePermit,
        bytes: usize,
    ) -> Result<(), Problem> {
        let more = u32::try_from(bytes.saturating_sub(room.num_permits())).unwrap_or(u32::MAX);
        let more = self.gate(lane).bodies.clone().try_acquire_many_owned(more);
        room.merge(more.map_err(|_| overloaded("too many bytes are under way"))?);
        Ok(())
    }

    /// Lets a key in: one that is there, one that somebody else brings at this moment, or a new one
    /// within the rate of its namespace. Where no rate is set nothing is asked.
    pub(crate) async fn bring<F: Future<Output = Result<bool, Problem>>>(
        &self,
        namespace: &Namespace,
        name: &str,
        is_there: impl Fn() -> F,
    ) -> Result<Option<Brought>, Problem> {
        if self.limits.new_keys_per_second.is_none() || is_there().await? {
            return Ok(None);
        }
        match self.new_key(namespace, name) {
            Ok(brought) => Ok(Some(brought)),
            // Whoever brought it may have come and gone since it was looked for.
            Err(_) if is_there().await? => Ok(None),
            Err(over) => Err(over),
        }
    }

    fn new_key(&self, namespace: &Namespace, name: &str) -> Result<Brought, Problem> {
        let mut brought = lock(&self.brought);
        if !brought.contains_key(name) {
            self.take(namespace)?;
        }
        *brought.entry(name.to_owned()).or_default() += 1;
        Ok(Brought { name: name.to_owned(), brought: self.brought.clone() })
    }

    fn take(&self, namespace: &Namespace) -> Result<(), Problem> {
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

    /// Requests under way.
    pub(crate) fn in_flight(&self) -> usize {
        let free = self.known.requests.available_permits() + self.open.requests.available_permits();
        self.limits.requests_in_flight + open_requests(&self.limits) - free
    }
}

fn open_requests(limits: &Limits) -> usize {
    (limits.requests_in_flight / OPEN_SHARE).max(1)
}

fn overloaded(text: &str) -> Problem {
    Problem::new(Code::Overloaded, text).retry_after(1_000)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
