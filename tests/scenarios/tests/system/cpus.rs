//! Latency-sensitive pods get CPUs of their own.

use anyhow::{Context as _, Result, ensure};
use api::cpus::{CPU_TOPOLOGY, NUMA_TOPOLOGY_SPEC, RESOURCE_SPEC, RESOURCE_STATUS};
use chassis::client::Call;
use http::Method;
use scheduler::why::from_objects;
use serde_json::{Value, json};

use crate::yard::{Yard, configured, on_both};

pub const LAYOUTS: &str = "/apis/topology.node.k8s.io/v1alpha1/noderesourcetopologies";

fn with_cpus() -> Value {
    let enabled = json!({ "enabled": [{ "name": "NodeNUMAResource" }] });
    json!({ "profiles": [{ "schedulerName": "default-scheduler",
                           "plugins": { "filter": enabled, "score": enabled } }] })
}

/// A node reports that it has so many NUMA nodes of so many CPUs, on cores of two.
pub async fn report(yard: &Yard, node: &str, numas: u32, cpus: u32) -> Result<()> {
    let cpu = |id: u32| json!({ "id": id, "core": id / 2, "socket": 0, "node": id / cpus });
    let detail = json!({ "detail": (0..numas * cpus).map(cpu).collect::<Vec<_>>() }).to_string();
    let zone = |numa: u32| {
        let cpus = cpus.to_string();
        json!({ "name": format!("node-{numa}"), "type": "Node", "resources": [
            { "name": "cpu", "capacity": cpus, "allocatable": cpus, "available": cpus }] })
    };
    let layout = json!({ "apiVersion": "topology.node.k8s.io/v1alpha1",
        "kind": "NodeResourceTopology",
        "metadata": { "name": node, "annotations": { CPU_TOPOLOGY: detail } },
        "topologyPolicies": ["None"], "zones": (0..numas).map(zone).collect::<Vec<_>>() });
    yard.create(LAYOUTS, &layout).await
}

/// A pod that gets CPUs of its own, by this.
pub fn sensitive(spec: Value) -> Value {
    let annotations = match spec {
        Value::Null => json!({}),
        spec => json!({ RESOURCE_SPEC: spec.to_string() }),
    };
    json!({ "metadata": { "labels": { "koordinator.sh/qosClass": "LSR" },
                          "annotations": annotations } })
}

/// What a pod says of the CPUs it got: how they lie, and which.
pub fn got(yard: &Yard, pod: &str) -> Result<(String, String)> {
    yard.seen(|seen| {
        let annotations = &seen.pods.get(pod)?.metadata.annotations;
        Some((annotations.get(RESOURCE_SPEC)?.clone(), annotations.get(RESOURCE_STATUS)?.clone()))
    })
    .with_context(|| format!("{pod} does not say which CPUs it got"))
}

async fn until_got(yard: &Yard, pod: &str, cpus: &str) -> Result<()> {
    yard.until_on(pod, "cpus").await?;
    let expected = json!({ "cpuset": cpus }).to_string();
    let (_, status) = got(yard, pod)?;
    ensure!(status == expected, "{pod} got {status}, not {expected}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sensitive_pod_gets_cpus_of_its_own_and_keeps_them_through_a_restart() {
    on_both("cpus", async |yard| {
        yard.define("noderesourcetopologies.topology.node.k8s.io", LAYOUTS).await?;
        yard.node("cpus", 10).await?;
        let own = yard.schedule(configured(&with_cpus())?).await?;
        yard.pod_like("first", "4", sensitive(Value::Null)).await?;
        let why = yard.until_waits("first", "Unschedulable").await?;
        ensure!(why.contains("1 node(s) invalid CPU Topology"), "{why}");
        // Who waits for it hears of a layout that comes late.
        report(yard, "cpus", 1, 10).await?;
        until_got(yard, "first", "0-3").await?;
        let (spec, _) = got(yard, "first")?;
        ensure!(spec == r#"{"preferredCPUBindPolicy":"FullPCPUs"}"#, "{spec}");
        yard.pod_like("shared", "1", json!({})).await?;
        yard.until_on("shared", "cpus").await?;
        ensure!(got(yard, "shared").is_err(), "it did not ask for CPUs of its own");
        let spread = sensitive(json!({ "requiredCPUBindPolicy": "SpreadByPCPUs" }));
        yard.pod_like("spread", "3", spread).await?;
        until_got(yard, "spread", "4,6,8").await?;
        own.end().await?;
        // Whoever comes next knows whose they are.
        let own = yard.schedule(configured(&with_cpus())?).await?;
        let full = sensitive(json!({ "requiredCPUBindPolicy": "FullPCPUs" }));
        yard.pod_like("next", "2", full).await?;
        let why = yard.until_waits("next", "Unschedulable").await?;
        ensure!(why.contains("1 not enough cpus available to satisfy request"), "{why}");
        let configuration = configured(&with_cpus())?;
        let answer = from_objects(&yard.client, &configuration, &yard.namespace, "next").await?;
        let told = answer.to_string();
        let lack = "has 0 CPUs free that lie as they must, and 2 are asked";
        ensure!(told.contains(lack), "{told}");
        yard.delete_pod("first").await?;
        until_got(yard, "next", "0-1").await?;
        own.end().await?;
        let call = Call::new(Method::DELETE, format!("{LAYOUTS}/cpus"));
        Ok(yard.client.call_unread(call).await?)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_is_put_on_one_numa_node_or_on_as_few_as_can_be() {
    on_both("numa", async |yard| {
        yard.define("noderesourcetopologies.topology.node.k8s.io", LAYOUTS).await?;
        yard.node("numa", 8).await?;
        report(yard, "numa", 2, 4).await?;
        let own = yard.schedule(configured(&with_cpus())?).await?;
        let policy = |policy: &str| {
            let spec = json!({ "numaTopologyPolicy": policy }).to_string();
            json!({ "metadata": { "annotations": { NUMA_TOPOLOGY_SPEC: spec } } })
        };
        let status = |pod: &str| {
            let own = |seen: &crate::yard::Seen| {
                seen.pods.get(pod)?.metadata.annotations.get(RESOURCE_STATUS).cloned()
            };
            yard.seen(own).unwrap_or_default()
        };
        let of = |zone: u32, cpu: &str| {
            json!({ "numaNodeResources": [{ "node": zone, "resources": { "cpu": cpu } }] }).to_string()
        };
        for (pod, zone) in [("first", 0), ("second", 1)] {
            yard.pod_like(pod, "2500m", policy("SingleNUMANode")).await?;
            yard.until_on(pod, "numa").await?;
            let told = status(pod);
            ensure!(told == of(zone, "2500m"), "{pod}: {told}");
        }
        // There is room on the node, but not on any one of its NUMA nodes.
        yard.pod_like("third", "2", policy("SingleNUMANode")).await?;
        let why = yard.until_waits("third", "Unschedulable").await?;
        ensure!(why.contains("1 Unsatisfied NUMA cpu"), "{why}");
        yard.pod_like("fourth", "2", policy("Restricted")).await?;
        yard.until_on("fourth", "numa").await?;
        let told = status("fourth");
        let both = r#"{"numaNodeResources":[{"node":0,"resources":{"cpu":"1"}},{"node":1,"resources":{"cpu":"1"}}]}"#;
        ensure!(told == both, "{told}");
        yard.delete_pod("first").await?;
        yard.until_on("third", "numa").await?;
        own.end().await?;
        let call = Call::new(Method::DELETE, format!("{LAYOUTS}/numa"));
        Ok(yard.client.call_unread(call).await?)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_node_can_give_is_told_in_words_until_it_is_mended() {
    on_both("uncpus", async |yard| {
        yard.node("plain", 8).await?;
        let own = yard.schedule(configured(&with_cpus())?).await?;
        let burst = json!({ "requiredCPUBindPolicy": "ConstrainedBurst" });
        yard.pod_like("burst", "1", sensitive(burst)).await?;
        let why = yard.until_waits("burst", "InvalidCPURequest").await?;
        let words = [RESOURCE_SPEC, "ConstrainedBurst is not supported"];
        ensure!(words.iter().all(|word| why.contains(word)), "{why}");
        yard.pod_like("half", "1500m", sensitive(Value::Null)).await?;
        let why = yard.until_waits("half", "InvalidCPURequest").await?;
        ensure!(why.contains("the requested CPUs must be integer"), "{why}");
        // Others go on.
        yard.pod("other", "1").await?;
        yard.until_on("other", "plain").await?;
        let labels = json!({ "metadata": { "labels": { "koordinator.sh/qosClass": "LS" },
                                           "annotations": { RESOURCE_SPEC: null } } });
        yard.patch_pod("burst", labels).await?;
        yard.until_on("burst", "plain").await?;
        own.end().await
    })
    .await;
}
