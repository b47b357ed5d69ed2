//! A pod that its quota has no room for.

use engine::quota::QuotaFact;

use super::*;

/// A quota of so many CPUs below another.
fn quota(name: &str, parent: &str, min: i64, max: i64) -> Fact {
    let own = json!({
        "metadata": { "name": name, "namespace": "quotas",
                      "labels": { "quota.scheduling.koordinator.sh/parent": parent } },
        "spec": { "min": { "cpu": min }, "max": { "cpu": max } },
    });
    Fact::Quota(Box::new(QuotaFact::read(&serde_json::from_value(own).unwrap()).0))
}

/// A pod of a quota that asks for so many CPUs, on a node or without one.
fn charged(name: &str, quota: &str, cpu: &str, node: &str) -> Pod {
    let labels = json!({ "quota.scheduling.koordinator.sh/name": quota });
    pod(
        name,
        json!({ "metadata": { "labels": labels },
                "spec": { "schedulerName": "koord-scheduler", "nodeName": node,
                          "containers": asking(cpu) } }),
    )
}

/// What is answered about a pod of a quota that asks for so many CPUs.
fn asked(quotas: &[Fact], pods: &[Pod], own: &Pod) -> Answer {
    let configuration = Configuration::of_koordinator();
    let mut answer = Answer::begun(own, AnsweredBy::Objects, &configuration);
    let fact = PodFact::from(own);
    let profile = answer.profile(&fact, &configuration).unwrap();
    let mut ledger = Ledger::default();
    profile.assemble().profile.keep(&mut ledger);
    let node = json!({ "metadata": { "name": "n1" },
                       "status": { "allocatable": { "cpu": "20", "memory": "64Gi", "pods": "99" } } });
    ledger.apply(Fact::Node(NodeFact::from(&serde_json::from_value::<Node>(node).unwrap())));
    quotas.iter().cloned().for_each(|fact| ledger.apply(fact));
    pods.iter().for_each(|pod| ledger.apply(Fact::from(pod)));
    ledger.apply(Fact::from(own));
    answer.work_out(&mut ledger, profile, &fact, NOW);
    let wire = serde_json::to_string(&answer).unwrap();
    assert_eq!(serde_json::from_str::<Answer>(&wire).unwrap(), answer, "{wire}");
    answer
}

#[test]
fn a_pod_over_the_ceiling_of_its_quota_is_told_who_uses_it_and_what_would_let_it_in() {
    let pods: Vec<Pod> = (0..12)
        .map(|number| {
            charged(
                &format!("web-{number:02}"),
                "team",
                if number == 7 { "2" } else { "500m" },
                "n1",
            )
        })
        .collect();
    let answer = asked(&[quota("team", "", 4, 8)], &pods, &charged("late", "team", "1500m", ""));
    insta::assert_snapshot!(answer.to_string(), @"
Pod shop/late waits for a node.

0/1 nodes are available: Insufficient quotas, quotaName: team, runtime: cpu 8, used: cpu 7500m, pod's request: cpu 1500m, exceedDimensions: [cpu].

Quota team has no room for it.
  It is short of cpu by 1: 1500m asked, 7500m of runtime 8 used

Who uses it, the largest first:
  shop/web-07  cpu 2
  shop/web-00  cpu 500m
  shop/web-01  cpu 500m
  shop/web-02  cpu 500m
  shop/web-03  cpu 500m
  shop/web-04  cpu 500m
  shop/web-05  cpu 500m
  shop/web-06  cpu 500m
  shop/web-08  cpu 500m
  shop/web-09  cpu 500m
  and 2 more

Each of these changes would let it in by itself:
  have pods of quota team use 1 of cpu less
  raise max of quota team to 9 of cpu

1 of 1 node could take it, were it not for the quota.

This was worked out from the objects of the cluster by the profiles of `gantry up`, or of --config; no scheduler was asked.
");
}

#[test]
fn a_pod_whose_quota_has_lent_room_away_is_told_of_the_guarantee() {
    let quotas = [quota("org", "", 0, 20), quota("a", "org", 2, 9), quota("b", "org", 0, 20)];
    let pods = [
        charged("mine", "a", "2", "n1"),
        charged("theirs", "b", "8", "n1"),
        charged("more", "b", "12", ""),
    ];
    let answer = asked(&quotas, &pods, &charged("late", "a", "6", ""));
    insta::assert_snapshot!(answer.to_string(), @"
Pod shop/late waits for a node.

0/1 nodes are available: Insufficient quotas, quotaName: a, runtime: cpu 7586m, used: cpu 2, pod's request: cpu 6, exceedDimensions: [cpu].

Quota a has no room for it.
  It is short of cpu by 414m: 6 asked, 2 of runtime 7586m used

Who uses it, the largest first:
  shop/mine  cpu 2

Each of these changes would let it in by itself:
  have pods of quota a use 414m of cpu less
  raise min of quota a to 8 of cpu

1 of 1 node could take it, were it not for the quota.

This was worked out from the objects of the cluster by the profiles of `gantry up`, or of --config; no scheduler was asked.
");
}

#[test]
fn a_pod_whose_quota_is_held_back_by_one_above_is_told_of_that_one() {
    let quotas = [quota("small", "", 0, 4), quota("large", "small", 0, 16)];
    let answer = asked(&quotas, &[], &charged("late", "large", "5", ""));
    insta::assert_snapshot!(answer.quota.unwrap(), @"
Quota large has no room for it.
  It is short of cpu by 1: 5 asked, 0 of runtime 4 used
  Quota small above it never goes beyond its max 4 of cpu, and 5 would be used

Each of these changes would let it in by itself:
  raise max of quota small to 5 of cpu
");
    let quotas =
        [quota("top", "", 0, 3), quota("small", "top", 0, 4), quota("large", "small", 0, 16)];
    let answer = asked(&quotas, &[], &charged("late", "large", "5", ""));
    insta::assert_snapshot!(answer.quota.unwrap(), @"
Quota large has no room for it.
  It is short of cpu by 2: 5 asked, 0 of runtime 3 used
  Quota small above it never goes beyond its max 4 of cpu, and 5 would be used
  Quota top above it never goes beyond its max 3 of cpu, and 5 would be used

No single change of the quota that was tried would let it in.
");
}

#[test]
fn a_pod_that_names_a_quota_that_is_not_there_is_told_where_it_is_charged() {
    let answer = asked(&[quota("team", "", 0, 8)], &[], &charged("late", "taem", "1", ""));
    insta::assert_snapshot!(answer.hints.join("\n"), @"It names quota taem, which does not exist, and is charged to quota koordinator-default-quota: create it, or correct label quota.scheduling.koordinator.sh/name.");
    let answer = asked(&[quota("team", "", 0, 8)], &[], &charged("late", "team", "1", ""));
    assert!(answer.hints.is_empty());
}

#[test]
fn a_pod_of_a_quota_that_is_nowhere_is_told_why() {
    let answer = asked(&[quota("team", "gone", 0, 8)], &[], &charged("late", "team", "1", ""));
    insta::assert_snapshot!(answer.to_string(), @"
Pod shop/late waits for a node.

0/1 nodes are available: quota team admits nothing: its parent gone does not exist: create it or name another.

Quota team has no room for it.
  quota team admits nothing: its parent gone does not exist: create it or name another

No single change of the quota that was tried would let it in.

1 of 1 node could take it, were it not for the quota.

This was worked out from the objects of the cluster by the profiles of `gantry up`, or of --config; no scheduler was asked.
");
}
