//! Numbers that a seed decides: the same seed tells the same story.

/// SplitMix64.
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `limit`.
    pub(crate) fn up_to(&mut self, limit: usize) -> usize {
        let limit = u64::try_from(limit).expect("a small limit");
        usize::try_from(self.next() % limit).expect("below the limit")
    }

    pub(crate) fn one_in(&mut self, times: usize) -> bool {
        self.up_to(times) == 0
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.up_to(from.len())]
    }
}
