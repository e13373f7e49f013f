//! Journals, inboxes and large values: what belongs to a run.

use semel_core::journal::Link;

use super::Subject;
use super::making_runs::{
    appends, change, delivery, finished, new_run, refused, running, start, stored, texts, write,
    write_all,
};
use crate::{Append, Inked, Write};

/// Entries come back in order, from any place, in pages.
pub async fn a_journal_comes_back_in_order(store: Subject) {
    let run = running(&*store, "k", 1, &["a", "b"]).await;
    let other = running(&*store, "other", 2, &["x"]).await;
    let entries = appends(&run, &["a", "b", "c", "d"]);
    write(&*store, Write::Append(entries[2].clone())).await;
    write(&*store, Write::Append(entries[3].clone())).await;
    let inked =
        |entry: &Append| Inked { seq: entry.seq, link: entry.link, text: entry.text.clone() };
    let inked: Vec<_> = entries.iter().map(inked).collect();
    assert_eq!(store.journal(1, 0, 10).await, Ok(inked.clone()));
    assert_eq!(store.journal(1, 1, 2).await, Ok(inked[1..3].to_vec()));
    assert_eq!(store.journal(1, 4, 2).await, Ok(vec![]));
    assert_eq!(store.last_entry(1).await, Ok(inked.last().cloned()));
    assert_eq!(store.last_entry(3).await, Ok(None));
    assert_eq!(texts(&*store, &other).await, ["x"]);
}

/// An entry is written behind the very entry it follows, at a free place.
pub async fn an_append_needs_its_predecessor(store: Subject) {
    let run = running(&*store, "k", 1, &["a", "b"]).await;
    let entries = appends(&run, &["a", "b", "c", "d"]);
    let rivals = appends(&run, &["a", "rival", "c"]);
    let elsewhere = Append { run: 2, ..entries[2].clone() };
    let wrong_link = Append { after: Link::of_run("default", "x"), ..entries[2].clone() };
    let older_link = Append { after: entries[0].link, ..entries[2].clone() };
    let at_the_start = Append { seq: 0, ..entries[2].clone() };
    let wrongs = [
        entries[3].clone(),
        rivals[1].clone(),
        rivals[2].clone(),
        elsewhere,
        wrong_link,
        older_link,
        at_the_start,
    ];
    for wrong in wrongs {
        refused(&*store, vec![Write::Append(wrong)]).await;
        assert_eq!(texts(&*store, &run).await, ["a", "b"]);
    }
    assert_eq!(store.journal(2, 0, 10).await, Ok(vec![]));
    for _ in ["once", "and repeated"] {
        write(&*store, Write::Append(entries[2].clone())).await;
        assert_eq!(texts(&*store, &run).await, ["a", "b", "c"]);
    }
}

/// Everything that was queued behind a refused entry is refused, too: alone, together, half there.
pub async fn what_follows_a_refused_append_is_refused(store: Subject) {
    let run = running(&*store, "k", 1, &["a"]).await;
    let lost = appends(&run, &["a", "b1", "c1", "d1"]);
    let won = appends(&run, &["a", "b2", "c2"]);
    write(&*store, Write::Append(won[1].clone())).await;
    for entry in &lost[1..] {
        refused(&*store, vec![Write::Append(entry.clone())]).await;
    }
    let several = |entries: &[Append]| entries.iter().cloned().map(Write::Append).collect();
    refused(&*store, several(&lost[1..])).await;
    refused(&*store, several(&[won[1].clone(), lost[2].clone()])).await;
    refused(&*store, several(&[won[2].clone(), lost[3].clone()])).await;
    assert_eq!(texts(&*store, &run).await, ["a", "b2"]);
    // The whole batch is there, or only half of it.
    write_all(&*store, several(&won[..2])).await;
    refused(&*store, several(&won)).await;
    assert_eq!(texts(&*store, &run).await, ["a", "b2"]);
    write_all(&*store, several(&won[2..])).await;
    write_all(&*store, several(&won)).await;
    assert_eq!(texts(&*store, &run).await, ["a", "b2", "c2"]);
}

/// A worker's entries all queued at once, against a rival's: one chain wins as a whole.
pub async fn one_of_many_appenders_wins(store: Subject) {
    let run = running(&*store, "k", 1, &["a"]).await;
    let mut calls = tokio::task::JoinSet::new();
    for worker in 0..8 {
        let own: Vec<_> = (0..6).map(|count| format!("{worker}-{count}")).collect();
        let own: Vec<_> = std::iter::once("a").chain(own.iter().map(String::as_str)).collect();
        for entry in appends(&run, &own).into_iter().skip(1) {
            let store = store.clone();
            let call = async move { (worker, store.commit(Write::Append(entry).into()).await) };
            calls.spawn(call);
        }
    }
    let mut done: Vec<_> = Vec::new();
    while let Some(call) = calls.join_next().await {
        let (worker, answer) = call.expect("no panic");
        done.extend(answer.is_ok().then_some(worker));
    }
    let texts = texts(&*store, &run).await;
    assert_eq!(texts.len(), done.len() + 1, "{texts:?}");
    let winner = done.first().expect("somebody's first entry is written");
    assert!(done.iter().all(|worker| worker == winner), "{texts:?}");
}

/// A delivery is written once under its identity, and wakes the run.
pub async fn a_delivery_comes_once(store: Subject) {
    let ground = store.ground();
    let run = running(&*store, "k", 1, &[]).await;
    let other = running(&*store, "other", 2, &[]).await;
    write(&*store, Write::Deliver(delivery(&run, "d", "1"))).await;
    let version = async || stored(&*store, &run).await.expect("a run").version;
    assert_eq!(version().await, run.version + 1);
    refused(&*store, vec![Write::Deliver(delivery(&run, "d", "2"))]).await;
    let renamed = crate::Delivery { name: "other".into(), ..delivery(&run, "d", "1") };
    refused(&*store, vec![Write::Deliver(renamed)]).await;
    // Repeated, it is the same delivery, also at another time.
    let later = crate::Delivery { at: semel_core::time::Wall(9), ..delivery(&run, "d", "1") };
    write(&*store, Write::Deliver(later)).await;
    assert_eq!(version().await, run.version + 1, "only a new one touches the run");
    write(&*store, Write::Deliver(delivery(&other, "d", "3"))).await;
    let kept = store.delivery(1, "d").await.expect("a delivery").expect("it is there");
    assert_eq!((kept.payload.as_str(), kept.at.0, kept.consumed), ("1", 7, false));
    let end = finished(&stored(&*store, &run).await.expect("a run"), &ground);
    write(&*store, change(&end, &ground)).await;
    refused(&*store, vec![Write::Deliver(delivery(&run, "new", "1"))]).await;
    refused(&*store, vec![Write::Deliver(delivery(&new_run("no", 9, &ground), "d", "1"))]).await;
    assert_eq!(stored(&*store, &run).await, Some(end), "a finished run is not touched");
    assert_eq!(store.inbox(1).await.expect("an inbox").len(), 1);
}

/// A delivery makes a parked run due.
pub async fn a_delivery_makes_a_parked_run_due(store: Subject) {
    let ground = store.ground();
    let run = running(&*store, "k", 1, &[]).await;
    let parked = super::making_runs::parked(&run, None, &ground);
    write(&*store, change(&parked, &ground)).await;
    assert!(store.due_runs("default/w", 9).await.expect("due runs").runs.is_empty());
    write(&*store, Write::Deliver(delivery(&run, "d", "1"))).await;
    let due = store.due_runs("default/w", 9).await.expect("due runs").runs;
    assert_eq!(due.iter().map(|run| run.version).collect::<Vec<_>>(), [parked.version + 1]);
}

/// A delivery is consumed once; the inbox shows the others, in the order in which they came.
pub async fn a_delivery_is_consumed_once(store: Subject) {
    let run = running(&*store, "k", 1, &["a"]).await;
    for identity in ["z", "a", "m"] {
        write(&*store, Write::Deliver(delivery(&run, identity, "1"))).await;
    }
    let inbox = async || {
        let inbox = store.inbox(1).await.expect("an inbox");
        assert!(inbox.is_sorted_by_key(|delivery| delivery.number));
        inbox.into_iter().map(|delivery| delivery.identity).collect::<Vec<_>>()
    };
    assert_eq!(inbox().await, ["z", "a", "m"]);
    let consume = |identity: &str| Write::Consume { run: 1, identity: identity.into() };
    write(&*store, consume("z")).await;
    assert_eq!(inbox().await, ["a", "m"]);
    // Alone it is a repeat; with another entry it is somebody else's.
    write(&*store, consume("z")).await;
    let entry = appends(&run, &["a", "b"]).remove(1);
    refused(&*store, vec![consume("z"), Write::Append(entry.clone())]).await;
    refused(&*store, vec![Write::Append(entry), consume("z")]).await;
    refused(&*store, vec![consume("none")]).await;
    assert_eq!(texts(&*store, &run).await, ["a"]);
    let kept = store.delivery(1, "z").await.expect("a delivery").expect("it is there");
    assert!(kept.consumed);
    write(&*store, Write::Deliver(delivery(&run, "b", "1"))).await;
    write(&*store, consume("m")).await;
    assert_eq!(inbox().await, ["a", "b"]);
}

/// A large value is kept by its name once, in its namespace.
pub async fn a_blob_is_kept_in_its_namespace(store: Subject) {
    let ground = store.ground();
    write(&*store, start(&new_run("k", 1, &ground), &ground)).await;
    let blob = |namespace: &str, text: &str| Write::Blob {
        namespace: namespace.into(),
        digest: "d".into(),
        text: text.into(),
        run: 1,
    };
    for _ in ["once", "and repeated"] {
        write(&*store, blob("default", "large")).await;
    }
    assert_eq!(store.blob("default", "d").await, Ok(Some("large".into())));
    assert_eq!(store.blob("other", "d").await, Ok(None));
    write(&*store, blob("other", "larger")).await;
    assert_eq!(store.blob("default", "d").await, Ok(Some("large".into())));
    assert_eq!(store.blob("other", "d").await, Ok(Some("larger".into())));
}
