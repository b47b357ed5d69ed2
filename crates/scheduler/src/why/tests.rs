mod gangs;
mod quotas;
mod reserved;

use api::Node;
use engine::fact::NodeFact;
use serde_json::{Value, json};

use super::*;

const NOW: Moment = Moment(1_000_000_000_000);

/// A pod of a namespace, with more of its own.
fn pod(name: &str, more: Value) -> Pod {
    let pod = json!({
        "metadata": { "name": name, "namespace": "shop", "uid": name },
        "spec": { "schedulerName": "default-scheduler", "containers": [{ "name": "main" }] },
    });
    let pod = object::patch::merge::apply(pod, more).unwrap();
    serde_json::from_value(pod).unwrap()
}

fn asking(cpu: &str) -> Value {
    json!([{ "name": "main", "resources": { "requests": { "cpu": cpu } } }])
}

/// Three nodes: one with 500m left, one tainted, one cordoned.
fn cluster() -> Ledger {
    let mut ledger = Ledger::default();
    let nodes = [
        ("full", "2", json!({})),
        ("tainted", "4", json!({ "taints": [{ "key": "gpu", "effect": "NoSchedule" }] })),
        ("cordoned", "4", json!({ "unschedulable": true })),
    ];
    for (name, cpu, spec) in nodes {
        let allocatable = json!({ "cpu": cpu, "memory": "8Gi", "pods": "10" });
        let node = json!({
            "metadata": { "name": name },
            "spec": spec,
            "status": { "allocatable": allocatable },
        });
        let node: Node = serde_json::from_value(node).unwrap();
        ledger.apply(Fact::Node(NodeFact::from(&node)));
    }
    let running = json!({ "spec": { "nodeName": "full", "containers": asking("1500m") } });
    ledger.apply(Fact::from(&pod("running", running)));
    ledger
}

/// What is answered about a pod.
fn answered(more: Value) -> Answer {
    let (configuration, pod) = (Configuration::default(), pod("web-0", more));
    let mut answer = Answer::begun(&pod, AnsweredBy::Objects, &configuration);
    let fact = PodFact::from(&pod);
    if let Some(profile) = answer.profile(&fact, &configuration) {
        let mut ledger = cluster();
        ledger.apply(Fact::Pod(Box::new(fact.clone())));
        answer.work_out(&mut ledger, profile, &fact, NOW);
    }
    let wire = serde_json::to_string(&answer).unwrap();
    assert_eq!(serde_json::from_str::<Answer>(&wire).unwrap(), answer, "{wire}");
    answer
}

#[test]
fn a_pod_that_no_node_can_take_is_told_what_is_missing_and_what_would_help() {
    let answer = answered(json!({ "spec": { "containers": asking("1") } }));
    insta::assert_snapshot!(answer.to_string(), @r#"
Pod shop/web-0 waits for a node.

0/3 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable. no new claims to deallocate, preemption: 0/3 nodes are available: 1 No preemption victims found for incoming pod, 2 Preemption is not helpful for scheduling.

None of 3 nodes can take it.
The nearest, and what each lacks:
  full      is short of cpu by 500m: 1 asked, 500m of 2 free
  tainted   has taint gpu:NoSchedule, which is not tolerated
  cordoned  is cordoned

Each of these changes of the pod would admit it by itself:
  request 500m of cpu, not 1                                  to 1 node
  tolerate taint gpu:NoSchedule                               to 1 node
  tolerate taint node.kubernetes.io/unschedulable:NoSchedule  to 1 node

This was worked out from the objects of the cluster by the profiles of `gantry up`, or of --config; no scheduler was asked.
"#);
}

#[test]
fn programs_are_told_the_same_as_people() {
    let answer = answered(json!({ "spec": { "containers": asking("1") } }));
    insta::assert_snapshot!(serde_json::to_string_pretty(&answer).unwrap(), @r#"
{
  "namespace": "shop",
  "pod": "web-0",
  "answeredBy": "objects",
  "state": "waiting",
  "message": "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable. no new claims to deallocate, preemption: 0/3 nodes are available: 1 No preemption victims found for incoming pod, 2 Preemption is not helpful for scheduling.",
  "nodes": {
    "all": 3,
    "fitting": 0,
    "promised": 0,
    "nearest": [
      {
        "node": "full",
        "lacks": [
          {
            "plugin": "NodeResourcesFit",
            "reason": "Insufficient cpu",
            "text": "is short of cpu by 500m: 1 asked, 500m of 2 free",
            "shortage": {
              "resource": "cpu",
              "asked": "1",
              "free": "500m",
              "allocatable": "2",
              "missing": "500m"
            }
          }
        ]
      },
      {
        "node": "tainted",
        "lacks": [
          {
            "plugin": "TaintToleration",
            "reason": "node(s) had untolerated taint(s)",
            "text": "has taint gpu:NoSchedule, which is not tolerated",
            "taint": "gpu:NoSchedule"
          }
        ]
      },
      {
        "node": "cordoned",
        "lacks": [
          {
            "plugin": "NodeUnschedulable",
            "reason": "node(s) were unschedulable",
            "text": "is cordoned"
          }
        ]
      }
    ],
    "changes": [
      {
        "change": "request 500m of cpu, not 1",
        "nodes": 1
      },
      {
        "change": "tolerate taint gpu:NoSchedule",
        "nodes": 1
      },
      {
        "change": "tolerate taint node.kubernetes.io/unschedulable:NoSchedule",
        "nodes": 1
      }
    ]
  }
}
"#);
}

#[test]
fn where_no_single_change_helps_it_says_so() {
    let spec = json!({ "containers": asking("8"), "nodeSelector": { "zone": "c" } });
    let answer = answered(json!({ "spec": spec }));
    insta::assert_snapshot!(answer.to_string(), @r#"
Pod shop/web-0 waits for a node.

0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable. no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.

None of 3 nodes can take it.
The nearest, and what each lacks:
  full      lacks label zone=c
            is short of cpu by 7500m: 8 asked, 500m of 2 free
  tainted   has taint gpu:NoSchedule, which is not tolerated
            lacks label zone=c
            is short of cpu by 4: 8 asked, 4 of 4 free
  cordoned  is cordoned
            lacks label zone=c
            is short of cpu by 4: 8 asked, 4 of 4 free

No single change of the pod that was tried would admit it.

This was worked out from the objects of the cluster by the profiles of `gantry up`, or of --config; no scheduler was asked.
"#);
}

#[test]
fn a_pod_that_fits_waits_for_its_turn() {
    let mut answer = answered(json!({ "spec": { "containers": asking("100m") } }));
    answer.answered_by = AnsweredBy::Scheduler;
    let standing = Some(Standing::Backoff { seconds_left: 3 });
    answer.state = State::Waiting { standing, nominated: Some("full".to_owned()) };
    insta::assert_snapshot!(answer.to_string(), @r#"
Pod shop/web-0 waits for a node. It was refused lately and is tried again within 3 s. Room is being made for it on full.

1 of 3 nodes can take it now: it waits for its turn, or for its back-off to end.

This is what the scheduler that runs says.
"#);
}

#[test]
fn a_pod_for_which_no_node_is_looked_for_is_told_why() {
    let check = |more: Value, state: &str| {
        let answer = answered(more);
        assert_eq!(answer.nodes, None);
        let text = answer.to_string();
        let first = text.lines().next().unwrap();
        assert_eq!(first, format!("Pod shop/web-0 {state}"));
    };
    check(json!({ "spec": { "nodeName": "full" } }), "has a node: full.");
    check(
        json!({ "spec": { "nodeName": "full" }, "status": { "phase": "Failed" } }),
        "has ended (Failed) and needs no node.",
    );
    let deleted = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } });
    check(deleted, "is being deleted: no node is looked for.");
    check(
        json!({ "spec": { "schedulingGates": [{ "name": "a" }, { "name": "b" }] } }),
        "is held back by scheduling gates a, b: no node is looked for until nothing is left in \
         spec.schedulingGates.",
    );
    check(
        json!({ "spec": { "schedulerName": "mine" } }),
        "waits for scheduler \"mine\", and who answers decides for default-scheduler: run a \
         scheduler of that name, or correct spec.schedulerName or the label \
         scheduling.koordinator.sh/scheduler-name. Where one runs, ask it (--scheduler URL), or name \
         its configuration (--config FILE).",
    );
}

#[test]
fn extenders_that_have_a_say_are_named() {
    let file = format!(
        "apiVersion: {}\nkind: {}\nextenders:\n- {{urlPrefix: 'http://e', filterVerb: f, \
         managedResources: [{{name: e/x}}]}}\n- {{urlPrefix: 'http://b', bindVerb: b}}\n",
        crate::config::API_VERSION,
        crate::config::KIND
    );
    let configuration = crate::config::parse("f".as_ref(), &file).unwrap();
    let check = |resource: &str, expected: &[&str]| {
        let limits = json!({ "containers": [{ "name": "main",
            "resources": { "limits": { resource: "1" } } }] });
        let told = json!([{ "type": "PodScheduled", "status": "False", "message": "0/3: no." }]);
        let pod = pod("web-0", json!({ "spec": limits, "status": { "conditions": told } }));
        let mut answer = Answer::begun(&pod, AnsweredBy::Objects, &configuration);
        answer.name_extenders(&PodFact::from(&pod), &configuration);
        assert_eq!(answer.extenders, expected, "{resource}");
        assert_eq!(last_told(&pod).as_deref(), Some("0/3: no."));
        answer.to_string()
    };
    let text = check("e/x", &["http://e"]);
    assert!(text.contains("Extenders have a say too, which is not counted here: http://e\n"));
    check("e/y", &[]);
}
