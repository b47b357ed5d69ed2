//! One resource of a tree: what quotas ask for and use of it, added up, and what each may use, divided.

use std::ops::Range;

use super::placement::{DEFAULT, Placement, ROOT, SYSTEM};
use super::{Limit, Member, Options, Preemptible, amount, divide, scale};

/// What is charged to a quota itself. Sums are exact, so that whatever comes is also gone again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Charges {
    /// What is asked for.
    pub request: i128,
    /// What is used.
    pub used: i128,
    /// What of the request never makes room for others.
    pub fixed_request: i128,
    /// What of the use never does.
    pub fixed_used: i128,
}

/// Which charge is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Charge {
    /// What is asked for.
    Request,
    /// What is used.
    Used,
}

impl Charges {
    /// Adds so much.
    pub fn add(&mut self, charge: Charge, preemptible: Preemptible, delta: i128) {
        let (all, fixed) = match charge {
            Charge::Request => (&mut self.request, &mut self.fixed_request),
            Charge::Used => (&mut self.used, &mut self.fixed_used),
        };
        *all += delta;
        if preemptible == Preemptible::No {
            *fixed += delta;
        }
    }
}

/// One resource of a quota.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Cell {
    /// What it is guaranteed.
    pub min: i64,
    /// Its ceiling; none where it does not count the resource.
    pub max: Option<i64>,
    /// Its part of what is idle.
    pub weight: i64,
    /// Whether others get what it is guaranteed and does not ask for.
    pub is_lendable: bool,
    /// What is charged to it and to the quotas below. Of requests below, what their ceilings allow.
    pub sums: Charges,
    /// What is used, and what the quotas below are guaranteed.
    pub allocated: i128,
    /// What of its guarantee can be kept.
    pub scaled_min: i64,
    /// How much it may use now.
    pub runtime: i64,
}

impl Cell {
    /// What it asks for: what is guaranteed and not lent is always asked for.
    pub fn request(&self) -> i128 {
        let kept = if self.is_lendable { 0 } else { i128::from(self.min) };
        self.sums.request.max(kept)
    }

    /// What of that its ceiling allows.
    pub fn limited_request(&self) -> i128 {
        let most = self.max.map_or(i128::MAX, i128::from);
        self.request().min(most)
    }

    /// What nobody takes back: what it is guaranteed, and what is in use beyond that.
    pub fn guaranteed(&self) -> i128 {
        self.allocated.max(i128::from(self.min))
    }

    /// What is used beyond what it is guaranteed now.
    pub fn borrowed(&self) -> i128 {
        (self.sums.used - i128::from(self.scaled_min)).max(0)
    }

    /// What it is guaranteed now, does not use, and lends.
    fn idle(&self) -> i64 {
        let idle = amount(i128::from(self.scaled_min) - self.sums.used.max(0)).max(0);
        if self.is_lendable { idle } else { 0 }
    }

    fn member(&self, rank: usize, guarantees_usage: bool) -> Member {
        let guaranteed = if guarantees_usage { amount(self.guaranteed()) } else { 0 };
        Member {
            rank,
            request: amount(self.limited_request()).max(0),
            floor: self.scaled_min.max(guaranteed),
            weight: self.weight,
            is_lendable: self.is_lendable,
        }
    }
}

/// One resource of a tree.
#[derive(Debug, Clone, Default)]
pub(super) struct Column {
    /// What there is in all.
    pub capacity: i64,
    /// By place.
    pub cells: Vec<Cell>,
    /// By place, whether what is below it has to be divided anew.
    stale: Vec<bool>,
    /// Whether there is any.
    has_stale: bool,
    options: Options,
}

impl Column {
    /// A column of which only what quotas say, and what is charged to each of them itself, is known.
    pub fn new(capacity: i64, cells: Vec<Cell>, placement: &Placement, options: Options) -> Self {
        let stale = placement.children.iter().map(|below| !below.is_empty()).collect();
        let mut own = Self { capacity, cells, stale, has_stale: true, options };
        own.cells.iter_mut().for_each(|cell| cell.allocated = cell.sums.used);
        // Children come after their parents.
        for place in (1..own.cells.len()).rev() {
            let (child, parent) = (own.cells[place], placement.parents[place]);
            let above = &mut own.cells[parent];
            above.sums.used += child.sums.used;
            above.sums.fixed_request += child.sums.fixed_request;
            above.sums.fixed_used += child.sums.fixed_used;
            if !Placement::is_apart(place) {
                above.sums.request += child.limited_request();
                above.allocated += child.guaranteed();
            }
        }
        if options.limit == Limit::Max {
            for cell in &mut own.cells {
                cell.scaled_min = cell.min;
                cell.runtime = cell.max.unwrap_or(0);
            }
        }
        own
    }

    /// Charges so much to a quota, and tells those above.
    pub fn charge(
        &mut self,
        placement: &Placement,
        place: usize,
        (charge, preemptible): (Charge, Preemptible),
        delta: i128,
    ) {
        let mut fixed = Charges::default();
        fixed.add(charge, preemptible, delta);
        for above in placement.chain(place).chain([ROOT]) {
            let sums = &mut self.cells[above].sums;
            sums.used += fixed.used;
            sums.fixed_request += fixed.fixed_request;
            sums.fixed_used += fixed.fixed_used;
        }
        match charge {
            Charge::Request => {
                self.climb(placement, place, delta, |cell, delta| {
                    let before = cell.limited_request();
                    cell.sums.request += delta;
                    cell.limited_request() - before
                });
            }
            Charge::Used if Placement::is_apart(place) => {
                self.cells[place].allocated += delta;
                self.mark(ROOT);
            }
            // What is in use changes what others get only where it is not taken back.
            Charge::Used if !self.options.guarantees_usage => {}
            Charge::Used => {
                self.climb(placement, place, delta, |cell, delta| {
                    let before = cell.guaranteed();
                    cell.allocated += delta;
                    cell.guaranteed() - before
                });
            }
        }
    }

    /// Tells a quota and those above it of a change, for as long as there is one. What a quota hands on is
    /// what its parent's division goes by.
    fn climb(
        &mut self,
        placement: &Placement,
        place: usize,
        mut delta: i128,
        take: impl Fn(&mut Cell, i128) -> i128,
    ) {
        let mut at = place;
        while delta != 0 {
            delta = take(&mut self.cells[at], delta);
            if at == ROOT || Placement::is_apart(at) {
                return;
            }
            at = placement.parents[at];
            if delta != 0 {
                self.mark(at);
            }
        }
    }

    /// What is below a quota has to be divided anew.
    fn mark(&mut self, place: usize) {
        self.stale[place] = true;
        self.has_stale = true;
    }

    /// There is so much in all now.
    pub fn set_capacity(&mut self, capacity: i64) {
        if self.capacity != capacity {
            self.capacity = capacity;
            self.mark(ROOT);
        }
    }

    /// What quotas share that are right below the root: what the default and the system quota leave.
    pub fn shared(&self) -> i64 {
        let taken = self.cells[DEFAULT].sums.used + self.cells[SYSTEM].sums.used;
        amount(i128::from(self.capacity) - taken).max(0)
    }

    /// What the quotas below one share.
    fn capacity_below(&self, place: usize) -> i64 {
        if place == ROOT { self.shared() } else { self.cells[place].runtime }
    }

    /// Divides anew what has to be.
    pub fn refresh(&mut self, placement: &Placement) {
        if !std::mem::take(&mut self.has_stale) || self.options.limit == Limit::Max {
            return;
        }
        // Parents come before their children, so that what follows from a division is still ahead.
        for (place, below) in placement.children.iter().enumerate() {
            if std::mem::take(&mut self.stale[place]) && !below.is_empty() {
                self.divide_below(place, below);
            }
        }
    }

    fn divide_below(&mut self, place: usize, below: &Range<usize>) {
        let options = self.options;
        let capacity = self.capacity_below(place);
        let counting = |at: &usize| self.cells[*at].max.is_some();
        let counting: Vec<usize> = below.clone().filter(counting).collect();
        if options.scales_min {
            let mins: Vec<i64> = counting.iter().map(|at| self.cells[*at].min).collect();
            for (at, scaled) in counting.iter().zip(scale(capacity, &mins)) {
                self.cells[*at].scaled_min = scaled;
            }
        } else {
            counting.iter().for_each(|at| self.cells[*at].scaled_min = self.cells[*at].min);
        }
        // Those of one parent are side by side by name, so that the place is the rank.
        let member = |at: &usize| self.cells[*at].member(*at, options.guarantees_usage);
        let members: Vec<Member> = counting.iter().map(member).collect();
        for (at, runtime) in counting.into_iter().zip(divide(capacity, &members)) {
            let has_changed = std::mem::replace(&mut self.cells[at].runtime, runtime) != runtime;
            self.stale[at] |= has_changed;
        }
    }

    /// What of the guarantee of each quota below one is used by others beside it. Who borrows first uses
    /// what nobody is guaranteed, and then of what is idle, of each lender in proportion.
    pub fn lent_below(&self, place: usize, below: &Range<usize>) -> Vec<i64> {
        let cells = &self.cells[below.clone()];
        let borrowed: i128 = cells.iter().map(Cell::borrowed).sum();
        let guaranteed: i128 = cells.iter().map(|cell| i128::from(cell.scaled_min)).sum();
        let free = (i128::from(self.capacity_below(place)) - guaranteed).max(0);
        let lender = |(rank, cell): (usize, &Cell)| {
            let idle = cell.idle();
            Member { rank, request: idle, floor: 0, weight: idle, is_lendable: true }
        };
        let lenders: Vec<Member> = cells.iter().enumerate().map(lender).collect();
        divide(amount(borrowed - free), &lenders)
    }
}
