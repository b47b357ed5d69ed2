use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::facts::testing::{at, meta, pod};

fn set(replicas: i32) -> Packed<ReplicaSet> {
    let spec = json!({
        "replicas": replicas, "selector": { "matchLabels": { "app": "web" } },
        "template": { "metadata": { "labels": { "app": "web", "v": "1" } } }
    });
    Packed::new(ReplicaSet {
        metadata: meta("web", "me"),
        spec: serde_json::from_value(spec).unwrap(),
        status: ReplicaSetStatus::default(),
    })
}

fn names(pods: &[&PodFact]) -> String {
    pods.iter().map(|pod| pod.meta.key.name()).collect::<Vec<_>>().join(" ")
}

fn planned(set: &Packed<ReplicaSet>, pods: &[PodFact], claims: &Claims) -> String {
    let pods: Vec<&PodFact> = pods.iter().collect();
    let crowding = BTreeMap::new();
    let facts = Facts { set, pods: &pods, claims, crowding: &crowding, now: at(100) };
    let plan = plan(&facts);
    format!(
        "adopt[{}] release[{}] own[{}] create {} delete[{}]",
        names(&plan.adopt),
        names(&plan.release),
        names(&plan.own),
        plan.create,
        names(&plan.delete)
    )
}

#[test]
fn a_set_makes_what_is_missing_and_deletes_what_is_too_much() {
    let check = |replicas, pods: &[(&str, &str)], want: &str| {
        let pods: Vec<PodFact> = pods.iter().map(|(name, words)| pod(name, words)).collect();
        assert_eq!(planned(&set(replicas), &pods, &Claims::default()), want);
    };
    let own = "owner=me label=app:web";
    check(2, &[], "adopt[] release[] own[] create 2 delete[]");
    check(1, &[("a", own)], "adopt[] release[] own[a] create 0 delete[]");
    check(0, &[("a", own)], "adopt[] release[] own[a] create 0 delete[a]");
    // One that is going or has ended is replaced, and only the former is still the set's.
    let going = format!("{own} going");
    let failed = format!("{own} failed");
    check(1, &[("a", &going), ("b", &failed)], "adopt[] release[] own[a] create 1 delete[]");
    // Orphans count when they match, and own pods that do not match are let go.
    check(1, &[("a", "label=app:web")], "adopt[a] release[] own[a] create 0 delete[]");
    check(1, &[("a", "owner=me")], "adopt[] release[a] own[] create 1 delete[]");
    check(1, &[("a", "owner=you label=app:web")], "adopt[] release[] own[] create 1 delete[]");
    check(9999, &[], "adopt[] release[] own[] create 500 delete[]");
    check(-3, &[("a", own)], "adopt[] release[] own[a] create 0 delete[a]");
}

#[test]
fn a_set_that_is_going_does_nothing() {
    let mut set = set(2);
    set.object.metadata.deletion_timestamp = Some(at(50).into());
    let pods =
        [pod("a", "owner=me label=app:web"), pod("b", "label=app:web"), pod("c", "owner=me")];
    let want = "adopt[] release[] own[a] create 0 delete[]";
    assert_eq!(planned(&set, &pods, &Claims::default()), want);
}

#[test]
fn what_is_on_its_way_is_not_done_twice() {
    let mut claims = Claims::default();
    claims.create("uid-x", None, at(99));
    claims.delete("uid-a", at(99));
    let pods = [pod("a", "owner=me label=app:web"), pod("b", "owner=me label=app:web")];
    let want = |create: usize, delete: &str| {
        format!("adopt[] release[] own[a b] create {create} delete[{delete}]")
    };
    // `a` is going, `b` is there and `x` is coming.
    assert_eq!(planned(&set(3), &pods, &claims), want(1, ""));
    assert_eq!(planned(&set(2), &pods, &claims), want(0, ""));
    assert_eq!(planned(&set(1), &pods, &claims), want(0, "b"));
    assert_eq!(planned(&set(0), &pods, &claims), want(0, "b"));
}

#[test]
fn the_least_missed_pod_goes_first() {
    let check = |first: &str, second: &str| {
        let (first_pod, second_pod) = (pod("z-first", first), pod("a-second", second));
        let crowding = BTreeMap::from([("crowded", 2), ("alone", 1)]);
        let mut pods = vec![&second_pod, &first_pod];
        rank(&mut pods, &crowding, at(5000));
        assert_eq!(names(&pods), "z-first a-second", "{first} before {second}");
    };
    check("pending", "node=alone pending");
    check("node=alone pending", "node=alone unknown");
    check("node=alone unknown", "node=alone");
    check("node=alone", "node=alone ready@1");
    check("node=alone ready@1 cost=-5", "node=alone ready@4000 restarts=9");
    check("node=crowded ready@1", "node=alone ready@4000");
    check("node=alone ready@4990", "node=alone ready@1");
    check("node=alone ready@1 restarts=3", "node=alone ready@1 restarts=1");
    check("node=alone ready@1 created@4990", "node=alone ready@1 created@1");
}

#[test]
fn times_of_one_magnitude_are_settled_by_uid() {
    let (young, old) = (pod("b", "node=n ready@10"), pod("a", "node=n ready@0"));
    let mut pods = vec![&young, &old];
    rank(&mut pods, &BTreeMap::new(), at(5000));
    assert_eq!(names(&pods), "a b");
}

#[test]
fn the_status_counts_pods_and_says_when_it_will_change() {
    let mut set = set(5);
    set.object.spec.min_ready_seconds = 30;
    set.object.metadata.generation = 7;
    let full = "owner=me label=app:web label=v:1";
    let pods = [
        pod("a", &format!("{full} ready@60")),
        pod("b", &format!("{full} ready@90")),
        pod("c", &format!("{full} pending")),
        pod("d", "owner=me label=app:web"),
        pod("e", &format!("{full} going ready@0")),
    ];
    let own: Vec<&PodFact> = pods.iter().collect();
    let (status, next) = status(&set, &own, None, at(100));
    let expected = ReplicaSetStatus {
        replicas: 4,
        fully_labeled_replicas: 3,
        ready_replicas: 2,
        available_replicas: 1,
        terminating_replicas: Some(1),
        observed_generation: 7,
        conditions: Vec::new(),
    };
    assert_eq!(status, expected);
    assert_eq!(next, Some(Duration::from_secs(20)));
}

#[test]
fn the_first_refusal_is_told_until_all_goes_well() {
    let mut set = set(1);
    let refused = |message: &str| Some(Trouble::Create(message.to_owned()));
    let mut check = |trouble: Option<Trouble>, want: Option<&str>| {
        let (status, _) = status(&set, &[], trouble.as_ref(), at(100));
        let told = api::condition::find(&status.conditions, "ReplicaFailure");
        assert_eq!(told.map(|told| told.message.as_str()), want);
        assert!(told.is_none_or(|told| told.reason == "FailedCreate"));
        set.object.status = status;
    };
    check(None, None);
    check(refused("quota"), Some("quota"));
    check(refused("quota again"), Some("quota"));
    check(None, None);
}

fn any_pod() -> impl Strategy<Value = String> {
    let words = prop::sample::subsequence(
        vec!["owner=me", "label=app:web", "going", "failed", "ready@3", "node=n", "cost=2"],
        0..7,
    );
    words.prop_map(|words| words.join(" "))
}

proptest! {
    /// When the plan is carried out, the set has as many pods as it should, and nothing
    /// that is not its own is touched.
    #[test]
    fn a_plan_leads_to_the_wanted_number(
        words in prop::collection::vec(any_pod(), 0..20),
        replicas in 0..15i32,
        unseen in 0..3usize,
    ) {
        let pods: Vec<PodFact> =
            words.iter().enumerate().map(|(n, words)| pod(&format!("p{n}"), words)).collect();
        let refs: Vec<&PodFact> = pods.iter().collect();
        let mut claims = Claims::default();
        for n in 0..unseen {
            claims.create(&format!("uid-new-{n}"), None, at(99));
        }
        let (set, crowding) = (set(replicas), BTreeMap::new());
        let facts =
            Facts { set: &set, pods: &refs, claims: &claims, crowding: &crowding, now: at(100) };
        let plan = plan(&facts);
        let active = plan.own.iter().filter(|pod| pod.is_active()).count();
        let after = active + unseen + plan.create - plan.delete.len();
        prop_assert!(after == replicas as usize || (after > replicas as usize && after <= unseen));
        prop_assert!(plan.create == 0 || plan.delete.is_empty());
        for pod in &plan.delete {
            prop_assert!(pod.is_active() && plan.own.iter().any(|own| own.meta.uid == pod.meta.uid));
        }
    }
}
