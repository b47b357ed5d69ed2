//! What a server takes from outside: the time, fresh uids and name suffixes.
//!
//! Everything else in this crate is a function of requests and of this, so the
//! same seed and the same requests give the same bytes.

use std::sync::Mutex;

use jiff::Timestamp;
use object::names::SUFFIX_ALPHABET;

use crate::UNPOISONED;

/// Characters in a generated name suffix.
const SUFFIX_LEN: usize = 5;

/// The outside world as a drydock sees it.
pub trait Env: Send + Sync + 'static {
    /// The current time.
    fn now(&self) -> Timestamp;
    /// Sixty-four fresh random bits.
    fn random(&self) -> u64;

    /// A fresh uid in the form of a version 4 UUID.
    fn uid(&self) -> String {
        let (high, low) = (self.random(), self.random());
        let high = high & 0xffff_ffff_ffff_0fff | 0x4000;
        let low = low & 0x3fff_ffff_ffff_ffff | 0x8000_0000_0000_0000;
        format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            high >> 32,
            high >> 16 & 0xffff,
            high & 0xffff,
            low >> 48,
            low & 0xffff_ffff_ffff
        )
    }

    /// A fresh suffix for a generated name.
    fn suffix(&self) -> String {
        let mut bits = self.random();
        let letters = SUFFIX_ALPHABET;
        let count = letters.len() as u64;
        (0..SUFFIX_LEN)
            .map(|_| {
                let letter = letters[(bits % count) as usize];
                bits /= count;
                char::from(letter)
            })
            .collect()
    }
}

/// The real clock, and identifiers drawn from a seed.
pub struct SystemEnv {
    random: SplitMix,
}

impl SystemEnv {
    /// An environment on the system clock whose identifiers follow from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { random: SplitMix::new(seed) }
    }
}

impl Env for SystemEnv {
    #[expect(clippy::disallowed_methods, reason = "this is where the clock enters")]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn random(&self) -> u64 {
        self.random.draw()
    }
}

/// A clock that moves only when told, and identifiers drawn from a seed.
pub struct ManualEnv {
    now: Mutex<Timestamp>,
    random: SplitMix,
}

impl ManualEnv {
    /// An environment that starts at `now`.
    #[must_use]
    pub fn new(now: Timestamp, seed: u64) -> Self {
        Self { now: Mutex::new(now), random: SplitMix::new(seed) }
    }

    /// Moves the clock to `now`.
    pub fn set(&self, now: Timestamp) {
        *self.now.lock().expect(UNPOISONED) = now;
    }
}

impl Env for ManualEnv {
    fn now(&self) -> Timestamp {
        *self.now.lock().expect(UNPOISONED)
    }

    fn random(&self) -> u64 {
        self.random.draw()
    }
}

/// SplitMix64: small, seeded, and good enough for identifiers that need to be
/// distinct but not secret.
pub(crate) struct SplitMix(Mutex<u64>);

impl SplitMix {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Mutex::new(seed))
    }

    pub(crate) fn draw(&self) -> u64 {
        let mut state = self.0.lock().expect(UNPOISONED);
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = *state;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_every_identifier() {
        let draw = |seed| {
            let env = ManualEnv::new(Timestamp::UNIX_EPOCH, seed);
            (env.uid(), env.suffix())
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        let (uid, suffix) = draw(7);
        assert_eq!(uid.len(), 36);
        assert_eq!(&uid[14..15], "4");
        assert!("89ab".contains(&uid[19..20]));
        assert_eq!(suffix.len(), SUFFIX_LEN);
    }
}
