mod fair;
mod promised;
mod woken;

use std::collections::BTreeMap;

use super::*;
use crate::fact::{DEFAULT_SCHEDULER, Fact, PodFact};
use crate::preemption::Nominating;
use crate::profile::{LastResort, Profile};
use crate::queue::Standing;
use crate::quota::{self, ByResource, QuotaFact};
use crate::turn::tests::{START, decided, node, pod, told};
use crate::turn::{Answer, Decision, Settings};

fn engine() -> Engine {
    by(Profile::kubernetes())
}

/// One in which pods of a quota make room for others of it.
fn clearing() -> Engine {
    let last_resorts = vec![LastResort::ElasticQuota];
    by(Profile { last_resorts, ..Profile::kubernetes() })
}

fn by(profile: Profile) -> Engine {
    let profile = Profile { quota: Some(quota::Settings::default()), ..profile };
    Engine::new(Settings::default(), vec![(DEFAULT_SCHEDULER.into(), profile)], START)
}

/// A quota as in `child<parent min max`, in thousandths of a CPU; one with `-` says nothing of CPUs.
pub(super) fn quota(text: &str) -> Fact {
    let mut words = text.split(' ');
    let (name, parent) = words.next().unwrap().split_once('<').unwrap();
    let mut cpu = || -> ByResource {
        let amount = words.next().unwrap().parse().ok();
        amount.map(|amount| ("cpu".into(), amount)).into_iter().collect()
    };
    let (min, max) = (cpu(), cpu());
    let mut fact = QuotaFact { min, ..QuotaFact::new(name, max) };
    if !parent.is_empty() {
        fact.parent = parent.into();
    }
    Fact::Quota(Box::new(fact))
}

pub(super) fn member(name: &str, of: &str, millis: i64) -> PodFact {
    PodFact { quota: Some(of.into()), ..pod(name, millis) }
}

fn bound(fact: PodFact) -> Fact {
    told(PodFact { node: Some("n".into()), ..fact })
}

pub(super) fn gone(name: &str) -> Fact {
    Fact::PodGone(Uid::new(name))
}

/// The same as [`decided`], also where something is found out in several turns.
fn all_decided(engine: &mut Engine, now: Moment) -> Vec<String> {
    (0..99).flat_map(|_| decided(engine, now)).collect()
}

#[test]
fn a_pod_over_its_quota_waits_and_wakes_when_there_is_room_and_not_before() {
    let mut engine = engine();
    engine.apply(node("n", 10_000), START);
    engine.apply(quota("a< 0 4000"), START);
    engine.apply(quota("b< 0 4000"), START);
    engine.apply(told(member("first", "a", 3_000)), START);
    engine.apply(told(member("second", "a", 2_000)), START);
    engine.apply(told(member("other", "b", 2_000)), START);
    let full = "second waits, try 1: 0/1 nodes are available: Insufficient quotas, quotaName: a, \
                runtime: cpu 4, used: cpu 3, pod's request: cpu 2, exceedDimensions: [cpu].";
    assert_eq!(decided(&mut engine, START), ["first to n, try 1", "other to n, try 1", full]);
    assert_eq!(engine.queue().standing(&Uid::new("second")), Some(Standing::Waiting));
    // Others come and go: it is none of their business.
    engine.apply(bound(member("other", "b", 2_000)), START);
    engine.apply(gone("other"), START);
    engine.apply(node("m", 10_000), START);
    assert_eq!(decided(&mut engine, START), [""; 0]);
    engine.apply(bound(member("first", "a", 3_000)), START);
    engine.apply(gone("first"), START);
    assert_eq!(decided(&mut engine, START).len(), 1, "it is tried at once");
    assert_eq!((engine.queue().len(), engine.woken_in_vain()), (0, 0));
}

#[test]
fn a_pod_of_which_there_is_news_while_it_waits_wakes_all_the_same() {
    let mut engine = engine();
    engine.apply(node("n", 10_000), START);
    engine.apply(quota("a< 0 4000"), START);
    engine.apply(bound(member("first", "a", 3_000)), START);
    engine.apply(told(member("second", "a", 2_000)), START);
    assert_eq!(decided(&mut engine, START).len(), 1);
    // Somebody looks meanwhile, and the pod is told why it waits, which is news of it.
    assert!(engine.quota_view("").is_some());
    engine.apply(told(PodFact { priority: 3, ..member("second", "a", 2_000) }), START);
    assert_eq!(decided(&mut engine, START), [""; 0]);
    engine.apply(gone("first"), START);
    assert_eq!(decided(&mut engine, START), ["second to n, try 2"]);
}

#[test]
fn as_many_wake_as_fit_and_in_their_order() {
    let mut engine = engine();
    engine.apply(node("n", 100_000), START);
    engine.apply(quota("a< 0 4000"), START);
    engine.apply(told(member("holds", "a", 4_000)), START);
    assert_eq!(decided(&mut engine, START), ["holds to n, try 1"]);
    for (name, priority, millis) in [
        ("low", 0, 1_000),
        ("large", 5, 3_500),
        ("high", 9, 1_000),
        ("mid", 4, 1_000),
        ("more", 3, 1_000),
        ("most", 2, 1_000),
    ] {
        engine.apply(told(PodFact { priority, ..member(name, "a", millis) }), START);
    }
    assert_eq!(decided(&mut engine, START).len(), 6, "each is told once");
    engine.apply(bound(member("holds", "a", 4_000)), START);
    engine.apply(gone("holds"), START);
    let expected = ["high to n, try 2", "mid to n, try 2", "more to n, try 2", "most to n, try 2"];
    assert_eq!(decided(&mut engine, START), expected);
    assert_eq!(engine.woken_in_vain(), 0);
    assert_eq!(engine.queue().parked(), 2);
}

#[test]
fn who_is_refused_by_a_quota_above_wakes_when_that_has_room() {
    let mut engine = engine();
    engine.apply(node("n", 100_000), START);
    for text in ["org< 0 4000", "a<org 0 4000", "b<org 0 4000"] {
        engine.apply(quota(text), START);
    }
    engine.apply(told(member("one", "a", 3_000)), START);
    assert_eq!(decided(&mut engine, START), ["one to n, try 1"]);
    engine.apply(told(member("two", "b", 2_000)), START);
    let words = decided(&mut engine, START);
    assert!(words[0].contains("quotaNameTopo: [org b]"), "{words:?}");
    engine.apply(bound(member("one", "a", 3_000)), START);
    engine.apply(gone("one"), START);
    assert_eq!(decided(&mut engine, START), ["two to n, try 2"]);
}

#[test]
fn s12_a22_who_waits_wakes_when_the_ceiling_is_raised_or_the_pod_is_charged_elsewhere() {
    let mut engine = engine();
    engine.apply(node("n", 100_000), START);
    engine.apply(quota("a< 0 4000"), START);
    engine.apply(quota("b< 0 4000"), START);
    engine.apply(told(member("one", "a", 5_000)), START);
    engine.apply(told(member("two", "a", 6_000)), START);
    assert_eq!(decided(&mut engine, START).len(), 2);
    engine.apply(quota("a< 0 5000"), START);
    assert_eq!(decided(&mut engine, START), ["one to n, try 2"]);
    engine.apply(quota("b< 0 8000"), START);
    assert_eq!(decided(&mut engine, START), [""; 0]);
    engine.apply(told(member("two", "b", 6_000)), START);
    assert_eq!(decided(&mut engine, START), ["two to n, try 2"]);
}

#[test]
fn s12_a21_with_the_chain_checked_who_shares_a_parent_wakes_and_who_does_not_sleeps_on() {
    let mut engine = engine();
    engine.apply(node("n", 100_000), START);
    for text in ["x< 0 4000", "y< 0 4000", "own<x 0 4000", "sister<x 0 4000"] {
        engine.apply(quota(text), START);
    }
    engine.apply(told(member("in-y", "y", 4_000)), START);
    engine.apply(bound(member("in-sister", "sister", 4_000)), START);
    engine.apply(told(member("waits", "own", 1_000)), START);
    let words = decided(&mut engine, START);
    assert_eq!((words.len(), &*words[0]), (2, "in-y to n, try 1"));
    assert!(words[1].contains("quotaNameTopo: [x own]"), "{words:?}");
    engine.apply(bound(member("in-y", "y", 4_000)), START);
    engine.apply(gone("in-y"), START);
    assert_eq!(decided(&mut engine, START), [""; 0], "that of another family is nothing to it");
    engine.apply(gone("in-sister"), START);
    assert_eq!(decided(&mut engine, START), ["waits to n, try 2"]);
}

#[test]
fn a_binding_that_fails_gives_the_quota_back() {
    let mut engine = engine();
    engine.apply(node("n", 100_000), START);
    engine.apply(quota("a< 0 4000"), START);
    engine.apply(told(member("one", "a", 3_000)), START);
    engine.apply(told(member("two", "a", 3_000)), START);
    assert_eq!(decided(&mut engine, START).len(), 2);
    engine.answered(&Uid::new("one"), Answer::Refused, START);
    assert_eq!(decided(&mut engine, START), ["two to n, try 2"]);
}

#[test]
fn what_is_idle_is_lent_and_its_owner_gets_it_before_others_get_more() {
    let mut engine = engine();
    engine.apply(node("n", 10_000), START);
    engine.apply(quota("a< 5000 10000"), START);
    engine.apply(quota("b< 5000 10000"), START);
    engine.apply(told(member("borrows", "b", 8_000)), START);
    assert_eq!(decided(&mut engine, START), ["borrows to n, try 1"]);
    engine.apply(told(member("more", "b", 1_000)), START);
    engine.apply(told(member("owner", "a", 2_000)), START);
    let words = decided(&mut engine, START);
    assert!(
        words[0].starts_with("more waits, try 1: 0/1 nodes are available: Insufficient quotas"),
        "{words:?}"
    );
    assert!(words[1].starts_with("owner to n"), "{words:?}");
}

#[test]
fn pods_of_no_quota_are_held_to_the_ceiling_of_the_default_one() {
    let mut engine = engine();
    engine.apply(node("n", 100_000), START);
    engine.apply(told(pod("free", 50_000)), START);
    assert_eq!(decided(&mut engine, START), ["free to n, try 1"]);
    engine.apply(quota("koordinator-default-quota< 0 51000"), START);
    engine.apply(told(pod("over", 2_000)), START);
    let words = decided(&mut engine, START);
    assert!(words[0].contains("quotaName: koordinator-default-quota, max: cpu 51"), "{words:?}");
}

#[test]
fn what_leaves_a_quota_for_a_pod_is_kept_for_it_until_there_is_enough() {
    let mut engine = clearing();
    engine.apply(node("n", 100_000), START);
    engine.apply(quota("a< 0 4000"), START);
    for name in ["v0", "v1", "v2", "v3"] {
        engine.apply(bound(member(name, "a", 1_000)), START);
    }
    for name in ["r0", "r1", "r2", "r3"] {
        engine.apply(told(member(name, "a", 1_000)), START);
    }
    assert_eq!(all_decided(&mut engine, START).len(), 4, "nobody makes room for those");
    engine.apply(told(PodFact { priority: 9, ..member("large", "a", 4_000) }), START);
    assert_eq!(all_decided(&mut engine, START), ["large waits for v0 and v1 and v2 and v3 to go"]);
    for name in ["v0", "v1", "v2"] {
        engine.apply(gone(name), START);
        assert_eq!(
            all_decided(&mut engine, START),
            [""; 0],
            "what {name} leaves is not for others"
        );
    }
    engine.apply(gone("v3"), START);
    assert_eq!(all_decided(&mut engine, START), ["large to n, try 2"]);
    engine.apply(bound(PodFact { priority: 9, ..member("large", "a", 4_000) }), START);
    engine.apply(gone("large"), START);
    assert_eq!(all_decided(&mut engine, START).len(), 4, "nothing is kept for it any longer");
}

#[test]
fn what_was_kept_for_a_pod_is_there_for_all_when_it_is_gone_or_nobody_goes_for_it() {
    let check = |end: fn(&mut Engine)| {
        let mut engine = clearing();
        engine.apply(node("n", 100_000), START);
        engine.apply(quota("a< 0 4000"), START);
        engine.apply(bound(PodFact { priority: 8, ..member("high", "a", 1_000) }), START);
        for name in ["v0", "v1"] {
            engine.apply(bound(member(name, "a", 1_500)), START);
        }
        engine.apply(told(PodFact { priority: 8, ..member("large", "a", 3_000) }), START);
        let decision = (0..9).find_map(|_| engine.decide(START));
        assert_eq!(decision.expect("a verdict").pod.uid, Uid::new("large"));
        engine.apply(told(member("small", "a", 1_500)), START);
        end(&mut engine);
        engine.apply(gone("v0"), START);
        let words = all_decided(&mut engine, START);
        assert!(words.iter().any(|own| own.starts_with("small to n")), "{words:?}");
    };
    check(|engine| engine.apply(gone("large"), START));
    check(|engine| engine.undone(&Uid::new("large"), START));
    check(|engine| {
        let gated = PodFact { gates: ["later".into()].into(), ..member("large", "a", 3_000) };
        engine.apply(told(PodFact { priority: 8, ..gated }), START);
    });
    check(|engine| {
        // Its quota is smaller by now, so that it would not fit whoever goes.
        let large = Uid::new("large");
        engine.done(&large, START);
        engine.apply(quota("a< 0 3900"), START);
        engine.apply(gone("v1"), START);
        assert!(all_decided(engine, START)[0].starts_with("small waits"));
        assert_eq!(engine.ledger().nominated(&large), Some("n"), "somebody is still to go");
        engine.apply(gone("v0"), START);
        let decision = (0..9).find_map(|_| engine.decide(START)).expect("it is told");
        assert!(matches!(
            decision.verdict,
            Verdict::Wait(why) if why.last_resorts.nominating() == Nominating::Nowhere
        ));
        assert_eq!((decision.pod.uid, engine.ledger().nominated(&large)), (large, None));
    });
}

#[test]
fn what_is_kept_for_a_pod_is_over_when_it_is_charged_otherwise_and_nobody_else_pays_for_it() {
    let check = |change: fn(PodFact) -> PodFact| {
        let mut engine = clearing();
        engine.apply(node("n", 100_000), START);
        for text in ["a< 0 4000", "b< 0 1000", "c< 0 4000"] {
            engine.apply(quota(text), START);
        }
        for name in ["v0", "v1"] {
            engine.apply(bound(member(name, "a", 2_000)), START);
        }
        let of = |namespace: &str, fact| PodFact { namespace: namespace.into(), ..fact };
        let large = PodFact { priority: 9, ..of("x", member("large", "a", 3_000)) };
        engine.apply(told(large.clone()), START);
        let decision = (0..9).find_map(|_| engine.decide(START)).expect("a verdict");
        assert!(matches!(decision.verdict, Verdict::Wait(why) if why.room().is_some()));
        assert!(engine.lots.promises.has(&Uid::new("large")));
        engine.apply(told(change(large)), START);
        assert!(!engine.lots.promises.has(&Uid::new("large")), "it was promised to another one");
        engine.done(&Uid::new("large"), START);
        assert!(engine.ledger().quotas.keeps_what_was_pledged());
        // Somebody comes who is charged as nobody was before.
        engine.apply(told(of("z", member("stranger", "c", 3_000))), START);
        all_decided(&mut engine, START);
        for name in ["large", "v0", "v1", "stranger"] {
            engine.apply(gone(name), START);
            all_decided(&mut engine, START);
            assert!(engine.ledger().quotas.keeps_what_was_pledged(), "{name}");
        }
        assert!(engine.ledger().quotas.is_empty());
    };
    check(|own| PodFact { quota: Some("b".into()), ..own });
    check(|own| PodFact { needs: member("", "", 3_500).needs, ..own });
    check(|own| PodFact { preemptible: quota::Preemptible::No, ..own });
}

/// One in which pods of lower priority make room on nodes, in one of two ways.
fn pushing(way: LastResort) -> Engine {
    by(Profile { last_resorts: vec![way], ..Profile::kubernetes() })
}

fn leaving(engine: &mut Engine, fact: PodFact, node: &str) {
    let node = Some(node.into());
    engine.apply(told(PodFact { deleting: true, giving_way: true, node, ..fact }), START);
}

/// One in which v, of quota o, leaves the only node for p, of quota a.
fn leaving_for_p(way: LastResort) -> Engine {
    let mut engine = pushing(way);
    engine.apply(node("n", 4_000), START);
    engine.apply(quota("a< 4000 4000"), START);
    engine.apply(quota("o< 0 9000"), START);
    engine.apply(bound(member("v", "o", 4_000)), START);
    engine.apply(told(PodFact { priority: 9, ..member("p", "a", 4_000) }), START);
    assert_eq!(all_decided(&mut engine, START), ["p waits for v to go"]);
    assert_eq!(engine.ledger().nominated(&Uid::new("p")), Some("n"));
    leaving(&mut engine, member("v", "o", 4_000), "n");
    engine
}

#[test]
fn whom_others_leave_a_node_for_has_room_in_its_quota_kept_until_it_comes_there() {
    let by_priority = LastResort::DefaultPreemption(crate::preemption::Settings::default());
    for way in [by_priority, LastResort::Coscheduling] {
        let mut engine = leaving_for_p(way);
        engine.apply(node("m", 2_000), START);
        engine.apply(told(member("q", "a", 2_000)), START);
        let words = all_decided(&mut engine, START.after(Duration::from_secs(20)));
        assert!(words.iter().any(|own| own.starts_with("q waits, try 1")), "{words:?}");
        assert!(words.iter().all(|own| !own.contains(" to ")), "{words:?}");
        engine.apply(gone("v"), START);
        let words = all_decided(&mut engine, START.after(Duration::from_secs(40)));
        assert!(words[0].starts_with("p to n"), "{words:?}");
        for name in ["p", "q"] {
            engine.apply(gone(name), START);
        }
        assert!(engine.ledger().quotas.is_empty());
    }
}

#[test]
fn nobody_leaves_a_node_for_a_pod_whose_quota_has_let_in_others_meanwhile() {
    let by_priority = LastResort::DefaultPreemption(crate::preemption::Settings::default());
    let mut engine = pushing(by_priority).with_slices_of(1);
    engine.apply(quota("a< 4000 4000"), START);
    engine.apply(quota("o< 0 90000"), START);
    for name in ["n1", "n2", "n3"] {
        engine.apply(node(name, 4_000), START);
        let own = member(&format!("on-{name}"), "o", 4_000);
        engine.apply(told(PodFact { node: Some(name.into()), ..own }), START);
    }
    engine.apply(told(PodFact { priority: 9, ..member("p", "a", 4_000) }), START);
    assert!(engine.decide(START).is_none(), "it is being found out who may go");
    // Another scheduler gives somebody what its quota had.
    let other = PodFact { node: Some("n1".into()), ..member("q", "a", 100) };
    engine.apply(told(other), START);
    let words = all_decided(&mut engine, START);
    assert_eq!(words.len(), 1, "{words:?}");
    assert!(words[0].contains("Insufficient quotas, quotaName: a"), "{words:?}");
    assert_eq!(engine.queue().parked(), 1);
}

#[test]
fn a_pod_that_its_quota_refuses_keeps_no_node_and_is_told_so() {
    let by_priority = LastResort::DefaultPreemption(crate::preemption::Settings::default());
    let (mut engine, uid) = (leaving_for_p(by_priority), Uid::new("p"));
    engine.apply(quota("a< 3000 3000"), START);
    engine.apply(told(PodFact { priority: 1, ..pod("low", 4_000) }), START);
    engine.apply(gone("v"), START);
    let later = START.after(Duration::from_secs(20));
    let mut nominating = BTreeMap::new();
    let mut to = Vec::new();
    for _ in 0..99 {
        let Some(decision) = engine.decide(later) else { continue };
        let name = decision.pod.name.to_string();
        match &decision.verdict {
            Verdict::Wait(why) => drop(nominating.insert(name, why.last_resorts.nominating())),
            _ => to.push(name),
        }
        engine.done(&decision.pod.uid, later);
    }
    assert_eq!(nominating.get("p"), Some(&Nominating::Nowhere));
    assert_eq!(engine.ledger().nominated(&uid), None);
    assert_eq!(to, ["low"], "others may have the node");
}

#[test]
fn it_is_looked_again_who_makes_room_in_a_quota_when_its_members_change() {
    let mut engine = clearing();
    engine.apply(node("n", 100_000), START);
    engine.apply(quota("a< 0 4000"), START);
    let prior = |fact: PodFact, priority: i32| PodFact { priority, ..fact };
    engine.apply(bound(prior(member("high", "a", 2_000), 9)), START);
    engine.apply(told(prior(member("waits", "a", 3_000), 5)), START);
    assert_eq!(all_decided(&mut engine, START).len(), 1);
    engine.apply(told(member("low", "a", 2_000)), START);
    let words = all_decided(&mut engine, START);
    assert_eq!((words.len(), &*words[0]), (2, "low to n, try 1"), "that low goes is not enough");
    assert!(words[1].starts_with("waits waits, try 2: 0/1 nodes are available"), "{words:?}");
    engine.apply(bound(member("low", "a", 2_000)), START);
    engine.apply(gone("high"), START);
    assert_eq!(all_decided(&mut engine, START), [""; 0], "it is left alone for a while");
    let soon = engine.next_due(START).expect("something is due");
    assert!(soon.since(START) <= Duration::from_secs(2), "it is looked at soon");
    assert_eq!(all_decided(&mut engine, soon), ["waits waits for low to go"]);
    engine.apply(gone("low"), soon);
    assert_eq!(all_decided(&mut engine, soon), ["waits to n, try 4"]);
}

#[test]
fn what_could_use_nothing_now_is_no_reason_to_keep_others_from_what_there_is() {
    // Pods of a that no node takes, or that may not be tried, while b could use all.
    let check = |min: i64, change: fn(&mut PodFact), expected: &[&str]| {
        let mut engine = clearing();
        engine.apply(node("n1", 5_000), START);
        engine.apply(node("n2", 5_000), START);
        engine.apply(quota(&format!("a< {min} 20000")), START);
        engine.apply(quota("b< 0 20000"), START);
        for name in ["stuck-1", "stuck-2", "stuck-3"] {
            let mut own = member(name, "a", 6_000);
            change(&mut own);
            engine.apply(told(own), START);
        }
        let words = all_decided(&mut engine, START);
        assert!(words.iter().all(|own| !own.contains(" to n")), "{words:?}");
        for name in ["b1", "b2", "b3"] {
            engine.apply(told(member(name, "b", 5_000)), START);
        }
        let words = all_decided(&mut engine, START);
        let placed: Vec<&str> =
            words.iter().filter_map(|own| own.split_once(" to n")).map(|own| own.0).collect();
        assert_eq!(placed, expected, "{words:?}");
        // They ask for it all the same, and what of it is guaranteed to them is theirs.
        let view = engine.quota_view("").expect("there is a tree");
        let own = view.standing("a").expect("it has a place");
        assert_eq!((own.child_request["cpu"], own.limited_demand["cpu"]), (18_000, min));
        engine
    };
    check(0, |_| (), &["b1", "b2"]);
    check(0, |own| own.gates = ["later".into()].into(), &["b1", "b2"]);
    check(5_000, |_| (), &["b1"]);
    check(6_000, |_| (), &[]);
    // When they could use it they get it.
    let mut engine = check(5_000, |_| (), &["b1"]);
    let ledger = engine.ledger();
    let taken = ledger.pod(&Uid::new("b1")).and_then(|own| own.node()).expect("it has a node");
    let empty = if ledger.nodes.name(taken) == "n1" { "n2" } else { "n1" };
    engine.apply(Fact::NodeGone(empty.into()), START);
    engine.apply(node("n3", 6_000), START);
    let words = all_decided(&mut engine, START.after(Duration::from_secs(20)));
    assert_eq!(words.iter().filter(|own| own.contains(" to n3")).count(), 1, "{words:?}");
    assert!(words[0].starts_with("stuck-1 to n3"), "{words:?}");
}

#[test]
fn who_only_lacks_the_room_that_others_use_has_a_share_all_the_same() {
    let mut engine = clearing();
    engine.apply(node("n", 10_000), START);
    for quota_of in ["a< 0 20000", "b< 0 20000"] {
        engine.apply(quota(quota_of), START);
    }
    let shares = |engine: &mut Engine| {
        let view = engine.quota_view("").expect("there is a tree");
        ["a", "b"].map(|name| view.standing(name).expect("it has a place").runtime["cpu"])
    };
    for number in 0..10 {
        engine.apply(told(member(&format!("b{number}"), "b", 1_000)), START);
    }
    assert_eq!(all_decided(&mut engine, START).len(), 10);
    assert_eq!(shares(&mut engine), [0, 10_000]);
    // Those of a find no room, and b uses more than its share from now on.
    for number in 0..10 {
        engine.apply(told(member(&format!("a{number}"), "a", 1_000)), START);
    }
    all_decided(&mut engine, START);
    assert_eq!(shares(&mut engine), [5_000, 5_000]);
    // Pods that may not be tried ask for nothing that others could use, also while room is made.
    for number in 0..10 {
        engine.apply(Fact::PodGone(Uid::new(&format!("a{number}"))), START);
        let gated = member(&format!("gated{number}"), "a", 1_000);
        engine.apply(told(PodFact { gates: ["later".into()].into(), ..gated }), START);
    }
    all_decided(&mut engine, START);
    assert_eq!(shares(&mut engine), [0, 10_000]);
    let urgent = PodFact { priority: 9, ..member("urgent", "b", 2_000) };
    engine.apply(told(urgent), START);
    let mut victims = 0;
    for _ in 0..100 {
        let Some(Decision { verdict, .. }) = engine.decide(START) else { continue };
        if let Verdict::Wait(waiting) = verdict {
            victims += waiting.room().map_or(0, |room| room.victims.len());
        }
    }
    assert_eq!(victims, 2, "as many as it needs");
}

/// How many pods of each of these quotas have nodes when all is quiet.
fn placed(engine: &mut Engine, quotas: [&str; 2]) -> [usize; 2] {
    for seconds in [0, 20, 40] {
        all_decided(engine, START.after(Duration::from_secs(seconds)));
    }
    quotas.map(|name| engine.ledger().quota_users(name).len())
}

#[test]
fn who_never_makes_room_and_is_beyond_the_guarantee_keeps_nothing_from_others() {
    let mut engine = clearing();
    engine.apply(node("n", 10_000), START);
    engine.apply(quota("a< 2000 10000"), START);
    engine.apply(quota("b< 0 10000"), START);
    for number in 0..10 {
        let own = member(&format!("a{number}"), "a", 1_000);
        engine.apply(told(PodFact { preemptible: quota::Preemptible::No, ..own }), START);
        engine.apply(told(member(&format!("b{number}"), "b", 1_000)), START);
    }
    assert_eq!(placed(&mut engine, ["a", "b"]), [2, 8]);
    // It is guaranteed more, and others leave.
    engine.apply(quota("a< 4000 10000"), START);
    for number in 0..2 {
        engine.apply(gone(&format!("b{number}")), START);
    }
    assert_eq!(placed(&mut engine, ["a", "b"]), [4, 6]);
    // One that has what is guaranteed leaves, and the next one comes, as it would for any other.
    engine.apply(gone("a0"), START);
    let users = engine.ledger().quota_users("a").len();
    assert_eq!(placed(&mut engine, ["a", "b"])[0], 4, "{users}");
}

#[test]
fn a_pod_larger_than_its_quota_may_ever_use_keeps_nothing_from_others() {
    let mut engine = clearing();
    engine.apply(node("n", 10_000), START);
    engine.apply(quota("a< 0 8000"), START);
    engine.apply(quota("b< 0 10000"), START);
    engine.apply(told(member("huge", "a", 9_000)), START);
    for number in 0..10 {
        engine.apply(told(member(&format!("b{number}"), "b", 1_000)), START);
    }
    assert_eq!(placed(&mut engine, ["a", "b"]), [0, 10]);
    engine.apply(quota("a< 0 9000"), START);
    for number in 0..10 {
        engine.apply(gone(&format!("b{number}")), START);
    }
    assert_eq!(placed(&mut engine, ["a", "b"]), [1, 0], "its quota may use as much by now");
    engine.apply(gone("huge"), START);
    assert!(engine.ledger().quotas.is_empty());
}

#[test]
fn what_rests_and_is_roused_leaves_nothing_behind() {
    let mut engine = clearing();
    engine.apply(node("n", 5_000), START);
    engine.apply(quota("a< 0 20000"), START);
    let demand = |engine: &mut Engine| {
        let view = engine.quota_view("").expect("there is a tree");
        let own = view.standing("a").expect("it has a place");
        (own.child_request["cpu"], own.limited_demand["cpu"])
    };
    engine.apply(node("m", 5_000), START);
    engine.apply(told(member("one", "a", 6_000)), START);
    assert_eq!(demand(&mut engine), (6_000, 6_000));
    assert_eq!(all_decided(&mut engine, START).len(), 1);
    assert_eq!(demand(&mut engine), (6_000, 0));
    engine.apply(told(member("one", "a", 7_000)), START);
    let (all, _) = demand(&mut engine);
    assert_eq!(all, 7_000);
    all_decided(&mut engine, START.after(Duration::from_secs(20)));
    assert_eq!(demand(&mut engine), (7_000, 0));
    // Somebody else gives it a node.
    engine.apply(bound(member("one", "a", 7_000)), START);
    assert_eq!(demand(&mut engine), (7_000, 7_000));
    engine.apply(gone("one"), START);
    assert_eq!(demand(&mut engine), (0, 0));
}

/// One with a node of 500 and a quota that has refused so many pods, each in a lot of its own: all but the last one
/// in their order ask for 1,000 and more, and that for 400.
fn refusing(lots: i64) -> Engine {
    let mut engine = engine();
    engine.apply(node("n", 500), START);
    engine.apply(quota("a< 0 9000"), START);
    engine.apply(bound(member("holds", "a", 200)), START);
    for number in 1..lots {
        let own = member(&format!("large-{number:04}"), "a", 1_000 + number);
        engine.apply(told(PodFact { priority: 9, ..own }), START);
    }
    engine.apply(told(member("small", "a", 400)), START);
    for _ in 0..lots {
        let decision = engine.decide(START).expect("each is told");
        engine.done(&decision.pod.uid, START);
    }
    assert!(engine.decide(START).is_none());
    engine
}

/// In how many turns a pod gets its node, where all but the last find out nothing else.
fn turns_until_placed(engine: &mut Engine, now: Moment) -> usize {
    for turn in 1..99 {
        if let Some(decision) = engine.decide(now) {
            assert_eq!(&*decision.pod.name, "small");
            assert!(matches!(decision.verdict, Verdict::Bind(..)));
            return turn;
        }
        assert_eq!(engine.next_due(now), Some(now), "there are more");
    }
    panic!("it was forgotten");
}

#[test]
fn of_many_lots_of_a_quota_so_many_are_looked_at_in_a_turn_and_the_last_one_as_well() {
    let lots = 3 * WOKEN_MAX + 1;
    let mut engine = refusing(i64::try_from(lots).unwrap());
    engine.apply(gone("holds"), START);
    assert_eq!(turns_until_placed(&mut engine, START), 4);
}

#[test]
fn of_many_lots_that_have_waited_for_too_long_so_many_are_looked_at_in_a_turn() {
    let lots = 3 * OVERDUE_MAX + 1;
    let mut engine = refusing(i64::try_from(lots).unwrap());
    // Nobody hears that there is room.
    engine.apply(gone("holds"), START);
    drop(engine.ledger.quotas.take_freed());
    let later = START.after(Settings::default().queue.wait_max + OVERDUE_INTERVAL);
    assert_eq!(turns_until_placed(&mut engine, later), 4);
}

#[test]
fn of_many_pods_that_are_roused_together_quotas_hear_in_several_turns_and_of_all() {
    let mut engine = engine();
    engine.apply(node("n", 1_500), START);
    engine.apply(quota("a< 0 500"), START);
    engine.apply(quota("b< 1000 1000"), START);
    let other = PodFact { node: Some("n".into()), ..member("other", "b", 1_000) };
    engine.apply(told(other), START);
    let pods = 2 * TURNED_MAX + 9;
    for number in 0..pods {
        engine.apply(told(member(&format!("p{number}"), "a", 1_000)), START);
    }
    let demand = |engine: &mut Engine| {
        let view = engine.ledger.quotas.forest_mut().view("").expect("there is a tree");
        let demand = view.standing("a").expect("it has a place").limited_demand["cpu"];
        usize::try_from(demand / 1_000).unwrap()
    };
    while engine.next_due(START) == Some(START) {
        if let Some(decision) = engine.decide(START) {
            engine.done(&decision.pod.uid, START);
        }
    }
    assert_eq!(demand(&mut engine), 0, "they are larger than their quota may ever use");
    engine.apply(quota("a< 0 90000000"), START);
    let mut heard = vec![demand(&mut engine)];
    while engine.next_due(START) == Some(START) {
        assert!(engine.decide(START).is_none(), "there is no room for any of them");
        heard.push(demand(&mut engine));
    }
    assert!(heard.windows(2).all(|two| two[1] - two[0] <= TURNED_MAX), "{heard:?}");
    assert_eq!(heard.last(), Some(&pods));
}
