//! Pods of Koordinator's scheduler, and Reservations.

use api::{NodeMetric, Reservation};
use engine::fact::ReservationFact;

use super::super::reservation::Asked;
use super::*;

/// A cluster of one node with 8 CPUs, of which 6 are held for pods of the shop and 2 are used.
fn cluster(profile: &ProfileConfig, held: Value) -> Ledger {
    let mut ledger = Ledger::default();
    profile.assemble().profile.keep(&mut ledger);
    let node = json!({
        "metadata": { "name": "n1" },
        "status": { "allocatable": { "cpu": "8", "memory": "8Gi", "pods": "10" } },
    });
    let node: Node = serde_json::from_value(node).unwrap();
    ledger.apply(Fact::Node(NodeFact::from(&node)));
    let running = json!({ "spec": { "nodeName": "n1", "containers": asking("2") } });
    ledger.apply(Fact::from(&pod("running", running)));
    let status = json!({ "status": { "phase": "Available", "nodeName": "n1",
                                     "allocatable": { "cpu": "6" } } });
    let held = object::patch::merge::apply(status, held).unwrap();
    ledger.apply(ReservationFact::told(&reservation("six", "6", held)));
    ledger
}

fn reservation(name: &str, cpu: &str, more: Value) -> Reservation {
    let own = json!({
        "metadata": { "name": name, "uid": name },
        "spec": { "allocateOnce": false, "allocatePolicy": "Restricted",
                  "owners": [{ "labelSelector": { "matchLabels": { "app": "shop" } } }],
                  "template": { "spec": { "schedulerName": "koord-scheduler",
                                          "containers": asking(cpu) } } },
    });
    serde_json::from_value(object::patch::merge::apply(own, more).unwrap()).unwrap()
}

/// What is answered about a pod of the shop.
fn answered(cpu: &str, held: Value, more: Value) -> Answer {
    let configuration = Configuration::of_both();
    let own = json!({ "metadata": { "labels": { "app": "shop" } },
                      "spec": { "schedulerName": "koord-scheduler", "containers": asking(cpu) } });
    let pod = pod("web-0", object::patch::merge::apply(own, more).unwrap());
    let fact = PodFact::from(&pod);
    let mut answer = Answer::begun(&pod, AnsweredBy::Objects, &configuration);
    let profile = answer.profile(&fact, &configuration).unwrap();
    let mut ledger = cluster(profile, held);
    ledger.apply(Fact::Pod(Box::new(fact.clone())));
    answer.work_out(&mut ledger, profile, &fact, NOW);
    round_trip(answer)
}

/// What is answered about a Reservation.
fn answered_of(own: &Reservation) -> Answer {
    let configuration = Configuration::of_both();
    let Asked { mut answer, fact } = Asked::begun(own, AnsweredBy::Objects, &configuration);
    if let Some(fact) = fact {
        let profile = answer.profile(&fact, &configuration).unwrap();
        let mut ledger = cluster(profile, json!({}));
        let owner = json!({ "metadata": { "labels": { "app": "shop" } },
                            "spec": { "nodeName": "n1", "containers": asking("1") } });
        ledger.apply(Fact::from(&pod("idle", owner)));
        ledger.apply(ReservationFact::told(own));
        answer.work_out(&mut ledger, profile, &fact, NOW);
    }
    round_trip(answer)
}

fn round_trip(answer: Answer) -> Answer {
    let wire = serde_json::to_string(&answer).unwrap();
    assert_eq!(serde_json::from_str::<Answer>(&wire).unwrap(), answer, "{wire}");
    answer
}

fn must_use() -> Value {
    json!({ "metadata": { "annotations": { api::reservation::AFFINITY: "{}" } } })
}

#[test]
fn a_pod_that_must_use_a_reservation_is_told_what_each_lacks() {
    insta::assert_snapshot!(answered("7", json!({}), must_use()).to_string(), @r#"
Pod shop/web-0 waits for a node.

0/1 nodes are available: 1 Reservation(s) Insufficient cpu. 1 Reservation(s) Insufficient cpu, 1 Reservation(s) matched owner total

None of 1 node can take it.
The nearest, and what each lacks:
  n1  has a reservation that is short of cpu by 1: 7 asked, 6 of 6 left

Reservations for it, and what is in the way of each:
  six on n1  is short of cpu by 1: 7 asked, 6 of 6 left

Each of these changes of the pod would admit it by itself:
  request 6 of cpu, not 7  to 1 node

This was worked out from the objects of the cluster by the profiles of `gantry up`, or of --config; no scheduler was asked.
"#);
}

#[test]
fn programs_are_told_of_reservations_what_people_are() {
    let taints = json!({ "spec": { "taints": [{ "key": "gpu", "effect": "NoSchedule" }] } });
    let nodes = answered("1", taints, must_use()).nodes;
    insta::assert_snapshot!(serde_json::to_string_pretty(&nodes).unwrap(), @r#"
{
  "all": 1,
  "fitting": 0,
  "promised": 0,
  "nearest": [
    {
      "node": "n1",
      "lacks": [
        {
          "plugin": "Reservation",
          "reason": "node(s) no reservation(s) to meet the requirements",
          "text": "has reservations for the pod, and none that it can use"
        }
      ]
    }
  ],
  "reservations": [
    {
      "name": "six",
      "node": "n1",
      "lacks": [
        {
          "plugin": "Reservation",
          "reason": "Reservation(s) had untolerated taint {gpu: }",
          "text": "has taint gpu:NoSchedule, which the pod's reservation affinity does not tolerate",
          "taint": "gpu:NoSchedule"
        }
      ]
    }
  ],
  "changes": [
    {
      "change": "tolerate taint gpu:NoSchedule in the reservation affinity",
      "nodes": 1
    },
    {
      "change": "name reservation six in the reservation affinity",
      "nodes": 1
    }
  ]
}
"#);
}

#[test]
fn a_reservation_without_a_node_is_told_what_is_missing_and_what_would_help() {
    insta::assert_snapshot!(answered_of(&reservation("big", "9", json!({}))).to_string(), @r#"
Reservation big waits for a node.

0/1 nodes are available: 1 Insufficient cpu.

None of 1 node can take it.
The nearest, and what each lacks:
  n1  is short of cpu by 10: 9 asked, -1 of 8 free

No single change of the reservation that was tried would admit it.

This was worked out from the objects of the cluster by the profiles of `gantry up`, or of --config; no scheduler was asked.
"#);
}

#[test]
fn a_reservation_that_takes_over_is_told_of_the_pods_it_could() {
    let takes = json!({ "spec": { "preAllocation": true } });
    insta::assert_snapshot!(answered_of(&reservation("big", "9", takes)).to_string(), @r#"
Reservation big waits for a node.

0/1 nodes are available: 1 Insufficient cpu by node.

None of 1 node can take it.
The nearest, and what each lacks:
  n1  is short of cpu by 9: 9 asked, 0 of 8 free

Pods that it could take over, and what is in the way of each:
  shop/idle on n1  its node is short of cpu by 9: 9 asked, 0 of 8 free

No single change of the reservation that was tried would admit it.

This was worked out from the objects of the cluster by the profiles of `gantry up`, or of --config; no scheduler was asked.
"#);
}

#[test]
fn a_reservation_for_which_no_node_is_looked_for_is_told_why() {
    let check = |more: Value, state: &str| {
        let answer = answered_of(&reservation("big", "9", more));
        assert_eq!(answer.nodes, None);
        let text = answer.to_string();
        assert_eq!(text.lines().next().unwrap(), format!("Reservation big {state}"));
    };
    let of = |name: &str| json!({ "spec": { "template": { "spec": { "schedulerName": name } } } });
    for name in ["default-scheduler", "mine"] {
        let expected = format!(
            "waits for scheduler {name:?}, and no profile of that name gives reservations their nodes, \
             but that of koord-scheduler does: name it in spec.template.spec.schedulerName, or enable \
             plugin Reservation under filter in a profile of that name."
        );
        check(of(name), &expected);
    }
    let held = json!({ "phase": "Available", "nodeName": "n1", "allocatable": { "cpu": "9" } });
    check(json!({ "status": held }), "has a node: n1.");
    check(json!({ "status": { "phase": "Failed" } }), "has ended (Failed) and needs no node.");
    let deleted = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } });
    check(deleted, "is being deleted: no node is looked for.");
    check(
        json!({ "spec": { "owners": [] } }),
        "cannot be read, and no node is looked for: spec.owners has the value \"\": name at least one \
         owner: an object, a controller or a labelSelector.",
    );
    let own = reservation("big", "9", json!({}));
    let Asked { answer, fact } = Asked::begun(&own, AnsweredBy::Objects, &Configuration::default());
    assert!(fact.is_none());
    let text = answer.to_string();
    assert!(text.contains("no profile of who answers gives reservations their nodes"), "{text}");
}

#[test]
fn a_node_that_is_used_too_much_is_told_with_all_that_is_known() {
    let configuration = Configuration::of_both();
    let own = json!({ "spec": { "schedulerName": "koord-scheduler", "containers": asking("1") } });
    let pod = pod("web-0", own);
    let fact = PodFact::from(&pod);
    let mut answer = Answer::begun(&pod, AnsweredBy::Objects, &configuration);
    let profile = answer.profile(&fact, &configuration).unwrap();
    let mut ledger = cluster(profile, json!({ "status": { "phase": "Failed" } }));
    let usage = json!({ "nodeUsage": { "resources": { "cpu": "7" } } });
    let metric = json!({ "metadata": { "name": "n1" },
        "status": { "updateTime": "1970-01-01T00:16:28Z", "nodeMetric": usage } });
    let metric: NodeMetric = serde_json::from_value(metric).unwrap();
    ledger.apply(Fact::from(metric));
    ledger.apply(Fact::Pod(Box::new(fact.clone())));
    answer.work_out(&mut ledger, profile, &fact, NOW);
    let nodes = round_trip(answer).nodes.unwrap();
    insta::assert_snapshot!(serde_json::to_string_pretty(&nodes.nearest).unwrap(), @r#"
[
  {
    "node": "n1",
    "lacks": [
      {
        "plugin": "LoadAwareScheduling",
        "reason": "node(s) cpu usage exceed threshold",
        "text": "would use 119 % of its cpu, of which at most 65 % may be: by what it uses now, reported 12 s ago, and what its newest pods are taken to use beyond that",
        "load": {
          "resource": "cpu",
          "percent": 119,
          "threshold": 65,
          "figure": "what it uses now",
          "reportedSecondsAgo": 12,
          "isEstimated": true
        }
      }
    ]
  }
]
"#);
}
