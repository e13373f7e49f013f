//! Telling people that they are waited for: looks for occasions and plans one effect for each.
//! Sending it is for the handler of that action.

use std::collections::HashSet;
use std::sync::Weak;

use semel_core::contract::Declared;
use semel_core::effect::{self, Begin, Intended, State};
use semel_core::fingerprint::Rule;
use semel_core::key::{Address, Key, Namespace};
use semel_core::limits;
use semel_core::notice::{self, Notice};
use semel_core::run;
use semel_store::{Query, RunQuery};

use crate::commit::Stopped;
use crate::{Engine, Error, Inner};

/// Pages of one look: what is beyond waits for the next.
const PAGES_MAX: usize = 20;
/// Occasions that a process remembers to have seen to, so as not to ask the store again.
const TOLD_MAX: usize = 10_000;

/// What one process has seen to.
#[derive(Default)]
pub struct Told(HashSet<Key>);

impl Engine {
    /// Looks for occasions in a namespace from now on, every five seconds, until the last handle to
    /// the engine is gone. Without a handler for the notices they wait for one.
    pub fn start_notifying(&self, namespace: Namespace, declared: Declared) {
        tokio::spawn(look_for_ever(std::sync::Arc::downgrade(&self.inner), namespace, declared));
    }

    /// One look: plans a notice for every occasion that has none yet. Returns how many there were;
    /// two who look at the same moment may count the same one.
    pub async fn notify(
        &self,
        namespace: &Namespace,
        declared: Declared,
        told: &mut Told,
    ) -> Result<usize, Error> {
        if told.0.len() > TOLD_MAX {
            told.0.clear();
        }
        let mut planned = 0;
        for notice in self.occasions(namespace).await? {
            if !told.0.contains(&notice.key) {
                let key = notice.key.clone();
                planned += usize::from(self.plan_notice(namespace, declared, notice).await?);
                told.0.insert(key);
            }
        }
        Ok(planned)
    }

    /// All that people have to be told of now.
    async fn occasions(&self, namespace: &Namespace) -> Result<Vec<Notice>, Error> {
        let mut found = Vec::new();
        for state in [State::Planned, State::InDoubt] {
            let mut query = Query::all(namespace.clone(), limits::SWEEP_ROWS_MAX);
            query.state = Some(state);
            for _ in 0..PAGES_MAX {
                let page = match state {
                    State::Planned => self.held(&query).await?,
                    _ => self.list(&query).await?,
                };
                let now = self.store().ground().now;
                found.extend(page.effects.iter().filter_map(|row| notice::of_effect(row, &now)));
                query.after = page.next;
                if page.next.is_none() {
                    break;
                }
            }
        }
        let mut query = RunQuery::everywhere(limits::SWEEP_ROWS_MAX);
        query.namespace = Some(namespace.as_str().to_owned());
        query.state = Some(run::State::Paused);
        for _ in 0..PAGES_MAX {
            let page = self.runs(&query).await?;
            found.extend(page.runs.iter().filter_map(notice::of_run));
            query.after = page.next;
            if page.next.is_none() {
                break;
            }
        }
        Ok(found)
    }

    /// Writes one notice down, unless anybody has. `false`: somebody has.
    async fn plan_notice(
        &self,
        namespace: &Namespace,
        declared: Declared,
        notice: Notice,
    ) -> Result<bool, Error> {
        let Notice { key, input } = notice;
        let address = Address { namespace: namespace.clone(), action: notice::action(), key };
        if self.store().load(&address).await?.is_some() {
            return Ok(false);
        }
        let ask = Begin {
            address,
            input,
            rule: Rule::All,
            declared,
            downstream_key: None,
            attempt_id: String::new(),
            worker: String::new(),
            session: None,
            can_look: false,
            workflow: None,
            run: None,
            approval: None,
            undoes: None,
            derived: None,
            shape: None,
        };
        let ground = self.store().ground();
        let Intended::Planned(effect) = effect::intend(None, &ask, &ground)? else {
            return Ok(false);
        };
        match self.write(&effect, &ground).await {
            Ok(()) => Ok(true),
            Err(Stopped::Stale(_)) => Ok(false),
            Err(Stopped::Error(error)) => Err(error),
        }
    }
}

async fn look_for_ever(inner: Weak<Inner>, namespace: Namespace, declared: Declared) {
    let mut told = Told::default();
    while let Some(inner) = inner.upgrade() {
        let engine = Engine { inner, identity: None, actor: None };
        if let Err(error) = engine.notify(&namespace, declared, &mut told).await {
            tracing::warn!(%namespace, %error, "a look for people's occasions failed");
        }
        let clock = engine.store().clock().clone();
        // Nothing of the engine is held while this sleeps.
        drop(engine);
        clock.sleep_ms(limits::NOTICE_LOOK_MS).await;
    }
}
