//! A tree of quotas as it is at one moment: who has how much, and who may take more.

use std::collections::{BTreeMap, BTreeSet};

use super::column::{Cell, Column};
use super::placement::{Placement, ROOT, SYSTEM};
use super::tree::Reckoning;
use super::{
    Bound, ByResource, Excess, Limit, Misplaced, Options, Preemptible, QuotaRefusal, RefusalReason,
    Register, amount,
};
use crate::needs::Amounts;

/// A tree at one moment. Whatever it says is of all facts that the tree was told before.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    pub(super) options: Options,
    pub(super) register: &'a Register,
    pub(super) reckoning: &'a Reckoning,
}

/// What somebody uses of a quota, or asks for.
#[derive(Debug, Clone, Copy)]
pub struct Part<'a> {
    /// The quota.
    pub quota: &'a str,
    /// How much.
    pub amounts: &'a Amounts,
}

/// How a quota stands, by resource: of those that it counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standing {
    /// What it asks for: what its pods and the quotas below do, and at least its guarantee where it lends
    /// nothing.
    pub request: ByResource,
    /// What its pods and the quotas below ask for.
    pub child_request: ByResource,
    /// What of its request its ceiling allows.
    pub limited_request: ByResource,
    /// The same without what is asked for by those who could use nothing now: what is divided by.
    pub limited_demand: ByResource,
    /// What its pods and those of the quotas below use.
    pub used: ByResource,
    /// What of the request never makes room for others.
    pub non_preemptible_request: ByResource,
    /// What of the use never does.
    pub non_preemptible_used: ByResource,
    /// How much it may use now.
    pub runtime: ByResource,
    /// What of its guarantee can be kept, of what there is.
    pub scaled_min: ByResource,
    /// What its pods use and the quotas below are guaranteed; nothing is said of it unless what is in use
    /// is not taken back.
    pub allocated: ByResource,
    /// What is not taken back of it; nothing is said of it unless what is in use is not.
    pub guaranteed: ByResource,
    /// What it uses beyond what it is guaranteed now.
    pub borrowed: ByResource,
}

impl<'a> View<'a> {
    /// Which quotas there are.
    #[must_use]
    pub fn register(&self) -> &'a Register {
        self.register
    }

    /// Quotas that are nowhere in the tree, and why: they admit nothing and hold nothing.
    pub fn misplaced(&self) -> impl Iterator<Item = (&'a str, &'a Misplaced)> {
        self.reckoning.placement.misplaced.iter().map(|(name, why)| (&**name, why))
    }

    /// Quotas right below one, by name. Nothing where there is no such quota.
    pub fn below(&self, quota: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        let placement = &self.reckoning.placement;
        let places = placement.find(quota).map(|place| placement.children[place].clone());
        places.into_iter().flatten().map(|place| &*placement.names[place])
    }

    /// What the quotas right below the root share: what the default and the system quota leave.
    #[must_use]
    pub fn shared(&self) -> ByResource {
        let columns = self.reckoning.columns.iter();
        columns.map(|(name, column)| (name.clone(), column.shared())).collect()
    }

    /// How a quota stands; none where it is nowhere in the tree.
    #[must_use]
    pub fn standing(&self, quota: &str) -> Option<Standing> {
        let place = self.reckoning.placement.find(quota)?;
        let mut standing = Standing::default();
        for (name, column) in &self.reckoning.columns {
            // The root and the two that take what they need count everything.
            let counts_all = place == ROOT || Placement::is_apart(place);
            if counts_all || column.cells[place].max.is_some() {
                self.tell(&mut standing, name, column, place);
            }
        }
        Some(standing)
    }

    /// Quotas that use more than they may now, but for the root and the system quota.
    #[must_use]
    pub fn over_used(&self) -> BTreeSet<&'a str> {
        let Reckoning { placement, columns } = self.reckoning;
        let over = columns.values().flat_map(|column| {
            let places = (0..column.cells.len()).filter(|place| !matches!(*place, ROOT | SYSTEM));
            places.filter(move |place| {
                let used = column.cells[*place].sums.used;
                runtime(column, *place).is_some_and(|most| used > i128::from(most))
            })
        });
        over.map(|place| &*placement.names[place]).collect()
    }

    fn tell(&self, standing: &mut Standing, name: &str, column: &Column, place: usize) {
        let cell = &column.cells[place];
        let sums = &cell.sums;
        let mut put = |list: fn(&mut Standing) -> &mut ByResource, own: i128| {
            list(standing).insert(name.into(), amount(own.max(0)));
        };
        put(|own| &mut own.request, cell.request());
        put(|own| &mut own.child_request, sums.request);
        put(|own| &mut own.limited_request, cell.limited_request());
        put(|own| &mut own.limited_demand, cell.limited_demand());
        put(|own| &mut own.used, sums.used);
        put(|own| &mut own.non_preemptible_request, sums.fixed_request);
        put(|own| &mut own.non_preemptible_used, sums.fixed_used);
        if let Some(runtime) = runtime(column, place) {
            put(|own| &mut own.runtime, i128::from(runtime));
        }
        if self.options.guarantees_usage {
            put(|own| &mut own.allocated, cell.allocated);
            put(|own| &mut own.guaranteed, cell.guaranteed());
        }
        if place != ROOT && !Placement::is_apart(place) {
            put(|own| &mut own.scaled_min, i128::from(cell.scaled_min));
            put(|own| &mut own.borrowed, cell.borrowed());
        }
    }

    /// What each quota right below one is guaranteed now and others beside it use, by name: of the
    /// resources that it counts. Nothing where there is no such quota.
    #[must_use]
    pub fn lent_below(&self, parent: &str) -> BTreeMap<&'a str, ByResource> {
        let Reckoning { placement, columns } = self.reckoning;
        let Some(place) = placement.find(parent) else { return BTreeMap::new() };
        let below = &placement.children[place];
        let mut lent: BTreeMap<&'a str, ByResource> = BTreeMap::new();
        for (resource, column) in columns {
            for (at, amount) in below.clone().zip(column.lent_below(place, below)) {
                let own = lent.entry(&placement.names[at]).or_default();
                if column.cells[at].max.is_some() {
                    own.insert(resource.clone(), amount);
                }
            }
        }
        lent
    }

    /// The quotas from one up to the last one below the root. Nothing where it is nowhere.
    pub fn chain(&self, quota: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        let placement = &self.reckoning.placement;
        let places = placement.find(quota).map(|place| placement.chain(place));
        places.into_iter().flatten().map(|place| &*placement.names[place])
    }

    /// Whether a quota uses so much of something that another one wants beyond what it is guaranteed of that now,
    /// and so does every quota above it that is not above the other one: what is taken from it was only lent. What
    /// it uses besides goes with that: who lends one resource gets it back whatever else its user is guaranteed.
    #[must_use]
    pub fn is_borrowed(&self, own: Part<'_>, other: Part<'_>) -> bool {
        self.is_beyond(own, other, |used, amount| used - i128::from(amount))
    }

    /// The same of so much more that a quota does not use yet.
    #[must_use]
    pub fn would_be_borrowed(&self, own: Part<'_>, other: Part<'_>) -> bool {
        self.is_beyond(own, other, |used, _| used)
    }

    /// Whether what a quota uses without its part is as much as it is guaranteed already, of anything that is wanted.
    fn is_beyond(
        &self,
        own: Part<'_>,
        other: Part<'_>,
        without: impl Fn(i128, i64) -> i128,
    ) -> bool {
        let placement = &self.reckoning.placement;
        let (Some(place), Some(theirs)) = (placement.find(own.quota), placement.find(other.quota))
        else {
            return false;
        };
        let above: Vec<usize> = placement.chain(theirs).collect();
        let used = self.counted(place, own.amounts);
        let wanted = self.counted(theirs, other.amounts);
        let is_wanted =
            |used: &Asked<'_>| wanted.iter().any(|wanted| wanted.resource == used.resource);
        let is_beyond = |used: &Asked<'_>| {
            placement.chain(place).filter(|at| !above.contains(at)).all(|at| {
                let cell = &used.column.cells[at];
                let rest = without(cell.sums.used, used.amount);
                cell.max.is_none() || rest >= i128::from(cell.scaled_min)
            })
        };
        !Placement::is_apart(place) && used.iter().any(|used| is_wanted(used) && is_beyond(used))
    }

    /// Whether a quota would use no more than it is guaranteed now with so much more. Of what it does not
    /// count it is guaranteed nothing.
    #[must_use]
    pub fn would_be_guaranteed(&self, own: Part<'_>) -> bool {
        self.is_within(own, |used, amount| used + i128::from(amount))
    }

    /// Whether a quota that uses so much already uses no more of it than it is guaranteed now.
    #[must_use]
    pub fn is_guaranteed(&self, own: Part<'_>) -> bool {
        self.is_within(own, |used, _| used)
    }

    /// Whether what a quota uses with its part is no more than it is guaranteed.
    fn is_within(&self, own: Part<'_>, with: impl Fn(i128, i64) -> i128) -> bool {
        let placement = &self.reckoning.placement;
        let place = placement.find(own.quota).filter(|place| !Placement::is_apart(*place));
        let Some(place) = place else { return false };
        let asked = self.counted(place, own.amounts);
        let is_within = |asked: &Asked<'_>| {
            let cell = &asked.column.cells[place];
            with(cell.sums.used, asked.amount) <= i128::from(cell.scaled_min)
        };
        !asked.is_empty() && asked.iter().all(is_within)
    }

    /// Whether a quota cannot have room for so much however much it may use: this is more than its ceiling or one
    /// above it by itself, or never makes room and is beyond what the quota is guaranteed.
    #[must_use]
    pub fn is_beyond_runtime(&self, own: Part<'_>, preemptible: Preemptible) -> bool {
        let placement = &self.reckoning.placement;
        let Some(place) = placement.find(own.quota).filter(|place| *place != ROOT) else {
            return false;
        };
        let asked = self.counted(place, own.amounts);
        let is_too_large = |asked: &Asked<'_>| {
            let is_above = |max: i64| asked.amount > max;
            placement.chain(place).any(|at| asked.column.cells[at].max.is_some_and(is_above))
        };
        asked.iter().any(is_too_large)
            || preemptible == Preemptible::No
                && self.check(place, place, &asked, Bound::Min).is_err()
    }

    /// Whether a quota has room for so much, and all those above it have.
    ///
    /// # Errors
    /// Who has not, and of what: the one that is asked first, then those above it.
    pub fn admit(
        &self,
        quota: &str,
        request: &Amounts,
        preemptible: Preemptible,
    ) -> Result<(), QuotaRefusal> {
        let placement = &self.reckoning.placement;
        let refuse =
            |reason| QuotaRefusal { quota: quota.into(), path: vec![quota.into()], reason };
        if let Some(why) = placement.misplaced.get(quota) {
            return Err(refuse(RefusalReason::Misplaced(why.clone())));
        }
        // Nothing is charged to the root, as if it were not there.
        let Some(place) = placement.find(quota).filter(|place| *place != ROOT) else {
            return Err(refuse(RefusalReason::Unknown));
        };
        let asked = self.counted(place, request);
        for above in placement.chain(place) {
            // Those that take what they need are held to a ceiling, if to anything. What is guaranteed to
            // quotas below one may be more than its own ceiling.
            if self.options.limit == Limit::Runtime && !Placement::is_apart(above) {
                self.check(place, above, &asked, Bound::Runtime)?;
            }
            self.check(place, above, &asked, Bound::Max)?;
            if above == place && preemptible == Preemptible::No {
                self.check(place, place, &asked, Bound::Min)?;
            }
        }
        Ok(())
    }

    /// Whether what is asked for of one quota fits into it, or into one above it, by such a bound.
    fn check(
        &self,
        place: usize,
        above: usize,
        asked: &[Asked<'_>],
        bound: Bound,
    ) -> Result<(), QuotaRefusal> {
        let names = &self.reckoning.placement.names;
        let excess = |own: &Asked<'_>| {
            let cell = &own.column.cells[above];
            let all_used = cell.sums.used + cell.sums.pledged;
            let (limit, used) = match bound {
                Bound::Runtime => (runtime(own.column, above)?, all_used),
                Bound::Max => (cell.max?, all_used),
                // What it is not guaranteed at all it may use like everybody.
                Bound::Min => {
                    let min = &self.register.get(&names[above])?.min;
                    (*min.get(own.resource)?, cell.sums.fixed_used + cell.sums.fixed_pledged)
                }
            };
            let is_beyond = used + i128::from(own.amount) > i128::from(limit);
            is_beyond.then(|| Excess {
                resource: own.resource.into(),
                limit,
                used: amount(used.max(0)),
                asked: own.amount,
            })
        };
        let excesses: Vec<Excess> = asked.iter().filter_map(excess).collect();
        if excesses.is_empty() {
            return Ok(());
        }
        let chain = self.reckoning.placement.chain(place);
        let mut path: Vec<Box<str>> =
            chain.take_while(|at| *at >= above).map(|at| names[at].clone()).collect();
        path.reverse();
        let reason = RefusalReason::Exceeded { bound, excesses };
        Err(QuotaRefusal { quota: names[above].clone(), path, reason })
    }

    /// What is asked for of the resources that a quota counts.
    fn counted<'b>(&'b self, place: usize, request: &'b Amounts) -> Vec<Asked<'b>> {
        let asked = request.names().filter_map(|name| {
            let (resource, column) = self.reckoning.columns.get_key_value(name)?;
            column.cells[place].max?;
            Some(Asked { resource, column, amount: request.of(name) })
        });
        asked.collect()
    }
}

/// A resource that somebody asks for.
struct Asked<'a> {
    resource: &'a str,
    column: &'a Column,
    amount: i64,
}

/// How much a quota may use now; none where it may use whatever it needs.
fn runtime(column: &Column, place: usize) -> Option<i64> {
    let cell: &Cell = &column.cells[place];
    match place {
        ROOT => Some(column.capacity),
        _ if Placement::is_apart(place) => cell.max,
        _ => cell.max.map(|_| cell.runtime),
    }
}
