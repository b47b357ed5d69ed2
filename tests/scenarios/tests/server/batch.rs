//! Workloads that end.

use scenarios::Scenario;
use scenarios::request::{delete, get, post};
use serde_json::{Value, json};

use crate::trials::{changes, creations, selector, template, with};

const JOBS: &str = "/apis/batch/v1/namespaces/{ns}/jobs";
const CRON_JOBS: &str = "/apis/batch/v1/namespaces/{ns}/cronjobs";

fn job(change: Value) -> Value {
    let spec = json!({"template": template("Never")});
    json!({"spec": with(spec, change)})
}

fn cron_job(change: Value) -> Value {
    let spec = json!({"schedule": "*/5 * * * *", "jobTemplate": job(json!({}))});
    json!({"spec": with(spec, change)})
}

#[tokio::test]
async fn a_job_is_completed_and_checked() {
    let mut unlabelled = template("OnFailure");
    unlabelled["metadata"] = json!({});
    let bodies = vec![
        job(json!({})),
        job(json!({"template": unlabelled})),
        json!({"metadata": {"labels": {"own": "l"}}, "spec": job(json!({}))["spec"]}),
        job(json!({"parallelism": 3})),
        job(json!({"completions": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 1})),
        job(json!({"suspend": true, "ttlSecondsAfterFinished": 10, "activeDeadlineSeconds": 5})),
        job(json!({"manualSelector": true, "selector": selector()})),
        job(json!({"manualSelector": true})),
        job(json!({"template": template("")})),
        job(json!({"template": template("Always")})),
        job(json!({"parallelism": -1, "completions": -1, "backoffLimit": -1})),
        job(json!({"completionMode": "Odd"})),
        job(json!({"completionMode": "Indexed"})),
        job(json!({"backoffLimitPerIndex": 1, "maxFailedIndexes": 1})),
        job(json!({"podReplacementPolicy": "Odd", "managedBy": "x"})),
        json!({}),
    ];
    creations("a_job_is_completed_and_checked", JOBS, bodies).await;
}

#[tokio::test]
async fn a_job_changes_little() {
    let patches = vec![
        json!({"spec": {"parallelism": 2}}),
        json!({"spec": {"completions": 2}}),
        json!({"spec": {"completionMode": "Indexed"}}),
        json!({"metadata": {"labels": {"x": "y"}}}),
        json!({"status": {"startTime": "2020-01-01T00:00:00Z", "active": 1, "ready": 0}}),
        json!({"status": {"active": 1, "ready": 2}}),
        json!({"status": {"active": 0, "succeeded": 1, "ready": null,
            "completionTime": "2020-01-01T00:01:00Z",
            "conditions": [
                {"type": "SuccessCriteriaMet", "status": "True"},
                {"type": "Complete", "status": "True"}]}}),
        json!({"status": {"conditions": []}}),
    ];
    changes("a_job_changes_little", JOBS, job(json!({})), patches).await;
}

#[tokio::test]
async fn a_job_starts_anew_only_after_a_rest() {
    let started = |time: &str, suspended: &str| {
        json!({"status": {"startTime": time,
            "conditions": [{"type": "Suspended", "status": suspended}]}})
    };
    let patches = vec![
        started("2020-01-01T00:00:00Z", "True"),
        started("2020-01-01T00:01:00Z", "True"),
        started("2020-01-01T00:01:00Z", "False"),
        started("2020-01-01T00:02:00Z", "False"),
    ];
    changes("a_job_starts_anew_only_after_a_rest", JOBS, job(json!({})), patches).await;
}

#[tokio::test]
async fn a_job_orphans_its_pods_unless_told() {
    let mut body = job(json!({}));
    body["metadata"]["name"] = "a".into();
    Scenario::new("a_job_orphans_its_pods_unless_told")
        .step(post(JOBS, body.clone()).expect(201))
        .step(get(JOBS).query("fieldSelector", "status.successful=0"))
        .step(get(JOBS).query("fieldSelector", "status.failed=0"))
        .step(delete(&format!("{JOBS}/a")))
        .run()
        .await;
}

#[tokio::test]
async fn a_cron_job_is_completed_and_checked() {
    let long = json!({"name": "x".repeat(53)});
    let bodies = vec![
        cron_job(json!({})),
        cron_job(json!({"schedule": "@daily", "timeZone": "Etc/UTC", "suspend": true})),
        cron_job(json!({"schedule": ""})),
        cron_job(json!({"schedule": "* * *"})),
        cron_job(json!({"schedule": "61 * * * *"})),
        cron_job(json!({"schedule": "a * * * *"})),
        cron_job(json!({"schedule": "@often"})),
        cron_job(json!({"schedule": "TZ=UTC * * * * *"})),
        cron_job(json!({"timeZone": "a b"})),
        cron_job(json!({"timeZone": ""})),
        cron_job(json!({"concurrencyPolicy": "Odd", "startingDeadlineSeconds": -1,
            "successfulJobsHistoryLimit": -1, "failedJobsHistoryLimit": -1})),
        cron_job(
            json!({"jobTemplate": job(json!({"selector": selector(), "manualSelector": true}))}),
        ),
        cron_job(json!({"jobTemplate": {}})),
        json!({"metadata": long, "spec": cron_job(json!({}))["spec"]}),
        json!({}),
    ];
    creations("a_cron_job_is_completed_and_checked", CRON_JOBS, bodies).await;
    let patches = vec![
        json!({"spec": {"schedule": "0 0 * * *"}}),
        json!({"metadata": {"annotations": {"a": "b"}}}),
        json!({"status": {"lastScheduleTime": "2020-01-01T00:00:00Z",
            "active": [{"kind": "Job", "name": "j"}]}}),
    ];
    changes("a_cron_job_changes", CRON_JOBS, cron_job(json!({})), patches).await;
}
