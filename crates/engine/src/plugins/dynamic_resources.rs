//! DynamicResources: a pod that claims devices waits, and is told so.

use crate::ledger::{Ask, Ledger, NodeIndex};
use crate::node_set::NodeSet;
use crate::plugin::{Filter, Key, Plugin, Reads};
use crate::reason::{Code, Reason, Refusal};

/// Refuses pods that claim devices: to place one without its devices would be worse.
#[derive(Debug, Clone, Copy)]
pub struct DynamicResources;

impl Filter for DynamicResources {
    fn plugin(&self) -> Plugin {
        Plugin::DynamicResources
    }

    fn reads(&self) -> Reads {
        Reads::Node
    }

    fn key(&self, _: &Ledger, _: Ask) -> Option<Key> {
        None
    }

    fn admit(&self, _: &Ledger, ask: Ask) -> Result<(), Refusal> {
        match ask.resource_claims {
            true => Err(Refusal::new(Code::Unresolvable, Reason::ResourceClaims)),
            false => Ok(()),
        }
    }

    fn filter(&self, _: &Ledger, _: Ask, _: &mut NodeSet) {}

    fn refusal(&self, _: &Ledger, _: Ask, _: NodeIndex) -> Option<Refusal> {
        None
    }
}
