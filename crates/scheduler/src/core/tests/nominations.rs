//! Room that is made for pods, by us and by others.

use super::*;

/// A scheduler that leaves room to pods of others, or does not, on a node of which half is taken by a
/// pod that is on its way out.
fn half_full(heeds_others: bool) -> Core {
    let profiles = vec![(NAME.into(), Profile::kubernetes())];
    let settings = turn::Settings { heeds_others, ..turn::Settings::default() };
    let engine = Engine::new(settings, profiles, START);
    let core = Core::new(engine, [NAME.into()], Meters::register(&Metrics::new()));
    let mut core = begun(core, 4);
    let there = json!({ "metadata": { "deletionTimestamp": "1970-01-01T00:16:40Z" },
                        "spec": { "nodeName": "n1", "priority": 0 } });
    tell(&mut core, [pod("there", "2", there)]);
    core
}

/// A pod of a scheduler for which room is made on the node, where there is too little yet.
fn awaited(scheduler: &str, priority: i32) -> Message {
    let more = json!({ "spec": { "schedulerName": scheduler, "priority": priority },
                       "status": { "nominatedNodeName": "n1" } });
    pod("awaited", "4", more)
}

#[test]
fn s10_71_room_that_others_make_counts_for_pods_of_higher_priority_where_that_is_asked_for() {
    let check = |heeds_others: bool, scheduler: &str, priority: i32, is_bound: bool| {
        let mut core = half_full(heeds_others);
        tell(&mut core, [awaited(scheduler, priority)]);
        decisions(&mut core, START);
        tell(&mut core, [pod("p", "1", json!({ "spec": { "priority": 5 } }))]);
        let orders = decisions(&mut core, START);
        let bound = orders.iter().any(|order| matches!(order, Order::Bind(_)));
        assert_eq!(bound, is_bound, "{scheduler} {priority} {heeds_others}: {orders:?}");
    };
    for heeds_others in [false, true] {
        check(heeds_others, NAME, 4, true);
        check(heeds_others, NAME, 5, false);
        check(heeds_others, NAME, 6, false);
    }
    check(false, "another", 5, true);
    check(false, "another", 6, true);
    check(true, "another", 4, true);
    check(true, "another", 5, true);
    check(true, "another", 6, false);
}
