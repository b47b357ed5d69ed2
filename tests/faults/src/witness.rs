//! One who sees what a scheduler is told and what it orders, and holds the one against the other.
//!
//! What the scheduler knows is kept here a second time, in a simpler form, so that a decision is
//! judged by what could be known when it was made and by nothing that came later.

mod batches;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use api::PodGroup;
use api::cpus::RESOURCE_STATUS;
use api::reservation::ALLOCATED;
use engine::fact::{Fact, PodRef, Uid};
use engine::ledger::PodRow;
use engine::plugins::volume_binding::Write;
use scheduler::bind::Outcome;
use scheduler::core::Core;
use scheduler::message::{
    Answer, BindOrder, HoldOrder, Message, Order, PrepareOrder, ReservationNews, TellOrder,
};
use scheduler::reservations::Step;
use scheduler::witness::Witness;
use serde_json::json;

use crate::held::{Held, Spare, overused, reduced, spares, use_of, used};
use crate::judge::{self, Judge};
use crate::rules::{Place, Resident, View, overfills};
use crate::shapes::{BATCH, Shape};
use crate::shares::{self, Share, Shares};
use batches::is_with_gang;

/// More turns than this without any time passing are turns in a circle.
const TURNS_MAX: usize = 20_000;

struct Known {
    name: String,
    node: Option<String>,
    shape: Shape,
    is_going: bool,
    is_gated: bool,
    /// The reservation that it says it uses; empty for none.
    uses: String,
}

/// Who had to go for gangs and quotas.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Chosen {
    /// For gangs, and for pods that are in none, since they are less important.
    pub for_gangs: u64,
    /// For others of their quota.
    pub in_quotas: u64,
    /// For other quotas, which had lent what they use.
    pub take_backs: u64,
    /// Since their quota used too much for too long.
    pub revokes: u64,
}

impl Chosen {
    /// Each kind, in words.
    pub fn named(&self) -> [(u64, &'static str); 4] {
        let Self { for_gangs, in_quotas, take_backs, revokes } = *self;
        [
            (for_gangs, "victims of gangs"),
            (in_quotas, "victims within quotas"),
            (take_backs, "victims whose quota had borrowed"),
            (revokes, "pods revoked"),
        ]
    }

    pub fn add(&mut self, other: &Self) {
        self.for_gangs += other.for_gangs;
        self.in_quotas += other.in_quotas;
        self.take_backs += other.take_backs;
        self.revokes += other.revokes;
    }
}

/// How a scheduler stood after its last turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rest {
    pub in_flight: usize,
    pub missed_wakes: u64,
    pub binds: u64,
    pub waits: u64,
    pub rooms: u64,
    pub prepared: u64,
    pub held: u64,
    pub inside: u64,
    /// Pods that get CPUs of their own.
    pub own_cpus: u64,
    pub adopted: u64,
    /// Members of gangs that get nodes.
    pub members: u64,
    /// How often a quota has no room.
    pub over_quota: u64,
    pub batch: Chosen,
    /// Pods that have a node as far as the engine knows, and are not bound.
    pub claims: usize,
}

#[derive(Default)]
struct Knowledge {
    places: BTreeMap<String, Place>,
    pods: BTreeMap<Uid, Known>,
    claims: BTreeMap<Uid, String>,
    /// Pods whose volumes are being made: a claim, and no Binding yet.
    prepared: BTreeSet<Uid>,
    /// Members of gangs that were refused or could not be prepared, and the nodes that they keep until they are
    /// tried again.
    kept: BTreeMap<Uid, String>,
    /// Pods of which it was said that somebody else has the last word.
    lost: BTreeSet<Uid>,
    /// Reservations, as they were told.
    held: BTreeMap<Uid, Held>,
    /// All that were ever told of, ended or not.
    reserved: BTreeSet<Uid>,
    /// Those that are to hold something on a node, and the pods that they take over there.
    holding: BTreeMap<Uid, (String, BTreeSet<Uid>)>,
    /// What pods with a claim use.
    inside: BTreeMap<Uid, String>,
    shares: Shares,
    /// Gangs that had a bound member.
    started: BTreeSet<String>,
    /// Who has to go for a pod or for gangs that start at once, by what was ordered since it was last told
    /// of anything.
    victims: BTreeMap<String, BTreeSet<Uid>>,
    /// Whether it is looked, after each turn, at what its engine has added up.
    is_audited: bool,
    /// What of that was not so after the last one.
    audit: Option<Result<(), String>>,
    rest: Rest,
    turns: usize,
}

impl Knowledge {
    /// A preparation in vain gives up the room. That is told to users, which may have to wait.
    fn forget_unprepared(&mut self, core: &Core) {
        let Self { prepared, claims, .. } = self;
        prepared.retain(|uid| {
            let row = core.engine().ledger().pod(uid);
            let is_held = row.is_some_and(|row| row.node().is_some());
            if !is_held {
                claims.remove(uid);
            }
            is_held
        });
    }
}

impl Knowledge {
    /// A pod is bound, and with it the gang has started that it is a member of.
    fn note_started(&mut self, uid: &Uid) {
        let shape = self.pods.get(uid).map(|known| &known.shape);
        if let Some(gang) = shape.and_then(|shape| shape.gang.as_ref()) {
            self.started.insert(gang.name.clone());
        }
    }

    /// A member of a gang is not bound, nor are its volumes made: it may keep its node and be tried again.
    fn keep(&mut self, uid: &Uid) {
        let gang = self.pods.get(uid).and_then(|known| known.shape.gang.as_ref());
        let node = self.claims.get(uid).filter(|_| gang.is_some());
        self.kept.extend(node.map(|node| (uid.clone(), node.clone())));
    }

    /// The node that a pod has, or is to have.
    fn node_of(&self, uid: &Uid) -> Option<&str> {
        let bound = self.pods.get(uid)?.node.as_ref();
        bound.or_else(|| self.claims.get(uid)).or_else(|| self.kept.get(uid)).map(|node| &**node)
    }

    /// A reservation is told of.
    fn reserved(&mut self, news: &ReservationNews) {
        let uid = Uid::new(&news.object.metadata.uid);
        self.reserved.insert(uid.clone());
        self.lost.remove(&uid);
        if matches!(news.fact, Fact::PodGone(_)) {
            self.held.remove(&uid);
            self.holding.remove(&uid);
            return;
        }
        let told = Held::read(&serde_json::to_value(&*news.object).unwrap_or_default());
        if !told.node.is_empty() {
            self.holding.entry(uid.clone()).and_modify(|own| own.0.clone_from(&told.node));
        }
        self.held.insert(uid, told);
    }

    /// What a pod uses: what it says, what it was given with a claim, or who takes it over.
    fn uses<'a>(&'a self, uid: &Uid, one: &'a Known) -> &'a str {
        // One that is gone is used by nobody, whatever its pods still say.
        if self.held.keys().any(|held| *held.0 == *one.uses) {
            return &one.uses;
        }
        let claimed = self.inside.get(uid).filter(|own| !own.is_empty());
        let adopts = self.holding.iter().find(|(_, (_, pods))| pods.contains(uid));
        claimed.map(|own| &**own).or_else(|| adopts.map(|(own, _)| &*own.0)).unwrap_or_default()
    }

    /// Pods with their nodes and what they use, and one more.
    fn users<'a>(&'a self, more: Option<(&Uid, &'a str)>) -> Vec<(&'a str, &'a str, &'a Shape)> {
        let all = self.pods.iter().filter_map(|(uid, one)| {
            let claimed = || self.claims.get(uid).map(|node| &**node);
            let coming = || more.filter(|(own, _)| *own == uid).map(|(_, node)| node);
            let node = one.node.as_deref().or_else(claimed).or_else(coming)?;
            Some((node, self.uses(uid, one), &one.shape))
        });
        all.collect()
    }

    /// What of nodes is held and used by no pod, but for what one holds.
    fn spares(&self, except: Option<&str>) -> BTreeMap<String, Spare> {
        let others = self.held.iter().filter(|(uid, _)| except != Some(&*uid.0));
        let held: Vec<Held> = others.map(|(uid, told)| self.placed(uid, told)).collect();
        spares(held.iter(), &self.users(None))
    }

    /// A reservation where it is, or is to be.
    fn placed(&self, uid: &Uid, told: &Held) -> Held {
        let decided = self.holding.get(uid).map(|(node, _)| node.clone());
        let node =
            if told.node.is_empty() { decided.unwrap_or_default() } else { told.node.clone() };
        Held { node, ..told.clone() }
    }

    /// What a pod that comes to a node uses too much of.
    fn overuses(&self, uid: &Uid, node: &str) -> Option<String> {
        let used = self.inside.get(uid).filter(|own| !own.is_empty())?;
        let Some((_, own)) = self.held.iter().find(|(own, _)| *own.0 == **used) else {
            return Some(format!("there is no reservation {used}"));
        };
        if own.node != node {
            return Some(format!("it uses {own:?}"));
        }
        let users = self.users(Some((uid, node)));
        let users = users.iter().filter(|(there, _, _)| *there == node);
        overused(own, use_of(used, users.map(|(_, used, shape)| (*used, *shape))))
    }
}

/// The witness of one scheduler.
pub struct Onlooker {
    who: usize,
    judge: Judge,
    knowledge: Mutex<Knowledge>,
}

impl Onlooker {
    pub fn new(who: usize, judge: &Judge) -> Self {
        Self { who, judge: judge.clone(), knowledge: Mutex::default() }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Knowledge) -> T) -> T {
        act(&mut self.knowledge.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn rest(&self) -> Rest {
        self.with(|own| own.rest)
    }

    /// From now on it is looked at what the engine has added up.
    pub fn audit(&self) {
        self.with(|own| own.is_audited = true);
    }

    /// What of that was not so when it was last looked at, if it ever was.
    pub fn audit_result(&self) -> Option<Result<(), String>> {
        self.with(|own| own.audit.clone())
    }

    /// Time passes.
    pub fn breathe(&self) {
        self.with(|own| own.turns = 0);
    }

    fn violated(&self, what: &str) {
        self.judge.log().violated(&format!("s{}: {what}", self.who));
    }

    fn answered(&self, own: &mut Knowledge, uid: &Uid, answer: &Answer) {
        self.judge.log().note(&format!("s{} hears {answer:?} of {}", self.who, name(own, uid)));
        if let Answer::Unprepared(_) = answer {
            own.keep(uid);
        }
        let Answer::Definite(outcome) = answer else { return };
        if own.reserved.contains(uid) {
            if *outcome == Outcome::Bound && !self.judge.was_held(&uid.0) {
                self.violated(&format!("{} holds nothing and is said to", uid.0));
            }
            if *outcome != Outcome::Bound {
                own.holding.remove(uid);
            }
            if matches!(outcome, Outcome::Gone | Outcome::Elsewhere(_)) {
                own.lost.insert(uid.clone());
            }
            return;
        }
        let node = own.claims.get(uid).cloned();
        self.judge.concluded(self.who, &uid.0, node.as_deref(), outcome);
        match outcome {
            Outcome::Bound => own.note_started(uid),
            Outcome::NotBound(_) => {
                own.keep(uid);
                own.claims.remove(uid);
                own.prepared.remove(uid);
            }
            Outcome::Gone | Outcome::Elsewhere(_) => {
                own.claims.remove(uid);
                own.prepared.remove(uid);
                own.lost.insert(uid.clone());
            }
        }
    }

    fn bound(&self, own: &mut Knowledge, order: &BindOrder) {
        let BindOrder { pod, node, .. } = order;
        self.judge.log().note(&format!("s{} decides {} to {node}", self.who, pod.name));
        self.judge.asked(self.who, &pod.uid.0);
        if let Some(held) = &order.held {
            own.rest.held += 1;
            own.rest.adopted += held.adopts.len() as u64;
            return self.holds(own, order, held);
        }
        own.rest.binds += 1;
        let uses = order.stamps.get(ALLOCATED).map(|text| used(&json!({ ALLOCATED: text })));
        own.rest.inside += u64::from(uses.is_some());
        let got = order.stamps.get(RESOURCE_STATUS);
        own.rest.own_cpus += u64::from(got.is_some_and(|text| text.contains("cpuset")));
        own.inside.insert(pod.uid.clone(), uses.unwrap_or_default());
        if own.prepared.remove(&pod.uid) {
            // It was decided when its volumes were; from then on nobody else may have its room.
            let claimed = own.claims.get(&pod.uid).map(|node| &**node);
            if claimed != Some(&**node) {
                self.violated(&format!("{} is prepared for {claimed:?}, not {node}", pod.name));
            }
            return;
        }
        self.decided(own, pod, node);
    }

    /// Volumes are made for a pod on a node, which is decided by that.
    fn prepared(&self, own: &mut Knowledge, core: &Core, order: &PrepareOrder) {
        let PrepareOrder { pod, writes, .. } = order;
        // Where another scheduler has chosen the node before, nothing is left to be written.
        let ledger = core.engine().ledger();
        let node = ledger.pod(&pod.uid).and_then(PodRow::node).map(|node| ledger.nodes.name(node));
        let Some(node) = node else {
            return self.violated(&format!("{} is prepared without a claim", pod.name));
        };
        self.judge.log().note(&format!("s{} prepares {} for {node}", self.who, pod.name));
        let is_meant = |write: &Write| match write {
            Write::SelectNode { claim, node: chosen, .. } => {
                **claim == *pod.name && **chosen == *node
            }
            // One that was made for it, of which the claim does not tell yet.
            Write::KeepVolume { claim, .. } => *claim.name == *pod.name,
        };
        if !writes.iter().all(is_meant) {
            self.violated(&format!("{} is prepared for {node} by {writes:?}", pod.name));
        }
        own.rest.prepared += 1;
        if own.prepared.remove(&pod.uid) {
            own.claims.remove(&pod.uid);
        }
        // What it uses is written with the Binding; until then only the scheduler knows.
        let is_user = |held: &&Uid| ledger.adopted(held).0.iter().any(|user| user.uid == pod.uid);
        let uses = own.held.keys().find(is_user).map(|held| held.0.to_string());
        own.inside.insert(pod.uid.clone(), uses.unwrap_or_default());
        self.decided(own, pod, node);
        own.prepared.insert(pod.uid.clone());
        self.held_back(own, core, &pod.uid);
    }

    /// Holds a decision against what was known when it was made.
    fn decided(&self, own: &mut Knowledge, pod: &PodRef, node: &str) {
        let Some(known) = own.pods.get(&pod.uid) else {
            return self.violated(&format!("{} is bound and nobody told of it", pod.name));
        };
        if known.node.is_some() || own.claims.contains_key(&pod.uid) {
            return self.violated(&format!("{} gets a node and has one", pod.name));
        }
        if known.is_gated {
            self.violated(&format!("{} gets a node and is held back by a gate", pod.name));
        }
        let residents = own.pods.iter().filter_map(|(uid, one)| {
            let node = one.node.as_ref().or_else(|| own.claims.get(uid))?;
            Some(Resident { shape: &one.shape, node, is_going: one.is_going })
        });
        let view = View {
            places: &own.places,
            residents: residents.collect(),
            // What the one holds that it uses is there for it, however much the node has.
            spares: own.spares(own.inside.get(&pod.uid).map(|own| &**own)),
        };
        if let Some(what) = own.overuses(&pod.uid, node) {
            self.violated(&format!("{} on {node}, as far as it knows: {what}", pod.name));
        }
        self.overdraws(own, pod, &known.shape);
        if let Some(why) = view.refuses(&known.shape, node) {
            let held = own.held.iter().map(|(uid, told)| own.placed(uid, told));
            let held: Vec<Held> = held.filter(|held| held.node == node).collect();
            let uses = own.inside.get(&pod.uid);
            let what = format!("{why}; it uses {uses:?} of {held:?}");
            self.violated(&format!("{} cannot be on {node} as far as it knows: {what}", pod.name));
        }
        let pods = own.pods.iter().filter_map(|(uid, one)| Some((&*uid.0, one.node.as_deref()?)));
        let knows = judge::Known { pods: pods.collect(), places: &own.places };
        self.judge.decided(self.who, (&pod.uid.0, &pod.name, node), &knows);
        own.claims.insert(pod.uid.clone(), node.to_owned());
        // Each refusal excuses one more decision.
        own.kept.remove(&pod.uid);
    }

    /// A reservation is to hold something on a node, as far as that is known to have it.
    fn holds(&self, own: &mut Knowledge, order: &BindOrder, held: &HoldOrder) {
        let BindOrder { pod, node, .. } = order;
        let Some(plan) = own.held.get(&pod.uid).cloned() else {
            return self.violated(&format!("{} is placed and nobody told of it", pod.name));
        };
        let adopts = held.adopts.iter().map(|pod| pod.uid.clone()).collect();
        own.holding.insert(pod.uid.clone(), (node.to_string(), adopts));
        let Some(place) = own.places.get(&**node) else {
            return self.violated(&format!("{} is placed where no node is", pod.name));
        };
        let adopts = held.adopts.iter().map(|pod| &*pod.uid.0);
        self.judge.is_to_hold(self.who, &pod.uid.0, (node, place), adopts);
        let spare = own.spares(None).get(&**node).copied().unwrap_or_default();
        let there = own.pods.iter().filter(|(uid, one)| {
            one.node.as_ref().or_else(|| own.claims.get(*uid)).is_some_and(|own| **own == **node)
        });
        let there: Vec<&Shape> = there.map(|(_, one)| &one.shape).collect();
        if let Some(what) = overfills(&reduced(place, spare), &there) {
            let what = format!("{plan:?} is too much for {node} as far as it knows: {what}");
            self.violated(&what);
        }
        if place.is_cordoned || place.is_tainted {
            self.violated(&format!("{} cannot be on {node}, which is closed", pod.name));
        }
    }

    fn waits(&self, own: &mut Knowledge, order: &TellOrder) {
        own.rest.waits += 1;
        own.rest.over_quota += u64::from(order.message.contains("Insufficient quotas"));
        let TellOrder { pod, message, room, condition, .. } = order;
        // Volumes that cannot be made give up the room.
        if own.prepared.remove(&pod.uid) {
            own.claims.remove(&pod.uid);
        }
        if condition.is_some() || room.is_some() {
            self.judge.log().note(&format!("s{}: {} waits: {message}", self.who, pod.name));
        }
        let Some(room) = room else { return };
        own.rest.rooms += 1;
        for victim in &room.victims {
            self.judge.sent_away(&victim.uid.0);
        }
        let asker = own.pods.get(&pod.uid).map(|pod| pod.shape.clone());
        if let Some(asker) = asker.as_ref().filter(|asker| asker.scheduler == BATCH) {
            return self.makes_room(own, &pod.name, asker, room);
        }
        let held = own.held.get(&pod.uid).map(|held| held.priority);
        let Some(priority) = asker.map(|asker| asker.priority).or(held) else { return };
        for victim in &room.victims {
            let Some(known) = own.pods.get(&victim.uid) else {
                self.violated(&format!("{} has to go and nobody told of it", victim.name));
                continue;
            };
            let node = own.node_of(&victim.uid);
            if known.shape.priority >= priority || node != Some(&*room.node) {
                self.violated(&format!("{} must not go for {}", victim.name, pod.name));
            }
        }
    }
}

fn name<'a>(own: &'a Knowledge, uid: &'a Uid) -> &'a str {
    own.pods.get(uid).map_or(&*uid.0, |pod| &*pod.name)
}

/// Whether a scheduler has written on a group that members of it were bound, whoever of them is there now.
fn says_started(group: &PodGroup) -> bool {
    let has_ended = group.status.succeeded + group.status.failed > 0;
    group.status.conditions.iter().any(|own| match (&*own.r#type, &*own.reason) {
        ("Scheduled", "MembersLeft") | ("Started", "Whole") => true,
        ("Scheduled", "Placed") => has_ended,
        _ => false,
    })
}

impl Witness for Onlooker {
    fn told(&self, _: &Core, message: &Message) {
        self.with(|own| own.victims.clear());
        self.with(|own| match message {
            Message::Fact(Fact::Node(node)) => {
                own.places.insert(node.name.to_string(), Place::of(node));
            }
            Message::Fact(Fact::NodeGone(name)) => drop(own.places.remove(&**name)),
            Message::Fact(Fact::PodGone(uid)) => {
                own.pods.remove(uid);
                own.claims.remove(uid);
                own.prepared.remove(uid);
                own.lost.remove(uid);
                own.held.remove(uid);
                own.holding.remove(uid);
                own.inside.remove(uid);
            }
            Message::Group(group) if says_started(group) => {
                own.started.insert(group.metadata.name.clone());
            }
            Message::Reservation(news) => own.reserved(news),
            Message::Pod(news) => {
                let fact = &news.fact;
                let Some(shape) = self.judge.shape(&fact.name) else { return };
                own.lost.remove(&fact.uid);
                let (name, is_going) = (fact.name.to_string(), fact.deleting);
                let node = fact.node.as_ref().map(ToString::to_string);
                if node.is_some() {
                    own.prepared.remove(&fact.uid);
                }
                let is_gated = !fact.gates.is_empty();
                let told = fact.allotment.as_ref().and_then(|own| own.reservation.as_ref());
                let uses = told.map(|own| own.uid.0.to_string()).unwrap_or_default();
                let is_bound = node.is_some();
                let known = Known { name, node, shape, is_going, is_gated, uses };
                own.pods.insert(fact.uid.clone(), known);
                if is_bound {
                    own.note_started(&fact.uid);
                }
            }
            Message::Quota(quota) if shares::is_ours(&quota.metadata.name) => {
                let share = Share::read(&serde_json::to_value(&**quota).unwrap_or_default());
                own.shares.insert(share.name.clone(), share);
            }
            Message::QuotaGone(key) => drop(own.shares.remove(key.name())),
            Message::Answered(errand, answer) => self.answered(own, &errand.uid, answer),
            _ => {}
        });
    }

    fn ordered(&self, core: &Core, order: &Order) {
        self.with(|own| {
            own.forget_unprepared(core);
            match order {
                Order::Bind(order) => {
                    self.starts(own, core, &order.pod);
                    self.bound(own, order);
                }
                Order::Tell(order) => self.waits(own, order),
                Order::Prepare(order) => self.prepared(own, core, order),
                Order::Consult(order) => {
                    let name = &order.pod.name;
                    self.violated(&format!("there are no extenders to ask about {name}"));
                }
                Order::Complain(what) => self.violated(&format!("cannot read {}", what.key)),
                Order::Live(order) => {
                    if !own.reserved.contains(&order.uid) {
                        self.violated(&format!("there is no reservation {}", order.name));
                    }
                    let step = match &order.step {
                        Step::Status { patch, .. } | Step::Resize { patch, .. } => {
                            patch["status"]["phase"].to_string()
                        }
                        step => format!("{step:?}"),
                    };
                    let what = format!("s{}: {} becomes {step}", self.who, order.name);
                    self.judge.log().note(&what);
                }
                Order::Report(order) => {
                    self.judge.log().note(&format!("s{}: {order:?}", self.who));
                }
                Order::Group(order) => {
                    self.judge.log().note(&format!("s{}: group {}", self.who, order.key));
                }
                Order::Dismiss(order) => self.revokes(own, order),
                Order::Quota(order) => {
                    self.judge.log().note(&format!("s{}: quota {}", self.who, order.key));
                }
            }
        });
    }

    fn turned(&self, core: &Core) {
        self.with(|own| {
            own.turns += 1;
            assert!(own.turns < TURNS_MAX, "s{} turns in a circle", self.who);
            own.rest.in_flight = core.in_flight().count();
            own.rest.missed_wakes = core.engine().queue().missed_wakes();
            let (ledger, queue) = (core.engine().ledger(), core.engine().queue());
            let rows = own.pods.keys().filter_map(|uid| ledger.pod(uid));
            own.kept.retain(|uid, _| ledger.pod(uid).is_some_and(PodRow::is_placed));
            own.rest.claims = rows.filter(|row| row.node().is_some() && !row.is_bound()).count();
            self.holds_whole(own, core);
            if own.is_audited {
                own.audit = Some(self.audited(own, core));
            }
            // That a preparation is in vain is known a little before it is told.
            for uid in core.in_flight().filter(|uid| !own.prepared.contains(*uid)) {
                let row = ledger.pod(uid);
                if row.is_some_and(|row| !row.is_placed()) {
                    self.violated(&format!("{} is in flight without a claim", name(own, uid)));
                }
            }
            for uid in core.nodeless() {
                let is_held =
                    ledger.pod(uid).is_some_and(|row| row.is_deleting() || row.node().is_some());
                let is_lined_up = queue.standing(uid).is_some() || is_with_gang(own, core, uid);
                if !is_held && !is_lined_up && !own.lost.contains(uid) {
                    self.violated(&format!("{} is nowhere", name(own, uid)));
                }
            }
        });
    }
}
