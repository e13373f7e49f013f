//! Offering code, and which release of it is live, for Python.

use pyo3::prelude::*;
use semel::{Action, Code, Error, Json, Mode, Semel};
use semel_core::gate::{self, KeyPolicy, PolicyInvalid};
use semel_core::release::check_name;
use semel_engine::Offer;

use crate::body;
use crate::error::raise;
use crate::mailbox::{Inbox, Told};
use crate::process::runtime;

/// How many runs of a workflow may be under way at once.
#[pyclass(frozen)]
pub(crate) struct Policy {
    policy: gate::Policy,
}

#[pymethods]
impl Policy {
    /// The key is a template over members of the input.
    #[new]
    #[pyo3(signature = (limit=None, key=None, mode="queue"))]
    fn new(limit: Option<u32>, key: Option<String>, mode: &str) -> PyResult<Policy> {
        let invalid = |text: String| raise(&Error::new(Code::InputInvalid, text));
        let known = || invalid(format!("`{mode}`: a mode is `queue`, `reject` or `coalesce`"));
        let mode = Mode::parse(mode).ok_or_else(known)?;
        let key = key.map(|template| KeyPolicy { template, mode });
        let policy = gate::Policy { limit, key };
        policy.check().map_err(|PolicyInvalid(text)| invalid(text))?;
        Ok(Policy { policy })
    }
}

/// What a worker says of the code it offers.
pub(crate) struct Offering<'a> {
    pub(crate) workflow: &'a str,
    pub(crate) release: &'a str,
    pub(crate) strict: bool,
    pub(crate) draft: bool,
    pub(crate) policy: Option<&'a Policy>,
}

/// Offers the code of a workflow. A draft is offered in the draft twin as well, where its runs are
/// until it is promoted.
pub(crate) fn offer(semel: &Semel, inbox: &Inbox, offering: &Offering<'_>) -> PyResult<()> {
    let Offering { workflow, release, strict, draft, policy } = *offering;
    Action::new(workflow).map_err(|invalid| raise(&invalid.into()))?;
    check_name(release).map_err(|invalid| raise(&invalid.into()))?;
    let _inside = runtime()?.enter();
    let offer_in = |semel: &Semel| {
        let body = body::body(inbox.mailbox(), workflow.to_owned());
        let policy = policy.map(|given| given.policy.clone()).unwrap_or_default();
        let offer = Offer { strict, draft, policy, ..Offer::new(body, release) };
        semel.engine().offer(semel.namespace_of().as_str(), workflow, offer);
    };
    offer_in(semel);
    if draft {
        offer_in(&semel.draft());
    }
    Ok(())
}

/// Makes a release live; without one, that which was so before. Tells its name.
pub(crate) async fn promote(
    semel: Semel,
    workflow: &str,
    release: Option<&str>,
    person: (&str, &str),
) -> Result<Told, Error> {
    let (engine, namespace) = (semel.engine(), semel.namespace_of());
    let known = match release {
        Some(release) => engine.promote(namespace, workflow, release, person).await?,
        None => engine.roll_back(namespace, workflow, person).await?,
    };
    Ok(Told::Text(known.live.unwrap_or_default()))
}

/// Tells all releases of the workflows of the namespace, as JSON.
pub(crate) async fn list(semel: Semel) -> Result<Told, Error> {
    let found = semel.engine().releases(semel.namespace_of()).await?.found;
    Ok(Told::Text(Json::of(&found)?.text().to_owned()))
}
