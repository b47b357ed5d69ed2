//! Why a pod has no node, as data: what each node was refused for, counted.
//!
//! The text is that of kube-scheduler, because people and programs search for it.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use crate::decide::Decider;
use crate::ledger::{Ask, Ledger};
use crate::queue::{Plugin, Plugins, Rejection};
use crate::reason::Refusal;

/// Why a pod has no node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnosis {
    /// How many nodes there are.
    pub nodes: usize,
    /// What is wrong.
    pub fault: Fault,
    /// Who refused it.
    pub rejection: Rejection,
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// There is no node.
    NoNodes,
    /// Something that holds for every node.
    Everywhere(Refusal),
    /// How many nodes are refused for each reason, by its text.
    OfNodes(BTreeMap<String, usize>),
}

impl Diagnosis {
    /// Why a pod that asks this has no node, if no node can take it.
    #[must_use]
    pub fn of(ledger: &Ledger, decider: &Decider, ask: Ask) -> Self {
        let nodes = ledger.nodes.present().len();
        let (fault, unschedulable) = if nodes == 0 {
            // Whoever would refuse a node, any change may bring one.
            (Fault::NoNodes, Plugins::from_iter([Plugin::Other]))
        } else if let Some((plugin, refusal)) = decider.refused_everywhere(ledger, ask) {
            (Fault::Everywhere(refusal), Plugins::from_iter([Plugin::named(plugin)]))
        } else {
            of_nodes(ledger, decider, ask)
        };
        let rejection = Rejection { unschedulable, pending: Plugins::default() };
        Self { nodes, fault, rejection }
    }
}

fn of_nodes(ledger: &Ledger, decider: &Decider, ask: Ask) -> (Fault, Plugins) {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut names: Vec<&'static str> = Vec::new();
    let mut text = String::new();
    for node in ledger.nodes.present().iter() {
        let Some((plugin, refusal)) = decider.refusal(ledger, ask, node) else { continue };
        if !names.contains(&plugin) {
            names.push(plugin);
        }
        for reason in &refusal.reasons {
            text.clear();
            let _ = write!(text, "{reason}");
            match counts.get_mut(&text) {
                Some(count) => *count += 1,
                None => {
                    counts.insert(text.clone(), 1);
                }
            }
        }
    }
    (Fault::OfNodes(counts), names.into_iter().map(Plugin::named).collect())
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.fault == Fault::NoNodes {
            return f.write_str("no nodes available to schedule pods");
        }
        write!(f, "0/{} nodes are available:", self.nodes)?;
        let told = match &self.fault {
            Fault::NoNodes => return Ok(()),
            Fault::Everywhere(refusal) => {
                refusal.reasons.iter().map(ToString::to_string).collect::<Vec<_>>()
            }
            // Sorted as texts, counts included.
            Fault::OfNodes(counts) => {
                let mut told: Vec<String> =
                    counts.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
                told.sort_unstable();
                told
            }
        };
        if !told.is_empty() {
            write!(f, " {}.", told.join(", "))?;
        }
        Ok(())
    }
}
