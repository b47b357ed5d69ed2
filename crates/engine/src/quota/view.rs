//! A tree of quotas as it is at one moment: who has how much, and who may take more.

use std::collections::{BTreeMap, BTreeSet};

use super::column::{Cell, Charges, Column};
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
    /// The quotas of all trees.
    pub(super) all: &'a Register,
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

/// What somebody may take back from those who borrow it: as far as his quota is guaranteed that.
#[derive(Debug, Clone, Copy)]
pub enum Claim<'a> {
    /// What he asks for, besides all that is used.
    Asked(Part<'a>),
    /// The same, besides all that is kept for others as well.
    Besides(Part<'a>),
    /// What he uses already.
    Used(Part<'a>),
    /// What is known to be guaranteed.
    Due(Part<'a>),
}

impl<'a> Claim<'a> {
    fn part(self) -> Part<'a> {
        match self {
            Self::Asked(part) | Self::Besides(part) | Self::Used(part) | Self::Due(part) => part,
        }
    }

    /// Whether his quota is guaranteed what he claims of a resource.
    fn is_backed(self, cell: &Cell, resource: &str) -> bool {
        let claimed = self.part().amounts.of(resource);
        let is_within = |used: i128| used <= i128::from(cell.kept_min);
        let is_guaranteed = match self {
            Self::Asked(_) => is_within(cell.sums.used + i128::from(claimed)),
            Self::Besides(_) => is_within(cell.sums.used + cell.sums.pledged + i128::from(claimed)),
            Self::Used(_) => is_within(cell.sums.used),
            Self::Due(_) => true,
        };
        cell.max.is_some() && claimed > 0 && is_guaranteed
    }
}

/// What somebody asks for whose quota is guaranteed some of it: what others have borrowed of that is taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wants {
    /// All that he asks for.
    pub all: Amounts,
    /// What of it his quota is guaranteed.
    pub due: Amounts,
    /// The resources that his quota counts and is not guaranteed as much of: where one of these is what he
    /// lacks, nothing is taken back for him.
    pub undue: Vec<Box<str>>,
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
    /// What of its guarantee can be kept, of what the one above may use or would get if it asked: what it is
    /// guaranteed, whatever those beside it ask for.
    pub kept_min: ByResource,
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

    /// Quotas that are nowhere in the tree, and why: they admit nothing and hold nothing. Of those that are always
    /// there it is only what they say that counts for nothing.
    pub fn misplaced(&self) -> impl Iterator<Item = (&'a str, Misplaced)> + use<'a> {
        let view = *self;
        let misplaced = self.reckoning.placement.misplaced.iter();
        misplaced.map(move |(name, why)| (&**name, view.explained(name, why)))
    }

    /// The same of one quota; none where it has its place.
    #[must_use]
    pub fn why_misplaced(&self, quota: &str) -> Option<Misplaced> {
        let why = self.reckoning.placement.misplaced.get(quota)?;
        Some(self.explained(quota, why))
    }

    /// Why a quota is nowhere: its parent may be in another tree.
    fn explained(&self, name: &str, why: &Misplaced) -> Misplaced {
        if let Misplaced::UnknownParent(parent) = why
            && let Some((own, above)) = self.all.get(name).zip(self.all.get(parent))
        {
            let (tree, of) = (self.all.tree_of(own).into(), self.all.tree_of(above).into());
            return Misplaced::OtherTree { parent: parent.clone(), tree, of };
        }
        why.clone()
    }

    /// A resource that a quota names and that is not reckoned: nothing has it, and quotas name too many such.
    #[must_use]
    pub fn uncounted(&self, quota: &str) -> Option<&'a str> {
        let Reckoning { placement, columns } = self.reckoning;
        placement.find(quota).filter(|_| !placement.misplaced.contains_key(quota))?;
        let mut named = self.register.get(quota)?.max.keys().map(|name| &**name);
        named.find(|name| !columns.contains_key(*name))
    }

    /// Quotas right below one, by name. Nothing where there is no such quota.
    pub fn below(&self, quota: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        let placement = &self.reckoning.placement;
        let places = placement.find(quota).map(|place| placement.children[place].clone());
        places.into_iter().flatten().map(|place| &*placement.names[place])
    }

    /// What the quotas right below one are guaranteed of the resources that it counts, also that which they hand
    /// on.
    pub(super) fn guaranteed_below(
        &self,
        quota: &str,
    ) -> impl Iterator<Item = (&'a str, i64)> + use<'a> {
        let Reckoning { placement, columns } = self.reckoning;
        placement.find(quota).into_iter().flat_map(move |place| {
            let counted = columns.iter().filter(move |(_, own)| own.cells[place].max.is_some());
            counted.flat_map(move |(name, own)| {
                placement.children[place].clone().map(move |at| (&**name, own.cells[at].min))
            })
        })
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
            let cell = &column.cells[place];
            // The root and the two that take what they need count everything that is there or asked for.
            let counts_all = place == ROOT || Placement::is_apart(place);
            let is_anything = || column.capacity != 0 || cell.sums != Charges::default();
            if cell.max.is_some() || counts_all && is_anything() {
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
            put(|own| &mut own.kept_min, i128::from(cell.kept_min));
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

    /// Whether a quota uses so much of something that another one claims beyond what it is guaranteed of that
    /// itself, and so does every quota above it that is not above the other one: what is taken from it was only
    /// lent. What it uses besides goes with that: who lends one resource gets it back whatever else its user is
    /// guaranteed.
    #[must_use]
    pub fn is_borrowed(&self, own: Part<'_>, other: Claim<'_>) -> bool {
        // Where what is in use is guaranteed, nobody gives it back.
        let is_given_back = !self.options.guarantees_usage;
        is_given_back && self.is_beyond(own, other, |used, amount| used - i128::from(amount))
    }

    /// The same of so much more that a quota does not use yet.
    #[must_use]
    pub fn would_be_borrowed(&self, own: Part<'_>, other: Claim<'_>) -> bool {
        self.is_beyond(own, other, |used, _| used)
    }

    /// Whether what a quota uses without its part is as much as it is guaranteed already, of anything that is
    /// claimed.
    fn is_beyond(
        &self,
        own: Part<'_>,
        other: Claim<'_>,
        without: impl Fn(i128, i64) -> i128,
    ) -> bool {
        let Reckoning { placement, columns } = self.reckoning;
        let (Some(place), Some(theirs)) =
            (placement.find(own.quota), placement.find(other.part().quota))
        else {
            return false;
        };
        if Placement::is_apart(place) || Placement::is_apart(theirs) {
            return false;
        }
        // What is above both is as much above the one as above the other. What uses something itself is asked
        // in any case, also where it is above the other one.
        let common: Vec<usize> = placement.chain(theirs).filter(|at| *at != place).collect();
        let is_beyond = |name: &str| {
            let Some(column) = columns.get(name) else { return false };
            let amount = own.amounts.of(name);
            let counts = |at: usize| column.cells[at].max.is_some();
            // What a quota gets for those below is not for its own pods.
            let is_held = |at: usize| counts(at) || column.cells[at].hands_on && at != place;
            let is_lent = |at: usize| {
                let cell = &column.cells[at];
                // Who goes already leaves no less of the guarantee.
                let staying = cell.sums.used - cell.sums.leaving;
                !is_held(at) || without(staying, amount) >= i128::from(cell.kept_min)
            };
            other.is_backed(&column.cells[theirs], name)
                && placement.chain(place).any(counts)
                && placement.chain(place).filter(|at| !common.contains(at)).all(is_lent)
        };
        own.amounts.names().any(is_beyond)
    }

    /// What of so much more may be taken back from those who have borrowed it: the quota is guaranteed some of it,
    /// and in any case that of which it, or one above it, has too little. None where nothing may.
    #[must_use]
    pub fn wants(&self, own: Part<'_>) -> Option<Wants> {
        let Reckoning { placement, columns } = self.reckoning;
        let is_apart = |place: &usize| Placement::is_apart(*place);
        let place = placement.find(own.quota).filter(|place| !is_apart(place))?;
        let (mut due, mut undue) = (Amounts::default(), Vec::new());
        for name in own.amounts.names() {
            let cell = columns.get(name).map(|column| &column.cells[place]);
            match cell.filter(|cell| cell.max.is_some()) {
                Some(cell) if Claim::Besides(own).is_backed(cell, name) => {
                    due.put(name, own.amounts.of(name));
                }
                Some(_) => undue.push(name.into()),
                // Of what it does not count it is guaranteed nothing, and nobody asks.
                None => {}
            }
        }
        let is_due = !due.is_nothing() && !self.options.guarantees_usage;
        let wants = Wants { all: own.amounts.clone(), due, undue };
        (is_due && self.lacks_only_due(own, &wants)).then_some(wants)
    }

    /// Whether all that a quota, or one above it, has too little of is guaranteed.
    fn lacks_only_due(&self, own: Part<'_>, wants: &Wants) -> bool {
        let refusal = self.admit(own.quota, own.amounts, Preemptible::Yes).err();
        match refusal.map(|refusal| refusal.reason) {
            None => true,
            Some(RefusalReason::Exceeded { excesses, .. }) => {
                excesses.iter().all(|excess| !wants.undue.contains(&excess.resource))
            }
            Some(_) => false,
        }
    }

    /// Whether a quota cannot have room for so much however much it may use: this is more than there is, or than its
    /// ceiling or one above it, by itself, or never makes room and is beyond what the quota is guaranteed.
    #[must_use]
    pub fn is_beyond_runtime(&self, claim: Claim<'_>, preemptible: Preemptible) -> bool {
        let (placement, own) = (&self.reckoning.placement, claim.part());
        let Some(place) = placement.find(own.quota).filter(|place| *place != ROOT) else {
            return false;
        };
        let asked = self.asked(own.amounts);
        let is_too_large = |asked: &Asked<'_>| {
            let is_above = |max: i64| asked.amount > max;
            let is_shared = !Placement::is_apart(place) && asked.column.cells[place].has_part();
            is_shared && is_above(asked.column.shared())
                || placement.chain(place).any(|at| asked.column.cells[at].max.is_some_and(is_above))
        };
        asked.iter().any(is_too_large)
            || preemptible == Preemptible::No && self.is_beyond_min(place, &asked, claim)
    }

    /// Whether so much more that never makes room is beyond what a quota is guaranteed.
    fn is_beyond_min(&self, place: usize, asked: &[Asked<'_>], claim: Claim<'_>) -> bool {
        let Some(fact) = self.register.get(&self.reckoning.placement.names[place]) else {
            return false;
        };
        asked.iter().any(|own| {
            let sums = &own.column.cells[place].sums;
            let kept = if let Claim::Besides(_) = claim { sums.fixed_pledged } else { 0 };
            let used = sums.fixed_used + kept + i128::from(own.amount);
            fact.min.get(own.resource).is_some_and(|min| used > i128::from(*min))
        })
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
        let Some(place) = placement.find(quota) else {
            let why = self.why_misplaced(quota).map(RefusalReason::Misplaced);
            return Err(refuse(why.unwrap_or(RefusalReason::Unknown)));
        };
        // Nothing is charged to the root, as if it were not there.
        if place == ROOT {
            return Err(refuse(RefusalReason::Unknown));
        }
        let asked = self.asked(request);
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

    /// Whether what is asked for of one quota fits into it, or into one above it, by such a bound: of the
    /// resources that this one counts.
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

    /// What is asked for of the resources that some quota counts.
    fn asked<'b>(&'b self, request: &'b Amounts) -> Vec<Asked<'b>> {
        let asked = request.names().filter_map(|name| {
            let (resource, column) = self.reckoning.columns.get_key_value(name)?;
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

#[cfg(test)]
mod tests {
    use api::elastic_quota::ROOT_QUOTA;

    use super::*;
    use crate::quota::{Forest, QuotaFact, Settings, Trees};

    #[test]
    fn why_one_quota_has_no_place_is_said_as_it_is_said_of_all() {
        let mut forest = Forest::new(Settings { trees: Trees::Many, ..Settings::default() });
        let quotas = [
            ("inside", "", "pool"),
            ("outside", "", ""),
            ("stray", "outside", "pool"),
            ("below", "stray", "pool"),
            ("orphan", "gone", "pool"),
            ("one", "two", ""),
            ("two", "one", ""),
        ];
        for (name, parent, tree) in quotas {
            let parent = if parent.is_empty() { ROOT_QUOTA } else { parent };
            let (parent, tree_id) = (parent.into(), tree.into());
            forest.put(QuotaFact { parent, tree_id, ..QuotaFact::new(name, ByResource::new()) });
        }
        for (tree, count) in [("pool", 3), ("", 2)] {
            let view = forest.view(tree).unwrap();
            let all: BTreeMap<&str, Misplaced> = view.misplaced().collect();
            assert_eq!(all.len(), count, "{all:?}");
            for (name, ..) in quotas {
                assert_eq!(view.why_misplaced(name).as_ref(), all.get(name), "{name}");
            }
        }
    }
}
