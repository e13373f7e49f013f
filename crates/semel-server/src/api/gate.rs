//! The ledger for no-code callers: flat JSON, one word, and 200 where the ledger has an answer,
//! since their tools take anything else for a crash.

use semel_core::access::Permission;
use semel_core::code::Code;
use semel_core::effect::{Report, Settle, State};
use semel_core::key::Address;
use semel_core::repeats::{Door, Subject};
use semel_core::wire::GateView;
use semel_core::wire_ask::{ContractAsk, GateAsk, GateDoneAsk, GateFailedAsk};
use semel_core::{derive, json::Json};
use semel_engine::{Answer, Armed};

use super::effects::{begun, read_id};
use crate::openapi::Operation;
use crate::problem::Problem;
use crate::route::Access::Needs;
use crate::route::{Call, Reply, Route};

pub(super) fn routes() -> Vec<Route> {
    let perform = Needs(Permission::Perform);
    let op = Operation::new;
    vec![
        Route::post(
            "/v1/gate",
            perform,
            op("gate", "May I do it? go, done, wait, in_doubt or failed")
                .takes::<GateAsk>()
                .returns::<GateView>(),
            ask,
        ),
        Route::post(
            "/v1/gate/{id}/done",
            perform,
            op("gate_done", "It is done").takes::<GateDoneAsk>().optional().returns::<GateView>(),
            done,
        ),
        Route::post(
            "/v1/gate/{id}/failed",
            perform,
            op("gate_failed", "It did not work").takes::<GateFailedAsk>().returns::<GateView>(),
            failed,
        ),
    ]
}

async fn ask(call: Call) -> Result<Reply, Problem> {
    let ask: GateAsk = call.ask()?;
    if matches!(ask.contract, Some(ContractAsk::Probe { .. })) {
        let text = "`contract`: whoever asks at the gate cannot look; use /v1/effects/begin";
        return Err(Problem::new(Code::RequestInvalid, text));
    }
    let begin = ask.begin();
    let begin_of = begin.begin(&call.who.namespace, &call.who.actor)?;
    let id = derive::effect_ref(&begin_of.address, 0);
    let (body, is_replay) = match begun(&call, &begin, call.app.settings.limits.hold_ms).await {
        Ok((address, Answer::Probe(look))) => (leave_look(&call, &address, &look).await?, false),
        Ok((address, answer)) => {
            let is_replay = matches!(answer, Answer::Replay(_) | Answer::Failed(_));
            (decided(&call, &address, answer), is_replay)
        }
        Err(problem) => (refused(&id, problem)?, false),
    };
    Ok(Reply::ok(&body).replayed(is_replay))
}

fn decided(call: &Call, address: &Address, answer: Answer) -> GateView {
    let repeated = |decision| {
        call.app.engine.note_repeat(Subject::Effect(address.clone()), Door::Gate);
        GateView { decision, id: derive::effect_ref(address, 0), ..GateView::default() }
    };
    match answer {
        Answer::Attempt(armed) | Answer::Probe(armed) => GateView {
            decision: "go",
            id: format!("{}.{}", armed.id(), armed.permit.fence),
            downstream_key: Some(armed.permit.downstream_key.clone()),
            ..GateView::default()
        },
        Answer::Replay(receipt) => GateView { receipt: Some(receipt), ..repeated("done") },
        Answer::Undone(receipt, undo) => GateView {
            receipt: Some(receipt),
            undo_receipt: Some(undo),
            code: Some(Code::Undone.as_str()),
            reason: Some("it was done, and taken back".to_owned()),
            ..repeated("failed")
        },
        Answer::Failed(reason) => GateView {
            code: Some(Code::EffectFailed.as_str()),
            reason: Some(reason),
            ..repeated("failed")
        },
    }
}

/// The effect was begun elsewhere, by somebody who can look. Whoever asks at the gate cannot: the
/// look is given back, and nothing is sent.
async fn leave_look(call: &Call, address: &Address, look: &Armed) -> Result<GateView, Problem> {
    let reason = "the gate cannot look".to_owned();
    let report = Report::Unknown { reason, key_not_used: false };
    let ask = Settle { fence: look.permit.fence, report, retry_after_ms: None };
    call.app.engine.settle(address, &ask).await?;
    Ok(GateView { decision: "in_doubt", id: look.id(), ..GateView::default() })
}

/// What the ledger answers is a decision; what is wrong with the request is not.
fn refused(id: &str, problem: Problem) -> Result<GateView, Problem> {
    let decision = match problem.code {
        Code::InProgress | Code::Held | Code::RateLimited => "wait",
        Code::InDoubt | Code::ContractChanged => "in_doubt",
        Code::InputChanged
        | Code::Expired
        | Code::AttemptsExhausted
        | Code::RetriesExhausted
        | Code::ApprovalDenied
        | Code::ApprovalReturned
        | Code::ApprovalExpired => "failed",
        _ => return Err(problem),
    };
    Ok(GateView {
        decision,
        id: id.to_owned(),
        code: Some(problem.code.as_str()),
        reason: Some(problem.detail),
        retry_after_ms: problem.retry_after_ms,
        ..GateView::default()
    })
}

async fn done(call: Call) -> Result<Reply, Problem> {
    let ask: GateDoneAsk = call.ask()?;
    settle(call, Report::Receipt(ask.receipt)).await
}

async fn failed(call: Call) -> Result<Reply, Problem> {
    let ask: GateFailedAsk = call.ask()?;
    settle(call, ask.report()).await
}

async fn settle(call: Call, report: Report) -> Result<Reply, Problem> {
    let id = call.param("id");
    let (effect, fence) = id.rsplit_once('.').ok_or_else(Problem::not_found)?;
    let fence = fence.parse().map_err(|_| Problem::not_found())?;
    let (address, _) = read_id(&call.who.namespace, effect)?;
    let ask = Settle { fence, report, retry_after_ms: None };
    let settled = call.app.engine.settle(&address, &ask).await;
    let filed = match settled {
        Ok(filed) => filed,
        Err(error) if matches!(error.code(), Code::StaleFence | Code::Expired) => {
            let body = refused_late(&call, &address, effect).await?;
            return Ok(Reply::ok(&body));
        }
        Err(error) => return Err(error.into()),
    };
    let receipt = filed.effect.receipt().cloned();
    Ok(Reply::ok(&state_of(effect, filed.state, receipt)))
}

/// Whoever is late is told how it stands: its word changed nothing.
async fn refused_late(call: &Call, address: &Address, id: &str) -> Result<GateView, Problem> {
    let engine = &call.app.engine;
    let effect = engine.effect(address).await?;
    let now = engine.store().ground().now;
    let effect = engine.judged(effect, &now);
    Ok(state_of(id, effect.state(&now), effect.receipt().cloned()))
}

fn state_of(id: &str, state: State, receipt: Option<Json>) -> GateView {
    let decision = match state {
        State::Done => "done",
        State::Failed | State::Expired => "failed",
        State::InDoubt => "in_doubt",
        State::Planned | State::Pending | State::Void => "wait",
    };
    GateView { decision, id: id.to_owned(), receipt, ..GateView::default() }
}
