use std::path::Path;

use api::reservation::{OPERATING_MODE_LABEL, OWNERS};
use api::{Node, NodeMetric, NodeResourceTopology, Pod, Reservation};
use chassis::metrics::Metrics;
use engine::fact::{Fact, NodeFact};
use engine::turn::{self, Engine};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use super::super::tests::{START, opened_for};
use super::super::{Message, replied};
use super::*;
use crate::config;
use crate::feed;
use crate::message::Kind;
use crate::meters::Meters;

const NAME: &str = "koord-scheduler";

/// A scheduler with the profile that Koordinator's chart installs.
struct World {
    configuration: Configuration,
    core: Core,
}

fn world() -> World {
    let file = include_str!("../../config/koordinator.yaml");
    let configuration = config::parse(Path::new("koordinator.yaml"), file).unwrap();
    let profiles = vec![(NAME.into(), configuration.profiles[0].assemble().profile)];
    let engine = Engine::new(turn::Settings::default(), profiles, START);
    let mut core = Core::new(engine, [NAME.into()], Meters::register(&Metrics::new()));
    for kind in Kind::ALL {
        core.take(Message::Synced(kind), START);
    }
    World { configuration, core }
}

impl World {
    fn node(&mut self, name: &str) {
        let allocatable = json!({ "cpu": "4", "memory": "8Gi", "pods": "110", "x.y/z": "2" });
        let node: Node = serde_json::from_value(json!({
            "metadata": { "name": name, "labels": { "zone": "a" } },
            "spec": { "taints": [{ "key": "team", "value": "ml", "effect": "PreferNoSchedule" }] },
            "status": { "allocatable": allocatable, "images": [
                { "names": ["registry.example/web:1"], "sizeBytes": 1000 }] },
        }))
        .unwrap();
        self.core.take(Message::Fact(Fact::Node(NodeFact::from(&node))), START);
    }

    fn pod(&mut self, name: &str, node: &str, more: Value) {
        let pod = json!({
            "metadata": { "name": name, "namespace": "shop", "uid": name },
            "spec": { "schedulerName": NAME, "nodeName": node, "priority": 5, "containers": [
                { "name": "main", "resources": { "requests": { "cpu": "1", "memory": "1Gi" } } }] },
        });
        let pod = object::patch::merge::apply(pod, more).unwrap();
        self.core.take(feed::news(serde_json::from_value::<Pod>(pod).unwrap()), START);
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let query = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        let (desk, _sender, mut line, _hand) = opened_for(&self.configuration);
        let looking = async {
            while let Some(Message::Look(look)) = line.recv().await {
                look.at(&self.core, START);
            }
        };
        let answer = tokio::select! {
            answer = async { replied(desk.apis(path, &query).await).await } => answer,
            () = looking => unreachable!("the line stays open"),
        };
        let code = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&body).unwrap())
    }
}

#[tokio::test]
async fn s10_75_who_stands_by_says_so_and_a_node_that_is_not_there_is_not_found() {
    let standing_by = Desk::default();
    for path in ["/apis/v1/nodes/x", "/apis/v1/__services__", "/apis/v1/nothing"] {
        let refusal = standing_by.apis(path, &Query::new()).await.err().unwrap();
        assert_eq!((refusal.code, &*refusal.message), (503, "the instance is not leader"));
    }
    let mut world = world();
    world.node("n1");
    let check = async |path: &str, code: u16, body: Value| {
        assert_eq!(world.get(path).await, (code, body), "{path}");
    };
    check("/apis/v1/nodes/x", 404, json!({ "message": "cannot find node x" })).await;
    let numa = "/apis/v1/plugins/NodeNUMAResource/nodes";
    check(&format!("{numa}/x"), 404, json!({ "message": "cannot find node x" })).await;
    let unknown = "invalid topology, please check the NodeResourceTopology object";
    check(&format!("{numa}/n1"), 500, json!({ "message": unknown })).await;
    check("/apis/v1/plugins/LoadAwareScheduling/node/x", 200, json!({})).await;
    let held = "/apis/v1/plugins/Reservation/nodeReservations";
    check(&format!("{held}/x"), 200, json!({ "items": [] })).await;
    check(&format!("{held}/n1"), 200, json!({ "items": [] })).await;
    for path in ["/apis/v1", "/apis/v1/nodes/", "/apis/v1/nodes/a/b", "/apis/v1/gangs"] {
        let told = format!("{path} is not served; /apis/v1/__services__ names what is");
        check(path, 404, json!({ "message": told })).await;
    }
}

#[tokio::test]
async fn what_is_served_depends_on_the_plugins_of_profiles() {
    let mut world = world();
    let all: Vec<&str> = ROUTES.into_iter().map(|(path, _)| path).collect();
    assert!(all.is_sorted());
    assert_eq!(world.get("/apis/v1/__services__").await, (200, json!({ "GET": all })));
    world.configuration = Configuration::default();
    assert_eq!(world.get("/apis/v1/__services__").await, (200, json!({ "GET": all[..2] })));
    let (code, _) = world.get("/apis/v1/plugins/LoadAwareScheduling/node/n1").await;
    assert_eq!(code, 404);
}

#[tokio::test]
async fn a_node_is_shown_as_it_is_counted() {
    let mut world = world();
    world.node("n1");
    let term = json!({ "topologyKey": "zone", "labelSelector": { "matchLabels": { "app": "a" } } });
    world.pod(
        "there",
        "n1",
        json!({ "spec": {
            "affinity": { "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [term] } },
            "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": "data" } }],
            "containers": [{ "name": "main",
                "ports": [{ "hostPort": 80, "containerPort": 80 }],
                "resources": { "requests": { "cpu": "1", "memory": "1Gi", "x.y/z": "1" } } }] } }),
    );
    world.pod("claimed", "", json!({}));
    while world.core.next_order(START).is_some() {}
    let pod = |name: &str| {
        json!({ "Pod": { "metadata": { "namespace": "shop", "name": name, "uid": name },
                         "spec": { "priority": 5 } } })
    };
    let amounts = |cpu: i64, gib: i64, pods: i64, scalars: Value| {
        json!({ "MilliCPU": cpu, "Memory": gib << 30, "EphemeralStorage": 0,
                "AllowedPodNumber": pods, "ScalarResources": scalars })
    };
    let (code, shown) = world.get("/apis/v1/nodes/n1").await;
    assert_eq!(code, 200);
    assert_eq!(
        shown,
        json!({
            "node": {
                "metadata": { "name": "n1", "labels": { "zone": "a" } },
                "spec": { "taints": [
                    { "key": "team", "value": "ml", "effect": "PreferNoSchedule" }] },
                "status": { "allocatable": { "cpu": "4", "memory": "8Gi", "x.y/z": "2" } },
            },
            "pods": [pod("claimed"), pod("there")],
            "podsWithAffinity": [pod("there")],
            "podsWithRequiredAntiAffinity": [pod("there")],
            "usedPorts": { "0.0.0.0": [{ "Protocol": "TCP", "Port": 80 }] },
            "requested": amounts(2000, 2, 0, json!({ "x.y/z": 1 })),
            "nonZeroRequested": amounts(2000, 2, 0, Value::Null),
            "remaining": amounts(2000, 6, 110, json!({ "x.y/z": 1 })),
            "allocatable": amounts(4000, 8, 110, json!({ "x.y/z": 2 })),
            "imageStates": { "registry.example/web:1": { "Size": 1000, "NumNodes": 1 } },
            "pvcRefCounts": { "shop/data": 1 },
        })
    );
}

#[tokio::test]
async fn quotas_are_shown_as_they_stand_and_with_their_pods_where_that_is_asked() {
    let mut world = world();
    world.node("n1");
    let path = "/apis/v1/plugins/ElasticQuota/quotas";
    let put = |world: &mut World, name: &str, labels: Value| {
        let own = json!({ "metadata": { "namespace": "shop", "name": name, "uid": name, "labels": labels },
                          "spec": { "min": { "cpu": "1" }, "max": { "cpu": "3", "memory": "4Gi" } } });
        world.core.take(Message::Quota(Arc::new(serde_json::from_value(own).unwrap())), START);
    };
    let is_parent = json!({ "quota.scheduling.koordinator.sh/is-parent": "true" });
    put(&mut world, "org", is_parent);
    put(&mut world, "team", json!({ "quota.scheduling.koordinator.sh/parent": "org" }));
    let of_team =
        json!({ "metadata": { "labels": { "quota.scheduling.koordinator.sh/name": "team" } } });
    world.pod("there", "n1", of_team.clone());
    world.pod("waits", "", of_team);
    let (code, own) = world.get(&format!("{path}/team?includePods=true")).await;
    let version = own["runtimeVersion"].clone();
    let (one, two) =
        (json!({ "cpu": "1", "memory": "1Gi" }), json!({ "cpu": "2", "memory": "2Gi" }));
    let none = json!({ "cpu": "0", "memory": "0" });
    let most = json!({ "cpu": "3", "memory": "4Gi" });
    let mut team = json!({
        "name": "team", "parentName": "org", "isParent": false, "runtimeVersion": version,
        "allowLentResource": true, "tree": "", "max": most, "min": { "cpu": "1" },
        "sharedWeight": most, "autoScaleMin": { "cpu": "1", "memory": "0" }, "used": one,
        "nonPreemptibleUsed": none, "request": two, "nonPreemptibleRequest": none,
        "childRequest": two, "runtime": two, "allocated": {}, "guaranteed": {}, "selfUsed": one,
        "selfNonPreemptibleUsed": none, "selfRequest": two, "selfNonPreemptibleRequest": none,
        "podCache": { "shop/there": { "isAssigned": true, "resource": one },
                      "shop/waits": { "isAssigned": false, "resource": one } },
    });
    assert_eq!((code, &own), (200, &team));
    team.as_object_mut().unwrap().remove("podCache");
    let (_, all) = world.get(path).await;
    assert_eq!(all["team"], team);
    let (org, names) = (&all["org"], all.as_object().unwrap().keys());
    assert_eq!((&org["used"], &org["selfUsed"], &org["selfRequest"]), (&one, &none, &none));
    let names: Vec<&String> = names.collect();
    assert_eq!(names, ["koordinator-default-quota", "koordinator-system-quota", "org", "team"]);
    assert_eq!(world.get(&format!("{path}?tree=other")).await, (200, json!({})));
    let refused = json!({ "message": "cannot find quota nobody" });
    assert_eq!(world.get(&format!("{path}/nobody")).await, (404, refused));
}

#[tokio::test]
async fn gangs_are_shown_as_they_stand_with_where_their_members_are() {
    let mut world = world();
    world.node("n1");
    let of_group = json!({ "metadata": { "labels": { "pod-group.scheduling.sigs.k8s.io": "g" } } });
    let group = json!({ "metadata": { "namespace": "shop", "name": "g", "uid": "g",
                                      "creationTimestamp": "1970-01-01T00:10:00Z" },
                        "spec": { "minMember": 2, "scheduleTimeoutSeconds": 30 } });
    world.core.take(Message::Group(Arc::new(serde_json::from_value(group).unwrap())), START);
    world.pod("a", "n1", of_group.clone());
    world.pod("b", "", of_group.clone());
    for _ in 0..9 {
        world.core.decide(START);
    }
    world.pod("c", "", of_group);
    let describing = json!({ "metadata": { "annotations": {
        "gang.scheduling.koordinator.sh/name": "h",
        "gang.scheduling.koordinator.sh/mode": "NonStrict" },
        "creationTimestamp": "1970-01-01T00:09:00Z" } });
    world.pod("d", "", describing);
    let path = "/apis/v1/plugins/Coscheduling";
    let (code, own) = world.get(&format!("{path}/gang/shop/g")).await;
    let expected = json!({
        "name": "shop/g", "waitTime": 30_000_000_000_u64, "createTime": "1970-01-01T00:10:00Z",
        "mode": "Strict", "gangMatchPolicy": "once-satisfied", "minRequiredNumber": 2,
        "totalChildrenNum": 2, "gangGroup": ["shop/g"],
        "children": { "shop/a": {}, "shop/b": {}, "shop/c": {} },
        "pendingChildren": { "shop/c": {} }, "waitingForBindChildren": { "shop/b": {} },
        "boundChildren": { "shop/a": {} }, "onceResourceSatisfied": true,
        "gangGroupInfo": { "Initialized": true, "GangGroupId": "shop/g",
                           "GangGroup": ["shop/g"], "OnceResourceSatisfied": true },
        "gangFrom": "GangFromPodGroupCrd", "hasGangInit": true,
    });
    assert_eq!((code, &own), (200, &expected));
    let (_, all) = world.get(&format!("{path}/gangs")).await;
    assert_eq!(all["shop/g"], expected);
    let h = &all["shop/h"];
    assert_eq!((&h["mode"], &h["hasGangInit"]), (&json!("NonStrict"), &json!(false)));
    assert_eq!(
        (&h["gangFrom"], &h["createTime"]),
        (&json!("GangFromPodAnnotation"), &json!("1970-01-01T00:09:00Z"))
    );
    let refused = json!({ "message": "cannot find gang shop/nobody" });
    assert_eq!(world.get(&format!("{path}/gang/shop/nobody")).await, (404, refused));
    let none = format!("{path}/gang/shop");
    let told = format!("{none} is not served; /apis/v1/__services__ names what is");
    assert_eq!(world.get(&none).await, (404, json!({ "message": told })));
}

#[tokio::test]
async fn what_pods_add_to_the_load_of_a_node_is_shown() {
    let mut world = world();
    world.node("n1");
    let bound = |at: &str| {
        let scheduled = json!({ "type": "PodScheduled", "status": "True",
                                "lastTransitionTime": at });
        json!({ "metadata": { "labels": { "koordinator.sh/priority-class": "koord-prod" } },
                "status": { "conditions": [scheduled] } })
    };
    world.pod("old", "n1", bound("1970-01-01T00:00:10Z"));
    world.pod("new", "n1", bound("1970-01-01T00:16:39Z"));
    let path = "/apis/v1/plugins/LoadAwareScheduling/node/n1";
    let name = |name: &str| json!({ "metadata": { "namespace": "shop", "name": name } });
    let pods = json!([
        { "timestamp": "1970-01-01T00:00:10Z", "pod": name("old") },
        { "timestamp": "1970-01-01T00:16:39Z", "pod": name("new") },
    ]);
    assert_eq!(world.get(path).await, (200, json!({ "pods": pods })));
    let usage = |cpu: &str| json!({ "resources": { "cpu": cpu, "memory": "1Gi" } });
    let metric: NodeMetric = serde_json::from_value(json!({
        "metadata": { "name": "n1" },
        "status": { "updateTime": "1970-01-01T00:16:40Z",
            "nodeMetric": { "nodeUsage": usage("2") },
            "podsMetric": [{ "namespace": "shop", "name": "old", "priority": "koord-prod",
                             "podUsage": usage("500m") }] },
    }))
    .unwrap();
    world.core.take(Message::Fact(Fact::from(metric)), START);
    // Of the new one, which is not reported yet, 85 and 70 percent of its requests count.
    let memory = (7 << 30) / 10 + 1;
    let (_, shown) = world.get(path).await;
    assert_eq!(shown["pods"], pods);
    assert_eq!(shown["nodeDelta"]["cpu"], "850m", "{shown}");
    assert_eq!(shown["nodeEstimated"]["cpu"], "1700m", "{shown}");
    let told = shown["nodeDelta"]["memory"].as_str().unwrap().parse::<i64>().unwrap();
    assert!((told - memory).abs() <= 1, "{shown}");
    assert_eq!(shown["prodUsage"], json!({ "cpu": "500m", "memory": "1Gi" }));
    assert_eq!(shown["nodeDeltaPods"], json!(["shop/new"]));
    assert_eq!(shown["prodDeltaPods"], json!(["shop/new"]));
    assert_eq!(shown["nodeEstimatedPods"], json!(["shop/new", "shop/old"]));
}

#[tokio::test]
async fn whose_cpus_are_whose_is_shown() {
    let mut world = world();
    world.node("n1");
    let cpu = |id: u32| json!({ "id": id, "core": id / 2, "socket": 0, "node": 0 });
    let detail: Vec<Value> = (0..4).map(cpu).collect();
    let layout: NodeResourceTopology = serde_json::from_value(json!({
        "metadata": { "name": "n1", "annotations": {
            "node.koordinator.sh/cpu-topology": json!({ "detail": detail }).to_string() } },
        "topologyPolicies": ["SingleNUMANodePodLevel"],
        "zones": [{ "name": "node-0", "type": "Node", "resources": [
            { "name": "cpu", "capacity": "4", "allocatable": "4", "available": "4" }] }],
    }))
    .unwrap();
    world.core.take(Message::Fact(Fact::from(&layout)), START);
    world.pod(
        "bound",
        "n1",
        json!({ "metadata": { "labels": { "koordinator.sh/qosClass": "LSR" }, "annotations": {
            "scheduling.koordinator.sh/resource-status": "{\"cpuset\":\"0-1\"}" } },
            "spec": { "containers": [
                { "name": "main", "resources": { "requests": { "cpu": "2" } } }] } }),
    );
    let (code, shown) = world.get("/apis/v1/plugins/NodeNUMAResource/nodes/n1").await;
    assert_eq!(code, 200, "{shown}");
    let info = |id: u32, holders: u32| {
        json!({ "cpuID": id, "coreID": id / 2, "nodeID": 0, "socketID": 0, "refCount": holders,
                "exclusivePolicy": "" })
    };
    let zone = |cpu: &str| json!([{ "node": 0, "resources": { "cpu": cpu } }]);
    assert_eq!(
        shown,
        json!({
            "name": "n1",
            "cpuTopology": { "numCPUs": 4, "numCores": 2, "numNodes": 1, "numSockets": 1,
                "cpuDetails": { "0": info(0, 1), "1": info(1, 1), "2": info(2, 0), "3": info(3, 0) } },
            "reservedCPUs": "",
            "maxRefCount": 1,
            "numaTopologyPolicy": "SingleNUMANode",
            "numaNodeResources": zone("4"),
            "remainingNUMANodeResources": zone("2"),
            "allocatedNUMANodeResources": zone("2"),
            "availableCPUs": "2-3",
            "allocatedCPUs": { "0": info(0, 1), "1": info(1, 1) },
            "allocatedPods": [
                { "uid": "bound", "namespace": "shop", "name": "bound", "cpuset": "0-1" }],
        })
    );
}

#[tokio::test]
async fn what_is_held_on_a_node_and_who_uses_it_is_shown() {
    let mut world = world();
    world.node("n1");
    let owners = json!([{ "labelSelector": { "matchLabels": { "app": "web" } } }]);
    let held: Reservation = serde_json::from_value(json!({
        "metadata": { "name": "r", "uid": "r-uid" },
        "spec": { "allocateOnce": false, "allocatePolicy": "Restricted", "owners": owners,
            "template": { "spec": { "schedulerName": NAME, "containers": [{ "name": "c",
                "resources": { "requests": { "cpu": "2", "memory": "2Gi" } } }] } } },
        "status": { "phase": "Available", "nodeName": "n1",
            "allocatable": { "cpu": "2", "memory": "2Gi" } },
    }))
    .unwrap();
    world.core.take(feed::reservation(held), START);
    let uses = json!({ "metadata": { "labels": { "app": "web" }, "annotations": {
        "scheduling.koordinator.sh/reservation-allocated": "{\"name\":\"r\",\"uid\":\"r-uid\"}" } } });
    world.pod("web", "n1", uses);
    let (code, shown) = world.get("/apis/v1/plugins/Reservation/nodeReservations/n1").await;
    assert_eq!(code, 200, "{shown}");
    let amounts = |cpu: i64, gib: i64| {
        json!({ "MilliCPU": cpu, "Memory": gib << 30, "EphemeralStorage": 0,
                "AllowedPodNumber": 0, "ScalarResources": null })
    };
    let one = json!({ "cpu": "1", "memory": "1Gi" });
    assert_eq!(
        shown,
        json!({ "items": [{
            "name": "r", "uid": "r-uid", "kind": "Reservation",
            "available": true, "allocateOnce": false,
            "allocatable": { "cpu": "2", "memory": "2Gi" },
            "allocated": one,
            "availableResource": amounts(1000, 1),
            "allocatedResource": amounts(1000, 1),
            "owners": owners,
            "allocatePolicy": "Restricted",
            "assignedPods": [{ "Namespace": "shop", "Name": "web", "UID": "web",
                "Requests": one, "Ports": {} }],
        }] })
    );
}

#[tokio::test]
async fn a_pod_that_is_a_reservation_is_shown_as_a_pod() {
    let mut world = world();
    world.node("n1");
    let owners = json!([{ "labelSelector": { "matchLabels": { "app": "web" } } }]).to_string();
    let operating = json!({
        "metadata": { "labels": { OPERATING_MODE_LABEL: "Reservation" },
                      "annotations": { OWNERS: owners } },
        "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] },
    });
    world.pod("warm", "n1", operating);
    let waits: Reservation = serde_json::from_value(json!({
        "metadata": { "name": "decided", "uid": "decided" },
        "spec": { "allocatePolicy": "Aligned", "owners": [{ "object": { "name": "somebody" } }],
            "template": { "spec": { "schedulerName": NAME, "containers": [{ "name": "c",
                "resources": { "requests": { "cpu": "1", "memory": "1Gi" } } }] } } },
    }))
    .unwrap();
    world.core.take(feed::reservation(waits), START);
    while world.core.next_order(START).is_some() {}
    let (code, shown) = world.get("/apis/v1/plugins/Reservation/nodeReservations/n1").await;
    assert_eq!(code, 200, "{shown}");
    let seen: Vec<[Value; 4]> = shown["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| ["namespace", "name", "kind", "available"].map(|field| item[field].clone()))
        .collect();
    let reservation = [Value::Null, json!("decided"), json!("Reservation"), json!(false)];
    let pod = [json!("shop"), json!("warm"), json!("Pod"), json!(true)];
    assert_eq!(seen, [reservation, pod], "{shown}");
}
