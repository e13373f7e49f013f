//! Links by which a person answers a question without an account: made, followed, forgotten.

use semel_core::approval_link::{self, CARD, Link, Presented, Wish};
use semel_core::audit::{Deed, Verb};
use semel_core::code::Code;
use semel_core::effect::{Person, Refusal};
use semel_core::key::Address;
use semel_core::limits;
use semel_core::record::{Answer, Effect};
use semel_store::{Card, Write};

use crate::approvals::Decided;
use crate::commit::Stopped;
use crate::{Engine, Error, audit};

/// What a link leads to.
#[derive(Clone, Debug)]
pub struct Question {
    pub link: Link,
    /// In the generation that was asked about.
    pub effect: Effect,
    /// What a form on its page must bring along.
    pub form_value: String,
    /// The link may no longer decide.
    pub is_over: bool,
}

impl Engine {
    /// Makes a link to the open question about an effect. Its text is returned, and stored nowhere.
    pub async fn create_approval_link(
        &self,
        address: &Address,
        wish: Wish<'_>,
    ) -> Result<(String, Link), Error> {
        for _ in 0..limits::COMMIT_TRIES_MAX {
            let effect = self.effect(address).await?;
            let now = self.store().ground().now;
            let (token, link) = approval_link::mint(&effect, wish, secret()?, &now)?;
            let person = Person {
                actor: link.maker.clone(),
                reason: String::new(),
                version: effect.version,
            };
            let deed = audit::on_effect(&effect, &person, Verb::CreateApprovalLink);
            let deed = Deed { detail: Some(format!("for {}", link.approver)), ..deed };
            let namespace = address.namespace.as_str();
            let card = Write::Card(Card {
                namespace: namespace.to_owned(),
                kind: CARD.to_owned(),
                name: approval_link::card_name(&token),
                version: 1,
                due: Some(link.expires.plus(limits::APPROVAL_LINK_KEPT_MS)),
                record: serde_json::to_string(&link).expect("a link is plain data"),
            });
            match self.commit_audited(vec![card], namespace, &deed, now.wall).await {
                Ok(()) => return Ok((token, link)),
                Err(Stopped::Stale(_)) => {}
                Err(Stopped::Error(error)) => return Err(error),
            }
        }
        Err(Error::new(Code::StoreBusy, "the audit chain kept growing"))
    }

    /// Follows a link. Whatever is wrong with it, the answer is the same: it is not found.
    pub async fn follow_approval_link(&self, token: &str) -> Result<Question, Error> {
        let presented = Presented::read(token).ok_or_else(unknown)?;
        let (link, address) = self.read_link(&presented).await?;
        let effect = match self.generation(&address, link.generation).await {
            Ok(effect) => effect,
            Err(error) if error.code() == Code::NotFound => return Err(unknown()),
            Err(error) => return Err(error),
        };
        if !link.asks(&effect) {
            return Err(unknown());
        }
        let is_over = link.is_over(&self.store().ground().now);
        let form_value = presented.form_value(&link);
        Ok(Question { link, effect, form_value, is_over })
    }

    /// Answers by a link, in the name of the one that it was made for. Of several answers the first
    /// stands, and all are told it.
    pub async fn judge_by_link(
        &self,
        token: &str,
        answer: Answer,
        note: &str,
    ) -> Result<Decided, Error> {
        let Question { link, effect, .. } = self.follow_approval_link(token).await?;
        let now = self.store().ground().now;
        if link.is_over(&now) && effect.is_held(&now) {
            return Err(Error::new(Code::Expired, "the link has ended"));
        }
        let (actor, reason) = (link.approver.clone(), note.to_owned());
        let person = Person { actor, reason, version: effect.version };
        // Between the look and the decision the question may have become another one.
        let asks = |effect: &Effect| link.asks(effect);
        self.judge_where(&effect.address, &person, answer, &link.digest, asks).await
    }

    async fn read_link(&self, presented: &Presented) -> Result<(Link, Address), Error> {
        let namespace = presented.namespace.as_str();
        let card = self.store().card(namespace, CARD, &presented.card).await?;
        let link: Link = crate::cards::read_card(&card.ok_or_else(unknown)?)?;
        let address = presented.leads_to(&link).ok_or_else(unknown)?;
        Ok((link, address))
    }

    /// Forgets links that have ended long ago.
    pub(crate) async fn sweep_links(&self) -> Result<usize, Error> {
        let mut swept = 0;
        for card in self.store().due_cards(CARD, limits::SWEEP_ROWS_MAX).await? {
            let dropped = self.commit(crate::once::drop_card(card).into()).await;
            swept += usize::from(dropped.is_ok());
        }
        Ok(swept)
    }
}

fn unknown() -> Error {
    Refusal::NotFound.into()
}

fn secret() -> Result<[u8; 32], Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::new(Code::Internal, format!("no random numbers: {error}")))?;
    Ok(bytes)
}
