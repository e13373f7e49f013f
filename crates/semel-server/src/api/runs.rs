//! Runs: start, look, follow.

use std::time::Duration;

use axum::http::StatusCode;
use semel_core::access::Permission;
use semel_core::code::Code;
use semel_core::derive;
use semel_core::journal;
use semel_core::key::{Action, Key, Namespace};
use semel_core::limits;
use semel_core::proof;
use semel_core::run::{Run, State};
use semel_core::time::parse_duration_ms;
use semel_core::wire_answer::StartedView;
use semel_core::wire_ask::StartAsk;
use semel_core::wire_run::{EntryView, FaultView, ResultView, RunView, entry_view, run_view};
use semel_engine::Start;
use semel_store::{Inked, RunPage, RunQuery};
use serde_json::{Value, json};

use super::effects::proved;
use crate::admit::Brought;
use crate::app::App;
use crate::openapi::{Object, Operation, PAGE, Parameter, flag, text};
use crate::problem::Problem;
use crate::route::Access::Needs;
use crate::route::{Call, Page, Reply, Route, Rows, Who, bad_query};

/// How long a caller may wait for a result in one request.
const WAIT_MS_MAX: u64 = 60_000;

const FILTERS: [Parameter; 6] = [
    Parameter { name: "workflow", what: "its workflow", schema: text },
    Parameter { name: "key", what: "its start key, as views show it", schema: text },
    Parameter { name: "state", what: "its state", schema: state },
    Parameter { name: "draft", what: "look in the draft twin", schema: flag },
    PAGE[0],
    PAGE[1],
];

const WAIT: [Parameter; 1] =
    [Parameter { name: "wait", what: "how long to wait for it, up to 60s", schema: text }];

fn state() -> Value {
    json!({ "type": "string", "enum": State::ALL.map(State::as_str) })
}

pub(super) fn routes() -> Vec<Route> {
    let (read, follow) = (Needs(Permission::Read), Needs(Permission::Follow));
    let op = Operation::new;
    vec![
        Route::post(
            "/v1/workflows/{name}/runs",
            Needs(Permission::Start),
            op("start_run", "Start a run, or attach to the one this key started")
                .takes::<StartAsk>()
                .optional()
                .returns::<StartedView>()
                .keyed()
                .answers(&[(201, "started"), (200, "attached to the run of this key")]),
            start,
        ),
        Route::get(
            "/v1/runs",
            read,
            op("list_runs", "Runs, the newest first").query(&FILTERS).returns::<Page<RunView>>(),
            list,
        ),
        Route::get("/v1/runs/{id}", follow, op("show_run", "One run").returns::<RunView>(), show),
        Route::get(
            "/v1/runs/{id}/journal",
            read,
            op("show_journal", "What happened in a run").query(&PAGE).returns::<Page<EntryView>>(),
            show_journal,
        ),
        Route::get(
            "/v1/runs/{id}/proof",
            read,
            op("prove_run", "What is proven of a run and its effects").returns::<Object>(),
            prove,
        ),
        Route::get(
            "/v1/runs/{id}/result",
            follow,
            op("result_of_run", "What a run came to")
                .query(&WAIT)
                .returns::<ResultView>()
                .answers(&[(200, "it has ended"), (202, "it has not ended yet")]),
            result,
        ),
    ]
}

async fn start(call: Call) -> Result<Reply, Problem> {
    let ask: StartAsk = call.ask()?;
    let key = call.idempotency_key()?;
    let workflow = Action::new(call.param("name"))?;
    if let Some(release) = &ask.release {
        Action::new(release)?;
    }
    let _brought = admit(&call, &workflow, key.as_ref()).await?;
    let start = Start {
        namespace: call.who.namespace.clone(),
        workflow,
        key,
        input: ask.input.clone(),
        window_ms: limits::WINDOW_MS,
        deadline_ms: ask.deadline_ms()?,
        release: ask.release.clone(),
        parent: None,
    };
    let started = call.app.engine.start_run(start).await?;
    let run = &started.run;
    let (id, key) = (run.id.clone(), run.key.clone());
    let body = StartedView { id, state: run.state().as_str(), key };
    let status = if started.attached { StatusCode::OK } else { StatusCode::CREATED };
    Ok(Reply::json(status, &body).replayed(started.attached))
}

/// A new run counts as a new key; one that is there is only attached to.
async fn admit(
    call: &Call,
    workflow: &Action,
    key: Option<&Key>,
) -> Result<Option<Brought>, Problem> {
    let (admission, own) = (&call.app.admission, &call.who.namespace);
    // Without a key of its caller each start is another run.
    let Some(key) = key else {
        return admission.bring(own, &call.request_id, || async { Ok(false) }).await;
    };
    let store = call.app.engine.store();
    let id = derive::run_id(own, workflow.as_str(), key).to_string();
    let draft = derive::run_id(&own.draft(), workflow.as_str(), key).to_string();
    let (id, draft) = (id.as_str(), draft.as_str());
    let is_there = || async move {
        let found = store.run(own.as_str(), id).await?;
        Ok(found.is_some() || store.run(own.draft().as_str(), draft).await?.is_some())
    };
    admission.bring(own, id, is_there).await
}

async fn list(call: Call) -> Result<Reply, Problem> {
    let state = call
        .query
        .get("state")
        .map(|text| State::parse(text).ok_or_else(|| bad_query("state", "a state of a run")));
    let workflow = call.query.get("workflow").map(|text| Action::new(text)).transpose()?;
    let query = RunQuery {
        namespace: Some(call.namespace()?.as_str().to_owned()),
        workflow: workflow.map(|workflow| workflow.as_str().to_owned()),
        key: None,
        state: state.transpose()?,
        after: call.after()?,
        limit: call.limit()?,
    };
    let mut page = RunPage::default();
    for key in call.keys()? {
        let key = key.map(|key| key.as_str().to_owned());
        page = call.app.engine.runs(&RunQuery { key, ..query.clone() }).await?;
        if !page.runs.is_empty() || !page.unreadable.is_empty() {
            break;
        }
    }
    let now = call.app.engine.store().ground().now;
    let items = page.runs.iter().map(|run| run_view(run, &now)).collect();
    let next = page.next.map(|next| next.to_string());
    Ok(Reply::ok(&Page::<RunView>::of(items, next).and(page.unreadable)))
}

/// The run that an id names, in the caller's namespace or its draft twin.
pub(crate) async fn find(app: &App, namespace: &Namespace, id: &str) -> Result<Run, Problem> {
    for namespace in [namespace.clone(), namespace.draft()] {
        if let Some(run) = app.engine.store().run(namespace.as_str(), id).await? {
            return Ok(run);
        }
    }
    Err(Problem::not_found())
}

/// A run as everybody sees it, with whoever is before it.
pub(crate) async fn viewed(app: &App, run: &Run) -> Result<RunView, Problem> {
    let mut view = run_view(run, &app.engine.store().ground().now);
    for (wait, shown) in run.waits.iter().zip(&mut view.waits) {
        shown.behind = app.engine.runs_before(run, wait).await?;
    }
    Ok(view)
}

async fn show(call: Call) -> Result<Reply, Problem> {
    let run = find(&call.app, &call.who.namespace, call.param("id")).await?;
    Ok(Reply::ok(&viewed(&call.app, &run).await?))
}

async fn show_journal(call: Call) -> Result<Reply, Problem> {
    let run = find(&call.app, &call.who.namespace, call.param("id")).await?;
    let engine = &call.app.engine;
    let mut from: u64 = call.after::<u64>()?.map_or(0, |after| after.saturating_add(1));
    let mut rows = Rows::up_to(call.limit()?);
    let next = loop {
        let asked = rows.more();
        let page = engine.store().journal(run.number, from, asked).await?;
        for inked in &page {
            if rows.more() == 0 {
                break;
            }
            rows.push(&entry(&call, &run, inked).await?);
            from = inked.seq + 1;
        }
        if rows.more() == 0 {
            break Some((from - 1).to_string());
        }
        if page.len() < asked {
            break None;
        }
    };
    Ok(Reply::ok(&rows.page(next)))
}

/// One entry with its value, as far as the caller may see it.
async fn entry(call: &Call, run: &Run, inked: &Inked) -> Result<EntryView, Problem> {
    let corrupt = |what| Problem::new(Code::StoreCorrupt, format!("run {}: {what}", run.id));
    let entry = journal::decode(&inked.text).map_err(corrupt)?;
    let value = match entry.event.value() {
        Some(_) if entry.event.gives_token() && !call.who.sees_tokens() => None,
        Some(value) => Some(call.app.engine.read_value(&run.namespace, value).await?),
        None => None,
    };
    Ok(entry_view(inked.seq, &entry, value))
}

async fn prove(call: Call) -> Result<Reply, Problem> {
    let run = find(&call.app, &call.who.namespace, call.param("id")).await?;
    let namespace = Namespace::stored(&run.namespace)?;
    call.app.engine.write_repeats().await;
    let evidence = call.app.engine.evidence_of_run(&namespace, &run.id).await?;
    shown(&call.who, &evidence)?;
    proved(&evidence)
}

/// Evidence is word for word, or it proves nothing: what may not be seen is not shown at all.
pub(super) fn shown(who: &Who, evidence: &proof::Evidence) -> Result<(), Problem> {
    let mut entries = evidence.runs.iter().flat_map(|run| &run.entries);
    let gives = |text: &str| journal::decode(text).is_ok_and(|entry| entry.event.gives_token());
    match !who.sees_tokens() && entries.any(|entry| gives(&entry.text)) {
        true => Err(Problem::holds_token()),
        false => Ok(()),
    }
}

async fn result(call: Call) -> Result<Reply, Problem> {
    let wait_ms = match call.query.get("wait") {
        None => 0,
        Some(text) => {
            let ms = parse_duration_ms(text).map_err(|_| bad_query("wait", "a duration"))?;
            ms.min(WAIT_MS_MAX)
        }
    };
    let run = find(&call.app, &call.who.namespace, call.param("id")).await?;
    let engine = &call.app.engine;
    let waiting = engine.result(&run.namespace, &run.id);
    if wait_ms > 0 && !run.state().is_final() {
        let _ = tokio::time::timeout(Duration::from_millis(wait_ms), waiting).await;
    }
    let run = find(&call.app, &call.who.namespace, call.param("id")).await?;
    let state = run.state();
    if !state.is_final() {
        let body = json!({ "id": run.id, "state": state.as_str() });
        return Ok(Reply::json(StatusCode::ACCEPTED, &body));
    }
    let view = ResultView { id: run.id.clone(), state: state.as_str(), result: None, error: None };
    let view = match engine.ending(&run).await {
        Ok(value) => ResultView { result: Some(value), ..view },
        Err(error) if matches!(state, State::Failed | State::Cancelled) => {
            let (code, detail) = (error.code().as_str().to_owned(), error.detail().to_owned());
            ResultView { error: Some(FaultView { code, detail, raised: None }), ..view }
        }
        Err(error) => return Err(error.into()),
    };
    Ok(Reply::ok(&view))
}
