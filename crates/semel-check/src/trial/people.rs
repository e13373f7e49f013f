//! Whoever answers what a run waits for: people, other systems, and agents that report back.

use semel::{Code, Error, Json};
use semel_core::effect::Person;
use semel_core::journal::{self, Event, Outcome, Value};
use semel_core::key::{Action, Address, Key, Namespace};
use semel_core::record::Answer;
use semel_core::run::{On, Run, Wait};
use semel_engine::{Engine, Signal};

/// Something that a run waits for, as the hook of [`super::Check::respond`] sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// A person's yes to an effect, or to a question.
    Approval {
        /// The kind of effect.
        action: String,
        /// The key of the effect.
        key: String,
    },
    /// A signal of this name.
    Signal(String),
    /// The answer to a callback, by the name of the callback.
    Callback(String),
}

/// What it gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    /// Yes to an approval; `null` to all else.
    Yes,
    /// No to an approval, by this reason.
    No(String),
    /// This, as a signal or as the answer to a callback.
    Value(Json),
    /// Nothing: the run goes on waiting.
    Nothing,
}

/// Who decides: nobody that a workflow would name as the one who asked.
const PERSON: &str = "semel check";

/// A wait that was answered.
pub(super) struct Answered {
    pub(super) waiting: Waiting,
    /// The repeat that was asked for got another answer than the first.
    pub(super) is_other: bool,
}

impl Waiting {
    /// How cases name it.
    pub(super) fn name(&self) -> String {
        match self {
            Waiting::Approval { action, key } => format!("{action}/{key}"),
            Waiting::Signal(name) | Waiting::Callback(name) => name.clone(),
        }
    }
}

/// What a wait of a run is to people: `None` when it is no affair of theirs.
pub(super) async fn waiting(
    engine: &Engine,
    run: &Run,
    wait: &Wait,
) -> Result<Option<Waiting>, Error> {
    Ok(match &wait.on {
        On::Signal(name) => Some(match name.strip_prefix("callback ") {
            Some(id) => Waiting::Callback(id.strip_suffix("#0").unwrap_or(id).to_owned()),
            None => Waiting::Signal(name.clone()),
        }),
        On::Effect { action, key } => {
            let effect = engine.effect(&address(run, action, key)?).await?;
            let is_held = effect.is_held(&engine.store().ground().now);
            is_held.then(|| Waiting::Approval { action: action.clone(), key: key.clone() })
        }
        On::Timer | On::Retry | On::Slot(_) | On::Child(_) | On::Entity(_) => None,
    })
}

/// Gives the answer, as often as is wished.
pub(super) async fn answer(
    engine: &Engine,
    run: &Run,
    wait: &Wait,
    waiting: Waiting,
    response: &Response,
    times: u32,
) -> Result<Answered, Error> {
    let mut is_other = false;
    for time in 1..=times {
        let is_first = match (&waiting, &wait.on) {
            (Waiting::Approval { .. }, On::Effect { action, key }) => {
                judge(engine, &address(run, action, key)?, response).await?
            }
            (Waiting::Callback(_), On::Signal(name)) => {
                call_back(engine, run, name, &payload(response)).await?
            }
            (_, On::Signal(name)) => signal(engine, run, &wait.id, name, payload(response)).await?,
            _ => return Err(Error::new(Code::Internal, "a wait changed under its answer")),
        };
        // The first is new, and every other hears of the first.
        is_other |= is_first != (time == 1);
    }
    Ok(Answered { waiting, is_other })
}

fn payload(response: &Response) -> Json {
    match response {
        Response::Value(value) => value.clone(),
        Response::No(reason) => Json::of(reason).unwrap_or_else(|_| Json::null()),
        Response::Yes | Response::Nothing => Json::null(),
    }
}

async fn judge(engine: &Engine, address: &Address, response: &Response) -> Result<bool, Error> {
    let effect = engine.effect(address).await?;
    let digest = effect.approval.as_ref().map(|one| one.digest.clone()).unwrap_or_default();
    let (answer, reason) = match response {
        Response::No(reason) => (Answer::Denied, reason.clone()),
        Response::Yes | Response::Value(_) | Response::Nothing => {
            (Answer::Approved, "as it would be".to_owned())
        }
    };
    let person = Person { actor: PERSON.to_owned(), reason, version: effect.version };
    let decided = engine.judge(address, &person, answer, &digest).await?;
    Ok(decided.is_new)
}

async fn signal(
    engine: &Engine,
    run: &Run,
    identity: &str,
    name: &str,
    payload: Json,
) -> Result<bool, Error> {
    let signal = Signal {
        namespace: Namespace::stored(&run.namespace)?,
        run: run.id.clone(),
        name: name.to_owned(),
        identity: Some(identity.to_owned()),
        payload,
    };
    Ok(!engine.signal(signal).await?.repeated)
}

async fn call_back(engine: &Engine, run: &Run, name: &str, payload: &Json) -> Result<bool, Error> {
    let token = token(engine, run, name).await?;
    Ok(!engine.call_back(&token, payload.clone()).await?.repeated)
}

/// The token is in the journal, as the value of its step.
async fn token(engine: &Engine, run: &Run, name: &str) -> Result<String, Error> {
    for inked in engine.journal(run).await? {
        let Ok(entry) = journal::decode(&inked.text) else { continue };
        if let Event::Step { id, result: Outcome::Value(Value::Json(value)), .. } = entry.event
            && semel_engine::callback_signal(&id) == name
            && let Ok(token) = serde_json::from_str(value.text())
        {
            return Ok(token);
        }
    }
    Err(Error::new(Code::NotFound, format!("no token for {name}")))
}

pub(super) fn address(run: &Run, action: &str, key: &str) -> Result<Address, Error> {
    Ok(Address {
        namespace: Namespace::stored(&run.namespace)?,
        action: Action::new(action)?,
        key: Key::parse(key)?,
    })
}
