use api::{Node, Pod, Reservation};
use engine::fact::{Fact, NodeFact, ReservationFact};

use super::*;

/// Half past twelve.
fn now() -> Moment {
    moment("2026-01-01T12:30:00Z")
}

fn moment(text: &str) -> Moment {
    let time: object::time::Time = text.parse().unwrap();
    Moment(u64::try_from(time.timestamp().as_nanosecond()).unwrap())
}

fn node(name: &str, more: Value) -> Fact {
    let mut allocatable = json!({ "cpu": "8", "memory": "32Gi", "pods": "110" });
    allocatable.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let node = json!({ "metadata": { "name": name }, "status": { "allocatable": allocatable } });
    let node: Node = serde_json::from_value(node).unwrap();
    Fact::Node(NodeFact::from(&node))
}

/// A pod on a node, which requests this.
fn pod(name: &str, node: &str, priority: i32, requests: Value) -> Pod {
    let scheduled = json!({ "type": "PodScheduled", "status": "True",
                            "lastTransitionTime": "2026-01-01T12:29:45Z" });
    let pod = json!({
        "metadata": { "name": name, "namespace": "shop", "uid": name },
        "spec": { "nodeName": node, "priority": priority,
                  "containers": [{ "name": "main", "resources": { "requests": requests } }] },
        "status": { "conditions": [scheduled] },
    });
    serde_json::from_value(pod).unwrap()
}

/// A node says at a time what it uses, and its pods.
fn report(node: &str, at: &str, cpu: &str, pods: Value) -> Fact {
    let usage = json!({ "nodeUsage": { "resources": { "cpu": cpu, "memory": "4Gi" } } });
    let metric = json!({
        "metadata": { "name": node },
        "status": { "updateTime": at, "nodeMetric": usage, "podsMetric": pods },
    });
    let metric: NodeMetric = serde_json::from_value(metric).unwrap();
    Fact::from(metric)
}

/// A reservation of 3 CPUs and 1Gi on a node.
fn reservation(node: &str) -> Fact {
    let requests = json!({ "cpu": "3", "memory": "1Gi" });
    let container = json!({ "name": "hold", "resources": { "requests": requests } });
    let own = json!({
        "metadata": { "name": "held", "uid": "held" },
        "spec": { "template": { "spec": { "containers": [container] } } },
        "status": { "phase": "Available", "nodeName": node, "allocatable": requests },
    });
    let own: Reservation = serde_json::from_value(own).unwrap();
    ReservationFact::told(&own)
}

/// Three nodes: one with a fresh report, one with a stale one and a reservation, one without any.
fn cluster() -> Ledger {
    let mut ledger = Ledger::default();
    ledger.keep_loads(LoadSettings::default());
    ledger.keep_reservations();
    let batch = json!({ "kubernetes.io/batch-cpu": "4000", "kubernetes.io/batch-memory": "8Gi" });
    let reported = json!([
        { "namespace": "shop", "name": "web", "priority": "koord-prod",
          "podUsage": { "resources": { "cpu": "1500m", "memory": "1Gi" } } },
        { "namespace": "shop", "name": "sort", "priority": "koord-batch",
          "podUsage": { "resources": { "cpu": "700m", "memory": "512Mi" } } },
    ]);
    let small = json!({ "cpu": "1", "memory": "1536Mi" });
    let mut inside = pod("inside", "n2", 0, small.clone());
    let used = r#"{"name":"held","uid":"held"}"#;
    let key = api::reservation::ALLOCATED.to_owned();
    inside.metadata.annotations.insert(key, used.to_owned());
    let asked = json!({ "kubernetes.io/batch-cpu": "1000", "kubernetes.io/batch-memory": "2Gi" });
    let facts = [
        node("n1", batch),
        node("n2", json!({})),
        node("n3", json!({ "example.com/widget": "4" })),
        report("n1", "2026-01-01T12:29:30Z", "2500m", reported),
        report("n2", "2026-01-01T12:20:00Z", "6", json!([])),
        reservation("n2"),
        Fact::from(&pod("web", "n1", 9000, json!({ "cpu": "2", "memory": "4Gi" }))),
        Fact::from(&pod("sort", "n1", 5500, asked)),
        Fact::from(&inside),
        Fact::from(&pod("plain", "n3", 0, json!({ "cpu": "7", "example.com/widget": "1" }))),
        Fact::from(&pod("idle", "n3", 3500, small)),
    ];
    facts.into_iter().for_each(|fact| ledger.apply(fact));
    ledger
}

fn top(node: Option<&str>, sort: &str) -> Top {
    let question = Question { node: node.map(str::to_owned), sort: sort.parse().unwrap() };
    Top::of(&cluster(), &LoadSettings::default(), &question, now()).unwrap()
}

#[test]
fn nodes_are_shown_with_what_becomes_of_what_they_have() {
    insta::assert_snapshot!(top(None, "name").text(View::Plain), @"
NODE   RESOURCE  ALLOCATABLE  REQUESTED   RESERVED  ESTIMATED     USED         REPORT
n1     cpu       8            2 (25%)     0         2850m (36%)   2500m (31%)  30s old
n1     memory    32Gi         4Gi (13%)   0         6.7Gi (21%)   4Gi (13%)    30s old
n2     cpu       8            1 (13%)     2 (25%)   6850m (86%)   6 (75%)      10m old, stale
n2     memory    32Gi         1.5Gi (5%)  0         5Gi (16%)     4Gi (13%)    10m old, stale
n3     cpu       8            8 (100%)    0         -             -            -
n3     memory    32Gi         1.5Gi (5%)  0         -             -            -
TOTAL  cpu       24           11 (46%)    2 (8%)    9700m (61%)   8500m (53%)  1 of 3 fresh
TOTAL  memory    96Gi         7Gi (7%)    0         11.7Gi (18%)  8Gi (13%)    1 of 3 fresh
");
}

#[test]
fn every_resource_is_shown_where_there_is_room() {
    insta::assert_snapshot!(top(Some("n3"), "name").text(View::Wide), @"
NODE  RESOURCE            ALLOCATABLE  REQUESTED   RESERVED  ESTIMATED  USED  REPORT  PODS
n3    cpu                 8            8 (100%)    0         -          -     -       2/110
n3    example.com/widget  4            1 (25%)     0         -          -     -       2/110
n3    memory              32Gi         1.5Gi (5%)  0         -          -     -       2/110
");
}

#[test]
fn the_pods_of_each_band_are_shown_under_their_own_names() {
    insta::assert_snapshot!(top(None, "name").text(View::Bands), @"
NODE   BAND   PODS  RESOURCE                    ALLOCATABLE  REQUESTED   USED         REPORT
n1     prod   1     cpu                         8            2 (25%)     1500m (19%)  30s old
n1     prod   1     memory                      32Gi         4Gi (13%)   1Gi (3%)     30s old
n1     batch  1     kubernetes.io/batch-cpu     4000         1000 (25%)  700 (18%)    30s old
n1     batch  1     kubernetes.io/batch-memory  8Gi          2Gi (25%)   512Mi (6%)   30s old
n2     prod   0     cpu                         8            0           0            10m old, stale
n2     prod   0     memory                      32Gi         0           0            10m old, stale
n2     none   1     cpu                         8            1 (13%)     0            10m old, stale
n2     none   1     memory                      32Gi         1.5Gi (5%)  0            10m old, stale
n3     prod   0     cpu                         8            0           -            -
n3     prod   0     memory                      32Gi         0           -            -
n3     free   1     cpu                         8            1 (13%)     -            -
n3     free   1     memory                      32Gi         1.5Gi (5%)  -            -
n3     none   1     cpu                         8            7 (88%)     -            -
n3     none   1     memory                      32Gi         0           -            -
TOTAL  prod   1     cpu                         24           2 (8%)      1500m (9%)   1 of 3 fresh
TOTAL  prod   1     memory                      96Gi         4Gi (4%)    1Gi (2%)     1 of 3 fresh
TOTAL  batch  1     kubernetes.io/batch-cpu     4000         1000 (25%)  700 (18%)    1 of 3 fresh
TOTAL  batch  1     kubernetes.io/batch-memory  8Gi          2Gi (25%)   512Mi (6%)   1 of 3 fresh
TOTAL  free   1     cpu                         24           1 (4%)      0            1 of 3 fresh
TOTAL  free   1     memory                      96Gi         1.5Gi (2%)  0            1 of 3 fresh
TOTAL  none   2     cpu                         24           8 (33%)     0            1 of 3 fresh
TOTAL  none   2     memory                      96Gi         1.5Gi (2%)  0            1 of 3 fresh
");
}

#[test]
fn programs_are_told_the_same() {
    let wire = top(Some("n2"), "name").to_json();
    assert_eq!((&wire["reportsAreServed"], &wire["total"]), (&json!(true), &Value::Null));
    let node = &wire["nodes"][0];
    let figures = |name: &str| node["resources"][name].to_string();
    let cpu =
        r#"{"allocatable":"8","estimated":"6850m","requested":"1","reserved":"2","used":"6"}"#;
    assert_eq!(figures("cpu"), cpu);
    let memory = json!({ "allocatable": "32Gi", "estimated": "5422396211", "requested": "1536Mi",
                         "reserved": "0", "used": "4Gi" });
    assert_eq!(node["resources"]["memory"], memory);
    assert_eq!(node["report"], json!({ "state": "stale", "ageSeconds": 600 }));
    assert_eq!((&node["pods"], &node["podsAllowed"]), (&json!(1), &json!(110)));
    let bands: Vec<&Value> =
        node["bands"].as_array().unwrap().iter().map(|own| &own["band"]).collect();
    assert_eq!(json!(bands), json!(["prod", "mid", "batch", "free", "none"]));
    let plain = json!({ "allocatable": "8", "requested": "1", "used": "0" });
    assert_eq!(node["bands"][4]["resources"]["cpu"], plain);
    let all = top(None, "name").to_json();
    assert_eq!(all["total"]["report"], json!({ "fresh": 1, "nodes": 3 }));
    assert_eq!(all["nodes"][2]["report"], json!({ "state": "never" }));
    let batch = &all["nodes"][0]["bands"][2]["resources"]["kubernetes.io/batch-cpu"];
    assert_eq!(*batch, json!({ "allocatable": "4000", "requested": "1000", "used": "700" }));
}

#[test]
fn the_fullest_come_first_and_those_of_which_nobody_knows_last() {
    let check = |key: &str, order: [&str; 3]| {
        let top = top(None, key);
        let names: Vec<&str> = top.nodes.iter().map(|own| own.node.as_str()).collect();
        assert_eq!(names, order, "{key}");
        assert_eq!(key.parse::<SortKey>().unwrap().to_string(), key);
    };
    check("name", ["n1", "n2", "n3"]);
    check("report", ["n3", "n2", "n1"]);
    check("requested-cpu", ["n3", "n1", "n2"]);
    check("requested-memory", ["n1", "n2", "n3"]);
    check("reserved-cpu", ["n2", "n1", "n3"]);
    check("used-cpu", ["n2", "n1", "n3"]);
    check("estimated-memory", ["n1", "n2", "n3"]);
    for name in SortKey::names() {
        assert_eq!(name.parse::<SortKey>().map(|key| key.to_string()), Ok(name));
    }
    for wrong in ["", "cpu", "used", "used-", "used-disk", "free-cpu", "Name"] {
        let error = wrong.parse::<SortKey>().unwrap_err().to_string();
        assert!(error.contains("use one of name, report, requested-cpu, "), "{error}");
    }
}

#[test]
fn who_asks_for_what_is_not_there_is_told() {
    let question = Question { node: Some("n9".to_owned()), sort: SortKey::Name };
    let error = Top::of(&cluster(), &LoadSettings::default(), &question, now()).unwrap_err();
    let words = "there is no node n9; `kubectl get nodes` lists those there are";
    assert_eq!(error.to_string(), words);
    let unsorted = TopError::NoReports(SortKey::Share(Figure::Used, "cpu")).to_string();
    assert!(unsorted.starts_with("nodes cannot be sorted by used-cpu: the server does not serve"));
    let unserved = Top { reports_are_served: false, ..top(None, "name") };
    assert_eq!(unserved.notes().len(), 1);
    assert_eq!(top(None, "name").notes(), Vec::<String>::new());
    let empty = Top { nodes: Vec::new(), total: None, ..unserved };
    assert_eq!(empty.text(View::Plain).lines().count(), 1, "the header is always there");
}

#[test]
fn amounts_are_short() {
    let check = |bytes: i64, text: &str| assert_eq!(text::readable("memory", bytes), text);
    check(0, "0");
    check(1023, "1023");
    check(1024, "1Ki");
    check(6_012_954_214, "5.5Gi");
    check(200 << 20, "200Mi");
    check(i64::MAX, "7.9Ei");
    check(-1536, "-1.5Ki");
    assert_eq!(text::readable("cpu", 1700), "1700m");
    assert_eq!(text::readable("kubernetes.io/batch-cpu", 4000), "4000");
    assert_eq!(text::readable("kubernetes.io/batch-memory", 8 << 30), "8Gi");
}

#[test]
fn a_share_is_rounded_once() {
    let check = |requested: i64, percent: i64| {
        let figures = Figures { allocatable: 10_000, requested, ..Figures::default() };
        assert_eq!(figures.share(Figure::Requested, 100), Some(percent), "{requested}");
    };
    check(0, 0);
    check(49, 0);
    check(50, 1);
    check(446, 4);
    check(449, 4);
    check(450, 5);
    check(12_345, 123);
    assert_eq!(Figures::default().share(Figure::Requested, 100), None);
}
