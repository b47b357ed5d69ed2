//! Teams share a cluster: each has what it is guaranteed, and borrows what others leave.

use anyhow::{Context as _, Result, ensure};
use chassis::client::Call;
use http::Method;
use scheduler::config::Configuration;
use scheduler::quotas::tree;
use scheduler::why;
use serde_json::{Value, json};

use crate::yard::{Yard, configured, merge, on_both};

const ALL: &str = "/apis/scheduling.sigs.k8s.io/v1alpha1/elasticquotas";
const DEFINITION: &str = "elasticquotas.scheduling.sigs.k8s.io";
const LABEL: &str = "quota.scheduling.koordinator.sh/name";
const RUNTIME: &str = "quota.scheduling.koordinator.sh/runtime";
const NAME: &str = "koord-scheduler";

fn path(yard: &Yard) -> String {
    format!("/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/{}/elasticquotas", yard.namespace)
}

/// A quota that is guaranteed so many CPUs and never has more than so many.
async fn quota(yard: &Yard, name: &str, min: u32, max: u32, more: &Value) -> Result<()> {
    let mut own = json!({
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota",
        "metadata": { "name": name },
        "spec": { "min": { "cpu": min.to_string() }, "max": { "cpu": max.to_string() } },
    });
    merge(&mut own, more);
    yard.create(&path(yard), &own).await
}

/// A pod of a quota.
async fn pod(yard: &Yard, name: &str, quota: &str, cpu: &str) -> Result<()> {
    pod_like(yard, name, quota, cpu, &json!({})).await
}

/// The same with more fields.
async fn pod_like(yard: &Yard, name: &str, quota: &str, cpu: &str, more: &Value) -> Result<()> {
    let mut own =
        json!({ "metadata": { "labels": { LABEL: quota } }, "spec": { "schedulerName": NAME } });
    merge(&mut own, more);
    yard.pod_like(name, cpu, own).await
}

/// What Koordinator's chart has a scheduler do.
fn of_koordinator() -> Configuration {
    Configuration { leader_election: None, ..Configuration::of_koordinator() }
}

/// Waits until a quota says that so much is used and so much may be.
async fn until_stands(yard: &Yard, name: &str, used: &str, runtime: &str) -> Result<()> {
    let runtime = json!({ "cpu": runtime }).to_string();
    let stands = |own: &Value| {
        let is_so = own["status"]["used"] == json!({ "cpu": used })
            && own["metadata"]["annotations"][RUNTIME] == runtime;
        is_so.then_some(())
    };
    yard.until_object(&format!("{}/{name}", path(yard)), stands).await
}

/// Waits until a quota has a condition of this sort, and gives its words.
async fn until_says(
    yard: &Yard,
    name: &str,
    (r#type, status, reason): (&str, &str, &str),
) -> Result<String> {
    let says = |own: &Value| {
        let mut all = own["status"]["conditions"].as_array()?.iter();
        let own = all.find(|own| own["type"] == r#type)?;
        let is_so = own["status"] == status && own["reason"] == reason;
        is_so.then(|| own["message"].as_str().unwrap_or_default().to_owned())
    };
    yard.until_object(&format!("{}/{name}", path(yard)), says).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_team_borrows_what_another_leaves_and_waits_at_its_ceiling() {
    on_both("quotas", async |yard| {
        yard.define(DEFINITION, ALL).await?;
        yard.node("shared", 10).await?;
        let configuration = of_koordinator();
        let own = yard.schedule(configuration.clone()).await?;
        quota(yard, "a", 4, 8, &json!({})).await?;
        quota(yard, "b", 4, 8, &json!({})).await?;
        let labels = json!({ "quota.scheduling.koordinator.sh/parent": "nowhere" });
        quota(yard, "lost", 1, 2, &json!({ "metadata": { "labels": labels } })).await?;
        let words = until_says(yard, "lost", ("Ready", "False", "Misplaced")).await?;
        ensure!(words.contains("its parent nowhere does not exist"), "{words}");
        until_says(yard, "a", ("Ready", "True", "InForce")).await?;
        pod(yard, "a-1", "a", "5").await?;
        yard.until_on("a-1", "shared").await?;
        pod(yard, "a-2", "a", "3").await?;
        yard.until_on("a-2", "shared").await?;
        until_stands(yard, "a", "8", "8").await?;
        pod(yard, "a-3", "a", "1").await?;
        let words = yard.until_waits("a-3", "Unschedulable").await?;
        let expected = "0/1 nodes are available: Insufficient quotas, quotaName: a, runtime: cpu 8, used: \
                        cpu 8, pod's request: cpu 1, exceedDimensions: [cpu].";
        ensure!(words == expected, "{words}");
        let answer = why::from_objects(&yard.client, &configuration, &yard.namespace, "a-3").await?;
        ensure!(answer.message.as_deref() == Some(expected), "{answer}");
        let told = answer.quota.context("a quota has no room")?;
        ensure!(told.quota == "a" && told.holders.len() == 2, "{told}");
        ensure!(told.changes[1] == "raise max of quota a to 9 of cpu", "{told}");
        let shares = tree::from_objects(&yard.client, &configuration, &Default::default()).await?;
        let figures = shares.quotas.iter().find(|own| own.quota == "a");
        let figures = figures.context("a is there")?.resources["cpu"];
        ensure!((figures.used, figures.borrowed) == (8_000, 4_000), "{}", shares.text());
        yard.delete_pod("a-2").await?;
        yard.until_on("a-3", "shared").await?;
        until_stands(yard, "a", "6", "6").await?;
        pod(yard, "b-1", "b", "4").await?;
        yard.until_on("b-1", "shared").await?;
        until_stands(yard, "b", "4", "4").await?;
        own.end().await?;
        Ok(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_uses_more_than_it_may_for_too_long_makes_room_for_whose_it_is() {
    on_both("revoked", async |yard| {
        yard.define(DEFINITION, ALL).await?;
        yard.node("shared", 10).await?;
        let args = json!({ "monitorAllQuotas": true, "delayEvictTime": "1s", "revokePodInterval": "100ms" });
        let enabled = json!({ "enabled": [{ "name": "ElasticQuota" }] });
        let profile = json!({ "schedulerName": NAME,
            "plugins": { "preFilter": enabled, "reserve": enabled },
            "pluginConfig": [{ "name": "ElasticQuota", "args": args }] });
        let own = yard.schedule(configured(&json!({ "profiles": [profile] }))?).await?;
        quota(yard, "greedy", 4, 8, &json!({})).await?;
        quota(yard, "entitled", 4, 8, &json!({})).await?;
        until_says(yard, "entitled", ("Ready", "True", "InForce")).await?;
        for (name, cpu) in [("a-1", "5"), ("a-2", "3")] {
            pod(yard, name, "greedy", cpu).await?;
            yard.until_on(name, "shared").await?;
        }
        pod(yard, "b-1", "entitled", "4").await?;
        yard.until_on("b-1", "shared").await?;
        let told = |seen: &crate::yard::Seen| {
            let of = |pod: &str| seen.told(pod, "QuotaRevoked").len();
            of("a-1") + of("a-2") == 1 && of("greedy") == 1
        };
        yard.until("one pod is told why it goes, and the quota that it does", told).await?;
        ensure!(yard.seen(|seen| seen.pods.len()) == 2, "one of a, and that of b");
        until_says(yard, "greedy", ("OverUsed", "False", "WithinRuntime")).await?;
        own.end().await?;
        Ok(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn within_a_quota_the_less_important_make_room_and_what_was_lent_is_taken_back() {
    on_both("taken-back", async |yard| {
        yard.define(DEFINITION, ALL).await?;
        let class = format!("{}-urgent", yard.namespace);
        let urgent = json!({ "metadata": { "name": class }, "value": 1000 });
        yard.create("/apis/scheduling.k8s.io/v1/priorityclasses", &urgent).await?;
        yard.node("shared", 14).await?;
        let own = yard.schedule(of_koordinator()).await?;
        for (name, min, max) in [("full", 4, 4), ("lender", 4, 10), ("borrower", 6, 10)] {
            quota(yard, name, min, max, &json!({})).await?;
            until_says(yard, name, ("Ready", "True", "InForce")).await?;
        }
        // Of two that are alike, one says that it never goes.
        let stays = json!({ "metadata": { "labels": {
            "quota.scheduling.koordinator.sh/preemptible": "false" } } });
        pod_like(yard, "stays", "full", "2", &stays).await?;
        pod(yard, "goes", "full", "2").await?;
        for (name, cpu) in [("lent-1", "6"), ("lent-2", "4")] {
            pod(yard, name, "borrower", cpu).await?;
        }
        for name in ["stays", "goes", "lent-1", "lent-2"] {
            yard.until_on(name, "shared").await?;
        }
        pod(yard, "equal", "full", "2").await?;
        let words = yard.until_waits("equal", "Unschedulable").await?;
        ensure!(words.ends_with("exceedDimensions: [cpu]."), "{words}");
        let of_class = json!({ "spec": { "priorityClassName": class } });
        pod_like(yard, "urgent", "full", "2", &of_class).await?;
        yard.until_on("urgent", "shared").await?;
        yard.until_told("goes", "Preempted").await?;
        // The borrower uses four that it is not guaranteed, and they are asked for.
        pod(yard, "own", "lender", "4").await?;
        yard.until_on("own", "shared").await?;
        let is_left = |seen: &crate::yard::Seen| {
            ["lent-1", "lent-2"].iter().filter(|name| seen.pods.contains_key(**name)).count()
        };
        ensure!(yard.seen(is_left) == 1, "one is enough");
        ensure!(yard.seen(|seen| seen.pods.contains_key("stays")), "nobody else goes");
        // Who has lost it does not take it back.
        pod_like(yard, "again", "borrower", "4", &of_class).await?;
        let words = yard.until_waits("again", "Unschedulable").await?;
        ensure!(words.contains("Insufficient quotas, quotaName: borrower"), "{words}");
        ensure!(yard.seen(|seen| seen.node("own") == "shared"), "it stays where it is");
        until_stands(yard, "lender", "4", "4").await?;
        own.end().await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_move_to_their_quota_when_it_is_made_and_wake_when_it_is_raised() {
    on_both("made-later", async |yard| {
        yard.define(DEFINITION, ALL).await?;
        yard.node("shared", 10).await?;
        let own = yard.schedule(of_koordinator()).await?;
        pod(yard, "first", "later", "2").await?;
        yard.until_on("first", "shared").await?;
        quota(yard, "later", 2, 4, &json!({})).await?;
        until_stands(yard, "later", "2", "2").await?;
        pod(yard, "second", "later", "4").await?;
        let words = yard.until_waits("second", "Unschedulable").await?;
        ensure!(words.contains("quotaName: later, runtime: cpu 4, used: cpu 2"), "{words}");
        let raised = json!({ "spec": { "max": { "cpu": "8" } } });
        yard.patch(&format!("{}/later", path(yard)), raised).await?;
        yard.until_on("second", "shared").await?;
        until_stands(yard, "later", "6", "6").await?;
        // Where it is gone, its pods are the default quota's, and bounded by nothing here.
        let call = Call::new(Method::DELETE, format!("{}/later", path(yard)));
        yard.client.call_unread(call).await?;
        pod(yard, "third", "later", "4").await?;
        yard.until_on("third", "shared").await?;
        own.end().await
    })
    .await;
}
