//! Seeing what is declared. In Rust effects are declared where they are called, so what there is to
//! declare is known when the code has run: in a test, or in a worker for a while.

mod seen;

use std::panic::Location;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use semel_core::declare::{Declaration, Kind, Language, Registry, Times};
use semel_core::gate::{Mode, Policy};
use semel_core::json::Json;
use semel_core::limits;
use semel_core::retry::Retry;
use semel_engine::Facts;

pub(crate) use seen::Called;
use seen::Seen;

/// What was declared by the code that ran since [`crate::Semel::observe`]. Cheap to clone; it keeps
/// declarations, and of values only what it needs to say which members of the input a key is made
/// of. What it keeps is bounded.
///
/// ```no_run
/// # async fn test(semel: semel::Semel) -> Result<(), Box<dyn std::error::Error>> {
/// let observer = semel.observe();
/// // … start the worker, and let one run of each workflow end …
/// observer.write("registry.json".as_ref())?; // for `semel spec registry.json`
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Observer {
    seen: Arc<Mutex<Seen>>,
}

impl Observer {
    /// All that was declared so far.
    pub fn registry(&self) -> Registry {
        self.seen().registry()
    }

    /// The spec of it, as the page that `semel spec` writes.
    pub fn spec(&self) -> String {
        semel_core::spec::markdown(&semel_core::spec::spec(&self.registry()))
    }

    /// Writes it to a file, for `semel spec` and `semel lint`.
    pub fn write(&self, path: &Path) -> std::io::Result<()> {
        std::fs::write(path, self.registry().to_text())
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        // What is noted is never half written; a panic elsewhere takes nothing away.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn note_workflow(&self, name: &str, policy: &Policy) {
        let mut seen = self.seen();
        let Some(flow) = seen.flow(name) else { return };
        flow.limit = policy.limit;
        if let Some(key) = &policy.key {
            flow.one_per = Some(key.template.clone());
            let mode = match key.mode {
                Mode::Queue => "queue",
                Mode::Reject => "reject",
                Mode::Coalesce => "coalesce",
            };
            flow.mode = Some(mode.to_owned());
        }
    }

    pub(crate) fn note_run(&self, facts: &Facts, input: &Json) {
        self.seen().run(facts, input.text());
    }

    pub(crate) fn note_child(&self, parent: &str, child: &str) {
        let mut seen = self.seen();
        if let Some(flow) = seen.flow(parent)
            && !flow.children.iter().any(|known| known == child)
            && flow.children.len() < limits::DECLARATIONS_MAX
        {
            flow.children.push(child.to_owned());
        }
    }

    pub(crate) fn note_effect(&self, called: &Called<'_>, declaration: Declaration) {
        self.seen().effect(called, declaration);
    }

    pub(crate) fn note_sent(&self, action: &str, has_used_key: bool, receipt: &Json) {
        self.seen().sent(action, has_used_key, receipt.text());
    }
}

/// Whether anybody observes: shared by all handles of one ledger.
#[derive(Clone, Default)]
pub(crate) struct Watch(Arc<OnceLock<Observer>>);

impl Watch {
    pub(crate) fn begin(&self) -> Observer {
        self.0.get_or_init(Observer::default).clone()
    }

    pub(crate) fn observer(&self) -> Option<&Observer> {
        self.0.get()
    }
}

/// A step that an observer hears of when it has come to something.
pub(crate) struct StepNote {
    observer: Observer,
    run: String,
    workflow: String,
    declaration: Declaration,
}

impl StepNote {
    #[track_caller]
    pub(crate) fn new(observer: &Observer, facts: &Facts, name: &str, is_model: bool) -> StepNote {
        let (file, line) = place(Location::caller());
        let declaration = Declaration {
            language: Language::Rust,
            kind: if is_model { Kind::Model } else { Kind::Function },
            name: name.to_owned(),
            file: Some(file),
            line: Some(line),
            ..Declaration::default()
        };
        let (run, workflow) = (facts.run_id.clone(), facts.workflow.clone());
        StepNote { observer: observer.clone(), run, workflow, declaration }
    }

    pub(crate) fn came_to(self, retry: &Retry, value: &Json) {
        let StepNote { observer, run, workflow, mut declaration } = self;
        declaration.times = Times {
            attempts: Some(retry.attempts_max),
            retry_total_ms: Some(retry.total_ms),
            ..Times::default()
        };
        observer.seen().step(&run, &workflow, declaration, value.text());
    }
}

/// Where something is declared. The compiler has a path of its own machine for what is outside of
/// the workspace: of that the file's name is enough.
pub(crate) fn place(at: &Location<'_>) -> (String, u32) {
    let path = Path::new(at.file());
    let file = if path.is_absolute() {
        path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    } else {
        at.file().to_owned()
    };
    (file, at.line())
}

/// The name of a type without the modules that it is in.
pub(crate) fn type_word(name: &str) -> String {
    let mut short = String::new();
    let mut word = String::new();
    for c in name.chars() {
        match c {
            ':' => word.clear(),
            c if c.is_alphanumeric() || c == '_' => word.push(c),
            c => {
                short.push_str(&word);
                word.clear();
                short.push(c);
            }
        }
    }
    short + &word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_named_without_their_modules() {
        for (name, want) in [
            ("triage::Ticket", "Ticket"),
            ("bool", "bool"),
            ("()", "()"),
            ("core::option::Option<alloc::string::String>", "Option<String>"),
            ("(a::B, c::D)", "(B, D)"),
        ] {
            assert_eq!(type_word(name), want);
        }
    }
}
