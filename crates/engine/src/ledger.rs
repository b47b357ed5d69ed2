//! The ledger: what the facts add up to.
//!
//! [`Ledger::apply`] and the claims are the only ways in which it changes. Nodes and pods are rows
//! of tables, what pods ask for is kept once for all pods that ask the same, and whatever is
//! derived from a node can be repaired from the list of nodes that changed.

mod astray;
mod balance;
mod budgets;
mod changes;
mod cpus;
mod crowds;
mod gangs;
mod loads;
mod nodes;
mod owners;
mod passing;
mod pods_by_name;
mod quotas;
mod reservations;
mod residents;
mod resources;
mod row;
mod storage;
mod symbols;
mod tally;
mod terms;
mod topology;

use std::collections::BTreeMap;
use std::hash::Hasher;

use api::OwnerReference;
use rustc_hash::{FxHashMap, FxHashSet};

pub use balance::{Balance, Share};
pub use budgets::Budgets;
pub use changes::{Changes, Position};
pub use cpus::{Cpus, NodeCpus, ZoneUse};
pub use crowds::{Crowd, CrowdId, Crowds, Identity, Joined, Want, Wanting};
pub use gangs::Gangs;
pub(crate) use gangs::Leaves;
pub use loads::{
    Book, Estimate, EstimateSettings, LoadAccount, LoadRooms, Loads, Overload, ScoreSettings,
    Settings as LoadSettings, Stale, View as LoadView,
};
pub use nodes::{NodeId, NodeIndex, Nodes, forbids};
pub use owners::Owners;
pub use passing::{Passing, Way};
pub use pods_by_name::PodsByName;
pub use quotas::{Belonging, Charged, QuotaHolder, QuotaHolders, Quotas};
pub(crate) use quotas::{Borrower, Pledge};
pub use reservations::{
    Adoption, Guests, Holding, Reservation, ReservationIndex, Reservations, Used as ReservationUse,
};
pub use residents::{Resident, Residents};
pub use resources::{Column, EXACT_BITS, ResourceIndex, Resources, SAFE_BITS};
pub(crate) use row::Departure;
pub use row::PodRow;
pub use storage::{Promises, Storage};
pub use symbols::{Symbol, Symbols};
pub use tally::{Entry, Tally};
pub use terms::{Affinity, SpreadRule, Term, Terms};
pub use topology::{Topologies, Topology, TopologyKey};

use crate::fact::{Allotment, Fact, PodFact, Uid, Visitor};
use crate::needs::{
    Clause, CpuNeeds, Hint, Images, LoadNeeds, Makers, Needs, NodeAffinity, Owner, PodAffinity,
    PodSelector, Ports, Requests, ReservationNeeds, Spread, Tolerations, Volumes,
};
use crate::nominations::{Nomination, Nominators};
use crate::pool::{Id, Pool};

/// What a pod asks for, by the numbers of its parts.
///
/// Plugins read nothing else of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ask {
    /// What it requests.
    pub requests: Id<Requests>,
    /// What it takes once it is there.
    pub taken: Id<Requests>,
    /// Ports of the node.
    pub ports: Id<Ports>,
    /// Taints it puts up with.
    pub tolerations: Id<Tolerations>,
    /// Which nodes it must and would rather run on.
    pub node_affinity: Id<NodeAffinity>,
    /// Images of its containers.
    pub images: Id<Images>,
    /// Which pods it must or would rather be near to or away from.
    pub pod_affinity: Id<PodAffinity>,
    /// How it and its like are spread.
    pub spread: Id<Spread>,
    /// Its namespace and labels, as terms of other pods see them.
    pub identity: Id<Identity>,
    /// The pods that are like it, where it does not say itself how it is spread.
    pub like: Option<CrowdId>,
    /// Volumes that its place depends on, where it has any.
    pub volumes: Option<Id<Volumes>>,
    /// What its load is estimated by, where that does not follow from its requests.
    pub load: Option<Id<LoadNeeds>>,
    /// What it wants of CPUs and NUMA nodes, where it wants anything.
    pub cpus: Option<Id<CpuNeeds>>,
    /// Nodes that were chosen for it before.
    pub hint: Option<Id<Hint>>,
    /// What it wants of reservations, where it wants anything.
    pub reservation: Option<Id<ReservationNeeds>>,
    /// Reservations that are for it.
    pub guests: Option<Id<Guests>>,
    /// Whether it claims devices and the like.
    pub resource_claims: bool,
    /// How many terms it has about other pods, where these are too many.
    pub too_many_terms: Option<u32>,
}

impl Ask {
    /// The same without whose it is: what of that counts is hashed by [`Ledger::hash_alike`].
    #[must_use]
    pub fn anonymous(self) -> Self {
        Self { identity: Id::at(0), ..self }
    }
}

/// The parts of asks, each kept once.
#[derive(Clone, Default)]
pub struct Asks {
    /// What pods request.
    pub requests: Pool<Requests>,
    /// Ports of nodes.
    pub ports: Pool<Ports>,
    /// Taints that are put up with.
    pub tolerations: Pool<Tolerations>,
    /// Which nodes pods must and would rather run on.
    pub node_affinity: Pool<NodeAffinity>,
    /// Images of containers.
    pub images: Pool<Images>,
    /// Volumes of pods.
    pub volumes: Pool<Volumes>,
    /// What the loads of pods are estimated by.
    pub loads: Pool<LoadNeeds>,
    /// What pods want of CPUs and NUMA nodes.
    pub cpus: Pool<CpuNeeds>,
    /// What they got besides amounts.
    pub allotments: Pool<Allotment>,
    /// Nodes that were chosen for pods before.
    pub hints: Pool<Hint>,
    /// What pods want of reservations.
    pub reservations: Pool<ReservationNeeds>,
    /// Reservations that are for pods.
    pub guests: Pool<Guests>,
    /// Who made pods that have nodes, where pods use reservations.
    pub makers: Pool<Makers>,
}

impl Asks {
    /// Whether nobody holds anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
            && self.ports.is_empty()
            && self.tolerations.is_empty()
            && self.node_affinity.is_empty()
            && self.images.is_empty()
            && self.volumes.is_empty()
            && self.loads.is_empty()
            && self.cpus.is_empty()
            && self.allotments.is_empty()
            && self.hints.is_empty()
            && self.reservations.is_empty()
            && self.guests.is_empty()
            && self.makers.is_empty()
    }
}

/// What the facts add up to.
#[derive(Clone, Default)]
pub struct Ledger {
    /// The nodes.
    pub nodes: Nodes,
    /// What pods ask for.
    pub asks: Asks,
    /// What pods want of each other.
    pub terms: Terms,
    /// Services and controllers.
    pub owners: Owners,
    /// Volumes, claims and who uses them.
    pub storage: Storage,
    /// How much of nodes is really in use.
    pub loads: Loads,
    /// Which CPUs are whose.
    pub cpus: Cpus,
    /// What is held for pods that are still to come.
    pub reservations: Reservations,
    /// What pods ask of quotas and use of them.
    pub quotas: Quotas,
    /// Which pods start together.
    pub gangs: Gangs,
    /// Texts of labels and namespaces.
    pub symbols: Symbols,
    /// Who is where.
    pub residents: Residents,
    /// Who must not be one too many.
    pub budgets: Budgets,
    /// Nodes on which room is being made for pods.
    pub nominations: PodsByName,
    /// By whom it is made where that counts.
    pub(crate) nominators: Nominators,
    /// A table has room for twice as many as come and go: rows have places of their own.
    pub(crate) pods: FxHashMap<Uid, Box<PodRow>>,
    /// Pods that may have a claim: all that have one are among them.
    claimed: FxHashSet<Uid>,
    /// Pods that are bound to nodes which are not there, by the names of these.
    astray: PodsByName,
}

/// Why a claim cannot be made or ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    /// There is no such pod.
    #[error("there is no pod with uid {}", .0.0)]
    NoPod(Uid),
    /// The pod has a node already.
    #[error("pod with uid {} has a node already", .0.0)]
    Placed(Uid),
}

impl Ledger {
    /// Takes a fact in.
    pub fn apply(&mut self, fact: Fact) {
        match fact {
            Fact::Node(fact) => {
                self.settle_capacity(&fact.name, Some(&fact));
                let is_new = (self.nodes.find(&fact.name))
                    .is_none_or(|node| !self.nodes.present().contains(node));
                let node = self.nodes.put(&fact, &mut self.symbols);
                self.terms.topologies.follow(node, &self.nodes, &self.symbols);
                self.settle_cpus(node);
                self.place_report(node);
                self.settle_astray(&fact.name);
                self.settle_load(node);
                if is_new {
                    self.loads.welcome(node);
                }
            }
            Fact::NodeGone(name) => {
                self.settle_capacity(&name, None);
                if let Some(node) = self.nodes.remove(&name, &mut self.symbols) {
                    self.terms.topologies.follow(node, &self.nodes, &self.symbols);
                    self.settle_cpus(node);
                    self.place_report(node);
                    self.settle_load(node);
                }
            }
            Fact::Namespace { name, labels } => {
                self.terms.crowds.put_namespace(&name, Some(&labels), &mut self.symbols);
            }
            Fact::NamespaceGone(name) => {
                self.terms.crowds.put_namespace(&name, None, &mut self.symbols);
            }
            Fact::Owner { namespace, owner, selector } => {
                self.owners.put(&namespace, owner, selector);
            }
            Fact::Storage(fact) => self.storage.apply(fact),
            Fact::Load { node, report } => self.put_report(node, report),
            Fact::Layout { node, layout } => self.put_layout(node, layout),
            Fact::Pod(mut pod) => {
                let rules = pod.holds.take().filter(|_| self.reservations.are_kept());
                let index = rules.map(|rules| self.put_rules(&pod.uid, rules));
                self.put_pod(*pod, index, false);
            }
            Fact::Reservation(own) => {
                let (uid, index) = (own.pod.uid.clone(), self.put_rules(&own.pod.uid, own.rules));
                self.put_pod(own.pod, Some(index), true);
                // Where it is bound now that was only decided on, pods may use it.
                if let Some(node) = self.pod(&uid).and_then(PodRow::node) {
                    let places = self.nodes.places();
                    self.nodes.load_changed.note(node, places);
                }
            }
            Fact::PodGone(uid) => self.remove_pod(&uid),
            Fact::PodFailed(uid) => {
                self.lose_member(&uid);
                self.remove_pod(&uid);
            }
            Fact::Budget { namespace, name, budget } => self.budgets.put(namespace, name, budget),
            Fact::Gang { id, terms, has_started } => self.put_gang(&id, terms, has_started),
            Fact::Quota(fact) => self.put_quota(*fact),
            Fact::QuotaGone { namespace, name } => self.remove_quota(&namespace, &name),
        }
    }

    /// The ask of a pod of this namespace, labels and needs, held once more.
    pub fn hold(
        &mut self,
        namespace: &str,
        labels: &BTreeMap<Box<str>, Box<str>>,
        needs: &Needs,
    ) -> Ask {
        let Needs { requests, taken, ports, tolerations, node_affinity, images, .. } = needs;
        let spreads_itself = !needs.spread.0.is_empty();
        let like =
            if spreads_itself { None } else { self.like(namespace, labels, needs.owner.as_ref()) };
        let (asks, symbols) = (&mut self.asks, &mut self.symbols);
        let volumes = Some(&needs.volumes).filter(|own| !own.volumes.is_empty());
        // Pods that differ in nothing else are alike where nobody looks at loads.
        let load = needs.load.as_ref().filter(|_| self.loads.are_kept());
        let cpus = needs.cpus.as_ref().filter(|_| self.cpus.are_kept());
        Ask {
            requests: asks.requests.hold_as(requests, || requests.clone()),
            taken: asks.requests.hold_as(taken, || taken.clone()),
            ports: asks.ports.hold_as(ports, || ports.clone()),
            tolerations: asks.tolerations.hold_as(tolerations, || tolerations.clone()),
            node_affinity: asks.node_affinity.hold_as(node_affinity, || node_affinity.clone()),
            images: asks.images.hold_as(images, || images.clone()),
            pod_affinity: self.terms.hold_affinity(&needs.pod_affinity, &self.nodes, symbols),
            spread: self.terms.hold_spread(&needs.spread, &self.nodes, symbols),
            identity: self.terms.crowds.hold_identity(namespace, labels, symbols),
            like: like.map(|like| self.terms.crowds.hold(&like, symbols)),
            volumes: volumes.map(|own| asks.volumes.hold_as(own, || own.clone())),
            load: load.map(|own| asks.loads.hold_as(own, || own.clone())),
            cpus: cpus.map(|own| asks.cpus.hold_as(own, || own.clone())),
            hint: needs.hint.as_ref().map(|own| asks.hints.hold_as(own, || own.clone())),
            reservation: (needs.reservation.as_ref())
                .map(|own| asks.reservations.hold_as(own, || own.clone())),
            guests: None,
            resource_claims: needs.resource_claims,
            too_many_terms: needs.too_many_terms,
        }
    }

    /// The ask of a pod that needs this, with the reservations that are for it, held once more.
    pub fn hold_for(&mut self, pod: &PodFact, needs: &Needs) -> Ask {
        let PodFact { uid, namespace, name, labels, owners, .. } = pod;
        let ask = self.hold(namespace, labels, needs);
        let visitor = Visitor { uid, namespace, name, labels, owners };
        let waits = pod.node.is_none();
        let guests = if waits { self.guests_of(ask.identity, visitor) } else { None };
        Ask { guests, ..ask }
    }

    /// The pods that are like one of this namespace, labels and controller, as services and
    /// controllers say now.
    fn like(
        &self,
        namespace: &str,
        labels: &BTreeMap<Box<str>, Box<str>>,
        owner: Option<&Owner>,
    ) -> Option<PodSelector> {
        let like = self.owners.like(namespace, labels, owner)?;
        Some(PodSelector::one(Clause::within(namespace, like)))
    }

    /// Finds out anew which pods are like one with these labels and this controller: services and
    /// controllers may become known after their pods.
    pub fn liken(
        &mut self,
        uid: &Uid,
        labels: &BTreeMap<Box<str>, Box<str>>,
        owner: Option<&Owner>,
    ) {
        let Some(row) = self.pods.get(uid) else { return };
        if !self.terms.spread(row.ask.spread).is_empty() {
            return;
        }
        let like = self.like(&row.namespace, labels, owner);
        let like = like.map(|like| self.terms.crowds.hold(&like, &mut self.symbols));
        let Some(row) = self.pods.get_mut(uid) else { return };
        if let Some(old) = std::mem::replace(&mut row.ask.like, like) {
            self.terms.crowds.release(old, &mut self.symbols);
        }
    }

    /// Ends one hold.
    pub fn release(&mut self, ask: Ask) {
        let (asks, symbols) = (&mut self.asks, &mut self.symbols);
        asks.requests.release(ask.requests);
        asks.requests.release(ask.taken);
        asks.ports.release(ask.ports);
        asks.tolerations.release(ask.tolerations);
        asks.node_affinity.release(ask.node_affinity);
        asks.images.release(ask.images);
        self.terms.release_affinity(ask.pod_affinity, symbols);
        self.terms.release_spread(ask.spread, symbols);
        self.terms.crowds.release_identity(ask.identity, symbols);
        if let Some(like) = ask.like {
            self.terms.crowds.release(like, symbols);
        }
        if let Some(volumes) = ask.volumes {
            asks.volumes.release(volumes);
        }
        if let Some(load) = ask.load {
            asks.loads.release(load);
        }
        if let Some(cpus) = ask.cpus {
            asks.cpus.release(cpus);
        }
        if let Some(hint) = ask.hint {
            asks.hints.release(hint);
        }
        if let Some(reservation) = ask.reservation {
            asks.reservations.release(reservation);
        }
        if let Some(guests) = ask.guests {
            asks.guests.release(guests);
        }
    }

    /// Finds out anew which reservations are for a pod that has no node, and says whether these are
    /// others.
    pub fn invite(
        &mut self,
        uid: &Uid,
        labels: &BTreeMap<Box<str>, Box<str>>,
        owners: &[OwnerReference],
    ) -> bool {
        let Some(row) = self.pods.get(uid).filter(|row| !row.is_reservation()) else {
            return false;
        };
        let (namespace, name) = (&*row.namespace.clone(), &*row.name.clone());
        let identity = row.ask.identity;
        let guests = self.guests_of(identity, Visitor { uid, namespace, name, labels, owners });
        let Some(row) = self.pods.get_mut(uid) else { return false };
        let old = std::mem::replace(&mut row.ask.guests, guests);
        if let Some(old) = old {
            self.asks.guests.release(old);
        }
        old != guests
    }

    /// What of whose an ask is counts for its answers, as long as nobody comes to care for more.
    pub fn hash_alike(&self, ask: Ask, state: &mut impl Hasher) {
        self.terms.crowds.hash_alike(ask.identity, state);
    }

    /// A pod.
    #[must_use]
    pub fn pod(&self, uid: &Uid) -> Option<&PodRow> {
        self.pods.get(uid).map(|row| &**row)
    }

    /// Every pod, in no order.
    pub fn pods(&self) -> impl Iterator<Item = (&Uid, &PodRow)> {
        self.pods.iter().map(|(uid, row)| (uid, &**row))
    }

    /// A copy for questions about nodes. It has every node with all that pods take of it and want
    /// of each other, but of single pods only those that a node is claimed or kept for, and
    /// these: who could make room for others cannot be asked of it.
    #[must_use]
    pub fn snapshot<'a>(&'a self, uids: impl IntoIterator<Item = &'a Uid>) -> Self {
        let kept = self.claimed.iter().chain(self.nominations.pods()).chain(uids);
        let kept = kept.chain(self.reservations.uids());
        let kept = kept.filter_map(|uid| Some((uid.clone(), self.pods.get(uid)?.clone())));
        Self {
            nodes: self.nodes.clone(),
            asks: self.asks.clone(),
            terms: self.terms.clone(),
            owners: self.owners.clone(),
            storage: self.storage.clone(),
            loads: self.loads.clone(),
            cpus: self.cpus.clone(),
            reservations: self.reservations.clone(),
            quotas: self.quotas.snapshot(),
            gangs: self.gangs.clone(),
            symbols: self.symbols.clone(),
            residents: Residents::default(),
            budgets: Budgets::default(),
            nominations: self.nominations.clone(),
            nominators: self.nominators.clone(),
            pods: kept.collect(),
            claimed: self.claimed.clone(),
            astray: PodsByName::default(),
        }
    }

    /// What a pod got besides amounts.
    #[must_use]
    pub fn allotment(&self, row: &PodRow) -> Option<&Allotment> {
        row.allotment.map(|id| self.asks.allotments.get(id))
    }

    /// How many pods there are.
    #[must_use]
    pub fn pod_count(&self) -> usize {
        self.pods.len()
    }

    /// Charges a node for a pod that we decided to bind to it, and gives it these CPUs there.
    ///
    /// # Errors
    /// When the pod is gone or has a node.
    pub fn claim(
        &mut self,
        uid: &Uid,
        node: NodeIndex,
        allotment: Option<&Allotment>,
    ) -> Result<(), ClaimError> {
        let row = self.pods.get_mut(uid).ok_or_else(|| ClaimError::NoPod(uid.clone()))?;
        if row.is_placed() {
            return Err(ClaimError::Placed(uid.clone()));
        }
        row.claim = Some(node);
        let allotments = &mut self.asks.allotments;
        row.allotment = allotment.map(|own| allotments.hold_as(own, || own.clone()));
        self.gangs.follow(uid, row);
        self.claimed.insert(uid.clone());
        let (pod, charged, user) = (row.passing(), row.charged(), row.user());
        self.move_in(node, uid, pod, user.priority);
        self.shift_quota(uid, charged, user, Way::In);
        Ok(())
    }

    /// Ends a claim, because the API server said for sure that the pod is not bound.
    ///
    /// # Errors
    /// When the pod is gone; then so is its claim.
    pub fn disclaim(&mut self, uid: &Uid) -> Result<(), ClaimError> {
        if let Some(index) = self.take_back_claim(uid)? {
            self.end_adoptions(index);
        }
        if let Some(row) = self.pods.get_mut(uid) {
            row.stays_without_node();
            self.gangs.follow(uid, row);
        }
        Ok(())
    }

    /// Ends a claim, and says which reservation it is that is on no node by that.
    ///
    /// # Errors
    /// When the pod is gone.
    pub(crate) fn take_back_claim(
        &mut self,
        uid: &Uid,
    ) -> Result<Option<ReservationIndex>, ClaimError> {
        let row = self.pods.get_mut(uid).ok_or_else(|| ClaimError::NoPod(uid.clone()))?;
        let (claim, pod, user) = (row.claim.take(), row.passing(), row.user());
        self.gangs.follow(uid, row);
        let charged = row.charged();
        self.claimed.remove(uid);
        let Some(node) = claim.filter(|_| row.bound.is_none()) else { return Ok(None) };
        row.allotment = None;
        self.move_out(node, uid, pod, user.priority);
        self.shift_quota(uid, charged, user, Way::Out);
        self.release_allotment(pod.allotment);
        Ok(pod.reservation)
    }

    /// A claim that was put aside is there again.
    pub(crate) fn remember_claim(&mut self, uid: &Uid) {
        self.claimed.insert(uid.clone());
    }

    fn put_pod(&mut self, fact: PodFact, reservation: Option<ReservationIndex>, is_object: bool) {
        let ask = match reservation {
            None => self.hold_for(&fact, &fact.needs),
            Some(_) => self.hold(&fact.namespace, &fact.labels, &fact.needs),
        };
        let (allotment, adoption) = self.heed_adoption(&fact);
        let makers = self.hold_makers(&fact);
        let belonging = self.hold_belonging(&fact, is_object);
        let bound = fact.node.as_deref().and_then(|name| self.nodes.find(name));
        let astray = fact.node.as_ref().filter(|_| bound.is_none());
        let old = self.pods.get(&fact.uid).map(|row| &**row);
        // An event that shows the pod unbound never ends a claim; one that shows it bound does.
        let claim = old.and_then(|old| old.claim).filter(|_| fact.node.is_none());
        // Who has no node has nothing that others could want.
        let is_placed = fact.node.is_some() || claim.is_some();
        let departure = Departure::told(&fact, old.filter(|_| is_placed));
        let lost = old.and_then(|old| old.astray.as_deref());
        self.astray.follow(&fact.uid, lost, astray.map(|name| &**name));
        if fact.node.is_some() && old.is_some_and(|old| old.claim.is_some()) {
            self.claimed.remove(&fact.uid);
        }
        let nomination = Nomination::told(old.map(|old| &old.nomination), fact.nominated);
        self.nominations.follow(&fact.uid, old.and_then(PodRow::nominated), nomination.node());
        let load_times = self.kept_times(fact.load_times);
        // What was given with a claim is the pod's for as long as the claim is.
        let allotment = match (claim, allotment) {
            (Some(_), _) => {
                let own = self.pods.get(&fact.uid).and_then(|old| old.allotment);
                own.inspect(|own| self.asks.allotments.hold_again(*own))
            }
            (None, told) => self.hold_allotment(told),
        };
        let row = PodRow {
            namespace: fact.namespace,
            name: fact.name,
            priority: fact.priority,
            departure,
            is_spared: fact.is_spared,
            gated: !fact.gates.is_empty(),
            may_preempt: fact.may_preempt,
            started: fact.started,
            load_times,
            ask,
            allotment,
            reservation,
            is_object,
            makers,
            adoption,
            belonging,
            preemptible: fact.preemptible,
            gang: fact.gang.filter(|_| !is_object),
            rest: fact.rest,
            nomination,
            is_anothers: self.nominators.are_others(&fact.scheduler),
            bound,
            astray: astray.cloned(),
            claim,
        };
        self.put_row(fact.uid, row);
    }

    /// A pod is now this: whatever follows from where it is and what it takes there does so anew.
    fn put_row(&mut self, uid: Uid, row: PodRow) {
        let (is, pod, priority) = (row.node(), row.passing(), row.priority);
        let is_bound = row.is_bound();
        self.settle_quota(&uid, Some(&row));
        self.settle_gang(&uid, Some(&row));
        let old = self.pods.insert(uid.clone(), Box::new(row));
        if old.as_ref().is_some_and(|old| old.is_bound() != is_bound) {
            self.touch(pod);
        }
        let was = old.as_ref().and_then(|old| old.node());
        let lived = was.zip(old.as_ref().map(|old| old.priority));
        if lived != is.map(|node| (node, priority)) {
            if let Some((node, priority)) = lived {
                self.residents.leave(node, priority, &uid);
            }
            if let Some(node) = is {
                self.residents.arrive(node, priority, &uid);
            }
        }
        let same = was == is && old.as_ref().is_none_or(|old| old.passing().takes_as(pod));
        if !same {
            // The place of a node is not given up in between.
            if let Some(node) = is {
                self.nodes.pin(node);
            }
            if let Some((node, old)) = was.zip(old.as_ref()) {
                self.vacate(node, old.passing());
            }
            if let Some(node) = is {
                self.occupy(node, pod);
                self.nodes.unpin(node);
            }
        }
        // That a pod is seen where it was expected mostly changes no load.
        let is_settled = same
            && is.zip(old.as_ref()).is_some_and(|(node, old)| self.keeps_load(node, &uid, old));
        if let Some(old) = old {
            self.release(old.ask);
            self.release_allotment(old.allotment);
            self.release_makers(old.makers);
            self.release_belonging(old.belonging);
            if let Some(index) = old.reservation.filter(|_| pod.reservation.is_none()) {
                self.remove_rules(index);
            }
        }
        let moved = [is, was.filter(|_| was != is)].into_iter().flatten();
        for node in moved.filter(|_| !is_settled) {
            self.settle_load(node);
        }
    }

    fn remove_pod(&mut self, uid: &Uid) {
        self.settle_quota(uid, None);
        self.settle_gang(uid, None);
        let Some(row) = self.pods.remove(uid) else { return };
        if row.claim.is_some() {
            self.claimed.remove(uid);
        }
        if let Some(node) = row.node() {
            self.move_out(node, uid, row.passing(), row.priority);
        }
        self.astray.follow(uid, row.astray.as_deref(), None);
        self.nominations.follow(uid, row.nominated(), None);
        self.release(row.ask);
        self.release_allotment(row.allotment);
        self.release_makers(row.makers);
        self.release_belonging(row.belonging);
        if let Some(adoption) = &row.adoption {
            self.forget_adoption(adoption, uid);
        }
        if let Some(index) = row.reservation {
            self.end_adoptions(index);
            self.remove_rules(index);
        }
    }

    /// Who made a pod that has a node: whoever takes it over may want to know.
    fn hold_makers(&mut self, fact: &PodFact) -> Option<Id<Makers>> {
        let is_kept = self.reservations.are_kept() && fact.node.is_some();
        let owners = Some(&fact.owners).filter(|owners| is_kept && !owners.is_empty())?;
        Some(self.asks.makers.hold(Makers(owners.clone())).0)
    }

    fn release_makers(&mut self, makers: Option<Id<Makers>>) {
        if let Some(id) = makers {
            self.asks.makers.release(id);
        }
    }

    /// What a pod says that it got, as far as anybody gives that away.
    pub(crate) fn kept_allotment(&self, told: Allotment) -> Option<Allotment> {
        let kept = match self.cpus.are_kept() {
            true => told,
            false => Allotment { reservation: told.reservation, ..Allotment::default() },
        };
        (!kept.is_shared() || kept.reservation.is_some()).then_some(kept)
    }

    fn hold_allotment(&mut self, told: Option<Allotment>) -> Option<Id<Allotment>> {
        let kept = self.kept_allotment(told?)?;
        Some(self.asks.allotments.hold(kept).0)
    }

    fn release_allotment(&mut self, allotment: Option<Id<Allotment>>) {
        if let Some(id) = allotment {
            self.asks.allotments.release(id);
        }
    }

    /// A pod is on a node: it takes what it takes, and all that is found out from who is there counts it.
    pub(crate) fn move_in(&mut self, node: NodeIndex, uid: &Uid, pod: Passing, priority: i32) {
        self.occupy(node, pod);
        self.residents.arrive(node, priority, uid);
        self.settle_load(node);
    }

    /// It is there no longer. Where nobody else holds the place of the node, that is free.
    pub(crate) fn move_out(&mut self, node: NodeIndex, uid: &Uid, pod: Passing, priority: i32) {
        self.residents.leave(node, priority, uid);
        self.settle_load(node);
        self.vacate(node, pod);
    }

    fn occupy(&mut self, node: NodeIndex, pod: Passing) {
        self.touch(pod);
        self.shift_load(node, pod, Way::In);
        self.terms.crowds.arrive(pod.ask.identity, node, pod.deleting);
        self.terms.arrive(pod.ask.pod_affinity, node);
    }

    fn vacate(&mut self, node: NodeIndex, pod: Passing) {
        self.touch(pod);
        self.terms.crowds.leave(pod.ask.identity, node, pod.deleting);
        self.terms.leave(pod.ask.pod_affinity, node);
        self.shift_load(node, pod, Way::Out);
    }

    /// What a pod takes of its node is taken, or is free again.
    pub(crate) fn shift_load(&mut self, node: NodeIndex, pod: Passing, way: Way) {
        match pod.reservation {
            Some(index) => self.shift_reservation(node, index, pod, way),
            None => self.shift_amounts(node, pod, way),
        }
        self.shift_use(node, pod, way);
        let Some(id) = pod.ask.volumes else { return };
        let volumes = self.asks.volumes.get(id);
        match way {
            Way::In => self.storage.arrive(id, volumes, node),
            Way::Out => self.storage.leave(id, volumes, node),
        }
    }

    /// Amounts, ports and CPUs of a pod are taken, or are free again.
    fn shift_amounts(&mut self, node: NodeIndex, pod: Passing, way: Way) {
        let Self { asks, cpus, nodes, .. } = self;
        if let Some(id) = pod.allotment {
            cpus.shift(node, nodes.places(), asks.allotments.get(id), way);
        }
        let (taken, ports) = (asks.requests.get(pod.ask.taken), asks.ports.get(pod.ask.ports));
        match way {
            Way::In => nodes.occupy(node, taken, ports),
            Way::Out => nodes.vacate(node, taken, ports),
        }
    }
}
