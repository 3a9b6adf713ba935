use std::hash::{BuildHasher, Hasher, RandomState};

/// Hashes the queue's keys: each is hashed three times on its way through, so this is most of what a key costs.
///
/// Each step is a folded 64×64→128 bit multiplication with secrets drawn at random per queue, so nobody can choose
/// object names that collide without knowing them. Hashes never leave the process.
#[derive(Clone, Copy)]
pub(super) struct KeyHash {
    seed: u64,
    secret: u64,
}

impl Default for KeyHash {
    fn default() -> Self {
        let random = RandomState::new(); // the only source of random numbers in std
        Self { seed: random.hash_one(0_u8), secret: random.hash_one(1_u8) | 1 }
    }
}

impl BuildHasher for KeyHash {
    type Hasher = KeyHasher;

    fn build_hasher(&self) -> KeyHasher {
        KeyHasher { state: self.seed, secret: self.secret }
    }
}

pub(super) struct KeyHasher {
    state: u64,
    secret: u64,
}

impl KeyHasher {
    fn mix(&mut self, a: u64, b: u64) {
        self.state = fold(a ^ self.state, b ^ self.secret).rotate_left(23) ^ self.state.rotate_left(41);
    }
}

fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        let length = bytes.len();
        if length < 8 {
            let mut word = [0; 8];
            word[..length].copy_from_slice(bytes);
            return self.mix(u64::from_le_bytes(word), length as u64);
        }
        let mut at = 0;
        while length - at > 16 {
            self.mix(word(at), word(at + 8));
            at += 16;
        }
        // The last 8 to 16 bytes, from both ends: they may overlap, and then the length tells.
        self.mix(word(at.min(length - 8)), word(length - 8));
        self.mix(length as u64, 0);
    }

    fn write_u8(&mut self, value: u8) {
        self.mix(value.into(), 0);
    }

    fn write_u32(&mut self, value: u32) {
        self.mix(value.into(), 0);
    }

    fn write_u64(&mut self, value: u64) {
        self.mix(value, 0);
    }

    fn write_usize(&mut self, value: usize) {
        self.mix(value as u64, 0);
    }

    fn finish(&self) -> u64 {
        fold(self.state, self.secret)
    }
}
