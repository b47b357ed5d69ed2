//! The third suite: whatever happens, no decision may break a rule of the cluster.
//!
//! A seed makes a cluster and what happens in it, as for the comparison of decisions; the engine as
//! a whole decides, and what it decides is written, refused, lost or left open, and told back at
//! once, late or twice. [`rules`] judges each decision by what the engine was told and by what it
//! decided itself, and nothing else is asked.

mod rules;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use engine::fact::{DEFAULT_SCHEDULER, PodRef, Uid};
use engine::moment::Moment;
use engine::plugins::volume_binding::Write;
use engine::profile::Profile;
use engine::turn::{Answer, Decision, Engine, Settings, Verdict};
use serde_json::{Value, json};

use crate::draw::Draw;
use crate::facts;
use crate::generate::{Script, Step, name_of};
use rules::{Objects, View};

/// How often an engine may decide at one moment; more is a loop.
const DECISIONS_MAX: usize = 400;

/// A decision that was not told back yet.
#[derive(Debug, Clone)]
struct Claim {
    pod: (String, String, String),
    node: String,
    /// Its volumes are being made ready.
    preparing: bool,
}

/// What came of a seed.
#[derive(Debug, Default)]
pub struct Outcome {
    /// How many pods were given a node.
    pub placed: usize,
    /// How many pods had to wait.
    pub refused: usize,
    /// The rule that was broken, and what had happened before.
    pub broken: Option<(String, Vec<String>)>,
}

struct World {
    draw: Draw,
    engine: Engine,
    now: Moment,
    /// What the engine was told is there.
    told: Objects,
    claims: BTreeMap<String, Claim>,
    /// What is so and was not told yet.
    late: Vec<Value>,
    /// Decisions that nobody answered yet.
    open: Vec<(Uid, String)>,
    outcome: Outcome,
    log: Vec<String>,
}

/// Plays a seed.
///
/// # Errors
/// When the script of the seed cannot be played.
pub fn play(seed: u64) -> Result<Outcome> {
    let script = Script::from_seed(seed);
    let profiles = vec![(Arc::from(DEFAULT_SCHEDULER), Profile::kubernetes())];
    let now = Moment(1_767_225_600_000_000_000);
    let settings = Settings { seed, ..Settings::default() };
    let mut world = World {
        draw: Draw::new(!seed),
        engine: Engine::new(settings, profiles, now),
        now,
        told: Objects::new(),
        claims: BTreeMap::new(),
        late: Vec::new(),
        open: Vec::new(),
        outcome: Outcome::default(),
        log: Vec::new(),
    };
    for mut object in script.objects {
        world.inflate(&mut object);
        world.tell(for_default(object))?;
    }
    for step in script.steps {
        match step {
            Step::Put(mut object) => {
                world.inflate(&mut object);
                world.tell(for_default(object))?;
            }
            Step::Delete { kind, namespace, name } => world.end(&(kind, namespace, name))?,
            Step::Probe(mut pod) => {
                world.inflate(&mut pod);
                world.create(&for_default(pod))?;
            }
        }
        world.go_on()?;
        if world.outcome.broken.is_some() {
            break;
        }
    }
    Ok(world.outcome)
}

/// Amounts that 64 bits cannot hold in thousandths, or at all. Some wrap to less than nothing.
const HUGE: [&str; 5] = [
    "9223372036854775807",
    "9223372036854775808",
    "16140901064495857663",
    "18446743936270598144",
    "18446744073709551615",
];

/// The API server fills in who decides for a pod.
fn for_default(mut object: Value) -> Value {
    if object["kind"] == "Pod" {
        object["spec"]["schedulerName"] = json!(DEFAULT_SCHEDULER);
    }
    object
}

fn uid_of(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
}

impl World {
    /// Has some pods request more than there is anywhere.
    fn inflate(&mut self, object: &mut Value) {
        if object["kind"] == "Pod" && self.draw.percent(4) {
            let name = *self.draw.one(&["cpu", "memory", "ephemeral-storage"]);
            let amount = *self.draw.one(&HUGE);
            object["spec"]["containers"][0]["resources"]["requests"][name] = json!(amount);
        }
    }

    fn tell(&mut self, object: Value) -> Result<()> {
        if object["kind"] == "Pod" && object["spec"]["nodeName"].is_string() {
            self.claims.remove(&uid_of(&object));
        }
        self.log.push(format!("told {object}"));
        self.engine.apply(facts::there(&object)?, self.now);
        self.told.insert(name_of(&object), object);
        Ok(())
    }

    fn end(&mut self, name: &(String, String, String)) -> Result<()> {
        let Some(object) = self.told.remove(name) else { return Ok(()) };
        if name.0 == "Pod" {
            let uid = uid_of(&object);
            self.claims.remove(&uid);
            self.late.retain(|other| uid_of(other) != uid);
            self.open.retain(|(other, _)| *other != Uid::new(&uid));
        }
        self.log.push(format!("gone {name:?}"));
        self.engine.apply(facts::gone(&object)?, self.now);
        Ok(())
    }

    /// A pod and some that are like it.
    fn create(&mut self, pod: &Value) -> Result<()> {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        self.tell(pod.clone())?;
        for number in 0..self.draw.below(7) {
            let mut like = pod.clone();
            let name = format!("{name}-{number}");
            like["metadata"]["name"] = json!(name);
            like["metadata"]["uid"] = json!(name);
            self.tell(like)?;
        }
        Ok(())
    }

    /// Time passes, what was late is told, and the engine decides.
    fn go_on(&mut self) -> Result<()> {
        for _ in 0..self.draw.between(1, 3) {
            let millis = *self.draw.one(&[0, 50, 1500, 12_000, 400_000]);
            self.now = self.now.after(Duration::from_millis(millis));
            let mut decisions = 0;
            while let Some(decision) = self.engine.decide(self.now) {
                decisions += 1;
                if decisions > DECISIONS_MAX {
                    let broken = format!("more than {DECISIONS_MAX} decisions at one moment");
                    self.outcome.broken = Some((broken, self.log.clone()));
                    return Ok(());
                }
                self.judge(&decision);
                if self.outcome.broken.is_some() {
                    return Ok(());
                }
                self.answer(decision)?;
            }
            for object in std::mem::take(&mut self.late) {
                match self.draw.below(4) {
                    0 => self.late.push(object),
                    1 => {
                        self.tell(object.clone())?;
                        self.late.push(object);
                    }
                    _ => self.tell(object)?,
                }
            }
            for (uid, node) in std::mem::take(&mut self.open) {
                match self.draw.below(3) {
                    0 => self.open.push((uid, node)),
                    _ => self.settle(&uid, &node),
                }
            }
        }
        Ok(())
    }

    /// Holds a decision against the rules.
    fn judge(&mut self, decision: &Decision) {
        let (node, prepares) = match &decision.verdict {
            Verdict::Bind(node, _) => (node.to_string(), false),
            Verdict::Prepare(node, _) => (node.to_string(), true),
            Verdict::Await(_)
            | Verdict::Wait(_)
            | Verdict::Unprepared(_)
            | Verdict::Consult(..)
            | Verdict::Failed(_) => {
                self.outcome.refused += 1;
                return;
            }
        };
        let name =
            ("Pod".to_owned(), decision.pod.namespace.to_string(), decision.pod.name.to_string());
        let uid = decision.pod.uid.0.to_string();
        self.log.push(format!("decided {uid} {:?}", decision.verdict));
        let broken = self.breaks(&name, &uid, &node, &decision.verdict);
        if let Some(broken) = broken {
            self.outcome.broken = Some((format!("{uid}: {broken}"), self.log.clone()));
        }
        self.outcome.placed += 1;
        self.claims.insert(uid, Claim { pod: name, node, preparing: prepares });
    }

    fn breaks(
        &self,
        name: &(String, String, String),
        uid: &str,
        node: &str,
        verdict: &Verdict,
    ) -> Option<String> {
        let Some(pod) = self.told.get(name).filter(|pod| uid_of(pod) == uid) else {
            return Some("there is no such pod".to_owned());
        };
        if !pod["spec"]["nodeName"].is_null() {
            return Some(format!("it is bound: {}", pod["spec"]["nodeName"]));
        }
        match self.claims.get(uid) {
            // Now that its volumes are ready.
            Some(claim) if claim.preparing && *verdict == Verdict::Bind(node.into(), None) => {
                return (claim.node != node).then(|| format!("it was promised {}", claim.node));
            }
            Some(claim) => return Some(format!("it has {} already", claim.node)),
            None => {}
        }
        let bound = self.told.values().filter(|object| object["kind"] == "Pod");
        let bound = bound.filter_map(|pod| Some((pod, pod["spec"]["nodeName"].as_str()?)));
        let claimed = self.claims.values();
        let claimed = claimed.filter_map(|claim| Some((self.told.get(&claim.pod)?, &*claim.node)));
        let view = View { objects: &self.told, placed: bound.chain(claimed).collect() };
        view.forbids(pod, node)
    }

    /// Something becomes of a decision.
    fn answer(&mut self, decision: Decision) -> Result<()> {
        let Decision { pod, verdict, .. } = decision;
        match verdict {
            Verdict::Bind(node, _) => match self.draw.below(10) {
                0..=6 => self.settle(&pod.uid, &node),
                _ => self.open.push((pod.uid, node.into())),
            },
            Verdict::Prepare(node, writes) => match self.draw.below(10) {
                0..=5 => {
                    self.engine.prepared(&pod.uid, &[], self.now);
                    for write in writes {
                        self.carry_out(&write, &node)?;
                    }
                }
                6 => {}
                _ => {
                    self.claims.remove(&*pod.uid.0);
                    self.engine.answered(&pod.uid, Answer::Refused, self.now);
                }
            },
            Verdict::Unprepared(_) => drop(self.claims.remove(&*pod.uid.0)),
            Verdict::Await(_) => bail!("{} is in no gang", pod.name),
            Verdict::Consult(..) | Verdict::Failed(_) => {
                bail!("there is nobody to ask about {}", pod.name)
            }
            Verdict::Wait(waiting) => {
                let victims = waiting.room().map(|room| room.victims.clone()).unwrap_or_default();
                if victims.is_empty() {
                    self.engine.done(&pod.uid, self.now);
                    return Ok(());
                }
                if self.draw.percent(40) {
                    self.engine.undone(&pod.uid, self.now);
                    return Ok(());
                }
                for victim in victims {
                    let PodRef { namespace, name, .. } = victim.pod;
                    self.end(&("Pod".to_owned(), namespace.into(), name.into()))?;
                }
                self.engine.done(&pod.uid, self.now);
            }
        }
        Ok(())
    }

    /// The API server says what became of a Binding.
    fn settle(&mut self, uid: &Uid, node: &str) {
        let Some(claim) = self.claims.get(&*uid.0).cloned() else { return };
        let Some(mut pod) = self.told.get(&claim.pod).cloned() else { return };
        match self.draw.below(10) {
            0 => {
                self.claims.remove(&*uid.0);
                self.log.push(format!("refused {uid:?}"));
                self.engine.answered(uid, Answer::Refused, self.now);
            }
            1 => {
                // Somebody else was faster.
                self.claims.remove(&*uid.0);
                self.log.push(format!("lost {uid:?}"));
                self.engine.answered(uid, Answer::Lost, self.now);
                pod["spec"]["nodeName"] = json!(format!("node-{}", self.draw.below(6)));
                self.late.push(pod);
            }
            _ => {
                self.log.push(format!("bound {uid:?} to {node}"));
                self.engine.answered(uid, Answer::Done, self.now);
                pod["spec"]["nodeName"] = json!(node);
                self.late.push(pod);
            }
        }
    }

    /// The volume is there, as the controller of volumes would have it.
    fn carry_out(&mut self, write: &Write, node: &str) -> Result<()> {
        let (namespace, name, volume) = match write {
            Write::KeepVolume { volume, claim } => {
                (claim.namespace.to_string(), claim.name.to_string(), volume.to_string())
            }
            Write::SelectNode { namespace, claim, .. } => {
                (namespace.to_string(), claim.to_string(), format!("made-{namespace}-{claim}"))
            }
        };
        let key = ("PersistentVolumeClaim".to_owned(), namespace, name);
        let mut claim = self.told.get(&key).context("who prepares knows the claim")?.clone();
        let made = json!({
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": volume},
            "spec": {
                "capacity": {"storage": "20Gi"},
                "accessModes": claim["spec"]["accessModes"],
                "storageClassName": claim["spec"]["storageClassName"],
                "csi": {"driver": "csi.example.com", "volumeHandle": volume},
            },
        });
        let known = self.told.get(&("PersistentVolume".to_owned(), String::new(), volume.clone()));
        let mut object = known.cloned().unwrap_or(made);
        let (_, namespace, name) = &key;
        object["spec"]["claimRef"] =
            json!({"namespace": namespace, "name": name, "uid": claim["metadata"]["uid"]});
        object["status"] = json!({"phase": "Bound"});
        let annotations = &mut claim["metadata"]["annotations"];
        annotations["pv.kubernetes.io/bind-completed"] = json!("yes");
        annotations["volume.kubernetes.io/selected-node"] = json!(node);
        claim["spec"]["volumeName"] = json!(volume);
        claim["status"]["phase"] = json!("Bound");
        let both = if self.draw.percent(50) { [object, claim] } else { [claim, object] };
        both.into_iter().try_for_each(|object| self.tell(object))
    }
}
