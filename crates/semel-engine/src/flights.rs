//! Callers of one key in one process. They share one look at the store, take turns at changing the
//! row, and hear of every change this process makes to it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use semel_core::key::Address;
use semel_core::record::Effect;
use tokio::sync::{Mutex as Turn, watch};

use crate::lock;

/// All keys that somebody in this process is waiting for or working on.
#[derive(Default)]
pub(crate) struct Flights {
    by_address: Mutex<HashMap<Address, Shared>>,
}

/// A flight, and how many seats are taken in it. Counted under the lock of the map: two who leave
/// at once must not each take the other for somebody who stays.
struct Shared {
    flight: Arc<Flight>,
    seats: usize,
}

pub(crate) struct Flight {
    /// Whoever holds it may begin.
    pub(crate) turn: Turn<()>,
    /// Whoever holds it asks the store on behalf of all who wait.
    pub(crate) lookout: Turn<()>,
    news: watch::Sender<Option<Arc<Effect>>>,
}

/// A place in a flight. The flight ends when the last place is left.
pub(crate) struct Seat<'a> {
    flights: &'a Flights,
    address: Address,
    flight: Arc<Flight>,
    news: watch::Receiver<Option<Arc<Effect>>>,
    /// Nobody else was there: whatever is stored, this process knows nothing of it.
    pub(crate) is_first: bool,
}

impl Flights {
    pub(crate) fn join(&self, address: &Address) -> Seat<'_> {
        let mut flights = lock(&self.by_address);
        let mut is_first = false;
        let shared = flights.entry(address.clone()).or_insert_with(|| {
            is_first = true;
            let (turn, lookout) = (Turn::new(()), Turn::new(()));
            let flight = Arc::new(Flight { turn, lookout, news: watch::Sender::new(None) });
            Shared { flight, seats: 0 }
        });
        shared.seats += 1;
        let flight = shared.flight.clone();
        let news = flight.news.subscribe();
        Seat { flights: self, address: address.clone(), flight, news, is_first }
    }

    /// Tells everybody who waits for a key what it has become. Whoever is late with older news is
    /// not heard, and an old generation is history: no waiter may take it for an answer.
    pub(crate) fn publish(&self, effect: &Effect) {
        self.publish_beyond(0, effect);
    }

    /// Like [`Flights::publish`], by one who has a seat: alone there is nobody to tell.
    pub(crate) fn publish_to_others(&self, effect: &Effect) {
        self.publish_beyond(1, effect);
    }

    fn publish_beyond(&self, own_seats: usize, effect: &Effect) {
        let flights = lock(&self.by_address);
        if let Some(Shared { flight, seats }) = flights.get(&effect.address)
            && *seats > own_seats
            && effect.superseded.is_none()
        {
            flight.news.send_if_modified(|news| {
                let age = |effect: &Effect| (effect.generation, effect.version);
                let is_new = news.as_ref().is_none_or(|known| age(known) <= age(effect));
                if is_new {
                    *news = Some(Arc::new(effect.clone()));
                }
                is_new
            });
        }
    }

    /// How many keys somebody begins or waits for: zero when nobody does.
    pub(crate) fn count(&self) -> usize {
        lock(&self.by_address).len()
    }
}

impl Seat<'_> {
    pub(crate) fn flight(&self) -> Arc<Flight> {
        self.flight.clone()
    }

    /// What was published since this seat was taken or last asked.
    pub(crate) fn news(&mut self) -> Option<Arc<Effect>> {
        if self.news.has_changed().unwrap_or(false) {
            return self.news.borrow_and_update().clone();
        }
        None
    }

    /// Waits for something to be published.
    pub(crate) async fn wait(&mut self) {
        if self.news.changed().await.is_ok() {
            // Leave it for `news`.
            self.news.mark_changed();
        }
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        let mut flights = lock(&self.flights.by_address);
        let shared = flights.get_mut(&self.address).expect("a taken seat keeps its flight");
        shared.seats -= 1;
        if shared.seats == 0 {
            flights.remove(&self.address);
        }
    }
}
