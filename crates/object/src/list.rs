//! Lists that stand for maps.

use std::cmp::Ordering;

/// Brings a list into this order; of several that are equal by it, the last one counts.
pub fn sort<T>(all: &mut Vec<T>, order: impl Fn(&T, &T) -> Ordering) {
    if all.is_sorted_by(|one, next| order(one, next).is_lt()) {
        return;
    }
    all.sort_by(&order);
    all.dedup_by(|later, kept| {
        let is_same = order(later, kept).is_eq();
        if is_same {
            std::mem::swap(later, kept);
        }
        is_same
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_with_one_name_the_last_counts() {
        let check = |all: &[(char, u8)], expected: &[(char, u8)]| {
            let mut all = all.to_vec();
            sort(&mut all, |(one, _), (other, _)| one.cmp(other));
            assert_eq!(all, expected);
        };
        check(&[], &[]);
        check(&[('a', 2), ('b', 1)], &[('a', 2), ('b', 1)]);
        check(&[('b', 1), ('a', 2)], &[('a', 2), ('b', 1)]);
        check(&[('a', 1), ('a', 2)], &[('a', 2)]);
        check(&[('b', 9), ('a', 3), ('b', 1), ('a', 1), ('a', 2)], &[('a', 2), ('b', 1)]);
    }
}
