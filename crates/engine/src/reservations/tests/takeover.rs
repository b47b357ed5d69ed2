//! Reservations that take over pods that run.

use api::NodeMetric;
use api::reservation::{
    ALLOCATED, PRE_ALLOCATABLE_LABEL, PRE_ALLOCATABLE_PRIORITY, PRE_ALLOCATION_REQUIRED_LABEL,
};

use super::*;
use crate::fact::Version;
use crate::plugins::load_aware::LoadAware;

fn world(prefers_no_takeover: bool) -> World {
    world_of(prefers_no_takeover, |profile| profile)
}

fn world_of(prefers_no_takeover: bool, with: impl FnOnce(Profile) -> Profile) -> World {
    let plugin = Plugin {
        takeover_label: Some(PRE_ALLOCATABLE_LABEL.into()),
        prefers_no_takeover,
        ..Plugin::default()
    };
    let mut ledger = Ledger::default();
    let profile = with(Profile::kubernetes().filter(plugin).filter(NodeNuma::default()));
    let decider = Decider::new(profile, &mut ledger, 1);
    let mut world = World { ledger, decider };
    world.node("n1", &amounts("16", "32Gi"), json!({}));
    world
}

impl World {
    /// A pod on the node that any reservation may take over.
    fn candidate(&mut self, name: &str, requests: &Value, rank: &str) {
        self.candidate_on("n1", name, requests, rank);
    }

    fn candidate_on(&mut self, node: &str, name: &str, requests: &Value, rank: &str) {
        let more = json!({
            "metadata": { "labels": { "app": null, PRE_ALLOCATABLE_LABEL: "true" },
                          "annotations": { PRE_ALLOCATABLE_PRIORITY: rank } },
            "spec": { "nodeName": node } });
        self.pod(name, requests, more);
    }

    /// A pod that does not say that it was taken over, in this version of it.
    fn told_as_of(&mut self, version: &str, name: &str) {
        let more = json!({
            "metadata": { "labels": { "app": null, PRE_ALLOCATABLE_LABEL: "true" },
                          "resourceVersion": version },
            "spec": { "nodeName": "n1" } });
        self.pod(name, &amounts("2", "2Gi"), more);
    }

    fn takes_over(&mut self, asks: &Value, more: Value) -> String {
        self.reserve("r", asks, merged(taking_over(), more));
        self.said("r")
    }
}

/// A reservation that takes over as many pods as it needs, whosever they are.
fn taking_over() -> Value {
    json!({ "spec": { "preAllocation": true, "allocatePolicy": "Restricted",
                      "preAllocationPolicy": { "mode": "Cluster", "enableMultiple": true } } })
}

/// One of its own.
fn of_its_own() -> Value {
    json!({ "spec": { "preAllocationPolicy": null } })
}

#[test]
fn s11_43_only_what_is_restricted_takes_over_pods() {
    for policy in [json!("Aligned"), json!(null)] {
        let more = json!({ "spec": { "allocatePolicy": policy } });
        assert_eq!(
            world(false).takes_over(&amounts("1", "1Gi"), more),
            "0/1 nodes are available: node(s) reservation pre allocation is unsupported with \
             current attributes."
        );
    }
}

#[test]
fn s11_44_pods_of_others_are_taken_over_where_the_profile_lets_it() {
    let mut world = World::with("16", "32Gi");
    assert_eq!(
        world.takes_over(&amounts("1", "1Gi"), json!({})),
        "0/1 nodes are available: reservation requires cluster mode pre-allocation which is \
         disabled."
    );
    let mut world = World::with("16", "32Gi");
    assert_eq!(world.takes_over(&amounts("1", "1Gi"), of_its_own()), "n1 with ");
}

#[test]
fn s11_45_the_first_is_taken_over_though_there_is_room_unless_that_is_not_wanted() {
    let check = |prefers_no_takeover: bool, expected: &str, charged: (i64, i64, i64)| {
        let mut world = world(prefers_no_takeover);
        world.stranger("plain", "n1", &amounts("1", "2Gi"));
        world.candidate("c1", &amounts("2", "4Gi"), "10");
        world.candidate("c2", &amounts("2", "4Gi"), "20");
        assert_eq!(world.takes_over(&amounts("8", "16Gi"), json!({})), expected);
        assert_eq!(world.charged("n1"), charged);
    };
    check(false, "n1 with c2", (11_000, 22, 3));
    check(true, "n1 with ", (13_000, 26, 4));
}

#[test]
fn s11_46_one_that_is_too_big_is_passed_over() {
    let mut world = world(false);
    world.stranger("plain", "n1", &amounts("7", "14Gi"));
    world.candidate("a", &amounts("1", "2Gi"), "70");
    world.candidate("b", &amounts("5", "10Gi"), "90");
    world.candidate("c", &amounts("1", "2Gi"), "50");
    assert_eq!(world.takes_over(&amounts("4", "8Gi"), json!({})), "n1 with a, c");
    assert_eq!(world.charged("n1"), (16_000, 32, 4));
    let (here, elsewhere) = world.ledger.adopted(&Uid::new("r"));
    let names: Vec<&str> = here.iter().map(|pod| &*pod.name).collect();
    assert_eq!((names, elsewhere.len()), (vec!["a", "c"], 0));
}

#[test]
fn s11_47_s11_48_where_all_together_are_too_little_it_waits() {
    let mut world = world(false);
    world.stranger("plain", "n1", &amounts("7", "14Gi"));
    world.candidate("a", &amounts("1", "2Gi"), "70");
    world.candidate("b", &amounts("2", "10Gi"), "90");
    world.candidate("c", &amounts("4", "2Gi"), "50");
    assert_eq!(
        world.takes_over(&amounts("4", "8Gi"), json!({})),
        "0/1 nodes are available: 1 Insufficient cpu by node, 1 Insufficient memory by node."
    );
    let mut world = self::world(false);
    world.stranger("one", "n1", &amounts("8", "10Gi"));
    world.stranger("two", "n1", &amounts("2", "4Gi"));
    world.candidate("a", &amounts("1", "2Gi"), "100");
    world.candidate("b", &amounts("1", "2Gi"), "90");
    assert_eq!(
        world.takes_over(&amounts("8", "16Gi"), json!({})),
        "0/1 nodes are available: 1 Insufficient cpu by node."
    );
    assert_eq!(world.charged("n1"), (12_000, 18, 4), "nothing is left of the thought");
}

#[test]
fn s11_49_without_any_to_take_over_it_is_as_any_other() {
    let check = |prefers_no_takeover: bool, expected: &str| {
        let mut world = world(prefers_no_takeover);
        world.stranger("plain", "n1", &amounts("11", "1Gi"));
        assert_eq!(world.takes_over(&amounts("8", "1Gi"), json!({})), expected);
    };
    check(false, "0/1 nodes are available: 1 Insufficient cpu.");
    check(true, "0/1 nodes are available: 1 Insufficient cpu by node.");
}

#[test]
fn s11_50_one_that_must_take_over_a_pod_waits_for_one() {
    let required = json!({ "metadata": { "labels": { PRE_ALLOCATION_REQUIRED_LABEL: "true" } } });
    let mut world = world(true);
    let two = amounts("2", "1Gi");
    assert_eq!(
        world.takes_over(&two, required.clone()),
        "0/1 nodes are available: 1 node(s) no pod match reservation with pre allocation required."
    );
    world.candidate("big", &amounts("3", "1Gi"), "1");
    assert_eq!(
        world.said("r"),
        "0/1 nodes are available: 1 node(s) no pod(s) to meet the pre-allocation requirements."
    );
    world.candidate("small", &amounts("1", "1Gi"), "1");
    assert_eq!(world.said("r"), "n1 with small");
}

#[test]
fn s11_51_owners_without_labels_are_not_looked_for() {
    let mut world = world(false);
    let more = json!({ "spec": { "nodeName": "n1" } });
    world.pod("a", &amounts("1", "1Gi"), more);
    let owners = json!([{ "object": { "name": "a" } }]);
    let by_name = merged(of_its_own(), json!({ "spec": { "owners": owners } }));
    assert_eq!(world.takes_over(&amounts("2", "2Gi"), by_name), "n1 with ");
    world.ledger.disclaim(&Uid::new("r")).unwrap();
    assert_eq!(world.takes_over(&amounts("2", "2Gi"), of_its_own()), "n1 with a");
}

#[test]
fn of_single_ones_the_rank_counts_before_how_much_would_be_in_use() {
    let single = json!({ "spec": { "preAllocationPolicy": { "enableMultiple": false } } });
    let mut world = world(false);
    world.candidate("small", &amounts("1", "1Gi"), "2");
    world.candidate("large", &amounts("3", "3Gi"), "1");
    assert_eq!(world.takes_over(&amounts("4", "4Gi"), single.clone()), "n1 with small");
    let mut world = self::world(false);
    world.candidate("small", &amounts("1", "1Gi"), "nothing");
    world.candidate("large", &amounts("3", "3Gi"), "0");
    assert_eq!(world.takes_over(&amounts("4", "4Gi"), single.clone()), "n1 with large");
    // One that is inside another reservation is not taken over twice.
    let mut world = self::world(false);
    world.candidate("inside", &amounts("1", "1Gi"), "9");
    let uses = json!({ "name": "other", "uid": "other" }).to_string();
    let more = json!({
        "metadata": { "labels": { "app": null, PRE_ALLOCATABLE_LABEL: "true" },
                      "annotations": { ALLOCATED: uses } },
        "spec": { "nodeName": "n1" } });
    world.pod("inside", &amounts("1", "1Gi"), more);
    world.candidate("free", &amounts("1", "1Gi"), "1");
    assert_eq!(world.takes_over(&amounts("4", "4Gi"), single), "n1 with free");
}

/// On which of two nodes of eight CPUs a reservation of four takes over which pods, where pods that may
/// be taken over have so many CPUs and those who may not have so many more, and the reservation would
/// rather be on a certain one.
fn chosen(policy: Value, candidates: [&[&str]; 2], others: &str, rather: &str) -> String {
    let mut world = world(false);
    for (name, candidates) in ["n1", "n2"].into_iter().zip(candidates) {
        world.node(name, &amounts("8", "32Gi"), json!({ "name": name }));
        if !candidates.is_empty() {
            world.stranger(&format!("{name}-other"), name, &amounts(others, "1Gi"));
        }
        for (number, cpu) in candidates.iter().enumerate() {
            world.candidate_on(name, &format!("{name}-{number}"), &amounts(cpu, "1Gi"), "1");
        }
    }
    let key = json!([{ "key": "name", "operator": "In", "values": [rather] }]);
    let term = json!({ "weight": 100, "preference": { "matchExpressions": key } });
    let affinity = json!({ "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [term] } });
    let more = json!({ "spec": { "preAllocationPolicy": policy,
                                 "template": { "spec": { "affinity": affinity } } } });
    world.takes_over(&amounts("4", "8Gi"), more)
}

#[test]
fn of_several_nodes_the_one_where_the_fewest_are_taken_over_is_chosen() {
    let check = |candidates: [&[&str]; 2], rather: &str, expected: &str| {
        let many = json!({ "enableMultiple": true });
        assert_eq!(chosen(many, candidates, "4", rather), expected, "{candidates:?}");
    };
    check([&["2", "2"], &["4"]], "n1", "n2 with n2-0");
    check([&["4"], &["2", "2"]], "n2", "n1 with n1-0");
    check([&["4"], &[]], "n1", "n2 with ");
    // Of equally good ones, the scores of plugins decide.
    check([&["4"], &["4"]], "n1", "n1 with n1-0");
    check([&["4"], &["4"]], "n2", "n2 with n2-0");
}

#[test]
fn of_several_nodes_the_one_with_the_larger_pod_is_chosen_where_one_is_taken_over() {
    let check = |candidates: [&[&str]; 2], rather: &str, expected: &str| {
        let single = json!({ "enableMultiple": false });
        assert_eq!(chosen(single, candidates, "1", rather), expected, "{candidates:?}");
    };
    check([&["1"], &["3"]], "n1", "n2 with n2-0");
    check([&["3"], &["1"]], "n2", "n1 with n1-0");
    check([&["1"], &[]], "n2", "n1 with n1-0");
    check([&["2"], &["2"]], "n1", "n1 with n1-0");
    check([&["2"], &["2"]], "n2", "n2 with n2-0");
}

#[test]
fn pods_of_one_that_is_gone_are_taken_over_and_those_that_ignore_reservations_are_not() {
    let single = json!({ "spec": { "preAllocationPolicy": { "enableMultiple": false } } });
    let mut world = world(false);
    let used = |labels: Value| {
        let uses = json!({ "name": "gone", "uid": "gone" }).to_string();
        json!({ "metadata": { "labels": labels, "annotations": { ALLOCATED: uses } },
                "spec": { "nodeName": "n1" } })
    };
    let ignoring = json!({ "app": null, PRE_ALLOCATABLE_LABEL: "true", IGNORED_LABEL: "true" });
    world.pod("ignoring", &amounts("1", "1Gi"), used(ignoring));
    let left = json!({ "app": null, PRE_ALLOCATABLE_LABEL: "true" });
    world.pod("left", &amounts("1", "1Gi"), used(left));
    assert_eq!(world.takes_over(&amounts("2", "2Gi"), single), "n1 with left");
    assert_eq!(world.charged("n1"), (3_000, 3, 2));
}

#[test]
fn what_is_taken_over_is_told_by_the_pods_or_taken_back() {
    let mut world = world(false);
    world.candidate("a", &amounts("2", "2Gi"), "1");
    assert_eq!(world.takes_over(&amounts("4", "4Gi"), json!({})), "n1 with a");
    assert_eq!(world.charged("n1"), (4_000, 4, 1));
    // Before it is written, news of the pod changes nothing.
    world.candidate("a", &amounts("2", "2Gi"), "7");
    assert_eq!(world.charged("n1"), (4_000, 4, 1));
    world.ledger.disclaim(&Uid::new("r")).unwrap();
    assert_eq!(world.charged("n1"), (2_000, 2, 1), "it does not get the node after all");
    assert_eq!(world.said("r"), "n1 with a");
    // Once it is written, what the pod says from then on is how it is.
    world.ledger.adoption_is_written(&Uid::new("r"), &Uid::new("a"), Version(9));
    world.told_as_of("8", "a");
    assert_eq!(world.charged("n1"), (4_000, 4, 1));
    world.told_as_of("9", "a");
    assert_eq!(world.charged("n1"), (6_000, 6, 2));
    let uses = json!({ "name": "r", "uid": "r" }).to_string();
    let more = json!({
        "metadata": { "labels": { PRE_ALLOCATABLE_LABEL: "true" },
                      "annotations": { ALLOCATED: uses } },
        "spec": { "nodeName": "n1" } });
    world.pod("a", &amounts("2", "2Gi"), more);
    assert_eq!(world.charged("n1"), (4_000, 4, 1));
    // When it leaves, its part stays held.
    world.ledger.apply(Fact::PodGone(Uid::new("a")));
    assert_eq!(world.charged("n1"), (4_000, 4, 1));
    world.ledger.apply(Fact::PodGone(Uid::new("r")));
    assert_eq!(world.charged("n1"), (0, 0, 0));
    assert!(world.ledger.reservations.is_empty() && world.ledger.asks.is_empty());
}

#[test]
fn what_was_taken_over_before_a_restart_is_inside_already() {
    let mut world = world(false);
    world.node("n2", &amounts("64", "64Gi"), json!({}));
    world.stranger("plain", "n1", &amounts("13", "1Gi"));
    let uses = json!({ "name": "r", "uid": "r" }).to_string();
    let more = json!({
        "metadata": { "labels": { "app": null }, "annotations": { ALLOCATED: uses } },
        "spec": { "nodeName": "n1" } });
    world.pod("a", &amounts("3", "3Gi"), more);
    // It fits elsewhere, but there it takes nobody over.
    assert_eq!(world.takes_over(&amounts("3", "3Gi"), json!({})), "n1 with a");
    assert_eq!(world.charged("n1"), (16_000, 4, 2));
}

/// CPUs 0 to 7, two of each core.
fn layout(world: &mut World) {
    let detail: Vec<Value> =
        (0..8).map(|id| json!({ "id": id, "core": id / 2, "socket": 0, "node": 0 })).collect();
    let topology = json!({ "detail": detail }).to_string();
    let layout = json!({
        "metadata": { "name": "n1", "annotations": { CPU_TOPOLOGY: topology } },
        "topologyPolicies": [], "zones": [],
    });
    let layout: NodeResourceTopology = serde_json::from_value(layout).unwrap();
    world.ledger.apply(Fact::from(&layout));
}

#[test]
fn cpus_of_those_that_are_taken_over_are_among_its_own() {
    let bound = |cpus: &str| {
        json!({
            "metadata": {
                "labels": { "app": null, PRE_ALLOCATABLE_LABEL: "true",
                            "koordinator.sh/qosClass": "LSR" },
                "annotations": { RESOURCE_STATUS: json!({ "cpuset": cpus }).to_string() } },
            "spec": { "nodeName": "n1", "priority": 9_500 } })
    };
    let lsr = json!({ "metadata": { "labels": { "koordinator.sh/qosClass": "LSR" } },
                      "spec": { "template": { "spec": { "priority": 9_500 } } } });
    let mut world = world(false);
    layout(&mut world);
    world.pod("a", &json!({ "cpu": "2" }), bound("4-5"));
    assert_eq!(world.takes_over(&json!({ "cpu": "4" }), lsr.clone()), "n1 with a");
    let own = world.ledger.pod(&Uid::new("r")).unwrap().allotment.unwrap();
    let own = world.ledger.asks.allotments.get(own).cpus.to_string();
    assert_eq!(own, "0-1,4-5", "those of the pod are inside");
    // Whole cores are wanted, and a pod that has halves of two cannot be inside.
    let mut world = self::world(false);
    layout(&mut world);
    world.pod("halves", &json!({ "cpu": "2" }), bound("0,2"));
    let whole = json!({ "metadata": { "annotations": {
        "scheduling.koordinator.sh/resource-spec": "{\"requiredCPUBindPolicy\":\"FullPCPUs\"}" } } });
    let told = world.takes_over(&json!({ "cpu": "2" }), merged(lsr, whole));
    assert_eq!(told, "n1 with ");
}

#[test]
fn what_pods_use_that_are_taken_over_is_used_already() {
    let check = |used: &str, asked: &str, expected: &str| {
        let mut world = world_of(false, |profile| profile.filter(LoadAware::default()));
        let status = json!({ "updateTime": "1970-01-01T00:16:28Z",
            "nodeMetric": { "nodeUsage": { "resources": { "cpu": used } } } });
        let metric = json!({ "metadata": { "name": "n1" }, "status": status });
        let metric: NodeMetric = serde_json::from_value(metric).unwrap();
        world.ledger.apply(Fact::from(metric));
        // Each is taken to use 3.4 CPUs that are not reported yet.
        world.candidate("a", &amounts("4", "2Gi"), "2");
        world.candidate("b", &amounts("4", "2Gi"), "1");
        let said = world.takes_over(&amounts(asked, "4Gi"), json!({}));
        assert_eq!(said, expected, "{used} {asked}");
    };
    // What one holds beyond the first is 3.4 CPUs more; beyond both it is none, which a node takes that is
    // used too much already.
    check("0", "8", "n1 with a");
    check("2", "8", "n1 with a, b");
    check("12", "8", "n1 with a, b");
    check("0", "12", "n1 with a, b");
    check("2", "12", "0/1 nodes are available: 1 node(s) cpu usage exceed threshold.");
}
