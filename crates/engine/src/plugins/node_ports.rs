//! NodePorts: a port of the node goes to one pod.

use crate::ledger::{Ask, Ledger, NodeIndex};
use crate::needs::HostPort;
use crate::node_set::NodeSet;
use crate::plugin::{Filter, Key, Plugin, Reads};
use crate::reason::{Code, Reason, Refusal};

/// Refuses nodes on which a port is taken.
#[derive(Debug, Clone, Copy)]
pub struct NodePorts;

fn taken(ledger: &Ledger, ask: Ask, node: NodeIndex) -> Option<&HostPort> {
    let taken = ledger.nodes.ports(node);
    let wanted = &ledger.asks.ports.get(ask.ports).0;
    wanted.iter().find(|port| taken.iter().any(|other| port.collides_with(other)))
}

impl Filter for NodePorts {
    fn plugin(&self) -> Plugin {
        Plugin::NodePorts
    }

    fn reads(&self) -> Reads {
        Reads::Load
    }

    fn key(&self, ledger: &Ledger, ask: Ask) -> Option<Key> {
        let none = ledger.asks.ports.get(ask.ports).0.is_empty();
        (!none).then(|| ledger.asks.ports.stamp(ask.ports))
    }

    fn filter(&self, ledger: &Ledger, ask: Ask, nodes: &mut NodeSet) {
        nodes.keep_where(|node| taken(ledger, ask, node).is_none());
    }

    fn refusal(&self, ledger: &Ledger, ask: Ask, node: NodeIndex) -> Option<Refusal> {
        let HostPort { protocol, port, .. } = taken(ledger, ask, node)?.clone();
        Some(Refusal::new(Code::Unschedulable, Reason::PortTaken { protocol, port }))
    }
}
