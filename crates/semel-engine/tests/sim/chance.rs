//! Everything that is left to chance comes from one seed.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) struct Chance {
    state: Mutex<u64>,
    faults: AtomicBool,
}

impl Chance {
    pub(crate) fn new(seed: u64) -> Chance {
        Chance { state: Mutex::new(seed), faults: AtomicBool::new(true) }
    }

    /// From here on nothing goes wrong any more.
    pub(crate) fn end_faults(&self) {
        self.faults.store(false, Ordering::SeqCst);
    }

    /// Uniform below `end`.
    pub(crate) fn below(&self, end: u64) -> u64 {
        let mut state = self.state.lock().expect("no panic");
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % end
    }

    /// True so many times in a thousand.
    pub(crate) fn often(&self, per_thousand: u64) -> bool {
        self.below(1_000) < per_thousand
    }

    /// Like `often`, but never once the faults are over.
    pub(crate) fn fails(&self, per_thousand: u64) -> bool {
        self.often(per_thousand) && self.faults.load(Ordering::SeqCst)
    }

    pub(crate) fn pick<'a, T>(&self, from: &'a [T]) -> &'a T {
        &from[usize::try_from(self.below(from.len() as u64)).expect("short")]
    }
}
