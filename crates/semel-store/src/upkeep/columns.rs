//! The columns beside a record: each must be what the record asks for, and all under their seal.

use semel_core::effect;
use semel_core::key::Address;
use semel_core::record::Effect;
use semel_core::run::{self, Run};
use semel_core::seal::seal;
use semel_core::time::Moment;

use crate::RunRow;
use crate::seals::{check, number};

/// The columns of an effect's row that its record must agree with.
#[derive(Clone)]
pub(crate) struct EffectColumns {
    pub(crate) namespace: String,
    pub(crate) action: String,
    pub(crate) key: String,
    pub(crate) generation: u32,
    pub(crate) version: u64,
    pub(crate) state: String,
    pub(crate) workflow: Option<String>,
    pub(crate) created_at: i64,
    pub(crate) due_at: Option<i64>,
    pub(crate) sweep_at: Option<i64>,
    pub(crate) alarmed: bool,
    pub(crate) held: bool,
    pub(crate) sum: i64,
    /// `None`: the format of the store has none.
    pub(crate) seal: Option<Vec<u8>>,
}

impl EffectColumns {
    /// What a column says that the record does not. Which state it is is left out: it may lag
    /// behind time.
    pub(super) fn problem(&self, effect: &Effect, now: &Moment) -> Option<String> {
        let Address { namespace, action, key } = &effect.address;
        let checks = [
            (
                (&*self.namespace, &*self.action, &*self.key)
                    == (namespace.as_str(), action.as_str(), key.as_str()),
                "its name differs from its record",
            ),
            (
                (self.generation, self.version) == (effect.generation, effect.version),
                "its generation or version differs from its record",
            ),
            (
                self.sweep_at == effect.sweep_at().map(|at| at.0),
                "its retention differs from its record",
            ),
            (self.alarmed != effect.alarms.is_empty(), "its alarm mark differs from its record"),
            (self.is_held_rightly(effect, now), "its hold mark differs from its record"),
            (effect::State::parse(&self.state).is_some(), "its state is none of ours"),
            (
                self.workflow == effect.workflow && self.created_at == effect.created.0,
                "its workflow or time of creation differs from its record",
            ),
            (self.fits_its_seal(), "it does not match its seal"),
        ];
        checks.iter().find(|(is_right, _)| !is_right).map(|(_, what)| (*what).to_owned())
    }
}

impl EffectColumns {
    pub(super) fn seal_problem(&self) -> Option<String> {
        (!self.fits_its_seal()).then(|| "it does not match its seal".to_owned())
    }

    fn fits_its_seal(&self) -> bool {
        let Some(found) = &self.seal else { return true };
        let wanted = seal(
            "effect",
            &[
                (&self.namespace).into(),
                (&self.action).into(),
                (&self.key).into(),
                i64::from(self.generation).into(),
                number(self.version),
                (&self.state).into(),
                self.workflow.as_ref().into(),
                self.created_at.into(),
                self.due_at.into(),
                self.sweep_at.into(),
                self.alarmed.into(),
                self.held.into(),
                self.sum.into(),
            ],
        );
        check(&wanted, found).is_none()
    }

    /// Time may have ended a hold since it was written, but begins none.
    fn is_held_rightly(&self, effect: &Effect, now: &Moment) -> bool {
        let is_open = effect.approval.as_ref().is_some_and(|asked| asked.judgement.is_none());
        if self.held { is_open } else { !effect.is_held(now) }
    }
}

/// The columns of a run's row that its record must agree with.
#[derive(Clone)]
pub(crate) struct RunColumns {
    pub(crate) namespace: String,
    pub(crate) id: String,
    pub(crate) workflow: String,
    pub(crate) key: String,
    pub(crate) lane: String,
    pub(crate) state: String,
    pub(crate) parked: bool,
    pub(crate) created_at: i64,
    pub(crate) version: u64,
    pub(crate) fence: u64,
    pub(crate) wake_at: Option<i64>,
    pub(crate) waits_on: Option<String>,
    pub(crate) queue: Option<String>,
    pub(crate) sweep_at: Option<i64>,
    pub(crate) sum: i64,
    /// `None`: the format of the store has none.
    pub(crate) seal: Option<Vec<u8>>,
}

impl RunColumns {
    /// What a column says that the record does not.
    pub(super) fn problem(&self, run: &Run, now: &Moment) -> Option<String> {
        let wanted = RunRow::new(run, now);
        // A touch makes a parked run due that waits for no time of its own.
        let may_wake = wanted.wake_at.is_some() || wanted.parked;
        let wakes_rightly =
            if self.wake_at.is_some() { may_wake } else { wanted.wake_at.is_none() };
        let checks = [
            (self.namespace == wanted.namespace && self.id == wanted.id, "name"),
            (self.workflow == wanted.workflow && self.key == wanted.key, "workflow or key"),
            (self.is_lane_right(&wanted), "lane"),
            (run::State::parse(&self.state) == Some(wanted.state), "state"),
            (self.parked == wanted.parked, "park mark"),
            (self.created_at == wanted.created.0, "time of creation"),
            (wakes_rightly, "time to wake"),
            (self.waits_on == wanted.waits_on, "wait"),
            (self.queue == wanted.queue, "queue"),
            (self.sweep_at == wanted.sweep_at.map(|at| at.0), "retention"),
        ];
        let wrong = checks.iter().find(|(is_right, _)| !is_right);
        let wrong = wrong.map(|(_, what)| format!("its {what} differs from its record"));
        wrong.or_else(|| self.seal_problem(run.number))
    }

    /// Runs that need no code once shared the lane without a name.
    fn is_lane_right(&self, wanted: &RunRow) -> bool {
        self.lane == wanted.lane || (self.lane.is_empty() && run::is_codeless(&wanted.lane))
    }

    pub(super) fn seal_problem(&self, run: i64) -> Option<String> {
        let wanted = seal(
            "run",
            &[
                run.into(),
                (&self.namespace).into(),
                (&self.id).into(),
                number(self.version),
                (&self.workflow).into(),
                (&self.key).into(),
                (&self.lane).into(),
                (&self.state).into(),
                self.parked.into(),
                number(self.fence),
                self.created_at.into(),
                self.wake_at.into(),
                self.waits_on.as_ref().into(),
                self.queue.as_ref().into(),
                self.sweep_at.into(),
                self.sum.into(),
            ],
        );
        check(&wanted, self.seal.as_ref()?)
    }
}
