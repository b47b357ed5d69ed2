//! Our side: the engine, fed with the same objects.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use api::Pod;
use engine::decide::Decider;
use engine::examination::{Examination, Refused};
use engine::fact::{DEFAULT_SCHEDULER, Fact, PodFact, Uid};
use engine::ledger::Ledger;
use engine::moment::Moment;
use engine::plugin::Plugin;
use engine::plugins::volume_binding::{Binding, VolumeBinding};
use engine::preemption::{LastResorts, NoRoom, Outcome, Settings};
use engine::profile::{LastResort, Profile};
use engine::reason::{Code, Refusal};
use scheduler::config::ProfileConfig;
use serde_json::Value;

use crate::answer::{self, Answer, Difference, Preemption, differences};
use crate::facts;
use crate::generate::{Script, Step, name_of};

/// The engine, with what earlier scripts left in it.
pub struct Ours {
    ledger: Ledger,
    /// By the default configuration.
    standard: Vec<Named>,
    /// By the configuration that was played last, and that configuration.
    configured: (Value, Vec<Named>),
    there: BTreeMap<(String, String, String), Value>,
}

/// Who decides for pods that name this scheduler.
type Named = (String, Decider);

impl Default for Ours {
    fn default() -> Self {
        let mut ledger = Ledger::default();
        let decider = Decider::new(Profile::kubernetes(), &mut ledger, 0);
        Self {
            ledger,
            standard: vec![(DEFAULT_SCHEDULER.to_owned(), decider)],
            configured: (Value::Null, Vec::new()),
            there: BTreeMap::new(),
        }
    }
}

impl Ours {
    /// Plays a script and says where it differs from what the oracle answered.
    pub fn play(&mut self, script: &Script, truth: &Value) -> Result<Vec<Difference>> {
        self.clear()?;
        self.configure(script)?;
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
                    let answer = self.answer(pod, script)?;
                    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
                    found.extend(differences(name, &Answer::from_oracle(probe), &answer));
                }
            }
        }
        Ok(found)
    }

    /// Takes the way from a file to profiles that the scheduler takes. What earlier scripts of the
    /// same configuration left is kept.
    fn configure(&mut self, script: &Script) -> Result<()> {
        let Some(config) = script.config.as_ref().filter(|config| **config != self.configured.0)
        else {
            return Ok(());
        };
        let read = scheduler::config::parse("drawn.yaml".as_ref(), &config.to_string())?;
        let decider = |profile: &ProfileConfig| {
            let assembled = profile.assemble().profile;
            let decider = Decider::new(assembled, &mut self.ledger, 0);
            (profile.scheduler_name.clone(), decider)
        };
        self.configured = (config.clone(), read.profiles.iter().map(decider).collect());
        Ok(())
    }

    /// Every object is gone, as the API server would tell it. Namespaces stay.
    fn clear(&mut self) -> Result<()> {
        for (name, object) in std::mem::take(&mut self.there) {
            match &*name.0 {
                "Namespace" => drop(self.there.insert(name, object)),
                _ => self.ledger.apply(facts::gone(&object)?),
            }
        }
        Ok(())
    }

    /// An object is there, or is now this.
    ///
    /// # Errors
    /// When the engine knows nothing of its kind.
    pub fn put(&mut self, object: &Value) -> Result<()> {
        self.there.insert(name_of(object), object.clone());
        self.ledger.apply(facts::there(object)?);
        Ok(())
    }

    /// An object is gone.
    ///
    /// # Errors
    /// When it was not there.
    pub fn delete(&mut self, kind: &str, namespace: &str, name: &str) -> Result<()> {
        let key = (kind.to_owned(), namespace.to_owned(), name.to_owned());
        let object = self.there.remove(&key).context("what is deleted is there")?;
        self.ledger.apply(facts::gone(&object)?);
        Ok(())
    }

    /// What we say of a pod that is there for the question only.
    ///
    /// # Errors
    /// When the pod cannot be read, or names a profile that there is not.
    pub fn answer(&mut self, pod: &Value, script: &Script) -> Result<Answer> {
        let pod: Pod = serde_json::from_value(pod.clone()).context("a pod")?;
        let fact = PodFact::from(&pod);
        if !fact.gates.is_empty() {
            return Ok(Answer { gated: true, ..Answer::default() });
        }
        let uid = fact.uid.clone();
        let profiles = match script.config {
            Some(_) => &mut self.configured.1,
            None => &mut self.standard,
        };
        // The API server fills in who decides for a pod that does not say.
        let scheduler = match &*fact.scheduler {
            "" => DEFAULT_SCHEDULER,
            name => name,
        };
        let own = profiles.iter_mut().find(|(name, _)| name == scheduler);
        let (_, decider) = own.context("a pod names a profile that there is")?;
        self.ledger.apply(Fact::Pod(Box::new(fact)));
        let answer = answer_of(decider, &mut self.ledger, &uid, script.preempts);
        self.ledger.apply(Fact::PodGone(uid));
        answer
    }
}

fn answer_of(
    decider: &mut Decider,
    ledger: &mut Ledger,
    uid: &Uid,
    preempts: bool,
) -> Result<Answer> {
    let ask = ledger.pod(uid).context("it was put")?.ask;
    let mut answer = Answer::default();
    let mut filters = decider.profile().filters.iter();
    let binds_volumes = filters.any(|filter| filter.plugin() == Plugin::VolumeBinding);
    for one in &decider.scores_for(ledger, uid)? {
        let node = ledger.nodes.name(one.node).to_owned();
        for ((plugin, _), score) in decider.profile().scores.iter().zip(&one.by_plugin) {
            let own = answer.scores.entry(plugin.plugin().to_string()).or_default();
            own.insert(node.clone(), *score);
        }
        let plan = VolumeBinding.plan(ledger, ask, one.node).unwrap_or_default();
        if binds_volumes && !plan.is_empty() {
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
    answer.choice =
        picked.map(|place| ledger.nodes.name(place.node).to_owned()).into_iter().collect();
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
        let settings = decider.profile().last_resorts.iter().find_map(|one| match one {
            LastResort::DefaultPreemption(settings) => Some(*settings),
            LastResort::DynamicResources
            | LastResort::Reservation(_)
            | LastResort::Coscheduling
            | LastResort::ElasticQuota => None,
        });
        if let Some(settings) = settings {
            let told = preemption(decider, ledger, uid, &examined, &tried, settings)?;
            answer.preemption = Some(told);
        }
    }
    Ok(answer)
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
    settings: Settings,
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
    let all = decider.candidates(ledger, uid, examined, settings, 1, NOW)?;
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
