//! How full nodes are is worked out from what any server shows.

use anyhow::{Context as _, Result, ensure};
use chassis::client::Call;
use http::Method;
use scheduler::config::Configuration;
use scheduler::top::{Question, Report, TopError, View, from_objects};
use serde_json::json;

use crate::yard::{Yard, on_both};

const METRICS: &str = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics";
const RESERVATIONS: &str = "/apis/scheduling.koordinator.sh/v1alpha1/reservations";

/// A node says at a time what it uses.
async fn report(yard: &Yard, node: &str, at: jiff::Timestamp) -> Result<()> {
    let own = json!({ "apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric",
                      "metadata": { "name": node } });
    yard.create(METRICS, &own).await?;
    let usage = json!({ "nodeUsage": { "resources": { "cpu": "1", "memory": "16Gi" } } });
    let at = at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let status = json!({ "status": { "updateTime": at, "nodeMetric": usage } });
    yard.patch_status(&format!("{METRICS}/{node}"), status).await
}

/// A reservation of so many CPUs that is on a node.
async fn hold(yard: &Yard, name: &str, node: &str, cpu: &str) -> Result<()> {
    let requests = json!({ "cpu": cpu });
    let container =
        json!({ "name": "hold", "image": "none", "resources": { "requests": requests } });
    let own = json!({
        "apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation",
        "metadata": { "name": name },
        "spec": { "owners": [{ "object": { "name": "nobody" } }],
                  "template": { "spec": { "containers": [container] } } },
    });
    yard.create(RESERVATIONS, &own).await?;
    let status = json!({ "status": { "phase": "Available", "nodeName": node,
                                     "allocatable": requests } });
    yard.patch_status(&format!("{RESERVATIONS}/{name}"), status).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_requested_held_and_used_of_nodes_is_shown() {
    on_both("top", async |yard| {
        let configuration = Configuration::default();
        yard.node("top-a", 8).await?;
        yard.node("top-b", 8).await?;
        yard.define("nodemetrics.slo.koordinator.sh", METRICS).await?;
        yard.define("reservations.scheduling.koordinator.sh", RESERVATIONS).await?;
        report(yard, "top-a", jiff::Timestamp::now()).await?;
        let long_ago = jiff::Timestamp::now() - jiff::SignedDuration::from_mins(10);
        report(yard, "top-b", long_ago).await?;
        let held = format!("{}-r", yard.namespace);
        hold(yard, &held, "top-b", "3").await?;
        yard.pod("web", "2").await?;
        yard.bind("web", "top-a").await?;
        yard.until_on("web", "top-a").await?;
        let question = Question { sort: "reserved-cpu".parse()?, ..Question::default() };
        let top = from_objects(&yard.client, &configuration, &question).await?;
        let names: Vec<&str> = top.nodes.iter().map(|own| own.node.as_str()).collect();
        ensure!(names == ["top-b", "top-a"], "{names:?}");
        let (stale, fresh) = (&top.nodes[0], &top.nodes[1]);
        ensure!(matches!(stale.report, Report::Stale(_)), "{stale:?}");
        ensure!(matches!(fresh.report, Report::Fresh(_)), "{fresh:?}");
        let (held_cpu, cpu) = (&stale.resources["cpu"], &fresh.resources["cpu"]);
        ensure!((held_cpu.reserved, held_cpu.requested) == (3000, 0), "{held_cpu:?}");
        ensure!((cpu.reserved, cpu.requested) == (0, 2000), "{cpu:?}");
        // A pod that its node says nothing of is taken to use 85 of a hundred parts of what it asks.
        ensure!((cpu.used, cpu.estimated) == (Some(1000), Some(2700)), "{cpu:?}");
        let text = top.text(View::Plain);
        let row = "TOTAL  cpu       16           2 (13%)    3 (19%)";
        ensure!(text.contains(row), "{text}");
        let one = Question { node: Some("top-a".to_owned()), ..Question::default() };
        let one = from_objects(&yard.client, &configuration, &one).await?;
        ensure!(one.nodes.len() == 1 && one.total.is_none(), "{one:?}");
        let none = Question { node: Some("top-z".to_owned()), ..Question::default() };
        let none = from_objects(&yard.client, &configuration, &none).await;
        let none = none.err().context("there is no such node")?;
        ensure!(matches!(none, TopError::NoNode(_)), "{none}");
        for path in [
            format!("{METRICS}/top-a"),
            format!("{METRICS}/top-b"),
            format!("{RESERVATIONS}/{held}"),
        ] {
            yard.client.call_unread(Call::new(Method::DELETE, path)).await?;
        }
        Ok(())
    })
    .await;
}
