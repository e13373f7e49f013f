//! The invariants of runs: rows, journals, and that whatever a run waits for will wake it.

use indicatif::ProgressBar;
use semel_core::journal::Event;
use semel_core::key::{Action, Address, Key, Namespace};
use semel_core::limits;
use semel_core::run::{On, Run, State, Wait};
use semel_core::verify::{Violation, Waker, check_run, check_wait};
use semel_core::{entity, gate, journal};
use semel_store::{Beside, Upkeep};

use super::cards::unless_corrupt;
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
        verified.dropped += page.dropped;
        for problem in page.problems {
            verified.find_run("I11", None, problem);
        }
        for run in page.runs {
            progress.inc(1);
            verified.runs += 1;
            *verified.run_states.entry(run.state().as_str()).or_default() += 1;
            let id = run.id.clone();
            let beside = page.beside.get(&run.number);
            let read = read_journal(store, &run, beside, verified).await;
            let mut found = unless_corrupt(read)?;
            found.extend(unless_corrupt(look(store, run).await)?);
            for violation in found {
                verified.find_run(violation.invariant, Some(id.clone()), violation.what);
            }
        }
        let Some(next) = page.next else { return Ok(()) };
        after = next;
    }
}

/// How many entries of a journal are read at once.
const ENTRIES: usize = 256;

/// Walks a journal: the large values in it are kept for the run, what it took out of the inbox is
/// marked as taken there, and what people decided is in the audit chain.
async fn read_journal(
    store: &dyn Upkeep,
    run: &Run,
    beside: Option<&Beside>,
    verified: &mut Verified,
) -> Result<Vec<Violation>, Failed> {
    let mut found = Vec::new();
    let mut from = 0;
    loop {
        let entries = store.journal(run.number, from, ENTRIES).await?;
        for inked in &entries {
            // One that cannot be read is told by the audit.
            let Ok(entry) = journal::decode(&inked.text) else { continue };
            let name = (&*run.namespace, &*run.id);
            verified.untold.extend(verified.deeds.untold_in(name, &entry.event, entry.at.0));
            if let Some(journal::Value::Blob { digest, .. }) = entry.event.value()
                && beside.is_some_and(|beside| !beside.values.contains(digest))
                && !is_kept(store, run, digest).await?
            {
                let what = format!("it needs the value {digest}, but that is not kept for it");
                found.push(Violation { invariant: "I9", what });
            }
            if let Event::Received { delivery, .. } = &entry.event {
                let taken = store.delivery(run.number, delivery).await?;
                if !taken.is_some_and(|one| one.consumed) {
                    let what = format!("it took {delivery}, but its inbox does not say so");
                    found.push(Violation { invariant: "I10", what });
                }
            }
        }
        if entries.len() < ENTRIES {
            break;
        }
        from += entries.len() as u64;
    }
    if !found.is_empty() {
        // Its time may have come meanwhile, and all of it gone.
        let now = store.run(&run.namespace, &run.id).await?;
        found.retain(|_| now.as_ref().is_some_and(|now| now.expired.is_none()));
    }
    Ok(found)
}

/// Whether a large value that came after the look at a run is kept for it.
async fn is_kept(store: &dyn Upkeep, run: &Run, digest: &str) -> Result<bool, Failed> {
    let page = store.audit_runs(run.number - 1, 1).await?;
    Ok(page.beside.get(&run.number).is_some_and(|beside| beside.values.contains(digest)))
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
