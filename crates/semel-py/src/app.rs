//! An opened ledger, for Python.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use semel::{Action, Code, Error, Json, Namespace, Semel};
use semel_core::effect::{Permit, Person, Resolution};
use semel_core::key::Address;
use semel_core::limits;
use semel_core::wire::effect_view;
use semel_engine::{Handler, Planning};

use crate::approvals::{self, Verdict};
use crate::convert;
use crate::declare::Declaration;
use crate::error::raise;
use crate::handle::Handle;
use crate::job::{RunsIn, doer, runs_in};
use crate::mailbox::{Asked, Inbox, Told};
use crate::process::{Ours, runtime};
use crate::releases::{self, Offering, Policy};
use crate::schedules;
use crate::transaction;
use crate::wish::{Ask, Wish};
use crate::within::PythonWire;

/// A ledger. Closed by `close`, or when it is collected.
#[pyclass(frozen)]
pub(crate) struct App {
    semel: Mutex<Option<Ours<Semel>>>,
    namespace: Namespace,
    /// Something was offered, and the ledger has not heard of it yet.
    has_news: AtomicBool,
}

impl App {
    pub(crate) fn new(semel: Semel) -> App {
        let namespace = semel.namespace_of().clone();
        let semel = Mutex::new(Some(Ours::new(semel)));
        App { semel, namespace, has_news: AtomicBool::new(false) }
    }

    fn semel(&self) -> PyResult<Semel> {
        runtime()?;
        let semel = self.semel.lock().unwrap_or_else(PoisonError::into_inner);
        match semel.as_ref() {
            Some(semel) => Ok(Semel::clone(semel)),
            None => Err(raise(&Error::new(Code::StoreUnavailable, "this Semel was closed"))),
        }
    }

    fn address(&self, action: &str, key: &[String]) -> PyResult<Address> {
        let action = Action::new(action).map_err(|invalid| raise(&invalid.into()))?;
        Ok(Address { namespace: self.namespace.clone(), action, key: convert::key(key)? })
    }
}

#[pymethods]
impl App {
    /// Opens the ledger at an address, for a server with a token. Without a namespace it is
    /// `default`, or the token's.
    #[staticmethod]
    fn open(
        inbox: &Inbox,
        place: u64,
        url: String,
        namespace: Option<String>,
        token: Option<String>,
    ) -> PyResult<Asked> {
        inbox.ask(place, async move {
            let semel = crate::open::open(&url, token.as_deref()).await?;
            Ok(Told::Opened(match namespace {
                Some(namespace) => semel.namespace(&namespace)?,
                None => semel,
            }))
        })
    }

    /// Starts a run, or attaches to the one that its key started before.
    #[expect(clippy::too_many_arguments, reason = "a start has that many parts")]
    fn start(
        &self,
        inbox: &Inbox,
        token: u64,
        workflow: String,
        key: Option<Vec<String>>,
        input: String,
        window_ms: Option<u64>,
        deadline_ms: Option<u64>,
        release: Option<String>,
    ) -> PyResult<Asked> {
        let semel = self.semel()?;
        let input = convert::json(input)?;
        let has_news = self.has_news.swap(false, Ordering::Relaxed);
        inbox.ask(token, async move {
            if has_news {
                // Else the run would be for the release that was live before.
                semel.engine().announce().await?;
            }
            let mut start = semel.start(&workflow).input(&input);
            if let Some(release) = release {
                start = start.release(&release);
            }
            if let Some(key) = key {
                start = start.key(key);
            }
            if let Some(ms) = deadline_ms {
                start = start.deadline(std::time::Duration::from_millis(ms));
            }
            let window = std::time::Duration::from_millis(window_ms.unwrap_or(limits::WINDOW_MS));
            Ok(Told::Run(Box::new(start.replay_window(window).run().await?)))
        })
    }

    /// A run by its id.
    fn run(&self, id: &str) -> PyResult<Handle> {
        Ok(Handle::new(self.semel()?.run(id)))
    }

    /// Answers a callback by its token; tells whether the same answer had come before.
    fn call_back(
        &self,
        inbox: &Inbox,
        token: u64,
        secret: String,
        payload: String,
    ) -> PyResult<Asked> {
        let semel = self.semel()?;
        let payload = convert::json(payload)?;
        inbox.ask(token, async move {
            let signalled = semel.engine().call_back(&secret, payload).await?;
            Ok(Told::Text(if signalled.repeated { "true" } else { "false" }.to_owned()))
        })
    }

    /// Performs an effect once, or tells what became of it before.
    fn call(&self, inbox: &Inbox, token: u64, wish: &Wish) -> PyResult<Asked> {
        let engine = self.semel()?.engine().clone();
        let (call, doer) = (wish.call(&self.namespace)?, wish.doer(inbox.mailbox()));
        inbox.ask(token, async move {
            let receipt = engine.call(call, doer).await?;
            Ok(Told::Text(receipt.text().to_owned()))
        })
    }

    /// Performs an effect that is rows in the ledger's own SQLite.
    fn transact(
        &self,
        inbox: &Inbox,
        token: u64,
        declaration: &Declaration,
        key: Vec<String>,
        input: String,
        function: Py<PyAny>,
    ) -> PyResult<Asked> {
        let engine = self.semel()?.engine().clone();
        let call = declaration.call(&self.namespace, &key, None, input)?;
        let (mailbox, function) = (inbox.mailbox(), Arc::new(function));
        inbox.ask(token, async move {
            // Before the database waits for it.
            let slot = mailbox.ready(RunsIn::Thread).await?;
            let work = transaction::work(mailbox, function, slot);
            let receipt = engine.transaction(transaction::begin(call), work).await?;
            Ok(Told::Text(receipt.text().to_owned()))
        })
    }

    /// Performs an effect that is rows in a transaction of the caller's, on the ledger's Postgres.
    /// Statements for its connection, and the turn of its function, come into the inbox.
    fn transact_within(
        &self,
        inbox: &Inbox,
        token: u64,
        declaration: &Declaration,
        key: Vec<String>,
        input: String,
    ) -> PyResult<Asked> {
        let engine = self.semel()?.engine().clone();
        let call = declaration.call(&self.namespace, &key, None, input)?;
        let wire = PythonWire::new(inbox.mailbox());
        inbox.ask(token, async move {
            let work = async |wire: &PythonWire, permit: &Permit| wire.work(permit).await;
            let ask = transaction::begin(call);
            let receipt = engine.transaction_within(ask, &wire, work).await?;
            Ok(Told::Text(receipt.text().to_owned()))
        })
    }

    /// What the ledger knows of an effect, as JSON; nothing when it was never begun.
    fn find(&self, inbox: &Inbox, token: u64, action: &str, key: Vec<String>) -> PyResult<Asked> {
        let engine = self.semel()?.engine().clone();
        let address = self.address(action, &key)?;
        inbox.ask(token, async move {
            let now = engine.store().ground().now;
            match engine.effect(&address).await {
                Ok(effect) => {
                    let view = effect_view(&engine.judged(effect, &now), &now);
                    Ok(Told::Text(Json::of(&view)?.text().to_owned()))
                }
                Err(error) if error.code() == Code::NotFound => Ok(Told::Nothing),
                Err(error) => Err(error),
            }
        })
    }

    /// Proves what became of an effect; tells the proof as JSON, or nothing where there is none.
    fn proof(&self, inbox: &Inbox, token: u64, action: &str, key: Vec<String>) -> PyResult<Asked> {
        let semel = self.semel()?.clone();
        let (action, key) = (action.to_owned(), convert::key(&key)?);
        inbox.ask(token, async move {
            match semel.proof(&action, key).await {
                Ok(proof) => Ok(Told::Text(proof.json())),
                Err(error) if error.code() == Code::NotFound => Ok(Told::Nothing),
                Err(error) => Err(error),
            }
        })
    }

    /// Settles a doubt by a person's word: `done` with a receipt, `retry` or `failed`.
    #[expect(clippy::too_many_arguments, reason = "a decision has that many parts")]
    fn resolve(
        &self,
        inbox: &Inbox,
        token: u64,
        action: &str,
        key: Vec<String>,
        decision: &str,
        receipt: Option<String>,
        actor: String,
        reason: String,
    ) -> PyResult<Asked> {
        let engine = self.semel()?.engine().clone();
        let address = self.address(action, &key)?;
        let resolution = match (decision, receipt) {
            ("done", receipt) => Resolution::Done(convert::json(receipt.unwrap_or("null".into()))?),
            ("retry", None) => Resolution::Retry,
            ("failed", None) => Resolution::Failed,
            _ => {
                let text = "a decision is `done`, `retry` or `failed`; only `done` has a receipt";
                return Err(raise(&Error::new(Code::InputInvalid, text)));
            }
        };
        inbox.ask(token, async move {
            let version = engine.effect(&address).await?.version;
            let person = Person { actor, reason, version };
            engine.resolve(&address, &person, &resolution).await?;
            Ok(Told::Nothing)
        })
    }

    /// Offers the code of a workflow: its runs are taken by the thread that reads this inbox.
    fn offer(
        &self,
        inbox: &Inbox,
        workflow: &str,
        release: &str,
        strict: bool,
        draft: bool,
        policy: Option<&Policy>,
    ) -> PyResult<()> {
        let offering = Offering { workflow, release, strict, draft, policy };
        releases::offer(&self.semel()?, inbox, &offering)?;
        self.has_news.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// The same ledger, in the draft twin of the namespace.
    fn draft(&self) -> PyResult<App> {
        Ok(App::new(self.semel()?.draft()))
    }

    /// Makes a release live; without one, that which was so before. Tells its name.
    fn promote(
        &self,
        inbox: &Inbox,
        token: u64,
        workflow: String,
        release: Option<String>,
        actor: String,
        reason: String,
    ) -> PyResult<Asked> {
        let semel = self.semel()?;
        inbox.ask(token, async move {
            releases::promote(semel, &workflow, release.as_deref(), (&actor, &reason)).await
        })
    }

    /// Tells all releases of the workflows of the namespace, as JSON.
    fn releases(&self, inbox: &Inbox, token: u64) -> PyResult<Asked> {
        inbox.ask(token, releases::list(self.semel()?))
    }

    /// Tells what waits for people, as JSON.
    fn approvals(&self, inbox: &Inbox, token: u64, most: usize) -> PyResult<Asked> {
        inbox.ask(token, approvals::list(self.semel()?, most))
    }

    /// Answers a question, by a person who saw what this digest names; tells the answer that
    /// stands, as JSON.
    #[expect(clippy::too_many_arguments, reason = "a decision has that many parts")]
    fn judge(
        &self,
        inbox: &Inbox,
        token: u64,
        action: &str,
        key: &str,
        digest: String,
        answer: &str,
        actor: String,
        reason: String,
    ) -> PyResult<Asked> {
        let asked = (action, key, digest);
        let verdict = Verdict::new(&self.namespace, asked, answer, (actor, reason))?;
        inbox.ask(token, verdict.give(self.semel()?))
    }

    /// Puts a schedule; tells it as it stands, as JSON.
    #[expect(clippy::too_many_arguments, reason = "a schedule has that many parts")]
    fn schedule(
        &self,
        inbox: &Inbox,
        token: u64,
        name: String,
        workflow: String,
        input: String,
        cron: String,
        zone: String,
        catch_up: &str,
        window_ms: Option<u64>,
    ) -> PyResult<Asked> {
        let input = convert::json(input)?;
        let content = schedules::content(workflow, input, (cron, zone), catch_up, window_ms);
        let content = content.map_err(|error| raise(&error))?;
        inbox.ask(token, schedules::put(self.semel()?, name, content))
    }

    /// Stops a schedule (`pause`), lets it go on (`resume`), or removes it (`remove`).
    fn steer_schedule(
        &self,
        inbox: &Inbox,
        token: u64,
        name: String,
        verb: String,
        actor: String,
        reason: String,
    ) -> PyResult<Asked> {
        inbox.ask(token, schedules::steer(self.semel()?, name, verb, (actor, reason)))
    }

    /// Tells all schedules of the namespace, as JSON.
    fn schedules(&self, inbox: &Inbox, token: u64) -> PyResult<Asked> {
        inbox.ask(token, schedules::list(self.semel()?))
    }

    /// Registers the code that attends to due effects of an action which nobody waits for.
    #[expect(clippy::too_many_arguments, reason = "a declaration has that many parts")]
    fn attend(
        &self,
        py: Python<'_>,
        inbox: &Inbox,
        declaration: &Declaration,
        send: Py<PyAny>,
        look: Option<Py<PyAny>>,
        ask: Option<&Ask>,
        only_by_call: Option<String>,
    ) -> PyResult<()> {
        let runs_in = runs_in(send.bind(py), look.as_ref().map(|look| look.bind(py)))?;
        let (send, look) = (Arc::new(send), look.map(Arc::new));
        let doer = doer(inbox.mailbox(), send, look, runs_in, declaration.abort);
        let approval = ask.map(Ask::asked);
        let (rule, shape) = (declaration.rule.clone(), declaration.shape());
        let planning = Planning { rule, approval, shape, only_by_call };
        let (declared, retry) = (declaration.declared, declaration.retry);
        let handler = Handler { doer, declared, retry, planning };
        let semel = self.semel()?;
        semel.engine().handle(self.namespace.clone(), declaration.action.clone(), handler);
        Ok(())
    }

    /// How long a run stays with this process without a sign of life.
    fn set_lease_ms(&self, lease_ms: u64) -> PyResult<()> {
        self.semel()?.engine().set_run_lease_ms(lease_ms).map_err(|error| raise(&error))
    }

    /// Takes no more runs and lets go of those it holds.
    fn drain(&self, inbox: &Inbox, token: u64, patience_ms: u64) -> PyResult<Asked> {
        let engine = self.semel()?.engine().clone();
        inbox.ask(token, async move {
            engine.drain(patience_ms).await;
            Ok(Told::Nothing)
        })
    }

    /// The attempts that this process carries out: of which effect, and the milliseconds until
    /// their deadline.
    fn open_attempts(&self) -> PyResult<Vec<(String, u64)>> {
        let open = self.semel()?.engine().open_attempts();
        Ok(open.into_iter().map(|(address, ms)| (address.to_string(), ms)).collect())
    }

    /// Tells everything that the store of a rehearsal holds, as JSON.
    fn look(&self, inbox: &Inbox, token: u64) -> PyResult<Asked> {
        inbox.ask(token, crate::check::look(self.semel()?))
    }

    /// How many runs this process advances right now.
    fn runs_held(&self) -> PyResult<usize> {
        Ok(self.semel()?.engine().runs_held())
    }

    #[getter]
    fn namespace(&self) -> &str {
        self.namespace.as_str()
    }

    #[getter]
    fn is_closed(&self) -> bool {
        self.semel.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Closes the ledger. Whatever is under way in it is left to whoever opens it next.
    fn close(&self, py: Python<'_>) {
        let semel = self.semel.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(semel));
    }
}
