//! The decisions that the console takes: answering a question, settling a doubt, and granting
//! another retry budget.

use axum::http::Method;
use semel_core::access::Permission;
use semel_core::code::Code;
use semel_core::effect::Resolution;
use semel_core::json::Json;
use semel_core::record::Effect;
use semel_core::wire_ask::person;

use super::super::approve::answer_of;
use super::super::form::Form;
use super::effect::{Told, shown};
use super::{Visitor, console, redirect};
use crate::api::{check_newest, find_effect};
use crate::openapi::Operation;
use crate::problem::Problem;
use crate::route::{Call, Reply, Route};

pub(super) fn routes() -> Vec<Route> {
    let op = Operation::new;
    vec![
        console(
            Method::POST,
            "/console/effects/{id}/approval/{digest}",
            Permission::Approve,
            op("console_judge", "Answer a question"),
            judge,
        ),
        console(
            Method::POST,
            "/console/effects/{id}/resolve",
            Permission::Operate,
            op("console_resolve", "Settle a doubt"),
            resolve,
        ),
        console(
            Method::POST,
            "/console/effects/{id}/grant",
            Permission::Operate,
            op("console_grant", "Grant another retry budget"),
            grant,
        ),
    ]
}

async fn judge(call: Call, visitor: Visitor) -> Result<Reply, Problem> {
    let form = Form::of(&call, &visitor.form_value)?;
    let effect = found(&call, &visitor).await?;
    let Some(answer) = answer_of(form.get("decision")) else {
        return again(&call, &visitor, effect, "choose one of the three answers").await;
    };
    let person = person(&visitor.who.actor, form.get("note"), effect.version);
    let engine = &call.app.engine;
    check_newest(engine, &effect).await?;
    match engine.judge(&effect.address, &person, answer, call.param("digest")).await {
        Ok(decided) if decided.is_new || decided.judgement.answer == answer => {
            Ok(redirect(&format!("/console/effects/{}", call.param("id"))))
        }
        Ok(decided) => {
            let text = "it was answered before, and the first answer stands";
            again(&call, &visitor, decided.effect, text).await
        }
        Err(error) => refused(&call, &visitor, effect, error, Told::default()).await,
    }
}

async fn resolve(call: Call, visitor: Visitor) -> Result<Reply, Problem> {
    let form = Form::of(&call, &visitor.form_value)?;
    let effect = found(&call, &visitor).await?;
    let receipt = form.get("receipt").trim();
    let told = Told { text: None, receipt, reason: form.get("reason") };
    let has_shape = effect.plan.as_ref().is_some_and(|plan| plan.shape.is_some());
    let resolution = match (form.get("decision"), receipt.is_empty()) {
        // Nobody says by silence what every repeat will get; the rule judges where it can.
        ("done", true) if !has_shape => {
            let text = "give the receipt, or type null if the effect returned nothing";
            return again_with(&call, &visitor, effect, text, told).await;
        }
        ("done", true) => Resolution::Done(Json::null()),
        ("done", false) => match Json::from_text(receipt) {
            Ok(receipt) => Resolution::Done(receipt),
            Err(_) => {
                return again_with(&call, &visitor, effect, "the receipt is not JSON", told).await;
            }
        },
        ("failed", true) => Resolution::Failed,
        ("retry", true) => Resolution::Retry,
        ("failed" | "retry", false) => {
            let text = "a receipt goes with \"it happened\" only";
            return again_with(&call, &visitor, effect, text, told).await;
        }
        _ => return again(&call, &visitor, effect, "choose what you found").await,
    };
    let Ok(version) = form.get("version").parse() else {
        return Err(Problem::new(Code::RequestInvalid, "the form lacks the version"));
    };
    let person = person(&visitor.who.actor, form.get("reason"), version);
    check_newest(&call.app.engine, &effect).await?;
    match call.app.engine.resolve(&effect.address, &person, &resolution).await {
        Ok(_) => Ok(redirect(&format!("/console/effects/{}", call.param("id")))),
        Err(error) => refused(&call, &visitor, effect, error, told).await,
    }
}

async fn grant(call: Call, visitor: Visitor) -> Result<Reply, Problem> {
    let form = Form::of(&call, &visitor.form_value)?;
    let effect = found(&call, &visitor).await?;
    let Ok(version) = form.get("version").parse() else {
        return Err(Problem::new(Code::RequestInvalid, "the form lacks the version"));
    };
    let person = person(&visitor.who.actor, form.get("reason"), version);
    check_newest(&call.app.engine, &effect).await?;
    match call.app.engine.grant(&effect.address, &person).await {
        Ok(_) => Ok(redirect(&format!("/console/effects/{}", call.param("id")))),
        Err(error) => refused(&call, &visitor, effect, error, Told::default()).await,
    }
}

async fn found(call: &Call, visitor: &Visitor) -> Result<Effect, Problem> {
    find_effect(&call.app, &visitor.who.namespace, call.param("id")).await
}

/// The page again, with what was wrong. What a person may not do, or what is gone, is no matter of
/// filling in the form better.
async fn refused(
    call: &Call,
    visitor: &Visitor,
    effect: Effect,
    error: semel_engine::Error,
    told: Told<'_>,
) -> Result<Reply, Problem> {
    let problem = Problem::from(error);
    match problem.code {
        Code::InputInvalid
        | Code::ReceiptInvalid
        | Code::VersionChanged
        | Code::TooEarly
        | Code::AlreadySettled
        | Code::NotExhausted
        | Code::AttemptsExhausted => again_with(call, visitor, effect, &problem.detail, told).await,
        _ => Err(problem),
    }
}

async fn again(
    call: &Call,
    visitor: &Visitor,
    effect: Effect,
    why: &str,
) -> Result<Reply, Problem> {
    again_with(call, visitor, effect, why, Told::default()).await
}

/// The same, with what was typed.
async fn again_with(
    call: &Call,
    visitor: &Visitor,
    effect: Effect,
    why: &str,
    told: Told<'_>,
) -> Result<Reply, Problem> {
    let text = format!("Nothing was decided: {why}.");
    let told = Told { text: Some(&text), ..told };
    let mut reply = shown(call, visitor, effect, told).await?;
    reply.status = axum::http::StatusCode::CONFLICT;
    Ok(reply)
}
