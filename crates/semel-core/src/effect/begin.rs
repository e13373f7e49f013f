//! `begin`: may somebody send? A permit buys at most one send.

use super::budget::has_room;
use super::hold::{failed, held_back, hold, question};
use super::{Refusal, State, Why, approve, short};
use crate::contract::Declared;
use crate::derive;
use crate::fingerprint::{Fingerprint, Rule};
use crate::json::Json;
use crate::key::Address;
use crate::limits;
use crate::record::{
    Attempt, By, Contract, Doubt, Effect, End, Kind, Named, Outcome, Plan, Terms, Undo,
};
use crate::shape;
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
    /// A person decides before the first send.
    pub approval: Option<approve::Ask>,
    /// The effect that this one takes back.
    pub undoes: Option<Named>,
    /// How the author says that the key is made. Only the first `begin` of a generation is asked.
    pub derived: Option<String>,
    /// The shape of the result, as JSON Schema, where the caller knows it. Only the first `begin`
    /// of a generation is asked.
    pub shape: Option<Json>,
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
    pub rows: Rows,
}

/// What a quarantine knows of the user's own rows in the ledger's database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// They went back together with the ledger.
    WentBack,
    /// Only the ledger's tables are known to have been exchanged or put back.
    MayHaveStayed,
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
    /// Write the effect: a person was asked, or nobody answered in time. Then decide upon that.
    Hold(Box<Effect>),
    Replay(Json),
    /// It was done, and taken back.
    Undone(Json, Json),
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
    let is_own = |attempt: &&Attempt| attempt.id == ask.attempt_id && attempt.kind != Kind::Assumed;
    if let Some(own) = effect.attempts.iter().find(is_own)
        && !matches!(state, State::Done | State::Failed)
    {
        return resume(effect, own, now);
    }
    match state {
        State::Done => done(effect),
        State::Failed => failed(effect, now),
        State::Pending => Err(Refusal::InProgress {
            retry_after_ms: effect.holder(now).map_or(0, |holder| now.until(holder.lease_until)),
        }),
        State::Planned | State::Void => {
            wait_for_retry(effect, now)?;
            start(effect, ask, ground)
        }
        // The world may already have changed. The contract decides; never repeat in silence.
        State::InDoubt => match recover(effect, ask, ground)? {
            Some(decision) => Ok(decision),
            None => settle_doubt(effect, ask, ground),
        },
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
        // Only rows of the user's are written here: the question is for `begin` to put.
        Decision::Hold(effect) => return Err(held_back(&effect, &ground.now)),
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
    /// The effect while the user's function runs: its attempt is open.
    pub fn armed(&self) -> &Effect {
        &self.effect
    }

    /// The effect as it is committed with the user's rows: absent or planned to done in one step.
    pub fn done(mut self, receipt: Json, now: &Moment) -> Effect {
        let attempt = self.effect.attempts.last_mut().expect("armed");
        let outcome = Outcome::Applied { receipt };
        attempt.end = Some(End { at: now.wall, by: By::Worker, outcome });
        self.effect.sealed(now)
    }
}

fn done(effect: &Effect) -> Result<Decision, Refusal> {
    let receipt = effect.receipt().expect("done has a receipt").clone();
    match &effect.undo {
        None => Ok(Decision::Replay(receipt)),
        Some(Undo { receipt: Some(undone), .. }) => Ok(Decision::Undone(receipt, undone.clone())),
        // Neither a replay nor undone: whoever asks waits for what becomes of it.
        Some(Undo { receipt: None, .. }) => Err(Refusal::Undoing),
    }
}

pub(super) fn fresh(ask: &Begin, ground: &Ground) -> Effect {
    let mut effect = Effect::new(&ask.address, &ground.now);
    effect.workflow.clone_from(&ask.workflow);
    effect.run.clone_from(&ask.run);
    effect.undoes.clone_from(&ask.undoes);
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
    let permit = permit(effect, own, true);
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
    // What the store forgot may have been approved and sent: that comes before any question.
    if let Some(decision) = recover(effect, ask, ground)? {
        return Ok(decision);
    }
    if let Some(decision) = hold(effect, ask, ground)? {
        return Ok(decision);
    }
    let plan = plan(effect, ask)?;
    // A look that could not tell has not looked.
    let sent_or_absent = |attempt: &Attempt| match attempt.kind {
        Kind::Send => true,
        Kind::Look => attempt.end.is_some(),
        Kind::Assumed => false,
    };
    let is_first = !effect.attempts.iter().any(sent_or_absent);
    match plan.terms.contract {
        Contract::Probe { first: true } if is_first => {
            arm(effect, plan, Kind::Look, None, ask, ground)
        }
        Contract::Probe { .. }
        | Contract::NativeKey { .. }
        | Contract::AtMostOnce
        | Contract::Transaction
        | Contract::Conditional
        | Contract::Harmless => arm(effect, plan, Kind::Send, Some(ground.now.wall), ask, ground),
    }
}

/// In a quarantine the first `begin` of a key assumes an attempt that the store has forgotten, and
/// the contract decides about that doubt as about any other. `None`: there is nothing to assume.
fn recover(effect: &Effect, ask: &Begin, ground: &Ground) -> Result<Option<Decision>, Refusal> {
    let Some(quarantine) = ground.quarantine else { return Ok(None) };
    // Told by the epoch, which grows when a quarantine opens; the wall clock may have been wrong.
    if effect.attempts.iter().any(|attempt| attempt.fence > ground.epoch << EPOCH_SHIFT) {
        return Ok(None);
    }
    let plan = plan(effect, ask)?;
    // The rows of a transaction went back together with its receipt, if the whole database did.
    if plan.terms.contract == Contract::Transaction && quarantine.rows == Rows::WentBack {
        return Ok(None);
    }
    let assumed = assume(effect, plan, &quarantine, ask, ground)?;
    match settle_doubt(&assumed, ask, ground) {
        Ok(Decision::Arm(mut next, permit)) => {
            next.version = assumed.version; // both attempts are one write
            Ok(Some(Decision::Arm(next, permit)))
        }
        Ok(other) => Ok(Some(other)),
        Err(Refusal::InDoubt { .. }) => Ok(Some(Decision::Doubt(Box::new(assumed)))),
        Err(refusal) => Err(refusal),
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
    // A question about what may have happened already can only be put once that is known.
    let is_unasked = effect.approval.is_none() && ask.approval.is_some();
    let is_unapproved = is_unasked || effect.lacks_approval(&plan);
    let obstacle = unknown
        .iter()
        .find_map(|attempt| obstacle(effect, attempt, now))
        .or_else(|| horizon_passed(effect, &asked, plan.terms.settle_ms, now))
        .or_else(|| is_unapproved.then_some(Why::NeedsPerson));
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
pub(super) fn obstacle(effect: &Effect, attempt: &Attempt, now: &Moment) -> Option<Why> {
    match attempt.contract {
        Contract::NativeKey { .. } => {
            if attempt.doubt.as_ref().is_some_and(|doubt| doubt.key_not_used) {
                return Some(Why::KeyNotUsed);
            }
            // The steady clock knows the least age there can be, should the wall clock be wrong.
            let age_ms = now.since(attempt.began_at);
            let is_old =
                attempt.contract.horizon_ms(attempt.settle_ms).is_some_and(|ms| age_ms >= ms);
            let by_wall = horizon_passed(effect, &attempt.contract, attempt.settle_ms, now);
            by_wall.or(is_old.then_some(Why::HorizonPassed))
        }
        Contract::Conditional | Contract::Harmless => None,
        // A transaction closes in the commit that opens it, so none is ever in doubt.
        Contract::Probe { .. } | Contract::AtMostOnce | Contract::Transaction => {
            Some(Why::NeedsPerson)
        }
    }
}

/// A clock that is behind cannot say that the horizon is still ahead.
fn horizon_passed(
    effect: &Effect,
    contract: &Contract,
    settle_ms: u64,
    now: &Moment,
) -> Option<Why> {
    let oldest = || effect.attempts.first().map(|attempt| attempt.began);
    let horizon = contract.horizon(effect.first_sent.or_else(oldest)?, settle_ms)?;
    (now.wall >= horizon || now.wall_is_behind).then_some(Why::HorizonPassed)
}

/// The last send was answered, and the answer was that it changed nothing.
fn last_was_proof(effect: &Effect) -> bool {
    let last = effect.attempts.last().filter(|attempt| attempt.kind == Kind::Send);
    let end = last.and_then(|attempt| attempt.end.as_ref());
    matches!(end.map(|end| &end.outcome), Some(Outcome::NotApplied { .. }))
}

/// The plan under which a new attempt is made: the stored one, with what this caller declares.
pub(super) fn plan(effect: &Effect, ask: &Begin) -> Result<Plan, Refusal> {
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
            // For people only: one that is a document is no reason to refuse the effect.
            derived: ask.derived.clone().filter(|text| text.len() <= limits::REASON_BYTES_MAX),
            shape: shape::kept(ask.shape.as_ref()),
        });
    };
    let Terms { contract, lease_ms, deadline_ms, settle_ms, window_ms, .. } = plan.terms;
    let terms = Declared {
        contract: ask.declared.contract.or(Some(contract)),
        lease_ms: ask.declared.lease_ms.or(Some(lease_ms)),
        deadline_ms: ask.declared.deadline_ms.or(Some(deadline_ms)),
        settle_ms: ask.declared.settle_ms.or(Some(settle_ms)),
        window_ms: Some(window_ms),
        // The first budget stands: another caller neither widens nor narrows it.
        attempts_max: match (plan.terms.retry, ask.declared.retry) {
            (Some(_), _) => Some(plan.terms.attempts_max),
            (None, Some(retry)) => Some(retry.attempts()),
            (None, None) => ask.declared.attempts_max.or(Some(plan.terms.attempts_max)),
        },
        retry: plan.terms.retry.or(ask.declared.retry),
        rate: ask.declared.rate.or(plan.terms.rate),
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
    let now = &ground.now;
    effect.check_budget(kind, &plan.terms, now)?;
    let mut next = effect.next();
    next.close_lapsed(now);
    if kind == Kind::Send {
        next.first_sent = first_sent.or(next.first_sent).or(Some(now.wall));
    }
    next.retry_at = None;
    next.voided = None;
    let attempt = open(&next, &plan, kind, ask, ground);
    next.plan = Some(plan);
    let permit = permit(&next, &attempt, false);
    next.attempts.push(attempt);
    Ok(Decision::Arm(Box::new(next.sealed(now)), permit))
}

/// Adds an attempt that nobody here made but that may have happened before the store went back.
fn assume(
    effect: &Effect,
    plan: Plan,
    quarantine: &Quarantine,
    ask: &Begin,
    ground: &Ground,
) -> Result<Effect, Refusal> {
    has_room(effect)?;
    let now = &ground.now;
    let mut next = effect.next();
    next.close_lapsed(now);
    let mut attempt = open(&next, &plan, Kind::Assumed, ask, ground);
    let reason = short("the store was restored: an attempt it no longer knows may have been made");
    // Its worker may be alive, and gave no word: it may send until a deadline from now.
    let since = attempt.deadline;
    attempt.doubt = Some(Doubt { at: now.wall, since, reason, key_not_used: false });
    let was_in_doubt = effect.attempts.iter().any(|attempt| attempt.is_unknown(now));
    let recovered = quarantine.recovered.min(now.wall);
    next.first_sent = effect.first_sent.filter(|_| was_in_doubt).or(Some(recovered));
    // Once it is known that it was not sent, a person is asked, whoever comes then.
    if let (None, Some(asked)) = (&effect.approval, question(effect, ask)?) {
        next.approval = Some(approve::asked(effect, &plan, &asked, now));
    }
    next.voided = None;
    next.plan = Some(plan);
    next.attempts.push(attempt);
    Ok(next.sealed(now))
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
        // Nobody's run is not the run that planned it either.
        run: (ask.run != effect.run).then(|| ask.run.clone().unwrap_or_default()),
        began: now.wall,
        began_at: now.steady,
        lease_until: now.steady.plus(plan.terms.lease_ms).earlier(deadline),
        deadline,
        renewed: false,
        faulty: false,
        traceparent: None,
        doubt: None,
        end: None,
    }
}

/// Leaves room for four thousand million attempts of one key in an epoch, and keeps fences below
/// 2^53, so that every JSON reader sees them exactly.
pub const EPOCH_SHIFT: u32 = 32;

fn permit(effect: &Effect, attempt: &Attempt, resumed: bool) -> Permit {
    let plan = effect.plan.as_ref().expect("an attempt has a plan");
    let margin = i64::try_from(plan.terms.margin_ms()).expect("a margin is short");
    let lease_until = attempt.lease_until;
    let mut valid_until = Steady { ms: lease_until.ms - margin, ..lease_until };
    if attempt.kind == Kind::Send {
        for horizon in horizons(effect, attempt) {
            valid_until = valid_until.earlier(horizon);
        }
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

/// The horizons of an attempt and of all before it that may have landed, by either clock. Counted
/// from the attempt's own beginning, so that a clock set back cannot stretch a resume.
fn horizons<'a>(effect: &'a Effect, attempt: &'a Attempt) -> impl Iterator<Item = Steady> + 'a {
    let open = effect.attempts.iter().filter(|sent| sent.end.is_none() && sent.kind != Kind::Look);
    open.chain([attempt]).flat_map(move |sent| {
        let first_sent = effect.first_sent.unwrap_or(sent.began);
        let by_wall = sent.contract.horizon(first_sent, sent.settle_ms).map(|horizon| {
            let left_ms = horizon.0.saturating_sub(attempt.began.0);
            attempt.began_at.plus(u64::try_from(left_ms).unwrap_or(0))
        });
        let is_comparable = sent.began_at.boot == attempt.began_at.boot;
        let by_steady = sent.contract.horizon_ms(sent.settle_ms).filter(|_| is_comparable);
        by_wall.into_iter().chain(by_steady.map(|ms| sent.began_at.plus(ms)))
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::Desk;

    #[test]
    fn inv_i27_a_transaction_is_done_again_only_if_its_rows_went_back_with_the_ledger() {
        let mut desk = Desk::new("transaction");
        desk.run("quarantine 1m");
        assert_eq!(desk.run("transact 1"), "done");
        let mut desk = Desk::new("transaction");
        desk.run("quarantine 1m");
        desk.run("quarantine of tables");
        assert_eq!(desk.run("transact 1"), "written in_doubt");
        assert!(desk.run("transact 1").starts_with("! in_doubt"), "a person finds out");
        assert_eq!(desk.run("done 1"), "done");
        assert_eq!(desk.run("transact 2"), r#"replay "person""#);
    }
}
