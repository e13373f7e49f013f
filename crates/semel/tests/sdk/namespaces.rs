//! Several namespaces of one ledger.

use semel::{Failure, Semel};
use semel_store::Query;

use crate::common::{Ledger, view};

#[tokio::test]
async fn req_k13_a_key_is_unique_within_namespace_and_action_and_the_row_names_its_workflow() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    let other = semel.namespace("other").unwrap();
    let mut ids = Vec::new();
    for (semel, action) in [(&semel, "ticket"), (&semel, "mail"), (&other, "ticket")] {
        let name = format!("T-{}", ids.len());
        let sent = name.clone();
        let call = semel.effect(action).key("42").workflow("triage").call(move |_| {
            let sent = sent.clone();
            async move { Ok::<_, Failure>(sent) }
        });
        assert_eq!(call.await.unwrap(), name, "{action} was answered from elsewhere");
        ids.push(name);
    }
    let view = view(&other, "ticket", "42").await;
    assert_eq!((view.namespace.as_str(), view.workflow.as_deref()), ("other", Some("triage")));
    assert_eq!(semel.engine().list(&Query::everywhere(9)).await.unwrap().effects.len(), 3);
}

#[tokio::test]
async fn namespaces_do_not_see_each_other() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    let other = semel.namespace("other").unwrap();
    let call = semel.effect("a").key("k").call(|_| async { Ok::<_, Failure>(1) });
    assert_eq!(call.await.unwrap(), 1);
    assert!(other.find("a", "k").await.unwrap().is_none());
    // The provider must not take the two for one either.
    let key = |semel: Semel| async move {
        let call = semel
            .effect("b")
            .key("k")
            .call(|intent| async move { Ok::<_, Failure>(intent.downstream_key().to_owned()) });
        call.await.unwrap()
    };
    assert_ne!(key(semel.clone()).await, key(other).await);
}
