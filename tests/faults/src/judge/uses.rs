//! What is held, who uses it, and which CPUs are whose.

use std::collections::{BTreeMap, BTreeSet};

use api::CpuSet;

use super::{Judge, Order, Snapshot, Standing, Truth};
use crate::held::{Held, Spare, overused, reduced, spares, use_of};
use crate::rules::{Place, overfills};
use crate::shapes::Shape;

impl Snapshot {
    pub(super) fn living(&self) -> impl Iterator<Item = &Standing> {
        self.pods.iter().filter(|pod| !pod.node.is_empty() && !pod.is_ended)
    }

    /// What of nodes is held and used by no pod.
    pub(super) fn spares(&self, shapes: &BTreeMap<String, Shape>) -> BTreeMap<String, Spare> {
        let pods: Vec<(&str, &str, &Shape)> = self
            .living()
            .filter_map(|pod| Some((&*pod.node, &*pod.uses, shapes.get(&pod.name)?)))
            .collect();
        spares(self.held.iter(), &pods)
    }

    fn used_of(&self, own: &Held, shapes: &BTreeMap<String, Shape>) -> Spare {
        let users = self.living().filter(|pod| own.node.is_empty() || pod.node == own.node);
        use_of(&own.uid, users.filter_map(|pod| Some((&*pod.uses, shapes.get(&pod.name)?))))
    }
}

impl Truth {
    /// Whether the last of these could have known of all the others that it met there.
    fn should_know(&self, pods: &[&Standing], held: &[&Held]) -> bool {
        let pods = pods.iter().filter_map(|pod| self.bound.get(&pod.uid));
        let pods = pods.map(|one| (one.at, one.who, true));
        let held = held.iter().filter_map(|own| self.held.get(&own.uid));
        let held = held.map(|(at, who)| (*at, Some(*who), false));
        let all: Vec<(Order, Option<usize>, bool)> = pods.chain(held).collect();
        let Some((_, Some(last), _)) = all.iter().max_by_key(|(at, _, _)| *at) else {
            return false;
        };
        let horizon = self.horizon(*last);
        all.iter().all(|(at, who, is_pod)| {
            let told = if *is_pod { horizon.pods } else { horizon.rest };
            *who == Some(*last) || *at < told
        })
    }

    /// Whether something that is too much may be for now: who made it so could not know better.
    fn excuses(&mut self, what: &str, pods: &[&Standing], held: &[&Held]) -> bool {
        if !self.excused_uses.contains(what) && !self.should_know(pods, held) {
            self.excused_uses.insert(what.to_owned());
        }
        let is_excused = self.excused_uses.contains(what);
        self.excuses.uses += u64::from(is_excused);
        is_excused
    }
}

impl Judge {
    /// A reservation got a node, or another size.
    pub fn held(&self, who: usize, uid: &str) {
        self.with(|truth| {
            let now = truth.tick();
            truth.held.insert(uid.to_owned(), (now, who));
            let site = truth.sites.get(&(who, uid.to_owned())).cloned();
            if let Some((node, _)) =
                site.filter(|(node, known)| truth.has_changed(node, Some(known)))
            {
                truth.excused_uses.insert(node);
            }
        });
    }

    /// A scheduler decided that a reservation holds something on a node, which it knew like this, and takes
    /// over pods there.
    pub fn is_to_hold<'a>(
        &self,
        who: usize,
        uid: &str,
        (node, known): (&str, &Place),
        adopts: impl Iterator<Item = &'a str>,
    ) {
        let site = (node.to_owned(), known.clone());
        self.with(|truth| {
            truth.sites.insert((who, uid.to_owned()), site);
            truth.adopted.entry(uid.to_owned()).or_default().extend(adopts.map(str::to_owned));
        });
    }

    /// Whether a reservation that takes over as many pods as it needs did so with all of these.
    fn has_taken_over(&self, own: &Held, pods: &[&Standing]) -> bool {
        let adopted = self.with(|truth| truth.adopted.get(&own.uid).cloned()).unwrap_or_default();
        own.takes_over && own.takes_many && pods.iter().all(|pod| adopted.contains(&pod.uid))
    }

    /// Whether a reservation ever got a node.
    pub fn was_held(&self, uid: &str) -> bool {
        self.with(|truth| truth.held.contains_key(uid))
    }

    fn judge_use(&self, key: &str, found: Option<String>, pods: &[&Standing], held: &[&Held]) {
        let Some(what) = found else {
            self.with(|truth| truth.excused_uses.remove(key));
            return;
        };
        if !self.with(|truth| truth.excuses(key, pods, held)) {
            self.log.violated(&format!("{key}: {what}"));
        }
    }

    /// Holds what is held and used against what may be.
    pub(super) fn inspect_uses(&self, snapshot: &Snapshot) {
        let shapes = self.with(|truth| truth.shapes.clone());
        let spares = snapshot.spares(&shapes);
        for (name, place) in &snapshot.places {
            let pods: Vec<&Standing> = snapshot.living().filter(|pod| pod.node == *name).collect();
            let held: Vec<&Held> = snapshot.held.iter().filter(|own| own.node == *name).collect();
            let there: Vec<&Shape> = pods.iter().filter_map(|pod| shapes.get(&pod.name)).collect();
            let left = reduced(place, spares.get(name).copied().unwrap_or_default());
            let found = overfills(&left, &there).filter(|_| !held.is_empty());
            let found = found.map(|what| format!("with what is held there: {what}; {held:?}"));
            self.judge_use(name, found, &pods, &held);
            self.judge_use(&format!("CPUs of {name}"), twice(&pods), &pods, &[]);
        }
        for own in &snapshot.held {
            let used = snapshot.used_of(own, &shapes);
            let users: Vec<&Standing> =
                snapshot.living().filter(|pod| pod.uses == own.uid).collect();
            // It is for one pod that comes; those that it took over were there together.
            let is_once = own.is_once && !self.has_taken_over(own, &users);
            let own = Held { is_once, ..own.clone() };
            self.judge_use(&own.uid, overused(&own, used), &users, &[]);
        }
    }

    /// After the faults have ended: what reservations say is so, and those that fit hold something.
    pub(super) fn conclude_uses(&self, snapshot: &Snapshot, shapes: &BTreeMap<String, Shape>) {
        for own in snapshot.held.iter().filter(|own| !own.node.is_empty()) {
            let is_user = |pod: &&Standing| pod.uses == own.uid && pod.node == own.node;
            let mut users: Vec<String> =
                snapshot.living().filter(is_user).map(|pod| pod.uid.clone()).collect();
            users.sort_unstable();
            if users != own.owners {
                let what = format!("{} says {:?} use it, and {users:?} do", own.name, own.owners);
                self.log.violated(&what);
            }
            let used = snapshot.used_of(own, shapes);
            if used.cpu_millis != own.allocated_millis {
                let told = own.allocated_millis;
                let what = format!("{} says {told}m are used, and {used:?} are", own.name);
                self.log.violated(&what);
            }
        }
        for pod in snapshot.living() {
            let own = snapshot.held.iter().find(|own| own.uid == pod.uses);
            if let Some(own) = own.filter(|own| own.waits() || !own.node.is_empty())
                && own.node != pod.node
            {
                let (name, node) = (&pod.name, &pod.node);
                self.log.violated(&format!("{name} on {node} says it uses {own:?}"));
            }
        }
        self.conclude_pending(snapshot, shapes);
    }

    /// A reservation that fits has a node.
    fn conclude_pending(&self, snapshot: &Snapshot, shapes: &BTreeMap<String, Shape>) {
        let spares = snapshot.spares(shapes);
        for own in snapshot.held.iter().filter(|own| own.waits() && !own.takes_over) {
            let fits = |(name, place): &(&String, &crate::rules::Place)| {
                let spare = spares.get(*name).copied().unwrap_or_default();
                let left = reduced(
                    place,
                    Spare {
                        cpu_millis: spare.cpu_millis + own.cpu_millis,
                        memory_bytes: spare.memory_bytes + own.memory_bytes,
                        pods: spare.pods + 1,
                    },
                );
                let there = snapshot
                    .pods
                    .iter()
                    .filter(|pod| !pod.is_ended && (pod.node == **name || pod.nominated == **name));
                let there: Vec<&Shape> = there.filter_map(|pod| shapes.get(&pod.name)).collect();
                let mut others = snapshot.held.iter().filter(|other| other.node == **name);
                overfills(&left, &there).is_none()
                    && others.all(|other| other.is_default == own.is_default)
                    && !place.is_cordoned
                    && !place.is_tainted
                    && !snapshot.reporting.contains(*name)
            };
            if let Some((node, _)) = snapshot.places.iter().find(fits) {
                self.log.violated(&format!("{own:?} fits on {node} and waits"));
            }
        }
    }
}

/// A CPU that two pods of a node say is their own.
fn twice(pods: &[&Standing]) -> Option<String> {
    let mut seen = BTreeSet::new();
    for pod in pods {
        let cpus = CpuSet::parse(&pod.cpus).unwrap_or_default();
        if let Some(cpu) = cpus.iter().find(|cpu| !seen.insert(*cpu)) {
            return Some(format!("CPU {cpu} of {} is another's", pod.name));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use api::reservation::ALLOCATED;
    use chassis::clock::Clock;
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::draw::Draw;
    use crate::judge::Reading;
    use crate::log::Log;

    fn place(cpu_millis: i64) -> Place {
        let zone = String::new();
        let (memory_bytes, pods) = (i64::MAX, 10);
        Place { zone, cpu_millis, memory_bytes, pods, is_cordoned: false, is_tainted: false }
    }

    /// A judge who knows of a node with 2000m, where 500m are held and three pods have come with 500m each.
    /// Somebody else brought the second to the port of the first.
    fn judge() -> Judge {
        let judge = Judge::new(&Log::new(&Clock::manual(Timestamp::UNIX_EPOCH).0));
        judge.placed("n", Some(place(2000)));
        for (name, port) in [("a", Some(80)), ("b", Some(80)), ("c", None)] {
            let drawn = Shape::of_members(&mut Draw::new(1, "uses"));
            judge.expect(name, &Shape { cpu_millis: 500, memory_mega: 0, port, ..drawn });
        }
        let of_ours = |name: &str| {
            judge.landed(&judge.sent(1, (name.to_owned(), name.to_owned(), "n".to_owned())));
        };
        of_ours("a");
        judge.taken("b", "b", "n");
        judge.read(1, Reading::Pods, judge.now());
        judge.held(1, "r");
        of_ours("c");
        judge
    }

    /// Whether it is found fault with so much CPU and these pods, of which this one uses what is held.
    fn finds_fault(judge: &Judge, cpu_millis: i64, pods: &[&str], user: &str) -> bool {
        let pod = |name: &&str| {
            let uses = if *name == user { "r" } else { "" };
            let told = json!({ ALLOCATED: json!({ "uid": uses }).to_string() });
            let metadata = json!({ "uid": name, "name": name, "annotations": told });
            Standing::read(&json!({ "metadata": metadata, "spec": { "nodeName": "n" } }))
        };
        let status = json!({ "phase": "Available", "nodeName": "n",
                             "allocatable": { "cpu": "500m" } });
        let held = Held::read(&json!({ "metadata": { "uid": "r" }, "status": status }));
        judge.inspect_uses(&Snapshot {
            places: [("n".to_owned(), place(cpu_millis))].into(),
            pods: pods.iter().map(pod).collect(),
            held: vec![held],
            ..Snapshot::default()
        });
        judge.log().failed().is_some()
    }

    #[test]
    fn a_node_that_became_smaller_is_excused_until_it_carries_all_again() {
        let judge = judge();
        assert!(!finds_fault(&judge, 2000, &["a", "b", "c"], "a"));
        judge.placed("n", Some(place(1000)));
        assert!(!finds_fault(&judge, 1000, &["a", "b", "c"], "a"), "the pods alone are too much");
        assert!(!finds_fault(&judge, 1000, &["b", "c"], "a"), "with what is held, they still are");
        assert!(!finds_fault(&judge, 1000, &["c"], "a"));
        assert!(finds_fault(&judge, 1000, &["b", "c"], "a"), "by now somebody should have known");
    }

    #[test]
    fn ports_that_pods_have_in_common_are_no_fault_of_what_is_held_and_hide_none() {
        let judge = judge();
        assert!(!finds_fault(&judge, 2000, &["a", "b", "c"], ""));
        assert!(finds_fault(&judge, 1500, &["a", "b", "c"], ""));
    }
}
