//! `begin`: may somebody send? A permit buys at most one send.

use super::{Refusal, State, Why, short};
use crate::contract::Declared;
use crate::derive;
use crate::fingerprint::{Fingerprint, Rule};
use crate::json::Json;
use crate::key::Address;
use crate::limits;
use crate::record::{Attempt, By, Contract, Doubt, Effect, End, Kind, Outcome, Plan, Terms};
use crate::time::{Moment, Steady, Wall};

/// The wish to perform an effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begin {
    pub address: Address,
    pub input: Json,
    /// Which inputs count. Only the first `begin` of a generation is asked.
    pub rule: Rule,
    pub declared: Declared,
    pub downstream_key: Option<String>,
    /// Random per call.
    pub attempt_id: String,
    pub worker: String,
    pub session: Option<String>,
    /// The caller brings code that can look the effect up, whatever the contract says.
    pub can_look: bool,
    pub workflow: Option<String>,
    pub run: Option<String>,
}

/// What a rule must know beyond the effect itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ground {
    pub now: Moment,
    /// The store's epoch: the high part of every fence.
    pub epoch: u64,
    pub quarantine: Option<Quarantine>,
}

/// The store went back in time; what it forgot may have been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quarantine {
    pub opened: Wall,
    /// The newest time the restored store remembers.
    pub recovered: Wall,
}

/// What `begin` means for one effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Write the effect; once that is durable the permit is good for one send or one look.
    Arm(Box<Effect>, Permit),
    /// The caller's own commit, whose answer was lost: go on under it.
    Resume(Permit),
    /// Write the effect; it is in doubt from the start.
    Doubt(Box<Effect>),
    Replay(Json),
    Failed(String),
}

/// The right to send once, or to look once, until a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permit {
    pub kind: Kind,
    pub fence: u64,
    pub attempt: u32,
    pub downstream_key: String,
    /// What to send: the first input of this generation, whatever the caller brought.
    pub input: Json,
    pub contract: Contract,
    /// No send may start after this.
    pub valid_until: Steady,
    pub lease_until: Steady,
    pub lease_ms: u64,
    pub deadline: Steady,
    pub resumed: bool,
}

/// Decides what `begin` means. `stored` is the newest generation, when there is one.
pub fn begin(stored: Option<&Effect>, ask: &Begin, ground: &Ground) -> Result<Decision, Refusal> {
    let Some(effect) = stored else {
        return start(&fresh(ask, ground), ask, ground);
    };
    let now = &ground.now;
    let state = effect.state(now);
    if state == State::Expired {
        return Err(Refusal::Expired);
    }
    if let Some(plan) = &effect.plan
        && !plan.fingerprint.matches(ask.input.text().as_bytes())
    {
        return Err(Refusal::InputChanged);
    }
    if let Some(own) = effect.attempts.iter().find(|attempt| attempt.id == ask.attempt_id)
        && !matches!(state, State::Done | State::Failed)
    {
        return resume(effect, own, now);
    }
    match state {
        State::Done => Ok(Decision::Replay(effect.receipt().expect("done has a receipt").clone())),
        State::Failed => Ok(Decision::Failed(effect.failure().unwrap_or_default().to_owned())),
        State::Pending => Err(Refusal::InProgress {
            retry_after_ms: effect.holder(now).map_or(0, |holder| now.until(holder.lease_until)),
        }),
        State::Planned | State::Void => {
            wait_for_retry(effect, now)?;
            start(effect, ask, ground)
        }
        // The world may already have changed. The contract decides; never repeat in silence.
        State::InDoubt => settle_doubt(effect, ask, ground),
        State::Expired => Err(Refusal::Expired),
    }
}

/// Decides what a `transaction` means: `Ok(Ok(effect))` is to be completed and committed together
/// with the user's rows; `Ok(Err(decision))` answers without running anything.
pub fn transact(
    stored: Option<&Effect>,
    ask: &Begin,
    ground: &Ground,
) -> Result<Result<Transaction, Decision>, Refusal> {
    Ok(match begin(stored, ask, ground)? {
        Decision::Arm(effect, permit) => Ok(Transaction { effect: *effect, permit }),
        other => Err(other),
    })
}

/// An armed effect whose only attempt will be closed in the commit that opens it.
#[derive(Clone, Debug)]
pub struct Transaction {
    effect: Effect,
    /// What the user's function gets to see.
    pub permit: Permit,
}

impl Transaction {
    /// The effect as it is committed with the user's rows: absent or planned to done in one step.
    pub fn done(mut self, receipt: Json, now: &Moment) -> Effect {
        let attempt = self.effect.attempts.last_mut().expect("armed");
        let outcome = Outcome::Applied { receipt };
        attempt.end = Some(End { at: now.wall, by: By::Worker, outcome });
        self.effect.sealed(now)
    }
}

fn fresh(ask: &Begin, ground: &Ground) -> Effect {
    let mut effect = Effect::new(&ask.address, &ground.now);
    effect.workflow.clone_from(&ask.workflow);
    effect.run.clone_from(&ask.run);
    effect
}

/// The caller presents an attempt id that is in the row. It is its own commit, whose answer was
/// lost, only while nothing can have been sent under it yet.
fn resume(effect: &Effect, own: &Attempt, now: &Moment) -> Result<Decision, Refusal> {
    let is_last = own.fence == effect.last_fence();
    let is_young = now.since(own.began_at) <= limits::RESUME_MS;
    if !is_last || !is_young || own.renewed || !own.is_live(now) {
        return Err(Refusal::AttemptSpent);
    }
    let permit = permit(effect, own, now, true);
    if now.reached(permit.valid_until) {
        return Err(Refusal::AttemptSpent);
    }
    Ok(Decision::Resume(permit))
}

fn wait_for_retry(effect: &Effect, now: &Moment) -> Result<(), Refusal> {
    match effect.retry_at {
        Some(retry_at) if !now.reached(retry_at) => {
            Err(Refusal::InProgress { retry_after_ms: now.until(retry_at) })
        }
        Some(_) | None => Ok(()),
    }
}

/// Nothing is unknown: send, unless the contract or a quarantine asks for a look first.
fn start(effect: &Effect, ask: &Begin, ground: &Ground) -> Result<Decision, Refusal> {
    let plan = plan(effect, ask)?;
    let contract = plan.terms.contract;
    let now = &ground.now;
    let untouched = |quarantine: &Quarantine| {
        !effect.attempts.iter().any(|attempt| attempt.began >= quarantine.opened)
    };
    let quarantine = ground.quarantine.filter(untouched);
    let horizon = |first| contract.horizon(first, plan.terms.settle_ms);
    let looked = effect.attempts.last().is_some_and(|attempt| attempt.kind == Kind::Look);
    match (contract, quarantine) {
        (Contract::Probe { .. }, Some(_)) => arm(effect, plan, Kind::Look, None, ask, ground),
        (Contract::Probe { first: true }, None) if !looked => {
            arm(effect, plan, Kind::Look, None, ask, ground)
        }
        (Contract::NativeKey { .. }, Some(quarantine)) => {
            let first = quarantine.recovered.min(now.wall);
            let passed = horizon(first).is_some_and(|horizon| now.wall >= horizon);
            if passed || now.wall_is_behind {
                return Ok(Decision::Doubt(Box::new(assume(effect, plan, ask, ground))));
            }
            arm(effect, plan, Kind::Send, Some(first), ask, ground)
        }
        (Contract::AtMostOnce, Some(_)) => {
            Ok(Decision::Doubt(Box::new(assume(effect, plan, ask, ground))))
        }
        (
            Contract::Transaction | Contract::Conditional | Contract::Harmless,
            Some(_),
        )
        | (_, None) => arm(effect, plan, Kind::Send, Some(now.wall), ask, ground),
    }
}

/// A cut attempt. Each unknown one is judged by the contract it was sent under.
fn settle_doubt(effect: &Effect, ask: &Begin, ground: &Ground) -> Result<Decision, Refusal> {
    let now = &ground.now;
    let plan = plan(effect, ask)?;
    let asked = plan.terms.contract;
    let can_look = ask.can_look || matches!(asked, Contract::Probe { .. });
    let unknown: Vec<_> =
        effect.attempts.iter().filter(|attempt| attempt.is_unknown(now)).collect();
    let changed = unknown.iter().any(|attempt| !attempt.contract.same_kind(&asked));
    if changed && !matches!(asked, Contract::Probe { .. }) {
        return Err(Refusal::ContractChanged);
    }
    let obstacle = unknown.iter().find_map(|attempt| obstacle(effect, attempt, now));
    // "Exists" on a resend says that somebody's send landed; reading it back says whose.
    let read_back = can_look && asked == Contract::Conditional && last_was_proof(effect);
    let why = match obstacle {
        None if !read_back && !matches!(asked, Contract::Probe { .. }) => {
            wait_for_retry(effect, now)?;
            return arm(effect, plan, Kind::Send, None, ask, ground);
        }
        None => Why::NeedsPerson,
        Some(why) => why,
    };
    if !can_look {
        return Err(Refusal::InDoubt { why, retry_after_ms: None });
    }
    let wait_ms = unknown.iter().map(|attempt| now.until(attempt.settled_after(now))).max();
    match wait_ms {
        Some(wait_ms) if wait_ms > 0 && !read_back => {
            Err(Refusal::InDoubt { why: Why::SettleWindow, retry_after_ms: Some(wait_ms) })
        }
        Some(_) | None => {
            wait_for_retry(effect, now)?;
            arm(effect, plan, Kind::Look, None, ask, ground)
        }
    }
}

/// What stands against sending again after this unknown attempt.
fn obstacle(effect: &Effect, attempt: &Attempt, now: &Moment) -> Option<Why> {
    match attempt.contract {
        Contract::NativeKey { .. } => {
            if attempt.doubt.as_ref().is_some_and(|doubt| doubt.key_not_used) {
                return Some(Why::KeyNotUsed);
            }
            let first_sent = effect.first_sent.unwrap_or(attempt.began);
            let horizon = attempt.contract.horizon(first_sent, attempt.settle_ms);
            let passed = horizon.is_some_and(|horizon| now.wall >= horizon);
            (passed || now.wall_is_behind).then_some(Why::HorizonPassed)
        }
        Contract::Conditional | Contract::Harmless => None,
        Contract::Probe { .. } | Contract::AtMostOnce => Some(Why::NeedsPerson),
        Contract::Transaction => unreachable!("a transaction opens and closes in one commit"),
    }
}

fn last_was_proof(effect: &Effect) -> bool {
    let last = effect.attempts.last().and_then(|attempt| attempt.end.as_ref());
    matches!(last.map(|end| &end.outcome), Some(Outcome::NotApplied { .. }))
}

/// The plan under which a new attempt is made: the stored one, with what this caller declares.
fn plan(effect: &Effect, ask: &Begin) -> Result<Plan, Refusal> {
    let Some(plan) = &effect.plan else {
        let terms = ask.declared.terms().map_err(Refusal::Terms)?;
        let fits = |key: &String| (1..=limits::DOWNSTREAM_KEY_BYTES_MAX).contains(&key.len());
        let declared = ask.downstream_key.as_deref();
        let key = Some(derive::downstream_key(&effect.address, effect.generation, declared));
        let fingerprint = Fingerprint::of(ask.input.text().as_bytes(), &ask.rule);
        return Ok(Plan {
            input: ask.input.clone(),
            fingerprint,
            downstream_key: key.filter(fits).ok_or(Refusal::DownstreamKeyTooLong)?,
            terms,
        });
    };
    let Terms { contract, lease_ms, deadline_ms, settle_ms, window_ms, attempts_max } = plan.terms;
    let terms = Declared {
        contract: ask.declared.contract.or(Some(contract)),
        lease_ms: ask.declared.lease_ms.or(Some(lease_ms)),
        deadline_ms: ask.declared.deadline_ms.or(Some(deadline_ms)),
        settle_ms: ask.declared.settle_ms.or(Some(settle_ms)),
        window_ms: Some(window_ms),
        attempts_max: ask.declared.attempts_max.or(Some(attempts_max)),
    };
    Ok(Plan { terms: terms.terms().map_err(Refusal::Terms)?, ..plan.clone() })
}

/// Opens the next attempt. `first_sent` is where the retention counts from when all earlier sends
/// are proven not applied.
fn arm(
    effect: &Effect,
    plan: Plan,
    kind: Kind,
    first_sent: Option<Wall>,
    ask: &Begin,
    ground: &Ground,
) -> Result<Decision, Refusal> {
    let made = u32::try_from(effect.attempts.len()).expect("bounded by the limit");
    if made >= limits::ATTEMPTS_MAX || made - effect.granted_after >= plan.terms.attempts_max {
        return Err(Refusal::AttemptsExhausted);
    }
    let now = &ground.now;
    let mut next = effect.next();
    next.close_lapsed(now);
    if kind == Kind::Send {
        next.first_sent = first_sent.or(next.first_sent).or(Some(now.wall));
    }
    next.retry_at = None;
    next.voided = None;
    let attempt = open(&next, &plan, kind, ask, ground);
    next.plan = Some(plan);
    let permit = permit(&next, &attempt, now, false);
    next.attempts.push(attempt);
    Ok(Decision::Arm(Box::new(next.sealed(now)), permit))
}

/// Adds an attempt that nobody here made but that may have happened before the store went back.
fn assume(effect: &Effect, plan: Plan, ask: &Begin, ground: &Ground) -> Effect {
    let now = &ground.now;
    let mut next = effect.next();
    let mut attempt = open(&next, &plan, Kind::Assumed, ask, ground);
    let reason = short("the store was restored: an attempt it no longer knows may have been made");
    attempt.doubt =
        Some(Doubt { at: now.wall, since: now.steady, reason, key_not_used: false });
    next.plan = Some(plan);
    next.attempts.push(attempt);
    next.sealed(now)
}

fn open(effect: &Effect, plan: &Plan, kind: Kind, ask: &Begin, ground: &Ground) -> Attempt {
    let now = &ground.now;
    let deadline = now.steady.plus(plan.terms.deadline_ms);
    let epoch_floor = ground.epoch << EPOCH_SHIFT;
    Attempt {
        number: effect.attempts.last().map_or(0, |attempt| attempt.number) + 1,
        id: ask.attempt_id.clone(),
        fence: effect.last_fence().max(epoch_floor) + 1,
        kind,
        contract: plan.terms.contract,
        settle_ms: plan.terms.settle_ms,
        worker: ask.worker.clone(),
        session: ask.session.clone(),
        began: now.wall,
        began_at: now.steady,
        lease_until: now.steady.plus(plan.terms.lease_ms).earlier(deadline),
        deadline,
        renewed: false,
        doubt: None,
        end: None,
    }
}

/// Leaves room for four thousand million attempts of one key in an epoch, and keeps fences below
/// 2^53, so that every JSON reader sees them exactly.
const EPOCH_SHIFT: u32 = 32;

fn permit(effect: &Effect, attempt: &Attempt, now: &Moment, resumed: bool) -> Permit {
    let plan = effect.plan.as_ref().expect("an attempt has a plan");
    let margin = i64::try_from(plan.terms.margin_ms()).expect("a margin is short");
    let lease_until = attempt.lease_until;
    let mut valid_until = Steady { ms: lease_until.ms - margin, ..lease_until };
    if let Some(first_sent) = effect.first_sent
        && attempt.kind == Kind::Send
        && let Some(horizon) = attempt.contract.horizon(first_sent, attempt.settle_ms)
    {
        let left_ms = u64::try_from(horizon.0 - now.wall.0).unwrap_or(0);
        valid_until = valid_until.earlier(now.steady.plus(left_ms));
    }
    Permit {
        kind: attempt.kind,
        fence: attempt.fence,
        attempt: attempt.number,
        downstream_key: plan.downstream_key.clone(),
        input: plan.input.clone(),
        contract: attempt.contract,
        valid_until,
        lease_until,
        lease_ms: plan.terms.lease_ms,
        deadline: attempt.deadline,
        resumed,
    }
}
