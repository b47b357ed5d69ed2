//! What an object says to the engine, by its kind.

mod storage;

use anyhow::{Context, Result, bail};
use api::{
    Namespace, Node, Pod, PodDisruptionBudget, ReplicaSet, ReplicationController, Service,
    StatefulSet,
};
use engine::fact::{Fact, NodeFact, Uid};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::generate::name_of;

/// That an object is there, or is now this.
///
/// # Errors
/// When the engine knows nothing of its kind, or it cannot be read.
pub fn there(object: &Value) -> Result<Fact> {
    if let Some(fact) = storage::fact(object)? {
        return Ok(Fact::Storage(fact));
    }
    let read = "the generator makes objects that can be read";
    match object["kind"].as_str() {
        Some("Node") => {
            let node: Node = serde_json::from_value(object.clone()).context(read)?;
            Ok(Fact::Node(NodeFact::from(&node)))
        }
        Some("Namespace") => {
            let namespace: Namespace = serde_json::from_value(object.clone()).context(read)?;
            let labels = namespace.metadata.labels.into_iter();
            let labels = labels.map(|(key, value)| (key.into(), value.into())).collect();
            Ok(Fact::Namespace { name: namespace.metadata.name.into(), labels })
        }
        Some("Pod") => of::<Pod>(object).context(read),
        Some("PodDisruptionBudget") => of::<PodDisruptionBudget>(object).context(read),
        Some("Service") => of::<Service>(object).context(read),
        Some("ReplicationController") => of::<ReplicationController>(object).context(read),
        Some("ReplicaSet") => of::<ReplicaSet>(object).context(read),
        Some("StatefulSet") => of::<StatefulSet>(object).context(read),
        kind => bail!("the engine has no facts of {kind:?}"),
    }
}

fn of<T>(object: &Value) -> Result<Fact>
where
    T: DeserializeOwned,
    for<'a> Fact: From<&'a T>,
{
    Ok(Fact::from(&serde_json::from_value::<T>(object.clone())?))
}

/// That an object is gone.
///
/// # Errors
/// When the engine knows nothing of its kind, or it cannot be read.
pub fn gone(object: &Value) -> Result<Fact> {
    let (kind, namespace, name) = name_of(object);
    if let Some(fact) = storage::gone(&kind, &namespace, &name) {
        return Ok(Fact::Storage(fact));
    }
    Ok(match &*kind {
        "Node" => Fact::NodeGone(name.into()),
        "Namespace" => Fact::NamespaceGone(name.into()),
        "Pod" => Fact::PodGone(Uid::new(object["metadata"]["uid"].as_str().unwrap_or_default())),
        "PodDisruptionBudget" => {
            Fact::Budget { namespace: namespace.into(), name: name.into(), budget: None }
        }
        _ => match there(object)? {
            Fact::Owner { namespace, owner, .. } => {
                Fact::Owner { namespace, owner, selector: None }
            }
            other => bail!("{other:?} is not known to end"),
        },
    })
}
