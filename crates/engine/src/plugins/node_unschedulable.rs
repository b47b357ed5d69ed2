//! NodeUnschedulable: a cordoned node takes no pod that does not put up with it.

use std::sync::LazyLock;

use object::taint::{Effect, Taint, is_tolerated};

use crate::ledger::{Ask, Ledger, NodeIndex};
use crate::node_set::NodeSet;
use crate::plugin::{Filter, Key, Plugin, Reads};
use crate::reason::{Code, Reason, Refusal};

/// The taint that stands for a cordoned node.
static TAINT: LazyLock<Taint> = LazyLock::new(|| Taint {
    key: "node.kubernetes.io/unschedulable".to_owned(),
    effect: Some(Effect::NoSchedule),
    ..Taint::default()
});

/// Refuses cordoned nodes.
#[derive(Debug, Clone, Copy)]
pub struct NodeUnschedulable;

impl Filter for NodeUnschedulable {
    fn plugin(&self) -> Plugin {
        Plugin::NodeUnschedulable
    }

    fn reads(&self) -> Reads {
        Reads::Node
    }

    fn key(&self, ledger: &Ledger, ask: Ask) -> Option<Key> {
        let tolerations = ledger.asks.tolerations.get(ask.tolerations);
        (!is_tolerated(&TAINT, &tolerations.0)).then_some(0)
    }

    fn filter(&self, ledger: &Ledger, _ask: Ask, nodes: &mut NodeSet) {
        nodes.take_out(ledger.nodes.unschedulable());
    }

    fn refusal(&self, ledger: &Ledger, ask: Ask, node: NodeIndex) -> Option<Refusal> {
        self.key(ledger, ask)?;
        let cordoned = ledger.nodes.unschedulable().contains(node);
        cordoned.then(|| Refusal::new(Code::Unresolvable, Reason::Cordoned))
    }
}
