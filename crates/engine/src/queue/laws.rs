//! What always holds of the queue: no pod sleeps that could run, and time alone is enough.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::decide::Decider;
use crate::fact::{Claim, Fact, NodeFact, PersistentVolume, PodFact, Source, StorageFact};
use crate::laws::fact;
use crate::needs::{Clause, Needs, NodeTerm, Operator, Requirement};
use crate::plugins::node_affinity::NodeAffinity;
use crate::plugins::node_resources::{Fit, IgnoredResources};
use crate::plugins::pod_topology_spread::{DefaultRule, PodTopologySpread};
use crate::profile::{Profile, Weight};

const START: Moment = Moment(1_000_000_000_000_000_000);

/// A scheduler that binds in no time.
struct World {
    profile: fn() -> Profile,
    ledger: Ledger,
    decider: Decider,
    queue: Queue,
    now: Moment,
    pods: BTreeMap<Uid, PodFact>,
}

/// A profile that tells its plugins all that their word on changes can depend on.
pub(super) fn strict() -> Profile {
    let zone = Requirement { key: "zone".into(), operator: Operator::Exists, values: [].into() };
    let term = NodeTerm { labels: [zone].into(), fields: [].into() };
    let mut affinity = NodeAffinity::default();
    affinity.added.required = Some([term].into());
    let names = vec!["example.com/gpu".into()];
    let ignored = IgnoredResources { names, ..IgnoredResources::default() };
    let fit = Fit { ignored, ..Fit::default() };
    let rule = DefaultRule { binds: true, max_skew: 1, topology_key: "disk".into() };
    let spread = PodTopologySpread { defaults: vec![rule], lenient: false };
    let mut profile = Profile::kubernetes().score(spread.clone(), Weight(1));
    for filter in &mut profile.filters {
        match filter.plugin() {
            Plugin::NodeAffinity => *filter = Box::new(affinity.clone()),
            Plugin::NodeResourcesFit => *filter = Box::new(fit.clone()),
            Plugin::PodTopologySpread => *filter = Box::new(spread.clone()),
            _ => {}
        }
    }
    profile
}

/// No two claims have the same volume, and no two volumes the same data.
fn told_apart(fact: StorageFact) -> StorageFact {
    match fact {
        StorageFact::Claim(namespace, name, Some(claim)) => {
            let number = name.strip_prefix("claim-").filter(|_| *namespace == *"default");
            let own = number.map(|number| format!("pv-{number}").into());
            let volume = claim.volume.is_some().then_some(own).flatten();
            StorageFact::Claim(namespace, name, Some(Box::new(Claim { volume, ..*claim })))
        }
        StorageFact::Volume(name, Some(mut volume)) => {
            let PersistentVolume { source, .. } = &mut *volume;
            if let Source::Csi { handle, .. } = source {
                *handle = name.clone();
            }
            StorageFact::Volume(name, Some(volume))
        }
        fact => fact,
    }
}

impl World {
    fn new(profile: fn() -> Profile) -> Self {
        let mut ledger = Ledger::default();
        let decider = Decider::new(profile(), &mut ledger, 7);
        let queue = Queue::new(Settings::default(), START).heeding(vec![profile().arguments()]);
        Self { profile, ledger, decider, queue, now: START, pods: BTreeMap::new() }
    }

    /// What the API server would make of a fact: of a pod that is there, few things may change.
    fn allowed(&self, fact: Fact) -> Fact {
        let mut new = match fact {
            Fact::Pod(new) => new,
            Fact::Storage(fact) => return Fact::Storage(told_apart(fact)),
            fact => return fact,
        };
        if let Some(old) = self.pods.get(&new.uid) {
            let mut same = old.clone();
            same.labels = new.labels;
            same.deleting |= new.deleting;
            same.node = old.node.clone().or(new.node);
            return Fact::Pod(Box::new(same));
        }
        for rule in &mut new.needs.spread.0 {
            rule.pods = Clause::within(&new.namespace, rule.pods.labels.clone());
        }
        new.needs.taken = new.needs.requests.clone();
        Fact::Pod(new)
    }

    fn take(&mut self, fact: Fact) {
        let change = Change::of(&self.ledger, &fact);
        self.ledger.apply(fact.clone());
        match fact {
            Fact::Pod(pod) if pod.node.is_some() => {
                self.queue.remove(&pod.uid);
                self.pods.insert(pod.uid.clone(), *pod);
            }
            Fact::Pod(pod) => {
                let ask = self.ledger.pod(&pod.uid).expect("it was put").ask;
                let (uid, priority) = (pod.uid.clone(), pod.priority);
                let kind = ask.identity.get() as u64;
                self.queue.put(Pending { uid, priority, ask, kind, gated: false }, self.now);
                self.pods.insert(pod.uid.clone(), *pod);
            }
            Fact::PodGone(uid) => {
                self.queue.remove(&uid);
                self.pods.remove(&uid);
            }
            _ => {}
        }
        if let Some(change) = change {
            self.queue.notice(&self.ledger, change, self.now);
        }
    }

    /// What a pod asks, with what services and controllers say now.
    fn likened(&self, ledger: &mut Ledger, uid: &Uid) -> Ask {
        let pod = &self.pods[uid];
        ledger.liken(uid, &pod.labels, pod.needs.owner.as_ref());
        ledger.pod(uid).expect("it is in the queue").ask
    }

    fn decide_all(&mut self) {
        while let Some(Popped { uid, .. }) = self.queue.pop(self.now) {
            let mut ledger = std::mem::take(&mut self.ledger);
            let ask = self.likened(&mut ledger, &uid);
            self.ledger = ledger;
            let priority = self.pods[&uid].priority;
            let kind = ask.identity.get() as u64;
            let pending = Pending { uid: uid.clone(), priority, ask, kind, gated: false };
            self.queue.put(pending, self.now);
            if let Some(node) = self.decider.pick(&self.ledger, ask, 0) {
                self.queue.placed(&uid);
                let mut bound = self.pods[&uid].clone();
                bound.node = Some(self.ledger.nodes.name(node).into());
                self.take(Fact::Pod(Box::new(bound)));
                continue;
            }
            let nodes = self.ledger.nodes.present().iter();
            let refused = nodes.filter_map(|node| self.decider.refusal(&self.ledger, ask, node));
            let unschedulable = refused.map(|(plugin, _)| plugin).collect();
            let rejection = Rejection { unschedulable, ..Rejection::default() };
            self.queue.reject(&uid, rejection, &self.ledger, self.now);
        }
    }

    /// Pods that stand like this though a node could take them.
    fn left_out(&self, stands: impl Fn(Standing) -> bool) -> Vec<(Uid, Standing, Rejection)> {
        let mut left = Vec::new();
        let mut ledger = self.ledger.clone();
        let mut decider = Decider::new((self.profile)(), &mut ledger, 7);
        for (uid, standing) in self.queue.standings().filter(|(_, standing)| stands(*standing)) {
            let ask = self.likened(&mut ledger, uid);
            if !decider.feasible(&ledger, ask).is_empty() {
                left.push((uid.clone(), standing, self.queue.rejection(uid).unwrap_or_default()));
            }
        }
        left
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_pod_that_would_fit_is_decided_within_its_back_off(
        facts in vec(fact(), 1..60),
        profile in prop_oneof![Just(Profile::kubernetes as fn() -> Profile), Just(strict as fn() -> Profile)],
    ) {
        let mut world = World::new(profile);
        for fact in facts {
            let fact = world.allowed(fact);
            let told = format!("{fact:?}");
            world.take(fact);
            world.decide_all();
            let left = world.left_out(|standing| standing == Standing::Waiting);
            prop_assert!(left.is_empty(), "{left:?} sleeps after {told}");
            world.now = world.now.after(Duration::from_millis(700));
        }
        world.now = world.now.after(Settings::default().backoff_max + Duration::from_secs(2));
        world.decide_all();
        let left = world.left_out(|_| true);
        prop_assert!(left.is_empty(), "{left:?} was not decided by time alone");
        prop_assert_eq!(world.queue.missed_wakes(), 0);
    }
}

#[test]
fn a_plugin_of_several_profiles_hopes_as_any_of_them_does_and_is_asked_once_where_they_are_alike() {
    let profiles = || [Profile::kubernetes(), strict(), Profile::kubernetes()];
    let arguments = profiles().iter().map(Profile::arguments).collect();
    let mut queue = Queue::new(Settings::default(), START).heeding(arguments);
    assert_eq!(queue.arguments.len(), 2);
    let mut ledger = Ledger::default();
    let ask = ledger.hold("default", &BTreeMap::new(), &Needs::default());
    let uid = crate::laws::uid(0);
    queue.put(Pending { uid: uid.clone(), priority: 0, ask, kind: 0, gated: false }, START);
    queue.pop(START);
    let unschedulable = Plugins::from_iter([Plugin::NodeAffinity]);
    queue.reject(&uid, Rejection { unschedulable, ..Rejection::default() }, &ledger, START);
    let node = |zone: Option<&str>| {
        let labels = zone.map(|zone| ("zone".into(), zone.into())).into_iter().collect();
        Some(Box::new(NodeFact { name: "node".into(), labels, ..NodeFact::default() }))
    };
    let mut wakes = |old, new| {
        queue.notice(&ledger, Change::Node { old, new }, START);
        queue.standing(&uid) != Some(Standing::Waiting)
    };
    assert!(!wakes(node(Some("a")), node(Some("b"))));
    assert!(wakes(node(None), node(Some("a"))), "one of the profiles asks for a zone");
}

/// A queue with pods that ask the same, and the ledger that knows them.
fn with_pods(count: u8) -> (Queue, Ledger) {
    let (mut queue, mut ledger) = (Queue::new(Settings::default(), START), Ledger::default());
    for number in 0..count {
        let ask = ledger.hold("default", &BTreeMap::new(), &Needs::default());
        let uid = crate::laws::uid(number);
        let priority = i32::from(number % 3);
        let now = START.after(Duration::from_millis(number.into()));
        queue.put(Pending { uid, priority, ask, kind: 0, gated: false }, now);
    }
    (queue, ledger)
}

fn refused() -> Rejection {
    let unschedulable = Plugins::from_iter([Plugin::NodeResourcesFit]);
    Rejection { unschedulable, ..Rejection::default() }
}

#[test]
fn pods_go_by_priority_and_then_by_age() {
    let (mut queue, _) = with_pods(6);
    let mut popped = Vec::new();
    while let Some(next) = queue.pop(START.after(Duration::from_secs(1))) {
        popped.push(next.uid);
    }
    assert_eq!(popped, [2, 5, 1, 4, 0, 3].map(crate::laws::uid));
}

/// How many pods stand so.
fn count(queue: &Queue, stands: impl Fn(Standing) -> bool) -> usize {
    queue.standings().filter(|(_, standing)| stands(*standing)).count()
}

#[test]
fn of_pods_that_ask_the_same_one_wakes_and_the_next_when_it_gets_a_node() {
    let (mut queue, ledger) = with_pods(50);
    let mut now = START.after(Duration::from_secs(1));
    while let Some(next) = queue.pop(now) {
        queue.reject(&next.uid, refused(), &ledger, now);
        now = now.after(Duration::from_millis(1));
    }
    let room = || Change::Placed { old: None, new: None };
    let waiting = |queue: &Queue| count(queue, |standing| standing == Standing::Waiting);
    assert_eq!(queue.waiting_groups(), 3, "one for each priority");
    queue.notice(&ledger, Change::Namespace, now);
    assert_eq!(waiting(&queue), 50, "no namespace makes room");
    for _ in 0..5 {
        queue.notice(&ledger, room(), now);
        assert_eq!(waiting(&queue), 47);
    }
    assert_eq!(count(&queue, |standing| matches!(standing, Standing::Backoff(_))), 3);
    now = now.after(Duration::from_secs(30));
    // The first of each priority gets a node, and so does the next of the highest.
    for placed in [2, 5] {
        assert_eq!(queue.pop(now).unwrap().uid, crate::laws::uid(placed));
        queue.placed(&crate::laws::uid(placed));
    }
    // Who is refused is refused for all that ask the same.
    for (rejected, left) in [(8, 46), (1, 47), (0, 48)] {
        assert_eq!(queue.pop(now).unwrap().uid, crate::laws::uid(rejected));
        queue.reject(&crate::laws::uid(rejected), refused(), &ledger, now);
        assert_eq!(waiting(&queue), left);
    }
    assert_eq!(queue.pop(now), None);
    // One that speaks for others and is gone leaves it to the next.
    queue.notice(&ledger, room(), now);
    queue.remove(&crate::laws::uid(11));
    assert_eq!(queue.pop(now).unwrap().uid, crate::laws::uid(14));
}

#[test]
fn one_that_room_is_made_for_does_not_speak_for_the_others() {
    let (mut queue, mut ledger) = (Queue::new(Settings::default(), START), Ledger::default());
    let now = START.after(Duration::from_secs(1));
    for number in 0..3 {
        let nominated = (number == 0).then(|| "node".into());
        let pod =
            PodFact { nominated, ..PodFact::new(&crate::laws::uid(number).0, "default", "pod") };
        let uid = pod.uid.clone();
        ledger.apply(Fact::Pod(Box::new(pod)));
        let ask = ledger.pod(&uid).unwrap().ask;
        let at = START.after(Duration::from_millis(number.into()));
        queue.put(Pending { uid, priority: 0, ask, kind: 0, gated: false }, at);
    }
    let mut refuse = |number| {
        let uid = crate::laws::uid(number);
        assert_eq!(queue.pop(now).map(|popped| popped.uid), Some(uid.clone()));
        queue.reject(&uid, refused(), &ledger, now);
        if number == 2 {
            queue.notice(&ledger, Change::Placed { old: None, new: None }, now);
        }
    };
    (0..3).for_each(&mut refuse);
    // The first is tried for the room that is made for it, and the next for the others.
    (0..2).for_each(refuse);
    assert_eq!(queue.pop(now), None, "the last would be refused as well");
}

#[test]
fn a_change_is_held_only_against_groups_whose_refusal_it_may_cure() {
    let (mut queue, ledger) = with_pods(30);
    let now = START.after(Duration::from_secs(1));
    let by = |plugins: &[Plugin]| Rejection {
        unschedulable: plugins.iter().copied().collect(),
        ..Rejection::default()
    };
    while let Some(next) = queue.pop(now) {
        queue.reject(&next.uid, by(&[Plugin::NodeResourcesFit, Plugin::NodePorts]), &ledger, now);
    }
    let asked =
        |queue: &Queue, change: &Change| queue.waiting.refused_by(change.concerns()).count();
    let view = || {
        Some(Box::new(PodView::of_fact(
            &Ledger::default(),
            &PodFact::new("bound", "default", "bound"),
        )))
    };
    let bound = Change::Placed { old: None, new: view() };
    let gone = Change::Placed { old: view(), new: None };
    assert_eq!([&bound, &gone, &Change::Namespace].map(|change| asked(&queue, change)), [0, 3, 0]);
    // Who speaks for a group says who cares.
    queue.notice(&ledger, gone.clone(), now);
    let first = queue.pop(now).unwrap().uid;
    queue.reject(&first, by(&[Plugin::PodTopologySpread]), &ledger, now);
    assert_eq!([&bound, &gone].map(|change| asked(&queue, change)), [1, 3]);
    let all: Vec<Uid> = queue.pods.keys().cloned().collect();
    all.iter().for_each(|uid| queue.remove(uid));
    assert_eq!(asked(&queue, &gone), 0);
    assert_eq!(queue.waiting_groups(), 0);
}

#[test]
fn a_pod_that_room_is_made_for_elsewhere_does_not_wake() {
    let (mut queue, mut ledger) = (Queue::new(Settings::default(), START), Ledger::default());
    let now = START.after(Duration::from_secs(1));
    for (number, nominated) in [(0, None), (1, Some("a")), (2, Some("b"))] {
        let nominated = nominated.map(Into::into);
        let uid = crate::laws::uid(number);
        let pod = PodFact { nominated, ..PodFact::new(&uid.0, "default", "pod") };
        ledger.apply(Fact::Pod(Box::new(pod)));
        let ask = ledger.pod(&uid).unwrap().ask;
        let at = START.after(Duration::from_millis(number.into()));
        queue.put(Pending { uid, priority: 0, ask, kind: 0, gated: false }, at);
    }
    while let Some(next) = queue.pop(now) {
        queue.reject(&next.uid, refused(), &ledger, now);
    }
    let gone = PodFact { node: Some("a".into()), ..PodFact::new("gone", "default", "gone") };
    let old = Some(Box::new(PodView::of_fact(&Ledger::default(), &gone)));
    queue.notice(&ledger, Change::Placed { old, new: None }, now);
    let waits = [0, 1, 2].map(|number| queue.standing(&crate::laws::uid(number)));
    let waits = waits.map(|standing| standing == Some(Standing::Waiting));
    assert_eq!(waits, [false, false, true]);
}

#[test]
fn what_one_is_refused_for_the_others_wait_for() {
    let (mut queue, ledger) = with_pods(2);
    let [one, other] = [0, 1].map(crate::laws::uid);
    let ask = queue.pods[&one].ask;
    queue.put(Pending { uid: other.clone(), priority: 0, ask, kind: 0, gated: false }, START);
    let now = START.after(Duration::from_secs(1));
    while let Some(next) = queue.pop(now) {
        queue.reject(&next.uid, refused(), &ledger, now);
    }
    let room = Change::Placed { old: None, new: None };
    queue.notice(&ledger, room, now);
    assert_eq!(queue.pop(now).unwrap().uid, one);
    let unschedulable = Plugins::from_iter([Plugin::InterPodAffinity]);
    let otherwise = Rejection { unschedulable, ..Rejection::default() };
    queue.reject(&one, otherwise, &ledger, now);
    queue.notice(&ledger, Change::Namespace, now);
    assert_eq!(queue.pop(now).unwrap().uid, other);
    queue.placed(&other);
    assert_eq!(queue.pop(now).unwrap().uid, one);
}

#[test]
fn a_failed_attempt_waits_out_its_back_off_and_a_refused_one_need_not() {
    let (mut queue, ledger) = with_pods(1);
    let uid = crate::laws::uid(0);
    let mut now = START;
    assert!(queue.pop(now).is_some());
    queue.reject(&uid, Rejection::default(), &ledger, now);
    let until = START.after(Duration::from_secs(1));
    assert_eq!(queue.standing(&uid), Some(Standing::ErrorBackoff(until)));
    assert_eq!(queue.pop(until), None, "the window is not over");
    assert_eq!(queue.next_due(now), Some(until.next_window()));
    now = until.next_window();
    assert!(queue.pop(now).is_some());
    // What happens to a pod in flight is held against its refusal.
    queue.notice(&ledger, Change::Placed { old: None, new: None }, now);
    queue.reject(&uid, refused(), &ledger, now);
    assert!(matches!(queue.standing(&uid), Some(Standing::Backoff(_))));
    assert_eq!(queue.pop(now).map(|popped| popped.attempts), Some(3));
}

#[test]
fn a_pod_that_waited_for_too_long_is_tried_and_counted() {
    let (mut queue, ledger) = with_pods(1);
    let uid = crate::laws::uid(0);
    queue.pop(START);
    queue.reject(&uid, refused(), &ledger, START);
    let at = |seconds| START.after(Duration::from_secs(seconds));
    assert_eq!(queue.pop(at(300)), None);
    assert_eq!(queue.next_due(at(300)), Some(at(330)));
    assert!(queue.pop(at(330)).is_some());
    queue.placed(&uid);
    assert_eq!(queue.missed_wakes(), 1);
    assert!(queue.is_empty());
}

#[test]
fn every_arrival_is_counted_with_what_brought_the_pod() {
    let (mut queue, ledger) = with_pods(2);
    let [first, second] = [1, 0].map(crate::laws::uid);
    let now = START.after(Duration::from_secs(1));
    for uid in [&first, &second] {
        assert_eq!(queue.pop(now).map(|popped| popped.uid).as_ref(), Some(uid));
        queue.reject(uid, refused(), &ledger, now);
    }
    queue.notice(&ledger, Change::Placed { old: None, new: None }, now);
    assert!(queue.pop(now).is_some(), "one is taken early");
    queue.reject(&first, Rejection::default(), &ledger, now);
    queue.settle(START.after(Duration::from_secs(60)));
    let counted: Vec<String> = (queue.arrivals().iter())
        .map(|(line, cause, times)| format!("{} {cause} {times}", line.name()))
        .collect();
    let expected = [
        "active BackoffComplete 2",
        "active PopFromBackoffQ 1",
        "active UnschedulablePodAdd 2",
        "backoff AssignedPodAdd 2",
        "backoff ScheduleAttemptFailure 1",
        "unschedulable ScheduleAttemptFailure 2",
    ];
    assert_eq!(counted, expected);
    let refusers: BTreeMap<_, _> = queue.refusals().collect();
    assert_eq!(
        refusers,
        BTreeMap::from([(&first, Plugins::default()), (&second, refused().unschedulable)])
    );
}

#[test]
fn for_pods_in_flight_few_changes_are_kept_and_what_is_forgotten_wakes_them() {
    let (mut queue, ledger) = with_pods(3);
    let now = START.after(Duration::from_secs(1));
    let (early, late) = (queue.pop(now).unwrap().uid, queue.pop(now).unwrap().uid);
    let room = Change::Placed { old: None, new: None };
    queue.notice(&ledger, room, now);
    for _ in 0..100_000 {
        // Of no use to anybody.
        queue.notice(&ledger, Change::Namespace, now);
        assert!(queue.changes_kept() <= log::CHANGES_MAX);
    }
    let last = queue.pop(now).unwrap().uid;
    queue.notice(&ledger, Change::Namespace, now);
    for (uid, sleeps) in [(&early, false), (&late, false), (&last, true)] {
        queue.reject(uid, refused(), &ledger, now);
        let standing = queue.standing(uid);
        assert_eq!(standing == Some(Standing::Waiting), sleeps, "{uid:?} stands {standing:?}");
    }
    assert_eq!((queue.changes_kept(), queue.changes_weighed()), (0, 1));
}

#[test]
fn changes_are_held_against_a_pod_that_comes_back_until_one_wakes_it() {
    let (mut queue, ledger) = with_pods(50);
    let now = START.after(Duration::from_secs(1));
    let popped: Vec<Uid> = std::iter::from_fn(|| queue.pop(now)).map(|next| next.uid).collect();
    for _ in 0..5000 {
        queue.notice(&ledger, Change::Placed { old: None, new: None }, now);
    }
    for uid in &popped {
        queue.reject(uid, refused(), &ledger, now);
        assert_ne!(queue.standing(uid), Some(Standing::Waiting));
    }
    assert_eq!(queue.changes_weighed(), 50);
}

#[test]
fn a_pod_in_flight_whose_room_is_given_away_is_tried_again_and_no_other_for_it() {
    let (mut queue, ledger) = with_pods(2);
    let now = START.after(Duration::from_secs(1));
    let [theirs, other] = [(); 2].map(|()| queue.pop(now).unwrap().uid);
    queue.notice(&ledger, Change::PassedOver(theirs.clone()), now);
    for (uid, sleeps) in [(&theirs, false), (&other, true)] {
        queue.reject(uid, refused(), &ledger, now);
        let standing = queue.standing(uid);
        assert_eq!(standing == Some(Standing::Waiting), sleeps, "{uid:?} stands {standing:?}");
    }
}
