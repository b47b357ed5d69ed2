//! A tree that is reckoned so slowly that nobody can get it wrong: all of it, from the facts, unit by unit.

use std::collections::BTreeMap;

use api::elastic_quota::{DEFAULT_QUOTA, SYSTEM_QUOTA};

use super::*;

/// What is charged to quotas themselves, of one resource.
pub(super) type Charged = BTreeMap<&'static str, Own>;

/// What is charged to a quota itself.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Own {
    /// What is asked for.
    pub(super) request: i64,
    /// What of it could not be used now.
    pub(super) resting: i64,
    /// What is used.
    pub(super) used: i64,
}

/// What of a resource a quota gets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Share {
    /// How much it may use now.
    pub(super) runtime: i64,
    /// What it keeps of its guarantee in any case.
    pub(super) kept: i64,
}

/// One resource of a tree.
pub(super) struct Reference<'a> {
    pub(super) options: Options,
    pub(super) resource: &'a str,
    pub(super) facts: Vec<&'a QuotaFact>,
    pub(super) charged: Charged,
    pub(super) capacity: i64,
}

impl<'a> Reference<'a> {
    fn below(&self, parent: &str) -> Vec<&'a QuotaFact> {
        let always = [ROOT_QUOTA, DEFAULT_QUOTA, SYSTEM_QUOTA];
        let own = self.facts.iter().copied();
        own.filter(|fact| &*fact.parent == parent && !always.contains(&&*fact.name)).collect()
    }

    fn of(&self, list: &ByResource) -> Option<i64> {
        list.get(self.resource).copied()
    }

    /// Whether a quota has a part: it counts the resource, or one below does for which it stands.
    fn has_part(&self, fact: &QuotaFact) -> bool {
        self.of(&fact.max).is_some() || self.below(&fact.name).iter().any(|own| self.has_part(own))
    }

    /// What a quota is guaranteed, and its weight: together those of the quotas below where it does not count the
    /// resource itself.
    fn terms(&self, fact: &QuotaFact) -> (i64, i64) {
        if self.of(&fact.max).is_some() {
            return (self.of(&fact.min).unwrap_or(0), self.of(&fact.weight).unwrap_or(0));
        }
        let below = self.below(&fact.name).into_iter().map(|own| self.terms(own));
        below.fold((0, 0), |sum, own| (sum.0 + own.0, sum.1 + own.1))
    }

    /// What is charged to a quota itself, also where it does not count the resource: one above it may.
    fn own(&self, fact: &QuotaFact) -> Own {
        self.charged.get(&*fact.name).copied().unwrap_or_default()
    }

    fn is_lendable(&self, fact: &QuotaFact) -> bool {
        (fact.is_lendable || self.of(&fact.max).is_none()) && !self.options.guarantees_usage
    }

    /// What is asked for, together with what of it is divided for.
    fn limited(&self, fact: &QuotaFact) -> (i64, i64) {
        let min = self.of(&fact.min).unwrap_or(0);
        let own = self.own(fact);
        let (mut request, mut demand) = (own.request, own.request - own.resting);
        for below in self.below(&fact.name) {
            let more = self.limited(below);
            (request, demand) = (request + more.0, demand + more.1);
        }
        if !self.is_lendable(fact) {
            request = request.max(min);
        }
        let max = self.of(&fact.max).unwrap_or(i64::MAX);
        (request.min(max), demand.max(request.min(min)).min(max))
    }

    fn guaranteed(&self, fact: &QuotaFact) -> i64 {
        let below: i64 = self.below(&fact.name).iter().map(|own| self.guaranteed(own)).sum();
        (below + self.own(fact).used).max(self.of(&fact.min).unwrap_or(0))
    }

    /// What each quota gets that has a part.
    pub(super) fn shares(&self) -> BTreeMap<Box<str>, Share> {
        let used = |name: &str| self.charged.get(name).map_or(0, |own| own.used);
        let shared = self.capacity - used(DEFAULT_QUOTA) - used(SYSTEM_QUOTA);
        let mut shares = BTreeMap::new();
        let root = Share { runtime: shared.max(0), kept: 0 };
        self.divide(ROOT_QUOTA, root, &mut shares);
        shares
    }

    fn divide(&self, parent: &str, above: Share, shares: &mut BTreeMap<Box<str>, Share>) {
        let capacity = above.runtime;
        let below = self.below(parent);
        let sharing: Vec<&QuotaFact> =
            below.iter().filter(|fact| self.has_part(fact)).copied().collect();
        let min = |fact: &QuotaFact| self.terms(fact).0;
        let mins: i64 = sharing.iter().map(|fact| min(fact)).sum();
        let scaled = |fact: &QuotaFact, capacity: i64| {
            let is_short = self.options.scales_min && mins > capacity;
            if is_short { capacity * min(fact) / mins } else { min(fact) }
        };
        let floors = sharing.iter().map(|fact| {
            let scaled = scaled(fact, capacity.max(above.kept));
            let most = self.of(&fact.max).unwrap_or(i64::MAX);
            if self.options.guarantees_usage {
                scaled.max(self.guaranteed(fact).min(most))
            } else {
                scaled
            }
        });
        let members: Vec<(&QuotaFact, i64, i64)> = sharing
            .iter()
            .zip(floors)
            .map(|(fact, floor)| (*fact, self.limited(fact).1, floor))
            .collect();
        for (at, runtime) in self.parts(capacity, &members).into_iter().enumerate() {
            let fact = members[at].0;
            let kept = scaled(fact, capacity.max(above.kept));
            shares.insert(fact.name.clone(), Share { runtime, kept });
        }
        for fact in below {
            let own = shares.get(&fact.name).copied().unwrap_or_default();
            self.divide(&fact.name, own, shares);
        }
    }

    /// What each member gets, given by what it asks for and what it is sure of: in each round unit after unit
    /// goes to who is farthest below his part of it, the first by name where several are.
    fn parts(&self, capacity: i64, members: &[(&QuotaFact, i64, i64)]) -> Vec<i64> {
        let base = |(fact, request, floor): &(&QuotaFact, i64, i64)| {
            if self.is_lendable(fact) { (*request).min(*floor) } else { *floor }
        };
        let mut has: Vec<i64> = members.iter().map(base).collect();
        let weight = |at: usize| self.terms(members[at].0).1;
        loop {
            let rest = capacity - has.iter().sum::<i64>();
            let is_in = |at: &usize| weight(*at) > 0 && members[*at].1 > has[*at];
            let taking: Vec<usize> = (0..members.len()).filter(is_in).collect();
            let weights: i64 = taking.iter().map(|at| weight(*at)).sum();
            if rest <= 0 || taking.is_empty() {
                return has;
            }
            let mut round = vec![0; members.len()];
            for _ in 0..rest {
                let lack = |at: usize| weight(at) * rest - round[at] * weights;
                let next = taking
                    .iter()
                    .copied()
                    .reduce(|best, at| if lack(at) > lack(best) { at } else { best });
                round[next.expect("somebody takes")] += 1;
            }
            for at in taking {
                has[at] = (has[at] + round[at]).min(members[at].1);
            }
        }
    }
}
