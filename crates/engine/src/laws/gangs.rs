//! Gangs among the facts: some are described by objects, some by their pods, and some start together.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::pod_group::{GangId, GangTerms, MatchPolicy};
use proptest::prelude::*;

use crate::fact::Fact;
use crate::gangs::Membership;
use crate::ledger::Ledger;
use crate::moment::Moment;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

fn id(name: &str) -> GangId {
    GangId::new("default", name)
}

fn name() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(NAMES.to_vec())
}

fn terms() -> impl Strategy<Value = Box<GangTerms>> {
    let groups = proptest::collection::btree_set(name(), 0..3);
    let policy = proptest::option::of(Just(MatchPolicy::WaitingAndRunning));
    (proptest::option::weighted(0.9, 0..4_u32), groups, policy).prop_map(|(min, groups, policy)| {
        let groups: BTreeSet<GangId> = groups.into_iter().map(id).collect();
        let own = GangTerms { min_available: min, groups, ..GangTerms::default() };
        Box::new(GangTerms { match_policy: policy, ..own })
    })
}

/// What describes a gang comes, changes or goes.
pub(super) fn fact() -> impl Strategy<Value = Fact> {
    let terms = proptest::option::weighted(0.75, terms());
    (name(), terms).prop_map(|(name, terms)| Fact::Gang { id: id(name), terms, has_started: false })
}

/// What a pod says of its gang.
pub(super) fn member() -> impl Strategy<Value = Option<Arc<Membership>>> {
    let own = (name(), proptest::option::of(terms()), 0..4_u64);
    let own = own.prop_map(|(name, terms, created)| {
        let (gang, created) = (id(name), Moment(created));
        Arc::new(Membership { gang, terms, created, incarnation: None })
    });
    proptest::option::weighted(0.4, own)
}

/// Nothing describes any gang.
pub(super) fn gone() -> impl Iterator<Item = Fact> {
    NAMES.into_iter().map(|name| Fact::Gang { id: id(name), terms: None, has_started: false })
}

/// All that can be seen of gangs and does not follow from what once was.
pub(super) fn seen(ledger: &Ledger) -> Vec<String> {
    let told = NAMES.map(id).map(|gang| {
        let members: Vec<_> = ledger.gangs.members(&gang).collect();
        let (terms, group) = (ledger.gangs.terms(&gang), ledger.group_of(&gang));
        let naming: Vec<_> = ledger.gangs.naming(&gang, None).collect();
        let counts = ledger.gangs.counts(&gang);
        format!("{gang}: {terms:?} {members:?} {counts:?} {group:?} {naming:?}")
    });
    told.into_iter().chain(ledger.gangs.ids().map(GangId::to_string)).collect()
}
