//! Nodes that are not well, their pods, and hollow nodes that stand by what they report.

use anyhow::Result;
use scenarios::backend::Backend;
use scenarios::system::Controllers;

use super::{Play, played, same_end};

/// Says how a node is that no kubelet speaks for.
async fn report(play: &Play<'_>, node: &str, kind: &str, status: &str) -> Result<()> {
    let patch = format!(
        r#"{{"status":{{"conditions":[{{"type":"{kind}","status":"{status}","reason":"Test"}}]}}}}"#
    );
    play.kubectl(&format!("patch node {node} --subresource=status --patch {patch}"))
        .await
        .map(|_| ())
}

/// Taints without the time at which they were added.
const TAINTS: &str = "{range .spec.taints[*]}{.key}:{.effect} {end}";

#[tokio::test(flavor = "multi_thread")]
async fn conditions_become_taints_and_lost_pods_end_on_every_server() {
    same_end("taints", 1, async |play: &Play<'_>| {
        // kube-controller-manager looks every 20 s, so this is begun first and seen last.
        let waiting = "
apiVersion: v1
kind: Pod
metadata: {name: waiting, finalizers: [example.com/hold]}
spec: {containers: [{name: main, image: registry.example/web:1}]}
";
        play.apply(waiting).await?;
        play.kubectl("delete pod waiting --wait=false").await?;
        play.apply("\napiVersion: v1\nkind: Node\nmetadata: {name: bare}\n").await?;
        report(play, "bare", "Ready", "True").await?;
        play.until("node bare", TAINTS, "").await?;
        report(play, "bare", "MemoryPressure", "True").await?;
        let pressed = "node.kubernetes.io/memory-pressure:NoSchedule";
        play.until("node bare", TAINTS, pressed).await?;
        play.kubectl("cordon bare").await?;
        let cordoned = format!("{pressed} node.kubernetes.io/unschedulable:NoSchedule");
        play.until("node bare", TAINTS, &cordoned).await?;
        play.kubectl("uncordon bare").await?;
        report(play, "bare", "MemoryPressure", "False").await?;
        report(play, "bare", "Ready", "False").await?;
        let driven =
            "node.kubernetes.io/not-ready:NoExecute node.kubernetes.io/not-ready:NoSchedule";
        play.until("node bare", TAINTS, driven).await?;
        report(play, "bare", "Ready", "True").await?;
        play.until("node bare", TAINTS, "").await?;
        play.until("pod waiting", "{.status.phase}", "Failed").await?;
        let told =
            "{.status.phase} {.status.conditions[*].reason} {.metadata.deletionGracePeriodSeconds}";
        let ended = play.show("pod waiting", told).await?;
        let let_go = r#"patch pod waiting --type=merge --patch {"metadata":{"finalizers":null}}"#;
        play.kubectl(let_go).await?;
        Ok(ended)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_no_node_is_ready_no_pod_is_driven_off_on_every_server() {
    same_end("dark", 0, async |play: &Play<'_>| {
        play.apply("\napiVersion: v1\nkind: Node\nmetadata: {name: last}\n").await?;
        play.apply("\napiVersion: v1\nkind: Node\nmetadata: {name: other}\n").await?;
        report(play, "other", "Ready", "True").await?;
        report(play, "last", "Ready", "False").await?;
        let driven =
            "node.kubernetes.io/not-ready:NoExecute node.kubernetes.io/not-ready:NoSchedule";
        play.until("node last", TAINTS, driven).await?;
        // The last ready node is lost: what would drive pods off goes from both.
        report(play, "other", "Ready", "False").await?;
        let kept = "node.kubernetes.io/not-ready:NoSchedule";
        play.until("node last", TAINTS, kept).await?;
        play.until("node other", TAINTS, kept).await?;
        // One is back, and the other one is driven empty as before.
        report(play, "other", "Ready", "True").await?;
        play.until("node other", TAINTS, "").await?;
        play.until("node last", TAINTS, driven).await?;
        Ok(String::new())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hollow_nodes_stand_by_what_they_report() {
    let ready = "{range .status.conditions[?(@.type=='Ready')]}{.status}={.reason}{end}";
    for backend in [Backend::KubeApiServer, Backend::Drydock] {
        let stage = (backend, Controllers::Ours, backend.name());
        let story = async |play: &Play<'_>| {
            let pod = "
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {nodeName: node-0000, containers: [{name: main, image: registry.example/web:1}]}
";
            play.apply(pod).await?;
            play.until("pod web", ready, "True=").await?;
            let since = "{.status.conditions[?(@.type=='Ready')].lastTransitionTime}";
            let before = play.show("pod web", since).await?;
            let unready = r#"{"status":{"conditions":[{"type":"Ready","status":"False","reason":"Test","lastTransitionTime":null}]}}"#;
            play.kubectl(&format!("patch pod web --subresource=status --patch {unready}")).await?;
            play.until("pod web", ready, "True=").await?;
            report(play, "node-0000", "Ready", "Unknown").await?;
            play.until("node node-0000", ready, "True=KubeletReady").await?;
            play.until("node node-0000", TAINTS, "").await?;
            Ok(format!("{before} {}", play.show("pod web", since).await?))
        };
        let ended = played("drift", stage, 1, &story).await;
        let ended = ended.unwrap_or_else(|error| panic!("drift, {}: {error:#}", stage.2));
        let (before, after) = ended.split_once(' ').expect("two times");
        assert_eq!(before, after, "the pod was ready all the time");
    }
}
