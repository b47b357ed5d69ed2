//! What is charged follows from the pods that are there, whatever came first.

use object::taint::{Effect, Taint};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::fact::{Fact, NodeFact};
use crate::ledger::NodeIndex;
use crate::quota::{ByResource, DefaultQuota, Holder, Tenure, revoke};

const QUOTAS: [&str; 3] = ["a", "b", "koordinator-default-quota"];

fn ledger(settings: Settings) -> Ledger {
    let mut ledger = Ledger::default();
    ledger.keep_quotas(settings);
    for name in ["n0", "n1"] {
        let allocatable = Amounts { cpu_millis: 100_000, ..Amounts::default() };
        let node =
            NodeFact { name: name.into(), allocatable, pods_allowed: 99, ..NodeFact::default() };
        ledger.apply(Fact::Node(node));
    }
    ledger
}

fn quota(name: &str, lists: &str) -> Fact {
    let max: ByResource = [("cpu".into(), 1_000_000)].into();
    let namespaces = Some(lists).filter(|name| !name.is_empty()).map(Into::into);
    Fact::Quota(Box::new(QuotaFact {
        namespaces: namespaces.into_iter().collect(),
        ..QuotaFact::new(name, max)
    }))
}

fn pod(number: u8, named: &str, millis: i64, node: bool) -> PodFact {
    let mut pod = PodFact::new(&format!("p{number}"), "ns", &format!("p{number}"));
    pod.quota = Some(named).filter(|name| !name.is_empty()).map(Into::into);
    pod.needs.requests.charged.cpu_millis = millis;
    pod.needs.taken = pod.needs.requests.clone();
    pod.node = node.then(|| "n0".into());
    pod
}

/// What quotas are charged for, as requests and use.
fn charged(ledger: &mut Ledger) -> Vec<(i64, i64)> {
    let view = ledger.quotas.forest_mut().view("").unwrap();
    let cpu = |list: &ByResource| list.get("cpu").copied().unwrap_or(0);
    let own = QUOTAS.map(|name| view.standing(name).unwrap_or_default());
    own.map(|own| (cpu(&own.child_request), cpu(&own.used))).to_vec()
}

#[test]
fn s12_a19_pods_move_to_their_quota_when_it_appears_and_back_when_it_is_gone() {
    let mut ledger = ledger(Settings::default());
    ledger.apply(Fact::Pod(Box::new(pod(0, "a", 5, true))));
    ledger.apply(Fact::Pod(Box::new(pod(1, "", 7, false))));
    assert_eq!(charged(&mut ledger), [(0, 0), (0, 0), (12, 5)]);
    ledger.apply(quota("a", "ns"));
    assert_eq!(charged(&mut ledger), [(12, 5), (0, 0), (0, 0)]);
    ledger.apply(quota("b", "ns"));
    ledger.apply(quota("a", ""));
    assert_eq!(charged(&mut ledger), [(5, 5), (7, 0), (0, 0)]);
    ledger.apply(Fact::QuotaGone { namespace: "".into(), name: "a".into() });
    assert_eq!(charged(&mut ledger), [(0, 0), (7, 0), (5, 5)]);
}

#[test]
fn s12_a14_who_has_no_node_does_not_go() {
    // Four pods of one quota, and who of them go when it may use nothing any longer.
    let check = |is_placed: [bool; 4], expected: &[&str]| {
        let mut ledger = ledger(Settings::default());
        ledger.apply(quota("a", ""));
        for (number, (millis, is_placed)) in [40, 20, 10, 20].into_iter().zip(is_placed).enumerate()
        {
            let number = u8::try_from(number).unwrap();
            let pod = pod(number, "a", millis, is_placed);
            ledger.apply(Fact::Pod(Box::new(PodFact { priority: 7 + i32::from(number), ..pod })));
        }
        let view = ledger.quotas.forest_mut().view("").unwrap();
        let used = view.standing("a").unwrap().used;
        let users = ledger.quota_users("a");
        let amounts: Vec<Amounts> = users.iter().map(|(.., own)| (*own).clone()).collect();
        let tenure = Tenure::Movable;
        let holders: Vec<Holder<'_>> =
            amounts.iter().map(|amounts| Holder { amounts, tenure }).collect();
        let gone = revoke(&used, &[("cpu".into(), -1)].into(), &holders);
        let gone: Vec<&str> = gone.into_iter().map(|at| &*users[at].1.name).collect();
        assert_eq!(gone, expected, "{is_placed:?}");
    };
    check([true; 4], &["p0", "p1", "p2", "p3"]);
    check([false, true, true, true], &["p1", "p2", "p3"]);
    check([false; 4], &[]);
}

#[test]
fn nodes_that_take_no_pods_are_shared_unless_it_is_said_otherwise() {
    let taint = |key: &str, effect: Effect| {
        let key = key.into();
        Taint { key, value: String::new(), effect: Some(effect), time_added: None }
    };
    let node = |unschedulable: bool, taints: &[Taint]| {
        let allocatable = Amounts { cpu_millis: 100_000, ..Amounts::default() };
        let taints = taints.to_vec().into();
        let plain = NodeFact { name: "n0".into(), pods_allowed: 99, ..NodeFact::default() };
        Fact::Node(NodeFact { allocatable, unschedulable, taints, ..plain })
    };
    let plain = || node(false, &[]);
    let others = [taint("team", Effect::NoSchedule), taint(AWAY[0], Effect::PreferNoSchedule)];
    for (changed, expected) in [
        (node(true, &[]), 100_000),
        (node(false, &[taint(AWAY[0], Effect::NoExecute)]), 100_000),
        (node(false, &[taint(AWAY[1], Effect::NoSchedule)]), 100_000),
        (node(false, &others), 200_000),
        (Fact::NodeGone("n0".into()), 100_000),
    ] {
        for shared in [Shared::AllNodes, Shared::NodesInUse] {
            let mut ledger = ledger(Settings { shared, ..Settings::default() });
            let total = |ledger: &mut Ledger| {
                let view = ledger.quotas.forest_mut().view("").unwrap();
                view.shared()["cpu"]
            };
            let is_gone = matches!(changed, Fact::NodeGone(_));
            let expected = if shared == Shared::AllNodes && !is_gone { 200_000 } else { expected };
            ledger.apply(changed.clone());
            assert_eq!(total(&mut ledger), expected, "{changed:?} {shared:?}");
            ledger.apply(changed.clone());
            assert_eq!(total(&mut ledger), expected, "{changed:?} {shared:?}, told again");
            ledger.apply(plain());
            assert_eq!(total(&mut ledger), 200_000, "{changed:?} {shared:?}, and back");
        }
    }
}

#[test]
fn a_pod_that_is_being_deleted_counts_unless_it_is_said_otherwise() {
    for forgets in [false, true] {
        let settings = Settings { forgets_deleting: forgets, ..Settings::default() };
        let mut ledger = ledger(settings);
        ledger.apply(quota("a", ""));
        let mut pod = pod(0, "a", 5, true);
        pod.deleting = true;
        ledger.apply(Fact::Pod(Box::new(pod)));
        let expected = if forgets { (0, 0) } else { (5, 5) };
        assert_eq!(charged(&mut ledger)[0], expected);
    }
}

#[derive(Debug, Clone)]
enum Step {
    Pod(u8, &'static str, i64, bool),
    Gone(u8),
    Quota(&'static str, &'static str),
    QuotaGone(&'static str),
    Claim(u8),
    Disclaim(u8),
    Pledge(u8),
    Speculate(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let (number, name) = (0..6_u8, proptest::sample::select(vec!["a", "b"]));
    prop_oneof![
        4 => (number.clone(), proptest::sample::select(vec!["a", "b", "gone", ""]), 0..9_i64, any::<bool>())
            .prop_map(|(number, named, millis, node)| Step::Pod(number, named, millis, node)),
        1 => number.clone().prop_map(Step::Gone),
        1 => (name.clone(), proptest::sample::select(vec!["", "ns"])).prop_map(|(name, lists)| Step::Quota(name, lists)),
        1 => name.prop_map(Step::QuotaGone),
        1 => number.clone().prop_map(Step::Claim),
        1 => number.clone().prop_map(Step::Disclaim),
        1 => number.clone().prop_map(Step::Pledge),
        1 => number.prop_map(Step::Speculate),
    ]
}

fn play(ledger: &mut Ledger, step: &Step) {
    let uid = |number: &u8| Uid::new(&format!("p{number}"));
    match step {
        Step::Pod(number, named, millis, node) => {
            ledger.apply(Fact::Pod(Box::new(pod(*number, named, *millis, *node))));
        }
        Step::Gone(number) => {
            ledger.quotas.unpledge(&uid(number));
            ledger.apply(Fact::PodGone(uid(number)));
        }
        Step::Quota(name, lists) => ledger.apply(quota(name, lists)),
        Step::QuotaGone(name) => {
            ledger.apply(Fact::QuotaGone { namespace: "".into(), name: (*name).into() });
        }
        Step::Claim(number) => drop(ledger.claim(&uid(number), NodeIndex::at(1), None)),
        Step::Disclaim(number) => drop(ledger.disclaim(&uid(number))),
        Step::Pledge(number) => {
            if let Some(charged) = ledger.pod(&uid(number)).and_then(PodRow::charged) {
                ledger.quotas.pledge(&uid(number), charged, &ledger.asks.requests);
            }
        }
        Step::Speculate(number) => ledger.speculate(|thought| {
            let _ = thought.evict(&uid(number));
            let _ = thought.place(&uid(number), NodeIndex::at(0), None);
        }),
    }
}

proptest! {
    #[test]
    fn quotas_are_charged_for_the_pods_that_are_there(steps in vec(step(), 0..60)) {
        let mut ledger = ledger(Settings::default());
        for step in &steps {
            play(&mut ledger, step);
            let mut expected = vec![(0, 0); QUOTAS.len()];
            for (_, row) in ledger.pods() {
                let belonging = ledger.quotas.belongings.get(row.belonging.unwrap());
                let Belonging { named, namespace } = belonging;
                let register = ledger.quotas.forest.register();
                let name = crate::quota::belongs(register, named.as_deref(), namespace, DefaultQuota::On);
                let place = QUOTAS.iter().position(|own| Some(*own) == name).unwrap();
                let millis = ledger.asks.requests.get(row.ask.taken).charged.cpu_millis;
                expected[place].0 += millis;
                expected[place].1 += if row.is_placed() { millis } else { 0 };
            }
            // Nobody counts for a quota that is not there.
            for (name, own) in QUOTAS.iter().zip(&mut expected).take(2) {
                if ledger.quotas.forest.register().get(name).is_none() {
                    *own = (0, 0);
                }
            }
            prop_assert_eq!(charged(&mut ledger), expected, "{:?}", step);
        }
        for number in 0..6 {
            play(&mut ledger, &Step::Gone(number));
        }
        prop_assert!(ledger.quotas.is_empty());
        prop_assert!(ledger.quotas.users("a").next().is_none());
    }
}
