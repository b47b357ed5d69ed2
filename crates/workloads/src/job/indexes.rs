//! Sets of completion indexes, written as in `1,3-5`.

use std::fmt;

/// A set of indexes, as ranges in order that neither overlap nor touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Indexes(Vec<(u32, u32)>);

impl Indexes {
    /// Reads a list, of which only indexes below `end` are kept. What cannot be read is
    /// left out: the list is our own, and the server checks it.
    #[must_use]
    pub fn parse(text: &str, end: u32) -> Self {
        let mut indexes = Self::default();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) else {
                continue;
            };
            if first < end && first <= last {
                indexes.insert_range(first, last.min(end - 1));
            }
        }
        indexes
    }

    /// How many indexes there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.iter().map(|(first, last)| (last - first) as usize + 1).sum()
    }

    /// Whether an index is there.
    #[must_use]
    pub fn contains(&self, index: u32) -> bool {
        let after = self.0.partition_point(|(first, _)| *first <= index);
        after > 0 && self.0[after - 1].1 >= index
    }

    /// How many indexes are in both sets.
    #[must_use]
    pub fn common(&self, other: &Self) -> usize {
        let (mut left, mut right) = (self.0.as_slice(), other.0.as_slice());
        let mut common = 0;
        while let ([(first, last), ..], [(other_first, other_last), ..]) = (left, right) {
            let (from, to) = ((*first).max(*other_first), (*last).min(*other_last));
            common += if from <= to { (to - from) as usize + 1 } else { 0 };
            // What ends first meets nothing more.
            if last <= other_last {
                left = &left[1..];
            } else {
                right = &right[1..];
            }
        }
        common
    }

    /// Adds an index.
    pub fn insert(&mut self, index: u32) {
        self.insert_range(index, index);
    }

    fn insert_range(&mut self, first: u32, last: u32) {
        let from = self.0.partition_point(|(_, end)| end.saturating_add(1) < first);
        let to = self.0.partition_point(|(start, _)| *start <= last.saturating_add(1)).max(from);
        let touched = &self.0[from..to];
        let first = touched.first().map_or(first, |(start, _)| first.min(*start));
        let last = touched.last().map_or(last, |(_, end)| last.max(*end));
        self.0.splice(from..to, [(first, last)]);
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (first, last)) in self.0.iter().enumerate() {
            let comma = if n == 0 { "" } else { "," };
            write!(f, "{comma}{first}")?;
            match last - first {
                0 => {}
                // Two in a row are no range.
                1 => write!(f, ",{last}")?,
                _ => write!(f, "-{last}")?,
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
    fn lists_are_read_and_written_in_their_shortest_form() {
        let check = |text: &str, end, want: &str, len| {
            let indexes = Indexes::parse(text, end);
            assert_eq!((indexes.to_string().as_str(), indexes.len()), (want, len), "{text}");
        };
        check("", 5, "", 0);
        check("0", 5, "0", 1);
        check("0,1", 5, "0,1", 2);
        check("0,1,2", 5, "0-2", 3);
        check("1,3-5,9", 10, "1,3-5,9", 5);
        check("1,3-5,9", 5, "1,3,4", 3);
        check("3-5,4-7", 10, "3-7", 5);
        check("7,x,-,5-3,99999999999", 10, "7", 1);
        check("4294967295,0-4294967295", u32::MAX, "0-4294967294", u32::MAX as usize);
    }

    proptest! {
        #[test]
        fn a_set_is_what_was_put_in(list in prop::collection::vec(0..40u32, 0..40)) {
            let mut indexes = Indexes::default();
            list.iter().for_each(|index| indexes.insert(*index));
            let model: BTreeSet<u32> = list.into_iter().collect();
            prop_assert_eq!(indexes.len(), model.len());
            prop_assert_eq!(indexes.len() == 0, model.is_empty());
            for index in 0..41 {
                prop_assert_eq!(indexes.contains(index), model.contains(&index));
            }
            prop_assert_eq!(Indexes::parse(&indexes.to_string(), 40), indexes);
        }

        #[test]
        fn common_indexes_are_those_of_both(
            left in prop::collection::btree_set(0..40u32, 0..30),
            right in prop::collection::btree_set(0..40u32, 0..30),
        ) {
            let set = |list: &BTreeSet<u32>| {
                let mut indexes = Indexes::default();
                list.iter().for_each(|index| indexes.insert(*index));
                indexes
            };
            prop_assert_eq!(set(&left).common(&set(&right)), left.intersection(&right).count());
        }

        #[test]
        fn no_text_panics(text in "[0-9,-]{0,30}|\\PC*", end in any::<u32>()) {
            let indexes = Indexes::parse(&text, end);
            prop_assert!(indexes.len() <= end as usize);
        }
    }
}
