//! What people decide before anything is sent, and what waits for them.

use semel_core::audit::Deed;
use semel_core::code::Code;
use semel_core::effect::approve::{self, Judged};
use semel_core::effect::{Person, Refusal};
use semel_core::key::Address;
use semel_core::limits;
use semel_core::record::{Answer, Effect, Judgement};
use semel_core::repeats::{Door, Subject};
use semel_store::{Page, Query};

use crate::commit::Stopped;
use crate::{Engine, Error, audit};

/// The answer that stands.
#[derive(Clone, Debug)]
pub struct Decided {
    pub effect: Effect,
    pub judgement: Judgement,
    /// Given now, by whoever asked. Otherwise it is the first one, whatever was asked for.
    pub is_new: bool,
}

impl Engine {
    /// Answers the question that holds an effect. The digest names the payload that the person saw.
    /// Decided once: later and concurrent answers get the first. Runs that wait are woken by the
    /// same commit.
    pub async fn judge(
        &self,
        address: &Address,
        person: &Person,
        answer: Answer,
        digest: &str,
    ) -> Result<Decided, Error> {
        self.judge_where(address, person, answer, digest, |_| true).await
    }

    /// The same, for whoever may answer some questions only: what is not among them is not found.
    pub(crate) async fn judge_where(
        &self,
        address: &Address,
        person: &Person,
        answer: Answer,
        digest: &str,
        may: impl Fn(&Effect) -> bool,
    ) -> Result<Decided, Error> {
        let person = &*self.redacted_person(person);
        let mut stored = self.store().load(address).await?;
        for _ in 0..limits::COMMIT_TRIES_MAX {
            let ground = self.store().ground();
            let effect = stored.filter(&may).ok_or(Refusal::NotFound)?;
            let judged = approve::judge(&effect, person, answer, digest, &ground.now)?;
            let Judged { effect: next, judgement, is_new } = judged;
            let Some(next) = next else {
                if !is_new {
                    self.note_repeat(Subject::Effect(address.clone()), Door::Approval);
                }
                return Ok(Decided { effect, judgement, is_new });
            };
            let verb = audit::verb_of_answer(judgement.answer).filter(|_| is_new);
            let deed = verb.map(|verb| {
                let (detail, version) = (Some(digest.to_owned()), Some(effect.version));
                Deed { detail, version, ..audit::on_effect(&effect, person, verb) }
            });
            match self.write_as(&next, &ground, deed.as_ref()).await {
                Ok(()) => return Ok(Decided { effect: next, judgement, is_new }),
                Err(Stopped::Stale(current)) => stored = current.map(|effect| *effect),
                Err(Stopped::Error(error)) => return Err(error),
            }
        }
        Err(Error::new(Code::StoreBusy, "the effect kept changing"))
    }

    /// Effects that wait for a person, newest first. Those whose time is over and that nobody has
    /// written down yet are left out, so a page may have fewer than asked for: `next` says.
    pub async fn held(&self, query: &Query) -> Result<Page, Error> {
        let held = Query { state: None, held: true, ..query.clone() };
        let mut page = self.list(&held).await?;
        let now = self.store().ground().now;
        page.effects.retain(|effect| effect.is_held(&now));
        Ok(page)
    }
}
