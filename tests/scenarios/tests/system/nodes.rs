//! Nodes that are not well, their pods, and hollow nodes that stand by what they report.

use std::time::Duration;

use anyhow::{Result, ensure};

use crate::manifests::pod;
use crate::story::{OUR_CONTROLLERS, Story};
use crate::transcript::Transcript;

/// Longer than a second of the wall clock of this machine, by which hollow nodes tell since when a
/// condition is what it is: times on the wire are whole seconds, and two that are further apart than
/// this are never the same by chance.
const ANOTHER_SECOND: Duration = Duration::from_millis(1_100);

/// Says how a node is that no kubelet speaks for.
async fn report(kubectl: &Transcript<'_>, node: &str, kind: &str, status: &str) -> Result<()> {
    let patch = format!(
        r#"{{"status":{{"conditions":[{{"type":"{kind}","status":"{status}","reason":"Test"}}]}}}}"#
    );
    let patch = format!("patch node {node} --subresource=status --patch {patch}");
    kubectl.quietly(&patch).await.map(drop)
}

/// A node of this story alone, which nobody speaks for.
async fn node(kubectl: &Transcript<'_>, name: &str) -> Result<String> {
    let name = format!("{name}.{}", kubectl.namespace);
    kubectl.apply(&format!("\napiVersion: v1\nkind: Node\nmetadata: {{name: {name}}}\n")).await?;
    Ok(name)
}

/// Waits until a node has these taints, whenever they were added.
async fn until_tainted(kubectl: &Transcript<'_>, node: &str, taints: &str) -> Result<()> {
    let template = "{.spec.taints[*].key} {.spec.taints[*].effect}";
    kubectl.until(&format!("node {node}"), template, taints).await
}

/// What keeps pods away from a node that is not ready, and what drives them off.
const KEPT: &str = "node.kubernetes.io/not-ready NoSchedule";
const DRIVEN: &str =
    "node.kubernetes.io/not-ready NoExecute node.kubernetes.io/not-ready NoSchedule";

/// What is told of a pod that is driven off, and of its node.
const FLED_TOLD: &str = "
taint-eviction-controller flees Normal TaintManagerEviction 1: Marking for deletion Pod {ns}/flees
";
const NODE_TOLD: &str = "
node-controller bare.{ns} Normal RegisteredNode 1: Node bare.{ns} event: Registered Node bare.{ns} in Controller
";

#[tokio::test(flavor = "multi_thread")]
async fn conditions_become_taints_and_lost_pods_end() {
    Story::new("taints", 1).unscheduled().alike(async |kubectl| {
        // kube-controller-manager looks every 20 s, so this is begun first and seen last.
        let waiting = pod("waiting", "").replace("metadata: {", "metadata: {finalizers: [example.com/hold], ");
        kubectl.apply(&waiting).await?;
        kubectl.quietly("delete pod waiting --wait=false").await?;
        let bare = node(kubectl, "bare").await?;
        report(kubectl, &bare, "Ready", "True").await?;
        until_tainted(kubectl, &bare, "").await?;
        let flees = "tolerations: [{key: node.kubernetes.io/not-ready, operator: Exists, \
                     effect: NoExecute, tolerationSeconds: 0}]";
        kubectl.apply(&pod("flees", &format!("nodeName: {bare}\n  {flees}"))).await?;
        report(kubectl, &bare, "MemoryPressure", "True").await?;
        let pressed = "node.kubernetes.io/memory-pressure NoSchedule";
        until_tainted(kubectl, &bare, pressed).await?;
        kubectl.quietly(&format!("cordon {bare}")).await?;
        let cordoned = format!("{pressed} node.kubernetes.io/unschedulable NoSchedule");
        until_tainted(kubectl, &bare, &cordoned).await?;
        kubectl.quietly(&format!("uncordon {bare}")).await?;
        report(kubectl, &bare, "MemoryPressure", "False").await?;
        report(kubectl, &bare, "Ready", "False").await?;
        until_tainted(kubectl, &bare, DRIVEN).await?;
        kubectl.quietly("wait pod flees --for=delete --timeout=30s").await?;
        report(kubectl, &bare, "Ready", "True").await?;
        until_tainted(kubectl, &bare, "").await?;
        kubectl.until("pod waiting", "{.status.phase}", "Failed").await?;
        let told =
            "{.status.phase} {.status.conditions[*].reason} {.metadata.deletionGracePeriodSeconds}";
        let ended = kubectl.show("pod waiting", told).await?;
        kubectl.keep("get pod waiting", &ended);
        kubectl.quietly(r#"patch pod waiting --patch {"metadata":{"finalizers":null}}"#).await?;
        kubectl.until_told("", FLED_TOLD).await?;
        let of_node = format!("--field-selector=involvedObject.name={bare} --namespace=default");
        kubectl.until_told(&of_node, NODE_TOLD).await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_no_node_is_ready_no_pod_is_driven_off() {
    Story::new("dark", 0)
        .unscheduled()
        .alike(async |kubectl| {
            let (last, other) = (node(kubectl, "last").await?, node(kubectl, "other").await?);
            report(kubectl, &other, "Ready", "True").await?;
            report(kubectl, &last, "Ready", "False").await?;
            until_tainted(kubectl, &last, DRIVEN).await?;
            // The last ready node is lost: what would drive pods off goes from both.
            report(kubectl, &other, "Ready", "False").await?;
            until_tainted(kubectl, &last, KEPT).await?;
            until_tainted(kubectl, &other, KEPT).await?;
            // One is back, and the other one is driven empty as before.
            report(kubectl, &other, "Ready", "True").await?;
            until_tainted(kubectl, &other, "").await?;
            until_tainted(kubectl, &last, DRIVEN).await
        })
        .await;
}

/// Writes over what a node or a pod says of itself. The answer must show it: otherwise what comes
/// after would prove nothing.
async fn contradict(
    kubectl: &Transcript<'_>,
    what: &str,
    status: &str,
    (template, wanted): (&str, &str),
) -> Result<()> {
    let patch = format!(r#"patch {what} --subresource=status --patch {{"status":{status}}}"#);
    let told = kubectl.quietly(&format!("{patch} --output=jsonpath={template}")).await?;
    ensure!(told == wanted, "{what} {template} is {told:?} after it was made {wanted:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn hollow_nodes_stand_by_what_they_report() {
    let ready = "{.status.conditions[?(@.type=='Ready')]['status','reason']}";
    let reason = "{.status.conditions[?(@.type=='Ready')].reason}";
    let unready = r#"{"conditions":[{"type":"Ready","status":"False","reason":"Test","lastTransitionTime":"2020-01-01T00:00:00Z"}]}"#;
    let unknown = r#"{"conditions":[{"type":"Ready","status":"Unknown","reason":"Test"}]}"#;
    Story::new("drift", 1)
        .on(OUR_CONTROLLERS)
        .unscheduled()
        .alike(async |kubectl| {
            kubectl.apply(&pod("web", "nodeName: node-0000")).await?;
            kubectl.until("pod web", ready, "True").await?;
            let since = "{.status.conditions[?(@.type=='Ready')].lastTransitionTime}";
            let before = kubectl.show("pod web", since).await?;
            tokio::time::sleep(ANOTHER_SECOND).await;
            contradict(kubectl, "pod web", unready, (reason, "Test")).await?;
            kubectl.until("pod web", ready, "True").await?;
            let after = kubectl.show("pod web", since).await?;
            ensure!(before == after, "the pod was ready from {before} on, not from {after}");
            contradict(kubectl, "node node-0000", unknown, (reason, "Test")).await?;
            kubectl.until("node node-0000", ready, "True KubeletReady").await?;
            until_tainted(kubectl, "node-0000", "").await
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_behind_a_readiness_gate_is_ready_when_the_gate_opens() {
    let ready = "{.status.conditions[?(@.type=='Ready')]['status','reason','message']}";
    let gate = "{.status.conditions[?(@.type=='example.com/checked')].status}";
    let closed = "False ReadinessGatesNotReady";
    let missing =
        r#"corresponding condition of pod readiness gate "example.com/checked" does not exist."#;
    let other =
        r#"the status of pod readiness gate "example.com/checked" is not "True", but False"#;
    let gated = "nodeName: node-0000\n  readinessGates: [{conditionType: example.com/checked}]";
    let said = |status: &str| {
        format!(r#"{{"conditions":[{{"type":"example.com/checked","status":"{status}"}}]}}"#)
    };
    Story::new("gates", 1)
        .on(OUR_CONTROLLERS)
        .unscheduled()
        .alike(async |kubectl| {
            kubectl.apply(&pod("web", gated)).await?;
            kubectl.until("pod web", ready, &format!("{closed} {missing}")).await?;
            contradict(kubectl, "pod web", &said("False"), (gate, "False")).await?;
            kubectl.until("pod web", ready, &format!("{closed} {other}")).await?;
            contradict(kubectl, "pod web", &said("True"), (gate, "True")).await?;
            kubectl.until("pod web", ready, "True").await?;
            // The containers were ready all the while.
            let containers = "{.status.conditions[?(@.type=='ContainersReady')].status}";
            let whole = kubectl.show("pod web", containers).await?;
            ensure!(whole == "True", "the containers are {whole}");
            Ok(())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hollow_nodes_stand_by_their_capacity() {
    let cpu = "{.status.capacity.cpu}/{.status.allocatable.cpu}";
    let less = r#"{"capacity":{"cpu":"4"},"allocatable":{"cpu":"3"}}"#;
    // What others add to the capacity is theirs, and can be had.
    let dongles = r"{.status.capacity.example\.com/dongle}";
    let offered = r"{.status.allocatable.example\.com/dongle}";
    let more = r#"{"capacity":{"example.com/dongle":"4"}}"#;
    Story::new("capacity", 1)
        .on(OUR_CONTROLLERS)
        .unscheduled()
        .alike(async |kubectl| {
            contradict(kubectl, "node node-0000", less, (cpu, "4/3")).await?;
            kubectl.until("node node-0000", cpu, "8/8").await?;
            contradict(kubectl, "node node-0000", more, (dongles, "4")).await?;
            kubectl.until("node node-0000", offered, "4").await
        })
        .await;
}
