mod reads;
mod revokes;
mod shown;

use api::Node;
use api::elastic_quota::{
    IS_PARENT_LABEL, NAMESPACES, PARENT_LABEL, RUNTIME, SHARED_WEIGHT, TREE_ID_LABEL,
};
use chassis::metrics::Metrics;
use engine::fact::{Fact, NodeFact, PodFact};
use engine::profile::Profile;
use engine::quota::Settings;
use engine::turn;
use serde_json::json;

use super::*;
use crate::dismissals::LINE_MAX;
use crate::later::Work;
use crate::message::Wrote;
use crate::meters::Meters;
use crate::pace::{AGAIN, REFUSED_AGAIN, WRITES_MAX};

const START: Moment = Moment(1_000_000_000_000);

/// Quotas, the engine that knows how they stand, and a server that shows what is written.
struct World {
    engine: Engine,
    own: Statements,
    meters: Meters,
    metrics: Metrics,
    objects: BTreeMap<Key, Value>,
    version: u64,
    /// What is being written beside.
    busy: Busy,
    now: Moment,
}

fn after(seconds: u64) -> Moment {
    START.after(Duration::from_secs(seconds))
}

/// A node of ten CPUs.
fn node() -> Node {
    let node = json!({ "metadata": { "name": "n1" },
                       "status": { "allocatable": { "cpu": "10", "memory": "20Gi", "pods": "99" } } });
    serde_json::from_value(node).unwrap()
}

/// A cluster of ten CPUs.
fn world() -> World {
    let profile = Profile { quota: Some(Settings::default()), ..Profile::kubernetes() };
    let profiles = vec![("s".into(), profile)];
    let mut engine = Engine::new(turn::Settings::default(), profiles, START);
    engine.apply(Fact::Node(NodeFact::from(&node())), START);
    let metrics = Metrics::new();
    let meters = Meters::register(&metrics);
    let (own, objects, busy) = (Statements::default(), BTreeMap::new(), Busy::default());
    World { engine, own, meters, metrics, objects, version: 1, busy, now: START }
}

/// A pod of a quota that asks for so many CPUs, and has a node.
fn bound(name: &str, quota: &str, cpu: i64) -> PodFact {
    let mut pod = PodFact::new(name, "ns", name);
    (pod.quota, pod.node) = (Some(quota.into()), Some("n1".into()));
    pod.needs.requests.charged.cpu_millis = cpu * 1000;
    pod.needs.taken = pod.needs.requests.clone();
    pod
}

impl World {
    /// The server shows an object.
    fn show(&mut self, key: &Key, mut object: Value) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.objects.insert(key.clone(), object.clone());
        if let Some(fact) = self.own.put(Arc::new(serde_json::from_value(object).unwrap())) {
            self.engine.apply(Fact::Quota(Box::new(fact)), self.now);
        }
    }

    /// A quota in a namespace of its own name, or in another.
    fn quota(&mut self, name: &str, more: Value) -> Key {
        let (namespace, name) = name.split_once('/').unwrap_or((name, name));
        let own = json!({
            "metadata": { "name": name, "namespace": namespace, "uid": format!("{namespace}-{name}"),
                          "creationTimestamp": "1970-01-01T00:00:01Z" },
            "spec": { "min": { "cpu": "4" }, "max": { "cpu": "8" } },
        });
        let key = Key::namespaced(namespace, name);
        self.show(&key, object::patch::merge::apply(own, more).unwrap());
        key
    }

    fn pod(&mut self, name: &str, quota: &str, cpu: i64) {
        self.tell(bound(name, quota, cpu));
    }

    fn tell(&mut self, pod: PodFact) {
        self.engine.apply(Fact::Pod(Box::new(pod)), self.now);
    }

    /// Who has to go by then, and stays.
    fn revoked(&mut self, seconds: u64) -> Vec<String> {
        let now = after(seconds);
        let orders: Vec<DismissOrder> =
            std::iter::from_fn(|| self.own.next_revoke(&mut self.engine, now)).collect();
        orders.iter().for_each(|order| self.own.dismissed(&order.pod.uid, Dismissal::Stays));
        orders.iter().map(|order| format!("{} of {}", order.pod.name, order.object.0)).collect()
    }

    fn next(&mut self) -> Option<QuotaOrder> {
        self.own.next(&mut self.engine, self.busy, self.now, &self.meters.quotas)
    }

    fn orders(&mut self) -> Vec<QuotaOrder> {
        std::iter::from_fn(|| self.next()).collect()
    }

    /// Everything that is to be written by then is written and seen: how often, and how all stand.
    fn settle(&mut self, now: Moment) -> usize {
        self.now = now;
        let mut writes = 0;
        while let Some(QuotaOrder { key, patch }) = self.next() {
            let new = object::patch::merge::apply(self.objects[&key].clone(), patch).unwrap();
            let written = Receipt { key: key.clone(), object: None, wrote: Wrote::All };
            self.own.written(written, now, &self.meters.quotas);
            self.show(&key, new);
            writes += 1;
        }
        writes
    }

    fn condition(&self, key: &Key, r#type: &str) -> String {
        let all = self.objects[key]["status"]["conditions"].as_array().unwrap();
        let own = all.iter().find(|own| own["type"] == r#type);
        own.map_or("none".to_owned(), |own| {
            let words = own["message"].as_str().unwrap_or_default();
            format!("{} {}: {words}", own["status"], own["reason"]).replace('"', "")
        })
    }

    fn annotation(&self, key: &Key, name: &str) -> Value {
        self.objects[key]["metadata"]["annotations"][name].clone()
    }
}

#[test]
fn all_that_differs_of_a_quota_is_written_at_once_and_once() {
    let mut world = world();
    let a = world.quota("a", json!({}));
    world.pod("p", "a", 3);
    let orders = world.orders();
    let [QuotaOrder { key, patch }] = &orders[..] else { panic!("{orders:?}") };
    assert_eq!(*key, a);
    let prefix = "quota.scheduling.koordinator.sh";
    let three = r#"{"cpu":"3"}"#;
    assert_eq!(
        *patch,
        json!({
            "metadata": { "uid": "a-a", "annotations": {
                format!("{prefix}/runtime"): three, format!("{prefix}/request"): three,
                format!("{prefix}/child-request"): three } },
            "status": {
                "used": { "cpu": "3" },
                "conditions": [{ "type": "Ready", "status": "True", "reason": "InForce",
                                 "lastTransitionTime": "1970-01-01T00:16:40Z" }] },
        })
    );
    // Nothing is written twice while it is under way, nor when it is told.
    world.now = after(5);
    assert_eq!(world.orders(), []);
    let new = object::patch::merge::apply(world.objects[&a].clone(), patch.clone()).unwrap();
    let object = Some(Arc::new(serde_json::from_value(new.clone()).unwrap()));
    let written = Receipt { key: a.clone(), object, wrote: Wrote::All };
    world.own.written(written, world.now, &world.meters.quotas);
    world.now = after(10);
    assert_eq!(world.orders(), []);
    world.show(&a, new);
    world.now = after(15);
    assert_eq!(world.orders(), []);
    assert_eq!(
        world.own.next_due(world.engine.ledger().quotas.forest().version(), world.busy),
        None
    );
}

#[test]
fn it_is_written_at_most_once_a_second_and_only_where_anything_happened() {
    let mut world = world();
    let a = world.quota("a", json!({}));
    assert_eq!(world.settle(START), 1);
    for number in 0..5 {
        world.pod(&format!("p{number}"), "a", 1);
        assert_eq!(world.orders(), [], "within the second");
    }
    let version = world.engine.ledger().quotas.forest().version();
    assert_eq!(world.own.next_due(version, world.busy), Some(after(1)));
    assert_eq!(world.settle(after(1)), 1);
    assert_eq!(world.objects[&a]["status"]["used"], json!({ "cpu": "5" }));
    assert_eq!(world.annotation(&a, RUNTIME), r#"{"cpu":"5"}"#);
    assert_eq!(world.settle(after(9)), 0);
}

#[test]
fn while_pods_are_bound_it_waits_as_their_events_do_and_not_for_ever() {
    let mut world = world();
    let a = world.quota("a", json!({}));
    assert_eq!(world.settle(START), 1);
    assert_eq!(world.settle(after(1)), 0);
    world.busy = Busy { work: Work::Crowded, notes: false };
    world.pod("p", "a", 3);
    assert_eq!(world.settle(after(2)), 0);
    let version = world.engine.ledger().quotas.forest().version();
    let due = after(2).after(HELD_MAX);
    assert_eq!(world.own.next_due(version, world.busy), Some(due));
    // What happens meanwhile does not put it off.
    world.pod("q", "a", 1);
    assert_eq!(world.settle(after(4)), 0);
    assert_eq!(world.settle(due), 1);
    assert_eq!(world.objects[&a]["status"]["used"], json!({ "cpu": "4" }));
    // When nothing is bound any more, it waits no longer.
    world.pod("r", "a", 2);
    assert_eq!(world.settle(due.after(INTERVAL)), 0);
    world.busy = Busy::default();
    assert_eq!(world.settle(due.after(INTERVAL)), 1);
    assert_eq!(world.objects[&a]["status"]["used"], json!({ "cpu": "6" }));
}

#[test]
fn what_is_nothing_is_as_good_as_not_said_and_what_others_write_is_put_right() {
    let mut world = world();
    let said = json!({ RUNTIME: r#"{"cpu":"0","memory":"0"}"# });
    let a = world.quota(
        "a",
        json!({ "metadata": { "annotations": said }, "status": { "used": { "cpu": 0 } } }),
    );
    let [QuotaOrder { patch, .. }] = &world.orders()[..] else { panic!("its condition") };
    assert!(patch["metadata"]["annotations"].is_null() && patch["status"]["used"].is_null());
    world.own.pace = WritePace::default();
    world.pod("p", "a", 2);
    world.settle(after(1));
    let mut object = world.objects[&a].clone();
    object["metadata"]["annotations"][RUNTIME] = "nonsense".into();
    object["status"]["used"] = json!({ "memory": "1" });
    world.show(&a, object);
    assert_eq!(world.settle(after(3)), 1);
    assert_eq!(world.annotation(&a, RUNTIME), r#"{"cpu":"2"}"#);
    assert_eq!(world.objects[&a]["status"]["used"], json!({ "cpu": "2" }));
}

#[test]
fn what_is_wrong_with_a_quota_is_said_until_it_is_put_right() {
    let mut world = world();
    let labels = |parent: &str| json!({ "metadata": { "labels": { PARENT_LABEL: parent } } });
    let orphan = world.quota("orphan", labels("org"));
    let twin = world.quota(
        "other/orphan",
        json!({ "metadata": { "creationTimestamp": "1970-01-01T00:00:09Z" } }),
    );
    let weight = json!({ SHARED_WEIGHT: "much" });
    let malformed = world.quota("malformed", json!({ "metadata": { "annotations": weight } }));
    let greedy = world.quota("greedy", json!({ "spec": { "min": { "cpu": "9" } } }));
    world.settle(START);
    assert_eq!(
        world.condition(&orphan, "Ready"),
        "False Misplaced: it admits nothing: its parent org does not exist: create it or name another"
    );
    assert_eq!(
        world.condition(&twin, "Ready"),
        "False NameTaken: it counts for nothing: the quota of this name in namespace orphan is older, and \
         pods name quotas without their namespace; give it another name"
    );
    let words = world.condition(&malformed, "Ready");
    assert!(
        words.starts_with("False Malformed: quota.scheduling.koordinator.sh/shared-weight"),
        "{words}"
    );
    assert_eq!(
        world.condition(&greedy, "Ready"),
        "False Malformed: it has min 9 > max 8 of cpu: lower min or raise max"
    );
    let is_parent = json!({ "metadata": { "labels": { IS_PARENT_LABEL: "true" } },
                            "spec": { "min": { "cpu": "1" } } });
    let org = world.quota("org", is_parent);
    world.settle(after(2));
    assert_eq!(
        world.condition(&orphan, "Ready"),
        "False MinAboveParent: it has min 4 of cpu, and its parent org has 1: lower it or raise the \
         parent's"
    );
    assert!(
        world.condition(&org, "Ready").starts_with("False MinBelowChildren: it has min 1 of cpu")
    );
    let mut object = world.objects[&org].clone();
    object["spec"]["min"] = json!({ "cpu": "4" });
    world.show(&org, object);
    world.settle(after(4));
    assert_eq!(world.condition(&orphan, "Ready"), "True InForce: ");
    assert_eq!(world.condition(&org, "Ready"), "True InForce: ");
}

/// What a quota p and another one say, and the conditions of both.
fn check_both(p: Value, (name, own): (&str, Value), expected: [&str; 2]) {
    let mut world = world();
    let keys = [world.quota("p", p), world.quota(name, own)];
    world.settle(START);
    assert_eq!(keys.map(|key| world.condition(&key, "Ready")), expected);
}

/// The same where only the other one breaks a rule.
fn check_other(p: Value, name: &str, own: Value, expected: &str) {
    check_both(p, (name, own), ["True InForce: ", expected]);
}

#[test]
fn a_quota_says_which_rule_it_breaks_beside_its_parent() {
    let parent = |more: Value| {
        let own = json!({ "metadata": { "labels": { IS_PARENT_LABEL: "true" } } });
        object::patch::merge::apply(own, more).unwrap()
    };
    let child = |more: Value| {
        let own = json!({ "metadata": { "labels": { PARENT_LABEL: "p" } } });
        object::patch::merge::apply(own, more).unwrap()
    };
    check_other(parent(json!({})), "q", child(json!({})), "True InForce: ");
    check_other(
        json!({}),
        "q",
        child(json!({})),
        "False ParentIsLeaf: it names the parent p, which is not marked as one: set its label \
         quota.scheduling.koordinator.sh/is-parent to true, or name another",
    );
    let memory = |list: &str| json!({ "spec": { list: { "memory": "1Gi" } } });
    // What a quota does not name it hands on, and what one below does not name it is not held to.
    let in_force = "True InForce: ";
    check_other(parent(memory("max")), "q", child(json!({})), in_force);
    let guaranteed = json!({ "spec": { "min": { "memory": "1Gi" }, "max": { "memory": "1Gi" } } });
    check_other(parent(json!({})), "q", child(guaranteed.clone()), in_force);
    check_both(
        parent(memory("max")),
        ("q", child(guaranteed)),
        [
            "False MinBelowChildren: it has min 0 of memory, and those below it have 1Gi: raise it or lower \
             one of theirs, or let it pass with quota.scheduling.koordinator.sh/allow-force-update",
            "False MinWithoutParent: it has memory in min, and its parent p has not: add it there or take \
             it out",
        ],
    );
    let tree = json!({ "metadata": { "labels": { TREE_ID_LABEL: "t" } } });
    check_other(
        parent(json!({})),
        "q",
        child(tree.clone()),
        "False TreeDiffers: it is of tree t, and quota p of tree : name a parent of its own tree",
    );
    check_other(parent(tree), "q", child(json!({})), "True InForce: ");
}

#[test]
fn what_a_quota_hands_on_counts_where_guarantees_are_added_up() {
    let mut world = world();
    let quota = |parent: Option<&str>, min: &str, max: &str| {
        let labels = json!({ IS_PARENT_LABEL: "true", PARENT_LABEL: parent });
        let spec = json!({ "min": { "cpu": "4", "memory": min }, "max": { "memory": max } });
        json!({ "metadata": { "labels": labels }, "spec": spec })
    };
    let org = world.quota("org", quota(None, "1Gi", "9Gi"));
    let mut mid = quota(Some("org"), "0", "0");
    mid["spec"] = json!({});
    let mid = world.quota("mid", mid);
    let leaf = world.quota("leaf", quota(Some("mid"), "2Gi", "9Gi"));
    world.settle(START);
    let words = world.condition(&org, "Ready");
    assert!(words.contains("has min 1Gi of memory, and those below it have 2Gi"), "{words}");
    for in_force in [mid, leaf] {
        assert_eq!(world.condition(&in_force, "Ready"), "True InForce: ");
    }
}

#[test]
fn a_quota_says_which_rule_it_breaks_by_itself() {
    let lists = json!({ "metadata": { "annotations": { NAMESPACES: r#"["shop"]"# } } });
    check_other(
        lists.clone(),
        "q",
        lists,
        "False NamespaceTaken: it lists namespace shop, which is bound to quota p: list it once",
    );
    let many: serde_json::Map<String, Value> =
        (0..65).map(|number| (format!("example.com/{number}"), json!(1))).collect();
    check_other(
        json!({}),
        "koordinator-default-quota",
        json!({ "spec": { "max": many.clone() } }),
        "False Misplaced: what it says counts for nothing: it names 66 resources: name at most 64",
    );
    check_other(
        json!({}),
        "q",
        json!({ "spec": { "max": many } }),
        "False Misplaced: it admits nothing: it names 66 resources: name at most 64",
    );
}

#[test]
fn a_quota_that_names_what_is_not_reckoned_says_so() {
    let mut world = world();
    let quotas: Vec<Key> = (0..3)
        .map(|quota| {
            let names = (0..60).map(|number| format!("example.com/{quota}-{number}"));
            let max: serde_json::Map<String, Value> = names.map(|name| (name, json!(1))).collect();
            world.quota(&format!("q{quota}"), json!({ "spec": { "max": max } }))
        })
        .collect();
    world.settle(START);
    for in_force in &quotas[..2] {
        assert_eq!(world.condition(in_force, "Ready"), "True InForce: ");
    }
    let words = world.condition(&quotas[2], "Ready");
    assert!(words.starts_with("False Uncounted: it has example.com/2-"), "{words}");
}

#[test]
fn what_quotas_name_and_nobody_has_is_not_written_on_those_of_every_cluster() {
    let mut world = world();
    let long = |number: usize| format!("{}/{number:063}", "a".repeat(253));
    let max: serde_json::Map<String, Value> =
        (0..60).map(|number| (long(number), json!(1))).collect();
    world.quota("q", json!({ "spec": { "max": max } }));
    let default = world.quota("koordinator-default-quota", json!({ "spec": { "min": null } }));
    world.pod("p", "koordinator-default-quota", 3);
    let orders = world.orders();
    let own = orders.iter().find(|order| order.key == default).expect("pods use it");
    let text = own.patch.to_string();
    assert!(text.len() < 2_000 && !text.contains(&long(0)), "{} bytes: {text}", text.len());
    let shown = world.metrics.render();
    let of_default = |line: &&str| line.contains("koordinator-default-quota");
    assert!(!shown.lines().filter(of_default).any(|line| line.contains(&long(0))));
}

#[test]
fn a_quota_that_uses_more_than_it_may_says_so_and_by_how_much() {
    let mut world = world();
    let (a, b) = (world.quota("a", json!({})), world.quota("b", json!({})));
    world.pod("one", "a", 5);
    world.pod("two", "a", 3);
    world.settle(START);
    assert_eq!(world.condition(&a, "OverUsed"), "none");
    world.pod("three", "b", 4);
    world.settle(after(2));
    assert_eq!(
        world.condition(&a, "OverUsed"),
        "True BeyondRuntime: cpu: 8 used, 2 beyond runtime 6"
    );
    assert_eq!(world.condition(&b, "OverUsed"), "none");
    world.pod("four", "a", 1);
    world.settle(after(4));
    assert_eq!(world.condition(&a, "OverUsed"), "True BeyondMax: cpu: 9 used, 1 beyond max 8");
    for pod in ["one", "four"] {
        world.engine.apply(Fact::PodGone(engine::fact::Uid::new(pod)), after(5));
    }
    world.settle(after(6));
    assert_eq!(world.condition(&a, "OverUsed"), "False WithinRuntime: ");
}

#[test]
fn what_could_not_be_written_is_written_later_and_what_is_gone_is_not() {
    let mut world = world();
    let (a, b) = (world.quota("a", json!({})), world.quota("b", json!({})));
    assert_eq!(world.orders().len(), 2);
    for key in [&a, &b] {
        let written = Receipt { key: key.clone(), object: None, wrote: Wrote::Nothing };
        world.own.written(written, START, &world.meters.quotas);
    }
    world.own.remove(&b, &world.meters.quotas);
    world.now = after(1);
    assert_eq!(world.orders(), []);
    let version = world.engine.ledger().quotas.forest().version();
    assert_eq!(world.own.next_due(version, world.busy), Some(START.after(AGAIN)));
    world.now = START.after(AGAIN);
    assert_eq!(world.orders().len(), 1);
    let idle = Statements::of_others();
    world.own = idle;
    world.quota("c", json!({}));
    world.now = after(60);
    assert_eq!(world.orders(), [], "somebody else writes");
}

#[test]
fn no_more_is_written_at_once_than_may_be_and_all_of_it_in_the_end() {
    let mut world = world();
    for number in 0..3 * WRITES_MAX {
        world.quota(&format!("q{number}"), json!({}));
    }
    assert_eq!(world.orders().len(), WRITES_MAX);
    assert_eq!(world.own.next_due(0, world.busy), None, "only an answer helps");
    let first: Vec<Key> = world.objects.keys().take(WRITES_MAX).cloned().collect();
    for key in first {
        let written = Receipt { key, object: None, wrote: Wrote::All };
        world.own.written(written, START, &world.meters.quotas);
    }
    assert_eq!(world.orders().len(), WRITES_MAX);
}

#[test]
fn how_quotas_stand_is_counted_and_what_is_gone_is_not_shown() {
    let mut world = world();
    let a = world.quota("a", json!({}));
    world.pod("p", "a", 3);
    world.settle(START);
    let shown = |world: &World| {
        let text = world.metrics.render();
        let lines = text.lines().filter(|line| line.starts_with("scheduler_elastic_quota"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let labels =
        r#"name="a",resource="cpu",tree="",is_parent="false",parent="koordinator-root-quota""#;
    let lines = shown(&world);
    for (family, field, amount) in [
        ("status", "used", 3000),
        ("status", "runtime", 3000),
        ("status", "min", 4000),
        ("spec", "max", 8000),
        ("spec", "sharedWeight", 8000),
    ] {
        let line =
            format!("scheduler_elastic_quota_{family}{{{labels},field=\"{field}\"}} {amount}");
        assert!(lines.contains(&line), "{line} is not in {lines:#?}");
    }
    let fewer = json!({ "metadata": { "labels": { PARENT_LABEL: "org" } } });
    world.show(&a, object::patch::merge::apply(world.objects[&a].clone(), fewer).unwrap());
    world.settle(after(2));
    assert!(shown(&world).iter().all(|line| line.contains(r#"parent="org""#)), "{lines:#?}");
    world.own.remove(&a, &world.meters.quotas);
    assert_eq!(shown(&world), [""; 0]);
}

#[test]
fn a_server_whose_definition_has_no_conditions_is_not_told_them_again_and_again() {
    let mut world = world();
    let a = world.quota("a", json!({}));
    world.pod("p", "a", 3);
    let drops = |world: &mut World, seconds: u64| {
        world.now = after(seconds);
        let mut orders = world.orders();
        let QuotaOrder { key, patch } = orders.pop()?;
        let mut new =
            object::patch::merge::apply(world.objects[&key].clone(), patch.clone()).unwrap();
        new["status"].as_object_mut().unwrap().remove("conditions");
        let object = Some(Arc::new(serde_json::from_value(new.clone()).unwrap()));
        let written = Receipt { key: key.clone(), object, wrote: Wrote::All };
        world.own.written(written, world.now, &world.meters.quotas);
        world.show(&key, new);
        Some(patch["status"].clone())
    };
    assert!(drops(&mut world, 0).unwrap()["conditions"].is_array());
    assert_eq!(world.objects[&a]["status"], json!({ "used": { "cpu": "3" } }));
    assert_eq!((drops(&mut world, 2), drops(&mut world, 60)), (None, None));
    world.pod("q", "a", 1);
    assert_eq!(drops(&mut world, 62).unwrap(), json!({ "used": { "cpu": "4" } }));
    world.pod("r", "a", 1);
    assert!(
        drops(&mut world, 3_700).unwrap()["conditions"].is_array(),
        "it may have others by now"
    );
}

/// The server changes all that is written like this: at which seconds a quota is written.
fn written_at(
    world: &mut World,
    seconds: std::ops::Range<u64>,
    change: fn(&mut Value),
) -> Vec<u64> {
    let mut all = Vec::new();
    for second in seconds {
        world.now = after(second);
        while let Some(QuotaOrder { key, patch }) = world.next() {
            all.push(second);
            let mut new = object::patch::merge::apply(world.objects[&key].clone(), patch).unwrap();
            change(&mut new);
            new["metadata"]["resourceVersion"] = (world.version + 1).to_string().into();
            let object = Some(Arc::new(serde_json::from_value(new.clone()).unwrap()));
            let receipt = Receipt { key: key.clone(), object, wrote: Wrote::All };
            world.own.written(receipt, world.now, &world.meters.quotas);
            world.show(&key, new);
        }
    }
    all
}

#[test]
fn a_server_that_does_not_keep_what_is_written_is_told_it_less_and_less_often() {
    fn keep(_: &mut Value) {}
    let doubling = [0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 811];
    let check = |change: fn(&mut Value), expected: &[u64]| {
        let mut world = world();
        world.quota("a", json!({}));
        world.pod("p", "a", 3);
        assert_eq!(written_at(&mut world, 0..1_000, change), expected);
        // What is kept is written when it is due, and then as ever.
        world.pod("q", "a", 1);
        let late = written_at(&mut world, 1_000..1_200, keep);
        assert_eq!(late, if expected.len() == 1 { [1_000] } else { [1_111] });
        world.pod("r", "a", 1);
        assert_eq!(written_at(&mut world, 1_200..1_300, keep), [1_200]);
    };
    check(keep, &[0]);
    check(|own| drop(own["status"].as_object_mut().unwrap().remove("used")), &doubling);
    check(|own| own["status"]["used"] = json!({ "cpu": "7" }), &doubling);
    check(|own| drop(own["metadata"].as_object_mut().unwrap().remove("annotations")), &doubling);
    check(|own| own["metadata"]["annotations"][RUNTIME] = r#"{"cpu":"1"}"#.into(), &doubling);
    check(|own| own["status"]["conditions"][0]["reason"] = "Other".into(), &doubling);
    // Conditions alone may be what its definition does not have.
    check(|own| drop(own["status"].as_object_mut().unwrap().remove("conditions")), &[0]);
}

#[test]
fn however_long_answers_take_what_is_new_is_written_a_second_after_what_was_written_before() {
    let check = |answered: u64, expected: &[u64]| {
        let mut world = world();
        world.quota("a", json!({}));
        let (mut all, mut under_way) = (Vec::new(), None);
        for tenth in 0..50 {
            world.now = START.after(Duration::from_millis(100 * tenth));
            if let Some((key, _)) = under_way.take_if(|(_, at)| *at == tenth) {
                let receipt = Receipt { key, object: None, wrote: Wrote::All };
                world.own.written(receipt, world.now, &world.meters.quotas);
            }
            world.pod(&tenth.to_string(), "a", 1);
            if let Some(QuotaOrder { key, patch }) = world.next() {
                all.push(tenth);
                let new = object::patch::merge::apply(world.objects[&key].clone(), patch).unwrap();
                under_way = Some((key.clone(), tenth + answered));
                world.show(&key, new);
            }
        }
        assert_eq!(all, expected, "after {answered}");
    };
    check(1, &[0, 10, 20, 30, 40]);
    check(9, &[0, 10, 20, 30, 40]);
    check(15, &[0, 15, 30, 45]);
}

#[test]
fn what_the_server_refuses_is_written_a_minute_later_whatever_happens_meanwhile() {
    let mut world = world();
    let a = world.quota("a", json!({}));
    assert_eq!(world.orders().len(), 1);
    let receipt = Receipt { key: a, object: None, wrote: Wrote::Refused };
    world.own.written(receipt, START, &world.meters.quotas);
    world.pod("p", "a", 3);
    world.now = after(REFUSED_AGAIN.as_secs() - 1);
    assert_eq!(world.orders(), []);
    world.now = START.after(REFUSED_AGAIN);
    assert_eq!(world.orders().len(), 1);
}

#[test]
fn quotas_of_every_cluster_count_in_their_namespace_alone_where_that_is_known() {
    const DEFAULT: &str = "koordinator-default-quota";
    let check = |name: &str, reserved: Option<&str>, expected: &str| {
        let mut world = world();
        world.own = Statements::default();
        if let Some(namespace) = reserved {
            world.own = world.own.reserving(namespace.into());
        }
        let key = world.quota(name, json!({}));
        world.settle(START);
        let register = world.engine.ledger().quotas.forest().register();
        assert_eq!(register.get(key.name()).is_some(), expected == "True InForce: ", "{name}");
        assert_eq!(world.condition(&key, "Ready"), expected, "{name}");
        // One that is gone is no news to the engine.
        world.own.remove(&key, &world.meters.quotas);
    };
    let words = "False Reserved: it counts for nothing: a quota of this name counts in namespace own alone; \
                 give it another name";
    check(&format!("own/{DEFAULT}"), Some("own"), "True InForce: ");
    check(&format!("own/{DEFAULT}"), None, "True InForce: ");
    check(&format!("team/{DEFAULT}"), None, "True InForce: ");
    check(&format!("team/{DEFAULT}"), Some("own"), words);
    check("team/koordinator-system-quota", Some("own"), words);
    check("team/koordinator-root-quota", Some("own"), words);
    check("team/koordinator-default", Some("own"), "True InForce: ");
}
