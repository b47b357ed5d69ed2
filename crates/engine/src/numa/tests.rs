use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

use super::*;

const GIB: i64 = 1 << 30;

/// A NUMA node with so many CPUs and GiB of memory, of which so many CPUs are used.
fn zone(id: u32, cpus: i64, memory: i64, used: i64) -> Zone {
    let room = |total: i64, free: i64| Some(Room { total, free });
    Zone {
        id,
        amounts: vec![room(cpus * 1000, (cpus - used) * 1000), room(memory * GIB, memory * GIB)],
        used: Use::Idle,
    }
}

fn question(policy: Policy, strategy: Strategy, cpus: i64, memory: i64) -> Question<'static> {
    let want = |resource, amount| Want { resource, amount, grain: 1, weight: 1 };
    let wants = vec![want("cpu", cpus), want("memory", memory * GIB)];
    Question { wants, policy, is_apart: false, strategy }
}

/// All sets of so many of the places below `count`, in order.
fn combinations(count: usize, size: usize) -> Vec<Places> {
    let mut set: Places = (0..size).collect();
    let mut all = Vec::new();
    let mut goes_on = size <= count;
    while goes_on {
        all.push(set.clone());
        goes_on = sets::advance(&mut set, count);
    }
    all
}

fn placed(zones: &[Zone], question: &Question<'_>) -> Result<Vec<(u32, i64)>, String> {
    let pieces = place(zones, question).map_err(|why| why.to_string())?;
    Ok(pieces.into_iter().map(|piece| (piece.zone, piece.amounts[0])).collect())
}

#[test]
fn s10_53_the_fuller_or_the_emptier_numa_node() {
    let check = |used: [i64; 2], strategy: Strategy, expected: u32| {
        let zones = [zone(0, 52, 128, used[0]), zone(1, 52, 128, used[1])];
        let own = placed(&zones, &question(Policy::Single, strategy, 4_000, 40));
        assert_eq!(own, Ok(vec![(expected, 4_000)]), "{used:?} {strategy:?}");
    };
    check([4, 40], Strategy::MostAllocated, 1);
    check([4, 40], Strategy::LeastAllocated, 0);
    check([4, 52], Strategy::MostAllocated, 0);
    check([4, 52], Strategy::LeastAllocated, 0);
}

#[test]
fn s10_54_of_those_that_have_enough() {
    let zones: Vec<Zone> =
        [24, 23, 4, 8].into_iter().zip(0..).map(|(used, id)| zone(id, 26, 64, used)).collect();
    let own = |strategy| placed(&zones, &question(Policy::Restricted, strategy, 4_000, 40));
    assert_eq!(own(Strategy::MostAllocated), Ok(vec![(3, 4_000)]));
    assert_eq!(own(Strategy::LeastAllocated), Ok(vec![(2, 4_000)]));
}

#[test]
fn s10_57_what_is_spread_is_spread_evenly() {
    let zones = [zone(0, 2, 4, 0), zone(1, 2, 4, 0)];
    let own = placed(&zones, &question(Policy::Restricted, Strategy::LeastAllocated, 3_500, 1));
    assert_eq!(own, Ok(vec![(0, 1_750), (1, 1_750)]));
}

#[test]
fn who_has_too_little_is_named() {
    let zones = [zone(0, 2, 4, 0), zone(1, 2, 4, 0)];
    let check = |policy, cpus, memory, expected: &str| {
        let own = placed(&zones, &question(policy, Strategy::LeastAllocated, cpus, memory));
        assert_eq!(own, Err(expected.to_owned()));
    };
    check(Policy::Single, 3_000, 1, "Unsatisfied NUMA cpu");
    check(Policy::Single, 1_000, 5, "Unsatisfied NUMA memory");
    check(Policy::Restricted, 1_000, 9, "Unsatisfied NUMA memory");
    assert!(place(&[], &question(Policy::Single, Strategy::LeastAllocated, 1, 0)).is_err());
    // Who would do with less gets what there is.
    let own = placed(&zones, &question(Policy::BestEffort, Strategy::LeastAllocated, 9_000, 1));
    assert_eq!(own, Ok(vec![(0, 2_000), (1, 2_000)]));
}

#[test]
fn those_on_one_and_those_on_several_are_kept_apart() {
    let used = |one: Use, two: Use| {
        [Zone { used: one, ..zone(0, 4, 4, 0) }, Zone { used: two, ..zone(1, 4, 4, 0) }]
    };
    let apart = |cpus| Question {
        is_apart: true,
        ..question(Policy::Restricted, Strategy::LeastAllocated, cpus, 1)
    };
    assert_eq!(placed(&used(Use::Shared, Use::Single), &apart(2_000)), Ok(vec![(1, 2_000)]));
    assert_eq!(
        placed(&used(Use::Idle, Use::Single), &apart(6_000)),
        Err("Unaligned NUMA Hint".to_owned())
    );
    assert_eq!(
        placed(&used(Use::Idle, Use::Shared), &apart(6_000)),
        Ok(vec![(0, 3_000), (1, 3_000)])
    );
}

#[test]
fn a_machine_with_many_numa_nodes_is_not_searched_for_ever() {
    // Trying every set of 48 of which no two are alike would not end.
    let zones: Vec<Zone> = (0..48).map(|id| zone(id, 100, 4, i64::from(id))).collect();
    let mut most = 0;
    for cpus in [1_000, 150_000, 400_000, 3_000_000, 5_000_000] {
        for policy in [Policy::BestEffort, Policy::Restricted, Policy::Single] {
            let own = question(policy, Strategy::LeastAllocated, cpus, 1);
            let mut search = sets::Search::new(&zones, &own, (0..48).collect());
            search.find(sets::Enough::Best);
            most = most.max(search.scored());
        }
    }
    assert!((1_000..=sets::SETS_MAX).contains(&most), "{most}");
}

#[test]
fn sets_come_in_order_and_each_once() {
    assert_eq!(combinations(3, 2), [vec![0, 1], vec![0, 2], vec![1, 2]]);
    assert_eq!(combinations(2, 3), Vec::<Places>::new());
    assert_eq!(combinations(8, 4).len(), 70);
}

/// The pieces of the first of the best of the smallest sets that will do, found by trying every one.
fn by_trying_all(zones: &[Zone], question: &Question<'_>) -> Option<Vec<Piece>> {
    let usable: Places = (0..zones.len()).filter(|at| has_some(&zones[*at], question)).collect();
    let worth = |places: &Places| {
        let free: i64 = places.iter().filter_map(|at| Some(zones[*at].amounts[0]?.free)).sum();
        let total: i64 = places.iter().filter_map(|at| Some(zones[*at].amounts[0]?.total)).sum();
        let left = free - question.wants[0].amount;
        if total > 0 { left.max(0) * 100 / total } else { 0 }
    };
    let most = if question.policy == Policy::Single { 1 } else { usable.len() };
    (1..=most).find_map(|size| {
        let all = combinations(usable.len(), size).into_iter();
        let all = all.map(|set| set.into_iter().map(|at| usable[at]).collect::<Places>());
        let other = if size > 1 { Use::Single } else { Use::Shared };
        let is_apart = |places: &Places| {
            !question.is_apart || places.iter().all(|at| zones[*at].used != other)
        };
        let fits = |places: &Places| split(zones, places, &question.wants).missing.is_empty();
        let able: Vec<Places> = all.filter(|places| fits(places) && is_apart(places)).collect();
        let most = able.iter().map(&worth).max()?;
        let first = able.into_iter().find(|places| worth(places) == most)?;
        Some(split(zones, &first, &question.wants).pieces)
    })
}

#[test]
fn eight_numa_nodes_that_nobody_uses_are_tried_as_if_there_were_one_of_each_size() {
    let zones: Vec<Zone> = (0..8).map(|id| zone(id, 16, 64, 0)).collect();
    for cpus in 1..=128 {
        let own = question(Policy::Restricted, Strategy::LeastAllocated, cpus * 1_000, 1);
        let search = || sets::Search::new(&zones, &own, (0..8).collect());
        let (mut best, mut first) = (search(), search());
        let found = best.find(sets::Enough::Best);
        assert_eq!(found, Some((0..usize::try_from(cpus).unwrap().div_ceil(16)).collect()));
        assert_eq!(first.find(sets::Enough::First), found);
        assert_eq!((best.scored(), first.scored()), (1, 1), "{cpus}");
    }
}

proptest! {
    /// What is given is what was asked, no NUMA node gives what it does not have, and no smaller set
    /// would have done.
    #[test]
    fn nobody_gives_what_he_does_not_have(
        rooms in proptest::collection::vec((0..20_i64, 0..20_i64), 1..5),
        cpus in 1..60_i64,
        grain in 1..4_i64,
    ) {
        let zone = |(id, (total, used)): (u32, (i64, i64))| Zone {
            id,
            amounts: vec![Some(Room { total, free: (total - used).max(0) })],
            used: Use::Idle,
        };
        let zones: Vec<Zone> = (0..).zip(rooms).map(zone).collect();
        let want = Want { resource: "cpu", amount: cpus * grain, grain, weight: 1 };
        let question = Question {
            wants: vec![want],
            policy: Policy::Restricted,
            is_apart: false,
            strategy: Strategy::LeastAllocated,
        };
        let free = |id: u32| zones[id as usize].amounts[0].unwrap().free;
        let fits = |size: usize| combinations(zones.len(), size).into_iter().any(|places| {
            let whole = |place: &usize| free(zones[*place].id) / grain * grain;
            places.iter().all(|place| free(zones[*place].id) > 0)
                && places.iter().map(whole).sum::<i64>() >= cpus * grain
        });
        match place(&zones, &question) {
            Ok(pieces) => {
                let given: i64 = pieces.iter().map(|piece| piece.amounts[0]).sum();
                prop_assert_eq!(given, cpus * grain);
                for piece in &pieces {
                    prop_assert!(piece.amounts[0] <= free(piece.zone));
                    prop_assert_eq!(piece.amounts[0] % grain, 0);
                }
                prop_assert!((1..pieces.len()).all(|size| !fits(size)));
            }
            Err(_) => prop_assert!((1..=zones.len()).all(|size| !fits(size))),
        }
    }

    /// On up to eight NUMA nodes, whose sets are not all tried, nothing is missed by that.
    #[test]
    fn what_is_left_out_is_no_better_than_what_is_tried(
        rooms in proptest::collection::vec((1..4_i64, 0..4_i64, 0..3_usize), 1..9),
        (cpus, grain) in (1..20_i64, 1..3_i64),
        is_apart in proptest::bool::ANY,
        is_single in proptest::bool::ANY,
    ) {
        let uses = [Use::Idle, Use::Single, Use::Shared];
        let zone = |(id, (total, used, by)): (u32, (i64, i64, usize))| Zone {
            id,
            amounts: vec![Some(Room { total, free: (total - used).max(0) })],
            used: uses[by],
        };
        let zones: Vec<Zone> = (0..).zip(rooms).map(zone).collect();
        let question = Question {
            wants: vec![Want { resource: "cpu", amount: cpus, grain, weight: 1 }],
            policy: if is_single { Policy::Single } else { Policy::Restricted },
            is_apart,
            strategy: Strategy::LeastAllocated,
        };
        let expected = by_trying_all(&zones, &question);
        prop_assert_eq!(check(&zones, &question).is_ok(), expected.is_some());
        prop_assert_eq!(place(&zones, &question).ok(), expected);
    }
}
