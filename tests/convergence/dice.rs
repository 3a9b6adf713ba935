//! What a seed decides.

/// The same choices for the same seed.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn roll(&mut self, sides: u64) -> u64 {
        // xorshift64*, of which the upper bits are good
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) % sides
    }

    pub(super) fn small(&mut self, sides: u64) -> usize {
        usize::try_from(self.roll(sides)).unwrap()
    }

    pub(super) fn one_in(&mut self, sides: u64) -> bool {
        self.roll(sides) == 0
    }

    pub(super) fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.small(of.len() as u64)].clone()
    }
}
