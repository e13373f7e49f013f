//! Callbacks: a token by which somebody outside, who knows nothing of runs, answers once. The token
//! is in the journal of its run; beside it lies a card under the token's digest, which says where
//! the answer goes.

use semel_core::code::Code;
use semel_core::journal::{Event, Outcome, blob_digest};
use semel_core::json::Json;
use semel_core::key::Namespace;
use semel_core::limits;
use semel_core::repeats::Door;
use semel_core::run::Refusal;
use semel_store::{Card, Write};
use serde::{Deserialize, Serialize};

use super::drive::{Driver, Halt};
use super::port::Work;
use super::steer::{Signal, Signalled};
use crate::call::is_passing;
use crate::{Engine, Error};

/// The kind of card that a callback is.
pub(crate) const KIND: &str = "callback";

/// Where an answer goes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Callback {
    pub(crate) run: String,
    pub(crate) signal: String,
}

/// The signal that the answer to a callback becomes.
pub fn callback_signal(id: &str) -> String {
    format!("callback {id}")
}

impl Driver {
    /// Gives the code the tokens that it asked for, before anything else is begun: with one in its
    /// hands it may ask for more.
    pub(crate) async fn open_callbacks(&mut self) -> Result<(), Halt> {
        let is_callback = |driver: &Driver, id: &String| matches!(driver.works[id], Work::Callback);
        while let Some(place) = self.unstarted.iter().position(|id| is_callback(self, id)) {
            let id = self.unstarted.remove(place).expect("it was found there");
            self.open_callback(id).await?;
        }
        Ok(())
    }

    /// Draws a token and writes it down. Nobody has seen it before it is durable.
    async fn open_callback(&mut self, id: String) -> Result<(), Halt> {
        let secret = random_hex()?;
        let token = format!("{}.{secret}", self.run.namespace);
        let content = Callback { run: self.run.id.clone(), signal: callback_signal(&id) };
        let now = self.engine.store().ground().now;
        self.ink.also(Write::Card(Card {
            namespace: self.run.namespace.clone(),
            kind: KIND.to_owned(),
            name: blob_digest(&token),
            version: 1,
            due: Some(now.wall.plus(limits::CALLBACK_MS)),
            record: serde_json::to_string(&content).expect("a card is plain data"),
        }));
        let value = self.ink.value(Json::of(&token).map_err(Error::from)?);
        let what = self.issued(&id).what;
        let result = Outcome::Value(value);
        self.happen(Event::Step { id, what, attempts: 1, result }).await.map(|_| ())
    }
}

fn random_hex() -> Result<String, Error> {
    let mut bytes = [0; 24];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::new(Code::Internal, format!("no random numbers: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

impl Engine {
    /// Answers a callback. The first answer stands: the same one again changes nothing, another one
    /// is told so. A token that nobody gave out is not found, whatever is wrong with it.
    pub async fn call_back(&self, token: &str, payload: Json) -> Result<Signalled, Error> {
        let unknown = || Error::new(Code::NotFound, "there is no such callback");
        let (namespace, _) = token.rsplit_once('.').ok_or_else(unknown)?;
        let namespace = Namespace::stored(namespace).map_err(|_| unknown())?;
        let digest = blob_digest(token);
        let card = self.store().card(namespace.as_str(), KIND, &digest).await?;
        let callback: Callback = crate::cards::read_card(&card.ok_or_else(unknown)?)?;
        let signal = Signal {
            namespace,
            run: callback.run,
            name: callback.signal,
            identity: Some(format!("callback {digest}")),
            payload,
        };
        self.signal_by(signal, Door::Callback).await
    }

    /// One that cannot be read stays, for `semel verify` to tell; it must not be in the way of the
    /// others.
    async fn is_callback_open(&self, card: &Card) -> Result<bool, Error> {
        let Ok(callback) = crate::cards::read_card::<Callback>(card) else { return Ok(true) };
        let Ok(namespace) = Namespace::stored(&card.namespace) else { return Ok(true) };
        match self.run(&namespace, &callback.run).await {
            Ok(run) => Ok(!run.state().is_final()),
            Err(error) if error.code() == Refusal::NotFound.code() => Ok(false),
            Err(error) if is_passing(error.code()) => Err(error),
            Err(_) => Ok(true),
        }
    }

    /// Forgets callbacks of runs that have ended long ago.
    pub(crate) async fn sweep_callbacks(&self) -> Result<usize, Error> {
        let mut swept = 0;
        for card in self.store().due_cards(KIND, limits::SWEEP_ROWS_MAX).await? {
            let is_open = self.is_callback_open(&card).await?;
            let write = match is_open {
                true => {
                    let due = self.store().ground().now.wall.plus(limits::CALLBACK_MS);
                    Write::Card(Card { version: card.version + 1, due: Some(due), ..card })
                }
                false => crate::once::drop_card(card),
            };
            swept += usize::from(self.commit(write.into()).await.is_ok());
        }
        Ok(swept)
    }
}
