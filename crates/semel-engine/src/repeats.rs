//! Counting repeats. A caller only adds to a count in memory; the job writes what was counted about
//! once a second, and the engine when it closes. What a crash takes with it is not counted.

use std::collections::HashMap;
use std::sync::Mutex;

use futures_util::future::join_all;
use semel_core::key::{Action, Address, Key, Namespace};
use semel_core::limits;
use semel_core::repeats::{CARD, Door, Repeats, Subject};
use semel_store::{Card, Write};

use crate::call::is_passing;
use crate::commit::Stopped;
use crate::{Engine, Error, Inner, lock, measure};

/// What was counted and is not written yet.
pub(crate) type Counting = Mutex<HashMap<Subject, Repeats>>;

/// Cards that are written at once: each group of them is one commit of the store.
const AT_ONCE: usize = 64;

impl Engine {
    /// Counts one repeat. Never waits.
    pub fn note_repeat(&self, subject: Subject, door: Door) {
        measure::suppressed(door);
        let at = self.store().ground().now.wall;
        let count = {
            let mut counting = lock(&self.inner.repeats);
            if counting.len() >= 2 * limits::REPEATS_SUBJECTS_MAX
                && !counting.contains_key(&subject)
            {
                return;
            }
            let count = counting.entry(subject).or_insert_with_key(Repeats::of);
            count.note(door, at);
            counting.len()
        };
        // Once, when the bound is reached; the job takes what comes after it.
        if count == limits::REPEATS_SUBJECTS_MAX
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let engine = self.clone();
            runtime.spawn(async move { engine.write_repeats().await });
        }
    }

    /// Writes what was counted. What cannot be written is left out: a count is a lower bound.
    pub async fn write_repeats(&self) {
        let counted = std::mem::take(&mut *lock(&self.inner.repeats));
        let counted: Vec<_> = counted.into_iter().collect();
        for some in counted.chunks(AT_ONCE) {
            let written = some.iter().map(|(subject, more)| self.add_repeats(subject, more));
            for error in join_all(written).await.into_iter().filter_map(Result::err) {
                tracing::debug!(%error, "repeats were not counted");
            }
        }
    }

    async fn add_repeats(&self, subject: &Subject, more: &Repeats) -> Result<(), Error> {
        for _ in 0..limits::COMMIT_TRIES_MAX {
            let kept = self.kept::<Repeats>(subject.namespace(), CARD, &subject.card()).await?;
            let sum = kept.content.with(more, self.inner.chance.attempt_id());
            let due = self.store().ground().now.wall.plus(limits::REPEATS_MS);
            match self.commit(kept.write(&sum, Some(due)).into()).await {
                Ok(()) => return Ok(()),
                Err(Stopped::Stale(_)) => {}
                Err(Stopped::Error(error)) => return Err(error),
            }
        }
        Ok(())
    }

    /// Forgets counts whose effect or run is gone.
    pub(crate) async fn sweep_repeats(&self) -> Result<usize, Error> {
        let mut swept = 0;
        for card in self.store().due_cards(CARD, limits::SWEEP_ROWS_MAX).await? {
            // One that cannot be read is for `semel verify` to tell; it is out of the others' way.
            let is_there = match self.is_still_there(&card).await {
                Err(error) if is_passing(error.code()) => return Err(error),
                found => found.unwrap_or(true),
            };
            let write = match is_there {
                true => {
                    let due = self.store().ground().now.wall.plus(limits::REPEATS_MS);
                    Write::Card(Card { version: card.version + 1, due: Some(due), ..card })
                }
                false => crate::once::drop_card(card),
            };
            swept += usize::from(self.commit(write.into()).await.is_ok());
        }
        Ok(swept)
    }

    async fn is_still_there(&self, card: &Card) -> Result<bool, Error> {
        let repeats: Repeats = crate::cards::read_card(card)?;
        if let Some(run) = &repeats.run {
            return Ok(self.store().run(&card.namespace, run).await?.is_some());
        }
        let Some((action, key)) = &repeats.effect else { return Ok(false) };
        let address = Address {
            namespace: Namespace::stored(&card.namespace)?,
            action: Action::new(action)?,
            key: Key::parse(key)?,
        };
        Ok(self.store().load(&address).await?.is_some())
    }
}

impl Drop for Inner {
    /// The last counts are written by a task that keeps only the store, where there still is
    /// somebody to run it.
    fn drop(&mut self) {
        let counted = std::mem::take(&mut *lock(&self.repeats));
        let delivered = std::mem::take(&mut *lock(&self.deliveries));
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if counted.is_empty() && delivered.is_empty() {
            return;
        }
        let Ok(closing) = Engine::new(self.store.clone(), self.worker.clone()) else { return };
        runtime.spawn(async move {
            *lock(&closing.inner.deliveries) = delivered;
            closing.write_deliveries().await;
            for (subject, more) in counted {
                // Not counted again: dropping this engine finds nothing to write.
                let _ = closing.add_repeats(&subject, &more).await;
            }
        });
    }
}
