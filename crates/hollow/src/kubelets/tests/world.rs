//! An API server in memory, the time, and hollow nodes that live in both.
//!
//! Every write is checked as a real server would: a status for another uid, a phase that
//! leaves a final one, a restart count that sinks or a container that comes back against
//! its policy fails the test at once.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use api::NodeMetric;
use bytes::Bytes;
use chassis::key::Key;
use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::kubelets::{Effect, Event, Kubelets, Obstacle, Setup};
use crate::request::{Answer, Chore, Request, Ticket};
use crate::seed::mix;
use crate::time::Now;

/// How many requests are in flight at most.
const ROOM: usize = 8;
/// How long an answer takes at most.
const ANSWER_MS_MAX: u64 = 40;

pub(super) struct World {
    pub(super) kubelets: Kubelets,
    pub(super) now_ms: u64,
    pub(super) pods: BTreeMap<String, Value>,
    pub(super) nodes: BTreeMap<String, Value>,
    pub(super) leases: BTreeMap<String, Value>,
    /// What users of pods were told: pod, reason and message.
    pub(super) notes: Vec<String>,
    /// Why the nodes gave up.
    pub(super) gave_up: Option<Obstacle>,
    /// The load that each node last reported.
    pub(super) metrics: BTreeMap<String, NodeMetric>,
    /// Whether load can be reported.
    pub(super) are_metrics_served: bool,
    /// What is said of where the CPUs of each node are.
    pub(super) layouts: BTreeMap<String, Value>,
    /// Whether that can be said.
    pub(super) are_layouts_served: bool,
    /// Requests under way, and when they are answered.
    flying: Vec<(u64, Request)>,
    /// What the watch will tell, in order.
    watch: VecDeque<Event>,
    /// How many of the next requests fail.
    pub(super) failing: u32,
    random: u64,
    uids: u64,
    version: u64,
    /// What was sent, to compare runs.
    pub(super) log: Vec<String>,
    /// When each lease was last renewed, and the longest gap between two renewals.
    renewals: BTreeMap<u32, u64>,
    pub(super) longest_gap_ms: u64,
}

impl World {
    pub(super) fn new(groups: &[&str], seed: u64) -> Self {
        let groups = groups.iter().map(|group| group.parse().unwrap()).collect();
        let setup = Setup { groups, seed, ..Setup::default() };
        let mut world = Self {
            kubelets: Kubelets::new(setup, at(0)).unwrap(),
            now_ms: 0,
            pods: BTreeMap::new(),
            nodes: BTreeMap::new(),
            leases: BTreeMap::new(),
            notes: Vec::new(),
            gave_up: None,
            metrics: BTreeMap::new(),
            are_metrics_served: true,
            layouts: BTreeMap::new(),
            are_layouts_served: true,
            flying: Vec::new(),
            watch: VecDeque::from([Event::PodsListed]),
            failing: 0,
            random: seed,
            uids: 0,
            version: 0,
            log: Vec::new(),
            renewals: BTreeMap::new(),
            longest_gap_ms: 0,
        };
        while !world.kubelets.is_open() {
            world.run(1);
        }
        world
    }

    fn draw(&mut self, limit: u64) -> u64 {
        self.random = mix(self.random);
        self.random % limit
    }

    /// Lets time pass.
    pub(super) fn run(&mut self, ms: u64) {
        let end = self.now_ms + ms;
        loop {
            self.turn();
            let due = self.kubelets.next_due().map(|due| due.as_millis() as u64);
            let answer = self.flying.iter().map(|(due, _)| *due).min();
            let next = [due, answer].into_iter().flatten().min().unwrap_or(end);
            if next > end {
                break;
            }
            self.now_ms = next.max(self.now_ms);
        }
        self.now_ms = end;
        self.turn();
    }

    /// Everything that happens at one moment.
    fn turn(&mut self) {
        loop {
            let before = self.log.len();
            while self.kubelets.is_open()
                && let Some(event) = self.watch.pop_front()
            {
                self.kubelets.step(at(self.now_ms), event);
            }
            let due: Vec<_> = self.flying.extract_if(.., |(due, _)| *due <= self.now_ms).collect();
            let answered = !due.is_empty();
            for (_, request) in due {
                let answer = self.answer(&request);
                self.kubelets.step(at(self.now_ms), Event::Answered(request.ticket, answer));
            }
            self.kubelets.step(at(self.now_ms), Event::Tick);
            let room = ROOM - self.flying.len();
            for effect in self.kubelets.drain(at(self.now_ms), room) {
                match effect {
                    Effect::Send(request) => self.send(request),
                    Effect::Warn(_) => {}
                    Effect::Note(note) => {
                        self.notes.push(format!("{} {} {}", note.key, note.reason, note.message));
                    }
                    Effect::GiveUp(why) => self.gave_up = Some(why),
                }
            }
            let waits = self.watch.is_empty() || !self.kubelets.is_open();
            if !answered && waits && self.log.len() == before {
                return;
            }
        }
    }

    fn send(&mut self, request: Request) {
        self.log.push(format!("{} {} {}", self.now_ms, request.method, request.path));
        if let Ticket::Node(Chore::Lease, node) = request.ticket {
            let last = self.renewals.insert(node, self.now_ms).unwrap_or(self.now_ms);
            self.longest_gap_ms = self.longest_gap_ms.max(self.now_ms - last);
        }
        let twice = self.flying.iter().any(|(_, other)| other.ticket == request.ticket);
        assert!(!twice, "two requests at a time for {:?}", request.ticket);
        let wait = 1 + self.draw(ANSWER_MS_MAX);
        self.flying.push((self.now_ms + wait, request));
    }

    fn answer(&mut self, request: &Request) -> Answer {
        if self.failing > 0 {
            self.failing -= 1;
            let done = self.draw(2) == 0;
            // A request without an answer may have had its effect.
            if done {
                self.serve(request);
            }
            return Answer::Later { after: None, why: "lost".to_owned() };
        }
        self.serve(request)
    }

    /// Does what a request asks for at once.
    pub(super) fn take(&mut self, request: &Request) {
        self.serve(request);
    }

    fn serve(&mut self, request: &Request) -> Answer {
        let path = request.path.split('?').next().unwrap();
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        if parts.contains(&"leases") {
            return self.serve_lease(request, parts[6..].first().copied());
        }
        if parts.contains(&"topology.node.k8s.io") {
            return self.serve_layout(request, &parts[3..]);
        }
        match (request.method.as_str(), parts.as_slice()) {
            ("POST", ["api", "v1", "nodes"]) => {
                let mut node: Value = serde_json::from_slice(&request.body).unwrap();
                let name = node["metadata"]["name"].as_str().unwrap().to_owned();
                if self.nodes.contains_key(&name) {
                    return Answer::Exists;
                }
                node["metadata"]["uid"] = format!("uid-of-{name}").into();
                self.nodes.insert(name, node.clone());
                done(&node)
            }
            ("GET", ["api", "v1", "nodes"]) => {
                done(&json!({ "items": self.nodes.values().collect::<Vec<_>>() }))
            }
            ("GET", ["api", "v1", "nodes", name]) => {
                self.nodes.get(*name).map_or(Answer::NotFound, done)
            }
            ("PATCH", ["api", "v1", "nodes", name, "status"]) => {
                let patch: Value = serde_json::from_slice(&request.body).unwrap();
                if !self.nodes.contains_key(*name) {
                    return Answer::NotFound;
                }
                self.contradict_node(name, &patch["status"]);
                done(&json!({}))
            }
            (_, ["api", "v1", "nodes", name, ..]) => {
                if self.nodes.contains_key(*name) {
                    done(&json!({}))
                } else {
                    Answer::NotFound
                }
            }
            ("PATCH", ["api", "v1", "namespaces", space, "pods", name, "status"]) => {
                let patch: Value = serde_json::from_slice(&request.body).unwrap();
                self.take_status(&format!("{space}/{name}"), &patch)
            }
            ("DELETE", ["api", "v1", "namespaces", space, "pods", name]) => {
                let options: Value = serde_json::from_slice(&request.body).unwrap();
                let key = format!("{space}/{name}");
                let Some(pod) = self.pods.get(&key) else { return Answer::NotFound };
                if options["preconditions"]["uid"] != pod["metadata"]["uid"] {
                    return Answer::Later { after: None, why: "conflict".to_owned() };
                }
                assert_eq!(options["gracePeriodSeconds"], 0);
                assert!(pod["metadata"]["deletionTimestamp"].is_string(), "nobody asked for {key}");
                self.remove(&key);
                done(&json!({}))
            }
            (_, ["apis", "slo.koordinator.sh", ..]) if !self.are_metrics_served => Answer::NotFound,
            ("POST", [.., "v1alpha1", "nodemetrics"]) => {
                let metric: NodeMetric = serde_json::from_slice(&request.body).unwrap();
                self.metrics.insert(metric.metadata.name.clone(), metric);
                done(&json!({}))
            }
            ("PATCH", [.., "nodemetrics", name, "status"]) => {
                let Some(metric) = self.metrics.get_mut(*name) else { return Answer::NotFound };
                let report: NodeMetric = serde_json::from_slice(&request.body).unwrap();
                metric.status = report.status;
                done(&json!({}))
            }
            _ => done(&json!({})),
        }
    }

    fn serve_lease(&mut self, request: &Request, name: Option<&str>) -> Answer {
        if request.method == Method::GET {
            return match name {
                None => done(&json!({ "items": self.leases.values().collect::<Vec<_>>() })),
                Some(name) => self.leases.get(name).map_or(Answer::NotFound, done),
            };
        }
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        match name {
            Some(name) => {
                let Some(lease) = self.leases.get_mut(name) else { return Answer::NotFound };
                merge(lease, &body);
                done(lease)
            }
            None => {
                let name = body["metadata"]["name"].as_str().unwrap().to_owned();
                if self.leases.contains_key(&name) {
                    return Answer::Exists;
                }
                self.leases.insert(name, body.clone());
                done(&body)
            }
        }
    }

    fn serve_layout(&mut self, request: &Request, parts: &[&str]) -> Answer {
        if !self.are_layouts_served {
            return Answer::NotFound;
        }
        let body = || serde_json::from_slice::<Value>(&request.body).unwrap();
        match (request.method.as_str(), parts) {
            ("POST", _) => {
                let name = body()["metadata"]["name"].as_str().unwrap().to_owned();
                if self.layouts.contains_key(&name) {
                    return Answer::Exists;
                }
                self.layouts.insert(name, body());
                done(&json!({}))
            }
            ("GET", [_, name]) => self.layouts.get(*name).map_or(Answer::NotFound, done),
            ("PATCH", [_, name]) => {
                let Some(layout) = self.layouts.get_mut(*name) else { return Answer::NotFound };
                merge(layout, &body());
                done(layout)
            }
            _ => done(&json!({})),
        }
    }

    fn take_status(&mut self, key: &str, patch: &Value) -> Answer {
        let Some(pod) = self.pods.get_mut(key) else { return Answer::NotFound };
        if patch["metadata"]["uid"] != pod["metadata"]["uid"] {
            return Answer::Later { after: None, why: "conflict".to_owned() };
        }
        let (old, new) = (pod["status"].clone(), &patch["status"]);
        let was = old["phase"].as_str().unwrap_or("Pending");
        if matches!(was, "Succeeded" | "Failed") {
            assert_eq!(new["phase"], was, "{key} left a final phase");
        }
        let never = pod["spec"]["restartPolicy"] == "Never";
        for list in ["containerStatuses", "initContainerStatuses"] {
            check_containers(key, never, &old[list], &new[list]);
        }
        let status = pod["status"].as_object_mut().unwrap();
        for (field, value) in new.as_object().unwrap() {
            if field != "conditions" {
                status.insert(field.clone(), value.clone());
            }
        }
        merge_conditions(&mut pod["status"]["conditions"], &new["conditions"]);
        self.stamp(key);
        done(&self.pods[key])
    }

    /// Gives a pod its next version, of which the watch tells.
    fn stamp(&mut self, key: &str) {
        self.version += 1;
        let version = self.version.to_string();
        if let Some(pod) = self.pods.get_mut(key) {
            pod["metadata"]["resourceVersion"] = version.into();
            self.tell(key);
        }
    }

    /// Lets the watch tell how a pod is.
    fn tell(&mut self, key: &str) {
        let pod = serde_json::from_value(self.pods[key].clone()).unwrap();
        self.watch.push_back(Event::Pod(pod));
    }

    /// A pod that is bound to a node.
    pub(super) fn create(&mut self, name: &str, node: &str, spec: Value, annotations: Value) {
        let key = format!("default/{name}");
        if self.pods.contains_key(&key) {
            return;
        }
        self.uids += 1;
        let uid = format!("00000000-0000-4000-8000-{:012x}", self.uids);
        let mut spec = spec;
        spec["nodeName"] = node.into();
        let pod = json!({
            "metadata": { "namespace": "default", "name": name, "uid": uid, "generation": 1,
                          "annotations": annotations },
            "spec": spec,
            "status": { "phase": "Pending" },
        });
        self.pods.insert(key.clone(), pod);
        self.stamp(&key);
    }

    /// A request to delete a pod, with its grace period.
    pub(super) fn delete(&mut self, name: &str, grace_seconds: u64) {
        let key = format!("default/{name}");
        let due = wall(self.now_ms + grace_seconds * 1000);
        let Some(pod) = self.pods.get_mut(&key) else { return };
        pod["metadata"]["deletionTimestamp"] = object::time::Time::from(due).to_string().into();
        pod["metadata"]["deletionGracePeriodSeconds"] = grace_seconds.into();
        self.stamp(&key);
    }

    /// A deletion that asks nobody.
    pub(super) fn remove(&mut self, key: &str) {
        if let Some(pod) = self.pods.remove(key) {
            let (space, name) = key.split_once('/').unwrap();
            let uid = pod["metadata"]["uid"].as_str().unwrap().into();
            self.watch.push_back(Event::PodGone { key: Key::namespaced(space, name), uid });
        }
    }

    /// Changes a pod, as a user does.
    pub(super) fn change(&mut self, name: &str, change: impl FnOnce(&mut Value)) {
        let key = format!("default/{name}");
        if let Some(pod) = self.pods.get_mut(&key) {
            change(pod);
            let generation = pod["metadata"]["generation"].as_i64().unwrap();
            pod["metadata"]["generation"] = (generation + 1).into();
            self.stamp(&key);
        }
    }

    /// Writes over the status of a pod, as a controller does.
    pub(super) fn contradict(&mut self, name: &str, status: Value) {
        let key = format!("default/{name}");
        let own = &mut self.pods.get_mut(&key).unwrap()["status"];
        merge_conditions(&mut own["conditions"], &status["conditions"]);
        for (field, value) in status.as_object().unwrap() {
            if field != "conditions" {
                own[field] = value.clone();
            }
        }
        self.stamp(&key);
    }

    /// The watch lags: it tells of a pod as it was.
    pub(super) fn tell_late(&mut self, pod: &Value) {
        self.watch.push_back(Event::Pod(serde_json::from_value(pod.clone()).unwrap()));
    }

    /// Tells of every pod once more.
    pub(super) fn repeat(&mut self) {
        for key in self.pods.keys().cloned().collect::<Vec<_>>() {
            self.tell(&key);
        }
    }

    /// Another process takes over: what the former one had under way may be done or not.
    pub(super) fn restart(&mut self, setup: Setup) {
        for (_, request) in std::mem::take(&mut self.flying) {
            if self.draw(2) == 0 {
                self.serve(&request);
            }
        }
        self.watch.clear();
        self.renewals.clear();
        self.kubelets = Kubelets::new(setup, at(self.now_ms)).unwrap();
        self.repeat();
        self.watch.push_back(Event::PodsListed);
    }

    pub(super) fn status(&self, name: &str, pointer: &str) -> Value {
        let pod = self.pods.get(&format!("default/{name}"));
        pod.and_then(|pod| pod["status"].pointer(pointer)).cloned().unwrap_or(Value::Null)
    }

    pub(super) fn phase(&self, name: &str) -> String {
        self.status(name, "/phase").as_str().unwrap_or("gone").to_owned()
    }

    /// What the log has, without times.
    pub(super) fn asked(&self, method: &Method, path: &str) -> usize {
        let end = format!("{method} {path}");
        self.log.iter().filter(|line| line.ends_with(&end)).count()
    }

    /// Writes the status of a node, of which the watch tells.
    pub(super) fn contradict_node(&mut self, name: &str, status: &Value) {
        let node = self.nodes.get_mut(name).unwrap();
        let mut rest = status.clone();
        let conditions = rest.as_object_mut().unwrap().remove("conditions").unwrap_or_default();
        merge_conditions(&mut node["status"]["conditions"], &conditions);
        merge(&mut node["status"], &rest);
        let seen = serde_json::from_value(node.clone()).unwrap();
        self.watch.push_back(Event::Node(seen));
    }

    /// What is said of a node: the status of its condition, and since when.
    pub(super) fn condition(&self, node: &str, kind: &str) -> (String, String) {
        let conditions = self.nodes[node]["status"]["conditions"].as_array().unwrap();
        let found = conditions.iter().find(|own| own["type"] == kind).unwrap();
        let text = |field: &str| found[field].as_str().unwrap().to_owned();
        (text("status"), text("lastTransitionTime"))
    }

    pub(super) fn forget_node(&mut self, name: &str) {
        self.nodes.remove(name);
        self.leases.remove(name);
    }
}

fn check_containers(key: &str, never: bool, old: &Value, new: &Value) {
    for (before, after) in
        old.as_array().into_iter().flatten().zip(new.as_array().into_iter().flatten())
    {
        assert_eq!(before["name"], after["name"], "{key}");
        assert!(
            after["restartCount"].as_u64() >= before["restartCount"].as_u64(),
            "{key}: the restart count sank: {before} {after}"
        );
        if never && before["state"]["terminated"].is_object() {
            assert!(after["state"]["terminated"].is_object(), "{key} came back: {after}");
        }
    }
}

/// Merges as a merge patch does.
fn merge(own: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *own = patch.clone();
        return;
    };
    if !own.is_object() {
        *own = json!({});
    }
    let map = own.as_object_mut().unwrap();
    for (field, value) in fields {
        match value {
            Value::Null => drop(map.remove(field)),
            value => merge(map.entry(field.clone()).or_insert(Value::Null), value),
        }
    }
}

fn merge_conditions(own: &mut Value, new: &Value) {
    if own.is_null() {
        *own = json!([]);
    }
    let list = own.as_array_mut().unwrap();
    for condition in new.as_array().into_iter().flatten() {
        list.retain(|old| old["type"] != condition["type"]);
        if condition["$patch"] != "delete" {
            let mut kept = condition.clone();
            kept.as_object_mut().unwrap().retain(|_, value| !value.is_null());
            list.push(kept);
        }
    }
}

fn done(value: &Value) -> Answer {
    Answer::Done(Bytes::from(value.to_string()))
}

fn wall(ms: u64) -> Timestamp {
    Timestamp::from_millisecond(1_800_000_000_000 + ms as i64).unwrap()
}

pub(super) fn at(ms: u64) -> Now {
    Now { monotonic: Duration::from_millis(ms), wall: wall(ms) }
}
