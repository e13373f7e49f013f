//! What waits for a person's decision, and the decision.

use semel_core::access::Permission;
use semel_core::key::Action;
use semel_core::record::Effect;
use semel_core::time::Moment;
use semel_core::wire::{HeldEffectView, effect_view, rfc3339};
use semel_core::wire_answer::JudgedView;
use semel_core::wire_ask::{JudgeAsk, person};
use semel_store::Query;

use super::effects::{check_newest, find, rows};
use crate::openapi::{Operation, PAGE, Parameter, text};
use crate::problem::Problem;
use crate::route::Access::Needs;
use crate::route::{Call, Page, Reply, Route, Rows};

const FILTERS: [Parameter; 3] =
    [Parameter { name: "action", what: "the kind of effect", schema: text }, PAGE[0], PAGE[1]];

pub(super) fn routes() -> Vec<Route> {
    let op = Operation::new;
    vec![
        Route::get(
            "/v1/approvals",
            Needs(Permission::Read),
            op("list_approvals", "What waits for a person")
                .query(&FILTERS)
                .returns::<Page<HeldEffectView>>(),
            list,
        ),
        Route::get(
            "/v1/approvals/{id}",
            Needs(Permission::Read),
            op("show_approval", "What exactly would be sent, and what is asked")
                .returns::<HeldEffectView>(),
            show,
        ),
        Route::post(
            "/v1/approvals/{id}",
            Needs(Permission::Approve),
            op("decide_approval", "Approve, deny or return")
                .takes::<JudgeAsk>()
                .returns::<JudgedView>(),
            decide,
        ),
    ]
}

/// The effect as everybody sees it, with what would be sent.
fn document(effect: &Effect, now: &Moment) -> HeldEffectView {
    let input = effect.plan.as_ref().map(|plan| plan.input.clone());
    HeldEffectView { effect: effect_view(effect, now), input }
}

async fn list(call: Call) -> Result<Reply, Problem> {
    let action = call.query.get("action").map(|text| Action::new(text)).transpose()?;
    let after = call.after()?;
    let own = Query::all(call.who.namespace.clone(), 0);
    let query = Query { action, after, held: true, ..own };
    let engine = &call.app.engine;
    let now = engine.store().ground().now;
    let rows_max = Rows::up_to(call.limit()?);
    let (rows, next) = rows(engine, query, rows_max, |effect| document(effect, &now)).await?;
    Ok(Reply::ok(&rows.page(next)))
}

async fn show(call: Call) -> Result<Reply, Problem> {
    let effect = find(&call.app, &call.who.namespace, call.param("id")).await?;
    if effect.approval.is_none() {
        return Err(Problem::not_found());
    }
    let now = call.app.engine.store().ground().now;
    Ok(Reply::ok(&document(&effect, &now)))
}

async fn decide(call: Call) -> Result<Reply, Problem> {
    let ask: JudgeAsk = call.ask()?;
    let effect = find(&call.app, &call.who.namespace, call.param("id")).await?;
    let person = person(&call.who.actor, &ask.note, effect.version);
    let answer = ask.decision.answer();
    check_newest(&call.app.engine, &effect).await?;
    let decided = call.app.engine.judge(&effect.address, &person, answer, &ask.digest).await?;
    let judgement = &decided.judgement;
    let body = JudgedView {
        answer: judgement.answer.as_str(),
        by: judgement.actor.clone(),
        at: rfc3339(judgement.at),
        note: judgement.note.clone(),
        is_new: decided.is_new,
    };
    Ok(Reply::ok(&body).replayed(!decided.is_new))
}
