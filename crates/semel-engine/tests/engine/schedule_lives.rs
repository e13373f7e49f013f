//! A schedule over a hundred lives on one real file. Each opens it, looks once, and dies at some
//! commit; between them time passes and clocks are set. Each tick has one run.

use std::collections::BTreeMap;

use semel_core::key::Namespace;
use semel_core::schedule::{CatchUp, tick_key};
use semel_core::time::Wall;
use semel_engine::Engine;

use crate::common::{File, Flaky};
use crate::schedules::{BEGIN, card, content, dying_after, put, runs};

const LIVES: usize = 100;
const MINUTE: i64 = 60_000;

/// Numbers that look like chance and are the same for the same seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) % bound
    }
}

/// Every seventh minute of each hour, found by looking at every minute.
fn wanted(until: Wall) -> BTreeMap<String, u32> {
    let first = BEGIN - BEGIN.rem_euclid(MINUTE) + MINUTE;
    let minutes = (first..=until.0).step_by(60_000);
    let is_tick = |at: &i64| (at / MINUTE % 60) % 7 == 0;
    let key = |at: i64| (format!("report/often,{}", tick_time(at)), 1);
    minutes.filter(is_tick).map(key).collect()
}

fn tick_time(at: i64) -> String {
    tick_key("often", Wall(at)).expect("a key").parts().remove(1)
}

async fn live_and_die(seed: u64) -> (u64, usize) {
    let file = File::new();
    let mut chance = Chance(seed);
    put(&file.engine(), "often", content("*/7 * * * *", CatchUp::All)).await;
    let mut deaths = 0;
    for life in 0..LIVES {
        match chance.below(10) {
            0 => file.clock.step_wall_ms(-i64::try_from(chance.below(40)).unwrap() * MINUTE),
            1 => file.clock.step_wall_ms(i64::try_from(chance.below(40)).unwrap() * MINUTE),
            2 => file.clock.reboot(&format!("boot {life}")),
            _ => file.clock.advance_ms(chance.below(20 * 60_000)),
        }
        let store = Flaky::new(file.open());
        let commits = usize::try_from(chance.below(8)).unwrap();
        // Most die at some commit, others live long enough.
        if chance.below(3) > 0 {
            store.plan(dying_after(commits));
            deaths += 1;
        }
        let engine = Engine::new(store, format!("life {life}")).expect("an engine");
        engine.turn_schedules().await.expect("what fails is told");
    }
    // The clock is right in the end, and somebody is there.
    file.clock.advance_ms(2 * 3_600_000);
    let engine = file.engine();
    while engine.turn_schedules().await.expect("a turn") > 0 {}
    let schedule = card(&engine, "often").await.schedule;
    assert_eq!(runs(&engine).await, wanted(schedule.last.expect("ticks came")), "seed {seed}");
    assert_eq!((schedule.skipped, &schedule.firing), (0, &vec![]), "seed {seed}");
    let now = engine.store().ground().now;
    assert!(!now.wall_is_behind && now.wall.0 - schedule.last.unwrap().0 < 8 * MINUTE);
    let page = engine.schedules(&Namespace::default(), None, 10).await.expect("a page");
    assert_eq!(page.schedules.len(), 1);
    (schedule.fired, deaths)
}

#[tokio::test]
async fn bug_dapr_8548_a_schedule_goes_on_over_a_hundred_restarts_one_run_per_tick() {
    for seed in 1..=3 {
        let (fired, deaths) = live_and_die(seed).await;
        assert!(fired > 50 && deaths > 40, "seed {seed} saw too little: {fired}, {deaths}");
    }
}
