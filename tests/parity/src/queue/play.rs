//! Our side: the queue and the ledger, told the same.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use api::{Namespace, Node, Pod};
use engine::decide::Decider;
use engine::fact::{Fact, NodeFact, Uid};
use engine::ledger::Ledger;
use engine::moment::Moment;
use engine::profile::Profile;
use engine::queue::{
    Change, Hint, Pending, Plugin, Queue, Rejection, Settings, Standing, Waking, hint,
};
use serde_json::{Value, json};

use crate::facts;

/// When scripts begin: the first moment of 2026.
const START: Moment = Moment(1_767_225_600_000_000_000);

/// Where every pod is.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Places {
    popped: String,
    active: Vec<String>,
    /// With the moment until which they are.
    backoff: BTreeMap<String, String>,
    error_backoff: BTreeMap<String, String>,
    waiting: Vec<String>,
    gated: Vec<String>,
}

impl fmt::Display for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { popped, active, backoff, error_backoff, waiting, gated } = self;
        write!(f, "popped {popped:?} active {active:?} back-off {backoff:?} ")?;
        write!(f, "after errors {error_backoff:?} waiting {waiting:?} gated {gated:?}")
    }
}

impl Places {
    /// How many pods wait no longer.
    pub fn woken_since(&self, before: &Self) -> usize {
        before.waiting.iter().filter(|pod| !self.waiting.contains(pod)).count()
    }

    /// How many pods wait in the other queue and not in this one, where nothing else differs.
    pub fn woken_beside(&self, other: &Self) -> Option<usize> {
        let (mut own, mut other) = (self.clone(), other.clone());
        let (vain, waiting): (Vec<String>, Vec<String>) =
            other.waiting.into_iter().partition(|pod| !own.waiting.contains(pod));
        other.waiting = waiting;
        own.active.retain(|pod| !vain.contains(pod));
        own.backoff.retain(|pod, _| !vain.contains(pod));
        (own == other).then_some(vain.len())
    }

    /// What the oracle says.
    pub fn from_oracle(queue: &Value, popped: &str) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let until = |error: bool| {
            let pods = list(&queue["backoff"]).into_iter();
            let pods = pods.filter(move |pod| (pod["error"] == json!(true)) == error);
            pods.map(|pod| (text(&pod["pod"]), text(&pod["until"]))).collect()
        };
        let names = |value: &Value| list(value).iter().map(|pod| text(&pod["pod"])).collect();
        Self {
            popped: popped.to_owned(),
            active: list(&queue["active"]).iter().map(text).collect(),
            backoff: until(false),
            error_backoff: until(true),
            waiting: names(&queue["unschedulable"]),
            gated: names(&queue["gated"]),
        }
    }
}

/// The queue and what it knows.
pub struct Player {
    ledger: Ledger,
    queue: Queue,
    now: Moment,
    /// Pods by "namespace/name".
    pub pods: BTreeMap<String, Value>,
    /// Nodes by name.
    pub nodes: BTreeMap<String, Value>,
    /// Popped and not answered for.
    pub in_flight: Vec<String>,
    /// How often plugins said what of a change to a pod that they refused and that waits.
    pub hints: Hints,
    decider: Decider,
    /// Some pods once more, each in a queue of its own that wakes it as ours does: those that are in
    /// flight, or were refused by those who do refuse them.
    lean: BTreeMap<Uid, Queue>,
}

/// How often plugins said what.
pub type Hints = BTreeMap<String, usize>;

/// "namespace/name".
pub fn key_of(object: &Value) -> String {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    format!("{}/{}", text("namespace"), text("name"))
}

fn uid_of(pod: &Value) -> Uid {
    Uid::new(pod["metadata"]["uid"].as_str().unwrap_or_default())
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

impl Player {
    /// A queue with some objects.
    pub fn start(objects: &[Value]) -> Result<Self> {
        let settings = Settings { waking: Waking::AsKubernetes, ..Settings::default() };
        let mut ledger = Ledger::default();
        let mut player = Self {
            decider: Decider::new(Profile::kubernetes(), &mut ledger, 0),
            lean: BTreeMap::new(),
            ledger,
            queue: Queue::new(settings, START),
            now: START,
            pods: BTreeMap::new(),
            nodes: BTreeMap::new(),
            in_flight: Vec::new(),
            hints: Hints::new(),
        };
        for object in objects {
            player.put(object)?;
        }
        Ok(player)
    }

    /// Plays a step; the pod that was popped, if one was.
    pub fn step(&mut self, step: &Value) -> Result<String> {
        let (verb, what) =
            step.as_object().and_then(|step| step.iter().next()).context("a step")?;
        match verb.as_str() {
            "upsert" => self.put(what)?,
            "delete" => self.delete(what)?,
            "pop" => return Ok(self.pop()),
            "reject" => self.reject(what),
            "bind" => self.bind(what)?,
            "activate" => {
                for pod in what.as_array().into_iter().flatten() {
                    if let Some(pod) = pod.as_str().and_then(|key| self.pods.get(key)) {
                        self.queue.activate(&uid_of(pod), self.now);
                    }
                }
            }
            "advance" => {
                let millis = what.as_str().and_then(|by| by.strip_suffix("ms"));
                let millis: u64 = millis.context("milliseconds")?.parse()?;
                self.now = self.now.after(Duration::from_millis(millis));
                self.queue.settle(self.now);
                self.lean.values_mut().for_each(|queue| queue.settle(self.now));
            }
            other => bail!("our queue knows no step {other}"),
        }
        Ok(String::new())
    }

    fn take(&mut self, fact: Fact, pending: Option<(Uid, bool)>) {
        let change = Change::of(&self.ledger, &fact);
        self.ledger.apply(fact);
        if let Some((uid, gated)) = pending
            && let Some(row) = self.ledger.pod(&uid)
        {
            let (priority, ask) = (row.priority, row.ask);
            let kind = ask.identity.get() as u64;
            let pending = Pending { uid, priority, ask, kind, gated };
            if let Some(own) = self.lean.get_mut(&pending.uid) {
                own.put(pending.clone(), self.now);
            }
            self.queue.put(pending, self.now);
        }
        if let Some(change) = change {
            for queue in self.lean.values_mut() {
                queue.notice(&self.ledger, change.clone(), self.now);
            }
            self.count_hints(&change);
            self.queue.notice(&self.ledger, change, self.now);
        }
    }

    fn count_hints(&mut self, change: &Change) {
        for (uid, standing) in self.queue.standings() {
            let concerned = !matches!(change, Change::Own { uid: own, .. } if own != uid);
            let rejection = self.queue.rejection(uid).zip(self.ledger.pod(uid));
            let Some((rejection, row)) = rejection else { continue };
            if standing != Standing::Waiting || !concerned {
                continue;
            }
            for plugin in rejection.unschedulable.and(rejection.pending).iter() {
                let said = match hint(plugin, &self.ledger, row.ask, change) {
                    Hint::No => "no".to_owned(),
                    Hint::Yes => "yes".to_owned(),
                    Hint::Vain => "in vain".to_owned(),
                    Hint::Missed(why) => format!("missed: {why:?}"),
                };
                *self.hints.entry(format!("{plugin} {said}")).or_default() += 1;
            }
        }
    }

    fn put(&mut self, object: &Value) -> Result<()> {
        match text(object, "kind") {
            "Node" => {
                let node: Node = serde_json::from_value(object.clone())?;
                self.nodes.insert(node.metadata.name.clone(), object.clone());
                self.take(Fact::Node(NodeFact::from(&node)), None);
            }
            "Pod" => {
                let pod: Pod = serde_json::from_value(object.clone())?;
                self.pods.insert(key_of(object), object.clone());
                let uid = uid_of(object);
                if pod.spec.node_name.is_empty() {
                    let gated = !pod.spec.scheduling_gates.is_empty();
                    self.take(Fact::from(&pod), Some((uid, gated)));
                } else {
                    self.queue.remove(&uid);
                    self.lean.remove(&uid);
                    self.take(Fact::from(&pod), None);
                }
            }
            "Namespace" => {
                let namespace: Namespace = serde_json::from_value(object.clone())?;
                let labels = namespace.metadata.labels.into_iter();
                let labels = labels.map(|(key, value)| (key.into(), value.into())).collect();
                self.take(Fact::Namespace { name: namespace.metadata.name.into(), labels }, None);
            }
            _ => self.take(facts::there(object)?, None),
        }
        Ok(())
    }

    fn delete(&mut self, what: &Value) -> Result<()> {
        let name = text(what, "name");
        if text(what, "kind") == "Node" {
            self.nodes.remove(name);
            self.take(Fact::NodeGone(name.into()), None);
        } else if text(what, "kind") != "Pod" {
            let gone = json!({"kind": what["kind"], "metadata": what});
            self.take(facts::gone(&gone)?, None);
        } else if let Some(pod) = self.pods.remove(&format!("{}/{name}", text(what, "namespace"))) {
            self.queue.remove(&uid_of(&pod));
            self.lean.remove(&uid_of(&pod));
            self.take(Fact::PodGone(uid_of(&pod)), None);
        }
        Ok(())
    }

    fn pop(&mut self) -> String {
        let Some(popped) = self.queue.pop(self.now) else { return String::new() };
        let key = self.pods.iter().find(|(_, pod)| uid_of(pod) == popped.uid);
        let key = key.map(|(key, _)| key.clone()).unwrap_or_default();
        self.in_flight.push(key.clone());
        if let Some(row) = self.ledger.pod(&popped.uid) {
            let mut own = Queue::new(Settings::default(), self.now);
            let (priority, ask) = (row.priority, row.ask);
            let kind = ask.identity.get() as u64;
            let pending = Pending { uid: popped.uid.clone(), priority, ask, kind, gated: false };
            own.put(pending, self.now);
            own.pop(self.now);
            self.lean.insert(popped.uid, own);
        }
        key
    }

    /// A node that takes a pod, or those who refuse it.
    pub fn verdict(&mut self, key: &str) -> Result<String, BTreeSet<String>> {
        let uid = self.pods.get(key).map(uid_of).unwrap_or_else(|| Uid::new(""));
        let Some(ask) = self.ledger.pod(&uid).map(|row| row.ask) else {
            return Err(BTreeSet::new());
        };
        if let Some(node) = self.decider.pick(&self.ledger, ask, 1) {
            return Ok(self.ledger.nodes.name(node).to_owned());
        }
        let examined = self.decider.examine(&mut self.ledger, &uid).unwrap_or_default();
        Err(examined.plugins().iter().map(|plugin| plugin.to_string()).collect())
    }

    /// A pod that the real queue would try, that fits, and that ours leaves waiting.
    pub fn left_waiting(&mut self) -> Option<String> {
        let waits = |(uid, queue): (&Uid, &Queue)| {
            let tried =
                matches!(self.queue.standing(uid), Some(Standing::Active | Standing::Backoff(_)));
            (tried && queue.standing(uid) == Some(Standing::Waiting)).then(|| uid.clone())
        };
        let waiting: Vec<Uid> = self.lean.iter().filter_map(waits).collect();
        let mut fitting = waiting.into_iter().filter_map(|uid| {
            let ask = self.ledger.pod(&uid)?.ask;
            let node = self.decider.pick(&self.ledger, ask, 1)?;
            Some(format!("{uid:?} waits and fits on {}", self.ledger.nodes.name(node)))
        });
        fitting.next()
    }

    fn reject(&mut self, what: &Value) {
        let key = text(what, "pod");
        self.in_flight.retain(|other| other != key);
        let plugins = |field: &str| {
            let names = what[field].as_array().into_iter().flatten();
            let plugin = |name: &str| Plugin::named(name).unwrap_or(Plugin::Other);
            names.filter_map(Value::as_str).map(plugin).collect()
        };
        let rejection = Rejection {
            unschedulable: plugins("unschedulable"),
            pending: plugins("pending"),
            ..Rejection::default()
        };
        let refused = what["unschedulable"].as_array().into_iter().flatten();
        let refused = refused.filter_map(Value::as_str).map(str::to_owned).collect();
        let is_true = rejection.pending.is_empty() && self.verdict(key) == Err(refused);
        if let Some(pod) = self.pods.get(key) {
            let uid = uid_of(pod);
            if !is_true {
                self.lean.remove(&uid);
            }
            if let Some(own) = self.lean.get_mut(&uid) {
                own.reject(&uid, rejection, &self.ledger, self.now);
            }
            self.queue.reject(&uid, rejection, &self.ledger, self.now);
        }
    }

    fn bind(&mut self, what: &Value) -> Result<()> {
        let key = text(what, "pod");
        self.in_flight.retain(|other| other != key);
        let mut pod = self.pods.get(key).context("a pod that is bound is there")?.clone();
        pod["spec"]["nodeName"] = what["node"].clone();
        self.queue.placed(&uid_of(&pod));
        self.put(&pod)
    }

    /// Where every pod is.
    pub fn places(&self, popped: String) -> Places {
        let mut places = Places { popped, ..Places::default() };
        let keys: BTreeMap<Uid, &String> =
            self.pods.iter().map(|(key, pod)| (uid_of(pod), key)).collect();
        let key = |uid: &Uid| keys.get(uid).map(|key| (*key).clone()).unwrap_or_default();
        places.active = self.queue.active().map(key).collect();
        for (uid, standing) in self.queue.standings() {
            let key = key(uid);
            match standing {
                Standing::Active | Standing::InFlight => {}
                Standing::Backoff(until) => {
                    places.backoff.insert(key, written(until));
                }
                Standing::ErrorBackoff(until) => {
                    places.error_backoff.insert(key, written(until));
                }
                Standing::Waiting => places.waiting.push(key),
                Standing::Gated => places.gated.push(key),
            }
        }
        places.waiting.sort_unstable();
        places.gated.sort_unstable();
        places
    }
}

/// A whole second of the first day of a script.
fn written(moment: Moment) -> String {
    let seconds = moment.since(START).as_secs();
    let (day, hour) = (1 + seconds / 86_400, seconds / 3600 % 24);
    let (minute, second) = (seconds / 60 % 60, seconds % 60);
    format!("2026-01-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}
