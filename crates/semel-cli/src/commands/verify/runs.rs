//! The invariants of runs: rows, journals, and that whatever a run waits for will wake it.

use indicatif::ProgressBar;
use semel_core::key::{Action, Address, Key, Namespace};
use semel_core::limits;
use semel_core::run::{On, Run, State, Wait};
use semel_core::verify::{Violation, Waker, check_run, check_wait};
use semel_core::{entity, gate, journal};
use semel_store::Upkeep;

use super::{Verified, cards};
use crate::exit::Failed;

/// How often a run that moves on while it is looked at is looked at again.
pub(super) const LOOKS: usize = 5;

pub(super) async fn check_all(
    store: &dyn Upkeep,
    verified: &mut Verified,
    progress: &ProgressBar,
) -> Result<(), Failed> {
    let mut after = i64::MIN;
    loop {
        let page = store.audit_runs(after, limits::PAGE_ROWS_MAX).await?;
        for problem in page.problems {
            verified.find_run("I11", None, problem);
        }
        for run in page.runs {
            progress.inc(1);
            verified.runs += 1;
            *verified.run_states.entry(run.state().as_str()).or_default() += 1;
            let id = run.id.clone();
            for violation in look(store, run).await? {
                verified.find_run(violation.invariant, Some(id.clone()), violation.what);
            }
        }
        let Some(next) = page.next else { break };
        after = next;
    }
    let mut after = i64::MIN;
    loop {
        let page = store.audit_journals(after, limits::PAGE_ROWS_MAX).await?;
        for problem in page.problems {
            verified.find_run("I11", None, problem);
        }
        let Some(next) = page.next else { return Ok(()) };
        after = next;
    }
}

/// Row, journal and ledger are read one after the other while workers go on: what does not fit
/// counts only when the row is still the same afterwards.
async fn look(store: &dyn Upkeep, mut run: Run) -> Result<Vec<Violation>, Failed> {
    for _ in 0..LOOKS {
        let found = check_once(store, &run).await?;
        if found.is_empty() {
            return Ok(found);
        }
        match store.run(&run.namespace, &run.id).await? {
            Some(again) if again == run => return Ok(found),
            Some(again) => run = again,
            None => return Ok(Vec::new()),
        }
    }
    // It changed under each look, so somebody moves it on.
    Ok(Vec::new())
}

async fn check_once(store: &dyn Upkeep, run: &Run) -> Result<Vec<Violation>, Failed> {
    let last = store.last_entry(run.number).await?;
    // An entry that cannot be read is not what a journal may end in; the audit says so, too.
    let last = last.and_then(|inked| journal::decode(&inked.text).ok()).map(|entry| entry.event);
    let mut found = check_run(run, last.as_ref(), &store.ground().now);
    if run.state() != State::Waiting {
        return Ok(found);
    }
    let mut asleep = Vec::new();
    for wait in &run.waits {
        asleep.extend(check_waker(store, run, wait).await?);
    }
    if !asleep.is_empty() && !may_be_due(store, run).await? {
        found.extend(asleep);
    }
    Ok(found)
}

async fn check_waker(
    store: &dyn Upkeep,
    run: &Run,
    wait: &Wait,
) -> Result<Option<Violation>, Failed> {
    match &wait.on {
        On::Timer | On::Retry => Ok(None),
        On::Child(id) => {
            let child = store.run(&run.namespace, id).await?;
            Ok(check_wait(run, wait, &Waker::Child(child.as_ref())))
        }
        On::Entity(name) => {
            let entity = cards::read(store, &run.namespace, entity::CARD, name).await?;
            Ok(check_wait(run, wait, &Waker::Entity(entity.as_ref())))
        }
        On::Slot(name) => {
            let gate = cards::read(store, &run.namespace, gate::CARD, name).await?;
            Ok(check_wait(run, wait, &Waker::Gate(gate.as_ref())))
        }
        On::Signal(name) => {
            let inbox = store.inbox(run.number).await?;
            let come = inbox.iter().filter(|delivery| delivery.name == *name).count();
            Ok(check_wait(run, wait, &Waker::Signals(come)))
        }
        On::Effect { action, key } => {
            let names = (Namespace::stored(&run.namespace), Action::new(action), Key::parse(key));
            let (Ok(namespace), Ok(action), Ok(key)) = names else {
                return Ok(check_wait(run, wait, &Waker::Effect(None)));
            };
            let effect = store.load(&Address { namespace, action, key }).await?;
            Ok(check_wait(run, wait, &Waker::Effect(effect.as_ref())))
        }
    }
}

/// Whether a run was woken and only not taken yet. Where more are due than one look shows, it may
/// be among them.
async fn may_be_due(store: &dyn Upkeep, run: &Run) -> Result<bool, Failed> {
    let due = store.due_runs(&run.lane(), limits::PAGE_ROWS_MAX).await?.runs;
    Ok(due.len() == limits::PAGE_ROWS_MAX || due.iter().any(|one| one.number == run.number))
}
