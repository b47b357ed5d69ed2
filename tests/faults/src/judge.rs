//! What is true on the server, and what must not be.
//!
//! A node may carry too much in two cases only. Somebody who is not ours made it so. Or a pod came
//! to it that was decided on when something on that node was not known, which happened after the
//! scheduler was told by the server how everything stood: two Bindings in flight at the same
//! moment. What happened before that, every decision has to reckon with. The same goes for what
//! reservations hold beside the pods, for what is used of them, and for CPUs.

mod batches;
mod uses;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use api::cpus::RESOURCE_STATUS;
use scheduler::bind::Outcome;
use serde_json::Value;

use crate::held::{self, Held};
use crate::lending::Regime;
use crate::log::Log;
use crate::rules::{Place, crowds, exceeds};
use crate::shapes::{BATCH, KOORDINATOR, MEGA, Shape, TAINT, ZONE};
use crate::shares::{Share, Shares};

/// A Binding on its way.
#[derive(Debug, Clone)]
pub struct Binding {
    pub who: usize,
    pub name: String,
    pub uid: String,
    pub node: String,
    /// How often that scheduler had decided on a node for the pod.
    pub number: u32,
    basis: Option<Basis>,
}

impl Binding {
    /// The node as it was when it was decided on, as far as that is known.
    fn place(&self) -> Option<&Place> {
        self.basis.as_ref()?.place.as_ref()
    }
}

/// What a scheduler knew of the node that it decided on.
#[derive(Debug, Clone)]
struct Basis {
    pods: BTreeSet<String>,
    place: Option<Place>,
}

/// What a scheduler knows of everything when it decides.
pub struct Known<'a> {
    /// The nodes of pods, by their uid.
    pub pods: BTreeMap<&'a str, &'a str>,
    pub places: &'a BTreeMap<String, Place>,
}

/// Moments at which a scheduler is told by the server how everything stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reading {
    Start,
    Pods,
    Nodes,
    /// The Lease is its own.
    Lease,
    /// The revision of the store.
    Revision,
}

/// A place in the order in which everything happens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Order(u64);

/// Before which moments a scheduler has to know everything.
#[derive(Debug, Clone, Copy, Default)]
struct Horizon {
    pods: Order,
    nodes: Order,
    /// Of what has no list that is told of here.
    rest: Order,
}

/// How often something was excused.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Excuses {
    /// Pods that came to a node that had no room for them by then.
    pub landings: u64,
    /// Nodes that carried too much when they were looked at.
    pub sights: u64,
    /// The same with what is held, and reservations and CPUs that too many used.
    pub uses: u64,
    /// Quotas that had no room by the time that a pod was bound.
    pub quotas: u64,
}

/// How often gangs and quotas were held against what has to be so in the end.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Judged {
    /// Gangs with members that wait, of which it was looked whether they fit.
    pub waiting: u64,
    /// Gangs of which as many were bound as have to be before anything happened to them.
    pub undisturbed: u64,
    /// Gangs that are there in part: the rest does not fit.
    pub halves: u64,
    /// Gangs that wait while one that came with them and asks for the same runs.
    pub contended: u64,
    /// Schedulers of which it was looked at what they had added up.
    pub audits: u64,
}

impl Judged {
    /// Each kind, in words.
    pub fn named(&self) -> [(u64, &'static str); 5] {
        let Self { waiting, undisturbed, halves, contended, audits } = *self;
        [
            (waiting, "gangs that wait and do not fit"),
            (undisturbed, "gangs undisturbed and whole"),
            (halves, "gangs in part whose rest does not fit"),
            (contended, "gangs that wait while their like runs"),
            (audits, "audits of quotas"),
        ]
    }

    pub fn add(&mut self, other: &Self) {
        self.waiting += other.waiting;
        self.undisturbed += other.undisturbed;
        self.halves += other.halves;
        self.contended += other.contended;
        self.audits += other.audits;
    }
}

/// A pod on the server.
#[derive(Debug, Clone)]
pub struct Standing {
    pub uid: String,
    pub name: String,
    pub node: String,
    pub nominated: String,
    pub reason: String,
    pub is_going: bool,
    pub is_ended: bool,
    pub is_gated: bool,
    /// The reservation that it says it uses; empty for none.
    pub uses: String,
    /// The CPUs that it says are its own.
    pub cpus: String,
}

/// All that the server holds.
#[derive(Debug, Default)]
pub struct Snapshot {
    pub places: BTreeMap<String, Place>,
    pub pods: Vec<Standing>,
    pub held: Vec<Held>,
    /// Nodes that report their load, which may be too much for pods of some profiles.
    pub reporting: BTreeSet<String>,
    pub shares: Shares,
    /// Gangs that an object describes.
    pub groups: BTreeSet<String>,
    /// Apps of whose pods only some may go.
    pub budgets: BTreeSet<String>,
    /// What is done for gangs and quotas.
    pub regime: Regime,
}

/// A pod that was bound.
#[derive(Debug, Clone)]
struct Landed {
    at: Order,
    /// Which scheduler it was, if one of ours.
    who: Option<usize>,
    name: String,
    node: String,
    /// It takes room.
    is_there: bool,
}

#[derive(Default)]
struct Truth {
    now: Order,
    shapes: BTreeMap<String, Shape>,
    /// Pods that were ever bound, by uid.
    bound: BTreeMap<String, Landed>,
    /// Nodes, and since when they are so; none where one is gone.
    places: BTreeMap<String, (Order, Option<Place>)>,
    /// What each scheduler was told first, of each kind.
    read: BTreeSet<(usize, Reading)>,
    horizons: BTreeMap<usize, Horizon>,
    /// In whose name the Lease is, once it was anybody's.
    leader: Option<String>,
    /// On what the last decision of a scheduler about a pod was built.
    bases: BTreeMap<(usize, String), Basis>,
    /// How often a scheduler decided on a node for a pod.
    asked: BTreeMap<(usize, String), u32>,
    /// Decisions that were said to be over without a Binding.
    over: BTreeSet<(usize, String, u32)>,
    /// Pods that were said to be gone.
    gone: Vec<String>,
    /// Nodes that may carry too much, until they no longer do.
    excused: BTreeSet<String>,
    /// The same with what reservations hold there, and what too many use.
    excused_uses: BTreeSet<String>,
    /// Reservations that got a node or another size: when, and by which scheduler.
    held: BTreeMap<String, (Order, usize)>,
    /// Pods that each reservation was to take over.
    adopted: BTreeMap<String, BTreeSet<String>>,
    /// Where schedulers decided that reservations hold something, and what they knew of the node.
    sites: BTreeMap<(usize, String), (String, Place)>,
    /// Quotas, and since when they are so; none where one is gone.
    shares: BTreeMap<String, (Order, Option<Share>)>,
    regime: Regime,
    /// Pods that were asked to go.
    sent_away: BTreeSet<String>,
    /// How often something happened that may keep the rest of every gang from its nodes.
    upheavals: u64,
    /// How often something happened to members of a gang.
    losses: BTreeMap<String, u64>,
    /// How often either had when the first member of a gang was to be bound.
    begun: BTreeMap<String, (u64, u64)>,
    judged: Judged,
    excuses: Excuses,
}

impl Truth {
    fn tick(&mut self) -> Order {
        self.now.0 += 1;
        self.now
    }

    fn horizon(&self, who: usize) -> Horizon {
        self.horizons.get(&who).copied().unwrap_or_default()
    }

    /// Something that a scheduler was told and does not know.
    fn unknown(&self, who: usize, known: &Known<'_>) -> Option<String> {
        let horizon = self.horizon(who);
        let is_missed = |(uid, one): &(&String, &Landed)| {
            let is_due = one.is_there && one.who != Some(who) && one.at < horizon.pods;
            is_due && known.pods.get(&***uid) != Some(&&*one.node)
        };
        if let Some((_, one)) = self.bound.iter().find(is_missed) {
            return Some(format!("{} is on {}", one.name, one.node));
        }
        let mut places = self.places.iter().filter(|(_, (at, _))| *at < horizon.nodes);
        let (name, (_, place)) =
            places.find(|(name, (_, place))| known.places.get(*name) != place.as_ref())?;
        Some(format!("node {name} is {place:?}"))
    }

    /// Whether a node carries something else than when it was decided on.
    fn has_changed(&self, node: &str, known: Option<&Place>) -> bool {
        let place = self.places.get(node).and_then(|(_, place)| place.as_ref());
        place.zip(known).is_some_and(|(place, known)| !known.carries_like(place))
    }

    /// What is too much on a node with one more pod, and whether that may be.
    fn excess(&self, binding: &Binding) -> Option<(String, bool)> {
        let Binding { who, name, uid, node, basis, .. } = binding;
        let (_, place) = self.places.get(node)?;
        let place = place.as_ref()?;
        let is_other =
            |(one, pod): &(&String, &Landed)| pod.is_there && pod.node == *node && *one != uid;
        let others: Vec<(&String, &Landed)> = self.bound.iter().filter(is_other).collect();
        let shapes = others.iter().filter_map(|(_, pod)| self.shapes.get(&pod.name));
        let what = crowds(place, &shapes.collect::<Vec<_>>(), self.shapes.get(name)?)?;
        let Some(basis) = basis else { return Some((what, false)) };
        let is_same = basis.place.as_ref().is_some_and(|known| known.carries_like(place));
        let told = self.horizon(*who).pods;
        let mut strangers = others.iter().filter(|(one, pod)| {
            pod.who != Some(*who) && pod.at > told && !basis.pods.contains(*one)
        });
        Some((what, !is_same || strangers.next().is_some()))
    }
}

/// One who knows what is true; clones share it.
#[derive(Clone)]
pub struct Judge {
    log: Log,
    truth: Arc<Mutex<Truth>>,
}

impl Judge {
    pub fn new(log: &Log) -> Self {
        Self { log: log.clone(), truth: Arc::default() }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Truth) -> T) -> T {
        act(&mut self.truth.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn log(&self) -> &Log {
        &self.log
    }

    /// There will be a pod of this name and shape.
    pub fn expect(&self, name: &str, shape: &Shape) {
        self.with(|truth| truth.shapes.insert(name.to_owned(), shape.clone()));
    }

    pub fn shape(&self, name: &str) -> Option<Shape> {
        self.with(|truth| truth.shapes.get(name).cloned())
    }

    pub fn excuses(&self) -> Excuses {
        self.with(|truth| truth.excuses)
    }

    /// A node is now so, or gone. Who is there may be too many by that.
    pub fn placed(&self, node: &str, place: Option<Place>) {
        self.with(|truth| {
            let now = truth.tick();
            truth.upheavals += u64::from(place.is_none());
            truth.excused.insert(node.to_owned());
            truth.excused_uses.insert(node.to_owned());
            truth.places.insert(node.to_owned(), (now, place));
        });
    }

    /// A pod has ended or is gone.
    pub fn left(&self, uid: &str, name: &str) {
        self.lost(name);
        self.with(|truth| {
            if let Some(pod) = truth.bound.get_mut(uid) {
                pod.is_there = false;
            }
        });
    }

    /// Somebody who is not ours bound a pod.
    pub fn taken(&self, uid: &str, name: &str, node: &str) {
        self.with(|truth| {
            truth.excused.insert(node.to_owned());
            truth.excused_uses.insert(node.to_owned());
        });
        self.lost(name);
        self.bind(None, (uid, name, node));
    }

    fn bind(&self, who: Option<usize>, (uid, name, node): (&str, &str, &str)) {
        let old = self.with(|truth| {
            let (at, is_there) = (truth.tick(), true);
            let landed = Landed { at, who, name: name.to_owned(), node: node.to_owned(), is_there };
            let old = truth.bound.insert(uid.to_owned(), landed);
            truth.note_whole(name);
            old
        });
        if let Some(Landed { node: old, .. }) = old {
            self.log.violated(&format!("pod {uid} is bound twice: to {old}, then to {node}"));
        }
    }

    /// The moment at which a request is carried out, at the earliest.
    pub fn now(&self) -> Order {
        self.with(Truth::tick)
    }

    /// A scheduler asked at this moment how everything stands, or somewhat later, and the server
    /// answered. Only the first answer of a kind counts: it may be lost, and what is asked again
    /// is answered later.
    pub fn read(&self, who: usize, reading: Reading, at: Order) {
        self.with(|truth| {
            if !truth.read.insert((who, reading)) {
                return;
            }
            truth.upheavals += u64::from(reading == Reading::Start);
            let Horizon { pods, nodes, rest } = truth.horizons.entry(who).or_default();
            if !matches!(reading, Reading::Pods | Reading::Nodes) {
                *rest = at.max(*rest);
            }
            if reading != Reading::Nodes {
                *pods = at.max(*pods);
            }
            if reading != Reading::Pods {
                *nodes = at.max(*nodes);
            }
        });
    }

    /// The Lease is in this name.
    pub fn led(&self, holder: &str) {
        self.with(|truth| {
            let before = truth.leader.replace(holder.to_owned());
            truth.upheavals += u64::from(before.is_some_and(|before| before != holder));
        });
    }

    /// A scheduler decided on a node, knowing this.
    pub fn decided(&self, who: usize, (uid, name, node): (&str, &str, &str), known: &Known<'_>) {
        let unknown = self.with(|truth| {
            let pods = known.pods.iter().filter(|(_, there)| **there == node);
            let pods = pods.map(|(uid, _)| (*uid).to_owned()).collect();
            let basis = Basis { pods, place: known.places.get(node).cloned() };
            truth.bases.insert((who, uid.to_owned()), basis);
            truth.unknown(who, known)
        });
        if let Some(what) = unknown {
            let what = format!("s{who} decides {name} to {node} and does not know that {what}");
            self.log.violated(&what);
        }
    }

    /// A scheduler ordered a Binding.
    pub fn asked(&self, who: usize, uid: &str) {
        self.with(|truth| *truth.asked.entry((who, uid.to_owned())).or_default() += 1);
    }

    /// A Binding was sent.
    pub fn sent(&self, who: usize, (name, uid, node): (String, String, String)) -> Binding {
        let own = (who, uid.clone());
        let (number, basis, leader) = self.with(|truth| {
            let number = truth.asked.get(&own).copied().unwrap_or(0);
            (number, truth.bases.get(&own).cloned(), truth.leader.clone())
        });
        if let Some(leader) = leader.filter(|leader| *leader != identity(who)) {
            let what = format!("s{who} sends a Binding of {name} and the Lease is {leader:?}'s");
            self.log.violated(&what);
        }
        Binding { who, name, uid, node, number, basis }
    }

    /// A Binding was carried out.
    pub fn landed(&self, binding: &Binding) {
        let Binding { who, name, uid, node, number, .. } = binding;
        let (is_over, excess) = self.with(|truth| {
            let excess = truth.excess(binding);
            if let Some((_, true)) = excess {
                truth.excused.insert(node.clone());
                truth.excused_uses.insert(node.clone());
                truth.excuses.landings += 1;
            }
            // With what is held there, it may be too much for the node as it is by now.
            if truth.has_changed(node, binding.place()) {
                truth.excused_uses.insert(node.clone());
            }
            (truth.over.contains(&(*who, uid.clone(), *number)), excess)
        });
        self.judge_overdraft(binding);
        self.bind(Some(*who), (uid, name, node));
        if is_over {
            let what = format!("{name} is bound to {node} after s{who} took it for not bound");
            self.log.violated(&what);
        }
        match excess {
            Some((what, true)) => self.log.note(&format!("excused: {name} on {node}: {what}")),
            Some((what, false)) => {
                let what = format!("{name} of s{who} is too much for {node}: {what}");
                self.log.violated(&what);
            }
            None => {}
        }
    }

    /// A scheduler holds this for what became of its Binding.
    pub fn concluded(&self, who: usize, uid: &str, node: Option<&str>, outcome: &Outcome) {
        let bound = self.with(|truth| truth.bound.get(uid).cloned());
        let is_taken = bound.as_ref().is_some_and(|bound| bound.who.is_none());
        let bound = bound.map(|bound| bound.node);
        let is_true = match outcome {
            // Of a pod that has ended by then, the scheduler knows no node any longer.
            Outcome::Bound => bound.is_some() && (node.is_none() || bound.as_deref() == node),
            Outcome::Elsewhere(other) => bound.as_deref() == Some(other),
            // It was so when it was read; others may have been faster than the news of it.
            Outcome::NotBound(_) => bound.is_none() || is_taken,
            Outcome::Gone => {
                self.with(|truth| truth.gone.push(uid.to_owned()));
                true
            }
        };
        if !is_true {
            let what = format!("s{who} holds {outcome:?} for true of {uid}, which is on {bound:?}");
            self.log.violated(&what);
        }
        if *outcome != Outcome::Bound {
            self.with(|truth| {
                let number = truth.asked.get(&(who, uid.to_owned())).copied().unwrap_or(0);
                truth.over.insert((who, uid.to_owned(), number));
            });
        }
    }

    /// Holds what the server shows against what may be.
    pub fn inspect(&self, snapshot: &Snapshot) {
        let gone = self.with(|truth| std::mem::take(&mut truth.gone));
        for pod in &snapshot.pods {
            if gone.contains(&pod.uid) {
                self.log.violated(&format!("{} was held for gone and is there", pod.name));
            }
            let bound = self.with(|truth| truth.bound.get(&pod.uid).map(|pod| pod.node.clone()));
            let bound = bound.unwrap_or_default();
            if bound != pod.node {
                let what = format!("{} was bound to {bound:?} and is on {:?}", pod.name, pod.node);
                self.log.violated(&what);
            }
        }
        for (name, place) in &snapshot.places {
            let shapes = self.with(|truth| truth.shapes.clone());
            let living = snapshot.pods.iter().filter(|pod| pod.node == *name && !pod.is_ended);
            let there: Vec<&Shape> = living.filter_map(|pod| shapes.get(&pod.name)).collect();
            let Some(what) = exceeds(place, &there) else {
                self.with(|truth| truth.excused.remove(name));
                continue;
            };
            let is_excused = self.with(|truth| {
                let is_excused = truth.excused.contains(name);
                truth.excuses.sights += u64::from(is_excused);
                is_excused
            });
            if !is_excused {
                self.log.violated(&format!("node {name} is exceeded: {what}"));
            }
        }
        self.inspect_uses(snapshot);
    }

    /// After the faults have ended and enough time has passed: whoever fits is bound.
    pub fn conclude(&self, snapshot: &Snapshot) {
        let shapes = self.with(|truth| truth.shapes.clone());
        let waits = |pod: &&Standing| pod.node.is_empty() && !pod.is_ended && !pod.is_going;
        let spares = snapshot.spares(&shapes);
        self.conclude_uses(snapshot, &shapes);
        self.conclude_gangs(snapshot, &shapes);
        self.conclude_overuse(snapshot, &shapes);
        let accounts = snapshot.accounts(&shapes);
        let has_room = |shape: &Shape| shape.scheduler != BATCH || accounts.has_room((shape, 1));
        for pod in snapshot.pods.iter().filter(waits) {
            let Some(shape) = shapes.get(&pod.name).filter(|shape| shape.gang.is_none()) else {
                continue;
            };
            let except = BTreeSet::from([&*pod.uid]);
            let [plain, nominated] = snapshot.views(&shapes, &spares, &except);
            let fits = |node: &&String| {
                plain.refuses(shape, node).is_none()
                    && nominated.refuses(shape, node).is_none()
                    && has_room(shape)
                    && !shape.must_use
                    && !shape.own_cpus
                    && !(shape.scheduler == KOORDINATOR && snapshot.reporting.contains(*node))
            };
            if let Some(node) = snapshot.places.keys().find(fits) {
                self.log.violated(&format!("{} fits on {node} and is not bound", pod.name));
            } else if pod.reason != "Unschedulable" {
                let what =
                    format!("{} fits nowhere, and its condition says {:?}", pod.name, pod.reason);
                self.log.violated(&what);
            }
        }
    }
}

/// The name under which a scheduler leads.
pub fn identity(who: usize) -> String {
    format!("s{who}")
}

/// The CPUs that annotations say are a pod's own.
fn cpus(annotations: &Value) -> String {
    let told = annotations[RESOURCE_STATUS].as_str().unwrap_or_default();
    let told: Value = serde_json::from_str(told).unwrap_or_default();
    told["cpuset"].as_str().unwrap_or_default().to_owned()
}

impl Standing {
    pub fn read(pod: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (metadata, spec, status) = (&pod["metadata"], &pod["spec"], &pod["status"]);
        let conditions = status["conditions"].as_array().into_iter().flatten();
        let scheduled = conditions.filter(|one| one["type"] == "PodScheduled");
        let reason = scheduled.map(|one| text(&one["reason"])).next().unwrap_or_default();
        Self {
            uid: text(&metadata["uid"]),
            name: text(&metadata["name"]),
            node: text(&spec["nodeName"]),
            nominated: text(&status["nominatedNodeName"]),
            reason,
            is_going: !metadata["deletionTimestamp"].is_null(),
            is_ended: status["phase"] == "Succeeded",
            is_gated: spec["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()),
            uses: held::used(&metadata["annotations"]),
            cpus: cpus(&metadata["annotations"]),
        }
    }
}

impl Place {
    pub fn read(node: &Value) -> Self {
        let allocatable = &node["status"]["allocatable"];
        let number = |value: &Value, suffix: &str| -> i64 {
            let text = value.as_str().unwrap_or_default();
            let whole = |text: &str| text.parse::<i64>().unwrap_or(0);
            text.strip_suffix(suffix).map_or_else(|| whole(text) * 1000, whole)
        };
        let mega = allocatable["memory"].as_str().unwrap_or_default();
        let mega = match mega.strip_suffix("Gi") {
            Some(giga) => giga.parse::<i64>().unwrap_or(0) * 1024,
            None => mega.trim_end_matches("Mi").parse().unwrap_or(0),
        };
        let pods = allocatable["pods"].as_str().unwrap_or_default();
        let mut taints = node["spec"]["taints"].as_array().into_iter().flatten();
        Self {
            zone: node["metadata"]["labels"][ZONE].as_str().unwrap_or_default().to_owned(),
            cpu_millis: number(&allocatable["cpu"], "m"),
            memory_bytes: mega * MEGA,
            pods: pods.parse().unwrap_or(0),
            is_cordoned: node["spec"]["unschedulable"] == true,
            is_tainted: taints.any(|taint| taint["key"] == TAINT),
        }
    }
}
