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
/// More than so many of a hundred nodes not ready, and more than [`FEW`] in number, are a
/// disruption of the zone.
const UNREADY_PERCENT_MAX: usize = 55;
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
    /// Whether so many nodes are not ready that something else must be wrong.
    fn is_disrupted(self) -> bool {
        let all = self.ready + self.unready;
        self.unready > FEW && self.unready * 100 >= all * UNREADY_PERCENT_MAX
    }
}

/// The time between two nodes of a zone; `None` while pods stay where they are.
fn pace(zone: &str, zones: &BTreeMap<String, Health>) -> Option<Duration> {
    let health = zones.get(zone).copied().unwrap_or_default();
    // A zone that is dark as a whole while others are well is one that has failed.
    if health.ready == 0 || !health.is_disrupted() {
        return Some(PACE);
    }
    (health.ready + health.unready > SMALL_ZONE_MAX).then_some(SLOW_PACE)
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

/// How each zone is.
#[must_use]
pub fn survey<'a>(nodes: impl IntoIterator<Item = &'a NodeFact>) -> BTreeMap<String, Health> {
    let mut zones: BTreeMap<String, Health> = BTreeMap::new();
    for node in nodes.into_iter().filter(|node| counts(node)) {
        let zone = zones.entry(zone_of(node)).or_default();
        match ready(&node.conditions) {
            Some(ready) if ready.is_true() => zone.ready += 1,
            _ => zone.unready += 1,
        }
    }
    zones
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

/// Whether any node at all is ready, counted as nodes come, change and go.
#[derive(Debug, Clone, Default)]
pub struct Darkness {
    ready: usize,
    unready: usize,
    was_dark: bool,
}

impl Darkness {
    /// A node came, changed or went.
    pub fn change(&mut self, old: Option<&NodeFact>, new: Option<&NodeFact>) {
        if let Some(count) = old.filter(|node| counts(node)).map(|old| self.count(old)) {
            *count = count.saturating_sub(1);
        }
        if let Some(count) = new.filter(|node| counts(node)).map(|new| self.count(new)) {
            *count += 1;
        }
    }

    fn count(&mut self, node: &NodeFact) -> &mut usize {
        let is_ready = ready(&node.conditions).is_some_and(api::Condition::is_true);
        if is_ready { &mut self.ready } else { &mut self.unready }
    }

    /// Whether there are nodes and none is ready.
    #[must_use]
    pub fn is_dark(&self) -> bool {
        self.ready == 0 && self.unready > 0
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

/// When a node of each zone was last given leave.
#[derive(Debug, Clone, Default)]
pub struct Pace(BTreeMap<String, Duration>);

impl Pace {
    /// Gives leave to drive pods off one node of a zone.
    ///
    /// # Errors
    /// How long to wait before asking again.
    pub fn ask(
        &mut self,
        zone: &str,
        zones: &BTreeMap<String, Health>,
        now: Duration,
    ) -> Result<(), Duration> {
        let pace = pace(zone, zones).ok_or(ASK_AGAIN)?;
        if let Some(last) = self.0.get(zone)
            && let wait = last.saturating_add(pace).saturating_sub(now)
            && !wait.is_zero()
        {
            return Err(wait);
        }
        self.0.insert(zone.to_owned(), now);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_zone_is_paced_by_how_much_of_it_is_silent() {
        let check = |ready, unready, want: Option<u64>| {
            let zones = BTreeMap::from([("z".to_owned(), Health { ready, unready })]);
            assert_eq!(pace("z", &zones).map(|pace| pace.as_secs()), want, "{ready} {unready}");
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
        let zones = |ready, unready| BTreeMap::from([("z".to_owned(), Health { ready, unready })]);
        let mut pace = Pace::default();
        let secs = Duration::from_secs;
        assert_eq!(pace.ask("z", &zones(9, 1), secs(0)), Ok(()));
        assert_eq!(pace.ask("z", &zones(9, 2), secs(4)), Err(secs(6)));
        assert_eq!(pace.ask("other", &zones(9, 2), secs(4)), Ok(()));
        assert_eq!(pace.ask("z", &zones(9, 2), secs(10)), Ok(()));
        assert_eq!(pace.ask("z", &zones(2, 9), secs(99)), Err(ASK_AGAIN));
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
            let mut darkness = Darkness::default();
            nodes.iter().for_each(|node| darkness.change(None, Some(node)));
            assert_eq!(darkness.is_dark(), dark, "{nodes:?}");
            // The survey, which counts anew, agrees.
            let zones = survey(&nodes);
            let counted = zones.values().any(|zone| zone.ready + zone.unready > 0);
            assert_eq!(counted && zones.values().all(|zone| zone.ready == 0), dark);
            nodes.iter().for_each(|node| darkness.change(Some(node), None));
            assert_eq!((darkness.ready, darkness.unready), (0, 0));
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
    fn darkness_falls_and_lifts_once() {
        let (well, lost) = (node("True"), node("Unknown"));
        let mut darkness = Darkness::default();
        assert_eq!(darkness.turn(), None);
        darkness.change(None, Some(&well));
        darkness.change(None, Some(&well));
        darkness.change(Some(&well), Some(&lost));
        assert_eq!(darkness.turn(), None);
        darkness.change(Some(&well), Some(&lost));
        assert_eq!((darkness.turn(), darkness.turn()), (Some(Turn::Fell), None));
        darkness.change(Some(&lost), Some(&well));
        assert_eq!((darkness.turn(), darkness.turn()), (Some(Turn::Lifted), None));
    }
}
