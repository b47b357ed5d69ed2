use api::elastic_quota::{
    IS_PARENT_LABEL, IS_ROOT_LABEL, SHARED_WEIGHT, TOTAL_RESOURCE, TREE_ID_LABEL,
};
use api::{Node, Pod};
use engine::fact::{Fact, NodeFact};
use engine::quota::QuotaFact;

use super::*;

fn quota(name: &str, parent: &str, min: i64, max: i64) -> Fact {
    let is_parent = if name == "org" { "true" } else { "false" };
    let own = json!({
        "metadata": { "name": name, "namespace": "quotas",
                      "labels": { "quota.scheduling.koordinator.sh/parent": parent,
                                  "quota.scheduling.koordinator.sh/is-parent": is_parent } },
        "spec": { "min": { "cpu": min, "memory": format!("{min}Gi") },
                  "max": { "cpu": max, "memory": format!("{max}Gi") } },
    });
    Fact::Quota(Box::new(QuotaFact::read(&serde_json::from_value(own).unwrap()).0))
}

fn pod(name: &str, quota: &str, cpu: i64, node: &str) -> Fact {
    let labels = json!({ "quota.scheduling.koordinator.sh/name": quota });
    let requests = json!({ "cpu": cpu, "memory": "1536Mi" });
    let pod = json!({
        "metadata": { "name": name, "namespace": "shop", "uid": name, "labels": labels },
        "spec": { "nodeName": node, "priority": 9,
                  "containers": [{ "name": "main", "resources": { "requests": requests } }] },
    });
    Fact::from(&serde_json::from_value::<Pod>(pod).unwrap())
}

/// Two teams of an organisation, of which one borrows, one quota beside it and one that is nowhere.
fn cluster() -> Ledger {
    let mut ledger = Ledger::default();
    ledger.keep_quotas(Settings::default());
    let node = json!({ "metadata": { "name": "n1" },
                       "status": { "allocatable": { "cpu": "16", "memory": "32Gi", "pods": "99" } } });
    ledger.apply(Fact::Node(NodeFact::from(&serde_json::from_value::<Node>(node).unwrap())));
    let mut facts = vec![
        quota("org", "", 12, 16),
        quota("team-a", "org", 6, 12),
        quota("team-b", "org", 6, 12),
        quota("spare", "", 0, 4),
        quota("lost", "nowhere", 0, 4),
        pod("big", "team-a", 5, "n1"),
        pod("small", "team-a", 2, "n1"),
        pod("mid", "team-a", 3, "n1"),
        pod("other", "team-b", 2, "n1"),
        pod("waits", "team-a", 4, ""),
        pod("plain", "", 1, "n1"),
    ];
    facts.drain(..).for_each(|fact| ledger.apply(fact));
    ledger
}

fn shares(quota: Option<&str>, with_pods: bool) -> Shares {
    let question = Question { quota: quota.map(str::to_owned), with_pods, ..Question::default() };
    Shares::of(&mut cluster(), &question).unwrap()
}

#[test]
fn quotas_are_shown_as_a_tree_with_what_they_lend_and_borrow() {
    insta::assert_snapshot!(shares(None, false).text(), @"
QUOTA                        RESOURCE  MIN   MAX   RUNTIME  REQUEST  USED          LENT  BORROWED
(cluster)                    cpu       -     -     16       15       13 (81%)      0     0
(cluster)                    memory    -     -     32Gi     9Gi      7.5Gi (23%)   0     0
  org                        cpu       12    16    14       14       12 (85%)      0     0
  org                        memory    12Gi  16Gi  7.5Gi    7.5Gi    6Gi (80%)     0     0
    team-a                   cpu       6     12    12       14       10 (83%)      0     4
    team-a                   memory    6Gi   12Gi  6Gi      6Gi      4.5Gi (75%)   0     0
    team-b                   cpu       6     12    2        2        2 (100%)      2     0
    team-b                   memory    6Gi   12Gi  1.5Gi    1.5Gi    1.5Gi (100%)  0     0
  spare                      cpu       0     4     0        0        0             0     0
  spare                      memory    0     4Gi   0        0        0             0     0
  koordinator-default-quota  cpu       -     -     -        1        1             0     0
  koordinator-default-quota  memory    -     -     -        1.5Gi    1.5Gi         0     0
");
    assert_eq!(
        shares(None, false).notes(),
        [
            "quota lost counts for nothing: its parent nowhere does not exist: create it or name another"
        ]
    );
}

#[test]
fn it_is_said_who_uses_a_quota_the_largest_first() {
    let own = shares(Some("org"), false).text();
    let (rows, pods) = own
        .split_once(
            "

",
        )
        .unwrap();
    let mut shown: Vec<&str> =
        rows.lines().filter_map(|row| row.split_whitespace().next()).collect();
    shown.dedup();
    assert_eq!(shown, ["QUOTA", "(cluster)", "org", "team-a", "team-b"]);
    insta::assert_snapshot!(pods, @"
QUOTA   POD         NODE  PRIORITY  REQUESTS
team-a  shop/big    n1    9         cpu 5, memory 1.5Gi
team-a  shop/mid    n1    9         cpu 3, memory 1.5Gi
team-b  shop/other  n1    9         cpu 2, memory 1.5Gi
team-a  shop/small  n1    9         cpu 2, memory 1.5Gi
");
    insta::assert_snapshot!(shares(None, true).text().split_once("\n\n").unwrap().1, @"
QUOTA                      POD         NODE  PRIORITY  REQUESTS
team-a                     shop/big    n1    9         cpu 5, memory 1.5Gi
team-a                     shop/mid    n1    9         cpu 3, memory 1.5Gi
team-a                     shop/small  n1    9         cpu 2, memory 1.5Gi
team-b                     shop/other  n1    9         cpu 2, memory 1.5Gi
koordinator-default-quota  shop/plain  n1    9         cpu 1, memory 1.5Gi
");
}

#[test]
fn programs_are_told_exact_amounts() {
    let all = shares(Some("team-b"), true).to_json();
    let names: Vec<&Value> =
        all["quotas"].as_array().unwrap().iter().map(|own| &own["quota"]).collect();
    assert_eq!(names, ["koordinator-root-quota", "org", "team-b"]);
    insta::assert_snapshot!(serde_json::to_string_pretty(&all["quotas"][2]).unwrap(), @r#"
{
  "borrowed": {
    "cpu": "0",
    "memory": "0"
  },
  "depth": 2,
  "lent": {
    "cpu": "2",
    "memory": "0"
  },
  "max": {
    "cpu": "12",
    "memory": "12Gi"
  },
  "min": {
    "cpu": "6",
    "memory": "6Gi"
  },
  "pods": [
    {
      "namespace": "shop",
      "node": "n1",
      "pod": "other",
      "priority": 9,
      "quota": "team-b",
      "requests": {
        "cpu": "2",
        "memory": "1536Mi"
      }
    }
  ],
  "podsLeftOut": 0,
  "quota": "team-b",
  "request": {
    "cpu": "2",
    "memory": "1536Mi"
  },
  "runtime": {
    "cpu": "2",
    "memory": "1536Mi"
  },
  "tree": "",
  "used": {
    "cpu": "2",
    "memory": "1536Mi"
  }
}
"#);
}

#[test]
fn quotas_of_every_cluster_of_which_nobody_uses_any_are_shown_to_who_asks_for_them() {
    let shown = |name: Option<&str>| {
        let mut ledger = cluster();
        // As it is made in every cluster.
        ledger.apply(quota("koordinator-system-quota", "", 0, 99));
        let question = Question { quota: name.map(str::to_owned), ..Question::default() };
        let shares = Shares::of(&mut ledger, &question).unwrap();
        shares.quotas.into_iter().map(|own| own.quota).collect::<Vec<_>>()
    };
    let is_system = |name: &String| name == "koordinator-system-quota";
    assert!(!shown(None).iter().any(is_system));
    assert!(shown(Some("koordinator-system-quota")).iter().any(is_system));
}

#[test]
fn what_makes_no_sense_in_quotas_and_names_of_quotas_that_are_not_there_are_told() {
    let mut ledger = cluster();
    let own = json!({
        "metadata": { "name": "odd", "namespace": "quotas" },
        "spec": { "min": { "cpu": 8 }, "max": { "cpu": 4 } },
    });
    let quotas = Quotas::of(vec![serde_json::from_value(own).unwrap()], None);
    quotas.apply(&mut ledger);
    ledger.apply(pod("typo", "taem-a", 1, "n1"));
    insta::assert_snapshot!(notes(&mut ledger, &quotas, None).join("\n"), @r"
quota lost counts for nothing: its parent nowhere does not exist: create it or name another
quota odd: it has min 8 > max 4 of cpu: lower min or raise max
1 pod names quota taem-a, which does not exist, and counts elsewhere: create it, or correct label quota.scheduling.koordinator.sh/name
");
    assert!(notes(&mut ledger, &quotas, Some("spare")).is_empty());
}

/// What is told of these quotas, or of one of them.
fn notes(ledger: &mut Ledger, quotas: &Quotas<'_>, name: Option<&str>) -> Vec<String> {
    let question = Question { quota: name.map(str::to_owned), ..Question::default() };
    let mut shares = Shares::of(ledger, &question).unwrap();
    shares.find_faults(ledger, quotas, &question);
    shares.notes()
}

#[test]
fn all_is_told_of_quotas_that_their_conditions_say() {
    let quota = |namespace: &str, name: &str, metadata: Value| {
        let own = json!({ "metadata": { "name": name, "namespace": namespace },
                          "spec": { "max": { "cpu": 4 } } });
        let own = object::patch::merge::apply(own, json!({ "metadata": metadata })).unwrap();
        serde_json::from_value::<ElasticQuota>(own).unwrap()
    };
    let root = json!({
        "labels": { IS_ROOT_LABEL: "true", IS_PARENT_LABEL: "true", TREE_ID_LABEL: "pool" },
        "annotations": { TOTAL_RESOURCE: r#"{"cpu":"8"}"# } });
    let all = vec![
        quota("a", "words", json!({ "annotations": { SHARED_WEIGHT: "much" } })),
        quota("a", "old-pool", root.clone()),
        quota("a", "pool", root),
        quota("a", DEFAULT_QUOTA, json!({})),
        quota("b", "words", json!({ "creationTimestamp": "2026-01-01T12:00:00Z" })),
    ];
    let mut ledger = Ledger::default();
    ledger.keep_quotas(Settings { trees: Trees::Many, ..Settings::default() });
    let quotas = Quotas::of(all, Some("own"));
    quotas.apply(&mut ledger);
    insta::assert_snapshot!(notes(&mut ledger, &quotas, None).join("\n"), @r#"
quota b/words counts for nothing: an older quota has its name
quota words: quota.scheduling.koordinator.sh/shared-weight has the value "much": write JSON such as {"cpu":"4","memory":"8Gi"}; until then it counts as if it were not there
quota old-pool: tree pool has two roots: old-pool, which alone says what the tree has, as the first by name, and pool; delete the one that no profile names any longer, or set quota.scheduling.koordinator.sh/is-root of it to false
quota pool: tree pool has two roots: old-pool, which alone says what the tree has, as the first by name, and pool; delete the one that no profile names any longer, or set quota.scheduling.koordinator.sh/is-root of it to false
quota a/koordinator-default-quota: it counts for nothing: a quota of this name counts in namespace own alone; give it another name
"#);
}

#[test]
fn a_quota_that_is_not_there_is_not_shown() {
    let of = |name: &str| {
        let question = Question { quota: Some(name.to_owned()), ..Question::default() };
        Shares::of(&mut cluster(), &question)
    };
    let error = of("nobody").unwrap_err().to_string();
    assert!(error.starts_with("there is no quota nobody; "), "{error}");
    assert_eq!(of("lost").unwrap().astray.len(), 1);
}
