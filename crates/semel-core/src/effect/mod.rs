//! The effect machine. An effect's state is a fold over its attempts and decisions: derived, never
//! set. Each file below is one wish: it takes the effect as it is and returns it as it should be.

pub mod approve;
mod begin;
mod budget;
mod decide;
mod hold;
mod intend;
mod settle;
mod sweep;
#[cfg(test)]
mod table;
#[cfg(test)]
pub(crate) mod testing;
mod undo;
mod wait;
mod wanted;

pub use begin::{
    Begin, Decision, EPOCH_SHIFT, Ground, Permit, Quarantine, Rows, Transaction, begin, transact,
};
pub use budget::grant;
pub use decide::{Imported, Person, Resolution, import, missed, resolve, supersede, void};
pub use intend::{Intended, intend};
pub use settle::{Abort, Landed, Report, Settle, Settled, died, lapse, renew, settle};
pub use sweep::{Sweep, keep_for_run, sweep};
pub use undo::{undoing, undone};
pub use wait::{take_waiters, wait};

use crate::code::Code;
use crate::contract::TermsRefusal;
use crate::json::Json;
use crate::key::Address;
use crate::limits;
use crate::record::{
    AlarmKind, Answer, Attempt, Contract, Effect, Judgement, Kind, Outcome, Verdict,
};
use crate::time::{Moment, Steady, Wall};

/// What an effect is, at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    Planned,
    Pending,
    Done,
    Failed,
    InDoubt,
    Void,
    Expired,
}

impl State {
    /// All states, in reading order.
    pub const ALL: [State; 7] = [
        State::Planned,
        State::Pending,
        State::Done,
        State::Failed,
        State::InDoubt,
        State::Void,
        State::Expired,
    ];

    /// The state's name, as it is written everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            State::Planned => "planned",
            State::Pending => "pending",
            State::Done => "done",
            State::Failed => "failed",
            State::InDoubt => "in_doubt",
            State::Void => "void",
            State::Expired => "expired",
        }
    }

    /// Reads a state's name.
    pub fn parse(text: &str) -> Option<State> {
        State::ALL.into_iter().find(|state| state.as_str() == text)
    }

    fn is_settled(self) -> bool {
        match self {
            State::Done | State::Failed | State::Void => true,
            State::Planned | State::Pending | State::InDoubt | State::Expired => false,
        }
    }
}

impl std::fmt::Display for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a wish changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    Terms(TermsRefusal),
    DownstreamKeyTooLong,
    InputChanged,
    ContractChanged,
    InProgress {
        retry_after_ms: u64,
    },
    /// `retry_after_ms` is set when a look may be due by then.
    InDoubt {
        why: Why,
        retry_after_ms: Option<u64>,
    },
    TooEarly {
        retry_after_ms: u64,
    },
    AttemptSpent,
    /// The row has no room for another attempt or decision.
    AttemptsExhausted,
    /// The retry budget is used up, and nothing was applied.
    RetriesExhausted {
        sends: u32,
    },
    /// The retry budget is not used up: there is nothing to grant.
    NotExhausted,
    StaleFence,
    DeadlinePassed,
    Expired,
    VersionChanged {
        current: u64,
    },
    AlreadySettled(State),
    AlreadySent,
    NotSettled(State),
    ReasonMissing,
    /// A person's receipt does not fit the result of the effect.
    ReceiptInvalid {
        why: String,
        shape: Json,
    },
    NotFound,
    /// A person has to approve it first.
    Held {
        retry_after_ms: Option<u64>,
    },
    /// The question was answered: not like this.
    Judged(Judgement),
    /// There is no open question.
    NotHeld(State),
    /// What the person saw is not what would be sent.
    PayloadChanged,
    /// Whoever asked may not decide.
    FourEyes,
    ApprovalInvalid(&'static str),
    /// A saga is taking it back.
    Undoing,
}

/// Why a doubt cannot be settled by a machine right now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The destination offers nothing to find out with.
    NeedsPerson,
    /// The request may still land: the settle window has not passed.
    SettleWindow,
    /// The provider may have forgotten the key.
    HorizonPassed,
    /// The attempt never passed its key on, so a resend would be a second one.
    KeyNotUsed,
    /// The retry budget is used up.
    Exhausted,
}

impl Why {
    /// One phrase for messages and views.
    pub fn as_str(self) -> &'static str {
        match self {
            Why::NeedsPerson => "the destination offers no way to find out: a person must decide",
            Why::SettleWindow => "the request may still land: the settle window has not passed",
            Why::HorizonPassed => {
                "the provider may have forgotten the key: the horizon has passed (horizon_passed)"
            }
            Why::KeyNotUsed => {
                "the attempt never read its downstream key, so a resend could be a second one \
                 (key_not_used)"
            }
            Why::Exhausted => {
                "the retry budget is used up (retries_exhausted): a person must grant another one, \
                 or decide"
            }
        }
    }
}

impl Refusal {
    /// The stable code.
    pub fn code(&self) -> Code {
        match self {
            Refusal::Terms(TermsRefusal::Invalid(_)) | Refusal::DownstreamKeyTooLong => {
                Code::TermsInvalid
            }
            Refusal::Terms(TermsRefusal::RetryBeyondRetention(_)) => Code::RetryBeyondRetention,
            Refusal::InputChanged => Code::InputChanged,
            Refusal::ContractChanged => Code::ContractChanged,
            Refusal::InProgress { .. } => Code::InProgress,
            Refusal::InDoubt { .. } => Code::InDoubt,
            Refusal::TooEarly { .. } => Code::TooEarly,
            Refusal::AttemptSpent => Code::AttemptSpent,
            Refusal::AttemptsExhausted => Code::AttemptsExhausted,
            Refusal::RetriesExhausted { .. } => Code::RetriesExhausted,
            Refusal::NotExhausted => Code::NotExhausted,
            Refusal::StaleFence => Code::StaleFence,
            Refusal::DeadlinePassed => Code::DeadlinePassed,
            Refusal::Expired => Code::Expired,
            Refusal::VersionChanged { .. } => Code::VersionChanged,
            Refusal::AlreadySettled(_) => Code::AlreadySettled,
            Refusal::AlreadySent => Code::AlreadySent,
            Refusal::NotSettled(_) => Code::NotSettled,
            Refusal::ReasonMissing => Code::InputInvalid,
            Refusal::ReceiptInvalid { .. } => Code::ReceiptInvalid,
            Refusal::NotFound => Code::NotFound,
            Refusal::Held { .. } => Code::Held,
            Refusal::Judged(judgement) => match judgement.answer {
                Answer::Approved => Code::AlreadySettled,
                Answer::Denied => Code::ApprovalDenied,
                Answer::Returned => Code::ApprovalReturned,
                Answer::Expired => Code::ApprovalExpired,
            },
            Refusal::NotHeld(_) => Code::NotHeld,
            Refusal::PayloadChanged => Code::VersionChanged,
            Refusal::FourEyes => Code::FourEyes,
            Refusal::ApprovalInvalid(_) => Code::TermsInvalid,
            Refusal::Undoing => Code::InProgress,
        }
    }

    /// When it may be worth asking again.
    pub fn retry_after_ms(&self) -> Option<u64> {
        match self {
            Refusal::InProgress { retry_after_ms } | Refusal::TooEarly { retry_after_ms } => {
                Some(*retry_after_ms)
            }
            Refusal::InDoubt { retry_after_ms, .. } | Refusal::Held { retry_after_ms } => {
                *retry_after_ms
            }
            Refusal::Terms(_)
            | Refusal::DownstreamKeyTooLong
            | Refusal::InputChanged
            | Refusal::ContractChanged
            | Refusal::AttemptSpent
            | Refusal::AttemptsExhausted
            | Refusal::RetriesExhausted { .. }
            | Refusal::NotExhausted
            | Refusal::StaleFence
            | Refusal::DeadlinePassed
            | Refusal::Expired
            | Refusal::VersionChanged { .. }
            | Refusal::AlreadySettled(_)
            | Refusal::AlreadySent
            | Refusal::NotSettled(_)
            | Refusal::ReasonMissing
            | Refusal::ReceiptInvalid { .. }
            | Refusal::NotFound
            | Refusal::Judged(_)
            | Refusal::NotHeld(_)
            | Refusal::PayloadChanged
            | Refusal::FourEyes
            | Refusal::ApprovalInvalid(_) => None,
            Refusal::Undoing => Some(limits::POLL_MS),
        }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refusal::Terms(
                TermsRefusal::Invalid(text) | TermsRefusal::RetryBeyondRetention(text),
            ) => f.write_str(text),
            Refusal::DownstreamKeyTooLong => write!(
                f,
                "the declared downstream key is empty or over {} bytes",
                limits::DOWNSTREAM_KEY_BYTES_MAX
            ),
            Refusal::InputChanged => f.write_str("the key was used with another input"),
            Refusal::ContractChanged => {
                f.write_str("the effect is in doubt under another contract")
            }
            Refusal::InProgress { .. } => f.write_str("another attempt is in progress"),
            Refusal::InDoubt { why, .. } => f.write_str(why.as_str()),
            Refusal::TooEarly { .. } => {
                f.write_str("a request may still land: the settle window has not passed")
            }
            Refusal::AttemptSpent => f.write_str("the attempt id can no longer be resumed"),
            Refusal::AttemptsExhausted => {
                f.write_str("the effect has no room for another attempt or decision")
            }
            Refusal::RetriesExhausted { sends } => {
                write!(f, "the retry budget is used up: not applied after {sends} sends")
            }
            Refusal::NotExhausted => {
                f.write_str("the effect's retry budget is not used up: it is tried when it is due")
            }
            Refusal::StaleFence => f.write_str("the lease of this attempt is gone"),
            Refusal::DeadlinePassed => f.write_str("the hard deadline of the attempt has passed"),
            Refusal::Expired => f.write_str("the replay window of this key is over"),
            Refusal::VersionChanged { current } => {
                write!(f, "the effect has changed; it is at version {current} now")
            }
            Refusal::AlreadySettled(state) => write!(f, "the effect is {state} already"),
            Refusal::AlreadySent => f.write_str("an attempt was already made"),
            Refusal::NotSettled(state) => write!(f, "the effect is {state}"),
            Refusal::ReasonMissing => f.write_str("a decision needs an actor and a reason"),
            Refusal::ReceiptInvalid { why, shape } => {
                let shown = limits::SHAPE_SHOWN_BYTES_MAX;
                let text = shape.text();
                let end = text.floor_char_boundary(shown.min(text.len()));
                let cut = if end < text.len() { "…" } else { "" };
                write!(f, "the receipt does not fit: {why}; what fits: {}{cut}", &text[..end])
            }
            Refusal::NotFound => f.write_str("there is no such effect"),
            Refusal::Held { .. } => f.write_str("it waits for a person's approval"),
            Refusal::Judged(judgement) => f.write_str(&judgement.text()),
            Refusal::NotHeld(state) => {
                write!(f, "the effect is {state} and waits for nobody's approval")
            }
            Refusal::PayloadChanged => f.write_str("the payload is not the one that was looked at"),
            Refusal::FourEyes => f.write_str("whoever asked for it may not decide on it"),
            Refusal::ApprovalInvalid(why) => f.write_str(why),
            Refusal::Undoing => f.write_str("it was done and is being undone"),
        }
    }
}

impl Attempt {
    fn is_open(&self) -> bool {
        self.doubt.is_none() && self.end.is_none()
    }

    /// Open, and its lease has not lapsed.
    pub fn is_live(&self, now: &Moment) -> bool {
        self.is_open() && !now.reached(self.lease_until)
    }

    /// Nobody knows whether the world changed. A lapsed lease never means "did not happen".
    pub fn is_unknown(&self, now: &Moment) -> bool {
        self.end.is_none() && !self.is_live(now) && self.kind != Kind::Look
    }

    /// The receipt, when the attempt is known to have applied.
    pub fn receipt(&self) -> Option<&Json> {
        match self.end.as_ref().map(|end| &end.outcome) {
            Some(Outcome::Applied { receipt }) => Some(receipt),
            Some(Outcome::NotApplied { .. }) | None => None,
        }
    }

    /// The proof that it was not applied, in words.
    pub fn not_applied_reason(&self) -> Option<&str> {
        match self.end.as_ref().map(|end| &end.outcome) {
            Some(Outcome::NotApplied { reason, .. }) => Some(reason),
            Some(Outcome::Applied { .. }) | None => None,
        }
    }

    /// Live, but beyond its hard deadline: a call that cannot be aborted.
    pub fn is_overdue(&self, now: &Moment) -> bool {
        self.is_live(now) && now.reached(self.deadline)
    }

    /// When a request of this attempt can no longer take effect.
    pub(crate) fn settled_after(&self, now: &Moment) -> Steady {
        let since = self.doubt.as_ref().map_or_else(|| self.lapse_point(), |doubt| doubt.since);
        now.window_end(since, self.settle_ms)
    }

    /// Where the settle window of a lapsed attempt begins: it may send until its deadline.
    fn lapse_point(&self) -> Steady {
        if self.lease_until.boot == self.deadline.boot && self.lease_until.ms > self.deadline.ms {
            return self.lease_until;
        }
        self.deadline
    }
}

impl Effect {
    /// An effect that nobody has asked for yet.
    pub(crate) fn new(address: &Address, now: &Moment) -> Effect {
        Effect {
            address: address.clone(),
            generation: 0,
            version: 0,
            workflow: None,
            run: None,
            created: now.wall,
            fence_floor: 0,
            plan: None,
            approval: None,
            attempts: Vec::new(),
            decisions: Vec::new(),
            alarms: Vec::new(),
            retry_at: None,
            first_sent: None,
            granted_after: 0,
            spent: None,
            voided: None,
            settled: None,
            kept_until: None,
            waiters: Vec::new(),
            undoes: None,
            undo: None,
            superseded: None,
            expired: None,
        }
    }

    /// The state at a moment.
    pub fn state(&self, now: &Moment) -> State {
        if self.expired.is_some() {
            return State::Expired;
        }
        if self.decisions.iter().any(|decision| decision.verdict == Verdict::Failed) {
            return State::Failed;
        }
        if self.receipt().is_some() {
            return State::Done;
        }
        if self.attempts.iter().any(|attempt| attempt.is_live(now)) {
            return State::Pending;
        }
        if self.attempts.iter().any(|attempt| attempt.is_unknown(now)) {
            return State::InDoubt;
        }
        if self.voided.is_some() {
            return State::Void;
        }
        let is_refused = self.final_refusal().is_some() || self.denial(now).is_some();
        if is_refused { State::Failed } else { State::Planned }
    }

    /// The first receipt: it stands for ever.
    pub fn receipt(&self) -> Option<&Json> {
        self.applied().and_then(Attempt::receipt)
    }

    /// The attempt whose receipt came first.
    pub fn applied(&self) -> Option<&Attempt> {
        let applied = self.attempts.iter().filter(|attempt| attempt.receipt().is_some());
        applied.min_by_key(|attempt| attempt.end.as_ref().map(|end| end.at))
    }

    /// Why it failed, when it did.
    pub fn failure(&self) -> Option<&str> {
        let decided = self.decisions.iter().find(|decision| decision.verdict == Verdict::Failed);
        let denied = || {
            let given = self.approval.as_ref()?.judgement.as_ref()?;
            (given.answer != Answer::Approved).then_some(given.note.as_str())
        };
        decided
            .map(|decision| decision.reason.as_str())
            .or_else(|| self.final_refusal())
            .or_else(denied)
    }

    /// The last word of the sends, when it was a final proof. A person's retry is a later word.
    fn final_refusal(&self) -> Option<&str> {
        let last = self.since_grant().iter().rev().find(|attempt| attempt.kind != Kind::Look)?;
        match last.end.as_ref().map(|end| &end.outcome) {
            Some(Outcome::NotApplied { reason, last: true }) => Some(reason),
            Some(Outcome::NotApplied { last: false, .. } | Outcome::Applied { .. }) | None => None,
        }
    }

    /// A receipt contradicts a `failed`.
    pub fn is_disputed(&self) -> bool {
        self.alarms.iter().any(|alarm| alarm.kind == AlarmKind::Disputed)
    }

    /// The highest fence granted so far, over all generations.
    pub fn last_fence(&self) -> u64 {
        self.attempts.last().map_or(self.fence_floor, |attempt| attempt.fence)
    }

    /// The live attempt that holds the effect.
    pub fn holder(&self, now: &Moment) -> Option<&Attempt> {
        self.attempts.iter().rev().find(|attempt| attempt.is_live(now))
    }

    /// When the engine should look at this effect again: a lease ends, a retry or a look is due.
    pub fn due(&self, now: &Moment) -> Option<Steady> {
        let not_before = |point: Steady| match self.retry_at {
            Some(retry_at) if !now.reached(retry_at) && retry_at.ms > point.ms => retry_at,
            Some(_) | None => point,
        };
        if self.is_exhausted(None, now) {
            return None;
        }
        match self.state(now) {
            State::Pending => self.holder(now).map(|attempt| attempt.lease_until),
            State::InDoubt => self.doubt_due(now).map(not_before),
            // Opened by a person, and nobody has asked for it yet.
            State::Planned if self.attempts.is_empty() && self.plan.is_none() => None,
            State::Planned if self.is_held(now) => {
                let expires = self.approval.as_ref().and_then(|approval| approval.expires);
                expires.map(|at| at.on_steady(now))
            }
            State::Planned => Some(not_before(now.steady)),
            State::Done | State::Failed | State::Void | State::Expired => None,
        }
    }

    /// When a machine may do something about the doubt; `None` when only a person can.
    fn doubt_due(&self, now: &Moment) -> Option<Steady> {
        let contract = self.plan.as_ref().map(|plan| plan.terms.contract);
        let can_send = self.plan.as_ref().is_none_or(|plan| !self.lacks_approval(plan));
        let ahead = self.attempts.iter().filter(|attempt| attempt.is_unknown(now));
        let mut due = now.steady;
        for attempt in ahead {
            let can_resend = can_send && begin::obstacle(self, attempt, now).is_none();
            let can_look = matches!(contract, Some(Contract::Probe { .. }));
            if can_look {
                let after = attempt.settled_after(now);
                due = if after.ms > due.ms { after } else { due };
            } else if !can_resend {
                return None;
            }
        }
        Some(due)
    }

    /// When the sweeper may act on this row.
    pub fn sweep_at(&self) -> Option<Wall> {
        if let Some(expired) = self.expired {
            // An old generation goes together with the newest one of its key.
            return self.superseded.is_none().then(|| expired.plus(limits::TOMBSTONE_MS));
        }
        let window_ms = self.plan.as_ref().map_or(limits::WINDOW_MS, |plan| plan.terms.window_ms);
        let end = self.settled.map(|settled| settled.plus(window_ms));
        end.map(|end| self.kept_until.map_or(end, |kept| kept.max(end)))
    }

    /// The next version of this effect, for a rule to change and return.
    fn next(&self) -> Effect {
        Effect { version: self.version + 1, ..self.clone() }
    }

    /// Notes when the effect became settled, or that it is not any more. Every rule ends here.
    fn sealed(mut self, now: &Moment) -> Effect {
        let settled = self.state(now).is_settled();
        self.settled = if settled { Some(self.settled.unwrap_or(now.wall)) } else { None };
        self
    }
}

/// Reasons are diagnostics: a longer one is cut, at a character.
fn short(reason: &str) -> String {
    let mut end = reason.len().min(limits::REASON_BYTES_MAX);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    reason[..end].to_owned()
}
