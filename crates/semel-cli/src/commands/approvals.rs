//! `semel approvals`: what waits for a person, and what that person decides.

use semel_core::approval_link::{Link, Wish};
use semel_core::code::Code;
use semel_core::effect::{Person, Refusal};
use semel_core::record::{Answer, Effect, Judgement};
use semel_core::time::{Moment, parse_duration_ms};
use semel_core::wire::{EffectView, effect_view, rfc3339};
use semel_engine::Decided;
use semel_store::Query;
use serde_json::{Value, json};

use super::effects::approval_line;
use super::effects::{listed, tell_unreadable};
use super::open::Place;
use crate::args::{self, Approvals};
use crate::exit::Failed;
use crate::print::{Printer, Tone, plain};

pub(crate) async fn run(
    place: &Place,
    command: Approvals,
    public_url: Option<&str>,
    printer: &Printer,
) -> Result<(), Failed> {
    match command {
        Approvals::Ls(options) => ls(place, &options, printer).await,
        Approvals::Show { effect } => show(place, &effect, printer).await,
        Approvals::Approve(options) => decide(place, &options, Answer::Approved, printer).await,
        Approvals::Deny(options) => decide(place, &options, Answer::Denied, printer).await,
        Approvals::Return(options) => decide(place, &options, Answer::Returned, printer).await,
        Approvals::Link(options) => link(place, &options, public_url, printer).await,
    }
}

async fn ls(place: &Place, options: &args::ApprovalLs, printer: &Printer) -> Result<(), Failed> {
    let engine = place.engine_to_look().await?;
    let action = options.action.as_deref().map(semel::Action::new).transpose();
    let action = action.map_err(|error| Failed::from(semel::Error::from(error)))?;
    let limit = options.limit.max(1);
    let after = options.after;
    let mut query = Query { action, after, ..Query::all(place.namespace()?, limit) };
    let (mut effects, mut unreadable) = (Vec::new(), Vec::new());
    while query.limit > 0 {
        let page = engine.held(&query).await?;
        effects.extend(page.effects);
        unreadable.extend(page.unreadable);
        let left = limit.saturating_sub(effects.len() + unreadable.len());
        query = Query { after: page.next, limit: left, ..query };
        if page.next.is_none() {
            break;
        }
    }
    let now = engine.store().ground().now;
    if printer.wants_json() {
        let items: Vec<_> = effects.iter().map(|effect| document(effect, &now)).collect();
        return printer.json(&listed(&items, query.after, &unreadable));
    }
    let rows: Vec<_> = effects.iter().map(|effect| row(&effect_view(effect, &now))).collect();
    printer.table(&["ACTION/KEY", "CONTRACT", "ASKED", "EXPIRES", "REQUESTER", "NOTE"], &rows);
    tell_unreadable(&unreadable, printer);
    if rows.is_empty() && unreadable.is_empty() {
        printer.talk("nothing waits for a decision");
    }
    if let Some(next) = query.after {
        printer.talk(&format!("more: add --after {next}"));
    }
    Ok(())
}

fn row(view: &EffectView) -> Vec<String> {
    let asked = view.approval.as_ref();
    let text = |text: Option<&String>| plain(text.map_or("", String::as_str));
    vec![
        plain(&format!("{}/{}", view.action, view.key)),
        view.contract.as_ref().map_or("", |contract| contract.name).to_owned(),
        text(asked.map(|asked| &asked.asked_at)),
        text(asked.and_then(|asked| asked.expires_at.as_ref())),
        text(asked.and_then(|asked| asked.requester.as_ref())),
        text(asked.and_then(|asked| asked.note.as_ref())),
    ]
}

async fn show(place: &Place, name: &str, printer: &Printer) -> Result<(), Failed> {
    let engine = place.engine_to_look().await?;
    let effect = engine.effect(&place.address(name)?).await?;
    let now = engine.store().ground().now;
    if effect.approval.is_none() {
        return Err(Failed::from(semel::Error::from(Refusal::NotHeld(effect.state(&now)))));
    }
    if printer.wants_json() {
        return printer.json(&document(&effect, &now));
    }
    print_question(&effect, &now, printer);
    if effect.is_held(&now) {
        print_ways(&effect, printer);
    }
    Ok(())
}

/// The effect as everybody sees it, with what would be sent.
fn document(effect: &Effect, now: &Moment) -> Value {
    let mut document = json!(effect_view(effect, now));
    document["input"] = json!(effect.plan.as_ref().map(|plan| &plan.input));
    document
}

/// All that a person has to know before deciding.
fn print_question(effect: &Effect, now: &Moment, printer: &Printer) {
    let view = effect_view(effect, now);
    let Some(asked) = &view.approval else { return };
    let name = plain(&format!("{}/{}", view.action, view.key));
    printer.line(&printer.paint(Tone::Strong, &name));
    let field = |name: &str, value: &str| {
        let name = printer.paint(Tone::Quiet, &format!("{name:10}"));
        printer.line(&format!("  {name} {}", plain(value)));
    };
    field("state", &approval_line(asked));
    if let Some(plan) = effect.plan.as_ref().filter(|_| !asked.only) {
        field("sends to", &view.action);
        field("contract", plan.terms.contract.name());
        field("promise", plan.terms.contract.promise());
    }
    if let Some(plan) = &effect.plan {
        field("payload", plan.input.text());
    }
    field("digest", &asked.digest);
    field("asked", &asked.asked_at);
    let eyes = if asked.four_eyes { " (may not decide)" } else { "" };
    let requester = asked.requester.as_ref().map(|name| format!("{name}{eyes}"));
    let optional = [
        ("requester", &requester),
        ("note", &asked.note),
        ("expires", &asked.expires_at),
        ("workflow", &view.workflow),
        ("run", &view.run),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            field(name, value);
        }
    }
}

fn print_ways(effect: &Effect, printer: &Printer) {
    let name = plain(&format!("{}/{}", effect.address.action, effect.address.key));
    let digest = effect.approval.as_ref().map_or("", |asked| &asked.digest);
    printer.line("");
    printer.line("Decide on exactly this with one of:");
    for (verb, note) in [("approve", ""), ("deny", " --note '…'"), ("return", " --note '…'")] {
        printer.line(&format!("  semel approvals {verb} '{name}' --digest {digest}{note}"));
    }
}

async fn decide(
    place: &Place,
    options: &args::Judgement,
    answer: Answer,
    printer: &Printer,
) -> Result<(), Failed> {
    let address = place.address(&options.effect)?;
    let engine = place.engine_to_decide().await?;
    let shown = engine.effect(&address).await?;
    let digest = shown.approval.as_ref().map(|asked| asked.digest.clone()).unwrap_or_default();
    let digest = options.digest.clone().unwrap_or(digest);
    let (actor, reason) = (options.actor.clone(), options.note.clone());
    let person = Person { actor, reason, version: shown.version };
    let decided = engine.judge(&address, &person, answer, &digest).await?;
    engine.write_repeats().await;
    print_decided(&decided, &engine.store().ground().now, printer)?;
    let Decided { judgement, is_new, .. } = decided;
    if is_new || judgement.answer == answer {
        return Ok(());
    }
    // Somebody was first, and said something else.
    Err(Failed::from(semel::Error::from(Refusal::Judged(judgement))))
}

fn print_decided(decided: &Decided, now: &Moment, printer: &Printer) -> Result<(), Failed> {
    let Decided { effect, judgement, is_new } = decided;
    if printer.wants_json() {
        let mut document = document(effect, now);
        document["decision"] = said(judgement);
        document["decision"]["is_new"] = json!(is_new);
        return printer.json(&document);
    }
    print_question(effect, now, printer);
    if !is_new {
        printer.talk("it was decided before; the first answer stands");
    }
    Ok(())
}

fn said(judgement: &Judgement) -> Value {
    let Judgement { answer, actor, note, at } = judgement;
    json!({ "answer": answer.as_str(), "by": actor, "note": note, "at": rfc3339(*at) })
}

/// Makes a link, and prints the whole of it where it is known how the server is reached.
async fn link(
    place: &Place,
    options: &args::ApprovalLink,
    public_url: Option<&str>,
    printer: &Printer,
) -> Result<(), Failed> {
    place.needs_the_store("a link is made")?;
    let invalid = |_| {
        let text = format!("`{}` is no duration; write 30m, 12h or 3d", options.expires_in);
        Failed::coded(Code::DurationInvalid, text)
    };
    let expires_ms = parse_duration_ms(&options.expires_in).map_err(invalid)?;
    let address = place.address(&options.effect)?;
    let engine = place.engine_to_decide().await?;
    let wish = Wish { approver: &options.approver, maker: &options.actor, expires_ms };
    let (token, link) = engine.create_approval_link(&address, wish).await?;
    let base = public_url.unwrap_or_default().trim_end_matches('/');
    let url = format!("{base}/approve/{token}");
    let until = rfc3339(link.expires);
    if printer.wants_json() {
        let Link { approver, digest, .. } = link;
        return printer.json(&json!({
            "url": url, "approver": approver, "digest": digest, "expires_at": until,
        }));
    }
    printer.line(&url);
    printer.talk(&format!("for {}, until {until}; it is shown once", plain(&link.approver)));
    if base.is_empty() {
        printer.talk("set `public_url` to get whole addresses");
    }
    Ok(())
}
