use proptest::prelude::*;

use super::Strategy::{LeastAllocated as Least, MostAllocated as Most};
use super::*;

/// Sockets, NUMA nodes of a socket, cores of a NUMA node and threads of a core, numbered in a row.
fn machine(sockets: u32, numas: u32, cores: u32, threads: u32) -> CpuTopology {
    let all = sockets * numas * cores * threads;
    CpuTopology::new((0..all).map(|id| Cpu {
        id,
        core: id / threads,
        numa: id / (threads * cores),
        socket: id / (threads * cores * numas),
    }))
}

fn set(text: &str) -> CpuSet {
    CpuSet::parse(text).unwrap()
}

const FULL: Option<Binding> = Some(Binding::FullCores);
const SPREAD: Option<Binding> = Some(Binding::SpreadByCores);

fn held(cpus: &str, exclusive: Exclusive) -> Held {
    let mut held = Held::default();
    held.hold(&set(cpus), exclusive);
    held
}

fn want(count: usize, binding: Option<Binding>, strategy: super::Strategy) -> Want {
    Want { count, binding, strategy, ..Want::default() }
}

#[track_caller]
fn check(machine: &CpuTopology, taken: &str, want: &Want, expected: &str) {
    let held = held(taken, Exclusive::None);
    assert_eq!(take(machine, &held, want), Ok(set(expected)), "{want:?}");
}

#[test]
fn s10_30_the_first_free_core_is_taken() {
    let machine = machine(1, 1, 4, 2);
    check(&machine, "", &want(2, FULL, Least), "0-1");
    check(&machine, "0-1", &want(2, FULL, Least), "2-3");
}

#[test]
fn s10_31_a_socket_that_has_room_for_all_goes_first() {
    check(&machine(2, 1, 4, 2), "0-1", &want(8, FULL, Least), "8-15");
}

#[test]
fn s10_32_what_no_socket_has_room_for_is_taken_of_several() {
    check(&machine(2, 1, 4, 2), "", &want(12, FULL, Least), "0-11");
}

#[test]
fn s10_33_of_equal_numa_nodes_the_socket_decides() {
    let machine = machine(2, 2, 4, 2);
    check(&machine, "0-5,16-23", &want(6, FULL, Most), "24-29");
    check(&machine, "0-5,16-23", &want(6, FULL, Least), "8-13");
}

#[test]
fn s10_34_whole_sockets_are_taken_first() {
    for strategy in [Most, Least] {
        let want = want(12, FULL, strategy);
        check(&machine(2, 2, 4, 2), "0-5,16-23", &want, "6-15,24-25");
    }
}

#[test]
fn s10_35_the_fuller_or_the_emptier_numa_node_goes_first() {
    let machine = machine(2, 2, 4, 2);
    check(&machine, "0-3,8-11", &want(4, FULL, Most), "4-7");
    check(&machine, "0-3,8-11", &want(4, FULL, Least), "16-19");
}

#[test]
fn s10_36_whole_cores_of_a_socket_go_before_parts_of_a_numa_node() {
    let machine = machine(2, 2, 2, 2);
    check(&machine, "0,2,4,8,12", &want(4, FULL, Least), "10,11,14,15");
}

#[test]
fn s10_37_where_whole_cores_run_out_threads_are_taken() {
    let machine = machine(2, 2, 2, 2);
    check(&machine, "0,2,4,8,10,12", &want(6, FULL, Most), "5,6,7,13,14,15");
    check(&machine, "0,2,4,8,10,12", &want(6, FULL, Least), "1,3,6,7,14,15");
}

#[test]
fn s10_38_one_thread_of_each_core() {
    check(&machine(1, 1, 4, 2), "", &want(4, SPREAD, Least), "0,2,4,6");
}

#[test]
fn s10_39_one_thread_of_each_core_that_has_one() {
    let machine = machine(2, 1, 4, 2);
    check(&machine, "0,2", &want(4, SPREAD, Most), "1,3,4,6");
    check(&machine, "0,2", &want(4, SPREAD, Least), "8,10,12,14");
    // Threads of cores that are begun already go by their numbers as all others do.
    check(&machine, "0,2", &want(3, SPREAD, Most), "1,3,4");
}

#[test]
fn s10_40_then_a_second_one() {
    let machine = machine(2, 1, 4, 2);
    check(&machine, "0,2", &want(6, SPREAD, Most), "1,3-7");
    check(&machine, "0,2", &want(6, SPREAD, Least), "8-12,14");
}

#[test]
fn s10_41_cores_of_others_that_want_theirs_for_themselves_are_left_alone() {
    let spread = want(4, SPREAD, Most);
    let alone = Want { exclusive: Exclusive::Core, ..spread.clone() };
    let held = held("0,2", Exclusive::Core);
    let taken = |machine: &CpuTopology, want: &Want| take(machine, &held, want).unwrap();
    assert_eq!(taken(&machine(2, 1, 4, 2), &alone), set("8,10,12,14"));
    assert_eq!(taken(&machine(2, 1, 8, 2), &alone), set("4,6,8,10"));
    assert_eq!(taken(&machine(2, 1, 4, 2), &spread), set("1,3,4,6"));
}

#[test]
fn s10_42_one_may_share_a_core_with_oneself() {
    let want = Want { exclusive: Exclusive::Core, ..want(10, SPREAD, Most) };
    check(&machine(2, 1, 4, 2), "", &want, "0-4,6,8,10,12,14");
}

#[test]
fn s10_43_so_are_numa_nodes() {
    let machine = machine(2, 1, 4, 2);
    let held = held("0,2", Exclusive::Numa);
    let taken = |binding, exclusive| {
        let want = Want { exclusive, ..want(4, binding, Most) };
        take(&machine, &held, &want).unwrap()
    };
    assert_eq!(taken(SPREAD, Exclusive::Numa), set("8,10,12,14"));
    assert_eq!(taken(FULL, Exclusive::Numa), set("8-11"));
    assert_eq!(taken(FULL, Exclusive::None), set("4-7"));
}

#[test]
fn s10_44_where_two_may_hold_a_cpu_those_that_nobody_holds_go_first() {
    let (machine, mut held) = (machine(1, 1, 4, 2), Held::default());
    for (count, expected) in [(4, "0-3"), (5, "0,4-7"), (4, "2-5")] {
        let want = Want { times_max: Some(2), ..want(count, FULL, Least) };
        let taken = take(&machine, &held, &want).unwrap();
        assert_eq!(taken, set(expected));
        held.hold(&taken, Exclusive::None);
    }
}

#[test]
fn s10_45_some_are_taken_before_others() {
    let want = Want { preferred: set("11,13,15,17"), ..want(2, SPREAD, Least) };
    check(&machine(2, 1, 16, 2), "", &want, "11,13");
}

#[test]
fn no_more_are_taken_than_are_asked_for() {
    // Upstream takes one too many here.
    let machine = machine(3, 1, 4, 2);
    let taken = take(&machine, &held("0,8,16", Exclusive::None), &want(9, FULL, Least)).unwrap();
    assert_eq!(taken.len(), 9);
}

#[test]
fn what_must_be_so_is_so_or_not_at_all() {
    let machine = machine(1, 1, 4, 2);
    let must = |count, binding| Want { is_required: true, ..want(count, binding, Least) };
    let held = held("0,2", Exclusive::None);
    assert_eq!(take(&machine, &held, &must(4, FULL)), Ok(set("4-7")));
    assert_eq!(take(&machine, &held, &must(6, FULL)), Err(NotTaken::TooFew));
    let odd = Err(NotTaken::Unbindable(Binding::FullCores));
    assert_eq!(take(&machine, &held, &must(3, FULL)), odd);
    assert_eq!(take(&machine, &held, &must(4, SPREAD)), Ok(set("1,3,4,6")));
    assert_eq!(take(&machine, &held, &must(5, SPREAD)), Err(NotTaken::TooFew));
}

proptest! {
    /// As many as are asked for, none that is held or reserved, and always where there are enough.
    #[test]
    fn what_is_taken_was_free(
        layout in (1..4_u32, 1..3_u32, 1..5_u32, 1..3_u32),
        taken in prop::collection::btree_set(0..48_u32, 0..30),
        reserved in prop::collection::btree_set(0..48_u32, 0..6),
        count in 0..50_usize,
        binding in prop::sample::select(vec![None, FULL, SPREAD]),
        strategy in prop::sample::select(vec![Most, Least]),
        exclusive in prop::sample::select(vec![Exclusive::None, Exclusive::Core, Exclusive::Numa]),
        theirs in prop::sample::select(vec![Exclusive::None, Exclusive::Core, Exclusive::Numa]),
    ) {
        let machine = machine(layout.0, layout.1, layout.2, layout.3);
        let mut held = Held { reserved: reserved.iter().copied().collect(), ..Held::default() };
        held.hold(&taken.iter().copied().collect(), theirs);
        let want = Want { count, binding, strategy, exclusive, ..Want::default() };
        let free = machine.all().without(&held.reserved);
        let free = free.without(&taken.iter().copied().collect());
        match take(&machine, &held, &want) {
            Ok(own) => {
                prop_assert_eq!(own.len(), count);
                prop_assert_eq!(own.among(&free), own);
            }
            Err(error) => {
                prop_assert_eq!(error, NotTaken::TooFew);
                prop_assert!(free.len() < count);
            }
        }
    }
}
