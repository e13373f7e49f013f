//! One seed drives callers, processes, store, destination, people and clock. `SIM_SEED=7` runs one
//! seed again, often: in which order sleepers of one moment wake is the runtime's own chance.
//! `SIM_SEEDS=100000` runs that many.

mod sim;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

fn run(seed: u64) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let ran = catch_unwind(AssertUnwindSafe(|| runtime.block_on(sim::run(seed))));
    ran.unwrap_or_else(|_| panic!("seed {seed} failed; run it again with SIM_SEED={seed}"))
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn every_seed_keeps_the_promises_and_comes_to_an_end() {
    if let Some(seed) = number("SIM_SEED") {
        (0..100).for_each(|_| drop(run(seed)));
        return;
    }
    let mut answers = BTreeSet::new();
    for seed in 0..number("SIM_SEEDS").unwrap_or(320) {
        let told =
            run(seed).into_iter().filter_map(|line| line.rsplit(": ").next().map(str::to_owned));
        answers.extend(
            told.map(|answer| if answer.starts_with('{') { "receipt".into() } else { answer }),
        );
    }
    // A simulation in which nothing goes wrong shows nothing.
    for answer in ["receipt", "in_doubt", "in_progress", "effect_failed", "store_unavailable"] {
        assert!(answers.contains(answer), "nobody was ever told {answer}: {answers:?}");
    }
}
