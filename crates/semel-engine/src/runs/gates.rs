//! Admission: which runs may be under way at once. Decided when a run is started or taken; a slot
//! is given back in the commit that ends the run, and handed to whoever is next in the same commit.

use semel_core::gate::{self, Admission, CARD, Gate, Mode, Pass};
use semel_core::run::{self, Refusal, Run};
use semel_core::time::Moment;
use semel_store::Write;

use crate::{Engine, Error};

/// What the gates of a run say.
pub(crate) enum Admitted {
    /// It may run: write this with it.
    In(Vec<Write>),
    /// It stands in the queue of a gate; write this with it.
    Queued(String, Vec<Write>),
    /// Another run has its key.
    Taken(Mode, String),
}

impl Engine {
    /// Asks the gates of a run, in their order. Slots it has already are its own.
    pub(crate) async fn admit(&self, run: &Run) -> Result<Admitted, Error> {
        let mut writes = Vec::new();
        for Pass { gate, limit, mode } in &run.passes {
            let kept = self.kept::<Gate>(&run.namespace, CARD, gate).await?;
            match gate::enter(&kept.content, &run.id, *limit) {
                Admission::Inside => {}
                Admission::Enter(next) => writes.push(kept.write(&next, None)),
                Admission::Full(inside) => {
                    let is_new = run.version <= 1;
                    return Ok(match (mode, inside.into_iter().next()) {
                        (Mode::Reject | Mode::Coalesce, Some(other)) if is_new => {
                            Admitted::Taken(*mode, other)
                        }
                        _ => {
                            let noted = gate::turn_away(&kept.content, &run.id);
                            writes.push(kept.write(&noted, None));
                            Admitted::Queued(gate.clone(), writes)
                        }
                    });
                }
            }
        }
        Ok(Admitted::In(writes))
    }

    /// What the end of a run writes to give its slots back, and the runs that get them.
    pub(crate) async fn give_slots_back(
        &self,
        run: &Run,
        now: &Moment,
    ) -> Result<(Vec<Write>, Vec<String>), Error> {
        let (mut writes, mut admitted) = (Vec::new(), Vec::new());
        for Pass { gate, .. } in &run.passes {
            let kept = self.kept::<Gate>(&run.namespace, CARD, gate).await?;
            let Some(mut next) = gate::exit(&kept.content, &run.id) else { continue };
            let queue = run::lane(&run.namespace, gate);
            let queued = self.store().next_queued(&queue).await?;
            let has_room = |queued: &Run| {
                let pass = queued.passes.iter().find(|pass| pass.gate == *gate);
                pass.is_none_or(|pass| next.inside.len() < pass.limit as usize)
            };
            let queued = queued.filter(|queued| queued.id != run.id && has_room(queued));
            if let Some(queued) = queued {
                next.inside.push(queued.id.clone());
                writes.push(Write::run(&run::admit(&queued), now));
                admitted.push(queued.id);
            }
            writes.push(kept.write(&next, None));
        }
        Ok((writes, admitted))
    }
}

/// Why a run is not started.
pub(crate) fn rejected(other: &str) -> Error {
    Refusal::Rejected(other.to_owned()).into()
}
