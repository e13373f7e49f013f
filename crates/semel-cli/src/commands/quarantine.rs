//! `semel quarantine`: the store went back in time. What it may have lost, what that put in doubt,
//! and the word of a person that ends it.

use semel::{Code, Namespace};
use semel_core::audit::{Deed, Verb};
use semel_core::effect::{EPOCH_SHIFT, Refusal, State};
use semel_core::limits;
use semel_core::record::{Contract, Effect, Kind};
use semel_core::time::{Moment, Wall};
use semel_core::wire::rfc3339;
use semel_engine::Engine;
use semel_store::{Closed, CommitError, Lost, LostRow, Query, Return, Upkeep};
use serde::Serialize;
use serde_json::json;

use super::open::Place;
use crate::args;
use crate::exit::Failed;
use crate::print::{Printer, Tone, plain};

/// An effect that the quarantine put in doubt.
#[derive(Serialize)]
struct Doubted {
    namespace: String,
    action: String,
    key: String,
    generation: u32,
    version: u64,
    contract: &'static str,
    /// What to do about it.
    next: String,
}

/// A row that a process remembers and the store does not.
#[derive(Serialize)]
struct LostView {
    kind: &'static str,
    namespace: String,
    name: String,
    version: u64,
    state: String,
    written_at: String,
    worker: String,
}

#[derive(Default)]
struct Doubts {
    /// The first of them, as many as were asked for.
    listed: Vec<Doubted>,
    count: usize,
    /// Unsettled effects that cannot be read: they may also be in doubt.
    unreadable: usize,
}

pub(crate) async fn show(
    place: &Place,
    options: &args::QuarantineShow,
    printer: &Printer,
) -> Result<(), Failed> {
    let store = place.look().await?;
    let returns = store.returns().await?;
    let lost = lost(store.as_ref(), &returns, options.limit).await?;
    let engine = Engine::new(store, "semel")?;
    let doubts = doubts(&engine, &returns, options.limit).await?;
    let open = open(&returns);
    if printer.wants_json() {
        let mut in_doubt = json!({ "count": doubts.count, "items": doubts.listed });
        if doubts.unreadable > 0 {
            in_doubt["unreadable"] = json!(doubts.unreadable);
        }
        printer.json(&json!({
            "open": open.is_some(),
            "epoch": returns.first().map_or(0, |newest| newest.epoch),
            "returns": returns.iter().map(return_json).collect::<Vec<_>>(),
            "lost": lost,
            "in_doubt": in_doubt,
        }))?;
    } else {
        print_returns(&returns, printer);
        if !returns.is_empty() {
            print_lost(&lost, printer);
            print_doubts(&doubts, printer);
        }
    }
    match open {
        None => Ok(()),
        Some(newest) => {
            let text = format!("the quarantine of epoch {} is open", newest.epoch);
            let hint = format!(
                "settle what is in doubt, then `semel quarantine close --epoch {} --reason …`",
                newest.epoch
            );
            Err(Failed::from(semel::Error::new(Code::InDoubt, text)).hint(hint))
        }
    }
}

pub(crate) async fn close(
    place: &Place,
    options: &args::QuarantineClose,
    printer: &Printer,
) -> Result<(), Failed> {
    let args::Operator { reason, actor } = &options.operator;
    let named = |text: &str| !text.trim().is_empty() && text.len() <= limits::REASON_BYTES_MAX;
    if !named(actor) || !named(reason) {
        return Err(Failed::from(semel::Error::from(Refusal::ReasonMissing)));
    }
    // Opened to write it records a return that nobody has recorded yet.
    let opened = place.open_existing().await?;
    let store = opened.upkeep()?;
    let returns = store.returns().await?;
    let Some(newest) = open(&returns) else { return Err(no_such(&returns)) };
    let epoch = newest.epoch;
    if options.epoch.is_some_and(|asked| asked != epoch) {
        return Err(no_such(&returns));
    }
    let engine = Engine::on(&opened, "semel")?;
    // What was lost and begun by nobody since would be sent again by whoever begins it next.
    let remembered = doubt_lost(&engine, store.as_ref(), &returns, actor).await?;
    let doubts = doubts(&engine, &returns, 0).await?;
    // Told first: it concerns the whole store, whose own rows are not part of any batch.
    let deed = Deed {
        actor: actor.to_owned(),
        verb: Verb::CloseQuarantine,
        subject: format!("epoch {epoch}"),
        reason: reason.to_owned(),
        version: None,
        detail: None,
    };
    engine.note_deed(&Namespace::default(), &deed).await?;
    // Closed twice is closed once, so that a lost answer is simply asked for again.
    let mut answer = store.close_quarantine(epoch, actor, reason).await;
    for _ in 1..limits::COMMIT_TRIES_MAX {
        if answer != Err(CommitError::Unknown) {
            break;
        }
        answer = store.close_quarantine(epoch, actor, reason).await;
    }
    match answer {
        Ok(()) => {}
        // It went back once more, just now.
        Err(CommitError::Stale(_)) => return Err(no_such(&store.returns().await?)),
        Err(CommitError::Failed(error)) => return Err(error.into()),
        Err(CommitError::Unknown) => {
            let text = "the store did not say whether it closed the quarantine";
            return Err(semel::Error::new(Code::StoreUnavailable, text).into());
        }
    }
    if printer.wants_json() {
        return printer.json(&json!({
            "epoch": epoch, "actor": actor, "reason": reason, "in_doubt": doubts.count,
            "remembered": remembered,
        }));
    }
    printer.line(&format!("the quarantine of epoch {epoch} is closed by {}", plain(actor)));
    if remembered > 0 {
        let remembered = effects(remembered);
        printer.line(&format!("put in doubt, since only a process remembers it: {remembered}"));
    }
    if doubts.count > 0 {
        let doubts = effects(doubts.count);
        printer.line(&format!("still in doubt by it, until settled: {doubts}"));
        printer.line("they stay listed: semel quarantine show");
    }
    Ok(())
}

/// Puts each effect in doubt that may have been sent, that a process remembers, and that nobody
/// has begun since. Returns how many.
async fn doubt_lost(
    engine: &Engine,
    store: &dyn Upkeep,
    returns: &[Return],
    actor: &str,
) -> Result<usize, Failed> {
    let Some(epoch) = began(returns) else { return Ok(0) };
    let (mut count, mut after) = (0, i64::MIN);
    loop {
        let page = store.lost(after, limits::PAGE_ROWS_MAX).await?;
        let Some(last) = page.last() else { return Ok(count) };
        after = last.cursor;
        for lost in page.iter().filter(|lost| lost.epoch >= epoch && may_be_sent(lost)) {
            if let LostRow::Effect { address, .. } = &lost.what {
                count += usize::from(engine.doubt_lost(address, actor).await?);
            }
        }
    }
}

/// Of what was only planned, or proven not to have happened, nothing is feared.
fn may_be_sent(lost: &Lost) -> bool {
    match State::parse(&lost.state) {
        Some(State::Planned | State::Void | State::Failed) => false,
        Some(State::Pending | State::InDoubt | State::Done | State::Expired) | None => true,
    }
}

/// Nothing is closed: which one is open, or who closed the last one.
fn no_such(returns: &[Return]) -> Failed {
    let text = match returns.first() {
        Some(Return { epoch, closed: None, .. }) => {
            format!("the quarantine that is open is that of epoch {epoch}")
        }
        Some(Return { closed: Some(closed), .. }) => {
            format!("no quarantine is open; {} closed the last one", plain(&closed.actor))
        }
        None => "no quarantine is open; the store was never found to go back".to_owned(),
    };
    semel::Error::new(Code::NoQuarantine, text).into()
}

/// A quarantine is open while the newest return is not closed.
fn open(returns: &[Return]) -> Option<&Return> {
    returns.first().filter(|newest| newest.closed.is_none())
}

/// The epoch in which the newest quarantine began: returns that came while it was open belong to
/// it and are closed with it.
fn began(returns: &[Return]) -> Option<u64> {
    let newest = returns.first()?;
    let same = returns.iter().take_while(|one| one.closed == newest.closed);
    same.last().map(|first| first.epoch)
}

/// Effects that are in doubt because an attempt was assumed for them in this quarantine, in all
/// namespaces: it is the store that went back.
async fn doubts(engine: &Engine, returns: &[Return], limit: usize) -> Result<Doubts, Failed> {
    let mut found = Doubts::default();
    let Some(epoch) = began(returns) else { return Ok(found) };
    let state = Some(State::InDoubt);
    let mut query = Query { state, ..Query::everywhere(limits::PAGE_ROWS_MAX) };
    loop {
        let page = engine.list(&query).await?;
        found.unreadable += page.unreadable.len();
        let now = engine.store().ground().now;
        for effect in page.effects.iter().filter(|effect| is_by(effect, epoch, &now)) {
            found.count += 1;
            if found.listed.len() < limit {
                found.listed.push(doubted(effect));
            }
        }
        if page.next.is_none() {
            return Ok(found);
        }
        query.after = page.next;
    }
}

/// Whether an attempt that was assumed in this epoch or later is still unknown.
fn is_by(effect: &Effect, epoch: u64, now: &Moment) -> bool {
    effect.attempts.iter().any(|attempt| {
        let is_assumed = attempt.kind == Kind::Assumed && attempt.is_unknown(now);
        is_assumed && attempt.fence >> EPOCH_SHIFT >= epoch
    })
}

fn doubted(effect: &Effect) -> Doubted {
    let address = &effect.address;
    let contract = effect.plan.as_ref().map_or(Contract::AtMostOnce, |plan| plan.terms.contract);
    let namespace = address.namespace.as_str();
    let elsewhere = match namespace {
        "default" => String::new(),
        other => format!(" --namespace {}", quoted(other)),
    };
    let resolve = format!(
        "semel effects resolve {}{elsewhere} --version {} --done|--failed|--retry --reason …",
        quoted(&address.to_string()),
        effect.version
    );
    let next = match contract {
        Contract::Probe { .. } => format!("the next call looks it up; or {resolve}"),
        Contract::Conditional | Contract::Harmless => {
            format!("the next call sends it again; or {resolve}")
        }
        Contract::NativeKey { .. } | Contract::AtMostOnce | Contract::Transaction => resolve,
    };
    Doubted {
        namespace: namespace.to_owned(),
        action: address.action.as_str().to_owned(),
        key: address.key.as_str().to_owned(),
        generation: effect.generation,
        version: effect.version,
        contract: contract.name(),
        next,
    }
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,=".contains(c);
    if word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// What processes remember of this quarantine's lost tail.
async fn lost(
    store: &dyn Upkeep,
    returns: &[Return],
    limit: usize,
) -> Result<Vec<LostView>, Failed> {
    let Some(epoch) = began(returns) else { return Ok(Vec::new()) };
    let mut views = Vec::new();
    let mut after = i64::MIN;
    while views.len() < limit {
        let page = store.lost(after, limits::PAGE_ROWS_MAX).await?;
        let Some(last) = page.last() else { break };
        after = last.cursor;
        views.extend(page.iter().filter(|row| row.epoch >= epoch).map(lost_view));
    }
    views.truncate(limit);
    Ok(views)
}

fn lost_view(lost: &Lost) -> LostView {
    let (kind, namespace, name) = match &lost.what {
        LostRow::Effect { address, generation: 0 } => {
            ("effect", address.namespace.as_str(), address.to_string())
        }
        LostRow::Effect { address, generation } => {
            let name = format!("{address} (generation {generation})");
            ("effect", address.namespace.as_str(), name)
        }
        LostRow::Run { namespace, id } => ("run", namespace.as_str(), id.clone()),
    };
    LostView {
        kind,
        namespace: namespace.to_owned(),
        name,
        version: lost.version,
        state: lost.state.clone(),
        written_at: rfc3339(lost.written),
        worker: lost.worker.clone(),
    }
}

fn return_json(one: &Return) -> serde_json::Value {
    let closed = one.closed.as_ref().map(|Closed { at, actor, reason }| {
        json!({ "at": rfc3339(*at), "actor": actor, "reason": reason })
    });
    json!({
        "epoch": one.epoch,
        "opened_at": rfc3339(one.opened),
        "recovered_at": rfc3339(one.recovered),
        "evidence": one.evidence,
        "closed": closed,
    })
}

fn print_returns(returns: &[Return], printer: &Printer) {
    if returns.is_empty() {
        return printer.line("no quarantine: the store was never found to go back in time");
    }
    for one in returns {
        let state = match one.closed {
            None => printer.paint(Tone::Doubt, "open"),
            Some(_) => printer.paint(Tone::Good, "closed"),
        };
        printer.line(&format!("the quarantine of epoch {} is {state}", one.epoch));
        let field = |name: &str, value: &str| {
            let name = printer.paint(Tone::Quiet, &format!("{name:15}"));
            printer.line(&format!("  {name} {}", plain(value)));
        };
        field("opened", &rfc3339(one.opened));
        match one.recovered {
            Wall(0) => field("recovery point", "none: the store remembers no commit"),
            recovered => field("recovery point", &rfc3339(recovered)),
        }
        field("evidence", &one.evidence);
        if let Some(closed) = &one.closed {
            let by = format!("{} by {}: {}", rfc3339(closed.at), closed.actor, closed.reason);
            field("closed", &by);
        }
    }
}

fn print_lost(lost: &[LostView], printer: &Printer) {
    printer.line("");
    if lost.is_empty() {
        return printer.line("no process remembers a row that the store has lost");
    }
    printer.line("lost, as processes remember:");
    let row = |one: &LostView| {
        vec![
            one.kind.to_owned(),
            plain(&one.namespace),
            plain(&one.name),
            one.version.to_string(),
            plain(&one.state),
            one.written_at.clone(),
            plain(&one.worker),
        ]
    };
    let headings = ["KIND", "NAMESPACE", "NAME", "VERSION", "STATE", "WRITTEN", "WORKER"];
    printer.table(&headings, &lost.iter().map(row).collect::<Vec<_>>());
}

fn print_doubts(doubts: &Doubts, printer: &Printer) {
    printer.line("");
    if doubts.unreadable > 0 {
        let count = effects(doubts.unreadable);
        printer.line(&format!("unsettled and cannot be read: {count}; see `semel verify`"));
    }
    if doubts.count == 0 {
        return printer.line("no effect is in doubt by it");
    }
    printer.line(&format!("{} in doubt by it:", effects(doubts.count)));
    let row = |one: &Doubted| {
        let name = plain(&format!("{}/{}", one.action, one.key));
        vec![name, plain(&one.namespace), one.contract.to_owned(), plain(&one.next)]
    };
    let rows: Vec<_> = doubts.listed.iter().map(row).collect();
    printer.table(&["ACTION/KEY", "NAMESPACE", "CONTRACT", "NEXT"], &rows);
    if doubts.listed.len() < doubts.count {
        printer.talk("more: add --limit, or semel effects ls --state in_doubt");
    }
}

fn effects(count: usize) -> String {
    match count {
        1 => "1 effect".to_owned(),
        several => format!("{several} effects"),
    }
}
