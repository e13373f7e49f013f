//! The operations on one effect: begin, settle, renew, and what a person may decide.

use std::sync::Arc;

use semel_core::audit::Verb;
use semel_core::code::Code;
use semel_core::effect::{
    self, Abort, Begin, Decision, Ground, Imported, Permit, Person, Refusal, Resolution, Settle,
    State,
};
use semel_core::json::Json;
use semel_core::key::Address;
use semel_core::limits;
use semel_core::record::{Effect, Kind};
use semel_core::time::Moment;
use semel_store::{Batch, DuePage, Page, Query, Write};
use tracing::Instrument;

use crate::call::Guard;
use crate::clearance::{Executor, Slot};
use crate::commit::{Fate, Stopped};
use crate::flights::Seat;
use crate::rates::Counted;
use crate::recall::{Recall, Returns};
use crate::{Engine, Error, audit, measure, trace};

/// What `begin` answers.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Go: one send under this permit.
    Attempt(Box<Armed>),
    /// Look first, then begin again.
    Probe(Box<Armed>),
    /// It was done; this is the first receipt.
    Replay(Json),
    /// It was done and taken back: both receipts.
    Undone(Json, Json),
    /// It was refused for good.
    Failed(String),
}

/// A durable attempt, with the effect as it stands since.
#[derive(Clone, Debug)]
pub struct Armed {
    pub permit: Permit,
    pub(crate) effect: Arc<Effect>,
}

impl Armed {
    /// The name of the effect's generation, to ask for it by.
    pub fn id(&self) -> String {
        semel_core::derive::effect_ref(&self.effect.address, self.effect.generation)
    }
}

/// What settling an attempt led to.
#[derive(Clone, Debug)]
pub struct Filed {
    pub effect: Effect,
    pub state: State,
    /// The lease was gone: the receipt closed its own attempt and moved nothing else.
    pub kept_as_evidence: bool,
}

/// What a caller knows of a row before it decides.
enum Known {
    /// Nothing: decide as if it were absent, and let the guard bring the truth.
    Guess,
    /// Somebody in this process is at it: ask the store.
    Ask,
    Row(Option<Arc<Effect>>),
}

/// What came of one try to begin.
enum Tried {
    Answer(Answer),
    Wait {
        refusal: Refusal,
        known: Arc<Effect>,
    },
    /// It would be armed, but nothing is ready to run it.
    Unready(Option<Arc<Effect>>),
}

impl Engine {
    /// Asks for a permit. A caller that meets a pending effect waits up to `hold_ms` for its
    /// receipt; when the winner is proven not applied, one of those waiting takes over.
    pub async fn begin(&self, ask: Begin, hold_ms: u64) -> Result<Answer, Error> {
        let span = trace::attempt(&ask.address);
        let begun = self.begin_under(ask, hold_ms, None, &Executor::Task);
        begun.instrument(span).await.map(|(answer, _)| answer)
    }

    /// Like [`Engine::begin`], for code that runs here: armed only when something is ready to run
    /// it, which is reserved, and, on behalf of a run, only while that is held.
    pub(crate) async fn begin_under(
        &self,
        mut ask: Begin,
        hold_ms: u64,
        guard: Option<Guard>,
        executor: &Executor,
    ) -> Result<(Answer, Slot), Error> {
        let returns = if ask.attempt_id.is_empty() { Returns::Never } else { Returns::ById };
        self.complete(&mut ask);
        let mut recall = Recall::new(self, returns);
        let mut seat = self.inner.flights.join(&ask.address);
        let store = self.store();
        let hold_until = store.ground().now.steady.plus(hold_ms);
        let mut known = if seat.is_first { Known::Guess } else { Known::Ask };
        let mut slot = None;
        loop {
            let tried = {
                let is_ready = || match &slot {
                    Some(_) => Ok(true),
                    None => executor.ready_now().transpose().map(|now| {
                        slot = now;
                        slot.is_some()
                    }),
                };
                self.try_begin(&ask, &mut seat, known, &mut recall, guard, is_ready).await?
            };
            let (refusal, row) = match tried {
                Tried::Answer(answer) => return Ok((answer, slot.unwrap_or_else(|| Box::new(())))),
                Tried::Wait { refusal, known } => (refusal, known),
                Tried::Unready(row) => {
                    slot = Some(executor.ready().await?);
                    known = Known::Row(row);
                    continue;
                }
            };
            // Others may use it while this caller waits.
            slot = None;
            let now = store.ground().now;
            if now.reached(hold_until) {
                return Err(refusal.into());
            }
            let patience = now.until(hold_until).min(refusal.retry_after_ms().unwrap_or(u64::MAX));
            known = Known::Row(self.wait_for_change(&mut seat, row, patience.max(1)).await?);
        }
    }

    pub(crate) fn complete(&self, ask: &mut Begin) {
        self.redact_begin(ask);
        if ask.attempt_id.is_empty() {
            ask.attempt_id = self.inner.chance.attempt_id();
        }
        if ask.worker.is_empty() {
            ask.worker.clone_from(&self.inner.worker);
            ask.session = self.store().session().map(str::to_owned);
        }
    }

    /// One turn: what became known, a decision, its commit.
    async fn try_begin(
        &self,
        ask: &Begin,
        seat: &mut Seat<'_>,
        known: Known,
        recall: &mut Recall<'_>,
        guard: Option<Guard>,
        mut is_ready: impl FnMut() -> Result<bool, Error>,
    ) -> Result<Tried, Error> {
        let flight = seat.flight();
        let _turn = flight.turn.lock().await;
        let mut known = match (seat.news(), known) {
            (Some(news), Known::Row(Some(row))) if is_newer(&row, &news) => Some(row),
            (Some(news), _) => Some(news),
            (None, Known::Guess) => None,
            (None, Known::Ask) => self.store().load(&ask.address).await?.map(Arc::new),
            (None, Known::Row(row)) => row,
        };
        for _ in 0..limits::COMMIT_TRIES_MAX {
            let ground = self.store().ground();
            let decision = match effect::begin(known.as_deref(), ask, &ground) {
                Ok(decision) => decision,
                Err(refusal @ Refusal::InProgress { .. }) => {
                    let row = known.expect("only an existing effect is in progress");
                    if let Some(freed) = self.free_from_dead(&row, &ground).await? {
                        known = freed;
                        continue;
                    }
                    return Ok(Tried::Wait { refusal, known: row });
                }
                Err(refusal) => return Err(refusal.into()),
            };
            if matches!(decision, Decision::Arm(..)) && !is_ready()? {
                return Ok(Tried::Unready(known));
            }
            match self.carry_out(decision, known.as_deref(), &ground, recall, guard).await {
                Ok(answer) => return Ok(Tried::Answer(answer)),
                Err(Stopped::Stale(row)) => known = row.map(Arc::from),
                Err(Stopped::Error(error)) => return Err(error),
            }
        }
        Err(Error::new(Code::StoreBusy, "the effect kept changing"))
    }

    async fn carry_out(
        &self,
        decision: Decision,
        known: Option<&Effect>,
        ground: &Ground,
        recall: &mut Recall<'_>,
        guard: Option<Guard>,
    ) -> Result<Answer, Stopped> {
        if let (Decision::Replay(_) | Decision::Undone(..) | Decision::Failed(_), Some(known)) =
            (&decision, known)
        {
            trace::replayed(known, known.state(&ground.now));
        }
        match decision {
            Decision::Replay(receipt) => Ok(Answer::Replay(receipt)),
            Decision::Undone(receipt, undo) => Ok(Answer::Undone(receipt, undo)),
            Decision::Failed(reason) => Ok(Answer::Failed(reason)),
            Decision::Resume(permit) => {
                let stored = known.expect("a commit of ours is stored");
                Ok(answer(permit, Arc::new(stored.clone())))
            }
            Decision::Arm(mut effect, permit) => {
                trace::note(&mut effect);
                let effect: Arc<Effect> = effect.into();
                let counted = self.count_send(&effect, &permit).await?;
                let batch = arming(&effect, ground, guard, counted.as_ref());
                recall.arm(&effect, &batch);
                let written = match self.commit_telling(batch, Some(permit.valid_until)).await {
                    // The store may hold a permit that nobody will use: it is taken back.
                    Err((stopped, Fate::Unknown)) => return Err(stopped),
                    Err((stopped, Fate::Absent)) => Err(stopped),
                    Ok(()) => Ok(()),
                };
                recall.answered();
                if let (Err(Stopped::Stale(row)), Some(_)) = (&written, guard)
                    && self.store().ground().epoch == ground.epoch
                    && row.as_ref().map(|row| row.version) == known.map(|row| row.version)
                {
                    if let Some(counted) = &counted
                        && self.was_counted_elsewhere(counted).await?
                    {
                        return Err(Stopped::Stale(row.clone()));
                    }
                    // The effect is as it was, so it was the run's guard that failed.
                    let text = "the run was taken by another worker";
                    return Err(Stopped::Error(Error::new(Code::RunTaken, text)));
                }
                written?;
                trace::armed(permit.attempt);
                self.inner.flights.publish_to_others(&effect);
                Ok(answer(permit, effect))
            }
            Decision::Doubt(effect) | Decision::Hold(effect) => {
                self.write(&effect, ground).await?;
                let state = effect.state(&ground.now);
                measure::moved(State::Planned, state, &effect);
                // It is on record; what it means for this caller is decided upon that.
                Err(Stopped::Stale(Some(effect)))
            }
        }
    }

    /// When the holder's process is proven dead its attempt is closed as unknown. Returns the row
    /// as it is then; `None` when nothing is proven.
    async fn free_from_dead(
        &self,
        row: &Effect,
        ground: &Ground,
    ) -> Result<Option<Option<Arc<Effect>>>, Error> {
        let holder = row.holder(&ground.now).and_then(|attempt| attempt.session.as_deref());
        let Some(session) = holder.filter(|session| self.store().is_dead(session)) else {
            return Ok(None);
        };
        let Some(freed) = effect::died(row, session, &ground.now) else { return Ok(None) };
        match self.write(&freed, ground).await {
            Ok(()) => {
                measure::came_to(freed.state(&ground.now), &freed);
                Ok(Some(Some(Arc::new(freed))))
            }
            Err(Stopped::Stale(current)) => Ok(Some(current.map(Arc::from))),
            Err(Stopped::Error(error)) => Err(error),
        }
    }

    /// Waits until the row may have changed. One caller of each key asks the store, woken by hints
    /// and at least once a second; the others hear of it from that one.
    async fn wait_for_change(
        &self,
        seat: &mut Seat<'_>,
        row: Arc<Effect>,
        patience_ms: u64,
    ) -> Result<Option<Arc<Effect>>, Error> {
        let store = self.store();
        let patience_ms = patience_ms.min(limits::POLL_MS);
        let flight = seat.flight();
        let Ok(_lookout) = flight.lookout.try_lock() else {
            tokio::select! {
                biased;
                () = seat.wait() => {}
                () = store.clock().sleep_ms(patience_ms) => {}
            }
            return Ok(Some(row));
        };
        let own = store.session().is_some();
        let holder = row.attempts.last().and_then(|attempt| attempt.session.as_deref());
        let is_ours = own && holder == store.session();
        let mut hints = (!is_ours).then(|| store.hints());
        tokio::select! {
            biased;
            () = seat.wait() => return Ok(Some(row)),
            () = store.clock().sleep_ms(patience_ms) => {}
            () = changed(hints.as_mut()) => {}
        }
        let current = store.load(&row.address).await?;
        if let Some(current) = current.as_ref().filter(|current| current.version != row.version) {
            self.inner.flights.publish(current);
        }
        Ok(current.map(Arc::new))
    }

    /// Settles an attempt by its fence, in whichever generation it was made.
    pub async fn settle(&self, address: &Address, ask: &Settle) -> Result<Filed, Error> {
        let settling = async {
            let effect = self.find(address, ask.fence).await?;
            let filed = self.settle_on(&effect, ask).await?;
            trace::filed(filed.state);
            Ok(filed)
        };
        settling.instrument(trace::attempt(address)).await
    }

    /// Settles on what the caller knows; a stale guard brings the truth.
    pub(crate) async fn settle_on(&self, known: &Effect, ask: &Settle) -> Result<Filed, Error> {
        let ask = &*self.redacted_report(ask);
        let mut truth = None;
        for _ in 0..limits::COMMIT_TRIES_MAX {
            let ground = self.store().ground();
            let effect = truth.as_ref().unwrap_or(known);
            let settled = effect::settle(effect, ask, &ground.now)?;
            let kept_as_evidence = settled.kept_as_evidence;
            let Some(next) = settled.effect else {
                let (state, effect) = (effect.state(&ground.now), effect.clone());
                return Ok(Filed { effect, state, kept_as_evidence });
            };
            match self.write(&next, &ground).await {
                Ok(()) => {
                    let state = next.state(&ground.now);
                    measure::moved(effect.state(&ground.now), state, &next);
                    return Ok(Filed { effect: next, state, kept_as_evidence });
                }
                Err(Stopped::Stale(_)) => truth = Some(self.find(&known.address, ask.fence).await?),
                Err(Stopped::Error(error)) => return Err(error),
            }
        }
        Err(Error::new(Code::StoreBusy, "the effect kept changing"))
    }

    /// The generation in which a fence was granted.
    async fn find(&self, address: &Address, fence: u64) -> Result<Effect, Error> {
        let store = self.store();
        let mut effect = store.load(address).await?.ok_or(Refusal::NotFound)?;
        while fence <= effect.fence_floor && effect.generation > 0 {
            let older = store.load_generation(address, effect.generation - 1).await?;
            effect = older.ok_or(Refusal::StaleFence)?;
        }
        Ok(effect)
    }

    /// Extends the lease of a live attempt.
    pub async fn renew(
        &self,
        address: &Address,
        fence: u64,
        abort: Abort,
    ) -> Result<Effect, Error> {
        self.change(address, |effect, ground| Ok(effect::renew(effect, fence, abort, &ground.now)?))
            .await
    }

    /// Settles a doubt by a person's word.
    pub async fn resolve(
        &self,
        address: &Address,
        person: &Person,
        resolution: &Resolution,
    ) -> Result<Effect, Error> {
        let verb = audit::verb_of_resolution(resolution);
        let (person, resolution) =
            (&*self.redacted_person(person), self.redacted_finding(resolution));
        self.decide(address, person, verb, |effect, ground| {
            let effect = self.judged(effect.clone(), &ground.now);
            Ok(effect::resolve(&effect, person, &resolution, &ground.now)?)
        })
        .await
    }

    /// Grants an effect another retry budget.
    pub async fn grant(&self, address: &Address, person: &Person) -> Result<Effect, Error> {
        let person = &*self.redacted_person(person);
        let rule =
            |effect: &Effect, ground: &Ground| Ok(effect::grant(effect, person, &ground.now)?);
        self.decide(address, person, Verb::Grant, rule).await
    }

    /// Cancels an effect before any send.
    pub async fn void(&self, address: &Address, person: &Person) -> Result<Effect, Error> {
        let person = &*self.redacted_person(person);
        let rule =
            |effect: &Effect, ground: &Ground| Ok(effect::void(effect, person, &ground.now)?);
        self.decide(address, person, Verb::Void, rule).await
    }

    /// Opens the next generation of an effect: it may be done once more.
    pub async fn supersede(&self, address: &Address, person: &Person) -> Result<Effect, Error> {
        let person = &*self.redacted_person(person);
        for _ in 0..limits::COMMIT_TRIES_MAX {
            let ground = self.store().ground();
            let stored = self.store().load(address).await?.ok_or(Refusal::NotFound)?;
            let (old, new) = effect::supersede(&stored, person, &ground.now)?;
            let deed = audit::on_effect(&stored, person, Verb::Supersede);
            let namespace = address.namespace.as_str();
            let writes = [&old, &new].map(|effect| Write::effect(effect, &ground.now));
            let at = ground.now.wall;
            match self.commit_audited(writes.into(), namespace, &deed, at).await {
                Ok(()) => {
                    self.inner.flights.publish(&new);
                    return Ok(new);
                }
                Err(Stopped::Stale(_)) => {}
                Err(Stopped::Error(error)) => return Err(error),
            }
        }
        Err(Error::new(Code::StoreBusy, "the effect kept changing"))
    }

    /// Takes over a foreign row. `Ok(None)` when the key is here already: nothing is changed.
    pub async fn import(&self, row: &Imported, actor: &str) -> Result<Option<Effect>, Error> {
        let ground = self.store().ground();
        let reason = "imported from another table".to_owned();
        let person = Person { actor: actor.to_owned(), reason, version: 0 };
        let effect = effect::import(row, &person, &ground.now)?;
        match self.write(&effect, &ground).await {
            Ok(()) => Ok(Some(effect)),
            Err(Stopped::Stale(_)) => Ok(None),
            Err(Stopped::Error(error)) => Err(error),
        }
    }

    /// Puts an effect in doubt that a process remembers and the store has forgotten. `false`: what
    /// is there speaks for itself.
    pub async fn doubt_lost(&self, address: &Address, actor: &str) -> Result<bool, Error> {
        let reason = "a process remembers it, the store does not".to_owned();
        let person = Person { actor: actor.to_owned(), reason, version: 0 };
        let mut stored = self.store().load(address).await?;
        for _ in 0..limits::COMMIT_TRIES_MAX {
            let ground = self.store().ground();
            let Some(next) = effect::missed(stored.as_ref(), address, &person, &ground)? else {
                return Ok(false);
            };
            match self.write(&next, &ground).await {
                Ok(()) => return Ok(true),
                Err(Stopped::Stale(current)) => stored = current.map(|effect| *effect),
                Err(Stopped::Error(error)) => return Err(error),
            }
        }
        Err(Error::new(Code::StoreBusy, "the effect kept changing"))
    }

    /// Load, decide, commit; again when the row has moved on.
    pub(crate) async fn change(
        &self,
        address: &Address,
        rule: impl Fn(&Effect, &Ground) -> Result<Effect, Error>,
    ) -> Result<Effect, Error> {
        self.change_as(address, None, rule).await
    }

    /// The same by a person, whose word goes into the audit chain.
    async fn decide(
        &self,
        address: &Address,
        person: &Person,
        verb: Verb,
        rule: impl Fn(&Effect, &Ground) -> Result<Effect, Error>,
    ) -> Result<Effect, Error> {
        self.change_as(address, Some((person, verb)), rule).await
    }

    async fn change_as(
        &self,
        address: &Address,
        by: Option<(&Person, Verb)>,
        rule: impl Fn(&Effect, &Ground) -> Result<Effect, Error>,
    ) -> Result<Effect, Error> {
        let mut stored = self.store().load(address).await?;
        for _ in 0..limits::COMMIT_TRIES_MAX {
            let ground = self.store().ground();
            let effect = stored.ok_or(Refusal::NotFound)?;
            let next = rule(&effect, &ground)?;
            let deed = by.map(|(person, verb)| audit::on_effect(&effect, person, verb));
            match self.write_as(&next, &ground, deed.as_ref()).await {
                Ok(()) => {
                    measure::moved(effect.state(&ground.now), next.state(&ground.now), &next);
                    return Ok(next);
                }
                Err(Stopped::Stale(current)) => stored = current.map(|effect| *effect),
                Err(Stopped::Error(error)) => return Err(error),
            }
        }
        Err(Error::new(Code::StoreBusy, "the effect kept changing"))
    }

    /// The newest generation of an effect.
    pub async fn effect(&self, address: &Address) -> Result<Effect, Error> {
        Ok(self.store().load(address).await?.ok_or(Refusal::NotFound)?)
    }

    /// One generation of an effect.
    pub async fn generation(&self, address: &Address, generation: u32) -> Result<Effect, Error> {
        let found = self.store().load_generation(address, generation).await?;
        Ok(found.ok_or(Refusal::NotFound)?)
    }

    /// Effects, newest first. What time or a death has put in doubt is listed as in doubt, whether
    /// or not anybody has recorded it yet.
    pub async fn list(&self, query: &Query) -> Result<Page, Error> {
        // Only these two states change by time or death alone, so their stored column may lag.
        let by_time = matches!(query.state, Some(State::Pending | State::InDoubt));
        let stored = match by_time {
            true => Query { state: None, unsettled: true, ..query.clone() },
            false => query.clone(),
        };
        let mut page = self.store().list(&stored).await?;
        let now = self.store().ground().now;
        let effects = page.effects.into_iter().map(|effect| self.judged(effect, &now));
        let is_asked = |effect: &Effect| !by_time || Some(effect.state(&now)) == query.state;
        page.effects = effects.filter(is_asked).collect();
        Ok(page)
    }

    /// The effect as it is now: when its holder's process is proven dead, that attempt is unknown.
    /// Not recorded, so the version stays.
    pub fn judged(&self, effect: Effect, now: &Moment) -> Effect {
        let holder = effect.holder(now).and_then(|attempt| attempt.session.as_deref());
        let Some(session) = holder.filter(|session| self.store().is_dead(session)) else {
            return effect;
        };
        let version = effect.version;
        effect::died(&effect, session, now).map_or(effect, |died| Effect { version, ..died })
    }

    /// Due effects that nobody has attended to for a while.
    pub async fn unattended(&self, limit: usize) -> Result<Vec<Effect>, Error> {
        let DuePage { effects, .. } = self.store().due(None, limit).await?;
        let now = self.store().ground().now.steady.ms;
        let is_old = |due_ms: i64| due_ms.saturating_add_unsigned(limits::UNATTENDED_MS) <= now;
        let old = effects.into_iter().filter(|(cursor, _)| is_old(cursor.due_ms));
        Ok(old.map(|(_, effect)| effect).collect())
    }
}

/// The write that makes an attempt durable, if the store has not gone back in time since this was
/// decided, and the run it is made for is still held.
fn arming(
    effect: &Effect,
    ground: &Ground,
    guard: Option<Guard>,
    counted: Option<&Counted>,
) -> Batch {
    let mut writes = vec![Write::InEpoch(ground.epoch)];
    writes.extend(guard.map(|guard| guard.write()));
    writes.push(Write::effect(effect, &ground.now));
    writes.extend(counted.map(|counted| counted.write.clone()));
    Batch { writes: writes.into() }
}

/// News may be older than what a caller has seen since.
fn is_newer(row: &Effect, news: &Effect) -> bool {
    (row.generation, row.version) > (news.generation, news.version)
}

fn answer(permit: Permit, effect: Arc<Effect>) -> Answer {
    let kind = permit.kind;
    let armed = Box::new(Armed { permit, effect });
    match kind {
        Kind::Send => Answer::Attempt(armed),
        Kind::Look => Answer::Probe(armed),
        Kind::Assumed => unreachable!("an assumed attempt has no permit"),
    }
}

async fn changed(hints: Option<&mut tokio::sync::watch::Receiver<u64>>) {
    // An error means that the store is closing; the poll will tell.
    if let Some(hints) = hints
        && hints.changed().await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
}
