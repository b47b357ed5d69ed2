//! A job that takes over a pod which was there before it: with kube-controller-manager's
//! controllers and with ours, on both servers, with the same outcome.

use anyhow::Result;

use crate::transcript::{Transcript, alike_with_any_controllers};
use crate::workloads::{apply, settle};

/// A pod that no node takes, and a job that selects it.
const POD: &str = "
apiVersion: v1
kind: Pod
metadata: {name: early, labels: {app: early}, finalizers: [example.com/own]}
spec:
  restartPolicy: Never
  nodeSelector: {no: where}
  containers: [{name: main, image: registry.example/job:1}]
";

const JOB: &str = "
apiVersion: batch/v1
kind: Job
metadata: {name: late}
spec:
  completions: 1
  manualSelector: true
  selector: {matchLabels: {app: early}}
  template:
    metadata: {labels: {app: early}}
    spec:
      restartPolicy: Never
      nodeSelector: {no: where}
      containers: [{name: main, image: registry.example/job:1}]
";

/// The pod is adopted with the finalizer that holds it until it is counted, and counted.
async fn adopted(kubectl: &mut Transcript<'_>) -> Result<()> {
    apply(kubectl, POD).await?;
    apply(kubectl, JOB).await?;
    let owner = "{.metadata.ownerReferences[0].kind}";
    kubectl.quietly(&format!("wait pod/early --for=jsonpath={owner}=Job --timeout=60s")).await?;
    kubectl
        .run(&format!("get pod early --output=jsonpath={owner};{{.metadata.finalizers}}"))
        .await?;
    kubectl
        .quietly(r#"patch pod early --subresource=status --patch {"status":{"phase":"Succeeded"}}"#)
        .await?;
    kubectl.run("wait job/late --for=condition=Complete --timeout=60s").await?;
    let counts = "{.status.succeeded},{.status.failed},{.status.active}";
    kubectl.run(&format!("get job late --output=jsonpath={counts}")).await?;
    kubectl.run("get pods --output=custom-columns=N:.metadata.name,F:.metadata.finalizers").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_counts_a_pod_that_it_has_adopted() {
    alike_with_any_controllers("adoption", 1, async |kubectl| {
        settle(kubectl).await?;
        adopted(kubectl).await
    })
    .await;
}
