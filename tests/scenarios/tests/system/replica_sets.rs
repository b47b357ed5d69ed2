//! Replica sets and the pods they own.

use crate::manifests::{replica_set, with_pod};
use crate::story::Story;

/// What is told of a set that has its pods and of one whose pods are refused.
const TOLD: &str = "
replicaset-controller refused Warning FailedCreate 1: Error creating: pods \"refused-\" is forbidden: error looking up service account {ns}/nobody: serviceaccount \"nobody\" not found
replicaset-controller set Normal SuccessfulCreate 2: Created pod: set-{pod}
";

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_set_adopts_releases_and_tells_failures() {
    Story::new("replicaset", 1).alike(async |kubectl| {
        kubectl.run("run stray --image=registry.example/web:1 --labels=app=set").await?;
        kubectl.apply(&replica_set("set", "replicas: 2")).await?;
        kubectl.run("wait replicaset/set --for=jsonpath={.status.readyReplicas}=2 --timeout=30s").await?;
        let owners = "get pod stray --output=jsonpath={.metadata.ownerReferences[*].name}";
        kubectl.run(owners).await?;
        kubectl.run("label pod stray app=free --overwrite").await?;
        kubectl.until("pod stray", "{.metadata.ownerReferences[*].name}", "").await?;
        kubectl.run("get pod stray --output=jsonpath={.status.phase}").await?;
        // The pods of this one are refused by admission.
        let refused = replica_set("refused", "replicas: 2");
        let refused = with_pod(&refused, "serviceAccountName: nobody");
        kubectl.apply(&refused).await?;
        kubectl.run("wait replicaset/refused --for=condition=ReplicaFailure --timeout=30s").await?;
        kubectl
            .run("get replicaset refused --output=jsonpath={.status.conditions[*].reason},{.status.conditions[*].message},{.status.replicas}")
            .await?;
        kubectl.until_told("", TOLD).await
    })
    .await;
}
