//! Deployments that roll, pause, go back, are late, and go.

use anyhow::Result;

use crate::manifests::{deployment, replica_set, web, with_pod};
use crate::story::Story;
use crate::transcript::Transcript;

/// Waits until the deployment `web` is what it should be.
async fn rolled_out(kubectl: &Transcript<'_>) -> Result<()> {
    kubectl.quietly("rollout status deployment/web --timeout=60s").await.map(drop)
}

/// The replica sets of `web` with their revision, image and size, in the order of revisions.
const SETS: &str = "get replicasets --no-headers --sort-by=.metadata.annotations.deployment\\.kubernetes\\.io/revision \
--output=custom-columns=R:.metadata.annotations.deployment\\.kubernetes\\.io/revision,\
I:.spec.template.spec.containers[0].image,N:.spec.replicas";

/// What is told of a deployment that has rolled once.
const ROLLED_TOLD: &str = "
deployment-controller web Normal ScalingReplicaSet 1: Scaled down replica set web-1 from 1 to 0
deployment-controller web Normal ScalingReplicaSet 1: Scaled down replica set web-1 from 2 to 1
deployment-controller web Normal ScalingReplicaSet 1: Scaled down replica set web-1 from 3 to 2
deployment-controller web Normal ScalingReplicaSet 1: Scaled up replica set web-1 from 0 to 3
deployment-controller web Normal ScalingReplicaSet 1: Scaled up replica set web-2 from 0 to 1
deployment-controller web Normal ScalingReplicaSet 1: Scaled up replica set web-2 from 1 to 2
deployment-controller web Normal ScalingReplicaSet 1: Scaled up replica set web-2 from 2 to 3
replicaset-controller web-1 Normal SuccessfulCreate 3: Created pod: web-1-{pod}
replicaset-controller web-1 Normal SuccessfulDelete 3: Deleted pod: web-1-{pod}
replicaset-controller web-2 Normal SuccessfulCreate 3: Created pod: web-2-{pod}
";

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_rolls_pauses_and_goes_back() {
    Story::new("rollout", 2).alike(async |kubectl| {
        let strategy = "replicas: 3\n  minReadySeconds: 1\n  revisionHistoryLimit: 1\n  \
            strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}";
        kubectl.apply(&deployment("web", strategy)).await?;
        rolled_out(kubectl).await?;
        kubectl.run(SETS).await?;
        kubectl.run("set image deployment/web main=registry.example/web:2").await?;
        rolled_out(kubectl).await?;
        kubectl.run(SETS).await?;
        // While it has told few different things: kube-controller-manager combines many as
        // chance has it.
        kubectl.until_told("", ROLLED_TOLD).await?;
        kubectl.run("rollout pause deployment/web").await?;
        kubectl.run("set image deployment/web main=registry.example/web:3").await?;
        let paused = "wait deployment/web --for=condition=Progressing=Unknown --timeout=30s";
        kubectl.run(paused).await?;
        kubectl.run(SETS).await?;
        kubectl.run("scale deployment web --replicas=4").await?;
        kubectl.run("wait deployment/web --for=jsonpath={.status.replicas}=4 --timeout=30s").await?;
        kubectl.run("rollout resume deployment/web").await?;
        rolled_out(kubectl).await?;
        kubectl.run("rollout undo deployment/web").await?;
        rolled_out(kubectl).await?;
        // Of old sets only the newest is kept: the others go some time after the roll-out.
        kubectl.until_lines("get replicasets --no-headers", 2).await?;
        kubectl.run("rollout history deployment/web").await?;
        kubectl.run(SETS).await?;
        kubectl
            .run("get deployment web --output=jsonpath={.status.replicas},{.status.updatedReplicas},{.status.availableReplicas},{.status.unavailableReplicas},{.status.conditions[*].type},{.status.conditions[*].reason}")
            .await
    })
    .await;
}

/// What is told of a deployment that is recreated and of one that is late.
const RECREATED_TOLD: &str = "
deployment-controller late Normal ScalingReplicaSet 1: Scaled up replica set late-3 from 0 to 1
deployment-controller web Normal ScalingReplicaSet 1: Scaled down replica set web-1 from 2 to 0
deployment-controller web Normal ScalingReplicaSet 1: Scaled up replica set web-1 from 0 to 2
deployment-controller web Normal ScalingReplicaSet 1: Scaled up replica set web-2 from 0 to 2
replicaset-controller late-3 Normal SuccessfulCreate 1: Created pod: late-3-{pod}
replicaset-controller web-1 Normal SuccessfulCreate 2: Created pod: web-1-{pod}
replicaset-controller web-1 Normal SuccessfulDelete 2: Deleted pod: web-1-{pod}
replicaset-controller web-2 Normal SuccessfulCreate 2: Created pod: web-2-{pod}
";

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_is_recreated_or_late() {
    Story::new("recreate", 1)
        .alike(async |kubectl| {
            let recreate = "replicas: 2\n  strategy: {type: Recreate}";
            kubectl.apply(&deployment("web", recreate)).await?;
            rolled_out(kubectl).await?;
            kubectl.run("set image deployment/web main=registry.example/web:2").await?;
            rolled_out(kubectl).await?;
            kubectl.run(SETS).await?;
            // No node has such a label: the pods never run.
            let late = deployment("late", "replicas: 1\n  progressDeadlineSeconds: 1");
            let late = with_pod(&late, "nodeSelector: {no: where}");
            kubectl.apply(&late).await?;
            // It may have been late before its pod was made, too; after that it stays late.
            let status = "{.status.replicas} {.status.conditions[*].type} \
            {.status.conditions[*].status} {.status.conditions[*].reason}";
            let late = "1 Available Progressing False False \
            MinimumReplicasUnavailable ProgressDeadlineExceeded";
            kubectl.until("deployment late", status, late).await?;
            kubectl.until_told("", RECREATED_TOLD).await
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn owners_go_with_or_without_what_they_own() {
    Story::new("owners", 1).alike(async |kubectl| {
        kubectl.apply(&web()).await?;
        rolled_out(kubectl).await?;
        kubectl.run("delete deployment web --cascade=orphan").await?;
        kubectl.run("get replicasets --output=jsonpath={.items[*].metadata.ownerReferences},{.items[*].spec.replicas}").await?;
        // A deployment of the same name and template takes the set back.
        kubectl.apply(&web()).await?;
        rolled_out(kubectl).await?;
        kubectl.run(SETS).await?;
        kubectl.run("delete deployment web --cascade=foreground --wait=true").await?;
        kubectl.run("get replicasets,pods --output=name").await?;
        kubectl.apply(&replica_set("set", "replicas: 2")).await?;
        kubectl.run("delete replicaset set --cascade=background").await?;
        kubectl.quietly("wait pods --selector=app=set --for=delete --timeout=30s").await?;
        kubectl.run("get pods --output=name").await
    })
    .await;
}
