//! What each plugin and each rule of the queue comes to, with kube-scheduler on a real server and
//! with ours on both servers: the same nodes and the same words.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use chassis::client::Patch;
use futures::future::join_all;
use scenarios::backend::{Backend, Scope};
use serde_json::{Value, json};
use truth::{Binaries, Companion};

use crate::yard::{Yard, configured};

const ALWAYS: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PERHAPS: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const HOST: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";

/// Who schedules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Theirs,
    Ours,
}

/// The truth, and what is held against it.
const STAGES: [(Backend, Who); 3] = [
    (Backend::KubeApiServer, Who::Theirs),
    (Backend::KubeApiServer, Who::Ours),
    (Backend::Drydock, Who::Ours),
];

/// Plays a story on all stages at the same time: `set` makes what is there before the scheduler,
/// which is told `more`, and `play` says what came of it.
async fn alike(
    name: &'static str,
    more: Value,
    set: impl AsyncFn(&Yard) -> Result<()>,
    play: impl AsyncFn(&Yard) -> Result<Vec<String>>,
) {
    let (set, play, more) = (&set, &play, &more);
    let plays = STAGES.iter().map(async |(backend, who)| {
        let yard = Yard::open(name, *backend, Scope::Exclusive).await?;
        let begun = Instant::now();
        let played = async {
            set(&yard).await.context("what is there before")?;
            if *who == Who::Ours {
                let ours = yard.schedule(configured(more)?).await?;
                let told = play(&yard).await?;
                ours.end().await?;
                return Ok(told);
            }
            let (kubeconfig, more) = (yard.kubeconfig().to_owned(), more.clone());
            let start = move || {
                let binaries = Binaries::locate(&|line| eprintln!("{line}"));
                Companion::kube_scheduler(&binaries, &kubeconfig, &more)
            };
            let mut theirs = tokio::task::spawn_blocking(start).await??;
            let told = play(&yard).await?;
            theirs.check()?;
            Ok(told)
        };
        let told: Result<Vec<String>> = played.await;
        let closed = yard.close().await;
        eprintln!("{name} {backend:?} {who:?}: {:.1} s", begun.elapsed().as_secs_f64());
        let told = told?;
        closed.map(|()| told)
    });
    let mut told: Vec<Vec<String>> = Vec::new();
    for (stage, played) in STAGES.iter().zip(join_all(plays).await) {
        told.push(played.unwrap_or_else(|error| panic!("{name} with {stage:?}: {error:#}")));
    }
    for (stage, ours) in STAGES.iter().zip(&told) {
        assert_eq!(*ours, told[0], "{name} with {stage:?}, and what is true");
    }
}

/// A pod with this label `app` and this in its spec.
fn of_app(app: &str, spec: Value) -> Value {
    json!({ "metadata": { "labels": { "app": app } }, "spec": spec })
}

/// A term about pods of this app.
fn term(app: &str, key: &str) -> Value {
    json!({ "labelSelector": { "matchLabels": { "app": app } }, "topologyKey": key })
}

/// A constraint on how pods of this app are spread over zones.
fn spread(app: &str, when: &str) -> Value {
    json!([{ "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": when,
        "labelSelector": { "matchLabels": { "app": app } } }])
}

/// A pod that uses a claim.
fn claiming(claim: &str) -> Value {
    let volume = json!({ "name": "v", "persistentVolumeClaim": { "claimName": claim } });
    json!({ "spec": { "volumes": [volume] } })
}

impl Yard {
    /// Makes a class of storage whose volumes are bound when a pod needs them, or at once.
    async fn class(&self, name: &str, mode: &str) -> Result<()> {
        let class = json!({ "metadata": { "name": name }, "volumeBindingMode": mode,
            "provisioner": "kubernetes.io/no-provisioner" });
        self.create("/apis/storage.k8s.io/v1/storageclasses", &class).await
    }

    /// Makes a claim, bound to a volume unless that is empty.
    async fn claim(&self, name: &str, class: &str, volume: &str, mode: &str) -> Result<()> {
        let path = format!("/api/v1/namespaces/{}/persistentvolumeclaims", self.namespace);
        let mut claim = json!({ "metadata": { "name": name }, "spec": { "accessModes": [mode],
            "storageClassName": class, "resources": { "requests": { "storage": "1Gi" } } } });
        if !volume.is_empty() {
            claim["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] = json!("yes");
            claim["spec"]["volumeName"] = json!(volume);
        }
        self.create(&path, &claim).await?;
        let phase = if volume.is_empty() { "Pending" } else { "Bound" };
        let status = json!({ "status": { "phase": phase } });
        self.patch_status(&format!("{path}/{name}"), status).await
    }

    /// Makes a volume, kept for a claim unless that is empty, with more fields.
    async fn volume(&self, name: &str, class: &str, claim: &str, more: Value) -> Result<()> {
        let mut volume = json!({ "metadata": { "name": name }, "spec": {
            "capacity": { "storage": "1Gi" }, "storageClassName": class,
            "accessModes": ["ReadWriteOnce"],
            "csi": { "driver": "csi.example.com", "volumeHandle": name } } });
        if !claim.is_empty() {
            volume["spec"]["claimRef"] = json!({ "namespace": self.namespace, "name": claim });
        }
        crate::yard::merge(&mut volume, &more);
        self.create("/api/v1/persistentvolumes", &volume).await?;
        let phase = if claim.is_empty() { "Available" } else { "Bound" };
        let path = format!("/api/v1/persistentvolumes/{name}");
        self.patch_status(&path, json!({ "status": { "phase": phase } })).await
    }

    /// Binds a claim to a volume that is kept for it, as a controller would.
    async fn complete_claim(&self, name: &str, volume: &str) -> Result<()> {
        let claims = self.client.within::<api::PersistentVolumeClaim>(&self.namespace);
        let annotations = json!({ "pv.kubernetes.io/bind-completed": "yes" });
        let patch =
            json!({ "metadata": { "annotations": annotations }, "spec": { "volumeName": volume } });
        claims.patch(name, &Patch::Merge(patch)).await?;
        let path = format!("/api/v1/namespaces/{}/persistentvolumeclaims/{name}", self.namespace);
        self.patch_status(&path, json!({ "status": { "phase": "Bound" } })).await
    }

    /// Makes a pod that has its node from the start.
    async fn resident(&self, name: &str, node: &str, cpu: &str, more: Value) -> Result<()> {
        let mut pod = json!({ "spec": { "nodeName": node } });
        crate::yard::merge(&mut pod, &more);
        self.pod_like(name, cpu, pod).await
    }

    /// The pod waits: in which words its condition and its event say so.
    async fn waits(&self, pod: &str) -> Result<String> {
        let why = self.until_waits(pod, "Unschedulable").await?;
        let told = self.until_told(pod, "FailedScheduling").await?;
        let (why, told) =
            (why.replace(&self.namespace, "{ns}"), told.replace(&self.namespace, "{ns}"));
        Ok(if why == told {
            format!("{pod} waits: {why}")
        } else {
            format!("{pod} waits: {why} {told}")
        })
    }

    /// The pod gets a node: which.
    async fn placed(&self, pod: &str) -> Result<String> {
        Ok(format!("{pod} is on {}", self.until_bound(pod).await?))
    }
}

/// Three nodes in three zones, of which one is tainted and one cordoned, a fourth one that says
/// nothing of itself, and pods and volumes that are in the way.
async fn crowded(yard: &Yard) -> Result<()> {
    let zone = |zone: &str| json!({ "metadata": { "labels": { ZONE: zone } } });
    yard.node_like("a", 8, zone("z1")).await?;
    let mut tainted = zone("z2");
    tainted["spec"]["taints"] =
        json!([{ "key": "dedicated", "value": "infra", "effect": "NoSchedule" }]);
    yard.node_like("b", 8, tainted).await?;
    let mut cordoned = zone("z3");
    cordoned["spec"]["unschedulable"] = json!(true);
    yard.node_like("c", 8, cordoned).await?;
    yard.create("/api/v1/nodes", &json!({ "metadata": { "name": "bare" } })).await?;
    yard.patch_node("bare", json!({ "spec": { "taints": null } })).await?;
    let driver = json!({ "name": "csi.example.com", "nodeID": "a", "allocatable": { "count": 1 } });
    let csi = json!({ "metadata": { "name": "a" }, "spec": { "drivers": [driver] } });
    yard.create("/apis/storage.k8s.io/v1/csinodes", &csi).await?;
    yard.class("later", "WaitForFirstConsumer").await?;
    yard.class("now", "Immediate").await?;
    yard.claim("unbound", "now", "", "ReadWriteOnce").await?;
    yard.claim("none", "later", "", "ReadWriteOnce").await?;
    for (claim, mode) in [("solo", "ReadWriteOncePod"), ("far", "ReadWriteOnce")] {
        yard.claim(claim, "now", claim, mode).await?;
    }
    yard.claim("elsewhere", "now", "elsewhere", "ReadWriteOnce").await?;
    yard.claim("second", "now", "second", "ReadWriteOnce").await?;
    let for_one = json!({ "spec": { "accessModes": ["ReadWriteOncePod"] } });
    yard.volume("solo", "now", "solo", for_one).await?;
    yard.volume("second", "now", "second", json!({})).await?;
    yard.volume("far", "now", "far", zone("z9")).await?;
    let nowhere = json!({ "key": HOST, "operator": "In", "values": ["nowhere"] });
    let affinity =
        json!({ "required": { "nodeSelectorTerms": [{ "matchExpressions": [nowhere] }] } });
    yard.volume("elsewhere", "now", "elsewhere", json!({ "spec": { "nodeAffinity": affinity } }))
        .await?;
    let mut guard = claiming("solo");
    guard["spec"]["containers"] = json!([{ "name": "main", "image": "registry.example/web:1",
        "ports": [{ "containerPort": 80, "hostPort": 80 }] }]);
    guard["spec"]["affinity"] = json!({ "podAntiAffinity": { ALWAYS: [term("shunned", HOST)] } });
    yard.resident("guard", "a", "1", guard).await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_plugin_refuses_in_the_same_words() {
    let port = json!([{ "name": "main", "image": "registry.example/web:1",
        "ports": [{ "containerPort": 80, "hostPort": 80 }] }]);
    let affinity =
        |kind: &str, app: &str| json!({ "affinity": { kind: { ALWAYS: [term(app, HOST)] } } });
    let on = |node: &str| json!({ "nodeSelector": { HOST: node } });
    let cases: Vec<(&str, &str, Value)> = vec![
        ("tainted", "1", of_app("x", on("b"))),
        ("cordoned", "1", of_app("x", on("c"))),
        ("port", "1", of_app("x", json!({ "containers": port }))),
        ("lonely", "1", of_app("x", affinity("podAffinity", "nobody"))),
        ("shy", "1", of_app("x", affinity("podAntiAffinity", "guard"))),
        ("shunned", "1", of_app("shunned", json!({}))),
        (
            "even",
            "1",
            of_app(
                "guard",
                json!({ "topologySpreadConstraints": spread("guard", "DoNotSchedule") }),
            ),
        ),
        ("large", "9", of_app("x", json!({}))),
        ("claimless", "1", claiming("missing")),
        ("early", "1", claiming("unbound")),
        ("volumeless", "1", claiming("none")),
        ("zoned", "1", claiming("far")),
        ("bound-away", "1", claiming("elsewhere")),
        ("alone", "1", claiming("solo")),
        ("attached", "1", claiming("second")),
    ];
    alike("refusals", json!({}), crowded, async |yard| {
        for (name, cpu, more) in &cases {
            yard.pod_like(name, cpu, more.clone()).await?;
        }
        let mut told = Vec::new();
        for (name, ..) in &cases {
            told.push(yard.waits(name).await?);
        }
        Ok(told)
    })
    .await;
}

/// For each case two nodes that differ in one thing.
async fn pairs(yard: &Yard) -> Result<()> {
    let image = json!([{ "names": ["registry.example/large:1"], "sizeBytes": 900_000_000 }]);
    let avoided = json!([{ "key": "busy", "value": "yes", "effect": "PreferNoSchedule" }]);
    let plain = json!({});
    let cases = [
        ("image", plain.clone(), json!({ "status": { "images": image } })),
        ("liked", plain.clone(), json!({ "metadata": { "labels": { "disk": "fast" } } })),
        ("avoided", json!({ "spec": { "taints": avoided } }), plain.clone()),
        ("near", plain.clone(), plain.clone()),
        ("away", plain.clone(), plain.clone()),
        ("spread", plain.clone(), plain.clone()),
        ("empty", plain.clone(), plain.clone()),
        ("level", plain.clone(), plain.clone()),
    ];
    for (case, first, second) in cases {
        for (end, more) in [("1", first), ("2", second)] {
            let name = format!("{case}-{end}");
            let mut node = json!({ "metadata": { "labels": { "case": case, ZONE: name } } });
            crate::yard::merge(&mut node, &more);
            yard.node_like(&name, 8, node).await?;
        }
    }
    yard.resident("friend", "near-2", "0", of_app("friend", json!({}))).await?;
    yard.resident("foe", "away-1", "0", of_app("foe", json!({}))).await?;
    yard.resident("twin", "spread-1", "0", of_app("twin", json!({}))).await?;
    yard.resident("eater", "empty-1", "4", json!({})).await?;
    let both = |cpu: &str, memory: &str| {
        json!([{ "name": "main", "image": "registry.example/web:1",
            "resources": { "requests": { "cpu": cpu, "memory": memory } } }])
    };
    // Both halves are full by a quarter on average; one of them is full of one thing alone.
    yard.resident("lopsided", "level-1", "0", json!({ "spec": { "containers": both("4", "1") } }))
        .await?;
    yard.resident(
        "balanced",
        "level-2",
        "0",
        json!({ "spec": { "containers": both("2", "16Gi") } }),
    )
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_plugin_prefers_the_same_node() {
    let liked = json!({ "nodeAffinity": { PERHAPS: [{ "weight": 10, "preference":
        { "matchExpressions": [{ "key": "disk", "operator": "Exists" }] } }] } });
    let wished = |kind: &str, app: &str| {
        let wish = json!({ "weight": 100, "podAffinityTerm": term(app, HOST) });
        json!({ kind: { PERHAPS: [wish] } })
    };
    let cases = [
        (
            "image",
            json!({ "containers": [{ "name": "main", "image": "registry.example/large:1" }] }),
        ),
        ("liked", json!({ "affinity": liked })),
        ("avoided", json!({})),
        ("near", json!({ "affinity": wished("podAffinity", "friend") })),
        ("away", json!({ "affinity": wished("podAntiAffinity", "foe") })),
        ("spread", json!({ "topologySpreadConstraints": spread("twin", "ScheduleAnyway") })),
        ("empty", json!({})),
        ("level", json!({})),
    ];
    alike("choices", json!({}), pairs, async |yard| {
        let mut told = Vec::new();
        for (case, spec) in &cases {
            let mut pod = of_app(if *case == "spread" { "twin" } else { case }, spec.clone());
            pod["spec"]["nodeSelector"] = json!({ "case": case });
            yard.pod_like(case, "1", pod).await?;
            told.push(yard.placed(case).await?);
        }
        Ok(told)
    })
    .await;
}

const PRIORITY: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";

/// One node that takes nobody yet, and a resident that can be made smaller.
async fn closed(yard: &Yard) -> Result<()> {
    let class = json!({ "metadata": { "name": "matters" }, "value": 1000 });
    yard.create(PRIORITY, &class).await?;
    let cordoned = json!({ "spec": { "unschedulable": true } });
    yard.node_like("a", 4, cordoned).await?;
    let never =
        json!({ "metadata": { "name": "polite" }, "value": 500, "preemptionPolicy": "Never" });
    yard.create(PRIORITY, &never).await
}

/// A pod that was refused once may be tried again by then, with either scheduler: who comes first is
/// a matter of priority and no longer of whose back-off ends first.
const BACKED_OFF: Duration = Duration::from_millis(2_100);

/// Pods that wait for one thing each, and what happens then.
async fn woken(yard: &Yard) -> Result<Vec<String>> {
    let mut told = Vec::new();
    let of = |class: &str| json!({ "spec": { "priorityClassName": class } });
    // The one of higher priority is tried first, though it came last.
    yard.pod("low", "4").await?;
    told.push(yard.waits("low").await?);
    yard.pod_like("high", "4", of("polite")).await?;
    told.push(yard.waits("high").await?);
    tokio::time::sleep(BACKED_OFF).await;
    yard.patch_node("a", json!({ "spec": { "unschedulable": null } })).await?;
    told.push(yard.placed("high").await?);
    // Room comes when a pod goes.
    yard.delete_pod("high").await?;
    told.push(yard.placed("low").await?);
    // A node comes, a label comes, a taint goes.
    yard.pod("homeless", "4").await?;
    told.push(yard.waits("homeless").await?);
    yard.node("b", 4).await?;
    told.push(yard.placed("homeless").await?);
    let taints = json!([{ "key": "kept", "effect": "NoSchedule" }]);
    yard.node_seen("c", 4, json!({ "spec": { "taints": taints } })).await?;
    yard.pod_like("choosy", "1", json!({ "spec": { "nodeSelector": { "disk": "fast" } } })).await?;
    told.push(yard.waits("choosy").await?);
    yard.patch_node("c", json!({ "metadata": { "labels": { "disk": "fast" } } })).await?;
    // Still tainted: the words change with the reason.
    yard.until("another reason", |seen| {
        seen.condition("choosy").is_some_and(|(_, why)| why.contains("untolerated taint"))
    })
    .await?;
    yard.patch_node("c", json!({ "spec": { "taints": null } })).await?;
    told.push(yard.placed("choosy").await?);
    // A pod comes that another one wants to be near.
    let near = json!({ "podAffinity": { ALWAYS: [term("lead", HOST)] } });
    yard.pod_like("follower", "1", json!({ "spec": { "affinity": near } })).await?;
    told.push(yard.waits("follower").await?);
    yard.pod_like("lead", "1", json!({ "spec": { "nodeSelector": { "disk": "fast" } } })).await?;
    told.push(yard.placed("lead").await?);
    told.push(yard.placed("follower").await?);
    // The pod itself changes: it learns to tolerate, or its gate goes.
    let noted = json!([{ "key": "later", "effect": "NoSchedule" }]);
    yard.node_seen("d", 4, json!({ "spec": { "taints": noted } })).await?;
    yard.pod("tolerant", "4").await?;
    told.push(yard.waits("tolerant").await?);
    let tolerations = json!([{ "key": "later", "operator": "Exists" }]);
    let kept = yard.seen(|seen| serde_json::to_value(&seen.pods["tolerant"].spec.tolerations))?;
    let all: Vec<Value> =
        [kept, tolerations].iter().filter_map(Value::as_array).flatten().cloned().collect();
    yard.patch_pod("tolerant", json!({ "spec": { "tolerations": all } })).await?;
    told.push(yard.placed("tolerant").await?);
    Ok(told)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_rule_of_the_queue_wakes_the_same_pods() {
    alike("wakes", json!({}), closed, woken).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn profiles_of_one_process_differ_in_what_they_want_and_share_what_there_is() {
    let fast = json!({ "key": "disk", "operator": "In", "values": ["fast"] });
    let added = json!({ "addedAffinity": { ALWAYS:
        { "nodeSelectorTerms": [{ "matchExpressions": [fast] }] } } });
    let most = json!({ "scoringStrategy": { "type": "MostAllocated",
        "resources": [{ "name": "cpu", "weight": 1 }] } });
    let only = json!({ "score": { "disabled": [{ "name": "*" }],
        "enabled": [{ "name": "NodeResourcesFit" }] } });
    let profiles = json!({ "profiles": [
        { "schedulerName": "default-scheduler" },
        { "schedulerName": "packer", "plugins": only,
          "pluginConfig": [{ "name": "NodeResourcesFit", "args": most }] },
        { "schedulerName": "fussy", "pluginConfig": [{ "name": "NodeAffinity", "args": added }] },
    ] });
    let set = async |yard: &Yard| {
        yard.node_like("a", 4, json!({ "metadata": { "labels": { "disk": "fast" } } })).await?;
        yard.node("b", 4).await?;
        yard.resident("eater", "a", "2", json!({})).await
    };
    alike("profiles", profiles, set, async |yard| {
        let mut told = Vec::new();
        let of = |name: &str| json!({ "spec": { "schedulerName": name } });
        for (pod, profile) in
            [("spread", "default-scheduler"), ("packed", "packer"), ("fast", "fussy")]
        {
            yard.pod_like(pod, "1", of(profile)).await?;
            told.push(yard.placed(pod).await?);
            told.push(yard.until_told(pod, "Scheduled").await?.replace(&yard.namespace, "{ns}"));
        }
        // Three CPUs are left, all on one node.
        yard.pod_like("rest", "3", of("packer")).await?;
        told.push(yard.placed("rest").await?);
        for (pod, profile) in
            [("more", "default-scheduler"), ("most", "packer"), ("fussiest", "fussy")]
        {
            yard.pod_like(pod, "2", of(profile)).await?;
            told.push(yard.waits(pod).await?);
        }
        Ok(told)
    })
    .await;
}

/// Two nodes that are full, one of pods that a budget protects.
async fn guarded(yard: &Yard) -> Result<()> {
    closed(yard).await?;
    yard.patch_node("a", json!({ "spec": { "unschedulable": null } })).await?;
    yard.node("b", 4).await?;
    yard.resident("kept", "a", "4", json!({})).await?;
    yard.resident("spare", "b", "4", json!({})).await?;
    let path = format!("/apis/policy/v1/namespaces/{}/poddisruptionbudgets", yard.namespace);
    let budget = json!({ "metadata": { "name": "kept" }, "spec": { "minAvailable": 1,
        "selector": { "matchLabels": { "app": "kept" } } } });
    yard.create(&path, &budget).await?;
    let none = json!({ "status": { "disruptionsAllowed": 0, "currentHealthy": 1,
        "desiredHealthy": 1,
        "expectedPods": 1, "observedGeneration": 1 } });
    yard.patch_status(&format!("{path}/kept"), none).await
}

#[tokio::test(flavor = "multi_thread")]
async fn room_is_made_where_no_budget_forbids_it() {
    alike("rooms", json!({}), guarded, async |yard| {
        let of = |class: &str| json!({ "spec": { "priorityClassName": class } });
        let mut told = Vec::new();
        // One that must not make room only waits.
        yard.pod_like("polite", "4", of("polite")).await?;
        told.push(yard.waits("polite").await?);
        yard.pod_like("urgent", "4", of("matters")).await?;
        told.push(yard.placed("urgent").await?);
        let why = yard.until_told("spare", "Preempted").await?;
        let uid = yard.seen(|seen| seen.pods["urgent"].metadata.uid.clone());
        told.push(why.replace(&uid, "{uid}"));
        told.push(format!("kept is on {}", yard.seen(|seen| seen.node("kept").to_owned())));
        Ok(told)
    })
    .await;
}

/// A volume that only one node reaches, and a class whose volumes are made on demand.
async fn stored(yard: &Yard) -> Result<()> {
    yard.node("a", 4).await?;
    yard.node("b", 4).await?;
    yard.class("later", "WaitForFirstConsumer").await?;
    let made = json!({ "metadata": { "name": "made" }, "provisioner": "example.com/made",
        "volumeBindingMode": "WaitForFirstConsumer" });
    yard.create("/apis/storage.k8s.io/v1/storageclasses", &made).await?;
    let on_b = json!({ "key": HOST, "operator": "In", "values": ["b"] });
    let affinity = json!({ "required": { "nodeSelectorTerms": [{ "matchExpressions": [on_b] }] } });
    let local = json!({ "spec": { "nodeAffinity": affinity } });
    yard.volume("local", "later", "", local).await?;
    yard.claim("static", "later", "", "ReadWriteOnce").await?;
    yard.claim("dynamic", "made", "", "ReadWriteOnce").await
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_are_got_ready_before_a_pod_is_bound() {
    alike("volumes", json!({}), stored, async |yard| {
        let mut told = Vec::new();
        let claims = format!("/api/v1/namespaces/{}/persistentvolumeclaims", yard.namespace);
        let bound = json!({ "status": { "phase": "Bound" } });
        // A volume is kept for the claim; a controller completes that, and then the pod is bound.
        yard.pod_like("keeper", "1", claiming("static")).await?;
        let path = "/api/v1/persistentvolumes/local";
        let kept = |own: &Value| (!own["spec"]["claimRef"].is_null()).then(|| own.clone());
        let volume = yard.until_object(path, kept).await?;
        let reference = &volume["spec"]["claimRef"];
        told.push(format!("kept for {} {}", reference["kind"], reference["name"]));
        told.push(volume["metadata"]["annotations"].to_string());
        told.push(format!(
            "keeper is on {:?} meanwhile",
            yard.seen(|seen| seen.node("keeper").to_owned())
        ));
        yard.patch_status(path, bound.clone()).await?;
        yard.complete_claim("static", "local").await?;
        told.push(yard.placed("keeper").await?);
        // A node is chosen for the claim; a provisioner makes a volume, and then the pod is bound.
        let mut maker = claiming("dynamic");
        maker["spec"]["nodeSelector"] = json!({ HOST: "a" });
        yard.pod_like("maker", "1", maker).await?;
        let chosen = |claim: &Value| {
            let chosen = &claim["metadata"]["annotations"];
            (!chosen.is_null()).then(|| chosen.to_string())
        };
        told.push(yard.until_object(&format!("{claims}/dynamic"), chosen).await?);
        yard.volume("fresh", "made", "dynamic", json!({})).await?;
        yard.complete_claim("dynamic", "fresh").await?;
        told.push(yard.placed("maker").await?);
        Ok(told)
    })
    .await;
}
