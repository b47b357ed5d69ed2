//! What is shown of quotas, and what is told of trees.

use api::elastic_quota::{IS_ROOT_LABEL, TOTAL_RESOURCE};
use engine::quota::Trees;

use super::*;
use crate::quotas::meters::SERIES_MAX;

/// Lines of quotas with this text in them.
fn lines(world: &World, text: &str) -> Vec<String> {
    let all = world.metrics.render();
    let all = all.lines().filter(|line| line.starts_with("scheduler_elastic_quota"));
    all.filter(|line| line.contains(text)).map(str::to_owned).collect()
}

fn left_out(world: &World) -> usize {
    let all = world.metrics.render();
    let name = "gantry_scheduler_elastic_quota_series_left_out ";
    all.lines().find_map(|line| line.strip_prefix(name)).unwrap().parse().unwrap()
}

#[test]
fn resources_that_nobody_can_have_are_not_shown() {
    let mut world = world();
    let mut max = json!({ "cpu": "8", "memory": "8Gi" });
    for number in 0..60 {
        max[format!("made.up/r{number}")] = "1".into();
    }
    world.quota("a", json!({ "spec": { "max": max } }));
    world.settle(START);
    assert_eq!(lines(&world, "made.up"), [""; 0]);
    for resource in ["cpu", "memory"] {
        assert!(!lines(&world, &format!("resource=\"{resource}\"")).is_empty(), "{resource}");
    }
    // Some node has one of them by now.
    let node = json!({ "metadata": { "name": "n2" },
                       "status": { "allocatable": { "made.up/r7": "1", "pods": "9" } } });
    let node: Node = serde_json::from_value(node).unwrap();
    world.engine.apply(Fact::Node(NodeFact::from(&node)), START);
    world.settle(after(2));
    assert!(!lines(&world, "made.up/r7").is_empty());
    assert_eq!(lines(&world, "made.up").len(), lines(&world, "made.up/r7").len());
}

#[test]
fn of_quotas_so_many_series_are_shown_and_how_many_are_not_is_counted() {
    let mut world = world();
    let node = |resources: Value| -> Node {
        let wire = json!({ "metadata": { "name": "n1" }, "status": { "allocatable": resources } });
        serde_json::from_value(wire).unwrap()
    };
    let mut all = json!({});
    for number in 0..64 {
        all[format!("made.up/r{number}")] = "1".into();
    }
    world.engine.apply(Fact::Node(NodeFact::from(&node(all.clone()))), START);
    all["cpu"] = Value::Null;
    let keys: Vec<Key> = (0..200)
        .map(|number| {
            world.quota(&format!("q{number}"), json!({ "spec": { "min": null, "max": all } }))
        })
        .collect();
    world.settle(START);
    let shown = lines(&world, "").len();
    let each = lines(&world, "name=\"q0\"").len();
    assert!(each > 0 && shown <= SERIES_MAX && shown + each > SERIES_MAX, "{shown}, {each}");
    assert_eq!(left_out(&world), keys.len() * each - shown, "each is shown whole or not at all");
    // Those for which there is room by now are shown.
    for key in &keys[100..109] {
        world.own.remove(key, &world.meters.quotas);
        world.engine.apply(
            Fact::QuotaGone { namespace: key.namespace().into(), name: key.name().into() },
            START,
        );
    }
    for _ in 0..keys.len() {
        world.settle(after(2));
    }
    let shown = lines(&world, "").len();
    assert!(shown <= SERIES_MAX && shown + each > SERIES_MAX, "{shown}");
    for key in &keys {
        world.own.remove(key, &world.meters.quotas);
    }
    assert_eq!((lines(&world, "").len(), left_out(&world)), (0, 0));
}

/// The same cluster, where quotas say which tree they are of.
fn forest() -> World {
    let quota = Settings { trees: Trees::Many, ..Settings::default() };
    let profile = Profile { quota: Some(quota), ..Profile::kubernetes() };
    let world = world();
    let engine = Engine::new(turn::Settings::default(), vec![("s".into(), profile)], START);
    World { engine, ..world }
}

/// What makes a quota the root of a tree of so many CPUs.
fn root(tree: &str, cpu: u32) -> Value {
    json!({ "metadata": {
        "labels": { IS_ROOT_LABEL: "true", IS_PARENT_LABEL: "true", TREE_ID_LABEL: tree },
        "annotations": { TOTAL_RESOURCE: json!({ "cpu": cpu }).to_string() } } })
}

#[test]
fn a_quota_is_shown_in_the_tree_that_it_is_in_also_where_only_those_above_it_say_which() {
    let mut world = forest();
    world.quota("pool", root("t1", 8));
    world.quota("team", json!({ "metadata": { "labels": { PARENT_LABEL: "pool" } } }));
    world.quota("other", json!({}));
    world.settle(START);
    for (name, tree) in [("pool", "t1"), ("team", "t1"), ("other", "")] {
        let lines = lines(&world, &format!("name=\"{name}\""));
        assert!(!lines.is_empty(), "{name}");
        assert!(lines.iter().all(|line| line.contains(&format!("tree=\"{tree}\""))), "{lines:?}");
    }
}

#[test]
fn two_roots_of_one_tree_are_told_on_both_with_which_of_them_counts() {
    let mut world = forest();
    let [old, new] = ["a-old", "b-new"].map(|name| world.quota(name, root("t1", 8)));
    let other = world.quota("c", root("t2", 8));
    world.settle(START);
    let told = "False SeveralRoots: tree t1 has two roots: a-old, which alone says what the tree has, as the \
                first by name, and b-new; delete the one that no profile names any longer, or set \
                quota.scheduling.koordinator.sh/is-root of it to false";
    assert_eq!(world.condition(&old, "Ready"), told);
    assert_eq!(world.condition(&new, "Ready"), told);
    assert_eq!(world.condition(&other, "Ready"), "True InForce: ");
    let more = json!({ "metadata": { "labels": { IS_ROOT_LABEL: "false" } } });
    world.show(&old, object::patch::merge::apply(world.objects[&old].clone(), more).unwrap());
    world.settle(after(2));
    assert_eq!(world.condition(&new, "Ready"), "True InForce: ");
}
