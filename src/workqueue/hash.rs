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

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::Hash;

    use super::*;

    const FIXED: KeyHash = KeyHash { seed: 0x243f_6a88_85a3_08d3, secret: 0x1319_8a2e_0370_7345 };

    /// How many of 4096 groups, chosen by 12 bits of the hash, are hit by 4096 keys. Random ones: 63 %.
    fn groups_hit<K: Hash>(keys: impl Iterator<Item = K>, bits: fn(u64) -> u64) -> usize {
        keys.take(4096).map(|key| bits(FIXED.hash_one(key)) & 0xfff).collect::<HashSet<_>>().len()
    }

    #[test]
    fn similar_keys_spread_over_low_and_high_bits() {
        let names = || (0..).map(|i| format!("default/web-{i}"));
        for bits in [|hash| hash, |hash: u64| hash >> 52] {
            assert!(groups_hit(0_u64.., bits) > 2400);
            assert!(groups_hit((0_u64..).map(|i| i << 40), bits) > 2400);
            assert!(groups_hit(0_u32.., bits) > 2400);
            assert!(groups_hit(names(), bits) > 2400);
        }
    }

    #[test]
    fn every_byte_and_the_length_count() {
        let mut seen = HashSet::new();
        for length in 0..50 {
            assert!(seen.insert(FIXED.hash_one(vec![0_u8; length].as_slice())));
            for at in 0..length {
                let mut bytes = vec![0_u8; length];
                bytes[at] = 1;
                assert!(seen.insert(FIXED.hash_one(bytes.as_slice())), "byte {at} of {length}");
            }
        }
    }

    #[test]
    fn each_queue_hashes_differently() {
        assert_ne!(KeyHash::default().hash_one("a"), KeyHash::default().hash_one("a"));
    }
}
