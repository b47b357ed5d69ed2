//! How fast pods may be driven off nodes, zone by zone.
//!
//! When many nodes of a zone go silent at once, it is more likely that the network between
//! them and us is broken than that they all are: their pods are left alone.

use std::collections::BTreeMap;
use std::time::Duration;

use super::health::ready;
use crate::facts::NodeFact;

/// The time between two nodes of a zone.
const PACE: Duration = Duration::from_secs(10);
/// The same in a large zone that is disrupted.
const SLOW_PACE: Duration = Duration::from_secs(100);
/// So many of a hundred nodes not ready, or more, are a disruption of the zone, if they are more
/// than [`FEW`] in number.
const UNREADY_PERCENT: usize = 55;
/// So many nodes that are not ready are never a disruption by themselves.
const FEW: usize = 2;
/// A zone with more nodes is large.
const SMALL_ZONE_MAX: usize = 50;
/// The label of a node that does not count.
const EXCLUDED: &str = "node.kubernetes.io/exclude-disruption";
/// When to ask again while a zone is disrupted.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// How a zone is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Health {
    /// Nodes that are ready.
    pub ready: usize,
    /// Nodes that are not.
    pub unready: usize,
}

impl Health {
    fn count(&mut self, node: &NodeFact) -> &mut usize {
        let is_ready = ready(&node.conditions).is_some_and(api::Condition::is_true);
        if is_ready { &mut self.ready } else { &mut self.unready }
    }

    /// Whether so many nodes are not ready that something else must be wrong.
    fn is_disrupted(self) -> bool {
        let all = self.ready + self.unready;
        self.unready > FEW && self.unready * 100 >= all * UNREADY_PERCENT
    }

    /// The time between two nodes of the zone; `None` while pods stay where they are.
    fn pace(self) -> Option<Duration> {
        // A zone that is dark as a whole while others are well is one that has failed.
        if self.ready == 0 || !self.is_disrupted() {
            return Some(PACE);
        }
        (self.ready + self.unready > SMALL_ZONE_MAX).then_some(SLOW_PACE)
    }
}

/// The zone of a node: region and zone, as its labels say.
#[must_use]
pub fn zone_of(node: &NodeFact) -> String {
    let label = |key: &str| node.meta.labels.get(key).unwrap_or_default();
    format!("{}/{}", label("topology.kubernetes.io/region"), label("topology.kubernetes.io/zone"))
}

/// Whether a node counts for how its zone is.
fn counts(node: &NodeFact) -> bool {
    node.meta.labels.get(EXCLUDED).is_none()
}

/// What the change of one node means for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// No node is ready any more: it is more likely we who are cut off. What drives pods off
    /// has to go from all nodes.
    Fell,
    /// Some node is ready again. What was not heard meanwhile is forgiven.
    Lifted,
}

/// How each zone is, counted as nodes come, change and go.
#[derive(Debug, Clone, Default)]
pub struct Zones {
    zones: BTreeMap<String, Health>,
    all: Health,
    was_dark: bool,
}

impl Zones {
    /// A node came, changed or went.
    pub fn change(&mut self, old: Option<&NodeFact>, new: Option<&NodeFact>) {
        if let Some(node) = old.filter(|node| counts(node)) {
            let zone = zone_of(node);
            if let Some(health) = self.zones.get_mut(&zone) {
                let count = health.count(node);
                *count = count.saturating_sub(1);
                if *health == Health::default() {
                    self.zones.remove(&zone);
                }
            }
            let count = self.all.count(node);
            *count = count.saturating_sub(1);
        }
        if let Some(node) = new.filter(|node| counts(node)) {
            *self.zones.entry(zone_of(node)).or_default().count(node) += 1;
            *self.all.count(node) += 1;
        }
    }

    /// How a zone is.
    #[must_use]
    pub fn health(&self, zone: &str) -> Health {
        self.zones.get(zone).copied().unwrap_or_default()
    }

    /// Whether there are nodes and none is ready.
    #[must_use]
    pub fn is_dark(&self) -> bool {
        self.all.ready == 0 && self.all.unready > 0
    }

    /// What has changed for all since it was last asked.
    pub fn turn(&mut self) -> Option<Turn> {
        let is_dark = self.is_dark();
        match (std::mem::replace(&mut self.was_dark, is_dark), is_dark) {
            (false, true) => Some(Turn::Fell),
            (true, false) => Some(Turn::Lifted),
            _ => None,
        }
    }
}

/// Who may be driven empty when. The nodes of a zone stand in line: each is told a time of
/// its own, one pace after the one before it, so that not all of them come at once to find
/// that only one has a turn.
#[derive(Debug, Clone, Default)]
pub struct Pace {
    lines: BTreeMap<String, Line>,
    /// The zone that a node waits in, and its number there.
    waiting: BTreeMap<Box<str>, (String, u64)>,
    numbers: u64,
}

/// The line of one zone.
#[derive(Debug, Clone, Default)]
struct Line {
    /// When a node was last given leave.
    last: Option<Duration>,
    /// Those that wait, by number.
    waiting: BTreeMap<u64, Box<str>>,
}

impl Pace {
    /// Gives leave to drive pods off a node of a zone that is in this state.
    ///
    /// # Errors
    /// How long to wait before asking again.
    pub fn ask(
        &mut self,
        node: &str,
        zone: &str,
        health: Health,
        now: Duration,
    ) -> Result<(), Duration> {
        let pace = health.pace().ok_or(ASK_AGAIN)?;
        if self.waiting.get(node).is_some_and(|(other, _)| other != zone) {
            self.step_out(node);
        }
        let line = self.lines.entry(zone.to_owned()).or_default();
        let free = line.last.map_or(now, |last| last.saturating_add(pace));
        if free <= now {
            line.last = Some(now);
            self.step_out(node);
            return Ok(());
        }
        let before = match self.waiting.get(node) {
            Some((_, number)) => line.waiting.range(..number).count(),
            None => {
                self.numbers += 1;
                let before = line.waiting.len();
                line.waiting.insert(self.numbers, node.into());
                self.waiting.insert(node.into(), (zone.to_owned(), self.numbers));
                before
            }
        };
        let paces = pace.saturating_mul(u32::try_from(before).unwrap_or(u32::MAX));
        Err(free.saturating_add(paces).saturating_sub(now))
    }

    /// A node waits no longer, since it has leave, is well again or is gone. Who is first in
    /// its line then may come sooner than it was told.
    pub fn step_out(&mut self, node: &str) -> Option<Box<str>> {
        let (zone, number) = self.waiting.remove(node)?;
        let line = self.lines.get_mut(&zone)?;
        let was_first = line.waiting.first_key_value().is_some_and(|(first, _)| *first == number);
        line.waiting.remove(&number);
        line.waiting.first_key_value().filter(|_| was_first).map(|(_, next)| next.clone())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_zone_is_paced_by_how_much_of_it_is_silent() {
        let check = |ready, unready, want: Option<u64>| {
            let pace = Health { ready, unready }.pace();
            assert_eq!(pace.map(|pace| pace.as_secs()), want, "{ready} {unready}");
        };
        check(3, 1, Some(10));
        check(1, 2, Some(10));
        check(2, 3, None);
        check(3, 3, Some(10));
        check(100, 110, Some(10));
        check(80, 110, Some(100));
        check(22, 28, None);
        check(0, 5, Some(10));
    }

    #[test]
    fn leave_is_given_one_node_at_a_time() {
        let well = Health { ready: 9, unready: 2 };
        let secs = Duration::from_secs;
        let mut pace = Pace::default();
        assert_eq!(pace.ask("a", "z", well, secs(0)), Ok(()));
        assert_eq!(pace.ask("b", "z", well, secs(4)), Err(secs(6)));
        assert_eq!(pace.ask("a", "other", well, secs(4)), Ok(()));
        assert_eq!(pace.ask("b", "z", well, secs(10)), Ok(()));
        let lost = Health { ready: 2, unready: 9 };
        assert_eq!(pace.ask("c", "z", lost, secs(99)), Err(ASK_AGAIN));
    }

    #[test]
    fn those_that_wait_are_told_times_one_after_the_other() {
        let health = Health { ready: 99, unready: 5 };
        let secs = Duration::from_secs;
        let mut pace = Pace::default();
        let mut ask = |node: &str, now| pace.ask(node, "z", health, secs(now));
        assert_eq!(ask("a", 0), Ok(()));
        let told = ["b", "c", "d", "e"].map(|node| ask(node, 1));
        assert_eq!(told, [9, 19, 29, 39].map(|wait| Err(secs(wait))));
        // Asking again moves nobody.
        assert_eq!((ask("d", 2), ask("b", 10)), (Err(secs(28)), Ok(())));
        assert_eq!((ask("c", 10), ask("e", 11)), (Err(secs(10)), Err(secs(29))));
        // Who steps out from the front lets the next one come sooner.
        assert_eq!(pace.step_out("d"), None);
        assert_eq!(pace.step_out("c").as_deref(), Some("e"));
        assert_eq!(pace.ask("e", "z", health, secs(12)), Err(secs(8)));
        assert_eq!(pace.step_out("e"), None);
        assert_eq!((pace.step_out("e"), pace.waiting.len()), (None, 0));
    }

    fn node(word: &str) -> NodeFact {
        let (status, labels) = match word.strip_suffix('x') {
            Some(status) => (status, json!({ EXCLUDED: "" })),
            None => (word, json!({})),
        };
        let conditions = match status {
            "-" => json!([]),
            status => json!([{ "type": "Ready", "status": status }]),
        };
        let wire = json!({ "metadata": { "name": "n", "labels": labels },
                           "status": { "conditions": conditions } });
        serde_json::from_value(wire).unwrap()
    }

    #[test]
    fn it_is_dark_when_no_node_is_ready() {
        let check = |nodes: &str, dark: bool| {
            let nodes: Vec<NodeFact> = nodes.split_whitespace().map(node).collect();
            let mut zones = Zones::default();
            nodes.iter().for_each(|node| zones.change(None, Some(node)));
            assert_eq!(zones.is_dark(), dark, "{nodes:?}");
            let counted = nodes.iter().filter(|node| counts(node)).count();
            let health = zones.health("/");
            assert_eq!(health.ready + health.unready, counted);
            nodes.iter().for_each(|node| zones.change(Some(node), None));
            assert_eq!((zones.all, zones.zones.len()), (Health::default(), 0));
        };
        check("", false);
        check("True", false);
        check("Unknown", true);
        check("-", true);
        check("False Unknown True", false);
        check("False Unknown -", true);
        check("False Truex", true);
        check("Falsex", false);
    }

    #[test]
    fn a_node_that_moves_counts_where_it_is() {
        let at = |zone: &str, status: &str| {
            let labels = json!({ "topology.kubernetes.io/zone": zone });
            let wire = json!({ "metadata": { "name": "n", "labels": labels },
                "status": { "conditions": [{ "type": "Ready", "status": status }] } });
            serde_json::from_value::<NodeFact>(wire).unwrap()
        };
        let (there, here) = (at("a", "True"), at("b", "Unknown"));
        let mut zones = Zones::default();
        zones.change(None, Some(&there));
        zones.change(Some(&there), Some(&here));
        assert_eq!(zones.health("/a"), Health::default());
        assert_eq!(zones.health("/b"), Health { ready: 0, unready: 1 });
    }

    #[test]
    fn darkness_falls_and_lifts_once() {
        let (well, lost) = (node("True"), node("Unknown"));
        let mut zones = Zones::default();
        assert_eq!(zones.turn(), None);
        zones.change(None, Some(&well));
        zones.change(None, Some(&well));
        zones.change(Some(&well), Some(&lost));
        assert_eq!(zones.turn(), None);
        zones.change(Some(&well), Some(&lost));
        assert_eq!((zones.turn(), zones.turn()), (Some(Turn::Fell), None));
        zones.change(Some(&lost), Some(&well));
        assert_eq!((zones.turn(), zones.turn()), (Some(Turn::Lifted), None));
    }
}
