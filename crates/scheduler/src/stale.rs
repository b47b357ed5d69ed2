//! Nodes that have not reported their load for too long.
//!
//! What becomes of such a node follows from the ledger by itself, as LoadAwareScheduling is told; here
//! it is only found out and told: once when a node falls silent, and once when it reports again.

use std::collections::{BTreeMap, BTreeSet};

use engine::ledger::{Ledger, Stale};
use engine::moment::Moment;

use crate::message::ReportOrder;

/// The nodes that were found to be silent, and those that were told of.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    found: BTreeMap<Box<str>, (Option<Moment>, Stale)>,
    told: BTreeSet<Box<str>>,
    /// Nodes that were found and are still to be told of, the next one last.
    untold: Vec<Box<str>>,
    /// Nodes that have come back or are gone since they were told of.
    ended: Vec<Box<str>>,
    /// How often reports had become old, or new, when it was last looked.
    turns: u64,
}

impl Silence {
    /// Looks which nodes have been silent for too long, and says how many there are.
    pub(crate) fn look(&mut self, ledger: &Ledger) -> usize {
        let named = ledger.stale_reports().map(|(node, at, stale)| {
            let name: Box<str> = ledger.nodes.name(node).into();
            (name, (at, stale))
        });
        self.found = named.collect();
        self.turns = ledger.loads.turns();
        let is_there = |node: &str| ledger.loads.report(node).is_some();
        let ended = self.told.extract_if(.., |node| !self.found.contains_key(node));
        // Of one that is gone, nobody has to hear that it is not silent any longer.
        self.ended.extend(ended.filter(|node| is_there(node)));
        let untold = self.found.keys().rev().filter(|node| !self.told.contains(*node));
        self.untold = untold.cloned().collect();
        self.found.len()
    }

    /// Whether reports have become old, or new, since it was last looked.
    pub(crate) fn is_behind(&self, ledger: &Ledger) -> bool {
        self.turns != ledger.loads.turns()
    }

    /// Whether something is to be told.
    pub(crate) fn has_news(&self) -> bool {
        !self.ended.is_empty() || !self.untold.is_empty()
    }

    /// What is to be told next.
    pub(crate) fn next(&mut self) -> Option<ReportOrder> {
        if let Some(node) = self.ended.pop() {
            return Some(ReportOrder::Reported { node });
        }
        let node = self.untold.pop()?;
        let (since, stale) = *self.found.get(&node)?;
        self.told.insert(node.clone());
        Some(ReportOrder::Silent { node, since, stale })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use api::{Node, NodeMetric};
    use engine::fact::{Fact, NodeFact};
    use engine::ledger::LoadSettings;
    use serde_json::json;

    use super::*;

    fn moment(text: &str) -> Moment {
        let time: object::time::Time = text.parse().unwrap();
        Moment(u64::try_from(time.timestamp().as_nanosecond()).unwrap())
    }

    fn report(node: &str, at: Option<&str>) -> Fact {
        let metric = json!({ "metadata": { "name": node }, "status": { "updateTime": at } });
        Fact::from(serde_json::from_value::<NodeMetric>(metric).unwrap())
    }

    fn told(silence: &mut Silence) -> Vec<String> {
        let words = |order| match order {
            ReportOrder::Silent { node, .. } => format!("{node} is silent"),
            ReportOrder::Reported { node } => format!("{node} reports"),
        };
        std::iter::from_fn(|| silence.next()).map(words).collect()
    }

    #[test]
    fn a_node_that_falls_silent_is_told_of_once_and_again_when_it_reports() {
        let mut ledger = Ledger::default();
        ledger.keep_loads(LoadSettings::default());
        for name in ["n1", "n2", "n3"] {
            let node = json!({ "metadata": { "name": name } });
            let node: Node = serde_json::from_value(node).unwrap();
            ledger.apply(Fact::Node(NodeFact::from(&node)));
        }
        let early = "2026-01-01T12:00:00Z";
        ledger.apply(report("n1", Some(early)));
        ledger.apply(report("n2", Some("2026-01-01T12:02:00Z")));
        // It has an object, never reported, and is refused for that.
        ledger.apply(report("n3", None));
        let mut silence = Silence::default();
        let mut check = |ledger: &Ledger, count: usize, words: &[&str]| {
            assert!(silence.is_behind(ledger) || words.is_empty());
            assert_eq!(silence.look(ledger), count);
            assert!(!silence.is_behind(ledger), "it would be looked at for ever");
            assert_eq!(silence.has_news(), !words.is_empty());
            assert_eq!(told(&mut silence), words);
        };
        let expires = LoadSettings::default().expires_after;
        ledger.catch_up(moment(early).after(expires - Duration::from_secs(1)));
        check(&ledger, 1, &["n3 is silent"]);
        ledger.catch_up(moment(early).after(expires));
        check(&ledger, 2, &["n1 is silent"]);
        check(&ledger, 2, &[]);
        ledger.catch_up(moment(early).after(2 * expires));
        check(&ledger, 3, &["n2 is silent"]);
        ledger.apply(report("n1", Some("2026-01-01T12:06:00Z")));
        check(&ledger, 2, &["n1 reports"]);
        ledger.apply(report("n3", Some("2026-01-01T12:06:00Z")));
        check(&ledger, 1, &["n3 reports"]);
        ledger.apply(Fact::Load { node: "n2".into(), report: None });
        check(&ledger, 0, &[]);
    }
}
