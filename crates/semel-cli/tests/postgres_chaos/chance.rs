//! One seed decides everything that is drawn.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(crate) struct Chance {
    pub(crate) seed: u64,
    state: u64,
}

impl Chance {
    /// The seed is printed, so that whoever reads of a failure can draw the same again.
    pub(crate) fn new(name: &str) -> Chance {
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos();
        let seed = match std::env::var("SEMEL_SEED") {
            Ok(text) => text.parse().expect("SEMEL_SEED is a number"),
            Err(_) => u64::try_from(now() % 1_000_000_007).expect("it is small"),
        };
        println!("{name}: SEMEL_SEED={seed}");
        Chance { seed, state: seed }
    }

    /// SplitMix64: small, and good enough to choose by.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn index(&mut self, count: usize) -> usize {
        usize::try_from(self.below(count as u64)).expect("below a count")
    }

    pub(crate) fn nap(&mut self, from_ms: u64, to_ms: u64) {
        std::thread::sleep(Duration::from_millis(from_ms + self.below(to_ms - from_ms)));
    }
}

/// How much more of everything a campaign wants.
pub(crate) fn times() -> usize {
    let text = std::env::var("SEMEL_CHAOS_TIMES").unwrap_or_default();
    if text.is_empty() { 1 } else { text.parse().expect("SEMEL_CHAOS_TIMES is a number") }
}
