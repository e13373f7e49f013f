//! A small world for the random walk: a destination that counts what it applied, requests that
//! land late or never, workers that pause, die or lose answers, and clocks that jump.

use std::collections::BTreeMap;

use semel_core::contract::Declared;
use semel_core::effect::{Permit, Quarantine, Rows};
use semel_core::record::{Contract, Effect, Kind};
use semel_core::time::{Moment, Steady, Wall};

pub(crate) const LEASE_MS: u64 = 30_000;
pub(crate) const DEADLINE_MS: u64 = 60_000;
pub(crate) const SETTLE_MS: u64 = 120_000;
pub(crate) const RETENTION_MS: u64 = 20 * 60_000;
pub(crate) const WINDOW_MS: u64 = 60 * 60_000;
const WALL_0: i64 = 1_700_000_000_000;

/// A seeded generator of our own: the same seed gives the same walk for ever.
#[derive(Clone)]
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) % end
    }

    /// True in `percent` of a hundred cases.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// Whoever holds, or held, a permit.
#[derive(Clone)]
pub(crate) struct Worker {
    pub(crate) id: String,
    pub(crate) session: String,
    pub(crate) generation: u32,
    pub(crate) permit: Permit,
    /// The answer to `begin` has not arrived: it may ask again with its id, and must not send.
    pub(crate) waits_for_answer: bool,
    pub(crate) is_alive: bool,
    pub(crate) has_sent: bool,
    /// The real time after which nothing of this attempt may land, save the settle window.
    pub(crate) ends_at: i64,
    pub(crate) answer: Option<Answer>,
    pub(crate) has_said_unknown: bool,
}

/// What a worker learned from the destination.
#[derive(Clone, PartialEq)]
pub(crate) enum Answer {
    Object(String),
    Found(Vec<String>),
    Refused,
}

/// A request under way.
#[derive(Clone)]
struct Flight {
    worker: String,
    key: String,
    sent_at: i64,
}

/// What the destination knows of one downstream key.
#[derive(Clone, Default)]
struct Place {
    objects: Vec<String>,
    remembered: Option<(i64, String)>,
}

#[derive(Clone)]
pub(crate) struct World {
    pub(crate) chance: Chance,
    pub(crate) contract: Contract,
    pub(crate) rows: Vec<Effect>,
    pub(crate) workers: Vec<Worker>,
    pub(crate) epoch: u64,
    pub(crate) quarantine: Option<Quarantine>,
    pub(crate) backup: (Vec<Effect>, Wall),
    /// The downstream keys of all requests that really left, by the attempt that made them.
    pub(crate) requests: Vec<(String, String)>,
    /// The code does not pass the downstream key on: each request makes an object of its own.
    pub(crate) drops_key: bool,
    flights: Vec<Flight>,
    places: BTreeMap<String, Place>,
    /// Real milliseconds since the world began.
    real: i64,
    wall_error: i64,
    wall_mark: Wall,
    /// A native key's age is known by one clock at least: who loses both, by a wrong wall clock
    /// and a reboot or restore, cannot tell it. So its worlds have either fault, not both.
    wall_may_step: bool,
    steady_may_end: bool,
    /// In half of the worlds requests land at the last possible moment and answers get lost.
    is_slow: bool,
    boot: u64,
    boot_at: i64,
}

impl World {
    pub(crate) fn new(seed: u64, contract: Contract) -> World {
        let is_native = matches!(contract, Contract::NativeKey { .. });
        World {
            chance: Chance(seed),
            contract,
            rows: Vec::new(),
            workers: Vec::new(),
            epoch: 0,
            quarantine: None,
            backup: (Vec::new(), Wall(WALL_0)),
            requests: Vec::new(),
            drops_key: false,
            flights: Vec::new(),
            places: BTreeMap::new(),
            real: 0,
            wall_error: 0,
            wall_mark: Wall(WALL_0),
            wall_may_step: !is_native || seed.is_multiple_of(2),
            steady_may_end: !is_native || !seed.is_multiple_of(2),
            is_slow: (seed / 2).is_multiple_of(2),
            boot: 1,
            boot_at: -1_000_000,
        }
    }

    pub(crate) fn declared(&self) -> Declared {
        Declared {
            contract: Some(self.contract),
            lease_ms: Some(LEASE_MS),
            deadline_ms: Some(DEADLINE_MS),
            settle_ms: Some(SETTLE_MS),
            window_ms: Some(WINDOW_MS),
            attempts_max: None,
            retry: None,
            rate: None,
        }
    }

    pub(crate) fn now(&self) -> Moment {
        let wall = Wall(WALL_0 + self.real + self.wall_error);
        let steady = Steady { boot: self.boot, ms: self.real - self.boot_at };
        Moment { wall, steady, wall_is_behind: wall < self.wall_mark }
    }

    /// Real time of a point on the steady clock of this boot.
    fn real_of(&self, point: Steady) -> i64 {
        assert_eq!(point.boot, self.boot, "asked about another boot");
        self.boot_at + point.ms
    }

    /// Lets time pass. Requests whose time runs out land at the last moment, or never.
    pub(crate) fn pass(&mut self, ms: u64) {
        let until = self.real.saturating_add_unsigned(ms);
        let mut landings = Vec::new();
        for flight in std::mem::take(&mut self.flights) {
            let limit = self.limit(&flight);
            if limit > until {
                self.flights.push(flight);
            } else if self.chance.percent(70) {
                landings.push((limit - 1, flight));
            }
        }
        landings.sort_by_key(|(at, _)| *at);
        for (at, flight) in landings {
            self.land(&flight, at);
        }
        self.real = until;
        self.wall_mark = self.wall_mark.max(self.now().wall);
    }

    /// When a request can no longer take effect. With a native key the window runs from the send,
    /// as its horizon assumes; else from the attempt's end.
    fn limit(&self, flight: &Flight) -> i64 {
        let settle = i64::try_from(SETTLE_MS).expect("short");
        let worker = self.workers.iter().find(|worker| worker.id == flight.worker);
        match self.contract {
            Contract::NativeKey { .. } => flight.sent_at + settle,
            _ => worker.expect("workers outlive their requests").ends_at + settle,
        }
    }

    /// The worker's request leaves, if its permit still lives.
    pub(crate) fn send(&mut self, index: usize) {
        let now = self.now();
        let worker = &mut self.workers[index];
        let may_send = worker.is_alive
            && !worker.waits_for_answer
            && !worker.has_sent
            && worker.permit.kind == Kind::Send
            && !now.reached(worker.permit.valid_until);
        if !may_send {
            return;
        }
        worker.has_sent = true;
        let (id, key) = (worker.id.clone(), worker.permit.downstream_key.clone());
        self.requests.push((id.clone(), key.clone()));
        let is_refused = self.place(&key).objects.is_empty() && self.chance.percent(15);
        if is_refused {
            self.workers[index].answer = Some(Answer::Refused);
        } else {
            self.flights.push(Flight { worker: id, key, sent_at: self.real });
        }
    }

    /// One request that is under way lands now.
    pub(crate) fn land_any(&mut self) {
        if !self.flights.is_empty() && !self.is_slow {
            let index = self.chance.below(self.flights.len() as u64);
            let flight = self.flights.remove(usize::try_from(index).expect("small"));
            self.land(&flight, self.real);
        }
    }

    fn land(&mut self, flight: &Flight, at: i64) {
        let count: usize = self.places.values().map(|place| place.objects.len()).sum();
        let fresh = format!("\"object-{}\"", count + 1);
        let contract = self.contract;
        let place = self.places.entry(flight.key.clone()).or_default();
        let keeps = |since: i64| at - since < i64::try_from(RETENTION_MS).expect("short");
        let answer = match (contract, &place.remembered) {
            (Contract::NativeKey { .. }, Some((since, object)))
                if keeps(*since) && !self.drops_key =>
            {
                Answer::Object(object.clone())
            }
            (Contract::Conditional, Some(_)) => Answer::Refused,
            _ => {
                place.objects.push(fresh.clone());
                place.remembered = Some((at, fresh.clone()));
                Answer::Object(fresh)
            }
        };
        let answer_is_lost = self.chance.percent(if self.is_slow { 90 } else { 30 });
        let worker = self.workers.iter_mut().find(|worker| worker.id == flight.worker);
        if let Some(worker) = worker.filter(|worker| worker.is_alive && !answer_is_lost) {
            worker.answer = Some(answer);
        }
    }

    /// The worker reads the destination.
    pub(crate) fn look(&mut self, index: usize) {
        let worker = &self.workers[index];
        if worker.is_alive && !worker.waits_for_answer && worker.permit.kind == Kind::Look {
            let found = self.place(&worker.permit.downstream_key).objects;
            self.workers[index].answer = Some(Answer::Found(found));
        }
    }

    fn place(&self, key: &str) -> Place {
        self.places.get(key).cloned().unwrap_or_default()
    }

    /// How many requests left under a key.
    pub(crate) fn requests_under(&self, key: &str) -> usize {
        self.requests.iter().filter(|(_, sent)| sent == key).count()
    }

    /// What exists at the destination under a key, oldest first.
    pub(crate) fn objects(&self, key: &str) -> Vec<String> {
        self.place(key).objects
    }

    /// All keys under which something exists.
    pub(crate) fn applied_keys(&self) -> Vec<String> {
        let applied = self.places.iter().filter(|(_, place)| !place.objects.is_empty());
        applied.map(|(key, _)| key.clone()).collect()
    }

    /// Nothing is under way and nobody may send.
    pub(crate) fn is_quiet(&self) -> bool {
        let now = self.now();
        let may_send = |worker: &Worker| {
            let is_over = now.reached(worker.permit.valid_until);
            worker.is_alive && !worker.has_sent && !is_over && worker.permit.kind == Kind::Send
        };
        self.flights.is_empty() && !self.workers.iter().any(may_send)
    }

    pub(crate) fn arm(&mut self, id: &str, session: &str, generation: u32, permit: Permit) {
        let ends_at = self.real_of(permit.deadline);
        let waits_for_answer = self.chance.percent(15);
        self.workers.push(Worker {
            id: id.to_owned(),
            session: session.to_owned(),
            generation,
            permit,
            waits_for_answer,
            is_alive: true,
            has_sent: false,
            ends_at,
            answer: None,
            has_said_unknown: false,
        });
    }

    /// A renewed lease extends the permit, and for a call that cannot be aborted its end.
    pub(crate) fn extend(&mut self, index: usize, lease_until: Steady) {
        let end = self.real_of(lease_until);
        let worker = &mut self.workers[index];
        worker.ends_at = worker.ends_at.max(end);
        if !matches!(self.contract, Contract::NativeKey { .. }) {
            let margin = i64::try_from(LEASE_MS / 15).expect("short");
            let valid_until = Steady { ms: lease_until.ms - margin, ..lease_until };
            worker.permit.valid_until = valid_until;
        }
    }

    /// The worker says that it does not know: it stops, and so does its request soon.
    pub(crate) fn give_up(&mut self, index: usize) {
        let worker = &mut self.workers[index];
        worker.has_said_unknown = true;
        worker.has_sent = true;
        worker.ends_at = worker.ends_at.min(self.real);
    }

    pub(crate) fn kill(&mut self, index: usize) {
        let real = self.real;
        let worker = &mut self.workers[index];
        if worker.is_alive {
            worker.is_alive = false;
            worker.ends_at = worker.ends_at.min(real);
        }
    }

    pub(crate) fn reboot(&mut self) {
        if !self.steady_may_end {
            return;
        }
        for index in 0..self.workers.len() {
            self.kill(index);
        }
        self.boot += 1;
        self.boot_at = self.real;
    }

    pub(crate) fn step_wall(&mut self) {
        if !self.wall_may_step {
            return;
        }
        let hours_2 = 2 * 3_600_000;
        self.wall_error = match self.chance.below(3) {
            0 => 0,
            _ => i64::try_from(self.chance.below(2 * hours_2)).expect("short") - 7_200_000,
        };
        self.wall_mark = self.wall_mark.max(self.now().wall);
    }

    /// From now on all goes well.
    pub(crate) fn calm_down(&mut self) {
        self.wall_error = 0;
        self.is_slow = false;
    }

    pub(crate) fn back_up(&mut self) {
        // A quarantine that is open when the backup is made is in the backup.
        let recovered = self.quarantine.map_or(self.now().wall, |open| open.recovered);
        self.backup = (self.rows.clone(), recovered);
    }

    /// The store goes back to its backup, and notices.
    pub(crate) fn restore(&mut self) {
        let now = self.now();
        let (rows, recovered) = self.backup.clone();
        // A clock that lies at the moment of recovery is one fault more than we take.
        let is_wrong = now.wall_is_behind || self.wall_error != 0 || recovered > now.wall;
        if is_wrong || !self.steady_may_end {
            return;
        }
        self.rows = rows;
        self.epoch += 1;
        self.quarantine = Some(Quarantine { opened: now.wall, recovered, rows: Rows::WentBack });
    }

    /// The tombstone's end: all is forgotten on both sides.
    pub(crate) fn forget(&mut self) {
        self.rows.clear();
        self.workers.clear();
        self.requests.clear();
        self.flights.clear();
        self.places.clear();
        self.back_up();
    }
}
