//! What guarantees come to where there is less than they add up to.

/// The part of each guarantee that can be kept where there is only so much, for all of a level at once
/// and rounded down: guarantees shrink in proportion, and together they are never more than there is beside
/// those that are kept whatever there is, which add up to `kept`. Where there is enough they stay what they
/// are. No guarantee is below zero.
#[must_use]
pub fn scale(capacity: i64, kept: i64, mins: &[i64]) -> Vec<i64> {
    let sum: i128 = mins.iter().copied().map(i128::from).sum();
    let capacity = (i128::from(capacity) - i128::from(kept)).max(0);
    if sum <= capacity {
        return mins.to_vec();
    }
    // A part is no larger than the whole, which fits.
    let part = |min: &i64| i64::try_from(capacity * i128::from(*min) / sum).unwrap_or(*min);
    mins.iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn check(capacity: i64, mins: &[i64], expected: &[i64]) {
        assert_eq!(scale(capacity, 0, mins), expected, "{mins:?} of {capacity}");
    }

    #[test]
    fn guarantees_shrink_in_proportion_where_there_is_too_little() {
        check(200_000, &[100_000; 3], &[66_666; 3]);
        check(300_000, &[100_000; 3], &[100_000; 3]);
        check(10, &[0, 30, 10], &[0, 7, 2]);
        check(10, &[], &[]);
        check(0, &[0, 0], &[0, 0]);
        check(i64::MAX, &[i64::MAX; 3], &[i64::MAX / 3; 3]);
    }

    #[test]
    fn s12_q15_who_keeps_his_guarantee_leaves_less_for_the_others() {
        // A third quota keeps 50 whatever there is: what it keeps is not there for these two.
        for (capacity, expected) in [(100, [25, 25]), (50, [0, 0]), (40, [0, 0]), (150, [50, 50])] {
            assert_eq!(scale(capacity, 50, &[50, 50]), expected, "{capacity}");
        }
        assert_eq!(scale(149, 50, &[50, 50]), [49, 49], "one less than all of them are sure of");
        assert_eq!(scale(0, i64::MAX, &[i64::MAX]), [0]);
    }

    proptest! {
        #[test]
        fn together_they_are_never_more_than_there_is_and_nobody_gains(
            capacity in 0..=i64::MAX,
            kept in prop_oneof![Just(0), 0..=i64::MAX],
            mins in vec(0..=i64::MAX, 0..9),
        ) {
            let scaled = scale(capacity, kept, &mins);
            let capacity = capacity.saturating_sub(kept).max(0);
            prop_assert!(scaled.iter().zip(&mins).all(|(scaled, min)| (0..=*min).contains(scaled)));
            let sum: i128 = scaled.iter().copied().map(i128::from).sum();
            prop_assert!(sum <= i128::from(capacity));
            // What rounding takes away is less than one unit each.
            let whole: i128 = mins.iter().copied().map(i128::from).sum();
            let whole = whole.min(i128::from(capacity));
            prop_assert!(whole - sum < i128::try_from(mins.len()).unwrap().max(1));
        }
    }
}
