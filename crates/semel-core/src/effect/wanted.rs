//! Whether the run that planned an effect still wants it sent.

use super::State;
use crate::record::{Contract, Effect};
use crate::run::Run;
use crate::time::Moment;

impl Effect {
    /// The run to ask before this effect is sent. `None`: no run planned it, or only a look is due,
    /// and to find out what became of a doubt is always wanted.
    pub fn asks_run(&self, now: &Moment) -> Option<&str> {
        let contract = self.plan.as_ref().map(|plan| plan.terms.contract);
        let is_look = self.is_doubt(now) && matches!(contract, Some(Contract::Probe { .. }));
        self.run.as_deref().filter(|_| !is_look)
    }

    /// Whether its run does not want it sent: the run is paused or over. A run that is being
    /// cancelled still waits for what became of a doubt.
    pub fn is_unwanted(&self, run: &Run, now: &Moment) -> bool {
        let ends = run.state().is_final() || run.cancel.is_some() && !self.is_doubt(now);
        run.paused.is_some() || ends
    }

    fn is_doubt(&self, now: &Moment) -> bool {
        self.state(now) == State::InDoubt
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Desk;
    use super::*;
    use crate::json::Json;
    use crate::key::{Action, Key, Namespace};
    use crate::run::{Cancel, Ended, How, Pause, Start, start};
    use crate::time::Wall;

    /// The effect of a run after these lines, with the moment.
    fn effect(terms: &str, lines: &[&str]) -> (Effect, Moment) {
        let mut desk = Desk::new(terms);
        for line in lines {
            desk.run(line);
        }
        let effect = desk.effect().expect("a row").clone();
        (Effect { run: Some("r".to_owned()), ..effect }, desk.now)
    }

    fn runs(now: &Moment) -> [(&'static str, Run); 4] {
        let ask = Start {
            namespace: Namespace::stored("n").unwrap(),
            workflow: Action::new("w").unwrap(),
            key: Key::parse("k").unwrap(),
            input: Json::null(),
            number: 1,
            window_ms: 1_000,
            deadline_ms: None,
            release: None,
            strict: false,
            passes: Vec::new(),
            parent: None,
        };
        let going = start(&ask, now);
        let (code, detail) = ("diverged".to_owned(), String::new());
        let paused = Some(Pause { id: None, code, detail, raised: None, at: Wall(0) });
        let (actor, reason) = ("ann".to_owned(), "no".to_owned());
        let cancel = Some(Cancel { actor, reason, at: Wall(0), fault: None });
        let ended = Some(Ended { how: How::Done, at: Wall(0) });
        [
            ("paused", Run { paused, ..going.clone() }),
            ("cancelling", Run { cancel, ..going.clone() }),
            ("over", Run { ended, ..going.clone() }),
            ("going", going),
        ]
    }

    #[test]
    fn req_r10_a_run_that_is_paused_or_over_wants_nothing_sent() {
        let unwanted = |terms: &str, lines: &[&str]| {
            let (effect, now) = effect(terms, lines);
            let unwanted = runs(&now).into_iter().filter(|(_, run)| effect.is_unwanted(run, &now));
            (effect.asks_run(&now).is_some(), unwanted.map(|(name, _)| name).collect::<Vec<_>>())
        };
        let planned = ["begin", "not_applied 1"];
        let doubt = ["begin", "unknown 1"];
        let all = vec!["paused", "cancelling", "over"];
        assert_eq!(unwanted("native_key", &planned), (true, all.clone()));
        assert_eq!(unwanted("probe", &planned), (true, all));
        // What became of a doubt matters to a run that ends: it waits for it.
        assert_eq!(unwanted("native_key", &doubt), (true, vec!["paused", "over"]));
        assert!(!unwanted("probe", &doubt).0, "a look sends nothing");
    }
}
