//! How far gangs have come, as their PodGroups say it.

use anyhow::{Result, ensure};
use api::pod_group::POD_GROUP_LABEL;
use chassis::client::Patch;
use scenarios::running::Running;
use scheduler::State;
use serde_json::{Value, json};

use crate::way::{Fate, Way};
use crate::yard::{Yard, configured, merge, on_both};

const DEFINITION: &str = "podgroups.scheduling.sigs.k8s.io";

/// A profile with gangs.
fn with_gangs() -> Value {
    let enabled = json!({ "enabled": [{ "name": "Coscheduling" }] });
    json!({ "profiles": [{ "schedulerName": "default-scheduler",
                           "plugins": { "preEnqueue": enabled } }] })
}

fn all(yard: &Yard) -> String {
    format!("/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/{}/podgroups", yard.namespace)
}

async fn group(yard: &Yard, name: &str, least: u32) -> Result<()> {
    let own = json!({
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup",
        "metadata": { "name": name }, "spec": { "minMember": least },
    });
    yard.create(&all(yard), &own).await
}

/// A pod of a group that another scheduler looks after.
async fn member(yard: &Yard, group: &str, name: &str) -> Result<()> {
    let owner = json!({ "apiVersion": "batch/v1", "kind": "Job", "name": "work", "uid": "u-work" });
    let own = json!({
        "metadata": { "labels": { POD_GROUP_LABEL: group }, "ownerReferences": [owner] },
        "spec": { "schedulerName": "another" },
    });
    yard.pod_like(name, "1", own).await
}

async fn becomes(yard: &Yard, pod: &str, phase: &str) -> Result<()> {
    let path = format!("/api/v1/namespaces/{}/pods/{pod}", yard.namespace);
    yard.patch_status(&path, json!({ "status": { "phase": phase } })).await
}

/// Waits until a group says all of this.
async fn until(yard: &Yard, name: &str, expected: Value) -> Result<Value> {
    let is_so = |own: &Value| {
        let mut with = own["status"].clone();
        merge(&mut with, &expected);
        (with == own["status"]).then_some(with)
    };
    yard.until_object(&format!("{}/{name}", all(yard)), is_so).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_says_how_far_its_pods_have_come_to_their_end() {
    on_both("group", async |yard| {
        yard.define(DEFINITION, &all(yard)).await?;
        yard.node("home", 10).await?;
        let own = yard.schedule(configured(&with_gangs())?).await?;
        group(yard, "train", 2).await?;
        until(yard, "train", json!({ "phase": "Pending" })).await?;
        // What somebody else writes there stays.
        let told = json!({ "type": "Complete", "status": "False", "reason": "Missing",
                           "message": "0 of 2", "lastTransitionTime": "2026-01-01T00:00:00Z" });
        let groups = yard.client.within::<api::PodGroup>(&yard.namespace);
        let patch = json!({ "status": { "conditions": [told] } });
        groups.patch("train", &Patch::Merge(patch)).await?;
        member(yard, "train", "a").await?;
        member(yard, "train", "b").await?;
        until(yard, "train", json!({ "occupiedBy": format!("{}/work", yard.namespace) })).await?;
        let begun = until(yard, "train", json!({ "phase": "Scheduling" })).await?;
        ensure!(begun["scheduleStartTime"].is_string(), "{begun}");
        yard.bind("a", "home").await?;
        until(yard, "train", json!({ "phase": "Scheduling", "scheduled": 1 })).await?;
        yard.bind("b", "home").await?;
        until(yard, "train", json!({ "phase": "Scheduled", "scheduled": 2 })).await?;
        becomes(yard, "a", "Running").await?;
        becomes(yard, "b", "Running").await?;
        until(yard, "train", json!({ "phase": "Running", "running": 2 })).await?;
        becomes(yard, "a", "Succeeded").await?;
        until(yard, "train", json!({ "phase": "Running", "running": 1, "succeeded": 1 })).await?;
        // Whoever comes next goes on where the other has ended.
        own.end().await?;
        let own = yard.schedule(configured(&with_gangs())?).await?;
        becomes(yard, "b", "Succeeded").await?;
        let ended = json!({ "phase": "Finished", "running": 0, "succeeded": 2, "scheduled": 2,
                            "scheduleStartTime": begun["scheduleStartTime"],
                            "conditions": [told] });
        until(yard, "train", ended).await?;
        own.end().await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_fails_with_its_pods_or_waits_again_when_they_are_gone() {
    on_both("groups", async |yard| {
        yard.node("home", 10).await?;
        let own = yard.schedule(configured(&with_gangs())?).await?;
        // The kind comes when the scheduler is there already.
        yard.define(DEFINITION, &all(yard)).await?;
        for name in ["fails", "leaves"] {
            group(yard, name, 1).await?;
            member(yard, name, name).await?;
            yard.bind(name, "home").await?;
            becomes(yard, name, "Running").await?;
            until(yard, name, json!({ "phase": "Running", "running": 1 })).await?;
        }
        becomes(yard, "fails", "Failed").await?;
        until(yard, "fails", json!({ "phase": "Failed", "failed": 1, "running": 0 })).await?;
        yard.delete_pod("leaves").await?;
        until(yard, "leaves", json!({ "phase": "Pending", "scheduled": 0, "running": 0 })).await?;
        own.end().await
    })
    .await;
}

/// Starts a scheduler that looks after groups while it leads.
fn contend(yard: &Yard, way: &Way) -> Result<Running> {
    let mut told = json!({ "leaderElection": { "leaderElect": true, "leaseDuration": "3s",
        "renewDeadline": "2s", "retryPeriod": "500ms", "resourceName": "kube-scheduler",
        "resourceNamespace": "kube-system" } });
    merge(&mut told, &with_gangs());
    Ok(yard.schedule_through(way, configured(&told)?))
}

fn has_written(way: &Way) -> bool {
    way.writes().iter().any(|own| own.contains("podgroups"))
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_leader_writes_how_far_groups_have_come_and_the_next_one_goes_on() {
    on_both("group-leader", async |yard| {
        yard.define(DEFINITION, &all(yard)).await?;
        let fine = async || Way::to(yard, |_| Fate::Fine).await;
        let (way, other) = (fine().await?, fine().await?);
        let mut first = contend(yard, &way)?;
        first.until(State::Deciding).await?;
        let mut second = contend(yard, &other)?;
        group(yard, "early", 2).await?;
        until(yard, "early", json!({ "phase": "Pending" })).await?;
        ensure!(has_written(&way) && !has_written(&other), "only the leader writes");
        first.end().await?;
        second.until(State::Deciding).await?;
        group(yard, "late", 2).await?;
        until(yard, "late", json!({ "phase": "Pending" })).await?;
        ensure!(has_written(&other), "who leads writes");
        second.end().await
    })
    .await;
}
