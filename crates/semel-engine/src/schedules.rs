//! Schedules: due ticks become runs. What a tick comes to is decided by the rules and written to
//! the schedule's card first; then its run is started under the key that the tick gives it, and
//! then the card says so. Whoever dies in between leaves a card that is due, and a second start
//! attaches to the first.

use futures_util::future::join_all;
use semel_core::audit::{Deed, Verb};
use semel_core::code::Code;
use semel_core::key::{Action, Namespace};
use semel_core::limits;
use semel_core::repeats::Door;
use semel_core::schedule::{self, CARD, Change, Content, Refusal, Schedule, decide};
use semel_core::time::{Moment, Wall};
use semel_store::{Card, CardQuery, StoreError, Unreadable, Write};

use crate::cards::{Listed, is_of_the_row};
use crate::commit::Stopped;
use crate::{Engine, Error, Start, measure};

/// A schedule, as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheduled {
    pub namespace: Namespace,
    pub name: String,
    pub version: u64,
    pub schedule: Schedule,
}

/// A page of schedules and the name after which the next one begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulePage {
    pub schedules: Vec<Scheduled>,
    pub next: Option<String>,
    /// Those of the page that cannot be read.
    pub unreadable: Vec<Unreadable>,
}

/// Pages of due schedules in one turn of the job: lapses are looked at in between.
const PAGES_MAX: usize = 20;
/// After how long a schedule that cannot be read is looked at again.
const AGAIN_MS: u64 = 60_000;

impl Engine {
    /// Puts a schedule. `false`: it is there and says the same. What is due under the content that
    /// it had is started first.
    pub async fn put_schedule(
        &self,
        namespace: &Namespace,
        name: &str,
        content: Content,
    ) -> Result<(Scheduled, bool), Error> {
        let content = schedule::check(name, content)?;
        let deed = self.on_schedule(name, Verb::PutSchedule, None);
        self.change_schedule(namespace, name, &deed, |before, now| {
            Ok(schedule::put(before, &content, now))
        })
        .await
    }

    /// Stops a schedule: ticks are passed over until it is resumed.
    pub async fn pause_schedule(
        &self,
        namespace: &Namespace,
        name: &str,
        actor: &str,
        reason: &str,
    ) -> Result<Scheduled, Error> {
        let deed = self.on_schedule(name, Verb::PauseSchedule, Some((actor, reason)));
        let changed = self.change_schedule(namespace, name, &deed, |before, now| {
            schedule::pause(before.ok_or(Refusal::NotFound)?, actor, reason, now)
        });
        changed.await.map(|(scheduled, _)| scheduled)
    }

    /// Lets a paused schedule go on, with the first tick from now on.
    pub async fn resume_schedule(
        &self,
        namespace: &Namespace,
        name: &str,
    ) -> Result<Scheduled, Error> {
        let deed = self.on_schedule(name, Verb::ResumeSchedule, None);
        let changed = self.change_schedule(namespace, name, &deed, |before, now| {
            schedule::resume(before.ok_or(Refusal::NotFound)?, now)
        });
        changed.await.map(|(scheduled, _)| scheduled)
    }

    /// Removes a schedule. Its runs stay.
    pub async fn remove_schedule(&self, namespace: &Namespace, name: &str) -> Result<(), Error> {
        let deed = self.on_schedule(name, Verb::RemoveSchedule, None);
        let changed = self.change_schedule(namespace, name, &deed, |before, now| {
            schedule::remove(before.ok_or(Refusal::NotFound)?, now)
        });
        changed.await.map(|_| ())
    }

    /// One schedule.
    pub async fn schedule(&self, namespace: &Namespace, name: &str) -> Result<Scheduled, Error> {
        let card = self.store().card(namespace.as_str(), CARD, name).await?;
        let found = card.as_ref().map(read).transpose()?;
        let is_there = |found: &Scheduled| found.schedule.removed.is_none();
        Ok(found.filter(is_there).ok_or(Refusal::NotFound)?)
    }

    /// Schedules of a namespace by name, after one.
    pub async fn schedules(
        &self,
        namespace: &Namespace,
        after: Option<String>,
        limit: usize,
    ) -> Result<SchedulePage, Error> {
        let limit = limit.clamp(1, limits::PAGE_ROWS_MAX);
        let mut query = CardQuery {
            namespace: Some(namespace.as_str().to_owned()),
            kind: CARD.to_owned(),
            after: after.map(|name| (namespace.as_str().to_owned(), name)),
            limit,
        };
        let mut listed = Listed::new();
        loop {
            let page = self.store().cards(&query).await?;
            listed.add(&page, read)?;
            // Names that are only remembered are not shown, and fill no page.
            listed.found.retain(|found| found.schedule.removed.is_none());
            query.after = page.next;
            if query.after.is_none() || listed.found.len() + listed.unreadable.len() >= limit {
                let Listed { found: schedules, unreadable } = listed;
                let next = query.after.map(|(_, name)| name);
                return Ok(SchedulePage { schedules, next, unreadable });
            }
        }
    }

    /// Starts the runs of all ticks that are due. Returns how many schedules had something to do.
    pub async fn turn_schedules(&self) -> Result<usize, Error> {
        let mut moved = 0;
        for _ in 0..PAGES_MAX {
            let cards = self.store().due_cards(CARD, limits::SWEEP_ROWS_MAX).await?;
            let turns = join_all(cards.iter().map(|card| self.turn_or_tell(card))).await;
            let of_page = turns.into_iter().filter(|moved| *moved).count();
            moved += of_page;
            if of_page == 0 || cards.len() < limits::SWEEP_ROWS_MAX {
                break;
            }
        }
        Ok(moved)
    }

    /// What is wrong with one schedule is no reason to keep others waiting.
    async fn turn_or_tell(&self, card: &Card) -> bool {
        let error = match self.turn_schedule(card).await {
            Ok(moved) => return moved,
            Err(error) => error,
        };
        let is_unreadable = is_of_the_row(error.code());
        if let Some(left_out) = self.may_tell("schedule", &card.namespace) {
            let (namespace, schedule) = (&card.namespace, &card.name);
            tracing::warn!(
                %namespace, %schedule, %error, left_out,
                "the schedule did not get on; it is tried again later"
            );
        }
        is_unreadable && self.postpone(card).await
    }

    /// Puts a schedule that cannot be read behind those that can. It says what it said.
    async fn postpone(&self, card: &Card) -> bool {
        measure::set_aside("schedule");
        let due = Some(self.store().ground().now.wall.plus(AGAIN_MS));
        let postponed = Card { version: card.version + 1, due, ..card.clone() };
        self.commit(Write::Card(postponed).into()).await.is_ok()
    }

    /// Decides what is due on one card and starts it. `false`: there was nothing to do.
    async fn turn_schedule(&self, card: &Card) -> Result<bool, Error> {
        let scheduled = read(card)?;
        let now = self.store().ground().now;
        if schedule::is_forgotten(&scheduled.schedule, &now) {
            return self.forget(card).await;
        }
        if !scheduled.schedule.firing.is_empty() {
            return self.start_ticks(&scheduled).await.map(|()| true);
        }
        let decided = decide(&scheduled.schedule, &now)?;
        if decided.next == scheduled.schedule && decided.due == card.due {
            return Ok(false);
        }
        let claimed =
            Scheduled { version: scheduled.version + 1, schedule: decided.next, ..scheduled };
        match self.write_schedule(&claimed, decided.due).await {
            Ok(()) => {}
            // Somebody else decided on it, or changed it.
            Err(Stopped::Stale(_)) => return Ok(true),
            Err(Stopped::Error(error)) => return Err(error),
        }
        if !decided.fire.is_empty() {
            self.start_ticks(&claimed).await?;
        }
        Ok(true)
    }

    /// Starts the runs of the ticks that fire, and lets the card say so. The same tick is the same
    /// run: whoever else is at it does no harm.
    async fn start_ticks(&self, scheduled: &Scheduled) -> Result<(), Error> {
        let ticks = &scheduled.schedule.firing;
        let starts = join_all(ticks.iter().map(|tick| self.start_tick(scheduled, *tick))).await;
        let starts = starts.into_iter().collect::<Result<Vec<_>, Error>>()?;
        for start in starts.iter().filter(|start| start.refused.is_some()) {
            let (schedule, tick) = (&scheduled.name, start.tick.0);
            tracing::warn!(%schedule, tick, "the run of a tick was refused; its card says why");
        }
        let next = schedule::started(&scheduled.schedule, &starts);
        let due = schedule::due_of(&next)?;
        let version = scheduled.version + 1;
        match self
            .write_schedule(&Scheduled { version, schedule: next, ..scheduled.clone() }, due)
            .await
        {
            // Somebody else, who found it due as well, has said so.
            Ok(()) | Err(Stopped::Stale(_)) => Ok(()),
            Err(Stopped::Error(error)) => Err(error),
        }
    }

    async fn start_tick(
        &self,
        scheduled: &Scheduled,
        tick: Wall,
    ) -> Result<schedule::Start, Error> {
        let content = &scheduled.schedule.content;
        let ask = Start {
            namespace: scheduled.namespace.clone(),
            workflow: Action::new(&content.workflow)?,
            key: Some(schedule::tick_key(&scheduled.name, tick)?),
            input: content.input.clone(),
            window_ms: content.window_ms,
            deadline_ms: None,
            release: None,
            parent: None,
        };
        match self.start_run_by(ask, Door::Schedule).await {
            Ok(_) => Ok(schedule::Start { tick, refused: None }),
            Err(error) if schedule::is_tried_again(error.code()) => Err(error),
            Err(error) => {
                let refused = Some((error.code(), error.detail().to_owned()));
                Ok(schedule::Start { tick, refused })
            }
        }
    }

    /// Forgets the name of a schedule that was removed long ago.
    async fn forget(&self, card: &Card) -> Result<bool, Error> {
        let Card { namespace, kind, name, version, .. } = card.clone();
        match self.commit(Write::DropCard { namespace, kind, name, version }.into()).await {
            Ok(()) | Err(Stopped::Stale(_)) => Ok(true),
            Err(Stopped::Error(error)) => Err(error),
        }
    }

    /// Load, decide, commit. What is due goes before the change.
    async fn change_schedule(
        &self,
        namespace: &Namespace,
        name: &str,
        deed: &Deed,
        rule: impl Fn(Option<&Schedule>, &Moment) -> Result<Change, Refusal>,
    ) -> Result<(Scheduled, bool), Error> {
        let mut tries = 0;
        while tries < limits::COMMIT_TRIES_MAX {
            let card = self.store().card(namespace.as_str(), CARD, name).await?;
            let before = card.as_ref().map(read).transpose()?;
            let now = self.store().ground().now;
            let schedule = before.as_ref().map(|before| &before.schedule);
            let next = match (rule(schedule, &now)?, before, card) {
                (Change::To(schedule), before, _) => {
                    let version = before.map_or(1, |before| before.version + 1);
                    let (namespace, name) = (namespace.clone(), name.to_owned());
                    Scheduled { namespace, name, version, schedule: *schedule }
                }
                (Change::Nothing, Some(before), _) => return Ok((before, false)),
                (Change::SettleFirst, _, Some(card)) => {
                    // A long catch-up takes many of these: they are progress, not tries.
                    tries += usize::from(!self.turn_schedule(&card).await?);
                    continue;
                }
                (Change::Nothing | Change::SettleFirst, None, _)
                | (Change::SettleFirst, _, None) => {
                    return Err(Refusal::NotFound.into());
                }
            };
            let due = schedule::due_of(&next.schedule)?;
            let deed = Deed { version: Some(next.version - 1), ..deed.clone() };
            let writes = vec![schedule_card(&next, due)];
            match self.commit_audited(writes, namespace.as_str(), &deed, now.wall).await {
                Ok(()) => return Ok((next, true)),
                Err(Stopped::Stale(_)) => tries += 1,
                Err(Stopped::Error(error)) => return Err(error),
            }
        }
        Err(Error::new(Code::StoreBusy, "the schedule keeps changing"))
    }

    async fn write_schedule(&self, next: &Scheduled, due: Option<Wall>) -> Result<(), Stopped> {
        self.commit(schedule_card(next, due).into()).await
    }

    /// Where no person is named, the process that asked for it is.
    fn on_schedule(&self, name: &str, verb: Verb, by: Option<(&str, &str)>) -> Deed {
        let own = self.actor.as_deref().unwrap_or(&self.inner.worker);
        let (actor, reason) = by.unwrap_or((own, ""));
        Deed {
            actor: actor.to_owned(),
            verb,
            subject: format!("schedule {name}"),
            reason: reason.to_owned(),
            version: None,
            detail: None,
        }
    }
}

fn schedule_card(next: &Scheduled, due: Option<Wall>) -> Write {
    Write::Card(Card {
        namespace: next.namespace.as_str().to_owned(),
        kind: CARD.to_owned(),
        name: next.name.clone(),
        version: next.version,
        due,
        record: schedule::encode(&next.schedule),
    })
}

fn read(card: &Card) -> Result<Scheduled, Error> {
    let corrupt =
        |what: String| Error::from(StoreError::Corrupt(format!("schedule {}: {what}", card.name)));
    Ok(Scheduled {
        namespace: Namespace::stored(&card.namespace)
            .map_err(|error| corrupt(error.to_string()))?,
        name: card.name.clone(),
        version: card.version,
        schedule: schedule::decode(&card.record).map_err(corrupt)?,
    })
}
