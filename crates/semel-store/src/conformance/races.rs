//! Concurrency: on one key exactly one wins, on many keys all do.

use semel_core::record::Effect;
use tokio::task::JoinSet;

use super::Subject;
use super::making::{address, armed, batch, done, insert, update};
use crate::{Batch, CommitError, Query};

/// More than any pool of connections or threads.
const CALLERS: usize = 64;

/// One row per key and generation, whoever else inserts at the same time.
pub async fn inv_i1_one_of_many_inserts_wins(store: Subject) {
    let ground = store.ground();
    for round in 0..8 {
        let name = address("a", &format!("k{round}"));
        let rival = |caller: usize| armed(&name, &caller.to_string(), &ground);
        let batches = (0..CALLERS).map(|caller| insert(&rival(caller), &ground).into());
        let answers = commit_at_once(&store, batches).await;
        let winner = exactly_one_won(&answers);
        assert_eq!(store.load(&name).await, Ok(Some(rival(winner))));
        all_saw(&answers, &rival(winner));
    }
}

/// One successor per version, whoever else updates at the same time.
pub async fn inv_i1_one_of_many_updates_wins(store: Subject) {
    let ground = store.ground();
    for round in 0..8 {
        let name = address("a", &format!("k{round}"));
        let first = armed(&name, "1", &ground);
        store.commit(insert(&first, &ground).into()).await.expect("a first row");
        let rival = |caller: usize| done(&first, &caller.to_string(), &ground);
        let batches = (0..CALLERS).map(|caller| update(&rival(caller), &ground).into());
        let answers = commit_at_once(&store, batches).await;
        let winner = exactly_one_won(&answers);
        assert_eq!(store.load(&name).await, Ok(Some(rival(winner))));
        all_saw(&answers, &rival(winner));
    }
}

/// Batches that share no key do not hinder each other, and a failing one hinders none.
pub async fn many_keys_at_once_are_all_written(store: Subject) {
    let ground = store.ground();
    let taken = armed(&address("a", "taken"), "1", &ground);
    store.commit(insert(&taken, &ground).into()).await.expect("a first row");
    let rival = insert(&armed(&taken.address, "2", &ground), &ground);
    let batch = |caller: usize| {
        let free = insert(&armed(&address("a", &caller.to_string()), "1", &ground), &ground);
        // Every third batch fails at its second guard.
        let writes = if caller.is_multiple_of(3) { vec![free, rival.clone()] } else { vec![free] };
        Batch { writes: writes.into() }
    };
    let answers = commit_at_once(&store, (0..CALLERS).map(batch)).await;
    for (caller, answer) in answers.iter().enumerate() {
        let found = store.load(&address("a", &caller.to_string())).await.expect("a load");
        if caller.is_multiple_of(3) {
            assert_eq!(*answer, Err(CommitError::Stale(vec![None, Some(taken.clone())])));
            assert_eq!(found, None);
        } else {
            assert_eq!(*answer, Ok(()));
            assert!(found.is_some(), "caller {caller}");
        }
    }
}

/// A list is one moment: both rows of a batch, or neither.
pub async fn readers_never_see_half_a_batch(store: Subject) {
    const ROUNDS: u64 = 100;
    let ground = store.ground();
    let rows = ["left", "right"].map(|key| armed(&address("a", key), "1", &ground));
    let at = move |version| rows.clone().map(|row| Effect { version, ..row });
    let writer = store.clone();
    let first = at(1).map(|row| insert(&row, &ground));
    store.commit(batch(first)).await.expect("two first rows");
    let writing = tokio::spawn(async move {
        for version in 2..=ROUNDS {
            let next = at(version).map(|row| update(&row, &ground));
            writer.commit(batch(next)).await.expect("the only writer");
            tokio::task::yield_now().await;
        }
    });
    let mut seen = 0;
    while seen < ROUNDS {
        let page = store.list(&Query::everywhere(10)).await.expect("a list");
        let versions: Vec<_> = page.effects.iter().map(|effect| effect.version).collect();
        assert_eq!(versions.len(), 2);
        assert_eq!(versions[0], versions[1], "half a batch");
        assert!(versions[0] >= seen, "a later read saw an earlier state");
        seen = versions[0];
        tokio::task::yield_now().await;
    }
    writing.await.expect("the writer ended well");
}

type Answer = Result<(), CommitError>;

async fn commit_at_once(store: &Subject, batches: impl Iterator<Item = Batch>) -> Vec<Answer> {
    let mut calls = JoinSet::new();
    for (caller, batch) in batches.enumerate() {
        let store = store.clone();
        calls.spawn(async move { (caller, store.commit(batch).await) });
    }
    let mut answers = calls.join_all().await;
    answers.sort_by_key(|(caller, _)| *caller);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

fn exactly_one_won(answers: &[Answer]) -> usize {
    let winners: Vec<_> = (0..answers.len()).filter(|caller| answers[*caller].is_ok()).collect();
    assert_eq!(winners.len(), 1, "{winners:?} all won");
    winners[0]
}

fn all_saw(answers: &[Answer], winner: &Effect) {
    for answer in answers.iter().filter(|answer| answer.is_err()) {
        assert_eq!(*answer, Err(CommitError::Stale(vec![Some(winner.clone())])));
    }
}
