//! Guards: a write happens on what its writer has seen, or not at all.

use semel_core::record::Effect;

use super::Subject;
use super::making::{address, armed, batch, done, insert, superseded, update};
use crate::{Batch, CommitError, Query, Store, Write};

/// A second insert of a row is stale and leaves the first as it was.
pub async fn a_row_is_inserted_once(store: Subject) {
    let ground = store.ground();
    let first = armed(&address("a", "k"), "first", &ground);
    let second = armed(&address("a", "k"), "second", &ground);
    assert_eq!(store.commit(insert(&first, &ground).into()).await, Ok(()));
    let answer = store.commit(insert(&second, &ground).into()).await;
    assert_eq!(answer, Err(CommitError::Stale(vec![Some(first.clone())])));
    assert_eq!(all(&*store).await, [first]);
}

/// An update is written on the version before it, and on no other.
pub async fn update_needs_the_version_before(store: Subject) {
    let ground = store.ground();
    let first = armed(&address("a", "k"), "first", &ground);
    let second = done(&first, "1", &ground);
    write(&*store, insert(&first, &ground)).await;
    let ahead = Effect { version: 3, ..second.clone() };
    let behind = Effect { version: 1, ..second.clone() };
    for wrong in [&ahead, &behind] {
        let answer = store.commit(update(wrong, &ground).into()).await;
        assert_eq!(answer, Err(CommitError::Stale(vec![Some(first.clone())])));
        assert_eq!(all(&*store).await, std::slice::from_ref(&first));
    }
    write(&*store, update(&second, &ground)).await;
    assert_eq!(all(&*store).await, std::slice::from_ref(&second));
    let rival = done(&first, "2", &ground);
    let answer = store.commit(update(&rival, &ground).into()).await;
    assert_eq!(answer, Err(CommitError::Stale(vec![Some(second)])));
}

/// What was decided in another epoch is not written; what was written in it is done when repeated.
pub async fn what_was_decided_in_another_epoch_is_stale(store: Subject) {
    let ground = store.ground();
    let effect = armed(&address("a", "k"), "first", &ground);
    let other = Write::InEpoch(ground.epoch + 1);
    let answer = store.commit(batch([other.clone(), insert(&effect, &ground)])).await;
    assert_eq!(answer, Err(CommitError::Stale(vec![None])));
    assert_eq!(all(&*store).await, []);
    let same = Write::InEpoch(ground.epoch);
    assert_eq!(store.commit(batch([same, insert(&effect, &ground)])).await, Ok(()));
    assert_eq!(store.commit(batch([other, insert(&effect, &ground)])).await, Ok(()));
    assert_eq!(all(&*store).await, [effect]);
}

/// What is not there cannot be updated, and nothing is made of it.
pub async fn a_missing_row_cannot_be_updated(store: Subject) {
    let ground = store.ground();
    let effect = done(&armed(&address("a", "k"), "first", &ground), "1", &ground);
    let answer = store.commit(update(&effect, &ground).into()).await;
    assert_eq!(answer, Err(CommitError::Stale(vec![None])));
    assert_eq!(all(&*store).await, []);
}

/// One row for each write, in their order: the newest generation, or none.
pub async fn stale_brings_the_newest_row_of_each_write(store: Subject) {
    let ground = store.ground();
    let old = done(&armed(&address("a", "twice"), "1", &ground), "1", &ground);
    let (old, new) = superseded(&old, &ground);
    let other = armed(&address("a", "other"), "1", &ground);
    for effect in [&old, &new, &other] {
        write(&*store, insert(effect, &ground)).await;
    }
    let absent = armed(&address("a", "absent"), "1", &ground);
    let stale = Effect { version: old.version + 7, ..old };
    let writes = [
        insert(&absent, &ground),
        update(&stale, &ground),
        insert(&Effect { version: 9, ..other.clone() }, &ground),
    ];
    let answer = store.commit(batch(writes)).await;
    assert_eq!(answer, Err(CommitError::Stale(vec![None, Some(new), Some(other)])));
}

/// All or nothing, wherever in the batch the guard fails.
pub async fn a_batch_whose_second_guard_fails_writes_nothing(store: Subject) {
    let ground = store.ground();
    let taken = armed(&address("a", "taken"), "1", &ground);
    let kept = done(&armed(&address("a", "kept"), "1", &ground), "1", &ground);
    for effect in [&taken, &kept] {
        write(&*store, insert(effect, &ground)).await;
    }
    let fresh = armed(&address("a", "fresh"), "1", &ground);
    let rival = insert(&armed(&address("a", "taken"), "2", &ground), &ground);
    let (moved, next) = superseded(&kept, &ground);
    let remove = Write::Remove {
        address: kept.address.clone(),
        generation: kept.generation,
        version: kept.version,
    };
    let firsts = [
        vec![insert(&fresh, &ground)],
        vec![update(&moved, &ground), insert(&next, &ground)],
        vec![remove],
    ];
    for first in firsts {
        for last in [first.len(), 0] {
            let mut writes = first.clone();
            writes.insert(last, rival.clone());
            let answer = store.commit(Batch { writes: writes.into() }).await;
            assert!(matches!(answer, Err(CommitError::Stale(_))), "{answer:?}");
            assert_eq!(all(&*store).await, [kept.clone(), taken.clone()]);
        }
    }
    // The store goes on, and what was undone can be written.
    write(&*store, insert(&fresh, &ground)).await;
    assert_eq!(all(&*store).await, [fresh, kept, taken]);
}

/// In a batch each guard is judged on what the writes before it left.
pub async fn guards_see_the_writes_before_them(store: Subject) {
    let ground = store.ground();
    let first = armed(&address("a", "k"), "1", &ground);
    let second = done(&first, "1", &ground);
    let writes = [insert(&first, &ground), update(&second, &ground)];
    assert_eq!(store.commit(batch(writes)).await, Ok(()));
    let again = armed(&address("a", "k"), "2", &ground);
    let remove = Write::Remove { address: first.address, generation: 0, version: 2 };
    assert_eq!(store.commit(batch([remove, insert(&again, &ground)])).await, Ok(()));
    assert_eq!(all(&*store).await, std::slice::from_ref(&again));
    let twin = armed(&address("a", "twin"), "1", &ground);
    let twice = batch([insert(&twin, &ground), insert(&twin, &ground)]);
    assert_eq!(store.commit(twice).await, Err(CommitError::Stale(vec![None, None])));
    assert_eq!(all(&*store).await, [again]);
}

/// Nothing to write is written.
pub async fn a_batch_of_nothing_is_done(store: Subject) {
    assert_eq!(store.commit(Batch { writes: [].into() }).await, Ok(()));
    assert_eq!(all(&*store).await, []);
}

/// Who lost the answer repeats the batch: it is done, and done once.
pub async fn a_committed_batch_repeated_is_done_and_changes_nothing(store: Subject) {
    let ground = store.ground();
    let first = armed(&address("a", "k"), "1", &ground);
    let second = done(&first, "1", &ground);
    let (old, new) = superseded(&second, &ground);
    let single: Batch = insert(&first, &ground).into();
    let several = batch([update(&old, &ground), insert(&new, &ground)]);
    commit_twice(&*store, &single).await;
    write(&*store, update(&second, &ground)).await;
    commit_twice(&*store, &several).await;
    assert_eq!(all(&*store).await, [new.clone(), old.clone()]);
    let gone = Write::Remove { address: first.address.clone(), generation: 1, version: 1 };
    commit_twice(&*store, &gone.into()).await;
    assert_eq!(all(&*store).await, []);
    // Half of it being there is not a repeat.
    write(&*store, insert(&new, &ground)).await;
    assert!(matches!(store.commit(several).await, Err(CommitError::Stale(_))));
    assert_eq!(all(&*store).await, [new]);
}

/// A repeat is recognised only while its rows are the newest truth.
pub async fn a_repeat_after_somebody_else_moved_on_is_stale(store: Subject) {
    let ground = store.ground();
    let first = armed(&address("a", "k"), "1", &ground);
    let second = done(&first, "1", &ground);
    write(&*store, insert(&first, &ground)).await;
    write(&*store, update(&second, &ground)).await;
    let answer = store.commit(insert(&first, &ground).into()).await;
    assert_eq!(answer, Err(CommitError::Stale(vec![Some(second.clone())])));
    assert_eq!(all(&*store).await, [second]);
}

/// Remove names the newest generation and version, and takes the older ones with it.
pub async fn remove_takes_all_generations_at_the_newest_version(store: Subject) {
    let ground = store.ground();
    let old = done(&armed(&address("a", "k"), "1", &ground), "1", &ground);
    let (old, new) = superseded(&old, &ground);
    let other = armed(&address("a", "k2"), "1", &ground);
    for effect in [&old, &new, &other] {
        write(&*store, insert(effect, &ground)).await;
    }
    let remove = |generation, version| {
        Batch::from(Write::Remove { address: old.address.clone(), generation, version })
    };
    for (generation, version) in [(0, old.version), (1, new.version + 1), (1, 0), (2, 1)] {
        let answer = store.commit(remove(generation, version)).await;
        assert_eq!(answer, Err(CommitError::Stale(vec![Some(new.clone())])));
    }
    assert_eq!(all(&*store).await, [other.clone(), new.clone(), old.clone()]);
    assert_eq!(store.commit(remove(1, new.version)).await, Ok(()));
    assert_eq!(all(&*store).await, [other]);
    assert_eq!(store.load_generation(&old.address, 0).await, Ok(None));
}

async fn write(store: &dyn Store, write: Write) {
    assert_eq!(store.commit(write.into()).await, Ok(()));
}

async fn commit_twice(store: &dyn Store, batch: &Batch) {
    assert_eq!(store.commit(batch.clone()).await, Ok(()));
    let before = all(store).await;
    assert_eq!(store.commit(batch.clone()).await, Ok(()), "the repeat is done");
    assert_eq!(all(store).await, before, "the repeat changes nothing");
}

async fn all(store: &dyn Store) -> Vec<Effect> {
    let page = store.list(&Query::everywhere(100)).await.expect("a list");
    assert_eq!(page.next, None);
    page.effects
}
