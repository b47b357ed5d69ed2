mod leaving;
mod lent;
mod promised;
mod slices;
mod whole;

use std::collections::BTreeSet;
use std::sync::Arc;

use api::pod_group::{GangId, GangTerms, MatchPolicy};
use object::selector::label::Selector;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::fact::{Budget, DEFAULT_SCHEDULER, Fact, PodFact};
use crate::gangs::{self, Membership};
use crate::profile::Profile;
use crate::quota::{self, ByResource, Preemptible, QuotaFact};
use crate::turn::tests::{START, decided, node, pod, told};
use crate::turn::{Answer, Decision, Settings};

fn engine(last_resorts: &[LastResort]) -> Engine {
    let profile = Profile {
        gangs: Some(gangs::Settings::default()),
        quota: Some(quota::Settings::default()),
        last_resorts: last_resorts.to_vec(),
        ..Profile::kubernetes()
    };
    Engine::new(Settings::default(), vec![(DEFAULT_SCHEDULER.into(), profile)], START)
}

fn jobs() -> Engine {
    engine(&[LastResort::Coscheduling, LastResort::ElasticQuota])
}

fn gang(name: &str, min: u32) -> Fact {
    let terms = GangTerms { min_available: Some(min), ..GangTerms::default() };
    Fact::Gang {
        id: GangId::new("default", name),
        terms: Some(Box::new(terms)),
        has_started: false,
    }
}

fn member(name: &str, of: &str, millis: i64, priority: i32) -> PodFact {
    let gang = GangId::new("default", of);
    let own = Membership { gang, terms: None, created: Moment(0), incarnation: None };
    PodFact { gang: Some(Arc::new(own)), priority, ..pod(name, millis) }
}

fn plain(name: &str, millis: i64, priority: i32) -> PodFact {
    PodFact { priority, ..pod(name, millis) }
}

fn on(fact: PodFact, node: &str) -> Fact {
    told(PodFact { node: Some(node.into()), ..fact })
}

fn quota(text: &str) -> Fact {
    let words: Vec<&str> = text.split(' ').collect();
    let cpu = |word: &str| -> ByResource { [("cpu".into(), word.parse().unwrap())].into() };
    let fact = QuotaFact { min: cpu(words[1]), ..QuotaFact::new(words[0], cpu(words[2])) };
    Fact::Quota(Box::new(fact))
}

fn of_quota(fact: PodFact, quota: &str) -> PodFact {
    PodFact { quota: Some(quota.into()), ..fact }
}

/// Decides all that can be decided: who has to go, and for whom where.
fn cleared(engine: &mut Engine) -> (BTreeSet<String>, Vec<String>, Vec<String>) {
    let (mut victims, mut rooms, mut texts) = (BTreeSet::new(), Vec::new(), Vec::new());
    for _ in 0..1_000 {
        let Some(Decision { pod, verdict, .. }) = engine.decide(START) else {
            if engine.next_due(START).is_some_and(|due| due <= START) {
                continue;
            }
            break;
        };
        if let Verdict::Wait(waiting) = verdict {
            texts.push(waiting.last_resorts.text.clone());
            if let Some(room) = waiting.room() {
                victims.extend(room.victims.iter().map(|one| one.pod.name.to_string()));
                let node = engine.ledger().nodes.name(room.node);
                rooms.push(format!("{} on {node}", pod.name));
            }
        }
        engine.done(&pod.uid, START);
    }
    (victims, rooms, texts)
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn s12_j1_a_gang_gets_as_many_victims_as_it_needs_and_every_member_waits_for_its_node() {
    // Within quotas the same would make room by another rule.
    let mut engine = engine(&[LastResort::Coscheduling]);
    for name in ["node-1", "node-2"] {
        engine.apply(node(name, 32_000), START);
        for number in [1, 2] {
            engine.apply(on(plain(&format!("{name}-{number}"), 16_000, 1), name), START);
        }
    }
    engine.apply(gang("g", 2), START);
    for name in ["a", "b"] {
        engine.apply(told(member(name, "g", 16_000, 1_000)), START);
    }
    let (victims, rooms, texts) = cleared(&mut engine);
    assert_eq!((victims.len(), rooms.len()), (2, 2), "{victims:?} {rooms:?}");
    assert!(texts.iter().all(|own| own == "preempt success, alreadyWaitingForBound: 0/2"));
    for victim in &victims {
        engine.apply(Fact::PodGone(Uid::new(victim)), START);
    }
    let words = decided(&mut engine, START);
    assert_eq!(words.iter().filter(|own| own.contains(" to node-")).count(), 2, "{words:?}");
}

#[test]
fn s12_j2_members_that_have_a_place_keep_it_while_others_go_for_the_rest() {
    let mut engine = jobs();
    engine.apply(node("free", 16_000), START);
    engine.apply(node("full", 16_000), START);
    engine.apply(on(plain("old", 16_000, 1), "full"), START);
    engine.apply(gang("g", 2), START);
    for name in ["a", "b"] {
        engine.apply(told(member(name, "g", 16_000, 1_000)), START);
    }
    let (victims, mut rooms, texts) = cleared(&mut engine);
    assert_eq!(victims, names(&["old"]));
    rooms.sort_unstable();
    assert_eq!(rooms, ["a on free", "b on full"]);
    assert!(texts.iter().all(|own| own == "preempt success, alreadyWaitingForBound: 1/2"));
    // Nobody of lower priority takes what is kept for them.
    engine.apply(told(plain("thief", 16_000, 1)), START);
    let words = decided(&mut engine, START);
    assert!(words.iter().all(|own| !own.starts_with("thief to")), "{words:?}");
}

#[test]
fn s12_j3_s12_j5_s12_j6_where_nobody_may_go_or_it_does_not_help_nobody_goes() {
    let check = |change: fn(&mut PodFact), never: bool, members: usize, expected: &str| {
        let mut engine = jobs();
        engine.apply(node("n", 32_000), START);
        for name in ["x", "y"] {
            let mut old = plain(name, 16_000, 1);
            change(&mut old);
            engine.apply(on(old, "n"), START);
        }
        engine.apply(gang("g", u32::try_from(members).unwrap()), START);
        for name in ["a", "b", "c"].into_iter().take(members) {
            let own = member(name, "g", 16_000, 1_000);
            engine.apply(told(PodFact { may_preempt: !never, ..own }), START);
        }
        let (victims, _, texts) = cleared(&mut engine);
        assert_eq!(victims, names(&[]), "{expected}");
        assert!(texts.iter().all(|own| own.starts_with(expected)), "{expected}: {texts:?}");
    };
    check(|_| {}, true, 2, "preemption: not eligible due to preemptionPolicy=Never.");
    check(|old| old.is_spared = true, false, 2, "preemption: no potential victims");
    check(|old| old.preemptible = Preemptible::No, false, 2, "preemption: no potential victims");
    check(|old| old.priority = 1_000, false, 2, "preemption: no potential victims");
    check(|_| {}, false, 3, "preemption: preemption not helpful");
}

#[test]
fn s12_j4_s12_j7_while_victims_leave_nobody_else_is_asked_to() {
    let mut engine = jobs();
    engine.apply(node("n", 32_000), START);
    for name in ["x", "y"] {
        engine.apply(on(plain(name, 16_000, 1), "n"), START);
    }
    engine.apply(gang("g", 1), START);
    engine.apply(told(member("a", "g", 16_000, 1_000)), START);
    let (victims, ..) = cleared(&mut engine);
    assert_eq!(victims.len(), 1);
    let victim = victims.first().unwrap();
    let leaving = PodFact { deleting: true, giving_way: true, ..plain(victim, 16_000, 1) };
    engine.apply(on(leaving, "n"), START);
    engine.apply(node("n", 32_001), START);
    let (victims, _, texts) = cleared(&mut engine);
    assert_eq!(victims, names(&[]));
    let words = "preemption: not eligible due to terminating pod on the nominated node.";
    assert_eq!(texts, [words]);
    engine.apply(Fact::PodGone(Uid::new(victim)), START);
    assert!(decided(&mut engine, START).iter().any(|own| own.starts_with("a to n")));
}

#[test]
fn a_gang_that_would_have_too_few_left_goes_whole_or_stays_whole() {
    let mut engine = jobs();
    for name in ["n1", "n2", "n3"] {
        engine.apply(node(name, 10_000), START);
    }
    engine.apply(gang("old", 2), START);
    engine.apply(on(member("o1", "old", 10_000, 1), "n1"), START);
    engine.apply(on(member("o2", "old", 10_000, 1), "n2"), START);
    engine.apply(on(plain("single", 10_000, 1), "n3"), START);
    engine.apply(told(plain("one", 10_000, 9)), START);
    assert_eq!(cleared(&mut engine).0, names(&["single"]), "one pod is less than two");
    // A whole gang that is less important goes before one pod that is more.
    let check = |others: &[&str]| {
        let mut engine = jobs();
        for name in ["n1", "n2"].iter().chain(others) {
            engine.apply(node(name, 10_000), START);
        }
        engine.apply(gang("old", 2), START);
        engine.apply(on(member("o1", "old", 10_000, 1), "n1"), START);
        engine.apply(on(member("o2", "old", 10_000, 1), "n2"), START);
        for name in others {
            engine.apply(on(plain("single", 10_000, 5), name), START);
        }
        engine.apply(told(plain("one", 10_000, 9)), START);
        assert_eq!(cleared(&mut engine).0, names(&["o1", "o2"]), "{others:?}");
    };
    check(&["n3"]);
    check(&[]);
}

#[test]
fn those_that_a_disruption_budget_keeps_go_last() {
    let mut engine = jobs();
    for name in ["n1", "n2"] {
        engine.apply(node(name, 10_000), START);
    }
    let mut kept = plain("kept", 10_000, 1);
    kept.labels.insert("app".into(), "web".into());
    engine.apply(on(kept, "n1"), START);
    engine.apply(on(plain("more-important", 10_000, 5), "n2"), START);
    let budget =
        Budget { pods: Selector::from_pairs([("app", "web")]), allowed: 0, going: BTreeSet::new() };
    let (namespace, name) = ("default".into(), "b".into());
    engine.apply(Fact::Budget { namespace, name, budget: Some(budget) }, START);
    engine.apply(told(plain("one", 10_000, 9)), START);
    assert_eq!(cleared(&mut engine).0, names(&["more-important"]));
}

#[test]
fn s12_a9_s12_a10_within_a_quota_pods_of_lower_priority_make_room() {
    let check = |priorities: [i32; 3], expected: &[&str]| {
        let mut engine = engine(&[LastResort::ElasticQuota]);
        engine.apply(node("n", 100_000), START);
        engine.apply(quota("q 6000 6000"), START);
        engine.apply(quota("other 0 6000"), START);
        for (number, priority) in priorities.into_iter().enumerate() {
            let mut own = of_quota(plain(&format!("p{priority}-{number}"), 2_000, priority), "q");
            if number == 0 {
                own.preemptible = Preemptible::No;
            }
            engine.apply(on(own, "n"), START);
        }
        engine.apply(on(of_quota(plain("elsewhere", 2_000, 0), "other"), "n"), START);
        engine.apply(told(of_quota(plain("new", 2_000, 10), "q")), START);
        let (victims, rooms, texts) = cleared(&mut engine);
        assert_eq!(victims, names(expected), "{texts:?}");
        assert_eq!(rooms.len(), expected.len());
        for victim in &victims {
            engine.apply(Fact::PodGone(Uid::new(victim)), START);
        }
        let words = decided(&mut engine, START);
        assert_eq!(words.iter().any(|own| own.starts_with("new to n")), !expected.is_empty());
    };
    check([1, 4, 10], &["p4-1"]);
    check([1, 10, 10], &[]);
}

#[test]
fn s12_a11_what_is_only_lent_is_taken_back_by_whom_it_is_guaranteed_and_no_more() {
    let check = |asked: i64, min: &str, expected: usize| {
        let mut engine = engine(&[LastResort::ElasticQuota]);
        engine.apply(node("n", 10_000), START);
        engine.apply(quota(&format!("owner {min} 10000")), START);
        engine.apply(quota("borrower 5000 10000"), START);
        for number in 0..5 {
            let own = of_quota(plain(&format!("b{number}"), 2_000, 100), "borrower");
            engine.apply(on(own, "n"), START);
        }
        engine.apply(told(of_quota(plain("own", asked, 1), "owner")), START);
        let (victims, _, texts) = cleared(&mut engine);
        assert_eq!(victims.len(), expected, "{asked} of {min}: {victims:?} {texts:?}");
        for victim in &victims {
            engine.apply(Fact::PodGone(Uid::new(victim)), START);
        }
        let words = decided(&mut engine, START);
        assert_eq!(words.iter().any(|own| own.starts_with("own to n")), expected > 0, "{words:?}");
        // Those that had to go come again: they are not guaranteed what they lost.
        for victim in &victims {
            engine.apply(
                told(of_quota(plain(&format!("{victim}-again"), 2_000, 100), "borrower")),
                START,
            );
        }
        assert_eq!(cleared(&mut engine).0, names(&[]), "nobody takes anything back from the owner");
    };
    check(2_000, "5000", 1);
    check(4_000, "5000", 2);
    // It is not guaranteed as much, or the others are.
    check(2_000, "1000", 0);
    check(5_000, "5000", 0);
}

#[test]
fn what_is_lent_of_one_resource_comes_back_whatever_its_user_is_guaranteed_of_others() {
    let with_memory = |mut fact: PodFact, memory: i64| {
        fact.needs.requests.charged.memory_bytes = memory;
        fact.needs.taken = fact.needs.requests.clone();
        fact
    };
    let guaranteed = |name: &str, cpu: i64, memory: i64| {
        let of = |cpu, memory| ByResource::from([("cpu".into(), cpu), ("memory".into(), memory)]);
        let fact = QuotaFact { min: of(cpu, memory), ..QuotaFact::new(name, of(8_000, 1_000)) };
        Fact::Quota(Box::new(fact))
    };
    // The borrower uses 8 CPUs, of which it is guaranteed 2, and 40 of memory, of which it is guaranteed 900.
    let check = |memory: i64, millis: i64, expected: usize| {
        let mut engine = engine(&[LastResort::ElasticQuota]);
        let Fact::Node(mut own) = node("n", 8_000) else { unreachable!() };
        own.allocatable.memory_bytes = memory;
        engine.apply(Fact::Node(own), START);
        engine.apply(guaranteed("owner", 4_000, 100), START);
        engine.apply(guaranteed("borrower", 2_000, 900), START);
        for number in 0..4 {
            let own = with_memory(plain(&format!("b{number}"), 2_000, 100), 10);
            engine.apply(on(of_quota(own, "borrower"), "n"), START);
        }
        let own = with_memory(plain("own", millis, 1), 10);
        engine.apply(told(of_quota(own, "owner")), START);
        let (victims, _, texts) = cleared(&mut engine);
        assert_eq!(victims.len(), expected, "{memory} {millis}: {texts:?}");
    };
    check(1_000, 2_000, 1);
    check(1_000, 4_000, 2);
    check(1_000, 5_000, 0);
    // Memory is what is missing, and that is theirs.
    check(1_000, 0, 0);
    check(45, 0, 0);
}

#[test]
fn who_is_guaranteed_one_resource_gets_it_back_where_there_is_enough_of_the_others() {
    let with_memory = |mut fact: PodFact, memory: i64| {
        fact.needs.requests.charged.memory_bytes = memory;
        fact.needs.taken = fact.needs.requests.clone();
        fact
    };
    let quota = |name: &str, min: &[(&str, i64)]| {
        let min = min.iter().map(|(name, own)| (Box::from(*name), *own)).collect();
        let max = ByResource::from([("cpu".into(), 8_000), ("memory".into(), 100)]);
        Fact::Quota(Box::new(QuotaFact { min, ..QuotaFact::new(name, max) }))
    };
    // The borrower uses all memory, of which the owner is guaranteed 50, and so many CPUs of 8.
    let check = |min: &[(&str, i64)], used: i64, expected: usize| {
        let mut engine = engine(&[LastResort::ElasticQuota]);
        let Fact::Node(mut own) = node("n", 8_000) else { unreachable!() };
        own.allocatable.memory_bytes = 100;
        engine.apply(Fact::Node(own), START);
        engine.apply(quota("owner", min), START);
        engine.apply(quota("borrower", &[]), START);
        for number in 0..4 {
            let own = with_memory(plain(&format!("b{number}"), used / 4, 100), 25);
            engine.apply(on(of_quota(own, "borrower"), "n"), START);
        }
        engine.apply(told(of_quota(with_memory(plain("own", 2_000, 1), 25), "owner")), START);
        let (victims, _, texts) = cleared(&mut engine);
        assert_eq!(victims.len(), expected, "{min:?} {used}: {texts:?}");
    };
    check(&[("memory", 50)], 4_000, 1);
    check(&[("memory", 50), ("cpu", 1_000)], 4_000, 1);
    // The CPUs are not there either, and those it is not guaranteed.
    check(&[("memory", 50)], 8_000, 0);
    check(&[("memory", 50), ("cpu", 2_000)], 8_000, 1);
    check(&[("cpu", 2_000)], 4_000, 0);
}

#[test]
fn a_gang_that_goes_whole_leaves_its_quota_what_that_is_guaranteed() {
    let check = |min: u32, expected: &[&str]| {
        let mut engine = jobs();
        engine.apply(node("n", 10_000), START);
        engine.apply(quota("owner 4000 10000"), START);
        engine.apply(quota("borrower 6000 10000"), START);
        engine.apply(gang("g", min), START);
        for number in 0..4 {
            let own = member(&format!("g{number}"), "g", 2_000, 1);
            engine.apply(on(of_quota(own, "borrower"), "n"), START);
        }
        engine.apply(on(of_quota(plain("single", 2_000, 9), "borrower"), "n"), START);
        engine.apply(told(of_quota(plain("own", 2_000, 1), "owner")), START);
        let (victims, _, texts) = cleared(&mut engine);
        assert_eq!(victims, names(expected), "{min}: {texts:?}");
    };
    // All of the gang would be six too many.
    check(4, &["single"]);
    check(3, &["g0"]);
}

#[test]
fn who_asks_for_nothing_that_quotas_count_takes_nothing_back_and_has_nothing_to_give() {
    let slots = |name: &str| {
        let Fact::Node(own) = node(name, 10_000) else { unreachable!() };
        Fact::Node(crate::fact::NodeFact { pods_allowed: 1, ..own })
    };
    // A node is full by the number of its pods: who has to go for a pod of a that asks for so much?
    let check = |theirs: i64, own: i64, node: Fact, expected: &[&str]| {
        let mut engine = engine(&[LastResort::ElasticQuota]);
        engine.apply(node, START);
        engine.apply(quota("a 5000 9000"), START);
        engine.apply(quota("b 0 10000"), START);
        engine.apply(on(of_quota(plain("theirs", theirs, 9), "b"), "n"), START);
        engine.apply(told(of_quota(plain("own", own, 1), "a")), START);
        let (victims, _, texts) = cleared(&mut engine);
        assert_eq!(victims, names(expected), "{theirs} {own}: {texts:?}");
    };
    check(0, 0, slots("n"), &[]);
    check(0, 1_000, slots("n"), &[]);
    check(1_000, 0, slots("n"), &[]);
    // There is enough of what both ask for: it is not that which is missing.
    check(1_000, 1_000, slots("n"), &[]);
    check(9_500, 1_000, node("n", 10_000), &["theirs"]);
}

#[test]
fn what_is_only_lent_is_taken_back_where_a_quota_above_both_is_full() {
    let mut engine = engine(&[LastResort::ElasticQuota]);
    engine.apply(node("n", 100_000), START);
    let below = |text: &str| {
        let Fact::Quota(mut own) = quota(text) else { unreachable!() };
        own.parent = "org".into();
        Fact::Quota(own)
    };
    engine.apply(quota("org 10000 10000"), START);
    engine.apply(below("owner 4000 8000"), START);
    engine.apply(below("borrower 6000 10000"), START);
    for number in 0..5 {
        let own = of_quota(plain(&format!("b{number}"), 2_000, 100), "borrower");
        engine.apply(on(own, "n"), START);
    }
    engine.apply(told(of_quota(plain("own", 2_000, 1), "owner")), START);
    let (victims, rooms, texts) = cleared(&mut engine);
    assert_eq!((victims.len(), rooms.len()), (1, 1), "{texts:?}");
    for victim in &victims {
        engine.apply(Fact::PodGone(Uid::new(victim)), START);
    }
    assert_eq!(decided(&mut engine, START), ["own to n, try 2"]);
    // Up to what it is guaranteed, and no more.
    engine.apply(told(of_quota(plain("more", 3_000, 1), "owner")), START);
    assert_eq!(cleared(&mut engine).0, names(&[]));
}

#[test]
fn a_budget_is_one_for_all_nodes() {
    let mut engine = jobs();
    for name in ["n1", "n2", "n3"] {
        engine.apply(node(name, 10_000), START);
    }
    for (name, node) in [("kept-1", "n1"), ("kept-2", "n2")] {
        let mut kept = plain(name, 10_000, 1);
        kept.labels.insert("app".into(), "web".into());
        engine.apply(on(kept, node), START);
    }
    engine.apply(on(plain("more-important", 10_000, 5), "n3"), START);
    let budget =
        Budget { pods: Selector::from_pairs([("app", "web")]), allowed: 1, going: BTreeSet::new() };
    let (namespace, name) = ("default".into(), "b".into());
    engine.apply(Fact::Budget { namespace, name, budget: Some(budget) }, START);
    engine.apply(gang("g", 2), START);
    for name in ["a", "b"] {
        engine.apply(told(member(name, "g", 10_000, 9)), START);
    }
    let (victims, ..) = cleared(&mut engine);
    assert!(victims.contains("more-important") && victims.len() == 2, "{victims:?}");
}

#[test]
fn a_gang_that_loses_one_too_many_goes_whole() {
    let mut engine = jobs();
    engine.apply(gang("old", 2), START);
    for number in 1..=3 {
        let node_name = format!("n{number}");
        engine.apply(node(&node_name, 10_000), START);
        engine.apply(on(member(&format!("o{number}"), "old", 10_000, 1), &node_name), START);
    }
    engine.apply(gang("g", 2), START);
    for name in ["a", "b"] {
        engine.apply(told(member(name, "g", 10_000, 9)), START);
    }
    assert_eq!(cleared(&mut engine).0, names(&["o1", "o2", "o3"]));
}

#[test]
fn members_do_not_go_for_each_other() {
    let mut engine = jobs();
    engine.apply(node("n1", 10_000), START);
    engine.apply(node("n2", 10_000), START);
    engine.apply(on(PodFact { is_spared: true, ..plain("old", 10_000, 1) }, "n2"), START);
    engine.apply(gang("g", 2), START);
    for (name, priority) in [("launcher", 100), ("worker", 50), ("worker-2", 50)] {
        engine.apply(told(member(name, "g", 10_000, priority)), START);
    }
    assert_eq!(cleared(&mut engine).0, names(&[]));
}

#[test]
fn no_more_is_taken_back_than_is_lent_wherever_it_is() {
    let check = |min: i64, expected: usize| {
        let mut engine = jobs();
        engine.apply(quota("owner 12000 12000"), START);
        engine.apply(quota(&format!("borrower {min} 12000")), START);
        for number in 0..3 {
            let name = format!("n{number}");
            engine.apply(node(&name, 4_000), START);
            let own = of_quota(plain(&format!("b{number}"), 4_000, 100), "borrower");
            engine.apply(on(own, &name), START);
        }
        // So that guarantees need not shrink.
        engine.apply(node("small", 12_000), START);
        let fill = PodFact { is_spared: true, ..plain("fill", 12_000, 1_000) };
        engine.apply(on(fill, "small"), START);
        engine.apply(gang("g", 3), START);
        for name in ["a", "b", "c"] {
            engine.apply(told(of_quota(member(name, "g", 4_000, 1), "owner")), START);
        }
        let (victims, _, texts) = cleared(&mut engine);
        assert_eq!(victims.len(), expected, "{min}: {victims:?} {texts:?}");
    };
    check(0, 3);
    check(8_000, 0);
}

#[test]
fn what_one_quota_is_guaranteed_is_not_for_members_of_others() {
    let check = |second: &str, expected: usize| {
        let mut engine = engine(&[LastResort::ElasticQuota]);
        for name in ["n0", "n1"] {
            engine.apply(node(name, 4_000), START);
            let own = of_quota(plain(&format!("b-{name}"), 4_000, 100), "borrower");
            engine.apply(on(own, name), START);
        }
        for text in ["owner 8000 8000", "other 0 8000", "borrower 0 8000"] {
            engine.apply(quota(text), START);
        }
        engine.apply(gang("g", 2), START);
        for (name, quota) in [("a", "owner"), ("b", second)] {
            engine.apply(told(of_quota(member(name, "g", 4_000, 1), quota)), START);
        }
        let (victims, _, texts) = cleared(&mut engine);
        assert_eq!(victims.len(), expected, "{second}: {victims:?} {texts:?}");
    };
    check("owner", 2);
    check("other", 0);
}

#[test]
fn who_waits_for_room_in_its_quota_is_not_looked_at_for_ever() {
    let mut engine = engine(&[LastResort::ElasticQuota]);
    engine.apply(node("n", 9_000), START);
    engine.apply(quota("q 0 2000"), START);
    for name in ["x", "y"] {
        engine.apply(on(of_quota(plain(name, 1_000, 1), "q"), "n"), START);
    }
    engine.apply(told(of_quota(plain("own", 2_000, 9), "q")), START);
    assert_eq!(cleared(&mut engine).0, names(&["x", "y"]));
    for fact in [quota("other 0 1000"), Fact::PodGone(Uid::new("x"))] {
        engine.apply(fact, START);
        let turns = (0..100).take_while(|_| {
            engine.decide(START);
            engine.next_due(START).is_some_and(|due| due <= START)
        });
        assert!(turns.count() < 10);
    }
    engine.apply(Fact::PodGone(Uid::new("y")), START);
    assert!(decided(&mut engine, START).iter().any(|own| own.starts_with("own to n")));
}

#[test]
fn room_in_a_quota_is_made_wherever_it_is_used() {
    let mut engine = engine(&[LastResort::ElasticQuota]);
    let below = |text: &str| {
        let Fact::Quota(mut own) = quota(text) else { unreachable!() };
        own.parent = "org".into();
        Fact::Quota(own)
    };
    engine.apply(quota("org 16000 16000"), START);
    engine.apply(below("owner 8000 16000"), START);
    engine.apply(below("borrower 0 16000"), START);
    for number in 0..16 {
        let name = format!("n{}", number / 4);
        engine.apply(node(&name, 16_000), START);
        let own = of_quota(plain(&format!("b{number:02}"), 1_000, 100), "borrower");
        engine.apply(on(own, &name), START);
    }
    engine.apply(told(of_quota(plain("own", 8_000, 1), "owner")), START);
    let (victims, rooms, texts) = cleared(&mut engine);
    assert_eq!((victims.len(), rooms.len()), (8, 1), "{texts:?}");
}

#[test]
fn while_room_is_made_for_a_gang_others_get_nodes() {
    let mut engine = jobs();
    for number in 0..600 {
        let name = format!("n{number:03}");
        engine.apply(node(&name, 10_000), START);
        engine.apply(on(plain(&format!("old-{name}"), 9_000, 1), &name), START);
    }
    engine.apply(gang("g", 2), START);
    for name in ["a", "b"] {
        engine.apply(told(member(name, "g", 20_000, 9)), START);
    }
    engine.apply(told(plain("small", 500, 0)), START);
    let mut order = Vec::new();
    for _ in 0..1_000 {
        if let Some(Decision { pod, verdict, .. }) = engine.decide(START) {
            order.push((pod.name.to_string(), matches!(verdict, Verdict::Bind(..))));
            engine.done(&pod.uid, START);
        }
    }
    assert_eq!(order[0], ("small".to_owned(), true), "{order:?}");
    assert_eq!(order.len(), 3, "the gang hears that there is no room for it");
}

/// Who has to go where somebody comes after so many turns.
fn cleared_beside(mut engine: Engine, turns: usize, late: Fact) -> BTreeSet<String> {
    for _ in 0..turns {
        if let Some(Decision { verdict: Verdict::Wait(waiting), .. }) = engine.decide(START) {
            let room = waiting.room().expect("room is made");
            return room.victims.iter().map(|one| one.pod.name.to_string()).collect();
        }
    }
    engine.apply(late, START);
    cleared(&mut engine).0
}

#[test]
fn a_member_whose_place_somebody_else_takes_gets_another_one_that_others_leave() {
    let mut engine = jobs();
    for name in ["a", "b", "c"] {
        engine.apply(node(name, 16_000), START);
    }
    for name in ["b", "c"] {
        engine.apply(on(plain(&format!("old-{name}"), 16_000, 1), name), START);
    }
    engine.apply(gang("g", 2), START);
    for name in ["one", "two"] {
        engine.apply(told(member(name, "g", 16_000, 1_000)), START);
    }
    engine.apply(told(plain("thief", 16_000, 500)), START);
    let (victims, rooms, texts) = cleared(&mut engine);
    assert_eq!(victims, names(&["old-b", "old-c"]), "{texts:?}");
    assert_eq!(rooms.len(), 2);
}

#[test]
fn whoever_uses_what_was_guaranteed_while_room_is_made_does_not_have_it_fail() {
    for turns in 0..12 {
        let mut engine = engine(&[LastResort::ElasticQuota]);
        engine.apply(node("n", 2_000), START);
        engine.apply(node("m", 500), START);
        engine.apply(quota("q 2000 2000"), START);
        engine.apply(on(of_quota(plain("x", 1_000, 1), "q"), "n"), START);
        engine.apply(on(plain("y", 1_000, 100), "n"), START);
        engine.apply(told(of_quota(plain("own", 1_000, 9), "q")), START);
        let late = on(of_quota(plain("late", 500, 50), "q"), "m");
        assert_eq!(cleared_beside(engine, turns, late), names(&["x"]), "after {turns} turns");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn no_unit_can_be_put_back(
        nodes in vec(2..6_i64, 1..4),
        pods in vec((0..4_usize, 1..4_i64, 0..3_i32), 0..10),
        members in vec(1..5_i64, 1..4),
    ) {
        let mut engine = jobs();
        for (number, millis) in nodes.iter().enumerate() {
            engine.apply(node(&format!("n{number}"), millis * 1_000), START);
        }
        let mut used = vec![0; nodes.len()];
        let mut there = Vec::new();
        for (number, (at, millis, priority)) in pods.into_iter().enumerate() {
            let at = at % nodes.len();
            if used[at] + millis <= nodes[at] {
                used[at] += millis;
                let name = format!("p{number}");
                engine.apply(on(plain(&name, millis * 1_000, priority), &format!("n{at}")), START);
                there.push((name, at, millis));
            }
        }
        engine.apply(gang("g", u32::try_from(members.len()).unwrap()), START);
        for (number, millis) in members.iter().enumerate() {
            engine.apply(told(member(&format!("m{number}"), "g", millis * 1_000, 9)), START);
        }
        let (victims, rooms, _) = cleared(&mut engine);
        if victims.is_empty() {
            return Ok(());
        }
        prop_assert_eq!(rooms.len(), members.len());
        // With the members where they are to go, every node is within what it has, and with any victim put
        // back one is not.
        let load = |back: Option<&str>| {
            let mut load = vec![0; nodes.len()];
            for (name, at, millis) in &there {
                if !victims.contains(name) || back == Some(name) {
                    load[*at] += millis;
                }
            }
            for room in &rooms {
                let (who, at) = room.split_once(" on n").unwrap();
                let number: usize = who[1..].parse().unwrap();
                load[at.parse::<usize>().unwrap()] += members[number];
            }
            load.iter().zip(&nodes).all(|(load, node)| load <= node)
        };
        prop_assert!(load(None));
        for victim in &victims {
            prop_assert!(!load(Some(victim)), "{} need not go: {:?}", victim, rooms);
        }
    }

    #[test]
    fn with_any_victim_back_the_gang_gets_no_nodes(
        nodes in vec(2..6_i64, 1..4),
        pods in vec((0..4_usize, 1..4_i64, 0..3_i32, 0..4_usize), 0..10),
        members in vec(1..5_i64, 1..4),
        max in 4..20_i64,
    ) {
        // Some are of a gang of two, some of the quota of the gang that comes.
        let world = |gone: &BTreeSet<String>| {
            let mut engine = jobs();
            engine.apply(quota(&format!("q 0 {}", max * 1_000)), START);
            engine.apply(gang("old", 2), START);
            for (number, millis) in nodes.iter().enumerate() {
                engine.apply(node(&format!("n{number}"), millis * 1_000), START);
            }
            let mut used = vec![0; nodes.len()];
            for (number, (at, millis, priority, sort)) in pods.iter().enumerate() {
                let (at, name) = (at % nodes.len(), format!("p{number}"));
                if used[at] + millis > nodes[at] {
                    continue;
                }
                used[at] += millis;
                let own = match sort {
                    0 => member(&name, "old", millis * 1_000, *priority),
                    1 => of_quota(plain(&name, millis * 1_000, *priority), "q"),
                    _ => plain(&name, millis * 1_000, *priority),
                };
                if !gone.contains(&name) {
                    engine.apply(on(own, &format!("n{at}")), START);
                }
            }
            engine.apply(gang("g", u32::try_from(members.len()).unwrap()), START);
            for (number, millis) in members.iter().enumerate() {
                let own = member(&format!("m{number}"), "g", millis * 1_000, 9);
                engine.apply(told(of_quota(own, "q")), START);
            }
            engine
        };
        let all_start = |engine: &mut Engine| {
            let words = decided(engine, START);
            let started = words.iter().filter(|own| own.starts_with('m') && own.contains(" to n"));
            started.count() == members.len()
        };
        let mut engine = world(&BTreeSet::new());
        let (victims, ..) = cleared(&mut engine);
        if victims.is_empty() {
            return Ok(());
        }
        for victim in &victims {
            engine.apply(Fact::PodGone(Uid::new(victim)), START);
        }
        prop_assert!(all_start(&mut engine), "{:?} go for nothing", victims);
        // Members of a gang go together where that would have too few left.
        let old: BTreeSet<String> =
            pods.iter().enumerate().filter(|(_, own)| own.3 == 0).map(|(at, _)| format!("p{at}")).collect();
        let are_whole = old.iter().any(|own| victims.contains(own));
        for victim in &victims {
            let unit: BTreeSet<String> = match are_whole && old.contains(victim) {
                true => old.clone(),
                false => [victim.clone()].into(),
            };
            let rest: BTreeSet<String> = victims.difference(&unit).cloned().collect();
            prop_assert!(!all_start(&mut world(&rest)), "{} need not go, of {:?}", victim, victims);
        }
    }
}
