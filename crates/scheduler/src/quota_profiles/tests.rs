use api::elastic_quota::TREE_ID_LABEL;
use object::quantity::Quantity;
use serde_json::{Value, json};

use super::root::{Complaint, naming, of, patch, step};
use super::*;

const TREE: &str = "13778220790914240367";

/// A profile for nodes of a pool, with more fields.
fn profile(more: Value) -> ElasticQuotaProfile {
    let own = json!({
        "metadata": { "namespace": "kube-system", "name": "pool-a" },
        "spec": { "quotaName": "root-a", "nodeSelector": { "matchLabels": { "pool": "a" } } },
    });
    serde_json::from_value(object::patch::merge::apply(own, more).unwrap()).unwrap()
}

/// A node of 10 CPUs and 1000 bytes, with more fields.
fn node(more: Value) -> PoolNode {
    let own = json!({
        "metadata": { "name": "n", "labels": { "pool": "a" } },
        "status": { "allocatable": { "cpu": "10", "memory": "1000" },
                    "conditions": [{ "type": "Ready", "status": "True" }] },
    });
    serde_json::from_value(object::patch::merge::apply(own, more).unwrap()).unwrap()
}

fn not_ready() -> Value {
    json!({ "status": { "conditions": [{ "type": "Ready", "status": "Unknown" }] } })
}

/// The quota that a profile makes of nodes, as it is created.
fn made(more: Value, nodes: &[PoolNode]) -> Value {
    let root = of(&profile(more), nodes.iter()).unwrap();
    let own = root.quota;
    assert_eq!(patch(&own, &own), None, "what is so is not written");
    let annotation = |key: &str| -> Value {
        let text = own.metadata.annotations.get(&format!("quota.scheduling.koordinator.sh/{key}"));
        serde_json::from_str(text.unwrap()).unwrap()
    };
    json!({ "min": own.spec.min, "max": own.spec.max, "labels": own.metadata.labels,
            "total": annotation("total-resource"),
            "unschedulable": annotation("unschedulable-resource") })
}

#[test]
fn s12_p1_a_root_has_all_that_its_nodes_have() {
    let quota = made(json!({}), &[node(json!({})), node(not_ready())]);
    let most = json!({ "cpu": "4611686018427387", "memory": "4611686018427387" });
    let labels = json!({
        "quota.scheduling.koordinator.sh/profile": "pool-a",
        "quota.scheduling.koordinator.sh/tree-id": TREE,
        "quota.scheduling.koordinator.sh/is-root": "true",
    });
    let expected = json!({
        "min": { "cpu": "20", "memory": "2k" }, "max": most, "labels": labels,
        "total": { "cpu": "20", "memory": "2k" }, "unschedulable": { "cpu": "10", "memory": "1k" },
    });
    assert_eq!(quota, expected);
    // Only nodes that are meant count, and only those that take pods are of use.
    let cordoned = node(json!({ "spec": { "unschedulable": true } }));
    let other = node(json!({ "metadata": { "labels": { "pool": "b" } } }));
    let quota = made(json!({}), &[cordoned, other]);
    assert_eq!(quota["total"], quota["unschedulable"]);
    assert_eq!(quota["total"], json!({ "cpu": "10", "memory": "1k" }));
    // Where there is no node there is nothing.
    assert_eq!(made(json!({}), &[])["min"], json!({ "cpu": "0", "memory": "0" }));
}

#[test]
fn s12_p2_a_root_has_its_part_rounded_down() {
    let nodes = [node(json!({})), node(not_ready())];
    let check = |ratio: &str, cpu: &str, memory: &str| {
        let quota = made(json!({ "spec": { "resourceRatio": ratio } }), &nodes);
        let amount = |text: &str| text.parse::<Quantity>().unwrap();
        let min: api::pod::ResourceList = serde_json::from_value(quota["min"].clone()).unwrap();
        assert_eq!((&min["cpu"], &min["memory"]), (&amount(cpu), &amount(memory)), "{ratio}");
        assert_eq!(quota["total"], quota["min"]);
    };
    check("0.9", "18", "1800");
    check("1", "20", "2000");
    check("", "20", "2000");
    check("0.29", "5800m", "580");
    check("0.33333", "6666m", "666");
    let quota = made(json!({ "spec": { "resourceRatio": "0.9" } }), &nodes);
    assert_eq!(quota["unschedulable"], json!({ "cpu": "9", "memory": "900" }));
}

#[test]
fn a_ratio_that_cannot_be_counts_as_one_and_is_told() {
    for wrong in ["0", "-0.5", "1.1", "NaN", "inf", "half", "90%"] {
        let own = profile(json!({ "spec": { "resourceRatio": wrong } }));
        let root = of(&own, [node(json!({}))].iter()).unwrap();
        assert_eq!(root.complaints, [Complaint::Ratio(wrong.to_owned())]);
        assert_eq!(root.quota.spec.min["cpu"], "10".parse().unwrap(), "{wrong}");
    }
    assert_eq!(
        Complaint::Ratio("90%".to_owned()).to_string(),
        "spec.resourceRatio has the value \"90%\", which counts as 1.0: write a number above 0 and \
         up to 1, such as 0.9"
    );
}

#[test]
fn s12_p3_a_tree_without_a_name_gets_one_from_the_profile() {
    let root = of(&profile(json!({})), [].iter()).unwrap();
    assert_eq!(root.tree_id, TREE);
    let named = json!({ "metadata": { "labels": { TREE_ID_LABEL: "t1" } } });
    let root = of(&profile(named), [].iter()).unwrap();
    assert_eq!(root.tree_id, "t1");
    assert_eq!(root.quota.metadata.labels[TREE_ID_LABEL], "t1");
}

#[test]
fn resources_and_labels_are_those_that_the_profile_names() {
    let more = json!({
        "metadata": { "annotations": {
            "quota.scheduling.koordinator.sh/resource-keys": r#"["cpu","nvidia.com/gpu"]"# } },
        "spec": { "quotaLabels": { "team": "a", "quota.scheduling.koordinator.sh/is-root": "no",
                                   "quota.scheduling.koordinator.sh/is-parent": "true" } },
    });
    let quota = made(more, &[node(json!({}))]);
    assert_eq!(quota["min"], json!({ "cpu": "10", "nvidia.com/gpu": "0" }));
    let keys: Vec<&String> = quota["max"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["cpu", "nvidia.com/gpu"]);
    assert_eq!(quota["labels"]["team"], "a");
    assert_eq!(quota["labels"]["quota.scheduling.koordinator.sh/is-parent"], "true");
    assert_eq!(quota["labels"]["quota.scheduling.koordinator.sh/is-root"], "true");
    let wrong = json!({ "metadata": { "annotations": {
        "quota.scheduling.koordinator.sh/resource-keys": "cpu" } } });
    let root = of(&profile(wrong), [].iter()).unwrap();
    assert!(matches!(&root.complaints[..], [Complaint::Keys(_)]), "{:?}", root.complaints);
    assert_eq!(root.quota.spec.min.len(), 2);
}

#[test]
fn a_profile_that_cannot_be_meant_leaves_its_quota_alone() {
    let nameless = profile(json!({ "spec": { "quotaName": null } }));
    assert_eq!(of(&nameless, [].iter()), Err(Complaint::Nameless));
    let odd = json!({ "matchExpressions": [{ "key": "pool", "operator": "Near" }] });
    let odd = profile(json!({ "spec": { "nodeSelector": odd } }));
    assert!(matches!(of(&odd, [].iter()), Err(Complaint::Nodes(_))));
    // Who names no nodes has none.
    let none = profile(json!({ "spec": { "nodeSelector": null } }));
    let root = of(&none, [node(json!({}))].iter()).unwrap();
    assert!(root.quota.spec.min["cpu"].is_zero());
}

#[test]
fn only_what_differs_is_written() {
    let wanted = of(&profile(json!({})), [node(json!({}))].iter()).unwrap().quota;
    let found = |more: Value| -> ElasticQuota {
        let own = object::patch::merge::apply(json!(wanted), more).unwrap();
        serde_json::from_value(own).unwrap()
    };
    let check = |more: Value, expected: Option<Value>| {
        let more = object::patch::merge::apply(more, json!({ "metadata": { "uid": "u-1" } }));
        let found = found(more.unwrap());
        let patch = patch(&found, &wanted);
        assert_eq!(patch, expected, "{:?}", found.metadata);
    };
    check(json!({}), None);
    // What others write there is theirs.
    let theirs = json!({ "metadata": { "labels": { "team": "b" }, "annotations": { "x": "y" } },
                         "status": { "used": { "cpu": "1" } } });
    check(theirs, None);
    // Amounts may be written in any way.
    let same = json!({ "metadata": { "annotations": {
        TOTAL: r#"{"memory":"1000","cpu":"10000m"}"# } }, "spec": { "min": { "cpu": "10000m" } } });
    check(same, None);
    check(
        json!({ "spec": { "min": { "cpu": "11", "gpu": "1" } } }),
        Some(json!({ "metadata": { "uid": "u-1" },
                     "spec": { "min": { "cpu": "10", "memory": "1k", "gpu": null } } })),
    );
    check(
        json!({ "metadata": { "labels": { TREE_ID_LABEL: "other" }, "annotations": { TOTAL: "?" } } }),
        Some(json!({ "metadata": { "uid": "u-1", "labels": { TREE_ID_LABEL: TREE },
                     "annotations": { TOTAL: r#"{"cpu":"10","memory":"1k"}"# } } })),
    );
}

const TOTAL: &str = "quota.scheduling.koordinator.sh/total-resource";

#[test]
fn a_node_that_counts_the_same_is_no_news() {
    let plain = node(json!({}));
    let check = |more: Value, is_alike: bool| {
        let other = node(more.clone());
        assert_eq!(PoolNode::are_alike(Some(&plain), Some(&other)), is_alike, "{more}");
    };
    check(json!({}), true);
    check(json!({ "metadata": { "resourceVersion": "9", "annotations": { "a": "b" } } }), true);
    let time = json!({ "type": "Ready", "status": "True", "lastHeartbeatTime": "now" });
    check(json!({ "status": { "conditions": [time] } }), true);
    check(not_ready(), false);
    check(json!({ "spec": { "unschedulable": true } }), false);
    check(json!({ "metadata": { "labels": { "pool": "b" } } }), false);
    check(json!({ "status": { "allocatable": { "cpu": "11" } } }), false);
    assert!(!PoolNode::are_alike(None, Some(&plain)));
    assert!(!PoolNode::are_alike(Some(&plain), None));
}

#[test]
fn a_profile_makes_its_quota_changes_it_and_takes_it_from_no_other() {
    let own = profile(json!({}));
    let root = of(&own, [node(json!({}))].iter()).unwrap();
    let quota = |more: Value| -> ElasticQuota {
        let quota = object::patch::merge::apply(json!(root.quota), more).unwrap();
        serde_json::from_value(quota).unwrap()
    };
    let check = |found: Option<Value>, other: Option<&str>, expected: Step| {
        let found = found.map(quota);
        let other = |name: &str| {
            let names = json!({ "metadata": { "name": name }, "spec": { "quotaName": other? } });
            Some(Box::new(profile(names)))
        };
        assert_eq!(step(&own, &root, found.as_ref(), other), expected, "{found:?}");
    };
    check(None, None, Step::Create);
    check(Some(json!({})), None, Step::Nothing);
    let differs = json!({ "metadata": { "uid": "q" }, "spec": { "max": { "cpu": "1" } } });
    let patch = patch(&quota(differs.clone()), &root.quota).unwrap();
    check(Some(differs.clone()), None, Step::Patch(patch));
    let going = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } });
    check(Some(object::patch::merge::apply(differs, going).unwrap()), None, Step::Nothing);
    // It is another profile's for as long as that names it.
    let label = |name: &str| {
        let label = json!({ "quota.scheduling.koordinator.sh/profile": name });
        json!({ "metadata": { "labels": label } })
    };
    check(Some(label("pool-b")), Some("root-a"), Step::Taken("pool-b".to_owned()));
    check(Some(label("pool-a")), Some("root-a"), Step::Nothing);
    let taken_over =
        json!({ "metadata": { "uid": "", "labels": label("pool-a")["metadata"]["labels"] } });
    check(Some(label("pool-b")), Some("root-b"), Step::Patch(taken_over.clone()));
    check(Some(label("pool-b")), None, Step::Patch(taken_over));
}

#[test]
fn a_profile_is_told_its_tree_once() {
    let check = |more: Value, expected: Value| {
        let own = profile(more);
        let root = of(&own, std::iter::empty()).unwrap();
        assert_eq!(json!(naming(&own, &root)), expected);
    };
    let key = "quota.scheduling.koordinator.sh/tree-id";
    let tree = json!({ "metadata": { "labels": { key: TREE } } });
    let named = json!({ "metadata": { "uid": "", "labels": { key: TREE } } });
    check(json!({}), named);
    check(tree, Value::Null);
}
