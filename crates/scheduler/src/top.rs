//! How full nodes are: what they have, and what of it is requested, held, taken to be used and used.
//!
//! It is read off a ledger that is told the objects of the cluster, as the one is by which pods get
//! their nodes: nothing is added up in a second way.

mod text;

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use api::NodeMetric;
use api::priority::PriorityBand;
use chassis::client::{Client, Error, ListOptions};
use engine::ledger::{Balance, Ledger, LoadSettings, NodeIndex, Share};
use engine::moment::Moment;
use engine::needs::Amounts;
use engine::why::amount;
use serde_json::{Value, json};

use crate::config::Configuration;
use crate::message::Kind;
use crate::why;

pub use text::View;
pub(crate) use text::{aligned, readable};

/// The kind of which reports of nodes are.
const REPORTS: &str = "nodemetrics.slo.koordinator.sh";

/// How full nodes are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Top {
    /// The nodes, in the order that was asked for.
    pub nodes: Vec<NodeTop>,
    /// All of them together; none where one node was asked for.
    pub total: Option<NodeTop>,
    /// Whether the server knows reports of nodes.
    pub reports_are_served: bool,
    /// Objects that could not be read, and why: they are not counted.
    pub unread: Vec<String>,
}

/// How full one node is, or all of them are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeTop {
    /// Its name.
    pub node: String,
    /// When it last said what it uses.
    pub report: Report,
    /// How many pods it has.
    pub pods: i64,
    /// How many it takes.
    pub pods_allowed: i64,
    /// By the name of the resource.
    pub resources: BTreeMap<String, Figures>,
    /// What the pods of each band have of it, in the order of [`BANDS`].
    pub bands: Vec<BandTop>,
}

/// The bands of pods, as they are shown; those that state none come last.
pub const BANDS: [Option<PriorityBand>; 5] = [
    Some(PriorityBand::Prod),
    Some(PriorityBand::Mid),
    Some(PriorityBand::Batch),
    Some(PriorityBand::Free),
    None,
];

/// When nodes last said what they use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Report {
    /// It never did.
    #[default]
    Never,
    /// So long ago, which counts.
    Fresh(Duration),
    /// So long ago, which is too long.
    Stale(Duration),
    /// So many of so many nodes have said so lately.
    Of(usize, usize),
}

/// What there is of a resource, and what becomes of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    /// What pods may request.
    pub allocatable: i64,
    /// What they do request.
    pub requested: i64,
    /// What reservations hold and no pod uses.
    pub reserved: i64,
    /// What is taken to be used, where nodes report.
    pub estimated: Option<i64>,
    /// What is used, where nodes report.
    pub used: Option<i64>,
    /// What of that which pods may request is on nodes that report.
    pub reporting: i64,
}

/// What the pods of one band have of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BandTop {
    /// Which; none for pods that state none.
    pub band: Option<PriorityBand>,
    /// How many there are.
    pub pods: i64,
    /// By the name under which the band requests CPU and memory.
    pub resources: Vec<(String, Figures)>,
}

/// By what nodes are put in order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SortKey {
    /// Their names.
    #[default]
    Name,
    /// How long ago they reported, the longest first.
    Report,
    /// The share of what they have, the fullest first.
    Share(Figure, &'static str),
}

/// One of the figures of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// What pods request.
    Requested,
    /// What reservations hold and no pod uses.
    Reserved,
    /// What is taken to be used.
    Estimated,
    /// What is used.
    Used,
}

/// The figures by name.
const FIGURES: [(&str, Figure); 4] = [
    ("requested", Figure::Requested),
    ("reserved", Figure::Reserved),
    ("estimated", Figure::Estimated),
    ("used", Figure::Used),
];
/// The resources that every node has: they are shown first, and nodes are put in order by them.
const PLAIN: [&str; 2] = ["cpu", "memory"];

/// A key that nodes cannot be put in order by.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("nodes cannot be sorted by it; use one of {}", SortKey::names().join(", "))]
pub struct UnknownKey;

impl SortKey {
    /// The names of all keys.
    #[must_use]
    pub fn names() -> Vec<String> {
        let shares = FIGURES.iter().flat_map(|(figure, _)| {
            PLAIN.iter().map(move |resource| format!("{figure}-{resource}"))
        });
        ["name".to_owned(), "report".to_owned()].into_iter().chain(shares).collect()
    }

    /// Whether nodes have to report for it to mean anything.
    fn needs_reports(self) -> bool {
        matches!(self, Self::Report | Self::Share(Figure::Estimated | Figure::Used, _))
    }
}

impl FromStr for SortKey {
    type Err = UnknownKey;

    fn from_str(text: &str) -> Result<Self, UnknownKey> {
        match text {
            "name" => Ok(Self::Name),
            "report" => Ok(Self::Report),
            _ => {
                let (figure, resource) = text.split_once('-').ok_or(UnknownKey)?;
                let figure = FIGURES.iter().find(|(name, _)| *name == figure).ok_or(UnknownKey)?;
                let resource = PLAIN.iter().find(|name| **name == resource).ok_or(UnknownKey)?;
                Ok(Self::Share(figure.1, resource))
            }
        }
    }
}

impl fmt::Display for SortKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name => f.write_str("name"),
            Self::Report => f.write_str("report"),
            Self::Share(figure, resource) => {
                let mut names = FIGURES.iter().filter(|(_, own)| own == figure);
                let name = names.next().map_or("", |(name, _)| name);
                write!(f, "{name}-{resource}")
            }
        }
    }
}

/// Why it cannot be said how full nodes are.
#[derive(Debug, thiserror::Error)]
pub enum TopError {
    /// There is no such node.
    #[error("there is no node {0}; `kubectl get nodes` lists those there are")]
    NoNode(String),
    /// Nodes are to be put in order by what they do not report.
    #[error(
        "nodes cannot be sorted by {0}: the server does not serve {REPORTS}, so that no node says \
         what it uses. `gantry crds | kubectl apply -f -` installs it; sort by name or \
         requested-cpu meanwhile"
    )]
    NoReports(SortKey),
    /// The cluster does not tell.
    #[error(transparent)]
    Api(#[from] Error),
}

/// What is asked.
#[derive(Debug, Clone, Default)]
pub struct Question {
    /// One node; all where none is named.
    pub node: Option<String>,
    /// In which order.
    pub sort: SortKey,
}

/// Says how full nodes are, from the objects of the cluster: nodes, pods, reservations and reports are
/// listed once. Loads are estimated as the first profile does that looks at them.
///
/// # Errors
/// When there is no such node, a kind cannot be listed, or the order needs reports that nobody makes.
pub async fn from_objects(
    client: &Client,
    configuration: &Configuration,
    question: &Question,
) -> Result<Top, TopError> {
    let reports_are_served = are_served(client).await?;
    if question.sort.needs_reports() && !reports_are_served {
        return Err(TopError::NoReports(question.sort));
    }
    let settings = settings(configuration);
    let mut ledger = Ledger::default();
    ledger.keep_loads(settings.clone());
    ledger.keep_reservations();
    let kinds = [Kind::Node, Kind::Pod, Kind::NodeMetric, Kind::Reservation];
    let unread = why::fill(client, configuration, &mut ledger, &BTreeSet::from(kinds)).await?;
    let nanos = client.clock().now().as_nanosecond();
    let now = Moment(u64::try_from(nanos).unwrap_or_default());
    let mut top = Top::of(&ledger, &settings, question, now)?;
    (top.reports_are_served, top.unread) = (reports_are_served, unread);
    Ok(top)
}

async fn are_served(client: &Client) -> Result<bool, Error> {
    let options = ListOptions { limit: 1, ..ListOptions::default() };
    match client.all::<NodeMetric>().list(&options).await {
        Err(error) if error.is_not_found() => Ok(false),
        listed => listed.map(|_| true),
    }
}

/// How loads are judged.
fn settings(configuration: &Configuration) -> LoadSettings {
    let mut profiles = configuration.profiles.iter();
    let own =
        profiles.find_map(|own| own.assemble().profile.loads().next().map(|own| (**own).clone()));
    own.unwrap_or_default()
}

impl Top {
    /// How full nodes are by a ledger that looks at loads with these settings.
    fn of(
        ledger: &Ledger,
        settings: &LoadSettings,
        question: &Question,
        now: Moment,
    ) -> Result<Self, TopError> {
        let is_asked = |name: &str| question.node.as_deref().is_none_or(|own| own == name);
        let book = ledger.loads.book(settings);
        let of = |node: NodeIndex| {
            let name = ledger.nodes.name(node);
            let balance = book.filter(|_| is_asked(name)).map(|book| ledger.balance(book, node));
            balance.map(|balance| NodeTop::of(name, &balance, settings, now))
        };
        let mut nodes: Vec<NodeTop> = ledger.nodes.present().iter().filter_map(of).collect();
        if let Some(name) = question.node.as_ref().filter(|_| nodes.is_empty()) {
            return Err(TopError::NoNode(name.clone()));
        }
        nodes.sort_by(|a, b| a.node.cmp(&b.node));
        sort(&mut nodes, question.sort);
        let total = question.node.is_none().then(|| NodeTop::total(&nodes));
        Ok(Self { nodes, total, reports_are_served: true, unread: Vec::new() })
    }

    /// What has to be known besides, one line each.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let unread = self.unread.iter();
        let mut notes: Vec<String> = unread
            .map(|unread| format!("not counted, because it cannot be read: {unread}"))
            .collect();
        if !self.reports_are_served {
            notes.push(format!(
                "no node says what it uses: the server does not serve {REPORTS}; `gantry crds | \
                 kubectl apply -f -` installs it"
            ));
        }
        notes
    }

    /// The same for programs.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let nodes: Vec<Value> = self.nodes.iter().map(NodeTop::to_json).collect();
        let mut json = json!({ "nodes": nodes, "reportsAreServed": self.reports_are_served });
        if let Some(total) = &self.total {
            json["total"] = total.to_json();
        }
        if !self.unread.is_empty() {
            json["unread"] = json!(self.unread);
        }
        json
    }
}

fn sort(nodes: &mut [NodeTop], key: SortKey) {
    match key {
        SortKey::Name => {}
        SortKey::Report => nodes.sort_by_key(|own| Reverse(own.report.age())),
        SortKey::Share(figure, resource) => nodes.sort_by_key(|own| {
            let figures = own.resources.get(resource).copied().unwrap_or_default();
            Reverse(figures.share(figure, 1000))
        }),
    }
}

impl Report {
    fn of(reported: Option<Moment>, settings: &LoadSettings, now: Moment) -> Self {
        match reported {
            None => Self::Never,
            Some(at) if at.after(settings.expires_after) <= now => Self::Stale(now.since(at)),
            Some(at) => Self::Fresh(now.since(at)),
        }
    }

    /// How long ago; for ever where it never was.
    fn age(self) -> Duration {
        match self {
            Self::Fresh(age) | Self::Stale(age) => age,
            Self::Never | Self::Of(..) => Duration::MAX,
        }
    }
}

impl Figures {
    fn of(name: &str, balance: &Balance) -> Self {
        let allocatable = balance.allocatable.of(name);
        let estimated = balance.estimated.as_ref();
        // Of what is no CPU or memory, nodes need not say anything.
        let used = balance.used.as_ref().map(|used| used.of(name));
        let used = used.filter(|used| *used != 0 || PLAIN.contains(&name));
        Self {
            allocatable,
            requested: balance.requested.of(name),
            reserved: balance.reserved.of(name),
            estimated: estimated.and_then(|own| own.get(name).copied()),
            used,
            reporting: if used.is_some() { allocatable } else { 0 },
        }
    }

    fn get(&self, figure: Figure) -> Option<i64> {
        match figure {
            Figure::Requested => Some(self.requested),
            Figure::Reserved => Some(self.reserved),
            Figure::Estimated => self.estimated,
            Figure::Used => self.used,
        }
    }

    /// Of what a figure is a share.
    fn whole(&self, figure: Figure) -> i64 {
        match figure {
            Figure::Requested | Figure::Reserved => self.allocatable,
            Figure::Estimated | Figure::Used => self.reporting,
        }
    }

    /// A figure as a share of what there is, in so many parts of a whole, rounded once; none where there
    /// is nothing, or nobody knows.
    fn share(&self, figure: Figure, parts: i128) -> Option<i64> {
        let whole = i128::from(self.whole(figure));
        let own = i128::from(self.get(figure)?);
        let share = || (own * parts * 2 + whole) / (whole * 2);
        (whole > 0).then(|| i64::try_from(share()).unwrap_or(i64::MAX))
    }

    fn add(&mut self, other: &Self) {
        let both = |a: Option<i64>, b: Option<i64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (one, other) => one.or(other),
        };
        self.allocatable = self.allocatable.saturating_add(other.allocatable);
        self.requested = self.requested.saturating_add(other.requested);
        self.reserved = self.reserved.saturating_add(other.reserved);
        self.estimated = both(self.estimated, other.estimated);
        self.used = both(self.used, other.used);
        self.reporting = self.reporting.saturating_add(other.reporting);
    }

    fn to_json(self, name: &str) -> Value {
        let mut json = json!({
            "allocatable": amount(name, self.allocatable),
            "requested": amount(name, self.requested),
            "reserved": amount(name, self.reserved),
        });
        for (key, own) in [("estimated", self.estimated), ("used", self.used)] {
            if let Some(own) = own {
                json[key] = amount(name, own).into();
            }
        }
        json
    }
}

impl NodeTop {
    fn of(name: &str, balance: &Balance, settings: &LoadSettings, now: Moment) -> Self {
        let all = [&balance.allocatable, &balance.requested, &balance.reserved];
        let plain = PLAIN.map(str::to_owned).into_iter();
        let names: BTreeSet<String> =
            all.into_iter().flat_map(Amounts::names).map(str::to_owned).chain(plain).collect();
        let figures = |name: String| {
            let figures = Figures::of(&name, balance);
            (name, figures)
        };
        let bands = BANDS.iter().map(|band| BandTop::of(*band, balance));
        Self {
            node: name.to_owned(),
            report: Report::of(balance.reported, settings, now),
            pods: balance.pods,
            pods_allowed: balance.pods_allowed,
            bands: bands.collect(),
            resources: names.into_iter().map(figures).collect(),
        }
    }

    /// All nodes together.
    fn total(nodes: &[Self]) -> Self {
        let fresh = nodes.iter().filter(|own| matches!(own.report, Report::Fresh(_))).count();
        let bands = BANDS.map(|band| BandTop::of(band, &Balance::default())).to_vec();
        let report = Report::Of(fresh, nodes.len());
        let mut total = Self { node: "TOTAL".to_owned(), report, bands, ..Self::default() };
        for own in nodes {
            total.pods += own.pods;
            total.pods_allowed += own.pods_allowed;
            for (name, figures) in &own.resources {
                total.resources.entry(name.clone()).or_default().add(figures);
            }
            for (sum, band) in total.bands.iter_mut().zip(&own.bands) {
                sum.pods += band.pods;
                for ((_, sum), (_, figures)) in sum.resources.iter_mut().zip(&band.resources) {
                    sum.add(figures);
                }
            }
        }
        total
    }

    fn to_json(&self) -> Value {
        let figures = |(name, own): (&String, &Figures)| (name.clone(), own.to_json(name));
        let resources: serde_json::Map<String, Value> =
            self.resources.iter().map(figures).collect();
        let bands: Vec<Value> = self.bands.iter().map(BandTop::to_json).collect();
        let report = match self.report {
            Report::Never => json!({ "state": "never" }),
            Report::Fresh(age) => json!({ "state": "fresh", "ageSeconds": age.as_secs() }),
            Report::Stale(age) => json!({ "state": "stale", "ageSeconds": age.as_secs() }),
            Report::Of(fresh, all) => json!({ "fresh": fresh, "nodes": all }),
        };
        json!({
            "node": self.node, "report": report, "pods": self.pods,
            "podsAllowed": self.pods_allowed, "resources": resources, "bands": bands,
        })
    }
}

impl BandTop {
    fn of(band: Option<PriorityBand>, balance: &Balance) -> Self {
        let nothing = Share::default();
        let share = balance.bands.get(&band).unwrap_or(&nothing);
        let resources = text::own_names(band).into_iter().zip(PLAIN).map(|(name, plain)| {
            // Where a node reports, a band of which it says nothing uses nothing.
            let used =
                balance.used.as_ref().map(|_| share.used.as_ref().map_or(0, |own| own.of(plain)));
            let allocatable = balance.allocatable.of(name);
            let figures = Figures {
                allocatable,
                requested: share.requested.of(name),
                used,
                reporting: if used.is_some() { allocatable } else { 0 },
                ..Figures::default()
            };
            (name.to_owned(), figures)
        });
        Self { band, pods: share.pods, resources: resources.collect() }
    }

    /// Whether there is anything to be said of it.
    fn is_there(&self) -> bool {
        let is_own = |name: &str| !PLAIN.contains(&name);
        let has_own = |(name, figures): &(String, Figures)| {
            (is_own(name) && figures.allocatable > 0) || figures.used.is_some_and(|used| used > 0)
        };
        self.pods > 0 || self.band == Some(PriorityBand::Prod) || self.resources.iter().any(has_own)
    }

    fn to_json(&self) -> Value {
        let figures = self.resources.iter().map(|(name, own)| {
            let mut json = own.to_json(name);
            if let Some(members) = json.as_object_mut() {
                members.remove("reserved");
            }
            (name.clone(), json)
        });
        let resources: serde_json::Map<String, Value> = figures.collect();
        json!({ "band": text::band_name(self.band), "pods": self.pods, "resources": resources })
    }
}
