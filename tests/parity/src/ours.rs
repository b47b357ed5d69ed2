//! Our side: the engine, fed with the same objects.

mod storage;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};
use api::{Namespace, Node, Pod, ReplicaSet, ReplicationController, Service, StatefulSet};
use engine::decide::Decider;
use engine::fact::{Fact, NodeFact, PodFact, Uid};
use engine::ledger::Ledger;
use engine::needs::Owner;
use engine::plugins::volume_binding::{Binding, VolumeBinding};
use engine::profile::Profile;
use engine::reason::Code;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::answer::{Answer, Difference, Refused, differences};
use crate::generate::{Script, Step, name_of};

/// The engine, with what earlier scripts left in it.
pub struct Ours {
    ledger: Ledger,
    decider: Decider,
    /// Uids of pods by namespace and name.
    pods: BTreeMap<(String, String), String>,
    nodes: BTreeSet<String>,
    /// Services and controllers by kind, namespace and name.
    owners: BTreeMap<(String, String, String), (Box<str>, Owner)>,
    /// Objects of storage by kind, namespace and name.
    stored: BTreeSet<(String, String, String)>,
}

impl Default for Ours {
    fn default() -> Self {
        let mut ledger = Ledger::default();
        let decider = Decider::new(Profile::kubernetes(), &mut ledger, 0);
        Self {
            ledger,
            decider,
            owners: BTreeMap::new(),
            stored: BTreeSet::new(),
            pods: BTreeMap::new(),
            nodes: BTreeSet::new(),
        }
    }
}

impl Ours {
    /// Plays a script and says where it differs from what the oracle answered.
    pub fn play(&mut self, script: &Script, truth: &Value) -> Result<Vec<Difference>> {
        self.clear();
        for object in &script.objects {
            self.put(object)?;
        }
        let mut found = Vec::new();
        for (index, step) in script.steps.iter().enumerate() {
            match step {
                Step::Put(object) => self.put(object)?,
                Step::Delete { kind, namespace, name } => self.delete(kind, namespace, name)?,
                Step::Probe(pod) => {
                    let probe = &truth["steps"][index]["probe"];
                    let answer = self.answer(pod)?;
                    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
                    found.extend(differences(name, &Answer::from_oracle(probe), &answer));
                }
            }
        }
        Ok(found)
    }

    /// Every object is gone, as the API server would tell it.
    fn clear(&mut self) {
        for uid in std::mem::take(&mut self.pods).into_values() {
            self.ledger.apply(Fact::PodGone(Uid::new(&uid)));
        }
        for (namespace, owner) in std::mem::take(&mut self.owners).into_values() {
            self.ledger.apply(Fact::Owner { namespace, owner, selector: None });
        }
        for (kind, namespace, name) in std::mem::take(&mut self.stored) {
            if let Some(fact) = storage::gone(&kind, &namespace, &name) {
                self.ledger.apply(Fact::Storage(fact));
            }
        }
        for name in std::mem::take(&mut self.nodes) {
            self.ledger.apply(Fact::NodeGone(name.into()));
        }
    }

    fn put(&mut self, object: &Value) -> Result<()> {
        if let Some(fact) = storage::fact(object)? {
            self.stored.insert(name_of(object));
            self.ledger.apply(Fact::Storage(fact));
            return Ok(());
        }
        let read = "the generator makes objects that can be read";
        match object["kind"].as_str() {
            Some("Node") => {
                let node: Node = serde_json::from_value(object.clone()).context(read)?;
                self.nodes.insert(node.metadata.name.clone());
                self.ledger.apply(Fact::Node(NodeFact::from(&node)));
            }
            Some("Pod") => {
                let pod: Pod = serde_json::from_value(object.clone()).context(read)?;
                let key = (pod.metadata.namespace.clone(), pod.metadata.name.clone());
                self.pods.insert(key, pod.metadata.uid.clone());
                self.ledger.apply(Fact::from(&pod));
            }
            Some("Namespace") => {
                let namespace: Namespace = serde_json::from_value(object.clone()).context(read)?;
                let labels = namespace.metadata.labels.into_iter();
                let labels = labels.map(|(key, value)| (key.into(), value.into())).collect();
                let name = namespace.metadata.name.into();
                self.ledger.apply(Fact::Namespace { name, labels });
            }
            Some("Service") => self.put_owner::<Service>(object)?,
            Some("ReplicationController") => self.put_owner::<ReplicationController>(object)?,
            Some("ReplicaSet") => self.put_owner::<ReplicaSet>(object)?,
            Some("StatefulSet") => self.put_owner::<StatefulSet>(object)?,
            kind => bail!("the engine has no facts of {kind:?}"),
        }
        Ok(())
    }

    fn put_owner<T>(&mut self, object: &Value) -> Result<()>
    where
        T: DeserializeOwned,
        for<'a> Fact: From<&'a T>,
    {
        let fact = Fact::from(&serde_json::from_value::<T>(object.clone())?);
        if let Fact::Owner { namespace, owner, .. } = &fact {
            let kind = object["kind"].as_str().unwrap_or_default().to_owned();
            let key = (kind, namespace.to_string(), owner.name.to_string());
            self.owners.insert(key, (namespace.clone(), owner.clone()));
        }
        self.ledger.apply(fact);
        Ok(())
    }

    fn delete(&mut self, kind: &str, namespace: &str, name: &str) -> Result<()> {
        if let Some(fact) = storage::gone(kind, namespace, name) {
            self.stored.remove(&(kind.to_owned(), namespace.to_owned(), name.to_owned()));
            self.ledger.apply(Fact::Storage(fact));
            return Ok(());
        }
        match kind {
            "Node" => {
                self.nodes.remove(name);
                self.ledger.apply(Fact::NodeGone(name.into()));
            }
            "Pod" => {
                if let Some(uid) = self.pods.remove(&(namespace.to_owned(), name.to_owned())) {
                    self.ledger.apply(Fact::PodGone(Uid::new(&uid)));
                }
            }
            _ => {
                let key = (kind.to_owned(), namespace.to_owned(), name.to_owned());
                let (namespace, owner) = self.owners.remove(&key).context("it was there")?;
                self.ledger.apply(Fact::Owner { namespace, owner, selector: None });
            }
        }
        Ok(())
    }

    fn answer(&mut self, pod: &Value) -> Result<Answer> {
        let pod: Pod = serde_json::from_value(pod.clone()).context("a pod")?;
        let fact = PodFact::from(&pod);
        let ask = self.ledger.hold(&fact.namespace, &fact.labels, &fact.needs);
        let (ledger, decider) = (&self.ledger, &mut self.decider);
        let mut answer = Answer::default();
        let scores = decider.scores(ledger, ask);
        for one in &scores {
            let node = ledger.nodes.name(one.node).to_owned();
            for ((plugin, _), score) in decider.profile().scores.iter().zip(&one.by_plugin) {
                let own = answer.scores.entry(plugin.name().to_owned()).or_default();
                own.insert(node.clone(), *score);
            }
            let plan = VolumeBinding.plan(ledger, ask, one.node).unwrap_or_default();
            if !plan.is_empty() {
                let told = |one: Binding| {
                    let volume = one.volume.map(String::from).unwrap_or_default();
                    (String::from(one.claim), volume)
                };
                answer.volumes.insert(node.clone(), plan.into_iter().map(told).collect());
            }
            answer.totals.insert(node, one.total);
        }
        answer.scores.retain(|_, nodes| nodes.values().any(|score| *score != 0));
        for node in ledger.nodes.present().iter() {
            if let Some((plugin, refusal)) = decider.refusal(ledger, ask, node) {
                let code = match refusal.code {
                    Code::Unschedulable => "Unschedulable",
                    Code::Unresolvable => "UnschedulableAndUnresolvable",
                };
                let reasons = refusal.reasons.iter().map(ToString::to_string).collect();
                let refused = Refused { plugin: plugin.to_owned(), code: code.to_owned(), reasons };
                answer.refused.insert(ledger.nodes.name(node).to_owned(), refused);
            }
        }
        let picked = decider.pick(ledger, ask, 1).map(|node| ledger.nodes.name(node).to_owned());
        let best = answer.totals.values().max();
        let total = picked.as_ref().and_then(|node| answer.totals.get(node));
        anyhow::ensure!(total == best, "{picked:?} was picked, which is not among the best");
        self.ledger.release(ask);
        Ok(answer)
    }
}
