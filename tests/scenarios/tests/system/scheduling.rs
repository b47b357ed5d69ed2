//! Pods get nodes, or are told why not, as kube-scheduler would do it.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use scenarios::backend::Backend;
use scenarios::running::Running;
use scenarios::system::{Cluster, Controllers};
use scheduler::State;
use scheduler::config::Configuration;
use serde_json::Value;

use crate::story::Story;
use crate::transcript::{Transcript, scrubbed};

/// A pod in the namespace of the story with this field of its spec.
pub fn pod(name: &str, spec: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: {name}, labels: {{app: {name}}}}}
spec:
  terminationGracePeriodSeconds: 0
  {spec}
"
    )
}

/// One container that asks for so much.
pub fn asking(requests: &str) -> String {
    format!(
        "containers: [{{name: main, image: registry.example/web:1, \
         resources: {{requests: {{{requests}}}}}}}]"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_of_a_deployment_get_nodes_and_are_told() {
    Story::new("given", 2)
        .scheduled_alike(async |kubectl| {
            kubectl
                .run("create deployment web --image=registry.example/web:1 --replicas=4")
                .await?;
            kubectl.run("wait deployment/web --for=condition=Available --timeout=30s").await?;
            let nodes = kubectl.show("pods", "{.items[*].spec.nodeName}").await?;
            let mut nodes: Vec<&str> = nodes.split_whitespace().collect();
            nodes.sort_unstable();
            kubectl.keep("get pods", &nodes.join("\n"));
            // The words of the event, without the names that no two runs share.
            let which = "events --field-selector=reason=Scheduled";
            let mut told = 0;
            let mut all = |message: &str| {
                ensure_words(message).map_err(|error| error.to_string())?;
                told += 1;
                if told == 4 { Ok(()) } else { Err(format!("{told} pods are told")) }
            };
            kubectl.follow(which, "{.type} {.message}", &mut all).await
        })
        .await;
}

fn ensure_words(message: &str) -> Result<()> {
    let words: Vec<&str> = message.split(' ').collect();
    let [tone, first, second, pod, to, node] = words[..] else {
        anyhow::bail!("{message:?} has other words");
    };
    ensure!([tone, first, second, to] == ["Normal", "Successfully", "assigned", "to"], "{message}");
    ensure!(pod.contains("/web-") && node.starts_with("node-000"), "{message}");
    Ok(())
}

/// What the pod says of its node.
async fn told(kubectl: &mut Transcript<'_>, name: &str) -> Result<()> {
    let pod = format!("pod {name}");
    let template = "{.status.conditions[?(@.type=='PodScheduled')].status} \
                    {.status.conditions[?(@.type=='PodScheduled')].reason}";
    kubectl.until(&pod, template, "False Unschedulable").await?;
    let condition = "{.status.conditions[?(@.type=='PodScheduled')]['status','reason',\
                     'observedGeneration','message']}";
    let condition = kubectl.show(&pod, condition).await?;
    kubectl.keep(&pod, &condition);
    let which = format!("events --field-selector=involvedObject.name={name}");
    let mut message = String::new();
    let mut first = |told: &str| {
        told.clone_into(&mut message);
        Ok(())
    };
    kubectl.follow(&which, "{.type} {.reason} {.message}", &mut first).await?;
    kubectl.keep(&which, &message);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_no_node_can_take_is_told_why() {
    let none = asking("");
    let cases = [
        ("large", asking("cpu: 1k")),
        ("larger", asking("cpu: 1k, memory: 1Ei")),
        ("choosy", format!("nodeSelector: {{disk: fast}}\n  {none}")),
        ("device", asking("example.com/device: 1}, limits: {example.com/device: 1")),
        (
            "away",
            format!(
                "affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: \
                 {{nodeSelectorTerms: [{{matchFields: [{{key: metadata.name, operator: In, \
                 values: [nowhere]}}]}}]}}}}}}\n  {none}"
            ),
        ),
    ];
    Story::new("why", 2)
        .scheduled_alike(async |kubectl| {
            for (name, spec) in &cases {
                kubectl.apply(&pod(name, spec)).await?;
            }
            for (name, _) in &cases {
                told(kubectl, name).await?;
            }
            Ok(())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_waits_until_it_can_have_a_node() {
    Story::new("until", 1)
        .scheduled_alike(async |kubectl| {
            kubectl.quietly("cordon node-0000").await?;
            kubectl.apply(&pod("patient", &asking("cpu: 1"))).await?;
            told(kubectl, "patient").await?;
            kubectl.quietly("uncordon node-0000").await?;
            kubectl.run("wait pod/patient --for=condition=Ready --timeout=30s").await?;
            let gates = format!("schedulingGates: [{{name: example.com/gate}}]\n  {}", asking(""));
            kubectl.apply(&pod("gated", &gates)).await?;
            let reason = "{.status.conditions[?(@.type=='PodScheduled')].reason}";
            kubectl.until("pod gated", reason, "SchedulingGated").await?;
            let open = r#"[{"op":"remove","path":"/spec/schedulingGates"}]"#;
            kubectl.quietly(&format!("patch pod gated --type=json --patch={open}")).await?;
            kubectl.run("wait pod/gated --for=condition=Ready --timeout=30s").await
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_of_higher_priority_takes_the_place_of_another() {
    let class = "
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: matters}
value: 1000
";
    Story::new("instead", 1)
        .scheduled_alike(async |kubectl| {
            kubectl.apply(class).await?;
            kubectl.apply(&pod("lesser", &asking("cpu: 6"))).await?;
            kubectl.quietly("wait pod/lesser --for=condition=Ready --timeout=30s").await?;
            let spec = format!("priorityClassName: matters\n  {}", asking("cpu: 6"));
            kubectl.apply(&pod("greater", &spec)).await?;
            kubectl.run("wait pod/greater --for=condition=Ready --timeout=30s").await?;
            kubectl.quietly("wait pod/lesser --for=delete --timeout=30s").await?;
            for (name, reason) in [("lesser", "Preempted"), ("greater", "FailedScheduling")] {
                let which =
                    format!("events --field-selector=involvedObject.name={name},reason={reason}");
                let template =
                    "{.type} {.reason} {.message} {.involvedObject.kind} {.related.name}";
                let mut told = String::new();
                let mut first = |line: &str| {
                    told = scrubbed(line);
                    Ok(())
                };
                kubectl.follow(&which, template, &mut first).await?;
                kubectl.keep(&which, &told);
            }
            Ok(())
        })
        .await;
}

pub async fn create(cluster: &Cluster, namespace: &str, names: &[&str]) -> Result<()> {
    let pods: Vec<String> = names.iter().map(|name| pod(name, &asking("cpu: 1"))).collect();
    let words = ["apply", "-n", namespace, "--filename", "-"];
    cluster.kubectl_with(&words, &pods.join("---")).await.map(drop)
}

pub async fn all_ready(cluster: &Cluster, namespace: &str) -> Result<()> {
    let words = ["wait", "pods", "--all", "--for=condition=Ready", "--timeout=30s", "-n"];
    cluster.kubectl(&[&words[..], &[namespace]].concat()).await.map(drop)
}

/// A kubeconfig of the same server for kube-scheduler's user, who may do what its roles say.
fn as_kube_scheduler(kubeconfig: &Path) -> Result<PathBuf> {
    let mut config: Value = serde_json::from_str(&std::fs::read_to_string(kubeconfig)?)?;
    let users = config["users"].as_array_mut().context("it has users")?;
    for user in users {
        user["user"]["as"] = "system:kube-scheduler".into();
    }
    let path = kubeconfig.with_file_name("kubeconfig-of-kube-scheduler");
    std::fs::write(&path, config.to_string())?;
    Ok(path)
}

/// Only a real server tells users apart by their roles.
#[tokio::test(flavor = "multi_thread")]
async fn the_roles_of_kube_scheduler_are_enough() {
    let told = async {
        let backend = Backend::KubeApiServer;
        let staged = Cluster::unscheduled("roles", backend, Controllers::Ours, 2);
        let (cluster, namespace) = staged.await?;
        let kubeconfig = as_kube_scheduler(cluster.kubeconfig())?;
        let mut own = Running::start(Configuration::default(), &kubeconfig).await?;
        own.until(State::Deciding).await?;
        create(&cluster, &namespace, &["a", "b"]).await?;
        all_ready(&cluster, &namespace).await?;
        let words = ["apply", "-n", &namespace, "--filename", "-"];
        cluster.kubectl_with(&words, &pod("huge", &asking("cpu: 1k"))).await?;
        let condition = "--for=jsonpath={.status.conditions[?(@.type=='PodScheduled')].reason}\
                         =Unschedulable";
        cluster.kubectl(&["wait", "pod/huge", "-n", &namespace, condition]).await?;
        for reason in ["Scheduled", "FailedScheduling"] {
            let which = format!("--field-selector=reason={reason}");
            let wait =
                ["wait", "events", &which, "--for=create", "--timeout=30s", "-n", &namespace];
            cluster.kubectl(&wait).await?;
        }
        let holder = ["get", "lease", "kube-scheduler", "-n", "kube-system"];
        cluster.kubectl(&holder).await?;
        own.end().await?;
        cluster.end().await
    };
    let told: Result<()> = told.await;
    told.unwrap();
}
