//! Controllers: the same steps with kube-controller-manager's and with ours, on both servers,
//! with the same outcomes.

use anyhow::{Result, ensure};

use crate::transcript::{Transcript, WEB, alike_with_any_controllers};

/// Applies a manifest and prints nothing.
pub async fn apply(kubectl: &Transcript<'_>, manifest: &str) -> Result<()> {
    kubectl.cluster.kubectl_with(&kubectl.words("apply --filename -"), manifest).await.map(drop)
}

/// Waits until the namespace may have pods.
pub async fn settle(kubectl: &Transcript<'_>) -> Result<()> {
    kubectl.quietly("wait --for=create serviceaccount/default --timeout=30s").await.map(drop)
}

async fn rolled_out(kubectl: &Transcript<'_>) -> Result<()> {
    kubectl.quietly("rollout status deployment/web --timeout=60s").await.map(drop)
}

/// The replica sets of `web` with their revision, image and size, in the order of revisions.
const SETS: &str = "get replicasets --no-headers --sort-by=.metadata.annotations.deployment\\.kubernetes\\.io/revision \
--output=custom-columns=R:.metadata.annotations.deployment\\.kubernetes\\.io/revision,\
I:.spec.template.spec.containers[0].image,N:.spec.replicas";

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_rolls_pauses_and_goes_back() {
    alike_with_any_controllers("rollout", 2, async |kubectl| {
        settle(kubectl).await?;
        let strategy = "replicas: 3\n  minReadySeconds: 1\n  revisionHistoryLimit: 1\n  \
            strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}";
        apply(kubectl, &WEB.replace("replicas: 2", strategy)).await?;
        rolled_out(kubectl).await?;
        kubectl.run(SETS).await?;
        kubectl.run("set image deployment/web main=registry.example/web:2").await?;
        rolled_out(kubectl).await?;
        kubectl.run(SETS).await?;
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
        kubectl.run("rollout history deployment/web").await?;
        // Of old sets only the newest is kept.
        kubectl.quietly("wait deployment/web --for=condition=Available --timeout=30s").await?;
        kubectl.run(SETS).await?;
        kubectl
            .run("get deployment web --output=jsonpath={.status.replicas},{.status.updatedReplicas},{.status.availableReplicas},{.status.unavailableReplicas},{.status.conditions[*].type},{.status.conditions[*].reason}")
            .await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_is_recreated_or_late() {
    alike_with_any_controllers("recreate", 1, async |kubectl| {
        settle(kubectl).await?;
        let recreate = "replicas: 2\n  strategy: {type: Recreate}";
        apply(kubectl, &WEB.replace("replicas: 2", recreate)).await?;
        rolled_out(kubectl).await?;
        kubectl.run("set image deployment/web main=registry.example/web:2").await?;
        rolled_out(kubectl).await?;
        kubectl.run(SETS).await?;
        // No node has such a label: the pods never run.
        let late = WEB
            .replace("name: web}", "name: late}")
            .replace("app: web", "app: late")
            .replace("replicas: 2", "replicas: 1\n  progressDeadlineSeconds: 1")
            .replace("containers:", "nodeSelector: {no: where}\n      containers:");
        apply(kubectl, &late).await?;
        kubectl.run("wait deployment/late --for=condition=Progressing=False --timeout=30s").await?;
        kubectl
            .run("get deployment late --output=jsonpath={.status.conditions[*].type},{.status.conditions[*].status},{.status.conditions[*].reason}")
            .await
    })
    .await;
}

const SET: &str = "
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: set}
spec:
  replicas: 2
  selector: {matchLabels: {app: set}}
  template:
    metadata: {labels: {app: set}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: main, image: registry.example/web:1}]
";

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_set_adopts_releases_and_tells_failures() {
    alike_with_any_controllers("replicaset", 1, async |kubectl| {
        settle(kubectl).await?;
        kubectl.run("run stray --image=registry.example/web:1 --labels=app=set").await?;
        apply(kubectl, SET).await?;
        kubectl.run("wait replicaset/set --for=jsonpath={.status.readyReplicas}=2 --timeout=30s").await?;
        let owners = "get pod stray --output=jsonpath={.metadata.ownerReferences[*].name}";
        kubectl.run(owners).await?;
        kubectl.run("label pod stray app=free --overwrite").await?;
        let owners = "get pod stray --watch --no-headers \
--output=custom-columns=O:.metadata.ownerReferences[*].name";
        let mut owners = kubectl.cluster.kubectl_following(&kubectl.words(owners))?;
        while owners.next().await?.trim() != "<none>" {}
        kubectl.run("get pod stray --output=jsonpath={.status.phase}").await?;
        // The pods of this one are refused by admission.
        let refused = SET
            .replace("set}", "refused}")
            .replace("containers:", "serviceAccountName: nobody\n      containers:");
        apply(kubectl, &refused).await?;
        kubectl.run("wait replicaset/refused --for=condition=ReplicaFailure --timeout=30s").await?;
        kubectl
            .run("get replicaset refused --output=jsonpath={.status.conditions[*].reason},{.status.conditions[*].message},{.status.replicas}")
            .await
    })
    .await;
}

/// A job whose pods have these annotations and whose spec has these further fields.
fn job(name: &str, annotations: &str, spec: &str) -> String {
    format!(
        "
apiVersion: batch/v1
kind: Job
metadata: {{name: {name}}}
spec:
  template:
    metadata: {{annotations: {annotations}}}
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 0
      containers: [{{name: main, image: registry.example/job:1}}]
  {spec}
"
    )
}

/// What became of a job.
async fn outcome(kubectl: &mut Transcript<'_>, name: &str) -> Result<()> {
    let status = "{.status.succeeded},{.status.failed},{.status.active},{.status.completedIndexes}";
    let conditions = "{.status.conditions[*].type},{.status.conditions[*].reason}";
    kubectl.run(&format!("get job {name} --output=jsonpath={status},{conditions}")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_complete_fail_wait_and_go() {
    alike_with_any_controllers("jobs", 1, async |kubectl| {
        settle(kubectl).await?;
        let indexed = "completionMode: Indexed\n  completions: 3\n  parallelism: 2";
        let fails = "{hollow.gantry.dev/run-seconds: \"0\", hollow.gantry.dev/exit-code: \"3\"}";
        let lasts = "{hollow.gantry.dev/run-seconds: \"600\"}";
        let jobs = [
            job("indexed", "{}", indexed),
            job("fails", fails, "backoffLimit: 0"),
            job("late", lasts, "activeDeadlineSeconds: 1"),
            job("waits", "{}", "suspend: true"),
            job("goes", "{}", "ttlSecondsAfterFinished: 1"),
        ];
        for manifest in &jobs {
            apply(kubectl, manifest).await?;
        }
        kubectl.run("wait job/indexed --for=condition=Complete --timeout=60s").await?;
        outcome(kubectl, "indexed").await?;
        kubectl.run("wait job/fails --for=condition=Failed --timeout=60s").await?;
        outcome(kubectl, "fails").await?;
        kubectl.run("wait job/late --for=condition=Failed --timeout=60s").await?;
        outcome(kubectl, "late").await?;
        kubectl.run("wait job/waits --for=condition=Suspended --timeout=60s").await?;
        kubectl.run("get pods --selector=batch.kubernetes.io/job-name=waits --output=name").await?;
        kubectl.run("patch job waits --patch {\"spec\":{\"suspend\":false}}").await?;
        kubectl.run("wait job/waits --for=condition=Complete --timeout=60s").await?;
        outcome(kubectl, "waits").await?;
        kubectl.quietly("wait job/goes --for=delete --timeout=60s").await?;
        kubectl.run("get jobs --output=name").await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn owners_go_with_or_without_what_they_own() {
    alike_with_any_controllers("owners", 1, async |kubectl| {
        settle(kubectl).await?;
        apply(kubectl, WEB).await?;
        rolled_out(kubectl).await?;
        kubectl.run("delete deployment web --cascade=orphan").await?;
        kubectl.run("get replicasets --output=jsonpath={.items[*].metadata.ownerReferences},{.items[*].spec.replicas}").await?;
        // A deployment of the same name and template takes the set back.
        apply(kubectl, WEB).await?;
        rolled_out(kubectl).await?;
        kubectl.run(SETS).await?;
        kubectl.run("delete deployment web --cascade=foreground --wait=true").await?;
        kubectl.run("get replicasets,pods --output=name").await?;
        apply(kubectl, SET).await?;
        kubectl.run("delete replicaset set --cascade=background").await?;
        kubectl.quietly("wait pods --selector=app=set --for=delete --timeout=30s").await?;
        kubectl.run("get pods --output=name").await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_is_furnished_and_goes_when_it_is_empty() {
    alike_with_any_controllers("furnished", 1, async |kubectl| {
        settle(kubectl).await?;
        kubectl.quietly("wait --for=create configmap/kube-root-ca.crt --timeout=30s").await?;
        kubectl.run("get configmap kube-root-ca.crt --output=jsonpath={.data}").await?;
        let certificate = kubectl.lines.pop().unwrap_or_default();
        ensure!(certificate.contains("BEGIN CERTIFICATE"), "{certificate}");
        // What is taken away or changed is put back.
        kubectl.run("delete serviceaccount default").await?;
        kubectl.quietly("wait --for=create serviceaccount/default --timeout=30s").await?;
        kubectl.run("patch configmap kube-root-ca.crt --patch {\"data\":{\"ca.crt\":\"x\"}}").await?;
        let watch = "get configmap kube-root-ca.crt --watch --output=jsonpath={.data}{\"\\n\"}";
        let mut certificates = kubectl.cluster.kubectl_following(&kubectl.words(watch))?;
        while !certificates.next().await?.contains("BEGIN CERTIFICATE") {}
        // A finalizer holds one object and with it the namespace.
        kubectl.run("create configmap held").await?;
        kubectl.run("patch configmap held --patch {\"metadata\":{\"finalizers\":[\"gantry.test/hold\"]}}").await?;
        let namespace = kubectl.namespace.clone();
        kubectl.run(&format!("delete namespace {namespace} --wait=false")).await?;
        let held = format!("wait namespace {namespace} --for=condition=NamespaceFinalizersRemaining --timeout=30s");
        kubectl.run(&held).await?;
        kubectl.run(&format!("get namespace {namespace} --output=jsonpath={{.status.phase}},{{.status.conditions[?(@.status==\"True\")].type}}")).await?;
        kubectl.run("get configmaps --output=name").await?;
        kubectl.run("patch configmap held --patch {\"metadata\":{\"finalizers\":null}}").await?;
        kubectl.run(&format!("wait namespace {namespace} --for=delete --timeout=60s")).await
    })
    .await;
}
