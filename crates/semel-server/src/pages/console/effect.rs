//! One effect: what is promised, what was tried, what came of it, and why it did not run again.

use axum::http::{HeaderValue, Method, header};
use maud::{Markup, html};
use semel_core::access::Permission;
use semel_core::record::Effect;
use semel_core::repeats::{self, Repeats, Subject};
use semel_core::wire::{EffectView, effect_view, rfc3339};

use super::super::approve::{answered, decision_form, facts};
use super::super::form::VALUE;
use super::super::shown::{badge, fact, fact_if, pretty, visible};
use super::{Visitor, console};
use crate::api::find_effect;
use crate::openapi::Operation;
use crate::problem::Problem;
use crate::route::{Call, Reply, Route};

pub(super) fn routes() -> Vec<Route> {
    let operation = Operation::new("console_effect", "One effect");
    vec![console(Method::GET, "/console/effects/{id}", Permission::Read, operation, show)]
}

async fn show(call: Call, visitor: Visitor) -> Result<Reply, Problem> {
    let effect = find_effect(&call.app, &visitor.who.namespace, call.param("id")).await?;
    shown(&call, &visitor, effect, Told::default()).await
}

/// The page, with what became of a form where one was sent.
/// Why nothing was decided, and what the person had typed.
#[derive(Default)]
pub(super) struct Told<'a> {
    pub(super) text: Option<&'a str>,
    pub(super) receipt: &'a str,
    pub(super) reason: &'a str,
}

pub(super) async fn shown(
    call: &Call,
    visitor: &Visitor,
    effect: Effect,
    told: Told<'_>,
) -> Result<Reply, Problem> {
    let engine = &call.app.engine;
    let now = engine.store().ground().now;
    let effect = engine.judged(effect, &now);
    let view = effect_view(&effect, &now);
    let repeats = repeats_of(call, &effect).await?;
    let title = format!("{}/{}", view.action, view.key);
    let judgement = effect.judgement(&now);
    let only = view.approval.as_ref().is_some_and(|asked| asked.only);
    let is_held = effect.is_held(&now);
    let content = html! {
        h1 { (visible(&title)) " " (badge(standing(&view)))
            @if is_held { " " (badge("held")) }
            @if view.exhausted { " " (badge("exhausted")) }
            @for alarm in &view.alarms { " " (badge(alarm.kind)) } }
        @if let Some(text) = told.text { p.told role="status" { (visible(text)) } }
        @if let Some(judgement) = &judgement { (answered(judgement)) }
        (facts(&effect, &view))
        @if is_held { (question(visitor, &view, only)) }
        @if view.exhausted { (budget(visitor, &view)) }
        @if view.state == "in_doubt" { (doubt(visitor, &view, &effect, &told)) }
        (outcome(&view))
        (attempts(&view))
        (why_not_again(&view, repeats.as_ref()))
        (decisions(&view))
        (curl(call, &view))
    };
    Ok(visitor.shows(&visible(&title), &content))
}

async fn repeats_of(call: &Call, effect: &Effect) -> Result<Option<Repeats>, Problem> {
    let engine = &call.app.engine;
    engine.write_repeats().await;
    let subject = Subject::Effect(effect.address.clone());
    let card = engine.store().card(subject.namespace(), repeats::CARD, &subject.card()).await?;
    Ok(card.and_then(|card| serde_json::from_str(&card.record).ok()))
}

fn question(visitor: &Visitor, view: &EffectView, only: bool) -> Markup {
    let digest = view.approval.as_ref().map_or("", |asked| &asked.digest);
    html! {
        h2 { "Decide" }
        @if visitor.who.role.may(Permission::Approve) {
            (decision_form(&format!("/console/effects/{}/approval/{digest}", view.id),
                &visitor.form_value, only))
        } @else { p.empty { "It waits for a person with the role approver." } }
    }
}

fn doubt(visitor: &Visitor, view: &EffectView, effect: &Effect, told: &Told<'_>) -> Markup {
    let shape = effect.plan.as_ref().and_then(|plan| plan.shape.as_ref());
    let ways = [
        ("done", "It happened", "repeats get the receipt below"),
        ("failed", "It did not, and never will", "final"),
        ("retry", "It did not", "it may be sent again"),
    ];
    html! {
        h2 { "Settle the doubt" }
        p { "A call was cut between send and answer. Look at the destination before you decide: \
            nobody will send it again in silence." }
        @if visitor.who.role.may(Permission::Operate) {
            @let action = format!("/console/effects/{}/resolve", view.id);
            form method="post" action=(action) autocomplete="off" {
                input type="hidden" name=(VALUE) value=(visitor.form_value);
                input type="hidden" name="version" value=(view.version);
                fieldset {
                    legend { "What did you find?" }
                    @for (word, name, meaning) in ways {
                        label.choice { input type="radio" name="decision" value=(word) required;
                            b { (name) } " " span.quiet { (meaning) } }
                    }
                }
                label { "Receipt as JSON, where it happened"
                    textarea name="receipt" rows="2" placeholder="{\"id\": \"…\"}" {
                        (told.receipt) } }
                @if let Some(shape) = shape {
                    details { summary { "What fits" } pre { (visible(&pretty(shape.text()))) } }
                } @else { p.quiet { "If it returned nothing, type " code { "null" } "." } }
                label { "How do you know?"
                    textarea name="reason" rows="2" maxlength="2000" required { (told.reason) } }
                button type="submit" { "Settle" }
            }
        } @else { p.empty { "It waits for a person with the role operator." } }
    }
}

fn budget(visitor: &Visitor, view: &EffectView) -> Markup {
    html! {
        h2 { "Grant another retry budget" }
        p { "Its attempts or its time for retries are used up, and nothing more is tried. Correct \
            the cause, then grant the same budget again: the downstream key stays the same." }
        @if visitor.who.role.may(Permission::Operate) {
            @let action = format!("/console/effects/{}/grant", view.id);
            form method="post" action=(action) autocomplete="off" {
                input type="hidden" name=(VALUE) value=(visitor.form_value);
                input type="hidden" name="version" value=(view.version);
                label { "Why will it work now?"
                    textarea name="reason" rows="2" maxlength="2000" required {} }
                button type="submit" { "Grant" }
            }
        } @else { p.empty { "It waits for a person with the role operator." } }
    }
}

fn outcome(view: &EffectView) -> Markup {
    html! {
        @if let Some(receipt) = &view.receipt {
            h2 { "Receipt" }
            pre { (visible(&pretty(receipt.text()))) }
        }
        dl {
            (fact_if("Failure", view.failure.as_ref()))
            (fact_if("Downstream key", view.downstream_key.as_ref()))
            (fact("Created", &view.created_at))
            (fact_if("Settled", view.settled_at.as_ref()))
            @if let Some(run) = &view.run {
                dt { "Journal" } dd { a href={ "/console/runs/" (run) } { "run " (run) } }
            }
            (fact_if("Undoes", view.undoes.as_ref()))
            @if let Some(undo) = &view.undo { (fact("Undone by", &undo.by)) }
        }
        @for warning in &view.warnings { p.told { (warning) } }
    }
}

fn attempts(view: &EffectView) -> Markup {
    let has_key = view.contract.as_ref().is_some_and(|contract| contract.name == "native_key");
    html! {
        h2 { "Attempts" }
        @if view.attempts.is_empty() { p.empty { "Nothing was sent yet." } }
        @else {
            table {
                tr { th { "#" } th { "Kind" } th { "Outcome" } th { "Began" } th { "Ended" }
                    th { "Worker" } th { "Fence" } th { "Reason" } }
                @for one in &view.attempts {
                    tr {
                        td { (one.number) } td { (one.kind) }
                        td { (badge(one.outcome)) @if let Some(by) = one.by { " by " (by) } }
                        td.quiet { (one.began_at) }
                        td.quiet { (one.ended_at.as_deref().or(one.doubted_at.as_deref())
                            .unwrap_or_default()) }
                        td { (visible(&one.worker)) } td { (one.fence) }
                        td { (visible(one.reason.as_deref().unwrap_or_default()))
                            @if one.key_not_used && has_key {
                                " (its code never read the downstream key)" } }
                    }
                }
            }
        }
    }
}

/// The state, or what became of what was done.
fn standing(view: &EffectView) -> &'static str {
    match view.undo.as_ref().map(|undo| undo.receipt.is_some()) {
        Some(true) => "undone",
        Some(false) => "undoing",
        None => view.state,
    }
}

/// Why a repeat sends nothing, and how many there were.
fn why_not_again(view: &EffectView, repeats: Option<&Repeats>) -> Markup {
    let says = match standing(view) {
        "undone" => {
            "It was done and then undone: a repeat gets both receipts, and nothing is sent."
        }
        "undoing" => "It was done and is being undone: a repeat waits, and nothing is sent.",
        "done" => "It is done: a repeat gets the receipt above, and nothing is sent.",
        "failed" => "It has failed for good: a repeat is told so, and nothing is sent.",
        "in_doubt" => "It is in doubt: nothing is sent before the doubt is settled.",
        "pending" => "An attempt is in progress: a repeat waits for its receipt.",
        "expired" => "Its replay window is over: the key answers `expired`, and nothing is sent.",
        _ => "It has not been sent yet.",
    };
    html! {
        h2 { "Why it did not run again" }
        p { (says) @if let Some(until) = &view.replays_until { " Until " (until) "." } }
        @match repeats.filter(|repeats| repeats.total() > 0) {
            None => p.empty { "Nobody has asked for it a second time, as far as was counted." },
            Some(repeats) => {
                p { "Repeats caught: at least " b { (repeats.total()) } "." }
                table {
                    tr { th { "Door" } th { "Count" } th { "First" } th { "Last" } }
                    @for one in &repeats.doors {
                        tr { td { (one.door.as_str()) } td { (one.count) }
                            td.quiet { (rfc3339(one.first)) } td.quiet { (rfc3339(one.last)) } }
                    }
                }
            }
        }
    }
}

fn decisions(view: &EffectView) -> Markup {
    html! {
        @if !view.decisions.is_empty() {
            h2 { "Decisions" }
            ul { @for one in &view.decisions { li { (badge(one.verdict)) " by "
                b { (visible(&one.actor)) } " on " (one.at) ": " (visible(&one.reason)) } } }
        }
    }
}

fn curl(call: &Call, view: &EffectView) -> Markup {
    let host = call.headers.get(header::HOST).and_then(|host: &HeaderValue| host.to_str().ok());
    let scheme = if call.app.settings.tls.is_some() { "https" } else { "http" };
    let own = format!("{scheme}://{}", host.unwrap_or("localhost"));
    let base = call.app.settings.public_url.clone().unwrap_or(own);
    let line = format!(
        "curl -H \"Authorization: Bearer $SEMEL_TOKEN\" '{}/v1/effects/{}'",
        base.trim_end_matches('/'),
        view.id
    );
    html! { h2 { "The same by the API" } pre.copy { (visible(&line)) } }
}
