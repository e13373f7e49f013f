//! Many runs, several workers, and chance: workers die, stop, lose answers and drain, people signal
//! and cancel. `RUNS_SEED=7` plays one seed, `RUNS_SEEDS=10000` that many.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use futures_util::FutureExt;
use futures_util::future::{join_all, select_all};
use semel_core::code::Code;
use semel_core::effect::State as EffectState;
use semel_core::journal::{self, Event};
use semel_core::json::Json;
use semel_core::key::{Key, Namespace};
use semel_core::run::{Run, State};
use semel_engine::{Error, Port, Signal, Start};
use semel_store::{Query, RunQuery, Runs, Store};

use super::flows::Done;
use super::kit::{Kit, NATIVE, PROBE, Sending, json, sleep, wait};
use super::life::Fault;
use super::world::{Process, World, play, start};

const RUNS: u64 = 6;
const WORKERS: usize = 3;

/// A generator that is the same everywhere (splitmix64).
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % end
    }

    fn happens(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// A workflow whose shape follows from the key of its run.
fn any_shape(port: Port, kit: Kit) -> Done {
    async move {
        let key = port.facts().key.clone();
        let mut chance = Chance(key.bytes().map(u64::from).sum::<u64>() * 7_919);
        let mut last = json("0");
        for turn in 0..3 + chance.below(3) {
            last = one_turn(&port, &kit, &mut chance, &format!("{key}-{turn}"), last).await?;
        }
        Ok(last)
    }
    .boxed()
}

async fn one_turn(
    port: &Port,
    kit: &Kit,
    chance: &mut Chance,
    key: &str,
    last: Json,
) -> Result<Json, Error> {
    let ms = 500 + chance.below(20_000);
    let contract = if chance.happens(50) { NATIVE } else { PROBE };
    let sending = if chance.happens(40) { Sending::Slow(ms / 2) } else { Sending::Quick };
    match chance.below(6) {
        0 => kit.step(port, "a", last.text()).await,
        1 => kit.effect(port, key, contract, last, sending).await,
        2 => sleep(port, ms).await.map(|()| last),
        3 => {
            let word = wait(port, "word", Some(ms)).await?;
            Ok(word.unwrap_or(last))
        }
        4 => {
            let mut all: Vec<Done> = (0..3).map(|_| kit.step(port, "g", last.text())).collect();
            all.push(kit.effect(port, key, contract, last, sending));
            let all: Result<Vec<Json>, Error> = join_all(all).await.into_iter().collect();
            all.map(|mut all| all.pop().expect("four of them"))
        }
        _ => {
            let sleeper = port.clone();
            let timer = async move { sleep(&sleeper, ms).await.map(|()| json("1")) }.boxed();
            let effect = kit.effect(port, key, contract, last, sending);
            select_all([timer, effect]).await.0
        }
    }
}

struct Story {
    world: World,
    chance: Chance,
    workers: Vec<Process>,
    born: u32,
    /// The number of the first run: other seeds have workflows of other shapes.
    first: u64,
    /// The journals as they were when last seen.
    seen: BTreeMap<i64, Vec<String>>,
}

impl Story {
    fn worker(&mut self) -> Process {
        self.born += 1;
        // Names come again, as those of restarted workers do.
        let name = format!("worker-{}", self.chance.below(2));
        let dies = self.chance.happens(60).then(|| 1 + self.chance.below(60));
        let dies = dies.map(|point| u32::try_from(point).expect("small"));
        let process = self.world.live(&name, any_shape, dies);
        for _ in 0..self.chance.below(4) {
            let commit = u32::try_from(1 + self.chance.below(40)).expect("small");
            let fault = Fault::ALL[usize::try_from(self.chance.below(3)).expect("small")];
            process.life.plan(commit, fault);
        }
        process
    }

    async fn runs(&self) -> Vec<Run> {
        let query = RunQuery::everywhere(100);
        self.world.disk.list_runs(&query).await.expect("readable").runs
    }

    /// One thing that the world does.
    async fn act(&mut self) {
        let place = usize::try_from(self.chance.below(WORKERS as u64)).expect("small");
        match self.chance.below(10) {
            0 => {
                self.workers[place].life.kill();
                self.workers[place] = self.worker();
            }
            1 => self.workers[place].life.stop(),
            2 | 3 => self.workers[place].life.go_on(),
            4 => {
                let engine = self.workers[place].engine.clone();
                tokio::spawn(async move { engine.drain(20_000).await });
                self.workers[place] = self.worker();
            }
            5 => self.workers[place].life.set_blind(true),
            6 => self.workers[place].life.set_blind(false),
            7 | 8 => {
                let (number, word) = (self.first + self.chance.below(RUNS), self.chance.below(40));
                let signal = Signal {
                    namespace: Namespace::default(),
                    run: run_id(number),
                    name: "word".into(),
                    identity: Some(format!("d-{word}")),
                    payload: json(&word.to_string()),
                };
                if let Err(error) = self.world.outside.signal(signal).await {
                    assert_eq!(error.code(), Code::RunFinished);
                }
            }
            _ if self.chance.happens(15) => {
                let id = run_id(self.first + self.chance.below(RUNS));
                let space = Namespace::default();
                if let Err(error) = self.world.outside.cancel_run(&space, &id, "ann", "no").await {
                    assert_eq!(error.code(), Code::RunFinished);
                }
            }
            _ => {}
        }
        for place in 0..WORKERS {
            if self.workers[place].life.is_dead() && self.chance.happens(30) {
                self.workers[place] = self.worker();
            }
        }
    }

    /// I11, I13 and I14 of all runs.
    async fn check(&mut self) {
        for run in self.runs().await {
            let inked = self.world.outside.journal(&run).await.expect("one clean chain");
            let texts: Vec<String> = inked.into_iter().map(|inked| inked.text).collect();
            let before = self.seen.entry(run.number).or_default();
            assert!(texts.starts_with(before), "a prefix that was seen has changed");
            *before = texts;
            if run.state().is_final() {
                continue;
            }
            let due = self.world.disk.due_runs(&run.lane(), 100).await.expect("readable");
            let is_due = due.runs.iter().any(|due| due.id == run.id) || due.next.is_some();
            assert!(is_due || run.waits_on().is_some(), "nothing wakes {run:#?}");
        }
    }

    /// Everybody is well again: all runs end, each as its journal says, each effect once.
    async fn end(&mut self) {
        for worker in &self.workers {
            worker.life.kill();
        }
        let _last = self.world.live("last", any_shape, None);
        for _ in 0..400 {
            self.world.pass_ms(1_000).await;
            if self.runs().await.iter().all(|run| run.state().is_final()) {
                break;
            }
            settle_doubts(&self.world).await;
            for run in self.runs().await {
                super::crash::retry_exhausted(&self.world, &run).await;
            }
        }
        self.check().await;
        for run in self.runs().await {
            let texts = &self.seen[&run.number];
            let events: Vec<Event> =
                texts.iter().map(|text| journal::decode(text).expect("an entry").event).collect();
            let names: Vec<&str> = events.iter().map(Event::name).collect();
            let state = run.state();
            if !matches!(state, State::Done | State::Cancelled) {
                let effects = self.world.disk.list(&Query::everywhere(500)).await;
                let effects = effects.expect("readable").effects.into_iter();
                let its: Vec<_> =
                    effects.filter(|effect| effect.run.as_ref() == Some(&run.id)).collect();
                panic!("{state} {names:?} {run:#?} {its:#?}");
            }
            let ends = names.iter().filter(|name| **name == "finished").count();
            assert_eq!((names.last(), ends), (Some(&"finished"), 1), "{names:?}");
            assert!(names.len() < 300, "{} entries: {names:?}", names.len());
            self.world.check_effects(&events).await;
        }
        let now = self.world.disk.ground().now;
        for effect in self.world.disk.list(&Query::everywhere(500)).await.expect("read").effects {
            let is_open = matches!(effect.state(&now), EffectState::Pending | EffectState::InDoubt);
            assert!(!is_open, "its run has ended: {effect:#?}");
        }
    }
}

/// What a cancelled run has in doubt nobody's code settles any more: a person looks.
async fn settle_doubts(world: &World) {
    let unsettled = Query { unsettled: true, ..Query::everywhere(500) };
    for effect in world.disk.list(&unsettled).await.expect("readable").effects {
        let run = effect.run.as_ref().expect("it is of a run");
        let run = world.disk.run("default", run).await.expect("readable").expect("it is there");
        if run.cancel.is_some() {
            super::crash::settle(world, &effect.address).await;
        }
    }
}

fn keyed(number: u64) -> Start {
    Start { key: Some(key(number)), ..start() }
}

fn key(number: u64) -> Key {
    Key::from_text(&format!("e-{number}")).expect("a key")
}

fn run_id(number: u64) -> String {
    semel_core::derive::run_id(&Namespace::default(), "flow", &key(number)).to_string()
}

/// Returns how many processes lived and how many sends there were.
fn one_seed(seed: u64) -> (u32, u32) {
    play(async {
        let (world, chance) = (World::new(), Chance(seed));
        let mut story = Story {
            world,
            chance,
            workers: Vec::new(),
            born: 0,
            first: seed % 50,
            seen: BTreeMap::new(),
        };
        for number in 0..RUNS {
            story.world.outside.start_run(keyed(number + seed % 50)).await.expect("started");
        }
        for _ in 0..WORKERS {
            let worker = story.worker();
            story.workers.push(worker);
        }
        for _ in 0..60 {
            let ms = [10, 200, 1_000, 5_000][usize::try_from(story.chance.below(4)).expect("4")];
            story.world.pass_ms(ms).await;
            story.act().await;
            story.check().await;
        }
        story.end().await;
        (story.born, story.world.there.sends())
    })
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

#[test]
#[expect(clippy::print_stderr, reason = "how much was played is the result")]
fn every_seed_brings_all_runs_to_one_end_and_each_effect_happens_once() {
    let seeds = match number("RUNS_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("RUNS_SEEDS").unwrap_or(60),
    };
    let (mut born, mut sends) = (0, 0);
    for seed in seeds.clone() {
        let played = catch_unwind(AssertUnwindSafe(|| one_seed(seed)));
        let Ok((lives, sent)) = played else {
            panic!("seed {seed} failed; play it again with RUNS_SEED={seed}")
        };
        (born, sends) = (born + lives, sends + sent);
    }
    eprintln!("{} seeds, {born} processes, {sends} sends", seeds.count());
    assert!(born > 3 && sends > 0);
}
