//! Koordinator's profile, as its chart installs it, and what its users write on pods and nodes.

use anyhow::{Context as _, Result, ensure};
use api::cpus::{AMPLIFICATION_RATIO, CPU_BIND_POLICY_LABEL, NODE_RESERVATION, RESOURCE_STATUS};
use api::reservation::ALLOCATED;
use api::scheduling_hint::SCHEDULING_HINT;
use chassis::client::Call;
use chassis::clock::Clock;
use chassis::shutdown::{GRACE, Shutdown};
use hollow::{Hollow, Setup};
use http::Method;
use scenarios::system::PATIENCE;
use scheduler::config::Configuration;
use serde_json::{Value, json};

use crate::cpus::{LAYOUTS, got, report, sensitive};
use crate::reservations::RESERVATIONS;
use crate::yard::{Seen, Yard, merge, on_both};

const NAME: &str = "koord-scheduler";

/// What the chart's file says, for one that nobody else stands in for.
fn installed() -> Configuration {
    Configuration { leader_election: None, ..Configuration::of_koordinator() }
}

/// A pod of this profile.
async fn pod(yard: &Yard, name: &str, cpu: &str, more: &Value) -> Result<()> {
    let mut own = json!({ "spec": { "schedulerName": NAME } });
    merge(&mut own, more);
    yard.pod_like(name, cpu, own).await
}

fn hint(text: &Value) -> Value {
    json!({ "metadata": { "annotations": { SCHEDULING_HINT: text.to_string() } } })
}

#[tokio::test(flavor = "multi_thread")]
async fn s10_67_s10_73_pods_of_the_chart_s_profile_go_where_they_say() {
    on_both("chart", async |yard| {
        for node in ["one", "two", "three"] {
            yard.node(node, 4).await?;
        }
        let own = yard.schedule(installed()).await?;
        pod(yard, "named", "1", &hint(&json!({ "nodeNames": ["two"] }))).await?;
        yard.until_on("named", "two").await?;
        let preferred = json!({ "preferredNodeNames": ["gone", "three"] });
        pod(yard, "preferred", "1", &hint(&preferred)).await?;
        yard.until_on("preferred", "three").await?;
        let broken = json!({ "metadata": { "annotations": { SCHEDULING_HINT: "{" } } });
        pod(yard, "broken", "1", &broken).await?;
        let why = yard.until_waits("broken", "InvalidAnnotation").await?;
        ensure!(why.contains(SCHEDULING_HINT), "{why}");
        // The label goes before the spec; who names neither is not ours.
        let label = json!({ "scheduling.koordinator.sh/scheduler-name": NAME });
        let labelled = json!({ "metadata": { "labels": label } });
        yard.pod_like("labelled", "1", labelled).await?;
        yard.until_bound("labelled").await?;
        yard.pod("another", "1").await?;
        pod(yard, "last", "1", &json!({})).await?;
        yard.until_bound("last").await?;
        ensure!(yard.seen(|seen| seen.node("another").is_empty()), "it names another scheduler");
        own.end().await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_node_keeps_and_what_it_offers_more_count() {
    on_both("offers", async |yard| {
        let kept = json!({ "resources": { "cpu": "2" } }).to_string();
        let keeping = json!({ "metadata": { "annotations": { NODE_RESERVATION: kept } } });
        yard.node_like("keeping", 4, keeping).await?;
        let own = yard.schedule(installed()).await?;
        pod(yard, "large", "3", &json!({})).await?;
        let why = yard.until_waits("large", "Unschedulable").await?;
        ensure!(why.contains("1 Insufficient cpu"), "{why}");
        pod(yard, "small", "2", &json!({})).await?;
        yard.until_on("small", "keeping").await?;
        // What is kept no longer is free at once.
        let freed = json!({ "metadata": { "annotations": { NODE_RESERVATION: null } } });
        yard.patch_node("keeping", freed).await?;
        pod(yard, "more", "2", &json!({})).await?;
        yard.until_on("more", "keeping").await?;
        // Resources have the names of today, whatever pods call them.
        let batch = json!({ "kubernetes.io/batch-cpu": "2000" });
        let offering = json!({ "status": { "capacity": batch, "allocatable": batch } });
        yard.node_like("batch", 1, offering).await?;
        let container = |amount: &str| {
            let list = json!({ "koordinator.sh/batch-cpu": amount });
            let resources = json!({ "requests": list, "limits": list });
            json!({ "spec": { "containers": [
                { "name": "main", "image": "registry.example/web:1", "resources": resources }] } })
        };
        pod(yard, "older", "0", &container("1500")).await?;
        yard.until_on("older", "batch").await?;
        pod(yard, "too-many", "0", &container("1000")).await?;
        let why = yard.until_waits("too-many", "Unschedulable").await?;
        ensure!(why.contains("Insufficient kubernetes.io/batch-cpu"), "{why}");
        // A CPU of one's own counts as much as is offered for it; without a layout there is none.
        let ratio = json!({ "cpu": 2.0 }).to_string();
        let amplified = json!({ "metadata": {
            "labels": { CPU_BIND_POLICY_LABEL: "FullPCPUsOnly" },
            "annotations": { AMPLIFICATION_RATIO: ratio } } });
        yard.node_like("amplified", 16, amplified).await?;
        pod(yard, "bound", "4", &json!({})).await?;
        // Until a controller sees that it is ready, the node has a taint.
        let lack = "1 node(s) invalid CPU Topology";
        let told = |seen: &Seen| seen.condition("bound").is_some_and(|(_, why)| why.contains(lack));
        yard.until("bound waits for a layout", told).await?;
        own.end().await
    })
    .await;
}

/// Runs hollow nodes of a type until the shutdown begins, and waits until they are registered.
async fn hollow(yard: &Yard, nodes: &str) -> Result<Shutdown> {
    let setup = Setup { groups: vec![nodes.parse()?], ..Setup::default() };
    let options = hollow::Options { setup, ..hollow::Options::default() };
    let own = Hollow::new(yard.client.clone(), options)?;
    let mut progress = own.progress();
    let shutdown = Shutdown::new();
    let ending = shutdown.clone();
    shutdown.spawn("hollow nodes", async move {
        if let Err(error) = own.run(&ending).await {
            eprintln!("hollow nodes: {error}");
        }
    });
    let ready = tokio::time::timeout(PATIENCE, progress.wait_for(|told| told.is_ready())).await;
    ready.context("the nodes do not register")?.context("the nodes have ended")?;
    Ok(shutdown)
}

async fn end(nodes: Shutdown) -> Result<()> {
    nodes.begin();
    Ok(nodes.join(&Clock::system(), GRACE).await?)
}

/// Waits until a node says that it has so many NUMA nodes, of so many CPUs each.
async fn until_laid_out(yard: &Yard, path: &str, numas: usize, cpus: &str) -> Result<()> {
    yard.until_object(path, |layouts| {
        let mut items = layouts["items"].as_array()?.iter();
        let layout = items.find(|own| own["metadata"]["name"] == "laid-0000")?;
        let zones = layout["zones"].as_array()?;
        let is_so = |zone: &Value| zone["resources"][0]["allocatable"] == cpus;
        (zones.len() == numas && zones.iter().all(is_so)).then_some(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn hollow_nodes_say_where_their_cpus_are_as_soon_as_they_can() {
    on_both("laid", async |yard| {
        let layouts = "/apis/topology.node.k8s.io/v1alpha1/noderesourcetopologies";
        let own = yard.schedule(installed()).await?;
        let nodes = hollow(yard, "1x8cpu,numa=2,name=laid").await?;
        // No controller is there to see that the node is ready.
        yard.patch_node("laid-0000", json!({ "spec": { "taints": null } })).await?;
        let sensitive = json!({ "metadata": { "labels": { "koordinator.sh/qosClass": "LSR" } } });
        pod(yard, "sensitive", "2", &sensitive).await?;
        // The kind comes after the nodes, and after those who wait for it.
        yard.define("noderesourcetopologies.topology.node.k8s.io", layouts).await?;
        until_laid_out(yard, layouts, 2, "4").await?;
        yard.until_on("sensitive", "laid-0000").await?;
        let got =
            yard.seen(|seen| seen.pods["sensitive"].metadata.annotations[RESOURCE_STATUS].clone());
        ensure!(got == r#"{"cpuset":"0-1"}"#, "{got}");
        // Another run of the same node finds what the former left, and says what is so now.
        end(nodes).await?;
        let nodes = hollow(yard, "1x8cpu,numa=4,name=laid").await?;
        until_laid_out(yard, layouts, 4, "2").await?;
        end(nodes).await?;
        own.end().await
    })
    .await;
}

/// What Koordinator's scheduler leaves behind where it ran: a pod with CPUs of its own, a reservation, and a
/// pod inside of it.
async fn leave_behind(yard: &Yard, reservation: &str) -> Result<()> {
    let told = json!({ RESOURCE_STATUS: r#"{"cpuset":"0-1"}"# });
    let with_cpus = json!({ "metadata": { "labels": { "koordinator.sh/qosClass": "LSR" },
                                          "annotations": told } });
    pod(yard, "ran", "2", &with_cpus).await?;
    yard.bind("ran", "taken").await?;
    // It has no node, so that nobody gave it any.
    let claims = json!({ "metadata": { "annotations": { RESOURCE_STATUS: r#"{"cpuset":"2-7"}"# } },
                         "spec": { "schedulerName": "another" } });
    yard.pod_like("claims", "6", claims).await?;
    let container = json!({ "name": "hold", "image": "none",
                            "resources": { "requests": { "cpu": "2" } } });
    let own = json!({
        "apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation",
        "metadata": { "name": reservation },
        "spec": {
            "allocateOnce": false, "allocatePolicy": "Aligned",
            "owners": [{ "labelSelector": { "matchLabels": { "story": yard.namespace } } }],
            "template": { "spec": { "schedulerName": NAME, "containers": [container] } } },
    });
    yard.create(RESERVATIONS, &own).await?;
    let path = format!("{RESERVATIONS}/{reservation}");
    let given = json!({ "status": { "phase": "Available", "nodeName": "taken",
                                    "allocatable": { "cpu": "2" } } });
    yard.patch_status(&path, given).await?;
    let uid = yard.until_object(&path, |own| own["metadata"]["uid"].as_str().map(str::to_owned));
    let used = json!({ "name": reservation, "uid": uid.await? }).to_string();
    let inside = json!({ "metadata": { "labels": { "story": yard.namespace },
                                       "annotations": { ALLOCATED: used } } });
    pod(yard, "inside", "1", &inside).await?;
    yard.bind("inside", "taken").await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_koordinator_s_scheduler_gave_is_taken_over_and_what_nobody_gave_is_not() {
    on_both("takeover", async |yard| {
        yard.define("noderesourcetopologies.topology.node.k8s.io", LAYOUTS).await?;
        yard.define("reservations.scheduling.koordinator.sh", RESERVATIONS).await?;
        yard.node("taken", 8).await?;
        report(yard, "taken", 1, 8).await?;
        let reservation = &format!("{}-r", yard.namespace);
        leave_behind(yard, reservation).await?;
        let own = yard.schedule(installed()).await?;
        // Its CPUs stay its own, and what one without a node claims is anybody's.
        pod(yard, "sensitive", "2", &sensitive(Value::Null)).await?;
        yard.until_on("sensitive", "taken").await?;
        let (_, status) = got(yard, "sensitive")?;
        ensure!(status == r#"{"cpuset":"2-3"}"#, "{status}");
        // Two and two have CPUs of their own, and two are held, of which one is used.
        pod(yard, "stranger", "3", &json!({})).await?;
        let why = yard.until_waits("stranger", "Unschedulable").await?;
        ensure!(why.contains("1 Insufficient cpu"), "{why}");
        let path = format!("{RESERVATIONS}/{reservation}");
        let told = |own: &Value| {
            let status = &own["status"];
            let owners = status["currentOwners"].as_array()?;
            let is_told = status["allocated"]["cpu"] == "1" && owners.len() == 1;
            (is_told && owners[0]["name"] == "inside").then_some(())
        };
        yard.until_object(&path, told).await?;
        let owner = json!({ "metadata": { "labels": { "story": yard.namespace } } });
        pod(yard, "owner", "3", &owner).await?;
        yard.until_on("owner", "taken").await?;
        own.end().await?;
        for path in [format!("{LAYOUTS}/taken"), path] {
            yard.client.call_unread(Call::new(Method::DELETE, path)).await?;
        }
        Ok(())
    })
    .await;
}
