//! Where the CPUs of nodes are, through everything that can become of such a report.

use http::Method;
use serde_json::{Value, json};

use super::world::World;
use crate::kubelets::Setup;

const GROUP: &str = "/apis/topology.node.k8s.io/v1alpha1";
const LAYOUTS: &str = "/apis/topology.node.k8s.io/v1alpha1/noderesourcetopologies";
/// Longer than the time between two looks.
const LOOK_MS: u64 = 301_000;

/// Another process with such nodes.
fn setup(group: &str) -> Setup {
    let holder = "another run".to_owned();
    Setup { groups: vec![group.parse().unwrap()], holder, ..Setup::default() }
}

/// The one layout, and how often it was created, read and overwritten.
fn check(world: &World, numas: usize, asked: [usize; 3]) {
    let own = format!("{LAYOUTS}/node-0000");
    let layout = &world.layouts["node-0000"];
    assert_eq!(layout["zones"].as_array().unwrap().len(), numas, "{layout}");
    let created = world.asked(&Method::POST, LAYOUTS);
    let [read, written] = [Method::GET, Method::PATCH].map(|verb| world.asked(&verb, &own));
    assert_eq!([created, read, written], asked, "created, read and written: {:?}", world.log);
}

#[test]
fn a_node_says_once_where_its_cpus_are_and_looks_now_and_then() {
    let mut world = World::new(&["1x4cpu,8Gi,numa=2"], 1);
    world.run(5_000);
    check(&world, 2, [1, 0, 0]);
    let layout = world.layouts["node-0000"].clone();
    assert_eq!(layout["apiVersion"], "topology.node.k8s.io/v1alpha1");
    assert_eq!(layout["kind"], "NodeResourceTopology");
    assert_eq!(layout["topologyPolicies"], json!(["None"]));
    assert_eq!(
        layout["metadata"]["ownerReferences"],
        json!([{ "apiVersion": "v1", "kind": "Node", "name": "node-0000",
                 "uid": "uid-of-node-0000" }])
    );
    let amount = |name: &str, of: &str| json!({ "name": name, "capacity": of, "allocatable": of, "available": of });
    let second = json!({ "name": "node-1", "type": "Node",
                         "resources": [amount("cpu", "2"), amount("memory", "4Gi")] });
    assert_eq!(layout["zones"][1], second);
    world.run(LOOK_MS);
    check(&world, 2, [1, 1, 0]);
    assert_eq!(world.layouts["node-0000"], layout);
}

#[test]
fn nodes_without_a_layout_ask_and_write_nothing() {
    let mut world = World::new(&["1xnuma=none", "1x500mcpu"], 1);
    world.run(LOOK_MS);
    assert!(world.log.iter().all(|line| !line.contains(GROUP)), "{:?}", world.log);
    // Beside one that has a layout, they still say nothing.
    let mut world = World::new(&["1x500mcpu", "1"], 1);
    world.run(LOOK_MS);
    assert_eq!(world.layouts.keys().collect::<Vec<_>>(), ["node-0001"]);
}

#[test]
fn nothing_is_written_before_layouts_are_served_or_after() {
    let mut world = World::new(&["1"], 1);
    world.are_layouts_served = false;
    world.restart(setup("1"));
    world.run(100_000);
    assert_eq!(world.asked(&Method::POST, LAYOUTS), 0);
    let probes = world.asked(&Method::GET, GROUP);
    assert!((6..=8).contains(&probes), "{probes} in 100 s");
    world.are_layouts_served = true;
    world.run(20_000);
    check(&world, 1, [1, 0, 0]);
    // The definition goes, and comes again without the object.
    world.are_layouts_served = false;
    world.layouts.clear();
    world.run(2 * LOOK_MS);
    world.are_layouts_served = true;
    world.run(20_000);
    check(&world, 1, [3, 1, 0]);
}

#[test]
fn what_others_make_of_a_layout_is_mended_and_what_they_add_stays() {
    let mut world = World::new(&["1xnuma=2"], 1);
    world.run(5_000);
    let layout = world.layouts.get_mut("node-0000").unwrap();
    layout["metadata"]["annotations"]["theirs"] = "stays".into();
    world.run(LOOK_MS);
    check(&world, 2, [1, 1, 0]);
    world.layouts.get_mut("node-0000").unwrap()["zones"] = json!([]);
    world.run(LOOK_MS);
    check(&world, 2, [1, 2, 1]);
    assert_eq!(world.layouts["node-0000"]["metadata"]["annotations"]["theirs"], "stays");
    world.layouts.insert("node-0000".to_owned(), json!({ "zones": "none" }));
    world.run(LOOK_MS);
    check(&world, 2, [1, 3, 2]);
    world.layouts.remove("node-0000");
    world.run(LOOK_MS);
    check(&world, 2, [2, 4, 2]);
}

#[test]
fn a_layout_that_is_there_already_is_taken_up() {
    let mut world = World::new(&["1xnuma=2"], 1);
    world.run(5_000);
    // Whoever runs the node next finds what it would say itself.
    world.restart(setup("1xnuma=2"));
    world.run(60_000);
    check(&world, 2, [2, 1, 0]);
    // The machine has become another one.
    world.restart(setup("1xnuma=4"));
    world.run(60_000);
    check(&world, 4, [3, 2, 1]);
}

#[test]
fn a_node_that_comes_again_says_again_where_its_cpus_are() {
    let mut world = World::new(&["1"], 1);
    world.run(5_000);
    let node: Value = world.nodes["node-0000"].clone();
    world.forget_node("node-0000");
    world.layouts.clear();
    world.run(2 * LOOK_MS);
    assert!(world.layouts.is_empty(), "it says so of a node that is gone");
    world.nodes.insert("node-0000".to_owned(), node);
    world.run(LOOK_MS + 60_000);
    assert_eq!(world.layouts.len(), 1);
}

#[test]
fn answers_that_are_lost_leave_one_layout_that_is_right() {
    let mut created = 0;
    for failing in 1..12 {
        let mut world = World::new(&["1xnuma=2"], failing.into());
        while world.kubelets.counts().registered == 0 {
            world.run(1);
        }
        world.failing = failing;
        world.run(LOOK_MS);
        assert_eq!(world.layouts["node-0000"]["zones"].as_array().unwrap().len(), 2);
        created += world.asked(&Method::POST, LAYOUTS);
    }
    assert!(created > 11, "no answer about a layout was lost");
}
