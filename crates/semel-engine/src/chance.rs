//! Numbers that nobody can foresee: attempt ids and jitter.

use std::sync::atomic::{AtomicU64, Ordering};

use semel_core::code::Code;

use crate::Error;

/// Seeded once by the system; then a counter through a mixer (splitmix64), so that a draw costs
/// nothing and never repeats within a process.
pub(crate) struct Chance {
    base: u64,
    state: AtomicU64,
}

impl Chance {
    pub(crate) fn new() -> Result<Chance, Error> {
        let mut seed = [0; 16];
        getrandom::fill(&mut seed)
            .map_err(|error| Error::new(Code::Internal, format!("no random numbers: {error}")))?;
        let half = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        Ok(Chance { base: half(&seed[..8]), state: AtomicU64::new(half(&seed[8..])) })
    }

    fn draw(&self) -> u64 {
        let state = self.state.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn attempt_id(&self) -> String {
        format!("{:016x}{:016x}", self.base, self.draw())
    }

    pub(crate) fn jitter(&self) -> u32 {
        u32::try_from(self.draw() >> 32).expect("the upper half of a u64")
    }
}
