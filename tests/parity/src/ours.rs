//! Our side: the engine, fed with the same objects.

mod storage;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};
use api::{
    Namespace, Node, Pod, PodDisruptionBudget, ReplicaSet, ReplicationController, Service,
    StatefulSet,
};
use engine::decide::Decider;
use engine::examination::{Examination, Refused};
use engine::fact::{Fact, NodeFact, PodFact, Uid};
use engine::ledger::Ledger;
use engine::needs::Owner;
use engine::plugin::Plugin;
use engine::plugins::volume_binding::{Binding, VolumeBinding};
use engine::preemption::{LastResorts, NoRoom, Outcome, Settings};
use engine::profile::Profile;
use engine::queue::Moment;
use engine::reason::{Code, Refusal};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::answer::{self, Answer, Difference, Preemption, differences};
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
    /// Disruption budgets by namespace and name.
    budgets: BTreeSet<(String, String)>,
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
            budgets: BTreeSet::new(),
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
                    let answer = self.answer(pod, script.preempts)?;
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
        for (namespace, name) in std::mem::take(&mut self.budgets) {
            let (namespace, name) = (namespace.into(), name.into());
            self.ledger.apply(Fact::Budget { namespace, name, budget: None });
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
            Some("PodDisruptionBudget") => {
                let (_, namespace, name) = name_of(object);
                self.budgets.insert((namespace, name));
                let budget: PodDisruptionBudget =
                    serde_json::from_value(object.clone()).context(read)?;
                self.ledger.apply(Fact::from(&budget));
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
            "PodDisruptionBudget" => {
                self.budgets.remove(&(namespace.to_owned(), name.to_owned()));
                let (namespace, name) = (namespace.into(), name.into());
                self.ledger.apply(Fact::Budget { namespace, name, budget: None });
            }
            _ => {
                let key = (kind.to_owned(), namespace.to_owned(), name.to_owned());
                let (namespace, owner) = self.owners.remove(&key).context("it was there")?;
                self.ledger.apply(Fact::Owner { namespace, owner, selector: None });
            }
        }
        Ok(())
    }

    fn answer(&mut self, pod: &Value, preempts: bool) -> Result<Answer> {
        let pod: Pod = serde_json::from_value(pod.clone()).context("a pod")?;
        let fact = PodFact::from(&pod);
        if !fact.gates.is_empty() {
            return Ok(Answer { gated: true, ..Answer::default() });
        }
        let uid = fact.uid.clone();
        self.ledger.apply(Fact::Pod(Box::new(fact)));
        let answer = self.answer_of(&uid, preempts);
        self.ledger.apply(Fact::PodGone(uid));
        answer
    }

    fn answer_of(&mut self, uid: &Uid, preempts: bool) -> Result<Answer> {
        let (ledger, decider) = (&mut self.ledger, &mut self.decider);
        let ask = ledger.pod(uid).context("it was put")?.ask;
        let mut answer = Answer::default();
        for one in &decider.scores_for(ledger, uid)? {
            let node = ledger.nodes.name(one.node).to_owned();
            for ((plugin, _), score) in decider.profile().scores.iter().zip(&one.by_plugin) {
                let own = answer.scores.entry(plugin.plugin().to_string()).or_default();
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
        let picked = decider.choose(ledger, uid, 1)?;
        answer.choice = picked.map(|node| ledger.nodes.name(node).to_owned()).into_iter().collect();
        let examined = decider.examine(ledger, uid)?;
        let of = |node| ledger.nodes.name(node).to_owned();
        if let Some((plugin, refusal)) = &examined.everywhere {
            for node in ledger.nodes.present().iter() {
                answer.refused.insert(of(node), told(Some(*plugin), refusal));
            }
        }
        for Refused { node, plugin, refusal } in &examined.refused {
            answer.refused.insert(of(*node), told(*plugin, refusal));
        }
        if !answer.totals.is_empty() {
            return Ok(answer);
        }
        answer.plugins = examined.plugins().iter().map(|plugin| plugin.to_string()).collect();
        answer.message = examined.to_string();
        if preempts && examined.nodes > 0 {
            let tried = decider.last_resorts(ledger, uid, &examined, 1, NOW)?;
            if !tried.text.is_empty() {
                answer.message = format!("{} {}", answer.message, tried.text);
            }
            answer.preemption = Some(preemption(decider, ledger, uid, &examined, &tried)?);
        }
        Ok(answer)
    }
}

/// Later than anything in a script.
const NOW: Moment = Moment(4_000_000_000_000_000_000);

fn told(plugin: Option<Plugin>, refusal: &Refusal) -> answer::Refused {
    let code = match refusal.code {
        Code::Unschedulable => "Unschedulable",
        Code::Unresolvable => "UnschedulableAndUnresolvable",
    };
    answer::Refused {
        plugin: plugin.map(Plugin::name).unwrap_or_default().to_owned(),
        code: code.to_owned(),
        reasons: refusal.reasons.iter().map(ToString::to_string).collect(),
    }
}

/// What we say of who makes room, with all candidates and not only the best.
fn preemption(
    decider: &Decider,
    ledger: &mut Ledger,
    uid: &Uid,
    examined: &Examination,
    tried: &LastResorts,
) -> Result<Preemption> {
    let mut told_of = Preemption::default();
    let outcome = match &tried.preemption {
        None => {
            told_of.code = "Error".to_owned();
            return Ok(told_of);
        }
        Some(Outcome::NoRoom(why)) => {
            told_of.code = "Unschedulable".to_owned();
            if let NoRoom::Never | NoRoom::Leaving = why {
                told_of.reason = why.to_string();
                return Ok(told_of);
            }
            None
        }
        Some(Outcome::Room(room)) => {
            told_of.code = "Success".to_owned();
            Some(room)
        }
    };
    let all = decider.candidates(ledger, uid, examined, Settings::default(), 1, NOW)?;
    let name = |node| ledger.nodes.name(node).to_owned();
    for one in &all.found {
        let victims =
            one.victims.iter().map(|one| format!("{}/{}", one.pod.namespace, one.pod.name));
        let violations = i64::try_from(one.violations)?;
        told_of.candidates.insert(name(one.node), (victims.collect(), violations));
    }
    for one in &all.tried {
        let refused = match &one.refusal {
            Some((plugin, refusal)) => told(Some(*plugin), refusal),
            None => answer::Refused {
                plugin: String::new(),
                code: "UnschedulableAndUnresolvable".to_owned(),
                reasons: vec!["No preemption victims found for incoming pod".to_owned()],
            },
        };
        told_of.refused.insert(name(one.node), refused);
    }
    told_of.chosen = outcome.map(|room| name(room.node)).into_iter().collect();
    Ok(told_of)
}
