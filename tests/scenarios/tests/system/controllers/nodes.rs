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

/// Writes over what a node or a pod says of itself. The answer must show it: otherwise what comes
/// after would prove nothing.
async fn contradict(play: &Play<'_>, what: &str, status: &str, shown: (&str, &str)) -> Result<()> {
    let (template, wanted) = shown;
    let patch = format!(r#"patch {what} --subresource=status --patch {{"status":{status}}}"#);
    let told = play.kubectl(&format!("{patch} --output=jsonpath={template}")).await?;
    anyhow::ensure!(told == wanted, "{what} {template} is {told:?} after it was made {wanted:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn hollow_nodes_stand_by_what_they_report() {
    let ready = "{range .status.conditions[?(@.type=='Ready')]}{.status}={.reason}{end}";
    let reason = "{.status.conditions[?(@.type=='Ready')].reason}";
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
            // Times are whole seconds: one that is drawn anew must not be the same by chance.
            tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
            let unready = r#"{"conditions":[{"type":"Ready","status":"False","reason":"Test","lastTransitionTime":"2020-01-01T00:00:00Z"}]}"#;
            contradict(play, "pod web", unready, (reason, "Test")).await?;
            play.until("pod web", ready, "True=").await?;
            let after = play.show("pod web", since).await?;

            let unknown = r#"{"conditions":[{"type":"Ready","status":"Unknown","reason":"Test"}]}"#;
            contradict(play, "node node-0000", unknown, (reason, "Test")).await?;
            play.until("node node-0000", ready, "True=KubeletReady").await?;
            play.until("node node-0000", TAINTS, "").await?;
            Ok(format!("{before} {after}"))
        };
        let ended = played("drift", stage, 1, &story).await;
        let ended = ended.unwrap_or_else(|error| panic!("drift, {}: {error:#}", stage.2));
        let (before, after) = ended.split_once(' ').expect("two times");
        assert_eq!(before, after, "the pod was ready all the time");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hollow_nodes_stand_by_their_capacity() {
    for backend in [Backend::KubeApiServer, Backend::Drydock] {
        let stage = (backend, Controllers::Ours, backend.name());
        let story = async |play: &Play<'_>| {
            let cpu = "{.status.capacity.cpu}/{.status.allocatable.cpu}";
            let less = r#"{"capacity":{"cpu":"4"},"allocatable":{"cpu":"3"}}"#;
            contradict(play, "node node-0000", less, (cpu, "4/3")).await?;
            play.until("node node-0000", cpu, "8/8").await?;
            // What others add to the capacity is theirs, and can be had.
            let dongles = r"{.status.capacity.example\.com/dongle}";
            let more = r#"{"capacity":{"example.com/dongle":"4"}}"#;
            contradict(play, "node node-0000", more, (dongles, "4")).await?;
            let offered = r"{.status.allocatable.example\.com/dongle}";
            play.until("node node-0000", offered, "4").await?;
            Ok(String::new())
        };
        let ended = played("capacity", stage, 1, &story).await;
        ended.unwrap_or_else(|error| panic!("capacity, {}: {error:#}", stage.2));
    }
}
