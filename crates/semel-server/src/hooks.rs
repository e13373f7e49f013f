//! Webhooks in: a signed delivery becomes a run. The signature is the credential, so these routes
//! take no token; namespace, workflow and key come from the trigger.
//!
//! The order is fixed: verify over the bytes as they came, then read, then commit, then answer.
//! What is not believed gets one answer, whatever is wrong with it and whether or not there is such
//! a trigger.

mod manage;

use axum::http::{HeaderMap, StatusCode};
use semel_core::code::Code;
use semel_core::derive;
use semel_core::hook::{self, Delivery, Event, Plan, Refused, Request, Scheme, Secret, Verdict};
use semel_core::key::{Key, Namespace};
use semel_core::run::Run;
use semel_engine::{Error, Start, secrets_of};
use serde_json::json;
use tracing::Instrument;

use crate::admit::Brought;
use crate::app::{App, OpenError};
use crate::openapi::Operation;
use crate::operate::traces;
use crate::problem::Problem;
use crate::request::unpack;
use crate::route::{Access, Call, Reply, Route};

pub(crate) fn routes() -> Vec<Route> {
    const ANSWERS: &[(u16, &str)] =
        &[(202, "a run was started"), (200, "the run of this delivery is there")];
    let op = |id, summary| Operation::new(id, summary).answers(ANSWERS).raw();
    let mut routes = manage::routes();
    routes.extend([
        Route::post(
            "/hooks/{trigger}",
            Access::Open,
            op("receive_webhook", "A signed delivery; the signature is the credential"),
            receive,
        ),
        Route::post(
            "/hooks/{namespace}/{trigger}",
            Access::Open,
            op("receive_webhook_in", "The same in another namespace than `default`"),
            receive,
        ),
    ]);
    routes
}

/// Puts the triggers of the server's file. One that cannot work keeps the server from starting:
/// its deliveries would be lost in silence.
pub(crate) async fn put_declared(app: &App) -> Result<(), OpenError> {
    for (name, content) in &app.settings.triggers {
        let said = content.namespace.as_deref();
        let namespace = said.map_or(Ok(Namespace::default()), Namespace::new);
        let namespace = namespace.map_err(Error::from)?;
        let put = app.engine.put_trigger(&namespace, name, content, "config").await;
        let (_, is_changed) = put.map_err(|error| {
            Error::new(error.code(), format!("[triggers.{name}] {}", error.detail()))
        })?;
        if is_changed {
            tracing::info!(trigger = name, %namespace, "a trigger of the file was put");
        }
    }
    Ok(())
}

async fn receive(call: Call) -> Result<Reply, Problem> {
    let (namespace, name) = place(&call);
    let headers = lines(&call.headers);
    let request = Request { headers: &headers, body: &call.body };
    let now = call.app.engine.store().ground().now.wall;
    let Some(plan) = plan(&call.app, &namespace, &name).await? else {
        // As much work as for a trigger that is there, so that time does not tell either.
        let nobody = [Secret { bytes: b"bm9ib2R5".to_vec(), until: None }];
        let _ = hook::verify(&Scheme::Standard, &nobody, &request, now);
        return Err(not_believed());
    };
    let receiver = Receiver { app: &call.app, namespace, plan, bytes: call.body.len() as u64 };
    if let Err(refused) =
        hook::verify(&receiver.plan.scheme, &secrets_of(&receiver.plan).await, &request, now)
    {
        return Err(receiver.refuse(refused));
    }
    // Signed is what came over the wire; what counts is what was packed.
    let body = unpack(&call.headers, call.body.clone(), call.app.settings.limits.body_bytes)?;
    receiver.take(Request { headers: &headers, body: &body }).await
}

/// Where the trigger of an address is. One that stands in the server's file is found by its name
/// alone: there are no two of them.
fn place(call: &Call) -> (Namespace, String) {
    let name = call.param("trigger").to_owned();
    let declared = call.app.settings.triggers.get(&name);
    let said = match call.path.get("namespace") {
        Some(said) => Some(said.as_str()),
        None => declared.and_then(|content| content.namespace.as_deref()),
    };
    let namespace = said.and_then(|said| Namespace::new(said).ok());
    // What is no namespace has no triggers, and neither has a name that is none.
    match (said, namespace) {
        (Some(_), None) => (Namespace::default(), String::new()),
        (_, namespace) => (namespace.unwrap_or_default(), name),
    }
}

async fn plan(app: &App, namespace: &Namespace, name: &str) -> Result<Option<Plan>, Problem> {
    let found = match app.engine.trigger(namespace, name).await {
        Ok(found) => found,
        Err(error) if error.code() == Code::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    Ok(Some(hook::check(name, &found.trigger.content).map_err(Error::from)?))
}

/// The header lines as they came.
fn lines(headers: &HeaderMap) -> Vec<(String, Vec<u8>)> {
    let line = |(name, value): (&axum::http::HeaderName, &axum::http::HeaderValue)| {
        (name.as_str().to_owned(), value.as_bytes().to_vec())
    };
    headers.iter().map(line).collect()
}

fn not_believed() -> Problem {
    Problem::new(Code::SignatureInvalid, "the delivery was not believed")
}

/// One delivery to a trigger that is there.
struct Receiver<'a> {
    app: &'a App,
    namespace: Namespace,
    plan: Plan,
    bytes: u64,
}

impl Receiver<'_> {
    fn refuse(&self, refused: Refused) -> Problem {
        let trigger = &self.plan.name;
        tracing::info!(%trigger, why = refused.as_str(), "a delivery was refused");
        self.note(Verdict::Refused, None, None, Some(refused.as_str().to_owned()));
        not_believed()
    }

    /// Takes a genuine delivery.
    async fn take(&self, request: Request<'_>) -> Result<Reply, Problem> {
        let event = Event::read(&self.plan.scheme, request);
        if let Some(challenge) = event.as_ref().ok().and_then(Event::challenge) {
            self.note(Verdict::Challenged, None, None, None);
            return Ok(Reply::ok(&json!({ "challenge": challenge })));
        }
        let made = event.and_then(|event| Ok((self.plan.key(&event)?, self.plan.input(&event)?)));
        let (key, input) = made.map_err(|unusable| {
            self.note(Verdict::Unusable, None, None, Some(unusable.to_string()));
            Problem::new(unusable.code(), unusable.to_string())
        })?;
        let _brought = self.admit(&key).await?;
        let start = Start {
            namespace: self.namespace.clone(),
            workflow: self.plan.workflow.clone(),
            key: Some(key.clone()),
            input,
            window_ms: self.plan.window_ms,
            deadline_ms: None,
            release: self.plan.release.clone(),
            parent: None,
        };
        let span = traces::delivery(&self.plan.name, key.as_str());
        match self.app.engine.start_delivered(start).instrument(span).await {
            Ok(started) => {
                let (id, state) = (started.run.id.clone(), started.run.state());
                let (verdict, status) = match started.attached {
                    true => (Verdict::Repeated, StatusCode::OK),
                    false => (Verdict::Started, StatusCode::ACCEPTED),
                };
                self.note(verdict, Some(&key), Some(id.clone()), None);
                let body = json!({ "id": id, "state": state.as_str() });
                Ok(Reply::json(status, &body).replayed(started.attached))
            }
            Err(error) => self.not_started(&key, error).await,
        }
    }

    /// A run of this key is there and stands, or none could be started.
    async fn not_started(&self, key: &Key, error: Error) -> Result<Reply, Problem> {
        let verdict = match error.code() {
            Code::InputChanged => Verdict::Changed,
            Code::Expired => Verdict::Expired,
            _ => Verdict::Failed,
        };
        let run = match verdict {
            Verdict::Failed => None,
            _ => self.find(key).await?,
        };
        let id = run.as_ref().map(|run| run.id.clone());
        self.note(verdict, Some(key), id, Some(error.detail().to_owned()));
        // A provider that is told 4xx delivers the same for days and then gives the endpoint up.
        // It is known by its id, and the first of that id stands; whoever wrote the sender
        // themselves is told.
        let is_told = verdict == Verdict::Changed && !self.plan.scheme.is_of_a_provider();
        match run {
            Some(run) if !is_told => {
                let body = json!({ "id": run.id, "state": run.state().as_str() });
                Ok(Reply::ok(&body).replayed(true))
            }
            _ => Err(error.into()),
        }
    }

    /// A new run counts as a new key; one that is there is only attached to.
    async fn admit(&self, key: &Key) -> Result<Option<Brought>, Problem> {
        let id = derive::run_id(&self.namespace, self.plan.workflow.as_str(), key).to_string();
        let is_there = || async { Ok(self.find(key).await?.is_some()) };
        self.app.admission.bring(&self.namespace, &id, is_there).await
    }

    /// The run of a key; one of a draft release is in the draft twin.
    async fn find(&self, key: &Key) -> Result<Option<Run>, Problem> {
        for namespace in [self.namespace.clone(), self.namespace.draft()] {
            let id = derive::run_id(&namespace, self.plan.workflow.as_str(), key).to_string();
            if let Some(run) = self.app.engine.store().run(namespace.as_str(), &id).await? {
                return Ok(Some(run));
            }
        }
        Ok(None)
    }

    fn note(
        &self,
        verdict: Verdict,
        key: Option<&Key>,
        run: Option<String>,
        detail: Option<String>,
    ) {
        let at = self.app.engine.store().ground().now.wall;
        let key = key.map(|key| key.as_str().to_owned());
        let delivery = Delivery { at, verdict, key, run, bytes: self.bytes, detail };
        self.app.engine.note_delivery(&self.namespace, &self.plan.name, delivery);
    }
}
