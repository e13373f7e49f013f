//! What seals are tested on: every statement that writes a sealed row, and all audits at once.

use semel_core::journal::blob_digest;
use semel_store::conformance::{self, appends, delivery, new_run, parked, taken};
use semel_store::{Batch, Belonging, Store, Upkeep, Write};

use super::address;

async fn write(store: &dyn Store, writes: Vec<Write>) {
    assert_eq!(store.commit(Batch { writes: writes.into() }).await, Ok(()));
}

/// An effect under way; a run that is started, taken, parked, touched, and given two deliveries,
/// one of which it takes.
pub(crate) async fn fill(store: &dyn Store) {
    let ground = store.ground();
    let effect = conformance::armed(&address("sealed"), "1", &ground);
    write(store, vec![conformance::insert(&effect, &ground)]).await;
    let run = new_run("sealed", 7, &ground);
    write(store, vec![Write::run(&run, &ground.now)]).await;
    let run = taken(&run, &ground);
    let mut writes = vec![Write::run(&run, &ground.now)];
    writes.extend(appends(&run, &["one", "two"]).into_iter().map(Write::Append));
    let text = "large";
    writes.push(Write::Blob {
        namespace: run.namespace.clone(),
        digest: blob_digest(text),
        text: text.into(),
        run: run.number,
    });
    write(store, writes).await;
    let run = parked(&run, Some(60_000), &ground);
    write(store, vec![Write::run(&run, &ground.now)]).await;
    let (namespace, id) = (run.namespace.clone(), run.id.clone());
    write(store, vec![Write::Touch { namespace, id, at: ground.now.steady }]).await;
    for identity in ["a", "b"] {
        write(store, vec![Write::Deliver(delivery(&run, identity, "\"payload\""))]).await;
    }
    write(store, vec![Write::Consume { run: run.number, identity: "a".into() }]).await;
}

/// What all audits find.
pub(crate) async fn audits(store: &dyn Upkeep) -> Vec<String> {
    let mut found = store.audit(i64::MIN, 100).await.expect("an audit").problems;
    found.extend(store.audit_runs(i64::MIN, 100).await.expect("an audit").problems);
    found.extend(store.audit_cards(None, 100).await.expect("an audit").problems);
    for belonging in Belonging::ALL {
        let strays = store.audit_strays(belonging, i64::MIN, 100).await;
        found.extend(strays.expect("an audit").problems);
    }
    let nothing = (String::new(), String::new());
    found.extend(store.audit_blobs(nothing, 100).await.expect("an audit").problems);
    found.extend(store.audit_own().await.expect("an audit").problems);
    found.extend(store.audit_outbox(i64::MIN, 100).await.expect("an audit").problems);
    found
}
