//! A tree of quotas: what it is told, and what that adds up to.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use api::elastic_quota::{DEFAULT_QUOTA, SYSTEM_QUOTA};

use super::account::{Account, Entry};
use super::column::{Cell, Charge, Charges, Column};
use super::placement::{Placement, ROOT};
use super::{ByResource, Preemptible, QuotaFact, QuotaRefusal, Register, View};
use crate::needs::Amounts;

/// How many resources are reckoned beside those that there are: for each there is a cell of every quota.
pub const OTHER_RESOURCES_MAX: usize = 128;

/// What quotas are held to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Limit {
    /// What each may use now, of what there is.
    #[default]
    Runtime,
    /// Their ceilings, whatever there is.
    Max,
}

/// How a tree is reckoned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// What quotas are held to.
    pub limit: Limit,
    /// Whether guarantees shrink where there is less than they add up to.
    pub scales_min: bool,
    /// Whether what is in use is not taken back when others ask for it; nobody lends anything then.
    pub guarantees_usage: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { limit: Limit::Runtime, scales_min: true, guarantees_usage: false }
    }
}

/// A tree of quotas. Facts may come in any order: what is charged to a quota that nobody has told of yet
/// counts as soon as it is there. Only what has changed is reckoned anew, and only when somebody asks.
#[derive(Debug, Clone, Default)]
pub struct QuotaTree {
    options: Options,
    register: Register,
    /// What there is in all.
    capacity: ByResource,
    /// What is charged to each quota itself, by its name.
    accounts: BTreeMap<Box<str>, Account>,
    /// What all this adds up to; none while quotas have changed since.
    reckoning: Option<Reckoning>,
    /// Whether any quota may have more room than when this was last asked.
    is_all_freed: bool,
}

/// Quotas that may have more room than when this was last asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Freed {
    /// All of them: they are others now.
    All,
    /// These, by name.
    These(BTreeSet<Box<str>>),
}

impl Freed {
    /// Whether none has.
    #[must_use]
    pub fn is_nobody(&self) -> bool {
        matches!(self, Self::These(quotas) if quotas.is_empty())
    }
}

/// What a tree adds up to: where quotas are, and a column for each resource that somebody counts.
#[derive(Debug, Clone)]
pub(super) struct Reckoning {
    pub placement: Placement,
    pub columns: BTreeMap<Box<str>, Column>,
}

impl QuotaTree {
    /// An empty tree.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self { options, ..Self::default() }
    }

    /// Which quotas there are.
    #[must_use]
    pub fn register(&self) -> &Register {
        &self.register
    }

    /// Whether there is no quota, and nothing is charged.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.register.iter().next().is_none() && self.accounts.is_empty()
    }

    /// Takes in a quota, in place of the one of its namespace and name. To be told again what is known
    /// costs nothing.
    pub fn put(&mut self, fact: QuotaFact) {
        if self.register.put(fact) {
            self.reckoning = None;
        }
    }

    /// Forgets a quota. What is charged to its name stays so until it is taken away.
    pub fn remove(&mut self, namespace: &str, name: &str) {
        if self.register.remove(namespace, name) {
            self.reckoning = None;
        }
    }

    /// There is so much in all.
    pub fn set_capacity(&mut self, capacity: ByResource) {
        let names_the_same = capacity.keys().eq(self.capacity.keys());
        match &mut self.reckoning {
            Some(reckoning) if names_the_same => {
                for (name, own) in &capacity {
                    let column = reckoning.columns.get_mut(name);
                    column.into_iter().for_each(|column| column.set_capacity(*own));
                }
            }
            _ => self.reckoning = None,
        }
        self.capacity = capacity;
    }

    /// So much more is asked for of a quota, or less where the sign is -1.
    pub fn add_request(
        &mut self,
        quota: &str,
        more: &Amounts,
        sign: i64,
        preemptible: Preemptible,
    ) {
        self.charge(quota, more, Entry { charge: Charge::Request, preemptible, sign });
    }

    /// So much more of a quota is used, or less where the sign is -1.
    pub fn add_used(&mut self, quota: &str, more: &Amounts, sign: i64, preemptible: Preemptible) {
        self.charge(quota, more, Entry { charge: Charge::Used, preemptible, sign });
    }

    /// So much of what is asked for of a quota is for those who could use nothing now, or no longer where the
    /// sign is -1: nothing is divided for them.
    pub fn add_resting(&mut self, quota: &str, more: &Amounts, sign: i64) {
        let preemptible = Preemptible::Yes;
        self.charge(quota, more, Entry { charge: Charge::Resting, preemptible, sign });
    }

    pub(crate) fn charge(&mut self, quota: &str, more: &Amounts, entry: Entry) {
        let account = match self.accounts.get_mut(quota) {
            Some(account) => account,
            None => self.accounts.entry(quota.into()).or_default(),
        };
        let charges = account.enter(more, entry);
        match &mut self.reckoning {
            Some(reckoning) => {
                reckoning.charge(quota, (entry.charge, entry.preemptible), charges);
            }
            None => charges.for_each(drop),
        }
        if account.is_empty() {
            self.accounts.remove(quota);
        }
    }

    /// Charges all that is charged to somebody to a quota, or takes it away.
    pub(crate) fn charge_all(&mut self, quota: &str, more: &Account, sign: i64) {
        let account = self.accounts.entry(quota.into()).or_default();
        account.add(more, sign.into());
        if account.is_empty() {
            self.accounts.remove(quota);
        }
        // That happens when quotas come and go, with which all is reckoned anew.
        self.reckoning = None;
    }

    /// Quotas that may have more room than when this was last asked.
    pub fn take_freed(&mut self) -> Freed {
        self.view();
        let is_all = std::mem::take(&mut self.is_all_freed);
        let mut freed = BTreeSet::new();
        if let Some(Reckoning { placement, columns }) = &mut self.reckoning {
            let places: BTreeSet<usize> =
                columns.values_mut().flat_map(Column::take_freed).collect();
            freed.extend(places.into_iter().map(|place| placement.names[place].clone()));
        }
        if is_all { Freed::All } else { Freed::These(freed) }
    }

    /// Whether quotas share more than when this was last asked. Where they are others since, all of them may have
    /// more room in any case.
    pub fn take_growth(&mut self) -> bool {
        let columns = self.reckoning.iter_mut().flat_map(|own| own.columns.values_mut());
        columns.fold(false, |grown, column| column.take_growth() | grown)
    }

    /// What is charged from now on is only thought of, and taken back before that ends: nobody has more room
    /// by that.
    pub(super) fn begin_thought(&mut self) {
        self.settled_columns().for_each(|column| column.is_thought = true);
    }

    /// What is charged from now on is so.
    pub(super) fn end_thought(&mut self) {
        self.settled_columns().for_each(|column| column.is_thought = false);
    }

    /// All columns, with everything divided: what follows from a charge follows where that was made.
    fn settled_columns(&mut self) -> impl Iterator<Item = &mut Column> {
        self.view();
        self.reckoning.iter_mut().flat_map(|own| own.columns.values_mut())
    }

    /// Whether a quota has room for so much, and all those above it have.
    ///
    /// # Errors
    /// Who has not, and of what.
    pub fn admit(
        &mut self,
        quota: &str,
        request: &Amounts,
        preemptible: Preemptible,
    ) -> Result<(), QuotaRefusal> {
        self.view_for(quota).admit(quota, request, preemptible)
    }

    /// The tree as far as it has to be divided to see what room a quota has.
    pub(super) fn view_for(&mut self, quota: &str) -> View<'_> {
        // What the others get of the rest is nothing to those that take what they need.
        match quota {
            DEFAULT_QUOTA | SYSTEM_QUOTA => self.added_up(),
            _ => self.view(),
        }
    }

    /// The tree as it is now.
    pub fn view(&mut self) -> View<'_> {
        self.added_up();
        if let Some(reckoning) = &mut self.reckoning {
            let Reckoning { placement, columns } = reckoning;
            columns.values_mut().for_each(|column| column.refresh(placement));
        }
        self.added_up()
    }

    /// The tree as it was when it was last looked at, with what was charged since; none where quotas have
    /// changed.
    #[must_use]
    pub fn last_view(&self) -> Option<View<'_>> {
        let reckoning = self.reckoning.as_ref()?;
        let register = &self.register;
        Some(View { options: self.options, register, all: register, reckoning })
    }

    /// The tree of which everything is added up, and not all is divided.
    fn added_up(&mut self) -> View<'_> {
        let reckoning = self.reckoning.take().unwrap_or_else(|| {
            self.is_all_freed = true;
            self.reckon()
        });
        let reckoning = self.reckoning.insert(reckoning);
        let register = &self.register;
        View { options: self.options, register, all: register, reckoning }
    }

    /// How many cells there are.
    #[cfg(test)]
    pub(super) fn cells(&mut self) -> usize {
        self.settled_columns().map(|column| column.cells.len()).sum()
    }

    /// How many quotas something is charged to.
    #[cfg(test)]
    pub(super) fn accounts(&self) -> usize {
        self.accounts.len()
    }

    /// Adds everything up anew.
    fn reckon(&self) -> Reckoning {
        let (placement, facts) = Placement::of(&self.register);
        let names = self.counted(&facts);
        // Quota by quota: what one says of all resources lies together.
        let mut cells: Vec<Vec<Cell>> =
            names.iter().map(|_| Vec::with_capacity(facts.len())).collect();
        for (place, fact) in facts.into_iter().enumerate() {
            let account = self.accounts.get(&placement.names[place]);
            for (cells, name) in cells.iter_mut().zip(&names) {
                let charged = account.and_then(|own| own.get(name));
                cells.push(self.cell(place, fact, name, charged.unwrap_or_default()));
            }
        }
        let column = |(name, cells): (&str, Vec<Cell>)| {
            let capacity = self.capacity.get(name).copied().unwrap_or(0);
            (name.into(), Column::new(capacity, cells, &placement, self.options))
        };
        let columns = names.into_iter().zip(cells).map(column).collect();
        Reckoning { placement, columns }
    }

    /// The resources that are reckoned: those that there are, and of the others that quotas count those that most
    /// of them do, the first by name of equally many.
    fn counted<'a>(&'a self, facts: &[Option<&'a QuotaFact>]) -> BTreeSet<&'a str> {
        let mut others: BTreeMap<&str, usize> = BTreeMap::new();
        let named = facts.iter().flatten().flat_map(|fact| fact.max.keys());
        for name in named.filter(|name| !self.capacity.contains_key(*name)) {
            *others.entry(name).or_default() += 1;
        }
        let mut others: Vec<(Reverse<usize>, &str)> =
            others.into_iter().map(|(name, count)| (Reverse(count), name)).collect();
        others.sort_unstable();
        let others = others.into_iter().take(OTHER_RESOURCES_MAX).map(|(_, name)| name);
        self.capacity.keys().map(|name| &**name).chain(others).collect()
    }

    /// What a quota says of a resource, and what of it is charged to the quota itself.
    fn cell(&self, place: usize, fact: Option<&QuotaFact>, resource: &str, sums: Charges) -> Cell {
        // Nothing is charged to the root, and what its object says counts for nothing: it has all there is.
        if place == ROOT {
            return Cell::default();
        }
        let Some(fact) = fact else { return Cell { sums, ..Cell::default() } };
        let (min, max, weight) = fact.of(resource);
        let is_lendable = fact.is_lendable && !self.options.guarantees_usage;
        // What a quota does not count is charged all the same: one above it may count that.
        Cell { min, max, weight, is_lendable, sums, ..Cell::default() }
    }
}

impl Reckoning {
    fn charge<'a>(
        &mut self,
        quota: &str,
        how: (Charge, Preemptible),
        charges: impl Iterator<Item = (&'a str, i128)>,
    ) {
        let Self { placement, columns } = self;
        let place = placement.find(quota).filter(|place| *place != ROOT);
        for (resource, delta) in charges {
            let column = columns.get_mut(resource);
            if let Some((place, column)) = place.zip(column) {
                column.charge(placement, place, how, delta);
            }
        }
    }
}
