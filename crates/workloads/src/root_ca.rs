//! The config map `kube-root-ca.crt` in every namespace: pods mount it beside their token,
//! to know the API server by.

use std::sync::Arc;

use api::{Namespace, ObjectMeta};
use chassis::client::{Client, Identity, Object, Patch, ResourceType};
use chassis::controller::{Reconciler, Requeue};
use chassis::key::Key;
use chassis::store::SharedStore;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::failure::{Failure, unless_gone};
use crate::pods::is_namespace_going;
use crate::service_account::is_served;
use crate::start::Start;

/// The name of the config map.
const NAME: &str = "kube-root-ca.crt";
/// The key of the certificate in it.
const ENTRY: &str = "ca.crt";
/// What tells a reader of the config map where it comes from.
const DESCRIPTION: &str = "kubernetes.io/description";
/// Our words for it.
const DESCRIBED: &str = "The certificates by which clients inside the cluster know the API server.";

/// The config map, as far as it is looked at.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct RootCa {
    /// Who it is.
    pub metadata: ObjectMeta,
    /// The certificate.
    pub data: Option<std::collections::BTreeMap<String, String>>,
}

impl Object for RootCa {
    fn identity(&self) -> Identity<'_> {
        (&self.metadata).into()
    }
}

/// What to do about the config map of a namespace.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Nothing,
    Create,
    Repair,
}

fn decide(present: Option<&RootCa>, pem: &str, is_served: bool) -> Step {
    let Some(present) = present else {
        return if is_served { Step::Create } else { Step::Nothing };
    };
    let data = present.data.iter().flatten().map(|(key, value)| (key.as_str(), value.as_str()));
    let described = present.metadata.annotations.contains_key(DESCRIPTION);
    if described && data.eq([(ENTRY, pem)]) { Step::Nothing } else { Step::Repair }
}

/// Subscribes the controller and starts its loop. A key is the name of a namespace.
pub fn start(start: &mut Start<'_>, pem: &str) {
    let mailbox = start.mailbox("root-ca");
    let informers = &mut *start.informers;
    let mut synced = Vec::new();
    let namespaces = informers.namespaces.store(&mut synced);
    let maps = informers.root_cas.store(&mut synced);
    let inbox = mailbox.clone();
    informers.namespaces.subscribe(move |change| inbox.add(change.key.clone()));
    let inbox = mailbox.clone();
    informers.root_cas.subscribe(move |change| inbox.add(Key::cluster(change.key.namespace())));
    let shell = Shell { client: start.client.clone(), namespaces, maps, pem: pem.to_owned() };
    start.run(mailbox, synced, 1, Arc::new(shell));
}

struct Shell {
    client: Client,
    namespaces: SharedStore<Namespace>,
    maps: SharedStore<RootCa>,
    pem: String,
}

impl Reconciler for Shell {
    type Failure = Failure;

    async fn reconcile(&self, key: Key) -> Result<Requeue, Failure> {
        let (namespace, pem) = (key.name(), self.pem.as_str());
        let present = self.maps.get(&Key::namespaced(namespace, NAME));
        let served = is_served(self.namespaces.get(&key).as_deref());
        let annotations = json!({ DESCRIPTION: DESCRIBED });
        let access = self
            .client
            .access::<Value>(ResourceType::namespaced("", "v1", "configmaps"), namespace);
        let doing = format!("write the root certificate of {namespace}");
        match decide(present.as_deref(), pem, served) {
            Step::Nothing => {}
            Step::Create => {
                let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": { ENTRY: pem },
                    "metadata": { "name": NAME, "namespace": namespace, "annotations": annotations } });
                match access.create(&map).await {
                    Err(error)
                        if !error.is_already_exists()
                            && !error.is_not_found()
                            && !is_namespace_going(&error) =>
                    {
                        return Err(Failure::of(doing)(error));
                    }
                    _ => {}
                }
            }
            Step::Repair => {
                // Other entries go: the map holds the certificate and nothing else.
                let others = present.iter().flat_map(|map| map.data.iter().flatten());
                let mut data: serde_json::Map<String, Value> =
                    others.map(|(key, _)| (key.clone(), Value::Null)).collect();
                data.insert(ENTRY.to_owned(), pem.into());
                let patch = json!({ "metadata": { "annotations": annotations }, "data": data });
                unless_gone(access.patch(NAME, &Patch::Merge(patch)).await, doing)?;
            }
        }
        Ok(Requeue::OnChange)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_map_is_made_mended_and_left_alone() {
        let map = |text: &str| -> RootCa { serde_json::from_str(text).unwrap() };
        let good = map(
            r#"{"metadata":{"annotations":{"kubernetes.io/description":"x"}},"data":{"ca.crt":"PEM"}}"#,
        );
        let more = map(
            r#"{"metadata":{"annotations":{"kubernetes.io/description":"x"}},"data":{"a":"b","ca.crt":"PEM"}}"#,
        );
        let bare = map(r#"{"data":{"ca.crt":"PEM"}}"#);
        assert_eq!(decide(None, "PEM", true), Step::Create);
        assert_eq!(decide(None, "PEM", false), Step::Nothing);
        assert_eq!(decide(Some(&good), "PEM", true), Step::Nothing);
        assert_eq!(decide(Some(&good), "OTHER", true), Step::Repair);
        assert_eq!(decide(Some(&more), "PEM", true), Step::Repair);
        assert_eq!(decide(Some(&bare), "PEM", true), Step::Repair);
        assert_eq!(decide(Some(&RootCa::default()), "PEM", true), Step::Repair);
    }
}
