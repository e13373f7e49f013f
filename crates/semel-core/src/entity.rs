//! Entities: who may act on a thing. One run at a time holds it, in the order in which they came;
//! each grant has a higher fence, for whatever outside can compare it.
//!
//! A run holds until it leaves or ends, whoever its worker is: there is no time after which two
//! could act.

use serde::{Deserialize, Serialize};

use crate::limits;
use crate::time::Wall;

/// The kind of card that an entity is.
pub const CARD: &str = "entity";

/// What is known of one entity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entity {
    /// The fence of the last grant.
    pub fence: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<Holder>,
    /// Runs that wait, the first first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queue: Vec<Place>,
}

/// Who holds it: a run, by the command that asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    #[serde(flatten)]
    pub place: Place,
    pub since: Wall,
}

/// Where it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    pub run: String,
    pub id: String,
}

/// What asking came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entered {
    /// The run may act, under this fence.
    Granted(u64),
    /// Others are before it.
    Queued,
    /// Too many wait.
    Full,
}

/// Asks for an entity. The same place asking again changes nothing: a worker may have died between
/// the grant and its record.
pub fn enter(entity: &Entity, place: &Place, now: Wall) -> (Entered, Option<Entity>) {
    match &entity.holder {
        Some(holder) if holder.place == *place => (Entered::Granted(entity.fence), None),
        None if entity.queue.is_empty() => {
            let next = granted(entity.clone(), place.clone(), now);
            (Entered::Granted(next.fence), Some(next))
        }
        Some(_) | None if entity.queue.contains(place) => (Entered::Queued, None),
        Some(_) | None if entity.queue.len() >= limits::WAITERS_MAX => (Entered::Full, None),
        Some(_) | None => {
            let mut next = entity.clone();
            next.queue.push(place.clone());
            (Entered::Queued, Some(next))
        }
    }
}

/// Lets an entity go, or leaves its queue. Returns the run that may act now, which is to be woken.
/// `None`: there is nothing to write.
pub fn leave(entity: &Entity, place: &Place, now: Wall) -> Option<(Entity, Option<String>)> {
    let mut next = entity.clone();
    next.queue.retain(|waiting| waiting != place);
    let holds = next.holder.as_ref().is_some_and(|holder| holder.place == *place);
    if !holds {
        return (next != *entity).then_some((next, None));
    }
    next.holder = None;
    if next.queue.is_empty() {
        return Some((next, None));
    }
    let first = next.queue.remove(0);
    let run = first.run.clone();
    Some((granted(next, first, now), Some(run)))
}

fn granted(mut entity: Entity, place: Place, now: Wall) -> Entity {
    entity.fence += 1;
    entity.holder = Some(Holder { place, since: now });
    entity
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Wall = Wall(7);

    fn place(run: &str) -> Place {
        Place { run: run.into(), id: "entity ticket:42#0".into() }
    }

    fn entered(entity: &mut Entity, run: &str) -> Entered {
        let (entered, next) = enter(entity, &place(run), NOW);
        *entity = next.unwrap_or_else(|| entity.clone());
        entered
    }

    fn left(entity: &mut Entity, run: &str) -> Option<String> {
        let (next, woken) = leave(entity, &place(run), NOW)?;
        *entity = next;
        woken
    }

    #[test]
    fn req_c5_one_run_acts_at_a_time_in_the_order_in_which_they_came() {
        let mut entity = Entity::default();
        assert_eq!(entered(&mut entity, "a"), Entered::Granted(1));
        assert_eq!(entered(&mut entity, "b"), Entered::Queued);
        assert_eq!(entered(&mut entity, "c"), Entered::Queued);
        assert_eq!(left(&mut entity, "a"), Some("b".into()));
        assert_eq!(entered(&mut entity, "d"), Entered::Queued, "a newcomer does not slip in");
        assert_eq!(entered(&mut entity, "b"), Entered::Granted(2), "the fence has grown");
        assert_eq!(left(&mut entity, "b"), Some("c".into()));
    }

    #[test]
    fn asking_or_leaving_again_changes_nothing() {
        let mut entity = Entity::default();
        entered(&mut entity, "a");
        entered(&mut entity, "b");
        let before = entity.clone();
        assert_eq!(entered(&mut entity, "a"), Entered::Granted(1));
        assert_eq!(entered(&mut entity, "b"), Entered::Queued);
        assert_eq!(leave(&entity, &place("z"), NOW), None);
        assert_eq!(entity, before);
    }

    #[test]
    fn whoever_waits_and_goes_leaves_no_gap() {
        let mut entity = Entity::default();
        for run in ["a", "b", "c"] {
            entered(&mut entity, run);
        }
        assert_eq!(left(&mut entity, "b"), None);
        assert_eq!(left(&mut entity, "a"), Some("c".into()));
        assert_eq!(left(&mut entity, "c"), None);
        assert_eq!(entered(&mut entity, "b"), Entered::Granted(3));
    }

    #[test]
    fn the_queue_is_bounded() {
        let mut entity = Entity::default();
        for run in 0..=limits::WAITERS_MAX {
            entered(&mut entity, &run.to_string());
        }
        assert_eq!(entered(&mut entity, "one more"), Entered::Full);
    }
}
