//! The fourth suite: the real kube-scheduler, as a program, on a real kube-apiserver.
//!
//! A seed makes a cluster and pods, which are created one at a time. The program binds each to a
//! node, which must be one that is best to us as well, or says why not, which must be what we would
//! say. Both see the objects as the API server has them: what it refuses is left out, and counted.
//!
//! The program watches each kind apart, so that it might see a pod before what was made before it.
//! Each seed therefore has a program of its own, which is started when everything but the pods in
//! question is there, and each pod is asked about after a scout was bound, which the program can do
//! only when it has seen the last pod that came or went: a node that both sides know takes a pod
//! with a node of its own and then the scout, who must be near that pod.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use http::{Method, Request};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use truth::{Binaries, Companion, ControlPlane};

use crate::answer::Answer;
use crate::generate::{Script, Step, name_of};
use crate::ours::Ours;

/// How long the program may take for one pod, its own start included.
const DECIDED_WITHIN: Duration = Duration::from_secs(60);
/// How often it is asked whether it has decided.
const POLL: Duration = Duration::from_millis(20);
/// The node for scouts, which is made last, and their namespace.
const LOOKOUT: &str = "lookout";
/// The label of what has to be seen: each time it is another one.
const ROUND: &str = "example.com/round";
const HOST: &str = "kubernetes.io/hostname";

/// A kube-apiserver, and nothing else but a kube-scheduler for each seed.
pub struct Real {
    runtime: Runtime,
    client: kube::Client,
    /// How many scouts were sent.
    rounds: usize,
    // Fields are dropped in order: the scheduler ends before its server.
    scheduler: Option<Companion>,
    plane: ControlPlane,
}

/// What came of a seed.
#[derive(Debug, Default)]
pub struct Outcome {
    /// How many pods got a node.
    pub bound: usize,
    /// How many did not.
    pub refused: usize,
    /// How many objects the server refused.
    pub left_out: usize,
    /// Where both differ.
    pub differences: Vec<String>,
}

/// The path of a kind's objects in a namespace.
fn path(kind: &str, namespace: &str) -> Result<String> {
    let within = |group: &str, plural: &str| format!("{group}/namespaces/{namespace}/{plural}");
    Ok(match kind {
        "Namespace" => "/api/v1/namespaces".to_owned(),
        "Node" => "/api/v1/nodes".to_owned(),
        "Pod" => within("/api/v1", "pods"),
        "Service" => within("/api/v1", "services"),
        "ServiceAccount" => within("/api/v1", "serviceaccounts"),
        "ReplicationController" => within("/api/v1", "replicationcontrollers"),
        "ReplicaSet" => within("/apis/apps/v1", "replicasets"),
        "StatefulSet" => within("/apis/apps/v1", "statefulsets"),
        other => bail!("{other} is not played on a real server"),
    })
}

impl Real {
    /// Starts the programs.
    ///
    /// # Errors
    /// Where one is missing or does not start.
    pub fn start() -> Result<Self> {
        let binaries = Binaries::locate(&|line| eprintln!("{line}"));
        let plane = ControlPlane::start(&binaries, 1)?;
        let kubeconfig = plane.servers()[0].kubeconfig().to_owned();
        let runtime = Runtime::new().context("a runtime for requests")?;
        let client = runtime.block_on(client(&kubeconfig))?;
        Ok(Self { runtime, client, rounds: 0, scheduler: None, plane })
    }

    /// Starts a kube-scheduler that finds what there is in its first lists.
    fn schedule(&mut self) -> Result<()> {
        self.scheduler = None;
        let binaries = Binaries::locate(&|line| eprintln!("{line}"));
        // Batching takes what was best for the pod before, if it is alike, for best.
        let flags = ["--secure-port=0", "--feature-gates=OpportunisticBatching=false"];
        let of = self.plane.servers()[0].kubeconfig();
        let scheduler = Companion::kube_scheduler_with(&binaries, of, &Value::Null, &flags)?;
        self.scheduler = Some(scheduler);
        Ok(())
    }

    /// The answer of the server, or the code with which it refuses.
    fn try_ask(&self, method: Method, path: &str, body: &Value) -> Result<Result<Value, Refused>> {
        let kind = match method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = Request::builder().method(method).uri(path).header("Content-Type", kind);
        let request = request.body(body).context("a request")?;
        match self.runtime.block_on(self.client.request::<Value>(request)) {
            Ok(answer) => Ok(Ok(answer)),
            Err(kube::Error::Api(status)) if (400..500).contains(&status.code) => {
                Ok(Err(Refused { code: status.code, message: status.message }))
            }
            Err(error) => Err(error).with_context(|| format!("no answer for {path}")),
        }
    }

    /// The answer of a server that must not refuse.
    fn ask(&self, method: Method, path: &str, body: &Value) -> Result<Value> {
        match self.try_ask(method.clone(), path, body)? {
            Ok(answer) => Ok(answer),
            Err(Refused { code, message }) => bail!("{method} {path}: {code} {message}"),
        }
    }

    /// Creates an object, and returns it as the server has it; none where it is not valid.
    fn create(&self, object: &Value) -> Result<Option<Value>> {
        let (kind, namespace, name) = name_of(object);
        let path = path(&kind, &namespace)?;
        let own = format!("{path}/{name}");
        let created = match self.try_ask(Method::POST, &path, object)? {
            Ok(created) => created,
            // These stay from seed to seed, and may have had other labels.
            Err(Refused { code: 409, .. }) if kind == "Namespace" || kind == "ServiceAccount" => {
                let patch = json!({"metadata": {"labels": object["metadata"]["labels"]}});
                return self.ask(Method::PATCH, &own, &patch).map(Some);
            }
            Err(Refused { code: 400 | 403 | 422, .. }) => return Ok(None),
            Err(Refused { code, message }) => bail!("POST {own}: {code} {message}"),
        };
        if kind != "Node" {
            return Ok(Some(created));
        }
        // A new node is tainted until somebody says that it is ready.
        self.ask(Method::PATCH, &format!("{own}/status"), &json!({"status": object["status"]}))?;
        let taints = json!({"spec": {"taints": object["spec"]["taints"]}});
        self.ask(Method::PATCH, &own, &taints).map(Some)
    }

    /// Creates what is known to be valid.
    fn must_create(&self, object: &Value) -> Result<Value> {
        self.create(object)?.with_context(|| format!("{:?} is refused", name_of(object)))
    }

    /// Sends a scout and waits until it is bound: pods that came or went before are seen then. Returns
    /// what was made for that.
    fn scout(&mut self, ours: &mut Ours) -> Result<[Value; 2]> {
        self.rounds += 1;
        let round = self.rounds.to_string();
        let pod = |name: &str, spec: Value| {
            json!({"apiVersion": "v1", "kind": "Pod", "spec": spec, "metadata": {
                "name": format!("{name}-{round}"), "namespace": LOOKOUT, "labels": {ROUND: round},
            }})
        };
        let containers = json!([{"name": "c", "image": "c"}]);
        let seen = pod("seen", json!({"nodeName": LOOKOUT, "containers": containers}));
        let seen = self.must_create(&seen)?;
        let selector = json!({"matchLabels": {ROUND: round}});
        let term = json!({"labelSelector": selector, "topologyKey": HOST});
        let near = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
        let scout = json!({"containers": containers, "nodeSelector": {HOST: LOOKOUT},
            "tolerations": [{"key": LOOKOUT, "operator": "Exists"}],
            "affinity": {"podAffinity": near}});
        let scout = self.must_create(&pod("scout", scout))?;
        let scout = self.awaited(&scout, |now| now["spec"]["nodeName"].is_string())?;
        ours.put(&seen)?;
        ours.put(&scout)?;
        Ok([seen, scout])
    }

    fn delete(&self, object: &Value) -> Result<()> {
        let (kind, namespace, name) = name_of(object);
        let path = format!("{}/{name}", path(&kind, &namespace)?);
        // A controller that is to leave its pods behind would wait for somebody to do that.
        let how = json!({"gracePeriodSeconds": 0, "propagationPolicy": "Background"});
        self.ask(Method::DELETE, &path, &how).map(drop)
    }

    /// The pod as it is once this is so.
    fn awaited(&mut self, pod: &Value, is_so: impl Fn(&Value) -> bool) -> Result<Value> {
        let (kind, namespace, name) = name_of(pod);
        let path = format!("{}/{name}", path(&kind, &namespace)?);
        let begun = Instant::now();
        while begun.elapsed() < DECIDED_WITHIN {
            let now = self.ask(Method::GET, &path, &Value::Null)?;
            if is_so(&now) {
                return Ok(now);
            }
            self.scheduler.as_mut().map_or(Ok(()), Companion::check)?;
            sleep(POLL);
        }
        bail!("kube-scheduler does not decide about {namespace}/{name}")
    }

    /// Has the program and us decide about a pod; the pod where it is bound.
    fn decide(
        &mut self,
        asked: &Value,
        script: &Script,
        ours: &mut Ours,
        outcome: &mut Outcome,
    ) -> Result<Option<Value>> {
        let Some(created) = self.create(asked)? else {
            outcome.left_out += 1;
            return Ok(None);
        };
        let answer = ours.answer(&created, script)?;
        let is_decided =
            |now: &Value| now["spec"]["nodeName"].is_string() || !refusal(now).is_empty();
        let decided = self.awaited(&created, is_decided)?;
        outcome.differences.extend(differs(&decided, &answer));
        if decided["spec"]["nodeName"].is_string() {
            outcome.bound += 1;
            ours.put(&decided)?;
            return Ok(Some(decided));
        }
        outcome.refused += 1;
        self.delete(&decided)?;
        Ok(None)
    }

    /// Makes what is there at first.
    fn found(&self, script: &Script, ours: &mut Ours, outcome: &mut Outcome) -> Result<Vec<Value>> {
        let namespace = json!({"kind": "Namespace", "metadata": {"name": LOOKOUT}});
        let lookout = json!({"kind": "Node", "metadata": {"name": LOOKOUT, "labels": {HOST: LOOKOUT}},
            "spec": {"taints": [{"key": LOOKOUT, "effect": "NoSchedule"}]},
            "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "1000"}}});
        let mut objects: Vec<Value> = script.objects.iter().filter_map(plain).collect();
        objects.extend([namespace, lookout]);
        objects.sort_by_key(|object| match object["kind"].as_str() {
            Some("Namespace") => 0,
            Some("Node") => 2,
            Some("Pod") => 3,
            _ => 1,
        });
        let mut there = Vec::new();
        for object in objects {
            let Some(created) = self.create(&object)? else {
                outcome.left_out += 1;
                continue;
            };
            ours.put(&created)?;
            if created["kind"] == "Namespace" {
                let (_, _, namespace) = name_of(&created);
                let metadata = json!({"name": "default", "namespace": namespace});
                self.must_create(&json!({"kind": "ServiceAccount", "metadata": metadata}))?;
            } else {
                there.push(created);
            }
        }
        Ok(there)
    }

    /// Plays a seed.
    ///
    /// # Errors
    /// Where the programs fail.
    pub fn play(&mut self, seed: u64) -> Result<Outcome> {
        let script = Script { config: None, preempts: true, ..Script::from_seed(seed) };
        let mut ours = Ours::default();
        let mut outcome = Outcome::default();
        let mut there = self.found(&script, &mut ours, &mut outcome)?;
        self.schedule()?;
        let mut is_seen = false;
        for step in &script.steps {
            match step {
                Step::Probe(pod) => {
                    let Some(asked) = plain(pod) else { continue };
                    if !std::mem::replace(&mut is_seen, true) {
                        there.extend(self.scout(&mut ours)?);
                    }
                    there.extend(self.decide(&asked, &script, &mut ours, &mut outcome)?);
                }
                Step::Delete { kind, namespace, name } if kind == "Pod" => {
                    let key = (kind.clone(), namespace.clone(), name.clone());
                    if let Some(at) = there.iter().position(|one| name_of(one) == key) {
                        self.delete(&there.remove(at))?;
                        ours.delete(kind, namespace, name)?;
                        is_seen = false;
                    }
                }
                Step::Delete { .. } | Step::Put(_) => {}
            }
        }
        for object in there.iter().rev() {
            self.delete(object)?;
        }
        Ok(outcome)
    }
}

/// A server's no.
struct Refused {
    code: u16,
    message: String,
}

/// Where what the program did is not what we would do.
fn differs(decided: &Value, ours: &Answer) -> Option<String> {
    let name = &decided["metadata"]["name"];
    if let Some(node) = decided["spec"]["nodeName"].as_str() {
        let best = ours.totals.values().max();
        let is_best = best.is_some() && ours.totals.get(node) == best;
        let told = || format!("{name} is bound to {node}; our totals are {:?}", ours.totals);
        return (!is_best).then(told);
    }
    let told = refusal(decided);
    (ours.message != told).then(|| format!("{name} is told {told:?}; we say {:?}", ours.message))
}

async fn client(kubeconfig: &Path) -> Result<kube::Client> {
    let read = kube::config::Kubeconfig::read_from(kubeconfig)?;
    let options = kube::config::KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(read, &options).await?;
    Ok(kube::Client::try_from(config)?)
}

/// Why a pod has no node, as its condition says.
fn refusal(pod: &Value) -> &str {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let mut refused = conditions
        .filter(|one| one["type"] == "PodScheduled" && one["reason"] == "Unschedulable")
        .filter_map(|one| one["message"].as_str());
    refused.next().unwrap_or_default()
}

/// Keeps the first of those that a server takes for the same.
fn unique(list: &mut Value, fields: [&str; 2]) {
    let mut seen = Vec::new();
    if let Some(list) = list.as_array_mut() {
        list.retain(|one| {
            let own = fields.map(|field| one[field].clone());
            let is_new = !seen.contains(&own);
            seen.push(own);
            is_new
        });
    }
}

/// Makes of an object what a server takes, where that means the same to a scheduler: of a device
/// nobody has more than he asks for, and nothing is said twice.
fn make_valid(object: &mut Value) {
    let pairs = [
        ("taints", ["key", "effect"]),
        ("topologySpreadConstraints", ["topologyKey", "whenUnsatisfiable"]),
    ];
    for (list, fields) in pairs {
        if let Some(list) = object.pointer_mut(&format!("/spec/{list}")) {
            unique(list, fields);
        }
    }
    for kind in ["containers", "initContainers"] {
        let containers = object.pointer_mut(&format!("/spec/{kind}"));
        for container in containers.and_then(Value::as_array_mut).into_iter().flatten() {
            let requests = container.pointer("/resources/requests").and_then(Value::as_object);
            let requests = requests.cloned();
            for (name, amount) in requests.into_iter().flatten() {
                if name.contains('/') || name.starts_with("hugepages-") {
                    container["resources"]["limits"][name] = amount;
                }
            }
        }
    }
}

/// What of an object is played here: no storage, no budgets, and pods of one priority that neither
/// leave nor wait for others. Of what a kubelet or a person would have to add, pods ask for nothing.
fn plain(object: &Value) -> Option<Value> {
    let mut object = object.clone();
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    path(&kind, "").ok()?;
    if kind == "Pod" {
        let is_bound = object["spec"]["nodeName"].is_string();
        let is_asked = object["metadata"]["name"].as_str()?.starts_with("asked-");
        if !is_bound && !is_asked {
            return None;
        }
        object.as_object_mut()?.remove("status");
        for field in ["uid", "deletionTimestamp", "deletionGracePeriodSeconds"] {
            object["metadata"].as_object_mut()?.remove(field);
        }
        let left_out = ["priority", "preemptionPolicy", "schedulingGates", "volumes", "overhead"];
        for field in left_out.iter().chain(&["schedulerName"]) {
            object["spec"].as_object_mut()?.remove(*field);
        }
    }
    if kind == "Pod" || kind == "Node" {
        make_valid(&mut object);
    }
    Some(object)
}
