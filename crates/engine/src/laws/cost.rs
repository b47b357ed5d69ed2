//! What one object can make the ledger do: counts, not times.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::fact::{Fact, NodeFact, PodFact, Uid};
use crate::ledger::Ledger;

const IDENTITIES: usize = 5000;
const NAMESPACES: usize = 50;
const TERMS: usize = 256;

/// A ledger with pods that all differ in their labels, in many namespaces.
fn populated() -> Ledger {
    let mut ledger = Ledger::default();
    for number in 0..10 {
        let name = format!("node-{number}").into();
        let labels = BTreeMap::from([("zone".into(), "a".into())]);
        ledger.apply(Fact::Node(NodeFact { name, labels, ..NodeFact::default() }));
    }
    for number in 0..IDENTITIES {
        let namespace = format!("team-{}", number % NAMESPACES);
        let fact = PodFact::new(&format!("pod-{number}"), &namespace, "pod");
        let labels = BTreeMap::from([
            ("app".into(), "web".into()),
            ("name".into(), number.to_string().into()),
        ]);
        let node = Some(format!("node-{}", number % 10).into());
        ledger.apply(Fact::Pod(Box::new(PodFact { labels, node, ..fact })));
    }
    ledger
}

/// A pod with as many preferred terms, each made by its number.
fn with_terms(count: usize, term: impl Fn(usize) -> Value) -> Fact {
    let weighted = |number| json!({ "weight": 1, "podAffinityTerm": term(number) });
    let terms: Vec<Value> = (0..count).map(weighted).collect();
    let affinity = json!({ "podAntiAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": terms } });
    let pod = json!({
        "metadata": { "name": "terms", "namespace": "team-1", "uid": "terms" },
        "spec": { "affinity": affinity, "containers": [], "nodeName": "node-1" },
    });
    let pod: api::pod::Pod = serde_json::from_value(pod).unwrap();
    Fact::from(&pod)
}

fn selecting(number: usize, operator: &str) -> Value {
    json!({ "matchExpressions": [{ "key": format!("k{number}"), "operator": operator }] })
}

#[test]
fn the_terms_of_a_pod_are_held_against_those_whom_they_may_mean() {
    let check = |count: usize, term: &dyn Fn(usize) -> Value, most: usize| {
        let mut ledger = populated();
        let (before, counts) =
            (ledger.terms.crowds.evaluations(), ledger.terms.topologies.counts());
        ledger.apply(with_terms(count, term));
        ledger.apply(Fact::PodGone(Uid::new("terms")));
        let evaluations = ledger.terms.crowds.evaluations() - before;
        assert!(evaluations <= most as u64, "{evaluations} evaluations of {count} terms");
        assert_eq!(ledger.terms.topologies.counts(), counts);
        for number in 0..IDENTITIES {
            ledger.apply(Fact::PodGone(Uid::new(&format!("pod-{number}"))));
        }
        assert!(ledger.terms.is_empty());
    };
    let key = "zone";
    // Too many are not looked at, whatever they say.
    let wide = |number| {
        json!({ "topologyKey": key, "namespaceSelector": {},
        "labelSelector": selecting(number, "DoesNotExist") })
    };
    check(20_000, &wide, 0);
    // A label that nobody has means nobody, in whatever namespace.
    let rare = |number| {
        json!({ "topologyKey": key, "namespaceSelector": {},
        "labelSelector": selecting(number, "Exists") })
    };
    check(TERMS, &rare, 0);
    // Those of one namespace are found by it.
    let own = |number| {
        json!({ "topologyKey": key,
        "labelSelector": selecting(number, "DoesNotExist") })
    };
    check(TERMS, &own, TERMS * (IDENTITIES / NAMESPACES + 1));
    // One that can mean anybody is held against each once, and against the pod itself.
    check(TERMS, &wide, TERMS * (IDENTITIES + 1));
    // The same term is looked at once, however many pods have it.
    let alike = |_| {
        json!({ "topologyKey": key, "namespaceSelector": {},
        "labelSelector": selecting(0, "DoesNotExist") })
    };
    check(TERMS, &alike, IDENTITIES + 1);
}

#[test]
fn a_label_that_no_node_has_makes_no_domains() {
    let mut ledger = populated();
    let term = |number: usize| {
        json!({ "topologyKey": format!("k{number}"),
        "labelSelector": { "matchLabels": { "name": "7" } } })
    };
    ledger.apply(with_terms(TERMS, term));
    assert_eq!(ledger.terms.topologies.counts(), (TERMS, 0));
    let node = |labels: &[&str]| {
        let labels = labels.iter().map(|key| ((*key).into(), "a".into())).collect();
        Fact::Node(NodeFact { name: "node-3".into(), labels, ..NodeFact::default() })
    };
    for (labels, filled) in [(&["k1", "k2"][..], 2), (&["k2"], 1), (&["zone"], 0)] {
        ledger.apply(node(labels));
        assert_eq!(ledger.terms.topologies.counts(), (TERMS, filled));
    }
    ledger.apply(node(&["k7"]));
    ledger.apply(Fact::NodeGone("node-3".into()));
    assert_eq!(ledger.terms.topologies.counts(), (TERMS, 0));
}

#[test]
fn a_namespace_moves_its_own_pods_only_and_nobody_where_it_is_as_it_was() {
    let mut ledger = populated();
    let red = |number: usize| {
        let team = format!("t{number}");
        json!({ "topologyKey": "zone", "labelSelector": { "matchLabels": { "app": "web" } },
            "namespaceSelector": { "matchLabels": { team: "red" } } })
    };
    ledger.apply(with_terms(TERMS, red));
    let mut told = |labels: &[(&str, &str)]| {
        let before = ledger.terms.crowds.evaluations();
        let labels = labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        ledger.apply(Fact::Namespace { name: "team-3".into(), labels });
        ledger.terms.crowds.evaluations() - before
    };
    let own = (IDENTITIES / NAMESPACES) as u64;
    assert_eq!(told(&[]), 0, "it has no labels, as before");
    assert_eq!(told(&[("t1", "red"), ("t2", "blue")]), own);
    assert_eq!(told(&[("t1", "red"), ("t2", "blue")]), 0);
    assert_eq!(told(&[("t1", "red"), ("t2", "green")]), 0);
    assert_eq!(told(&[("t1", "red"), ("t2", "red"), ("t3", "red")]), 2 * own);
    assert_eq!(told(&[]), 0, "they leave without being asked");
}

#[test]
fn pods_that_name_nodes_which_are_not_there_take_no_places() {
    let mut ledger = populated();
    let before = ledger.nodes.places();
    let uid = |number: usize| format!("lost-{number}");
    let pod = |number: usize| {
        let fact = PodFact::new(&uid(number), "team-1", "pod");
        Fact::Pod(Box::new(PodFact { node: Some(format!("no-{number}").into()), ..fact }))
    };
    for number in 0..100_000 {
        ledger.apply(pod(number));
    }
    assert_eq!(ledger.nodes.places(), before);
    assert!(ledger.pod(&Uid::new(&uid(7))).is_some_and(|row| row.is_bound()));
    // Those whose node comes after all are on it.
    ledger.apply(Fact::Node(NodeFact { name: "no-7".into(), ..NodeFact::default() }));
    let node = ledger.nodes.find("no-7").unwrap();
    assert_eq!(ledger.nodes.pods[node.get()], 1);
    assert_eq!(ledger.pod(&Uid::new(&uid(7))).and_then(|row| row.node()), Some(node));
    assert_eq!(ledger.residents.on(node).len(), 1);
    for number in 0..100_000 {
        ledger.apply(Fact::PodGone(Uid::new(&uid(number))));
    }
    ledger.apply(Fact::NodeGone("no-7".into()));
    assert!(ledger.is_none_astray());
    assert_eq!(ledger.nodes.places(), before + 1);
}
