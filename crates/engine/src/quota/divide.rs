//! How much of one resource each of several quotas may use, side by side below one parent.
//!
//! Everybody gets what he is sure of first. What is left goes to those who ask for more, by weight, and
//! what somebody does not need goes around again. Amounts are whole numbers and every unit that can be
//! given is given: what a division leaves over goes to the largest remainders, so that the sum is exact
//! and no unit vanishes.

use std::cmp::Reverse;

/// One of those among whom a resource is divided. No amount is below zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Member {
    /// Its place by name among all of them: of equal remainders the lowest place gets the unit.
    pub rank: usize,
    /// What it asks for.
    pub request: i64,
    /// What it is sure of.
    pub floor: i64,
    /// Its part of what is left, in proportion to the others.
    pub weight: i64,
    /// Whether others get what it is sure of and does not ask for.
    pub is_lendable: bool,
}

impl Member {
    /// What it gets before anything is divided.
    fn base(&self) -> i64 {
        match self.is_lendable {
            true => self.request.min(self.floor),
            false => self.floor,
        }
    }

    /// Whether it takes part in what is left.
    fn is_hungry(&self) -> bool {
        self.request > self.floor && self.weight > 0
    }
}

/// Divides what there is; the result has one amount for each member, in their order. Where members are
/// sure of more than there is, they get it all the same: it is for [`scale`](super::scale) to see to that.
#[must_use]
pub fn divide(capacity: i64, members: &[Member]) -> Vec<i64> {
    let mut runtimes: Vec<i64> = members.iter().map(Member::base).collect();
    let given: i128 = runtimes.iter().copied().map(i128::from).sum();
    // What members have is not below zero, so that what is left fits as the capacity does.
    let mut rest = u64::try_from(i128::from(capacity) - given).unwrap_or(0);
    let hungry = members.iter().enumerate().filter(|(_, member)| member.is_hungry());
    let mut hungry: Vec<Helping> = hungry.map(|(at, member)| Helping::of(at, member)).collect();
    // Each round but the last satisfies somebody, so that there are no more rounds than members.
    while rest > 0 && !hungry.is_empty() {
        help(rest, &mut hungry);
        rest = 0;
        hungry.retain(|helping| {
            let (runtime, request) = (&mut runtimes[helping.at], members[helping.at].request);
            let missing = u64::try_from(request - *runtime).unwrap_or(0);
            *runtime =
                if helping.share < missing { *runtime + signed(helping.share) } else { request };
            rest += helping.share.saturating_sub(missing);
            helping.share < missing
        });
    }
    runtimes
}

/// What a member gets of one round.
struct Helping {
    at: usize,
    rank: usize,
    weight: u64,
    share: u64,
    remainder: u128,
}

impl Helping {
    fn of(at: usize, member: &Member) -> Self {
        let weight = member.weight.unsigned_abs();
        Self { at, rank: member.rank, weight, share: 0, remainder: 0 }
    }
}

/// Divides so much by weight, exactly.
fn help(rest: u64, hungry: &mut [Helping]) {
    let weights: u128 = hungry.iter().map(|helping| u128::from(helping.weight)).sum();
    let mut left = rest;
    for helping in hungry.iter_mut() {
        // Both are below 2^64, and a share is no more than what is divided.
        let product = u128::from(helping.weight) * u128::from(rest);
        helping.share = u64::try_from(product / weights).unwrap_or(rest);
        helping.remainder = product % weights;
        left -= helping.share;
    }
    // Fewer units are left than there are members.
    let left = usize::try_from(left).unwrap_or(hungry.len());
    if left > 0 {
        let first = |helping: &Helping| (Reverse(helping.remainder), helping.rank);
        hungry.select_nth_unstable_by_key(left - 1, first);
        hungry[..left].iter_mut().for_each(|helping| helping.share += 1);
    }
}

/// A share, which is less than what somebody asks for.
fn signed(share: u64) -> i64 {
    i64::try_from(share).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// The same, so slowly that nobody can get it wrong: unit after unit goes to who is farthest below
    /// his part of the round.
    fn reference(capacity: i64, members: &[Member]) -> Vec<i64> {
        let mut has: Vec<i64> = members
            .iter()
            .map(|own| match own.is_lendable && own.request <= own.floor {
                true => own.request,
                false => own.floor,
            })
            .collect();
        loop {
            let rest = capacity - has.iter().sum::<i64>();
            let is_in = |at: usize| members[at].weight > 0 && members[at].request > has[at];
            let taking: Vec<usize> = (0..members.len()).filter(|at| is_in(*at)).collect();
            let weights: i64 = taking.iter().map(|at| members[*at].weight).sum();
            if rest <= 0 || taking.is_empty() {
                return has;
            }
            let mut round = vec![0; members.len()];
            for _ in 0..rest {
                let lack = |at: usize| members[at].weight * rest - round[at] * weights;
                let next = taking.iter().copied();
                let next = next.max_by_key(|at| (lack(*at), Reverse(members[*at].rank)));
                round[next.expect("somebody takes")] += 1;
            }
            for at in taking {
                has[at] = (has[at] + round[at]).min(members[at].request);
            }
        }
    }

    /// Members by weight, request, floor and whether they lend; they are named in this order.
    fn members(rows: &[(i64, i64, i64, bool)]) -> Vec<Member> {
        let member = |(rank, &(weight, request, floor, is_lendable))| Member {
            rank,
            request,
            floor,
            weight,
            is_lendable,
        };
        rows.iter().enumerate().map(member).collect()
    }

    fn check(capacity: i64, rows: &[(i64, i64, i64, bool)], expected: &[i64]) {
        let members = members(rows);
        assert_eq!(divide(capacity, &members), expected, "{capacity} {rows:?}");
        if capacity < 1_000 {
            assert_eq!(reference(capacity, &members), expected, "{capacity} {rows:?}");
        }
    }

    #[test]
    fn s12_q1_what_is_left_goes_by_weight_to_those_who_ask_for_more() {
        let of_n4 = |weight, floor| {
            [(40, 5, 10, true), (60, 20, 15, true), (50, 40, 20, true), (weight, 70, floor, true)]
        };
        check(100, &of_n4(80, 15), &[5, 20, 35, 40]);
        // Who has no weight gets no more than he is sure of, and some of it stays idle.
        check(100, &of_n4(0, 15), &[5, 20, 40, 15]);
        // What is in use is not pulled back.
        check(100, &of_n4(0, 45), &[5, 20, 30, 45]);
    }

    #[test]
    fn s12_q16_no_unit_vanishes() {
        let mut rows = vec![(1, 100, 8, true); 8];
        rows.extend([(1, 100, 7, true); 2]);
        rows.push((1, 0, 3, true));
        check(81, &rows, &[9, 9, 9, 8, 8, 8, 8, 8, 7, 7, 0]);
    }

    #[test]
    fn edges() {
        check(100, &[], &[]);
        check(0, &[(1, 5, 0, true)], &[0]);
        check(-7, &[(1, 5, 0, true)], &[0]);
        // What members are sure of they get, whether it is there or not.
        check(10, &[(1, 50, 20, true), (1, 0, 20, false)], &[20, 20]);
        check(10, &[(0, 50, 1, true), (0, 50, 1, true)], &[1, 1]);
        let most = i64::MAX;
        check(most, &[(most, most, 0, true), (most, most, 0, true)], &[most / 2 + 1, most / 2]);
        check(most, &[(most, most, most, true), (1, most, most, false)], &[most, most]);
        check(most, &[(most, 7, 0, true), (1, most, 0, true)], &[7, most - 7]);
    }

    fn any_members(most: i64) -> impl Strategy<Value = Vec<Member>> {
        let amounts = (0..=most, 0..=most, 0..=most, any::<bool>());
        vec(amounts, 0..9).prop_map(|rows| members(&rows))
    }

    proptest! {
        #[test]
        fn it_is_what_the_reference_says(capacity in -5..150_i64, own in any_members(40)) {
            prop_assert_eq!(divide(capacity, &own), reference(capacity, &own));
        }

        #[test]
        fn the_order_in_which_members_are_told_does_not_matter(
            capacity in 0..200_i64,
            own in any_members(60),
            keys in vec(any::<u32>(), 9),
        ) {
            let expected = divide(capacity, &own);
            let mut mixed: Vec<Member> = own.clone();
            mixed.sort_by_key(|member| keys[member.rank]);
            let got = divide(capacity, &mixed);
            for (member, got) in mixed.iter().zip(got) {
                prop_assert_eq!(got, expected[member.rank]);
            }
        }

        #[test]
        fn nobody_gets_more_than_he_asks_for_or_keeps_nor_less_than_he_is_sure_of(
            capacity in 0..=i64::MAX,
            own in any_members(i64::MAX),
        ) {
            for (member, got) in own.iter().zip(divide(capacity, &own)) {
                let kept = if member.is_lendable { 0 } else { member.floor };
                prop_assert!(got <= member.request.max(kept));
                prop_assert!(got >= member.request.min(member.floor));
            }
        }

        #[test]
        fn no_more_is_given_than_there_is_and_nothing_is_left_that_somebody_could_have(
            capacity in 0..=i64::MAX,
            own in any_members(i64::MAX / 9),
        ) {
            let got = divide(capacity, &own);
            let sum = |amounts: &[i64]| amounts.iter().copied().map(i128::from).sum::<i128>();
            let floors: Vec<i64> = own.iter().map(|member| member.floor).collect();
            if sum(&floors) <= i128::from(capacity) {
                prop_assert!(sum(&got) <= i128::from(capacity));
            }
            let is_open = |(member, got): (&Member, &i64)| member.is_hungry() && *got < member.request;
            if own.iter().zip(&got).any(is_open) {
                prop_assert!(sum(&got) >= i128::from(capacity));
            }
        }
    }
}
