//! Sets of CPUs, as Linux writes them: `0-3,8`.

use std::fmt;

use crate::malformed::Malformed;

/// One more than the highest number of a CPU. No machine comes near.
const CPUS_MAX: u32 = 1 << 14;
/// How many CPUs a list names, each as often as it does.
const NAMED_MAX: u32 = 4 * CPUS_MAX;
const WORD: u32 = u64::BITS;

/// A set of CPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuSet {
    /// One bit for each; the last word is not zero.
    words: Vec<u64>,
}

impl CpuSet {
    /// No CPU.
    #[must_use]
    pub const fn new() -> Self {
        Self { words: Vec::new() }
    }

    /// Reads a list of numbers and ranges.
    ///
    /// # Errors
    /// When it is not one, or names a CPU that no machine has.
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        let wrong = || Malformed::new("CPUs", text, "write numbers and ranges, such as 0-3,8");
        let (mut set, mut named) = (Self::new(), 0);
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let number = |text: &str| text.parse::<u32>().ok().filter(|own| *own < CPUS_MAX);
            let (first, last) = number(first)
                .zip(number(last))
                .filter(|(first, last)| first <= last)
                .ok_or_else(wrong)?;
            // Whoever names CPUs again and again does not mean any more of them.
            named += last - first + 1;
            if named > NAMED_MAX {
                return Err(wrong());
            }
            (first..=last).for_each(|cpu| set.insert(cpu));
        }
        Ok(set)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether a CPU is among them.
    #[must_use]
    pub fn contains(&self, cpu: u32) -> bool {
        let word = self.words.get((cpu / WORD) as usize).copied().unwrap_or(0);
        word & (1 << (cpu % WORD)) != 0
    }

    /// Whether a machine can have this CPU: no set holds any other.
    #[must_use]
    pub fn can_hold(cpu: u32) -> bool {
        cpu < CPUS_MAX
    }

    /// With one more. One that no machine has is left out.
    pub fn insert(&mut self, cpu: u32) {
        if !Self::can_hold(cpu) {
            return;
        }
        let place = (cpu / WORD) as usize;
        if self.words.len() <= place {
            self.words.resize(place + 1, 0);
        }
        self.words[place] |= 1 << (cpu % WORD);
    }

    /// Without one.
    pub fn remove(&mut self, cpu: u32) {
        if let Some(word) = self.words.get_mut((cpu / WORD) as usize) {
            *word &= !(1 << (cpu % WORD));
        }
        self.trim();
    }

    fn trim(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }

    fn combined(&self, other: &Self, words: impl Fn(u64, u64) -> u64) -> Self {
        let word = |set: &Self, place: usize| set.words.get(place).copied().unwrap_or(0);
        let places = self.words.len().max(other.words.len());
        let words = (0..places).map(|place| words(word(self, place), word(other, place)));
        let mut set = Self { words: words.collect() };
        set.trim();
        set
    }

    /// They and others.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        self.combined(other, |own, other| own | other)
    }

    /// They without others.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        self.combined(other, |own, other| own & !other)
    }

    /// Those that are among others, too.
    #[must_use]
    pub fn among(&self, other: &Self) -> Self {
        self.combined(other, |own, other| own & other)
    }

    /// How many are among others, too.
    #[must_use]
    pub fn count_among(&self, other: &Self) -> usize {
        let both = self.words.iter().zip(&other.words);
        both.map(|(own, other)| (own & other).count_ones() as usize).sum()
    }

    /// Each of them, the lowest first.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.words.iter().zip(0_u32..).flat_map(|(word, place)| {
            let without_lowest = |left: &u64| Some(left & left.wrapping_sub(1));
            let left = std::iter::successors(Some(*word), without_lowest);
            let bits = left.take_while(|left| *left != 0).map(u64::trailing_zeros);
            bits.map(move |bit| place * WORD + bit)
        })
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        let mut set = Self::new();
        cpus.into_iter().for_each(|cpu| set.insert(cpu));
        set
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = all.next() {
            let mut last = first;
            while all.next_if_eq(&(last + 1)).is_some() {
                last += 1;
            }
            f.write_str(separator)?;
            separator = ",";
            match last == first {
                true => write!(f, "{first}")?,
                false => write!(f, "{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lists_are_read_and_written_as_linux_does() {
        let check = |text: &str, expected: Option<&str>| {
            let read = CpuSet::parse(text).ok().map(|set| set.to_string());
            assert_eq!(read.as_deref(), expected, "{text}");
        };
        check("", Some(""));
        check("0-3,8", Some("0-3,8"));
        check("8, 0,1,2-3,", Some("0-3,8"));
        check("63-65", Some("63-65"));
        check("3-1", None);
        check("a", None);
        check("-1", None);
        check("0-4294967295", None);
    }

    proptest! {
        #[test]
        fn sets_are_sets(one in prop::collection::btree_set(0..200_u32, 0..40),
                         two in prop::collection::btree_set(0..200_u32, 0..40)) {
            let set = |cpus: &BTreeSet<u32>| cpus.iter().copied().collect::<CpuSet>();
            let (a, b) = (set(&one), set(&two));
            prop_assert_eq!(a.len(), one.len());
            prop_assert_eq!(a.iter().collect::<BTreeSet<_>>(), one.clone());
            prop_assert_eq!(CpuSet::parse(&a.to_string()), Ok(a.clone()));
            prop_assert_eq!(a.and(&b), set(&(&one | &two)));
            prop_assert_eq!(a.without(&b), set(&(&one - &two)));
            prop_assert_eq!(a.among(&b), set(&(&one & &two)));
            prop_assert_eq!(a.count_among(&b), (&one & &two).len());
            let mut less = a.clone();
            one.iter().for_each(|cpu| less.remove(*cpu));
            prop_assert_eq!(less, CpuSet::new());
            prop_assert!(one.iter().all(|cpu| a.contains(*cpu)));
        }
    }

    #[test]
    fn a_list_that_names_all_again_and_again_is_refused() {
        let list = |times: usize| vec!["0-16383"; times].join(",");
        assert_eq!(CpuSet::parse(&list(4)).map(|set| set.len()), Ok(16_384));
        assert!(CpuSet::parse(&list(5)).is_err());
    }
}
