//! Who has to go where a quota uses more than it may.

use super::ByResource;
use crate::needs::Amounts;

/// Whether a pod can go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tenure {
    /// It can.
    Movable,
    /// It cannot, or is not to.
    Fixed,
    /// It is going already.
    Leaving,
}

/// A pod that uses a quota.
#[derive(Debug, Clone, Copy)]
pub struct Holder<'a> {
    /// How much.
    pub amounts: &'a Amounts,
    /// Whether it can go.
    pub tenure: Tenure,
}

/// Which of those who use a quota have to go until it uses no more than it may, given from the least to the
/// most important: by their places, in the order in which they are to go. A resource counts that is both
/// used and bounded. Where all of them are not enough, all go that can.
#[must_use]
pub fn revoke(used: &ByResource, may_use: &ByResource, holders: &[Holder<'_>]) -> Vec<usize> {
    let bounded = used.iter().filter_map(|(name, own)| Some((name, *own, *may_use.get(name)?)));
    let mut balance = Balance(
        bounded.map(|(name, own, most)| (&**name, i128::from(own) - i128::from(most))).collect(),
    );
    for own in holders.iter().filter(|own| own.tenure == Tenure::Leaving) {
        balance.add(own.amounts, -1);
    }
    let mut taken = Vec::new();
    for (place, own) in holders.iter().enumerate() {
        if balance.is_kept() {
            break;
        }
        if own.tenure == Tenure::Movable {
            balance.add(own.amounts, -1);
            taken.push(place);
        }
    }
    if !balance.is_kept() {
        return taken;
    }
    // Whoever of them fits after all stays, the most important first.
    let goes = |place: &usize| {
        balance.add(holders[*place].amounts, 1);
        let goes = !balance.is_kept();
        if goes {
            balance.add(holders[*place].amounts, -1);
        }
        goes
    };
    taken.into_iter().rev().filter(goes).collect()
}

/// By how much each resource is used beyond what may be.
struct Balance<'a>(Vec<(&'a str, i128)>);

impl Balance<'_> {
    fn add(&mut self, amounts: &Amounts, sign: i128) {
        for (name, beyond) in &mut self.0 {
            *beyond += sign * i128::from(amounts.of(name));
        }
    }

    /// Whether nothing is used beyond what may be.
    fn is_kept(&self) -> bool {
        self.0.iter().all(|(_, beyond)| *beyond <= 0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn amounts(cpu_millis: i64, memory_bytes: i64) -> Amounts {
        Amounts { cpu_millis, memory_bytes, ..Amounts::default() }
    }

    fn list(cpu: i64, memory: i64) -> ByResource {
        [("cpu".into(), cpu), ("memory".into(), memory)].into()
    }

    /// Who goes, of pods that are given from the least to the most important.
    fn check(pods: &[(i64, i64, Tenure)], may_use: &ByResource, expected: &[usize]) {
        let own: Vec<Amounts> =
            pods.iter().map(|(cpu, memory, _)| amounts(*cpu, *memory)).collect();
        let holders: Vec<Holder<'_>> =
            own.iter().zip(pods).map(|(amounts, pod)| Holder { amounts, tenure: pod.2 }).collect();
        let used = list(pods.iter().map(|pod| pod.0).sum(), pods.iter().map(|pod| pod.1).sum());
        assert_eq!(revoke(&used, may_use, &holders), expected, "{pods:?} {may_use:?}");
    }

    /// Pods of priorities 7, 8, 9 and 10.
    const FOUR: [(i64, i64, Tenure); 4] = [
        (40, 0, Tenure::Movable),
        (20, 0, Tenure::Movable),
        (10, 1, Tenure::Movable),
        (20, 0, Tenure::Movable),
    ];

    #[test]
    fn s12_a12_those_go_who_do_not_fit_and_whoever_fits_after_all_stays() {
        check(&FOUR, &list(50, 0), &[2, 0]);
        check(&FOUR, &list(90, 1), &[]);
        check(&FOUR, &list(90, 0), &[2]);
    }

    #[test]
    fn s12_a13_where_nobody_is_enough_all_go() {
        check(&FOUR, &list(-1, 0), &[0, 1, 2, 3]);
    }

    #[test]
    fn who_never_makes_room_stays_and_who_is_going_goes_once() {
        let mut pods = FOUR;
        pods[0].2 = Tenure::Fixed;
        check(&pods, &list(70, 1), &[1]);
        pods[0].2 = Tenure::Leaving;
        check(&pods, &list(50, 1), &[]);
        check(&pods, &list(30, 1), &[1]);
    }

    #[test]
    fn a_resource_counts_that_is_both_used_and_bounded() {
        check(&FOUR, &[("memory".into(), 1)].into(), &[]);
        check(&FOUR, &[("example.com/chip".into(), 0)].into(), &[]);
    }

    fn pod() -> impl Strategy<Value = (i64, i64, Tenure)> {
        let tenure = prop_oneof![Just(Tenure::Movable), Just(Tenure::Fixed), Just(Tenure::Leaving)];
        (0..9_i64, 0..3_i64, tenure)
    }

    proptest! {
        #[test]
        fn no_more_go_than_have_to_and_nobody_who_cannot(
            pods in vec(pod(), 0..8), cpu in 0..30_i64, memory in 0..9_i64,
        ) {
            let own: Vec<Amounts> = pods.iter().map(|pod| amounts(pod.0, pod.1)).collect();
            let holders: Vec<Holder<'_>> = own
                .iter()
                .zip(&pods)
                .map(|(amounts, pod)| Holder { amounts, tenure: pod.2 })
                .collect();
            let sum = |goes: &dyn Fn(usize) -> bool| {
                let left = pods.iter().enumerate().filter(|(place, pod)| {
                    pod.2 != Tenure::Leaving && !goes(*place)
                });
                left.fold((0, 0), |(cpu, memory), (_, pod)| (cpu + pod.0, memory + pod.1))
            };
            let used = list(pods.iter().map(|pod| pod.0).sum(), pods.iter().map(|pod| pod.1).sum());
            let gone = revoke(&used, &list(cpu, memory), &holders);
            prop_assert!(gone.iter().all(|place| pods[*place].2 == Tenure::Movable));
            let fits = |(own, bytes): (i64, i64)| own <= cpu && bytes <= memory;
            let all_fit = fits(sum(&|place| pods[place].2 == Tenure::Movable));
            prop_assert_eq!(fits(sum(&|place| gone.contains(&place))), all_fit);
            if all_fit {
                for stays in &gone {
                    let without = |place: usize| place != *stays && gone.contains(&place);
                    prop_assert!(!fits(sum(&without)), "{} need not go", stays);
                }
            }
        }
    }
}
