//! Trying a Rust workflow in a test: every point at which its worker may die, every request that
//! may go wrong, every delivery that may come twice.
//!
//! Workers are threads with runtimes of their own on one store in memory, and time is pushed ahead
//! instead of waited for, so that hundreds of deaths take seconds. Where a worker dies, everything
//! in it is dropped: its tasks, its sockets, and what it was about to write.
//!
//! ```
//! use std::collections::BTreeSet;
//! use std::sync::{Arc, Mutex};
//!
//! use semel::{Context, Error, NativeKey};
//! use semel_check::Check;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! // A destination that honours keys, so that it counts each key once.
//! let sent = Arc::new(Mutex::new(BTreeSet::new()));
//! let (seen, cleared) = (sent.clone(), sent.clone());
//!
//! let greet = move |ctx: Context, name: String| {
//!     let sent = sent.clone();
//!     async move {
//!         ctx.effect("card")
//!             .key([&name])
//!             .contract(NativeKey::hours(24))
//!             .call(move |intent| {
//!                 sent.lock().unwrap().insert(intent.downstream_key().to_owned());
//!                 async { Ok::<_, semel::Failure>("posted".to_owned()) }
//!             })
//!             .await
//!     }
//! };
//! let report = Check::new("greet", greet)
//!     .input("Ada")
//!     .reset(move || cleared.lock().unwrap().clear())
//!     .counter("cards", move || seen.lock().unwrap().len() as u64)
//!     .run()
//!     .await;
//! report.assert_ok();
//! assert_eq!(report.points.len(), 10);
//! # }
//! ```

mod destinations;
mod gate;
mod life;
mod people;
mod see;
mod stage;

pub use people::{Response, Waiting};

use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Instant;

use semel::{Code, Context, Error, IntoKey, Json, Namespace, Semel};
use semel_core::check::{self, Baseline, Budget, Case, Observation, Outcome, Place, Verdict};
use semel_core::key::Action;
use semel_core::limits;
use semel_engine::Start;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::double::Double;
use destinations::{Counter, Destinations};
use life::Offering;
use stage::Stage;

/// Names the one case to play, as a report names it.
pub const ONLY: &str = "SEMEL_CHECK_ONLY";

/// The key under which runs of a trial are started.
const KEY: &str = "semel check";

/// A workflow to be tried. Nothing happens before [`Check::run`].
pub struct Check {
    workflow: String,
    offering: Offering,
    start: Start,
    destinations: Destinations,
    budget: Budget,
    ends: Option<String>,
    respond: Arc<dyn Fn(&Waiting) -> Response + Send + Sync>,
    /// What was wrong with how the trial was declared.
    wrong: Option<Error>,
}

impl Check {
    /// Tries a workflow: the same function that a worker registers.
    pub fn new<I, T, F, Fut>(workflow: &str, code: F) -> Check
    where
        I: DeserializeOwned + Send + 'static,
        T: Serialize,
        F: Fn(Context, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let (action, wrong) = match Action::new(workflow) {
            Ok(action) => (action, None),
            Err(invalid) => (Action::new("workflow").expect("a name"), Some(invalid.into())),
        };
        let start = Start {
            namespace: Namespace::default(),
            workflow: action,
            key: KEY.into_key().ok(),
            input: Json::null(),
            window_ms: limits::WINDOW_MS,
            deadline_ms: None,
            release: None,
            parent: None,
        };
        Check {
            workflow: workflow.to_owned(),
            offering: offering(workflow, code),
            start,
            destinations: Destinations::default(),
            budget: Budget::default(),
            ends: None,
            respond: Arc::new(|_| Response::Yes),
            wrong,
        }
    }

    /// A workflow that the one under test starts as a child.
    pub fn also<I, T, F, Fut>(mut self, workflow: &str, code: F) -> Check
    where
        I: DeserializeOwned + Send + 'static,
        T: Serialize,
        F: Fn(Context, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let (known, new) = (self.offering, offering(workflow, code));
        self.offering = Arc::new(move |semel: &Semel, release: &str| {
            known(semel, release)?;
            new(semel, release)
        });
        self
    }

    /// What the workflow gets.
    pub fn input<T: Serialize + ?Sized>(mut self, input: &T) -> Check {
        match Json::of(input) {
            Ok(input) => self.start.input = input,
            Err(invalid) => self.wrong = Some(invalid.into()),
        }
        self
    }

    /// The key under which the run is started, where the code looks at it.
    pub fn key(mut self, key: impl IntoKey) -> Check {
        match key.into_key() {
            Ok(key) => self.start.key = Some(key),
            Err(invalid) => self.wrong = Some(invalid.into()),
        }
        self
    }

    /// A destination that the workflow sends to. Its requests are counted, and each of them is made
    /// to go wrong. It is reset before each case.
    pub fn double(mut self, double: &Arc<Double>) -> Check {
        self.destinations.doubles.push(double.clone());
        self
    }

    /// A destination of yours: how many things there are, ever. A case is judged by how many came
    /// with it.
    pub fn counter(mut self, name: &str, count: impl Fn() -> u64 + Send + Sync + 'static) -> Check {
        let (name, count) = (name.to_owned(), Arc::new(count));
        self.destinations.counters.push(Counter { name, is_model: false, count });
        self
    }

    /// Puts a destination of yours back before each case. One that honours keys needs it: each case
    /// sends the same keys, and it would take them for repeats of the case before.
    pub fn reset(mut self, reset: impl Fn() + Send + Sync + 'static) -> Check {
        self.destinations.resets.push(Arc::new(reset));
        self
    }

    /// A model of yours: how often it was asked, ever.
    pub fn model(mut self, name: &str, count: impl Fn() -> u64 + Send + Sync + 'static) -> Check {
        let (name, count) = (name.to_owned(), Arc::new(count));
        self.destinations.counters.push(Counter { name, is_model: true, count });
        self
    }

    /// What people and other systems answer when the run waits for them. Without this every
    /// approval is given, and signals and callbacks bring `null`.
    pub fn respond(
        mut self,
        respond: impl Fn(&Waiting) -> Response + Send + Sync + 'static,
    ) -> Check {
        self.respond = Arc::new(respond);
        self
    }

    /// How the run ends where nothing goes wrong, for one that is meant not to end well:
    /// `failed`, `cancelled` or `paused`. Without this such a run fails the check, since one that
    /// ends before its sends would pass every case.
    pub fn ends(mut self, state: &str) -> Check {
        self.ends = Some(state.to_owned());
        self
    }

    /// At most so many cases. The most telling come first; the report says how many were left out.
    pub fn budget(mut self, cases: usize) -> Check {
        self.budget.cases_max = Some(cases);
        self
    }

    /// Two deaths, too: at each point, and at each one after it. That is the square of the points.
    pub fn pairs(mut self) -> Check {
        self.budget.pairs = true;
        self
    }

    /// Runs the workflow twice undisturbed, then once for each case.
    pub async fn run(self) -> Report {
        let since = Instant::now();
        let command = command();
        let (baseline, usual) = match self.undisturbed().await {
            Ok(found) => found,
            Err(error) => return self.broken(&error),
        };
        let mut plan = check::plan(&baseline, self.budget);
        if let Ok(only) = std::env::var(ONLY) {
            plan.cases = check::find(&baseline, &only).into_iter().collect();
        }
        let mut verdicts = Vec::with_capacity(plan.cases.len());
        for case in &plan.cases {
            let since = Instant::now();
            let mut seen = self.try_out(case, &usual).await.unwrap_or_else(|error| Observation {
                error: Some(error.to_string()),
                ..Observation::default()
            });
            seen.ms = millis(since);
            verdicts.push(check::judge(&baseline, case, &seen, &command));
        }
        let mut report = check::Report::new(&self.workflow, &baseline, verdicts);
        (report.left_out, report.ms) = (plan.left_out, millis(since));
        Report { report }
    }

    async fn undisturbed(&self) -> Result<(Baseline, Vec<usize>), Error> {
        if let Some(wrong) = &self.wrong {
            return Err(wrong.clone());
        }
        let (mut baseline, usual) = Stage::new(self)?.baseline().await?;
        if let Some(wrong) = check::wrong_end(&baseline, self.ends.as_deref()) {
            return Err(Error::new(Code::InputInvalid, wrong));
        }
        // A result that is another one each time says nothing about a fault.
        let (again, _) = Stage::new(self)?.baseline().await?;
        baseline.result = baseline.result.filter(|result| again.result.as_ref() == Some(result));
        Ok((baseline, usual))
    }

    async fn try_out(&self, case: &Case, usual: &[usize]) -> Result<Observation, Error> {
        let mut stage = Stage::new(self)?;
        if let Place::Send { number, .. } = case.place {
            let refused = |error| life::internal(error);
            self.destinations.arm(case.fault, number, usual).map_err(refused)?;
        }
        stage.try_out(case).await
    }

    /// The workflow does not even run when nothing goes wrong.
    fn broken(&self, error: &Error) -> Report {
        let case = Case { fault: check::Fault::RepeatTrigger, place: Place::Run, then: None };
        let verdict = Verdict {
            name: "the undisturbed run".to_owned(),
            case,
            outcome: Outcome::Error,
            is_ok: false,
            detail: error.to_string(),
            lines: Vec::new(),
            reproduce: None,
            ms: 0,
        };
        let nothing = Baseline::default();
        Report { report: check::Report::new(&self.workflow, &nothing, vec![verdict]) }
    }
}

/// What a trial came to.
#[derive(Clone, Debug)]
pub struct Report {
    report: check::Report,
}

impl Report {
    /// Prints the table, and fails the test where the promise did not hold.
    ///
    /// # Panics
    ///
    /// With each failed case, its five lines and the command that plays it again.
    #[expect(clippy::print_stderr, reason = "what was tried is the result of the test")]
    pub fn assert_ok(&self) {
        eprintln!("{}", self.report.text());
        assert!(self.report.is_ok(), "{}", self.report.text());
    }
}

impl Deref for Report {
    type Target = check::Report;

    fn deref(&self) -> &check::Report {
        &self.report
    }
}

fn offering<I, T, F, Fut>(workflow: &str, code: F) -> Offering
where
    I: DeserializeOwned + Send + 'static,
    T: Serialize,
    F: Fn(Context, I) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<T, Error>> + Send + 'static,
{
    let (workflow, code) = (workflow.to_owned(), Arc::new(code));
    Arc::new(move |semel: &Semel, release: &str| {
        let code = code.clone();
        let worker = semel.worker().release(release);
        worker.workflow(&workflow, move |ctx, input| code(ctx, input)).start().map(|_| ())
    })
}

/// The test that runs this, by itself and with one case.
fn command() -> String {
    let package = std::env::var("CARGO_PKG_NAME").map(|name| format!(" -p {name}"));
    let thread = std::thread::current();
    let test = thread.name().filter(|name| *name != "main").map(|name| format!(" {name}"));
    format!("{ONLY}={{case}} cargo test{}{}", package.unwrap_or_default(), test.unwrap_or_default())
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
