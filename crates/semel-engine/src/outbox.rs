//! The outbox: intents that users' own transactions wrote become planned effects, in any process
//! that brings the code for their action. Handlers do the rest.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use semel_core::code::Code;
use semel_core::effect::{self, Begin, Ground, Intended};
use semel_core::json::Json;
use semel_core::key::{Action, Address, Namespace};
use semel_core::record::{Contract, Effect};
use semel_core::repeats::{Door, Subject};
use semel_store::postgres::{OutboxRow, Verdict};

use crate::{Engine, Error, Handler, Own};

/// Batches of one turn: what is left waits for the next, and lapses are looked at in between.
const BATCHES_MAX: usize = 20;

type Handlers = HashMap<(Namespace, Action), Arc<Handler>>;

impl Engine {
    /// Forwards what waits for the handlers of this process. Returns how many effects were planned.
    pub async fn forward(&self) -> Result<usize, Error> {
        let Own::Postgres(postgres) = &self.inner.own else { return Ok(0) };
        let handlers = self.forwarding();
        let mut actions: Vec<_> = handlers.keys().cloned().collect();
        let judge =
            |row: &OutboxRow, address: &Address, stored: Option<&Effect>, ground: &Ground| {
                self.judge_intent(&handlers, row, address, stored, ground)
            };
        let mut planned = 0;
        for _ in 0..BATCHES_MAX {
            let forwarded = postgres.forward(&actions, &judge).await?;
            planned += forwarded.planned.len();
            if forwarded.refused > 0 {
                tracing::warn!(count = forwarded.refused, "intents stay in the outbox, refused");
            }
            forwarded.planned.iter().for_each(|effect| self.inner.flights.publish(effect));
            for address in forwarded.same {
                self.note_repeat(Subject::Effect(address), Door::Outbox);
            }
            if !forwarded.is_full {
                break;
            }
            // A batch begins with the first: each has its turn to be it.
            actions.rotate_left(1);
        }
        Ok(planned)
    }

    /// Handlers whose terms an effect can be planned under. What is for others waits.
    fn forwarding(&self) -> Handlers {
        let handlers = self.inner.handlers.read().unwrap_or_else(PoisonError::into_inner);
        let can_plan = |handler: &Handler| {
            let terms = handler.declared.terms();
            terms.is_ok_and(|terms| terms.contract != Contract::Transaction)
        };
        let able = handlers.iter().filter(|(_, handler)| can_plan(handler));
        able.map(|(name, handler)| (name.clone(), handler.clone())).collect()
    }

    /// What becomes of an intent.
    fn judge_intent(
        &self,
        handlers: &Handlers,
        row: &OutboxRow,
        address: &Address,
        stored: Option<&Effect>,
        ground: &Ground,
    ) -> Verdict {
        let input = match Json::from_text(row.input.as_str()) {
            Ok(input) => input,
            Err(error) => return Verdict::Refuse(Code::InputInvalid, error.to_string()),
        };
        let handler = handlers.get(&(address.namespace.clone(), address.action.clone()));
        let planning = handler.map(|handler| handler.planning.clone()).unwrap_or_default();
        if let Some(part) = &planning.only_by_call {
            let text =
                format!("an outbox cannot plan this effect: {part}; call the effect instead");
            return Verdict::Refuse(Code::TermsInvalid, text);
        }
        let mut ask = Begin {
            address: address.clone(),
            input,
            rule: planning.rule,
            declared: handler.map(|handler| handler.terms()).unwrap_or_default(),
            downstream_key: None,
            attempt_id: String::new(),
            worker: String::new(),
            session: None,
            can_look: false,
            workflow: row.workflow.clone(),
            run: None,
            approval: planning.approval,
            undoes: None,
            derived: None,
            shape: planning.shape,
        };
        self.redact_begin(&mut ask);
        match effect::intend(stored, &ask, ground) {
            Ok(Intended::Planned(effect)) => Verdict::Plan(effect),
            Ok(Intended::Same) => Verdict::Same,
            Err(refusal) => Verdict::Refuse(refusal.code(), refusal.to_string()),
        }
    }
}
