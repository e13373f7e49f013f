//! Answering a question by a link. Looking changes nothing, however often and whoever looks: mail
//! scanners follow links, and some submit forms that need no choice. So the form has no answer
//! chosen beforehand, and only a chosen one decides.

use axum::http::{Method, StatusCode};
use maud::{Markup, html};
use semel_core::code::Code;
use semel_core::record::{Answer, Effect, Judgement};
use semel_core::wire::{EffectView, effect_view, rfc3339};
use semel_engine::Question;

use super::form::{Form, VALUE};
use super::layout::whole;
use super::page;
use super::shown::{badge, fact, fact_if, pretty, visible};
use crate::openapi::Operation;
use crate::problem::Problem;
use crate::route::{Call, Reply, Route};

pub(super) fn routes() -> Vec<Route> {
    let path = "/approve/{token}";
    vec![
        page(Method::GET, path, Operation::new("approve_page", "A question to a person"), show),
        page(Method::POST, path, Operation::new("approve_by_page", "The answer"), decide),
    ]
}

async fn follow(call: &Call) -> Result<Question, Problem> {
    match call.app.engine.follow_approval_link(call.param("token")).await {
        Ok(question) => Ok(question),
        Err(error) if error.code() == Code::NotFound => Err(nowhere()),
        Err(error) => Err(error.into()),
    }
}

/// The same whatever is wrong, so that nobody learns what there is.
fn nowhere() -> Problem {
    let text = "This link leads nowhere: it is misspelt, or the question was withdrawn or put \
                anew. Ask for a new link.";
    Problem::new(Code::NotFound, text)
}

async fn show(call: Call) -> Result<Reply, Problem> {
    let question = follow(&call).await?;
    Ok(shown(&call, &question, StatusCode::OK, None))
}

async fn decide(call: Call) -> Result<Reply, Problem> {
    let question = follow(&call).await?;
    let form = Form::of(&call, &question.form_value)?;
    let now = call.app.engine.store().ground().now;
    if question.is_over && question.effect.is_held(&now) {
        return Ok(shown(&call, &question, StatusCode::GONE, None));
    }
    let Some(answer) = answer_of(form.get("decision")) else {
        let text = "Nothing was decided: choose one of the three answers.";
        return Ok(shown(&call, &question, StatusCode::BAD_REQUEST, Some(text)));
    };
    if answer != Answer::Approved && form.get("note").trim().is_empty() {
        let text = "Nothing was decided: a no needs a note, for its author and for the record.";
        return Ok(shown(&call, &question, StatusCode::BAD_REQUEST, Some(text)));
    }
    let token = call.param("token");
    let decided = call.app.engine.judge_by_link(token, answer, form.get("note")).await;
    let decided = match decided {
        Ok(decided) => decided,
        // It was put anew since the page was shown; what stood there is no longer asked.
        Err(error) if error.code() == Code::NotFound => return Err(nowhere()),
        Err(error) => return Err(error.into()),
    };
    let (status, text) = match (decided.is_new, decided.judgement.answer == answer) {
        (true, _) => (StatusCode::OK, "Your answer stands. This page may be closed."),
        (false, true) => (StatusCode::OK, "It was answered before, in the same way."),
        (false, false) => (
            StatusCode::CONFLICT,
            "It was answered before, and the first answer stands. Yours changed nothing.",
        ),
    };
    let question = Question { effect: decided.effect, ..question };
    Ok(shown(&call, &question, status, Some(text)))
}

/// The answer that a form names.
pub(super) fn answer_of(word: &str) -> Option<Answer> {
    match word {
        "approve" => Some(Answer::Approved),
        "deny" => Some(Answer::Denied),
        "return" => Some(Answer::Returned),
        _ => None,
    }
}

/// The page: the question with its form while it is open, else the answer.
fn shown(call: &Call, question: &Question, status: StatusCode, told: Option<&str>) -> Reply {
    let now = call.app.engine.store().ground().now;
    let Question { link, effect, form_value, is_over } = question;
    let view = effect_view(effect, &now);
    let judgement = effect.judgement(&now);
    let is_open = effect.is_held(&now);
    let only = effect.approval.as_ref().is_some_and(|asked| asked.only);
    let title = match (&judgement, only) {
        (Some(_), _) => "Answered",
        (None, true) => "What is your answer?",
        (None, false) => "May this be sent?",
    };
    let content = html! {
        h1 { (title) }
        @if let Some(told) = told { p.told role="status" { (told) } }
        @if let Some(judgement) = &judgement { (answered(judgement)) }
        @else if !is_open {
            p.told { "There is nothing to decide any more: it is " (view.state) "." }
        }
        @else if *is_over {
            p.told { "This link ended on " (rfc3339(link.expires)) ". Ask for a new one; the \
                question is still open." }
        }
        (facts(effect, &view))
        @if is_open && !*is_over {
            p.quiet { "This link is for " b { (visible(&link.approver)) } ", good until "
                (rfc3339(link.expires)) "." }
            (decision_form(&format!("/approve/{}", call.param("token")), form_value, only))
        }
    };
    whole(status, title, &html! {}, &content)
}

/// The answer that stands.
pub(super) fn answered(judgement: &Judgement) -> Markup {
    html! {
        p.answer { (badge(judgement.answer.as_str())) " by " b { (visible(&judgement.actor)) }
            " on " (rfc3339(judgement.at)) }
        @if !judgement.note.is_empty() { blockquote { (visible(&judgement.note)) } }
    }
}

/// All that a person has to know before deciding.
pub(super) fn facts(effect: &Effect, view: &EffectView) -> Markup {
    let asked = view.approval.as_ref();
    let only = asked.is_some_and(|asked| asked.only);
    let eyes = if asked.is_some_and(|asked| asked.four_eyes) { " (may not decide)" } else { "" };
    let requester = asked.and_then(|asked| asked.requester.as_ref());
    html! {
        dl {
            @if only { (fact("Question", &view.action)) } @else { (fact("Sends to", &view.action)) }
            (fact("Key", &view.key))
            @if view.generation > 0 { (fact("Generation", &view.generation.to_string())) }
            @if let Some(name) = requester { (fact("Wanted by", &format!("{name}{eyes}"))) }
            (fact_if("Note", asked.and_then(|asked| asked.note.as_ref())))
            @if let Some(contract) = view.contract.as_ref().filter(|_| !only) {
                (fact("Contract", contract.name))
                (fact("Promise", contract.promise))
            }
            (fact_if("Workflow", view.workflow.as_ref()))
            (fact_if("Run", view.run.as_ref()))
            (fact_if("Asked", asked.map(|asked| &asked.asked_at)))
            (fact_if("Expires", asked.and_then(|asked| asked.expires_at.as_ref())))
            @if effect.address.namespace.is_draft() { (fact("Draft", "sent under draft keys")) }
        }
        @if let Some(plan) = &effect.plan {
            h2 { @if only { "What is asked" } @else { "What is sent, exactly" } }
            pre { (visible(&pretty(plan.input.text()))) }
            details { summary { "as stored, byte for byte" } pre { (visible(plan.input.text())) } }
        }
        @if let Some(asked) = asked {
            p.quiet { "Digest of action, contract and payload: " code.digest { (asked.digest) } }
        }
    }
}

/// Three answers, none chosen.
pub(super) fn decision_form(action: &str, value: &str, only: bool) -> Markup {
    let choices = [
        ("approve", "Approve", if only { "yes" } else { "it may be sent, exactly as shown" }),
        ("deny", "Deny", "never; needs a note"),
        ("return", "Return", "not like this: its author may change it; needs a note"),
    ];
    html! {
        form method="post" action=(action) autocomplete="off" {
            input type="hidden" name=(VALUE) value=(value);
            fieldset {
                legend { "Your answer" }
                @for (word, name, meaning) in choices {
                    label.choice { input type="radio" name="decision" value=(word) required;
                        b { (name) } " " span.quiet { (meaning) } }
                }
            }
            label { "Note" textarea name="note" rows="3" maxlength="2000" {} }
            button type="submit" { "Decide" }
        }
    }
}
