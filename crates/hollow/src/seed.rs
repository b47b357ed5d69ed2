//! Numbers that look random and are the same in every run with the same seed.

pub(crate) use chassis::random::mix;
use chassis::random::seed_for;

/// Where all spread and variation of the hollow nodes comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seed(pub(crate) u64);

impl Seed {
    /// A number for `what`, a purpose, of `who`, a name.
    pub(crate) fn of(self, what: &str, who: &str) -> u64 {
        seed_for(self.0, &[what, who])
    }
}

/// A number in `low..=high`, drawn from `number`.
pub(crate) fn within(number: u64, low: u64, high: u64) -> u64 {
    low + number % (high.saturating_sub(low).saturating_add(1))
}

/// Sixty-four hexadecimal digits, as a container id or an image digest has them.
pub(crate) fn digest(number: u64) -> String {
    let mut text = String::with_capacity(64);
    let mut word = number;
    for _ in 0..4 {
        word = mix(word);
        text.push_str(&format!("{word:016x}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_depends_on_seed_purpose_and_name() {
        let number = Seed(1).of("start", "a");
        assert_eq!(number, Seed(1).of("start", "a"));
        for other in [Seed(2).of("start", "a"), Seed(1).of("stop", "a"), Seed(1).of("start", "b")] {
            assert_ne!(number, other);
        }
        assert_ne!(Seed(1).of("ab", "c"), Seed(1).of("a", "bc"));
        assert_eq!(digest(7).len(), 64);
        assert_eq!(within(u64::MAX, 3, 3), 3);
    }
}
