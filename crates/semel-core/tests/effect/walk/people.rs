//! What people do on the walk: they answer what they are asked, and decide on doubts.

use super::*;

impl Walk {
    /// The first caller asks, and so do some of the later ones.
    pub(super) fn approval(&mut self) -> Option<Ask> {
        let is_known = self.world.rows.last().is_some_and(|row| row.approval.is_some());
        let asks = self.asks && (!is_known || self.world.chance.percent(50));
        let expires = asks && self.world.chance.percent(50);
        let expires_ms = expires.then(|| 1 + self.world.chance.below(3_600_000));
        asks.then(|| Ask { expires_ms, ..Ask::default() })
    }

    /// A person answers what is shown, or what was shown before.
    pub(super) fn judge(&mut self) {
        let now = self.world.now();
        let Some(effect) = self.world.rows.last().cloned() else { return };
        let answer = match self.world.chance.below(10) {
            0 => Word::Denied,
            1 => Word::Returned,
            _ => Word::Approved,
        };
        self.answer(&effect, answer, &now);
    }

    pub(super) fn answer(&mut self, effect: &Effect, answer: Word, now: &Moment) {
        let Some(approval) = &effect.approval else { return };
        let person = self.person(effect);
        let old = approve::judge(effect, &person, answer, "another", now);
        assert!(!old.is_ok_and(|judged| judged.is_new), "{}: decided unseen", self.at);
        let Ok(judged) = approve::judge(effect, &person, answer, &approval.digest, now) else {
            return;
        };
        if judged.is_new && answer == Word::Approved {
            let plan = effect.plan.as_ref().expect("there is something to approve");
            let seen = (plan.terms.contract.name(), plan.input.clone());
            self.yes.insert(effect.generation, seen);
        }
        if let Some(next) = judged.effect {
            self.keep(next);
        }
    }

    pub(super) fn person(&self, effect: &Effect) -> Person {
        let (actor, reason) = ("ada".into(), "seen at the provider".into());
        Person { actor, reason, version: effect.version }
    }

    /// A person looks at the destination and says what is there, once the window has passed.
    pub(super) fn decide(&mut self) {
        let now = self.world.now();
        let Some(effect) = self.world.rows.last().cloned() else { return };
        let person = self.person(&effect);
        if self.world.quarantine.is_some() && !self.world.is_quiet() {
            return; // `resolve` cannot know of requests that the store has forgotten
        }
        let key = effect.plan.as_ref().map(|plan| plan.downstream_key.clone());
        let found = key.map(|key| self.world.objects(&key)).unwrap_or_default();
        let is_blind = self.honesty == Honesty::Careless && self.world.chance.percent(50);
        let retry = effect::resolve(&effect, &person, &Resolution::Retry, &now);
        let next = match found.first() {
            _ if is_blind => {
                self.blind_retries += usize::from(retry.is_ok());
                retry
            }
            Some(object) => {
                effect::resolve(&effect, &person, &Resolution::Done(json(object)), &now)
            }
            // Whoever would be told "too early" does not yet know that it failed, either.
            None if retry.is_ok() && self.world.is_quiet() && self.world.chance.percent(30) => {
                effect::resolve(&effect, &person, &Resolution::Failed, &now)
            }
            None => retry,
        };
        if let Ok(next) = next {
            self.keep(next);
        }
    }

    pub(super) fn supersede_or_void(&mut self) {
        let now = self.world.now();
        let Some(effect) = self.world.rows.last().cloned() else { return };
        let person = self.person(&effect);
        if let Ok((old, new)) = effect::supersede(&effect, &person, &now) {
            self.keep(old);
            self.world.rows.push(new);
        } else if let Ok(next) = effect::void(&effect, &person, &now)
            && self.world.quarantine.is_none()
        {
            self.yes.remove(&next.generation);
            self.keep(next);
        }
    }
}
