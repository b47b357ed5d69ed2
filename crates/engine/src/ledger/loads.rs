//! What nodes report of their load, and what the pods on them are taken to use beyond that.
//!
//! Reports are kept by the name of the node, which may not be there yet. What follows from them is in
//! a [`Book`] for each way of judging that a profile has; where no profile looks at load there is no
//! book, and nothing is kept of any pod.

mod book;
mod estimate;
mod settings;

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::FxHashMap;

pub use book::{Book, LoadAccount, Overload, View};
pub use estimate::Estimate;
pub use settings::{EstimateSettings, ScoreSettings, Settings, Stale};

use super::{Ask, Asks, Ledger, NodeIndex, PodRow};
use crate::fact::{LoadReport, LoadTimes, Uid};
use crate::moment::Moment;
use crate::shared::Chunked;
use book::{Known, Resident};

/// Loads of all nodes.
#[derive(Debug, Clone, Default)]
pub struct Loads {
    reports: FxHashMap<Box<str>, Arc<LoadReport>>,
    /// The same by the place of the node, for every pod that comes to one. That of a place that is free means
    /// nothing.
    placed: Chunked<Option<Arc<LoadReport>>>,
    books: Vec<Arc<Book>>,
    /// When reports will be old, soonest first, by book.
    expiries: BTreeSet<(Moment, usize, NodeIndex)>,
    now: Moment,
    /// How often a report came to count as old, or no longer.
    turns: u64,
    /// Whether anybody wants to know where more can be used than before.
    is_watched: bool,
    /// Nodes of which more can be used, and how much it was before, since somebody last asked.
    grown: Vec<(NodeIndex, LoadRooms)>,
}

impl Loads {
    /// Whether anybody looks at loads.
    #[must_use]
    pub fn are_kept(&self) -> bool {
        !self.books.is_empty()
    }

    /// The books, in the order in which they were asked for.
    pub fn books(&self) -> impl Iterator<Item = &Book> {
        self.books.iter().map(|book| &**book)
    }

    /// The book of these settings; none where nobody asked for it.
    #[must_use]
    pub fn book(&self, settings: &Settings) -> Option<&Book> {
        self.find(settings).map(|(_, book)| book)
    }

    /// The same, and its number.
    pub(crate) fn find(&self, settings: &Settings) -> Option<(usize, &Book)> {
        let mut books = self.books.iter().enumerate();
        let (number, book) = books.find(|(_, book)| book.is_of(settings))?;
        Some((number, book))
    }

    /// Changes when the report of a node comes to count as old, or no longer does.
    #[must_use]
    pub fn turns(&self) -> u64 {
        self.turns
    }

    /// Whether anybody wants to know where more can be used than before.
    pub(crate) fn watch(&mut self, is_watched: bool) {
        self.is_watched = is_watched;
    }

    /// Nodes of which more can be used, and how much it was before, since this was last asked.
    pub(crate) fn take_grown(&mut self) -> Vec<(NodeIndex, LoadRooms)> {
        std::mem::take(&mut self.grown)
    }

    /// A node has come, of which nothing could be used before.
    pub(super) fn welcome(&mut self, node: NodeIndex) {
        if self.is_watched {
            let nothing = |book: &Arc<Book>| [false, true].map(|_| book.nothing());
            let before = LoadRooms(self.books.iter().map(nothing).collect());
            self.grown.push((node, before));
        }
    }

    /// How much more can be used of a node.
    fn rooms(&self, node: NodeIndex) -> LoadRooms {
        let of = |book: &Arc<Book>, is_prod| -> Box<[i64]> {
            let rooms = book.rooms(is_prod).iter();
            rooms.map(|column| column.get(node.get()).copied().unwrap_or(i64::MIN)).collect()
        };
        LoadRooms(self.books.iter().map(|book| [of(book, false), of(book, true)]).collect())
    }

    /// What a node last reported.
    #[must_use]
    pub fn report(&self, node: &str) -> Option<&LoadReport> {
        self.reports.get(node).map(|report| &**report)
    }

    /// The same of the node at a place.
    #[must_use]
    pub fn report_at(&self, node: NodeIndex) -> Option<&LoadReport> {
        reported(&self.placed, node)
    }

    /// A node whose report is old by now, and was not taken for it.
    #[must_use]
    pub fn expired(&self, now: Moment) -> Option<NodeIndex> {
        self.expiries.first().filter(|(at, ..)| *at <= now).map(|(_, _, node)| *node)
    }

    /// When the next report will be old.
    #[must_use]
    pub fn next_expiry(&self) -> Option<Moment> {
        self.expiries.first().map(|(at, ..)| *at)
    }
}

fn reported(placed: &Chunked<Option<Arc<LoadReport>>>, node: NodeIndex) -> Option<&LoadReport> {
    (node.get() < placed.len()).then(|| placed[node.get()].as_deref()).flatten()
}

/// How much more can be used of a node, by book, for pods that earn money and for others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadRooms(Vec<[Box<[i64]>; 2]>);

impl LoadRooms {
    /// Whether there is more of anything than before.
    fn is_beyond(&self, before: &Self) -> bool {
        let sides =
            |rooms: &Self| rooms.0.iter().flatten().flatten().copied().collect::<Vec<i64>>();
        sides(self).into_iter().zip(sides(before)).any(|(now, before)| now > before)
    }

    /// Whether the node takes a pod, by a book.
    pub(crate) fn fit(&self, book: usize, estimate: &Estimate) -> bool {
        let Some(rooms) = self.0.get(book) else { return false };
        let rooms = rooms[usize::from(estimate.is_prod)].iter();
        estimate.is_daemon || rooms.zip(&estimate.amounts).all(|(room, more)| more <= room)
    }
}

impl<'a> Resident<'a> {
    /// A pod on a node; none where it is a reservation, which uses nothing.
    fn of(row: &'a PodRow, asks: &'a Asks) -> Option<Self> {
        (!row.is_reservation()).then(|| Self {
            namespace: &row.namespace,
            name: &row.name,
            requests: &asks.requests.get(row.ask.requests).charged,
            needs: row.ask.load.map(|id| asks.loads.get(id)),
            times: row.load_times.as_deref().copied().unwrap_or_default(),
        })
    }
}

impl Ledger {
    /// Loads are judged like this from now on.
    pub fn keep_loads(&mut self, settings: impl Into<Arc<Settings>>) {
        let settings = settings.into();
        if self.loads.book(&settings).is_some() {
            return;
        }
        self.loads.books.push(Arc::new(Book::new(settings)));
        let nodes: Vec<NodeIndex> = self.nodes.present().iter().collect();
        for node in nodes {
            self.settle_load(node);
        }
    }

    /// Takes in what a node reports, or that it does not any longer.
    pub(super) fn put_report(&mut self, node: Box<str>, report: Option<Arc<LoadReport>>) {
        let place = self.nodes.find(&node);
        match report {
            Some(report) => self.loads.reports.insert(node, report),
            None => self.loads.reports.remove(&node),
        };
        if let Some(node) = place {
            self.place_report(node);
            self.settle_load(node);
        }
    }

    /// There is another node at a place, or it reports something else.
    pub(super) fn place_report(&mut self, node: NodeIndex) {
        let report = self.loads.reports.get(self.nodes.name(node)).cloned();
        if report.is_some() || node.get() < self.loads.placed.len() {
            self.loads.placed.grow(node.get() + 1);
            self.loads.placed[node.get()] = report;
        }
    }

    /// Lets time pass, up to when the report of a node is old.
    pub fn pass(&mut self, node: NodeIndex, now: Moment) {
        self.loads.now = self.loads.now.max(now);
        self.settle_load(node);
    }

    /// Lets time pass, up to now.
    pub fn catch_up(&mut self, now: Moment) {
        while let Some(node) = self.loads.expired(now) {
            self.pass(node, now);
        }
    }

    /// Finds out anew what the load of a node is, since something that it follows from has changed.
    pub(crate) fn settle_load(&mut self, node: NodeIndex) {
        if !self.loads.are_kept() {
            return;
        }
        let before = self.loads.is_watched.then(|| self.loads.rooms(node));
        let mut has_changed = false;
        let Self { nodes, residents, pods, asks, loads, .. } = self;
        let allocatable = nodes.resources.allowed(node);
        let rules = nodes.load_rules(node).cloned();
        let known = Known {
            report: reported(&loads.placed, node),
            rules: rules.as_deref(),
            allocatable: &allocatable,
            now: loads.now,
        };
        for (number, book) in loads.books.iter_mut().enumerate() {
            let old = book.expiry(node);
            let rows = residents.on(node).iter().filter_map(|(_, uid)| pods.get(uid));
            let rows = rows.filter_map(|row| Resident::of(row, asks));
            let book = Arc::make_mut(book);
            has_changed |= book.put(node, &known, rows);
            let new = book.expiry(node);
            loads.turns += u64::from(old.is_some() != new.is_some());
            // A pod that comes or goes does not make a report any older.
            if old != new {
                old.map(|at| loads.expiries.remove(&(at, number, node)));
                loads.expiries.extend(new.map(|at| (at, number, node)));
            }
        }
        if has_changed {
            let places = nodes.places();
            nodes.load_changed.note(node, places);
        }
        if let Some(before) = before.filter(|before| loads.rooms(node).is_beyond(before)) {
            loads.grown.push((node, before));
        }
    }

    /// Whether the load of the node of a pod is what it was when the pod, which takes what it took, was
    /// this.
    pub(super) fn keeps_load(&self, node: NodeIndex, uid: &Uid, old: &PodRow) -> bool {
        let Some(new) = self.pods.get(uid).filter(|_| self.loads.are_kept()) else { return true };
        if new.is_object != old.is_object
            || (&new.namespace, &new.name) != (&old.namespace, &old.name)
        {
            return false;
        }
        let Some(is) = Resident::of(new, &self.asks) else { return true };
        let was = Resident { times: old.load_times.as_deref().copied().unwrap_or_default(), ..is };
        let Some(report) = self.loads.report_at(node) else { return true };
        let mut books = self.loads.books();
        was.times == is.times
            || books.all(|book| book.is_early(report, &was) == book.is_early(report, &is))
    }

    /// Nodes that have not reported their load for so long that it counts as old by some book; when they
    /// last did, and what becomes of them by it. Of one that never did it is told where it is refused for
    /// that.
    pub fn stale_reports(&self) -> impl Iterator<Item = (NodeIndex, Option<Moment>, Stale)> {
        let stale = |node: NodeIndex| {
            let at = self.loads.report_at(node)?.at;
            let mut books = self.loads.books();
            let book = books.find(|book| book.expiry(node).is_none())?;
            let sides = [false, true].map(|is_prod| book.rooms(is_prod));
            let is_refused = |column: &Vec<i64>| column.get(node.get()) == Some(&i64::MIN);
            let stale = match book.settings().stale {
                // Where nothing is limited, nothing is refused.
                Stale::Refused if !sides.into_iter().flatten().any(is_refused) => Stale::Forgotten,
                own => own,
            };
            (at.is_some() || stale == Stale::Refused).then_some((node, at, stale))
        };
        let is_kept = self.loads.are_kept();
        self.nodes.present().iter().filter(move |_| is_kept).filter_map(stale)
    }

    /// What a node is taken to use now, by the tracked resources of a book: what it reports, and what
    /// its pods are taken to use beyond that. None where it reports nothing.
    #[must_use]
    pub fn taken_to_use(&self, book: &Book, node: NodeIndex) -> Option<Vec<i64>> {
        let report = self.loads.report_at(node);
        let rows = self.residents.on(node).iter().filter_map(|(_, uid)| self.pods.get(uid));
        book.taken(report, rows.filter_map(|row| Resident::of(row, &self.asks)))
    }

    /// What the pods of a node are taken to use beyond what it reports, and which of them, by a book.
    #[must_use]
    pub fn load_account(&self, book: &Book, node: NodeIndex) -> LoadAccount {
        let rows = self.residents.on(node).iter().filter_map(|(_, uid)| self.pods.get(uid));
        let residents: Vec<Resident<'_>> =
            rows.filter_map(|row| Resident::of(row, &self.asks)).collect();
        book.account(self.loads.report_at(node), &residents)
    }

    /// What a pod is taken to use by a book.
    #[must_use]
    pub fn estimate(&self, book: &Book, ask: Ask) -> Estimate {
        let requests = &self.asks.requests.get(ask.requests).charged;
        book.estimate(requests, ask.load.map(|id| self.asks.loads.get(id)))
    }

    /// Why a node cannot take what a pod is taken to use; none where it can.
    #[must_use]
    pub fn overload(&self, book: &Book, estimate: &Estimate, node: NodeIndex) -> Option<Overload> {
        let known = Known {
            report: self.loads.report_at(node),
            rules: self.nodes.load_rules(node).map(|rules| &**rules),
            allocatable: &self.nodes.resources.allowed(node),
            now: self.loads.now,
        };
        book.overload(node, &known, estimate)
    }

    /// Which load of a node counts for a pod, and when the node reported it.
    #[must_use]
    pub fn load_seen(&self, book: &Book, ask: Ask, node: NodeIndex) -> (View, Option<Moment>) {
        let rules = self.nodes.load_rules(node).map(|rules| &**rules);
        let view = book.view(rules, self.estimate(book, ask).is_prod);
        (view, self.loads.report_at(node).and_then(|report| report.at))
    }

    /// When a pod got its node, for those who look at loads; nothing is kept where nobody does.
    pub(super) fn kept_times(&self, times: LoadTimes) -> Option<Box<LoadTimes>> {
        (self.loads.are_kept() && times != LoadTimes::default()).then(|| Box::new(times))
    }
}
