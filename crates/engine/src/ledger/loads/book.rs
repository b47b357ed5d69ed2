//! The load of each node by one set of settings, as columns.
//!
//! What is written of a node follows from its last report, its rules and the pods on it, and is found
//! out anew from these whenever one of them changes: nothing is added up twice, whatever came first.

use std::sync::Arc;
use std::time::Duration;

use api::priority::PriorityBand;

use super::estimate::{Estimate, Estimated, amount};
use super::{EstimateSettings, Settings, Stale};
use crate::fact::{LoadReport, LoadRules, LoadTimes, Percents, PodUsage};
use crate::ledger::NodeIndex;
use crate::moment::Moment;
use crate::needs::{Amounts, LoadNeeds};
use crate::node_set::NodeSet;

/// A pod on a node, as its load is estimated.
#[derive(Clone, Copy)]
pub(crate) struct Resident<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) requests: &'a Amounts,
    pub(crate) needs: Option<&'a LoadNeeds>,
    pub(crate) times: LoadTimes,
}

/// What is known of a node whose load is found out.
pub(crate) struct Known<'a> {
    pub(crate) report: Option<&'a LoadReport>,
    pub(crate) rules: Option<&'a LoadRules>,
    pub(crate) allocatable: &'a Amounts,
    pub(crate) now: Moment,
}

/// A pod on a node, and what the node reports of it.
struct Seen<'a> {
    requests: &'a Amounts,
    needs: Option<&'a LoadNeeds>,
    band: PriorityBand,
    usage: Option<&'a PodUsage>,
    /// Whether what is reported does not say yet what it will use.
    is_estimated: bool,
}

/// What pods are added to the load of a node that is reported, of one resource.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sum {
    /// What they are taken to use more than is reported.
    delta: i64,
    /// What they are taken to use in all.
    estimated: i64,
    /// What those use that earn money.
    prod_usage: i64,
    /// What these are taken to use more than that.
    prod_delta: i64,
}

/// What a load is made of.
#[derive(Clone, Copy)]
enum Basis<'a> {
    /// The node reports nothing.
    Nothing,
    /// What it reports here, and what pods are taken to use more.
    Reported(&'a Amounts),
    /// What pods use that earn money, and are taken to use more.
    Prod,
    /// What pods are taken to use in all.
    Estimated,
}

impl Basis<'_> {
    /// How much of a resource that is.
    fn load(self, name: &str, sum: &Sum) -> i64 {
        match self {
            Self::Nothing => 0,
            Self::Reported(used) => amount(used, name).saturating_add(sum.delta),
            Self::Prod => sum.prod_usage.saturating_add(sum.prod_delta),
            Self::Estimated => sum.estimated,
        }
    }
}

/// By what the room of a node follows for one sort of pods.
enum Room<'a> {
    /// It is the same of every resource.
    All(i64),
    /// This load must not be more than these percentages.
    Below(&'a Percents, Basis<'a>),
}

impl Room<'_> {
    fn of(&self, name: &str, sum: &Sum, capacity: i64) -> i64 {
        match self {
            Self::All(room) => *room,
            Self::Below(percents, basis) => match percents.get(name).copied().unwrap_or(0) {
                0 => i64::MAX,
                most => room(basis.load(name, sum), capacity, most),
            },
        }
    }
}

/// What is written of a node and a resource.
#[derive(Debug, Clone, Copy)]
struct Figures {
    capacity: i64,
    /// For pods that earn money, after the others.
    rooms: [i64; 2],
    scored: [i64; 2],
}

/// What the pods of a node are taken to use beyond what it reports, and who they are, for people.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoadAccount {
    /// The pods, by when they got the node, those of which that is not known last.
    pub pods: Vec<(Option<Moment>, PodName)>,
    /// What those use that earn money.
    pub prod_usage: Amounts,
    /// What pods are taken to use more than is reported, and which.
    pub delta: (Amounts, Vec<PodName>),
    /// The same of those that earn money.
    pub prod_delta: (Amounts, Vec<PodName>),
    /// What pods are taken to use in all, and which.
    pub estimated: (Amounts, Vec<PodName>),
}

/// The namespace and the name of a pod.
pub type PodName = (Box<str>, Box<str>);

/// Which load of a node counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// What it uses now.
    Plain,
    /// What pods use that earn money.
    Prod,
    /// What it used for a while; for the longest there is where that is zero.
    Window(crate::fact::Aggregation, Duration),
}

/// Why a node is refused for its load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Overload {
    /// Its report is old.
    Expired,
    /// It would use too much.
    Beyond {
        /// Of what.
        resource: Box<str>,
        /// Whether that is what it used for a while.
        is_window: bool,
        /// What it would use, in percent.
        percent: i64,
        /// What it may use.
        most: i64,
    },
}

/// What is written of one sort of pods: those that earn money, or the others.
#[derive(Debug, Clone, Default)]
struct Side {
    /// How much more a pod may be taken to use, by resource and node.
    rooms: Vec<Vec<i64>>,
    /// What counts in scores as used, by resource and node.
    scored: Vec<Vec<i64>>,
}

/// The load of each node by one set of settings.
#[derive(Debug, Clone)]
pub struct Book {
    settings: Arc<Settings>,
    tracked: Vec<Box<str>>,
    /// What is known of each of these, as far as estimates go by it.
    estimated: Vec<Estimated>,
    others: Side,
    prod: Side,
    /// What nodes have, by resource and node.
    capacity: Vec<Vec<i64>>,
    /// Nodes whose reports count in scores.
    fresh: NodeSet,
    /// When the report of a node will be old, where it is not.
    expiries: Vec<Option<Moment>>,
    places: usize,
    /// Lent to whoever finds out the load of a node: that is done for every pod that comes.
    found: Vec<Figures>,
}

impl Book {
    pub(super) fn new(settings: Arc<Settings>) -> Self {
        let tracked = settings.tracked();
        let estimated = tracked.iter().map(|name| settings.estimate.known(name)).collect();
        let columns = || vec![Vec::new(); tracked.len()];
        let side = || Side { rooms: columns(), scored: columns() };
        Self {
            others: side(),
            prod: side(),
            capacity: columns(),
            fresh: NodeSet::new(),
            expiries: Vec::new(),
            places: 0,
            found: Vec::new(),
            settings,
            tracked,
            estimated,
        }
    }

    /// Whether it judges by these. Whoever asks has mostly those that it was made of.
    pub(super) fn is_of(&self, settings: &Settings) -> bool {
        std::ptr::eq(&*self.settings, settings) || *self.settings == *settings
    }

    /// By what it judges.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The resources that are looked at, by name.
    #[must_use]
    pub fn tracked(&self) -> &[Box<str>] {
        &self.tracked
    }

    /// What a pod is taken to use.
    #[must_use]
    pub fn estimate(&self, requests: &Amounts, needs: Option<&LoadNeeds>) -> Estimate {
        self.settings.estimate.estimate(&self.estimated, requests, needs)
    }

    /// How much more a pod may be taken to use, by resource and then by node.
    #[must_use]
    pub fn rooms(&self, is_prod: bool) -> &[Vec<i64>] {
        if is_prod { &self.prod.rooms } else { &self.others.rooms }
    }

    /// The room of a node that is not there, by resource.
    pub(super) fn nothing(&self) -> Box<[i64]> {
        vec![i64::MIN; self.tracked.len()].into()
    }

    /// What counts as used in scores, and what nodes have, by resource and then by node.
    #[must_use]
    pub fn scored(&self, is_prod: bool) -> (&[Vec<i64>], &[Vec<i64>]) {
        let side = if is_prod { &self.prod } else { &self.others };
        (&side.scored, &self.capacity)
    }

    /// Nodes whose reports count in scores.
    #[must_use]
    pub fn fresh(&self) -> &NodeSet {
        &self.fresh
    }

    /// Whether a node takes what a pod is taken to use.
    #[must_use]
    pub fn fits(&self, node: NodeIndex, estimate: &Estimate) -> bool {
        let rooms = self.rooms(estimate.is_prod).iter();
        let room = |column: &Vec<i64>| column.get(node.get()).copied().unwrap_or(i64::MAX);
        estimate.is_daemon
            || rooms.zip(&estimate.amounts).all(|(column, more)| *more <= room(column))
    }

    /// When the report of a node will be old.
    pub(super) fn expiry(&self, node: NodeIndex) -> Option<Moment> {
        self.expiries.get(node.get()).copied().flatten()
    }

    fn grow(&mut self, places: usize) {
        if self.places >= places {
            return;
        }
        let Self { others, prod, capacity, .. } = self;
        for column in others.rooms.iter_mut().chain(&mut prod.rooms) {
            column.resize(places, i64::MAX);
        }
        for column in others.scored.iter_mut().chain(&mut prod.scored).chain(capacity) {
            column.resize(places, 0);
        }
        self.expiries.resize(places, None);
        self.places = places;
    }

    /// Finds out the load of a node, and says whether it is another than before.
    pub(super) fn put<'a>(
        &mut self,
        node: NodeIndex,
        known: &Known<'a>,
        residents: impl Iterator<Item = Resident<'a>>,
    ) -> bool {
        self.grow(node.get() + 1);
        let expiry = known.report.and_then(|report| report.at);
        let expiry = expiry.map(|at| at.after(self.settings.expires_after));
        let is_old = expiry.is_none_or(|expiry| expiry <= known.now);
        let mut found = std::mem::take(&mut self.found);
        self.find(known, residents, is_old, &mut found);
        let at = node.get();
        let mut has_changed = false;
        let mut write = |column: &mut Vec<i64>, own: i64| {
            has_changed |= column[at] != own;
            column[at] = own;
        };
        for (of, figures) in found.drain(..).enumerate() {
            write(&mut self.capacity[of], figures.capacity);
            let sides = [&mut self.others, &mut self.prod].into_iter();
            for ((side, room), scored) in sides.zip(figures.rooms).zip(figures.scored) {
                write(&mut side.rooms[of], room);
                write(&mut side.scored[of], scored);
            }
        }
        self.found = found;
        self.expiries[at] = expiry.filter(|_| !is_old);
        let usage = known.report.and_then(|report| report.node.as_ref());
        let was_fresh = self.fresh.contains(node);
        self.fresh.set(node, usage.is_some() && !is_old);
        has_changed || was_fresh != self.fresh.contains(node)
    }

    /// Finds out what is to be written of a node, by tracked resource.
    fn find<'a>(
        &self,
        known: &Known<'a>,
        residents: impl Iterator<Item = Resident<'a>>,
        is_old: bool,
        found: &mut Vec<Figures>,
    ) {
        let seen = self.seen(known.report, residents);
        let rooms = [false, true].map(|is_prod| self.room(known, is_prod, is_old));
        let scored = [false, true].map(|is_prod| {
            let view = match &self.settings.score.window {
                _ if is_prod && self.settings.score.by_prod => View::Prod,
                Some((figure, window)) => View::Window(*figure, *window),
                None => View::Plain,
            };
            basis(known.report, view)
        });
        found.clear();
        found.extend(self.tracked.iter().zip(&self.estimated).map(|(name, one)| {
            let (sum, capacity) = (self.sum(one, known.report, &seen), capacity(name, known));
            Figures {
                capacity,
                rooms: rooms.each_ref().map(|room| room.of(name, &sum, capacity)),
                scored: scored.map(|basis| basis.load(name, &sum)),
            }
        }));
    }

    /// How much more pods of one sort may be taken to use.
    fn room<'a>(&'a self, known: &Known<'a>, is_prod: bool, is_old: bool) -> Room<'a> {
        let (percents, view) = self.limits(known.rules, is_prod);
        let is_off = !self.limits_any(percents);
        let Some(report) = known.report.filter(|_| !self.settings.is_soft && !is_off) else {
            return Room::All(i64::MAX);
        };
        match self.settings.stale {
            Stale::Refused if is_old => Room::All(i64::MIN),
            Stale::Forgotten if is_old => Room::All(i64::MAX),
            _ if report.node.is_none() => Room::All(i64::MAX),
            _ => Room::Below(percents, basis(Some(report), view)),
        }
    }

    /// Whether percentages limit anything that is looked at.
    fn limits_any(&self, percents: &Percents) -> bool {
        self.tracked.iter().any(|name| percents.get(name).is_some_and(|percent| *percent != 0))
    }

    /// Which load of a node must not be too high for pods of one sort.
    pub(super) fn view(&self, rules: Option<&LoadRules>, is_prod: bool) -> View {
        self.limits(rules, is_prod).1
    }

    /// What must not be exceeded, and of what.
    fn limits<'a>(&'a self, rules: Option<&'a LoadRules>, is_prod: bool) -> (&'a Percents, View) {
        let own = |pick: fn(&LoadRules) -> Option<&Percents>| rules.and_then(pick);
        let prod = own(|rules| rules.prod.as_ref()).unwrap_or(&self.settings.prod);
        if is_prod && self.limits_any(prod) {
            return (prod, View::Prod);
        }
        let window = rules.and_then(|rules| rules.window.as_ref());
        if let Some(window) = window.or(self.settings.window.as_ref()) {
            return (&window.percents, View::Window(window.figure, window.window));
        }
        (own(|rules| rules.usage.as_ref()).unwrap_or(&self.settings.usage), View::Plain)
    }

    /// What a node is taken to use now, by tracked resource: what it reports, and what its pods are
    /// taken to use beyond that. None where it reports nothing.
    pub(super) fn taken<'a>(
        &self,
        report: Option<&'a LoadReport>,
        residents: impl Iterator<Item = Resident<'a>>,
    ) -> Option<Vec<i64>> {
        report?.node.as_ref()?;
        let (sums, basis) = (self.sums(report, residents), basis(report, View::Plain));
        Some(self.tracked.iter().zip(&sums).map(|(name, sum)| basis.load(name, sum)).collect())
    }

    /// What pods are added to the load, by tracked resource.
    fn sums<'a>(
        &self,
        report: Option<&'a LoadReport>,
        residents: impl Iterator<Item = Resident<'a>>,
    ) -> Vec<Sum> {
        let seen = self.seen(report, residents);
        self.estimated.iter().map(|one| self.sum(one, report, &seen)).collect()
    }

    /// What a node reports of its pods.
    fn seen<'a>(
        &self,
        report: Option<&'a LoadReport>,
        residents: impl Iterator<Item = Resident<'a>>,
    ) -> Vec<Seen<'a>> {
        let seen = |pod: Resident<'a>| {
            let Resident { requests, needs, .. } = pod;
            let usage = report.and_then(|report| report.pods.get(pod.namespace, pod.name));
            let is_early = || report.is_none_or(|report| self.is_early(report, &pod));
            let is_estimated = usage.is_none() || is_early();
            Seen { requests, needs, band: LoadNeeds::band_of(needs, requests), usage, is_estimated }
        };
        residents.map(seen).collect()
    }

    /// What pods are added to the load of one resource.
    fn sum(&self, one: &Estimated, report: Option<&LoadReport>, pods: &[Seen<'_>]) -> Sum {
        let (mut sum, name) = (Sum::default(), one.name());
        let estimating = &self.settings.estimate;
        if let Some(usage) = report.and_then(|report| report.node.as_ref())
            && estimating.prod_with_system
        {
            sum.prod_usage = amount(&usage.system, name);
        }
        for Seen { requests, needs, band, usage, is_estimated } in pods {
            let more = estimating.of_resource(one, requests, *band, *needs);
            let used = usage.map_or(0, |usage| amount(&usage.now, name));
            sum.estimated = sum.estimated.saturating_add(more);
            let beyond = more.saturating_sub(used).max(0);
            if *is_estimated {
                sum.delta = sum.delta.saturating_add(beyond);
            }
            if *band != PriorityBand::Prod {
                continue;
            }
            match usage {
                Some(usage) if usage.band == Some(PriorityBand::Prod) => {
                    sum.prod_usage = sum.prod_usage.saturating_add(used);
                    let beyond = if *is_estimated { beyond } else { 0 };
                    sum.prod_delta = sum.prod_delta.saturating_add(beyond);
                }
                // What it uses counts elsewhere.
                Some(_) => sum.prod_delta = sum.prod_delta.saturating_add(more),
                None => sum.prod_delta = sum.prod_delta.saturating_add(beyond),
            }
        }
        sum
    }

    /// What the pods of a node are taken to use beyond what it reports.
    pub(super) fn account(
        &self,
        report: Option<&LoadReport>,
        residents: &[Resident<'_>],
    ) -> LoadAccount {
        type Part = fn(&Sum) -> i64;
        let name = |pod: &Resident<'_>| -> PodName { (pod.namespace.into(), pod.name.into()) };
        let who = |part: Part| {
            let adds = |pod: &&Resident<'_>| {
                let alone = self.sums(report, std::iter::once(**pod));
                alone.iter().any(|own| part(own) != 0)
            };
            let mut names: Vec<PodName> = residents.iter().filter(adds).map(name).collect();
            names.sort_unstable();
            names
        };
        let all = self.sums(report, residents.iter().copied());
        let amounts = |part: Part| {
            let mut amounts = Amounts::default();
            self.tracked.iter().zip(&all).for_each(|(name, own)| amounts.put(name, part(own)));
            amounts
        };
        let both = |part: Part| (amounts(part), who(part));
        let mut pods: Vec<_> =
            residents.iter().map(|pod| (pod.times.scheduled, name(pod))).collect();
        pods.sort_unstable_by(|a, b| (a.0.is_none(), a).cmp(&(b.0.is_none(), b)));
        LoadAccount {
            pods,
            prod_usage: amounts(|sum| sum.prod_usage),
            delta: both(|sum| sum.delta),
            prod_delta: both(|sum| sum.prod_delta),
            estimated: both(|sum| sum.estimated),
        }
    }

    /// Whether a report does not say yet what a pod will use.
    pub(super) fn is_early(&self, report: &LoadReport, pod: &Resident<'_>) -> bool {
        let Some(at) = report.at else { return true };
        let Some(scheduled) = pod.times.scheduled else { return true };
        let EstimateSettings { after_scheduled, after_initialized, allows_own, .. } =
            &self.settings.estimate;
        let own =
            |pick: fn(&LoadNeeds) -> Option<u64>| pod.needs.filter(|_| *allows_own).and_then(pick);
        let after_initialized = own(|needs| needs.after_initialized).or(*after_initialized);
        let after_scheduled = own(|needs| needs.after_scheduled).or(*after_scheduled);
        let some = |seconds: Option<u64>| seconds.filter(|seconds| *seconds > 0);
        let until = match (some(after_initialized), pod.times.initialized) {
            (Some(seconds), Some(initialized)) => Some((initialized, seconds)),
            _ => some(after_scheduled).map(|seconds| (scheduled, seconds)),
        };
        let until = until.map(|(since, seconds)| since.after(Duration::from_secs(seconds)));
        at < scheduled.after(report.interval) || until.is_some_and(|until| until > at)
    }

    /// Why a node cannot take what a pod is taken to use; none where it can.
    pub(super) fn overload(
        &self,
        node: NodeIndex,
        known: &Known<'_>,
        estimate: &Estimate,
    ) -> Option<Overload> {
        if self.fits(node, estimate) {
            return None;
        }
        let (percents, view) = self.limits(known.rules, estimate.is_prod);
        let side = self.rooms(estimate.is_prod);
        let at = node.get();
        let short =
            side.iter().zip(&estimate.amounts).position(|(column, more)| *more > column[at]);
        let short = short?;
        if side[short][at] == i64::MIN {
            return Some(Overload::Expired);
        }
        let resource = &self.tracked[short];
        let most = percents.get(resource).copied().unwrap_or(0);
        let capacity = self.capacity[short][at];
        let load = most_load(capacity, most).saturating_sub(side[short][at]);
        Some(Overload::Beyond {
            resource: resource.clone(),
            is_window: matches!(view, View::Window(..)),
            percent: percent(load.saturating_add(estimate.amounts[short]), capacity),
            most,
        })
    }
}

/// What a load is made of where a node reports this.
fn basis(report: Option<&LoadReport>, view: View) -> Basis<'_> {
    let Some(usage) = report.and_then(|report| report.node.as_ref()) else {
        return Basis::Nothing;
    };
    let View::Window(figure, window) = view else {
        return if view == View::Prod { Basis::Prod } else { Basis::Reported(&usage.now) };
    };
    let mut windows = usage.windows.iter();
    let found = windows
        .find_map(|own| own.figure(figure).filter(|_| window.is_zero() || own.length == window));
    match found {
        Some(figures) => Basis::Reported(figures),
        None if window.is_zero() => Basis::Reported(&usage.now),
        None => Basis::Estimated,
    }
}

/// What a node has of a resource.
fn capacity(name: &str, known: &Known<'_>) -> i64 {
    let raw = known.rules.filter(|rules| rules.capacity_of.iter().any(|own| **own == *name));
    amount(raw.map_or(known.allocatable, |rules| &rules.capacity), name)
}

/// What is used of what there is, as people are told it.
fn percent(used: i64, capacity: i64) -> i64 {
    (used as f64 / capacity as f64 * 100.0).round() as i64
}

/// The most that may be used of what there is.
fn most_load(capacity: i64, most: i64) -> i64 {
    let mut load =
        (((most as f64 + 0.5) * capacity as f64 / 100.0).floor() as i64).saturating_add(1);
    while load > 0 && percent(load, capacity) > most {
        load -= 1;
    }
    load
}

/// How much more may be used where so much is.
fn room(load: i64, capacity: i64, most: i64) -> i64 {
    match capacity {
        0 => i64::MAX,
        // What says that a report is old is not a room.
        _ => most_load(capacity, most).saturating_sub(load).max(i64::MIN + 1),
    }
}
