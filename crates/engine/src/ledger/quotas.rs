//! What pods ask of quotas and use of them.
//!
//! Pods that name the same quota and live in the same namespace belong to one quota, whichever that is
//! at the time: what they add up to is kept once, and moves as a whole when quotas come and go. A pod
//! asks for as long as it is there, and uses for as long as it has a node, bound or decided.

mod borrowing;
mod holders;

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use api::elastic_quota::DEFAULT_QUOTA;
use object::taint::Taint;
use rustc_hash::{FxHashMap, FxHashSet};

pub(crate) use borrowing::Borrower;
pub use holders::{QuotaHolder, QuotaHolders};

use super::nodes::forbids;
use super::{Ledger, PodRow, Way};
use crate::fact::{NodeFact, PodFact, Uid};
use crate::moment::Moment;
use crate::needs::{Amounts, Requests};
use crate::pool::{Id, Pool};
use crate::quota::{
    Account, Charge, Claim, Entry, Forest, Freed, Part, Preemptible, QuotaFact, QuotaRef,
    QuotaRefusal, Settings, Shared,
};

/// Taints of nodes that are not ready, or of which nothing is heard.
const AWAY: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

/// By what pods belong to a quota.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Belonging {
    /// The quota that they name.
    pub named: Option<Box<str>>,
    /// Where they live.
    pub namespace: Box<str>,
}

/// What of a pod a quota is charged for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Charged {
    /// By what it belongs to the quota.
    pub belonging: Id<Belonging>,
    /// How much.
    pub amounts: Id<Requests>,
    /// Whether the pod may have to make room for others.
    pub preemptible: Preemptible,
}

/// A pod as somebody who uses a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) priority: i32,
    /// Whether it may have to go for others of the quota.
    pub(crate) yields: bool,
    /// Whether it goes, or has to.
    pub(crate) goes: bool,
}

/// What pods that belong together add up to.
#[derive(Debug, Clone, Default)]
struct Purse {
    /// Where it is charged; none where it is charged to nobody.
    quota: Option<QuotaRef>,
    account: Account,
    /// Those that have a node, by priority.
    users: BTreeSet<(i32, Uid)>,
    /// How many of them there are of each priority that may have to go for others of their quota.
    yielding: BTreeMap<i32, usize>,
}

/// What is kept for a pod that may use it and has not begun to.
#[derive(Debug, Clone)]
pub(crate) struct Pledge {
    belonging: Id<Belonging>,
    amounts: Amounts,
    preemptible: Preemptible,
}

/// All quotas, and what pods ask of them and use.
#[derive(Debug, Clone, Default)]
pub struct Quotas {
    is_kept: bool,
    /// Whether pods make room for others of their quota, and what is only lent is taken back.
    takes_back: bool,
    forest: Forest,
    belongings: Pool<Belonging>,
    /// By the number of what pods belong by.
    purses: Vec<Purse>,
    /// By quota, the numbers of what belongs to it.
    by_quota: BTreeMap<QuotaRef, BTreeSet<Id<Belonging>>>,
    pledges: FxHashMap<Uid, Pledge>,
    /// Pods that could use nothing now.
    resting: FxHashSet<Uid>,
    /// By what pods belong that got a node since this was last asked.
    joined: BTreeSet<Id<Belonging>>,
}

impl Quotas {
    /// Whether pods are charged to quotas.
    #[must_use]
    pub fn are_kept(&self) -> bool {
        self.is_kept
    }

    /// All trees.
    #[must_use]
    pub fn forest(&self) -> &Forest {
        &self.forest
    }

    /// The same, for those who ask how they stand now.
    pub fn forest_mut(&mut self) -> &mut Forest {
        &mut self.forest
    }

    /// The quota that pods which belong like this are charged to; none where that is nobody.
    #[must_use]
    pub fn quota(&self, belonging: Id<Belonging>) -> Option<&QuotaRef> {
        self.purses.get(belonging.get())?.quota.as_ref()
    }

    /// Pods that have a node and are charged to a quota itself, the least important first.
    pub fn users<'a>(&'a self, quota: &str) -> impl Iterator<Item = &'a (i32, Uid)> {
        let own = self.by_quota.get(&self.forest.find(quota)).into_iter().flatten();
        let mut users: Vec<&(i32, Uid)> = own.flat_map(|id| &self.purses[id.get()].users).collect();
        users.sort_unstable();
        users.into_iter()
    }

    /// Pods that have a node and are charged to a quota or to one below it, the least important first.
    pub(crate) fn users_below(&mut self, quota: &QuotaRef) -> Vec<(i32, Uid)> {
        let Self { forest, purses, by_quota, .. } = self;
        let Some(view) = forest.view(&quota.tree) else { return Vec::new() };
        let below = by_quota.iter().filter(|(own, _)| {
            own.tree == quota.tree && view.chain(&own.name).any(|above| *above == *quota.name)
        });
        let purses = below.flat_map(|(_, ids)| ids).map(|id| &purses[id.get()]);
        let mut users: Vec<&(i32, Uid)> = purses.flat_map(|purse| &purse.users).collect();
        users.sort_unstable();
        users.into_iter().cloned().collect()
    }

    /// Quotas that pods with a node are charged to, by name.
    pub(super) fn charged(&self) -> BTreeSet<&str> {
        let used = self.purses.iter().filter(|purse| !purse.users.is_empty());
        used.filter_map(|purse| purse.quota.as_ref()).map(|own| &*own.name).collect()
    }

    /// A copy for questions about nodes: of single pods it knows nothing.
    pub(super) fn snapshot(&self) -> Self {
        let Self { is_kept, takes_back, forest, belongings, purses, by_quota, pledges, .. } = self;
        let resting = &self.resting;
        let purse = |own: &Purse| Purse {
            quota: own.quota.clone(),
            account: own.account.clone(),
            users: BTreeSet::new(),
            yielding: BTreeMap::new(),
        };
        Self {
            is_kept: *is_kept,
            takes_back: *takes_back,
            forest: forest.clone(),
            belongings: belongings.clone(),
            purses: purses.iter().map(purse).collect(),
            by_quota: by_quota.clone(),
            pledges: pledges.clone(),
            resting: resting.clone(),
            joined: BTreeSet::new(),
        }
    }

    /// The lowest priority of pods that have a node, are charged to a quota itself and may have to go for
    /// others of it.
    #[must_use]
    pub fn lowest_yielding(&self, quota: &QuotaRef) -> Option<i32> {
        if self.spares(quota) {
            return None;
        }
        let own = self.by_quota.get(quota).into_iter().flatten();
        let lowest = own.filter_map(|id| self.purses[id.get()].yielding.first_key_value());
        lowest.map(|(priority, _)| *priority).min()
    }

    /// Whether pods of a quota never make room for others of it.
    pub(crate) fn spares(&self, quota: &QuotaRef) -> bool {
        self.forest.settings().spares_default && &*quota.name == DEFAULT_QUOTA
    }

    /// Quotas that may have more room than when this was last asked.
    pub fn take_freed(&mut self) -> Freed {
        self.forest.take_freed()
    }

    /// Whether quotas share more than when this was last asked.
    pub(crate) fn take_growth(&mut self) -> bool {
        self.forest.take_growth()
    }

    /// What is charged from now on is only thought of, and taken back before that ends.
    pub(crate) fn begin_thought(&mut self) {
        if self.is_kept {
            self.forest.begin_thought();
        }
    }

    /// The end of a thought.
    pub(crate) fn end_thought(&mut self) {
        if self.is_kept {
            self.forest.end_thought();
        }
    }

    /// Whether pods make room for others of their quota, and what is only lent is taken back.
    #[must_use]
    pub fn takes_back(&self) -> bool {
        self.takes_back
    }

    /// Whether anybody got a node since [`Self::take_joined`] was last asked.
    pub(crate) fn has_joined(&self) -> bool {
        !self.joined.is_empty()
    }

    /// Quotas that more pods have a node of than when this was last asked, and all those above them: there
    /// may be somebody now who can make room for others of them.
    pub(crate) fn take_joined(&mut self) -> BTreeSet<Box<str>> {
        let mut names = BTreeSet::new();
        for id in std::mem::take(&mut self.joined) {
            let Some(QuotaRef { tree, name }) = self.quota(id).cloned() else { continue };
            if let Some(view) = self.forest.view(&tree) {
                names.extend(view.chain(&name).map(Box::from));
            }
        }
        names
    }

    /// Nobody has to hear of what has happened so far.
    pub(crate) fn forget_news(&mut self) {
        self.joined.clear();
        drop((self.take_freed(), self.take_growth()));
    }

    fn hold(&mut self, belonging: Belonging) -> Id<Belonging> {
        let (id, is_new) = self.belongings.hold(belonging);
        if is_new {
            if self.purses.len() <= id.get() {
                self.purses.resize_with(id.get() + 1, Purse::default);
            }
            let Belonging { named, namespace } = self.belongings.get(id);
            let quota = self.forest.belongs(named.as_deref(), namespace);
            index(&mut self.by_quota, id, None, quota.as_ref());
            self.purses[id.get()] = Purse { quota, ..Purse::default() };
        }
        id
    }

    fn release(&mut self, id: Id<Belonging>) {
        if self.belongings.release(id).is_some() {
            let old = std::mem::take(&mut self.purses[id.get()]);
            index(&mut self.by_quota, id, old.quota.as_ref(), None);
        }
    }

    fn enter(&mut self, belonging: Id<Belonging>, amounts: &Amounts, entry: Entry) {
        let purse = &mut self.purses[belonging.get()];
        purse.account.enter(amounts, entry).for_each(drop);
        if let Some(quota) = &purse.quota {
            self.forest.charge(quota, amounts, entry);
        }
    }

    /// Quotas are others than before: whoever belongs to another one now is charged there.
    fn resettle(&mut self) {
        let Self { forest, belongings, purses, by_quota, .. } = self;
        for (id, Belonging { named, namespace }) in belongings.iter() {
            let purse = &mut purses[id.get()];
            let quota = forest.belongs(named.as_deref(), namespace);
            if quota == purse.quota {
                continue;
            }
            index(by_quota, id, purse.quota.as_ref(), quota.as_ref());
            if let Some(old) = std::mem::replace(&mut purse.quota, quota) {
                forest.charge_all(&old, &purse.account, -1);
            }
            if let Some(new) = &purse.quota {
                forest.charge_all(new, &purse.account, 1);
            }
        }
    }

    /// Whether a quota has room for one more that is charged like this, and all those above it have.
    ///
    /// # Errors
    /// Who has not, and of what.
    pub(crate) fn admit(
        &mut self,
        charged: Charged,
        requests: &Pool<Requests>,
    ) -> Result<(), QuotaRefusal> {
        let Charged { belonging, amounts, preemptible } = charged;
        let Some(quota) = &self.purses[belonging.get()].quota else { return Ok(()) };
        self.forest.admit(quota, &requests.get(amounts).charged, preemptible)
    }

    /// Whether a quota cannot let in one more that is charged like this however much it may use. What it keeps for
    /// others does not count: whether they will use it nobody knows, and all of a lot would come to rest and be
    /// roused with each of them.
    pub(crate) fn is_beyond_runtime(&mut self, own: Charged, requests: &Pool<Requests>) -> bool {
        self.is_beyond(own, requests, Claim::Asked)
    }

    /// Whether it cannot as long as it keeps what it keeps for others, whoever goes of those that may have to.
    pub(crate) fn is_beyond_help(&mut self, own: Charged, requests: &Pool<Requests>) -> bool {
        self.is_beyond(own, requests, Claim::Besides)
    }

    fn is_beyond<'a>(
        &'a mut self,
        Charged { belonging, amounts, preemptible }: Charged,
        requests: &'a Pool<Requests>,
        claim: fn(Part<'a>) -> Claim<'a>,
    ) -> bool {
        let Some(QuotaRef { tree, name }) = &self.purses[belonging.get()].quota else {
            return false;
        };
        let own = claim(Part { quota: name, amounts: &requests.get(amounts).charged });
        let view = self.forest.view(tree);
        view.is_some_and(|view| view.is_beyond_runtime(own, preemptible))
    }

    /// What a pod uses is of one that goes, or is not any longer.
    pub(super) fn shift_leaving(
        &mut self,
        charged: Option<Charged>,
        requests: &Pool<Requests>,
        way: Way,
    ) {
        let Some(Charged { belonging, amounts, preemptible }) = charged else { return };
        let entry = Entry { charge: Charge::Leaving, preemptible, sign: way.sign() };
        self.enter(belonging, &requests.get(amounts).charged, entry);
    }

    /// Keeps what a pod asks for, since it was told that it may use it.
    pub(crate) fn pledge(&mut self, uid: &Uid, charged: Charged, requests: &Pool<Requests>) {
        let Charged { belonging, amounts, preemptible } = charged;
        let amounts = requests.get(amounts).charged.clone();
        self.belongings.hold_again(belonging);
        self.put_pledge(uid, Pledge { belonging, amounts, preemptible });
    }

    /// What is kept for a pod, where that is in the same quota.
    pub(crate) fn pledged_in(&self, uid: &Uid, belonging: Id<Belonging>) -> Option<&Amounts> {
        let pledge = self.pledges.get(uid)?;
        (self.quota(pledge.belonging) == self.quota(belonging)).then_some(&pledge.amounts)
    }

    /// Keeps nothing for a pod any longer, and says whether anything was.
    pub(crate) fn unpledge(&mut self, uid: &Uid) -> bool {
        if self.pledges.is_empty() {
            return false;
        }
        let old = self.pledges.remove(uid);
        let was_kept = old.is_some();
        self.end_pledge(old);
        was_kept
    }

    /// What is kept for somebody, for as long as it does not count.
    pub(crate) fn take_pledge(&mut self, uid: &Uid) -> Option<Pledge> {
        let pledge = self.pledges.remove(uid)?;
        self.count_pledge(&pledge, Way::Out);
        Some(pledge)
    }

    /// It counts again.
    pub(crate) fn put_pledge(&mut self, uid: &Uid, pledge: Pledge) {
        self.count_pledge(&pledge, Way::In);
        let old = self.pledges.insert(uid.clone(), pledge);
        self.end_pledge(old);
    }

    /// It is not kept any longer.
    pub(crate) fn drop_pledge(&mut self, pledge: Pledge) {
        self.release(pledge.belonging);
    }

    fn count_pledge(&mut self, pledge: &Pledge, way: Way) {
        let Pledge { belonging, amounts, preemptible } = pledge;
        let (charge, preemptible, sign) = (Charge::Pledged, *preemptible, way.sign());
        self.enter(*belonging, amounts, Entry { charge, preemptible, sign });
    }

    /// Whether something is kept for a pod, and it is charged otherwise by now.
    pub(crate) fn is_pledged_otherwise(
        &self,
        uid: &Uid,
        charged: Option<Charged>,
        requests: &Pool<Requests>,
    ) -> bool {
        let Some(Pledge { belonging, amounts, preemptible }) = self.pledges.get(uid) else {
            return false;
        };
        charged.is_none_or(|own| {
            (own.belonging, own.preemptible) != (*belonging, *preemptible)
                || requests.get(own.amounts).charged != *amounts
        })
    }

    /// Asks something as if nothing were kept for somebody: what is kept for him is not used by others.
    pub(crate) fn beside_own<T>(&mut self, whose: &Uid, ask: impl FnOnce(&mut Self) -> T) -> T {
        let Some(pledge) = self.pledges.get(whose).cloned() else { return ask(self) };
        // To look at it is no news, or it would be looked at for ever.
        self.begin_thought();
        self.count_pledge(&pledge, Way::Out);
        let answer = ask(self);
        self.count_pledge(&pledge, Way::In);
        self.end_thought();
        answer
    }

    fn end_pledge(&mut self, pledge: Option<Pledge>) {
        let Some(pledge) = pledge else { return };
        self.count_pledge(&pledge, Way::Out);
        self.drop_pledge(pledge);
    }

    /// Whether what is kept is what pods were told that they may use.
    #[cfg(test)]
    pub(crate) fn keeps_what_was_pledged(&self) -> bool {
        let mut sums: BTreeMap<(usize, &str), i128> = BTreeMap::new();
        for Pledge { belonging, amounts, .. } in self.pledges.values() {
            for name in amounts.names() {
                *sums.entry((belonging.get(), name)).or_default() += i128::from(amounts.of(name));
            }
        }
        self.purses.iter().enumerate().all(|(number, purse)| {
            let pledged = |name| purse.account.get(name).map_or(0, |own| own.pledged);
            ["cpu", "memory"]
                .iter()
                .all(|name| sums.get(&(number, *name)).copied().unwrap_or(0) == pledged(name))
        })
    }

    /// Whether nothing is charged to anybody.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.belongings.is_empty() && self.pledges.is_empty() && self.resting.is_empty()
    }
}

/// What belongs to one quota belongs to another now.
fn index(
    by_quota: &mut BTreeMap<QuotaRef, BTreeSet<Id<Belonging>>>,
    id: Id<Belonging>,
    old: Option<&QuotaRef>,
    new: Option<&QuotaRef>,
) {
    if let Some(old) = old
        && let Some(ids) = by_quota.get_mut(old)
    {
        ids.remove(&id);
        if ids.is_empty() {
            by_quota.remove(old);
        }
    }
    if let Some(new) = new {
        by_quota.entry(new.clone()).or_default().insert(id);
    }
}

/// Whether a node takes pods.
fn is_in_use(is_cordoned: bool, taints: &[Taint]) -> bool {
    !is_cordoned && !is_away(taints)
}

/// Whether a node is not ready, or nothing is heard of it.
fn is_away(taints: &[Taint]) -> bool {
    taints.iter().any(|own| forbids(own) && AWAY.contains(&&*own.key))
}

impl Ledger {
    /// Pods are charged to quotas from now on.
    pub fn keep_quotas(&mut self, settings: Settings) {
        if !self.quotas.is_kept {
            let forest = Forest::new(settings);
            let takes_back = self.quotas.takes_back;
            self.quotas = Quotas { is_kept: true, takes_back, forest, ..Quotas::default() };
        }
    }

    pub(super) fn put_quota(&mut self, fact: QuotaFact) {
        if self.quotas.is_kept && self.quotas.forest.put(fact) {
            self.quotas.resettle();
        }
    }

    pub(super) fn remove_quota(&mut self, namespace: &str, name: &str) {
        if self.quotas.is_kept && self.quotas.forest.remove(namespace, name) {
            self.quotas.resettle();
        }
    }

    /// A node is to have this, where it had what the ledger still says.
    pub(super) fn settle_capacity(&mut self, name: &str, new: Option<&NodeFact>) {
        if !self.quotas.is_kept {
            return;
        }
        let shared = self.quotas.forest.settings().shared;
        let node = self.nodes.find(name).filter(|node| self.nodes.present().contains(*node));
        let is_cordoned = |node| self.nodes.unschedulable().contains(node);
        let node = node.filter(|node| {
            shared == Shared::AllNodes || is_in_use(is_cordoned(*node), self.nodes.taints(*node))
        });
        let old = node.map(|node| self.nodes.resources.allowed(node));
        let new = new
            .filter(|own| shared == Shared::AllNodes || is_in_use(own.unschedulable, &own.taints));
        self.quotas.forest.set_node(old.as_ref(), new.map(|own| &own.allocatable));
    }

    /// By what a pod belongs to a quota, held once more; none where it is charged to nobody.
    pub(super) fn hold_belonging(
        &mut self,
        fact: &PodFact,
        is_object: bool,
    ) -> Option<Id<Belonging>> {
        let quotas = &mut self.quotas;
        let is_forgotten = quotas.forest.settings().forgets_deleting && fact.deleting;
        if !quotas.is_kept || is_object || is_forgotten {
            return None;
        }
        let (named, namespace) = (fact.quota.clone(), fact.namespace.clone());
        Some(quotas.hold(Belonging { named, namespace }))
    }

    pub(super) fn release_belonging(&mut self, belonging: Option<Id<Belonging>>) {
        if let Some(id) = belonging {
            self.quotas.release(id);
        }
    }

    /// What a pod asks for of its quota is asked for, or is not any longer.
    fn shift_request(&mut self, charged: Option<Charged>, way: Way) {
        let Some(Charged { belonging, amounts, preemptible }) = charged else { return };
        let entry = Entry { charge: Charge::Request, preemptible, sign: way.sign() };
        self.quotas.enter(belonging, &self.asks.requests.get(amounts).charged, entry);
    }

    /// Nothing is divided for a pod, or something is again.
    fn shift_rest(&mut self, charged: Option<Charged>, way: Way) {
        let Some(Charged { belonging, amounts, preemptible }) = charged else { return };
        let entry = Entry { charge: Charge::Resting, preemptible, sign: way.sign() };
        self.quotas.enter(belonging, &self.asks.requests.get(amounts).charged, entry);
    }

    /// Nothing is divided for a pod from now on: it could use nothing now.
    pub fn rest(&mut self, uid: &Uid) {
        let row = self.pods.get(uid).filter(|row| !row.is_placed());
        let Some(charged) = row.and_then(|row| row.charged()) else { return };
        if self.quotas.resting.insert(uid.clone()) {
            self.shift_rest(Some(charged), Way::In);
        }
    }

    /// Something is divided for a pod again. Whether that was otherwise.
    pub(crate) fn rouse(&mut self, uid: &Uid) -> bool {
        let was_resting = !self.quotas.resting.is_empty() && self.quotas.resting.remove(uid);
        if was_resting {
            self.shift_rest(self.pods.get(uid).and_then(|row| row.charged()), Way::Out);
        }
        was_resting
    }

    /// What a pod uses of its quota is used, or is not any longer.
    pub(crate) fn shift_quota(
        &mut self,
        uid: &Uid,
        charged: Option<Charged>,
        User { priority, yields, goes }: User,
        way: Way,
    ) {
        let Some(own) = charged else { return };
        if goes {
            self.quotas.shift_leaving(charged, &self.asks.requests, way);
        }
        let Charged { belonging, amounts, preemptible } = own;
        let entry = Entry { charge: Charge::Used, preemptible, sign: way.sign() };
        self.quotas.enter(belonging, &self.asks.requests.get(amounts).charged, entry);
        let is_real = !self.quotas.forest.is_thought();
        if way == Way::In && self.quotas.takes_back && is_real {
            self.quotas.joined.insert(belonging);
        }
        let Purse { users, yielding, .. } = &mut self.quotas.purses[belonging.get()];
        match way {
            Way::In => users.insert((priority, uid.clone())),
            Way::Out => users.remove(&(priority, uid.clone())),
        };
        if yields {
            let count = yielding.entry(priority).or_default();
            match way {
                Way::In => *count += 1,
                Way::Out => *count = count.saturating_sub(1),
            }
            if *count == 0 {
                yielding.remove(&priority);
            }
        }
    }

    /// A pod is to be this, or to be gone, where it is what the ledger still says: what its quota is charged
    /// for follows.
    pub(super) fn settle_quota(&mut self, uid: &Uid, new: Option<&PodRow>) {
        if !self.quotas.is_kept {
            return;
        }
        let state = |row: &PodRow| (row.charged(), row.is_placed(), row.user());
        let (old, new) = (self.pods.get(uid).map(|row| state(row)), new.map(state));
        if old == new {
            return;
        }
        if let (Some((charged, true, was)), Some((own, true, is))) = (old, new)
            && (charged, was) == (own, User { goes: was.goes, ..is })
        {
            // It goes, or need not after all, and uses what it used.
            let way = if is.goes { Way::In } else { Way::Out };
            return self.quotas.shift_leaving(charged, &self.asks.requests, way);
        }
        if let Some((charged, ..)) = old
            && self.quotas.resting.remove(uid)
        {
            self.shift_rest(charged, Way::Out);
        }
        let moves = [(old, Way::Out), (new, Way::In)];
        for ((charged, is_placed, user), way) in
            moves.map(|(state, way)| Some((state?, way))).into_iter().flatten()
        {
            self.shift_request(charged, way);
            if is_placed {
                self.shift_quota(uid, charged, user, way);
            }
        }
    }

    /// Pods that have a node and are charged to a quota itself, and for what: the least important first,
    /// and of those that are as important, the one that came last.
    #[must_use]
    pub fn quota_users(&self, quota: &str) -> Vec<(&Uid, &PodRow, &Amounts)> {
        let users = self.quotas.users(quota).filter_map(|(_, uid)| {
            let (uid, row) = self.pods.get_key_value(uid)?;
            Some((uid, &**row, self.charged_for(row)?))
        });
        let mut users: Vec<_> = users.collect();
        users.sort_by_key(|(_, row, _)| {
            (row.priority, Reverse(row.started.unwrap_or(Moment(u64::MAX))))
        });
        users
    }

    /// Pods that are charged to quotas, the quota of each, and for what: also those that have no node, in
    /// no order.
    pub fn quota_pods(&self) -> impl Iterator<Item = (&str, &Uid, &PodRow, &Amounts)> {
        self.pods().filter_map(move |(uid, row)| {
            let own = self.quotas.quota(row.charged()?.belonging)?;
            Some((&*own.name, uid, row, self.charged_for(row)?))
        })
    }

    /// Quotas that pods name and that are not there, and how many pods name each: these are charged to another one,
    /// or to none.
    #[must_use]
    pub fn quotas_missed(&self) -> BTreeMap<&str, usize> {
        let mut missed: BTreeMap<&str, usize> = BTreeMap::new();
        let held = self.pods().filter_map(|(_, row)| row.charged());
        for named in
            held.filter_map(|own| self.quotas.belongings.get(own.belonging).named.as_deref())
        {
            if !self.quotas.forest.is_there(named) {
                *missed.entry(named).or_default() += 1;
            }
        }
        missed
    }

    pub(super) fn charged_for(&self, row: &PodRow) -> Option<&Amounts> {
        Some(&self.asks.requests.get(row.charged()?.amounts).charged)
    }

    /// Whether a pod that has a node can be seen to leave it: the node is there, and something is heard of it.
    pub(crate) fn can_be_seen_to_go(&self, uid: &Uid) -> bool {
        let node = self.pods.get(uid).and_then(|row| row.node());
        let node = node.filter(|node| self.nodes.present().contains(*node));
        node.is_some_and(|node| !is_away(self.nodes.taints(node)))
    }

    /// Whether the quota of a pod that has no node has room for it when it is tried, and all those above it
    /// have, as if nothing were kept for it already.
    ///
    /// # Errors
    /// Who has not, and of what.
    pub fn admit(&mut self, uid: &Uid) -> Result<(), QuotaRefusal> {
        let Some(charged) = self.pods.get(uid).and_then(|row| row.charged()) else { return Ok(()) };
        let was_resting = self.rouse(uid);
        let answer = self.admit_as(uid, charged);
        if was_resting {
            self.rest(uid);
        }
        answer
    }

    /// The same of one that is charged like this, whoever it is.
    ///
    /// # Errors
    /// Who has not, and of what.
    pub(crate) fn admit_as(&mut self, uid: &Uid, charged: Charged) -> Result<(), QuotaRefusal> {
        let Self { quotas, asks, .. } = self;
        quotas.beside_own(uid, |quotas| quotas.admit(charged, &asks.requests))
    }
}
