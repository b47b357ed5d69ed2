//! What is kept of a node and of its heartbeat.

use api::{Condition, ObjectMeta};
use jiff::Timestamp;
use object::taint::{Effect, Taint};
use object::time::MicroTime;
use serde::Deserialize;

use super::meta::{Meta, owned};

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

impl NodeFact {
    /// Whether a taint drives pods off that do not tolerate it.
    #[must_use]
    pub fn drives_pods_off(&self) -> bool {
        self.taints.iter().any(|taint| taint.effect == Some(Effect::NoExecute))
    }
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

impl From<LeaseWire> for LeaseFact {
    fn from(wire: LeaseWire) -> Self {
        Self { meta: wire.metadata.into(), renewed: wire.spec.renew_time.map(Into::into) }
    }
}

owned!(NodeFact);
owned!(LeaseFact);
