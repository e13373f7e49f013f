//! What is to be seen when a case is over: the run, the ledger and the destinations.

use std::collections::BTreeMap;
use std::time::Duration;

use semel::Error;
use semel_core::check::{AttemptSeen, Baseline, Case, EffectSeen, Observation};
use semel_core::record::{AlarmKind, Attempt, Effect, Kind, Outcome};
use semel_core::run::Run;
use semel_core::time::Moment;
use semel_store::Store;

use super::life::Life;
use super::stage::{Course, Stage};

/// How long a request of the dead may take to land.
const LANDING: Duration = Duration::from_millis(1);
const LANDINGS_MAX: u32 = 200;

impl Stage<'_> {
    /// Runs once, undisturbed. Returns how many requests each double saw, too.
    pub(super) async fn baseline(&mut self) -> Result<(Baseline, Vec<usize>), Error> {
        let mut life = self.baseline_life()?;
        let course = self.drive(&mut [&mut life]).await?;
        if course == Course::Stuck {
            return Err(super::life::internal("the undisturbed run does not come to an end"));
        }
        let seen = self.observe(&life, &course, true).await?;
        let points = life.gate.points();
        let baseline = Baseline {
            requests: self.check.destinations.requests(&points),
            points: points.into_iter().map(|point| point.names).collect(),
            approvals: self.approvals.clone(),
            signals: self.signals.clone(),
            callbacks: self.callbacks.clone(),
            effects: seen.effects,
            objects: seen.objects,
            model_calls: seen.model_calls,
            state: seen.state,
            detail: seen.detail,
            result: seen.result,
        };
        Ok((baseline, self.check.destinations.counts()))
    }

    /// Plays a case, and looks.
    pub(super) async fn try_out(&mut self, case: &Case) -> Result<Observation, Error> {
        let (course, life, is_met) = self.play(case).await?;
        self.observe(&life, &course, is_met).await
    }

    async fn observe(
        &mut self,
        life: &Life,
        course: &Course,
        is_met: bool,
    ) -> Result<Observation, Error> {
        self.land().await;
        let run = self.run().await?;
        let mut seen = Observation {
            is_met,
            other_answers: self.other_answers,
            ..self.told(run.as_ref()).await
        };
        let now = self.store.ground().now;
        seen.effects = self.effects().await?.iter().map(|effect| see(effect, &now)).collect();
        let destinations = &self.check.destinations;
        seen.requests = destinations.requests(&[]);
        seen.objects = destinations.objects(&self.mark);
        seen.model_calls = destinations.model_calls(&self.mark);
        if *course == Course::Over && run.is_some_and(|run| run.ended.is_some()) {
            let (before, asked) = (destinations.all(), sum(&seen.model_calls));
            if let Err(error) = life.replay().await {
                seen.code = Some(error.code().as_str().to_owned());
                error.detail().clone_into(&mut seen.detail);
            }
            seen.replay_model_calls = sum(&destinations.model_calls(&self.mark)) - asked;
            let calls = destinations.all() - before;
            seen.replay_requests = Some(calls.saturating_sub(seen.replay_model_calls));
        }
        Ok(seen)
    }

    async fn land(&self) {
        for _ in 0..LANDINGS_MAX {
            if !self.check.destinations.is_busy() {
                return;
            }
            tokio::time::sleep(LANDING).await;
        }
    }

    /// Where the run stands, in words.
    async fn told(&self, run: Option<&Run>) -> Observation {
        let Some(run) = run else {
            return Observation { state: "absent".to_owned(), ..Observation::default() };
        };
        let mut seen = Observation {
            state: run.state().as_str().to_owned(),
            waits_on: run.waits_on(),
            ..Observation::default()
        };
        if let Some(pause) = &run.paused {
            (seen.code, seen.detail) = (Some(pause.code.clone()), pause.detail.clone());
        } else if run.ended.is_some() {
            match self.outside.ending(run).await {
                Ok(value) => seen.result = Some(value.text().to_owned()),
                Err(error) => error.detail().clone_into(&mut seen.detail),
            }
        }
        seen
    }
}

fn sum(counts: &BTreeMap<String, u64>) -> u64 {
    counts.values().sum()
}

fn see(effect: &Effect, now: &Moment) -> EffectSeen {
    let plan = effect.plan.as_ref();
    let is_unused =
        |attempt: &Attempt| attempt.doubt.as_ref().is_some_and(|doubt| doubt.key_not_used);
    EffectSeen {
        action: effect.address.action.as_str().to_owned(),
        key: effect.address.key.as_str().to_owned(),
        generation: effect.generation,
        contract: plan.map_or("", |plan| plan.terms.contract.name()).to_owned(),
        state: effect.state(now).as_str().to_owned(),
        downstream_key: plan.map(|plan| plan.downstream_key.clone()).unwrap_or_default(),
        attempts: effect.attempts.iter().map(|attempt| see_attempt(attempt, now)).collect(),
        receipt: effect.receipt().map(|receipt| receipt.text().to_owned()),
        key_not_used: effect.attempts.iter().any(is_unused),
        applied_twice: effect.alarms.iter().any(|alarm| alarm.kind == AlarmKind::AppliedTwice),
    }
}

fn see_attempt(attempt: &Attempt, now: &Moment) -> AttemptSeen {
    let kind = match attempt.kind {
        Kind::Send => "send",
        Kind::Look => "look",
        Kind::Assumed => "assumed",
    };
    let outcome = match attempt.end.as_ref().map(|end| &end.outcome) {
        Some(Outcome::Applied { .. }) => "applied",
        Some(Outcome::NotApplied { .. }) => "not_applied",
        None if attempt.is_live(now) => "open",
        None => "unknown",
    };
    let was_doubted = attempt.doubt.is_some() || outcome == "unknown";
    AttemptSeen { kind: kind.to_owned(), outcome: outcome.to_owned(), was_doubted }
}
