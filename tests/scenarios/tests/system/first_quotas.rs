//! Quotas that nobody writes: those of every cluster, and those that are made of groups of nodes.

use anyhow::{Result, ensure};
use api::elastic_quota::{PROFILE_LABEL, TREE_ID_LABEL};
use chassis::client::{Call, Patch};
use http::Method;
use serde_json::{Value, json};

use crate::yard::{Yard, configured, on_both};

const GROUP: &str = "/apis/scheduling.sigs.k8s.io/v1alpha1";
const QUOTAS: &str = "elasticquotas.scheduling.sigs.k8s.io";
const PROFILES: &str = "elasticquotaprofiles.quota.koordinator.sh";

/// A profile with quotas, which are in this namespace where they belong to nobody.
fn with_quotas(namespace: &str) -> Value {
    let enabled = json!({ "enabled": [{ "name": "ElasticQuota" }] });
    let args = json!({ "quotaGroupNamespace": namespace,
                       "systemQuotaGroupMax": { "cpu": "8" } });
    json!({ "profiles": [{ "schedulerName": "default-scheduler",
                           "plugins": { "preFilter": enabled },
                           "pluginConfig": [{ "name": "ElasticQuota", "args": args }] }] })
}

fn quotas(namespace: &str) -> String {
    format!("{GROUP}/namespaces/{namespace}/elasticquotas")
}

fn profiles(yard: &Yard) -> String {
    let namespace = &yard.namespace;
    format!("/apis/quota.koordinator.sh/v1alpha1/namespaces/{namespace}/elasticquotaprofiles")
}

async fn profile(yard: &Yard, name: &str, ratio: &str) -> Result<()> {
    let own = json!({
        "apiVersion": "quota.koordinator.sh/v1alpha1", "kind": "ElasticQuotaProfile",
        "metadata": { "name": name },
        "spec": { "quotaName": "root-a", "resourceRatio": ratio,
                  "quotaLabels": { "quota.scheduling.koordinator.sh/is-parent": "true" },
                  "nodeSelector": { "matchLabels": { "pool": yard.namespace } } },
    });
    yard.create(&profiles(yard), &own).await
}

/// Waits until the list at this path has an object of this name, and gives it where it is as it is to be.
async fn until(
    yard: &Yard,
    list: &str,
    name: &str,
    is_so: impl Fn(&Value) -> bool,
) -> Result<Value> {
    let find = |own: &Value| {
        let mut items = own["items"].as_array().into_iter().flatten();
        items.find(|one| one["metadata"]["name"] == name && is_so(one)).cloned()
    };
    yard.until_object(list, find).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_has_its_first_quotas_in_a_namespace_that_is_made_for_them() {
    on_both("first-quotas", async |yard| {
        let namespace = format!("{}-shares", yard.namespace);
        yard.define(QUOTAS, &format!("{GROUP}/elasticquotas")).await?;
        let own = yard.schedule(configured(&with_quotas(&namespace))?).await?;
        let list = quotas(&namespace);
        let most = json!({ "cpu": "1844674407370955161", "memory": "1844674407370955161" });
        let last = until(yard, &list, "koordinator-default-quota", |_| true).await?;
        ensure!(last["spec"] == json!({ "max": most }), "{last}");
        let system = until(yard, &list, "koordinator-system-quota", |_| true).await?;
        ensure!(system["spec"] == json!({ "max": { "cpu": "8" } }), "{system}");
        let root = until(yard, &list, "koordinator-root-quota", |_| true).await?;
        let label = |name: &str| &root["metadata"]["labels"][format!("{PREFIX}/{name}")];
        let labels = [label("is-parent"), label("allow-lent-resource"), label("parent")];
        ensure!(labels == ["true", "false", ""], "{root}");
        own.end().await?;
        // What somebody has changed stays.
        let access = yard.client.within::<api::ElasticQuota>(&namespace);
        let patch = json!({ "spec": { "max": { "cpu": "9" } } });
        access.patch("koordinator-system-quota", &Patch::Merge(patch)).await?;
        let path = format!("{list}/koordinator-default-quota");
        yard.client.call_unread(Call::new(Method::DELETE, path)).await?;
        let own = yard.schedule(configured(&with_quotas(&namespace))?).await?;
        until(yard, &list, "koordinator-default-quota", |_| true).await?;
        until(yard, &list, "koordinator-system-quota", |own| own["spec"]["max"]["cpu"] == "9")
            .await?;
        own.end().await
    })
    .await;
}

const PREFIX: &str = "quota.scheduling.koordinator.sh";

#[tokio::test(flavor = "multi_thread")]
async fn s12_p1_s12_p2_a_profile_makes_a_quota_of_its_nodes_and_follows_them() {
    on_both("quota-profile", async |yard| {
        yard.define(QUOTAS, &format!("{GROUP}/elasticquotas")).await?;
        yard.define(PROFILES, &profiles(yard)).await?;
        let labels = json!({ "metadata": { "labels": { "pool": yard.namespace } } });
        yard.node_like("one", 10, labels.clone()).await?;
        yard.node("stranger", 10).await?;
        let own = yard.schedule(configured(&with_quotas(&yard.namespace))?).await?;
        profile(yard, "pool-a", "0.9").await?;
        let list = quotas(&yard.namespace);
        let has = |cpu: &'static str| move |own: &Value| own["spec"]["min"]["cpu"] == cpu;
        let made = until(yard, &list, "root-a", has("9")).await?;
        ensure!(made["spec"]["max"]["memory"] == "4611686018427387", "{made}");
        let of = |own: &Value, label: &str| own["metadata"]["labels"][label].clone();
        let tree = of(&made, TREE_ID_LABEL);
        ensure!(tree.as_str().is_some_and(|tree| tree.parse::<u64>().is_ok()), "{made}");
        ensure!(of(&made, PROFILE_LABEL) == "pool-a", "{made}");
        ensure!(of(&made, &format!("{PREFIX}/is-root")) == "true", "{made}");
        ensure!(of(&made, &format!("{PREFIX}/is-parent")) == "true", "{made}");
        until(yard, &profiles(yard), "pool-a", |own| of(own, TREE_ID_LABEL) == tree).await?;
        // One more comes, and takes no pods for a while.
        yard.node_like("two", 10, labels).await?;
        yard.patch_node("two", json!({ "spec": { "unschedulable": true } })).await?;
        let unschedulable = |own: &Value| {
            let key = format!("{PREFIX}/unschedulable-resource");
            let text = own["metadata"]["annotations"][key].as_str().unwrap_or_default();
            serde_json::from_str::<Value>(text).unwrap_or_default()["cpu"].clone()
        };
        let is_so = |own: &Value| has("18")(own) && unschedulable(own) == "9";
        until(yard, &list, "root-a", is_so).await?;
        yard.delete_node("one").await?;
        until(yard, &list, "root-a", has("9")).await?;
        // A ratio that cannot be is told; a second profile cannot have the same quota.
        let access = yard.client.within::<api::ElasticQuotaProfile>(&yard.namespace);
        let patch = json!({ "spec": { "resourceRatio": "all" } });
        access.patch("pool-a", &Patch::Merge(patch)).await?;
        until(yard, &list, "root-a", has("10")).await?;
        let told = yard.until_told("pool-a", "InvalidProfile").await?;
        ensure!(told.contains("counts as 1.0"), "{told}");
        profile(yard, "pool-b", "0.5").await?;
        let told = yard.until_told("pool-b", "UpdateQuotaFailed").await?;
        ensure!(told.contains("is made from profile pool-a already"), "{told}");
        until(yard, &list, "root-a", |own| of(own, PROFILE_LABEL) == "pool-a").await?;
        own.end().await
    })
    .await;
}
