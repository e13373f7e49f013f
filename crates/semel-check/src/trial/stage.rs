//! One case, played: a store in memory that outlives its workers, a clock that is pushed ahead
//! whenever nobody has anything else to do, and people at hand.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use semel::Error;
use semel_core::check::{Case, DUPLICATES, Fault, Place};
use semel_core::derive;
use semel_core::effect::State;
use semel_core::record::Effect;
use semel_core::run::{On, Run};
use semel_core::time::{Moment, Steady};
use semel_engine::Engine;
use semel_store::memory::Memory;
use semel_store::{AheadClock, Clock, Query, RunQuery, Runs, Store};

use super::Check;
use super::destinations::Mark;
use super::gate::{Fate, Gate, How};
use super::life::{Birth, Life, internal};
use super::people::{self, Response, Waiting};

/// How often the stage is looked at while nothing says that it changed.
const LOOK: Duration = Duration::from_millis(1);
/// After so long without any change, time passes for whoever sleeps unseen.
const QUIET: Duration = Duration::from_millis(20);
/// After so long without any change, a run is stuck. Real time: code under test may compute.
const PATIENCE: Duration = Duration::from_secs(10);
/// Less than a third of any lease, so that whoever lives renews its own before it ends.
const PUSH_MS: u64 = 2_000;
/// Workers look for abandoned runs every few seconds; nobody has a lease to renew meanwhile.
const LOOK_MS: u64 = 12_000;
/// What wakes by itself does so before; each push takes a moment of real time.
const PUSHES_MAX: u32 = 600;
/// More runs and effects than any trial has.
const PAGE: usize = 500;

pub(super) struct Stage<'a> {
    pub(super) check: &'a Check,
    pub(super) store: Arc<Memory>,
    pub(super) outside: Engine,
    pub(super) mark: Mark,
    clock: Arc<AheadClock>,
    lives: u32,
    pushes: u32,
    /// Waits that were answered: of which run, and which.
    answered: HashSet<(String, String)>,
    pub(super) approvals: Vec<String>,
    pub(super) signals: Vec<String>,
    pub(super) callbacks: Vec<String>,
    /// What is to be given twice.
    twice: Option<(Fault, String)>,
    pub(super) was_given_twice: bool,
    pub(super) other_answers: u64,
}

/// How far a life got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Course {
    /// The run has ended, or stands until an operator comes.
    Over,
    Died,
    Stands,
    /// Only a person can go on.
    Waits,
    Stuck,
}

/// What is to be done right now.
enum Turn {
    Over,
    Waits,
    /// Somebody is at work, or will be at once.
    Busy,
    /// Something was done for the run.
    Moved,
}

impl<'a> Stage<'a> {
    pub(super) fn new(check: &'a Check) -> Result<Stage<'a>, Error> {
        let clock = AheadClock::new(0);
        let store = Arc::new(Memory::new(Clock::Ahead(clock.clone())));
        let outside = Engine::new(store.clone(), "outside")?;
        Ok(Stage {
            check,
            store,
            outside,
            mark: check.destinations.begin(),
            clock,
            lives: 0,
            pushes: 0,
            answered: HashSet::new(),
            approvals: Vec::new(),
            signals: Vec::new(),
            callbacks: Vec::new(),
            twice: None,
            was_given_twice: false,
            other_answers: 0,
        })
    }

    /// Plays a case to its end; the life that is left can replay it.
    pub(super) async fn play(&mut self, case: &Case) -> Result<(Course, Life, bool), Error> {
        if let (
            Fault::RepeatApproval | Fault::RepeatSignal | Fault::RepeatCallback,
            Place::Wait(name),
        ) = (case.fault, &case.place)
        {
            self.twice = Some((case.fault, name.clone()));
        }
        let starts = if case.fault == Fault::Duplicates { DUPLICATES } else { 1 };
        let mut first = self.live("1", fate(case), starts)?;
        let course = self.drive(&mut [&mut first]).await?;
        match (case.fault, &course) {
            (Fault::PauseBeyondLease, Course::Stands) => self.haunt(first).await,
            (Fault::Kill | Fault::NewRelease, Course::Died) => {
                let release = if case.fault == Fault::NewRelease { "2" } else { "1" };
                drop(first);
                let die = |point: &String| Fate { point: point.clone(), how: How::Die };
                let (course, last) = self.recover(release, case.then.as_ref().map(die)).await?;
                Ok((course, last, true))
            }
            (Fault::RepeatTrigger, _) => {
                first.start_again();
                self.hear(&first, &course, 2).await;
                Ok((course, first, true))
            }
            (Fault::Duplicates, _) => {
                self.hear(&first, &course, DUPLICATES as usize).await;
                Ok((course, first, true))
            }
            _ => {
                let is_met = self.was_given_twice || self.check.destinations.has_fired();
                Ok((course, first, is_met))
            }
        }
    }

    /// A new life goes on, and where it dies, too, another one.
    async fn recover(
        &mut self,
        release: &'static str,
        fate: Option<Fate>,
    ) -> Result<(Course, Life), Error> {
        let mut next = self.live(release, fate, 1)?;
        let course = self.drive(&mut [&mut next]).await?;
        if course != Course::Died {
            return Ok((course, next));
        }
        drop(next);
        let mut last = self.live(release, None, 1)?;
        let course = self.drive(&mut [&mut last]).await?;
        Ok((course, last))
    }

    /// One life stands still, another one finishes; then the first goes on as if nothing had been.
    async fn haunt(&mut self, mut zombie: Life) -> Result<(Course, Life, bool), Error> {
        let mut next = self.live("1", None, 1)?;
        self.drive(&mut [&mut next]).await?;
        zombie.gate.go_on();
        // It has nothing to say when it is done: it gets time for a request and its answer.
        tokio::time::sleep(2 * QUIET).await;
        let course = self.drive(&mut [&mut next, &mut zombie]).await?;
        drop(zombie);
        Ok((course, next, true))
    }

    fn live(
        &mut self,
        release: &'static str,
        fate: Option<Fate>,
        starts: u32,
    ) -> Result<Life, Error> {
        self.lives += 1;
        Life::begin(Birth {
            name: format!("life-{}", self.lives),
            release,
            offering: self.check.offering.clone(),
            store: self.store.clone(),
            gate: Gate::new(fate, self.check.destinations.count_requests()),
            start: self.check.start.clone(),
            starts,
        })
    }

    pub(super) fn baseline_life(&mut self) -> Result<Life, Error> {
        self.live("1", None, 1)
    }

    /// Lets lives go on for as long as anything happens by itself or by the people at hand.
    pub(super) async fn drive(&mut self, lives: &mut [&mut Life]) -> Result<Course, Error> {
        let mut hints = self.store.hints();
        let mut since = Instant::now();
        loop {
            for life in lives.iter_mut() {
                if let Some(trouble) = life.trouble() {
                    return Err(trouble);
                }
            }
            if lives[0].gate.is_dead() {
                return Ok(Course::Died);
            }
            if lives[0].gate.stands() {
                return Ok(Course::Stands);
            }
            let names: Vec<String> = lives.iter().map(|life| life.name.clone()).collect();
            match self.turn(&names, since.elapsed()).await? {
                // What a commit wrote is seen before the point after it, where it may still die.
                Turn::Over | Turn::Waits if lives[0].gate.is_inside() => {}
                Turn::Over => return Ok(Course::Over),
                // Rows are read one after the other: only while nobody writes do they fit together.
                Turn::Waits if since.elapsed() > QUIET => return Ok(Course::Waits),
                Turn::Waits => {}
                Turn::Moved => since = Instant::now(),
                Turn::Busy => {}
            }
            if since.elapsed() > PATIENCE || self.pushes > PUSHES_MAX {
                return Ok(Course::Stuck);
            }
            tokio::select! {
                _ = hints.changed() => since = Instant::now(),
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }

    async fn turn(&mut self, living: &[String], quiet: Duration) -> Result<Turn, Error> {
        let Some(run) = self.run().await? else { return Ok(Turn::Busy) };
        if run.state().is_final() || run.paused.is_some() {
            return Ok(Turn::Over);
        }
        let runs = self.outside.runs(&RunQuery::everywhere(PAGE)).await?.runs;
        let open: Vec<Run> = runs.into_iter().filter(|run| run.ended.is_none()).collect();
        for run in &open {
            if run.lease.is_none() && self.attend(run).await? {
                return Ok(Turn::Moved);
            }
        }
        let now = self.store.ground().now;
        let holds = |run: &Run| {
            let lease = run.lease.as_ref();
            lease.is_some_and(|lease| living.contains(&lease.worker) && !now.reached(lease.until))
        };
        let mut waits = true;
        for run in &open {
            let turn = match holds(run) {
                true => self.help_at_work(living, &now, quiet).await?,
                false => self.help_parked(run, &now, quiet).await?,
            };
            match turn {
                Turn::Moved => return Ok(Turn::Moved),
                Turn::Waits => {}
                Turn::Busy | Turn::Over => waits = false,
            }
        }
        Ok(if waits { Turn::Waits } else { Turn::Busy })
    }

    /// A worker that lives has the run: time passes only for what it waits for in memory.
    async fn help_at_work(
        &mut self,
        living: &[String],
        now: &Moment,
        quiet: Duration,
    ) -> Result<Turn, Error> {
        for effect in self.effects().await? {
            match effect.state(now) {
                State::Pending => {
                    let holder = effect.holder(now).map(|attempt| &attempt.worker);
                    let is_ours = holder.is_some_and(|worker| living.contains(worker));
                    if !is_ours || self.check.destinations.is_hanging() {
                        return Ok(self.push(PUSH_MS));
                    }
                    return Ok(Turn::Busy);
                }
                State::InDoubt | State::Planned => {
                    if let Some(due) = effect.due(now).filter(|due| !now.reached(*due)) {
                        return Ok(self.push(now.until(due).min(PUSH_MS)));
                    }
                }
                State::Done | State::Failed | State::Void | State::Expired => {}
            }
        }
        if quiet < QUIET {
            return Ok(Turn::Busy);
        }
        if self.check.destinations.is_hanging() {
            // Nothing of ours limits a step; its client would give up some day.
            self.check.destinations.release();
            return Ok(Turn::Moved);
        }
        Ok(Turn::Busy)
    }

    /// Nobody has the run: time passes until somebody takes it.
    async fn help_parked(
        &mut self,
        run: &Run,
        now: &Moment,
        quiet: Duration,
    ) -> Result<Turn, Error> {
        if run.stranded.is_some() {
            return Ok(Turn::Waits);
        }
        // Whoever touches a parked run makes it due without a word in its record.
        let due = self.store.due_runs(&run.lane(), PAGE).await?.runs;
        if due.iter().any(|one| one.id == run.id) {
            // A worker looks now and then, by its own clock.
            return Ok(if quiet > QUIET { self.push(LOOK_MS) } else { Turn::Busy });
        }
        let mut wakes: Vec<Steady> = run.wake_at(now).into_iter().collect();
        let mut is_person = true;
        for wait in &run.waits {
            match &wait.on {
                On::Effect { action, key } => {
                    let effect = self.outside.effect(&people::address(run, action, key)?).await?;
                    wakes.extend(effect.due(now));
                }
                On::Timer | On::Retry | On::Signal(_) => {}
                // Another run is in the way, and is looked at by itself.
                On::Slot(_) | On::Child(_) | On::Entity(_) => is_person = false,
            }
        }
        let Some(first) = wakes.into_iter().reduce(Steady::earlier) else {
            return Ok(if is_person { Turn::Waits } else { Turn::Busy });
        };
        match now.until(first) {
            0 if quiet > QUIET => Ok(self.push(LOOK_MS)),
            0 => Ok(Turn::Busy),
            left => Ok(self.push(left)),
        }
    }

    fn push(&mut self, ms: u64) -> Turn {
        self.pushes += 1;
        self.clock.push_ms(ms);
        Turn::Moved
    }

    /// Answers what the run waits for, if that is for people and was not answered before.
    async fn attend(&mut self, run: &Run) -> Result<bool, Error> {
        for wait in &run.waits {
            let place = (run.id.clone(), wait.id.clone());
            if self.answered.contains(&place) {
                continue;
            }
            let Some(waiting) = people::waiting(&self.outside, run, wait).await? else { continue };
            let response = (self.check.respond)(&waiting);
            if response == Response::Nothing {
                continue;
            }
            let is_twice = self.twice.as_ref().is_some_and(|(fault, name)| {
                *fault == repeat_of(&waiting) && *name == waiting.name()
            });
            let times = if is_twice { 2 } else { 1 };
            let given = people::answer(&self.outside, run, wait, waiting, &response, times).await?;
            self.answered.insert(place);
            self.was_given_twice |= is_twice;
            self.other_answers += u64::from(given.is_other);
            let name = given.waiting.name();
            match given.waiting {
                Waiting::Approval { .. } => self.approvals.push(name),
                Waiting::Signal(_) => self.signals.push(name),
                Waiting::Callback(_) => self.callbacks.push(name),
            }
            return Ok(true);
        }
        Ok(false)
    }

    /// Waits until so many starts were answered, and counts those that were told otherwise.
    async fn hear(&mut self, life: &Life, course: &Course, count: usize) {
        if *course != Course::Over {
            // Nobody is told before the end; what a repeat does to the run shows in the run.
            return tokio::time::sleep(2 * QUIET).await;
        }
        let since = Instant::now();
        while life.told().len() < count && since.elapsed() < PATIENCE {
            tokio::time::sleep(LOOK).await;
            self.clock.push_ms(50);
        }
        let told = life.told();
        let others = told.iter().filter(|said| Some(*said) != told.first()).count();
        self.other_answers += (others + count.saturating_sub(told.len())) as u64;
    }

    pub(super) async fn run(&self) -> Result<Option<Run>, Error> {
        let start = &self.check.start;
        let key = start.key.as_ref().ok_or_else(|| internal("a trial has a key"))?;
        let id = derive::run_id(&start.namespace, start.workflow.as_str(), key).to_string();
        Ok(self.store.run(start.namespace.as_str(), &id).await?)
    }

    pub(super) async fn effects(&self) -> Result<Vec<Effect>, Error> {
        let mut effects = self.store.list(&Query::everywhere(PAGE)).await?.effects;
        effects.reverse();
        Ok(effects)
    }
}

fn fate(case: &Case) -> Option<Fate> {
    let Place::Point(point) = &case.place else { return None };
    let how = if case.fault == Fault::PauseBeyondLease { How::Stop } else { How::Die };
    Some(Fate { point: point.clone(), how })
}

fn repeat_of(waiting: &Waiting) -> Fault {
    match waiting {
        Waiting::Approval { .. } => Fault::RepeatApproval,
        Waiting::Signal(_) => Fault::RepeatSignal,
        Waiting::Callback(_) => Fault::RepeatCallback,
    }
}
