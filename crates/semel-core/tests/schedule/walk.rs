//! A random walk through time with everything that happens to clocks and processes. Whatever comes,
//! in whatever order: each tick fires once, or is counted as passed over, as the policy says. What
//! the ticks are comes from the oracle.

use std::collections::{BTreeMap, BTreeSet};

use semel_core::limits;
use semel_core::schedule::{CatchUp, Schedule, Start, decide, decode, due_of, encode, started};
use semel_core::time::{Moment, Steady, Wall};

use crate::oracle::{Pattern, Stretch, patterns, stretches};

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const SEEDS: u64 = 1;

/// Numbers that look like chance and are the same for the same seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % bound
    }
}

/// The machine, its card, and what was started.
struct World {
    chance: Chance,
    /// Tells where a check failed.
    label: String,
    now: Moment,
    /// The highest wall time that the store has seen.
    seen: Wall,
    version: u64,
    card: Schedule,
    /// What another process read before.
    read_before: (u64, Schedule),
    /// All ticks that there are.
    ticks: Vec<Wall>,
    /// How often each tick was decided to fire.
    claimed: BTreeMap<Wall, u32>,
    /// Runs are named by their tick: a second start attaches.
    runs: BTreeSet<Wall>,
    skipped: u64,
}

impl World {
    fn new(seed: u64, stretch: &Stretch, pattern: &Pattern, catch_up: CatchUp) -> World {
        let card = crate::schedule(pattern.cron, stretch.zone, catch_up, stretch.from);
        World {
            chance: Chance(seed),
            label: format!("{} in {}, {catch_up:?}, seed {seed}", pattern.cron, stretch.zone),
            now: crate::at(stretch.from),
            seen: stretch.from,
            version: 1,
            read_before: (1, card.clone()),
            card,
            ticks: stretch.ticks(pattern),
            claimed: BTreeMap::new(),
            runs: BTreeSet::new(),
            skipped: 0,
        }
    }

    /// Time passes, on both clocks.
    fn pass(&mut self, ms: u64) {
        self.now.wall = self.now.wall.plus(ms);
        self.now.steady = self.now.steady.plus(ms);
        self.look_at_clock();
    }

    /// Somebody sets the wall clock.
    fn step_wall(&mut self, ms: i64) {
        self.now.wall = Wall(self.now.wall.0 + ms);
        self.look_at_clock();
    }

    fn reboot(&mut self) {
        self.now.steady = Steady { boot: self.now.steady.boot + 1, ms: 0 };
        self.card = decode(&encode(&self.card)).expect("it reads back");
    }

    fn look_at_clock(&mut self) {
        self.now.wall_is_behind = self.now.wall.0 < self.seen.0 - limits::WALL_SLACK_MS;
    }

    fn happen(&mut self, pace_ms: u64) {
        match self.chance.below(100) {
            0..75 => {
                let ms = 1 + self.chance.below(pace_ms);
                self.pass(ms);
            }
            // Suspended, or nobody was there.
            75..83 => {
                let ms = self.chance.below(12 * HOUR_MS);
                self.pass(ms);
            }
            83..88 => {
                let ms = self.chance.below(3 * HOUR_MS);
                self.step_wall(i64::try_from(ms).unwrap());
            }
            88..93 => {
                let ms = self.chance.below(3 * HOUR_MS);
                self.step_wall(-i64::try_from(ms).unwrap());
            }
            _ => self.reboot(),
        }
        self.turn();
        if self.chance.below(4) == 0 {
            // Another process, which read the card some time ago.
            let (version, card) = self.read_before.clone();
            self.turn_on(version, &card);
            self.read_before = (self.version, self.card.clone());
        }
    }

    fn turn(&mut self) {
        let card = self.card.clone();
        self.turn_on(self.version, &card);
    }

    /// One turn of a process that read this version; it may die at any point.
    fn turn_on(&mut self, version: u64, card: &Schedule) {
        if card.firing.is_empty() {
            let decided = decide(card, &self.now).expect("a good pattern");
            let dies = self.chance.below(12) == 0;
            if dies || !self.commit(version, &decided.next) {
                return;
            }
            self.check_decision(card, &decided.fire, decided.skipped);
        }
        let claimed = self.card.clone();
        let version = self.version;
        if claimed.firing.is_empty() || self.chance.below(12) == 0 {
            return;
        }
        self.runs.extend(&claimed.firing);
        if self.chance.below(12) == 0 {
            return;
        }
        let start = |tick: &Wall| Start { tick: *tick, refused: None };
        let starts: Vec<Start> = claimed.firing.iter().map(start).collect();
        self.commit(version, &started(&claimed, &starts));
    }

    fn commit(&mut self, version: u64, card: &Schedule) -> bool {
        if version != self.version {
            return false;
        }
        if *card != self.card {
            self.version += 1;
            self.card = card.clone();
        }
        self.seen = self.seen.max(self.now.wall);
        true
    }

    /// What the policy says about the ticks since the last one that was decided on.
    fn check_decision(&mut self, before: &Schedule, fire: &[Wall], skipped: u64) {
        let floor = before.last.unwrap_or(before.since);
        let up_to = |wall: Wall| self.ticks.partition_point(|tick| *tick <= wall);
        let all = self.ticks.get(up_to(floor)..up_to(self.now.wall)).unwrap_or_default();
        let most = match before.content.catch_up {
            CatchUp::All => limits::TICKS_FIRED_MAX,
            CatchUp::Skip | CatchUp::Once => limits::TICKS_SEEN_MAX,
        };
        let due = if self.now.wall_is_behind { &[] } else { &all[..all.len().min(most)] };
        let on_time = |tick: &Wall| self.now.wall.0 - tick.0 <= 60_000;
        let want: Vec<Wall> = match before.content.catch_up {
            CatchUp::Skip => due.iter().copied().filter(on_time).collect(),
            CatchUp::Once if all.len() > most => Vec::new(),
            CatchUp::Once => due.last().copied().into_iter().collect(),
            CatchUp::All => due.to_vec(),
        };
        assert_eq!(fire, want, "{} at {:?}", self.label, self.now);
        assert_eq!(skipped, (due.len() - want.len()) as u64, "{}", self.label);
        for tick in fire {
            let times = self.claimed.entry(*tick).or_default();
            *times += 1;
            assert_eq!(*times, 1, "{}: {tick:?} fired twice", self.label);
        }
        self.skipped += skipped;
    }

    /// In the end the clock is right, and somebody is there.
    fn end(mut self) -> (u64, u64) {
        let ahead = self.seen.0 - self.now.wall.0;
        self.step_wall(ahead.max(0));
        while due_of(&self.card).unwrap().is_some_and(|due| due <= self.now.wall) {
            self.turn();
        }
        let last = self.card.last.unwrap_or(self.card.since);
        let decided: Vec<Wall> = self.ticks.iter().copied().filter(|tick| *tick <= last).collect();
        assert!(!self.ticks.iter().any(|tick| *tick > last && *tick <= self.now.wall));
        let claimed: BTreeSet<Wall> = self.claimed.keys().copied().collect();
        assert_eq!(claimed, self.runs, "{}: each that fired has its run, and no other", self.label);
        let is_tick = |tick: &Wall| decided.binary_search(tick).is_ok();
        assert!(self.runs.iter().all(is_tick), "{}: a run without a tick", self.label);
        let fired = self.runs.len() as u64;
        assert_eq!(fired + self.skipped, decided.len() as u64, "{}: none is lost", self.label);
        assert_eq!((self.card.fired, self.card.skipped), (fired, self.skipped), "{}", self.label);
        (fired, self.skipped)
    }
}

/// Walks through the stretch and returns how many ticks fired and how many were passed over.
fn walk(seed: u64, stretch: &Stretch, pattern: &Pattern, catch_up: CatchUp) -> (u64, u64) {
    let mut world = World::new(seed, stretch, pattern, catch_up);
    let pace_ms = if seed.is_multiple_of(4) { 90_000 } else { 20 * MINUTE_MS };
    // The clock may be set ahead by hours, and must still be inside of what the oracle looked at.
    let end = Wall(stretch.to.0 - i64::try_from(16 * HOUR_MS).unwrap());
    while world.now.wall < end {
        world.happen(pace_ms);
    }
    world.end()
}

fn walk_all(catch_up: CatchUp) -> (u64, u64) {
    let mut sum = (0, 0);
    for stretch in stretches() {
        for (index, pattern) in patterns().iter().enumerate() {
            for seed in 0..SEEDS {
                let seed = seed + SEEDS * index as u64;
                let (fired, skipped) = walk(seed, &stretch, pattern, catch_up);
                sum = (sum.0 + fired, sum.1 + skipped);
            }
        }
    }
    sum
}

#[test]
fn bug_dapr_8548_all_each_tick_fires_once_through_restarts_and_changes_of_the_clock() {
    let (fired, skipped) = walk_all(CatchUp::All);
    assert!(fired > 10_000, "the walk saw ticks");
    assert_eq!(skipped, 0);
}

#[test]
fn bug_camunda_9680_once_only_the_latest_of_missed_ticks_fires() {
    let (fired, skipped) = walk_all(CatchUp::Once);
    assert!(fired > 1_000 && skipped > 1_000, "the walk saw both: {fired}, {skipped}");
}

#[test]
fn bug_camunda_9680_skip_no_missed_tick_fires() {
    let (fired, skipped) = walk_all(CatchUp::Skip);
    assert!(fired > 1_000 && skipped > 1_000, "the walk saw both: {fired}, {skipped}");
}
