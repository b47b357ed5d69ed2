//! What is kept of a node and of its heartbeat.

use api::{Condition, Node, ObjectMeta, OwnerReference};
use chassis::client::{Identity, Object};
use jiff::Timestamp;
use object::taint::Taint;
use object::time::MicroTime;
use serde::Deserialize;

use super::meta::{Meta, Owned};

/// A node, as far as its life goes.
#[derive(Debug, Clone, Deserialize)]
#[serde(from = "NodeWire")]
pub struct NodeFact {
    /// Who it is.
    pub meta: Meta,
    /// What keeps pods away.
    pub taints: Vec<Taint>,
    /// Whether it is cordoned.
    pub unschedulable: bool,
    /// What it reports.
    pub conditions: Vec<Condition>,
}

/// The heartbeat of a node.
#[derive(Debug, Clone, Deserialize)]
#[serde(from = "LeaseWire")]
pub struct LeaseFact {
    /// Who it is.
    pub meta: Meta,
    /// When its holder last renewed it.
    pub renewed: Option<Timestamp>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct NodeWire {
    metadata: ObjectMeta,
    spec: NodeWireSpec,
    status: NodeWireStatus,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct NodeWireSpec {
    taints: Option<Vec<Taint>>,
    unschedulable: bool,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct NodeWireStatus {
    conditions: Option<Vec<Condition>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct LeaseWire {
    metadata: ObjectMeta,
    spec: LeaseWireSpec,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct LeaseWireSpec {
    renew_time: Option<MicroTime>,
}

impl From<NodeWire> for NodeFact {
    fn from(wire: NodeWire) -> Self {
        Self {
            meta: wire.metadata.into(),
            taints: wire.spec.taints.unwrap_or_default(),
            unschedulable: wire.spec.unschedulable,
            conditions: wire.status.conditions.unwrap_or_default(),
        }
    }
}

impl From<Node> for NodeFact {
    fn from(node: Node) -> Self {
        Self {
            meta: node.metadata.into(),
            taints: node.spec.taints,
            unschedulable: node.spec.unschedulable,
            conditions: node.status.conditions,
        }
    }
}

impl From<LeaseWire> for LeaseFact {
    fn from(wire: LeaseWire) -> Self {
        Self { meta: wire.metadata.into(), renewed: wire.spec.renew_time.map(Into::into) }
    }
}

macro_rules! owned {
    ($type:ty) => {
        impl Object for $type {
            fn identity(&self) -> Identity<'_> {
                self.meta.identity()
            }
        }

        impl Owned for $type {
            fn owners(&self) -> &[OwnerReference] {
                &self.meta.owners
            }

            fn has_finalizer(&self, name: &str) -> bool {
                self.meta.has_finalizer(name)
            }

            fn is_going(&self) -> bool {
                self.meta.deleting.is_some()
            }
        }
    };
}

owned!(NodeFact);
owned!(LeaseFact);
