//! Triggers: what is declared of webhooks, and what became of the last deliveries. Whether one is
//! genuine, which key it has and what its run gets is decided by the rules in `semel_core::hook`.

use std::collections::HashMap;
use std::sync::Mutex;

use semel_core::audit::{Deed, Verb};
use semel_core::code::Code;
use semel_core::hook::{
    self, CARD, Content, Deliveries, Delivery, HOOK_CARD, Refusal, Trigger, Verdict,
};
use semel_core::key::Namespace;
use semel_core::limits;
use semel_core::repeats::{Door, Subject};
use semel_store::{Card, CardQuery, StoreError, Unreadable, Write};

use crate::cards::Listed;
use crate::commit::Stopped;
use crate::{Engine, Error, Start, Started, lock};

/// Deliveries that were noted and are not written yet, by namespace and trigger.
pub(crate) type Noted = Mutex<HashMap<(Namespace, String), Deliveries>>;

/// A trigger, as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Triggered {
    pub namespace: Namespace,
    pub name: String,
    pub version: u64,
    pub trigger: Trigger,
}

/// A page of triggers and the name after which the next one begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriggerPage {
    pub triggers: Vec<Triggered>,
    pub next: Option<String>,
    /// Those of the page that cannot be read.
    pub unreadable: Vec<Unreadable>,
}

impl Engine {
    /// Puts a trigger. `false`: it is there and says the same.
    pub async fn put_trigger(
        &self,
        namespace: &Namespace,
        name: &str,
        content: &Content,
        actor: &str,
    ) -> Result<(Triggered, bool), Error> {
        hook::check(name, content)?;
        if content.namespace.as_ref().is_some_and(|said| said != namespace.as_str()) {
            let text = format!("the trigger says another namespace than {namespace}");
            return Err(Refusal::Invalid(text).into());
        }
        for _ in 0..limits::COMMIT_TRIES_MAX {
            let before = self.look_for_trigger(namespace, name).await?;
            let now = self.store().ground().now.wall;
            let Some(trigger) = hook::put(before.as_ref().map(|one| &one.trigger), content, now)
            else {
                return Ok((before.ok_or(Refusal::NotFound)?, false));
            };
            let version = before.map_or(1, |before| before.version + 1);
            let (namespace, name) = (namespace.clone(), name.to_owned());
            let next = Triggered { namespace, name, version, trigger };
            let deed = on_trigger(&next.name, Verb::PutTrigger, actor, next.version - 1);
            match self.commit_audited(vec![card(&next)], next.namespace.as_str(), &deed, now).await
            {
                Ok(()) => return Ok((next, true)),
                Err(Stopped::Stale(_)) => {}
                Err(Stopped::Error(error)) => return Err(error),
            }
        }
        Err(Error::new(Code::StoreBusy, "the trigger keeps changing"))
    }

    /// Removes a trigger and what it kept of its deliveries. Its runs stay.
    pub async fn remove_trigger(
        &self,
        namespace: &Namespace,
        name: &str,
        actor: &str,
    ) -> Result<(), Error> {
        for _ in 0..limits::COMMIT_TRIES_MAX {
            let found = self.look_for_trigger(namespace, name).await?.ok_or(Refusal::NotFound)?;
            let now = self.store().ground().now.wall;
            let mut writes = vec![drop_card(namespace, CARD, name, found.version)];
            if let Some(kept) = self.store().card(namespace.as_str(), HOOK_CARD, name).await? {
                writes.push(drop_card(namespace, HOOK_CARD, name, kept.version));
            }
            let deed = on_trigger(name, Verb::RemoveTrigger, actor, found.version);
            match self.commit_audited(writes, namespace.as_str(), &deed, now).await {
                Ok(()) => return Ok(()),
                Err(Stopped::Stale(_)) => {}
                Err(Stopped::Error(error)) => return Err(error),
            }
        }
        Err(Error::new(Code::StoreBusy, "the trigger keeps changing"))
    }

    /// One trigger.
    pub async fn trigger(&self, namespace: &Namespace, name: &str) -> Result<Triggered, Error> {
        Ok(self.look_for_trigger(namespace, name).await?.ok_or(Refusal::NotFound)?)
    }

    /// Triggers of a namespace by name, after one.
    pub async fn triggers(
        &self,
        namespace: &Namespace,
        after: Option<String>,
        limit: usize,
    ) -> Result<TriggerPage, Error> {
        let limit = limit.clamp(1, limits::PAGE_ROWS_MAX);
        let query = CardQuery {
            namespace: Some(namespace.as_str().to_owned()),
            kind: CARD.to_owned(),
            after: after.map(|name| (namespace.as_str().to_owned(), name)),
            limit,
        };
        let page = self.store().cards(&query).await?;
        let mut listed = Listed::new();
        listed.add(&page, read)?;
        let Listed { found: triggers, unreadable } = listed;
        Ok(TriggerPage { triggers, next: page.next.map(|(_, name)| name), unreadable })
    }

    /// Starts the run that a delivery is, or attaches to it. Either is durable when this returns.
    pub async fn start_delivered(&self, ask: Start) -> Result<Started, Error> {
        self.start_run_by(ask, Door::Webhook).await
    }

    /// Notes what became of a delivery. Never waits: the job writes what was noted about once a
    /// second, and what a crash takes with it is not listed.
    pub fn note_delivery(&self, namespace: &Namespace, name: &str, delivery: Delivery) {
        if let (Verdict::Changed | Verdict::Expired, Some(run)) = (delivery.verdict, &delivery.run)
        {
            let subject = Subject::Run(namespace.as_str().to_owned(), run.clone());
            self.note_repeat(subject, Door::Webhook);
        }
        let mut noted = lock(&self.inner.deliveries);
        let place = (namespace.clone(), name.to_owned());
        if noted.len() < limits::HOOK_TRIGGERS_MAX || noted.contains_key(&place) {
            noted.entry(place).or_default().note(delivery);
        }
    }

    /// Writes what was noted of deliveries. What cannot be written is left out.
    pub async fn write_deliveries(&self) {
        let noted = std::mem::take(&mut *lock(&self.inner.deliveries));
        for ((namespace, name), more) in noted {
            if let Err(error) = self.add_deliveries(&namespace, &name, &more).await {
                tracing::debug!(%error, trigger = name, "deliveries were not noted");
            }
        }
    }

    /// The last deliveries of a trigger.
    pub async fn deliveries(&self, namespace: &Namespace, name: &str) -> Result<Deliveries, Error> {
        self.trigger(namespace, name).await?;
        self.write_deliveries().await;
        Ok(self.kept::<Deliveries>(namespace.as_str(), HOOK_CARD, name).await?.content)
    }

    async fn add_deliveries(
        &self,
        namespace: &Namespace,
        name: &str,
        more: &Deliveries,
    ) -> Result<(), Error> {
        for _ in 0..limits::COMMIT_TRIES_MAX {
            let kept = self.kept::<Deliveries>(namespace.as_str(), HOOK_CARD, name).await?;
            // A trigger that was removed meanwhile gets no card that nobody would remove again.
            if kept.version == 0 && self.look_for_trigger(namespace, name).await?.is_none() {
                return Ok(());
            }
            let sum = kept.content.with(more, self.inner.chance.attempt_id());
            match self.commit(kept.write(&sum, None).into()).await {
                Ok(()) => return Ok(()),
                Err(Stopped::Stale(_)) => {}
                Err(Stopped::Error(error)) => return Err(error),
            }
        }
        Ok(())
    }

    async fn look_for_trigger(
        &self,
        namespace: &Namespace,
        name: &str,
    ) -> Result<Option<Triggered>, Error> {
        let card = self.store().card(namespace.as_str(), CARD, name).await?;
        card.as_ref().map(read).transpose()
    }
}

fn on_trigger(name: &str, verb: Verb, actor: &str, version: u64) -> Deed {
    Deed {
        actor: actor.to_owned(),
        verb,
        subject: format!("trigger {name}"),
        reason: String::new(),
        version: Some(version),
        detail: None,
    }
}

fn card(next: &Triggered) -> Write {
    Write::Card(Card {
        namespace: next.namespace.as_str().to_owned(),
        kind: CARD.to_owned(),
        name: next.name.clone(),
        version: next.version,
        due: None,
        record: hook::encode(&next.trigger),
    })
}

fn drop_card(namespace: &Namespace, kind: &str, name: &str, version: u64) -> Write {
    Write::DropCard {
        namespace: namespace.as_str().to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        version,
    }
}

fn read(card: &Card) -> Result<Triggered, Error> {
    let corrupt =
        |what: String| Error::from(StoreError::Corrupt(format!("trigger {}: {what}", card.name)));
    Ok(Triggered {
        namespace: Namespace::stored(&card.namespace)
            .map_err(|error| corrupt(error.to_string()))?,
        name: card.name.clone(),
        version: card.version,
        trigger: hook::decode(&card.record).map_err(corrupt)?,
    })
}
