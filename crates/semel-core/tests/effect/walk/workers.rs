//! What workers do on the walk: they act, report, renew and die.

use super::*;

impl Walk {
    /// Lets one of the latest workers do something.
    pub(super) fn let_somebody(&mut self, act: fn(&mut Walk, usize)) {
        let count = self.world.workers.len();
        if count > 0 {
            let is_last = self.world.chance.percent(60);
            let back = if is_last { 0 } else { self.world.chance.below(count.min(4) as u64) };
            act(self, count - 1 - usize::try_from(back).expect("small"));
        }
    }

    pub(super) fn act(&mut self, index: usize) {
        match self.world.workers[index].permit.kind {
            Kind::Send => self.world.send(index),
            Kind::Look => self.world.look(index),
            Kind::Assumed => unreachable!("nobody holds one"),
        }
    }

    pub(super) fn crash(&mut self, index: usize) {
        self.world.kill(index);
    }

    /// A worker whose answer was lost presents its id again; one that has its permit never does.
    pub(super) fn ask_again(&mut self, index: usize) {
        let worker = self.world.workers[index].clone();
        if !worker.waits_for_answer || !worker.is_alive {
            return;
        }
        let ask = Begin { attempt_id: worker.id.clone(), ..self.ask() };
        match effect::begin(self.world.rows.last(), &ask, &self.ground()) {
            Ok(Decision::Resume(permit)) => {
                assert!(permit.resumed && permit.fence == worker.permit.fence, "{}", self.at);
                self.world.workers[index].permit = permit;
                self.world.workers[index].waits_for_answer = false;
            }
            Ok(Decision::Replay(_) | Decision::Failed(_)) => {}
            Err(refusal) => {
                let spent = matches!(refusal, Refusal::AttemptSpent | Refusal::Expired);
                let is_over =
                    self.world.rows.last().map(|row| row.generation) != Some(worker.generation);
                assert!(spent || is_over || self.world.epoch > 0, "{}: {refusal:?}", self.at);
            }
            // Its commit was lost with the store's tail, or its generation is over.
            Ok(Decision::Arm(..) | Decision::Doubt(_)) => {}
            Ok(Decision::Hold(_)) if self.asks => {}
            Ok(Decision::Hold(_) | Decision::Undone(..)) => panic!("{}: nobody asked", self.at),
        }
    }

    pub(super) fn report(&mut self, index: usize) {
        let worker = self.world.workers[index].clone();
        if worker.waits_for_answer || !worker.is_alive {
            return;
        }
        let reason = "as the destination said".to_owned();
        let report = match &worker.answer {
            Some(Answer::Object(object)) => Report::Receipt(json(object)),
            Some(Answer::Found(found)) => match found.as_slice() {
                [] => Report::NotApplied { reason, last: false },
                [one] => Report::Receipt(json(one)),
                [one, more @ ..] => {
                    Report::Receipts(json(one), more.iter().map(|text| json(text)).collect())
                }
            },
            Some(Answer::Refused) => {
                Report::NotApplied { reason, last: worker.permit.fence.is_multiple_of(3) }
            }
            // Who has not looked cannot say that it is absent.
            None if worker.has_sent
                || worker.permit.kind == Kind::Look
                || self.world.chance.percent(50) =>
            {
                Report::Unknown { reason, key_not_used: self.world.drops_key }
            }
            None => {
                // It never sent and will not: that is a proof.
                self.world.workers[index].has_sent = true;
                self.world.workers[index].answer = Some(Answer::Refused);
                Report::NotApplied { reason, last: false }
            }
        };
        if let Report::Unknown { .. } = report {
            self.world.give_up(index);
        }
        self.settle(&worker, report);
    }

    pub(super) fn settle(&mut self, worker: &Worker, report: Report) {
        let now = self.world.now();
        let delay = self.world.chance.percent(30).then(|| self.world.chance.below(20_000));
        let ask = Settle { fence: worker.permit.fence, report, retry_after_ms: delay };
        let row = self.world.rows.iter_mut().find(|row| row.generation == worker.generation);
        let Some(row) = row else { return };
        let Ok(settled) = effect::settle(row, &ask, &now) else { return };
        if let Some(next) = settled.effect {
            *row = next;
        }
        let again = effect::settle(row, &ask, &now).map(|settled| settled.effect);
        assert_eq!(again, Ok(None), "{}: a repeated word changes nothing", self.at);
    }

    pub(super) fn renew(&mut self, index: usize) {
        let worker = self.world.workers[index].clone();
        if worker.waits_for_answer || !worker.is_alive || worker.has_said_unknown {
            return;
        }
        let now = self.world.now();
        let endless = self.world.chance.percent(30);
        let abort = if endless { Abort::Impossible } else { Abort::Possible };
        let row = self.world.rows.iter_mut().find(|row| row.generation == worker.generation);
        let Some(row) = row else { return };
        if let Ok(next) = effect::renew(row, worker.permit.fence, abort, &now) {
            *row = next;
            let lease_until = row.holder(&now).expect("just renewed").lease_until;
            self.world.extend(index, lease_until);
        }
    }

    pub(super) fn prove_death(&mut self, index: usize) {
        let now = self.world.now();
        let Worker { is_alive, session, generation, .. } = self.world.workers[index].clone();
        let row = self.world.rows.iter_mut().find(|row| row.generation == generation);
        if let Some(row) = row.filter(|_| !is_alive)
            && let Some(next) = effect::died(row, &session, &now)
        {
            *row = next;
        }
    }

    pub(super) fn lapse(&mut self) {
        let now = self.world.now();
        for row in &mut self.world.rows {
            if let Some(next) = effect::lapse(row, &now) {
                *row = next;
            }
        }
    }
}
