//! Quotas among the facts: some are parents, some are nowhere, and pods name any of them.

use proptest::prelude::*;

use crate::fact::Fact;
use crate::ledger::Ledger;
use crate::quota::{ByResource, Preemptible, QuotaFact};

const NAMES: [&str; 4] = ["a", "b", "c", "default"];

fn amounts(most: i64) -> impl Strategy<Value = ByResource> {
    (0..=most, 0..=most).prop_map(|(cpu, memory)| {
        [("cpu".into(), cpu * 100), ("memory".into(), memory << 20)].into()
    })
}

/// A quota comes, changes or goes.
pub(super) fn fact() -> impl Strategy<Value = Fact> {
    let name = || proptest::sample::select(NAMES.to_vec());
    let parent = proptest::option::weighted(0.5, name());
    let own = (name(), parent, amounts(40), amounts(20), any::<bool>());
    let quota = own.prop_map(|(name, parent, max, min, lists)| {
        let mut fact = QuotaFact { namespace: "default".into(), min, ..QuotaFact::new(name, max) };
        if let Some(parent) = parent {
            fact.parent = parent.into();
        }
        fact.namespaces = lists.then(|| "other".into()).into_iter().collect();
        Fact::Quota(Box::new(fact))
    });
    let gone =
        name().prop_map(|name| Fact::QuotaGone { namespace: "default".into(), name: name.into() });
    prop_oneof![3 => quota, 1 => gone]
}

/// What a pod says of quotas.
pub(super) fn named() -> impl Strategy<Value = (Option<Box<str>>, Preemptible)> {
    let name = proptest::option::of(proptest::sample::select(vec!["a", "b", "gone"]));
    (name, any::<bool>()).prop_map(|(name, may)| {
        let preemptible = if may { Preemptible::Yes } else { Preemptible::No };
        (name.map(Into::into), preemptible)
    })
}

/// All that can be seen of quotas, by names.
pub(super) fn seen(ledger: &mut Ledger) -> Vec<String> {
    let Some(view) = ledger.quotas.forest_mut().view("") else { return Vec::new() };
    let names = NAMES.into_iter().chain(["koordinator-default-quota", "koordinator-root-quota"]);
    let mut told: Vec<String> =
        names.map(|name| format!("{name}: {:?}", view.standing(name))).collect();
    told.extend(view.misplaced().map(|(name, why)| format!("{name}: {why}")));
    for name in NAMES {
        told.push(format!("{name}: {:?}", ledger.quotas.users(name).collect::<Vec<_>>()));
    }
    told
}
