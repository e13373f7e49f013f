//! Tokens: made, listed and revoked, each an entry of the audit chain.

use semel_core::access::{self, CARD, Role, Token};
use semel_core::audit::{Deed, Verb};
use semel_core::code::Code;
use semel_core::effect::Refusal;
use semel_core::key::Namespace;
use semel_core::limits;
use semel_store::{Card, CardQuery, Write};

use crate::cards::{Listed, read_card};
use crate::commit::Stopped;
use crate::{Engine, Error};

impl Engine {
    /// Makes a token. Its text is returned, and stored nowhere.
    pub async fn create_token(
        &self,
        namespace: &Namespace,
        whose: (&str, Role),
        expires_ms: Option<u64>,
        actor: &str,
    ) -> Result<(String, Token), Error> {
        let now = self.store().ground().now.wall;
        let (mut id, mut secret) = ([0; 6], [0; 32]);
        for bytes in [&mut id[..], &mut secret[..]] {
            getrandom::fill(bytes).map_err(|error| {
                Error::new(Code::Internal, format!("no random numbers: {error}"))
            })?;
        }
        let expires = expires_ms.map(|ms| now.plus(ms));
        let (text, token) = access::mint(namespace, whose, (id, secret), now, expires);
        let detail = format!("{} {}", token.role.as_str(), token.label);
        let deed = deed(&token, actor, Verb::CreateToken, &detail);
        self.write_token(namespace, &token, 1, &deed).await?;
        Ok((text, token))
    }

    /// All tokens of a namespace, without their secrets.
    pub async fn tokens(&self, namespace: &Namespace) -> Result<Listed<Token>, Error> {
        let mut query = CardQuery {
            namespace: Some(namespace.live().as_str().to_owned()),
            kind: CARD.to_owned(),
            after: None,
            limit: limits::PAGE_ROWS_MAX,
        };
        let mut listed = Listed::new();
        loop {
            let page = self.store().cards(&query).await?;
            listed.add(&page, read_card)?;
            query.after = page.next;
            if query.after.is_none() {
                return Ok(listed);
            }
        }
    }

    /// Ends a token at once. Repeated, the first end stands.
    pub async fn revoke_token(
        &self,
        namespace: &Namespace,
        id: &str,
        actor: &str,
    ) -> Result<Token, Error> {
        for _ in 0..limits::COMMIT_TRIES_MAX {
            let namespace = namespace.live();
            let card = self.store().card(namespace.as_str(), CARD, id).await?;
            let card = card.ok_or(Refusal::NotFound)?;
            let token: Token = read_card(&card)?;
            if token.revoked.is_some() {
                return Ok(token);
            }
            let revoked = access::revoke(&token, self.store().ground().now.wall);
            let deed = deed(&revoked, actor, Verb::RevokeToken, &token.label);
            match self.write_token(&namespace, &revoked, card.version + 1, &deed).await {
                Ok(()) => return Ok(revoked),
                Err(error) if error.code() == Code::StoreBusy => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::new(Code::StoreBusy, "the token kept changing"))
    }

    async fn write_token(
        &self,
        namespace: &Namespace,
        token: &Token,
        version: u64,
        deed: &Deed,
    ) -> Result<(), Error> {
        let namespace = namespace.live();
        let card = Card {
            namespace: namespace.as_str().to_owned(),
            kind: CARD.to_owned(),
            name: token.id.clone(),
            version,
            due: None,
            record: serde_json::to_string(token).expect("a token is plain data"),
        };
        let at = self.store().ground().now.wall;
        let writes = vec![Write::Card(card)];
        match self.commit_audited(writes, namespace.as_str(), deed, at).await {
            Ok(()) => Ok(()),
            Err(Stopped::Stale(_)) => Err(Error::new(Code::StoreBusy, "the chain kept growing")),
            Err(Stopped::Error(error)) => Err(error),
        }
    }
}

fn deed(token: &Token, actor: &str, verb: Verb, detail: &str) -> Deed {
    Deed {
        actor: actor.to_owned(),
        verb,
        subject: format!("token {}", token.id),
        reason: String::new(),
        version: None,
        detail: Some(detail.to_owned()),
    }
}
