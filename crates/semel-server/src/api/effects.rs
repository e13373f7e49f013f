//! The ledger: begin, settle, renew, look up, decide.

use semel_core::access::Permission;
use semel_core::code::Code;
use semel_core::derive;
use semel_core::effect::{Abort, State};
use semel_core::key::{Action, Address, Namespace};
use semel_core::proof;
use semel_core::record::Effect;
use semel_core::repeats::{Door, Subject};
use semel_core::time::Moment;
use semel_core::wire::{ArmedView, BeginView, EffectView, effect_view, rfc3339};
use semel_core::wire_answer::{LeaseView, SettledView};
use semel_core::wire_ask::{BeginAsk, DecideAsk, RenewAsk, ResolveAsk, SettleAsk, person};
use semel_engine::{Answer, Armed, Engine, Error};
use semel_store::Query;
use serde::Serialize;
use serde_json::{Value, json};

use super::runs::shown;
use crate::app::App;
use crate::openapi::{Object, Operation, PAGE, Parameter, flag, text};
use crate::problem::Problem;
use crate::route::Access::Needs;
use crate::route::{Call, Page, Reply, Route, Rows, bad_query};
use crate::turn::Turn;

const FILTERS: [Parameter; 7] = [
    Parameter { name: "action", what: "the kind of effect", schema: text },
    Parameter { name: "key", what: "the business key, as views show it", schema: text },
    Parameter { name: "state", what: "the state now", schema: state },
    Parameter { name: "alarmed", what: "only those with an alarm", schema: flag },
    Parameter { name: "draft", what: "look in the draft twin", schema: flag },
    PAGE[0],
    PAGE[1],
];

fn state() -> Value {
    json!({ "type": "string", "enum": State::ALL.map(State::as_str) })
}

pub(super) fn routes() -> Vec<Route> {
    [performing(), looking_and_deciding()].concat()
}

fn performing() -> Vec<Route> {
    let perform = Needs(Permission::Perform);
    let op = Operation::new;
    vec![
        Route::post(
            "/v1/effects/begin",
            perform,
            op("begin_effect", "Ask to perform an effect")
                .takes::<BeginAsk>()
                .returns::<BeginView>(),
            begin,
        ),
        Route::post(
            "/v1/effects/settle",
            perform,
            op("settle_effect", "Say what became of an attempt")
                .takes::<SettleAsk>()
                .returns::<SettledView>(),
            settle,
        ),
        Route::post(
            "/v1/effects/renew",
            perform,
            op("renew_effect", "Extend the lease of an attempt")
                .takes::<RenewAsk>()
                .returns::<LeaseView>(),
            renew,
        ),
    ]
}

fn looking_and_deciding() -> Vec<Route> {
    let (read, operate) = (Needs(Permission::Read), Needs(Permission::Operate));
    let op = Operation::new;
    vec![
        Route::get(
            "/v1/effects",
            read,
            op("list_effects", "Look effects up, the newest first")
                .query(&FILTERS)
                .returns::<Page<EffectView>>(),
            list,
        ),
        Route::get(
            "/v1/effects/{id}",
            read,
            op("show_effect", "One effect with its attempts").returns::<EffectView>(),
            show,
        ),
        Route::get(
            "/v1/effects/{id}/proof",
            read,
            op("prove_effect", "What is proven of an effect").returns::<Object>(),
            prove,
        ),
        Route::post(
            "/v1/effects/{id}/resolve",
            operate,
            op("resolve_effect", "Settle a doubt by a person's word")
                .takes::<ResolveAsk>()
                .returns::<EffectView>()
                .keyed(),
            resolve,
        ),
        Route::post(
            "/v1/effects/{id}/grant",
            operate,
            op("grant_effect", "Grant another retry budget under the same downstream key")
                .takes::<DecideAsk>()
                .returns::<EffectView>()
                .keyed(),
            grant,
        ),
        Route::post(
            "/v1/effects/{id}/supersede",
            operate,
            op("supersede_effect", "Do an intent again")
                .takes::<DecideAsk>()
                .returns::<EffectView>()
                .keyed(),
            supersede,
        ),
        Route::post(
            "/v1/effects/{id}/void",
            operate,
            op("void_effect", "Cancel an effect before any send")
                .takes::<DecideAsk>()
                .returns::<EffectView>()
                .keyed(),
            void,
        ),
    ]
}

async fn begin(call: Call) -> Result<Reply, Problem> {
    let ask: BeginAsk = call.ask()?;
    let (address, answer) = begun(&call, &ask, call.app.settings.limits.hold_ms).await?;
    let is_repeat = matches!(answer, Answer::Replay(_) | Answer::Undone(..) | Answer::Failed(_));
    if is_repeat {
        call.app.engine.note_repeat(Subject::Effect(address), Door::Http);
    }
    let now = call.app.engine.store().ground().now;
    // What was taken back is no plain replay.
    let is_replay = matches!(answer, Answer::Replay(_) | Answer::Failed(_));
    Ok(Reply::ok(&begin_view(&answer, &now)).replayed(is_replay))
}

/// Begins an effect for a caller, within its namespace's share of new keys.
pub(super) async fn begun(
    call: &Call,
    ask: &BeginAsk,
    hold_most_ms: u64,
) -> Result<(Address, Answer), Problem> {
    let begin = ask.begin(&call.who.namespace, &call.who.actor)?;
    let hold_ms = ask.hold_ms(hold_most_ms)?;
    let app = &call.app;
    let name = format!("{}/{}", begin.address.namespace, begin.address);
    let (store, address) = (app.engine.store(), &begin.address);
    let is_there = || async move { Ok(store.load(address).await?.is_some()) };
    let _brought = app.admission.bring(&call.who.namespace, &name, is_there).await?;
    let address = begin.address.clone();
    Ok((address, app.engine.begin(begin, hold_ms).await?))
}

fn begin_view(answer: &Answer, now: &Moment) -> BeginView {
    match answer {
        Answer::Attempt(armed) => BeginView::Attempt(armed_view(armed, now)),
        Answer::Probe(armed) => BeginView::Probe(armed_view(armed, now)),
        Answer::Replay(receipt) => BeginView::Replay { receipt: receipt.clone() },
        Answer::Undone(receipt, undo) => {
            BeginView::Undone { receipt: receipt.clone(), undo_receipt: undo.clone() }
        }
        Answer::Failed(reason) => BeginView::Failed { reason: reason.clone() },
    }
}

fn armed_view(armed: &Armed, now: &Moment) -> ArmedView {
    let permit = &armed.permit;
    let at = |point| rfc3339(now.wall.plus(now.until(point)));
    ArmedView {
        id: armed.id(),
        fence: permit.fence,
        attempt: permit.attempt,
        downstream_key: permit.downstream_key.clone(),
        input: permit.input.clone(),
        lease_until: at(permit.lease_until),
        lease_ms: now.until(permit.lease_until),
        deadline: at(permit.deadline),
        deadline_ms: now.until(permit.deadline),
        resumed: permit.resumed,
    }
}

async fn settle(call: Call) -> Result<Reply, Problem> {
    let ask: SettleAsk = call.ask()?;
    let address = ask.address(&call.who.namespace)?;
    let filed = call.app.engine.settle(&address, &ask.settle()?).await?;
    Ok(Reply::ok(&SettledView {
        state: filed.state.as_str(),
        kept_as_evidence: filed.kept_as_evidence,
        version: filed.effect.version,
    }))
}

async fn renew(call: Call) -> Result<Reply, Problem> {
    let ask: RenewAsk = call.ask()?;
    let address = ask.address(&call.who.namespace)?;
    let engine = &call.app.engine;
    let effect = engine.renew(&address, ask.fence, Abort::Possible).await?;
    let now = engine.store().ground().now;
    let held = effect.holder(&now).filter(|attempt| attempt.fence == ask.fence);
    let held = held.ok_or_else(|| Problem::new(Code::StaleFence, "another attempt holds it"))?;
    let lease_ms = now.until(held.lease_until);
    let lease_until = rfc3339(now.wall.plus(lease_ms));
    Ok(Reply::ok(&LeaseView { lease_until, lease_ms }))
}

async fn list(call: Call) -> Result<Reply, Problem> {
    let state = call
        .query
        .get("state")
        .map(|text| State::parse(text).ok_or_else(|| bad_query("state", "a state of an effect")));
    let action = call.query.get("action").map(|text| Action::new(text)).transpose()?;
    let alarmed = match call.query.get("alarmed").map(String::as_str) {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => return Err(bad_query("alarmed", "`true` or `false`")),
    };
    let query = Query {
        action,
        state: state.transpose()?,
        alarmed,
        after: call.after()?,
        ..Query::all(call.namespace()?, 0)
    };
    let engine = &call.app.engine;
    let now = engine.store().ground().now;
    let mut found = (Rows::up_to(call.limit()?), None);
    for key in call.keys()? {
        let query = Query { key, ..query.clone() };
        found = rows(engine, query, found.0, |effect| effect_view(effect, &now)).await?;
        if !found.0.is_empty() {
            break;
        }
    }
    Ok(Reply::ok(&found.0.page(found.1)))
}

/// Reads of the store for one page that may come back with less than was asked for: each has passed
/// over as many rows as it may.
const SEARCHES_MAX: usize = 4;

/// Reads rows until the page is full or enough was searched, and where the next one begins.
pub(super) async fn rows<V: Serialize>(
    engine: &Engine,
    mut query: Query,
    mut rows: Rows,
    view: impl Fn(&Effect) -> V,
) -> Result<(Rows, Option<String>), Problem> {
    let mut searches = 0;
    loop {
        query.limit = rows.more();
        let page = match query.held {
            true => engine.held(&query).await?,
            false => engine.list(&query).await?,
        };
        page.effects.iter().for_each(|effect| rows.push(&view(effect)));
        rows.set_aside(page.unreadable);
        query.after = page.next;
        searches += usize::from(page.effects.len() < query.limit);
        if page.next.is_none() || searches == SEARCHES_MAX || rows.more() == 0 {
            return Ok((rows, page.next.map(|next| next.to_string())));
        }
    }
}

/// The effect that an id names, in the caller's namespace or its draft twin.
pub(crate) async fn find(app: &App, namespace: &Namespace, id: &str) -> Result<Effect, Problem> {
    let (address, generation) = read_id(namespace, id)?;
    Ok(app.engine.generation(&address, generation).await?)
}

/// Whether nobody has opened a further generation since. Versions of generations begin anew, so
/// the version alone does not tell which of them a person looked at.
pub(crate) async fn check_newest(engine: &Engine, seen: &Effect) -> Result<(), Error> {
    let newest = engine.effect(&seen.address).await?;
    match newest.generation == seen.generation {
        true => Ok(()),
        false => Err(Error::new(Code::VersionChanged, "there is a further generation by now")),
    }
}

pub(super) fn read_id(namespace: &Namespace, id: &str) -> Result<(Address, u32), Problem> {
    derive::read_ref(namespace, id)
        .or_else(|| derive::read_ref(&namespace.draft(), id))
        .ok_or_else(Problem::not_found)
}

async fn show(call: Call) -> Result<Reply, Problem> {
    let effect = find(&call.app, &call.who.namespace, call.param("id")).await?;
    Ok(viewed(&call.app, effect))
}

fn viewed(app: &App, effect: Effect) -> Reply {
    let now = app.engine.store().ground().now;
    Reply::ok(&effect_view(&app.engine.judged(effect, &now), &now))
}

async fn prove(call: Call) -> Result<Reply, Problem> {
    let effect = find(&call.app, &call.who.namespace, call.param("id")).await?;
    call.app.engine.write_repeats().await;
    let evidence = call.app.engine.evidence_of_effect(&effect.address).await?;
    shown(&call.who, &evidence)?;
    proved(&evidence)
}

/// Statement and evidence as one document, which `semel proof verify` checks without the store.
pub(super) fn proved(evidence: &proof::Evidence) -> Result<Reply, Problem> {
    let unreadable = |what| Problem::new(Code::StoreCorrupt, what);
    let statement = proof::state(evidence).map_err(unreadable)?;
    let text = proof::Document::new(&statement, evidence).text();
    Ok(Reply::bytes(axum::http::StatusCode::OK, "application/json", text))
}

async fn resolve(call: Call) -> Result<Reply, Problem> {
    let ask: ResolveAsk = call.ask()?;
    let effect = find(&call.app, &call.who.namespace, call.param("id")).await?;
    let resolution = ask.resolution()?;
    let person = person(&call.who.actor, &ask.reason, ask.version);
    let mut turn = Turn::of(&call, "resolve").await?;
    if let Some(engine) = turn.engine() {
        let decided = match check_newest(&engine, &effect).await {
            Ok(()) => engine.resolve(&effect.address, &person, &resolution).await,
            Err(error) => Err(error),
        };
        turn.took(decided).await?;
    }
    newest(&call, &effect, &turn).await
}

async fn grant(call: Call) -> Result<Reply, Problem> {
    let ask: DecideAsk = call.ask()?;
    let effect = find(&call.app, &call.who.namespace, call.param("id")).await?;
    let person = person(&call.who.actor, &ask.reason, ask.version);
    let mut turn = Turn::of(&call, "grant").await?;
    if let Some(engine) = turn.engine() {
        let decided = match check_newest(&engine, &effect).await {
            Ok(()) => engine.grant(&effect.address, &person).await,
            Err(error) => Err(error),
        };
        turn.took(decided).await?;
    }
    newest(&call, &effect, &turn).await
}

async fn supersede(call: Call) -> Result<Reply, Problem> {
    let ask: DecideAsk = call.ask()?;
    let effect = find(&call.app, &call.who.namespace, call.param("id")).await?;
    let person = person(&call.who.actor, &ask.reason, ask.version);
    let mut turn = Turn::of(&call, "supersede").await?;
    if let Some(engine) = turn.engine() {
        let decided = match check_newest(&engine, &effect).await {
            Ok(()) => engine.supersede(&effect.address, &person).await,
            Err(error) => Err(error),
        };
        turn.took(decided).await?;
    }
    newest(&call, &effect, &turn).await
}

async fn void(call: Call) -> Result<Reply, Problem> {
    let ask: DecideAsk = call.ask()?;
    let effect = find(&call.app, &call.who.namespace, call.param("id")).await?;
    let person = person(&call.who.actor, &ask.reason, ask.version);
    let mut turn = Turn::of(&call, "void").await?;
    if let Some(engine) = turn.engine() {
        let decided = match check_newest(&engine, &effect).await {
            Ok(()) => engine.void(&effect.address, &person).await,
            Err(error) => Err(error),
        };
        turn.took(decided).await?;
    }
    newest(&call, &effect, &turn).await
}

/// The effect as it is now, in its newest generation.
async fn newest(call: &Call, effect: &Effect, turn: &Turn) -> Result<Reply, Problem> {
    let newest = call.app.engine.effect(&effect.address).await?;
    Ok(viewed(&call.app, newest).replayed(turn.is_repeat))
}
