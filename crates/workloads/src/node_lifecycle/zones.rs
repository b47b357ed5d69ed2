//! How fast pods may be driven off nodes, zone by zone.
//!
//! When many nodes of a zone go silent at once, it is more likely that the network between
//! them and us is broken than that they all are: their pods are left alone.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::health::ready;
use crate::facts::NodeFact;

/// The time between two nodes of a zone.
const PACE: SignedDuration = SignedDuration::from_secs(10);
/// The same in a large zone that is disrupted.
const SLOW_PACE: SignedDuration = SignedDuration::from_secs(100);
/// More than so many of a hundred nodes not ready, and more than [`FEW`] in number, are a
/// disruption of the zone.
const UNREADY_PERCENT_MAX: usize = 55;
/// So many nodes that are not ready are never a disruption by themselves.
const FEW: usize = 2;
/// A zone with more nodes is large.
const SMALL_ZONE_MAX: usize = 50;
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
fn pace(zone: &str, zones: &BTreeMap<String, Health>) -> Option<SignedDuration> {
    // When no node at all is ready, it is more likely we who are cut off.
    if zones.values().all(|health| health.ready == 0) {
        return None;
    }
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

/// How each zone is.
#[must_use]
pub fn survey<'a>(nodes: impl IntoIterator<Item = &'a NodeFact>) -> BTreeMap<String, Health> {
    let mut zones: BTreeMap<String, Health> = BTreeMap::new();
    for node in nodes {
        let zone = zones.entry(zone_of(node)).or_default();
        match ready(&node.conditions) {
            Some(ready) if !ready.is_true() => zone.unready += 1,
            _ => zone.ready += 1,
        }
    }
    zones
}

/// When a node of each zone was last given leave.
#[derive(Debug, Clone, Default)]
pub struct Pace(BTreeMap<String, Timestamp>);

impl Pace {
    /// Gives leave to drive pods off one node of a zone.
    ///
    /// # Errors
    /// How long to wait before asking again.
    pub fn ask(
        &mut self,
        zone: &str,
        zones: &BTreeMap<String, Health>,
        now: Timestamp,
    ) -> Result<(), Duration> {
        let pace = pace(zone, zones).ok_or(ASK_AGAIN)?;
        if let Some(last) = self.0.get(zone)
            && let Ok(wait) = Duration::try_from(pace - now.duration_since(*last))
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
    use super::*;
    use crate::facts::testing::at;

    #[test]
    fn a_zone_is_paced_by_how_much_of_it_is_silent() {
        let check = |ready, unready, want: Option<i64>| {
            let well = ("well".to_owned(), Health { ready: 1, unready: 0 });
            let zones = BTreeMap::from([("z".to_owned(), Health { ready, unready }), well]);
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
        let dark = BTreeMap::from([("z".to_owned(), Health { ready: 0, unready: 1 })]);
        assert_eq!(pace("z", &dark), None);
    }

    #[test]
    fn leave_is_given_one_node_at_a_time() {
        let zones = |ready, unready| BTreeMap::from([("z".to_owned(), Health { ready, unready })]);
        let mut pace = Pace::default();
        let secs = Duration::from_secs;
        assert_eq!(pace.ask("z", &zones(9, 1), at(0)), Ok(()));
        assert_eq!(pace.ask("z", &zones(9, 2), at(4)), Err(secs(6)));
        assert_eq!(pace.ask("other", &zones(9, 2), at(4)), Ok(()));
        assert_eq!(pace.ask("z", &zones(9, 2), at(10)), Ok(()));
        assert_eq!(pace.ask("z", &zones(0, 9), at(99)), Err(ASK_AGAIN));
    }
}
