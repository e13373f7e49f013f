//! What an operator decides about a run, and what reaches it from outside. Each may be repeated.

use semel_core::access::Permission;
use semel_core::code::Code;
use semel_core::json::Json;
use semel_core::key::Namespace;
use semel_core::run::Run;
use semel_core::wire_answer::SignalledView;
use semel_core::wire_ask::{MoveAsk, SkipAsk, SteerAsk};
use semel_core::wire_run::RunView;
use semel_engine::Signal;

use super::runs::{find, viewed};
use crate::openapi::Operation;
use crate::problem::Problem;
use crate::route::Access::Needs;
use crate::route::{Call, Reply, Route};
use crate::turn::Turn;

pub(super) fn routes() -> Vec<Route> {
    let operate = Needs(Permission::Operate);
    let op = Operation::new;
    vec![
        Route::post(
            "/v1/runs/{id}/cancel",
            operate,
            op("cancel_run", "Ask for the end of a run")
                .takes::<SteerAsk>()
                .optional()
                .returns::<RunView>()
                .keyed(),
            cancel,
        ),
        Route::post(
            "/v1/runs/{id}/retry",
            operate,
            op("retry_run", "Let a paused run try again")
                .takes::<SteerAsk>()
                .optional()
                .returns::<RunView>()
                .keyed(),
            retry,
        ),
        Route::post(
            "/v1/runs/{id}/fail",
            operate,
            op("fail_run", "End a paused run as failed")
                .takes::<SteerAsk>()
                .optional()
                .returns::<RunView>()
                .keyed(),
            fail,
        ),
        Route::post(
            "/v1/runs/{id}/skip",
            operate,
            op("skip_step", "Give the step of a paused run its value")
                .takes::<SkipAsk>()
                .returns::<RunView>()
                .keyed(),
            skip,
        ),
        Route::post(
            "/v1/runs/{id}/move",
            operate,
            op("move_run", "Let a run go on with another release")
                .takes::<MoveAsk>()
                .returns::<RunView>()
                .keyed(),
            move_to,
        ),
        Route::post(
            "/v1/runs/{id}/signals/{name}",
            Needs(Permission::Start),
            op("signal_run", "Send a run what it waits for: the body is the payload")
                .takes_payload()
                .returns::<SignalledView>()
                .keyed(),
            signal,
        ),
    ]
}

/// The run, and the namespace that it is in.
async fn found(call: &Call) -> Result<(Namespace, Run), Problem> {
    let run = find(&call.app, &call.who.namespace, call.param("id")).await?;
    Ok((Namespace::stored(&run.namespace)?, run))
}

async fn answered(call: &Call, turn: &Turn) -> Result<Reply, Problem> {
    let (_, run) = found(call).await?;
    Ok(Reply::ok(&viewed(&call.app, &run).await?).replayed(turn.is_repeat))
}

async fn cancel(call: Call) -> Result<Reply, Problem> {
    let ask: SteerAsk = call.ask()?;
    let (namespace, run) = found(&call).await?;
    let mut turn = Turn::of(&call, "cancel").await?;
    if let Some(engine) = turn.engine() {
        let cancelled = engine.cancel_run(&namespace, &run.id, &call.who.actor, &ask.reason).await;
        turn.took(cancelled).await?;
    }
    answered(&call, &turn).await
}

async fn retry(call: Call) -> Result<Reply, Problem> {
    let ask: SteerAsk = call.ask()?;
    let (namespace, run) = found(&call).await?;
    let mut turn = Turn::of(&call, "retry").await?;
    if let Some(engine) = turn.engine() {
        let retried = engine.retry_run(&namespace, &run.id, &call.who.actor, &ask.reason).await;
        turn.took(retried).await?;
    }
    answered(&call, &turn).await
}

async fn fail(call: Call) -> Result<Reply, Problem> {
    let ask: SteerAsk = call.ask()?;
    let (namespace, run) = found(&call).await?;
    let mut turn = Turn::of(&call, "fail").await?;
    if let Some(engine) = turn.engine() {
        let failed = engine.fail_run(&namespace, &run.id, &call.who.actor, &ask.reason).await;
        turn.took(failed).await?;
    }
    answered(&call, &turn).await
}

async fn skip(call: Call) -> Result<Reply, Problem> {
    let ask: SkipAsk = call.ask()?;
    let (namespace, run) = found(&call).await?;
    let mut turn = Turn::of(&call, "skip").await?;
    if let Some(engine) = turn.engine() {
        let (actor, reason) = (&call.who.actor, &ask.reason);
        let skipped = engine.skip_step(&namespace, &run.id, &ask.step, &ask.value, actor, reason);
        turn.took(skipped.await).await?;
    }
    answered(&call, &turn).await
}

async fn move_to(call: Call) -> Result<Reply, Problem> {
    let ask: MoveAsk = call.ask()?;
    let (namespace, run) = found(&call).await?;
    let mut turn = Turn::of(&call, "move").await?;
    if let Some(engine) = turn.engine() {
        let by = (call.who.actor.as_str(), ask.reason.as_str());
        turn.took(engine.move_run(&namespace, &run.id, &ask.release, by).await).await?;
    }
    answered(&call, &turn).await
}

/// The payload of a request: any JSON, `null` where there is no body.
pub(super) fn payload(call: &Call) -> Result<Json, Problem> {
    if call.body.is_empty() {
        return Ok(Json::null());
    }
    let invalid = |text: String| Problem::new(Code::InputInvalid, text);
    let text = String::from_utf8(call.body.to_vec());
    let text = text.map_err(|_| invalid("the payload is not UTF-8".to_owned()))?;
    Json::from_text(text).map_err(|error| invalid(error.to_string()))
}

async fn signal(call: Call) -> Result<Reply, Problem> {
    let payload = payload(&call)?;
    let identity = call.idempotency_key()?.map(|key| key.as_str().to_owned());
    let (namespace, run) = found(&call).await?;
    let name = call.param("name").to_owned();
    if name.starts_with("callback ") {
        // Whoever answers a callback shows its token.
        let text = "a callback is answered by its token: POST /v1/callbacks/{token}";
        return Err(Problem::new(Code::RequestInvalid, text));
    }
    let signal = Signal { namespace, run: run.id, name, identity, payload };
    let signalled = call.app.engine.signal(signal).await?;
    let body = SignalledView { identity: signalled.identity, repeated: signalled.repeated };
    Ok(Reply::ok(&body).replayed(body.repeated))
}
