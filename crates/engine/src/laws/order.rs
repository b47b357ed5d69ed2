//! Each kind is watched apart: what is told of one kind comes in order, and between kinds there is
//! none. What the facts add up to must not depend on it, nor on a fact that is told twice.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::reservations::RESERVATIONS;
use super::{decider, fact, labels, needs, seen, uid};
use crate::fact::{Fact, StorageFact};
use crate::ledger::Ledger;
use crate::needs::{Needs, Owner, OwnerKind};

/// How many kinds are told apart.
const KINDS: usize = 18;
const FACTS_MAX: usize = 60;

/// Which kind a fact is about. Services and controllers are kinds of their own.
fn kind(fact: &Fact) -> usize {
    match fact {
        Fact::Node(_) | Fact::NodeGone(_) => 0,
        Fact::Reservation(_) => 15,
        Fact::PodGone(gone) if RESERVATIONS.map(uid).any(|uid| uid == *gone) => 15,
        Fact::Pod(_) | Fact::PodGone(_) | Fact::PodFailed(_) => 1,
        Fact::Namespace { .. } | Fact::NamespaceGone(_) => 2,
        Fact::Budget { .. } => 3,
        Fact::Owner { owner, .. } if owner.kind == OwnerKind::Service => 4,
        Fact::Owner { .. } => 5,
        Fact::Storage(StorageFact::Volume(..)) => 6,
        Fact::Storage(StorageFact::Claim(..)) => 7,
        Fact::Storage(StorageFact::Class(..)) => 8,
        Fact::Storage(StorageFact::CsiNode(..)) => 9,
        Fact::Storage(StorageFact::CsiDriver(..)) => 10,
        Fact::Storage(StorageFact::Capacity(..)) => 11,
        Fact::Storage(StorageFact::Attachment(..)) => 12,
        Fact::Load { .. } => 13,
        Fact::Layout { .. } => 14,
        Fact::Quota(_) | Fact::QuotaGone { .. } => 16,
        Fact::Gang { .. } => 17,
    }
}

/// The facts with each kind in its own order, and kinds in any: the moments of a kind are dealt to
/// its facts from the earliest on.
fn interleaved(facts: &[Fact], moments: &[u16]) -> Vec<Fact> {
    let mut own: [Vec<u16>; KINDS] = Default::default();
    for (fact, moment) in facts.iter().zip(moments) {
        own[kind(fact)].push(*moment);
    }
    for moments in &mut own {
        moments.sort_unstable_by(|a, b| b.cmp(a));
    }
    let dealt = facts.iter().map(|fact| (own[kind(fact)].pop(), fact));
    let mut dealt: Vec<_> = dealt.collect();
    dealt.sort_by_key(|(moment, _)| *moment);
    dealt.into_iter().map(|(_, fact)| fact.clone()).collect()
}

/// All that can be seen of a ledger, by names.
pub(super) fn whole(
    mut ledger: Ledger,
    asks: &[Needs],
    like: &BTreeMap<Box<str>, Box<str>>,
) -> Vec<String> {
    let mut told = super::quotas::seen(&mut ledger);
    told.extend(super::gangs::seen(&ledger));
    for namespace in ["default", "other"] {
        for needs in asks {
            let ask = ledger.hold(namespace, like, needs);
            let mut fresh = decider(&mut ledger);
            told.push(format!("{:?}", seen(&ledger, &mut fresh, ask)));
        }
        told.push(format!("{:?}", ledger.budgets.within(namespace).collect::<Vec<_>>()));
        for kind in [OwnerKind::Service, OwnerKind::ReplicaSet] {
            let owner = Owner { kind, name: "web".into() };
            told.push(format!("{:?}", ledger.owners.like(namespace, like, Some(&owner))));
        }
    }
    for number in 0..12 {
        let node = format!("node-{number}");
        told.push(format!("{node} awaits {:?}", ledger.awaited(&node).collect::<Vec<_>>()));
        let place = ledger.nodes.find(&node).filter(|node| ledger.nodes.present().contains(*node));
        let place = place.and_then(|node| ledger.cpus.of(node));
        told.push(format!("{:?}", place.map(|own| (&own.held, own.free, own.bound))));
    }
    for uid in (0..20).map(uid) {
        told.push(format!("{uid:?} is promised {:?}", ledger.nominated(&uid)));
    }
    told
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn kinds_may_arrive_in_any_order_and_facts_twice(
        facts in vec(fact(), 1..FACTS_MAX),
        kinds in Just((0..KINDS).collect::<Vec<_>>()).prop_shuffle(),
        moments in vec(any::<u16>(), FACTS_MAX),
        repeats in vec(any::<bool>(), FACTS_MAX),
        asks in vec(needs(), 1..4),
        like in labels(),
    ) {
        let mut one_after_the_other = facts.clone();
        one_after_the_other.sort_by_key(|fact| kinds[kind(fact)]);
        let twice = facts.iter().zip(repeats).flat_map(|(fact, repeat)| {
            std::iter::repeat_n(fact.clone(), if repeat { 2 } else { 1 })
        });
        let orders = [one_after_the_other, interleaved(&facts, &moments), twice.collect()];
        let ledger = |facts: Vec<Fact>| {
            let mut ledger = Ledger::default();
            // What profiles look at is kept from the first fact on.
            drop(decider(&mut ledger));
            facts.into_iter().for_each(|fact| ledger.apply(fact));
            whole(ledger, &asks, &like)
        };
        let expected = ledger(facts);
        for order in orders {
            prop_assert_eq!(&ledger(order), &expected);
        }
    }
}
