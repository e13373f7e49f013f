//! What a double knows: objects, keys, armed faults and its book. Its caller holds it alone, so
//! deciding, applying and remembering are one step.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use semel_core::time::Wall;
use semel_core::wire::rfc3339;
use serde_json::{Map, Value, json};

use super::book::{Applied, Counts, Entry, count};
use super::fault::{ARMED_MAX, Fault};
use super::request::Request;
use super::script::{Captured, Mode, Route, Script};

/// A book of this length is a client that never ends.
const ENTRIES_MAX: usize = 100_000;

pub(super) struct World {
    pub(super) script: Script,
    /// Grows by each reset: what arrived before has no effect afterwards.
    generation: u64,
    pub(super) entries: Vec<Entry>,
    pub(super) objects: Vec<Object>,
    /// By route and key.
    pub(super) keys: BTreeMap<(String, String), Kept>,
    /// How many ids were given, by their word.
    pub(super) ids: BTreeMap<String, u64>,
    faults: Vec<Fault>,
}

pub(super) struct Object {
    pub(super) id: String,
    /// Its own path, and that of its collection.
    pub(super) path: String,
    pub(super) collection: String,
    pub(super) route: String,
    pub(super) members: Map<String, Value>,
    /// How clients see it.
    pub(super) shown: Value,
    pub(super) version: u64,
}

/// A key that was honoured.
pub(super) struct Kept {
    pub(super) digest: String,
    pub(super) answer: Answer,
    pub(super) object: Option<String>,
    /// Until its first request has its answer.
    pub(super) is_open: bool,
    pub(super) since: Instant,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Value,
}

/// A request that is in the book.
pub(super) struct Arrived {
    pub(super) request: Request,
    pub(super) n: u64,
    generation: u64,
    pub(super) route: Route,
    /// How faults, counts and the book call it.
    pub(super) name: String,
    pub(super) mode: Mode,
    pub(super) key: Option<String>,
    pub(super) captured: Captured,
    pub(super) fault: Option<Fault>,
    pub(super) is_scripted: bool,
}

impl World {
    pub(super) fn new(script: Script) -> World {
        World {
            script,
            generation: 1,
            entries: Vec::new(),
            objects: Vec::new(),
            keys: BTreeMap::new(),
            ids: BTreeMap::new(),
            faults: Vec::new(),
        }
    }

    /// Writes a request into the book, and finds its route and the fault that meets it.
    pub(super) fn arrive(&mut self, request: Request) -> Result<Arrived, Answer> {
        if self.entries.len() >= ENTRIES_MAX {
            return Err(Answer::problem(503, "the book is full: reset the double"));
        }
        let found = self.script.find(&request.method, &request.path);
        let found = found.map(|(route, captured)| (route.clone(), captured));
        let is_scripted = found.is_some();
        let (route, captured) = found.unwrap_or_else(|| {
            (Route::plain(&request.method, &self.pattern(&request)), Captured::new())
        });
        let name = route.name();
        let n = self.entries.len() as u64 + 1;
        let n_of_route = self.entries.iter().filter(|entry| entry.route == name).count() as u64 + 1;
        let fault = self.take_fault(&name, n, n_of_route);
        let key = request.header(&route.key_header);
        self.entries.push(Entry {
            n,
            at: rfc3339(now()),
            method: request.method.clone(),
            path: request.path.clone(),
            route: name.clone(),
            key: key.clone(),
            body: request.digest.clone(),
            applied: Applied::Open,
            object: None,
            status: None,
            fault: fault.as_ref().map(|fault| fault.fault.name().to_owned()),
        });
        let mode = route.mode.unwrap_or(self.script.mode);
        let generation = self.generation;
        Ok(Arrived { request, n, generation, route, name, mode, key, captured, fault, is_scripted })
    }

    /// A path without the ids in it, so that all requests of one kind have one name.
    fn pattern(&self, request: &Request) -> String {
        let last = request.path.rsplit('/').next().unwrap_or_default();
        let names_object = matches!(request.method.as_str(), "PUT" | "PATCH" | "DELETE");
        let has_collection = request.path.trim_start_matches('/').contains('/');
        let parts = request.path.split('/').map(|part| {
            let is_known = self.objects.iter().any(|object| object.id == part);
            let is_named = names_object && has_collection && part == last;
            if !part.is_empty() && (is_known || is_named) { "{id}" } else { part }
        });
        parts.collect::<Vec<_>>().join("/")
    }

    fn take_fault(&mut self, route: &str, n: u64, n_of_route: u64) -> Option<Fault> {
        let at = self.faults.iter().position(|fault| fault.meets(route, n, n_of_route))?;
        let met = self.faults[at].clone();
        let armed = &mut self.faults[at];
        armed.times -= 1;
        armed.request = armed.request.map(|request| request + 1);
        if armed.times == 0 {
            self.faults.remove(at);
        }
        Some(met)
    }

    /// Carries a request out, unless the world was reset since it arrived.
    pub(super) fn apply(&mut self, arrived: &Arrived) -> Answer {
        if !self.is_current(arrived) {
            return Answer::problem(410, "the double was reset since this request arrived");
        }
        let done = if arrived.request.is_look() {
            self.look(arrived)
        } else {
            self.write(arrived, Instant::now())
        };
        self.note(arrived, done.applied, done.object);
        done.answer
    }

    /// The answer is about to leave: from now on a repeat is no request beside another.
    pub(super) fn answered(&mut self, arrived: &Arrived, status: Option<u16>) {
        if !self.is_current(arrived) {
            return;
        }
        self.entries[arrived.n as usize - 1].status = status;
        if let Some(kept) = arrived.key_of_route().and_then(|key| self.keys.get_mut(&key)) {
            kept.is_open = false;
        }
    }

    /// A destination that keeps errors answers the same error to every repeat.
    pub(super) fn keep_error(&mut self, arrived: &Arrived, error: &Answer) {
        let Some(key) = arrived.key_of_route() else { return };
        let is_keeper = arrived.mode == Mode::Keys && arrived.route.stores_errors;
        if !is_keeper || !self.is_current(arrived) {
            return;
        }
        let kept = self.keys.entry(key).or_insert_with(|| Kept {
            digest: arrived.request.digest.clone(),
            answer: error.clone(),
            object: None,
            is_open: false,
            since: Instant::now(),
        });
        kept.answer = error.clone();
    }

    /// A fault came first.
    pub(super) fn nothing(&mut self, arrived: &Arrived) {
        if self.is_current(arrived) {
            self.note(arrived, Applied::Nothing, None);
        }
    }

    fn note(&mut self, arrived: &Arrived, applied: Applied, object: Option<String>) {
        let entry = &mut self.entries[arrived.n as usize - 1];
        entry.applied = applied;
        entry.object = object;
    }

    fn is_current(&self, arrived: &Arrived) -> bool {
        arrived.generation == self.generation
    }

    pub(super) fn arm(&mut self, faults: Vec<Fault>) -> Result<(), String> {
        faults.iter().try_for_each(Fault::check)?;
        if self.faults.len() + faults.len() > ARMED_MAX {
            return Err(format!("over {ARMED_MAX} faults are armed"));
        }
        self.faults.extend(faults);
        Ok(())
    }

    pub(super) fn armed(&self) -> &[Fault] {
        &self.faults
    }

    /// As if it had just been started.
    pub(super) fn reset(&mut self) {
        let generation = self.generation + 1;
        *self = World::new(std::mem::take(&mut self.script));
        self.generation = generation;
    }

    pub(super) fn counts(&self) -> Counts {
        let mut counts = count(&self.entries);
        counts.objects = self.objects.len() as u64;
        counts.faults_armed = self.faults.len() as u64;
        for object in &self.objects {
            counts.routes.entry(object.route.clone()).or_default().objects += 1;
        }
        counts
    }
}

impl Arrived {
    pub(super) fn key_of_route(&self) -> Option<(String, String)> {
        self.key.clone().map(|key| (self.name.clone(), key))
    }
}

impl Kept {
    pub(super) fn is_forgotten(&self, route: &Route, now: Instant) -> bool {
        let age = now.saturating_duration_since(self.since);
        route.remembers.is_some_and(|span| age >= Duration::from_millis(span.ms))
    }
}

impl Answer {
    pub(super) fn new(status: u16, body: Value) -> Answer {
        Answer { status, headers: Vec::new(), body }
    }

    pub(super) fn problem(status: u16, fact: &str) -> Answer {
        Answer::new(status, json!({ "error": fact }))
    }

    pub(super) fn header(mut self, name: &'static str, value: impl Into<String>) -> Answer {
        self.headers.push((name, value.into()));
        self
    }
}

fn now() -> Wall {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Wall(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
