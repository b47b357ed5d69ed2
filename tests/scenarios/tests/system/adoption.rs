//! A job that takes over a pod which was there before it: with kube-controller-manager's
//! controllers and with ours, on both servers, with the same outcome.

use crate::story::Story;

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
#[tokio::test(flavor = "multi_thread")]
async fn a_job_counts_a_pod_that_it_has_adopted() {
    let owner = "{.metadata.ownerReferences[0].kind}";
    let held = format!("get pod early --output=jsonpath={owner};{{.metadata.finalizers}}");
    let counts = "{.status.succeeded},{.status.failed},{.status.active}";
    let counts = format!("get job late --output=jsonpath={counts}");
    let succeeded = r#"{"status":{"phase":"Succeeded"}}"#;
    let succeed = format!("patch pod early --subresource=status --patch {succeeded}");
    Story::new("adoption", 1)
        .alike(async |kubectl| {
            kubectl.apply(POD).await?;
            kubectl.apply(JOB).await?;
            kubectl.until("pod early", owner, "Job").await?;
            kubectl.run(&held).await?;
            kubectl.quietly(&succeed).await?;
            kubectl.run("wait job/late --for=condition=Complete --timeout=60s").await?;
            kubectl.run(&counts).await?;
            let columns = "N:.metadata.name,F:.metadata.finalizers";
            kubectl.run(&format!("get pods --output=custom-columns={columns}")).await
        })
        .await;
}
