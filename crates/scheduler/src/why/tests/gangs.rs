//! Pods that start together or not at all.

use api::pod_group::GangId;
use engine::quota::QuotaFact;

use super::super::group::{Strays, note};
use super::*;

/// A gang of an object that needs so many members, and names these.
fn group(name: &str, min: i32, groups: &[&str]) -> Fact {
    let mut own = json!({
        "metadata": { "name": name, "namespace": "shop" },
        "spec": { "minMember": min },
    });
    if !groups.is_empty() {
        let groups = serde_json::to_string(groups).unwrap();
        let more = json!({ "gang.scheduling.koordinator.sh/groups": groups });
        own["metadata"]["annotations"] = more;
    }
    crate::gangs::fact(&serde_json::from_value(own).unwrap())
}

/// A member that asks for so many CPUs, with more of its own.
fn member(name: &str, of: &str, cpu: &str, more: Value) -> Pod {
    let labels = json!({ "pod-group.scheduling.sigs.k8s.io": of });
    let spec = json!({ "schedulerName": "koord-scheduler", "containers": asking(cpu) });
    let own = json!({ "metadata": { "labels": labels }, "spec": spec });
    pod(name, object::patch::merge::apply(own, more).unwrap())
}

fn node(name: &str, cpu: &str) -> Fact {
    let node = json!({
        "metadata": { "name": name },
        "status": { "allocatable": { "cpu": cpu, "memory": "64Gi", "pods": "99" } },
    });
    Fact::Node(NodeFact::from(&serde_json::from_value::<Node>(node).unwrap()))
}

/// What is answered about a pod, or about a gang where none of that name is there.
fn asked(name: &str, facts: Vec<Fact>, pods: &[Pod]) -> Answer {
    let configuration = Configuration::of_koordinator();
    let mut ledger = Ledger::default();
    let profile = group::heeding(&configuration)[0];
    profile.assemble().profile.keep(&mut ledger);
    ledger.stand_for(["koord-scheduler".into()]);
    facts.into_iter().for_each(|fact| ledger.apply(fact));
    let mut candidates = Candidates::new();
    for pod in pods {
        let mut fact = PodFact::from(pod);
        note(&mut candidates, &mut fact, &configuration);
        ledger.apply(Fact::Pod(Box::new(fact)));
    }
    let own = pods.iter().find(|pod| pod.metadata.name == name);
    let by = AnsweredBy::Objects;
    let (mut answer, gang) = match own {
        Some(own) => {
            let gang = PodFact::from(own).gang.unwrap().gang.clone();
            (Answer::begun(own, by, &configuration), gang)
        }
        None => (Answer::of_gang("shop", name, by, &configuration), GangId::new("shop", name)),
    };
    let holders = |ledger: &Ledger, quota: &str| ledger.quota_holders(quota, HOLDERS_MAX);
    let unplaced = answer.ask_group(&mut ledger, &gang, &candidates, &configuration, holders);
    if let Some(unplaced) = unplaced {
        let fact = pods.iter().find(|pod| pod.metadata.name == unplaced.name).unwrap();
        let fact = PodFact::from(fact);
        answer.explain_unplaced(&mut ledger, &unplaced, &fact, &configuration, NOW);
    } else if let Some(own) = own.filter(|_| !answer.is_held_by_group()) {
        answer.work_out(&mut ledger, profile, &PodFact::from(own), NOW);
    }
    let wire = serde_json::to_string(&answer).unwrap();
    assert_eq!(serde_json::from_str::<Answer>(&wire).unwrap(), answer, "{wire}");
    answer
}

/// The same in words, without who answers.
fn told(name: &str, facts: Vec<Fact>, pods: &[Pod]) -> String {
    let text = asked(name, facts, pods).to_string();
    text.rsplit_once("\n\nThis was worked out").unwrap().0.to_owned()
}

fn members(gang: &str, cpus: &[&str]) -> Vec<Pod> {
    let each = cpus.iter().enumerate();
    each.map(|(number, cpu)| member(&format!("{gang}-{number}"), gang, cpu, json!({}))).collect()
}

#[test]
fn a_member_of_a_gang_that_has_too_few_is_told_of_which_gang_how_many_are_missing() {
    let gated = json!({ "spec": { "schedulingGates": [{ "name": "later" }] } });
    let others = json!({ "spec": { "schedulerName": "mine" } });
    let mut pods = members("g", &["1", "1"]);
    pods.push(member("g-2", "g", "1", gated));
    pods.push(member("g-3", "g", "1", others));
    insta::assert_snapshot!(told("g-0", vec![node("n1", "8"), group("g", 4, &[])], &pods), @"
Pod shop/g-0 waits for a node.

It is a member of gang shop/g:
  shop/g  4 of 4 there, 0 with a node, 2 waiting, 1 held back by scheduling gates, 1 of another scheduler

No node is looked for yet: gang shop/g waits for members: collected 2/4.
");
}

#[test]
fn a_gang_that_nothing_describes_or_that_another_has_to_start_before_says_what_to_do() {
    let alone = told("g-0", vec![node("n1", "8")], &members("g", &["1"]));
    insta::assert_snapshot!(alone, @"
Pod shop/g-0 waits for a node.

It is a member of gang shop/g:
  shop/g  1 there, and nothing says how many there must be, 0 with a node, 1 waiting

No node is looked for yet: gang shop/g is not described: create PodGroup shop/g.
");
    let names = ["shop/g", "shop/gone", "shop/other"];
    let facts = || vec![node("n1", "8"), group("g", 1, &names), group("other", 2, &[])];
    insta::assert_snapshot!(told("g-0", facts(), &members("g", &["1"])), @"
Pod shop/g-0 waits for a node.

It is a member of gang shop/g:
  shop/g  1 of 1 there, 0 with a node, 1 waiting

No node is looked for yet: waiting for gang shop/gone: gang shop/gone is not described: create PodGroup shop/gone.
  gang shop/gone, which is named to start with these, is not there: create it, or take it out of annotation gang.scheduling.koordinator.sh/groups
  gang shop/other does not name the same gangs, so that it has to start first: have it name shop/g,shop/gone,shop/other as well, or take it out of annotation gang.scheduling.koordinator.sh/groups
");
}

#[test]
fn a_gang_that_has_too_few_nodes_says_how_many_fit_and_what_the_first_lacks_that_does_not() {
    let facts = vec![node("n1", "4"), node("n2", "3"), group("g", 3, &[])];
    let pods = members("g", &["2", "3", "2500m"]);
    insta::assert_snapshot!(told("g-0", facts, &pods), @r#"
Pod shop/g-0 waits for a node.

It is a member of gang shop/g:
  shop/g  3 of 3 there, 0 with a node, 3 waiting, 3 needed at once

GangGroup "shop/g" gets rejected due to member Pod "shop/g-0" is unschedulable with reason "0/2 nodes are available: 2 Insufficient cpu.", alreadyWaitForBound: 2

2 of 3 members that are needed can have a node. The first that gets none is shop/g-0.

While the others have theirs:
None of 2 nodes can take it.
The nearest, and what each lacks:
  n1  is short of cpu by 1: 2 asked, 1 of 4 free
  n2  is short of cpu by 1500m: 2 asked, 500m of 3 free

Each of these changes of the pod would admit it by itself:
  request 1 of cpu, not 2  to 1 node
"#);
}

#[test]
fn programs_are_told_of_a_gang_what_people_are() {
    let facts = vec![node("n1", "4"), group("g", 2, &[])];
    let answer = asked("g", facts, &members("g", &["2", "3"]));
    insta::assert_snapshot!(serde_json::to_string_pretty(&answer).unwrap(), @r#"
{
  "namespace": "shop",
  "gang": "g",
  "answeredBy": "objects",
  "state": "unstarted",
  "message": "GangGroup \"shop/g\" gets rejected due to member Pod \"shop/g-0\" is unschedulable with reason \"0/1 nodes are available: 1 Insufficient cpu.\", alreadyWaitForBound: 1",
  "group": {
    "name": "shop/g",
    "phase": "complete",
    "gangs": [
      {
        "gang": "shop/g",
        "isObject": true,
        "min": 2,
        "matchPolicy": "once-satisfied",
        "members": 2,
        "placed": 0,
        "waiting": 2,
        "needed": 2
      }
    ],
    "plan": {
      "needed": 2,
      "fitting": 1,
      "refused": {
        "namespace": "shop",
        "pod": "g-0",
        "isQuotaForAll": false,
        "nodes": {
          "all": 1,
          "fitting": 0,
          "promised": 0,
          "nearest": [
            {
              "node": "n1",
              "lacks": [
                {
                  "plugin": "NodeResourcesFit",
                  "reason": "Insufficient cpu",
                  "text": "is short of cpu by 1: 2 asked, 1 of 4 free",
                  "shortage": {
                    "resource": "cpu",
                    "asked": "2",
                    "free": "1",
                    "allocatable": "4",
                    "missing": "1"
                  }
                }
              ]
            }
          ],
          "changes": [
            {
              "change": "request 1 of cpu, not 2",
              "nodes": 1
            }
          ]
        }
      }
    }
  }
}
"#);
}

#[test]
fn a_gang_that_fits_waits_for_its_turn_and_one_that_has_started_leaves_each_pod_to_itself() {
    let facts = || {
        vec![
            node("n1", "4"),
            group("g", 2, &["shop/g", "shop/h"]),
            group("h", 1, &["shop/g", "shop/h"]),
        ]
    };
    let mut pods = members("g", &["1", "1"]);
    pods.extend(members("h", &["2"]));
    insta::assert_snapshot!(told("h-0", facts(), &pods), @"
Pod shop/h-0 waits for a node.

It is a member of gang shop/h. These start at once:
  shop/g  2 of 2 there, 0 with a node, 2 waiting, 2 needed at once
  shop/h  1 of 1 there, 0 with a node, 1 waiting, 1 needed at once

All 3 members that are needed can have a node now: they wait for their turn, or for their back-off to end.
If it goes on waiting, look whether a scheduler of its name runs.
");
    let placed = |own: &Pod| {
        let mut own = own.clone();
        own.spec.node_name = "n1".to_owned();
        own
    };
    let mut started: Vec<Pod> = pods.iter().map(placed).collect();
    started.push(member("late", "g", "9", json!({})));
    insta::assert_snapshot!(told("late", facts(), &started), @"
Pod shop/late waits for a node.

It is a member of gang shop/g. These start at once:
  shop/g  3 of 2 there, 2 with a node, 1 waiting
  shop/h  1 of 1 there, 1 with a node, 0 waiting
It has started: each member that comes is by itself.

0/1 nodes are available: 1 Insufficient cpu.

None of 1 node can take it.
The nearest, and what each lacks:
  n1  is short of cpu by 9: 9 asked, 0 of 4 free

No single change of the pod that was tried would admit it.
");
    insta::assert_snapshot!(told("g", facts(), &started), @"
Gang shop/g has started: each member that comes is by itself.

These start at once:
  shop/g  3 of 2 there, 2 with a node, 1 waiting
  shop/h  1 of 1 there, 1 with a node, 0 waiting
");
}

#[test]
fn a_gang_that_its_quota_has_no_room_for_is_told_of_all_of_it() {
    let quota = json!({
        "metadata": { "name": "team", "namespace": "quotas" },
        "spec": { "min": { "cpu": 2 }, "max": { "cpu": 5 } },
    });
    let quota = QuotaFact::read(&serde_json::from_value(quota).unwrap()).0;
    let facts = vec![node("n1", "20"), group("g", 3, &[]), Fact::Quota(Box::new(quota))];
    let labels =
        json!({ "metadata": { "labels": { "quota.scheduling.koordinator.sh/name": "team" } } });
    let pods: Vec<Pod> =
        (0..3).map(|own| member(&format!("g-{own}"), "g", "2", labels.clone())).collect();
    insta::assert_snapshot!(told("g-1", facts, &pods), @r#"
Pod shop/g-1 waits for a node.

It is a member of gang shop/g:
  shop/g  3 of 3 there, 0 with a node, 3 waiting, 3 needed at once

GangGroup "shop/g" gets rejected due to member Pod "shop/g-2" is unschedulable with reason "0/1 nodes are available: Insufficient quotas, quotaName: team, runtime: cpu 5, used: cpu 4, pod's request: cpu 2, exceedDimensions: [cpu].", alreadyWaitForBound: 2

2 of 3 members that are needed can have a node. The first that gets none is shop/g-2.

Of what all that are needed ask for together:
Quota team has no room for it.
  It is short of cpu by 1: 6 asked, 0 of runtime 5 used

Each of these changes would let it in by itself:
  raise max of quota team to 6 of cpu
"#);
}

#[test]
fn members_whose_scheduler_has_each_pod_start_by_itself_are_told_of() {
    let configuration = Configuration::of_both();
    let of = |name: &str, scheduler: &str| {
        let more = json!({ "spec": { "schedulerName": scheduler } });
        PodFact::from(&member(name, "g", "1", more))
    };
    let told = |pods: &[PodFact]| {
        let mut strays = Strays::default();
        let gang = GangId::new("shop", "g");
        pods.iter().for_each(|pod| strays.note(pod, &gang, &configuration));
        strays.hints(&configuration).collect::<Vec<_>>().join("; ")
    };
    let (own, stray) = (of("a", "koord-scheduler"), of("b", "default-scheduler"));
    assert_eq!(told(&[own.clone(), of("c", "mine")]), "");
    insta::assert_snapshot!(told(&[own, stray.clone()]), @"1 pod names the gang and scheduler default-scheduler, which has each pod start by itself: make pods with schedulerName koord-scheduler instead");
    insta::assert_snapshot!(told(&[stray.clone(), stray]), @"2 pods name the gang and scheduler default-scheduler, which has each pod start by itself: make pods with schedulerName koord-scheduler instead");
}

#[test]
fn nobody_answers_for_a_gang_that_is_not_there_or_where_none_are_kept() {
    assert_eq!(asked("nobody", vec![node("n1", "4")], &[]).group, None);
    insta::assert_snapshot!(WhyError::no_gang("shop", "nobody"), @"there is no gang nobody in namespace shop: no PodGroup has that name, and no pod says that it is of it; `kubectl get podgroups --all-namespaces` lists the PodGroups there are");
    let alone = Answer::of_gang("shop", "g", AnsweredBy::Objects, &Configuration::default());
    insta::assert_snapshot!(alone, @"
Gang shop/g is looked after by nobody: no profile of who answers has pods start together. Enable plugin Coscheduling in one. Where another scheduler does, ask it (--scheduler URL), or name its configuration (--config FILE).

This was worked out from the objects of the cluster by the profiles of `gantry up`, or of --config; no scheduler was asked.
");
}
