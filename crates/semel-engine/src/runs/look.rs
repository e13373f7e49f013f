//! What an operator asks about runs: who is before one that waits, and which releases are in use.

use semel_core::entity::{self, Entity};
use semel_core::gate::{self, Gate};
use semel_core::key::Namespace;
use semel_core::limits;
use semel_core::release::Releases;
use semel_core::run::{On, Run, State, Wait};
use semel_core::wire_release::OpenRuns;
use semel_store::RunQuery;

use super::releases;
use crate::{Engine, Error};

/// The states of a run that has not ended.
const OPEN: [State; 5] =
    [State::Ready, State::Running, State::Waiting, State::Paused, State::Cancelling];

impl Engine {
    /// The runs that are before a run that waits: those inside its gate, the holder of its entity,
    /// its child. Empty where it waits for no run.
    pub async fn runs_before(&self, run: &Run, wait: &Wait) -> Result<Vec<String>, Error> {
        match &wait.on {
            On::Slot(name) => {
                Ok(self.kept::<Gate>(&run.namespace, gate::CARD, name).await?.content.inside)
            }
            On::Entity(name) => {
                let kept = self.kept::<Entity>(&run.namespace, entity::CARD, name).await?;
                let holder = kept.content.holder.map(|holder| holder.place.run);
                Ok(holder.into_iter().filter(|holder| *holder != run.id).collect())
            }
            On::Child(id) => Ok(vec![id.clone()]),
            On::Timer | On::Retry | On::Signal(_) | On::Effect { .. } => Ok(Vec::new()),
        }
    }

    /// The releases of one workflow; refused where nobody has ever offered it.
    pub async fn releases_known(
        &self,
        namespace: &Namespace,
        workflow: &str,
    ) -> Result<Releases, Error> {
        let name = namespace.live();
        let kept = self.kept::<Releases>(name.as_str(), releases::KIND, workflow).await?;
        if kept.version == 0 {
            return Err(releases::never_offered(workflow));
        }
        Ok(kept.content)
    }

    /// Counts the open runs of a workflow by release, drafts included, in a bounded look.
    pub async fn open_runs(
        &self,
        namespace: &Namespace,
        workflow: &str,
    ) -> Result<OpenRuns, Error> {
        let mut open = OpenRuns::default();
        for namespace in [namespace.live(), namespace.draft()] {
            for state in OPEN {
                let query = RunQuery {
                    namespace: Some(namespace.as_str().to_owned()),
                    workflow: Some(workflow.to_owned()),
                    state: Some(state),
                    ..RunQuery::everywhere(limits::PAGE_ROWS_MAX)
                };
                let page = self.store().list_runs(&query).await?;
                open.is_cut |= page.next.is_some();
                for run in page.runs {
                    match run.release {
                        Some(release) => *open.by_release.entry(release).or_default() += 1,
                        None => open.unpinned += 1,
                    }
                }
            }
        }
        Ok(open)
    }
}
