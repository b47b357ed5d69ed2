//! Nodes as the API server tells them, for extenders that want whole ones.
//!
//! The engine's own facts leave most of a node out, and a list for each question would cost more
//! than the question. So where such an extender is configured, nodes are watched once more and
//! their JSON is kept; elsewhere nothing is.

use api::{Node, ObjectMeta, Resource};
use bytes::Bytes;
use chassis::client::{Access, Client, Error, ResourceType};
use chassis::informer::{How, Informer};
use chassis::key::Key;
use chassis::reflector::Reflector;
use chassis::store::SharedStore;
use serde::{Deserialize, Deserializer, de};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// An object and all of its JSON.
#[derive(Debug, Clone)]
struct Whole {
    metadata: ObjectMeta,
    json: Bytes,
}

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut value = Value::deserialize(deserializer)?;
        trim(&mut value);
        let metadata = value.get("metadata").cloned().unwrap_or_default();
        let metadata = serde_json::from_value(metadata).map_err(de::Error::custom)?;
        let json = serde_json::to_vec(&value).map_err(de::Error::custom)?;
        Ok(Self { metadata, json: json.into() })
    }
}

impl Resource for Whole {
    const GROUP: &'static str = Node::GROUP;
    const VERSION: &'static str = Node::VERSION;
    const KIND: &'static str = Node::KIND;
    const PLURAL: &'static str = Node::PLURAL;
    const NAMESPACED: bool = Node::NAMESPACED;

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// Takes out who wrote which field, which is half of an object and which kube-scheduler does not tell
/// extenders either.
pub(super) fn trim(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

/// Whole nodes.
#[derive(Clone)]
pub(super) struct WholeNodes {
    store: SharedStore<Whole>,
    synced: CancellationToken,
    access: Access<Whole>,
}

impl WholeNodes {
    /// The nodes of a server, and what has to run for them to be known.
    pub(super) fn watch(client: &Client, how: How) -> (Self, impl Future<Output = ()> + use<>) {
        let access: Access<Whole> = client.access(ResourceType::of::<Whole>(), "");
        let mut informer = Informer::new(Reflector::new(access.clone()));
        let store = informer.store(&mut Vec::new());
        (Self { store, synced: informer.synced(), access }, informer.run(how))
    }

    /// The nodes of these names. One that the watch has not told of yet is read; one that is gone is
    /// left out.
    pub(super) async fn named(&self, names: &[Box<str>]) -> Result<Vec<Bytes>, Error> {
        self.synced.cancelled().await;
        let mut whole = Vec::with_capacity(names.len());
        for name in names {
            let known = self.store.get(&Key::cluster(name));
            let json = match known {
                Some(node) => Some(node.json.clone()),
                None => self.access.find(name).await?.map(|node| node.json),
            };
            whole.extend(json);
        }
        Ok(whole)
    }
}
