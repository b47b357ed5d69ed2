//! The fourth suite: the real kube-scheduler, as a program, on a real kube-apiserver.
//!
//! A seed makes a cluster and pods, which are created one at a time. The program binds each to a
//! node, which must be one that is best to us as well, or says why not, which must be what we would
//! say. Both see the objects as the API server has them: what it refuses is left out.

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
/// How often a pod is created anew where both differ: kinds are watched apart, so that the program
/// may see a pod before what was made before it.
const TRIES_MAX: usize = 4;

/// A kube-apiserver with a kube-scheduler, and nothing else.
pub struct Real {
    runtime: Runtime,
    client: kube::Client,
    // Fields are dropped in order: the scheduler ends before its server.
    scheduler: Companion,
    _plane: ControlPlane,
}

/// What came of a seed.
#[derive(Debug, Default)]
pub struct Outcome {
    /// How many pods got a node.
    pub bound: usize,
    /// How many did not.
    pub refused: usize,
    /// How many were created anew.
    pub again: usize,
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
        // Batching takes what was best for the pod before, if it is alike, for best.
        let flags = ["--secure-port=0", "--feature-gates=OpportunisticBatching=false"];
        let (config, of) = (&Value::Null, &kubeconfig);
        let scheduler = Companion::kube_scheduler_with(&binaries, of, config, &flags)?;
        Ok(Self { runtime, client, scheduler, _plane: plane })
    }

    /// The answer of the server; none where it refuses.
    fn ask(&self, method: Method, path: &str, body: &Value) -> Result<Option<Value>> {
        let kind = match method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = Request::builder().method(method).uri(path).header("Content-Type", kind);
        let request = request.body(body).context("a request")?;
        match self.runtime.block_on(self.client.request::<Value>(request)) {
            Ok(answer) => Ok(Some(answer)),
            Err(kube::Error::Api(status)) if (400..500).contains(&status.code) => Ok(None),
            Err(error) => Err(error).with_context(|| format!("no answer for {path}")),
        }
    }

    /// Creates an object as far as the server takes it, and returns it as the server has it.
    fn create(&self, object: &Value) -> Result<Option<Value>> {
        let (kind, namespace, name) = name_of(object);
        let path = path(&kind, &namespace)?;
        let Some(created) = self.ask(Method::POST, &path, object)? else {
            // A namespace may be there already, with other labels.
            let patch = json!({"metadata": {"labels": object["metadata"]["labels"]}});
            return match &*kind {
                "Namespace" => self.ask(Method::PATCH, &format!("{path}/{name}"), &patch),
                _ => Ok(None),
            };
        };
        if kind != "Node" {
            return Ok(Some(created));
        }
        // A new node is tainted until somebody says that it is ready.
        let own = format!("{path}/{name}");
        self.ask(Method::PATCH, &format!("{own}/status"), &json!({"status": object["status"]}))?;
        self.ask(Method::PATCH, &own, &json!({"spec": {"taints": object["spec"]["taints"]}}))
    }

    fn delete(&self, object: &Value) -> Result<()> {
        let (kind, namespace, name) = name_of(object);
        let path = format!("{}/{name}", path(&kind, &namespace)?);
        // A controller that is to leave its pods behind would wait for somebody to do that.
        let how = json!({"gracePeriodSeconds": 0, "propagationPolicy": "Background"});
        self.ask(Method::DELETE, &path, &how).map(drop)
    }

    /// The pod as it is once the program has decided.
    fn decided(&mut self, pod: &Value) -> Result<Value> {
        let (kind, namespace, name) = name_of(pod);
        let path = format!("{}/{name}", path(&kind, &namespace)?);
        let begun = Instant::now();
        while begun.elapsed() < DECIDED_WITHIN {
            let now = self.ask(Method::GET, &path, &Value::Null)?.context("the pod is there")?;
            if now["spec"]["nodeName"].is_string() || !refusal(&now).is_empty() {
                return Ok(now);
            }
            self.scheduler.check()?;
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
        for tries in 1..=TRIES_MAX {
            let Some(created) = self.create(asked)? else { return Ok(None) };
            let answer = ours.answer(&created, script)?;
            let decided = self.decided(&created)?;
            let difference = differs(&decided, &answer);
            if difference.is_some() && tries < TRIES_MAX {
                outcome.again += 1;
                self.delete(&decided)?;
                continue;
            }
            outcome.differences.extend(difference);
            if decided["spec"]["nodeName"].is_string() {
                outcome.bound += 1;
                ours.put(&decided)?;
                return Ok(Some(decided));
            }
            outcome.refused += 1;
            self.delete(&decided)?;
            break;
        }
        Ok(None)
    }

    /// Plays a seed.
    ///
    /// # Errors
    /// Where the programs fail.
    pub fn play(&mut self, seed: u64) -> Result<Outcome> {
        let script = Script { config: None, preempts: true, ..Script::from_seed(seed) };
        let mut ours = Ours::default();
        let mut there = Vec::new();
        let mut outcome = Outcome::default();
        for object in script.objects.iter().filter_map(plain) {
            let Some(created) = self.create(&object)? else { continue };
            ours.put(&created)?;
            if created["kind"] == "Namespace" {
                let (_, _, namespace) = name_of(&created);
                let metadata = json!({"name": "default", "namespace": namespace});
                let account = json!({"kind": "ServiceAccount", "metadata": metadata});
                self.create(&account)?;
            } else {
                there.push(created);
            }
        }
        for step in &script.steps {
            let asked = match step {
                Step::Probe(pod) => plain(pod),
                Step::Delete { kind, namespace, name } if kind == "Pod" => {
                    let key = (kind.clone(), namespace.clone(), name.clone());
                    if let Some(at) = there.iter().position(|one| name_of(one) == key) {
                        let gone = there.remove(at);
                        self.delete(&gone)?;
                        ours.delete(kind, namespace, name)?;
                    }
                    None
                }
                _ => None,
            };
            let Some(asked) = asked else { continue };
            there.extend(self.decide(&asked, &script, &mut ours, &mut outcome)?);
        }
        for object in there.iter().rev() {
            self.delete(object)?;
        }
        Ok(outcome)
    }
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
    Some(object)
}
