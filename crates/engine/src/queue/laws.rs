//! What always holds of the queue: no pod sleeps that could run, and time alone is enough.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::decide::Decider;
use crate::fact::{Fact, PodFact};
use crate::laws::{decider, fact};
use crate::needs::{Clause, Needs};

const START: Moment = Moment(1_000_000_000_000_000_000);

/// A scheduler that binds in no time.
struct World {
    ledger: Ledger,
    decider: Decider,
    queue: Queue,
    now: Moment,
    pods: BTreeMap<Uid, PodFact>,
}

impl World {
    fn new() -> Self {
        let mut ledger = Ledger::default();
        let decider = decider(&mut ledger);
        let queue = Queue::new(Settings::default(), START);
        Self { ledger, decider, queue, now: START, pods: BTreeMap::new() }
    }

    /// What the API server would make of a fact: of a pod that is there, few things may change.
    fn allowed(&self, fact: Fact) -> Fact {
        let Fact::Pod(mut new) = fact else { return fact };
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
                self.queue.put(Pending { uid, priority, ask, kind: 0, gated: false }, self.now);
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

    fn decide_all(&mut self) {
        while let Some(Popped { uid, .. }) = self.queue.pop(self.now) {
            let ask = self.ledger.pod(&uid).expect("it is in the queue").ask;
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
            let rejection = Rejection { unschedulable, pending: Plugins::default() };
            self.queue.reject(&uid, rejection, &self.ledger, self.now);
        }
    }

    /// Pods that stand like this though a node could take them.
    fn left_out(&mut self, stands: impl Fn(Standing) -> bool) -> Vec<(Uid, Rejection)> {
        let all: Vec<Uid> = self.queue.pods.keys().cloned().collect();
        let mut left = Vec::new();
        for uid in all {
            let ask = self.ledger.pod(&uid).expect("it is in the queue").ask;
            let fits = !self.decider.feasible(&self.ledger, ask).is_empty();
            if fits && self.queue.standing(&uid).is_some_and(&stands) {
                left.push((uid.clone(), self.queue.rejection(&uid).unwrap_or_default()));
            }
        }
        left
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_pod_that_would_fit_is_decided_within_its_back_off(facts in vec(fact(), 1..60)) {
        let mut world = World::new();
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
    Rejection { unschedulable, pending: Plugins::default() }
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
    queue.notice(&ledger, Change::Storage("PersistentVolumeAdd"), now);
    assert_eq!(waiting(&queue), 50, "no volume makes room");
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
    [0, 1, 2].map(&mut refuse);
    // The first is tried for the room that is made for it, and the next for the others.
    [0, 1].map(refuse);
    assert_eq!(queue.pop(now), None, "the last would be refused as well");
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
    let unschedulable = Plugins::from_iter([Plugin::VolumeBinding]);
    let otherwise = Rejection { unschedulable, pending: Plugins::default() };
    queue.reject(&one, otherwise, &ledger, now);
    queue.notice(&ledger, Change::Storage("PersistentVolumeAdd"), now);
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
