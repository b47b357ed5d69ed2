//! Whoever makes volumes: a provisioner and the controller that binds claims, in one.

use http::Method;
use serde_json::{Value, json};

use super::World;
use crate::shapes::{CLASS, SELECTED_NODE};

pub(super) const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const VOLUMES: &str = "/api/v1/persistentvolumes";

impl World {
    /// Claims for which a scheduler has chosen a node get a volume, which every node reaches; where
    /// not all do, one is told that none can be made.
    pub(super) async fn make_volumes(&mut self, all: bool) {
        let (_, claims) = self.ask(Method::GET, CLAIMS, None).await;
        let claims = claims["items"].as_array().cloned().unwrap_or_default();
        let is_chosen = |claim: &Value| {
            let node = claim["metadata"]["annotations"][SELECTED_NODE].as_str();
            claim["spec"]["volumeName"].is_null() && node.is_some_and(|node| !node.is_empty())
        };
        for claim in claims.iter().filter(|claim| is_chosen(claim)) {
            if !all && self.draw.chance(300) {
                self.refuse_volume(claim).await;
            } else {
                self.make_volume(claim).await;
            }
        }
    }

    async fn refuse_volume(&mut self, claim: &Value) {
        let name = claim["metadata"]["name"].as_str().unwrap_or_default();
        self.log.note(&format!("no volume can be made for {name}"));
        let patch = json!({ "metadata": { "annotations": { SELECTED_NODE: null } } });
        self.must(Method::PATCH, &format!("{CLAIMS}/{name}"), Some(patch)).await;
    }

    async fn make_volume(&mut self, claim: &Value) {
        let (name, uid) = (&claim["metadata"]["name"], &claim["metadata"]["uid"]);
        let own = format!("v-{}", uid.as_str().unwrap_or_default());
        self.log.note(&format!("a volume is made for {name}"));
        let reference = json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "namespace": "default", "name": name, "uid": uid });
        let volume = json!({ "metadata": { "name": own }, "spec": {
            "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"],
            "storageClassName": CLASS, "claimRef": reference,
            "csi": { "driver": "example.com", "volumeHandle": own } } });
        self.must(Method::POST, VOLUMES, Some(volume)).await;
        let bound = json!({ "status": { "phase": "Bound" } });
        self.must(Method::PATCH, &format!("{VOLUMES}/{own}/status"), Some(bound.clone())).await;
        let path = format!("{CLAIMS}/{}", name.as_str().unwrap_or_default());
        let annotations = json!({ "pv.kubernetes.io/bind-completed": "yes" });
        let patch =
            json!({ "metadata": { "annotations": annotations }, "spec": { "volumeName": own } });
        self.must(Method::PATCH, &path, Some(patch)).await;
        self.must(Method::PATCH, &format!("{path}/status"), Some(bound)).await;
    }
}
