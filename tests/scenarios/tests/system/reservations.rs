//! Capacity is held for pods that are still to come.

use anyhow::{Result, ensure};
use api::reservation::{AFFINITY, ALLOCATED};
use chassis::client::{Call, Patch};
use http::Method;
use serde_json::{Value, json};

use crate::yard::{Yard, configured, merge, on_both};

pub const RESERVATIONS: &str = "/apis/scheduling.koordinator.sh/v1alpha1/reservations";
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

/// A profile by which reservations push pods out and take over those of others.
fn reserving_more() -> Value {
    let args = json!({ "enablePreemption": true,
                       "preAllocationConfig": { "enableClusterMode": true } });
    let only = json!({ "enabled": [{ "name": "Reservation" }], "disabled": [{ "name": "*" }] });
    json!({ "profiles": [{
        "schedulerName": "default-scheduler",
        "plugins": { "filter": { "enabled": [{ "name": "Reservation" }] }, "postFilter": only },
        "pluginConfig": [{ "name": "Reservation", "args": args }] }] })
}

#[tokio::test(flavor = "multi_thread")]
async fn s11_52_pods_that_run_are_taken_over_and_what_they_leave_is_held() {
    on_both("taken", async |yard| {
        yard.define(DEFINITION, RESERVATIONS).await?;
        yard.node("taken", 8).await?;
        let own = yard.schedule(configured(&reserving_more())?).await?;
        let running = |rank: &str| {
            json!({ "metadata": {
                "labels": { "pod.koordinator.sh/is-pre-allocatable": "true" },
                "annotations": { "pod.koordinator.sh/pre-allocatable-priority": rank } } })
        };
        yard.pod_like("first", "2", running("9")).await?;
        yard.pod_like("second", "3", running("5")).await?;
        yard.pod("plain", "3").await?;
        for pod in ["first", "second", "plain"] {
            yard.until_on(pod, "taken").await?;
        }
        // The node is full, and five of its CPUs become the reservation's.
        let name = &format!("{}-r", yard.namespace);
        let more = json!({ "spec": {
            "allocateOnce": false, "allocatePolicy": "Restricted", "preAllocation": true,
            "preAllocationPolicy": { "mode": "Cluster", "enableMultiple": true } } });
        reserve(yard, name, "5", &more).await?;
        let both = |status: &Value| {
            let owners = status["currentOwners"].as_array().map_or(0, Vec::len);
            (status["phase"] == "Available" && owners == 2).then(|| status.clone())
        };
        let status = until(yard, name, both).await?;
        ensure!(status["allocated"] == json!({ "cpu": "5" }), "{status}");
        for pod in ["first", "second"] {
            ensure!(uses(yard, pod) == *name, "{pod} uses {}", uses(yard, pod));
        }
        ensure!(uses(yard, "plain").is_empty(), "it is nobody's");
        // What one of them leaves stays held, and an owner gets it.
        yard.delete_pod("second").await?;
        let one =
            |status: &Value| (status["allocated"] == json!({ "cpu": "2" })).then(|| status.clone());
        let status = until(yard, name, one).await?;
        ensure!(status["phase"] == "Available", "{status}");
        yard.pod("stranger", "1").await?;
        let why = yard.until_waits("stranger", "Unschedulable").await?;
        ensure!(why.contains("1 Insufficient cpu"), "{why}");
        yard.pod_like("owner", "3", owner(yard)).await?;
        yard.until_on("owner", "taken").await?;
        ensure!(uses(yard, "owner") == *name, "{}", uses(yard, "owner"));
        delete(yard, name).await?;
        own.end().await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s11_55_a_pod_that_runs_is_a_reservation_for_its_owners() {
    on_both("operates", async |yard| {
        yard.define(DEFINITION, RESERVATIONS).await?;
        yard.node("operates", 4).await?;
        let own = yard.schedule(configured(&reserving())?).await?;
        let owners = json!([{ "labelSelector": { "matchLabels": { "story": yard.namespace } } }]);
        let operating = json!({ "metadata": {
            "labels": { "scheduling.koordinator.sh/operating-mode": "Reservation" },
            "annotations": {
                "scheduling.koordinator.sh/reservation-owners": owners.to_string() } } });
        yard.pod_like("operating", "4", operating).await?;
        yard.until_on("operating", "operates").await?;
        yard.pod_like("owner", "4", owner(yard)).await?;
        let why = yard.until_waits("owner", "Unschedulable").await?;
        ensure!(why.contains("1 Insufficient cpu"), "it is not ready: {why}");
        let ready = json!({ "status": { "phase": "Running", "conditions": [
            { "type": "Ready", "status": "True" }] } });
        let path = format!("/api/v1/namespaces/{}/pods/operating", yard.namespace);
        yard.patch_status(&path, ready).await?;
        yard.until_on("owner", "operates").await?;
        ensure!(uses(yard, "owner") == "operating", "{}", uses(yard, "owner"));
        yard.pod_like("second", "4", owner(yard)).await?;
        let why = yard.until_waits("second", "Unschedulable").await?;
        ensure!(why.contains("1 Insufficient cpu"), "it is for one pod: {why}");
        own.end().await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s11_56_pods_make_room_for_a_reservation_and_it_grows_with_its_template() {
    on_both("makes-room", async |yard| {
        yard.define(DEFINITION, RESERVATIONS).await?;
        yard.node("room", 4).await?;
        let own = yard.schedule(configured(&reserving_more())?).await?;
        let spared = json!({ "metadata": { "labels": {
            "scheduling.koordinator.sh/disable-preemptible": "true" } } });
        yard.pod_like("spared", "2", spared).await?;
        yard.pod("lower", "2").await?;
        for pod in ["spared", "lower"] {
            yard.until_on(pod, "room").await?;
        }
        let name = &format!("{}-r", yard.namespace);
        let more = json!({ "spec": { "allocateOnce": false },
                           "metadata": { "labels": { "koordinator.sh/priority": "9000" } } });
        reserve(yard, name, "1", &more).await?;
        yard.until("the lower one has gone", |seen| !seen.pods.contains_key("lower")).await?;
        let told = yard.until_told("lower", "Preempted").await?;
        ensure!(told.contains("on node room"), "{told}");
        until_phase(yard, name, "Available").await?;
        ensure!(yard.seen(|seen| seen.node("spared") == "room"), "it is to be spared");
        // It is to hold more, and does.
        let template = |cpu: &str| {
            json!({ "spec": { "template": { "spec": {
            "schedulerName": "default-scheduler",
            "containers": [{ "name": "hold", "image": "none",
                             "resources": { "requests": { "cpu": cpu } } }] } } } })
        };
        let all = yard.client.all::<api::Reservation>();
        all.patch(name, &Patch::Merge(template("2"))).await?;
        let holds = |status: &Value| {
            (status["allocatable"] == json!({ "cpu": "2" })).then(|| status.clone())
        };
        let status = until(yard, name, holds).await?;
        ensure!(condition(&status, "Resized").0 == "True", "{status}");
        yard.pod("stranger", "1").await?;
        let why = yard.until_waits("stranger", "Unschedulable").await?;
        ensure!(why.contains("1 Insufficient cpu"), "{why}");
        // What the node has not, it does not get.
        all.patch(name, &Patch::Merge(template("3"))).await?;
        let refused =
            |status: &Value| (condition(status, "Resized").0 == "False").then(|| status.clone());
        let status = until(yard, name, refused).await?;
        ensure!(condition(&status, "Resized").1 == "Insufficient", "{status}");
        ensure!(status["allocatable"] == json!({ "cpu": "2" }), "{status}");
        delete(yard, name).await?;
        own.end().await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_the_way_of_reservations_is_told_in_an_event_of_its_own() {
    on_both("in-the-way", async |yard| {
        yard.define(DEFINITION, RESERVATIONS).await?;
        yard.node("way", 4).await?;
        let own = yard.schedule(configured(&reserving_more())?).await?;
        let name = &format!("{}-r", yard.namespace);
        let more = json!({ "spec": { "allocateOnce": false, "unschedulable": true } });
        reserve(yard, name, "2", &more).await?;
        until_phase(yard, name, "Available").await?;
        let mut must = owner(yard);
        must["metadata"]["annotations"] = json!({ AFFINITY: "{}" });
        yard.pod_like("must", "1", must).await?;
        let told = yard.until_told("must", "FailedScheduling-Reservation").await?;
        let expected = "0/1 reservations are available: 1 Reservation(s) is unschedulable.";
        ensure!(told == expected, "{told}");
        let why = yard.until_waits("must", "Unschedulable").await?;
        ensure!(why.contains("1 Reservation(s) matched owner total"), "{why}");
        delete(yard, name).await?;
        own.end().await
    })
    .await;
}
