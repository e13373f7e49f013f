//! Asking people: before an effect is sent, or for their word alone; and deciding from outside.

use std::future::IntoFuture;
use std::pin::Pin;
use std::time::Duration;

use semel_core::effect::Person;
use semel_core::effect::approve::Ask;
use semel_core::key::IntoKey;
use semel_core::record::{self, Answer, Judgement};
use semel_store::Query;
use serde::{Deserialize, Serialize};

use crate::{Effect, Error, Failure, Semel, millis};

/// What an author asks a person for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Approval {
    pub(crate) ask: Ask,
}

impl Approval {
    /// A person decides, however long it takes.
    pub fn required() -> Approval {
        Approval::default()
    }

    /// A person decides within this time; silence is a no (`approval_expired`).
    pub fn within(time: Duration) -> Approval {
        Approval { ask: Ask { expires_ms: Some(millis(time)), ..Ask::default() } }
    }

    /// Who wants it, for whoever decides.
    pub fn requester(mut self, name: impl Into<String>) -> Approval {
        self.ask.requester = Some(name.into());
        self
    }

    /// Who wants it, and may not decide: neither case nor blanks make somebody else.
    pub fn four_eyes(mut self, requester: impl Into<String>) -> Approval {
        self.ask.four_eyes = true;
        self.requester(requester)
    }

    /// What the author says to whoever decides.
    pub fn note(mut self, note: impl Into<String>) -> Approval {
        self.ask.note = Some(note.into());
        self
    }
}

/// A person's yes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approved {
    /// Who said it.
    pub by: String,
    /// When, as RFC 3339.
    pub at: String,
    /// What they said beside it.
    pub note: String,
}

/// A question of a run to a person, with nothing to send. Awaiting it asks; a no is an error with
/// the code `approval_denied`, `approval_returned` or `approval_expired`.
#[must_use = "a question is not asked until it is awaited"]
pub struct Question<'a> {
    effect: Effect<'a>,
    has_key: bool,
    approval: Approval,
}

impl<'a> Question<'a> {
    pub(crate) fn new(effect: Effect<'a>) -> Question<'a> {
        Question { effect, has_key: false, approval: Approval::default() }
    }

    /// A business key: the same question, whichever run asks it. Otherwise each run asks its own.
    pub fn key(mut self, key: impl IntoKey) -> Self {
        self.effect = self.effect.key(key);
        self.has_key = true;
        self
    }

    /// An id of its own for this step, instead of the name and how many came before.
    pub fn id(mut self, id: &str) -> Self {
        self.effect = self.effect.id(id);
        self
    }

    /// How it is asked: for how long, on whose behalf.
    pub fn approval(mut self, approval: Approval) -> Self {
        self.approval = approval;
        self
    }
}

impl<'a> IntoFuture for Question<'a> {
    type Output = Result<Approved, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        let Question { mut effect, has_key, approval } = self;
        if !has_key {
            let (run, id) = effect.place_name();
            effect = effect.key([run, id]);
        }
        let only = Approval { ask: Ask { only: true, ..approval.ask } };
        Box::pin(effect.approval(only).call(|_| async {
            Err::<Approved, _>(Failure::not_applied("a question has nothing to send"))
        }))
    }
}

/// What waits for people, seen from outside.
pub struct Approvals<'a> {
    semel: &'a Semel,
}

impl<'a> Approvals<'a> {
    pub(crate) fn new(semel: &'a Semel) -> Approvals<'a> {
        Approvals { semel }
    }

    /// What nobody has decided yet, newest first, at most so many.
    pub async fn list(&self, most: usize) -> Result<Vec<Asked>, Error> {
        let mut query = Query::all(self.semel.namespace.clone(), most.max(1));
        let mut found = Vec::new();
        loop {
            let page = self.semel.engine.held(&query).await?;
            found.extend(page.effects);
            query.after = page.next;
            if page.next.is_none() || found.len() >= most {
                break;
            }
        }
        found.truncate(most);
        let asked = |effect| Asked { semel: self.semel.clone(), effect };
        Ok(found.into_iter().map(asked).collect())
    }

    /// The question about one effect, as it stands.
    pub async fn find(&self, action: &str, key: impl IntoKey) -> Result<Asked, Error> {
        let effect = self.semel.engine.effect(&self.semel.address(action, key)?).await?;
        Ok(Asked { semel: self.semel.clone(), effect })
    }
}

/// A question as it was loaded: an answer is about exactly this.
#[derive(Clone)]
pub struct Asked {
    semel: Semel,
    effect: record::Effect,
}

/// The answer that stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// Who said what, and when.
    pub judgement: Judgement,
    /// Given now. Otherwise it is the first one, whatever was asked for.
    pub is_new: bool,
}

impl Asked {
    /// What the ledger knows of the effect.
    pub fn effect(&self) -> &record::Effect {
        &self.effect
    }

    /// Names action, contract and the whole input.
    pub fn digest(&self) -> &str {
        self.effect.approval.as_ref().map_or("", |approval| &approval.digest)
    }

    /// Yes, to exactly this.
    pub async fn approve(&self, actor: &str, note: &str) -> Result<Decided, Error> {
        self.decide(Answer::Approved, actor, note).await
    }

    /// No.
    pub async fn deny(&self, actor: &str, reason: &str) -> Result<Decided, Error> {
        self.decide(Answer::Denied, actor, reason).await
    }

    /// Not like this: its author may change it, which is another intent under another key.
    pub async fn send_back(&self, actor: &str, reason: &str) -> Result<Decided, Error> {
        self.decide(Answer::Returned, actor, reason).await
    }

    async fn decide(&self, answer: Answer, actor: &str, note: &str) -> Result<Decided, Error> {
        let version = self.effect.version;
        let person = Person { actor: actor.to_owned(), reason: note.to_owned(), version };
        let (engine, address) = (&self.semel.engine, &self.effect.address);
        let decided = engine.judge(address, &person, answer, self.digest()).await?;
        Ok(Decided { judgement: decided.judgement, is_new: decided.is_new })
    }
}
