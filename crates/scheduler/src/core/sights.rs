//! What is told in the log of single attempts, where somebody has switched that on. It is told as
//! warnings, since it was asked for: it is there wherever warnings are.

use std::fmt::Write as _;

use engine::fact::PodRef;
use engine::moment::Moment;
use engine::reason::Reason;
use engine::turn::{Decision, Scores, Sight, Waiting, Wanted};
use serde_json::json;

use super::Core;
use crate::debug::Switches;
use crate::debug::time;
use crate::explanations::details;

/// How switches stand, as far as they were followed.
#[derive(Debug, Default)]
pub(super) struct Sights {
    switches: Switches,
    followed: u64,
    diagnosis: Wanted<()>,
}

impl Core {
    /// The same, which tells more where these switches say so.
    #[must_use]
    pub fn heeding(self, switches: Switches) -> Self {
        Self { sights: Sights { switches, ..Sights::default() }, ..self }
    }

    /// Has the engine decide for one pod, and tells what is to be seen of it.
    pub(super) fn decide_one(&mut self, now: Moment) -> Option<Decision> {
        let changes = self.sights.switches.changes();
        if changes != self.sights.followed {
            let set = self.sights.switches.set();
            self.sights.followed = changes;
            self.sights.diagnosis = set.diagnosis;
            self.engine.look_out(set.lookout);
        }
        let decision = self.engine.decide(now);
        // Before anybody is sent for them anew.
        self.recall_vacated();
        for sight in self.engine.take_sights() {
            tell(&sight);
        }
        decision
    }

    /// Tells all that is known of why a pod has no node, where that is wanted.
    pub(super) fn diagnose(&self, pod: &PodRef, waiting: &Waiting, now: Moment) {
        if self.sights.diagnosis.of(pod).is_some() {
            let record = self.diagnosis(pod, waiting, now);
            tracing::warn!(pod = %named(pod), %record, "diagnosis");
        }
    }

    /// The record, by the names of Koordinator's fields.
    fn diagnosis(&self, pod: &PodRef, waiting: &Waiting, now: Moment) -> serde_json::Value {
        let (examination, ledger) = (&waiting.examination, self.engine.ledger());
        let told = |reasons: &[Reason]| {
            reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        };
        let everywhere = examination.everywhere.as_ref();
        json!({
            "timestamp": time(now),
            "questionedKey": if pod.is_reservation { pod.name.to_string() } else { named(pod) },
            "nominatedNode": waiting.room().map(|room| ledger.nodes.name(room.node)),
            "preFilterMessage": everywhere.map(|(_, refusal)| told(&refusal.reasons)),
            "scheduleDiagnosis": { "nodeFailedDetails": details(ledger, examination) },
            "preemptionDiagnosis": { "failedMessage": waiting.last_resorts.text },
        })
    }
}

fn named(pod: &PodRef) -> String {
    format!("{}/{}", pod.namespace, pod.name)
}

fn tell(sight: &Sight) {
    let pod = named(&sight.pod);
    for (node, plugin, reason) in &sight.refusals {
        let node = node.as_deref().unwrap_or("*");
        tracing::warn!(pod, node, %plugin, reason, "a node is refused");
    }
    if let Some(scores) = &sight.scores {
        let feasible = scores.feasible;
        // A table that is several lines would be one in a log of JSON: each of its rows is a line.
        for row in table(scores) {
            tracing::warn!(pod, feasible, "the best nodes: {row}");
        }
    }
}

/// The best nodes, with a column for each plugin: the heads of the columns, and a row for each node. No
/// rows where no node can take the pod.
fn table(scores: &Scores) -> Vec<String> {
    let mut head = "| # | Node | Score |".to_owned();
    for plugin in &scores.plugins {
        let _ = write!(head, " {plugin} |");
    }
    let row = |(number, (node, total, by_plugin)): (usize, &(Box<str>, i64, Vec<i64>))| {
        let mut row = format!("| {number} | {node} | {total} |");
        for score in by_plugin {
            let _ = write!(row, " {score} |");
        }
        row
    };
    let rows = scores.best.iter().enumerate().map(row);
    [head].into_iter().filter(|_| !scores.best.is_empty()).chain(rows).collect()
}

#[cfg(test)]
mod tests {
    use engine::plugin::Plugin;

    use super::*;

    #[test]
    fn scores_are_a_table_with_a_column_for_each_plugin() {
        let best = vec![("n2".into(), 150, vec![100, 50]), ("n1".into(), 90, vec![90, 0])];
        let plugins = vec![Plugin::NodeResourcesFit, Plugin::ImageLocality];
        let scores = Scores { feasible: 7, plugins, best };
        let shown = [
            "| # | Node | Score | NodeResourcesFit | ImageLocality |",
            "| 0 | n2 | 150 | 100 | 50 |",
            "| 1 | n1 | 90 | 90 | 0 |",
        ];
        assert_eq!(table(&scores), shown);
        assert_eq!(table(&Scores { best: Vec::new(), ..scores }), [""; 0]);
    }
}
