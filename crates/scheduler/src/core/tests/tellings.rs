//! Who waits to be told of: later than Bindings, not for ever, once, and without being tried again for it.

use super::*;
use crate::later::{Busy, Work};

/// How many decisions are made at once of which nothing is to be written.
const SILENT_MAX: usize = 64;

impl Core {
    /// The next order while nobody is busy: what is decided, and what is told of those who wait.
    pub(crate) fn next_order(&mut self, now: Moment) -> Option<Order> {
        for _ in 0..SILENT_MAX {
            let next = self.decide(now);
            if let Next::Order(order) = next {
                return Some(*order);
            }
            let told = self.tell_beside(Busy::default(), now);
            if told.is_some() || matches!(next, Next::Idle) {
                return told;
            }
        }
        None
    }
}

const CROWDED: Busy = Busy { work: Work::Crowded, notes: false };
/// How long one waits to be told of in a steady load.
const BOUND: Duration = Duration::from_secs(5);

fn at(millis: usize) -> Moment {
    START.after(Duration::from_millis(u64::try_from(millis).unwrap()))
}

fn told(order: Option<Order>) -> Option<TellOrder> {
    match order? {
        Order::Tell(order) => Some(*order),
        other => panic!("{other:?}"),
    }
}

/// Decides all that can be decided, of which nothing but Bindings is to be written now.
fn bindings(core: &mut Core, now: Moment) -> Vec<BindOrder> {
    let mut bound = Vec::new();
    loop {
        match core.decide(now) {
            Next::Order(order) => match *order {
                Order::Bind(order) => bound.push(order),
                other => panic!("{other:?}"),
            },
            Next::Silent => {}
            Next::Idle => return bound,
        }
    }
}

/// A scheduler with so many pods that no node can take, which are all refused.
fn refusing(metrics: &Metrics, pods: usize) -> Core {
    let mut core = begun(counted(&[], metrics), 100_000);
    tell(&mut core, (0..pods).map(|n| pod(&format!("w{n:05}"), "200000", json!({}))));
    assert_eq!(bindings(&mut core, START), []);
    core
}

#[test]
fn nobody_who_waits_to_be_told_of_is_lost_or_tried_again_for_it() {
    let (metrics, pods) = (Metrics::new(), 10_000);
    let mut core = refusing(&metrics, pods);
    assert_eq!((core.untold_count(), core.telling), (pods, 0));
    let mut seen = BTreeSet::new();
    for millis in 0..pods {
        let order = told(core.tell_waiting(at(millis))).expect("he waits");
        assert_eq!(core.take(Message::Told(order.pod.uid.clone()), at(millis)), None);
        assert!(seen.insert(order.pod.uid), "he was told of before");
        assert_eq!(bindings(&mut core, at(millis)), []);
    }
    assert_eq!((core.untold_count(), core.telling), (0, 0));
    let tried = format!(
        "scheduler_schedule_attempts_total{{result=\"unschedulable\",profile=\"{NAME}\"}} {pods}"
    );
    assert!(metrics.render().contains(&tried));
}

/// Has one more pod bound at this time.
fn bind(core: &mut Core, now: Moment) {
    let name = format!("b{}", now.0);
    assert_eq!(core.take(pod(&name, "1", json!({})), now), None);
    for order in bindings(core, now) {
        let bound = Message::Answered(order.errand(), Answer::Definite(Outcome::Bound));
        assert_eq!(core.take(bound, now), None);
    }
}

#[test]
fn a_burst_of_refused_pods_leaves_bindings_their_share() {
    let (pods, seconds) = (10_000, 9);
    let mut core = refusing(&Metrics::new(), pods);
    core.heed(CROWDED);
    let mut count = 0;
    let mut tell_on = |core: &mut Core, now: Moment| {
        while let Some(order) = told(core.tell_waiting(now)) {
            assert_eq!(core.take(Message::Told(order.pod.uid), now), None);
            count += 1;
        }
        count
    };
    for millis in 0..1_000 * seconds {
        bind(&mut core, at(millis));
        let count = tell_on(&mut core, at(millis));
        let due = millis.saturating_sub(4_499);
        assert!(count <= due / 5 + 8, "{count} at {millis}");
        assert!(count >= due / 5, "{count} at {millis}");
    }
    // When nothing is bound any more, nobody has to wait.
    assert_eq!(tell_on(&mut core, at(1_000 * seconds + 250)), pods);
}

#[test]
fn a_pod_that_waits_is_told_of_in_time_while_others_are_bound() {
    let mut core = begun(core(), 100_000);
    core.heed(CROWDED);
    let mut told_of = 0;
    for step in 0..1_200 {
        let now = at(10 * step);
        if step % 10 == 0 {
            tell(&mut core, [pod(&format!("w{step}"), "200000", json!({}))]);
        }
        bind(&mut core, now);
        while let Some(order) = told(core.tell_waiting(now)) {
            let begun: usize = order.pod.name[1..].parse().unwrap();
            assert!(now.since(at(10 * begun)) <= BOUND, "{} at {step}", order.pod.name);
            assert_eq!(core.take(Message::Told(order.pod.uid), now), None);
            told_of += 1;
        }
    }
    assert!(told_of >= 70, "{told_of}: all of the first seven seconds");
}

#[test]
fn a_pod_has_one_place_and_leaves_it_when_it_waits_no_longer() {
    let check = |happens: Vec<Message>, left: usize| {
        let mut core = refusing(&Metrics::new(), 1);
        let later = START.after(Duration::from_secs(400));
        for message in happens {
            assert_eq!(core.take(message, later), None);
            bindings(&mut core, later);
        }
        assert_eq!((core.untold_count(), core.tellings.is_empty()), (left, left == 0));
    };
    let placed = pod("w00000", "200000", json!({ "spec": { "nodeName": "n1" } }));
    check(vec![], 1);
    check(vec![node("n2", 1), node("n3", 1)], 1);
    check(vec![Message::Fact(Fact::PodGone(Uid::new("w00000")))], 0);
    check(vec![placed], 0);
    check(vec![node("n2", 300_000)], 0);
}

#[test]
fn whoever_has_to_go_is_told_at_once() {
    let mut core = deciding(4);
    let with = |priority: i32| json!({ "spec": { "priority": priority } });
    let placed = json!({ "spec": { "nodeName": "n1", "priority": 0 } });
    tell(&mut core, [pod("v", "4", placed), pod("p", "4", with(5)), pod("q", "9", with(9))]);
    let orders = std::iter::from_fn(|| match core.decide(START) {
        Next::Order(order) => Some(Some(*order)),
        Next::Silent => Some(None),
        Next::Idle => None,
    });
    let orders: Vec<_> = orders.flatten().collect();
    assert!(matches!(&orders[..], [Order::Tell(own)] if own.room.is_some()), "{orders:?}");
    assert_eq!(core.untold_count(), 1);
}

#[test]
fn at_the_end_nobody_waits_to_be_told_of() {
    let mut core = refusing(&Metrics::new(), 3);
    tell(&mut core, [Message::Stop]);
    assert_eq!(core.tell_waiting(START), None);
    assert!(core.is_over() && core.untold_count() == 0);
}
