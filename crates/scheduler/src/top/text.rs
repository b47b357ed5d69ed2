//! How full nodes are, as tables.

use api::priority::PriorityBand;
use api::resource_names::{KnownResource, Unit};
use engine::why::amount;
use object::time::human_duration;

use super::{Figure, Figures, NodeTop, PLAIN, Report, Top};

/// What stands where nobody knows.
const UNKNOWN: &str = "-";

/// What is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// CPU and memory of each node.
    Plain,
    /// Every resource of each node, and its pods.
    Wide,
    /// CPU and memory by the bands of pods.
    Bands,
}

impl Top {
    /// A table for people. Its header is the same whatever there is.
    #[must_use]
    pub fn text(&self, view: View) -> String {
        let header: &[&str] = match view {
            View::Plain => &[
                "NODE",
                "RESOURCE",
                "ALLOCATABLE",
                "REQUESTED",
                "RESERVED",
                "ESTIMATED",
                "USED",
                "REPORT",
            ],
            View::Wide => &[
                "NODE",
                "RESOURCE",
                "ALLOCATABLE",
                "REQUESTED",
                "RESERVED",
                "ESTIMATED",
                "USED",
                "REPORT",
                "PODS",
            ],
            View::Bands => {
                &["NODE", "BAND", "PODS", "RESOURCE", "ALLOCATABLE", "REQUESTED", "USED", "REPORT"]
            }
        };
        let mut rows = vec![header.iter().map(ToString::to_string).collect()];
        for node in self.nodes.iter().chain(&self.total) {
            match view {
                View::Plain => rows.extend(resources(node, |name| PLAIN.contains(&name))),
                View::Wide => rows.extend(resources(node, |_| true).map(|mut row| {
                    row.push(format!("{}/{}", node.pods, node.pods_allowed));
                    row
                })),
                View::Bands => rows.extend(bands(node)),
            }
        }
        aligned(&rows)
    }
}

fn resources(node: &NodeTop, is_shown: impl Fn(&str) -> bool) -> impl Iterator<Item = Vec<String>> {
    let shown = node.resources.iter().filter(move |(name, _)| is_shown(name));
    shown.map(|(name, figures)| {
        let of = |figure| shared(name, figures, figure);
        vec![
            node.node.clone(),
            name.clone(),
            readable(name, figures.allocatable),
            of(Figure::Requested),
            of(Figure::Reserved),
            of(Figure::Estimated),
            of(Figure::Used),
            told(node.report),
        ]
    })
}

fn bands(node: &NodeTop) -> impl Iterator<Item = Vec<String>> {
    let shown = node.bands.iter().filter(|band| band.is_there());
    shown.flat_map(|band| {
        band.resources.iter().map(|(name, figures)| {
            vec![
                node.node.clone(),
                band_name(band.band).to_owned(),
                band.pods.to_string(),
                name.clone(),
                readable(name, figures.allocatable),
                shared(name, figures, Figure::Requested),
                shared(name, figures, Figure::Used),
                told(node.report),
            ]
        })
    })
}

/// The names under which the pods of a band request CPU and memory.
pub(super) fn own_names(band: Option<PriorityBand>) -> [&'static str; 2] {
    [KnownResource::Cpu, KnownResource::Memory]
        // Whoever has no resources of their own requests those of everybody.
        .map(|plain| plain.in_band(band).unwrap_or(plain).as_str())
}

/// A band as people call it.
pub(super) fn band_name(band: Option<PriorityBand>) -> &'static str {
    match band {
        Some(PriorityBand::Prod) => "prod",
        Some(PriorityBand::Mid) => "mid",
        Some(PriorityBand::Batch) => "batch",
        Some(PriorityBand::Free) => "free",
        None => "none",
    }
}

/// A figure, and how much of what there is that is.
fn shared(name: &str, figures: &Figures, figure: Figure) -> String {
    let Some(own) = figures.get(figure) else { return UNKNOWN.to_owned() };
    let text = readable(name, own);
    match figures.share(figure, 100) {
        Some(percent) if own != 0 => format!("{text} ({percent}%)"),
        _ => text,
    }
}

/// An amount in few digits: bytes in the largest unit of which there is one, in tenths.
pub(crate) fn readable(name: &str, own: i64) -> String {
    let are_bytes = KnownResource::named(name).is_some_and(|known| known.unit() == Unit::Bytes)
        || name.starts_with("hugepages-");
    if !are_bytes {
        return amount(name, own);
    }
    const UNITS: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let bytes = own.unsigned_abs();
    let power = (bytes.max(1).ilog2() / 10) as usize;
    let Some(unit) = power.checked_sub(1).and_then(|place| UNITS.get(place)) else {
        return own.to_string();
    };
    let tenths = (u128::from(bytes) * 10) >> (10 * power);
    let sign = if own < 0 { "-" } else { "" };
    match (tenths / 10, tenths % 10) {
        (whole, 0) => format!("{sign}{whole}{unit}"),
        (whole, tenth) => format!("{sign}{whole}.{tenth}{unit}"),
    }
}

fn told(report: Report) -> String {
    let age =
        |age: std::time::Duration| human_duration(i64::try_from(age.as_secs()).unwrap_or(i64::MAX));
    match report {
        Report::Never => UNKNOWN.to_owned(),
        Report::Fresh(own) => format!("{} old", age(own)),
        Report::Stale(own) => format!("{} old, stale", age(own)),
        Report::Of(fresh, all) => format!("{fresh} of {all} fresh"),
    }
}

/// Rows in columns that are as wide as their widest cell; nothing stands after the last.
pub(crate) fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let wide = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| wide(column).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}
