//! Jobs that complete, fail, wait and go, and that say what a failure means, how often an index
//! is tried and what is enough.
//!
//! Where failures are judged, no node takes the pods: the story says how each ends, and when:
//! long ago, so that no controller waits before it tries again.

use anyhow::Result;

use crate::manifests::{QUICK, job, with_annotations, with_pod};
use crate::story::Story;
use crate::transcript::Transcript;

/// A job with indexes, whose pods no node takes, with these further fields of its spec.
fn untaken(name: &str, spec: &str) -> String {
    with_pod(&job(name, &format!("completionMode: Indexed\n  {spec}")), "nodeSelector: {no: where}")
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
    kubectl.apply(&untaken("judged", rules)).await?;
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
    kubectl.apply(&untaken("tried", spec)).await?;
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
    kubectl.apply(&untaken("strict", spec)).await?;
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
    kubectl.apply(&untaken("modest", spec)).await?;
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
    kubectl.apply(&untaken("rested", "completions: 1\n  backoffLimitPerIndex: 0")).await?;
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

/// What is told of jobs that judge failures.
const JUDGED_TOLD: &str = "
job-controller judged Normal SuccessfulCreate 3: Created pod: judged-0-{pod}
job-controller judged Warning PodFailurePolicy 1: Container main for pod {ns}/judged-0-{pod} failed with exit code 5 matching FailJob rule at index 2
job-controller modest Normal Completed 1: Job completed
job-controller modest Normal SuccessfulCreate 1: Created pod: modest-0-{pod}
job-controller modest Normal SuccessfulCreate 1: Created pod: modest-1-{pod}
job-controller modest Normal SuccessfulCreate 1: Created pod: modest-2-{pod}
job-controller modest Normal SuccessfulDelete 1: Deleted pod: modest-0-{pod}
job-controller modest Normal SuccessfulDelete 1: Deleted pod: modest-1-{pod}
job-controller rested Normal Completed 1: Job completed
job-controller rested Normal Resumed 1: Job resumed
job-controller rested Normal SuccessfulCreate 2: Created pod: rested-0-{pod}
job-controller rested Normal SuccessfulDelete 1: Deleted pod: rested-0-{pod}
job-controller rested Normal Suspended 1: Job suspended
job-controller strict Normal SuccessfulCreate 1: Created pod: strict-0-{pod}
job-controller strict Normal SuccessfulCreate 1: Created pod: strict-1-{pod}
job-controller strict Normal SuccessfulCreate 1: Created pod: strict-2-{pod}
job-controller strict Normal SuccessfulDelete 1: Deleted pod: strict-0-{pod}
job-controller strict Normal SuccessfulDelete 1: Deleted pod: strict-2-{pod}
job-controller strict Warning MaxFailedIndexesExceeded 1: Job has exceeded the specified maximal number of failed indexes
job-controller tried Normal SuccessfulCreate 2: Created pod: tried-0-{pod}
job-controller tried Normal SuccessfulCreate 3: Created pod: tried-1-{pod}
job-controller tried Normal SuccessfulCreate 1: Created pod: tried-2-{pod}
job-controller tried Normal SuccessfulCreate 1: Created pod: tried-3-{pod}
job-controller tried Warning FailedIndexes 1: Job has failed indexes
";

#[tokio::test(flavor = "multi_thread")]
async fn jobs_judge_failures_try_indexes_and_know_what_is_enough() {
    Story::new("policies", 1)
        .alike(async |kubectl| {
            judged(kubectl).await?;
            tried(kubectl).await?;
            strict(kubectl).await?;
            modest(kubectl).await?;
            rested(kubectl).await?;
            kubectl.until_told("", JUDGED_TOLD).await
        })
        .await;
}

/// What is told of jobs that complete, fail, wait and go.
const TOLD: &str = "
job-controller fails Normal SuccessfulCreate 1: Created pod: fails-{pod}
job-controller fails Warning BackoffLimitExceeded 1: Job has reached the specified backoff limit
job-controller goes Normal Completed 1: Job completed
job-controller goes Normal SuccessfulCreate 1: Created pod: goes-{pod}
job-controller indexed Normal Completed 1: Job completed
job-controller indexed Normal SuccessfulCreate 1: Created pod: indexed-0-{pod}
job-controller indexed Normal SuccessfulCreate 1: Created pod: indexed-1-{pod}
job-controller indexed Normal SuccessfulCreate 1: Created pod: indexed-2-{pod}
job-controller late Normal SuccessfulCreate 1: Created pod: late-{pod}
job-controller late Normal SuccessfulDelete 1: Deleted pod: late-{pod}
job-controller late Warning DeadlineExceeded 1: Job was active longer than specified deadline
job-controller waits Normal Completed 1: Job completed
job-controller waits Normal Resumed 1: Job resumed
job-controller waits Normal SuccessfulCreate 1: Created pod: waits-{pod}
job-controller waits Normal Suspended 1: Job suspended
";

#[tokio::test(flavor = "multi_thread")]
async fn jobs_complete_fail_wait_and_go() {
    Story::new("jobs", 1)
        .alike(async |kubectl| {
            let fails =
                "{hollow.gantry.dev/run-seconds: \"0\", hollow.gantry.dev/exit-code: \"3\"}";
            let lasts = "{hollow.gantry.dev/run-seconds: \"600\"}";
            let indexed = "completionMode: Indexed\n  completions: 3\n  parallelism: 2";
            let jobs = [
                (QUICK, job("indexed", indexed)),
                (fails, job("fails", "backoffLimit: 0")),
                (lasts, job("late", "activeDeadlineSeconds: 1")),
                (QUICK, job("waits", "suspend: true")),
                (QUICK, job("goes", "ttlSecondsAfterFinished: 1")),
            ];
            for (annotations, manifest) in &jobs {
                kubectl.apply(&with_annotations(manifest, annotations)).await?;
            }
            outcome(kubectl, "indexed", "Complete").await?;
            outcome(kubectl, "fails", "Failed").await?;
            outcome(kubectl, "late", "Failed").await?;
            kubectl.run("wait job/waits --for=condition=Suspended --timeout=60s").await?;
            kubectl
                .run("get pods --selector=batch.kubernetes.io/job-name=waits --output=name")
                .await?;
            kubectl.run("patch job waits --patch {\"spec\":{\"suspend\":false}}").await?;
            outcome(kubectl, "waits", "Complete").await?;
            kubectl.quietly("wait job/goes --for=delete --timeout=60s").await?;
            kubectl.run("get jobs --output=name").await?;
            kubectl.until_told("", TOLD).await
        })
        .await;
}
