//! Random numbers that follow from a seed alone, the same on every machine. Not for production.

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The stream of `seed`; neighbouring seeds give unrelated streams.
    pub fn new(seed: u64) -> Random {
        let mut random = Random { state: seed ^ 0x5DEE_CE66_D1CE_4E5B };
        random.next_u64();
        random
    }

    /// The next number (the finaliser of MurmurHash3 over a Weyl sequence).
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
        mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
        mixed ^ (mixed >> 33)
    }

    /// A stream of its own, so that what it is used for does not disturb this one.
    pub fn fork(&mut self) -> Random {
        Random::new(self.next_u64())
    }

    /// A number below `limit`, which is at least 1.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next_u64() % limit.max(1)
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True in `percent` of 100 cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of `choices`.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len() as u64) as usize]
    }
}
