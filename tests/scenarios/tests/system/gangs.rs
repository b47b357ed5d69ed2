//! Gangs: pods that start together or not at all.

use anyhow::{Result, ensure};
use api::pod_group::{
    BIND_GROUP_ID, BIND_MEMBER_COUNT, GANG_GROUPS, GANG_MIN_AVAILABLE, GANG_NAME, POD_GROUP_LABEL,
};
use serde_json::{Value, json};

use crate::yard::{Yard, configured, on_both};

const DEFINITION: &str = "podgroups.scheduling.sigs.k8s.io";

/// A profile with gangs.
fn with_gangs() -> Value {
    let enabled = json!({ "enabled": [{ "name": "Coscheduling" }] });
    json!({ "profiles": [{ "schedulerName": "default-scheduler",
                           "plugins": { "preEnqueue": enabled, "permit": enabled } }] })
}

fn all(yard: &Yard) -> String {
    format!("/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/{}/podgroups", yard.namespace)
}

async fn group(yard: &Yard, name: &str, least: u32, annotations: Value) -> Result<()> {
    let own = json!({
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup",
        "metadata": { "name": name, "annotations": annotations }, "spec": { "minMember": least },
    });
    yard.create(&all(yard), &own).await
}

async fn member(yard: &Yard, group: &str, name: &str, cpu: &str) -> Result<()> {
    yard.pod_like(name, cpu, json!({ "metadata": { "labels": { POD_GROUP_LABEL: group } } })).await
}

/// Waits until a group says so, and returns in which words.
async fn until_says(yard: &Yard, name: &str, reason: &str) -> Result<String> {
    let says = |own: &Value| {
        let conditions = own["status"]["conditions"].as_array()?;
        let own = conditions.iter().find(|own| own["type"] == "Scheduled")?;
        (own["reason"] == reason).then(|| own["message"].as_str().unwrap_or_default().to_owned())
    };
    yard.until_object(&format!("{}/{name}", all(yard)), says).await
}

async fn annotation(yard: &Yard, pod: &str, key: &str) -> Result<String> {
    let path = format!("/api/v1/namespaces/{}/pods/{pod}", yard.namespace);
    let text = |own: &Value| own["metadata"]["annotations"][key].as_str().map(str::to_owned);
    yard.until_object(&path, text).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gang_waits_for_its_members_and_for_room_and_starts_whole() {
    on_both("gang", async |yard| {
        yard.define(DEFINITION, &all(yard)).await?;
        yard.node("home", 2).await?;
        let own = yard.schedule(configured(&with_gangs())?).await?;
        group(yard, "train", 3, json!({})).await?;
        member(yard, "train", "a", "1").await?;
        member(yard, "train", "b", "1").await?;
        let words = until_says(yard, "train", "WaitingForMembers").await?;
        ensure!(words.contains("waits for members: collected"), "{words}");
        let words = yard.until_waits("a", "WaitingForGang").await?;
        ensure!(words.ends_with("/3"), "{words}");
        member(yard, "train", "c", "1").await?;
        for name in ["a", "b", "c"] {
            let words = yard.until_waits(name, "Unschedulable").await?;
            ensure!(words.contains("gets rejected due to member Pod"), "{words}");
            ensure!(words.contains("alreadyWaitForBound: 2"), "{words}");
        }
        until_says(yard, "train", "Unschedulable").await?;
        ensure!(yard.seen(|seen| ["a", "b", "c"].iter().all(|name| seen.node(name).is_empty())));
        yard.node("away", 1).await?;
        for name in ["a", "b", "c"] {
            yard.until_bound(name).await?;
            let gangs = annotation(yard, name, BIND_GROUP_ID).await?;
            ensure!(gangs == format!("{}/train", yard.namespace), "{gangs}");
            ensure!(annotation(yard, name, BIND_MEMBER_COUNT).await? == "3");
        }
        let words = until_says(yard, "train", "Placed").await?;
        ensure!(words.starts_with("3 members have a node"), "{words}");
        // Who comes once it has started is by itself.
        yard.node("more", 1).await?;
        member(yard, "train", "d", "1").await?;
        yard.until_on("d", "more").await?;
        own.end().await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_gangs_that_need_the_same_nodes_one_starts_and_then_the_other() {
    on_both("gangs", async |yard| {
        yard.define(DEFINITION, &all(yard)).await?;
        for name in ["x", "y"] {
            group(yard, name, 2, json!({})).await?;
        }
        for name in ["x1", "y1", "x2", "y2"] {
            member(yard, &name[..1], name, "1").await?;
        }
        yard.node("home", 3).await?;
        let own = yard.schedule(configured(&with_gangs())?).await?;
        let whole = |yard: &Yard, gang: &str| {
            let count = |seen: &crate::yard::Seen| {
                let members = ["1", "2"].map(|number| format!("{gang}{number}"));
                members.iter().filter(|name| !seen.node(name).is_empty()).count()
            };
            yard.seen(count)
        };
        yard.until("one gang has started", |seen| {
            let has = |name: &str| !seen.node(name).is_empty();
            has("x1") && has("x2") || has("y1") && has("y2")
        })
        .await?;
        let (first, second) = if whole(yard, "x") == 2 { ("x", "y") } else { ("y", "x") };
        for number in ["1", "2"] {
            yard.until_waits(&format!("{second}{number}"), "Unschedulable").await?;
        }
        ensure!(whole(yard, second) == 0, "nobody of it has a node");
        for number in ["1", "2"] {
            yard.delete_pod(&format!("{first}{number}")).await?;
        }
        for number in ["1", "2"] {
            yard.until_bound(&format!("{second}{number}")).await?;
        }
        own.end().await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn gangs_that_their_pods_describe_start_and_gangs_of_a_group_wait_for_each_other() {
    on_both("gang-groups", async |yard| {
        yard.define(DEFINITION, &all(yard)).await?;
        yard.node("home", 9).await?;
        let own = yard.schedule(configured(&with_gangs())?).await?;
        let light = |min: &str| {
            json!({ "metadata": { "annotations": { GANG_NAME: "light", GANG_MIN_AVAILABLE: min } } })
        };
        yard.pod_like("l1", "1", light("2")).await?;
        yard.until_waits("l1", "WaitingForGang").await?;
        yard.pod_like("l2", "1", light("2")).await?;
        yard.until_bound("l1").await?;
        yard.until_bound("l2").await?;
        let named = format!("[\"{0}/a\",\"{0}/b\"]", yard.namespace);
        group(yard, "a", 1, json!({ GANG_GROUPS: named })).await?;
        member(yard, "a", "a1", "1").await?;
        let words = yard.until_waits("a1", "WaitingForGang").await?;
        ensure!(words.starts_with("waiting for gang "), "{words}");
        until_says(yard, "a", "WaitingForGang").await?;
        group(yard, "b", 1, json!({ GANG_GROUPS: named })).await?;
        member(yard, "b", "b1", "1").await?;
        yard.until_bound("a1").await?;
        yard.until_bound("b1").await?;
        own.end().await
    })
    .await;
}
