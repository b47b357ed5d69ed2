//! What the load of a node is taken to be, beyond what it reports.

use api::ResourceList;
use engine::fact::quantities;
use engine::ledger::{Ledger, LoadAccount, NodeIndex};
use serde::Serialize;

use crate::debug::views::time;

/// The pods of a node, and what they add to the load that is reported.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::debug) struct NodeAssignInfo {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pods: Vec<PodAssignInfo>,
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    prod_usage: ResourceList,
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    node_delta: ResourceList,
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    prod_delta: ResourceList,
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    node_estimated: ResourceList,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    node_delta_pods: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    prod_delta_pods: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    node_estimated_pods: Vec<String>,
}

/// A pod, and when it got the node.
#[derive(Serialize)]
struct PodAssignInfo {
    /// Nothing where that is not told yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<String>,
    pod: PodName,
}

#[derive(Serialize)]
struct PodName {
    metadata: Name,
}

#[derive(Serialize)]
struct Name {
    namespace: String,
    name: String,
}

/// What is shown of a node, by the first profile that looks at loads.
pub(super) fn shown(ledger: &Ledger, node: NodeIndex) -> NodeAssignInfo {
    let Some(book) = ledger.loads.books().next() else { return NodeAssignInfo::default() };
    let account = ledger.load_account(book, node);
    let pods = account.pods.iter().map(|(scheduled, (namespace, name))| {
        let metadata = Name { namespace: namespace.to_string(), name: name.to_string() };
        PodAssignInfo { timestamp: scheduled.map(time), pod: PodName { metadata } }
    });
    let pods = pods.collect();
    if ledger.loads.report(ledger.nodes.name(node)).is_none() {
        return NodeAssignInfo { pods, ..NodeAssignInfo::default() };
    }
    let LoadAccount { prod_usage, delta, prod_delta, estimated, .. } = account;
    let names = |pods: Vec<(Box<str>, Box<str>)>| {
        pods.into_iter().map(|(namespace, name)| format!("{namespace}/{name}")).collect()
    };
    NodeAssignInfo {
        pods,
        prod_usage: quantities(&prod_usage),
        node_delta: quantities(&delta.0),
        prod_delta: quantities(&prod_delta.0),
        node_estimated: quantities(&estimated.0),
        node_delta_pods: names(delta.1),
        prod_delta_pods: names(prod_delta.1),
        node_estimated_pods: names(estimated.1),
    }
}
