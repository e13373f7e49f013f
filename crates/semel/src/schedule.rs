//! Schedules: runs that start by the clock.

use std::time::Duration;

use semel_core::json::Json;
use semel_core::limits;
use semel_core::schedule::{CatchUp, Content};
use semel_engine::Scheduled;
use serde::Serialize;

use crate::{Error, Semel, millis};

/// A schedule by its name: declared and put, or looked at and stopped. Nothing happens before one
/// of the last methods is called.
///
/// ```
/// # use semel::{CatchUp, Semel};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), semel::Error> {
/// # let semel = Semel::open("memory:").await?;
/// let nightly = semel
///     .schedule("nightly")
///     .workflow("report")
///     .cron("0 3 * * *")
///     .zone("Europe/Rome")
///     .catch_up(CatchUp::Once)
///     .input(&"all branches")
///     .put()
///     .await?;
/// assert_eq!(nightly.schedule.content.zone, "Europe/Rome");
/// # Ok(())
/// # }
/// ```
#[must_use = "a schedule is not stored until `put` is called and awaited"]
pub struct Schedule<'a> {
    semel: &'a Semel,
    name: String,
    workflow: String,
    input: Result<Json, Error>,
    cron: String,
    zone: String,
    catch_up: CatchUp,
    window_ms: u64,
}

impl<'a> Schedule<'a> {
    pub(crate) fn new(semel: &'a Semel, name: &str) -> Schedule<'a> {
        Schedule {
            semel,
            name: name.to_owned(),
            workflow: String::new(),
            input: Ok(Json::null()),
            cron: String::new(),
            zone: "UTC".to_owned(),
            catch_up: CatchUp::Skip,
            window_ms: limits::WINDOW_MS,
        }
    }

    /// The workflow that each tick starts. The key of its run is the schedule's name and the tick.
    pub fn workflow(mut self, workflow: &str) -> Self {
        workflow.clone_into(&mut self.workflow);
        self
    }

    /// When it starts: minute, hour, day of month, month, day of week; or a name such as `@daily`.
    pub fn cron(mut self, pattern: &str) -> Self {
        pattern.clone_into(&mut self.cron);
        self
    }

    /// The time zone of the pattern, such as `Europe/Rome` (UTC).
    pub fn zone(mut self, name: &str) -> Self {
        name.clone_into(&mut self.zone);
        self
    }

    /// What becomes of ticks that nobody was there for (they are skipped).
    pub fn catch_up(mut self, catch_up: CatchUp) -> Self {
        self.catch_up = catch_up;
        self
    }

    /// What each run gets.
    pub fn input<T: Serialize + ?Sized>(mut self, input: &T) -> Self {
        self.input = Json::given(input).map_err(Error::from);
        self
    }

    /// For how long after its end the key of a run answers (30 days). A tick fires once for ever,
    /// also when its run has been forgotten.
    pub fn replay_window(mut self, window: Duration) -> Self {
        self.window_ms = millis(window);
        self
    }

    /// Puts the schedule. One that says the same is left as it is; one that says something else
    /// takes its place from now on, and no tick fires twice.
    pub async fn put(self) -> Result<Scheduled, Error> {
        let content = Content {
            workflow: self.workflow,
            input: self.input?,
            cron: self.cron,
            zone: self.zone,
            catch_up: self.catch_up,
            window_ms: self.window_ms,
        };
        let (engine, namespace) = (&self.semel.engine, &self.semel.namespace);
        Ok(engine.put_schedule(namespace, &self.name, content).await?.0)
    }

    /// The schedule as it stands.
    pub async fn status(&self) -> Result<Scheduled, Error> {
        self.semel.engine.schedule(&self.semel.namespace, &self.name).await
    }

    /// Stops it: ticks are passed over until it is resumed.
    pub async fn pause(&self, actor: &str, reason: &str) -> Result<Scheduled, Error> {
        let Semel { engine, namespace, .. } = self.semel;
        engine.pause_schedule(namespace, &self.name, actor, reason).await
    }

    /// Lets it go on, with the first tick from now on.
    pub async fn resume(&self) -> Result<Scheduled, Error> {
        self.semel.engine.resume_schedule(&self.semel.namespace, &self.name).await
    }

    /// Removes it. Its runs stay.
    pub async fn remove(&self) -> Result<(), Error> {
        self.semel.engine.remove_schedule(&self.semel.namespace, &self.name).await
    }
}
