//! One resource of a tree: what quotas ask for and use of it, added up, and what each may use, divided.

use std::collections::BTreeSet;
use std::ops::Range;

use super::placement::{DEFAULT, Placement, ROOT, SYSTEM};
use super::{Limit, Member, Options, Preemptible, amount, divide, scale};

/// What is charged to a quota itself. Sums are exact, so that whatever comes is also gone again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Charges {
    /// What is asked for.
    pub request: i128,
    /// What is used.
    pub used: i128,
    /// What of the request never makes room for others.
    pub fixed_request: i128,
    /// What of the use never does.
    pub fixed_used: i128,
    /// What is kept for those who were told that they may use it, and have not begun to.
    pub pledged: i128,
    /// What of that is for those who never make room.
    pub fixed_pledged: i128,
    /// What of the request is for those who could use nothing now.
    pub resting: i128,
    /// What of the use is of those who are going.
    pub leaving: i128,
}

/// Which charge is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Charge {
    /// What is asked for.
    Request,
    /// What is used.
    Used,
    /// What is kept for those who may use it and have not begun to.
    Pledged,
    /// What of the request is for those who could use nothing now: nothing is divided for them.
    Resting,
    /// What of the use is of those who are going.
    Leaving,
}

impl Charges {
    /// Adds so much.
    pub fn add(&mut self, charge: Charge, preemptible: Preemptible, delta: i128) {
        let (all, fixed) = match charge {
            Charge::Request => (&mut self.request, &mut self.fixed_request),
            Charge::Used => (&mut self.used, &mut self.fixed_used),
            Charge::Pledged => (&mut self.pledged, &mut self.fixed_pledged),
            Charge::Resting => {
                self.resting += delta;
                return;
            }
            Charge::Leaving => {
                self.leaving += delta;
                return;
            }
        };
        *all += delta;
        if preemptible == Preemptible::No {
            *fixed += delta;
        }
    }

    /// Adds all of another, or takes it away.
    pub fn add_all(&mut self, other: &Self, sign: i128) {
        self.request += sign * other.request;
        self.resting += sign * other.resting;
        self.add_uses(other, sign);
    }

    /// Adds all but the requests, of which those above hear only what ceilings allow.
    fn add_uses(&mut self, other: &Self, sign: i128) {
        self.used += sign * other.used;
        self.leaving += sign * other.leaving;
        self.fixed_request += sign * other.fixed_request;
        self.fixed_used += sign * other.fixed_used;
        self.pledged += sign * other.pledged;
        self.fixed_pledged += sign * other.fixed_pledged;
    }
}

/// One resource of a quota.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Cell {
    /// What it is guaranteed.
    pub min: i64,
    /// Its ceiling; none where it does not count the resource.
    pub max: Option<i64>,
    /// Whether it does not count the resource, and some quota below does: it gets what those would get in its
    /// place, and hands that on.
    pub hands_on: bool,
    /// Its part of what is idle.
    pub weight: i64,
    /// Whether others get what it is guaranteed and does not ask for.
    pub is_lendable: bool,
    /// What is charged to it and to the quotas below. Of requests below, what their ceilings allow.
    pub sums: Charges,
    /// What of the requests is divided for, its own and those below, as far as their ceilings allow.
    pub demand: i128,
    /// What is used, and what the quotas below are guaranteed.
    pub allocated: i128,
    /// What of its guarantee can be kept, of what the one above may use or would get if it asked: it is divided by
    /// this, and what is used beyond it is borrowed, whatever those beside it ask for.
    pub kept_min: i64,
    /// How much it may use now.
    pub runtime: i64,
}

impl Cell {
    /// Whether it has a part of the resource.
    pub fn has_part(&self) -> bool {
        self.max.is_some() || self.hands_on
    }

    /// What it gets at most.
    fn most(&self) -> i64 {
        self.max.unwrap_or(if self.hands_on { i64::MAX } else { 0 })
    }

    /// Stands for one below that has a part, beside those that it stands for already. It keeps nothing for
    /// them: what they do not lend they ask for.
    fn stand_for(&mut self, below: &Self, options: Options) {
        self.hands_on = true;
        self.is_lendable = !options.guarantees_usage;
        self.min = self.min.saturating_add(below.min);
        self.weight = self.weight.saturating_add(below.weight);
    }

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

    /// The same of what is divided for: what somebody could use now, and in any case as much of what is asked
    /// for as is guaranteed. Who has borrowed that has to hear that it is wanted. Those below who are guaranteed
    /// something say so themselves.
    pub fn limited_demand(&self) -> i128 {
        let guaranteed = if self.hands_on { 0 } else { self.min };
        let own = self.request().min(i128::from(guaranteed));
        self.demand.max(own).min(self.max.map_or(i128::MAX, i128::from))
    }

    /// What nobody takes back: what it is guaranteed, and what is in use beyond that.
    pub fn guaranteed(&self) -> i128 {
        self.allocated.max(i128::from(self.min))
    }

    /// What is used beyond what it is guaranteed now.
    pub fn borrowed(&self) -> i128 {
        (self.sums.used - i128::from(self.kept_min)).max(0)
    }

    /// What it is guaranteed now, does not use, and lends.
    fn idle(&self) -> i64 {
        let idle = amount(i128::from(self.kept_min) - self.sums.used.max(0)).max(0);
        if self.is_lendable { idle } else { 0 }
    }

    /// What others may use of that: also what rounding took of a guarantee that shrank.
    fn may_be_lent(&self) -> i64 {
        let idle = self.idle();
        let is_rounded = self.is_lendable && self.kept_min < self.min && idle > 0;
        idle + i64::from(is_rounded)
    }

    /// What it gets before anything is divided. Of what the quotas below are guaranteed beyond its ceiling it
    /// could use nothing.
    fn floor(&self, guarantees_usage: bool) -> i64 {
        let guaranteed = amount(self.guaranteed()).min(self.most());
        let guaranteed = if guarantees_usage { guaranteed } else { 0 };
        self.kept_min.max(guaranteed)
    }

    fn member(&self, rank: usize, guarantees_usage: bool) -> Member {
        Member {
            rank,
            request: amount(self.limited_demand()).max(0),
            floor: self.floor(guarantees_usage),
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
    /// Places that have more room than when this was last asked.
    freed: BTreeSet<usize>,
    /// Whether there is more to share than when this was last asked.
    has_grown: bool,
    /// Whether what happens is only thought of: nobody has more room by that.
    pub is_thought: bool,
    options: Options,
}

impl Column {
    /// A column of which only what quotas say, and what is charged to each of them itself, is known.
    pub fn new(capacity: i64, cells: Vec<Cell>, placement: &Placement, options: Options) -> Self {
        let stale = placement.children.iter().map(|below| !below.is_empty()).collect();
        let freed = BTreeSet::new();
        let (has_stale, has_grown, is_thought) = (true, false, false);
        let mut own =
            Self { capacity, cells, stale, has_stale, freed, has_grown, is_thought, options };
        for cell in &mut own.cells {
            cell.allocated = cell.sums.used;
            cell.demand = cell.sums.request - cell.sums.resting;
        }
        // Children come after their parents.
        for place in (1..own.cells.len()).rev() {
            let (child, parent) = (own.cells[place], placement.parents[place]);
            let above = &mut own.cells[parent];
            // What the root has is not handed on, but divided.
            if parent != ROOT && above.max.is_none() && child.has_part() {
                above.stand_for(&child, options);
            }
            above.sums.add_uses(&child.sums, 1);
            if !Placement::is_apart(place) {
                above.sums.request += child.limited_request();
                above.demand += child.limited_demand();
                above.allocated += child.guaranteed();
            }
        }
        if options.limit == Limit::Max {
            for cell in &mut own.cells {
                cell.kept_min = cell.min;
                cell.runtime = cell.most();
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
        let mut charges = Charges::default();
        charges.add(charge, preemptible, delta);
        for above in placement.chain(place).chain([ROOT]) {
            self.cells[above].sums.add_uses(&charges, 1);
        }
        // Of what is asked for, and by whom, quotas hear when it is divided: who comes to rest leaves more to
        // those beside it, and who is roused only wants more himself.
        let frees = matches!(charge, Charge::Used | Charge::Pledged);
        if delta < 0 && frees && !self.is_thought {
            self.freed.extend(placement.chain(place));
        }
        match charge {
            Charge::Pledged | Charge::Leaving => {}
            Charge::Request => self.climb_demand(placement, place, (delta, delta)),
            Charge::Resting => {
                self.cells[place].sums.resting += delta;
                self.climb_demand(placement, place, (0, -delta));
            }
            Charge::Used if Placement::is_apart(place) => {
                self.cells[place].allocated += delta;
                self.has_grown |= delta < 0 && !self.is_thought;
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

    /// Tells a quota and those above it that so much more is asked for, and so much more of it is divided for,
    /// for as long as either changes anything.
    fn climb_demand(
        &mut self,
        placement: &Placement,
        place: usize,
        (mut request, mut demand): (i128, i128),
    ) {
        let mut at = place;
        while request != 0 || demand != 0 {
            let cell = &mut self.cells[at];
            let before = (cell.limited_request(), cell.limited_demand());
            cell.sums.request += request;
            cell.demand += demand;
            request = cell.limited_request() - before.0;
            demand = cell.limited_demand() - before.1;
            if at == ROOT || Placement::is_apart(at) {
                return;
            }
            at = placement.parents[at];
            if demand != 0 {
                self.mark(at);
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
            self.has_grown |= self.capacity < capacity;
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
        let has_part = |at: &usize| self.cells[*at].has_part();
        let sharing: Vec<usize> = below.clone().filter(has_part).collect();
        self.scale_below((place, capacity), &sharing);
        // Those of one parent are side by side by name, so that the place is the rank.
        let member = |at: &usize| self.cells[*at].member(*at, options.guarantees_usage);
        let members: Vec<Member> = sharing.iter().map(member).collect();
        for (at, runtime) in sharing.into_iter().zip(divide(capacity, &members)) {
            let before = std::mem::replace(&mut self.cells[at].runtime, runtime);
            self.stale[at] |= before != runtime;
            if before < runtime && !self.is_thought {
                self.freed.insert(at);
            }
        }
    }

    /// What of their guarantees those below a quota can keep, of which so much is divided now.
    fn scale_below(&mut self, (place, capacity): (usize, i64), sharing: &[usize]) {
        // What the one above leaves to others since nobody below asks for it, it gets back for those who do. While
        // it leaves any, it has all that is asked for below: to be sure of more takes nothing from anybody.
        let most = if place == ROOT { capacity } else { capacity.max(self.cells[place].kept_min) };
        let mins: Vec<i64> = sharing.iter().map(|at| self.cells[*at].min).collect();
        // Nobody keeps his whatever there is.
        let kept = if self.options.scales_min { scale(most, 0, &mins) } else { mins };
        for (at, kept) in sharing.iter().zip(kept) {
            let before = std::mem::replace(&mut self.cells[*at].kept_min, kept);
            self.stale[*at] |= before != kept;
        }
    }

    /// Places that have more room than when this was last asked.
    pub fn take_freed(&mut self) -> BTreeSet<usize> {
        std::mem::take(&mut self.freed)
    }

    /// Whether there is more to share than when this was last asked.
    pub fn take_growth(&mut self) -> bool {
        std::mem::take(&mut self.has_grown)
    }

    /// What of the guarantee of each quota below one is used by others beside it. Who borrows first uses
    /// what nobody is guaranteed, and then of what is idle, of each lender in proportion.
    pub fn lent_below(&self, place: usize, below: &Range<usize>) -> Vec<i64> {
        let cells = &self.cells[below.clone()];
        let borrowed: i128 = cells.iter().map(Cell::borrowed).sum();
        let guaranteed: i128 = cells.iter().map(|cell| i128::from(cell.min)).sum();
        let free = (i128::from(self.capacity_below(place)) - guaranteed).max(0);
        let lender = |(rank, cell): (usize, &Cell)| {
            let (request, weight) = (cell.may_be_lent(), cell.idle());
            Member { rank, request, floor: 0, weight, is_lendable: true }
        };
        let lenders: Vec<Member> = cells.iter().enumerate().map(lender).collect();
        divide(amount(borrowed - free), &lenders)
    }
}
