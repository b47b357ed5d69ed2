//! Gangs and quotas: who starts, who has to go for whom, and whether the engine has added up what is so.

use api::pod_group::GangId;
use engine::fact::{PodRef, Uid};
use engine::gangs::Readiness;
use engine::ledger::PodRow;
use engine::needs::Amounts;
use engine::quota::{ByResource, Preemptible};
use scheduler::core::Core;
use scheduler::dismissals::{Cause, DismissOrder};
use scheduler::message::RoomOrder;

use super::{Knowledge, Known, Onlooker};
use crate::gangs::NAMESPACE;
use crate::lending::{Account, Accounts, Regime, User};
use crate::shapes::{BATCH, Shape, Tenure};
use crate::shares::{self, Amount};

impl Knowledge {
    /// How quotas stand, by what is known.
    fn accounts(&self, regime: Regime) -> Accounts {
        self.accounts_with(regime, |_| true)
    }

    /// The most that the quota of a pod may use: pods of others that no node takes are not divided for, and
    /// any that waits may be one of those.
    fn accounts_at_best(&self, regime: Regime, pod: &Shape) -> Accounts {
        self.accounts_with(regime, |shape| shape.quota == pod.quota)
    }

    /// The same where of those that wait only these ask for anything.
    fn accounts_with(&self, regime: Regime, asks: impl Fn(&Shape) -> bool) -> Accounts {
        let users = self.pods.iter().map(|(uid, known)| {
            let has_claim = self.claims.contains_key(uid) || self.kept.contains_key(uid);
            let is_placed = known.node.is_some() || has_claim;
            User { shape: &known.shape, is_placed }
        });
        let users = users.filter(|user| user.is_placed || asks(user.shape));
        let capacity = Amount::of_all(self.places.values());
        Accounts::reckoned(&self.shares, regime, capacity, users)
    }

    /// The quota that a pod is charged to, where the one that it names is there.
    fn quota_of(&self, shape: &Shape) -> Option<&'static str> {
        shape.quota.filter(|name| self.shares.contains_key(*name))
    }

    /// Why not all of these may go for the quota of a pod, if so.
    fn must_stay(&self, regime: Regime, victims: &[&Shape], asker: &Shape) -> Option<String> {
        if !regime.preempts_in_quotas {
            return Some(format!("not all are less important of {victims:?}"));
        }
        if let Some(other) = victims.iter().find(|victim| self.quota_of(victim).is_none()) {
            return Some(format!("nothing was lent to {other:?}"));
        }
        let (within, across): (Vec<&Shape>, Vec<&Shape>) =
            victims.iter().partition(|victim| victim.quota == asker.quota);
        if within.iter().any(|victim| victim.priority >= asker.priority) {
            return Some(format!("in its quota not all are less important of {within:?}"));
        }
        let accounts = self.accounts(regime);
        if !across.is_empty() && !accounts.is_guaranteed(asker) {
            let own = &accounts.by_name;
            return Some(format!("{asker:?} is not guaranteed what {across:?} use: {own:?}"));
        }
        accounts.robbed(&across, asker)
    }

    /// Whether others of these gangs are bound or being bound.
    fn has_company(&self, group: &[String], member: &Uid) -> bool {
        let is_bound = |uid: &Uid, known: &Known| {
            known.node.is_some() || self.claims.contains_key(uid) && !self.prepared.contains(uid)
        };
        let of = |own: &Shape| own.gang.as_ref().is_some_and(|gang| group.contains(&gang.name));
        let mut others = self.pods.iter().filter(|(uid, _)| *uid != member);
        others.any(|(uid, known)| of(&known.shape) && is_bound(uid, known))
    }

    /// What of a quota those use who are going.
    fn leaving(&self, quota: &str) -> Amount {
        let going = self.pods.values().filter(|known| known.is_going && known.node.is_some());
        let own = going.filter(|known| {
            let chain = shares::chain(&self.shares, known.shape.quota.unwrap_or_default());
            chain.iter().any(|share| share.name == quota)
        });
        own.fold(Amount::default(), |sum, known| sum + Amount::of(&known.shape))
    }
}

impl Onlooker {
    /// A member of a gang is to be bound: as many as are needed have a node, unless the gang runs already.
    pub(super) fn starts(&self, own: &mut Knowledge, core: &Core, pod: &PodRef) {
        let shape = own.pods.get(&pod.uid).map(|known| &known.shape);
        let Some(gang) = shape.and_then(|shape| shape.gang.clone()) else { return };
        own.rest.members += 1;
        self.judge.begins(&gang.group);
        // Who was refused follows those that were bound with it, however many of them are left.
        if own.kept.contains_key(&pod.uid) && own.has_company(&gang.group, &pod.uid) {
            return;
        }
        let has_started = gang.group.iter().any(|name| own.started.contains(name));
        let ledger = core.engine().ledger();
        for name in &gang.group {
            let of = |known: &Known| known.shape.gang.clone().filter(|gang| gang.name == *name);
            let Some(gang) = own.pods.values().find_map(of) else { continue };
            let members = own.pods.iter().filter(|(_, known)| of(known).is_some());
            let rows = members.filter_map(|(uid, _)| ledger.pod(uid));
            let placed = rows.filter(|row| row.is_placed()).count();
            // Of one that runs and that nothing describes any longer nobody knows how many there must be.
            let is_described = ledger.gangs.terms(&GangId::new("default", name)).is_some();
            if !is_described && placed > 0 {
                continue;
            }
            if placed < gang.needs(placed, has_started) {
                let (name, min) = (&gang.name, gang.min);
                let what = format!("{} is bound, and {placed} of {min} of {name}", pod.name);
                self.violated(&format!("{what} have a node"));
            }
        }
    }

    /// Members of a gang that need nothing more have their nodes as well, and are bound when volumes are made
    /// for the others: they are decided by now.
    pub(super) fn held_back(&self, own: &mut Knowledge, core: &Core, uid: &Uid) {
        let gang = |uid: &Uid| own.pods.get(uid)?.shape.gang.clone();
        let Some(group) = gang(uid).map(|gang| gang.group.clone()) else { return };
        let ledger = core.engine().ledger();
        let is_new = |uid: &&Uid| {
            !own.claims.contains_key(*uid) && gang(uid).is_some_and(|gang| gang.group == group)
        };
        let claimed = own.pods.keys().filter(is_new).filter_map(|uid| {
            let row = ledger.pod(uid).filter(|row| !row.is_bound())?;
            Some((PodRef::of(uid, row), ledger.nodes.name(row.node()?).to_owned()))
        });
        for (pod, node) in claimed.collect::<Vec<_>>() {
            self.decided(own, &pod, &node);
            own.prepared.insert(pod.uid);
        }
    }

    /// Holds a decision against what quotas may use now, as far as that is known.
    pub(super) fn overdraws(&self, own: &Knowledge, pod: &PodRef, shape: &Shape) {
        // What a member keeps was decided before.
        if shape.scheduler != BATCH || own.kept.contains_key(&pod.uid) {
            return;
        }
        if let Some(what) = own.accounts_at_best(self.judge.regime(), shape).overdraws(shape) {
            let what = format!("{} is beyond its quota, as far as it knows: {what}", pod.name);
            self.violated(&what);
        }
    }

    /// Others have to go for a pod, or for the gang of which it is a member: all of them are less important,
    /// or it is for quotas that they go.
    pub(super) fn makes_room(
        &self,
        own: &mut Knowledge,
        name: &str,
        asker: &Shape,
        room: &RoomOrder,
    ) {
        let regime = self.judge.regime();
        let together = asker.gang.as_ref().map_or(name.to_owned(), |gang| gang.group.join(","));
        let all = own.victims.entry(together).or_default();
        if asker.gang.is_none() {
            all.clear();
        }
        all.extend(room.victims.iter().map(|victim| victim.uid.clone()));
        let all = all.clone();
        let mut victims: Vec<&Shape> = Vec::new();
        for uid in &all {
            let Some(known) = own.pods.get(uid) else {
                self.violated(&format!("{uid:?} has to go for {name} and nobody told of it"));
                continue;
            };
            if own.node_of(uid).is_none() {
                self.violated(&format!("{} has to go for {name} and is nowhere", known.name));
            }
            // Who never has to go for others of his quota may use what was only lent to it all the same.
            let stays = match known.shape.tenure {
                Tenure::Movable => false,
                Tenure::Spared => own.quota_of(&known.shape) == own.quota_of(asker),
                Tenure::Fixed => true,
            };
            if stays {
                self.violated(&format!("{} never has to go, and does for {name}", known.name));
            }
            victims.push(&known.shape);
        }
        let are_lower = victims.iter().all(|victim| victim.priority < asker.priority);
        let count = room.victims.len() as u64;
        let is_taken_back = victims.iter().any(|victim| victim.tenure == Tenure::Spared);
        if are_lower && regime.preempts_for_gangs && !is_taken_back {
            own.rest.batch.for_gangs += count;
            return;
        }
        if let Some(why) = own.must_stay(regime, &victims, asker) {
            let names: Vec<&str> = room.victims.iter().map(|victim| &*victim.name).collect();
            self.violated(&format!("{names:?} must not go for {name}: {why}"));
        }
        let is_within =
            |uid: &Uid| own.pods.get(uid).is_some_and(|known| known.shape.quota == asker.quota);
        let inside = room.victims.iter().filter(|victim| is_within(&victim.uid)).count() as u64;
        own.rest.batch.in_quotas += inside;
        own.rest.batch.take_backs += count - inside;
    }

    /// A pod has to go since its quota uses more than it may: it does, without those who are going already.
    pub(super) fn revokes(&self, own: &mut Knowledge, order: &DismissOrder) {
        let name = &order.pod.name;
        if order.cause != Cause::Quota {
            return self.violated(&format!("{name} must not go: no group asks for it"));
        }
        self.judge.log().note(&format!("s{}: {name} has to go for its quota", self.who));
        self.judge.sent_away(&order.pod.uid.0);
        own.rest.batch.revokes += 1;
        let regime = self.judge.regime();
        let Some(known) = own.pods.get(&order.pod.uid) else {
            return self.violated(&format!("{name} has to go and nobody told of it"));
        };
        let quota = known.shape.quota.unwrap_or_default();
        let accounts = own.accounts(regime);
        let is_needed = accounts.may_be_over(quota, own.leaving(quota));
        let may_go = known.shape.tenure != Tenure::Fixed && known.node.is_some();
        if !(regime.revokes && regime.lends && is_needed && may_go) {
            let what = format!("{name} need not go for its quota: {:?}", known.shape);
            self.violated(&format!("{what}, {:?}", accounts.by_name));
        }
    }

    /// Gangs of which nobody was to be bound yet hold nodes for as many as they need, or for nobody.
    pub(super) fn holds_whole(&self, own: &Knowledge, core: &Core) {
        let ledger = core.engine().ledger();
        // What a group has given up is told a little later.
        let holds = |uid: &&Uid| ledger.pod(uid).is_some_and(PodRow::is_placed);
        let holding = own.prepared.iter().filter(holds);
        let holding = holding.filter_map(|uid| own.pods.get(uid)?.shape.gang.as_ref());
        for name in holding.flat_map(|gang| &gang.group) {
            let members = || {
                let of = |own: &Shape| own.gang.as_ref().is_some_and(|gang| gang.name == *name);
                own.pods.iter().filter(move |(_, known)| of(&known.shape))
            };
            let Some(gang) = members().find_map(|(_, known)| known.shape.gang.clone()) else {
                continue;
            };
            let is_to_be_bound = |(uid, known): (&Uid, &Known)| {
                known.node.is_some() || own.claims.contains_key(uid) && !own.prepared.contains(uid)
            };
            let has_begun = gang.group.iter().any(|name| own.started.contains(name))
                || members().any(is_to_be_bound);
            let rows = members().filter_map(|(uid, _)| ledger.pod(uid));
            let placed = rows.filter(|row| row.is_placed()).count();
            if !has_begun && placed < gang.needs(placed, has_begun) {
                self.violated(&format!("{placed} of {name} hold nodes, of {}", gang.min));
            }
        }
    }

    /// What the engine has added up of quotas is what their pods come to, and nothing is kept for pods that
    /// have no use for it.
    pub(super) fn audited(&self, own: &Knowledge, core: &Core) -> Result<(), String> {
        let mut ledger = core.engine().ledger().clone();
        let accounts = own.accounts(self.judge.regime());
        let Some(view) = ledger.quotas.forest_mut().view("") else { return Ok(()) };
        for name in own.shares.keys() {
            let Some(told) = view.standing(name) else {
                return Err(format!("quota {name} is nowhere"));
            };
            let (request, used) = (read(&told.child_request), read(&told.used));
            let (floor, runtime) = (read(&told.kept_min), read(&told.runtime));
            let told = Account { request, used, floor, runtime, ..Account::default() };
            if let Some(what) = accounts.differs(name, &told) {
                return Err(what);
            }
            let chain = shares::chain(&own.shares, name);
            let left = chain.iter().filter_map(|share| {
                let told = view.standing(&share.name)?;
                Some(read(&told.runtime) - read(&told.used))
            });
            let left = left.reduce(Amount::at_most).unwrap_or_default();
            let is_left = left.cpu_millis >= 0 && left.memory_bytes >= 0;
            let asked = Amounts {
                cpu_millis: left.cpu_millis,
                memory_bytes: left.memory_bytes,
                ..Amounts::default()
            };
            if let Some(why) = view.admit(name, &asked, Preemptible::Yes).err().filter(|_| is_left)
            {
                return Err(format!("{left:?} of {name} are kept for nobody: {why}"));
            }
        }
        Ok(())
    }
}

/// What is told of CPU and memory.
fn read(list: &ByResource) -> Amount {
    let of = |name: &str| list.get(name).copied().unwrap_or(0);
    Amount { cpu_millis: of("cpu"), memory_bytes: of("memory") }
}

/// Whether a pod is not in the queue because its gang is, or is not to be yet.
pub(super) fn is_with_gang(own: &Knowledge, core: &Core, uid: &Uid) -> bool {
    let Some(known) = own.pods.get(uid) else { return false };
    let Some(gang) = &known.shape.gang else { return false };
    let (engine, id) = (core.engine(), GangId::new(NAMESPACE, &gang.name));
    let ledger = engine.ledger();
    let readiness = ledger.readiness(&ledger.group_of(&id));
    // Whoever comes while others are bound is looked at when they are.
    engine.queue().standing(&engine.gang_entry(&id)).is_some()
        || matches!(readiness, Readiness::Waits(_))
        || engine.gangs_released() > 0
        || known.is_gated
}
