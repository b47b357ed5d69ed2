//! Gangs and quotas: who may have been bound, and who has to be in the end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Binding, Judge, Judged, Landed, Snapshot, Standing, Truth};
use crate::gangs::Gang;
use crate::held::Spare;
use crate::lending::{Accounts, Regime, User};
use crate::rules::{Resident, View};
use crate::shapes::{BATCH, Shape, Tenure};
use crate::shares::{self, Amount, Share, Shares};

/// What is known of pods, by name.
type Shapes = BTreeMap<String, Shape>;

/// A group of gangs, and those of its members that wait.
struct Group<'a> {
    gangs: BTreeMap<&'a str, Arc<Gang>>,
    waiting: BTreeMap<&'a str, Vec<&'a Standing>>,
}

impl Group<'_> {
    /// How many of a gang have to start at once, as far as any of them waits.
    fn min(&self, gang: &str) -> usize {
        self.gangs.get(gang).map_or(0, |gang| gang.min)
    }
}

impl Snapshot {
    /// How quotas stand.
    pub(super) fn accounts(&self, shapes: &Shapes) -> Accounts {
        self.reckoned(self.users(shapes))
    }

    /// The same where only those ask for anything that have a node.
    fn accounts_of_placed(&self, shapes: &Shapes) -> Accounts {
        self.reckoned(self.users(shapes).filter(|user| user.is_placed))
    }

    fn users<'a>(&'a self, shapes: &'a Shapes) -> impl Iterator<Item = User<'a>> {
        self.pods.iter().filter(|pod| !pod.is_ended).filter_map(|pod| {
            Some(User { shape: shapes.get(&pod.name)?, is_placed: !pod.node.is_empty() })
        })
    }

    fn reckoned<'a>(&self, users: impl Iterator<Item = User<'a>>) -> Accounts {
        let capacity = Amount::of_all(self.places.values());
        Accounts::reckoned(&self.shares, self.regime, capacity, users)
    }

    /// Nodes with the pods that are there, and with those as well that room is made for, but for some.
    pub(super) fn views<'a>(
        &'a self,
        shapes: &'a Shapes,
        spares: &BTreeMap<String, Spare>,
        except: &BTreeSet<&str>,
    ) -> [View<'a>; 2] {
        let view = |with_nominated: bool| {
            let residents = self.pods.iter().filter(|one| !one.is_ended);
            let residents = residents.filter_map(|one| {
                let shape = shapes.get(&one.name)?;
                let is_there = !one.node.is_empty();
                let node = if is_there { &one.node } else { &one.nominated };
                let counts = is_there || with_nominated && !except.contains(&*one.uid);
                let is_going = one.is_going;
                (counts && !node.is_empty()).then_some(Resident { shape, node, is_going })
            });
            let spares = spares.clone();
            View { places: &self.places, residents: residents.collect(), spares }
        };
        [view(false), view(true)]
    }

    /// Whether so many pods that ask the same all find a node, and room in their quota.
    fn fit(
        &self,
        (shape, count): (&Shape, usize),
        shapes: &Shapes,
        spares: &BTreeMap<String, Spare>,
        except: &BTreeSet<&str>,
    ) -> bool {
        let mut views = self.views(shapes, spares, except);
        for _ in 0..count {
            let takes =
                |node: &&String| views.iter().all(|view| view.refuses(shape, node).is_none());
            let Some(node) = self.places.keys().find(takes) else { return false };
            for view in &mut views {
                view.residents.push(Resident { shape, node, is_going: false });
            }
        }
        self.accounts(shapes).has_room((shape, count))
    }

    /// Gangs with members that wait, by what they start with.
    fn groups<'a>(&'a self, shapes: &'a Shapes) -> BTreeMap<String, Group<'a>> {
        let mut groups: BTreeMap<String, Group<'_>> = BTreeMap::new();
        for pod in &self.pods {
            let Some(gang) = shapes.get(&pod.name).and_then(|shape| shape.gang.as_ref()) else {
                continue;
            };
            let group = groups
                .entry(gang.group.join(","))
                .or_insert_with(|| Group { gangs: BTreeMap::new(), waiting: BTreeMap::new() });
            group.gangs.insert(&gang.name, gang.clone());
            if pod.node.is_empty() && !pod.is_ended && !pod.is_going {
                group.waiting.entry(&gang.name).or_default().push(pod);
            }
        }
        groups.retain(|_, group| !group.waiting.is_empty());
        groups
    }

    /// How many members of a gang are on nodes.
    fn placed(&self, gang: &str, shapes: &Shapes) -> usize {
        self.living().filter(|pod| is_of(shapes.get(&pod.name), gang)).count()
    }
}

/// Whether a pod is a member of a gang.
fn is_of(shape: Option<&Shape>, gang: &str) -> bool {
    shape.and_then(|shape| shape.gang.as_ref()).is_some_and(|own| own.name == gang)
}

impl Truth {
    /// The quota that has no room for a pod which is bound, and whether that may be: it was another one, or
    /// somebody else used it, after whoever decided that was told how everything stood. What was known of
    /// both since then, each decision is held against by itself.
    fn overdraft(&self, binding: &Binding) -> Option<(String, bool)> {
        let Binding { who, name, uid, .. } = binding;
        let shape = self.shapes.get(name).filter(|shape| shape.scheduler == BATCH)?;
        let shares: Shares = (self.shares.iter())
            .filter_map(|(name, (_, share))| Some((name.clone(), share.clone()?)))
            .collect();
        let is_other = |(one, pod): &(&String, &Landed)| pod.is_there && *one != uid;
        let others: Vec<&Landed> = self.bound.iter().filter(is_other).map(|(_, pod)| pod).collect();
        let others_shapes = others.iter().filter_map(|pod| self.shapes.get(&pod.name));
        let what = shares::overdraws(&shares, &shares::used(&shares, others_shapes), shape)?;
        let horizon = self.horizon(*who);
        let is_new = self.shares.values().any(|(at, _)| *at > horizon.rest);
        let is_met = others.iter().any(|pod| pod.who != Some(*who) && pod.at > horizon.pods);
        Some((what, is_new || is_met))
    }

    /// How often something happened that may keep the rest of a gang from its nodes.
    fn disturbances(&self, gang: &str) -> (u64, u64) {
        (self.upheavals, self.losses.get(gang).copied().unwrap_or_default())
    }

    /// A pod was bound, with which its gang may be whole.
    pub(super) fn note_whole(&mut self, name: &str) {
        let gang = self.shapes.get(name).and_then(|shape| shape.gang.clone());
        let Some(gang) = gang else { return };
        let is_undisturbed = self.begun.get(&gang.name) == Some(&self.disturbances(&gang.name));
        let is_whole = self.ever_bound(&gang.name) == gang.min;
        self.judged.undisturbed += u64::from(is_undisturbed && is_whole);
    }

    /// Whether a gang began, and nothing has happened to its members since.
    fn has_lost_nobody(&self, gang: &str) -> bool {
        let losses = self.losses.get(gang).copied().unwrap_or_default();
        self.begun.get(gang).is_some_and(|(_, then)| *then == losses)
    }

    /// How many members of a gang were ever bound.
    fn ever_bound(&self, gang: &str) -> usize {
        self.bound.values().filter(|pod| is_of(self.shapes.get(&pod.name), gang)).count()
    }
}

impl Judge {
    /// What schedulers are told to do for gangs and quotas.
    pub fn govern(&self, regime: Regime) {
        self.with(|truth| truth.regime = regime);
    }

    pub fn regime(&self) -> Regime {
        self.with(|truth| truth.regime)
    }

    pub fn judged(&self) -> Judged {
        self.with(|truth| truth.judged)
    }

    /// A quota is now so, or gone.
    pub fn shared(&self, name: &str, share: Option<&Share>) {
        self.with(|truth| {
            let now = truth.tick();
            truth.shares.insert(name.to_owned(), (now, share.cloned()));
        });
    }

    /// A scheduler asked a pod to go.
    pub fn sent_away(&self, uid: &str) {
        self.with(|truth| truth.sent_away.insert(uid.to_owned()));
    }

    /// Whether a scheduler did.
    pub fn was_sent_away(&self, uid: &str) -> bool {
        self.with(|truth| truth.sent_away.contains(uid))
    }

    /// How many pods were asked to go.
    pub fn all_sent_away(&self) -> usize {
        self.with(|truth| truth.sent_away.len())
    }

    /// Something happened to a pod that may keep the rest of its gang from their nodes.
    pub fn lost(&self, name: &str) {
        self.with(|truth| {
            let gang = truth.shapes.get(name).and_then(|shape| shape.gang.clone());
            for gang in gang.iter().flat_map(|gang| &gang.group) {
                *truth.losses.entry(gang.clone()).or_default() += 1;
            }
        });
    }

    /// A member of gangs that start at once is to be bound.
    pub fn begins(&self, group: &[String]) {
        self.with(|truth| {
            if group.iter().all(|gang| truth.ever_bound(gang) == 0) {
                for gang in group {
                    let disturbances = truth.disturbances(gang);
                    truth.begun.insert(gang.clone(), disturbances);
                }
            }
        });
    }

    /// Holds a Binding that was carried out against the ceilings of quotas.
    pub(super) fn judge_overdraft(&self, binding: &Binding) {
        let Some((what, is_excused)) = self.with(|truth| truth.overdraft(binding)) else { return };
        let Binding { name, who, .. } = binding;
        if is_excused {
            self.with(|truth| truth.excuses.quotas += 1);
            self.log.note(&format!("excused: {name} is beyond its quota: {what}"));
        } else {
            self.log.violated(&format!("{name} of s{who} is beyond its quota: {what}"));
        }
    }

    /// After the faults have ended: gangs that fit have started, none is there in part while its rest fits,
    /// and who waits was told why.
    pub(super) fn conclude_gangs(&self, snapshot: &Snapshot, shapes: &Shapes) {
        for group in snapshot.groups(shapes).values() {
            self.conclude_group(group, snapshot, shapes);
        }
        let gangs = shapes.values().filter_map(|shape| shape.gang.clone());
        let gangs: BTreeMap<String, Arc<Gang>> =
            gangs.map(|gang| (gang.name.clone(), gang)).collect();
        for (name, gang) in &gangs {
            let (bound, is_undisturbed) = self.with(|truth| {
                let disturbances = truth.disturbances(name);
                (truth.ever_bound(name), truth.begun.get(name) == Some(&disturbances))
            });
            // Where the time for Bindings is short, it may be over before all are carried out.
            if is_undisturbed && gang.wait_seconds.is_none() && bound < gang.min {
                self.log.violated(&format!("{bound} members are bound of {gang:?}"));
            }
        }
    }

    /// How many members of a gang that waits in part or as a whole have to get a node; none where that
    /// cannot be said.
    fn needed(&self, group: &Group<'_>, snapshot: &Snapshot, shapes: &Shapes) -> Option<usize> {
        let gang = group.gangs.values().next()?;
        let placed = |name: &String| snapshot.placed(name, shapes);
        let has_started = gang.group.iter().any(|name| placed(name) > 0);
        let mut needed = 0;
        for name in &gang.group {
            // Nobody is there to say anything of a gang that pods describe.
            let gang = group.gangs.get(&**name)?;
            // Nobody has gone since it began: what is missing is the rest of that start.
            let is_cut_short = self.with(|truth| truth.has_lost_nobody(name))
                && gang.group.iter().any(|name| (1..group.min(name)).contains(&placed(name)));
            let needs = match is_cut_short {
                true => gang.min.saturating_sub(placed(name)),
                false => gang.needs(placed(name), has_started),
            };
            let waiting = group.waiting.get(&**name).map_or(0, Vec::len);
            if gang.is_object && !snapshot.groups.contains(name) || waiting < needs {
                return None;
            }
            needed += needs;
        }
        Some(needed)
    }

    fn conclude_group(&self, group: &Group<'_>, snapshot: &Snapshot, shapes: &Shapes) {
        for pod in group.waiting.values().flatten() {
            if !matches!(&*pod.reason, "Unschedulable" | "WaitingForGang") {
                let what = format!("{} waits, and its condition says {:?}", pod.name, pod.reason);
                self.log.violated(&what);
            }
        }
        let Some(needed) = self.needed(group, snapshot, shapes) else { return };
        let spares = snapshot.spares(shapes);
        let waiting: Vec<&Standing> = group.waiting.values().flatten().copied().collect();
        let shape = waiting.first().and_then(|pod| shapes.get(&pod.name));
        let Some(shape) = shape else { return };
        let except: BTreeSet<&str> = waiting.iter().map(|pod| &*pod.uid).collect();
        let placed = |name: &String| snapshot.placed(name, shapes);
        let gangs = || group.gangs.values();
        let is_half = gangs().any(|gang| (1..gang.min).contains(&placed(&gang.name)));
        let is_contended = gangs().flat_map(|gang| &gang.rivals).any(|rival| placed(rival) > 0);
        self.with(|truth| {
            truth.judged.waiting += 1;
            truth.judged.halves += u64::from(is_half);
            truth.judged.contended += u64::from(is_contended && !is_half);
        });
        // Where none is needed any longer, each is by itself.
        if snapshot.fit((shape, needed.max(1)), shapes, &spares, &except) {
            let names: Vec<&str> = waiting.iter().map(|pod| &*pod.name).collect();
            let what = format!("{needed} of {names:?} are needed and fit, and wait");
            self.log.violated(&what);
        }
    }

    /// After the faults have ended: no quota uses what others use as well, where some of its pods could go and
    /// no budget may keep them. What waits asks for nothing where no node takes it.
    pub(super) fn conclude_overuse(&self, snapshot: &Snapshot, shapes: &Shapes) {
        if !(snapshot.regime.revokes && snapshot.regime.lends) {
            return;
        }
        let accounts = snapshot.accounts_of_placed(shapes);
        for name in snapshot.shares.keys() {
            let users = snapshot.living().filter_map(|pod| shapes.get(&pod.name));
            let users = users.filter(|shape| shape.quota == Some(&**name));
            let movable: Vec<&Shape> =
                users.filter(|shape| shape.tenure != Tenure::Fixed).collect();
            let are_free = movable.iter().all(|shape| !snapshot.budgets.contains(shape.app));
            if are_free && !movable.is_empty() && accounts.is_over(name) {
                let what = format!("{name} uses too much: {:?}", accounts.by_name[name]);
                self.log.violated(&what);
            }
        }
    }

    /// After the faults have ended: what a scheduler has added up of quotas is so.
    pub fn conclude_audit(&self, who: usize, audit: Option<Result<(), String>>) {
        let Some(audit) = audit else { return };
        self.with(|truth| truth.judged.audits += 1);
        if let Err(what) = audit {
            self.log.violated(&format!("s{who} has added up something else: {what}"));
        }
    }

    /// Holds what a scheduler bound that knew nothing but what the server shows against what others had left
    /// waiting.
    pub fn conclude_anew(&self, before: &Snapshot, after: &Snapshot) {
        let shapes = self.with(|truth| truth.shapes.clone());
        let waited = |pod: &&Standing| {
            let old = before.pods.iter().find(|old| old.uid == pod.uid);
            old.is_some_and(|old| old.node.is_empty())
        };
        for pod in after.pods.iter().filter(|pod| !pod.node.is_empty()).filter(waited) {
            if shapes.get(&pod.name).is_some_and(|shape| shape.scheduler == BATCH) {
                let (name, node) = (&pod.name, &pod.node);
                self.log.violated(&format!("{name} had waited unseen and fits on {node}"));
            }
        }
    }
}
