//! Chance from a seed, so that a failure can be played again.

pub(crate) struct Chance(u64);

impl Chance {
    /// The same in every run; `TAMPER_SEED` plays another one.
    pub(crate) fn new() -> Chance {
        let given = std::env::var("TAMPER_SEED").ok().and_then(|text| text.parse().ok());
        let seed = given.unwrap_or(2_350_010_118);
        eprintln!("TAMPER_SEED={seed}");
        Chance(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % (end as u64)).expect("below a usize")
    }

    pub(crate) fn of<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}
