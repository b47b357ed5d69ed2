//! Values that several of the views have, in the form that Go gives them.

use std::collections::BTreeMap;

use engine::fact::Uid;
use engine::ledger::PodRow;
use engine::needs::{Amounts, HostPort};
use serde::Serialize;

/// Amounts in the units in which a scheduler counts them.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Resource {
    #[serde(rename = "MilliCPU")]
    milli_cpu: i64,
    memory: i64,
    ephemeral_storage: i64,
    allowed_pod_number: i64,
    scalar_resources: Option<BTreeMap<String, i64>>,
}

impl Resource {
    pub(super) fn of(amounts: &Amounts, allowed_pod_number: i64) -> Self {
        let Amounts { cpu_millis, memory_bytes, storage_bytes, scalars } = amounts;
        let scalars: BTreeMap<String, i64> =
            scalars.iter().map(|(name, own)| (name.to_string(), *own)).collect();
        Self {
            milli_cpu: *cpu_millis,
            memory: *memory_bytes,
            ephemeral_storage: *storage_bytes,
            allowed_pod_number,
            scalar_resources: Some(scalars).filter(|own| !own.is_empty()),
        }
    }
}

/// Who an object is.
#[derive(Debug, Serialize)]
pub(super) struct Metadata {
    namespace: String,
    name: String,
    uid: String,
}

/// A pod, as far as it is kept.
#[derive(Debug, Serialize)]
pub(super) struct Pod {
    metadata: Metadata,
    spec: PodSpec,
}

#[derive(Debug, Serialize)]
struct PodSpec {
    priority: i32,
}

impl Pod {
    pub(super) fn of(uid: &Uid, row: &PodRow) -> Self {
        let (namespace, name) = (row.namespace.to_string(), row.name.to_string());
        Self {
            metadata: Metadata { namespace, name, uid: uid.0.to_string() },
            spec: PodSpec { priority: row.priority },
        }
    }
}

/// A port.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ProtocolPort {
    protocol: String,
    port: i32,
}

/// Ports by address.
pub(super) type Ports = BTreeMap<String, Vec<ProtocolPort>>;

pub(super) fn ports(own: &[HostPort]) -> Ports {
    let mut all = Ports::new();
    for HostPort { address, protocol, port } in own {
        let address = address.as_deref().unwrap_or("0.0.0.0");
        let port = ProtocolPort { protocol: protocol.to_string(), port: *port };
        all.entry(address.to_owned()).or_default().push(port);
    }
    for ports in all.values_mut() {
        ports.sort_unstable();
        ports.dedup();
    }
    all
}
