//! All stores answer one history of runs and cards identically: answers and snapshots.
//!
//! Wishes are put to the rules on what the model holds, many at once, so that they meet; some are
//! repeated, some mixed together, some wrong. A seed names a whole history.

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use semel_core::effect::Ground;
use semel_core::journal::{At, Link};
use semel_core::run::{self, How, On, Pause, Run, Sweep, Take, Wait};
use semel_store::conformance::{self, Subject, run_of};
use semel_store::memory::Memory;
use semel_store::{Append, Batch, Clock, CommitError, Delivery, Inked, ManualClock, RunRow, Write};
use support::chance::Chance;
use support::history::{MIXED_MAX, in_epoch};
use support::snapshot::{DIGESTS, GATES, snapshot};
use support::{Folder, WALL_MS, deck};
use tokio::task::JoinSet;

/// Batches that are committed at once, so that the stores group them.
const GROUP: usize = 32;
const GROUPS: usize = 80;
const HOUR_MS: u64 = 3_600_000;
const WORKFLOWS: [&str; 2] = ["w", "v"];
const KEYS: usize = 5;

type Seen = BTreeMap<&'static str, usize>;

#[tokio::test]
async fn stores_answer_one_history_of_runs_alike_part_1() {
    check([1, 2]).await;
}

#[tokio::test]
async fn stores_answer_one_history_of_runs_alike_part_2() {
    check([3, 5]).await;
}

#[tokio::test]
async fn stores_answer_one_history_of_runs_alike_part_3() {
    check([8, 13]).await;
}

#[tokio::test]
async fn stores_answer_one_history_of_runs_alike_part_4() {
    check([21, 34]).await;
}

/// Everything that a history must have done, and been answered, at least once.
const WANTED: [&str; 32] = [
    "start",
    "take",
    "renew",
    "append",
    "park",
    "pause",
    "finish",
    "cancel",
    "retry",
    "sweep",
    "deliver",
    "consume",
    "touch",
    "effect",
    "wrong",
    "repeat",
    "mixed",
    "in epoch",
    "wrong epoch",
    "answer: done",
    "answer: stale",
    "answer: stale, effects",
    "seen: due",
    "seen: sweepable",
    "seen: a queue",
    "seen: cards",
    "seen: due cards",
    "queue",
    "card: new",
    "card: change",
    "card: drop",
    "card: wrong",
];

async fn check(seeds: [u64; 2]) {
    let mut seen = Seen::new();
    for seed in seeds {
        history(seed, &mut seen).await;
    }
    let missing: Vec<_> = WANTED.iter().filter(|kind| !seen.contains_key(*kind)).collect();
    assert_eq!(missing, [&""; 0], "never happened; seen: {seen:?}");
}

async fn history(seed: u64, seen: &mut Seen) {
    let folder = Folder::new();
    let clock = ManualClock::new(WALL_MS);
    let on = || Clock::Manual(clock.clone());
    let database = semel_lab::database();
    let stores: [Subject; 3] = [
        Arc::new(Memory::new(on())),
        Arc::new(folder.open_on(on())),
        Arc::new(support::postgres(&database, on()).await),
    ];
    let mut player = Player { chance: Chance::new(seed), past: Vec::new(), count: 0 };
    for group in 0..GROUPS {
        let place = format!("seed {seed}, group {group}");
        clock.advance_ms(match player.chance.up_to(20) {
            0 => 3 * HOUR_MS,
            1 => 731 * 24 * HOUR_MS,
            2..6 => 40_000,
            _ => player.chance.next() % 2_000,
        });
        let ground = stores[0].ground();
        let mut batches = Vec::new();
        while batches.len() < GROUP {
            if let Some((kind, batch)) = player.plan(&stores[0], &ground).await {
                *seen.entry(kind).or_default() += 1;
                batches.push(batch);
            }
        }
        let wanted = commit_all(&stores[0], &batches).await;
        for other in &stores[1..] {
            let answers = commit_all(other, &batches).await;
            for (index, (answer, wanted)) in answers.iter().zip(&wanted).enumerate() {
                let batch = &batches[index];
                assert_eq!(answer, wanted, "{place}, batch {index}: {batch:?}");
                let kind = match answer {
                    Ok(()) => "answer: done",
                    Err(CommitError::Stale(rows)) if rows.is_empty() => "answer: stale",
                    Err(CommitError::Stale(_)) => "answer: stale, effects",
                    Err(error) => panic!("{place}: {error}"),
                };
                *seen.entry(kind).or_default() += 1;
            }
        }
        if group % 4 == 3 {
            let model = snapshot(&stores[0]).await;
            for other in &stores[1..] {
                assert_eq!(snapshot(other).await, model, "{place}");
            }
            let mut note = |kind, happened: bool| {
                if happened {
                    *seen.entry(kind).or_default() += 1;
                }
            };
            note("seen: due", model.due.iter().any(|due| !due.runs.is_empty()));
            note("seen: sweepable", !model.sweepable.is_empty());
            note("seen: a queue", model.queues.iter().any(Option::is_some));
            note("seen: cards", model.deck.listed.iter().any(|page| page.len() > 2));
            note("seen: due cards", model.deck.due.iter().any(|due| !due.is_empty()));
        }
    }
}

/// Tasks of one thread run in the order they were spawned: all stores see one order.
async fn commit_all(store: &Subject, batches: &[Batch]) -> Vec<Result<(), CommitError>> {
    let mut calls = JoinSet::new();
    for (index, batch) in batches.iter().cloned().enumerate() {
        let store = store.clone();
        calls.spawn(async move { (index, store.commit(batch).await) });
    }
    let mut answers = calls.join_all().await;
    answers.sort_by_key(|(index, _)| *index);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

struct Player {
    chance: Chance,
    past: Vec<Batch>,
    count: i64,
}

type Planned = Option<(&'static str, Batch)>;

impl Player {
    async fn plan(&mut self, model: &Subject, ground: &Ground) -> Planned {
        self.count += 1;
        let workflow = *self.chance.pick(&WORKFLOWS);
        let key = format!("k{}", self.chance.up_to(KEYS));
        // Now and then a number that another run may have.
        let near = self.count - i64::try_from(self.chance.up_to(40)).expect("small");
        let number = if self.chance.one_in(6) { near } else { self.count };
        let new = run_of(workflow, &key, number, ground);
        let stored = model.run(&new.namespace, &new.id).await.expect("the model reads");
        let planned = match (self.chance.up_to(19), stored) {
            (16..19, _) => {
                let (kind, write) = deck::plan(model, &mut self.chance, ground.now.wall).await;
                Some((kind, vec![write]))
            }
            (0, _) => self.again("repeat", 1, 40),
            (1, _) => self.again("mixed", 3, 12),
            (2, _) => Some(("touch", vec![touch(&new, ground)])),
            (_, None) => {
                let first = entries(&new, None, &["started"]);
                let row = RunRow::new(&new, &ground.now);
                let mut writes = vec![Write::StartRun(row)];
                writes.extend(first);
                Some(("start", writes))
            }
            (3, Some(run)) => self.wrong(&run, ground),
            (4, Some(run)) => self.sweep(&run, ground),
            (5 | 6, Some(run)) => Some(self.mail(&run)),
            (7..11, Some(run)) => self.change(&run, ground),
            (_, Some(run)) => {
                let last = model.last_entry(run.number).await.expect("the model reads");
                Some(self.advance(&run, last.as_ref(), ground))
            }
        };
        let (kind, mut writes) = planned?;
        if self.chance.one_in(6) {
            // A card that is changed together with whatever else.
            let (_, write) = deck::plan(model, &mut self.chance, ground.now.wall).await;
            writes.insert(self.chance.up_to(writes.len() + 1), write);
        }
        let batch = Batch { writes: writes.into() };
        let (kind, batch) = match self.chance.up_to(24) {
            0 => ("in epoch", in_epoch(ground.epoch, &batch)),
            1 => ("wrong epoch", in_epoch(ground.epoch + 1, &batch)),
            _ => (kind, batch),
        };
        // Mixes of mixes would double without end.
        if kind != "repeat" && batch.writes.len() <= MIXED_MAX {
            self.past.push(batch.clone());
        }
        Some((kind, batch))
    }

    /// Writes of some recent batches as one.
    fn again(&mut self, kind: &'static str, batches: usize, recent: usize) -> Wishes {
        let from = self.past.len().saturating_sub(recent);
        let recent = &self.past[from..];
        if recent.is_empty() {
            return None;
        }
        let picked: Vec<_> = (0..batches).map(|_| self.chance.pick(recent)).collect();
        Some((kind, picked.iter().flat_map(|batch| batch.writes.to_vec()).collect()))
    }

    /// A change of the row alone, as the rules allow it.
    fn change(&mut self, run: &Run, ground: &Ground) -> Wishes {
        let now = &ground.now;
        let fence = run.fence;
        let (kind, next) = match self.chance.up_to(7) {
            0..3 => {
                let worker = format!("worker-{}", self.count);
                let take = Take { worker, session: None, lease_ms: 30_000, epoch: 0 };
                ("take", run::take(run, &take, now).ok()?)
            }
            3 => ("renew", run::renew(run, fence, 30_000, now).ok()?),
            4 => {
                let (code, detail) = ("stopped".into(), "why".into());
                let pause = Pause { id: None, code, detail, raised: None, at: now.wall };
                ("pause", run::pause(run, fence, pause).ok()?)
            }
            5 => ("cancel", run::cancel(run, "ann", "no", now).ok()??),
            _ => ("retry", run::retry(run, "ann", "go on").ok()?.run),
        };
        Some((kind, vec![Write::run(&next, now)]))
    }

    /// Entries, and what goes with them.
    fn advance(
        &mut self,
        run: &Run,
        last: Option<&Inked>,
        ground: &Ground,
    ) -> (&'static str, Vec<Write>) {
        let now = &ground.now;
        let names = 0..self.chance.up_to(3) + 1;
        let texts: Vec<_> = names.map(|index| format!("entry {}-{index}", self.count)).collect();
        let texts: Vec<_> = texts.iter().map(String::as_str).collect();
        let mut writes = entries(run, last, &texts);
        if let Some(last) = last.filter(|_| self.chance.one_in(2)) {
            let holds =
                Write::Holds { run: run.number, fence: run.fence, seq: last.seq, link: last.link };
            writes.insert(0, holds);
        }
        if self.chance.one_in(4) {
            let place = self.chance.up_to(writes.len() + 1);
            writes.insert(place, self.blob(run));
        }
        if self.chance.one_in(4) {
            writes.push(self.consume(run));
        }
        let waits = |on| {
            let due = (self.count % 2 == 0).then(|| At::from(now).plus(20_000));
            vec![Wait { id: "s#0".into(), on, due, note: None }]
        };
        match self.chance.up_to(5) {
            0 => {
                if let Ok(next) = run::park(run, run.fence, waits(On::Signal("go".into()))) {
                    writes.push(Write::run(&next, now));
                    return ("park", writes);
                }
            }
            4 => {
                let gate = On::Slot((*self.chance.pick(&GATES)).into());
                if let Ok(next) = run::park(run, run.fence, waits(gate)) {
                    writes.push(Write::run(&next, now));
                    return ("queue", writes);
                }
            }
            1 => {
                if let Ok(next) = run::finish(run, run.fence, How::Done, now) {
                    writes.push(Write::run(&next, now));
                    return ("finish", writes);
                }
            }
            2 => {
                let address = conformance::address("a", &format!("k{}", self.chance.up_to(9)));
                let attempt = format!("attempt-{}", self.count);
                let effect = conformance::armed(&address, &attempt, ground);
                writes.push(conformance::insert(&effect, ground));
                return ("effect", writes);
            }
            _ => {}
        }
        ("append", writes)
    }

    fn mail(&mut self, run: &Run) -> (&'static str, Vec<Write>) {
        if self.chance.one_in(3) {
            return ("consume", vec![self.consume(run)]);
        }
        let identity = format!("d{}", self.chance.up_to(8));
        let payload = self.chance.up_to(2).to_string();
        let at = semel_core::time::Wall(self.count);
        let delivery = conformance::delivery(run, &identity, &payload);
        ("deliver", vec![Write::Deliver(Delivery { at, ..delivery })])
    }

    fn consume(&mut self, run: &Run) -> Write {
        Write::Consume { run: run.number, identity: format!("d{}", self.chance.up_to(8)) }
    }

    fn blob(&mut self, run: &Run) -> Write {
        Write::Blob {
            namespace: run.namespace.clone(),
            digest: (*self.chance.pick(&DIGESTS)).into(),
            text: "large".into(),
            run: run.number,
        }
    }

    fn sweep(&mut self, run: &Run, ground: &Ground) -> Wishes {
        let row = match run::sweep(run, &ground.now) {
            Sweep::Keep => return None,
            Sweep::Tombstone(stone) => Some(RunRow::new(&stone, &ground.now)),
            Sweep::Remove => None,
        };
        Some(("sweep", vec![drop_run(run, run.version, row)]))
    }

    fn wrong(&mut self, run: &Run, ground: &Ground) -> Wishes {
        let off = [0, 2, 7][self.chance.up_to(3)];
        let link = Link::of_run("no", "where");
        let write = match self.chance.up_to(5) {
            0 => Write::run(&Run { version: run.version + off, ..run.clone() }, &ground.now),
            1 => Write::StartRun(RunRow::new(&Run { fence: 99, ..run.clone() }, &ground.now)),
            2 => drop_run(run, run.version + 1, None),
            3 => Write::Holds { run: run.number, fence: run.fence + off, seq: 0, link },
            _ => {
                let text = "x".to_owned();
                Write::Append(Append { run: run.number, seq: off, after: link, link, text })
            }
        };
        let mut writes = vec![write];
        if self.chance.one_in(2) {
            writes.insert(self.chance.up_to(2), touch(run, ground));
        }
        Some(("wrong", writes))
    }
}

type Wishes = Option<(&'static str, Vec<Write>)>;

/// Entries that follow the last one.
fn entries(run: &Run, last: Option<&Inked>, texts: &[&str]) -> Vec<Write> {
    let start = || Link::of_run(&run.namespace, &run.id);
    let mut after = last.map_or_else(start, |last| last.link);
    let mut writes = Vec::new();
    for (seq, text) in (last.map_or(0, |last| last.seq + 1)..).zip(texts) {
        let link = after.then(text);
        let append = Append { run: run.number, seq, after, link, text: (*text).to_owned() };
        writes.push(Write::Append(append));
        after = link;
    }
    writes
}

fn touch(run: &Run, ground: &Ground) -> Write {
    Write::Touch { namespace: run.namespace.clone(), id: run.id.clone(), at: ground.now.steady }
}

fn drop_run(run: &Run, version: u64, row: Option<RunRow>) -> Write {
    let (namespace, id, number) = (run.namespace.clone(), run.id.clone(), run.number);
    Write::DropRun { namespace, id, number, version, row }
}
