//! Releases: workers say what they offer, new runs start on the live release, and runs whose
//! release nobody offers any more move to it, if their journals fit.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use semel_core::audit::{Deed, Verb};
use semel_core::code::Code;
use semel_core::effect::State;
use semel_core::journal::{At, Event};
use semel_core::key::Namespace;
use semel_core::limits;
use semel_core::release::{self, Offered, Releases};
use semel_core::run::{self, Run};
use semel_core::time::Steady;
use semel_store::{Batch, CardQuery, Write};

use super::dispatch::Offer;
use super::drive::{Driver, Halt, Taken};
use super::held::Held;
use super::ink::Ink;
use super::leave::{address, load_effect};
use crate::cards::{Listed, is_of_the_row, read_card};
use crate::commit::Stopped;
use crate::{Engine, Error, audit, lock};

/// The kind of card that the releases of a workflow are.
pub(super) const KIND: &str = "workflow";
/// How long what was read of releases is believed: a promotion is heard of so soon.
const FRESH_MS: u64 = 1_000;
/// Runs of one abandoned release that one look sees to.
const MOVES_MAX: usize = 16;

/// What this process knows of releases, by lane of the workflow.
#[derive(Default)]
pub(crate) struct Known {
    known: Mutex<HashMap<String, (Steady, Arc<Releases>)>>,
}

/// What the replay of a run by another release came to.
enum Fit {
    Fits,
    /// An attempt is under way: ask again later.
    NotNow,
    Differs(String),
}

impl Engine {
    /// The releases of a workflow, as they were a moment ago.
    pub(crate) async fn releases_of(
        &self,
        namespace: &str,
        workflow: &str,
    ) -> Result<Arc<Releases>, Error> {
        let lane = run::lane(&live(namespace), workflow);
        let now = self.store().ground().now;
        if let Some((read, releases)) = lock(&self.inner.releases.known).get(&lane)
            && now.since(*read) < FRESH_MS
        {
            return Ok(releases.clone());
        }
        self.releases_now(namespace, workflow).await
    }

    /// The releases of a workflow, as they are.
    pub(crate) async fn releases_now(
        &self,
        namespace: &str,
        workflow: &str,
    ) -> Result<Arc<Releases>, Error> {
        let namespace = live(namespace);
        let kept = self.kept::<Releases>(&namespace, KIND, workflow).await?;
        Ok(self.learn(run::lane(&namespace, workflow), kept.content))
    }

    fn learn(&self, lane: String, releases: Releases) -> Arc<Releases> {
        let releases = Arc::new(releases);
        let read = self.store().ground().now.steady;
        lock(&self.inner.releases.known).insert(lane, (read, releases.clone()));
        releases
    }

    /// A draft is not taken in the live namespace before somebody has promoted it.
    pub(crate) fn is_held_back(&self, lane: &str, offer: &Offer) -> bool {
        if !offer.draft || lane.split('/').next().is_some_and(|name| live(name) != name) {
            return false;
        }
        let known = lock(&self.inner.releases.known);
        let release = known.get(lane).and_then(|(_, known)| known.find(&offer.release));
        release.is_none_or(|release| release.draft)
    }

    /// Says what this process offers, and hears what is live. It is done by itself; whoever starts
    /// runs right after an offer calls it first, so that they start on what was offered.
    pub async fn announce(&self) -> Result<(), Error> {
        let mut announced = Ok(());
        for (lane, offer) in self.inner.dispatch.offers() {
            let Some((namespace, workflow)) = lane.split_once('/') else { continue };
            if live(namespace) != namespace {
                continue;
            }
            let offered = Offered {
                name: offer.release.clone(),
                draft: offer.draft,
                strict: offer.strict,
                policy: offer.policy.clone(),
            };
            let now = self.store().ground().now.wall;
            let rule = |known: &Releases| Ok(release::offer(known, &offered, now));
            match self.change_card((namespace, KIND, workflow), rule).await {
                Ok(releases) => drop(self.learn(lane, releases)),
                // What is wrong with one workflow's row is not a reason to keep back the others.
                Err(error) if is_of_the_row(error.code()) => {
                    self.tell_unannounced(namespace, workflow, &error);
                }
                Err(error) => announced = announced.and(Err(error)),
            }
        }
        announced
    }

    fn tell_unannounced(&self, namespace: &str, workflow: &str, error: &Error) {
        if let Some(left_out) = self.may_tell("releases", namespace) {
            tracing::error!(
                namespace, workflow, %error, left_out,
                "the releases of a workflow cannot be read: this process does not announce its own"
            );
        }
    }

    /// All releases of the workflows of a namespace.
    pub async fn releases(
        &self,
        namespace: &Namespace,
    ) -> Result<Listed<(String, Releases)>, Error> {
        let mut query = CardQuery {
            namespace: Some(live(namespace.as_str())),
            kind: KIND.to_owned(),
            after: None,
            limit: limits::PAGE_ROWS_MAX,
        };
        let mut listed = Listed::new();
        loop {
            let page = self.store().cards(&query).await?;
            listed.add(&page, |card| Ok((card.name.clone(), read_card(card)?)))?;
            query.after = page.next;
            if query.after.is_none() {
                return Ok(listed);
            }
        }
    }

    /// Makes a release live: new runs start on it.
    pub async fn promote(
        &self,
        namespace: &Namespace,
        workflow: &str,
        release: &str,
        (actor, reason): (&str, &str),
    ) -> Result<Releases, Error> {
        let now = self.store().ground().now.wall;
        let rule = |known: &Releases| {
            let promoted = release::promote(known, release, actor, reason, now);
            promoted.map(Some).map_err(|_| unknown(workflow, release))
        };
        let name = live(namespace.as_str());
        let deed = Deed {
            actor: actor.to_owned(),
            verb: Verb::Promote,
            subject: format!("workflow {workflow}"),
            reason: reason.to_owned(),
            version: None,
            detail: Some(release.to_owned()),
        };
        let promoted = self.change_card_as((&name, KIND, workflow), Some(&deed), rule).await?;
        self.learn(run::lane(&name, workflow), promoted.clone());
        Ok(promoted)
    }

    /// Makes the release live again that was so before.
    pub async fn roll_back(
        &self,
        namespace: &Namespace,
        workflow: &str,
        (actor, reason): (&str, &str),
    ) -> Result<Releases, Error> {
        let name = live(namespace.as_str());
        let known = self.kept::<Releases>(&name, KIND, workflow).await?.content;
        let before = release::before(&known).map(str::to_owned);
        let before = before.ok_or_else(|| {
            let text = format!("{workflow} has no release from before the live one");
            Error::new(Code::ReleaseUnknown, text)
        })?;
        self.promote(namespace, workflow, &before, (actor, reason)).await
    }

    /// Lets a run go on with another release, by a person's word. Should its journal not fit, the
    /// run pauses with the difference and sends nothing; it may be moved back.
    pub async fn move_run(
        &self,
        namespace: &Namespace,
        id: &str,
        release: &str,
        (actor, reason): (&str, &str),
    ) -> Result<Run, Error> {
        let run = self.run(namespace, id).await?;
        let known = self.releases_of(namespace.as_str(), &run.workflow).await?;
        if known.find(release).is_none() {
            return Err(unknown(&run.workflow, release));
        }
        for _ in 0..limits::COMMIT_TRIES_MAX {
            let run = self.run(namespace, id).await?;
            if run.release.as_deref() == Some(release) {
                return Ok(run);
            }
            let deed = audit::on_run(id, actor, reason, Verb::MoveRun);
            let deed = Deed { detail: Some(release.to_owned()), ..deed };
            match self.commit_move(&run, release, (actor, reason), Some(&deed)).await {
                Ok(run) => return Ok(run),
                Err(Stopped::Stale(_)) => {}
                Err(Stopped::Error(error)) => return Err(error),
            }
        }
        Err(Error::new(Code::StoreBusy, "the run kept changing"))
    }

    async fn commit_move(
        &self,
        run: &Run,
        release: &str,
        (actor, reason): (&str, &str),
        deed: Option<&Deed>,
    ) -> Result<Run, Stopped> {
        let now = self.store().ground().now;
        let moved = run::move_to(run, release, &now).map_err(Error::from)?;
        let last = self.store().last_entry(run.number).await.map_err(Error::from)?;
        let last = last.ok_or_else(|| Error::from(run::Refusal::Expired))?;
        let mut ink = Ink::after(self, &run.namespace, run.number, &last);
        let event = Event::Moved {
            from: run.release.clone(),
            to: release.to_owned(),
            actor: actor.to_owned(),
            reason: reason.to_owned(),
        };
        // A paused run stays so; its pause is told again, as the last word of its journal.
        let paused = run
            .paused
            .as_ref()
            .map(|pause| (pause.id.clone(), run::fault_of(pause)))
            .map(|(id, fault)| Event::Paused { id, fault, anew: None });
        for event in std::iter::once(event).chain(paused) {
            ink.append(At::from(&now), event);
        }
        let mut writes = ink.take_waiting().await?;
        writes.push(Write::run(&moved, &now));
        match deed {
            Some(deed) => {
                let deed = Deed { version: Some(run.version), ..deed.clone() };
                self.commit_audited(writes, &run.namespace, &deed, now.wall).await?;
            }
            None => self.commit(Batch { writes: writes.into() }).await?,
        }
        self.inner.dispatch.wake();
        Ok(moved)
    }

    /// Moves due runs of releases that nobody offers to the live one, where this process offers
    /// that and their journals fit. What cannot move waits, and says why.
    pub async fn move_abandoned(&self) -> Result<usize, Error> {
        let mut moved = 0;
        for (lane, offer) in self.inner.dispatch.offers() {
            let Some((namespace, workflow)) = lane.split_once('/') else { continue };
            if live(namespace) != namespace {
                continue;
            }
            let known = match self.releases_of(namespace, workflow).await {
                // The one who announces tells it.
                Err(error) if is_of_the_row(error.code()) => continue,
                known => known?,
            };
            if known.live.as_deref() != Some(offer.release.as_str()) {
                continue;
            }
            let now = self.store().ground().now.wall;
            let others = known.abandoned(now).filter(|release| release.name != offer.release);
            for release in others.filter(|release| !release.draft) {
                let lane = run::release_lane(namespace, workflow, Some(&release.name));
                let due = self.store().due_runs(&lane, limits::PAGE_ROWS_MAX).await?.runs;
                // Those that cannot move stay due: they must not hide the others.
                let untold = due.into_iter().filter(|run| !is_told(run, &offer.release));
                for run in untold.take(MOVES_MAX) {
                    match self.move_or_strand(&run, &offer).await {
                        Ok(is_moved) => moved += usize::from(is_moved),
                        Err(error) if is_of_the_row(error.code()) => {
                            tracing::debug!(run = %run.id, %error, "it cannot be moved");
                        }
                        Err(error) => return Err(error),
                    }
                }
            }
        }
        Ok(moved)
    }

    async fn move_or_strand(&self, run: &Run, offer: &Offer) -> Result<bool, Error> {
        let to = &offer.release;
        let why = if run.strict {
            "nobody offers it, and the run is pinned".to_owned()
        } else {
            match self.fits(run, offer).await? {
                Fit::NotNow => return Ok(false),
                Fit::Fits => {
                    let reason = "nobody offers its release";
                    return match self.commit_move(run, to, ("semel", reason), None).await {
                        Ok(_) => Ok(true),
                        Err(Stopped::Stale(_)) => Ok(false),
                        Err(Stopped::Error(error)) if error.code() == Code::InProgress => Ok(false),
                        Err(Stopped::Error(error)) => Err(error),
                    };
                }
                Fit::Differs(why) => format!("nobody offers it, and it cannot move: {why}"),
            }
        };
        if let Some(stranded) = run::strand(run, &format!("{why} (live: {to})")) {
            let now = self.store().ground().now;
            let told = self.commit(Write::run(&stranded, &now).into()).await;
            if told.is_ok() {
                tracing::warn!(run = %run.id, %why, "the run waits for its release");
            }
        }
        Ok(false)
    }

    /// Leads the code that this process offers through the journal of a run, as a worker does that
    /// takes it over, and touches nothing. `diverged` says where the two differ.
    pub async fn replay_run(&self, namespace: &Namespace, id: &str) -> Result<(), Error> {
        let run = self.run(namespace, id).await?;
        let lane = run::lane(&run.namespace, &run.workflow);
        let offer = self.inner.dispatch.offers().into_iter().find(|(at, _)| *at == lane);
        let nobody = || Error::new(Code::WorkflowUnknown, "no worker here has the code of the run");
        let (_, offer) = offer.ok_or_else(nobody)?;
        match self.fits(&run, &offer).await? {
            Fit::Fits => Ok(()),
            Fit::NotNow => Err(Error::new(Code::InProgress, "an attempt of the run is under way")),
            Fit::Differs(why) => Err(Error::new(Code::Diverged, why)),
        }
    }

    /// Replays a run with other code, touching nothing.
    async fn fits(&self, run: &Run, offer: &Offer) -> Result<Fit, Error> {
        let entries = self.journal(run).await?;
        let last = entries.last().expect("a started run has an entry");
        let ink = Ink::after(self, &run.namespace, run.number, last);
        let taken = Taken {
            run: run.clone(),
            fence: run.fence,
            inbox: Vec::new(),
            waits: run.waits.clone(),
            ink,
        };
        let mut driver = Driver::new(self, Some(offer.body.clone()), Held::new(), taken);
        match driver.replay(entries).await {
            Ok(()) => {}
            Err(Halt::Failed(error)) => return Err(error),
            Err(Halt::Lost | Halt::NeedsCode) => return Ok(Fit::NotNow),
            Err(Halt::Pause { fault, .. }) => {
                let detail: Vec<&str> = fault.detail.lines().collect();
                return Ok(Fit::Differs(detail.join("; ")));
            }
        }
        for what in driver.open_effects.clone().into_values() {
            let effect = match load_effect(self, &address(run, &what)).await {
                Ok(effect) => effect,
                Err(Halt::Failed(error)) => return Err(error),
                Err(_) => return Ok(Fit::NotNow),
            };
            let now = self.store().ground().now;
            if effect.is_some_and(|effect| effect.state(&now) == State::Pending) {
                return Ok(Fit::NotNow);
            }
        }
        Ok(Fit::Fits)
    }
}

/// Whether a run says already why it does not move to the live release.
fn is_told(run: &Run, live: &str) -> bool {
    run.stranded.as_ref().is_some_and(|why| why.ends_with(&format!("(live: {live})")))
}

/// The namespace of which this one is the draft twin; another one itself.
fn live(namespace: &str) -> String {
    let known = Namespace::stored(namespace).unwrap_or_default();
    known.live().as_str().to_owned()
}

fn unknown(workflow: &str, release: &str) -> Error {
    Error::new(Code::ReleaseUnknown, format!("{workflow} has no release {release}"))
}

pub(super) fn never_offered(workflow: &str) -> Error {
    Error::new(Code::ReleaseUnknown, format!("no worker has ever offered {workflow}"))
}
