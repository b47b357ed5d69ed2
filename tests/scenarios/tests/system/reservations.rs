//! Capacity is held for pods that are still to come.

use anyhow::{Result, ensure};
use api::reservation::{AFFINITY, ALLOCATED};
use chassis::client::{Call, Patch};
use http::Method;
use serde_json::{Value, json};

use crate::yard::{Yard, configured, merge, on_both};

const RESERVATIONS: &str = "/apis/scheduling.koordinator.sh/v1alpha1/reservations";
const DEFINITION: &str = "reservations.scheduling.koordinator.sh";

fn reserving() -> Value {
    let enabled = json!({ "enabled": [{ "name": "Reservation" }] });
    json!({ "profiles": [{ "schedulerName": "default-scheduler",
                           "plugins": { "filter": enabled } }] })
}

/// A reservation of so much CPU for pods of this story.
async fn reserve(yard: &Yard, name: &str, cpu: &str, more: &Value) -> Result<()> {
    let requests = json!({ "cpu": cpu });
    let mut own = json!({
        "apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation",
        "metadata": { "name": name },
        "spec": {
            "owners": [{ "labelSelector": { "matchLabels": { "story": yard.namespace } } }],
            "template": { "spec": {
                "schedulerName": "default-scheduler",
                "containers": [{ "name": "hold", "image": "none",
                                 "resources": { "requests": requests } }] } } },
    });
    merge(&mut own, more);
    yard.create(RESERVATIONS, &own).await
}

async fn until(yard: &Yard, name: &str, find: impl Fn(&Value) -> Option<Value>) -> Result<Value> {
    yard.until_object(&format!("{RESERVATIONS}/{name}"), |own| find(&own["status"])).await
}

async fn until_phase(yard: &Yard, name: &str, phase: &str) -> Result<Value> {
    until(yard, name, |status| (status["phase"] == phase).then(|| status.clone())).await
}

/// Status, reason and message of a condition.
fn condition<'a>(status: &'a Value, name: &str) -> (&'a str, &'a str, &'a str) {
    let mut all = status["conditions"].as_array().into_iter().flatten();
    let own = all.find(|own| own["type"] == name);
    let of = |field: &str| own.and_then(|own| own[field].as_str()).unwrap_or_default();
    (of("status"), of("reason"), of("message"))
}

/// A pod that reservations of this story are for.
fn owner(yard: &Yard) -> Value {
    json!({ "metadata": { "labels": { "story": yard.namespace } } })
}

fn uses(yard: &Yard, pod: &str) -> String {
    let own = |seen: &crate::yard::Seen| {
        let text = seen.pods.get(pod)?.metadata.annotations.get(ALLOCATED)?.clone();
        Some(serde_json::from_str::<Value>(&text).ok()?["name"].as_str()?.to_owned())
    };
    yard.seen(own).unwrap_or_default()
}

async fn delete(yard: &Yard, name: &str) -> Result<()> {
    let call = Call::new(Method::DELETE, format!("{RESERVATIONS}/{name}"));
    Ok(yard.client.call_unread(call).await?)
}

#[tokio::test(flavor = "multi_thread")]
async fn s11_1_s11_3_s11_16_what_is_held_is_for_those_who_own_it_through_a_restart() {
    on_both("held", async |yard| {
        yard.define(DEFINITION, RESERVATIONS).await?;
        yard.node("held", 10).await?;
        let own = yard.schedule(configured(&reserving())?).await?;
        let name = &format!("{}-r", yard.namespace);
        reserve(yard, name, "6", &json!({ "spec": { "allocateOnce": false } })).await?;
        let status = until_phase(yard, name, "Available").await?;
        ensure!(status["nodeName"] == "held", "{status}");
        ensure!(status["allocatable"] == json!({ "cpu": "6" }), "{status}");
        ensure!(condition(&status, "Scheduled").1 == "Scheduled", "{status}");
        ensure!(condition(&status, "Ready").1 == "Available", "{status}");
        // Another's reservation counts, whoever gave it its node.
        let theirs = &format!("{}-theirs", yard.namespace);
        let more = json!({ "spec": { "template": { "spec": { "schedulerName": "another" } } } });
        reserve(yard, theirs, "1", &more).await?;
        yard.pod("marker", "0").await?;
        yard.until_on("marker", "held").await?;
        let waits = |status: &Value| {
            let is_ours =
                status["nodeName"].is_string() || !condition(status, "Scheduled").0.is_empty();
            (!is_ours).then_some(Value::Null)
        };
        until(yard, theirs, waits).await?;
        let given = json!({ "status": { "phase": "Available", "nodeName": "held",
                                        "allocatable": { "cpu": "1" } } });
        yard.patch_status(&format!("{RESERVATIONS}/{theirs}"), given).await?;
        yard.pod("stranger", "4").await?;
        let why = yard.until_waits("stranger", "Unschedulable").await?;
        ensure!(why.contains("1 Insufficient cpu"), "{why}");
        delete(yard, theirs).await?;
        yard.until_on("stranger", "held").await?;
        yard.pod_like("first", "3", owner(yard)).await?;
        yard.until_on("first", "held").await?;
        ensure!(uses(yard, "first") == *name, "{}", uses(yard, "first"));
        let used = |cpu: &'static str, owners: usize| {
            move |status: &Value| {
                let count = status["currentOwners"].as_array().map_or(0, Vec::len);
                let is_told = status["allocated"]["cpu"] == cpu && count == owners;
                is_told.then(|| status.clone())
            }
        };
        until(yard, name, used("3", 1)).await?;
        own.end().await?;
        // Whoever comes next knows who is inside.
        let own = yard.schedule(configured(&reserving())?).await?;
        yard.pod_like("second", "3", owner(yard)).await?;
        yard.until_on("second", "held").await?;
        let status = until(yard, name, used("6", 2)).await?;
        ensure!(status["phase"] == "Available", "{status}");
        yard.pod("late", "3").await?;
        let why = yard.until_waits("late", "Unschedulable").await?;
        ensure!(why.contains("1 Insufficient cpu"), "{why}");
        // What nobody uses any longer is still held, and free when the reservation is gone.
        yard.delete_pod("first").await?;
        until(yard, name, used("3", 1)).await?;
        yard.pod("witness", "0").await?;
        yard.until_on("witness", "held").await?;
        ensure!(yard.seen(|seen| seen.node("late").is_empty()), "what is held stays held");
        delete(yard, name).await?;
        yard.until_on("late", "held").await?;
        ensure!(yard.seen(|seen| seen.node("second") == "held"), "its owners stay");
        own.end().await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s11_2_s11_6_s11_7_a_reservation_ends_with_its_pod_or_with_its_time() {
    on_both("ends", async |yard| {
        yard.define(DEFINITION, RESERVATIONS).await?;
        yard.node("ends", 4).await?;
        let own = yard.schedule(configured(&reserving())?).await?;
        let once = &format!("{}-once", yard.namespace);
        reserve(yard, once, "3", &json!({})).await?;
        until_phase(yard, once, "Available").await?;
        // Nobody can hold as much: it waits, and says why.
        let large = &format!("{}-large", yard.namespace);
        reserve(yard, large, "2", &json!({ "spec": { "ttl": "3s" } })).await?;
        let told = |status: &Value| {
            (condition(status, "Scheduled").1 == "Unschedulable").then(|| status.clone())
        };
        let status = until(yard, large, told).await?;
        let words = condition(&status, "Scheduled").2.to_owned();
        ensure!(words.contains("1 Insufficient cpu"), "{words}");
        let status = until_phase(yard, large, "Failed").await?;
        ensure!(condition(&status, "Ready") == ("False", "Expired", "it has expired"), "{status}");
        let must = |yard: &Yard| {
            let mut own = owner(yard);
            own["metadata"]["annotations"] = json!({ AFFINITY: "{}" });
            own
        };
        yard.pod_like("only", "1", must(yard)).await?;
        yard.until_on("only", "ends").await?;
        ensure!(uses(yard, "only") == *once, "{}", uses(yard, "only"));
        let status = until_phase(yard, once, "Succeeded").await?;
        ensure!(condition(&status, "Ready").1 == "Succeeded", "{status}");
        ensure!(status["allocated"] == json!({ "cpu": "1" }), "{status}");
        // What its pod does not use is free; who must use one has none.
        yard.pod("other", "3").await?;
        yard.until_on("other", "ends").await?;
        yard.pod_like("another", "1", must(yard)).await?;
        let why = yard.until_waits("another", "Unschedulable").await?;
        ensure!(why.contains("no reservations match reservation affinity"), "{why}");
        // What cannot be read is told, and mended it is held.
        let odd = &format!("{}-odd", yard.namespace);
        let nobody = json!({ "metadata": { "annotations": {
            "scheduling.koordinator.sh/reservation-restricted-options": "?" } } });
        reserve(yard, odd, "0", &nobody).await?;
        let invalid = |status: &Value| {
            (condition(status, "Scheduled").1 == "Invalid").then(|| status.clone())
        };
        let status = until(yard, odd, invalid).await?;
        let words = condition(&status, "Scheduled").2.to_owned();
        ensure!(words.contains("reservation-restricted-options"), "{words}");
        let mended = json!({ "metadata": { "annotations": {
            "scheduling.koordinator.sh/reservation-restricted-options": null } } });
        let all = yard.client.all::<api::Reservation>();
        all.patch(odd, &Patch::Merge(mended)).await?;
        until_phase(yard, odd, "Available").await?;
        for name in [once, large, odd] {
            delete(yard, name).await?;
        }
        own.end().await
    })
    .await;
}
