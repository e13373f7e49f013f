//! What requests do to the objects, by the mode of their route.

use std::time::Instant;

use serde_json::{Map, Value, json};

use super::book::Applied;
use super::script::{AtOnce, Captured, Mode, OtherBody, Texts};
use super::template::{self, fill};
use super::world::{Answer, Arrived, Kept, Object, World};

/// What came of a request.
pub(super) struct Done {
    pub(super) applied: Applied,
    pub(super) object: Option<String>,
    pub(super) answer: Answer,
}

impl World {
    pub(super) fn write(&mut self, arrived: &Arrived, now: Instant) -> Done {
        match (arrived.mode, arrived.key_of_route()) {
            (Mode::Keys, Some(key)) => self.write_once(arrived, key, now),
            (Mode::Model, _) => self.call(arrived),
            (Mode::Keys | Mode::Lookup | Mode::Conditional | Mode::Plain, _) => {
                self.write_always(arrived)
            }
        }
    }

    /// Applies what a key has not seen; otherwise tells the first answer.
    fn write_once(&mut self, arrived: &Arrived, key: (String, String), now: Instant) -> Done {
        let route = &arrived.route;
        if self.keys.get(&key).is_some_and(|kept| kept.is_forgotten(route, now)) {
            self.keys.remove(&key);
        }
        let Some(kept) = self.keys.get(&key) else {
            let done = self.write_always(arrived);
            let kept = Kept {
                digest: arrived.request.digest.clone(),
                answer: done.answer.clone(),
                object: done.object.clone(),
                is_open: true,
                since: now,
            };
            self.keys.insert(key, kept);
            return done;
        };
        let is_same = kept.digest == arrived.request.digest;
        match (is_same, kept.is_open, route.at_once, route.other_body) {
            (true, true, AtOnce::Conflict, _) => {
                Done::refused(409, "a request with this key is under way")
            }
            (true, true, AtOnce::Race, _) | (false, _, _, OtherBody::Create) => {
                self.write_always(arrived)
            }
            (false, _, _, OtherBody::Refuse) => {
                Done::refused(422, "this key was used with another body")
            }
            (true, ..) | (false, _, _, OtherBody::Replay) => Done {
                applied: Applied::Replayed,
                object: kept.object.clone(),
                answer: kept.answer.clone().header("idempotent-replayed", "true"),
            },
        }
    }

    fn write_always(&mut self, arrived: &Arrived) -> Done {
        let at = self.objects.iter().position(|object| object.path == arrived.request.path);
        match (arrived.request.method.as_str(), at) {
            ("DELETE", at) => self.remove(arrived, at),
            ("PUT" | "PATCH", Some(at)) => self.change(arrived, at),
            ("PUT" | "PATCH", None) => {
                if let Some(refused) = precondition(arrived, None) {
                    return refused;
                }
                self.put(arrived)
            }
            (_, _) => self.create(arrived),
        }
    }

    /// A new object with an id of the double's.
    fn create(&mut self, arrived: &Arrived) -> Done {
        let collection = arrived.request.path.trim_end_matches('/').to_owned();
        let mut done = self.create_in(arrived, &collection);
        for _ in 1..arrived.route.copies.unwrap_or(1) {
            // The client hears of one of them only: that is what a careless destination does.
            done = self.create_in(arrived, &collection);
        }
        done
    }

    fn create_in(&mut self, arrived: &Arrived, collection: &str) -> Done {
        let word = collection.rsplit('/').next().filter(|word| !word.is_empty());
        let word = word.unwrap_or("object").to_owned();
        let count = self.ids.entry(word.clone()).or_default();
        *count += 1;
        let n = *count;
        let id = arrived.route.id.as_ref().map_or_else(
            || format!("{word}-{n}"),
            |id| template::words(&arrived.fill(&json!(id), &Facts { n, ..Facts::default() })),
        );
        self.insert(arrived, id.clone(), format!("{collection}/{id}"), collection.to_owned(), n)
    }

    /// A new object where the client wants it.
    fn put(&mut self, arrived: &Arrived) -> Done {
        let path = arrived.request.path.trim_end_matches('/').to_owned();
        let (collection, id) = path.rsplit_once('/').unwrap_or(("", &path));
        self.insert(arrived, id.to_owned(), path.clone(), collection.to_owned(), 1)
    }

    fn insert(
        &mut self,
        arrived: &Arrived,
        id: String,
        path: String,
        collection: String,
        n: u64,
    ) -> Done {
        let members = arrived.request.members.clone();
        let shown = arrived.show(&id, &members, n, 1);
        self.objects.push(Object {
            id: id.clone(),
            path,
            collection,
            route: arrived.name.clone(),
            members,
            shown: shown.clone(),
            version: 1,
        });
        let answer = Answer::new(arrived.route.status.unwrap_or(201), shown);
        Done { applied: Applied::Created, object: Some(id), answer: tagged(answer, arrived, 1) }
    }

    fn change(&mut self, arrived: &Arrived, at: usize) -> Done {
        if let Some(refused) = precondition(arrived, Some(self.objects[at].version)) {
            return refused;
        }
        let object = &mut self.objects[at];
        if arrived.request.method == "PUT" {
            object.members.clear();
        }
        object.members.extend(arrived.request.members.clone());
        object.version += 1;
        object.shown = arrived.show(&object.id, &object.members, object.version, object.version);
        let answer = Answer::new(arrived.route.status.unwrap_or(200), object.shown.clone());
        let answer = tagged(answer, arrived, object.version);
        Done { applied: Applied::Changed, object: Some(object.id.clone()), answer }
    }

    fn remove(&mut self, arrived: &Arrived, at: Option<usize>) -> Done {
        let Some(at) = at else {
            // A script may name paths that its objects do not have: then the request is enough.
            if arrived.is_scripted {
                let id = arrived.request.path.rsplit('/').next().unwrap_or_default().to_owned();
                return removed(arrived, id);
            }
            return Done::refused(404, "no such object");
        };
        if let Some(refused) = precondition(arrived, Some(self.objects[at].version)) {
            return refused;
        }
        removed(arrived, self.objects.remove(at).id)
    }

    /// A model says its text, or the next of its texts.
    fn call(&mut self, arrived: &Arrived) -> Done {
        let is_call =
            |entry: &&super::Entry| entry.route == arrived.name && entry.applied == Applied::Called;
        let before = self.entries.iter().filter(is_call).count();
        let text = match &arrived.route.text {
            None => "the answer",
            Some(Texts::Fixed(text)) => text,
            Some(Texts::Varying(texts)) => &texts[before % texts.len()],
        };
        let facts = Facts { n: before as u64 + 1, text: Some(text), ..Facts::default() };
        let template = json!({ "text": "{text}" });
        let body = arrived.fill(arrived.route.answer.as_ref().unwrap_or(&template), &facts);
        let answer = Answer::new(arrived.route.status.unwrap_or(200), body);
        Done { applied: Applied::Called, object: None, answer }
    }

    /// One object by its path, or those of a collection that the query names.
    pub(super) fn look(&self, arrived: &Arrived) -> Done {
        let path = arrived.request.path.trim_end_matches('/');
        if arrived.is_scripted {
            return Done::looked(self.search(arrived));
        }
        if let Some(object) = self.objects.iter().find(|object| object.path == path) {
            let answer = Answer::new(200, object.shown.clone());
            return Done {
                object: Some(object.id.clone()),
                ..Done::looked(tagged(answer, arrived, object.version))
            };
        }
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        let is_collection = |path: &str| self.objects.iter().any(|o| o.collection == path);
        let answer = match self.script.mode_of(path) {
            Mode::Lookup if is_collection(path) || !is_collection(parent) => self.search(arrived),
            Mode::Conditional if is_collection(path) => self.search(arrived),
            Mode::Lookup | Mode::Conditional => Answer::problem(404, "no such object"),
            Mode::Keys | Mode::Plain | Mode::Model => {
                Answer::problem(404, "no such object; and there is no search here")
            }
        };
        Done::looked(answer)
    }

    fn search(&self, arrived: &Arrived) -> Answer {
        let collection = match &arrived.route.of {
            Some(of) => fill_path(of, &arrived.captured),
            None => arrived.request.path.trim_end_matches('/').to_owned(),
        };
        let inside = self.objects.iter().filter(|object| object.collection == collection);
        let found = inside.filter(|object| is_asked_for(object, &arrived.request.query));
        let found: Vec<Value> = found.map(|object| object.shown.clone()).collect();
        let count = found.len();
        let found = Value::Array(found);
        let body = match &arrived.route.answer {
            Some(template) => {
                let facts = Facts { n: count as u64, found: Some(&found), ..Facts::default() };
                arrived.fill(template, &facts)
            }
            None => found,
        };
        Answer::new(arrived.route.status.unwrap_or(200), body)
    }
}

/// What places may speak of beside the request itself.
#[derive(Default)]
struct Facts<'a> {
    id: Option<&'a str>,
    n: u64,
    text: Option<&'a str>,
    found: Option<&'a Value>,
}

impl Arrived {
    /// How an object looks to clients.
    fn show(&self, id: &str, members: &Map<String, Value>, n: u64, version: u64) -> Value {
        if let Some(template) = &self.route.answer {
            return self.fill(template, &Facts { id: Some(id), n, ..Facts::default() });
        }
        let mut shown = members.clone();
        shown.insert("id".into(), id.into());
        if self.mode == Mode::Conditional {
            shown.insert("version".into(), version.into());
        }
        Value::Object(shown)
    }

    fn fill(&self, template: &Value, facts: &Facts<'_>) -> Value {
        let body = Value::Object(self.request.members.clone());
        let look = |name: &str| match template::split(name) {
            ("id", _) => json!(facts.id),
            ("n" | "count", _) => json!(facts.n),
            ("text", _) => json!(facts.text),
            ("key", _) => json!(self.key),
            ("body", path) => template::member(&body, path).clone(),
            ("path", part) => json!(self.captured.get(part)),
            ("query", name) => {
                json!(self.request.query.iter().find(|pair| pair.0 == name).map(|pair| &pair.1))
            }
            ("found", path) => {
                facts.found.map_or(Value::Null, |found| template::member(found, path).clone())
            }
            // Scripts are checked before they are played.
            _ => Value::Null,
        };
        fill(template, &look)
    }
}

impl Done {
    fn refused(status: u16, fact: &str) -> Done {
        let answer = Answer::problem(status, fact);
        Done { applied: Applied::Refused, object: None, answer }
    }

    fn looked(answer: Answer) -> Done {
        Done { applied: Applied::Looked, object: None, answer }
    }
}

fn removed(arrived: &Arrived, id: String) -> Done {
    let body = match &arrived.route.answer {
        Some(template) => arrived.fill(template, &Facts { id: Some(&id), ..Facts::default() }),
        None => json!({ "id": id, "deleted": true }),
    };
    let answer = Answer::new(arrived.route.status.unwrap_or(200), body);
    Done { applied: Applied::Removed, object: Some(id), answer }
}

/// Only `conditional` reads conditions; the others let them pass, as such services do.
fn precondition(arrived: &Arrived, version: Option<u64>) -> Option<Done> {
    if arrived.mode != Mode::Conditional {
        return None;
    }
    if arrived.request.header("if-none-match").is_some() && version.is_some() {
        return Some(Done::refused(412, "it exists"));
    }
    let wanted = arrived.request.header("if-match")?;
    let is_met = version.is_some_and(|version| wanted == "*" || wanted == etag(version));
    (!is_met).then(|| Done::refused(412, "another version, or none"))
}

fn tagged(answer: Answer, arrived: &Arrived, version: u64) -> Answer {
    if arrived.mode == Mode::Conditional { answer.header("etag", etag(version)) } else { answer }
}

fn etag(version: u64) -> String {
    format!("\"{version}\"")
}

fn is_asked_for(object: &Object, query: &[(String, String)]) -> bool {
    query.iter().all(|(name, value)| {
        let is_it = |member: &Value| !member.is_null() && template::words(member) == *value;
        object.members.get(name).is_some_and(is_it) || is_it(template::member(&object.shown, name))
    })
}

fn fill_path(pattern: &str, captured: &Captured) -> String {
    let parts = pattern.trim_end_matches('/').split('/').map(|part| {
        let name = part.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        name.and_then(|name| captured.get(name)).map_or(part, String::as_str)
    });
    parts.collect::<Vec<_>>().join("/")
}
