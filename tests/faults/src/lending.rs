//! How much quotas may use that lend each other what is idle, and who has to go for others of them: the
//! rules of Koordinator as far as anything here asks for them, written down apart from the engine.

use std::collections::BTreeMap;

use crate::shapes::{Shape, Tenure};
use crate::shares::{Amount, Share, Shares, chain};

/// By how many units the engine's divisions may differ from those here: who gets the units that a division
/// leaves over is not asked here.
const ROUNDING: i64 = 16;

/// What a scheduler is told to do for gangs and quotas, beside starting and counting them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Regime {
    /// Quotas lend each other what is idle; where they do not, only their ceilings count.
    pub lends: bool,
    /// Pods of lower priority make room for gangs, and for pods that are in none.
    pub preempts_for_gangs: bool,
    /// Pods make room within their quota, and give back what it borrowed.
    pub preempts_in_quotas: bool,
    /// Pods have to go whose quota uses for long what others ask for by now.
    pub revokes: bool,
}

/// A pod that quotas are charged for.
#[derive(Debug, Clone, Copy)]
pub struct User<'a> {
    pub shape: &'a Shape,
    /// Whether it has a node; otherwise it only asks for one.
    pub is_placed: bool,
}

/// How a quota stands, with those below it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Account {
    pub request: Amount,
    pub used: Amount,
    /// What of that is used by pods that never make room.
    pub fixed: Amount,
    /// What it is guaranteed of what there is, whatever those beside it ask for.
    pub floor: Amount,
    /// What it may use now.
    pub runtime: Amount,
}

/// All quotas, and how each stands.
#[derive(Debug, Clone, Default)]
pub struct Accounts {
    shares: Shares,
    regime: Regime,
    pub by_name: BTreeMap<String, Account>,
}

/// One resource of an amount.
type Resource = fn(&mut Amount) -> &mut i64;
const RESOURCES: [Resource; 2] = [|own| &mut own.cpu_millis, |own| &mut own.memory_bytes];

fn of(resource: Resource, mut amount: Amount) -> i64 {
    *resource(&mut amount)
}

impl Accounts {
    /// How quotas stand where there is so much in all and these pods are there.
    pub fn reckoned<'a>(
        shares: &Shares,
        regime: Regime,
        capacity: Amount,
        users: impl Iterator<Item = User<'a>>,
    ) -> Self {
        let by_name = shares.keys().map(|name| (name.clone(), Account::default())).collect();
        let mut own = Self { shares: shares.clone(), regime, by_name };
        let mut alone = Amount::default();
        for User { shape, is_placed } in users {
            let amount = Amount::of(shape);
            let names = own.chain(shape);
            if names.is_empty() && is_placed {
                alone += amount;
            }
            for (name, is_own) in names.iter().zip([true].into_iter().chain([false; 8])) {
                let account = own.by_name.entry(name.clone()).or_default();
                account.request += if is_own { amount } else { Amount::default() };
                account.used += if is_placed { amount } else { Amount::default() };
                let is_fixed = is_placed && shape.tenure == Tenure::Fixed;
                account.fixed += if is_fixed { amount } else { Amount::default() };
            }
        }
        for resource in RESOURCES {
            own.ask_above(resource);
            let left = of(resource, capacity) - of(resource, alone);
            own.divide(resource, None, (left.max(0), 0));
        }
        own
    }

    /// The quota of a pod and those above it.
    fn chain(&self, shape: &Shape) -> Vec<String> {
        let names = chain(&self.shares, shape.quota.unwrap_or_default()).into_iter();
        names.map(|share| share.name.clone()).collect()
    }

    fn below(&self, parent: Option<&str>) -> Vec<Share> {
        let all = self.shares.values().filter(|share| share.parent.as_deref() == parent);
        all.cloned().collect()
    }

    /// Quotas ask those above for what their ceilings allow. Here no quota is two above another.
    fn ask_above(&mut self, resource: Resource) {
        for share in self.shares.values() {
            let asked = of(resource, self.by_name[&share.name].request);
            let above = share.parent.as_ref().and_then(|name| self.by_name.get_mut(name));
            if let Some(above) = above {
                *resource(&mut above.request) += asked.min(of(resource, share.max));
            }
        }
    }

    /// Divides what there is among the quotas below one: each has what it asks for of what it is
    /// guaranteed; what is left goes to those who ask for more, in proportion to their ceilings, and what one
    /// of them does not need goes around again. What is kept for them below the one above is theirs also where
    /// that has less now, since they ask for less.
    fn divide(&mut self, resource: Resource, parent: Option<&str>, (capacity, kept): (i64, i64)) {
        let below = self.below(parent);
        let floors = self.floors(resource, &below, capacity);
        let asks = |share: &Share| {
            of(resource, self.by_name[&share.name].request).min(of(resource, share.max))
        };
        let asks: Vec<i64> = below.iter().map(asks).collect();
        let mut parts: Vec<i64> =
            asks.iter().zip(&floors).map(|(ask, floor)| *ask.min(floor)).collect();
        let mut left = i128::from((capacity - parts.iter().sum::<i64>()).max(0));
        let mut hungry: Vec<usize> =
            (0..below.len()).filter(|at| asks[*at] > floors[*at]).collect();
        // Each time but the last somebody has enough.
        for _ in 0..=below.len() {
            let weight = |at: &usize| i128::from(of(resource, below[*at].max));
            let sum: i128 = hungry.iter().map(weight).sum::<i128>().max(1);
            let mut over = 0;
            for at in &hungry {
                let share = left * weight(at) / sum;
                let missing = i128::from(asks[*at] - parts[*at]);
                parts[*at] += i64::try_from(share.min(missing)).unwrap_or(0);
                over += (share - missing).max(0);
            }
            hungry.retain(|at| parts[*at] < asks[*at]);
            left = over;
        }
        let kept = self.floors(resource, &below, capacity.max(kept));
        for (at, share) in below.iter().enumerate() {
            let lends = self.regime.lends;
            let runtime = if lends { parts[at] } else { of(resource, share.max) };
            if let Some(account) = self.by_name.get_mut(&share.name) {
                *resource(&mut account.floor) = kept[at];
                *resource(&mut account.runtime) = runtime;
            }
            self.divide(resource, Some(&share.name), (runtime, kept[at]));
        }
    }

    /// What quotas side by side are guaranteed: where there is less than that in all, it shrinks.
    fn floors(&self, resource: Resource, below: &[Share], capacity: i64) -> Vec<i64> {
        let mins = below.iter().map(|share| of(resource, share.min));
        let sum: i64 = mins.clone().sum();
        if sum <= capacity || !self.regime.lends {
            return mins.collect();
        }
        let part = |min: i64| i128::from(capacity) * i128::from(min) / i128::from(sum);
        mins.map(|min| i64::try_from(part(min)).unwrap_or(min)).collect()
    }

    /// The quota that one more pod goes beyond of what it may use, in words.
    pub fn overdraws(&self, shape: &Shape) -> Option<String> {
        self.excess((shape, 1), Amount::of_each(ROUNDING))
    }

    /// Whether the quota of so many pods that ask the same has room for all, and those above it have,
    /// however divisions are rounded.
    pub fn has_room(&self, pods: (&Shape, usize)) -> bool {
        self.excess(pods, Amount::of_each(-ROUNDING)).is_none()
    }

    fn excess(&self, (shape, count): (&Shape, usize), slack: Amount) -> Option<String> {
        let more = (0..count).fold(Amount::default(), |sum, _| sum + Amount::of(shape));
        for (place, name) in self.chain(shape).iter().enumerate() {
            let (share, own) = (&self.shares[name], &self.by_name[name]);
            let is_over = !(own.used + more).is_within(own.runtime + slack)
                || !(own.used + more).is_within(share.max);
            let is_fixed = place == 0 && shape.tenure == Tenure::Fixed;
            if is_over || is_fixed && !(own.fixed + more).is_within(share.min) {
                return Some(format!("{own:?} of {share:?}, and {more:?} more"));
            }
        }
        None
    }

    /// Whether a pod would use only what its quota is guaranteed, of anything that it asks for.
    pub fn is_guaranteed(&self, shape: &Shape) -> bool {
        RESOURCES.into_iter().any(|resource| self.is_guaranteed_of(resource, shape))
    }

    fn is_guaranteed_of(&self, resource: Resource, shape: &Shape) -> bool {
        let own = shape.quota.and_then(|name| self.by_name.get(name));
        let asked = of(resource, Amount::of(shape));
        own.is_some_and(|own| {
            asked > 0 && of(resource, own.used) + asked <= of(resource, own.floor) + ROUNDING
        })
    }

    /// Quotas that would use less than they are guaranteed without these pods, which go for another quota, of
    /// everything that is asked for and guaranteed: what is taken from them nobody had lent them. Those above both give nothing
    /// away.
    pub fn robbed(&self, victims: &[&Shape], asker: &Shape) -> Option<String> {
        let theirs = self.chain(asker);
        let mut gone: BTreeMap<String, Amount> = BTreeMap::new();
        for victim in victims {
            for name in self.chain(victim).into_iter().filter(|name| !theirs.contains(name)) {
                *gone.entry(name).or_default() += Amount::of(victim);
            }
        }
        let is_robbed = |(name, gone): &(&String, &Amount)| {
            let own = self.by_name[*name];
            let is_lent = |resource: Resource| {
                let rest = of(resource, own.used) - of(resource, **gone) + ROUNDING;
                let is_due = self.is_guaranteed_of(resource, asker) && of(resource, **gone) > 0;
                is_due && rest >= of(resource, own.floor)
            };
            !RESOURCES.into_iter().any(is_lent)
        };
        let (name, gone) = gone.iter().find(is_robbed)?;
        Some(format!("{gone:?} are taken of {name}, which stands at {:?}", self.by_name[name]))
    }

    /// Whether a quota may be using more than it may now, were so much of it free.
    pub fn may_be_over(&self, name: &str, free: Amount) -> bool {
        self.excess_of(name, Amount::of_each(ROUNDING) - free)
    }

    /// Whether a quota uses more than it may now, however divisions are rounded.
    pub fn is_over(&self, name: &str) -> bool {
        self.excess_of(name, Amount::of_each(-ROUNDING))
    }

    fn excess_of(&self, name: &str, more: Amount) -> bool {
        self.by_name.get(name).is_some_and(|own| !(own.used + more).is_within(own.runtime))
    }

    /// How a quota that is said to stand like this differs from that. What it may use is compared where nobody
    /// waits: pods that no node takes are not divided for, and which these are is not known here.
    pub fn differs(&self, name: &str, told: &Account) -> Option<String> {
        let own = self.by_name.get(name)?;
        let waits = self.by_name.values().any(|own| own.request != own.used);
        let is_near = |one: Amount, other: Amount| {
            let slack = Amount::of_each(ROUNDING);
            one.is_within(other + slack) && other.is_within(one + slack)
        };
        let is_same = own.used == told.used
            && own.request == told.request
            && (waits || is_near(own.runtime, told.runtime));
        (!is_same).then(|| format!("quota {name} stands at {own:?}, not {told:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::Draw;
    use crate::shares::ORG;

    const LENDS: Regime = Regime {
        lends: true,
        preempts_for_gangs: false,
        preempts_in_quotas: false,
        revokes: false,
    };

    fn share(name: &str, parent: Option<&str>, (min, max): (i64, i64)) -> (String, Share) {
        let parent = parent.map(str::to_owned);
        let (min, max) = (Amount::of_each(min), Amount::of_each(max));
        (name.to_owned(), Share { name: name.to_owned(), parent, min, max })
    }

    fn pod(quota: &'static str, cpu_millis: i64) -> Shape {
        let drawn = Shape::of_members(&mut Draw::new(1, "lending"));
        Shape { quota: Some(quota), cpu_millis, memory_mega: 0, tenure: Tenure::Movable, ..drawn }
    }

    /// How much CPU quotas may use, of so much, where this is asked for.
    fn check(capacity: i64, asked: &[(&'static str, i64)], expected: &[(&str, i64)]) {
        let shares: Shares = [
            share(ORG, None, (400, 1000)),
            share("team-a", Some(ORG), (200, 600)),
            share("team-b", Some(ORG), (200, 300)),
            share("lone", None, (100, 1000)),
        ]
        .into();
        let pods: Vec<Shape> = asked.iter().map(|(quota, cpu)| pod(quota, *cpu)).collect();
        let users = pods.iter().map(|shape| User { shape, is_placed: false });
        let own = Accounts::reckoned(&shares, LENDS, Amount::of_each(capacity), users);
        for (name, runtime) in expected {
            assert_eq!(own.by_name[*name].runtime.cpu_millis, *runtime, "{name} {asked:?}");
        }
    }

    #[test]
    fn what_is_idle_goes_to_those_who_ask_for_more() {
        check(1000, &[("team-a", 300)], &[(ORG, 300), ("team-a", 300), ("lone", 0)]);
        check(1000, &[("team-a", 900), ("lone", 900)], &[("team-a", 600), ("lone", 400)]);
        check(600, &[("team-a", 900), ("team-b", 200)], &[("team-a", 400), ("team-b", 200)]);
        // Of 500 left each gets half, and of the org's 650 what its teams leave each other.
        let all = [("team-a", 900), ("team-b", 900), ("lone", 900)];
        check(1000, &all, &[(ORG, 650), ("lone", 350), ("team-a", 366), ("team-b", 283)]);
    }

    #[test]
    fn what_is_guaranteed_is_so_however_little_those_beside_it_ask_for() {
        let shares: Shares = [
            share(ORG, None, (400, 1000)),
            share("team-a", Some(ORG), (200, 600)),
            share("team-b", Some(ORG), (200, 300)),
        ]
        .into();
        let pods = [pod("team-a", 150)];
        let users = pods.iter().map(|shape| User { shape, is_placed: true });
        let own = Accounts::reckoned(&shares, LENDS, Amount::of_each(1000), users);
        let floor = |name: &str| own.by_name[name].floor.cpu_millis;
        assert_eq!([floor(ORG), floor("team-a"), floor("team-b")], [400, 200, 200]);
    }

    #[test]
    fn guarantees_shrink_where_there_is_too_little() {
        check(250, &[("team-a", 900), ("lone", 900)], &[(ORG, 200), ("team-a", 200), ("lone", 50)]);
    }
}
