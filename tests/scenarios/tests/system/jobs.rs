//! Jobs that say what a failure means, how often an index is tried and what is enough: with
//! kube-controller-manager's controllers and with ours, on both servers, with the same outcomes.
//!
//! No node takes the pods. The story says how each ends, and when: long ago, so that no
//! controller waits before it tries again.

use anyhow::Result;

use crate::transcript::{Transcript, alike_with_any_controllers};
use crate::workloads::{apply, settle};

/// A job with indexes and these further fields of its spec.
fn job(name: &str, spec: &str) -> String {
    format!(
        "
apiVersion: batch/v1
kind: Job
metadata: {{name: {name}}}
spec:
  completionMode: Indexed
  template:
    spec:
      restartPolicy: Never
      nodeSelector: {{no: where}}
      containers: [{{name: main, image: registry.example/job:1}}]
  {spec}
"
    )
}

/// Name, phase, failures before it and ignored failures before it.
const PODS: &str = "--no-headers --output=custom-columns=N:.metadata.name,P:.status.phase,\
F:.metadata.annotations.batch\\.kubernetes\\.io/job-index-failure-count,\
I:.metadata.annotations.batch\\.kubernetes\\.io/job-index-ignored-failure-count";

/// The pod of a job's index that waits, with so many failures before it that count or do not.
async fn waiting(
    kubectl: &Transcript<'_>,
    (job, index): (&str, u32),
    failures: [&str; 2],
) -> Result<String> {
    let labels = format!(
        "batch.kubernetes.io/job-name={job},batch.kubernetes.io/job-completion-index={index}"
    );
    let watch = format!("get pods --watch --selector={labels} {PODS}");
    let mut pods = kubectl.cluster.kubectl_following(&kubectl.words(&watch))?;
    loop {
        let line = pods.next().await?;
        if let [name, "Pending", told @ ..] = line.split_whitespace().collect::<Vec<_>>().as_slice()
            && told == failures
        {
            return Ok((*name).to_owned());
        }
    }
}

/// Lets a pod end with an exit code, and with conditions beside.
async fn end(kubectl: &Transcript<'_>, pod: &str, code: u8, conditions: &str) -> Result<()> {
    let phase = if code == 0 { "Succeeded" } else { "Failed" };
    let patch = format!(
        r#"{{"status":{{"phase":"{phase}","conditions":[{conditions}],"containerStatuses":[
{{"name":"main","image":"registry.example/job:1","imageID":"","ready":false,"restartCount":0,
"state":{{"terminated":{{"exitCode":{code},"startedAt":"2020-01-01T00:00:00Z",
"finishedAt":"2020-01-01T00:00:00Z"}}}}}}]}}}}"#
    );
    let patch = format!("patch pod {pod} --subresource=status --patch {}", patch.replace('\n', ""));
    kubectl.quietly(&patch).await.map(drop)
}

/// Waits for a job's end and keeps all that it tells of it.
async fn outcome(kubectl: &mut Transcript<'_>, name: &str, condition: &str) -> Result<()> {
    kubectl.run(&format!("wait job/{name} --for=condition={condition} --timeout=60s")).await?;
    let counts = "{.status.succeeded},{.status.failed},{.status.active},{.status.terminating}";
    let indexes = "{.status.completedIndexes},{.status.failedIndexes}";
    let all = |field: &str| format!("{{.status.conditions[*].{field}}}");
    let told = ["type", "status", "reason", "message"].map(all).join(";");
    let words = format!("get job {name} --output=jsonpath={counts};{indexes};{told}");
    kubectl.run(&words).await
}

/// The pods of a job that are left, without their names and in an order of their own.
async fn pods_left(kubectl: &mut Transcript<'_>, job: &str) -> Result<()> {
    let words = format!("get pods --selector=batch.kubernetes.io/job-name={job} {PODS}");
    let printed = kubectl.quietly(&words).await?;
    // Job, index, and five random letters.
    let unnamed = |line: &str| {
        let (name, rest) = line.split_once(' ')?;
        let (name, _) = name.rsplit_once('-')?;
        Some(format!("{name} {}\n", rest.split_whitespace().collect::<Vec<_>>().join(" ")))
    };
    let mut lines: Vec<String> = printed.lines().filter_map(unnamed).collect();
    lines.sort();
    kubectl.keep(&words, &lines.concat());
    Ok(())
}

const NEW: [&str; 2] = ["<none>", "<none>"];

/// Failures are ignored by exit code and by condition, until one ends the job.
async fn judged(kubectl: &mut Transcript<'_>) -> Result<()> {
    let rules = "completions: 1
  backoffLimit: 0
  podFailurePolicy:
    rules:
    - {action: Ignore, onExitCodes: {operator: In, values: [3]}}
    - {action: Ignore, onPodConditions: [{type: DisruptionTarget}]}
    - {action: FailJob, onExitCodes: {containerName: main, operator: NotIn, values: [1, 3]}}";
    apply(kubectl, &job("judged", rules)).await?;
    let first = waiting(kubectl, ("judged", 0), NEW).await?;
    end(kubectl, &first, 3, "").await?;
    let second = waiting(kubectl, ("judged", 0), NEW).await?;
    end(kubectl, &second, 1, r#"{"type":"DisruptionTarget","status":"True"}"#).await?;
    let third = waiting(kubectl, ("judged", 0), NEW).await?;
    end(kubectl, &third, 5, "").await?;
    outcome(kubectl, "judged", "Failed").await?;
    kubectl.call(&third, "{third}");
    pods_left(kubectl, "judged").await
}

/// Indexes are tried again, or not, each by itself; the job ends with the last of them.
async fn tried(kubectl: &mut Transcript<'_>) -> Result<()> {
    let spec = "completions: 4
  parallelism: 4
  backoffLimitPerIndex: 1
  podFailurePolicy:
    rules:
    - {action: Ignore, onExitCodes: {operator: In, values: [3]}}
    - {action: FailIndex, onExitCodes: {operator: In, values: [4]}}";
    apply(kubectl, &job("tried", spec)).await?;
    let steps = [
        (0, ["0", "<none>"], 1),
        (1, ["0", "<none>"], 3),
        (2, ["0", "<none>"], 4),
        (3, ["0", "<none>"], 0),
        (1, ["0", "1"], 3),
        (0, ["1", "<none>"], 1),
        (1, ["0", "2"], 0),
    ];
    for (index, failures, code) in steps {
        let pod = waiting(kubectl, ("tried", index), failures).await?;
        end(kubectl, &pod, code, "").await?;
    }
    outcome(kubectl, "tried", "Failed").await?;
    pods_left(kubectl, "tried").await
}

/// One failed index is too many.
async fn strict(kubectl: &mut Transcript<'_>) -> Result<()> {
    let spec = "completions: 3
  parallelism: 3
  backoffLimitPerIndex: 0
  maxFailedIndexes: 0
  podReplacementPolicy: Failed";
    apply(kubectl, &job("strict", spec)).await?;
    for index in [0, 2] {
        waiting(kubectl, ("strict", index), ["0", "<none>"]).await?;
    }
    let pod = waiting(kubectl, ("strict", 1), ["0", "<none>"]).await?;
    end(kubectl, &pod, 1, "").await?;
    outcome(kubectl, "strict", "Failed").await?;
    pods_left(kubectl, "strict").await
}

/// One index is enough; what still runs is let go and has not failed.
async fn modest(kubectl: &mut Transcript<'_>) -> Result<()> {
    let spec = "completions: 3
  parallelism: 3
  podReplacementPolicy: Failed
  successPolicy: {rules: [{succeededIndexes: \"0\"}, {succeededIndexes: 1-2, succeededCount: 1}]}";
    apply(kubectl, &job("modest", spec)).await?;
    for index in [0, 1] {
        waiting(kubectl, ("modest", index), NEW).await?;
    }
    let pod = waiting(kubectl, ("modest", 2), NEW).await?;
    end(kubectl, &pod, 0, "").await?;
    outcome(kubectl, "modest", "Complete").await?;
    pods_left(kubectl, "modest").await
}

/// A job that is told to rest loses its pods, and none of them has failed.
async fn rested(kubectl: &mut Transcript<'_>) -> Result<()> {
    apply(kubectl, &job("rested", "completions: 1\n  backoffLimitPerIndex: 0")).await?;
    waiting(kubectl, ("rested", 0), ["0", "<none>"]).await?;
    kubectl.run("patch job rested --patch {\"spec\":{\"suspend\":true}}").await?;
    kubectl
        .quietly(
            "wait pods --selector=batch.kubernetes.io/job-name=rested --for=delete --timeout=60s",
        )
        .await?;
    kubectl.quietly("wait job/rested --for=jsonpath={.status.terminating}=0 --timeout=60s").await?;
    outcome(kubectl, "rested", "Suspended").await?;
    kubectl.run("patch job rested --patch {\"spec\":{\"suspend\":false}}").await?;
    let pod = waiting(kubectl, ("rested", 0), ["0", "<none>"]).await?;
    end(kubectl, &pod, 0, "").await?;
    outcome(kubectl, "rested", "Complete").await
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_judge_failures_try_indexes_and_know_what_is_enough() {
    alike_with_any_controllers("policies", 1, async |kubectl| {
        settle(kubectl).await?;
        judged(kubectl).await?;
        tried(kubectl).await?;
        strict(kubectl).await?;
        modest(kubectl).await?;
        rested(kubectl).await
    })
    .await;
}
